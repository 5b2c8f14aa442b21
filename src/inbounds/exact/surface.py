"""What two bounds cost together: the optimum on a grid of both, row by row along frontiers of one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.errors import Infeasible, InvalidInput, Stopped
from inbounds.exact.moving_bound import frontier
from inbounds.inputs import callback, positive, whole_number
from inbounds.problem.cmdp import CMDP, require_model
from inbounds.problem.pieces import seconds_or_none


@dataclass(frozen=True, eq=False, repr=False)
class Surface:
    """The optimum as two bounds move; values as the criterion has them.

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
    present : (float, float)
        The bounds that the problem has.
    status : str
        "optimal", or "time limit": then rows at the end are nan.
    """

    constraints: tuple[str, str]
    at_least: tuple[bool, bool]
    bounds: tuple[Floats, Floats]
    rewards: Floats
    prices: Floats
    present: tuple[float, float]
    status: str = "optimal"

    def __repr__(self) -> str:
        grid = " x ".join(str(len(own)) for own in self.bounds)
        return f"Surface({self.constraints[0]!r} and {self.constraints[1]!r}, {grid} points)"


def surface(
    cmdp: CMDP,
    first: int | str,
    second: int | str,
    points: int = 12,
    *,
    tolerance: float = 1e-6,
    progress: Callable[[int, int], None] | None = None,
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
        Bounds of each, from where it does not matter to the tightest that is possible without the other.
    tolerance : float
        The relative gap of every point.
    progress : callable, optional
        Called as ``progress(rows done, rows)``.
    time_limit : float, optional
        Seconds; then the rows that are finished are returned. `Stopped` is raised where it is not even known from where
        to where the bounds go.

    Examples
    --------
    >>> import inbounds as ib
    >>> found = ib.surface(ib.zoo.queue(), "service", "flow", points=4)
    >>> found, bool(found.rewards[0, 0] > found.rewards[2, 2])
    (Surface('service' and 'flow', 4 x 4 points), True)
    """
    require_model(cmdp, "surface")
    chosen = cmdp.constraint_number(first), cmdp.constraint_number(second)
    if chosen[0] == chosen[1]:
        raise InvalidInput(f"surface takes two constraints, found {cmdp.constraints[chosen[0]].name!r} twice")
    number, tolerance = whole_number(points, "points", 2, 1_000), positive(tolerance, "tolerance")
    progress = callback(progress)
    limit, own = seconds_or_none(time_limit), [cmdp.constraints[k] for k in chosen]
    begun, grids = time.monotonic(), []

    def seconds_left() -> float | None:
        return None if limit is None else max(limit - (time.monotonic() - begun), 1e-9)

    for place in (0, 1):  # each without the other
        alone = cmdp.asking(constraints=[c for k, c in enumerate(cmdp.constraints) if k != chosen[1 - place]])
        curve = frontier(alone, own[place].name, number, tolerance=tolerance, time_limit=seconds_left())
        if "limit" in curve.status:
            raise Stopped(curve.status)
        grids.append(curve.bounds)
    rewards, prices = np.full((number, number), np.nan), np.full((2, number, number), np.nan)
    status = "optimal"
    for row, bound in enumerate(grids[0]):
        there = cmdp.with_bound(chosen[0], **{own[0].side: float(bound)})
        try:
            curve = frontier(there, chosen[1], bounds=grids[1].tolist(), tolerance=tolerance, time_limit=seconds_left())
        except Infeasible:
            continue  # and so is every tighter one; the rows stay nan
        except Stopped:
            status = "time limit"
            break
        reached = len(curve.solutions)
        rewards[row, :reached], prices[:, row, :reached] = curve.rewards, curve.prices[:, chosen].T
        if "limit" in curve.status:
            status = "time limit"
            break
        if progress is not None:
            progress(row + 1, number)
    return Surface(
        constraints=(own[0].name, own[1].name),
        at_least=(own[0].at_least is not None, own[1].at_least is not None),
        bounds=(freeze(np.array(grids[0])), freeze(np.array(grids[1]))),
        rewards=freeze(rewards),
        prices=freeze(prices),
        present=(own[0].bound, own[1].bound),
        status=status,
    )
