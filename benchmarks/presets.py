"""What docs/presets.md has beside the tables of `inbounds compare --suite`: presets without a single setting.

    python benchmarks/presets.py [--utility | --sketch] [--samples N ...] [--seeds N] [--quick]

Without an option: every preset on four problems of one's own, a chain, a grid, a stock and a queue, written for this
and used for nothing else. --utility: the preset of Concave CSPDA for the most even time in bounds (the entropy of the
states), bare and tested, on both halves of the suite, against the optimum by simplicial decomposition. --sketch: a
model in little memory, where there is too little room for every next state.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize

import inbounds as ib
from inbounds.algorithms import model_based, sketch
from inbounds.exact.methods import solve_uncertified
from inbounds.studies.statistics import interquartile_mean
from inbounds.studies.suite import Yardstick
from inbounds.zoo.tuning_half import stock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--utility", action="store_true", help="Concave CSPDA with the entropy of the states")
    parser.add_argument("--sketch", action="store_true", help="a model in little memory")
    parser.add_argument("--samples", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one run with 20,000 samples of each")
    arguments = parser.parse_args()
    budgets, seeds = ([20_000], 1) if arguments.quick else (arguments.samples, arguments.seeds)
    measure = with_utility if arguments.utility else with_sketch if arguments.sketch else own_problems
    measure(budgets, seeds)


# ---- four problems of one's own


def own_problems(budgets: list[int], seeds: int) -> None:
    print(f"mean gap, %, and runs out of bounds, of {seeds}, if any")
    problems = {"ladder": ladder(), "floor": floor(), "bakery": bakery(), "desk": desk()}
    found = ib.compare_suite(problems, samples=budgets, seeds=seeds, workers=1)
    for budget in budgets:
        print(f"{budget:,} samples".ljust(20), *(f"{name:>15s}" for name in problems))
        for score in found.scores:
            if score.samples == budget:
                cells = (cell(score.gaps[name], score.outside[name]) for name in problems)
                print(score.algorithm.ljust(20), *(f"{each:>15s}" for each in cells), flush=True)


def cell(gaps: Any, outside: Any) -> str:
    """Of the runs on one problem, [runs] each: the mean gap, and how many are out of bounds."""
    out = int(np.count_nonzero(outside))
    return f"{100.0 * np.mean(gaps):.2g}" + f", out {out}" * (out > 0)


def together(each: Iterator[tuple[Any, float]]) -> dict[Any, float]:
    """Next states with their probabilities, those that come up more than once added up."""
    found: dict[Any, float] = {}
    for state, probability in each:
        found[state] = found.get(state, 0.0) + probability
    return found


def ladder() -> ib.CMDP:
    """A chain: twelve rungs to climb, one at a time, or two at a time at the risk of a fall; the top pays."""
    top, fuel = 11, {"rest": 0.0, "climb": 1.0, "jump": 3.0}

    def moves(rung: int, action: str) -> dict[int, float]:
        ways = {
            "rest": [(max(rung - 1, 0), 0.3), (rung, 0.7)],
            "climb": [(min(rung + 1, top), 0.75), (rung, 0.25)],
            "jump": [(min(rung + 2, top), 0.55), (0, 0.45)],
        }
        return together(iter(ways[action]))

    return ib.build(
        0,
        lambda rung: list(fuel),
        moves,
        reward=lambda rung, action: 10.0 * (rung == top),
        constraints=[ib.Constraint(lambda rung, action: fuel[action], at_most=0.9, name="fuel")],
        discount=0.96,
    )


def floor() -> ib.CMDP:
    """A grid: a robot on a floor of 6 x 7 with wet cells and a slip, a dock in the far corner, and a battery."""
    wet = {(1, 2), (2, 2), (3, 2), (1, 4), (2, 4), (4, 4), (5, 4)}
    ways = {"north": (-1, 0), "south": (1, 0), "west": (0, -1), "east": (0, 1), "wait": (0, 0)}

    def after(cell: tuple[int, int], way: str) -> tuple[int, int]:
        row, column = cell[0] + ways[way][0], cell[1] + ways[way][1]
        return (row, column) if 0 <= row < 6 and 0 <= column < 7 else cell

    def moves(cell: tuple[int, int], action: str) -> dict[tuple[int, int], float]:
        if cell == (5, 6):
            return {(0, 0): 1.0}
        slips = ((action, 0.85), ("north", 0.05), ("south", 0.05), ("east", 0.05))
        return together((after(cell, way), probability) for way, probability in slips)

    return ib.build(
        (0, 0),
        lambda cell: list(ways),
        moves,
        reward=lambda cell, action: float(cell == (5, 6)),
        constraints=[
            ib.Constraint(lambda cell, action: float(cell in wet), at_most=0.06, name="wet"),
            ib.Constraint(lambda cell, action: 0.2 if action == "wait" else 1.0, at_most=0.9, name="energy"),
        ],
        discount=0.95,
    )


def bakery() -> ib.CMDP:
    """A stock: up to 30 loaves, of which a tenth spoils; bounds on the shelf, and on the days with a hot oven."""
    weights = np.array([math.comb(loaves + 3, loaves) * 0.55**loaves for loaves in range(20)])
    demand = weights / weights.sum()

    def moves(loaves: int, batch: int) -> dict[int, float]:
        left = (max(loaves + batch - wanted, 0) for wanted in range(20))
        return together((round(0.9 * kept), chance) for kept, chance in zip(left, demand, strict=True))

    return ib.build(
        10,
        lambda loaves: [batch for batch in (0, 3, 6, 9) if loaves + batch <= 30],
        moves,
        reward=lambda loaves, batch: 2.5 * float(demand @ np.minimum(np.arange(20), loaves + batch)) - 0.1 * batch,
        constraints=[
            ib.Constraint(lambda loaves, batch: float(loaves + batch), at_most=10.0, name="shelf"),
            ib.Constraint(lambda loaves, batch: float(batch > 0), at_most=0.6, name="oven"),
        ],
        discount=0.97,
    )


def desk() -> ib.CMDP:
    """A queue: two kinds of callers, one to three clerks and whom they serve first; bounds on full lines and on pay."""

    def moves(lines: tuple[int, int], action: tuple[int, int]) -> dict[tuple[int, int], float]:
        (first, second), (clerks, kind) = lines, action
        busy = [0, 0]
        busy[kind] = min(clerks, lines[kind])
        busy[1 - kind] = min(clerks - busy[kind], lines[1 - kind])
        each = [
            ((min(first + 1, 5), second), 0.3),
            ((first, min(second + 1, 4)), 0.25),
            ((max(first - 1, 0), second), 0.22 * busy[0] / 3.0),
            ((first, max(second - 1, 0)), 0.22 * busy[1] / 3.0),
        ]
        return together(iter([*each, (lines, 1.0 - sum(chance for _, chance in each))]))

    return ib.build(
        (0, 0),
        lambda lines: [(clerks, kind) for clerks in (1, 2, 3) for kind in (0, 1)],
        moves,
        reward=lambda lines, action: -float(lines[0] + 2 * lines[1]),
        constraints=[
            ib.Constraint(lambda lines, action: float(lines[0] == 5), at_most=0.42, name="full"),
            ib.Constraint(lambda lines, action: float(action[0]), at_most=2.2, name="pay"),
        ],
        discount=0.98,
    )


# ---- a concave utility


def with_utility(budgets: list[int], seeds: int) -> None:
    print("(optimum - entropy, with what is out of bounds at its price) / optimum, %: interquartile mean; runs out")
    for half in ("tuning", "untouched"):
        judges = {name: (cmdp, *most_even(cmdp)) for name, cmdp in ib.zoo.suite(half).items()}
        for budget in budgets:
            for tested in (False, True):
                gaps: dict[str, list[float]] = {name: [] for name in judges}
                out = 0
                for name, (cmdp, optimum, prices) in judges.items():
                    entropy = ib.state_entropy(cmdp)
                    settings = ib.ConcaveCSPDA.practical(utility=entropy, repair=tested)
                    for seed in range(seeds):
                        run = ib.learn(cmdp.simulator(), settings, samples=budget, seed=seed)
                        judged = ib.evaluate(cmdp, run.policy)
                        missed = optimum - entropy.value(judged.occupancy) + prices @ np.maximum(-judged.margins, 0.0)
                        gaps[name].append(100.0 * missed / optimum)
                        out += not judged.in_bounds
                means = {name: float(np.mean(own)) for name, own in gaps.items()}
                worst = max(means, key=means.__getitem__)
                middle = interquartile_mean(np.concatenate(list(gaps.values())))
                how = "tested" if tested else "bare"
                print(f"{half} {budget:,} {how}: {middle:.2f}, worst {worst} {means[worst]:.2f}; out {out}", flush=True)


def most_even(cmdp: ib.CMDP) -> tuple[float, Any]:
    """The largest entropy in bounds, up to 1e-4, and the prices there, by simplicial decomposition.

    The best occupancy for the gradient joins those that are there, and the best mixture of all is the next point.
    """
    entropy = ib.state_entropy(cmdp)
    corners = [np.array(solve_uncertified(cmdp).occupancy)]
    weights = np.ones(1)
    while True:
        point = weights @ np.array(corners)
        slope = np.array(entropy.gradient(point))
        best = solve_uncertified(replace(cmdp, reward=slope))
        if slope @ (best.occupancy - point) < 1e-4:
            return entropy.value(point), best.prices
        corners.append(np.array(best.occupancy))
        weights = best_mixture(entropy, np.array(corners))
        corners = [corner for corner, weight in zip(corners, weights, strict=True) if weight > 1e-12]
        weights = weights[weights > 1e-12] / weights[weights > 1e-12].sum()


def best_mixture(utility: ib.Utility, corners: Any) -> Any:
    """Weights [C] of the occupancies [C, n] for the most utility of their mixture."""
    found = minimize(
        lambda weights: -utility.value(weights @ corners),
        np.full(len(corners), 1.0 / len(corners)),
        jac=lambda weights: -(corners @ utility.gradient(weights @ corners)),
        bounds=[(0.0, 1.0)] * len(corners),
        constraints=[{"type": "eq", "fun": lambda weights: weights.sum() - 1.0, "jac": np.ones_like}],
        method="SLSQP",
        options={"maxiter": 300, "ftol": 1e-14},
    )
    return np.maximum(found.x, 0.0) / np.maximum(found.x, 0.0).sum()


# ---- a sketch of the model


def with_sketch(budgets: list[int], seeds: int) -> None:
    print(f"mean gap, %, and runs out of bounds, of {seeds}: model alone | sketch alone | model | sketch")
    suite = ib.zoo.suite()
    problems: Mapping[str, tuple[ib.CMDP, tuple[int, ...]]] = {
        "Garnet 20": (ib.zoo.garnet(20, 10, 20, 1, 0.8, seed=0), (8,)),
        "small": (suite["small"], (8,)),
        "Garnet 100": (ib.zoo.garnet(100, 5, 60, 2, 0.95, seed=1), (8, 32)),
        "Garnet ring 80": (ib.zoo.garnet(80, 4, 15, 2, 0.99, seed=3, ring=True), (8,)),
        "stock20": (suite["stock20"], (8,)),
        "stock of 50": (stock("stock50", 50, 0.99), (8, 32)),
    }
    make = sketch.new_sketch
    for name, (cmdp, rooms) in problems.items():
        judge = Yardstick.of(name, cmdp)
        for room in rooms:
            # How much room there is, is no setting.
            vars(model_based)["new_sketch"] = partial(make, kept=room)
            for budget in budgets:
                cells = []
                for tested in (False, True):
                    for memory in ("samples", "sketch"):
                        settings = ib.ModelBased.practical(repair=tested, memory=memory)
                        runs = [
                            ib.learn(cmdp.simulator(), settings, samples=budget, seed=seed) for seed in range(seeds)
                        ]
                        judged = [ib.evaluate(cmdp, run.policy) for run in runs]
                        gaps = [judge.gaps(np.array(one.total_reward), one.total_margins) for one in judged]
                        cells.append(cell(gaps, [not one.in_bounds for one in judged]))
                print(f"{name}, room {room}, {budget:,}: {' | '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
