"""UCBVI-gamma: optimistic value iteration along one trajectory of a discounted problem without constraints.

Jiafan He, Dongruo Zhou, Quanquan Gu. "Nearly Minimax Optimal Reinforcement Learning for Discounted MDPs", NeurIPS 2021.
The form of the algorithm and the bonus are from memory, not checked against the paper's text; the regret is checked
against its abstract.

Problem
-------
A walk that is never reset, in scaled units (reward r in [0, 1]): find how to act so as to lose little against the best
values V*(s) = max E sum_t gamma^t r(s_t, a_t), NOT normalised, of the states that the walk passes. There are no
constraints: a reference for those that have some, at the optimum of ``cmdp.unconstrained()``.

Updates
-------
From Q = 1 / (1 - gamma) for every pair, V(s) = max_a Q(s, a) and no counts; at step t

    a = argmax Q(s, .),   s' ~ P(. | s, a),   count N(s, a), N(s, a, s') and N(s)
    for all pairs, with p = N(., ., s') / m the observed frequencies after m = N(s, a) visits, from one and the same V:
    B(s') = A^2 S U^5 / ((1 - gamma)^5 N(s'))
    bonus(s, a) = sqrt(8 U Var_p(V) / m) + 8 U / ((1 - gamma) m)
                  + sqrt(8 sum_s' p(s') min(100 B(s'), 1 / (1 - gamma)^2) / m)
    Q(s, a) <- min( Q(s, a), r(s, a) + gamma sum_s' p(s') V(s') + gamma bonus(s, a) )

where U = log( 40 S A T^3 log(T)^2 / ((1 - gamma)^2 delta) ) for T steps. Q never rises: one backup a step, not a whole
value iteration. The output is the greedy policy of the last Q; among equals, the pair with the lowest number.

Names
-----
    code                paper           code                paper
    pair_values         Q               values              V
    visits              N(s, a)         moves               N(s, a, s')
    state_visits        N(s)            log_term            U
    constant            8               correction          the third term of the bonus
    1 - confidence      delta           greedy              pi

Guarantee
---------
With the defaults: with probability `confidence`, the regret sum_t V*(s_t) - V^{pi_t}(s_t) along the trajectory is of
the order sqrt(S A T) / (1 - gamma)^1.5, up to logarithms. It is a statement about what the walk lost on its way, in
states that it chose itself. It is none about the greedy policy at the end, nor about the initial distribution: a state
that the walk cannot reach, or leaves for ever, is not learned.

Departures from the paper
-------------------------
* The paper knows the reward; here it is observed with the sample. An untried pair therefore keeps 1 / (1 - gamma), and
  of several observations the mean counts. It is exact if a pair always pays the same, as every table does. For rewards
  that vary set `noisy_rewards`: nothing in the paper's bonus covers them.
* A is the largest number of actions of a state, S A the number of pairs. log(T) is at least 1.

Practical preset
----------------
`UCBVIGamma.practical()`, which no theorem covers. On the queue without its constraints 100,000 samples find the optimum
(10 of 10 seeds); with the paper's bonus a million samples lose 4 % of it on average (1.5 to 7 %).

* The bonus without its third term, where 100 B stays above 1 / (1 - gamma)^2 until a state has been visited more often
  than any budget allows; and with 1 for both 8 and U.
* At each step the visited pair and one more, in turn, are backed up, each from the values of the moment: all pairs
  once in n steps.
* The walk starts again with probability 1 - gamma after every step. States are then visited as the discount weighs
  them from the initial distribution, which is where policies are judged; and an absorbing state does not end learning.
* The bonus allows for rewards that vary: sqrt(U Var(r) / m) + U / m more. With the second term of the bonus this is
  U / ((1 - gamma) m) in all, for the range of r + gamma V(s').

Cost
----
Of a step: O(A) and, for each pair that is backed up, one addition per next state that was ever seen after it. All
pairs are, by default. Counts are lists, one per pair, so memory is O(n + distinct moves seen), never [n, S].
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Algorithm, Answer, Prepared
from inbounds.algorithms.settings import Settings
from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled
from inbounds.problem.draws import World, draw_ends, draw_next, draw_start
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator


@dataclass(frozen=True, repr=False)
class UCBVIGamma(Settings):
    """Settings of UCBVI-gamma. Every default is the paper's, from memory; None stands for its formula.

    For problems without constraints: ``cmdp.unconstrained()`` drops them.

    Parameters
    ----------
    confidence : float in (0, 1)
        With which probability the paper's bound on the regret holds: 1 - delta.
    constant : float
        The factor in each term of the bonus: 8 in the paper.
    log_term : float, optional
        U in the bonus. Default: the paper's formula.
    correction : bool
        Whether the bonus has the paper's third term.
    backups : int, optional
        How many pairs are backed up at each step besides the visited one, in turn. Default: all, as in the paper.
    restart : bool
        Whether the walk starts again with probability 1 - discount after every step. The paper's never does.
    noisy_rewards : bool
        Whether the bonus allows for rewards that vary from sample to sample. The paper's knows the rewards.

    Examples
    --------
    >>> import inbounds as ib
    >>> ib.UCBVIGamma(confidence=0.99)
    UCBVIGamma(confidence=0.99)
    >>> queue = ib.zoo.queue().unconstrained()
    >>> run = ib.learn(queue.simulator(), ib.UCBVIGamma.practical(), samples=100_000, seed=0)
    >>> ib.evaluate(queue, run.policy).total_reward > ib.solve(queue).total_reward - 0.05
    True
    """

    confidence: float = field(default=0.95, metadata=checks.INSIDE)
    constant: float = field(default=8.0, metadata=checks.POSITIVE)
    log_term: float | None = field(default=None, metadata=checks.POSITIVE)
    correction: bool = field(default=True, metadata=checks.SWITCH)
    backups: int | None = field(default=None, metadata=checks.WHOLE)
    restart: bool = field(default=False, metadata=checks.SWITCH)
    noisy_rewards: bool = field(default=False, metadata=checks.SWITCH)

    preset: ClassVar = dict(constant=1.0, log_term=1.0, correction=False, backups=1, restart=True, noisy_rewards=True)


def paper_log_term(n_pairs: int, discount: float, samples: int, confidence: float) -> float:
    """The paper's U."""
    log_samples = max(math.log(samples), 1.0)
    return (
        math.log(40.0 * n_pairs)
        + 3.0 * math.log(samples)
        + 2.0 * math.log(log_samples / (1.0 - discount))
        - math.log(1.0 - confidence)
    )


