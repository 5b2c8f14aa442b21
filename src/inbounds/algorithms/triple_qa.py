"""Triple-QA: two action values and a virtual queue for each constraint, learned along one trajectory.

Honghao Wei, Xin Liu, Lei Ying. "A Provably-Efficient Model-Free Algorithm for Infinite-Horizon Average-Reward
Constrained Markov Decision Processes", AAAI 2022. It follows their Triple-Q for episodes: "Triple-Q: A Model-Free
Algorithm for Constrained Reinforcement Learning with Sublinear Regret and Zero Constraint Violation", AISTATS 2022.

Problem
-------
The reward r is in [0, 1]; a utility w_i = (1 + g_i) / 2 in [0, 1] stands for each margin g_i in [-1, 1], and its value
must reach 1/2. There is no model, and the samples are the steps of one trajectory. Q and C_i are optimistic estimates
of the values (not normalised: at most H = 1 / (1 - gamma)) of the reward and of each utility; a queue Z_i grows while
constraint i falls short, and Z_i / eta is the price of its utility.

Updates
-------
From all tables at H and Z = 0, at each of the K steps, in state s:

    a  = argmax Qhat(s, .) + sum_i Z_i / eta Chat_i(s, .),   s' ~ P(. | s, a),   tau <- visits of (s, a) in this frame
    al = (chi + 1) / (chi + tau),     b = span sqrt( (chi + 1) iota / (chi + tau) )
    Q(s, a)   <- (1 - al) Q(s, a)   + al ( r   + gamma Vhat(s')   + b )
    C_i(s, a) <- (1 - al) C_i(s, a) + al ( w_i + gamma What_i(s') + b )
    if Q <= Qhat and all C_i <= Chat_i at (s, a):   Qhat <- Q, Chat_i <- C_i at (s, a)
    Vhat(s), What_i(s) <- Qhat, Chat_i of the (new) best action in s

and at the end of a frame

    Z_i <- max( 0, Z_i + 1/2 + eps - (mean over the frame of the estimated value of w_i) ),   all tables back to H

The output is the mixture of the policies of all steps, as one stationary policy, by the visits: the pairs taken are
counted, exploration included, and the ratios of the counts are the policy. In states never visited it is the policy
that is greedy at the end. The prices are averages of Z_i / (2 eta): of the margin, that is, not of the utility.

Names
-----
    code        paper                               code        paper
    span        kappa, a bound of the values' span  tables      Q, C
    kappa       2 eps (in units of g, not w)        lower       Qhat, Chat
    queues      Z                                   values      Vhat, What
    frame       K^(2/3)                             chi, eta, iota  the same

The paper's settings for K steps are chi = K^(1/3), eta = K^(1/6), iota = 8 log(sqrt(2) K), frames of K^(2/3) steps and
eps = 9 span sqrt(S A iota) / K^(1/6): Algorithm 1 and Theorem 1, in the text of the paper that the authors keep with
their code. (Theorem 1 prints iota = 32 log(sqrt(2) K); the bonus is proved with the 8 of the algorithm.) Its discount,
1 - K^(-1/6), is replaced by the problem's own, and the span by the most it can be, 1 / (1 - gamma).

Guarantee
---------
Theorem 1, for the average reward, with one constraint of slack delta, and K so large that eps <= delta / 2: regret
O~( sqrt(S A) span K^(5/6) / delta ), and no violation. Nothing is proved for discounted problems. **The defaults are of
no use in practice.** On the queue of the CSPDA paper eps falls below the slack only after 4 * 10^27 steps; and as long
as the bonus is above 1, Qhat and Chat stay at H and the actions are drawn at random. `inbounds algorithms` quotes the
sample complexity of Triple-Q, from Table 1 of the CSPDA paper, which does not list Triple-QA.

Departures, with their reasons
------------------------------
* The discounted problem (our own derivation): the trajectory starts anew from the initial distribution with probability
  1 - gamma after every step, so that it visits pairs with the frequencies of the policy's occupancy. The value of w_i
  from the initial distribution is then (1 - gamma) What_i at a start; the paper's mean of (1 - gamma) Chat_i over all
  steps is the average utility only where nothing is discounted. We take the mean of (1 - gamma) What_i over one start
  a step; starts are free.
* Several constraints: one table and one queue each (the paper has one constraint).
* Ties between actions are broken at random, as in the authors' code for Triple-Q; in Vhat and What the first counts.

Practical preset
----------------
`TripleQA.practical()`, in the spirit of the authors' own tuning (small bonuses, exploration, small eps), not covered by
any theorem:

* no bonus, but in step t a random action with probability sqrt(n / t);
* tables are kept from frame to frame, and so are the visits behind al, because a price that moves little from frame to
  frame calls for values that change little; Qhat and Chat are then Q and C themselves, since a minimum over a whole run
  would be a bias;
* chi = 1 / (1 - gamma), eta = 3, frames of sqrt(K) steps;
* the queues see the mean of the utilities observed in the frame. It has no bias, and it is of the very visits that the
  output counts: unless the queues keep growing, the output is in bounds up to the noise of those visits,
* for which kappa = 1 / sqrt( (1 - gamma) K ) makes room;
* the mixture of the second half of the steps;
* the learner is in a frame that tests its policy and mixes it with a safe one (`inbounds.algorithms.frame`);
  ``repair=False`` is the method alone.

What limits it: it explores along one trajectory, so what is rarely reached is learned late.

Cost
----
O(A) a step, times the number of constraints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Algorithm, Answer, Averages, Prepared, shares
from inbounds.algorithms.frame import RepairSettings
from inbounds.algorithms.kernels import clear
from inbounds.algorithms.settings import resolved, restart_of
from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled
from inbounds.problem.draws import World, draw_ends, draw_next, draw_start
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator


@dataclass(frozen=True, repr=False)
class TripleQA(RepairSettings):
    """Settings of Triple-QA; the defaults are the paper's formulas, which are of no use in practice. See the module.

    Parameters
    ----------
    kappa : float, optional
        How much every constraint is tightened, in scaled units, normalised: twice the paper's eps. Default: the paper's
        formula, which exceeds 1; or, where `kappa_multiplier` is given, that over sqrt((1 - discount) samples).
    span : float, optional
        A bound on the span of values, the paper's kappa. Default: 1 / (1 - discount).
    chi : float or "horizon", optional
        Sets how fast old estimates are forgotten; "horizon": 1 / (1 - discount). Default: samples^(1/3).
    eta : float, optional
        What the queues are divided by to become prices. Default: samples^(1/6).
    frame : int, optional
        Steps between two updates of the queues. Default: samples^frame_exponent.
    frame_exponent : float in (0, 1]
        The paper's is 2/3.
    bonus : float
        What the paper's bonus is multiplied by.
    exploration : float
        In step t an action is drawn at random with probability exploration * sqrt(n / t). The paper has none: 0.
    tables : "reset" or "kept"
        Whether every frame starts from tables at their upper bound, or goes on with those it finds.
    utility : "estimated" or "observed"
        What the queues see: the estimates of the tables, or the mean of the utilities observed in the frame.
    average : "all" or "second half"
        Which steps the mixture is taken from.
    kappa_multiplier : float, optional
        Instead of the paper's formula, `kappa` is this over sqrt((1 - discount) samples).

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> run = ib.learn(queue.simulator(), ib.TripleQA.practical(), samples=100_000, seed=0)
    >>> judged = ib.evaluate(queue, run.policy)
    >>> judged.in_bounds, judged.total_reward > 4.58
    (True, True)
    """

    kappa: float | None = field(default=None, metadata=checks.TIGHTENING)
    span: float | None = field(default=None, metadata=checks.POSITIVE)
    chi: float | str | None = field(default=None, metadata=checks.or_word("horizon", checks.NOT_NEGATIVE))
    eta: float | None = field(default=None, metadata=checks.POSITIVE)
    frame: int | None = field(default=None, metadata=checks.WHOLE)
    frame_exponent: float = field(
        default=2.0 / 3.0, metadata=checks.a_number("in (0, 1]", lambda value: 0.0 < value <= 1.0)
    )
    bonus: float = field(default=1.0, metadata=checks.NOT_NEGATIVE)
    exploration: float = field(default=0.0, metadata=checks.NOT_NEGATIVE)
    tables: str = field(default="reset", metadata=checks.one_of("reset", "kept"))
    utility: str = field(default="estimated", metadata=checks.one_of("estimated", "observed"))
    average: str = field(default="all", metadata=checks.AVERAGE)
    kappa_multiplier: float | None = field(default=None, metadata=checks.POSITIVE)

    preset: ClassVar = dict(
        chi="horizon",
        eta=3.0,
        frame_exponent=0.5,
        bonus=0.0,
        exploration=1.0,
        tables="kept",
        utility="observed",
        average="second half",
        kappa_multiplier=1.0,
        repair=True,
    )


class Formulas(NamedTuple):
    """The paper's settings for K steps; kappa is 2 eps."""

    chi: float
    eta: float
    iota: float
    kappa: float


