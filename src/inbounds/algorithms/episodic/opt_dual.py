"""OptDual-CMDP: the best policy for the prices (Lagrange multipliers) of the moment, then a step of the prices.

Yonathan Efroni, Shie Mannor, Matteo Pirotta. "Exploration-Exploitation in Constrained MDPs", 2020 (arXiv 2003.02189).

Problem: that of `opt_cmdp`, but what one episode gains may make up for what another loses.

Updates, from u = 0, in each of K episodes, with the radii and means of `opt_cmdp`:

    pi = argmax over policies and models in the box of  J_r~ + sum_i u_i J_g~i,      g_i = J_g~i(pi) in that model
    u_i <- max( 0, u_i - s g_i ),      s = rho / (H sqrt(I K)),      rho = H / slack bounds the prices

    code    prices, price_step        paper    lambda, 1 / t_lambda

Guarantee: regret and violation of O~( sqrt(S N H^4 K) ), from memory, of the mixture only. A single policy is
deterministic and jumps: on the ring of three states episodes go on losing .97 or violating by 1.46; the mixture is off
by .0002.

Departures: a pair never tried ends the episode with the largest values; counts are pooled where stages are alike.

Practical preset: a bonus in the place of the box, half the sum of practical radii times the span of the values to go;
the price step of `prices` with c = 1, by values without the bonus (`one_sweep`); the mixture of the second half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from inbounds.algorithms.algorithm import Prepared
from inbounds.algorithms.episodic.doubling import PRACTICAL, efroni, efroni_gaps
from inbounds.algorithms.episodic.frame import frame_of
from inbounds.algorithms.episodic.one_sweep import Rule, SweepSettings, efroni_price_step, learner, start
from inbounds.problem.simulator import Simulator


@dataclass(frozen=True, repr=False, kw_only=True)
class OptDual(SweepSettings):
    """Settings of OptDual-CMDP; the defaults are the paper's formulas. See the module for the algorithm.

    Examples
    --------
    >>> import inbounds as ib
    >>> media = ib.zoo.media()
    >>> run = ib.learn(media.simulator(), ib.OptDual.practical(), samples=50_000, seed=0)
    >>> abs(ib.evaluate(media, run.policy).reward - ib.solve(media).reward) < 0.1
    True
    """

    preset: ClassVar = PRACTICAL | dict(price_step=1.0)


def prepare(settings: OptDual, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    frame = frame_of(settings, simulator, samples)
    prices = settings.price_rule(efroni_price_step(settings, simulator, frame))
    rule = Rule(**prices, greedy=True, extended=settings.as_published)
    radii, gaps = efroni(settings, simulator, samples), efroni_gaps(settings, simulator, samples)
    return start(settings, simulator, frame, radii, rule, gaps, "the paper's, of the mixture of all: from memory")


OptDual.algorithm = learner(
    name="Opt-Dual",
    paper="Efroni, Mannor, Pirotta (2020)",
    sample_complexity="S^2 A / ((1-γ)^3 ε^2)",
    violation="O(ε)",
    constants="from code (radii, price step), from memory (theorem)",
    oscillates=True,
    prepare=prepare,
)
