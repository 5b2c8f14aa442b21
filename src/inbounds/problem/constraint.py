"""A constraint: a signal whose value must stay on one side of a bound.

Its *margin* is ``signal - at_least`` or ``at_most - signal``; a policy is *in bounds* when the value of every margin is
>= 0, and its *violation* is ``max(0, -margin)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from inbounds.arrays import ReadOnly
from inbounds.errors import InvalidInput
from inbounds.inputs import LARGEST_NUMBER, finite_or_nan, float_array, shown, within
from inbounds.tables import as_given


@dataclass(frozen=True, eq=False)
class Constraint(ReadOnly):
    """A signal whose value must stay on one side of a bound (safe reinforcement learning: a cost and its limit).

    Parameters
    ----------
    signal
        Over pairs [n] for `CMDP`, a table [S, A] for `CMDP.from_dense`, a function ``(state, action) -> number`` for
        `build`; left out where a `Simulator` reports it. With a finite horizon it may have a leading axis of stages.
    at_least, at_most
        The bound; exactly one of the two, on the scale of values: the discounted average per step (for a bound ``B`` on
        the discounted sum, give ``(1 - discount) * B``), the sum over a finite horizon, or the long-run average.
    name
        What the constraint is called in tables and messages.

    Examples
    --------
    >>> Constraint([[0.0, 1.0]], at_most=0.25, name="energy")
    Constraint('energy', at_most=0.25)
    """

    signal: Any = None
    _: KW_ONLY  # a bound without its side would be read as one of the two
    at_least: float | None = None
    at_most: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if (self.at_least is None) == (self.at_most is None):
            raise InvalidInput(f"constraint {self.name!r} needs exactly one of at_least= and at_most=")
        if not isinstance(self.name, str):
            raise InvalidInput(f"the name of a constraint must be text, found {shown(self.name)}")
        bound = finite_or_nan(self.bound)
        if not abs(bound) <= LARGEST_NUMBER:
            raise InvalidInput(
                f"constraint {self.name!r} has the bound {shown(self.bound)}; it must be a finite number, at most "
                f"{LARGEST_NUMBER:g} in size"
            )
        object.__setattr__(self, self.side, bound)  # a double of its own, whatever kind of number was given

    @property
    def bound(self) -> float:
        bound = self.at_least if self.at_least is not None else self.at_most
        assert bound is not None
        return bound

    @property
    def side(self) -> str:
        """ "at_least" or "at_most"."""
        return "at_least" if self.at_least is not None else "at_most"

    @property
    def outward(self) -> float:
        """The sign of the signal in the margin: 1 for ``at_least``, -1 for ``at_most``."""
        return 1.0 if self.at_least is not None else -1.0

    @property
    def in_words(self) -> str:
        """The bound and its side, as in a table: ">= 0.5"."""
        return f"{'>=' if self.at_least is not None else '<='} {as_given(self.bound)}"

    def margin(self, signal: Any) -> Any:
        """How far `signal` is on the right side of the bound."""
        signal = signal if isinstance(signal, float) else float_array(signal, "the signal of a constraint")
        return signal - self.bound if self.at_least is not None else self.bound - signal

    def with_bound(self, bound: float) -> Constraint:
        """The same constraint with another bound, on the same side."""
        return replace(self, **{self.side: bound})  # type: ignore[arg-type]

    def tightened(self, by: float) -> Constraint:
        """The same constraint with every margin smaller by `by`."""
        by = within(by, f"constraint {self.name!r}: tightened by what")
        return self.with_bound(self.bound + by if self.at_least is not None else self.bound - by)

    def __repr__(self) -> str:
        return f"Constraint({self.name!r}, {self.side}={as_given(self.bound)})"


def constraint_list(constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """The constraints as a tuple, or a clear refusal."""
    if isinstance(constraints, Constraint):
        raise InvalidInput("constraints must be a list: write constraints=[ib.Constraint(...)]")
    try:
        listed = tuple(constraints)
    except TypeError as error:
        raise InvalidInput(
            f"constraints must be a list of ib.Constraint records, found {shown(constraints)}"
        ) from error
    for position, constraint in enumerate(listed):
        if not isinstance(constraint, Constraint):
            raise InvalidInput(
                f"constraints must be ib.Constraint records, found {type(constraint).__name__} at position {position}"
            )
    return listed


def named_constraints(
    constraints: Sequence[Constraint], signal_of: Callable[[Constraint], Any]
) -> tuple[Constraint, ...]:
    """Constraints with their checked signals, each with a name of its own; unnamed ones are called by position."""
    checked = []
    for position, constraint in enumerate(constraint_list(constraints)):
        named = constraint if constraint.name else replace(constraint, name=f"constraint {position}")
        signal = signal_of(named)
        checked.append(named if signal is named.signal else replace(named, signal=signal))
    seen: set[str] = set()
    for constraint in checked:
        if constraint.name in seen:
            raise InvalidInput(f"two constraints are called {constraint.name!r}; give each a name of its own")
        seen.add(constraint.name)
    return tuple(checked)
