"""OPDOP, tabular: one step of the policy and one of the prices (Lagrange multipliers) an episode, with a price bound.

Dongsheng Ding, Xiaohan Wei, Zhuoran Yang, Zhaoran Wang, Mihailo Jovanovic. "Provably Efficient Safe Exploration via
Primal-Dual Policy Optimization", AISTATS 2021. (The paper is for linear kernels; this is its tabular case.)

Problem: that of `opt_dual`.

Updates, from pi uniform, u = 0 and V_g = 0, after each of K episodes (Algorithm 3, Theorem 2), with n visits of a pair:

    u_i <- min( max( 0, u_i - eta V_gi,0 ), chi ),                  of the evaluation before; eta = 1 / sqrt(K)
    Q_x,h = x + p V_x,h+1 + 2 beta / sqrt(n + 1) within [(H-h) low_x, (H-h) high_x],         chi = 2 H / slack
    pi <- ( (1 - theta) pi + theta / A ) exp( alpha (Q_r + sum_i u_i Q_gi) ), normalised,    theta = 1 / K
    beta = C H sqrt( S log(S A H K / delta) ), C = 1,               alpha = sqrt(log A) / (H^2 sqrt(K))

    code    policy_step, price_step, price_bound, uniform      paper    alpha, eta, chi, theta

alpha is that of the proof (Lemma 3). The theorems print K for sqrt(K), with which the regret would be linear.

Guarantee: regret and violation of O~( S sqrt(A H^5 T) ), T = H K, of the mixture.

Departures: those of `opt_dual`. Means are over n visits, not n + 1; the bonus is larger than what that takes away.
Margins may be negative, so that values are cut off below where those of utilities are not.

Practical preset: that of `opt_primal_dual`, but with twice its policy step, of which theta takes a part back. The bonus
is the same: one of .1 span / sqrt(n) alone lets a pair go for ever that was unlucky the first time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from inbounds.algorithms.algorithm import Prepared
from inbounds.algorithms.episodic.confidence import Confidence
from inbounds.algorithms.episodic.doubling import PRACTICAL
from inbounds.algorithms.episodic.frame import frame_of
from inbounds.algorithms.episodic.one_sweep import Rule, SoftmaxSettings, learner, start
from inbounds.problem.simulator import Simulator


@dataclass(frozen=True, repr=False, kw_only=True)
class OPDOP(SoftmaxSettings):
    """Settings of OPDOP; the defaults are the paper's formulas. See the module for the algorithm.

    Examples
    --------
    >>> import inbounds as ib
    >>> media = ib.zoo.media()
    >>> run = ib.learn(media.simulator(), ib.OPDOP.practical(), samples=50_000, seed=0)
    >>> abs(ib.evaluate(media, run.policy).reward - ib.solve(media).reward) < 0.1
    True
    """

    preset: ClassVar = PRACTICAL | dict(price_step=0.1, policy_step=200.0)


def prepare(settings: OPDOP, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    frame = frame_of(settings, simulator, samples)
    n_states, n_pairs = simulator.pairs.n_states, simulator.pairs.n_pairs
    n_actions, horizon, episodes = int(np.diff(frame.offsets).max()), frame.rest[0], frame.episodes
    beta = horizon * math.sqrt(n_states * math.log(n_pairs * len(frame.weights) * episodes / settings.delta))
    alpha = math.sqrt(math.log(n_actions) / episodes) / horizon**2
    prices = settings.price_rule(episodes**-0.5, 2.0 * horizon / settings.slack(simulator, frame))
    rule = Rule(**prices, **settings.policy_rule(alpha, frame), late=True, uniform=1.0 / episodes)
    needed = 100.0 * n_states**2 * n_actions * horizon**4
    gaps = settings.gaps(simulator, needed, episodes, "episodes", "the order of its regret at a tenth of H in each")
    radii, theorem = Confidence(of_visits=2.0 * beta, ridge=1.0), "Theorem 2 of the paper, of the mixture of all"
    return start(settings, simulator, frame, radii, rule, gaps, theorem, span=1.0)


OPDOP.algorithm = learner(
    name="OPDOP",
    paper="Ding, Wei, Yang, Wang, Jovanovic (AISTATS 2021)",
    sample_complexity="S^2 A / ((1-γ)^4 ε^2)",
    violation="O(ε)",
    constants="paper (Theorem 2, Lemma 3)",
    prepare=prepare,
)
