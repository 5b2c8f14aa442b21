"""OPG-PD: the Optimistic Policy Gradient Primal-Dual method, whose last iterate converges.

Dongsheng Ding, Chen-Yu Wei, Kaiqing Zhang, Alejandro Ribeiro. "Last-Iterate Convergent Policy Gradient Primal-Dual
Methods for Constrained MDPs", NeurIPS 2023. Equation (9).

Problem
-------
The model is known, so the values of every policy are: no samples. In scaled units (reward r in [0, 1], margins g_i in
[-1, 1]), with values V and Q that are discounted sums, find the saddle point

    max over policies pi, min over prices u in [0, U] of   V_r(rho) + sum_i u_i (V_{g_i}(rho) - kappa / (1 - gamma)).

Plain gradient steps circle around it, and only their averages converge. An optimistic step takes the last gradient as
a forecast of the next one, which turns the circles into a spiral inwards: the last policy itself is the answer.

Updates
-------
With pi_0 = pihat_1 uniform and u_0 = uhat_1 = 0, for t = 1, 2, ...

    pi_t(. | s)        = project( pihat_t(. | s) + eta Q_{t-1}(s, .) )     u_t        = clip( uhat_t - eta G_{t-1} )
    pihat_{t+1}(. | s) = project( pihat_t(. | s) + eta Q_t(s, .) )         uhat_{t+1} = clip( uhat_t - eta G_t )

Q_t is that of the policy pi_t for the reward r + sum_i u_{t,i} g_i, and G_{t,i} = V_{g_i}(rho) - kappa / (1 - gamma) of
pi_t. Rows are projected onto the probability simplex (Euclidean), prices onto [0, U]. Each of the two gradients at
(pi_t, u_t) serves twice, so an iteration costs ONE evaluation of a policy.

The output is the last pihat, which the theorem is about: (pihat, uhat) makes the real steps, (pi, u) only looks ahead.
`iterate="predicted"` returns the last pi_t instead.

Names
-----
    code                paper           code                paper
    policy, prices      pi_t, u_t       centre, price_centre    pihat_t, uhat_t
    gradient, slack     Q_t, G_t        price_bound         U = 2 / slater
    eta (setting)       eta / (1 - gamma)                   slater   (1 - gamma) xi

Guarantee
---------
Theorem 6: with one constraint, if the initial distribution rho covers all states and all optimal policies have the same
state visitation, then pihat_t and uhat_t converge to the optimal policies and prices at a linear rate, which depends on
the problem; hence (Corollary 7) after an order of log(1 / eps)^2 iterations pihat_t is within eps. It needs

    eta <= min( 1 / (4 sqrt(iota)), (1 - gamma)^3 / (4 A), (1 - gamma)^3 / (2 kappa_rho) ),
    kappa_rho = max over policies and states of d(s) / rho(s), with d the time that a policy spends in each state,
    iota = max( 2 kappa_rho^2 A / (1 - gamma)^6, 8 gamma^2 A kappa_rho (1 + U^2) / (1 - gamma)^6, 4 / (1 - gamma)^3 ),

where (28) of the paper prints sqrt(A) in the middle of iota: its proof squares |p|_1 <= sqrt(A) |p|_2, which gives A.
`largest_eta` is this bound. A run checks it, with kappa_rho from one unconstrained solve for each state where that
matters (up to 1,000 states); the uniqueness is not checked. Nothing is proved for a given number of iterations (the
rate has a constant that nobody knows), or from samples. Of a problem tightened by kappa the theorem speaks as well, as
long as U bounds its best prices: up to half the Slater constant (`plug_in.kappa_gap`). kappa moves values by a
constant, and only differences of values are behind the bound on eta.

Departures
----------
* The default eta is ours, far beyond the theorem's, which is of the order of (1 - gamma)^3: 0.3 (1 - gamma) converged
  on the queue and on 205 of 210 random problems with 1 to 5 constraints (to 0.003 within 20,000 iterations; three of
  the others have certain moves and a discount of 0.99, two a Slater constant below 0.04); 1.0 (1 - gamma) does not
  converge on the queue.
* Normalised steps, several constraints, the interval of prices, and samples instead of values: see
  `inbounds.algorithms.plug_in`.

Practical preset
----------------
`OPGPD.practical()`: the predicted iterate; from samples in a frame (`inbounds.algorithms.frame`) that tests its plan,
plans again with the kappa that the test asks for, and mixes. ``repair=False``: one plan on all samples with kappa = 0.1
/ sqrt((1 - gamma) N), N samples of every pair. On a known model there is no error to allow for. What limits it: the
test, and the number of iterations on models of thousands of pairs.

Cost
----
On the queue 7 microseconds an iteration. Where elimination fills in little, O(entries of the model) an iteration; where
it would fill in a large model, values are found by sweeps that begin from those of the last policy (35 milliseconds
with 10,000 pairs). From samples O(1) a sample, and the iterations at every checkpoint.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Answer, Prepared
from inbounds.algorithms.kernels import project_simplex
from inbounds.algorithms.known import KnownModel, priced_signals, slater_and_gaps, start_value
from inbounds.algorithms.plug_in import PlugInSettings, kappa_gap, last_iterate, plug_in_algorithm, prepare_plug_in
from inbounds.algorithms.settings import guarantee_unless, stated
from inbounds.arrays import Floats, Ints
from inbounds.criteria import criterion_of
from inbounds.numerics.compiled import compiled
from inbounds.numerics.policy_chains import pair_values, state_values
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator

_MOST_SOLVES = 1_000
"""Of a model with more states kappa_rho is not computed; 1 over the rarest start bounds it."""


@dataclass(frozen=True, repr=False)
class OPGPD(PlugInSettings):
    """Settings of OPG-PD. See the module for the algorithm.

    Parameters
    ----------
    kappa : float, optional
        How much every constraint is tightened, in scaled units. Default: `kappa_multiplier` times
        1 / sqrt((1 - discount) N), with N samples of every pair; 0 on a known model.
    kappa_multiplier : float
        The paper has no samples, and no tightening: 0.
    iterate : "hatted" or "predicted"
        Which of the two policies is returned: pihat, that of the paper's theorem, or pi.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> run = ib.iterate(queue, ib.OPGPD(), iterations=20_000)
    >>> best, found = ib.solve(queue), ib.evaluate(queue, run.policy)
    >>> abs(found.total_reward - best.total_reward) < 1e-3, bool(found.total_margins.min() > -1e-4)
    (True, True)
    """

    iterate: str = field(default="hatted", metadata=checks.one_of("hatted", "predicted"), kw_only=True)

    preset: ClassVar = dict(kappa_multiplier=0.1, iterate="predicted", repair=True)


class Constants(NamedTuple):
    eta: float  # the paper's
    tightening: float  # kappa / (1 - gamma)
    price_bound: float
    hatted: bool  # whether the answer is the centre


class State(NamedTuple):
    policy: Floats  # [n]: pi_t
    prices: Floats  # [K]: u_t
    centre: Floats  # [n]: pihat_{t+1}
    price_centre: Floats  # [K]: uhat_{t+1}
    gradient: Floats  # [n]: Q_t
    slack: Floats  # [K]: G_t
    signals: Floats  # [1 + K, n]: r + sum_i u_i g_i, and the margins
    values: Floats  # [1 + K, S], of those


def prepare_known(settings: OPGPD, model: CMDP, iterations: int) -> Prepared:
    n_constraints = model.n_constraints
    slater, gaps = slater_and_gaps(settings, model)
    kappa = 0.0 if settings.kappa is None else settings.kappa
    constants = Constants(
        eta=settings.eta * (1.0 - model.discount),
        tightening=kappa / (1.0 - model.discount),
        price_bound=2.0 / slater,
        hatted=settings.iterate == "hatted",
    )
    uniform = Policy.uniform(model).probabilities
    state = State(
        policy=uniform.copy(),
        prices=np.zeros(n_constraints),
        centre=uniform.copy(),
        price_centre=np.zeros(n_constraints),
        gradient=np.zeros(model.n_pairs),
        slack=np.zeros(n_constraints),
        signals=np.zeros((1 + n_constraints, model.n_pairs)),
        values=np.zeros((1 + n_constraints, model.n_states)),
    )
    resolved: dict[str, float | str] = {"eta": settings.eta, "slater": slater, "kappa": kappa}
    resolved["iterate"] = settings.iterate
    if n_constraints > 0 and not any(gaps.values()):
        gaps |= kappa_gap(settings, slater, kappa)
    return Prepared(state, constants, 0, resolved, _guarantee(settings, model, constants, kappa, gaps))


def largest_eta(discount: float, n_actions: int, price_bound: float, mismatch: float) -> float:
    """The most that the theorem allows for the paper's eta; `mismatch` is kappa_rho."""
    patience = 1.0 - discount
    iota = max(
        2.0 * mismatch**2 * n_actions / patience**6,
        8.0 * discount**2 * n_actions * mismatch * (1.0 + price_bound**2) / patience**6,
        4.0 / patience**3,
    )
    return min(0.25 / math.sqrt(iota), patience**3 / (4.0 * n_actions), patience**3 / (2.0 * mismatch))


