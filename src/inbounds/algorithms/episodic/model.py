"""What a learner has seen, the model that it makes of it, how far that may be off, and what it then plans with.

A row is a pair, or a pair at a stage where transitions differ by stage; likewise for signals.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.rules import Radii
from inbounds.arrays import Floats, Ints
from inbounds.numerics.boxes import Boxes, new_boxes
from inbounds.numerics.compiled import compiled


class Model(NamedTuple):
    """Counts; and the empirical model with its confidence, as it was last brought up to them.

    R rows of transitions, Q of signals; L = most successors that a row can have.
    """

    visits: Floats  # [R]
    found: Ints  # [R], how many successors were seen: those of `rows`, in the order in which they were
    times: Floats  # [R, L], how often
    heard: Floats  # [Q], observations of signals
    means: Floats  # [Q, X], running ones: of signals that are the same every time they are exact
    noisy: Ints  # [X], 1 once two observations of a row differed
    acted: Ints  # [S], 1 once an action was taken there
    known: Floats  # [R], visits that the model is made of; 0: a row never tried, which ends the episode
    rows: Boxes  # the model, with how often episodes began where
    width: Floats  # [R], of the bonus: times the span of the values to go


def new_model(frame: Frame) -> Model:
    """Before anything was seen."""
    rows = new_boxes(frame.offsets, frame.states, frame.row_step, frame.H, min(frame.S, frame.samples))
    heard = np.zeros(frame.pairs * (frame.H if frame.signal_step else 1))
    visits, known, width = np.zeros((3, len(rows.length)))
    means = np.zeros((len(heard), 1 + frame.bounds))
    noisy, acted = (np.zeros(size, dtype=np.int64) for size in (1 + frame.bounds, frame.S))
    return Model(visits, rows.length.copy(), rows.chances.copy(), heard, means, noisy, acted, known, rows, width)


@compiled
def see(model: Model, frame: Frame, path: Ints, signals: Floats) -> None:
    """What was seen: pairs, next states and stages [T, 3], signals [T, X]."""
    for t in range(path.shape[0]):
        pair, after, place = path[t, 0], path[t, 1], 0
        row, heard = pair + path[t, 2] * frame.row_step, pair + path[t, 2] * frame.signal_step
        model.acted[frame.states[pair]] = 1
        model.visits[row] += 1.0
        while place < model.found[row] and model.rows.successors[row, place] != after:
            place += 1
        if place == model.found[row]:
            model.found[row] += 1
            model.rows.successors[row, place] = after
        model.times[row, place] += 1.0
        model.heard[heard] += 1.0
        for x in range(signals.shape[1]):
            difference = signals[t, x] - model.means[heard, x]
            if difference != 0.0:
                model.means[heard, x] += difference / model.heard[heard]
                if model.heard[heard] > 1.0:
                    model.noisy[x] = 1


@compiled
def radius(radii: Radii, chance: float, n: float) -> float:
    """Of one successor's chance after n >= 1 visits; 1 where the formula says nothing yet."""
    if n <= radii.less:
        return 1.0
    linear = radii.linear / (n - radii.less)
    return min(radii.root * math.sqrt(chance * (1.0 - chance) / n) + linear, radii.flat / math.sqrt(n))


@compiled
def news(model: Model, row: int, least: float, growth: float) -> bool:
    """Whether a row has `least` visits that the model does not know of, and `growth` times as many as it does."""
    return bool(model.visits[row] - model.known[row] >= max(least, (growth - 1.0) * model.known[row]))


