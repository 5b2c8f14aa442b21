"""Certificates from samples at 95 %: how many of many runs state something false, in scenarios made to deceive.

What a certificate states is compared with the exact values of the policy: a lower bound above the true value is false,
and so is "in bounds" of a policy that is out of bounds. A margin of exactly zero counts as out of bounds here, which is
harder: the gambler must not grow rich on a fair game. With n runs that are each false with probability at most 5 %,
more than `allowed(n)` false ones have a probability below 1e-6.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import binom

import inbounds as ib
from inbounds.proofs.certificate import FOR_ALL_MARGINS

from .workers import Failure, Report, Verdict, outcomes

COUNT = 2_000  # runs of each scenario
CONFIDENCE = 0.95
SURPRISE = 1e-6
CHUNK = 50

Judged = Callable[[int], bool]
"""Whether the run with a seed is false."""


def coin(margin: float = 0.0, constraints: int = 1, discount: float = 0.9) -> ib.CMDP:
    """Two states, each as likely as the other at every step, with signals +1 and -1; every margin is `margin`."""
    return ib.CMDP(
        offsets=[0, 1, 2],
        transition=np.full((2, 2), 0.5),
        reward=[0.0, 1.0],
        constraints=[
            ib.Constraint([1.0, -1.0] if k % 2 == 0 else [-1.0, 1.0], at_least=-margin, name=f"coin {k}")
            for k in range(constraints)
        ],
        initial=[0.5, 0.5],
        discount=discount,
    )


def tosses(margin: float, discount: float = 0.5) -> ib.Simulator:
    """The same as a user's own function; rewards and signals are random."""

    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float, list[float]]:
        heads = rng.random() < 0.5
        return int(rng.random() < 0.5), float(heads), [1.0 if heads else -1.0]

    return ib.Simulator(
        step,
        start=lambda rng: 0,
        states=2,
        actions=[0],
        discount=discount,
        reward_range=(0.0, 1.0),
        constraints=[ib.Constraint(at_least=-margin, name="tosses")],
        signal_ranges=[(-1.0, 1.0)],
    )


def choice() -> ib.CMDP:
    """One of two actions pays and is out of bounds alone: what is learned lies at the edge."""
    return ib.CMDP(
        offsets=[0, 2, 4],
        transition=[[0.7, 0.3], [0.2, 0.8], [0.5, 0.5], [0.9, 0.1]],
        reward=[0.0, 1.0, 0.3, 0.9],
        constraints=[ib.Constraint([1.0, -1.0, 0.4, -0.6], at_least=0.1, name="edge")],
        initial=[1.0, 0.0],
        discount=0.8,
    )


def certified(
    problem: Any, simulator: Any, samples: int, value: Any, rewards: float, margins: float, bounds: bool = False
) -> Judged:
    """To be in bounds is one statement, and that all `bounds` hold at once another; a scenario judges one of them."""
    policy = ib.Policy.uniform(problem)

    def judged(seed: int) -> bool:
        found = ib.certify(policy, simulator, confidence=CONFIDENCE, samples=samples, seed=seed, value=value)
        if not bounds:
            return found.in_bounds and margins <= 0.0
        stated = found.margins_lower[[how != FOR_ALL_MARGINS for how in found.methods]]
        return found.reward_lower > rewards + 1e-9 or bool(np.any(stated > margins + 1e-9))

    return judged


def known(margin: float, value: Any = None, samples: int = 3_000, bounds: bool = False, **model: Any) -> Judged:
    cmdp = coin(margin, **model)
    if isinstance(value, float):
        value = np.vstack([[0.5, 0.5], np.full((cmdp.n_constraints, 2), value)])
    return certified(cmdp, cmdp.simulator(), samples, value, 0.5, margin, bounds)


def learned(learner: Any = "model") -> Judged:
    cmdp = choice()
    simulator = cmdp.simulator()

    def judged(seed: int) -> bool:
        run = ib.learn_certified(simulator, samples=3_000, confidence=CONFIDENCE, seed=seed, learner=learner)
        if run.policy is None:
            return False
        return bool(np.any(ib.evaluate(cmdp, run.policy).margins < 0.0))

    return judged


def by_hand(value: Any, margin: float = -0.05) -> Judged:
    simulator = tosses(margin)
    return certified(coin(margin), simulator, 100, value, 0.5, margin)


SCENARIOS: dict[str, Callable[[], Judged]] = {
    "zero margin, no guess": lambda: known(0.0, np.zeros((2, 2))),
    "zero margin, wrong guess": lambda: known(0.0, np.array([[1.0, -1.0], [-1.0, 1.0]])),
    "zero margin, pilot": lambda: known(0.0),
    "zero margins, two of them": lambda: known(0.0, constraints=2),
    "zero margins, two of them, bounds": lambda: known(0.0, constraints=2, bounds=True),
    "guess -1e2": lambda: known(-0.05, -1e2),
    "guess -1e3": lambda: known(-0.05, -1e3),
    "guess -1e4": lambda: known(-0.05, -1e4),
    "guess +1e2": lambda: known(-0.05, 1e2),
    "guess +1e3": lambda: known(-0.05, 1e3),
    "guess +1e4": lambda: known(-0.05, 1e4),
    "margin -1e-3, pilot": lambda: known(-1e-3),
    "margin +1e-3, pilot, bounds": lambda: known(1e-3, bounds=True),
    "user's simulator, pilot": lambda: by_hand(None),
    "user's simulator, guess -1e2": lambda: by_hand(np.array([[0.5, 0.5], [-1e2, -1e2]])),
    "learn_certified": learned,
    "learn_certified, CSPDA": lambda: learned(ib.CSPDA.practical(slater=0.2)),
}


def allowed(runs: int) -> int:
    """False certificates of so many runs that luck explains."""
    return int(binom.isf(SURPRISE, runs, 1.0 - CONFIDENCE))


def check(case: tuple[str, int, int]) -> Verdict:
    """The runs of a scenario with seeds from `first` on."""
    scenario, first, number = case
    judged = SCENARIOS[scenario]()
    return Verdict([], {"runs": number, scenario: sum(judged(first + i) for i in range(number))})


def run(count: int, seed: int, seconds: float) -> Report:
    """`count` runs of each scenario; the table shows how many of them were false."""
    began, report = time.monotonic(), Report()
    starts = [(first, min(CHUNK, count - first)) for first in range(0, count, CHUNK)]
    # Chunk by chunk through all scenarios, so that each has its share when the time is over.
    cases = [(scenario, seed * 1_000_003 + first, number) for first, number in starts for scenario in SCENARIOS]
    done: dict[str, int] = dict.fromkeys(SCENARIOS, 0)
    wrong: dict[str, int] = dict.fromkeys(SCENARIOS, 0)
    for case, verdict in outcomes(check, cases, began + seconds, limit=60.0):
        done[case[0]] += case[2]
        wrong[case[0]] += verdict.tried.get(case[0], 0)
        report.failures += [Failure(case, f"{complaint} | {case[0]}") for complaint in verdict.complaints]
    report.tried["runs"] = sum(done.values())
    for scenario, false in wrong.items():
        report.tried[f"false of {done[scenario]:,}, {scenario}"] = false
        if false > allowed(done[scenario]):
            most = allowed(done[scenario])
            text = f"false certificates, {scenario}: {false} of {done[scenario]}, at most {most} allowed"
            report.failures.append(Failure(scenario, text))
            print(f"  {text}", flush=True)
    if sum(done.values()) < count * len(SCENARIOS):
        report.stopped = f"{seconds:g} s were over"
    report.seconds = time.monotonic() - began
    return report
