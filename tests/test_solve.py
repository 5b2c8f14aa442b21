"""The exact solver: hand-solved problems, an unrelated solver, enumeration, duality, scaling."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inbounds as ib
import naive
import reference
import strategies
from inbounds.criteria import criterion_of


def solve(cmdp, **options):
    return ib.solve(cmdp, certificate=False, **options)


def size(cmdp, prices=None):
    """The scale on which rounding in the answer is judged: of the reward with the priced margins."""
    prices = np.zeros(cmdp.n_constraints) if prices is None else prices
    return max(float(np.max(np.abs(cmdp.reward))), 1e-300) + float(prices @ cmdp.margin_scales)


def rescaled(cmdp, reward=1.0, margins=None):
    """The same problem in other units: reward times `reward`, constraint k times `margins[k]`."""
    factors = np.ones(cmdp.n_constraints) if margins is None else margins
    return dataclasses.replace(
        cmdp,
        reward=cmdp.reward * reward,
        constraints=tuple(
            ib.Constraint(
                c.signal * factor,
                at_least=None if c.at_least is None else c.at_least * factor,
                at_most=None if c.at_most is None else c.at_most * factor,
                name=c.name,
            )
            for c, factor in zip(cmdp.constraints, factors, strict=True)
        ),
    )


# By hand


@pytest.mark.parametrize("problem", reference.FEASIBLE)
def test_problems_solved_by_hand(problem):
    cmdp, reward, prices, table, _ = problem()
    best = solve(cmdp, method="lp")
    assert best.reward == pytest.approx(reward, abs=1e-12)
    assert best.upper_bound == pytest.approx(reward, abs=1e-12)
    assert best.prices == pytest.approx(prices, abs=1e-12)
    assert best.policy.table() == pytest.approx(table, abs=1e-12)
    assert best.in_bounds
    assert best.gap < 1e-12
    assert best.total_reward == pytest.approx(reward / (1.0 - cmdp.discount), rel=1e-12)


@pytest.mark.parametrize("method", ["lp", "bundle"])
def test_states_that_nothing_leads_to_get_the_greedy_action(method):
    cmdp = reference.unreachable_state().cmdp
    best = solve(cmdp, method=method)
    assert best.occupancy[2:].tolist() == [0.0, 0.0]
    assert best.policy.table()[1].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("method", ["lp", "bundle"])
@given(strategies.cmdps())
def test_unvisited_states_are_greedy_at_the_optimal_prices(method, cmdp):
    best = solve(cmdp, method=method)
    priced = cmdp.reward + best.prices @ cmdp.margins
    backup = (1 - cmdp.discount) * priced + cmdp.discount * (cmdp.transition @ best.value_function)
    unvisited = cmdp.pairs.sum_by_state(np.asarray(best.occupancy)) == 0.0
    for state in np.flatnonzero(unvisited):
        own = slice(cmdp.offsets[state], cmdp.offsets[state + 1])
        chosen = best.policy.probabilities[own]
        assert set(chosen.tolist()) <= {0.0, 1.0}
        assert backup[own][np.argmax(chosen)] == np.max(backup[own])


# Against other solvers


@pytest.mark.parametrize("method", ["lp", "bundle"])
@given(strategies.feasible(least_slack=1))
def test_agrees_with_scipy_on_dense_matrices(method, drawn):
    cmdp = drawn.cmdp
    best = solve(cmdp, method=method)
    optimum, _ = naive.lp(cmdp)
    # Both solvers work to tolerances; scipy's is 1e-7 on feasibility, which the prices turn into reward.
    assert best.reward == pytest.approx(optimum, abs=1e-6 * size(cmdp, best.prices))


@pytest.mark.parametrize("method", ["lp", "bundle"])
@given(strategies.cmdps(max_states=4, max_actions=3, max_constraints=0))
def test_without_constraints_equals_enumeration(method, cmdp):
    best = solve(cmdp, method=method)
    exact = naive.best_deterministic(cmdp, cmdp.reward)
    assert best.reward == pytest.approx(exact, abs=1e-9 * size(cmdp))
    assert best.upper_bound >= exact - 1e-12 * size(cmdp)


@pytest.mark.parametrize("method", ["lp", "bundle"])
@given(strategies.feasible(max_states=4, max_actions=3))
def test_no_policy_in_bounds_is_better(method, drawn):
    cmdp = drawn.cmdp
    best = solve(cmdp, method=method)
    for probabilities in (*naive.deterministic_policies(cmdp), drawn.inside):
        if all(naive.value(cmdp, probabilities, margin) >= 0.0 for margin in cmdp.margins):
            assert naive.value(cmdp, probabilities, cmdp.reward) <= best.upper_bound + 1e-11 * size(cmdp, best.prices)


# What is reported


@pytest.mark.parametrize("method", ["lp", "bundle"])
@given(strategies.cmdps())
def test_everything_reported_is_the_policys_own(method, cmdp):
    best = solve(cmdp, method=method)
    probabilities = best.policy.probabilities
    assert best.reward == pytest.approx(naive.value(cmdp, probabilities, cmdp.reward), abs=1e-12)
    for margin, signal in zip(best.margins, cmdp.margins, strict=True):
        assert margin == pytest.approx(naive.value(cmdp, probabilities, signal), abs=1e-12)
    judged = ib.evaluate(cmdp, best.policy)
    assert np.array_equal(best.margins, judged.margins)
    assert np.array_equal(best.occupancy, judged.occupancy)
    assert best.in_bounds
    assert np.all(best.prices >= 0.0)


@pytest.mark.parametrize("method", ["lp", "bundle"])
@given(strategies.feasible(least_slack=1))
def test_duality_and_complementary_slackness(method, drawn):
    """A gap of 1e-8, relative; and a constraint with room to spare has no price: price * margin is part of the gap.

    From  upper_bound >= reward + prices @ margins  (weak duality at the policy) and margins >= -rounding, each product
    is at most the gap plus what rounding lets the other margins fall below zero.
    """
    cmdp = drawn.cmdp
    best = solve(cmdp, method=method)
    scale = size(cmdp, best.prices)
    assert best.gap <= 1e-8 * scale
    assert best.upper_bound >= best.reward + best.prices @ best.margins - 1e-12 * scale
    assert np.max(best.prices * best.margins, initial=0.0) <= best.gap + 1e-9 * scale


@pytest.mark.parametrize("method", ["lp", "bundle"])
@given(strategies.cmdps(), st.data())
def test_any_prices_and_any_value_function_give_a_valid_bound(method, cmdp, data):
    """Weak duality, with guesses that have nothing to do with the solution."""
    numbers = st.floats(-100.0, 100.0)
    prices = np.array(data.draw(st.lists(numbers.map(abs), min_size=cmdp.n_constraints, max_size=cmdp.n_constraints)))
    guess = np.array(data.draw(st.lists(numbers, min_size=cmdp.n_states, max_size=cmdp.n_states)))
    bound = criterion_of(cmdp).upper_bound(cmdp.reward + prices @ cmdp.margins, guess)
    rounding = 1e-12 * (size(cmdp, prices) + np.max(np.abs(guess)) / (1.0 - cmdp.discount))
    best = solve(cmdp, method=method)
    assert bound >= best.reward - 1e-9 * float(prices @ cmdp.margin_scales) - rounding
    probabilities = data.draw(strategies.policy_probabilities(cmdp.offsets))
    assert bound >= naive.value(cmdp, probabilities, cmdp.reward + prices @ cmdp.margins) - rounding


@given(strategies.cmdps(max_states=4, max_actions=3), st.data())
def test_the_bound_of_the_best_value_function_is_tight(cmdp, data):
    """With the true best value function of the priced reward, the bound is its value: nothing is given away."""
    prices = np.array(data.draw(st.lists(st.integers(0, 3), min_size=cmdp.n_constraints, max_size=cmdp.n_constraints)))
    priced = cmdp.reward + prices @ cmdp.margins
    values = [naive.value_function(cmdp, policy, priced) for policy in naive.deterministic_policies(cmdp)]
    assert criterion_of(cmdp).upper_bound(priced, np.max(values, axis=0)) == pytest.approx(
        naive.best_deterministic(cmdp, priced), abs=1e-11 * size(cmdp, prices)
    )


@pytest.mark.parametrize("method", ["lp", "bundle"])
def test_the_solution_is_read_only_and_says_what_it_is(method):
    best = solve(reference.two_rooms().cmdp, method=method)
    for array in (best.margins, best.prices, best.value_function, best.occupancy):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    assert best.method == method
    assert repr(best).startswith("Solution(reward 0.4166666667, gap ")
    assert best.total_margins == pytest.approx(best.margins * 2.0)


# Symmetries


@pytest.mark.parametrize("method", ["lp", "bundle"])
@given(strategies.feasible(least_slack=1), st.randoms(use_true_random=False))
def test_numbering_the_states_differently_changes_nothing(method, drawn, shuffler):
    cmdp = drawn.cmdp
    order = list(range(cmdp.n_states))
    shuffler.shuffle(order)
    pairs = np.concatenate([np.arange(cmdp.offsets[s], cmdp.offsets[s + 1]) for s in order])
    renumbered = ib.CMDP(
        offsets=np.concatenate([[0], np.cumsum(np.diff(cmdp.offsets)[order])]),
        transition=cmdp.transition.toarray()[np.ix_(pairs, order)],
        reward=cmdp.reward[pairs],
        constraints=tuple(dataclasses.replace(c, signal=c.signal[pairs]) for c in cmdp.constraints),
        initial=cmdp.initial[order],
        discount=cmdp.discount,
    )
    first, second = solve(cmdp, method=method), solve(renumbered, method=method)
    assert first.reward == pytest.approx(second.reward, abs=2e-8 * size(cmdp, first.prices))


@pytest.mark.parametrize("method", ["lp", "bundle"])
@pytest.mark.parametrize("reward", [1.0, 1e6, 1e-6])
@pytest.mark.parametrize("margins", [(1.0, 1.0), (1e6, 1e6), (1e-6, 1e-6), (1e6, 1e-6), (1e-6, 1e6)])
def test_units_do_not_matter_on_the_queue(method, reward, margins):
    plain = solve(ib.zoo.queue(), method=method)
    best = solve(rescaled(ib.zoo.queue(), reward, margins), method=method)
    assert best.reward / reward == pytest.approx(plain.reward, rel=1e-9)
    assert best.upper_bound / reward == pytest.approx(plain.reward, rel=1e-9)
    assert best.prices * np.array(margins) / reward == pytest.approx(plain.prices, rel=1e-6)
    assert best.in_bounds


@pytest.mark.parametrize("method", ["lp", "bundle"])
@given(
    strategies.feasible(least_slack=1),
    st.sampled_from([1e-6, 1.0, 1e6]),
    st.lists(st.sampled_from([1e-6, 1.0, 1e6]), min_size=3, max_size=3),
)
def test_units_do_not_matter(method, drawn, reward, margins):
    cmdp = drawn.cmdp
    other = rescaled(cmdp, reward, margins[: cmdp.n_constraints])
    plain, best = solve(cmdp, method=method), solve(other, method=method)
    assert best.reward / reward == pytest.approx(plain.reward, abs=2e-8 * size(cmdp, plain.prices))
    assert best.gap <= 1e-8 * size(other, best.prices)
    assert best.in_bounds


@pytest.mark.parametrize("method", ["lp", "bundle"])
@given(strategies.feasible(max_constraints=2, least_slack=1), st.integers(1, 4))
def test_a_price_bounds_what_relaxing_its_bound_can_gain(method, drawn, eighths):
    """The optimum is concave in the bounds and the prices are its slope: relaxing by b gains at most price * b."""
    cmdp = drawn.cmdp
    best = solve(cmdp, method=method)
    for k in range(cmdp.n_constraints):
        by = np.zeros(cmdp.n_constraints)
        by[k] = eighths / 8
        looser = cmdp.tightened(-by)
        relaxed = solve(looser, method=method)
        slack = 2e-8 * (size(cmdp, best.prices) + size(looser, relaxed.prices))
        assert best.reward - slack <= relaxed.reward <= best.reward + best.prices[k] * by[k] + slack


# The edge of feasibility


@pytest.mark.parametrize("method", ["lp", "bundle"])
@given(strategies.feasible(least_slack=0))
def test_bounds_that_only_just_can_be_met(method, drawn):
    """With slack 0 the bounds are exactly what a policy achieves; the answer must be in bounds and no worse than it."""
    cmdp = drawn.cmdp
    best = solve(cmdp, method=method)
    assert best.in_bounds
    least = naive.value(cmdp, drawn.inside, cmdp.reward)
    assert best.reward >= least - 2e-9 * size(cmdp, best.prices)


@pytest.mark.parametrize("method", ["lp", "bundle"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99])
def test_a_bound_at_the_very_maximum(method, seed, discount):
    """The only policies in bounds are those that maximise the signal."""
    cmdp = ib.zoo.garnet(states=12, actions=3, constraints=1, discount=discount, seed=seed)
    most = naive.best_value(cmdp, cmdp.constraints[0].signal, 1e-13)
    tight = dataclasses.replace(cmdp, constraints=(dataclasses.replace(cmdp.constraints[0], at_least=most),))
    best = solve(tight, method=method)
    assert best.in_bounds
    assert best.occupancy @ cmdp.constraints[0].signal == pytest.approx(most, abs=1e-8)


@pytest.mark.parametrize("method", ["lp", "bundle"])
@pytest.mark.parametrize("discount", [0.9, 0.99, 0.999])
def test_a_single_policy_with_its_own_values_as_bounds(method, discount):
    """One action a state: the feasible set is one point, without interior, which rounding may push out of bounds."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n_states = int(rng.integers(2, 8))
        plain = ib.CMDP(
            offsets=np.arange(n_states + 1),
            transition=rng.dirichlet(np.full(n_states, 0.1), size=n_states),
            reward=rng.random(n_states),
            constraints=tuple(ib.Constraint(rng.random(n_states), at_least=0.0) for _ in range(3)),
            initial=np.eye(n_states)[0],
            discount=discount,
        )
        only = ib.evaluate(plain, ib.Policy.uniform(plain))
        best = solve(plain.tightened(only.margins), method=method)
        assert best.reward == only.reward
        assert best.in_bounds


