"""OptDual-CMDP: the best policy for the prices (Lagrange multipliers) of the moment, then a step of the prices.

What one episode gains may make up for what another loses. From u = 0, in each of K episodes, with the radii and means
of `opt_cmdp`, of the same paper:

    pi = argmax over policies and models in the box of  J_r~ + sum_i u_i J_g~i,      g_i = J_g~i(pi) in that model
    u_i <- max( 0, u_i - s g_i ),      s = rho / (H sqrt(I K)),      rho = H / slack bounds the prices

    code    prices, price_step        paper    lambda, 1 / t_lambda

Regret and violation are O~( sqrt(S N H^4 K) ), from memory, of the mixture only. A single policy is deterministic and
jumps: on the ring of three states episodes go on losing .97 or violating by 1.46; the mixture is off by .0002.
Practical preset: a bonus in the place of the box, half the sum of practical radii times the span of the values to go;
the price step of `learner` with c = 1.
"""

from __future__ import annotations

import math

from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.learner import online
from inbounds.algorithms.episodic.rules import EFRONI, PRACTICAL, Published, SweepSettings, efroni


class OptDual(SweepSettings):
    """Settings of OptDual-CMDP; the defaults are the paper's formulas. See the module for the algorithm."""

    preset = PRACTICAL | dict(price_step=1.0)
    algorithm = online(
        name="Opt-Dual",
        needs="Slater constant",
        constants="from code (radii, price step), from memory (theorem)",
        oscillates=True,
        **EFRONI,
    )

    def _published(self, frame: Frame) -> Published:
        radii = self.radii(efroni(self.delta, frame)._replace(of_box=0.0), unseen=1.0)
        price = 1.0 / (frame.least_slack(self.slater) * math.sqrt(frame.K * max(frame.bounds, 1)))
        steps = self.steps(frame, price, greedy=True, extended=self.as_published)
        theorem, needed = "the paper's, of the mixture of all: from memory", 100.0 * frame.S**2 * frame.H**2
        return Published(theorem, needed, radii, departs=self.departs, random_signals=True, stepping=steps)
