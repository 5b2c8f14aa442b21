"""How each price moves as its bound moves: the range in which the prices stay, and the price in the piece beyond.

The optimum is a concave, piecewise linear function of a bound, and its slope is the price. A vertex of the occupancy
program (`inbounds.exact.vertex`) knows the piece that the problem is on, and a few steps of the simplex method lead to
the piece on either side.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints, freeze
from inbounds.exact.bases import NOTHING, Base
from inbounds.exact.limits import NO_LIMITS
from inbounds.exact.vertex import Corner, Corners, Vertex
from inbounds.frames import frame
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint
from inbounds.tables import html_card, html_table, text_table

_STEPS = (1e-7, 1e-9)
"""Beyond the end of a range, of a scaled bound: the second where there is another piece within the first."""

_NEAR = 1e-2
"""The share of a step within which the next piece begins at the end of the last: what is between is rounding."""

_ROUNDED = 1e-12
"""The share of what was added up that a sum whose terms cancel may leave, or an end next to zero of a range."""

_GAP = 1e-12
"""Of a vertex whose price is told. A price that is wrong by 1e-5 would be so within a step of the end at most."""

_PIVOTS = 20
"""From one piece to the next, at most. As a rule it is one: more, where several columns are down to nothing."""

_TITLE = "How prices move as one bound moves, and the others do not"


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivities:
    """The prices (Lagrange multipliers, shadow prices) of all bounds, where they hold, and what follows.

    All of it is exact within its piece, and says nothing of what is beyond the next; for that there is ``ib.frontier``.

    Attributes
    ----------
    constraints : tuple of K Constraint
        Without their signals.
    prices : array [K]
        Reward gained per unit of bound relaxed.
    ranges : array [K, 2]
        Between which bounds a constraint can be moved, the others as they are, while all prices stay what they are; as
        far as one basis tells. Where bases are tied, the prices may stay further, and `beyond` is then the price.
    beyond : array [K, 2]
        Its price just below and just above that range. Infinite: no policy keeps such a bound. Not a number: the range
        has no end there, or neither is proved, as may be where several things change at that end.
    """

    constraints: tuple[Constraint, ...]
    prices: Floats
    ranges: Floats
    beyond: Floats

    def to_frame(self) -> Any:
        """A data frame of pandas or polars: one row for each constraint."""
        return frame(
            {
                "constraint": [c.name for c in self.constraints],
                "side": [c.side for c in self.constraints],
                "bound": [c.bound for c in self.constraints],
                "price": self.prices.tolist(),
                "from": self.ranges[:, 0].tolist(),
                "to": self.ranges[:, 1].tolist(),
                "price below": self.beyond[:, 0].tolist(),
                "price above": self.beyond[:, 1].tolist(),
            }
        )

    @property
    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows, as texts."""
        rows: list[tuple[str, ...]] = []
        for c, price, ends, beyond in zip(self.constraints, self.prices, self.ranges, self.beyond, strict=True):
            finite = ends[np.isfinite(ends)]
            rounding = _ROUNDED * max(np.abs(finite).max(initial=abs(c.bound)), np.ptp(finite) if finite.size else 0.0)
            shown = [0.0 if abs(end) <= rounding else end for end in ends]
            rows.append((c.name, c.in_words, _number(price), *map(_number, shown), *map(_price, beyond)))
        return ("constraint", "bound", "price", "from", "to", "below", "above"), rows

    def __str__(self) -> str:
        return f"{_TITLE}\n\n{text_table(*self.table)}"

    def _repr_html_(self) -> str:
        return html_card(_TITLE, html_table(*self.table))

    def __repr__(self) -> str:
        names = ", ".join(c.name for c in self.constraints)
        return f"Sensitivities({names})"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.6g}"


def _price(price: float) -> str:
    return "no policy" if math.isinf(price) else _number(price)


class Piece(NamedTuple):
    """The piece that a problem is on: all that is needed to find the next ones when somebody asks."""

    problem: CMDP  # as well scaled as can be
    base: Ints  # [M], the entries of the base of the vertex; its vectors are long, and found again
    vertex: Vertex

    @classmethod
    def of(cls, problem: CMDP, corner: Corner) -> Piece:
        return cls(problem, corner.base.chosen, corner.vertex)

    @property
    def ranges(self) -> Floats:
        """Between which bounds each constraint can be moved at constant prices, [K, 2]."""
        constraints, scales = self.problem.constraints, self.problem.margin_scales
        moved = ranges_of(self.vertex) * scales[:, None]
        bounds, nothing = np.array([c.bound for c in constraints])[:, None], NOTHING * scales[:, None]
        ends = bounds + self._outward * moved
        ends[(np.abs(ends) <= nothing) & (np.abs(bounds) > nothing)] = 0.0  # it is not above what can be kept there
        return freeze(self._upright(ends))

    @property
    def prices_beyond(self) -> Floats:
        """The price of each constraint below and above its range, [K, 2], as `Sensitivities.beyond` has it.

        A step beyond the end of a range, the dual simplex method goes from this vertex to the next. Its price is told
        where it is proved: it is a policy from that end on, and no policy in bounds is better than by rounding.
        """
        corners = Corners(self.problem)
        base, result = corners.evaluate(self.base, None), np.full((corners.size, 2), np.nan)
        ends = ranges_of(self.vertex)
        if base is not None and not self.vertex.pinned:
            for k, j in np.argwhere(np.isfinite(ends)):
                result[k, j] = _price_beyond(corners, base, self.vertex, int(k), (-1.0, 1.0)[j], float(ends[k, j]))
        return freeze(self._upright(np.stack([corners.units.prices(side) for side in result.T], axis=1)))

    @property
    def _outward(self) -> Floats:
        return np.array([c.outward for c in self.problem.constraints])[:, None]

    def _upright(self, ends: Floats) -> Floats:
        """From looser and tighter, [K, 2], to below and above."""
        return np.where(self._outward > 0.0, ends, ends[:, ::-1])


