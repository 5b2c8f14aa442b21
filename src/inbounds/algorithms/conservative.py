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
    boldest     the best with margins of c + z err, at least w / 10
    between     28 in all, with occupancies of the model that go from the one to the other in equal steps

To begin one err less bold loses Phi(z) err, the probability that a bolder one would have been proved; and it saves
partings of the walks, d for each err if half of them are while both are walked for, each of which costs up to w. So
Phi(z) is d w / err, w and err added up with the prices, but at least .05 and at most .5. For the boldest, n is less by
the factor of the samples that a walk of all takes: 1 + d (4 - z).

**A bold and a safe policy**, whose mixtures are tried in an order (`inbounds.proofs.blocks`):

    bold        the best policy of the model with margins of max(bias - z sqrt(s2 / n), 0): with a share that is small
                its walks would have shown if it is out of bounds by more; z is the normal quantile of the level
    safe        the best with margins of f w + bias, w what bold walks alone could settle, for f = 1.5, 2.5, 4 or 7
    order       from the share t of the safe one with the most standard errors to spare on the model, in steps of 1/40
                down to 0; a pair that has less than 2 to spare there is not tried. Of the others, that f is taken for
                which the last share with half a standard error to spare, on the way down, has the most reward

All of it is prediction. Where it is wrong reward is lost, or an attempt fails; no proof rests on it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from inbounds.algorithms.empirical import best_of
from inbounds.algorithms.exploring import model_error
from inbounds.arrays import Floats, freeze
from inbounds.criteria.evaluation import occupancy
from inbounds.errors import Infeasible
from inbounds.exact.feasibility import slater
from inbounds.problem.cmdp import CMDP
from inbounds.problem.mixture import Mixture
from inbounds.problem.policy import Policy
from inbounds.proofs.betting import settleable
from inbounds.proofs.blocks import BOLD_WALKS, settleable_share
from inbounds.proofs.evidence import Evidence
from inbounds.proofs.walks import Guess, guess_from_model, make_design

_MEMBERS = 28  # of a family
_SAFEST = 4.0  # standard errors between the one that is expected to be taken and the safest
_BOLDEST = -1.64  # the same for the boldest: one bolder than that would do with probability .05
_STEPS = 40  # between no and all of the safe policy
_ALL_SHARES = np.arange(_STEPS + 1) / _STEPS
_SAFETY = (1.5, 2.5, 4.0, 7.0)  # times the margin that can be settled, for the safe policy to keep
_SURE = 2.0  # standard errors to spare that a mixture, or the safest policy, must have on the model to be tried
_LIKELY = 0.5  # the same, down to which shares are expected to pass


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
    most = slater(replace(model, constraints=shares))
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
    """Policies, ever bolder, with guesses of their values."""

    policies: tuple[Policy, ...]
    guesses: tuple[Guess, ...]


def family(evidence: Evidence, level: float, proof_samples: int, bias: Floats) -> Family | None:
    """Policies of the empirical model around the one that a proof is predicted to settle, by the rule of the module.

    None where not even the safest is expected to be settled.
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
    spent = [occupancy(model, policy) for policy in (safe, bold)]
    policies: list[Policy] = []
    guesses: list[Guess] = []
    for boldness in np.linspace(0.0, 1.0, _MEMBERS):
        mixed = (1.0 - boldness) * spent[0] + boldness * spent[1]
        policy = Policy.from_occupancy(model, mixed, otherwise=safe)
        if policies and np.allclose(policy.probabilities, policies[-1].probabilities, rtol=0.0, atol=1e-9):
            continue
        policies.append(policy)
        guesses.append(guess_from_model(model, policy, evidence.signal_variance))
    width, error = _width_and_error(evidence, model, policies[0], guesses[0], level, proof_samples)
    if np.any(guesses[0].mean[1:] - flattered - width < _SURE * error):
        return None
    return Family(tuple(policies), tuple(guesses))


class BoldAndSafe(NamedTuple):
    """Two policies to mix, with guesses of their values, and the shares of the safe one in the order of their tests."""

    policies: tuple[Policy, Policy]
    guesses: tuple[Guess, Guess]
    order: Floats  # [M]

    def mixed(self, share: float) -> Policy | Mixture:
        """With so much of the safe policy; where only one is ever drawn, that policy."""
        if 0.0 < share < 1.0:
            return Mixture(np.array([1.0 - share, share]), self.policies)
        return self.policies[int(share)]


class _Planned(NamedTuple):
    """A policy, and what the empirical model says of its values [K + 1] and of a proof of them."""

    policy: Policy
    guess: Guess
    variance: Floats  # of a walk
    least: Floats  # of a walk
    error: Floats  # standard error of the model


def bold_and_safe(evidence: Evidence, level: float, proof_samples: int, bias: Floats) -> BoldAndSafe | None:
    """The pair of policies whose provable mixture is predicted to have the most reward, by the rule of the module."""
    model, simulator = evidence.model(), evidence.simulator
    walks = max(proof_samples * (1.0 - model.discount), 1.0)

    def planned(kappa: Floats) -> _Planned:
        policy, _ = best_with(model, kappa)
        guess = guess_from_model(model, policy, evidence.signal_variance)
        error = np.sqrt(model_error(evidence, model, policy, guess))
        least = make_design(simulator, policy, guess).least
        return _Planned(policy, guess, guess.variance(model.discount), least, error)

    bold = planned(np.zeros(model.n_constraints))
    noise = np.sqrt(bold.variance[1:] / (walks * BOLD_WALKS / (BOLD_WALKS + 1)))
    short = np.maximum(bias + ndtri(level) * noise, 0.0)
    if np.any(short):
        bold = planned(short)
    best, found = -np.inf, None
    for factor in _SAFETY:
        width, _ = settleable_share(0.0, level, np.array([bold.least] * 2), np.array([bold.variance] * 2), walks)
        safe = planned(factor * width[1:] + bias)
        spare = np.array([_to_spare(bold, safe, share, level, walks, bias) for share in _ALL_SHARES])
        start = int(np.argmax(spare))
        if spare[start] < _SURE:
            continue
        unlikely = np.flatnonzero(spare[:start] < _LIKELY)
        share = _ALL_SHARES[unlikely[-1] + 1 if len(unlikely) else 0]
        reward = (1.0 - share) * bold.guess.mean[0] + share * safe.guess.mean[0]
        if reward > best:
            order = freeze(_ALL_SHARES[start::-1].copy())
            best, found = reward, BoldAndSafe((bold.policy, safe.policy), (bold.guess, safe.guess), order)
    return found


def _to_spare(bold: _Planned, safe: _Planned, share: float, level: float, walks: float, bias: Floats) -> float:
    """By how many standard errors the margins of a mixture are expected to exceed what a proof can settle."""
    least, variance = np.array([bold.least, safe.least]), np.array([bold.variance, safe.variance])
    width, of_mean = settleable_share(share, level, least, variance, walks)
    margins = ((1.0 - share) * bold.guess.mean + share * safe.guess.mean)[1:] - bias
    error = ((1.0 - share) * bold.error + share * safe.error)[1:]  # of one model: they go together
    return float(np.min((margins - width[1:]) / np.maximum(np.sqrt(of_mean[1:] + error**2), 1e-300)))
