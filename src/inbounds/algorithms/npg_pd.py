"""NPG-PD: the natural policy gradient primal-dual method.

Dongsheng Ding, Kaiqing Zhang, Tamer Basar, Mihailo R. Jovanovic. "Natural Policy Gradient Primal-Dual Method for
Constrained Markov Decision Processes", NeurIPS 2020. The method for softmax policies on a known model, and Algorithm 2,
the same from samples of a generative model. The journal's version, with other steps: Ding, Zhang, Duan, Basar,
Jovanovic, "Convergence and Sample Complexity of Natural Policy Gradient Primal-Dual Methods for Constrained MDPs", JMLR
26(256), 2025. Both were read.

Problem
-------
In scaled units (reward r in [0, 1], margins g_i in [-1, 1]), with values V and Q that are NOT normalised, as in the
paper: maximise V_r(rho) over policies with V_{g_i}(rho) >= 0. Prices u >= 0 make it a game on the Lagrangian
V_r + sum_i u_i V_{g_i}: the policy climbs it, the prices descend. Natural gradients of softmax policies have a closed
form: the logits move along the advantages of r + sum_i u_i g_i, so that no gradient is ever formed.

Updates
-------
From the uniform policy and u = 0, for t = 0, 1, ..., T - 1, both from the values of policy pi_t:

    pi_{t+1}(a | s) ~ pi_t(a | s) exp( eta_1 / (1 - gamma) Q_{r + u.g}(s, a) )
    u_i <- project( u_i - eta_2 (V_{g_i}(rho) - kappa / (1 - gamma)) )   onto { u >= 0, sum u <= 2 / ((1 - gamma) xi) }

V and Q are exact on a known model (`ib.iterate`), and unbiased estimates from samples (`ib.learn`): see
`inbounds.algorithms.rollouts`. The policies oscillate around the optimum: the output is their average.

Names
-----
    code             paper              code             paper
    policy_step      eta_1              prices           lambda
    price_step       eta_2              action_values    Q_L (estimated)
    rollouts         K                  start_margins    V_g(rho) - b (estimated)
    iterations       T                  radius           2 / ((1 - gamma) xi)
    slater           (1 - gamma) xi: the paper's Slater constant, normalised
    kappa            not in the paper

Prices are multipliers: the same whether reward and margins are both normalised or both not.

Guarantee
---------
On a known model with ONE constraint and any Slater constant xi that some policy has, over the T policies, not
normalised, both sides times (1 - gamma)^2 sqrt(T):

                                eta_1      eta_2                      gap in reward     violation
    NeurIPS 2020, Theorem 1     2 log A    (1 - gamma) / sqrt(T)      4                 1 / xi + 4 xi
    JMLR 2025, Theorem 10       2 log A    2 (1 - gamma) / sqrt(T)    7                 2 / xi + 4 xi

The defaults are those of the first; price_step="journal" is the second. Nothing is proved of the last policy.

The journal's proof (equation (24)) holds for any constant steps, and for margins in [-1, 1]. Values from the start, and
lambda the price: the policy's steps give, by the telescoping sums of the natural gradient (the one of V_g by parts,
with |lambda_{t+1} - lambda_t| <= eta_2 / (1 - gamma)),

    mean over t of V_r* - V_r + lambda_t (V_g* - V_g) <= log A / (eta_1 T) + 1 / ((1-gamma)^2 T) + 2 eta_2 / (1-gamma)^3

and the price's steps, for any fixed lambda in its interval,

    mean over t of (lambda_t - lambda) V_g <= lambda^2 / (2 eta_2 T) + eta_2 / (2 (1-gamma)^2).

Their sum at lambda = 0 bounds the gap in reward. At the end of the interval it bounds the gap plus that end times the
violation; and since the end is twice the most that the best price can be, the gap is at least minus half that product.
`proof_bounds` is these sums. At the first steps they give the 4, and 2 / xi + 4 (1 - gamma) xi; at the second 6.5, and
1 / xi + 6.5 (1 - gamma) xi. So the printed violations are not what the proof gives: the 1 / xi goes with the second
step. A run states what is printed for its steps, and what the proof gives for them.

From samples, NeurIPS 2020, Theorem 4 (same steps, K walks for each estimate, T iterations): the expected gap is at most
5 / ((1-gamma)^2 sqrt(T)) + 1 / ((1-gamma) K sqrt(T)), the expected violation at most
(1 / xi + 5 xi) / ((1-gamma)^2 sqrt(T)) + xi / (K sqrt(T)). We have not derived it anew; it held, with a factor of five
to spare, on five random problems with 10^5 to 10^7 samples. The journal leaves it out: its theorems for samples have
steps of 1 / sqrt(T), and regress on features.

Departures
----------
* The paper's constraint V_g >= b with g in [0, 1] is V_g >= 0 of a shifted g in [-1, 1]: values keep their range.
* Several constraints: the paper has one. With one, the set of prices is its interval; with more we bound their sum,
  which is what the Slater constant bounds.
* Algorithm 2 prints the interval [0, 1 / ((1 - gamma) xi)], the exact method [0, 2 / ((1 - gamma) xi)]: we take the
  second in both. It also sets logits and prices back at the head of every iteration, an evident slip.
* Algorithm 2 subtracts an estimate of the value of each state from the action values, at the price of walks from every
  state. What is equal for all actions of a state cancels in the softmax: the policies are the same without, so these
  walks are not made.
* Algorithm 2 makes as many walks from the start as from each pair, `rollouts`; we make more of them.
* T is not known in advance from samples: eta_2 is set for the expected number of iterations.
* `rollouts` defaults to 1, as the sample complexity in the table of algorithms counts; Theorem 4 holds for any K.

Practical preset
----------------
`NPGPD.practical()`: eta_1 = 30 (1 - gamma)^2 / sqrt(T) instead of a constant, since a constant step never averages out
the noise of single walks; a baseline in the signal (`algorithms.rollouts`); kappa = 0.3 / sqrt(T), at most half the
Slater constant; averages that start anew half way. eta_2 is the journal's. No theorem covers it. The learner is in a
frame that tests its policy and mixes it with a safe one (`inbounds.algorithms.frame`); ``repair=False`` is the method
alone. What limits it: an iteration walks from every pair, so there are only T (1 - gamma) / n of them, 25 with a
million samples of 2,000 pairs at gamma = 0.95, and no step size mends that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Prepared
from inbounds.algorithms.rollouts import Resolved, WalkSettings, resolve, resolve_known, walk_algorithm
from inbounds.algorithms.settings import guarantee_unless, stated
from inbounds.problem.cmdp import CMDP
from inbounds.problem.pairs import Pairs
from inbounds.problem.simulator import Simulator

SHRINKING_STEP = 30.0
"""policy_step="shrinking" is this times (1 - discount)^2 over the root of the number of iterations: an iteration moves
the logits by this over that root times the normalised action values. 30 to 100 did about alike on the queue, a grid and
random problems; 10 was too slow on the grid."""


@dataclass(frozen=True, repr=False)
class NPGPD(WalkSettings):
    """Settings of NPG-PD; the defaults are those of the paper of 2020. See the module for the algorithm.

    Parameters
    ----------
    policy_step : float or "shrinking", optional
        The paper's eta_1. Default: its 2 log A, with A the largest number of actions. "shrinking":
        30 (1 - discount)^2 / sqrt(iterations).
    price_step : float or "journal", optional
        The paper's eta_2. Default: its (1 - discount) / sqrt(iterations). "journal": twice that, as in the version of
        2025.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> run = ib.iterate(queue, ib.NPGPD(), iterations=2_000)
    >>> judged = ib.evaluate(queue, run.policy)
    >>> judged.in_bounds, round(judged.total_reward, 2)
    (True, 4.64)
    >>> run = ib.learn(queue.simulator(), ib.NPGPD.practical(slater=0.2), samples=200_000, seed=0)
    >>> judged = ib.evaluate(queue, run.policy)
    >>> judged.in_bounds, judged.total_reward > 4.4
    (True, True)
    """

    policy_step: float | str | None = field(default=None, metadata=checks.or_word("shrinking", checks.POSITIVE))
    price_step: float | str | None = field(default=None, metadata=checks.or_word("journal", checks.POSITIVE))

    preset: ClassVar = dict(
        kappa="shrinking",
        policy_step="shrinking",
        price_step="journal",
        baseline=True,
        average="second half",
        repair=True,
    )


def prepare(settings: NPGPD, simulator: Simulator, samples: int, pilot: Any) -> Prepared:
    resolved = resolve(settings, simulator, samples, pilot)
    return _begin(settings, simulator, resolved, _sampled_guarantee(settings, simulator, resolved))


def prepare_known(settings: NPGPD, model: CMDP, iterations: int) -> Prepared:
    resolved = resolve_known(settings, model, iterations)
    return _begin(settings, model, resolved, _guarantee(settings, model, resolved, iterations))


def _begin(settings: NPGPD, problem: CMDP | Simulator, resolved: Resolved, guarantee: str) -> Prepared:
    policy_step, price_step = steps(settings, problem.pairs, problem.discount, resolved.iterations)
    made = (policy_step / (1.0 - problem.discount), price_step)
    return resolved.prepared(settings, problem, (policy_step, price_step), made, False, guarantee)


def steps(settings: NPGPD, pairs: Pairs, discount: float, iterations: float) -> tuple[float, float]:
    """The paper's eta_1 and eta_2."""
    eta_1, eta_2 = settings.policy_step, settings.price_step
    if eta_1 == "shrinking":
        eta_1 = SHRINKING_STEP * (1.0 - discount) ** 2 / math.sqrt(iterations)
    if eta_1 is None:
        eta_1 = 2.0 * math.log(_most_actions(pairs))
    if eta_2 is None or eta_2 == "journal":
        eta_2 = (1.0 if eta_2 is None else 2.0) * (1.0 - discount) / math.sqrt(iterations)
    return float(eta_1), float(eta_2)


