"""The three ways a call can refuse: the input is wrong, no policy is in bounds, or a limit came first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inbounds.tables import Table, as_given, kept_in_digits, text_table

if TYPE_CHECKING:
    from inbounds.arrays import Floats


class InvalidInput(ValueError):
    """The input is wrong. The message names the culprit, says what was found, and what to do."""


class TooFewSamples(InvalidInput):
    """The budget does not suffice for what has to be done before all else: `why`, and the `least` that does."""

    def __init__(self, why: str, least: int, instead: str = "") -> None:
        super().__init__(why, least, instead)
        self.why, self.least, self.instead = why, least, instead

    def __str__(self) -> str:
        return f"{self.why}; give {self.instead}at least {self.least:,} samples"


class BeyondMemory(InvalidInput):
    """What is kept of so many `samples` does not fit into memory: those of all the run, where that is known."""

    def __init__(self, samples: int | None, why: str) -> None:
        super().__init__(samples, why)
        self.samples, self.why = samples, why

    def __str__(self) -> str:
        many = "so many" if self.samples is None else f"{self.samples:,}"
        return (
            f"learning from {many} samples does not fit into memory: give fewer samples, or a smaller problem "
            f"({self.why or 'no details'})"
        )


@contextmanager
def within_memory(samples: int | None) -> Iterator[None]:
    """Within, draws are kept: what does not fit into memory is told as being about the samples."""
    try:
        yield
    except BeyondMemory as error:  # of a part of them
        error.samples = samples if samples is not None else error.samples
        raise
    except MemoryError as error:
        raise BeyondMemory(samples, str(error)) from error


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Why no policy is in bounds, and what would help; in the user's units. ``print`` it for a short table.

    Values are discounted averages per step, normalised by (1 - discount); sums over a finite horizon; or long-run
    averages per step: as the criterion of the problem says.

    Attributes
    ----------
    names : tuple of str, length K
    at_least : tuple of bool, length K
        Whether the bound is ``at_least``; otherwise it is ``at_most``.
    bounds : array [K]
    best_alone : array [K]
        The best value of each constraint's signal that any policy reaches when nothing else matters.
    relaxed_bounds : array [K]
        The tightest value of this bound alone, the others unchanged, at which some policy is in bounds; NaN where
        moving this bound alone cannot help, because the others already exclude each other. Of long-run averages whose
        policies have to link classes of states: that of a policy that does, so close to the tightest that `ib.solve`
        may need a bound that is looser by some times what the link costs. Printed, it is rounded to what can be kept;
        where rounding leaves nothing to spare, the answer there may be "not proved".
    conflict : tuple of str
        The constraints that no policy meets even alone, if there are any; otherwise those that cannot hold together, by
        the proof.
    each_alone : bool
        Which of the two it is.
    complete : bool
        False when a limit was reached first: then NaN in `best_alone` and `relaxed_bounds` may mean "not known".
    """

    names: tuple[str, ...]
    at_least: tuple[bool, ...]
    bounds: Floats
    best_alone: Floats
    relaxed_bounds: Floats
    conflict: tuple[str, ...]
    each_alone: bool
    complete: bool = True

    @property
    def reason(self) -> str:
        """The diagnosis in one sentence."""
        quoted = [repr(name) for name in self.conflict]
        if len(quoted) == 1:
            return f"no policy is in bounds: constraint {quoted[0]} cannot be met by any policy"
        listed = f"{', '.join(quoted[:-1])} and {quoted[-1]}"
        how = "can each not be met by any policy" if self.each_alone else "cannot be met together"
        return f"no policy is in bounds: constraints {listed} {how}"

    @property
    def table(self) -> Table:
        """What is known of each bound: a header, and rows of texts."""
        rows: list[tuple[str, ...]] = []
        for k, name in enumerate(self.names):
            sign = ">=" if self.at_least[k] else "<="
            relaxed = self.relaxed_bounds[k]
            unknown = "does not help alone" if self.complete else "not known"
            rounding = 1e-12 * max(abs(relaxed), abs(self.bounds[k]))
            known = relaxed == relaxed
            helps = f"{sign} {kept_in_digits(relaxed, self.at_least[k], rounding)}" if known else unknown
            rows.append((name, f"{sign} {as_given(self.bounds[k])}", f"{self.best_alone[k]:.6g}", helps))
        return ("constraint", "bound", "best alone", "or relax to"), rows

    def __str__(self) -> str:
        return f"{self.reason}\n{text_table(*self.table)}"


