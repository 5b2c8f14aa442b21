"""Truly no-regret: regularised steps of policy and prices (Lagrange multipliers), whose LAST iterate converges.

Adrian Mueller, Pragnya Alatur, Volkan Cevher, Giorgia Ramponi, Niao He. "Truly No-Regret Learning in Constrained MDPs",
ICML 2024.

Problem: that of `opt_cmdp`: every episode counts for itself (a "strong" regret).

Updates, from pi uniform and u = 0, after each of K episodes, with Q and V as in `opt_primal_dual`, and E the entropy to
go of pi:

    pi <- pi^(1 - eta tau) exp( eta (Q_r + sum_i u_i Q_gi + tau E) ), normalised
    u_i <- min( max( 0, (1 - eta tau) u_i - eta V_gi,0 ), H / slack )

    tau = K^(-1/7),     eta = K^(-5/7) / (H^2 I)        (exponents from memory)

    code    policy_step = price_step, tau, price_bound      paper    eta, tau, the radius of Lambda

Guarantee: strong regret and strong violation of O~( K^.93 ) (abstract), of the policies played, the last one included.

Departures: those of `opt_dual`; the entropy of pairs never tried is 0 from there on, and has no bonus.

Practical preset: that of `opt_primal_dual`, with tau = .1 k^-.4 in episode k, and the last policy. What makes it settle
is that prices look ahead (`one_sweep`): with the entropy alone it swings, unless the prices are so slow that they do
not reach 4 in 10^4 episodes. What remains is the bias of the entropy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Prepared
from inbounds.algorithms.episodic.doubling import PRACTICAL, efroni
from inbounds.algorithms.episodic.frame import frame_of
from inbounds.algorithms.episodic.one_sweep import Rule, SoftmaxSettings, learner, start
from inbounds.problem.simulator import Simulator


@dataclass(frozen=True, repr=False, kw_only=True)
class TrulyNoRegret(SoftmaxSettings):
    """Settings of the regularised primal-dual method; the defaults are the paper's formulas. See the module.

    Parameters
    ----------
    tau : float, optional
        The weight of the entropy in episode k is tau * k^-.4. Default: the paper's, K^(-1/7) throughout.

    Examples
    --------
    >>> import inbounds as ib
    >>> media = ib.zoo.media()
    >>> run = ib.learn(media.simulator(), ib.TrulyNoRegret.practical(), samples=50_000, seed=0)
    >>> abs(ib.evaluate(media, run.policy).reward - ib.solve(media).reward) < 0.1
    True
    """

    tau: float | None = field(default=None, metadata=checks.NOT_NEGATIVE)

    preset: ClassVar = PRACTICAL | dict(price_step=0.1, policy_step=100.0, tau=0.1)


def prepare(settings: TrulyNoRegret, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    frame = frame_of(settings, simulator, samples)
    horizon, episodes = frame.rest[0], frame.episodes
    eta = episodes ** (-5.0 / 7.0) / (horizon**2 * max(simulator.n_constraints, 1))
    prices = settings.price_rule(eta, horizon / settings.slack(simulator, frame))
    tau, power = (episodes ** (-1.0 / 7.0), 0.0) if settings.tau is None else (float(settings.tau), 0.4)
    rule = Rule(**prices, **settings.policy_rule(eta, frame), tau=tau, tau_power=power)
    gaps = settings.gaps(simulator, 1e14, episodes, "episodes", "a tenth of the first regret, at K^(-1/14) in each,")
    radii, theorem = efroni(settings, simulator, samples), "the paper's, for strong regret and violation: from memory"
    return start(settings, simulator, frame, radii, rule, gaps, theorem, span=horizon)


TrulyNoRegret.algorithm = learner(
    name="Truly no-regret",
    paper="Mueller, Alatur, Cevher, Ramponi, He (ICML 2024)",
    output="last policy",
    sample_complexity="K^0.93 strong regret",
    violation="K^0.93 in sum",
    constants="from memory; the rate from the paper's abstract",
    prepare=prepare,
)