def test_unknown_methods_are_refused():
    with pytest.raises(ib.InvalidInput, match=r"method must be one of auto, .*lp.*, found 'simplex'"):
        solve(reference.two_rooms().cmdp, method="simplex")


@pytest.mark.parametrize(("states", "seed"), [(30, 0), (200, 1), (400, 2)])
def test_polish_ends_at_a_vertex(states, seed):
    """An optimal vertex has at most one pair per state and one more for each constraint that binds."""
    cmdp = ib.zoo.garnet(states=states, actions=4, constraints=3, seed=seed)
    polished, by_lp = solve(cmdp, method="polish"), solve(cmdp, method="lp")
    assert polished.method == "polish"
    assert polished.reward == pytest.approx(by_lp.reward, rel=1e-10)
    assert polished.in_bounds and polished.gap <= 1e-9
    assert np.count_nonzero(polished.occupancy > 1e-12) <= states + 3


def test_polish_of_the_queue_and_of_problems_without_constraints():
    assert solve(ib.zoo.queue(), method="polish").total_reward == pytest.approx(4.644858248633466, abs=1e-12)
    free = ib.zoo.garnet(states=50, constraints=0, seed=3)
    assert solve(free, method="polish").reward == pytest.approx(solve(free, method="lp").reward, rel=1e-12)
    media = ib.zoo.media()
    assert solve(media, method="polish").reward == pytest.approx(solve(media, method="lp").reward, rel=1e-12)


