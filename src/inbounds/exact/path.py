"""The optimum along bounds that move a little at a time.

From one place to the next the best policy changes its action in a few states. The program of small changes
(`inbounds.exact.nearby`) says in which, and at what prices; one unconstrained solve there gives an upper bound, and the
policy for the next step. A second program, from that policy, mixes a few pairs so that the bounds are kept, to second
order; and since a policy's margins move with the bounds by the same amount for all, such mixtures of neighbouring
places, some a little out of bounds and some a little inside, combine to one that is in bounds, at a cost of second
order again. Every upper bound comes from a bracket, every mixture is evaluated: the programs only propose.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.exact.bellman import Solver, Unconstrained
from inbounds.exact.bundle import Mixture
from inbounds.exact.nearby import Nearby, Step, combine, priced

_FIRST_WIDTH = 0.1
"""How far each scaled price may move in the first step."""

_STEPS = 12
"""Unconstrained solves, at most, for one place."""

_CLOSE = 0.9
"""The share of the allowed gap that the upper bound may lie above what small changes promise."""

_NEARLY = 50.0
"""Up to so many times the allowed gap, a better upper bound is enough, and the policy for the next step stays."""

_INNER = 0.1
"""The share of the allowed gap that the bracket of an unconstrained solve may take."""

_ACCURACY = 1e-10
"""Of the occupancies, in the sum of absolute values."""

_SLACK = 1e-10
"""A violation, relative to the largest margin of any pair, that rounding explains."""

_LARGEST_PRICE = 1e11


class Path:
    """Policies and upper bounds along moving bounds.

    Parameters
    ----------
    solver : Solver
    reward : array [n]
    margins : array [K, n]
    scales : array [K]
        Each at least the absolute value of that margin under any policy.
    prices : array [K]
        Where to begin: about the best prices at the first bounds.
    """

    def __init__(self, solver: Solver, reward: Floats, margins: Floats, scales: Floats, prices: Floats) -> None:
        least, most = float(reward.min()), float(reward.max())
        self._centre, self._spread = 0.5 * (least + most), 0.5 * (most - least) or 1.0
        self._objective = (reward - self._centre) / self._spread
        self._signals = margins / scales[:, None]
        self._scales = scales
        self._solver = solver
        self._states = np.repeat(np.arange(len(solver.operator.initial)), np.diff(solver.operator.offsets))
        n_constraints = len(scales)
        # Upper bounds on the dual function where it was evaluated, for the bounds as given; they prove themselves.
        self._prices, self._uppers = np.empty((0, n_constraints)), np.empty(0)
        self._value_functions: list[Floats] = []
        # Policies: their rewards, and margins for the bounds as given.
        self._rewards, self._margins = np.empty(0), np.empty((0, n_constraints))
        self._policies: list[tuple[Ints, Floats]] = []  # pairs, and the time spent at each
        self._widths = np.full(n_constraints, _FIRST_WIDTH)
        self._nearby: Any = None
        self._places: list[tuple[Floats, Nearby, int]] = []  # the last two: bounds, policy, and the one made from it
        self._anchor(prices * scales / self._spread, 1e-6)

    @property
    def unconstrained_solves(self) -> int:
        return len(self._uppers)

    def approach(self, tightened: Floats, tolerance: float) -> None:
        """Find upper bound and policies for bounds tighter by `tightened` [K], close to those of the last call."""
        moved, origin = tightened / self._scales, self._nearby.prices
        for _ in range(_STEPS):
            nearby = self._nearby
            step = nearby.best(nearby.signals - moved)
            if step.at_the_edge:
                self._widths = 3.0 * np.maximum(nearby.widths, self._widths)
                nearby.widen(self._widths)
                step = nearby.best(nearby.signals - moved)
            upper, allowed = self._upper(moved, tolerance)
            promised = nearby.reward + step.gain
            if not step.at_the_edge:
                if _CLOSE * allowed < upper - promised < _NEARLY * allowed:
                    self._solve(step.prices, _INNER * allowed, nearby.expect(step))
                    upper, allowed = self._upper(moved, tolerance)
                if upper - promised <= _CLOSE * allowed:
                    self._add_changed(nearby, step)
                    break
            self._anchor(step.prices, _INNER * allowed, nearby.expect(step))
        self._places = [*self._places[-1:], (moved, self._nearby, len(self._rewards) - 1)]
        distance = np.abs(self._nearby.prices - origin)
        self._widths = np.maximum(np.maximum(2.0 * distance, 0.2 * distance.max()), 0.25 * self._widths)

    def mixture(self, tightened: Floats, tolerance: float) -> Mixture | None:
        """The best mixture at bounds that were approached before; None when its gap is not within `tolerance`."""
        moved = tightened / self._scales
        weights = self._mix(moved, tolerance)
        if weights is None:
            # The policy made here missed the bounds by something of second order, and its neighbours do not make up
            # for it. Aim as far to the other side: half of each will hit.
            nearby, made = next(place[1:] for place in self._places if np.array_equal(place[0], moved))
            missed = self._margins[made] - moved
            self._add_changed(nearby, nearby.best(nearby.signals - moved + 2.0 * missed))
            weights = self._mix(moved, tolerance)
        if weights is None:
            return None
        occupancy = np.zeros(len(self._objective))
        for j in np.flatnonzero(weights):
            pairs, time = self._policies[j]
            occupancy[pairs] += weights[j] * time
        best = self._best(moved)
        value = self._value_functions[best] - float(np.sum(self._prices[best] * moved))
        return Mixture(
            occupancy=occupancy,
            prices=self._prices[best] * self._spread / self._scales,
            value_function=self._centre + self._spread * value,
            unconstrained_solves=self.unconstrained_solves,
        )

    def _best(self, moved: Floats) -> int:
        return int(np.argmin(self._uppers - self._prices @ moved))

    def _upper(self, moved: Floats, tolerance: float) -> tuple[float, float]:
        """The least upper bound on the optimum, and the gap allowed below it."""
        upper = float(np.min(self._uppers - self._prices @ moved))
        return upper, tolerance * max(abs(upper + self._centre / self._spread), 0.01)

    def _solve(self, prices: Floats, tolerance: float, start: Unconstrained | None) -> Unconstrained:
        """A best policy at `prices`, and an upper bound there."""
        found = self._solver.solve(priced(self._objective, self._signals, prices), tolerance, start)
        self._prices = np.vstack([self._prices, prices])
        self._uppers = np.append(self._uppers, found.upper)
        self._value_functions.append(found.value_function)
        return found

    def _anchor(self, prices: Floats, tolerance: float, start: Unconstrained | None = None) -> None:
        """Solve at `prices`, and look for small changes from there on."""
        found = self._solve(prices, tolerance, start)
        time = self._solver.time_per_state(found, _ACCURACY, None if self._nearby is None else self._nearby.time)
        self._nearby = Nearby(
            self._solver, found, time, self._objective, self._signals, prices, self._widths,
            None if self._nearby is None else self._nearby.values,
        )  # fmt: skip
        self._add(found.chosen, time)

    def _add_changed(self, nearby: Nearby, step: Step) -> None:
        time = self._solver.time_of_mixed(step.taken, _ACCURACY, nearby.time)
        pairs = np.flatnonzero(step.taken)
        self._add(pairs, time[self._states[pairs]] * step.taken[pairs])

    def _add(self, pairs: Ints, time: Floats) -> None:
        self._policies.append((pairs, time))
        self._rewards = np.append(self._rewards, np.sum(time * self._objective[pairs]))
        self._margins = np.vstack([self._margins, np.sum(time * self._signals[:, pairs], axis=1)])

    def _mix(self, moved: Floats, tolerance: float) -> Floats | None:
        """The weights [J] of the best mixture of the policies, if it is in bounds and good enough."""
        margins = self._margins - moved
        upper, allowed = self._upper(moved, tolerance)
        worth = self._rewards + np.sum(margins * self._prices[self._best(moved)], axis=1)
        nearest, *others = np.argsort(-worth, kind="stable")[: 10 * (len(moved) + 1)]
        effects = np.column_stack([self._rewards, margins])
        one_group = np.zeros(len(others), dtype=np.int64)
        none, most = np.zeros(len(moved)), np.full(len(moved), _LARGEST_PRICE)
        weights = np.zeros(len(worth))
        weights[others] = combine(effects[others] - effects[nearest], one_group, margins[nearest], none, most)[2]
        weights[nearest] = max(1.0 - weights.sum(), 0.0)
        weights /= weights.sum()
        kept = np.all(np.sum(weights[:, None] * margins, axis=0) >= -_SLACK)
        return weights if kept and upper - float(np.sum(weights * self._rewards)) <= allowed else None
