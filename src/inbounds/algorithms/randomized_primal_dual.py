"""Randomized primal-dual: one multiplicative step on a state and one of its actions per sample. No constraints.

Mengdi Wang. "Randomized Linear Programming Solves the Markov Decision Problem in Nearly Linear (Sometimes Sublinear)
Time", Mathematics of Operations Research 45(2), 2020. The method that CSPDA builds on.

Problem
-------
Only a generative model is at hand: any pair can be asked for a next state. In scaled units (reward r in [0, 1]), with
any distribution q > 0 over the S states, an occupancy mu over the n pairs and a value v of each state, solve

    min over v, max over mu of    (1 - gamma) <q, v> + sum_{s,a} mu(s,a) (r(s,a) + gamma E v(s') - v(s))
    over 0 <= v <= 1 / (1 - gamma) and distributions mu whose states have sum_a mu(s,a) >= theta q(s)

Every true occupancy from the start q meets the last condition with theta = 1 - gamma. It is built in:

    mu(s,a) = p(s) pi(a|s),    p = (1 - theta) xi + theta q,    xi a distribution, pi a policy

Updates
-------
From xi and pi uniform and v = 0, one sample a step, all from the values before the step:

    s ~ p,   a ~ pi(. | s),   s' ~ P(. | s, a)
    Z = r(s,a) + gamma v(s') - v(s)
    v(s)    <- v(s) - alpha ((1 - gamma) q(s) / p(s) - 1),  v(s') <- v(s') - alpha gamma;  clip to [0, 1 / (1 - gamma)]
    pi(a|s) <- pi(a|s) D  and  xi(s) <- xi(s) (1 + pi(a|s) (D - 1)),  D = exp( beta (Z - M) / (p(s) pi(a|s)) )
    and normalise xi and pi(. | s)

The output is the average over the steps of pi, of the conditional policies: not of occupancies, and not a last iterate.
The averages of mu and v are in ``run.averages``; mu is about the start q below, not the problem's own.

Names
-----
    code            paper       code            paper
    shift           M = 1 / (1 - gamma)         row_sums        sums of pi over the steps
    weights         xi, unnormalised            pair_sums       sums of mu over the steps
    alpha, beta     the same

Updates and formulas are from memory and agree with a public re-implementation; they were not checked against the
paper's text.

The start
---------
A learner cannot see the initial distribution, and the update needs q(s). The paper allows any q > 0: we take the
uniform one, as the re-implementation does. The best policy of a problem without constraints is best from every state,
so q does not move the optimum; it says which states count in the error on the way to it. With rho the problem's own
initial distribution, the error from rho is at most S max(rho) times the error from q, because no state's error is
negative.

Guarantee
---------
From memory: an eps-optimal policy from about S A / ((1 - gamma)^4 eps^2) samples, when the stationary distributions
of all policies are within constant factors of one another; in the worst case there are further factors of S. (The
abstract says the same in words: linear in the number of pairs for ergodic problems.) The first is the figure in Table 1
of the CSPDA paper, which leaves the condition out. Its constant and logarithms are not known here: a run claims the
theorem from 100 S A / (1 - gamma)^2 samples on, those without any for 0.1 per step: eps is that of a sum, 0.1 / (1 -
gamma), as in ``ib.plan``.

Departures
----------
* Where s = s', both changes of its value are made and then it is clipped, once.
* Weights never reach zero on paper, nor may they in floating point: at least 1e-250. An exponent is at most 20; with
  the paper's M it is never positive.

Practical preset
----------------
`RandomizedPrimalDual.practical()`: as with CSPDA, M is replaced by a running mean of Z and the average starts half way.
Without M an exponent can be positive, and 1 / pi has no bound: so actions are drawn from zeta = (1 - exploration) pi +
exploration / A with exploration 0.1, zeta takes the place of pi in the exponent, and the sample enters the update of v
with the weight pi / zeta. alpha is multiplied by 0.3 and beta by 30, at most 1 / n. No theorem covers it.

Cost
----
O(log S + A) a step: xi is kept unnormalised in a sum tree, and a step reads and normalises the row of one state, which
is also when that row's sums over the steps are brought up to date. While a row and its state's weight w stand still, mu
sums to pi ((1 - theta) w sum 1 / W_t + theta q times the steps), with W_t the total weight: as in `cspda`, one running
sum of 1 / W_t serves all states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Algorithm, Answer, Averages, Prepared
from inbounds.algorithms.kernels import (
    SMALLEST_WEIGHT,
    account_value,
    average_values,
    clear,
    draw_mixed,
    grown,
    tree_levels,
    tree_normalise,
    tree_set,
    tree_total,
    uniform_tree,
)
from inbounds.algorithms.settings import Formulas, Steps, StepSettings, guarantee_unless, stated
from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled
from inbounds.problem.draws import World, draw_next, draw_pair
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator
from inbounds.tables import so_many

_WITHIN = 0.1
"""Of the optimum, per step and in scaled units: for which the guarantee says how many samples the theorem takes."""
_SMALLEST_TOTAL, _LARGEST_TOTAL = 1e-100, 1e100  # of the weights, before they are divided by it
_LARGEST_SUM_IN_TERMS = 2.0**20  # of 1 / W_t, as in `cspda`: beyond, its next term would be lost in rounding


@dataclass(frozen=True, repr=False)
class RandomizedPrimalDual(StepSettings):
    """Settings of the randomized primal-dual method; the defaults are the paper's formulas. See the module.

    Parameters
    ----------
    alpha, beta : float, optional
        Step sizes of the values, and of the policy and the states' weights. Default: the paper's formulas.
    exploration : float in [0, 1)
        Share of the actions that is drawn uniformly; the paper's is 0.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue().unconstrained()
    >>> run = ib.learn(queue.simulator(), ib.RandomizedPrimalDual.practical(), samples=200_000, seed=0)
    >>> ib.solve(queue).total_reward - ib.evaluate(queue, run.policy).total_reward < 0.05
    True
    """

    exploration: float = field(default=0.0, metadata=checks.a_number("in [0, 1)", lambda value: 0.0 <= value < 1.0))

    preset: ClassVar = dict(
        shift="baseline", exploration=0.1, average="second half", alpha_multiplier=0.3, beta_multiplier=30.0
    )


def formulas(n_states: int, n_pairs: int, discount: float, steps: int) -> Formulas:
    beta = (1.0 - discount) * math.sqrt(math.log(n_pairs + 1.0) / (2.0 * n_pairs * steps))
    return Formulas(alpha=n_states / (2.0 * (1.0 - discount) ** 2) * beta, beta=beta, shift=1.0 / (1.0 - discount))


class Constants(NamedTuple):
    steps: Steps
    discount: float
    levels: Ints  # of the sum tree


class State(NamedTuple):
    tree: Floats  # sum tree over the weights [S]: xi = weights / total
    policy: Floats  # [n]: pi
    row_sums: Floats  # [n]: sum of pi over the steps accounted for
    accounted: Ints  # [S]: how many those are
    pair_sums: Floats  # [n]: sum of mu over the steps accounted for
    seen: Floats  # [S, 2]: inverse_sum then, and how many those are
    inverse_sum: Floats  # [1]: sum over averaged steps of 1 / total, since all pairs were last accounted for
    values: Floats  # [S, 3]: v; its sum over the steps accounted for; how many those are
    baseline: Floats  # [1]: running mean of Z
    steps: Ints  # [2]: steps made; steps averaged


def prepare(settings: RandomizedPrimalDual, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    pairs, discount = simulator.pairs, simulator.discount
    paper = formulas(pairs.n_states, pairs.n_pairs, discount, samples)
    steps = settings.steps(paper, pairs.n_pairs, samples)
    constants = Constants(steps, float(discount), tree_levels(pairs.n_states))
    state = State(
        tree=uniform_tree(constants.levels, pairs.n_states),
        policy=Policy.uniform(simulator).probabilities.copy(),
        row_sums=np.zeros(pairs.n_pairs),
        accounted=np.zeros(pairs.n_states, dtype=np.int64),
        pair_sums=np.zeros(pairs.n_pairs),
        seen=np.zeros((pairs.n_states, 2)),
        inverse_sum=np.zeros(1),
        values=np.zeros((pairs.n_states, 3)),
        baseline=np.zeros(1),
        steps=np.zeros(2, dtype=np.int64),
    )
    return Prepared(state, constants, 0, settings.shown(steps), _guarantee(settings, simulator, samples))


def _guarantee(settings: RandomizedPrimalDual, simulator: Simulator, samples: int) -> str:
    total = _WITHIN / (1.0 - simulator.discount)
    needed = simulator.pairs.n_pairs / ((1.0 - simulator.discount) ** 4 * total**2)
    target = f"within {_WITHIN:g} of the reward's range per step of the optimum, by the order of its bound alone,"
    return guarantee_unless(
        {
            "settings that differ from its formulas": settings != RandomizedPrimalDual(),
            f"{so_many(samples, 'sample')}: {target} takes {stated(needed, digits=2)} of them": samples < needed - 1e-6,
        },
        f"the paper's, from memory: {target} when all policies' stationary distributions are alike",
    )


@compiled
def advance(state: State, constants: Constants, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
    """One step per sample, from `drawn` to `until` samples. The letters are the paper's."""
    tree, levels, policy, values = state.tree, constants.levels, state.policy, state.values
    row_sums, accounted, pair_sums, seen = state.row_sums, state.accounted, state.pair_sums, state.seen
    n_states = values.shape[0]
    made, gamma = constants.steps, constants.discount
    alpha, beta, delta, M = made.alpha, made.beta, made.exploration, made.shift
    theta, q, highest = 1.0 - gamma, 1.0 / n_states, 1.0 / (1.0 - gamma)
    if made.baseline_rate > 0.0:
        M = state.baseline[0]
    inverse_sum, steps, averaged = state.inverse_sum[0], state.steps[0], state.steps[1]

    while drawn < until:
        total = tree_total(tree, levels)
        normalise = total < _SMALLEST_TOTAL or total > _LARGEST_TOTAL
        if normalise or inverse_sum * total > _LARGEST_SUM_IN_TERMS:
            for s in range(n_states):
                share = unaccounted(tree[s], theta, inverse_sum - seen[s, 0], q, averaged - seen[s, 1])
                for a in range(world.offsets[s], world.offsets[s + 1]):
                    pair_sums[a] += policy[a] * share
                seen[s, 0], seen[s, 1] = 0.0, averaged
            inverse_sum = 0.0
        if normalise:
            total = tree_normalise(tree, levels, n_states, total)
        if steps == made.restart:
            clear(row_sums)
            clear(accounted)
            clear(pair_sums)
            for s in range(n_states):
                seen[s, 0], seen[s, 1] = inverse_sum, 0.0
                values[s, 1], values[s, 2] = 0.0, 0.0
            averaged = 0
        averaged += 1
        inverse_sum += 1.0 / total

        s = draw_mixed(tree, levels, n_states, theta, total, rng)
        first, last = world.offsets[s], world.offsets[s + 1]
        if delta > 0.0 and rng.random() < delta:
            k = first + int(rng.random() * (last - first))
        else:
            k = draw_pair(policy, world.offsets, s, rng)
        after = draw_next(world, k, rng)

        p = (1.0 - theta) * tree[s] / total + theta * q
        zeta = (1.0 - delta) * policy[k] + delta / (last - first)
        w = policy[k] / zeta
        Z = world.reward[k] + gamma * values[after, 0] - values[s, 0]
        account_value(values, s, averaged)
        account_value(values, after, averaged)
        values[s, 0] -= alpha * ((1.0 - gamma) * q / p - w)
        values[after, 0] -= alpha * gamma * w
        values[s, 0] = min(max(values[s, 0], 0.0), highest)
        values[after, 0] = min(max(values[after, 0], 0.0), highest)

        share = unaccounted(tree[s], theta, inverse_sum - seen[s, 0], q, averaged - seen[s, 1])
        for a in range(first, last):
            row_sums[a] += policy[a] * (averaged - accounted[s])
            pair_sums[a] += policy[a] * share
        accounted[s] = averaged
        seen[s, 0], seen[s, 1] = inverse_sum, averaged
        policy[k] = grown(policy[k], beta * (Z - M) / (p * zeta))
        row = 0.0  # 1 + pi (D - 1): what both the row and, with it, the state's weight have changed by
        for a in range(first, last):
            row += policy[a]
        for a in range(first, last):
            policy[a] = max(policy[a] / row, SMALLEST_WEIGHT)
        tree_set(tree, levels, s, max(tree[s] * row, SMALLEST_WEIGHT))
        if made.baseline_rate > 0.0:
            M += made.baseline_rate * (Z - M)
        steps += 1
        drawn += 1

    state.inverse_sum[0], state.steps[0], state.steps[1] = inverse_sum, steps, averaged
    state.baseline[0] = M
    return drawn