def _most_actions(pairs: Pairs) -> int:
    """A, but at least 2: with one action any step will do."""
    return max(int(np.diff(pairs.offsets).max()), 2)


class Bounds(NamedTuple):
    """Of the mean over the policies, in scaled units, normalised."""

    gap: float  # in reward
    violation: float


def proof_bounds(made: tuple[float, float], slater: float, discount: float, n_actions: int, iterations: int) -> Bounds:
    """What the module's two inequalities give for eta_1 and eta_2 `made` and one constraint."""
    (eta_1, eta_2), patience = made, 1.0 - discount
    gap = math.log(n_actions) / (eta_1 * iterations) + 1.0 / (patience**2 * iterations)
    gap += 2.0 * eta_2 / patience**3 + eta_2 / (2.0 * patience**2)
    edge = 2.0 / slater  # of the interval of prices
    violation = (gap + edge**2 / (2.0 * eta_2 * iterations)) / (edge / 2.0)
    return Bounds(patience * gap, patience * violation)


def printed_bounds(
    reward: float, price: float, slack: float, slater: float, discount: float, iterations: float
) -> Bounds:
    """A theorem's `reward`, and `price` / xi + `slack` xi, over (1 - gamma)^2 sqrt(iterations)."""
    xi, unit = slater / (1.0 - discount), 1.0 / ((1.0 - discount) * math.sqrt(iterations))
    return Bounds(reward * unit, (price / xi + slack * xi) * unit)


