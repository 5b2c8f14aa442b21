"""Proof by betting: the capital by full enumeration, exactly, and the bounds that it gives."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from inbounds.numerics.compiled import interpreted
from inbounds.proofs import betting

LOW, HIGH = -0.75, 0.5  # multiples of 2^-30, as bets are; the mean is 0 with 2/5 and 3/5
CHANCES = (Fraction(2, 5), Fraction(3, 5))


def stakes_of(
    rows: int = 2, least: float = -1.5, variance: float = math.nan, level: float = 0.05, samples: int = 40, **more: Any
) -> betting.Stakes:
    """Reward and margins at the given level, with walks of one sample (discount 0), or more."""
    arguments = {"discount": 0.0} | more
    return betting.make_stakes(
        np.full(rows, least), np.zeros(rows), np.full(rows, variance), level, samples, **arguments
    )


def played(stakes: betting.Stakes, walks: Any) -> tuple[betting.Fortune, betting.Book]:
    """The bets on walks [N, K + 1], of one sample each."""
    fortune, book = betting.new_fortune(np.full(len(stakes.least), -1.0)), betting.new_book(stakes)
    for i, walk in enumerate(np.asarray(walks, dtype=float)):
        betting.bet_on(stakes, fortune, book, np.atleast_1d(walk), i + 1)
    return fortune, book


def histories(
    length: int, chances: tuple[Fraction, Fraction] = CHANCES
) -> Iterator[tuple[tuple[float, ...], Fraction]]:
    """Every sequence of the two values, with its probability."""
    for sequence in itertools.product((0, 1), repeat=length):
        yield tuple((LOW, HIGH)[i] for i in sequence), math.prod((chances[i] for i in sequence), start=Fraction(1))


def exact_capital(stakes: betting.Stakes, walks: tuple[float, ...], peek: bool = False) -> Fraction:
    """W against "J <= 0" of row 1 in rationals, with the stakes that the real bets choose; 0 is staked once settled."""
    capital = Fraction(1)
    fortune, book = betting.new_fortune(np.full(2, -1.0)), betting.new_book(stakes)
    for i, x in enumerate(walks):
        mean, squares = fortune.moments[1]
        number = i
        if peek:
            change = x - mean
            mean, number = mean + change / (i + 1), i + 1
            squares = squares + change * (x - mean)
        held, left = float(fortune.capital[1]), float(40 - i)
        stake = betting.stake_for(stakes, 1, held, mean, squares, number, left) if not fortune.settled[1] else 0.0
        betting.bet_on(stakes, fortune, book, np.full(2, x), i + 1)
        capital *= 1 + Fraction(stake) * Fraction(x)
    if not peek:
        assert abs(float(capital) - fortune.capital[1]) < 1e-12 * fortune.capital[1]
    return capital


@pytest.mark.parametrize("hurry", [False, True])
@pytest.mark.parametrize("level", [0.01, 0.4])
def test_the_capital_is_a_martingale_at_zero_and_a_supermartingale_below(hurry: bool, level: float) -> None:
    """In rationals, over all 2^8 histories: exactly 1 at a mean of 0, less below."""
    stakes = stakes_of(least=LOW, level=level, hurry=hurry)
    assert sum(p * exact_capital(stakes, walks) for walks, p in histories(8)) == 1
    below = (Fraction(1, 2), Fraction(1, 2))
    assert sum(p * exact_capital(stakes, walks) for walks, p in histories(7, below)) < 1


def test_a_gambler_who_peeks_at_the_walk_is_caught() -> None:
    """The test above can fail: let the walk enter the moments before the stake is chosen."""
    stakes = stakes_of(least=LOW, level=0.01)
    found = sum(p * exact_capital(stakes, walks, peek=True) for walks, p in histories(9))
    assert abs(float(found) - 1.0) > 1e-3


@pytest.mark.parametrize("level", [0.5, 0.25, 0.1])
def test_a_margin_of_zero_is_settled_no_more_often_than_the_level(level: float) -> None:
    """The exact probability of ever being settled within 12 walks; and that it happens."""
    stakes = stakes_of(least=LOW, level=level, samples=12)
    settled = sum(p for walks, p in histories(12) if played(stakes, [(x, x) for x in walks])[0].settled[1])
    assert 0 < settled <= Fraction(level)


def test_attempts_as_a_bankroll_are_wrong_no_more_often_than_alpha() -> None:
    """Three attempts of 5 walks, each of a policy with a margin of exactly 0: the exact probability of a return."""
    alpha, staked = 0.5, 0.85

    def returned(bankroll: float, attempts: int) -> Fraction:
        if attempts == 0:
            return Fraction(0)
        stakes, total = stakes_of(least=LOW, level=staked * alpha * bankroll, samples=5), Fraction(0)
        for walks, p in histories(5):
            fortune, _ = played(stakes, [(x, x) for x in walks])
            if fortune.settled[1]:
                total += p
            elif attempts > 1:
                left = bankroll * ((1.0 - staked) + staked * min(1.0, float(fortune.capital[1])))
                total += p * returned(left, attempts - 1)
        return total

    once, twice = returned(1.0, 1), returned(1.0, 2)
    assert once < twice <= Fraction(alpha)  # a second attempt is worth something, and is paid for


def test_after_a_proof_the_whole_bankroll_is_there_for_the_next() -> None:
    """A candidate in bounds, then one with a margin of exactly 0: the exact probability that the second is proved."""
    alpha, staked, good = 0.5, 0.85, (Fraction(1, 5), Fraction(4, 5))
    wrong, after_success = Fraction(0), Fraction(0)
    for walks, p in histories(5, good):
        stakes = stakes_of(least=LOW, level=staked * alpha, samples=5)
        fortune, book = played(stakes, [(x, x) for x in walks])
        left = betting.Played(stakes, book, np.full(2, -1.0), fortune.capital).left
        bankroll = (1.0 - staked) + staked * left
        assert not fortune.settled[1] or bankroll == 1.0
        after = stakes_of(least=LOW, level=staked * alpha * bankroll, samples=5)
        second = sum(q for more, q in histories(5) if played(after, [(x, x) for x in more])[0].settled[1])
        wrong += p * second
        after_success += p * second * int(fortune.settled[1])
    assert 0 < after_success < wrong <= Fraction(alpha)


@pytest.mark.parametrize(("row", "claim"), [(0, 0.25), (0, 0.0), (1, -0.25), (1, 0.05)])
def test_bounds_reject_a_true_claim_no_more_often_than_their_share(row: int, claim: float) -> None:
    """The exact probability that "J <= claim", with J = claim, is ever rejected within 12 walks of two values."""
    stakes = stakes_of(least=-0.75, variance=0.3, level=0.8, samples=12)
    chance = Fraction(claim - LOW) / Fraction(HIGH - LOW)
    wrong = Fraction(0)
    for walks, p in histories(12, (1 - chance, chance)):
        _, book = played(stakes, [(x, x) for x in walks])
        chosen = np.empty(12)
        betting.stakes_of_bounds(stakes, book, 12, row, chosen)
        wrong += p * betting.rejected(stakes, book, row, chosen, claim)
    assert wrong <= Fraction(stakes.shares[row])
    assert row == 0 or wrong > 0


def test_the_bound_is_the_largest_claim_that_is_rejected() -> None:
    stakes = stakes_of(variance=0.05, samples=400)._replace(reference=np.full(2, 0.3))
    rng = np.random.default_rng(3)
    _, book = played(stakes, rng.normal(0.3, 0.2, size=(400, 2)).clip(-1.5))
    bounds, chosen = np.full(2, -1.0), np.empty(400)
    betting.raise_bounds(stakes, book, 400, bounds)
    for k in range(2):
        betting.stakes_of_bounds(stakes, book, 400, k, chosen)
        answers = [betting.rejected(stakes, book, k, chosen, claim) for claim in np.linspace(-1.0, 1.0, 80)]
        assert answers == sorted(answers, reverse=True)  # whoever rejects a claim rejects any lower one
        assert betting.rejected(stakes, book, k, chosen, bounds[k])
        assert not betting.rejected(stakes, book, k, chosen, bounds[k] + 1e-9)
        assert 0.2 < bounds[k] < 0.35


def test_shares_of_bounds_sum_to_alpha_and_the_claim_to_be_in_bounds_has_all_of_it() -> None:
    np.testing.assert_allclose(stakes_of(rows=2).shares, [0.005, 0.045])
    np.testing.assert_allclose(stakes_of(rows=4).shares, [0.005, 0.015, 0.015, 0.015])
    assert stakes_of(rows=1).shares.tolist() == [0.05] and stakes_of(rows=4).level == 0.05


def test_boldness_is_within_a_twelfth_of_what_is_best_for_gaussian_walks() -> None:
    """phi(Phi^-1(p)) / p; a stake that is off by a twelfth loses the square of that, two thirds of a per cent."""
    for p in np.concatenate([np.geomspace(1e-20, 0.5, 60), np.linspace(0.5, 0.9, 20)]):
        assert betting.boldness(p) == pytest.approx(norm.pdf(norm.ppf(p)) / p, rel=1 / 12)
    assert betting.boldness(1.0) == betting.boldness(1.7) == 0.0


def test_more_is_staked_the_nearer_the_deadline_and_never_more_than_allowed() -> None:
    stakes = stakes_of(variance=0.05, level=0.01, samples=1000)
    chosen = [betting.stake_for(stakes, 1, 1.0, 0.0, 0.0, 0, left) for left in (1000.0, 100.0, 10.0, 1.0, -5.0)]
    assert chosen == sorted(chosen) and chosen[-1] <= 0.9 / 1.5


def test_deadline_bets_settle_gaussian_walks_about_as_often_as_can_be() -> None:
    """The best probability for a drift m over n walks is Phi(Phi^-1(level) + m sqrt(n / s2)): that of one test at the
    end (Kulldorff). At m so that it is .8, over 300 runs of 900 walks: .68 at least, five standard errors below."""
    rng, n, spread = np.random.default_rng(0), 900, 0.2
    drift = (norm.ppf(0.8) - norm.ppf(0.01)) * spread / math.sqrt(n)
    stakes, settled = stakes_of(least=-1.0, variance=spread**2, level=0.01, samples=n), 0
    for _ in range(300):
        walks = rng.normal(drift, spread, size=n).clip(-1.0)
        fortune, _ = played(stakes, np.column_stack([walks, walks]))
        settled += int(fortune.settled[1])
    assert 0.68 <= settled / 300 <= 0.8 + 3 * math.sqrt(0.16 / 300)


def test_prospects_are_those_that_come_true() -> None:
    """At half time, of many proofs: the predicted probability of settling and the share that do, by quarters."""
    rng, n, predicted, came = np.random.default_rng(1), 400, [], []
    stakes = stakes_of(least=-2.0, variance=0.04, level=0.01, samples=n)
    for _ in range(400):
        walks = rng.normal(0.035, 0.2, size=(n, 1)).clip(-2.0).repeat(2, axis=1)
        fortune, book = betting.new_fortune(np.full(2, -1.0)), betting.new_book(stakes)
        for i in range(n):
            if i == n // 2:
                predicted.append(betting.prospects(stakes, fortune, float(n - i)))
            betting.bet_on(stakes, fortune, book, walks[i], i + 1)
        came.append(int(fortune.settled[1]))
    predicted, came = np.array(predicted), np.array(came)
    assert came[predicted > 0.75].mean() > 0.6 and came[predicted < 0.25].mean() < 0.4
    assert abs(predicted.mean() - came.mean()) < 0.1


def test_the_interpreted_twin_places_the_same_bets() -> None:
    stakes, rng = stakes_of(rows=3, variance=0.05, samples=60, hurry=True), np.random.default_rng(2)
    walks = rng.normal(0.1, 0.3, size=(60, 3)).clip(-1.5)
    compiled, _ = played(stakes, walks)
    fortune, book = betting.new_fortune(np.full(3, -1.0)), betting.new_book(stakes)
    for i, walk in enumerate(walks):
        interpreted(betting.bet_on)(stakes, fortune, book, walk, i + 1)
    for ours, theirs in zip(compiled, fortune, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_many_walks_are_bet_on_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(betting, "MOST_BETS", 20)
    stakes = stakes_of(variance=0.05, samples=60)
    assert stakes.together == 3 and stakes.planned == 20.0
    np.testing.assert_allclose(stakes.prior[:, 1:], [[0.05 / 3, 100 / 3]] * 2)
    walks = np.random.default_rng(2).normal(0.1, 0.3, size=(62, 2)).clip(-1.5)
    fortune, book = played(stakes, walks)
    assert fortune.counts[:2].tolist() == [20, 2]  # the last two wait for a third
    np.testing.assert_allclose(book.bets[:20], walks[:60].reshape(20, 3, 2).mean(axis=1), atol=betting.GRID)
    assert np.all(book.bets[:20] <= walks[:60].reshape(20, 3, 2).mean(axis=1) + 1e-15)
    assert book.drawn[:20].tolist() == list(range(3, 61, 3))


def test_who_is_ruined_bets_no_more() -> None:
    stakes = stakes_of(variance=0.05, samples=5000)
    fortune, book = played(stakes, np.full((5000, 2), -1.5))
    assert 0.0 < fortune.capital[1] < 2.0**-500 and fortune.capital[1] > 2.0**-600
    bounds = np.full(2, -1.0)
    betting.raise_bounds(stakes, book, 5000, bounds)
    assert bounds.tolist() == [-1.0, -1.0]


@pytest.mark.parametrize("drawn", [1, 79, 80, 81, 99, 100])
def test_a_look_may_fall_on_any_sample_the_last_included(drawn: int) -> None:
    """With nothing left there is nothing to decide: once, the last look divided by it."""
    stakes = betting.make_stakes(np.array([-1.0, -1.0]), np.array([0.5, 0.1]), np.full(2, 0.1), 0.05, 100, 0.5, aim=80)
    fortune = betting.new_fortune(np.array([0.0, -1.0]))
    fortune.counts[0], fortune.counts[2], fortune.counts[5] = 10, drawn, drawn > 80
    betting.look(stakes, fortune)
    assert fortune.counts[4] in (0, 1) and (drawn < 100 or fortune.counts[4] == 0)
