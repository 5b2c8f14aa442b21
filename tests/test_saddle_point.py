"""The averages of a run: those of the plain transcription, and what a judge makes of them on the model."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms.cspda import price_radius, value_radius
from inbounds.algorithms.known import in_scaled_units
from inbounds.algorithms.saddle_point import duality_gap, flow, game_on
from naive_cspda import Dense, cspda, dense, lagrangian, ragged

QUEUE = ib.zoo.queue()
PROBLEMS = {
    "queue": QUEUE,
    "ragged": ragged(2),
    "one bound": ragged(1),
    "free": ragged(0),
    "no future": ragged(2, 1, 0.0),
}
EACH_PROBLEM = pytest.mark.parametrize("cmdp", PROBLEMS.values(), ids=PROBLEMS)


def exact_slater(cmdp: ib.CMDP) -> float:
    return float(ib.slater(cmdp, scaled=True).value) if cmdp.n_constraints else 1.0


def least_of_the_lagrangian(d: Dense, lam: np.ndarray, phi: float, kappa: float) -> float:
    """min over U and V of L(lam, ., .): at a corner of the sets, because L is linear; all corners of U are tried."""
    corners_u = [np.zeros(d.g.shape[1]), *(4.0 / phi * np.eye(d.g.shape[1]))]
    bound = 2.0 * (1.0 / (1.0 - d.gamma) + 2.0 / ((1.0 - d.gamma) * phi))
    zero = np.zeros(len(d.rho))
    slopes = [
        lagrangian(d, lam, corners_u[0], e, 0.0) - lagrangian(d, lam, corners_u[0], zero, 0.0)
        for e in np.eye(len(d.rho))
    ]
    v = -bound * np.sign(slopes)
    return min(lagrangian(d, lam, u, v, kappa) for u in corners_u)


# ---- the averages


@pytest.mark.parametrize("settings", [ib.CSPDA, ib.ConcaveCSPDA])
@EACH_PROBLEM
def test_averages_equal_the_dense_transcription_at_every_checkpoint(cmdp: ib.CMDP, settings: type) -> None:
    """Path by path, before chaos sets in; in the user's units: prices per unit of margin, values normalised."""
    counts, samples = [1, 2, 7, 50, 120], 100_000
    run = ib.learn(cmdp.simulator(), settings(slater=0.2), samples=samples, seed=5, checkpoints=counts)
    span, low, scales = np.ptp(cmdp.reward), cmdp.reward.min(), cmdp.margin_scales
    for count, averages in zip(counts, run.averages_at, strict=False):
        found = {name: float(run.settings[name]) for name in ("alpha", "beta", "kappa")}
        naive = cspda(cmdp, np.random.default_rng(5), count, phi=0.2, M=float(run.settings["shift"]), **found)
        np.testing.assert_allclose(averages.occupancy, naive.lam, rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(averages.prices, naive.u * span / scales, rtol=1e-10, atol=1e-12 * span)
        values = low + span * (1.0 - cmdp.discount) * naive.v
        np.testing.assert_allclose(averages.values, values, rtol=1e-10, atol=1e-12 * span)
    assert len(run.averages_at) == 6
    np.testing.assert_array_equal(run.averages.prices, run.prices)


def test_the_policy_is_that_of_the_average_occupancy() -> None:
    run = ib.learn(
        QUEUE.simulator(), ib.CSPDA.practical(slater=0.2, repair=False), samples=20_000, seed=1, checkpoints=5
    )
    for averages, policy in zip(run.averages_at, run.policies, strict=True):
        again = ib.Policy.from_occupancy(QUEUE, averages.occupancy)
        np.testing.assert_array_equal(again.probabilities, policy.probabilities)


def test_averages_are_in_the_user_s_units() -> None:
    """Reward 3 r - 2 and signals times 7: the same run, prices times 3 / 7, values times 3, less 2."""
    other = QUEUE.asking(
        reward=3.0 * QUEUE.reward - 2.0,
        constraints=[
            ib.Constraint(7.0 * c.signal, name=c.name, **{kind: 7.0 * c.bound})
            for c in QUEUE.constraints
            for kind in ("at_least" if c.at_least is not None else "at_most",)
        ],
    )
    one, two = (ib.learn(c.simulator(), ib.CSPDA(slater=0.2), samples=300, seed=2).averages for c in (QUEUE, other))
    np.testing.assert_allclose(two.occupancy, one.occupancy, rtol=1e-9)
    np.testing.assert_allclose(two.prices, 3.0 / 7.0 * one.prices, rtol=1e-9)
    np.testing.assert_allclose(two.values, 3.0 * one.values - 2.0, rtol=1e-9)
    assert repr(one) == "Averages(occupancy, prices, values)"


def test_values_with_a_utility_are_in_its_own_units() -> None:
    """A linear utility that is the reward, with another unit and another zero: values and prices are the reward's."""
    queue = QUEUE.asking(reward=QUEUE.reward + 1.0)
    reward = ib.Utility(
        value=lambda occupancy: float(occupancy @ queue.reward),
        gradient=lambda occupancy: queue.reward,
        lipschitz=float(queue.reward.max()),
        name="reward",
    )
    steps = {"alpha": 0.05, "beta": 1e-3, "kappa": 0.0, "shift": 10.0}
    run = ib.learn(queue.simulator(), ib.ConcaveCSPDA(slater=0.2, utility=reward, **steps), samples=500, seed=0)
    # The same steps with the reward divided by 6 instead of moved to [0, 1]: a problem whose lowest reward is 0.
    scaled = queue.reward / 6.0
    naive = cspda_with(queue, scaled, np.random.default_rng(0), 500, **steps)
    np.testing.assert_allclose(run.averages.values, 0.5 * 6.0 * naive.v, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(run.averages.prices, naive.u * 6.0 / queue.margin_scales, rtol=1e-8, atol=1e-10)


def cspda_with(cmdp, reward, rng, steps, *, alpha, beta, kappa, shift):
    """The transcription, with a reward in scaled units of one's own."""
    import naive_cspda

    plain = naive_cspda.dense
    try:
        naive_cspda.dense = lambda problem: plain(problem)._replace(r=reward)
        return cspda(cmdp, rng, steps, phi=0.2, kappa=kappa, alpha=alpha, beta=beta, M=shift)
    finally:
        naive_cspda.dense = plain


def test_exact_iterates_have_exact_average_occupancies() -> None:
    """On a known model the occupancies of NPG-PD's policies are exact: their average keeps the flow equations."""
    run = ib.iterate(QUEUE, ib.NPGPD(slater=0.2), iterations=50, checkpoints=[10])
    for averages, policy in zip(run.averages_at, run.policies, strict=True):
        assert np.abs(flow(QUEUE, averages.occupancy)).sum() < 1e-12
        np.testing.assert_allclose(averages.occupancy, ib.occupancy(QUEUE, policy), atol=1e-12)


# ---- the judge


@EACH_PROBLEM
def test_flow_is_zero_for_occupancies_and_only_for_them(cmdp: ib.CMDP) -> None:
    rng = np.random.default_rng(0)
    for _ in range(3):
        policy = ib.Policy.from_occupancy(cmdp, rng.random(cmdp.n_pairs) + 0.01)
        occupancy = ib.occupancy(cmdp, policy)
        assert np.abs(flow(cmdp, occupancy)).sum() < 1e-14
        moved = rng.dirichlet(np.ones(cmdp.n_pairs))
        d = dense(cmdp)
        by_hand = (1.0 - d.gamma) * d.rho + d.gamma * moved @ d.P - np.bincount(d.state, moved, cmdp.n_states)
        np.testing.assert_allclose(flow(cmdp, moved), by_hand, atol=1e-15)
        assert np.abs(flow(cmdp, moved)).sum() > 1e-3


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5])
@EACH_PROBLEM
def test_the_gap_is_zero_at_the_saddle_point_and_never_negative(cmdp: ib.CMDP, share: float) -> None:
    """At the exact solution of the tightened problem; and anywhere else against the Lagrangian itself."""
    phi = exact_slater(cmdp)
    kappa = share * phi if cmdp.n_constraints else 0.0
    scaling, _ = in_scaled_units(cmdp)
    game = game_on(cmdp, scaling, phi, kappa)
    best = ib.solve(cmdp.tightened(kappa * scaling.margin_scales))
    span = scaling.reward_span
    assert abs(duality_gap(game, best.occupancy, best.prices)) < 1e-7 * span
    rng, d = np.random.default_rng(1), dense(cmdp)
    for _ in range(20):
        lam, u = rng.dirichlet(np.ones(cmdp.n_pairs)), rng.dirichlet(np.ones(cmdp.n_constraints + 1))[:-1] * 4.0 / phi
        v = rng.uniform(-1.0, 1.0, cmdp.n_states) * value_radius(phi, cmdp.discount)
        gap = duality_gap(game, lam, scaling.prices_in_user_units(u))
        slow = lagrangian(d, game.best, u, v, kappa) - least_of_the_lagrangian(d, lam, phi, kappa)
        assert gap / span == pytest.approx(slow, abs=1e-8 * value_radius(phi, cmdp.discount))
        assert gap >= -1e-7 * span


