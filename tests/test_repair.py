"""Trials by walks, and the mixture of what was tested; exact where it can be, else with a derived tolerance."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

import inbounds as ib
from inbounds.algorithms.frame import moved
from inbounds.algorithms.known import in_scaled_units
from inbounds.algorithms.repair import Outcome, mixing_weights, new_trial, outcome, repair, walk, wanted_margins
from inbounds.numerics.compiled import interpreted
from naive_cspda import ragged
from uniforms import Uniforms, watched

RAGGED = ragged(2)
UNIFORM = ib.Policy.uniform(RAGGED)


def exact(cmdp: ib.CMDP, policy: ib.Policy) -> np.ndarray:
    """Reward and margins in scaled units, [K + 1]."""
    judged = ib.evaluate(in_scaled_units(cmdp)[1], policy)
    return np.array([judged.reward, *judged.margins])


def shown_by(
    name: str, means: list[float], errors: list[float], low: list[float], policy: ib.Policy = UNIFORM
) -> Outcome:
    shares = np.full(policy.pairs.n_states, 1.0 / policy.pairs.n_states)
    return Outcome(name, policy, np.array(means), np.array(errors), np.array(low), shares, 1_000)


# Trials


@pytest.mark.parametrize("discount", [0.0, 0.7, 0.95])
def test_walks_are_unbiased_whatever_the_values_they_start_from(discount: float) -> None:
    """A table of values that is wrong everywhere, and held fast: the mean is within 4.5 standard errors of the value.

    A false alarm has probability 7e-6 for each of three numbers, three discounts and two tables.
    """
    cmdp, rng = ragged(2, discount=discount), np.random.default_rng(1)
    simulator = cmdp.simulator()
    for fixed in (True, False):
        trial, followed = new_trial(simulator, UNIFORM, 60_000, None)
        trial.pair_values[:] = rng.uniform(-2.0, 2.0, trial.pair_values.shape)
        for k, row in enumerate(trial.pair_values.T):
            trial.values[:, k] = cmdp.pairs.sum_by_state(UNIFORM.probabilities * row)
        if fixed:
            trial.tries[:] = 1e12
        walk(trial, followed, simulator.open(), rng, 0, 60_000)
        found = outcome("uniform", UNIFORM, trial)
        z = (found.means - exact(cmdp, UNIFORM)) / found.errors
        assert np.all(np.abs(z) < 4.5), z
        assert trial.visits.sum() == 60_000 and found.shares.sum() == pytest.approx(1.0)


def test_values_are_improved_backwards_and_only_after_a_walk() -> None:
    """Two steps, s = 1 then 0, worked out by hand, at discount 0.7.

    There is no prior, so that the first visit sets the value of the pair, and its share that of the state.
    """
    simulator = RAGGED.simulator()
    world = simulator.open()
    trial, followed = new_trial(simulator, UNIFORM, 10, None)
    pairs = [int(RAGGED.offsets[1]), int(RAGGED.offsets[0])]
    after = iter([0, 3])
    asked: list[int] = []

    def step(pair: int, rng: object) -> int:
        asked.append(pair)
        return next(after)

    scripted = watched(world, draw_next=step, draw_start=lambda rng: 1)
    # The action and whether the walk ends, for each of two steps.
    interpreted(walk)(trial, followed, scripted, Uniforms(0.0, 0.1), 0, 1)
    assert not trial.values.any() and trial.position.tolist() == [0, 1]
    interpreted(walk)(trial, followed, scripted, Uniforms(0.0, 0.9), 1, 2)
    assert asked == pairs and trial.position[0] == -1 and trial.tally.walks[0] == 1
    seen = np.array([[world.reward[pair], *world.margins[pair]] for pair in pairs])
    last = 0.3 * seen[1]
    shares = UNIFORM.probabilities[pairs]
    first = 0.3 * seen[0] + 0.7 * shares[1] * last
    np.testing.assert_allclose(trial.pair_values[pairs], [first, last], rtol=1e-15)
    np.testing.assert_allclose(trial.values[[1, 0]], shares[:, None] * [first, last], rtol=1e-15)
    np.testing.assert_allclose(trial.tally.mean, 0.3 * (seen[0] + seen[1]), rtol=1e-14)
    assert np.flatnonzero(trial.tries).tolist() == sorted(pairs) and trial.tries.sum() == 2.0


def test_a_model_s_values_leave_little_noise() -> None:
    """With the true model the values are right, and the walks' variance a fraction of that without."""
    simulator, model = RAGGED.simulator(), in_scaled_units(RAGGED)[1]
    errors = []
    for known in (model, None):
        trial, followed = new_trial(simulator, UNIFORM, 20_000, known)
        if known is None:
            trial.tries[:] = 1e12
        else:
            np.testing.assert_allclose(model.initial @ trial.values, exact(RAGGED, UNIFORM), atol=1e-9)
        walk(trial, followed, simulator.open(), np.random.default_rng(0), 0, 20_000)
        errors.append(outcome("uniform", UNIFORM, trial).errors)
    assert np.all(errors[0] < errors[1]) and errors[0][0] < 0.5 * errors[1][0]


