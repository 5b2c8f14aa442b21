"""Algorithms on a known model: exact values instead of estimates, iterations instead of samples.

Some papers assume that the values of every policy are known. On a model they are: the equations of the policy's chain
are eliminated (`inbounds.numerics.elimination`; the pattern of moves is the same for all policies, so one plan serves
them all), or, where elimination would fill in, solved by repeated sweeps that begin from the values of the last policy.

Everything here is in scaled units (reward in [0, 1], margins in [-1, 1]). Values of states and pairs are NOT
normalised: they are discounted sums, as in the papers; occupancies sum to 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from inbounds.algorithms.algorithm import Run, checkpoint_counts, record_of
from inbounds.arrays import Floats, Ints, freeze
from inbounds.errors import InvalidInput
from inbounds.numerics.compiled import compiled
from inbounds.numerics.elimination import (
    EliminationPlan,
    Factors,
    eliminate,
    eliminate_transposed,
    factor_rows,
    make_plan,
)
from inbounds.numerics.rows import Chain, row_times, unsigned
from inbounds.numerics.sweeps import repeat_flow
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Scaling

_CHUNK = 1_000
"""Iterations between two looks at the keyboard and the progress callback."""

_DENSE_STATES = 200
"""Up to this many states elimination may fill in completely."""

_ACCURACY = 1e-13
"""Of values and occupancies found by sweeps, relative to the largest."""


class KnownModel(NamedTuple):
    """A model as compiled iterations see it: arrays only, scaled units."""

    offsets: Ints  # [S + 1]
    states: Ints  # [n], the state of each pair
    row_starts: Ints  # [n + 1], where the row of a pair starts in the next two
    successors: Any  # unsigned int [nnz]
    probabilities: Floats  # [nnz]
    reward: Floats  # [n], in [0, 1]
    margins: Floats  # [n, K], in [-1, 1]
    initial: Floats  # [S]
    discount: float
    chain_starts: Ints  # [S + 1], moves that some policy can make, by state
    chain_targets: Any  # unsigned int [m]
    slots: Ints  # [nnz], which of those moves an entry of a row belongs to
    plan: EliminationPlan
    eliminate: bool  # by the plan; otherwise sweep


def iterate(
    cmdp: CMDP,
    algorithm: Any,
    *,
    iterations: int = 1_000,
    checkpoints: int | Sequence[int] = 1,
    progress: Callable[[int], None] | None = None,
) -> Run:
    """Run an algorithm on a known model, with exact values in the place of samples.

    For the algorithms whose papers assume that values are known, and for the exact forms of others; ``ib.learn`` runs
    the same settings from samples. ``ib.solve`` is the fast way to the optimum itself.

    Parameters
    ----------
    cmdp : CMDP
    algorithm
        Settings such as ``ib.OPGPD()``.
    iterations : int
        How many to make. There is no randomness.
    checkpoints : int or sequence of int
        How many policies to record at log-spaced numbers of iterations; or those numbers themselves.
    progress : callable, optional
        Called with the iterations made so far.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> run = ib.iterate(queue, ib.OPGPD(), iterations=10_000, checkpoints=[100])
    >>> best = ib.solve(queue).total_reward
    >>> [abs(ib.evaluate(queue, policy).total_reward - best) < 1e-3 for policy in run.policies]
    [False, True]
    """
    record = record_of(algorithm)
    if record.known is None:
        raise InvalidInput(f"{record.name} learns from samples: ib.learn(cmdp.simulator(), ...)")
    if not isinstance(cmdp, CMDP):
        raise InvalidInput(f"iterate takes a known model, a CMDP; found {type(cmdp).__name__}")
    if isinstance(iterations, bool) or not isinstance(iterations, int | np.integer) or iterations < 1:
        raise InvalidInput(f"iterations must be a whole number of at least 1, found {iterations!r}")
    if cmdp.n_constraints > 0 and not record.constrained:
        raise InvalidInput(
            f"{record.name} knows no constraints, and this problem has {cmdp.n_constraints}; "
            f"drop them: cmdp.unconstrained()"
        )
    started = time.perf_counter()
    scaling, scaled = in_scaled_units(cmdp)
    model = known_model(scaled)
    state, constants, _, settings, guarantee = record.known.prepare(algorithm, scaled, int(iterations))
    counts, policies, prices, done = [], [], np.empty(0), 0
    for checkpoint in checkpoint_counts(checkpoints, 0, int(iterations), "iterations"):
        while done < checkpoint:
            until = min(done + _CHUNK, checkpoint)
            record.known.advance(state, constants, model, done, until)
            done = until
            if progress is not None:
                progress(done)
        policy, prices = record.known.extract(state, constants, cmdp)
        counts.append(done)
        policies.append(policy)
    return Run(
        policy=policies[-1],
        prices=freeze(scaling.prices_in_user_units(prices)),
        samples=freeze(np.zeros(len(counts), dtype=np.int64)),
        policies=tuple(policies),
        seconds=time.perf_counter() - started,
        settings=settings,
        guarantee=guarantee,
        iterations=freeze(np.array(counts, dtype=np.int64)),
    )


def default_iterations(n_pairs: int) -> int:
    """How many iterations are made on an empirical model: 20,000, but 2e6 / n beyond a hundred pairs; at least 100.

    So that a policy is a matter of seconds: small models are eliminated, at a cost that grows with a power of the
    number of states; large ones swept, tens of times an iteration.
    """
    return max(min(20_000, 2_000_000 // n_pairs), 100)


class PlugIn(NamedTuple):
    """The constants of an algorithm for known models that, from samples, iterates on the empirical model."""

    settings: Any
    iterations: int


def plug_in(settings: Any, n_pairs: int) -> PlugIn:
    """With `settings.iterations`, or the default for so many pairs."""
    return PlugIn(settings, default_iterations(n_pairs) if settings.iterations is None else int(settings.iterations))


def iterate_plug_in(algorithm: Any, model: CMDP, iterations: int) -> tuple[Policy, Floats]:
    """The policy after some iterations on an (empirical) model in scaled units, and its prices [K], scaled."""
    known = algorithm.algorithm.known
    state, constants, *_ = known.prepare(algorithm, model, iterations)
    known.advance(state, constants, known_model(model), 0, iterations)
    return known.extract(state, constants, model)


def in_scaled_units(cmdp: CMDP) -> tuple[Scaling, CMDP]:
    """The model with rewards in [0, 1] and margins in [-1, 1], and the way back."""
    scaling = Scaling.from_ranges(float(cmdp.reward.min()), float(cmdp.reward.max()), cmdp.margin_scales)
    return scaling, scaling.model(cmdp)


def known_slater(model: CMDP) -> float:
    """The Slater constant of a model in scaled units, but at least 0.01 (and 1 without constraints)."""
    from inbounds.exact.feasibility import slater

    return min(max(slater(model).value, 0.01), 1.0) if model.n_constraints > 0 else 1.0


def known_model(model: CMDP) -> KnownModel:
    """The arrays of a model in scaled units, and the plan for its chains."""
    matrix, pairs = model.transition, model.pairs
    row_starts = matrix.indptr.astype(np.int64)
    states = pairs.states.astype(np.int64)
    moves = np.repeat(states, np.diff(row_starts)) * model.n_states + matrix.indices
    distinct, slots = np.unique(moves, return_inverse=True)
    chain_starts = np.searchsorted(distinct, np.arange(model.n_states + 1) * model.n_states)
    targets = unsigned((distinct % model.n_states).astype(np.int32))
    small = model.n_states <= _DENSE_STATES
    plan = make_plan(
        chain_starts,
        targets,
        most_fill=np.inf if small else 4.0 * len(targets) + 20.0 * model.n_states,
        most_work=np.inf if small else 200.0 * len(targets),
    )
    nothing, no_columns = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
    return KnownModel(
        offsets=pairs.offsets.astype(np.int64),
        states=states,
        row_starts=row_starts,
        successors=unsigned(matrix.indices.astype(np.int32)),
        probabilities=np.array(matrix.data),
        reward=np.array(model.reward),
        margins=np.array(model.margins.T, order="C"),  # a copy: with one constraint the transpose is a read-only view
        initial=np.array(model.initial),
        discount=float(model.discount),
        chain_starts=chain_starts.astype(np.int64),
        chain_targets=targets,
        slots=slots.astype(np.int64),
        plan=EliminationPlan(nothing, nothing, nothing, no_columns, nothing, no_columns) if plan is None else plan,
        eliminate=plan is not None,
    )


@compiled
def chain_of(model: KnownModel, policy: Floats) -> Chain:
    """The chain of a policy [n]."""
    weights = np.zeros(model.chain_targets.shape[0])
    for k in range(policy.shape[0]):
        share = model.discount * policy[k]
        for entry in range(model.row_starts[k], model.row_starts[k + 1]):
            weights[model.slots[entry]] += share * model.probabilities[entry]
    return Chain(model.chain_starts, model.chain_targets, weights)


@compiled
def state_values(model: KnownModel, policy: Floats, signals: Floats, values: Floats) -> None:
    """Discounted sums of each signal [m, n] from each state under a policy [n]; into `values` [m, S].

    What `values` holds before, such as the values of a similar policy, is where sweeps begin.
    """
    chain = chain_of(model, policy)
    n_states = model.initial.shape[0]
    stage = np.zeros((signals.shape[0], n_states))
    for i in range(signals.shape[0]):
        for k in range(policy.shape[0]):
            stage[i, model.states[k]] += policy[k] * signals[i, k]
    if model.eliminate:
        lower, diagonal, upper = factor_rows(model.plan, chain)
        factors = Factors(model.plan, lower, diagonal, upper)
        for i in range(signals.shape[0]):
            values[i] = eliminate(factors, stage[i])
        return
    for i in range(signals.shape[0]):
        missing, largest = np.inf, 1.0
        while missing > _ACCURACY * largest:
            change = 0.0
            for s in range(n_states):
                total = stage[i, s] + row_times(chain.starts, chain.targets, chain.weights, s, values[i])
                change = max(change, abs(total - values[i, s]))
                largest = max(largest, abs(total))
                values[i, s] = total
            missing = change * model.discount / (1.0 - model.discount)


@compiled
def pair_values(model: KnownModel, signal: Floats, value: Floats, result: Floats) -> None:
    """signal + discount * expected value of the next state, of each pair; into `result` [n]."""
    for k in range(signal.shape[0]):
        mean = row_times(model.row_starts, model.successors, model.probabilities, k, value)
        result[k] = signal[k] + model.discount * mean


@compiled
def pair_occupancy(model: KnownModel, policy: Floats, time: Floats, result: Floats) -> None:
    """The occupancy of a policy [n], which sums to 1; into `result` [n], and per state into `time` [S].

    What `time` holds before, a distribution over states, is where sweeps begin.
    """
    chain = chain_of(model, policy)
    source = np.empty(time.shape[0])
    for s in range(time.shape[0]):
        source[s] = (1.0 - model.discount) * model.initial[s]
    if model.eliminate:
        lower, diagonal, upper = factor_rows(model.plan, chain)
        time[:] = eliminate_transposed(Factors(model.plan, lower, diagonal, upper), source)
    else:
        repeat_flow(chain, source, time, _ACCURACY * (1.0 - model.discount), 1_000_000)
    for k in range(policy.shape[0]):
        result[k] = time[model.states[k]] * policy[k]


@compiled
def start_value(model: KnownModel, value: Floats) -> float:
    """The mean of a value [S] over the initial distribution."""
    total = 0.0
    for s in range(value.shape[0]):
        total += model.initial[s] * value[s]
    return total
