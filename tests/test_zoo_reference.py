"""Every published problem of the zoo reaches its published optimum, to the digits that are printed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import inbounds as ib
from inbounds.criteria import criterion_of

# Name, parameters, optimum, optimum without the constraint, price, as printed. Media is published as a minimisation.
EPISODIC = [
    ("media", {}, "-6.746704", "-5.393138", "0.495190"),
    ("inventory", {}, "6.135519", "7.0", "1.440038"),
    ("three_cycle", {}, "2.0", "4.0", "0.6667"),
    ("three_cycle", {"uniform_start": True}, "6.666667", "12", "2"),
    ("factored", {}, "0.2", "1.0", "1"),
    ("hazard_grid", {}, "1.536288", "1.816822", "0.192982"),
]
IDS = ["media", "inventory", "three-cycle", "three-cycle, uniform start", "factored", "hazard grid"]

# Exactly, by hand: see the docstrings of the problems.
BY_HAND = {
    "three-cycle": (2.0, 4.0, 2.0 / 3.0),
    "three-cycle, uniform start": (20.0 / 3.0, 12.0, 2.0),
    "factored": (0.2, 1.0, 1.0),
}


def printed(text: str):
    """A printed number: anything that rounds to it, and the gap that a solver is allowed."""
    decimals = len(text.partition(".")[2])
    return pytest.approx(float(text), rel=0, abs=0.5 * 10.0**-decimals + 1e-9)


def test_printed_numbers_are_strict():
    assert printed("6.746704") == 6.7467044
    assert printed("6.746704") != 6.7467046
    assert printed("1") == 1.4
    assert printed("1") != 1.6


@pytest.mark.parametrize(("name", "parameters", "optimum", "unconstrained", "price"), EPISODIC, ids=IDS)
def test_episodic_problem_reaches_its_optimum(name, parameters, optimum, unconstrained, price):
    problem = ib.zoo.make(name, **parameters)
    assert list(problem.criterion) == ["horizon"]
    best = ib.solve(problem)
    assert best.in_bounds
    assert best.gap <= 1e-9
    assert best.reward == printed(optimum)
    assert best.prices[0] == printed(price)
    free = ib.solve(replace(problem, constraints=()))
    assert free.gap <= 1e-9
    assert free.reward == printed(unconstrained)
    if problem.name in BY_HAND:
        exact = BY_HAND[problem.name]
        np.testing.assert_allclose([best.reward, free.reward, best.prices[0]], exact, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("name", "parameters"), [row[:2] for row in EPISODIC], ids=IDS)
def test_episodic_problem_is_well_posed(name, parameters):
    """Strictly feasible, the bound binds, and at most one (stage, state) that is visited needs a coin."""
    problem = ib.zoo.make(name, **parameters)
    assert ib.slater(problem).value > 0.05
    best = ib.solve(problem, method="lp")  # at a vertex; the bundle may mix more
    assert best.margins[0] == pytest.approx(0.0, abs=1e-9)
    by_state = np.add.reduceat(best.occupancy, problem.offsets[:-1], axis=1)
    surest = np.maximum.reduceat(best.occupancy, problem.offsets[:-1], axis=1)
    assert np.count_nonzero(by_state - surest > 1e-9) <= 1
    assert problem.state_labels is not None
    assert all(isinstance(label, str) for label in (*problem.state_labels, *problem.action_labels))


def test_media_uses_the_fast_link_when_it_may():
    """The published unconstrained optimum uses 9.9087 fast steps; there is a choice from 8.557 to 10 (always fast)."""
    problem = ib.zoo.media()
    always = ib.Policy.deterministic(problem, np.tile(np.arange(1, 20, 2), (10, 1)))
    value = ib.evaluate(problem, always)
    assert value.reward == printed("-5.393138")
    assert value.margins[0] == pytest.approx(5.0 - 10.0, abs=1e-12)
    optimal = ib.Constraint(problem.reward, at_least=value.reward - 1e-10, name="optimal")
    fast = problem.constraints[0].signal
    fewest = ib.solve(replace(problem, reward=-fast, constraints=(optimal,)))
    assert -fewest.reward == printed("8.557")


def test_inventory_by_hand():
    """Costs and revenues of a few pairs, and the lost demand."""
    problem = ib.zoo.inventory()
    pairs = problem.pairs
    cost, revenue = pairs.table(problem.constraints[0].signal[0]), pairs.table(problem.reward[0])
    assert cost[0, 5] == 1.0  # 4 + 2*5 + 5 = 19, the largest
    assert cost[0, 0] == 0.0
    assert cost[2, 1] == pytest.approx((4 + 2 + 3) / 19)
    assert cost[3, 0] == pytest.approx(3 / 19)
    mean_demand = 0.2 * 1 + 0.2 * 2 + 0.2 * 3 + 0.05 * 4 + 0.05 * 5
    assert revenue[2, 3] == revenue[5, 0] == pytest.approx(1.0)
    assert revenue[1, 1] == pytest.approx((0.2 * 1 + 0.2 * 2) / mean_demand)
    assert problem.n_pairs == 6 * 7 // 2
    number = [pairs.describe(pair) for pair in range(21)].index("state 'stock 2', action 'order 0'")
    after_two = problem.transition[0].toarray()[number]
    np.testing.assert_allclose(after_two, [0.5, 0.2, 0.3, 0, 0, 0], atol=1e-15)


def test_hazard_grid_moves():
    problem = ib.zoo.hazard_grid()
    table = {problem.pairs.describe(pair): problem.transition[0].toarray()[pair] for pair in range(problem.n_pairs)}
    corner = table["state 'row 0, column 0', action 'right'"]
    # Right on purpose or by slipping; down by slipping; the two walls keep it where it is.
    np.testing.assert_allclose([corner[1], corner[8], corner[0]], [0.925, 0.025, 0.05], atol=1e-15)
    trap = table["state 'row 2, column 3', action 'up'"]
    assert trap[2 * 8 + 3] == 1.0
    with pytest.raises(ib.InvalidInput, match=r"hazards: \(8, 0\) is no cell of the grid"):
        ib.zoo.hazard_grid(hazards=[(8, 0)])


def test_jump_grid_reaches_its_optimum():
    """Published as discounted sums: compare totals; a price is the same in both."""
    problem = ib.zoo.jump_grid()
    assert criterion_of(problem).total(problem.constraints[0].bound) == pytest.approx(1.5, abs=1e-15)
    best = ib.solve(problem)
    assert best.in_bounds
    assert best.total_reward == printed("1.652722")
    assert best.prices[0] == printed("0.173230")
    assert ib.solve(replace(problem, constraints=())).total_reward == printed("1.732862")


def test_queue_reaches_its_optimum():
    queue = ib.zoo.queue()
    best = ib.solve(queue)
    assert best.total_reward == pytest.approx(4.644858248633466, abs=1e-9)
    free = ib.solve(replace(queue, constraints=()))
    assert free.total_reward == pytest.approx(5.659335557513892, abs=1e-9)
    # The published prices are for reward and margins divided by their largest values.
    scaled = best.prices * queue.margin_scales / np.abs(queue.reward).max()
    assert scaled[0] == printed("0.096920")
    assert scaled[1] == printed("0.045560")


@pytest.mark.parametrize(
    "kappa, total",
    [
        (0.007489, "4.634188"),
        (0.02, "4.616362"),
        (0.05, "4.573619"),
        (0.1, "4.502361"),
        (0.15, "4.429394"),
        (0.2, "4.353550"),
    ],
)
def test_conservative_queue(kappa, total):
    queue = ib.zoo.queue()
    assert ib.solve(queue.tightened(kappa * queue.margin_scales)).total_reward == printed(total)


@pytest.mark.parametrize("name", ib.zoo.names())
def test_every_problem_loads_by_name(name):
    problem = ib.zoo.make(name)
    assert problem.n_constraints >= 1
    assert problem.name


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("media", {"states": 0}, "states must be a whole number"),
        ("media", {"horizon": 0}, "horizon must be a whole number"),
        ("media", {"fast": 1.5}, "fast must be a probability, .* found 1.5"),
        ("inventory", {"capacity": 0}, "capacity must be a whole number"),
        ("inventory", {"demand": (0.5, 0.4)}, "demand must be probabilities that sum to 1"),
        ("hazard_grid", {"horizon": 0}, "horizon must be a whole number"),
        ("hazard_grid", {"size": 8.5}, "size must be a whole number"),
        ("hazard_grid", {"slip": True}, "slip must be a probability"),
        ("factored", {"free": float("nan")}, "free must be a probability"),
        ("three_cycle", {"moves": float("nan")}, "moves must be a finite number, found nan"),
        ("jump_grid", {"discount": 1.0}, r"discount must be in \[0, 1\)"),
    ],
)
def test_wrong_parameters_are_named(name, parameters, message):
    with pytest.raises(ib.InvalidInput, match=message):
        ib.zoo.make(name, **parameters)


def test_admission_reaches_its_optimum():
    problem = ib.zoo.admission()
    assert list(problem.criterion) == ["average"]
    best = ib.solve(problem)
    assert best.in_bounds
    assert best.reward == pytest.approx(0.491389906264, abs=1e-11)
    assert best.prices[0] == pytest.approx(0.027152523, abs=1e-9)
    assert ib.solve(problem.unconstrained()).reward == printed("0.500000")
