"""The settings that several episodic learners have."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.episodic.confidence import Confidence, practical
from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.rules import Planning
from inbounds.algorithms.settings import Settings
from inbounds.arrays import Floats
from inbounds.criteria.evaluation import evaluate
from inbounds.errors import InvalidInput
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import Policy, for_problem
from inbounds.problem.simulator import Simulator

PRACTICAL = dict(root=0.0, linear=1.0, average="second half")
"""Of the optimistic presets. The part of 1 / n makes a learner try every pair more than once, and is soon gone. A root,
c sqrt(p (1-p) / n), falls no faster than the error of the model, and is what a hopeful plan is out of bounds by in the
end: with c = .1 OptCMDP loses 1.42 times what an oracle does on twenty-four generated problems, with 0 1.24 times."""
CAUTIOUS = dict(root=1.0, linear=1.0, share=1.0, average="second half")
"""Of the safe presets: with root = .3 a fifth of the episodes was out of bounds on one problem of six."""


@dataclass(frozen=True, repr=False, kw_only=True)
class EpisodicSettings(Settings):
    """Of every episodic learner.

    Parameters
    ----------
    delta : float in (0, 1)
        With what probability the confidence sets of the paper's theorem may fail.
    average : "all" or "second half"
        Which episodes the mixture is taken from; theorems speak of all, and the second half is better. While a run is
        under way, "second half" is the last half to three quarters of the episodes so far.
    epsilon : float in (0, 1), optional
        For discounted problems only: where to truncate, discount^H <= epsilon. Default: 1e-3.
    """

    delta: float = field(default=0.05, metadata=checks.a_number("in (0, 1)", lambda value: 0.0 < value < 1.0))
    average: str = field(default="all", metadata=checks.AVERAGE)
    epsilon: float | None = field(default=None, metadata=checks.a_number("in (0, 1)", lambda value: 0.0 < value < 1.0))


@dataclass(frozen=True, repr=False, kw_only=True)
class OptimisticSettings(EpisodicSettings):
    """Of the learners that allow for what a model made of samples may be off by.

    Parameters
    ----------
    root, linear : float, optional
        The two constants of practical radii, as the module says. Default: the paper's formulas.
    """

    root: float | None = field(default=None, metadata=checks.NOT_NEGATIVE)
    linear: float | None = field(default=None, metadata=checks.NOT_NEGATIVE)

    @property
    def as_published(self) -> bool:
        """Whether the radii are the paper's."""
        return self.root is None and self.linear is None

    def radii(self, paper: Confidence) -> Confidence:
        """The paper's, or the practical ones; a part of them that is not given is 0."""
        return paper if self.as_published else practical(float(self.root or 0), float(self.linear or 0))

    def fallback(self, simulator: Simulator, frame: Frame) -> Floats:
        """The policy [H, n] that is known to be safe; empty: none is."""
        return np.zeros((0, 1))


@dataclass(frozen=True, repr=False, kw_only=True)
class PlanningSettings(OptimisticSettings):
    """Of the learners that plan with constraints.

    Parameters
    ----------
    growth : float, at least 1
        Plan anew when some pair has been visited that many times as often as at the last plan; 1: after every episode.
    """

    growth: float = field(default=2.0, metadata=checks.a_number("of at least 1", lambda value: value >= 1.0))

    def planning(self, **how: Any) -> Planning:
        return Planning(planned=True, growth=float(self.growth), **how)


