"""Test policies by walks, and mix what was tested so that the mixture is in bounds: how every practical preset ends.

Everything is in the units that the learner sees (scaled, unless the user said no) and normalised by (1 - discount).

**A trial** of a policy estimates its reward and its margins from walks. A walk starts from the initial distribution,
follows the policy, and goes on after each transition with probability g = discount. With a table W of the values of the
states that was fixed before the walk,

    X = mean of W over a few free starts + sum over the walk of (1 - g) m(s, a) + g W(s') - W(s),     E[X] = J.

For step t is reached with probability g^t, so that the sum of the first terms has the mean J, and the others telescope
to -E[W(s_0)]. This holds for every W; one that is close leaves little noise. W starts as the values on the pilot's
model, which count as `PRIOR_WALKS` / (1 - g) visits of every state, or as zeros without one; after each finished walk,
never within one, it is improved by temporal differences, backwards, with the step 1 / (1 + (1 - g) visits(s)). So W is
predictable: the X - J are martingale differences, and their mean divided by its standard error is asymptotically
normal. That is what the test rests on: *it is asymptotic, and no proof*. A proof is
``ib.learn_certified(learner=...)``. The last walk, which the budget cuts, is dropped: a bias of the order of one walk
among all.

**The mixture.** Of policies i with estimates r_i, m_i and standard errors se_i, with low_i = m_i - z se_i, z Student's
quantile at `LEVEL` / K (the normal one, but for a few walks), take the weights

    w >= 0, sum w = 1:    max sum_i w_i r_i    subject to    sum_i w_i low_ik >= kappa    for every constraint k,

and where there are none, those whose least sum_i w_i (low_ik - kappa) / se_k is largest, se_k the mean of the se_ik:
then in bounds is "not shown". The answer is the ONE policy with the mixed occupancy, sum_i w_i visits_i(s) pi_i(a | s),
the visits being those of the trial's own walks, as shares, plus `UNSEEN`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from inbounds.arrays import Floats, Ints
from inbounds.exact.highs import INFINITE, SMALL, Columns, minimise
from inbounds.numerics.compiled import compiled
from inbounds.problem.cmdp import CMDP
from inbounds.problem.draws import World, draw_ends, draw_next, draw_pair, draw_start, observed
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator
from inbounds.proofs.walks import Tally, count_walk, guess_from_model, new_tally, standard_errors

LEVEL = 0.01
"""Of the tests of all margins of a policy together. At 0.02 two of 60 runs were out where 0.01 had none; 0.01 costs
0.06 % of the reward."""

STARTS, STARTS_PER_STEP = 64, 4
"""Free starts that a walk averages its first value over: the first number, but for short walks at most the second for
every step that it is expected to make."""

PRIOR_WALKS = 20.0
"""What the values on the pilot's model count as: so many walks through every state."""

UNSEEN = 1e-6
"""Share of the time that a state counts with in which no walk was."""

_LONGEST = 50.0
"""Steps of a walk that are kept for the improvement of values, in units of 1 / (1 - discount): exp(-50) of all walks
are longer."""

_ROUNDING = 1e-9
"""Of weights, and of what is asked of a mixture."""


