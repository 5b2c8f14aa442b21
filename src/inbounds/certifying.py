"""The public judge: what a policy is worth, proved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from inbounds.errors import InvalidInput, Stopped
from inbounds.exact.limits import TIME, Limits
from inbounds.inputs import callback, random_seed, switch, whole_number
from inbounds.numerics.interrupts import holding_handlers
from inbounds.problem.cmdp import CMDP
from inbounds.problem.mixture import Mixture
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator
from inbounds.proofs.certificate import Certificate
from inbounds.proofs.known_model import certify_known
from inbounds.proofs.samples import certify_by_samples, valid_confidence


@holding_handlers()
def certify(
    policy: Policy | Mixture,
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
    time_limit: float | None = None,
    resume: Certificate | None = None,
) -> Certificate:
    """Prove what a policy, or a `Mixture` of policies, is worth: on a known model, or from samples alone.

    On a `CMDP` the result is a proof, with the vectors that anyone can check (kind "rounding-bounded", or "exact" in
    rational arithmetic). From a `Simulator` it is two statements, each of which holds with probability `confidence`
    whatever the model (kind "confidence": confidence sequences): that the policy is in bounds, if that could be
    settled, and lower bounds that hold all at once. Samples that were used to find the policy must not be used again,
    so give a seed of its own.

    Values are discounted averages per step, normalised by (1 - discount); sums over a finite horizon; or long-run
    averages per step. Proofs from samples are for discounted problems.

    Parameters
    ----------
    policy : Policy or Mixture
        The values of a mixture are the weighted means of those of its policies; its walks begin with its coin.
    problem : CMDP or Simulator
    exact : bool
        CMDP: do the arithmetic in rationals.
    prices, value_function : arrays [K] and [S] (or [H, S]), optional
        CMDP: those of a `Solution` (Lagrange multipliers, and the value function at them), for an upper bound on the
        reward of any policy in bounds.
    confidence : float in (0, 1)
        Simulator: the probability with which the policy is in bounds, if that is stated; and with which all bounds hold
        at once.
    samples : int
        Simulator: how many transitions may be drawn; fewer are, as soon as every margin is settled.
    seed : int
        Simulator: the same seed gives the same certificate.
    value : CMDP or array, optional
        Simulator: a guess of the model or of the values, fixed beforehand, that saves samples; see
        `inbounds.proofs.samples`.
    progress : callable, optional
        Called with the samples drawn so far, about four times a second; for a CMDP with the number of vectors and
        bounds that are made, two for each value and one for the optimum.
    time_limit : float, optional
        Seconds, after which the bounds so far come back; they hold like any others. Of a CMDP nothing is proved by
        then, and `Stopped` is raised; the clock is looked at after each vector and each bound.
    resume : Certificate, optional
        Simulator: go on from a certificate that ran out of time, or from the ``error.partial`` of an exception that
        broke one off, with the same arguments; the result is that of an unbroken call, bit for bit.

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
    exact, progress = switch(exact, "exact"), callback(progress)
    confidence, seed = valid_confidence(confidence), random_seed(seed)
    samples = None if samples is None else whole_number(samples, "samples")
    if isinstance(problem, Simulator):
        if samples is None:
            raise InvalidInput("a proof from a simulator needs samples=, the number of transitions that it may draw")
        if exact or prices is not None or value_function is not None:
            raise InvalidInput("exact=, prices= and value_function= are for a known model, a CMDP")
        return certify_by_samples(
            policy,
            problem,
            confidence=confidence,
            samples=samples,
            seed=seed,
            value=value,
            progress=progress,
            time_limit=time_limit,
            resume=resume,
        )
    if not isinstance(problem, CMDP):
        raise InvalidInput(f"the problem of certify must be a CMDP or a Simulator, found {type(problem).__name__}")
    if resume is not None:
        raise InvalidInput("resume= is for proofs from samples, on a simulator")
    limits = Limits.of(time_limit, None)

    def step(done: int, total: int) -> None:
        if progress is not None:
            progress(done)
        if limits.over and done < total:
            raise Stopped(TIME)

    return certify_known(policy, problem, exact=exact, prices=prices, value_function=value_function, progress=step)
