"""Test policies by walks, and mix what was tested so that the mixture is in bounds: how every practical preset ends.

Everything is in the units that the learner sees (scaled, unless the user said no) and normalised by (1 - discount).

**A trial** of a policy estimates its reward and its margins from walks. A walk starts from the initial distribution,
follows the policy, and goes on after each transition with probability g = discount. With a table q of the values of the
pairs that was fixed before the walk, and v(s) = sum_a pi(a | s) q(s, a),

    X = mean of v over a few free starts + sum over the walk of (1 - g) m(s, a) + g v(s') - q(s, a),     E[X] = J.

For step t is reached with probability g^t, so that the sum of the first terms has the mean J, and the others telescope
to -E[v(s_0)]. This holds for every q; one that is close leaves little noise, and that of the actions that were drawn is
gone besides: on grids and chains values of states alone left standard errors that were half as large again, or twice. q
starts as the values on the pilot's model, which count as `PRIOR_WALKS` / (1 - g) visits of every pair, or as zeros
without one; after each finished walk, never within one, it is improved by temporal differences, backwards, with the
step 1 / (1 + (1 - g) visits(s, a)). So q is predictable: the X - J are martingale differences, and their mean divided
by its standard error is asymptotically normal. That is what the test rests on: *it is asymptotic, and no proof*. A
proof is ``ib.learn_certified(learner=...)``. The last walk, which the budget cuts, is dropped: a bias of the order of
one walk among all.

**The mixture.** Of policies i with estimates r_i, m_i and standard errors se_i, take the weights

    w >= 0, sum w = 1:    max sum_i w_i r_i    subject to    sum_i w_i m_ik - |w_i z se_ik| >= kappa    for every k,

|.| the Euclidean norm over i: the walks of different policies are independent, so that this is z standard errors of the
mixture, and what one policy is tested by serves the others too. z is Student's quantile at `LEVEL` / K (the normal one,
but for a few walks). Where there are no such weights, those for which the least row is largest, in units of the mean of
the z se_ik: then in bounds is "not shown". The answer is the ONE policy with the mixed occupancy, sum_i w_i shares_i(s)
pi_i(a | s), the shares of time being those of the trial's own walks and of `PRIOR_TIME` walks on the model, plus
`UNSEEN`. Two things are not in the test: that weights are chosen by the same walks, and that these shares are
estimates. Measured on 42 problems with 1e5 samples, of the margins that bind: true less tested, in standard errors, has
a mean of -0.1 and a standard deviation of 1.0, and the shares add 0.3; in 1 % of the runs that were shown a margin was
below zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from inbounds.algorithms.planning import at_once
from inbounds.arrays import Floats, Ints
from inbounds.criteria.evaluation import occupancy
from inbounds.exact.highs import INFINITE, SMALL, Columns, minimise
from inbounds.numerics.compiled import compiled
from inbounds.problem.cmdp import CMDP
from inbounds.problem.draws import World, draw_ends, draw_next, draw_pair, draw_start, observed
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator
from inbounds.proofs.walks import Tally, count_walk, new_tally, standard_errors, values_on_model

LEVEL = 0.01
"""Of the tests of all margins of a policy together. At 0.02 two of 60 runs were out where 0.01 had none; 0.01 costs
0.06 % of the reward."""

STARTS, STARTS_PER_STEP = 64, 4
"""Free starts that a walk averages its first value over: the first number, but for short walks at most the second for
every step that it is expected to make."""

PRIOR_WALKS = 20.0
"""What the values on the pilot's model count as: so many walks through every pair."""

PRIOR_TIME = 100.0
"""What the time in each state on the pilot's model counts as: so many walks. With trials of few walks it takes off the
tail of what a mixture loses by wrong shares (2.3 standard errors to 1.0, at 1 %)."""

UNSEEN = 1e-6
"""Share of the time that a state counts with in which no walk was."""

_LONGEST = 50.0
"""Steps of a walk that are kept for the improvement of values, in units of 1 / (1 - discount): exp(-50) of all walks
are longer."""

