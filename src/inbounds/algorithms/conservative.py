"""Policies of an empirical model with just the margin that their proof will need: several, two to be mixed, or one.

**How much margin to ask for.** Just what the proof can settle. With the level a, n walks by the aim of the proof, L =
log(1/a), R = -least, the variance s2 of a walk, and e2 that of the model's own margin (above; and of its starts),

    w = max( z_a sqrt(s2/n) + L R / (3 n),  L R / (0.9 n) ),      kappa = w + max( z sqrt(s2/n + e2),  bias ),

with z = .5, 1, 1.5, 2 by attempt. (The first attempts are cheap: a candidate without prospects is given up after a
tenth of its samples, and most of the bankroll comes back.) The best policy of an empirical model looks better on it
than it is, on sparse models by several standard errors. That bias is measured by cross-fitting: exploration is kept in
two halves, and the best policy of either is evaluated on both; .6 of the difference is left with all samples, and half
of that after the first attempt, when walks have joined the evidence that the plan did not choose.
These are predictions; where they are wrong, an attempt fails.

**Several policies at once**, the boldest of which that is proved is taken (`inbounds.proofs.families`). With w of the
plan that keeps just that, err = sqrt(s2/n + e2), and what the bias is beyond that error, c = w + max(bias - err, 0):

    safest      the best policy of the model with margins of c + 4 err; where it is not expected to have 2 err to
                spare, several are not tried
    boldest     the best with margins of c - 2.33 err, at least w / 10: one bolder than that would be proved with
                probability .01
    between     28 in all, with occupancies of the model that go from the one to the other; for mixtures 14, and three
                mixtures of each two neighbours

What the walks will settle is about normal around c, with the standard deviation err, and what is lost is half a step.
The mean over that density f is least with steps in proportion to f^(-1/2): at equal steps of the distribution function
of a normal with sqrt(2) err. (Mixtures of the safest and the boldest alone would do, but both would have to walk to the
end; of neighbours only those walk that stand where nothing is settled yet, and their ways part less often.)

All of it is prediction. Where it is wrong reward is lost, or an attempt fails; no proof rests on it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from inbounds.algorithms.exploring import model_error
from inbounds.algorithms.planning import at_once, best_of, safest_of
from inbounds.arrays import Floats
from inbounds.criteria.evaluation import occupancy
from inbounds.errors import Infeasible
from inbounds.problem.cmdp import CMDP
from inbounds.problem.mixture import Mixture
from inbounds.problem.policy import Policy
from inbounds.proofs.betting import settleable
from inbounds.proofs.evidence import Evidence
from inbounds.proofs.families import Claims, between_neighbours, each_of
from inbounds.proofs.walks import Guess, guess_from_model, make_design

_MEMBERS = 28  # of a family
_SAFEST = 4.0  # standard errors between the one that is expected to be taken and the safest
_BOLDEST = -2.33  # the same for the boldest: one bolder than that would do with probability .01
_MIXED = 14  # of one with mixtures,
_SHARES = (1.0 / 6.0, 0.5, 5.0 / 6.0)  # with so much of the bolder of two neighbours
_SURE = 2.0  # standard errors to spare that the safest must have on the model for any to be tried


class NoCandidate(Exception):
    """There is nothing to prove; the message says why."""


def conservative(evidence: Evidence, level: float, proof_samples: int, z: float, bias: Floats) -> tuple[Policy, Guess]:
    """The best policy of the empirical model with the margin that a proof by `proof_samples` is predicted to need.

    What is needed depends on the policy: it is taken from the best policy without margin, and once more from the policy
    that this gives. Where no policy of the model has so much margin, the one that comes closest is taken.
    """
    model = evidence.model()
    kappa = np.zeros(model.n_constraints)
    for _ in range(3):
        policy, _ = best_with(model, kappa)
        guess = guess_from_model(model, policy, evidence.signal_variance)
        kappa = margin_needed(evidence, model, policy, guess, level, proof_samples, z, bias)
    return policy, guess


def best_with(model: CMDP, kappa: Floats) -> tuple[Policy, Floats]:
    """The best policy of the model with margins of kappa [K], or with the most of it; and the prices [K]."""
    try:
        best = best_of(model.tightened(kappa))
        return best.policy, best.prices
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
    most = safest_of(replace(model, constraints=shares))
    return most.policy, most.prices


def margin_needed(
    evidence: Evidence,
    model: CMDP,
    policy: Policy,
    guess: Guess,
    level: float,
    proof_samples: int,
    z: float,
    bias: Floats,
) -> Floats:
    """kappa [K] of the module's formula, in scaled units."""
    width, error = _width_and_error(evidence, model, policy, guess, level, proof_samples)
    return width + np.maximum(z * error, bias)


