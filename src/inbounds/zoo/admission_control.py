"""Admission control: let customers into a queue or turn them away, and keep the delay of those let in short.

The queue of Lazar 1983 and of Altman 1999, chapter 5, in discrete time. State: customers present, 0..buffer. In each
step a customer who is present is served, and leaves, with probability `serve`; independently one arrives with
probability `arrive`, and is let in or turned away, as was decided before. A full queue turns everybody away.

Reward: the rate of customers let in. By Little's law their mean delay is the mean number present, N, divided by that
rate; so "a mean delay of at most D" is the linear constraint

    average of  N - D * (rate of customers let in)  <=  0.

It compares averages over the long run, so the criterion is the average. Turning everybody away meets it: where D is too
small, the optimum is 0, not infeasible.
"""

from __future__ import annotations

import numpy as np

from inbounds.errors import InvalidInput
from inbounds.inputs import probability, whole_number, within
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint


def admission(buffer: int = 50, arrive: float = 0.5, serve: float = 0.6, delay: float = 4.0) -> CMDP:
    """Admission control; values are long-run averages per step.

    With the defaults the optimum is 0.491389906264 customers per step, at the price 0.027152523 of a step of delay.

    Parameters
    ----------
    buffer : int
        Customers that fit.
    arrive, serve : probabilities
        That a customer arrives in a step, and that one who is present leaves; both above 0.
    delay : float
        Customers who are let in stay at most this many steps on average.

    Examples
    --------
    >>> import inbounds as ib
    >>> ib.zoo.admission()
    CMDP(admission: 51 states, 101 pairs, 1 constraint, long-run average)
    """
    buffer = whole_number(buffer, "buffer")
    arrive, serve = probability(arrive, "arrive"), probability(serve, "serve")
    delay = within(delay, "delay")
    for what, rate in (("arrive", arrive), ("serve", serve)):
        if rate == 0.0:
            raise InvalidInput(f"{what} must be above 0: otherwise the queue stays as it is at the start")
    transition = np.zeros((buffer + 1, 2, buffer + 1))
    for present in range(buffer + 1):
        for action, joins in enumerate((arrive, 0.0)):
            leaves = serve if present > 0 else 0.0
            transition[present, action, min(present + 1, buffer)] += joins * (1.0 - leaves)
            transition[present, action, max(present - 1, 0)] += (1.0 - joins) * leaves
            transition[present, action, present] += joins * leaves + (1.0 - joins) * (1.0 - leaves)
    let_in = np.tile([arrive, 0.0], (buffer + 1, 1))
    allowed = np.ones((buffer + 1, 2), dtype=bool)
    allowed[buffer, 0] = False
    return CMDP.from_dense(
        transition,
        reward=let_in,
        constraints=[Constraint(np.arange(buffer + 1.0)[:, None] - delay * let_in, at_most=0.0, name="delay")],
        initial=np.eye(buffer + 1)[0],
        average=True,
        allowed=allowed,
        state_labels=[f"{present} present" for present in range(buffer + 1)],
        action_labels=["let in", "turn away"],
        name="admission",
    )
