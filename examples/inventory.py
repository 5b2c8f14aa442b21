"""Two products in one warehouse: the best orders that keep storage and orders in bounds, against today's rule.

    python examples/inventory.py [folder]

A stock of 0 to 70 of each product: 5,041 states, of which 4,760 can come about. Each day an order may be placed for
either or both; demand is random, and what is not in stock is lost. Sales earn; on average no more than 55 units may be
stored, and an order may be placed on at most 40 % of the days. The policy is saved for the shop floor: docs/deploy.md
goes on from there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import inbounds as ib

FULL = 70
LOTS = {"nothing": (0, 0), "tea": (30, 0), "rice": (0, 40), "both": (30, 40)}
DEMAND = {"tea": ((1, 0.3), (5, 0.4), (10, 0.3)), "rice": ((3, 0.4), (8, 0.4), (13, 0.2))}
PRICE = {"tea": 3.0, "rice": 2.0}


class Stock(NamedTuple):
    """A state: tables, pictures and the page call its parts by these names."""

    tea: int
    rice: int


def delivered(stock, order):
    """The stock after delivery: what does not fit is not taken."""
    return tuple(min(have + lot, FULL) for have, lot in zip(stock, LOTS[order], strict=True))


def next_day(stock, order):
    tea, rice = delivered(stock, order)
    return [
        (Stock(max(tea - wants_tea, 0), max(rice - wants_rice, 0)), p * q)
        for wants_tea, p in DEMAND["tea"]
        for wants_rice, q in DEMAND["rice"]
    ]


def sales(stock, order, tomorrow):
    """What is sold is what is gone by tomorrow; a truck costs 15."""
    sold = [before - after for before, after in zip(delivered(stock, order), tomorrow, strict=True)]
    return PRICE["tea"] * sold[0] + PRICE["rice"] * sold[1] - 15.0 * (order != "nothing")


def inventory() -> ib.CMDP:
    return ib.build(
        start=Stock(35, 35),
        actions=lambda stock: list(LOTS),
        transitions=next_day,
        reward=sales,
        constraints=[
            ib.Constraint(lambda stock, order: sum(stock), at_most=55.0, name="storage"),
            ib.Constraint(lambda stock, order: order != "nothing", at_most=0.4, name="orders"),
        ],
        discount=0.98,
        name="inventory",
    )


def rule_of_thumb(stock):
    """Today: order what has fallen below 20."""
    low = tuple(have < 20 for have in stock)
    return {(True, True): "both", (True, False): "tea", (False, True): "rice", (False, False): "nothing"}[low]


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    problem = inventory()
    print(problem)
    best = ib.solve(problem)
    today = ib.Policy.from_rule(problem, rule_of_thumb)
    for name, judged in (("best", best), ("today", ib.evaluate(problem, today))):
        margins = ", ".join(f"{c.name} {m:+.3f}" for c, m in zip(problem.constraints, judged.margins, strict=True))
        print(f"{name:6} {judged.reward:8.3f} a day; margins: {margins}")
    print(best.certificate.verdict)
    print(best.policy.compare(today, best))
    for storage in (50, 55, 60):
        found = ib.solve(problem.with_bound("storage", at_most=storage))
        print(f"storage of {storage}: {found.reward:.3f} a day")
    best.policy.save(folder / "orders.json")
    best.policy.plot(folder / "orders.png", best)
    print(f"The policy is in {folder / 'orders.json'}, and as a picture in orders.png.")


if __name__ == "__main__":
    main()
