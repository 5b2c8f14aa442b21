"""The public judges: `certify` for any policy, and `solve`, which certifies its own answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, overload

import numpy as np

from inbounds.errors import InvalidInput
from inbounds.exact import attempt as exact
from inbounds.exact.bundle import Progress
from inbounds.exact.episodic import EpisodicSolution
from inbounds.exact.solution import Solution
from inbounds.problem.cmdp import CMDP
from inbounds.problem.episodic import EpisodicCMDP
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator
from inbounds.proofs.certificate import Certificate
from inbounds.proofs.known_model import certified, certify_exact
from inbounds.proofs.samples import certify_by_samples


def certify(
    policy: Policy,
    problem: CMDP | Simulator,
    *,
    exact: bool = False,
    prices: Any = None,
    value_function: Any = None,
    confidence: float = 0.99,
    samples: int | None = None,
    seed: int | np.random.SeedSequence = 0,
    value: Any = None,
    progress: Callable[[int], None] | None = None,
) -> Certificate:
    """Prove what a policy is worth: on a known model, or from samples alone. Values are normalised by (1 - discount).

    On a `CMDP` the result is a proof, with the vectors that anyone can check (kind "rounding-bounded", or "exact" in
    rational arithmetic). From a `Simulator` it is a set of lower bounds that hold all at once with probability
    `confidence` (kind "confidence"), whatever the model; samples that were used to find the policy must not be used
    again, so give a seed of its own.

    Parameters
    ----------
    policy : Policy
    problem : CMDP or Simulator
    exact : bool
        CMDP: do the arithmetic in rationals.
    prices, value_function : arrays [K] and [S], optional
        CMDP: those of a `Solution`, for a bound on what any policy in bounds can have.
    confidence : float in (0, 1)
        Simulator: the probability with which everything stated holds.
    samples : int
        Simulator: how many transitions may be drawn; fewer are, as soon as every margin is settled.
    seed : int
        Simulator: the same seed gives the same certificate.
    value : CMDP or array, optional
        Simulator: a guess of the model or of the values, fixed beforehand, that saves samples; see
        `inbounds.proofs.samples`.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> safe = ib.slater(queue).policy
    >>> ib.certify(safe, queue).kind, ib.certify(safe, queue).in_bounds
    ('rounding-bounded', True)
    >>> cert = ib.certify(safe, queue.simulator(), confidence=0.99, samples=50_000, seed=1)
    >>> cert.kind, cert.in_bounds
    ('confidence', True)
    """
    if isinstance(problem, Simulator):
        if samples is None:
            raise InvalidInput("a proof from a simulator needs samples=, the number of transitions that it may draw")
        if exact or prices is not None or value_function is not None:
            raise InvalidInput("exact=, prices= and value_function= are for a known model, a CMDP")
        return certify_by_samples(
            policy, problem, confidence=confidence, samples=samples, seed=seed, value=value, progress=progress
        )
    if not isinstance(problem, CMDP):
        raise InvalidInput(f"certify takes a CMDP or a Simulator, found {type(problem).__name__}")
    return certify_exact(policy, problem, exact=exact, prices=prices, value_function=value_function)


@overload
def solve(
    problem: CMDP,
    method: str = "auto",
    *,
    tolerance: float = 1e-8,
    progress: Progress | None = None,
    certificate: bool = True,
) -> Solution: ...
@overload
def solve(
    problem: EpisodicCMDP,
    method: str = "auto",
    *,
    tolerance: float = 1e-8,
    progress: Progress | None = None,
    certificate: bool = True,
) -> EpisodicSolution: ...
def solve(
    problem: CMDP | EpisodicCMDP,
    method: str = "auto",
    *,
    tolerance: float = 1e-8,
    progress: Progress | None = None,
    certificate: bool = True,
) -> Solution | EpisodicSolution:
    """The most reward among the policies that keep every bound, with its prices, a bound on the error, and the proof.

    Values are in the user's units, normalised by (1 - discount); for a finite horizon they are SUMS over it.

    At an optimum the margins that bind are zero, and in floating point half of them a little less. The policy returned
    has just enough of a safer policy mixed in to be provably in bounds; ``reward_given_up`` says what that cost (of the
    order of 1e-12), and ``certificate`` holds the proof. Finite horizons come without a certificate.

    Parameters
    ----------
    problem : CMDP or EpisodicCMDP
    method : "auto", "bundle", "lp" or "polish"
        "bundle" goes through a few unconstrained problems and takes any size; "auto" chooses it. "lp" is the occupancy
        linear program on HiGHS: an independent check, for up to some thousand states. "polish" lets the simplex method
        go the last steps from the bundle's answer to an exact vertex of that program.
    tolerance : float
        The gap that "bundle" may leave between the reward of the policy and the upper bound, relative to the optimum.
    progress : callable, optional
        Called by "bundle" after every unconstrained solve as ``progress(solves, lower, upper)`` with bounds on the
        optimum; lower is -inf until a mixture of policies in bounds is known.
    certificate : bool
        Whether to certify the answer.

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
    found = exact.solve(problem, method, tolerance=tolerance, progress=progress)
    if not certificate or isinstance(found, EpisodicSolution) or isinstance(problem, EpisodicCMDP):
        return found
    proved, proof = certified(problem, found)
    return replace(proved, certificate=proof, reward_given_up=max(found.reward - proved.reward, 0.0))