def test_the_action_that_was_drawn_makes_no_noise() -> None:
    """One state, two actions, one as good as the other half the time: nothing is left to estimate once q is right.

    Values of states alone would leave the noise of the coin: here 0.5 for each step.
    """
    coin = ib.CMDP.from_dense(
        np.ones((1, 2, 1)),
        reward=[[0.0, 1.0]],
        constraints=[ib.Constraint([[1.0, 0.0]], at_least=0.25)],
        initial=[1.0],
        discount=0.9,
    )
    uniform, model = ib.Policy.uniform(coin), in_scaled_units(coin)[1]
    trial, followed = new_trial(coin.simulator(), uniform, 5_000, model)
    walk(trial, followed, coin.simulator().open(), np.random.default_rng(0), 0, 5_000)
    found = outcome("uniform", uniform, trial)
    np.testing.assert_allclose(found.means, exact(coin, uniform), atol=1e-12)
    assert np.all(found.errors < 1e-12)


def test_the_test_has_its_level() -> None:
    """At a policy whose margin is compared with its true value, low exceeds it in 1 % / K of trials.

    Of 800 trials of two margins 8 are expected with a standard deviation of 2.8: at most 18 (3.5 standard deviations).
    """
    simulator, truth, beyond = RAGGED.simulator(), exact(RAGGED, UNIFORM)[1:], 0
    for seed in range(800):
        trial, followed = new_trial(simulator, UNIFORM, 1_500, None)
        walk(trial, followed, simulator.open(), np.random.default_rng(seed), 0, 1_500)
        beyond += int(np.sum(outcome("uniform", UNIFORM, trial).low > truth))
    assert beyond <= 18


def test_few_walks_show_nothing() -> None:
    trial, followed = new_trial(RAGGED.simulator(), UNIFORM, 1, None)
    walk(trial, followed, RAGGED.simulator().open(), np.random.default_rng(0), 0, 1)
    found = outcome("uniform", UNIFORM, trial)
    assert np.all(np.isinf(found.errors)) and np.all(found.low == -math.inf)
    mixed = repair(RAGGED, [found])
    assert mixed.policy is UNIFORM and not mixed.shown and mixed.weights.tolist() == [1.0]


# The mixture


def test_weights_worked_out_by_hand() -> None:
    """Margins 0 and 0.4, each known up to 0.1, with weights a and b: so 0.4 b = 0.1 sqrt(a^2 + b^2)."""
    bold, safe = shown_by("bold", [1.0, 0.0], [0.1, 0.01], [-0.1]), shown_by("safe", [0.2, 0.4], [0.1, 0.01], [0.3])
    weights, shown = mixing_weights([bold, safe], 0.0)
    share = 1.0 / (1.0 + math.sqrt(15.0))
    np.testing.assert_allclose(weights, [1.0 - share, share], atol=1e-6)
    assert shown
    weights, shown = mixing_weights([bold, safe], 0.5)  # more than either has: the one that comes closest
    assert weights.tolist() == [0.0, 1.0] and not shown
    assert mixing_weights([shown_by("a", [0.1], [1.0], []), shown_by("b", [0.2], [1.0], [])], 0.0)[0].tolist() == [
        0.0,
        1.0,
    ]


def test_what_one_policy_is_tested_by_serves_the_other() -> None:
    """The same margin from two trials of one policy: shown together where neither is alone, 0.8 < 1 < sqrt(2) 0.8."""
    twice = [shown_by(name, [1.0, 0.08], [0.1, 0.01], [-0.02]) for name in ("one", "two")]
    assert not mixing_weights(twice[:1], 0.0)[1]
    weights, shown = mixing_weights(twice, 0.0)
    assert shown and np.all(weights > 0.1)


