"""Every algorithm comes close to the exact optimum, on three small problems, within a stated budget, over seeds.

Gaps and violations are in scaled units, normalised: a reward in [0, 1], margins in [-1, 1]. A limit is on the MEAN over
the seeds; the largest violation of a single run may be three times that of the mean. Algorithms that know no
constraints are held to the unconstrained optimum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms import ALGORITHMS
from inbounds.algorithms.known import in_scaled_units

SEEDS = 5


class Claim(NamedTuple):
    settings: Any
    samples: int
    gap: float  # mean over seeds of the optimum minus the reward, at most; a violation may make it negative
    violation: float  # mean over seeds of the largest violation, at most


PROBLEMS = {
    "queue": in_scaled_units(ib.zoo.queue())[1],
    "small": in_scaled_units(ib.zoo.garnet(states=4, actions=3, successors=2, constraints=2, discount=0.7, seed=1))[1],
    "garnet": in_scaled_units(ib.zoo.garnet(states=8, actions=3, successors=3, constraints=1, seed=2))[1],
}

CLAIMS: dict[str, Claim] = {
    "crpo": Claim(ib.CRPO.practical(), samples=100_000, gap=0.008, violation=0.0005),
    "cspda": Claim(ib.CSPDA.practical(), samples=200_000, gap=0.008, violation=0.0005),
    "ucbvi-gamma": Claim(ib.UCBVIGamma.practical(), samples=100_000, gap=0.001, violation=0.0),
    "npg-pd": Claim(ib.NPGPD.practical(), samples=400_000, gap=0.01, violation=0.002),
    "pdsc": Claim(ib.PDSC.practical(), samples=1_000_000, gap=0.03, violation=0.003),
    "triple-qa": Claim(ib.TripleQA.practical(), samples=100_000, gap=0.016, violation=0.0005),
    "concave-cspda": Claim(ib.ConcaveCSPDA.practical(repair=False), samples=200_000, gap=0.04, violation=0.005),
    "randomized-primal-dual": Claim(ib.RandomizedPrimalDual.practical(), samples=200_000, gap=0.005, violation=0.0),
    "model-based": Claim(ib.ModelBased.practical(), samples=100_000, gap=0.002, violation=0.0002),
    "opg-pd": Claim(ib.OPGPD.practical(iterations=10_000), samples=100_000, gap=0.002, violation=0.001),
    "rpg-pd": Claim(ib.RPGPD.practical(), samples=100_000, gap=0.008, violation=0.001),
}


def test_every_algorithm_makes_a_claim() -> None:
    """Those that play episodes have theirs in tests of their own."""
    assert set(CLAIMS) == {name for name, one in ALGORITHMS.items() if one.algorithm.criterion == "discounted"}


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", CLAIMS)
def test_claim(name: str, problem: str) -> None:
    settings, samples, gap, violation = CLAIMS[name]
    cmdp = PROBLEMS[problem]
    if not settings.algorithm.constrained:
        cmdp = cmdp.unconstrained()
    optimum = ib.solve(cmdp).reward
    judged = [
        ib.evaluate(cmdp, ib.learn(cmdp.simulator(), settings, samples=samples, seed=seed).policy)
        for seed in range(SEEDS)
    ]
    gaps = np.array([optimum - one.reward for one in judged])
    violations = np.array([np.max(-one.margins, initial=0.0) for one in judged])
    assert gaps.mean() <= gap, (gaps, violations)
    assert violations.mean() <= violation and violations.max() <= 3.0 * violation, (gaps, violations)
