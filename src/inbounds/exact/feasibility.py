"""Is there a policy in bounds, with how much to spare, and if not, why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.criteria import criterion_of
from inbounds.criteria.evaluation import values_of
from inbounds.errors import Diagnosis, Infeasible
from inbounds.exact.bundle import slater_bundle
from inbounds.exact.lp import slater_lp
from inbounds.exact.mixture import Mixture, flat_margins
from inbounds.exact.solution import policy_of
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import Policy

INFEASIBLE = 1e-10
"""How far below zero, relative to the priced margins, the best joint margin must be for a problem to be infeasible."""

PROGRAM_ENTRIES = 240
"""Up to this many columns the linear program is faster than the bundle, certificate included: it wins by a factor of
ten at 100, of two at 200, and loses from about 240 to 320 on."""


@dataclass(frozen=True, eq=False, repr=False)
class Slater:
    """The largest margin that some policy keeps in every constraint at once; values as the criterion has them.

    Attributes
    ----------
    value : float
        That margin, of `policy`, evaluated on the model (the Slater constant); infinite without constraints.
    policy : Policy
        A policy that keeps it.
    upper_bound : float
        No policy keeps more; proved by `prices` and `value_function`.
    prices : array [K]
        Weights >= 0 that sum to 1 over the (scaled) margins.
    value_function : array [S], or [H, S]
        The best value, from each state, of the margins combined with `prices`; less a constant where discounts are so
        close to 1 that it would cost the proof its digits.
    """

    value: float
    policy: Policy
    upper_bound: float
    prices: Floats
    value_function: Floats

    def proves_infeasible(self, margin_scales: Floats) -> bool:
        """Whether no policy is in bounds, beyond what rounding explains."""
        return self.upper_bound < -INFEASIBLE * float(self.prices @ margin_scales)

    def __repr__(self) -> str:
        return f"Slater({self.value:.10g})"


def slater(cmdp: CMDP, *, scaled: bool = False, tolerance: float = 1e-10) -> Slater:
    """The Slater constant of a problem: the largest margin that some policy keeps in every constraint at once.

    Negative when no policy is in bounds (Slater's condition fails). In the user's units: discounted averages per step,
    normalised by (1 - discount), sums over a finite horizon, or long-run averages. With ``scaled=True`` every margin is
    first divided by the largest that it can be, which is the paper's phi and what `CSPDA` takes. With a `tolerance` of,
    say, 0.3 the policy is found faster, and its margin may be smaller by that share than the largest.

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
    places = (*cmdp.shape[:-1], cmdp.n_states)
    if cmdp.n_constraints == 0:
        none = freeze(np.empty(0))
        return Slater(np.inf, Policy.uniform(cmdp), np.inf, none, freeze(np.zeros(places)))
    criterion, margins, scales = criterion_of(cmdp), flat_margins(cmdp), cmdp.margin_scales
    units = scales if scaled else np.ones(cmdp.n_constraints)
    found = _safest(cmdp, units, tolerance)
    combined = np.einsum("k,kn->n", found.prices / units, margins)
    proof = criterion.sharpened(combined, found.value_function)
    spent, _ = criterion.linked(found.occupancy, lambda: found.occupancy, tolerance, margins / scales[:, None])
    asked = cmdp.asking(reward=combined.reshape(cmdp.shape), constraints=())
    taken = policy_of(asked, spent, np.empty(0), found.value_function)
    judged = values_of(cmdp, criterion.time_at_entries(criterion.follow(taken)))
    return Slater(
        value=float(np.min(np.minimum(judged["margins"], scales) / units)),  # no margin is larger, but by rounding
        policy=Policy(cmdp.pairs, taken.reshape(cmdp.shape)),
        upper_bound=criterion.upper_bound(combined, proof),
        prices=freeze(found.prices),
        value_function=freeze(proof.reshape(places)),
    )


def _safest(cmdp: CMDP, units: Floats, tolerance: float) -> Mixture:
    found = slater_lp(cmdp, units) if cmdp.reward.size <= PROGRAM_ENTRIES else None
    if found is None:
        found = slater_bundle(criterion_of(cmdp), flat_margins(cmdp), cmdp.margin_scales, units, tolerance)
    return found


def spare_occupancy(problem: CMDP, found: Mixture) -> Floats | None:
    """An occupancy [N] with a margin to spare in every constraint: what the solver came by, or the safest there is.

    None when no policy is known to have one.
    """
    if found.spare is not None or problem.n_constraints == 0:
        return found.spare
    safest = _safest(problem, problem.margin_scales, 1e-10)
    return safest.occupancy if safest.upper_bound > 0.0 else None


def infeasible(problem: CMDP, proof: Slater, attempt: Callable[[CMDP], Mixture | Slater]) -> Infeasible:
    """The exception for a problem without a policy in bounds.

    `attempt` solves a problem: it returns a mixture, or a proof that there is none. Each constraint is asked twice,
    with its margin in the place of the reward: what is the best alone, and what is the best that the others allow? When
    the latter is negative, that is how far the bound has to be relaxed.
    """
    names = tuple(constraint.name for constraint in problem.constraints)
    bounds = np.array([constraint.bound for constraint in problem.constraints])
    alone, relaxed = np.empty(len(names)), np.full(len(names), np.nan)
    for k, constraint in enumerate(problem.constraints):
        others = problem.constraints[:k] + problem.constraints[k + 1 :]
        margin, outward = problem.margins[k], constraint.outward
        free = attempt(problem.asking(reward=margin, constraints=()))
        assert isinstance(free, Mixture)
        alone[k] = bounds[k] + outward * free.value(margin)
        best = attempt(problem.asking(reward=margin, constraints=others))
        if isinstance(best, Mixture):
            relaxed[k] = bounds[k] + outward * min(best.value(margin), 0.0)
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