@pytest.mark.parametrize("left", [1e-6, 1e-7, 1e-8, 1e-9])
def test_discounts_close_to_one(left):
    """There HiGHS gives up, or calls an optimum what is none; auto then goes through unconstrained problems."""
    for seed in range(3):
        cmdp = ib.zoo.garnet(states=15, actions=3, successors=3, constraints=1, discount=1.0 - left, seed=seed)
        best, bundle = ib.solve(cmdp), ib.solve(cmdp, "bundle")
        # The upper bound is rounded about eight times, and 1 / (1 - discount) multiplies that.
        assert best.in_bounds and best.gap <= max(2.0 * bundle.gap, 1e-8 * best.reward) + 1e-15 / left
    queue = ib.solve(ib.zoo.queue(discount=1.0 - left))
    assert queue.reward == pytest.approx(1.6018255512914479, abs=20.0 * left + 1e-6)  # the average's optimum


@pytest.mark.parametrize("link", [1e-6, 1e-9, 1e-11])
def test_averages_of_blocks_that_hardly_meet(link):
    """Two blocks of five states, left with probability `link`: what HiGHS calls an optimum can be far from one."""
    rng = np.random.default_rng(0)
    moves = np.zeros((10, 2, 10))
    for s in range(10):
        own = slice(0, 5) if s < 5 else slice(5, 10)
        other = slice(5, 10) if s < 5 else slice(0, 5)
        moves[s, :, own] = (1.0 - link) * rng.dirichlet(np.ones(5), size=2)
        moves[s, :, other] = link / 5
    cmdp = ib.CMDP.from_dense(
        moves,
        reward=rng.random((10, 2)),
        constraints=[ib.Constraint(rng.random((10, 2)), at_most=0.5, name="limit")],
        initial=np.full(10, 0.1),
        average=True,
    )
    best, bundle = ib.solve(cmdp), ib.solve(cmdp, "bundle")
    assert best.in_bounds and best.gap <= max(2.0 * bundle.gap, 1e-7)
    assert max(best.reward, bundle.reward) <= min(best.upper_bound, bundle.upper_bound) + 1e-12


