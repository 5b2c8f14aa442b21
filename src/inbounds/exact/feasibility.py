"""Is there a policy in bounds, with how much to spare, and if not, why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np

from inbounds.arrays import freeze
from inbounds.errors import Diagnosis, Infeasible, InvalidInput
from inbounds.exact.bellman import Solver
from inbounds.exact.bundle import slater_bundle
from inbounds.exact.episodic import EpisodicSlater, slater_episodic
from inbounds.exact.solution import INFEASIBLE, JointMargin, greedy, upper_bound
from inbounds.problem.cmdp import CMDP
from inbounds.problem.episodic import EpisodicCMDP
from inbounds.problem.policy import Policy, evaluate


@dataclass(frozen=True, eq=False, repr=False)
class Slater(JointMargin):
    """The largest margin that some policy keeps in every constraint at once; values are normalised by (1 - discount).

    Attributes
    ----------
    value : float
        That margin, of `policy`, evaluated on the model; infinite without constraints.
    policy : Policy
        A policy that keeps it.
    upper_bound : float
        No policy keeps more; proved by `prices` and `value_function`.
    prices : array [K]
        Weights >= 0 that sum to 1 over the (scaled) margins.
    value_function : array [S]
        The best value, from each state, of the margins combined with `prices`.
    """

    policy: Policy


@overload
def slater(problem: CMDP, *, scaled: bool = False, tolerance: float = 1e-10) -> Slater: ...
@overload
def slater(problem: EpisodicCMDP, *, scaled: bool = False, tolerance: float = 1e-10) -> EpisodicSlater: ...
def slater(problem: CMDP | EpisodicCMDP, *, scaled: bool = False, tolerance: float = 1e-10) -> Slater | EpisodicSlater:
    """The Slater constant of a problem: the largest margin that some policy keeps in every constraint at once.

    Negative when no policy is in bounds. In the user's units, normalised by (1 - discount); for a finite horizon
    margins are SUMS over it. With ``scaled=True`` every margin is first divided by its largest absolute value, which
    is the paper's phi and what `CSPDA` takes. With a `tolerance` of, say, 0.3 the policy is found faster, and its
    margin may be smaller by that share than the largest.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> round(ib.slater(queue).value, 9), round(ib.slater(queue, scaled=True).value, 9)
    (0.48, 0.2)

    No policy of the three-cycle has to move, so it can spend nothing of the 3 moves it may spend:

    >>> round(ib.slater(ib.zoo.three_cycle()).value, 9)
    3.0
    """
    if isinstance(problem, EpisodicCMDP):
        if scaled:
            raise InvalidInput("scaled=True is for discounted problems: it gives what CSPDA takes")
        return slater_episodic(problem, tolerance)
    if problem.n_constraints == 0:
        none = freeze(np.empty(0))
        return Slater(np.inf, Policy.uniform(problem), np.inf, none, freeze(np.zeros(problem.n_states)))
    units = problem.margin_scales if scaled else np.ones(problem.n_constraints)
    found = slater_bundle(Solver(problem), problem.margins, problem.margin_scales, units, tolerance)
    combined = (found.prices / units) @ problem.margins
    policy = Policy.from_occupancy(problem, found.occupancy, otherwise=greedy(problem, combined, found.value_function))
    return Slater(
        value=float(np.min(evaluate(problem, policy).margins / units)),
        policy=policy,
        upper_bound=upper_bound(problem, combined, found.value_function),
        prices=freeze(found.prices),
        value_function=freeze(found.value_function),
    )


def infeasible(problem: Any, proof: JointMargin, attempt: Callable[[Any], Any]) -> Infeasible:
    """The exception for a problem without a policy in bounds.

    `attempt` solves a problem of the same kind: it returns a solution, or a proof that there is none. Each constraint
    is asked twice, with its margin in the place of the reward: what is the best alone, and what is the best that the
    others allow? When the latter is negative, that is how far the bound has to be relaxed.
    """
    names = tuple(constraint.name for constraint in problem.constraints)
    bounds = np.array([constraint.bound for constraint in problem.constraints])
    alone, relaxed = np.empty(len(names)), np.full(len(names), np.nan)
    for k, constraint in enumerate(problem.constraints):
        others = problem.constraints[:k] + problem.constraints[k + 1 :]
        outward = 1.0 if constraint.at_least is not None else -1.0
        alone[k] = bounds[k] + outward * attempt(replace(problem, reward=problem.margins[k], constraints=())).reward
        best = attempt(replace(problem, reward=problem.margins[k], constraints=others))
        if not isinstance(best, JointMargin):
            relaxed[k] = bounds[k] + outward * min(best.reward, 0.0)
    for values in (alone, relaxed):  # zero is easier to read than what rounding leaves of it
        values[np.abs(values) <= 1e-12 * problem.margin_scales] = 0.0
    reach = np.array([c.margin(value) for c, value in zip(problem.constraints, alone, strict=True)])
    hopeless = reach < -INFEASIBLE * problem.margin_scales
    weights = proof.prices * problem.margin_scales  # what counts is the share of the proof, whatever the units
    conflicting = hopeless if np.any(hopeless) else weights > 1e-9 * weights.sum()
    return Infeasible(
        slater=proof.value,
        prices=proof.prices,
        value_function=proof.value_function,
        diagnosis=Diagnosis(
            names=names,
            at_least=tuple(constraint.at_least is not None for constraint in problem.constraints),
            bounds=freeze(bounds),
            best_alone=freeze(alone),
            relaxed_bounds=freeze(relaxed),
            conflict=tuple(name for name, involved in zip(names, conflicting, strict=True) if involved),
            each_alone=bool(np.any(hopeless)),
        ),
    )
