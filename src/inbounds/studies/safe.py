"""Policies that are known to be safe, which some learners have to be given: chosen, and checked, on the model."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from inbounds.algorithms.algorithm import record_of
from inbounds.criteria.evaluation import evaluate
from inbounds.errors import InvalidInput
from inbounds.exact.feasibility import slater
from inbounds.exact.methods import solve_uncertified
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import Policy

_SHARE = 0.5
"""Of the Slater constant, that `safe_policy` keeps in every bound."""


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
    return solve_uncertified(cmdp.tightened(_SHARE * spare * cmdp.margin_scales)).policy


def takes_safe(settings: Any) -> bool:
    """Whether an algorithm, given as settings or their class, has to be given a policy that is known to be safe."""
    return is_dataclass(settings) and any(each.name == "safe" for each in fields(settings))


def check_on_model(settings: Any, cmdp: CMDP) -> None:
    """Refuse a `safe` policy that is out of bounds, and a slack that it does not have: which bound, and by how much.

    Learners see no model and take the word for it; whoever has one asks (`inbounds.comparing`, the command line).
    """
    if not takes_safe(settings) or settings.safe is None or cmdp.n_constraints == 0:
        return  # the last two are refused by the learner
    found, name = evaluate(cmdp, settings.safe), record_of(settings).name
    scaled = found.margins / cmdp.margin_scales
    worst = int(np.argmin(scaled))
    if not found.in_bounds:
        raise InvalidInput(
            f"{name}: safe= is not safe: it misses the bound of {cmdp.constraints[worst].name!r} by "
            f"{-found.margins[worst]:.6g}"
        )
    if settings.slack is not None and settings.slack > scaled[worst] * (1.0 + 1e-9):
        raise InvalidInput(
            f"{name}: slack must be at most what safe= keeps of every bound, {scaled[worst]:.6g} in scaled units, "
            f"found {settings.slack!r}"
        )
