"""Deterministic policies, evaluated: their values, and what changing them is worth.

What the letters stand for, and the identity on which all of it rests, is in `inbounds.exact.vertex`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.criteria import criterion_of
from inbounds.criteria.contract import ACCURACY, Followed, Found
from inbounds.errors import InvalidInput
from inbounds.exact.limits import Limits
from inbounds.exact.optimum import Units, flat_margins
from inbounds.exact.rare import best_instead
from inbounds.problem.cmdp import CMDP

NOTHING = 1e-14
"""Amounts of an occupancy that are below zero by less are zero; as are prices."""

_TIME = 1e-12
"""How accurately it is found out where a policy with several averages stays."""

_DISPLACED = 1e-2
"""Where one unit of an entry takes less than this from the base at its place, the next base is evaluated afresh."""

_LEVEL = 1e-6
"""m - E y must be the same at all entries of a base, up to this: it is not where an average has several classes."""

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


class Bases:
    """The deterministic policies of one problem.

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
        self.solves = 0  # of unconstrained problems
        self._marked: tuple[Base | None, dict[int, Floats]] = (None, {})

    def evaluate_first(
        self, chosen: Ints, time: Floats | None, enough: float = 0.0, values: Floats | None = None
    ) -> Base | None:
        """The policy that takes the entries `chosen` [M] and is at each place for `time` [M], if that is known.

        Where it has several averages, it stays with the best of its classes, which is where the time is spent. Its
        vectors are begun from `values` [1 + K, M], if there are any.
        """
        base = self._afresh(chosen, time, values, enough)
        if base is None and self.criterion.mass_row and time is not None:
            taken = np.zeros(self.criterion.n_entries)
            taken[chosen] = 1.0
            base = self._afresh(np.flatnonzero(self.criterion.fill_in(taken, time > _TIME, chosen)), time, None, enough)
        return base

    def evaluate_found(self, found: Found, near: Base) -> Base | None:
        if not self.criterion.mass_row:
            return self.evaluate(found.chosen, near)
        return self.evaluate_first(found.chosen, self.criterion.time(found, _TIME, near.time))

    def evaluate(self, chosen: Ints, near: Base | None, enough: float = 0.0) -> Base | None:
        """The policy that takes the entries `chosen` [M], as accurately as can be; None where it has no one average.

        (Or as accurately as is `enough`, if it is above zero.)
        It is begun from one nearby; where there are fewer changes than signals, each of them takes one vector.
        """
        if near is None:
            return self._afresh(chosen, None, None)
        places = np.flatnonzero(chosen != near.chosen)
        base: Base | None = near
        if near.rough or enough or self.criterion.mass_row or len(places) > self.size:
            return self._afresh(chosen, near.time, near.values, enough)
        for place in places:
            base = None if base is None else self.exchanged(base, int(chosen[place]))
        return base

    def _afresh(self, chosen: Ints, time: Floats | None, values: Floats | None, enough: float = 0.0) -> Base | None:
        """The same, begun from the time [M] and the vectors [1 + K, M] of a similar policy; `enough`: roughly."""
        criterion = self.criterion
        followed = self.followed(chosen, time, enough)
        if followed is not None and followed.elsewhere:  # the identity is for one class: it walks there instead
            chosen = np.flatnonzero(criterion.fill_in(followed.taken, followed.time > 0.0, chosen))
            followed = self.followed(chosen, followed.time, enough)
        if followed is None or followed.elsewhere:
            return None
        time = np.maximum(followed.time, 0.0)
        values = criterion.proof_vectors(followed, self.signals, values, enough)
        levels, gains, advantages = np.empty(len(values)), np.empty(len(values)), np.empty_like(self.signals)
        for i, (signal, y) in enumerate(zip(self.signals, values, strict=True)):
            excess = (criterion.backup(signal, y) - y[criterion.places]) / criterion.unit
            own = excess[chosen]
            gains[i] = own[0]
            if not np.ptp(own) <= max(_LEVEL, 2.0 * enough) * (1.0 + abs(gains[i])):
                return None
            # By the identity of the contract: what is wrong with the time counts only where m - E y is not level.
            levels[i] = self._begin(y) + np.sum(time * own)
            advantages[i] = excess - own[criterion.places]
        return Base(chosen, time, values, gains, levels, advantages, followed, enough > 0.0)

    def followed(self, chosen: Ints, time: Floats | None, enough: float = 0.0) -> Followed | None:
        """The policy that takes the entries `chosen` [M], begun from a `time` [M]; None where it has no one average."""
        taken = np.zeros(self.criterion.n_entries)
        taken[chosen] = 1.0
        try:  # the vectors of averages are made from the time
            accuracy = ACCURACY if self.criterion.mass_row else max(_ROUGH_TIME, 0.1 * enough)
            return self.criterion.follow(taken, time, accuracy)
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
        priced = self._priced(prices)
        begin = self.criterion.expect(priced, base.chosen, self.value_function(base, prices))
        self.solves += 1
        return self.criterion.solve(priced, max(0.1 * allowed, NOTHING), begin, deadline=limits.deadline)

    def _priced(self, prices: Floats) -> Floats:
        return np.asarray(self.signals[0] + np.einsum("k,kn->n", prices, self.signals[1:]))

    def best_instead(self, chosen: Ints, prices: Floats, found: Found) -> Ints:
        """The entries `chosen` [M], and in the place of those that lose at `prices` [K], the best, as `found`."""
        return best_instead(self.criterion, self._priced(prices), found.value_function, chosen)

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

    def kept(self, base: Base, extras: Ints) -> tuple[Floats, Floats]:
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
        follows = self.followed(chosen, base.time)
        if follows is None or follows.elsewhere:
            return None if follows is None else self._afresh(chosen, follows.time, None)
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
