"""The model: what it computes, and one test for every rule of its validation."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given

import inbounds as ib
import strategies
from inbounds.criteria import criterion_of
from inbounds.inputs import SUM_TOLERANCE

STATES, ACTIONS = ("dawn", "dusk"), ("walk", "wait")


def dense(**changes):
    """Two states, two actions, with labels; `changes` replace what a test is about."""
    arguments = {
        "transition": np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]]),
        "reward": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "constraints": [ib.Constraint(np.array([[1.0, 0.0], [0.0, 2.0]]), at_most=0.5, name="noise")],
        "initial": np.array([0.5, 0.5]),
        "discount": 0.9,
        "state_labels": STATES,
        "action_labels": ACTIONS,
        **changes,
    }
    return ib.CMDP.from_dense(arguments.pop("transition"), **arguments)


def native(**changes):
    arguments = {
        "offsets": [0, 2, 3],
        "transition": [[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]],
        "reward": [1.0, 2.0, 3.0],
        "constraints": (ib.Constraint([1.0, 0.0, 0.0], at_least=0.25, name="light"),),
        "initial": [0.5, 0.5],
        "discount": 0.9,
        "state_labels": STATES,
        "action_labels": ACTIONS,
        **changes,
    }
    return ib.CMDP(**arguments)


def refused(message):
    return pytest.raises(ib.InvalidInput, match=message)


def changed(array, index, value):
    copy = np.array(array, dtype=float)
    copy[index] = value
    return copy


TRANSITION = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]])


# What it computes


def test_sizes_and_names():
    cmdp = dense(name="day")
    assert (cmdp.n_states, cmdp.n_pairs, cmdp.n_constraints) == (2, 4, 1)
    assert repr(cmdp) == "CMDP(day: 2 states, 4 pairs, 1 constraint, discount 0.9)"
    assert repr(native(constraints=())) == "CMDP(2 states, 3 pairs, 0 constraints, discount 0.9)"


def test_margins_have_the_sign_of_the_bound():
    signal = np.array([[1.0, 0.0], [0.0, 2.0]])
    cmdp = dense(
        constraints=[ib.Constraint(signal, at_most=0.5, name="a"), ib.Constraint(signal, at_least=0.5, name="b")]
    )
    assert cmdp.margins.tolist() == [[-0.5, 0.5, 0.5, -1.5], [0.5, -0.5, -0.5, 1.5]]
    assert cmdp.margin_scales.tolist() == [1.5, 1.5]
    assert dense(constraints=[]).margins.shape == (0, 4)
    assert dense(constraints=[]).margin_scales.shape == (0,)
    assert dense(constraints=[ib.Constraint(np.full((2, 2), 0.5), at_most=0.5)]).margin_scales.tolist() == [0.5]
    assert dense(constraints=[ib.Constraint(np.zeros((2, 2)), at_most=0.0)]).margin_scales.tolist() == [1.0]


def test_a_signal_that_equals_its_bound_up_to_rounding_is_in_bounds_but_not_provably():
    """0.1 + 0.2 exceeds 0.3 by half a rounding; that is no violation, and no proof."""
    cmdp = dense(constraints=[ib.Constraint(np.full((2, 2), 0.1 + 0.2), at_most=0.3, name="sum")])
    assert cmdp.margins.max() < 0.0
    assert cmdp.margin_scales.tolist() == [0.1 + 0.2]
    found = ib.solve(cmdp)
    assert ib.evaluate(cmdp, found.policy).in_bounds
    assert not found.in_bounds and found.status == "not proved"


def test_allowed_leaves_pairs_out_and_ignores_what_is_there():
    allowed = np.array([[True, False], [True, True]])
    transition, reward = changed(TRANSITION, (0, 1), math.nan), np.array([[1.0, math.inf], [3.0, 4.0]])
    cmdp = dense(transition=transition, reward=reward, constraints=[], allowed=allowed)
    assert cmdp.offsets.tolist() == [0, 1, 3]
    assert cmdp.actions.tolist() == [0, 0, 1]
    assert cmdp.reward.tolist() == [1.0, 3.0, 4.0]
    assert cmdp.transition.toarray().tolist() == [[0.5, 0.5], [0.0, 1.0], [0.25, 0.75]]


def test_the_native_and_the_dense_form_agree():
    from_dense = dense(constraints=[], allowed=[[True, True], [True, False]])
    written = native(constraints=())
    assert np.array_equal(from_dense.transition.toarray(), written.transition.toarray())
    for name in ("offsets", "reward", "initial", "actions"):
        assert np.array_equal(getattr(from_dense, name), getattr(written, name))


@pytest.mark.parametrize(("criterion", "total"), [({"discount": 0.75}, 12.0), ({"horizon": 4}, 3.0)])
def test_totals(criterion, total):
    problem = dense(**({"discount": None} | criterion))
    assert problem.criterion == criterion
    assert criterion_of(problem).total(3.0) == total


@pytest.mark.parametrize(
    "criterion",
    [{}, {"discount": 0.5, "horizon": 3}, {"horizon": 3, "average": True}, {"discount": 0.5, "average": True}],
)
def test_exactly_one_criterion(criterion):
    with refused(r"exactly one of discount=, horizon= and average=True"):
        dense(**({"discount": None} | criterion))


def test_criteria_are_checked():
    with refused(r"discount must be in \[0, 1\), found 1.0; for long-run averages, give average=True instead"):
        dense(discount=1)
    with refused(r"average must be True or left out, found 'yes'"):
        dense(discount=None, average="yes")
    assert repr(dense(discount=None, average=True)).endswith("long-run average)")
    assert repr(dense(discount=math.nextafter(1.0, 0.0))).endswith("discount 0.9999999999999999)")
    assert repr(dense(discount=0.1 + 0.2)).endswith("discount 0.30000000000000004)")


def test_tightened_lowers_every_margin_and_nothing_else():
    signal = np.array([[1.0, 0.0], [0.0, 2.0]])
    cmdp = dense(
        constraints=[ib.Constraint(signal, at_most=0.5, name="a"), ib.Constraint(signal, at_least=0.25, name="b")]
    )
    assert np.allclose(cmdp.tightened(0.125).margins, cmdp.margins - 0.125, atol=1e-15)
    both = cmdp.tightened([0.125, -0.5])
    assert np.allclose(both.margins, cmdp.margins - np.array([[0.125], [-0.5]]), atol=1e-15)
    assert [c.bound for c in both.constraints] == [0.375, -0.25]
    assert np.array_equal(both.reward, cmdp.reward)
    with refused("what the problem is tightened by must have 2 entries"):
        cmdp.tightened([0.1, 0.2, 0.3])
    with refused("constraint 'a': tightened by what must be a finite number, found nan"):
        cmdp.tightened(math.nan)


@given(strategies.cmdps())
def test_every_drawn_model_is_stochastic_and_survives_a_copy(cmdp):
    assert np.allclose(cmdp.transition.sum(axis=1), 1.0, atol=1e-15)
    copy = dataclasses.replace(cmdp)
    assert np.array_equal(copy.transition.toarray(), cmdp.transition.toarray())
    assert np.array_equal(copy.initial, cmdp.initial)
    assert np.array_equal(copy.margins, cmdp.margins)


@pytest.mark.parametrize("seed", range(5))
def test_normalising_twice_changes_nothing(seed):
    """Generic rows of many lengths: the second copy has the same bits as the first."""
    rng = np.random.default_rng(seed)
    for n_states in (1, 2, 3, 10, 100):
        rows = rng.dirichlet(np.ones(n_states), size=n_states) * (1.0 + 1e-10 * rng.uniform(-1, 1, (n_states, 1)))
        first = ib.CMDP(np.arange(n_states + 1), rows, np.zeros(n_states), (), rows[0], discount=0.5)
        second = dataclasses.replace(first)
        assert np.array_equal(first.transition.toarray(), second.transition.toarray())
        assert np.array_equal(first.initial, second.initial)
        assert np.max(np.abs(first.transition.sum(axis=1) - 1.0)) <= 2.0**-52 * n_states


# Its data


def test_inputs_are_untouched_and_arrays_read_only():
    offsets, transition = np.array([0, 2, 3]), sp.csr_array(np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]]))
    reward, initial, signal = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.5 + 1e-10]), np.array([1.0, 0.0, 0.0])
    transition.data[0] += 1e-10
    before = [array.copy() for array in (offsets, transition.data, reward, initial, signal)]
    constraint = ib.Constraint(signal, at_least=0.25)
    cmdp = native(offsets=offsets, transition=transition, reward=reward, initial=initial, constraints=(constraint,))
    for array, old in zip((offsets, transition.data, reward, initial, signal), before, strict=True):
        assert np.array_equal(array, old)
        assert array.flags.writeable
    assert constraint.name == ""
    matrix = cmdp.transition
    arrays = (cmdp.offsets, cmdp.actions, cmdp.reward, cmdp.initial, cmdp.margins, cmdp.margin_scales)
    for array in (*arrays, cmdp.constraints[0].signal, matrix.data, matrix.indices, matrix.indptr):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        cmdp.discount = 0.5


def test_repeated_and_zero_entries_of_a_sparse_matrix():
    transition = sp.coo_array(
        ([0.25, 0.25, 0.5, 1.0, 1.0, 0.0], ([0, 0, 0, 1, 2, 2], [0, 0, 1, 0, 1, 0])), shape=(3, 2)
    )
    cmdp = native(transition=transition)
    assert cmdp.transition.toarray().tolist() == [[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]]
    assert cmdp.transition.nnz == 4


# Probabilities


def test_a_row_within_the_tolerance_is_renormalised():
    transition = changed(TRANSITION, (1, 1, 0), 0.25 + 0.9 * SUM_TOLERANCE)
    cmdp = dense(transition=transition)
    assert abs(cmdp.transition.sum(axis=1)[3] - 1.0) < 1e-15
    assert cmdp.transition[3, 0] == pytest.approx((0.25 + 0.9 * SUM_TOLERANCE) / (1.0 + 0.9 * SUM_TOLERANCE), abs=1e-16)


@pytest.mark.parametrize("off", [1.1e-9, -1.1e-9])
def test_a_row_beyond_the_tolerance_is_refused(off):
    transition = changed(TRANSITION, (1, 1, 0), 0.25 + off)
    with refused(f"state 'dusk', action 'wait': the probabilities of the next state sum to {1.0 + off:.12g}"):
        dense(transition=transition)


def test_a_row_of_zeros_is_refused_and_others_are_counted():
    transition = changed(changed(TRANSITION, (0, 1), 0.0), (1, 0), 0.0)
    with refused(r"state 'dawn', action 'wait': .* sum to 0; they must sum to 1 \(and 1 more like it\)"):
        dense(transition=transition)


def test_a_negative_probability_is_refused_even_when_the_row_sums_to_one():
    transition = changed(TRANSITION, (1, 1), [-0.25, 1.25])
    with refused(
        "state 'dusk', action 'wait': the probability of moving to state 'dawn' is -0.25; it must be a number"
    ):
        dense(transition=transition)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_probability_that_is_not_finite_is_refused(value):
    with refused(f"state 'dawn', action 'walk': the probability of moving to state 'dusk' is {value}"):
        dense(transition=changed(TRANSITION, (0, 0, 1), value))


# Shapes


@pytest.mark.parametrize("shape", [(2, 2), (2, 2, 3), (0, 2, 0), (2, 0, 2)])
def test_a_dense_transition_of_the_wrong_shape_is_refused(shape):
    with refused(rf"transition must have shape \[S, A, S\], found \({', '.join(map(str, shape))}"):
        dense(transition=np.ones(shape))


def test_a_transition_that_is_not_numbers_is_refused():
    with refused("transition must be numbers"):
        dense(transition="north")
    with refused("transition must be a sparse or dense matrix"):
        native(transition=[["north"]])


def test_a_native_transition_of_the_wrong_shape_is_refused():
    with refused(r"transition must have shape \[n, S\] = \(3, 2\), one row per pair, found \(2, 2\)"):
        native(transition=np.eye(2))


def test_a_reward_of_the_wrong_shape_is_refused():
    with refused(r"reward must have shape \[S, A\] = \(2, 2\) or \[S, A, S\] = \(2, 2, 2\), found \(2, 3\)"):
        dense(reward=np.zeros((2, 3)))
    with refused(r"the reward must have 3 entries, one per pair, found shape \(2,\)"):
        native(reward=[1.0, 2.0])
    with refused("reward must be numbers, found list"):
        dense(reward=[["a", "b"], ["c", "d"]])
    with refused("reward must be numbers, found list"):
        native(reward=["a", "b", "c"])


def test_a_signal_of_the_wrong_shape_is_refused():
    with refused(r"constraint 'noise' must have shape \[S, A\] = \(2, 2\) or \[S, A, S\] = \(2, 2, 2\), found \(4,\)"):
        dense(constraints=[ib.Constraint(np.zeros(4), at_most=0.0, name="noise")])
    with refused(r"the signal of constraint 'light' must have 3 entries, one per pair, found shape \(2,\)"):
        native(constraints=[ib.Constraint([0.0, 1.0], at_most=0.0, name="light")])
    with refused("the signal of constraint 'constraint 1' must have 3 entries"):
        native(constraints=[ib.Constraint([0.0] * 3, at_most=0.0), ib.Constraint([0.0], at_most=0.0)])
    with refused("the signal of constraint 'light' must be numbers, found function"):
        native(constraints=[ib.Constraint(lambda state, action: 0.0, at_most=0.0, name="light")])


def test_allowed_of_the_wrong_shape_or_kind_is_refused():
    with refused(r"allowed must be booleans of shape \[S, A\] = \(2, 2\), found bool of shape \(2, 1\)"):
        dense(allowed=[[True], [True]])
    with refused("allowed must be booleans .* found int64"):
        dense(allowed=np.ones((2, 2), dtype=np.int64))


# Reward and signals


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_reward_and_signals_must_be_finite(value):
    table = changed(np.zeros((2, 2)), (1, 0), value)
    with refused(f"state 'dusk', action 'walk': the reward is {value}; it must be finite"):
        dense(reward=table)
    with refused(f"state 'dusk', action 'walk': the signal of constraint 'noise' is {value}; it must be finite"):
        dense(constraints=[ib.Constraint(table, at_most=0.5, name="noise")])


# States, start, discount


def test_a_state_without_actions_is_refused():
    with refused("state 'dawn' has no actions"):
        dense(allowed=[[False, False], [True, True]])
    with refused("state 'dusk' has no actions"):
        native(offsets=[0, 3, 3])


@pytest.mark.parametrize("discount", [1.0, -0.1, 1.5, math.nan, math.inf])
def test_a_discount_outside_its_range_is_refused(discount):
    with refused(rf"discount must be in \[0, 1\), found {discount}"):
        dense(discount=discount)


def test_a_discount_that_is_no_number_is_refused():
    with refused("discount must be a number in .* found 'high'"):
        dense(discount="high")


def test_discount_zero_is_accepted():
    assert dense(discount=0).discount == 0.0


def test_an_initial_distribution_of_the_wrong_length_is_refused():
    with refused(r"initial must have 2 entries, found shape \(3,\)"):
        dense(initial=[0.5, 0.25, 0.25])


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        ([0.5, 0.6], "initial must sum to 1, found 1.1"),
        ([0.5, 0.5 + 2e-9], "initial must sum to 1, found 1.000000002"),
        ([1.5, -0.5], "initial gives state 'dusk' the probability -0.5"),
        ([math.nan, 1.0], "initial gives state 'dawn' the probability nan"),
        (["all", "none"], "initial must be numbers"),
    ],
)
def test_a_wrong_initial_distribution_is_refused(initial, message):
    with refused(message):
        dense(initial=initial)


def test_an_initial_distribution_within_the_tolerance_is_renormalised():
    assert abs(dense(initial=[0.5, 0.5 + 0.9e-9]).initial.sum() - 1.0) < 1e-15


# Constraints


def test_a_constraint_has_exactly_one_bound():
    for bounds in ({}, {"at_least": 0.0, "at_most": 1.0}):
        with refused("constraint 'noise' needs exactly one of at_least= and at_most="):
            ib.Constraint(name="noise", **bounds)


@pytest.mark.parametrize("side", ["at_least", "at_most"])
@pytest.mark.parametrize("bound", [math.nan, math.inf, -math.inf, "much"])
def test_a_bound_is_finite(side, bound):
    with refused(f"constraint 'noise' has the bound {bound!r}; it must be a finite number"):
        ib.Constraint(name="noise", **{side: bound})


def test_names_of_constraints():
    zeros = np.zeros((2, 2))
    unnamed = dense(constraints=[ib.Constraint(zeros, at_most=1.0), ib.Constraint(zeros, at_most=1.0)])
    assert [c.name for c in unnamed.constraints] == ["constraint 0", "constraint 1"]
    twice = [ib.Constraint(zeros, at_most=1.0, name="noise"), ib.Constraint(zeros, at_least=0.0, name="noise")]
    with refused("two constraints are called 'noise'"):
        dense(constraints=twice)


def test_constraints_are_records():
    with refused("constraints must be ib.Constraint records, found str at position 0"):
        native(constraints=["noise"])
    with refused("constraints must be ib.Constraint records, found str at position 0"):
        dense(constraints=["noise"])


def test_margins_and_tightening_of_one_constraint():
    ceiling, floor = ib.Constraint(at_most=2.0, name="c"), ib.Constraint(at_least=2.0, name="f")
    assert (ceiling.margin(1.5), floor.margin(1.5)) == (0.5, -0.5)
    assert (ceiling.tightened(0.5).bound, floor.tightened(0.5).bound) == (1.5, 2.5)
    assert (repr(ceiling), repr(floor)) == ("Constraint('c', at_most=2)", "Constraint('f', at_least=2)")


@pytest.mark.parametrize("bound", [0.1, 2.0, 1e6, 1_234_567.0, -0.4115226, 0.1 + 0.2, 1 / 3, -1e-300, 1e17 + 16])
def test_a_bound_in_words_is_that_bound(bound: float):
    """(1,234,567 was shown as 1.23457e+06, which is 3 more.)"""
    words = ib.Constraint(at_most=bound).in_words
    assert float(words.removeprefix("<= ")) == bound and len(words) <= len(f"<= {bound!r}")


def test_wrong_labels_are_refused():
    with refused("state_labels must have 2 entries, found 1"):
        dense(state_labels=["dawn"])
    with refused("action_labels must be distinct, but 'walk' occurs twice"):
        dense(action_labels=["walk", "walk"])


@pytest.mark.parametrize(
    "reward",
    [
        ["1", "2"],
        [b"1", b"2"],
        [1, "2"],
        np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"),
        np.ma.array([1.0, 2.0], mask=[False, True]),
        [1j, 0.0],
        [10**400, 0],
    ],
    ids=["texts", "bytes", "one text", "dates", "masked", "complex", "beyond floats"],
)
def test_what_numpy_would_turn_into_numbers_is_not_taken_for_them(reward):
    with refused("the reward must be numbers"):
        ib.CMDP(offsets=[0, 2], transition=[[1.0], [1.0]], reward=reward, constraints=[], initial=[1.0], discount=0.5)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (lambda queue: ib.evaluate("queue", ib.Policy.uniform(queue)), "takes a known model, a CMDP; found str"),
        (lambda queue: ib.slater("queue"), "slater takes a known model"),
        (lambda queue: ib.truncate("queue", 0.1), "truncate takes a known model"),
        (lambda queue: ib.compare(None), "compare takes a known model"),
        (lambda queue: ib.solve(queue, tolerance="1"), "tolerance must be a number above 0"),
        (lambda queue: ib.slater(queue, tolerance=float("nan")), "tolerance must be a number above 0"),
        (lambda queue: ib.zoo.queue(discount="0.9"), "discount must be a number"),
        (lambda queue: ib.plan(queue, epsilon=1e-300), "no number says how many samples"),
        (lambda queue: ib.plan(queue, epsilon=10**400), "epsilon must be a number"),
        (lambda queue: ib.learn_certified(queue.simulator(), samples=9, confidence=10**400), "confidence must be"),
        (lambda queue: ib.learn_certified(queue.simulator(), samples=9, confidence="0.9"), "confidence must be"),
        (lambda queue: ib.build(0, list, dict, reward=max, discount=0.5, max_states=0), "max_states must be"),
    ],
)
def test_questions_refuse_what_is_none_of_theirs(question, message):
    with refused(message):
        question(ib.zoo.queue())


# ---- the same problem, and another bound


@pytest.mark.parametrize("suffix", ["npz", "toml"])
def test_a_model_from_its_file_equals_it(tmp_path, suffix):
    for model in (ib.zoo.queue(), ib.zoo.media(), ib.zoo.admission(), dense()):
        model.save(tmp_path / f"model.{suffix}")
        again = ib.load(tmp_path / f"model.{suffix}")
        assert again == model and hash(again) == hash(model) and again is not model


def test_whatever_differs_makes_another_problem():
    queue = ib.zoo.queue()
    others = [
        queue.with_bound("service", at_least=0.1),
        queue.unconstrained(),
        queue.asking(reward=queue.reward + 1.0),
        ib.zoo.queue(discount=0.6),
        dataclasses.replace(queue, name="other"),
        dataclasses.replace(queue, state_labels=tuple("abcdef")),
        dataclasses.replace(queue, initial=np.eye(6)[2]),
        ib.zoo.media(),
    ]
    assert all(queue != other for other in others) and queue != "queue"
    assert len({queue, *others, ib.zoo.queue()}) == 9


def test_another_bound_shares_the_rest():
    queue = ib.zoo.queue()
    loose = queue.with_bound("flow", at_least=-5.0)
    assert loose.constraints[1].bound == -5.0 and loose.constraints[0] is queue.constraints[0]
    assert loose.transition is queue.transition and loose.with_bound(1, at_least=queue.constraints[1].bound) == queue
    np.testing.assert_allclose(loose.margins[1], queue.signals[1] + 5.0)


@pytest.mark.parametrize(
    ("which", "given", "message"),
    [
        ("flow", {"at_most": 1.0}, "constraint 'flow' has a bound at_least: give at_least= alone"),
        ("flow", {}, "constraint 'flow' has a bound at_least: give at_least= alone"),
        ("flow", {"at_most": 1.0, "at_least": 1.0}, "give at_least= alone"),
        ("noise", {"at_least": 1.0}, "there is no constraint 'noise'; the problem has: 'service', 'flow'"),
        (2, {"at_least": 1.0}, "there is no constraint 2; the problem has: 'service', 'flow'"),
        (0, {"at_least": np.inf}, "constraint 'service' has the bound inf; it must be a finite number"),
        (0, {"at_least": "much"}, "constraint 'service' has the bound 'much'; it must be a finite number"),
    ],
)
def test_bounds_that_do_not_fit_are_refused(which, given, message):
    with pytest.raises(ib.InvalidInput, match=message):
        ib.zoo.queue().with_bound(which, **given)


# ---- single precision


def test_rows_in_single_precision_are_normalised():
    rng = np.random.default_rng(0)
    moves = rng.dirichlet(np.ones(200), size=(200, 2)).astype(np.float32)
    assert np.abs(moves.astype(float).sum(axis=2) - 1.0).max() > 1e-9  # refused in double precision
    model = ib.CMDP.from_dense(moves, reward=np.zeros((200, 2)), initial=np.full(200, 1 / 200), discount=0.5)
    np.testing.assert_allclose(model.transition.sum(axis=1), 1.0, atol=1e-15)
    with refused("sum to"):
        ib.CMDP.from_dense(moves.astype(float), reward=np.zeros((200, 2)), initial=np.full(200, 1 / 200), discount=0.5)
    with refused("sum to 0.99989"):
        dense(transition=np.float32([[[0.9999, 0.0], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]]))


def test_1e4_is_a_whole_number():
    run = ib.learn(ib.zoo.queue().simulator(), ib.CRPO.practical(), samples=1e3, seed=0)
    assert run.samples[-1] == 1_000 and isinstance(run.samples[-1].item(), int)
    with refused("samples must be a whole number of at least 1, found 10.5"):
        ib.learn(ib.zoo.queue().simulator(), ib.CRPO.practical(), samples=10.5)


def test_a_bound_is_a_double_of_its_own() -> None:
    """Whatever kind of number it was: it prints, is saved, and does not change when what it came from does."""
    given = np.array(0.3)
    bounds = (Decimal("0.3"), Fraction(3, 10), given, np.longdouble("0.3"), np.float64(0.3))
    constraints = [ib.Constraint([1.0, 2.0], at_most=bound, name="c") for bound in bounds]
    given[...] = 0.9
    assert [type(constraint.bound) for constraint in constraints] == [float] * 5
    assert {str(constraint) for constraint in constraints} == {"Constraint('c', at_most=0.3)"}
    with pytest.raises(ib.InvalidInput, match="name of a constraint must be text, found 5"):
        ib.Constraint([1.0], at_most=1.0, name=5)


@pytest.mark.parametrize("problem", [ib.zoo.queue(), ib.zoo.media()], ids=["queue", "media"])
def test_what_is_asked_instead_is_checked_and_nobody_can_change_it_later(problem: ib.CMDP) -> None:
    reward, signal = problem.reward + 1.0, 2.0 * problem.constraints[0].signal
    asked = problem.asking(reward=reward, constraints=[ib.Constraint(signal, at_least=-9.0)])
    reward[...], signal[...] = 7.0, 7.0
    np.testing.assert_array_equal(asked.reward, problem.reward + 1.0)
    np.testing.assert_array_equal(asked.constraints[0].signal, 2.0 * problem.constraints[0].signal)
    assert asked.constraints[0].name == "constraint 0" and not asked.reward.flags.writeable
    assert problem.asking(reward=problem.reward).reward is problem.reward  # nothing is copied that need not be
    with pytest.raises(ib.InvalidInput, match=r"asking: reward must be finite, .* found nan"):
        problem.asking(reward=np.full(problem.shape, np.nan))
    with pytest.raises(ib.InvalidInput, match="asking: a constraint must be an array of floats of shape"):
        problem.asking(constraints=[ib.Constraint([1.0], at_least=0.0)])
    with pytest.raises(ib.InvalidInput, match="two constraints are called"):
        problem.asking(constraints=[problem.constraints[0]] * 2)


@pytest.mark.parametrize("size", [2e100, -1.7e308])
def test_numbers_whose_sums_could_overflow_are_refused(size):
    """(Values, deviations and prices of such were infinite, with warnings of NumPy.)"""
    parts = dict(offsets=[0, 1], transition=[[1.0]], reward=[0.0], constraints=(), initial=[1.0])
    largest = "finite, and at most 1e.100 in size"
    with refused("constraint 'c' has the bound .*; it must be a finite number, at most 1e.100 in size"):
        ib.Constraint([1.0], at_most=size, name="c")
    for criterion in (dict(discount=0.5), dict(horizon=2)):
        with refused(f"state 0, action 0: the reward is .*; it must be {largest}"):
            ib.CMDP(**parts | dict(reward=[size]), **criterion)
        with refused(f"state 0, action 0: the signal of constraint 'c' is .*; it must be {largest}"):
            ib.CMDP(**parts | dict(constraints=[ib.Constraint([size], at_most=1.0, name="c")]), **criterion)
    with refused(f"stage 1, state 0, action 0: the reward is .*; it must be {largest}"):
        ib.CMDP(**parts | dict(reward=[[0.0], [size]]), horizon=2)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr"])
@pytest.mark.parametrize(("column", "found"), [(2, "column 2"), (-1, "column -1")])
def test_a_sparse_array_with_entries_outside_of_its_shape_is_refused(form, column, found) -> None:
    """(SciPy takes it. `solve` ended by a segmentation fault, and `evaluate` read memory that is not its own.)"""
    whole = sp.csr_array([[0.5, 0.5], [0.2, 0.8], [1.0, 0.0]])
    model = {"offsets": [0, 2, 3], "reward": [1.0, 2.0, 3.0], "constraints": [], "initial": [1.0, 0.0], "discount": 0.9}
    ib.CMDP(transition=whole.asformat(form), **model)
    broken = whole.copy().asformat(form)
    if form == "coo":
        broken.coords[1][0] = column
    elif form == "csc":
        broken.indices[0], found = 7 * column, found.replace("column", "row").replace("2", "14").replace("-1", "-7")
    else:
        broken.indices[0] = column
    with pytest.raises(ib.InvalidInput, match=f"transition is a sparse array with an entry in {found}, and its"):
        ib.CMDP(transition=broken, **model)
    with pytest.raises(ib.InvalidInput, match=f"the reward is a sparse array with an entry in {found}, and its"):
        ib.CMDP(transition=whole, **model | {"reward": broken})


def test_a_sparse_array_whose_rows_are_out_of_order_is_refused() -> None:
    broken = sp.csr_array([[0.5, 0.5], [0.2, 0.8], [1.0, 0.0]])
    broken.indptr[1], broken.indptr[2] = 4, 2
    with pytest.raises(ib.InvalidInput, match="a sparse array whose indptr must begin with 0, never fall"):
        ib.CMDP([0, 2, 3], broken, [1.0, 2.0, 3.0], [], [1.0, 0.0], discount=0.9)


def test_names_that_are_no_text_and_ragged_masks_are_refused_by_name() -> None:
    moves = np.full((2, 2, 2), 0.5)
    model = {"reward": np.zeros((2, 2)), "constraints": [], "initial": [1.0, 0.0], "discount": 0.9}
    with pytest.raises(ib.InvalidInput, match="the name of a problem must be text, found 3"):
        ib.CMDP.from_dense(moves, **model, name=3)
    with pytest.raises(ib.InvalidInput, match=r"allowed must be booleans .*; found rows of different lengths"):
        ib.CMDP.from_dense(moves, **model, allowed=[[0, 1], [0]])


def test_a_bound_without_its_side_is_refused() -> None:
    """(It was taken for at_least.)"""
    with pytest.raises(TypeError):
        ib.Constraint([1.0], 0.5)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("indices", [0, 1.5, 0, 1, 0]),
        ("indptr", [0.0, 2.0, 4.0, 5.0]),
        ("data", [[0.5, 0.5, 0.2, 0.8, 1.0]]),
        ("indices", [0, 1, None, 1, 0]),
    ],
)
def test_a_sparse_array_of_other_kinds_of_numbers_is_refused(part, change) -> None:
    """(1.5 was state 1; the others were errors of SciPy's.)"""
    model = {"offsets": [0, 2, 3], "constraints": [], "initial": [1.0, 0.0], "discount": 0.9}
    whole, broken = (sp.csr_array([[0.5, 0.5], [0.2, 0.8], [1.0, 0.0]]) for _ in range(2))
    setattr(broken, part, np.array(change))
    with pytest.raises(ib.InvalidInput, match=f"transition is a sparse array whose {part} must be a vector of"):
        ib.CMDP(transition=broken, reward=[1.0, 2.0, 3.0], **model)
    with pytest.raises(ib.InvalidInput, match=f"the reward is a sparse array whose {part} must be a vector of"):
        ib.CMDP(transition=whole, reward=broken, **model)


# What NumPy and SciPy would take for numbers, or in an order that is none


@pytest.mark.parametrize(
    "transition",
    [
        np.array([[1 + 5j], [1]]),
        sp.coo_array(np.array([[1 + 5j], [1]])),
        sp.lil_array(np.array([[1 + 5j], [1]])),
        sp.dok_array(np.array([[1 + 5j], [1]])),
        sp.dia_array(np.array([[1 + 5j], [1]])),
        [["1.0"], ["1"]],
        np.array([["1.0"], ["1"]], dtype=object),
        np.ma.masked_array([[1.0], [1.0]], mask=[[0], [1]]),
        np.array([[1], [1]], dtype="m8[s]"),
    ],
    ids=["complex", "coo", "lil", "dok", "dia", "texts", "texts of objects", "masked", "seconds"],
)
def test_transitions_that_are_no_numbers_are_refused(transition):
    with pytest.raises(ib.InvalidInput, match=r"transition .*(numbers|entries)"):
        ib.CMDP(offsets=[0, 2], transition=transition, reward=[1.0, 0.0], constraints=(), initial=[1.0], discount=0.9)


def test_texts_in_an_array_of_objects_are_no_numbers():
    with pytest.raises(ib.InvalidInput, match=r"reward must be numbers.*texts"):
        native(reward=np.array(["1", "2", "3"], dtype=object))
    with pytest.raises(ib.InvalidInput, match=r"initial must be numbers.*texts"):
        native(initial=np.array(["1", "0"], dtype=object))


@pytest.mark.parametrize("what", ["state_labels", "action_labels"])
@pytest.mark.parametrize("labels", [{"one", "other"}, frozenset({"one", "other"}), {"one": 1, "other": 2}])
def test_labels_without_an_order_are_refused(what, labels):
    """(Those of a set fell on states at random, in another order in every process.)"""
    with pytest.raises(ib.InvalidInput, match=f"{what} must be a list"):
        native(**{what: labels})


def test_masks_are_refused_wherever_they_hide_something():
    with pytest.raises(ib.InvalidInput, match=r"offsets must be .*, found entries that are masked"):
        native(offsets=np.ma.masked_array([0, 2, 3], mask=[0, 1, 0]))
    with pytest.raises(ib.InvalidInput, match="allowed must be booleans"):
        dense(allowed=np.ma.masked_array(np.ones(np.shape(TRANSITION)[:2], dtype=bool), mask=[[0, 1], [0, 0]]))


def test_single_precision_is_taken_wherever_probabilities_are():
    third = np.full(3, 1.0 / 3.0, dtype=np.float32)
    same = {"reward": np.zeros((3, 1)), "discount": 0.5}
    for transition in (np.tile(third, (3, 1, 1)), [[third]] * 3):
        model = ib.CMDP.from_dense(np.array(transition).reshape(3, 1, 3), initial=third, **same)
        assert abs(model.initial.sum() - 1.0) < 1e-15
    assert ib.CMDP.from_dense([[third], [third], [third]], initial=list(third), **same).n_states == 3
    pairs = ib.CMDP(
        offsets=[0, 3], transition=np.ones((3, 1)), reward=np.zeros(3), constraints=(), initial=[1.0], discount=0.5
    ).pairs
    assert abs(ib.Policy(pairs, third).probabilities.sum() - 1.0) < 1e-15
    with pytest.raises(ib.InvalidInput, match="initial must sum to 1"):
        ib.CMDP.from_dense([[third], [third], [third]], initial=third.astype(float), **same)


def test_another_question_is_checked_and_kept_whatever_becomes_of_the_array():
    """(What could not be written to was taken as it was: a view of what could, and what is no number.)"""
    model = native()
    mine = np.array([5.0, 0.0, 1.0])
    view = mine.view()
    view.flags.writeable = False
    asked = model.asking(reward=view)
    mine[0] = 7.0
    assert asked.reward.tolist() == [5.0, 0.0, 1.0] and not asked.reward.flags.writeable
    for wrong in (math.nan, math.inf, 1e101):
        frozen = np.array([wrong, 0.0, 1.0])
        frozen.flags.writeable = False
        with pytest.raises(ib.InvalidInput, match="asking: reward must be finite, and at most 1e\\+100 in size, found"):
            model.asking(reward=frozen)
