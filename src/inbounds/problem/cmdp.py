"""The problem: a finite constrained Markov decision process (CMDP).

Reward is maximised. A constraint is a signal with a bound, ``at_least`` or ``at_most``; its *margin* is
``signal - at_least`` or ``at_most - signal``, and a policy is *in bounds* when the value of every margin is >= 0.

Values are normalised by (1 - discount): an occupancy sums to 1, a value is a discounted average per step, and bounds
are given on that scale. ``total = value / (1 - discount)`` is the discounted sum.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from inbounds.arrays import Floats, Ints, divisors, freeze
from inbounds.errors import InvalidInput
from inbounds.formats import read_model, write_model
from inbounds.inputs import float_array, float_vector
from inbounds.problem.pairs import Pairs, table_entries

if TYPE_CHECKING:
    from inbounds.problem.simulator import Simulator

SUM_TOLERANCE = 1e-9
"""How far the probabilities of a row may sum from 1 before the row counts as wrong; within it, it is renormalised."""


_ROUNDED_TO_ZERO = 1e-12
"""A margin smaller than this share of its signal and bound is the rounding of their difference."""


@dataclass(frozen=True, eq=False)
class Constraint:
    """A signal whose value must stay on one side of a bound.

    Parameters
    ----------
    signal
        Over pairs [n] for `CMDP`, a table [S, A] for `CMDP.from_dense`, a function ``(state, action) -> number`` for
        `build`; left out where a `Simulator` reports it.
    at_least, at_most
        The bound; exactly one of the two. Like every value it is normalised by (1 - discount): a bound on the
        discounted average per step. For a bound ``B`` on the discounted sum, give ``(1 - discount) * B``.
    name
        What the constraint is called in tables and messages.

    Examples
    --------
    >>> Constraint([[0.0, 1.0]], at_most=0.25, name="energy")
    Constraint('energy', at_most=0.25)
    """

    signal: Any = None
    at_least: float | None = None
    at_most: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if (self.at_least is None) == (self.at_most is None):
            raise InvalidInput(f"constraint {self.name!r} needs exactly one of at_least= and at_most=")
        try:
            finite = math.isfinite(self.bound)
        except (TypeError, OverflowError):
            finite = False
        if not finite:
            raise InvalidInput(f"constraint {self.name!r} has the bound {self.bound!r}; it must be a finite number")

    @property
    def bound(self) -> float:
        bound = self.at_least if self.at_least is not None else self.at_most
        assert bound is not None
        return bound

    def margin(self, signal: Any) -> Any:
        """How far `signal` is on the right side of the bound."""
        return signal - self.bound if self.at_least is not None else self.bound - signal

    def tightened(self, by: float) -> Constraint:
        """The same constraint with every margin smaller by `by`."""
        return with_bound(self, self.bound + by if self.at_least is not None else self.bound - by)

    def __repr__(self) -> str:
        side = "at_least" if self.at_least is not None else "at_most"
        return f"Constraint({self.name!r}, {side}={self.bound:g})"


def with_bound(constraint: Constraint, bound: float) -> Constraint:
    """The same constraint with another bound, on the same side."""
    if constraint.at_least is not None:
        return replace(constraint, at_least=bound)
    return replace(constraint, at_most=bound)


class Problem:
    """What problems of both kinds have, whatever a value is in them: pairs, and constraints with bounds to move."""

    pairs: Pairs
    constraints: tuple[Constraint, ...]

    @property
    def n_states(self) -> int:
        return self.pairs.n_states

    @property
    def n_pairs(self) -> int:
        return self.pairs.n_pairs

    @property
    def n_constraints(self) -> int:
        return len(self.constraints)

    def _set_fields(self, pairs: Pairs, **checked: Any) -> None:
        """Replace the fields of this record by what the checks have made of them."""
        fields = {
            "offsets": pairs.offsets,
            "actions": pairs.actions,
            "state_labels": pairs.state_labels,
            "action_labels": pairs.action_labels,
            "pairs": pairs,
            **checked,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def tightened(self, by: Any) -> Self:
        """The same problem with the margin of every constraint smaller by `by` (a number, or one per constraint).

        In the units of the bounds. The conservative problem of the paper, whose ``kappa`` is in scaled units, is
        ``cmdp.tightened(kappa * cmdp.margin_scales)``.
        """
        amounts = float_array(by, "the tightening")
        if amounts.ndim == 0:
            amounts = np.full(self.n_constraints, amounts)
        amounts = float_vector(amounts, self.n_constraints, "the tightening")
        constraints = tuple(c.tightened(float(a)) for c, a in zip(self.constraints, amounts, strict=True))
        # Everything but the bounds has been checked, and is shared: moving a bound of a large model costs nothing.
        moved = copy(self)
        object.__setattr__(moved, "constraints", constraints)
        for depends_on_bounds in ("margins", "margin_scales"):
            moved.__dict__.pop(depends_on_bounds, None)
        return moved


@dataclass(frozen=True, eq=False, repr=False)
class CMDP(Problem):
    """A finite constrained Markov decision process, in its native form: vectors over pairs.

    Most models come from `CMDP.from_dense` or `build`. Every array is copied, checked and made read-only; a
    probability row that is wrong is reported with the labels of its state and action.

    Attributes
    ----------
    offsets : int array [S + 1]
        State ``s`` owns pairs ``offsets[s] : offsets[s + 1]``.
    transition : CSR array [n, S]
        Probabilities of the next state, one row per pair.
    reward : array [n]
        Maximised.
    constraints : tuple of Constraint, each with a signal [n]
    initial : array [S]
        Distribution of the first state.
    discount : float in [0, 1)
    actions : int array [n], optional
        The action of each pair; by default 0, 1, 2, ... within each state.
    state_labels, action_labels : tuples, optional
        The user's names.
    name : str
        What the problem is called in tables.
    pairs : Pairs
        The numbering of states and actions, made from the fields above.

    Examples
    --------
    One state; working pays 1 and costs 1 unit of energy, resting pays nothing; at most a quarter of the time at work:

    >>> import inbounds as ib
    >>> cmdp = ib.CMDP(
    ...     offsets=[0, 2], transition=[[1.0], [1.0]], reward=[1.0, 0.0],
    ...     constraints=[ib.Constraint([1.0, 0.0], at_most=0.25, name="energy")], initial=[1.0], discount=0.9)
    >>> cmdp
    CMDP(1 state, 2 pairs, 1 constraint, discount 0.9)
    >>> cmdp.margins
    array([[-0.75,  0.25]])
    """

    offsets: Ints
    transition: Any
    reward: Floats
    constraints: tuple[Constraint, ...]
    initial: Floats
    discount: float
    actions: Ints | None = None
    state_labels: tuple[Hashable, ...] | None = None
    action_labels: tuple[Hashable, ...] | None = None
    name: str = ""
    pairs: Pairs = field(init=False)

    def __post_init__(self) -> None:
        pairs = Pairs.create(self.offsets, self.actions, self.state_labels, self.action_labels)
        n_states, n_pairs = pairs.n_states, pairs.n_pairs
        reward = float_vector(self.reward, n_pairs, "reward")
        require_finite(reward, "the reward", pairs)
        self._set_fields(
            pairs,
            discount=valid_discount(self.discount),
            reward=reward,
            constraints=named_constraints(self.constraints, lambda c: _valid_signal(c, pairs)),
            initial=valid_initial(self.initial, pairs),
            transition=valid_transition(self.transition, n_pairs, n_states, pairs),
        )

    @classmethod
    def from_dense(
        cls,
        transition: Any,
        *,
        reward: Any,
        constraints: Sequence[Constraint] = (),
        initial: Any,
        discount: float,
        allowed: Any = None,
        state_labels: Sequence[Hashable] | None = None,
        action_labels: Sequence[Hashable] | None = None,
        name: str = "",
    ) -> CMDP:
        """A model from dense arrays.

        Parameters
        ----------
        transition : array [S, A, S]
        reward : array [S, A]
        constraints : each with a signal [S, A]
        initial : array [S]
        discount : float in [0, 1)
        allowed : bool array [S, A], optional
            False where a state does not have an action; whatever the other arrays hold there is ignored.
        state_labels, action_labels : sequences of length S and A, optional

        Examples
        --------
        >>> import numpy as np, inbounds as ib
        >>> stay, move = np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]])
        >>> ib.CMDP.from_dense(
        ...     np.stack([stay, move], axis=1), reward=[[0.0, 1.0], [0.0, 2.0]],
        ...     constraints=[ib.Constraint([[0.0, 1.0], [0.0, 1.0]], at_most=0.5, name="moves")],
        ...     initial=[1.0, 0.0], discount=0.8)
        CMDP(2 states, 4 pairs, 1 constraint, discount 0.8)
        """
        dense = float_array(transition, "transition")
        if dense.ndim != 3 or dense.shape[0] != dense.shape[2] or 0 in dense.shape:
            raise InvalidInput(f"transition must have shape [S, A, S], found {dense.shape}")
        where, fields = dense_fields(dense.shape[:2], reward, constraints, allowed, state_labels, action_labels)
        return cls(transition=sp.csr_array(dense[where]), initial=initial, discount=discount, name=name, **fields)

    @cached_property
    def margins(self) -> Floats:
        """The margin of every constraint at every pair, [K, n]."""
        margins = np.empty((self.n_constraints, self.n_pairs))
        for row, constraint in zip(margins, self.constraints, strict=True):
            row[:] = constraint.margin(constraint.signal)
        return freeze(margins)

    @cached_property
    def margin_scales(self) -> Floats:
        """The largest absolute margin of each constraint at any pair, [K].

        Where the signal equals the bound throughout, up to rounding, the size of the bound instead (1 if that is 0).
        """
        scales = np.empty(self.n_constraints)
        for k, constraint in enumerate(self.constraints):
            ends = extremes(constraint.signal)
            size = max(float(np.abs(ends).max()), abs(constraint.bound)) or 1.0
            largest = float(np.abs(constraint.margin(ends)).max())
            scales[k] = largest if largest > _ROUNDED_TO_ZERO * size else size
        return freeze(scales)

    @property
    def criterion(self) -> dict[str, Any]:
        """What a value is: ``{"discount": d}``, as in files and certificates."""
        return {"discount": self.discount}

    def total(self, value: Any) -> Any:
        """A normalised value as the discounted sum it stands for: value / (1 - discount)."""
        return value / (1.0 - self.discount)

    def unconstrained(self) -> CMDP:
        """The same problem without its constraints."""
        return replace(self, constraints=())

    def simulator(self) -> Simulator:
        """The sampling access to this model that learners are given."""
        from inbounds.problem.simulator import Simulator

        return Simulator.tabular(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that ``ib.load(path)`` reads, whole or not at all.

        The suffix decides: ``.npz`` for any size, ``.toml`` to read and edit. Both keep every number to the last bit,
        and the labels.
        """
        write_model(self, path)

    def __repr__(self) -> str:
        return f"CMDP({sizes(self.pairs, self.n_constraints, self.name)}, discount {self.discount:g})"


