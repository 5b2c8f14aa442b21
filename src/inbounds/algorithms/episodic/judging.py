"""A hook for what no learner may compute: the exact values of the policy of each episode.

A `Judge` is arrays that a learner's kernel fills and no algorithm reads. Without one they are empty, so that one
compiled kernel serves both. It costs a forward pass for each policy that is judged, and nothing where the policy is
that of the episode before. `inbounds.studies.regret` makes them and reads them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.sweeps import follow
from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled


class Judge(NamedTuple):
    """The model in the learner's units, as `follow` takes it, and room for what is judged. Of one run."""

    initial: Floats  # [S]
    length: Ints  # [R], of the rows: pairs, or pairs at stages
    successors: Ints  # [R, L]
    chances: Floats  # [R, L]
    signals: Floats  # [Q, X], not weighted
    exits: Floats  # none: every row leads somewhere
    episodes: Ints  # [J], which to judge, in increasing order, from 0; nothing is judged when empty
    values: Floats  # [J, X], of their policies: sums over an episode, in the learner's units
    last: Floats  # [X], of the policy judged last,
    stamp: Ints  # [1], which was the policy after so many changes


_NONE, _TABLE = np.zeros(0), np.zeros((0, 0))
NOBODY = Judge(
    initial=_NONE,
    length=_NONE.astype(np.int64),
    successors=_TABLE.astype(np.int64),
    chances=_TABLE,
    signals=_TABLE,
    exits=np.zeros((0, 0, 0)),
    episodes=_NONE.astype(np.int64),
    values=_TABLE,
    last=_NONE,
    stamp=np.full(1, -1),
)
"""No judge: nothing is judged."""


@compiled
def judge_episode(judge: Judge, frame: Frame, policy: Floats, episode: int, changes: int) -> None:
    """Record what the policy [H, n] of an episode is worth, if that is to be judged."""
    place = np.searchsorted(judge.episodes, episode)
    if place == judge.episodes.shape[0] or judge.episodes[place] != episode:
        return
    if judge.stamp[0] != changes:
        model = (judge.initial, judge.length, judge.successors, judge.chances, judge.signals, judge.exits)
        follow(policy, frame, *model, judge.last)
        judge.stamp[0] = changes
    judge.values[place] = judge.last
