"""The ways on which a policy gets inside its bounds by just enough to be provably there."""

from __future__ import annotations

from typing import Any

import numpy as np

from inbounds.arrays import Floats
from inbounds.criteria import criterion_of
from inbounds.criteria.contract import Followed
from inbounds.exact.feasibility import spare_occupancies, spare_occupancy
from inbounds.exact.optimum import Optimum, flat_margins
from inbounds.exact.rare import without_rare_losses
from inbounds.exact.reachable import well_scaled
from inbounds.exact.solution import policy_of, taken_by
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import Policy

_AIM = 1e-13
"""Where a margin that binds is put first, relative to the largest: about ten times what rounding takes of it."""

_LEAST = 1e-17
"""Less than that, relative to the largest margin, changes nothing that is stored: to begin with less takes many more
steps, each twice the one before."""

_COMFORTABLE = 1e-9
"""A margin of this part of the largest is proved as it is."""

_STRICT = 1e-10
"""A margin to spare below this part of the largest counts as none, as it does when feasibility is decided."""

_ROOMY = 1e-5
"""With less to spare than this, what the solver came by is not enough, and the safest policy is looked for."""


class Staying:
    """A deterministic policy: it cannot be moved by a little. Attributes as below."""

    moved, vectors, linked = False, None, 0

    def __init__(self, cmdp: CMDP, found: Optimum) -> None:
        self._cmdp, self._found = cmdp, found

    def followed(self) -> Followed:
        """The policy with its time per place."""
        return _stored(self._cmdp, taken_by(self._cmdp, self._found), self._found.occupancy[self._found.pure])

    def stricter(self, missing: Floats) -> bool:
        """Never."""
        del missing
        return False


class Aiming:
    """A vertex on its way inside the bounds: the same coins, or those of a neighbour, with other probabilities.

    Attributes
    ----------
    moved : bool
        Whether it is not where the solver left it.
    vectors : array [1 + K, M]
        Where the vectors of the proof may begin.
    linked : int
        How many classes the way itself had to link; 0: none.
    """

    linked = 0

    def __init__(self, cmdp: CMDP, found: Optimum) -> None:
        self._cmdp, self._corner, self._found = cmdp, found.corner, found
        units = found.corner.units
        self.moved, self._aim = False, np.zeros(cmdp.n_constraints)
        self.vectors: Floats | None = np.append(units.spread, units.scales)[:, None] * found.corner.vectors()
        criterion = criterion_of(cmdp)
        self._time: Any = np.bincount(criterion.places, found.occupancy, criterion.n_places)
        self._toward(np.full(cmdp.n_constraints, _AIM))

    def followed(self) -> Followed:
        """The policy, as it will be stored, with its time per place."""
        taken = self._corner.vertex.probabilities(criterion_of(self._cmdp).n_entries)
        followed = _stored(self._cmdp, taken, self._time)
        self._time = followed.time
        return followed

    def stricter(self, missing: Floats) -> bool:
        """Move further, where rounding took more of the scaled margins than was there: by what is missing [K].

        False when no vertex is so far inside: no scaled margin is above 1.
        """
        step = np.maximum(2.0 * self._aim, _LEAST)
        aim = np.maximum(self._aim + 2.0 * missing, np.where(missing > 0.0, step, 0.0))
        if aim.max() > 1.0:
            return False
        return self._toward(aim) or self._toward(aim, spare_occupancy(well_scaled(self._cmdp), self._found, _ROOMY))

    def _toward(self, aim: Floats, spare: Floats | None = None) -> bool:
        corner = self._corner.tightened(aim, spare)
        if corner is None:
            return False
        self._corner, self._aim, self.moved = corner, aim, True
        return True


