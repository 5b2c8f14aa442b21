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

Averages know one thing more: the base must have one class, or it has no vectors. Let a vertex take T places and be one
class. It takes at most T + K entries (T - 1 rows of flow, one of mass, K margins), and from every place some of them
lead to any other; so one entry at each place can be chosen among them that all lead to one place, and the others, K at
most, are columns (`Criterion.together`). A vertex that falls apart into L classes is no policy's, and has K + 1 - L
entries besides: it is linked first (`Criterion.linked`), which takes coins of its own.

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
from inbounds.criteria.contract import Found
from inbounds.errors import InvalidInput
from inbounds.exact.bases import NOTHING, Base, Bases
from inbounds.exact.highs import INFINITE, Columns, basic_minimum
from inbounds.exact.limits import NO_LIMITS, Limits
from inbounds.exact.nearby import combine
from inbounds.exact.optimum import Optimum, Units, flat_margins
from inbounds.problem.cmdp import CMDP

_LEAST = 1e-11
"""Changes of the whole policy that are worth less are left out: a coin there could not be set."""

_MOST_CHANGES = 20_000
"""In one linear program: those that are worth most."""

_ROUNDS, _PATIENCE = 25, 5
"""Linear programs, at most; and after how many of them the dual simplex method takes over where they still move."""

_PIVOTS, _FEW_PIVOTS = 400, 60
"""Of the dual simplex method, at most: it is finite but for going round in circles; and where it is tried first."""

_FAILURES = 2
"""Times that it may lead nowhere from where a search is, or to nothing better: with many states each costs more than
the search itself."""

_WIDEN = 3.0
"""By this factor the prices may move further, while the best are at the edge of what they may be."""

_RARE_ROUNDS, _WORTH = 5, 1e-10
"""In which a base becomes the best where it hardly ever is, while an entry there is worth so much more: as a rule one,
after which prices are the same. What is worth less is rounding."""

_MOST_COINS = 300
"""Of a mixture whose vertex is looked for among what it takes: each costs a vector."""

_STEP = 1e-6
"""How far inside the bounds a basis is looked for that is one a hair's breadth inside: HiGHS has nine digits."""

_DEPENDENT = 1e13
"""A matrix whose condition is larger than this is singular but for rounding."""

GOAL = 1e-2
"""The share of the gap allowed at which a vertex is good enough. It is either at rounding or far away."""

_ROUGH = 1e-7
"""The same of the first base, of which only the changes that pay matter: those of the next are told apart exactly."""


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
    pinned: bool = False  # no bound may move: nothing in the basis keeps a margin at 0 that has a price, or `_apart`

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
        if amounts.min() < 0.0 or kept.min() < 0.0 or np.any(levels[1:] < tightened - NOTHING):
            return None
        return self._replace(amounts=amounts, kept=kept, levels=levels)

    @property
    def slack(self) -> Ints:
        """The constraints that do not bind."""
        return np.setdiff1d(np.arange(len(self.levels) - 1), self.binding)

    @property
    def columns(self) -> list[int]:
        """As `Corners.settle` takes them."""
        return [*map(int, self.extras), *(-1 - int(k) for k in self.slack)]


class Pivoted(NamedTuple):
    """Where the dual simplex method came to."""

    base: Base
    vertex: Vertex | None = None  # if it is one
    weights: Floats | None = None  # [K], of the margins: no policy seems to have what was aimed at


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
        if vertex is not None and self.corners.one_class(self.base, vertex):
            return self._replace(vertex=vertex)
        placed = self.corners.settle(self.base, self.vertex.columns, self.vertex.prices, margins, _PIVOTS, NO_LIMITS)
        return None if placed is None else self._replace(base=placed[0], vertex=placed[1])

    def _beside(self, spare: Floats, margins: Floats) -> tuple[Base, Vertex] | None:
        """The best vertex among what this one and another occupancy [N] take."""
        corners, criterion = self.corners, self.corners.criterion
        room = float(np.min(np.sum(corners.signals[1:] * spare, axis=1)))
        if not room > _STEP:
            return None
        followed = criterion.follow(self.vertex.probabilities(criterion.n_entries), self.base.time)
        both = (1.0 - _STEP / room) * criterion.time_at_entries(followed) + _STEP / room * spare
        time: Floats = np.bincount(criterion.places, both, criterion.n_places).astype(np.float64)
        weights = both.copy()
        weights[self.vertex.chosen[time == 0.0]] = 1.0
        aims = np.maximum(margins, 0.5 * _STEP), margins
        return corners.among(both, criterion.together(weights), time, self.vertex.prices, aims, NO_LIMITS)

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


