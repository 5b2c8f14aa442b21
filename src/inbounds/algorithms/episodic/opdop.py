"""OPDOP, tabular: one step of the policy and one of the prices (Lagrange multipliers) an episode, with a price bound.

Ding, Wei, Yang, Wang, Jovanovic: "Provably Efficient Safe Exploration via Primal-Dual Policy Optimization", AISTATS
2021, which is for linear kernels. From pi uniform, u = 0 and V_g = 0, after each of K episodes (Algorithm 3):

    u_i <- min( max( 0, u_i - eta V_gi,0 ), chi ),                  of the evaluation before; eta = 1 / sqrt(K)
    Q_x,h = x + p V_x,h+1 + 2 beta / sqrt(n + 1) within [(H-h) low_x, (H-h) high_x],         chi = 2 H / slack
    pi <- ( (1 - theta) pi + theta / A ) exp( alpha (Q_r + sum_i u_i Q_gi) ), normalised,    theta = 1 / K
    beta = C H sqrt( S log(S A H K / delta) ), C = 1,               alpha = sqrt(log A) / (H^2 sqrt(K))

    code    policy_step, price_step, price_bound, uniform      paper    alpha, eta, chi, theta

alpha is that of the proof (Lemma 3). The theorems print K for sqrt(K), with which the regret would be linear. Regret
and violation are O~( S sqrt(A H^5 T) ), T = H K, of the mixture (Theorem 2). Departures: means are over n visits, not
n + 1; the bonus is larger than what that takes away. Margins may be negative, so that values are cut off below where
those of utilities are not. Practical preset: that of `opt_primal_dual`, but with twice its policy step, of which theta
takes a part back.
"""

from __future__ import annotations

import math

from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.learner import online
from inbounds.algorithms.episodic.rules import PRACTICAL, Published, Radii, SoftmaxSettings


class OPDOP(SoftmaxSettings):
    """Settings of OPDOP; the defaults are the paper's formulas. See the module for the algorithm."""

    preset = PRACTICAL | dict(price_step=0.1, policy_step=200.0)
    algorithm = online(
        name="OPDOP",
        paper="Ding, Wei, Yang, Wang, Jovanovic (AISTATS 2021)",
        needs="Slater constant",
        sample_complexity="S^2 A / ((1-γ)^4 ε^2)",
        constants="paper (Theorem 2, Lemma 3)",
    )

    def _published(self, frame: Frame) -> Published:
        S, A, W, K = frame.S, frame.A, frame.W, frame.K
        alpha, chi = math.sqrt(math.log(A) / K) / W**2, 2.0 * W / frame.least_slack(self.slater)
        beta = W * math.sqrt(S * math.log(frame.pairs * frame.H * K / self.delta))
        radii = self.radii(Radii(of_visits=2.0 * beta, ridge=1.0), unseen=1.0)
        steps = self.steps(frame, K**-0.5, chi, alpha, late=True, uniform=1.0 / K)
        theorem = "Theorem 2 of the paper, of the mixture of all"
        return Published(theorem, 100.0 * S**2 * A * W**4, radii, departs=self.departs, single=True, stepping=steps)
