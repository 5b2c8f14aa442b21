"""Model-based primal-dual learning: its formulas by hand, its plans by enumeration and by the exact solver."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms import planning
from inbounds.algorithms.empirical import accuracy, sampled_model
from inbounds.algorithms.known import in_scaled_units
from inbounds.algorithms.model_based import formulas, plan_by_iteration, plan_by_program, prepare
from naive_cspda import ragged
from reference import two_rooms, work_and_rest
from test_opg_pd import certain

QUEUE = ib.zoo.queue()


# ---- the formulas


def test_formulas_by_hand() -> None:
    strict = formulas(True, 0.1, 0.2)
    assert strict.kappa == pytest.approx(0.001) and strict.omega == pytest.approx(0.01)
    assert strict.price_bound == pytest.approx(20.2)
    assert strict.iterations == pytest.approx(4 * 20.2**2 / 0.0005**2 * (1 + 4 / 20.2**2))
    assert strict.net == pytest.approx(0.0005**2 / 12)
    relaxed = formulas(False, 0.1, math.nan)
    assert relaxed.kappa == pytest.approx(-0.0375) and relaxed.omega == pytest.approx(0.0125)
    assert relaxed.price_bound == pytest.approx(160 / 3)
    assert relaxed.net == pytest.approx(0.025**2 / 12)


def test_in_the_units_of_the_paper_they_are_the_paper_s() -> None:
    """Values as discounted sums: epsilon, zeta and b' - b are 1 / (1 - gamma) times ours."""
    gamma, epsilon, zeta = 0.9, 0.5, 3.0
    ours = formulas(True, (1 - gamma) * epsilon, (1 - gamma) * zeta)
    assert ours.kappa / (1 - gamma) == pytest.approx(epsilon * (1 - gamma) * zeta / 20)
    assert ours.omega == pytest.approx(epsilon * (1 - gamma) / 10)
    assert ours.price_bound == pytest.approx(4 * (1 + ours.omega) / (zeta * (1 - gamma)))
    assert formulas(False, (1 - gamma) * epsilon, math.nan).kappa / (1 - gamma) == pytest.approx(-3 * epsilon / 8)


def test_accuracy_is_the_order_of_the_sample_complexity() -> None:
    """n SA = SA / ((1 - gamma)^3 epsilon^2), epsilon a sum: inverted."""
    epsilon = accuracy(500, 0.9) / (1 - 0.9)
    assert 1.0 / ((1 - 0.9) ** 3 * epsilon**2) == pytest.approx(500)


@pytest.mark.parametrize(
    ("settings", "kappa"),
    [
        (ib.ModelBased(), 1 / (20 * math.sqrt(0.5 * 101))),
        (ib.ModelBased(slater=0.3), 1 / (20 * math.sqrt(0.5 * 101))),  # it cancels
        (ib.ModelBased.practical(repair=False), 1 / (10 * math.sqrt(0.5 * 101))),
        (ib.ModelBased(feasibility="relaxed"), -3 / (8 * math.sqrt(0.5 * 101))),
        (ib.ModelBased(epsilon=0.1, slater=0.2), 0.001),
        (ib.ModelBased(feasibility="relaxed", epsilon=0.1), -0.0375),
        (ib.ModelBased(kappa=-0.02), -0.02),
    ],
)
def test_the_tightening(settings: ib.ModelBased, kappa: float) -> None:
    start = prepare(settings, QUEUE.simulator(), 9_700, np.random.default_rng(0))  # 101 samples of every pair
    assert start.settings["kappa"] == pytest.approx(kappa, rel=1e-12) and start.samples == 0


# ---- plans


def enumerated(cmdp: ib.CMDP) -> list[tuple[ib.Policy, np.ndarray]]:
    """Every deterministic policy with its occupancy."""
    choices = itertools.product(*(range(a, b) for a, b in itertools.pairwise(cmdp.offsets)))
    policies = [ib.Policy.deterministic(cmdp, np.array(chosen)) for chosen in choices]
    return [(policy, ib.occupancy(cmdp, policy)) for policy in policies]


@pytest.mark.parametrize("net", [0.0, 0.03])
@pytest.mark.parametrize("n_constraints", [0, 1, 2])
def test_the_iteration_by_enumeration_of_policies(n_constraints: int, net: float) -> None:
    model = in_scaled_units(ragged(n_constraints))[1]
    model = model.tightened(0.5)  # so that prices move
    bound, iterations = 3.0, 40
    everyone = enumerated(model)
    u, mean_u, mixed, seen = np.zeros(n_constraints), np.zeros(n_constraints), np.zeros(model.n_pairs), set()
    for _ in range(iterations):
        which = int(np.argmax([x @ (model.reward + u @ model.margins) for _, x in everyone]))
        seen.add(which)
        mixed += everyone[which][1] / iterations
        mean_u += u / iterations
        u = np.clip(u - bound / math.sqrt(iterations) * (model.margins @ everyone[which][1]), 0.0, bound)
        if net > 0.0:
            u = np.minimum(np.round(u / net) * net, bound)
    policy, prices, *_ = plan_by_iteration(model, bound, iterations, net)
    # Occupancies are exact to 1e-10 each, prices to the sum of 40 steps of 0.5 times that.
    np.testing.assert_allclose(prices, mean_u, rtol=0.0, atol=2e-9)
    np.testing.assert_allclose(ib.occupancy(model, policy), mixed, rtol=0.0, atol=1e-9)
    assert len(seen) > 1 or n_constraints == 0


