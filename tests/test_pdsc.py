"""PDSC: exact and sampled runs against the dense transcription, convergence, the preset over seeds.

The estimators and what it shares with NPG-PD: test_rollouts.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms.known import in_scaled_units
from inbounds.algorithms.pdsc import prepare, prepare_known
from inbounds.algorithms.plug_in import iterate_plug_in
from inbounds.algorithms.rollouts import iteration_weight
from naive_cspda import ragged
from naive_rollouts import exact, pdsc, sampled

QUEUE = ib.zoo.queue()
PROBLEMS = {
    "queue": QUEUE,
    "ragged": ragged(2).tightened(np.full(2, 0.4)),  # the uniform policy is out of bounds
    "one constraint": ragged(1),
    "free": ragged(0),
    "no future": ragged(2, discount=0.0).tightened(np.full(2, 0.4)),
}


@pytest.mark.parametrize("average", ["all", "second half"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_exact_runs_equal_the_dense_transcription(problem: str, average: str) -> None:
    cmdp, iterations = PROBLEMS[problem], 60
    settings = ib.PDSC(slater=0.2, kappa=0.02, policy_step=3.0, price_step=0.5, average=average)
    naive = exact(
        cmdp,
        iterations,
        pdsc(3.0, 0.5, 0.02, 0.2, cmdp.discount),
        restart=iterations // 2 if average == "second half" else 0,
    )
    policy, prices, *_ = iterate_plug_in(settings, in_scaled_units(cmdp)[1], iterations)
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
    """Path by path with the same draws: last policy, prices, and averages, stopped in the middle of a walk."""
    cmdp, samples = PROBLEMS[problem], 4001
    settings, simulator = ib.PDSC(slater=0.2, policy_step=0.5, price_step=0.1, **changes), cmdp.simulator()
    for seed in range(3):
        rng = np.random.default_rng(seed)
        start = prepare(settings, simulator, samples, rng)
        settings.algorithm.advance(start.state, start.constants, simulator.open(), rng, 0, samples)
        policy, prices, *_ = settings.algorithm.extract(start.state, start.constants, simulator)
        naive = sampled(
            cmdp,
            np.random.default_rng(seed),
            samples,
            pdsc(0.5, 0.1, changes.get("kappa", 0.0), 0.2, cmdp.discount),
            rollouts=changes["rollouts"],
            start_rollouts=changes["start_rollouts"],
            use_baseline="baseline" in changes,
            restart=samples // 2 if "average" in changes else 0,
        )
        assert start.state.position[2] == naive.iterations > 3
        np.testing.assert_allclose(start.state.policy, naive.policy, rtol=0.0, atol=1e-10)
        np.testing.assert_allclose(start.state.prices, naive.prices, rtol=0.0, atol=1e-10)
        theirs = ib.Policy.from_occupancy(cmdp, naive.average, otherwise=ib.Policy(cmdp.pairs, naive.policy))
        np.testing.assert_allclose(policy.probabilities, theirs.probabilities, rtol=0.0, atol=1e-10)
        np.testing.assert_allclose(prices, naive.average_prices, rtol=0.0, atol=1e-10)
        assert np.abs(start.state.policy - ib.Policy.uniform(cmdp).probabilities).max() > 0.01


def test_steps_shrink_with_the_root_of_the_iteration() -> None:
    state, constants, *_ = prepare(ib.PDSC(slater=0.2), QUEUE.simulator(), 1000, np.random.default_rng(0))
    for done, expected in ((0, 1.0), (3, 0.5), (99, 0.1)):
        state.position[2] = done
        assert iteration_weight(state, constants) == pytest.approx(expected, rel=1e-15)
        assert iteration_weight(state, constants._replace(decreasing=False)) == 1.0


def test_the_queue_on_a_known_model() -> None:
    """Against an independent computation of 10,000 iterations; its printed digits are the tolerance."""
    judged = ib.evaluate(QUEUE, ib.iterate(QUEUE, ib.PDSC(slater=0.2), iterations=10_000).policy)
    assert judged.total_reward == pytest.approx(4.4964, abs=5e-5)
    np.testing.assert_allclose(judged.total_margins, [0.73, 0.29], rtol=0.0, atol=5e-3)


@pytest.mark.parametrize("seed", range(4))
def test_known_models_converge(seed: int) -> None:
    """The weighted average after 10,000 iterations, and on the way there; and that of the second half alone."""
    cmdp = in_scaled_units(
        ib.zoo.garnet(states=5 + seed, actions=3, successors=2, constraints=1, discount=0.8, seed=seed)
    )[1]
    best = ib.solve(cmdp)
    run = ib.iterate(cmdp, ib.PDSC(policy_step=5.0, price_step=5.0), iterations=10_000, checkpoints=[100, 1_000])
    judged = [ib.evaluate(cmdp, policy) for policy in run.policies]
    gaps = [best.reward - one.reward for one in judged]
    assert gaps[0] > gaps[1] > gaps[2] and gaps[2] < 0.01 and judged[2].margins[0] > -0.01
    assert "without constants" in run.guarantee
    half = ib.iterate(cmdp, ib.PDSC(policy_step=5.0, price_step=5.0, average="second half"), iterations=10_000)
    judged_half = ib.evaluate(cmdp, half.policy)
    assert abs(best.reward - judged_half.reward) < 0.003 and judged_half.margins[0] > -0.003
    assert half.prices[0] == pytest.approx(best.prices[0], abs=0.05)


def test_practical_preset_stays_in_bounds() -> None:
    """Over 20 seeds of 300,000 samples: mean reward and margins with 4 standard errors to spare; 5 % out of bounds.

    If 5 % of the runs were out of bounds, more than 5 of 20 would be with probability 0.03 %.
    """
    simulator = QUEUE.simulator()
    judged = [
        ib.evaluate(QUEUE, ib.learn(simulator, ib.PDSC.practical(repair=False), samples=300_000, seed=seed).policy)
        for seed in range(20)
    ]
    rows = np.array([[one.total_reward, *one.total_margins] for one in judged])
    sure = rows.mean(axis=0) - 4.0 * rows.std(axis=0, ddof=1) / math.sqrt(len(rows))
    assert sure[0] >= 4.35 and np.all(sure[1:] > 0.0)
    assert np.sum(np.any(rows[:, 1:] < 0.0, axis=1)) <= 5


def test_settings_and_their_preset() -> None:
    assert ib.PDSC.practical(repair=False) == ib.PDSC(
        kappa="shrinking", policy_step=10.0, baseline=True, average="second half"
    )
    assert (
        repr(ib.PDSC(policy_step=2.0)) == "PDSC(policy_step=2.0)"
        and ib.PDSC.practical(repair=False, kappa=0.1).kappa == 0.1
    )
    with pytest.raises(TypeError):
        ib.PDSC.practical(repair=False, step=0.0)
    start = prepare(ib.PDSC(slater=0.2, policy_step=3, price_step=2), QUEUE.simulator(), 1000, np.random.default_rng(0))
    assert (start.constants.policy_step, start.constants.price_step) == (1.5, 1.0)  # times (1 - discount)
    assert (start.settings["policy_step"], start.settings["price_step"]) == (3.0, 2.0)


def test_what_the_paper_proves() -> None:
    model = in_scaled_units(QUEUE)[1]
    for settings in (ib.PDSC(), ib.PDSC(policy_step=2.0, price_step=2.0, slater=0.1)):
        assert "rate" in prepare_known(settings, model, 100).guarantee
    for settings in (
        ib.PDSC(kappa=0.1),
        ib.PDSC(policy_step=2.0),
        ib.PDSC(average="second half"),
        ib.PDSC.practical(repair=False),
    ):
        assert prepare_known(settings, model, 100).guarantee.startswith("none: ")
    assert prepare(ib.PDSC(slater=0.2), QUEUE.simulator(), 1000, np.random.default_rng(0)).guarantee.startswith(
        "none: "
    )


def test_nothing_is_said_of_what_is_not_there() -> None:
    model = in_scaled_units(QUEUE)[1]
    free = prepare_known(ib.PDSC(slater=0.2), model.unconstrained(), 100).guarantee
    assert free == "the paper's rate, O(log T / sqrt(T)) for the reward, without constants"
    none = prepare_known(ib.PDSC(), model.tightened(0.3), 100).guarantee
    assert none == "none: the paper's theorem does not cover a problem in which no policy is in bounds"
    assert "Slater" not in prepare_known(ib.PDSC(), model, 100).guarantee
    assert prepare_known(ib.PDSC(slater=0.2), model, 100).guarantee.endswith(", if the Slater constant is right")
