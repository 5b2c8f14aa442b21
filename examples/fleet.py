"""A fleet of vans and its workshop: 103,360 states, built from rules, against the rule that is followed today.

    python examples/fleet.py [folder]

Of 16 vans some are worn; the workshop has up to 18 spare parts; orders are at one of 16 levels and follow a season of
20 weeks. Each week up to two worn vans are overhauled, for which each takes a part and a week off the road; parts
arrive when they arrive. A worn van carries half, and may break down. On average at most 0.32 vans a week may break
down, and at most 0.33 may be overhauled. Writes the policy for the controller, a picture and a page to browse, in
about a minute.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import NamedTuple

import inbounds as ib

VANS, PARTS, LEVELS, WEEKS = 16, 18, 16, 20


class Fleet(NamedTuple):
    """A state: tables, pictures and the page call its parts by these names."""

    worn: int
    parts: int
    orders: int
    week: int


def overhauls(fleet):
    return range(min(fleet.worn, fleet.parts, 2) + 1)


def next_week(fleet, overhauled):
    """Busy vans wear out, orders follow the season, and one week in three a box of four parts arrives."""
    worn, parts, orders, week = fleet
    worn, parts, week = worn - overhauled, parts - overhauled, (week + 1) % WEEKS
    wears = 0.0 if worn == VANS else 0.25 + 0.02 * orders
    season = 0.45 if week < WEEKS // 2 else 0.15
    moves = (min(orders + 1, LEVELS - 1), season), (max(orders - 1, 0), 0.6 - season), (orders, 0.4)
    return [
        (Fleet(worn + more, min(parts + box, PARTS), level, week), p * q * r)
        for more, p in ((1, wears), (0, 1.0 - wears))
        for box, q in ((4, 1 / 3), (0, 2 / 3))
        for level, r in moves
    ]


def earned(fleet, overhauled):
    """Orders that can be carried: a worn van carries half, one in the workshop nothing. An overhaul costs 0.5."""
    carrying = VANS - overhauled - 0.5 * (fleet.worn - overhauled)
    return min(carrying, fleet.orders) - 0.5 * overhauled


def fleet(progress=None) -> ib.CMDP:
    return ib.build(
        start=Fleet(VANS // 4, PARTS // 3, LEVELS // 2, 0),
        actions=overhauls,
        transitions=next_week,
        reward=earned,
        constraints=[
            ib.Constraint(lambda fleet, overhauled: 0.05 * (fleet.worn - overhauled), at_most=0.32, name="breakdowns"),
            ib.Constraint(lambda fleet, overhauled: overhauled, at_most=0.33, name="overhauls"),
        ],
        discount=0.98,
        name="fleet",
        progress=progress,
    )


def rule_of_thumb(fleet):
    """Today: one van when more than six are worn, two when more than ten are; as far as there are parts."""
    return min((fleet.worn > 6) + (fleet.worn > 10), fleet.parts)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    begun = time.perf_counter()
    problem = fleet(lambda explored, found: print(f"  {explored:,} of {found:,} states", file=sys.stderr, end="\r"))
    print(f"{problem}, built in {time.perf_counter() - begun:.0f} s")
    begun = time.perf_counter()
    best = ib.solve(problem)
    print(f"solved and proved in {time.perf_counter() - begun:.0f} s\n\n{best}\n\n{best.sensitivities}")
    today = ib.Policy.from_rule(problem, rule_of_thumb)
    print(f"\nThe rule of today: {ib.evaluate(problem, today)}\n")
    print(best.policy.compare(today, best))
    best.policy.save(folder / "fleet.json")
    best.policy.plot(folder / "fleet.png", best)
    ib.report(problem, folder / "fleet.html", points=0)
    print(f"The policy is in {folder / 'fleet.json'}, to look at in fleet.png and fleet.html.")


if __name__ == "__main__":
    main()
