"""Few coins: a best policy that randomises at no more places than there are constraints, at any size.

Let a deterministic policy, the *base*, be at place s for the time x(s), and let y_i be its vector for signal i (the
reward for i = 0, margin k for i = k): m_i - E y_i is the same at all the entries that it takes. Any other entry p has
the advantage A_i(p), by which m_i - E y_i is larger there than where the base is. The first identity of the contract
(`inbounds.criteria.contract`) holds for ANY occupancy; so if other entries p_1, p_2, ... take the amounts z_1, z_2, ...
of an occupancy, and the base has the rest, then exactly, and for every criterion,

    value i  =  value i of the base  +  sum_j z_j A_i(p_j).

A basis of the occupancy program consists of one base entry at each place and K *columns*: entries, or the slack of a
constraint that does not bind. Its Schur complement is the K x K matrix T with T_kj = A_k(p_j), and - e_k for a slack:

    amounts   T z = - margins of the base,        prices   A_0(p_j) + u . A(p_j) = 0 for all j.

What the base itself keeps at a place is the value of the signal that is 1 at its entry there and 0 elsewhere, so it
follows from the same identity. The basis is a policy if and only if z >= 0 and the base keeps something >= 0 at the
places of its columns: elsewhere it keeps what a policy keeps. That policy randomises at no more than K places.

It is found as the simplex method would, but from where the bundle ended, with all entries but K out of sight:

1. The policy that is best at the bundle's prices is the base. Changes that could pay at prices nearby, typically some
   hundreds, go into the linear program of `inbounds.exact.nearby`, on HiGHS. At its corner most changes are whole: they
   go into the base. The others are the columns. As a rule the second such step changes nothing, and that is the end.
2. Where it is not, the dual simplex method goes on: it exchanges one column at a time, which takes a pass over all
   entries and the solution of a K x K system; only where the base would keep less than nothing do it and a column
   change places, and the new base is evaluated.

For any prices u the best value of the reward plus the priced margins is an upper bound on the optimum. With the prices
of the basis it is what the base itself has, if no entry has a positive A_0 + u . A: this proves the policy optimal, to
rounding, whatever led there. Inside, reward and margins are scaled to [-1, 1].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.criteria import criterion_of
from inbounds.criteria.contract import ACCURACY, Followed, Found
from inbounds.errors import InvalidInput
from inbounds.exact.highs import INFINITE, Columns, basic_minimum
from inbounds.exact.limits import NO_LIMITS, Limits
from inbounds.exact.optimum import Optimum, Units, flat_margins
from inbounds.problem.cmdp import CMDP

_LEAST = 1e-11
"""Changes of the whole policy that are worth less are left out: a coin there could not be set."""

_MOST_CHANGES = 20_000
"""In one linear program: those that are worth most."""

_ROUNDS, _PATIENCE = 25, 5
"""Linear programs, at most; and after how many of them the dual simplex method takes over where they still move."""

_PIVOTS = 400
"""Of the dual simplex method, at most: it is finite but for going round in circles."""

_WIDEN = 3.0
"""By this factor the prices may move further, while the best are at the edge of what they may be."""

_MOST_COINS = 300
"""Of a mixture whose vertex is looked for among what it takes: each costs a vector."""

_STEP = 1e-6
"""How far inside the bounds a basis is looked for that is one a hair's breadth inside: HiGHS has nine digits."""

_GOAL = 1e-2
"""The share of the gap allowed at which a vertex is good enough. It is either at rounding or far away."""

_ROUNDING = 1e-14
"""Amounts of an occupancy that are below zero by less are zero; as are prices."""

_TIME = 1e-12
"""How accurately it is found out where a policy with several averages stays."""

_DISPLACED = 1e-2
"""Where one unit of an entry takes less than this from the base at its place, the next base is evaluated afresh."""

_DEGENERATE = 1e-11
"""Scaled amounts, and worths of entries, that may as well be zero: what hinges on them is not told."""

_LEVEL = 1e-6
"""m - E y must be the same at all entries of a base, up to this: it is not where an average has several classes."""

_ROUGH = 1e-7
"""The same of the first base, of which only the changes that pay matter: those of the next are told apart exactly."""

_ROUGH_TIME = 1e-8
"""How accurately the time of a base is known: it says which changes matter, and nothing is computed from it."""


class Base(NamedTuple):
    """A deterministic policy, evaluated; everything is scaled."""

    chosen: Ints  # [M]
    time: Floats  # [M]
    values: Floats  # [1 + K, M], the vectors y
    gains: Floats  # [1 + K], m - E y at the entries chosen
    levels: Floats  # [1 + K], the value of the objective, and the margins
    advantages: Floats  # [1 + K, N]
    followed: Followed
    rough: bool = False  # whether all this is only roughly so


