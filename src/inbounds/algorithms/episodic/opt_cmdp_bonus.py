"""OptCMDP-bonus: the best policy in bounds of the empirical model, whose signals are raised by a bonus.

As `opt_cmdp`, of the same paper; in the place of the box, with its radii b(s, a, s') and those of the signals, c:

    r~ = rh + c + H sum_s' b,   g~_i = gh_i + c + H sum_s' b,   pi = argmax J_r~  with  J_g~i >= 0,  for the chances p

The guarantee has a factor of H more at most (from memory). The margins are hopeful too, so nearly every episode is a
little out of bounds: more than with OptCMDP; with less regret, in half the time. Practical preset: half the sum of the
radii 1 / n of the successors seen, times the span of the current policy's values to go.
"""

from __future__ import annotations

from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.learner import online
from inbounds.algorithms.episodic.rules import EFRONI, PRACTICAL, PlanningSettings, Published, efroni


class OptCMDPBonus(PlanningSettings):
    """Settings of OptCMDP-bonus; the defaults are the paper's bonus. See the module for the algorithm."""

    preset = PRACTICAL
    algorithm = online(
        name="Opt-CMDP-bonus", constants="from code (radii of chances), from memory (of signals, theorem)", **EFRONI
    )

    def _published(self, frame: Frame) -> Published:
        radii, needed = self.radii(efroni(self.delta, frame)), 100.0 * frame.S**2 * frame.H**2
        theorem = f"the paper's (from memory), for strong regret{' and violation' * (frame.bounds > 0)}"
        return Published(theorem, needed, radii, random_signals=True, span=frame.W, planning=self.planning())
