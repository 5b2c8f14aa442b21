"""Policies that are known to be safe, which some learners have to be given: chosen, and checked, on the model."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from inbounds.criteria.evaluation import evaluate
from inbounds.errors import InvalidInput
from inbounds.exact.feasibility import slater
from inbounds.exact.methods import solve_uncertified
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import Policy, for_problem

SHARE = 0.5
"""Of the Slater constant, that `safe_policy` keeps in every bound."""

IN_WORDS = "the best policy that keeps every scaled margin at half the Slater constant, or more"


def safe_policy(cmdp: CMDP) -> Policy:
    """The optimum with every scaled margin tightened by half the scaled Slater constant: safe, and not the best.

    Without constraints the optimum itself. Refused where no policy has anything to spare.

    Examples
    --------
    >>> import inbounds as ib
    >>> media = ib.zoo.media()
    >>> found = ib.evaluate(media, safe_policy(media))
    >>> round(ib.solve(media).reward - found.reward, 3), found.margins.round(3)  # it may spend 5, and spends 2.5
    (1.36, array([2.5]))
    """
    if cmdp.n_constraints == 0:
        return solve_uncertified(cmdp).policy
    spare = slater(cmdp, scaled=True).value
    if spare <= 0.0:
        raise InvalidInput(
            f"no policy has anything to spare in every bound at once (Slater constant {spare:.3g}), so none is safe: "
            "relax a bound"
        )
    return solve_uncertified(cmdp.tightened(SHARE * spare * cmdp.margin_scales)).policy


def takes_safe(settings: Any) -> bool:
    """Whether an algorithm, given as settings or their class, has to be given a policy that is known to be safe."""
    return any(each.name == "safe" for each in fields(settings))


def require_safe(cmdp: CMDP, settings: Any) -> None:
    """Refuse settings whose ``safe=`` is of another problem, or out of bounds: which bound, and by how much."""
    if not takes_safe(settings) or settings.safe is None:
        return
    policy = for_problem(cmdp, settings.safe)
    judged = evaluate(cmdp, policy)
    if not judged.in_bounds:
        worst = int(np.argmin(judged.margins / cmdp.margin_scales))
        raise InvalidInput(
            f"safe= must be in bounds, and it misses that of {cmdp.constraints[worst].name!r} by "
            f"{-judged.margins[worst]:.6g}: give a policy that keeps every bound"
        )
