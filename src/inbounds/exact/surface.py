"""What two bounds cost together: the optimum on a grid of both, row by row along frontiers of one."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.criteria.evaluation import ROUNDING
from inbounds.errors import Infeasible, InvalidInput, Stopped
from inbounds.exact.frontier import Frontier, doubts, evenly, least_height
from inbounds.exact.limits import TIME
from inbounds.exact.moving_bound import Says, along_bounds, bounds_of_interest, wanted_bounds
from inbounds.exact.optimum import OPTIMAL
from inbounds.frames import frame
from inbounds.inputs import callback, positive, whole_number
from inbounds.numerics.interrupts import holding_handlers
from inbounds.pictures import written
from inbounds.pictures.bounds import surface_figure
from inbounds.problem.cmdp import CMDP, require_model
from inbounds.problem.constraint import Constraint
from inbounds.problem.pieces import attach, seconds_or_none
from inbounds.tables import as_given, escaped, html_card, html_table, printable, text_table, wrapped


@dataclass(frozen=True, eq=False, repr=False)
class Surface:
    """The optimum as two bounds move; values as the criterion has them.

    Printed, a table of it; `plot` draws it, and `to_frame` has all of it.

    Attributes
    ----------
    constraints : (str, str)
        The names of the two.
    at_least : (bool, bool)
        Whether each is an ``at_least`` bound; otherwise ``at_most``.
    bounds : (array [P], array [Q])
        Of each, from the loosest to the tightest.
    rewards : array [P, Q]
        The optimum; nan where no policy keeps both, or where the limit came first.
    prices : array [2, P, Q]
        What each of the two costs there.
    upper_bounds : array [P, Q]
        No policy that keeps both has more.
    statuses : array [P, Q] of str
        What `Solution.status` says there; "" where there is no solution.
    present : (float, float)
        The bounds that the problem has.
    status : str
        "optimal", or "time limit" or "interrupted": then rows at the end may be nan.
    problem : str
        What the problem is called; may be empty.
    """

    constraints: tuple[str, str]
    at_least: tuple[bool, bool]
    bounds: tuple[Floats, Floats]
    rewards: Floats
    prices: Floats
    upper_bounds: Floats
    statuses: Any
    present: tuple[float, float]
    status: str = OPTIMAL
    problem: str = ""

    @property
    def least_height(self) -> float:
        """How far apart the ends of the scale of a picture are, at least: what is not known of points has no colour."""
        return least_height(self.rewards, self.upper_bounds, self.statuses)

    @property
    def columns(self) -> dict[str, list[float]]:
        """By name, point by point: both bounds, the optimum with its upper bound, and both prices.

        Not numbers where no policy keeps both.
        """
        first, second = self.constraints
        across, down = np.meshgrid(*self.bounds, indexing="ij")
        values = {f"bound_{first}": across, f"bound_{second}": down, "reward": self.rewards}
        values["upper_bound"] = self.upper_bounds
        values |= {f"price_{name}": own for name, own in zip(self.constraints, self.prices, strict=True)}
        return {name: own.ravel().tolist() for name, own in values.items()}

    def to_frame(self) -> Any:
        """A data frame of pandas or polars: one row for each point, as in `columns`."""
        return frame(self.columns)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """The optimum as colour over both bounds: a matplotlib figure; with `path` also a file (.png, .svg, .pdf).

        A point marks the present bounds, at the edge if they are outside.
        """
        return written(surface_figure(self), path)

    def __str__(self) -> str:
        return f"{wrapped(self._lead)}\n\n{text_table(*self._table)}\n\n{wrapped(self._verdict)}"

    def _repr_html_(self) -> str:
        return html_card(self._lead, html_table(*self._table, words=0), f"<p>{escaped(self._verdict)}</p>")

    @property
    def _signs(self) -> list[str]:
        return [">=" if least else "<=" for least in self.at_least]

    @property
    def _lead(self) -> str:
        (first, second), (down, across) = self.constraints, self._signs
        return f"the optimum; down: {first} {down} ..., across: {second} {across} ...; -: no policy keeps both"

    @property
    def _table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows, as texts, of bounds evenly chosen if there are many."""
        rows, columns = (evenly(len(own)) for own in self.bounds)
        header = f"{self.constraints[0]} {self._signs[0]}", *(f"{self.bounds[1][j]:.4g}" for j in columns)
        digits = _decimals(self.rewards)
        return header, [
            (f"{self.bounds[0][i]:.4g}", *("-" if r != r else f"{r:.{digits}f}" for r in self.rewards[i, columns]))
            for i in rows
        ]

    @property
    def _verdict(self) -> str:
        facts = zip(self.constraints, self._signs, self.present, strict=True)
        said = [f"Now: {' and '.join(f'{printable(name)} {sign} {as_given(bound)}' for name, sign, bound in facts)}."]
        grid, shown = self.rewards.shape, tuple(len(evenly(len(own))) for own in self.bounds)
        if shown != grid:
            said.append(f"Of {grid[0]} x {grid[1]} points {shown[0]} x {shown[1]} are shown.")
        said += doubts(self.statuses.ravel().tolist())
        if self.status != OPTIMAL:
            said.append(f"{self.status}: rows at the end may be missing.")
        return " ".join(said)

    def __repr__(self) -> str:
        grid = " x ".join(str(len(own)) for own in self.bounds)
        return f"Surface({self.constraints[0]!r} and {self.constraints[1]!r}, {grid} points)"


