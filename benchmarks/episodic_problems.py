"""Twelve finite-horizon problems that chose no preset, and what the presets of the episodic learners lose on them.

    python benchmarks/episodic_problems.py [--episodes 10000] [--seeds 5] [--algorithms opt-dual,opdop]

The problems are drawn from fixed seeds, before any learner ran on them: 3 to 15 states, 2 to 5 actions, horizons of 5
to 20, 1 to 3 constraints. A problem is drawn anew until its largest price, in the units that learners see (rewards of a
step in [0, 1], margins of a step in [-1, 1]), lies in the range that its number asks for: .1 to .3, .3 to .8, .8 to 2
or 2 to 5, three problems each. Only the optimum decides about that.

loss = (max(gap, 0) + largest price * violation) / (optimum without bounds - optimum), of the policy that a run returns.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import cache

import numpy as np
import scipy.sparse as sp

import inbounds as ib
from inbounds.algorithms import ALGORITHMS
from inbounds.studies.safe import safe_policy, takes_safe

PRICES = ((0.1, 0.3), (0.3, 0.8), (0.8, 2.0), (2.0, 5.0))
"""In the units that learners see."""
NUMBERS = range(12)
FIRST_SEED = 20_260_000
"""Problem `number` is drawn from seed ``[FIRST_SEED, number]``."""


@cache
def problem(number: int) -> ib.CMDP:
    """Problem `number`, from 0."""
    rng = np.random.default_rng([FIRST_SEED, number])
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
    """The preset of an algorithm; with a safe policy where it starts from one, and the Slater constant for OptPess."""
    settings = ALGORITHMS[name]
    if takes_safe(settings):
        safe = safe_policy(cmdp)
        margins = ib.evaluate(cmdp, safe).margins / cmdp.margin_scales
        return settings.practical(safe=safe, slack=float(margins.min()) * (1.0 - 1e-9))
    return settings.practical(
        **({"slater": ib.slater(cmdp, scaled=True).value} if name == "optpess-primal-dual" else {})
    )


def loss(cmdp: ib.CMDP, policy: ib.Policy) -> float:
    best, free = ib.solve(cmdp), ib.solve(cmdp.unconstrained()).reward
    judged = ib.evaluate(cmdp, policy)
    violation = max(0.0, -judged.margins.min(initial=0.0))
    return float((max(best.reward - judged.reward, 0.0) + best.prices.max() * violation) / (free - best.reward))


def main() -> None:
    episodic = [name for name, each in ALGORITHMS.items() if each.algorithm.criterion == "finite-horizon"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--algorithms", default=",".join(episodic))
    asked = parser.parse_args()
    problems = [problem(number) for number in NUMBERS]
    print("| | S | A | H | constraints | largest price |\n|---|---|---|---|---|---|")
    for number, cmdp in zip(NUMBERS, problems, strict=True):
        actions, price = cmdp.n_pairs // cmdp.n_states, prices_of_learners(cmdp).max()
        print(f"| {number} | {cmdp.n_states} | {actions} | {cmdp.horizon} | {cmdp.n_constraints} | {price:.2f} |")
    print("\n| loss | " + " | ".join(map(str, NUMBERS)) + " | median | worst |\n" + "|---" * (len(NUMBERS) + 3) + "|")
    print("| safe policy | " + _row([loss(cmdp, safe_policy(cmdp)) for cmdp in problems]))
    for name in asked.algorithms.split(","):
        began, losses = time.perf_counter(), []
        for cmdp in problems:
            settings, samples = settings_for(name, cmdp), asked.episodes * cmdp.horizon
            runs = [ib.learn(cmdp.simulator(), settings, samples=samples, seed=seed) for seed in range(asked.seeds)]
            losses.append(float(np.mean([loss(cmdp, run.policy) for run in runs])))
        print(f"| {name} | {_row(losses)}", flush=True)
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


def _row(losses: list[float]) -> str:
    return " | ".join(f"{each:.3f}" for each in [*losses, float(np.median(losses)), max(losses)]) + " |"


if __name__ == "__main__":
    main()