@dataclass(frozen=True, repr=False, kw_only=True)
class SafeSettings(PlanningSettings):
    """Of the learners that begin with a safe policy, and take the word for it: they see no model.

    Parameters
    ----------
    safe : Policy
        A policy known to be in bounds, with something to spare; needed.
    slack : float in (0, 1], optional
        What every margin of `safe` is at least, in scaled units. Default: what its episodes show.
    share : float, optional
        Of what the bonus takes from the margins, that the reward gains. Default: the paper's formula, by the slack.
    """

    safe: Policy | None = field(
        default=None, metadata=checks.check(lambda value: isinstance(value, Policy), "an ib.Policy that is in bounds")
    )
    slack: float | None = field(default=None, metadata=checks.SHARE)
    share: float | None = field(default=None, metadata=checks.NOT_NEGATIVE)

    def fallback(self, simulator: Simulator, frame: Frame) -> Floats:
        name = self.algorithm.name
        if simulator.n_constraints == 0:
            raise InvalidInput(
                f"{name} is for problems with a bound to keep, and this one has none: use another algorithm"
            )
        if self.safe is None:
            raise InvalidInput(
                f"{name} needs safe=, a policy that is known to be in bounds, such as "
                f"ib.solve(cmdp.tightened(0.1)).policy where the model is known"
            )
        own = for_problem(simulator, self.safe).probabilities
        return np.array(np.broadcast_to(own, (len(frame.weights), own.shape[-1])), order="C")

    def guarded(self, frame: Frame, span: float, share: float, by_slack: float, **how: Any) -> dict[str, Any]:
        """Of `Published`, where the paper has this span of the margins' bonus, and these shares."""
        shares = (share, by_slack) if self.share is None else (float(self.share), 0.0)
        planning = self.planning(sign=-1.0, share=shares[0], share_by_slack=shares[1], **how)
        spare = np.full(frame.size.bounds, np.nan) if self.slack is None else frame.slack(self.slack)
        return dict(span=np.array([0.0, *np.full(len(spare), span)]), spare=spare, planning=planning)

    def most_slack(self, frame: Frame) -> float:
        """Of the safe policy, for what a theorem takes: as given, or what no policy has more of."""
        return frame.size.W if self.slack is None else float(frame.slack(self.slack).min())


def check(settings: Any, cmdp: CMDP) -> None:
    """Refuse a `safe` policy that is out of bounds, and a slack that it does not have: which bound, and by how much."""
    if settings.safe is None or cmdp.n_constraints == 0:
        return  # refused by the learner
    found, name = evaluate(cmdp, settings.safe), settings.algorithm.name
    scaled = found.margins / cmdp.margin_scales
    worst = int(np.argmin(scaled))
    if not found.in_bounds:
        raise InvalidInput(
            f"{name}: safe= is not safe: it misses the bound of {cmdp.constraints[worst].name!r} by "
            f"{-found.margins[worst]:.6g}"
        )
    if settings.slack is not None and settings.slack > scaled[worst] * (1.0 + 1e-9):
        raise InvalidInput(
            f"{name}: slack must be at most what safe= keeps of every bound, {scaled[worst]:.6g} in scaled units, "
            f"found {settings.slack!r}"
        )


@dataclass(frozen=True, repr=False, kw_only=True)
class SweepSettings(OptimisticSettings):
    """Of the learners that step by step change prices (Lagrange multipliers).

    Parameters
    ----------
    price_step : float, optional
        c of the preset's price step, relative to the price and to the margins so far. Default: the paper's step.
    slater : float, optional
        The Slater constant, or a lower bound of it, in scaled units; what the paper's constants are made of. Default:
        1, the most that it can be.
    """

    price_step: float | None = field(default=None, metadata=checks.POSITIVE)
    slater: float | None = field(default=None, metadata=checks.SHARE)

    def radii(self, paper: Confidence) -> Confidence:
        """With one more, of a successor that was not seen (`one_sweep`)."""
        return super().radii(paper)._replace(**({} if self.as_published else {"unseen": 1.0}))

    @property
    def departs(self) -> tuple[str, bool]:
        steps = (getattr(self, name, None) for name in ("price_step", "policy_step", "tau"))
        return "steps that are not its own", any(step is not None for step in steps)

    def slack(self, frame: Frame) -> float:
        """The least value of a margin that the Slater constant stands for, as a sum over an episode."""
        return float(frame.slack(1.0 if self.slater is None else self.slater).min(initial=frame.rest[0]))

    def price_rule(self, paper: float, bound: float = math.inf) -> dict[str, Any]:
        """The paper's price step and bound, or the preset's step."""
        if self.price_step is None:
            return dict(price_step=paper, price_bound=bound)
        return dict(price_step=float(self.price_step), adaptive=True)


@dataclass(frozen=True, repr=False, kw_only=True)
class SoftmaxSettings(SweepSettings):
    """Of those that change a policy step by step, too.

    Parameters
    ----------
    policy_step : float, optional
        c of the policy's step in episode k, c / (W sqrt(k)). Default: the paper's step.
    """

    policy_step: float | None = field(default=None, metadata=checks.POSITIVE)

    def policy_rule(self, paper: float, frame: Frame) -> dict[str, Any]:
        """The paper's step of the policy, or the preset's."""
        if self.policy_step is None:
            return dict(policy_step=paper)
        return dict(policy_step=float(self.policy_step / frame.rest[0]), policy_power=0.5)
