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
from inbounds.inputs import positive
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
    tolerance = positive(tolerance, "tolerance")
    time_limit = None if time_limit is None else positive(time_limit, "time_limit")
    attempt = partial(_attempt, method=method, tolerance=tolerance, time_limit=time_limit)
    found, by = attempt(problem, progress=progress)
    if isinstance(found, Slater):
        raise infeasible(problem, found, lambda other: attempt(other)[0])
    return found, by


def solve_uncertified(problem: CMDP, method: str = "auto", *, tolerance: float = 1e-8) -> Solution:
    """The most reward among the policies in bounds, without a proof of it."""
    found, by = best_mixture(problem, method, tolerance=tolerance)
    return assemble(problem, found, method=by)


def _attempt(
    problem: CMDP, method: str, tolerance: float, time_limit: float | None, progress: GapProgress | None = None
) -> tuple[Mixture | Slater, str]:
    """A mixture in bounds; or, when there is none, the largest joint margin, which is negative: the proof.

    "auto" takes the linear program for small problems, if its answer is as good as was asked for: where chains hardly
    mix, what HiGHS calls an optimum need not be one. Larger problems, and those, go through unconstrained ones, of
    which there may be just one.
    """
    criterion = criterion_of(problem)
    small = method == "auto" and problem.reward.size <= PROGRAM_ENTRIES
    candidates: list[tuple[Mixture, str]] = []
    if small or method == "lp":
        program = occupancy_lp(problem, time_limit=time_limit)
        if program is not None and _in_bounds(problem, program):
            candidates.append((_linked(problem, program, tolerance), "lp"))
            allowed = _gap_allowed(problem, program.upper_bound, tolerance)
            if method == "lp" or _gap(problem, candidates[0][0]) <= allowed:
                return candidates[0]
        elif (best := slater(problem)).proves_infeasible(problem.margin_scales):
            return best, "slater"  # HiGHS itself often answers "unknown" when no policy is in bounds
    if method == "auto" and problem.n_constraints == 0:
        return _unconstrained(problem, tolerance, progress), "policy iteration"
    if method != "lp":
        bundle = Bundle(criterion, problem.reward.ravel(), flat_margins(problem), problem.margin_scales)
        found = bundle.solve(tolerance, progress)
        if found is not None and _in_bounds(problem, found):
            candidates.append((_linked(problem, found, tolerance), "bundle"))
            if method == "polish":
                vertex = _polished(problem, candidates[-1][0], tolerance, time_limit)
                candidates = candidates if vertex is None else [(vertex, "polish")]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        return min(candidates, key=lambda candidate: _gap(problem, candidate[0]))
    if method != "lp" and (best := slater(problem)).proves_infeasible(problem.margin_scales):
        return best, "slater"
    # Bounds that only just can be met leave HiGHS no room to move; half of what counts as rounding is enough.
    program = occupancy_lp(problem, relaxed=0.5 * ROUNDING, time_limit=time_limit)
    if program is None and method == "lp":  # discounts, or probabilities, beyond what HiGHS can tell from 1, or from 0
        return _attempt(problem, "bundle", tolerance, time_limit, progress)
    if program is None:
        raise RuntimeError('HiGHS found no optimum of a feasible problem; take the method "bundle"')
    return _linked(problem, program, tolerance), "lp"


def _linked(problem: CMDP, found: Mixture, tolerance: float) -> Mixture:
    """With an occupancy that some policy has."""
    scaled = flat_margins(problem) / problem.margin_scales[:, None]
    spare = partial(spare_occupancy, problem, found)
    spent, linked = criterion_of(problem).linked(found.occupancy, spare, tolerance, scaled)
    return found._replace(occupancy=spent, linked=linked)


def _gap(problem: CMDP, found: Mixture) -> float:
    """Between the upper bound and the reward of the policy itself; infinite where that is out of bounds."""
    judged = assemble(problem, found, method="")
    return judged.gap if judged.in_bounds else np.inf


def _gap_allowed(problem: CMDP, upper: float, tolerance: float) -> float:
    """Relative to the optimum, or to a hundredth of the spread of the rewards where that is closer to zero."""
    units = Units.of(criterion_of(problem), problem.reward.ravel(), problem.margin_scales)
    return tolerance * max(abs(upper), 0.01 * units.spread)


def _unconstrained(problem: CMDP, tolerance: float, progress: GapProgress | None) -> Mixture:
    """One solve: no prices are to be found."""
    criterion, reward = criterion_of(problem), problem.reward.ravel()
    middle = 0.5 * (float(reward.min()) + float(reward.max())) * problem.layers
    found = criterion.solve(reward, _gap_allowed(problem, middle, tolerance))
    allowed = _gap_allowed(problem, found.upper, tolerance)
    if found.upper - found.lower > allowed:  # the optimum is closer to zero than the middle of the rewards
        found = criterion.solve(reward, allowed, found)
    if progress is not None:
        progress(1, found.lower, found.upper)
    occupancy = np.zeros(criterion.n_entries)
    occupancy[found.chosen] = criterion.time(found, 1e-12)
    return Mixture(occupancy, np.empty(0), found.value_function, found.upper, 1)


def _in_bounds(problem: CMDP, found: Mixture) -> bool:
    margins = np.array([found.value(margin) for margin in problem.margins])
    return within_rounding(margins, problem.margin_scales)


def _polished(problem: CMDP, found: Mixture, tolerance: float, time_limit: float | None) -> Mixture | None:
    """The exact vertex next to a mixture, if HiGHS gets there."""
    vertex = occupancy_lp(problem, start=vertex_near(problem, found), time_limit=time_limit)
    if vertex is None or not _in_bounds(problem, vertex):
        return None
    vertex = vertex._replace(unconstrained_solves=found.unconstrained_solves, spare=found.spare)
    vertex = _linked(problem, vertex, tolerance)
    close = max(_gap(problem, found), 1e-9 * abs(vertex.upper_bound))  # HiGHS's multipliers are good to about 1e-10
    return vertex if _gap(problem, vertex) <= close else None
