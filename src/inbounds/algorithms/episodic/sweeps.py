"""One backward sweep over an empirical model for all signals at once, and the forward pass of a deterministic policy.

Plain, a row leads to its successors with the chances of the model. Extended (extended value iteration), with those in
the box that are best for what is maximised: the lower ends first, and what is left to the states of the largest value.
States are sorted once a stage, from the order of the stage after, by insertion: that is nearly sorted already, and the
same in compiled code as in Python. A row never tried ends the episode: what it is worth is in its signals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from inbounds.algorithms.episodic.counts import Counts, Model
from inbounds.algorithms.episodic.frame import Frame
from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled


class Swept(NamedTuple):
    """What a sweep leaves behind, and room to work in."""

    values: Floats  # [H + 1, S, X], to go; the last is 0
    combined: Floats  # [H, n], of pairs: the reward plus the priced margins, to go
    chosen: Ints  # [H, S], the best pair, of the least number where there are several
    order: Ints  # [H + 1, S], states by what is maximised, the largest first; extended only
    room: Floats  # [S], between the ends of the box of one row; -1 where it was not seen, and between rows


@compiled
def new_sweep(horizon: int, n_states: int, n_pairs: int, n_signals: int) -> Swept:
    order = np.zeros((horizon + 1, n_states), dtype=np.int64)
    for s in range(n_states):
        order[horizon, s] = s
    return Swept(
        np.zeros((horizon + 1, n_states, n_signals)),
        np.zeros((horizon, n_pairs)),
        np.zeros((horizon, n_states), dtype=np.int64),
        order,
        np.full(n_states, -1.0),
    )


@compiled
def sort_states(swept: Swept, prices: Floats, h: int) -> None:
    """States by the priced value to go at stage h, the largest first, from the order of stage h + 1."""
    order, values = swept.order, swept.values
    n_states, n_signals = values.shape[1], values.shape[2]
    worth = np.empty(n_states)
    for s in range(n_states):
        worth[s] = values[h, s, 0]
        for x in range(1, n_signals):
            worth[s] += prices[x - 1] * values[h, s, x]
    for place in range(n_states):
        s = order[min(h + 1, order.shape[0] - 1), place]
        j = place
        while j > 0 and worth[order[h, j - 1]] < worth[s]:
            order[h, j] = order[h, j - 1]
            j -= 1
        order[h, j] = s


@compiled
def sweep(
    signals: Floats,
    prices: Floats,
    policy: Floats,
    counts: Counts,
    model: Model,
    frame: Frame,
    greedy: bool,
    extended: bool,
    clipped: bool,
    swept: Swept,
) -> None:
    """Values to go of the signals [H, n, X], from the last stage to the first.

    Of the policy that is best for the reward plus the priced margins (`greedy`; prices [X - 1]), or of `policy` [H, n].
    `clipped`: every value of a pair within the least and the most that is possible from there.
    """
    horizon, _, n_signals = signals.shape
    n_states, values, combined = frame.offsets.shape[0] - 1, swept.values, swept.combined
    # The successors of a row are spread here and again in `forward`: a call for each row would take ten times as long.
    worth, best = np.empty(n_signals), np.empty(n_signals)
    successors, lower, upper, order, room = counts.successors, model.lower, model.upper, swept.order, swept.room
    for h in range(horizon - 1, -1, -1):
        if extended:
            sort_states(swept, prices, h + 1)
        for s in range(n_states):
            most, choice = -np.inf, frame.offsets[s]
            for x in range(n_signals):
                best[x] = 0.0
            for pair in range(frame.offsets[s], frame.offsets[s + 1]):
                row = pair + h * frame.row_step
                for x in range(n_signals):
                    worth[x] = signals[h, pair, x]
                if extended and model.visits[row] > 0.0:
                    left = 1.0
                    for place in range(model.length[row]):
                        chance, after = lower[row, place], successors[row, place]
                        left -= chance
                        room[after] = upper[row, place] - chance
                        for x in range(n_signals):
                            worth[x] += chance * values[h + 1, after, x]
                    for place in range(n_states):
                        if left <= 0.0:
                            break
                        after = order[h + 1, place]
                        chance = min(left, room[after] if room[after] >= 0.0 else model.beyond[row])
                        left -= chance
                        for x in range(n_signals):
                            worth[x] += chance * values[h + 1, after, x]
                    for place in range(model.length[row]):
                        room[successors[row, place]] = -1.0
                else:
                    for place in range(model.length[row]):
                        chance, after = model.chances[row, place], successors[row, place]
                        for x in range(n_signals):
                            worth[x] += chance * values[h + 1, after, x]
                if clipped:
                    for x in range(n_signals):
                        worth[x] = min(max(worth[x], frame.rest[h] * frame.low[x]), frame.rest[h] * frame.high[x])
                total = worth[0]
                for x in range(1, n_signals):
                    total += prices[x - 1] * worth[x]
                combined[h, pair] = total
                if not greedy:
                    for x in range(n_signals):
                        best[x] += policy[h, pair] * worth[x]
                elif total > most:
                    most, choice = total, pair
                    for x in range(n_signals):
                        best[x] = worth[x]
            swept.chosen[h, s] = choice
            for x in range(n_signals):
                values[h, s, x] = best[x]


@compiled
def forward(
    signals: Floats,
    counts: Counts,
    model: Model,
    frame: Frame,
    extended: bool,
    swept: Swept,
    occupancy: Floats,
    sums: Floats,
) -> None:
    """How often the policy `chosen` of a sweep is at each pair, into `occupancy` [H, n]; its signals into `sums` [X].

    From the starts that were seen, with the successors of that sweep.
    """
    horizon, n_pairs, n_signals = signals.shape
    n_states = frame.offsets.shape[0] - 1
    here, after, total = np.zeros(n_states), np.zeros(n_states), 0.0
    successors, lower, upper, order, room = counts.successors, model.lower, model.upper, swept.order, swept.room
    for s in range(n_states):
        total += counts.starts[s]
    for s in range(n_states):
        here[s] = counts.starts[s] / total
    for x in range(n_signals):
        sums[x] = 0.0
    for h in range(horizon):
        for pair in range(n_pairs):
            occupancy[h, pair] = 0.0
        for s in range(n_states):
            after[s] = 0.0
        for s in range(n_states):
            mass = here[s]
            if mass > 0.0:
                pair = swept.chosen[h, s]
                row = pair + h * frame.row_step
                occupancy[h, pair] = mass
                for x in range(n_signals):
                    sums[x] += mass * signals[h, pair, x]
                if extended and model.visits[row] > 0.0:
                    left = 1.0
                    for place in range(model.length[row]):
                        chance, other = lower[row, place], successors[row, place]
                        left -= chance
                        room[other] = upper[row, place] - chance
                        after[other] += mass * chance
                    for place in range(n_states):
                        if left <= 0.0:
                            break
                        other = order[h + 1, place]
                        chance = min(left, room[other] if room[other] >= 0.0 else model.beyond[row])
                        left -= chance
                        after[other] += mass * chance
                    for place in range(model.length[row]):
                        room[successors[row, place]] = -1.0
                else:
                    for place in range(model.length[row]):
                        after[successors[row, place]] += mass * model.chances[row, place]
        here, after = after, here


@compiled
def start_values(counts: Counts, values: Floats, sums: Floats) -> None:
    """The values to go [H + 1, S, X] at the first stage, from the starts that were seen, into `sums` [X]."""
    total = 0.0
    for s in range(counts.starts.shape[0]):
        total += counts.starts[s]
    for x in range(sums.shape[0]):
        sums[x] = 0.0
        for s in range(counts.starts.shape[0]):
            sums[x] += counts.starts[s] / total * values[0, s, x]


@compiled
def follow(
    policy: Floats,
    frame: Frame,
    starts: Floats,
    length: Ints,
    successors: Ints,
    chances: Floats,
    means: Floats,
    exits: Floats,
    sums: Floats,
) -> None:
    """What a policy [H, n] is worth: the weighted means [Q, X] of its signals over an episode, into `sums` [X].

    It begins by `starts` [S], in any unit; row r leads to its first `length` [R] successors [R, L] with their chances.
    A row that leads nowhere was never tried, and ends the episode with all that its `exits` [H, n, X] say.
    """
    n_states, n_signals, total = starts.shape[0], sums.shape[0], 0.0
    here, after = np.zeros(n_states), np.zeros(n_states)
    for s in range(n_states):
        total += starts[s]
    for s in range(n_states):
        here[s] = starts[s] / total
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
                if mass == 0.0:
                    continue
                heard, row = pair + h * frame.signal_step, pair + h * frame.row_step
                for x in range(n_signals):
                    own = exits[h, pair, x] if length[row] == 0 else frame.weights[h] * means[heard, x]
                    sums[x] += mass * own
                for place in range(length[row]):
                    after[successors[row, place]] += mass * chances[row, place]
        here, after = after, here
