"""The steps of CSPDA, one a sample: with step sizes as given, or with ones that find their own scale, in a stage.

The letters are those of `cspda`, which has the algorithm. A *stage* of N steps is that algorithm with delta = .5, M a
running mean of Z (a control variate: predictable, so the direction stays unbiased), the average of the second half, u
with a sum of at most 50, |v| <= 50 / (1 - gamma), and

    beta    = .5 sqrt( log n / (N/t sum_i lam (Z - M)^2 / zeta^2) ), at most delta / (n |Z - M|)       adaptive Hedge
    alpha_u = rho_u / sqrt( N/t sum_i |g_u|^2 )                rho_u = max(radius, max_i |u_i - u_0|)
    alpha_s = rho_v / sqrt( N/t (.97 G_s + .03 mean of G) )    rho_v = max(radius, max_i std over states of v_i - v_0)

at step t, sums and maxima over the steps so far: distance over gradients, G_s the sum of the squared gradients of v at
state s. N/t extrapolates the sums to the end of the stage; the radii of u and of v are where the maxima begin.

O(log n + K) a step: lam is kept unnormalised in a sum tree; its average is brought up to date for a pair only when
that pair changes. With W_t the total weight at step t, the average of lam(k) over an interval in which its weight w
did not change is w * sum 1 / W_t, so one running sum of 1 / W_t serves all pairs.

The same kernel serves functions of lam that are not linear, through their gradients: see `concave_cspda`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from inbounds.algorithms.algorithm import Answer, Averages
from inbounds.algorithms.kernels import (
    BASELINE_RATE,
    account_value,
    average_values,
    clear,
    draw_mixed,
    grown,
    project_prices,
    tree_levels,
    tree_normalise,
    tree_rebuild,
    tree_set,
    tree_total,
    uniform_tree,
)
from inbounds.algorithms.settings import Steps
from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled
from inbounds.problem.draws import World, draw_next, draw_start
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator

# Weights underflow when their total W has shrunk. And the running sum of 1 / W must not dwarf its next term, or what it
# adds is lost in rounding: it does when W has grown since the sum started (from wherever it was), or after many steps.
_SMALLEST_TOTAL, _LARGEST_SUM_IN_TERMS = 1e-100, 2.0**20

# Of a stage. Results hardly depend on any of them: a third of the first, or twice it, or an exploration of 0.3 changed
# the mean gap over 24 problems by a tenth of it at most.
_HEDGE = 0.5  # factor of beta
_OWN = 0.97  # weight of a state's own squared gradients in its step, against the mean over states
_STAGE_EXPLORATION = 0.5  # delta
_PRICE_LIMIT = 50.0  # of the sum of prices, and of |v| (1 - gamma)


class Constants(NamedTuple):
    steps: Steps
    discount: float
    kappa: Floats  # [K + J]
    price_radius: float
    value_radius: float
    levels: Ints  # of the sum tree
    horizon: int  # steps of a stage, whose step sizes find their scale; 0: alpha and beta are as given
    prices: Floats  # [K + J]: of a stage, u at its start
    values: Floats  # [S]: of a stage, v at its start


class State(NamedTuple):
    tree: Floats  # sum tree over the weights [n]: lam = weights / total
    pair_sums: Floats  # [n, 2]: sum of lam over the steps accounted for; inverse_sum when it was last accounted for
    values: Floats  # [S, 3]: v; its sum over the steps accounted for; how many those are
    prices: Floats  # [K + J]: u, of the simulator's constraints and of J further functions of lam
    price_sums: Floats  # [K + J]
    slopes: Floats  # [n, J]: the gradients of those functions; [n, J + 1] with a utility, whose gradient is the last
    heights: Floats  # [J]: their values
    inverse_sum: Floats  # [1]: sum over averaged steps of 1 / total, since the weights were last rescaled
    baseline: Floats  # [1]: running mean of Z
    steps: Ints  # [2]: steps made; steps averaged
    squares: Floats  # [S]: of a stage, G: sums of the squared gradients of v at each state; else empty
    scales: Floats  # [7]: of a stage, what else its step sizes depend on


def new_state(constants: Constants, n_pairs: int, n_further: int = 0, with_utility: bool = False) -> State:
    """Before the first step: lam uniform, u and v as the constants have them."""
    n_states, n_constraints = len(constants.values), len(constants.prices)
    state = State(
        tree=uniform_tree(constants.levels, n_pairs),
        pair_sums=np.zeros((n_pairs, 2)),
        values=np.zeros((n_states, 3)),
        prices=constants.prices.copy(),
        price_sums=np.zeros(n_constraints),
        slopes=np.zeros((n_pairs, n_further + with_utility)),
        heights=np.zeros(n_further),
        inverse_sum=np.zeros(1),
        baseline=np.zeros(1),
        steps=np.zeros(2, dtype=np.int64),
        squares=np.zeros(n_states if constants.horizon > 0 else 0),
        scales=np.zeros(7),
    )
    state.values[:, 0] = constants.values
    return state


def new_stage(
    simulator: Simulator,
    samples: int,
    lam: Floats,
    u: Floats,
    v: Floats,
    radii: tuple[float, float],
    kappa: Floats,
) -> tuple[State, Constants]:
    """A stage of so many steps from lam [n], u [K] and v [S], which have the radii (of u and of v) to go."""
    limit = _PRICE_LIMIT / (1.0 - simulator.discount)
    u = np.maximum(u, 0.0)
    project_prices(u, _PRICE_LIMIT)
    constants = Constants(
        steps=Steps(0.0, 0.0, 0.0, BASELINE_RATE, _STAGE_EXPLORATION, samples // 2),
        discount=float(simulator.discount),
        kappa=kappa,
        price_radius=_PRICE_LIMIT,
        value_radius=limit,
        levels=tree_levels(len(lam)),
        horizon=samples,
        prices=u,
        values=np.clip(v, -limit, limit),
    )
    state = new_state(constants, len(lam))
    state.tree[: len(lam)] = lam
    tree_rebuild(state.tree, constants.levels)
    state.scales[_RHO_U], state.scales[_RHO_V] = radii
    return state, constants


@compiled
def advance(state: State, constants: Constants, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
    """One step per sample, from `drawn` to `until` samples. The letters are the paper's."""
    tree, levels, values, prices = state.tree, constants.levels, state.values, state.prices
    pair_sums, price_sums, slopes, heights = state.pair_sums, state.price_sums, state.slopes, state.heights
    n, n_constraints, n_further = world.states.shape[0], world.margins.shape[1], heights.shape[0]
    made, gamma, kappa, radius = constants.steps, constants.discount, constants.kappa, constants.value_radius
    alpha, beta, delta, M = made.alpha, made.beta, made.exploration, made.shift
    if made.baseline_rate > 0.0:
        M = state.baseline[0]
    inverse_sum, steps, averaged = state.inverse_sum[0], state.steps[0], state.steps[1]
    in_stage, log_n = constants.horizon > 0, math.log(n)
    alpha_s0, alpha_after, alpha_s = alpha, alpha, alpha

    while drawn < until:
        total = tree_total(tree, levels)
        if total < _SMALLEST_TOTAL or inverse_sum * total > _LARGEST_SUM_IN_TERMS:
            settle(tree, pair_sums, inverse_sum)
            inverse_sum = 0.0
            total = tree_normalise(tree, levels, n, total)
        if steps == made.restart:
            restart_averages(pair_sums, values, price_sums, inverse_sum)
            averaged = 0
        averaged += 1
        inverse_sum += 1.0 / total

        k = draw_mixed(tree, levels, n, delta, total, rng)
        after = draw_next(world, k, rng)
        s0 = draw_start(world, rng)
        s = world.states[k]

        lam = tree[k] / total
        zeta = (1.0 - delta) * lam + delta / n
        w = lam / zeta
        reward = world.reward[k]
        if slopes.shape[1] > n_further:
            reward = slopes[k, n_further]
        Z = reward + gamma * values[after, 0] - values[s, 0]
        if in_stage:
            ahead = constants.horizon / (steps + 1.0)
            alpha = stage_price_step(state, constants, world, k, w, ahead)
            add_squares(state, s0, after, s, gamma, w)
            count_distances(state, constants.values, s0, after, s, -1.0)
            alpha_s0 = stage_value_step(state, s0, ahead)
            alpha_after = stage_value_step(state, after, ahead)
            alpha_s = stage_value_step(state, s, ahead)
        for i in range(n_constraints):
            Z += prices[i] * world.margins[k, i]
            price_sums[i] += prices[i]
            prices[i] -= alpha * (w * world.margins[k, i] - kappa[i])
        for j in range(n_further):
            i = n_constraints + j
            Z += prices[i] * slopes[k, j]
            price_sums[i] += prices[i]
            prices[i] -= alpha * (heights[j] - kappa[i])
        project_prices(prices, constants.price_radius)

        account_value(values, s, averaged)
        account_value(values, after, averaged)
        account_value(values, s0, averaged)
        values[s0, 0] -= alpha_s0 * (1.0 - gamma)
        values[after, 0] -= alpha_after * gamma * w
        values[s, 0] += alpha_s * w
        values[s0, 0] = min(max(values[s0, 0], -radius), radius)
        values[after, 0] = min(max(values[after, 0], -radius), radius)
        values[s, 0] = min(max(values[s, 0], -radius), radius)

        pair_sums[k, 0] += tree[k] * (inverse_sum - pair_sums[k, 1])
        pair_sums[k, 1] = inverse_sum
        if in_stage:
            count_distances(state, constants.values, s0, after, s, 1.0)
            find_distances(state, constants)
            beta = stage_weight_step(state, lam, Z - M, zeta, ahead, log_n, delta / n)
        tree_set(tree, levels, k, grown(tree[k], beta * (Z - M) / zeta))
        if made.baseline_rate > 0.0:
            rate = made.baseline_rate
            if in_stage:
                rate = max(rate, 1.0 / (steps + 1.0))
            M += rate * (Z - M)
        steps += 1
        drawn += 1

    state.inverse_sum[0], state.steps[0], state.steps[1] = inverse_sum, steps, averaged
    state.baseline[0] = M
    return drawn


