"""The Markov chain of a policy: its rows, and the discounted time it spends in each state.

With weights w(s, s') = discount * P_policy(s' | s), the time per state x [S] solves the flow equations

    x(s') = (1 - discount) * initial(s') + sum_s x(s) w(s, s').

They are solved by repeating the right-hand side, which any error survives with at most `discount` of its size and, when
the chain mixes fast, with far less; or, when that is slow and the graph of the problem allows it, by elimination (see
`inbounds.model.elimination`). The change d = |x_new - x|_1 of the last repetition bounds what is missing: the distance
of x_new from the solution is at most d * discount / (1 - discount) in the sum of absolute values.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.compiled import compiled

_ROUNDING = 1e-15
"""A change of the total time (which is 1) that rounding alone can cause."""


class Chain(NamedTuple):
    """The rows of a policy's transition matrix, times the discount, in compressed form.

    Indices are unsigned, in compiled loops too: Python's negative ones would cost a test of the sign at every access,
    which doubles the time of a sweep over a chain that fits the cache.
    """

    starts: Any  # int [S + 1]
    targets: Any  # unsigned int [nnz]
    weights: Floats  # [nnz], discount * probability


def unsigned(indices: Any) -> Any:
    """The same memory, read as unsigned integers."""
    return indices.view(np.uint32 if indices.dtype.itemsize == 4 else np.uint64)


def deterministic_chain(starts: Any, targets: Any, probabilities: Floats, chosen: Ints, discount: float) -> Chain:
    """The chain of the policy that always takes pair ``chosen[s]`` in state ``s``, from the rows of all pairs."""
    return Chain(*_chosen_rows(starts, targets, probabilities, chosen, discount))


def mixed_chain(
    starts: Any, targets: Any, probabilities: Floats, offsets: Ints, taken: Floats, discount: float
) -> Chain:
    """The chain of the policy that takes each pair with probability `taken` [n]; a row may name a target twice."""
    return Chain(*_mixed_rows(starts, targets, probabilities, offsets, taken, np.flatnonzero(taken != 0.0), discount))


@compiled
def _chosen_rows(starts: Any, targets: Any, probabilities: Floats, chosen: Ints, discount: float) -> Any:
    n_states = chosen.shape[0]
    new_starts = np.empty(n_states + 1, dtype=starts.dtype)
    new_starts[0] = 0
    for s in range(n_states):
        new_starts[s + 1] = new_starts[s] + starts[chosen[s] + 1] - starts[chosen[s]]
    new_targets = np.empty(new_starts[n_states], dtype=targets.dtype)
    weights = np.empty(new_starts[n_states])
    at = np.uint64(0)
    for pair in chosen:
        entry, end = np.uint64(starts[pair]), np.uint64(starts[pair + 1])
        while entry < end:
            new_targets[at] = targets[entry]
            weights[at] = discount * probabilities[entry]
            entry += np.uint64(1)
            at += np.uint64(1)
    return new_starts, new_targets, weights


@compiled
def _mixed_rows(
    starts: Any, targets: Any, probabilities: Floats, offsets: Ints, taken: Floats, pairs: Ints, discount: float
) -> Any:
    size = 0
    for pair in pairs:
        size += starts[pair + 1] - starts[pair]
    new_starts = np.empty(offsets.shape[0], dtype=starts.dtype)
    new_targets, weights = np.empty(size, dtype=targets.dtype), np.empty(size)
    new_starts[0] = 0
    s, at = 0, np.uint64(0)
    for pair in pairs:
        while offsets[s + 1] <= pair:
            s += 1
            new_starts[s] = at
        share = discount * taken[pair]
        entry, end = np.uint64(starts[pair]), np.uint64(starts[pair + 1])
        while entry < end:
            new_targets[at] = targets[entry]
            weights[at] = share * probabilities[entry]
            entry += np.uint64(1)
            at += np.uint64(1)
    new_starts[s + 1 :] = at
    return new_starts, new_targets, weights


def iterate_flow(
    chain: Chain, initial: Floats, discount: float, tolerance: float, start: Floats | None = None
) -> Floats:
    """Time per state [S] up to `tolerance` in the sum of absolute values, or as rounding allows.

    It begins from `start`, a distribution over states [S]; by default `initial`.
    """
    x = (initial if start is None else start).copy()
    flow_sweeps(chain, initial, discount, x, tolerance)
    return x


def flow_sweeps(
    chain: Chain, initial: Floats, discount: float, x: Floats, tolerance: float, most: int | None = None
) -> float:
    """Improve the time per state `x` [S] in place, by at most `most` sweeps; what the last sweep changed.

    0.0 when `x` is within `tolerance`.
    """
    # From one distribution to another the distance is at most 2, and every sweep shrinks it by the discount.
    enough = 1 if discount == 0.0 else math.ceil(math.log(tolerance / 2.0) / math.log(discount)) + 1
    goal = tolerance if discount == 0.0 else max(tolerance * (1.0 - discount) / discount, _ROUNDING)
    sweeps = enough if most is None else min(most, enough)
    change = repeat_flow(chain, (1.0 - discount) * initial, x, goal, sweeps)
    return 0.0 if change <= goal or sweeps == enough else float(change)


@compiled
def repeat_flow(chain: Chain, source: Floats, x: Floats, tolerance: float, most: int) -> Any:
    """Repeat x <- source + weights^T x in place until it changes by at most `tolerance`, or `most` times."""
    n_states = x.shape[0]
    new = np.empty(n_states)
    change = np.inf
    sweeps = 0
    while sweeps < most and change > tolerance:
        for s in range(n_states):
            new[s] = source[s]
        entry = np.uint64(0)
        for s in range(n_states):
            mass, end = x[s], np.uint64(chain.starts[s + 1])
            while entry < end:
                new[chain.targets[entry]] += mass * chain.weights[entry]
                entry += np.uint64(1)
        change = _distance(x, new)
        for s in range(n_states):
            x[s] = new[s]
        sweeps += 1
    return change


@compiled
def _distance(x: Floats, y: Floats) -> Any:
    """The sum of absolute differences, as four sums that do not wait for each other."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = x.shape[0] - x.shape[0] % 4
    for i in range(0, whole, 4):
        a += abs(x[i] - y[i])
        b += abs(x[i + 1] - y[i + 1])
        c += abs(x[i + 2] - y[i + 2])
        d += abs(x[i + 3] - y[i + 3])
    for i in range(whole, x.shape[0]):
        a += abs(x[i] - y[i])
    return (a + b) + (c + d)


@compiled
def row_times(starts: Any, targets: Any, weights: Floats, row: int, x: Floats) -> Any:
    """The product of one row of a matrix in compressed form with the vector `x`."""
    total = 0.0
    entry, end = np.uint64(starts[row]), np.uint64(starts[row + 1])
    while entry < end:
        total += weights[entry] * x[targets[entry]]
        entry += np.uint64(1)
    return total
