"""How an occupancy of an average that falls into classes which do not meet becomes one that a policy has.

A share of a link is mixed in: of an occupancy whose policy goes from each class to each other (`criteria.links`). The
share costs about as much of the reward, and a proof loses about UNIT / (share q), where the link gets from class to
class in one of 1 / q steps: so the share is the root of UNIT / q, or so, and at least `LEAST_SHARE`. The same is done
to an occupancy of one class that falls apart without moves that are made so rarely that a proof loses more by them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.criteria.links import going_round, joined, mixtures
from inbounds.numerics.bellman import UNIT
from inbounds.numerics.classes import Classes, classes_of

LEAST_SHARE = 1e-7
"""Of an occupancy that links classes: with less, proofs would lose more than the policy does."""

_MOST_SHARE = 0.03
"""What hardly links classes takes no more."""

_LOST = 3.0
"""What a proof loses, in units of rounding, by every step that lies between changes of class."""

_WAYS = 4
"""Classes, at most, to which all may go that are on their way between classes."""

_AS_WELL = 0.25
"""Of how well classes can be joined: of all links that do so much, the one is taken that changes the least."""

_DUST = 1e-12
"""Entries of an occupancy that are smaller may be rounding, and do not join classes."""

_RARE = 1e-9
"""Moves that are made as rarely, be they or where they start from rare, may hold a class together, but so that nothing
can be proved of it."""

_HARDLY = 1e-3
"""Of the time in a piece, how much at most is spent leaving it, where others are hardly ever come to from there."""

_PIECES = 50
"""That rare moves hold together, at most, to be linked: to find out takes a way from each to each."""

_WEIGHTY = 1e-9
"""A class with a way out cannot hold more of an occupancy than rounding puts there; with more, it is linked too."""


class Linking:
    """The links of one question about an `Average`.

    Parameters
    ----------
    average : Average
    share : float
        That a link takes at least.
    spares : callable
        Occupancies with a margin to spare in every constraint that binds, the cheapest first, as far as they are known.
    margins : array [K, N]
        Scaled.
    """

    def __init__(self, average: Any, share: float, spares: Callable[[], Iterable[Floats]], margins: Floats) -> None:
        self._average, self._share, self._asked, self._margins = average, share, spares, margins

    @cached_property
    def _spares(self) -> list[Floats]:
        return list(self._asked())

    def of(self, occupancy: Floats) -> tuple[Floats, int]:
        """An occupancy [N] close to the one given that some policy has, and how many classes had to be linked."""
        whole = np.maximum(occupancy, 0.0)
        clean = np.where(whole > _DUST, whole, 0.0)
        taken, classes = self._classes_of(clean)
        apart = np.flatnonzero((self._held(clean, classes) > _WEIGHTY) | classes.closed)
        own = clean / clean.sum()
        if len(apart) == 1:
            alone = occupancy
            if not np.array_equal(clean, whole):
                # What is small may be the rare states of the class. But what leads away from it was rounding.
                _, as_given = self._classes_of(whole)
                stays = as_given.closed[as_given.label]
                if np.count_nonzero(as_given.closed) > 1 or not np.all(stays[self._time(clean) > 0.0]):
                    alone = own
            return self._better_linked(alone, taken)
        found = self._mixed(self._each_by_itself(own, taken, classes.label, apart), taken, classes.label, apart)
        if found is None:  # a spare occupancy stays where none of the links leads: they have to lead there as well
            taken, classes = self._classes_of(np.mean([own, *self._spares], axis=0))
            apart = classes.closed_ones
            found = self._mixed(own, taken, classes.label, apart)
        return (own if found is None else found), len(apart)

    def each_alone(self, occupancy: Floats) -> list[Floats]:
        """What the occupancy [N] has in each class that leads to no other, by itself; nothing if there is but one."""
        clean = np.where(occupancy > _DUST, occupancy, 0.0)
        _, classes = self._classes_of(clean)
        apart = np.flatnonzero((self._held(clean, classes) > _WEIGHTY) & classes.closed)
        label = classes.label[self._average.pairs.states]
        parts = [np.where(label == own, clean, 0.0) for own in apart] if len(apart) > 1 else []
        return [part / part.sum() for part in parts]

    def _better_linked(self, alone: Floats, taken: Floats) -> tuple[Floats, int]:
        """An occupancy of one class; linked, where that is held together by so little that a proof would lose more."""
        own = np.maximum(alone, 0.0)
        _, pieces = self._classes_of(own, _RARE)
        held = self._held(own, pieces)
        apart = np.flatnonzero((held > _WEIGHTY) & (self._left(own, pieces) <= _HARDLY * held))
        if not 1 < len(apart) <= _PIECES:
            return alone, 0
        # Where a piece by itself hardly stays, as moves that are as rare lead out of it and on, it is left as it is.
        begins = own, self._each_by_itself(own, taken, pieces.label, apart)
        found = [self._mixed(begin, taken, pieces.label, apart) for begin in begins]

        def loses(occupancy: Floats) -> float:
            """What the policy of an occupancy loses, when it is followed, and when that is proved."""
            joins = self._joined(occupancy, pieces.label, apart)
            if not joins > 0.0:
                return math.inf
            followed = self._average.follow(self._classes_of(occupancy)[0])
            spent = self._average.time_at_entries(followed)
            return float(np.sum(np.abs(spent - own))) + _LOST * UNIT / joins

        best = min((each for each in found if each is not None), key=loses, default=None)
        return (alone, 0) if best is None or loses(own) <= loses(best) else (best, len(apart))

    def _each_by_itself(self, own: Floats, taken: Floats, label: Ints, apart: Ints) -> Floats:
        """An occupancy [N] that is in each of the classes `apart` as often, and never goes from one to another.

        Of a linear program the flows balance to 1e-12 or so. What a thin link carries is hardly more, and the times in
        the classes would be those that both make.
        """
        average, time = self._average, self._time(own)
        goals = [label == one for one in apart]
        held = np.array([np.sum(time[goal]) for goal in goals])
        alone = [average.time_at_entries(average.follow(average.walking(taken, goal))) for goal in goals]
        return np.asarray(np.einsum("i,in->n", held / held.sum(), np.array(alone)))

    def _mixed(self, own: Floats, taken: Floats, label: Ints, apart: Ints) -> Floats | None:
        """An occupancy with a share of the link that does it best; None where no policy of one class comes of any."""
        links, share = self._links(taken, label, apart), self._share
        best = max(self._joined((1.0 - share) * own + share * link, label, apart) for link in links)
        balanced = math.sqrt(_LOST * UNIT * share / best) if best > 0.0 else _MOST_SHARE
        share = max(share, min(balanced, _MOST_SHARE))
        several = mixtures(own, links, share, lambda: self._spares, self._margins)
        mixed = [each for each in several if np.count_nonzero(self._classes_of(each)[1].closed) == 1]
        if not mixed:
            return None
        wells = [self._joined(each, label, apart) for each in mixed]
        enough = [each for each, well in zip(mixed, wells, strict=True) if well >= _AS_WELL * max(wells)]
        return min(enough, key=lambda each: float(np.sum(np.abs(each - own))))

    def _joined(self, occupancy: Floats, label: Ints, apart: Ints) -> float:
        """How well it joins the classes `apart`; one alone, as well as can be."""
        if len(apart) == 1:
            return 1.0
        average = self._average
        goals = [label == one for one in apart]
        return joined(average.pairs.states, average.layers[0].transition, occupancy, goals)

    def _links(self, taken: Floats, label: Ints, apart: Ints) -> list[Floats]:
        """Occupancies of policies that go from each of the classes `apart` to all others, and back.

        Within a class a coin decides whether to stay, or where to go. To throw it again on a long way is hardly ever to
        arrive, and of moves that are so rare nothing can be proved. So between classes all go to one of them, from
        which another way may lead back; or to each with the same probability; or they go round.
        """
        average, goals = self._average, [label == own for own in apart]
        ways = [average.walking(taken, goal) for goal in goals]
        everywhere = (taken + sum(ways)) / (len(apart) + 1)
        outside = ~np.isin(label, apart)[average.pairs.states]
        onward = [sum(ways) / len(ways), *ways[:_WAYS]]
        links = [average.time_at_entries(average.follow(everywhere))]
        for way in onward if np.any(outside) else ():
            policy = np.where(outside, way, everywhere)
            if np.count_nonzero(classes_of(average.graph_of_policy(policy)).closed) == 1:
                links.append(average.time_at_entries(average.follow(policy)))
        layer = average.layers[0]
        walk = going_round(layer.rows, layer.transition, average.backwards, goals) if len(goals) > 1 else None
        return links if walk is None else [*links, walk]

    def _classes_of(self, occupancy: Floats, rarest: float = 0.0) -> tuple[Floats, Classes]:
        """The policy [N] of an occupancy, elsewhere walking to where it is, and the classes of its chain.

        Without the moves of that which are made as rarely as `rarest`.
        """
        average, time = self._average, self._time(occupancy)
        visited, at = time > 0.0, time[self._average.pairs.states]
        taken = np.where(at > 0.0, occupancy / np.where(at > 0.0, at, 1.0), 0.0)
        taken = average.fill_in(taken, visited, average.pairs.offsets[:-1])
        return taken, classes_of(average.graph_of_policy(taken, time if rarest > 0.0 else 1.0, rarest))

    def _time(self, occupancy: Floats) -> Floats:
        return np.asarray(self._average.pairs.sum_by_state(occupancy))

    def _held(self, occupancy: Floats, classes: Classes) -> Floats:
        """How much of an occupancy each class holds."""
        return np.asarray(np.bincount(classes.label, self._time(occupancy), len(classes.closed)), dtype=np.float64)

    def _left(self, occupancy: Floats, classes: Classes) -> Floats:
        """How often an occupancy [N] leaves each class."""
        moves, states = self._average.layers[0].transition, self._average.pairs.states
        each = np.diff(moves.indptr)
        here, there = classes.label[np.repeat(states, each)], classes.label[moves.indices]
        leaving = np.where(here == there, 0.0, np.repeat(occupancy, each) * moves.data)
        return np.asarray(np.bincount(here, leaving, len(classes.closed)), dtype=np.float64)
