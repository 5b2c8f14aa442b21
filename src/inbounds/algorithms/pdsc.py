"""PDSC: the sampling-based primal-dual method of Chen, Dong and Wang.

Yi Chen, Jing Dong, Zhaoran Wang. "A Primal-Dual Approach to Constrained Markov Decision Processes", 2021
(arXiv 2101.10895). The short name is that of the table of algorithms in the CSPDA paper. The updates below are from
memory, not checked against the paper's text; the rate is from its abstract.

Problem
-------
In scaled units (reward r in [0, 1], margins g_i in [-1, 1]), with NORMALISED values J = (1 - gamma) V: maximise J_r
over policies with J_{g_i} >= 0. Prices u >= 0 make it a game on the Lagrangian J_r + sum_i u_i J_{g_i}: the policy
makes a step of regularised policy iteration (a mirror step with the Kullback-Leibler divergence), the prices one along
their subgradient.

Updates
-------
From the uniform policy and u = 0, for m = 1, 2, ..., T, both from the values of policy pi_m, with eta_m = c / sqrt(m):

    pi_{m+1}(a | s) ~ pi_m(a | s) exp( eta_m (1 - gamma) Q_{r + u.g}(s, a) )
    u <- project( u - eta_m (J_g(pi_m) - kappa) )     onto { u >= 0, sum u <= 2 / phi }

Q and J_g are exact on a known model (`ib.iterate`), and unbiased estimates from samples (`ib.learn`): see
`inbounds.algorithms.rollouts`. The output is the average of the policies with weights eta_m.

Names
-----
    code             paper (from memory)            code             paper
    policy_step      c, in the step of the policy   prices           lambda
    price_step       c, in the step of the prices   action_values    Q of the Lagrangian (estimated)
    slater           phi, in the bound on prices    rollouts         left to the reader
    kappa            not in the paper

Guarantee
---------
On a known model: the weighted average is within O(log T / sqrt(T)) of the optimum, and so is its violation; we know no
constants. The paper leaves the estimation of Q to the reader, and the sample complexity in the table of algorithms
counts iterations only: from samples nothing is proved.

Departures
----------
* The paper minimises costs below bounds; rewards and margins are their negatives, shifted.
* The set of prices has the radius 2 / phi, which is enough for constraints tightened by at most phi / 2; the paper asks
  for any bound above the optimal prices.
* The estimator of Q is that of NPG-PD; c = 1, `rollouts` = 1 and the number of walks from the start are ours.

Practical preset
----------------
`PDSC.practical()`: c = 10 for the policy and 1 for the prices; a baseline in the signal (see
`inbounds.algorithms.rollouts`); kappa = 0.3 / sqrt(T) with T the expected number of iterations, at most half the Slater
constant; averages that start anew half way, because step-size weights keep the bad policies of the beginning. No
theorem covers it. Decreasing steps weigh the noise of the first walks most: NPG-PD's constant ones do better from
samples. The learner is in a frame that tests its policy and mixes it with a safe one (`inbounds.algorithms.frame`);
``repair=False`` is the method alone. What limits it, as NPG-PD: only T (1 - gamma) / n iterations with T samples.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Prepared
from inbounds.algorithms.rollouts import Resolved, WalkSettings, resolve, resolve_known, walk_algorithm
from inbounds.algorithms.settings import guarantee_unless
from inbounds.problem.cmdp import CMDP
from inbounds.problem.simulator import Simulator


@dataclass(frozen=True, repr=False)
class PDSC(WalkSettings):
    """Settings of PDSC. See the module for the algorithm, and for what is known of the paper's own settings.

    Parameters
    ----------
    policy_step, price_step : float
        The step of policy and prices in iteration m is this over sqrt(m).

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> run = ib.iterate(queue, ib.PDSC(), iterations=2_000)
    >>> ib.evaluate(queue, run.policy).in_bounds
    True
    >>> run = ib.learn(queue.simulator(), ib.PDSC.practical(slater=0.2), samples=500_000, seed=0)
    >>> judged = ib.evaluate(queue, run.policy)
    >>> judged.in_bounds, judged.total_reward > 4.45
    (True, True)
    """

    policy_step: float = field(default=1.0, metadata=checks.POSITIVE)
    price_step: float = field(default=1.0, metadata=checks.POSITIVE)

    preset: ClassVar = dict(kappa="shrinking", policy_step=10.0, baseline=True, average="second half", repair=True)


def prepare(settings: PDSC, simulator: Simulator, samples: int, pilot: Any) -> Prepared:
    guarantee = "none: the paper's analysis leaves out the estimation of values from samples"
    return _begin(settings, simulator, resolve(settings, simulator, samples, pilot), guarantee)


def prepare_known(settings: PDSC, model: CMDP, iterations: int) -> Prepared:
    resolved, free = resolve_known(settings, model, iterations), model.n_constraints == 0
    differ = settings.kappa != 0.0 or settings.average != "all" or settings.policy_step != settings.price_step
    right = "" if settings.slater is None or free else ", if the Slater constant is right"
    guarantee = guarantee_unless(
        {"settings that differ from the paper's": differ, **resolved.gaps},
        f"the paper's rate, O(log T / sqrt(T)) for {'the reward' if free else 'reward and violation'}, without "
        f"constants{right}",
    )
    return _begin(settings, model, resolved, guarantee)


def _begin(settings: PDSC, problem: CMDP | Simulator, resolved: Resolved, guarantee: str) -> Prepared:
    shown_steps, patience = (settings.policy_step, settings.price_step), 1.0 - problem.discount
    made = (settings.policy_step * patience, settings.price_step * patience)
    return resolved.prepared(settings, problem, shown_steps, made, True, guarantee)


PDSC.algorithm = walk_algorithm(
    prepare,
    prepare_known,
    name="PDSC",
    paper="Chen, Dong, Wang (2021)",
    output="weighted average of the iterates",
    sample_complexity="1 / ((1-γ)^4 ε^2), Q given",
    constants="from memory",
)
