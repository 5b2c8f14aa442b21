"""OptPess-PrimalDual: the best policy for the prices (Lagrange multipliers) of queues that ask for a little more.

Of the paper of `opt_pess_lp`. The violation in sum is not to grow. From lambda = 0, in episode k, with a bonus of
(1 + H S) sqrt(Z / n), Z = log(16 S^2 A H K / delta):

    pi = argmax of J_r~ + sum_i lambda_i / eta_k J_g~i on the empirical model,       g_i = J_g~i(pi) there
    lambda_i <- max( 0, lambda_i - g_i + eps_k ),                                    eta_k = slack H sqrt(k)
    eps_k = 5 H^2 sqrt(S^3 A) (L + 1) / sqrt(k L),     L = log(k / delta'),          delta' = delta / (16 S^2 A H)

    code    prices, price_step k^-1/2      paper    lambda / eta_k, 1 / eta_k      (eps_k, eta_k: from memory)

Regret is O~( H^3 sqrt(S^3 A K) / slack ), violation in sum O(1), of the mixture (memory). As long as eps_k is above the
slack no policy can do what is asked, and the margin alone is maximised. Departures: several constraints have a
queue each; values are cut off in planning too. Practical preset (derived here): that of `opt_dual`, by g_i - eps_k.
There eps_k is two standard errors of what chance does to the mean of margin i over the episodes so far, and chance is
what an episode's sum is off by from the value that the model expects of its policy (docs/episodic.md). It needs no
slack; with `slater`, half the slack is the most.
"""

from __future__ import annotations

import math

from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.learner import online
from inbounds.algorithms.episodic.rules import PRACTICAL, Published, Radii, SweepSettings
from inbounds.algorithms.settings import least_number


class OptPessPrimalDual(SweepSettings):
    """Settings of OptPess-PrimalDual; the defaults are the paper's formulas. See the module for the algorithm."""

    preset = PRACTICAL | dict(price_step=1.0)
    algorithm = online(
        name="OptPess-Primal-Dual",
        paper="Liu, Zhou, Kalathil, Kumar, Tian (NeurIPS 2021)",
        needs="Slater constant",
        sample_complexity="S^3 A / ((1-γ)^4 ε^2)",
        violation="zero",
        constants="from an image of the paper (bonus), from memory (steps, theorem)",
        oscillates=True,
    )

    def _published(self, frame: Frame) -> Published:
        S, W, slack = frame.S, frame.W, frame.least_slack(self.slater)
        outcomes = 16.0 * S * frame.pairs * frame.H / self.delta  # 1 / delta'
        largest = 5.0 * W**2 * S * math.sqrt(frame.pairs)

        def tightening(k: int) -> float:
            log = math.log(k * outcomes)
            return largest * (log + 1.0) / math.sqrt(k * log)

        needed = least_number(lambda k: tightening(k) <= slack)
        most = math.inf if self.slater is None else 0.5 * frame.slack(self.slater)
        spare, scale = (largest, outcomes) if self.price_step is None else (most, 0.0)
        steps = self.steps(frame, 1.0 / (slack * W), greedy=True, queued=scale > 0.0, log_scale=scale)
        radii = self.radii(Radii(of_visits=(1.0 + W * S) * math.sqrt(math.log(outcomes * frame.K))), unseen=1.0)
        theorem = "the paper's, of the mixture of all: from memory"
        target = f"a tightening below the slack, {slack:.3g}," if frame.bounds > 0 else "its theorem"
        paper = Published(theorem, needed, radii, target, departs=self.departs, stepping=steps, spare=spare)
        return paper._replace(single=True, random_signals=True)
