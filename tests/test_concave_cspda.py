"""Concave CSPDA: CSPDA's bits without functions, exact means by enumeration, independent optima with functions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import inbounds as ib
from inbounds.algorithms.concave_cspda import Constants, advance, prepare, take_slopes
from inbounds.algorithms.cspda_steps import State
from inbounds.algorithms.frame import valued
from inbounds.algorithms.repair import Outcome, repair
from inbounds.numerics.compiled import interpreted
from naive_cspda import dense, ragged
from uniforms import Uniforms

QUEUE, FREE_QUEUE = ib.zoo.queue(), ib.zoo.queue().unconstrained()
GARNET = ib.zoo.garnet(states=8, actions=3, successors=3, constraints=1, seed=2)


def linear(slope: np.ndarray, name: str = "linear") -> ib.Utility:
    return ib.Utility(lambda x: float(slope @ x), lambda x: slope, lipschitz=1.0, name=name)


def best(cmdp: ib.CMDP, utility: ib.Utility, constraints: tuple[ib.Utility, ...] = ()) -> float:
    """The optimum over the flow polytope, by sequential quadratic programming: an independent solver."""
    d = dense(cmdp)
    flow = 1.0 * (d.state == np.arange(len(d.rho))[:, None]) - d.gamma * d.P.T
    held: list[dict[str, Any]] = [
        {"type": "eq", "fun": lambda x: flow @ x - (1.0 - d.gamma) * d.rho, "jac": lambda x: flow},
        {"type": "ineq", "fun": lambda x: d.g.T @ x, "jac": lambda x: d.g.T},
        *({"type": "ineq", "fun": h.value, "jac": h.gradient} for h in constraints),
    ]
    found = minimize(
        lambda x: -utility.value(x),
        np.array(ib.occupancy(cmdp, ib.Policy.uniform(cmdp))),
        jac=lambda x: -utility.gradient(x),
        bounds=[(0.0, 1.0)] * len(d.r),
        constraints=held if cmdp.n_constraints else held[:1] + held[2:],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-13},
    )
    assert found.success, found.message
    return -float(found.fun)


def learned(cmdp: ib.CMDP, settings: ib.ConcaveCSPDA, samples: int, seeds: int = 4) -> list[Any]:
    simulator = cmdp.simulator()
    return [
        ib.evaluate(cmdp, ib.learn(simulator, settings, samples=samples, seed=seed).policy) for seed in range(seeds)
    ]


def same(one: Any, other: Any) -> bool:
    return np.array_equal(one.policy.probabilities, other.policy.probabilities) and np.array_equal(
        one.prices, other.prices
    )


# ---- without functions, and with linear ones


@pytest.mark.parametrize("cmdp", [QUEUE, ragged(2), ragged(0)], ids=["queue", "ragged2", "ragged0"])
@pytest.mark.parametrize(
    "changes",
    [{"slater": 0.2}, {"slater": 0.2, "shift": "baseline", "average": "second half", "beta": 1e-3}, {"kappa": 0.01}],
)
def test_without_functions_it_is_cspda_bit_for_bit(cmdp: ib.CMDP, changes: dict[str, Any]) -> None:
    for refresh in (1, "pairs"):
        ours = ib.learn(cmdp.simulator(), ib.ConcaveCSPDA(**changes, refresh=refresh), samples=5000, checkpoints=3)
        assert same(ours, ib.learn(cmdp.simulator(), ib.CSPDA(**changes), samples=5000))
        assert ours.settings["utility"] == "reward" and "constraints" not in ours.settings
    for tested in (True, False):
        presets = [one.practical(repair=tested) for one in (ib.ConcaveCSPDA, ib.CSPDA)]
        ours, theirs = (ib.learn(cmdp.simulator(), preset, samples=3000, checkpoints=3) for preset in presets)
        assert same(ours, theirs) and ours.settings.get("weights") == theirs.settings.get("weights")


@pytest.mark.parametrize("refresh", [1, 50])
@pytest.mark.parametrize("cmdp", [QUEUE, ragged(2)], ids=["queue", "ragged"])
def test_the_reward_as_a_utility_gives_the_bits_of_cspda(cmdp: ib.CMDP, refresh: int) -> None:
    """A linear utility with the scaled reward as its gradient; what the simulator calls reward is then unused."""
    reward = dense(cmdp).r
    other = ib.CMDP(
        offsets=cmdp.offsets,
        transition=cmdp.transition,
        reward=np.random.default_rng(0).random(cmdp.n_pairs),
        constraints=cmdp.constraints,
        initial=cmdp.initial,
        discount=cmdp.discount,
    )
    settings = ib.ConcaveCSPDA.practical(slater=0.2, utility=linear(reward), refresh=refresh, repair=False)
    theirs = ib.learn(cmdp.simulator(), ib.CSPDA.practical(slater=0.2, repair=False), samples=3000)
    for model in (cmdp, other):
        ours = ib.learn(model.simulator(), settings, samples=3000)
        np.testing.assert_array_equal(ours.policy.probabilities, theirs.policy.probabilities)
        # Prices in units of the utility: the scaled reward.
        np.testing.assert_allclose(ours.prices, theirs.prices / np.ptp(cmdp.reward), rtol=1e-14)


def test_margins_as_functions_lead_to_the_constrained_optimum() -> None:
    """The queue's constraints given as functions: exact steps of the prices, and the same optimum, 4.644858.

    Mean total over 4 seeds within 0.1, and mean total margins >= 0.
    """
    d = dense(QUEUE)
    functions = tuple(linear(g, name) for g, name in zip(d.g.T, ("service", "flow"), strict=True))
    settings = ib.ConcaveCSPDA.practical(slater=0.2, constraints=functions)
    simulator = FREE_QUEUE.simulator()
    judged = [ib.evaluate(QUEUE, ib.learn(simulator, settings, samples=200_000, seed=seed).policy) for seed in range(4)]
    assert abs(np.mean([one.total_reward for one in judged]) - 4.644858) < 0.1
    assert np.all(np.mean([one.total_margins for one in judged], axis=0) >= 0.0)


# ---- the stochastic gradients with functions, by full enumeration over (k, s', s0), through the kernel itself


@pytest.mark.parametrize("with_utility", [True, False])
def test_gradients_are_exact_in_the_mean(with_utility: bool) -> None:
    """In lam: that of the Lagrangian of f, h and the simulator's margins, minus M; in the price of h: h - kappa."""
    cmdp = ragged(1)
    target = np.array([0.3, 0.3, 0.1, 0.2, 0.1])
    utility, function = ib.state_entropy(cmdp), ib.negative_kl(cmdp, target).at_least(-0.2)
    delta, alpha, beta, kappa = 0.1, 0.01, 1e-4, 0.03
    settings = ib.ConcaveCSPDA(
        slater=0.2,
        kappa=kappa,
        alpha=alpha,
        beta=beta,
        exploration=delta,
        utility=utility if with_utility else None,
        constraints=[function],
    )
    simulator = cmdp.simulator()
    before, constants, *_ = prepare(settings, simulator, 1000, np.random.default_rng(0))
    rng, d, n = np.random.default_rng(1), dense(cmdp), cmdp.n_pairs
    lam = rng.dirichlet(np.full(n, 2.0))
    before.tree[:8], before.tree[8:16] = 3.7 * lam[:8], np.append(3.7 * lam[8:], np.zeros(3))
    before.tree[16:24] = np.append([before.tree[:8].sum(), before.tree[8:16].sum()], np.zeros(6))
    before.values[:, 0] = rng.uniform(-1.0, 1.0, cmdp.n_states)
    before.prices[:] = u = np.array([0.7, 1.9])
    v, M = before.values[:, 0].copy(), constants.cspda.steps.shift

    objective = utility.gradient(lam) / utility.lipschitz if with_utility else d.r
    slope, height = function.gradient(lam) / function.lipschitz, function.value(lam) / function.lipschitz
    grad_lam = objective + u[0] * d.g[:, 0] + u[1] * slope + d.gamma * d.P @ v - v[d.state]
    starts, step, world = np.cumsum(lam) - lam, interpreted(advance), simulator.open()
    mean_lam, mean_u, mean_v, mass = np.zeros(n), np.zeros(2), np.zeros(len(v)), 0.0
    for k in range(n):
        for chance, x in (
            (delta / n, delta * (k + 0.5) / n),
            ((1 - delta) * lam[k], delta + (1 - delta) * (starts[k] + lam[k] / 2)),
        ):
            for after in np.flatnonzero(d.P[k]):
                for s0 in np.flatnonzero(d.rho):
                    state = State(*(array.copy() for array in before))
                    uniforms: Any = Uniforms(
                        x, np.cumsum(d.P[k])[after] - d.P[k, after] / 2, np.cumsum(d.rho)[s0] - d.rho[s0] / 2
                    )
                    assert step(state, constants, world, uniforms, 0, 1) == 1 and not uniforms.numbers
                    probability = chance * d.P[k, after] * d.rho[s0]
                    mean_lam[k] += probability * np.log(state.tree[k] / before.tree[k]) / beta
                    mean_u += probability * (u - state.prices) / alpha
                    mean_v += probability * (v - state.values[:, 0]) / alpha
                    assert (u[1] - state.prices[1]) / alpha == pytest.approx(height - kappa, abs=1e-12)
                    mass += probability
    assert mass == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(mean_lam, grad_lam - M, rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(mean_u, [lam @ d.g[:, 0] - kappa, height - kappa], rtol=0.0, atol=1e-12)
    flow = np.bincount(d.state, weights=lam)
    np.testing.assert_allclose(mean_v, (1 - d.gamma) * d.rho + d.gamma * d.P.T @ lam - flow, rtol=0.0, atol=1e-12)
    assert np.abs(grad_lam).max() < M  # the shift of CSPDA is large enough with functions


# ---- looks


def watched(utility: ib.Utility) -> tuple[ib.Utility, list[np.ndarray]]:
    """The same function, and the occupancies at which its gradient was asked for."""
    seen: list[np.ndarray] = []

    def gradient(occupancy: np.ndarray) -> Any:
        assert not occupancy.flags.writeable and occupancy.sum() == pytest.approx(1.0, abs=1e-12)
        seen.append(occupancy)
        return utility.gradient(occupancy)

    return ib.Utility(utility.value, gradient, utility.lipschitz, utility.name), seen


@pytest.mark.parametrize(("refresh", "expected"), [(1, 500), (7, 72), ("pairs", 39), (500, 1), (10_000, 1)])
def test_functions_are_looked_at_every_refresh_samples(refresh: int | str, expected: int) -> None:
    cmdp, paths = ragged(1), []
    for checkpoints in (1, [1, 2, 7, 13, 14, 91, 92, 400], range(1, 500)):
        utility, seen = watched(ib.state_entropy(cmdp))
        settings = ib.ConcaveCSPDA.practical(utility=utility, slater=0.2, refresh=refresh, repair=False)
        ib.learn(cmdp.simulator(), settings, samples=500, checkpoints=checkpoints)
        del seen[:4]  # before the first sample: whether the function is concave
        assert len(seen) == expected
        paths.append(np.array(seen))
    np.testing.assert_array_equal(paths[0], paths[1])
    np.testing.assert_array_equal(paths[0], paths[2])
    np.testing.assert_allclose(paths[0][0], np.full(cmdp.n_pairs, 1.0 / cmdp.n_pairs), rtol=1e-15)
    assert len(np.unique(paths[0], axis=0)) == expected  # of the lam of now, not of the first


def test_a_look_is_in_scaled_units() -> None:
    cmdp = ragged(1)
    utility, function = ib.state_entropy(cmdp), ib.negative_kl(cmdp, np.full(5, 0.2)).at_least(-1.0)
    settings = ib.ConcaveCSPDA(slater=0.2, utility=utility, constraints=[function])
    state, constants, *_ = prepare(settings, cmdp.simulator(), 1000, np.random.default_rng(0))
    assert isinstance(constants, Constants) and state.slopes.shape == (13, 2) and state.prices.shape == (2,)
    state.tree[:13] *= 5.0
    lam = np.full(13, 1.0 / 13)
    take_slopes(state, constants)
    np.testing.assert_allclose(state.slopes[:, 0], function.gradient(lam) / function.lipschitz, rtol=1e-14)
    np.testing.assert_allclose(state.slopes[:, 1], utility.gradient(lam) / utility.lipschitz, rtol=1e-14)
    np.testing.assert_allclose(state.heights, [function.value(lam) / function.lipschitz], rtol=1e-14)
    assert np.all(np.abs(state.slopes) <= 1.0)


def test_units_of_the_functions_change_nothing_but_the_prices() -> None:
    """Functions times powers of two (exact in binary): the same policy to the bit, prices in the utility's units."""

    def times(factor: float, utility: ib.Utility) -> ib.Utility:
        return ib.Utility(
            lambda x: factor * utility.value(x),
            lambda x: factor * utility.gradient(x),
            factor * utility.lipschitz,
            utility.name,
        )

    cmdp = ragged(2)
    entropy, function = ib.state_entropy(cmdp), ib.negative_kl(cmdp, np.full(5, 0.2)).at_least(-0.01)
    plain, scaled = (
        ib.learn(
            cmdp.simulator(),
            ib.ConcaveCSPDA(slater=0.2, utility=times(a, entropy), constraints=[times(b, function)], beta=1e-3),
            samples=2000,
        )
        for a, b in ((1.0, 1.0), (8.0, 0.25))
    )
    np.testing.assert_array_equal(plain.policy.probabilities, scaled.policy.probabilities)
    np.testing.assert_array_equal(8.0 * plain.prices, scaled.prices)
    assert plain.prices.shape == (2,) and np.all(plain.prices > 0.0)


# ---- against independent optima


def test_the_independent_optimum_is_one() -> None:
    """A bound that owes nothing to the solver of `best`: by concavity, with x the occupancy that was learned,

    max f <= f(x) + max over occupancies of <gradient at x, y - x>, which an exact solver finds.
    """
    utility = ib.state_entropy(GARNET)
    free = GARNET.unconstrained()
    run = ib.learn(free.simulator(), ib.ConcaveCSPDA.practical(utility=utility), samples=100_000)
    occupancy = ib.evaluate(free, run.policy).occupancy
    slope = utility.gradient(occupancy)
    linearised = ib.CMDP(
        offsets=free.offsets,
        transition=free.transition,
        reward=slope,
        constraints=(),
        initial=free.initial,
        discount=free.discount,
    )
    bound = utility.value(occupancy) + ib.solve(linearised).reward - slope @ occupancy
    optimum = best(free, utility)
    assert utility.value(occupancy) <= optimum + 1e-9 and optimum <= bound + 1e-9
    assert bound - utility.value(occupancy) < 0.01


@pytest.mark.parametrize(
    ("cmdp", "slater", "gap"),
    [(ragged(0), None, 0.003), (GARNET.unconstrained(), None, 0.003), (ragged(2), 0.1, 0.01), (GARNET, 0.19, 0.02)],
    ids=["ragged", "garnet", "ragged in bounds", "garnet in bounds"],
)
def test_the_most_even_time_within_bounds(cmdp: ib.CMDP, slater: float | None, gap: float) -> None:
    """Entropy of the states against the independent optimum, over 4 seeds, of which each is in bounds."""
    utility = ib.state_entropy(cmdp)
    uniform = utility.value(ib.evaluate(cmdp, ib.Policy.uniform(cmdp)).occupancy)
    optimum = best(cmdp, utility)
    judged = learned(cmdp, ib.ConcaveCSPDA.practical(utility=utility, slater=slater, repair=False), 60_000)
    gaps = np.array([optimum - utility.value(one.occupancy) for one in judged])
    assert np.all(gaps < gap), gaps
    assert all(one.in_bounds for one in judged)
    if cmdp.n_constraints == 0:
        assert np.all(gaps > -1e-9) and optimum - uniform > 10.0 * gap  # uniform would not do


def test_a_target_that_some_policy_reaches_is_reached() -> None:
    cmdp = ragged(0)
    rng = np.random.default_rng(4)
    aim = ib.Policy.from_occupancy(cmdp, rng.random(cmdp.n_pairs) ** 20)
    target = cmdp.pairs.sum_by_state(ib.occupancy(cmdp, aim))
    utility = ib.negative_kl(cmdp, target)
    uniform = utility.value(ib.evaluate(cmdp, ib.Policy.uniform(cmdp)).occupancy)
    for one in learned(cmdp, ib.ConcaveCSPDA.practical(utility=utility), 40_000):
        assert 0.05 * uniform < utility.value(one.occupancy) <= 1e-12


def test_the_most_reward_with_an_even_enough_time() -> None:
    """A concave constraint with a linear reward: in bounds in every seed, and near the independent optimum.

    The bound is half way from the entropy of the best policy without it to the most that any policy has.
    """
    cmdp = ragged(0)
    entropy, reward, free = ib.state_entropy(cmdp), linear(dense(cmdp).r), ib.solve(cmdp).occupancy
    most, least = best(cmdp, entropy), entropy.value(free)
    bound = entropy.at_least(0.5 * (most + least))
    slater = 0.5 * (most - least) / bound.lipschitz
    optimum = best(cmdp, reward, (bound,))
    judged = learned(cmdp, ib.ConcaveCSPDA.practical(constraints=[bound], slater=slater), 100_000)
    assert all(bound.value(one.occupancy) >= 0.0 for one in judged)
    gaps = np.array([optimum - reward.value(one.occupancy) for one in judged])
    assert np.all(gaps < 0.03) and np.all(gaps > -1e-6), gaps
    uniform = ib.evaluate(cmdp, ib.Policy.uniform(cmdp)).occupancy
    assert reward.value(free) > optimum > reward.value(uniform) + 0.2 and bound.value(free) < 0.0


# ---- the preset: tested by walks, and mixed for the utility


def test_policies_tested_are_mixed_for_the_utility() -> None:
    """By hand: two tested policies, in bounds both; the reward is for one of them, the utility for the other.

    Of one bound that the better one misses, as much of the other as it takes: by Jensen the mixture is worth at least
    the same share of the two values.
    """
    cmdp = ragged(1)
    entropy, n_states = ib.state_entropy(cmdp), cmdp.n_states
    worth = ib.ConcaveCSPDA.practical(utility=entropy).worth
    assert worth is not None and ib.CSPDA.practical().worth is ib.ConcaveCSPDA.practical().worth is None
    first = np.arange(cmdp.n_pairs) == cmdp.offsets[cmdp.pairs.states]
    one, even = ib.Policy(cmdp.pairs, 1.0 * first), ib.Policy.uniform(cmdp)
    times = np.eye(n_states)[0], np.full(n_states, 1.0 / n_states)
    rewarded = Outcome("one", one, np.array([1.0, 0.3]), np.full(2, 0.01), np.array([0.2]), times[0], 1_000)
    spread = Outcome("even", even, np.array([0.0, 0.3]), np.full(2, 0.01), np.array([0.2]), times[1], 1_000)
    for margin, shown in ((0.3, True), (-0.2, True)):
        tests = [rewarded, spread._replace(means=np.array([0.0, margin]), low=np.array([margin - 0.1]))]
        assert repair(cmdp, tests).weights.tolist() == [1.0, 0.0]
        tests = [valued(test, worth, cmdp.pairs.states) for test in tests]
        occupancies = [times[i][cmdp.pairs.states] * policy.probabilities for i, policy in enumerate((one, even))]
        values = np.array([entropy.value(occupancy) for occupancy in occupancies])
        np.testing.assert_allclose([test.means[0] for test in tests], values / entropy.lipschitz, rtol=1e-14)
        assert values[1] == pytest.approx(math.log(n_states)) and values[1] > values[0] + 1.0
        found = repair(cmdp, tests)
        assert found.shown == shown and (found.weights[1] == 1.0) == (margin > 0.0)
        mixed = sum(weight * occupancy for weight, occupancy in zip(found.weights, occupancies, strict=True))
        assert entropy.value(mixed) >= found.weights @ values - 1e-12


def test_a_preset_with_a_utility_is_in_bounds_where_they_bind() -> None:
    """The most even time of two queues, whose bound costs 3.9 of entropy a unit: of 20 runs none is out of bounds.

    At level 1 % more than two would be, with probability 1e-3. The bare preset is as far from the optimum as its kappa
    takes it (9 % here), the tested one within 4 %.
    """
    cmdp = ib.zoo.suite("tuning")["queues6"]
    entropy, optimum = ib.state_entropy(cmdp), 3.31347
    judged = []
    for seed in range(20):
        run = ib.learn(cmdp.simulator(), ib.ConcaveCSPDA.practical(utility=entropy), samples=100_000, seed=seed)
        judged.append(ib.evaluate(cmdp, run.policy))
        assert run.settings["kappa"] == 0.0 and "shown by a test by walks" in run.guarantee
    assert sum(not one.in_bounds for one in judged) <= 2
    gaps = 1.0 - np.array([entropy.value(one.occupancy) for one in judged]) / optimum
    assert 0.0 < gaps.mean() < 0.045


def test_with_further_constraints_the_preset_is_bare_and_says_that_nothing_is_shown() -> None:
    settings = ib.ConcaveCSPDA.practical(constraints=[ib.state_entropy(QUEUE).at_least(1.0)], slater=0.2)
    run = ib.learn(QUEUE.simulator(), settings, samples=1_000)
    assert not settings.repair and "spent" not in run.settings and "in bounds not shown" in run.guarantee


# ---- settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"utility": 3}, "ConcaveCSPDA: utility must be an ib.Utility, found 3"),
        ({"utility": abs}, "ConcaveCSPDA: utility must be an ib.Utility"),
        ({"constraints": ib.state_entropy(QUEUE)}, "ConcaveCSPDA: constraints must be a list of ib.Utility"),
        ({"constraints": [3]}, r"ConcaveCSPDA: constraints must be a list of ib.Utility, found \[3\]"),
        ({"refresh": 0}, 'ConcaveCSPDA: refresh must be a whole number of at least 1, or "pairs", found 0'),
        ({"refresh": "often"}, "ConcaveCSPDA: refresh must be"),
        ({"refresh": None}, "ConcaveCSPDA: refresh must be"),
        ({"slater": 2.0}, "ConcaveCSPDA: slater must be"),
        ({"constraints": [ib.state_entropy(QUEUE)], "slater": 0.2, "repair": True}, "repair must be False with constr"),
        ({"constraints": [ib.state_entropy(QUEUE)]}, "slater must be given with constraints"),
    ],
)
def test_a_bad_setting_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ib.InvalidInput, match=message):
        ib.ConcaveCSPDA(**changes)


