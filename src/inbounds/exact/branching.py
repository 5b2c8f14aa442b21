"""The best deterministic policy, proved by branch and bound in which every bound is the library's own.

A *node* is a set of entries that are left; it stands for the deterministic policies that take no other. For any prices
u >= 0 none of them that is in bounds has more reward than the best value of the reward plus the priced margins on
these entries. That is an unconstrained problem, in which the entries that are not left only cost so much that they do
not pay: the bound is the upper end of its bracket, which holds for any cost, and rests on no solver's word.

**Prices** are found by cutting planes: the policy that is best at some prices is a cut, and where the largest of all
cuts is lowest are the next prices. That is the best mixture of the policies found, a small program of K rows. Where no
mixture is in bounds its prices weigh the margins alone: if their best value is below zero, the node has no policy in
bounds. Prices that are not the best only make a bound larger.

**Branching.** The mixture randomises at K places or so. Where it does so for most of the time, every child is left one
entry. (To try all these places, and to take that where the bounds fall most at the prices of the node, took twice as
many nodes.) Where nothing is mixed, and the one policy is not in bounds or has no one average, it is a place where that
spends its time.

**Excluding.** With a value function y for the prices no entry gains more than its layer's best. So losses only add up,
and a policy that takes p at s loses x(s) loss(p) at least. Where that leaves less than the best policy found has, with
the least time x(s) that can be, p is out. At the first node it is also if the bound of the node is less once p is all
that is left at its place.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components

from inbounds.arrays import Floats
from inbounds.criteria.contract import Found
from inbounds.exact.incumbent import LOST, Incumbent, Pure, largest
from inbounds.exact.limits import Limits
from inbounds.numerics.simplex import mixture_of_cuts
from inbounds.problem.cmdp import CMDP

Mask = npt.NDArray[np.bool_]

_SECONDS = 60.0
"""Where there is no time limit."""

_STEPS = 30
"""Of the cutting planes at one node, at most; three or four are usual."""

_CLOSE = 0.02
"""The share of what is missing to a proof up to which the prices of a node are found: the rest is for branching."""

_KEPT = 40
"""Cuts that children inherit, the last ones."""

_NOT_MET, _MISSING = 1e4, 1e-11
"""What a unit of a margin costs that a mixture does not have; and how much it may not have all the same."""

_ROUGH_TIME = 1e-12
"""How accurate the values of a cut are: they lead to prices and branches, and nothing rests on them."""


class Node(NamedTuple):
    """The deterministic policies that take no other entries than those `left`."""

    bound: float
    left: Mask  # [N]
    prices: Floats  # [K], that prove the bound
    found: Found | None  # what is best there
    cuts: tuple[Pure, ...]


class Branched(NamedTuple):
    """How far a proof came."""

    upper: float  # no deterministic policy in bounds has more
    complete: bool  # whether it came to the end, and told of every policy there that matters whether it is in bounds
    searched: bool  # whether it came to the end
    nodes: int


class Branching:
    """Over the deterministic policies of one problem, from the best that is known, if any is: the incumbent."""

    def __init__(self, problem: CMDP, incumbent: Incumbent, allowed: float, limits: Limits) -> None:
        self.corners, self.incumbent, self.allowed = incumbent.corners, incumbent, allowed
        # Its own: how chains are solved to the last digit elsewhere is not how bounds are found fast.
        self.criterion = type(self.corners.criterion)(problem)
        self.ends = time.monotonic() + _SECONDS if limits.deadline is None else limits.deadline
        self.closed = -np.inf  # the largest bound of what was left as it is
        self.least = np.array(self.criterion.flow[1])  # [M], the time that any policy spends at each place

    def run(self, upper: float, prices: Floats) -> Branched:
        """From a bound on all policies, and prices [K] that prove it."""
        everything = np.ones(self.criterion.n_entries, dtype=bool)
        nodes = [(-upper, 0, Node(upper, everything, prices, None, ()))]
        looked = made = 0
        while nodes and not self.over:
            node = heapq.heappop(nodes)[-1]
            if self._done(node.bound):
                continue
            looked += 1
            for child in self._branched(node, first=looked == 1):
                made += 1
                heapq.heappush(nodes, (-child.bound, made, child))
        open_ = [node.bound for _, _, node in nodes if not self._done(node.bound)]
        bound = max([self.closed, self.incumbent.most, *open_])
        return Branched(min(upper, bound), not open_ and self.closed <= self._enough, not open_, looked)

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.ends

    @property
    def _enough(self) -> float:
        return self.incumbent.reward + self.allowed

    def _done(self, bound: float) -> bool:
        """Whether what has this bound can be left as it is."""
        if bound > self._enough:
            return False
        self.closed = max(self.closed, bound)
        return True

    def _best_of(self, left: Mask, weights: Floats, tolerance: float, start: Found | None) -> Found:
        """What is best for the signals with `weights` [1 + K] on the entries that are left."""
        priced = np.einsum("k,kn->n", weights, self.corners.signals)
        cost = 2.0 * len(self.criterion.layers) * float(weights.sum()) / self.criterion.unit
        return self.criterion.solve(np.where(left, priced, priced - cost), tolerance, start, deadline=self.ends)

    def _cut(self, found: Found, near: Pure | None) -> Pure:
        """The policy that was found, roughly; it is kept if it is the best by now."""
        at = np.maximum(self.criterion.time(found, _ROUGH_TIME, None if near is None else near.time), 0.0)
        cut = Pure(found.chosen, at, np.einsum("kn,n->k", self.corners.signals[:, found.chosen], at))
        if np.all(cut.levels[1:] >= -1e-9) and cut.reward > self.incumbent.reward - 1e-9:
            self.incumbent.evaluated(found.chosen)
        return cut

    # --- one node

    def _branched(self, node: Node, first: bool) -> list[Node]:
        """What a node falls into: nothing where it has nothing better."""
        if self._several_classes(node.left):
            return []
        priced = self._priced(node)
        if priced is None:
            return []
        node, spent = priced
        left, n_places = self._not_excluded(node, first), self.criterion.n_places
        places, total = self.criterion.places, np.bincount(self.criterion.places, spent, n_places)
        most = np.zeros(n_places)
        np.maximum.at(most, places, spent)
        many = np.bincount(places[left], minlength=n_places)
        if np.any(many == 0):
            return []
        free = many > 1
        mixed = np.where(free, total - most, 0.0)
        place = int(np.argmax(mixed))
        if not mixed[place] > 1e-9 * total[place]:
            open_ = np.flatnonzero(free & self._reached(left))
            if len(open_) == 0:  # one policy
                judged = self.incumbent.evaluated(self.criterion.largest(left.astype(np.float64)))
                if judged.in_bounds is None:
                    self.closed = max(self.closed, node.bound)
                return []
            place = int(open_[np.argmax(total[open_])])
        return self._children(node, left, place)

    def _priced(self, node: Node) -> tuple[Node, Floats] | None:
        """A node with a better bound, and the time [N] of the best mixture there; None where it has nothing better."""
        prices, found, cuts, best = node.prices, node.found, list(node.cuts), node
        near, weights = None, np.ones(0)
        for step in range(_STEPS):
            if step > 0 or found is None:
                found = self._best_of(node.left, np.append(1.0, prices), self._width(best.bound), found)
            if found.upper <= best.bound or best.found is None:
                best = best._replace(bound=min(found.upper, best.bound), prices=prices, found=found)
            if self._done(best.bound):
                return None
            near = self._cut(found, near)
            cuts.append(near)
            if self._done(best.bound):
                return None
            prices, weights, missing = self._mixture(cuts)
            while missing > _MISSING and prices.sum() > 0.0 and not self.over:
                alone = self._best_of(node.left, np.append(0.0, prices / prices.sum()), min(1e-9, 0.1 * missing), None)
                if alone.upper < 0.0:
                    return None
                before = missing
                cuts.append(self._cut(alone, near))
                prices, weights, missing = self._mixture(cuts)
                if not missing < 0.999 * before:
                    break
            value = sum(w * cut.reward for w, cut in zip(weights, cuts, strict=True)) - _NOT_MET * missing
            close = _CLOSE * (best.bound - max(self.incumbent.reward, -1.0))
            if best.bound - value <= max(close, 0.1 * self.allowed) or self.over:
                break
        spent = np.zeros(len(node.left))
        for weight, cut in zip(weights, cuts, strict=True):
            spent[cut.chosen] += weight * cut.time
        return best._replace(cuts=tuple(cuts[-_KEPT:])), spent

    def _width(self, bound: float) -> float:
        """How narrow the bracket of an unconstrained problem must be, for a node with this bound."""
        return 0.01 * max(min(bound - self.incumbent.reward, 1.0), self.allowed)

    def _mixture(self, cuts: list[Pure]) -> tuple[Floats, Floats, float]:
        """The best of some policies: its prices [K], its weights, and what it is out of bounds in sum."""
        levels = np.array([cut.levels for cut in cuts])
        prices, weights, missing = mixture_of_cuts(levels[:, 0].copy(), levels[:, 1:].copy(), _NOT_MET)
        return prices, weights, missing

    def _children(self, node: Node, left: Mask, place: int) -> list[Node]:
        """One for each entry at a place which is not proved to be in nothing better."""
        here, children = np.flatnonzero(left & (self.criterion.places == place)), []
        for entry in here:
            only = left.copy()
            only[here[here != entry]] = False
            found = self._best_of(only, np.append(1.0, node.prices), self._width(node.bound), node.found)
            bound = min(found.upper, node.bound)
            if not self._done(bound):
                cuts = tuple(cut for cut in node.cuts if np.all(only[cut.chosen] | (cut.time <= 1e-9)))
                children.append(Node(bound, only, node.prices, replace(found, factors=None), cuts))  # they are large
        return children

    def _not_excluded(self, node: Node, first: bool) -> Mask:
        """The entries of a node that a policy can take where it goes, if it is better than the best."""
        criterion, left, found = self.criterion, node.left.copy(), node.found
        if self.incumbent.best is None or found is None:
            return left
        self._exclude_losses(left, node.prices, found)
        if not first:
            return left
        places = criterion.places
        for place in np.flatnonzero(np.bincount(places[left], minlength=criterion.n_places) > 1):
            if self.over:
                return left
            away = criterion.solve(np.where(places == place, -1.0, 0.0), 1e-9, deadline=self.ends)
            self.least[place] = max(-away.upper, self.least[place])
        self._exclude_losses(left, node.prices, found)
        for entry in np.flatnonzero(left):
            if self.over:
                return left
            if entry == found.chosen[places[entry]]:
                continue
            only = left & (places != places[entry])
            only[entry] = True
            forced = self._best_of(only, np.append(1.0, node.prices), 5.0 * self._width(node.bound), found)
            left[entry] = forced.upper >= self.incumbent.reward
        return left

    def _exclude_losses(self, left: Mask, prices: Floats, found: Found) -> None:
        """By what entries lose against a value function, in place."""
        criterion, y = self.criterion, found.value_function
        priced = np.einsum("k,kn->n", np.append(1.0, prices), self.corners.signals)
        excess = (criterion.backup(priced, y) - y[criterion.places]) / criterion.unit
        bound = criterion.start * float(np.sum(criterion.initial * y[criterion.layers[0].places]))
        for layer in criterion.layers:
            most = float(np.max(excess[layer.entries][left[layer.entries]]))
            bound += most
            excess[layer.entries] -= most
        rounding = LOST * largest(y)
        out = bound + excess * self.least[criterion.places] < self.incumbent.reward - 0.01 * self.allowed - rounding
        out[found.chosen] = False
        left[out] = False

    # --- where policies go

    def _moves(self, left: Mask) -> Any:
        """The graph of the moves of entries that are left, over places."""
        criterion = self.criterion
        rows, columns = [], []
        for layer in criterion.layers:
            if layer.next_places is not None:
                entries = np.flatnonzero(left[layer.entries])
                moves = sp.coo_array(sp.csr_array(layer.transition)[entries])
                rows.append(criterion.places[layer.entries][entries][moves.row])
                columns.append(layer.next_places.start + moves.col)
        begin = np.flatnonzero(criterion.initial > 0.0)
        rows.append(np.full(len(begin), criterion.n_places))  # one more, where all policies start
        columns.append(begin)
        at = np.concatenate(rows), np.concatenate(columns)
        return sp.csr_array((np.ones(len(at[0])), at), shape=(criterion.n_places + 1,) * 2)

    def _reached(self, left: Mask) -> Mask:
        """Where the entries that are left can lead: bool [M]."""
        at = np.zeros(self.criterion.n_places + 1, dtype=bool)
        at[breadth_first_order(self._moves(left), self.criterion.n_places, return_predecessors=False)] = True
        return at[:-1]

    def _several_classes(self, left: Mask) -> bool:
        """Averages: whether all policies of a node come to stay in several places, so that they have no one average."""
        criterion = self.criterion
        if not criterion.mass_row:
            return False
        graph = self._moves(left)
        number, component = connected_components(graph, directed=True, connection="strong")
        start, end = (component[at] for at in graph.tocoo().coords)
        closed = np.ones(number, dtype=bool)
        closed[start[start != end]] = False
        if np.count_nonzero(closed) < 2:
            return False
        decided = np.bincount(criterion.places[left], minlength=criterion.n_places) == 1
        sure = self._reached(left & decided[criterion.places])
        return bool(np.count_nonzero(closed[np.unique(component[:-1][sure])]) > 1)
