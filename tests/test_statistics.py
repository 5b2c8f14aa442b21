"""Shares, interquartile means and their intervals, against cases worked out by hand."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from inbounds.studies.statistics import Interval, errors_beside, interquartile, interquartile_mean, share


def test_a_quarter_is_left_out_at_either_end_rounded_down() -> None:
    assert interquartile_mean([8.0, 1.0, 1e9, 3.0, 5.0, -1e9, 6.0, 2.0]) == (2.0 + 3.0 + 5.0 + 6.0) / 4.0
    assert interquartile_mean([1.0, 2.0, 4.0, 5.0, 7.0, 900.0]) == 4.5  # of six, one
    assert interquartile_mean([1.0, 2.0, 9.0]) == 4.0  # of three, none
    both = interquartile_mean(np.array([[1.0, 2.0, 4.0, 90.0], [4.0, -3.0, 1.0, 2.0]]), axis=1)
    assert both.tolist() == [3.0, 1.5]


@pytest.mark.parametrize(("successes", "trials"), [(0, 5), (5, 5), (58, 60), (1, 1), (30, 60)])
def test_the_score_interval_solves_its_equation(successes: int, trials: int) -> None:
    """Wilson: the shares p with |observed - p| <= z sqrt(p (1 - p) / n); the ends are the roots, or 0 and 1."""
    z, found = 1.959963984540054, share(successes, trials)
    assert found.estimate == successes / trials and 0.0 <= found.lower <= found.estimate <= found.upper <= 1.0
    for end in found[1:]:
        assert (found.estimate - end) ** 2 == pytest.approx(z**2 * end * (1.0 - end) / trials, abs=1e-12)
    assert found.lower < found.upper


def test_all_of_sixty_by_hand() -> None:
    """p = n / (n + z^2) is the lower end when all succeed."""
    assert share(60, 60).lower == pytest.approx(60.0 / (60.0 + 1.959963984540054**2), abs=1e-12)
    assert all(map(math.isnan, share(0, 0)))


def test_the_bootstrap_resamples_runs_within_each_problem() -> None:
    """Two problems of two runs: 16 resamples, equally likely, all listed.

    The least and the greatest of them have mass 1/16 or more each, which is above 2.5 %, so they are the ends: that
    2,000 resamples show fewer than 50 of 1/16 has a probability below 1e-10.
    """
    strata = [np.array([0.0, 1.0]), np.array([10.0, 14.0])]
    everything = [interquartile_mean([*first, *second]) for first, second in product(*map(_pairs, strata))]
    found = interquartile(strata)
    assert found == Interval((1.0 + 10.0) / 2.0, min(everything), max(everything)) == (5.5, 5.0, 7.5)


def _pairs(stratum: np.ndarray) -> list[tuple[float, float]]:
    return list(product(stratum.tolist(), repeat=2))


def test_what_differs_between_problems_alone_has_no_width() -> None:
    """Resampling all runs together would call this uncertain; other seeds would give the same."""
    assert interquartile([np.full(5, score) for score in (0.0, 1.0, 2.0, 3.0)]) == (1.5, 1.5, 1.5)


def test_the_width_is_that_of_the_asymptotic_variance() -> None:
    """One problem, many runs: 1.96 standard errors either side.

    The interquartile mean of n normal scores has variance 1.1952 / n: with q = 0.6745 the upper quartile, that is
    (0.5 - 2 q phi(q) + 2 (1 / 4) q^2) / (1 / 2)^2. The quantiles of 2,000 resamples and the scale of 400 runs are known
    to about 4 % each, so the mean width of four seeds to 3 %; four times that is allowed.
    """
    widths = []
    for seed in range(4):
        found = interquartile([np.random.default_rng(seed).normal(size=400)])
        widths.append(found.upper - found.lower)
    assert np.mean(widths) == pytest.approx(2 * 1.96 * math.sqrt(1.1952 / 400.0), rel=0.12)


def test_too_few_runs_have_no_interval_and_problems_may_differ_in_runs() -> None:
    alone = interquartile([np.array([1.0]), np.array([3.0, 5.0])])
    assert alone.estimate == 3.0 and math.isnan(alone.lower) and math.isnan(alone.upper)
    assert all(map(math.isnan, interquartile([])))
    assert interquartile([np.array([]), np.array([2.0, 2.0, 2.0]), np.array([4.0, 4.0])]) == (8.0 / 3.0,) * 3
    strata = [np.arange(4.0), np.arange(3.0) ** 2]
    assert interquartile(strata) == interquartile(strata), "the same scores, the same interval"


def test_the_interval_of_a_mean_allows_for_few_runs() -> None:
    """P(|t| < x) is 2 / pi atan(x) of two runs (Cauchy), x / sqrt(2 + x^2) of three, and that of normals of many."""
    for confidence in (0.5, 0.95, 0.9973):
        two, three = errors_beside(2, confidence), errors_beside(3, confidence)
        assert 2.0 / math.pi * math.atan(two) == pytest.approx(confidence, rel=1e-9)
        assert three / math.sqrt(2.0 + three**2) == pytest.approx(confidence, rel=1e-9)
    assert errors_beside(10**6) == pytest.approx(1.959963984540054, abs=1e-5)
