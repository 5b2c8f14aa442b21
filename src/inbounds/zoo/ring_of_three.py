"""The three-cycle: three places in a ring, stay or move on, and a budget of moves.

Bura et al. 2022 (DOPE), after Simão et al. 2021 (AlwaysSafe).

Staying does nothing. Moving on from place s to place s + 1 (mod 3) pays s + 1 and costs 1. Small enough to solve by
hand. What 0, 1, 2, ... moves pay, and the best payment for an EXPECTED number m of moves, the least concave function
above these numbers (where both of its ends lie within the horizon):

    from place 0    0, 1, 3, 6, 7, 9, 12    2 m
    from place 1    0, 2, 5, 6, 8, 11, 12   2 m + 1    for 2 <= m <= 5
    from place 2    0, 3, 4, 6, 9, 10, 12   2 m + 1    for 1 <= m <= 4

So a move is worth 2 at the margin, and a uniform start with three moves on average pays 2 * 3 + 2/3 = 20/3.
"""

from __future__ import annotations

import numpy as np

from inbounds.inputs import switch, within
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint


def three_cycle(horizon: int = 6, moves: float = 3.0, uniform_start: bool = False) -> CMDP:
    """The three-cycle over `horizon` steps; values are expected SUMS over the horizon.

    As published in two places: from place 0 with the rewards divided by 3 (the optimum is 2, and 4 without the
    constraint), and with `uniform_start` and the rewards as they are (20/3, and 12).

    Parameters
    ----------
    horizon : int
        Steps.
    moves : float
        The expected number of moves is at most this.
    uniform_start : bool
        Start anywhere, with rewards 1, 2, 3; otherwise start at place 0, with rewards 1/3, 2/3, 1.

    Examples
    --------
    >>> import inbounds as ib
    >>> ib.zoo.three_cycle()
    CMDP(three-cycle: 3 states, 6 pairs, 1 constraint, horizon 6)
    """
    stay, move = np.eye(3), np.roll(np.eye(3), 1, axis=1)
    payment = np.array([1.0, 2.0, 3.0])
    moves = within(moves, "moves")
    if not switch(uniform_start, "uniform_start"):
        payment /= 3.0
    return CMDP.from_dense(
        np.stack([stay, move], axis=1),
        reward=np.outer(payment, [0.0, 1.0]),
        constraints=[Constraint(np.tile([0.0, 1.0], (3, 1)), at_most=moves, name="moves")],
        initial=np.full(3, 1.0 / 3.0) if uniform_start else [1.0, 0.0, 0.0],
        horizon=horizon,
        state_labels=["place 0", "place 1", "place 2"],
        action_labels=["stay", "move"],
        name="three-cycle, uniform start" if uniform_start else "three-cycle",
    )
