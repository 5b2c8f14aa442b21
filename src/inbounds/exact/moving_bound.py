"""The price of safety: the optimum as one bound moves from where it does not matter to where nothing is in bounds.

As a function of the bound the optimum is concave and piecewise linear (its dual is a minimum of linear functions of the
bound), and its slope is the price. It is flat while the bound does not matter, then falls ever more steeply, and ends
where no policy keeps the bound together with the others.

All points are solved along one path (`inbounds.exact.path`): a policy's margin moves with the bound by the same amount
for every policy, so every policy and every upper bound found for one point serves all others, and small changes of the
best policy at one point lead to the next. Where that fails, a point is solved on its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.criteria import criterion_of
from inbounds.criteria.evaluation import ROUNDING
from inbounds.errors import InvalidInput
from inbounds.exact.methods import best_mixture
from inbounds.exact.mixture import Mixture, flat_margins
from inbounds.exact.path import Path
from inbounds.exact.solution import Solution, assemble
from inbounds.inputs import is_whole, whole_number
from inbounds.problem.cmdp import CMDP

_FLAT_SHARE = 0.15
"""The share of the points, at most, that show where the bound does not matter yet."""

_EDGE = 1e-4
"""The frontier ends this share of its length before the last bound that can be met: there the price may be infinite."""


@dataclass(frozen=True, eq=False, repr=False)
class Frontier:
    """The optimum as one bound moves, from the loosest to the tightest; values as the criterion has them.

    Attributes
    ----------
    constraint : str
        The name of the constraint whose bound moves.
    at_least : bool
        Whether it is an ``at_least`` bound; otherwise ``at_most``.
    bounds : array [P]
        From the loosest to the tightest.
    solutions : tuple of Solution, length P
        The optimum at each bound, with its policy, prices, margins and upper bound.
    matters_from : float
        Looser bounds than this cost nothing.
    possible_to : float
        No policy keeps a tighter bound than this together with the other constraints.
    unconstrained_solves : int
        How many unconstrained problems were solved for all points together.
    """

    constraint: str
    at_least: bool
    bounds: Floats
    solutions: tuple[Solution, ...]
    matters_from: float
    possible_to: float
    unconstrained_solves: int

    @property
    def rewards(self) -> Floats:
        """The optimum at each bound, [P]."""
        return np.array([solution.reward for solution in self.solutions])

    @property
    def prices(self) -> Floats:
        """The prices of all constraints at each bound, [P, K]."""
        return np.array([solution.prices for solution in self.solutions])

    def __repr__(self) -> str:
        side = "at_least" if self.at_least else "at_most"
        ends = f"{self.bounds[0]:.6g} to {self.bounds[-1]:.6g}"
        return f"Frontier({self.constraint!r}, {side} {ends}, {len(self.bounds)} points)"


def frontier(cmdp: CMDP, constraint: int | str = 0, points: int = 50, *, tolerance: float = 1e-6) -> Frontier:
    """The optimum, its prices and its policy as one bound moves from loosest to tightest; the others stay.

    Values are in the user's units: discounted averages per step, normalised by (1 - discount), sums over a finite
    horizon, or long-run averages. (The Pareto frontier of reward and one constraint.)

    Parameters
    ----------
    cmdp : CMDP
    constraint : int or str
        Which bound moves: its position, or its name. Its own bound in `cmdp` plays no part.
    points : int
        How many bounds, evenly spaced between a little before the bound begins to matter and the tightest possible.
    tolerance : float
        The relative gap of every point.

    Raises
    ------
    Infeasible
        When the other constraints already exclude each other.

    Examples
    --------
    >>> import inbounds as ib
    >>> curve = ib.frontier(ib.zoo.queue(), constraint="service", points=5)
    >>> round(curve.matters_from, 4), round(curve.possible_to, 4)
    (-5.0, 1.0)
    >>> bool(curve.rewards[0] > curve.rewards[-1]), curve.prices.shape
    (True, (5, 2))
    """
    if not isinstance(cmdp, CMDP):
        raise InvalidInput(f"frontier takes a CMDP; found {type(cmdp).__name__}")
    k, points = _position(cmdp, constraint), whole_number(points, "points", least=2)
    chosen, criterion, others = cmdp.constraints[k], criterion_of(cmdp), np.delete(np.arange(cmdp.n_constraints), k)
    margins, scales = flat_margins(cmdp), cmdp.margin_scales
    path = Path(criterion, cmdp.reward.ravel(), margins, scales)
    (free,) = path.follow([_only(k, -2.0 * float(scales[k]), scales)], tolerance)  # so loose that it cannot matter
    ahead = Path(criterion, margins[k], margins[others], scales[others])
    (best,) = ahead.follow([np.zeros(len(others))], tolerance)
    solves = ahead.unconstrained_solves
    if free is None or best is None:  # perhaps the others exclude each other
        without = cmdp.asking(constraints=cmdp.constraints[:k] + cmdp.constraints[k + 1 :])
        free, _ = best_mixture(without, tolerance=tolerance)
        best, _ = best_mixture(without.asking(reward=cmdp.margins[k]), tolerance=tolerance)
        solves += free.unconstrained_solves + best.unconstrained_solves
        free = free._replace(prices=np.insert(free.prices, k, 0.0))

    # In terms of the margin at the bound of `cmdp`: how much tighter than that the bound can be.
    loose, tight = free.value(margins[k]), best.value(margins[k])
    length = tight - loose if tight - loose > ROUNDING * scales[k] else 0.0
    flat = min(int(_FLAT_SHARE * points), points - 2)
    before = length * flat / (points - 1 - flat) if length > 0.0 else float(scales[k])
    # Not the last bound itself: rounding could put the margin of a signal that never changes on either side of it.
    end = tight - max(_EDGE * length, 1e-12 * float(scales[k]))
    tightened = np.linspace(loose - before, end, points)

    amounts = [_only(k, amount, scales) for amount in tightened]
    first = int(np.count_nonzero(tightened <= loose))
    solutions: list[Solution] = []
    for amount, mixture in zip(amounts, [free] * first + path.follow(amounts[first:], tolerance), strict=True):
        there = cmdp.tightened(amount)
        if mixture is free and solutions:  # the same policy, and the same upper bound
            here = freeze(solutions[0].margins + amounts[0] - amount)
            solutions.append(replace(solutions[0], margins=here, margin_scales=there.margin_scales))
            continue
        found = None if mixture is None else _assembled(there, mixture, tolerance)
        if found is None or not found.in_bounds:
            alone, by = best_mixture(there, tolerance=tolerance)
            found = assemble(there, alone, method=by)
            solves += found.unconstrained_solves
        solutions.append(found)
    solves += path.unconstrained_solves
    return Frontier(
        constraint=chosen.name,
        at_least=chosen.at_least is not None,
        bounds=freeze(chosen.bound + chosen.outward * tightened),
        solutions=tuple(solutions),
        matters_from=chosen.bound + chosen.outward * loose,
        possible_to=chosen.bound + chosen.outward * tight,
        unconstrained_solves=solves,
    )


def _assembled(problem: CMDP, mixture: Mixture, tolerance: float) -> Solution:
    scaled = flat_margins(problem) / problem.margin_scales[:, None]
    spent, linked = criterion_of(problem).linked(mixture.occupancy, lambda: None, tolerance, scaled)
    return assemble(problem, mixture._replace(occupancy=spent, linked=linked), method="path")


def _position(cmdp: CMDP, constraint: Any) -> int:
    names = [c.name for c in cmdp.constraints]
    if not names:
        raise InvalidInput("the problem has no constraint whose bound could move")
    if isinstance(constraint, str):
        if constraint not in names:
            raise InvalidInput(f"no constraint is called {constraint!r}; there are: {', '.join(names)}")
        return names.index(constraint)
    if not is_whole(constraint, least=0) or constraint >= len(names):
        raise InvalidInput(f"constraint must be a name or a position from 0 to {len(names) - 1}, found {constraint!r}")
    return int(constraint)


def _only(k: int, amount: float, like: Floats) -> Floats:
    amounts = np.zeros_like(like)
    amounts[k] = amount
    return amounts
