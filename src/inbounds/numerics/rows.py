"""The one compiled view of a model's moves, and the Markov chain that a policy makes of them.

Indices are unsigned, in compiled loops too: Python's negative ones would cost a test of the sign at every access, which
doubles the time of a sweep over a chain that fits the cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled


class Rows(NamedTuple):
    """The moves of a model: a row of next states and their probabilities for every pair. Nothing is copied."""

    offsets: Ints  # [S + 1], state s owns pairs offsets[s] : offsets[s + 1]
    starts: Any  # int [n + 1], where the row of a pair starts in the next two
    targets: Any  # unsigned int [nnz]
    probabilities: Floats  # [nnz]


class Chain(NamedTuple):
    """The rows of a policy's transition matrix, times a discount, in compressed form; a row may name a target twice."""

    starts: Any  # int [S + 1]
    targets: Any  # unsigned int [nnz]
    weights: Floats  # [nnz], discount * probability


def rows_of(offsets: Ints, transition: Any) -> Rows:
    """The moves in a CSR array [n, S]."""
    return Rows(offsets, transition.indptr, unsigned(transition.indices), transition.data)


def unsigned(indices: Any) -> Any:
    """The same memory, read as unsigned integers."""
    return indices.view(np.uint32 if indices.dtype.itemsize == 4 else np.uint64)


def longest_row(rows: Rows) -> int:
    """The most next states of any pair."""
    return int(np.diff(rows.starts).max())


def chosen_chain(rows: Rows, chosen: Ints, discount: float) -> Chain:
    """The chain of the policy that always takes pair ``chosen[s]`` in state ``s``."""
    return _chain_of(rows, chosen, np.full(len(chosen), discount))


def mixed_chain(rows: Rows, taken: Floats, discount: float) -> Chain:
    """The chain of the policy that takes each pair with probability `taken` [n]."""
    pairs = np.flatnonzero(taken != 0.0)
    return _chain_of(rows, pairs, discount * taken[pairs])


@compiled
def _chain_of(rows: Rows, pairs: Ints, shares: Floats) -> Chain:
    """The rows of the given pairs, in increasing order, each times its share."""
    starts, offsets = rows.starts, rows.offsets
    size = 0
    for pair in pairs:
        size += starts[pair + 1] - starts[pair]
    new_starts = np.empty(offsets.shape[0], dtype=starts.dtype)
    new_targets, weights = np.empty(size, dtype=rows.targets.dtype), np.empty(size)
    new_starts[0] = 0
    s, at = 0, np.uint64(0)
    for i in range(pairs.shape[0]):
        pair, share = pairs[i], shares[i]
        while offsets[s + 1] <= pair:
            s += 1
            new_starts[s] = at
        entry, end = np.uint64(starts[pair]), np.uint64(starts[pair + 1])
        while entry < end:
            new_targets[at] = rows.targets[entry]
            weights[at] = share * rows.probabilities[entry]
            entry += np.uint64(1)
            at += np.uint64(1)
    for state in range(s + 1, offsets.shape[0]):
        new_starts[state] = at
    return Chain(new_starts, new_targets, weights)


@compiled
def lazy_chain(chain: Chain, move: float) -> Chain:
    """The chain that stays where it is with probability 1 - `move`, else moves; `chain` has the weights move * P."""
    n_states = chain.starts.shape[0] - 1
    new_starts = np.empty(n_states + 1, dtype=chain.starts.dtype)
    new_targets = np.empty(chain.targets.shape[0] + n_states, dtype=chain.targets.dtype)
    weights = np.empty(chain.targets.shape[0] + n_states)
    new_starts[0] = 0
    entry, at = np.uint64(0), np.uint64(0)
    for s in range(n_states):
        end = np.uint64(chain.starts[s + 1])
        new_targets[at] = s
        weights[at] = 1.0 - move
        at += np.uint64(1)
        while entry < end:
            new_targets[at] = chain.targets[entry]
            weights[at] = chain.weights[entry]
            entry += np.uint64(1)
            at += np.uint64(1)
        new_starts[s + 1] = at
    return Chain(new_starts, new_targets, weights)


@compiled
def row_times(starts: Any, targets: Any, weights: Floats, row: int, x: Floats) -> Any:
    """The product of one row of a matrix in compressed form with the vector `x`."""
    total = 0.0
    entry, end = np.uint64(starts[row]), np.uint64(starts[row + 1])
    while entry < end:
        total += weights[entry] * x[targets[entry]]
        entry += np.uint64(1)
    return total