@holding_handlers()
def surface(
    cmdp: CMDP,
    first: int | str,
    second: int | str,
    points: int = 12,
    *,
    bounds: tuple[Sequence[float] | None, Sequence[float] | None] | None = None,
    between: tuple[tuple[float, float] | None, tuple[float, float] | None] | None = None,
    tolerance: float = 1e-6,
    progress: Callable[[int, int], None] | None = None,
    says: Says | None = None,
    time_limit: float | None = None,
) -> Surface:
    """The optimum as two bounds move together, the others as they are: what one bound costs where the other is.

    Values are discounted averages per step, normalised by (1 - discount), sums over a horizon, or long-run averages;
    prices are Lagrange multipliers.

    Parameters
    ----------
    cmdp : CMDP
    first, second : int or str
        The two constraints, by position or name.
    points : int
        Bounds of each, as those of `frontier`: from where it begins to matter to just before the tightest that is
        possible, while the other is what it is; without the other, where no policy keeps the bounds as they are.
    bounds : two lists of numbers, optional
        These bounds of the first and of the second instead, in any order; None for one of them: as without.
    between : two pairs of numbers, optional
        `points` bounds from one to the other instead, or one that is both; None for one of them: as without.
    tolerance : float
        The relative gap of every point.
    progress : callable, optional
        Called as ``progress(rows done, rows)``, at the start too.
    says : callable, optional
        Told in words what is being done.
    time_limit : float, optional
        Seconds; then what is finished is returned. `Stopped` is raised where it is not even known from where
        to where the bounds go.

    Raises
    ------
    KeyboardInterrupt, or what `progress` or `says` raises
        With what is finished as ``error.partial``, a `Surface`; None before its first row is.

    Examples
    --------
    >>> import inbounds as ib
    >>> found = ib.surface(ib.zoo.queue(), "service", "flow", points=4)
    >>> found, bool(found.rewards[0, 0] > found.rewards[2, 2])
    (Surface('service' and 'flow', 4 x 4 points), True)
    >>> print(ib.surface(ib.zoo.queue(), "service", "flow", bounds=([0, 0.5], [0, 0.2, 0.4])))
    the optimum; down: service >= ..., across: flow >= ...; -: no policy keeps both
    <BLANKLINE>
    service >=       0     0.2     0.4
    ----------  ------  ------  ------
             0  2.3224  2.2953  2.2630
           0.5  2.2740  2.2468  2.2144
    <BLANKLINE>
    Now: service >= 0 and flow >= 0.
    """
    require_model(cmdp, "surface")
    chosen = cmdp.constraint_number(first), cmdp.constraint_number(second)
    if chosen[0] == chosen[1]:
        raise InvalidInput(f"surface takes two constraints, found {cmdp.constraints[chosen[0]].name!r} twice")
    number, tolerance = whole_number(points, "points", 2, 1_000), positive(tolerance, "tolerance")
    progress, says = callback(progress), callback(says, "says")
    limit, own = seconds_or_none(time_limit), [cmdp.constraints[k] for k in chosen]
    wanted = [
        wanted_bounds(*both, number)
        for both in zip(_two(bounds, "bounds", own), _two(between, "between", own), strict=True)
    ]
    begun = time.monotonic()
    if progress is not None:
        progress(0, len(wanted[0] or range(number)))

    def seconds_left() -> float | None:
        return None if limit is None else max(limit - (time.monotonic() - begun), 1e-9)

    def grid(place: int) -> Floats:
        """The bounds of one of the two, from the loosest to the tightest."""
        if (given := wanted[place]) is not None:
            return own[place].outward * np.sort(own[place].outward * np.array(given))
        try:
            return bounds_of_interest(cmdp, chosen[place], number, tolerance, seconds_left(), says)
        except Infeasible:
            alone = cmdp.asking(constraints=[c for k, c in enumerate(cmdp.constraints) if k != chosen[1 - place]])
            position = alone.constraint_number(own[place].name)
            return bounds_of_interest(alone, position, number, tolerance, seconds_left(), says)

    rows: list[Frontier] = []  # fewer than bounds where no policy keeps those that are tighter
    grids: tuple[Floats, ...] = ()
    try:
        grids = (grid(0), grid(1))
        for row, bound in enumerate(grids[0]):
            there = cmdp.with_bound(chosen[0], **{own[0].side: float(bound)})
            try:
                curve = along_bounds(
                    there,
                    chosen[1],
                    number,
                    bounds=grids[1].tolist(),
                    tolerance=tolerance,
                    ties=False,
                    says=None if says is None else _in_row(says, row, len(grids[0])),
                    time_limit=seconds_left(),
                )
            except Infeasible:
                break  # as it is for every tighter one
            rows.append(curve)
            if curve.status != OPTIMAL:
                return _surface(cmdp, chosen, grids, rows, curve.status)
            if progress is not None and row + 1 < len(grids[0]):
                progress(row + 1, len(grids[0]))
        if progress is not None:
            progress(len(grids[0]), len(grids[0]))
    except Stopped:
        if not grids:
            raise
        return _surface(cmdp, chosen, grids, rows, TIME)
    except Infeasible:
        raise
    except BaseException as error:
        attach(error, _surface(cmdp, chosen, grids, rows, "interrupted") if rows else None)
        raise
    return _surface(cmdp, chosen, grids, rows, OPTIMAL)


