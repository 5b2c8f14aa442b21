"""OptPess-PrimalDual: the best policy for the prices (Lagrange multipliers) of queues that ask for a little more.

Tao Liu, Ruida Zhou, Dileep Kalathil, P. R. Kumar, Chao Tian. "Learning Policies with Zero or Bounded Constraint
Violation for Constrained MDPs", NeurIPS 2021.

Problem: that of `opt_dual`, with a violation in sum that does not grow.

Updates, from lambda = 0, in episode k, with n visits of a pair and a bonus of (1 + H S) sqrt(Z / n), where
Z = log(16 S^2 A H K / delta):

    pi = argmax of J_r~ + sum_i lambda_i / eta_k J_g~i on the empirical model,       g_i = J_g~i(pi) there
    lambda_i <- max( 0, lambda_i - g_i + eps_k ),                                    eta_k = slack H sqrt(k)
    eps_k = 5 H^2 sqrt(S^3 A) (L + 1) / sqrt(k L),     L = log(k / delta'),          delta' = delta / (16 S^2 A H)

    code    queues, price_step k^-1/2, pessimism      paper    lambda, 1 / eta_k, eps_k      (eps_k, eta_k: from memory)

Guarantee: regret O~( H^3 sqrt(S^3 A K) / slack ), violation in sum O(1), of the mixture (from memory). As long as eps_k
is above the slack no policy can do what is asked, and the margin alone is maximised.

Departures: those of `opt_dual`; several constraints have a queue each; values are cut off in planning too.

Practical preset: half the sum of practical radii times the span for a bonus; the price is c lambda_i / sqrt(G_i), the G
of `prices`, c = 1. With `slater`, eps_k is (slack_i + d_i) / sqrt(k), where d_i is the standard deviation of g_i over
the starts seen, for what is not known of starts (derived here); without it, 2 sqrt(G_i) / k. The mixture of the second
half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from inbounds.algorithms.algorithm import Prepared
from inbounds.algorithms.episodic.confidence import Confidence
from inbounds.algorithms.episodic.doubling import PRACTICAL
from inbounds.algorithms.episodic.frame import frame_of, scaled_slack
from inbounds.algorithms.episodic.one_sweep import Rule, SweepSettings, learner, start
from inbounds.problem.simulator import Simulator


@dataclass(frozen=True, repr=False, kw_only=True)
class OptPessPrimalDual(SweepSettings):
    """Settings of OptPess-PrimalDual; the defaults are the paper's formulas. See the module for the algorithm.

    Examples
    --------
    >>> import inbounds as ib
    >>> media = ib.zoo.media()
    >>> settings = ib.OptPessPrimalDual.practical(slater=ib.slater(media).value / media.margin_scales[0])
    >>> run = ib.learn(media.simulator(), settings, samples=50_000, seed=0)
    >>> abs(ib.evaluate(media, run.policy).reward - ib.solve(media).reward) < 0.1
    True
    """

    preset: ClassVar = PRACTICAL | dict(price_step=1.0)


def prepare(settings: OptPessPrimalDual, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    frame = frame_of(settings, simulator, samples)
    n_states, horizon, slack = simulator.pairs.n_states, frame.rest[0], settings.slack(simulator, frame)
    outcomes = 16.0 * n_states * simulator.pairs.n_pairs * len(frame.weights) / settings.delta  # 1 / delta'
    largest = 5.0 * horizon**2 * n_states * math.sqrt(simulator.pairs.n_pairs)

    def eps(k: float) -> float:
        log = math.log(k * outcomes)
        return largest * (log + 1.0) / math.sqrt(k * log)

    needed = 1.0
    while eps(needed) > slack:
        needed *= 2.0
    if settings.price_step is None:
        rule = Rule(1.0 / (slack * horizon), 0.5, queued=True, log_scale=outcomes, greedy=True)
        pessimism = largest
    else:
        rule = Rule(float(settings.price_step), adaptive=True, queued=True, greedy=True)
        pessimism = 0.0 if settings.slater is None else scaled_slack(settings.slater, simulator, frame)
    bonus = (1.0 + horizon * n_states) * math.sqrt(math.log(outcomes * frame.episodes))
    gaps = settings.gaps(simulator, needed, frame.episodes, "episodes", f"a tightening below the slack, {slack:.3g},")
    radii, theorem = (
        Confidence(of_visits=bonus),
        "the paper's, of the mixture of all, if the slack is right: from memory",
    )
    return start(settings, simulator, frame, radii, rule, gaps, theorem, span=1.0, pessimism=pessimism)


OptPessPrimalDual.algorithm = learner(
    name="OptPess-Primal-Dual",
    paper="Liu, Zhou, Kalathil, Kumar, Tian (NeurIPS 2021)",
    sample_complexity="S^3 A / ((1-γ)^4 ε^2)",
    violation="zero",
    constants="from an image of the paper (bonus), from memory (steps, theorem)",
    oscillates=True,
    prepare=prepare,
)
