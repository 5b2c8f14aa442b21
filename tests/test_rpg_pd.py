"""RPG-PD: its floored rows by bisection, its iterations by a dense twin, its limit by what the equations demand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms.known import in_scaled_units, known_model
from inbounds.algorithms.rpg_pd import advance_known, floored_row, prepare_known, theorem_constants
from inbounds.algorithms.settings import stated
from inbounds.numerics.compiled import interpreted
from naive_cspda import dense, ragged
from naive_policy_gradient import floored_by_bisection, rows, rpg_pd, values
from test_opg_pd import certain

QUEUE = ib.zoo.queue()


# ---- the floored rows


def floored(logits: np.ndarray, floor: float) -> tuple[np.ndarray, np.ndarray]:
    """(probabilities, their logarithms), by the kernel, in the middle of larger arrays."""
    logs, policy = np.concatenate([[5.0], logits, [6.0]]), np.full(len(logits) + 2, 9.0)
    floored_row(logs, policy, 1, 1 + len(logits), floor)
    assert (logs[0], logs[-1], policy[0], policy[-1]) == (5.0, 6.0, 9.0, 9.0)
    return policy[1:-1], logs[1:-1]


@pytest.mark.parametrize("floor", [1e-12, 1e-3, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("length", [1, 2, 5, 16])
def test_floored_rows_are_those_by_bisection(length: int, floor: float) -> None:
    rng, floored_row_twin = np.random.default_rng(length), interpreted(floored_row)
    for _ in range(100):
        logits = rng.normal(0.0, rng.choice([0.1, 2.0, 10.0]), length) + rng.normal(0.0, 50.0)
        policy, logs = floored(logits, floor)
        expected = floored_by_bisection(np.exp(logits - logits.max()), floor)
        np.testing.assert_allclose(policy, expected, rtol=1e-9, atol=1e-15)
        assert policy.sum() == pytest.approx(1.0, abs=1e-12) and policy.min() >= floor / length * (1.0 - 1e-12)
        np.testing.assert_allclose(logs, np.log(policy), rtol=0.0, atol=1e-11)
        twin, twin_logs = np.empty(length), logits.copy()
        floored_row_twin(twin_logs, twin, 0, length, floor)
        np.testing.assert_array_equal(twin, policy)


def test_floored_rows_maximise_what_they_should() -> None:
    """<p, Q> - KL(p || old) / eta over p >= floor / A: no other feasible point has more."""
    rng, eta, floor = np.random.default_rng(1), 0.7, 0.4

    def objective(p: np.ndarray, Q: np.ndarray, old: np.ndarray) -> float:
        return float(p @ Q - np.sum(p * np.log(p / old)) / eta)

    for _ in range(50):
        Q, old = rng.normal(0.0, 3.0, 5), rng.dirichlet(np.ones(5))
        best = objective(floored(np.log(old) + eta * Q, floor)[0], Q, old)
        for p in floor / 5 + (1.0 - floor) * rng.dirichlet(np.full(5, 0.5), size=200):
            assert objective(p, Q, old) <= best + 1e-12


def test_no_floor_no_change_and_rounds_by_hand() -> None:
    policy, _ = floored(np.log([0.5, 0.3, 0.2]), 0.3)
    np.testing.assert_allclose(policy, [0.5, 0.3, 0.2], rtol=1e-14)
    # The floor is 0.2. First the 0.05 is below; rescaled by 0.8 / 0.95, the 0.22 is below too: 0.6 is left for one.
    policy, _ = floored(np.log([0.73, 0.22, 0.05]), 0.6)
    np.testing.assert_allclose(policy, [0.6, 0.2, 0.2], rtol=1e-14)


def test_a_step_beyond_the_range_of_floating_point_is_floored() -> None:
    policy, logs = floored(np.array([0.0, -2000.0, 900.0]), 1e-6)
    np.testing.assert_allclose(policy, [1e-6 / 3, 1e-6 / 3, 1.0 - 2e-6 / 3], rtol=1e-12)
    assert np.all(np.isfinite(logs))


# ---- the iteration


@pytest.mark.parametrize("changes", [{}, {"floor": 0.4}, {"eta_power": 0.35, "tau_power": 0.4}, {"kappa": 0.05}])
@pytest.mark.parametrize("iterations", [1, 2, 60])
@pytest.mark.parametrize(
    "cmdp",
    [QUEUE, ragged(2), ragged(0), ragged(2, discount=0.0)],
    ids=["queue", "two", "none", "no future"],
)
def test_iterates_are_those_of_the_dense_twin(cmdp: ib.CMDP, iterations: int, changes: dict[str, float]) -> None:
    scaled = in_scaled_units(cmdp)[1]
    settings = ib.RPGPD(eta=0.8, tau=0.1, slater=0.4, **changes)
    state, constants, *_ = prepare_known(settings, scaled, iterations)
    advance_known(state, constants, known_model(scaled), 0, iterations)
    time = np.arange(iterations) + 3.0
    policy, prices = rpg_pd(
        dense(cmdp),
        0.8 * (1.0 - cmdp.discount) * time**-settings.eta_power,
        0.1 * time**-settings.tau_power,
        settings.floor,
        settings.kappa or 0.0,
        2.0 / 0.4,
    )
    np.testing.assert_allclose(state.policy, policy, rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(state.logs, np.log(policy), rtol=0.0, atol=1e-7)
    np.testing.assert_allclose(state.prices, prices, rtol=0.0, atol=1e-10)


def test_prices_stay_below_their_bound() -> None:
    scaled = in_scaled_units(QUEUE)[1]
    state, constants, *_ = prepare_known(ib.RPGPD(eta=0.25, slater=1.0, kappa=1.0), scaled, 500)
    advance_known(state, constants, known_model(scaled), 0, 500)
    np.testing.assert_array_equal(state.prices, [2.0, 2.0])  # no policy has a margin of 1


# ---- where it leads


@pytest.mark.parametrize("cmdp", [QUEUE, ragged(1)], ids=["queue", "ragged"])
def test_the_limit_is_the_regularised_saddle_point(cmdp: ib.CMDP) -> None:
    """The policy is exp(Q / tau) normalised, Q without the entropy of the first step; margins are -tau u if u > 0."""
    tau, d = 0.05, dense(cmdp)
    scaled = in_scaled_units(cmdp)[1]
    state, constants, *_ = prepare_known(ib.RPGPD(eta=0.1, tau=tau), scaled, 20_000)
    advance_known(state, constants, known_model(scaled), 0, 20_000)
    assert np.any(state.prices > 0.01) and state.policy.min() > 1e-6  # of interest, and the floor is not
    entropic, _ = values(d, state.policy, d.r + d.g @ state.prices - tau * state.logs)
    soft = entropic + tau * state.logs
    expected = rows(d, soft, lambda row: np.exp((row - row.max()) / tau) / np.exp((row - row.max()) / tau).sum())
    np.testing.assert_allclose(state.policy, expected, rtol=0.0, atol=1e-9)
    for i, price in enumerate(state.prices):
        margin = values(d, state.policy, d.g[:, i])[1]
        assert margin == pytest.approx(-tau * price, abs=1e-9) if price > 0.0 else margin >= -1e-9


def test_the_reference_run_on_the_queue() -> None:
    """eta = 0.05, tau = 0.003, 10,000 iterations: values of an independent prototype, to the digits it printed."""
    run = ib.iterate(QUEUE, ib.RPGPD(eta=0.1, tau=0.003), iterations=10_000)
    found = ib.evaluate(QUEUE, run.policy)
    assert found.total_reward == pytest.approx(4.6393, abs=1e-4)
    np.testing.assert_allclose(found.total_margins, [-0.058, -0.020], rtol=0.0, atol=5e-4)


@pytest.mark.parametrize("cmdp", [QUEUE, ragged(2), ragged(1)], ids=["queue", "two", "one"])
def test_the_bias_is_of_the_order_of_tau(cmdp: ib.CMDP) -> None:
    """The optimum of the regularised problem: within tau log(A), and margins within (1 - gamma) tau u, normalised."""
    scaled = in_scaled_units(cmdp)[1]
    best = ib.solve(scaled)
    for tau in (0.1, 0.02):
        run = ib.iterate(scaled, ib.RPGPD(eta=0.1, tau=tau), iterations=30_000)
        found = ib.evaluate(scaled, run.policy)
        assert abs(best.reward - found.reward) < tau * np.log(16)
        assert np.all(found.margins >= -(1.0 - cmdp.discount) * tau * run.prices - 1e-6)


def test_the_practical_preset_ends_in_bounds_on_the_queue() -> None:
    run = ib.iterate(QUEUE, ib.RPGPD.practical(repair=False), iterations=20_000)
    found = ib.evaluate(QUEUE, run.policy)
    assert found.in_bounds and found.total_reward > 4.644858248633466 - 0.06
    last_tau = 0.5 * 20_002.0**-0.4
    assert run.settings["kappa"] == pytest.approx(0.5 * last_tau, rel=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_random_problems_are_solved_to_1e_2_in_20_000_iterations(seed: int) -> None:
    cmdp = in_scaled_units(
        ib.zoo.garnet(states=6, actions=4, successors=3, constraints=1 + seed % 2, discount=0.8, seed=seed)
    )[1]
    best, run = ib.solve(cmdp), ib.iterate(cmdp, ib.RPGPD.practical(repair=False), iterations=20_000)
    found = ib.evaluate(cmdp, run.policy)
    assert abs(found.reward - best.reward) < 1e-2 and np.min(found.margins, initial=0.0) > -5e-3


# ---- from samples


def test_without_chance_samples_lead_where_the_model_does() -> None:
    cmdp = certain()
    learned = ib.learn(cmdp.simulator(), ib.RPGPD(iterations=300), samples=60)
    known = ib.iterate(cmdp, ib.RPGPD(), iterations=300)
    np.testing.assert_allclose(learned.policy.probabilities, known.policy.probabilities, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(learned.prices, known.prices, rtol=0.0, atol=1e-9)


def test_a_checkpoint_is_a_run_that_ends_there_and_the_first_are_uniform() -> None:
    settings, simulator = ib.RPGPD.practical(repair=False, iterations=50), QUEUE.simulator()
    run = ib.learn(simulator, settings, samples=2_000, seed=3, checkpoints=[95, 1_000])
    np.testing.assert_array_equal(run.policies[0].probabilities, ib.Policy.uniform(QUEUE).probabilities)
    short = ib.learn(simulator, settings, samples=1_000, seed=3)
    np.testing.assert_array_equal(run.policies[1].probabilities, short.policy.probabilities)


def test_the_tightening_follows_the_samples_and_tau() -> None:
    simulator = QUEUE.simulator()
    cases = (
        (ib.RPGPD(iterations=10), 0.0),
        (ib.RPGPD(iterations=10, expected_price=2.0), 2.0 * 0.5 * 0.01),
        (ib.RPGPD.practical(repair=False, iterations=10), 0.1 / np.sqrt(0.5 * 101) + 0.5 * 0.5 * 12.0**-0.4),
        (ib.RPGPD.practical(repair=False, iterations=10, kappa=0.07), 0.07),
    )
    for settings, kappa in cases:
        run = ib.learn(simulator, settings, samples=9_700)
        assert run.settings["kappa"] == pytest.approx(kappa, rel=1e-12)
        assert run.settings["iterations"] == 10


def test_what_is_said_of_a_run() -> None:
    run = ib.learn(QUEUE.simulator(), ib.RPGPD(iterations=5), samples=100)
    assert run.guarantee.startswith("none: the paper's algorithm for samples fits values to walks")
    for practical in (
        ib.learn(QUEUE.simulator(), ib.RPGPD.practical(repair=False, iterations=5), samples=100),
        ib.iterate(QUEUE, ib.RPGPD.practical(repair=False), iterations=1),
    ):
        assert (practical.settings["eta_power"], practical.settings["tau_power"]) == (0.35, 0.4)
        assert practical.settings["floor"] == 1e-6
    assert "does not cover several constraints" in ib.iterate(QUEUE, ib.RPGPD(), iterations=1).guarantee
    one = ragged(1)
    assert "that falls" in ib.iterate(one, ib.RPGPD.practical(repair=False), iterations=1).guarantee


def test_the_step_that_the_theorem_needs() -> None:
    """C and C' of Theorem 2 by hand; the guarantee on both sides of eta = 1 / C, in numbers."""
    one, tau, floor, U = ragged(1), 0.02, 1e-3, 2.0 / 0.4
    patience, A = 1.0 - one.discount, int(np.diff(one.offsets).max())
    C, C_prime = theorem_constants(one.discount, A, tau, floor, U)
    assert pytest.approx((1 + U + tau * np.log(A)) / patience - tau * np.log(floor / A), rel=1e-12) == C
    assert pytest.approx((1 + tau * U * patience) / patience, rel=1e-12) == C_prime
    allowed = 1.0 / C / patience
    for share, covered in ((1.0 - 1e-9, True), (1.0 + 1e-9, False)):
        settings = ib.RPGPD(eta=share * allowed, tau=tau, floor=floor, slater=0.4)
        told = ib.iterate(one, settings, iterations=1).guarantee
        if covered:
            rate = stated(share * allowed * patience * tau, at_least=True)
            assert told.startswith("Theorem 2 of the paper") and f"exp(-{rate} t)" in told
            assert f"down to {stated(share * C / tau)}," in told
        else:
            assert f"does not cover eta = {allowed:.3g}: it needs at most {stated(allowed, at_least=True)}" in told