def test_weights_are_those_of_another_solver() -> None:
    rng, shown_once = np.random.default_rng(5), set()
    for _ in range(60):
        n, k = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        margins, reach, rewards = rng.uniform(-0.3, 0.3, (n, k)), rng.uniform(0.0, 0.2, (n, k)), rng.random(n)
        tests = [
            shown_by("x", [rewards[i], *margins[i]], [0.1] * (k + 1), list(margins[i] - reach[i])) for i in range(n)
        ]
        weights, shown = mixing_weights(tests, 0.0)
        assert weights.min() >= 0.0 and weights.sum() == pytest.approx(1.0)

        def rows(w: np.ndarray, margins: np.ndarray = margins, reach: np.ndarray = reach) -> np.ndarray:
            return w @ margins - np.sqrt(w**2 @ reach**2 + 1e-18)

        grid = np.array([w for w in itertools.product(np.linspace(0.0, 1.0, 11), repeat=n) if abs(sum(w) - 1) < 1e-9])
        values = np.array([rows(w) for w in grid])
        if shown:
            assert np.all(rows(weights) >= -1e-6)
            best = minimize(
                lambda w, rewards=rewards: -w @ rewards,
                weights,
                bounds=[(0.0, 1.0)] * n,
                constraints=[{"type": "eq", "fun": lambda w: w.sum() - 1.0}, {"type": "ineq", "fun": rows}],
            )
            assert weights @ rewards >= -best.fun - 1e-4 or np.min(rows(best.x)) < -1e-6
            among = grid[np.min(values, axis=1) >= 0.0] @ rewards
            assert weights @ rewards >= np.max(among, initial=-1.0) - 1e-6
        else:  # the largest least row, in units of the mean reach
            units = reach.mean(axis=0)
            assert np.min(rows(weights) / units) >= np.max(np.min(values / units, axis=1)) - 1e-6
            assert np.max(np.min(values, axis=1)) < 0.0
        shown_once.add(shown)
    assert shown_once == {True, False}


def test_a_mixture_is_one_policy_with_the_mixed_values() -> None:
    """With exact shares of time: its margins are the weighted margins, and it is in bounds where one part is not."""
    queue = ib.zoo.queue()
    scaled = in_scaled_units(queue)[1]
    bold, safe = ib.solve(scaled.unconstrained()).policy, ib.slater(scaled).policy
    tests = []
    for name, policy in (("bold", bold), ("safe", safe)):
        judged = ib.evaluate(scaled, policy)
        values, shares = np.array([judged.reward, *judged.margins]), scaled.pairs.sum_by_state(judged.occupancy)
        tests.append(Outcome(name, policy, values, np.zeros(3), judged.margins, shares, 1_000))
    found = repair(scaled, tests)
    judged = ib.evaluate(scaled, found.policy)
    assert found.shown and 0.0 < found.weights[0] < 1.0 and not ib.evaluate(scaled, bold).in_bounds
    np.testing.assert_allclose(judged.margins, found.margins, atol=1e-5)  # what is unseen counts as 1e-6
    assert judged.margins.min() == pytest.approx(0.0, abs=1e-5)
    assert repair(scaled, tests[1:]).policy is safe


# A further candidate


def test_the_margins_of_a_further_candidate_by_hand() -> None:
    test = shown_by("first", [0.5, 0.01, 0.2], [0.1, 0.01, 0.02], [-0.01, 0.15])
    np.testing.assert_allclose(wanted_margins(test, 0.0, 2.0, 1.0), [0.04, 0.1], rtol=1e-12)
    np.testing.assert_allclose(wanted_margins(test, 0.0, 2.0, 0.06), [0.04, 0.06], rtol=1e-12)
    np.testing.assert_allclose(wanted_margins(test, 0.05, 4.0, 0.06), [0.11, 0.11], rtol=1e-12)
    unknown = shown_by("unknown", [0.0, 0.0], [math.inf, math.inf], [-math.inf])
    assert wanted_margins(unknown, 0.02, 2.0, 1.0).tolist() == [0.02]


def test_a_moved_model_agrees_with_the_test() -> None:
    """The policy that was tested has on the moved model the margins that the test found, less what is wanted."""
    model = in_scaled_units(RAGGED)[1]
    test = shown_by("first", [0.5, 0.01, 0.2], [0.1, 0.01, 0.02], [-0.01, 0.15])
    wanted = np.array([0.04, 0.1])
    found = ib.evaluate(moved(model, test, wanted), UNIFORM).margins
    np.testing.assert_allclose(found, np.array([0.01, 0.2]) - wanted, atol=1e-12)
