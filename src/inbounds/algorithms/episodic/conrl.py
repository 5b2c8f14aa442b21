"""CONRL: the best policy in bounds of the empirical model, with a bonus by visits alone.

Brantley, Dudik, Lykouris, Miryoosefi, Simchowitz, Slivkins, Sun: "Constrained episodic reinforcement learning in
concave-convex and knapsack settings", NeurIPS 2020: the basic setting. As `opt_cmdp_bonus`, with one bonus for all,

    r~ = rh + b,   g~_i = gh_i + b,     b = min( 2 H, 2 H sqrt( 2 ln(8 S A H (I+1) K^2 / delta) / n ) )

from memory; the paper has the number of the episode in the place of K. The authors' code has .001 / sqrt(n), 1 for a
pair never tried, and plans by ten steps on the prices, which gives a deterministic policy; here the linear program is
solved. With probability 1 - delta, regret and violation are O~( H^2.5 S sqrt(A) / sqrt(k) ) per episode after k (from
memory). Practical preset: b = span (.01 / sqrt(n) + N / 2n) after N successors were seen (`rules`).
"""

from __future__ import annotations

import math

from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.learner import online
from inbounds.algorithms.episodic.rules import PRACTICAL, PlanningSettings, Published, Radii


class CONRL(PlanningSettings):
    """Settings of CONRL; the defaults are the paper's bonus. See the module for the algorithm."""

    preset = PRACTICAL | dict(root=0.01)
    algorithm = online(
        name="CONRL",
        paper="Brantley et al. (NeurIPS 2020)",
        sample_complexity="S^2 A / ((1-γ)^6 ε^2)",
        constants="from memory",
    )

    def _published(self, frame: Frame) -> Published:
        S, H, pairs = frame.S, frame.H, frame.pairs
        log = math.log(8.0 * pairs * H * (1 + frame.bounds) * frame.K**2 / self.delta)
        radii = self.radii(Radii(of_visits=math.sqrt(2.0 * log), most=1.0), root=0.0, of_visits=self.root or 0.0)
        theorem = f"the paper's (from memory), for regret{' and violation' * (frame.bounds > 0)}"
        paper = Published(theorem, 100.0 * H**3 * S * pairs, radii, span=2.0 * frame.W, planning=self.planning())
        return paper._replace(random_signals=True)