def _guarantee(settings: NPGPD, model: CMDP, resolved: Resolved, iterations: int) -> str:
    slater, free = resolved.slater, model.n_constraints == 0
    made = steps(settings, model.pairs, model.discount, iterations)
    proved = proof_bounds(made, slater, model.discount, _most_actions(model.pairs), iterations)
    theorem = ""
    if settings.policy_step is None and settings.price_step in (None, "journal"):
        name, numbers = "Theorem 1 (NeurIPS 2020)", (4.0, 1.0, 4.0)
        if settings.price_step == "journal":
            name, numbers = "Theorem 10 (JMLR 2025)", (7.0, 2.0, 4.0)
        theorem = f"; {name} prints {_said(printed_bounds(*numbers, slater, model.discount, iterations), free)}"
    return guarantee_unless(
        {
            "a kappa": settings.kappa != 0.0,
            "the average of some of the policies only": settings.average != "all",
            f"{model.n_constraints} constraints: the paper has one": model.n_constraints > 1,
            **resolved.gaps,
        },
        f"the paper's proof for these steps, in scaled units, normalised"
        f"{', if the Slater constant is right' * (not free)}: {_said(proved, free)}{theorem}",
    )


def _sampled_guarantee(settings: NPGPD, simulator: Simulator, resolved: Resolved) -> str:
    iterations, walks, free = resolved.iterations, resolved.walks, simulator.n_constraints == 0
    printed = printed_bounds(5.0, 1.0, 5.0, resolved.slater, simulator.discount, iterations)
    noise = 1.0 / (walks.rollouts * math.sqrt(iterations))
    printed = Bounds(printed.gap + noise, printed.violation + resolved.slater * noise)
    return guarantee_unless(
        {
            "a kappa": settings.kappa != 0.0,
            "steps that differ from its own": settings.policy_step is not None or settings.price_step is not None,
            "a baseline": settings.baseline,
            "fewer walks from the start than from a pair": walks.start_rollouts < walks.rollouts,
            "the average of some of the policies only": settings.average != "all",
            f"{simulator.n_constraints} constraints: the paper has one": simulator.n_constraints > 1,
        },
        f"Theorem 4 (NeurIPS 2020) as printed, in the mean over runs, in scaled units, normalised, if "
        f"{'the Slater constant is right and ' * (not free)}{iterations:.0f} iterations are made: "
        f"{_said(printed, free)}",
    )


def _said(bounds: Bounds, free: bool) -> str:
    violation = "" if free else f", violation at most {stated(bounds.violation)}"
    return f"reward within {stated(bounds.gap)} of the optimum{violation}"


NPGPD.algorithm = walk_algorithm(
    prepare,
    prepare_known,
    name="NPG-PD",
    paper="Ding, Zhang, Basar, Jovanovic (NeurIPS 2020)",
    output="average of the iterates",
    sample_complexity="SA / ((1-γ)^5 ε^2)",
    constants="paper (NeurIPS 2020, Theorems 1 and 4; JMLR 2025, Theorem 10)",
)