# The scale of a stage. `State.scales` holds: sum of lam (Z - M)^2 / zeta^2; sum of |g_u|^2; sum of G over the states;
# sums over the states of v - v_0 and of its square; and the largest distances so far, at least the radii, of u and v.
_WEIGHTS, _PRICES, _VALUES, _SHIFT, _SPREAD, _RHO_U, _RHO_V = 0, 1, 2, 3, 4, 5, 6


@compiled
def stage_price_step(state: State, constants: Constants, world: World, k: int, w: float, ahead: float) -> float:
    """alpha_u, after the gradient of this step has been counted."""
    for i in range(constants.kappa.shape[0]):
        gradient = w * world.margins[k, i] - constants.kappa[i]
        state.scales[_PRICES] += gradient * gradient
    if state.scales[_PRICES] == 0.0:
        return 0.0
    return state.scales[_RHO_U] / math.sqrt(ahead * state.scales[_PRICES])


@compiled
def add_squares(state: State, s0: int, after: int, s: int, gamma: float, w: float) -> None:
    """Count the gradient of v in this step, which has up to three entries."""
    first, second, third = 1.0 - gamma, gamma * w, -w
    if after == s0:
        first, second = first + second, 0.0
    if s == s0:
        first, third = first + third, 0.0
    elif s == after:
        second, third = second + third, 0.0
    state.squares[s0] += first * first
    state.squares[after] += second * second
    state.squares[s] += third * third
    state.scales[_VALUES] += first * first + second * second + third * third


