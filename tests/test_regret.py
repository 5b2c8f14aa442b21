"""What the episodes of a learner cost, by a judge: sums against plain loops, exact values against a twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inbounds as ib
from inbounds.studies.regret import MEASURES, OUT_OF_BOUNDS, summed
from inbounds.studies.safe import safe_policy


def summed_slowly(rewards, margins, optimum, scales, episodes):
    """From the definitions, one episode at a time."""
    found = {name: [] for name in MEASURES}
    for count in episodes:
        regret = plain_regret = violation = outside = 0.0
        missed = [0.0] * len(scales)
        for reward, own in list(zip(rewards, margins, strict=True))[:count]:
            regret += max(0.0, optimum - reward)
            plain_regret += optimum - reward
            violation += max([0.0, *(-margin for margin in own)])
            missed = [sum_so_far - margin for sum_so_far, margin in zip(missed, own, strict=True)]
            outside += any(margin < -OUT_OF_BOUNDS * scale for margin, scale in zip(own, scales, strict=True))
        plain_violation = max([0.0, *missed])
        for name, value in zip(MEASURES, (regret, plain_regret, violation, plain_violation, outside), strict=True):
            found[name].append(value)
    return found


@given(st.integers(0, 2**32 - 1), st.integers(0, 3), st.integers(1, 12))
def test_sums_are_those_of_the_definitions(seed: int, n_constraints: int, n_episodes: int) -> None:
    rng = np.random.default_rng(seed)
    rewards, margins = rng.normal(size=n_episodes), rng.normal(size=(n_episodes, n_constraints))
    margins[rng.random(margins.shape) < 0.3] = 0.0
    scales, counts = rng.uniform(0.5, 2.0, n_constraints), sorted(rng.integers(0, n_episodes + 1, 4).tolist())
    found = summed(rewards, margins, 0.3, scales, counts)
    slow = summed_slowly(rewards, margins, 0.3, scales, counts)
    assert found.keys() == slow.keys()
    for name in MEASURES:
        assert found[name] == pytest.approx(slow[name], abs=1e-12)
    # Strong sums never cancel, so they bound the plain ones and never fall.
    assert all(strong >= plain - 1e-12 for strong, plain in zip(found["regret"], found["plain_regret"], strict=True))
    assert all(a >= b - 1e-12 for a, b in zip(found["violation"], found["plain_violation"], strict=True))
    assert found["regret"] == sorted(found["regret"]) and found["violation"] == sorted(found["violation"])


def test_a_margin_that_is_zero_up_to_planning_is_in_bounds() -> None:
    margins = np.array([[-1e-9], [-1e-5]])
    assert summed(np.zeros(2), margins, 0.0, np.array([1.0]), [1, 2])["out_of_bounds"] == [0.0, 1.0]
    assert summed(np.zeros(2), margins, 0.0, np.array([100.0]), [1, 2])["out_of_bounds"] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("name", "gap"), [("media", 1.360), ("inventory", 2.962), ("three_cycle", 1.0), ("factored", 0.05)]
)
def test_the_safe_policy_keeps_half_of_what_there_is_to_spare(name: str, gap: float) -> None:
    """Gaps as an independent implementation found them."""
    problem = ib.zoo.make(name)
    judged = ib.evaluate(problem, safe_policy(problem))
    assert ib.solve(problem).reward - judged.reward == pytest.approx(gap, abs=5e-4)
    spare = ib.slater(problem, scaled=True).value
    assert np.all(judged.margins >= 0.5 * spare * problem.margin_scales - 1e-9)


def test_where_nothing_can_be_spared_no_policy_is_safe() -> None:
    with pytest.raises(ib.InvalidInput, match=r"nothing|anything to spare in every bound at once \(Slater constant"):
        safe_policy(ib.zoo.media(fast_actions=0.0))
    free = ib.zoo.media().unconstrained()
    assert ib.evaluate(free, safe_policy(free)).reward == pytest.approx(-5.393138, abs=1e-6)
