"""The factored problem: the smallest one in which a learner that ignores a part of the state goes wrong.

States (x, y) with x in {0, 1, 2} and y in {0, 1}; three steps. The episode starts at x = 0 with y uniform. From x = 0
every action leads to x = 1, with a new y: y = 0 with a small probability, otherwise y = 1. At x = 1 action A costs 1,
and the right action pays 1: B when y = 0, A when y = 1. Then x = 2, for ever, with y kept.
"""

from __future__ import annotations

import numpy as np

from inbounds.inputs import probability, within
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint


def factored(horizon: int = 3, free: float = 0.1, cost: float = 0.1) -> CMDP:
    """The factored problem over `horizon` steps; values are expected SUMS over the horizon.

    With the defaults the optimum is 0.2 (the free reward at y = 0, and action A at y = 1 as far as the bound allows),
    and 1 without the constraint.

    Parameters
    ----------
    horizon : int
        Steps; after 2 of them nothing happens.
    free : probability
        Of y = 0 at x = 1, where the reward costs nothing.
    cost : float
        The expected cost is at most this.

    Examples
    --------
    >>> import inbounds as ib
    >>> ib.zoo.factored()
    CMDP(factored: 6 states, 12 pairs, 1 constraint, horizon 3)
    """
    free, cost = probability(free, "free"), within(cost, "cost")
    states = [(x, y) for x in range(3) for y in range(2)]
    number = {state: position for position, state in enumerate(states)}
    a, b = 0, 1
    transition = np.zeros((6, 2, 6))
    reward, costs = np.zeros((6, 2)), np.zeros((6, 2))
    for (x, y), state in number.items():
        if x == 0:
            transition[state, :, number[1, 0]] = free
            transition[state, :, number[1, 1]] = 1.0 - free
        else:
            transition[state, :, number[2, y]] = 1.0
        if x == 1:
            costs[state, a] = 1.0
            reward[state, b if y == 0 else a] = 1.0
    initial = np.zeros(6)
    initial[[number[0, 0], number[0, 1]]] = 0.5
    return CMDP.from_dense(
        transition,
        reward=reward,
        constraints=[Constraint(costs, at_most=cost, name="cost")],
        initial=initial,
        horizon=horizon,
        state_labels=[f"x = {x}, y = {y}" for x, y in states],
        action_labels=["A", "B"],
        name="factored",
    )
