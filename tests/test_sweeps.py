"""The time per state of a chain: plain sweeps, combined ones, and the dense solution agree."""

from __future__ import annotations

import numpy as np
import pytest

from inbounds.numerics.rows import Chain
from inbounds.numerics.sweeps import combined_sweeps, iterate_flow

STATES = 60


def walk(discount: float) -> tuple[Chain, np.ndarray]:
    """Up or down a ladder with probability 0.45 each, which mixes slowly: the chain, and its dense weights."""
    dense = 0.1 * np.eye(STATES) + 0.45 * np.eye(STATES, k=1) + 0.45 * np.eye(STATES, k=-1)
    dense[0, 0] = dense[-1, -1] = 0.55
    rows, columns = np.nonzero(dense)
    starts = np.searchsorted(rows, np.arange(STATES + 1)).astype(np.int32)
    dense *= discount
    return Chain(starts, columns.astype(np.uint32), dense[rows, columns]), dense


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.99, 0.9999])
@pytest.mark.parametrize("tolerance", [1e-6, 1e-13])
@pytest.mark.parametrize("first", [0, 30])
def test_the_time_per_state_is_the_dense_solution(discount, tolerance, first):
    chain, dense = walk(discount)
    initial = np.eye(STATES)[first]
    exact = np.linalg.solve(np.eye(STATES) - dense.T, (1.0 - discount) * initial)
    for start in (None, np.full(STATES, 1.0 / STATES)):
        time, settled = iterate_flow(chain, initial, discount, tolerance, 10**6, start)
        assert settled
        rounding = 1e-15 / (1.0 - discount)
        assert np.abs(time - exact).sum() <= tolerance + 10.0 * rounding
        assert time.min() >= 0.0


@pytest.mark.parametrize("discount", [0.99, 0.9999])
@pytest.mark.parametrize("up_to_constants", [False, True])
def test_combined_sweeps_need_far_fewer(discount, up_to_constants):
    _, dense = walk(discount)
    stage = np.random.default_rng(0).normal(size=STATES)
    exact = np.linalg.solve(np.eye(STATES) - dense, stage)

    def change(old: np.ndarray, new: np.ndarray) -> float:
        new[:] = stage + dense @ old
        counts[-1] += 1
        return float(np.ptp(new - old) if up_to_constants else np.abs(new - old).max())

    goal, counts = 1e-9, [0]
    x, new = np.zeros(STATES), np.empty(STATES)
    while change(x, new) > goal:
        x[:] = new
    counts.append(0)
    combined = np.zeros(STATES)
    combined_sweeps(change, combined, goal, 10**6, up_to_constants)
    assert counts[1] < 0.5 * counts[0]
    missing = combined - exact
    if up_to_constants:  # a ladder of S rungs takes about S^2 steps to cross
        assert np.abs(missing - missing.mean()).max() <= goal * STATES**2
    else:
        assert np.abs(missing).max() <= goal * discount / (1.0 - discount)


def drift(seed: int) -> np.ndarray:
    """Ever on to the last of 300 states, by 0, 1 or 2 at a time: far from normal, and slow."""
    rng, size = np.random.default_rng(seed), 300
    dense = np.zeros((size, size))
    for s in range(size):
        for step in rng.integers(0, 3, size=4):
            dense[s, min(s + step, size - 1)] += 0.25
    return dense


def absorbing(seed: int) -> np.ndarray:
    """Random moves among 300 states, of which five are never left."""
    rng, size = np.random.default_rng(seed), 300
    dense = rng.dirichlet(np.full(size, 0.02), size=size)
    dense[:5] = np.eye(size)[:5]
    return dense


@pytest.mark.parametrize("make", [drift, absorbing])
@pytest.mark.parametrize("discount", [0.99, 0.9999, 0.999999])
@pytest.mark.parametrize("up_to_constants", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_combined_sweeps_are_never_worse_than_plain_ones(make, discount, up_to_constants, seed):
    """Where minimal residuals stand still or wander, the combinations are dropped."""
    dense = discount * make(seed)
    stage = np.random.default_rng(seed).normal(size=len(dense))

    def change(old: np.ndarray, new: np.ndarray) -> float:
        new[:] = stage + dense @ old
        return float(np.ptp(new - old) if up_to_constants else np.abs(new - old).max())

    x, new, combined = np.zeros(len(dense)), np.empty(len(dense)), np.zeros(len(dense))
    first = change(x, new)
    assert not combined_sweeps(change, combined, 0.0, 300, up_to_constants)
    left = change(combined, new)
    # Of every ten sweeps at least nine contract by the discount, and none expands.
    rounding = 1e-13 * max(1.0, float(np.abs(combined).max()))
    assert left <= discount ** (0.9 * 300) * first + rounding


def test_what_does_not_change_any_more_is_left():
    x = np.ones(STATES)
    combined_sweeps(lambda old, new: np.copyto(new, old) or 1.0, x, 0.0, 100)  # says that it moves, and does not
    assert np.array_equal(x, np.ones(STATES))
