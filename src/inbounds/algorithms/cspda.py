"""CSPDA: the Conservative Stochastic Primal-Dual Algorithm.

Qinbo Bai, Amrit Singh Bedi, Mridul Agarwal, Alec Koppel, Vaneet Aggarwal. "Achieving Zero Constraint Violation for
Constrained Reinforcement Learning via Primal-Dual Approach", AAAI 2022. Algorithm 1.

Problem
-------
Only a generative model is at hand: any pair can be asked for a next state. In scaled units (reward r in [0, 1],
margins g_i in [-1, 1]), with an occupancy lam over the n pairs, prices u >= 0 of the K constraints and a value v of
each state, solve

    max over lam, min over u and v of
    L = <lam, r> + sum_i u_i (<lam, g_i> - kappa) + (1 - gamma) <rho, v> + sum_{s,a} lam(s,a) (gamma E v(s') - v(s))

with every constraint tightened by kappa > 0, so that the error of learning does not end on the wrong side of the bound.

Updates
-------
From lam uniform, u = 0, v = 0, one sample a step, all three from the values before the step:

    k = (s, a) ~ zeta = (1 - delta) lam + delta / n,   s0 ~ rho,   s' ~ P(. | s, a)
    Z = r(k) + gamma v(s') - v(s) + sum_i u_i g_i(k),  w = lam(k) / zeta(k)
    u_i    <- project( u_i - alpha (w g_i(k) - kappa) )        onto { u >= 0, sum u <= 4 / phi }
    v      <- clip( v - alpha ((1 - gamma) e(s0) + w (gamma e(s') - e(s))) )   to |v| <= 2 (1 + 2 / phi) / (1 - gamma)
    lam(k) <- lam(k) exp( beta (Z - M) / zeta(k) ), then normalise

The output is the policy of the average of lam over the steps: an average of occupancies, not a last iterate. The
averages of lam, u and v, which are all that the paper's Algorithm 1 returns, are in ``run.averages``.

Names
-----
    code                paper           code                paper
    slater              phi             exploration         delta
    shift               M               constant            c~_1
    alpha, beta, kappa  the same        price_radius        4 / phi
    weights             lam, unnormalised                   value_radius  radius of V

Guarantee
---------
With T >= max(16, 4 phi^2, 1 / eps^2) c~_1^2 K n log n / ((1 - gamma)^2 phi^2) samples, and the formulas below:
expected reward within 4 eps of the optimum and expected margins >= 0 (scaled units, normalised by (1 - gamma)). It is
a statement about the mean over runs: a single run may be out of bounds. The proof needs c~_1 = 1195.5; the paper's
experiment uses 0.02, which no theorem covers. With kappa = 0, and T >= c~_1^2 K n log n / ((1 - gamma)^2 phi^2 eps^2):
within 2 eps, and >= -2 eps phi; c~_1 is then in no setting, only in this eps. What holds of the averages themselves,
and for which kappa, is in docs/theorems.md.

Departures from the paper's text, each an error or a gap in it
--------------------------------------------------------------
* The set of prices is printed without u >= 0, which the proof needs; we project onto { u >= 0, sum u <= 4 / phi }.
* The theorem's "<= eps" is "<= 4 eps" by its own proof.
* Starting u and v, delta, and the action set at the paper's full buffer are not given: zeros, 0.1, and see `zoo.queue`.
* Exploration must cover the support of lam, not the other way round as printed; it does, since delta > 0.
* The sampled gradient in lam has mean (gradient - M), not the gradient: the constant M cancels only in expectation.
  With samples it pushes every pair that is drawn down, however small the rewards are beside it, which is why the
  experiment comes out as the paper says with its costs as printed, and not with costs scaled (docs/reproduction.md).

Practical preset
----------------
`CSPDA.practical()`: no Slater constant, no tuning, and no theorem. With steps by formula the preset cannot hold
everywhere: the distance that v has to go is a few tenths on random problems and ten times that on a queue or a chain,
the size of Z - M is that of the errors in v, far below its bound, and what the policy of the average really keeps may
be a tenth below or above what <lam, g> says. So the steps find their scale, and what comes out is tested
(`inbounds.algorithms.frame`, `inbounds.algorithms.repair`). Shares of the samples:

    pilot             .10  every pair in turn: an empirical model; its optimum: policy, u0, v0, lam0; its safest policy
    first stage       .45  from .7 lam0 + .3 / n, u0, v0
    trial             .10  walks of the policy of its average: margins m, standard errors se, z for 1 %, low = m - z se
    second stage      .13  from .9 lam + .1 / n of the first's average, its u and v; each constraint tightened by
                           kappa = 2 z se + 1.5 max(-low, 0), at most half the pilot's Slater constant, if any low < 0;
                           else bolder, z se - .5 low
    trials            .10 of the second stage, .07 of the pilot's optimum, .05 of the safest
    the answer        the mixture of the four with the most tested reward whose margins, less z se, are all >= 0

A *stage* of N steps is the algorithm above with delta = .5, M a running mean of Z (a control variate: predictable, so
the direction stays unbiased), the average of the second half, u with a sum of at most 50, |v| <= 50 / (1 - gamma), and

    beta    = .5 sqrt( log n / (N/t sum_i lam (Z - M)^2 / zeta^2) ), at most delta / (n |Z - M|)       adaptive Hedge
    alpha_u = rho_u / sqrt( N/t sum_i |g_u|^2 )                rho_u = max(radius, max_i |u_i - u_0|)
    alpha_s = rho_v / sqrt( N/t (.97 G_s + .03 mean of G) )    rho_v = max(radius, max_i std over states of v_i - v_0)

at step t, sums and maxima over the steps so far: distance over gradients, G_s the sum of the squared gradients of v at
state s. N/t extrapolates the sums to the end of the stage. The radius is .1 in the first stage; in the second what the
first moved, at least .1 for u and .03 for v. Where the pilot's model has no policy in bounds, a stage starts from the
safest; where the budget is too small for a pilot, from zeros; the guarantee of the run says so.

*What this is worth.* **A plan on the same samples needs fewer of them**: `ModelBased.practical()` has the same frame
around a linear program on the empirical model, and on the suite's tuning half its gap is two thirds to three quarters
of this one's (0.47 against 0.65 % at 1e6 samples, 1.6 against 2.5 % at 1e5). The frame brings the bounds; the steps are
CSPDA's, made usable.

`CSPDA.practical(repair=False)`: the bare method. M is a running mean, the average starts half way, alpha is multiplied
by 0.03 and beta by 100, at most 1 / n. It holds on the queue and little else.

Cost
----
O(log n + K) a step: lam is kept unnormalised in a sum tree; its average is brought up to date for a pair only when
that pair changes. With W_t the total weight at step t, the average of lam(k) over an interval in which its weight w
did not change is w * sum 1 / W_t, so one running sum of 1 / W_t serves all pairs.

The same kernel serves functions of lam that are not linear, through their gradients: see `concave_cspda`. Here there
are none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import ClassVar, NamedTuple

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Algorithm, Answer, Averages, Prepared
from inbounds.algorithms.empirical import best_of, slater_from_samples
from inbounds.algorithms.frame import (
    PILOT,
    Frame,
    Part,
    RepairSettings,
    answer_of,
    outcome_of,
    pilot,
    second_kappa,
    survey,
    trial,
)
from inbounds.algorithms.frame import State as FrameState
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
from inbounds.algorithms.repair import next_kappa
from inbounds.algorithms.settings import Formulas, StepSettings, guarantee_unless
from inbounds.arrays import Floats, Ints
from inbounds.criteria.evaluation import occupancy as occupancy_of
from inbounds.errors import Infeasible, InvalidInput
from inbounds.numerics.compiled import compiled
from inbounds.problem.draws import World, draw_next, draw_start
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator
from inbounds.proofs.walks import guess_from_model

PROOF_CONSTANT = 1195.5
"""The least c~_1 that the paper's proof allows: 1 + 1024 + 104 + 18.5 + 48, from five of its six terms; one is zero."""

