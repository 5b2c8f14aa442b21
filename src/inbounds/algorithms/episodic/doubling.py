"""The loop of the learners that plan with constraints: when a count has doubled, on all that was

    at the start of an episode, if some row has twice the visits that the model knows of (or any, the first time):
        bring the model up to the counts, choose a policy that is best in bounds for it
    play the episode, count

They differ in how the model is made hopeful: signals with a bonus, or the whole box of models; in the sign of the bonus
of margins; in what is played where no policy of the model is in bounds: a safe one, or the one that is least out of
them. The papers plan before every episode. That costs thirty to sixty times as much and gains little: `growth`.

Why the least. A problem in bounds whose hopeful model has none means that some pair was unlucky, and is thought too
little of. The policy before need not visit it: then no count ever says otherwise, and the run is lost. The least out of
bounds takes, of what is known, whatever may help the margins most, until its counts either show a policy in bounds or
are certain that there is none; and where a problem has none, it is what one would want.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Answer, Prepared
from inbounds.algorithms.episodic.confidence import Confidence, bernstein, practical
from inbounds.algorithms.episodic.counts import (
    Counts,
    Model,
    fill_means,
    fill_signals,
    fill_spans,
    new_counts,
    new_model,
    refresh,
    refresh_all,
)
from inbounds.algorithms.episodic.frame import EpisodicSettings, Frame, frame_of, horizon_of, said_of
from inbounds.algorithms.episodic.judging import NOBODY, Judge
from inbounds.algorithms.episodic.planning import constrained_plan
from inbounds.algorithms.episodic.playing import (
    EPISODE,
    POLICY,
    STAGE,
    Play,
    answer,
    begin,
    finish,
    mixed_policy,
    new_play,
    step,
)
from inbounds.algorithms.episodic.sweeps import new_sweep, start_values, sweep
from inbounds.algorithms.kernels import FIRST_STARTS
from inbounds.algorithms.settings import guarantee_unless
from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled
from inbounds.problem.draws import draw_start
from inbounds.problem.simulator import Simulator

PRACTICAL = dict(root=0.1, linear=1.0, average="second half")
"""Of the optimistic presets: scanned on six problems, and on two that were kept apart."""
A_TENTH = "a regret of a tenth of the horizon per episode, by the order of its bound alone,"


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

    def confidence(self, paper: Confidence, by_visits: bool = False) -> Confidence:
        """The paper's, or the practical one; a part of it that is not given is 0."""
        return paper if self.as_published else practical(float(self.root or 0), float(self.linear or 0), by_visits)

    def gaps(self, simulator: Simulator, needed: float, found: float, what: str, target: str) -> dict[str, bool]:
        """What of a run the paper's theorem says nothing of, in figures: of `what` it needs so much for a `target`."""
        return {
            "practical radii, without its logarithms": not self.as_published,
            "a truncated problem": "discount" in simulator.criterion,
            f"{found:,.0f} {what}: {target} takes {needed:.1e} of them": found < needed,
        }


@dataclass(frozen=True, repr=False, kw_only=True)
class PlanningSettings(OptimisticSettings):
    """Of the learners that plan with constraints.

    Parameters
    ----------
    growth : float, at least 1
        Plan anew when some pair has been visited that many times as often as at the last plan; 1: after every episode.
    """

    growth: float = field(default=2.0, metadata=checks.a_number("of at least 1", lambda value: value >= 1.0))


