"""Policies: their occupancies and values against dense twins, mixtures, sampling, and the ways in."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inbounds as ib
import naive
import reference
import strategies
from inbounds.criteria import criterion_of, discounted
from inbounds.criteria.contract import DENSE_STATES


@given(strategies.with_policies())
def test_occupancy_solves_the_flow_equations_and_sums_to_one(drawn):
    cmdp, [policy] = drawn
    spent = ib.occupancy(cmdp, policy)
    assert np.all(spent >= 0.0)
    assert abs(spent.sum() - 1.0) < 1e-12
    assert np.max(np.abs(naive.flow_residual(cmdp, spent))) < 1e-12


@given(strategies.with_policies())
def test_occupancy_equals_its_power_series(drawn):
    cmdp, [policy] = drawn
    series, missing = naive.occupancy_series(cmdp, policy.probabilities, steps=60)
    assert np.abs(ib.occupancy(cmdp, policy) - series).sum() <= missing + 1e-12


@given(strategies.with_policies(), st.data())
def test_products_with_the_occupancy_are_values(drawn, data):
    cmdp, [policy] = drawn
    signal = np.array(data.draw(st.lists(strategies.eighths, min_size=cmdp.n_pairs, max_size=cmdp.n_pairs)))
    expected = naive.value(cmdp, policy.probabilities, signal)
    assert ib.occupancy(cmdp, policy) @ signal == pytest.approx(expected, abs=1e-12)


@given(strategies.with_policies())
def test_evaluate_equals_the_dense_twin(drawn):
    cmdp, [policy] = drawn
    judged = ib.evaluate(cmdp, policy)
    assert judged.reward == pytest.approx(naive.value(cmdp, policy.probabilities, cmdp.reward), abs=1e-12)
    assert judged.margins.shape == (cmdp.n_constraints,)
    for margin, signal in zip(judged.margins, cmdp.margins, strict=True):
        assert margin == pytest.approx(naive.value(cmdp, policy.probabilities, signal), abs=1e-12)
    assert judged.total_reward == judged.reward / (1.0 - cmdp.discount)
    assert np.array_equal(judged.total_margins, judged.margins / (1.0 - cmdp.discount))


@given(strategies.with_policies())
def test_both_ways_to_the_occupancy_agree(drawn):
    cmdp, [policy] = drawn
    solved = cmdp.pairs.sum_by_state(np.asarray(ib.occupancy(cmdp, policy)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(discounted, "DENSE_STATES", 0)
        swept = criterion_of(cmdp).follow(policy.probabilities).time
    assert np.max(np.abs(swept - solved)) < 1e-12


def test_a_model_beyond_the_dense_limit_takes_the_other_way():
    states = DENSE_STATES + 1
    cmdp = ib.zoo.garnet(states=states, actions=2, seed=3)
    policy = ib.Policy.uniform(cmdp)
    spent = ib.occupancy(cmdp, policy)
    assert abs(spent.sum() - 1.0) < 1e-12
    assert spent @ cmdp.reward == pytest.approx(naive.value(cmdp, policy.probabilities, cmdp.reward), abs=1e-12)


@given(strategies.with_policies(count=3), st.lists(st.integers(1, 9), min_size=3, max_size=3))
def test_a_mixture_has_the_mean_values_exactly(drawn, shares):
    cmdp, policies = drawn
    weights = np.array(shares) / sum(shares)
    mixed = ib.evaluate(cmdp, ib.mix(cmdp, policies, weights))
    parts = [ib.evaluate(cmdp, policy) for policy in policies]
    assert mixed.reward == pytest.approx(sum(w * p.reward for w, p in zip(weights, parts, strict=True)), abs=1e-12)
    mean = sum(w * p.margins for w, p in zip(weights, parts, strict=True))
    assert np.max(np.abs(mixed.margins - mean), initial=0.0) < 1e-12
    occupancies = sum(w * p.occupancy for w, p in zip(weights, parts, strict=True))
    assert np.max(np.abs(mixed.occupancy - occupancies)) < 1e-12


def test_weights_are_equal_by_default():
    cmdp, first, second, _, _ = reference.rows_do_not_average()
    given_weights = ib.mix(cmdp, [first, second, second], [1 / 3, 1 / 3, 1 / 3])
    assert np.array_equal(ib.mix(cmdp, [first, second, second]).probabilities, given_weights.probabilities)


def test_averaging_rows_is_not_mixing():
    cmdp, first, second, mixed, averaged = reference.rows_do_not_average()
    rows = ib.Policy(cmdp.pairs, (first.probabilities + second.probabilities) / 2)
    assert ib.evaluate(cmdp, rows).reward == pytest.approx(averaged, abs=1e-15)
    assert ib.evaluate(cmdp, ib.mix(cmdp, [first, second])).reward == pytest.approx(mixed, abs=1e-15)


@pytest.mark.parametrize(
    ("policies", "weights", "message"),
    [
        ([], None, "a mixture needs at least one policy"),
        ([0, 1], [0.5], "the weights of a mixture must have 2 entries"),
        ([0, 1], [0.7, 0.7], "must be >= 0 and sum to 1"),
        ([0, 1], [1.5, -0.5], "must be >= 0 and sum to 1"),
        ([0, 1], [math.nan, 1.0], "must be >= 0 and sum to 1"),
    ],
)
def test_wrong_mixtures_are_refused(policies, weights, message):
    cmdp, *both, _, _ = reference.rows_do_not_average()
    with pytest.raises(ib.InvalidInput, match=message):
        ib.mix(cmdp, [both[p] for p in policies], weights)


@given(strategies.with_policies())
def test_a_policy_comes_back_from_its_occupancy_where_it_goes(drawn):
    cmdp, [policy] = drawn
    otherwise = ib.Policy.deterministic(cmdp, cmdp.offsets[:-1])
    spent = ib.occupancy(cmdp, policy)
    back = ib.Policy.from_occupancy(cmdp, spent, otherwise=otherwise)
    visited = cmdp.pairs.sum_by_state(np.asarray(spent))[cmdp.pairs.states] > 0.0
    assert np.max(np.abs(back.probabilities - policy.probabilities)[visited], initial=0.0) < 1e-14
    assert np.array_equal(back.probabilities[~visited], otherwise.probabilities[~visited])


def test_states_without_occupancy_are_uniform_by_default():
    cmdp = reference.two_rooms().cmdp
    assert ib.Policy.from_occupancy(cmdp, [0.5, 0.5, 0.0, 0.0]).probabilities[2:].tolist() == [0.5, 0.5]


def test_an_occupancy_that_is_not_finite_is_refused():
    cmdp = reference.two_rooms().cmdp
    with pytest.raises(ib.InvalidInput, match="state 'attic', action 'stay': the occupancy is nan"):
        ib.Policy.from_occupancy(cmdp, [0.5, 0.5, math.nan, 0.0])


class Script:
    """A generator that hands out given numbers."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def random(self):
        return self.numbers.pop(0)


