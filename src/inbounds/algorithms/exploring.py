"""Where exploration's samples go, and how sure an empirical model is.

A plan on an empirical model goes wrong in two ways, and samples are for both, by halves.

**What policies are worth.** A model's margin of a policy with occupancy mu has the variance sum over pairs of
(mu / (1 - g))^2 var / visits, where var is the variance of (1 - g) m + g v(s'). That is least with visits in
proportion to mu sd. sd^2 is that of the Lagrangian, reward + u . margins, plus u_k^2 times that of each margin.

**Which action is better.** Let an action look worse in the Lagrangian, by `gap`, than the best of its state, which the
plan takes, and se^2 = var / visits of the one plus that of the other. If the true difference is normal around the gap,
with the standard deviation se, then at each visit of the state the plan is expected to lose se (f(z) - z F(-z)) by
taking the wrong one, z = gap / se, with the density f and the distribution F of a standard normal. The derivative by
se^2 is f(z) / (2 se). So near what visits are now, all these losses are, but for constants, the sum over pairs of
c var / visits, with c = mu(s) f(z) / se for an action that the plan does not take, and for the one that it takes the
sum of those of its rivals. That is least with visits in proportion to sqrt(c var).

The first alone spends its samples where the plan is sure already, and the second forgets what values rest on: either
loses more than both (docs/certified-learning.md). mu is the occupancy of half the plan's policy, half one that still
doubts, with probabilities in proportion to exp(-z^2 / (2 * 9)): rivals may be better because of what comes after them.

Because plans may be wrong, a part of the samples goes to all pairs evenly. In each round a pair should come to have its
share of all samples so far, and counts are filled up towards it.

**Optimism.** The best policy of an empirical model looks better on it than it is, on sparse models by several standard
errors. That bias is measured by cross-fitting: exploration is kept in two halves, and the best policy of either is
evaluated on both; .6 of the difference is left with all samples.
"""

from __future__ import annotations

import numpy as np

from inbounds.algorithms.planning import best_of, safest_of
from inbounds.arrays import Floats, Ints, freeze
from inbounds.criteria.evaluation import occupancy
from inbounds.errors import Infeasible
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import Policy
from inbounds.proofs.evidence import Evidence
from inbounds.proofs.walks import Guess, step_noise

_DOUBT = 3.0  # standard errors by which an action may look worse and still be tried
_OF_HALF = 0.6  # of the optimism of plans on half the samples is left with all


def optimism(one: Evidence, other: Evidence) -> Floats:
    """By how much [K] margins of a plan on the evidence of both look larger on it than they are: cross-fitting.

    A plan on either half is evaluated on both halves; the difference is what planning on half the samples flatters
    itself with. It falls faster than the square root of the samples.
    """
    models = one.model(), other.model()
    differences = []
    for mine, foreign in (models, models[::-1]):
        try:
            policy = best_of(mine).policy
        except Infeasible:
            policy = safest_of(mine).policy
        values = [model.margins @ occupancy(model, policy) for model in (mine, foreign)]
        differences.append(values[0] - values[1])
    return _OF_HALF * np.maximum(np.mean(differences, axis=0), 0.0)


def worth_trying(
    evidence: Evidence, model: CMDP, policy: Policy, prices: Floats, guess: Guess, evenly: float
) -> Floats:
    """The share [n] of all samples that each pair should have by the formulas of the module, a part of it `evenly`."""
    pairs, visits, weights = model.pairs, np.maximum(evidence.totals.visits, 1.0), np.concatenate([[1.0], prices])
    values = np.column_stack([guess.state_values @ weights, guess.state_values[:, 1:]])
    seen = evidence.signal_variance
    noise = smoothed_noise(evidence, model, values, np.column_stack([seen @ weights**2, seen[:, 1:]]))
    q, taken, of_state = guess.pair_values @ weights, policy.probabilities, pairs.sum_by_state
    gap = np.maximum.reduceat(q, pairs.offsets[:-1])[pairs.states] - q
    error = noise[:, 0] / visits
    error = np.sqrt(np.maximum(error + of_state(taken * error)[pairs.states], 1e-200))
    likely = np.exp(-((gap / error) ** 2) / 2.0)
    doubt = likely ** (1.0 / _DOUBT**2)
    doubting = Policy(pairs, doubt / of_state(doubt)[pairs.states])
    spent = 0.5 * (occupancy(model, policy) + occupancy(model, doubting))
    lost = (1.0 - taken) * of_state(spent)[pairs.states] * likely / error
    lost += taken * of_state(lost)[pairs.states]
    shares = [spent * np.sqrt(noise[:, 0] + noise[:, 1:] @ prices**2), np.sqrt(lost * noise[:, 0])]
    shares = [share / share.sum() for share in shares if np.any(share)] or [np.full(len(q), 1.0 / len(q))]
    return freeze(evenly / len(q) + (1.0 - evenly) * np.mean(shares, axis=0))


def filled_up(visits: Ints, weights: Floats, number: int) -> Ints:
    """How often [n] to try each pair, `number` in all, so that in the end visits are as proportional as can be.

    Like water: what is poured in rises to one level, visits / weight, above which no pair gets any.

    >>> filled_up(np.array([5, 0, 0]), np.array([0.5, 0.25, 0.25]), 5).tolist()
    [0, 3, 2]
    """
    order = np.argsort(visits / weights)
    filled, weight = np.cumsum(visits[order]), np.cumsum(weights[order])
    levels = (number + filled) / weight  # if the first so many get some
    used = int(np.flatnonzero(levels * weights[order] >= visits[order])[-1])
    exact = np.maximum(levels[used] * weights - visits, 0.0)
    times = np.floor(exact).astype(np.int64)
    last = np.argsort(times - exact, kind="stable")[: number - int(times.sum())]
    times[last] += 1
    return times


def smoothed_noise(evidence: Evidence, model: CMDP, values: Floats, signal_variance: Floats) -> Floats:
    """The variance of a step at each pair [n, R], for values [S, R], with one more sample of any state.

    So that a pair tried once does not pass for one without noise.
    """
    visits = evidence.totals.visits[:, None]
    noise = step_noise(model, values, signal_variance)
    return (visits * noise + model.discount**2 * values.var(axis=0)) / (visits + 1.0)


def model_error(evidence: Evidence, model: CMDP, policy: Policy, guess: Guess) -> Floats:
    """The variance [K + 1] of the values of a policy on the empirical model."""
    visits = evidence.totals.visits[:, None]
    noise = smoothed_noise(evidence, model, guess.state_values, evidence.signal_variance)
    weights = (occupancy(model, policy) / (1.0 - model.discount)) ** 2
    return weights @ (noise / np.maximum(visits, 1.0)) + guess.start_variance / evidence.totals.starts.sum()
