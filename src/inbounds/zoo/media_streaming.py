"""Media streaming: a buffer of packets, a fast and a slow link, a budget for the fast one.

Bura et al. 2022 (DOPE), "media streaming". State: packets in the buffer,
0..states-1. At each step a packet arrives with a probability that the action chooses and, independently, one leaves
(is played) with probability `leaves`:

    up one      arrives (1 - leaves)
    down one    (1 - arrives) leaves
    else stay; a move beyond either end stays at that end

The step is spoilt when the buffer is empty. **The published problem minimises** the expected number of spoilt steps;
here the reward is minus 1 in a spoilt step, so the sum of the reward is minus the published cost.
"""

from __future__ import annotations

import numpy as np

from inbounds.inputs import probability, whole_number, within
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint


def media(
    states: int = 10,
    horizon: int = 10,
    fast: float = 0.9,
    slow: float = 0.1,
    leaves: float = 0.8,
    fast_actions: float = 5.0,
) -> CMDP:
    """Media streaming over `horizon` steps; values are expected SUMS over the horizon.

    With the defaults the optimum is -6.746704 (6.746704 empty steps), -5.393138 without the constraint.

    Parameters
    ----------
    states : int
        Buffer levels 0..states-1.
    horizon : int
        Steps.
    fast, slow : probabilities
        That a packet arrives in a step over the fast and over the slow link.
    leaves : probability
        That a packet is played in a step.
    fast_actions : float
        The expected number of fast steps is at most this.

    Examples
    --------
    >>> import inbounds as ib
    >>> ib.zoo.media()
    CMDP(media: 10 states, 20 pairs, 1 constraint, horizon 10)
    """
    states, fast_actions = whole_number(states, "states"), within(fast_actions, "fast_actions")
    fast, slow, leaves = probability(fast, "fast"), probability(slow, "slow"), probability(leaves, "leaves")
    transition = np.zeros((states, 2, states))
    for level in range(states):
        for action, arrives in enumerate((slow, fast)):
            up, down = arrives * (1.0 - leaves), (1.0 - arrives) * leaves
            transition[level, action, min(level + 1, states - 1)] += up
            transition[level, action, max(level - 1, 0)] += down
            transition[level, action, level] += 1.0 - up - down
    empty = np.zeros((states, 2))
    empty[0] = 1.0
    return CMDP.from_dense(
        transition,
        reward=-empty,
        constraints=[Constraint(np.tile([0.0, 1.0], (states, 1)), at_most=fast_actions, name="fast actions")],
        initial=np.eye(states)[0],
        horizon=horizon,
        state_labels=[f"{level} in the buffer" for level in range(states)],
        action_labels=["slow", "fast"],
        name="media",
    )
