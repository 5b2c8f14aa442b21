"""No coins: the best deterministic policy in bounds, or a good one with a bound on how far it is from the best.

To find the best deterministic policy of a constrained problem is NP-hard (Feinberg 2000). Two things help. Any prices
u >= 0 prove that no policy in bounds has more reward than the best value d(u) of the reward plus the priced margins;
at the prices of the randomised optimum that is the optimum itself. And the best policy has few coins, so rounding them
leaves little to repair.

**Search, at any size.** From each of up to four roundings of the coins: let x(s) be the time at place s, A_i(p) the
advantages of the policy (`inbounds.exact.vertex`). Switching to p changes value i by x(s) A_i(p), to first order. A
binary program over some dozen switches, as large as what is missing or to spare, chooses those that repair the margins
at the least loss; the policy that results is evaluated exactly, and is the next to start from.

**Proof, for few states.** Branch and bound on unconstrained problems: `inbounds.exact.branching`. No solver's word is
in it, neither that a policy is the best nor that none is in bounds: in the search, HiGHS only makes proposals. Which
policies are in bounds is proved, too: `inbounds.exact.incumbent`. (With a
binary variable for each entry the occupancy program, of Dolgov and Durfee 2005, can go to HiGHS as a whole. It took
longer, and of 238 programs HiGHS got one wrong.)

**Averages** are of policies with one recurrent class, as evaluation takes them: those that come to stay in one of
several places, by the start, are not looked for, and neither the bound nor "none" is said of them.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.errors import Stopped
from inbounds.exact.bases import Base
from inbounds.exact.branching import Branching
from inbounds.exact.highs import INFINITE, Columns, minimise_whole
from inbounds.exact.incumbent import PROVED_PLACES, Between, Incumbent, pure_of
from inbounds.exact.limits import ITERATIONS, TIME, Limits
from inbounds.exact.optimum import OPTIMAL, UNPROVED, Optimum
from inbounds.exact.reachable import well_scaled
from inbounds.exact.vertex import Corners
from inbounds.numerics.bellman import UNIT
from inbounds.problem.cmdp import CMDP

FOUND = "best found"
"""The status of a deterministic policy that is not proved to be the best."""

NONE, NONE_FOUND = "no deterministic policy is in bounds", "no deterministic policy in bounds was found"
NONE_OF_ONE_CLASS = "no deterministic policy with one recurrent class is in bounds"

WITHOUT_COINS, WITHOUT_COINS_ON_AVERAGE = "without coins", "of those without coins that have one recurrent class"
"""What policies the bound speaks of, after "the best"."""

_LOST = 8.0 * UNIT
"""What a bound may lose, relative to the rewards, on its way into other units and back."""

_AIM = 1e-12
"""How far inside its bounds the search aims."""

_ROUNDS, _STALE = 15, 5
"""Binary programs from each rounding, at most; and so many of them in turn that do not help are enough."""

_ROUNDED = 2
"""So many coins are rounded both ways."""

_LARGE, _SMALL = 32, 16
"""Switches in a binary program: of .1 to 30 times what is missing or to spare, and of a thousandth to a tenth of it.
Sorted by loss alone, the list would fill with tiny ones that repair nothing."""

_NODES = 500
"""Of one binary program."""


class BestPure(NamedTuple):
    """The best deterministic policy that is found."""

    mixture: Optimum
    upper: float  # no deterministic policy in bounds has more
    missing: Floats | None  # [K], to a proof that a better one is in bounds, where that alone is not known


def best_deterministic(problem: CMDP, found: Optimum, tolerance: float, limits: Limits, between: Between) -> BestPure:
    """The best deterministic policy that is found near a best mixture, and a bound on the reward of all.

    Of averages, all are those with one recurrent class. It is in bounds for sure, by what `between` says, unless there
    is none of which that can be told: then it is called not proved. The bound is as sure as that of the best mixture.

    The mixture has that policy for good (`Optimum.pure`), a status of its own, and prices and values of the randomised
    optimum. Raises `Stopped` when none is found.
    """
    scaled = well_scaled(problem)
    corners = Corners(scaled)
    incumbent = Incumbent(scaled, corners, between, limits)
    search = _Search(incumbent, found, tolerance, limits)
    search.run()
    upper = search.upper
    status, none, missing = ITERATIONS if found.status == ITERATIONS else FOUND, NONE_FOUND, None
    small = corners.criterion.n_places <= PROVED_PLACES
    if small and not limits.over and upper - incumbent.reward > search.allowed:
        proof = Branching(scaled, incumbent, search.allowed, limits).run(upper, search.prices)
        upper = proof.upper
        if proof.searched and incumbent.nearly is not None and incumbent.nearly.reward > incumbent.reward:
            missing = incumbent.missing
        if proof.complete:
            none = NONE_OF_ONE_CLASS if corners.criterion.mass_row else NONE
    if incumbent.best is not None:
        incumbent.better_where_rare(search.prices)
    best = incumbent.best or incumbent.nearly
    if best is None:
        early = status if status == ITERATIONS and none == NONE_FOUND else none
        raise Stopped(TIME if limits.over else early)
    if incumbent.best is None and not limits.over:
        status = UNPROVED
    elif upper - best.reward <= search.allowed:
        status = OPTIMAL
    elif limits.over:
        status = TIME
    occupancy = np.zeros(corners.criterion.n_entries)
    occupancy[best.chosen] = best.time
    mixture = found._replace(occupancy=occupancy, pure=best.chosen, corner=None, linked=0, status=status)
    upper = corners.units.value(upper) + _LOST * (abs(corners.units.centre) + corners.units.spread)
    return BestPure(mixture, upper, missing)


class _Search:
    """For deterministic policies of one problem."""

    def __init__(self, incumbent: Incumbent, found: Optimum, tolerance: float, limits: Limits) -> None:
        self.incumbent, self.corners, self.limits = incumbent, incumbent.corners, limits
        corners = self.corners
        self.prices = found.prices * corners.scales / corners.units.spread
        self.upper = corners.units.inside(found.upper_bound)
        self.allowed = corners.units.gap_allowed(tolerance, self.upper)
        self.corner, self.found = found.corner, found

    def run(self) -> None:
        """Look at what small binary programs lead to, one after the other."""
        near = None if self.corner is None else self.corner.base
        for rounding in self._roundings():
            base, seen, stale, most = self.corners.evaluate(rounding, near), {rounding.tobytes()}, 0, _LARGE + _SMALL
            if base is None:
                self.incumbent.evaluated(rounding)
            for _ in range(_ROUNDS):
                if base is None:
                    break
                gap = self.upper - self.incumbent.reward
                stale += 1
                pure = pure_of(base)
                if self.upper - pure.reward < gap:
                    self.incumbent.considered(base.chosen, pure)
                    stale = 0 if self.upper - self.incumbent.reward < 0.9 * gap else stale
                    gap = self.upper - self.incumbent.reward
                if gap <= self.allowed or self.limits.over:
                    return
                if stale > _STALE:
                    break
                chosen = self._switched(base, gap, most)
                if chosen is None and most < _LARGE + _SMALL:  # so few repair nothing
                    most = 3 * most
                    continue
                if chosen is None or chosen.tobytes() in seen:
                    break
                seen.add(chosen.tobytes())
                again, switches = self.corners.evaluate(chosen, base), int(np.count_nonzero(chosen != base.chosen))
                # Switches close to each other change what each is worth: fewer at a time, if all together do harm.
                if switches > 1 and (again is None or self._off(again) > max(self._off(base), 10.0 * _AIM)):
                    most = max(switches // 3, 1)
                else:
                    base = again

    def _off(self, base: Base) -> float:
        """How far the margins that should bind are from zero."""
        binding = np.arange(len(self.prices)) if self.corner is None else self.corner.vertex.binding
        return float(np.max(np.abs(base.levels[1 + binding]), initial=0.0))

    def _roundings(self) -> list[Ints]:
        """Policies [M] without coins: the base of the vertex, and others that take some of the extras instead."""
        if self.corner is None:
            return [(self.found.best or self.corners.mostly(self.found))[0]]
        vertex, roundings = self.corner.vertex, []
        for taken in product((False, True), repeat=min(len(vertex.extras), _ROUNDED)):
            chosen = self.corner.base.chosen.copy()
            for j, one in enumerate(taken):
                if one:
                    chosen[vertex.places[j]] = vertex.extras[j]
            roundings.append(chosen)
        return roundings

    def _switched(self, base: Base, gap: float, most: int) -> Ints | None:
        """The policy [M] after the best switches, at most so many, to first order; None where there are none."""
        criterion = self.corners.criterion
        loss = -self.corners.worth(base, self.prices) * base.time[criterion.places]
        sizes = np.max(np.abs(base.advantages[1:]), axis=0, initial=0.0) * base.time[criterion.places]
        wanted = max(self._off(base), _AIM)
        near = (sizes > 1e-3 * wanted) & (sizes < 30.0 * wanted) & (loss < gap)
        near[base.chosen] = False
        entries = np.flatnonzero(near)
        large = sizes[entries] > 0.1 * wanted
        parts = ((entries[large], _LARGE), (entries[~large], _SMALL))
        entries = np.sort(np.concatenate([p[np.argsort(loss[p], kind="stable")[:count]] for p, count in parts]))
        if len(entries) == 0:
            return None
        places = criterion.places[entries]
        effects = base.advantages[:, entries] * base.time[places]
        unit = float(np.abs(effects[1:]).max())
        distinct, group = np.unique(places, return_inverse=True)
        size = len(self.prices)
        one_each = (group == np.arange(len(distinct))[:, None]).astype(float)
        rows = np.vstack([effects[1:] / unit, one_each, np.ones((1, len(entries)))])
        whole = minimise_whole(
            Columns.dense(rows.T),
            -effects[0] / unit,
            np.append((_AIM - base.levels[1:]) / unit + 2e-9, np.full(len(distinct) + 1, -INFINITE)),
            np.concatenate([np.full(size, INFINITE), np.ones(len(distinct)), [most]]),
            np.ones(len(entries)),
            gap=max(0.02 * min(gap, wanted) / unit, 1e-9),
            nodes=_NODES,
            time_limit=self.limits.seconds_left,
        )
        if whole is None or not np.any(whole > 0.5):
            return None
        taken, chosen = whole > 0.5, base.chosen.copy()
        chosen[places[taken]] = entries[taken]
        return chosen
