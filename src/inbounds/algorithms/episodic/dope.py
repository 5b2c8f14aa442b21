"""DOPE: hopeful about model and reward, wary of the bounds, from a safe policy on.

Archana Bura, Aria HasanzadeZonuz, Dileep Kalathil, Srinivas Shakkottai, Jean-Francois Chamberland. "DOPE: Doubly
Optimistic and Pessimistic Exploration for Safe Reinforcement Learning", NeurIPS 2022.

Problem: as OptPess-LP's, a safe policy pi0 of margins slack > 0 and no episode out of bounds; reward and margins known.

Updates, with the radii b(s, a, s') = 2 sqrt(p (1-p) L / n) + 14 L / (3 n), L = log(6 S A H K / delta), of OptCMDP:

    pi0 in the first K0 = S^2 A H^3 / slack^2 episodes; then, over policies and models of the box |P' - p| <= b,
    pi = argmax J_r~  with  J_g~i >= 0,     r~ = rh + H^2 / slack sum_s' b,     g~_i = gh_i - H sum_s' b
    and pi0 where no policy is in bounds

all read in the authors' code, where K0 differs between two of three folders (S^3 H^3 / slack^2 in the other), as does
whether the reward has its bonus. H is W, the most that a value can be.

Guarantee: with probability 1 - delta no violation in any episode, and regret O~( S sqrt(A K) ) up to powers of H /
slack (from memory). K0 is 430 for three states, 8,000 for ten, 10^7 for a queue of six.

Departures: as OptPess-LP's. Practical preset: no warm-up, since a program without a policy in bounds does its work; the
radii of OptPess-LP's preset for the signals, with one more for all successors that were not seen, and half of them for
the box: a plan on one side of it is then still in bounds on the other, as with the paper's H sum b. With a box of the
whole radii and without that one more, .6 % of the episodes on the queue were out of bounds, with them .07 %. The
mixture of the second half. It leaves pi0 earlier than OptPess-LP, and may be WORSE than pi0 at first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Algorithm, Prepared
from inbounds.algorithms.episodic import doubling
from inbounds.algorithms.episodic.frame import horizon_of
from inbounds.algorithms.episodic.safety import CAUTIOUS, SafeSettings, check, safety_of
from inbounds.problem.simulator import Simulator


@dataclass(frozen=True, repr=False, kw_only=True)
class DOPE(SafeSettings):
    """Settings of DOPE; the defaults are the formulas of the authors' code. See the module for the algorithm.

    Parameters
    ----------
    warm_up : int, optional
        Episodes of the safe policy before anything else. Default: the K0 of the module, for the slack.

    Examples
    --------
    >>> import inbounds as ib
    >>> media = ib.zoo.media()
    >>> safe = ib.solve(media.tightened(0.25)).policy
    >>> run = ib.learn(media.simulator(), ib.DOPE.practical(safe=safe), samples=20_000, seed=0)
    >>> ib.evaluate(media, run.policy).in_bounds
    True
    """

    warm_up: int | None = field(default=None, metadata=checks.COUNT)

    preset: ClassVar = CAUTIOUS | dict(warm_up=0)


def prepare(settings: DOPE, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    most = float(doubling.value_bound(settings, simulator)[0])
    safety = safety_of(settings, simulator, samples, most, 0.0, most)
    confidence = settings.confidence(doubling.efroni(settings, simulator, samples)._replace(signal_root=0.0))
    if not settings.as_published:
        root, linear = 0.5 * confidence.root, 0.5 * confidence.linear
        confidence = confidence._replace(root=root, linear=linear, of_box=1.0, unseen=1.0)
    squared = float(simulator.pairs.n_states * simulator.pairs.n_pairs) * most**3  # K0, times slack^2
    slack = most if settings.slack is None else float(safety["slack"].min())
    episodes = samples // horizon_of(settings, simulator)
    gaps = settings.gaps(simulator, squared / slack**2, episodes, "episodes", "its warm-up")
    gaps["another share or warm-up"] = settings.share is not None or settings.warm_up is not None
    warm = {"warm_up": squared} if settings.warm_up is None else {"first": settings.warm_up}
    theorem = "the paper's (from memory): no violation in any episode"
    return doubling.start(settings, simulator, samples, confidence, gaps, theorem, extended=True, **warm, **safety)


DOPE.algorithm = Algorithm(
    name="DOPE",
    paper="Bura et al. (NeurIPS 2022)",
    needs="safe policy",
    sample_complexity="S^2 A / ((1-γ)^7 ε^2)",
    violation="zero, in every episode",
    constants="from code (radii, K0), from memory (theorem)",
    check=check,
    prepare=prepare,
    **doubling.PLAYED,
)
