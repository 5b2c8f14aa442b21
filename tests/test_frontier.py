"""The price of safety: concave, its slope the price, flat where the bound does not matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import inbounds as ib
import strategies


def one_state(pays: float = 1.0) -> ib.CMDP:
    """Work pays 1 and uses 1, rest pays nothing and uses nothing: with use at most b the optimum is min(b, 1)."""
    return ib.CMDP(
        offsets=[0, 2],
        transition=[[1.0], [1.0]],
        reward=[pays, 0.0],
        constraints=[ib.Constraint([1.0, 0.0], at_most=0.25, name="use")],
        initial=[1.0],
        discount=0.9,
    )


def test_by_hand():
    curve = ib.frontier(one_state(), "use", points=21, tolerance=1e-9)
    assert curve.matters_from == pytest.approx(1.0, abs=1e-9)
    assert curve.possible_to == pytest.approx(0.0, abs=1e-9)
    assert not curve.at_least and curve.constraint == "use"
    assert np.all(np.diff(curve.bounds) < 0.0)
    assert curve.rewards == pytest.approx(np.minimum(curve.bounds, 1.0), abs=1e-8)
    inside = curve.bounds < 1.0 - 1e-9
    assert curve.prices[inside, 0] == pytest.approx(1.0, abs=1e-6)
    assert curve.prices[curve.bounds > 1.0 + 1e-9, 0] == pytest.approx(0.0, abs=1e-9)
    assert np.count_nonzero(~inside) >= 2


@given(strategies.feasible(max_constraints=2, least_slack=1))
def test_every_point_is_the_optimum_of_its_own_problem(drawn):
    cmdp = drawn.cmdp
    if cmdp.n_constraints == 0:
        with pytest.raises(ib.InvalidInput, match="no constraint whose bound"):
            ib.frontier(cmdp)
        return
    curve = ib.frontier(cmdp, 0, points=6, tolerance=1e-8)
    scale = float(np.abs(cmdp.reward).max()) + 1e-9
    outward = 1.0 if curve.at_least else -1.0
    assert np.all(np.diff(outward * curve.bounds) > 0.0)  # from the loosest to the tightest
    assert np.all(np.diff(curve.rewards) <= 1e-7 * scale)
    for bound, found in zip(curve.bounds, curve.solutions, strict=True):
        amounts = np.zeros(cmdp.n_constraints)
        amounts[0] = outward * (bound - cmdp.constraints[0].bound)
        alone = ib.solve(cmdp.tightened(amounts), tolerance=1e-8)
        assert found.reward <= alone.upper_bound + 1e-9 * scale
        assert alone.reward <= found.upper_bound + 1e-9 * scale
        assert found.in_bounds


def test_the_price_is_the_slope():
    queue = ib.zoo.queue()
    curve = ib.frontier(queue, "flow", points=12, tolerance=1e-9)
    steps = np.diff(curve.bounds)
    slopes = -np.diff(curve.rewards) / steps
    # Concave: between two points the slope lies between the prices at its ends.
    assert np.all(slopes >= curve.prices[:-1, 1] - 1e-6)
    assert np.all(slopes <= curve.prices[1:, 1] + 1e-6)


def test_beyond_the_end_nothing_is_in_bounds_and_before_the_start_the_bound_is_free():
    queue = ib.zoo.queue()
    curve = ib.frontier(queue, "service", points=4)
    beyond = queue.tightened([curve.possible_to + 1e-5, 0.0])
    with pytest.raises(ib.Infeasible):
        ib.solve(beyond)
    assert ib.solve(queue.tightened([curve.possible_to - 1e-5, 0.0])).in_bounds
    free = ib.solve(queue.tightened([curve.matters_from - 1.0, 0.0]))
    assert curve.rewards[0] == pytest.approx(free.reward, rel=2e-6)
    assert free.prices[0] == pytest.approx(0.0, abs=1e-9)


def test_a_bound_that_never_matters_gives_a_flat_line():
    always = ib.zoo.queue()
    constant = ib.Constraint(np.full(96, 0.5), at_least=0.0, name="constant")
    cmdp = ib.CMDP(
        offsets=always.offsets, transition=always.transition, reward=always.reward, constraints=(constant,),
        initial=always.initial, discount=always.discount,
    )  # fmt: skip
    curve = ib.frontier(cmdp, "constant", points=5)
    assert np.ptp(curve.rewards) <= 1e-5
    assert curve.possible_to == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"constraint": "speed"}, "no constraint is called 'speed'; there are: service, flow"),
        ({"constraint": 2}, "a name or a position from 0 to 1, found 2"),
        ({"constraint": True}, "a name or a position"),
        ({"points": 1}, "points must be a whole number of at least 2"),
    ],
)
def test_wrong_input(arguments, message):
    with pytest.raises(ib.InvalidInput, match=message):
        ib.frontier(ib.zoo.queue(), **arguments)


def test_the_other_constraints_must_be_possible():
    with pytest.raises(ib.Infeasible, match="'flow' cannot be met by any policy"):
        ib.frontier(ib.zoo.queue(full_buffer="closed"), "service")


def test_finite_horizons_are_refused():
    with pytest.raises(ib.InvalidInput, match="discounted problem"):
        ib.frontier(ib.zoo.media())
