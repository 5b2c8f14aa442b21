"""The empirical model: counts of draws, scaled units."""

from __future__ import annotations

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms.empirical import sampled_model
from naive_cspda import dense, ragged


def test_a_deterministic_problem_is_recovered_exactly() -> None:
    rng = np.random.default_rng(0)
    cmdp = ib.CMDP(
        offsets=[0, 2, 3, 6],
        transition=np.eye(3)[rng.integers(3, size=6)],
        reward=rng.uniform(-3.0, 5.0, 6),
        constraints=[ib.Constraint(rng.random(6), at_most=0.4, name="a"), ib.Constraint(rng.random(6), at_least=0.1)],
        initial=[0.0, 1.0, 0.0],
        discount=0.9,
        state_labels=("x", "y", "z"),
    )
    model = sampled_model(cmdp.simulator(), 4, np.random.default_rng(1))
    d = dense(cmdp)
    np.testing.assert_array_equal(model.transition.toarray(), d.P)
    np.testing.assert_array_equal(model.initial, cmdp.initial)
    np.testing.assert_allclose(model.reward, d.r, rtol=0.0, atol=1e-15)
    np.testing.assert_allclose(model.margins, d.g.T, rtol=0.0, atol=1e-15)
    assert model.discount == cmdp.discount and model.pairs.state_labels == ("x", "y", "z")
    assert [c.name for c in model.constraints] == [c.name for c in cmdp.constraints]


@pytest.mark.parametrize("cmdp", [ib.zoo.queue(), ragged(2)], ids=["queue", "ragged"])
def test_frequencies_are_those_of_the_model(cmdp: ib.CMDP) -> None:
    """Every entry within 5 standard errors; false alarm: 300 normal tests at most, 2e-4 (binomials of mean >= 25)."""
    draws = 1000
    model = sampled_model(cmdp.simulator(), draws, np.random.default_rng(2))
    found, truth = model.transition.toarray(), cmdp.transition.toarray()
    counts = found * draws
    np.testing.assert_allclose(counts, np.rint(counts), rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(counts.sum(axis=1), draws, rtol=1e-12)
    assert np.all(found[truth == 0.0] == 0.0)
    tested = (truth * draws >= 25) & ((1.0 - truth) * draws >= 25)
    z = (found - truth)[tested] / np.sqrt(truth * (1.0 - truth) / draws)[tested]
    assert tested.sum() > 20 and np.max(np.abs(z)) < 5.0
    assert np.std(z) == pytest.approx(1.0, abs=5.0 / np.sqrt(2 * tested.sum()) * 1.5)  # neither too close nor too far
    starts = cmdp.initial > 0.0
    error = np.sqrt(cmdp.initial * (1.0 - cmdp.initial) / 100_000)
    assert np.all(np.abs(model.initial - cmdp.initial)[starts] < 5.0 * error[starts])
    assert np.all(model.initial[~starts] == 0.0)


def test_same_generator_same_model() -> None:
    simulator = ragged(1).simulator()
    one, two, other = (sampled_model(simulator, 20, np.random.default_rng(seed)) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.transition.toarray(), two.transition.toarray())
    np.testing.assert_array_equal(one.initial, two.initial)
    assert not np.array_equal(one.transition.toarray(), other.transition.toarray())


def test_what_a_user_s_simulator_reports_is_averaged_and_counted() -> None:
    reported: list[float] = []

    def step(state: str, action: str, rng: np.random.Generator) -> tuple[str, float, list[float]]:
        reported.append(float(rng.integers(0, 11)))
        return state, reported[-1], [reported[-1] / 2.0]

    simulator = ib.Simulator(
        step,
        start=lambda rng: "here",
        states=["here", "there"],
        actions=["wait"],
        discount=0.5,
        reward_range=(0, 10),
        constraints=[ib.Constraint(at_most=4.0, name="half")],
        signal_ranges=[(0, 5)],
    )
    model = sampled_model(simulator, 50, np.random.default_rng(0))
    assert len(reported) == 100
    rewards = np.array(reported).reshape(50, 2).T  # the pairs in turn
    np.testing.assert_allclose(model.reward, rewards.mean(axis=1) / 10.0, rtol=1e-14)
    np.testing.assert_allclose(model.margins[0], (4.0 - rewards / 2.0).mean(axis=1) / 4.0, rtol=1e-13)
    np.testing.assert_array_equal(model.initial, [1.0, 0.0])
    np.testing.assert_array_equal(model.transition.toarray(), np.eye(2))
