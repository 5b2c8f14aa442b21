"""The one way to HiGHS: linear programs, column by column.

HiGHS works with absolute tolerances: whoever calls scales rewards, margins and unknowns to the order of 1. It is always
told to minimise: one of its solvers ignores the sense of the objective. It often answers "unknown" where a program has
no solution at all; `inbounds.exact.feasibility` tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import Any, NamedTuple

import highspy
import numpy as np
import numpy.typing as npt

from inbounds.arrays import Floats

INFINITE = highspy.kHighsInf

TIGHT: dict[str, Any] = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
"""At the default tolerances of 1e-7 a bundle's gap would stall well above 1e-8."""

SIMPLEX: tuple[dict[str, Any], ...] = (
    TIGHT,
    {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9, "presolve": "off"},
    {"solver": "ipx"},
)
"""Option sets tried in turn until HiGHS reports an optimum."""

INTERIOR: tuple[dict[str, Any], ...] = (TIGHT | {"solver": "ipx"}, *SIMPLEX)
"""Interior point, with crossover to a vertex, first."""

SMALL: tuple[dict[str, Any], ...] = (TIGHT | {"presolve": "off"}, TIGHT | {"presolve": "on"})
"""For programs so small that looking for what can be left out takes longer than solving them."""

WHOLE: tuple[dict[str, Any], ...] = tuple(
    {f"{name}_feasibility_tolerance": within for name in ("primal", "dual", "mip")} for within in (1e-9, 1e-8)
)
"""HiGHS refuses its own integer optimum where a row is broken by more; inside it drops entries below 1e-9, always."""

_ENDS = (
    highspy.HighsModelStatus.kOptimal,
    highspy.HighsModelStatus.kInfeasible,
    highspy.HighsModelStatus.kTimeLimit,
    highspy.HighsModelStatus.kSolutionLimit,  # of nodes, too
)
"""After any other, what HiGHS has is no solution of an integer program."""

_ROUNDS = 30
"""Steps of the simplex method for each row and column of a program, at most: ten times what is usual."""


class Basis(NamedTuple):
    """Which columns and rows of a program are basic."""

    columns: npt.NDArray[np.bool_]
    rows: npt.NDArray[np.bool_]


class BasicMinimum(NamedTuple):
    """The vertex of a program at which the simplex method ended."""

    x: Floats
    duals: Floats  # of the rows
    columns: npt.NDArray[np.bool_]  # which of them are basic
    rows: npt.NDArray[np.bool_]


class Columns(NamedTuple):
    """The columns of a program in compressed form: column j has entries starts[j] : starts[j + 1]."""

    starts: Any
    rows: Any
    values: Any

    @classmethod
    def dense(cls, table: Floats) -> Columns:
        """From a table with a row for each column of the program."""
        n_columns, n_rows = table.shape
        return cls(np.arange(n_columns + 1) * n_rows, np.tile(np.arange(n_rows), n_columns), table.ravel())


def minimise(
    columns: Columns,
    cost: Floats,
    row_lower: Floats,
    row_upper: Floats,
    *,
    column_lower: Floats | None = None,
    attempts: tuple[dict[str, Any], ...] = SIMPLEX,
    start: Basis | None = None,
    time_limit: float | None = None,
) -> tuple[Floats, Floats] | None:
    """Minimise ``cost @ x`` over x >= `column_lower` (default: 0) with rows between their bounds: (x, row duals).

    None when HiGHS does not report an optimum with any of the option sets `attempts`; TimeoutError when it does not
    within `time_limit` seconds. `start` is where the simplex method begins.
    """
    program = _program(columns, cost, row_lower, row_upper, column_lower, None)
    solver = _solved(program, attempts, start, time_limit)
    if solver is None:
        return None
    solution = solver.getSolution()
    return np.asarray(solution.col_value), np.asarray(solution.row_dual)


def basic_minimum(
    columns: Columns, cost: Floats, row_lower: Floats, row_upper: Floats, column_upper: Floats
) -> BasicMinimum | None:
    """The same for 0 <= x <= `column_upper`, by the simplex method, with what is basic at the end."""
    solver = _solved(_program(columns, cost, row_lower, row_upper, None, column_upper), SMALL, None, None)
    if solver is None:
        return None
    solution, basis, basic = solver.getSolution(), solver.getBasis(), highspy.HighsBasisStatus.kBasic
    return BasicMinimum(
        np.asarray(solution.col_value),
        np.asarray(solution.row_dual),
        np.array([status == basic for status in basis.col_status], dtype=bool),
        np.array([status == basic for status in basis.row_status], dtype=bool),
    )


