"""The bounds C1 and C2 of `inbounds.proofs.known_model` in rationals: no rounding, but a last one that is outwards.

And the values of a policy themselves, where the model is small.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from inbounds.arrays import Floats
from inbounds.criteria import criterion_of
from inbounds.problem.cmdp import CMDP
from inbounds.proofs.progress import Count


def rational_lowers(cmdp: CMDP, taken: Floats, vectors: Floats) -> list[float]:
    return [floor(mean) for mean in rational_means(cmdp, taken, vectors)]


def rational_means(cmdp: CMDP, taken: Floats, vectors: Floats, count: Count | None = None) -> list[Fraction]:
    """(lower) of the reward and of each margin, for a policy as `vectors.visited_part` gives it."""
    probabilities = [Fraction(p) for p in taken.tolist()]
    offsets, bounds = cmdp.offsets.tolist(), []
    for gain, vector in zip(_gains(cmdp), vectors, strict=True):
        excess, least = _excess(cmdp, gain, vector, probabilities), Fraction(0)
        for layer in criterion_of(cmdp).layers:
            residuals = []
            for first, last in pairwise(offsets):
                entries = range(layer.entries.start + first, layer.entries.start + last)
                chosen = [entry for entry in entries if probabilities[entry]]
                if chosen:  # the policy comes here
                    mean = sum((probabilities[entry] * excess[entry] for entry in chosen), Fraction(0))
                    residuals.append(mean / sum(probabilities[entry] for entry in chosen))
            least += min(residuals)
        bounds.append(_start(cmdp, vector) + least)
        if count is not None:
            count.add()
    return bounds


def rational_values(cmdp: CMDP, visiting: Floats) -> list[Fraction] | None:
    """The reward and the margins [1 + K] of a policy without coins; None where it has no one average.

    The policy is given as by `vectors.visited_part`. The bounds above go by a vector of doubles, whose last digits they
    lose: of a policy that just keeps a bound, or just misses it, they seldom tell which. Here is no vector.

    A place is worth what it pays and a mean of where it leads. One place after the other, the last first, is put into
    those that lead to it, until only the start is left; of averages, one place to which all lead: then what is paid
    until it comes back, divided by how long that takes, is the average.
    """
    criterion, gains = criterion_of(cmdp), _gains(cmdp)
    own, reach, ends = Fraction(criterion.own), criterion.exact_reach, []
    places = criterion.places.tolist()
    paid: dict[int, list[Fraction]] = {-1: [Fraction(0)] * (len(gains) + 1)}
    leads: dict[int, dict[int, Fraction]] = {-1: _shares(enumerate(cmdp.initial.tolist()), Fraction(1))}
    for layer in criterion.layers:
        matrix, ahead = layer.transition, layer.next_places
        for pair in np.flatnonzero(visiting[layer.entries]).tolist():
            entry = layer.entries.start + pair
            first, last = matrix.indptr[pair : pair + 2]
            moves = zip(matrix.indices[first:last].tolist(), matrix.data[first:last].tolist(), strict=True)
            further = [] if ahead is None else [(ahead.start + state, share) for state, share in moves]
            leads[places[entry]] = _shares(further, reach / (own + reach))
            paid[places[entry]] = [value / (own + reach) for value in (*(gain[entry] for gain in gains), Fraction(1))]
    for place in sorted(leads, reverse=True)[:-1]:
        onward, here = leads.pop(place), paid.pop(place)
        away = 1 - onward.pop(place, Fraction(0))
        if away == 0:  # it is all that is left of where the policy comes to stay
            ends.append([value / here[-1] for value in here[:-1]])
            continue
        for other, row in leads.items():
            visits = row.pop(place, Fraction(0)) / away
            if visits:
                for to, share in onward.items():
                    row[to] = row.get(to, Fraction(0)) + visits * share
                paid[other] = [value + visits * more for value, more in zip(paid[other], here, strict=True)]
    if criterion.mass_row:
        return ends[0] if len(ends) == 1 else None
    return [Fraction(criterion.start) * value for value in paid[-1][:-1]]


def _shares(row: Iterable[tuple[int, float]], of: Fraction) -> dict[int, Fraction]:
    """A row of probabilities divided by its exact sum, times `of`."""
    shares = [(to, Fraction(share)) for to, share in row if share]
    total = sum(share for _, share in shares)
    return {to: of * share / total for to, share in shares}


def rational_upper(cmdp: CMDP, prices: Floats, values: Floats, reward_weight: float) -> float:
    weights = [Fraction(reward_weight), *map(Fraction, prices.tolist())]
    gains = zip(*_gains(cmdp), strict=True)
    priced = [sum((w * x for w, x in zip(weights, at, strict=True)), Fraction(0)) for at in gains]
    excess = _excess(cmdp, priced, values)
    largest = sum((max(excess[layer.entries]) for layer in criterion_of(cmdp).layers), Fraction(0))
    return -floor(-(_start(cmdp, values) + largest))


def _excess(
    cmdp: CMDP, gain: Sequence[Fraction], vector: Floats, taken: Sequence[Fraction] | None = None
) -> list[Fraction]:
    """gain - E vector at every entry; zero at those that are not `taken`, if that is given: nobody asks there."""
    criterion, states = criterion_of(cmdp), cmdp.pairs.states.tolist()
    own, reach, excess = Fraction(criterion.own), criterion.exact_reach, []
    for layer, here, there in criterion.steps(vector):
        y, y_next = [Fraction(v) for v in here.tolist()], [Fraction(v) for v in there.tolist()]
        matrix = layer.transition
        probabilities, successors = matrix.data.tolist(), matrix.indices.tolist()
        for pair, (state, (first, last)) in enumerate(zip(states, pairwise(matrix.indptr.tolist()), strict=True)):
            entry = layer.entries.start + pair
            if taken is not None and not taken[entry]:
                excess.append(Fraction(0))
                continue
            row = [(successors[at], Fraction(probabilities[at])) for at in range(first, last)]
            excess.append(gain[entry] - own * y[state] + reach * (_mean(row, y_next) - y[state]))
    return excess


def _gains(cmdp: CMDP) -> list[list[Fraction]]:
    """The reward, and every margin as the exact difference of signal and the layer's share of the bound."""
    gains = [[Fraction(value) for value in cmdp.reward.ravel().tolist()]]
    for constraint in cmdp.constraints:
        sign, bound = int(constraint.outward), Fraction(float(constraint.bound)) / cmdp.layers
        gains.append([sign * (Fraction(value) - bound) for value in constraint.signal.ravel().tolist()])
    return gains


def _mean(row: Sequence[tuple[int, Fraction]], w: Sequence[Fraction]) -> Fraction:
    """The mean of `w` over next states, the row divided by its exact sum."""
    return Fraction(sum(p * w[state] for state, p in row)) / sum(p for _, p in row)


def _start(cmdp: CMDP, vector: Floats) -> Fraction:
    w = [Fraction(value) for value in vector[: cmdp.n_states].tolist()]
    rho = [(state, Fraction(p)) for state, p in enumerate(cmdp.initial.tolist()) if p]
    return Fraction(criterion_of(cmdp).start) * _mean(rho, w)


def floor(value: Fraction) -> float:
    """The largest double that is not above `value`; minus infinity below all doubles."""
    try:
        nearest = float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.nextafter(math.inf, 0.0)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)