@pytest.mark.parametrize("criterion", [{"discount": 0.9}, {"horizon": 4}], ids=str)
@pytest.mark.parametrize("how", [{"method": "auto"}, {"method": "bundle"}, {"deterministic": True}], ids=str)
def test_where_it_never_comes_the_policy_is_the_best_one_at_the_prices(criterion, how) -> None:
    """(A vertex did anything there: 164 of 900 answers. The last two states are reached by no policy.)"""
    n_states, n_actions, gamma = 6, 3, criterion.get("discount", 1.0)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        moves = rng.dirichlet(np.ones(n_states), size=n_states * n_actions)
        moves[: 4 * n_actions, 4:] = 0.0
        moves /= moves.sum(axis=1, keepdims=True)
        reward = rng.normal(size=n_states * n_actions) * np.where(np.arange(n_states * n_actions) < 12, 1.0, 10.0)
        limits = [ib.Constraint(rng.normal(size=18), at_most=2.0 * (gamma == 1.0) + 0.5) for _ in range(seed % 3)]
        cmdp = ib.CMDP(np.arange(0, 19, 3), moves, reward, limits, np.eye(n_states)[0], **criterion)
        try:
            best = ib.solve(cmdp, **how)
        except (ib.Infeasible, ib.Stopped):
            continue
        priced = cmdp.reward + np.tensordot(best.prices, cmdp.margins, axes=1)
        value, lost = np.zeros(n_states), 0.0
        for stage in range(cmdp.layers - 1 if "horizon" in criterion else 600, -1, -1):
            own = priced[stage] if "horizon" in criterion else (1.0 - gamma) * priced
            backups = (own + gamma * (moves @ value)).reshape(n_states, n_actions)
            rule = best.policy.probabilities.reshape(-1, n_states, n_actions)
            value = backups.max(axis=1)
            if "horizon" in criterion or stage == 0:
                taken = rule[stage if "horizon" in criterion else 0]
                lost = max(lost, float(np.max((value - np.sum(taken * backups, axis=1))[4:])))
        assert lost <= 1e-6
