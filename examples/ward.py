"""A ward over two weeks: whom to admit each day, so that beds are used and few patients are turned away.

    python examples/ward.py [folder]

Twelve beds, 14 days. Each morning some patients wait for a planned operation; the ward admits none, half or all of
them, as far as there are beds. During the day emergencies come, whom nobody may refuse: when no bed is free they are
sent elsewhere, on average at most one in five such fortnights. Some patients go home, fewer of them at the weekend.
Over a finite horizon values are sums, a policy has a rule for each day, and rules may depend on the day.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

import inbounds as ib

BEDS, DAYS, WAITING = 12, 14, 4
EMERGENCIES = {0: 0.5, 1: 0.3, 2: 0.2}


class Morning(NamedTuple):
    """A state: tables, pictures and the page call its parts by these names."""

    occupied: int
    waiting: int


CHOICES = {"none": 0.0, "half": 0.5, "all": 1.0}


def admitted(morning: Morning, choice: str) -> int:
    return min(math.ceil(CHOICES[choice] * morning.waiting), BEDS - morning.occupied)


def choices_of(morning: Morning) -> list[str]:
    """One that admits as many as a smaller one is not there."""
    by_count = {admitted(morning, choice): choice for choice in reversed(CHOICES)}
    return list(by_count.values())


def outcomes(day: int, morning: Morning, choice: str) -> list[tuple[Morning, float, int]]:
    """(next state, probability, emergencies sent elsewhere)."""
    leave = 0.12 if day % 7 in (5, 6) else 0.3
    here = morning.occupied + admitted(morning, choice)
    found = []
    for stay in range(here + 1):
        p_stay = math.comb(here, stay) * (1 - leave) ** stay * leave ** (here - stay)
        for urgent, p_urgent in EMERGENCIES.items():
            taken = min(urgent, BEDS - stay)
            for tomorrow in range(WAITING + 1):
                found.append((Morning(stay + taken, tomorrow), p_stay * p_urgent / (WAITING + 1), urgent - taken))
    return found


def ward() -> ib.CMDP:
    states = [Morning(occupied, waiting) for occupied in range(BEDS + 1) for waiting in range(WAITING + 1)]
    number, choices = {state: place for place, state in enumerate(states)}, list(CHOICES)
    shape = (DAYS, len(states), len(choices))
    moves, reward, elsewhere = np.zeros((*shape, len(states))), np.zeros(shape), np.zeros(shape)
    allowed = np.array([[choice in choices_of(state) for choice in choices] for state in states])
    for day in range(DAYS):
        for morning, s in number.items():
            for a, choice in enumerate(choices):
                reward[day, s, a] = admitted(morning, choice)
                for after, p, sent in outcomes(day, morning, choice):
                    moves[day, s, a, number[after]] += p
                    elsewhere[day, s, a] += p * sent
    initial = np.zeros(len(states))
    initial[number[Morning(6, 2)]] = 1.0
    return ib.CMDP.from_dense(
        moves,
        reward=reward,
        constraints=[ib.Constraint(elsewhere, at_most=0.2, name="sent elsewhere")],
        initial=initial,
        horizon=DAYS,
        allowed=allowed,
        state_labels=states,
        action_labels=choices,
        name="ward",
    )


def rule_of_thumb(morning: Morning, day: int) -> str:
    """Today: on weekdays all that fit while there are three beds free; at the weekend half of them."""
    wanted = ("all", "half", "none") if morning.occupied < 9 and day % 7 < 5 else ("half", "none")
    return next(choice for choice in wanted if choice in choices_of(morning))


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    problem = ward()
    print(problem)
    best = ib.solve(problem)

    today = ib.Policy.from_rule(problem, rule_of_thumb)
    for name, judged in (("best", best), ("today", ib.evaluate(problem, today))):
        print(f"{name:6} {judged.reward:6.2f} planned patients in two weeks; margin {judged.margins[0]:+.3f}")
    print(f"One emergency less sent elsewhere costs {best.prices[0]:.2f} planned patients.")
    print(best.policy.compare(today, best))
    print("\nThe best policy followed through 20,000 fortnights, to check the numbers above:")
    print("such an interval holds the value that was computed, in 95 of 100 tries.")
    print(ib.simulate(problem, best.policy, runs=20_000, seed=0))
    best.policy.save(folder / "ward.json")
    best.policy.save(folder / "ward.csv")
    print(f"The rules of every day are in {folder / 'ward.json'} and ward.csv.")


if __name__ == "__main__":
    main()
