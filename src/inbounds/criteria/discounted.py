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
    Factors,
    dense_visits,
    eliminate,
    eliminate_transposed,
    plan_after,
    plan_if_faster,
    reduce_states,
)
from inbounds.numerics.rows import Chain, chosen_chain, longest_row, mixed_chain
from inbounds.numerics.sweeps import TRIAL_SWEEPS, flow_sweeps, improve_values, is_over, iterate_flow, sweep_values

_SHRINK = 0.03
"""Evaluate a policy until its residual is this share of what the last improvement left, then improve again."""

_EXPECTED_SWEEPS = 8
"""Over the rows of a policy that is expected to be best, before the first improvement."""

_ROUGH = 2e-3
"""How accurate `values` are where they are iterated, relative to the largest signal."""

_FLAT = 16.0 * UNIT
"""How flat sweeps can make a residual, relative to the values; a round of them that aims lower may never end."""

_DELICATE = 1e-5
"""Where 1 - discount is smaller, sweeps lose more than eight digits: elimination is taken whenever it is possible."""

_ATTEMPTS, _MOST_ROUNDS = (25, 100, 400), 1_000
"""After so many rounds of sweeps it is tried whether elimination is possible; and how many there are at most."""

_FEW_ROUNDS = 3
"""Of sweeps for one vector: a chain that takes more mixes slowly, whatever the first policy of the model did."""

_QUIET = 200
"""So many rounds, of thirty sweeps or more each, that together do not halve the bracket are the end."""

_MOST_STEPS = 1_000
"""Of policy iteration by elimination, and one more for each state: a line is improved state by state."""

_SWEEPS, _MOST_SWEEPS = 1_000, 20_000
"""Over the flow of one chain, before elimination is tried; and where that is impossible."""


