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
from inbounds.numerics.elimination import EliminationPlan, eliminate, eliminate_transposed, factorise, make_plan
from inbounds.numerics.rows import Chain, Rows, row_times, unsigned
from inbounds.numerics.sweeps import repeat_flow

_FILLED_STATES = 200
"""Up to this many states elimination may fill in completely."""

_ACCURACY = 1e-13
"""Of values and times found by sweeps, relative to the largest."""

_MOST_SWEEPS = 1_000_000
"""For one policy."""


class PolicyChains(NamedTuple):
    """The moves that some policy can make, each once, and how the equations of their chains are solved."""

    rows: Rows
    states: Ints  # [n], the state of each pair
    discount: float
    starts: Ints  # [S + 1], where the moves of a state start in the next
    targets: Any  # unsigned int [m]
    slots: Ints  # [nnz], which of those moves an entry of the rows belongs to
    plan: EliminationPlan
    eliminate: bool  # by the plan; otherwise sweep


def policy_chains(offsets: Ints, transition: Any, discount: float) -> PolicyChains:
    """Of the moves in a CSR array [n, S], with a plan for their chains if it pays.

    All arrays are copies, of one type each whatever those of the model: kernels compile once.
    """
    rows = Rows(
        offsets=offsets.astype(np.int64),
        starts=transition.indptr.astype(np.int64),
        targets=unsigned(transition.indices.astype(np.int32)),
        probabilities=np.array(transition.data),
    )
    n_states = len(offsets) - 1
    states = np.repeat(np.arange(n_states), np.diff(rows.offsets))
    moves = np.repeat(states, np.diff(rows.starts)) * n_states + transition.indices
    distinct, slots = np.unique(moves, return_inverse=True)
    starts = np.searchsorted(distinct, np.arange(n_states + 1) * n_states)
    targets = unsigned((distinct % n_states).astype(np.int32))
    small = n_states <= _FILLED_STATES
    plan = make_plan(
        starts,
        targets,
        most_fill=np.inf if small else 4.0 * len(targets) + 20.0 * n_states,
        most_work=np.inf if small else 200.0 * len(targets),
    )
    nothing, no_columns = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
    return PolicyChains(
        rows=rows,
        states=states,
        discount=float(discount),
        starts=starts.astype(np.int64),
        targets=targets,
        slots=slots.astype(np.int64),
        plan=EliminationPlan(nothing, nothing, nothing, no_columns, nothing, no_columns) if plan is None else plan,
        eliminate=plan is not None,
    )


@compiled
def merged_chain(chains: PolicyChains, policy: Floats) -> Chain:
    """The chain of a policy [n]; every move is named once."""
    weights = np.zeros(chains.targets.shape[0])
    rows = chains.rows
    for k in range(policy.shape[0]):
        share = chains.discount * policy[k]
        for entry in range(rows.starts[k], rows.starts[k + 1]):
            weights[chains.slots[entry]] += share * rows.probabilities[entry]
    return Chain(chains.starts, chains.targets, weights)


@compiled
def state_values(chains: PolicyChains, policy: Floats, signals: Floats, values: Floats) -> None:
    """Discounted sums of each signal [m, n] from each state under a policy [n]; into `values` [m, S].

    What `values` holds before, such as the values of a similar policy, is where sweeps begin.
    """
    chain = merged_chain(chains, policy)
    stage = np.zeros(values.shape)
    for i in range(signals.shape[0]):
        for k in range(policy.shape[0]):
            stage[i, chains.states[k]] += policy[k] * signals[i, k]
    if chains.eliminate:
        factors = factorise(chains.plan, chain)
        for i in range(signals.shape[0]):
            values[i] = eliminate(factors, stage[i])
        return
    for i in range(signals.shape[0]):
        largest, change = 1.0, np.inf
        for _ in range(_MOST_SWEEPS):
            before, change = change, 0.0
            for s in range(values.shape[1]):
                total = stage[i, s] + row_times(chain.starts, chain.targets, chain.weights, s, values[i])
                change = max(change, abs(total - values[i, s]))
                largest = max(largest, abs(total))
                values[i, s] = total
            # A sweep shrinks the largest change at least by the discount; one that does not shows rounding alone.
            missing = change * chains.discount / (1.0 - chains.discount)
            if not missing > _ACCURACY * largest or not change < before:
                break


@compiled
def pair_values(chains: PolicyChains, signal: Floats, value: Floats, result: Floats) -> None:
    """signal + discount * expected value of the next state, of each pair; into `result` [n]."""
    rows = chains.rows
    for k in range(signal.shape[0]):
        mean = row_times(rows.starts, rows.targets, rows.probabilities, k, value)
        result[k] = signal[k] + chains.discount * mean


@compiled
def pair_occupancy(chains: PolicyChains, initial: Floats, policy: Floats, time: Floats, result: Floats) -> None:
    """The occupancy of a policy [n] from the distribution `initial` [S]; into `result` [n], and `time` [S] per state.

    Both sum to 1. What `time` holds before, a distribution over states, is where sweeps begin.
    """
    chain = merged_chain(chains, policy)
    source = np.empty(time.shape[0])
    for s in range(time.shape[0]):
        source[s] = (1.0 - chains.discount) * initial[s]
    if chains.eliminate:
        time[:] = eliminate_transposed(factorise(chains.plan, chain), source)
    else:
        repeat_flow(chain, source, time, _ACCURACY * (1.0 - chains.discount), _MOST_SWEEPS)
    for k in range(policy.shape[0]):
        result[k] = time[chains.states[k]] * policy[k]
