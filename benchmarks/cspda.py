"""How fast CSPDA steps, as ratios within one run.

    python benchmarks/cspda.py [--quick]

1. The compiled kernel against a plain NumPy transcription of the paper's Algorithm 1, on the queue (96 pairs).
2. The cost of a step at a million pairs against that at a thousand (Garnet, 8 actions, 5 successors, 2 constraints).
3. The whole reproduction: 800 runs with evaluation and figures (after compilation).

The machine may be shared, so the sides of a ratio are measured alternately, and the best of several rounds counts.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import inbounds as ib
from inbounds.algorithms.cspda import CSPDA
from inbounds.algorithms.cspda_steps import advance


def transcription(problem: ib.CMDP, steps: int, seed: int, slater: float = 0.2, delta: float = 0.1) -> np.ndarray:
    """Algorithm 1 of the paper, line by line, with dense arrays [S, A]; returns the average occupancy."""
    rng = np.random.default_rng(seed)
    n_states, n_actions, n_constraints = problem.n_states, problem.pairs.n_actions, problem.n_constraints
    transition = problem.transition.toarray().reshape(n_states, n_actions, n_states)
    low, span = problem.reward.min(), np.ptp(problem.reward)
    reward = ((problem.reward - low) / span).reshape(n_states, n_actions)
    margins = (problem.margins / problem.margin_scales[:, None]).reshape(n_constraints, n_states, n_actions)
    rho, gamma, n = problem.initial, problem.discount, n_states * n_actions

    alpha = np.sqrt(n_states) / ((1 - gamma) * slater * np.sqrt(steps * n_constraints))
    beta = (1 - gamma) * slater * np.sqrt(np.log(n) / (steps * n))
    shift = 4 * (1 / slater + 1 / (1 - gamma) + 2 / ((1 - gamma) * slater))
    kappa = 2 * 0.02 / (1 - gamma) * np.sqrt(n_constraints * n * np.log(n) / steps)
    price_radius, value_radius = 4 / slater, 2 * (1 / (1 - gamma) + 2 / ((1 - gamma) * slater))

    lam = np.full((n_states, n_actions), 1 / n)
    u, v = np.zeros(n_constraints), np.zeros(n_states)
    average = np.zeros_like(lam)
    for _ in range(steps):
        average += lam / steps
        zeta = (1 - delta) * lam + delta / n
        s, a = np.unravel_index(rng.choice(n, p=zeta.ravel() / zeta.sum()), lam.shape)
        s0 = rng.choice(n_states, p=rho)
        after = rng.choice(n_states, p=transition[s, a])
        z = reward[s, a] + gamma * v[after] - v[s] + u @ margins[:, s, a]
        w = lam[s, a] / zeta[s, a]
        u = np.maximum(u - alpha * (w * margins[:, s, a] - kappa), 0.0)
        if u.sum() > price_radius:
            ordered = np.sort(u)[::-1]
            thresholds = (np.cumsum(ordered) - price_radius) / np.arange(1, n_constraints + 1)
            u = np.maximum(u - thresholds[np.flatnonzero(ordered > thresholds)[-1]], 0.0)
        v[s0] -= alpha * (1 - gamma)
        v[after] -= alpha * gamma * w
        v[s] += alpha * w
        np.clip(v, -value_radius, value_radius, out=v)
        lam[s, a] *= np.exp(beta * (z - shift) / zeta[s, a])
        lam /= lam.sum()
    return average


class Stepper:
    """Advances one long run of the compiled kernel a piece at a time."""

    def __init__(self, simulator: ib.Simulator, settings: CSPDA) -> None:
        self.rng = np.random.default_rng(0)
        self.world = simulator.open()
        self.state, self.constants, *_ = CSPDA.algorithm.prepare(settings, simulator, 1_000_000_000, self.rng)
        self.seconds_per_step(1_000)

    def seconds_per_step(self, steps: int) -> float:
        started = time.perf_counter()
        advance(self.state, self.constants, self.world, self.rng, 0, steps)
        return (time.perf_counter() - started) / steps


def against_numpy(rounds: int) -> None:
    queue = ib.zoo.queue()
    stepper = Stepper(queue.simulator(), CSPDA(slater=0.2))
    slow, fast = [], []
    for seed in range(rounds):
        started = time.perf_counter()
        transcription(queue, 2_000, seed)
        slow.append((time.perf_counter() - started) / 2_000)
        fast.append(stepper.seconds_per_step(300_000))
    print("queue, 96 pairs              steps a second")
    print(f"  NumPy transcription        {1 / min(slow):>14,.0f}")
    print(f"  compiled kernel            {1 / min(fast):>14,.0f}")
    print(f"  ratio                      {min(slow) / min(fast):>14.0f}   (target: at least 400)")


def against_size(rounds: int) -> None:
    print("\nGarnet, 5 successors         ns a step at 1e3 pairs    at 1e6    ratio   (target: at most 6)")
    simulators = {
        n: ib.zoo.garnet(states=n // 8, actions=8, successors=5, constraints=2, seed=0).simulator()
        for n in (1_000, 1_000_000)
    }
    for name, settings in (
        ("paper's formulas", CSPDA(slater=0.1)),
        ("practical preset", CSPDA.practical(slater=0.1, repair=False)),
    ):
        steppers = {n: Stepper(simulator, settings) for n, simulator in simulators.items()}
        for stepper in steppers.values():
            stepper.seconds_per_step(1_000_000)  # touch every page
        times: dict[int, list[float]] = {n: [] for n in steppers}
        for _ in range(rounds):
            for n, stepper in steppers.items():
                times[n].append(stepper.seconds_per_step(300_000))
        small, large = (1e9 * min(times[n]) for n in (1_000, 1_000_000))
        print(f"  {name:<18}         {small:>22.0f}    {large:>6.0f}    {large / small:>5.1f}")


def whole_reproduction() -> None:
    from inbounds.reports.figures import write_report
    from inbounds.reports.reproduction import drawn_reproduction
    from inbounds.studies.reproduction import reproduce_queue

    reproduce_queue(seeds=2, samples=1_000)  # compiles
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory:
        write_report(Path(directory), drawn_reproduction(reproduce_queue()))
    print(f"\nreproduction of 6,000 runs   {time.perf_counter() - started:.1f} s   (target: under 60)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no reproduction")
    quick = parser.parse_args().quick
    against_numpy(3 if quick else 9)
    against_size(3 if quick else 9)
    if not quick:
        whole_reproduction()