@EACH_PROBLEM
def test_the_best_prices_and_values_keep_lemma_one(cmdp: ib.CMDP) -> None:
    """sum u* <= 2 / phi and |v*| <= (1 + 2 / phi) / (1 - gamma), for kappa <= phi / 2; half of the sets' radii."""
    phi, (scaling, _) = exact_slater(cmdp), in_scaled_units(cmdp)
    for kappa in (0.0, 0.25 * phi, 0.5 * phi):
        best = ib.solve(cmdp.tightened(kappa * scaling.margin_scales))
        u = best.prices * scaling.margin_scales / scaling.reward_span
        v = (best.value_function - scaling.reward_low) / scaling.reward_span / (1.0 - cmdp.discount)
        assert u.sum() <= price_radius(phi) / 2.0 and np.abs(v).max() <= value_radius(phi, cmdp.discount) / 2.0


@EACH_PROBLEM
def test_the_conservative_optimum_keeps_lemma_three(cmdp: ib.CMDP) -> None:
    """<lam*, r> - <lam*_kappa, r> <= kappa / phi in scaled units, at every kappa up to phi / 2."""
    phi, (scaling, _) = exact_slater(cmdp), in_scaled_units(cmdp)
    plain = ib.solve(cmdp).reward
    for kappa in np.linspace(0.0, 0.5, 6) * phi:
        given_up = (plain - ib.solve(cmdp.tightened(kappa * scaling.margin_scales)).reward) / scaling.reward_span
        assert -1e-8 <= given_up <= kappa / phi + 1e-8


