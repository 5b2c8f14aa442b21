"""The exact answer for finite-horizon problems: the most reward among the policies in bounds.

All values are expected SUMS over the horizon. The program, on HiGHS, over occupancies x >= 0 [H, n]:

    max  sum_h <x_h, reward_h>
    s.t. sum_a x_0(s, a) = initial(s)                                                     for every state s
         sum_a x_h(s', a) - sum_{s,a} P_{h-1}(s' | s, a) x_{h-1}(s, a) = 0                for h = 1..H-1 and every s'
         sum_h <x_h, margin_{k,h}> >= 0                                                   for every constraint k

Only the occupancy and the prices are taken from it. Given prices, backward induction is exact and gives the rest: the
value function of the priced reward, the bound on the optimum that the prices prove (weak duality), and what to do
where the policy never comes.

The bundle (`inbounds.exact.bundle`) solves the same problem with backward induction inside, and is the default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import highspy
import numpy as np
import scipy.sparse as sp

from inbounds.arrays import Floats, Ints, freeze
from inbounds.errors import InvalidInput
from inbounds.exact.bundle import Bundle, Progress, slater_bundle
from inbounds.exact.lp import minimise_program
from inbounds.exact.solution import JointMargin
from inbounds.problem.episodic import EpisodicCMDP, EpisodicEvaluation, EpisodicPolicy, evaluate_episodic


@dataclass(frozen=True, eq=False, repr=False)
class EpisodicSolution(EpisodicEvaluation):
    """An optimal policy with bounds on both sides, in the user's units; values are expected SUMS over the horizon.

    ``reward``, ``margins`` and ``occupancy`` are those of the policy, evaluated on the model, never the solver's own.

    Attributes
    ----------
    policy : EpisodicPolicy
        At stages and states that it never visits it is greedy at the optimal prices.
    prices : array [K]
        Reward gained per unit of bound relaxed; 0 for constraints that do not bind.
    value_function : array [H + 1, S]
        The best value, from each stage and state to the end, of the reward plus the priced margins; its last row, after
        the episode, is 0. With `prices` it proves `upper_bound`.
    upper_bound : float
        No policy in bounds has more reward.
    method : str
        What found it.
    unconstrained_solves : int
        How many unconstrained problems were solved on the way; 0 for a linear program.
    """

    policy: EpisodicPolicy
    prices: Floats
    value_function: Floats
    upper_bound: float
    method: str
    unconstrained_solves: int = 0

    @property
    def gap(self) -> float:
        """How far the policy can be from optimal: upper_bound - reward, 0 where rounding makes it negative."""
        return max(self.upper_bound - self.reward, 0.0)

    def __repr__(self) -> str:
        return f"EpisodicSolution(reward {self.reward:.10g}, gap {self.gap:.1e}, by {self.method})"


@dataclass(frozen=True, eq=False, repr=False)
class EpisodicSlater(JointMargin):
    """The largest margin that some policy keeps in every constraint at once; margins are SUMS over the horizon.

    Attributes
    ----------
    value : float
        That margin, of `policy`, evaluated on the model; infinite without constraints.
    policy : EpisodicPolicy
        A policy that keeps it.
    upper_bound : float
        No policy keeps more; proved by `prices` and `value_function`.
    prices : array [K]
        Weights >= 0 that sum to 1.
    value_function : array [H + 1, S]
        The best value, from each stage and state, of the margins combined with `prices`.
    """

    policy: EpisodicPolicy


def attempt_episodic(
    problem: EpisodicCMDP, method: str, tolerance: float, progress: Progress | None
) -> EpisodicSolution | EpisodicSlater:
    """The best policy in bounds; or, when there is none, the largest joint margin, which is negative: the proof."""
    if method == "polish":
        raise InvalidInput('method "polish" is for discounted problems; take "lp", which ends at a vertex too')
    solution = None if method == "lp" else _by_bundle(problem, tolerance, progress)
    if solution is None:
        best = slater_episodic(problem)
        if best.proves_infeasible(problem.margin_scales):
            return best
        solution = _by_lp(problem)
    return solution


def _by_bundle(problem: EpisodicCMDP, tolerance: float, progress: Progress | None) -> EpisodicSolution | None:
    margins = problem.margins.reshape(problem.n_constraints, problem.reward.size)
    bundle = Bundle(
        BackwardInduction(problem), problem.reward.ravel(), margins, problem.margin_scales, mass=problem.horizon
    )
    found = bundle.solve(tolerance, progress)
    if found is None:
        return None
    spent = found.occupancy.reshape(problem.reward.shape)
    solution = _assemble(problem, spent, found.prices, "bundle", found.unconstrained_solves)
    return solution if solution.in_bounds else None


def _by_lp(problem: EpisodicCMDP) -> EpisodicSolution:
    """For a problem that is known to be feasible."""
    reward_scale = float(np.abs(problem.reward).max()) or 1.0
    found = _minimise(problem, cost=-problem.reward / reward_scale)
    if found is None:
        raise RuntimeError("HiGHS found no optimum of a feasible problem; please report it")
    spent, duals = found
    return _assemble(problem, spent, duals * reward_scale / problem.margin_scales, "lp")


def slater_episodic(problem: EpisodicCMDP, tolerance: float = 1e-10) -> EpisodicSlater:
    """The largest margin (a SUM over the horizon) that some policy keeps in every constraint at once; see `slater`."""
    if problem.n_constraints == 0:
        zeros = freeze(np.zeros((problem.horizon + 1, problem.n_states)))
        return EpisodicSlater(np.inf, EpisodicPolicy.uniform(problem), np.inf, freeze(np.empty(0)), zeros)
    margins, units = problem.margins.reshape(problem.n_constraints, problem.reward.size), np.ones(problem.n_constraints)
    found = slater_bundle(BackwardInduction(problem), margins, problem.margin_scales, units, tolerance)
    combined = np.tensordot(found.prices, problem.margins, axes=1)
    values, greedy = backward_induction(problem, combined)
    policy = EpisodicPolicy.from_occupancy(problem, found.occupancy.reshape(problem.reward.shape), otherwise=greedy)
    return EpisodicSlater(
        value=float(np.min(evaluate_episodic(problem, policy).margins)),
        policy=policy,
        upper_bound=upper_bound(problem, combined, values),
        prices=freeze(found.prices),
        value_function=values,
    )


def backward_induction(problem: EpisodicCMDP, reward: Floats) -> tuple[Floats, EpisodicPolicy]:
    """The best value of `reward` [H, n] from every stage and state to the end, [H + 1, S], and a policy that has it.

    Values are SUMS over the rest of the horizon. The policy takes the first of several best pairs. Constraints play no
    part.
    """
    values, chosen = _best_pairs(problem, reward)
    return freeze(values), EpisodicPolicy.deterministic(problem, chosen)


def _best_pairs(problem: EpisodicCMDP, reward: Floats) -> tuple[Floats, Ints]:
    """Values [H + 1, S] and the pair to take [H, S]."""
    values = np.zeros((problem.horizon + 1, problem.n_states))
    chosen = np.empty((problem.horizon, problem.n_states), dtype=np.int64)
    for stage in reversed(range(problem.horizon)):
        backup = reward[stage] + problem.transition[stage] @ values[stage + 1]
        values[stage], chosen[stage] = problem.pairs.best(backup)
    return values, chosen


class BestPlan(NamedTuple):
    """A policy that is optimal for one reward."""

    chosen: Ints  # [H * S], entries of a vector over stages and pairs
    upper: float
    value_function: Floats  # [H + 1, S]


class BackwardInduction:
    """Unconstrained solves of one problem for many rewards [H * n], as the bundle asks for them."""

    def __init__(self, problem: EpisodicCMDP) -> None:
        self.problem = problem

    def solve(self, reward: Floats, tolerance: float, start: Any = None) -> BestPlan:
        """Exact up to rounding, whatever the tolerance."""
        del tolerance, start
        problem = self.problem
        values, chosen = _best_pairs(problem, reward.reshape(problem.horizon, problem.n_pairs))
        first_of_stage = problem.n_pairs * np.arange(problem.horizon)[:, None]
        return BestPlan((first_of_stage + chosen).ravel(), float(problem.initial @ values[0]), values)

    def time_per_state(self, found: BestPlan, tolerance: float, start: Floats | None = None) -> Floats:
        """The probability of each state at each stage, [H * S]."""
        del tolerance, start
        problem = self.problem
        by_state = np.empty((problem.horizon, problem.n_states))
        by_state[0] = problem.initial
        for stage in range(problem.horizon - 1):
            spent = np.zeros(problem.n_pairs)
            chosen = found.chosen[stage * problem.n_states : (stage + 1) * problem.n_states]
            spent[chosen - stage * problem.n_pairs] = by_state[stage]
            by_state[stage + 1] = spent @ problem.transition[stage]
        return by_state.ravel()


def upper_bound(problem: EpisodicCMDP, reward: Floats, value_function: Floats) -> float:
    """A valid bound on the value of `reward` [H, n] under any policy, from any guess [H + 1, S] of the value function.

    If V_h(s) >= reward_h(s, a) + E V_{h+1}(s') at every stage and pair and V_H >= 0, then no policy's value exceeds
    <initial, V_0>. A guess that misses by e_h at the worst pair of stage h is mended, from the last stage backwards, by
    adding e_h + ... + e_H to V_h.
    """
    mend = max(float(np.max(-value_function[-1])), 0.0)
    for stage in reversed(range(problem.horizon)):
        backup = reward[stage] + problem.transition[stage] @ value_function[stage + 1]
        mend += max(float(np.max(backup - value_function[stage][problem.pairs.states])), 0.0)
    return float(problem.initial @ value_function[0]) + mend


def _assemble(
    problem: EpisodicCMDP, spent: Floats, prices: Floats, method: str, unconstrained_solves: int = 0
) -> EpisodicSolution:
    """The policy of an occupancy [H, n], evaluated on the model, with the bound that prices prove."""
    prices = np.maximum(prices, 0.0)
    priced = problem.reward + np.tensordot(prices, problem.margins, axes=1)
    values, greedy = backward_induction(problem, priced)
    policy = EpisodicPolicy.from_occupancy(problem, spent, otherwise=greedy)
    judged = evaluate_episodic(problem, policy)
    return EpisodicSolution(
        reward=judged.reward,
        margins=judged.margins,
        occupancy=judged.occupancy,
        margin_scales=judged.margin_scales,
        policy=policy,
        prices=freeze(prices),
        value_function=values,
        upper_bound=upper_bound(problem, priced, values),
        method=method,
        unconstrained_solves=unconstrained_solves,
    )


def _minimise(problem: EpisodicCMDP, cost: Floats) -> tuple[Floats, Floats] | None:
    """Minimise ``cost @ x``; (occupancy [H, n], margin duals [K]).

    Margins are handed over divided by their scales, occupancies with an average of about 1. The rows form a band, stage
    by stage, which suits interior point: 50 times faster than the simplex method at 200 states and 20 stages.
    """
    horizon, n_states, n_pairs = problem.horizon, problem.n_states, problem.n_pairs
    n_columns, n_flows = horizon * n_pairs, horizon * n_states
    # Row k of these CSR matrices is column k of the program, which HiGHS takes column by column.
    own_state = (np.arange(horizon)[:, None] * n_states + problem.pairs.states).ravel()
    leaves = sp.csr_array((np.ones(n_columns), own_state, np.arange(n_columns + 1)), shape=(n_columns, n_flows))
    scaled_margins = problem.margins.reshape(problem.n_constraints, n_columns) / problem.margin_scales[:, None]
    columns = sp.hstack([leaves - _arrivals(problem), sp.csr_array(scaled_margins.T)], format="csr")
    starting = np.concatenate([n_states * problem.initial, np.zeros(n_flows - n_states)])
    found = minimise_program(
        columns,
        cost.ravel(),
        row_lower=np.concatenate([starting, np.zeros(problem.n_constraints)]),
        row_upper=np.concatenate([starting, np.full(problem.n_constraints, highspy.kHighsInf)]),
        interior_first=True,
    )
    if found is None:
        return None
    x, duals = found
    return np.maximum(x, 0.0).reshape(horizon, n_pairs) / n_states, duals[n_flows:]


def _arrivals(problem: EpisodicCMDP) -> sp.csr_array:
    """Where each (stage, pair) leads: CSR [H n, H S], the block of stage h under the states of stage h + 1."""
    nowhere = sp.csr_array((problem.horizon * problem.n_pairs, problem.n_states))
    shifted = sp.hstack([nowhere, sp.block_diag(problem.transition)], format="csr")
    return shifted[:, : problem.horizon * problem.n_states]  # the last stage leads out of the episode
