"""Inventory: how much to order each day when orders and stock cost money and demand is random.

Bura et al. 2022 (DOPE), "inventory control". State: stock s in the morning,
0..capacity. Action: order a <= capacity - s, delivered at once. Then a demand d arrives, and what exceeds the stock is
lost: the next stock is max(s + a - d, 0).

    cost      (4 + 2a if a > 0) + (s + a)     placing an order, the units ordered, the units held
    revenue   E[8 d / 100 ; d <= s + a]       a day pays only when its whole demand is met

Each is divided by its largest value. Revenue is maximised subject to a bound on the cost, both summed over the horizon.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inbounds.errors import InvalidInput
from inbounds.inputs import entries, probability, shown, whole_number, within
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint


def inventory(
    capacity: int = 5,
    horizon: int = 7,
    demand: Sequence[float] = (0.3, 0.2, 0.2, 0.2, 0.05, 0.05),
    order: float = 4.0,
    unit: float = 2.0,
    hold: float = 1.0,
    cost_at_most: float = 3.5,
) -> CMDP:
    """Inventory control over `horizon` days; values are expected SUMS over the horizon.

    With the defaults the optimum is 6.135519, and 7 without the constraint.

    Parameters
    ----------
    capacity : int
        Stock is 0..capacity.
    horizon : int
        Days.
    demand : probabilities of a demand of 0, 1, 2, ...
    order, unit, hold : float
        Cost of placing an order, of each unit ordered, and of each unit in stock after the delivery.
    cost_at_most : float
        The bound on the expected sum of the costs, each divided by the largest cost of a day.

    Examples
    --------
    >>> import inbounds as ib
    >>> ib.zoo.inventory()
    CMDP(inventory: 6 states, 21 pairs, 1 constraint, horizon 7)
    """
    capacity, at_most = whole_number(capacity, "capacity"), within(cost_at_most, "cost_at_most")
    order, unit, hold = within(order, "order"), within(unit, "unit"), within(hold, "hold")
    shares = [probability(share, "demand: an entry") for share in entries(demand, "demand")]
    if abs(sum(shares) - 1.0) > 1e-9:
        raise InvalidInput(f"demand must be probabilities that sum to 1, found {shown(demand)}")
    n = capacity + 1
    transition = np.zeros((n, n, n))
    cost, revenue = np.zeros((n, n)), np.zeros((n, n))
    allowed = np.add.outer(np.arange(n), np.arange(n)) <= capacity
    for stock, amount in zip(*np.nonzero(allowed), strict=True):
        after = stock + amount
        cost[stock, amount] = (order + unit * amount if amount > 0 else 0.0) + hold * after
        for wanted, share in enumerate(shares):
            transition[stock, amount, max(after - wanted, 0)] += share
            if wanted <= after:
                revenue[stock, amount] += share * 8.0 * wanted / 100.0
    return CMDP.from_dense(
        transition,
        reward=revenue / (revenue.max() or 1.0),
        constraints=[Constraint(cost / (cost.max() or 1.0), at_most=at_most, name="cost")],
        initial=np.eye(n)[0],
        horizon=horizon,
        allowed=allowed,
        state_labels=[f"stock {stock}" for stock in range(n)],
        action_labels=[f"order {amount}" for amount in range(n)],
        name="inventory",
    )