def ragged():
    """Actions of state "a": x and z; of state "b": y alone."""
    return ib.CMDP(
        offsets=[0, 2, 3],
        transition=[[1.0, 0.0]] * 3,
        reward=[0.0] * 3,
        constraints=(),
        initial=[1.0, 0.0],
        discount=0.5,
        actions=[0, 2, 1],
        state_labels=("a", "b"),
        action_labels=("x", "y", "z"),
    )


def test_sampling_inverts_the_cumulative_probabilities():
    policy = ib.Policy(ragged().pairs, [0.25, 0.75, 1.0])
    below = np.nextafter(0.25, 0.0)
    drawn = [policy.sample(0, Script(u)) for u in (0.0, below, 0.25, 0.6, 1.0 - 2.0**-53)]
    assert drawn == [0, 0, 2, 2, 2]
    assert policy.sample(1, Script(0.0)) == policy.sample(1, Script(1.0 - 2.0**-53)) == 1


def test_sampling_never_takes_an_action_of_probability_zero():
    cmdp = ib.CMDP.from_dense(np.ones((1, 3, 1)), reward=np.zeros((1, 3)), initial=[1.0], discount=0.5)
    for table, only in (([[0.0, 0.0, 1.0]], 2), ([[0.0, 1.0, 0.0]], 1), ([[1.0, 0.0, 0.0]], 0)):
        policy = ib.Policy.from_table(cmdp, table)
        assert {policy.sample(0, Script(u)) for u in (0.0, 0.5, 1.0 - 2.0**-53)} == {only}


@pytest.mark.parametrize("seed", range(5))
def test_sampling_frequencies(seed):
    """Counts are binomial. With 15 frequencies over the five seeds, one beyond 5.5 standard deviations has a chance
    below 15 * 4e-8 under the true probabilities."""
    probabilities = np.array([0.1, 0.2, 0.7])
    cmdp = ib.CMDP.from_dense(np.ones((1, 3, 1)), reward=np.zeros((1, 3)), initial=[1.0], discount=0.5)
    policy, rng, draws = ib.Policy(cmdp.pairs, probabilities), np.random.default_rng(seed), 4_000
    counts = np.bincount([policy.sample(0, rng) for _ in range(draws)], minlength=3)
    z = (counts - draws * probabilities) / np.sqrt(draws * probabilities * (1.0 - probabilities))
    assert np.max(np.abs(z)) < 5.5