@pytest.mark.parametrize("settings", [ib.CSPDA(slater=0.2), ib.CSPDA(slater=0.2, alpha=3.0, beta=0.01, shift=0.0)])
def test_averages_stay_in_their_sets_along_a_run(settings: ib.CSPDA) -> None:
    """The sets are convex: u >= 0, sum u <= 4 / phi, |v| <= 2 C; also with steps that are far too large."""
    run = ib.learn(QUEUE.simulator(), settings, samples=20_000, seed=0, checkpoints=30)
    scaling, _ = in_scaled_units(QUEUE)
    for averages in run.averages_at:
        u = averages.prices * scaling.margin_scales / scaling.reward_span
        v = (averages.values - scaling.reward_low) / scaling.reward_span / 0.5
        assert np.all(u >= 0.0) and u.sum() <= 20.0 * (1 + 1e-12) and np.abs(v).max() <= 44.0 * (1 + 1e-12)
    judged = ib.judge_averages(run, QUEUE)
    assert np.all(judged.duality_gap >= 0.0) and np.all(judged.flow_residual <= 2.0)


def test_a_run_judged_at_its_checkpoints() -> None:
    run = ib.learn(QUEUE.simulator(), ib.CSPDA(slater=0.2), samples=100_000, seed=3, checkpoints=[1_000, 10_000])
    judged = ib.judge_averages(run, QUEUE)
    game = game_on(QUEUE, in_scaled_units(QUEUE)[0], 0.2, float(run.settings["kappa"]))
    for c, averages in enumerate(run.averages_at):
        assert judged.reward[c] == averages.occupancy @ QUEUE.reward
        np.testing.assert_array_equal(judged.margins[c], QUEUE.margins @ averages.occupancy)
        assert judged.flow_residual[c] == np.abs(flow(QUEUE, averages.occupancy)).sum()
        assert judged.duality_gap[c] == duality_gap(game, averages.occupancy, averages.prices)
    # A plug-in value is not the value of the policy, and differs by at most the residual / (1 - gamma) times the range.
    value = ib.evaluate(QUEUE, run.policy).reward
    assert 0.0 < abs(judged.reward[-1] - value) <= judged.flow_residual[-1] / 0.5 * 5.0
    assert judged.flow_residual[0] > judged.flow_residual[-1] > 0.0