def load(path: str | os.PathLike[str]) -> CMDP:
    """The model in a file, ``.npz`` or ``.toml``; bounds in files are on the scale of the model's values.

    Examples
    --------
    >>> import tempfile, inbounds as ib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ib.zoo.queue().save(f"{folder}/queue.npz")
    ...     ib.load(f"{folder}/queue.npz")
    CMDP(queue: 6 states, 96 pairs, 2 constraints, discount 0.5)
    """
    fields = read_model(path)
    try:
        constraints = tuple(Constraint(**constraint) for constraint in fields.pop("constraints"))
        return CMDP(constraints=constraints, **fields)
    except InvalidInput as error:
        raise InvalidInput(f"{os.fspath(path)}: {error}") from error


def sizes(pairs: Pairs, n_constraints: int, name: str = "") -> str:
    """The size of a problem in words, after its name."""
    counts = ((pairs.n_states, "state"), (pairs.n_pairs, "pair"), (n_constraints, "constraint"))
    words = (f"{count:,} {word}{'' if count == 1 else 's'}" for count, word in counts)
    return f"{f'{name}: ' if name else ''}{', '.join(words)}"


def extremes(signal: Floats) -> Floats:
    """The least and the largest entry of a signal [n], [2]; of each stage of one [H, n], [2, H].

    One of them has the largest absolute margin, to the last bit: a subtraction keeps the order, rounded or not.
    """
    return np.array([signal.min(axis=-1), signal.max(axis=-1)])


