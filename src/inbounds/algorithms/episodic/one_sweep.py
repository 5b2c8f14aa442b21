"""The next policy of the learners that make one backward sweep an episode, and move prices, or prices and policy.

Before episode k, on the model of what was seen, with bonuses, every value within what is possible:

    greedy     pi_k = argmax of Q_r + sum_i u_i Q_gi, backwards; then the prices step by the values g_i of its margins
    softmax    evaluate pi_k-1:  Q_r, Q_gi, g_i;   pi_k ~ pi_k-1 exp( eta (Q_r + sum_i u_i Q_gi) );   then the prices

    u_i <- (1 - s tau) u_i - s g_i, in [0, bound],     s: the paper's, or the preset's

The first policy is uniform, or greedy where nothing is known: the first actions. The preset's step is AdaGrad's, which
needs no scale of the problem: G_i <- G_i + g_i^2 (from .01), s = c max(1, u_i) / sqrt(G_i). The papers' fixed steps, of
order 1 / (H sqrt K), fail where prices are above 3 or margins small against H; without the factor of u_i it takes all
of 10^4 episodes to get to 4. The presets depart from the papers in three things more, two of them in what prices see.

* The bonus is for trying things out: it belongs into the plan. Prices that step by values with a bonus let the policy
  miss its bounds by just that much, in every episode. They step by g_i WITHOUT it, of the same policy, from a forward
  pass. What was never tried is still worth the most that it can be. (Not where prices are queues: these have a margin.)
* Where the policy moves by steps, too, it lags behind the prices, and both swing like a pendulum: pi adds up u, and u
  adds up g. The plan takes the prices that sqrt(k) more episodes like the last would lead to, max(0, u - sqrt(k) s g):
  friction, as the quadratic term of an augmented Lagrangian is. Then the last policy settles, and so does the mixture.
* The bonus stands for a box, in which one successor more than those seen may have a chance of 1 / n. Without a radius
  for that one, what a pair is worth after a first visit that went badly is raised by half the span: of 120 runs of two
  learners on a generated problem three never tried such a pair again, and lost .8. Prices see no bonus, so it is cheap.
"""

from __future__ import annotations

import math

import numpy as np

from inbounds.algorithms.episodic.model import fill_means, fill_signals, fill_spans, refresh
from inbounds.algorithms.episodic.playing import EPISODE, POLICY
from inbounds.algorithms.episodic.rules import Constants, State
from inbounds.algorithms.episodic.sweeps import follow, new_sweep, start_values, sweep
from inbounds.algorithms.kernels import softmax_row
from inbounds.arrays import Floats
from inbounds.numerics.compiled import compiled

FIRST_SQUARE = 0.01
"""G at the start."""
LOWEST_LOG = -10.0
"""Of a chance, against that of the best action. Lower is no better, but takes longer to come back from: with -200, a
price that was too high for a while decided about the rest of a run."""
STANDARD_ERRORS = 2.0
"""Of the mean of its margin, by which a queue asks for more. With 1 the policy returned is out of the bounds of the
zoo's queue by .004 in the mean of twenty runs, with 1.5 by .002."""


