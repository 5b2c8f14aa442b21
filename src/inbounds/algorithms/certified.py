"""Learning that returns only what it can prove.

    explore     try every pair equally often, solve the empirical model, and walk with its policy to learn more of the
                pairs that matter
    candidate   the best policy of the empirical model whose margins all reach kappa
    proof       bet on fresh walks of the candidate (`inbounds.proofs.samples`); return it if every margin is settled
    or else     add the walks of the failed proof to the evidence, ask for more margin, and try again

**Why everything that is returned is in bounds with the stated probability, whatever the learner did.** Candidate j =
1, 2, ... and its error probability alpha_j = alpha / 2^j are fixed before the walks of its proof are drawn. Given all
that happened before, those walks are independent samples of that one policy, so the betting bound holds for it as for
any policy of anyone: if candidate j is out of bounds, its proof succeeds with probability at most alpha_j. (Its walks
may teach later candidates, which are proved by walks of their own.) Over all attempts that sums to at most alpha.
Nothing was assumed of how a candidate was found: a bad learner costs reward, or returns nothing, but never safety. What
is assumed is that draws are independent, and that rewards and signals stay in their declared ranges.

**How much margin to ask for.** Just what the proof can settle. On the empirical model the variance s2 of a walk is
known, hence the margin w that n walks can settle, and so is the standard error e of the model's own margins (the noise
of each pair over the times it was tried, weighted by the square of its occupancy, and that of the starts). Then, for
each constraint,

    kappa = w + z sqrt(s2 / n + e^2),        z = 1 at the first attempt, and 1 more at each further one.

These are predictions; where they are wrong, an attempt fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from inbounds.algorithms.empirical import best_of
from inbounds.algorithms.loop import run_on_samples
from inbounds.arrays import Floats
from inbounds.criteria.evaluation import occupancy
from inbounds.errors import Infeasible
from inbounds.exact.feasibility import slater
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator
from inbounds.proofs.betting import make_stakes, settleable
from inbounds.proofs.certificate import Certificate
from inbounds.proofs.evidence import Evidence, new_log
from inbounds.proofs.samples import as_certificate, prove
from inbounds.proofs.walks import Guess, guess_from_model, make_design, step_noise, walk_for_evidence

_ATTEMPTS = 3
_EXPLORE = 0.4  # of the samples: every pair equally often
_WALK = 0.1  # of the samples: walks of a first policy
_PROOF = 0.6  # of the samples left: the next proof, except that the last takes all
_RUN = 0.65  # of the samples left: for an algorithm, when one was given; its conservatism makes the proof easy
_PILOT = 0.05  # of the samples left: walks of its policy, to guess their values
_STARTS = 100_000  # free draws of a start at each attempt, for the empirical initial distribution


@dataclass(frozen=True, eq=False, repr=False)
class CertifiedRun:
    """A policy with its proof, or no policy and the reason.

    Attributes
    ----------
    policy : Policy or None
        In bounds with the probability that was asked for; None when no candidate could be proved to be.
    certificate : Certificate or None
        Of `policy`; without one, of the last candidate, if there was any.
    samples : int
        Spent in all: on learning, the proof, and failed proofs.
    reason : str
        What happened, in words.
    attempts : tuple of Certificate
        Of every candidate in turn; all but the last have failed.
    """

    policy: Policy | None
    certificate: Certificate | None
    samples: int
    reason: str
    attempts: tuple[Certificate, ...]

    def __repr__(self) -> str:
        return f"CertifiedRun({self.reason})"


class Candidate(NamedTuple):
    """A policy to be proved, with a guess of its values; both are fixed before the samples of the proof are drawn."""

    policy: Policy
    guess: Guess  # in scaled units
    samples: int  # that its proof may spend


class NoCandidate(Exception):
    """There is nothing to prove; the message says why."""


def search(
    simulator: Simulator,
    samples: int,
    confidence: float,
    seed: int | np.random.SeedSequence,
    learner: Any,
    progress: Callable[[int], None] | None,
) -> CertifiedRun:
    """The run of ``ib.learn_certified``, whose arguments these are, checked; `learner` is None for "model"."""
    seen_by_learner, simulator = simulator, simulator.scaled  # evidence and proofs are in scaled units
    evidence, rng = Evidence(simulator), np.random.default_rng(seed)
    source: ModelSource | AlgorithmSource
    source = ModelSource(evidence, rng) if learner is None else AlgorithmSource(evidence, rng, learner, seen_by_learner)
    attempts: list[Certificate] = []
    policy, reason, on_proofs = None, "", 0
    for attempt in range(_ATTEMPTS):
        alpha = (1.0 - confidence) * 0.5 ** (attempt + 1)
        evidence.add_starts(rng, _STARTS)
        try:
            candidate = source.propose(attempt, samples - source.spent - on_proofs, alpha)
        except NoCandidate as refusal:
            reason = str(refusal)
            break
        log = new_log(simulator, candidate.samples)
        proved = prove(candidate.policy, simulator, candidate.guess, alpha, candidate.samples, rng, log)
        on_proofs += proved.samples
        attempts.append(as_certificate(proved, simulator, confidence, proved.samples))
        if progress is not None:
            progress(source.spent + on_proofs)
        if proved.in_bounds:
            policy = candidate.policy
            break
        evidence.add(log)
        source.failed(proved.bounds[1:])
    spent = source.spent + on_proofs
    return CertifiedRun(
        policy=policy,
        certificate=attempts[-1] if attempts else None,
        samples=spent,
        reason=reason or _in_words(attempts, spent),
        attempts=tuple(attempts),
    )


def _in_words(attempts: list[Certificate], spent: int) -> str:
    tries = "1 attempt" if len(attempts) == 1 else f"{len(attempts)} attempts"
    if attempts[-1].in_bounds:
        return f"a policy {attempts[-1].verdict}; {spent:,} samples in all, {tries}"
    return f"no policy: the {spent:,} samples did not suffice in {tries}; the last candidate is {attempts[-1].verdict}"


class ModelSource:
    """Candidates from the conservative linear program on the empirical model."""

    def __init__(self, evidence: Evidence, rng: np.random.Generator) -> None:
        self.evidence, self.rng = evidence, rng
        self.spent = 0  # samples, on learning

    def propose(self, attempt: int, left: int, alpha: float) -> Candidate:
        if attempt == 0:
            self._explore(left, alpha)
            left -= self.spent
        samples = left if attempt == _ATTEMPTS - 1 else math.ceil(_PROOF * left)
        return Candidate(*conservative(self.evidence, alpha, samples, z=1.0 + attempt), samples)

    def _explore(self, budget: int, alpha: float) -> None:
        n_pairs = self.evidence.simulator.pairs.n_pairs
        per_pair = int(_EXPLORE * budget) // n_pairs
        if per_pair < 1:
            raise NoCandidate(
                f"no policy: {budget:,} samples are too few to try each of {n_pairs:,} pairs; "
                f"give at least {math.ceil(n_pairs / _EXPLORE):,}"
            )
        self.evidence.try_each(self.rng, per_pair)
        self.spent += per_pair * n_pairs
        policy, _ = conservative(self.evidence, alpha, int(_PROOF * (budget - self.spent)), z=1.0)
        walks = int(_WALK * budget)
        walk_for_evidence(policy, self.evidence, walks, self.rng)
        self.spent += walks

    def failed(self, lower: Floats) -> None:
        """The evidence has grown, and the next attempt asks for more; there is nothing else to remember."""


class AlgorithmSource:
    """Candidates from a learning algorithm, run afresh at each attempt."""

    def __init__(self, evidence: Evidence, rng: np.random.Generator, settings: Any, simulator: Simulator) -> None:
        self.evidence, self.rng, self.settings, self.simulator = evidence, rng, settings, simulator
        self.kappa = 0.0  # of the last run
        self.spent = 0  # samples, on learning

    def propose(self, attempt: int, left: int, alpha: float) -> Candidate:
        learning, pilot = int(_RUN * left), int(_PILOT * left)
        if learning < 1:
            raise NoCandidate(f"no policy: {left:,} samples are too few to learn from")
        run = run_on_samples(self.simulator, self.settings, learning, int(self.rng.integers(2**63)))
        drawn = int(run.samples[-1])
        self.kappa = float(run.settings.get("kappa", 0.0))
        walk_for_evidence(run.policy, self.evidence, pilot, self.rng)
        self.spent += drawn + pilot
        guess = guess_from_model(self.evidence.model(), run.policy, self.evidence.signal_variance)
        left = max(left - drawn - pilot, 0)
        return Candidate(run.policy, guess, left if attempt == _ATTEMPTS - 1 else math.ceil(_PROOF * left))

    def failed(self, lower: Floats) -> None:
        """The lower bounds of the margins [K], scaled, are below zero by so much: ask for the most of it and half."""
        if hasattr(self.settings, "kappa"):
            units = self.evidence.simulator.scaling.margin_scales / self.simulator.scaling.margin_scales
            self.settings = replace(self.settings, kappa=min(self.kappa - 1.5 * float(np.min(lower * units)), 1.0))


def conservative(evidence: Evidence, alpha: float, proof_samples: int, z: float) -> tuple[Policy, Guess]:
    """The best policy of the empirical model with the margin that a proof by `proof_samples` is predicted to need.

    What is needed depends on the policy: it is taken from the best policy without margin, and once more from the policy
    that this gives. Where no policy of the model has so much margin, the one that comes closest is taken.
    """
    model = evidence.model()
    kappa = np.zeros(model.n_constraints)
    for _ in range(3):
        policy = _best_with(model, kappa)
        guess = guess_from_model(model, policy, evidence.signal_variance)
        kappa = _margin_needed(evidence, model, policy, guess, alpha, proof_samples, z)
    return policy, guess


def _best_with(model: CMDP, kappa: Floats) -> Policy:
    try:
        return best_of(model.tightened(kappa)).policy
    except Infeasible as infeasible:
        if not np.any(kappa):
            raise NoCandidate(
                f"no policy: as far as the samples show, none keeps {' and '.join(map(repr, infeasible.conflict))}; "
                f"relax a bound, or give more samples if the problem is known to have one"
            ) from None
    # The policy that keeps the largest share of kappa in every constraint at once.
    shares = tuple(
        replace(constraint, signal=constraint.signal / share)
        for constraint, share in zip(model.constraints, kappa / kappa.max(), strict=True)
    )
    return slater(replace(model, constraints=shares)).policy


def _margin_needed(
    evidence: Evidence, model: CMDP, policy: Policy, guess: Guess, alpha: float, proof_samples: int, z: float
) -> Floats:
    """kappa [K] of the module's formula, in scaled units."""
    discount, visits = model.discount, evidence.totals.visits[:, None]
    walks = max(proof_samples * (1.0 - discount), 1.0)
    variance = guess.variance(discount)
    stakes = make_stakes(make_design(evidence.simulator, policy, guess).least, guess.mean, variance, alpha, walks)
    noise = step_noise(model, guess.state_values, evidence.signal_variance)
    # One more sample, of any state, so that a pair tried once does not pass for one without noise.
    noise = (visits * noise + discount**2 * guess.state_values.var(axis=0)) / (visits + 1.0)
    weights = (occupancy(model, policy) / (1.0 - discount)) ** 2
    model_error = weights @ (noise / np.maximum(visits, 1.0)) + guess.start_variance / evidence.totals.starts.sum()
    return (settleable(stakes, variance, walks) + z * np.sqrt(variance / walks + model_error))[1:]
