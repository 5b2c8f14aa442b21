"""Truly no-regret: regularised steps of policy and prices (Lagrange multipliers), whose LAST iterate converges.

Mueller, Alatur, Cevher, Ramponi, He: "Truly No-Regret Learning in Constrained MDPs", ICML 2024.

Every episode counts for itself (a "strong" regret). From pi uniform and u = 0, after each of K episodes, with Q and V
as in `opt_primal_dual`, and E the entropy to go of pi:

    pi <- pi^(1 - eta tau) exp( eta (Q_r + sum_i u_i Q_gi + tau E) ), normalised
    u_i <- min( max( 0, (1 - eta tau) u_i - eta V_gi,0 ), H / slack )
    tau = K^(-1/7),     eta = K^(-5/7) / (H^2 I)        (exponents from memory)

    code    policy_step = price_step, tau, price_bound      paper    eta, tau, the radius of Lambda

Strong regret and violation are O~( K^.93 ) (abstract), of the policies played, the last one included. Departure: the
entropy of pairs never tried is 0 from there on, and has no bonus. Practical preset: that of `opt_primal_dual`, with
tau = .1 k^-.4 in episode k, and the last policy. What makes it settle is that prices look ahead (`learner`): with the
entropy alone it swings, unless the prices are so slow that they do not reach 4 in 10^4 episodes. What remains is the
bias of the entropy.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from inbounds.algorithms import checks
from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.learner import online
from inbounds.algorithms.episodic.rules import PRACTICAL, Published, SoftmaxSettings, efroni


@dataclass(frozen=True, repr=False, kw_only=True)
class TrulyNoRegret(SoftmaxSettings):
    """Settings of the regularised primal-dual method; the defaults are the paper's formulas. See the module.

    Parameters
    ----------
    tau : float, optional
        The weight of the entropy in episode k is tau * k^-.4. Default: the paper's, K^(-1/7) throughout.
    """

    tau: float | None = field(default=None, metadata=checks.NOT_NEGATIVE)

    preset = PRACTICAL | dict(price_step=0.1, policy_step=100.0, tau=0.1)
    algorithm = online(
        name="Truly no-regret",
        paper="Mueller, Alatur, Cevher, Ramponi, He (ICML 2024)",
        needs="Slater constant",
        output="last policy",
        sample_complexity="K^0.93 strong regret",
        violation="K^0.93 in sum",
        constants="from memory; the rate from the paper's abstract",
    )

    def _published(self, frame: Frame) -> Published:
        W, K, radii = frame.W, frame.K, self.radii(efroni(self.delta, frame), unseen=1.0)
        eta = K ** (-5.0 / 7.0) / (W**2 * max(frame.bounds, 1))
        tau, power = (K ** (-1.0 / 7.0), 0.0) if self.tau is None else (float(self.tau), 0.4)
        steps = self.steps(frame, eta, W / frame.least_slack(self.slater), eta, tau=tau, tau_power=power)
        theorem = f"the paper's, for strong regret{' and violation' * (frame.bounds > 0)}: from memory"
        target = "a tenth of the first regret, at K^(-1/14) in each,"
        paper = Published(theorem, 1e14, radii, target, departs=self.departs, span=W, stepping=steps)
        return paper._replace(random_signals=True)