def test_settings_are_printed_as_written() -> None:
    settings = ib.ConcaveCSPDA(slater=0.2, utility=ib.state_entropy(QUEUE), refresh=5)
    assert repr(settings) == "ConcaveCSPDA(slater=0.2, utility=Utility('state entropy'), refresh=5)"
    assert ib.ConcaveCSPDA(constraints=[], refresh=np.int64(3)) == ib.ConcaveCSPDA(refresh=3)


def test_what_a_run_says_of_itself() -> None:
    entropy = ib.state_entropy(QUEUE)
    settings = ib.ConcaveCSPDA(slater=0.2, utility=entropy, constraints=[entropy.at_least(1.0)], refresh="pairs")
    run = ib.learn(QUEUE.simulator(), settings, samples=100)
    assert run.settings["utility"] == "state entropy" and run.settings["constraints"] == "state entropy >= 1"
    assert run.settings["refresh"] == 96 and run.prices.shape == (2,)
    assert run.guarantee == (
        "none: the constants of the theorem for concave functions are not known here; in bounds not shown, as no walks "
        "test it"
    )
    # kappa for three constraints: the simulator's two and one function
    assert run.settings["kappa"] == pytest.approx(2 * 0.02 / 0.5 * math.sqrt(3 * 96 * math.log(96) / 100))
    covered = {"slater": 0.2, "constant": 1195.5}
    guarantees = [
        prepare(ib.ConcaveCSPDA(**covered, **changes), QUEUE.simulator(), 2_100_000_000_000, np.random.default_rng(0))[
            4
        ]
        for changes in ({}, {"utility": entropy}, {"beta": 0.1})
    ]
    assert guarantees[0].startswith("the paper's Theorem 3")
    assert guarantees[1].startswith("none: ") and guarantees[2].startswith("none: ")


