"""The loop of the learners that keep a model: at the start of an episode, if it is time, the model is brought up to the
counts and the next policy is made; the episode is played and counted.

PLANS. When a count has doubled, the next policy is the best in bounds (`exact.box_plan`), for signals with a bonus or
over the whole box of models. The papers plan before every episode, which costs more than twenty times as much and gains
little (`growth`). Where no policy of the model is in bounds it is a safe one, or the one least out of bounds: some pair
may have been unlucky, and is thought too little of; the policy before need not visit it, and then the run is lost. The
least out of bounds takes whatever may help the margins most, until its counts show that there is one, or none.

STEPS. Before episode k one backward sweep, with bonuses, every value within what is possible, and a step:

    greedy     pi_k = argmax of Q_r + sum_i u_i Q_gi, backwards; then the prices step by the values g_i of its margins
    softmax    evaluate pi_k-1:  Q_r, Q_gi, g_i;   pi_k ~ pi_k-1 exp( eta (Q_r + sum_i u_i Q_gi) );   then the prices

    u_i <- (1 - s tau) u_i - s (g_i - eps), in [0, bound],     s: the paper's, or the preset's c max(1, u_i) / sqrt(G_i)

The first policy is uniform, or greedy where nothing is known. G_i, the sum of g_i^2, is AdaGrad's. Only in
`opt_pess_primal_dual` is there an eps. In presets g_i is without bonus, steps of a policy look ahead, and a bonus
counts a successor not yet seen: docs/episodic.md says why.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from inbounds.algorithms.algorithm import Algorithm, Answer, Prepared
from inbounds.algorithms.episodic.frame import Frame, frame_of
from inbounds.algorithms.episodic.model import Model, fill_means, fill_signals, fill_spans, new_model, news, renew, see
from inbounds.algorithms.episodic.playing import Play, answer, begin, finish, new_play, play_on
from inbounds.algorithms.episodic.rules import Planning, Radii, Stepping
from inbounds.algorithms.kernels import FIRST_SQUARE, FIRST_STARTS, adaptive_step, row_entropy, softmax_row
from inbounds.arrays import Floats, Ints
from inbounds.exact.box_plan import constrained_plan
from inbounds.numerics.boxes import Swept, follow, new_sweep, sweep
from inbounds.numerics.compiled import compiled
from inbounds.problem.policy import for_problem
from inbounds.problem.simulator import Simulator
from inbounds.proofs.evidence import draw_starts

PESSIMISM = 2.0
"""Standard errors of the mean of a margin, by which OptPess-PrimalDual asks for more. With 1.5 the policy returned is
out of the bounds of the zoo's queue by .003 in the mean of twenty runs, with 2 by .0003."""
NOT_MET = 1e4
"""What a unit of a bound costs a plan that is not met, in units of W."""


class Constants(NamedTuple):
    frame: Frame
    radii: Radii
    follow_spans: bool  # the span of the bonus follows the policy, or stays as it is
    planning: Planning
    stepping: Stepping
    safe: Floats  # [H, n], or empty
    spare: Floats  # [I], as in `Published`


class State(NamedTuple):
    play: Play
    model: Model
    spans: Floats  # [H + 1, X], of values to go
    signals: Floats  # [H, n, X]
    swept: Swept
    logs: Floats  # [H, n], of the policy, up to a constant in each state
    margins: Floats  # [X], of which the last I: values of the policy swept last, that prices step by
    due: Ints  # [1], whether it is time for the next policy
    safely: Ints  # [2]: whether the safe policy is played; in how many episodes it was
    squares: Floats  # [I], AdaGrad's
    prices: Floats  # [I]
    ahead: Floats  # [I], what a step takes for prices
    shown: Floats  # [I], sums of the margins of the episodes in which the safe policy was played
    chance: Floats  # [I], the variance of margins of episodes about what the model expected: means of squares, in which
    # episode k weighs k (k + 1), so that a model that knew little soon counts for little


