"""Lower bounds by betting: a gambler who can only grow rich if the value is above what is claimed.

The gambler bets on walks (`inbounds.proofs.walks`): on each of the rows 0 (the reward) and 1..K (the margins), in
scaled units, these are independent samples X_1, X_2, ... of which nothing is known but

    X_i >= least    and    E[X_i] <= J,        where a lower bound on J is wanted.

**The bet.** Before each walk a stake b >= 0 is chosen from the walks before it. For a claim "J <= c" the capital is

    K_n(c) = prod_i (1 + b_i (X_i - least)) / (1 + b_i (c - least)).

If J <= c, each factor is >= 0 with mean <= 1 given the past, so K_n(c) is a supermartingale that starts at 1 and, by
Ville's inequality, ever reaches 1 / alpha with probability at most alpha: at any stopping time, under any peeking. At
any other time too: a walk that the budget cuts short is dropped, so the walks end at a time that looks ahead (the last
one was short enough), at which the mean of the capital may exceed 1; but it has not been where it never was.
(It is the capital prod (1 + l_i (X_i - c)) of Waudby-Smith and Ramdas, with l_i = b_i / (1 + b_i (c - least)).)
The stakes do not depend on c, so K_n(c) falls as c grows, and the claims rejected so far are exactly those with c below

    bound = the largest c for which K_n(c) >= 1 / alpha at some n looked at.

J < bound would mean that the capital of the true claim c = J had reached 1 / alpha: probability at most alpha. Stakes
are taken from a fixed list of levels, so that sum_i log(1 + b_i (c - least)) needs one count per level, and the bound
is found for all c at once from a few numbers. The test of c = 0 is looked at after every walk, other c at geometrically
spaced walks and at the end.

**Many claims.** Each of K constraints gets 0.9 alpha / K, the reward's own lower bound 0.1 alpha (all of it when K =
0): with probability 1 - alpha all bounds hold at once.

Reference: I. Waudby-Smith and A. Ramdas, Estimating means of bounded random variables by betting, JRSS B 86 (2024).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled

_REWARD_SHARE = 0.1  # of alpha, for the lower bound of the reward; the constraints share the rest evenly
_GOAL_SLACK = 1e-6  # against rounding, of the logarithm of the capital
_LARGEST_STAKE = 0.9  # of the capital that may be at risk in one walk, at the claim that is tested
_LEVELS = 128
_LEVEL_RATIO = 1.1  # of successive stakes; being off by this much costs half a per cent
_TRUST = 100.0  # how many walks the mean and variance that were expected count for when stakes are chosen


class Stakes(NamedTuple):
    """How bets are placed; the bound of row k is for the probability exp(-goal[k]) of being wrong."""

    levels: Floats  # [K + 1, L], falling
    goal: Floats  # [K + 1], log(1 / alpha_k)
    least: Floats  # [K + 1]
    reference: Floats  # [K + 1], the claim at which stakes are measured: 0 for margins
    prior: Floats  # [K + 1, 3], mean and variance expected of a walk, and how many walks that is trusted like
    planned: float  # walks that the budget allows for


def make_stakes(least: Floats, mean: Floats, variance: Floats, alpha: float, planned: float) -> Stakes:
    """For a probability of `alpha` that any bound is wrong, and a budget of about `planned` walks.

    No walk is below `least`, which the bounds rely on. The `mean` and `variance` expected of a walk only decide how
    well the bets do; NaN where nothing is known. All are [K + 1].
    """
    rows = len(least)
    shares = np.full(rows, (1.0 - _REWARD_SHARE) * alpha / max(rows - 1, 1))
    shares[0] = _REWARD_SHARE * alpha if rows > 1 else alpha
    reference = np.zeros(rows)
    reference[0] = min(max(float(np.nan_to_num(mean[0], nan=0.5)), 0.0), 1.0)
    ranges = reference - least
    at_risk = _LARGEST_STAKE * _LEVEL_RATIO ** -np.arange(_LEVELS)
    known = np.isfinite(variance)
    # A walk without any noise still needs a finite stake.
    expected = np.maximum(np.where(known, variance, ranges**2 / 4.0), 1e-12)
    return Stakes(
        levels=(at_risk / (1.0 - at_risk)) / ranges[:, None],
        goal=-np.log(shares),
        least=least,
        reference=reference,
        prior=np.column_stack([np.where(known, mean, 0.0), expected, np.where(known, _TRUST, 1.0)]),
        planned=max(float(planned), 1.0),
    )


def settleable(stakes: Stakes, variance: Floats, walks: float) -> Floats:
    """The value of each row, above its reference, that about half of all proofs with so many walks can settle."""
    ranges = stakes.reference - stakes.least
    stake = np.minimum(np.sqrt(2.0 * stakes.goal / (walks * np.maximum(variance, 1e-12))), _LARGEST_STAKE / ranges)
    return stakes.goal / (walks * stake) + stake * variance / 2.0


class Fortune(NamedTuple):
    """Everything that the bets so far have come to; changed in place."""

    gains: Floats  # [K + 1], sum_i log(1 + b_i (X_i - least))
    placed: Ints  # [K + 1, L], how often each level was bet
    at_zero: Floats  # [K + 1], log K_n(0)
    bound: Floats  # [K + 1], the largest claim rejected so far
    moments: Floats  # [K + 1, 2], mean and sum of squared deviations of the walks
    settled: Ints  # [K + 1], 1 once the claim "J <= c" is rejected for every c < 0, and for 0
    counts: Ints  # [2], walks; walks at the next look


def new_fortune(stakes: Stakes, low: Floats) -> Fortune:
    """Before the first bet, when no more is known of J than that it is at least `low` [K + 1]."""
    rows, levels = stakes.levels.shape
    return Fortune(
        gains=np.zeros(rows),
        placed=np.zeros((rows, levels), dtype=np.int64),
        at_zero=np.zeros(rows),
        bound=low.copy(),
        moments=np.zeros((rows, 2)),
        settled=(low >= 0.0).astype(np.int64),
        counts=np.zeros(2, dtype=np.int64),
    )


@compiled
def choose_level(stakes: Stakes, fortune: Fortune, k: int) -> int:
    """The level of the next bet of row `k`, from the walks so far.

    With variance s2 the logarithm of the capital grows by about l (J - c) - l^2 s2 / 2 per walk. Of the margins only
    c = 0 matters. The stake that gets there fastest is l = J / s2, with J taken a standard error below its estimate;
    l = sqrt(2 goal / (planned s2)) gets there within the budget for the smallest J. The larger of the two is taken.
    The reward has no such claim and may be stopped at any time: l = sqrt(2 goal / (s2 n log(n + 1))).
    """
    walks = fortune.counts[0]
    trust = stakes.prior[k, 2]
    seen = trust + walks
    variance = (trust * stakes.prior[k, 1] + fortune.moments[k, 1]) / seen
    if k == 0:
        stake = math.sqrt(2.0 * stakes.goal[k] / (variance * (walks + 1.0) * math.log(walks + 2.0)))
    else:
        stake = math.sqrt(2.0 * stakes.goal[k] / (variance * stakes.planned))
        mean = (trust * stakes.prior[k, 0] + walks * fortune.moments[k, 0]) / seen
        if seen >= 10.0:
            stake = max(stake, (mean - math.sqrt(variance / seen)) / variance)
    at_risk = stake * (stakes.reference[k] - stakes.least[k])
    if at_risk >= _LARGEST_STAKE:
        return 0
    below = math.log(_LARGEST_STAKE / at_risk) / math.log(_LEVEL_RATIO)
    return min(1 + int(below), stakes.levels.shape[1] - 1)


@compiled
def place_bet(stakes: Stakes, fortune: Fortune, k: int, x: float) -> None:
    """Bet on row `k`, whose walk came to `x`. The level is chosen before `x` is looked at."""
    level = choose_level(stakes, fortune, k)
    stake = stakes.levels[k, level]
    gain = math.log1p(stake * (x - stakes.least[k]))
    fortune.gains[k] += gain
    fortune.placed[k, level] += 1
    fortune.at_zero[k] += gain - math.log1p(stake * (0.0 - stakes.least[k]))
    if fortune.at_zero[k] >= stakes.goal[k] + _GOAL_SLACK and fortune.settled[k] == 0:
        fortune.settled[k] = 1
        fortune.bound[k] = max(fortune.bound[k], 0.0)
    change = x - fortune.moments[k, 0]
    fortune.moments[k, 0] += change / (fortune.counts[0] + 1.0)
    fortune.moments[k, 1] += change * (x - fortune.moments[k, 0])


@compiled
def log_capital(stakes: Stakes, fortune: Fortune, k: int, claim: float) -> float:
    """log K_n(claim) of row `k`, for claim >= least."""
    total = fortune.gains[k]
    for level in range(stakes.levels.shape[1]):
        if fortune.placed[k, level] > 0:
            total -= fortune.placed[k, level] * math.log1p(stakes.levels[k, level] * (claim - stakes.least[k]))
    return total


@compiled
def look(stakes: Stakes, fortune: Fortune) -> None:
    """Raise the bound of every row to the largest claim that the capital of now rejects. By bisection from below."""
    for k in range(stakes.goal.shape[0]):
        rejected, open_claim = fortune.bound[k], 1.0
        if log_capital(stakes, fortune, k, rejected) < stakes.goal[k] + _GOAL_SLACK:
            continue
        for _ in range(50):
            middle = 0.5 * (rejected + open_claim)
            if log_capital(stakes, fortune, k, middle) >= stakes.goal[k] + _GOAL_SLACK:
                rejected = middle
            else:
                open_claim = middle
        fortune.bound[k] = rejected


@compiled
def bet_on(stakes: Stakes, fortune: Fortune, totals: Floats) -> bool:
    """Bet on one walk in every row; whether every margin is settled."""
    rows = totals.shape[0]
    all_settled = rows > 1
    for k in range(rows):
        place_bet(stakes, fortune, k, totals[k])
        if k > 0 and fortune.settled[k] == 0:
            all_settled = False
    fortune.counts[0] += 1
    if fortune.counts[0] >= fortune.counts[1] or all_settled:
        look(stakes, fortune)
        fortune.counts[1] = fortune.counts[0] + fortune.counts[0] // 8 + 1
    return all_settled
