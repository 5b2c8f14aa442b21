"""What a learner has seen, the model that it makes of it, how far that may be off, and what it then plans with.

A row is a pair, or a pair at a stage where transitions differ by stage; likewise for signals.

Radii. That of a chance p after n visits is  min( root sqrt(p (1 - p) / n) + linear / (n - less),  flat / sqrt(n) ).
The bonus of a value is span * width, where the width of a row is `of_box` times the sum of its radii (over the
successors seen, and `unseen` of the others), plus `of_visits` / sqrt(n + ridge), and `most` at most. The papers take H
for the span. Practical presets take that of the current policy's values to go, which is what lets one setting do for
every problem, and radii without logarithms. The linear part matters more than the root: it also widens the
box towards successors never seen, without which one run in ten gives up a good action for ever.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from inbounds.algorithms.episodic.frame import Frame, Size
from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled


class Radii(NamedTuple):
    """The constants of the radii, of the bonus (none where `of_box` and `of_visits` are 0), and of the signals."""

    root: float = 0.0
    linear: float = 0.0
    flat: float = math.inf
    less: float = 0.0
    of_box: float = 0.0
    unseen: float = 0.0
    of_visits: float = 0.0
    ridge: float = 0.0
    most: float = math.inf
    signal_root: float = 0.0  # times the range of a signal
    signal_linear: float = 0.0
    always: bool = True  # False: signals have a radius only once two observations of a pair differed


def practical(root: float, linear: float) -> Radii:
    """No logarithms; the width is half the sum of the radii of successors seen (derived here)."""
    return Radii(root, linear, of_box=0.5, signal_root=root, signal_linear=linear, always=False)


def efroni(delta: float, size: Size) -> Radii:
    """2 sqrt(p (1-p) L / n) + 14 L / (3 n); signals sqrt(L' / n), with the logarithms of `opt_cmdp`. Also DOPE's."""
    log = math.log(6.0 * size.pairs * size.H * size.K / delta)
    signals = math.sqrt(2.0 * math.log(6.0 * size.pairs * size.H * size.K / delta * (1 + size.bounds)))
    return Radii(2.0 * math.sqrt(log), 14.0 * log / 3.0, of_box=1.0, unseen=math.inf, signal_root=signals)


def bennett(log: float, linear: float, less: float = 0.0) -> Radii:
    """min( sqrt(2 p (1-p) l / n) + linear l / (n - less), sqrt(l / 2n) ); signals are known. UC-CFH, GMBL."""
    return Radii(math.sqrt(2.0 * log), linear * log, flat=math.sqrt(0.5 * log), less=less)


@compiled
def radius(confidence: Radii, chance: float, n: float) -> float:
    """Of one successor's chance after n >= 1 visits; 1 where the formula says nothing yet."""
    if n <= confidence.less:
        return 1.0
    linear = confidence.linear / (n - confidence.less)
    return min(confidence.root * math.sqrt(chance * (1.0 - chance) / n) + linear, confidence.flat / math.sqrt(n))


class Model(NamedTuple):
    """Counts, and from `known` on the empirical model with its confidence, as it was last brought up to them.

    R rows of transitions, Q of signals; L = most successors that a row can have.
    """

    visits: Floats  # [R]
    found: Ints  # [R], how many successors were seen
    successors: Ints  # [R, L], in the order in which they were first seen
    times: Floats  # [R, L], how often
    heard: Floats  # [Q], observations of signals
    means: Floats  # [Q, X], running ones: of signals that are the same every time they are exact
    noisy: Ints  # [X], 1 once two observations of a row differed
    starts: Floats  # [S], how often an episode began there
    acted: Ints  # [S], 1 once an action was taken there
    known: Floats  # [R], visits that the model is made of; 0: a row never tried, which ends the episode
    length: Ints  # [R], how many successors it knows
    chances: Floats  # [R, L]
    lower: Floats  # [R, L], of the box
    upper: Floats  # [R, L]
    beyond: Floats  # [R], the upper end for successors that were not seen; the lower is 0
    width: Floats  # [R], of the bonus: times the span of the values to go


def new_model(frame: Frame, samples: int) -> Model:
    """Before anything was seen."""
    size = frame.size
    row, heard = ((size.pairs * (size.H if step else 1),) for step in (frame.row_step, frame.signal_step))
    lists, states, signals = (*row, min(size.S, samples)), (size.S,), (1 + size.bounds,)
    shapes = dict(visits=row, times=lists, heard=heard, means=heard + signals, starts=states, known=row)
    shapes |= dict(chances=lists, lower=lists, upper=lists, beyond=row, width=row)
    whole = dict(found=row, successors=lists, noisy=signals, acted=states, length=row)
    arrays: dict[str, Any] = {name: np.zeros(shape) for name, shape in shapes.items()}
    arrays |= {name: np.zeros(shape, dtype=np.int64) for name, shape in whole.items()}
    return Model(**arrays)


@compiled
def see(model: Model, frame: Frame, path: Ints, signals: Floats) -> None:
    """What was seen: pairs, next states and stages [T, 3], signals [T, X]."""
    for t in range(path.shape[0]):
        pair, after, place = path[t, 0], path[t, 1], 0
        row, heard = pair + path[t, 2] * frame.row_step, pair + path[t, 2] * frame.signal_step
        model.acted[frame.states[pair]] = 1
        model.visits[row] += 1.0
        while place < model.found[row] and model.successors[row, place] != after:
            place += 1
        if place == model.found[row]:
            model.found[row] += 1
            model.successors[row, place] = after
        model.times[row, place] += 1.0
        model.heard[heard] += 1.0
        for x in range(signals.shape[1]):
            difference = signals[t, x] - model.means[heard, x]
            if model.heard[heard] > 1.0 and difference != 0.0:
                model.noisy[x] = 1
            model.means[heard, x] += difference / model.heard[heard]


@compiled
def renew(model: Model, confidence: Radii, least: float, growth: float) -> None:
    """Bring rows up to the counts: those with `least` new visits, and `growth` times as many as the model knows of."""
    n_states = model.starts.shape[0]
    for row in range(model.visits.shape[0]):
        n, length, within = model.visits[row], model.found[row], 0.0
        if n - model.known[row] < max(least, (growth - 1.0) * model.known[row]):
            continue
        model.known[row], model.length[row] = n, length
        for place in range(length):
            chance = model.times[row, place] / n
            off = radius(confidence, chance, n)
            model.chances[row, place] = chance
            model.lower[row, place] = max(chance - off, 0.0)
            model.upper[row, place] = min(chance + off, 1.0)
            within += off
        model.beyond[row] = min(radius(confidence, 0.0, n), 1.0)
        if length < n_states:
            within += min(confidence.unseen, n_states - length) * model.beyond[row]
        width = confidence.of_box * within + confidence.of_visits / math.sqrt(n + confidence.ridge)
        model.width[row] = min(width, confidence.most)


@compiled
def fill_spans(spans: Floats, values: Floats, acted: Ints, frame: Frame, by_visits: bool) -> None:
    """The span of the values to go [H + 1, S, X] of each signal, over the states acted in, into `spans` [H + 1, X].

    At least the range of one step, at most that of all that is left. `by_visits`: the bonus stands for the signals of
    its own step as well; then the range is that of the step before, and there is one at the end, where nothing is left.
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
def fill_means(signals: Floats, model: Model, frame: Frame, tried: bool) -> None:
    """The weighted means into `signals` [H, n, X]: of the rows that the model knows (`tried`), or of all."""
    for h in range(signals.shape[0]):
        for pair in range(signals.shape[1]):
            if model.length[pair + h * frame.row_step] > 0 or not tried:
                for x in range(signals.shape[2]):
                    signals[h, pair, x] = frame.weights[h] * model.means[pair + h * frame.signal_step, x]


@compiled
def fill_signals(
    signals: Floats, model: Model, frame: Frame, confidence: Radii, spans: Floats, sign: float, share: float
) -> None:
    """What planning takes for the signals of every pair at every stage, into `signals` [H, n, X].

    The weighted mean, plus its radius and the bonus for the reward; for margins plus (`sign` = 1) or minus (-1) them.
    The reward gains `share` times what the bonus took from the margins. Where nothing was seen the extreme value
    stands: of the step, and where the row was never tried of all that is left, for such a row ends the episode.
    """
    horizon, n_pairs, n_signals = signals.shape
    for h in range(horizon):
        for pair in range(n_pairs):
            row, heard = pair + h * frame.row_step, pair + h * frame.signal_step
            n_heard, tried, taken = model.heard[heard], model.known[row] > 0.0, 0.0
            for x in range(n_signals - 1, -1, -1):
                way, low, high = 1.0 if x == 0 else sign, frame.low[x], frame.high[x]
                extreme = high if way > 0.0 else low
                step = extreme
                if n_heard > 0.0:
                    off = 0.0
                    if confidence.always or model.noisy[x] == 1:
                        off = confidence.signal_root / math.sqrt(n_heard) + confidence.signal_linear / n_heard
                    step = min(max(model.means[heard, x] + way * off * (high - low), low), high)
                bonus = spans[h + 1, x] * model.width[row] if tried else frame.rest[h] * (high - low)
                value = frame.weights[h] * step + (way * bonus if tried else frame.rest[h + 1] * extreme)
                if x > 0:
                    taken += bonus
                else:
                    value += share * taken
                signals[h, pair, x] = value
