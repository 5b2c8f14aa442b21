"""Parts of a chain that are hardly ever left, against state reduction of the whole chain."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import inbounds as ib
from inbounds.criteria import average
from inbounds.numerics.parts import dense_stationary, forgets, settle_by_parts
from inbounds.numerics.rows import Chain

ROUNDING = 1e-14


def as_chain(matrix) -> Chain:
    rows = sp.csr_array(matrix)
    return Chain(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data)


def rooms(seed, sizes, link) -> np.ndarray:
    """Rooms of random moves, of which one state each leads to one of the next room, with about the probability `link`.

    Lazy, so that there is no period.
    """
    rng, total = np.random.default_rng(seed), sum(sizes)
    matrix, ends = np.zeros((total, total)), np.cumsum(sizes)
    for end, size in zip(ends, sizes, strict=True):
        block = rng.random((size, size)) * (rng.random((size, size)) < 5.0 / size) + np.eye(size)[rng.permutation(size)]
        matrix[end - size : end, end - size : end] = 0.5 * block / block.sum(axis=1, keepdims=True)
    matrix += 0.5 * np.eye(total)
    for room in range(len(sizes)):
        door, leads_to = ends[room] - 1, ends[(room + 1) % len(sizes)] - 2
        share = link * rng.uniform(0.1, 1.0)
        matrix[door] *= 1.0 - share
        matrix[door, leads_to] += share
    return matrix


@pytest.mark.parametrize("link", [1e-2, 1e-6, 1e-10, 1e-14])
@pytest.mark.parametrize("sizes", [(40, 60), (30, 50, 20, 70, 45)])
@pytest.mark.parametrize("seed", range(3))
def test_the_time_in_each_part_is_right_to_its_last_digits(sizes, link, seed):
    matrix = rooms(seed, sizes, link)
    expected, x = dense_stationary(matrix), np.zeros(len(matrix))
    assert settle_by_parts(as_chain(matrix), x, np.ones(len(x), dtype=bool), 1e-12, ROUNDING, 1_000)
    np.testing.assert_allclose(x, expected, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("seed", range(3))
def test_what_a_chain_forgets(seed):
    inside = np.ones(100, dtype=bool)
    assert forgets(as_chain(rooms(seed, (100,), 0.5)), inside, 1_000)
    for link in (1e-9, 1e-12, 1e-14):
        assert not forgets(as_chain(rooms(seed, (40, 60), link)), inside, 1_000)


def test_states_on_the_way_do_not_count():
    """A state that leads into the rooms, and is never come back to: no time is spent there."""
    matrix = np.zeros((101, 101))
    matrix[1:, 1:] = rooms(0, (40, 60), 1e-9)
    matrix[0, [0, 1]] = 0.999999, 1e-6
    inside, x = np.arange(101) > 0, np.zeros(101)
    assert settle_by_parts(as_chain(matrix), x, inside, 1e-12, ROUNDING, 1_000) and x[0] == 0.0
    np.testing.assert_allclose(x[1:], dense_stationary(matrix[1:, 1:]), rtol=1e-9)


def test_averages_where_elimination_is_beyond_reach(monkeypatch):
    """(Of two rooms of 3,000 states only that of the start was seen: 0 for .32.)"""
    monkeypatch.setattr(average, "plan_after", lambda spent, refused, starts, targets: (None, refused))
    matrix = rooms(1, (80, 60), 1e-9)
    cmdp = ib.CMDP(
        offsets=np.arange(141),
        transition=matrix,
        reward=(np.arange(140) >= 80).astype(float),
        constraints=[],
        initial=np.eye(140)[5],
        average=True,
    )
    expected = float(dense_stationary(matrix)[80:].sum())
    assert 0.05 < expected < 0.95
    assert ib.evaluate(cmdp, ib.Policy.uniform(cmdp)).reward == pytest.approx(expected, rel=1e-8)


def test_parts_that_differ_by_less_than_others_do():
    """A walk with three wells beside a random graph: two of the wells are worth nearly the same."""
    rng, up = np.random.default_rng(0), np.repeat([0.3, 0.6, 0.3, 0.75], 14)
    places = np.arange(56)
    walk, beside = np.zeros((56, 56)), np.zeros((20, 20))
    np.add.at(walk, (places, np.minimum(places + 1, 55)), up)
    np.add.at(walk, (places, np.maximum(places - 1, 0)), 1.0 - up)
    for place in range(20):
        beside[place, rng.choice(20, 5, replace=False)] = 0.2
    matrix = 0.9 * np.kron(walk, beside) + 0.1 * np.eye(56 * 20)
    time = np.cumprod(np.append(1.0, up[:-1] / (1.0 - up[1:])))
    x = np.zeros(len(matrix))
    assert settle_by_parts(as_chain(matrix), x, np.ones(len(x), dtype=bool), 1e-14, ROUNDING, 1_000)
    np.testing.assert_allclose(x.reshape(56, 20).sum(axis=1), time / time.sum(), rtol=1e-7)
