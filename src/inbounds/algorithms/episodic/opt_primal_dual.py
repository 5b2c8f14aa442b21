"""OptPrimalDual-CMDP: one step of the policy and one of the prices (Lagrange multipliers) an episode.

From pi uniform and u = 0, after each of K episodes, with the radii of `opt_cmdp`, the bonus of `opt_cmdp_bonus`, and s,
rho as in `opt_dual`, all of the same paper:

    Q_x,h = x~ + p V_x,h+1 within [(H-h) low_x, (H-h) high_x],   V_x,h = <pi_h, Q_x,h>,   for x = r, g_1 .. g_I
    pi <- pi exp( t (Q_r + sum_i u_i Q_gi) ), normalised,       t = sqrt( 2 log A / (H^2 (1 + I rho)^2 K) )
    u_i <- max( 0, u_i - s V_gi,0 )

    code    policy_step, price_step      paper    t_K, 1 / t_lambda

Regret and violation, which may cancel, are O~( sqrt(S N H^4 K) + sqrt(H^4 (1 + I rho)^2 K) ), of the mixture; from
memory. Departure: costs become rewards, so that values are cut off above and below. Practical preset: the bonus of
`opt_dual`'s; the price step of `learner` with c = .1; the policy's is 100 / (H sqrt(k)) in episode k, 10^3 to 10^4
times the paper's, with which 10^4 episodes leave the policy uniform.
"""

from __future__ import annotations

import math

from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.learner import online
from inbounds.algorithms.episodic.rules import EFRONI, PRACTICAL, Published, SoftmaxSettings, efroni


class OptPrimalDual(SoftmaxSettings):
    """Settings of OptPrimalDual-CMDP; the defaults are the paper's formulas. See the module for the algorithm."""

    preset = PRACTICAL | dict(price_step=0.1, policy_step=100.0)
    algorithm = online(
        name="Opt-Primal-Dual",
        needs="Slater constant",
        constants="from code (radii, steps), from memory (theorem)",
        **EFRONI,
    )

    def _published(self, frame: Frame) -> Published:
        slack, radii = frame.least_slack(self.slater), self.radii(efroni(self.delta, frame), unseen=1.0)
        price = 1.0 / (slack * math.sqrt(frame.K * max(frame.bounds, 1)))
        most = frame.W * (1.0 + frame.bounds * frame.W / slack)
        steps = self.steps(frame, price, policy=math.sqrt(2.0 * math.log(frame.A) / frame.K) / most)
        theorem, needed = "the paper's, of the mixture of all: from memory", 100.0 * frame.S**2 * frame.H**2
        paper = Published(theorem, needed, radii, departs=self.departs, span=frame.W, stepping=steps)
        return paper._replace(random_signals=True)
