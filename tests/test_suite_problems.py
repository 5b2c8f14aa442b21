"""The problems of the suite are what their texts say: exact facts only. No learner runs here on the untouched half."""

from __future__ import annotations

import numpy as np
import pytest

import inbounds as ib
from inbounds.zoo.making import bounded, of_action

TUNING = {
    "tiny": 0.6342,
    "coin": 0.5865,
    "small": 0.6946,
    "garnet60": 0.8100,
    "sparse100": 0.2929,
    "five": 0.8225,
    "wide": 0.5891,
    "chain20": 0.2976,
    "grid5": 0.0553,
    "queue20": 0.5727,
    "queues6": 0.8357,
    "stock20": 0.9175,
}
UNTOUCHED = {
    "wear18": 0.7176,
    "gate12": 0.3331,
    "ring25": 0.5722,
    "blocks8": 0.3509,
    "tandem6": 0.8102,
    "epidemic24": 0.5672,
    "dam12": 0.2819,
    "courier4": 0.0299,
    "field8": 0.5055,
    "trainee6": 0.1613,
    "windy9": 0.7864,
    "garnet120": 0.6636,
}
PROBLEMS = ib.zoo.suite("all")


def test_the_halves_have_twelve_problems_each_and_share_none() -> None:
    assert list(ib.zoo.suite()) == list(TUNING) and list(ib.zoo.suite("untouched")) == list(UNTOUCHED)
    assert list(PROBLEMS) == [*TUNING, *UNTOUCHED]
    with pytest.raises(ib.InvalidInput, match="no half of the suite is called 'third'; there are: tuning, untouched"):
        ib.zoo.suite("third")


@pytest.mark.parametrize(("name", "optimum"), [*TUNING.items(), *UNTOUCHED.items()])
def test_the_optimum_the_prices_and_the_slater_constant(name: str, optimum: float) -> None:
    problem = PROBLEMS[name]
    assert problem.name == name and problem.discount < 1.0
    for values in (problem.reward, *(constraint.signal for constraint in problem.constraints)):
        assert np.all((values >= 0.0) & (values <= 1.0))
    assert all(constraint.at_least is not None for constraint in problem.constraints)
    best = ib.solve(problem)
    assert round(best.reward, 4) == optimum
    assert best.prices.max() > 0.04, "a constraint binds"
    assert 0.05 - 1e-9 <= ib.slater(problem).value <= 0.6 + 1e-9


def by_hand(switch: float) -> ib.CMDP:
    """One state: the first action pays 1, the second gives the signal `switch`, and discounts do not matter."""
    return bounded("hand", np.ones((1, 2, 1)), np.array([[1.0, 0.0]]), {"s": of_action(1, [0.0, switch])}, 0, 0.5)


def test_bounds_lie_between_indifference_and_caution_by_hand() -> None:
    """b = 0 and c = switch: the bound is 0.4 c; or 0.05 below both where they are less than 0.01 apart."""
    assert [c.bound for c in by_hand(0.5).constraints] == [0.2]
    assert [c.bound for c in by_hand(0.009).constraints] == [-0.05]
    assert ib.solve(by_hand(0.5)).reward == pytest.approx(0.6)


def test_of_actions_that_are_as_good_the_first_decides_the_bound() -> None:
    """Both pay 1, so the unconstrained best is the first action, whose signal is 0.2: the bound is 0.2 + 0.4 * 0.3."""
    signal = of_action(1, [0.2, 0.5])
    problem = bounded("tie", np.ones((1, 2, 1)), np.ones((1, 2)), {"s": signal}, 0, 0.9)
    assert problem.constraints[0].bound == pytest.approx(0.32)
    turned = bounded("tie", np.ones((1, 2, 1)), np.ones((1, 2)), {"s": signal[:, ::-1]}, 0, 0.9)
    assert turned.constraints[0].bound == pytest.approx(0.45)  # b = c = 0.5


def test_a_problem_is_the_same_every_time() -> None:
    for name, again in ib.zoo.suite("all").items():
        problem = PROBLEMS[name]
        assert np.array_equal(again.transition.toarray(), problem.transition.toarray())
        assert np.array_equal(again.reward, problem.reward) and np.array_equal(again.margins, problem.margins)