EXPERIMENT_CONSTANT = 0.02
"""The c~_1 of the paper's experiment."""

# Weights underflow when their total W has shrunk. And the running sum of 1 / W must not dwarf its next term, or what it
# adds is lost in rounding: it does when W has grown since the sum started (from wherever it was), or after many steps.
_SMALLEST_TOTAL, _LARGEST_SUM_IN_TERMS = 1e-100, 2.0**20

# Of the practical preset. Results hardly depend on any of them: a third of the first, or twice it, an exploration of
# 0.3, a radius of 0.03, a start of 0.1 changed the mean gap over 24 problems from 0.71 % to at most 0.79 %.
_HEDGE = 0.5  # factor of beta
_OWN = 0.97  # weight of a state's own squared gradients in its step, against the mean over states
_STAGE_EXPLORATION = 0.5  # delta
_RADIUS = 0.1  # the distance that u and v are taken to have to go, before they have gone further
_LEAST_RADII = 0.1, 0.03  # of u and of v, in the second stage
_FIRST_MIX, _SECOND_MIX = 0.3, 0.1  # of the uniform distribution, in the lam that a stage starts from
_PRICE_LIMIT = 50.0  # of the sum of prices, and of |v| (1 - gamma)
STAGES = {
    "first stage": 0.45,
    "trial of first stage": 0.10,
    "second stage": 0.13,
    "trial of second stage": 0.10,
    "trial of plan": 0.07,
    "trial of safest": 0.05,
}
"""Shares of the samples, after a pilot of a tenth."""


