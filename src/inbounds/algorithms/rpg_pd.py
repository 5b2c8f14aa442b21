"""RPG-PD: the Regularised Policy Gradient Primal-Dual method, whose last iterate converges.

Dongsheng Ding, Chen-Yu Wei, Kaiqing Zhang, Alejandro Ribeiro. "Last-Iterate Convergent Policy Gradient Primal-Dual
Methods for Constrained MDPs", NeurIPS 2023. Equation (6).

Problem
-------
The model is known, and so are the values of every policy. In scaled units (reward r in [0, 1], margins g_i in
[-1, 1]), with values V that are discounted sums, find the saddle point

    max over policies pi, min over prices u in [0, U] of
    V_r(rho) + sum_i u_i (V_{g_i}(rho) - kappa / (1 - gamma)) + tau H(pi) + tau / 2 sum_i u_i^2

where H(pi) = V_psi(rho) with psi = -log pi is the discounted entropy. The two regularisers make the saddle point
unique and the circles of plain gradient steps a spiral inwards, at the price of a bias of the order of tau.

Updates
-------
From pi_0 uniform and u_0 = 0, both from the values before the step, with Q_t that of pi_t for the reward
r + sum_i u_i g_i - tau log pi_t (the entropy of the first step included):

    pi_{t+1}(. | s) = argmax over { p : p(a) >= e0 / A(s) } of <p, Q_t(s, .)> - KL(p || pi_t(. | s)) / eta
    u_{t+1}         = clip( (1 - eta tau) u_t - eta (V_{g_i}(rho) - kappa / (1 - gamma)) )     to [0, U]

Where the floor e0 / A is not reached, the first is pi_t exp(eta Q_t), normalised. Otherwise it is the KL projection of
that onto the floored simplex: entries below the floor are set to it and the others rescaled, until none is below.

The output is pi_t, the last iterate.

Names
-----
    code                paper           code                paper
    policy, prices      pi_t, u_t       pair_values         Q_t
    logs                log pi_t        price_bound         U = 2 / slater
    eta (setting)       eta / (1 - gamma)                   floor    e0
    tau                 the same        slater              (1 - gamma) xi

Guarantee
---------
Theorem 2, for one constraint: with KL the divergence of pi_t from the regularised saddle point's policy, weighted by
the time that this spends in each state, the distance Phi_t = KL / (1 - gamma) + (u_t - u*)^2 / 2 shrinks,

    Phi_{t+1} <= exp(-eta tau t) Phi_1 + eta / tau max(C, C')^2    if    eta <= 1 / C,
    C = (1 + U + tau log A) / (1 - gamma) - tau log(e0 / A),    C' = 1 / (1 - gamma) + tau U

(`theorem_constants`; the paper's interval of prices ends at U = 1 / ((1 - gamma) xi); with a kappa, which is in the
step of the prices, C' is larger by kappa / (1 - gamma)). With eta = Theta(eps^4), tau =
Theta(eps^2) and e0 = eps the last iterate is within eps of the optimum, and so is its violation, after an order of
log(1 / eps)^2 / eps^6 iterations (Corollary 3); tightened by an amount of that order it is in bounds. A run checks the
step, and says how large the last term is: at practical steps it is beyond any distance there is, and proves nothing.

Samples
-------
The paper has them, in appendix C.9: Algorithm 1 makes K steps of stochastic gradient descent an iteration, for a linear
fit of Q from walks of geometric length, and one more walk for V_g. Corollary 18: to the bound above, with W for the
size of the fit and C = 2 W / (1 - gamma), come terms of the order of 1 / (tau sqrt(K)) and of the bias of the fit; for
eps it takes K of the order of 1 / eps^8 in each of the 1 / eps^6 iterations. Ours, the same iterations on the empirical
model, is another algorithm, and the corollary does not cover it.

Departures
----------
* The defaults of eta, tau and e0 are ours: the paper gives orders, and the bound on eta.
* eta and tau may fall with the iterations, as (t + 3)^-power. With eta = (t + 3)^-0.53 and tau = (t + 3)^-0.4, not
  normalised, they are those of the public code of a later, anytime method (Kitamura et al. 2024).
* Normalised steps, several constraints, the interval of prices, and samples instead of values: see
  `inbounds.algorithms.plug_in`.

Practical preset
----------------
`RPGPD.practical()`: eta = 2 (1 - gamma) (t + 3)^-0.35 and tau = 0.5 (t + 3)^-0.4. At the regularised saddle point a
margin is -(1 - gamma) tau times its price (the fixed point of the step of u), so kappa is that for a price of 1. From
samples it is in a frame (`inbounds.algorithms.frame`) that tests its plan, plans again with the kappa that the test
asks for, and mixes. ``repair=False``: one plan on all samples, with a kappa that is larger by 0.1 / sqrt((1 - gamma)
N), N samples of every pair. What limits it: the regularisation, and the number of iterations.

Cost
----
One evaluation of a policy an iteration, as for OPG-PD, and an exponential for every pair: 5 microseconds on the queue.
Where the default leaves only some hundred iterations, beyond some thousand pairs, they are too few for this method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Prepared
from inbounds.algorithms.known import KnownModel, slater_and_gaps, start_value
from inbounds.algorithms.plug_in import (
    PlugInSettings,
    kappa_gap,
    plug_in_algorithm,
    plug_in_iterations,
    prepare_plug_in,
)
from inbounds.algorithms.settings import guarantee_unless, stated
from inbounds.arrays import Floats
from inbounds.numerics.compiled import compiled
from inbounds.numerics.policy_chains import pair_values, state_values
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator

_STEPS = ("eta", "eta_power", "tau", "tau_power", "floor")
"""The settings of a step, which a run shows."""

_POWER = checks.a_number("in [0, 1)", lambda value: 0.0 <= value < 1.0)


@dataclass(frozen=True, repr=False)
class RPGPD(PlugInSettings):
    """Settings of RPG-PD. See the module for the algorithm.

    Parameters
    ----------
    tau : float
        Weight of the regularisers.
    eta_power, tau_power : float
        In iteration t eta and tau are multiplied by (t + 3) to minus these powers.
    floor : float in (0, 1)
        The paper's e0: no probability is below e0 divided by the number of actions.
    kappa : float, optional
        How much every constraint is tightened, in scaled units. Default: `expected_price` times (1 - discount) times
        the last tau, and `kappa_multiplier` times 1 / sqrt((1 - discount) N) with N samples of every pair; nothing for
        the latter on a known model.
    expected_price, kappa_multiplier : float
        See `kappa`. 0: no tightening, as in the paper's equation (6).

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> run = ib.iterate(queue, ib.RPGPD.practical(), iterations=20_000)
    >>> best, found = ib.solve(queue), ib.evaluate(queue, run.policy)
    >>> round(best.total_reward - found.total_reward, 1), found.in_bounds
    (0.0, True)
    """

    eta: float = field(default=0.1, metadata=checks.POSITIVE)
    tau: float = field(default=0.01, metadata=checks.POSITIVE)
    eta_power: float = field(default=0.0, metadata=_POWER)
    tau_power: float = field(default=0.0, metadata=_POWER)
    floor: float = field(default=1e-6, metadata=checks.INSIDE)
    expected_price: float = field(default=0.0, metadata=checks.NOT_NEGATIVE, kw_only=True)

    preset: ClassVar = dict(
        eta=2.0, eta_power=0.35, tau=0.5, tau_power=0.4, expected_price=1.0, kappa_multiplier=0.1, repair=True
    )


class Constants(NamedTuple):
    eta: float  # the paper's, times (t + 3)^-eta_power
    eta_power: float
    tau: float  # times (t + 3)^-tau_power
    tau_power: float
    floor: float
    tightening: float  # kappa / (1 - gamma)
    price_bound: float


class State(NamedTuple):
    policy: Floats  # [n]: pi_t
    logs: Floats  # [n]: log pi_t
    prices: Floats  # [K]: u_t
    pair_values: Floats  # [n]: Q of the policy before
    signals: Floats  # [1 + K, n]: r + sum_i u_i g_i - tau log pi, and the margins
    values: Floats  # [1 + K, S], of those


def prepare_known(settings: RPGPD, model: CMDP, iterations: int) -> Prepared:
    n_constraints, horizon = model.n_constraints, 1.0 / (1.0 - model.discount)
    slater, gaps = slater_and_gaps(settings, model)
    kappa = settings.kappa
    if kappa is None:
        kappa = regularisation_kappa(settings, model.discount, iterations)
    constants = Constants(
        eta=settings.eta / horizon,
        eta_power=float(settings.eta_power),
        tau=float(settings.tau),
        tau_power=float(settings.tau_power),
        floor=float(settings.floor),
        tightening=kappa * horizon,
        price_bound=2.0 / slater,
    )
    uniform = Policy.uniform(model).probabilities
    state = State(
        policy=uniform.copy(),
        logs=np.log(uniform),
        prices=np.zeros(n_constraints),
        pair_values=np.zeros(model.n_pairs),
        signals=np.vstack([model.reward, model.margins]),
        values=np.zeros((1 + n_constraints, model.n_states)),
    )
    resolved = {name: getattr(settings, name) for name in _STEPS} | {"slater": slater, "kappa": kappa}
    if n_constraints > 0 and not any(gaps.values()):
        gaps |= kappa_gap(settings, slater, kappa)
    return Prepared(state, constants, 0, resolved, _guarantee(settings, model, constants, kappa, gaps))


def regularisation_kappa(settings: RPGPD, discount: float, iterations: int) -> float:
    """What keeps a constraint of the expected price in bounds at the regularised saddle point of the last tau."""
    last_tau = settings.tau * (iterations + 2.0) ** -settings.tau_power
    return min(settings.expected_price * (1.0 - discount) * last_tau, 1.0)


def theorem_constants(
    discount: float, n_actions: int, tau: float, floor: float, price_bound: float
) -> tuple[float, float]:
    """C and C' of Theorem 2."""
    most = (1.0 + price_bound + tau * math.log(n_actions)) / (1.0 - discount) - tau * math.log(floor / n_actions)
    return most, 1.0 / (1.0 - discount) + tau * price_bound


