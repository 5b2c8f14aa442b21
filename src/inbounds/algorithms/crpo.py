"""CRPO: Constraint-Rectified Policy Optimization.

Tengyu Xu, Yingbin Liang, Guanghui Lan. "CRPO: A New Approach for Safe Reinforcement Learning with Convergence
Guarantee", ICML 2021. Algorithm 1 with the natural policy gradient and tables.

Problem
-------
In scaled units (reward r in [0, 1], margins g_i in [-1, 1]), with a policy pi = softmax(theta) over the actions of each
state: as much reward as possible among the policies whose every margin is >= 0. There are no prices: an iteration
improves the reward as long as every margin looks good enough, and otherwise the margin that does not.

Updates
-------
From theta = 0 (the uniform policy), for t = 0, ..., T - 1:

    estimate Q_r and every Q_{g_i} of pi_t, and J_i = (1 - gamma) sum_s rho(s) sum_a pi_t(a|s) Q_{g_i}(s, a)
    if J_i >= kappa - tolerance for all i:   t joins N0,   theta <- theta + alpha / (1 - gamma) Q_r
    otherwise, for the i with the least J_i:               theta <- theta + alpha / (1 - gamma) Q_{g_i}

The output is the mixture of the policies pi_t, t in N0, as one stationary policy. If N0 is empty it is the last policy,
which nothing is claimed of: the problem may be infeasible, kappa too large, or the run too short.

*From samples* an iteration takes K_in of them, alternately of the next pair in turn (so that every pair is tried
equally often, however rarely the policy takes it) and of the next step of a walk of pi_t that starts anew from the
initial distribution with probability 1 - gamma after every step. Each is one step of TD(0) for the reward and for all
margins,

    Q_x(s, a) <- Q_x(s, a) + beta ( x(s, a) + gamma sum_b pi_t(b|s') Q_x(s', b) - Q_x(s, a) ),
    beta = 1 / sqrt( 1 + (1 - gamma) (tau - 1) ),   tau: how often the pair was sampled.

rho is the empirical distribution of starts, which are free: 1000 before the first sample and one with every sample. The
walk's visits to a state, times pi_t in that state, are summed over the iterations in N0 (it is known only at the end of
an iteration whether it is one): the ratios of those sums are the policy of the mixture, because the walk visits pairs
with the frequencies of the occupancy of pi_t (but for the walk under way when the policy changes, which the policy
before began). In states that were never visited it is the last policy.

*On a known model* (``ib.iterate``) values, margins and occupancies are exact.

Names
-----
    code                paper                       code                paper
    step                alpha / (1 - gamma)^2       iterations          T
    tolerance           (1 - gamma) eta             inner               K_in
    pair_values         Q, not normalised           kappa               (ours)

`step` multiplies values that are normalised, `tolerance` and `kappa` are margins of normalised values: so their size
means the same at every discount.

Guarantee
---------
With alpha = (1 - gamma)^1.5 / sqrt(n T), eta = 2 sqrt(n) / ((1 - gamma)^1.5 sqrt(T)) and K_in large enough, the reward
of the mixture is within O( sqrt(n) / ((1 - gamma)^1.5 sqrt(T)) ) of the optimum and no margin is below minus that, with
high probability. Formulas and bound are from memory: the paper's text was not at hand. A public account of the theorem
has the same alpha and the same orders of eta and of the bound; the 2 in eta it does not have. K_in is known as an order
only, T / ((1 - gamma) n) (a footnote of the CSPDA paper), hence no claim is made for a run from samples. On a known
model one claim needs no theorem: every policy in N0 has margins >= kappa - tolerance, so the mixture has, too.

Departures, with their reasons
------------------------------
* Pairs in turn beside the walk: the paper samples along the policy, and never learns the values of actions that the
  policy has all but given up. A generative model need not.
* The mean over the next action instead of a draw of it: the same expectation, less noise, and no more work, since the
  values of states are kept up to date.
* Of several violated constraints the paper takes any; we take the most violated.
* The rate of TD(0), in the paper k^(-sigma) with any sigma in (0, 1) (from memory), is by the samples of the pair,
  and slowed down by the horizon: an error that all pairs share shrinks by a factor 1 - (1 - gamma) beta only.
* T and K_in for a budget of N samples: K_in = sqrt( N / ((1 - gamma) n) ) and T = N / K_in, from the order above; but
  K_in at least n, since an iteration that cannot try every pair has little to go by.
* kappa, which the paper does not have: a tightening. With a tolerance of 0 it is the variant that aims at no violation.

Practical preset
----------------
`CRPO.practical()`: as many samples an iteration as there are pairs, at least 20 / (1 - gamma); values are carried over
from one policy to the next and so are the counts behind beta; step 1; no tolerance but kappa = 0.03 sqrt(n / ((1 -
gamma) N)); the mixture of the second half of the iterations. No theorem covers it. The learner is in a frame that tests
its policy and mixes it with a safe one (`inbounds.algorithms.frame`); ``repair=False`` is the method alone. What limits
it: with only a few times 1 / (1 - gamma) samples of every pair the estimates have not caught up, and most of the answer
is the safe one.

Cost
----
O(A + K) a sample and O(n (1 + K)) an iteration. On a known model, one elimination and 1 + K solutions of the policy's
chain an iteration, and one of each more for an iteration in N0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Algorithm, Answer, Averages, Known, Prepared, shares
from inbounds.algorithms.frame import RepairSettings
from inbounds.algorithms.kernels import FIRST_STARTS, clear, softmax_row
from inbounds.algorithms.known import KnownModel, priced_signals, start_value
from inbounds.algorithms.settings import restart_of, stated
from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled
from inbounds.numerics.policy_chains import pair_occupancy, pair_values, state_values
from inbounds.problem.cmdp import CMDP
from inbounds.problem.draws import World, draw_ends, draw_next, draw_pair, draw_start, observed
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator


@dataclass(frozen=True, repr=False)
class CRPO(RepairSettings):
    """Settings of CRPO; the defaults are the paper's formulas, from memory. See the module for the algorithm.

    ``ib.iterate`` heeds all but `inner`, `values` and `kappa_multiplier`. There are no prices: those of a run are nan.

    Parameters
    ----------
    kappa : float, optional
        How much every constraint is tightened, in scaled units, normalised. Default: `kappa_multiplier` *
        sqrt(n / ((1 - discount) samples)); on a known model, 0.
    tolerance : float, optional
        The violation that is let pass, in scaled units, normalised: (1 - discount) times the paper's eta. Default: the
        paper's formula, 2 sqrt(n / ((1 - discount) iterations)).
    step : float, optional
        What the normalised values are multiplied by before they are added to the logits. Default: the paper's formula,
        1 / sqrt((1 - discount) n iterations).
    inner : int or "pairs", optional
        Samples in an iteration; "pairs": as many as there are pairs, at least 20 / (1 - discount). Default:
        sqrt(samples / ((1 - discount) n)), or n if that is more. An iteration costs O(n) besides, however few samples
        it has.
    values : "afresh" or "carried over"
        Whether an iteration starts its estimates from zero, or from those of the policy before.
    average : "all" or "second half"
        Which iterations the mixture is taken from.
    kappa_multiplier : float
        Sets the default of `kappa`. The paper has no kappa: 0.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> run = ib.learn(queue.simulator(), ib.CRPO.practical(), samples=100_000, seed=0)
    >>> judged = ib.evaluate(queue, run.policy)
    >>> judged.in_bounds, judged.total_reward > 4.58
    (True, True)

    With exact values, on a known model; the optimum is 4.6449:

    >>> run = ib.iterate(queue, ib.CRPO(step=0.1, tolerance=0.0), iterations=2_000)
    >>> round(ib.evaluate(queue, run.policy).total_reward, 2)
    4.58
    """

    kappa: float | None = field(default=None, metadata=checks.TIGHTENING)
    tolerance: float | None = field(
        default=None,
        metadata=checks.a_number(">= 0, in scaled units (to be conservative, give kappa)", lambda value: value >= 0.0),
    )
    step: float | None = field(default=None, metadata=checks.POSITIVE)
    inner: int | str | None = field(default=None, metadata=checks.WHOLE_OR_PAIRS)
    values: str = field(default="afresh", metadata=checks.one_of("afresh", "carried over"))
    average: str = field(default="all", metadata=checks.AVERAGE)
    kappa_multiplier: float = field(default=0.0, metadata=checks.NOT_NEGATIVE)

    preset: ClassVar = dict(
        tolerance=0.0,
        step=1.0,
        inner="pairs",
        values="carried over",
        average="second half",
        kappa_multiplier=0.03,
        repair=True,
    )


class Formulas(NamedTuple):
    """The paper's settings for so many iterations, as settings of `CRPO`."""

    step: float
    tolerance: float