class Corners(Bases):
    """The vertices of one problem, looked for."""

    # --- a vertex from what a solver found

    def find(self, found: Optimum, tolerance: float, limits: Limits, thorough: bool = True) -> Corner | None:
        """The vertex at or next to a nearly optimal mixture; None where none is found that is as good as was asked for.

        (The average of a policy whose classes do not meet has none, for example.) Unless the search is `thorough`, it
        ends where small changes and few pivots do not lead to one.
        """
        base = self.evaluate_first(*(found.best or self.mostly(found)), 0.0 if found.best is None else _ROUGH)
        if base is None:
            return None
        prices = found.prices * self.scales / self.units.spread
        given, widths, nowhere = prices, np.maximum(1e-3 * prices, 1e-4), np.zeros(self.size)
        columns = self._columns_of(base, found) if found.best is None else []
        best: Corner | None = None
        failures = 0
        for turn in range(_ROUNDS if thorough else _PATIENCE):
            good = best is not None and best.gap <= best.allowed
            if limits.over:
                break
            placed = self.settle(base, columns, prices, nowhere, 0, limits) if columns else None
            step = self.changed(base, prices, widths) if placed is None else None
            if placed is None and step is None:
                break
            if step is not None and turn == 0 and np.any(step[3] > widths):
                # The prices are nearly right, but no small change does: it leads to where the base hardly ever is.
                placed = self._from_artificials(base, prices, tolerance, _FEW_PIVOTS, limits)
            if step is not None and placed is None:
                chosen, columns, new, widths = step
                moved, same = float(np.abs(new - prices).max(initial=0.0)), np.array_equal(chosen, base.chosen)
                prices, again = new, base if same and not base.rough else self.evaluate(chosen, base)
                if again is None:
                    break
                base = again
                most = _PIVOTS if (same or turn >= _PATIENCE) and failures < _FAILURES and not good else 0
                placed = self.settle(base, columns, prices, nowhere, most, limits)
                if placed is None and most:
                    placed = self._from_artificials(base, given, tolerance, _PIVOTS, limits)
                    failures += placed is None
                widths = np.maximum(_WIDEN * moved, np.maximum(1e-6 * prices, 1e-7))
            columns = []
            if placed is None and good:
                break
            if placed is None:
                continue
            base, vertex = placed
            prices = vertex.prices
            corner = self.judged(base, vertex, tolerance, limits)
            if best is None or corner.gap < best.gap:
                best = corner
            else:  # in circles
                failures += 1
            if corner.gap <= GOAL * corner.allowed:
                break
            again = None if corner.better is None else self.evaluate_found(corner.better, base)
            if again is None or np.array_equal(again.chosen, base.chosen):
                break
            base = again
        if best is not None and best.gap <= best.allowed:
            return self.best_where_rare(best, tolerance, limits)
        return self._at(found, tolerance, limits) if thorough else None

    def best_where_rare(self, corner: Corner, tolerance: float, limits: Limits) -> Corner:
        """The same columns, on a base that is best at the prices wherever it comes, however rarely.

        The gap of a vertex does not feel what is done at places of a time below its digits, nor does the solver that
        led there. Those who begin at such a place, or read the policy, do.
        """
        for _ in range(_RARE_ROUNDS):
            base, vertex = corner.base, corner.vertex
            if vertex.pinned or limits.over or not np.any(self.worth(base, vertex.prices) > _WORTH):
                break
            chosen = self._better(base, vertex, limits)
            again = None if np.array_equal(chosen, base.chosen) else self.evaluate(chosen, base)
            if again is None:
                break
            placed = self.settle(again, vertex.columns, vertex.prices, np.zeros(self.size), self.size, limits)
            if placed is None:
                break
            better = self.judged(*placed, tolerance, limits)
            if better.gap > max(corner.gap, GOAL * corner.allowed):  # its own prices may allow anything
                break
            corner = better
        return corner

    def _better(self, base: Base, vertex: Vertex, limits: Limits) -> Ints:
        """The entries [M] of a base; where one loses at the prices of the vertex, and has no share of a coin, the best.

        Averages: only where the vertex comes; elsewhere it goes to where it stays.
        """
        criterion = self.criterion
        better = self.best_instead(base.chosen, vertex.prices, self.best_at(vertex.prices, base, 0.0, limits))
        free = criterion.reached
        if criterion.mass_row:
            free = criterion.follow(vertex.probabilities(criterion.n_entries), base.time).time > 0.0
        free = free & ~np.isin(np.arange(criterion.n_places), vertex.places)
        return np.where(free, better, base.chosen)

    def _at(self, found: Optimum, tolerance: float, limits: Limits) -> Corner | None:
        """A vertex among what a mixture takes, as good as it is: where ties lead the search round in circles.

        Where its own prices do not prove it, those of the mixture do: then it says nothing of how far they hold.
        """
        prices, nowhere = found.prices * self.scales / self.units.spread, np.zeros(self.size)
        placed = self.among(found.occupancy, *self.mostly(found), prices, (nowhere, nowhere), limits)
        if placed is None:
            return None
        corner = self.judged(*placed, tolerance, limits)
        if corner.gap > corner.allowed:
            upper = self.units.inside(found.upper_bound)
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
        """The best vertex that takes only what an `occupancy` [N] takes, most often `chosen` [M]; or None.

        With the amounts of all else that it takes as unknowns, the identity above is an exact program: a row for each
        constraint, and one for each place with a coin, where the base must not keep less than nothing. At a corner of
        it no more than K places have more than one entry that is not zero. The margins are to be at least the second
        of the `aims`; what is basic there is found at the first, which may be larger, as far as HiGHS can tell.
        """
        base = self.evaluate_first(chosen, time)
        if base is None:
            return None
        others = occupancy > NOTHING
        others[base.chosen] = False
        extras = np.flatnonzero(others)
        if len(extras) == 0:  # a deterministic policy
            return self.settle(base, [-1 - k for k in range(self.size)], prices, aims[1], 0, limits)
        if len(extras) > _MOST_COINS:
            return None
        size, (kept, displaced), effects = self.size, self.kept(base, extras), base.advantages[:, extras]
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
        basic, weights = np.zeros(self.criterion.n_entries, dtype=bool), occupancy.copy()
        basic[base.chosen], basic[base.chosen[places]] = True, corner.rows[size:]
        basic[extras] = corner.columns
        weights[extras] = corner.x * unit[group]
        weights[base.chosen[places]] = kept[first] - (table[size:] @ corner.x) * unit
        switched = self.criterion.together(np.where(basic, np.maximum(weights, NOTHING), 0.0))
        basic[switched] = False
        columns = [*map(int, np.flatnonzero(basic)), *(-1 - k for k in range(size) if corner.rows[k])]
        again = self.evaluate(switched, base)
        return None if again is None else self.settle(again, columns, prices, aims[1], size, limits)

    def mostly(self, found: Optimum) -> tuple[Ints, Floats]:
        """The entries [M] that a mixture takes most often and that lead to one class, and how long it is there."""
        criterion = self.criterion
        priced = self.signals[0] + np.einsum(
            "k,kn->n", found.prices * self.scales / self.units.spread, self.signals[1:]
        )
        inside = (found.value_function - criterion.level(self.units.centre)) / self.units.spread
        time: Floats = np.bincount(criterion.places, found.occupancy, criterion.n_places).astype(np.float64)
        taken = np.where(found.occupancy > NOTHING, found.occupancy, 0.0)
        visited = np.bincount(criterion.places, taken, criterion.n_places) > 0.0
        return criterion.together(criterion.fill_in(taken, visited, criterion.greedy(priced, inside))), time

    def _columns_of(self, base: Base, found: Optimum) -> list[int]:
        """The columns of the vertex that a mixture is, if it is one; else no columns."""
        margins = np.sum(self.signals[1:] * found.occupancy, axis=1)
        others = found.occupancy.copy()
        others[base.chosen] = 0.0
        columns = [int(entry) for entry in np.flatnonzero(others > NOTHING)]
        for k in np.argsort(-margins, kind="stable")[: self.size - len(columns)]:
            columns.append(-1 - int(k))
        return columns if len(columns) == self.size else []

    def _from_artificials(
        self, base: Base, prices: Floats, tolerance: float, most: int, limits: Limits
    ) -> tuple[Base, Vertex] | None:
        """The dual simplex method from the policy that is best at `prices` [K], and no columns but artificial ones."""
        size, allowed = self.size, self.units.gap_allowed(tolerance, 1.0)
        greedy = self.evaluate_found(self.best_at(prices, base, GOAL * allowed, limits), base)
        if greedy is None:
            return None
        columns = [-1 - k if prices[k] <= 1e-12 else -1 - size - k for k in range(size)]
        placed = self.settle(greedy, columns, prices, np.zeros(size), most, limits)
        if placed is None:
            # Columns may lead to where the base never is. What it does there was best at the first prices, and pivots
            # from a base that is not the best lead nowhere; to keep it the best takes more pivots, as a rule a few.
            placed = self.settle(greedy, columns, prices, np.zeros(size), min(most, _FEW_PIVOTS), limits, rare=True)
        return placed

    def judged(self, base: Base, vertex: Vertex, tolerance: float, limits: Limits) -> Corner:
        """A vertex with the upper bound at its prices: from its base, or if that is not best there, from what is."""
        worth = self.worth(base, vertex.prices)
        upper, value_function = self.upper(base, vertex.prices, worth), self.value_function(base, vertex.prices)
        allowed, better = self.units.gap_allowed(tolerance, upper), None
        if upper - vertex.levels[0] > GOAL * allowed:
            found = self.best_at(vertex.prices, base, GOAL * allowed, limits)
            if found.upper < upper:
                upper, value_function = found.upper, found.value_function
            better = found
        return Corner(self, base, vertex, upper, value_function, upper - float(vertex.levels[0]), allowed, better)

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
        return self._greedy_where_rare(base, chosen, new, columns), columns, new, widths

    def _greedy_where_rare(self, base: Base, chosen: Ints, prices: Floats, columns: list[int]) -> Ints:
        """Where the base hardly ever is, nothing can be told from values, and the best at the prices is as good as any.

        But not at the places of `columns`.
        """
        if self.criterion.mass_row:
            return chosen
        worth = self.worth(base, prices)
        best = self.criterion.largest(worth)
        rare = (base.time * np.max(np.abs(base.advantages[:, best]), axis=0) <= _LEAST) & (worth[best] > NOTHING)
        rare[self.criterion.places[[c for c in columns if c >= 0]]] = False
        return np.where(rare, best, chosen)

    def likely(self, base: Base, prices: Floats, widths: Floats) -> tuple[Ints, int, Floats, Floats]:
        """As `changed`, without its corner, and always quick: entries [M], changes that matter, new prices, widths."""
        for _ in range(8):
            entries = self._candidates(base, prices, widths)
            places = self.criterion.places[entries]
            effects = np.ascontiguousarray((base.advantages[:, entries] * base.time[places]).T)
            lowest, highest = np.maximum(prices - widths, 0.0), prices + widths
            new, _, shares = combine(effects, places, base.levels[1:], lowest, highest)
            if not np.any((new >= highest) | ((new <= lowest) & (lowest > 0.0))) or widths.max() > 1e3:
                break
            widths = _WIDEN * widths
        chosen, most = base.chosen.copy(), shares > 0.5
        chosen[places[most]] = entries[most]
        return self._greedy_where_rare(base, chosen, new, []), int(np.count_nonzero(most)), new, widths

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
        self,
        base: Base,
        columns: list[int],
        prices: Floats,
        aim: Floats,
        most: int,
        limits: Limits,
        rare: bool = False,
    ) -> tuple[Base, Vertex] | None:
        """The vertex that a basis leads to within `most` pivots, and its base; None if that is none, or no policy's."""
        met = self.pivoted(base, columns, prices, aim, most, limits, rare)
        return None if met.vertex is None or not self.one_class(met.base, met.vertex) else (met.base, met.vertex)

    def pivoted(
        self,
        base: Base,
        columns: list[int],
        prices: Floats,
        aim: Floats,
        most: int,
        limits: Limits,
        rare: bool = False,
    ) -> Pivoted:
        """The same; or the base at which the pivots ended; and where nothing can enter, what no policy seems to have.

        A column is an entry p >= 0; the slack of constraint k, -1 - k; or an artificial one, -1 - K - k, which keeps
        price k at `prices` [K]. The basis is dual feasible where the base is best at its prices; pivots keep it so.
        """
        size, columns = self.size, list(columns)
        if len(columns) != size:
            return Pivoted(base)
        eligible = self.eligible(base, rare) if most else (np.empty(0, dtype=np.int64), np.empty(0))
        for left in range(most, -1, -1):
            if limits.over:
                break
            system = self.system(base, columns, prices)
            if system is None:
                break
            inverse, at = system
            amounts = -inverse @ (base.levels[1:] - aim)
            wrong = np.where([-1 - column >= size for column in columns], np.abs(amounts), -amounts)
            if not np.all(np.isfinite(wrong)):
                break
            if wrong.max() > NOTHING:
                leaving = int(np.argmax(wrong))
                sign = float(np.sign(amounts[leaving]))
                if not left:
                    break
                entering = self.entering(base, columns, eligible, at, inverse[leaving], sign)
                if entering is None:
                    return Pivoted(base, weights=np.maximum(sign * inverse[leaving], 0.0))
                columns[leaving] = entering
                continue
            if left and (exchanged := self._without_artificial(base, columns, eligible, at, inverse)):
                columns = exchanged
                continue
            vertex, over = self._vertex(base, columns, np.maximum(amounts, 0.0), np.maximum(at, 0.0))
            if over is None:
                return Pivoted(base, vertex)
            # The same basis, but what was an extra is the base now.
            columns[columns.index(over)] = int(base.chosen[self.criterion.places[over]])
            again = self.exchanged(base, over) if left else None
            if again is None:
                break
            base, eligible = again, self.eligible(again, rare)
        return Pivoted(base)

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
        # Where columns depend on each other, as where two constraints say the same, rounding may give it an inverse.
        if not (np.abs(matrix) @ np.abs(inverse)).max() <= _DEPENDENT:
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

    def eligible(self, base: Base, rare: bool = False) -> tuple[Ints, Floats]:
        """Entries [J] that can enter a basis: those of which something can be told; and the size of their effects.

        With `rare` those at places where the base hardly ever is as well.
        """
        sizes = np.max(np.abs(base.advantages[1:]), axis=0)
        matters = sizes > 0.0 if rare else sizes * base.time[self.criterion.places] > _LEAST
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
            near = np.flatnonzero(ratios <= best + NOTHING)
            entering = int(here[near[np.argmax(pivots[near])]])
        for k in range(self.size):
            pivot = -sign * row[k]
            if -1 - k not in columns and pivot > NOTHING and max(prices[k], 0.0) / pivot < best:
                best, entering = max(prices[k], 0.0) / pivot, -1 - k
        return entering

    def one_class(self, base: Base, vertex: Vertex) -> bool:
        """Averages: whether the policy of a vertex has its occupancy: not where extras make a class of their own.

        They do not where the base keeps something, however little: that leads to where the base stays.
        """
        if not self.criterion.mass_row or np.all((vertex.kept > 0.0) | (vertex.amounts <= 0.0)):
            return True
        try:
            return not self.criterion.follow(vertex.probabilities(self.criterion.n_entries), base.time).elsewhere
        except InvalidInput:
            return False

    def _apart(self, base: Base, extras: Ints) -> bool:
        """Averages: whether all extras are where the base does not stay. What has a share of them makes two classes.

        Then nothing flows to where the base stays, or from there, and what it keeps elsewhere does not say whether its
        own share is still >= 0: that could only be negative in a class which is closed and has no extra.
        """
        return bool(
            self.criterion.mass_row and len(extras) and not np.any(base.time[self.criterion.places[extras]] > 0.0)
        )

    def _vertex(self, base: Base, columns: list[int], amounts: Floats, prices: Floats) -> tuple[Vertex, int | None]:
        """The vertex of a basis with `amounts` [K] >= 0; and the first extra that leaves the base less than nothing."""
        position = np.array([j for j, column in enumerate(columns) if column >= 0], dtype=np.int64)
        extras = np.array([columns[j] for j in position], dtype=np.int64)
        loose = [(-1 - column) % self.size for column in columns if column < 0]
        binding = np.setdiff1d(np.arange(self.size), loose)
        effects = base.advantages[:, extras]
        shares = amounts[position]
        kept, displaced = self.kept(base, extras) if len(extras) else (np.empty(0), np.empty((0, 0)))
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
            pinned=any(-1 - column >= self.size and prices[(-1 - column) % self.size] > NOTHING for column in columns)
            or self._apart(base, extras),
        )
        over = np.flatnonzero(kept < 0.0)
        return vertex, int(extras[over[0]]) if len(over) else None
