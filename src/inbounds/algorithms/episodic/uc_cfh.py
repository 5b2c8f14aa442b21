"""UC-CFH: OptCMDP whose model learns of a pair only when that pair's visits have doubled.

Kalagarla, Jain, Nuzzo: "A Sample-Efficient Algorithm for Episodic Finite-Horizon MDP with Constraints", AAAI 2021
(arXiv 2009.11348). It extends UCFH (Dann and Brunskill 2015) by constraints; reward and margins are known.

The program of `opt_cmdp` is solved once, and its policy played until, for some pair, the visits that the model has not
been told of are max( m w_min, those that it has ). Then it is told of that pair, alone. With l = ln(6 / delta_1),

    |P' - p| <= min( sqrt(l / (2n)),  sqrt(2 p (1-p) l / n) + 7 l / (3 (n - 1)) ),      everything for n <= 1
    w_min = eps / (4 H S),   delta_1 = delta / (2 U S),   U = S A log2(S H / w_min)
    m = 512 (log2 log2 H)^2 S H^2 / eps^2 ln^2(8 H^2 S^2 / eps) ln(6 / delta_1)

UCFH's, from code; those of UC-CFH differ by constants, from memory. With probability 1 - delta all but
O~( S A C^2 H^2 / eps^2 ) episodes are eps-optimal and eps-feasible, C <= S successors (its abstract). No run of
practical length has m w_min visits of a pair: it never updates its model. Practical preset: pure doubling, m w_min = 1,
with OptCMDP's radii. It plans two to four times as often as OptCMDP, and is as good.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from inbounds.algorithms import checks
from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.learner import online
from inbounds.algorithms.episodic.rules import PRACTICAL, PlanningSettings, Published, bennett
from inbounds.algorithms.settings import stated


@dataclass(frozen=True, repr=False, kw_only=True)
class UCCFH(PlanningSettings):
    """Settings of UC-CFH; the defaults are the paper's formulas. See the module for the algorithm.

    Parameters
    ----------
    accuracy : float in (0, 1]
        The paper's eps, as a share of the horizon.
    least : float, optional
        Visits of a pair before the model is told of any: the paper's m w_min, which is the default.
    """

    accuracy: float = field(default=0.1, metadata=checks.SHARE | {"what": "a number in (0, 1]"})
    least: float | None = field(default=None, metadata=checks.AT_LEAST_ONE)

    preset = PRACTICAL | dict(least=1.0)
    algorithm = online(
        name="UC-CFH",
        paper="Kalagarla, Jain, Nuzzo (AAAI 2021)",
        sample_complexity="S^3 A / ((1-γ)^3 ε^2)",
        constants="from code (radii), from memory (m)",
    )

    def _published(self, frame: Frame) -> Published:
        S, H, eps = frame.S, frame.H, self.accuracy * frame.H
        rarest = eps / (4.0 * H * S)
        log = math.log(6.0 * 2.0 * frame.pairs * math.log2(S * H / rarest) * S / self.delta)
        twice = max(math.log2(max(math.log2(max(H, 2)), 1.0)), 1.0)  # at least 1: small horizons have none
        visits = 512.0 * twice**2 * S * (H / eps) ** 2 * math.log(8.0 * (H * S) ** 2 / eps) ** 2
        asked = visits * log * rarest
        least = asked if self.least is None else self.least
        radii = self.radii(bennett(log, 7.0 / 3.0, less=1.0), of_box=0.0)
        theorem = f"the paper's, with accuracy {stated(self.accuracy, digits=6)} of the horizon"
        target, budget = "the first update of its model, visits of one pair,", ("samples", frame.samples)
        departs = "updates of the model sooner than it asks for", least < asked
        planning = self.planning(extended=True, least=float(least), singly=True)
        said = {"least": least, "accuracy": self.accuracy}
        return Published(theorem, asked, radii, target, *budget, departs, planning=planning, said=said)
