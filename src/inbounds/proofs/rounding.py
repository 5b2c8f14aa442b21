"""The bounds C1 and C2 of `inbounds.proofs.known_model` in floating point, with every rounding error bounded.

Each number is computed from the differences w(s') - w(s), because they are small where reach = d / (1 - d) is large: a
discounted value function is constant up to terms of the order 1 - d. For the same reason those vectors are centred,
<rho, w> = 0 up to rounding.

With round to nearest every operation of floating point gives the true result times (1 + e), |e| <= u = 2^-53, or, when
it underflows, plus at most 2^-1075. So a computed sum of products differs from the true one by at most

    N u / (1 - N u)  *  (the same sum with every term replaced by its magnitude)    + underflow,

where N is the largest number of operations that any one term goes through (Higham 2002, section 3.1). In a row of L
successors, in a state with A actions of positive probability and K constraints, a term takes

    the difference, the product, L - 1 additions, the division by the row's sum, which itself took L - 1 additions, the
    product with reach, itself of two roundings, the sum of the parts, the product with pi, A - 1 additions, the
    division by the sum of pi, itself of A - 1 additions: 2 L + 2 A + 6;  a margin is a difference, of a bound that was
    divided by the number of layers: 2 more;  and K + 1 products and additions more with prices, without the part of pi.

The kernels take N = 2 (L + A + K) + 16 and allow 2 N u times the computed magnitudes plus N * 1e-300, which covers the
rounding of the magnitudes and of the allowance itself, as N u < 2^-20 for any model that fits a machine. Where all that
is added up is zero, so is the sum: nothing is allowed for, and a margin of exactly zero is proved. The magnitude
of a margin is taken as that of its signal plus that of its bound, so that a difference that cancels is allowed for. An
operation that is fused with the next loses a rounding and keeps the bound. Initial sums are by `math.fsum`, correctly
rounded. Where anything overflows, the result is that nothing is proved.

What one operation loses to underflow, 2^-1075, may be multiplied afterwards by the reach, at most 2^53, which 1e-300
covers by far. By a price, which may be any double, only one such loss is multiplied: that of a bound that was divided
by the number of layers. So 1e-300 is added to the magnitude of such a bound, unless it is zero: 2 N u price 1e-300 is
more than price 2^-1075, and a bound of which division leaves nothing is not taken for zero.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from inbounds.arrays import Floats
from inbounds.criteria import criterion_of
from inbounds.exact.optimum import flat_margins
from inbounds.numerics.bellman import UNIT
from inbounds.numerics.compiled import compiled, interpreted
from inbounds.numerics.rows import Rows
from inbounds.problem.cmdp import CMDP
from inbounds.proofs.progress import Count

UNDERFLOW = 1e-300
"""Far more than one operation can lose to underflow."""

_INTERPRETED_ENTRIES = 100
"""Up to this many the kernels are run by Python: a millisecond, where compiling them takes seconds."""


def signals_of(cmdp: CMDP) -> Floats:
    """The reward and the margins over entries, [1 + K, N]."""
    return np.vstack([cmdp.reward.reshape(1, -1), flat_margins(cmdp)])


def rounded_lowers(cmdp: CMDP, taken: Floats, vectors: Floats, count: Count | None = None) -> list[float]:
    lowers = []
    with np.errstate(all="ignore"):
        for gain, size, vector in zip(signals_of(cmdp), _magnitudes(cmdp), vectors, strict=True):
            shifts = [-residual for residual in _in_layers(cmdp, lower_residual, vector, taken, gain, size)]
            lowers.append(-_shifted(cmdp, -vector, shifts))
            if count is not None:
                count.add()
    return [lower + 0.0 for lower in lowers]  # no minus zero


def rounded_upper(cmdp: CMDP, prices: Floats, values: Floats, reward_weight: float) -> float:
    weights = np.append(reward_weight, prices)
    with np.errstate(all="ignore"):
        gain, size = (np.einsum("k,kn->n", weights, parts) for parts in (signals_of(cmdp), _magnitudes(cmdp)))
        return _shifted(cmdp, values, _in_layers(cmdp, upper_excess, values, gain, size, len(prices)))


@compiled
def lower_residual(rows, policy, gain, size, here, there, own, reach):  # type: ignore[no-untyped-def]
    """A number that min_s residual(s) in one layer certainly exceeds, for `gain` [n]; NaN on overflow.

    The least is over states where `policy` [n] is not zero at all pairs (`vectors.visited_part`). `here` [S] is the
    vector at the layer's places, `there` [S] where its moves lead; `size` [n] are the magnitudes of what the gain is
    the sum of.
    """
    least = np.inf
    for state in range(len(rows.offsets) - 1):
        at = here[state]
        total, magnitude, weight, operations, anything = 0.0, 0.0, 0.0, 16, abs(at)
        for pair in range(rows.offsets[state], rows.offsets[state + 1]):
            if policy[pair] == 0.0:
                continue
            row, row_size, row_weight = 0.0, 0.0, 0.0
            for entry in range(rows.starts[pair], rows.starts[pair + 1]):
                probability = rows.probabilities[entry]
                difference = there[rows.targets[entry]] - at
                row += probability * difference
                row_size += probability * abs(difference)
                row_weight += probability
                anything += abs(difference)
            anything += size[pair]
            total += policy[pair] * (gain[pair] - own * at + reach * (row / row_weight))
            magnitude += policy[pair] * (size[pair] + own * abs(at) + reach * (row_size / row_weight))
            weight += policy[pair]
            length = rows.starts[pair + 1] - rows.starts[pair]
            operations = max(operations, 2 * length + 16)
        if weight == 0.0:  # the policy never comes here
            continue
        operations += 2 * (rows.offsets[state + 1] - rows.offsets[state])
        lost = 2.0 * UNIT * (magnitude / weight) + (UNDERFLOW if anything > 0.0 else 0.0)
        residual = total / weight - operations * lost
        if not residual >= least:  # so that a NaN gets through
            least = residual
            if residual != residual:
                return least
    return least


@compiled
def upper_excess(rows, gain, size, n_prices, here, there, own, reach):  # type: ignore[no-untyped-def]
    """A number that certainly exceeds excess(s, a) at every pair of one layer; NaN on overflow.

    `gain` [n] is the reward with `n_prices` priced margins, `size` [n] the same sum of magnitudes.
    """
    largest = -np.inf
    for state in range(len(rows.offsets) - 1):
        at = here[state]
        for pair in range(rows.offsets[state], rows.offsets[state + 1]):
            row, row_size, row_weight = 0.0, 0.0, 0.0
            for entry in range(rows.starts[pair], rows.starts[pair + 1]):
                probability = rows.probabilities[entry]
                difference = there[rows.targets[entry]] - at
                row += probability * difference
                row_size += probability * abs(difference)
                row_weight += probability
            magnitude = size[pair] + own * abs(at) + reach * (row_size / row_weight)
            operations = 2 * (rows.starts[pair + 1] - rows.starts[pair] + n_prices) + 16
            excess = gain[pair] - own * at + reach * (row / row_weight)
            excess += operations * (2.0 * UNIT * magnitude + UNDERFLOW)
            if not excess <= largest:  # so that a NaN gets through
                largest = excess
                if excess != excess:
                    return largest
    return largest


_by_python = cache(interpreted)


def _in_layers(cmdp: CMDP, kernel: Any, y: Floats, *arguments: Any) -> list[float]:
    """What a kernel says of each layer, given vectors over entries and plain numbers.

    For few entries it is run by Python, on lists, which Python reads three times as fast as arrays.
    """
    criterion, found = criterion_of(cmdp), []
    small = cmdp.reward.size <= _INTERPRETED_ENTRIES
    for layer, here, there in criterion.steps(y):
        own = [a[layer.entries] if isinstance(a, np.ndarray) else a for a in arguments]
        vectors: list[Any] = [layer.rows, *own, here, there, criterion.own, criterion.reach]
        if small:
            rows = Rows(*(column.tolist() for column in layer.rows))
            vectors = [rows, *(v.tolist() if isinstance(v, np.ndarray) else v for v in vectors[1:])]
        try:
            found.append((_by_python(kernel) if small else kernel)(*vectors))
        except (ZeroDivisionError, OverflowError):  # which compiled code says with infinities
            found.append(math.nan)
    return found


def _magnitudes(cmdp: CMDP) -> Floats:
    """Of the reward and of the margins [1 + K, N]: what rounding is relative to.

    A bound that is spread over several layers is rounded before it is subtracted, and counts by itself; by more than
    zero, though it may underflow.
    """
    sizes = np.abs(signals_of(cmdp))
    if cmdp.layers > 1:
        bounds = np.array([constraint.bound for constraint in cmdp.constraints])
        sizes[1:] += np.where(bounds == 0.0, 0.0, np.abs(bounds / cmdp.layers) + UNDERFLOW)[:, None]
    return sizes


def _shifted(cmdp: CMDP, vector: Floats, shifts: list[float]) -> float:
    """A number that certainly exceeds start <rho, vector_0> + the sum of `shifts`; infinite on overflow."""
    criterion = criterion_of(cmdp)
    with np.errstate(all="ignore"):
        first = vector[criterion.layers[0].places]
        weighted = criterion.start * cmdp.initial * first
    if not (np.all(np.isfinite(weighted)) and all(map(math.isfinite, shifts))):
        return math.inf
    mass = math.fsum(cmdp.initial)
    try:
        start = math.fsum(weighted) / mass
        size = math.fsum(np.abs(weighted)) / mass
        shift = math.fsum(shifts)
    except OverflowError:
        return math.inf
    # Two products, correctly rounded sums and a division: 6 roundings of `start`; 3 of `shift` and of the sum.
    allowance = 16.0 * UNIT * (size + abs(shift))
    if size > 0.0 or (criterion.start and np.any(first[cmdp.initial > 0.0])):
        allowance += 2.0 * cmdp.n_states * UNDERFLOW
    bound = start + shift + allowance
    return bound if math.isfinite(bound) else math.inf
