"""One backward sweep over an empirical model for all signals at once, and the forward pass of a policy.

Plain, a row leads to its successors with the chances of the model. Extended (extended value iteration), with those in
the box that are best for what is maximised: the lower ends first, and what is left to the states of the largest value.
States are sorted once a stage, from the order of the stage after, by insertion: that is nearly sorted already, and the
same in compiled code as in Python. A row never tried ends the episode: what it is worth is in its signals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.model import Model
from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled


class Swept(NamedTuple):
    """What a sweep or a forward pass leaves behind, and room for the box: where the rows of one stage lead."""

    values: Floats  # [H + 1, S, X], to go; the last is 0
    combined: Floats  # [H, n], of pairs: the reward plus the priced margins, to go
    occupancy: Floats  # [H, n], of the policy followed last
    order: Ints  # [H + 1, S], states by what is maximised, the largest first
    room: Floats  # [S], between the ends of the box of one row; -1 where it was not seen, and between rows
    length: Ints  # [n]
    successors: Ints  # [n, 2 S], or empty where no sweep is extended
    chances: Floats  # [n, 2 S]


@compiled
def new_sweep(horizon: int, n_states: int, n_pairs: int, n_signals: int, extended: bool) -> Swept:
    lists, order = (n_pairs, 2 * n_states if extended else 0), np.zeros((horizon + 1, n_states), dtype=np.int64)
    order[horizon] = np.arange(n_states)
    return Swept(
        np.zeros((horizon + 1, n_states, n_signals)),
        np.zeros((horizon, n_pairs)),
        np.zeros((horizon, n_pairs)),
        order,
        np.full(n_states, -1.0),
        np.zeros(n_pairs, dtype=np.int64),
        np.zeros(lists, dtype=np.int64),
        np.zeros(lists),
    )


@compiled
def spread(model: Model, first: int, wanted: Floats, swept: Swept, h: int) -> None:
    """Where the rows `first`, `first` + 1 ... of the pairs lead over the box, by the order of stage h.

    Only of pairs that are `wanted` [n]: not 0. (A call for each row would take several times as long.)
    """
    order, room, successors, chances = swept.order, swept.room, swept.successors, swept.chances
    for pair in range(wanted.shape[0]):
        row, left = first + pair, 1.0
        size = model.length[row] if wanted[pair] != 0.0 else 0
        for place in range(size):
            s, least = model.successors[row, place], model.lower[row, place]
            successors[pair, place], chances[pair, place] = s, least
            room[s] = model.upper[row, place] - least
            left -= least
        seen, place = size, 0
        while left > 0.0 and place < room.shape[0] and seen > 0:
            s = order[h, place]
            more = min(left, room[s] if room[s] >= 0.0 else model.beyond[row])
            successors[pair, size], chances[pair, size] = s, more
            left, place, size = left - more, place + 1, size + 1
        for place in range(seen):
            room[successors[pair, place]] = -1.0
        swept.length[pair] = size


@compiled
def sweep(
    signals: Floats, prices: Floats, policy: Floats, model: Model, frame: Frame, best: bool, clipped: bool, swept: Swept
) -> None:
    """Values to go of the signals [H, n, X] of a policy [H, n], from the last stage to the first.

    Extended, where `swept` has room for that. `best`: the policy becomes the one that is best for the reward plus the
    priced margins, prices [X - 1]; of several best pairs it takes the first. `clipped`: every value of a pair within
    the least and the most that is possible.
    """
    horizon, n_pairs, n_signals = signals.shape
    n_states, values, order = frame.offsets.shape[0] - 1, swept.values, swept.order
    totals, worth = np.empty(n_states), np.empty((n_pairs, n_signals))
    length, successors, chances, apart = model.length, model.successors, model.chances, frame.row_step
    extended, everything = swept.successors.shape[1] > 0, np.ones(n_pairs)
    if extended:
        length, successors, chances, apart = swept.length, swept.successors, swept.chances, 0
    for h in range(horizon - 1, -1, -1):
        if extended:
            for s in range(n_states):
                totals[s] = values[h + 1, s, 0]
                for x in range(1, n_signals):
                    totals[s] += prices[x - 1] * values[h + 1, s, x]
            for place in range(n_states):
                s, j = order[min(h + 2, horizon), place], place
                while j > 0 and totals[order[h + 1, j - 1]] < totals[s]:
                    order[h + 1, j] = order[h + 1, j - 1]
                    j -= 1
                order[h + 1, j] = s
            spread(model, h * frame.row_step, everything, swept, h + 1)
        for s in range(n_states):
            first, last = frame.offsets[s], frame.offsets[s + 1]
            most, choice = -np.inf, first
            for pair in range(first, last):
                row = pair + h * apart
                for x in range(n_signals):
                    worth[pair, x] = signals[h, pair, x]
                for place in range(length[row]):
                    chance, after = chances[row, place], successors[row, place]
                    for x in range(n_signals):
                        worth[pair, x] += chance * values[h + 1, after, x]
                total = 0.0
                for x in range(n_signals):
                    if clipped:
                        low, high = frame.rest[h] * frame.low[x], frame.rest[h] * frame.high[x]
                        worth[pair, x] = min(max(worth[pair, x], low), high)
                    total += worth[pair, 0] if x == 0 else prices[x - 1] * worth[pair, x]
                swept.combined[h, pair] = total
                if total > most:
                    most, choice = total, pair
            if best:
                for pair in range(first, last):
                    policy[h, pair] = 1.0 if pair == choice else 0.0
            for x in range(n_signals):
                values[h, s, x] = 0.0
                for pair in range(first, last):
                    values[h, s, x] += policy[h, pair] * worth[pair, x]


@compiled
def follow(
    policy: Floats, signals: Floats, model: Model, frame: Frame, extended: bool, swept: Swept, sums: Floats
) -> None:
    """How often a policy [H, n] is at each pair, into `occupancy`; the sums of its signals [H, n, X] into `sums` [X].

    From the starts that were seen; `extended`: with the successors of the sweep before, whose policy it is.
    """
    horizon, n_pairs, n_signals = signals.shape
    here, after, occupancy = model.starts / model.starts.sum(), np.zeros(model.starts.shape[0]), swept.occupancy
    length, successors, chances, apart = model.length, model.successors, model.chances, frame.row_step
    if extended:
        length, successors, chances, apart = swept.length, swept.successors, swept.chances, 0
    sums[:] = 0.0
    for h in range(horizon):
        for pair in range(n_pairs):
            occupancy[h, pair] = here[frame.states[pair]] * policy[h, pair]
        if extended:
            spread(model, h * frame.row_step, occupancy[h], swept, h + 1)
        after[:] = 0.0
        for pair in range(n_pairs):
            mass, row = occupancy[h, pair], pair + h * apart
            if mass > 0.0:
                for x in range(n_signals):
                    sums[x] += mass * signals[h, pair, x]
                for place in range(length[row]):
                    after[successors[row, place]] += mass * chances[row, place]
        here, after = after, here
