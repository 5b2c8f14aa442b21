"""The occupancy linear program, on HiGHS.

    max  <x, reward>   over x >= 0 [n]
    s.t. sum_a x(s', a) - discount sum_{s,a} P(s' | s, a) x(s, a) = (1 - discount) initial(s')    for every state s'
         <x, margin_k> >= 0                                                                       for every constraint k

Its solutions are occupancies (Altman 1999, chapter 3); the multipliers of the margins are the prices, and those of
the flow rows the value function of the priced reward. It is the reference against which everything faster is checked.

HiGHS often answers "unknown" when no policy is in bounds; `inbounds.exact.feasibility` tells.

HiGHS works with absolute tolerances, so rewards and margins are scaled to at most 1, and occupancies to an average of
about 1, before it sees them. It is always told to minimise: one of its solvers ignores the sense of the objective.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import highspy
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from inbounds.arrays import Floats
from inbounds.exact.solution import Solution, greedy, priced_backup
from inbounds.problem.cmdp import CMDP

_ATTEMPTS: tuple[dict[str, Any], ...] = (
    {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9, "presolve": "off"},
    {"solver": "ipx"},
)
"""Option sets tried in turn until HiGHS reports an optimum."""

_INTERIOR: dict[str, Any] = _ATTEMPTS[0] | {"solver": "ipx"}
"""Interior point with crossover to a vertex, at the tolerances of the simplex method."""


class LPResult(NamedTuple):
    occupancy: Floats  # [n]
    prices: Floats  # [K]
    value_function: Floats  # [S], normalised


def occupancy_lp(cmdp: CMDP, relaxed: float = 0.0, start: Basis | None = None) -> LPResult | None:
    """The program above, in the user's units; None when HiGHS does not report an optimum.

    With `relaxed`, margins may be as low as ``-relaxed * margin_scales``. With `start`, the simplex method begins
    there.
    """
    n_states, n_pairs, n_constraints = cmdp.n_states, cmdp.n_pairs, cmdp.n_constraints
    reward_scale = float(np.abs(cmdp.reward).max()) or 1.0
    belongs = sp.csr_array((np.ones(n_pairs), cmdp.pairs.states, np.arange(n_pairs + 1)), shape=(n_pairs, n_states))
    # Row k of this CSR matrix is column k of the program, which HiGHS takes column by column.
    columns = sp.hstack(
        [
            belongs - cmdp.discount * cmdp.transition,
            sp.csr_array((cmdp.margins / cmdp.margin_scales[:, None]).T),
        ],
        format="csr",
    )
    lowest = -relaxed * n_states / (1.0 - cmdp.discount)
    found = minimise_program(
        columns,
        -cmdp.reward / reward_scale,
        row_lower=np.concatenate([n_states * cmdp.initial, np.full(n_constraints, lowest)]),
        row_upper=np.concatenate([n_states * cmdp.initial, np.full(n_constraints, highspy.kHighsInf)]),
        start=start,
    )
    if found is None:
        return None
    x, duals = found
    return LPResult(
        occupancy=np.maximum(x, 0.0) * (1.0 - cmdp.discount) / n_states,
        prices=duals[n_states:] * reward_scale / cmdp.margin_scales,
        value_function=-(1.0 - cmdp.discount) * reward_scale * duals[:n_states],
    )


def vertex_near(cmdp: CMDP, solution: Solution) -> Basis:
    """The basis of the vertex that a nearly optimal solution points at.

    In every state the greedy pair at the prices; for every constraint that binds, the other pair that loses least by
    being taken; for every other constraint, its slack. From there the simplex method has a few steps to go.
    """
    priced = cmdp.reward + solution.prices @ cmdp.margins
    loss = solution.value_function[cmdp.pairs.states] - priced_backup(cmdp, priced, solution.value_function)
    basic = greedy(cmdp, priced, solution.value_function).probabilities > 0.0
    binding = solution.prices * cmdp.margin_scales > 1e-7 * (float(np.abs(cmdp.reward).max()) or 1.0)
    others = np.flatnonzero(~basic)
    basic[others[np.argsort(loss[others], kind="stable")[: np.count_nonzero(binding)]]] = True
    return Basis(columns=basic, rows=np.concatenate([np.zeros(cmdp.n_states, dtype=bool), ~binding]))


class Basis(NamedTuple):
    """Which columns and rows of a program are basic."""

    columns: npt.NDArray[np.bool_]
    rows: npt.NDArray[np.bool_]


def minimise_program(
    columns: Any,
    cost: Floats,
    row_lower: Floats,
    row_upper: Floats,
    interior_first: bool = False,
    start: Basis | None = None,
) -> tuple[Floats, Floats] | None:
    """Minimise ``cost @ x`` with ``x >= 0`` and ``row_lower <= x @ columns <= row_upper`` on HiGHS.

    `columns` is a CSR array with one row per column of the program. (x, row duals), or None when HiGHS does not report
    an optimum. `interior_first` tries interior point before the simplex method; `start` is where the latter begins.
    """
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = len(cost), len(row_lower)
    program.col_cost_ = cost
    program.col_lower_ = np.zeros(len(cost))
    program.col_upper_ = np.full(len(cost), highspy.kHighsInf)
    program.row_lower_ = row_lower
    program.row_upper_ = row_upper
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = columns.indptr
    program.a_matrix_.index_ = columns.indices
    program.a_matrix_.value_ = columns.data

    for options in (_INTERIOR, *_ATTEMPTS) if interior_first else _ATTEMPTS:
        solver = highspy.Highs()
        solver.setOptionValue("output_flag", False)
        # By default HiGHS drops entries below 1e-9: small probabilities, a loss that 1 / (1 - discount) multiplies.
        for option, value in {"small_matrix_value": 1e-12, **options}.items():
            if solver.setOptionValue(option, value) != highspy.HighsStatus.kOk:
                raise RuntimeError(f"HiGHS does not take the option {option} = {value}")
        solver.passModel(program)
        if start is not None:
            solver.setBasis(_highs_basis(start))
        solver.run()
        if solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
            solution = solver.getSolution()
            return np.asarray(solution.col_value), np.asarray(solution.row_dual)
    return None


def _highs_basis(start: Basis) -> Any:
    status = {True: highspy.HighsBasisStatus.kBasic, False: highspy.HighsBasisStatus.kLower}
    basis = highspy.HighsBasis()
    basis.col_status = [status[bool(basic)] for basic in start.columns]
    basis.row_status = [status[bool(basic)] for basic in start.rows]
    basis.valid = True
    return basis
