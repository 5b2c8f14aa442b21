"""The saddle point that CSPDA seeks, on a known model: what the averages of a run are worth there.

With the letters of `cspda` and its sets U and V, the paper's game is

    max over lam, min over u in U and v in V of
    L = <lam, r> + sum_i u_i (<lam, g_i> - kappa) + <flow(lam), v>,    flow(lam) = (1 - gamma) rho - (I - gamma P)^T lam

A learner cannot compute any of this: <lam, r>, the flow and the best occupancy need the model, so they are the judge's.
Let lam, u, v be averages, and lam* a best occupancy of the problem tightened by kappa. The paper's duality gap is

    L(lam*, u, v) - min over U and V of L(lam, ., .)
      = <lam*, r> + sum_i u_i (<lam*, g_i> - kappa)
        - <lam, r> + 4 / phi max_i [kappa - <lam, g_i>]_+ + 2 (1 + 2 / phi) / (1 - gamma) |flow(lam)|_1

where the minimum is in closed form because L is linear in u and v. The average v does not enter: lam* has no flow left
to be priced. The gap is never negative, and 0 at a saddle point, if the best prices of the tightened problem are in U;
they are when kappa <= phi / 2 (Lemma 1 of the paper).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from inbounds.algorithms.algorithm import Run
from inbounds.algorithms.cspda import price_radius, value_radius
from inbounds.arrays import Floats, freeze
from inbounds.errors import Infeasible, InvalidInput
from inbounds.exact.methods import solve_uncertified
from inbounds.problem.cmdp import CMDP
from inbounds.problem.criterion import require_criterion
from inbounds.problem.simulator import Scaling


@dataclass(frozen=True, eq=False)
class JudgedAverages:
    """What the averages of a run are worth on the model, at each checkpoint; nan where there were none yet.

    Values are discounted averages per step, normalised by (1 - discount), in the user's units.

    Attributes
    ----------
    reward : array [C]
        <occupancy, reward>: the plug-in value, the learner's own estimate. NOT the value of the policy, because the
        average is no occupancy measure of any policy while `flow_residual` is not 0; that is ``ib.evaluate``'s.
    margins : array [C, K]
        <occupancy, margin>, of the same kind.
    flow_residual : array [C]
        The l1 norm of what the average occupancy violates the flow equations by. No unit: an occupancy sums to 1.
    duality_gap : array [C], or None
        The CSPDA paper's, with the prices of the run and its `slater` and `kappa`, in units of reward. None for runs
        without prices or a Slater constant; nan if no policy keeps the bounds tightened by `kappa`.
    """

    reward: Floats
    margins: Floats
    flow_residual: Floats
    duality_gap: Floats | None


def judge_averages(run: Run, cmdp: CMDP) -> JudgedAverages:
    """What the averages of a run (``run.averages_at``) are worth on the model it was about. Discounted problems only.

    The plug-in values of the average occupancy (occupancy measure), how far it is from one, and the duality gap of the
    averages as a point of the paper's Lagrangian, with the prices as its multipliers. Values are normalised by
    (1 - discount).

    Parameters
    ----------
    run : Run
        Of an algorithm that averages occupancies, such as ``ib.CSPDA``.
    cmdp : CMDP
        The model.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> run = ib.learn(queue.simulator(), ib.CSPDA(slater=0.2), samples=100_000, seed=0, checkpoints=[1_000])
    >>> judged = ib.judge_averages(run, queue)
    >>> bool(judged.flow_residual[1] < judged.flow_residual[0]), bool(judged.duality_gap.min() >= 0.0)
    (True, True)
    """
    if not isinstance(cmdp, CMDP):
        raise InvalidInput(f"judge_averages takes a known model, a CMDP; found {type(cmdp).__name__}")
    require_criterion(cmdp, "discounted", "judge_averages")
    if not isinstance(run, Run):
        raise InvalidInput(f"the run must be one of ib.learn or ib.iterate, found {type(run).__name__}")
    found = [averages.occupancy for averages in run.averages_at]
    if found[-1] is None:
        raise InvalidInput("this run has no average occupancy to judge; its algorithm keeps none")
    if found[-1].shape != (cmdp.n_pairs,):
        raise InvalidInput(f"the run was about {len(found[-1]):,} pairs, and this model has {cmdp.n_pairs:,}")
    occupancies = [np.full(cmdp.n_pairs, np.nan) if occupancy is None else occupancy for occupancy in found]
    residuals = [float(np.abs(flow(cmdp, occupancy)).sum()) for occupancy in occupancies]
    return JudgedAverages(
        reward=freeze(np.array([occupancy @ cmdp.reward for occupancy in occupancies])),
        margins=freeze(np.array([cmdp.margins @ occupancy for occupancy in occupancies])),
        flow_residual=freeze(np.array(residuals)),
        duality_gap=_duality_gaps(run, cmdp),
    )


def flow(cmdp: CMDP, occupancy: Floats) -> Floats:
    """(1 - gamma) rho - (I - gamma P)^T occupancy, [S]: 0 for the occupancy measures of policies, and only for them."""
    leaving = np.bincount(cmdp.pairs.states, occupancy, cmdp.n_states)
    return (1.0 - cmdp.discount) * cmdp.initial + cmdp.discount * (cmdp.transition.T @ occupancy) - leaving


class Game(NamedTuple):
    """The paper's game on a model."""

    cmdp: CMDP
    scaling: Scaling  # into the units of `slater` and `kappa`
    slater: float
    kappa: float
    best: Floats  # [n]: a best occupancy of the tightened problem


def game_on(cmdp: CMDP, scaling: Scaling, slater: float, kappa: float) -> Game:
    """The game, with the tightened problem solved; raises `Infeasible` if no policy keeps its bounds."""
    best = solve_uncertified(cmdp.tightened(kappa * scaling.margin_scales)).occupancy
    return Game(cmdp, scaling, slater, kappa, best)


def duality_gap(game: Game, occupancy: Floats, prices: Floats) -> float:
    """The module's, of an occupancy [n] that sums to 1 and prices [K]; in the user's units of reward."""
    cmdp, scales = game.cmdp, game.scaling.margin_scales
    priced = prices @ (cmdp.margins @ game.best - game.kappa * scales)
    worst_margin = np.max(game.kappa - cmdp.margins @ occupancy / scales, initial=0.0)
    residual = np.abs(flow(cmdp, occupancy)).sum()
    # In scaled units the worst u and v cost this; the rest is linear in the units of reward.
    penalty = price_radius(game.slater) * worst_margin + value_radius(game.slater, cmdp.discount) * residual
    return float(cmdp.reward @ (game.best - occupancy) + priced + game.scaling.reward_span * penalty)


def _duality_gaps(run: Run, cmdp: CMDP) -> Floats | None:
    """At each checkpoint, [C]; None unless the run has what they depend on."""
    slater, kappa = run.settings.get("slater"), run.settings.get("kappa", 0.0)
    if cmdp.n_constraints == 0 and slater is None:
        slater = 1.0  # no price to be bounded
    if run.averages.prices is None or not isinstance(slater, float) or not isinstance(kappa, float):
        return None
    try:
        game = game_on(cmdp, run.scaling, slater, kappa)
    except Infeasible:
        return freeze(np.full(len(run.averages_at), np.nan))
    found = [
        np.nan if one.occupancy is None or one.prices is None else duality_gap(game, one.occupancy, one.prices)
        for one in run.averages_at
    ]
    return freeze(np.array(found))
