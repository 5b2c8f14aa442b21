"""Compiled arithmetic of algorithms: softmax rows and their entropy, AdaGrad, the sum tree, projections.

Everything is a scalar loop over arrays: the compiled code and the same code run by Python give the same bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled

FIRST_STARTS = 1_000
"""Draws of a start, which are free, before the first sample, where the distribution of starts is estimated; then one
with every sample."""

FIRST_SQUARE = 0.01
"""AdaGrad's G at the start."""

LOG_FAN_OUT = 3
FAN_OUT = 1 << LOG_FAN_OUT
"""Children of a node of the sum tree: their sums fill one cache line. `node_sum` adds up exactly so many."""

# Of multiplicative updates: exp( step * (signal - M) ).
BASELINE_RATE = 1e-3
"""Of the running mean of the signals that takes the place of M in practical presets."""
LARGEST_EXPONENT = 20.0
"""Of one update, against overflow; without M the exponent has no upper bound."""
SMALLEST_WEIGHT = 1e-250
"""Weights never reach zero on paper, nor may they in floating point."""


@compiled
def clear(values: Floats) -> None:
    """Set every entry [m] to zero."""
    for k in range(values.shape[0]):
        values[k] = 0


@compiled
def grown(weight: float, exponent: float) -> float:
    """A weight after one multiplicative update."""
    # math.exp, not np.exp: NumPy's own exponential differs from the compiled one in the last bit.
    return max(weight * math.exp(min(exponent, LARGEST_EXPONENT)), SMALLEST_WEIGHT)


@compiled
def softmax_row(logits: Floats, policy: Floats, first: int, last: int) -> None:
    """The policy of one state, pairs `first` to `last` - 1, from its logits, whose largest becomes 0."""
    largest = logits[first]
    for k in range(first + 1, last):
        largest = max(largest, logits[k])
    total = 0.0
    for k in range(first, last):
        logits[k] -= largest
        policy[k] = math.exp(logits[k])
        total += policy[k]
    for k in range(first, last):
        policy[k] /= total


@compiled
def row_entropy(policy: Floats, first: int, last: int) -> float:
    """The entropy of the choice of one state, between the pairs `first` to `last` - 1."""
    entropy = 0.0
    for k in range(first, last):
        if policy[k] > 0.0:
            entropy -= policy[k] * math.log(policy[k])
    return entropy


@compiled
def adaptive_step(squares: Floats, i: int, slope: float, rate: float) -> float:
    """AdaGrad's step of entry i: the rate over the root of the sum of its squared slopes so far, `squares` [m]."""
    squares[i] += slope * slope
    return rate / math.sqrt(squares[i])


# The sum tree: weights, the sums of every FAN_OUT of them, the sums of every FAN_OUT of those, ... up to a single node.
# All levels lie in one array, the weights first, each level padded with zeros to whole nodes; `levels` holds where
# each starts. A sum is always recomputed from its children, never updated by a difference, so it does not drift.


