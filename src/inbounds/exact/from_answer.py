"""The vertex that small changes of an earlier answer lead to: where a warm start begins, and as a rule ends.

The base of the earlier vertex is evaluated on the problem at hand. Then, round by round, the linear program of small
changes (`inbounds.exact.nearby`) says what is best near the prices at hand, and that is the next base. While many
places change in a round, a base is evaluated roughly, from the vectors of the one before, and the first from those that
proved the earlier answer: a round costs a fraction of an unconstrained solve.

Once few places change, the corner of that program is the basis from which the dual simplex method goes on, as in
`inbounds.exact.vertex`. The program knows to first order only how long a changed policy is where, so next to a coin the
basis may be no policy yet. Then the method exchanges one place after the other, and could do so a hundred times. After
a few of them the program of small changes of the base where they ended sees what they have in common, and is quicker.

Nothing is proved by the way here: the vertex is judged by the upper bound at its own prices.
"""

from __future__ import annotations

import numpy as np

from inbounds.exact.bases import Base
from inbounds.exact.limits import Limits
from inbounds.exact.start import Start
from inbounds.exact.vertex import Corner, Corners

_ROUNDS = 20
"""At most. From 1 % away 2 to 11 lead there, from other rewards 8 to 15."""

_FEW, _STILL = 8, 1e-5
"""Places that change in a round, or how far prices move in it, from which on the vertex is near: the corner of the
program is looked for, and bases are evaluated as accurately as can be."""

_ROUGH = 1e-5
"""How accurately bases are evaluated before that, relative to the largest reward or margin."""

_GOOD = 0.1
"""The share of the gap allowed at which a vertex is good enough."""

_PIVOTS = 6
"""Of the dual simplex method in one round: half of them exchange a place, which costs two vectors."""

_HOPE, _FAR = 6, 0.1
"""From this round on the end is near, and no more than this share of the places changes; or the start is too far."""

_WIDTH, _LEAST_WIDTH = 1e-2, 1e-3
"""How far prices may move in the first round, relative and at least; they may move further where they want to."""

_WIDEN = 3.0
"""How far they may move in the next, relative to how far they moved."""


def corner_from(corners: Corners, start: Start, tolerance: float, limits: Limits) -> Corner | None:
    """The best vertex of a problem, from the answer to a similar one; None where small changes do not lead to it."""
    criterion, units, nowhere = corners.criterion, corners.units, np.zeros(corners.size)
    prices = start.prices * corners.scales / units.spread
    scales = np.append(units.spread, corners.scales)[:, None]
    vectors = None if start.vectors is None else start.vectors / scales
    base: Base | None = corners.evaluate_first(criterion.largest(start.taken), None, _ROUGH, vectors)
    widths = np.maximum(_WIDTH * prices, _LEAST_WIDTH)
    best: Corner | None = None
    for turn in range(_ROUNDS):
        if base is None or limits.over:
            break
        chosen, switched, new, widths = corners.likely(base, prices, widths)
        if turn >= _HOPE and switched > _FAR * criterion.n_places:
            break
        near = switched <= _FEW or float(np.abs(new - prices).max(initial=0.0)) <= _STILL
        columns: list[int] = []
        if near:
            step = corners.changed(base, prices, widths)
            if step is None:
                break
            chosen, columns, new, widths = step
        moved, prices = float(np.abs(new - prices).max(initial=0.0)), new
        widths = np.maximum(_WIDEN * moved, np.maximum(1e-6 * prices, 1e-7))
        if base.rough or not np.array_equal(chosen, base.chosen):
            base = corners.evaluate(chosen, base, 0.0 if near else _ROUGH)
        if base is None or not near:
            continue
        met = corners.pivoted(base, columns, prices, nowhere, _PIVOTS, limits)
        base = met.base
        if met.vertex is None or not corners.one_class(base, met.vertex):
            continue
        prices = met.vertex.prices
        corner = corners.judged(base, met.vertex, tolerance, limits)
        if best is None or corner.gap < best.gap:
            best = corner
        if corner.gap <= _GOOD * corner.allowed or corner.better is None:
            break
        base = corners.evaluate_found(corner.better, base)
    return corners.best_where_rare(best, tolerance, limits) if best is not None and best.gap <= best.allowed else None
