"""The price of safety: the optimum as one bound moves from where it does not matter to where nothing is in bounds.

As a function of the bound the optimum is concave and piecewise linear (its dual is a minimum of linear functions of the
bound), and its slope is the price. It is flat while the bound does not matter, then falls ever more steeply, and ends
where no policy keeps the bound together with the others.

All points are solved along one path (`inbounds.exact.path`): a policy's margin moves with the bound by the same amount
for every policy, so every policy and every upper bound found for one point serves all others, and small changes of the
best policy at one point lead to the next. Where that fails, a point is solved on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.criteria import criterion_of
from inbounds.criteria.evaluation import ROUNDING
from inbounds.errors import InvalidInput, Stopped
from inbounds.exact.feasibility import spare_occupancy
from inbounds.exact.limits import Limits, Partial, state_to_resume
from inbounds.exact.methods import best_mixture
from inbounds.exact.optimum import OPTIMAL, STALLED, UNPROVED, Optimum, flat_margins
from inbounds.exact.path import Path, Place
from inbounds.exact.reachable import require_sizes, well_scaled
from inbounds.exact.solution import Solution, assemble, policy_of
from inbounds.inputs import callback, float_array, positive, whole_number
from inbounds.problem.cmdp import CMDP
from inbounds.tables import html_card, html_table

_FLAT_SHARE = 0.15
"""The share of the points, at most, that show where the bound does not matter yet."""

MOST_POINTS = 100_000
"""Each keeps a solution."""

_EDGE = 1e-4
"""The frontier ends this share of its length before the last bound that can be met: there the price may be infinite."""

_SHARES = np.geomspace(1e-9, 1.0, 28)
"""Of a safer policy, tried in turn where one that is best by its occupancy is out of bounds when it is followed."""


@dataclass(frozen=True, eq=False, repr=False)
class Frontier:
    """The optimum as one bound moves, from the loosest to the tightest; values as the criterion has them.

    Attributes
    ----------
    constraint : str
        The name of the constraint whose bound moves.
    at_least : bool
        Whether it is an ``at_least`` bound; otherwise ``at_most``.
    bounds : array [P]
        From the loosest to the tightest.
    solutions : tuple of Solution, length P
        The optimum at each bound, with its policy, prices, margins and upper bound.
    matters_from : float
        Looser bounds than this cost nothing.
    possible_to : float
        No policy keeps a tighter bound than this together with the other constraints.
    present : float
        The bound that the problem has.
    impossible : array
        Of the bounds that were asked for, those that no policy keeps together with the other constraints; they are left
        out.
    unconstrained_solves : int
        How many unconstrained problems were solved for all points together.
    n_constraints : int
        Of the problem, K.
    status : str
        "optimal"; or the limit that was reached first, "time limit" or "iteration limit": then there are fewer points
        than were asked for, from the loosest on.
    partial : Partial, optional
        At a limit: what ``ib.frontier(..., resume=curve.partial)`` goes on from.
    """

    constraint: str
    at_least: bool
    bounds: Floats
    solutions: tuple[Solution, ...]
    matters_from: float
    possible_to: float
    present: float
    impossible: Floats
    unconstrained_solves: int
    n_constraints: int
    status: str = OPTIMAL
    partial: Partial | None = None

    @property
    def rewards(self) -> Floats:
        """The optimum at each bound, [P]."""
        return np.array([solution.reward for solution in self.solutions])

    @property
    def prices(self) -> Floats:
        """The prices of all constraints at each bound, [P, K]."""
        return np.array([solution.prices for solution in self.solutions]).reshape(
            len(self.solutions), self.n_constraints
        )

    def _repr_html_(self) -> str:
        names = [c.name for c in self.solutions[0].constraints] if self.solutions else []
        points = zip(self.bounds, self.rewards, self.prices, strict=True)
        rows = [tuple(f"{number:.6g}" for number in (bound, reward, *prices)) for bound, reward, prices in points]
        header = ("bound", "optimum", *(f"price of {name}" for name in names))
        return html_card(repr(self), html_table(header, rows, words=0))

    def __repr__(self) -> str:
        side = "at_least" if self.at_least else "at_most"
        ends = f"{self.bounds[0]:.6g} to {self.bounds[-1]:.6g}, " if len(self.bounds) else ""
        points = "1 point" if len(self.bounds) == 1 else f"{len(self.bounds)} points"
        return f"Frontier({self.constraint!r}, {side} {ends}{points})"


def frontier(
    cmdp: CMDP,
    constraint: int | str = 0,
    points: int = 50,
    *,
    bounds: Sequence[float] | None = None,
    between: tuple[float, float] | None = None,
    tolerance: float = 1e-6,
    progress: Callable[[int, int], None] | None = None,
    time_limit: float | None = None,
    iterations: int | None = None,
    resume: Partial | None = None,
) -> Frontier:
    """The optimum, its prices and its policy as one bound moves from loosest to tightest; the others stay.

    Values are in the user's units: discounted averages per step, normalised by (1 - discount), sums over a finite
    horizon, or long-run averages. (The Pareto frontier of reward and one constraint; its slope is the price, the
    Lagrange multiplier of that constraint.)

    Parameters
    ----------
    cmdp : CMDP
    constraint : int or str
        Which bound moves: its position, or its name. Its own bound in `cmdp` plays no part.
    points : int
        How many bounds, evenly spaced between a little before the bound begins to matter and the tightest possible.
    bounds : list of numbers, optional
        These bounds instead, in any order. Those that no policy keeps are left out, and are in ``curve.impossible``.
    between : (number, number), optional
        `points` bounds from one to the other instead.
    tolerance : float
        The relative gap of every point.
    progress : callable, optional
        Called as ``progress(done, points)`` when another point is finished.
    time_limit : float, optional
        Seconds for the whole call; then the points that are finished are returned.
    iterations : int, optional
        The same for the number of unconstrained solves along the path.
    resume : Partial, optional
        Of an earlier call with the same arguments: goes on from there, to the same bits. A KeyboardInterrupt has it as
        ``partial`` too.

    Raises
    ------
    Infeasible
        When the other constraints already exclude each other.
    Stopped
        When a limit was reached before there was a point.

    Examples
    --------
    >>> import inbounds as ib
    >>> curve = ib.frontier(ib.zoo.queue(), constraint="service", points=5)
    >>> round(curve.matters_from, 4), round(curve.possible_to, 4)
    (-5.0, 1.0)
    >>> bool(curve.rewards[0] > curve.rewards[-1]), curve.prices.shape
    (True, (5, 2))
    >>> some = ib.frontier(ib.zoo.queue(), "service", bounds=[2, 0.5, 0])
    >>> some.bounds.tolist(), some.impossible.tolist(), some.present
    ([0.0, 0.5], [2.0], 0.0)
    """
    if not isinstance(cmdp, CMDP):
        raise InvalidInput(f"frontier takes a CMDP; found {type(cmdp).__name__}")
    if not cmdp.constraints:
        raise InvalidInput("the problem has no constraint whose bound could move")
    k, points = cmdp.constraint_number(constraint), whole_number(points, "points", 2, MOST_POINTS)
    progress = callback(progress)
    tolerance = positive(tolerance, "tolerance")
    wanted = _wanted(bounds, between, points)
    asked, limits = (cmdp, k, points, tolerance, wanted), Limits.of(time_limit, iterations)
    walk = _Walk(cmdp, k, points, tolerance, limits, wanted, state_to_resume(resume, asked))
    try:
        for _ in walk.go():
            if progress is not None:
                progress(len(walk.state.solutions), len(walk.amounts))
        return walk.curve()
    except Stopped as stopped:
        partial = walk.known(stopped.status, asked)
        if partial.points:
            return walk.curve(stopped.status, partial)
        raise Stopped(stopped.status, partial) from None
    except KeyboardInterrupt as interrupted:
        interrupted.partial = walk.known("interrupted", asked)  # type: ignore[attr-defined]
        raise


class _Ends(NamedTuple):
    """Where a frontier begins and ends, as margins at the bound of the problem: how much tighter it can be."""

    free: Optimum
    loose: float
    tight: float
    path: Path
    solves: int  # besides those of the path


class _State(NamedTuple):
    """Where a walk along a frontier is between two points: all that the next one depends on."""

    path: Path
    last: Place | None  # approached, and not yet settled
    solutions: tuple[Solution, ...]
    solves: int


class _Walk:
    """A frontier on its way. `ends` and `state` are replaced as a whole: an interruption leaves a valid one."""

    def __init__(
        self,
        cmdp: CMDP,
        k: int,
        points: int,
        tolerance: float,
        limits: Limits,
        wanted: tuple[float, ...] | None,
        resume: Any,
    ) -> None:
        self.cmdp, self.k, self.points, self.tolerance, self.limits = well_scaled(cmdp), k, points, tolerance, limits
        self.wanted = wanted
        self.amounts = self.impossible = np.empty(0)  # how much tighter than given the bound is at each point
        require_sizes(self.cmdp)
        self.scales = self.cmdp.margin_scales
        self.ends: _Ends | None = None
        self.state: Any = None
        if resume is not None:
            self.ends, self.state = resume

    def go(self) -> Iterator[None]:
        """Solve point after point."""
        if self.ends is None:
            self.ends = self._ends()
        self.amounts, self.impossible = self._tightened()
        ends, tightened = self.ends, self.amounts
        if self.state is None:
            self.state = _State(ends.path, None, (), ends.solves)
        first = int(np.count_nonzero(tightened <= ends.loose))
        amounts = [_only(self.k, amount, self.scales) for amount in tightened]
        while (done := len(self.state.solutions)) < len(tightened):
            if limit := self.limits.reached(self.unconstrained_solves):
                raise Stopped(limit)
            path, last = self.state.path.kept(self.state.last)
            path.limits = self.limits._replace(iterations=None)
            solutions, solves = self.state.solutions, self.state.solves
            if done < first:
                there = self.cmdp.tightened(amounts[done])
                if solutions:  # the same policy, and the same upper bound
                    here = freeze(solutions[0].margins + amounts[0] - amounts[done])
                    found = replace(solutions[0], margins=here, margin_scales=there.margin_scales)
                else:
                    found, more = self._solution(amounts[done], ends.free)
                    solves += more
            else:
                place = last if last is not None else path.approach(amounts[done], self.tolerance)
                last = path.approach(amounts[done + 1], self.tolerance) if done + 1 < len(tightened) else None
                found, more = self._solution(amounts[done], path.settle(place, self.tolerance))
                solves += more
            self.state = _State(path, last, (*solutions, found), solves)
            yield

    def _ends(self) -> _Ends:
        cmdp, k, tolerance, scales = self.cmdp, self.k, self.tolerance, self.scales
        criterion, margins, reward = criterion_of(cmdp), flat_margins(cmdp), cmdp.reward.ravel()
        others = np.delete(np.arange(cmdp.n_constraints), k)
        path = Path(criterion, reward, margins, scales, self.limits)
        (free,) = path.follow([_only(k, -2.0 * float(scales[k]), scales)], tolerance)  # so loose that it cannot matter
        ahead = Path(criterion, margins[k], margins[others], scales[others], self.limits)
        (best,) = ahead.follow([np.zeros(len(others))], tolerance)
        solves = ahead.unconstrained_solves
        if free is None or best is None:  # perhaps the others exclude each other
            without = cmdp.asking(constraints=cmdp.constraints[:k] + cmdp.constraints[k + 1 :])
            free = self._whole(without)
            best = self._whole(without.asking(reward=cmdp.margins[k]))
            solves += free.unconstrained_solves + best.unconstrained_solves
            free = free._replace(prices=np.insert(free.prices, k, 0.0))
        # What a policy keeps when it is followed: next to a discount of 1, its occupancy has fewer digits.
        loose, tight = (_followed_value(cmdp, end, margins[k], tolerance) for end in (free, best))
        return _Ends(free, min(loose, free.value(margins[k])), min(tight, best.value(margins[k])), path, solves)

    def _tightened(self) -> tuple[Floats, Floats]:
        """How much tighter than given the bound is at each point, [P]; and the bounds that nothing keeps."""
        assert self.ends is not None
        if self.wanted is not None:
            own = self.cmdp.constraints[self.k]
            amounts = np.sort(own.outward * (np.array(self.wanted) - own.bound))
            # A hair beyond the last one counts as it: there the optimum is known, and its margin is rounding.
            kept = amounts <= self.ends.tight - 1e-12 * float(self.scales[self.k])
            return amounts[kept], own.bound + own.outward * amounts[~kept]
        loose, tight, scale = self.ends.loose, self.ends.tight, float(self.scales[self.k])
        length = tight - loose if tight - loose > ROUNDING * scale else 0.0
        flat = min(int(_FLAT_SHARE * self.points), self.points - 2)
        before = length * flat / (self.points - 1 - flat) if length > 0.0 else scale
        # Not the last bound itself: rounding could put the margin of a signal that never changes on either side of it.
        end = tight - max(_EDGE * length, 1e-12 * scale)
        return np.linspace(loose - before, end, self.points), np.empty(0)

    def _solution(self, amounts: Floats, mixture: Optimum | None) -> tuple[Solution, int]:
        """At bounds so much tighter [K]: from the path, or solved on its own, and how many solves that took."""
        there = self.cmdp.tightened(amounts)
        found = None if mixture is None else _assembled(there, mixture, self.tolerance)
        if found is not None and found.in_bounds:
            return found, 0
        alone, by = best_mixture(there, tolerance=self.tolerance, limits=self.limits._replace(iterations=None))
        if alone.status not in (OPTIMAL, STALLED):
            raise Stopped(alone.status)
        return _brought_in(there, alone, by), alone.unconstrained_solves

    def _whole(self, problem: CMDP) -> Optimum:
        found, _ = best_mixture(problem, tolerance=self.tolerance, limits=self.limits)
        if found.status not in (OPTIMAL, STALLED):
            raise Stopped(found.status)
        return found

    @property
    def unconstrained_solves(self) -> int:
        return 0 if self.state is None else self.state.solves + self.state.path.unconstrained_solves

    def known(self, status: str, asked: tuple[Any, ...]) -> Partial:
        return Partial(
            status,
            unconstrained_solves=self.unconstrained_solves,
            points=() if self.state is None else self.state.solutions,
            asked=asked,
            state=None if self.ends is None else (self.ends, self.state),
        )

    def curve(self, status: str = OPTIMAL, partial: Partial | None = None) -> Frontier:
        assert self.ends is not None
        chosen, solutions = self.cmdp.constraints[self.k], self.state.solutions
        return Frontier(
            constraint=chosen.name,
            at_least=chosen.at_least is not None,
            bounds=freeze(chosen.bound + chosen.outward * self.amounts[: len(solutions)]),
            solutions=solutions,
            matters_from=chosen.bound + chosen.outward * self.ends.loose,
            possible_to=chosen.bound + chosen.outward * self.ends.tight,
            present=chosen.bound,
            impossible=freeze(self.impossible),
            unconstrained_solves=self.unconstrained_solves,
            n_constraints=self.cmdp.n_constraints,
            status=status,
            partial=partial,
        )


def _followed_value(problem: CMDP, mixture: Optimum, signal: Floats, tolerance: float) -> float:
    """The value of a signal [N] under the policy of a mixture."""
    criterion, question = criterion_of(problem), problem.asking(constraints=())
    spent, _ = criterion.linked(mixture.occupancy, lambda: None, tolerance, np.empty((0, len(signal))))
    taken = policy_of(question, spent, np.empty(0), mixture.value_function)
    return float(np.sum(criterion.time_at_entries(criterion.follow(taken)) * signal))


def _assembled(problem: CMDP, mixture: Optimum, tolerance: float) -> Solution:
    scaled = flat_margins(problem) / problem.margin_scales[:, None]
    spent, linked = criterion_of(problem).linked(mixture.occupancy, lambda: None, tolerance, scaled)
    return assemble(problem, mixture._replace(occupancy=spent, linked=linked), method="path")


def _brought_in(problem: CMDP, found: Optimum, method: str) -> Solution:
    """The policy of a mixture; with so much of a safer one that it is in bounds, where it hardly mixes and is not."""
    solution = assemble(problem, found, method=method)
    spare = None if solution.in_bounds else spare_occupancy(problem, found)
    for share in _SHARES if spare is not None else ():
        mixed = found._replace(occupancy=(1.0 - share) * found.occupancy + share * spare, status=STALLED)
        solution = assemble(problem, mixed, method=method)
        if solution.in_bounds:
            break
    return solution if solution.in_bounds else replace(solution, status=UNPROVED)


def _wanted(bounds: Any, between: Any, points: int) -> tuple[float, ...] | None:
    """The bounds that were asked for; None where they are to be found."""
    if bounds is not None and between is not None:
        raise InvalidInput("give bounds= or between=, not both")
    if bounds is None and between is None:
        return None
    name = "bounds" if between is None else "between"
    given = float_array(bounds if between is None else between, name)
    if (
        given.ndim != 1
        or given.size == 0
        or not np.all(np.isfinite(given))
        or (between is not None and given.size != 2)
    ):
        wanted = "a list of finite numbers" if between is None else "two finite numbers"
        raise InvalidInput(f"{name} must be {wanted}, found {(bounds if between is None else between)!r}")
    return tuple(map(float, np.unique(given) if between is None else np.linspace(given[0], given[1], points)))


def _only(k: int, amount: float, like: Floats) -> Floats:
    amounts = np.zeros_like(like)
    amounts[k] = amount
    return amounts