def _guarantee(settings: RPGPD, model: CMDP, constants: Constants, kappa: float, gaps: dict[str, bool]) -> str:
    eta, tau, n_actions = constants.eta, constants.tau, int(np.diff(model.offsets).max())
    both = theorem_constants(model.discount, n_actions, tau, constants.floor, constants.price_bound)
    allowed = 1.0 / (both[0] * (1.0 - model.discount))  # as a setting: on normalised values
    free = model.n_constraints == 0
    tightened = "" if kappa == 0.0 or free else f" of the problem tightened by {kappa:.3g}"
    right = "" if free else ", if the Slater constant is right"
    largest = max(both[0], both[1] + (0.0 if free else constants.tightening))  # the slack of a price moves by that
    return guarantee_unless(
        {
            "several constraints": model.n_constraints > 1,
            "a step size or regularisation that falls": settings.eta_power > 0.0 or settings.tau_power > 0.0,
            f"eta = {settings.eta:.3g}: it needs at most {stated(allowed, at_least=True)}": settings.eta > allowed,
            **gaps,
        },
        f"Theorem 2 of the paper: the distance of the last iterate to the regularised saddle point{tightened} shrinks "
        f"as exp(-{stated(eta * tau, at_least=True)} t), down to {stated(eta / tau * largest**2)}{right}",
    )


