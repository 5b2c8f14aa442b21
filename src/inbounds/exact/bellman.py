"""Bellman operators, and unconstrained solves with a rigorous bracket of the optimum.

Everything is normalised by (1 - discount). The operator on value functions V [S] is

    (T V)(s) = max over the pairs (s, a) of  (1 - discount) reward(s, a) + discount sum_s' P(s' | s, a) V(s').

If low <= T V - V <= high in every state, then (MacQueen 1966; Puterman 1994, section 6.6.3)

    T V + discount / (1 - discount) * low  <=  value of the greedy policy  <=  optimal value
                                           <=  T V + discount / (1 - discount) * high.

The bracket that every solve returns is this one, averaged over the initial distribution, after low and high have been
moved apart by a bound on the rounding of the sweep that computed them. So it holds wherever the iteration stopped.

Two ways to get there, each started from any policy or value function:

`modified_policy_iteration`
    One sweep over all pairs finds the greedy policy; cheap sweeps over the rows of that policy alone then bring V
    close to its value; repeat. Fast when the chains of policies mix fast.
`howard`
    The value of the policy exactly, by sparse elimination; a sweep over all pairs; repeat. Fast when elimination
    fills in little (chains, grids, queues, inventories), however slowly these mix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled
from inbounds.numerics.elimination import (
    EliminationPlan,
    Factors,
    eliminate,
    eliminate_transposed,
    factorise,
    plan_if_faster,
)
from inbounds.numerics.rows import Chain, Rows, chosen_chain, longest_row, mixed_chain, row_times, rows_of
from inbounds.numerics.sweeps import TRIAL_SWEEPS, improve_values, iterate_flow, sweep_values
from inbounds.problem.cmdp import CMDP

_UNIT = 2.0**-53
_SHRINK = 0.03
"""Evaluate a policy until its residual is this share of what the last improvement left, then improve again."""

_EXPECTED_SWEEPS = 8
"""Over the rows of a policy that is expected to be best, before the first improvement."""

_ROUGH = 2e-3
"""How accurate `Solver.values` are where they are iterated, relative to the largest signal."""

_NO_BACKUPS: Floats = np.empty(0)


class Operator(NamedTuple):
    """What sweeps read of a model; nothing is copied."""

    offsets: Ints  # [S + 1]
    starts: Any  # int [n + 1]
    targets: Any  # unsigned int [nnz]
    probabilities: Floats  # [nnz]
    initial: Floats  # [S]
    discount: float
    longest: int  # the most successors of any pair

    @classmethod
    def of(cls, cmdp: CMDP) -> Operator:
        rows = rows_of(cmdp.offsets, cmdp.transition)
        return cls(*rows, cmdp.initial, cmdp.discount, longest_row(rows))


@dataclass(frozen=True, eq=False)
class Unconstrained:
    """A policy that is optimal for one reward, up to a bracket; values are normalised by (1 - discount).

    Attributes
    ----------
    value_function : array [S]
        At least the optimal value from every state: it proves `upper`.
    chosen : int array [S]
        The pair that the policy takes in each state.
    lower, upper : float
        The value of the policy and the optimum both lie in between, from the initial distribution.
    chain : Chain
        Of the policy.
    factors : Factors or None
        Of the equations of the chain, when it was solved by elimination.
    backups : array [n] or None
        What each pair is worth, followed by this policy, up to the width of the bracket; only when asked for.
    """

    value_function: Floats
    chosen: Ints
    lower: float
    upper: float
    chain: Chain
    factors: Factors | None = None
    backups: Floats | None = None


class Solver:
    """Unconstrained solves of one model for many rewards, by the method that suits its graph."""

    def __init__(self, cmdp: CMDP) -> None:
        self.operator = Operator.of(cmdp)
        self._plan: EliminationPlan | None = None
        self._planned = False

    def solve(
        self,
        reward: Floats,
        tolerance: float,
        start: Unconstrained | None = None,
        settled: float = 0.0,
        keep_backups: bool = False,
    ) -> Unconstrained:
        """The best policy for `reward` [n], with a bracket at most `tolerance` wide (or as rounding allows).

        `settled` is as in `modified_policy_iteration`; `keep_backups` asks for those of the answer.
        """
        if not self._planned:
            self._plan, self._planned = choose_plan(self.operator, reward), True
        if self._plan is not None:
            return howard(self.operator, reward, tolerance, self._plan, start, keep_backups)
        return modified_policy_iteration(self.operator, reward, tolerance, start, settled, keep_backups)

    def time_per_state(self, found: Unconstrained, tolerance: float, start: Floats | None = None) -> Floats:
        """The discounted share of time that the policy spends in each state [S], begun from `start` if it iterates."""
        initial, discount = self.operator.initial, self.operator.discount
        if found.factors is not None:
            return np.maximum(eliminate_transposed(found.factors, (1.0 - discount) * initial), 0.0)
        return iterate_flow(found.chain, initial, discount, tolerance, start)

    def expect(self, reward: Floats, chosen: Ints, value: Floats) -> Unconstrained:
        """A policy that is expected to be best for `reward` [n], with its value within a few sweeps of `value` [S]."""
        operator, chain, value = self.operator, chain_of(self.operator, chosen), value.copy()
        if self._plan is None:
            stage, reach = (1.0 - operator.discount) * reward[chosen], operator.discount / (1.0 - operator.discount)
            low, high = sweep_values(chain, stage, value, np.empty_like(value), 0.0, _EXPECTED_SWEEPS)
            value += 0.5 * reach * (low + high)
        return Unconstrained(value, chosen, -np.inf, np.inf, chain)

    def values(self, found: Unconstrained, signals: Floats, start: Floats | None = None) -> Floats:
        """The value functions [K, S] of signals [K, n] under the policy: exact by elimination, else roughly.

        They are begun from `start`, those of a similar policy.
        """
        discount = self.operator.discount
        values = np.zeros((len(signals), len(found.chosen))) if start is None else start.copy()
        scratch = np.empty(len(found.chosen))
        for value, signal in zip(values, signals, strict=True):
            stage = (1.0 - discount) * signal[found.chosen]
            if found.factors is not None:
                value[:] = eliminate(found.factors, stage)
                continue
            goal = _ROUGH * float(np.abs(stage).max())
            low, high = improve_values(found.chain, stage, value, scratch, goal)
            value += 0.5 * discount / (1.0 - discount) * (low + high)
        return values

    def time_of_mixed(self, taken: Floats, tolerance: float, start: Floats) -> Floats:
        """The time per state [S] of the policy that takes pairs with probabilities `taken` [n], begun from `start`."""
        operator = self.operator
        initial, discount = operator.initial, operator.discount
        chain = mixed_chain(Rows(*operator[:4]), taken, discount)
        if self._plan is not None:
            return np.maximum(eliminate_transposed(factorise(self._plan, chain), (1.0 - discount) * initial), 0.0)
        return iterate_flow(chain, initial, discount, tolerance, start)


def choose_plan(operator: Operator, reward: Floats) -> EliminationPlan | None:
    """A plan of elimination when it promises to be faster than sweeps, else None.

    How fast sweeps contract is measured on the policy that is greedy for one step.
    """
    value, scratch = np.zeros(len(operator.initial)), np.empty(len(operator.initial))
    chosen = operator.offsets[:-1].copy()
    stage = (1.0 - operator.discount) * reward
    largest = float(np.abs(stage).max())
    improve(operator, stage, value, scratch, chosen, _NO_BACKUPS)
    chain = chain_of(operator, chosen)
    spans = []
    for _ in range(2):
        low, high = sweep_values(chain, stage[chosen], value, scratch, 0.0, TRIAL_SWEEPS)
        settled = high - low <= 4.0 * _rounding(operator, largest, value)
        spans.append(0.0 if settled else high - low)
    early, late = spans
    return plan_if_faster(early, late, len(chain.weights), operator.starts[operator.offsets], operator.targets)


def modified_policy_iteration(
    operator: Operator,
    reward: Floats,
    tolerance: float,
    start: Unconstrained | None = None,
    settled: float = 0.0,
    keep_backups: bool = False,
) -> Unconstrained:
    """Solve for one reward [n] until the bracket is at most `tolerance` wide, or as narrow as rounding allows.

    Once an improvement changes less than the share `settled` of the states, the policy is evaluated to the end.
    """
    stage = (1.0 - operator.discount) * reward
    reach = operator.discount / (1.0 - operator.discount)
    value = np.zeros(len(operator.initial)) if start is None else start.value_function.copy()
    chosen = operator.offsets[:-1].copy() if start is None else start.chosen.copy()
    backed, backups = np.empty_like(value), np.empty_like(reward) if keep_backups else _NO_BACKUPS
    chain = None if start is None else start.chain
    largest = float(np.abs(stage).max())
    while True:
        before = chosen.copy()
        low, high = improve(operator, stage, value, backed, chosen, backups)
        rounding = _rounding(operator, largest, value)
        low, high = low - rounding, high + rounding
        changed = int(np.count_nonzero(chosen != before))
        if changed > 0 or chain is None:
            chain = chain_of(operator, chosen)
        if reach * (high - low) <= tolerance or high - low <= 8.0 * rounding:
            break
        value, backed = backed, value
        shrink = 0.0 if changed < settled * len(chosen) else _SHRINK
        goal = max(shrink * (high - low), 0.25 * tolerance / reach, 2.0 * rounding)
        low, high = improve_values(chain, stage[chosen], value, backed, goal)
        value += 0.5 * reach * (low + high)
    mean = _mean(operator, backed)
    lower = mean + reach * low - rounding
    backed += reach * high + rounding
    return Unconstrained(
        backed, chosen, lower, _mean(operator, backed), chain, backups=backups if keep_backups else None
    )


def howard(
    operator: Operator,
    reward: Floats,
    tolerance: float,
    plan: EliminationPlan,
    start: Unconstrained | None = None,
    keep_backups: bool = False,
) -> Unconstrained:
    """Policy iteration with exact evaluation, until the bracket is at most `tolerance` wide or no policy is better.

    The policy returned is the last one evaluated, so that its factors serve for its occupancy too; the lower end of
    the bracket comes from the residual of its own equations.
    """
    stage = (1.0 - operator.discount) * reward
    horizon = 1.0 / (1.0 - operator.discount)
    value, backed = np.zeros(len(operator.initial)), np.empty(len(operator.initial))
    backups = np.empty_like(reward) if keep_backups else _NO_BACKUPS
    chain, factors, largest = None, None, float(np.abs(stage).max())
    if start is None:
        chosen = operator.offsets[:-1].copy()
        improve(operator, stage, value, backed, chosen, _NO_BACKUPS)
    else:
        chosen, chain, factors = start.chosen, start.chain, start.factors
    while True:
        if chain is None or factors is None:
            chain = chain_of(operator, chosen)
            factors = factorise(plan, chain)
        value = eliminate(factors, stage[chosen])
        better = chosen.copy()
        _, high = improve(operator, stage, value, backed, better, backups)
        rounding = _rounding(operator, largest, value)
        low, _ = sweep_values(chain, stage[chosen], value.copy(), np.empty_like(value), 0.0, 1)
        lower = _mean(operator, value) + horizon * (low - rounding)
        upper = _mean(operator, backed) + operator.discount * horizon * (high + rounding) + rounding
        if upper - lower <= tolerance or high <= 4.0 * rounding or np.array_equal(better, chosen):
            backed += operator.discount * horizon * (high + rounding) + rounding
            return Unconstrained(backed, chosen, lower, upper, chain, factors, backups if keep_backups else None)
        chosen, chain = better, None


def chain_of(operator: Operator, chosen: Ints) -> Chain:
    """The chain of the policy that takes the pairs `chosen` [S]."""
    return chosen_chain(Rows(*operator[:4]), chosen, operator.discount)


def _mean(operator: Operator, value: Floats) -> float:
    """Over the initial distribution. NumPy sums in pairs, which `_rounding` relies on; a dot product need not.

    (And BLAS would wake all cores for it.)
    """
    return float(np.sum(operator.initial * value))


def _rounding(operator: Operator, largest: float, value: Floats) -> float:
    """A bound on the rounding error of one entry of T V - V, and of a mean over the initial distribution.

    `largest` is that of the rewards of one step.
    """
    return (operator.longest + 64) * _UNIT * (largest + float(np.abs(value).max()))


@compiled
def improve(operator: Operator, stage: Floats, value: Floats, backed: Floats, chosen: Ints, backups: Floats) -> Any:
    """One sweep over all pairs: backed = T value, `chosen` greedy; the least and the largest of T value - value.

    A state keeps the pair it has when no other is strictly better. What each pair is worth goes into `backups`, unless
    that is empty.
    """
    keep_backups = backups.shape[0] > 0
    low, high = np.inf, -np.inf
    for s in range(value.shape[0]):
        keep = chosen[s]
        best, best_pair = -np.inf, keep
        for pair in range(operator.offsets[s], operator.offsets[s + 1]):
            mean = row_times(operator.starts, operator.targets, operator.probabilities, pair, value)
            backup = stage[pair] + operator.discount * mean
            if keep_backups:
                backups[pair] = backup
            # A branch would be guessed wrong in every state; here and below.
            better = (backup > best) | ((backup == best) & (pair == keep))
            best, best_pair = backup if better else best, pair if better else best_pair
        chosen[s], backed[s] = best_pair, best
        change = best - value[s]
        low, high = change if change < low else low, change if change > high else high
    return low, high
