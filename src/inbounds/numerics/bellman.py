"""One sweep of the Bellman operator over all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled
from inbounds.numerics.rows import Rows, row_times

UNIT = 2.0**-53
"""The largest relative error of one rounding."""

NO_BACKUPS: Floats = np.empty(0)


@compiled
def improve(
    rows: Rows, discount: float, stage: Floats, value: Floats, backed: Floats, chosen: Ints, backups: Floats
) -> Any:
    """One sweep over all pairs: backed = T value, `chosen` greedy; the least and the largest of T value - value.

    T value (s) is the largest of stage(s, a) + discount * E[value of the next state]. A state keeps the pair it has
    when no other is strictly better. What each pair is worth goes into `backups`, unless that is empty.
    """
    keep_backups = backups.shape[0] > 0
    low, high = np.inf, -np.inf
    for s in range(value.shape[0]):
        keep = chosen[s]
        best, best_pair = -np.inf, keep
        for pair in range(rows.offsets[s], rows.offsets[s + 1]):
            backup = stage[pair] + discount * row_times(rows.starts, rows.targets, rows.probabilities, pair, value)
            if keep_backups:
                backups[pair] = backup
            # A branch would be guessed wrong in every state; here and below.
            better = (backup > best) | ((backup == best) & (pair == keep))
            best, best_pair = backup if better else best, pair if better else best_pair
        chosen[s], backed[s] = best_pair, best
        change = best - value[s]
        low, high = change if change < low else low, change if change > high else high
    return low, high


def rounding_of_sweep(longest: int, largest: float, value: Floats) -> float:
    """A bound on the rounding error of one entry of T V - V, and of a mean over the initial distribution.

    `longest` is the most next states of any pair, `largest` the largest absolute stage reward.
    """
    return (longest + 64) * UNIT * (largest + float(np.abs(value).max()))