def largest_mismatch(model: CMDP) -> float:
    """kappa_rho, by the policy that spends the most time in a state, for each state; at most 1e-6 too large."""
    criterion, worst = criterion_of(model), 1.0
    for s in range(model.n_states):
        reward = np.where(model.pairs.states == s, 1.0, 0.0)
        found = criterion.solve(reward, 1e-6 * float(model.initial[s]))
        worst = max(worst, found.upper / float(model.initial[s]))
    return worst


def _guarantee(settings: OPGPD, model: CMDP, constants: Constants, kappa: float, gaps: dict[str, bool]) -> str:
    free = model.n_constraints == 0
    tightened = "" if kappa == 0.0 or free else f" of the problem tightened by {kappa:.3g}"
    right = "" if settings.slater is None or free else "the Slater constant is right and "
    eta, covers = settings.eta, bool(np.all(model.initial > 0.0))
    n_actions, patience = int(np.diff(model.offsets).max()), 1.0 - model.discount

    def most(mismatch: float) -> float:
        """As a setting: on normalised values."""
        return largest_eta(model.discount, n_actions, constants.price_bound, mismatch) / patience

    allowed = most(1.0)  # whatever the policies: kappa_rho is at least 1, and at most 1 over the rarest start
    if covers and eta <= allowed:
        rarest = most(1.0 / float(model.initial.min()))
        solved = eta > rarest and model.n_states <= _MOST_SOLVES and model.n_constraints <= 1
        allowed = most(largest_mismatch(model)) if solved else rarest
    return guarantee_unless(
        {
            "several constraints": model.n_constraints > 1,
            "an initial distribution that leaves out states": not covers,
            f"eta = {eta:.3g}: it needs at most {stated(allowed, at_least=True)}": eta > allowed,
            "the predicted iterate": not constants.hatted,
            **gaps,
        },
        f"Theorem 6 of the paper: the last hatted iterate converges to an optimal policy{tightened}, at a linear rate, "
        f"if {right}all of them have one state visitation (not checked); nothing for a given number of iterations",
    )


