"""Concave functions of the occupancy: gradients by differences, bounds at the corners, values by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms.utility import checked_gradient, checked_value
from naive_cspda import ragged

RAGGED, QUEUE = ragged(0), ib.zoo.queue()
TARGET = np.array([0.4, 0.3, 0.0, 0.2, 0.1])
FUNCTIONS: dict[str, Callable[[float], ib.Utility]] = {
    "entropy": lambda smoothing: ib.state_entropy(RAGGED, smoothing=smoothing),
    "kl": lambda smoothing: ib.negative_kl(RAGGED, TARGET, smoothing=smoothing),
}
EACH = pytest.mark.parametrize("make", FUNCTIONS.values(), ids=FUNCTIONS)
SMOOTHINGS = pytest.mark.parametrize("smoothing", [0.01, 0.1, 0.7])


def occupancies(count: int) -> np.ndarray:
    """Spread ones, concentrated ones, and one without any time in the first state."""
    rng = np.random.default_rng(0)
    rows = np.vstack([rng.dirichlet(np.full(RAGGED.n_pairs, shape), count) for shape in (0.05, 1.0)])
    rows[0, RAGGED.pairs.states == 0] = 0.0
    return rows / rows.sum(axis=1, keepdims=True)


@EACH
@SMOOTHINGS
def test_gradients_equal_differences(make: Callable[[float], ib.Utility], smoothing: float) -> None:
    """Central differences of 1e-6: the third derivative is at most (S / smoothing)^2, so they are within 1e-7."""
    utility, step = make(smoothing), 1e-6
    for occupancy in occupancies(5):
        differences = [
            (utility.value(occupancy + step * e) - utility.value(occupancy - step * e)) / (2.0 * step)
            for e in np.eye(len(occupancy))
        ]
        np.testing.assert_allclose(checked_gradient(utility, occupancy), differences, rtol=0.0, atol=1e-6)


@EACH
@SMOOTHINGS
def test_concave(make: Callable[[float], ib.Utility], smoothing: float) -> None:
    utility, points = make(smoothing), occupancies(10)
    for one in points:
        for other in points:
            plane = utility.value(one) + utility.gradient(one) @ (other - one)
            assert utility.value(other) <= plane + 1e-12


@EACH
@SMOOTHINGS
def test_the_lipschitz_constant_is_that_of_the_worst_corner(
    make: Callable[[float], ib.Utility], smoothing: float
) -> None:
    """All time at one pair is a corner; the gradient is monotone in the time of each state, so corners are worst."""
    utility = make(smoothing)
    corners = max(np.abs(utility.gradient(corner)).max() for corner in np.eye(RAGGED.n_pairs))
    assert utility.lipschitz == pytest.approx(corners, rel=1e-12)
    for occupancy in occupancies(20):
        checked_gradient(utility, occupancy)


def entropy(x: np.ndarray) -> float:
    return -sum(share * math.log(share) for share in x if share > 0.0)


@pytest.mark.parametrize("smoothing", [1e-6, 0.01, 0.3])
def test_values_of_the_entropy(smoothing: float) -> None:
    utility, n_states = ib.state_entropy(RAGGED, smoothing=smoothing), RAGGED.n_states
    even = 1.0 / n_states / np.diff(RAGGED.offsets)[RAGGED.pairs.states]
    assert utility.value(even) == pytest.approx(math.log(n_states), abs=1e-12)
    for occupancy in [*occupancies(10), *np.eye(RAGGED.n_pairs)]:
        x = RAGGED.pairs.sum_by_state(occupancy)
        y = (1.0 - smoothing) * x + smoothing / n_states
        assert utility.value(occupancy) == pytest.approx(entropy(y), abs=1e-12)
        coin = entropy(np.array([smoothing, 1.0 - smoothing]))
        assert entropy(x) - 1e-12 <= entropy(y) <= entropy(x) + smoothing * math.log(n_states) + coin + 1e-12


@pytest.mark.parametrize("smoothing", [1e-6, 0.01, 0.3])
def test_values_of_the_divergence(smoothing: float) -> None:
    utility = ib.negative_kl(RAGGED, TARGET, smoothing=smoothing)
    there = TARGET[RAGGED.pairs.states] / np.diff(RAGGED.offsets)[RAGGED.pairs.states]
    assert utility.value(there) == pytest.approx(0.0, abs=1e-12)
    positive = np.full(RAGGED.n_states, 0.2)
    other = ib.negative_kl(RAGGED, positive, smoothing=smoothing)
    for occupancy in occupancies(10):
        assert utility.value(occupancy) < 0.0
        x = RAGGED.pairs.sum_by_state(occupancy)
        kl = sum(share * math.log(share / 0.2) for share in x if share > 0.0)
        assert 0.0 >= other.value(occupancy) >= -(1.0 - smoothing) * kl - 1e-12


def test_a_simulator_has_the_same_functions_as_its_model() -> None:
    occupancy = ib.evaluate(QUEUE, ib.Policy.uniform(QUEUE)).occupancy
    for model, simulator in (
        (ib.state_entropy(QUEUE), ib.state_entropy(QUEUE.simulator())),
        (ib.negative_kl(QUEUE, np.full(6, 1 / 6)), ib.negative_kl(QUEUE.simulator(), np.full(6, 1 / 6))),
    ):
        assert model.value(occupancy) == simulator.value(occupancy) and model.lipschitz == simulator.lipschitz
        np.testing.assert_array_equal(model.gradient(occupancy), simulator.gradient(occupancy))


def test_one_state() -> None:
    only = ib.CMDP(
        offsets=[0, 2], transition=np.ones((2, 1)), reward=[0.0, 1.0], constraints=(), initial=[1.0], discount=0.5
    )
    utility, occupancy = ib.state_entropy(only), np.array([0.3, 0.7])
    assert utility.value(occupancy) == pytest.approx(0.0, abs=1e-15)
    checked_gradient(utility, occupancy)


def test_at_least_moves_the_value_only() -> None:
    utility, occupancy = ib.state_entropy(RAGGED), occupancies(1)[1]
    bound = utility.at_least(1.25)
    assert bound.value(occupancy) == utility.value(occupancy) - 1.25
    assert bound.gradient is utility.gradient and bound.lipschitz == utility.lipschitz
    assert repr(bound) == "Utility('state entropy >= 1.25')"


def linear(**changes: Any) -> ib.Utility:
    parts: dict[str, Any] = {"value": lambda x: 1.0, "gradient": np.zeros_like, "lipschitz": 1.0, "name": "mine"}
    return ib.Utility(**(parts | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"value": 3.0}, "Utility: value must be a function of the occupancy, found 3.0"),
        ({"gradient": None}, "Utility: gradient must be a function of the occupancy, found None"),
        ({"name": ""}, "Utility: name must be a text, found ''"),
        ({"name": 3}, "Utility: name must be a text, found 3"),
        ({"lipschitz": 0.0}, r"Utility 'mine': lipschitz must be a number above 0, found 0.0"),
        ({"lipschitz": math.inf}, r"lipschitz must be a finite number above 0, found inf"),
        ({"lipschitz": math.nan}, r"lipschitz must be a number above 0, found nan"),
        ({"lipschitz": "1"}, r"lipschitz must be a number above 0, found '1'"),
        ({"lipschitz": True}, r"lipschitz must be a number above 0, found True"),
    ],
)
def test_a_bad_part_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ib.InvalidInput, match=message):
        linear(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gradient": lambda x: x[:-1]}, r"the gradient of utility 'mine' must have 13 entries, found shape \(12,\)"),
        ({"gradient": lambda x: "steep"}, "the gradient of utility 'mine' must be numbers"),
        ({"gradient": lambda x: x * math.nan}, "an entry of its gradient is nan; all must be finite"),
        (
            {"gradient": lambda x: x - x - 1.5},
            r"an entry of its gradient is 1.5 in absolute value, beyond lipschitz \(1\)",
        ),
    ],
)
def test_a_bad_gradient_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ib.InvalidInput, match=message):
        checked_gradient(linear(**changes), occupancies(1)[1])


def test_a_bad_value_is_named() -> None:
    with pytest.raises(ib.InvalidInput, match="Utility 'mine': its value at an occupancy is nan; it must be finite"):
        checked_value(linear(value=lambda x: math.nan), occupancies(1)[1])


@pytest.mark.parametrize("smoothing", [0.0, 1.0, -0.1, math.nan, "0.1", None, True])
def test_bad_smoothing(smoothing: Any) -> None:
    with pytest.raises(ib.InvalidInput, match=r"smoothing must be a number in \(0, 1\)"):
        ib.state_entropy(QUEUE, smoothing=smoothing)


@pytest.mark.parametrize("target", [[0.5, 0.5], np.full(6, 0.2), [1.5, -0.5, 0, 0, 0, 0], np.full(6, math.nan), "even"])
def test_bad_targets(target: Any) -> None:
    with pytest.raises(ib.InvalidInput, match="the target distribution of states must"):
        ib.negative_kl(QUEUE, target)


@pytest.mark.parametrize("value", [None, np.zeros(1), "a", 1j])
def test_a_value_that_is_no_number_is_refused_by_name(value) -> None:
    utility = ib.Utility(lambda occupancy: value, lambda occupancy: 0.0 * occupancy, 1.0, name="mine")
    with pytest.raises(ib.InvalidInput, match="Utility 'mine': its value at an occupancy must be a number, found"):
        ib.learn(ib.zoo.queue().unconstrained().simulator(), ib.ConcaveCSPDA.practical(utility=utility), samples=1_000)
