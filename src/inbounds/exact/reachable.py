"""States that nothing leads to: they change no value, and must not change a digit of one either.

Whatever is paid where no policy ever comes plays no part. But scales are taken over all pairs, and rounding is relative
to scales: one unreachable state with a cost of 1e8 would take eight digits from all others. So questions are asked with
rewards and signals there clipped to the range that they have elsewhere; and what proves an upper bound is raised there,
afterwards, to where it proves the same about the model as given.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.criteria import criterion_of
from inbounds.exact.optimum import flat_margins
from inbounds.inputs import require_size
from inbounds.problem.cmdp import CMDP

_RAISED = 1e-8
"""By how much the value of an unreachable state is raised, relative to what can be paid in all: more than rounding."""


def well_scaled(problem: CMDP) -> CMDP:
    """The same question, its rewards and signals at unreachable states clipped to their range at all others.

    It is `problem` itself where nothing needs to be clipped.
    """
    criterion, constraints = criterion_of(problem), problem.constraints
    if np.all(criterion.reached):
        return problem
    at = criterion.reached[criterion.places].reshape(problem.shape)
    reward, *signals = (_clipped(values, at) for values in (problem.reward, *problem.signals))
    if reward is problem.reward and all(s is c.signal for s, c in zip(signals, constraints, strict=True)):
        return problem
    clipped = [replace(c, signal=signal) for c, signal in zip(constraints, signals, strict=True)]
    return problem.asking(reward=reward, constraints=clipped)


def require_sizes(asked: CMDP) -> None:
    """Refuse units in which results would not fit a double, by name."""
    require_size(float(np.abs(asked.reward).max()), "the reward")
    for constraint in asked.constraints:
        size = max(float(np.abs(constraint.signal).max()), abs(constraint.bound))
        require_size(size, f"constraint {constraint.name!r}")


def raised(problem: CMDP, asked: CMDP, prices: Floats, value_function: Floats, reward_weight: float = 1.0) -> Floats:
    """A value function [M] of `asked`, made to prove its upper bound about `problem`, whose question it stands for.

    At unreachable states it becomes the best value there of the rewards (times `reward_weight`) and priced margins as
    given, a little raised. It is `value_function` itself where the two are the same question.
    """
    criterion = criterion_of(problem)
    if asked is problem or np.all(criterion.reached):
        return value_function
    reward, margins = reward_weight * problem.reward.ravel(), flat_margins(problem)
    priced = reward + np.einsum("k,kn->n", prices, margins)
    # Of what is added up, not of the sum: where they cancel, rounding does not.
    size = float(np.max(np.abs(reward) + np.einsum("k,kn->n", np.abs(prices), np.abs(margins)))) * problem.layers
    true = criterion.solve(priced, 0.1 * _RAISED * size).value_function
    outside = ~criterion.reached
    lift = criterion.level(_RAISED * size)
    above = max(float(np.max((value_function - true)[~outside])), 0.0)
    if criterion.mass_row:  # averages know no level: the longest that a policy can stay outside instead
        staying = criterion.solve(outside[criterion.places].astype(np.float64), 1e-6).value_function
        y, at = np.where(outside, true + above, value_function), outside[criterion.places]
        excess = (criterion.backup(priced, y) - y[criterion.places]) / criterion.unit
        short = float(np.max(excess[at])) - float(np.max(excess[~at]))  # as far as `true` is not
        lift = max(_RAISED * size, 1.01 * short) * (staying - staying[~outside].min())
    return np.where(outside, true + above + lift, value_function)


def where_reached(problem: CMDP, occupancy: Floats) -> Floats:
    """An occupancy [N] without what rounding left of it at states that nothing leads to."""
    criterion = criterion_of(problem)
    if np.all(criterion.reached):
        return occupancy
    return np.where(criterion.reached[criterion.places], occupancy, 0.0)


def _clipped(values: Floats, at: Any) -> Floats:
    """`values` [n] or [H, n], clipped to their range where `at` (alike); the same array if that changes nothing."""
    low = np.min(values, axis=-1, keepdims=True, where=at, initial=np.inf)
    high = np.max(values, axis=-1, keepdims=True, where=at, initial=-np.inf)
    if np.all((values >= low) & (values <= high)):
        return values
    return freeze(np.clip(values, low, high))
