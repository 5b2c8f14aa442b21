"""The exact answer by one of several methods, and the choice between them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from inbounds.arrays import freeze
from inbounds.criteria import criterion_of
from inbounds.criteria.evaluation import ROUNDING, within_rounding
from inbounds.errors import InvalidInput, Stopped
from inbounds.exact.bundle import Bundle, GapProgress, Round
from inbounds.exact.feasibility import PROGRAM_ENTRIES, Slater, infeasible, slater_within, spare_occupancies
from inbounds.exact.from_answer import corner_from
from inbounds.exact.limits import NO_LIMITS, TIME, Limits
from inbounds.exact.lp import occupancy_lp, vertex_near
from inbounds.exact.optimum import OPTIMAL, STALLED, Optimum, Units, flat_margins
from inbounds.exact.path import Path
from inbounds.exact.rare import best_instead, with_best_values, without_rare_losses
from inbounds.exact.reachable import raised, require_sizes, well_scaled, where_reached
from inbounds.exact.solution import Solution, assemble, taken_by
from inbounds.exact.start import Start
from inbounds.exact.vertex import Corners
from inbounds.inputs import a_word, positive
from inbounds.problem.cmdp import CMDP

METHODS, COINS = ("auto", "bundle", "lp", "polish"), ("few", "any")

_PATIENCE = 15
"""Unconstrained solves from a start, at most: about as many as a bundle takes from nothing. Nearby it takes 2 to 6."""

_DIAGNOSED = 1e-8
"""The relative gap to which a diagnosis is found, at least, however good the answer would have to be."""

_NEARLY = 1e-3
"""Where small changes come this close, in scaled units, but not to a mixture in bounds, its vertex is looked for."""


FAR = 1e-3
"""A gap, relative to the optimum, that neither a link nor a proof should leave: then HiGHS was wrong."""

_NO_PRICE = 1e-13
"""Of scaled margins: a price below changes an upper bound by less than a proof loses to rounding."""

_MANY_COINS = 8
"""For each constraint. On random, ring and grid problems a bundle ended with 1 to 7; on a fleet of like vehicles, where
many policies are equally good, with 12 to thousands, and there the way to a vertex is longer than that to a mixture."""

_POLISHED_ENTRIES = 10_000
"""Up to this many HiGHS looks for another vertex where that of a bundle falls apart: it takes seconds."""


class Watch:
    """A search at work, for those who want to know how far it came; and where one is to begin, or to go on from.

    Parameters
    ----------
    resume : Round, optional
        Where a bundle was.
    start : Solution, optional
        Of a similar problem; it plays no part once there is a bundle.
    """

    def __init__(self, resume: Round | None = None, start: Any = None) -> None:
        self.resume, self.start = resume, start
        self.search: Bundle | Path | None = None

    @property
    def state(self) -> tuple[Round | None, Any]:
        """Where a search of the same problem can go on from: what to make another of these from."""
        return (self.search.round if isinstance(self.search, Bundle) else self.resume), self.start


def best_mixture(
    problem: CMDP,
    method: str = "auto",
    *,
    tolerance: float = 1e-8,
    progress: GapProgress | None = None,
    limits: Limits = NO_LIMITS,
    watch: Watch | None = None,
    coins: str = "any",
) -> tuple[Optimum, str]:
    """The occupancy of a best policy in bounds, and the method that found it; raises `Infeasible` when there is none.

    The arguments are those of ``ib.solve``. With few coins it is a vertex, where one is found: see `Optimum.corner`. At
    a limit the status of the mixture says so; `Stopped` when none in bounds is known.
    """
    method, coins = a_word(method, "method", *METHODS), a_word(coins, "coins", *COINS)
    if not isinstance(problem, CMDP):
        raise InvalidInput(f"solve takes a CMDP, found {type(problem).__name__}")
    tolerance = positive(tolerance, "tolerance")
    asked = well_scaled(problem)
    require_sizes(asked)
    start = None if watch is None or watch.start is None else Start.of(problem, watch.start)
    attempt = partial(_attempt, method=method, tolerance=tolerance, limits=limits, coins=coins)
    found, by = attempt(asked, progress=progress, watch=watch, start=start)
    if isinstance(found, Slater):
        values = raised(problem, asked, found.prices, found.value_function.ravel(), reward_weight=0.0)
        proof = replace(found, value_function=freeze(values.reshape(found.value_function.shape)))
        raise infeasible(asked, proof, lambda other: attempt(other, tolerance=min(tolerance, _DIAGNOSED))[0])
    if coins == "few":
        found = with_few_coins(asked, found, tolerance, limits)
    return brought_back(problem, asked, found), by


def with_few_coins(asked: CMDP, found: Optimum, tolerance: float, limits: Limits, thorough: bool = True) -> Optimum:
    """The vertex at or next to a mixture, where there is one that is as good; from a start it may be one already.

    What a vertex is worth by its base's own vectors need not be what its policy is worth: where a chain hardly ever
    comes back these have no digits. When the time was over before one was found, the status says so.
    """
    if found.corner is not None or found.status != OPTIMAL or found.linked:
        return found
    if not asked.n_constraints:
        return _without_coins(asked, found, tolerance)
    corner = Corners(asked).find(found, tolerance, limits, thorough)
    if corner is None:
        return found._replace(status=TIME) if limits.over else found
    few, allowed = corner.mixture(asked, found), gap_allowed(asked, found.upper_bound, tolerance)
    left = few.upper_bound - few.value(asked.reward)  # its occupancy is that of its policy, followed
    good = _in_bounds(asked, few) and left <= allowed
    return few if good or _gap(asked, few) <= _gap(asked, found) else found


def _without_coins(asked: CMDP, found: Optimum, tolerance: float) -> Optimum:
    """No constraint, no coin: what a linear program leaves beside the best entries is rounding, or as good as they."""
    criterion, (chosen, time) = criterion_of(asked), Corners(asked).mostly(found)
    priced, found = with_best_values(asked, found)
    best = best_instead(criterion, priced, found.value_function, chosen)
    if criterion.mass_row:  # elsewhere it goes to where it stays
        best = np.where(time > 0.0, best, chosen)
    pure = found._replace(pure=best)
    if _gap(asked, pure) > max(_gap(asked, found), gap_allowed(asked, found.upper_bound, tolerance)):
        return found
    return pure._replace(occupancy=criterion.time_at_entries(criterion.follow(taken_by(asked, pure), time)))


def brought_back(problem: CMDP, asked: CMDP, found: Optimum) -> Optimum:
    """What was found for `asked`, the well scaled form of a problem, as an answer to the problem itself.

    Prices that are zero but for rounding are zero: what they prove is the same up to that.
    """
    units = Units.of(criterion_of(asked), asked.reward.ravel(), asked.margin_scales)
    told = found.prices * units.scales > _NO_PRICE * units.spread
    found = found._replace(prices=np.where(told, found.prices, 0.0))
    if found.corner is None and found.pure is None:
        found = without_rare_losses(asked, found)
    values = raised(problem, asked, found.prices, found.value_function)
    found = found._replace(occupancy=where_reached(problem, found.occupancy), value_function=values)
    return _greedy_elsewhere(problem, found)


def _greedy_elsewhere(problem: CMDP, found: Optimum) -> Optimum:
    """A vertex that is greedy at the prices where it never comes. (For averages: it goes to where it stays.)"""
    criterion = criterion_of(problem)
    if found.corner is None or criterion.mass_row:
        return found
    visited = np.bincount(criterion.places, found.occupancy, criterion.n_places) > 0.0
    if np.all(visited):
        return found
    priced = problem.reward.ravel() + np.einsum("k,kn->n", found.prices, flat_margins(problem))
    return found._replace(corner=found.corner.elsewhere(visited, criterion.greedy(priced, found.value_function)))


def solve_uncertified(problem: CMDP, method: str = "auto", *, tolerance: float = 1e-8) -> Solution:
    """The most reward among the policies in bounds, without a proof of it."""
    found, by = best_mixture(problem, method, tolerance=tolerance)
    return assemble(problem, found, method=by)


def _attempt(
    problem: CMDP,
    method: str,
    tolerance: float,
    limits: Limits,
    progress: GapProgress | None = None,
    watch: Watch | None = None,
    start: Start | None = None,
    coins: str = "any",
) -> tuple[Optimum | Slater, str]:
    """A mixture in bounds; or, when there is none, the largest joint margin, which is negative: the proof.

    "auto" takes the linear program for small problems, if its answer is as good as was asked for: where chains hardly
    mix, what HiGHS calls an optimum need not be one. Larger problems, and those, go through unconstrained ones, of
    which there may be just one. From the answer to a similar problem small changes come first; but where any coins will
    do, and that answer has many, the bundle begins at its prices.
    """
    criterion, watch = criterion_of(problem), watch or Watch()
    small = method == "auto" and problem.reward.size <= PROGRAM_ENTRIES
    candidates: list[tuple[Optimum, str]] = []
    if small or method == "lp":
        program, late = _program(problem, limits)
        if late and method == "lp":
            raise Stopped(TIME)
        if program is not None and _in_bounds(problem, program):
            first = _linked(problem, program, tolerance)
            candidates.append((first, "lp"))
            allowed = gap_allowed(problem, program.upper_bound, FAR if method == "lp" else tolerance)
            if (method == "lp" and not first.linked) or _gap(problem, first) <= allowed:
                return first, "lp"
            if method == "lp":  # classes that change by moves as rare as what HiGHS takes for rounding
                with suppress(Stopped):
                    other = _attempt(problem, "bundle", tolerance, limits, progress, watch, coins=coins)
                    if isinstance(other[0], Optimum) and _gap(problem, other[0]) < _gap(problem, first):
                        return other
                return first, "lp"
        elif not late and (best := slater_within(problem, limits)).proves_infeasible(problem.margin_scales):
            return best, "slater"  # HiGHS itself often answers "unknown" when no policy is in bounds
    if method == "auto" and problem.n_constraints == 0:
        return _unconstrained(problem, tolerance, progress, limits), "policy iteration"
    if method != "lp":
        reward, margins = problem.reward.ravel(), flat_margins(problem)
        try:
            mixed = start is not None and coins == "any" and start.coins > _MANY_COINS * problem.n_constraints
            found, by = None if mixed else _from_start(problem, start, tolerance, limits, watch, progress), "path"
            if found is None:
                began = start if mixed else None
                watch.search = Bundle(criterion, reward, margins, problem.margin_scales, watch.resume, began)
                found, by = watch.search.solve(tolerance, progress, limits), "bundle"
        except Stopped:
            if not candidates:
                raise
            return candidates[0]
        if found is not None and _in_bounds(problem, found):
            candidates.append((found if by == "path" else _linked(problem, found, tolerance), by))
            again = method == "polish" or (
                method == "auto" and _linked_at_a_cost(problem, candidates[-1][0], tolerance)
            )
            if again and found.status == OPTIMAL:
                candidates = [_polished(problem, *candidates[-1], tolerance, limits)]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        return min(candidates, key=lambda candidate: _gap(problem, candidate[0]))
    if method != "lp" and (best := slater_within(problem, limits)).proves_infeasible(problem.margin_scales):
        return best, "slater"
    # Bounds that only just can be met leave HiGHS no room to move; half of what counts as rounding is enough.
    program, late = _program(problem, limits, relaxed=0.5 * ROUNDING)
    if program is None and method == "lp" and not late:
        # Discounts, or probabilities, beyond what HiGHS can tell from 1, or from 0.
        return _attempt(problem, "bundle", tolerance, limits, progress, watch, coins=coins)
    if program is None:
        raise Stopped(TIME if late else STALLED)
    return _linked(problem, program, tolerance), "lp"


def _from_start(
    problem: CMDP,
    start: Start | None,
    tolerance: float,
    limits: Limits,
    watch: Watch,
    progress: GapProgress | None,
) -> Optimum | None:
    """A mixture that small changes of an earlier answer lead to; None where they do not, or where there is none.

    It is as good as was asked for, whatever it came from: upper bounds and policies are those of this problem.
    """
    if start is None or watch.resume is not None or problem.n_constraints == 0:
        return None
    if limits.iterations is None and (vertex := _vertex_from(problem, start, tolerance, limits, progress)) is not None:
        return vertex
    criterion, reward, scales = criterion_of(problem), problem.reward.ravel(), problem.margin_scales
    path, most = None, limits.iterations
    patience = limits if most is not None and most <= _PATIENCE else limits._replace(iterations=_PATIENCE)
    found = None
    try:
        path = Path(criterion, reward, flat_margins(problem), scales, patience, start)
        (found,) = path.follow([np.zeros(problem.n_constraints)], tolerance)
    except Stopped as stopped:
        if stopped.status == TIME or patience is limits:
            watch.search = path
            if path is None:
                raise
            nearly, in_bounds = path.known()
            if not in_bounds:
                raise
            return _linked(problem, nearly._replace(status=stopped.status), tolerance)
    assert path is not None
    if found is None:
        found = _corner_near(problem, path.known()[0], tolerance, limits)
    return None if found is None else _if_good(problem, found, tolerance, progress)


def _vertex_from(
    problem: CMDP, start: Start, tolerance: float, limits: Limits, progress: GapProgress | None
) -> Optimum | None:
    """The vertex that small changes of the base of an earlier one lead to; None where they do not."""
    corners = Corners(problem)
    corner = corner_from(corners, start, tolerance, limits)
    if corner is None:
        return None
    nothing = np.empty(0)
    found = corner.mixture(problem, Optimum(nothing, nothing, nothing, np.inf, corners.solves))
    return _if_good(problem, found, tolerance, progress)


def _if_good(problem: CMDP, found: Optimum, tolerance: float, progress: GapProgress | None) -> Optimum | None:
    """A mixture that a start led to, if it is as good as was asked for."""
    if not _in_bounds(problem, found):
        return None
    found = _linked(problem, found, tolerance)
    if _gap(problem, found) > gap_allowed(problem, found.upper_bound, tolerance):
        return None
    if progress is not None:
        progress(found.unconstrained_solves, found.value(problem.reward), found.upper_bound)
    return found


def _corner_near(problem: CMDP, nearly: Optimum, tolerance: float, limits: Limits) -> Optimum | None:
    """The vertex next to a mixture that is nearly in bounds, at prices that are nearly right; None if they are not."""
    corners = Corners(problem)
    objective, *margins = np.sum(corners.signals * nearly.occupancy, axis=1)
    left = nearly.upper_bound - corners.units.value(float(objective))
    if abs(left) > _NEARLY * corners.units.spread or min(margins) < -_NEARLY:
        return None
    corner = corners.find(nearly, tolerance, limits)
    return None if corner is None else corner.mixture(problem, nearly)


def _program(problem: CMDP, limits: Limits, **options: Any) -> tuple[Optimum | None, bool]:
    """The linear program; and whether its time was over first."""
    try:
        return occupancy_lp(problem, time_limit=limits.seconds_left, **options), False
    except TimeoutError:
        return None, True


def _linked(problem: CMDP, found: Optimum, tolerance: float) -> Optimum:
    """With an occupancy that some policy has: of one of its classes alone, where that is as good."""
    criterion = criterion_of(problem)
    alone = [found._replace(occupancy=own) for own in criterion.each_alone(found.occupancy)]
    kept = [own for own in alone if _in_bounds(problem, own)]
    best = max(kept, key=lambda own: own.value(problem.reward), default=None)
    allowed = gap_allowed(problem, found.upper_bound, tolerance)
    if best is not None and found.upper_bound - best.value(problem.reward) <= allowed:
        return best._replace(apart=found.occupancy)
    scaled = flat_margins(problem) / problem.margin_scales[:, None]
    spares = partial(spare_occupancies, problem, found)
    spent, linked = criterion.linked(found.occupancy, spares, tolerance, scaled)
    if linked and not alone and _needs_no_link(problem, found, allowed):
        return found
    return found._replace(occupancy=spent, linked=linked, apart=found.occupancy if linked else None)


def _needs_no_link(problem: CMDP, found: Optimum, allowed: float) -> bool:
    """Whether a policy is good as it is: parts of one class may hardly be joined, and be worth the same."""
    try:
        return _gap(problem, found) <= allowed
    except InvalidInput:  # it has no average: it comes to stay in one of several places
        return False


def _linked_at_a_cost(problem: CMDP, found: Optimum, tolerance: float) -> bool:
    """Whether to link classes took more than was asked for, though HiGHS may soon know a vertex that is one class."""
    if not found.linked or problem.reward.size > _POLISHED_ENTRIES:
        return False
    return _gap(problem, found) > gap_allowed(problem, found.upper_bound, tolerance)


def _gap(problem: CMDP, found: Optimum) -> float:
    """Between the upper bound and the reward of the policy itself; infinite where that is out of bounds."""
    judged = assemble(problem, found, method="")
    return judged.gap if judged.in_bounds else np.inf


def gap_allowed(problem: CMDP, upper: float, tolerance: float) -> float:
    """Relative to the optimum, or to a hundredth of the spread of the rewards where that is closer to zero."""
    units = Units.of(criterion_of(problem), problem.reward.ravel(), problem.margin_scales)
    return tolerance * max(abs(upper), 0.01 * units.spread)


def _unconstrained(problem: CMDP, tolerance: float, progress: GapProgress | None, limits: Limits) -> Optimum:
    """One solve: no prices are to be found."""
    criterion, reward = criterion_of(problem), problem.reward.ravel()
    middle = 0.5 * (float(reward.min()) + float(reward.max())) * problem.layers
    found = criterion.solve(reward, gap_allowed(problem, middle, tolerance), deadline=limits.deadline)
    allowed = gap_allowed(problem, found.upper, tolerance)
    if found.upper - found.lower > allowed:  # the optimum is closer to zero than the middle of the rewards
        found = criterion.solve(reward, allowed, found, deadline=limits.deadline)
    if progress is not None:
        progress(1, found.lower, found.upper)
    occupancy = np.zeros(criterion.n_entries)
    occupancy[found.chosen] = criterion.time(found, 1e-12)
    late = limits.over and found.upper - found.lower > allowed
    return Optimum(occupancy, np.empty(0), found.value_function, found.upper, 1, status=TIME if late else OPTIMAL)


def _in_bounds(problem: CMDP, found: Optimum) -> bool:
    margins = np.array([found.value(margin) for margin in problem.margins])
    return within_rounding(margins, problem.margin_scales)


def _polished(problem: CMDP, found: Optimum, by: str, tolerance: float, limits: Limits) -> tuple[Optimum, str]:
    """The exact vertex next to a mixture, if HiGHS gets there; else the mixture itself."""
    vertex, late = _program(problem, limits, start=vertex_near(problem, found))
    if late:
        return found._replace(status=TIME), by
    if vertex is None or not _in_bounds(problem, vertex):
        return found, by
    vertex = vertex._replace(unconstrained_solves=found.unconstrained_solves, spare=found.spare)
    vertex = _linked(problem, vertex, tolerance)
    close = max(_gap(problem, found), 1e-9 * abs(vertex.upper_bound))  # HiGHS's multipliers are good to about 1e-10
    return (vertex, "polish") if _gap(problem, vertex) <= close else (found, by)
