"""The best policy in bounds over a finite horizon, on rows or over their whole box, by column generation.

The linear program over occupancies (extended: over occupancies and the rows of the box) has for its vertices mixtures
of at most I + 1 deterministic policies. So the best mixture of policies in bounds is found (`numerics.simplex`), whose
next policy is the answer of one backward sweep at the prices u of the mixture so far: the one of the largest
J_r + u . J_g, with a forward pass for its values. It ends when no policy makes the mixture better. The first two
policies are those of .97 and 1.03 times the prices that are given: those of the last plan, for rows that were hardly
other ones. It is compiled, and takes no solver: a learner may ask for it thousands of times in a run.
"""

from __future__ import annotations

import numpy as np

from inbounds.arrays import Floats
from inbounds.numerics.boxes import Boxes, Swept, follow, new_sweep, sweep
from inbounds.numerics.compiled import compiled
from inbounds.numerics.simplex import ARTIFICIAL, FOUND, SLACK, enter, first_basis, gains, price, share_of

IN_BOUNDS = 1e-9
"""How much may be missing in a bound, where a signal is of the size of 1: rounding."""
WARM = (0.97, 1.03)


@compiled
def best_policy(
    signals: Floats, prices: Floats, rows: Boxes, extended: bool, policy: Floats, swept: Swept, sums: Floats
) -> None:
    """The oracle: the best deterministic policy [H, n] at these prices [I], and the sums [X] of its signals."""
    priced = np.empty((signals.shape[0], signals.shape[1], 1))
    for h in range(signals.shape[0]):
        for pair in range(signals.shape[1]):
            total = signals[h, pair, 0]
            for x in range(1, signals.shape[2]):
                total += prices[x - 1] * signals[h, pair, x]
            priced[h, pair, 0] = total
    anything = signals[0, :0]  # no limits
    sweep(priced, prices[:0], policy, rows, anything, anything, True, swept)
    follow(policy, signals, rows, extended, swept, sums)


@compiled
def constrained_plan(
    signals: Floats, rows: Boxes, extended: bool, not_met: float, prices: Floats, policy: Floats
) -> int:
    """The best policy in bounds for the signals [H, n, X], into `policy` [H, n], and its prices [I].

    Given are prices to begin with, and what a unit of a bound costs that is not met: no policy is found that costs more
    reward than that. Returns how many policies were tried; or minus that where none is in bounds: then the policy is
    one that is out of them as little as can be, in sum.
    """
    horizon, n_pairs, m = signals.shape
    bounds, n_states, offsets = m - 1, rows.starts.shape[0], rows.offsets
    shape, swept = (m, horizon, n_pairs), new_sweep(horizon, n_states, n_pairs, 1, extended)
    kept, acts, sums, column = np.zeros(shape), np.zeros(shape), np.empty(m), np.empty(m)
    now, warm, tried = WARM[0] * prices, bool(np.any(prices > 0.0)), 1
    best_policy(signals, now, rows, extended, policy, swept, sums)
    basis = first_basis(sums[0], sums[1:], not_met)
    kept[bounds], acts[bounds] = swept.occupancy, policy  # occupancies and policies of the basis
    for turn in range(100 + 60 * m * m):  # far more than it takes; against cycling
        slack = price(basis)
        if slack >= 0:
            kind, cost = SLACK, 0.0
            column[:] = 0.0
            column[slack] = -1.0
        else:
            for i in range(bounds):
                now[i] = WARM[1] * prices[i] if turn == 0 and warm else max(-basis.duals[i], 0.0)
            best_policy(signals, now, rows, extended, policy, swept, sums)
            tried += 1
            kind, cost = FOUND, sums[0]
            column[:bounds], column[bounds] = sums[1:], 1.0
            if not gains(basis, cost, sums[1:]):
                if turn == 0 and warm:
                    warm = False  # the second guess gained nothing: go on with the prices of the basis
                    continue
                break
        place = enter(basis, kind, cost, column)
        if place < 0:
            break
        if kind == FOUND:
            kept[place], acts[place] = swept.occupancy, policy
    heaviest, missing, mixed = -1, 0.0, np.zeros(shape[1:])
    for b in range(m):
        if basis.kind[b] == ARTIFICIAL:
            missing += share_of(basis, b)
        elif basis.kind[b] == FOUND:
            mixed += share_of(basis, b) * kept[b]
            if heaviest < 0 or share_of(basis, b) > share_of(basis, heaviest):
                heaviest = b
    for i in range(bounds):
        prices[i] = -basis.duals[i] if basis.duals[i] < 0.0 else 0.0  # never -0
    for h in range(horizon):
        for s in range(n_states):  # of the mixed occupancy; where that is never, the choice of the heaviest column
            first, last, total = offsets[s], offsets[s + 1], 0.0
            for pair in range(first, last):
                total += mixed[h, pair]
            for pair in range(first, last):
                policy[h, pair] = mixed[h, pair] / total if total > 0.0 else acts[heaviest, h, pair]
    return tried if missing <= IN_BOUNDS else -tried