class Vertex(NamedTuple):
    """A vertex of the occupancy program: a base with at most K columns; everything is scaled."""

    chosen: Ints  # [M], the entries of the base
    extras: Ints  # [J], entries with a share
    places: Ints  # [J], where
    binding: Ints  # [J], the constraints that are met with equality
    effects: Floats  # [1 + K, J], of one unit of an extra on the objective and the margins
    displaced: Floats  # [J, J], what one unit of the second extra takes from the base at the place of the first
    amounts: Floats  # [J], of the occupancy
    kept: Floats  # [J], by the base, at the places of the extras
    levels: Floats  # [1 + K], the value of the objective, and the margins
    prices: Floats  # [K]
    pinned: bool = False  # a margin is exactly 0, has a price, and nothing in the basis keeps it so: no bound may move

    def probabilities(self, n_entries: int) -> Floats:
        """Of all entries, [N]: 1 or 0 but at the places of the extras."""
        taken = np.zeros(n_entries)
        taken[self.chosen] = 1.0
        for place in np.unique(self.places):
            here = self.places == place
            kept, amounts = max(float(self.kept[here][0]), 0.0), self.amounts[here]
            total = kept + float(amounts.sum())
            if total > 0.0:
                taken[self.chosen[place]], taken[self.extras[here]] = kept / total, amounts / total
        return taken

    def moved(self, tightened: Floats) -> Vertex | None:
        """The same basis where the bounds are `tightened` [K] further; None where it is no policy."""
        if len(self.extras) == 0:
            levels = self.levels - np.append(0.0, tightened)
            return self if np.all(levels[1:] >= 0.0) else None
        more = np.linalg.solve(self.effects[1 + self.binding], tightened[self.binding])
        amounts, kept = self.amounts + more, self.kept - np.sum(self.displaced * more, axis=1)
        levels = self.levels + np.sum(self.effects * more, axis=1)
        if amounts.min() < 0.0 or kept.min() < 0.0 or np.any(levels[1:] < tightened - _ROUNDING):
            return None
        return self._replace(amounts=amounts, kept=kept, levels=levels)

    def ranges(self) -> Floats:
        """How much tighter each bound can become, and how much looser (below zero), at constant prices: [K, 2].

        As a bound moves, amounts, what the base keeps, and the margins of constraints that do not bind change along
        straight lines. The basis stays optimal, for the prices do not change, until the first of them is zero.
        """
        result = np.zeros((len(self.levels) - 1, 2))
        for k in range(0 if self.pinned else len(result)):
            left, rates = self.rates(k)
            falls, rises = rates < 0.0, rates > 0.0
            result[k, 0] = np.max(-left[rises] / rates[rises], initial=-np.inf)
            result[k, 1] = np.min(-left[falls] / rates[falls], initial=np.inf)
        return result

    @property
    def slack(self) -> Ints:
        """The constraints that do not bind."""
        return np.setdiff1d(np.arange(len(self.levels) - 1), self.binding)

    def rates(self, k: int) -> tuple[Floats, Floats]:
        """What must not become less than zero, and how fast it grows as bound k is tightened.

        The amounts of the extras, what the base keeps at their places, and the margins that are not zero.
        """
        slack = self.slack
        left = np.concatenate([self.amounts, self.kept, self.levels[1 + slack]])
        if k in slack:
            return left, np.append(np.zeros(2 * len(self.extras)), np.where(slack == k, -1.0, 0.0))
        more = np.linalg.solve(self.effects[1 + self.binding], (self.binding == k).astype(float))
        lost = np.sum(self.displaced * more, axis=1)
        return left, np.concatenate([more, -lost, np.sum(self.effects[1 + slack] * more, axis=1)])


