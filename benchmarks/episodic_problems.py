"""Four times twelve finite-horizon problems, and what the presets of the episodic learners lose on them.

    python benchmarks/episodic_problems.py [--series 3] [--episodes 10000] [--seeds 5] [--algorithms opt-dual,opdop]

The first three were looked at while presets were chosen; the last was not, and is what the docs show.
The problems are drawn from fixed seeds, before any learner ran on them: 3 to 15 states, 2 to 5 actions, horizons of 5
to 20, 1 to 3 constraints. A problem is drawn anew until its largest price, in the units that learners see (rewards of a
step in [0, 1], margins of a step in [-1, 1]), lies in the range that its number asks for: .1 to .3, .3 to .8, .8 to 2
or 2 to 5, three problems each. Only the optimum decides about that.

loss = (max(gap, 0) + largest price * violation) / (optimum without bounds - optimum), of the policy that a run returns.

Two rows say what can be had from so many episodes at all. *Oracle*: the optimum itself plays them, and the plan is best
for the model of what it saw, rows that it never visits being the true ones. *First order*: what is left of that where
errors are small. A plan is off by what the model says wrongly of the optimum's margins, a normal error whose variance
is a sum over pairs, of the variance of the values to go over their visits; to the first order the gap is the error
times the prices. A learner does not know what to play, so that it can hardly lose less in the mean.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

import inbounds as ib
from inbounds.algorithms import ALGORITHMS
from inbounds.exact.methods import solve_uncertified
from inbounds.studies.safe import safe_policy, takes_safe

PRICES = ((0.1, 0.3), (0.3, 0.8), (0.8, 2.0), (2.0, 5.0))
"""In the units that learners see."""
NUMBERS = range(12)
FIRST_SEEDS = (20_260_000, 20_270_000, 20_280_000, 20_290_000)
"""Of the four series: problem `number` is drawn from seed ``[first seed, number]``."""

SURE = 2e-3
"""Where the oracle loses less, the problem has hardly any chance in it that matters, and the ratio says nothing."""


@cache
def problem(number: int, series: int = 0) -> ib.CMDP:
    """Problem `number` of a series, both from 0."""
    rng = np.random.default_rng([FIRST_SEEDS[series], number])
    least, most = PRICES[number % len(PRICES)]
    while True:
        cmdp = _bounded(_drawn(rng, f"generated {number}"), rng)
        if least <= prices_of_learners(cmdp).max() <= most:
            return cmdp


def prices_of_learners(cmdp: ib.CMDP) -> np.ndarray:
    """The prices of the optimum [K], per unit of the largest margin of a step, of rewards in [0, 1]."""
    largest = np.abs(cmdp.margins).reshape(cmdp.n_constraints, -1).max(axis=1)
    return ib.solve(cmdp).prices * largest / np.ptp(cmdp.reward)


def _drawn(rng: np.random.Generator, name: str) -> ib.CMDP:
    """Random rows, rewards, signals and start. The higher the power of a signal, the rarer it is, and the dearer."""
    states, actions, horizon = (int(rng.integers(low, high + 1)) for low, high in ((3, 15), (2, 5), (5, 20)))
    successors, n = int(rng.integers(1, min(states, 5) + 1)), states * actions
    rows = np.zeros((n, states))
    for row in rows:
        row[rng.choice(states, successors, replace=False)] = rng.dirichlet(np.ones(successors))
    signals = [rng.random(n) ** rng.integers(1, 9) for _ in range(rng.integers(1, 4))]
    return ib.CMDP(
        offsets=np.arange(states + 1) * actions,
        transition=sp.csr_array(rows),
        reward=rng.random(n),
        constraints=[ib.Constraint(signal, at_least=0.0, name=f"signal {k}") for k, signal in enumerate(signals)],
        initial=rng.dirichlet(np.ones(states)) if rng.random() < 0.5 else np.eye(states)[0],
        horizon=horizon,
        name=name,
    )


def _bounded(cmdp: ib.CMDP, rng: np.random.Generator) -> ib.CMDP:
    """Every bound part of the way from what the best policy without bounds gives to what the most cautious one does."""
    best = ib.evaluate(cmdp, ib.solve(cmdp.unconstrained()).policy).margins
    cautious = ib.solve(cmdp.asking(reward=cmdp.margins.sum(axis=0), constraints=())).policy
    return cmdp.tightened(best + rng.uniform(0.2, 0.9) * (ib.evaluate(cmdp, cautious).margins - best))


def settings_for(name: str, cmdp: ib.CMDP) -> object:
    """The preset of an algorithm; with a safe policy where it starts from one."""
    settings = ALGORITHMS[name]
    if takes_safe(settings):
        safe = safe_policy(cmdp)
        margins = ib.evaluate(cmdp, safe).margins / cmdp.margin_scales
        return settings.practical(safe=safe, slack=float(margins.min()) * (1.0 - 1e-9))
    return settings.practical()


@cache
def _references(cmdp: ib.CMDP) -> tuple[Any, float]:
    """The optimum, and the best reward without bounds."""
    return ib.solve(cmdp), ib.solve(cmdp.unconstrained()).reward


def loss(cmdp: ib.CMDP, policy: ib.Policy) -> float:
    best, free = _references(cmdp)
    judged = ib.evaluate(cmdp, policy)
    violation = max(0.0, -judged.margins.min(initial=0.0))
    return float((max(best.reward - judged.reward, 0.0) + best.prices.max() * violation) / (free - best.reward))


def mean_loss(cmdp: ib.CMDP, policies: Callable[[], list[ib.Policy]]) -> float:
    """Of some policies; nan where no policy is safe, and one is needed."""
    try:
        return float(np.mean([loss(cmdp, policy) for policy in policies()]))
    except ib.InvalidInput:
        return math.nan


def oracle_loss(cmdp: ib.CMDP, episodes: int, draws: int = 100) -> float:
    """The mean loss of a plan for what the optimum sees in so many episodes."""
    rng, best = np.random.default_rng(0), _references(cmdp)[0].policy.probabilities
    return float(np.mean([loss(cmdp, _best_in(_seen_by(best, cmdp, episodes, rng))) for _ in range(draws)]))


def _seen_by(policy: np.ndarray, cmdp: ib.CMDP, episodes: int, rng: np.random.Generator) -> ib.CMDP:
    """The model of what a policy [H, n] sees: counts of all episodes at once, which have the same distribution."""
    rows, times = cmdp.transitions[0].toarray(), np.zeros((cmdp.n_pairs, cmdp.n_states))
    starts = here = rng.multinomial(episodes, cmdp.initial)
    for chances in policy:
        after = np.zeros_like(here)
        for s in np.flatnonzero(here):
            own = slice(cmdp.offsets[s], cmdp.offsets[s + 1])
            took = rng.multinomial(here[s], chances[own] / chances[own].sum())
            led = rng.multinomial(took, rows[own])  # [A, S]
            times[own] += led
            after += led.sum(axis=0)
        here = after
    visits = times.sum(axis=1, keepdims=True)
    return ib.CMDP(
        offsets=cmdp.offsets,
        transition=sp.csr_array(np.where(visits > 0, times / np.maximum(visits, 1), rows)),
        reward=cmdp.reward[0],
        constraints=[ib.Constraint(margin[0], at_least=0.0, name=f"{k}") for k, margin in enumerate(cmdp.margins)],
        initial=starts / episodes,
        horizon=cmdp.horizon,
    )


def _best_in(model: ib.CMDP) -> ib.Policy:
    """The best policy in bounds, or the one of the largest least margin where none is."""
    try:
        return solve_uncertified(model).policy
    except ib.Infeasible:
        return ib.slater(model).policy


def first_order_loss(cmdp: ib.CMDP, episodes: int, draws: int = 20_000) -> float:
    """What the oracle loses where errors are small (see the module)."""
    (best, free), rows, states = _references(cmdp), cmdp.transitions[0].toarray(), cmdp.pairs.states
    values = np.zeros((cmdp.horizon + 1, cmdp.n_states, cmdp.n_constraints))  # to go
    for h in range(cmdp.horizon - 1, -1, -1):
        gained = best.policy.probabilities[h][:, None] * (cmdp.margins[:, h].T + rows @ values[h + 1])
        values[h] = np.add.reduceat(gained, cmdp.offsets[:-1], axis=0)
    here, visits, weighed = cmdp.initial, np.zeros(cmdp.n_pairs), np.zeros((cmdp.n_pairs, *values.shape[1:]))
    for h in range(cmdp.horizon):
        mass = here[states] * best.policy.probabilities[h]
        visits, weighed, here = visits + mass, weighed + mass[:, None, None] * values[h + 1], mass @ rows

    def covariance(chances: np.ndarray, of: np.ndarray) -> np.ndarray:
        away = of - chances @ of
        return (chances[:, None] * away).T @ away

    total = covariance(cmdp.initial, values[0])
    for pair in np.flatnonzero(visits):
        total += covariance(rows[pair], weighed[pair]) / visits[pair]
    active = best.prices > 1e-9 * best.prices.max()
    errors = np.random.default_rng(0).multivariate_normal(np.zeros(len(total)), total / episodes, draws, method="eigh")
    off, prices = errors[:, active], best.prices[active]
    losses = np.maximum(off @ prices, 0.0) + prices.max() * np.maximum(-off.min(axis=1), 0.0)
    return float(losses.mean() / (free - best.reward))


def main() -> None:
    episodic = [name for name, each in ALGORITHMS.items() if each.algorithm.criterion == "finite-horizon"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, choices=range(len(FIRST_SEEDS)), default=3)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--algorithms", default=",".join(episodic))
    asked = parser.parse_args()
    problems = [problem(number, asked.series) for number in NUMBERS]
    print("| | S | A | H | constraints | largest price |\n|---|---|---|---|---|---|")
    for number, cmdp in zip(NUMBERS, problems, strict=True):
        actions, price = cmdp.n_pairs // cmdp.n_states, prices_of_learners(cmdp).max()
        print(f"| {number} | {cmdp.n_states} | {actions} | {cmdp.horizon} | {cmdp.n_constraints} | {price:.2f} |")
    header = ["loss", *map(str, NUMBERS), "median", "worst", "of the oracle's"]
    print("\n| " + " | ".join(header) + " |\n" + "|---" * len(header) + "|")
    oracle = np.array([oracle_loss(cmdp, asked.episodes) for cmdp in problems])

    def show(name: str, losses: list[float]) -> None:
        cells = [f"{each:.3f}" for each in [*losses, np.nanmedian(losses), np.nanmax(losses)]]
        cells.append(f"{np.nanmedian((np.array(losses) / oracle)[oracle > SURE]):.2f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)

    show("oracle", list(oracle))
    show("first order", [first_order_loss(cmdp, asked.episodes) for cmdp in problems])
    show("safe policy", [mean_loss(cmdp, lambda cmdp=cmdp: [safe_policy(cmdp)]) for cmdp in problems])
    for name in asked.algorithms.split(","):
        began, losses = time.perf_counter(), []
        for cmdp in problems:

            def learned(cmdp: ib.CMDP = cmdp, name: str = name) -> list[ib.Policy]:
                settings, samples = settings_for(name, cmdp), asked.episodes * cmdp.horizon
                return [
                    ib.learn(cmdp.simulator(), settings, samples=samples, seed=k).policy for k in range(asked.seeds)
                ]

            losses.append(mean_loss(cmdp, learned))
        show(name, losses)
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
