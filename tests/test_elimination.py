"""Sparse elimination: the same solutions as dense algebra, a complete pattern, and limits that hold."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import inbounds as ib
from inbounds.numerics import elimination
from inbounds.numerics.elimination import eliminate, eliminate_transposed, factorise, make_plan, plan_after
from inbounds.numerics.rows import Chain, mixed_chain, rows_of, unsigned
from inbounds.numerics.sweeps import iterate_flow


def chain_from(dense):
    rows = sp.csr_array(dense)
    return Chain(rows.indptr, unsigned(rows.indices), rows.data)


def random_weights(n_states, density, seed, discount=0.95):
    rng = np.random.default_rng(seed)
    dense = rng.random((n_states, n_states)) * (rng.random((n_states, n_states)) < density)
    dense[np.arange(n_states), rng.integers(n_states, size=n_states)] += 0.1
    return discount * dense / dense.sum(axis=1, keepdims=True)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(n_states=st.integers(1, 40), density=st.sampled_from([0.0, 0.03, 0.1, 0.5, 1.0]), seed=st.integers(0, 2**32 - 1))
def test_solutions_agree_with_dense_algebra(n_states, density, seed):
    weights = random_weights(n_states, density, seed)
    chain = chain_from(weights)
    plan = make_plan(chain.starts, chain.targets, np.inf, np.inf)
    assert np.array_equal(np.sort(plan.order), np.arange(n_states))
    factors = factorise(plan, chain)
    right = np.random.default_rng(seed + 1).normal(size=n_states)
    matrix = np.eye(n_states) - weights
    assert eliminate(factors, right) == pytest.approx(np.linalg.solve(matrix, right), abs=1e-12)
    assert eliminate_transposed(factors, right) == pytest.approx(np.linalg.solve(matrix.T, right), abs=1e-12)


def test_one_plan_serves_every_policy_of_a_problem():
    cmdp = ib.zoo.garnet(states=80, actions=3, constraints=0, ring=True, discount=0.97)
    rows = cmdp.transition
    plan = make_plan(rows.indptr[cmdp.offsets], unsigned(rows.indices), np.inf, np.inf)
    rng = np.random.default_rng(0)
    for _ in range(5):
        mass = rng.random(cmdp.n_pairs) * (rng.random(cmdp.n_pairs) < 0.5) + 1e-3
        policy = ib.Policy.from_occupancy(cmdp, mass)
        chain = mixed_chain(rows_of(cmdp.offsets, rows), policy.probabilities, cmdp.discount)
        time = eliminate_transposed(factorise(plan, chain), (1.0 - cmdp.discount) * cmdp.initial)
        assert time == pytest.approx(cmdp.pairs.sum_by_state(ib.occupancy(cmdp, policy)), abs=1e-14)
        swept, _ = iterate_flow(chain, cmdp.initial, cmdp.discount, 1e-13, 10**6)
        assert swept == pytest.approx(time, abs=1e-13)


def fill_and_work(plan):
    sizes = np.diff(plan.upper_starts)
    return int(sizes.sum()), int((sizes**2).sum())


def test_a_path_fills_nothing_in_and_a_complete_graph_everything():
    n_states = 30
    path = np.eye(n_states, k=1) + np.eye(n_states, k=-1)
    chain = chain_from(path / 4)
    assert fill_and_work(make_plan(chain.starts, chain.targets, np.inf, np.inf)) == (n_states - 1, n_states - 1)
    chain = chain_from(np.full((n_states, n_states), 0.5 / n_states))
    expected = sum(range(n_states)), sum(k * k for k in range(n_states))
    assert fill_and_work(make_plan(chain.starts, chain.targets, np.inf, np.inf)) == expected


def test_a_star_is_eliminated_from_its_leaves():
    weights = np.zeros((20, 20))
    weights[0, 1:] = weights[1:, 0] = 0.01
    chain = chain_from(weights)
    assert fill_and_work(make_plan(chain.starts, chain.targets, np.inf, np.inf)) == (19, 19)


def test_a_square_grid_takes_far_less_than_its_band():
    """Minimum degree on an m x m grid: of the order of m^2 log m, where the band takes m^3."""
    m = 60
    step = sp.diags_array([np.ones(m - 1), np.ones(m - 1)], offsets=[-1, 1])
    grid = sp.csr_array(sp.kron(sp.eye_array(m), step) + sp.kron(step, sp.eye_array(m)))
    fill, _ = fill_and_work(make_plan(grid.indptr, unsigned(grid.indices), np.inf, np.inf))
    assert fill < m**3 / 3


def test_limits_end_the_attempt():
    chain = chain_from(random_weights(200, 0.05, seed=1))
    fill, work = fill_and_work(make_plan(chain.starts, chain.targets, np.inf, np.inf))
    assert make_plan(chain.starts, chain.targets, fill, work) is not None
    assert make_plan(chain.starts, chain.targets, fill - 1, np.inf) is None
    assert make_plan(chain.starts, chain.targets, np.inf, work - 1) is None


@pytest.mark.parametrize(("share", "found"), [(0.9, False), (1.1, True)])
def test_factors_may_grow_with_what_was_spent_up_to_a_limit(share, found, monkeypatch):
    chain = chain_from(random_weights(400, 0.02, seed=1))
    fill, work = fill_and_work(make_plan(chain.starts, chain.targets, np.inf, np.inf))
    monkeypatch.setattr(elimination, "_LARGEST_FILL", share * fill)
    assert share * fill > 4.0 * len(chain.targets) + 20.0 * 400
    plan, most_work = plan_after(10.0 * work, 0.0, chain.starts, chain.targets)
    assert most_work == pytest.approx(100.0 * work)
    assert (plan is not None) == found


@pytest.mark.parametrize("ring", [False, True])
def test_occupancies_of_large_models(ring):
    """Beyond the dense limit: by elimination on the ring, by iteration otherwise; checked by the flow equations."""
    cmdp = ib.zoo.garnet(states=1500, actions=3, constraints=0, ring=ring, discount=0.99, seed=2)
    spent = ib.occupancy(cmdp, ib.Policy.uniform(cmdp))
    arriving = (1.0 - cmdp.discount) * cmdp.initial + cmdp.discount * (cmdp.transition.T @ spent)
    assert cmdp.pairs.sum_by_state(spent) == pytest.approx(arriving, abs=1e-16)
    assert spent.sum() == pytest.approx(1.0, abs=1e-12)
