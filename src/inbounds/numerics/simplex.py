"""The best mixture in bounds of things that are only found one after the other: a master program for column generation.

A thing j has a value and sums_ij. The shares x of those found so far solve

    max sum_j x_j value_j   with   sum_j x_j sums_ij - slack_i = 0,   sum_j x_j = 1,   x, slack >= 0

by the simplex method, whose basis is small: one column for each of the I bounds, and one more. Its `duals` say what a
thing would have to be worth to make the mixture better; whoever finds such a one has it `enter`. An artificial column
stands for a bound that is not met: where one is left with a share, no mixture of what was found is in bounds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled

IMPROVES = 1e-9
"""What a column has to gain, relative to what it is worth, to enter the basis."""
ARTIFICIAL, SLACK, FOUND = 0, 1, 2


class Master(NamedTuple):
    """M = I + 1 columns, of the bounds in turn and of the shares."""

    kind: Ints  # [M]: ARTIFICIAL, SLACK or FOUND
    costs: Floats  # [M]
    inverse: Floats  # [M, M], whose last column are the shares
    duals: Floats  # [M]: minus the prices of the bounds, and the value of the mixture at these prices


@compiled
def first_basis(value: float, sums: Floats, not_met: float) -> Master:
    """Of the first thing alone, with sums [I]; `not_met` is the cost of a unit that is missing in a bound."""
    bounds = sums.shape[0]
    basis = Master(
        np.full(bounds + 1, FOUND), np.zeros(bounds + 1), np.zeros((bounds + 1, bounds + 1)), np.zeros(bounds + 1)
    )
    for i in range(bounds):
        met = sums[i] >= 0.0
        basis.kind[i] = SLACK if met else ARTIFICIAL
        basis.costs[i] = 0.0 if met else -not_met
        basis.inverse[i, i] = -1.0 if met else 1.0
        basis.inverse[i, bounds] = abs(sums[i])
    basis.costs[bounds], basis.inverse[bounds, bounds] = value, 1.0
    return basis


@compiled
def share_of(basis: Master, b: int) -> float:
    """Of a column of the basis."""
    return max(basis.inverse[b, basis.kind.shape[0] - 1], 0.0)


@compiled
def price(basis: Master) -> int:
    """Bring the duals up to the basis; the bound whose slack should enter it, -1 for none."""
    m, slack, most = basis.kind.shape[0], -1, IMPROVES
    for b in range(m):
        basis.duals[b] = 0.0
        for c in range(m):
            basis.duals[b] += basis.costs[c] * basis.inverse[c, b]
    for i in range(m - 1):
        if basis.duals[i] > most:
            slack, most = i, basis.duals[i]
    return slack


@compiled
def gains(basis: Master, value: float, sums: Floats) -> bool:
    """Whether the mixture is the better for a thing with these sums [I]."""
    bounds = sums.shape[0]
    gain, size = value - basis.duals[bounds], abs(value) + abs(basis.duals[bounds])
    for i in range(bounds):
        gain -= basis.duals[i] * sums[i]
        size += abs(basis.duals[i] * sums[i])
    return bool(gain > IMPROVES * size)


@compiled
def enter(basis: Master, kind: int, cost: float, column: Floats) -> int:
    """A column [M] enters the basis; in the place of which, -1 if it cannot."""
    m, leaving, least = column.shape[0], -1, np.inf
    change = np.empty(m)
    for b in range(m):
        change[b] = 0.0
        for c in range(m):
            change[b] += basis.inverse[b, c] * column[c]
        if change[b] > 1e-12:
            ratio = share_of(basis, b) / change[b]
            if ratio < least or (ratio == least and basis.kind[b] == ARTIFICIAL):
                leaving, least = b, ratio
    if leaving >= 0:
        basis.kind[leaving], basis.costs[leaving] = kind, cost
        for c in range(m):
            basis.inverse[leaving, c] /= change[leaving]
            for b in range(m):
                if b != leaving:
                    basis.inverse[b, c] -= change[b] * basis.inverse[leaving, c]
    return leaving


@compiled
def mixture_of_cuts(values: Floats, sums: Floats, not_met: float) -> tuple[Floats, Floats, float]:
    """Of J things with `values` [J] and `sums` [J, I]: the prices of the bounds, the shares [J], what is not met.

    Where that is not nothing, no mixture is in bounds, and the prices are such that none has enough of them together.
    """
    n, bounds = sums.shape
    basis, column = first_basis(values[0], sums[0], not_met), np.empty(bounds + 1)
    basis.kind[bounds] = FOUND  # and their number, from here on
    for _ in range(100 + 20 * (n + bounds)):  # far more than it takes; against cycling
        kind, cost = SLACK, 0.0
        slack = price(basis)
        column[:] = 0.0
        if slack >= 0:
            column[slack] = -1.0
        else:
            best, most = -1, 0.0
            for j in range(n):
                if gains(basis, values[j], sums[j]):
                    gain = values[j] - basis.duals[bounds]
                    for i in range(bounds):
                        gain -= basis.duals[i] * sums[j, i]
                    if gain > most:
                        best, most = j, gain
            if best < 0:
                break
            kind, cost = FOUND + best, values[best]
            column[:bounds], column[bounds] = sums[best], 1.0
        if enter(basis, kind, cost, column) < 0:
            break
    prices, shares, missing = np.maximum(-basis.duals[:bounds], 0.0), np.zeros(n), 0.0
    for b in range(bounds + 1):
        if basis.kind[b] == ARTIFICIAL:
            missing += share_of(basis, b)
        elif basis.kind[b] >= FOUND:
            shares[basis.kind[b] - FOUND] += share_of(basis, b)
    return prices, shares, missing
