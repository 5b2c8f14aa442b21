"""The loop of the learners that make one backward sweep an episode, and move prices, or prices and policy, by a step.

Before episode k, on the model of what was seen, with bonuses, every value within what is possible:

    greedy     pi_k = argmax of Q_r + sum_i u_i Q_gi, backwards; then the prices step by the values g_i of its margins
    softmax    evaluate pi_k-1:  Q_r, Q_gi, g_i;   pi_k ~ pi_k-1 exp( eta (Q_r + sum_i u_i Q_gi) );   then the prices

    u_i <- (1 - s tau) u_i - s g_i, in [0, bound],     s: the paper's, or the preset's (`prices`)

A `Rule` has all that they differ in. The first policy is uniform, or greedy where nothing is known: the first actions.
The presets depart from the papers in two things more, both in what the prices see.

* The bonus is for trying things out: it belongs into the plan. Prices that step by values with a bonus let the policy
  miss its bounds by just that much, in every episode. They step by g_i WITHOUT it, of the same policy, from a forward
  pass. What was never tried is still worth the most that it can be. (Not where prices are queues: these have a margin.)
* Where the policy moves by steps, too, it lags behind the prices, and both swing like a pendulum: pi adds up u, and u
  adds up g. The plan takes the prices that sqrt(k) more episodes like the last would lead to, max(0, u - sqrt(k) s g):
  friction, as the quadratic term of an augmented Lagrangian is. Then the last policy settles, and so does the mixture.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Algorithm, Answer, Prepared
from inbounds.algorithms.episodic.confidence import Confidence
from inbounds.algorithms.episodic.counts import Counts, Model, fill_signals, fill_spans, new_counts, new_model, refresh
from inbounds.algorithms.episodic.doubling import OptimisticSettings
from inbounds.algorithms.episodic.frame import Frame, said_of, scaled_slack
from inbounds.algorithms.episodic.judging import NOBODY, Judge
from inbounds.algorithms.episodic.playing import (
    EPISODE,
    POLICY,
    STAGE,
    Play,
    answer,
    begin,
    finish,
    last_policy,
    mixed_policy,
    new_play,
    step,
)
from inbounds.algorithms.episodic.prices import FIRST_SQUARE, adaptive_step
from inbounds.algorithms.episodic.sweeps import Swept, follow, new_sweep, start_values, sweep
from inbounds.algorithms.kernels import softmax_row
from inbounds.algorithms.settings import guarantee_unless
from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled
from inbounds.problem.simulator import Simulator

LOWEST_LOG = -10.0
"""Of a chance, against that of the best action. Lower is no better, but takes longer to come back from: with -200, a
price that was too high for a while decided about the rest of a run."""


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

    def gaps(self, *found: Any) -> dict[str, bool]:
        steps = (getattr(self, name, None) for name in ("price_step", "policy_step", "tau"))
        return super().gaps(*found) | {"steps that are not its own": any(step is not None for step in steps)}

    def price_rule(self, paper: float, bound: float = math.inf) -> dict[str, Any]:
        """The paper's price step and bound, or the preset's step."""
        if self.price_step is None:
            return dict(price_step=paper, price_bound=bound)
        return dict(price_step=float(self.price_step), adaptive=True)

    def slack(self, simulator: Simulator, frame: Frame) -> float:
        """The least value of a margin that the Slater constant stands for, as a sum over an episode."""
        slack = scaled_slack(1.0 if self.slater is None else self.slater, simulator, frame)
        return float(slack.min(initial=frame.rest[0]))


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
        """The paper's step of the policy, or the practical one."""
        if self.policy_step is None:
            return dict(policy_step=paper)
        return dict(policy_step=float(self.policy_step / frame.rest[0]), policy_power=0.5)


def efroni_price_step(settings: SweepSettings, simulator: Simulator, frame: Frame) -> float:
    """Of Efroni et al. 2020: rho / (H sqrt(I K)), where rho = H / slack bounds the prices."""
    steps = frame.episodes * max(simulator.n_constraints, 1)
    return 1.0 / (settings.slack(simulator, frame) * math.sqrt(steps))


class Rule(NamedTuple):
    """What tells the algorithms apart. A step falls as k^-power in episode k."""

    price_step: float
    price_power: float = 0.0
    adaptive: bool = False  # the preset's
    price_bound: float = math.inf
    late: bool = False  # prices step by the values before this evaluation
    queued: bool = False  # prices are queues times the step: queue <- max(0, queue - g + pessimism), see `pessimism`
    log_scale: float = 0.0
    greedy: bool = False
    extended: bool = False  # the sweep is over the box; there is then no bonus
    policy_step: float = 0.0
    policy_power: float = 0.0
    uniform: float = 0.0  # share of the uniform policy, mixed in before a step
    tau: float = 0.0  # weight of the entropy
    tau_power: float = 0.0