def test_tables_go_in_and_out():
    policy = ib.Policy.from_table(ragged(), [[0.25, 0.0, 0.75], [0.0, 1.0, 0.0]])
    assert policy.probabilities.tolist() == [0.25, 0.75, 1.0]
    assert policy.table().tolist() == [[0.25, 0.0, 0.75], [0.0, 1.0, 0.0]]
    assert policy.by_label() == {"a": {"x": 0.25, "z": 0.75}, "b": {"y": 1.0}}
    assert repr(policy) == "Policy(2 states, randomises in 1)"


@given(strategies.with_policies())
def test_table_round_trip(drawn):
    cmdp, [policy] = drawn
    back = ib.Policy.from_table(cmdp, policy.table())
    assert np.array_equal(back.probabilities, policy.probabilities)


def test_by_label_leaves_out_what_is_never_done():
    assert ib.Policy.deterministic(ragged(), [1, 2]).by_label() == {"a": {"z": 1.0}, "b": {"y": 1.0}}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            [[0.5, 0.1, 0.4], [0.0, 1.0, 0.0]],
            "state 'a': the table gives probability to an action that it does not have",
        ),
        (
            [[0.5, 0.0, 0.5], [1.0, 0.0, 0.0]],
            "state 'b': the table gives probability to an action that it does not have",
        ),
        ([[0.5, 0.0, 0.6], [0.0, 1.0, 0.0]], "state 'a': the policy's probabilities sum to 1.1"),
        ([[1.5, 0.0, -0.5], [0.0, 1.0, 0.0]], "state 'a', action 'z': the policy has probability -0.5"),
        ([[math.nan, 0.0, 1.0], [0.0, 1.0, 0.0]], "state 'a', action 'x': the policy has probability nan"),
        ([[0.5, 0.5]], r"must have shape \[S, A\] = \(2, 3\), found \(1, 2\)"),
        ([["half", "half", 0.0]] * 2, "must be numbers, found list"),
    ],
)
def test_wrong_tables_are_refused(table, message):
    with pytest.raises(ib.InvalidInput, match=message):
        ib.Policy.from_table(ragged(), table)


def test_probabilities_are_renormalised_within_the_tolerance_and_only_there():
    pairs = ragged().pairs
    assert ib.Policy(pairs, [0.5, 0.5 + 5e-10, 1.0]).probabilities[:2].sum() == pytest.approx(1.0, abs=1e-15)
    with pytest.raises(ib.InvalidInput, match=r"state 'a': the policy's probabilities sum to 1\.000000002"):
        ib.Policy(pairs, [0.5, 0.5 + 2e-9, 1.0])
    with pytest.raises(ib.InvalidInput, match="must have 3 entries"):
        ib.Policy(pairs, [0.5, 0.5])


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ([2, 2], "one of its own pairs"),
        ([0, 1], "one of its own pairs"),
        ([-1, 2], "one of its own pairs"),
        ([0], r"chosen must be whole numbers of shape \(2,\), found int64 \(1,\)"),
        ([0.0, 2.0], r"chosen must be whole numbers of shape \(2,\), found float64"),
    ],
)
def test_wrong_choices_are_refused(chosen, message):
    with pytest.raises(ib.InvalidInput, match=message):
        ib.Policy.deterministic(ragged(), chosen)


def test_a_policy_of_another_problem_is_refused():
    stranger = ib.Policy.uniform(ragged())
    with pytest.raises(ib.InvalidInput, match="does not belong to this problem"):
        ib.evaluate(reference.two_rooms().cmdp, stranger)
    same_count = ib.CMDP([0, 1, 3], [[1.0, 0.0]] * 3, [0.0] * 3, (), [1.0, 0.0], 0.5)
    with pytest.raises(ib.InvalidInput, match="does not belong to this problem"):
        ib.occupancy(same_count, stranger)


def test_inputs_are_copied_and_results_read_only():
    cmdp = ragged()
    given_probabilities = np.array([0.25, 0.75, 1.0])
    policy = ib.Policy(cmdp.pairs, given_probabilities)
    given_probabilities[:] = 0.0
    assert policy.probabilities.tolist() == [0.25, 0.75, 1.0]
    judged = ib.evaluate(cmdp, policy)
    for array in (policy.probabilities, judged.occupancy, judged.margins, ib.occupancy(cmdp, policy)):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


def test_in_bounds_allows_rounding_and_no_more():
    """Margins of one state are exact: 1/4 - x for working a share x."""
    cmdp = reference.work_and_rest().cmdp
    scale = cmdp.margin_scales[0]
    for over, expected in ((0.0, True), (0.5e-9 * scale, True), (2e-9 * scale, False), (-0.1, True), (0.1, False)):
        share = 0.25 + over
        assert ib.evaluate(cmdp, ib.Policy(cmdp.pairs, [share, 1.0 - share])).in_bounds is expected
