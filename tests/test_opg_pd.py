"""OPG-PD: its projection by sorting, its iterations by a dense twin, its limit by the exact solution."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms.known import in_scaled_units, known_model
from inbounds.algorithms.opg_pd import advance_known, find_gradients, largest_eta, largest_mismatch, prepare_known
from inbounds.algorithms.plug_in import iterate_plug_in
from inbounds.algorithms.settings import stated
from inbounds.numerics.compiled import interpreted
from naive_cspda import dense, ragged
from naive_policy_gradient import opg_pd
from reference import two_rooms, work_and_rest

QUEUE = ib.zoo.queue()


# ---- the iteration


@pytest.mark.parametrize("kappa", [0.0, 0.05])
@pytest.mark.parametrize("iterations", [1, 2, 60])
@pytest.mark.parametrize(
    "cmdp",
    [QUEUE, ragged(2), ragged(1), ragged(0), ragged(2, discount=0.0)],
    ids=["queue", "two", "one", "none", "no future"],
)
def test_iterates_are_those_of_the_dense_twin(cmdp: ib.CMDP, iterations: int, kappa: float) -> None:
    scaled = in_scaled_units(cmdp)[1]
    settings = ib.OPGPD(eta=0.25, slater=0.4, kappa=kappa)
    state, constants, *_ = prepare_known(settings, scaled, iterations)
    advance_known(state, constants, known_model(scaled), 0, iterations)
    predicted, prices, hatted, hatted_prices = opg_pd(
        dense(cmdp), 0.25 * (1.0 - cmdp.discount), kappa, 2.0 / 0.4, iterations
    )
    np.testing.assert_allclose(state.policy, predicted, rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(state.prices, prices, rtol=0.0, atol=1e-10)
    for iterate, policy, price in (("hatted", hatted, hatted_prices), ("predicted", predicted, prices)):
        found, found_prices, *_ = iterate_plug_in(replace(settings, iterate=iterate), scaled, iterations)
        np.testing.assert_allclose(found.probabilities, policy, rtol=0.0, atol=1e-10)
        np.testing.assert_allclose(found_prices, price, rtol=0.0, atol=1e-10)


def test_the_hatted_iterate_is_another_one_and_the_default() -> None:
    runs = {word: ib.iterate(ragged(1), ib.OPGPD(iterate=word), iterations=20) for word in ("hatted", "predicted")}
    ends = {word: run.policy.probabilities for word, run in runs.items()}
    assert np.abs(ends["hatted"] - ends["predicted"]).max() > 1e-4
    assert runs["hatted"].settings["iterate"] == "hatted"
    default = ib.iterate(ragged(1), ib.OPGPD(), iterations=20).policy.probabilities
    np.testing.assert_array_equal(default, ends["hatted"])
    practical = ib.iterate(ragged(1), ib.OPGPD.practical(repair=False), iterations=20).policy.probabilities
    np.testing.assert_array_equal(practical, ends["predicted"])


def test_prices_stay_below_their_bound() -> None:
    scaled = in_scaled_units(QUEUE)[1]
    state, constants, *_ = prepare_known(ib.OPGPD(eta=0.25, slater=1.0, kappa=1.0), scaled, 200)
    advance_known(state, constants, known_model(scaled), 0, 200)
    np.testing.assert_array_equal(state.prices, [2.0, 2.0])  # no policy has a margin of 1


def test_an_iteration_costs_one_evaluation() -> None:
    calls = []

    def counted(*arguments: Any) -> None:
        calls.append(1)
        find_gradients(*arguments)

    scaled = in_scaled_units(ragged(1))[1]
    state, constants, *_ = prepare_known(ib.OPGPD(slater=0.4), scaled, 30)
    advance = interpreted(advance_known)
    advance.__globals__["find_gradients"] = counted  # the twin's own
    for done, until in ((0, 0), (0, 10), (10, 11), (11, 30)):
        advance(state, constants, known_model(scaled), done, until)
    assert len(calls) == 1 + 30  # the first is at the uniform policy


def test_sweeps_lead_where_elimination_does() -> None:
    scaled = in_scaled_units(ragged(2))[1]
    ends = []
    for eliminate in (True, False):
        state, constants, *_ = prepare_known(ib.OPGPD(slater=0.4), scaled, 100)
        model = known_model(scaled)
        model = model._replace(chains=model.chains._replace(eliminate=eliminate))
        advance_known(state, constants, model, 0, 100)
        ends.append(state.policy)
    np.testing.assert_allclose(*ends, rtol=0.0, atol=1e-9)


# ---- where it leads


def test_on_the_queue_the_last_iterate_is_within_1e_4_of_the_optimum() -> None:
    found = ib.evaluate(QUEUE, ib.iterate(QUEUE, ib.OPGPD(eta=0.4), iterations=20_000).policy)
    assert abs(found.total_reward - 4.644858248633466) < 1e-4
    assert found.total_margins.min() > -1e-4


@pytest.mark.parametrize("seed", range(6))
def test_random_problems_are_solved_to_1e_3_in_20_000_iterations(seed: int) -> None:
    cmdp = in_scaled_units(
        ib.zoo.garnet(states=6, actions=4, successors=3, constraints=1 + seed % 2, discount=0.8, seed=seed)
    )[1]
    best, run = ib.solve(cmdp), ib.iterate(cmdp, ib.OPGPD(), iterations=20_000)
    found = ib.evaluate(cmdp, run.policy)
    assert found.reward == pytest.approx(best.reward, abs=1e-3)
    assert np.min(found.margins, initial=0.0) > -1e-3


@pytest.mark.parametrize("solved", [work_and_rest(), two_rooms()], ids=["work and rest", "two rooms"])
def test_problems_solved_by_hand(solved: Any) -> None:
    run = ib.iterate(solved.cmdp, ib.OPGPD(), iterations=20_000)
    assert ib.evaluate(solved.cmdp, run.policy).reward == pytest.approx(solved.reward, abs=1e-6)
    np.testing.assert_allclose(run.prices, solved.prices, rtol=0.0, atol=1e-4)
    np.testing.assert_allclose(run.policy.table(), solved.table, rtol=0.0, atol=1e-5)


def test_kappa_moves_the_margins_that_bind() -> None:
    run = ib.iterate(QUEUE, ib.OPGPD(kappa=0.05), iterations=20_000)
    margins = ib.evaluate(QUEUE, run.policy).margins / QUEUE.margin_scales
    np.testing.assert_allclose(margins, 0.05, rtol=0.0, atol=1e-6)
    assert run.settings["kappa"] == 0.05


def test_without_constraints_it_is_projected_policy_ascent() -> None:
    free = ragged(0)
    run = ib.iterate(free, ib.OPGPD(), iterations=2_000)
    assert ib.evaluate(free, run.policy).reward == pytest.approx(ib.solve(free).reward, abs=1e-9)
    assert run.prices.shape == (0,)


# ---- from samples


def certain(seed: int = 0) -> ib.CMDP:
    """A problem without chance: its empirical model is the model, up to rounding."""
    rng = np.random.default_rng(seed)
    return ib.CMDP(
        offsets=[0, 2, 3, 6],
        transition=np.eye(3)[rng.integers(3, size=6)],
        reward=rng.random(6),
        constraints=[ib.Constraint(rng.random(6), at_most=0.5)],
        initial=[0.0, 1.0, 0.0],
        discount=0.8,
    )


def test_without_chance_samples_lead_where_the_model_does() -> None:
    cmdp = certain()
    learned = ib.learn(cmdp.simulator(), ib.OPGPD(iterations=300), samples=60)
    known = ib.iterate(cmdp, ib.OPGPD(), iterations=300)
    np.testing.assert_allclose(learned.policy.probabilities, known.policy.probabilities, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(learned.prices, known.prices, rtol=0.0, atol=1e-9)


def test_a_checkpoint_is_a_run_that_ends_there_and_the_first_are_uniform() -> None:
    settings, simulator = ib.OPGPD.practical(repair=False, iterations=50), QUEUE.simulator()
    run = ib.learn(simulator, settings, samples=2_000, seed=3, checkpoints=[95, 1_000])
    np.testing.assert_array_equal(run.policies[0].probabilities, ib.Policy.uniform(QUEUE).probabilities)
    short = ib.learn(simulator, settings, samples=1_000, seed=3)
    np.testing.assert_array_equal(run.policies[1].probabilities, short.policy.probabilities)


def test_the_tightening_follows_the_samples() -> None:
    simulator = QUEUE.simulator()
    kappas = {
        settings: ib.learn(simulator, settings, samples=9_700).settings["kappa"]
        for settings in (
            ib.OPGPD(iterations=1),
            ib.OPGPD.practical(repair=False, iterations=1),
            ib.OPGPD(iterations=1, kappa=0.07),
        )
    }
    assert list(kappas.values()) == [0.0, pytest.approx(0.1 / np.sqrt(0.5 * 101), rel=1e-12), 0.07]


def test_what_is_said_of_a_run() -> None:
    run = ib.learn(QUEUE.simulator(), ib.OPGPD(iterations=5), samples=100)
    assert run.guarantee == "none: the paper has no samples for OPG-PD"
    assert run.settings == {
        "eta": 0.3,
        "iterate": "hatted",
        "slater": "of the empirical model",
        "kappa": 0.0,
        "iterations": 5,
    }
    assert "does not cover several constraints" in ib.iterate(QUEUE, ib.OPGPD(), iterations=1).guarantee
    one = ragged(1)  # starts avoid a state
    assert "leaves out states" in ib.iterate(one, ib.OPGPD(), iterations=1).guarantee
    covered, small = replace(one, initial=np.full(5, 0.2)), 1e-4
    stated = ib.iterate(covered, ib.OPGPD(eta=small), iterations=1).guarantee
    assert stated.startswith("Theorem 6 of the paper: ") and "have one state visitation (not checked)" in stated
    tightened = ib.iterate(covered, ib.OPGPD(eta=small, kappa=0.01), iterations=1).guarantee
    assert "the problem tightened by 0.01" in tightened
    predicted = ib.iterate(covered, ib.OPGPD(eta=small, iterate="predicted"), iterations=1).guarantee
    assert predicted == "none: the paper's theorem does not cover the predicted iterate"


def test_what_no_policy_keeps_is_not_promised() -> None:
    cmdp = replace(ragged(1), initial=np.full(5, 0.2))
    phi = ib.slater(cmdp, scaled=True).value

    def stated(problem: ib.CMDP, **settings: Any) -> str:
        return ib.iterate(problem, ib.OPGPD(eta=1e-6, **settings), iterations=1).guarantee

    assert stated(cmdp, kappa=0.49 * phi).startswith("Theorem 6 of the paper: ")
    assert "best prices may be above" in stated(cmdp, kappa=0.51 * phi)
    for kappa in (1.01 * phi, 1.0):
        assert "no policy has such margins" in stated(cmdp, kappa=kappa)
    given = stated(cmdp, slater=0.9 * phi)
    assert "if the Slater constant is right and all of them" in given and "Slater" not in stated(cmdp)
    assert "Slater constant, " in stated(cmdp, slater=0.9 * phi, kappa=0.46 * phi)
    none = stated(cmdp.tightened(1.1 * phi * cmdp.margin_scales), kappa=0.1)
    assert none == "none: the paper's theorem does not cover a problem in which no policy is in bounds"
    free = stated(cmdp.unconstrained(), kappa=0.9, slater=0.5)
    assert free.startswith("Theorem 6 of the paper: ") and "tightened" not in free and "Slater" not in free


@pytest.mark.parametrize("seed", range(4))
def test_prices_of_a_problem_tightened_by_half_of_what_there_is(seed: int) -> None:
    """At most 1 / (slater - kappa), so within [0, 2 / slater] up to half; beyond half that bound is outside."""
    cmdp = in_scaled_units(ragged(1, seed))[1]
    phi = ib.slater(cmdp).value
    for share in (0.0, 0.25, 0.5, 0.75, 0.95):
        price = ib.solve(cmdp.tightened(share * phi)).prices[0]
        assert price <= 1.0 / (phi - share * phi) * (1.0 + 1e-9)
        assert share > 0.5 or price <= 2.0 / phi


def test_the_step_that_the_theorem_needs() -> None:
    """kappa_rho by all deterministic policies; the bound by hand; the guarantee on both sides of it, in numbers."""
    cmdp = in_scaled_units(replace(ragged(1), initial=np.array([0.1, 0.3, 0.2, 0.25, 0.15])))[1]
    ranges = [range(first, last) for first, last in itertools.pairwise(cmdp.offsets)]
    times = [
        np.bincount(cmdp.pairs.states, ib.evaluate(cmdp, ib.Policy.deterministic(cmdp, np.array(chosen))).occupancy)
        for chosen in itertools.product(*ranges)
    ]
    kappa = max((time / cmdp.initial).max() for time in times)
    assert 1.5 < kappa < 1.0 / 0.1  # neither of the bounds that are known without a solve
    assert kappa <= largest_mismatch(cmdp) <= kappa + 2e-6

    gamma, patience, A, U = cmdp.discount, 1.0 - cmdp.discount, int(np.diff(cmdp.offsets).max()), 2.0 / 0.4
    for iota in (2 * kappa**2 * A / patience**6, 8 * gamma**2 * A * kappa * (1 + U**2) / patience**6, 4 / patience**3):
        assert largest_eta(gamma, A, U, kappa) <= 1.0 / (4.0 * np.sqrt(iota)) * (1.0 + 1e-12)
    assert largest_eta(gamma, A, U, kappa) == pytest.approx(
        patience**3 / (4.0 * gamma * np.sqrt(8 * A * kappa * (1 + U**2))), rel=1e-12
    )
    assert largest_eta(0.0, 100, 1.0, 1.0) == 1.0 / 400.0 and largest_eta(0.0, 1, 1.0, 8.0) == pytest.approx(
        1.0 / (4.0 * np.sqrt(2.0) * 8.0), rel=1e-12
    )
    allowed = largest_eta(gamma, A, U, kappa) / patience
    below = ib.iterate(cmdp, ib.OPGPD(eta=allowed * (1 - 1e-5), slater=0.4), iterations=1).guarantee
    above = ib.iterate(cmdp, ib.OPGPD(eta=allowed * (1 + 1e-5), slater=0.4), iterations=1).guarantee
    assert below.startswith("Theorem 6")
    assert f"does not cover eta = {allowed:.3g}: it needs at most {stated(allowed, at_least=True)}" in above
    assert "eta = 0.3: it needs at most" in ib.iterate(cmdp, ib.OPGPD(), iterations=1).guarantee


@pytest.mark.parametrize("seed", range(4))
def test_at_the_theorem_s_step_its_distance_never_grows(seed: int) -> None:
    """Lemma 19: Theta_{t+1} <= Theta_t, the distance of the hatted iterate and a share of the last step.

    (At this step the linear rate is some millionths an iteration: convergence itself would take too long.)
    """
    cmdp = in_scaled_units(ib.zoo.garnet(states=3, actions=2, successors=2, constraints=1, discount=0.3, seed=seed))[1]
    cmdp, slater = replace(cmdp, initial=np.full(3, 1.0 / 3.0)), ib.slater(cmdp).value
    best, model = ib.solve(cmdp), known_model(cmdp)
    eta = largest_eta(0.3, 2, 2.0 / slater, largest_mismatch(cmdp))
    state, constants, *_, guarantee = prepare_known(ib.OPGPD(eta=eta / 0.7, slater=slater), cmdp, 2_000)
    assert guarantee.startswith("Theorem 6")
    time = np.bincount(cmdp.pairs.states, best.occupancy)[cmdp.pairs.states]

    def squared(policy: np.ndarray, other: np.ndarray, prices: np.ndarray, others: np.ndarray) -> float:
        return float(time @ (policy - other) ** 2 / 0.7 + np.sum((prices - others) ** 2))

    distances = []
    for t in range(2_000):
        advance_known(state, constants, model, t, t + 1)
        distances.append(
            squared(state.centre, best.policy.probabilities, state.price_centre, best.prices) / 2.0
            + squared(state.centre, state.policy, state.price_centre, state.prices) / 16.0
        )
    assert np.diff(distances).max() <= 1e-11 and distances[-1] < 0.9 * distances[0]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("eta", 0.0),
        ("eta", None),
        ("slater", 1.5),
        ("kappa", -0.1),
        ("kappa", "much"),
        ("kappa_multiplier", -1.0),
        ("iterations", 0),
        ("iterations", 2.5),
        ("iterate", "last"),
    ],
)
def test_settings_are_checked_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ib.InvalidInput, match=rf"OPGPD: {setting} must be"):
        ib.OPGPD(**{setting: value})


def test_settings_are_shown_as_typed() -> None:
    assert repr(ib.OPGPD()) == "OPGPD()"
    assert (
        repr(ib.OPGPD.practical(repair=False, eta=0.2)) == "OPGPD(eta=0.2, kappa_multiplier=0.1, iterate='predicted')"
    )


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ib.InvalidInput, match=r"95 samples are too few to try each of 96 pairs"):
        ib.learn(QUEUE.simulator(), ib.OPGPD(), samples=95)
