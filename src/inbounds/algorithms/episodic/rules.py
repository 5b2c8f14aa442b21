"""What tells the learners of episodes apart, as data; and the settings that several of them have.

Radii. That of a chance p after n visits is  min( root sqrt(p (1 - p) / n) + linear / (n - less),  flat / sqrt(n) ).
The bonus of a value is span * width, where the width of a row is `of_box` times the sum of its radii (over the
successors seen, and `unseen` of the others), plus `of_visits` / sqrt(n + ridge), and `most` at most. The papers take H
for the span, practical presets that of the current policy's values to go: so one setting does for every problem.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Prepared
from inbounds.algorithms.episodic.frame import TRUNCATED, Frame
from inbounds.algorithms.settings import Settings, guarantee_unless, stated, taken_for_known
from inbounds.errors import InvalidInput
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator
from inbounds.tables import kept_in_digits

PRACTICAL = dict(root=0.0, linear=1.0, average="second half")
"""Of the optimistic presets. The part of 1 / n makes a learner try every pair more than once, and allows for successors
never seen, without which one run in ten gives up a good action for ever; and it is soon gone. A root falls no faster
than the error of the model, and is what a hopeful plan is out of bounds by in the end."""
CAUTIOUS = dict(root=1.0, linear=1.0, share=1.0, average="second half")
"""Of the safe presets: with root = .3 a fifth of the episodes was out of bounds on one problem of six."""
EFRONI: dict[str, Any] = dict(paper="Efroni, Mannor, Pirotta (2020)", sample_complexity="S^2 A / ((1-γ)^3 ε^2)")
"""Of the records of the four algorithms of this paper."""


class Radii(NamedTuple):
    """The constants of the radii, of the bonus (none where `of_box` and `of_visits` are 0), and of the signals."""

    root: float = 0.0
    linear: float = 0.0
    flat: float = math.inf
    less: float = 0.0
    of_box: float = 0.0
    unseen: float = 0.0
    of_visits: float = 0.0
    ridge: float = 0.0
    most: float = math.inf
    signal_root: float = 0.0  # times the range of a signal
    signal_linear: float = 0.0
    always: bool = True  # False: signals have a radius only once two observations of a pair differed


def practical(root: float, linear: float) -> Radii:
    """No logarithms; the width is half the sum of the radii of successors seen (derived here)."""
    return Radii(root, linear, of_box=0.5, signal_root=root, signal_linear=linear, always=False)


def efroni(delta: float, frame: Frame) -> Radii:
    """2 sqrt(p (1-p) L / n) + 14 L / (3 n); signals sqrt(L' / n), with the logarithms of `opt_cmdp`. Also DOPE's."""
    outcomes = 6.0 * frame.pairs * frame.H * frame.K / delta
    log, signals = math.log(outcomes), math.sqrt(2.0 * math.log(outcomes * (1 + frame.bounds)))
    return Radii(2.0 * math.sqrt(log), 14.0 * log / 3.0, of_box=1.0, unseen=math.inf, signal_root=signals)


def bennett(log: float, linear: float, less: float = 0.0) -> Radii:
    """min( sqrt(2 p (1-p) l / n) + linear l / (n - less), sqrt(l / 2n) ); signals are known. UC-CFH, GMBL."""
    return Radii(math.sqrt(2.0 * log), linear * log, flat=math.sqrt(0.5 * log), less=less)


class Planning(NamedTuple):
    """When it is time for the next policy, and how it is planned; those that step have `planned` = False."""

    planned: bool = False
    growth: float = 1.0  # visits of some row, against those that the model knows, after which it is time,
    least: float = 1.0  # but so many more at least
    singly: bool = False  # the model then learns of such rows alone, or of all
    extended: bool = False  # plan over the box, or on the empirical model
    sign: float = 1.0  # of the bonus of margins
    share: float = 0.0  # of what the bonus takes from margins, that goes to the reward: share + share_by_slack / slack
    share_by_slack: float = 0.0
    warm_up: float = 0.0  # episodes of the safe policy before others, times slack^2,
    first: int = 0  # or as they are
    half: bool = False  # the safe policy is played until half its slack is certain


class Stepping(NamedTuple):
    """How policy and prices step. A step falls as k^-power in episode k."""

    price_step: float = 0.0
    adaptive: bool = False  # that of prices is AdaGrad's,
    relative: bool = False  # and in proportion to prices above 1
    plain: bool = False  # prices step by values without a bonus
    ahead: bool = False  # a policy steps for the prices that sqrt(k) more episodes like the last would lead to
    price_bound: float = math.inf
    late: bool = False  # prices step by the values before this evaluation
    queued: bool = False  # prices are queues times their step, which falls: as k^-1/2, or AdaGrad's
    log_scale: float = 0.0  # of what these are tightened by, if not as k^-1/2 too (`opt_pess_primal_dual`)
    greedy: bool = False
    extended: bool = False  # the sweep is over the box; there is then no bonus
    policy_step: float = 0.0
    policy_power: float = 0.0
    lowest_log: float = -10.0  # of a chance, against that of the best action. Lower is no better, but takes longer to
    # come back from: with -200, a price that was too high for a while decided about the rest of a run
    uniform: float = 0.0  # share of the uniform policy, mixed in before a step
    tau: float = 0.0  # weight of the entropy
    tau_power: float = 0.0


class Published(NamedTuple):
    """What an algorithm has for a run, by its paper's formulas or by settings that take their place."""

    theorem: str
    needed: float  # how many `units` the `target` takes,
    radii: Radii = Radii()
    target: str = "a regret of a tenth of the horizon per episode, by the order of its bound alone,"
    units: str = "episodes"
    found: float | None = None  # and how many the run has; None: its episodes
    departs: tuple[str, bool] = ("", False)  # one more reason for which the theorem says nothing, if it applies
    single: bool = False  # whether the paper has one constraint only,
    random_start: bool = False  # several starts, which the empirical frequencies of a model have no radius for,
    random_signals: bool = False  # and rewards and signals of a pair that are random
    span: Any = 1.0  # [X] or of all: of the bonus, with the paper's radii; otherwise spans follow the policy
    planning: Planning = Planning()
    stepping: Stepping = Stepping()
    spare: Any = 0.0  # [I] or of all: the slack of a safe policy, nan: what its episodes show; or of pessimism
    said: Mapping[str, float] = {}  # further settings, by name

    def prepared(self, settings: Any, frame: Frame, state: Any, constants: Any, became: Mapping[str, Any]) -> Prepared:
        """The beginning of a run: what its settings `became`, and the theorem, or in figures why it says nothing."""
        online, found = settings.algorithm.access == "online", frame.K if self.found is None else self.found
        said: dict[str, float | str] = {"episodes": frame.K, "average": settings.average} if online else {}
        if frame.truncated:
            said["truncated"] = f"after {frame.H} steps, to one stationary policy"
            said["epsilon"] = settings.epsilon or TRUNCATED
        not_given, right = taken_for_known(settings) if frame.bounds > 0 else ({}, "")
        takes, likely = stated(self.needed, digits=2), kept_in_digits(1.0 - settings.delta, True, 1e-16)
        gaps = {
            "practical radii, without its logarithms": not getattr(settings, "as_published", True),
            "a truncated problem": frame.truncated,
            f"{found:,.0f} {self.units}: {self.target} takes {takes} of them": found < self.needed,
            self.departs[0]: self.departs[1],
            "several constraints": self.single and frame.bounds > 1,
            "a start that may be random": not (self.random_start or frame.one_start),
            "rewards or signals of a step that may be random": not (self.random_signals or frame.same_signals),
            **not_given,
        }
        guarantee = guarantee_unless(gaps, f"{self.theorem}, with probability {likely}{right}")
        return Prepared(state, constants, 0, said | dict(became) | dict(self.said), guarantee)


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

    delta: float = field(default=0.05, metadata=checks.INSIDE)
    average: str = field(default="all", metadata=checks.AVERAGE)
    epsilon: float | None = field(default=None, metadata=checks.INSIDE)

    def require(self, simulator: Simulator) -> None:
        """Refuse a problem that the algorithm is not for."""


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

    def radii(self, paper: Radii, **ours: Any) -> Radii:
        """The paper's, or the practical ones with these changes; a part of them that is not given is 0."""
        own = practical(float(self.root or 0), float(self.linear or 0))
        return paper if self.as_published else own._replace(**ours)


@dataclass(frozen=True, repr=False, kw_only=True)
class PlanningSettings(OptimisticSettings):
    """Of the learners that plan with constraints.

    Parameters
    ----------
    growth : float, at least 1
        Plan anew when some pair has been visited that many times as often as at the last plan; 1: after every episode.
    """

    growth: float = field(default=2.0, metadata=checks.AT_LEAST_ONE)

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

    def require(self, simulator: Simulator) -> None:
        """Without a bound to keep, or a policy that keeps it, there is nothing to do."""
        name = self.algorithm.name
        if simulator.n_constraints == 0:
            raise InvalidInput(f"{name} is for problems with bounds, and this one has none: use another algorithm")
        if self.safe is None:
            raise InvalidInput(
                f"{name} needs safe=, a policy that is known to be in bounds, such as "
                f"ib.solve(cmdp.tightened(0.1)).policy where the model is known"
            )

    def guarded(self, frame: Frame, span: float, share: float, by_slack: float, **how: Any) -> dict[str, Any]:
        """Of `Published`, where the paper has this span of the margins' bonus, and these shares."""
        shares = (share, by_slack) if self.share is None else (float(self.share), 0.0)
        planning = self.planning(sign=-1.0, share=shares[0], share_by_slack=shares[1], **how)
        spare = np.nan if self.slack is None else frame.slack(self.slack)
        return dict(span=np.array([0.0, *np.full(frame.bounds, span)]), spare=spare, planning=planning)


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

    @property
    def departs(self) -> tuple[str, bool]:
        steps = (getattr(self, name, None) for name in ("price_step", "policy_step", "tau"))
        return "steps that are not its own", any(step is not None for step in steps)

    def steps(self, frame: Frame, price: float, bound: float = math.inf, policy: float = 0.0, **how: Any) -> Stepping:
        """With the paper's steps and bound of the prices, or the preset's."""
        if self.price_step is not None:
            price, bound = float(self.price_step), math.inf
            how |= dict(adaptive=True, relative=True, plain=True, ahead=not how.get("greedy"))
        own = getattr(self, "policy_step", None)
        if own is not None:
            policy, how["policy_power"] = float(own / frame.W), 0.5
        return Stepping(price_step=price, price_bound=bound, policy_step=policy, **how)


@dataclass(frozen=True, repr=False, kw_only=True)
class SoftmaxSettings(SweepSettings):
    """Of those that change a policy step by step, too.

    Parameters
    ----------
    policy_step : float, optional
        c of the policy's step in episode k, c / (W sqrt(k)). Default: the paper's step.
    """

    policy_step: float | None = field(default=None, metadata=checks.POSITIVE)
