"""No coins: the best deterministic policy in bounds, or a good one with a bound on how far it is from the best.

To find the best deterministic policy of a constrained problem is NP-hard (Feinberg 2000). Two things help. Any prices
u >= 0 prove that no policy in bounds has more reward than the best value d(u) of the reward plus the priced margins;
at the prices of the randomised optimum that is the optimum itself. And the best policy has few coins, so rounding them
leaves little to repair.

**Search, at any size.** From each of up to four roundings of the coins: let x(s) be the time at place s, A_i(p) the
advantages of the policy (`inbounds.exact.vertex`). Switching to p changes value i by x(s) A_i(p), to first order. A
binary program over some dozen switches, as large as what is missing or to spare, chooses those that repair the margins
at the least loss; the policy that results is evaluated exactly, and is the next to start from.

**Proof, for few states.** Let LB be the reward of the best found. At the prices u every policy has d(u) minus its
losses, so one that takes p at s has at most d(u) - x(s) loss(p), whatever else it does: where that is below LB with the
least time x(s) can be, p is out. So it is if the best policy without constraints at u that is forced to take p has
less than LB. On the entries that are left, the occupancy program with a binary variable for each of them (Dolgov and
Durfee 2005) goes to HiGHS, whose word the bound it returns is; d(u) alone is a proof that others can check. HiGHS is
wrong now and then, so it is asked twice, in two ways, and believed as far as both say the same.

**Averages** are of policies with one recurrent class, as evaluation takes them: those that come to stay in one of
several places, by the start, are not looked for, and neither the bound nor "none" is said of them.
"""

from __future__ import annotations

import time
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from inbounds.arrays import Floats, Ints
from inbounds.errors import Stopped
from inbounds.exact.bases import Base
from inbounds.exact.highs import DOUBTED, INFINITE, WHOLE, Columns, WholeMinimum, minimise_whole
from inbounds.exact.limits import ITERATIONS, TIME, Limits
from inbounds.exact.optimum import OPTIMAL, Optimum
from inbounds.exact.reachable import well_scaled
from inbounds.exact.vertex import Corners
from inbounds.problem.cmdp import CMDP

FOUND = "best found"
"""The status of a deterministic policy that is not proved to be the best."""

NONE, NONE_FOUND = "no deterministic policy is in bounds", "no deterministic policy in bounds was found"
NONE_OF_ONE_CLASS = "no deterministic policy with one recurrent class is in bounds"

_CUTS = 200
"""Choices that make several classes, which a proof may have to exclude one by one."""

PROVED_PLACES = 300
"""Up to this many a proof is tried: on garnets of 300 states it takes twenty seconds, of 1,000 HiGHS ends no node."""

_PROOF_SECONDS = 60.0
"""For the proof, where there is no time limit."""

_ROUNDS, _STALE = 15, 5
"""Binary programs from each rounding, at most; and so many of them in turn that do not help are enough."""

_ROUNDED = 2
"""So many coins are rounded both ways."""

_LARGE, _SMALL = 32, 16
"""Switches in a binary program: of .1 to 30 times what is missing or to spare, and of a thousandth to a tenth of it.
Sorted by loss alone, the list would fill with tiny ones that repair nothing."""

_NODES = 500
"""Of one binary program."""

_INSIDE = 1e-12
"""How far inside its bounds the search aims; and how far outside a policy may be that rationals may yet prove."""


class Pure(NamedTuple):
    """A deterministic policy; everything is scaled."""

    chosen: Ints  # [M]
    time: Floats  # [M]
    reward: float


def best_deterministic(problem: CMDP, found: Optimum, tolerance: float, limits: Limits) -> tuple[Optimum, float]:
    """The best deterministic policy that is found near a best mixture, and a bound on the reward of all.

    Of averages, all are those with one recurrent class.

    The mixture has that policy for good (`Optimum.pure`), a status of its own, and prices and values of the randomised
    optimum. Where a limit came before that was known, no proof is tried. Raises `Stopped` when none is found.
    """
    corners = Corners(well_scaled(problem))
    search = _Search(corners, found, tolerance, limits)
    best, upper = search.run(), search.upper
    status, none = ITERATIONS if found.status == ITERATIONS else FOUND, NONE_FOUND
    small = corners.criterion.n_places <= PROVED_PLACES and status == FOUND
    if small and not limits.over and (best is None or upper - best.reward > search.allowed):
        best, upper, complete = search.proved(best)
        proved = NONE_OF_ONE_CLASS if corners.criterion.mass_row else NONE
        none = proved if complete else NONE_FOUND
    if best is None:
        raise Stopped(TIME if limits.over else none)
    if upper - best.reward <= search.allowed:
        status = OPTIMAL
    elif limits.over:
        status = TIME
    occupancy = np.zeros(corners.criterion.n_entries)
    occupancy[best.chosen] = best.time
    mixture = found._replace(occupancy=occupancy, pure=best.chosen, corner=None, status=status)
    return mixture, corners.units.value(upper)


