"""NPG-PD: exact and sampled runs against the dense transcription, the theorem's bounds, the preset over seeds.

The estimators and what it shares with PDSC: test_rollouts.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms.known import in_scaled_units
from inbounds.algorithms.npg_pd import Bounds, prepare, prepare_known, proof_bounds, steps
from inbounds.algorithms.plug_in import iterate_plug_in
from inbounds.algorithms.rollouts import State
from inbounds.algorithms.settings import stated
from naive_cspda import ragged
from naive_rollouts import exact, npg_pd, sampled

QUEUE = ib.zoo.queue()
PROBLEMS = {
    "queue": QUEUE,
    "ragged": ragged(2).tightened(np.full(2, 0.4)),  # the uniform policy is out of bounds
    "one constraint": ragged(1),
    "free": ragged(0),
    "no future": ragged(2, discount=0.0).tightened(np.full(2, 0.4)),
}


def after(cmdp: ib.CMDP, settings: ib.NPGPD, samples: int, seed: int) -> tuple[State, ib.Policy, np.ndarray]:
    simulator, rng = cmdp.simulator(), np.random.default_rng(seed)
    start = prepare(settings, simulator, samples, rng)
    settings.algorithm.advance(start.state, start.constants, simulator.open(), rng, 0, samples)
    answer = settings.algorithm.extract(start.state, start.constants, simulator)
    return start.state, answer.policy, answer.prices


# ---- against the dense transcription


@pytest.mark.parametrize("average", ["all", "second half"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_exact_runs_equal_the_dense_transcription(problem: str, average: str) -> None:
    cmdp, iterations, kappa = PROBLEMS[problem], 60, 0.02
    start = prepare_known(ib.NPGPD(slater=0.2, kappa=kappa, average=average), in_scaled_units(cmdp)[1], iterations)
    eta_1, eta_2 = start.settings["policy_step"], start.settings["price_step"]
    assert eta_1 == 2 * math.log(np.diff(cmdp.offsets).max())
    assert eta_2 == pytest.approx((1 - cmdp.discount) / math.sqrt(iterations), rel=1e-15)
    naive = exact(
        cmdp,
        iterations,
        npg_pd(eta_1, eta_2, kappa, 0.2, cmdp.discount),
        restart=iterations // 2 if average == "second half" else 0,
    )
    policy, prices, *_ = iterate_plug_in(
        ib.NPGPD(slater=0.2, kappa=kappa, average=average), in_scaled_units(cmdp)[1], iterations
    )
    theirs = ib.Policy.from_occupancy(cmdp, naive.average, otherwise=ib.Policy(cmdp.pairs, naive.policy))
    np.testing.assert_allclose(policy.probabilities, theirs.probabilities, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(prices, naive.average_prices, rtol=0.0, atol=1e-10)
    if cmdp.n_constraints:
        assert np.max(prices) > 0.01  # they have moved


@pytest.mark.parametrize(
    "changes",
    [
        {"rollouts": 1, "start_rollouts": 4},
        {"rollouts": 2, "start_rollouts": 3, "baseline": True, "average": "second half", "kappa": 0.05},
    ],
    ids=["paper", "practical"],
)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_sampled_runs_equal_the_dense_transcription(problem: str, changes: dict[str, Any]) -> None:
    """Path by path with the same draws: last policy, prices, and averages, stopped in the middle of a walk.

    Steps are small, so that rounding is not blown up; they still move the policy.
    """
    cmdp, samples = PROBLEMS[problem], 4001
    settings = ib.NPGPD(slater=0.2, policy_step=0.05, price_step=0.02, **changes)
    for seed in range(3):
        state, policy, prices = after(cmdp, settings, samples, seed)
        naive = sampled(
            cmdp,
            np.random.default_rng(seed),
            samples,
            npg_pd(0.05, 0.02, changes.get("kappa", 0.0), 0.2, cmdp.discount),
            rollouts=changes["rollouts"],
            start_rollouts=changes["start_rollouts"],
            use_baseline="baseline" in changes,
            restart=samples // 2 if "average" in changes else 0,
        )
        assert state.position[2] == naive.iterations > 3
        np.testing.assert_allclose(state.policy, naive.policy, rtol=0.0, atol=1e-10)
        np.testing.assert_allclose(state.prices, naive.prices, rtol=0.0, atol=1e-10)
        theirs = ib.Policy.from_occupancy(cmdp, naive.average, otherwise=ib.Policy(cmdp.pairs, naive.policy))
        np.testing.assert_allclose(policy.probabilities, theirs.probabilities, rtol=0.0, atol=1e-10)
        np.testing.assert_allclose(prices, naive.average_prices, rtol=0.0, atol=1e-10)
        assert np.abs(state.policy - ib.Policy.uniform(cmdp).probabilities).max() > 0.01


# ---- on a known model


def test_the_queue_at_the_journal_s_steps() -> None:
    """Against an independent computation of 10,000 iterations; its printed digits are the tolerance."""
    run = ib.iterate(QUEUE, ib.NPGPD(slater=0.2, price_step="journal"), iterations=10_000)
    judged = ib.evaluate(QUEUE, run.policy)
    assert judged.total_reward == pytest.approx(4.6378, abs=5e-5)
    np.testing.assert_allclose(judged.total_margins, [0.0593, 0.0049], rtol=0.0, atol=5e-5)


@pytest.mark.parametrize("seed", range(4))
def test_known_models_within_the_theorem_s_bounds(seed: int) -> None:
    """One constraint: reward and violation of the average within the bounds that the run states, and close anyway."""
    cmdp = in_scaled_units(
        ib.zoo.garnet(states=5 + seed, actions=3, successors=2, constraints=1, discount=0.8, seed=seed)
    )[1]
    optimum, phi = ib.solve(cmdp).reward, ib.slater(cmdp).value
    theorems = {None: ("Theorem 1 (NeurIPS 2020)", 4.0, 1.0, 4.0), "journal": ("Theorem 10 (JMLR 2025)", 7.0, 2.0, 4.0)}
    for step, (name, reward, price, slack) in theorems.items():
        for iterations in (1, 3, 10, 100, 2_500):
            run = ib.iterate(cmdp, ib.NPGPD(price_step=step), iterations=iterations)
            xi, unit = phi / 0.2, 1 / (0.2 * math.sqrt(iterations))
            printed = Bounds(reward * unit, (price / xi + slack * xi) * unit)
            made = steps(ib.NPGPD(price_step=step), cmdp.pairs, 0.8, iterations)
            proved = proof_bounds(made, phi, 0.8, 3, iterations)
            said = "reward within {} of the optimum, violation at most {}"
            both = [said.format(*map(stated, bounds)) for bounds in (proved, printed)]
            assert f"{both[0]}; {name} prints {both[1]}" in run.guarantee
            judged = ib.evaluate(cmdp, run.policy)
            for bounds in (printed, proved):
                assert optimum - judged.reward <= bounds.gap and -judged.margins[0] <= bounds.violation
        assert abs(optimum - judged.reward) < 0.01 and judged.margins[0] > -0.01
    assert run.prices[0] == pytest.approx(ib.solve(cmdp).prices[0], abs=0.05)


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.95])
@pytest.mark.parametrize("phi", [0.02, 0.4, 1.0])
def test_what_the_proof_gives_at_the_steps_of_both_papers(discount: float, phi: float) -> None:
    """The constants of the module's docstring: reached for T = 1 and no discount, and approached from below by T."""
    xi = phi / (1 - discount)
    for step, factor, price in ((1.0, 4.0, 2.0), (2.0, 6.5, 1.0)):
        for iterations in (1, 7, 10_000):
            unit = 1 / ((1 - discount) * math.sqrt(iterations))
            made = (2 * math.log(4), step * (1 - discount) / math.sqrt(iterations))
            found = proof_bounds(made, phi, discount, 4, iterations)
            assert found.gap <= factor * unit * (1 + 1e-12)
            assert found.violation <= (price / xi + factor * phi) * unit * (1 + 1e-12)
        once = proof_bounds((2 * math.log(4), step), phi, 0.0, 4, 1)
        assert once == pytest.approx((factor, price / phi + factor * phi), rel=1e-12)


