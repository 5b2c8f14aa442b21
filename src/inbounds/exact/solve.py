"""The exact answer: the most reward among the policies in bounds."""

from __future__ import annotations

from inbounds.errors import InvalidInput
from inbounds.exact.feasibility import require_feasible
from inbounds.exact.lp import occupancy_lp
from inbounds.exact.solution import Solution, assemble
from inbounds.model.cmdp import CMDP
from inbounds.model.policy import ROUNDING

METHODS = ("auto", "lp")


def solve(cmdp: CMDP, method: str = "auto") -> Solution:
    """The most reward among the policies that keep every bound, with its prices and a bound on the error.

    Values are in the user's units, normalised by (1 - discount).

    Parameters
    ----------
    cmdp : CMDP
    method : "auto" or "lp"
        "lp" is the occupancy linear program on HiGHS, which is also what "auto" takes.

    Raises
    ------
    Infeasible
        When no policy is in bounds, with the proof and the constraints that conflict.

    Examples
    --------
    >>> import inbounds as ib
    >>> best = ib.solve(ib.zoo.queue())
    >>> round(best.total_reward, 9), [round(float(price), 6) for price in best.prices], best.gap < 1e-9
    (4.644858249, [0.09692, 0.135595], True)
    """
    if method not in METHODS:
        raise InvalidInput(f"method must be one of {', '.join(METHODS)}, found {method!r}")
    found = occupancy_lp(cmdp)
    if found is not None:
        solution = assemble(cmdp, *found, method="lp")
        if solution.in_bounds:
            return solution
    # HiGHS often answers "unknown" when no policy is in bounds; the Slater program tells.
    require_feasible(cmdp)
    # Bounds that only just can be met leave HiGHS no room to move; half of what counts as rounding is enough for it.
    found = occupancy_lp(cmdp, relaxed=0.5 * ROUNDING)
    if found is None:
        raise RuntimeError("HiGHS found no optimum of a feasible problem; please report it")
    return assemble(cmdp, *found, method="lp")
