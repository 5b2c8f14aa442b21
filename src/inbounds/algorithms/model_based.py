"""Model-based primal-dual learning: estimate the model, then plan on it with the constraints moved.

Sharan Vaswani, Lin F. Yang, Csaba Szepesvári. "Near-Optimal Sample Complexity Bounds for Constrained MDPs", NeurIPS
2022.

Problem
-------
Only a generative model is at hand: any pair can be asked for a next state. In scaled units (reward r in [0, 1], margins
g_i in [-1, 1]) and with values normalised by (1 - gamma), J_x(pi) = <occupancy of pi, x>, find with probability close
to 1 a policy with

    relaxed feasibility:  J_r >= best - epsilon  and  J_g >= -epsilon
    strict feasibility:   J_r >= best - epsilon  and  J_g >= 0.

Updates
-------
Draw N next states for every pair: the empirical model, here also with the means of the rewards and margins observed.
Tighten its constraints by kappa (relax them, when kappa is negative), and plan:

    primal-dual     u_0 = 0;   for t = 0 ... T - 1, on the empirical model:
                        pi_t    = a deterministic policy that is best for r + sum_i u_{t,i} g_i
                        u_{t+1} = clip( u_t - (U / sqrt(T)) (J_g(pi_t) - kappa) )     to [0, U], each price
                    The output is the uniform mixture of the pi_t, as ONE policy: the occupancies of the pi_t on the
                    EMPIRICAL model are averaged, and the policy is their ratio. (Its values are those of the mixture
                    exactly on the empirical model, and up to the error of that model on the true one.)
    linear program  the best policy of the tightened empirical model itself: what the iteration above converges to, and
                    already one policy.

Names
-----
    code                paper, for values that are discounted sums
    epsilon             (1 - gamma) epsilon
    slater              (1 - gamma) zeta
    kappa               (1 - gamma) (b' - b)
    price_bound         U
    per_pair            N

Formulas
--------
                    relaxed                   strict
    kappa           -3 epsilon / 8            epsilon slater / 20
    omega           epsilon / 8               epsilon / 10                     rewards are perturbed by at most this
    price_bound     16 / (3 epsilon)          4 (1 + omega) / slater
    T               4 U^2 / e^2 (1 + 4 / U^2),    e = epsilon / 4 (relaxed) or kappa / 2 (strict)
    net             e^2 / 12                      prices are rounded to multiples of this

The orders are those of the paper's abstract. The formulas for kappa, omega, the strict U, T and net are from memory,
with U - u* = U / 2; not checked against the paper's text. The relaxed U (twice the bound 8 / (3 epsilon) that the
relaxation gives), and e, are derived here.

Guarantee
---------
With N of the order of 1 / ((1 - gamma) epsilon^2) (relaxed) or 1 / ((1 - gamma) slater^2 epsilon^2) (strict), up to
logarithms, the statements above hold with high probability. The constants are not known to us, so no run is claimed to
have enough samples.

Departures
----------
* When epsilon is not given it is what the samples allow by the orders above without constants and logarithms:
  1 / sqrt((1 - gamma) N), divided by slater for strict feasibility. Then kappa = 1 / (20 sqrt((1 - gamma) N)) for the
  latter, whatever the Slater constant. A policy asked for half way has N of then, as a run that ends there.
* When slater is not given, U takes half the Slater constant of the empirical model, at least 0.01; no samples are set
  aside for it.
* The paper has one constraint, and knows r and g. Each of several constraints has its own price in [0, U].
* T is 2,000 unless told otherwise: the formula asks for millions. What the iteration then misses of the optimum of the
  empirical model is often more than the error of that model; the linear program misses nothing.
* The perturbation of the rewards (which makes best policies unique) and the net of prices are devices of the proof,
  off unless asked for.
* While a pair is untried the policy is uniform and the prices are zero. Where no policy of the tightened empirical
  model is in bounds, the linear program has no answer: the policy with the largest margin of the empirical model is
  taken instead, and there are no prices: they are nan.

Practical preset
----------------
`ModelBased.practical()`: strict feasibility by the linear program, in a frame (`inbounds.algorithms.frame`): a plan on
.68 of the samples without any kappa, a test of it by walks, a second plan on the same model with the kappa that the
test asks for, and the best mixture of these and the model's safest policy by their tests. What limits it is the test:
the price of the constraints times a few of its standard errors.

``repair=False``: the plan alone, on all samples, with twice the paper's kappa for what they allow: 0.1 / sqrt((1 -
gamma) N), which is a few standard errors (see `empirical.accuracy`), and out of bounds where those are larger.

Streaming
---------
``memory="sketch"`` keeps a sketch of the model, O(SA (b + K)) numbers however many samples there are, b = 32, in the
place of the T moves of an empirical model: `inbounds.algorithms.sketch`. Where no pair leads to more than b states, as
on queues, grids, inventories and sparse random models, it is the same model from the same samples, in less time. On
random problems whose pairs lead to two or three times as many, the preset came within 1.25 of the gap of the empirical
model. It fails on an inventory at discount 0.99 with room for half of its next states: the method alone is then out of
bounds in half of the runs, and the preset, where it is in bounds, has ten times the gap (docs/presets.md).

Cost
----
O(1) a sample, O(b) with a sketch. A plan: a linear program up to 2,000 pairs (4 milliseconds on the queue), the level
bundle beyond; or T unconstrained solves, each begun from the last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Algorithm, Answer, Averages, Prepared, shares
from inbounds.algorithms.empirical import accuracy, draw_in_turn, extract, require_each
from inbounds.algorithms.frame import RepairSettings
from inbounds.algorithms.planning import about, best_of, safest_of
from inbounds.algorithms.settings import guarantee_unless, require, stated
from inbounds.algorithms.sketch import Sketch, new_sketch, sketched_model, stream, turn
from inbounds.arrays import Floats
from inbounds.criteria import criterion_of
from inbounds.criteria.contract import Found
from inbounds.errors import Infeasible
from inbounds.problem.cmdp import CMDP
from inbounds.problem.draws import World, fitted
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator
from inbounds.problem.thoughts import in_pieces
from inbounds.proofs.evidence import Log, new_log

_SOLVED = 1e-10
"""Width of the bracket of an unconstrained solve, and accuracy of an occupancy, both normalised."""


@dataclass(frozen=True, repr=False)
class ModelBased(RepairSettings):
    """Settings of model-based primal-dual learning. See the module for the algorithm.

    Parameters
    ----------
    feasibility : "strict" or "relaxed"
        Whether margins are to be >= 0, or >= -epsilon.
    plan : "primal-dual" or "lp"
        How to plan on the empirical model: by the paper's iteration, or by the linear program that it approaches.
    epsilon : float, optional
        The target, in scaled units, normalised; strict feasibility needs `slater` with it. Default: what the samples
        allow, by the order of the paper's bound.
    slater : float in (0, 1], optional
        The Slater constant in scaled units, for strict feasibility. Default: half that of the empirical model, at least
        0.01.
    kappa : float, optional
        How much every constraint is tightened, in scaled units; negative relaxes. Default: the paper's formula.
    kappa_multiplier : float
        Factor on the paper's formula for kappa.
    price_bound : float, optional
        The paper's U. Default: its formula.
    iterations : int
        The paper's T, whose formula asks for far more.
    perturbation, net : bool
        Whether to perturb rewards and to round prices, as the paper's proof does.
    memory : "samples" or "sketch"
        What is kept: every move that was seen, or a sketch of the model whose size does not depend on the number of
        samples (`inbounds.algorithms.sketch`).

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> run = ib.learn(queue.simulator(), ib.ModelBased.practical(), samples=100_000, seed=0)
    >>> judged = ib.evaluate(queue, run.policy)
    >>> judged.in_bounds, judged.total_reward > 4.6
    (True, True)
    """

    feasibility: str = field(default="strict", metadata=checks.one_of("strict", "relaxed"))
    plan: str = field(default="primal-dual", metadata=checks.one_of("primal-dual", "lp"))
    epsilon: float | None = field(default=None, metadata=checks.SHARE | {"what": f"{checks.SHARE['what']}, normalised"})
    slater: float | None = field(default=None, metadata=checks.SHARE)
    kappa: float | None = field(
        default=None, metadata=checks.a_number("in [-1, 1], in scaled units", lambda value: -1.0 <= value <= 1.0)
    )
    kappa_multiplier: float = field(default=1.0, metadata=checks.NOT_NEGATIVE)
    price_bound: float | None = field(default=None, metadata=checks.POSITIVE)
    iterations: int = field(default=2_000, metadata=checks.WHOLE)
    perturbation: bool = field(default=False, metadata=checks.SWITCH)
    net: bool = field(default=False, metadata=checks.SWITCH)
    memory: str = field(default="samples", metadata=checks.one_of("samples", "sketch"))

    preset: ClassVar = dict(plan="lp", kappa_multiplier=2.0, repair=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.feasibility == "strict" and self.epsilon is not None:
            require(self.slater is not None, self, "slater", "given with epsilon for strict feasibility")


class Formulas(NamedTuple):
    """The paper's settings for a target, in scaled units, normalised."""

    kappa: float
    omega: float
    price_bound: float
    iterations: float
    net: float