class Constants(NamedTuple):
    frame: Frame
    confidence: Confidence
    judge: Judge
    state_of: Ints  # [n]
    rule: Rule
    spanned: bool  # the span of the bonus follows the policy, or stays as it is
    pessimism: Floats  # [I], at the first episode; 0: none is known


class State(NamedTuple):
    play: Play
    counts: Counts
    model: Model
    spans: Floats  # [H + 1, X], of values to go
    signals: Floats  # [H, n, X], with bonuses
    swept: Swept
    chaos: Swept  # of the entropy; without stages where it has no weight
    logs: Floats  # [H, n], of the policy, up to a constant in each state
    prices: Floats  # [I]
    squares: Floats  # [I], AdaGrad's
    levels: Floats  # [I]: u, or the queues; prices are what the plan takes: ahead of u, or queues times a step
    margins: Floats  # [1 + I], values of the policy swept last, that prices step by


def start(
    settings: SweepSettings,
    simulator: Simulator,
    frame: Frame,
    radii: Confidence,
    rule: Rule,
    gaps: Mapping[str, bool],
    theorem: str,
    *,
    span: float = 0.0,
    pessimism: Any = 0.0,
) -> Prepared:
    """The state before the first episode; `radii` and the `span` of the bonus are the paper's."""
    horizon, n_states, n_pairs = len(frame.weights), simulator.pairs.n_states, simulator.pairs.n_pairs
    n_signals, none = len(frame.low), np.zeros(simulator.n_constraints)
    confidence, counts = settings.confidence(radii), new_counts(frame, frame.episodes * horizon)
    spans = frame.rest[:, None] * (frame.high - frame.low)
    if settings.as_published:
        spans[:] = span
    states, spanned = simulator.pairs.states, not settings.as_published
    constants = Constants(frame, confidence, NOBODY, states, rule, spanned, none + pessimism)
    state = State(
        play=new_play(frame),
        counts=counts,
        model=new_model(counts),
        spans=spans,
        signals=np.zeros((horizon, n_pairs, n_signals)),
        swept=new_sweep(horizon, n_states, n_pairs, n_signals),
        chaos=new_sweep(horizon if rule.tau > 0.0 else 0, n_states, n_pairs, 1),
        logs=np.zeros((horizon, n_pairs)),
        prices=none.copy(),
        squares=none + FIRST_SQUARE,
        levels=none.copy(),
        margins=np.zeros(n_signals),
    )
    said = {name: value for name, value in rule._asdict().items() if value not in (False, 0.0, math.inf)}
    parts = {name: getattr(confidence, name) for name in ("root", "linear", "of_visits")}
    settled = said_of(settings, simulator, frame) | {name: float(value) for name, value in (said | parts).items()}
    return Prepared(state, constants, 0, settled, guarantee_unless(gaps, theorem))


@compiled
def advance(state: State, constants: Constants, world: Any, rng: np.random.Generator, drawn: int, until: int) -> int:
    """Steps of episodes, one for each sample."""
    play, frame = state.play, constants.frame
    while drawn < until:
        if play.place[STAGE] < 0:
            begin(play, state.counts, world, rng)
            if play.place[EPISODE] < frame.episodes and (play.place[EPISODE] > 0 or constants.rule.greedy):
                next_policy(state, constants)
        over = step(play, frame, constants.judge, world, rng)
        drawn += 1
        if over:
            finish(play, state.counts, frame, constants.state_of)
            for h in range(frame.weights.shape[0]):
                refresh(state.model, state.counts, constants.confidence, play.path[h, 0] + h * frame.row_step)
    return drawn


@compiled
def next_policy(state: State, constants: Constants) -> None:
    """The next policy, from one sweep over what was seen."""
    play, counts, model, frame, rule = state.play, state.counts, state.model, constants.frame, constants.rule
    swept, signals, episodes = state.swept, state.signals, play.place[EPISODE]
    fill_signals(signals, counts, model, frame, constants.confidence, state.spans, 1.0, 0.0)
    k = episodes + 1.0 if rule.greedy else float(episodes)
    tau = falling(rule.tau, rule.tau_power, k)
    if rule.late:
        step_prices(state, constants, tau, k)
    sweep(signals, state.prices, play.policy, counts, model, frame, rule.greedy, rule.extended, True, swept)
    if constants.spanned and episodes > 0:
        fill_spans(state.spans, swept.values, counts.acted, frame, False)
    if rule.greedy:
        for h in range(play.policy.shape[0]):
            for pair in range(play.policy.shape[1]):
                play.policy[h, pair] = 0.0
            for s in range(swept.chosen.shape[1]):
                play.policy[h, swept.chosen[h, s]] = 1.0
    if rule.adaptive and not rule.queued:
        known = (counts.starts, model.length, counts.successors, model.chances, counts.means, signals)
        follow(play.policy, frame, *known, state.margins)
    else:
        start_values(counts, swept.values, state.margins)
    if not rule.greedy:
        step_policy(state, constants, tau, k)
    if not rule.late:
        step_prices(state, constants, tau, k)
    play.place[POLICY] += 1


