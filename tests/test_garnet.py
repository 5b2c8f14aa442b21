"""Garnet problems: what the docstring promises."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import inbounds as ib


@pytest.mark.parametrize("ring", [False, True])
def test_shape_and_probabilities(ring):
    cmdp = ib.zoo.garnet(states=50, actions=3, successors=4, constraints=2, seed=1, ring=ring)
    assert (cmdp.n_states, cmdp.n_pairs, cmdp.n_constraints) == (50, 150, 2)
    assert np.all(np.diff(cmdp.transition.indptr) == 4)
    assert cmdp.transition.sum(axis=1) == pytest.approx(np.ones(150), abs=1e-15)


@pytest.mark.parametrize("states", [30, 15, 21])
def test_the_ring_moves_at_most_ten_in_either_direction(states):
    cmdp = ib.zoo.garnet(states=states, actions=40, successors=5, seed=3, ring=True)
    rows = cmdp.transition.tocoo()
    steps = (rows.col - cmdp.pairs.states[rows.row]) % states
    distance = np.minimum(steps, states - steps)
    assert distance.max() == min(10, states // 2)
    # Every move within reach occurs: 200 draws a state over 21 moves leave one out with probability below 1e-4.
    assert len(np.unique(steps)) == min(21, states)


@pytest.mark.parametrize("ring", [False, True])
def test_every_constraint_binds(ring):
    best = ib.solve(ib.zoo.garnet(states=300, actions=6, constraints=3, seed=0, ring=ring))
    assert np.all(best.prices > 0.01)
    assert best.margins == pytest.approx(np.zeros(3), abs=1e-9)


def test_bounds_lie_on_the_way_from_the_best_to_the_most_cautious():
    cmdp = ib.zoo.garnet(states=40, constraints=2, seed=11)
    signals = np.array([c.signal for c in cmdp.constraints])
    free = dataclasses.replace(cmdp, constraints=())
    best = ib.solve(free, "lp")
    cautious = ib.solve(dataclasses.replace(free, reward=signals.sum(axis=0)), "lp")
    at_best, at_cautious = signals @ best.occupancy, signals @ cautious.occupancy
    assert [c.bound for c in cmdp.constraints] == pytest.approx(at_best + 0.4 * (at_cautious - at_best), abs=1e-7)
    meets_exactly = ib.mix(cmdp, [best.policy, cautious.policy], [0.6, 0.4])
    assert ib.evaluate(cmdp, meets_exactly).margins == pytest.approx([0.0, 0.0], abs=1e-7)


def test_the_seed_decides_everything():
    one, same, other = (ib.zoo.garnet(states=20, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(one.transition.toarray(), same.transition.toarray())
    assert np.array_equal(one.margins, same.margins)
    assert not np.array_equal(one.reward, other.reward)


def test_the_smallest():
    assert ib.solve(ib.zoo.garnet(states=1, actions=1, successors=1)).gap <= 1e-8
    assert ib.zoo.garnet(states=5, constraints=0).constraints == ()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"states": 0}, "states must be a whole number of at least 1, found 0"),
        ({"actions": 1.5}, "actions must be a whole number"),
        ({"constraints": -1}, "constraints must be a whole number of at least 0"),
        ({"states": 3}, r"successors \(5\) cannot exceed the number of states \(3\)"),
        ({"successors": 22, "ring": True}, r"successors \(22\) cannot exceed the 21 states within reach on the ring"),
    ],
)
def test_wrong_parameters_are_refused(wrong, message):
    with pytest.raises(ib.InvalidInput, match=message):
        ib.zoo.garnet(**wrong)
