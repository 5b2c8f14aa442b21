"""The best deterministic policy that is proved to be in bounds, while others are looked at.

What a policy is worth in floating point has few digits where chains hardly mix: then its vectors are as large as what
is paid, divided by the probabilities of the moves that matter. So a policy that floating point puts close to a bound is
judged by what its values certainly are at least, and at most. Where that leaves open on which side it is, it is not
taken for the best, nor is anything said of the others that are no better than it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.exact.bases import Base
from inbounds.exact.limits import Limits
from inbounds.exact.rare import RARE, hardly_ever
from inbounds.exact.vertex import Corners
from inbounds.numerics.bellman import UNIT
from inbounds.problem.cmdp import CMDP

Between = Callable[[CMDP, Floats], tuple[Floats, Floats]]
"""Called with a problem and a policy [N]: what its reward and margins [1 + K] certainly are at least, and at most."""

PROVED_PLACES = 300
"""Up to this many all that is said is proved: on garnets of 300 states it takes 3 to 10 seconds, of 1,000 more than a
minute."""

_CLOSE = 1e-9
"""Of a scaled margin that is closer to zero, floating point is not asked on which side it is."""

LOST = 64.0 * UNIT
"""So much of the largest entry of its vectors a value may be off."""


class Pure(NamedTuple):
    """A deterministic policy; everything is scaled."""

    chosen: Ints  # [M]
    time: Floats  # [M]
    levels: Floats  # [1 + K], the value of the objective, and the margins
    size: float = np.inf  # of the largest entry of the vectors that these are from

    @property
    def reward(self) -> float:
        return float(self.levels[0])


class Judged(NamedTuple):
    """What is certain of a policy."""

    in_bounds: bool | None  # None: that cannot be told
    least: float  # its reward, scaled
    most: float
    missing: Floats | None = None  # [K], to a proof that it is in bounds, in the user's units, where that is known


NOTHING_KNOWN = Judged(None, -np.inf, np.inf)


class Incumbent:
    """Of the deterministic policies of one problem that were looked at, the best.

    Attributes
    ----------
    best : Pure or None
        Proved to be in bounds, where the problem is small and there was time; its reward is what it has for sure.
    nearly : Pure or None
        The best of those of which it cannot be told whether they are.
    missing : array [K] or None
        How much each bound would have to be looser for a proof that `nearly` keeps it, in the user's units.
    most : float
        No policy that was looked at, and is in bounds for sure, has more reward.
    """

    def __init__(self, problem: CMDP, corners: Corners, between: Between, limits: Limits) -> None:
        self._problem, self.corners, self._between, self._limits = problem, corners, between, limits
        self._judged: dict[bytes, Judged] = {}
        self.best: Pure | None = None
        self.nearly: Pure | None = None
        self.missing: Floats | None = None
        self.most = -np.inf

    @property
    def reward(self) -> float:
        return -np.inf if self.best is None else self.best.reward

    def evaluated(self, chosen: Ints) -> Judged:
        """What is certain of the policy that takes the entries `chosen` [M]; it is the best from now on if it is."""
        known = self._judged.get(chosen.tobytes())
        if known is not None:
            return known
        base = self.corners.evaluate(chosen, None)
        return self.considered(chosen, self._by_time(chosen) if base is None else pure_of(base))

    def considered(self, chosen: Ints, pure: Pure | None) -> Judged:
        """The same of a policy whose values are known, if they are."""
        key = chosen.tobytes()
        if key not in self._judged:
            self._judged[key] = NOTHING_KNOWN if pure is None else self._looked_at(pure)
        return self._judged[key]

    def better_where_rare(self, prices: Floats) -> None:
        """The best, but best at `prices` [K] where it hardly ever comes, if it is in bounds for sure so as well."""
        assert self.best is not None
        best, corners = self.best, self.corners
        rare = hardly_ever(corners.criterion, best.time) & corners.criterion.reached
        if corners.criterion.mass_row:  # elsewhere it goes to where it stays
            rare &= best.time > 0.0
        if self._limits.over or not np.any(rare):
            return
        base = corners.evaluate(best.chosen, None)
        if base is None:
            return
        found = corners.best_at(prices, base, 0.0, self._limits)
        chosen = np.where(rare, corners.best_instead(best.chosen, prices, found), best.chosen)
        again = None if np.array_equal(chosen, best.chosen) else corners.evaluate(chosen, base)
        if again is not None:
            pure = pure_of(again)
            judged = self._judge(pure)
            if judged.in_bounds and judged.least >= best.reward - RARE:
                self.best = pure._replace(levels=np.append(judged.least, pure.levels[1:]))

    def _by_time(self, chosen: Ints) -> Pure | None:
        """A policy whose vectors cannot be told, as it hardly ever leaves some part; None without one average."""
        followed = self.corners.followed(chosen, None)
        if followed is None or followed.elsewhere:
            return None
        spent = self.corners.criterion.time_at_entries(followed)
        return Pure(chosen, followed.time, self.corners.signals @ spent)

    def _looked_at(self, pure: Pure) -> Judged:
        judged = self._judge(pure)
        if judged.in_bounds:
            self.most = max(self.most, judged.most)
            if self.best is None or judged.least > self.reward:
                self.best = pure._replace(levels=np.append(judged.least, pure.levels[1:]))
        elif judged.in_bounds is None and (self.nearly is None or pure.reward > self.nearly.reward):
            self.nearly, self.missing = pure, judged.missing
        return judged

    def _judge(self, pure: Pure) -> Judged:
        doubt, margins = _CLOSE + LOST * pure.size, pure.levels[1:]
        large = self.corners.criterion.n_places > PROVED_PLACES
        if np.any(margins < -doubt):
            return Judged(False, pure.reward, pure.reward)
        if np.all(margins > doubt) and (large or self._limits.over):
            return Judged(True, pure.reward, pure.reward)
        if self._limits.over:
            return NOTHING_KNOWN
        taken, units = np.zeros(self.corners.criterion.n_entries), self.corners.units
        taken[pure.chosen] = 1.0
        least, most = self._between(self._problem, taken)
        in_bounds = True if np.all(least[1:] >= 0.0) else False if np.any(most[1:] < 0.0) else None
        missing = np.maximum(-least[1:], 0.0) if np.all(np.isfinite(least)) else None
        return Judged(in_bounds, units.inside(float(least[0])), units.inside(float(most[0])), missing)


def pure_of(base: Base) -> Pure:
    """A base as what it is judged by."""
    return Pure(base.chosen, base.time, base.levels, largest(base.values))


def largest(vectors: Floats) -> float:
    """The size of their largest entry."""
    return float(np.max(np.abs(vectors), initial=0.0))