def test_what_a_judge_needs_and_says_without() -> None:
    free = QUEUE.unconstrained()
    uniform = replace(free, initial=np.full(6, 1.0 / 6.0))
    run = ib.learn(free.simulator(), ib.RandomizedPrimalDual.practical(), samples=200_000)
    judged = ib.judge_averages(run, uniform)  # its occupancies start from the uniform distribution
    assert judged.margins.shape == (1, 0) and judged.flow_residual[-1] < 0.1 and judged.duality_gap[-1] >= 0.0
    with pytest.raises(ib.InvalidInput, match="no average occupancy"):
        ib.judge_averages(ib.learn(QUEUE.simulator(), ib.OPGPD(iterations=5), samples=200), QUEUE)
    with pytest.raises(ib.InvalidInput, match=r"about 96 pairs, and this model has 13"):
        ib.judge_averages(ib.learn(QUEUE.simulator(), ib.CSPDA(slater=0.2), samples=200), ragged(2))
    with pytest.raises(ib.InvalidInput, match="takes a known model"):
        ib.judge_averages(run, QUEUE.simulator())
    with pytest.raises(ib.InvalidInput, match="judge_averages is for discounted problems"):
        ib.judge_averages(run, ib.zoo.admission())
    assert ib.judge_averages(ib.iterate(QUEUE, ib.CRPO(), iterations=20), QUEUE).duality_gap is None
    tight = ib.learn(QUEUE.simulator(), ib.CSPDA(slater=0.2, kappa=0.9), samples=500)
    assert np.isnan(ib.judge_averages(tight, QUEUE).duality_gap).all()


def test_the_units_of_slater_and_kappa_are_those_of_the_simulator() -> None:
    """A simulator that says its reward may reach 10 halves the scaled reward: the same gap from its scaling."""
    assert math.isclose(price_radius(0.2), 20.0) and math.isclose(value_radius(0.2, 0.5), 44.0)
    scaling, _ = in_scaled_units(QUEUE)
    wide = type(scaling)(0.0, 2.0 * scaling.reward_span, scaling.margin_scales)
    lam = np.full(96, 1.0 / 96)
    narrow, twice = (game_on(QUEUE, one, 0.2, 0.01) for one in (scaling, wide))
    gap, doubled = (duality_gap(game, lam, np.zeros(2)) for game in (narrow, twice))
    rest = QUEUE.reward @ (narrow.best - lam)
    assert doubled - rest == pytest.approx(2.0 * (gap - rest))


@pytest.mark.parametrize("scale", [True, False])
def test_a_run_is_judged_in_the_units_that_its_learner_saw(scale: bool) -> None:
    """The run knows them; as printed, a penalty per unit of margin is not one per largest margin."""
    simulator = QUEUE.simulator(scale=scale)
    run = ib.learn(simulator, ib.CSPDA(slater=0.2), samples=2_000, seed=1)
    game = game_on(QUEUE, simulator.scaling, 0.2, float(run.settings["kappa"]))
    gap = ib.judge_averages(run, QUEUE).duality_gap
    assert gap is not None and run.averages.occupancy is not None and run.averages.prices is not None
    assert gap[-1] == duality_gap(game, run.averages.occupancy, run.averages.prices)
