"""Finite-horizon problems: values by enumeration, flow, mixtures, the exact solution, and the truncation."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
import scipy.sparse as sp

import inbounds as ib
from inbounds.criteria import criterion_of
from inbounds.exact.truncation import truncate
from inbounds.proofs.known_model import certify_infeasible

SEEDS = range(8)


def backward_induction(problem: ib.CMDP, reward):
    """The best values from each stage and state to the end [H, S], and a policy that has them."""
    found = criterion_of(problem).solve(reward.ravel(), 0.0)
    chosen = found.chosen.reshape(problem.horizon, problem.n_states)
    first_of_stage = problem.n_pairs * np.arange(problem.horizon)[:, None]
    values = found.value_function.reshape(problem.horizon, problem.n_states)
    assert found.lower <= problem.initial @ values[0] <= found.upper
    assert found.upper - found.lower <= 1e-13 * np.abs(reward).max(axis=-1).sum()  # some hundred units of rounding
    return values, ib.Policy.deterministic(problem, chosen - first_of_stage)


def upper_bound(problem: ib.CMDP, reward, guess) -> float:
    return criterion_of(problem).upper_bound(reward.ravel(), guess.ravel())


def random_problem(seed: int, states=3, actions=2, horizon=3, constraints=2, stationary=False) -> ib.CMDP:
    """Random tables of any sign; from three states on, the last one lacks the last action."""
    rng = np.random.default_rng(seed)
    stages = () if stationary else (horizon,)
    allowed = np.ones((states, actions), dtype=bool)
    if states > 2 and actions > 1:
        allowed[-1, -1] = False
    return ib.CMDP.from_dense(
        rng.dirichlet(np.full(states, 0.5), size=(*stages, states, actions)),
        reward=rng.normal(size=(*stages, states, actions)),
        constraints=[
            ib.Constraint(rng.normal(size=(*stages, states, actions)), at_least=0.2)
            if k % 2
            else ib.Constraint(rng.normal(size=(*stages, states, actions)), at_most=-0.1)
            for k in range(constraints)
        ],
        initial=rng.dirichlet(np.ones(states)),
        horizon=horizon,
        allowed=allowed,
    )


def random_policy(problem: ib.CMDP, seed: int) -> ib.Policy:
    rng = np.random.default_rng((seed, 1))
    return ib.Policy.from_occupancy(problem, rng.exponential(size=(problem.horizon, problem.n_pairs)))


def by_trajectories(problem: ib.CMDP, policy: ib.Policy):
    """Reward, the value of every signal, and the occupancy, by running through every trajectory of pairs."""
    reward, signals = 0.0, np.zeros(problem.n_constraints)
    spent = np.zeros((problem.horizon, problem.n_pairs))
    stages = np.arange(problem.horizon)
    states = problem.pairs.states
    for trajectory in product(range(problem.n_pairs), repeat=problem.horizon):
        probability = problem.initial[states[trajectory[0]]]
        for stage, (pair, following) in enumerate(pairwise(trajectory)):
            probability *= problem.transition[stage].toarray()[pair, states[following]]
        probability *= np.prod(policy.probabilities[stages, trajectory])
        reward += probability * problem.reward[stages, trajectory].sum()
        for k, constraint in enumerate(problem.constraints):
            signals[k] += probability * constraint.signal[stages, trajectory].sum()
        spent[stages, trajectory] += probability
    return reward, signals, spent


# Values


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_values_are_those_of_all_trajectories(seed, stationary):
    problem = random_problem(seed, stationary=stationary)
    policy = random_policy(problem, seed)
    reward, signals, spent = by_trajectories(problem, policy)
    found = ib.evaluate(problem, policy)
    assert found.reward == pytest.approx(reward, abs=1e-12)
    margins = [c.margin(value) for c, value in zip(problem.constraints, signals, strict=True)]
    np.testing.assert_allclose(found.margins, margins, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.occupancy, spent, rtol=0, atol=1e-14)
    assert found.in_bounds == (min(margins) >= 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_occupancy_satisfies_the_flow_of_every_stage(seed):
    problem = random_problem(seed, states=5, actions=3, horizon=7)
    spent = ib.occupancy(problem, random_policy(problem, seed))
    np.testing.assert_allclose(spent.sum(axis=1), 1.0, rtol=0, atol=1e-14)
    by_state = np.array([problem.pairs.sum_by_state(stage) for stage in spent])
    np.testing.assert_allclose(by_state[0], problem.initial, rtol=0, atol=1e-15)
    for stage in range(1, problem.horizon):
        arriving = problem.transition[stage - 1].toarray().T @ spent[stage - 1]
        np.testing.assert_allclose(by_state[stage], arriving, rtol=0, atol=1e-15)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_policy_is_recovered_from_its_occupancy(seed):
    problem = random_problem(seed, states=5, actions=3, horizon=4)
    policy = random_policy(problem, seed)
    again = ib.Policy.from_occupancy(problem, ib.occupancy(problem, policy))
    np.testing.assert_allclose(again.probabilities, policy.probabilities, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_values_agree_with_the_backward_recursion(seed):
    problem = random_problem(seed, states=4, actions=3, horizon=6)
    policy = random_policy(problem, seed)
    value = np.zeros(problem.n_states)
    for stage in reversed(range(problem.horizon)):
        action_value = problem.reward[stage] + problem.transition[stage].toarray() @ value
        value = problem.pairs.sum_by_state(policy.probabilities[stage] * action_value)
    assert ib.evaluate(problem, policy).reward == pytest.approx(problem.initial @ value, abs=1e-12)


def test_stage_dependent_arrays_that_do_not_vary_are_the_stationary_problem():
    once = random_problem(0, stationary=True)
    again = ib.CMDP(
        offsets=once.offsets,
        transition=tuple(matrix.copy() for matrix in once.transition),
        reward=np.tile(once.reward[0], (once.horizon, 1)),
        constraints=once.constraints,
        initial=once.initial,
        horizon=once.horizon,
        actions=once.actions,
    )
    policy = random_policy(once, 0)
    first, second = ib.evaluate(once, policy), ib.evaluate(again, policy)
    assert first.reward == second.reward
    np.testing.assert_array_equal(first.margins, second.margins)


# Mixtures


@pytest.mark.parametrize("seed", SEEDS)
def test_a_mixture_has_the_mean_values_exactly(seed):
    problem = random_problem(seed, states=5, actions=3, horizon=6)
    policies = [random_policy(problem, 100 * seed + j) for j in range(3)]
    weights = np.array([0.5, 0.2, 0.3])
    values = [ib.evaluate(problem, policy) for policy in policies]
    mixed = ib.evaluate(problem, ib.mix(problem, policies, weights))
    assert mixed.reward == pytest.approx(weights @ [v.reward for v in values], abs=1e-12)
    np.testing.assert_allclose(mixed.margins, weights @ [v.margins for v in values], rtol=0, atol=1e-12)
    equal = ib.evaluate(problem, ib.mix(problem, policies))
    assert equal.reward == pytest.approx(np.mean([v.reward for v in values]), abs=1e-12)


def test_averaging_probabilities_is_not_a_mixture():
    """Two steps of the three-cycle: never moving pays 0, always 1/3 + 2/3; a coin at every step pays less than half."""
    problem = ib.zoo.three_cycle(horizon=2)
    never = ib.Policy.deterministic(problem, np.tile([0, 2, 4], (2, 1)))
    always = ib.Policy.deterministic(problem, np.tile([1, 3, 5], (2, 1)))
    mixed = ib.evaluate(problem, ib.mix(problem, [never, always])).reward
    assert mixed == pytest.approx(0.5 * (1 / 3 + 2 / 3), abs=1e-15)
    coin = ib.Policy(problem.pairs, 0.5 * (never.probabilities + always.probabilities))
    # The first move pays 1/3 with probability 1/2; the second 2/3 after a move, 1/3 without, again by coin.
    assert ib.evaluate(problem, coin).reward == pytest.approx(0.5 / 3 + 0.25 * 2 / 3 + 0.25 / 3, abs=1e-15)


def test_mixture_refuses_bad_weights():
    problem = random_problem(0)
    policy = ib.Policy.uniform(problem)
    with pytest.raises(ib.InvalidInput, match="at least one policy"):
        ib.mix(problem, [])
    with pytest.raises(ib.InvalidInput, match="sum to 1"):
        ib.mix(problem, [policy, policy], [0.5, 0.6])


# The exact solution


def deterministic_policies(problem: ib.CMDP):
    own = [range(problem.offsets[s], problem.offsets[s + 1]) for s in range(problem.n_states)]
    for chosen in product(*own * problem.horizon):
        yield ib.Policy.deterministic(problem, np.reshape(chosen, (problem.horizon, problem.n_states)))


def best_mixture_of_two(rewards, margins) -> float | None:
    """The optimum under one constraint: some mixture of at most two deterministic policies has it."""
    best = None
    for (r1, m1), (r2, m2) in product(zip(rewards, margins, strict=True), repeat=2):
        if m1 < 0.0:
            continue
        weight = 1.0 if m2 >= 0.0 else m1 / (m1 - m2)  # the share of the second that uses up the margin of the first
        value = max(r1, (1.0 - weight) * r1 + weight * r2)
        best = value if best is None else max(best, value)
    return best


@pytest.mark.parametrize("seed", range(12))
def test_optimum_against_all_deterministic_policies(seed):
    problem = random_problem(seed, states=2, horizon=3, constraints=1)
    values = [ib.evaluate(problem, policy) for policy in deterministic_policies(problem)]
    assert len(values) == 4**3
    optimum = best_mixture_of_two([v.reward for v in values], [v.margins[0] for v in values])
    assert ib.slater(problem).value == pytest.approx(max(v.margins[0] for v in values), abs=1e-9)
    if optimum is None:
        with pytest.raises(ib.Infeasible):
            ib.solve(problem)
        return
    best = ib.solve(problem)
    assert best.in_bounds
    assert best.reward == pytest.approx(optimum, abs=1e-9)
    assert best.upper_bound >= optimum - 1e-12
    assert best.gap <= 1e-9


def test_the_enumeration_meets_binding_loose_and_impossible_bounds():
    """The test above covers all three cases."""
    kinds = set()
    for seed in range(12):
        try:
            best = ib.solve(random_problem(seed, states=2, horizon=3, constraints=1))
            kinds.add("binding" if best.prices[0] > 1e-6 else "loose")
        except ib.Infeasible:
            kinds.add("impossible")
    assert {"binding", "loose"} <= kinds
    impossible = random_problem(0, states=2, constraints=1)
    impossible = impossible.tightened(ib.slater(impossible).value + 0.01)
    with pytest.raises(ib.Infeasible):
        ib.solve(impossible)


@pytest.mark.parametrize("moves", [0.0, 0.5, 1.0, 2.0, 3.0, 4.5, 6.0, 9.0])
def test_three_cycle_by_hand(moves):
    """From place 0 an expected number m of moves pays at most 2m/3 (m <= 6): the numbers 1, 3, 6, 7, 9, 12 of 3."""
    best = ib.solve(ib.zoo.three_cycle(moves=moves))
    assert best.reward == pytest.approx(2.0 / 3.0 * min(moves, 6.0), abs=1e-12)
    if 0.0 < moves < 6.0:
        assert best.prices[0] == pytest.approx(2.0 / 3.0, abs=1e-9)
    if moves > 6.0:
        assert best.prices[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_solution_is_consistent(seed):
    problem = random_problem(seed, states=5, actions=3, horizon=6)
    problem = problem.tightened(ib.slater(problem).value - 0.05)  # feasible, and tight
    best = ib.solve(problem)
    judged = ib.evaluate(problem, best.policy)
    assert best.reward == judged.reward
    np.testing.assert_array_equal(best.margins, judged.margins)
    np.testing.assert_array_equal(best.occupancy, judged.occupancy)
    assert best.in_bounds
    assert 0.0 <= best.gap <= 1e-8 * max(1.0, float(best.prices.max()))
    assert np.all(best.prices >= 0.0)
    np.testing.assert_allclose(best.prices * best.margins, 0.0, rtol=0, atol=1e-7)
    assert best.value_function.shape == (problem.horizon, problem.n_states)
    assert best.certificate.in_bounds and best.certificate.kind == "rounding-bounded"


@pytest.mark.parametrize("seed", SEEDS)
def test_weak_duality_from_any_prices_and_any_guess(seed):
    problem = random_problem(seed, states=4, actions=3, horizon=5)
    problem = problem.tightened(ib.slater(problem).value - 0.3)
    optimum = ib.solve(problem).reward
    rng = np.random.default_rng((seed, 2))
    for _ in range(20):
        prices = rng.exponential(size=2)
        priced = problem.reward + np.tensordot(prices, problem.margins, axes=1)
        values, greedy = backward_induction(problem, priced)
        tight = upper_bound(problem, priced, values)
        assert tight == pytest.approx(problem.initial @ values[0], abs=1e-12)
        assert tight >= optimum - 1e-9
        # The dual function and its slope, as a method on the dual would ask for them.
        judged = ib.evaluate(problem, greedy)
        assert judged.reward + prices @ judged.margins == pytest.approx(tight, abs=1e-11)
        guess = values + rng.normal(size=values.shape)
        assert upper_bound(problem, priced, guess) >= tight - 1e-12


def test_a_guess_that_is_off_by_a_constant_is_mended():
    problem = random_problem(0)
    values, _ = backward_induction(problem, problem.reward)
    guess = values - 1.0
    assert upper_bound(problem, problem.reward, guess) == pytest.approx(problem.initial @ values[0], abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_backward_induction_beats_every_deterministic_policy(seed):
    problem = random_problem(seed, states=2, horizon=3, constraints=0)
    values, greedy = backward_induction(problem, problem.reward)
    best = max(ib.evaluate(problem, policy).reward for policy in deterministic_policies(problem))
    assert ib.evaluate(problem, greedy).reward == pytest.approx(best, abs=1e-12)
    assert problem.initial @ values[0] == pytest.approx(best, abs=1e-12)
    assert ib.solve(problem).reward == pytest.approx(best, abs=1e-10)


def test_prices_are_slopes():
    """Relaxing a bound by a little gains its price times that."""
    problem = ib.zoo.inventory()
    best = ib.solve(problem)
    relaxed = ib.solve(problem.tightened(-1e-4))
    assert (relaxed.reward - best.reward) / 1e-4 == pytest.approx(best.prices[0], abs=1e-6)


def test_units_scale_through():
    problem = random_problem(3, states=4, horizon=4)
    problem = problem.tightened(ib.slater(problem).value - 0.2)
    best = ib.solve(problem)
    scaled = replace(
        problem,
        reward=1e6 * problem.reward,
        constraints=tuple(
            replace(
                c,
                signal=1e-5 * c.signal,
                at_least=None if c.at_least is None else 1e-5 * c.at_least,
                at_most=None if c.at_most is None else 1e-5 * c.at_most,
            )
            for c in problem.constraints
        ),
    )
    again = ib.solve(scaled)
    assert again.reward == pytest.approx(1e6 * best.reward, rel=1e-9)
    np.testing.assert_allclose(again.prices, 1e11 * best.prices, rtol=1e-6)


def test_unvisited_states_are_greedy_at_the_optimal_prices():
    """At stage 0 the three-cycle is at place 0; elsewhere the policy is a best reply to the priced reward."""
    problem = ib.zoo.three_cycle()
    best = ib.solve(problem)
    priced = problem.reward + np.tensordot(best.prices, problem.margins, axes=1)
    for place in (1, 2):
        backup = priced[0] + problem.transition[0] @ best.value_function[1]
        chosen = int(np.argmax(best.policy.probabilities[0, 2 * place : 2 * place + 2])) + 2 * place
        assert backup[chosen] == backup[2 * place : 2 * place + 2].max()
    assert best.policy.table()[0, 2].max() == 1.0


def test_degenerate_problems():
    one_step = ib.CMDP(
        offsets=[0, 2],
        transition=[[1.0], [1.0]],
        reward=[1.0, 0.0],
        constraints=[ib.Constraint([1.0, 0.0], at_most=0.25, name="energy")],
        initial=[1.0],
        horizon=1,
    )
    best = ib.solve(one_step)
    assert best.reward == pytest.approx(0.25, abs=1e-12)
    np.testing.assert_allclose(best.policy.probabilities, [[0.25, 0.75]], atol=1e-12)
    # The same constraint twice, a bound that one policy alone meets, and no constraint at all.
    twice = replace(one_step, constraints=(*one_step.constraints, replace(one_step.constraints[0], name="again")))
    assert ib.solve(twice).reward == pytest.approx(0.25, abs=1e-12)
    never = replace(one_step, constraints=(ib.Constraint([1.0, 0.0], at_most=0.0),))
    assert ib.slater(never).value == pytest.approx(0.0, abs=1e-12)
    assert ib.solve(never).reward == pytest.approx(0.0, abs=1e-12)
    free = replace(one_step, constraints=())
    assert ib.solve(free).reward == 1.0
    assert ib.slater(free).value == np.inf
    # A reward and a margin that are zero throughout.
    nothing = replace(one_step, reward=[0.0, 0.0], constraints=(ib.Constraint([0.0, 0.0], at_most=0.0),))
    assert ib.solve(nothing).reward == 0.0


def test_unknown_method():
    with pytest.raises(ib.InvalidInput, match="method must be one of auto, bundle, lp"):
        ib.solve(ib.zoo.factored(), method="simplex")


# Infeasible problems


def check_proof(problem: ib.CMDP, proof: ib.Infeasible) -> None:
    """Weights >= 0 that sum to 1, under which no policy has a combined margin >= 0."""
    assert np.all(proof.prices >= 0.0)
    assert proof.prices.sum() == pytest.approx(1.0, abs=1e-12)
    combined = np.tensordot(proof.prices, problem.margins, axes=1)
    bound = upper_bound(problem, combined, proof.value_function)
    assert bound < 0.0
    assert proof.slater == pytest.approx(bound, abs=1e-8)


def test_one_bound_that_cannot_be_met():
    """Six steps have at most six moves."""
    problem = ib.zoo.three_cycle(horizon=6)
    too_many = ib.Constraint(problem.constraints[0].signal, at_least=6.5, name="exercise")
    problem = replace(problem, constraints=(too_many,))
    with pytest.raises(ib.Infeasible, match=r"constraint 'exercise' cannot be met by any policy") as caught:
        ib.solve(problem)
    assert caught.value.slater == pytest.approx(-0.5, abs=1e-9)
    assert caught.value.conflict == ("exercise",)
    check_proof(problem, caught.value)


def test_two_bounds_that_conflict():
    """At most 2 moves and at least 3 (a third bound plays no part): the best policy misses both by a half."""
    problem = ib.zoo.three_cycle(moves=2.0)
    signal = problem.constraints[0].signal
    problem = replace(
        problem,
        constraints=(
            *problem.constraints,
            ib.Constraint(signal, at_least=3.0, name="exercise"),
            ib.Constraint(signal, at_most=100.0, name="loose"),
        ),
    )
    with pytest.raises(ib.Infeasible, match="'moves' and 'exercise' cannot be met together") as caught:
        ib.solve(problem)
    assert caught.value.slater == pytest.approx(-0.5, abs=1e-9)
    assert caught.value.conflict == ("moves", "exercise")
    check_proof(problem, caught.value)


@pytest.mark.parametrize("seed", SEEDS)
def test_feasibility_is_decided_on_both_sides(seed):
    problem = random_problem(seed, states=4, actions=3, horizon=5)
    best = ib.slater(problem)
    assert best.upper_bound == pytest.approx(best.value, abs=1e-8)
    assert ib.evaluate(problem, best.policy).margins.min() == best.value
    ib.solve(problem.tightened(best.value - 1e-6))
    with pytest.raises(ib.Infeasible) as caught:
        ib.solve(problem.tightened(best.value + 1e-6))
    check_proof(problem.tightened(best.value + 1e-6), caught.value)


# The truncation of a discounted problem


def discounted_problems():
    yield "queue", ib.zoo.queue()
    for seed in range(3):
        yield f"garnet {seed}", ib.zoo.garnet(states=8, actions=3, successors=3, discount=0.8, seed=seed)


DISCOUNTED = [pytest.param(cmdp, id=name) for name, cmdp in discounted_problems()]


def random_stationary(cmdp, seed):
    return ib.Policy.from_occupancy(cmdp, np.random.default_rng(seed).exponential(size=cmdp.n_pairs))


@pytest.mark.parametrize("horizon", [1, 2, 5, 20])
@pytest.mark.parametrize("cmdp", DISCOUNTED)
def test_truncation_error_bound_holds(cmdp, horizon):
    cut = truncate(cmdp, horizon=horizon)
    for seed in range(5):
        policy = random_stationary(cmdp, seed)
        whole = ib.evaluate(cmdp, policy)
        part = ib.evaluate(cut.problem, policy)
        assert abs(whole.reward - (1 - cmdp.discount) * part.reward) <= cut.reward_error + 1e-14
        difference = np.abs(whole.margins - (1 - cmdp.discount) * part.margins)
        assert np.all(difference <= cut.margin_errors + 1e-14)


def test_truncation_error_bound_is_reached():
    """One state, reward 1, margin 2: the first H steps hold 1 - discount^H of the normalised values 1 and 2."""
    signal = ib.Constraint([3.0], at_least=1.0)
    cmdp = ib.CMDP(offsets=[0, 1], transition=[[1.0]], reward=[1.0], constraints=[signal], initial=[1.0], discount=0.9)
    cut = truncate(cmdp, horizon=5)
    part = ib.evaluate(cut.problem, ib.Policy.uniform(cut.problem))
    assert 1.0 - (1 - 0.9) * part.reward == pytest.approx(cut.reward_error, abs=1e-15)
    assert 2.0 - (1 - 0.9) * part.margins[0] == pytest.approx(cut.margin_errors[0], abs=1e-15)
    assert cut.reward_error == pytest.approx(0.9**5, abs=1e-16)


@pytest.mark.parametrize("discount", [0.0, 0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.25, 1e-3, 1e-6, 0.5**20])
def test_epsilon_gives_the_smallest_horizon(discount, epsilon):
    cmdp = ib.zoo.garnet(states=3, actions=2, successors=2, discount=discount)
    horizon = truncate(cmdp, epsilon).horizon
    assert discount**horizon <= epsilon
    assert horizon == 1 or discount ** (horizon - 1) > epsilon


@pytest.mark.parametrize("cmdp", DISCOUNTED)
@pytest.mark.parametrize("horizon", [1, 3, 10])
def test_to_stationary_has_exactly_the_values_of_policy_then_afterwards(cmdp, horizon):
    """(1 - discount) * truncated value + discount^H * value of `afterwards` from where the episode ended."""
    cut = truncate(cmdp, horizon=horizon)
    policy = random_policy(cut.problem, horizon)
    afterwards = random_stationary(cmdp, 7)
    part = ib.evaluate(cut.problem, policy)
    arrived = cmdp.transition.toarray().T @ part.occupancy[-1]
    tail = ib.evaluate(replace(cmdp, initial=arrived), afterwards)
    left, kept = cmdp.discount**horizon, 1 - cmdp.discount
    found = ib.evaluate(cmdp, cut.to_stationary(policy, afterwards))
    assert found.reward == pytest.approx(kept * part.reward + left * tail.reward, abs=1e-12)
    np.testing.assert_allclose(found.margins, kept * part.margins + left * tail.margins, rtol=0, atol=1e-12)
    by_default = ib.evaluate(cmdp, cut.to_stationary(policy))
    assert abs(by_default.reward - kept * part.reward) <= cut.reward_error + 1e-14


def test_a_stationary_policy_survives_the_round_trip():
    queue = ib.zoo.queue()
    policy = random_stationary(queue, 0)
    cut = truncate(queue, horizon=4)
    again = cut.to_stationary(policy)
    np.testing.assert_allclose(again.probabilities, policy.probabilities, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cmdp", DISCOUNTED)
def test_the_optimum_of_the_truncation_brackets_the_discounted_one(cmdp):
    """Tightened by its error it gives a policy in bounds; its dual plus the best tail is never below the optimum."""
    exact = ib.solve(cmdp)
    cut = truncate(cmdp, epsilon=1e-4)
    kept, left = 1 - cmdp.discount, cmdp.discount**cut.horizon
    cautious = ib.solve(cut.problem.tightened(cut.margin_errors / kept))
    judged = ib.evaluate(cmdp, cut.to_stationary(cautious.policy))
    assert judged.in_bounds
    assert judged.reward <= exact.reward + 1e-9
    best = ib.solve(cut.problem)
    tail = float(np.max(cmdp.reward + best.prices @ cmdp.margins))
    upper = kept * best.upper_bound + left * tail
    assert upper >= exact.reward - 1e-9

    # How far either end can be, by comparing the two dual functions at each other's prices: they differ by the tail.
    def tails(prices):
        return cut.reward_error + float(prices @ cut.margin_errors)

    assert upper - exact.reward <= tails(exact.prices) + tails(best.prices) + 1e-9
    assert exact.reward - judged.reward <= 2 * tails(cautious.prices) + 1e-9


def test_truncate_refuses():
    queue = ib.zoo.queue()
    for bad in ({}, {"epsilon": 0.1, "horizon": 3}):
        with pytest.raises(ib.InvalidInput, match="exactly one"):
            truncate(queue, **bad)
    for epsilon in (0.0, 1.0, -1.0, float("nan"), True, "small"):
        with pytest.raises(ib.InvalidInput, match="epsilon must be a number in"):
            truncate(queue, epsilon)
    with pytest.raises(ib.InvalidInput, match=r"horizon must be a whole number of at least 1, found 2\.5"):
        truncate(queue, horizon=2.5)


# Records and their checks


def parts(**changes):
    """The pieces of a valid problem: two states, the second with one action, three stages."""
    pieces = {
        "offsets": [0, 2, 3],
        "transition": np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]),
        "reward": [1.0, 2.0, 3.0],
        "constraints": [ib.Constraint(np.ones((3, 3)), at_most=4.0, name="cost")],
        "initial": [1.0, 0.0],
        "horizon": 3,
        "state_labels": ("on", "off"),
        "action_labels": ("keep", "switch"),
    }
    return pieces | changes


NOT_FINITE = np.ones((3, 3))
NOT_FINITE[1, 2] = np.nan
WRONG_ROW = np.array([[1.0, 0.0], [0.0, 0.9], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": 0}, "horizon must be a whole number of at least 1, found 0"),
        ({"horizon": True}, "horizon must be a whole number of at least 1, found True"),
        ({"reward": [1.0, 2.0]}, r"the reward must have 3 entries, one per pair, or shape \[H, n\] = \(3, 3\)"),
        ({"reward": np.ones((2, 3))}, r"the reward must have 3 entries.*found shape \(2, 3\)"),
        ({"reward": ["a", "b", "c"]}, "the reward must be numbers"),
        ({"reward": [1.0, np.inf, 0.0]}, "state 'on', action 'switch': the reward is inf; it must be finite"),
        ({"reward": NOT_FINITE}, "stage 1, state 'off', action 'keep': the reward is nan"),
        (
            {"constraints": [ib.Constraint(NOT_FINITE, at_least=0.0, name="cost")]},
            "stage 1, state 'off', action 'keep': the signal of constraint 'cost' is nan",
        ),
        ({"initial": [0.5, 0.4]}, "initial must sum to 1, found 0.9"),
        ({"transition": WRONG_ROW}, "^state 'on', action 'switch': the probabilities of the next state sum to 0.9"),
        (
            {"transition": (np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]),) * 2 + (WRONG_ROW,)},
            "stage 2, state 'on', action 'switch': the probabilities of the next state sum to 0.9",
        ),
        ({"transition": (WRONG_ROW,) * 2}, "transition has 2 stages, but the horizon is 3"),
        ({"offsets": [0, 3, 3]}, "state 'off' has no actions"),
    ],
)
def test_wrong_input_is_named(changes, message):
    with pytest.raises(ib.InvalidInput, match=message):
        ib.CMDP(**parts(**changes))


def test_wrong_dense_input_is_named():
    eye = np.eye(2)[:, None, :]
    good = {"reward": np.ones((2, 1)), "initial": [1.0, 0.0], "horizon": 3}
    with pytest.raises(ib.InvalidInput, match=r"transition must have shape \[S, A, S\] or \[H, S, A, S\]"):
        ib.CMDP.from_dense(np.eye(2), **good)
    with pytest.raises(ib.InvalidInput, match="transition has 2 stages, but the horizon is 3"):
        ib.CMDP.from_dense(np.stack([eye, eye]), **good)
    with pytest.raises(ib.InvalidInput, match=r"reward must have shape \[S, A\] = \(2, 1\) or \[H, S, A\]"):
        ib.CMDP.from_dense(eye, **good | {"reward": np.ones((2, 2, 1))})
    with pytest.raises(ib.InvalidInput, match="allowed must be booleans"):
        ib.CMDP.from_dense(eye, **good, allowed=np.ones((2, 1)))


def test_problem_is_read_only_and_leaves_its_input_alone():
    pieces = parts(reward=np.ones((3, 3)), transition=sp.csr_array(np.array([[1.0, 0], [0, 1.0], [0.5, 0.5]])))
    problem = ib.CMDP(**pieces)
    pieces["reward"][0, 0] = 5.0
    pieces["transition"].data[0] = 5.0
    assert problem.reward[0, 0] == 1.0
    assert problem.transition[0].data[0] == 1.0
    for array in (problem.reward, problem.margins, problem.initial, problem.transition[0].data):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0
    stationary = ib.CMDP(**parts())
    with pytest.raises(ValueError, match="read-only"):
        stationary.reward[0, 0] = 0.0
    assert stationary.transition[0] is stationary.transition[2]
    again = replace(stationary, name="again")
    assert again.transition[0] is again.transition[2]


def test_margins_are_spread_over_the_stages():
    problem = ib.CMDP(**parts())
    np.testing.assert_allclose(problem.margins, np.full((1, 3, 3), 1.0 / 3.0), atol=1e-15)
    assert problem.margin_scales[0] == pytest.approx(1.0, abs=1e-15)
    assert problem.tightened(0.5).constraints[0].at_most == 3.5
    assert repr(problem) == "CMDP(2 states, 3 pairs, 1 constraint, horizon 3)"


def test_policy_tables():
    problem = ib.CMDP(**parts())
    policy = ib.Policy.uniform(problem)
    table = policy.table()
    np.testing.assert_array_equal(table, np.tile([[0.5, 0.5], [1.0, 0.0]], (3, 1, 1)))
    np.testing.assert_array_equal(ib.Policy.from_table(problem, table).probabilities, policy.probabilities)
    assert policy.by_label() == [{"on": {"keep": 0.5, "switch": 0.5}, "off": {"keep": 1.0}}] * 3
    assert policy.at(1).by_label() == policy.by_label()[1]
    assert repr(policy) == "Policy(3 stages, 2 states, randomises in 3)"
    again = ib.evaluate(problem, ib.Policy.from_table(problem, table[0]))  # the same at every stage
    assert np.array_equal(again.occupancy, ib.evaluate(problem, policy).occupancy)
    with pytest.raises(ib.InvalidInput, match="does not belong to this problem"):
        ib.Policy.from_table(problem, table[:2])
    for chosen in ([0, 2], [[0, 2]], [[0, 2]] * 2 + [[0, 1]]):
        with pytest.raises(ib.InvalidInput, match="chosen must "):
            ib.Policy.deterministic(problem, chosen)
    with pytest.raises(ib.InvalidInput, match="an action that it does not have"):
        ib.Policy.from_table(problem, np.full((3, 2, 2), 0.5))
    with pytest.raises(ib.InvalidInput, match=r"must have 3 entries, one per pair \(with a horizon: at each stage\)"):
        ib.Policy(problem.pairs, [0.5, 0.5])
    with pytest.raises(ib.InvalidInput, match=r"stage 1, state 'off': the policy's probabilities sum to 0\.5"):
        ib.Policy(problem.pairs, [[0.5, 0.5, 1.0], [0.5, 0.5, 0.5]])
    with pytest.raises(
        ib.InvalidInput, match=r"stage 0, state 'on', action 'switch': the policy has probability -0\.5"
    ):
        ib.Policy(problem.pairs, [[1.5, -0.5, 1.0]])
    with pytest.raises(ib.InvalidInput, match="does not belong to this problem"):
        ib.evaluate(problem, ib.Policy(problem.pairs, [[0.5, 0.5, 1.0]]))
    with pytest.raises(ib.InvalidInput, match=r"the occupancy must have the shape \(3, 3\), found \(3,\)"):
        ib.Policy.from_occupancy(problem, [0.5, 0.5, 1.0])


def test_sampled_actions_follow_the_stage():
    problem = ib.CMDP(**parts())
    policy = ib.Policy(problem.pairs, [[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.3, 0.7, 1.0]])
    rng = np.random.default_rng(0)
    assert {policy.act("on", rng, stage=0) for _ in range(20)} == {"keep"}
    assert {policy.act("on", rng, stage=1) for _ in range(20)} == {"switch"}
    assert {policy.act("off", rng, stage=2) for _ in range(20)} == {"keep"}
    draws = 10_000
    share = sum(policy.act("on", rng, stage=2) == "switch" for _ in range(draws)) / draws
    assert abs(share - 0.7) < 5 * np.sqrt(0.7 * 0.3 / draws)  # five standard errors: one seed in two million fails


def test_what_is_not_numbers_or_not_finite_is_refused_by_name():
    media = ib.zoo.media()
    with pytest.raises(ib.InvalidInput, match="transition must be numbers, found list"):
        ib.CMDP.from_dense([["x"]], reward=[[0.0]], initial=[1.0], horizon=2)
    with pytest.raises(ib.InvalidInput, match="the probabilities of a policy must be numbers, found str"):
        ib.Policy(media.pairs, "uniform")
    with pytest.raises(ib.InvalidInput, match="what the problem is tightened by must have 1 entries, found shape"):
        media.tightened([0.1, 0.2, 0.3])
    spent = np.full((media.horizon, media.n_pairs), 1.0 / media.n_pairs)
    spent[3, 0] = np.nan
    with pytest.raises(ib.InvalidInput, match=r"stage 3, .*: the occupancy is nan"):
        ib.Policy.from_occupancy(media, spent)


def test_a_policy_normalised_twice_has_the_same_bits():
    media = ib.zoo.media()
    weights = np.random.default_rng(0).exponential(size=(media.horizon, media.n_pairs))
    policy = ib.Policy.from_occupancy(media, weights)
    assert np.array_equal(ib.Policy(media.pairs, policy.probabilities).probabilities, policy.probabilities)


def test_stages_of_transitions_may_come_as_a_tuple_a_list_or_an_array():
    moves = np.random.default_rng(0).dirichlet(np.ones(2), size=(3, 3))
    problems = [ib.CMDP(**parts(transition=form)) for form in (tuple(moves), list(moves), moves)]
    for problem in problems:
        for stage, matrix in zip(problem.transition, moves, strict=True):
            np.testing.assert_allclose(stage.toarray(), matrix, atol=1e-15)
    with pytest.raises(ib.InvalidInput, match="transition has stages, which is for a finite horizon"):
        ib.CMDP(**parts(transition=moves, horizon=None, discount=0.5, constraints=()))


def test_what_is_reached_too_late_changes_no_bound() -> None:
    """One step to the right, then none: of six states that pay their squares only two are ever seen.

    (A state that is reached at some stage counted as reached at all of them, and from there others are; upper bounds
    were four times too high, and that no policy is in bounds was not proved.)
    """
    states = 6
    right, stay = np.eye(states)[np.minimum(np.arange(states) + 1, states - 1)], np.eye(states)
    parts = dict(offsets=np.arange(states + 1), transition=(right, stay), initial=np.eye(states)[0], horizon=2)
    squares = np.arange(states) ** 2.0
    for constraints in ([], [ib.Constraint(squares, at_most=1.5, name="x")]):
        best = ib.solve(ib.CMDP(reward=squares, constraints=constraints, **parts))
        assert best.status == "optimal" and best.reward == 1.0 and best.upper_bound == pytest.approx(1.0, abs=1e-8)
    beyond = ib.CMDP(reward=squares, constraints=[ib.Constraint(squares, at_least=1.5, name="x")], **parts)
    with pytest.raises(ib.Infeasible) as refused:
        ib.solve(beyond)
    assert certify_infeasible(refused.value, beyond).infeasible
