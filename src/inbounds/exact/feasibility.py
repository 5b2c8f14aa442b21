"""Is there a policy in bounds, with how much to spare, and if not, why not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.errors import Infeasible
from inbounds.exact.bundle import slater_bundle
from inbounds.exact.solution import greedy, upper_bound
from inbounds.model.cmdp import CMDP
from inbounds.model.policy import Policy, evaluate

_TOLERANCE = 1e-10
"""How far below zero, relative to the priced margins, the best joint margin may be before a problem is infeasible."""


@dataclass(frozen=True, eq=False, repr=False)
class Slater:
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

    value: float
    policy: Policy
    upper_bound: float
    prices: Floats
    value_function: Floats

    def __repr__(self) -> str:
        return f"Slater({self.value:.10g})"


def slater(cmdp: CMDP, *, scaled: bool = False) -> Slater:
    """The Slater constant of a problem: the largest margin that some policy keeps in every constraint at once.

    Negative when no policy is in bounds. In the user's units; with ``scaled=True`` every margin is first divided by
    its largest absolute value, which is the paper's phi and what `CSPDA` takes.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> round(ib.slater(queue).value, 9), round(ib.slater(queue, scaled=True).value, 9)
    (0.48, 0.2)
    """
    if cmdp.n_constraints == 0:
        none = freeze(np.empty(0))
        return Slater(np.inf, Policy.uniform(cmdp), np.inf, none, freeze(np.zeros(cmdp.n_states)))
    scales = cmdp.margin_scales if scaled else np.ones(cmdp.n_constraints)
    found = slater_bundle(cmdp, scales)
    combined = (found.prices / scales) @ cmdp.margins
    policy = Policy.from_occupancy(cmdp, found.occupancy, otherwise=greedy(cmdp, combined, found.value_function))
    return Slater(
        value=float(np.min(evaluate(cmdp, policy).margins / scales)),
        policy=policy,
        upper_bound=upper_bound(cmdp, combined, found.value_function),
        prices=freeze(found.prices),
        value_function=freeze(found.value_function),
    )


def require_feasible(cmdp: CMDP) -> None:
    """Raise `Infeasible`, with its proof, when no policy is in bounds."""
    best = slater(cmdp)
    if best.upper_bound >= -_TOLERANCE * float(best.prices @ cmdp.margin_scales):
        return
    weights = best.prices * cmdp.margin_scales  # what counts is the share of the proof, whatever the units
    conflict = tuple(
        constraint.name
        for constraint, weight in zip(cmdp.constraints, weights, strict=True)
        if weight > 1e-9 * weights.sum()
    )
    if len(conflict) == 1:
        reason = (
            f"constraint {conflict[0]!r} cannot be met: the best margin that any policy reaches is {best.value:.6g}"
        )
    else:
        reason = (
            f"constraints {', '.join(map(repr, conflict))} cannot be met together: "
            f"whatever the policy, one of them has a margin of {best.value:.6g} or less"
        )
    raise Infeasible(
        slater=best.value,
        prices=best.prices,
        value_function=best.value_function,
        conflict=conflict,
        diagnosis=f"no policy is in bounds: {reason} (discounted average per step)",
    )