def formulas(n_pairs: int, discount: float, iterations: int) -> Formulas:
    return Formulas(
        step=1.0 / math.sqrt((1.0 - discount) * n_pairs * iterations),
        tolerance=2.0 * math.sqrt(n_pairs / ((1.0 - discount) * iterations)),
    )


class Constants(NamedTuple):
    step: float  # of the logits, on normalised values
    least: float  # margin at which the reward is improved, normalised: kappa - tolerance
    restart: int  # the iteration at which the mixture starts anew
    discount: float
    inner: int  # samples in an iteration
    afresh: bool


class State(NamedTuple):
    logits: Floats  # [n]: theta, the largest of a state 0
    policy: Floats  # [n]
    pair_values: Floats  # [n, 1 + K]: Q of the reward, then of each margin
    state_values: Floats  # [S, 1 + K]: sum_a pi Q
    tries: Ints  # [n]: samples of each pair, since values were last started afresh
    starts: Ints  # [S]: draws of a start
    visits: Ints  # [S]: of the walk, in this iteration
    sums: Floats  # [n]: over N0, visits times policy
    position: Ints  # [1]: the state that the walk is in, -1 before a start
    counts: Ints  # [3]: samples; of these in this iteration; iterations finished


class KnownState(NamedTuple):
    logits: Floats  # [n]
    policy: Floats  # [n]
    state_values: Floats  # [1 + K, S]
    pair_values: Floats  # [n]: Q of the signal that is improved
    time: Floats  # [S]: occupancy of each state
    occupancy: Floats  # [n]
    sums: Floats  # [n]: of occupancies, over N0


