"""Certified learning on seven problems: how much reward a proof costs, how often there is one, how often it is wrong.

    python benchmarks/certified_learning.py [--samples 100000] [--runs 20] [--confidence 0.99] [--mixture] [problem ...]
    python benchmarks/certified_learning.py --validity [--runs 2000] [--mixture]

Problems are named with (states, pairs, constraints, discount). Rewards and signals are in [0, 1], all constraints ask
for a signal of at least a bound. Each bound lies .4 of the way from what the best policy without constraints keeps of
its signal to what the policy with the largest sum of signals keeps of it, if that is more; .05 below both otherwise.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import inbounds as ib


def bounded(transition: Any, offsets: Any, reward: Any, signals: Any, initial: Any, discount: float) -> ib.CMDP:
    """A problem with bounds between what is best for the reward and what is best for the signals [K, n]."""
    free = ib.CMDP(
        offsets=offsets, transition=transition, reward=reward, constraints=(), initial=initial, discount=discount
    )
    spent = [ib.evaluate(free, ib.solve(free).policy).occupancy]
    spent.append(ib.evaluate(free, ib.solve(free.asking(reward=np.sum(signals, axis=0))).policy).occupancy)
    (b, c) = (np.asarray(signals) @ occupancy for occupancy in spent)
    bounds = np.round(np.where(c > b + 0.01, b + 0.4 * (c - b), np.minimum(b, c) - 0.05), 4)
    constraints = [
        ib.Constraint(signal, at_least=float(bound), name=f"signal {k}")
        for k, (signal, bound) in enumerate(zip(signals, bounds, strict=True))
    ]
    return free.asking(constraints=constraints)


def dense(states: int, actions: int, constraints: int, discount: float, seed: int) -> ib.CMDP:
    """Rows of uniform numbers, divided by their sums: the experiment of NPG-PD's paper, its size with 20 and 10."""
    rng = np.random.default_rng(seed)
    rows = rng.random((states * actions, states))
    return bounded(
        rows / rows.sum(axis=1, keepdims=True),
        actions * np.arange(states + 1),
        rng.random(states * actions),
        rng.random((constraints, states * actions)),
        np.full(states, 1.0 / states),
        discount,
    )


def garnet(states: int, actions: int, branching: int, constraints: int, discount: float, seed: int) -> ib.CMDP:
    rng = np.random.default_rng(seed)
    n = states * actions
    successors, shares = rng.integers(0, states, (n, branching)), rng.dirichlet(np.ones(branching), n)
    rows = np.zeros((n, states))
    np.add.at(rows, (np.arange(n)[:, None], successors), shares)
    return bounded(
        rows,
        actions * np.arange(states + 1),
        rng.random(n),
        rng.random((constraints, n)),
        np.full(states, 1.0 / states),
        discount,
    )


def from_rules(
    states: list[Any], actions: Callable[[Any], list[Any]], rule: Callable[..., Any], start: Any, discount: float
) -> ib.CMDP:
    """``rule(state, action)`` gives (moves {next state: probability}, reward, signals)."""
    number = {state: i for i, state in enumerate(states)}
    rows, reward, signals, offsets = [], [], [], [0]
    for state in states:
        for action in actions(state):
            moves, earned, seen = rule(state, action)
            row = np.zeros(len(states))
            for after, chance in moves.items():
                row[number[after]] += chance
            rows.append(row)
            reward.append(earned)
            signals.append(seen)
        offsets.append(len(rows))
    initial = np.full(len(states), 1.0 / len(states)) if start is None else np.zeros(len(states))
    if start is not None:
        initial[number[start]] = 1.0
    return bounded(np.array(rows), offsets, np.array(reward), np.array(signals).T.copy(), initial, discount)


