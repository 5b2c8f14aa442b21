"""OptPess-LP: hopeful about the reward, wary of the bounds, from a safe policy on.

Tao Liu, Ruida Zhou, Dileep Kalathil, P. R. Kumar, Chao Tian. "Learning Policies with Zero or Bounded Constraint
Violation for Constrained MDPs", NeurIPS 2021.

Problem
-------
Episodes of H steps; transitions, reward and margins unknown; a policy pi0 is known whose margins are at least slack >
0, and no episode is to be out of bounds.

Updates
-------
Before an episode, with B = (1 + S H) sqrt(Z / n) after n visits of a pair, Z = log(16 S^2 A H K / delta):

    r~ = rh + (1 + 4 H / slack) B,     g~_i = gh_i - B,     on the empirical model
    pi = pi0  while some J_g~i(pi0) is at most half its slack, or no policy is in bounds;
    otherwise  argmax J_r~  with  J_g~i >= 0

Here the reward's bonus is that of its own values and `share` times what was taken from each margin. H is W, the most
that a value can be.

Guarantee
---------
With probability 1 - delta no violation in any episode, and regret O~( H^3 / slack sqrt(S^3 A K) ) (its algorithm box
and theorem). But pi0 is left only when every pair it visits has been seen Z (2 H (1 + S H) / slack)^2 times: 10^5 for
three states, 10^9 for a queue of six. Until then it plays pi0.

Departures, with their reasons
------------------------------
* It plans when a count has doubled; a pair never tried ends the episode with the largest reward and the least margins.
* Several constraints: each has its margin and its slack. The slack that is not given is the mean of the margins that
  the episodes of pi0 showed; these episodes count.
* Where episodes start is random; the paper has one start. No radius covers that, so 1,000 starts, which are free, are
  watched before the first episode.

Practical preset
----------------
B is half the sum of the radii sqrt(p (1-p) / n) + 1 / n of the successors seen, times the span of the current policy's
values; share = 1. Radii of .3 already lose the safety. Right after it leaves pi0 it may be WORSE than pi0: it is wary,
and it explores. The mixture of the second half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from inbounds.algorithms.algorithm import Algorithm, Prepared
from inbounds.algorithms.episodic.confidence import hoeffding
from inbounds.algorithms.episodic.doubling import advance, extract, start, value_bound
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
    safety = safety_of(settings, simulator, samples)
    horizon, n_states = horizon_of(settings, simulator), simulator.pairs.n_states
    episodes, most = max(samples // horizon, 1), float(value_bound(settings, simulator)[0])
    log = math.log(16.0 * n_states * simulator.pairs.n_pairs * horizon * episodes / settings.delta)
    wide = 1.0 + n_states * most
    slack = np.nanmin(safety["slack"]) if settings.slack is not None else most  # no pi0 has more
    return start(
        settings,
        simulator,
        samples,
        settings.confidence(hoeffding(log)),
        settings.gaps(
            simulator,
            log * (2.0 * most * wide / slack) ** 2,
            samples,
            "samples",
            "leaving pi0, in visits of every pair,",
        )
        | {"another share": settings.share is not None},
        f"the paper's: no violation in any episode, with probability {1.0 - settings.delta:g}",
        extended=False,
        fixed=np.array([0.0, *np.full(simulator.n_constraints, wide)]) if settings.as_published else None,
        half=True,
        share=(1.0 if settings.as_published else 0.0) if settings.share is None else float(settings.share),
        share_by_slack=4.0 * most if settings.share is None else 0.0,
        **safety,
    )


OptPessLP.algorithm = Algorithm(
    name="OptPess-LP",
    paper="Liu, Zhou, Kalathil, Kumar, Tian (NeurIPS 2021)",
    setting="episodes, online",
    needs="safe policy",
    output="mixture of the policies played",
    sample_complexity="S^3 A / ((1-γ)^4 ε^2)",
    violation="zero, in every episode",
    constants="paper (its algorithm box)",
    criterion="finite-horizon",
    access="online",
    check=check,
    prepare=prepare,
    advance=advance,
    extract=extract,
)
