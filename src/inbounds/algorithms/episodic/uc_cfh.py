"""UC-CFH: OptCMDP whose model learns of a pair only when that pair's visits have doubled.

Krishna C. Kalagarla, Rahul Jain, Pierluigi Nuzzo. "A Sample-Efficient Algorithm for Episodic Finite-Horizon MDP with
Constraints", AAAI 2021 (arXiv 2009.11348). It extends UCFH (Dann and Brunskill 2015) by constraints.

Problem: episodes of H steps; transitions unknown, alike at every stage; reward and margins known. PAC: all but few
episodes are to be eps-optimal and eps-feasible.

Updates, in phases: the extended linear program over the box is solved once, and its policy played until, for some pair,

    visits since the model was last told  >=  max( m w_min, visits that the model knows )

then the model is told of that pair, alone. The box, with l = ln(6 / delta_1):

    |P' - p| <= min( sqrt(l / (2n)),  sqrt(2 p (1-p) l / n) + 7 l / (3 (n - 1)) ),      everything for n <= 1

with w_min = eps / (4 H S), U = S A log2(S H / w_min), delta_1 = delta / (2 U S) and m = 512 (log2 log2 H)^2 S H^2 /
eps^2 ln^2(8 H^2 S^2 / eps) ln(6 / delta_1): UCFH's, from code; those of UC-CFH differ by constants, from memory.

Guarantee: with probability 1 - delta all but O~( S A C^2 H^2 / eps^2 ) episodes are eps-optimal and eps-feasible,
C <= S successors (its abstract). m w_min is so large that no run of practical length updates the model even once.

Departures: a pair never tried ends the episode with the largest values. Signals are learned as they are seen, and have
no radius unless they differ. Practical preset: pure doubling (m w_min = 1), radii .1 sqrt(p (1-p) / n) + 1 / n, the
mixture of the second half. It plans two to four times as often as OptCMDP, and is as good.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Algorithm, Prepared
from inbounds.algorithms.episodic import doubling
from inbounds.algorithms.episodic.confidence import bennett
from inbounds.algorithms.episodic.frame import horizon_of
from inbounds.problem.simulator import Simulator


@dataclass(frozen=True, repr=False, kw_only=True)
class UCCFH(doubling.PlanningSettings):
    """Settings of UC-CFH; the defaults are the paper's formulas. See the module for the algorithm.

    Parameters
    ----------
    accuracy : float in (0, 1]
        The paper's eps, as a share of the horizon.
    least : float, optional
        Visits of a pair before the model is told of any: the paper's m w_min, which is the default.

    Examples
    --------
    >>> import inbounds as ib
    >>> media = ib.zoo.media()
    >>> run = ib.learn(media.simulator(), ib.UCCFH.practical(), samples=20_000, seed=0)
    >>> abs(ib.evaluate(media, run.policy).reward - ib.solve(media).reward) < 0.2
    True
    """

    accuracy: float = field(default=0.1, metadata=checks.SHARE | {"what": "a number in (0, 1]"})
    least: float | None = field(default=None, metadata=checks.a_number("of at least 1", lambda value: value >= 1.0))

    preset: ClassVar = doubling.PRACTICAL | dict(least=1.0)


def formulas(settings: UCCFH, simulator: Simulator) -> tuple[float, float]:
    """m w_min, and l."""
    horizon, n_states = horizon_of(settings, simulator), simulator.pairs.n_states
    eps = settings.accuracy * horizon
    rarest = eps / (4.0 * horizon * n_states)
    phases = simulator.pairs.n_pairs * math.log2(n_states * horizon / rarest)
    log = math.log(6.0 * 2.0 * phases * n_states / settings.delta)
    twice = max(math.log2(max(math.log2(max(horizon, 2)), 1.0)), 1.0)  # at least 1: small horizons have none
    visits = 512.0 * twice**2 * n_states * (horizon / eps) ** 2 * math.log(8.0 * (horizon * n_states) ** 2 / eps) ** 2
    return visits * log * rarest, log


def prepare(settings: UCCFH, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    asked, log = formulas(settings, simulator)
    least = asked if settings.least is None else settings.least
    confidence = settings.confidence(bennett(log, 7.0 / 3.0, less=1.0))
    first = "the first update of its model, visits of one pair,"
    gaps = settings.gaps(simulator, asked, samples, "samples", first)
    gaps["updates of the model sooner than it asks for"] = least < asked
    theorem = f"the paper's, with accuracy {settings.accuracy:g} of the horizon"
    how = {"fixed": 0.0, "extended": True, "least": float(least), "singly": True}
    begun = doubling.start(settings, simulator, samples, confidence, gaps, theorem, **how)
    return begun._replace(settings=dict(begun.settings) | {"least": least, "accuracy": settings.accuracy})


UCCFH.algorithm = Algorithm(
    name="UC-CFH",
    paper="Kalagarla, Jain, Nuzzo (AAAI 2021)",
    needs="nothing",
    sample_complexity="S^3 A / ((1-γ)^3 ε^2)",
    violation="O(ε)",
    constants="from code (radii), from memory (m)",
    prepare=prepare,
    **doubling.PLAYED,
)
