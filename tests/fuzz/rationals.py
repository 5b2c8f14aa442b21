"""A model as the rationals that it stands for, and every question about it answered exactly; for tiny models.

As in docs/certificates.md: a stored double is the binary number that it is, and rows of transition probabilities, the
initial distribution and the rows of a policy are divided by their exact sums. States that cannot be reached are left
out: no value depends on them. Nothing here uses the library but to read the fields of its records.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

import inbounds as ib

from .simplex import maximum

Row = list[tuple[int, Fraction]]


class Rational(NamedTuple):
    """N entries: the pairs of the states that can be reached, stage by stage; M places: those states, likewise."""

    kind: str  # discount, horizon or average
    discount: Fraction
    layers: int
    initial: list[Fraction]  # [S]
    states: list[int]  # of the model, those that can be reached
    place: list[int]  # [N]
    weights: list[Row]  # [N], (place, weight) of the next places; not divided by their sums
    entry: list[int]  # [N], where it is in the flat arrays of the model
    reward: list[Fraction]  # [N]
    margins: list[list[Fraction]]  # [K][N]
    sizes: list[Fraction]  # [K], of the signal or the bound, whichever is larger; over what can be reached
    scales: list[Fraction]  # [K], the largest absolute margin; the size, where that is nothing but rounding

    @property
    def n_places(self) -> int:
        return self.layers * len(self.states)


def rational(cmdp: ib.CMDP) -> Rational:
    states = reachable(cmdp)
    position = {state: i for i, state in enumerate(states)}
    layers, n, wide = cmdp.layers, cmdp.n_pairs, len(states)
    total = sum(map(Fraction, cmdp.initial.tolist()))
    place, weights, entry = [], [], []
    staged = cmdp.horizon is not None
    for h in range(layers):
        matrix = cmdp.transitions[h].toarray()
        for state in states:
            for pair in range(cmdp.offsets[state], cmdp.offsets[state + 1]):
                place.append(h * wide + position[state])
                entry.append(h * n + pair)
                base = (h + 1) * wide if staged else 0
                moves = [(base + position[s], Fraction(matrix[pair, s])) for s in np.flatnonzero(matrix[pair]).tolist()]
                weights.append(moves if not staged or h + 1 < layers else [])
    flat = cmdp.reward.ravel()
    margins = []
    for constraint in cmdp.constraints:
        sign, bound = int(constraint.outward), Fraction(float(constraint.bound)) / layers
        signal = np.ravel(constraint.signal)
        margins.append([sign * (Fraction(float(signal[e])) - bound) for e in entry])
    sizes = [
        max(_largest([Fraction(float(np.ravel(c.signal)[e])) for e in entry], layers), abs(Fraction(float(c.bound))))
        or Fraction(1)
        for c in cmdp.constraints
    ]
    largest = [_largest(margin, layers) for margin in margins]
    (kind,) = cmdp.criterion
    return Rational(
        kind=kind,
        discount=Fraction(cmdp.discount or 0),
        layers=layers,
        initial=[Fraction(float(cmdp.initial[s])) / total for s in states],
        states=states,
        place=place,
        weights=weights,
        entry=entry,
        reward=[Fraction(float(flat[e])) for e in entry],
        margins=margins,
        sizes=sizes,
        scales=[most if most > size / 10**12 else size for most, size in zip(largest, sizes, strict=True)],
    )


def _largest(values: list[Fraction], layers: int) -> Fraction:
    """The largest absolute value in each layer, summed."""
    width = len(values) // layers
    return sum((max(map(abs, values[h * width : (h + 1) * width])) for h in range(layers)), Fraction(0))


def reachable(cmdp: ib.CMDP) -> list[int]:
    """The states that some policy comes to from the initial distribution."""
    found = set(np.flatnonzero(cmdp.initial).tolist())
    todo = list(found)
    moves = sum(matrix.toarray() for matrix in cmdp.transitions)
    while todo:
        state = todo.pop()
        for pair in range(cmdp.offsets[state], cmdp.offsets[state + 1]):
            for successor in set(np.flatnonzero(moves[pair]).tolist()) - found:
                found.add(successor)
                todo.append(successor)
    return sorted(found)


def weakly_communicating(cmdp: ib.CMDP) -> bool:
    """Whether averages are defined: one closed class, and outside of it no set in which a policy can stay."""
    moves = cmdp.transition.toarray() > 0.0
    n = cmdp.n_states
    own = [range(cmdp.offsets[s], cmdp.offsets[s + 1]) for s in range(n)]
    leads = np.array([np.any(moves[list(own[s])], axis=0) for s in range(n)]) | np.eye(n, dtype=bool)
    for _ in range(n):
        leads = (leads.astype(int) @ leads.astype(int)) > 0
    closed = {
        frozenset(np.flatnonzero(leads[s])) for s in range(n) if all(leads[t, s] for t in np.flatnonzero(leads[s]))
    }
    if len(closed) != 1:
        return False
    outside = set(range(n)) - next(iter(closed))
    while True:
        stay = {s for s in outside if any(set(np.flatnonzero(moves[pair])) <= outside for pair in own[s])}
        if stay == outside:
            return not outside
        outside = stay


def best(
    model: Rational,
    gain: Sequence[Fraction],
    margins: Sequence[Sequence[Fraction]] = (),
    slater_units: Sequence[Fraction] | None = None,
) -> Fraction | None:
    """The largest value of `gain` [N] among the policies that keep `margins` [K][N] at 0 or more; None if none does.

    With `slater_units` [K] instead: the largest t such that some policy keeps every margin at least t times its unit.
    """
    n, k = len(model.place), len(margins)
    sums = [sum((w for _, w in row), Fraction(0)) or Fraction(1) for row in model.weights]
    # One column for each entry, in units of 1 / (sum of its weights), so that every number is a whole one over 2^k.
    extra = k + (2 if slater_units is not None else 0)
    rows = [[Fraction(0)] * (n + extra) for _ in range(model.n_places)]
    back = model.discount if model.kind == "discount" else Fraction(1)
    for e in range(n):
        rows[model.place[e]][e] += sums[e]
        for place, weight in model.weights[e]:
            rows[place][e] -= back * weight
    right = [Fraction(0)] * model.n_places
    if model.kind != "average":
        start = 1 - model.discount if model.kind == "discount" else Fraction(1)
        right[: len(model.states)] = [start * p for p in model.initial]
    else:
        rows.append([*sums, *[Fraction(0)] * extra])
        right.append(Fraction(1))
    for j, margin in enumerate(margins):
        row = [m * w for m, w in zip(margin, sums, strict=True)] + [Fraction(0)] * extra
        row[n + j] = Fraction(-1)
        if slater_units is not None:
            row[n + k], row[n + k + 1] = -slater_units[j], slater_units[j]
        rows.append(row)
        right.append(Fraction(0))
    if slater_units is not None:
        objective = [Fraction(0)] * (n + k) + [Fraction(1), Fraction(-1)]
    else:
        objective = [g * w for g, w in zip(gain, sums, strict=True)] + [Fraction(0)] * k
    found = maximum(objective, rows, right)
    return None if found is None else found.value


def slater(model: Rational, units: Sequence[Fraction]) -> Fraction:
    value = best(model, model.reward, model.margins, units)
    assert value is not None
    return value


def priced(model: Rational, prices: Sequence[Fraction], reward: int = 1) -> list[Fraction]:
    """The reward, or nothing, plus the margins at prices [K]; [N]."""
    result = [reward * r for r in model.reward]
    for price, margin in zip(prices, model.margins, strict=True):
        result = [x + price * m for x, m in zip(result, margin, strict=True)]
    return result


def values(model: Rational, probabilities: np.ndarray, gains: Sequence[Sequence[Fraction]]) -> list[list[Fraction]]:
    """The exact values of gains [J][N] under a policy: one number each; for averages one for each closed class."""
    taken = [Fraction(float(p)) for p in np.ravel(probabilities)[model.entry]]
    sums = [Fraction(0)] * model.n_places
    for e, place in enumerate(model.place):
        sums[place] += taken[e]
    taken = [p / sums[place] for p, place in zip(taken, model.place, strict=True)]
    chain: list[dict[int, Fraction]] = [{} for _ in range(model.n_places)]
    for e, place in enumerate(model.place):
        total = sum((w for _, w in model.weights[e]), Fraction(0))
        for successor, weight in model.weights[e] if taken[e] else ():
            chain[place][successor] = chain[place].get(successor, Fraction(0)) + taken[e] * weight / total
    times = []
    if model.kind == "horizon":
        time = [*model.initial, *[Fraction(0)] * (model.n_places - len(model.initial))]
        for place in range(model.n_places):
            for successor, p in chain[place].items():
                time[successor] += time[place] * p
        times.append(time)
    elif model.kind == "discount":
        matrix = [[Fraction(int(i == j)) for j in range(model.n_places)] for i in range(model.n_places)]
        for place, row in enumerate(chain):
            for successor, p in row.items():
                matrix[successor][place] -= model.discount * p
        times.append(_solution(matrix, [(1 - model.discount) * p for p in model.initial]))
    else:
        for members in _closed_classes(chain):
            matrix = [[Fraction(int(i == j)) for j in members] for i in members]
            for column, place in enumerate(members):
                for successor, p in chain[place].items():
                    matrix[members.index(successor)][column] -= p
            matrix[0] = [Fraction(1)] * len(members)
            stationary = _solution(matrix, [Fraction(1), *[Fraction(0)] * (len(members) - 1)])
            time = [Fraction(0)] * model.n_places
            for place, share in zip(members, stationary, strict=True):
                time[place] = share
            times.append(time)
    return [
        [
            sum((time[p] * q * g for p, q, g in zip(model.place, taken, gain, strict=True)), Fraction(0))
            for time in times
        ]
        for gain in gains
    ]


def _closed_classes(chain: list[dict[int, Fraction]]) -> list[list[int]]:
    leads = []
    for place in range(len(chain)):
        found, todo = {place}, [place]
        while todo:
            for successor in set(chain[todo.pop()]) - found:
                found.add(successor)
                todo.append(successor)
        leads.append(found)
    return [sorted(s) for s in {frozenset(s) for p, s in enumerate(leads) if all(p in leads[q] for q in s)}]


def _solution(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """Of a regular system, by elimination."""
    n = len(right)
    rows = [[*row, b] for row, b in zip(matrix, right, strict=True)]
    for c in range(n):
        r = next(i for i in range(c, n) if rows[i][c])
        rows[c], rows[r] = rows[r], rows[c]
        pivot = rows[c][c]
        rows[c] = [x / pivot for x in rows[c]]
        for i in range(n):
            if i != c and rows[i][c]:
                factor = rows[i][c]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[c], strict=True)]
    return [row[n] for row in rows]