class Infeasible(Exception):
    """No policy is in bounds: the problem is infeasible, and Slater's condition fails.

    Values are discounted averages per step, normalised by (1 - discount); sums over a finite horizon; or long-run
    averages per step: as the criterion of the problem says.

    Attributes
    ----------
    slater : float
        The largest margin that some policy keeps in every constraint at once, in the user's units; negative here.
    prices : array [K]
        Weights >= 0 that sum to 1 (a Farkas certificate; dual variables). With `value_function` they are the proof:
        under these weights the combined margin of *every* policy is negative.
    value_function : array [S], or [H, S] for a finite horizon
        The best value, from each state, of the margins combined with `prices` (for averages: up to a constant).
    diagnosis : Diagnosis
        Which constraints conflict, the best value of each alone, and how far each bound would have to be relaxed.
    """

    def __init__(self, slater: float, prices: Floats, value_function: Floats, diagnosis: Diagnosis) -> None:
        super().__init__(slater, prices, value_function, diagnosis)
        self.slater = slater
        self.prices = prices
        self.value_function = value_function
        self.diagnosis = diagnosis

    @property
    def conflict(self) -> tuple[str, ...]:
        """Names of the constraints that cannot hold together."""
        return self.diagnosis.conflict

    def __str__(self) -> str:
        return str(self.diagnosis)


UNTOLD = ", and of those that randomise it cannot be told"
"""Of deterministic policies, where it is not proved that any policy is in bounds."""


class Stopped(Exception):
    """No policy in bounds is known, nor a proof that there is none: a limit came first, or rounding got in the way.

    Attributes
    ----------
    status : str
        The limit, "time limit" or "iteration limit"; "stalled": floating point has not the digits for this problem; of
        deterministic policies, that none is in bounds, or that none was found; or "not settled": the averages of a
        policy that hardly ever leaves some parts of the model.
    partial : Partial
        What is known: bounds on the optimum, the policy closest to being in bounds with its margins, and how many
        unconstrained problems were solved. ``ib.solve(problem, resume=error.partial)`` goes on from there. Of
        ``ib.build``: the states that were found. None where a step that is one piece was not over in time.

    Examples
    --------
    >>> import inbounds as ib
    >>> garnet = ib.zoo.garnet(states=100, seed=1)
    >>> try:
    ...     best = ib.solve(garnet, "bundle", iterations=1)
    ... except ib.Stopped as stopped:
    ...     best = ib.solve(garnet, "bundle", resume=stopped.partial)
    >>> best.status
    'optimal'
    """

    def __init__(self, status: str, partial: Any = None) -> None:
        super().__init__(status, partial)
        self.status = status
        self.partial = partial

    def __str__(self) -> str:
        known = self.partial
        if self.status == "stalled":
            return (
                "no policy in bounds was found, nor a proof that there is none: the numbers of this problem are too "
                "far apart for floating point, or its bounds only just cannot be met; relax them a little, or rescale"
            )
        if self.status == "not settled":
            return (
                "the long-run averages of the policy were not found: it hardly ever leaves some parts of the model, "
                "and the time in each did not settle; a discount below 1, or a horizon, asks less of it"
            )
        if self.status.endswith(UNTOLD):
            return f"{self.status}: its bounds can only just be met; relax them a little"
        if self.status.startswith("no deterministic"):
            return (
                f"{self.status}, but one that may randomise is: leave deterministic out, or relax the bounds a little"
            )
        return f"{self.status} reached {getattr(known, 'so_far', '') or 'before anything was known; allow more'}"