def test_the_regret_of_the_prices_bounds_the_gap() -> None:
    """Each pi_t is best for r + u_t g, so its reward is at least the optimum minus u_t J_g(pi_t).

    From u_0 = 0 with steps U / sqrt(T) and |J_g| <= 1, the mean of u_t J_g(pi_t) is at most U / (2 sqrt(T)) for each
    of the two constraints.
    """
    model = in_scaled_units(QUEUE)[1]
    best = ib.solve(model)
    for iterations in (100, 1_000):
        policy, *_ = plan_by_iteration(model, 10.0, iterations, 0.0)
        assert best.reward - ib.evaluate(model, policy).reward <= 2 * 10.0 / (2.0 * math.sqrt(iterations))


def test_the_iteration_approaches_the_program() -> None:
    model = in_scaled_units(two_rooms().cmdp)[1]
    policy, prices, *_ = plan_by_iteration(model, 4.0, 20_000, 0.0)
    exact, exact_prices, *_ = plan_by_program(model)
    found, best = ib.evaluate(model, policy), ib.evaluate(model, exact)
    assert found.reward == pytest.approx(best.reward, abs=0.01) and found.margins.min() > -0.01
    np.testing.assert_allclose(prices, exact_prices, rtol=0.0, atol=0.05)


@pytest.mark.parametrize("plan", ["lp", "primal-dual"])
def test_the_plan_is_made_on_the_tightened_empirical_model(plan: str) -> None:
    settings = ib.ModelBased(plan=plan, kappa=0.03, slater=0.2, iterations=20)
    run = ib.learn(QUEUE.simulator(), settings, samples=9_600, seed=5)
    model = sampled_model(QUEUE.simulator(), 100, np.random.default_rng(5)).tightened(0.03)
    if plan == "lp":
        expected, prices, *_ = plan_by_program(model)
    else:
        epsilon = accuracy(100, 0.5) / 0.2
        expected, prices, *_ = plan_by_iteration(model, 4.0 * (1.0 + epsilon / 10.0) / 0.2, 20, 0.0)
    np.testing.assert_array_equal(run.policy.probabilities, expected.probabilities)
    np.testing.assert_allclose(run.prices, QUEUE.simulator().scaling.prices_in_user_units(prices), rtol=1e-15)
    if plan == "lp":
        best = ib.solve(model)
        assert ib.evaluate(model, run.policy).reward == pytest.approx(best.reward, abs=1e-8)


@pytest.mark.parametrize("solved", [work_and_rest(), two_rooms()], ids=["work and rest", "two rooms"])
def test_without_chance_the_program_finds_the_optimum(solved: Any) -> None:
    run = ib.learn(solved.cmdp.simulator(), ib.ModelBased.practical(repair=False, kappa=0.0), samples=40)
    np.testing.assert_allclose(run.policy.table(), solved.table, rtol=0.0, atol=1e-8)
    np.testing.assert_allclose(run.prices, solved.prices, rtol=0.0, atol=1e-8)


def test_beyond_a_size_the_bundle_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    model = in_scaled_units(QUEUE)[1]
    by_program, *_ = plan_by_program(model)
    monkeypatch.setattr(planning, "_SMALL", 95)
    by_bundle, *_ = plan_by_program(model)
    one, other = ib.evaluate(model, by_program), ib.evaluate(model, by_bundle)
    assert one.reward == pytest.approx(other.reward, abs=1e-7) and other.in_bounds


@pytest.mark.parametrize(
    "settings", [ib.ModelBased.practical(repair=False), ib.ModelBased(iterations=50)], ids=["lp", "iteration"]
)
def test_an_infeasible_estimate_is_no_error(settings: ib.ModelBased) -> None:
    cmdp = replace(certain(), constraints=(ib.Constraint(certain().constraints[0].signal, at_most=-1.0, name="never"),))
    run = ib.learn(cmdp.simulator(), settings, samples=60)
    assert np.isnan(run.prices).all() == (settings.plan == "lp")
    if settings.plan == "lp":  # the largest margin there is
        assert ib.evaluate(cmdp, run.policy).margins[0] == pytest.approx(ib.slater(cmdp).value, abs=1e-9)


def test_perturbed_rewards_break_ties_at_random() -> None:
    alike = ib.CMDP(
        offsets=[0, 8], transition=np.ones((8, 1)), reward=np.zeros(8), constraints=(), initial=[1.0], discount=0.5
    )
    plain, perturbed = ib.ModelBased(slater=1.0), ib.ModelBased(slater=1.0, perturbation=True)
    chosen = [
        int(np.argmax(ib.learn(alike.simulator(), perturbed, samples=8, seed=s).policy.probabilities)) for s in range(8)
    ]
    drawn = [np.random.default_rng(seed) for seed in range(8)]
    assert chosen == [int(np.argmax([rng.random() for _ in range(8)])) for rng in drawn]
    assert (
        len({ib.learn(alike.simulator(), plain, samples=8, seed=s).policy.probabilities.argmax() for s in range(8)})
        == 1
    )


