"""The next policy of the learners that plan with constraints, when a count has doubled.

They differ in how the model is made hopeful: signals with a bonus, or the whole box of models; in the sign of the bonus
of margins; in what is played where no policy of the model is in bounds: a safe one, or the one that is least out of
them. The papers plan before every episode. That costs thirty to sixty times as much and gains little: `growth`.

Why the least. A problem in bounds whose hopeful model has none means that some pair was unlucky, and is thought too
little of. The policy before need not visit it: then no count ever says otherwise, and the run is lost. The least out of
bounds takes, of what is known, whatever may help the margins most, until its counts either show a policy in bounds or
are certain that there is none; and where a problem has none, it is what one would want.
"""

from __future__ import annotations

import numpy as np

from inbounds.algorithms.episodic.model import fill_means, fill_signals, fill_spans, refresh
from inbounds.algorithms.episodic.planning import constrained_plan
from inbounds.algorithms.episodic.playing import EPISODE, POLICY
from inbounds.algorithms.episodic.rules import SAFE, TIMES, Constants, State
from inbounds.algorithms.episodic.sweeps import follow, sweep
from inbounds.numerics.compiled import compiled


@compiled
def plan(state: State, constants: Constants) -> None:
    """A policy for what was seen so far."""
    play, model, frame, rule = state.play, state.model, constants.frame, constants.planning
    radii, signals, spans, swept, marks = constants.confidence, state.signals, state.spans, state.swept, state.marks
    refresh(model, radii, rule.least if rule.singly else 1.0, rule.growth if rule.singly else 1.0)
    if constants.adaptive and play.place[POLICY] > 0:
        fill_means(signals, model, frame, False)
        sweep(signals, state.prices, play.policy, model, frame, False, False, True, swept)
        fill_spans(spans, swept.values, model.acted, frame, radii.of_visits > 0.0)
    share, certain, with_safe, slack = rule.share, True, constants.safe.shape[0] > 0, constants.spare
    if with_safe:
        slack = np.where(np.isnan(slack), state.shown / max(marks[TIMES], 1), slack)
        least, episodes = slack.min(), play.place[EPISODE]
        certain = least > 0.0 and episodes * least * least >= rule.warm_up and episodes >= rule.first
        if certain:
            share += rule.share_by_slack / least
    fill_signals(signals, model, frame, radii, spans, rule.sign, share)
    if certain and rule.half:
        follow(constants.safe, signals, model, frame, False, swept, state.margins)
        certain = np.all(state.margins[1:] > 0.5 * slack)
    policy, prices = np.empty(play.policy.shape), state.prices.copy()
    tried = constrained_plan(signals, model, frame, rule.extended, prices, policy) if certain else 0
    if tried > 0:  # the prices of a plan out of bounds are the cost of what is missing
        state.prices[:] = prices
    if tried > 0 or not with_safe:
        play.policy[:] = policy
        play.place[POLICY] += 1
        marks[SAFE] = 0
    elif marks[SAFE] == 0:
        play.policy[:] = constants.safe
        play.place[POLICY] += 1
        marks[SAFE] = 1
