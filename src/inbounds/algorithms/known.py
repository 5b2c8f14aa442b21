"""Algorithms on a known model: exact values instead of estimates, iterations instead of samples.

Some papers assume that the values of every policy are known. On a model they are, by the equations of the policy's
chain (`inbounds.numerics.policy_chains`). Everything here is in scaled units (reward in [0, 1], margins in [-1, 1]).
Values of states and pairs are NOT normalised: they are discounted sums, as in the papers; occupancies sum to 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from inbounds.algorithms.planning import safest_of
from inbounds.arrays import Floats
from inbounds.numerics.compiled import compiled
from inbounds.numerics.policy_chains import PolicyChains, policy_chains
from inbounds.problem.cmdp import CMDP
from inbounds.problem.simulator import Scaling

_LEAST = 0.01
"""Of a Slater constant that is computed: prices are kept below 2 over it."""


class KnownModel(NamedTuple):
    """A model as compiled iterations see it: arrays only, scaled units."""

    chains: PolicyChains
    reward: Floats  # [n], in [0, 1]
    margins: Floats  # [n, K], in [-1, 1]
    initial: Floats  # [S]


def in_scaled_units(cmdp: CMDP) -> tuple[Scaling, CMDP]:
    """The model with rewards in [0, 1] and margins in [-1, 1], and the way back."""
    low, high = float(cmdp.reward.min()), float(cmdp.reward.max())
    scaling = Scaling.from_ranges(low, high, cmdp.margin_scales, cmdp.constraints)
    return scaling, scaling.model(cmdp)


def known_slater(settings: Any, model: CMDP) -> float:
    """As given in the settings; or the Slater constant of a model in scaled units, but at least 0.01 (1 if free)."""
    return slater_and_gaps(settings, model)[0]


def slater_and_gaps(settings: Any, model: CMDP) -> tuple[float, dict[str, bool]]:
    """The same, and the reasons for which no theorem covers it: theorems bound the best prices by 1 / slater, and so
    say nothing where 0.01 takes the place of less. Of a constant that is given nothing is checked."""
    if settings.slater is not None or model.n_constraints == 0:
        return 1.0 if settings.slater is None else settings.slater, {}
    found = safest_of(model)
    impossible = found.proves_infeasible(model.margin_scales)
    gaps = {
        "a problem in which no policy is in bounds": impossible,
        f"a Slater constant of {found.value:.3g}, less than {_LEAST:g}": found.value < _LEAST and not impossible,
    }
    return min(max(found.value, _LEAST), 1.0), gaps


def known_model(model: CMDP) -> KnownModel:
    """The arrays of a model in scaled units, all of them copies: of one type each, so that kernels compile once."""
    return KnownModel(
        chains=policy_chains(model.offsets, model.transition, model.discount),
        reward=np.array(model.reward),
        margins=np.array(model.margins.T, order="C"),
        initial=np.array(model.initial),
    )


@compiled
def priced_signals(model: KnownModel, prices: Floats, signals: Floats) -> None:
    """Reward plus priced margins, and the margins themselves, of each pair; into `signals` [1 + K, n]."""
    for k in range(model.reward.shape[0]):
        signals[0, k] = model.reward[k]
        for i in range(prices.shape[0]):
            signals[0, k] += prices[i] * model.margins[k, i]
            signals[1 + i, k] = model.margins[k, i]


@compiled
def start_value(model: KnownModel, value: Floats) -> float:
    """The mean of a value [S] over the initial distribution."""
    total = 0.0
    for s in range(value.shape[0]):
        total += model.initial[s] * value[s]
    return total