def test_any_constant_steps_are_within_the_proof_s_bounds() -> None:
    cmdp = in_scaled_units(ib.zoo.garnet(states=6, actions=3, successors=2, constraints=1, discount=0.5, seed=5))[1]
    optimum, phi = ib.solve(cmdp).reward, ib.slater(cmdp).value
    for made in ((0.01, 0.001), (0.5, 0.05), (20.0, 0.3)):
        run = ib.iterate(cmdp, ib.NPGPD(policy_step=made[0], price_step=made[1]), iterations=400)
        judged, bounds = ib.evaluate(cmdp, run.policy), proof_bounds(made, phi, 0.5, 3, 400)
        assert optimum - judged.reward <= bounds.gap and -judged.margins[0] <= bounds.violation
        assert run.guarantee.startswith("the paper's proof for these steps") and "prints" not in run.guarantee


def test_without_constraints_it_is_policy_iteration_with_a_soft_step() -> None:
    cmdp = in_scaled_units(ragged(0))[1]
    run = ib.iterate(cmdp, ib.NPGPD(), iterations=2_000)
    assert ib.evaluate(cmdp, run.policy).reward == pytest.approx(ib.solve(cmdp).reward, abs=2e-3)


def test_kappa_is_a_tighter_bound() -> None:
    """kappa on a model is the same as the model with every (scaled) bound tightened by it."""
    cmdp = in_scaled_units(ragged(2))[1]
    tightened, prices, *_ = iterate_plug_in(ib.NPGPD(slater=0.1, kappa=0.03), cmdp, 300)
    theirs, their_prices, *_ = iterate_plug_in(ib.NPGPD(slater=0.1), cmdp.tightened(np.full(2, 0.03)), 300)
    np.testing.assert_allclose(tightened.probabilities, theirs.probabilities, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(prices, their_prices, rtol=0.0, atol=1e-9)


# ---- from samples


def test_practical_preset_stays_in_bounds() -> None:
    """Over 40 seeds of 100,000 samples: mean reward and margins with 4 standard errors to spare; 5 % out of bounds.

    If 5 % of the runs were out of bounds, more than 7 of 40 would be with probability 0.2 %.
    """
    simulator = QUEUE.simulator()
    judged = [
        ib.evaluate(QUEUE, ib.learn(simulator, ib.NPGPD.practical(repair=False), samples=100_000, seed=seed).policy)
        for seed in range(40)
    ]
    rows = np.array([[one.total_reward, *one.total_margins] for one in judged])
    sure = rows.mean(axis=0) - 4.0 * rows.std(axis=0, ddof=1) / math.sqrt(len(rows))
    assert sure[0] >= 4.5 and np.all(sure[1:] > 0.0)
    assert np.sum(np.any(rows[:, 1:] < 0.0, axis=1)) <= 7


def test_more_samples_come_closer() -> None:
    """Mean gap over 10 seeds at a million samples at most 0.06 of 4.64, less than half of that at 100,000."""
    simulator = QUEUE.simulator()
    gaps = [
        np.mean(
            [
                4.644858
                - ib.evaluate(QUEUE, ib.learn(simulator, settings, samples=samples, seed=seed).policy).total_reward
                for seed in range(10)
            ]
        )
        for settings, samples in [
            (ib.NPGPD.practical(repair=False), 100_000),
            (ib.NPGPD.practical(repair=False), 1_000_000),
        ]
    ]
    assert 0.0 < gaps[1] < 0.06 and gaps[1] < 0.5 * gaps[0]


# ---- settings


def test_steps() -> None:
    pairs = QUEUE.pairs
    assert steps(ib.NPGPD(), pairs, 0.5, 100.0) == (2 * math.log(16), 0.05)
    assert steps(ib.NPGPD(price_step="journal"), pairs, 0.5, 100.0) == (2 * math.log(16), 0.1)
    assert steps(ib.NPGPD(policy_step=3, price_step=0.25), pairs, 0.5, 100.0) == (3.0, 0.25)
    assert steps(ib.NPGPD.practical(repair=False), pairs, 0.5, 100.0) == (30.0 * 0.25 / 10.0, 0.1)
    one = ib.CMDP(offsets=[0, 1], transition=[[1.0]], reward=[1.0], constraints=[], initial=[1.0], discount=0.9)
    assert steps(ib.NPGPD(), one.pairs, 0.9, 100.0)[0] > 0.0
    start = prepare(ib.NPGPD(slater=0.2), QUEUE.simulator(), 240_000, np.random.default_rng(0))
    assert start.constants.policy_step == pytest.approx(4 * math.log(16))  # eta_1 / (1 - gamma)
    assert start.settings["policy_step"] == 2 * math.log(16) and start.settings["iterations"] == 1000.0
    assert start.settings["start_rollouts"] == 24 and start.settings["baseline"] == "none"


def test_practical_preset_is_what_its_module_says() -> None:
    preset = ib.NPGPD.practical(repair=False)
    assert preset == ib.NPGPD(
        kappa="shrinking", policy_step="shrinking", price_step="journal", baseline=True, average="second half"
    )
    assert ib.NPGPD.practical(repair=False, kappa=0.0).kappa == 0.0
    with pytest.raises(TypeError):
        ib.NPGPD.practical(repair=False, kapa=0.0)


def test_settings_are_frozen_and_printed_as_written() -> None:
    settings = ib.NPGPD(slater=0.2, policy_step=1.0)
    assert repr(settings) == "NPGPD(slater=0.2, policy_step=1.0)" and repr(ib.NPGPD()) == "NPGPD()"
    with pytest.raises(AttributeError):
        settings.kappa = 1.0  # type: ignore[misc]


def test_a_guarantee_is_stated_only_when_every_condition_holds() -> None:
    def stated(settings: ib.NPGPD, cmdp: ib.CMDP = PROBLEMS["one constraint"]) -> str:
        return prepare_known(settings, in_scaled_units(cmdp)[1], 100).guarantee

    for settings in (ib.NPGPD(), ib.NPGPD(slater=0.1, rollouts=3), ib.NPGPD(policy_step=1.0), ib.NPGPD(price_step=0.1)):
        assert stated(settings).startswith("the paper's proof for these steps")
    assert stated(ib.NPGPD(), PROBLEMS["free"]).startswith("the paper's proof")
    for settings in (ib.NPGPD(kappa=0.01), ib.NPGPD.practical(repair=False)):
        assert "does not cover a kappa" in stated(settings)
    assert "some of the policies only" in stated(ib.NPGPD(average="second half"))
    assert "2 constraints" in stated(ib.NPGPD(), QUEUE)


def test_nothing_is_said_of_what_is_not_there() -> None:
    """No violation without constraints; and nothing at all of a known model in which no policy is in bounds."""
    cmdp = PROBLEMS["one constraint"]
    free, none = cmdp.unconstrained(), in_scaled_units(cmdp.tightened(2.0 * cmdp.margin_scales))[1]
    for step in (None, "journal", 0.1):
        text = prepare_known(ib.NPGPD(price_step=step), in_scaled_units(free)[1], 100).guarantee
        assert text.startswith("the paper's proof") and "reward within" in text
        assert "violation" not in text and "Slater" not in text
    text = prepare(ib.NPGPD(), free.simulator(), 10_000, np.random.default_rng(0)).guarantee
    assert text.startswith("Theorem 4") and "violation" not in text and "Slater" not in text
    text = prepare_known(ib.NPGPD(), none, 100).guarantee
    assert text == "none: the paper's theorem does not cover a problem in which no policy is in bounds"
    assert "if the Slater constant is right" in prepare_known(ib.NPGPD(slater=0.2), none, 100).guarantee


def test_the_theorem_for_samples_is_quoted_only_when_every_condition_holds() -> None:
    def told(cmdp: ib.CMDP = PROBLEMS["one constraint"], **changes: Any) -> str:
        start = prepare(ib.NPGPD(slater=0.2, **changes), cmdp.simulator(), 100_000, np.random.default_rng(0))
        return start.guarantee

    cmdp = PROBLEMS["one constraint"]
    start = prepare(ib.NPGPD(slater=0.2, rollouts=3), cmdp.simulator(), 100_000, np.random.default_rng(0))
    T, patience = start.settings["iterations"], 1 - cmdp.discount
    gap = 5 / (patience**2 * math.sqrt(T)) + 1 / (patience * 3 * math.sqrt(T))  # as printed, not normalised
    xi = 0.2 / patience
    violation = (1 / xi + 5 * xi) / (patience**2 * math.sqrt(T)) + xi / (3 * math.sqrt(T))
    said = f"reward within {stated(patience * gap)} of the optimum, violation at most {stated(patience * violation)}"
    assert start.guarantee.startswith("Theorem 4 (NeurIPS 2020)") and start.guarantee.endswith(said)
    reasons = {
        "a kappa": {"kappa": 0.01},
        "steps that differ": {"price_step": "journal"},
        "a baseline": {"baseline": True},
        "fewer walks from the start": {"rollouts": 3, "start_rollouts": 2},
        "some of the policies only": {"average": "second half"},
        "2 constraints": {"cmdp": QUEUE},
    }
    for reason, changes in reasons.items():
        found = told(**changes)
        assert found.startswith("none: ") and reason in found and "; nor" not in found
    assert "differ from its own" in told(policy_step=1.0)