@compiled
def unaccounted(weight: float, theta: float, inverse_sum: float, q: float, steps: float) -> float:
    """The sum of p(s) over `steps` in which the state's weight stood still; `inverse_sum` is that of 1 / total."""
    return (1.0 - theta) * weight * inverse_sum + theta * q * steps


def average_policy(state: State, problem: Any) -> Floats:
    """The average of pi over the steps averaged so far, [n]."""
    missing = (state.steps[1] - state.accounted)[problem.pairs.states]
    return (state.row_sums + state.policy * missing) / state.steps[1]


def average_occupancy(state: State, constants: Constants, problem: Any) -> Floats:
    """The average of mu over the steps averaged so far, [n]."""
    theta, n_states = 1.0 - constants.discount, len(state.seen)
    since, steps = state.inverse_sum[0] - state.seen[:, 0], state.steps[1] - state.seen[:, 1]
    missing = (1.0 - theta) * state.tree[:n_states] * since + theta / n_states * steps
    return (state.pair_sums + missing[problem.pairs.states] * state.policy) / state.steps[1]


def extract(state: State, constants: Constants, simulator: Simulator) -> Answer:
    averages = Averages(average_occupancy(state, constants, simulator), np.zeros(0), average_values(state))
    return Answer(Policy(simulator.pairs, average_policy(state, simulator)), np.zeros(0), averages)


RandomizedPrimalDual.algorithm = Algorithm(
    name="Randomized primal-dual",
    paper="Wang (Mathematics of Operations Research 2020)",
    setting="discounted, generative model",
    output="average of the policies",
    sample_complexity="SA / ((1-γ)^4 ε^2)",
    violation="no constraints",
    constants="from memory, as in a public re-implementation",
    constrained=False,
    prepare=prepare,
    advance=advance,
    extract=extract,
)
