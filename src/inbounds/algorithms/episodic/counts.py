"""What a learner has seen: visits, successors in lists, means of signals; and the model that it makes of them.

A row is a pair, or a pair at a stage where transitions differ by stage; likewise for signals. The model is that of the
counts at the last planning. Means are kept as running means: one that is the same every time is then exact.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from inbounds.algorithms.episodic.confidence import Confidence, radius
from inbounds.algorithms.episodic.frame import Frame
from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled


class Counts(NamedTuple):
    """R rows of transitions, Q of signals; L = most successors that a row can have."""

    visits: Floats  # [R]
    found: Ints  # [R], how many successors were seen
    successors: Ints  # [R, L], in the order in which they were first seen
    times: Floats  # [R, L], how often
    heard: Floats  # [Q], observations of signals
    means: Floats  # [Q, X]
    noisy: Ints  # [X], 1 once two observations of a row differed
    starts: Floats  # [S], how often an episode began there
    acted: Ints  # [S], 1 once an action was taken there


class Model(NamedTuple):
    """The empirical model, with its confidence; successors are the first `length` in the list of the counts."""

    visits: Floats  # [R], that it is made of; 0: a pair never tried, which ends the episode
    length: Ints  # [R]
    chances: Floats  # [R, L]
    lower: Floats  # [R, L], of the box
    upper: Floats  # [R, L]
    beyond: Floats  # [R], the upper end for successors that were not seen; the lower is 0
    width: Floats  # [R], of the bonus: times the span of the values to go


def new_counts(frame: Frame, samples: int) -> Counts:
    n_states, n, horizon = len(frame.offsets) - 1, int(frame.offsets[-1]), len(frame.weights)
    rows, heard = (n * (horizon if step else 1) for step in (frame.row_step, frame.signal_step))
    longest, signals = min(n_states, samples), len(frame.low)
    return Counts(
        visits=np.zeros(rows),
        found=np.zeros(rows, dtype=np.int64),
        successors=np.zeros((rows, longest), dtype=np.int64),
        times=np.zeros((rows, longest)),
        heard=np.zeros(heard),
        means=np.zeros((heard, signals)),
        noisy=np.zeros(signals, dtype=np.int64),
        starts=np.zeros(n_states),
        acted=np.zeros(n_states, dtype=np.int64),
    )


def new_model(counts: Counts) -> Model:
    rows, lists = counts.visits.shape, counts.times.shape
    return Model(
        visits=np.zeros(rows),
        length=np.zeros(rows, dtype=np.int64),
        chances=np.zeros(lists),
        lower=np.zeros(lists),
        upper=np.zeros(lists),
        beyond=np.ones(rows),
        width=np.zeros(rows),
    )


@compiled
def count_transition(counts: Counts, row: int, after: int) -> None:
    """One more visit of a row, that led to `after`."""
    counts.visits[row] += 1.0
    place = 0
    while place < counts.found[row] and counts.successors[row, place] != after:
        place += 1
    if place == counts.found[row]:
        counts.found[row] += 1
        counts.successors[row, place] = after
    counts.times[row, place] += 1.0


@compiled
def hear(counts: Counts, row: int, signals: Floats) -> None:
    """One more observation of the signals [X] of a row."""
    counts.heard[row] += 1.0
    for x in range(signals.shape[0]):
        difference = signals[x] - counts.means[row, x]
        if counts.heard[row] > 1.0 and difference != 0.0:
            counts.noisy[x] = 1
        counts.means[row, x] += difference / counts.heard[row]


@compiled
def refresh(model: Model, counts: Counts, confidence: Confidence, row: int) -> None:
    """Bring one row of the model up to the counts."""
    n, length = counts.visits[row], counts.found[row]
    model.visits[row] = n
    model.length[row] = length
    within = 0.0
    for place in range(length):
        chance = counts.times[row, place] / n
        off = radius(confidence, chance, n)
        model.chances[row, place] = chance
        model.lower[row, place] = max(chance - off, 0.0)
        model.upper[row, place] = min(chance + off, 1.0)
        within += off
    model.beyond[row] = min(radius(confidence, 0.0, n), 1.0)
    if length < counts.starts.shape[0]:
        within += min(confidence.unseen, counts.starts.shape[0] - length) * model.beyond[row]
    width = confidence.of_box * within + confidence.of_visits / math.sqrt(n + confidence.ridge)
    model.width[row] = min(width, confidence.most)


@compiled
def refresh_all(model: Model, counts: Counts, confidence: Confidence) -> None:
    """Bring the model up to the counts; rows without a new visit are as they were."""
    for row in range(counts.visits.shape[0]):
        if counts.visits[row] > model.visits[row]:
            refresh(model, counts, confidence, row)


@compiled
def fill_spans(spans: Floats, values: Floats, acted: Ints, frame: Frame, by_visits: bool) -> None:
    """The span of the values to go [H + 1, S, X] of each signal, over the states acted in, into `spans` [H + 1, X].

    At least the range of one step, at most that of all that is left. `by_visits`: the bonus
    stands for the signals of its own step as well; then the range is that of the step before, and there is one at the
    end, where nothing is left.
    """
    horizon = frame.weights.shape[0]
    for x in range(spans.shape[1]):
        width = frame.high[x] - frame.low[x]
        for h in range(horizon + 1):
            least, most = math.inf, -math.inf
            for s in range(acted.shape[0]):
                if acted[s] == 1:
                    least, most = min(least, values[h, s, x]), max(most, values[h, s, x])
            step = frame.weights[h - 1] if by_visits and h > 0 else (frame.weights[h] if h < horizon else 0.0)
            spans[h, x] = max(min(most - least, frame.rest[h] * width), step * width)


@compiled
def fill_means(signals: Floats, counts: Counts, frame: Frame) -> None:
    """The weighted means, 0 where nothing was seen, into `signals` [H, n, X]: what values are estimated from."""
    for h in range(signals.shape[0]):
        for pair in range(signals.shape[1]):
            for x in range(signals.shape[2]):
                signals[h, pair, x] = frame.weights[h] * counts.means[pair + h * frame.signal_step, x]


@compiled
def fill_signals(
    signals: Floats,
    counts: Counts,
    model: Model,
    frame: Frame,
    confidence: Confidence,
    spans: Floats,
    sign: float,
    share: float,
) -> None:
    """What planning takes for the signals of every pair at every stage, into `signals` [H, n, X].

    The weighted mean, plus its radius and the bonus for the reward; for margins plus (`sign` = 1) or minus (-1) them.
    The reward gains `share` times what the bonus took from the margins. Where nothing was seen the extreme value
    stands: of the step, and where the row was never tried of all that is left, for such a pair ends the episode.
    """
    horizon, n, n_signals = signals.shape
    for h in range(horizon):
        for pair in range(n):
            row, heard = pair + h * frame.row_step, pair + h * frame.signal_step
            n_heard, tried, taken = counts.heard[heard], model.visits[row] > 0.0, 0.0
            for x in range(n_signals - 1, -1, -1):
                way = 1.0 if x == 0 else sign
                low, high = frame.low[x], frame.high[x]
                step = high if way > 0.0 else low
                if n_heard > 0.0:
                    off = 0.0
                    if confidence.always or counts.noisy[x] == 1:
                        off = confidence.signal_root / math.sqrt(n_heard) + confidence.signal_linear / n_heard
                    step = min(max(counts.means[heard, x] + way * off * (high - low), low), high)
                value = frame.weights[h] * step
                bonus = spans[h + 1, x] * model.width[row] if tried else frame.rest[h] * (high - low)
                value += way * bonus if tried else frame.rest[h + 1] * (high if way > 0.0 else low)
                if x > 0:
                    taken += bonus
                else:
                    value += share * taken
                signals[h, pair, x] = value
