"""Discounted averages per step: sums over time with weights discount^t, normalised by (1 - discount).

An occupancy is the discounted share of time that a policy spends at each pair,

    x(s, a) = (1 - d) sum_t d^t Prob(s_t = s, a_t = a),

the one solution of sum_a x(s', a) - d sum_{s,a} P(s' | s, a) x(s, a) = (1 - d) initial(s') that belongs to the policy.
The Bellman operator on value functions V [S] is, in the natural scale,

    (T V)(s) = max over the pairs (s, a) of  (1 - d) reward(s, a) + d sum_s' P(s' | s, a) V(s').

If low <= T V - V <= high in every state, then (MacQueen 1966; Puterman 1994, section 6.6.3)

    T V + d / (1 - d) * low  <=  value of the greedy policy  <=  optimal value  <=  T V + d / (1 - d) * high.

The bracket that every solve returns is this one, averaged over the initial distribution, after low and high have been
moved apart by a bound on the rounding of the sweep that computed them. So it holds wherever the iteration stopped.

Two ways to get there, each started from any policy or value function:

`modified_policy_iteration`
    One sweep over all pairs finds the greedy policy; cheap sweeps over the rows of that policy alone then bring V
    close to its value; repeat. Fast when the chains of policies mix fast.
`howard`
    The value of the policy exactly, by sparse elimination; a sweep over all pairs; repeat. Fast when elimination
    fills in little (chains, grids, queues, inventories), however slowly these mix.

Which of the two, is measured once for each model and kept with it, as is the plan of elimination.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.criteria.contract import ACCURACY, DENSE_STATES, Criterion, Followed, Found
from inbounds.numerics.bellman import NO_BACKUPS, UNIT, improve, rounding_of_sweep
from inbounds.numerics.elimination import (
    EliminationPlan,
    eliminate,
    eliminate_transposed,
    factorise,
    plan_if_faster,
)
from inbounds.numerics.rows import Chain, chosen_chain, longest_row, mixed_chain
from inbounds.numerics.sweeps import TRIAL_SWEEPS, flow_sweeps, improve_values, iterate_flow, sweep_values

_SHRINK = 0.03
"""Evaluate a policy until its residual is this share of what the last improvement left, then improve again."""

_EXPECTED_SWEEPS = 8
"""Over the rows of a policy that is expected to be best, before the first improvement."""

_ROUGH = 2e-3
"""How accurate `values` are where they are iterated, relative to the largest signal."""

_FLAT = 16.0 * UNIT
"""How flat sweeps can make a residual, relative to the values; a round of them that aims lower may never end."""


class Discounted(Criterion):
    """Discounted averages per step, normalised by (1 - discount)."""

    own = 1.0
    value_in_words = "a discounted average per step, normalised by (1 - discount)"

    def __init__(self, problem: Any) -> None:
        super().__init__(problem)
        self.discount: float = problem.discount
        self.reach = self.discount / (1.0 - self.discount)
        self.rows = self.layers[0].rows
        self.longest = longest_row(self.rows)
        self._plan: EliminationPlan | None = None
        self._planned = False

    @property
    def unit(self) -> float:
        """1 - discount, exactly."""
        return 1.0 - self.discount

    @property
    def exact_reach(self) -> Fraction:
        """discount / (1 - discount) without rounding."""
        return Fraction(self.discount) / (1 - Fraction(self.discount))

    def total(self, value: Any) -> Any:
        """The discounted sum: value / (1 - discount)."""
        return value / (1.0 - self.discount)

    def in_words(self, value: float, digits: int = 6) -> str:
        """Per step, and in total."""
        return f"{value:.{digits}g} per step, {self.total(value):.{digits}g} in total"

    def solve(
        self,
        reward: Floats,
        tolerance: float,
        start: Found | None = None,
        settled: float = 0.0,
        keep_backups: bool = False,
    ) -> Found:
        """As in the contract; by the method that suits the graph of the model."""
        if not self._planned:
            self._choose_plan(reward)
        if self._plan is not None:
            return howard(self, reward, tolerance, self._plan, start, keep_backups)
        return modified_policy_iteration(self, reward, tolerance, start, settled, keep_backups)

    def _choose_plan(self, reward: Floats) -> None:
        """A plan of elimination when it promises to be faster than sweeps.

        How fast sweeps contract is measured on the policy that is greedy for one step.
        """
        value, scratch = np.zeros(len(self.initial)), np.empty(len(self.initial))
        chosen = self.rows.offsets[:-1].copy()
        stage = self.unit * reward
        largest = float(np.abs(stage).max())
        improve(self.rows, self.discount, stage, value, scratch, chosen, NO_BACKUPS)
        chain = chosen_chain(self.rows, chosen, self.discount)
        spans = []
        for _ in range(2):
            low, high = sweep_values(chain, stage[chosen], value, scratch, 0.0, TRIAL_SWEEPS)
            settled = high - low <= 4.0 * rounding_of_sweep(self.longest, largest, value)
            spans.append(0.0 if settled else high - low)
        self._keep_plan(spans[0], spans[1], chain)

    def _keep_plan(self, early: float, late: float, chain: Chain) -> None:
        """Decide by how much a sweep over `chain` changed, and how much `TRIAL_SWEEPS` later."""
        moves = self.rows.starts[self.rows.offsets], self.rows.targets  # those that some policy can make, by state
        self._plan, self._planned = plan_if_faster(early, late, len(chain.weights), *moves), True

    def time(self, found: Found, accuracy: float, start: Floats | None = None) -> Floats:
        """The discounted share of time that the policy spends in each state [S]."""
        if found.factors is not None:
            return np.maximum(eliminate_transposed(found.factors, self.unit * self.initial), 0.0)
        return iterate_flow(found.chain, self.initial, self.discount, accuracy, start)

    def expect(self, reward: Floats, chosen: Ints, value: Floats) -> Found:
        """With the value within a few sweeps of `value` [S], where sweeps are what a solve makes."""
        chain, value = chosen_chain(self.rows, chosen, self.discount), value.copy()
        if self._plan is None:
            low, high = sweep_values(
                chain, self.unit * reward[chosen], value, np.empty_like(value), 0.0, _EXPECTED_SWEEPS
            )
            value += 0.5 * self.reach * (low + high)
        return Found(value, chosen, -np.inf, np.inf, chain)

    def values(self, found: Found, signals: Floats, start: Floats | None = None) -> tuple[Floats, Floats]:
        """The value functions [K, S] of signals [K, n], exact by elimination, else roughly; the gains are 0."""
        values = np.zeros((len(signals), len(found.chosen))) if start is None else start.copy()
        scratch = np.empty(len(found.chosen))
        for value, signal in zip(values, signals, strict=True):
            stage = self.unit * signal[found.chosen]
            if found.factors is not None:
                value[:] = eliminate(found.factors, stage)
                continue
            goal = _ROUGH * float(np.abs(stage).max())
            low, high = improve_values(found.chain, stage, value, scratch, goal)
            value += 0.5 * self.reach * (low + high)
        return values, np.zeros(len(signals))

    def follow(self, taken: Floats, start: Floats | None = None, accuracy: float = ACCURACY) -> Followed:
        """Small models by LAPACK; others by elimination, where that is the plan, or by sweeps."""
        if len(self.initial) <= DENSE_STATES:
            weighted = self.layers[0].transition.toarray() * taken[:, None]
            moves = np.add.reduceat(weighted, self.rows.offsets[:-1], axis=0)
            matrix = np.eye(len(self.initial)) - self.discount * moves
            return Followed(taken, np.linalg.solve(matrix.T, self.unit * self.initial), moves, None)
        chain = mixed_chain(self.rows, taken, self.discount)
        time = (self.initial if start is None else start).copy()
        if not self._planned:
            early, late = (
                flow_sweeps(chain, self.initial, self.discount, time, accuracy, most=TRIAL_SWEEPS) for _ in range(2)
            )
            if late == 0.0:
                return Followed(taken, time, chain, None)
            self._keep_plan(early, late, chain)
        if self._plan is None:
            return Followed(taken, iterate_flow(chain, self.initial, self.discount, accuracy, time), chain, None)
        factors = factorise(self._plan, chain)
        return Followed(taken, eliminate_transposed(factors, self.unit * self.initial), chain, factors)

    def proof_vectors(self, followed: Followed, signals: Floats, start: Floats | None = None) -> Floats:
        """The value functions of signals [J, n], [J, S], each less its mean over the initial distribution.

        So centred they are small where 1 / (1 - d) is large, and keep their digits. By elimination, refined twice: once
        for the solve, once for the digits that centring brings within reach.
        """
        stages = self.unit * self.pairs.sum_by_state(followed.taken * signals)
        if len(self.initial) <= DENSE_STATES:
            return self._refined_densely(stages, self.discount * followed.chain)
        if followed.factors is not None:
            chain, factors, scratch = followed.chain, followed.factors, np.empty(stages.shape[1])

            def backed(stage: Floats, value: Floats) -> Floats:
                new = value.copy()
                sweep_values(chain, stage, new, scratch, 0.0, 1)
                return new

            return self._refined(stages, lambda right: eliminate(factors, right), backed)
        vectors = np.zeros_like(stages) if start is None else start.copy()
        for stage, value in zip(stages, vectors, strict=True):
            self._flatten(followed.chain, stage, value)
        return vectors

    def _refined_densely(self, stages: Floats, moves: Floats) -> Floats:
        matrix, gains = np.eye(len(self.initial)) - moves, stages.T
        values: Any = np.linalg.solve(matrix, gains)
        for _ in range(2):
            values = values - self.initial @ values
            missing = gains + moves @ values - values
            values = values + np.linalg.solve(matrix, missing - self.initial @ missing)
        return np.ascontiguousarray((values - self.initial @ values).T)

    def _refined(
        self, stages: Floats, solved: Callable[[Floats], Any], backed: Callable[[Floats, Floats], Any]
    ) -> Floats:
        vectors = np.empty_like(stages)
        for vector, stage in zip(vectors, stages, strict=True):
            value = solved(stage)
            for _ in range(2):
                value = value - np.sum(self.initial * value)
                missing = backed(stage, value) - value
                value = value + solved(missing - np.sum(self.initial * missing))
            vector[:] = value - np.sum(self.initial * value)
        return vectors

    def _flatten(self, chain: Chain, stage: Floats, value: Floats) -> None:
        """Improve `value` [S] in place by sweeps, until its residual is flat, or as flat as rounding lets it become.

        What is the same in every state is taken off the stage rewards after each round, and off the values.
        """
        slowest = max(self.discount, 0.5) ** TRIAL_SWEEPS  # a round makes at least twice as many
        stage, scratch = stage.copy(), np.empty_like(stage)
        unit = float(np.abs(stage).max()) or 1.0
        stage /= unit
        value /= unit
        if np.any(value):
            low, high = sweep_values(chain, stage, value, scratch, 0.0, 1)
            stage -= 0.5 * (low + high)
        before, span, size = np.inf, np.inf, 1.0 / (1.0 - self.discount)
        while span > 4.0 * UNIT * size and not span > slowest * before:
            before = span
            improve_values(chain, stage, value, scratch, _FLAT * size)
            value -= np.sum(self.initial * value)
            low, high = sweep_values(chain, stage, value, scratch, 0.0, 1)
            stage -= 0.5 * (low + high)
            span, size = high - low, float(np.abs(stage).max() + np.abs(value).max())
        value *= unit
        value -= np.sum(self.initial * value)


def modified_policy_iteration(
    criterion: Discounted,
    reward: Floats,
    tolerance: float,
    start: Found | None = None,
    settled: float = 0.0,
    keep_backups: bool = False,
) -> Found:
    """Solve for one reward [n] until the bracket is at most `tolerance` wide, or as narrow as rounding allows.

    Once an improvement changes less than the share `settled` of the states, the policy is evaluated to the end.
    """
    rows, discount, initial = criterion.rows, criterion.discount, criterion.initial
    stage, reach = criterion.unit * reward, criterion.reach
    value = np.zeros(len(initial)) if start is None else start.value_function.copy()
    chosen = rows.offsets[:-1].copy() if start is None else start.chosen.copy()
    backed, backups = np.empty_like(value), np.empty_like(reward) if keep_backups else NO_BACKUPS
    chain = None if start is None else start.chain
    largest = float(np.abs(stage).max())
    while True:
        before = chosen.copy()
        low, high = improve(rows, discount, stage, value, backed, chosen, backups)
        rounding = rounding_of_sweep(criterion.longest, largest, value)
        low, high = low - rounding, high + rounding
        changed = int(np.count_nonzero(chosen != before))
        if changed > 0 or chain is None:
            chain = chosen_chain(rows, chosen, discount)
        if reach * (high - low) <= tolerance or high - low <= 8.0 * rounding:
            break
        value, backed = backed, value
        shrink = 0.0 if changed < settled * len(chosen) else _SHRINK
        goal = max(shrink * (high - low), 0.25 * tolerance / reach, 2.0 * rounding)
        low, high = improve_values(chain, stage[chosen], value, backed, goal)
        value += 0.5 * reach * (low + high)
    mean = _mean(initial, backed)
    lower = mean + reach * low - rounding
    backed += reach * high + rounding
    return Found(backed, chosen, lower, _mean(initial, backed), chain, backups=backups if keep_backups else None)


def howard(
    criterion: Discounted,
    reward: Floats,
    tolerance: float,
    plan: EliminationPlan,
    start: Found | None = None,
    keep_backups: bool = False,
) -> Found:
    """Policy iteration with exact evaluation, until the bracket is at most `tolerance` wide or no policy is better.

    The policy returned is the last one evaluated, so that its factors serve for its occupancy too; the lower end of
    the bracket comes from the residual of its own equations.
    """
    rows, discount, initial = criterion.rows, criterion.discount, criterion.initial
    stage, horizon = criterion.unit * reward, 1.0 / criterion.unit
    value, backed = np.zeros(len(initial)), np.empty(len(initial))
    backups = np.empty_like(reward) if keep_backups else NO_BACKUPS
    chain, factors, largest = None, None, float(np.abs(stage).max())
    if start is None:
        chosen = rows.offsets[:-1].copy()
        improve(rows, discount, stage, value, backed, chosen, NO_BACKUPS)
    else:
        chosen, chain, factors = start.chosen, start.chain, start.factors
    while True:
        if chain is None or factors is None:
            chain = chosen_chain(rows, chosen, discount)
            factors = factorise(plan, chain)
        value = eliminate(factors, stage[chosen])
        better = chosen.copy()
        _, high = improve(rows, discount, stage, value, backed, better, backups)
        rounding = rounding_of_sweep(criterion.longest, largest, value)
        low, _ = sweep_values(chain, stage[chosen], value.copy(), np.empty_like(value), 0.0, 1)
        lower = _mean(initial, value) + horizon * (low - rounding)
        upper = _mean(initial, backed) + discount * horizon * (high + rounding) + rounding
        if upper - lower <= tolerance or high <= 4.0 * rounding or np.array_equal(better, chosen):
            backed += discount * horizon * (high + rounding) + rounding
            return Found(backed, chosen, lower, upper, chain, factors, backups if keep_backups else None)
        chosen, chain = better, None


def _mean(initial: Floats, value: Floats) -> float:
    """Over the initial distribution. NumPy sums in pairs, which `rounding_of_sweep` relies on; a dot product need not.

    (And BLAS would wake all cores for it.)
    """
    return float(np.sum(initial * value))
