"""OptPess-LP: hopeful about the reward, wary of the bounds, from a safe policy on.

Tao Liu, Ruida Zhou, Dileep Kalathil, P. R. Kumar, Chao Tian. "Learning Policies with Zero or Bounded Constraint
Violation for Constrained MDPs", NeurIPS 2021.

Problem: episodes of H steps; transitions, reward and margins unknown; a policy pi0 is known whose margins are at least
slack > 0, and no episode is to be out of bounds.

Updates, before an episode, with B = (1 + S H) sqrt(Z / n) after n visits of a pair, Z = log(16 S^2 A H K / delta):

    r~ = rh + (1 + 4 H / slack) B,     g~_i = gh_i - B,     on the empirical model
    pi = pi0  while some J_g~i(pi0) is at most half its slack, or no policy is in bounds;
    otherwise  argmax J_r~  with  J_g~i >= 0

Here the reward's bonus is that of its own values and `share` times what was taken from each margin. H is W, the most
that a value can be.

Guarantee: with probability 1 - delta no violation in any episode, and regret O~( H^3 / slack sqrt(S^3 A K) ) (its
algorithm box and theorem). But pi0 is left only when every pair it visits has been seen Z (2 H (1 + S H) / slack)^2
times: 10^5 for three states, 10^9 for a queue of six. Until then it plays pi0.

Departures: it plans when a count has doubled; a pair never tried ends the episode with the largest reward and the least
margins. Each of several constraints has its margin and its slack; a slack that is not given is the mean of the margins
that the episodes of pi0 showed, which count. The paper has one start, and no radius covers a random one: so 1,000
starts, which are free, are watched before the first episode.

Practical preset: B is half the sum of the radii sqrt(p (1-p) / n) + 1 / n of the successors seen, times the span of the
current policy's values; share = 1. Radii of .3 already lose the safety. Right after it leaves pi0 it may be WORSE than
pi0: it is wary, and it explores. The mixture of the second half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from inbounds.algorithms.algorithm import Algorithm, Prepared
from inbounds.algorithms.episodic import doubling
from inbounds.algorithms.episodic.confidence import hoeffding
from inbounds.algorithms.episodic.frame import horizon_of
from inbounds.algorithms.episodic.safety import CAUTIOUS, SafeSettings, check, safety_of
from inbounds.problem.simulator import Simulator


@dataclass(frozen=True, repr=False, kw_only=True)
class OptPessLP(SafeSettings):
    """Settings of OptPess-LP; the defaults are the paper's formulas. See the module for the algorithm.

    Examples
    --------
    >>> import inbounds as ib
    >>> media = ib.zoo.media()
    >>> safe = ib.solve(media.tightened(0.25)).policy
    >>> run = ib.learn(media.simulator(), ib.OptPessLP.practical(safe=safe), samples=20_000, seed=0)
    >>> ib.evaluate(media, run.policy).in_bounds
    True
    """

    preset: ClassVar = CAUTIOUS


def prepare(settings: OptPessLP, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    horizon, pairs = horizon_of(settings, simulator), simulator.pairs
    most = float(doubling.value_bound(settings, simulator)[0])
    wide = 1.0 + pairs.n_states * most
    safety = safety_of(settings, simulator, samples, wide, float(settings.as_published), 4.0 * most)
    log = math.log(16.0 * pairs.n_states * pairs.n_pairs * horizon * max(samples // horizon, 1) / settings.delta)
    slack = most if settings.slack is None else float(safety["slack"].min())  # no pi0 has more
    needed = log * (2.0 * most * wide / slack) ** 2
    gaps = settings.gaps(simulator, needed, samples, "samples", "leaving pi0, in visits of every pair,")
    gaps["another share"] = settings.share is not None
    theorem = "the paper's: no violation in any episode"
    radii = settings.confidence(hoeffding(log))
    return doubling.start(settings, simulator, samples, radii, gaps, theorem, half=True, **safety)


OptPessLP.algorithm = Algorithm(
    name="OptPess-LP",
    paper="Liu, Zhou, Kalathil, Kumar, Tian (NeurIPS 2021)",
    needs="safe policy",
    sample_complexity="S^3 A / ((1-γ)^4 ε^2)",
    violation="zero, in every episode",
    constants="paper (its algorithm box)",
    check=check,
    prepare=prepare,
    **doubling.PLAYED,
)
