"""The best policy in bounds, on an empirical model or over its whole box, by column generation.

The linear program over occupancies (extended: over occupancies and the models of the box) has for its vertices mixtures
of at most I + 1 deterministic policies. So a master program over policies is solved by the simplex method,

    max sum_j x_j J_r(j)   with   sum_j x_j J_gi(j) - slack_i = 0,   sum_j x_j = 1,   x, slack >= 0,

whose next column is the answer of one backward sweep at the prices u of its basis: the policy of the largest
J_r + u . J_g, with a forward pass for its values. It ends when no policy is better than the basis. An artificial column
of cost 10^4 W stands for each constraint that is not met; where one is left, no policy of the model is in bounds. (Nor
is one found that costs more reward than 10^4 W for each unit of margin.) The first two policies are those of .97 and
1.03 times the prices of the last plan.
"""

from __future__ import annotations

import numpy as np

from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.model import Model
from inbounds.algorithms.episodic.sweeps import Swept, follow, new_sweep, sweep
from inbounds.arrays import Floats
from inbounds.numerics.compiled import compiled

NOT_MET = 1e4
"""Cost of a unit of a constraint that is not met, in units of W."""
IMPROVES = 1e-9
"""What a policy has to gain, relative to what it is worth, to enter the basis."""
IN_BOUNDS = 1e-9
"""How much of an artificial column may be left, in scaled units: rounding."""
WARM = (0.97, 1.03)

ARTIFICIAL, SLACK, POLICY = 0, 1, 2


@compiled
def best_policy(
    signals: Floats, prices: Floats, model: Model, frame: Frame, extended: bool, policy: Floats, swept: Swept
) -> Floats:
    """The oracle: the best deterministic policy [H, n] at these prices [I]; the sums [X] of its signals."""
    priced, sums = np.empty((signals.shape[0], signals.shape[1], 1)), np.empty(signals.shape[2])
    for h in range(signals.shape[0]):
        for pair in range(signals.shape[1]):
            total = signals[h, pair, 0]
            for x in range(1, signals.shape[2]):
                total += prices[x - 1] * signals[h, pair, x]
            priced[h, pair, 0] = total
    sweep(priced, prices[:0], policy, model, frame, True, False, swept)
    follow(policy, signals, model, frame, extended, swept, sums)
    return sums


@compiled
def constrained_plan(
    signals: Floats, model: Model, frame: Frame, extended: bool, prices: Floats, policy: Floats
) -> int:
    """The best policy in bounds for the signals [H, n, X], into `policy` [H, n], and its prices [I].

    Given are the prices of the last plan. Returns how many policies were tried; or minus that where none is in bounds:
    then the policy is one that is out of them as little as can be, in sum.
    """
    horizon, n_pairs, m = signals.shape  # a row for each bound, and one: shares sum to 1
    bounds, n_states = m - 1, frame.offsets.shape[0] - 1
    swept = new_sweep(horizon, n_states, n_pairs, 1, extended)
    kept, acts = np.zeros((m, horizon, n_pairs)), np.zeros((m, horizon, n_pairs))  # occupancies, policies of the basis,
    kind, costs, inverse = np.full(m, ARTIFICIAL), np.zeros(m), np.zeros((m, m))  # whose last column are the shares
    duals, entering, change, now = np.zeros(m), np.empty(m), np.empty(m), WARM[0] * prices
    sums = best_policy(signals, now, model, frame, extended, policy, swept)
    tried, warm = 1, bool(np.any(prices > 0.0))
    for i in range(bounds):
        met = sums[i + 1] >= 0.0
        kind[i] = SLACK if met else ARTIFICIAL
        costs[i] = 0.0 if met else -NOT_MET * frame.rest[0]
        inverse[i, i] = -1.0 if met else 1.0
        inverse[i, bounds] = abs(sums[i + 1])
    kind[bounds], costs[bounds], inverse[bounds, bounds] = POLICY, sums[0], 1.0
    kept[bounds], acts[bounds] = swept.occupancy, policy
    for turn in range(100 + 60 * m * m):  # far more than it takes; against cycling
        for b in range(m):
            duals[b] = 0.0
            for c in range(m):
                duals[b] += costs[c] * inverse[c, b]
        slack, most = -1, IMPROVES
        for i in range(bounds):
            if duals[i] > most:
                slack, most = i, duals[i]
        if slack >= 0:
            cost, new = 0.0, SLACK
            entering[:] = 0.0
            entering[slack] = -1.0
        else:
            for i in range(bounds):
                now[i] = WARM[1] * prices[i] if turn == 0 and warm else max(-duals[i], 0.0)
            sums = best_policy(signals, now, model, frame, extended, policy, swept)
            tried += 1
            cost, new = sums[0], POLICY
            gain, size = cost - duals[bounds], abs(cost) + abs(duals[bounds])
            for i in range(bounds):
                entering[i] = sums[i + 1]
                gain -= duals[i] * sums[i + 1]
                size += abs(duals[i] * sums[i + 1])
            entering[bounds] = 1.0
            if gain <= IMPROVES * size:
                if turn == 0 and warm:
                    warm = False  # the second guess gained nothing: go on with the prices of the basis
                    continue
                break
        leaving, least = -1, np.inf
        for b in range(m):
            change[b] = 0.0
            for c in range(m):
                change[b] += inverse[b, c] * entering[c]
            if change[b] > 1e-12:
                ratio = max(inverse[b, bounds], 0.0) / change[b]
                if ratio < least or (ratio == least and kind[b] == ARTIFICIAL):
                    leaving, least = b, ratio
        if leaving < 0:
            break
        kind[leaving], costs[leaving] = new, cost
        for c in range(m):
            inverse[leaving, c] /= change[leaving]
            for b in range(m):
                if b != leaving:
                    inverse[b, c] -= change[b] * inverse[leaving, c]
        if new == POLICY:
            kept[leaving], acts[leaving] = swept.occupancy, policy
    heaviest, missing, mixed = -1, 0.0, np.zeros((horizon, n_pairs))
    for b in range(m):
        share = max(inverse[b, bounds], 0.0)
        if kind[b] == ARTIFICIAL:
            missing += share
        elif kind[b] == POLICY:
            mixed += share * kept[b]
            if heaviest < 0 or share > max(inverse[heaviest, bounds], 0.0):
                heaviest = b
    for i in range(bounds):
        prices[i] = -duals[i] if duals[i] < 0.0 else 0.0  # never -0
    for h in range(horizon):
        for s in range(n_states):  # of the mixed occupancy; where that is never, the choice of the heaviest column
            first, last, total = frame.offsets[s], frame.offsets[s + 1], 0.0
            for pair in range(first, last):
                total += mixed[h, pair]
            for pair in range(first, last):
                policy[h, pair] = mixed[h, pair] / total if total > 0.0 else acts[heaviest, h, pair]
    return tried if missing <= IN_BOUNDS else -tried
