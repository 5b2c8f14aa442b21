"""What an episodic learner knows beforehand, and the units that it thinks in.

It knows the states, the actions of each, the horizon H, the ranges of reward and margins, and, from the simulator,
whether transitions and signals differ by stage: where they do not, counts are pooled. (A user's step function is never
told the stage: what depends on it has to be part of the state.) Whether chance is in the start, or in the signals of a
pair, moves no learner: theorems ask for it.

Rewards are in [0, 1], as the simulator shows them. The library scales a margin such that its sum over an episode is in
[-1, 1]; the papers scale the step, and so do learners: times one factor for each constraint, so that the largest margin
of a step is 1. A value is a sum over the episode, at most W, the sum of the stage weights: the papers' H as a bound of
values. A discounted problem is truncated: H is the least with discount^H <= epsilon, stage h weighs discount^h, and the
policy becomes ONE stationary policy through the discounted occupancy of the visits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.errors import InvalidInput, TooFewSamples
from inbounds.exact.truncation import stages_for
from inbounds.problem.draws import World
from inbounds.problem.simulator import Simulator
from inbounds.tables import so_many

TRUNCATED = 1e-3
"""`epsilon` where it is not given: what the tail of a truncated problem may come to, of its largest signal."""


class Frame(NamedTuple):
    """What never changes, in the papers' letters; there are X = 1 + I signals, the reward and I margins."""

    S: int
    pairs: int  # n, the papers' S A
    A: int  # most actions of a state
    H: int  # steps of an episode
    bounds: int  # I
    W: float  # the sum of the weights of all stages
    samples: int
    K: int  # episodes that fit into these
    blocks: Ints  # [B], at which episodes a block of the mixture begins: a half, a quarter ... of all; or none
    truncated: bool
    one_start: bool  # whether every episode is known to begin in the same state,
    same_signals: bool  # and every pair to give the same reward and signals each time: not of a user's own step
    offsets: Ints  # [S + 1]
    states: Ints  # [n], of the pairs
    weights: Floats  # [H], of stages: 1, or discount^h
    rest: Floats  # [H + 1], W_h: the sum of the weights from stage h on; W is the first, 0 the last
    low: Floats  # [X], least and largest signal of a step,
    high: Floats  # [X]
    least: Floats  # [H, X], and of all that is left of an episode
    most: Floats  # [H, X]
    factors: Floats  # [X], from the simulator's units to the learner's
    row_step: int  # how far apart the transitions of two stages lie: n, or 0 where they are pooled
    signal_step: int  # likewise the signals
    queries: int  # pairs, or pairs at stages where these differ

    def slack(self, scaled: float) -> Floats:
        """A value of every margin [I], in scaled units of the library, as a sum over an episode in the learner's."""
        whole = self.W if self.truncated else 1.0  # the library's is normalised there
        return scaled * whole * self.factors[1:]

    def least_slack(self, scaled: float | None) -> float:
        """The least of them; a Slater constant that is not given is 1, the most that it can be."""
        return float(self.slack(1.0 if scaled is None else scaled).min(initial=self.W))


def frame_of(settings: Any, simulator: Simulator, samples: int) -> Frame:
    """The frame of a run; refuses a budget of less than one episode, and `epsilon` where there is nothing to cut."""
    name, truncated = settings.algorithm.name, "discount" in simulator.criterion
    if settings.epsilon is not None and not truncated:
        raise InvalidInput(
            f"{name}: epsilon says where to truncate a discounted problem, and this one has a horizon already: "
            f"{simulator!r}"
        )
    settings.require(simulator)
    horizon = stages_for(simulator.discount, settings.epsilon or TRUNCATED) if truncated else simulator.layers
    if samples < horizon and settings.algorithm.access == "online":
        raise TooFewSamples(
            f"{name} learns from whole episodes: {so_many(samples, 'sample')} {'is' if samples == 1 else 'are'} less "
            f"than one of {horizon:,} steps",
            horizon,
        )
    weights = (simulator.discount if truncated else 1.0) ** np.arange(horizon, dtype=np.float64)
    rest = np.append(np.cumsum(weights[::-1])[::-1], 0.0)
    largest = np.abs(simulator.margin_ranges).max(axis=1, initial=0.0)
    scaled = simulator.scaled is simulator  # otherwise the user wants them as they are
    factors = np.where((largest > 0.0) & scaled, 1.0 / np.where(largest > 0.0, largest, 1.0), 1.0)
    low, high = np.vstack([simulator.reward_range, factors[:, None] * simulator.margin_ranges]).T.copy()
    world = simulator.open()
    row_step, signal_step = (int(step) for step in world.stages[1:])  # a truncation has its own horizon
    certain = False, False
    if isinstance(world, World):
        certain = not np.any((world.start_cumulative > 0.0) & (world.start_cumulative < 1.0)), True
    pairs, n_actions, left = simulator.pairs, np.diff(simulator.pairs.offsets), rest[:-1, None]
    sizes = pairs.n_states, pairs.n_pairs, int(n_actions.max()), horizon, len(factors), float(rest[0])
    episodes, halves = samples // horizon, settings.average == "second half"
    blocks = [episodes >> j for j in range(1, episodes.bit_length())] if halves else []
    budget = samples, episodes, np.array(blocks, dtype=np.int64), truncated
    ranges = low, high, left * low, left * high, np.append(1.0, factors)
    steps = row_step, signal_step, pairs.n_pairs * (horizon if row_step + signal_step > 0 else 1)
    return Frame(*sizes, *budget, *certain, pairs.offsets, pairs.states, weights, rest, *ranges, *steps)