class Corner(NamedTuple):
    """A vertex, proved to be nearly optimal; everything is scaled."""

    corners: Corners
    base: Base
    vertex: Vertex
    upper: float
    value_function: Floats  # [M], which proves it at the prices of the vertex
    gap: float
    allowed: float  # what the gap may be
    better: Found | None = None  # at the prices, where the base is not the best

    def mixture(self, problem: CMDP, found: Optimum) -> Optimum:
        """In the units of `problem`, in the place of `found`."""
        units, criterion = self.units, self.corners.criterion
        followed = criterion.follow(self.vertex.probabilities(criterion.n_entries), self.base.time)
        prices, values = units.prices(self.vertex.prices), units.value_function(self.value_function)
        priced = problem.reward.ravel() + np.einsum("k,kn->n", prices, flat_margins(problem))
        excess = (criterion.backup(priced, values) - values[criterion.places]) / criterion.unit
        begin = criterion.start * float(np.sum(criterion.initial * values[criterion.layers[0].places]))
        least = -np.inf if criterion.mass_row else 0.0
        return found._replace(
            occupancy=criterion.time_at_entries(followed),
            prices=prices,
            value_function=values,
            # Never below what the values themselves say: half of the time rounding makes the excess negative.
            upper_bound=begin + sum(max(float(excess[la.entries].max()), least) for la in criterion.layers),
            corner=self,
        )

    def elsewhere(self, visited: Any, chosen: Ints) -> Corner:
        """The same, but that it takes the entries `chosen` [M] where it never comes: all but `visited`, bool [M]."""
        return self._replace(vertex=self.vertex._replace(chosen=np.where(visited, self.vertex.chosen, chosen)))

    @property
    def units(self) -> Units:
        """Between what is inside and what is the user's."""
        return self.corners.units

    def tightened(self, margins: Floats, spare: Floats | None = None) -> Corner | None:
        """The best vertex where the margins [K], scaled, must be so large; None if there is none, or none is found.

        The same coins, other probabilities; or where a coin has no room left, the neighbour of the vertex; or, given an
        occupancy [N] with a margin to `spare`, one that goes where that goes and the vertex never does.
        """
        if spare is not None:
            placed = self._beside(spare, margins)
            return None if placed is None else self._replace(base=placed[0], vertex=placed[1])
        missing = np.maximum(margins - self.vertex.levels[1:], 0.0)
        vertex = self.vertex.moved(missing)
        if vertex is not None:
            return self._replace(vertex=vertex)
        placed = self.corners.settle(self.base, self._columns, self.vertex.prices, margins, _PIVOTS, NO_LIMITS)
        return None if placed is None else self._replace(base=placed[0], vertex=placed[1])

    def _beside(self, spare: Floats, margins: Floats) -> tuple[Base, Vertex] | None:
        """The best vertex among what this one and another occupancy [N] take."""
        corners, criterion = self.corners, self.corners.criterion
        room = float(np.min(np.sum(corners.signals[1:] * spare, axis=1)))
        if not room > _STEP:
            return None
        followed = criterion.follow(self.vertex.probabilities(criterion.n_entries), self.base.time)
        both = (1.0 - _STEP / room) * criterion.time_at_entries(followed) + _STEP / room * spare
        chosen, time = criterion.largest(both), np.bincount(criterion.places, both, criterion.n_places)
        aims = np.maximum(margins, 0.5 * _STEP), margins
        return corners.among(
            both, np.where(time > 0.0, chosen, self.vertex.chosen), time, self.vertex.prices, aims, NO_LIMITS
        )

    def vectors(self) -> Floats:
        """The vectors [1 + K, M] of the policy that the vertex is: those of the base, and of what it has at the coins.

        With w_j those of marks at the places of the coins, y + sum_j b_j w_j is level at all places but these; where
        extras e of one of them have the shares q_e, the mean over the policy is, if the b_j fit: a system as large.
        """
        vertex = self.vertex
        if not len(vertex.extras):
            return self.base.values
        places, first, group = np.unique(vertex.places, return_index=True, return_inverse=True)
        kept, amounts = vertex.kept[first], vertex.amounts
        total = kept + np.bincount(group, amounts)
        kept, total = np.where(total > 0.0, (kept, total), 1.0)  # where it never comes, the policy is the base
        shares = np.where(group == np.arange(len(places))[:, None], amounts / total[group], 0.0)  # [J places, J]
        matrix = np.diag(kept / total) + np.sum(shares[:, None, :] * vertex.displaced[first], axis=2)
        weights = np.linalg.solve(matrix, np.sum(shares[:, None, :] * vertex.effects, axis=2))
        return self.base.values + np.einsum("ji,jm->im", weights, self.corners.marks(self.base, places))

    @property
    def _columns(self) -> list[int]:
        """The columns of the vertex, as `Corners.settle` takes them."""
        return [*map(int, self.vertex.extras), *(-1 - int(k) for k in self.vertex.slack)]

    def prices_beyond(self) -> Floats:
        """The price of each constraint where its bound leaves the range at constant prices, looser and tighter: [K, 2].

        At the end of a range one column of the basis is down to nothing. It leaves, another enters by the ratio test,
        and the next basis has the price: no evaluation is needed, but where it is the base that has nothing left at the
        place of a column. Infinite where nothing can enter, as no policy keeps a tighter bound. Not a number where the
        range has no end on that side; where several columns are down to nothing at once; and where what the base does
        at places that it never visits would not be best at the new prices.
        """
        eligible = self.corners.eligible(self.base)
        sides = (-1.0, 1.0)
        return np.array([[self._price_beyond(k, side, eligible) for side in sides] for k in range(self.corners.size)])

    def _price_beyond(self, k: int, side: float, eligible: tuple[Ints, Floats]) -> float:
        corners, columns, base, n_extras = self.corners, self._columns, self.base, len(self.vertex.extras)
        left, rates = self.vertex.rates(k)
        falls = np.flatnonzero(side * rates < 0.0)
        if not len(falls):
            return np.nan
        first = int(falls[np.argmin(left[falls] / np.abs(rates[falls]))])
        then = left + side * rates * (left[first] / abs(rates[first]))
        if self.vertex.pinned or np.count_nonzero(then <= _DEGENERATE) > 1:
            return np.nan
        leaving = first if first < n_extras else first - n_extras
        if n_extras <= first < 2 * n_extras:  # the same basis, but what was an extra is the base now
            entry = columns[leaving]
            columns[leaving] = int(base.chosen[corners.criterion.places[entry]])
            exchanged = corners.exchanged(base, entry, followed=False)
            if exchanged is None:
                return np.nan
            base = exchanged
        elif first >= 2 * n_extras:
            leaving = first - n_extras  # slacks are behind the extras
        system = corners.system(base, columns, self.vertex.prices)
        if system is None:
            return np.nan
        inverse, at = system
        entering = corners.entering(base, columns, eligible, at, inverse[leaving], -1.0)
        if entering is None:  # nowhere, or where the base never comes
            return np.inf if side > 0.0 and np.all(base.time > 0.0) else np.nan
        columns[leaving] = entering
        system = corners.system(base, columns, self.vertex.prices)
        if (
            system is None or np.max(corners.worth(base, system[1])) > _DEGENERATE
        ):  # it would act otherwise where it never is
            return np.nan
        price = float(system[1][k])
        # The optimum is concave in the bound. What is not is rounding.
        return max(price, 0.0) if side * (price - self.vertex.prices[k]) >= -_GOAL * abs(price) else np.nan


