"""Small changes of a policy: what each is worth, and the linear program that combines them best.

Let a policy be best at prices u, with time per place x [M], and let A_i(s, a) be the advantage of the entry (s, a) over
what the policy does at s: of the reward for i = 0, of margin k for i = k; that is m - E y, less what it is on the
policy, with y the value function of m under the policy (`inbounds.criteria.contract`). To first order, taking (s, a)
with probability z changes value i by

    z c_i    with    c_i = x(s) A_i(s, a),

and what is left out is a product of two changes. So the best policy in bounds near this one solves, to first order,

    max  sum_j z_j c_j0   subject to   margin_k + sum_j z_j c_jk >= 0  for every k,   z >= 0,  sum of z at a place <= 1,

over those changes j that could pay at prices near u: a few hundred where there are thousands of pairs. Its multipliers
are the prices. A Newton step on a smooth model of the dual function knows the curvature, this program knows the kinks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.criteria.contract import Criterion, Found
from inbounds.numerics.compiled import compiled
from inbounds.numerics.rows import Rows, row_times

_ROUNDS = 100
"""Cutting planes, at most, for each row of a basis."""

_UNIT = 1e-13
"""Of prices and values, which are of the order of 1: what rounding explains."""


class Step(NamedTuple):
    """The best combination of small changes."""

    prices: Floats  # [K]
    gain: float  # of reward, to first order
    at_the_edge: bool  # whether better prices may lie outside the widths
    entries: Ints  # [J], to take
    places: Ints  # [J], where
    shares: Floats  # [J], with which probability


class Nearby:
    """A policy that is best at some prices, and what changing it is worth; everything is scaled as in the bundle.

    Parameters
    ----------
    criterion : Criterion
    found : Found
        The policy, with its backups.
    time : array [M]
        How long it is at each place.
    signals : array [K, N]
        The margins, up to constants.
    prices : array [K]
    widths : array [K]
        How far the prices may move: changes that cannot pay within are left out.
    start : array [K, M], optional
        The value functions of the signals under a similar policy, to begin from.
    """

    def __init__(
        self,
        criterion: Criterion,
        found: Found,
        time: Floats,
        signals: Floats,
        prices: Floats,
        widths: Floats,
        start: Floats | None = None,
    ) -> None:
        self.prices, self.time = prices, time
        self.values, self._gains = criterion.values(found, signals, start)
        self._criterion, self._found, self._signals = criterion, found, signals
        assert found.backups is not None
        self._backups = found.backups
        self.widen(widths)

    def widen(self, widths: Floats) -> None:
        """Let the prices move as far as `widths` [K]."""
        self.widths = widths
        criterion, unit = self._criterion, self._criterion.unit
        back = criterion.reach * unit
        # What changes of the prices can add to any advantage.
        most = float(np.sum(widths * (2.0 * unit + back * np.ptp(self.values, axis=1))))
        parts = []
        for layer in criterion.layers:
            here, leads = np.ascontiguousarray(self.values[:, layer.places]), layer.next_places
            there = np.zeros_like(here) if leads is None else np.ascontiguousarray(self.values[:, leads])
            entries, places, effects = _changes(
                layer.rows,
                np.ascontiguousarray(self._signals[:, layer.entries]),
                self._backups[layer.entries],
                self._found.chosen[layer.places] - layer.entries.start,
                here,
                there,
                self._gains,
                self.time[layer.places],
                widths,
                most,
                unit,
                back,
            )
            parts.append((entries + layer.entries.start, places + layer.places.start, effects))
        self._entries, self._places, self._effects = (np.concatenate(part) for part in zip(*parts, strict=True))
        self._effects[:, 0] -= np.einsum("jk,k->j", self._effects[:, 1:], self.prices)

    def best(self, margins: Floats) -> Step:
        """The best changes when the policy has the margins `margins` [K]."""
        lowest, highest = np.maximum(self.prices - self.widths, 0.0), self.prices + self.widths
        prices, gain, shares = combine(self._effects, self._places, margins, lowest, highest)
        taken = shares > 0.0
        at_the_edge = bool(np.any((prices >= highest) | ((prices <= lowest) & (prices > 0.0))))
        return Step(prices, gain, at_the_edge, self._entries[taken], self._places[taken], shares[taken])

    def probabilities(self, step: Step) -> Floats:
        """Of the entries, [N], under the changed policy."""
        chosen, probabilities = self._found.chosen, np.zeros(len(self._backups))
        kept = 1.0 - np.bincount(step.places, step.shares, minlength=len(chosen))
        probabilities[chosen], probabilities[step.entries] = np.maximum(kept, 0.0), step.shares
        return probabilities

    def expect(self, step: Step, reward: Floats) -> Found:
        """The changed policy with its value, roughly: where to begin a solve for `reward` [N], at the new prices."""
        value = self._found.value_function + np.einsum("k,ks->s", step.prices - self.prices, self.values)
        chosen, likely = self._found.chosen.copy(), step.shares >= 0.5
        chosen[step.places[likely]] = step.entries[likely]
        return self._criterion.expect(reward, chosen, value)


@compiled
def _changes(
    rows: Rows,
    signals: Floats,
    backups: Floats,
    chosen: Ints,
    here: Floats,
    there: Floats,
    gains: Floats,
    time: Floats,
    widths: Floats,
    most: float,
    unit: float,
    back: float,
) -> Any:
    """Changes that could pay within the widths: pairs [J], states [J], effects [J, 1 + K] on priced sum and signals.

    In one layer, with values `here` [K, S], and `there` [K, S] where its moves lead.
    """
    n_constraints, n_states = here.shape
    n_pairs = backups.shape[0]
    pairs, states = np.empty(n_pairs + 1, dtype=np.int64), np.empty(n_pairs + 1, dtype=np.int64)
    candidates = 0  # few of the pairs, and fewer of them pay; branches would be guessed wrong
    for s in range(n_states):
        least = backups[chosen[s]] - most if time[s] > 0.0 else np.inf
        for pair in range(rows.offsets[s], rows.offsets[s + 1]):
            pairs[candidates], states[candidates] = pair, s
            candidates += (backups[pair] >= least) & (pair != chosen[s])
    effects = np.empty((candidates + 1, n_constraints + 1))
    found = 0
    for j in range(candidates):
        pair, s = pairs[j], states[j]
        share = time[s] / unit
        reach = backups[pair] - backups[chosen[s]]
        effects[found, 0] = reach * share
        for k in range(n_constraints):
            mean = row_times(rows.starts, rows.targets, rows.probabilities, pair, there[k])
            effect = unit * (signals[k, pair] - gains[k]) + back * mean - here[k, s]
            effects[found, 1 + k] = effect * share
            reach += widths[k] * abs(effect)
        pairs[found], states[found] = pair, s
        found += reach >= 0.0
    return pairs[:found].copy(), states[:found].copy(), effects[:found].copy()


@compiled
def combine(effects: Floats, groups: Ints, margins: Floats, lowest: Floats, highest: Floats) -> Any:
    """The best shares [J] of changes, at most 1 in each group: prices [K], what is gained, shares.

    Effects [J, 1 + K] are on the reward and on the margins, which are `margins` [K] without any change. Changes of one
    group follow each other. A margin below zero costs `highest` [K] per unit, one above earns `lowest`: the prices
    minimise, in the box between, what the best changes are worth,

        margins . u + sum over groups of max(0, max over its changes of effect_0 + u . effect).

    By cutting planes: a basis of K + 1 rows, cuts or sides of the box, determines prices and value. The row that they
    violate enters, and the one that the ratio test names leaves; it is the simplex method on the multipliers, with the
    columns made as they are needed.
    """
    n_changes, n_constraints = effects.shape[0], effects.shape[1] - 1
    size = n_constraints + 1
    rows, rights = np.zeros((size, size)), np.zeros(size)  # rows @ (prices, value) + rights = 0
    weights = np.zeros(size)
    made_at = np.zeros((size, n_constraints))  # the prices of a cut
    is_cut = np.zeros(size, dtype=np.bool_)  # but not the first one, of no changes
    sides = np.arange(size)  # of which price a row is a side of the box; no price has the number of constraints
    for k in range(n_constraints):
        rows[k, k] = -1.0 if margins[k] > 0.0 else 1.0
        rights[k] = lowest[k] if margins[k] > 0.0 else -highest[k]
        weights[k] = abs(margins[k])
        rows[n_constraints, k] = margins[k]
    rows[n_constraints, n_constraints] = -1.0
    weights[n_constraints] = 1.0
    point, entering = np.zeros(size), np.zeros(size)
    taken = np.empty(n_changes, dtype=np.int64)
    for _ in range(_ROUNDS * size):
        point[:] = -rights
        _eliminate(rows.copy(), point)
        for row in range(size):  # exactly, lest a side that is in the basis already seems violated
            if sides[row] < n_constraints:
                point[sides[row]] = -rights[row] * rows[row, sides[row]]
        side, worst = -1, _UNIT
        for k in range(n_constraints):
            outside = max(lowest[k] - point[k], point[k] - highest[k]) / (1.0 + abs(point[k]))
            if outside > worst:
                side, worst = k, outside
        entering[:] = 0.0
        right = 0.0
        if side >= 0:
            below = point[side] < lowest[side]
            entering[side] = -1.0 if below else 1.0
            right = lowest[side] if below else -highest[side]
        else:
            entering[n_constraints] = -1.0
            for k in range(n_constraints):
                entering[k] = margins[k]
            for i in range(_best_changes(effects, groups, point, taken)):
                right += effects[taken[i], 0]
                for k in range(n_constraints):
                    entering[k] += effects[taken[i], 1 + k]
            excess = right
            for k in range(size):
                excess += entering[k] * point[k]
            if excess <= _UNIT:
                break
        change = entering.copy()
        _eliminate(rows.T.copy(), change)
        leaving, ratio = -1, np.inf
        for i in range(size):
            if change[i] > _UNIT and weights[i] < ratio * change[i]:
                leaving, ratio = i, weights[i] / change[i]
        if leaving < 0:
            break
        for i in range(size):
            weights[i] = max(weights[i] - ratio * change[i], 0.0)
        weights[leaving], rights[leaving], is_cut[leaving] = ratio, right, side < 0
        sides[leaving] = side if side >= 0 else n_constraints
        rows[leaving] = entering
        made_at[leaving] = point[:n_constraints]
    shares = np.zeros(n_changes)
    for row in range(size):
        if is_cut[row] and weights[row] > 0.0:
            for i in range(_best_changes(effects, groups, made_at[row], taken)):
                shares[taken[i]] += weights[row]
    prices = np.minimum(np.maximum(point[:n_constraints], lowest), highest)
    return prices, point[n_constraints], shares


@compiled
def _best_changes(effects: Floats, groups: Ints, prices: Floats, taken: Ints) -> Any:
    """Fill `taken` with the best change of every group in which one pays at `prices`; how many these are."""
    n_changes, n_constraints = effects.shape[0], effects.shape[1] - 1
    count, best, best_change = 0, 0.0, -1
    for j in range(n_changes):
        worth = effects[j, 0]
        for k in range(n_constraints):
            worth += prices[k] * effects[j, 1 + k]
        # No branches: they would be guessed wrong.
        fresh = groups[j] != groups[max(j - 1, 0)]
        taken[count] = best_change
        count += fresh & (best_change >= 0)
        best, best_change = 0.0 if fresh else best, -1 if fresh else best_change
        better = worth > best
        best, best_change = worth if better else best, j if better else best_change
    if best_change >= 0:
        taken[count] = best_change
        count += 1
    return count


@compiled
def _eliminate(matrix: Floats, right: Floats) -> None:
    """right <- matrix^-1 right, by Gaussian elimination with partial pivoting; both are overwritten."""
    size = right.shape[0]
    for i in range(size):
        pivot = i
        for j in range(i + 1, size):
            if abs(matrix[j, i]) > abs(matrix[pivot, i]):
                pivot = j
        for k in range(i, size):
            matrix[i, k], matrix[pivot, k] = matrix[pivot, k], matrix[i, k]
        right[i], right[pivot] = right[pivot], right[i]
        if matrix[i, i] == 0.0:
            continue
        for j in range(i + 1, size):
            factor = matrix[j, i] / matrix[i, i]
            if factor != 0.0:
                for k in range(i, size):
                    matrix[j, k] -= factor * matrix[i, k]
                right[j] -= factor * right[i]
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            right[i] -= matrix[i, k] * right[k]
        right[i] = right[i] / matrix[i, i] if matrix[i, i] != 0.0 else 0.0