@compiled
def stage_value_step(state: State, s: int, ahead: float) -> float:
    """alpha of one state."""
    n_states = state.squares.shape[0]
    total = _OWN * state.squares[s] + (1.0 - _OWN) * state.scales[_VALUES] / n_states
    if total == 0.0:
        return 0.0
    return state.scales[_RHO_V] / math.sqrt(ahead * total)


@compiled
def count_distances(state: State, origin: Floats, s0: int, after: int, s: int, sign: float) -> None:
    """Add (1), or take away (-1), the up to three states of a step in the sums of v - v_0 and of its square."""
    add_distance(state, origin, s0, sign)
    if after != s0:
        add_distance(state, origin, after, sign)
    if s != s0 and s != after:
        add_distance(state, origin, s, sign)


@compiled
def add_distance(state: State, origin: Floats, s: int, sign: float) -> None:
    off = state.values[s, 0] - origin[s]
    state.scales[_SHIFT] += sign * off
    state.scales[_SPREAD] += sign * off * off


@compiled
def find_distances(state: State, constants: Constants) -> None:
    """Let the distances that u and v have gone from their starts count, where they are the largest so far."""
    total, n_states = 0.0, state.squares.shape[0]
    for i in range(state.prices.shape[0]):
        off = state.prices[i] - constants.prices[i]
        total += off * off
    state.scales[_RHO_U] = max(state.scales[_RHO_U], math.sqrt(total))
    mean = state.scales[_SHIFT] / n_states
    spread = max(state.scales[_SPREAD] / n_states - mean * mean, 0.0)
    state.scales[_RHO_V] = max(state.scales[_RHO_V], math.sqrt(spread))


@compiled
def stage_weight_step(
    state: State, lam: float, off: float, zeta: float, ahead: float, log_n: float, least: float
) -> float:
    """beta, after this step has been counted; never so large that the exponent is beyond 1: zeta >= least."""
    if off == 0.0:
        return 0.0
    state.scales[_WEIGHTS] += lam * off * off / (zeta * zeta)
    return min(_HEDGE * math.sqrt(log_n / (ahead * state.scales[_WEIGHTS])), least / abs(off))


@compiled
def settle(tree: Floats, pair_sums: Floats, inverse_sum: float) -> None:
    """Bring every pair's sum up to date, so that inverse_sum can start again at 0."""
    for k in range(pair_sums.shape[0]):
        pair_sums[k, 0] += tree[k] * (inverse_sum - pair_sums[k, 1])
        pair_sums[k, 1] = 0.0


@compiled
def restart_averages(pair_sums: Floats, values: Floats, price_sums: Floats, inverse_sum: float) -> None:
    for k in range(pair_sums.shape[0]):
        pair_sums[k, 0] = 0.0
        pair_sums[k, 1] = inverse_sum
    for s in range(values.shape[0]):
        values[s, 1] = 0.0
        values[s, 2] = 0.0
    clear(price_sums)


def average_occupancy(state: State) -> Floats:
    """The average of lam over the steps averaged so far, [n]. The flow equations hold only in the limit."""
    n = len(state.pair_sums)
    sums = state.pair_sums[:, 0] + state.tree[:n] * (state.inverse_sum[0] - state.pair_sums[:, 1])
    return sums / state.steps[1]


def extract(state: State, constants: Constants, simulator: Simulator) -> Answer:
    occupancy, prices = average_occupancy(state), state.price_sums / state.steps[1]
    averages = Averages(occupancy, prices, average_values(state))
    return Answer(Policy.from_occupancy(simulator, occupancy), prices, averages)
