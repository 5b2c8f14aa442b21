"""CONRL: the best policy in bounds of the empirical model, with a bonus by visits alone.

Kianté Brantley, Miro Dudik, Thodoris Lykouris, Sobhan Miryoosefi, Max Simchowitz, Aleksandrs Slivkins, Wen Sun.
"Constrained episodic reinforcement learning in concave-convex and knapsack settings", NeurIPS 2020: the basic setting.

Problem: episodes of H steps; transitions, reward and margins unknown.

Updates: as OptCMDP-bonus, with one bonus for all signals, by the number n of visits of a pair,

    b = min( 2 H, 2 H sqrt( 2 ln(8 S A H (I+1) K^2 / delta) / n ) ),     r~ = rh + b,  g~_i = gh_i + b

from memory; the paper has the number of the episode in the place of K, and W, the most that a value can be, stands for
H. The authors' code has .001 / sqrt(n), 1 for a pair never tried, and plans by ten steps on the prices, which gives a
deterministic policy; here the linear program is solved.

Guarantee: with probability 1 - delta, regret and violation of O~( H^2.5 S sqrt(A) / sqrt(k) ) per episode after k (from
memory). Departures: it plans when a count has doubled; a pair never tried ends the episode with the largest values.

Practical preset: b = span (.03 / sqrt(n) + N / 2n) after N successors were seen, where the span is that of the current
policy's values to go; the mixture of the second half. The part of 1 / n makes it try every pair more than once: without
it one run in twenty never recovers from an unlucky first visit. The root is what it is out of bounds by in the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from inbounds.algorithms.algorithm import Algorithm, Prepared
from inbounds.algorithms.episodic import doubling
from inbounds.algorithms.episodic.confidence import hoeffding
from inbounds.algorithms.episodic.frame import horizon_of
from inbounds.problem.simulator import Simulator


@dataclass(frozen=True, repr=False, kw_only=True)
class CONRL(doubling.PlanningSettings):
    """Settings of CONRL; the defaults are the paper's bonus. See the module for the algorithm.

    Examples
    --------
    >>> import inbounds as ib
    >>> media = ib.zoo.media()
    >>> run = ib.learn(media.simulator(), ib.CONRL.practical(), samples=20_000, seed=0)
    >>> abs(ib.evaluate(media, run.policy).reward - ib.solve(media).reward) < 0.2
    True
    """

    preset: ClassVar = doubling.PRACTICAL | dict(root=0.03)


def prepare(settings: CONRL, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    horizon, pairs = horizon_of(settings, simulator), simulator.pairs
    episodes = max(samples // horizon, 1)
    outcomes = 8.0 * pairs.n_pairs * horizon * (1 + simulator.n_constraints) * episodes**2 / settings.delta
    confidence = settings.confidence(hoeffding(2.0 * math.log(outcomes), most=1.0), by_visits=True)
    if not settings.as_published:
        confidence = confidence._replace(linear=float(settings.linear or 0), of_box=0.5)
    needed = 100.0 * horizon**3 * pairs.n_states * pairs.n_pairs
    gaps = settings.gaps(simulator, needed, episodes, "episodes", doubling.A_TENTH)
    fixed = 2.0 * doubling.value_bound(settings, simulator) if settings.as_published else None
    theorem = "the paper's (from memory), for regret and violation"
    return doubling.start(settings, simulator, samples, confidence, gaps, theorem, fixed=fixed)


CONRL.algorithm = Algorithm(
    name="CONRL",
    paper="Brantley et al. (NeurIPS 2020)",
    needs="nothing",
    sample_complexity="S^2 A / ((1-γ)^6 ε^2)",
    violation="O(ε)",
    constants="from memory",
    prepare=prepare,
    **doubling.PLAYED,
)
