"""Learners on tiny random models, with a horizon and without: seeds give the same bits, and samples are counted.

Whatever the model (degenerate, without constraints, hardly feasible, or not at all), a run ends with a policy of the
problem, or is refused by name. It never has more samples than it was given; a simulator of the user's own is asked
exactly as often as the run says. And a judge, who alone sees the model, finds its policies worth no more than the best.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

import inbounds as ib
from inbounds.algorithms import ALGORITHMS

from .arguments import compiled
from .models import random_model
from .workers import Report, Verdict, campaign, in_time

COUNT = 260
"""Ten of each algorithm with a horizon, and as many of the others."""
SAMPLES = 40
ASKED = 6
"""Samples of the user's own simulator, whose kernels are interpreted."""
NAMES = sorted(ALGORITHMS, key=lambda name: ALGORITHMS[name].algorithm.criterion != "finite-horizon")


def draw(seed: int, index: int) -> tuple[ib.CMDP, str]:
    name = NAMES[index % len(NAMES)]
    record = ALGORITHMS[name].algorithm
    kind = "horizon" if record.criterion == "finite-horizon" else "discount"
    rng = np.random.default_rng([seed, index])
    model = random_model(rng, kind, states=3, actions=2, constraints=2 if record.constrained else 0, slack=0.1)
    return model, f"{name}-{'paper' if index // len(NAMES) % 3 == 2 else 'practical'}"


def verdict(cmdp: ib.CMDP, what: str) -> Verdict:
    name, _, preset = what.rpartition("-")
    make = ALGORITHMS[name]
    given: dict[str, Any] = {}
    if "safe" in inspect.signature(make).parameters:
        given["safe"] = ib.slater(cmdp).policy
    try:
        settings = make.practical(**given) if preset == "practical" else make(**given)
        run = in_time(lambda: ib.learn(cmdp.simulator(), settings, samples=SAMPLES, seed=1, checkpoints=3))
    except ib.InvalidInput as error:
        said = str(error)
        return Verdict([] if said and len(said) < 1_000 else [f"a refusal ({name}): {said[:300]}"], {"refused": 1})
    complaints = []
    again = ib.learn(cmdp.simulator(), settings, samples=SAMPLES, seed=1, checkpoints=3)
    if run.policies != again.policies or run.samples.tolist() != again.samples.tolist():
        complaints.append(f"other bits ({name}): the same seed")
    if not 0 < run.samples[-1] <= SAMPLES or np.any(np.diff(run.samples) <= 0):
        complaints.append(f"samples ({name}): {run.samples.tolist()} of {SAMPLES}")
    best = ib.solve(cmdp.unconstrained(), certificate=False)
    for policy in run.policies:
        judged = ib.evaluate(cmdp, policy)
        size = 1.0 + np.abs(cmdp.reward).max()
        if not judged.reward <= best.upper_bound + 1e-9 * size * cmdp.layers or not np.all(np.isfinite(judged.margins)):
            complaints.append(f"values ({name}): {judged.reward} and {judged.margins}")
    simulator, asked = counting(cmdp)
    try:
        drawn = int(ib.learn(simulator, settings, samples=ASKED, seed=1).samples[-1])
    except ib.InvalidInput:
        return Verdict(complaints, {"runs": 2, "refused as a user's own": 1})
    if drawn != len(asked) or drawn > ASKED:
        complaints.append(f"samples of the user's own ({name}): {drawn} said, {len(asked)} asked")
    return Verdict(complaints, {"runs": 3})


def counting(cmdp: ib.CMDP) -> tuple[ib.Simulator, list[int]]:
    """The model as a user's own function, without stages of its own, and a list that grows with every step."""
    asked: list[int] = []
    moves = cmdp.transitions[0].toarray()
    reward, signals = np.atleast_2d(cmdp.reward)[0], [np.atleast_2d(c.signal)[0] for c in cmdp.constraints]

    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float, list[float]]:
        asked.append(1)
        pair = int(cmdp.offsets[state]) + action
        after = int(rng.choice(cmdp.n_states, p=moves[pair]))
        return after, float(reward[pair]), [float(signal[pair]) for signal in signals]

    simulator = ib.Simulator(
        step,
        lambda rng: int(rng.choice(cmdp.n_states, p=cmdp.initial)),
        states=cmdp.n_states,
        actions=lambda state: range(int(cmdp.offsets[state + 1] - cmdp.offsets[state])),
        reward_range=(float(reward.min()), float(reward.max())),
        constraints=[ib.Constraint(**{c.side: c.bound}, name=c.name) for c in cmdp.constraints],
        signal_ranges=[(float(signal.min()), float(signal.max())) for signal in signals],
        **cmdp.criterion,
    )
    return simulator, asked


def run(count: int, seed: int, seconds: float) -> Report:
    compiled()
    return campaign(draw, verdict, count, seed, seconds, "learners")
