"""What depends on the next state, averaged over it: a number per transition (s, a, s') as one per pair (s, a).

Every value is an expectation, so a reward or a signal r(s, a, s') and its mean over s' give the same values, prices and
policies. A simulator of the model reports the mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from inbounds.arrays import Floats
from inbounds.errors import InvalidInput
from inbounds.inputs import LARGEST_NUMBER, SOUND, float_array, require_places
from inbounds.problem.pairs import Pairs


def mean_over(probabilities: Floats, values: Floats, row_starts: Any) -> Floats:
    """The mean of each row, [n], of entries row by row: from the least of its values to the most.

    >>> mean_over(np.array([0.1, 0.2, 0.7, 1.0]), np.array([0.3, 0.3, 0.3, 5.0]), np.array([0, 3, 4])).tolist()
    [0.3, 5.0]
    """
    first = row_starts[:-1]
    lowest, highest = np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)
    return np.clip(np.add.reduceat(probabilities * values, first), lowest, highest)


def marginal(values: Any, transition: Any, pairs: Pairs, what: str) -> Any:
    """A sparse array [n, S], a number per transition, as one per pair [n]; of several stages, [H, n]; others as given.

    Entries where the transition has none do not count.
    """
    staged = isinstance(values, tuple | list) and len(values) > 0 and all(sp.issparse(stage) for stage in values)
    if not staged and not sp.issparse(values):
        return values
    moves = transition if isinstance(transition, tuple) else (transition,)
    if staged and len(values) != len(moves):
        raise InvalidInput(f"{what} has {len(values)} stages, the problem has {len(moves)}")
    if not staged and all(stage is moves[0] for stage in moves):
        return _mean_over_next(values, moves[0], pairs, what)
    stages = values if staged else [values] * len(moves)
    return np.array([_mean_over_next(own, rows, pairs, what) for own, rows in zip(stages, moves, strict=True)])


def _mean_over_next(values: Any, rows: Any, pairs: Pairs, what: str) -> Floats:
    if values.shape != rows.shape:
        raise InvalidInput(
            f"{what} must have {pairs.n_pairs} entries, one per pair, or be sparse of shape [n, S] = {rows.shape}, one "
            f"per transition, found shape {values.shape}"
        )
    require_places(values, what)
    of_pair = np.repeat(np.arange(pairs.n_pairs), np.diff(rows.indptr))
    entries = float_array(np.asarray(sp.csr_array(values)[of_pair, rows.indices]).ravel(), what)
    bad = ~(np.abs(entries) <= LARGEST_NUMBER)
    if np.any(bad):
        place = int(np.argmax(bad))
        successor = pairs.state_label(int(rows.indices[place]))
        raise InvalidInput(
            f"{pairs.describe(int(of_pair[place]))}, next state {successor!r}: {what} is {entries[place]}; "
            f"it must be {SOUND}"
        )
    return mean_over(rows.data, entries, rows.indptr)
