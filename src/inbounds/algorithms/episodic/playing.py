"""An episode step by step, what it leaves behind, the policy of a run; and a hook for what no learner may compute.

An online learner draws a start and then acts from the state that it is in. A run may be cut anywhere: the stage, the
state and the steps of the episode so far are part of its state, and learning happens at an episode's end only. What is
left of the budget after the last whole episode is played with the last policy.

The policy of a run is the mixture of those played: one of its episodes drawn at random, its policy followed throughout.
As ONE Markov policy, by the occupancies q_k, that is  pi_h(a|s) = sum_k q_k,h(s, a) / sum_k q_k,h(s),  every value of
which is the mean of theirs. A learner does not know q. It adds pi_k,h(.|s_h) at every (h, s_h) that it visits, which
has the same expectation, and divides; on a truncated problem over the stages too, with the weights discount^h.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from inbounds.algorithms.algorithm import Answer
from inbounds.algorithms.episodic.frame import Frame
from inbounds.arrays import Floats, Ints
from inbounds.numerics.boxes import Boxes, Swept, follow, new_boxes, new_sweep
from inbounds.numerics.compiled import compiled
from inbounds.problem.draws import draw_next, draw_pair, draw_start, observed
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator


class Play(NamedTuple):
    """Where a learner is, and what it has played."""

    episode: Ints  # [1], how many are over
    stage: Ints  # [1], -1 between two episodes
    state: Ints  # [1]
    changes: Ints  # [1], of the policy so far
    path: Ints  # [H, 3]: pairs and next states of this episode so far, stages
    seen: Floats  # [H, X]: signals, likewise
    policy: Floats  # [H, n], of this episode
    mixture: Floats  # [2, H, n]: sums of what was played where it was, in this block of episodes and in the one before
    sums: Floats  # [K, X]: of the signals of each episode


def new_play(frame: Frame) -> Play:
    """Before the first episode, with the uniform policy."""
    n_actions, zero, n_signals = np.diff(frame.offsets), np.zeros(1, dtype=np.int64), 1 + frame.bounds
    path, seen = np.zeros((frame.H, 3), dtype=np.int64), np.zeros((frame.H, n_signals))
    policy, sums = np.tile(np.repeat(1.0 / n_actions, n_actions), (frame.H, 1)), np.zeros((frame.K, n_signals))
    mixture = np.zeros((2, *policy.shape))
    return Play(zero, zero - 1, zero.copy(), zero.copy(), path, seen, policy, mixture, sums)


class Judge(NamedTuple):
    """Arrays that a kernel fills and no algorithm reads: the exact values of the policies of some episodes.

    It costs a forward pass for each policy that is judged, and nothing where the policy is that of the episode before.
    `inbounds.studies.regret` makes judges and reads them; without one all is empty, and one kernel serves both.
    """

    truth: Boxes
    signals: Floats  # [H, n, X], weighted, in the learner's units
    room: Swept
    episodes: Ints  # [J], which to judge, in increasing order, from 0
    values: Floats  # [J, X], of their policies: sums over an episode
    stamp: Ints  # [1], after how many changes of the policy one was judged last


def judge_of(frame: Frame, truth: Boxes, signals: Floats, episodes: Any) -> Judge:
    """A judge of these episodes [J] before the first."""
    listed = np.array(episodes, dtype=np.int64)
    values, room = np.full((len(listed), 1 + frame.bounds), np.nan), new_sweep(frame.H, frame.S, frame.pairs, 0, False)
    return Judge(truth, signals, room, listed, values, np.full(1, -1))


def nobody(frame: Frame) -> Judge:
    """A judge of no episode."""
    return judge_of(frame, new_boxes(frame.offsets, frame.states, 0, 0, 0), np.zeros((0, 0, 0)), [])


@compiled
def weigh(judge: Judge, play: Play) -> None:
    """Record what the policy of this episode is worth, if that is to be judged."""
    found = np.searchsorted(judge.episodes, play.episode[0])
    if found < judge.episodes.shape[0] and judge.episodes[found] == play.episode[0]:
        if judge.stamp[0] == play.changes[0]:
            judge.values[found] = judge.values[found - 1]
        else:
            follow(play.policy, judge.signals, judge.truth, False, judge.room, judge.values[found])
        judge.stamp[0] = play.changes[0]


@compiled
def begin(play: Play, starts: Floats, world: Any, rng: np.random.Generator) -> None:
    """Draw a start, and count it [S]; the policy of the episode may still be changed."""
    play.stage[0], play.state[0] = 0, draw_start(world, rng)
    starts[play.state[0]] += 1.0


@compiled
def draw(path: Ints, seen: Floats, pair: int, h: int, frame: Frame, world: Any, rng: np.random.Generator) -> int:
    """One sample, of a pair at a stage, into `path` [3] and `seen` [X]; where it led."""
    after = draw_next(world, pair + h * frame.row_step, rng)
    path[0], path[1], path[2] = pair, after, h
    for x in range(seen.shape[0]):
        seen[x] = frame.factors[x] * observed(world, pair + h * frame.signal_step, x)
    return int(after)


@compiled
def play_on(play: Play, frame: Frame, world: Any, rng: np.random.Generator, most: int) -> int:
    """Samples of this episode, `most` at most, from the state that the learner is in; how many. Then `finish` it."""
    first, state = play.stage[0], play.state[0]
    end = min(first + most, frame.H)
    for h in range(first, end):
        pair = draw_pair(play.policy[h], frame.offsets, state, rng)
        state = draw(play.path[h], play.seen[h], pair, h, frame, world, rng)
        play.stage[0], play.state[0] = h + 1, state
    return int(end - first)


@compiled
def finish(play: Play, frame: Frame) -> None:
    """Keep of the episode that is over its sums, and what was played in it."""
    episode, mixture, policy = play.episode[0], play.mixture, play.policy
    if frame.second_half and block_begins(episode, frame.K):
        mixture[1] = mixture[0]
        mixture[0] = 0.0
    for h in range(frame.H):
        s = frame.states[play.path[h, 0]]
        for x in range(play.seen.shape[1]):
            play.sums[episode, x] += frame.weights[h] * play.seen[h, x]
        for pair in range(frame.offsets[s], frame.offsets[s + 1]):
            mixture[0, h, pair] += policy[h, pair]
    play.episode[0], play.stage[0] = episode + 1, -1


@compiled
def block_begins(episode: int, episodes: int) -> bool:
    """Whether a block of the mixture begins with this episode: at a half, a quarter, an eighth ... of all."""
    point = episodes >> 1
    while point > episode:
        point >>= 1
    return point == episode and episode > 0


def mixture_sums(play: Play, frame: Frame) -> Floats:
    """The sums of the mixture [H, n]: over all whole episodes, or over the second half of them.

    At the end, and at a half, a quarter ... of it, that is exact; in between the block before counts too.
    """
    done, ends = int(play.episode[0]), frame.K
    while ends > done:
        ends >>= 1
    return np.asarray(play.mixture[0] if ends == done else play.mixture.sum(axis=0))


def answer(play: Play, prices: Floats, frame: Frame, simulator: Simulator, last: bool = False) -> Answer:
    """The mixture as one policy of the problem, the last policy where nothing was played yet; or the `last` itself.

    With the prices [I] of the learner's margins, and the sums of its episodes in the user's units.
    """
    policy, sums = Policy(simulator.pairs, play.policy), mixture_sums(play, frame)
    if last:  # of a discounted problem by how often the states were visited
        sums = simulator.pairs.sum_by_state(sums)[:, simulator.pairs.states] * play.policy
    if frame.truncated:
        policy = Policy.from_occupancy(simulator, frame.weights @ sums, otherwise=policy.at(0))
    elif not last:
        policy = Policy.from_occupancy(simulator, sums, otherwise=policy)
    seen = frame.in_user_units(play.sums[: int(play.episode[0])], simulator)
    return Answer(policy, prices * frame.factors[1:], episodes=seen)