def prepare(settings: Any, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    """The state before the first episode, what the settings became, and what the paper's theorem says of the run."""
    frame = frame_of(settings, simulator, samples)
    paper = settings._published(frame)
    radii, planning, stepping = paper.radii, paper.planning, paper.stepping
    signals, margins = np.zeros((frame.H, frame.pairs, 1 + frame.bounds)), np.zeros(1 + frame.bounds)
    spans, logs, safe = frame.rest[:, None] * (frame.high - frame.low), signals[:, :, 0].copy(), np.zeros((0, 1))
    if settings.as_published:
        spans[:] = paper.span
    if getattr(settings, "safe", None) is not None:
        safe = np.array(np.broadcast_to(for_problem(simulator, settings.safe).probabilities, logs.shape), order="C")
    swept = new_sweep(frame.H, frame.S, frame.pairs, 1 + frame.bounds, stepping.extended)
    swept.successors[:], swept.chances[:] = 0, 0.0  # of a state nothing is left to chance
    due, safely = np.full(1, int(planning.planned or stepping.greedy)), np.zeros(2, dtype=np.int64)
    duals = np.full(frame.bounds, FIRST_SQUARE), *np.zeros((4, frame.bounds))
    state = State(new_play(frame), new_model(frame), spans, signals, swept, logs, margins, due, safely, *duals)
    follow_spans = not settings.as_published and max(radii.of_box, radii.of_visits) > 0.0
    constants = Constants(frame, radii, follow_spans, planning, stepping, safe, np.zeros(frame.bounds) + paper.spare)
    named = zip(Stepping._fields, stepping, Stepping(), strict=True)
    became: dict[str, Any] = {name: x for name, x, usual in named if isinstance(x, float) and x != usual}
    became |= {name: getattr(radii, name) for name in ("root", "linear", "of_visits") if getattr(radii, name)}
    became |= {"growth": planning.growth} if hasattr(settings, "growth") else {}
    return paper.prepared(settings, frame, state, constants, became)


@compiled
def advance(state: State, constants: Constants, world: Any, rng: np.random.Generator, drawn: int, until: int) -> int:
    """Steps of episodes, one for each sample. Those that are to be safe watch some starts first, which are free."""
    play, frame, model, rule = state.play, constants.frame, state.model, constants.planning
    if drawn == 0 and until > 0 and constants.safe.shape[0] > 0:
        draw_starts(model.rows, world, rng, 0, FIRST_STARTS)
    while drawn < until:
        if play.stage[0] < 0:
            begin(play, world, rng)
            model.rows.starts[play.state[0]] += 1.0
            if state.due[0] == 1 and play.episode[0] < frame.K:
                state.due[0] = 0
                if rule.planned:
                    by_plan(state, constants)
                else:
                    by_step(state, constants)
        drawn += play_on(play, frame, world, rng, until - drawn)
        if play.stage[0] == frame.H:
            see(model, frame, play.path, play.seen)
            finish(play, frame)
            if state.safely[0] == 1:
                state.safely[1] += 1
                state.shown[:] += play.sums[play.episode[0] - 1, 1:]
            if constants.stepping.greedy:  # the margins are those of the policy played, as the model expected them
                squares = (play.sums[play.episode[0] - 1, 1:] - state.margins[1:]) ** 2
                state.chance[:] += 3.0 / (play.episode[0] + 2.0) * (squares - state.chance)
            for h in range(frame.H):
                if news(model, play.path[h, 0] + h * frame.row_step, rule.least, rule.growth):
                    state.due[0] = 1
    return drawn


def extract(state: State, constants: Constants, simulator: Simulator) -> Answer:
    """The mixture of the policies played; the last one of those whose entropy counts, which is what these are for."""
    return answer(state.play, state.prices.copy(), constants.frame, simulator, last=constants.stepping.tau > 0.0)


def period(constants: Any) -> int:
    """Of the constants of any learner here."""
    return int(constants.frame.H)


online = partial(
    Algorithm,
    prepare=prepare,
    advance=advance,
    extract=extract,
    period=period,
    setting="episodes, online",
    output="mixture of the policies played",
    violation="O(ε)",
    criterion="finite-horizon",
    access="online",
)
"""The record of such an algorithm."""


@compiled
def by_plan(state: State, constants: Constants) -> int:
    """The next policy by a plan for what was seen so far; as in `constrained_plan`, 0 where it is too soon for any."""
    play, model, frame, rule = state.play, state.model, constants.frame, constants.planning
    radii, signals, spans, swept = constants.radii, state.signals, state.spans, state.swept
    renew(model, radii, rule.least if rule.singly else 1.0, rule.growth if rule.singly else 1.0)
    if constants.follow_spans and play.changes[0] > 0:
        fill_means(signals, model, frame, False)
        sweep(signals, state.prices, play.policy, model.rows, frame.least, frame.most, False, swept)
        fill_spans(spans, swept.values, model.acted, frame, radii.of_visits > 0.0)
    share, certain, with_safe, slack = rule.share, True, constants.safe.shape[0] > 0, constants.spare
    if with_safe:
        slack = np.where(np.isnan(slack), state.shown / max(state.safely[1], 1), slack)
        least, episodes = slack.min(), play.episode[0]
        certain = least > 0.0 and episodes * least * least >= rule.warm_up and episodes >= rule.first
        if certain:
            share += rule.share_by_slack / least
    fill_signals(signals, model, frame, radii, spans, rule.sign, share)
    if certain and rule.half:
        follow(constants.safe, signals, model.rows, False, swept, state.margins)
        certain = bool(np.all(state.margins[1:] > 0.5 * slack))
    policy, prices = np.empty(play.policy.shape), state.prices.copy()
    tried = 0
    if certain:
        tried = constrained_plan(signals, model.rows, rule.extended, NOT_MET * frame.W, prices, policy)
    if tried > 0:  # the prices of a plan out of bounds are the cost of what is missing
        state.prices[:] = prices
    safely = with_safe and tried <= 0
    if not safely or state.safely[0] == 0:
        play.policy[:] = constants.safe if safely else policy
        play.changes[0] += 1
    state.safely[0] = int(safely)
    return tried


@compiled
def by_step(state: State, constants: Constants) -> None:
    """The next policy and prices from one sweep over what was seen."""
    play, model, frame, rule = state.play, state.model, constants.frame, constants.stepping
    signals, swept, margins, starts = state.signals, state.swept, state.margins, state.model.rows.starts
    k = play.episode[0] + 1.0 if rule.greedy else float(play.episode[0])
    tau = falling(rule.tau, rule.tau_power, k)
    renew(model, constants.radii, 1.0, 1.0)
    fill_signals(signals, model, frame, constants.radii, state.spans, 1.0, 0.0)
    if rule.late:
        step_prices(state, constants, tau, k)
    sweep(signals, state.ahead, play.policy, model.rows, frame.least, frame.most, rule.greedy, swept)
    if constants.follow_spans and play.episode[0] > 0:
        fill_spans(state.spans, swept.values, model.acted, frame, False)
    if rule.plain:
        fill_means(signals, model, frame, True)
        follow(play.policy, signals, model.rows, False, swept, margins)
    else:
        margins[:] = 0.0
        for s in range(frame.S):
            margins += starts[s] / starts.sum() * swept.values[0, s]
    if not rule.greedy:
        step_policy(state, constants, tau, k)
    if not rule.late:
        step_prices(state, constants, tau, k)
    play.changes[0] += 1


@compiled
def falling(first: float, power: float, k: float) -> float:
    return first * math.exp(-power * math.log(k)) if power > 0.0 else first


@compiled
def step_policy(state: State, constants: Constants, tau: float, k: float) -> None:
    """pi <- pi^(1 - eta tau) exp( eta (Q + tau E) ), where E is the entropy to go.

    The entropy of a state itself is the same for all its pairs.
    """
    frame, rule, policy, logs = constants.frame, constants.stepping, state.play.policy, state.logs
    offsets, eta, anything = frame.offsets, falling(rule.policy_step, rule.policy_power, k), frame.least[:0]
    chaos = new_sweep(frame.H if tau > 0.0 else 0, frame.S, frame.pairs, 1, False)
    if tau > 0.0:
        entropy = np.zeros((frame.H, frame.pairs, 1))
        for h in range(frame.H):
            for s in range(frame.S):
                entropy[h, offsets[s] : offsets[s + 1]] = row_entropy(policy[h], offsets[s], offsets[s + 1])
        sweep(entropy, state.prices[:0], policy, state.model.rows, anything, anything, False, chaos)
    for h in range(frame.H):
        for s in range(frame.S):
            first, last = offsets[s], offsets[s + 1]
            for pair in range(first, last):
                before, gain = max(logs[h, pair], rule.lowest_log), state.swept.combined[h, pair]
                if rule.uniform > 0.0:
                    before = math.log((1.0 - rule.uniform) * policy[h, pair] + rule.uniform / (last - first))
                if tau > 0.0:
                    gain += tau * (chaos.combined[h, pair] - before)
                logs[h, pair] = before + eta * gain
            softmax_row(logs[h], policy[h], first, last)


@compiled
def step_prices(state: State, constants: Constants, tau: float, k: float) -> None:
    """By the values of the margins that were swept last, less what they are tightened by."""
    rule, prices = constants.stepping, state.prices
    for i in range(prices.shape[0]):
        margin, rate, error = state.margins[1 + i], rule.price_step, math.sqrt(state.chance[i] / max(k - 1.0, 1.0))
        if rule.adaptive:
            rate = adaptive_step(state.squares, i, margin, rate * (max(prices[i], 1.0) if rule.relative else 1.0))
        kept, tightened = 1.0 - rate * tau, min(PESSIMISM * error, constants.spare[i])
        if rule.queued:  # the queue stays, and its step falls: by AdaGrad, or to that of the episode planned next
            following = rate / math.sqrt(k + 1.0), 1.0 / (k + 1.0)
            rate, fallen = (rate, margin**2 / state.squares[i]) if rule.adaptive else following
            log = math.log(k * rule.log_scale) if rule.log_scale > 0.0 else 0.0
            grown = (log + 1.0) / math.sqrt(log) if log > 0.0 else 1.0
            kept, tightened = math.sqrt(1.0 - fallen), constants.spare[i] * grown / math.sqrt(k)
        margin -= tightened
        prices[i] = min(max(kept * prices[i] - rate * margin, 0.0), rule.price_bound)
        episodes = math.sqrt(k) if rule.ahead else 0.0
        state.ahead[i] = max(prices[i] - episodes * rate * margin, 0.0)
