"""OptCMDP: the best policy in bounds over all models that what was seen allows.

Yonathan Efroni, Shie Mannor, Matteo Pirotta. "Exploration-Exploitation in Constrained MDPs", 2020 (arXiv 2003.02189).

Problem: episodes of H steps; transitions, reward r and margins g_i unknown; the policies played, one an episode, are to
lose little reward and little margin in sum, each episode for itself (no cancellation: a "strong" regret).

Updates, before an episode, with n visits of a pair, its empirical chances p and means rh, gh:

    pi = argmax over policies and models |P' - p| <= b  of  J_r~   with   J_g~i >= 0,     r~ = rh + c, g~_i = gh_i + c
    b = 2 sqrt(p (1-p) L / n) + 14 L / (3 n)  (`radius`),   c = sqrt(L' / n) times the range of a signal (`signal_root`)

an extended linear program, here by column generation (`planning`). L = log(6 S A H K / delta) was read in code that
follows the paper, L' = 2 log(6 S A H (I+1) K / delta) is from memory.

Guarantee: with probability 1 - delta, strong regret and violation of O~( sqrt(S N H^4 K) ) in K episodes, where a pair
has N successors (from memory). With these radii 10^4 episodes teach it next to nothing, with ten states or with three.

Departures: it plans when a count has doubled (`growth`), not before every episode. Counts are pooled where stages are
alike. A pair never tried ends the episode with the largest values, instead of leading anywhere with equal chance: then
the first programs are in bounds. Where none is, the policy is the one least out of bounds (`doubling`).

Practical preset: radii of .1 sqrt(p (1-p) / n) + 1 / n, without logarithms; signals have a radius only where two
observations differed; the mixture of the second half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from inbounds.algorithms.algorithm import Algorithm, Prepared
from inbounds.algorithms.episodic import doubling
from inbounds.problem.simulator import Simulator


@dataclass(frozen=True, repr=False, kw_only=True)
class OptCMDP(doubling.PlanningSettings):
    """Settings of OptCMDP; the defaults are the paper's radii. See the module for the algorithm.

    Examples
    --------
    >>> import inbounds as ib
    >>> media = ib.zoo.media()
    >>> run = ib.learn(media.simulator(), ib.OptCMDP.practical(), samples=20_000, seed=0)
    >>> run.episodes.shape, run.policy.horizon
    ((2000, 2), 10)
    """

    preset: ClassVar = doubling.PRACTICAL


def prepare(settings: OptCMDP, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    confidence = settings.confidence(doubling.efroni(settings, simulator, samples))
    gaps = doubling.efroni_gaps(settings, simulator, samples)
    theorem = "the paper's (from memory), for strong regret and violation"
    return doubling.start(settings, simulator, samples, confidence, gaps, theorem, fixed=0.0, extended=True)


OptCMDP.algorithm = Algorithm(
    name="Opt-CMDP",
    paper="Efroni, Mannor, Pirotta (2020)",
    needs="nothing",
    sample_complexity="S^2 A / ((1-γ)^3 ε^2)",
    violation="O(ε)",
    constants="from code (radii of chances), from memory (of signals, theorem)",
    prepare=prepare,
    **doubling.PLAYED,
)