@compiled
def advance_known(state: State, constants: Constants, model: KnownModel, done: int, until: int) -> None:
    """Iterations number `done` to `until` - 1."""
    logs, prices, signals, offsets = state.logs, state.prices, state.signals, model.chains.rows.offsets
    for t in range(done, until):
        log_time = math.log(t + 3.0)
        eta = constants.eta * math.exp(-constants.eta_power * log_time)
        tau = constants.tau * math.exp(-constants.tau_power * log_time)
        for k in range(logs.shape[0]):
            total = model.reward[k] - tau * logs[k]
            for i in range(prices.shape[0]):
                total += prices[i] * model.margins[k, i]
            signals[0, k] = total
        state_values(model.chains, state.policy, signals, state.values)
        pair_values(model.chains, signals[0], state.values[0], state.pair_values)
        for k in range(logs.shape[0]):
            logs[k] += eta * state.pair_values[k]
        for s in range(model.initial.shape[0]):
            floored_row(logs, state.policy, offsets[s], offsets[s + 1], constants.floor)
        for i in range(prices.shape[0]):
            slack = start_value(model, state.values[1 + i]) - constants.tightening
            prices[i] = min(max((1.0 - eta * tau) * prices[i] - eta * slack, 0.0), constants.price_bound)


@compiled
def floored_row(logs: Floats, policy: Floats, first: int, last: int, floor: float) -> None:
    """The policy of one state, pairs `first` to `last` - 1, from logits that become its logarithms, with a floor.

    Of all p with p(a) >= least = floor / A, the one nearest to the normalised weights w = exp(logits) in KL(p || w) is
    max(least, share * w). Rescaling the others after some entries were raised to the floor can bring more of them
    below it; a round adds those, and the last one adds none.
    """
    largest = logs[first]
    for k in range(first + 1, last):
        largest = max(largest, logs[k])
    total = 0.0
    for k in range(first, last):
        policy[k] = math.exp(logs[k] - largest)
        total += policy[k]
    least = floor / (last - first)
    raised = 0
    while True:
        limit = least * total / (1.0 - least * raised)  # the weight whose share is the floor
        above = 0.0
        count = 0
        for k in range(first, last):
            if policy[k] > limit:
                above += policy[k]
            else:
                count += 1
        if count <= raised:
            break
        raised = count
        total = above
    share = (1.0 - least * raised) / total
    log_share, log_least = math.log(share) - largest, math.log(least)
    for k in range(first, last):
        if policy[k] > limit:
            policy[k] *= share
            logs[k] += log_share
        else:
            policy[k] = least
            logs[k] = log_least


def prepare(settings: RPGPD, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    bias = regularisation_kappa(settings, simulator.discount, plug_in_iterations(settings, simulator))
    guarantee = "none: the paper's algorithm for samples fits values to walks; this one iterates on an empirical model"
    return prepare_plug_in(settings, simulator, samples, _STEPS, guarantee, bias)


RPGPD.algorithm = plug_in_algorithm(
    prepare,
    prepare_known,
    advance_known,
    name="RPG-PD",
    paper="Ding, Wei, Zhang, Ribeiro (NeurIPS 2023)",
    sample_complexity="1 / ε^6 iterations",
    constants="paper (Theorem 2); the default steps are ours",
)
