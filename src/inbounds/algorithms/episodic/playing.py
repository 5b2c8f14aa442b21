"""An episode step by step, what it leaves behind, and the policy of a run.

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
    mixture: Floats  # [2, H, n]: sums of what was played where it was, in this block of episodes and the one before
    sums: Floats  # [K, X]: of the signals of each episode


def new_play(frame: Frame) -> Play:
    """Before the first episode, with the uniform policy."""
    n_actions, zero, n_signals = np.diff(frame.offsets), np.zeros(1, dtype=np.int64), 1 + frame.bounds
    path, seen = np.zeros((frame.H, 3), dtype=np.int64), np.zeros((frame.H, n_signals))
    policy, sums = np.tile(np.repeat(1.0 / n_actions, n_actions), (frame.H, 1)), np.zeros((frame.K, n_signals))
    mixture = np.zeros((2, *policy.shape))
    return Play(zero, zero - 1, zero.copy(), zero.copy(), path, seen, policy, mixture, sums)


@compiled
def begin(play: Play, world: Any, rng: np.random.Generator) -> None:
    """Draw a start; the policy of the episode may still be changed."""
    play.stage[0], play.state[0] = 0, draw_start(world, rng)


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
    for begins in frame.blocks:
        if episode == begins:
            mixture[1] = mixture[0]
            mixture[0] = 0.0
    for h in range(frame.H):
        s = frame.states[play.path[h, 0]]
        for x in range(play.seen.shape[1]):
            play.sums[episode, x] += frame.weights[h] * play.seen[h, x]
        for pair in range(frame.offsets[s], frame.offsets[s + 1]):
            mixture[0, h, pair] += policy[h, pair]
    play.episode[0], play.stage[0] = episode + 1, -1


def mixture_sums(play: Play, frame: Frame) -> Floats:
    """The sums of the mixture [H, n]. Where a block ends that is exact; in between the block before counts too."""
    return np.asarray(play.mixture[0] if play.episode[0] in (frame.K, *frame.blocks) else play.mixture.sum(axis=0))


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
    seen = simulator.scaling.sums_in_user_units(play.sums[: int(play.episode[0])], frame.factors, frame.W)
    return Answer(policy, prices * frame.factors[1:], episodes=seen)
