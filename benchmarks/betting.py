"""Proofs from samples alone: how often they are wrong, what the control variate saves, what certified learning reaches.

    python benchmarks/betting.py [--quick]

1. False certificates at 95 %, of a policy whose margin is exactly zero, looked at after every walk.
2. Samples to certify a margin of .01 (scaled units) on the queue at 99 %: the plain estimator, which is the margin at
   the last pair of a walk, against walks with and without a guess of the values.
3. The same of a machine that breaks down once in a thousand steps, at a third of the bound, with a guess and without.
4. `learn_certified` at 99 %: how often it returns a policy, its reward, and the share that is truly out of bounds.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import numpy as np

import inbounds as ib
from inbounds.numerics.compiled import compiled
from inbounds.problem.draws import draw_next, draw_start
from inbounds.proofs.betting import bet_on, make_stakes, new_book, new_fortune
from inbounds.proofs.samples import certify_by_samples
from inbounds.proofs.walks import guess_from_array, make_design


def coin() -> tuple[ib.CMDP, ib.Policy]:
    """Two states, each as likely as the other at every step, with margins +1 and -1: the value is exactly zero."""
    cmdp = ib.CMDP(
        offsets=[0, 1, 2],
        transition=[[0.5, 0.5]] * 2,
        reward=[0.0, 1.0],
        constraints=(ib.Constraint([-1.0, 1.0], at_least=0.0, name="coin"),),
        initial=[0.5, 0.5],
        discount=0.5,
    )
    return cmdp, ib.Policy.uniform(cmdp)


def false_certificates(repetitions: int, samples: int) -> None:
    cmdp, policy = coin()
    simulator = cmdp.simulator()
    limit = 0.05 + 3 * math.sqrt(0.05 * 0.95 / repetitions)
    for name, value in (("no guess", np.zeros((2, 2))), ("a wrong guess", [[1, -1], [-1, 1]]), ("a pilot", None)):
        wrong = sum(
            certify_by_samples(policy, simulator, confidence=0.95, samples=samples, seed=seed, value=value).in_bounds
            for seed in range(repetitions)
        )
        print(f"   {name:<14} {wrong / repetitions:.2%} of {repetitions:,}   (allowed {limit:.2%})")


@compiled
def plain(design: Any, stakes: Any, fortune: Any, book: Any, world: Any, rng: Any, totals: Any, budget: int) -> int:
    """Bet on the reward and margins at the last pair of walks until settled; the samples drawn."""
    drawn = 0
    while drawn < budget:
        state = draw_start(world, rng)
        while True:
            u = rng.random()
            pair = world.offsets[state]
            while design.choice[pair] <= u:
                pair += 1
            state = draw_next(world, pair, rng)
            drawn += 1
            if rng.random() >= design.discount:
                break
        totals[0] = world.reward[pair]
        for k in range(1, totals.shape[0]):
            totals[k] = world.margins[pair, k - 1]
        if bet_on(stakes, fortune, book, totals, drawn):
            break
    return drawn


def plain_samples(policy: ib.Policy, simulator: ib.Simulator, alpha: float, budget: int, seed: int) -> int:
    rows = 1 + simulator.n_constraints
    guess = guess_from_array(np.zeros((simulator.pairs.n_pairs, rows)), policy)
    design = make_design(simulator, policy, guess)
    unknown = guess.variance(simulator.discount)
    least, discount = design.low - 1e-9, simulator.discount
    stakes = make_stakes(least, guess.mean, unknown, alpha, budget, discount, hurry=True)
    fortune, book = new_fortune(design.low), new_book(stakes)
    world = simulator.open()
    return plain(design, stakes, fortune, book, world, np.random.default_rng(seed), np.empty(rows), budget)


def breakdowns() -> tuple[ib.CMDP, ib.Policy]:
    """A machine that breaks down once in a thousand steps and is repaired in one: a share p of time of .0009."""
    down = 0.9e-3 / (1.0 + 0.9e-3)
    cmdp = ib.CMDP(
        offsets=[0, 1, 2],
        transition=[[0.999, 0.001], [1.0, 0.0]],
        reward=[1.0, 0.0],
        constraints=(ib.Constraint([0.0, 1.0], at_most=3.0 * down, name="down"),),
        initial=[1.0, 0.0],
        discount=0.9,
    )
    return cmdp, ib.Policy.uniform(cmdp)


def control_variate(cmdp: ib.CMDP, policy: ib.Policy, repetitions: int) -> None:
    simulator, budget = cmdp.simulator(), 1_000_000
    spent = {"last pair (plain)": [plain_samples(policy, simulator, 0.01, budget, seed) for seed in range(repetitions)]}
    for name, value in (
        ("whole walk, no guess", np.zeros((1 + cmdp.n_constraints, cmdp.n_pairs))),
        ("guess from a pilot", None),
        ("the true values", cmdp),
    ):
        certificates = [
            certify_by_samples(policy, simulator, confidence=0.99, samples=budget, seed=seed, value=value)
            for seed in range(repetitions)
        ]
        assert all(certificate.in_bounds for certificate in certificates)
        spent[name] = [certificate.samples for certificate in certificates]
    reference = float(np.median(spent["last pair (plain)"]))
    for name, samples in spent.items():
        median = float(np.median(samples))
        print(
            f"   {name:<22} {median:>9,.0f} samples (median of {repetitions})   {reference / median:5.1f} times fewer"
        )


def certified_learning(title: str, cmdp: ib.CMDP, repetitions: int, samples: int, learner: Any = "model") -> None:
    simulator = cmdp.simulator()
    ib.learn_certified(simulator, samples=samples, seed=0, learner=learner)  # compilation
    started = time.perf_counter()
    runs = [
        ib.learn_certified(simulator, samples=samples, seed=1 + seed, learner=learner) for seed in range(repetitions)
    ]
    seconds = (time.perf_counter() - started) / repetitions
    judged = [ib.evaluate(cmdp, run.policy) for run in runs if run.policy is not None]
    wrong = sum(not one.in_bounds for one in judged) / repetitions
    rewards = np.array([one.total_reward for one in judged])
    limit = 0.01 + 3 * math.sqrt(0.01 * 0.99 / repetitions)
    print(
        f"   {title:<24} {samples:>7,} samples: {len(judged) / repetitions:6.1%} returned, "
        f"total reward {rewards.mean():.4f} (sd {rewards.std():.4f}, optimum {ib.solve(cmdp).total_reward:.4f}), "
        f"out of bounds {wrong:.2%} (allowed {limit:.2%}), {np.mean([run.samples for run in runs]):,.0f} spent, "
        f"{np.mean([len(run.attempts) for run in runs]):.2f} attempts, {1000 * seconds:.0f} ms a run"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    quick = parser.parse_args().quick
    print("1. false certificates at 95 %, margin exactly zero, peeking after every walk")
    false_certificates(500 if quick else 2000, 20_000)
    print("2. samples to certify a margin of .01 on the queue at 99 %")
    queue = ib.zoo.queue()
    control_variate(queue, ib.solve(queue.tightened(0.01 * queue.margin_scales)).policy, 20 if quick else 40)
    print("3. samples to certify a machine that breaks down once in a thousand steps, at a third of the bound, at 99 %")
    control_variate(*breakdowns(), 20 if quick else 40)
    print("4. certified learning at 99 %")
    repetitions = 60 if quick else 500
    certified_learning("queue", ib.zoo.queue(), repetitions, 100_000)
    certified_learning("queue, CSPDA practical", ib.zoo.queue(), repetitions, 100_000, ib.CSPDA.practical(slater=0.2))
    certified_learning("garnet, 10 states", ib.zoo.garnet(states=10, actions=3, seed=1), repetitions, 20_000)
    certified_learning("jump grid", ib.zoo.jump_grid(), repetitions, 20_000)


if __name__ == "__main__":
    main()
