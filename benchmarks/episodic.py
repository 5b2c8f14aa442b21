"""What the episodic learners cost: ratios within one run; and what they lose, against an independent implementation.

    python benchmarks/episodic.py [--quick]         ratios, CPU seconds, the best of several rounds
    python benchmarks/episodic.py --losses [--jobs 2] [--seeds 20] [--journal FILE] [--algorithms opt-dual,opdop]
    python benchmarks/episodic.py --long [--algorithms opt-dual,opdop]     ten times the episodes, four seeds
    python benchmarks/episodic.py --all             the run of 13 x 6 x 20 x 10^4 episodes itself, on all cores

The ratios: constrained planning by column generation against HiGHS on the explicit extended linear program of the same
box; planning on doubling against planning before every episode; an episode of OptDual in plain sweeps; and the time of
13 algorithms x 6 problems x 20 seeds x 10^4 episodes on two cores, reckoned from one run of each.

The losses: `episodic_reference.csv` holds means over 20 seeds (4 on the hazard grid) of 10^4 episodes with the same
presets, written independently. Two correct implementations agree in the mean: the gap within 3 sd sqrt(1/m + 1/n) +
.002, with the deviation sd and the m seeds of the file, and n of this run. For the other columns, of which the file has
no deviation, that of this run stands. The long runs are of the small problems, on the hazard grid of Triple-Q alone;
of Optimistic-GMBL they are so many draws of every pair, with ten seeds (three on the hazard grid).
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

import inbounds as ib
from episodic_problems import loss, settings_for
from inbounds.algorithms import ALGORITHMS
from inbounds.algorithms.episodic.model import fill_signals
from inbounds.exact.box_plan import constrained_plan
from inbounds.exact.methods import solve_uncertified
from inbounds.numerics.boxes import follow, new_sweep, sweep
from inbounds.studies.runs import JudgedRun, run_arms
from inbounds.tables import text_table

PROBLEMS = ("media", "inventory", "three_cycle", "factored", "queue", "hazard_grid")
EPISODIC = [name for name, one in ALGORITHMS.items() if one.algorithm.criterion == "finite-horizon"]
EPISODES = 10_000
DRAWS = {"media": (1_000, 10_000)} | {name: (1_000,) for name in PROBLEMS[1:]}
"""Of every pair, for Optimistic-GMBL."""


def length(cmdp: ib.CMDP) -> int:
    """Steps of an episode."""
    return cmdp.horizon or ib.truncate(cmdp, 1e-3).horizon


def seconds(work: Callable[[], Any], rounds: int) -> float:
    """CPU seconds, the best of several."""
    best = math.inf
    for _ in range(rounds):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def learned(name: str, cmdp: ib.CMDP, episodes: int, seed: int = 0, **changes: Any) -> Callable[[], Any]:
    settings = ALGORITHMS[name].practical(**changes) if changes else settings_for(name, cmdp)
    return lambda: ib.learn(cmdp.simulator(), settings, samples=episodes * length(cmdp), seed=seed)


class Snapshot:
    """What OptCMDP knows after some episodes: the box, the signals and the room to plan in."""

    def __init__(self, cmdp: ib.CMDP, episodes: int) -> None:
        settings, simulator, rng = ib.OptCMDP.practical(), cmdp.simulator(), np.random.default_rng(0)
        samples = episodes * length(cmdp)
        begun = settings.algorithm.prepare(settings, simulator, samples, rng)
        self.state, self.constants = begun.state, begun.constants
        settings.algorithm.advance(self.state, self.constants, simulator.open(), rng, 0, samples)
        frame, model = self.constants.frame, self.state.model
        self.horizon, self.n_pairs = self.state.play.policy.shape
        shape = self.horizon, self.n_pairs, len(frame.low)
        sizes = self.horizon, frame.S, *shape[1:]
        self.signals, self.plain, self.extended = np.empty(shape), new_sweep(*sizes, False), new_sweep(*sizes, True)
        none = np.zeros_like(self.state.spans)
        fill_signals(self.signals, model, frame, self.constants.radii, none, 1.0, 0.0)
        self.policy, self.prices = np.empty(shape[:2]), np.zeros(shape[2] - 1)

    def plan(self) -> None:
        self.prices[:] = 0.0  # from nothing, as HiGHS
        not_met = 1e4 * self.constants.frame.W
        constrained_plan(self.signals, self.state.model.rows, True, not_met, self.prices, self.policy)

    def sweep(self) -> None:
        """One plain backward sweep, greedy, with its forward pass."""
        rows, anything = self.state.model.rows, self.signals[0, :0]
        sweep(self.signals, self.prices, self.policy, rows, anything, anything, True, self.plain)
        follow(self.policy, self.signals, rows, False, self.plain, np.empty(self.signals.shape[2]))

    def dual_value(self) -> float:
        """The best reward plus priced margins over the box, at the prices of the plan: the optimum, by duality."""
        rows, anything = self.state.model.rows, self.signals[0, :0]
        sweep(self.signals, self.prices, self.policy, rows, anything, anything, True, self.extended)
        sums = rows.starts / rows.starts.sum() @ self.extended.values[0]
        return float(sums[0] + self.prices @ sums[1:])

    def program(self) -> dict[str, Any]:
        """The extended linear program over q_h(s, a, s') with an exit for what was never tried, as linprog takes it."""
        model, rows, offsets = self.state.model, self.state.model.rows, self.constants.frame.offsets
        n_states = len(rows.starts)
        lower, upper = np.zeros((self.n_pairs, n_states)), np.zeros((self.n_pairs, n_states))
        assert rows.step == 0  # one box for all stages
        for pair in range(self.n_pairs):
            seen = rows.successors[pair, : rows.length[pair]]
            upper[pair] = rows.beyond[pair]
            lower[pair, seen] = rows.lower[pair, : rows.length[pair]]
            upper[pair, seen] = rows.upper[pair, : rows.length[pair]]
        tried, size = model.known > 0.0, self.n_pairs * n_states
        # Columns: q [H, n, S], then the exits [H, n] of pairs never tried.
        total = sp.kron(sp.eye(self.n_pairs), np.ones((1, n_states)), format="csr")  # q to its pair
        state_of = np.repeat(np.arange(n_states), np.diff(offsets))
        out = sp.csr_array((np.ones(self.n_pairs), (state_of, np.arange(self.n_pairs))))  # pairs to their state
        arrive = sp.kron(np.ones((1, self.n_pairs)), sp.eye(n_states), format="csr")
        boxes = sp.vstack(
            [
                sp.eye(size) - sp.diags(upper.ravel()) @ sp.kron(sp.eye(self.n_pairs), np.ones((n_states, n_states))),
                sp.diags(lower.ravel()) @ sp.kron(sp.eye(self.n_pairs), np.ones((n_states, n_states))) - sp.eye(size),
            ]
        ).tocsr()[np.tile(np.repeat(tried, n_states), 2)]
        stages = sp.eye(self.horizon)
        after = sp.eye(self.horizon, k=-1)
        flow = sp.hstack([sp.kron(stages, out @ total) - sp.kron(after, arrive), sp.kron(stages, out)])
        begins = np.zeros((self.horizon, n_states))
        begins[0] = rows.starts / rows.starts.sum()
        n_signals = self.signals.shape[2]
        every = np.vstack(
            [each.reshape(-1, n_signals) for each in (np.repeat(self.signals, n_states, 1), self.signals)]
        )
        cut = np.concatenate([np.tile(np.repeat(tried, n_states), self.horizon), np.tile(~tried, self.horizon)])
        exits = sp.csr_array((boxes.shape[0] * self.horizon, self.horizon * self.n_pairs))  # are in no box
        boxed, kept = sp.hstack([sp.kron(stages, boxes), exits]), sp.csr_array(-every[:, 1:].T)
        inequality = sp.vstack([boxed, kept]).tocsr()[:, cut]
        return {
            "c": -every[cut, 0],
            "A_ub": inequality,
            "b_ub": np.zeros(inequality.shape[0]),
            "A_eq": flow.tocsr()[:, cut],
            "b_eq": begins.ravel(),
        }


def ratios(quick: bool) -> None:
    rounds, rows = 1 if quick else 3, []
    queue = ib.zoo.queue()
    known = Snapshot(queue, 300)
    known.plan()
    program = known.program()
    found, value = linprog(**program, method="highs"), known.dual_value()
    assert found.status == 0 and abs(found.fun + value) <= 1e-7 * abs(value), (found.message, found.fun, value)
    highs = seconds(lambda: linprog(**program, method="highs"), rounds)
    repeats = 20 if quick else 200
    planning = seconds(lambda: [known.plan() for _ in range(repeats)], rounds) / repeats
    sizes = "x".join(f"{size:,}" for size in program["A_ub"].shape)
    rows.append((f"HiGHS / column generation, queue ({sizes})", f"{highs / planning:,.0f}", ">= 500"))
    print(f"HiGHS {highs:.3f} s, column generation {1e3 * planning:.3f} ms", flush=True)

    for name in ("media", "queue"):
        cmdp = ib.zoo.make(name)  # counts double ever more rarely, so that fewer episodes would be another question
        doubling, always = (learned("opt-cmdp", cmdp, EPISODES, growth=growth) for growth in (2.0, 1.0))
        doubling()
        often = seconds(always, rounds) / seconds(doubling, 4 * rounds)  # the shorter, the more the noise
        rows.append((f"every episode / on doubling, {name}", f"{often:.0f}", ">= 20"))
        print(rows[-1], flush=True)

    for name in ("queue", "hazard_grid"):
        cmdp, episodes = ib.zoo.make(name), 200 if quick else 2_000
        known, play = Snapshot(cmdp, episodes), learned("opt-dual", cmdp, episodes)
        known.sweep()
        play()
        plain = seconds(lambda known=known: [known.sweep() for _ in range(repeats)], rounds) / repeats
        each = seconds(play, rounds) / episodes
        rows.append((f"an episode of OptDual in plain sweeps, {name}", f"{each / plain:.2f}", "<= 3"))
        print(rows[-1], flush=True)

    total = 0.0
    for name in PROBLEMS:
        cmdp, episodes = ib.zoo.make(name), EPISODES // (10 if quick else 1)
        for algorithm in EPISODIC:
            run = learned(algorithm, cmdp, episodes)
            learned(algorithm, cmdp, 1 if algorithm != "optimistic-gmbl" else 100)()  # compiles
            total += seconds(run, 1) * (EPISODES / episodes)
        print(f"{name}: {total:.1f} s so far for one run of each", flush=True)
    rows.append(("13 x 6 x 20 x 10^4 episodes on two cores, minutes (reckoned)", f"{total * 20 / 2 / 60:.1f}", "<= 5"))
    print(text_table(("ratio", "found", "wanted"), rows))


def everything(
    algorithms: list[str], jobs: int | None, seeds: int, journal: Path | None
) -> dict[tuple[str, str], list[JudgedRun]]:
    """Runs of 10^4 episodes by algorithm and problem; on the hazard grid of four seeds when losses are wanted."""
    found = {}
    for name in PROBLEMS:
        cmdp = ib.zoo.make(name)
        samples = EPISODES * length(cmdp)
        runs, _ = run_arms(
            [(cmdp, settings_for(each, cmdp)) for each in algorithms],
            samples=samples,
            checkpoints=[samples // 10, samples],
            seeds=seeds if name != "hazard_grid" or seeds < 20 or journal is None else 4,
            workers=jobs,
            journal=journal,
        )
        found.update({(each, name): own for each, own in zip(algorithms, runs, strict=True)})
    return found


def references() -> dict[tuple[str, str], dict[str, float]]:
    """Of the independent implementation, by algorithm and problem; nan where it was not run."""
    with open(Path(__file__).with_suffix("").as_posix() + "_reference.csv") as stream:
        lines = list(csv.DictReader(stream))
    return {(one.pop("algorithm"), one.pop("problem")): {k: float(v) for k, v in one.items()} for one in lines}


def long_runs(algorithms: list[str]) -> None:
    """The mean loss after ten times the episodes, beside the reference; gap and violation of Optimistic-GMBL."""
    reference, header = references(), ("algorithm", "problem", "found", "reference")
    print("| " + " | ".join(header) + " |\n" + "|---" * len(header) + "|")
    for each, name in itertools.product(algorithms, PROBLEMS):
        cmdp = ib.zoo.make(name)
        if each == "optimistic-gmbl":
            for draws in DRAWS[name]:
                settings, samples = settings_for(each, cmdp), draws * cmdp.n_pairs
                seeds = range(3 if name == "hazard_grid" else 10)
                policies = [ib.learn(cmdp.simulator(), settings, samples=samples, seed=seed).policy for seed in seeds]
                judged = [ib.evaluate(cmdp, policy) for policy in policies]
                gap = ib.solve(cmdp).total_reward - np.mean([own.total_reward for own in judged])
                missed = np.mean([max(0.0, -own.total_margins.min()) for own in judged])
                print(f"| {each} | {name}, {draws:,} draws | {gap:.4f}; {missed:.4f} | |", flush=True)
        elif each == "triple-q" or name != "hazard_grid":
            runs = [learned(each, cmdp, 10 * EPISODES, seed)() for seed in range(4)]
            found = np.mean([loss(cmdp, run.policy) for run in runs])
            print(f"| {each} | {name} | {found:.4f} | {reference[each, name]['long_loss']:.4f} |", flush=True)


def losses(algorithms: list[str], jobs: int | None, seeds: int, journal: Path) -> None:
    rows, reference = [], references()
    best = {name: solve_uncertified(ib.zoo.make(name)) for name in PROBLEMS}
    free = {name: solve_uncertified(ib.zoo.make(name).unconstrained()).total_reward for name in PROBLEMS}
    off = 0
    for (algorithm, name), runs in everything(algorithms, jobs, seeds, journal).items():
        optimum, price = best[name].total_reward, float(best[name].prices.max())
        gaps = np.array([optimum - run.rewards[-1] for run in runs])
        violations = np.array([max(0.0, -min(run.margins[-1])) for run in runs])
        values = {"gap": gaps, "violation": violations}
        values["loss"] = (np.maximum(gaps, 0.0) + price * violations) / (free[name] - optimum)
        for measure in ("regret", "violation"):
            if runs[0].played:
                costs = [run.played[measure][-1] / run.played["episodes"][-1] for run in runs]
                values[f"{measure}_per_episode"] = np.array(costs)
        own, cells = reference.get((algorithm, name)), []
        for measure in ("gap", "violation", "loss", "regret_per_episode", "violation_per_episode"):
            if measure not in values:
                cells.append("-")
                continue
            mean = float(values[measure].mean())
            cells.append(f"{mean:.4f}")
            if own is not None:
                spread = own["deviation"] if measure == "gap" else float(values[measure].std(ddof=1))
                allowed = 3.0 * spread * math.sqrt(1.0 / (4 if name == "hazard_grid" else 20) + 1.0 / len(runs)) + 0.002
                if abs(mean - own[measure]) > allowed:
                    cells[-1] += f" ! {own[measure]:.4f}"
                    off += 1
        rows.append((algorithm, name, *cells))
    header = ("algorithm", "problem", "gap", "violation", "loss", "regret", "violation, strong")
    print(text_table(header, rows))
    print(f"!: beyond the tolerance, with the reference beside it: {off} cells")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the episodes, one round")
    parser.add_argument("--losses", action="store_true", help="the table of losses instead")
    parser.add_argument("--long", action="store_true", help="losses after ten times the episodes instead")
    parser.add_argument("--algorithms", default=",".join(EPISODIC), help="of losses and long runs")
    parser.add_argument("--all", action="store_true", help="all runs, by the clock")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--journal", type=Path, default=Path("episodic-runs.jsonl"))
    given = parser.parse_args()
    if given.losses:
        losses(given.algorithms.split(","), given.jobs, given.seeds, given.journal)
    elif given.long:
        long_runs(given.algorithms.split(","))
    elif given.all:
        began = time.perf_counter()
        everything(EPISODIC, given.jobs, given.seeds, None)
        print(f"{(time.perf_counter() - began) / 60:.1f} minutes, wanted: at most 5 on two cores")
    else:
        ratios(given.quick)


if __name__ == "__main__":
    main()
