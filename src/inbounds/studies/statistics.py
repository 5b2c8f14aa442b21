"""What many runs on many problems come to: shares and middle means, each with an interval.

The interquartile mean and the stratified bootstrap are those of Agarwal et al., "Deep Reinforcement Learning at the
Edge of the Statistical Precipice", NeurIPS 2021. Problems are strata: they are given, and runs are resampled within
each. An interval therefore says what other seeds would change, and nothing about other problems.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from inbounds.arrays import Floats

CONFIDENCE = 0.95
"""Of every interval here."""

_RESAMPLES = 2_000
"""The ends of a 95 % interval are then quantiles with 50 resamples beyond each: good to a few per cent of its width."""


class Interval(NamedTuple):
    """An estimate with what it may as well be; nan where there are too few runs to say."""

    estimate: float
    lower: float
    upper: float


def share(successes: int, trials: int) -> Interval:
    """A share, and its Wilson (score) interval, which says something even when all or none of the trials succeeded.

    Examples
    --------
    >>> [round(end, 3) for end in share(60, 60)]
    [1.0, 0.94, 1.0]
    """
    if trials == 0:
        return Interval(math.nan, math.nan, math.nan)
    ends = scipy.stats.binomtest(successes, trials).proportion_ci(CONFIDENCE, method="wilson")
    return Interval(successes / trials, float(ends.low), float(ends.high))


def standard_error(values: Any) -> Any:
    """Of the mean over the first axis, of two runs at least.

    >>> standard_error(np.array([1.0, 3.0]))
    1.0
    """
    error = np.std(values, axis=0, ddof=1) / math.sqrt(len(values))
    return error if np.ndim(error) else float(error)


def errors_beside(runs: int, confidence: float = CONFIDENCE) -> float:
    """How many standard errors on either side of a mean over so many runs make its interval: by Student's t.

    It is exact where runs are normal; a constant number of them would cover less, of two runs 70 % for 95 %.

    >>> [round(errors_beside(runs), 2) for runs in (2, 5, 20, 200)]
    [12.71, 2.78, 2.09, 1.97]
    """
    return float(scipy.stats.t.ppf(0.5 + 0.5 * confidence, runs - 1))


def interquartile_mean(scores: Any, axis: int | None = None) -> Any:
    """The mean of the middle half: a quarter of the scores, rounded down, is left out at either end.

    Examples
    --------
    >>> float(interquartile_mean([100.0, 1.0, 2.0, -50.0]))
    1.5
    """
    return scipy.stats.trim_mean(scores, 0.25, axis=axis)


def interquartile(strata: Sequence[Floats]) -> Interval:
    """The interquartile mean of all scores, and its interval by the stratified bootstrap (percentiles).

    `strata` are the scores of each problem [runs]. The same scores give the same interval. There is none where a
    problem has a single run.

    Examples
    --------
    >>> interquartile([np.array([1.0, 1.0]), np.array([3.0, 3.0])])  # other seeds would change nothing
    Interval(estimate=2.0, lower=2.0, upper=2.0)
    """
    scored = [stratum for stratum in strata if len(stratum)]
    if not scored:
        return Interval(math.nan, math.nan, math.nan)
    estimate = float(interquartile_mean(np.concatenate(scored)))
    if min(map(len, scored)) < 2:
        return Interval(estimate, math.nan, math.nan)

    def of_resamples(*resampled: Floats, axis: int) -> Floats:
        return interquartile_mean(np.concatenate(resampled, axis=axis), axis=axis)

    ends = scipy.stats.bootstrap(
        scored,
        of_resamples,
        n_resamples=_RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(0),
    ).confidence_interval
    return Interval(estimate, float(ends.low), float(ends.high))
