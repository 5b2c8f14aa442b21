"""OptCMDP: the best policy in bounds over all models that what was seen allows.

Yonathan Efroni, Shie Mannor, Matteo Pirotta. "Exploration-Exploitation in Constrained MDPs", 2020 (arXiv 2003.02189).

Problem
-------
Episodes of H steps; transitions, reward r and margins g_i unknown; the policies played, one an episode, are to lose
little reward and little margin in sum, each episode for itself (no cancellation: a "strong" regret).

Updates
-------
Before an episode, with n visits of a pair, its empirical chances p and means rh, gh:

    pi = argmax over policies and models |P' - p| <= b  of  J_r~   with   J_g~i >= 0,     r~ = rh + c, g~ = gh + c

an extended linear program, here by column generation (`planning`).

Names
-----
    code          paper                                    code          paper
    radius        b = 2 sqrt(p (1-p) L / n) + 14 L / (3 n)   signal_root   c = sqrt(L' / n), times the range of a signal

with L = log(6 S A H K / delta), read in code that follows the paper, and L' = 2 log(6 S A H (I+1) K / delta), from
memory.

Guarantee
---------
With probability 1 - delta, strong regret and strong violation of O~( sqrt(S N H^4 K) ) in K episodes, where a pair has
N successors (from memory). With these radii 10^4 episodes teach it next to nothing, with ten states or with three.

Departures, with their reasons
------------------------------
* It plans when a count has doubled (`growth`), not before every episode; counts are pooled where stages are alike.
* A pair never tried ends the episode with the largest values, instead of leading anywhere with equal chance: then the
  first programs are in bounds. Where none is, the policy is the one least out of bounds (`doubling`).

Practical preset
----------------
Radii of .1 sqrt(p (1-p) / n) + 1 / n, without logarithms; signals have a radius only where two observations differed;
the mixture of the second half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from inbounds.algorithms.algorithm import Algorithm, Prepared
from inbounds.algorithms.episodic.doubling import (
    PRACTICAL,
    PlanningSettings,
    advance,
    efroni,
    efroni_gaps,
    extract,
    start,
)
from inbounds.problem.simulator import Simulator


@dataclass(frozen=True, repr=False, kw_only=True)
class OptCMDP(PlanningSettings):
    """Settings of OptCMDP; the defaults are the paper's radii. See the module for the algorithm.

    Examples
    --------
    >>> import inbounds as ib
    >>> media = ib.zoo.media()
    >>> run = ib.learn(media.simulator(), ib.OptCMDP.practical(), samples=20_000, seed=0)
    >>> run.episodes.shape, run.policy.horizon
    ((2000, 2), 10)
    """

    preset: ClassVar = PRACTICAL


def prepare(settings: OptCMDP, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    return start(
        settings,
        simulator,
        samples,
        settings.confidence(efroni(settings, simulator, samples)),
        efroni_gaps(settings, simulator, samples),
        f"the paper's, for strong regret and violation, with probability {1.0 - settings.delta:g}: from memory",
        extended=True,
        fixed=0.0,
    )


OptCMDP.algorithm = Algorithm(
    name="Opt-CMDP",
    paper="Efroni, Mannor, Pirotta (2020)",
    setting="episodes, online",
    needs="nothing",
    output="mixture of the policies played",
    sample_complexity="S^2 A / ((1-γ)^3 ε^2)",
    violation="O(ε)",
    constants="from code (radii of chances), from memory (of signals, theorem)",
    criterion="finite-horizon",
    access="online",
    prepare=prepare,
    advance=advance,
    extract=extract,
)
