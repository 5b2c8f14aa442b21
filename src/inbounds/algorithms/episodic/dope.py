"""DOPE: hopeful about model and reward, wary of the bounds, from a safe policy on.

Archana Bura, Aria HasanzadeZonuz, Dileep Kalathil, Srinivas Shakkottai, Jean-Francois Chamberland. "DOPE: Doubly
Optimistic and Pessimistic Exploration for Safe Reinforcement Learning", NeurIPS 2022.

Problem
-------
As OptPess-LP's, with reward and margins known: a safe policy pi0 of margins slack > 0, and no episode out of bounds.

Updates
-------
With the radii b(s, a, s') = 2 sqrt(p (1-p) L / n) + 14 L / (3 n), L = log(6 S A H K / delta), of OptCMDP:

    pi0 in the first K0 = S^2 A H^3 / slack^2 episodes; then, over policies and models of the box |P' - p| <= b,
    pi = argmax J_r~  with  J_g~i >= 0,     r~ = rh + H^2 / slack sum_s' b,     g~_i = gh_i - H sum_s' b
    and pi0 where no policy is in bounds

all read in the authors' code, where K0 differs between two of three folders (S^3 H^3 / slack^2 in the other), as does
whether the reward has its bonus. H is W, the most that a value can be.

Guarantee
---------
With probability 1 - delta no violation in any episode, and regret O~( S sqrt(A K) ) up to powers of H / slack (from
memory). K0 is 430 for three states, 8,000 for ten, 10^7 for a queue of six.

Departures: as OptPess-LP's. Practical preset: no warm-up, since a program without a policy in bounds does its work; the
signals of OptPess-LP's preset, and the box of the radii sqrt(p (1-p) / n) + 1 / n; the mixture of the second half. It
leaves pi0 earlier than OptPess-LP, and may be WORSE than pi0 at first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Algorithm, Prepared
from inbounds.algorithms.episodic.doubling import advance, efroni, extract, start, value_bound
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
    safety = safety_of(settings, simulator, samples)
    horizon, n_states = horizon_of(settings, simulator), simulator.pairs.n_states
    most = float(value_bound(settings, simulator)[0])
    squared = float(n_states * simulator.pairs.n_pairs) * most**3  # K0, times slack^2
    slack = np.nanmin(safety["slack"]) if settings.slack is not None else most
    return start(
        settings,
        simulator,
        samples,
        settings.confidence(efroni(settings, simulator, samples)._replace(signal_root=0.0)),
        settings.gaps(simulator, squared / slack**2, samples // horizon, "episodes", "its warm-up")
        | {"another share or warm-up": settings.share is not None or settings.warm_up is not None},
        f"the paper's: no violation in any episode, with probability {1.0 - settings.delta:g}: from memory",
        extended=True,
        fixed=np.array([0.0, *np.full(simulator.n_constraints, most)]) if settings.as_published else None,
        warm_up=squared if settings.warm_up is None else 0.0,
        first=0 if settings.warm_up is None else settings.warm_up,
        share=0.0 if settings.share is None else float(settings.share),
        share_by_slack=most if settings.share is None else 0.0,
        **safety,
    )


DOPE.algorithm = Algorithm(
    name="DOPE",
    paper="Bura et al. (NeurIPS 2022)",
    setting="episodes, online",
    needs="safe policy",
    output="mixture of the policies played",
    sample_complexity="S^2 A / ((1-γ)^7 ε^2)",
    violation="zero, in every episode",
    constants="from code (radii, K0), from memory (theorem)",
    criterion="finite-horizon",
    access="online",
    check=check,
    prepare=prepare,
    advance=advance,
    extract=extract,
)