def formulas(n_pairs: int, span: float, steps: int) -> Formulas:
    iota = 8.0 * math.log(math.sqrt(2.0) * steps)
    return Formulas(
        chi=steps ** (1.0 / 3.0),
        eta=steps ** (1.0 / 6.0),
        iota=iota,
        kappa=2.0 * 9.0 * span * math.sqrt(n_pairs * iota) / steps ** (1.0 / 6.0),
    )


class Constants(NamedTuple):
    discount: float
    chi: float
    eta: float
    bonus: float  # b = bonus * sqrt(al): the paper's span * sqrt(iota), times the multiplier
    least: float  # utility to reach, normalised: 1/2 + eps
    frame: int
    exploration: float  # times sqrt(n)
    kept: bool
    observed: bool
    restart: int  # the step at which the mixture starts anew


class State(NamedTuple):
    tables: Floats  # [n, 1 + K]: Q, then C of each constraint
    lower: Floats  # [n, 1 + K]: Qhat, Chat
    values: Floats  # [S, 1 + K]: Vhat, What
    tries: Ints  # [n]: visits behind al
    queues: Floats  # [K]: Z
    prices: Floats  # [K]: Z / eta
    utilities: Floats  # [K]: sums over the frame so far
    sums: Floats  # [n]: pairs taken, over the steps averaged
    price_sums: Floats  # [K]: prices / 2, those of margins, over the steps averaged
    position: Ints  # [1]: the state that the trajectory is in, -1 before a start
    counts: Ints  # [3]: steps; of these in this frame; steps averaged


