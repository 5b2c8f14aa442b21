"""Lower bounds by betting: the capital by full enumeration, and the bound that it gives."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from inbounds.proofs import betting


def two_point_stakes(least: float, prior: float, planned: float) -> betting.Stakes:
    """Reward and one margin, alpha 0.05, walks that are at least `least`; with `prior` NaN no more is known of them."""
    return betting.make_stakes(np.full(2, least), np.zeros(2), np.full(2, prior), 0.05, planned)


def expected_capital(
    low: float, high: float, mean: float, claim: float, length: int, bet: Callable[..., Any]
) -> np.ndarray:
    """E[K_n(claim)] of both rows over all 2^n sequences of two values with the given mean, by the real bets."""
    chance = (mean - low) / (high - low)
    stakes = two_point_stakes(least=-1.5, prior=math.nan, planned=30.0)
    total = np.zeros(2)
    for sequence in itertools.product((0, 1), repeat=length):
        fortune = betting.new_fortune(stakes, np.full(2, -1.0))
        probability = 1.0
        for is_high in sequence:
            probability *= chance if is_high else 1.0 - chance
            bet(stakes, fortune, np.full(2, high if is_high else low))
        total += [probability * math.exp(betting.log_capital(stakes, fortune, k, claim)) for k in range(2)]
    return total


@pytest.mark.parametrize(("low", "high", "claim"), [(-1.5, 0.7, 0.0), (-0.4, 0.3, 0.05), (-1.0, 2.0, -0.3)])
def test_the_capital_is_a_martingale_at_the_boundary_and_a_supermartingale_inside(
    low: float, high: float, claim: float
) -> None:
    np.testing.assert_allclose(expected_capital(low, high, claim, claim, 11, betting.bet_on), 1.0, rtol=0, atol=1e-12)
    inside = expected_capital(low, high, claim - 0.1, claim, 8, betting.bet_on)
    assert np.all(inside < 1.0)


def test_a_gambler_who_peeks_at_the_sample_is_caught() -> None:
    """The test above can fail: let the sample enter the moments before the stake is chosen."""

    def peeking(stakes: betting.Stakes, fortune: betting.Fortune, totals: np.ndarray) -> None:
        for k in range(2):
            before = fortune.moments[k].copy()
            change = totals[k] - before[0]
            fortune.moments[k, 0] += change / (fortune.counts[0] + 1)
            fortune.moments[k, 1] += change * (totals[k] - fortune.moments[k, 0])
            fortune.counts[0] += 1
            level = betting.choose_level(stakes, fortune, k)
            fortune.counts[0] -= 1
            fortune.gains[k] += math.log1p(stakes.levels[k, level] * (totals[k] - stakes.least[k]))
            fortune.placed[k, level] += 1
        fortune.counts[0] += 1

    assert np.max(np.abs(expected_capital(-1.5, 0.7, 0.0, 0.0, 8, peeking) - 1.0)) > 1e-3


def test_the_bound_is_where_the_capital_reaches_the_goal_and_falls_in_the_claim() -> None:
    stakes = two_point_stakes(least=-1.5, prior=0.05, planned=400.0)
    fortune = betting.new_fortune(stakes, np.full(2, -1.0))
    rng = np.random.default_rng(3)
    for _ in range(400):
        betting.bet_on(stakes, fortune, rng.normal(0.3, 0.2, size=2).clip(-1.5))
    betting.look(stakes, fortune)
    for k in range(2):
        claims = np.linspace(-1.5, 1.0, 60)
        capital = [betting.log_capital(stakes, fortune, k, claim) for claim in claims]
        assert np.all(np.diff(capital) < 0)
        assert abs(betting.log_capital(stakes, fortune, k, 0.0) - fortune.at_zero[k]) < 1e-9
        # The best of all looks: the capital of now may have been better before, never worse at a higher claim.
        assert betting.log_capital(stakes, fortune, k, fortune.bound[k] + 1e-6) < stakes.goal[k]
        assert 0.2 < fortune.bound[k] < 0.35


def test_one_constraint_gets_nine_tenths_of_alpha_and_all_shares_sum_to_it() -> None:
    stakes = two_point_stakes(least=-1.5, prior=0.3, planned=30.0)
    np.testing.assert_allclose(np.exp(-stakes.goal), [0.005, 0.045])
