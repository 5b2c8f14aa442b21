"""OptCMDP: the best policy in bounds over all models that what was seen allows.

Efroni, Mannor, Pirotta: "Exploration-Exploitation in Constrained MDPs", 2020 (arXiv 2003.02189).

The policies played, one an episode, are to lose little reward and little margin in sum, each episode for itself (no
cancellation: a "strong" regret). Before an episode, by an extended linear program (`planning`),

    pi = argmax over policies and models |P' - p| <= b  of  J_r~   with   J_g~i >= 0,     r~ = rh + c, g~_i = gh_i + c
    b = 2 sqrt(p (1-p) L / n) + 14 L / (3 n),     c = sqrt(L' / n) times the range of a signal
    L = log(6 S A H K / delta), from code that follows the paper;   L' = 2 log(6 S A H (I+1) K / delta), from memory

With probability 1 - delta, strong regret and violation are O~( sqrt(S N H^4 K) ), where a pair has N successors (from
memory). With these radii 10^4 episodes teach it next to nothing, with ten states or with three. Departure: it plans
when a count has doubled. Practical preset: b = 1 / n.
"""

from __future__ import annotations

from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.learner import online
from inbounds.algorithms.episodic.rules import EFRONI, PRACTICAL, PlanningSettings, Published, efroni


class OptCMDP(PlanningSettings):
    """Settings of OptCMDP; the defaults are the paper's radii. See the module for the algorithm."""

    preset = PRACTICAL
    algorithm = online(
        name="Opt-CMDP", constants="from code (radii of chances), from memory (of signals, theorem)", **EFRONI
    )

    def _published(self, frame: Frame) -> Published:
        radii, needed = self.radii(efroni(self.delta, frame)), 100.0 * frame.S**2 * frame.H**2  # N = S
        theorem = f"the paper's (from memory), for strong regret{' and violation' * (frame.bounds > 0)}"
        radii, planning = radii._replace(of_box=0.0), self.planning(extended=True)
        return Published(theorem, needed, radii, random_signals=True, planning=planning)
