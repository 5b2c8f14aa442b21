"""The chains of many policies of one model: one pattern of moves and one plan of elimination serve them all.

Iterations that change the policy every time need the values, or the time per state, of one chain after another. The
moves that some policy can make are the same for all, so only the weights are made anew (`merged_chain`). The equations
of a chain are eliminated (`inbounds.numerics.elimination`), or, where elimination would fill in, solved by repeated
sweeps that begin from the solution for the last policy. Values are discounted sums, NOT normalised.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled
from inbounds.numerics.elimination import (
    EliminationPlan,
    Factors,
    eliminate,
    eliminate_transposed,
    factor_rows,
    make_plan,
)
from inbounds.numerics.rows import Chain, Rows, row_times, unsigned
from inbounds.numerics.sweeps import repeat_flow

_DENSE_STATES = 200
"""Up to this many states elimination may fill in completely."""

_ACCURACY = 1e-13
"""Of values and times found by sweeps, relative to the largest."""


class ChainPattern(NamedTuple):
    """The moves that some policy can make, each once, and how the equations of their chains are solved."""

    starts: Ints  # [S + 1], where the moves of a state start in the next
    targets: Any  # unsigned int [m]
    slots: Ints  # [nnz], which of those moves an entry of the model's rows belongs to
    plan: EliminationPlan
    eliminate: bool  # by the plan; otherwise sweep


def chain_pattern(rows: Rows) -> ChainPattern:
    """The pattern of a model's rows, and the plan for its chains if it pays."""
    n_states = len(rows.offsets) - 1
    states = np.repeat(np.arange(n_states), np.diff(rows.starts[rows.offsets]))  # of every entry
    distinct, slots = np.unique(states * n_states + rows.targets.astype(np.int64), return_inverse=True)
    starts = np.searchsorted(distinct, np.arange(n_states + 1) * n_states)
    targets = unsigned((distinct % n_states).astype(np.int32))
    small = n_states <= _DENSE_STATES
    plan = make_plan(
        starts,
        targets,
        most_fill=np.inf if small else 4.0 * len(targets) + 20.0 * n_states,
        most_work=np.inf if small else 200.0 * len(targets),
    )
    nothing, no_columns = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
    return ChainPattern(
        starts=starts.astype(np.int64),
        targets=targets,
        slots=slots.astype(np.int64),
        plan=EliminationPlan(nothing, nothing, nothing, no_columns, nothing, no_columns) if plan is None else plan,
        eliminate=plan is not None,
    )


@compiled
def merged_chain(rows: Rows, pattern: ChainPattern, policy: Floats, discount: float) -> Chain:
    """The chain of a policy [n] in the pattern, times the discount; every move is named once."""
    weights = np.zeros(pattern.targets.shape[0])
    for k in range(policy.shape[0]):
        share = discount * policy[k]
        for entry in range(rows.starts[k], rows.starts[k + 1]):
            weights[pattern.slots[entry]] += share * rows.probabilities[entry]
    return Chain(pattern.starts, pattern.targets, weights)


@compiled
def chain_values(pattern: ChainPattern, chain: Chain, discount: float, stage: Floats, values: Floats) -> None:
    """The values of several signals, worth `stage` [m, S] at each state; into `values` [m, S].

    What `values` holds before, such as the values of a similar policy, is where sweeps begin.
    """
    if pattern.eliminate:
        lower, diagonal, upper = factor_rows(pattern.plan, chain)
        factors = Factors(pattern.plan, lower, diagonal, upper)
        for i in range(stage.shape[0]):
            values[i] = eliminate(factors, stage[i])
        return
    for i in range(stage.shape[0]):
        missing, largest = np.inf, 1.0
        while missing > _ACCURACY * largest:
            change = 0.0
            for s in range(stage.shape[1]):
                total = stage[i, s] + row_times(chain.starts, chain.targets, chain.weights, s, values[i])
                change = max(change, abs(total - values[i, s]))
                largest = max(largest, abs(total))
                values[i, s] = total
            missing = change * discount / (1.0 - discount)


@compiled
def chain_time(pattern: ChainPattern, chain: Chain, discount: float, initial: Floats, time: Floats) -> None:
    """The share of time in each state from the distribution `initial` [S]; into `time` [S], which sums to 1.

    What `time` holds before, a distribution over states, is where sweeps begin.
    """
    source = np.empty(time.shape[0])
    for s in range(time.shape[0]):
        source[s] = (1.0 - discount) * initial[s]
    if pattern.eliminate:
        lower, diagonal, upper = factor_rows(pattern.plan, chain)
        time[:] = eliminate_transposed(Factors(pattern.plan, lower, diagonal, upper), source)
    else:
        repeat_flow(chain, source, time, _ACCURACY * (1.0 - discount), 1_000_000)
