"""What a policy does where it hardly ever comes: the best at the prices, as where it never comes.

Values, gaps and proofs feel what is done at a place by the time t that a policy is there. An action that loses l in a
step changes the reward with priced margins by t l, and no margin by more than t times the range of its values: of a
place that is reached with probability 1e-15 neither a solver nor a proof can tell a good action from a bad one. But
who begins there can, and who reads the policy. So there the priced values decide, not the solver.

A coin of a vertex stays where it is, be it as rare as it likes: at the prices it loses nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.criteria import criterion_of
from inbounds.criteria.contract import Criterion
from inbounds.exact.optimum import Optimum, flat_margins
from inbounds.problem.cmdp import CMDP

RARE = 1e-11
"""What may be changed in all without another look at the margins, relative to the largest: a tenth of what counts as
none to spare, and a thousandth of the gap that is asked for as a rule."""

_TIED, _ROUNDED = 1e-9, 1e-12
"""What an action must lose in a step to be worse than another, relative to the largest reward with priced margins, and
to the range of the values: less may be rounding."""

_FINELY = 1e-12
"""How finely, relative to the largest reward with priced margins."""


def best_instead(criterion: Criterion, priced: Floats, values: Floats, chosen: Ints) -> Ints:
    """The entries `chosen` [M], and in the place of those that lose, the best for `priced` [N], of `values` [M]."""
    backup = criterion.backup(priced, values)
    best = criterion.largest(backup)
    return np.where(backup[best] - backup[chosen] > _told(criterion, priced, values), best, chosen)


def hardly_ever(criterion: Criterion, time: Any) -> Any:
    """Where so little `time` [M] is spent that no value of a policy feels what it does there, bool [M]."""
    order = np.argsort(time, kind="stable")
    rare = np.zeros(len(time), dtype=bool)
    rare[order] = 2.0 * np.cumsum(np.maximum(time[order], 0.0)) <= RARE * criterion.unit
    return rare


def with_best_values(problem: CMDP, found: Optimum) -> tuple[Floats, Optimum]:
    """The reward and the margins at the prices of a mixture [N]; and the mixture with their values, right everywhere.

    The duals of a linear program are large enough where it never comes, and no more: there they are worked out.
    """
    criterion, values = criterion_of(problem), found.value_function
    priced = problem.reward.ravel() + np.einsum("k,kn->n", found.prices, flat_margins(problem))
    chosen = criterion.greedy(priced, values)
    off = (criterion.backup(priced, values)[chosen] - values)[criterion.reached]
    if np.ptp(off) <= _told(criterion, priced, values):
        return priced, found
    best = criterion.solve(priced, _FINELY * float(np.abs(priced).max()), criterion.expect(priced, chosen, values))
    return priced, found._replace(value_function=best.value_function, upper_bound=best.upper)


def without_rare_losses(problem: CMDP, given: Optimum) -> Optimum:
    """A mixture without what it spends, hardly ever, at places where it loses: they count as never visited.

    Its value function says what is best there. (Averages, whose classes may hang together by no more, are left.)
    """
    criterion = criterion_of(problem)
    if criterion.mass_row:
        return given
    time = np.bincount(criterion.places, given.occupancy, criterion.n_places)
    taken = given.occupancy / np.where(time > 0.0, time, 1.0)[criterion.places]
    # Of what is next to nothing a solver need not have any digit: what counts is how often its policy is there.
    priced = problem.reward.ravel() + np.einsum("k,kn->n", given.prices, flat_margins(problem))
    taken = criterion.fill_in(taken, time > 0.0, criterion.greedy(priced, given.value_function))
    spent = criterion.follow(taken, time * (len(criterion.layers) / time.sum())).time
    rare = hardly_ever(criterion, spent) & criterion.reached
    if not np.any(rare):
        return given
    priced, found = with_best_values(problem, given)
    values = found.value_function
    backup = criterion.backup(priced, values)
    lost = backup[criterion.largest(backup)][criterion.places] - backup
    losing = rare & (np.bincount(criterion.places, lost * taken) > _told(criterion, priced, values))
    found = found._replace(occupancy=np.where(losing[criterion.places], 0.0, given.occupancy))
    # What is best there may lead to others less often than what was done: they may be rare now.
    return without_rare_losses(problem, found) if np.any(losing & (time > 0.0)) else found


def _told(criterion: Criterion, priced: Floats, values: Floats) -> float:
    """From which loss on an entry is worse than another, in units of backups."""
    return float(_TIED * np.abs(priced).max() * criterion.unit + _ROUNDED * np.ptp(values))