def minimise_whole(
    columns: Columns,
    cost: Floats,
    row_lower: Floats,
    row_upper: Floats,
    column_upper: Floats,
    *,
    gap: float,
    nodes: int,
    time_limit: float | None = None,
) -> Floats | None:
    """Minimise ``cost @ x`` over whole numbers 0 <= x <= `column_upper`, up to an absolute `gap`.

    It ends after so many `nodes`, or `time_limit` seconds, with the best that it has by then; None where that is
    nothing. HiGHS is sometimes wrong about what is best, or that there is none: nothing may rest on it.
    """
    program = _program(columns, cost, row_lower, row_upper, None, column_upper)
    program.integrality_ = [highspy.HighsVarType.kInteger] * len(cost)
    options = {"mip_rel_gap": 0.0, "mip_abs_gap": gap, "threads": 1, "mip_max_nodes": nodes}
    for solver, status in _runs(program, WHOLE, options, None, time_limit):
        if status in _ENDS:
            x = np.asarray(solver.getSolution().col_value)
            feasible = solver.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
            return x if feasible and len(x) == len(cost) else None
    return None


def _program(
    columns: Columns,
    cost: Floats,
    row_lower: Floats,
    row_upper: Floats,
    column_lower: Floats | None,
    column_upper: Floats | None,
) -> Any:
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = len(cost), len(row_lower)
    program.col_cost_ = cost
    program.col_lower_ = np.zeros(len(cost)) if column_lower is None else column_lower
    program.col_upper_ = np.full(len(cost), INFINITE) if column_upper is None else column_upper
    program.row_lower_, program.row_upper_ = row_lower, row_upper
    matrix = program.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kColwise
    matrix.start_, matrix.index_, matrix.value_ = columns
    return program


def _solved(
    program: Any, attempts: tuple[dict[str, Any], ...], start: Basis | None, time_limit: float | None
) -> Any | None:
    """HiGHS at the optimum of a program, as `minimise` says."""
    # On numbers too far apart the simplex method goes round in circles for ever; it takes a few steps a row otherwise.
    most = _ROUNDS * (program.num_col_ + program.num_row_) + 200
    steps = {"simplex_iteration_limit": most, "ipm_iteration_limit": 500}
    for solver, status in _runs(program, attempts, steps, start, time_limit):
        if status == highspy.HighsModelStatus.kOptimal:
            return solver
        if status == highspy.HighsModelStatus.kTimeLimit:
            raise TimeoutError(f'the linear program did not end within {time_limit:g} s; take the method "bundle"')
    return None


def _runs(
    program: Any,
    attempts: tuple[dict[str, Any], ...],
    options: dict[str, Any],
    start: Basis | None,
    time_limit: float | None,
) -> Iterator[tuple[Any, Any]]:
    """HiGHS after each of the `attempts` at a program, and how it ended: an error where its own word is that it failed.

    What it left behind then, as bounds of 0, is no answer.
    """
    begin = monotonic()
    for attempt in attempts:
        solver = highspy.Highs()
        solver.setOptionValue("output_flag", False)
        # By default HiGHS drops entries below 1e-9: small probabilities, a loss that 1 / (1 - discount) multiplies.
        taken = {"small_matrix_value": 1e-12, **options, **attempt}
        if time_limit is not None:  # of all attempts together
            taken["time_limit"] = max(time_limit - (monotonic() - begin), 1e-3)
        for option, value in taken.items():
            if solver.setOptionValue(option, value) != highspy.HighsStatus.kOk:
                raise RuntimeError(f"HiGHS does not take the option {option} = {value}")
        passed = solver.passModel(program)
        if start is not None:
            solver.setBasis(_highs_basis(start))
        failed = highspy.HighsStatus.kError in (passed, solver.run())
        yield solver, highspy.HighsModelStatus.kSolveError if failed else solver.getModelStatus()


def _highs_basis(start: Basis) -> Any:
    status = {True: highspy.HighsBasisStatus.kBasic, False: highspy.HighsBasisStatus.kLower}
    basis = highspy.HighsBasis()
    basis.col_status = [status[bool(basic)] for basic in start.columns]
    basis.row_status = [status[bool(basic)] for basic in start.rows]
    basis.valid = True
    return basis
