"""Values of a policy by walks of geometric length, and the average of the policies that walked.

What `npg_pd` and `pdsc` share, all but their settings: the estimates of one iteration, drawn sample by sample, the step
that both make with them, and the average over the iterations; the same on a known model, with exact values. Steps and
weights in the average are the same in all iterations (NPG-PD), or fall as 1 / sqrt(m) in iteration m = 1, 2, ...
(PDSC).

Walks
-----
A walk queries a pair, moves to the next state that was drawn, ends with probability 1 - discount, and otherwise chooses
its next action by the policy. Its number of queries is geometric on {1, 2, ...}: query number t (from 0) is made with
probability discount^t, whatever the walk has met before. So the sum of a signal over the queries of a walk has the mean

    E sum_{t >= 0} discount^t signal(s_t, a_t),

the value, NOT normalised, of the pair (or of the start) where it began; nothing is cut off, and nothing is multiplied
by discount^t: it is an unbiased estimate. One query is one sample: the reward and the margins of a pair are seen only
with its draw.

An iteration makes `start_rollouts` walks from the initial distribution (by default a quarter as many as from all pairs
together: our choice, since they also carry the average policy, and are cheap beside the others) and then `rollouts`
walks from every pair, all with one policy and one set of prices u:

    start_margins(i)  mean over the walks from the start of the sum of g_i: estimates V_{g_i}
    action_values(k)  mean over the walks from pair k of the sum of r + sum_i u_i g_i - b: estimates Q_{r + u.g - b}(k)

b is a baseline, 0 unless asked for: the mean of r + sum_i u_i g_i over the queries of the iteration before. It moves
every action value by the same b / (1 - discount), which the softmax does not see, and so it changes no step in the
mean; but it takes away the noise that the length of a walk makes when the signal is far from 0.

The average policy
------------------
The walks from the start are in a state as often as the occupancy of the policy says: their expected visits are
proportional to it. So the rows pi_t(. | s) of the visited states, summed over the visits of all iterations t (times the
weight of the iteration), estimate the average of the occupancies of the policies, up to a factor; and the ratio policy
of an average of occupancies is the ONE stationary policy with the average values. States never visited keep the row of
the last policy. On a known model the occupancies are exact.

Cost
----
From samples, O(A) a sample to draw the action; O(n) an iteration, which takes about n / (1 - gamma) samples. On a known
model, two eliminations and 2 + K solutions of the policy's chain an iteration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Algorithm, Answer, Averages, Known, Prepared, shares
from inbounds.algorithms.empirical import slater_from_pilot
from inbounds.algorithms.frame import RepairSettings
from inbounds.algorithms.kernels import clear, project_prices, softmax_row
from inbounds.algorithms.known import KnownModel, priced_signals, slater_and_gaps, start_value
from inbounds.algorithms.settings import restart_of
from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled
from inbounds.numerics.policy_chains import pair_occupancy, pair_values, state_values
from inbounds.problem.cmdp import CMDP
from inbounds.problem.draws import World, draw_ends, draw_next, draw_pair, draw_start
from inbounds.problem.pairs import Pairs
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator

SHRINKING_KAPPA = 0.3
"""kappa="shrinking" is this over the root of the number of iterations, at most half the Slater constant."""


@dataclass(frozen=True, repr=False)
class WalkSettings(RepairSettings):
    """What both algorithms have; they run from samples (``ib.learn``) and with exact values (``ib.iterate``).

    Parameters
    ----------
    slater : float in (0, 1], optional
        The Slater constant in scaled units, normalised: a margin that some policy keeps in every constraint at once.
        When it is not given: from samples, a tenth of them (they count) is drawn evenly over the pairs, and half the
        Slater constant of the empirical model is taken, at least 0.01; on a known model it is computed.
    kappa : float or "shrinking"
        How much every constraint is tightened, in scaled units, normalised. The paper has none. "shrinking":
        0.3 / sqrt(iterations), at most half the Slater constant.
    rollouts : int
        Walks from every pair in an iteration.
    start_rollouts : int, optional
        Walks from the start in an iteration. Default: a quarter as many as from all pairs together.
    baseline : bool
        Whether a running mean is subtracted from the signal of the walks from pairs.
    average : "all" or "second half"
        Which iterations the output averages, by their weights.
    """

    slater: float | None = field(default=None, metadata=checks.SHARE)
    kappa: float | str = field(default=0.0, metadata=checks.or_word("shrinking", checks.TIGHTENING))
    policy_step: float | str | None = None  # each has its own
    price_step: float | str | None = None
    rollouts: int = field(default=1, metadata=checks.WHOLE)
    start_rollouts: int | None = field(default=None, metadata=checks.WHOLE)
    baseline: bool = field(default=False, metadata=checks.SWITCH)
    average: str = field(default="all", metadata=checks.AVERAGE)


class Walks(NamedTuple):
    """How an iteration walks."""

    rollouts: int  # from every pair
    start_rollouts: int  # from the initial distribution
    discount: float
    use_baseline: bool


class Constants(NamedTuple):
    walks: Walks
    policy_step: float  # along action values, which are not normalised
    price_step: float  # along start margins, which are not normalised
    kappa: float  # not normalised
    radius: float  # of the prices
    restart: int  # the sample, or on a known model the iteration, with which averages start anew; 0: never
    decreasing: bool  # whether steps and weights fall as 1 / sqrt(m)


class State(NamedTuple):
    """A softmax policy, prices, and the estimates of one iteration. Scaled units; values are not normalised."""

    logits: Floats  # [n]; the largest of each state is 0
    policy: Floats  # [n]
    prices: Floats  # [K]: u
    action_values: Floats  # [n]: estimates of Q_{r + u.g - b}; sums until every walk of the iteration has ended
    start_margins: Floats  # [K]: estimates of V_g; sums until then
    visits: Floats  # [S]: of the walks from the start; on a known model: the share of time in each state
    baseline: Floats  # [2]: b; queries of the walks from pairs
    row_sums: Floats  # [n]: rows of the policies, by visits and weight
    price_sums: Floats  # [K]: prices, by weight
    weight: Floats  # [1]: of the iterations in the sums
    position: Ints  # [4]: walks ended; pair of the walk, or -1; iterations made; samples drawn before this one
    values: Floats  # [1 + K, S]: of r + u.g and of each g_i; on a known model only


def new_state(pairs: Pairs, n_constraints: int, initial: Floats | None = None) -> State:
    """The uniform policy at prices 0, before the first iteration; `initial` [S] is that of a known model."""
    return State(
        logits=np.zeros(pairs.n_pairs),
        policy=(1.0 / np.diff(pairs.offsets))[pairs.states],
        prices=np.zeros(n_constraints),
        action_values=np.zeros(pairs.n_pairs),
        start_margins=np.zeros(n_constraints),
        visits=np.zeros(pairs.n_states) if initial is None else np.array(initial),
        baseline=np.zeros(2),
        row_sums=np.zeros(pairs.n_pairs),
        price_sums=np.zeros(n_constraints),
        weight=np.zeros(1),
        position=np.array([0, -1, 0, 0], dtype=np.int64),
        values=np.zeros((0, 0)) if initial is None else np.zeros((1 + n_constraints, pairs.n_states)),
    )


class Resolved(NamedTuple):
    """What the settings that both algorithms have became for a problem and a budget."""

    walks: Walks
    slater: float
    kappa: float  # normalised
    iterations: float  # expected, at least 1
    restart: int
    drawn: int  # samples spent on the Slater constant
    gaps: Mapping[str, bool] = {}  # of a known model: why no theorem covers that constant

    def prepared(
        self,
        settings: Any,
        problem: CMDP | Simulator,
        shown_steps: tuple[float, float],
        steps: tuple[float, float],
        decreasing: bool,
        guarantee: str,
    ) -> Prepared:
        """The state before the first iteration. Steps are of policy and prices: as the settings have them, to be shown;
        and along values that are not normalised, to be made."""
        constants = Constants(
            walks=self.walks,
            policy_step=float(steps[0]),
            price_step=float(steps[1]),
            kappa=self.kappa / (1.0 - self.walks.discount),
            radius=2.0 / self.slater,
            restart=self.restart,
            decreasing=decreasing,
        )
        shown: dict[str, float | str] = {
            "slater": self.slater,
            "kappa": self.kappa,
            "policy_step": float(shown_steps[0]),
            "price_step": float(shown_steps[1]),
            "iterations": self.iterations,
            "average": settings.average,
        }
        if self.walks.rollouts > 0:
            shown["rollouts"] = self.walks.rollouts
            shown["start_rollouts"] = self.walks.start_rollouts
            shown["baseline"] = "running mean" if self.walks.use_baseline else "none"
        initial = problem.initial if isinstance(problem, CMDP) else None
        state = new_state(problem.pairs, problem.n_constraints, initial)
        return Prepared(state, constants, self.drawn, shown, guarantee)


def resolve(settings: Any, simulator: Simulator, samples: int, pilot: Any) -> Resolved:
    """For `samples` samples, those of the pilot among them."""
    slater, drawn = slater_from_pilot(settings, simulator, pilot)
    n_pairs, left = simulator.pairs.n_pairs, samples - drawn
    rollouts, start_rollouts = int(settings.rollouts), settings.start_rollouts
    walks = Walks(
        rollouts=rollouts,
        start_rollouts=math.ceil(rollouts * n_pairs / 4) if start_rollouts is None else int(start_rollouts),
        discount=float(simulator.discount),
        use_baseline=settings.baseline,
    )
    expected = left * (1.0 - walks.discount) / (walks.start_rollouts + rollouts * n_pairs)  # a walk: 1 / (1 - discount)
    iterations = max(1.0, expected)
    restart = drawn + left // 2 if settings.average == "second half" else 0
    return Resolved(walks, slater, _kappa(settings, slater, iterations), iterations, restart, drawn)


def resolve_known(settings: Any, model: CMDP, iterations: int) -> Resolved:
    """For `iterations` iterations on a model in scaled units; no walks are made."""
    walks = Walks(rollouts=0, start_rollouts=0, discount=float(model.discount), use_baseline=False)
    (slater, gaps), restart = slater_and_gaps(settings, model), restart_of(settings, iterations)
    return Resolved(walks, slater, _kappa(settings, slater, iterations), float(iterations), restart, 0, gaps)


def _kappa(settings: Any, slater: float, iterations: float) -> float:
    if settings.kappa == "shrinking":
        return min(SHRINKING_KAPPA / math.sqrt(iterations), 0.5 * slater)
    return float(settings.kappa)


@compiled
def advance(state: State, constants: Constants, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
    """Walks, and a step whenever those of an iteration have ended, from `drawn` to `until` samples."""
    while drawn < until:
        drawn = roll_out(state, constants.walks, world, rng, drawn, until)
        if all_ended(state, constants.walks):
            make_step(state, constants, world.offsets, iteration_weight(state, constants))
            begin_iteration(state, drawn, constants.restart)
    return drawn


@compiled
def advance_known(state: State, constants: Constants, model: KnownModel, done: int, until: int) -> None:
    """Iterations number `done` to `until` - 1, with exact values."""
    for iteration in range(done, until):
        if iteration == constants.restart:
            restart_averages(state)
        evaluate_exactly(state, model)
        make_step(state, constants, model.chains.rows.offsets, iteration_weight(state, constants))


@compiled
def iteration_weight(state: State, constants: Constants) -> float:
    """Of the iteration under way: a factor on its steps, and its weight in the averages."""
    if constants.decreasing:
        return 1.0 / math.sqrt(state.position[2] + 1.0)
    return 1.0


@compiled
def roll_out(state: State, walks: Walks, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
    """The walks of one iteration, from where they were left, until the last has ended or there are `until` samples."""
    policy, prices, offsets = state.policy, state.prices, world.offsets
    rollouts, start_rollouts, n_constraints = walks.rollouts, walks.start_rollouts, prices.shape[0]
    last = start_rollouts + rollouts * policy.shape[0]
    ended, pair = state.position[0], state.position[1]
    while drawn < until and ended < last:
        origin = (ended - start_rollouts) // rollouts  # negative: the initial distribution
        if pair < 0:
            pair = origin if origin >= 0 else draw_pair(policy, offsets, draw_start(world, rng), rng)
        after = draw_next(world, pair, rng)
        drawn += 1
        if origin >= 0:
            signal = world.reward[pair] - state.baseline[0]
            for i in range(n_constraints):
                signal += prices[i] * world.margins[pair, i]
            state.action_values[origin] += signal
            state.baseline[1] += 1.0
        else:
            for i in range(n_constraints):
                state.start_margins[i] += world.margins[pair, i]
            state.visits[world.states[pair]] += 1.0
        if draw_ends(walks.discount, rng):
            ended += 1
            pair = -1
        else:
            pair = draw_pair(policy, offsets, after, rng)
    state.position[0], state.position[1] = ended, pair
    return drawn


@compiled
def all_ended(state: State, walks: Walks) -> bool:
    """Whether every walk of the iteration has ended; then the sums become means, and the baseline that of the next."""
    if state.position[0] < walks.start_rollouts + walks.rollouts * state.policy.shape[0]:
        return False
    total = 0.0
    for k in range(state.action_values.shape[0]):
        total += state.action_values[k]
        state.action_values[k] /= walks.rollouts
    for i in range(state.start_margins.shape[0]):
        state.start_margins[i] /= walks.start_rollouts
    if walks.use_baseline:
        state.baseline[0] += total / state.baseline[1]
    return True


@compiled
def evaluate_exactly(state: State, model: KnownModel) -> None:
    """Exact values in the place of estimates, and shares of time in the place of visits."""
    signals = np.empty((1 + state.prices.shape[0], state.policy.shape[0]))
    priced_signals(model, state.prices, signals)
    state_values(model.chains, state.policy, signals, state.values)
    for i in range(state.prices.shape[0]):
        state.start_margins[i] = start_value(model, state.values[1 + i])
    # For the visits: the occupancies, in the place of action values, are overwritten.
    pair_occupancy(model.chains, model.initial, state.policy, state.visits, state.action_values)
    pair_values(model.chains, signals[0], state.values[0], state.action_values)


@compiled
def make_step(state: State, constants: Constants, offsets: Ints, weight: float) -> None:
    """Add policy and prices, with their weight, to the averages; then

    policy(k) <- policy(k) exp( weight * policy_step * action_values(k) ), normalised in each state
    prices    <- project( prices - weight * price_step * (start_margins - kappa) )
    """
    policy_step, price_step = weight * constants.policy_step, weight * constants.price_step
    for s in range(state.visits.shape[0]):
        share = weight * state.visits[s]
        first, last = offsets[s], offsets[s + 1]
        for k in range(first, last):
            state.row_sums[k] += share * state.policy[k]
            state.logits[k] += policy_step * state.action_values[k]
        softmax_row(state.logits, state.policy, first, last)
    for i in range(state.prices.shape[0]):
        state.price_sums[i] += weight * state.prices[i]
        state.prices[i] -= price_step * (state.start_margins[i] - constants.kappa)
    project_prices(state.prices, constants.radius)
    state.weight[0] += weight
    state.position[2] += 1


@compiled
def begin_iteration(state: State, drawn: int, restart: int) -> None:
    """Forget the estimates; and the averages, if sample number `restart` was drawn for them (0: never)."""
    if state.position[3] < restart and restart <= drawn:
        restart_averages(state)
    state.position[0], state.position[1], state.position[3] = 0, -1, drawn
    clear(state.action_values)
    clear(state.start_margins)
    clear(state.visits)
    state.baseline[1] = 0.0


@compiled
def restart_averages(state: State) -> None:
    clear(state.row_sums)
    clear(state.price_sums)
    state.weight[0] = 0.0


def extract(state: State, constants: Constants, simulator: Simulator) -> Answer:
    return average_policy(state, simulator, weight=iteration_weight(state, constants))


def extract_known(state: State, constants: Constants, problem: Any) -> Answer:
    return average_policy(state, problem, weight=0.0)


def average_policy(state: State, problem: Any, weight: float) -> Answer:
    """The average policy, with the averages of occupancies and prices. `problem`: anything with `pairs`.

    `weight` is that of the iteration under way, whose visits so far count; 0 on a known model, where none is.
    """
    rows = state.row_sums + weight * state.visits[problem.pairs.states] * state.policy
    policy = Policy.from_occupancy(problem, rows, otherwise=Policy(problem.pairs, state.policy))
    prices = state.price_sums / state.weight[0] if state.weight[0] > 0.0 else state.prices.copy()
    return Answer(policy, prices, Averages(shares(rows), prices))


def walk_algorithm(prepare: Any, prepare_known: Any, **facts: Any) -> Algorithm:
    """The record of such an algorithm."""
    return Algorithm(
        setting="discounted, generative model; or a known model",
        needs="Slater constant",
        violation="ε",
        prepare=prepare,
        advance=advance,
        extract=extract,
        piloted=True,
        known=Known(prepare_known, advance_known, extract_known),
        **facts,
    )