@dataclass(frozen=True, repr=False)
class CSPDA(StepSettings, RepairSettings):
    """Settings of CSPDA; the defaults are the paper's formulas. See the module for the algorithm.

    Parameters
    ----------
    slater : float in (0, 1], optional
        The Slater constant phi in scaled units: a margin that some policy keeps in every constraint at once. When it
        is not given, a tenth of the samples (they count), but at most 10,000 of every pair, is drawn evenly over the
        pairs, and half the Slater constant of the empirical model is taken, at least 0.01. The practical preset does
        not need it: there half of it, instead of half the pilot's, is the most that the second stage is tightened by.
    kappa : float, optional
        How much every constraint is tightened, in scaled units. Default: the paper's formula; 0 is its Corollary. In
        the practical preset, whose tests find what it takes to be in bounds: a margin to keep beyond that, 0 by
        default; stages and the mixture are asked for it.
    alpha, beta : float, optional
        Step sizes of prices and values, and of the occupancy. Default: the paper's formulas.
    exploration : float in (0, 1/2)
        The paper's delta.
    constant : float
        The paper's c~_1, which sets kappa. Its experiment uses 0.02; its proof needs 1195.5.

    Examples
    --------
    >>> import inbounds as ib
    >>> ib.CSPDA(slater=0.2, kappa=0.0)
    CSPDA(slater=0.2, kappa=0.0)
    >>> queue = ib.zoo.queue()
    >>> run = ib.learn(queue.simulator(), ib.CSPDA.practical(), samples=100_000, seed=0)
    >>> judged = ib.evaluate(queue, run.policy)
    >>> judged.in_bounds, judged.total_reward > 4.58, "shown by a test" in run.guarantee
    (True, True, True)
    """

    slater: float | None = field(default=None, metadata=checks.SHARE)
    kappa: float | None = field(default=None, metadata=checks.TIGHTENING)
    exploration: float = field(default=0.1, metadata=checks.a_number("in (0, 1/2)", lambda value: 0.0 < value < 0.5))
    constant: float = field(default=EXPERIMENT_CONSTANT, metadata=checks.POSITIVE, kw_only=True)

    preset: ClassVar = dict(
        shift="baseline", average="second half", alpha_multiplier=0.03, beta_multiplier=100.0, repair=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for each in fields(self) if self.repair else ():
            heeded = each.name in ("slater", "kappa", "repair")
            if not heeded and getattr(self, each.name) not in (each.default, self.preset.get(each.name, each.default)):
                raise InvalidInput(
                    f"{type(self).__name__}: {each.name} is a setting of the bare method; give repair=False with it, "
                    f"or leave it out: the steps of the preset find their own scale"
                )

    @property
    def following(self) -> Callable[[Frame, FrameState, np.random.Generator], Part]:
        return next_part


def formulas(
    n_states: int,
    n_pairs: int,
    n_constraints: int,
    discount: float,
    slater: float,
    steps: int,
    constant: float,
) -> Formulas:
    """Theorem 2's settings. Without constraints, those of one constraint that is never active, and kappa = 0."""
    horizon = 1.0 / (1.0 - discount)
    log_n = math.log(n_pairs)
    return Formulas(
        alpha=math.sqrt(n_states / (steps * max(n_constraints, 1))) * horizon / slater,
        beta=slater / horizon * math.sqrt(log_n / (steps * n_pairs)),
        shift=4.0 * (1.0 / slater + horizon + 2.0 * horizon / slater),
        kappa=2.0 * constant * horizon * math.sqrt(n_constraints * n_pairs * log_n / steps),
    )


def price_radius(slater: float) -> float:
    """Of the set U: prices are >= 0 and sum to at most so much, twice the most that the best ones can."""
    return 4.0 / slater


def value_radius(slater: float, discount: float) -> float:
    """Of the set V: the absolute value of a state is at most so much, twice the most that the best ones can."""
    return 2.0 * (1.0 + 2.0 / slater) / (1.0 - discount)


def proved_error(n_pairs: int, n_constraints: int, discount: float, slater: float, steps: int) -> float:
    """The eps that the paper's proof buys with so many steps; its Theorem 1 bounds the duality gap by it."""
    rate = math.sqrt(max(n_constraints, 1) * n_pairs * math.log(n_pairs) / steps)
    return PROOF_CONSTANT * rate / ((1.0 - discount) * slater)


class Constants(NamedTuple):
    discount: float
    alpha: float
    beta: float
    shift: float  # used when baseline_rate is 0
    baseline_rate: float
    kappa: Floats  # [K + J]
    exploration: float
    price_radius: float
    value_radius: float
    restart: int  # the step at which averages start anew
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


def prepare(
    settings: CSPDA,
    simulator: Simulator,
    samples: int,
    rng: np.random.Generator,
    n_further: int = 0,
    with_utility: bool = False,
) -> Prepared:
    """As in `Algorithm`, with room for `n_further` functions of lam >= 0, and for a utility in the reward's place."""
    pairs, discount, n_constraints = simulator.pairs, simulator.discount, simulator.n_constraints + n_further
    slater, drawn = slater_from_samples(settings, simulator, samples, rng)
    steps = samples - drawn
    paper = formulas(pairs.n_states, pairs.n_pairs, n_constraints, discount, slater, steps, settings.constant)
    kappa = float(paper.kappa if settings.kappa is None else settings.kappa)
    constants = Constants(
        **settings.constants(paper, pairs.n_pairs, steps),
        discount=float(discount),
        kappa=np.full(n_constraints, kappa),
        price_radius=price_radius(slater),
        value_radius=value_radius(slater, discount),
        levels=tree_levels(pairs.n_pairs),
        horizon=0,
        prices=np.zeros(n_constraints),
        values=np.zeros(pairs.n_states),
    )
    state = new_state(constants, pairs.n_pairs, n_further, with_utility)
    shown = {"slater": slater, "kappa": kappa} | settings.shown(constants)
    error = proved_error(pairs.n_pairs, n_constraints, discount, slater, steps)
    return Prepared(state, constants, drawn, shown, _guarantee(settings, slater, drawn > 0, kappa, error))


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


def _guarantee(settings: CSPDA, slater: float, estimated: bool, kappa: float, error: float) -> str:
    """With kappa = 0 the paper's constant is in no setting: only in what is proved, its corollary."""
    constant, plain = settings.constant, kappa == 0.0
    own = {name: getattr(settings, name) for name in ("slater", "constant", "exploration")}
    if plain:
        own["kappa"] = settings.kappa
    reward = f"the expected reward is within {(2.0 if plain else 4.0) * error:.3g} of the optimum"
    margins = f">= {-2.0 * slater * error:.3g}" if plain else ">= 0"
    empty = "; at so few samples that says nothing" if plain and 2.0 * slater * error >= 1.0 else ""
    why = ": too few samples" if settings.kappa is None else ""
    return guarantee_unless(
        {
            "settings that differ from the paper's formulas": settings != type(settings)(**own),
            f"constant {constant:g} where the proof needs {PROOF_CONSTANT:g}": constant < PROOF_CONSTANT and not plain,
            "an estimated Slater constant": estimated,
            f"kappa {kappa:.3g} above half the Slater constant, {slater / 2.0:.3g}{why}": kappa > slater / 2.0,
        },
        f"the paper's {'Corollary 2' if plain else 'Theorem 3'}: over runs, the expected margins are {margins} and "
        f"{reward} (scaled units), if the Slater constant is right{empty}",
    )


@compiled
def advance(state: State, constants: Constants, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
    """One step per sample, from `drawn` to `until` samples. The letters are the paper's."""
    tree, levels, values, prices = state.tree, constants.levels, state.values, state.prices
    pair_sums, price_sums, slopes, heights = state.pair_sums, state.price_sums, state.slopes, state.heights
    n, n_constraints, n_further = world.states.shape[0], world.margins.shape[1], heights.shape[0]
    gamma, alpha, beta, kappa = constants.discount, constants.alpha, constants.beta, constants.kappa
    delta, radius = constants.exploration, constants.value_radius
    M = constants.shift
    if constants.baseline_rate > 0.0:
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
        if steps == constants.restart:
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
        if constants.baseline_rate > 0.0:
            rate = constants.baseline_rate
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


# The practical preset: pilot, stages, trials.


def next_part(frame: Frame, state: FrameState, rng: np.random.Generator) -> Part:
    """The pilot, then the parts of `STAGES` that there can be, by what was found before."""
    parts = {part.name: part for part in state.parts}
    if not parts and frame.with_pilot:
        return pilot(frame, int(PILOT * frame.samples))
    if "pilot" in parts and not state.surveys:
        surveyed = survey(frame, parts["pilot"].state)
        with suppress(Infeasible):
            surveyed = surveyed._replace(more=best_of(surveyed.model))
        state.surveys.append(surveyed)
    found = state.surveys[0] if state.surveys else None
    left = {name: share for name, share in STAGES.items() if name not in parts}
    if found is None or found.more is None:
        left.pop("trial of plan", None)
    if found is None or frame.simulator.n_constraints == 0:
        left.pop("trial of safest", None)
    name, samples = next(iter(left)), frame.share(state, left)
    if name == "first stage":
        return first_stage(frame, state, samples)
    if name == "second stage":
        return second_stage(frame, state, samples)
    tried = name.removeprefix("trial of ")
    if tried in parts:
        return trial(frame, state, name, answer_of(parts[tried], frame), samples, own=True)
    assert found is not None
    policy = found.more.policy if tried == "plan" else found.safest
    return trial(frame, state, name, Answer(policy, np.zeros(frame.simulator.n_constraints)), samples)


def first_stage(frame: Frame, state: FrameState, samples: int) -> Part:
    """From the optimum of the pilot's model; where it has none, from its safest policy; without a pilot from zeros."""
    simulator = frame.simulator
    n_pairs, n_states, steps = simulator.pairs.n_pairs, simulator.pairs.n_states, 1.0 / (1.0 - simulator.discount)
    lam, u, v = np.full(n_pairs, 1.0 / n_pairs), np.zeros(simulator.n_constraints), np.zeros(n_states)
    note = "it starts from zeros"
    if state.surveys:
        found, note = state.surveys[0], ""
        if found.more is not None:
            lam, u, v = found.more.occupancy, found.more.prices, steps * found.more.value_function
        else:
            note = "as far as the pilot shows no policy is in bounds, so it starts from the safest"
            lam = occupancy_of(found.model, found.safest)
            v = steps * guess_from_model(found.model, found.safest).state_values[:, 0]
    kappa = np.full(simulator.n_constraints, frame.kappa)
    lam = (1.0 - _FIRST_MIX) * lam + _FIRST_MIX / n_pairs
    part = new_stage(simulator, "first stage", samples, lam, u, v, (_RADIUS, _RADIUS), kappa)
    return part._replace(settings={"kappa": frame.kappa}, note=note)


def second_stage(frame: Frame, state: FrameState, samples: int) -> Part:
    """From where the first ended, with the kappa that its trial asks for."""
    parts = {part.name: part for part in state.parts}
    before = parts["first stage"]
    lam, v = average_occupancy(before.state), average_values(before.state)
    u = before.state.price_sums / before.state.steps[1]
    moved = v - before.constants.values
    radii = float(np.linalg.norm(u - before.constants.prices)), float(moved.std())
    slater = frame.settings.slater
    if slater is None:
        slater = max(state.surveys[0].slater, 0.0) if state.surveys else np.inf
    kappa = next_kappa(outcome_of(parts["trial of first stage"]), frame.kappa, 0.5 * slater)
    lam = (1.0 - _SECOND_MIX) * lam + _SECOND_MIX / len(lam)
    radii = max(radii[0], _LEAST_RADII[0]), max(radii[1], _LEAST_RADII[1])
    part = new_stage(frame.simulator, "second stage", samples, lam, u, v, radii, kappa)
    return part._replace(settings=second_kappa(kappa))


def new_stage(
    simulator: Simulator,
    name: str,
    samples: int,
    lam: Floats,
    u: Floats,
    v: Floats,
    radii: tuple[float, float],
    kappa: Floats,
) -> Part:
    """A stage of so many steps from lam [n], u [K] and v [S], which have the radii (of u and of v) to go."""
    limit = _PRICE_LIMIT / (1.0 - simulator.discount)
    u = np.maximum(u, 0.0)
    project_prices(u, _PRICE_LIMIT)
    constants = Constants(
        discount=float(simulator.discount),
        alpha=0.0,
        beta=0.0,
        shift=0.0,
        baseline_rate=BASELINE_RATE,
        kappa=kappa,
        exploration=_STAGE_EXPLORATION,
        price_radius=_PRICE_LIMIT,
        value_radius=limit,
        restart=samples // 2,
        levels=tree_levels(len(lam)),
        horizon=samples,
        prices=u,
        values=np.clip(v, -limit, limit),
    )
    state = new_state(constants, len(lam))
    state.tree[: len(lam)] = lam
    tree_rebuild(state.tree, constants.levels)
    state.scales[_RHO_U], state.scales[_RHO_V] = radii
    return Part(name, samples, advance, state, constants, extract)


CSPDA.algorithm = Algorithm(
    name="CSPDA",
    paper="Bai, Bedi, Agarwal, Koppel, Aggarwal (AAAI 2022)",
    setting="discounted, generative model",
    needs="Slater constant",
    output="average occupancy",
    sample_complexity="SA / ((1-γ)^4 ε^2)",
    violation="zero",
    constants="paper (Theorems 1 and 2)",
    prepare=prepare,
    advance=advance,
    extract=extract,
)
