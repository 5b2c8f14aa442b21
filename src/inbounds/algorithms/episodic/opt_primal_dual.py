"""OptPrimalDual-CMDP: one step of the policy and one of the prices (Lagrange multipliers) an episode.

Yonathan Efroni, Shie Mannor, Matteo Pirotta. "Exploration-Exploitation in Constrained MDPs", 2020 (arXiv 2003.02189).

Problem: that of `opt_dual`.

Updates, from pi uniform and u = 0, after each of K episodes, with the radii of `opt_cmdp`, the bonus of
`opt_cmdp_bonus`, and s, rho as in `opt_dual`:

    Q_x,h = x~ + p V_x,h+1 within [(H-h) low_x, (H-h) high_x],   V_x,h = <pi_h, Q_x,h>,   for x = r, g_1 .. g_I
    pi <- pi exp( t (Q_r + sum_i u_i Q_gi) ), normalised,       t = sqrt( 2 log A / (H^2 (1 + I rho)^2 K) )
    u_i <- max( 0, u_i - s V_gi,0 )

    code    policy_step, price_step      paper    t_K, 1 / t_lambda

Guarantee: regret and violation of O~( sqrt(S N H^4 K) + sqrt(H^4 (1 + I rho)^2 K) ), which may cancel, of the mixture;
from memory.

Departures: those of `opt_dual`; costs become rewards, so that values are cut off above and below.

Practical preset: bonus of `opt_dual`'s; the price step of `prices` with c = .1, by values without the bonus, and prices
that look ahead (`one_sweep`); the policy's step is 100 / (H sqrt(k)) in episode k, 10^3 to 10^4 times the paper's, with
which 10^4 episodes leave the policy uniform; the mixture of the second half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from inbounds.algorithms.algorithm import Prepared
from inbounds.algorithms.episodic.doubling import PRACTICAL, efroni, efroni_gaps
from inbounds.algorithms.episodic.frame import frame_of
from inbounds.algorithms.episodic.one_sweep import Rule, SoftmaxSettings, efroni_price_step, learner, start
from inbounds.problem.simulator import Simulator


@dataclass(frozen=True, repr=False, kw_only=True)
class OptPrimalDual(SoftmaxSettings):
    """Settings of OptPrimalDual-CMDP; the defaults are the paper's formulas. See the module for the algorithm.

    Examples
    --------
    >>> import inbounds as ib
    >>> media = ib.zoo.media()
    >>> run = ib.learn(media.simulator(), ib.OptPrimalDual.practical(), samples=50_000, seed=0)
    >>> abs(ib.evaluate(media, run.policy).reward - ib.solve(media).reward) < 0.1
    True
    """

    preset: ClassVar = PRACTICAL | dict(price_step=0.1, policy_step=100.0)


def prepare(settings: OptPrimalDual, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    frame = frame_of(settings, simulator, samples)
    horizon, n_actions = frame.rest[0], np.diff(frame.offsets).max()
    most = horizon * (1.0 + simulator.n_constraints * horizon / settings.slack(simulator, frame))
    paper = math.sqrt(2.0 * math.log(n_actions) / frame.episodes) / most
    prices = settings.price_rule(efroni_price_step(settings, simulator, frame))
    rule = Rule(**prices, **settings.policy_rule(paper, frame))
    radii, gaps = efroni(settings, simulator, samples), efroni_gaps(settings, simulator, samples)
    theorem = "the paper's, of the mixture of all: from memory"
    return start(settings, simulator, frame, radii, rule, gaps, theorem, span=horizon)


OptPrimalDual.algorithm = learner(
    name="Opt-Primal-Dual",
    paper="Efroni, Mannor, Pirotta (2020)",
    sample_complexity="S^2 A / ((1-γ)^3 ε^2)",
    violation="O(ε)",
    constants="from code (radii, steps), from memory (theorem)",
    prepare=prepare,
)
