"""What proofs cost: the checks alone, and the exact checker.

    python benchmarks/certify.py [--quick]

1. C1 and C2 with bounded rounding on a Garnet (8 actions, 5 successors, 2 constraints, discount 0.99), for a policy
   that uses every action; at 100,000 states the target is one second for both checks. Finding the vectors is timed
   apart: it is a policy evaluation per signal, and any vectors do. So is hashing the model, which is put off until the
   certificate is saved.
2. The loss: how far the proven bounds are below the evaluated values.
3. The independent checker, in rationals, at 1,000 states: the target is a second; and the second one, in whole numbers.
4. One certified solution: the gap that is proved, and what strictness costs. (Its time: benchmarks/exact.py.)

The machine may be shared: CPU seconds, of which the least of several rounds counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import inbounds as ib
from inbounds.criteria import criterion_of
from inbounds.formats import npz
from inbounds.proofs import rounding
from inbounds.proofs.files import save_certificate
from inbounds.proofs.vectors import settled
from inbounds.proofs.verify import verify


def best_of(rounds: int, run: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(rounds):
        started = time.process_time()
        run()
        seconds.append(time.process_time() - started)
    return min(seconds)


def mixed_policy(cmdp: ib.CMDP) -> ib.Policy:
    weights = np.random.default_rng(0).exponential(size=cmdp.n_pairs)
    return ib.Policy(cmdp.pairs, weights / cmdp.pairs.sum_by_state(weights)[cmdp.pairs.states])


def checks(states: int, rounds: int) -> None:
    cmdp = ib.zoo.garnet(states=states, actions=8, successors=5, discount=0.99, seed=0)
    policy, criterion = mixed_policy(cmdp), criterion_of(cmdp)
    taken, signals = policy.probabilities, rounding.signals_of(cmdp)
    prices, values = np.array([0.2, 0.1]), np.random.default_rng(1).random(states)

    def find() -> Any:
        return settled(cmdp, criterion.proof_vectors(criterion.follow(taken), signals))

    vectors = find()
    lowers = rounding.rounded_lowers(cmdp, taken, vectors)  # compiles
    rounding.rounded_upper(cmdp, prices, values, 1.0)
    lower = best_of(rounds, lambda: rounding.rounded_lowers(cmdp, taken, vectors))
    upper = best_of(rounds, lambda: rounding.rounded_upper(cmdp, prices, values, 1.0))
    finding = best_of(1, find)
    hashing = best_of(rounds, lambda: npz.digest(cmdp))
    judged = ib.evaluate(cmdp, policy)
    loss = np.max(np.array([judged.reward, *judged.margins]) - lowers)
    print(
        f"{states:>9,}   {1e3 * lower:>13.1f}   {1e3 * upper:>7.1f}   {1e3 * finding:>15.0f}   {1e3 * hashing:>7.1f}"
        f"   {loss:>7.0e}"
    )


def checker(states: int) -> None:
    cmdp = ib.zoo.garnet(states=states, actions=8, successors=5, discount=0.99, seed=0)
    best = ib.solve(cmdp)
    # Every action used, so that no row is skipped: an occupancy in bounds, mixed with a little of the uniform policy's.
    inside = ib.slater(cmdp).policy
    policy = ib.mix(cmdp, [best.policy, inside, mixed_policy(cmdp)], [0.5, 0.45, 0.05])
    certificate = ib.certify(policy, cmdp, prices=best.prices, value_function=best.value_function)
    assert certificate.in_bounds
    with tempfile.TemporaryDirectory() as folder:
        model, claim = Path(folder) / "model.npz", Path(folder) / "certificate.json"
        cmdp.save(model)
        save_certificate(certificate, claim)
        started = time.process_time()
        accepted, _ = verify(str(model), str(claim))
        seconds = time.process_time() - started
        alone = Path(__file__).parents[1] / "checkers" / "integers.py"
        before = os.times()
        again = subprocess.run([sys.executable, str(alone), str(model), str(claim)], stdout=subprocess.DEVNULL)
        others = os.times().children_user - before.children_user
    print(f"\nexact checker, {states:,} states, C1 and C2: {seconds:.2f} s (target: under 1), accepted: {accepted}")
    print(f"the second one: {others:.2f} s, accepted: {again.returncode == 0}")


def solution(states: int) -> None:
    cmdp = ib.zoo.garnet(states=states, actions=4, successors=5, discount=0.95, seed=0)
    best = ib.solve(cmdp)
    print(f"\na solution at {states:,} states; reward given up for strictness: {best.reward_given_up:.0e}")
    print(best.certificate)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, smaller models")
    quick = parser.parse_args().quick
    print("   states   C1, 3 signals        C2   finding vectors   hashing      loss      (milliseconds)")
    for size in (1_000, 10_000) if quick else (1_000, 10_000, 100_000):
        checks(size, 3 if quick else 5)
    checker(200 if quick else 1_000)
    solution(100 if quick else 300)
