"""The numbering of states and actions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inbounds as ib
from inbounds.problem.pairs import Pairs


@st.composite
def layouts(draw):
    """The actions of each state: 1 to 4 of 0..5, in any order."""
    n_states = draw(st.integers(1, 6))
    return [draw(st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True)) for _ in range(n_states)]


@given(layouts())
def test_layout(rows):
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    flat = [action for row in rows for action in row]
    pairs = Pairs.create(offsets, flat)
    assert (pairs.n_states, pairs.n_pairs, pairs.n_actions) == (len(rows), len(flat), max(flat) + 1)
    assert pairs.states.tolist() == [state for state, row in enumerate(rows) for _ in row]
    values = np.arange(len(flat)) + 1.0
    assert pairs.sum_by_state(values).tolist() == [
        sum(values[offsets[state] : offsets[state + 1]]) for state in range(len(rows))
    ]
    table = pairs.table(values, missing=-1.0)
    assert table.shape == (pairs.n_states, pairs.n_actions)
    for state, row in enumerate(rows):
        assert {action for action in range(pairs.n_actions) if table[state, action] != -1.0} == set(row)
    assert np.array_equal(pairs.vector(table), values)


def test_actions_are_counted_from_zero_by_default():
    assert Pairs.create([0, 2, 3, 6]).actions.tolist() == [0, 1, 0, 0, 1, 2]


def test_labels():
    pairs = Pairs.create([0, 2, 3], [2, 0, 1], state_labels=["on", ("off", 1)], action_labels=["x", "y", "z", "unused"])
    assert pairs.n_actions == 4
    assert [pairs.action_label(pair) for pair in range(3)] == ["z", "x", "y"]
    assert pairs.describe(2) == "state ('off', 1), action 'y'"
    assert Pairs.create([0, 2, 3]).describe(2) == "state 1, action 0"


def test_arrays_are_copied_and_read_only():
    offsets, actions = np.array([0, 2, 3]), np.array([1, 0, 0])
    pairs = Pairs.create(offsets, actions)
    offsets[:], actions[:] = 9, 9
    assert pairs.offsets.tolist() == [0, 2, 3]
    assert pairs.actions.tolist() == [1, 0, 0]
    for array in (pairs.offsets, pairs.actions, pairs.states):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"offsets": [0]}, "the problem has no states"),
        ({"offsets": []}, "the problem has no states"),
        ({"offsets": [1, 2]}, "offsets must start at 0, found 1"),
        ({"offsets": [0.0, 1.0]}, "offsets must be a vector of whole numbers, found float64"),
        ({"offsets": [[0, 1]]}, "offsets must be a vector of whole numbers"),
        ({"offsets": [[0], [1, 2]]}, "offsets must be a vector of whole numbers"),
        ({"offsets": None}, "offsets must be a vector of whole numbers"),
        ({"offsets": [0, 2, 1], "state_labels": ["s", "t"]}, "offsets must not decrease, but do at state 't'"),
        ({"offsets": [0, 1, 1], "state_labels": ["s", "t"]}, "state 't' has no actions"),
        ({"offsets": [0, 1, 1]}, "state 1 has no actions"),
        ({"offsets": [0, 1], "state_labels": ["s", "t"]}, "state_labels must have 1 entries, found 2"),
        ({"offsets": [0, 1, 2], "state_labels": ["s", "s"]}, "state_labels must be distinct, but 's' occurs twice"),
        ({"offsets": [0, 1], "state_labels": [["s"]]}, r"state_labels must be hashable, found \['s'\]"),
        ({"offsets": [0, 2], "actions": [0]}, "actions must have 2 entries, one per pair, found 1"),
        ({"offsets": [0, 1], "actions": [-1]}, "actions must not be negative"),
        ({"offsets": [0, 1], "actions": [0.5]}, "actions must be a vector of whole numbers"),
        ({"offsets": [0, 2], "actions": [1, 1]}, "state 0 lists action 1 twice"),
        (
            {"offsets": [0, 1, 3], "actions": [0, 1, 1], "state_labels": list("st"), "action_labels": list("xy")},
            "state 't' lists action 'y' twice",
        ),
        ({"offsets": [0, 1, 2], "state_labels": "st"}, "state_labels must be a list of labels, found 'st'"),
        ({"offsets": [0, 2], "action_labels": "xy"}, "action_labels must be a list of labels, found 'xy'"),
        ({"offsets": [0, 2], "action_labels": ["x"]}, r"action_labels must name every action 0\.\.1, found 1"),
        ({"offsets": [0, 2], "action_labels": ["x", "x"]}, "action_labels must be distinct, but 'x' occurs twice"),
    ],
)
def test_wrong_layouts_are_refused(arguments, message):
    with pytest.raises(ib.InvalidInput, match=message):
        Pairs.create(**arguments)


def test_tables_of_the_wrong_shape_are_refused():
    with pytest.raises(ib.InvalidInput, match=r"the rent must have shape \[S, A\] = \(2, 2\), found \(2, 3\)"):
        Pairs.create([0, 2, 3]).vector(np.zeros((2, 3)), "the rent")


def test_labels_that_cannot_be_found_again_are_refused() -> None:
    for label in (math.nan, (1, (2, math.nan)), np.datetime64("NaT")):
        with pytest.raises(ib.InvalidInput, match="state_labels must be equal to themselves, to be found again"):
            Pairs.create([0, 1, 2], state_labels=[0, label])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda pairs: pairs.sum_by_state(np.ones(200)),
            r"values must have 96 entries, one per pair, found shape \(200",
        ),
        (lambda pairs: pairs.sum_by_state(np.ones((96, 2))), "values must have 96 entries"),
        (lambda pairs: pairs.sum_by_state(1.0), "values must have 96 entries"),
        (lambda pairs: pairs.sum_by_state("x"), "values must be numbers"),
        (lambda pairs: pairs.table(np.ones(3)), "values must have 96 entries"),
        (lambda pairs: pairs.table(np.ones((2, 96))), "values must be a vector over pairs"),
        (lambda pairs: pairs.best(np.ones(3)), "values must have 96 entries"),
        (lambda pairs: pairs.best(np.ones((2, 96))), "values must be a vector over pairs"),
        (lambda pairs: pairs.actions_of(-1), "state must be a whole number of at least 0"),
        (lambda pairs: pairs.actions_of(6), "state must be a whole number of at most 5"),
        (lambda pairs: pairs.state_label(999), "state must be a whole number of at most 5"),
        (lambda pairs: pairs.state_label("a"), "state must be a whole number"),
        (lambda pairs: pairs.action_label(96), "pair must be a whole number of at most 95"),
        (lambda pairs: pairs.describe(-1), "pair must be a whole number of at least 0"),
    ],
)
def test_what_is_of_another_problem_is_refused(ask, message):
    pairs = ib.zoo.queue().pairs
    assert (pairs.n_states, pairs.n_pairs) == (6, 96)
    with pytest.raises(ib.InvalidInput, match=message):
        ask(pairs)


def test_numbers_of_states_and_pairs_may_be_those_of_numpy():
    pairs = ib.zoo.queue().pairs
    assert pairs.state_label(np.int64(3)) == 3 and pairs.actions_of(np.int32(0)) == pairs.actions_of(0)
    assert pairs.sum_by_state(np.ones((2, 96))).shape == (2, 6) and pairs.sum_by_state([1] * 96).sum() == 96.0


def test_what_is_missing_in_a_table_may_be_nan_and_must_be_a_number():
    ragged = Pairs.create([0, 1, 3])
    assert np.isnan(ragged.table([1.0, 2.0, 3.0], missing=np.nan)[0, 1])
    for odd in ("0.5", None, 1j, [0.0], np.datetime64(1, "D")):
        with pytest.raises(ib.InvalidInput, match="missing must be a number"):
            ragged.table([1.0, 2.0, 3.0], missing=odd)


def test_a_table_is_of_numbers():
    pairs = Pairs.create([0, 2, 4])
    for odd in (
        1j * np.ones((2, 2)),
        np.ma.masked_all((2, 2)),
        [["1", "2"]] * 2,
        [[None, 1.0]] * 2,
        [[10**400, 1]] * 2,
    ):
        with pytest.raises(ib.InvalidInput, match="the table must be numbers"):
            pairs.vector(odd)
