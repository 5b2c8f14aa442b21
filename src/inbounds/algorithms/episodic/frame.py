"""What an episodic learner knows beforehand, and the units that it thinks in.

It knows the states, the actions of each, the horizon H, the ranges of reward and margins, and, from the simulator,
whether transitions and signals differ by stage: where they do not, counts are pooled. (A user's step function is never
told the stage: what depends on it has to be part of the state.)

Units. Rewards are as the simulator shows them: in [0, 1]. The library scales a margin such that its sum over an episode
is in [-1, 1]; the papers scale the step, and so do learners here: times one factor for each constraint, so that the
largest margin of a step is 1. A value is a sum over the episode, at most W = sum of the stage weights, which is what
stands for the papers' H wherever that bounds a value.

A discounted problem is truncated: H is the least with discount^H <= epsilon, stage h weighs discount^h, counts are
pooled, and the policy becomes ONE stationary policy through the discounted occupancy of the visits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.errors import InvalidInput
from inbounds.exact.truncation import stages_for
from inbounds.problem.simulator import Simulator

TRUNCATED = 1e-3
"""`epsilon` where it is not given: what the tail of a truncated problem may come to, of its largest signal."""


class Size(NamedTuple):
    """Of a problem and a run, in the papers' letters."""

    S: int
    pairs: int  # the papers' S A
    A: int  # most actions of a state
    H: int  # steps of an episode
    W: float
    K: int  # episodes that fit into the budget
    bounds: int  # the papers' I


class Frame(NamedTuple):
    """What a learner knows beforehand; X = 1 + I signals, the reward and I margins. Never changes."""

    offsets: Ints  # [S + 1]
    states: Ints  # [n], of the pairs
    weights: Floats  # [H], of stages: 1, or discount^h
    rest: Floats  # [H + 1], W_h: the sum of the weights from stage h on; W is the first, 0 the last
    low: Floats  # [X], least and largest signal of a step
    high: Floats  # [X]
    factors: Floats  # [X], from the simulator's units to the learner's
    row_step: int  # how far apart the transitions of two stages lie: n, or 0 where they are pooled
    signal_step: int  # likewise the signals
    episodes: int  # K
    second_half: bool  # whether the mixture is of the second half
    truncated: bool

    @property
    def size(self) -> Size:
        actions = np.diff(self.offsets)
        counted = len(actions), int(self.offsets[-1]), int(actions.max()), len(self.weights)
        return Size(*counted, float(self.rest[0]), self.episodes, len(self.low) - 1)

    def slack(self, scaled: float) -> Floats:
        """A value of every margin [I], in scaled units of the library, as a sum over an episode in the learner's."""
        whole = self.rest[0] if self.truncated else 1.0  # the library's is normalised there
        return scaled * whole * self.factors[1:]


def frame_of(settings: Any, simulator: Simulator, samples: int) -> Frame:
    """The frame of a run; refuses a budget of less than one episode, and `epsilon` where there is nothing to cut."""
    horizon, truncated = horizon_of(settings, simulator), "discount" in simulator.criterion
    if samples < horizon:
        raise InvalidInput(
            f"{settings.algorithm.name} learns from whole episodes: {samples:,} samples are less than one of "
            f"{horizon:,} steps; give at least {horizon:,}"
        )
    stages = np.arange(horizon, dtype=np.float64)
    weights = simulator.discount**stages if truncated else np.ones(horizon)
    largest = np.abs(simulator.margin_ranges).max(axis=1, initial=0.0)
    scaled = simulator.scaled is simulator  # otherwise the user wants them as they are
    factors = np.where((largest > 0.0) & scaled, 1.0 / np.where(largest > 0.0, largest, 1.0), 1.0)
    ranges = np.vstack([simulator.reward_range, factors[:, None] * simulator.margin_ranges])
    _, row_step, signal_step = simulator.open().stages  # the horizon of a truncation is its own
    return Frame(
        offsets=simulator.pairs.offsets,
        states=simulator.pairs.states,
        weights=weights,
        rest=np.concatenate([np.cumsum(weights[::-1])[::-1], [0.0]]),
        low=ranges[:, 0].copy(),
        high=ranges[:, 1].copy(),
        factors=np.concatenate([[1.0], factors]),
        row_step=int(row_step),
        signal_step=int(signal_step),
        episodes=samples // horizon,
        second_half=settings.average == "second half",
        truncated=truncated,
    )


def horizon_of(settings: Any, simulator: Simulator) -> int:
    """Steps of an episode."""
    if "discount" in simulator.criterion:
        return stages_for(simulator.discount, TRUNCATED if settings.epsilon is None else settings.epsilon)
    if settings.epsilon is not None:
        raise InvalidInput(
            f"{settings.algorithm.name}: epsilon says where to truncate a discounted problem, and this one has a "
            f"horizon already: {simulator!r}"
        )
    return simulator.layers


def said_of(settings: Any, frame: Frame) -> dict[str, float | str]:
    """What every run of an episodic learner says of itself in ``run.settings``."""
    said: dict[str, float | str] = {"episodes": frame.episodes, "average": settings.average}
    if frame.truncated:
        epsilon = TRUNCATED if settings.epsilon is None else settings.epsilon
        said |= {"truncated": f"after {len(frame.weights)} steps, to one stationary policy", "epsilon": epsilon}
    return said


def sums_in_user_units(sums: Floats, simulator: Simulator, frame: Frame) -> Floats:
    """Sums of the reward and the margins over an episode [..., X], in the user's units."""
    scaling = simulator.scaling
    units = np.concatenate([[scaling.reward_span], scaling.margin_scales]) / frame.factors
    shift = np.zeros(len(units))
    shift[0] = scaling.reward_low * frame.rest[0]
    return np.asarray(sums * units + shift)
