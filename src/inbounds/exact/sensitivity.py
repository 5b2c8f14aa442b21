"""How each price moves as its bound moves: the range in which the prices stay, and the price in the piece beyond.

The optimum is a concave, piecewise linear function of a bound, and its slope is the price. A vertex of the occupancy
program knows the piece that the problem is on, and one step of the simplex method leads to the piece on either side
(`inbounds.exact.vertex`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from inbounds.arrays import Floats
from inbounds.frames import frame
from inbounds.problem.constraint import Constraint
from inbounds.tables import html_card, html_table, text_table

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
