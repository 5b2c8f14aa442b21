"""The vectors that a proof consists of, and the places at which its bounds look.

They need not be right: poor ones prove less, but nothing false.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.criteria import criterion_of
from inbounds.criteria.contract import DENSE_STATES, Followed
from inbounds.errors import InvalidInput
from inbounds.inputs import float_array
from inbounds.numerics.classes import graph_of, moves_from
from inbounds.numerics.rows import Chain
from inbounds.problem.cmdp import CMDP
from inbounds.proofs.progress import Count
from inbounds.proofs.rounding import signals_of

_NEVER = 1e-15
"""A time per place so short may be none at all."""


def checked(cmdp: CMDP, prices: Any, value_function: Any) -> tuple[Floats, Floats]:
    """Prices [K] and a vector over places [M], from outside."""
    checked = float_array(prices, "prices")
    if checked.shape != (cmdp.n_constraints,) or not np.all(np.isfinite(checked) & (checked >= 0.0)):
        raise InvalidInput(f"prices must be {cmdp.n_constraints} finite numbers >= 0, found {prices}")
    values, n_places = float_array(value_function, "value_function").ravel(), criterion_of(cmdp).n_places
    if values.shape != (n_places,):
        raise InvalidInput(f"value_function must have {n_places} entries, found {values.size}")
    return freeze(checked.copy()), settled(cmdp, values[None, :])[0]


def vectors_of(cmdp: CMDP, followed: Followed, reached: Any, start: Floats | None, count: Count) -> Floats:
    """Vectors over places [1 + K, M], those of `start` improved, that prove the values of a policy: see C1 above."""
    criterion, signals = criterion_of(cmdp), signals_of(cmdp)
    kept = reached if not criterion.mass_row or np.all(followed.time > _NEVER) else _stays(cmdp, followed)
    paid = signals if np.all(kept) else np.where(kept[criterion.places], signals, 0.0)
    vectors = np.empty((len(signals), criterion.n_places))
    # One at a time, and told, where one takes long; unless they share a factorisation that is not kept.
    step = len(signals) if criterion.mass_row or criterion.n_places <= DENSE_STATES else 1
    for j in range(0, len(signals), step):
        begin = None if start is None else start[j : j + step]
        vectors[j : j + step] = criterion.proof_vectors(followed, paid[j : j + step], begin)
        count.add(step)
    if criterion.mass_row and not np.all(kept):  # lowered by the time that it takes to get there
        away = np.where(kept[criterion.places], 0.0, 1.0)
        longer = criterion.proof_vectors(followed, away[None, :])[0]
        longer = longer - longer[kept].max()
        sizes = np.abs(signals).max(axis=1, initial=0.0)
        vectors = np.where(kept, vectors, vectors - 2.0 * sizes[:, None] * longer)
    return settled(cmdp, vectors)


def followed_by(cmdp: CMDP, followed: Followed) -> tuple[Followed, Any]:
    """A policy to compute vectors from, the same where the one that is followed comes; and those places, bool [M].

    An average of a policy that would stay elsewhere, if it ever came there, has vectors as one that walks from there.
    """
    reached, criterion = reached_by(cmdp, followed), criterion_of(cmdp)
    if followed.elsewhere:
        return criterion.follow(criterion.fill_in(followed.taken, reached, criterion.largest(followed.taken))), reached
    return followed, reached


def visited_part(cmdp: CMDP, taken: Floats, reached: Any) -> Floats:
    """A policy [N], and zeros at the places that it never comes to: there the bounds of C1 do not look."""
    return taken if np.all(reached) else np.where(reached[criterion_of(cmdp).places], taken, 0.0)


def reached_by(cmdp: CMDP, followed: Followed) -> Any:
    """The places that a policy can come to, bool [M]; maybe more of them, which proves less and nothing false."""
    criterion = criterion_of(cmdp)
    if np.all(followed.time > _NEVER):
        return np.ones(criterion.n_places, dtype=bool)
    now = cmdp.initial > 0.0
    if not criterion.shifts:
        return _led_to(cmdp, followed.taken, now)
    reached = []
    for layer in criterion.layers:
        reached.append(now)
        moves = layer.transition[now[cmdp.pairs.states] & (followed.taken[layer.entries] > 0.0)]
        now = np.bincount(moves.indices, minlength=cmdp.n_states) > 0
    return np.concatenate(reached)


def _stays(cmdp: CMDP, followed: Followed) -> Any:
    """The states in which a policy comes to stay, bool [S]."""
    return _led_to(cmdp, followed.taken, np.arange(cmdp.n_states) == int(np.argmax(followed.time)))


def _led_to(cmdp: CMDP, taken: Floats, begin: Any) -> Any:
    """The states that a policy [n] may come to from some states `begin`, bool [S]."""
    used = np.flatnonzero(taken > 0.0)
    moves = criterion_of(cmdp).layers[0].transition[used]
    per_state = np.bincount(cmdp.pairs.states[used], np.diff(moves.indptr), cmdp.n_states).astype(moves.indptr.dtype)
    starts = np.append(0, np.cumsum(per_state)).astype(moves.indptr.dtype)
    return moves_from(graph_of(Chain(starts, moves.indices, moves.data)), begin) >= 0


def settled(cmdp: CMDP, vectors: Floats) -> Floats:
    """Vectors over places [J, M] as they will be stored: discounted ones centred; zeros where one is not finite."""
    criterion = criterion_of(cmdp)
    if criterion.own > 0.0:  # a constant changes nothing, and takes no digits
        with np.errstate(all="ignore"):
            vectors = vectors - np.sum(criterion.initial * vectors, axis=1, keepdims=True)
    return freeze(np.where(np.all(np.isfinite(vectors), axis=1, keepdims=True), vectors, 0.0))