@compiled
def step(state: State, constants: Constants) -> None:
    """The next policy, from one sweep over what was seen, and the next prices."""
    play, model, frame, rule = state.play, state.model, constants.frame, constants.stepping
    signals, swept, episodes = state.signals, state.swept, play.place[EPISODE]
    k = episodes + 1.0 if rule.greedy else float(episodes)
    tau = falling(rule.tau, rule.tau_power, k)
    refresh(model, constants.confidence, 1.0, 1.0)
    fill_signals(signals, model, frame, constants.confidence, state.spans, 1.0, 0.0)
    if rule.late:
        step_prices(state, constants, tau, k)
    sweep(signals, state.ahead, play.policy, model, frame, rule.greedy, rule.extended, True, swept)
    if constants.adaptive and episodes > 0:
        fill_spans(state.spans, swept.values, model.acted, frame, False)
    if rule.adaptive and not rule.queued:
        fill_means(signals, model, frame, True)
        follow(play.policy, signals, model, frame, False, swept, state.margins)
    else:
        start_values(model, swept.values, state.margins)
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
    """pi <- pi^(1 - eta tau) exp( eta (Q + tau E) ), where E is the entropy to go.

    The entropy of a state itself is the same for all its pairs.
    """
    frame, rule, policy, logs = constants.frame, constants.stepping, state.play.policy, state.logs
    horizon, n_pairs, offsets, none = policy.shape[0], policy.shape[1], frame.offsets, np.zeros(0)
    eta = falling(rule.policy_step, rule.policy_power, k)
    chaos = new_sweep(horizon if tau > 0.0 else 0, offsets.shape[0] - 1, n_pairs, 1, False)
    if tau > 0.0:
        entropy = np.zeros((horizon, n_pairs, 1))
        for h in range(horizon):
            for s in range(offsets.shape[0] - 1):
                own = 0.0
                for pair in range(offsets[s], offsets[s + 1]):
                    if policy[h, pair] > 0.0:
                        own -= policy[h, pair] * math.log(policy[h, pair])
                entropy[h, offsets[s] : offsets[s + 1]] = own
        sweep(entropy, none, policy, state.model, frame, False, False, False, chaos)
    for h in range(horizon):
        for s in range(offsets.shape[0] - 1):
            first, last = offsets[s], offsets[s + 1]
            for pair in range(first, last):
                if rule.uniform > 0.0:
                    logs[h, pair] = math.log((1.0 - rule.uniform) * policy[h, pair] + rule.uniform / (last - first))
                target = state.swept.combined[h, pair]
                if tau > 0.0:
                    target += tau * (chaos.combined[h, pair] - logs[h, pair])
                logs[h, pair] += eta * target
            softmax_row(logs[h], policy[h], first, last)
            for pair in range(first, last):
                logs[h, pair] = max(logs[h, pair], LOWEST_LOG)


@compiled
def adaptive_step(squares: Floats, i: int, margin: float, rate: float) -> float:
    """The step of price i for the value of its margin; squares [I] are the G of the module, `rate` is what is above."""
    squares[i] += margin * margin
    return rate / math.sqrt(squares[i])


@compiled
def step_prices(state: State, constants: Constants, tau: float, k: float) -> None:
    """By the values of the margins that were swept last."""
    rule, prices = constants.stepping, state.prices
    for i in range(prices.shape[0]):
        margin, rate = state.margins[1 + i], falling(rule.price_step, rule.price_power, k)
        if rule.adaptive:
            rate = adaptive_step(state.squares, i, margin, rate if rule.queued else rate * max(prices[i], 1.0))
        if rule.queued:
            state.queues[i] = max(state.queues[i] - margin + pessimism(state, constants, i, k), 0.0)
            prices[i] = state.queues[i] * rate
            state.ahead[i] = prices[i]
        else:
            prices[i] = min(max((1.0 - rate * tau) * prices[i] - rate * margin, 0.0), rule.price_bound)
            episodes = math.sqrt(k) if rule.adaptive and not rule.greedy else 0.0
            state.ahead[i] = max(prices[i] - episodes * rate * margin, 0.0)


@compiled
def pessimism(state: State, constants: Constants, i: int, k: float) -> float:
    """By how much margin i is tightened in episode k, where prices are queues (`opt_pess_primal_dual`)."""
    if constants.stepping.log_scale > 0.0:
        log = math.log(k * constants.stepping.log_scale)
        return constants.spare[i] * (log + 1.0) / math.sqrt(k * log)
    seen, play = state.play.place[EPISODE], state.play
    if seen == 0:
        return 0.0
    off = play.sums[seen - 1, 1 + i] - state.shown[i] / max(seen - 1, 1)  # from the mean before
    state.shown[i] += play.sums[seen - 1, 1 + i]
    state.around[i] += off * off * (seen - 1.0) / seen
    return min(STANDARD_ERRORS * math.sqrt(state.around[i]) / seen, constants.spare[i])
