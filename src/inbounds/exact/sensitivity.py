"""How each price moves as its bound moves: the range in which the prices stay, and the price in the piece beyond.

The optimum is a concave, piecewise linear function of a bound, and its slope is the price. A vertex of the occupancy
program (`inbounds.exact.vertex`) knows the piece that the problem is on, and one step of the simplex method leads to
the piece on either side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.exact.vertex import GOAL, Corner, Vertex
from inbounds.frames import frame
from inbounds.problem.constraint import Constraint
from inbounds.tables import html_card, html_table, text_table

_DEGENERATE = 1e-11
"""Scaled amounts, and worths of entries, that may as well be zero: what hinges on them is not told."""

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
        Between which bounds a constraint can be moved, the others as they are, while all prices stay what they are.
    beyond : array [K, 2]
        Its price just below and just above that range. Infinite: no policy keeps such a bound. Not a number: the range
        has no end there, or several things change at that end and rounding decides.
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
        rows: list[tuple[str, ...]] = [
            (c.name, c.in_words, _number(price), *map(_number, ends), *map(_price, beyond))
            for c, price, ends, beyond in zip(self.constraints, self.prices, self.ranges, self.beyond, strict=True)
        ]
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
    left = np.concatenate([vertex.amounts, vertex.kept, vertex.levels[1 + slack]])
    if k in slack:
        return left, np.append(np.zeros(2 * len(vertex.extras)), np.where(slack == k, -1.0, 0.0))
    more = np.linalg.solve(vertex.effects[1 + vertex.binding], (vertex.binding == k).astype(float))
    lost = np.sum(vertex.displaced * more, axis=1)
    return left, np.concatenate([more, -lost, np.sum(vertex.effects[1 + slack] * more, axis=1)])


def prices_beyond(corner: Corner) -> Floats:
    """The price of each constraint where its bound leaves the range at constant prices, looser and tighter: [K, 2].

    At the end of a range one column of the basis is down to nothing. It leaves, another enters by the ratio test,
    and the next basis has the price: no evaluation is needed, but where it is the base that has nothing left at the
    place of a column. Infinite where nothing can enter, as no policy keeps a tighter bound. Not a number where the
    range has no end on that side; where several columns are down to nothing at once; and where what the base does
    at places that it never visits would not be best at the new prices.
    """
    eligible = corner.corners.eligible(corner.base)
    sides = (-1.0, 1.0)
    return np.array([[_price_beyond(corner, k, side, eligible) for side in sides] for k in range(corner.corners.size)])


def _price_beyond(corner: Corner, k: int, side: float, eligible: tuple[Ints, Floats]) -> float:
    corners, columns, base, n_extras = corner.corners, corner.columns, corner.base, len(corner.vertex.extras)
    left, rates = _rates(corner.vertex, k)
    falls = np.flatnonzero(side * rates < 0.0)
    if not len(falls):
        return np.nan
    first = int(falls[np.argmin(left[falls] / np.abs(rates[falls]))])
    then = left + side * rates * (left[first] / abs(rates[first]))
    if corner.vertex.pinned or np.count_nonzero(then <= _DEGENERATE) > 1:
        return np.nan
    leaving = first if first < n_extras else first - n_extras
    if n_extras <= first < 2 * n_extras:  # the same basis, but what was an extra is the base now
        entry = columns[leaving]
        columns[leaving] = int(base.chosen[corners.criterion.places[entry]])
        exchanged = corners.exchanged(base, entry, followed=False)
        if exchanged is None:
            return np.nan
        base = exchanged
    elif first >= 2 * n_extras:
        leaving = first - n_extras  # slacks are behind the extras
    system = corners.system(base, columns, corner.vertex.prices)
    if system is None:
        return np.nan
    inverse, at = system
    entering = corners.entering(base, columns, eligible, at, inverse[leaving], -1.0)
    if entering is None:  # nowhere, or where the base never comes
        return np.inf if side > 0.0 and np.all(base.time > 0.0) else np.nan
    columns[leaving] = entering
    system = corners.system(base, columns, corner.vertex.prices)
    if (
        system is None or np.max(corners.worth(base, system[1])) > _DEGENERATE
    ):  # it would act otherwise where it never is
        return np.nan
    price = float(system[1][k])
    # The optimum is concave in the bound. What is not is rounding.
    return max(price, 0.0) if side * (price - corner.vertex.prices[k]) >= -GOAL * abs(price) else np.nan
