"""Exact values on a known model, by elimination and by sweeps, against the textbook."""

from __future__ import annotations

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms.known import (
    in_scaled_units,
    known_model,
    known_slater,
    pair_occupancy,
    pair_values,
    start_value,
    state_values,
)
from inbounds.algorithms.plug_in import default_iterations
from naive_cspda import dense, ragged

PROBLEMS = {"queue": ib.zoo.queue(), "ragged": ragged(2), "no future": ragged(1, discount=0.0), "free": ragged(0)}


def some_policy(cmdp: ib.CMDP, seed: int = 0) -> np.ndarray:
    return ib.Policy.from_occupancy(cmdp, np.random.default_rng(seed).random(cmdp.n_pairs)).probabilities


@pytest.mark.parametrize("eliminate", [True, False])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_values_and_occupancies_solve_their_equations(problem: str, eliminate: bool) -> None:
    cmdp = PROBLEMS[problem]
    model = known_model(in_scaled_units(cmdp)[1])
    assert model.pattern.eliminate
    model = model._replace(pattern=model.pattern._replace(eliminate=eliminate))
    d, policy = dense(cmdp), some_policy(cmdp)
    signals = np.vstack([d.r, d.g.T])
    choose = (np.arange(cmdp.n_states)[:, None] == d.state) * policy
    chain = choose @ d.P
    expected = np.linalg.solve(np.eye(cmdp.n_states) - d.gamma * chain, choose @ signals.T).T

    values = np.zeros((len(signals), cmdp.n_states))
    state_values(model, policy, signals, values)
    np.testing.assert_allclose(values, expected, rtol=0.0, atol=1e-11)
    at_pairs = np.empty(cmdp.n_pairs)
    pair_values(model, signals[0], values[0], at_pairs)
    np.testing.assert_allclose(at_pairs, d.r + d.gamma * d.P @ expected[0], rtol=0.0, atol=1e-11)

    time, occupancy = np.full(cmdp.n_states, 1.0 / cmdp.n_states), np.empty(cmdp.n_pairs)
    pair_occupancy(model, policy, time, occupancy)
    np.testing.assert_allclose(occupancy, ib.occupancy(cmdp, ib.Policy(cmdp.pairs, policy)), rtol=0.0, atol=1e-12)
    assert start_value(model, values[0]) * (1.0 - d.gamma) == pytest.approx(occupancy @ d.r, abs=1e-11)


def test_large_random_graphs_are_swept() -> None:
    cmdp = ib.zoo.garnet(states=2_000, actions=2, successors=4, constraints=1)
    scaled = in_scaled_units(cmdp)[1]
    model = known_model(scaled)
    assert not model.pattern.eliminate
    policy = some_policy(cmdp)
    values = np.zeros((1, cmdp.n_states))
    state_values(model, policy, scaled.reward[None].copy(), values)
    judged = ib.evaluate(scaled, ib.Policy(scaled.pairs, policy))
    assert start_value(model, values[0]) * (1.0 - cmdp.discount) == pytest.approx(judged.reward, abs=1e-11)


def test_scaled_units_and_back() -> None:
    cmdp = ib.zoo.queue()
    scaling, scaled = in_scaled_units(cmdp)
    policy = ib.Policy(cmdp.pairs, some_policy(cmdp))
    ours, theirs = ib.evaluate(cmdp, policy), ib.evaluate(scaled, policy)
    assert scaling.reward_low + scaling.reward_span * theirs.reward == pytest.approx(ours.reward, abs=1e-12)
    np.testing.assert_allclose(scaling.margin_scales * theirs.margins, ours.margins, rtol=0.0, atol=1e-12)
    assert known_slater(ib.OPGPD(), scaled) == pytest.approx(0.2, abs=1e-8)  # section "Evaluations" of the paper
    assert known_slater(ib.OPGPD(), scaled.unconstrained()) == 1.0
    assert known_slater(ib.OPGPD(slater=0.3), scaled) == 0.3


def test_iterations_on_an_empirical_model_fall_with_its_size() -> None:
    assert [default_iterations(n) for n in (1, 96, 200, 10_000, 1_000_000)] == [20_000, 20_000, 10_000, 200, 100]


@pytest.mark.parametrize("n_constraints", [0, 1, 2])
def test_arrays_of_a_model_are_its_own(n_constraints: int) -> None:
    """Copies, never views of the model's: one type for every problem, so that kernels compile once."""
    model = known_model(in_scaled_units(ragged(n_constraints))[1])
    arrays = [array for array in (*model, *model.rows, *model.pattern) if isinstance(array, np.ndarray)]
    assert len(arrays) == 4 + 4 + 3 and all(array.flags.writeable and array.flags.c_contiguous for array in arrays)
