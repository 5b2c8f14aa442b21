"""A hook for what no learner may compute: the exact values of the policy of each episode.

A `Judge` is arrays that a learner's kernel fills and no algorithm reads. Without one they are empty, so that one
compiled kernel serves both. It costs a forward pass for each policy that is judged, and nothing where the policy is
that of the episode before. To use it:

    judge = judge_for(cmdp, algorithm, samples)                    # every episode; or episodes=[9, 99, 999]
    run = run_on_samples(cmdp.simulator(), algorithm, samples, seed, judge=judge)
    judged_values(judge, cmdp.simulator(), algorithm, samples)     # [J, X], in the user's units

A judge is of one run. A run that is resumed takes the judge that was begun with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from inbounds.algorithms.episodic.frame import Frame, frame_of, sums_in_user_units
from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled
from inbounds.problem.cmdp import CMDP
from inbounds.problem.simulator import Simulator


class Judge(NamedTuple):
    """The model in the learner's units, and room for what is judged."""

    row_starts: Ints  # [R + 1], of the rows: pairs, or pairs at stages
    successors: Ints  # [nnz]
    chances: Floats  # [nnz]
    signals: Floats  # [Q, X], not weighted
    initial: Floats  # [S]
    episodes: Ints  # [J], which to judge, in increasing order, from 0; nothing is judged when empty
    values: Floats  # [J, X], of their policies: sums over an episode, in the learner's units
    last: Floats  # [X], of the policy judged last,
    stamp: Ints  # [1], which was the policy after so many changes


NOBODY = Judge(*(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 1)), np.zeros(0)),
               *(np.zeros(0, np.int64), np.zeros((0, 1)), np.zeros(1), np.full(1, -1, np.int64)))  # fmt: skip
"""No judge: nothing is judged."""


def judge_for(cmdp: CMDP, algorithm: Any, samples: int, episodes: Sequence[int] | None = None) -> Judge:
    """The judge of a run of `algorithm` on the simulator of `cmdp`, for all its episodes or those listed, from 0."""
    simulator = cmdp.simulator()
    frame = frame_of(algorithm, simulator, samples)
    scaled = simulator.scaling.model(cmdp)
    rows = sp.vstack(scaled.transitions if frame.row_step else scaled.transitions[:1], format="csr")
    reward, margins = np.atleast_2d(scaled.reward), scaled.margins.reshape(cmdp.n_constraints, -1, cmdp.n_pairs)
    kept = slice(0, None if frame.signal_step else 1)
    signals = np.vstack([reward[kept].reshape(1, -1), margins[:, kept].reshape(cmdp.n_constraints, -1)])
    judged = np.arange(frame.episodes) if episodes is None else np.unique(np.asarray(episodes, dtype=np.int64))
    return Judge(
        row_starts=rows.indptr.astype(np.int64),
        successors=rows.indices.astype(np.int64),
        chances=rows.data,
        signals=np.ascontiguousarray((frame.factors[:, None] * signals).T),
        initial=np.array(cmdp.initial),
        episodes=judged,
        values=np.full((len(judged), len(frame.factors)), np.nan),
        last=np.zeros(len(frame.factors)),
        stamp=np.full(1, -1, dtype=np.int64),
    )


def judged_values(judge: Judge, simulator: Simulator, algorithm: Any, samples: int) -> Floats:
    """The exact values [J, X] of the judged policies, in the user's units: the reward, then the margins."""
    return sums_in_user_units(judge.values, simulator, frame_of(algorithm, simulator, samples))


@compiled
def judge_episode(judge: Judge, frame: Frame, policy: Floats, episode: int, changes: int) -> None:
    """Record what the policy [H, n] of an episode is worth, if that is to be judged."""
    low, high = 0, judge.episodes.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if judge.episodes[middle] < episode:
            low = middle + 1
        else:
            high = middle
    if low == judge.episodes.shape[0] or judge.episodes[low] != episode:
        return
    if judge.stamp[0] != changes:
        exact_values(judge, frame, policy, judge.last)
        judge.stamp[0] = changes
    judge.values[low] = judge.last


@compiled
def exact_values(judge: Judge, frame: Frame, policy: Floats, sums: Floats) -> None:
    """What a policy [H, n] is worth in the model: weighted sums of the signals over an episode, into `sums` [X]."""
    n_states, n_signals = judge.initial.shape[0], judge.signals.shape[1]
    here, after = judge.initial.copy(), np.zeros(n_states)
    for x in range(n_signals):
        sums[x] = 0.0
    for h in range(policy.shape[0]):
        for s in range(n_states):
            after[s] = 0.0
        for s in range(n_states):
            if here[s] == 0.0:
                continue
            for pair in range(frame.offsets[s], frame.offsets[s + 1]):
                mass = here[s] * policy[h, pair]
                if mass > 0.0:
                    heard, row = pair + h * frame.signal_step, pair + h * frame.row_step
                    for x in range(n_signals):
                        sums[x] += frame.weights[h] * mass * judge.signals[heard, x]
                    for entry in range(judge.row_starts[row], judge.row_starts[row + 1]):
                        after[judge.successors[entry]] += mass * judge.chances[entry]
        here, after = after, here
