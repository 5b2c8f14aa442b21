"""Sweeps over the chain of a policy: the discounted time that it spends in each state, and the values of a reward.

With weights w(s, s') = discount * P_policy(s' | s), the time per state x [S] solves the flow equations

    x(s') = (1 - discount) * initial(s') + sum_s x(s) w(s, s').

They are solved by repeating the right-hand side, which any error survives with at most `discount` of its size and, when
the chain mixes fast, with far less. Where that is slow, sweeps are combined (`combined_sweeps`), or, if the graph of
the problem allows it, the equations are solved by elimination (see `inbounds.numerics.elimination`). The change
d = |x_new - x|_1 of the last sweep bounds what is missing: the distance of x_new from the solution is at most
d * discount / (1 - discount) in the sum of absolute values.

Without a discount and a source, the same sweeps lead to a stationary distribution of the chain (`settle_flow`). Nothing
then bounds what is missing but the rate at which it was seen to shrink; and of a part of the chain that is hardly ever
left they see nothing, if they begin there: see `inbounds.numerics.stationary`.

No sweep is waited for: each loop ends when a change is not larger than its goal (which what is not a number is not
either), after a number of sweeps that is known before, or at a `deadline`, a time of ``time.monotonic()``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from inbounds.arrays import Floats
from inbounds.numerics.compiled import compiled
from inbounds.numerics.rows import Chain, row_times

_ROUNDING = 1e-15
"""A change of the total time (which is 1) that rounding alone can cause."""

TRIAL_SWEEPS = 15
"""How many sweeps lie between the two changes that `is_slow` compares."""

_FAST = 0.8
"""Sweeps that contract by this much or more are left alone."""

_FAST_SWEEPS = 120
"""So many of them settle anything; where they do not, the chain was slow after all."""

_VALUE_SWEEPS = 200
"""`improve_values` makes no more than about so many."""

_CYCLE = 10
"""How many sweeps are combined."""

_AT_HAND = 256
"""States whose changes are multiplied with each other before the next ones are: they fit into the nearest cache."""

_SETTLED = 1e-14
"""A change of the total time by so little is rounding, whatever was aimed at."""


def is_over(deadline: float | None) -> bool:
    """Whether a time of ``time.monotonic()`` has come; None never comes."""
    return deadline is not None and time.monotonic() >= deadline


def is_slow(early: float, late: float) -> bool:
    """Whether a chain mixes slowly, by how much a sweep changed, and how much `TRIAL_SWEEPS` later."""
    return late > early * _FAST**TRIAL_SWEEPS


def iterate_flow(
    chain: Chain, initial: Floats, discount: float, tolerance: float, most: int, start: Floats | None = None
) -> tuple[Floats, bool]:
    """Time per state [S] up to `tolerance` in the sum of absolute values, or as rounding allows; whether it is that.

    It begins from `start`, a distribution over states [S]; by default `initial`. About `most` sweeps that contract
    slowly are made, plain or combined: at discounts close to 1 the number that suffices for certain is astronomical.
    """
    x = (initial if start is None else start).copy()
    early = flow_sweeps(chain, initial, discount, x, tolerance, most=TRIAL_SWEEPS)
    late = 0.0 if early == 0.0 else flow_sweeps(chain, initial, discount, x, tolerance, most=TRIAL_SWEEPS)
    if late > 0.0 and not is_slow(early, late):
        late = flow_sweeps(chain, initial, discount, x, tolerance, most=_FAST_SWEEPS)
    if late == 0.0:
        return x, True
    (enough, goal), source = _enough(discount, tolerance), (1.0 - discount) * initial
    settled = combined_sweeps(lambda old, new: _flow_sweep(chain, source, old, new), x, goal, min(enough, most))
    if not settled:
        change = repeat_flow(chain, source, x, goal, min(enough, most))
        settled = bool(enough <= most or change <= max(goal, _SETTLED))
    return np.maximum(x, 0.0), settled


def flow_sweeps(chain: Chain, initial: Floats, discount: float, x: Floats, tolerance: float, most: int) -> float:
    """Improve the time per state `x` [S] in place, by at most `most` sweeps; what the last sweep changed.

    0.0 when `x` is within `tolerance`.
    """
    enough, goal = _enough(discount, tolerance)
    sweeps = min(most, enough)
    change = repeat_flow(chain, (1.0 - discount) * initial, x, goal, sweeps)
    return 0.0 if change <= goal or sweeps == enough else float(change)


def _enough(discount: float, tolerance: float) -> tuple[int, float]:
    """How many plain sweeps lead within `tolerance`, and a change of one sweep that says so earlier."""
    if discount == 0.0:
        return 1, tolerance
    # From one distribution to another the distance is at most 2, and every sweep shrinks it by the discount.
    sweeps = math.ceil(math.log(max(tolerance / 2.0, 5e-324)) / math.log(discount)) + 1
    return sweeps, max(tolerance * (1.0 - discount) / discount, _ROUNDING)


def settle_flow(chain: Chain, x: Floats, accuracy: float, rounding: float, most: int) -> bool:
    """Make the distribution `x` [S] stationary in place, up to about `accuracy` in the sum of absolute values.

    The chain has no discount and no period. Whether about `most` sweeps sufficed; `rounding` is what rounding alone can
    change in one.
    """
    nowhere, changes = np.zeros(len(x)), []
    for _ in range(2):
        changes.append(float(repeat_flow(chain, nowhere, x, rounding, TRIAL_SWEEPS)))
        if not changes[-1] > rounding:
            return True
    early, late = changes
    goal = max(accuracy * (1.0 - min(late / early, 1.0 - 1e-9) ** (1.0 / TRIAL_SWEEPS)), rounding)
    if late > goal and not is_slow(early, late):
        late = float(repeat_flow(chain, nowhere, x, goal, _FAST_SWEEPS))
    settled = not late > goal
    if not settled:
        settled = combined_sweeps(lambda old, new: _flow_sweep(chain, nowhere, old, new), x, goal, most)
        np.maximum(x, 0.0, out=x)
    x /= x.sum()
    return settled


@compiled
def repeat_flow(chain: Chain, source: Floats, x: Floats, tolerance: float, most: int) -> Any:
    """Repeat x <- source + weights^T x in place until it changes by at most `tolerance`, or `most` times."""
    new = np.empty(x.shape[0])
    change = np.inf
    sweeps = 0
    while sweeps < most and change > tolerance:
        change = _flow_sweep(chain, source, x, new)
        for s in range(x.shape[0]):
            x[s] = new[s]
        sweeps += 1
    return change


@compiled
def _flow_sweep(chain: Chain, source: Floats, x: Floats, new: Floats) -> Any:
    """new <- source + weights^T x; how much that changes, in the sum of absolute values."""
    for s in range(x.shape[0]):
        new[s] = source[s]
    entry = np.uint64(0)
    for s in range(x.shape[0]):
        mass, end = x[s], np.uint64(chain.starts[s + 1])
        while entry < end:
            new[chain.targets[entry]] += mass * chain.weights[entry]
            entry += np.uint64(1)
    return _distance(x, new)


def improve_values(
    chain: Chain, stage: Floats, value: Floats, scratch: Floats, goal: float, deadline: float | None = None
) -> tuple[float, float]:
    """As `sweep_values`, with sweeps combined where the chain mixes slowly; about `_VALUE_SWEEPS` at most.

    The deadline is looked at every few sweeps.
    """
    low, high = sweep_values(chain, stage, value, scratch, goal, TRIAL_SWEEPS)
    early = high - low
    if not early > goal or is_over(deadline):
        return low, high
    low, high = sweep_values(chain, stage, value, scratch, goal, TRIAL_SWEEPS)
    if high - low > goal and not is_slow(early, high - low):
        for most in (*[TRIAL_SWEEPS] * (_VALUE_SWEEPS // TRIAL_SWEEPS), _VALUE_SWEEPS % TRIAL_SWEEPS):
            if not high - low > goal or not high - low < 0.5 * early or is_over(deadline):
                break  # there, or down to the rounding: sweeps of such a chain shrink it far more
            early = high - low
            low, high = sweep_values(chain, stage, value, scratch, goal, most)
    elif high - low > goal:

        def sweep(old: Floats, new: Floats) -> float:
            low, high = value_sweep(chain, stage, old, new)
            return float(high - low)

        combined_sweeps(sweep, value, goal, _VALUE_SWEEPS, up_to_constants=True, deadline=deadline)
        low, high = sweep_values(chain, stage, value, scratch, 0.0, 1)
    return low, high


@compiled
def sweep_values(chain: Chain, stage: Floats, value: Floats, scratch: Floats, goal: float, most: int) -> Any:
    """Sweeps over the rows of one policy until the changes of all states are within `goal` of each other.

    `stage` [S] is what one step under the policy is worth.
    """
    low, high = -np.inf, np.inf
    sweeps = 0
    while sweeps < most and high - low > goal:
        for s in range(value.shape[0]):
            scratch[s] = value[s]
        low, high = value_sweep(chain, stage, scratch, value)
        sweeps += 1
    return low, high


@compiled
def value_sweep(chain: Chain, stage: Floats, value: Floats, new: Floats) -> Any:
    """new <- stage + weights value; the least and the largest change."""
    for s in range(value.shape[0]):
        new[s] = stage[s] + row_times(chain.starts, chain.targets, chain.weights, s, value)
    low, high = np.inf, -np.inf
    for s in range(value.shape[0]):
        change = new[s] - value[s]
        low, high = change if change < low else low, change if change > high else high
    return low, high


@compiled
def residuals(chain: Chain, stage: Floats, value: Floats, result: Floats) -> Any:
    """result <- stage + weights value - value, for a chain without discount; the least and the largest.

    From differences of values: these are small where the values are large and flat.
    """
    low, high = np.inf, -np.inf
    for s in range(value.shape[0]):
        total, here = stage[s], value[s]
        entry, end = np.uint64(chain.starts[s]), np.uint64(chain.starts[s + 1])
        while entry < end:
            total += chain.weights[entry] * (value[chain.targets[entry]] - here)
            entry += np.uint64(1)
        result[s] = total
        low, high = total if total < low else low, total if total > high else high
    return low, high


def combined_sweeps(
    sweep: Callable[[Floats, Floats], float],
    x: Floats,
    tolerance: float,
    most: int,
    up_to_constants: bool = False,
    deadline: float | None = None,
) -> bool:
    """Improve the fixed point `x` [S] of an affine map in place, by about `most` sweeps; for maps that contract slowly.

    ``sweep(x, new)`` maps `x` to `new` and says how much it changed: the end, when that is at most `tolerance`; whether
    it came to that is returned. After every `_CYCLE` sweeps the next ones begin at the combination of them that the map
    changes least: with differences d_i of successive iterates, the one with weights c, of sum 1, for which
    |sum c_i d_i| is least. This is reduced rank extrapolation (Eddy 1979; Mesina 1977), in effect the restarted method
    of minimal residuals. With `up_to_constants`, changes that are the same everywhere do not count.

    That method can stand still, or gain in one norm what it loses in another. So a combination that the map changes
    more than the last iterate is dropped, and so is one that does not exist, or is not finite, because the differences
    are multiples of each other: sweeps without combinations are the worst that can happen.
    """
    iterates = np.empty((_CYCLE + 1, len(x)))
    iterates[0] = x
    before = np.inf
    for _ in range(0, most, _CYCLE):
        if is_over(deadline):
            return False
        change = sweep(iterates[0], iterates[1])
        if not change <= before:
            iterates[0] = x
            change = sweep(iterates[0], iterates[1])
        for old, new in pairwise(iterates[1:]):
            if change <= tolerance:
                x[:] = old
                return True
            change = sweep(old, new)
        x[:] = iterates[-1]
        if change <= tolerance:
            return True
        before = change
        products = _products_of_changes(iterates, up_to_constants)
        lengths = np.sqrt(np.diag(products))
        if not 0.0 < lengths.min() <= lengths.max() < np.inf:
            return False
        products = products / np.outer(lengths, lengths) + 1e-14 * np.eye(_CYCLE)  # against rounding where singular
        if not _combine(products, lengths, iterates):
            iterates[0] = x
    return False


def _combine(products: Floats, lengths: Floats, iterates: Floats) -> bool:
    """Put the combination that is changed least into the first row of `iterates`; whether there is a finite one."""
    with np.errstate(all="ignore"):
        try:
            weights = np.linalg.solve(products, 1.0 / lengths) / lengths
        except np.linalg.LinAlgError:
            return False
        np.einsum("i,is->s", weights / weights.sum(), iterates[1:], out=iterates[0])
    return bool(np.isfinite(iterates[0]).all())


@compiled
def _products_of_changes(iterates: Floats, up_to_constants: bool) -> Any:
    """The products [m, m] of the differences of successive rows [m + 1, S], less their means if so asked.

    A few states at a time, whose differences are still at hand for the next product.
    """
    m, n_states = iterates.shape[0] - 1, iterates.shape[1]
    products, means, changes = np.zeros((m, m)), np.zeros(m), np.zeros((m, _AT_HAND))
    for i in range(m if up_to_constants else 0):
        means[i] = _total_change(iterates[i], iterates[i + 1]) / n_states
    for first in range(0, n_states, _AT_HAND):
        size = min(n_states - first, _AT_HAND)
        for i in range(m):
            for s in range(size):
                changes[i, s] = iterates[i + 1, first + s] - iterates[i, first + s] - means[i]
            for s in range(size, _AT_HAND):
                changes[i, s] = 0.0
        for i in range(m):
            for j in range(i + 1):
                a, b, c, d = 0.0, 0.0, 0.0, 0.0
                for s in range(0, _AT_HAND, 4):
                    a += changes[i, s] * changes[j, s]
                    b += changes[i, s + 1] * changes[j, s + 1]
                    c += changes[i, s + 2] * changes[j, s + 2]
                    d += changes[i, s + 3] * changes[j, s + 3]
                products[i, j] += (a + b) + (c + d)
    for i in range(m):
        for j in range(i):
            products[j, i] = products[i, j]
    return products


# Sums of many terms are four sums each, which do not wait for each other.


@compiled
def _total_change(x: Floats, y: Floats) -> Any:
    """The sum of y - x."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = x.shape[0] - x.shape[0] % 4
    for i in range(0, whole, 4):
        a += y[i] - x[i]
        b += y[i + 1] - x[i + 1]
        c += y[i + 2] - x[i + 2]
        d += y[i + 3] - x[i + 3]
    for i in range(whole, x.shape[0]):
        a += y[i] - x[i]
    return (a + b) + (c + d)


@compiled
def _distance(x: Floats, y: Floats) -> Any:
    """The sum of absolute differences."""
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
