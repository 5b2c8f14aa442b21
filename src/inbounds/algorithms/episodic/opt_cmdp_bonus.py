"""OptCMDP-bonus: the best policy in bounds of the empirical model, whose signals are raised by a bonus.

Yonathan Efroni, Shie Mannor, Matteo Pirotta. "Exploration-Exploitation in Constrained MDPs", 2020 (arXiv 2003.02189).

Problem, guarantee (from memory) and departures are those of OptCMDP, the same paper's first algorithm, with a factor of
H more at most. In the place of the box, with its radii b(s, a, s') and those of the signals, c:

    r~ = rh + c + H sum_s' b,   g~_i = gh_i + c + H sum_s' b,   pi = argmax J_r~  with  J_g~i >= 0,  for the chances p

The margins are hopeful too, so nearly every episode is a little out of bounds: more than with OptCMDP; with less
regret, in half the time. H is W, the most that a value can be.

Practical preset: bonuses of half the sum of the radii .03 sqrt(p (1-p) / n) + 1 / n of the successors seen, times the
span of the current policy's values to go instead of H; the mixture of the second half. A bonus, unlike a box, is added
whether or not the model has room for it: with .1 it loses up to half as much again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from inbounds.algorithms.algorithm import Algorithm, Prepared
from inbounds.algorithms.episodic import doubling
from inbounds.problem.simulator import Simulator


@dataclass(frozen=True, repr=False, kw_only=True)
class OptCMDPBonus(doubling.PlanningSettings):
    """Settings of OptCMDP-bonus; the defaults are the paper's bonus. See the module for the algorithm.

    Examples
    --------
    >>> import inbounds as ib
    >>> media = ib.zoo.media()
    >>> run = ib.learn(media.simulator(), ib.OptCMDPBonus.practical(), samples=20_000, seed=0)
    >>> abs(ib.evaluate(media, run.policy).reward - ib.solve(media).reward) < 0.2
    True
    """

    preset: ClassVar = doubling.PRACTICAL | dict(root=0.03)


def prepare(settings: OptCMDPBonus, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    confidence = settings.confidence(doubling.efroni(settings, simulator, samples))
    gaps = doubling.efroni_gaps(settings, simulator, samples)
    fixed = doubling.value_bound(settings, simulator) if settings.as_published else None
    theorem = "the paper's (from memory), for strong regret and violation"
    return doubling.start(settings, simulator, samples, confidence, gaps, theorem, fixed=fixed)


OptCMDPBonus.algorithm = Algorithm(
    name="Opt-CMDP-bonus",
    paper="Efroni, Mannor, Pirotta (2020)",
    needs="nothing",
    sample_complexity="S^2 A / ((1-γ)^3 ε^2)",
    violation="O(ε)",
    constants="from code (radii of chances), from memory (of signals, theorem)",
    prepare=prepare,
    **doubling.PLAYED,
)
