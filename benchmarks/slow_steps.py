"""A user's step function of a millisecond: worker processes and vectorised steps against one call at a time.

    python benchmarks/slow_steps.py [--sleep] [--samples 50000]

Ratios within one run. The step keeps a processor busy, as a real simulator does, so two workers need two idle cores;
with --sleep it waits instead, which shows the same on a machine that has other work.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import inbounds as ib

STEP = 1e-3


def moves(state: int, action: int, rng: np.random.Generator) -> tuple[int, float, list[float]]:
    after = min(max(state + int(rng.integers(-1, 2)) + action, 0), 9)
    return after, after / 9.0, [float(action)]


def asleep(state: int, action: int, rng: np.random.Generator) -> tuple[int, float, list[float]]:
    time.sleep(STEP)
    return moves(state, action, rng)


def slow(state: int, action: int, rng: np.random.Generator) -> tuple[int, float, list[float]]:
    ends = time.perf_counter() + STEP
    while time.perf_counter() < ends:
        pass
    return moves(state, action, rng)


def many(states: list[int], actions: list[int], rng: np.random.Generator) -> tuple[object, object, object]:
    ends = time.perf_counter() + STEP
    while time.perf_counter() < ends:
        pass
    after = np.clip(np.array(states) + rng.integers(-1, 2, size=len(states)) + np.array(actions), 0, 9)
    return after.tolist(), after / 9.0, np.array(actions, dtype=float)[:, None]


def walk(step: object, **how: object) -> ib.Simulator:
    return ib.Simulator(
        step,
        lambda rng: 0,
        states=10,
        actions=[0, 1],
        discount=0.9,
        reward_range=(0, 1),
        constraints=[ib.Constraint(at_most=0.5, name="pushes")],
        signal_ranges=[(0, 1)],
        **how,
    )


def seconds(simulator: ib.Simulator, algorithm: object, samples: int) -> float:
    ib.learn(simulator, algorithm, samples=200, seed=1)  # starts the workers
    begun = time.perf_counter()
    ib.learn(simulator, algorithm, samples=samples, seed=0)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sleep", action="store_true", help="a step that waits, and leaves the processor to others")
    parser.add_argument("--samples", type=int, default=10_000)
    arguments = parser.parse_args()
    step, samples = asleep if arguments.sleep else slow, arguments.samples
    print(f"{samples:,} samples of a step of {1e3 * STEP:g} ms, seconds, and as a share of one call at a time")
    for algorithm in (ib.ModelBased(), ib.CSPDA(slater=0.3), ib.CRPO()):
        alone = seconds(walk(step), algorithm, samples)
        row = [f"alone {alone:6.2f}"]
        for name, simulator in (
            ("jobs=1", walk(step, jobs=1)),
            ("jobs=2", walk(step, jobs=2)),
            ("vectorised", walk(many, vectorised=True)),
        ):
            taken = seconds(simulator, algorithm, samples)
            row.append(f"{name} {taken:6.2f} ({taken / alone:.2f})")
        print(f"{algorithm.algorithm.name:12}", "   ".join(row), flush=True)


if __name__ == "__main__":
    main()
