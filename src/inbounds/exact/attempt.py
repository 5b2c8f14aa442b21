"""The exact answer: the most reward among the policies in bounds."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from inbounds.errors import InvalidInput
from inbounds.exact.bellman import Solver
from inbounds.exact.bundle import Bundle, Progress
from inbounds.exact.episodic import EpisodicSolution, attempt_episodic
from inbounds.exact.feasibility import Slater, infeasible, slater
from inbounds.exact.lp import occupancy_lp, vertex_near
from inbounds.exact.solution import JointMargin, Solution, assemble
from inbounds.problem.cmdp import CMDP
from inbounds.problem.episodic import EpisodicCMDP
from inbounds.problem.policy import ROUNDING

METHODS = ("auto", "bundle", "lp", "polish")


@overload
def solve(
    problem: CMDP, method: str = "auto", *, tolerance: float = 1e-8, progress: Progress | None = None
) -> Solution: ...
@overload
def solve(
    problem: EpisodicCMDP, method: str = "auto", *, tolerance: float = 1e-8, progress: Progress | None = None
) -> EpisodicSolution: ...
def solve(
    problem: CMDP | EpisodicCMDP, method: str = "auto", *, tolerance: float = 1e-8, progress: Progress | None = None
) -> Solution | EpisodicSolution:
    """The most reward among the policies that keep every bound; the public ``ib.solve`` adds a certificate to it.

    Values are in the user's units, normalised by (1 - discount); for a finite horizon they are SUMS over it. The
    arguments are those of `inbounds.certifying.solve`.
    """
    if method not in METHODS:
        raise InvalidInput(f"method must be one of {', '.join(METHODS)}, found {method!r}")
    if not isinstance(problem, CMDP | EpisodicCMDP):
        raise InvalidInput(f"solve takes a CMDP or an EpisodicCMDP, found {type(problem).__name__}")
    try:
        valid = 0.0 < tolerance < np.inf
    except TypeError:
        valid = False
    if not valid:
        raise InvalidInput(f"tolerance must be a number above 0, found {tolerance!r}")
    found = attempt(problem, method, tolerance, progress)
    if isinstance(found, JointMargin):
        raise infeasible(problem, found, lambda other: attempt(other, method, tolerance))
    return found


def attempt(problem: Any, method: str = "auto", tolerance: float = 1e-8, progress: Progress | None = None) -> Any:
    """The solution; or, when no policy is in bounds, the largest joint margin, which is negative: the proof."""
    if isinstance(problem, EpisodicCMDP):
        return attempt_episodic(problem, method, tolerance, progress)
    if method == "lp":
        return _by_lp(problem)
    bundle = Bundle(Solver(problem), problem.reward, problem.margins, problem.margin_scales)
    found = bundle.solve(tolerance, progress)
    if found is not None:
        solution = assemble(problem, *found, method="bundle")
        if solution.in_bounds:
            return _polished(problem, solution) if method == "polish" else solution
    best = slater(problem)
    return best if best.proves_infeasible(problem.margin_scales) else _by_lp(problem)


def _by_lp(cmdp: CMDP) -> Solution | Slater:
    found = occupancy_lp(cmdp)
    if found is not None:
        solution = assemble(cmdp, *found, method="lp")
        if solution.in_bounds:
            return solution
    # HiGHS often answers "unknown" when no policy is in bounds; the Slater constant tells.
    best = slater(cmdp)
    if best.proves_infeasible(cmdp.margin_scales):
        return best
    # Bounds that only just can be met leave HiGHS no room to move; half of what counts as rounding is enough for it.
    found = occupancy_lp(cmdp, relaxed=0.5 * ROUNDING)
    if found is None:
        raise RuntimeError("HiGHS found no optimum of a feasible problem; please report it")
    return assemble(cmdp, *found, method="lp")


def _polished(cmdp: CMDP, solution: Solution) -> Solution:
    """The exact vertex next to a solution; the solution itself when HiGHS does not get there."""
    found = occupancy_lp(cmdp, start=vertex_near(cmdp, solution))
    if found is None:
        return solution
    vertex = assemble(cmdp, *found, unconstrained_solves=solution.unconstrained_solves, method="polish")
    close = max(solution.gap, 1e-9 * abs(vertex.reward))  # HiGHS's multipliers are good to about 1e-10
    return vertex if vertex.in_bounds and vertex.gap <= close else solution