def dense_fields(
    shape: tuple[int, ...],
    reward: Any,
    constraints: Sequence[Constraint],
    allowed: Any,
    state_labels: Sequence[Hashable] | None,
    action_labels: Sequence[Hashable] | None,
    horizon: int | None = None,
) -> tuple[tuple[Ints, ...], dict[str, Any]]:
    """The states and actions that are pairs, ([n], [n]), and what dense tables say of them, as the fields of a problem.

    The tables have the shape [S, A] that is given; or, with a `horizon`, may have one such table for each stage.
    """
    n_states, n_actions = shape
    shapes = {"[S, A]": shape} if horizon is None else {"[S, A]": shape, "[H, S, A]": (horizon, *shape)}
    mask = np.ones((n_states, n_actions), dtype=bool) if allowed is None else np.asarray(allowed)
    if mask.shape != (n_states, n_actions) or mask.dtype != bool:
        raise InvalidInput(
            f"allowed must be booleans of shape [S, A] = ({n_states}, {n_actions}), "
            f"found {mask.dtype} of shape {mask.shape}"
        )
    where = np.nonzero(mask)
    fields = {
        "offsets": np.concatenate([[0], np.cumsum(mask.sum(axis=1))]),
        "actions": where[1],
        "reward": table_entries(reward, where, shapes, "reward"),
        "constraints": tuple(
            replace(c, signal=table_entries(c.signal, where, shapes, f"the signal of constraint {c.name!r}"))
            for c in named_constraints(constraints, lambda c: c.signal)
        ),
        "state_labels": tuple(state_labels) if state_labels is not None else None,
        "action_labels": tuple(action_labels) if action_labels is not None else tuple(range(n_actions)),
    }
    return where, fields