def _surface(
    cmdp: CMDP, chosen: tuple[int, int], grids: tuple[Floats, ...], rows: Sequence[Frontier], status: str
) -> Surface:
    """The record of the rows that are there."""
    own, shape = [cmdp.constraints[k] for k in chosen], tuple(map(len, grids))
    rewards, upper_bounds, prices = np.full(shape, np.nan), np.full(shape, np.nan), np.full((2, *shape), np.nan)
    statuses = np.full(shape, "", dtype="<U20")
    for row, curve in enumerate(rows):
        for column, point in enumerate(curve.solutions):
            here = row, column
            rewards[here], upper_bounds[here], statuses[here] = point.reward, point.upper_bound, point.status
            prices[:, row, column] = point.prices[list(chosen)]
    return Surface(
        constraints=(own[0].name, own[1].name),
        at_least=(own[0].at_least is not None, own[1].at_least is not None),
        bounds=(freeze(np.array(grids[0])), freeze(np.array(grids[1]))),
        rewards=freeze(rewards),
        prices=freeze(prices),
        upper_bounds=freeze(upper_bounds),
        statuses=freeze(statuses),
        present=(own[0].bound, own[1].bound),
        status=status,
        problem=cmdp.name,
    )


def _in_row(says: Says, row: int, rows: int) -> Says:
    return lambda doing: says(f"row {row + 1} of {rows}: {doing}")


def _decimals(rewards: Floats) -> int:
    """Behind the point: so many that four digits of the difference between the best and the worst are shown.

    >>> _decimals(np.array([110.0, 103.9, np.nan])), _decimals(np.array([2.5e6, 1.0e6])), _decimals(np.array([1.0]))
    (3, 0, 4)
    """
    known = rewards[np.isfinite(rewards)]
    spread = float(np.ptp(known)) if known.size else 0.0
    if not spread > ROUNDING * float(np.max(np.abs(known), initial=0.0)):
        return 4
    return min(max(3 - math.floor(math.log10(spread)), 0), 12)


def _two(given: Any, name: str, own: Sequence[Constraint]) -> Sequence[Any]:
    """What was given for each of two constraints; nothing for either, if nothing was given."""
    if given is None:
        return (None, None)
    if not isinstance(given, list | tuple) or len(given) != 2:
        wanted = f"one for {own[0].name!r} and one for {own[1].name!r}, each a list of numbers or None"
        raise InvalidInput(f"{name} must be two: {wanted}; found {given!r}")
    return given
