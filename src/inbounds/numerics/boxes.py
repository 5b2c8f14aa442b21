"""Rows that are known up to a box, over a finite horizon: one backward sweep for all signals, and the forward pass.

Plain, a row leads to its successors with the chances that it has. Extended (extended value iteration), with those in
the box that are best for what is maximised: the lower ends first, and what is left to the states of the largest value.
States are sorted once a stage, from the order of the stage after, by insertion: that is nearly sorted already, and the
same in compiled code as in Python. A row without successors ends everything: what it is worth is in its signals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled


class Boxes(NamedTuple):
    """R rows with at most L successors each, of the n pairs at every stage, or of the pairs at each in turn."""

    offsets: Ints  # [S + 1]
    states: Ints  # [n], of the pairs
    step: int  # how far apart the rows of two stages lie: n, or 0 where they are the same
    starts: Floats  # [S], in proportion to the chances to begin there
    length: Ints  # [R], how many successors
    successors: Ints  # [R, L]
    chances: Floats  # [R, L]
    lower: Floats  # [R, L], of the box
    upper: Floats  # [R, L]
    beyond: Floats  # [R], the upper end for all other states; the lower is 0


def new_boxes(offsets: Ints, states: Ints, step: int, horizon: int, longest: int) -> Boxes:
    """Without any successors."""
    n_rows = len(states) * (horizon if step else 1)
    starts, beyond, length = np.zeros(len(offsets) - 1), np.zeros(n_rows), np.zeros(n_rows, dtype=np.int64)
    chances, lower, upper = np.zeros((3, n_rows, longest))
    successors = np.zeros((n_rows, longest), dtype=np.int64)
    return Boxes(offsets, states, step, starts, length, successors, chances, lower, upper, beyond)


class Swept(NamedTuple):
    """What a sweep or a forward pass leaves behind; extended also where each pair led, in lists one after the other."""

    values: Floats  # [H + 1, S, X], to go; the last is 0
    combined: Floats  # [H, n], of pairs: the first signal plus the others priced, to go
    occupancy: Floats  # [H, n], of the policy followed last
    order: Ints  # [H + 1, S], states by what is maximised, the largest first
    room: Floats  # [S], between the ends of the box of one row; -1 where it was not seen, and between rows
    place: Ints  # [H, n], where the list of a pair begins; empty where no sweep is extended
    length: Ints  # [H, n]
    successors: Ints  # [2 H n S], room for the longest
    chances: Floats  # [2 H n S]


@compiled
def new_sweep(horizon: int, n_states: int, n_pairs: int, n_signals: int, extended: bool) -> Swept:
    order, boxed = np.zeros((horizon + 1, n_states), dtype=np.int64), (horizon, n_pairs) if extended else (0, 0)
    order[horizon] = np.arange(n_states)
    return Swept(
        np.zeros((horizon + 1, n_states, n_signals)),
        np.zeros((horizon, n_pairs)),
        np.zeros((horizon, n_pairs)),
        order,
        np.full(n_states, -1.0),
        np.zeros(boxed, dtype=np.int64),
        np.zeros(boxed, dtype=np.int64),
        np.empty(2 * boxed[0] * boxed[1] * n_states, dtype=np.int64),
        np.empty(2 * boxed[0] * boxed[1] * n_states),
    )


@compiled
def sweep(
    signals: Floats, prices: Floats, policy: Floats, rows: Boxes, least: Floats, most: Floats, best: bool, swept: Swept
) -> None:
    """Values to go of the signals [H, n, X] of a policy [H, n], from the last stage to the first.

    Extended, where `swept` has room for that. `best`: the policy becomes the one that is best for the first signal plus
    the others at their prices [X - 1]; of several best pairs it takes the first. Every value of a pair is kept within
    `least` and `most` [H, X], unless these are empty.
    """
    horizon, n_signals = signals.shape[0], signals.shape[2]
    n_states, values, order, room = rows.offsets.shape[0] - 1, swept.values, swept.order, swept.room
    totals, worth, own = np.empty(n_states), np.empty(n_signals), np.empty(n_signals)
    extended, clipped, top = swept.place.shape[0] > 0, least.shape[0] > 0, 0
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
        for s in range(n_states):
            largest, choice = -np.inf, rows.offsets[s]
            for x in range(n_signals):
                own[x] = 0.0
            for pair in range(rows.offsets[s], rows.offsets[s + 1]):
                row = pair + h * rows.step
                size, left = rows.length[row], 1.0
                for x in range(n_signals):
                    worth[x] = signals[h, pair, x]
                if not extended:
                    for k in range(size):
                        chance, after = rows.chances[row, k], rows.successors[row, k]
                        for x in range(n_signals):
                            worth[x] += chance * values[h + 1, after, x]
                else:
                    swept.place[h, pair] = top
                    for k in range(size + n_states if size > 0 else 0):
                        if k < size:
                            chance, after = rows.lower[row, k], rows.successors[row, k]
                            room[after] = rows.upper[row, k] - chance
                        elif left > 0.0:
                            after = order[h + 1, k - size]
                            chance = min(left, room[after] if room[after] >= 0.0 else rows.beyond[row])
                        else:
                            break
                        swept.successors[top], swept.chances[top] = after, chance
                        left, top = left - chance, top + 1
                        for x in range(n_signals):
                            worth[x] += chance * values[h + 1, after, x]
                    for k in range(size):
                        room[rows.successors[row, k]] = -1.0
                    swept.length[h, pair] = top - swept.place[h, pair]
                if clipped:
                    for x in range(n_signals):
                        worth[x] = min(max(worth[x], least[h, x]), most[h, x])
                total = worth[0]
                for x in range(1, n_signals):
                    total += prices[x - 1] * worth[x]
                swept.combined[h, pair] = total
                if not best:
                    for x in range(n_signals):
                        own[x] += policy[h, pair] * worth[x]
                    continue
                policy[h, pair] = 0.0
                if total > largest:
                    largest, choice = total, pair
                    for x in range(n_signals):
                        own[x] = worth[x]
            if best:
                policy[h, choice] = 1.0
            for x in range(n_signals):
                values[h, s, x] = own[x]


@compiled
def follow(policy: Floats, signals: Floats, rows: Boxes, extended: bool, swept: Swept, sums: Floats) -> None:
    """How often a policy [H, n] is at each pair, into `occupancy`; the sums of its signals [H, n, X] into `sums` [X].

    From the starts; `extended`: to where the pairs led in the sweep before.
    """
    horizon, n_pairs, n_signals = signals.shape
    here, after, occupancy = rows.starts / rows.starts.sum(), np.zeros(rows.starts.shape[0]), swept.occupancy
    successors, chances = rows.successors.reshape(-1), rows.chances.reshape(-1)
    if extended:
        successors, chances = swept.successors, swept.chances
    sums[:] = 0.0
    for h in range(horizon):
        after[:] = 0.0
        for pair in range(n_pairs):
            mass, row = here[rows.states[pair]] * policy[h, pair], pair + h * rows.step
            occupancy[h, pair] = mass
            if mass > 0.0:
                first, size = row * rows.successors.shape[1], rows.length[row]
                if extended:
                    first, size = swept.place[h, pair], swept.length[h, pair]
                for x in range(n_signals):
                    sums[x] += mass * signals[h, pair, x]
                for k in range(first, first + size):
                    after[successors[k]] += mass * chances[k]
        here, after = after, here
