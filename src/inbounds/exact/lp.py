"""The occupancy linear programs, on HiGHS.

    max  <x, reward>   over x >= 0 [n]
    s.t. sum_a x(s', a) - discount sum_{s,a} P(s' | s, a) x(s, a) = (1 - discount) initial(s')    for every state s'
         <x, margin_k> >= 0                                                                       for every constraint k

Its solutions are occupancies (Altman 1999, chapter 3); the multipliers of the margins are the prices, and those of
the flow rows the value function of the priced reward. It is the reference against which everything faster is checked.

The Slater program maximises t subject to <x, margin_k> >= t instead. It is always feasible and bounded, and tells
whether the first program is feasible; HiGHS alone often answers "unknown" on an infeasible one.

HiGHS works with absolute tolerances, so rewards and margins are scaled to at most 1, and occupancies to an average of
about 1, before it sees them. It is always told to minimise: one of its solvers ignores the sense of the objective.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import highspy
import numpy as np
import scipy.sparse as sp

from inbounds.arrays import Floats
from inbounds.model.cmdp import CMDP

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


def occupancy_lp(cmdp: CMDP, relaxed: float = 0.0) -> LPResult | None:
    """The program above, in the user's units; None when HiGHS does not report an optimum.

    With `relaxed`, margins may be as low as ``-relaxed * margin_scales``.
    """
    reward_scale = float(np.abs(cmdp.reward).max()) or 1.0
    found = _minimise(cmdp, cost=-cmdp.reward / reward_scale, slack_column=None, relaxed=relaxed)
    if found is None:
        return None
    x, flow_duals, margin_duals = found
    return LPResult(
        occupancy=x,
        prices=margin_duals * reward_scale / cmdp.margin_scales,
        value_function=-(1.0 - cmdp.discount) * reward_scale * flow_duals,
    )


def slater_lp(cmdp: CMDP, scales: Floats) -> LPResult | None:
    """The Slater program for margins divided by `scales` [K]: an occupancy whose least scaled margin is largest.

    The prices are the weights of the constraints in the bound: >= 0, and with ``prices * scales`` summing to 1 they
    prove, through the value function of the priced margins, that no policy does better.
    """
    # The margins are handed over divided by margin_scales, so t carries the factor that is left. The unit of t is free:
    # the geometric mean keeps the column near 1 when margins of very different sizes meet.
    slack_column = scales / cmdp.margin_scales
    unit = float(np.exp(np.mean(np.log(slack_column))))
    found = _minimise(cmdp, cost=np.zeros(cmdp.n_pairs), slack_column=slack_column / unit)
    if found is None:
        return None
    x, flow_duals, margin_duals = found
    return LPResult(
        occupancy=x,
        prices=margin_duals / cmdp.margin_scales / unit,
        value_function=-(1.0 - cmdp.discount) * flow_duals / unit,
    )


def _minimise(
    cmdp: CMDP, cost: Floats, slack_column: Floats | None, relaxed: float = 0.0
) -> tuple[Floats, Floats, Floats] | None:
    """Minimise ``cost @ x``, or with a slack column minus the slack; (occupancy, flow duals, margin duals)."""
    n_states, n_pairs, n_constraints = cmdp.n_states, cmdp.n_pairs, cmdp.n_constraints
    belongs = sp.csr_array((np.ones(n_pairs), cmdp.pairs.states, np.arange(n_pairs + 1)), shape=(n_pairs, n_states))
    # Row k of this CSR matrix is column k of the program, which HiGHS takes column by column.
    columns = sp.hstack(
        [
            belongs - cmdp.discount * cmdp.transition,
            sp.csr_array((cmdp.margins / cmdp.margin_scales[:, None]).T),
        ],
        format="csr",
    )
    if slack_column is not None:
        slack_row = np.concatenate([np.zeros(n_states), -slack_column])
        columns = sp.vstack([columns, sp.csr_array(slack_row[None, :])], format="csr")
        cost = np.concatenate([cost, [-1.0]])
    least = np.zeros(len(cost))
    least[n_pairs:] = -highspy.kHighsInf  # the slack is free
    lowest = -relaxed * n_states / (1.0 - cmdp.discount)
    found = minimise_program(
        columns,
        cost,
        column_lower=least,
        row_lower=np.concatenate([n_states * cmdp.initial, np.full(n_constraints, lowest)]),
        row_upper=np.concatenate([n_states * cmdp.initial, np.full(n_constraints, highspy.kHighsInf)]),
    )
    if found is None:
        return None
    x, duals = found
    return np.maximum(x[:n_pairs], 0.0) * (1.0 - cmdp.discount) / n_states, duals[:n_states], duals[n_states:]


def minimise_program(
    columns: Any,
    cost: Floats,
    column_lower: Floats,
    row_lower: Floats,
    row_upper: Floats,
    interior_first: bool = False,
) -> tuple[Floats, Floats] | None:
    """Minimise ``cost @ x`` with ``x >= column_lower`` and ``row_lower <= x @ columns <= row_upper`` on HiGHS.

    `columns` is a CSR array with one row per column of the program. (x, row duals), or None when HiGHS does not report
    an optimum. `interior_first` tries interior point before the simplex method.
    """
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = len(cost), len(row_lower)
    program.col_cost_ = cost
    program.col_lower_ = column_lower
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
        solver.run()
        if solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
            solution = solver.getSolution()
            return np.asarray(solution.col_value), np.asarray(solution.row_dual)
    return None