def jump_grid() -> ib.CMDP:
    """Sutton and Barto's five by five, with three signals: at cell 3, off the rim, moving up or down."""

    def rule(cell: int, move: int) -> Any:
        if cell in (1, 3):
            after, reward = (21, 1.0) if cell == 1 else (13, 0.5)
        else:
            row, column = divmod(cell, 5)
            up, right = ((1, 0), (0, 1), (-1, 0), (0, -1))[move]
            row, column = min(max(row - up, 0), 4), min(max(column + right, 0), 4)
            after, reward = 5 * row + column, 0.0
        inside = 0 < cell // 5 < 4 and 0 < cell % 5 < 4
        return {after: 1.0}, reward, [float(cell == 3) + 0.1 * (cell == 1), float(inside), float(move % 2 == 0)]

    return from_rules(list(range(25)), lambda _: list(range(4)), rule, None, 0.9)


def hazard_grid(side: int, hazards: int, discount: float, seed: int) -> ib.CMDP:
    """From corner to corner, and again; slips of .1; signals: not on a hazard, waiting."""
    cells = side * side
    bad = set(1 + np.random.default_rng(seed).choice(cells - 2, hazards, replace=False))

    def moved(cell: int, move: int) -> int:
        row, column = divmod(cell, side)
        up, right = ((1, 0), (0, 1), (-1, 0), (0, -1), (0, 0))[move]
        return side * min(max(row - up, 0), side - 1) + min(max(column + right, 0), side - 1)

    def rule(cell: int, move: int) -> Any:
        moves: dict[int, float] = {}
        for slipped, chance in [(move, 0.9), *((m, 0.025) for m in range(4))]:
            after = 0 if cell == cells - 1 else moved(cell, slipped)
            moves[after] = moves.get(after, 0.0) + chance
        return moves, float(cell == cells - 1), [float(cell not in bad), float(move == 4)]

    return from_rules(list(range(cells)), lambda _: list(range(5)), rule, 0, discount)