class Discounted(Criterion):
    """Discounted averages per step, normalised by (1 - discount)."""

    own = 1.0
    value_in_words = "a discounted average per step, normalised by (1 - discount)"
    decided = ("_plan", "_planned", "_refused")

    def __init__(self, problem: Any) -> None:
        super().__init__(problem)
        self.discount: float = problem.discount
        self.reach = self.discount / (1.0 - self.discount)
        self.rows = self.layers[0].rows
        self.longest = longest_row(self.rows)
        self._plan: EliminationPlan | None = None
        self._planned = False
        self._refused = 0.0  # the work for which there was no plan

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
        deadline: float | None = None,
    ) -> Found:
        """As in the contract; by the method that suits the graph of the model, or by elimination where sweeps fail."""
        if not self._planned:
            self._choose_plan(reward)
        found = start
        if self._plan is None:
            found = modified_policy_iteration(self, reward, tolerance, start, settled, keep_backups, deadline)
        if self._plan is not None:  # perhaps only now
            found = howard(self, reward, tolerance, self._plan, found, keep_backups, deadline)
        assert found is not None
        return found

    def fall_back(self, spent: float) -> bool:
        """Whether there is a plan of elimination now: one that costs a few times the `spent` multiplications."""
        if self._plan is None:
            self._plan, self._refused = plan_after(spent, self._refused, *self._all_moves)
        return self._plan is not None

    @property
    def _all_moves(self) -> tuple[Any, Any]:
        """Where the moves of each state start, and their targets, for `make_plan`."""
        return self.rows.starts[self.rows.offsets], self.rows.targets

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
        self._plan, self._planned = plan_if_faster(early, late, len(chain.weights), *self._all_moves), True
        if self.unit < _DELICATE:
            self.fall_back(_SWEEPS * len(chain.weights))

    def time(self, found: Found, accuracy: float, start: Floats | None = None) -> Floats:
        """The discounted share of time that the policy spends in each state [S]."""
        if found.factors is not None:
            return eliminate_transposed(found.factors, self.unit * self.initial)
        return self._flow(found.chain, accuracy, start)[0]

    def _flow(self, chain: Chain, accuracy: float, start: Floats | None) -> tuple[Floats, Factors | None]:
        """The time per state [S] of a chain by sweeps; or by elimination, and the factors, where they do not settle."""
        if self._plan is None:
            time, settled = iterate_flow(chain, self.initial, self.discount, accuracy, _SWEEPS, start)
            if not settled and not self.fall_back(_SWEEPS * len(chain.weights)):
                time, settled = iterate_flow(chain, self.initial, self.discount, accuracy, _MOST_SWEEPS, time)[0], True
            if settled:
                return time, None
        assert self._plan is not None
        factors = self.factorise(self._plan, chain)
        return eliminate_transposed(factors, self.unit * self.initial), factors

    def factorise(self, plan: EliminationPlan, chain: Chain) -> Factors:
        """Of I - W for the weights W = discount * P of a chain: every state loses 1 - discount, whatever it does."""
        return reduce_states(plan, chain, leak=self.unit)

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
        """Small models on a full matrix; others by elimination, where that is the plan, or by sweeps.

        At discounts very close to 1, sweeps lose the digits that 1 / (1 - discount) has. The others lose none.
        """
        if len(self.initial) <= DENSE_STATES:
            weighted = self.layers[0].transition.toarray() * taken[:, None]
            moves = np.add.reduceat(weighted, self.rows.offsets[:-1], axis=0)
            visits = dense_visits(self.discount * moves, self.unit)
            return Followed(taken, self.initial @ visits, moves, visits)
        chain = mixed_chain(self.rows, taken, self.discount)
        time = (self.initial if start is None else start).copy()
        if not self._planned:
            early, late = (
                flow_sweeps(chain, self.initial, self.discount, time, accuracy, most=TRIAL_SWEEPS) for _ in range(2)
            )
            if late == 0.0:
                return Followed(taken, time, chain, None)
            self._keep_plan(early, late, chain)
        time, factors = self._flow(chain, accuracy, time)
        return Followed(taken, time, chain, factors)

    def proof_vectors(
        self, followed: Followed, signals: Floats, start: Floats | None = None, enough: float = 0.0
    ) -> Floats:
        """The value functions of signals [J, n], [J, S], each less its mean over the initial distribution.

        So centred they are small where 1 / (1 - d) is large, and keep their digits. By elimination, refined twice: once
        for the solve, once for the digits that centring brings within reach.
        """
        stages = self.unit * self.pairs.sum_by_state(followed.taken * signals)
        if len(self.initial) <= DENSE_STATES:
            return self._refined_densely(stages, self.discount * followed.chain, followed.factors)
        if followed.factors is not None:
            chain, factors, scratch = followed.chain, followed.factors, np.empty(stages.shape[1])

            def backed(stage: Floats, value: Floats) -> Floats:
                new = value.copy()
                sweep_values(chain, stage, new, scratch, 0.0, 1)
                return new

            return self._refined(stages, lambda right: eliminate(factors, right), backed)
        vectors = np.zeros_like(stages) if start is None else start.copy()
        for stage, value in zip(stages, vectors, strict=True):
            flat = self._plan is None and self._flatten(followed.chain, stage, value, enough)
            if not flat and self.fall_back(0.0):
                assert self._plan is not None
                factors = self.factorise(self._plan, followed.chain)
                return self.proof_vectors(followed._replace(factors=factors), signals)
        return vectors

    def sharpened(self, reward: Floats, y: Floats) -> Floats:
        """As in the contract: solved once more where 1 / (1 - d) is so large that it matters."""
        if not self.unit < _DELICATE:
            return y
        centred = self.solve(np.array(reward), 0.0).centred
        return y if centred is None or self.upper_bound(reward, y) < self.upper_bound(reward, centred) else centred

    def upper_bound(self, reward: Floats, y: Floats) -> float:
        """As in the contract; by differences where 1 / (1 - d) would multiply the rounding of the values themselves."""
        if not self.unit < _DELICATE:
            return super().upper_bound(reward, y)
        (layer,) = self.layers
        moves, at = layer.transition, y[self.places]
        rows = np.repeat(np.arange(len(at)), np.diff(moves.indptr))
        drift = np.bincount(rows, moves.data * (y[moves.indices] - at[rows]), len(at))
        excess = reward - at + (self.discount / self.unit) * drift
        return float(np.sum(self.initial * y) + np.max(excess))

    def _refined_densely(self, stages: Floats, moves: Floats, visits: Floats) -> Floats:
        """What is missing is made of differences: next to a discount of 1, the values themselves would drown it.

        For the same reason the average over time is taken off the right-hand sides: so the values have the mean zero.
        """
        gains, inverse, time = stages.T, visits / self.unit, self.initial @ visits
        values: Any = inverse @ (gains - time @ gains)
        for _ in range(2):
            values = values - self.initial @ values
            differences = values[None, :, :] - values[:, None, :]  # [S, S, J]
            missing = gains - self.unit * values + np.einsum("st,stj->sj", moves, differences)
            values = values + inverse @ (missing - time @ missing)
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

    def _flatten(self, chain: Chain, stage: Floats, value: Floats, enough: float) -> bool:
        """Improve `value` [S] in place by sweeps, until its residual is flat, or as flat as rounding lets it become.

        Or as flat as `enough`, relative to the largest stage reward. What is the same in every state is taken off the
        stage rewards after each round, and off the values. Whether few rounds did is returned: otherwise elimination,
        where it is possible at little cost, is faster for the next.
        """
        slowest = max(self.discount, 0.5) ** TRIAL_SWEEPS  # a round makes at least twice as many
        stage, scratch = stage.copy(), np.empty_like(stage)
        unit = float(np.abs(stage).max()) or 1.0
        stage /= unit
        value /= unit
        before, span, size = np.inf, np.inf, 1.0 / (1.0 - self.discount)
        if np.any(value):
            low, high = sweep_values(chain, stage, value, scratch, 0.0, 1)
            stage -= 0.5 * (low + high)
            span, size = high - low, float(np.abs(stage).max() + np.abs(value).max())
        for rounds in range(_MOST_ROUNDS):  # noqa: B007
            if not span > max(4.0 * UNIT * size, enough) or not span <= slowest * before:
                break
            before = span
            improve_values(chain, stage, value, scratch, max(_FLAT * size, enough))
            value -= np.sum(self.initial * value)
            low, high = sweep_values(chain, stage, value, scratch, 0.0, 1)
            stage -= 0.5 * (low + high)
            span, size = high - low, float(np.abs(stage).max() + np.abs(value).max())
        value *= unit
        value -= np.sum(self.initial * value)
        return rounds <= _FEW_ROUNDS