class Corners:
    """The vertices of one problem, looked for.

    Parameters
    ----------
    problem : CMDP
        As well scaled as can be, see `inbounds.exact.reachable`; with at least one constraint.
    """

    def __init__(self, problem: CMDP) -> None:
        self.criterion = criterion_of(problem)
        reward, self.scales = problem.reward.ravel(), problem.margin_scales
        self.units = Units.of(self.criterion, reward, self.scales)
        margins = flat_margins(problem) / self.scales[:, None]
        self.signals = np.vstack([self.units.objective(reward)[None, :], margins])
        self.size = problem.n_constraints
        self._marked: tuple[Base | None, dict[int, Floats]] = (None, {})

    # --- a vertex from what a solver found

    def find(self, found: Optimum, tolerance: float, limits: Limits) -> Corner | None:
        """The vertex at or next to a nearly optimal mixture; None where none is found that is as good as was asked for.

        (The average of a policy whose classes do not meet has none, for example.)
        """
        base = self._evaluate_first(*(found.best or self.mostly(found)), 0.0 if found.best is None else _ROUGH)
        if base is None:
            return None
        prices = found.prices * self.scales / self.units.spread
        widths, nowhere = np.maximum(1e-3 * prices, 1e-4), np.zeros(self.size)
        columns = self._columns_of(base, found) if found.best is None else []
        best: Corner | None = None
        for turn in range(_ROUNDS):
            if limits.over:
                break
            placed = self.settle(base, columns, prices, nowhere, 0, limits) if columns else None
            if placed is None:
                step = self.changed(base, prices, widths)
                if step is None:
                    break
                chosen, columns, new, widths = step
                moved, same = float(np.abs(new - prices).max(initial=0.0)), np.array_equal(chosen, base.chosen)
                prices, again = new, base if same and not base.rough else self.evaluate(chosen, base)
                if again is None:
                    break
                base = again
                most = _PIVOTS if same or turn >= _PATIENCE else 0
                placed = self.settle(base, columns, prices, nowhere, most, limits)
                if placed is None and most:
                    placed = self._from_artificials(base, prices, tolerance, limits)
                widths = np.maximum(_WIDEN * moved, np.maximum(1e-6 * prices, 1e-7))
            columns = []
            if placed is None:
                continue
            base, vertex = placed
            prices = vertex.prices
            corner = self._judged(base, vertex, tolerance, limits)
            if best is None or corner.gap < best.gap:
                best = corner
            if corner.gap <= _GOAL * corner.allowed:
                break
            again = None if corner.better is None else self._evaluate_found(corner.better, base)
            if again is None or np.array_equal(again.chosen, base.chosen):
                break
            base = again
        return best if best is not None and best.gap <= best.allowed else self._at(found, tolerance, limits)

    def _at(self, found: Optimum, tolerance: float, limits: Limits) -> Corner | None:
        """A vertex among what a mixture takes, as good as it is: where ties lead the search round in circles.

        Where its own prices do not prove it, those of the mixture do: then it says nothing of how far they hold.
        """
        prices, nowhere = found.prices * self.scales / self.units.spread, np.zeros(self.size)
        placed = self.among(found.occupancy, *self.mostly(found), prices, (nowhere, nowhere), limits)
        if placed is None:
            return None
        corner = self._judged(*placed, tolerance, limits)
        if corner.gap > corner.allowed:
            upper = (found.upper_bound - self.units.centre) / self.units.spread
            inside = (found.value_function - self.criterion.level(self.units.centre)) / self.units.spread
            vertex, gap = corner.vertex._replace(prices=prices, pinned=True), upper - float(corner.vertex.levels[0])
            corner = corner._replace(vertex=vertex, upper=upper, value_function=inside, gap=gap)
        return corner if corner.gap <= corner.allowed else None

    def among(
        self,
        occupancy: Floats,
        chosen: Ints,
        time: Floats,
        prices: Floats,
        aims: tuple[Floats, Floats],
        limits: Limits,
    ) -> tuple[Base, Vertex] | None:
        """The best vertex that takes only what an `occupancy` [N] takes, most often `chosen` [M]; None if none is found.

        With the amounts of all else that it takes as unknowns, the identity above is an exact program: a row for each
        constraint, and one for each place with a coin, where the base must not keep less than nothing. At a corner of
        it no more than K places have more than one entry that is not zero. The margins are to be at least the second
        of the `aims`; what is basic there is found at the first, which may be larger, as far as HiGHS can tell.
        """
        base = self._evaluate_first(chosen, time)
        if base is None:
            return None
        others = occupancy > _ROUNDING
        others[base.chosen] = False
        extras = np.flatnonzero(others)
        if not 0 < len(extras) <= _MOST_COINS:
            return None
        size, (kept, displaced), effects = self.size, self._kept(base, extras), base.advantages[:, extras]
        places, first, group = np.unique(self.criterion.places[extras], return_index=True, return_inverse=True)
        unit = np.bincount(self.criterion.places, occupancy, self.criterion.n_places)[places]
        table = np.vstack([effects[1:], displaced[first] / unit[:, None]]) * unit[group]
        corner = basic_minimum(
            Columns.dense(np.ascontiguousarray(table.T)),
            -effects[0] * unit[group],
            np.append(aims[0] - base.levels[1:], np.full(len(places), -INFINITE)),
            np.append(np.full(size, INFINITE), kept[first] / unit),
            np.full(len(extras), INFINITE),
        )
        if corner is None:
            return None
        switched, columns = base.chosen.copy(), [-1 - k for k in range(size) if corner.rows[k]]
        rest = kept[first] / unit - table[size:] @ corner.x
        for j, place in enumerate(places):
            options = [(float(corner.x[e]), int(extras[e])) for e in np.flatnonzero((group == j) & corner.columns)]
            options += [(float(rest[j]), int(base.chosen[place]))] * bool(corner.rows[size + j])
            options.sort(key=lambda option: -option[0])
            if options:
                switched[place] = options[0][1]
                columns += [entry for _, entry in options[1:]]
        again = self.evaluate(switched, base)
        return None if again is None else self.settle(again, columns, prices, aims[1], size, limits)

    def _evaluate_first(self, chosen: Ints, time: Floats, enough: float = 0.0) -> Base | None:
        """The policy that takes the entries `chosen` [M] and is at each place for `time` [M].

        Where it has several averages, it stays with the best of its classes, which is where the time is spent.
        """
        base = self._afresh(chosen, time, None, enough)
        if base is None and self.criterion.mass_row:
            taken = np.zeros(self.criterion.n_entries)
            taken[chosen] = 1.0
            base = self._afresh(np.flatnonzero(self.criterion.fill_in(taken, time > _TIME, chosen)), time, None, enough)
        return base

    def _evaluate_found(self, found: Found, near: Base) -> Base | None:
        if not self.criterion.mass_row:
            return self.evaluate(found.chosen, near)
        return self._evaluate_first(found.chosen, self.criterion.time(found, _TIME, near.time))

    def mostly(self, found: Optimum) -> tuple[Ints, Floats]:
        """The entries [M] that a mixture takes most often, and how long it is there."""
        criterion = self.criterion
        priced = self.signals[0] + np.einsum(
            "k,kn->n", found.prices * self.scales / self.units.spread, self.signals[1:]
        )
        inside = (found.value_function - criterion.level(self.units.centre)) / self.units.spread
        most = criterion.largest(found.occupancy)
        taken = np.zeros(criterion.n_entries)
        taken[most] = 1.0
        visited = found.occupancy[most] > 0.0
        taken = criterion.fill_in(taken, visited, criterion.greedy(priced, inside))
        time: Floats = np.bincount(criterion.places, found.occupancy, criterion.n_places).astype(np.float64)
        return np.flatnonzero(taken), time

    def _columns_of(self, base: Base, found: Optimum) -> list[int]:
        """The columns of the vertex that a mixture is, if it is one; else no columns."""
        margins = np.sum(self.signals[1:] * found.occupancy, axis=1)
        others = found.occupancy.copy()
        others[base.chosen] = 0.0
        columns = [int(entry) for entry in np.flatnonzero(others > _ROUNDING)]
        for k in np.argsort(-margins, kind="stable")[: self.size - len(columns)]:
            columns.append(-1 - int(k))
        return columns if len(columns) == self.size else []

    def _from_artificials(
        self, base: Base, prices: Floats, tolerance: float, limits: Limits
    ) -> tuple[Base, Vertex] | None:
        """The dual simplex method from the policy that is best at `prices` [K], and no columns but artificial ones."""
        size, allowed = self.size, self.units.gap_allowed(tolerance, 1.0)
        greedy = self._evaluate_found(self.best_at(prices, base, _GOAL * allowed, limits), base)
        if greedy is None:
            return None
        columns = [-1 - k if prices[k] <= 1e-12 else -1 - size - k for k in range(size)]
        return self.settle(greedy, columns, prices, np.zeros(size), _PIVOTS, limits)

    def _judged(self, base: Base, vertex: Vertex, tolerance: float, limits: Limits) -> Corner:
        """A vertex with the upper bound at its prices: from its base, or if that is not best there, from what is."""
        worth = self.worth(base, vertex.prices)
        upper, value_function = self.upper(base, vertex.prices, worth), self.value_function(base, vertex.prices)
        allowed, better = self.units.gap_allowed(tolerance, upper), None
        if upper - vertex.levels[0] > _GOAL * allowed:
            found = self.best_at(vertex.prices, base, _GOAL * allowed, limits)
            if found.upper < upper:
                upper, value_function = found.upper, found.value_function
            better = found
        return Corner(self, base, vertex, upper, value_function, upper - float(vertex.levels[0]), allowed, better)

    # --- a deterministic policy, and what changing it is worth

    def evaluate(self, chosen: Ints, near: Base | None) -> Base | None:
        """The policy that takes the entries `chosen` [M], as accurately as can be; None where it has no one average.

        It is begun from one nearby; where there are fewer changes than signals, each of them takes one vector.
        """
        if near is None:
            return self._afresh(chosen, None, None)
        places = np.flatnonzero(chosen != near.chosen)
        base: Base | None = near
        if near.rough or self.criterion.mass_row or len(places) > self.size:
            return self._afresh(chosen, near.time, near.values)
        for place in places:
            base = None if base is None else self.exchanged(base, int(chosen[place]))
        return base

    def _afresh(self, chosen: Ints, time: Floats | None, values: Floats | None, enough: float = 0.0) -> Base | None:
        """The same, begun from the time [M] and the vectors [1 + K, M] of a similar policy; `enough`: roughly."""
        criterion = self.criterion
        followed = self._followed(chosen, time)
        if followed is None:
            return None
        time = np.maximum(followed.time, 0.0)
        values = criterion.proof_vectors(followed, self.signals, values, enough)
        levels, gains, advantages = np.empty(len(values)), np.empty(len(values)), np.empty_like(self.signals)
        for i, (signal, y) in enumerate(zip(self.signals, values, strict=True)):
            excess = (criterion.backup(signal, y) - y[criterion.places]) / criterion.unit
            own = excess[chosen]
            gains[i] = own[0]
            if not np.ptp(own) <= _LEVEL * (1.0 + abs(gains[i])):
                return None
            # By the identity of the contract: what is wrong with the time counts only where m - E y is not level.
            levels[i] = self._begin(y) + np.sum(time * own)
            advantages[i] = excess - own[criterion.places]
        return Base(chosen, time, values, gains, levels, advantages, followed, enough > 0.0)

    def _followed(self, chosen: Ints, time: Floats | None) -> Followed | None:
        """The policy that takes the entries `chosen` [M], begun from a `time` [M]; None where it has no one average."""
        taken = np.zeros(self.criterion.n_entries)
        taken[chosen] = 1.0
        try:  # the vectors of averages are made from the time
            return self.criterion.follow(taken, time, ACCURACY if self.criterion.mass_row else _ROUGH_TIME)
        except InvalidInput:
            return None

    def _begin(self, y: Floats) -> float:
        """The part of a value that is in the vector y [M] itself; the other is m - E y."""
        criterion = self.criterion
        return float(criterion.start * np.sum(criterion.initial * y[criterion.layers[0].places]))

    def worth(self, base: Base, prices: Floats) -> Floats:
        """What the entries [N] gain over the base, of the reward and the priced margins."""
        return base.advantages[0] + np.einsum("k,kn->n", prices, base.advantages[1:])

    def upper(self, base: Base, prices: Floats, worth: Floats) -> float:
        """The upper bound that the vectors of a base prove at `prices` [K]."""
        value = float(base.levels[0] + np.sum(prices * base.levels[1:]))
        return value + sum(max(float(worth[layer.entries].max()), 0.0) for layer in self.criterion.layers)

    def value_function(self, base: Base, prices: Floats) -> Floats:
        """The value [M] of the reward and the priced margins under a base."""
        weights = np.append(1.0, prices)
        y = np.einsum("k,km->m", weights, base.values)
        return y + self.criterion.level(float(np.sum(weights * base.gains))) if self.criterion.own else y

    def best_at(self, prices: Floats, base: Base, allowed: float, limits: Limits) -> Found:
        """The policy that is best at `prices` [K], begun from a base."""
        priced = self.signals[0] + np.einsum("k,kn->n", prices, self.signals[1:])
        begin = self.criterion.expect(priced, base.chosen, self.value_function(base, prices))
        return self.criterion.solve(priced, max(0.1 * allowed, _ROUNDING), begin, deadline=limits.deadline)

    def marks(self, base: Base, places: Ints) -> Floats:
        """The vectors of a base for what it has at some places: of the signals that are 1 at its entry there, [J, M].

        Those of the last base are kept.
        """
        if self._marked[0] is not base:
            self._marked = (base, {})
        known = self._marked[1]
        missing = [int(place) for place in np.unique(places) if int(place) not in known]
        # At once only where they share a factorisation that is not kept: they are long.
        step = max(len(missing), 1) if self.criterion.mass_row else 1
        for first in range(0, len(missing), step):
            some = missing[first : first + step]
            marks = np.zeros((len(some), self.criterion.n_entries))
            marks[np.arange(len(some)), base.chosen[some]] = 1.0
            known.update(zip(some, self.criterion.proof_vectors(base.followed, marks), strict=True))
        return np.array([known[int(place)] for place in places])

    def _kept(self, base: Base, extras: Ints) -> tuple[Floats, Floats]:
        """What the base has at the places of extras [J], and what one unit of each takes from it there, [J, J]."""
        places, displaced = self.criterion.places[extras], np.empty((len(extras), len(extras)))
        kept = np.empty(len(extras))
        for j, (place, y) in enumerate(zip(places, self.marks(base, places), strict=True)):
            level = self._excess(base.chosen[place], y, base.chosen[places])
            kept[j] = self._begin(y) + len(self.criterion.layers) * level[j]
            displaced[j] = level - self._excess(base.chosen[place], y, extras)
        return kept, displaced

    def exchanged(self, base: Base, entry: int, followed: bool = True) -> Base | None:
        """The base that takes `entry` instead of its own at that place; None where it has no one average.

        Without `followed` its time and its levels are those of the base still, and only its advantages are new. Its
        vectors follow from those of the base and the vector w of what that has there: y_i + a_i w is level on all
        entries of the new base for one number a_i. So one time per place is to be found instead of 1 + K vectors more.
        """
        criterion, place = self.criterion, int(self.criterion.places[entry])
        chosen, mark = base.chosen.copy(), np.zeros(self.criterion.n_entries)
        chosen[place], mark[base.chosen[place]] = entry, 1.0
        w = self.marks(base, np.array([place]))[0]
        excess = (criterion.backup(mark, w) - w[criterion.places]) / criterion.unit
        own = excess[base.chosen]
        displacing = excess - mark - own[criterion.places]
        if not -displacing[entry] > _DISPLACED:
            return self._afresh(chosen, base.time, base.values)
        shares = -base.advantages[:, entry] / displacing[entry]
        new = base._replace(
            chosen=chosen,
            values=base.values + shares[:, None] * w,
            gains=base.gains + shares * own[0],
            advantages=base.advantages + shares[:, None] * displacing,
        )
        if not followed:
            return new
        follows = self._followed(chosen, base.time)
        if follows is None:
            return None
        kept = self._begin(w) + len(criterion.layers) * own[0]
        new = new._replace(time=np.maximum(follows.time, 0.0), levels=base.levels + shares * kept, followed=follows)
        # The vectors of marks change as all others do; and the mark at this place is at another entry now.
        marked = {place: w / -displacing[entry]}
        for other, y in self._marked[1].items():
            if other != place:
                there, here = self._excess(base.chosen[other], y, np.array([entry, base.chosen[place]]))
                marked[other] = y - (there - here) / displacing[entry] * w
        self._marked = (new, marked)
        return new

    def _excess(self, marked: int, y: Floats, entries: Ints) -> Floats:
        """m - E y at some entries, where m is 1 at the entry `marked` and 0 elsewhere."""
        criterion, n_pairs, result = self.criterion, self.criterion.pairs.n_pairs, np.empty(len(entries))
        for j, entry in enumerate(entries):
            layer, pair = criterion.layers[entry // n_pairs], int(entry % n_pairs)
            ahead, row = 0.0, slice(layer.transition.indptr[pair], layer.transition.indptr[pair + 1])
            if layer.next_places is not None:
                ahead = float(np.sum(layer.transition.data[row] * y[layer.next_places][layer.transition.indices[row]]))
            back = criterion.reach * criterion.unit * ahead - y[criterion.places[entry]]
            result[j] = float(entry == marked) + back / criterion.unit
        return result

    # --- the linear program of small changes

    def changed(self, base: Base, prices: Floats, widths: Floats) -> tuple[Ints, list[int], Floats, Floats] | None:
        """The best small changes of a base at prices near `prices` [K]: entries [M], columns, the new prices, widths.

        Entries are those of the next base. None when HiGHS finds no optimum.
        """
        for _ in range(8):
            entries = self._candidates(base, prices, widths)
            step = self._corner(base, entries, prices, widths)
            if step is None or not step[1] or widths.max() > 1e3:
                break
            widths = _WIDEN * widths
        if step is None:
            return None
        corner, _ = step
        new = np.maximum(corner.duals[: self.size], 0.0)
        chosen, columns = self._switched(base, entries, corner, prices, widths)
        # Where the base hardly ever is, nothing can be told from values, and the best at the prices is as good as any.
        if not self.criterion.mass_row:
            worth = self.worth(base, new)
            best = self.criterion.largest(worth)
            rare = (base.time * np.max(np.abs(base.advantages[:, best]), axis=0) <= _LEAST) & (worth[best] > _ROUNDING)
            rare[self.criterion.places[[c for c in columns if c >= 0]]] = False
            chosen = np.where(rare, best, chosen)
        return chosen, columns, new, widths

    def _candidates(self, base: Base, prices: Floats, widths: Floats) -> Ints:
        """Entries [J] that could pay at prices within the widths."""
        worth = self.worth(base, prices)
        for width, advantage in zip(widths, base.advantages[1:], strict=True):
            worth += width * np.abs(advantage)
        near = np.flatnonzero(worth >= 0.0)
        share = base.time[self.criterion.places[near]]
        near = near[share * np.max(np.abs(base.advantages[:, near]), axis=0) > _LEAST]
        near = near[base.chosen[self.criterion.places[near]] != near]
        if len(near) > _MOST_CHANGES:
            most = np.argsort(-base.time[self.criterion.places[near]] * worth[near], kind="stable")[:_MOST_CHANGES]
            near = np.sort(near[most])
        return near

    def _corner(self, base: Base, entries: Ints, prices: Floats, widths: Floats) -> Any:
        """The corner of the program, and whether better prices may lie outside the widths."""
        size, places = self.size, self.criterion.places[entries]
        effects = base.advantages[:, entries] * base.time[places]
        missing = -base.levels[1:]
        lowest, highest = np.maximum(prices - widths, 0.0), prices + widths
        unit = max(float(np.abs(effects).max(initial=0.0)), 1e-3 * float(np.abs(missing).max(initial=0.0)), 1e-12)
        # A row for each place with several changes. Then K columns of what is missing and K of what is to spare.
        row = self._rows(places)
        in_row, n_rows = row >= 0, 1 + int(row.max(initial=size - 1))
        lengths = np.concatenate([size + in_row, np.ones(2 * size, dtype=np.int64)])
        starts = np.append(0, np.cumsum(lengths))
        rows, values = np.empty(starts[-1], dtype=np.int64), np.empty(starts[-1])
        for k in range(size):
            at = starts[: len(entries)] + k
            rows[at], values[at] = k, effects[1 + k] / unit
        last = starts[1 : len(entries) + 1][in_row] - 1
        rows[last], values[last] = row[in_row], 1.0
        ends = starts[len(entries) : -1]
        rows[ends], values[ends] = np.tile(np.arange(size), 2), np.repeat([1.0, -1.0], size)
        free = np.full(n_rows - size, -INFINITE)
        corner = basic_minimum(
            Columns(starts, rows, values),
            np.concatenate([-effects[0] / unit, highest, -lowest]),
            np.append(missing / unit, free),
            np.append(missing / unit, np.ones(n_rows - size)),
            np.concatenate([np.where(in_row, INFINITE, 1.0), np.full(2 * size, INFINITE)]),
        )
        if corner is None:
            return None
        new = corner.duals[:size]
        return corner, bool(np.any((new >= highest * (1.0 - 1e-12)) | ((new <= lowest) & (lowest > 0.0))))

    def _rows(self, places: Ints) -> Ints:
        """The row of the program for each change, [J], behind the K margins; -1 where it is the only one at a place."""
        _, group, counts = np.unique(places, return_inverse=True, return_counts=True)
        several = counts > 1
        return np.where(several, self.size + np.cumsum(several) - 1, -1)[group]

    def _switched(
        self, base: Base, entries: Ints, corner: Any, prices: Floats, widths: Floats
    ) -> tuple[Ints, list[int]]:
        """The base [M] and the K columns that a corner of the program stands for.

        At each place the basic one with the largest share becomes the base, the others become columns.
        """
        size, places, chosen = self.size, self.criterion.places[entries], base.chosen.copy()
        shares, basic, row = corner.x[: len(entries)], corner.columns[: len(entries)], self._rows(places)
        columns: list[int] = []
        for place in np.unique(places[basic | (shares > 0.5)]):
            here = np.flatnonzero(places == place)
            options = [(float(shares[j]), int(entries[j])) for j in here if basic[j] or shares[j] > 0.5]
            # What the base keeps is the slack of the row; where there is none, the one change has bounds instead.
            if corner.rows[row[here[0]]] if len(here) > 1 else basic[here[0]]:
                options.append((1.0 - float(shares[here].sum()), int(base.chosen[place])))
            options.sort(key=lambda option: -option[0])
            chosen[place] = options[0][1]
            columns += [entry for _, entry in options[1:]]
        lacking, spare = corner.columns[len(entries) : len(entries) + size], corner.columns[len(entries) + size :]
        for k in range(size):
            if lacking[k] or (spare[k] and prices[k] > widths[k]):
                columns.append(-1 - size - k)
            elif spare[k]:
                columns.append(-1 - k)
        return chosen, columns

    # --- the dual simplex method, through the K x K system

    def settle(
        self, base: Base, columns: list[int], prices: Floats, aim: Floats, most: int, limits: Limits
    ) -> tuple[Base, Vertex] | None:
        """The vertex that a basis leads to within `most` pivots, and its base; None if that is none.

        A column is an entry p >= 0; the slack of constraint k, -1 - k; or an artificial one, -1 - K - k, which keeps
        price k at `prices` [K]. The basis is dual feasible where the base is best at its prices; pivots keep it so.
        """
        size, columns = self.size, list(columns)
        if len(columns) != size:
            return None
        eligible = self.eligible(base) if most else (np.empty(0, dtype=np.int64), np.empty(0))
        for left in range(most, -1, -1):
            if limits.over:
                break
            system = self.system(base, columns, prices)
            if system is None:
                return None
            inverse, at = system
            amounts = -inverse @ (base.levels[1:] - aim)
            wrong = np.where([-1 - column >= size for column in columns], np.abs(amounts), -amounts)
            if not np.all(np.isfinite(wrong)):
                return None
            if wrong.max() > _ROUNDING:
                leaving = int(np.argmax(wrong))
                sign = float(np.sign(amounts[leaving]))
                entering = self.entering(base, columns, eligible, at, inverse[leaving], sign) if left else None
                if entering is None:
                    return None
                columns[leaving] = entering
                continue
            if left and (exchanged := self._without_artificial(base, columns, eligible, at, inverse)):
                columns = exchanged
                continue
            vertex, over = self._vertex(base, columns, np.maximum(amounts, 0.0), np.maximum(at, 0.0))
            if over is None:
                return base, vertex
            # The same basis, but what was an extra is the base now.
            columns[columns.index(over)] = int(base.chosen[self.criterion.places[over]])
            again = self.exchanged(base, over) if left else None
            if again is None:
                return None
            base, eligible = again, self.eligible(again)
        return None

    def system(self, base: Base, columns: list[int], prices: Floats) -> tuple[Floats, Floats] | None:
        """The inverse [K, K] of the matrix of some columns, and their prices [K]; None where it has none."""
        size = self.size
        matrix, cost = np.zeros((size, size)), np.zeros(size)
        for j, column in enumerate(columns):
            if column >= 0:
                matrix[:, j], cost[j] = base.advantages[1:, column], base.advantages[0, column]
            else:
                kind, k = divmod(-1 - column, size)
                matrix[k, j], cost[j] = (1.0, -prices[k]) if kind else (-1.0, 0.0)
        try:
            inverse: Floats = np.linalg.inv(matrix).astype(np.float64)
        except np.linalg.LinAlgError:
            return None
        return inverse, -cost @ inverse

    def _without_artificial(
        self, base: Base, columns: list[int], eligible: tuple[Ints, Floats], prices: Floats, inverse: Floats
    ) -> list[int] | None:
        """The columns with another in the place of an artificial one whose amount is zero; None where none can be."""
        for j, column in enumerate(columns):
            if -1 - column >= self.size:
                for sign in (1.0, -1.0):
                    entering = self.entering(base, columns, eligible, prices, inverse[j], sign)
                    if entering is not None:
                        return [*columns[:j], entering, *columns[j + 1 :]]
        return None

    def eligible(self, base: Base) -> tuple[Ints, Floats]:
        """Entries [J] that can enter a basis: those of which something can be told; and the size of their effects."""
        sizes = np.max(np.abs(base.advantages[1:]), axis=0)
        matters = sizes * base.time[self.criterion.places] > _LEAST
        matters[base.chosen] = False
        entries = np.flatnonzero(matters)
        return entries, sizes[entries]

    def entering(
        self,
        base: Base,
        columns: list[int],
        eligible: tuple[Ints, Floats],
        prices: Floats,
        row: Floats,
        sign: float,
    ) -> int | None:
        """The column that enters for one that leaves with the `row` [K] of the inverse: by the ratio test."""
        entries, sizes = eligible
        pivots = sign * np.einsum("k,kn->n", row, base.advantages[1:])[entries]
        fine = pivots > 1e-11 * (1.0 + float(np.abs(row).max()) * sizes)
        fine &= ~np.isin(entries, columns)
        best, entering = np.inf, None
        if np.any(fine):
            here, pivots = entries[fine], pivots[fine]
            ratios = np.maximum(-self.worth(base, prices)[here], 0.0) / pivots
            best = float(ratios.min())
            near = np.flatnonzero(ratios <= best + _ROUNDING)
            entering = int(here[near[np.argmax(pivots[near])]])
        for k in range(self.size):
            pivot = -sign * row[k]
            if -1 - k not in columns and pivot > _ROUNDING and max(prices[k], 0.0) / pivot < best:
                best, entering = max(prices[k], 0.0) / pivot, -1 - k
        return entering

    def _vertex(self, base: Base, columns: list[int], amounts: Floats, prices: Floats) -> tuple[Vertex, int | None]:
        """The vertex of a basis with `amounts` [K] >= 0; and the first extra that leaves the base less than nothing."""
        position = np.array([j for j, column in enumerate(columns) if column >= 0], dtype=np.int64)
        extras = np.array([columns[j] for j in position], dtype=np.int64)
        loose = [(-1 - column) % self.size for column in columns if column < 0]
        binding = np.setdiff1d(np.arange(self.size), loose)
        effects = base.advantages[:, extras]
        shares = amounts[position]
        kept, displaced = self._kept(base, extras) if len(extras) else (np.empty(0), np.empty((0, 0)))
        kept = kept - np.sum(displaced * shares, axis=1)
        vertex = Vertex(
            chosen=base.chosen,
            extras=extras,
            places=self.criterion.places[extras],
            binding=binding,
            effects=effects,
            displaced=displaced,
            amounts=shares,
            kept=kept,
            levels=base.levels + np.sum(effects * shares, axis=1),
            prices=prices,
            pinned=any(
                -1 - column >= self.size and prices[(-1 - column) % self.size] > _ROUNDING for column in columns
            ),
        )
        over = np.flatnonzero(kept < 0.0)
        return vertex, int(extras[over[0]]) if len(over) else None
