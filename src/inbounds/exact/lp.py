"""The occupancy linear program, on HiGHS, for every criterion.

    max  <x, reward>   over x >= 0 [N]
    s.t. x E = b (and x sums to 1, for averages)           the flow of the criterion, see `inbounds.criteria.contract`
         <x, margin_k> >= 0                                for every constraint k

Its solutions are occupancies (Altman 1999, chapter 3); the multipliers of the margins are the prices, and those of the
flow rows the value function of the priced reward. It is the reference against which everything faster is checked.

Rewards and margins are scaled to at most 1, and occupancies to an average of about 1, before HiGHS sees them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from inbounds.arrays import Floats
from inbounds.criteria import criterion_of
from inbounds.exact.highs import INFINITE, INTERIOR, SIMPLEX, SMALL, Basis, Columns, minimise
from inbounds.exact.optimum import Optimum, flat_margins
from inbounds.problem.cmdp import CMDP

SIMPLEX_ENTRIES = 400
"""Up to this many columns the simplex method comes first, beyond it interior point with crossover to a vertex: of
garnets the two take the same time at 240 to 500 columns, and the simplex method 2, 4 and 12 times as long at 1,000,
2,000 and 4,000."""


def occupancy_lp(
    problem: CMDP, *, relaxed: float = 0.0, start: Basis | None = None, time_limit: float | None = None
) -> Optimum | None:
    """The program above, in the user's units; None when HiGHS does not report an optimum.

    With `relaxed`, margins may be as low as ``-relaxed * margin_scales``. With `start`, the simplex method begins
    there. TimeoutError when it takes longer than `time_limit` seconds.
    """
    criterion, scales = criterion_of(problem), problem.margin_scales
    reward = problem.reward.ravel()
    reward_scale = float(np.abs(reward).max()) or 1.0
    size = problem.n_states / criterion.unit  # so that the entries of x are about 1
    margins = flat_margins(problem) / scales[:, None]
    columns, right = _columns(problem, margins, size)
    found = minimise(
        columns,
        -reward / reward_scale,
        row_lower=np.concatenate([right, np.full(len(scales), -relaxed * size)]),
        row_upper=np.concatenate([right, np.full(len(scales), INFINITE)]),
        attempts=_attempts(len(reward)) if start is None else SIMPLEX,
        start=start,
        time_limit=time_limit,
    )
    if found is None:
        return None
    x, duals = found
    n_places = criterion.n_places
    prices = np.maximum(duals[len(right) :] * reward_scale / scales, 0.0)
    value_function = -criterion.unit * reward_scale * duals[:n_places]
    priced = reward + np.einsum("k,kn->n", prices, flat_margins(problem))
    return Optimum(
        occupancy=np.maximum(x, 0.0) / size,
        prices=prices,
        value_function=value_function,
        upper_bound=criterion.upper_bound(priced, value_function),
    )


def slater_lp(problem: CMDP, units: Floats) -> Optimum | None:
    """An occupancy whose least margin, each divided by its entry of `units` [K], is largest; as `slater_bundle`.

    It always has an optimum: the unknown least margin, a difference of two columns, can be as low as one likes.
    """
    criterion, n_constraints = criterion_of(problem), problem.n_constraints
    unit = float(np.min(problem.margin_scales / units))
    size = problem.n_states / criterion.unit
    margins = flat_margins(problem) / (units * unit)[:, None]
    columns, right = _columns(problem, margins, size)
    # Two more columns, the least margin and minus the least margin, that touch the rows of the margins alone.
    starts = columns.starts[-1] + n_constraints * np.arange(1, 3)
    both = Columns(
        np.append(columns.starts, starts),
        np.append(columns.rows, np.tile(len(right) + np.arange(n_constraints), 2)),
        np.append(columns.values, np.repeat([-1.0, 1.0], n_constraints)),
    )
    found = minimise(
        both,
        np.append(np.zeros(margins.shape[1]), [-1.0, 1.0]),
        row_lower=np.append(right, np.zeros(n_constraints)),
        row_upper=np.append(right, np.full(n_constraints, INFINITE)),
        attempts=_attempts(margins.shape[1]),
    )
    if found is None:
        return None
    x, duals = found
    prices = np.maximum(duals[len(right) :], 0.0)
    prices /= prices.sum()
    value_function = -criterion.unit * unit * duals[: criterion.n_places]
    combined = np.einsum("k,kn->n", prices / units, flat_margins(problem))
    return Optimum(
        occupancy=np.maximum(x[:-2], 0.0) / size,
        prices=prices,
        value_function=value_function,
        upper_bound=criterion.upper_bound(combined, value_function),
    )


def vertex_near(problem: CMDP, found: Optimum) -> Basis:
    """The basis of the vertex that a nearly optimal mixture points at.

    At every place the greedy entry at the prices; for every constraint that binds, the other entry that loses least by
    being taken; for every other constraint, its slack. From there the simplex method has a few steps to go.
    """
    criterion, reward = criterion_of(problem), problem.reward.ravel()
    priced = reward + np.einsum("k,kn->n", found.prices, flat_margins(problem))
    backup = criterion.backup(priced, found.value_function)
    basic = np.zeros(len(reward), dtype=bool)
    basic[criterion.greedy(priced, found.value_function)] = True
    binding = found.prices * problem.margin_scales > 1e-7 * (float(np.abs(reward).max()) or 1.0)
    others, loss = np.flatnonzero(~basic), found.value_function[criterion.places] - backup
    basic[others[np.argsort(loss[others], kind="stable")[: np.count_nonzero(binding)]]] = True
    flows = np.zeros(criterion.n_places + criterion.mass_row, dtype=bool)
    flows[0] = criterion.mass_row  # of the flow rows of averages, one follows from the others
    return Basis(columns=basic, rows=np.concatenate([flows, ~binding]))


def _columns(problem: CMDP, margins: Floats, size: float) -> tuple[Columns, Floats]:
    """The flow rows, the mass row where there is one, and the rows of scaled margins [K, N]; and the right-hand sides
    of all but the last.

    A row of the flow matrix is a column of the program, which HiGHS takes column by column; behind each of them come
    the numbers that every column has. Put together by hand: for small programs SciPy takes longer than HiGHS.
    """
    criterion = criterion_of(problem)
    flow, right = criterion.flow
    everywhere, n_columns = margins.T, flow.shape[0]
    if criterion.mass_row:
        everywhere, right = np.column_stack([np.ones(n_columns), everywhere]), np.append(right, 1.0)
    more = everywhere.shape[1]
    starts = flow.indptr + more * np.arange(n_columns + 1)
    rows, values = np.empty(starts[-1], dtype=np.int64), np.empty(starts[-1])
    own = np.arange(flow.nnz) + more * np.repeat(np.arange(n_columns), np.diff(flow.indptr))
    rows[own], values[own] = flow.indices, flow.data
    behind = starts[1:, None] - more + np.arange(more)
    rows[behind], values[behind] = flow.shape[1] + np.arange(more), everywhere
    return Columns(starts, rows, values), size * right


def _attempts(n_columns: int) -> tuple[dict[str, Any], ...]:
    return (*SMALL, *SIMPLEX) if n_columns <= SIMPLEX_ENTRIES else INTERIOR
