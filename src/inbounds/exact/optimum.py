"""What solvers hand to each other: an occupancy with prices, and the units in which they work."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.criteria.contract import Criterion
from inbounds.problem.cmdp import CMDP

OPTIMAL, STALLED, UNPROVED = "optimal", "stalled", "not proved"
"""How a solver can end; besides at one of the limits in `inbounds.exact.limits`."""


class Optimum(NamedTuple):
    """The occupancy of a best policy in bounds, with prices, in the user's units.

    Where it never comes, it is zero and leaves the policy open; `inbounds.exact.solution.assemble` fills it in.
    """

    occupancy: Floats  # [N]
    prices: Floats  # [K]
    value_function: Floats  # [M], of the reward plus the priced margins; it proves the upper bound
    upper_bound: float
    unconstrained_solves: int = 0
    spare: Floats | None = None  # [N], an occupancy with a margin to spare in every constraint, where one is known
    linked: int = 0  # classes that had to be linked
    apart: Floats | None = None  # [N], the occupancy before classes were linked, or one of them was taken alone
    status: str = OPTIMAL  # or the limit that was reached first
    best: tuple[Ints, Floats] | None = None  # [M], what is best at the prices and how long it is where, if known
    pure: Ints | None = None  # [M], the entries of a deterministic policy, if it is one and must remain so
    corner: Any = None  # the vertex that it is, `inbounds.exact.vertex.Corner`, if that was asked for and found

    def value(self, signal: Floats) -> float:
        """Of a signal over pairs, of whatever shape."""
        return float(np.sum(self.occupancy * signal.ravel()))

    def limit(self, signal: Floats) -> float:
        """The same of its classes before they were linked: policies come as close to that as one likes."""
        return float(np.sum((self.occupancy if self.apart is None else self.apart) * signal.ravel()))


class Units(NamedTuple):
    """Between the user's units and those inside a solver, in which rewards and margins are in [-1, 1]."""

    centre: float  # of the value of the reward
    spread: float
    scales: Floats  # [K], of the margins
    criterion: Criterion

    @classmethod
    def of(cls, criterion: Criterion, reward: Floats, scales: Floats) -> Units:
        """For a reward [N], and scales [K], each at least the absolute value of that margin under any policy."""
        least, most, layers = float(reward.min()), float(reward.max()), len(criterion.layers)
        return cls(0.5 * (least + most) * layers, (0.5 * (most - least) or 1.0) * layers, scales, criterion)

    def objective(self, reward: Floats) -> Floats:
        """A reward [N] of the user, inside."""
        return (reward - self.centre / len(self.criterion.layers)) / self.spread

    def value(self, inside: float) -> float:
        """A value of the objective, for the user."""
        return self.centre + self.spread * inside

    def inside(self, value: float) -> float:
        """The other way round."""
        return (value - self.centre) / self.spread

    def value_function(self, inside: Floats) -> Floats:
        """A vector over places [M], for the user."""
        return self.criterion.level(self.centre) + self.spread * inside

    def prices(self, inside: Floats) -> Floats:
        """Prices [K] of scaled margins, for the user: reward gained per unit of bound relaxed."""
        return inside * self.spread / self.scales

    def gap_allowed(self, tolerance: float, upper: float) -> float:
        """Relative to the optimum, or to a hundredth of the spread where that is closer to zero; inside."""
        return tolerance * max(abs(upper + self.centre / self.spread), 0.01)


def flat_margins(problem: CMDP) -> Floats:
    """The margins of a problem over entries, [K, N]."""
    return problem.margins.reshape(problem.n_constraints, problem.reward.size)
