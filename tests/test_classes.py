"""Classes of states: against closures of small graphs computed by brute force, and against examples by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from inbounds.numerics.classes import (
    classes_of,
    graph_of,
    graph_of_all_moves,
    moves_from,
    walk_to,
    where_a_policy_can_return,
    where_a_policy_can_stay,
)
from inbounds.numerics.rows import Chain, Rows, rows_of


def rows(offsets, moves) -> Rows:
    return rows_of(np.asarray(offsets), sp.csr_array(np.asarray(moves, dtype=float)))


def chain(moves) -> Chain:
    matrix = sp.csr_array(np.asarray(moves, dtype=float))
    return Chain(matrix.indptr, matrix.indices.view(np.uint32), matrix.data)


@st.composite
def models(draw: st.DrawFn, max_states: int = 6) -> Rows:
    """Each state with one to three pairs, each pair with one to three next states."""
    n_states = draw(st.integers(1, max_states))
    counts = draw(st.lists(st.integers(1, 3), min_size=n_states, max_size=n_states))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    moves = np.zeros((int(offsets[-1]), n_states))
    for row in moves:
        row[draw(st.lists(st.integers(0, n_states - 1), min_size=1, max_size=3))] += draw(st.sampled_from([1.0, 2.0]))
    return rows(offsets, moves / moves.sum(axis=1, keepdims=True))


def dense(model: Rows) -> np.ndarray:
    """[n, S]"""
    shape = (len(model.starts) - 1, len(model.offsets) - 1)
    return sp.csr_array((model.probabilities, model.targets.view(np.int32), model.starts), shape=shape).toarray()


def owners(model: Rows) -> np.ndarray:
    return np.repeat(np.arange(len(model.offsets) - 1), np.diff(model.offsets))


def leads(model: Rows) -> np.ndarray:
    """bool [S, S]: whether some policy can get from one state to the other, in any number of steps, 0 included."""
    n_states = len(model.offsets) - 1
    reach = np.eye(n_states, dtype=bool)
    np.logical_or.at(reach, owners(model), dense(model) > 0.0)
    for _ in range(n_states):
        reach = reach @ reach
    return reach


@given(model=models())
def test_the_classes_are_those_of_the_closure(model):
    reach, found = leads(model), classes_of(graph_of_all_moves(model))
    together = reach & reach.T
    assert np.array_equal(found.label[:, None] == found.label[None, :], together)
    for state, label in enumerate(found.label):
        assert found.closed[label] == np.array_equal(reach[state], together[state])


@given(model=models(), data=st.data())
def test_the_fewest_moves(model, data):
    n_states = len(model.offsets) - 1
    begin = np.array(data.draw(st.lists(st.booleans(), min_size=n_states, max_size=n_states)))
    step = np.zeros((n_states, n_states), dtype=bool)
    np.logical_or.at(step, owners(model), dense(model) > 0.0)
    expected, at, count = np.full(n_states, -1), begin.copy(), 0
    while np.any(at & (expected < 0)):
        expected[at & (expected < 0)] = count
        at, count = at @ step, count + 1
    assert np.array_equal(moves_from(graph_of_all_moves(model), begin), expected)


@given(model=models(), data=st.data())
def test_the_walk_takes_the_likeliest_step_closer(model, data):
    n_states = len(model.offsets) - 1
    goal = np.array(data.draw(st.lists(st.booleans(), min_size=n_states, max_size=n_states)))
    backwards = graph_of_all_moves(model).T.tocsr()
    level, chosen, moves = moves_from(backwards, goal), walk_to(model, backwards, goal), dense(model)
    for state, pair in enumerate(chosen):
        first, last = model.offsets[state : state + 2]
        assert first <= pair < last
        if level[state] > 0:
            chances = moves[first:last, level == level[state] - 1].sum(axis=1)
            assert chances[pair - first] == pytest.approx(chances.max())
            assert chances.max() > 0.0
        else:
            assert pair == first


@given(model=models(), data=st.data())
def test_where_a_policy_can_stay_is_the_largest_such_set(model, data):
    n_states = len(model.offsets) - 1
    candidates = np.array(data.draw(st.lists(st.booleans(), min_size=n_states, max_size=n_states)))
    moves, expected = dense(model) > 0.0, np.zeros(n_states, dtype=bool)
    for members in itertools.product([False, True], repeat=n_states):
        inside = np.array(members) & candidates
        stays = ~np.any(moves & ~inside, axis=1)
        if all(np.any(stays[model.offsets[s] : model.offsets[s + 1]]) for s in np.flatnonzero(inside)):
            expected |= inside  # the union of two such sets is one
    assert np.array_equal(where_a_policy_can_stay(model, candidates), expected)


@given(model=models(), data=st.data())
def test_a_policy_can_come_back_to_where_it_can_return_and_all_else_can_lead_there(model, data):
    """Against all sets in which the pairs that stay lead from everywhere to everywhere."""
    n_states = len(model.offsets) - 1
    candidates = np.array(data.draw(st.lists(st.booleans(), min_size=n_states, max_size=n_states)))
    within, moves = where_a_policy_can_stay(model, candidates), dense(model) > 0.0
    held = where_a_policy_can_return(model, within)
    some = np.zeros(n_states, dtype=bool)
    for members in itertools.product([False, True], repeat=n_states):
        inside = np.array(members)
        stays = inside[owners(model)] & ~np.any(moves & ~inside, axis=1)
        reach = np.eye(n_states, dtype=bool)
        np.logical_or.at(reach, owners(model)[stays], moves[stays])
        reach = np.linalg.matrix_power(reach, n_states) > 0
        taken = np.isin(np.arange(n_states), owners(model)[stays])
        if np.any(inside) and np.all(reach[np.ix_(inside, inside)]) and np.array_equal(taken, inside):
            some |= inside & ~np.any(inside & ~within)
    assert np.array_equal(held & some, held)
    stays = within[owners(model)] & ~np.any(moves & ~within, axis=1)
    onward = np.eye(n_states, dtype=bool)
    np.logical_or.at(onward, owners(model)[stays], moves[stays])
    assert np.all((np.linalg.matrix_power(onward, n_states) @ held)[within])


def test_an_entry_that_is_zero_is_no_move():
    starts, targets = np.array([0, 2, 4]), np.array([0, 1, 1, 0], dtype=np.uint32)
    linked = Chain(starts, targets, np.array([0.5, 0.5, 1.0, 1e-300]))
    apart = Chain(starts, targets, np.array([1.0, 0.0, 1.0, 0.0]))
    assert len(classes_of(graph_of(linked)).closed) == 1
    assert classes_of(graph_of(apart)).closed.tolist() == [True, True]
    both = Rows(np.array([0, 1, 2]), *apart)
    assert where_a_policy_can_stay(both, np.array([True, False])).tolist() == [True, False]


def test_a_move_that_stands_there_twice_is_one_move():
    """SciPy's search for strong components does not end on such graphs, or finds too many."""
    n_states, rng = 300, np.random.default_rng(0)
    targets = np.concatenate([np.r_[[(s + 1) % n_states] * 3, rng.integers(0, n_states, 37)] for s in range(n_states)])
    repeated = Chain(np.arange(n_states + 1) * 40, targets.astype(np.uint32), np.full(40 * n_states, 1 / 40))
    assert len(classes_of(graph_of(repeated)).closed) == 1


def test_long_ways_take_no_longer_than_their_length():
    n_states = 20_000
    states = np.arange(n_states)
    corridor = Rows(
        np.arange(n_states + 1),
        np.arange(n_states + 1),
        np.maximum(states - 1, 0).astype(np.uint32),
        np.ones(n_states),
    )
    goal = states == 0
    assert np.array_equal(moves_from(graph_of_all_moves(corridor).T.tocsr(), goal), states)
    assert not where_a_policy_can_stay(corridor, ~goal).any()
    assert where_a_policy_can_stay(corridor, states >= 0).all()
