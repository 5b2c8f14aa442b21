"""The exact answer by one of several methods, and the choice between them."""

from __future__ import annotations

from functools import partial

import numpy as np

from inbounds.criteria import criterion_of
from inbounds.criteria.evaluation import ROUNDING, within_rounding
from inbounds.errors import InvalidInput
from inbounds.exact.bundle import Bundle, GapProgress
from inbounds.exact.feasibility import PROGRAM_ENTRIES, Slater, infeasible, slater, spare_occupancy
from inbounds.exact.lp import occupancy_lp, vertex_near
from inbounds.exact.mixture import Mixture, Units, flat_margins
from inbounds.exact.solution import Solution, assemble
from inbounds.problem.cmdp import CMDP

METHODS = ("auto", "bundle", "lp", "polish")


def best_mixture(
    problem: CMDP,
    method: str = "auto",
    *,
    tolerance: float = 1e-8,
    progress: GapProgress | None = None,
    time_limit: float | None = None,
) -> tuple[Mixture, str]:
    """The occupancy of a best policy in bounds, and the method that found it; raises `Infeasible` when there is none.

    The arguments are those of ``ib.solve``.
    """
    if method not in METHODS:
        raise InvalidInput(f"method must be one of {', '.join(METHODS)}, found {method!r}")
    if not isinstance(problem, CMDP):
        raise InvalidInput(f"solve takes a CMDP, found {type(problem).__name__}")
    for what, number in (("tolerance", tolerance), ("time_limit", 1.0 if time_limit is None else time_limit)):
        try:
            valid = 0.0 < number < np.inf
        except TypeError:
            valid = False
        if not valid:
            raise InvalidInput(f"{what} must be a number above 0, found {number!r}")
    chosen = _chosen(problem) if method == "auto" else method
    found, by = _attempt(problem, chosen, tolerance, progress, time_limit)
    if isinstance(found, Slater):
        raise infeasible(problem, found, lambda other: _attempt(other, chosen, tolerance, None, time_limit)[0])
    return found, by


def solve_uncertified(problem: CMDP, method: str = "auto", *, tolerance: float = 1e-8) -> Solution:
    """The most reward among the policies in bounds, without a proof of it."""
    found, by = best_mixture(problem, method, tolerance=tolerance)
    return assemble(problem, found, method=by)


def _chosen(problem: CMDP) -> str:
    """Small programs are solved at once; larger ones through unconstrained problems, of which there may be just one."""
    if problem.reward.size <= PROGRAM_ENTRIES:
        return "lp"
    return "bundle" if problem.n_constraints else "policy iteration"


def _attempt(
    problem: CMDP, method: str, tolerance: float, progress: GapProgress | None, time_limit: float | None
) -> tuple[Mixture | Slater, str]:
    """A mixture in bounds; or, when there is none, the largest joint margin, which is negative: the proof."""
    if method == "policy iteration" and problem.n_constraints == 0:
        return _unconstrained(problem, tolerance, progress), method
    criterion, by = criterion_of(problem), "lp"
    best: Mixture | None = None
    if method != "lp":
        bundle = Bundle(criterion, problem.reward.ravel(), flat_margins(problem), problem.margin_scales)
        best, by = bundle.solve(tolerance, progress), "bundle"
        if best is not None and method == "polish":
            best, by = _polished(problem, best, time_limit)
    if best is None or not _in_bounds(problem, best):
        found, by = _by_lp(problem, method == "lp", time_limit), "lp"
        if isinstance(found, Slater):
            return found, by
        best = found
    scaled = flat_margins(problem) / problem.margin_scales[:, None]
    spare = partial(spare_occupancy, problem, best)
    spent, linked = criterion.linked(best.occupancy, spare, tolerance, scaled)
    return best._replace(occupancy=spent, linked=linked), by


def _unconstrained(problem: CMDP, tolerance: float, progress: GapProgress | None) -> Mixture:
    """One solve: no prices are to be found."""
    criterion, reward = criterion_of(problem), problem.reward.ravel()
    units = Units.of(criterion, reward, np.empty(0))
    found = criterion.solve(reward, tolerance * max(abs(units.centre), 0.01 * units.spread))
    allowed = tolerance * max(
        abs(found.upper), 0.01 * units.spread
    )  # the optimum may be closer to zero than the centre
    if found.upper - found.lower > allowed:
        found = criterion.solve(reward, allowed, found)
    if progress is not None:
        progress(1, found.lower, found.upper)
    occupancy = np.zeros(criterion.n_entries)
    occupancy[found.chosen] = criterion.time(found, 1e-12)
    return Mixture(occupancy, np.empty(0), found.value_function, found.upper, 1)


def _in_bounds(problem: CMDP, found: Mixture) -> bool:
    margins = np.array([found.value(margin) for margin in problem.margins])
    return within_rounding(margins, problem.margin_scales)


def _by_lp(problem: CMDP, hopeful: bool, time_limit: float | None) -> Mixture | Slater:
    """By the linear program; unless one is `hopeful`, after a look whether any policy is in bounds."""
    found = occupancy_lp(problem, time_limit=time_limit) if hopeful else None
    if found is None or not _in_bounds(problem, found):
        # HiGHS often answers "unknown" when no policy is in bounds; the Slater constant tells.
        best = slater(problem)
        if best.proves_infeasible(problem.margin_scales):
            return best
        # Bounds that only just can be met leave HiGHS no room to move; half of what counts as rounding is enough.
        found = occupancy_lp(problem, relaxed=0.5 * ROUNDING, time_limit=time_limit)
        if found is None:
            raise RuntimeError("HiGHS found no optimum of a feasible problem; please report it")
    return found


def _polished(problem: CMDP, found: Mixture, time_limit: float | None) -> tuple[Mixture, str]:
    """The exact vertex next to a mixture; the mixture itself when HiGHS does not get there."""
    vertex = occupancy_lp(problem, start=vertex_near(problem, found), time_limit=time_limit)
    if vertex is None or not _in_bounds(problem, vertex):
        return found, "bundle"
    gap, reward = found.upper_bound - found.value(problem.reward), vertex.value(problem.reward)
    close = max(gap, 1e-9 * abs(reward))  # HiGHS's multipliers are good to about 1e-10
    kept = vertex._replace(unconstrained_solves=found.unconstrained_solves, spare=found.spare)
    return (kept, "polish") if vertex.upper_bound - reward <= close else (found, "bundle")
