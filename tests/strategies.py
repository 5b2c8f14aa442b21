"""Hypothesis strategies: small ragged CMDPs that are feasible by construction, and policies for them."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

import inbounds as ib
import naive

# Few distinct values, so that ties and zeros are common; multiples of 1/8, so that sums are often exact.
eighths = st.integers(-16, 16).map(lambda count: count / 8)
discounts = st.sampled_from([0.0, 0.5, 0.8, 0.9, 0.97])


# Hypothesis looks through a strategy once, which takes longer than drawing from it: each is made once.


@cache
def counts(size: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 7), min_size=size, max_size=size)


@cache
def vectors(size: int) -> st.SearchStrategy[np.ndarray]:
    return st.lists(eighths, min_size=size, max_size=size).map(np.array)


@cache
@st.composite
def distributions(draw: st.DrawFn, size: int) -> np.ndarray:
    """Over `size` outcomes: often a point mass, often with zeros, sometimes generic."""
    if draw(st.booleans()):
        point = np.zeros(size)
        point[draw(st.integers(0, size - 1))] = 1.0
        return point
    weights = np.array(draw(counts(size)), dtype=float)
    if weights.sum() == 0:
        weights[:] = 1.0
    return weights / weights.sum()


@st.composite
def policy_probabilities(draw: st.DrawFn, offsets: np.ndarray) -> np.ndarray:
    return np.concatenate([draw(distributions(int(size))) for size in np.diff(offsets)])


class Drawn(NamedTuple):
    cmdp: ib.CMDP
    inside: np.ndarray  # [n], probabilities of a policy that keeps every bound
    slack: float  # by how much it keeps them, at least


@st.composite
def feasible(
    draw: st.DrawFn, max_states: int = 5, max_actions: int = 4, max_constraints: int = 3, least_slack: int = 0
) -> Drawn:
    """A CMDP whose bounds are set `slack` (eighths, from `least_slack` up) below what a drawn policy achieves."""
    n_states = draw(st.integers(1, max_states))
    sizes = draw(st.lists(st.integers(1, max_actions), min_size=n_states, max_size=n_states))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    n_pairs = int(offsets[-1])
    numbers = vectors(n_pairs)
    plain = ib.CMDP(
        offsets=offsets,
        transition=np.array([draw(distributions(n_states)) for _ in range(n_pairs)]),
        reward=draw(numbers),
        constraints=(),
        initial=draw(distributions(n_states)),
        discount=draw(discounts),
    )
    inside = draw(policy_probabilities(offsets))
    slack = draw(st.integers(least_slack, 4)) / 8
    constraints = []
    for position in range(draw(st.integers(0, max_constraints))):
        signal = draw(numbers)
        reached = naive.value(plain, inside, signal)
        # A policy that sees one value only reaches exactly that; otherwise the margin would be nothing but rounding.
        nearest = float(signal[np.argmin(np.abs(signal - reached))])
        reached = nearest if abs(nearest - reached) < 1e-12 else reached
        if draw(st.booleans()):
            constraints.append(ib.Constraint(signal, at_least=reached - slack, name=f"floor {position}"))
        else:
            constraints.append(ib.Constraint(signal, at_most=reached + slack, name=f"ceiling {position}"))
    cmdp = ib.CMDP(
        offsets=offsets,
        transition=plain.transition,
        reward=plain.reward,
        constraints=tuple(constraints),
        initial=plain.initial,
        discount=plain.discount,
    )
    return Drawn(cmdp, inside, slack)


def cmdps(max_states: int = 5, max_actions: int = 4, max_constraints: int = 3) -> st.SearchStrategy[ib.CMDP]:
    return feasible(max_states, max_actions, max_constraints).map(lambda drawn: drawn.cmdp)


@st.composite
def with_policies(draw: st.DrawFn, count: int = 1, max_constraints: int = 3) -> tuple[ib.CMDP, list[ib.Policy]]:
    """A CMDP and `count` policies of it."""
    cmdp = draw(cmdps(max_constraints=max_constraints))
    return cmdp, [ib.Policy(cmdp.pairs, draw(policy_probabilities(cmdp.offsets))) for _ in range(count)]
