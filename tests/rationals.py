"""Values of tiny models without rounding, and the tiny models on which rounding does most: for tests.

"The model" is the one that proofs speak of: every float the number that it is, and every row divided by its exact sum.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np

import inbounds as ib

Row = list[Fraction]

ENDS = (0.0, 0.5, 0.9, 0.999, 1.0 - 1e-6, 1.0 - 1e-9, 1.0 - 1e-12, 1.0 - 2.0**-52, 1.0 - 2.0**-53)
"""Discounts."""

RARE = (1e-3, 1e-9, 1e-12, 1e-13, 1e-20, 1e-100, 1e-300)
"""Probabilities."""


def solved(matrix: list[Row], right: Row) -> Row:
    """x with matrix x = right, by Gaussian elimination in rationals."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for k in range(len(rows)):
        pivot = next(i for i in range(k, len(rows)) if rows[i][k] != 0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [entry / rows[k][k] for entry in rows[k]]
        for i, row in enumerate(rows):
            if i != k and row[k] != 0:
                rows[i] = [entry - row[k] * other for entry, other in zip(row, rows[k], strict=True)]
    return [row[-1] for row in rows]


def normalised(row: Any) -> Row:
    numbers = [Fraction(float(entry)) for entry in row]
    return [entry / sum(numbers) for entry in numbers]


def rows_of_model(cmdp: ib.CMDP) -> list[Row]:
    """The next states of every pair."""
    return [normalised(row) for row in cmdp.transitions[0].toarray()]


def occupancy_in_rationals(cmdp: ib.CMDP, policy: Any) -> Row:
    """The time per state [S] of a policy [n] that starts where the discounted problem does."""
    moves, discount = chain_of(cmdp, policy), Fraction(cmdp.discount)
    states = range(cmdp.n_states)
    flow = [[(i == j) - discount * moves[i][j] for i in states] for j in states]
    return solved(flow, [(1 - discount) * start for start in normalised(cmdp.initial)])


def chain_of(cmdp: ib.CMDP, policy: Any) -> list[Row]:
    rows, chain = rows_of_model(cmdp), []
    for first, last in itertools.pairwise(cmdp.offsets):
        shares = normalised(policy[first:last])
        chain.append(
            [sum(p * row[t] for p, row in zip(shares, rows[first:last], strict=True)) for t in range(len(rows[0]))]
        )
    return chain


def every_choice(cmdp: ib.CMDP) -> Any:
    """All deterministic stationary policies, as pairs [S]."""
    return itertools.product(*(range(first, last) for first, last in itertools.pairwise(cmdp.offsets)))


def values_in_rationals(cmdp: ib.CMDP, chosen: Any, reward: Row) -> Row:
    """The discounted value from each state of the policy that takes the pairs `chosen` [S]."""
    rows, discount = rows_of_model(cmdp), Fraction(cmdp.discount)
    states = range(cmdp.n_states)
    matrix = [[(i == j) - discount * rows[chosen[i]][j] for j in states] for i in states]
    return solved(matrix, [(1 - discount) * reward[pair] for pair in chosen])


def best_in_rationals(cmdp: ib.CMDP, reward: Row) -> Fraction:
    """The largest value, over all policies and whatever the criterion, of a reward [n]."""
    if cmdp.horizon is not None:
        value = [Fraction(0)] * cmdp.n_states
        rows = rows_of_model(cmdp)
        for _ in range(cmdp.horizon):
            worth = [reward[k] + sum(p * v for p, v in zip(row, value, strict=True)) for k, row in enumerate(rows)]
            value = [max(worth[first:last]) for first, last in itertools.pairwise(cmdp.offsets)]
        return sum(start * v for start, v in zip(normalised(cmdp.initial), value, strict=True))
    if cmdp.average:
        return max(best_class(cmdp, chosen, reward) for chosen in every_choice(cmdp))
    start = normalised(cmdp.initial)
    return max(
        sum(share * value for share, value in zip(start, values_in_rationals(cmdp, chosen, reward), strict=True))
        for chosen in every_choice(cmdp)
    )


def best_class(cmdp: ib.CMDP, chosen: Any, reward: Row) -> Fraction:
    """The largest long-run average over the closed classes of a deterministic policy."""
    rows = [rows_of_model(cmdp)[pair] for pair in chosen]
    reach = [{t for t, p in enumerate(row) if p > 0} | {s} for s, row in enumerate(rows)]
    for _ in rows:
        reach = [set().union(*(reach[t] for t in targets)) for targets in reach]
    best = None
    for s, targets in enumerate(reach):
        if all(s in reach[t] for t in targets):  # closed
            inside = sorted(targets)
            flow = [[rows[i][j] - (i == j) for i in inside] for j in inside]
            flow[0] = [Fraction(1)] * len(inside)
            time = solved(flow, [Fraction(1)] + [Fraction(0)] * (len(inside) - 1))
            gain = sum(share * reward[chosen[i]] for share, i in zip(time, inside, strict=True))
            best = gain if best is None else max(best, gain)
    assert best is not None
    return best


def extreme_model(seed: int, criterion: str) -> ib.CMDP:
    """A tiny model: few successors, often one; classes that never meet, periods, rare moves; extreme discounts."""
    rng = np.random.default_rng([seed, len(criterion)])
    n_states = int(rng.integers(1, 5))
    n_actions = rng.integers(1, 4, size=n_states)
    rows = []
    for _ in range(int(n_actions.sum())):
        row = np.zeros(n_states)
        kind = rng.random()
        if kind < 0.5:  # deterministic
            row[rng.integers(n_states)] = 1.0
        elif kind < 0.75:  # a rare move
            row[rng.integers(n_states)] += 1.0
            row[rng.integers(n_states)] += float(rng.choice(RARE))
        else:
            row = rng.dirichlet(np.full(n_states, 0.5))
        rows.append(row / row.sum())
    reward = rng.choice([-1.0, -0.7, 0.0, 0.1, 0.4, 1.0], size=len(rows)) if seed % 2 else rng.normal(size=len(rows))
    initial = np.eye(n_states)[rng.integers(n_states)] if seed % 3 else rng.dirichlet(np.ones(n_states))
    asked: dict[str, Any] = {"average": {"average": True}, "horizon": {"horizon": int(rng.integers(1, 6))}}.get(
        criterion, {"discount": float(rng.choice(ENDS))}
    )
    return ib.CMDP(
        offsets=np.concatenate([[0], np.cumsum(n_actions)]),
        transition=np.array(rows),
        reward=reward,
        constraints=(),
        initial=initial,
        **asked,
    )
