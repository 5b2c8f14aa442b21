"""Unconstrained solves: brackets that contain the truth, found by enumerating all deterministic policies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inbounds as ib
from inbounds.criteria import criterion_of, discounted
from inbounds.criteria.discounted import howard, modified_policy_iteration
from inbounds.numerics.bellman import improve
from inbounds.numerics.elimination import make_plan
from strategies import cmdps

tiny = settings(deadline=None, max_examples=40, derandomize=True)


def dense_value(cmdp, chosen, reward):
    """The value of a deterministic policy from the initial distribution, by a dense solve."""
    chain = cmdp.transition.toarray()[chosen]
    values = np.linalg.solve(np.eye(cmdp.n_states) - cmdp.discount * chain, (1.0 - cmdp.discount) * reward[chosen])
    return float(cmdp.initial @ values)


def best_by_enumeration(cmdp, reward):
    every = itertools.product(*(range(first, last) for first, last in itertools.pairwise(cmdp.offsets)))
    return max(dense_value(cmdp, np.array(chosen), reward) for chosen in every)


def plan_of(cmdp):
    rows = criterion_of(cmdp).rows
    plan = make_plan(rows.starts[cmdp.offsets], rows.targets, np.inf, np.inf)
    assert plan is not None
    return plan


def by(method, cmdp, reward, tolerance, start=None):
    if method == "howard":
        return howard(criterion_of(cmdp), reward, tolerance, plan_of(cmdp), start)
    return modified_policy_iteration(criterion_of(cmdp), reward, tolerance, start)


METHODS = ("howard", "modified")


@pytest.mark.parametrize("method", METHODS)
@tiny
@given(cmdp=cmdps(max_states=4, max_actions=3), tolerance=st.sampled_from([1.0, 1e-2, 1e-6, 1e-12, 0.0]))
def test_the_bracket_contains_the_truth(method, cmdp, tolerance):
    found = by(method, cmdp, cmdp.reward, tolerance)
    optimum = best_by_enumeration(cmdp, cmdp.reward)
    reached = dense_value(cmdp, found.chosen, cmdp.reward)
    assert found.lower - 1e-15 <= reached <= found.upper + 1e-15
    assert found.lower - 1e-15 <= optimum <= found.upper + 1e-15
    # What rounding allows: the sweeps stop when low and high are within 8 times the bound on their rounding.
    largest = np.abs(cmdp.reward).max() + np.abs(found.value_function).max()
    rounding = 8 * (cmdp.n_states + 64) * 2.0**-53 * largest / (1.0 - cmdp.discount)
    assert found.upper - found.lower <= max(tolerance, 1.5 * rounding)


@pytest.mark.parametrize("method", METHODS)
@tiny
@given(cmdp=cmdps(max_states=4, max_actions=3), tolerance=st.sampled_from([1.0, 1e-3, 1e-9]))
def test_the_value_function_proves_the_upper_end(method, cmdp, tolerance):
    found = by(method, cmdp, cmdp.reward, tolerance)
    backup = (1.0 - cmdp.discount) * cmdp.reward + cmdp.discount * cmdp.transition.toarray() @ found.value_function
    assert np.all(found.value_function[cmdp.pairs.states] >= backup - 1e-15)
    assert found.upper == pytest.approx(float(cmdp.initial @ found.value_function), abs=1e-14)


@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("discount", [0.0, 0.9, 0.99])
def test_both_methods_agree(ring, discount):
    cmdp = ib.zoo.garnet(states=120, actions=5, constraints=0, discount=discount, ring=ring, seed=3)
    exact, swept = (by(method, cmdp, cmdp.reward, 1e-11) for method in METHODS)
    assert max(exact.lower, swept.lower) <= min(exact.upper, swept.upper)
    assert exact.upper - exact.lower <= 1e-11
    assert swept.upper - swept.lower <= 1e-11


@pytest.mark.parametrize("method", METHODS)
def test_a_warm_start_gives_the_same_answer(method):
    cmdp = ib.zoo.garnet(states=200, actions=4, discount=0.95, seed=5)
    other = by(method, cmdp, cmdp.margins[0], 1e-3)
    before = other.value_function.copy(), other.chosen.copy()
    cold, warm = by(method, cmdp, cmdp.reward, 1e-10), by(method, cmdp, cmdp.reward, 1e-10, other)
    assert max(cold.lower, warm.lower) <= min(cold.upper, warm.upper)
    assert np.array_equal(cold.chosen, warm.chosen)
    assert np.array_equal(before[0], other.value_function)
    assert np.array_equal(before[1], other.chosen)


@tiny
@given(cmdp=cmdps(), seed=st.integers(0, 1000))
def test_improve_is_the_bellman_operator(cmdp, seed):
    value = np.random.default_rng(seed).normal(size=cmdp.n_states)
    backed, chosen, backups = np.empty(cmdp.n_states), cmdp.offsets[:-1].copy(), np.empty(cmdp.n_pairs)
    stage = (1.0 - cmdp.discount) * cmdp.reward
    low, high = improve(criterion_of(cmdp).rows, cmdp.discount, stage, value, backed, chosen, backups)
    backup = stage + cmdp.discount * cmdp.transition.toarray() @ value
    best = np.array([backup[first:last].max() for first, last in itertools.pairwise(cmdp.offsets)])
    assert backed == pytest.approx(best, abs=1e-14)
    assert backups == pytest.approx(backup, abs=1e-14)
    assert backup[chosen] == pytest.approx(best, abs=1e-14)
    assert (low, high) == (np.min(backed - value), np.max(backed - value))


def test_improve_keeps_what_it_has_among_equals():
    cmdp = ib.CMDP(
        offsets=[0, 3], transition=np.ones((3, 1)), reward=[1.0, 1.0, 0.0], constraints=(), initial=[1.0], discount=0.5
    )
    for held, expected in ((0, 0), (1, 1), (2, 0)):
        chosen = np.array([held])
        improve(criterion_of(cmdp).rows, 0.5, cmdp.reward, np.zeros(1), np.empty(1), chosen, np.empty(0))
        assert chosen[0] == expected


@pytest.mark.parametrize(
    ("ring", "discount", "eliminates"), [(True, 0.99, True), (False, 0.99, False), (True, 0.5, False)]
)
def test_elimination_is_chosen_where_it_pays(ring, discount, eliminates):
    cmdp = ib.zoo.garnet(states=2000, actions=4, constraints=0, discount=discount, ring=ring, seed=1)
    criterion = criterion_of(cmdp)
    found = criterion.solve(cmdp.reward, 1e-9)
    assert (found.factors is not None) == eliminates
    assert (criterion.follow(ib.Policy.uniform(cmdp).probabilities).factors is not None) == eliminates
    time = criterion.time(found, 1e-12)
    assert time.sum() == pytest.approx(1.0, abs=1e-12)
    assert found.lower - 1e-12 <= float(time @ cmdp.reward[found.chosen]) <= found.upper + 1e-12


def test_a_constant_reward_is_settled_at_once():
    cmdp = ib.zoo.garnet(states=50, actions=2, constraints=0, discount=0.99, ring=True)
    found = criterion_of(cmdp).solve(np.full(cmdp.n_pairs, 0.25), 1e-12)
    assert found.lower == pytest.approx(0.25, abs=1e-12)
    assert found.upper == pytest.approx(0.25, abs=1e-12)


def test_evaluation_of_a_slow_ladder_comes_to_an_end(monkeypatch):
    """600 rungs, discount 0.999999: plain sweeps take forever, and combined ones must not stand still."""
    size, discount = 600, 0.999999
    up = np.eye(size, k=1) + np.diag(np.eye(size)[-1])
    down = np.eye(size, k=-1) + np.diag(np.eye(size)[0])
    cmdp = ib.CMDP.from_dense(
        np.stack([0.2 * np.eye(size) + 0.5 * up + 0.3 * down, 0.2 * np.eye(size) + 0.3 * up + 0.5 * down], axis=1),
        reward=np.random.default_rng(0).random((size, 2)),
        initial=np.eye(size)[0],
        discount=discount,
    )
    calls = []

    def counted(*arguments):
        calls.append(1)
        assert len(calls) < 1000
        return improve(*arguments)

    criterion = criterion_of(cmdp)
    monkeypatch.setattr(discounted, "improve", counted)
    monkeypatch.setattr(criterion, "fall_back", lambda spent: False)  # elimination would do it at once
    found = modified_policy_iteration(criterion, cmdp.reward, 1e-6)
    assert found.upper - found.lower <= 1e-6


def test_vectors_of_chains_that_sweeps_hardly_move_are_eliminated() -> None:
    """(A model whose first policy mixes quickly kept to sweeps: few coins on a grid of 169 states took 23 seconds.)"""
    cmdp = a_line()
    criterion = criterion_of(cmdp)
    criterion._planned = True  # as by a policy that settled at once
    policy = np.tile([0.5, 0.5], cmdp.n_states)
    followed = criterion.follow(policy, accuracy=0.1)
    assert followed.factors is None and criterion._plan is None
    (vector,) = criterion.proof_vectors(followed, cmdp.reward[None, :])
    assert criterion._plan is not None
    moves = cmdp.pairs.sum_by_state((cmdp.transition.toarray() * policy[:, None]).T).T
    paid = (1.0 - cmdp.discount) * cmdp.pairs.sum_by_state(policy * cmdp.reward)
    value = np.linalg.solve(np.eye(cmdp.n_states) - cmdp.discount * moves, paid)
    np.testing.assert_allclose(vector, value - cmdp.initial @ value, rtol=0.0, atol=1e-13)


def a_line() -> ib.CMDP:
    """120 states in a row, and chance moves from each to its neighbours."""
    states = np.arange(120)
    up, down = (np.eye(120)[np.clip(states + by, 0, 119)] for by in (1, -1))
    moves = np.stack([0.6 * up + 0.4 * down, 0.4 * up + 0.6 * down], axis=1)
    reward = np.repeat((states == 0).astype(float), 2).reshape(120, 2)
    return ib.CMDP.from_dense(moves, reward=reward, initial=np.eye(120)[60], discount=0.999)
