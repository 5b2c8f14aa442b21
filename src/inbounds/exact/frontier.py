"""The record of a frontier: the optimum at bounds from the loosest to the tightest, as a table, a frame, a picture."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.exact.limits import Partial
from inbounds.exact.optimum import OPTIMAL, STALLED, UNPROVED
from inbounds.exact.solution import Solution
from inbounds.frames import frame
from inbounds.pictures import written
from inbounds.pictures.bounds import frontier_figure
from inbounds.tables import (
    as_given,
    escaped,
    html_card,
    html_table,
    kept_in_digits,
    printable,
    so_many,
    text_table,
    wrapped,
)

TOLD_TO = 1e-9
"""Up to which points are in bounds, relative to the largest margin: an end of the curve is told as exactly."""

CLOSE = 1e-12
"""Of a bound, relative to the largest margin: what is so close to the last that can be kept is taken for it. And of
rewards, relative to the largest: so close to each other they are the same."""

_CLEAR = 50.0
"""An axis is so many times as high, at least, as what its points are good to: that is then as little as a line."""

_LEVEL = 1e-3
"""Of the optimum: how high its axis is, at least, where the points differ by no more than they are good to."""

_ROWS = 12
"""That a printed frontier has, at most."""


@dataclass(frozen=True, eq=False, repr=False)
class Frontier:
    """The optimum as one bound moves, from the loosest to the tightest; values as the criterion has them.

    Printed, a table of its points; `plot` draws them, and `to_frame` has all of it.

    Attributes
    ----------
    constraint : str
        The name of the constraint whose bound moves.
    names : tuple of str, length K
        Of all constraints of the problem.
    at_least : bool
        Whether it is an ``at_least`` bound; otherwise ``at_most``.
    bounds : array [P]
        From the loosest to the tightest.
    solutions : tuple of Solution, length P
        The optimum at each bound, with its policy, prices, margins and upper bound.
    matters_from : float
        Looser bounds than this cost nothing, and tighter ones do, up to what it costs to link the classes of an
        average. In problems of more than 50,000 pairs (times stages),
        without certificates, it is told of one policy that is best up to the tolerance: somewhat looser bounds may cost
        as much as that, and where several policies are best somewhat tighter ones nothing.
    possible_to : float
        The tightest bound that a policy is known to keep together with the other constraints. None keeps one that is
        tighter by more than the tolerance.
    present : float
        The bound that the problem has.
    impossible : array
        Of the bounds that were asked for, those that no policy keeps together with the other constraints; they have no
        solution.
    unconstrained_solves : int
        How many unconstrained problems were solved for all points together.
    status : str
        "optimal"; or the limit that was reached first, "time limit" or "iteration limit": then there are fewer points
        than were asked for, from the loosest on.
    partial : Partial, optional
        At a limit: what ``ib.frontier(..., resume=curve.partial)`` goes on from.
    problem : str
        What the problem is called; may be empty.
    """

    constraint: str
    names: tuple[str, ...]
    at_least: bool
    bounds: Floats
    solutions: tuple[Solution, ...]
    matters_from: float
    possible_to: float
    present: float
    impossible: Floats
    unconstrained_solves: int
    status: str = OPTIMAL
    partial: Partial | None = None
    problem: str = ""

    @property
    def rewards(self) -> Floats:
        """The optimum at each bound, [P]."""
        return freeze(np.array([solution.reward for solution in self.solutions]))

    @property
    def upper_bounds(self) -> Floats:
        """No policy has more at each bound, [P]."""
        return freeze(np.array([solution.upper_bound for solution in self.solutions]))

    @property
    def least_height(self) -> float:
        """How high the axis of a picture is, at least, so that what is not known of the points is no curve."""
        return least_height(self.rewards, self.upper_bounds, self.statuses)

    @property
    def prices(self) -> Floats:
        """The prices of all constraints at each bound, [P, K]."""
        prices = np.array([solution.prices for solution in self.solutions])
        return freeze(prices.reshape(len(self.solutions), len(self.names)))

    @property
    def own_prices(self) -> Floats:
        """The prices of the constraint whose bound moves, [P]."""
        return self.prices[:, self.names.index(self.constraint)]

    @property
    def statuses(self) -> list[str]:
        """What `Solution.status` says at each bound, length P."""
        return [solution.status for solution in self.solutions]

    @property
    def columns(self) -> dict[str, list[Any]]:
        """By name, for all bounds, those that nothing keeps last: their numbers are not numbers."""
        found = self.solutions
        kept: dict[str, list[float]] = {
            "reward": [s.reward for s in found],
            "upper_bound": [s.upper_bound for s in found],
        }
        for what, values in (("margin", [s.margins for s in found]), ("price", [s.prices for s in found])):
            kept |= {f"{what}_{name}": [float(own[k]) for own in values] for k, name in enumerate(self.names)}
        lost = len(self.impossible)
        return {
            "bound": [*self.bounds.tolist(), *self.impossible.tolist()],
            "possible": [True] * len(found) + [False] * lost,
            **{name: values + [math.nan] * lost for name, values in kept.items()},
        }

    def to_frame(self) -> Any:
        """A data frame of pandas or polars: bound, whether a policy keeps it, reward, upper bound, margins, prices."""
        return frame(self.columns)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """The optimum and the price against the bound: a matplotlib figure; with `path` also a file (.png, .svg, .pdf).

        Lines mark the present bound, from where the bound matters, and to where a policy keeps it. The price rises in
        steps: a box from each point to the next holds those between them.
        """
        return written(frontier_figure(self), path)

    def __str__(self) -> str:
        return f"{wrapped(self._lead)}\n\n{text_table(*self._table)}\n\n{wrapped(self._verdict)}"

    def _repr_html_(self) -> str:
        return html_card(self._lead, html_table(*self._table, words=0), f"<p>{escaped(self._verdict)}</p>")

    @property
    def _lead(self) -> str:
        shown, count = len(self._shown), len(self.bounds) + len(self.impossible)
        some = f": {shown} of its {count} points" if shown < count else ""
        return f"the optimum as the bound on {printable(self.constraint)} moves{some}"

    @property
    def _shown(self) -> list[int]:
        """The bounds that a table shows."""
        return evenly(len(self.bounds) + len(self.impossible))

    @property
    def _table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows, as texts."""
        sign, rewards, prices = ">=" if self.at_least else "<=", self.rewards, self.own_prices
        rows: list[tuple[str, ...]] = [
            (f"{sign} {self.bounds[p]:.6g}", f"{rewards[p]:.6g}", f"{prices[p]:.4g}", "yes")
            if p < len(self.bounds)
            else (f"{sign} {self.impossible[p - len(self.bounds)]:.6g}", "-", "-", "no")
            for p in self._shown
        ]
        return (f"bound on {self.constraint}", "reward", "price", "possible"), rows

    @property
    def ends_in_words(self) -> tuple[str, str]:
        """`matters_from` and `possible_to` in six digits, which can be kept as well."""
        ends = (self.matters_from, self.possible_to)
        rounding = TOLD_TO * max(map(abs, ends))
        return kept_in_digits(ends[0], self.at_least, rounding), kept_in_digits(ends[1], self.at_least, rounding)

    @property
    def _verdict(self) -> str:
        begins, ends = self.ends_in_words
        cut = "" if self.status == OPTIMAL else f" {self.status}: tighter bounds are missing."
        known = " ".join(["", *doubts(self.statuses)])
        return (
            f"The bound is {as_given(self.present)} now. It begins to matter at {begins}; no policy keeps one beyond "
            f"{ends}.{cut}{known}"
        )

    def __repr__(self) -> str:
        side = "at_least" if self.at_least else "at_most"
        ends = f"{side} {self.bounds[0]:.6g} to {self.bounds[-1]:.6g}, " if len(self.bounds) else ""
        return f"Frontier({self.constraint!r}, {ends}{so_many(len(self.bounds), 'point')})"


