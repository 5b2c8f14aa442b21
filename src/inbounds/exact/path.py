"""The optimum along bounds that move a little at a time.

From one place to the next the best policy changes its action in a few states. The program of small changes
(`inbounds.exact.nearby`) says in which, and at what prices; one unconstrained solve there gives an upper bound, and the
policy to go on from. A second program, from that policy, mixes a few pairs so that the bounds are kept, to second
order. And since the margins of all policies move with a bound by the same amount, such policies of neighbouring places,
some a little out of bounds and some a little inside, mix to one that is in bounds, at a loss of second order again.

The programs only propose. Every upper bound is that of a bracket, every policy is evaluated, and whether the gap is
small enough is decided by the two alone.

On a random problem of 3,000 states about 80 of them change between two of 50 points of a frontier. The prices found
from one to the next leave a gap of about 5e-7, and a second step from there one of 1e-8.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.criteria.contract import Criterion, Found
from inbounds.errors import InvalidInput, Stopped
from inbounds.exact.limits import NO_LIMITS, TIME, Limits
from inbounds.exact.nearby import Nearby, Step, combine
from inbounds.exact.optimum import Optimum, Units
from inbounds.exact.start import Start

_FIRST_WIDTH = 0.3
"""How far each scaled price may move in the first step."""

_WIDEN = 2.0
"""How much farther it may move than the last time; and once more, when better prices seem to lie beyond."""

_STEPS = 20
"""Unconstrained solves, at most, from one place to the next."""

_CLOSE = 0.9
"""How far the upper bound may be above what small changes promise, as a share of the gap allowed."""

_NEARLY = 50.0
"""Up to so many times the gap allowed, a better upper bound is all that is missing, and the policy can stay."""

_CORRECTIONS = 5
"""Policies, at most, that are made to keep the bounds where the first one does not."""

_RELIABLE = 0.1
"""The share of what small changes promised that a step must deliver for the next one to be taken."""

_INNER = 0.3
"""The share of the gap allowed that the bracket of an unconstrained solve may take."""

_SETTLED = 0.01
"""Few states have changed when less than this share of them did."""

_FIRST_ALLOWED = 0.1
"""The gap allowed in the beginning, at no prices."""

_STARTED_ALLOWED, _LEAST_WIDTH = 1e-5, 1e-2
"""The same at the prices of an earlier answer, which leave about so much; and how far each price may move at least."""

_ACCURACY = 1e-10
"""Of the occupancies of policies made to keep bounds, in the sum of absolute values; less where prices are large."""

_PRICED_ACCURACY = 0.02
"""The share of the gap allowed that an error of these occupancies may be worth at the prices."""

_ROUGHLY = 1e3
"""The other occupancies may be less accurate by this factor: they have little weight in mixtures."""

_SLACK = 1e-10
"""A violation, relative to the largest margin of any pair, that rounding explains."""

_LARGEST_PRICE = 1e11
"""Of a scaled margin, where policies are mixed."""

_ROUNDING = 1e-15
"""What rounding can take of an upper bound, relative to the rewards and priced margins that it is the sum of."""


class Place(NamedTuple):
    """Bounds, and the policies found for them."""

    moved: Floats  # [K], how much smaller the margins are there than at the bounds as given
    nearby: Nearby
    anchor: int  # where its policy is among all policies
    made: int  # the policy made from it to keep the bounds


class Path:
    """Policies and upper bounds along moving bounds, beginning at no prices, or at those of an earlier answer.

    Parameters
    ----------
    criterion : Criterion
    reward : array [N]
    margins : array [K, N]
    scales : array [K]
        Each at least the absolute value of that margin under any policy.
    limits : Limits
        `Stopped` is raised where one of them is reached.
    start : Start, optional
        The answer to a similar problem: of other bounds, rewards, margins or moves.
    """

    def __init__(
        self,
        criterion: Criterion,
        reward: Floats,
        margins: Floats,
        scales: Floats,
        limits: Limits = NO_LIMITS,
        start: Start | None = None,
    ) -> None:
        self.limits = limits
        self._units, self._criterion = Units.of(criterion, reward, scales), criterion
        self._objective, self._signals = self._units.objective(reward), margins / scales[:, None]
        self._places = criterion.places
        n_constraints = len(scales)
        # The dual function for the bounds as given: where it was evaluated, upper bounds, and what proves them.
        self._prices, self._uppers = np.empty((0, n_constraints)), np.empty(0)
        self._value_functions: list[Floats] = []
        # The policies: rewards, margins for the bounds as given, their errors; where they can be and for how long.
        self._rewards, self._margins, self._errors = np.empty(0), np.empty((0, n_constraints)), np.empty(0)
        self._policies: list[tuple[Ints, Floats]] = []
        self._widths = np.full(n_constraints, _FIRST_WIDTH)
        self._nearby: Nearby
        self._anchor: int
        self._accuracy: float
        if start is None:
            self._move(np.zeros(n_constraints), _FIRST_ALLOWED)
        else:
            self._begin_at(start)

    @property
    def unconstrained_solves(self) -> int:
        return len(self._uppers)

    def _begin_at(self, start: Start) -> None:
        """From the prices and values of an earlier answer; its policy, as it does here, is the second one known."""
        prices, expected = start.expected(self._criterion, self._units, self._objective, self._signals)
        self._widths = np.maximum(_FIRST_WIDTH * prices, _LEAST_WIDTH)
        self._move(prices, _STARTED_ALLOWED, expected=expected)
        self._add_policy(start.taken, self._nearby.time)

    def kept(self, place: Place | None) -> tuple[Path, Place | None]:
        """A copy of all that the next step depends on, and of the place that it comes from; arrays are shared."""
        other, nearby = copy(self), copy(self._nearby)
        if place is not None:
            place = place._replace(nearby=nearby if place.nearby is self._nearby else copy(place.nearby))
        other._nearby, other._policies = nearby, list(self._policies)
        other._value_functions = list(self._value_functions)
        return other, place

    def follow(self, tightened: Iterable[Floats], tolerance: float) -> list[Optimum | None]:
        """The best mixture for each of several bounds, given by how much tighter they are [K]; each close to the last.

        The gap is as small as in `Bundle.solve`. None where small changes do not get there.
        """
        found: list[Optimum | None] = []
        last = None
        for amounts in tightened:
            place = self.approach(amounts, tolerance)
            if last is not None:  # with policies on either side of it now
                found.append(self.settle(last, tolerance))
            last = place
        if last is not None:
            found.append(self.settle(last, tolerance))
        return found

    def approach(self, tightened: Floats, tolerance: float) -> Place:
        """Come to bounds that are so much tighter [K], close to the last ones."""
        return self._approach(tightened / self._units.scales, tolerance)

    def _approach(self, moved: Floats, tolerance: float) -> Place:
        """Find an upper bound, the policy there, and one that keeps the bounds to second order."""
        origin, reliable = self._nearby.prices, True
        for _ in range(_STEPS):
            nearby, margins = self._nearby, self._margins[self._anchor] - moved
            step = _step(nearby, margins)
            if step.at_the_edge:
                nearby.widen(np.maximum(_WIDEN * nearby.widths, self._widths))
                self._widths, step = nearby.widths, _step(nearby, margins)
            promised = self._rewards[self._anchor] + step.gain
            upper, allowed = self._upper(moved, tolerance)
            if _rounding(step.prices) > allowed:  # an upper bound there would be no better than the one that is known
                break
            if not step.at_the_edge:
                if _CLOSE * allowed < upper - promised < _NEARLY * allowed:
                    self._solve(step.prices, _INNER * allowed, step)
                    upper, allowed = self._upper(moved, tolerance)
                if upper - promised <= _CLOSE * allowed:
                    break
            if not reliable:
                # With few states no change is small. The cuts of all policies found so far do not promise too much.
                best, width = self._prices[self._best(moved)], 2.0 * np.abs(step.prices - nearby.prices)
                # That policies are not known better than to their errors is no reason to pay more.
                loosely = moved - 0.5 * _SLACK - self._errors.max()
                prices, _ = self._combined(loosely, np.maximum(best - width, 0.0), best + width)
                step = step._replace(prices=prices)
            self._move(step.prices, allowed, step)
            reliable = upper - self._upper(moved, tolerance)[0] >= _RELIABLE * (upper - promised)
        self._add_changed(nearby, step)
        distance = np.abs(self._nearby.prices - origin)
        self._widths = np.maximum(np.maximum(_WIDEN * distance, 0.3 * distance.max(initial=0.0)), 0.25 * self._widths)
        return Place(moved, self._nearby, self._anchor, len(self._rewards) - 1)

    def settle(self, place: Place, tolerance: float) -> Optimum | None:
        """The best mixture at a place, if its gap is small enough; better when the next one has been approached."""
        for again in (False, True):
            moved = place.moved
            if again:  # from a policy that is best here
                self._nearby, self._anchor = place.nearby, place.anchor
                step = place.nearby.best(self._margins[place.anchor] - moved)
                self._move(step.prices, self._upper(moved, tolerance)[1], step)
                place = self._approach(moved, tolerance)
            weights, made, aim = self._mix(moved, tolerance), place.made, self._margins[place.anchor] - moved
            for correction in range(_CORRECTIONS):
                if weights is not None:
                    return self._mixture(moved, weights)
                # The policy made here missed the bounds by something of second order, and its neighbours do not make
                # up for it. Aim as far to the other side, so that half of each will hit; then ever closer, but inside.
                missed = self._margins[made] - moved
                aim = aim + (2.0 * missed if correction == 0 else missed - np.abs(missed))
                self._add_changed(place.nearby, place.nearby.best(aim))
                weights, made = self._mix(moved, tolerance), len(self._rewards) - 1
        return None if weights is None else self._mixture(moved, weights)

    def known(self) -> tuple[Optimum, bool]:
        """The best mixture of the policies found so far at the bounds as given, and whether it is in bounds."""
        moved = np.zeros(len(self._widths))
        weights = self._mix(moved, np.inf)
        return self._mixture(moved, self._best_weights(moved) if weights is None else weights), weights is not None

    def _best_weights(self, moved: Floats) -> Floats:
        """Of the best mixture of the policies found so far, [J]; of one close to the bounds, if none is in bounds."""
        none, most = np.zeros(len(moved)), np.full(len(moved), _LARGEST_PRICE)
        return self._combined(moved, none, most)[1]

    def _mix(self, moved: Floats, tolerance: float) -> Floats | None:
        """The weights [J] of the best mixture of the policies found so far, if it is in bounds and good enough."""
        weights = self._best_weights(moved)
        upper, allowed = self._upper(moved, tolerance)
        error = float(np.sum(weights * self._errors))
        in_bounds = np.all(np.sum(weights[:, None] * self._margins, axis=0) - moved - error >= -_SLACK)
        return weights if in_bounds and upper - float(np.sum(weights * self._rewards)) + error <= allowed else None

    def _combined(self, moved: Floats, lowest: Floats, highest: Floats) -> tuple[Floats, Floats]:
        """The prices [K] in a box at which the largest cut is least, and the weights [J] of the policies there."""
        # What is not known of a policy counts against it.
        values = np.column_stack([self._rewards, self._margins - moved]) - self._errors[:, None]
        worth = values[:, 0] + np.sum(values[:, 1:] * self._prices[self._best(moved)], axis=1)
        first, *others = np.argsort(-worth, kind="stable")[: 10 * (len(moved) + 1)]
        one_group = np.zeros(len(others), dtype=np.int64)
        weights = np.zeros(len(worth))
        prices, _, weights[others] = combine(
            values[others] - values[first], one_group, values[first, 1:].copy(), lowest, highest
        )
        weights[first] = max(1.0 - weights.sum(), 0.0)
        return prices, weights / weights.sum()

    def _mixture(self, moved: Floats, weights: Floats) -> Optimum:
        occupancy = np.zeros(len(self._objective))
        for j in np.flatnonzero(weights):
            entries, time = self._policies[j]
            occupancy[entries] += weights[j] * time
        best = self._best(moved)
        relief = float(np.sum(self._prices[best] * moved))
        return Optimum(
            occupancy=occupancy,
            prices=self._units.prices(self._prices[best]),
            value_function=self._units.value_function(self._value_functions[best] - self._criterion.level(relief)),
            upper_bound=self._units.value(float(self._uppers[best] - relief)),
            unconstrained_solves=self.unconstrained_solves,
        )

    def _best(self, moved: Floats) -> int:
        """Where the upper bound is least."""
        return int(np.argmin(self._uppers - np.sum(self._prices * moved, axis=1)))

    def _upper(self, moved: Floats, tolerance: float) -> tuple[float, float]:
        """The upper bound on the optimum, and the gap allowed below it."""
        upper = float(np.min(self._uppers - np.sum(self._prices * moved, axis=1)))
        return upper, self._units.gap_allowed(tolerance, upper)

    def _move(self, prices: Floats, allowed: float, step: Step | None = None, expected: Found | None = None) -> None:
        """Solve at `prices`, and take small changes from the policy there."""
        found = self._solve(prices, _INNER * allowed, step, expected)
        time, values = (None, None) if step is None else (self._nearby.time, self._nearby.values)
        self._accuracy = min(_ACCURACY, _PRICED_ACCURACY * allowed / (1.0 + float(prices.sum())))
        time = self._criterion.time(found, _ROUGHLY * self._accuracy, time)
        self._nearby = Nearby(self._criterion, found, time, self._signals, prices, self._widths, values)
        self._anchor = len(self._rewards)
        self._add(found.chosen, time, _ROUGHLY * self._accuracy)

    def _solve(self, prices: Floats, tolerance: float, step: Step | None, expected: Found | None = None) -> Found:
        """An upper bound at `prices`, and the best policy there, which may be that of `step`, or as `expected`."""
        # Not a product of matrices: BLAS would wake all cores for it.
        reward = self._objective + np.einsum("k,kn->n", prices, self._signals)
        start = expected if step is None else self._nearby.expect(step, reward)
        if limit := self.limits.reached(self.unconstrained_solves):
            raise Stopped(limit)
        deadline = self.limits.deadline
        found = self._criterion.solve(reward, tolerance, start, _SETTLED, keep_backups=True, deadline=deadline)
        if self.limits.over:
            raise Stopped(TIME)
        self._prices = np.vstack([self._prices, prices])
        self._uppers = np.append(self._uppers, found.upper + _rounding(prices))
        self._value_functions.append(found.value_function)
        return found

    def _add_changed(self, nearby: Nearby, step: Step) -> None:
        self._add_policy(nearby.probabilities(step), nearby.time)

    def _add_policy(self, taken: Floats, time: Floats) -> None:
        """One that takes entries with probabilities `taken` [N], and is at each place for about `time` [M]."""
        if self.limits.over:
            raise Stopped(TIME)
        try:
            followed = self._criterion.follow(taken, time, self._accuracy)
        except InvalidInput:  # an average of a policy that falls into several classes: no policy to mix
            return
        entries = np.flatnonzero(taken != 0.0)
        time = np.maximum(followed.time, 0.0)[self._places[entries]]
        self._add(entries, time * taken[entries], self._accuracy)

    def _add(self, entries: Ints, time: Floats, error: float) -> None:
        self._policies.append((entries, time))
        self._errors = np.append(self._errors, error)
        self._rewards = np.append(self._rewards, np.sum(time * self._objective[entries]))
        self._margins = np.vstack([self._margins, [np.sum(time * signal[entries]) for signal in self._signals]])


def _rounding(prices: Floats) -> float:
    """What rounding can take of an upper bound at scaled prices [K]."""
    return _ROUNDING * (1.0 + float(prices.sum()))


def _step(nearby: Nearby, margins: Floats) -> Step:
    """The best small changes for margins [K]; at the edge of what prices may be, half of what rounding takes is free.

    Two bounds that leave one signal no room have prices without an end, of which only the difference matters. Rounding
    alone would push them on, from place to place, until nothing is left of the digits of upper bounds.
    """
    step = nearby.best(margins)
    return nearby.best(margins + 0.5 * _SLACK) if step.at_the_edge else step