class Trial(NamedTuple):
    """Walks of one policy under way."""

    values: Floats  # [S, K + 1]: v, of the reward and of each margin
    pair_values: Floats  # [n, K + 1]: q
    tries: Floats  # [n]: visits behind q
    visits: Ints  # [S]: of all walks, the one under way included
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
    rows, n_states, discount = 1 + simulator.n_constraints, simulator.pairs.n_states, simulator.discount
    n_pairs = simulator.pairs.n_pairs
    values, pair_values, tries = np.zeros((n_states, rows)), np.zeros((n_pairs, rows)), np.zeros(n_pairs)
    if model is not None:
        guess = guess_from_model(model, policy)
        values, pair_values = guess.state_values.copy(), guess.pair_values.copy()
        tries += PRIOR_WALKS / (1.0 - discount)
    room = min(samples, math.ceil(_LONGEST / (1.0 - discount)))
    trial = Trial(
        values=values,
        pair_values=pair_values,
        tries=tries,
        visits=np.zeros(n_states, dtype=np.int64),
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
    """A start, and the mean of W over it and the other free ones."""
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
    return Outcome(name, policy, means, errors, low, trial.visits / max(trial.visits.sum(), 1), walks)


def next_kappa(test: Outcome, kappa: float, cap: float) -> Floats:
    """By how much to tighten each constraint, [K], for a second candidate, after the test of a first one at `kappa`.

    Where the first is not shown to keep kappa, twice its uncertainty and half as much again as is missing, at most the
    `cap`; where it is, bolder by half of what it has to spare.
    """
    low = test.low - kappa
    if not np.all(np.isfinite(low)):
        return np.full(len(low), kappa)
    reach, need = test.means[1:] - test.low, np.maximum(-low, 0.0)
    more = 2.0 * reach + 1.5 * need if np.any(need > 0.0) else reach - 0.5 * low
    return kappa + np.minimum(more, cap)


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
        occupancy = sum(weights[i] * (tests[i].shares + UNSEEN)[states] * tests[i].policy.probabilities for i in used)
        policy = Policy.from_occupancy(problem, occupancy)
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
    margins = np.array([tests[i].means[1:] - kappa for i in usable])  # [P, K]
    reach = np.array([tests[i].means[1:] - tests[i].low for i in usable])  # [P, K]: z standard errors
    if margins.shape[1] == 0:
        weights[usable[int(np.argmax(rewards))]] = 1.0
        return weights, True
    # In standard errors; where there are none, in a unit that leaves HiGHS numbers of one order.
    units = np.maximum(reach.mean(axis=0), 1e-4 * np.abs(margins).max(axis=0))
    units = np.where(units > 0.0, units, 1.0)
    margins, reach = margins / units, reach / units
    # First the largest t that every row reaches; then, unless that is negative, the most reward.
    chosen = best_weights(margins, reach, np.zeros(len(usable)), free=True)
    least = float(np.min(chosen @ margins - np.linalg.norm(chosen[:, None] * reach, axis=0)))
    shown = least >= -_ROUNDING
    if shown:
        gain = best_weights(margins, reach, rewards / max(float(np.abs(rewards).max()), _ROUNDING), free=False)
        chosen = chosen if gain is None else gain
    chosen = np.where(chosen > _ROUNDING, chosen, 0.0)
    weights[usable] = chosen / chosen.sum()
    return weights, shown


def best_weights(margins: Floats, reach: Floats, rewards: Floats, free: bool) -> Any:
    n, K = margins.shape
    cuts = [margins - reach * 0.0]
    rows, ks = [], []
    table = []
    points = [np.full(n, 1.0 / n)] + list(np.eye(n))
    w = None
    for _ in range(60):
        for p in points:
            norm = np.linalg.norm(p[:, None] * reach, axis=0)
            slope = np.divide(p[:, None] * reach**2, norm, out=np.zeros_like(reach), where=norm > 0)
            table.append(margins - slope)
        rows = np.hstack(table)
        m = rows.shape[1]
        full = np.hstack([rows, np.ones((n, 1))])
        lower, upper = np.append(np.zeros(m), 1.0), np.append(np.full(m, INFINITE), 1.0)
        if free:
            full = np.vstack([full, np.append(-np.ones(m), 0.0)])
            cost, least = np.append(np.zeros(n), -1.0), np.append(np.zeros(n), -INFINITE)
            found = minimise(Columns.dense(full), cost, lower, upper, column_lower=least, attempts=SMALL)
        else:
            found = minimise(Columns.dense(full), -rewards, lower, upper, attempts=SMALL)
        if found is None:
            return w
        w = found[0][:n]
        value = w @ margins - np.linalg.norm(w[:, None] * reach, axis=0)
        if np.all(value >= (found[0][n] if free else 0.0) - 1e-7):
            break
        points = [w]
    return w