def test_a_bad_function_is_named_when_it_is_asked() -> None:
    steep = ib.Utility(lambda x: 0.0, lambda x: 3.0 * x - 2.0, lipschitz=1.0, name="steep")
    with pytest.raises(ib.InvalidInput, match="Utility 'steep': an entry of its gradient is"):
        ib.learn(QUEUE.simulator(), ib.ConcaveCSPDA(slater=0.2, utility=steep), samples=10)
    with pytest.raises(ib.InvalidInput, match="'state entropy' was made of a problem with 13 pairs, and this one"):
        ib.learn(QUEUE.simulator(), ib.ConcaveCSPDA(slater=0.2, utility=ib.state_entropy(ragged(0))), samples=10)


def test_a_gradient_of_the_wrong_sign_is_noticed() -> None:
    queue = ib.zoo.queue()
    entropy = ib.state_entropy(queue)
    wrong = replace(entropy, gradient=lambda occupancy: -entropy.gradient(occupancy), name="wrong")
    convex = replace(wrong, value=lambda occupancy: -entropy.value(occupancy), name="convex")
    for function in (wrong, convex):
        for settings in (
            ib.ConcaveCSPDA.practical(utility=function, slater=0.2),
            ib.ConcaveCSPDA.practical(constraints=[function], slater=0.2),
        ):
            with pytest.raises(ib.InvalidInput, match=f"Utility '{function.name}': the gradient at one"):
                ib.learn(queue.simulator(), settings, samples=100)