_ROUNDING = 1e-7
"""Of weights, and of what is asked of a mixture, in standard errors."""

_ROUNDS = 50
"""Tangents, at most; five to ten are usual."""


class Trial(NamedTuple):
    """Walks of one policy under way."""

    values: Floats  # [S, K + 1]: v, of the reward and of each margin
    pair_values: Floats  # [n, K + 1]: q
    tries: Floats  # [n]: visits behind q
    visits: Ints  # [S]: of all walks, the one under way included
    expected: Floats  # [S]: visits that the pilot's model counts for
    tally: Tally  # of the walks that have ended
    totals: Floats  # [K + 1]: X of the walk under way
    trail: Ints  # [room, 2]: its pairs, and the states after them
    seen: Floats  # [room, K + 1]: what was observed with them
    position: Ints  # [2]: the state that it is in, -1 before a start; its steps


class WalkedPolicy(NamedTuple):
    """The policy of a trial."""

    policy: Floats  # [n]
    discount: float
    starts: int  # free ones, that a walk averages its first value over


def new_trial(simulator: Simulator, policy: Policy, samples: int, model: CMDP | None) -> tuple[Trial, WalkedPolicy]:
    """A trial of `samples` samples, before the first; `model` is the pilot's, in the units that the learner sees."""
    rows, pairs, discount = 1 + simulator.n_constraints, simulator.pairs, simulator.discount
    values, pair_values = np.zeros((pairs.n_states, rows)), np.zeros((pairs.n_pairs, rows))
    tries, expected = np.zeros(pairs.n_pairs), np.zeros(pairs.n_states)
    if model is not None:
        found, spent = at_once(model, lambda: (values_on_model(model, policy), occupancy(model, policy)))
        pair_values, values = found[0].copy(), found[1].copy()
        tries += PRIOR_WALKS / (1.0 - discount)
        expected += PRIOR_TIME / (1.0 - discount) * pairs.sum_by_state(spent)
    room = min(samples, math.ceil(_LONGEST / (1.0 - discount)))
    trial = Trial(
        values=values,
        pair_values=pair_values,
        tries=tries,
        visits=np.zeros(pairs.n_states, dtype=np.int64),
        expected=expected,
        tally=new_tally(simulator),
        totals=np.zeros(rows),
        trail=np.zeros((room, 2), dtype=np.int64),
        seen=np.zeros((room, rows)),
        position=np.array([-1, 0], dtype=np.int64),
    )
    starts = min(STARTS, math.ceil(STARTS_PER_STEP / (1.0 - discount)))
    return trial, WalkedPolicy(policy.probabilities.copy(), float(discount), starts)