def modified_policy_iteration(
    criterion: Discounted,
    reward: Floats,
    tolerance: float,
    start: Found | None = None,
    settled: float = 0.0,
    keep_backups: bool = False,
    deadline: float | None = None,
) -> Found:
    """Solve for one reward [n] until the bracket is at most `tolerance` wide, or as narrow as rounding allows.

    Once an improvement changes less than the share `settled` of the states, the policy is evaluated to the end. A wider
    bracket is returned at the deadline, after `_MOST_ROUNDS` or `_QUIET` ones, and as soon as there is a plan of
    elimination.
    """
    rows, discount, initial = criterion.rows, criterion.discount, criterion.initial
    stage, reach = criterion.unit * reward, criterion.reach
    value = np.zeros(len(initial)) if start is None else start.value_function.copy()
    chosen = rows.offsets[:-1].copy() if start is None else start.chosen.copy()
    backed, backups = np.empty_like(value), np.empty_like(reward) if keep_backups else NO_BACKUPS
    chain = None if start is None else start.chain
    largest, half, since = float(np.abs(stage).max()), np.inf, 0
    for rounds in range(_MOST_ROUNDS + 1):
        before = chosen.copy()
        low, high = improve(rows, discount, stage, value, backed, chosen, backups)
        strayed = not 0.0 <= high - low < np.inf
        if strayed:  # values too large, or no numbers: the bracket of one step is all there is
            value = np.zeros_like(value)
            low, high = improve(rows, discount, stage, value, backed, chosen, backups)
        rounding = rounding_of_sweep(criterion.longest, largest, value)
        low, high = low - rounding, high + rounding
        changed = int(np.count_nonzero(chosen != before))
        if changed > 0 or chain is None:
            chain = chosen_chain(rows, chosen, discount)
        # Written so that what is not a number is the end as well.
        if not reach * (high - low) > tolerance or not high - low > 8.0 * rounding or is_over(deadline):
            break
        if high - low < half:
            half, since = 0.5 * (high - low), rounds
        if rounds == _MOST_ROUNDS or rounds - since > _QUIET or (strayed and rounds > 0):
            break
        if rounds in _ATTEMPTS and criterion.fall_back(rounds * (len(reward) + 200.0 * len(chain.weights))):
            break
        value, backed = backed, value
        shrink = 0.0 if changed < settled * len(chosen) else _SHRINK
        goal = max(shrink * (high - low), 0.25 * tolerance / reach, 2.0 * rounding)
        low, high = improve_values(chain, stage[chosen], value, backed, goal, deadline)
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
    deadline: float | None = None,
) -> Found:
    """Policy iteration with exact evaluation, until the bracket is at most `tolerance` wide or no policy is better.

    The policy returned is the last one evaluated, so that its factors serve for its occupancy too; the lower end of
    the bracket comes from the residual of its own equations.

    Values are level + value. With a level of 0 the rounding of a value is multiplied by 1 / (1 - discount) in the
    bracket. Where that keeps it too wide, the level becomes the mean over the initial distribution, and what is left is
    refined: it is small, of the order of 1 - discount times the time that the chain takes to forget, and so is its
    rounding. (Not where classes never meet, and are worth different things.)
    """
    rows, discount, initial, unit = criterion.rows, criterion.discount, criterion.initial, criterion.unit
    backed, scratch = np.empty(len(initial)), np.empty(len(initial))
    backups = np.empty_like(reward) if keep_backups else NO_BACKUPS
    stage, level, precise, horizon = unit * reward, 0.0, False, 1.0 / unit
    chain, factors = None, None
    if start is None:
        chosen = rows.offsets[:-1].copy()
        improve(rows, discount, stage, np.zeros(len(initial)), backed, chosen, NO_BACKUPS)
    else:
        chosen, chain, factors = start.chosen, start.chain, start.factors
    for steps in range(_MOST_STEPS + len(initial)):
        if chain is None or factors is None:
            chain = chosen_chain(rows, chosen, discount) if chain is None else chain
            factors = criterion.factorise(plan, chain)
        value = eliminate(factors, stage[chosen])
        for _ in range(2 if precise else 0):
            shift = _mean(initial, value)
            level, value = level + shift, value - shift
            stage = unit * (reward - level)
            new = value.copy()
            sweep_values(chain, stage[chosen], new, scratch, 0.0, 1)
            value += eliminate(factors, new - value)
        better = chosen.copy()
        _, high = improve(rows, discount, stage, value, backed, better, backups)
        rounding = rounding_of_sweep(criterion.longest, float(np.abs(stage).max()) + unit * abs(level), value)
        low, _ = sweep_values(chain, stage[chosen], value.copy(), scratch, 0.0, 1)
        lower = level + _mean(initial, value) + horizon * (low - rounding)
        upper = level + _mean(initial, backed) + discount * horizon * (high + rounding) + rounding
        done = not upper - lower > tolerance or is_over(deadline) or steps == _MOST_STEPS + len(initial) - 1
        # What rounding alone makes better may be far worse: only where all states gain is the next policy better.
        better = np.where(backed - value > 2.0 * rounding, better, chosen)
        if not high > 4.0 * rounding or np.array_equal(better, chosen):
            done, precise = done or precise, True
        elif not done:
            chosen, chain = better, None
        if done:
            break
    return Found(
        value_function=backed + (discount * horizon * (high + rounding) + rounding + level),
        chosen=chosen,
        lower=lower,
        upper=upper,
        chain=chain,
        factors=factors,
        backups=backups if keep_backups else None,
        centred=backed if level != 0.0 else None,
    )


def _mean(initial: Floats, value: Floats) -> float:
    """Over the initial distribution. NumPy sums in pairs, which `rounding_of_sweep` relies on; a dot product need not.

    (And BLAS would wake all cores for it.)
    """
    return float(np.sum(initial * value))
