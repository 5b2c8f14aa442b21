"""The hazard grid: walk to a goal across a field of traps, slipping now and then.

The grid of Brantley et al. 2020 (CONRL).

A square; start at the top left, goal at the bottom right. A move succeeds, or with the probability `slip` is
replaced by one of the four moves drawn uniformly (which may be the chosen one). A move into a wall stays. Hazards and
goal are absorbing. Reward: 1 on entering a hazard or the goal, then 1/H in every further step there. Cost: 1 on
entering a hazard, then 1/H in every further step there. So a hazard is as rewarding as the goal, and nearer: only the
bound makes the walk worth while.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inbounds.arrays import Ints
from inbounds.errors import InvalidInput
from inbounds.inputs import entries, probability, shown, whole_number, within
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint

HAZARDS = ((2, 3), (2, 6), (5, 1), (5, 2), (6, 1), (6, 4), (6, 6), (7, 3))
MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


def hazard_grid(
    size: int = 8,
    hazards: Sequence[tuple[int, int]] = HAZARDS,
    horizon: int = 30,
    slip: float = 0.1,
    cost: float = 0.3,
) -> CMDP:
    """The hazard grid over `horizon` steps; values are expected SUMS over the horizon.

    With the defaults the optimum is 1.536288, and 1.816822 without the constraint.

    Parameters
    ----------
    size : int
        Rows and columns.
    hazards : (row, column) of each trap, from 0
    horizon : int
        Steps.
    slip : probability
        That a uniformly random move is made instead of the chosen one.
    cost : float
        The expected cost is at most this.

    Examples
    --------
    >>> import inbounds as ib
    >>> ib.zoo.hazard_grid()
    CMDP(hazard grid: 64 states, 256 pairs, 1 constraint, horizon 30)
    """
    slip = probability(slip, "slip")
    size, horizon = whole_number(size, "size"), whole_number(horizon, "horizon")
    cells = [(row, column) for row in range(size) for column in range(size)]
    number = {cell: position for position, cell in enumerate(cells)}
    cost, hazards = within(cost, "cost"), entries(hazards, "hazards")
    for cell in hazards:
        if not isinstance(cell, tuple | list) or tuple(cell) not in number:
            raise InvalidInput(f"hazards: {shown(cell)} is no cell of the grid, whose size is {size} rows and columns")
    trap, end = np.zeros(len(cells)), np.zeros(len(cells))
    trap[[number[row, column] for row, column in hazards]] = 1.0
    end[number[size - 1, size - 1]] = 1.0
    end = np.maximum(end, trap)

    intended = np.eye(len(cells))[cells_ahead(size)]
    transition = (1.0 - slip) * intended + slip * intended.mean(axis=1, keepdims=True)
    transition[end > 0.0] = np.eye(len(cells))[end > 0.0][:, None, :]

    inside = (end > 0.0)[:, None]
    return CMDP.from_dense(
        transition,
        reward=np.where(inside, 1.0 / horizon, transition @ end),
        constraints=[
            Constraint(np.where(inside, trap[:, None] / horizon, transition @ trap), at_most=cost, name="hazards")
        ],
        initial=np.eye(len(cells))[number[0, 0]],
        horizon=horizon,
        state_labels=[f"row {row}, column {column}" for row, column in cells],
        action_labels=list(MOVES),
        name="hazard grid",
    )


def cells_ahead(side: int) -> Ints:
    """Where each of `MOVES` leads from each cell, [side * side, 4], numbered row by row; a move into a wall stays."""
    cells = np.indices((side, side)).reshape(2, -1, 1) + np.transpose(list(MOVES.values()))[:, None, :]
    row, column = np.clip(cells, 0, side - 1)
    return row * side + column