def efroni(settings: Any, simulator: Simulator, samples: int) -> Confidence:
    """The radii of Efroni et al. 2020."""
    horizon, n_pairs = horizon_of(settings, simulator), simulator.pairs.n_pairs
    outcomes = 6.0 * n_pairs * horizon * max(samples // horizon, 1) / settings.delta
    return bernstein(math.log(outcomes), 2.0 * math.log(outcomes * (1 + simulator.n_constraints)))


def efroni_gaps(settings: Any, simulator: Simulator, samples: int) -> dict[str, bool]:
    """Where regret of order sqrt(S N H^4 K), with N = S, is a tenth of the horizon per episode."""
    horizon = horizon_of(settings, simulator)
    needed = 100.0 * simulator.pairs.n_states**2 * horizon**2
    return settings.gaps(simulator, needed, samples // horizon, "episodes", A_TENTH)


def value_bound(settings: Any, simulator: Simulator) -> Floats:
    """W for every signal [X], of any problem: what the papers' H bounds."""
    weights = simulator.criterion.get("discount", 1.0) ** np.arange(horizon_of(settings, simulator), dtype=np.float64)
    return np.full(1 + simulator.n_constraints, weights.sum())


class Constants(NamedTuple):
    frame: Frame
    confidence: Confidence
    judge: Judge
    state_of: Ints  # [n]
    growth: float
    adaptive: bool  # the span of the bonus follows the policy, or stays as it is
    extended: bool = False  # plan over the box, or on the empirical model
    least: float = 1.0  # visits, that a row must have gained before the model knows them
    singly: bool = False  # the model learns of a row when that row has doubled, or of all
    sign: float = 1.0  # of the bonus of margins
    share: float = 0.0  # of what the bonus takes from margins, that goes to the reward: share + share_by_slack / slack
    share_by_slack: float = 0.0
    warm_up: float = 0.0  # episodes of the safe policy before others, times slack^2,
    first: int = 0  # or as they are
    half: bool = False  # the safe policy is played until half its slack is certain
    safe: Floats = np.zeros((0, 1))  # [H, n], or empty
    slack: Floats = np.zeros(0)  # [I], of the safe policy; nan: what its episodes showed


class State(NamedTuple):
    play: Play
    counts: Counts
    model: Model
    spans: Floats  # [H + 1, X], of values to go
    prices: Floats  # [I]
    marks: Ints  # [4]: whether to plan; plans so far; whether the safe policy is played; how often it was
    shown: Floats  # [I], sums of the margins in these


def start(
    settings: Any,
    simulator: Simulator,
    samples: int,
    confidence: Confidence,
    gaps: Mapping[str, bool],
    theorem: str,
    *,
    fixed: Any,
    **how: Any,
) -> Prepared:
    """The state before the first episode; `fixed` spans of the bonus [X] are the paper's, None: they are adaptive.

    `gaps` and `theorem` make the guarantee, as in `guarantee_unless`; `how` are further constants.
    """
    frame = frame_of(settings, simulator, samples)
    counts, none = new_counts(frame, samples), np.zeros(simulator.n_constraints)
    spans = frame.rest[:, None] * (frame.high - frame.low)
    if fixed is not None:
        spans[:] = fixed
    states, growth = simulator.pairs.states, float(settings.growth)
    constants = Constants(frame, confidence, NOBODY, states, growth, fixed is None, **how)
    marks = np.array([1, 0, 0, 0])
    state = State(new_play(frame), counts, new_model(counts), spans, none, marks, none.copy())
    used = {name: getattr(confidence, name) for name in ("root", "linear", "of_visits") if getattr(confidence, name)}
    said = said_of(settings, simulator, frame) | used | {"growth": settings.growth}
    chance = f", with probability {1.0 - settings.delta:g}"
    return Prepared(state, constants, 0, said, guarantee_unless(gaps, theorem + chance))


@compiled
def advance(state: State, constants: Constants, world: Any, rng: np.random.Generator, drawn: int, until: int) -> int:
    """Steps of episodes, one for each sample. Those that are to be safe watch some starts first, which are free."""
    play, frame = state.play, constants.frame
    if drawn == 0 and until > 0 and constants.safe.shape[0] > 0:
        for _ in range(FIRST_STARTS):
            state.counts.starts[draw_start(world, rng)] += 1.0
    while drawn < until:
        if play.place[STAGE] < 0:
            begin(play, state.counts, world, rng)
            if state.marks[0] == 1 and play.place[EPISODE] < frame.episodes:
                replan(state, constants)
        over = step(play, frame, constants.judge, world, rng)
        drawn += 1
        if over:
            take_in(state, constants)
    return drawn


@compiled
def take_in(state: State, constants: Constants) -> None:
    """Count an episode that is over, and see whether it calls for a new plan."""
    play, frame, model, counts = state.play, constants.frame, state.model, state.counts
    finish(play, counts, frame, constants.state_of)
    if state.marks[2] == 1:
        state.marks[3] += 1
        for i in range(state.shown.shape[0]):
            state.shown[i] += play.sums[play.place[EPISODE] - 1, i + 1]
    for h in range(frame.weights.shape[0]):
        row = play.path[h, 0] + h * frame.row_step
        known = model.visits[row]
        if counts.visits[row] - known >= max(constants.least, (constants.growth - 1.0) * known):
            state.marks[0] = 1
            if constants.singly:
                refresh(model, counts, constants.confidence, row)


@compiled
def replan(state: State, constants: Constants) -> None:
    """A policy for what was seen so far."""
    play, frame, counts, model = state.play, constants.frame, state.counts, state.model
    confidence, sign, spans = constants.confidence, constants.sign, state.spans
    horizon, n_pairs, n_signals = play.policy.shape[0], play.policy.shape[1], spans.shape[1]
    signals = np.empty((horizon, n_pairs, n_signals))
    swept = new_sweep(horizon, counts.acted.shape[0], n_pairs, n_signals)
    if not constants.singly:
        refresh_all(model, counts, confidence)
    if constants.adaptive and state.marks[1] > 0:
        fill_means(signals, counts, frame)
        sweep(signals, state.prices, play.policy, counts, model, frame, False, False, True, swept)
        fill_spans(spans, swept.values, counts.acted, frame, confidence.of_visits > 0.0)
    state.marks[0] = 0
    state.marks[1] += 1
    share, certain, with_safe = constants.share, True, constants.safe.shape[0] > 0
    if with_safe:
        slack = np.inf
        for i in range(n_signals - 1):
            slack = min(slack, slack_of(state, constants, i))
        warm = play.place[EPISODE] * slack * slack >= constants.warm_up and play.place[EPISODE] >= constants.first
        certain = slack > 0.0 and warm
        if certain:
            share += constants.share_by_slack / slack
    fill_signals(signals, counts, model, frame, confidence, spans, sign, share)
    if certain and constants.half:
        sums = np.empty(n_signals)
        sweep(signals, state.prices, constants.safe, counts, model, frame, False, False, False, swept)
        start_values(counts, swept.values, sums)
        for i in range(n_signals - 1):
            certain = certain and sums[i + 1] > 0.5 * slack_of(state, constants, i)
    policy, prices = np.empty(play.policy.shape), state.prices.copy()
    tried = constrained_plan(signals, counts, model, frame, constants.extended, prices, policy) if certain else 0
    if tried > 0 or not with_safe:
        play.policy[:, :] = policy
        if tried > 0:  # those of a plan out of bounds are the cost of what is missing
            state.prices[:] = prices
        state.marks[2] = 0
        play.place[POLICY] += 1
    elif with_safe and state.marks[2] == 0:
        play.policy[:, :] = constants.safe
        state.marks[2] = 1
        play.place[POLICY] += 1


@compiled
def slack_of(state: State, constants: Constants, i: int) -> float:
    """The margin of the safe policy: as given, or the mean of those seen, 0 before."""
    if constants.slack[i] == constants.slack[i]:  # is a number
        return constants.slack[i]
    return state.shown[i] / max(state.marks[3], 1)


def extract(state: State, constants: Constants, simulator: Simulator) -> Answer:
    policy = mixed_policy(state.play, constants.frame, simulator)
    return answer(policy, state.prices.copy(), state.play, constants.frame, simulator)


PLAYED: dict[str, Any] = dict(
    setting="episodes, online",
    output="mixture of the policies played",
    criterion="finite-horizon",
    access="online",
    advance=advance,
    extract=extract,
)
"""What is the same in the records of these learners."""