class Mixing:
    """A mixture on its way inside the bounds: more and more of an occupancy with a margin to spare where it is needed.

    First a little of one that may break the bounds that do not bind; then of the safest mixture of the policies that
    the solver came by, or the safest there is (`spare_occupancies`). Attributes as above.
    """

    vectors: Floats | None = None
    linked = 0

    def __init__(self, cmdp: CMDP, found: Optimum) -> None:
        self._cmdp, self._asked, self._found, self._weight = cmdp, well_scaled(cmdp), found, 0.0
        self._scaled = flat_margins(self._asked) / self._asked.margin_scales[:, None]
        self._left = np.sum(found.occupancy * self._scaled, axis=1)
        self._spares = spare_occupancies(self._asked, found, _ROOMY, lifting=found.linked > 0)
        self._safer: Floats | None = None
        self._margins, self._most = np.zeros(cmdp.n_constraints), 1.0
        short = np.maximum(_AIM - self._left, 0.0)
        if np.min(self._left, initial=np.inf) < _COMFORTABLE and self._next(short):
            self._weight = min(self._needed(short), 1.0)

    @property
    def moved(self) -> bool:
        return self._weight > 0.0

    def _next(self, short: Floats) -> bool:
        """The next occupancy with room where margins are `short` [K], nothing of it yet; False if there is none."""
        for safer in self._spares:
            margins = np.sum(safer * self._scaled, axis=1)
            if np.all(margins[short > 0.0] > _STRICT):
                broken = (margins <= 0.0) & (margins < self._left)
                # What may be taken of it: until half of what is left of the bounds that it breaks is gone.
                most = np.min(0.5 * self._left[broken] / (self._left - margins)[broken], initial=1.0)
                self._safer, self._margins, self._most, self._weight = safer, margins, float(most), 0.0
                return True
        return False

    def _needed(self, short: Floats) -> float:
        """How much of it makes up for what margins are `short` of [K]."""
        return float(np.max(short[short > 0.0] / self._margins[short > 0.0], initial=0.0))

    def followed(self) -> Followed:
        """The policy, as it will be stored, with its time per place."""
        spent = self._found.occupancy
        if self._weight > 0.0 and self._safer is not None:
            spent, self.linked = self._mixed(spent, self._safer)
            apart = self._found.apart if self._found.linked else None
            if apart is not None and self._out(spent) > 0.0:
                # What leads to the safer one is so little that it is taken for rounding, and then it is what links
                # classes already that tells the times in them. So all is linked at once.
                again, linked = self._mixed(apart, self._safer)
                if self._out(again) < self._out(spent):
                    spent, self.linked = again, linked
        # What is moved for a proof is no reason either to do what loses where the policy hardly ever comes.
        spent = without_rare_losses(self._asked, self._found._replace(occupancy=spent)).occupancy
        taken = policy_of(self._cmdp, spent, self._found.prices, self._found.value_function)
        criterion = criterion_of(self._cmdp)
        time: Any = np.bincount(criterion.places, spent, criterion.n_places)
        return _stored(self._cmdp, taken, time)

    def _mixed(self, spent: Floats, safer: Floats) -> tuple[Floats, int]:
        """An occupancy [N] with so much of a safer one, and how many classes were linked.

        Long-run averages: two policies that each stay where they are make one that falls apart.
        """
        mixed = (1.0 - self._weight) * spent + self._weight * safer
        return criterion_of(self._cmdp).linked(mixed, tuple, _AIM, self._scaled)

    def _out(self, spent: Floats) -> float:
        """By how much of the largest margin an occupancy [N] is out of bounds."""
        return -float(np.min(np.sum(spent * self._scaled, axis=1), initial=0.0))

    def stricter(self, missing: Floats) -> bool:
        """More of it, where rounding took more of the scaled margins than was there; False if there is no more."""
        known = self._safer is not None or self._next(missing)
        while known and self._weight < 1.0:
            if np.all(self._margins[missing > 0.0] > _STRICT):
                more = max(2.0 * self._weight, self._weight + 1.5 * self._needed(missing), _LEAST)
                if more <= self._most or self._most == 1.0:
                    self._weight = min(more, 1.0)
                    return True
            known = self._next(missing)
        return False


def _stored(cmdp: CMDP, taken: Floats, time: Floats) -> Followed:
    """A policy [N] as it will be stored, with its time per place, begun from `time` [M]."""
    criterion = criterion_of(cmdp)
    taken = Policy(cmdp.pairs, taken.reshape(cmdp.shape)).probabilities.ravel()
    return criterion.follow(taken, start=time * (len(criterion.layers) / time.sum()))