# ---- runs


def test_a_checkpoint_is_a_run_that_ends_there_and_the_first_are_uniform() -> None:
    simulator = QUEUE.simulator()
    for settings in (ib.ModelBased.practical(repair=False), ib.ModelBased(iterations=20)):
        run = ib.learn(simulator, settings, samples=2_000, seed=3, checkpoints=[95, 1_000])
        np.testing.assert_array_equal(run.policies[0].probabilities, ib.Policy.uniform(QUEUE).probabilities)
        short = ib.learn(simulator, settings, samples=1_000, seed=3)
        np.testing.assert_array_equal(run.policies[1].probabilities, short.policy.probabilities)


def test_on_the_queue_with_a_million_samples() -> None:
    """Over ten seeds: within 0.01 of the optimum, total, and violations far below 0.05."""
    judged = [
        ib.evaluate(
            QUEUE,
            ib.learn(QUEUE.simulator(), ib.ModelBased.practical(repair=False), samples=1_000_000, seed=seed).policy,
        )
        for seed in range(10)
    ]
    assert np.mean([one.total_reward for one in judged]) > 4.644858248633466 - 0.01
    assert np.mean([np.max(-one.total_margins, initial=0.0) for one in judged]) < 0.005


def test_without_tightening_about_half_the_margins_end_below_zero() -> None:
    """The estimate of a margin that binds is off to either side: 40 runs, each out of bounds with a chance of at least
    1/2 if the two margins were symmetric; 10 or fewer would come by chance with probability 1e-3."""
    simulator = QUEUE.simulator()
    out = 0
    for seed in range(40):
        run = ib.learn(simulator, ib.ModelBased.practical(repair=False, kappa=0.0), samples=20_000, seed=seed)
        out += not ib.evaluate(QUEUE, run.policy).in_bounds
    assert out > 10


def test_what_is_said_of_a_run() -> None:
    simulator = QUEUE.simulator()
    practical = ib.learn(simulator, ib.ModelBased.practical(repair=False), samples=960)
    assert practical.guarantee.startswith("none: the paper's theorem does not cover several constraints; nor a target")
    assert "a linear program in the place of the iteration" in practical.guarantee
    assert practical.settings == {"feasibility": "strict", "plan": "lp", "kappa": pytest.approx(0.1 / math.sqrt(5.0))}
    paper = ib.learn(simulator, ib.ModelBased(iterations=7), samples=960)
    assert "nor 7 iterations where it asks for" in paper.guarantee
    assert paper.settings["slater"] == "half that of the empirical model" and paper.settings["iterations"] == 7
    one = ragged(1).simulator()
    whole = ib.ModelBased(feasibility="relaxed", epsilon=1.0, iterations=3_000, perturbation=True, net=True)
    start = prepare(whole, one, 130, np.random.default_rng(0))
    assert start.guarantee.startswith("the paper's theorem on relaxed feasibility") and "10 samples" in start.guarantee
    for gap in ({"net": False}, {"kappa": 0.0}, {"iterations": 10}, {"plan": "lp"}, {"epsilon": None}):
        assert prepare(replace(whole, **gap), one, 130, np.random.default_rng(0)).guarantee.startswith("none")
    strict = prepare(
        replace(whole, feasibility="strict", slater=1.0, iterations=10**9), one, 130, np.random.default_rng(0)
    )
    assert "rewards and margins, if the Slater constant is right and 10 samples" in strict.guarantee
    free = prepare(whole, ragged(0).simulator(), 130, np.random.default_rng(0)).guarantee
    assert "with known rewards, if 10 samples" in free


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("feasibility", "loose"),
        ("plan", "simplex"),
        ("epsilon", 0.0),
        ("slater", 2.0),
        ("kappa", 1.1),
        ("kappa_multiplier", -1.0),
        ("price_bound", 0.0),
        ("iterations", 0),
        ("perturbation", 1),
        ("net", None),
    ],
)
def test_settings_are_checked_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ib.InvalidInput, match=rf"ModelBased: {setting} must be"):
        ib.ModelBased(**{setting: value})


def test_a_strict_target_needs_the_slater_constant() -> None:
    with pytest.raises(ib.InvalidInput, match="slater must be given with epsilon for strict feasibility"):
        ib.ModelBased(epsilon=0.1)
    assert repr(ib.ModelBased(epsilon=0.1, feasibility="relaxed")) == "ModelBased(feasibility='relaxed', epsilon=0.1)"


def test_certified_learning_takes_it() -> None:
    found = ib.learn_certified(QUEUE.simulator(), samples=200_000, learner=ib.ModelBased.practical(), seed=1)
    assert found.samples <= 200_000
    assert found.policy is None or ib.evaluate(QUEUE, found.policy).in_bounds