def test_what_no_policy_keeps_is_not_promised() -> None:
    cmdp = ragged(1)
    phi = ib.slater(cmdp, scaled=True).value

    def stated(problem: ib.CMDP, **settings: Any) -> str:
        return ib.iterate(problem, ib.RPGPD(eta=1e-6, **settings), iterations=1).guarantee

    assert "saddle point shrinks" in stated(cmdp)
    assert f"saddle point of the problem tightened by {0.4 * phi:.3g} shrinks" in stated(cmdp, kappa=0.4 * phi)
    assert "best prices may be above" in stated(cmdp, kappa=0.51 * phi)
    assert "no policy has such margins" in stated(cmdp, kappa=1.01 * phi)
    none = stated(cmdp.tightened(1.1 * phi * cmdp.margin_scales))
    assert none == "none: the paper's theorem does not cover a problem in which no policy is in bounds"
    free = stated(cmdp.unconstrained(), kappa=0.9)
    assert free.startswith("Theorem 2 of the paper: ") and "tightened" not in free and "Slater" not in free


def test_a_kappa_is_in_the_step_of_the_prices() -> None:
    """|V_g - kappa / (1 - gamma)| may be (1 + kappa) / (1 - gamma): with a large tau that decides the last term."""
    one, tau, kappa = ragged(1), 9.0, 0.1
    patience, A, U = 1.0 - one.discount, int(np.diff(one.offsets).max()), 2.0 / 0.2
    C, C_prime = theorem_constants(one.discount, A, tau, 0.9, U)
    eta, last = 1e-6 * patience, C_prime + kappa / patience
    assert last > C
    told = ib.iterate(one, ib.RPGPD(eta=1e-6, tau=tau, floor=0.9, kappa=kappa, slater=0.2), iterations=1).guarantee
    assert f"down to {stated(eta / tau * last**2)}," in told and f"{last**2:.3g}" != f"{C_prime**2:.3g}"