def constraint_list(constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """The constraints as a tuple, or a clear refusal."""
    if isinstance(constraints, Constraint):
        raise InvalidInput("constraints must be a list: write constraints=[ib.Constraint(...)]")
    try:
        listed = tuple(constraints)
    except TypeError as error:
        raise InvalidInput(f"constraints must be a list of ib.Constraint records, found {constraints!r}") from error
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
        named = replace(constraint, name=constraint.name or f"constraint {position}")
        checked.append(replace(named, signal=signal_of(named)))
    seen: set[str] = set()
    for constraint in checked:
        if constraint.name in seen:
            raise InvalidInput(f"two constraints are called {constraint.name!r}; give each a name of its own")
        seen.add(constraint.name)
    return tuple(checked)


def _valid_signal(constraint: Constraint, pairs: Pairs) -> Floats:
    what = f"the signal of constraint {constraint.name!r}"
    signal = float_vector(constraint.signal, pairs.n_pairs, what)
    require_finite(signal, what, pairs)
    return signal


def require_finite(values: Floats, what: str, pairs: Pairs) -> None:
    bad = ~np.isfinite(values)
    if np.any(bad):
        pair = int(np.argmax(bad))
        raise InvalidInput(f"{pairs.describe(pair)}: {what} is {values[pair]}; it must be finite{_and_more(bad)}")


def valid_discount(discount: float) -> float:
    try:
        value = float(discount)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"discount must be a number in [0, 1), found {discount!r}") from error
    if not 0.0 <= value < 1.0:
        raise InvalidInput(f"discount must be in [0, 1), found {value}")
    return value


def valid_initial(initial: Any, pairs: Pairs) -> Floats:
    vector = float_vector(initial, pairs.n_states, "initial")
    bad = ~(np.isfinite(vector) & (vector >= 0.0))
    if np.any(bad):
        state = int(np.argmax(bad))
        raise InvalidInput(
            f"initial gives state {pairs.state_label(state)!r} the probability {vector[state]}; "
            f"it must be a number >= 0{_and_more(bad)}"
        )
    with np.errstate(over="ignore"):
        total = vector.sum()
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise InvalidInput(f"initial must sum to 1, found {total:.12g}")
    return freeze(vector / divisors(total, np.count_nonzero(vector)))


def valid_transition(transition: Any, n_pairs: int, n_states: int, pairs: Pairs) -> Any:
    try:
        matrix = sp.csr_array(transition, dtype=np.float64, copy=True)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"transition must be a sparse or dense matrix [n, S] of numbers ({error})") from error
    if matrix.shape != (n_pairs, n_states):
        raise InvalidInput(
            f"transition must have shape [n, S] = ({n_pairs}, {n_states}), one row per pair, found {matrix.shape}"
        )
    matrix.sum_duplicates()
    bad = ~(np.isfinite(matrix.data) & (matrix.data >= 0.0))
    if np.any(bad):
        entry = int(np.argmax(bad))
        pair = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        target = pairs.state_label(int(matrix.indices[entry]))
        raise InvalidInput(
            f"{pairs.describe(pair)}: the probability of moving to state {target!r} is {matrix.data[entry]}; "
            f"it must be a number >= 0{_and_more(bad)}"
        )
    matrix.eliminate_zeros()
    with np.errstate(over="ignore"):  # an infinite sum is reported like any other wrong one
        sums = np.asarray(matrix.sum(axis=1)).ravel()
    bad = ~(np.abs(sums - 1.0) <= SUM_TOLERANCE)
    if np.any(bad):
        pair = int(np.argmax(bad))
        raise InvalidInput(
            f"{pairs.describe(pair)}: the probabilities of the next state sum to {sums[pair]:.12g}; "
            f"they must sum to 1{_and_more(bad)}"
        )
    lengths = np.diff(matrix.indptr)
    matrix.data /= np.repeat(divisors(sums, lengths), lengths)
    # Sweeps over the rows are bound by memory: half as wide an index, where it suffices, is a quarter less to read.
    index = np.int32 if max(matrix.nnz, n_pairs, n_states) < 2**31 else np.int64
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    for array in (matrix.data, matrix.indices, matrix.indptr):
        freeze(array)
    return matrix


def _and_more(bad: Any) -> str:
    others = int(np.count_nonzero(bad)) - 1
    return f" (and {others:,} more like it)" if others else ""
