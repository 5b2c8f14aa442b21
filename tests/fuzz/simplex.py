"""A linear program solved exactly: Edmonds' integer pivoting with Bland's rule, written for the tests alone.

The tableau holds integers with one common denominator, the last pivot. Every entry is a subdeterminant of the input, so
the division after each pivot leaves no remainder, no fraction is ever reduced, and nothing is ever rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import NamedTuple


class Optimum(NamedTuple):
    value: Fraction
    point: list[Fraction]


def maximum(
    objective: Sequence[Fraction], rows: Sequence[Sequence[Fraction]], right: Sequence[Fraction]
) -> Optimum | None:
    """The largest <objective, x> over x >= 0 with rows x = right; None when there is no such x."""
    n = len(objective)
    table = [_whole([*row, b]) for row, b in zip(rows, right, strict=True)]
    table = [[-x for x in row] if row[n] < 0 else row for row in table]
    unit = lcm(*(Fraction(c).denominator for c in objective)) if n else 1
    goal = [int(c * unit) for c in objective] + [0]
    missing = [sum(column) for column in zip(*table, strict=True)] if table else [0] * (n + 1)
    basis = [n + i for i in range(len(table))]  # artificial columns, which are never stored and never come back
    denominator = 1

    def pivot(r: int, c: int) -> None:
        nonlocal denominator, goal, missing
        chosen, p = table[r], table[r][c]

        def step(row: list[int]) -> list[int]:
            q = row[c]
            if q == 0:
                return [p * x // denominator for x in row]
            return [(p * x - q * y) // denominator for x, y in zip(row, chosen, strict=True)]

        for i in range(len(table)):
            if i != r:
                table[i] = step(table[i])
        goal, missing = step(goal), step(missing)
        denominator, basis[r] = p, c

    def climb(costs: str) -> None:
        while True:
            row = missing if costs == "missing" else goal
            column = next((j for j in range(n) if row[j] > 0), None)
            if column is None:
                return
            leaving = None
            for i, candidate in enumerate(table):
                if candidate[column] > 0:
                    if leaving is None:
                        leaving = i
                        continue
                    other = table[leaving]
                    difference = candidate[n] * other[column] - other[n] * candidate[column]
                    if difference < 0 or (difference == 0 and basis[i] < basis[leaving]):
                        leaving = i
            assert leaving is not None, "an occupancy program is bounded"
            pivot(leaving, column)

    climb("missing")
    if missing[n] > 0:
        return None
    for i in reversed(range(len(table))):  # artificial columns left in the basis, all of them at zero
        if basis[i] >= n:
            column = next((j for j in range(n) if table[i][j]), None)
            if column is None:
                del table[i], basis[i]
            else:
                if table[i][column] < 0:
                    table[i] = [-x for x in table[i]]
                pivot(i, column)
    climb("goal")
    point = [Fraction(0)] * n
    for i, column in enumerate(basis):
        point[column] = Fraction(table[i][n], denominator)
    return Optimum(Fraction(-goal[n], denominator * unit), point)


def _whole(row: Sequence[Fraction]) -> list[int]:
    unit = lcm(*(Fraction(x).denominator for x in row))
    return [int(x * unit) for x in row]