@compiled
def renew(model: Model, radii: Radii, least: float, growth: float) -> None:
    """Bring the rows of which there is news up to the counts."""
    rows, n_states = model.rows, model.rows.starts.shape[0]
    for row in range(model.visits.shape[0]):
        if not news(model, row, least, growth):
            continue
        n, length, within = model.visits[row], model.found[row], 0.0
        model.known[row], rows.length[row] = n, length
        for place in range(length):
            chance = model.times[row, place] / n
            off = radius(radii, chance, n)
            rows.chances[row, place] = chance
            rows.lower[row, place] = max(chance - off, 0.0)
            rows.upper[row, place] = min(chance + off, 1.0)
            within += off
        rows.beyond[row] = min(radius(radii, 0.0, n), 1.0)
        if length < n_states:
            within += min(radii.unseen, n_states - length) * rows.beyond[row]
        width = radii.of_box * within + radii.of_visits / math.sqrt(n + radii.ridge)
        model.width[row] = min(width, radii.most)


@compiled
def fill_spans(spans: Floats, values: Floats, acted: Ints, frame: Frame, by_visits: bool) -> None:
    """The span of the values to go [H + 1, S, X] of each signal, over the states acted in, into `spans` [H + 1, X].

    At least the range of one step, at most that of all that is left. `by_visits`: the bonus stands for the signals of
    its own step as well; then the range is that of the step before, and there is one at the end, where nothing is left.
    """
    for x in range(spans.shape[1]):
        width = frame.high[x] - frame.low[x]
        for h in range(frame.H + 1):
            least, most = math.inf, -math.inf
            for s in range(frame.S):
                if acted[s] == 1:
                    least, most = min(least, values[h, s, x]), max(most, values[h, s, x])
            step = frame.weights[h - 1] if by_visits and h > 0 else (frame.weights[h] if h < frame.H else 0.0)
            spans[h, x] = max(min(most - least, frame.rest[h] * width), step * width)


@compiled
def fill_means(signals: Floats, model: Model, frame: Frame, tried: bool) -> None:
    """The weighted means into `signals` [H, n, X]: where both the row and its signals are known (`tried`), or of all.

    Where transitions are pooled over stages and signals are not, a row is known before its signals were heard there.
    Of all, those never heard count as 0: only spans come of it, which are never below the range of a step.
    """
    for h in range(frame.H):
        for pair in range(frame.pairs):
            heard = pair + h * frame.signal_step
            if (model.known[pair + h * frame.row_step] > 0.0 and model.heard[heard] > 0.0) or not tried:
                for x in range(signals.shape[2]):
                    signals[h, pair, x] = frame.weights[h] * model.means[heard, x]


@compiled
def fill_signals(
    signals: Floats, model: Model, frame: Frame, radii: Radii, spans: Floats, sign: float, share: float
) -> None:
    """What planning takes for the signals of every pair at every stage, into `signals` [H, n, X].

    The weighted mean, plus its radius and the bonus for the reward; for margins plus (`sign` = 1) or minus (-1) them.
    The reward gains `share` times what the bonus took from the margins. Where nothing was seen the extreme value
    stands: of the step, and where the row was never tried of all that is left, for such a row ends the episode.
    """
    for h in range(frame.H):
        weight, left, after = frame.weights[h], frame.rest[h], frame.rest[h + 1]
        for pair in range(frame.pairs):
            row, heard = pair + h * frame.row_step, pair + h * frame.signal_step
            n_heard, tried, taken = model.heard[heard], model.known[row] > 0.0, 0.0
            for x in range(frame.bounds, -1, -1):
                way, low, high = 1.0 if x == 0 else sign, frame.low[x], frame.high[x]
                extreme = high if way > 0.0 else low
                step = extreme
                if n_heard > 0.0:
                    off = 0.0
                    if radii.always or model.noisy[x] == 1:
                        off = radii.signal_root / math.sqrt(n_heard) + radii.signal_linear / n_heard
                    step = min(max(model.means[heard, x] + way * off * (high - low), low), high)
                bonus = spans[h + 1, x] * model.width[row] if tried else left * (high - low)
                value = weight * step + (way * bonus if tried else after * extreme)
                if x > 0:
                    taken += bonus
                else:
                    value += share * taken
                signals[h, pair, x] = value
