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
`CSPDA.practical()`: M is replaced by a running mean of Z (a control variate: predictable, so the direction stays
unbiased), the average starts half way, alpha is multiplied by 0.03 and beta by 100, at most 1 / n. No theorem covers
it.

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
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Algorithm, Answer, Averages, Prepared
from inbounds.algorithms.empirical import slater_from_samples
from inbounds.algorithms.kernels import (
    account_value,
    average_values,
    clear,
    draw_mixed,
    grown,
    project_prices,
    tree_levels,
    tree_normalise,
    tree_set,
    tree_total,
    uniform_tree,
)
from inbounds.algorithms.settings import Formulas, StepSettings, guarantee_unless
from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled
from inbounds.problem.draws import World, draw_next, draw_start
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator

PROOF_CONSTANT = 1195.5
"""The least c~_1 that the paper's proof allows: 1 + 1024 + 104 + 18.5 + 48, from five of its six terms; one is zero."""

EXPERIMENT_CONSTANT = 0.02
"""The c~_1 of the paper's experiment."""

# Weights underflow when their total W has shrunk. And the running sum of 1 / W must not dwarf its next term, or what it
# adds is lost in rounding: it does when W has grown since the sum started (from wherever it was), or after many steps.
_SMALLEST_TOTAL, _LARGEST_SUM_IN_TERMS = 1e-100, 2.0**20


@dataclass(frozen=True, repr=False)
class CSPDA(StepSettings):
    """Settings of CSPDA; the defaults are the paper's formulas. See the module for the algorithm.

    Parameters
    ----------
    slater : float in (0, 1], optional
        The Slater constant phi in scaled units: a margin that some policy keeps in every constraint at once. When it
        is not given, a tenth of the samples (they count), but at most 10,000 of every pair, is drawn evenly over the
        pairs, and half the Slater constant of the empirical model is taken, at least 0.01.
    kappa : float, optional
        How much every constraint is tightened, in scaled units. Default: the paper's formula; 0 is its Corollary.
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
    >>> ib.CSPDA.practical(slater=0.2).shift
    'baseline'
    """

    slater: float | None = field(default=None, metadata=checks.SHARE)
    kappa: float | None = field(default=None, metadata=checks.TIGHTENING)
    exploration: float = field(default=0.1, metadata=checks.a_number("in (0, 1/2)", lambda value: 0.0 < value < 0.5))
    constant: float = field(default=EXPERIMENT_CONSTANT, metadata=checks.POSITIVE, kw_only=True)

    preset: ClassVar = dict(shift="baseline", average="second half", alpha_multiplier=0.03, beta_multiplier=100.0)


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
    kappa: float
    exploration: float
    price_radius: float
    value_radius: float
    restart: int  # the step at which averages start anew
    levels: Ints  # of the sum tree


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
    constants = Constants(
        **settings.constants(paper, pairs.n_pairs, steps),
        discount=float(discount),
        kappa=float(paper.kappa if settings.kappa is None else settings.kappa),
        price_radius=price_radius(slater),
        value_radius=value_radius(slater, discount),
        levels=tree_levels(pairs.n_pairs),
    )
    state = State(
        tree=uniform_tree(constants.levels, pairs.n_pairs),
        pair_sums=np.zeros((pairs.n_pairs, 2)),
        values=np.zeros((pairs.n_states, 3)),
        prices=np.zeros(n_constraints),
        price_sums=np.zeros(n_constraints),
        slopes=np.zeros((pairs.n_pairs, n_further + with_utility)),
        heights=np.zeros(n_further),
        inverse_sum=np.zeros(1),
        baseline=np.zeros(1),
        steps=np.zeros(2, dtype=np.int64),
    )
    shown = {"slater": slater, "kappa": constants.kappa} | settings.shown(constants)
    error = proved_error(pairs.n_pairs, n_constraints, discount, slater, steps)
    guarantee = _guarantee(settings, slater, drawn > 0, constants.kappa, error)
    return Prepared(state, constants, drawn, shown, guarantee)


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
        for i in range(n_constraints):
            Z += prices[i] * world.margins[k, i]
            price_sums[i] += prices[i]
            prices[i] -= alpha * (w * world.margins[k, i] - kappa)
        for j in range(n_further):
            i = n_constraints + j
            Z += prices[i] * slopes[k, j]
            price_sums[i] += prices[i]
            prices[i] -= alpha * (heights[j] - kappa)
        project_prices(prices, constants.price_radius)

        account_value(values, s, averaged)
        account_value(values, after, averaged)
        account_value(values, s0, averaged)
        values[s0, 0] -= alpha * (1.0 - gamma)
        values[after, 0] -= alpha * gamma * w
        values[s, 0] += alpha * w
        values[s0, 0] = min(max(values[s0, 0], -radius), radius)
        values[after, 0] = min(max(values[after, 0], -radius), radius)
        values[s, 0] = min(max(values[s, 0], -radius), radius)

        pair_sums[k, 0] += tree[k] * (inverse_sum - pair_sums[k, 1])
        pair_sums[k, 1] = inverse_sum
        tree_set(tree, levels, k, grown(tree[k], beta * (Z - M) / zeta))
        if constants.baseline_rate > 0.0:
            M += constants.baseline_rate * (Z - M)
        steps += 1
        drawn += 1

    state.inverse_sum[0], state.steps[0], state.steps[1] = inverse_sum, steps, averaged
    state.baseline[0] = M
    return drawn


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
