"""Proof by betting: a gambler who can only grow rich if the value is above what is claimed.

The gambler bets on walks (`inbounds.proofs.walks`): on each of the rows 0 (the reward) and 1..K (the margins), in
scaled units, these are samples X_1, X_2, ... of which nothing is known but that, given all that happened before,

    X_i >= least    and    E[X_i] <= J,        where J > 0, or a lower bound on J, is to be proved.

**Theorem.** Let J <= c. Whatever the stakes b_i >= 0, if each was chosen before X_i was seen and b_i (c - least) <= 1,

    W_0 = 1,    W_i = W_{i-1} (1 + b_i (X_i - c))

ever reaches 1 / level with probability at most `level`. *Proof.* The factor is >= 0, and given the past its mean is at
most 1 + b_i (J - c) <= 1. So W is a nonnegative supermartingale that begins at 1, and Ville's inequality is the claim.
It holds at any stopping time, under any peeking, and also at times that look ahead: a walk that the budget cuts short
is dropped, and the capital has not been where it never was.

What is fixed before the first walk: the policy, the guess of its values, the floor, `least`, the level. What may change
from walk to walk: stakes, running variances, when to stop, give up or go on past the aim. What may use everything,
always: the next candidate and all that leads to it.

**In bounds, every margin at the full level.** The claim is one: *all* margins are >= 0, made when the capital of every
row 1..K against "J_k <= 0" has reached 1 / level. If it is false, some J_k <= 0, and for that one row alone to be
settled has probability at most `level`. So no constraint has to share the level with the others (intersection-union).

**Deadline bets.** There is a budget, so the aim is to reach 1 / level before the last walk, not soonest. For Gaussian
increments of variance s2 with tau walks left, the stake that does so with the largest probability, whatever the drift,
is phi(z) / (p sqrt(tau s2)), where p = W level and z = Phi^-1(p) (Kulldorff 1993; Browne 1999). Here p is divided by
1.03, which pays for the overshoot of the last step; s2 is the variance expected, counted as 100 walks, with that of the
walks seen; tau is (deadline - samples drawn) (1 - discount). The deadline is the aim of the proof, and its budget from
there on. At most 0.9 / -least is staked, and nothing once a row is settled. In the place of phi(z) / p stands a formula
that is within 7 % of it from p = .9 down to 1e-20, which costs less than half a per cent of the growth:

    q sqrt(1.386 / (q + 1.4)),    q = -log2 p, with straight lines between powers of two.

It needs nothing but sums, products, quotients and roots, which all machines round alike, so anyone can go through the
bets again from a list of the walks, to the last bit. A proof in a `hurry` (of a policy that may be far inside, with
more budget than it needs) stakes f / (f + .8) times what grows fastest, m / s2, where that is more; f is the formula
above, m the mean seen less a standard error.

**Bounds, at once.** Apart from that claim, lower bounds of the reward and the margins are stated that hold all at once
with probability 1 - alpha: a tenth of alpha is for the reward (all of it when K = 0), the constraints share the rest
evenly. They have stakes of their own, l = sqrt(2 log(1/share) / (s2 n)), at most 0.9 of what the theorem allows at
`reference`, with n the walks planned, for the reward (which may be stopped at any time) those seen times their
logarithm. The stakes do not depend on the claim c, so W falls in c, and the bound is the largest c that W rejected.

**Many walks.** Beyond 2^18 walks, the mean of several is one bet; it is >= least and has the mean of one. Every bet is
rounded down to a multiple of 2^-30, which lowers its mean, and its least value by no more than that.

References: I. Waudby-Smith and A. Ramdas, Estimating means of bounded random variables by betting, JRSS B 86 (2024);
M. Kulldorff, Optimal control of favorable games with a time limit, SIAM J. Control Optim. 31 (1993); S. Browne,
Reaching goals by a deadline, Adv. Appl. Probab. 31 (1999).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from inbounds.arrays import Floats, Ints
from inbounds.errors import within_memory
from inbounds.numerics.compiled import compiled

_REWARD_SHARE = 0.1  # of alpha, for the lower bound of the reward; the constraints share the rest evenly
CAPITAL_ROUNDING = (
    1e-6  # of the capital: 2^18 products, each rounded by 2^-53 of itself a few times, come to a thousandth of it
)
LARGEST_STAKE = 0.9  # of the capital that may be at risk in one walk, at the claim that is tested
OVERSHOOT = 1.03  # of the goal, which the last bet will pass by about so much
_TRUST = 100.0  # how many walks the mean and variance that were expected count for when stakes are chosen
GRID = 2.0**-30  # bets are multiples of this
MOST_BETS = 2**18
RUINED = 2.0**-500  # of the capital, below which nothing is bet: so no number gets too small for a double
LOOKS = 10  # on the way to a deadline, at which a proof without prospects is given up
GIVE_UP = 0.25  # probability that all the samples left would settle it
GO_ON = 0.7  # the same, above which the samples left are spent when the deadline has come


class Stakes(NamedTuple):
    """How bets are placed: all that is fixed before the first walk."""

    least: Floats  # [K + 1], no bet is below
    level: float  # the probability of claiming that all margins are >= 0 where they are not
    shares: Floats  # [K + 1], that of each bound being wrong
    goals: Floats  # [K + 1], log(1 / share), for their stakes
    reference: Floats  # [K + 1], the value expected, for which bounds may be stated: in [0, 1]
    prior: Floats  # [K + 1, 3], mean and variance expected of a bet, and how many bets that is trusted like
    planned: float  # bets that the budget allows for
    aim: int  # samples by which it should be settled
    budget: int  # samples that it may draw, where there is hope beyond the aim
    discount: float
    together: int  # walks whose mean is one bet
    hurry: int  # 1: to settle soon counts, and nothing is given up; 0: to settle in time


def make_stakes(
    least: Floats,
    mean: Floats,
    variance: Floats,
    alpha: float,
    samples: int,
    discount: float,
    level: float | None = None,
    aim: int | None = None,
    hurry: bool = False,
) -> Stakes:
    """For a budget of `samples`, also the aim without one; bounds hold but for `alpha`, in bounds but for `level`.

    No walk is below `least`, which the proofs rely on. The `mean` and `variance` expected of a walk only decide how
    well the bets do; NaN where nothing is known. All are [K + 1].
    """
    rows, walks = len(least), max(samples * (1.0 - discount), 1.0)
    together = math.ceil(walks / MOST_BETS)
    shares = shares_of(alpha, rows)
    unknown = np.where(np.arange(rows) == 0, 0.5, 0.0)
    reference = np.clip(np.where(np.isfinite(mean), mean, unknown), 0.0, 1.0)
    known = np.isfinite(variance)
    # A walk without any noise still needs a finite stake.
    expected = np.maximum(np.where(known, variance, (unknown - least) ** 2 / 4.0), 1e-12)
    trust = np.where(known, _TRUST / together, 1.0)
    return Stakes(
        least=least - GRID,
        level=alpha if level is None else level,
        shares=shares,
        goals=np.maximum(-np.log(shares), 1e-6),
        reference=reference,
        prior=np.column_stack([np.where(known, mean, 0.0), expected / together, trust]),
        planned=walks / together,
        aim=samples if aim is None else aim,
        budget=samples,
        discount=discount,
        together=together,
        hurry=int(hurry),
    )


def shares_of(alpha: float, rows: int) -> Floats:
    """The probability [rows] that the bound of each row may have of being wrong, `alpha` in all."""
    shares = np.full(rows, (1.0 - _REWARD_SHARE) * alpha / max(rows - 1, 1))
    shares[0] = _REWARD_SHARE * alpha if rows > 1 else alpha
    return shares


def left_for_bounds(alpha: float, staked: float, bankroll: float, failed: int) -> float:
    """Of `alpha`, what the bounds of an attempt may be wrong with, after so many that `failed`: in all it is no more.

    >>> left_for_bounds(0.01, 1.0, 1.0, 0), round(sum(left_for_bounds(0.01, 0.85, 1.0, j) for j in range(9)), 6)
    (0.01, 0.01)
    """
    left = staked * bankroll * alpha
    for _ in range(failed):
        left *= 1.0 - staked
    return left


def settleable(level: float, ranges: Floats, variance: Floats, walks: float) -> Floats:
    """The margin of each row that about half of all proofs with so many walks settle, for a least value -`ranges`."""
    goal = -math.log(level)
    by_noise = -ndtri(level) * np.sqrt(variance / walks) + goal * ranges / (3.0 * walks)
    return np.maximum(by_noise, goal * ranges / (LARGEST_STAKE * walks))


class Fortune(NamedTuple):
    """Everything that the bets so far have come to; changed in place."""

    capital: Floats  # [K + 1], W against "J <= 0"; of row 0, which nothing is claimed of, 1
    settled: Ints  # [K + 1], 1 once it has reached 1 / level, or where there is nothing to prove
    moments: Floats  # [K + 1, 2], mean and sum of squared deviations of the bets
    group: Floats  # [K + 1], the sum of the walks for the next bet
    counts: Ints  # [6]: bets, walks for the next bet, samples by the last bet, looks, 1 if given up, 1 beyond the aim


class Book(NamedTuple):
    """The bets one by one: all that it takes to go through them again."""

    bets: Floats  # [room, K + 1]
    drawn: Ints  # [room], samples by the end of each

    def kept(self) -> Book:
        """The lists only grow, and are shared."""
        return self


class Played(NamedTuple):
    """Bets that are over, with all that anyone needs to go through them again."""

    stakes: Stakes
    book: Book
    low: Floats  # [K + 1], what values are at least by the ranges alone
    capital: Floats  # [K + 1], what they came to

    @property
    def settled(self) -> bool:
        """Whether all margins are."""
        return bool(np.all((self.low >= 0.0) | (self.capital * self.stakes.level >= 1.0 + CAPITAL_ROUNDING)))

    @property
    def left(self) -> float:
        """Of the bankroll that was staked: the least capital, at most 1."""
        return min(1.0, float(self.capital.min()))


def new_fortune(low: Floats) -> Fortune:
    """Before the first bet, when no more is known of J than that it is at least `low` [K + 1]."""
    rows = len(low)
    settled = (low >= 0.0).astype(np.int64)
    settled[0] = 1
    return Fortune(
        capital=np.ones(rows),
        settled=settled,
        moments=np.zeros((rows, 2)),
        group=np.zeros(rows),
        counts=np.zeros(6, dtype=np.int64),
    )


def new_book(stakes: Stakes) -> Book:
    """With twice the room that is expected to be used; a proof that fills it ends there."""
    room = 2 * math.ceil(stakes.planned) + 100
    with within_memory(stakes.budget):
        return Book(np.empty((room, len(stakes.least))), np.empty(room, np.int64))


@compiled
def boldness(p: float) -> float:
    """About phi(Phi^-1(p)) / p, of a capital that is p of its goal; 0 at the goal."""
    mantissa, exponent = math.frexp(p)
    if exponent > 0:
        return 0.0
    q = 2.0 * (1.0 - mantissa) - exponent
    return q * math.sqrt(1.386 / (q + 1.4))


@compiled
def variance_so_far(stakes: Stakes, k: int, squares: float, bets: int) -> float:
    """Of a bet: what was expected, and what was seen."""
    trust = stakes.prior[k, 2]
    return (trust * stakes.prior[k, 1] + squares) / (trust + bets)


@compiled
def stake_for(stakes: Stakes, k: int, capital: float, mean: float, squares: float, bets: int, left: float) -> float:
    """The stake of the next bet of margin `k` against "J <= 0", with `left` samples until the deadline."""
    variance = variance_so_far(stakes, k, squares, bets)
    bold = boldness(capital * stakes.level / OVERSHOOT)
    tau = max(left * (1.0 - stakes.discount) / stakes.together, 1.0)
    stake = bold / math.sqrt(tau * variance)
    if stakes.hurry == 1:
        trust = stakes.prior[k, 2]
        seen = trust + bets
        if seen >= 10.0:
            lower = (trust * stakes.prior[k, 0] + bets * mean) / seen - math.sqrt(variance / seen)
            stake = max(stake, lower / variance * (bold / (bold + 0.8)))
    return min(stake, LARGEST_STAKE / -stakes.least[k])


@compiled
def bet_on(stakes: Stakes, fortune: Fortune, book: Book, totals: Floats, drawn: int) -> bool:
    """Take one walk [K + 1] that ended with sample `drawn`, and bet once there are enough; whether all is settled."""
    rows, counts = totals.shape[0], fortune.counts
    for k in range(rows):
        fortune.group[k] += totals[k]
    counts[1] += 1
    if counts[1] < stakes.together:
        return False
    for k in range(rows):
        book.bets[counts[0], k] = np.floor(fortune.group[k] / stakes.together / GRID) * GRID
        fortune.group[k] = 0.0
    book.drawn[counts[0]] = drawn
    counts[1] = 0
    return place_bets(stakes, fortune, book)


@compiled
def place_bets(stakes: Stakes, fortune: Fortune, book: Book) -> bool:
    """Bet on the next entry of the book in every row; whether all is settled. Stakes are chosen before it is read."""
    rows, counts = stakes.least.shape[0], fortune.counts
    bets = counts[0]
    left = float((stakes.aim if counts[2] < stakes.aim else stakes.budget) - counts[2])
    all_settled = rows > 1
    for k in range(rows):
        x = book.bets[bets, k]
        if fortune.settled[k] == 0 and fortune.capital[k] < RUINED:
            all_settled = False
        elif fortune.settled[k] == 0:
            mean, squares = fortune.moments[k, 0], fortune.moments[k, 1]
            stake = stake_for(stakes, k, fortune.capital[k], mean, squares, bets, left)
            fortune.capital[k] *= 1.0 + stake * x
            if fortune.capital[k] * stakes.level >= 1.0 + CAPITAL_ROUNDING:
                fortune.settled[k] = 1
            else:
                all_settled = False
        change = x - fortune.moments[k, 0]
        fortune.moments[k, 0] += change / (bets + 1.0)
        fortune.moments[k, 1] += change * (x - fortune.moments[k, 0])
    counts[0], counts[2] = bets + 1, book.drawn[bets]
    return all_settled


@compiled
def normal_quantile(p: float) -> float:
    """Phi^-1, by bisection: for decisions that are made ten times in a proof."""
    below, above = -40.0, 8.0
    for _ in range(50):
        middle = 0.5 * (below + above)
        if 0.5 * math.erfc(-middle / math.sqrt(2.0)) < p:
            below = middle
        else:
            above = middle
    return 0.5 * (below + above)


@compiled
def prospects(stakes: Stakes, fortune: Fortune, left: float) -> float:
    """The probability that `left` samples more settle every row, as the bets so far have it; that of the worst row.

    Phi of the z-score at which the capital is expected to end, over its standard deviation: of the walks to come, and
    of the mean of those seen. Or, if it is less, the same for the largest stake throughout: where the range rules.
    """
    least = 1.0
    bets = max(fortune.counts[0], 1)
    tau = left * (1.0 - stakes.discount) / stakes.together
    for k in range(1, fortune.capital.shape[0]):
        if fortune.settled[k] == 0:
            p = min(fortune.capital[k] * stakes.level / OVERSHOOT, 1.0)
            variance = variance_so_far(stakes, k, fortune.moments[k, 1], fortune.counts[0])
            most = LARGEST_STAKE / -stakes.least[k]
            drift, noise = fortune.moments[k, 0] * math.sqrt(tau / variance), math.sqrt(2.0 * (1.0 + tau / bets))
            by_range = math.log(max(p, 1e-300)) / (most * math.sqrt(tau * variance))
            expected = min(normal_quantile(p), by_range) + drift
            least = min(least, 0.5 * math.erfc(-expected / noise))
    return least


@compiled
def look(stakes: Stakes, fortune: Fortune) -> None:
    """Between two bets: give up where there is no hope, ten times until the aim; there, end, or go on to the budget.

    After it, as often. Where the aim is all of the budget, or the budget is spent, there is nothing to save, and
    nothing is given up.
    """
    counts, drawn, aim, budget = fortune.counts, fortune.counts[2], stakes.aim, stakes.budget
    if aim <= drawn < budget and counts[5] == 0:
        counts[5] = 1
        if prospects(stakes, fortune, float(budget - drawn)) < GO_ON:
            counts[4] = 1
    elif aim < budget and drawn < budget and drawn * LOOKS >= aim * (counts[3] + 1):
        counts[3] = drawn * LOOKS // aim
        if prospects(stakes, fortune, float(budget - drawn)) < GIVE_UP:
            counts[4] = 1


@compiled
def stakes_of_bounds(stakes: Stakes, book: Book, bets: int, k: int, chosen: Floats) -> None:
    """The stakes [bets] of the bound of row `k`, each from the bets before it, into `chosen`."""
    mean, squares = 0.0, 0.0
    most = LARGEST_STAKE / (stakes.reference[k] - stakes.least[k])
    for i in range(bets):
        walks = stakes.planned
        if k == 0:
            walks = (i + 1.0) * 0.7 * math.frexp(i + 2.0)[1]
        chosen[i] = min(math.sqrt(2.0 * stakes.goals[k] / (variance_so_far(stakes, k, squares, i) * walks)), most)
        x = book.bets[i, k]
        change = x - mean
        mean += change / (i + 1.0)
        squares += change * (x - mean)


@compiled
def rejected(stakes: Stakes, book: Book, k: int, chosen: Floats, claim: float) -> bool:
    """Whether the bets against "J <= claim" of row `k` ever reach their goal."""
    capital, goal, room = 1.0, (1.0 + CAPITAL_ROUNDING) / stakes.shares[k], claim - stakes.least[k]
    for i in range(chosen.shape[0]):
        if chosen[i] * room > 1.0:
            return False
        capital *= 1.0 + chosen[i] * (book.bets[i, k] - claim)
        if capital >= goal:
            return True
        if capital < RUINED:
            break
    return False


@compiled
def raise_bounds(stakes: Stakes, book: Book, bets: int, bounds: Floats) -> None:
    """Raise `bounds` [K + 1] to the largest claims that the bets reject. By bisection from below."""
    chosen = np.empty(bets)
    for k in range(bounds.shape[0]):
        stakes_of_bounds(stakes, book, bets, k, chosen)
        if not rejected(stakes, book, k, chosen, bounds[k]):
            continue
        below, above = bounds[k], 1.0
        for _ in range(40):
            middle = 0.5 * (below + above)
            if rejected(stakes, book, k, chosen, middle):
                below = middle
            else:
                above = middle
        bounds[k] = below
