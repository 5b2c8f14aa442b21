"""How the classes of an average that do not meet are linked: what a link may be, how well it joins them, and bounds.

`criteria.linking` chooses. An occupancy that is mixed from these is again one, so its policy has the mixed values. The
`goals` are the states of each class, bool [S]; `transition` is CSR [n, S] of all pairs, whose `states` are [n].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from inbounds.arrays import Floats, Ints
from inbounds.numerics.bellman import UNIT
from inbounds.numerics.classes import classes_of, graph_of, walk_to
from inbounds.numerics.rows import Chain, Rows

_ROUND = 20_000
"""States times classes, at most, of which the walk from class to class is worked out."""

_NEVER = 1e-300
"""Of the time, where its inverse would be beyond floats."""

_LIFT = 1e-3
"""Of an occupancy with room, at most, to make up for what a link takes from bounds: with more the link gets thinner."""


_ROOM = 1e-12
"""A margin of a spare occupancy that is no larger may be rounding: of a link nothing would be left beside it."""


def going_round(rows: Rows, transition: Any, backwards: Any, goals: Sequence[Any]) -> Floats | None:
    """The occupancy of a walk from each of the `goals` (bool [S]) to the next, and from the last to the first.

    It remembers where it goes, and so throws no coins on the way. A policy without memory that takes, in every
    state, the actions as often as the walk does has the same occupancy: it is where the walk is, and as often. None
    where there are too many states, or rounding does not let it be found.
    """
    if len(goals) * transition.shape[1] > _ROUND:
        return None
    legs = [walk_to(rows, backwards, goal) for goal in goals]
    blocks: list[list[Any]] = [[None] * len(goals) for _ in goals]
    for i, (leg, goal) in enumerate(zip(legs, goals, strict=True)):
        moves = transition[leg]
        blocks[i][i] = moves @ sp.diags_array(1.0 - goal)
        blocks[i][(i + 1) % len(goals)] = moves @ sp.diags_array(1.0 * goal)
    walk = sp.block_array(blocks, format="csr")
    walk.eliminate_zeros()
    classes = classes_of(graph_of(Chain(walk.indptr, walk.indices, walk.data)))
    there = np.flatnonzero(classes.label == classes.closed_ones[0])
    arriving = walk[there][:, there].T.tocsc()
    visits = np.ones(len(there))  # of each place between two visits of the first
    try:
        others = splu(sp.eye_array(len(there) - 1, format="csc") - arriving[1:, 1:])
    except RuntimeError:  # singular, by rounding
        return None
    visits[1:] = others.solve(arriving[1:, [0]].toarray().ravel())
    if not (np.all(np.isfinite(visits)) and np.all(visits >= 0.0)):
        return None
    spent = np.bincount(np.concatenate(legs)[there], visits, transition.shape[0])
    return np.asarray(spent / spent.sum())


def joined(states: Ints, transition: Any, occupancy: Floats, goals: Sequence[Any]) -> float:
    """How well an occupancy [N] joins the `goals` (bool [S]): about how often it changes between the two rarest.

    With q_ij how often it goes from goal i to goal j with no other goal in between, and i itself being one, that is
    the least singular value but one of diag(sum_j q_ij) - q: its inverse is the size of relative values. To leave a
    goal and come back is no change; only where there are too many states it is counted as one.
    """
    at = np.isin(np.arange(transition.shape[1]), np.flatnonzero(np.any(goals, axis=0)))
    inside = np.stack(goals, axis=1).astype(float)  # [S, goals]
    flows = _by_state(states, occupancy, transition.shape[1]) @ transition  # [S, S]
    if len(goals) * transition.shape[1] > _ROUND:
        return float(np.min(inside.T @ flows.sum(axis=1) - np.sum(inside * (flows @ inside), axis=0)))
    time = np.asarray(flows.sum(axis=1)).ravel()
    between = np.flatnonzero(~at & (time > _NEVER))
    arrived = inside.copy()  # [S, goals], the probability to come to each goal first
    if len(between):
        onward = sp.diags_array(1.0 / time[between]) @ flows[between]
        try:
            solved = splu(sp.csc_array(sp.eye_array(len(between)) - onward[:, between]))
        except RuntimeError:  # singular, by rounding
            return 0.0
        arrived[between] = solved.solve(onward @ inside)
    changes = inside.T @ (flows @ arrived)
    np.fill_diagonal(changes, 0.0)
    if not np.all(np.isfinite(changes)):
        return 0.0
    return float(np.linalg.svd(np.diag(changes.sum(axis=1)) - changes, compute_uv=False)[-2])


def _by_state(states: Ints, weights: Floats, n_states: int) -> Any:
    """What multiplies rows of pairs so that those of each state are summed with `weights` [N]: CSR [S, N]."""
    return sp.csr_array((weights, (states, np.arange(len(states)))), shape=(n_states, len(states)))


def mixtures(
    own: Floats, links: Sequence[Floats], share: float, spares: Callable[[], Sequence[Floats]], margins: Floats
) -> list[Floats]:
    """An occupancy [N] with a `share` of each of the `links`; and of spare ones, where one leads out of bounds."""
    mixed = [(1.0 - share) * own + share * link for link in links]
    before = np.minimum(np.sum(margins * own, axis=1), 0.0)
    if not any(np.any(np.sum(margins * each, axis=1) < before) for each in mixed):
        return mixed
    known = spares()
    nearly = [each for one in mixed if (each := lifted(one, before, known, margins)) is not None]
    return [*nearly, *((1.0 - share) * own + share * thinned(link, known, margins) for link in links)]


def lifted(occupancy: Floats, least: Floats, spares: Sequence[Floats], margins: Floats) -> Floats | None:
    """An occupancy [N] whose `margins` [K, N] are at `least` [K], by a little of the first spare one that will do.

    Itself where it is in bounds, and None where no spare one will do.
    """
    short = least - np.sum(margins * occupancy, axis=1)
    if np.all(short <= 0.0):
        return occupancy
    for spare in spares:
        room = np.sum(margins * spare, axis=1) - least
        if np.any(room[short > 0.0] <= 0.0):
            continue
        weight = float(np.max(short[short > 0.0] / (short + room)[short > 0.0]))
        if weight <= _LIFT and np.all((1.0 - weight) * short <= weight * room + UNIT):
            return (1.0 - weight) * occupancy + weight * spare
    return None


def thinned(link: Floats, spares: Sequence[Floats], margins: Floats) -> Floats:
    """A link that is in bounds itself, by as much of the spare occupancy with the most room as it takes."""
    short = float(np.min(np.sum(margins * link, axis=1), initial=0.0))
    room = float(np.min(np.sum(margins * spares[-1], axis=1))) if spares else 0.0
    return (room * link - short * spares[-1]) / (room - short) if short < 0.0 and room > _ROOM else link
