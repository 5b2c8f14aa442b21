"""Algorithms on a known model: exact values instead of estimates, iterations instead of samples.

Some papers assume that the values of every policy are known. On a model they are, by the equations of the policy's
chain (`inbounds.numerics.policy_chains`). Everything here is in scaled units (reward in [0, 1], margins in [-1, 1]).
Values of states and pairs are NOT normalised: they are discounted sums, as in the papers; occupancies sum to 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.exact.feasibility import slater
from inbounds.numerics.compiled import compiled
from inbounds.numerics.policy_chains import ChainPattern, chain_pattern, chain_time, chain_values, merged_chain
from inbounds.numerics.rows import Rows, row_times, unsigned
from inbounds.problem.cmdp import CMDP
from inbounds.problem.simulator import Scaling


class KnownModel(NamedTuple):
    """A model as compiled iterations see it: arrays only, scaled units."""

    rows: Rows
    pattern: ChainPattern
    states: Ints  # [n], the state of each pair
    reward: Floats  # [n], in [0, 1]
    margins: Floats  # [n, K], in [-1, 1]
    initial: Floats  # [S]
    discount: float


def in_scaled_units(cmdp: CMDP) -> tuple[Scaling, CMDP]:
    """The model with rewards in [0, 1] and margins in [-1, 1], and the way back."""
    scaling = Scaling.from_ranges(float(cmdp.reward.min()), float(cmdp.reward.max()), cmdp.margin_scales)
    return scaling, scaling.model(cmdp)


def known_slater(settings: Any, model: CMDP) -> float:
    """As given in the settings; or the Slater constant of a model in scaled units, but at least 0.01 (1 if free)."""
    if settings.slater is not None:
        return settings.slater
    return min(max(slater(model).value, 0.01), 1.0) if model.n_constraints > 0 else 1.0


def known_model(model: CMDP) -> KnownModel:
    """The arrays of a model in scaled units, and the plan for its chains.

    All are copies, of one type each whatever the model's own: kernels compile once.
    """
    matrix = model.transition
    rows = Rows(
        offsets=model.offsets.astype(np.int64),
        starts=matrix.indptr.astype(np.int64),
        targets=unsigned(matrix.indices.astype(np.int32)),
        probabilities=np.array(matrix.data),
    )
    return KnownModel(
        rows=rows,
        pattern=chain_pattern(rows),
        states=model.pairs.states.astype(np.int64),
        reward=np.array(model.reward),
        margins=np.array(model.margins.T, order="C"),
        initial=np.array(model.initial),
        discount=float(model.discount),
    )


@compiled
def state_values(model: KnownModel, policy: Floats, signals: Floats, values: Floats) -> None:
    """Discounted sums of each signal [m, n] from each state under a policy [n]; into `values` [m, S].

    What `values` holds before, such as the values of a similar policy, is where sweeps begin.
    """
    stage = np.zeros((signals.shape[0], model.initial.shape[0]))
    for i in range(signals.shape[0]):
        for k in range(policy.shape[0]):
            stage[i, model.states[k]] += policy[k] * signals[i, k]
    chain = merged_chain(model.rows, model.pattern, policy, model.discount)
    chain_values(model.pattern, chain, model.discount, stage, values)


@compiled
def priced_signals(model: KnownModel, prices: Floats, signals: Floats) -> None:
    """Reward plus priced margins, and the margins themselves, of each pair; into `signals` [1 + K, n]."""
    for k in range(model.reward.shape[0]):
        signals[0, k] = model.reward[k]
        for i in range(prices.shape[0]):
            signals[0, k] += prices[i] * model.margins[k, i]
            signals[1 + i, k] = model.margins[k, i]


@compiled
def pair_values(model: KnownModel, signal: Floats, value: Floats, result: Floats) -> None:
    """signal + discount * expected value of the next state, of each pair; into `result` [n]."""
    rows = model.rows
    for k in range(signal.shape[0]):
        result[k] = signal[k] + model.discount * row_times(rows.starts, rows.targets, rows.probabilities, k, value)


@compiled
def pair_occupancy(model: KnownModel, policy: Floats, time: Floats, result: Floats) -> None:
    """The occupancy of a policy [n], which sums to 1; into `result` [n], and per state into `time` [S].

    What `time` holds before, a distribution over states, is where sweeps begin.
    """
    chain = merged_chain(model.rows, model.pattern, policy, model.discount)
    chain_time(model.pattern, chain, model.discount, model.initial, time)
    for k in range(policy.shape[0]):
        result[k] = time[model.states[k]] * policy[k]


@compiled
def start_value(model: KnownModel, value: Floats) -> float:
    """The mean of a value [S] over the initial distribution."""
    total = 0.0
    for s in range(value.shape[0]):
        total += model.initial[s] * value[s]
    return total
