"""The exact answer: the most reward among the policies in bounds."""

from __future__ import annotations

import numpy as np

from inbounds.errors import InvalidInput
from inbounds.exact.bundle import Progress, bundle
from inbounds.exact.feasibility import require_feasible
from inbounds.exact.lp import occupancy_lp
from inbounds.exact.solution import Solution, assemble
from inbounds.model.cmdp import CMDP

METHODS = ("auto", "bundle", "lp")


def solve(cmdp: CMDP, method: str = "auto", *, tolerance: float = 1e-8, progress: Progress | None = None) -> Solution:
    """The most reward among the policies that keep every bound, with its prices and a bound on the error.

    Values are in the user's units, normalised by (1 - discount).

    Parameters
    ----------
    cmdp : CMDP
    method : "auto", "bundle" or "lp"
        "bundle" goes through a few unconstrained problems and takes any size; "auto" chooses it. "lp" is the
        occupancy linear program on HiGHS: an independent check, for up to some thousand states.
    tolerance : float
        The gap that "bundle" may leave between the reward of the policy and the upper bound, relative to the optimum.
    progress : callable, optional
        Called by "bundle" after every unconstrained solve as ``progress(solves, lower, upper)``, where the bounds on
        the optimum are normalised; lower is -inf until a mixture of policies in bounds is known.

    Raises
    ------
    Infeasible
        When no policy is in bounds, with the proof and the constraints that conflict.

    Examples
    --------
    >>> import inbounds as ib
    >>> best = ib.solve(ib.zoo.queue())
    >>> round(best.total_reward, 7), [round(float(price), 6) for price in best.prices], best.gap < 1e-7
    (4.6448582, [0.09692, 0.135595], True)
    """
    if method not in METHODS:
        raise InvalidInput(f"method must be one of {', '.join(METHODS)}, found {method!r}")
    if not 0.0 < tolerance < np.inf:
        raise InvalidInput(f"tolerance must be a number above 0, found {tolerance!r}")
    if method == "lp":
        return _by_lp(cmdp)
    found = bundle(cmdp, tolerance, progress)
    if found is not None:
        solution = assemble(cmdp, *found[:4], method="bundle")
        if solution.in_bounds:
            return solution
    require_feasible(cmdp)
    raise RuntimeError(
        "the bundle did not find a policy in bounds although there is one; please report this problem, "
        'and try method="lp"'
    )


def _by_lp(cmdp: CMDP) -> Solution:
    found = occupancy_lp(cmdp)
    if found is not None:
        solution = assemble(cmdp, *found, method="lp")
        if solution.in_bounds:
            return solution
    # HiGHS often answers "unknown" when no policy is in bounds; the Slater constant tells.
    require_feasible(cmdp)
    if found is None:
        raise RuntimeError("HiGHS found no optimum of a feasible problem; please report it")
    return solution
