"""An episode step by step, what it leaves behind, and the policy of a run.

An online learner draws a start and then acts from the state that it is in. A run may be cut anywhere: the stage, the
state and the steps of the episode so far are part of its state, and learning happens at an episode's end only. What is
left of the budget after the last whole episode is played with the last policy.

The policy of a run is the mixture of those played: one of its episodes drawn at random, and that episode's policy
followed throughout. As ONE Markov policy that is, by the occupancies q_k of the policies,

    pi_h(a|s) = sum_k q_k,h(s, a) / sum_k q_k,h(s),      every value of which is the mean of theirs.

A learner does not know q. It adds pi_k,h(.|s_h) at every (h, s_h) that it visits, which has the same expectation, and
divides. On a truncated problem it adds over the stages too, with the weights discount^h: one stationary policy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from inbounds.algorithms.algorithm import Answer
from inbounds.algorithms.episodic.counts import Counts, count_transition, hear
from inbounds.algorithms.episodic.frame import Frame, sums_in_user_units
from inbounds.algorithms.episodic.judging import Judge, judge_episode
from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled
from inbounds.problem.draws import draw_next, draw_pair, draw_start, observed
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator

EPISODE, STAGE, STATE, POLICY = 0, 1, 2, 3


class Play(NamedTuple):
    """Where a learner is, and what it has played."""

    place: Ints  # [4]: whole episodes; stage, -1 between two of them; state; how often the policy has changed
    path: Ints  # [H, 2]: pairs and next states of this episode so far
    seen: Floats  # [H, X]: signals, likewise
    policy: Floats  # [H, n], of this episode
    mixture: Floats  # [2, H, n]: sums of what was played where it was, in this block of episodes and in the one before
    sums: Floats  # [K, X]: of the signals of each episode


def new_play(frame: Frame) -> Play:
    """Before the first episode, with the uniform policy."""
    n_actions, horizon, signals = np.diff(frame.offsets), len(frame.weights), len(frame.low)
    uniform = np.repeat(1.0 / n_actions, n_actions)
    return Play(
        place=np.array([0, -1, 0, 0], dtype=np.int64),
        path=np.zeros((horizon, 2), dtype=np.int64),
        seen=np.zeros((horizon, signals)),
        policy=np.tile(uniform, (horizon, 1)),
        mixture=np.zeros((2, horizon, len(uniform))),
        sums=np.zeros((frame.episodes, signals)),
    )


@compiled
def begin(play: Play, counts: Counts, world: Any, rng: np.random.Generator) -> None:
    """Draw a start; the policy of the episode may still be changed."""
    start = draw_start(world, rng)
    counts.starts[start] += 1.0
    play.place[STAGE], play.place[STATE] = 0, start


@compiled
def step(play: Play, frame: Frame, judge: Judge, world: Any, rng: np.random.Generator) -> bool:
    """One sample, from the state that the learner is in; whether the episode is over. Then `finish` it."""
    h = play.place[STAGE]
    if h == 0 and judge.episodes.shape[0] > 0:
        judge_episode(judge, frame, play.policy, play.place[EPISODE], play.place[POLICY])
    pair = draw_pair(play.policy[h], frame.offsets, play.place[STATE], rng)
    after = draw_next(world, pair + h * frame.row_step, rng)
    for x in range(play.seen.shape[1]):
        play.seen[h, x] = frame.factors[x] * observed(world, pair + h * frame.signal_step, x)
    play.path[h, 0], play.path[h, 1] = pair, after
    play.place[STAGE], play.place[STATE] = h + 1, after
    return h + 1 == frame.weights.shape[0]


@compiled
def finish(play: Play, counts: Counts, frame: Frame, state_of: Ints) -> None:
    """Count what was seen in the episode that is over, and record it."""
    for h in range(play.policy.shape[0]):
        pair = play.path[h, 0]
        counts.acted[state_of[pair]] = 1
        count_transition(counts, pair + h * frame.row_step, play.path[h, 1])
        hear(counts, pair + h * frame.signal_step, play.seen[h])
    keep_episode(play, frame, state_of)


@compiled
def keep_episode(play: Play, frame: Frame, state_of: Ints) -> None:
    """The sums of the episode that is over, and what was played in it."""
    episode, mixture, policy = play.place[EPISODE], play.mixture, play.policy
    if frame.second_half and block_begins(episode, frame.episodes):
        mixture[1] = mixture[0]
        mixture[0] = 0.0
    for h in range(policy.shape[0]):
        s = state_of[play.path[h, 0]]
        for x in range(play.seen.shape[1]):
            play.sums[episode, x] += frame.weights[h] * play.seen[h, x]
        for other in range(frame.offsets[s], frame.offsets[s + 1]):
            mixture[0, h, other] += policy[h, other]
    play.place[EPISODE], play.place[STAGE] = episode + 1, -1


@compiled
def block_begins(episode: int, episodes: int) -> bool:
    """Whether a block of the mixture begins with this episode: at a half, a quarter, an eighth ... of all."""
    point = episodes >> 1
    while point > episode:
        point >>= 1
    return point == episode and episode > 0


def played(play: Play, frame: Frame) -> Floats:
    """The sums of the mixture [H, n]: over all whole episodes, or over the second half of them.

    At the end, and at a half, a quarter ... of it, that is exact; in between the block before counts too.
    """
    done, ends = int(play.place[EPISODE]), frame.episodes
    while ends > done:
        ends >>= 1
    return np.asarray(play.mixture[0] if ends == done else play.mixture.sum(axis=0))


def mixed_policy(play: Play, frame: Frame, simulator: Simulator) -> Policy:
    """The mixture as one policy of the problem; the last policy where nothing was played yet."""
    return _as_policy(played(play, frame), play, frame, simulator)


def last_policy(play: Play, frame: Frame, simulator: Simulator) -> Policy:
    """The last policy as one of the problem; if that is discounted, by how often the states were visited."""
    if "horizon" in simulator.criterion:
        return Policy(simulator.pairs, play.policy)
    visits = simulator.pairs.sum_by_state(played(play, frame))[:, simulator.pairs.states]
    return _as_policy(visits * play.policy, play, frame, simulator)


def _as_policy(sums: Floats, play: Play, frame: Frame, simulator: Simulator) -> Policy:
    last = Policy(simulator.pairs, play.policy)
    if "horizon" in simulator.criterion:
        return Policy.from_occupancy(simulator, sums, otherwise=last)
    return Policy.from_occupancy(simulator, frame.weights @ sums, otherwise=last.at(0))


def answer(policy: Policy, prices: Floats, play: Play, frame: Frame, simulator: Simulator) -> Answer:
    """With the prices [I] of the learner's margins, and the sums of its episodes in the user's units."""
    sums = play.sums[: int(play.place[EPISODE])]
    return Answer(policy, prices * frame.factors[1:], episodes=sums_in_user_units(sums, simulator, frame))