def ranges_of(vertex: Vertex) -> Floats:
    """How much tighter each bound can become, and how much looser (below zero), at constant prices: [K, 2].

    As a bound moves, amounts, what the base keeps, and the margins of constraints that do not bind change along
    straight lines. The basis stays optimal, for the prices do not change, until the first of them is zero.
    """
    result = np.zeros((len(vertex.levels) - 1, 2))
    for k in range(0 if vertex.pinned else len(result)):
        left, rates = _rates(vertex, k)
        falls, rises = rates < 0.0, rates > 0.0
        result[k, 0] = np.max(-left[rises] / rates[rises], initial=-np.inf)
        result[k, 1] = np.min(-left[falls] / rates[falls], initial=np.inf)
    return result


def _rates(vertex: Vertex, k: int) -> tuple[Floats, Floats]:
    """What must not become less than zero, and how fast it grows as bound k is tightened.

    The amounts of the extras, what the base keeps at their places, and the margins that are not zero.
    """
    slack = vertex.slack
    left = np.maximum(np.concatenate([vertex.amounts, vertex.kept, vertex.levels[1 + slack]]), 0.0)
    if k in slack:
        return left, np.append(np.zeros(2 * len(vertex.extras)), np.where(slack == k, -1.0, 0.0))
    more = np.linalg.solve(vertex.effects[1 + vertex.binding], (vertex.binding == k).astype(float))
    parts = np.vstack([np.diag(more), -vertex.displaced * more, vertex.effects[1 + slack] * more])
    rates, largest = np.sum(parts, axis=1), float(np.abs(more).max())
    # What is left of sums that cancel, as where two constraints say the same, is no rate.
    rates[np.abs(rates) <= _ROUNDED * (np.abs(parts).sum(axis=1) + largest)] = 0.0
    return left, rates


def _price_beyond(corners: Corners, base: Base, vertex: Vertex, k: int, side: float, end: float) -> float:
    """The price k where its bound, tighter than it is by `end`, moves on to that side; nan where none is proved."""
    for rare, step in product((False, True), _STEPS):  # the next vertex may come to where this one hardly ever does
        beyond = copy.copy(corners)  # which keeps the vectors of its last base
        aim = np.zeros(corners.size)
        aim[k] = end + side * step
        met = beyond.pivoted(base, vertex.columns, vertex.prices, aim, _PIVOTS, NO_LIMITS, rare)
        if met.vertex is not None:
            price = _proved_price(beyond, met.base, met.vertex, aim, k, side, step)
            if not _goes_on(vertex, met.vertex, price, aim, k, end):  # there is another piece in between
                price = np.nan
        else:
            last = np.inf if met.weights is None else _last_kept(beyond, met.weights, k)
            price = np.inf if last <= end + _GAP else np.nan
        if not np.isnan(price):
            return price
    return np.nan


def _proved_price(corners: Corners, base: Base, vertex: Vertex, aim: Floats, k: int, side: float, step: float) -> float:
    """The price k of a vertex that is best where the margins are to be `aim` [K], and a `step` nearer; else nan."""
    vertex = vertex._replace(levels=vertex.levels - np.append(0.0, aim))
    back = abs(ranges_of(vertex)[k, 0 if side > 0.0 else 1])
    if not back >= (1.0 - _NEAR) * step:
        return np.nan
    prices = vertex.prices
    value = float(vertex.levels[0] + np.sum(prices * aim))
    upper = corners.upper(base, prices, corners.worth(base, prices))
    if upper - value > _GAP:  # as a rule it is only where it never comes that the base is not best
        upper = corners.best_at(prices, base, _GAP, NO_LIMITS).upper
    return float(prices[k]) if upper - value <= _GAP else np.nan


def _goes_on(here: Vertex, there: Vertex, price: float, aim: Floats, k: int, end: float) -> bool:
    """Whether the optimum that falls from `end` on with that price is what this vertex has there."""
    reward, beyond = (vertex.levels[0] + np.sum(vertex.prices * vertex.levels[1:]) for vertex in (here, there))
    return bool(abs((beyond - price * end) - (reward - here.prices[k] * end)) <= _GAP)


def _last_kept(corners: Corners, weights: Floats, k: int) -> float:
    """How far bound k can be tightened at most: further, no policy has what the margins are to have, `weights` [K]."""
    if not weights[k] > _GAP * float(weights.max()):
        return np.inf
    priced = np.einsum("k,kn->n", weights / weights[k], corners.signals[1:])
    return float(corners.criterion.solve(priced, NOTHING).upper)