def _width_and_error(
    evidence: Evidence, model: CMDP, policy: Policy, guess: Guess, level: float, proof_samples: int
) -> tuple[Floats, Floats]:
    """w [K] of the module's formula, and the standard error [K] of what walks will show less what the model says."""
    discount = model.discount
    walks, variance = max(proof_samples * (1.0 - discount), 1.0), guess.variance(discount)
    width = settleable(level, -make_design(evidence.simulator, policy, guess).least, variance, walks)
    error = np.sqrt(variance / walks + model_error(evidence, model, policy, guess))
    return width[1:], error[1:]


class Family(NamedTuple):
    """Policies with guesses of their values, and claims about them, ever bolder."""

    policies: tuple[Policy, ...]
    guesses: tuple[Guess, ...]
    claims: Claims

    def claimed(self, number: int) -> Policy | Mixture:
        """What a claim is about; where only one of two policies is ever drawn, that policy."""
        share, pair = self.claims.shares[number], (self.claims.first[number], self.claims.second[number])
        if 0.0 < share < 1.0:
            return Mixture(np.array([1.0 - share, share]), tuple(self.policies[policy] for policy in pair))
        return self.policies[pair[int(share)]]


def family(evidence: Evidence, level: float, proof_samples: int, bias: Floats, mixture: bool) -> Family | None:
    """Policies of the empirical model around the one that a proof is predicted to settle, by the rule of the module.

    And mixtures of neighbours, if asked for. None where not even the safest is expected to be settled.
    """
    model, center = evidence.model(), np.zeros(evidence.simulator.n_constraints)
    for _ in range(2):
        middle, _ = best_with(model, center)
        guess = guess_from_model(model, middle, evidence.signal_variance)
        width, error = _width_and_error(evidence, model, middle, guess, level, proof_samples)
        flattered = np.maximum(bias - error, 0.0)
        center = width + flattered
    safe, _ = best_with(model, center + _SAFEST * error)
    bold, _ = best_with(model, np.maximum(center + _BOLDEST * error, 0.1 * width))
    safest = guess_from_model(model, safe, evidence.signal_variance)
    width, error = _width_and_error(evidence, model, safe, safest, level, proof_samples)
    if np.any(safest.mean[1:] - flattered - width < _SURE * error):
        return None
    spent = [occupancy(model, policy) for policy in (safe, bold)]
    policies: list[Policy] = []
    for boldness in steps(_MIXED if mixture else _MEMBERS):
        policy = Policy.from_occupancy(model, (1.0 - boldness) * spent[0] + boldness * spent[1], otherwise=safe)
        if not policies or not _alike(policy, policies[-1]):
            policies.append(policy)
    variance = evidence.signal_variance
    guesses = [at_once(model, partial(guess_from_model, model, policy, variance)) for policy in policies]
    claims = between_neighbours(len(policies), _SHARES) if mixture else each_of(len(policies))
    return Family(tuple(policies), tuple(guesses), claims)


def steps(number: int) -> Floats:
    """Where so many stand between the safest, 0, and the boldest, 1: closest where the proof is expected to end.

    >>> np.diff(steps(5)).round(2).tolist()
    [0.47, 0.15, 0.14, 0.24]
    """
    spread = math.sqrt(2.0)
    first, last = ndtr(-_SAFEST / spread), ndtr(-_BOLDEST / spread)
    places = spread * ndtri(np.linspace(first, last, number))
    return np.clip((places + _SAFEST) / (_SAFEST - _BOLDEST), 0.0, 1.0)


def _alike(one: Policy, other: Policy) -> bool:
    return bool(np.allclose(one.probabilities, other.probabilities, rtol=0.0, atol=1e-9))
