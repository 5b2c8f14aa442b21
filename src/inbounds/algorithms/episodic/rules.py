"""What tells the learners that keep a model apart, as data; and all that one of them remembers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from inbounds.algorithms.episodic.confidence import Confidence
from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.model import Model
from inbounds.algorithms.episodic.playing import Judge, Play
from inbounds.algorithms.episodic.sweeps import Swept
from inbounds.arrays import Floats, Ints


class Planning(NamedTuple):
    """When it is time for the next policy, and how `doubling` plans it; `planned` is False of those that step."""

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
    """How `one_sweep` steps. A step falls as k^-power in episode k."""

    price_step: float = 0.0
    price_power: float = 0.0
    adaptive: bool = False  # the preset's
    price_bound: float = math.inf
    late: bool = False  # prices step by the values before this evaluation
    queued: bool = False  # prices are queues times the step: queue <- max(0, queue - g + `pessimism`)
    log_scale: float = 0.0
    greedy: bool = False
    extended: bool = False  # the sweep is over the box; there is then no bonus
    policy_step: float = 0.0
    policy_power: float = 0.0
    uniform: float = 0.0  # share of the uniform policy, mixed in before a step
    tau: float = 0.0  # weight of the entropy
    tau_power: float = 0.0


class Published(NamedTuple):
    """What an algorithm has for a run, by its paper's formulas or by settings that take their place."""

    radii: Confidence
    theorem: str
    needed: float  # of how many of these `unit`s, episodes or samples, the `target` takes; more is no theorem's
    target: str = "a regret of a tenth of the horizon per episode, by the order of its bound alone,"
    unit: str = "episodes"
    departs: tuple[str, bool] = ("", False)  # one more reason for which the theorem says nothing, if it applies
    span: Any = 1.0  # [X] or of all: of the bonus, with the paper's radii; otherwise spans follow the policy
    planning: Planning = Planning()
    stepping: Stepping = Stepping()
    spare: Any = 0.0  # [I] or of all, as in `Constants`
    said: Mapping[str, float] = {}  # further settings, by name


class Constants(NamedTuple):
    frame: Frame
    confidence: Confidence
    judge: Judge
    adaptive: bool  # the span of the bonus follows the policy, or stays as it is
    planning: Planning
    stepping: Stepping
    safe: Floats  # [H, n], or empty
    spare: Floats  # [I], of each bound: that of the safe policy, nan: what its episodes showed; or of pessimism


class State(NamedTuple):
    play: Play
    model: Model
    spans: Floats  # [H + 1, X], of values to go
    signals: Floats  # [H, n, X]
    swept: Swept
    logs: Floats  # [H, n], of the policy, up to a constant in each state
    prices: Floats  # [I]
    ahead: Floats  # [I], what a step takes for prices
    queues: Floats  # [I]
    squares: Floats  # [I], AdaGrad's
    margins: Floats  # [1 + I], values of the policy swept last, that prices step by
    marks: Ints  # [3]: whether it is time for the next policy; whether the safe one is played; how often it was
    shown: Floats  # [I], sums of the margins in these; where prices are queues in all,
    around: Floats  # [I], and of the squares of their distances from the mean


DUE, SAFE, TIMES = 0, 1, 2
