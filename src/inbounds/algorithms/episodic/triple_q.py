"""Triple-Q: a table of values for the reward, one for each constraint, and virtual queues; there is no model.

Honghao Wei, Xin Liu, Lei Ying. "Triple-Q: A Model-Free Algorithm for Constrained Reinforcement Learning with Sublinear
Regret and Zero Constraint Violation", AISTATS 2022. (`triple_qa` is their algorithm without episodes.)

Problem: that of `opt_dual`, in O(A) a step. A utility w_i = (1 + g_i) / 2 in [0, 1] stands for each margin g_i.

Updates, from all tables at H and Z = 0, in each of K episodes (Algorithm 1):

    a_h = argmax Q_h(s_h, .) + sum_i Z_i / eta C_i,h(s_h,.),  al = (chi + 1) / (chi + visits),   b = H/4 sqrt( iota al )
    Q_h(s_h, a_h)   <- (1 - al) Q_h(s_h, a_h)   + al ( r   + Q_h+1(s_h+1, a_h+1)   + b )
    C_i,h(s_h, a_h) <- (1 - al) C_i,h(s_h, a_h) + al ( w_i + C_i,h+1(s_h+1, a_h+1) + b )

and after a frame of K^.6 episodes, with the mean over it of C_i,1(s_1, a_1), visits back to 0 and tables to H:

    Z_i <- max( 0, Z_i + H/2 + eps - mean ),   eps = 8 sqrt(S A H^6 iota^3) / K^.2,   iota = 128 log( sqrt(2 S A H) K ),
    chi = eta = K^.2

    code    tables      paper    Q, C      code    prices      paper    Z / (2 eta): of the margin, not of the utility

Guarantee (Theorem 1): for K >= (16 sqrt(S A H^6 iota^3) / slack)^5 regret O~( H^4 sqrt(S A) K^.8 / slack ), and no
violation if also K >= e^(1 / slack), with the slack of the utilities, half that of the margins. On the zoo's problems
that is 10^46 episodes and more; before, eps is far above what any policy can do.
Departures: several constraints have a table and a queue each; ties are broken at random, as in the authors' code.

Practical preset (derived here): chi = H, no bonus but a random action with probability 1 / sqrt(k) at every step of
episode k; tables start at what is left of H, and are kept, as visits are; frames of K^.25 episodes, after which AdaGrad
with c = .3 (`learner`) moves the prices by the mean of the margins OBSERVED in the frame. An order of magnitude
slower in samples than those that keep a model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Answer, Prepared
from inbounds.algorithms.episodic.frame import Frame, frame_of
from inbounds.algorithms.episodic.learner import online
from inbounds.algorithms.episodic.playing import Play, answer, begin, finish, new_play, play_on
from inbounds.algorithms.episodic.rules import EpisodicSettings, Published
from inbounds.algorithms.kernels import FIRST_SQUARE, adaptive_step
from inbounds.algorithms.settings import least_number, resolved
from inbounds.arrays import Floats
from inbounds.numerics.compiled import compiled
from inbounds.problem.simulator import Simulator


class Constants(NamedTuple):
    frame: Frame
    published: bool  # the paper's tables and queues, or the preset's
    length: int  # of a frame, in episodes
    chi: float
    bonus: float  # b = bonus * sqrt(al)
    exploration: float
    price_step: float  # AdaGrad's c, or 1 / (2 eta)
    eps: float


class State(NamedTuple):
    play: Play
    tables: Floats  # [H, n, X]: Q, C
    tries: Floats  # [H, n], visits behind al
    prices: Floats  # [I]
    queues: Floats  # [I]: Z, or AdaGrad's squares
    sums: Floats  # [I], over the frame so far: C_1(s_1, a_1), or margins observed


def logarithm(frame: Frame, episodes: int) -> tuple[float, float]:
    """iota of a run of so many episodes, and sqrt(S A H^6 iota^3)."""
    iota = 128.0 * math.log(math.sqrt(2.0 * frame.pairs * frame.H) * episodes)
    return iota, math.sqrt(frame.pairs * frame.W**6 * iota**3)


def prepare(settings: TripleQ, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    frame = frame_of(settings, simulator, samples)
    iota, size = logarithm(frame, frame.K)
    root, published = frame.K**0.2, settings.price_step is None
    constants = Constants(
        frame=frame,
        published=published,
        length=max(round(frame.K**settings.frame_exponent), 1),
        chi=root if published else float(frame.H),
        bonus=0.25 * frame.W * math.sqrt(iota) if published else 0.0,
        exploration=float(settings.exploration),
        price_step=float(settings.price_step or 0.5 / root),
        eps=8.0 * size / root if published else 0.0,
    )
    tables = np.zeros((frame.H, frame.pairs, 1 + frame.bounds))
    tables += frame.W if published else frame.rest[:-1, None, None]
    prices, queues, sums = np.zeros((3, frame.bounds))
    queues += 0.0 if published else FIRST_SQUARE
    state = State(new_play(frame), tables, np.zeros(tables.shape[:2]), prices, queues, sums)
    slack = 0.5 * frame.least_slack(settings.slater)  # of the utility, which is half a margin

    def enough(episodes: int) -> bool:
        return math.log(episodes) >= max(5.0 * math.log(16.0 * logarithm(frame, episodes)[1] / slack), 1.0 / slack)

    needed = least_number(enough)
    own = TripleQ(slater=settings.slater, epsilon=settings.epsilon, delta=settings.delta)
    departs, theorem = "tables, prices or frames other than its own", "Theorem 1 of the paper, of the mixture of all"
    target = "no violation" if frame.bounds > 0 else "its theorem"
    departure = departs, settings != own
    paper = Published(theorem, needed, target=target, departs=departure, single=True, random_start=True)
    return paper.prepared(settings, frame, state, constants, resolved(constants, *Constants._fields[2:]))


@compiled
def advance(state: State, constants: Constants, world: Any, rng: np.random.Generator, drawn: int, until: int) -> int:
    """Steps of episodes, one for each sample, each with the policy of the state at hand."""
    play, frame = state.play, constants.frame
    while drawn < until:
        if play.stage[0] < 0:
            begin(play, world, rng)
        fill_row(state, constants, play.stage[0], play.state[0])
        drawn += play_on(play, frame, world, rng, 1)
        if play.stage[0] == frame.H:
            move_tables(state, constants)
            finish(play, frame)
            if play.episode[0] % constants.length == 0:
                end_frame(state, constants)
    return drawn


@compiled
def fill_row(state: State, constants: Constants, h: int, s: int) -> None:
    """The policy of a state: the best actions by Q + sum Z / eta C alike, and a share for all of them."""
    first, last = constants.frame.offsets[s], constants.frame.offsets[s + 1]
    policy, most, best = state.play.policy, -math.inf, 0
    for pair in range(first, last):
        total = state.tables[h, pair, 0]
        for i in range(state.prices.shape[0]):
            total += 2.0 * state.prices[i] * state.tables[h, pair, 1 + i]  # a utility is half a margin
        best = 1 if total > most else best + (total == most)
        most, policy[h, pair] = max(most, total), total
    share = min(constants.exploration / math.sqrt(state.play.episode[0] + 1.0), 1.0)
    for pair in range(first, last):
        policy[h, pair] = ((1.0 - share) / best if policy[h, pair] == most else 0.0) + share / (last - first)


@compiled
def fill_policy(state: State, constants: Constants) -> None:
    """That of every state at every stage, for an answer or a judge; no episode is played differently for it."""
    for h in range(constants.frame.H):
        for s in range(constants.frame.S):
            fill_row(state, constants, h, s)


@compiled
def move_tables(state: State, constants: Constants) -> None:
    """Along the episode: from its first step on, so that the values to go are those before it."""
    path, seen, tables, weights = state.play.path, state.play.seen, state.tables, constants.frame.weights
    for h in range(tables.shape[0]):
        pair = path[h, 0]
        state.tries[h, pair] += 1.0
        rate = (constants.chi + 1.0) / (constants.chi + state.tries[h, pair])
        for x in range(tables.shape[2]):
            if x > 0 and not constants.published:
                state.sums[x - 1] += weights[h] * seen[h, x]
            elif x > 0 and h == 0:
                state.sums[x - 1] += tables[0, pair, x]
            utility = seen[h, x] if x == 0 else 0.5 + 0.5 * seen[h, x]
            target = weights[h] * utility + constants.bonus * math.sqrt(rate)
            if h + 1 < tables.shape[0]:
                target += tables[h + 1, path[h + 1, 0], x]
            tables[h, pair, x] += rate * (target - tables[h, pair, x])


@compiled
def end_frame(state: State, constants: Constants) -> None:
    horizon = constants.frame.W
    for i in range(state.prices.shape[0]):
        mean = state.sums[i] / constants.length
        if constants.published:
            state.queues[i] = max(state.queues[i] + 0.5 * horizon + constants.eps - mean, 0.0)
            state.prices[i] = state.queues[i] * constants.price_step
        else:
            rate = adaptive_step(state.queues, i, mean, constants.price_step)
            state.prices[i] = max(state.prices[i] - rate * mean, 0.0)
    state.sums[:] = 0.0
    if constants.published:
        state.tries[:] = 0.0
        state.tables[:] = horizon


def extract(state: State, constants: Constants, simulator: Simulator) -> Answer:
    fill_policy(state, constants)
    return answer(state.play, state.prices.copy(), constants.frame, simulator)


@dataclass(frozen=True, repr=False, kw_only=True)
class TripleQ(EpisodicSettings):
    """Settings of Triple-Q; the defaults are the paper's formulas, which are of no use in practice. See the module.

    Parameters
    ----------
    price_step : float, optional
        c of the price step; with it all is as in the practical preset. Default: the paper's queues and tables.
    exploration : float
        Of the preset: in episode k an action is drawn at random with probability exploration / sqrt(k).
    frame_exponent : float in [0, 1]
        There are K^frame_exponent episodes between two changes of the prices. The paper's is .6.
    slater : float, optional
        The Slater constant in scaled units, from which the paper's theorem says how many episodes it needs. Default: 1.
    """

    price_step: float | None = field(default=None, metadata=checks.POSITIVE)
    exploration: float = field(default=0.0, metadata=checks.NOT_NEGATIVE)
    frame_exponent: float = field(default=0.6, metadata=checks.a_number("in [0, 1]", lambda value: 0.0 <= value <= 1.0))
    slater: float | None = field(default=None, metadata=checks.SHARE)

    preset: ClassVar = dict(price_step=0.3, exploration=1.0, frame_exponent=0.25, average="second half")
    algorithm = online(
        name="Triple-Q",
        paper="Wei, Liu, Ying (AISTATS 2022)",
        needs="slack above eps",
        sample_complexity="(SA)^2.5 / ((1-γ)^18.5 ε^5)",
        violation="zero, for large K",
        constants="paper (Algorithm 1, Theorem 1)",
        oscillates=True,
        prepare=prepare,
        advance=advance,
        extract=extract,
        complete=fill_policy,
    )
