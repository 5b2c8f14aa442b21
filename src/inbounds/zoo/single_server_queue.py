"""The paper's queue: one server, a finite buffer, a choice of service rate and of arrival rate.

Bai et al. 2022, section "Evaluations on a Queuing System", after Altman 1999, chapter 5.

State x is the number of customers waiting, 0..buffer. An action is a pair (service a, flow b): a service completes with
probability a, a customer arrives with probability b.

    state                 x - 1        x                        x + 1
    1 <= x <= buffer-1    a (1 - b)    a b + (1 - a)(1 - b)     (1 - a) b
    x = buffer            a            1 - a                    0
    x = 0                 0            1 - b (1 - a)            b (1 - a)

Reward: buffer - x, an empty queue is best. Two constraints, both at least 0:
    service: 3 - 10 a           fast service is costly
    flow:    1.2 - 8 (1 - b)^2  turning customers away is costly

Departures from the paper's text. It writes "min", but its objective is a reward and its prose says maximise: we
maximise. Its actions at the full buffer are not given (`full_buffer` below); the default is the reading under which the
problem has all 96 pairs and its Slater constant is the paper's 0.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inbounds.arrays import Floats
from inbounds.errors import InvalidInput
from inbounds.inputs import a_word, float_array, shown, whole_number
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint

FULL_BUFFER = ("charged", "free", "closed")


def queue(
    buffer: int = 5,
    service: Sequence[float] = (0.2, 0.4, 0.6, 0.8),
    flow: Sequence[float] = (0.4, 0.5, 0.6, 0.7),
    discount: float = 0.5,
    full_buffer: str = "charged",
) -> CMDP:
    """The paper's queue. Its defaults are the paper's; the optimum of the total is then 4.644858248633466.

    Values are normalised by (1 - discount); totals are what the paper plots.

    Parameters
    ----------
    buffer : int
        Customers that fit (L in the paper); the reward in state x is ``buffer - x``.
    service, flow : sequences of probabilities
        The service rates (each in (0, 1)) and the arrival rates (each in [0, 1)) to choose from.
    discount : float in [0, 1)
    full_buffer : "charged", "free" or "closed"
        What the flow action means at the full buffer, where nobody can arrive, and the paper leaves open.
        "charged": it has no effect there but counts in the flow constraint. "free": it does not count there either.
        "closed": the only flow there is 0, and it counts, as in Altman's model; with the other defaults no policy is
        then in bounds.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> queue
    CMDP(queue: 6 states, 96 pairs, 2 constraints, discount 0.5)
    >>> round(ib.solve(queue).total_reward, 6)
    4.644858
    """
    full_buffer = a_word(full_buffer, "full_buffer", *FULL_BUFFER)
    buffer = whole_number(buffer, "buffer")
    services = _rates(service, "service", zero_allowed=False)
    given_flows = _rates(flow, "flow", zero_allowed=True)

    flows = np.union1d([0.0], given_flows) if full_buffer == "closed" else given_flows
    n_states, n_actions = buffer + 1, len(services) * len(flows)
    a, b = np.repeat(services, len(flows)), np.tile(flows, len(services))
    transition = np.zeros((n_states, n_actions, n_states))
    signals = np.empty((2, n_states, n_actions))
    allowed = np.tile(np.isin(b, given_flows), (n_states, 1))
    if full_buffer == "closed":
        allowed[buffer] = b == 0.0
    for x in range(n_states):
        if x == buffer:
            transition[x, :, x - 1], transition[x, :, x] = a, 1.0 - a
        elif x == 0:
            transition[x, :, 0], transition[x, :, 1] = 1.0 - b * (1.0 - a), b * (1.0 - a)
        else:
            transition[x, :, x - 1] = a * (1.0 - b)
            transition[x, :, x] = a * b + (1.0 - a) * (1.0 - b)
            transition[x, :, x + 1] = (1.0 - a) * b
        signals[0, x] = 3.0 - 10.0 * a
        signals[1, x] = 0.0 if x == buffer and full_buffer == "free" else 1.2 - 8.0 * (1.0 - b) ** 2
    return CMDP.from_dense(
        transition,
        reward=np.repeat(buffer - np.arange(n_states, dtype=np.float64), n_actions).reshape(n_states, n_actions),
        constraints=[
            Constraint(signals[0], at_least=0.0, name="service"),
            Constraint(signals[1], at_least=0.0, name="flow"),
        ],
        initial=np.full(n_states, 1.0 / n_states),
        discount=discount,
        allowed=allowed,
        action_labels=list(zip(a.tolist(), b.tolist(), strict=True)),
        name="queue",
    )


def _rates(rates: Sequence[float], what: str, zero_allowed: bool) -> Floats:
    values = float_array(rates, what)
    if values.ndim != 1 or values.size == 0 or not np.all((values >= 0.0) & (values < 1.0)):
        raise InvalidInput(f"{what} must be a list of probabilities below 1, found {shown(rates)}")
    if not zero_allowed and np.any(values == 0.0):
        raise InvalidInput(f"{what} must not contain 0, found {rates!r}")
    if len(set(values.tolist())) != len(values):
        raise InvalidInput(f"{what} must not repeat a rate, found {rates!r}")
    return values