def tree_levels(n: int) -> Ints:
    """Where each level of a tree over `n` weights starts, and last the length of the whole array."""
    starts = [0]
    while True:
        n = -(-n // FAN_OUT)
        starts.append(starts[-1] + n * FAN_OUT)
        if n == 1:
            return np.array(starts, dtype=np.int64)


def new_tree(levels: Ints) -> Floats:
    """Zeros, aligned so that every node fills exactly one cache line."""
    raw = np.zeros(int(levels[-1]) + FAN_OUT)
    first = -(raw.ctypes.data // raw.itemsize) % FAN_OUT
    return raw[first : first + int(levels[-1])]


def uniform_tree(levels: Ints, n: int) -> Floats:
    """The tree over `n` weights of 1 / n."""
    tree = new_tree(levels)
    tree[:n] = 1.0 / n
    tree_rebuild(tree, levels)
    return tree


@compiled
def node_sum(tree: Floats, first: int) -> float:
    """The sum of one node's children, in a fixed order that the processor can overlap."""
    return ((tree[first] + tree[first + 1]) + (tree[first + 2] + tree[first + 3])) + (
        (tree[first + 4] + tree[first + 5]) + (tree[first + 6] + tree[first + 7])
    )


@compiled
def tree_total(tree: Floats, levels: Ints) -> float:
    return node_sum(tree, levels[levels.shape[0] - 2])


@compiled
def tree_rebuild(tree: Floats, levels: Ints) -> None:
    """Recompute every sum from the weights."""
    for level in range(levels.shape[0] - 2):
        start, above = levels[level], levels[level + 1]
        for node in range((above - start) // FAN_OUT):
            tree[above + node] = node_sum(tree, start + node * FAN_OUT)


@compiled
def tree_normalise(tree: Floats, levels: Ints, n: int, total: float) -> float:
    """Divide the `n` weights by their total; the new one, which is 1 up to rounding."""
    for k in range(n):
        tree[k] = max(tree[k] / total, SMALLEST_WEIGHT)
    tree_rebuild(tree, levels)
    return tree_total(tree, levels)


@compiled
def tree_set(tree: Floats, levels: Ints, k: int, weight: float) -> None:
    """Set weight `k` and recompute the sums above it."""
    tree[k] = weight
    for level in range(levels.shape[0] - 2):
        k >>= LOG_FAN_OUT
        tree[levels[level + 1] + k] = node_sum(tree, levels[level] + k * FAN_OUT)


@compiled
def tree_find(tree: Floats, levels: Ints, n: int, x: float) -> int:
    """The k with weights[0] + ... + weights[k-1] <= x < weights[0] + ... + weights[k], for 0 <= x < total."""
    k = 0
    for level in range(levels.shape[0] - 2, -1, -1):
        first = levels[level] + k * FAN_OUT
        # Branches, although they are hard to guess: a right guess fetches the next level before this one has arrived.
        child = 0
        while child < FAN_OUT - 1 and x >= tree[first + child]:
            x -= tree[first + child]
            child += 1
        # Rounding can carry x past the last weight; the nodes below the padding do not exist.
        k = min(k * FAN_OUT + child, (n - 1) >> (LOG_FAN_OUT * level))
    return k


@compiled
def draw_mixed(tree: Floats, levels: Ints, n: int, share: float, total: float, rng: np.random.Generator) -> int:
    """An index below `n`: with probability `share` any of them, otherwise in proportion to the tree's weights."""
    x = rng.random()
    if x < share:
        return min(int(x / share * n), n - 1)
    return tree_find(tree, levels, n, (x - share) / (1.0 - share) * total)


@compiled
def account_value(values: Floats, state: int, averaged: int) -> None:
    """Bring the sum of one state's value up to date, before the value changes.

    `values` [S, 3]: the value; its sum over the steps accounted for; how many those are, of the `averaged` so far.
    """
    values[state, 1] += values[state, 0] * (averaged - values[state, 2])
    values[state, 2] = averaged


def average_values(state: Any) -> Floats:
    """The average value of each state over the steps averaged so far, [S]."""
    values, sums, accounted = state.values.T
    return (sums + values * (state.steps[1] - accounted)) / state.steps[1]


@compiled
def project_prices(prices: Floats, radius: float) -> None:
    """Euclidean projection onto { u >= 0, sum(u) <= radius }, in place.

    Clip at zero; if the sum is then too large, the nearest point is on the simplex of that radius.
    """
    total = 0.0
    for k in range(prices.shape[0]):
        if prices[k] < 0.0:
            prices[k] = 0.0
        total += prices[k]
    if total > radius:
        project_simplex(prices, 0, prices.shape[0], radius)


@compiled
def project_simplex(values: Floats, first: int, last: int, radius: float) -> None:
    """Euclidean projection of the entries `first` to `last` - 1 onto { x >= 0, sum(x) = radius }, in place.

    The nearest point is max(x - threshold, 0), found by raising the threshold until it agrees with the entries that
    stay positive; each round leaves out at least one more of them.
    """
    total = 0.0
    for k in range(first, last):
        total += values[k]
    positive = last - first
    threshold = (total - radius) / positive
    while True:
        total = 0.0
        count = 0
        for k in range(first, last):
            if values[k] > threshold:
                total += values[k]
                count += 1
        if count == 0 or count >= positive:  # more, or none, by rounding only: an entry equals the threshold
            break
        positive = count
        threshold = (total - radius) / count
    for k in range(first, last):
        values[k] = max(values[k] - threshold, 0.0)