def least_height(rewards: Any, upper_bounds: Any, statuses: Any) -> float:
    """How high the axis is, at least, on which optima are drawn: arrays of one shape, of which nan are left out.

    They are good to the largest of their gaps, and no more of a picture than a line is left to that.

    >>> least_height([2.0, 1.9, 1.7], [2.0, 1.9000001, 1.7], ["optimal"] * 3) < 0.3  # as high as the curve
    True
    >>> least_height([1.9999988, 2.0, 1.9999999], [2.0, 2.0, 2.0], ["optimal"] * 3)
    0.002
    >>> least_height([1e6, 1e6 - 0.01], [1e6, 1e6 - 0.01], ["optimal"] * 2) < 0.01  # a little of a large reward
    True
    """
    rewards, upper_bounds = np.asarray(rewards), np.asarray(upper_bounds)
    known = np.isfinite(rewards) & (np.asarray(statuses) != UNPROVED)
    if not np.any(known):
        return 0.0
    size = float(np.max(np.abs(rewards[known])))
    good_to = max(float(np.max((upper_bounds - rewards)[known])), CLOSE * size)
    level = float(np.ptp(rewards[known])) <= good_to
    return max(_CLEAR * good_to, _LEVEL * size if level else 0.0)


def doubts(statuses: Sequence[str]) -> list[str]:
    """What is to be said of points that are not optimal and in bounds, in sentences.

    >>> doubts(["optimal", "stalled", "not proved", "stalled"])[0]
    'At 2 points more may be possible: there the gap is larger than was asked for.'
    """
    said = []
    if wide := sum(status == STALLED for status in statuses):
        said.append(f"At {so_many(wide, 'point')} more may be possible: there the gap is larger than was asked for.")
    if unproved := sum(status == UNPROVED for status in statuses):
        said.append(f"At {so_many(unproved, 'point')} the policy is not shown to be in bounds.")
    return said


def evenly(count: int) -> list[int]:
    """The bounds that a table shows: at most twelve of 0..count - 1, evenly chosen.

    >>> evenly(3), evenly(50)
    ([0, 1, 2], [0, 4, 9, 13, 18, 22, 27, 31, 36, 40, 45, 49])
    """
    return [round(step) for step in np.linspace(0, count - 1, min(count, _ROWS))]
