"""DOPE: hopeful about model and reward, wary of the bounds, from a safe policy on.

Bura, HasanzadeZonuz, Kalathil, Shakkottai, Chamberland: "DOPE: Doubly Optimistic and Pessimistic Exploration for Safe
Reinforcement Learning", NeurIPS 2022. Problem and departures of `opt_pess_lp`; reward and margins are known. With the
radii b(s, a, s') of `opt_cmdp`:

    pi0 in the first K0 = S^2 A H^3 / slack^2 episodes; then, over policies and models of the box |P' - p| <= b,
    pi = argmax J_r~  with  J_g~i >= 0,     r~ = rh + H^2 / slack sum_s' b,     g~_i = gh_i - H sum_s' b
    and pi0 where no policy is in bounds

all read in the authors' code, where K0 differs between two of three folders (S^3 H^3 / slack^2 in the other), as does
whether the reward has its bonus. With probability 1 - delta no violation in any episode, and regret O~( S sqrt(A K) ),
up to powers of H / slack (from memory): from one start, and where a pair always gives the same reward and signals, for
what was seen once is then known. Where they are random the margins have no radius, and episodes do go out of bounds; a
user's own step may be such, and is promised nothing. K0 is 430 for three states, 8,000 for ten, 10^7 for a queue.

Practical preset: no warm-up, since a program without a policy in bounds does its work; the radii of OptPess-LP's preset
for the signals, with one more for all successors that were not seen, and half of them for the box: a plan on one side
of it is then still in bounds on the other, as with the paper's H sum b. With a box of the whole radii and without that
one more, .6 % of the episodes on the queue were out of bounds, with them .07 %. It leaves pi0 earlier than OptPess-LP,
and may be WORSE than pi0 at first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from inbounds.algorithms import checks
from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.learner import online
from inbounds.algorithms.episodic.rules import CAUTIOUS, Published, SafeSettings, efroni


@dataclass(frozen=True, repr=False, kw_only=True)
class DOPE(SafeSettings):
    """Settings of DOPE; the defaults are the formulas of the authors' code. See the module for the algorithm.

    Parameters
    ----------
    warm_up : int, optional
        Episodes of the safe policy before anything else. Default: the K0 of the module, for the slack.
    """

    warm_up: int | None = field(default=None, metadata=checks.COUNT)

    preset = CAUTIOUS | dict(warm_up=0)
    algorithm = online(
        name="DOPE",
        paper="Bura et al. (NeurIPS 2022)",
        needs="safe policy",
        sample_complexity="S^2 A / ((1-γ)^7 ε^2)",
        violation="zero, in every episode",
        constants="from code (radii, K0), from memory (theorem)",
    )

    def _published(self, frame: Frame) -> Published:
        half = dict(root=0.5 * (self.root or 0.0), linear=0.5 * (self.linear or 0.0))
        radii = self.radii(efroni(self.delta, frame)._replace(signal_root=0.0), **half, of_box=1.0, unseen=1.0)
        squared = float(frame.S * frame.pairs) * frame.W**3  # K0, times slack^2
        warm = {"warm_up": squared} if self.warm_up is None else {"first": self.warm_up}
        guard = self.guarded(frame, frame.W, 0.0, frame.W, extended=True, **warm)
        departs = "another share or warm-up", self.share is not None or self.warm_up is not None
        theorem = "the paper's (from memory): no violation in any episode"
        needed = squared / frame.least_slack(self.slack) ** 2
        return Published(theorem, needed, radii, "its warm-up", departs=departs, **guard)