class Constants(NamedTuple):
    discount: float
    spread: float  # c U: what the variances in the bonus are multiplied by
    range_term: float  # the second term of the bonus, times m; with what noisy rewards add to it
    constant: float
    state_term: float  # 100 B(s'), times N(s'); 0 without the third term
    cap: float  # of what the third term takes from a state
    backups: int  # 0: all
    restart: bool
    noisy_rewards: bool


class State(NamedTuple):
    pair_values: Floats  # [n]: Q
    values: Floats  # [S]: V
    greedy: Ints  # [S], the pair of each state with the largest Q
    visits: Ints  # [n]
    state_visits: Ints  # [S]
    rewards: Floats  # [n, 2]: mean of those observed; sum of their squared distances from it
    lists: Ints  # [n]: where in moves the list of a pair begins; 0: nowhere
    moves: Ints  # [1 + distinct moves, 3]: the next state; how often; where the list goes on, or 0. Row 0 is unused
    walk: Ints  # [3]: where the walk is, or -1 for a new start; rows of moves in use; the next pair whose turn it is


def prepare(settings: UCBVIGamma, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    pairs, discount = simulator.pairs, simulator.discount
    n_states, n_pairs = pairs.n_states, pairs.n_pairs
    horizon = 1.0 / (1.0 - discount)
    U = settings.log_term
    if U is None:
        U = paper_log_term(n_pairs, discount, samples, settings.confidence)
    spread = settings.constant * U
    n_actions = int(np.diff(pairs.offsets).max())
    constants = Constants(
        discount=float(discount),
        spread=float(spread),
        range_term=float(spread * (horizon if settings.noisy_rewards else discount * horizon)),
        constant=float(settings.constant),
        state_term=100.0 * n_actions**2 * n_states * (U * horizon) ** 5 if settings.correction else 0.0,
        cap=horizon**2,
        backups=0 if settings.backups is None else int(settings.backups),
        restart=settings.restart,
        noisy_rewards=settings.noisy_rewards,
    )
    state = State(
        pair_values=np.full(n_pairs, horizon),
        values=np.full(n_states, horizon),
        greedy=np.array(pairs.offsets[:-1], dtype=np.int64),
        visits=np.zeros(n_pairs, dtype=np.int64),
        state_visits=np.zeros(n_states, dtype=np.int64),
        rewards=np.zeros((n_pairs, 2)),
        lists=np.zeros(n_pairs, dtype=np.int64),
        moves=np.zeros((1 + min(samples, n_pairs * n_states), 3), dtype=np.int64),
        walk=np.array([-1, 1, 0], dtype=np.int64),
    )
    shown: dict[str, float | str] = {"constant": constants.constant, "log_term": float(U)}
    shown["backups"] = "all" if settings.backups is None else int(settings.backups)
    shown |= {name: str(getattr(settings, name)) for name in ("correction", "restart", "noisy_rewards")}
    return Prepared(state, constants, 0, shown, _guarantee(settings))


def _guarantee(settings: UCBVIGamma) -> str:
    if settings != UCBVIGamma(confidence=settings.confidence):
        return "none: the paper's theorem does not cover settings that differ from its own"
    return (
        f"the paper's theorem, if every pair always pays the same reward: with probability {settings.confidence!r} a "
        f"regret along the walk of order sqrt(S A T) / (1 - γ)^1.5; nothing of the last policy alone"
    )


@compiled
def advance(state: State, constants: Constants, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
    """One step of the walk per sample, from `drawn` to `until` samples."""
    n, n_states = state.visits.shape[0], state.values.shape[0]
    while drawn < until:
        s = state.walk[0]
        if s < 0:
            s = draw_start(world, rng)
        k = state.greedy[s]
        after = draw_next(world, k, rng)
        observe(state, s, k, after, world.reward[k])

        if constants.backups == 0:
            for pair in range(n):  # all from the values before the step
                if state.visits[pair] > 0:
                    back_up(state, constants, pair)
            for other in range(n_states):
                choose(state, world.offsets, other)
        else:
            if back_up(state, constants, k):
                choose(state, world.offsets, s)
            pair = state.walk[2]
            for _ in range(min(constants.backups, n)):
                if state.visits[pair] > 0 and back_up(state, constants, pair):
                    choose(state, world.offsets, world.states[pair])
                pair = pair + 1 if pair + 1 < n else 0
            state.walk[2] = pair

        state.walk[0] = after
        if constants.restart and draw_ends(constants.discount, rng):
            state.walk[0] = -1
        drawn += 1
    return drawn


@compiled
def observe(state: State, s: int, k: int, after: int, reward: float) -> None:
    """Count one move from state `s` by its pair `k` to the state `after`, and account for its reward."""
    state.state_visits[s] += 1
    state.visits[k] += 1
    off = reward - state.rewards[k, 0]
    state.rewards[k, 0] += off / state.visits[k]  # stays exact while a pair pays the same
    state.rewards[k, 1] += off * (reward - state.rewards[k, 0])

    moves = state.moves
    row = state.lists[k]
    while row > 0 and moves[row, 0] != after:
        row = moves[row, 2]
    if row == 0:
        row = state.walk[1]
        assert row < moves.shape[0]  # there is room for as many samples as were announced
        moves[row, 0] = after
        moves[row, 2] = state.lists[k]
        state.lists[k] = row
        state.walk[1] = row + 1
    moves[row, 1] += 1


@compiled
def back_up(state: State, constants: Constants, k: int) -> bool:
    """One Bellman backup with a bonus of a visited pair; whether its value fell."""
    m = state.visits[k]
    spread, horizon_squared = constants.spread, constants.cap
    row = state.lists[k]
    reference = state.values[state.moves[row, 0]]  # distances from it lose less to rounding than squares of values
    distance, square, caps = 0.0, 0.0, 0.0
    while row > 0:
        after, count = state.moves[row, 0], state.moves[row, 1]
        off = state.values[after] - reference
        distance += count * off
        square += count * (off * off)
        if constants.state_term > 0.0:
            caps += count * min(constants.state_term / max(state.state_visits[after], 1), horizon_squared)
        row = state.moves[row, 2]
    distance /= m
    variance = max(square / m - distance * distance, 0.0)
    bonus = constants.discount * math.sqrt(spread * variance / m) + constants.range_term / m
    if constants.state_term > 0.0:
        bonus += constants.discount * math.sqrt(constants.constant * (caps / m) / m)
    if constants.noisy_rewards:
        bonus += math.sqrt(spread * (state.rewards[k, 1] / m) / m)
    value = state.rewards[k, 0] + constants.discount * (reference + distance) + bonus
    if value < state.pair_values[k]:
        state.pair_values[k] = value
        return True
    return False


@compiled
def choose(state: State, offsets: Ints, s: int) -> None:
    """The value and the greedy pair of a state, after values of its pairs fell."""
    best = offsets[s]
    for k in range(offsets[s] + 1, offsets[s + 1]):
        if state.pair_values[k] > state.pair_values[best]:
            best = k
    state.greedy[s] = best
    state.values[s] = state.pair_values[best]


def extract(state: State, constants: Constants, simulator: Simulator) -> Answer:
    return Answer(Policy.deterministic(simulator, state.greedy), np.zeros(simulator.n_constraints))


UCBVIGamma.algorithm = Algorithm(
    name="UCBVI-gamma",
    paper="He, Zhou, Gu (NeurIPS 2021)",
    setting="discounted, one trajectory",
    output="greedy policy of the last values",
    sample_complexity="SA / ((1-γ)^3 ε^2)",
    violation="no constraints",
    constants="from memory",
    constrained=False,
    prepare=prepare,
    advance=advance,
    extract=extract,
)