@compiled
def falling(first: float, power: float, k: float) -> float:
    return first * math.exp(-power * math.log(k)) if power > 0.0 else first


@compiled
def step_policy(state: State, constants: Constants, tau: float, k: float) -> None:
    """pi <- pi^(1 - eta tau) exp( eta (Q + tau E) ), where E is the entropy to go."""
    frame, rule, policy, logs = constants.frame, constants.rule, state.play.policy, state.logs
    eta = falling(rule.policy_step, rule.policy_power, k)
    if tau > 0.0:
        sweep_entropy(state, frame)
    for h in range(policy.shape[0]):
        for s in range(frame.offsets.shape[0] - 1):
            first, last = frame.offsets[s], frame.offsets[s + 1]
            for pair in range(first, last):
                if rule.uniform > 0.0:
                    mixed = (1.0 - rule.uniform) * policy[h, pair] + rule.uniform / (last - first)
                    logs[h, pair] = math.log(mixed)
                target = state.swept.combined[h, pair]
                if tau > 0.0:
                    target += tau * (state.chaos.combined[h, pair] - logs[h, pair])
                logs[h, pair] += eta * target
            softmax_row(logs[h], policy[h], first, last)
            for pair in range(first, last):
                logs[h, pair] = max(logs[h, pair], LOWEST_LOG)


@compiled
def sweep_entropy(state: State, frame: Frame) -> None:
    """The entropy to go of the policy, of which that of the state itself is the same for all its pairs."""
    policy, nothing = state.play.policy, np.zeros(0)
    entropy = np.zeros((policy.shape[0], policy.shape[1], 1))
    for h in range(policy.shape[0]):
        for s in range(frame.offsets.shape[0] - 1):
            own = 0.0
            for pair in range(frame.offsets[s], frame.offsets[s + 1]):
                if policy[h, pair] > 0.0:
                    own -= policy[h, pair] * math.log(policy[h, pair])
            for pair in range(frame.offsets[s], frame.offsets[s + 1]):
                entropy[h, pair, 0] = own
    sweep(entropy, nothing, policy, state.counts, state.model, frame, False, False, False, state.chaos)


@compiled
def step_prices(state: State, constants: Constants, tau: float, k: float) -> None:
    """By the values of the margins that were swept last."""
    rule, levels = constants.rule, state.levels
    for i in range(levels.shape[0]):
        margin, rate = state.margins[1 + i], falling(rule.price_step, rule.price_power, k)
        if rule.adaptive:
            rate = adaptive_step(state.squares, i, margin, rate if rule.queued else rate * max(levels[i], 1.0))
        if rule.queued:
            levels[i] = max(levels[i] - margin + pessimism(state, constants, i, k), 0.0)
            state.prices[i] = levels[i] * rate
        else:
            levels[i] = min(max((1.0 - rate * tau) * levels[i] - rate * margin, 0.0), rule.price_bound)
            ahead = math.sqrt(k) if rule.adaptive and not rule.greedy else 0.0
            state.prices[i] = max(levels[i] - ahead * rate * margin, 0.0)


@compiled
def pessimism(state: State, constants: Constants, i: int, k: float) -> float:
    """By how much margin i is tightened in episode k, where prices are queues (`opt_pess_primal_dual`)."""
    first, starts = constants.pessimism[i], state.counts.starts
    if constants.rule.log_scale > 0.0:
        log = math.log(k * constants.rule.log_scale)
        return first * (log + 1.0) / math.sqrt(k * log)
    if first == 0.0:
        return 2.0 * math.sqrt(state.squares[i]) / k
    spread, total = 0.0, 0.0
    for s in range(starts.shape[0]):
        off = state.swept.values[0, s, 1 + i] - state.margins[1 + i]
        spread += starts[s] * off * off
        total += starts[s]
    return (first + math.sqrt(spread / total)) / math.sqrt(k)


def extract(state: State, constants: Constants, simulator: Simulator) -> Answer:
    """The mixture of the policies played; the last one of those whose entropy counts, which is what these are for."""
    policy = (last_policy if constants.rule.tau > 0.0 else mixed_policy)(state.play, constants.frame, simulator)
    prices = state.prices if constants.rule.queued else state.levels
    return answer(policy, prices.copy(), state.play, constants.frame, simulator)


learner = partial(
    Algorithm,
    setting="episodes, online",
    needs="Slater constant",
    output="mixture of the policies played",
    criterion="finite-horizon",
    access="online",
    advance=advance,
    extract=extract,
)
"""The record of an algorithm of this kind."""
