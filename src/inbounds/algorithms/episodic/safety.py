"""What the learners share that begin with a safe policy: it, its slack, and who may check them.

A learner sees no model, so that it takes the word for it that `safe` is in bounds. Whoever has the model asks `check`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.episodic.doubling import PlanningSettings
from inbounds.algorithms.episodic.frame import frame_of, scaled_slack
from inbounds.criteria.evaluation import evaluate
from inbounds.errors import InvalidInput
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import Policy, for_problem
from inbounds.problem.simulator import Simulator

CAUTIOUS = dict(root=1.0, linear=1.0, share=1.0, average="second half")
"""Of the safe presets: with root = .3 a fifth of the episodes was out of bounds on one problem of six."""


@dataclass(frozen=True, repr=False, kw_only=True)
class SafeSettings(PlanningSettings):
    """Of the learners that begin with a safe policy.

    Parameters
    ----------
    safe : Policy
        A policy known to be in bounds, with something to spare; needed.
    slack : float in (0, 1], optional
        What every margin of `safe` is at least, in scaled units. Default: what its episodes show.
    share : float, optional
        Of what the bonus takes from the margins, that the reward gains. Default: the paper's formula, by the slack.
    """

    safe: Policy | None = field(
        default=None, metadata=checks.check(lambda value: isinstance(value, Policy), "an ib.Policy that is in bounds")
    )
    slack: float | None = field(default=None, metadata=checks.SHARE)
    share: float | None = field(default=None, metadata=checks.NOT_NEGATIVE)


def safety_of(
    settings: Any, simulator: Simulator, samples: int, span: float, share: float, share_by_slack: float
) -> dict[str, Any]:
    """How `doubling` is to start, where the paper has this span of the margins' bonus and these shares.

    Refuses a problem without bounds, and settings without `safe`.
    """
    name, bounds = settings.algorithm.name, simulator.n_constraints
    if bounds == 0:
        raise InvalidInput(f"{name} is for problems with a bound to keep, and this one has none: use another algorithm")
    if settings.safe is None:
        raise InvalidInput(
            f"{name} needs safe=, a policy that is known to be in bounds, such as "
            f"ib.solve(cmdp.tightened(0.1)).policy where the model is known"
        )
    frame, own = frame_of(settings, simulator, samples), for_problem(simulator, settings.safe).probabilities
    return {
        "fixed": np.array([0.0, *np.full(bounds, span)]) if settings.as_published else None,
        "sign": -1.0,
        "safe": np.array(np.broadcast_to(own, (len(frame.weights), own.shape[-1]))),
        "slack": np.full(bounds, np.nan) if settings.slack is None else scaled_slack(settings.slack, simulator, frame),
        "share": share if settings.share is None else float(settings.share),
        "share_by_slack": share_by_slack if settings.share is None else 0.0,
    }


def check(settings: Any, cmdp: CMDP) -> None:
    """Refuse a `safe` policy that is out of bounds, and a slack that it does not have: which bound, and by how much."""
    if settings.safe is None or cmdp.n_constraints == 0:
        return  # refused by the learner
    found, name = evaluate(cmdp, settings.safe), settings.algorithm.name
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