def test_theorem_2_holds() -> None:
    """Its bound on the distance to the regularised saddle point, at steps where the bound says something."""
    cmdp, tau, eta = in_scaled_units(ragged(1))[1], 1.0, 2e-5
    d, U, patience = dense(ragged(1)), 2.0 / 0.4, 1.0 - cmdp.discount
    settings = {"tau": tau, "slater": 0.4, "floor": 1e-3}

    def after(step: float, iterations: list[int]) -> list[tuple[np.ndarray, np.ndarray]]:
        state, constants, *_ = prepare_known(ib.RPGPD(eta=step / patience, **settings), cmdp, iterations[-1])
        model, done, found = known_model(cmdp), 0, []
        for until in iterations:
            advance_known(state, constants, model, done, until)
            found.append((state.policy.copy(), state.prices.copy()))
            done = until
        return found

    (saddle, best_prices), *_ = after(0.02, [20_000])
    (same, _), *_ = after(0.01, [40_000])
    np.testing.assert_allclose(saddle, same, rtol=0.0, atol=1e-9)  # it is the limit, whatever the step
    choose = (np.arange(len(d.rho))[:, None] == d.state) * saddle
    time = patience * np.linalg.solve((np.eye(len(d.rho)) - d.gamma * choose @ d.P).T, d.rho)

    def distance(policy: np.ndarray, prices: np.ndarray) -> float:
        divergence = np.bincount(d.state, saddle * np.log(saddle / policy))
        return float(time @ divergence / patience + 0.5 * np.sum((prices - best_prices) ** 2))

    C, C_prime = theorem_constants(cmdp.discount, int(np.diff(cmdp.offsets).max()), tau, 1e-3, U)
    assert eta <= 1.0 / C
    rest = eta / tau * max(C, C_prime) ** 2
    times = [1, 1_001, 10_001, 50_001, 200_001]
    distances = [distance(*one) for one in after(eta, times)]
    assert rest < 0.5 * distances[0]  # it says something
    for t, found in zip(times, distances, strict=True):
        assert found <= np.exp(-eta * tau * (t - 1)) * distances[0] + rest


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("eta", -1.0),
        ("tau", 0.0),
        ("eta_power", 1.0),
        ("tau_power", -0.1),
        ("floor", 0.0),
        ("floor", 1.0),
        ("slater", 0.0),
        ("kappa", 2.0),
        ("expected_price", -1.0),
        ("kappa_multiplier", "two"),
        ("iterations", -5),
    ],
)
def test_settings_are_checked_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ib.InvalidInput, match=rf"RPGPD: {setting} must be"):
        ib.RPGPD(**{setting: value})


def test_settings_are_shown_as_typed() -> None:
    assert repr(ib.RPGPD(tau=0.02)) == "RPGPD(tau=0.02)"
