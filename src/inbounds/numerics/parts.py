"""Parts of a chain that are hardly ever left: whether there are any, and the time in each of them.

Sweeps over a chain without a discount (`inbounds.numerics.sweeps`) settle in the part where they begin, and see nothing
of the others: what they change is then as small as rounding, and the answer may be that of the wrong part. So it is
asked whether the chain *forgets* where it began. What numbers at random are worth after many steps is the same
everywhere in a closed class, unless there are such parts: then it is their mean over the part. The means of two parts
of m states differ by some 1 / sqrt(m).

Where it does not forget, the time is settled by parts (Takahashi 1975; Koury, McAllister and Stewart 1984). Sweeps
settle each of them by itself; the time between them is that of the chain whose states they are, which moves from one to
another as often as the chain does, and is solved without a subtraction. What the parts are, the numbers show: states
where they are worth nearly the same are one part. Other numbers are then tried, for two parts may have the same mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from inbounds.arrays import Floats
from inbounds.numerics.rows import Chain
from inbounds.numerics.sweeps import TRIAL_SWEEPS, combined_sweeps, repeat_flow, value_sweep

_UNCHANGED, _FORGOTTEN = 1e-12, 1e-5
"""Of numbers between 0 and 1: what a sweep changes when there is no more to see, and how far apart they may be then."""

_PARTS = 256
"""At most."""

_LOOKS, _ROUNDS = 4, 100
"""How often parts are looked for, and rounds of sweeps with each."""


def forgets(chain: Chain, inside: Any, most: int) -> bool:
    """Whether a chain forgets where it began in a closed class, `inside` [S], as far as about `most` sweeps show."""
    return bool(np.ptp(_worth_later(chain, inside, most, 0)[inside]) <= _FORGOTTEN)


def settle_by_parts(chain: Chain, x: Floats, inside: Any, accuracy: float, rounding: float, most: int) -> bool:
    """Make `x` [S] the stationary distribution of a closed class, `inside` [S], whatever it was before.

    Up to about `accuracy` in the sum of absolute values; whether about `most` sweeps a look sufficed. `rounding` is
    what rounding alone can change in one.
    """
    x[:] = inside / np.count_nonzero(inside)
    sources, nowhere = np.repeat(np.arange(len(x)), np.diff(chain.starts)), np.zeros(len(x))
    enough = accuracy + 1e3 * rounding
    for seed in range(_LOOKS):
        part, before = _parts(_worth_later(chain, inside, most, seed), inside), x.copy()
        number = int(part.max()) + 1
        moves = part[sources] * number + part[chain.targets]
        for _ in range(_ROUNDS):
            change = float(repeat_flow(chain, nowhere, x, rounding, TRIAL_SWEEPS))
            mass = np.bincount(part, x, number)
            between = np.bincount(moves, x[sources] * chain.weights, number * number).reshape(number, number)
            with np.errstate(all="ignore"):
                factors = dense_stationary(between / mass[:, None]) / mass
            if not np.all(np.isfinite(factors)):
                return False
            x *= factors[part]
            if change <= rounding and np.abs(factors - 1.0).max() <= enough:
                break
        if seed > 0 and change <= rounding and float(np.abs(x - before).sum()) <= enough:
            return True
    return False


def _worth_later(chain: Chain, inside: Any, most: int, seed: int) -> Floats:
    """What numbers between 0 and 1 at random are worth after many steps, [S]."""
    worth, nothing = np.random.default_rng(seed).random(len(inside)), np.zeros(len(inside))

    def sweep(old: Floats, new: Floats) -> float:
        value_sweep(chain, nothing, old, new)
        return float(np.ptp((new - old)[inside]))

    combined_sweeps(sweep, worth, _UNCHANGED, most, up_to_constants=True)
    return worth


def _parts(worth: Floats, inside: Any) -> Any:
    """The number of the part of each state, [S]: those `inside` by what they are worth, from the least on.

    Half of the cuts are evenly spaced; the others are where no state is for the longest: two parts may differ by much
    less than others do.
    """
    values = np.sort(worth[inside])
    widest = np.argsort(np.diff(values))[-(_PARTS // 2) :]
    even = np.linspace(values[0], values[-1], _PARTS // 2 + 1)[1:-1]
    cuts = np.sort(np.append(even, 0.5 * (values[widest] + values[widest + 1])))
    return np.unique(np.where(inside, np.searchsorted(cuts, worth), 0), return_inverse=True)[1]


def dense_stationary(moves: Floats) -> Floats:
    """The stationary distribution of a chain [S, S] that is one class, by state reduction: no subtraction."""
    left, smallest = moves.copy(), float(np.finfo(np.float64).tiny)
    for k in range(len(left) - 1, 0, -1):
        left[:k, k] /= max(float(left[k, :k].sum()), smallest)
        left[:k, :k] += np.outer(left[:k, k], left[k, :k])
    x = np.ones(len(left))
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(1, len(left)):
            x[k] = np.sum(x[:k] * left[:k, k])
            x[: k + 1] /= x[: k + 1].max()
    return x / x.sum()
