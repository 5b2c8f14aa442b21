"""Chains with parts that are hardly ever left, against state reduction of the whole chain."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import inbounds as ib
from inbounds.criteria import average
from inbounds.numerics import stationary
from inbounds.numerics.elimination import plan_after
from inbounds.numerics.rows import Chain
from inbounds.numerics.stationary import dense_stationary, forgets, settle_by_aggregation


def as_chain(matrix) -> Chain:
    rows = sp.csr_array(matrix)
    return Chain(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data)


def settled(matrix) -> np.ndarray:
    return settle_by_aggregation(as_chain(matrix), np.ones(matrix.shape[0], dtype=bool), 1e-14)


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
    np.testing.assert_allclose(settled(matrix), dense_stationary(matrix), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("link", [1e-3, 1e-7, 1e-11])
@pytest.mark.parametrize(("parts", "size"), [(300, 2), (150, 4), (140, 6)])
def test_hundreds_of_parts(parts, size, link):
    """(With one level of at most 256 parts, 32 of 162 such chains were wrong, by up to .13.)"""
    matrix = rooms(parts, [size] * parts, link)
    assert np.abs(settled(matrix) - dense_stationary(matrix)).sum() <= 1e-11


@pytest.mark.parametrize("seed", range(2))
def test_parts_of_parts(seed):
    """Rooms of houses of a street; as much goes in as out by every door, so that the truth is known."""
    rng = np.random.default_rng(seed)
    places = np.arange(4_000)
    room, house = places // 10, places // 100
    mass = rng.uniform(0.1, 1.0, 4_000) * (10.0 ** rng.uniform(-3, 0, 40))[house]
    doors, gates = places[::10], places[::100]
    one = np.concatenate([places, places, doors, gates])
    within = [10 * room + (places + step) % 10 for step in (1, 3)]
    other = np.concatenate([*within, 100 * house[doors] + (doors + 10) % 100, (gates + 100) % 4_000])
    often = np.repeat([1.0, 1e-5, 1e-10], [8_000, 400, 40]) * rng.uniform(0.1, 1.0, 8_440)
    flow = sp.csr_array((often * np.minimum(mass[one], mass[other]), (one, other)), shape=(4_000, 4_000))
    flow = sp.csr_array(flow + flow.T)
    time = flow.sum(axis=1)
    chain = as_chain(0.9 * sp.diags_array(1.0 / time) @ flow + 0.1 * sp.eye_array(4_000))
    found = settle_by_aggregation(chain, np.ones(4_000, dtype=bool), 1e-14)
    np.testing.assert_allclose(found, time / time.sum(), rtol=1e-9)


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
    x = settle_by_aggregation(as_chain(matrix), np.arange(101) > 0, 1e-12)
    assert x[0] == 0.0
    np.testing.assert_allclose(x[1:], dense_stationary(matrix[1:, 1:]), rtol=1e-9)


def two_rooms(matrix) -> ib.CMDP:
    """A model without a choice, that pays in its states from number 80 on."""
    return ib.CMDP(
        offsets=np.arange(141),
        transition=matrix,
        reward=(np.arange(140) >= 80).astype(float),
        constraints=[],
        initial=np.eye(140)[5],
        average=True,
    )


@pytest.fixture
def without_elimination(monkeypatch):
    monkeypatch.setattr(average, "plan_after", lambda spent, refused, starts, targets: (None, refused))


def test_averages_where_elimination_is_beyond_reach(without_elimination):
    """(Of two rooms of 3,000 states only that of the start was seen: 0 for .32.)"""
    matrix = rooms(1, (80, 60), 1e-9)
    cmdp, expected = two_rooms(matrix), float(dense_stationary(matrix)[80:].sum())
    assert 0.05 < expected < 0.95
    assert ib.evaluate(cmdp, ib.Policy.uniform(cmdp)).reward == pytest.approx(expected, rel=1e-8)


def test_an_average_that_does_not_settle_is_not_told(without_elimination, monkeypatch):
    monkeypatch.setattr(average, "settle_by_aggregation", lambda chain, inside, accuracy: None)
    cmdp = two_rooms(rooms(1, (80, 60), 1e-9))
    with pytest.raises(ib.Stopped, match="hardly ever leaves some parts of the model") as stopped:
        ib.evaluate(cmdp, ib.Policy.uniform(cmdp))
    assert stopped.value.status == "not settled"


def test_elimination_may_cost_more_where_aggregation_did_not_settle(monkeypatch):
    """As much as both attempts together: what was refused at first is then asked for once more."""
    matrix, asked = rooms(1, (80, 60), 1e-9), []

    def only_at_last(spent, refused, starts, targets):
        asked.append(spent)
        return plan_after(spent, refused, starts, targets) if len(asked) == 2 else (None, refused)

    monkeypatch.setattr(average, "plan_after", only_at_last)
    monkeypatch.setattr(average, "settle_by_aggregation", lambda chain, inside, accuracy: None)
    cmdp, expected = two_rooms(matrix), float(dense_stationary(matrix)[80:].sum())
    assert ib.evaluate(cmdp, ib.Policy.uniform(cmdp)).reward == pytest.approx(expected, rel=1e-12)
    assert len(asked) == 2 and asked[1] > 10.0 * asked[0]


def test_two_attempts_have_to_agree(monkeypatch):
    """One round each, called the end: what each of them then says is its own."""
    monkeypatch.setattr(stationary, "_settled", lambda moves, x, accuracy: x)
    assert settled(rooms(1, (80, 60), 1e-9)) is None
    monkeypatch.setattr(stationary, "_settled", lambda moves, x, accuracy: None)
    assert settled(rooms(1, (80, 60), 1e-9)) is None


def test_moves_that_vanish_in_a_product_are_refused():
    matrix = rooms(1, (80, 60), 1e-9)
    for door, other in ((79, 138), (139, 78)):
        matrix[door] = 0.0
        matrix[door, [door, other]] = 1.0, 1e-323
    assert settled(matrix) is None


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
    np.testing.assert_allclose(settled(matrix).reshape(56, 20).sum(axis=1), time / time.sum(), rtol=1e-7)