def inventory(capacity: int, orders: int, discount: float) -> ib.CMDP:
    """Demand Poisson(4) cut at 16; reward: expected sales; signals: an empty store, not ordering."""
    demand = np.array([math.exp(-4.0) * 4.0**d / math.factorial(d) for d in range(17)])
    demand /= demand.sum()

    def rule(stock: int, order: int) -> Any:
        filled, moves, sales = stock + order, dict[int, float](), 0.0
        for d, chance in enumerate(demand):
            after = max(filled - d, 0)
            moves[after] = moves.get(after, 0.0) + chance
            sales += chance * min(filled, d)
        return moves, min(1.0, sales / 4.0), [1.0 - filled / capacity, float(order == 0)]

    fits = {stock: [order for order in range(orders) if stock + order <= capacity] for stock in range(capacity + 1)}
    return from_rules(list(range(capacity + 1)), fits.__getitem__, rule, capacity // 2, discount)


def three_queues(buffer: int, discount: float) -> ib.CMDP:
    """One server for three queues, fast or slow; reward: the third is short; signals: the first is, slow."""
    arrivals = (0.2, 0.25, 0.3)

    def rule(lengths: tuple[int, int, int], action: int) -> Any:
        served, fast = divmod(action, 2)
        moves: dict[tuple[int, ...], float] = {}
        for done, *came in itertools.product((0, 1), repeat=4):
            chance = (0.5, 0.9)[fast] if done else 1.0 - (0.5, 0.9)[fast]
            after = list(lengths)
            after[served] = max(after[served] - done, 0)
            for q in range(3):
                chance *= arrivals[q] if came[q] else 1.0 - arrivals[q]
                after[q] = min(after[q] + came[q], buffer)
            moves[tuple(after)] = moves.get(tuple(after), 0.0) + chance
        return moves, 1.0 - lengths[2] / buffer, [1.0 - lengths[0] / buffer, float(fast == 0)]

    states = list(itertools.product(range(buffer + 1), repeat=3))
    return from_rules(states, lambda _: list(range(6)), rule, (0, 0, 0), discount)


PROBLEMS: dict[str, Callable[[], ib.CMDP]] = {
    "npgpd": lambda: dense(20, 10, 1, 0.8, 1),
    "jump": jump_grid,
    "hazard": lambda: hazard_grid(6, 6, 0.95, 8),
    "inventory": lambda: inventory(49, 5, 0.99),
    "garnet": lambda: garnet(100, 5, 5, 2, 0.95, 3),
    "random": lambda: garnet(500, 4, 10, 3, 0.9, 4),
    "queues": lambda: three_queues(9, 0.95),
}


def measure(name: str, samples: int, runs: int, confidence: float, **more: Any) -> None:
    cmdp = PROBLEMS[name]()
    simulator, best = cmdp.simulator(), ib.solve(cmdp).reward
    ib.learn_certified(simulator, samples=2 * cmdp.n_pairs, seed=10**6)  # compilation
    started = time.process_time()
    found = [ib.learn_certified(simulator, samples=samples, confidence=confidence, seed=s, **more) for s in range(runs)]
    seconds = (time.process_time() - started) / runs
    judged = [ib.evaluate(cmdp, run.policy) for run in found if run.policy is not None]
    gaps = np.array([(best - one.reward) / abs(best) for one in judged])
    mean, error = (gaps.mean(), gaps.std() / math.sqrt(len(gaps))) if len(gaps) else (math.nan, math.nan)
    sizes = f"({cmdp.n_states}, {cmdp.n_pairs}, {cmdp.n_constraints}, {cmdp.discount:g})"
    print(
        f"{name:<10} {sizes:<20} {samples:>9,}: gap {mean:.5f} (se {error:.5f}), "
        f"returned {len(judged)} of {runs}, out of bounds {sum(not one.in_bounds for one in judged)}, "
        f"{np.mean([len(run.attempts) for run in found]):.1f} attempts, "
        f"{np.mean([run.samples for run in found]) / samples:.0%} spent, {seconds:.2f} s",
        flush=True,
    )


def coin() -> ib.CMDP:
    """Two states, each as likely as the other at every step, with margins +1 and -1: the value is exactly zero."""
    return ib.CMDP(
        offsets=[0, 1, 2],
        transition=[[0.5, 0.5]] * 2,
        reward=[0.0, 1.0],
        constraints=(ib.Constraint([-1.0, 1.0], at_least=0.0, name="coin"),),
        initial=[0.5, 0.5],
        discount=0.5,
    )


def validity(runs: int, mixture: bool) -> None:
    """How often what is returned at 90 % is out of bounds, or, where the margin is exactly zero, returned at all."""
    allowed = 0.1 + 3.0 * math.sqrt(0.09 / runs)
    fair, small = coin(), ib.zoo.garnet(states=10, actions=3, seed=1)
    simulator, only = fair.simulator(), ib.Policy.uniform(fair)
    margin_zero = [ib.certify(only, simulator, samples=2000, confidence=0.9, seed=s).in_bounds for s in range(runs)]
    print(f"proofs, margin exactly zero: {np.mean(margin_zero):.2%} of {runs:,} (allowed {allowed:.2%})", flush=True)
    options: dict[str, Any] = {"confidence": 0.9, "mixture": mixture}
    found = [ib.learn_certified(simulator, samples=1000, seed=s, **options).policy for s in range(runs)]
    share = sum(policy is not None for policy in found) / runs
    print(f"learning, margin exactly zero: {share:.2%} of {runs:,} (allowed {allowed:.2%})", flush=True)
    found = [ib.learn_certified(small.simulator(), samples=3000, seed=s, **options).policy for s in range(runs)]
    returned = [ib.evaluate(small, policy).in_bounds for policy in found if policy is not None]
    share = (len(returned) - sum(returned)) / runs
    print(
        f"learning, ten states: {share:.2%} of {runs:,} (allowed {allowed:.2%}), {len(returned):,} returned", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("problems", nargs="*", help=f"of {', '.join(PROBLEMS)}; all by default")
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--confidence", type=float, default=0.99)
    parser.add_argument("--mixture", action="store_true", help="learn mixtures of policies")
    parser.add_argument("--validity", action="store_true", help="how often it is wrong at 90 %%, in 2,000 runs")
    arguments = parser.parse_args()
    if arguments.validity:
        validity(arguments.runs if arguments.runs != 20 else 2000, arguments.mixture)
        return
    for name in arguments.problems or PROBLEMS:
        measure(name, arguments.samples, arguments.runs, arguments.confidence, mixture=arguments.mixture)


if __name__ == "__main__":
    main()
