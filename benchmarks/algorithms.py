"""How many samples a second every learning algorithm takes, and as a ratio to CSPDA within the run.

    python benchmarks/algorithms.py [--quick]

Each algorithm for discounted problems runs with its practical preset on the queue (96 pairs, 2 constraints; without
them for algorithms that know none), in this one process: first a short run that compiles, then whole runs, preparation
and policy included. CPU seconds; the algorithms take turns, and the best of several rounds counts. Samples a second are
not a measure between algorithms, of which one may need fewer: they tell what an update costs.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import inbounds as ib
from inbounds.algorithms import ALGORITHMS
from inbounds.tables import text_table

TARGET = 2_000_000
"""Samples a second, where an update is O(log n) or O(A)."""


class Cost(NamedTuple):
    update: str  # n pairs, S states, A actions, K constraints
    slow: str = ""  # what may make it miss the target


COSTS = {
    "concave-cspda": Cost("O(log n + K)", "gradients of the utilities by Python, O(n) each"),
    "crpo": Cost("O(A + K), O(n K) an iteration"),
    "cspda": Cost("O(log n + K)"),
    "model-based": Cost("O(1), one plan at the end", "the plan is a linear program"),
    "npg-pd": Cost("O(A + K), O(n K) an iteration"),
    "opg-pd": Cost("O(1), all iterations at the end", "each iteration evaluates a policy exactly"),
    "pdsc": Cost("O(A + K), O(n K) an iteration"),
    "randomized-primal-dual": Cost("O(log S + A)"),
    "rpg-pd": Cost("O(1), all iterations at the end", "each iteration evaluates a policy exactly"),
    "triple-qa": Cost("O(A K)"),
    "ucbvi-gamma": Cost("O(A + support)", "O(support) a step"),
}


def seconds_per_sample(settings: Any, samples: int, seed: int) -> float:
    queue = ib.zoo.queue()
    simulator = (queue if settings.algorithm.constrained else queue.unconstrained()).simulator()
    started = time.process_time()
    ib.learn(simulator, settings, samples=samples, seed=seed)
    return (time.process_time() - started) / samples


def fitting(settings: Any, samples: int, seconds: float) -> int:
    """At most `samples`, such that a run takes about `seconds` at the most."""
    first = samples // 20
    seconds_per_sample(settings, first, seed=0)  # compiles
    return min(samples, max(first, int(seconds / seconds_per_sample(settings, first, seed=0))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples, one round")
    quick = parser.parse_args().quick
    samples, rounds, seconds = (200_000, 1, 2.0) if quick else (2_000_000, 3, 10.0)

    every = {
        name: settings.practical()
        for name, settings in ALGORITHMS.items()
        if settings.algorithm.criterion == "discounted"  # episodes are another measure: benchmarks/episodic.py
    }
    budgets = {name: fitting(settings, samples, seconds) for name, settings in every.items()}
    times = dict.fromkeys(every, float("inf"))
    for seed in range(rounds):
        for name, settings in every.items():
            times[name] = min(times[name], seconds_per_sample(settings, budgets[name], seed))

    rows = []
    for name, settings in every.items():
        cost = COSTS.get(name, Cost("?"))
        rows.append(
            (
                settings.algorithm.name,
                cost.update,
                f"{budgets[name]:,}",
                f"{1.0 / times[name]:,.0f}",
                f"{times['cspda'] / times[name]:.2f}",
                (cost.slow or "?") if times[name] * TARGET > 1.0 else "",
            )
        )
    print(text_table(("algorithm", "cost of an update", "samples", "samples/s", "CSPDA = 1", "below 2 million"), rows))


if __name__ == "__main__":
    main()