def formulas(strict: bool, epsilon: float, slater: float) -> Formulas:
    """The table of the module; `slater` is for strict feasibility only."""
    if strict:
        kappa, omega = epsilon * slater / 20.0, epsilon / 10.0
        price_bound, error = 4.0 * (1.0 + omega) / slater, kappa / 2.0
    else:
        kappa, omega = -3.0 * epsilon / 8.0, epsilon / 8.0
        price_bound, error = 16.0 / (3.0 * epsilon), epsilon / 4.0
    return Formulas(
        kappa=kappa,
        omega=omega,
        price_bound=price_bound,
        iterations=4.0 * min(price_bound / error, 1e150) ** 2 * (1.0 + (2.0 / price_bound) ** 2),  # finite
        net=error**2 / 12.0,
    )


class Constants(NamedTuple):
    settings: ModelBased
    perturbation: Floats  # [n], in [0, 1), to be multiplied by omega; or empty
    simulator: Simulator


def prepare(settings: ModelBased, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    require_each(simulator, samples)
    n_pairs, sketched = simulator.pairs.n_pairs, settings.memory == "sketch"
    state = new_sketch(simulator, samples) if sketched else new_log(simulator, samples)
    perturbation = np.array([rng.random() for _ in range(n_pairs * settings.perturbation)])
    per_pair, strict, program = samples // n_pairs, settings.feasibility == "strict", settings.plan == "lp"
    # What depends on a Slater constant that is not known yet is not shown; kappa does not, unless epsilon is given.
    epsilon, paper = target(settings, per_pair, simulator.discount, settings.slater or 1.0)
    resolved: dict[str, float | str] = {
        "feasibility": settings.feasibility,
        "plan": settings.plan,
        "kappa": tightening(settings, paper),
    }
    if settings.slater is not None or not strict:
        resolved["epsilon"] = epsilon
    if settings.slater is not None:
        resolved["slater"] = settings.slater
    elif strict and not program:
        resolved["slater"] = "half that of the empirical model"
    if not program:
        resolved["iterations"] = settings.iterations
    if sketched:
        resolved["memory"] = settings.memory
    return Prepared(
        state,
        Constants(settings, perturbation, simulator),
        0,
        resolved,
        _guarantee(settings, simulator, paper, per_pair),
    )


def _guarantee(settings: ModelBased, simulator: Simulator, paper: Formulas, per_pair: int) -> str:
    program, given = settings.plan == "lp", settings.kappa is not None or settings.price_bound is not None
    as_proved = settings.perturbation and settings.net
    known = "rewards" + " and margins" * (simulator.n_constraints > 0)
    right = "the Slater constant is right and " if settings.feasibility == "strict" else ""
    asked = f"{settings.iterations:,} iterations where it asks for {stated(paper.iterations, digits=2)}"
    return guarantee_unless(
        {
            "several constraints": simulator.n_constraints > 1,
            "a target chosen by the order of its bound alone": settings.epsilon is None,
            "settings that differ from the paper's formulas": given or settings.kappa_multiplier != 1.0,
            "a linear program in the place of the iteration": program,
            "a sketch in the place of the empirical model": settings.memory == "sketch",
            asked: not program and settings.iterations < paper.iterations,
            "rewards that are not perturbed or prices that are not rounded": not as_proved,
        },
        f"the paper's theorem on {settings.feasibility} feasibility with known {known}, if {right}{per_pair:,} samples "
        f"of every pair are enough: its constants are from memory",
    )


def target(settings: ModelBased, per_pair: int, discount: float, slater: float) -> tuple[float, Formulas]:
    """epsilon, as given or as so many samples of every pair allow, and the paper's settings for it."""
    epsilon, strict = settings.epsilon, settings.feasibility == "strict"
    if epsilon is None:
        epsilon = accuracy(per_pair, discount) / (slater if strict else 1.0)
    return epsilon, formulas(strict, epsilon, slater)


def tightening(settings: ModelBased, paper: Formulas) -> float:
    """kappa, as given or by the formula."""
    if settings.kappa is None:
        return min(max(settings.kappa_multiplier * paper.kappa, -1.0), 1.0)
    return settings.kappa


def advance(
    state: Log | Sketch, constants: Constants, world: World, rng: np.random.Generator, drawn: int, until: int
) -> int:
    """Samples of every pair in turn, for a log or for a sketch, which begins its epochs on the way."""
    if isinstance(state, Log):
        return int(fitted(draw_in_turn, world)(state, world, rng, drawn, until))
    while drawn < until:
        if drawn in state.ends and np.any(state.lost):
            model = sketched_model(state, constants.simulator)
            turn(state, model, plan_by_program(model).policy)
        stop = min(until, int(state.ends[np.searchsorted(state.ends, drawn, side="right")]))
        drawn = int(fitted(stream, world)(state, world, rng, drawn, stop))
    return drawn


def plan_on(model: CMDP, constants: Constants, per_pair: int) -> Answer:
    """The plan on a model that so many samples of every pair made."""
    settings = constants.settings
    slater, program = settings.slater, settings.plan == "lp"
    if slater is None:
        slater = 1.0  # only the bound on the prices depends on it
        if settings.feasibility == "strict" and not program and model.n_constraints > 0:
            slater = min(max(0.5 * safest_of(model).value, 0.01), 1.0)
    _, paper = target(settings, per_pair, model.discount, slater)
    tightened = model.tightened(tightening(settings, paper))
    if settings.perturbation:
        tightened = replace(tightened, reward=tightened.reward + paper.omega * constants.perturbation)
    if program:
        return plan_by_program(tightened)
    price_bound = paper.price_bound if settings.price_bound is None else settings.price_bound
    return plan_by_iteration(tightened, price_bound, settings.iterations, paper.net if settings.net else 0.0)


def plan_by_program(model: CMDP) -> Answer:
    """The best policy of a model, and its prices; without one in bounds, that of the largest margin, and nan."""
    try:
        found = best_of(model)
    except Infeasible:
        return Answer(safest_of(model).policy, np.full(model.n_constraints, np.nan))
    return Answer(found.policy, found.prices)


class Iteration(NamedTuple):
    """Where the module's `primal-dual` is."""

    found: Found | None  # the last pi_t; the next solve begins from it,
    time: Floats | None  # and from the time that it spends in each state
    prices: Floats  # [K]
    price_sums: Floats  # [K]
    occupancy: Floats  # [n], the sum
    done: int
    ways: Any  # of the criterion


def plan_by_iteration(model: CMDP, price_bound: float, iterations: int, net: float) -> Answer:
    """The mixture of the policies of so many iterations of the module's `primal-dual`, and the average prices.

    Prices are rounded to multiples of `net`, when it is positive.
    """
    criterion, step = criterion_of(model), price_bound / math.sqrt(iterations)

    def advance(now: Iteration, done: int, until: int) -> Iteration:
        found, time, prices, criterion.ways = now.found, now.time, now.prices, now.ways
        for _ in range(done, until):
            found = criterion.solve(model.reward + prices @ model.margins, _SOLVED, found)
            time = criterion.time(found, _SOLVED, time)
            now.occupancy[found.chosen] += time
            now.price_sums[:] += prices
            prices = np.clip(prices - step * (model.margins[:, found.chosen] @ time), 0.0, price_bound)
            if net > 0.0:
                prices = np.minimum(np.rint(prices / net) * net, price_bound)
        return now._replace(found=found, time=time, prices=prices, done=until, ways=criterion.ways)

    none = np.zeros(model.n_constraints)
    begin = Iteration(None, None, none, none.copy(), np.zeros(model.n_pairs), 0, criterion.ways)
    number = iterations if model.n_constraints > 0 else 1  # without prices nothing ever changes
    now = about(model, in_pieces(begin, advance, number))
    assert now.found is not None
    last = Policy.deterministic(model, now.found.chosen)
    policy = Policy.from_occupancy(model, now.occupancy, otherwise=last)
    average_prices = now.price_sums / now.done
    return Answer(policy, average_prices, Averages(shares(now.occupancy), average_prices))


ModelBased.algorithm = Algorithm(
    name="Model-based",
    paper="Vaswani, Yang, Szepesvári (NeurIPS 2022)",
    setting="discounted, generative model",
    needs="Slater constant (strict)",
    output="plan on the empirical model",
    sample_complexity="SA / ((1-γ)^5 ζ^2 ε^2), strict",
    violation="zero (strict)",
    constants="from memory; the relaxed U derived here",
    prepare=prepare,
    advance=advance,
    extract=extract,
    plan=plan_on,
)
