"""The jump grid: two cells pay for a jump; the better one for the reward is the worse one for the utility.

Sutton and Barto's 5 x 5 grid (Reinforcement Learning, example 3.5) with a constraint. Cells are numbered row by row
from 0. From cell 1 every move leads to cell 21 and pays 1, from cell 3 every move leads to cell 13 and pays 0.5; moves
into a wall stay, without the penalty of the book. The utility of a step is 1 at cell 3, 0.1 at cell 1. Uniform start.

**In the published problem values are discounted sums**; here, as everywhere, they are normalised by (1 - discount): the
published bound of 1.5 on the utility becomes 0.15, and ``total_reward`` is the published value.
"""

from __future__ import annotations

import numpy as np

from inbounds.inputs import within
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint
from inbounds.zoo.hazard_gridworld import MOVES, cells_ahead

JUMPS = {1: (21, 1.0, 0.1), 3: (13, 0.5, 1.0)}
"""From this cell: to that one, with this reward and this utility."""


def jump_grid(discount: float = 0.9, utility: float = 0.15) -> CMDP:
    """The jump grid; values are normalised by (1 - discount).

    With the defaults the optimum of the total is 1.652722, and 1.732862 without the constraint.

    Parameters
    ----------
    discount : float in [0, 1)
    utility : float
        The bound on the utility from below: a discounted average per step, like every bound.

    Examples
    --------
    >>> import inbounds as ib
    >>> grid = ib.zoo.jump_grid()
    >>> grid
    CMDP(jump grid: 25 states, 100 pairs, 1 constraint, discount 0.9)
    >>> round(ib.solve(grid).total_reward, 6)
    1.652722
    """
    ahead = cells_ahead(5)
    n_cells, utility = len(ahead), within(utility, "utility")
    reward, utilities = np.zeros(ahead.shape), np.zeros(ahead.shape)
    for cell, jump in JUMPS.items():
        ahead[cell], reward[cell], utilities[cell] = jump
    return CMDP.from_dense(
        np.eye(n_cells)[ahead],
        reward=reward,
        constraints=[Constraint(utilities, at_least=utility, name="utility")],
        initial=np.full(n_cells, 1.0 / n_cells),
        discount=discount,
        state_labels=[f"cell {cell}" for cell in range(n_cells)],
        action_labels=list(MOVES),
        name="jump grid",
    )
