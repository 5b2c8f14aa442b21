"""OptPess-LP: hopeful about the reward, wary of the bounds, from a safe policy on.

Liu, Zhou, Kalathil, Kumar, Tian: "Learning Policies with Zero or Bounded Constraint Violation for Constrained MDPs",
NeurIPS 2021. A policy pi0 is known whose margins are at least slack > 0, and no episode is to be out of bounds. Before
an episode, with B = (1 + S H) sqrt(Z / n), Z = log(16 S^2 A H K / delta), on the empirical model:

    r~ = rh + (1 + 4 H / slack) B,     g~_i = gh_i - B
    pi = pi0  while some J_g~i(pi0) is at most half its slack, or no policy is in bounds;
    otherwise  argmax J_r~  with  J_g~i >= 0

With probability 1 - delta no violation in any episode, and regret O~( H^3 / slack sqrt(S^3 A K) ) (its algorithm box
and theorem). But pi0 is left only when every pair it visits has been seen Z (2 H (1 + S H) / slack)^2 times: 10^5 for
three states, 10^9 for a queue of six. Departures: it plans when a count has doubled. The reward's bonus is that of its
own values and `share` times what was taken from each margin. Each constraint has its slack; one that is not given is
the mean of the margins that the episodes of pi0 showed. The paper has one start, and no radius covers a random one: so
1,000 starts, which are free, are watched before the first episode, and the theorem is not claimed.

Practical preset: B is half the sum of the radii sqrt(p (1-p) / n) + 1 / n of the successors seen, times the span of the
current policy's values; share = 1. Radii of .3 already lose the safety. Right after it leaves pi0 it may be WORSE than
pi0: it is wary, and it explores.
"""

from __future__ import annotations

import math

from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.learner import online
from inbounds.algorithms.episodic.rules import CAUTIOUS, Published, Radii, SafeSettings
from inbounds.algorithms.settings import least_number


class OptPessLP(SafeSettings):
    """Settings of OptPess-LP; the defaults are the paper's formulas. See the module for the algorithm."""

    preset = CAUTIOUS
    algorithm = online(
        name="OptPess-LP",
        paper="Liu, Zhou, Kalathil, Kumar, Tian (NeurIPS 2021)",
        needs="safe policy",
        sample_complexity="S^3 A / ((1-γ)^4 ε^2)",
        violation="zero, in every episode",
        constants="paper (its algorithm box)",
    )

    def _published(self, frame: Frame) -> Published:
        def log(samples: int) -> float:
            """Z, of a run of so many samples."""
            episodes = max(samples // frame.H, 1)
            return math.log(16.0 * frame.S * frame.pairs * frame.H * episodes / self.delta)

        wide, departs = 1.0 + frame.S * frame.W, ("another share", self.share is not None)
        radii = self.radii(Radii(of_visits=math.sqrt(log(frame.samples))))
        guard = self.guarded(frame, wide, float(self.as_published), 4.0 * frame.W, half=True)
        each = (2.0 * frame.W * wide / frame.least_slack(self.slack)) ** 2
        needed = least_number(lambda samples: samples >= log(samples) * each)
        theorem, target = "the paper's: no violation in any episode", "leaving pi0, in visits of every pair,"
        paper = Published(theorem, needed, radii, target, "samples", frame.samples, departs, single=True, **guard)
        return paper._replace(random_signals=True)