def prepare(settings: CRPO, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    pairs, discount, n_constraints = simulator.pairs, simulator.discount, simulator.n_constraints
    n_pairs, n_states = pairs.n_pairs, pairs.n_states
    if settings.inner is None:
        inner = max(round(math.sqrt(samples / ((1.0 - discount) * n_pairs))), n_pairs)
    else:
        # Of few pairs with a long horizon, as many samples as pairs do not tell what the last change of policy did.
        inner = max(n_pairs, math.ceil(20.0 / (1.0 - discount))) if settings.inner == "pairs" else int(settings.inner)
    inner = min(inner, samples)
    iterations = samples // inner
    kappa = settings.kappa_multiplier * math.sqrt(n_pairs / ((1.0 - discount) * samples))
    constants, resolved = _resolve(settings, n_pairs, discount, iterations, inner, min(kappa, 1.0))
    state = State(
        logits=np.zeros(n_pairs),
        policy=np.array(Policy.uniform(simulator).probabilities),
        pair_values=np.zeros((n_pairs, 1 + n_constraints)),
        state_values=np.zeros((n_states, 1 + n_constraints)),
        tries=np.zeros(n_pairs, dtype=np.int64),
        starts=np.zeros(n_states, dtype=np.int64),
        visits=np.zeros(n_states, dtype=np.int64),
        sums=np.zeros(n_pairs),
        position=np.array([-1], dtype=np.int64),
        counts=np.zeros(3, dtype=np.int64),
    )
    guarantee = "none: how many samples an iteration needs is known as an order only"
    return Prepared(state, constants, 0, resolved | {"inner": inner, "values": settings.values}, guarantee)


def prepare_known(settings: CRPO, model: CMDP, iterations: int) -> Prepared:
    constants, resolved = _resolve(settings, model.n_pairs, model.discount, iterations, 1, 0.0)
    state = KnownState(
        logits=np.zeros(model.n_pairs),
        policy=np.array(Policy.uniform(model).probabilities),
        state_values=np.zeros((1 + model.n_constraints, model.n_states)),
        pair_values=np.zeros(model.n_pairs),
        time=np.full(model.n_states, 1.0 / model.n_states),
        occupancy=np.zeros(model.n_pairs),
        sums=np.zeros(model.n_pairs),
    )
    return Prepared(state, constants, 0, resolved, _on_model(constants, model, None))


def concluded(state: KnownState, constants: Constants, model: CMDP) -> str:
    """What holds when the run is over, which then knows whether N0 is empty."""
    return _on_model(constants, model, bool(state.sums.any()))


def _on_model(constants: Constants, model: CMDP, some: bool | None) -> str:
    """The claim that needs no theorem, by whether some iteration was in N0; None: that is not known yet."""
    if model.n_constraints == 0:
        return "none: how close the reward comes is known as an order only"
    if constants.least <= -1.0:
        return "none: the tolerance is larger than any margin; more iterations make it smaller, or give tolerance="
    bound = f"at least {stated(constants.least, at_least=True)} (scaled units, normalised)"
    way = f"{'in the second half of' if constants.restart > 0 else 'on'} the way"
    if some is False:
        return f"none: no policy {way} had every margin {bound}; what is returned is the last one"
    return f"every margin is {bound}" + (f", unless no policy {way} had such margins" if some is None else "")


def _resolve(
    settings: CRPO, n_pairs: int, discount: float, iterations: int, inner: int, kappa: float
) -> tuple[Constants, dict[str, float | str]]:
    paper = formulas(n_pairs, discount, iterations)
    kappa = float(kappa if settings.kappa is None else settings.kappa)
    tolerance = float(paper.tolerance if settings.tolerance is None else settings.tolerance)
    constants = Constants(
        step=float(paper.step if settings.step is None else settings.step),
        least=kappa - tolerance,
        restart=restart_of(settings, iterations),
        discount=float(discount),
        inner=inner,
        afresh=settings.values == "afresh",
    )
    shown = {"kappa": kappa, "tolerance": tolerance, "step": constants.step, "iterations": iterations}
    return constants, shown | {"average": settings.average}


@compiled
def advance(state: State, constants: Constants, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
    """One step of TD(0) per sample, from `drawn` to `until` samples; one of the policy after every `inner` of them."""
    Q, V, policy, counts, position = state.pair_values, state.state_values, state.policy, state.counts, state.position
    n, n_signals, gamma = Q.shape[0], Q.shape[1], constants.discount
    if counts[0] == 0 and drawn < until:
        for _ in range(FIRST_STARTS):
            state.starts[draw_start(world, rng)] += 1
    while drawn < until:
        walking = counts[0] % 2 == 1
        if walking:
            if position[0] < 0:
                position[0] = draw_start(world, rng)
            s = position[0]
            k = draw_pair(policy, world.offsets, s, rng)
        else:
            k = (counts[0] // 2) % n
            s = world.states[k]
        after = draw_next(world, k, rng)
        state.starts[draw_start(world, rng)] += 1

        state.tries[k] += 1
        beta = 1.0 / math.sqrt(1.0 + (1.0 - gamma) * (state.tries[k] - 1))
        for x in range(n_signals):
            change = beta * (observed(world, k, x) + gamma * V[after, x] - Q[k, x])
            Q[k, x] += change
            V[s, x] += policy[k] * change
        if walking:
            state.visits[s] += 1
            position[0] = after
            if draw_ends(gamma, rng):
                position[0] = -1
        counts[0] += 1
        counts[1] += 1
        drawn += 1
        if counts[1] == constants.inner:
            end_iteration(state, constants, world)
    return drawn


@compiled
def end_iteration(state: State, constants: Constants, world: World) -> None:
    """Choose the signal to improve, add to the mixture if it is the reward, and change the policy."""
    Q, V, policy, counts = state.pair_values, state.state_values, state.policy, state.counts
    n, n_signals, n_states = Q.shape[0], Q.shape[1], V.shape[0]
    if counts[2] == constants.restart:
        clear(state.sums)
    n_starts = FIRST_STARTS + counts[0]
    chosen, least = 0, constants.least
    for x in range(1, n_signals):
        margin = 0.0
        for s in range(n_states):
            margin += state.starts[s] * V[s, x]
        margin *= (1.0 - constants.discount) / n_starts
        if margin < least:
            chosen, least = x, margin
    for s in range(n_states):
        if chosen == 0:
            for k in range(world.offsets[s], world.offsets[s + 1]):
                state.sums[k] += state.visits[s] * policy[k]
        state.visits[s] = 0
    change_policy(state.logits, policy, Q[:, chosen], constants.step * (1.0 - constants.discount), world.offsets)
    if constants.afresh:
        for k in range(n):
            state.tries[k] = 0
            for x in range(n_signals):
                Q[k, x] = 0.0
    # V has followed Q by differences since the last iteration: recomputed here, their rounding does not pile up.
    for s in range(n_states):
        for x in range(n_signals):
            V[s, x] = 0.0
            for k in range(world.offsets[s], world.offsets[s + 1]):
                V[s, x] += policy[k] * Q[k, x]
    counts[1] = 0
    counts[2] += 1


@compiled
def change_policy(logits: Floats, policy: Floats, values: Floats, factor: float, offsets: Ints) -> None:
    """Add the values [n], times a factor, to the logits, and make the policy their softmax."""
    for k in range(logits.shape[0]):
        logits[k] += factor * values[k]
    for s in range(offsets.shape[0] - 1):
        softmax_row(logits, policy, offsets[s], offsets[s + 1])


@compiled
def advance_known(state: KnownState, constants: Constants, model: KnownModel, done: int, until: int) -> None:
    """Iterations number `done` to `until` - 1 with exact values."""
    policy, V, n = state.policy, state.state_values, state.policy.shape[0]
    signals = np.empty((V.shape[0], n))
    priced_signals(model, np.zeros(V.shape[0] - 1), signals)
    for iteration in range(done, until):
        if iteration == constants.restart:
            clear(state.sums)
        state_values(model.chains, policy, signals, V)
        chosen, least = 0, constants.least
        for x in range(1, V.shape[0]):
            margin = (1.0 - model.chains.discount) * start_value(model, V[x])
            if margin < least:
                chosen, least = x, margin
        if chosen == 0:
            pair_occupancy(model.chains, model.initial, policy, state.time, state.occupancy)
            for k in range(n):
                state.sums[k] += state.occupancy[k]
        pair_values(model.chains, signals[chosen], V[chosen], state.pair_values)
        factor = constants.step * (1.0 - model.chains.discount)
        change_policy(state.logits, policy, state.pair_values, factor, model.chains.rows.offsets)


def extract(state: Any, constants: Constants, problem: Any) -> Answer:
    """Of either state. In states where nothing was summed (in all of them, if N0 is empty), the last policy."""
    policy = Policy.from_occupancy(problem, state.sums, otherwise=Policy(problem.pairs, state.policy))
    return Answer(policy, np.full(problem.n_constraints, np.nan), Averages(occupancy=shares(state.sums)))


CRPO.algorithm = Algorithm(
    name="CRPO",
    paper="Xu, Liang, Lan (ICML 2021)",
    setting="discounted, generative model; or a known model",
    output="average of the iterates in bounds",
    sample_complexity="SA / ((1-γ)^7 ε^4)",
    violation="ε",
    constants="from memory; alpha as in a public account of the theorem",
    prepare=prepare,
    advance=advance,
    extract=extract,
    known=Known(prepare_known, advance_known, extract, concluded),
)
