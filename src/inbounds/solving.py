"""The public questions about a known model: the best policy in bounds, how much room there is, what a bound costs."""

from __future__ import annotations

from inbounds.exact.bundle import GapProgress
from inbounds.exact.methods import best_mixture
from inbounds.exact.solution import Solution, assemble
from inbounds.problem.cmdp import CMDP
from inbounds.proofs.known_model import certified


def solve(
    problem: CMDP,
    method: str = "auto",
    *,
    tolerance: float = 1e-8,
    progress: GapProgress | None = None,
    certificate: bool = True,
    time_limit: float | None = None,
) -> Solution:
    """The most reward among the policies that keep every bound, with its prices, a bound on the error, and the proof.

    Values are in the user's units: discounted averages per step, normalised by (1 - discount); sums over a finite
    horizon; or long-run averages per step. The prices are the Lagrange multipliers (dual variables, shadow prices) of
    the constraints, and ``occupancy`` is the occupancy measure of the policy.

    At an optimum the margins that bind are zero, and in floating point half of them a little less. The policy returned
    has just enough of a safer policy mixed in to be provably in bounds; ``reward_given_up`` says what that cost (of the
    order of 1e-12), and ``certificate`` holds the proof.

    Parameters
    ----------
    problem : CMDP
    method : "auto", "bundle", "lp" or "polish"
        "bundle" goes through a few unconstrained problems and takes any size. "lp" is the occupancy linear program on
        HiGHS: an independent check, for up to some thousand states; by the simplex method, or by interior point where
        that would not return; where HiGHS finds no optimum, the bundle does, and ``method`` of the answer says so.
        "polish" lets the simplex method go the last steps from the bundle's answer to an exact
        vertex of that program. "auto" takes the linear program for up to 240 pairs (times stages), one run of policy
        iteration where there are no constraints, and the bundle otherwise.
    tolerance : float
        The gap that may be left between the reward of the policy and the upper bound, relative to the optimum.
    progress : callable, optional
        Called by "bundle" after every unconstrained solve as ``progress(solves, lower, upper)`` with bounds on the
        optimum; lower is -inf until a mixture of policies in bounds is known.
    certificate : bool
        Whether to certify the answer.
    time_limit : float, optional
        Seconds that a linear program may take; then TimeoutError.

    Raises
    ------
    Infeasible
        When no policy is in bounds: with the proof, the constraints that conflict, and how far each bound would have to
        be relaxed.

    Examples
    --------
    >>> import inbounds as ib
    >>> best = ib.solve(ib.zoo.queue())
    >>> round(best.total_reward, 7), [round(float(price), 6) for price in best.prices], best.gap < 1e-7
    (4.6448582, [0.09692, 0.135595], True)
    >>> best.certificate.in_bounds, best.reward_given_up < 1e-10
    (True, True)
    """
    found, by = best_mixture(problem, method, tolerance=tolerance, progress=progress, time_limit=time_limit)
    return certified(problem, found, method=by) if certificate else assemble(problem, found, method=by)