def prepare(settings: TripleQA, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    pairs, discount, n_constraints = simulator.pairs, simulator.discount, simulator.n_constraints
    n_pairs, n_states, horizon = pairs.n_pairs, pairs.n_states, 1.0 / (1.0 - discount)
    span = horizon if settings.span is None else float(settings.span)
    paper = formulas(n_pairs, span, samples)
    kappa = paper.kappa
    if settings.kappa is not None:
        kappa = float(settings.kappa)
    elif settings.kappa_multiplier is not None:
        kappa = min(settings.kappa_multiplier * math.sqrt(horizon / samples), 1.0)
    if settings.chi is None:
        chi = paper.chi
    else:
        chi = horizon if settings.chi == "horizon" else float(settings.chi)
    frame = round(samples**settings.frame_exponent) if settings.frame is None else settings.frame
    constants = Constants(
        discount=float(discount),
        chi=chi,
        eta=float(paper.eta if settings.eta is None else settings.eta),
        bonus=float(settings.bonus * span * math.sqrt(paper.iota)),
        least=0.5 + 0.5 * kappa,
        frame=max(int(frame), 1),
        exploration=float(settings.exploration * math.sqrt(n_pairs)),
        kept=settings.tables == "kept",
        observed=settings.utility == "observed",
        restart=restart_of(settings, samples),
    )
    state = State(
        tables=np.full((n_pairs, 1 + n_constraints), horizon),
        lower=np.full((n_pairs, 1 + n_constraints), horizon),
        values=np.full((n_states, 1 + n_constraints), horizon),
        tries=np.zeros(n_pairs, dtype=np.int64),
        queues=np.zeros(n_constraints),
        prices=np.zeros(n_constraints),
        utilities=np.zeros(n_constraints),
        sums=np.zeros(n_pairs),
        price_sums=np.zeros(n_constraints),
        position=np.array([-1], dtype=np.int64),
        counts=np.zeros(3, dtype=np.int64),
    )
    shown = {"kappa": kappa, "span": span, "chi": chi, "eta": constants.eta, "frame": constants.frame}
    factors = {"bonus": float(settings.bonus), "exploration": float(settings.exploration)}
    words = resolved(settings, "tables", "utility", "average")
    return Prepared(state, constants, 0, shown | factors | words, _guarantee(settings))


def _guarantee(settings: TripleQA) -> str:
    text = "none: the paper's theorem is for average rewards; the form for discounted problems is ours"
    if settings != TripleQA(span=settings.span):
        text += ", and the settings differ from the paper's formulas"
    return text


@compiled
def advance(state: State, constants: Constants, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
    """One step of the trajectory per sample, from `drawn` to `until` samples. The letters are the paper's."""
    tables, lower, values, prices = state.tables, state.lower, state.values, state.prices
    counts, position, n_signals = state.counts, state.position, tables.shape[1]
    gamma, chi = constants.discount, constants.chi
    while drawn < until:
        if counts[0] == constants.restart:
            restart_averages(state)
        if position[0] < 0:
            position[0] = draw_start(world, rng)
        s = position[0]
        first, last = world.offsets[s], world.offsets[s + 1]
        if constants.exploration > 0.0 and rng.random() * math.sqrt(counts[0] + 1.0) < constants.exploration:
            k = first + min(int(rng.random() * (last - first)), last - first - 1)
        else:
            k = best_action(lower, prices, first, last, rng)
        after = draw_next(world, k, rng)

        state.tries[k] += 1
        al = (chi + 1.0) / (chi + state.tries[k])
        b = constants.bonus * math.sqrt(al)
        lowered = True
        for x in range(n_signals):
            observed = world.reward[k] if x == 0 else 0.5 + 0.5 * world.margins[k, x - 1]
            tables[k, x] += al * (observed + gamma * values[after, x] + b - tables[k, x])
            lowered = lowered and tables[k, x] <= lower[k, x]
            if x > 0 and constants.observed:
                state.utilities[x - 1] += observed
        if lowered or constants.kept:
            for x in range(n_signals):
                lower[k, x] = tables[k, x]
        best = first_best_action(lower, prices, first, last)[0]
        for x in range(n_signals):
            values[s, x] = lower[best, x]

        if not constants.observed:
            s0 = draw_start(world, rng)
            for i in range(prices.shape[0]):
                state.utilities[i] += (1.0 - gamma) * values[s0, 1 + i]
        state.sums[k] += 1.0
        for i in range(prices.shape[0]):
            state.price_sums[i] += prices[i] / 2.0
        position[0] = after
        if draw_ends(gamma, rng):
            position[0] = -1
        counts[0] += 1
        counts[1] += 1
        counts[2] += 1
        drawn += 1
        if counts[1] == constants.frame:
            end_frame(state, constants)
    return drawn


@compiled
def combined_value(lower: Floats, prices: Floats, k: int) -> float:
    total = lower[k, 0]
    for i in range(prices.shape[0]):
        total += prices[i] * lower[k, 1 + i]
    return total


@compiled
def first_best_action(lower: Floats, prices: Floats, first: int, last: int) -> tuple[int, int]:
    """The first of the pairs `first` to `last` - 1 with the largest Qhat + sum Z / eta Chat; and how many those are."""
    best, largest, ties = first, combined_value(lower, prices, first), 1
    for k in range(first + 1, last):
        value = combined_value(lower, prices, k)
        if value > largest:
            best, largest, ties = k, value, 1
        elif value == largest:
            ties += 1
    return best, ties


@compiled
def best_action(lower: Floats, prices: Floats, first: int, last: int, rng: np.random.Generator) -> int:
    """One of them, at random."""
    best, ties = first_best_action(lower, prices, first, last)
    if ties > 1:
        largest = combined_value(lower, prices, best)
        skipped = min(int(rng.random() * ties), ties - 1)
        while skipped > 0:
            best += 1
            if combined_value(lower, prices, best) == largest:
                skipped -= 1
    return best


@compiled
def end_frame(state: State, constants: Constants) -> None:
    for i in range(state.queues.shape[0]):
        shortfall = constants.least - state.utilities[i] / constants.frame
        state.queues[i] = max(0.0, state.queues[i] + shortfall)
        state.prices[i] = state.queues[i] / constants.eta
        state.utilities[i] = 0.0
    state.counts[1] = 0
    if not constants.kept:
        horizon = 1.0 / (1.0 - constants.discount)
        clear(state.tries)
        state.tables[:], state.lower[:], state.values[:] = horizon, horizon, horizon


@compiled
def restart_averages(state: State) -> None:
    clear(state.sums)
    clear(state.price_sums)
    state.counts[2] = 0


@compiled
def greedy_pairs(lower: Floats, prices: Floats, offsets: Ints) -> Ints:
    """The first best pair of every state, [S]."""
    chosen = np.empty(offsets.shape[0] - 1, dtype=np.int64)
    for s in range(chosen.shape[0]):
        chosen[s] = first_best_action(lower, prices, offsets[s], offsets[s + 1])[0]
    return chosen


def extract(state: State, constants: Constants, simulator: Simulator) -> Answer:
    chosen = greedy_pairs(state.lower, state.prices, simulator.pairs.offsets)
    policy = Policy.from_occupancy(simulator, state.sums, otherwise=Policy.deterministic(simulator, chosen))
    prices = state.price_sums / max(int(state.counts[2]), 1)
    return Answer(policy, prices, Averages(shares(state.sums), prices))


TripleQA.algorithm = Algorithm(
    name="Triple-QA",
    paper="Wei, Liu, Ying (AAAI 2022)",
    setting="average reward, one trajectory; here discounted",
    needs="slack above eps",
    output="average over the steps",
    sample_complexity="(SA)^2.5 / ((1-γ)^18.5 ε^5), Triple-Q",
    violation="zero, for large K",
    constants="paper (Algorithm 1 and Theorem 1, for the average reward)",
    prepare=prepare,
    advance=advance,
    extract=extract,
)
