"""The chains of all policies of a model: exact values, by elimination and by sweeps, against the textbook."""

from __future__ import annotations

import numpy as np
import pytest

import inbounds as ib
from inbounds.numerics.policy_chains import (
    PolicyChains,
    merged_chain,
    pair_occupancy,
    pair_values,
    policy_chains,
    state_values,
)
from naive_cspda import dense, ragged

PROBLEMS = {"queue": ib.zoo.queue(), "ragged": ragged(2), "no future": ragged(1, discount=0.0), "free": ragged(0)}


def chains_of(cmdp: ib.CMDP) -> PolicyChains:
    return policy_chains(cmdp.offsets, cmdp.transition, cmdp.discount)


def some_policy(cmdp: ib.CMDP, seed: int = 0) -> np.ndarray:
    return ib.Policy.from_occupancy(cmdp, np.random.default_rng(seed).random(cmdp.n_pairs)).probabilities


@pytest.mark.parametrize("eliminate", [True, False])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_values_and_occupancies_solve_their_equations(problem: str, eliminate: bool) -> None:
    cmdp = PROBLEMS[problem]
    chains = chains_of(cmdp)
    assert chains.eliminate
    chains = chains._replace(eliminate=eliminate)
    d, policy = dense(cmdp), some_policy(cmdp)
    signals = np.vstack([d.r, d.g.T])
    choose = (np.arange(cmdp.n_states)[:, None] == d.state) * policy
    chain = choose @ d.P
    expected = np.linalg.solve(np.eye(cmdp.n_states) - d.gamma * chain, choose @ signals.T).T

    values = np.zeros((len(signals), cmdp.n_states))
    state_values(chains, policy, signals, values)
    np.testing.assert_allclose(values, expected, rtol=0.0, atol=1e-11)
    at_pairs = np.empty(cmdp.n_pairs)
    pair_values(chains, signals[0], values[0], at_pairs)
    np.testing.assert_allclose(at_pairs, d.r + d.gamma * d.P @ expected[0], rtol=0.0, atol=1e-11)

    time, occupancy = np.full(cmdp.n_states, 1.0 / cmdp.n_states), np.empty(cmdp.n_pairs)
    pair_occupancy(chains, cmdp.initial, policy, time, occupancy)
    np.testing.assert_allclose(occupancy, ib.occupancy(cmdp, ib.Policy(cmdp.pairs, policy)), rtol=0.0, atol=1e-12)
    assert cmdp.initial @ values[0] * (1.0 - d.gamma) == pytest.approx(occupancy @ d.r, abs=1e-11)


def test_large_random_graphs_are_swept() -> None:
    cmdp = ib.zoo.garnet(states=2_000, actions=2, successors=4, constraints=1)
    chains = chains_of(cmdp)
    assert not chains.eliminate
    policy = some_policy(cmdp)
    values = np.zeros((1, cmdp.n_states))
    state_values(chains, policy, cmdp.reward[None].copy(), values)
    judged = ib.evaluate(cmdp, ib.Policy(cmdp.pairs, policy))
    assert cmdp.initial @ values[0] * (1.0 - cmdp.discount) == pytest.approx(judged.reward, abs=1e-11)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_one_pattern_holds_the_chain_of_every_policy(problem: str) -> None:
    """Every move once, with the weights of the textbook; the pattern does not depend on the policy."""
    cmdp = PROBLEMS[problem]
    chains, d = chains_of(cmdp), dense(cmdp)
    for seed in (0, 1):
        policy = some_policy(cmdp, seed)
        chain = merged_chain(chains, policy)
        assert np.array_equal(chain.starts, chains.starts) and np.array_equal(chain.targets, chains.targets)
        found = np.zeros((cmdp.n_states, cmdp.n_states))
        for s in range(cmdp.n_states):
            targets = chain.targets[chain.starts[s] : chain.starts[s + 1]]
            assert np.all(np.diff(targets.astype(int)) > 0)
            found[s, targets] = chain.weights[chain.starts[s] : chain.starts[s + 1]]
        choose = (np.arange(cmdp.n_states)[:, None] == d.state) * policy
        np.testing.assert_allclose(found, cmdp.discount * choose @ d.P, rtol=0.0, atol=1e-15)