@compiled
def walk(trial: Trial, followed: WalkedPolicy, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
    """Walks of the policy, from `drawn` to `until` samples."""
    v, q, totals, position, gamma = trial.values, trial.pair_values, trial.totals, trial.position, followed.discount
    rows = totals.shape[0]
    while drawn < until:
        if position[0] < 0:
            begin_walk(trial, followed.starts, world, rng)
        s = position[0]
        pair = draw_pair(followed.policy, world.offsets, s, rng)
        after = draw_next(world, pair, rng)
        drawn += 1
        trial.visits[s] += 1
        step = position[1]
        for k in range(rows):
            seen = observed(world, pair, k)
            totals[k] += (1.0 - gamma) * seen + gamma * v[after, k] - q[pair, k]
            if step < trial.trail.shape[0]:
                trial.seen[step, k] = seen
        if step < trial.trail.shape[0]:
            trial.trail[step, 0] = pair
            trial.trail[step, 1] = after
        position[0] = after
        position[1] = step + 1
        if draw_ends(gamma, rng):
            count_walk(trial.tally, totals)
            learn_from_walk(trial, followed, world)
            position[0] = -1
    return drawn


@compiled
def begin_walk(trial: Trial, starts: int, world: World, rng: np.random.Generator) -> None:
    """A start, and the mean of v over it and the other free ones."""
    rows = trial.totals.shape[0]
    first = draw_start(world, rng)
    for k in range(rows):
        trial.totals[k] = trial.values[first, k]
    for _ in range(1, starts):
        other = draw_start(world, rng)
        for k in range(rows):
            trial.totals[k] += trial.values[other, k]
    for k in range(rows):
        trial.totals[k] /= starts
    trial.position[0] = first
    trial.position[1] = 0


@compiled
def learn_from_walk(trial: Trial, followed: WalkedPolicy, world: World) -> None:
    """Temporal differences along the walk that has just ended, from its end to its start."""
    v, q, gamma = trial.values, trial.pair_values, followed.discount
    for step in range(min(trial.position[1], trial.trail.shape[0]) - 1, -1, -1):
        pair, after = trial.trail[step, 0], trial.trail[step, 1]
        s, share = world.states[pair], followed.policy[pair]
        rate = 1.0 / (1.0 + (1.0 - gamma) * trial.tries[pair])
        trial.tries[pair] += 1.0
        for k in range(v.shape[1]):
            change = rate * ((1.0 - gamma) * trial.seen[step, k] + gamma * v[after, k] - q[pair, k])
            q[pair, k] += change
            v[s, k] += share * change


ENOUGH = 200
"""Walks of each policy from which on the normal law is believed: with 15 to 75 of them up to two thirds of what the
test took for in bounds was out, on a grid and a chain that chose nothing here; with 150 and more, none was."""


class Outcome(NamedTuple):
    """What a trial came to."""

    name: str
    policy: Policy
    means: Floats  # [K + 1]: of the reward and of each margin
    errors: Floats  # [K + 1]: standard errors; infinite with fewer than two walks
    low: Floats  # [K]: margins less z standard errors
    shares: Floats  # [S]: of the time in each state
    walks: int  # that have ended


def outcome(name: str, policy: Policy, trial: Trial) -> Outcome:
    """The estimates of the walks that have ended."""
    means, errors, walks = trial.tally.mean.copy(), standard_errors(trial.tally), int(trial.tally.walks[0])
    z = stdtrit(walks - 1, 1.0 - LEVEL / max(len(means) - 1, 1)) if walks > 1 else 0.0
    low = means[1:] - z * errors[1:] if walks > 1 else np.full(len(means) - 1, -math.inf)
    time = trial.visits + trial.expected
    return Outcome(name, policy, means, errors, low, time / max(time.sum(), 1.0), walks)


def wanted_margins(test: Outcome, kappa: float, times: float, most: float) -> Floats:
    """Margins for a further candidate [K], after the test of a first one that was asked for `kappa`.

    Beyond kappa so many `times` what the test cannot see, z standard errors, but at `most` so much.
    """
    reach = test.means[1:] - test.low
    return kappa + np.where(np.isfinite(reach), np.minimum(times * reach, most), 0.0)


class Repaired(NamedTuple):
    """The best mixture of what was tested."""

    policy: Policy
    weights: Floats  # [P], of the policies in the order in which they were given
    margins: Floats  # [K]: the tested margins of the mixture
    errors: Floats  # [K]: their standard errors
    shown: bool  # whether the test shows that every margin reaches what was asked
    walks: int  # of the policy in it that was tested by the fewest


def repair(problem: Any, tests: Sequence[Outcome], kappa: float = 0.0) -> Repaired:
    """The mixture, as one policy, of the most tested reward among those whose tested margins all reach `kappa`."""
    weights, shown = mixing_weights(tests, kappa)
    used = np.flatnonzero(weights).tolist()
    if len(used) == 1:
        policy = tests[used[0]].policy
    else:
        states = problem.pairs.states
        mixed = sum(weights[i] * (tests[i].shares + UNSEEN)[states] * tests[i].policy.probabilities for i in used)
        policy = Policy.from_occupancy(problem, mixed)
    walks = min(tests[i].walks for i in used)
    margins, errors = (np.array([getattr(test, what)[1:] for test in tests]) for what in ("means", "errors"))
    return Repaired(
        policy=policy,
        weights=weights,
        margins=weights[used] @ margins[used],
        errors=np.sqrt(weights[used] ** 2 @ errors[used] ** 2),
        shown=shown and (margins.shape[1] == 0 or walks >= ENOUGH),
        walks=walks,
    )


def mixing_weights(tests: Sequence[Outcome], kappa: float) -> tuple[Floats, bool]:
    """The weights of the module's program, [P]; and whether the tests show that every margin reaches `kappa`."""
    weights = np.zeros(len(tests))
    usable = [i for i, test in enumerate(tests) if np.all(np.isfinite(test.errors))]
    if not usable:
        weights[0] = 1.0
        return weights, False
    rewards = np.array([tests[i].means[0] for i in usable])
    margins = np.array([tests[i].means[1:] for i in usable]) - kappa  # [P, K]
    if margins.shape[1] == 0:
        weights[usable[int(np.argmax(rewards))]] = 1.0
        return weights, True
    reach = margins + kappa - np.array([tests[i].low for i in usable])  # [P, K]: z standard errors
    # In units of these; where there are none, in one that leaves HiGHS numbers of one order.
    units = np.maximum(reach.mean(axis=0), 1e-4 * np.abs(margins).max(axis=0))
    margins, reach = (table / np.where(units > 0.0, units, 1.0) for table in (margins, reach))

    def least(weights: Floats) -> float:
        """By how much the margin that is least exceeds its standard error."""
        return float(np.min(weights @ margins - np.linalg.norm(weights[:, None] * reach, axis=0)))

    # First the largest `least`; then, unless that is negative, the most reward.
    alone = np.eye(len(usable))
    tangents = [tangent(margins, reach, corner) for corner in alone]
    chosen = best_weights(margins, reach, None, least, tangents, max(alone, key=least))
    if shown := least(chosen) >= -_ROUNDING:
        rewards = rewards / max(float(np.abs(rewards).max()), _ROUNDING)
        chosen = best_weights(margins, reach, rewards, least, tangents, chosen)
    chosen = np.where(chosen > _ROUNDING, chosen, 0.0)
    weights[usable] = chosen / chosen.sum()
    return weights, shown


def tangent(margins: Floats, reach: Floats, weights: Floats) -> Floats:
    """Slopes [P, K] of rows that are no less than sum_i w_i m_ik - |w_i reach_ik| anywhere, and equal at `weights`."""
    norms = np.linalg.norm(weights[:, None] * reach, axis=0)
    return margins - weights[:, None] * reach**2 / np.where(norms > 0.0, norms, 1.0)


def best_weights(
    margins: Floats,
    reach: Floats,
    rewards: Floats | None,
    least: Callable[[Floats], float],
    tangents: list[Floats],
    known: Floats,
) -> Floats:
    """The weights [P] of the most reward among those with `least` >= 0; without rewards, those of the largest `least`.

    Norms are convex, so tangents bound the rows from above: the optimum of the program with those that are there is
    tried, and its own tangent added, until it keeps what it promises. That takes a handful of rounds. Weights that are
    `known` to do are the answer where HiGHS finds no optimum, as of rows that differ by rounding alone.
    """
    n = len(margins)
    cost, floor = np.zeros(n + 1), np.zeros(n + 1)
    if rewards is None:
        cost[n], floor[n] = -1.0, -INFINITE  # the last unknown is what every row reaches
    else:
        cost[:n] = -rewards
    for _ in range(_ROUNDS):
        rows = np.hstack([*tangents, np.ones((n, 1))])
        table = np.vstack([rows, np.append(np.full(rows.shape[1] - 1, -1.0), 0.0)])
        lower = np.append(np.zeros(rows.shape[1] - 1), 1.0)
        upper = np.append(np.full(rows.shape[1] - 1, INFINITE), 1.0)
        found = minimise(Columns.dense(table), cost, lower, upper, column_lower=floor, attempts=SMALL)
        if found is None:
            return known
        weights, promised = np.maximum(found[0][:n], 0.0), found[0][n]
        if least(weights) >= promised - _ROUNDING:
            break
        tangents.append(tangent(margins, reach, weights))
    return weights