@compiled
def advance_known(state: State, constants: Constants, model: KnownModel, done: int, until: int) -> None:
    """Iterations number `done` to `until` - 1."""
    if done == 0 and until > 0:
        find_gradients(state, constants, model)
    for _ in range(done, until):
        step_policy(state.centre, state.gradient, constants.eta, model.chains.rows.offsets, state.policy)
        step_prices(state.price_centre, state.slack, constants, state.prices)
        find_gradients(state, constants, model)
        step_policy(state.centre, state.gradient, constants.eta, model.chains.rows.offsets, state.centre)
        step_prices(state.price_centre, state.slack, constants, state.price_centre)


@compiled
def find_gradients(state: State, constants: Constants, model: KnownModel) -> None:
    """Q_t and G_t of the policy and prices."""
    priced_signals(model, state.prices, state.signals)
    state_values(model.chains, state.policy, state.signals, state.values)
    pair_values(model.chains, state.signals[0], state.values[0], state.gradient)
    for i in range(state.prices.shape[0]):
        state.slack[i] = start_value(model, state.values[1 + i]) - constants.tightening


@compiled
def step_policy(centre: Floats, gradient: Floats, eta: float, offsets: Ints, result: Floats) -> None:
    """project(centre + eta gradient) row by row, into `result` [n], which may be `centre` itself."""
    for s in range(offsets.shape[0] - 1):
        for k in range(offsets[s], offsets[s + 1]):
            result[k] = centre[k] + eta * gradient[k]
        project_simplex(result, offsets[s], offsets[s + 1], 1.0)


@compiled
def step_prices(centre: Floats, slack: Floats, constants: Constants, result: Floats) -> None:
    """clip(centre - eta slack) to [0, U], into `result` [K], which may be `centre` itself."""
    for i in range(centre.shape[0]):
        result[i] = min(max(centre[i] - constants.eta * slack[i], 0.0), constants.price_bound)


def extract_known(state: State, constants: Constants, problem: Any) -> Answer:
    """The hatted iterate, or the predicted one."""
    if constants.hatted:
        state = state._replace(policy=state.centre, prices=state.price_centre)
    return last_iterate(state, constants, problem)


def prepare(settings: OPGPD, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    return prepare_plug_in(
        settings, simulator, samples, ("eta", "iterate"), "none: the paper has no samples for OPG-PD"
    )


OPGPD.algorithm = plug_in_algorithm(
    prepare,
    prepare_known,
    advance_known,
    extract_known,
    name="OPG-PD",
    paper="Ding, Wei, Zhang, Ribeiro (NeurIPS 2023)",
    sample_complexity="C log(1/ε)^2 iterations",
    constants="paper (Theorem 6); the default step is ours",
)