class _Search:
    """For deterministic policies of one problem."""

    def __init__(self, corners: Corners, found: Optimum, tolerance: float, limits: Limits) -> None:
        self.corners, self.limits = corners, limits
        self.prices = found.prices * corners.scales / corners.units.spread
        self.upper = (found.upper_bound - corners.units.centre) / corners.units.spread
        self.allowed = corners.units.gap_allowed(tolerance, self.upper)
        self.corner, self.found = found.corner, found

    def run(self) -> Pure | None:
        """The best policy in bounds that small binary programs lead to; None where they lead to none."""
        best: Pure | None = None
        near = None if self.corner is None else self.corner.base
        for rounding in self._roundings():
            base, seen, stale, most = self.corners.evaluate(rounding, near), {rounding.tobytes()}, 0, _LARGE + _SMALL
            if base is None and (pure := self._by_time(rounding)) is not None:
                best = pure if best is None or pure.reward > best.reward else best
            for _ in range(_ROUNDS):
                if base is None:
                    break
                gap = np.inf if best is None else self.upper - best.reward
                stale += 1
                if self._in_bounds(base) and self.upper - base.levels[0] < gap:
                    stale = 0 if self.upper - base.levels[0] < 0.9 * gap else stale
                    best, gap = self._pure(base), self.upper - float(base.levels[0])
                if gap <= self.allowed or self.limits.over:
                    return best
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
                if switches > 1 and (again is None or self._off(again) > max(self._off(base), 10.0 * _INSIDE)):
                    most = max(switches // 3, 1)
                else:
                    base = again
        return best

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

    def _in_bounds(self, base: Base) -> bool:
        return bool(np.all(base.levels[1:] >= -_INSIDE))

    def _by_time(self, chosen: Ints) -> Pure | None:
        """A policy whose vectors cannot be told, as it hardly ever leaves some part; None where it is out of bounds."""
        followed = self.corners.followed(chosen, None)
        if followed is None or followed.elsewhere:
            return None
        levels = self.corners.signals @ self.corners.criterion.time_at_entries(followed)
        return Pure(chosen, followed.time, float(levels[0])) if np.all(levels[1:] >= -_INSIDE) else None

    def _pure(self, base: Base) -> Pure:
        return Pure(base.chosen, base.time, float(base.levels[0]))

    def _switched(self, base: Base, gap: float, most: int) -> Ints | None:
        """The policy [M] after the best switches, at most so many, to first order; None where there are none."""
        criterion = self.corners.criterion
        loss = -self.corners.worth(base, self.prices) * base.time[criterion.places]
        sizes = np.max(np.abs(base.advantages[1:]), axis=0, initial=0.0) * base.time[criterion.places]
        wanted = max(self._off(base), _INSIDE)
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
        answer = minimise_whole(
            Columns.dense(rows.T),
            -effects[0] / unit,
            np.append((_INSIDE - base.levels[1:]) / unit + 2e-9, np.full(len(distinct) + 1, -INFINITE)),
            np.concatenate([np.full(size, INFINITE), np.ones(len(distinct)), [most]]),
            np.ones(len(entries)),
            np.ones(len(entries), dtype=bool),
            gap=max(0.02 * min(gap, wanted) / unit, 1e-9),
            nodes=_NODES,
            time_limit=self.limits.seconds_left,
        )
        if answer.x is None or not np.any(answer.x > 0.5):
            return None
        taken, chosen = answer.x > 0.5, base.chosen.copy()
        chosen[places[taken]] = entries[taken]
        return chosen

    # --- the proof

    def proved(self, best: Pure | None) -> tuple[Pure | None, float, bool]:
        """A better policy or the same, a bound on the reward of all, and whether HiGHS came to the end."""
        corners, criterion = self.corners, self.corners.criterion
        left = self._not_excluded(best)
        n_places = criterion.n_places
        keep = np.flatnonzero(left)
        several = np.bincount(criterion.places[keep], minlength=n_places)[criterion.places[keep]] > 1
        binary = keep[several]
        most = np.ones(n_places)
        for place in np.unique(criterion.places[binary]):
            if self.limits.over:  # 1 is true of any place
                break
            here = np.where(criterion.places == place, 1.0, 0.0)
            most[place] = min(max(criterion.solve(here, 1e-9).upper, 0.0) + 1e-9, 1.0)
        size = n_places / criterion.unit  # so that occupancies are about 1
        cost = np.append(-corners.signals[0, keep], np.zeros(len(binary)))
        ends, cuts = time.monotonic() + _PROOF_SECONDS, list[Ints]()

        def minimum(whole: bool, attempts: tuple[dict[str, Any], ...] = WHOLE) -> WholeMinimum:
            seconds = self.limits.seconds_left
            return minimise_whole(
                *(columns, cost, lower, upper),
                np.append(np.full(len(keep), INFINITE), np.ones(len(binary))),
                np.append(np.zeros(len(keep), dtype=bool), np.full(len(binary), whole)),
                gap=0.1 * self.allowed * size,
                time_limit=max(ends - time.monotonic(), 1e-3) if seconds is None else seconds,
                attempts=attempts,
            )

        while True:
            columns, lower, upper = self._program(keep, binary, most, size, cuts)
            answers, before = [minimum(True, attempts) for attempts in (WHOLE, DOUBTED)], len(cuts)
            for x in (answer.x for answer in answers if answer.x is not None):
                again = self._policy_of(keep, binary, x)
                if again is not None and (best is None or again.reward > best.reward):
                    best = again
                apart = self._apart(keep, binary, x)
                if len(apart) > 0 and not any(np.array_equal(apart, cut) for cut in cuts):
                    cuts.append(apart)
            if len(cuts) == before or len(cuts) >= _CUTS or self.limits.over or time.monotonic() > ends:
                break
        infeasible, complete = all(one.infeasible for one in answers), all(one.complete for one in answers)
        bound = self.upper
        if not infeasible:
            bound = min(bound, max(-one.bound / size for one in answers if not one.infeasible))
        if infeasible and criterion.mass_row:
            # Moves may be so rare that for HiGHS no policy at all is in bounds, although one that randomises is known.
            columns, lower, upper = self._program(keep, binary, most, size, [])
            complete = minimum(whole=False).x is not None
        if infeasible and complete and best is not None:  # nothing is better than the best by more than a hair
            bound = best.reward
        # Where a policy is in bounds for HiGHS but not for us, it is not known that none is.
        complete = complete and (infeasible or best is not None)
        return best, bound if best is None else max(bound, best.reward), complete

    def _apart(self, keep: Ints, binary: Ints, x: Floats) -> Ints:
        """Which of the choices [B] of a solution make classes that do not meet; none, if there is one class.

        Long-run averages only: what is mixed there is no average of the policy, which has to make do with one class.
        """
        criterion = self.corners.criterion
        if not criterion.mass_row:
            return np.empty(0, dtype=np.int64)
        chosen = binary[x[len(keep) :] > 0.5]
        spent = np.zeros(criterion.n_entries)
        spent[keep] = np.maximum(x[: len(keep)], 0.0)
        support = spent > 1e-9 * float(spent.sum())
        entries = np.flatnonzero(support)
        places = criterion.places[entries]
        moves = sp.csr_array(criterion.layers[0].transition)[entries][:, np.unique(places)]
        order = np.argsort(places, kind="stable")
        if len(np.unique(places)) < len(places):  # a choice that rounding has shared
            return np.empty(0, dtype=np.int64)
        number, component = connected_components(moves[order], directed=False)
        # Moves that are too rare for HiGHS may lead from one to the other: then the policy may have one class.
        everywhere = sp.csr_array(criterion.layers[0].transition)[entries[order]]
        leaving = np.asarray(everywhere.sum(axis=1) - moves[order].sum(axis=1)).ravel() != 0.0
        leaving |= np.diff(everywhere.indptr) != np.diff(moves[order].indptr)
        if number - len(np.unique(component[leaving])) <= 1:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(np.isin(binary, chosen[support[chosen]]))

    def _not_excluded(self, best: Pure | None) -> Any:
        """The entries, bool [N], that a policy better than `best` can take where it goes."""
        corners, criterion = self.corners, self.corners.criterion
        left = np.ones(criterion.n_entries, dtype=bool)
        priced = corners.signals[0] + np.einsum("k,kn->n", self.prices, corners.signals[1:])
        found = criterion.solve(priced, 0.01 * self.allowed)
        if best is None or found.upper - best.reward > 2.0:
            return left
        # What an entry loses against a value function for which no entry gains: then losses only add up.
        excess = (
            criterion.backup(priced, found.value_function) - found.value_function[criterion.places]
        ) / criterion.unit
        bound = criterion.upper_bound(priced, found.value_function)
        loss = np.concatenate([np.max(excess[la.entries]) - excess[la.entries] for la in criterion.layers])
        _, least = criterion.flow  # the time that any policy spends at the start
        left = bound - loss * least[criterion.places] >= best.reward
        left[found.chosen] = True
        worst = 2.0 * len(criterion.layers) * (1.0 + float(self.prices.sum()))
        for entry in np.flatnonzero(left):
            place = criterion.places[entry]
            if self.limits.over:
                break
            if entry == found.chosen[place]:
                continue
            forced = np.where((criterion.places == place) & (np.arange(len(left)) != entry), priced - worst, priced)
            left[entry] = criterion.solve(forced, 0.05 * max(bound - best.reward, self.allowed)).upper >= best.reward
        return left

    def _program(
        self, keep: Ints, binary: Ints, most: Floats, size: float, cuts: list[Ints]
    ) -> tuple[Columns, Floats, Floats]:
        """Occupancies of the entries `keep` [J], and a choice among those of each place that are `binary` [B].

        Not all choices of a cut are made at once.
        """
        corners, criterion = self.corners, self.corners.criterion
        flow, right = criterion.flow
        n_keep, n_binary, n_constraints = len(keep), len(binary), corners.size
        at = np.full(criterion.n_entries, -1)
        at[keep] = np.arange(n_keep)
        places, index = np.unique(criterion.places[binary], return_inverse=True)
        shape = (n_binary, n_keep)
        link = sp.csr_array(
            (1.0 / (size * most[criterion.places[binary]]), (np.arange(n_binary), at[binary])), shape=shape
        )
        one = sp.csr_array((np.ones(n_binary), (index, np.arange(n_binary))), shape=(len(places), n_binary))
        blocks = [
            [sp.csr_array(flow[keep].T), None],
            [sp.csr_array(corners.signals[1:, keep]), sp.csr_array((n_constraints, n_binary))],
            [link, -sp.eye_array(n_binary)],
            [None, one],
        ]
        lower = [size * right, np.zeros(n_constraints), np.full(n_binary, -INFINITE), np.ones(len(places))]
        upper = [size * right, np.full(n_constraints, INFINITE), np.zeros(n_binary), np.ones(len(places))]
        if criterion.mass_row:
            blocks.append([sp.csr_array(np.ones((1, n_keep))), None])
            lower.append(np.array([size]))
            upper.append(np.array([size]))
        if cuts:
            together = np.array([np.isin(np.arange(n_binary), cut) for cut in cuts], dtype=float)
            blocks.append([None, sp.csr_array(together)])
            lower.append(np.full(len(cuts), -INFINITE))
            upper.append(np.array([len(cut) - 1.0 for cut in cuts]))
        table = sp.csc_array(sp.block_array(blocks))
        return Columns(table.indptr, table.indices, table.data), np.concatenate(lower), np.concatenate(upper)

    def _policy_of(self, keep: Ints, binary: Ints, x: Floats) -> Pure | None:
        """The policy that a solution of the program chooses, evaluated; None where it is out of bounds."""
        criterion, weights = self.corners.criterion, np.zeros(self.corners.criterion.n_entries)
        weights[keep] = np.maximum(x[: len(keep)], 0.0)
        weights[binary] = x[len(keep) :]
        spent = np.zeros(criterion.n_entries)
        spent[keep] = np.maximum(x[: len(keep)], 0.0)
        most = criterion.largest(weights)
        taken = np.zeros(criterion.n_entries)
        taken[most] = 1.0
        visited = np.bincount(criterion.places, spent, criterion.n_places) > 1e-9 * float(spent.sum())
        if criterion.mass_row:
            taken = criterion.fill_in(taken, visited, most)
        base = self.corners.evaluate(np.flatnonzero(taken), None)
        if base is None:
            return self._by_time(np.flatnonzero(taken))
        return self._pure(base) if self._in_bounds(base) else None
