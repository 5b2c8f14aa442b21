"""Walks that serve several policies, of which the boldest that is proved is taken."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms import certified, conservative
from inbounds.numerics.compiled import interpreted
from inbounds.problem.pieces import Draws
from inbounds.proofs.evidence import new_log
from inbounds.proofs.families import (
    Claims,
    ProvedFamily,
    between_neighbours,
    draw_family,
    each_of,
    new_stacks,
    prove_family,
    walks_of,
)
from inbounds.proofs.files import save_certificate
from inbounds.proofs.walks import draw_walk, guess_from_array, guess_from_model, make_design
from naive_proofs import way_by_stacks
from test_learned_mixtures import opinion, two_coins
from test_resume import Broken, Fuse
from test_samples import as_user_simulator

QUEUE = ib.zoo.queue()


def family_of(cmdp: ib.CMDP, *arrays: Any) -> tuple[list[ib.Policy], list[Any]]:
    """Policies with these probabilities, and guesses of their values on the model, which is in scaled units."""
    policies = [ib.Policy(cmdp.pairs, np.array(array, dtype=float)) for array in arrays]
    return policies, [guess_from_model(cmdp, policy) for policy in policies]


def one_walk(walks: Any, simulator: Any, rng: Any, members: int, budget: int = 10**6) -> Any:
    rows = 1 + simulator.n_constraints
    totals, guessed = np.empty((members, rows)), np.empty((members, rows), dtype=np.int64)
    waiting, log = np.empty((members, 4), dtype=np.int64), new_log(simulator, 0)
    stacks = new_stacks(simulator.pairs.n_pairs, rows)
    drawn, complete, stacks = draw_family(
        walks, simulator.open(), rng, log, 0, budget, np.arange(members), totals, guessed, waiting, stacks
    )
    assert np.all(stacks.top == -1) and np.all(stacks.taken == -1)  # ready for the next
    return totals, drawn, complete


# --- Theorem 1 ---


def test_a_family_of_one_walks_like_that_policy_alone() -> None:
    """To the bit; and a family of equal policies does not part."""
    cmdp = QUEUE.simulator().scaling.model(QUEUE)
    simulator = QUEUE.simulator().scaled
    policies, guesses = family_of(cmdp, ib.Policy.uniform(cmdp).probabilities)
    design = make_design(simulator, policies[0], guesses[0])
    totals, guessed = np.empty(len(design.low)), np.empty(len(design.low), dtype=np.int64)
    for seed in range(20):
        other = np.random.default_rng(seed)
        drawn, _ = draw_walk(design, simulator.open(), other, new_log(simulator, 0), 0, 10**6, totals, guessed)
        for members in (1, 3):
            rng = np.random.default_rng(seed)
            found, spent, complete = one_walk(walks_of([design] * members), simulator, rng, members)
            assert complete and spent == drawn and np.all(found == totals)


def test_every_policy_sees_walks_of_its_own() -> None:
    """Mean and variance of X of each policy are those of walks of it alone; a walk of all costs less than one of each.

    4,000 walks: the means within four standard errors of the values, for any guess.
    """
    cmdp, _ = two_coins()
    simulator, number = cmdp.simulator().scaled, 4000
    arrays = [[p, 1.0 - p] * 2 for p in (0.1, 0.3, 0.5)]
    policies = [ib.Policy(cmdp.pairs, np.array(array)) for array in arrays]
    guesses = [guess_from_array(np.full((4, 2), 0.1), policy) for policy in policies]
    designs = [
        make_design(simulator, *member)._replace(floor=np.full(2, -np.inf))
        for member in zip(policies, guesses, strict=True)
    ]
    walks, rng = walks_of(designs), np.random.default_rng(0)
    drawn = [one_walk(walks, simulator, rng, 3) for _ in range(number)]
    seen = np.array([totals for totals, _, _ in drawn])
    truth = np.array([ib.evaluate(cmdp, policy).margins for policy in policies])
    errors = seen[:, :, 1:].std(axis=0) / np.sqrt(number)
    assert np.all(np.abs(seen[:, :, 1:].mean(axis=0) - truth) <= 4.0 * errors)
    spent = np.mean([samples for _, samples, _ in drawn])
    # A walk takes 2 steps. The first and the last policy differ in .4 of them, and go on to share what they can.
    assert 2.0 < spent < 0.55 * 3 * 2.0
    alone = np.array([one_walk(walks_of(designs[2:]), simulator, rng, 1)[0][0] for _ in range(number)])
    ratio = seen[:, 2, 1].var() / alone[:, 1].var()
    assert abs(np.log(ratio)) < 0.3


def test_the_law_of_each_policy_by_enumeration() -> None:
    """All numbers and all stacks of three samples a pair, in rationals: every way has the probability of a walk.

    Of two states with two actions each; numbers are one of four, so that probabilities of quarters are exact.
    """
    chances = [Fraction(1, 3), Fraction(3, 4), Fraction(1, 2), Fraction(2, 5)]  # of state 1
    policy, pairs, coins = [0.25, 0.75, 0.5, 0.5], [(0, 1), (2, 3)], [0, 0, 1]
    found: dict[Any, int] = Counter()  # probabilities, of one in
    unit = (3 * 4 * 2 * 5) ** 3
    tables = []  # what the stacks may be, with their probabilities; no way of three steps takes more than three
    for entries in itertools.product((0, 1), repeat=12):
        stacks = [[(after,) for after in entries[3 * pair : 3 * pair + 3]] for pair in range(4)]
        probability = Fraction(1)
        for pair, stack in enumerate(stacks):
            for (after,) in stack:
                probability *= chances[pair] if after == 1 else 1 - chances[pair]
        tables.append((stacks, int(probability * unit)))
    for numbers in itertools.product((0.0, 0.25, 0.5, 0.75), repeat=3):
        for stacks, probability in tables:
            way = way_by_stacks(pairs, policy, 0, numbers, coins, stacks)
            found[tuple((pair, after) for pair, (after,) in way)] += probability
    assert sum(found.values()) == unit * 4**3 and len(found) == 2**6
    for way, probability in found.items():
        state, wanted = 0, Fraction(1)
        for pair, after in way:
            assert pair in pairs[state]
            wanted *= Fraction(policy[pair]) * (chances[pair] if after == 1 else 1 - chances[pair])
            state = after
        assert Fraction(probability, unit * 4**3) == wanted, way


@pytest.mark.parametrize("seed", range(40))
def test_ways_are_those_of_the_slow_twin(seed: int) -> None:
    """From the same numbers, coins and stacks, with signals that change from sample to sample; and the samples that
    they take: of each pair as many as the policy that comes to it most often.
    """
    rng, members, steps = np.random.default_rng(seed), 4, 90  # more than there is room for at first
    cmdp, _ = two_coins()
    simulator, pairs = cmdp.simulator().scaled, [range(2), range(2, 4)]
    policies = [ib.Policy(cmdp.pairs, np.array([p, 1.0 - p] * 2)) for p in np.sort(rng.integers(0, 9, members)) / 8.0]
    guesses = [guess_from_array(rng.normal(size=(4, 2)), policy) for policy in policies]
    designs = [make_design(simulator, *each) for each in zip(policies, guesses, strict=True)]
    floors = np.full(2, -np.inf if seed % 2 else -2.0)
    designs = [design._replace(floor=floors, starts=1) for design in designs]
    numbers, coins = rng.random(steps), np.append(rng.random(steps - 1) < 0.02, True)
    stacks = [[(int(rng.integers(2)), *rng.normal(size=2)) for _ in range(steps)] for _ in range(4)]
    clock, drawn, reward, margins = [], Counter(), np.zeros(4), np.zeros((4, 1))
    for number, coin in zip(numbers, coins, strict=True):
        clock += [number, 1.0 - 0.4 * (not coin)]  # at .6 a walk with discount .9 goes on

    def draw_next(pair: int, _: Any) -> int:
        after, reward[pair], margins[pair, 0] = stacks[pair][drawn[pair]]
        drawn[pair] += 1
        return int(after)

    world = SimpleNamespace(
        offsets=cmdp.pairs.offsets, reward=reward, margins=margins, draw_next=draw_next, draw_start=lambda _: 0
    )
    totals, guessed = np.empty((members, 2)), np.empty((members, 2), dtype=np.int64)
    room = totals, guessed, np.empty((members, 4), dtype=np.int64), new_stacks(4, 2)
    walks = walks_of(designs)._replace(discount=0.9)
    fake = SimpleNamespace(random=iter(clock).__next__)
    spent, complete, _ = interpreted(draw_family)(
        walks, world, fake, new_log(simulator, 0), 0, 10**6, np.arange(members), *room
    )
    most: Counter[int] = Counter()
    for policy, design, total in zip(policies, designs, totals, strict=True):
        way = way_by_stacks(pairs, policy.probabilities, 0, numbers, coins, stacks)
        worth, lost, visits = design.state_values[0].copy(), np.zeros(2, dtype=bool), Counter()
        for pair, (after, *seen) in way:
            visits[pair] += 1
            step = 0.1 * np.array(seen) + 0.9 * design.state_values[after] - design.pair_values[pair]
            worth = worth + np.where(lost, 0.1 * (np.array(seen) - design.low), step)
            below = ~lost & (worth < design.floor)
            worth = np.where(below, worth + 0.9 * (design.low - design.state_values[after]), worth)
            lost |= below
        assert total == pytest.approx(worth, abs=1e-12)
        most |= visits
    assert complete and spent == sum(drawn.values()) == sum(most.values())


def test_interpreted_it_draws_the_same() -> None:
    cmdp, _ = two_coins()
    simulator = cmdp.simulator().scaled
    policies, guesses = family_of(cmdp, [0.2, 0.8] * 2, [0.6, 0.4] * 2)
    designs = [make_design(simulator, *member) for member in zip(policies, guesses, strict=True)]
    room = np.empty((2, 2)), np.empty((2, 2), dtype=np.int64), np.empty((2, 4), dtype=np.int64), new_stacks(4, 2)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        log = new_log(simulator, 0)
        spent = interpreted(draw_family)(walks_of(designs), simulator.open(), rng, log, 0, 10**6, np.arange(2), *room)
        found, drawn, complete = one_walk(walks_of(designs), simulator, np.random.default_rng(seed), 2)
        assert spent[:2] == (drawn, complete) and np.array_equal(found, room[0])


def test_a_walk_that_the_budget_cuts_is_dropped() -> None:
    cmdp, _ = two_coins()
    simulator = cmdp.simulator().scaled
    policies, guesses = family_of(cmdp, [0.0, 1.0] * 2, [1.0, 0.0] * 2)
    walks = walks_of([make_design(simulator, *member) for member in zip(policies, guesses, strict=True)])
    cut = [one_walk(walks, simulator, np.random.default_rng(seed), 2, 1) for seed in range(10)]
    assert all(drawn == 1 and not complete for _, drawn, complete in cut)  # the two part at once: it takes two samples


# --- Theorem 2 ---


def test_a_policy_on_the_edge_is_rarely_taken() -> None:
    """The second of three has a margin of exactly zero: it, or the third, in at most 10 % of 1,000 runs."""
    cmdp, _ = two_coins((0.25, 0.75))
    simulator, runs = cmdp.simulator().scaled, 1000
    arrays = [[p, 1.0 - p] * 2 for p in (0.0, 0.5, 0.8)]
    policies = [ib.Policy(cmdp.pairs, np.array(array)) for array in arrays]
    guesses = [guess_from_array(np.zeros((4, 2)), policy) for policy in policies]
    assert ib.evaluate(cmdp, policies[1]).margins[0] == pytest.approx(0.0, abs=1e-15)
    arguments = policies, guesses, each_of(3), simulator, 0.1, 0.1, 400
    proved = [prove_family(*arguments, Draws(seed), 350) for seed in range(runs)]
    wrong = sum(found.taken is not None and found.taken >= 1 for found in proved)
    assert wrong / runs <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / runs)
    assert wrong > 0.002 * runs  # the bets on the edge do bet
    assert sum(found.taken is not None for found in proved) > 0.4 * runs
    truth = [ib.evaluate(cmdp, policy) for policy in policies]
    values = [np.array([one.reward, *one.margins]) for one in truth]
    false = sum(bool(np.any(found.proved.bounds > values[found.taken or 0] + 1e-12)) for found in proved)
    assert false / runs <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / runs)  # the bounds of the one that is taken


def test_the_last_before_the_first_that_fails_is_taken() -> None:
    """With a wrong order, the boldest first, nothing is taken: none after one that fails counts."""
    cmdp, _ = two_coins()
    simulator = cmdp.simulator().scaled
    safe, bold = ([0.0, 1.0] * 2, [1.0, 0.0] * 2)
    found = prove_family(*family_of(cmdp, bold, safe), each_of(2), simulator, 0.1, 0.1, 5000, Draws(0), 4000)
    assert found.taken is None and found.proved.samples < 4000 and not found.before  # given up
    found = prove_family(*family_of(cmdp, safe, bold), each_of(2), simulator, 0.1, 0.1, 5000, Draws(0), 4000)
    assert found.taken == 0 and found.proved.in_bounds and not found.before
    half = [0.1, 0.9] * 2
    found = prove_family(*family_of(cmdp, safe, half, bold), each_of(3), simulator, 0.1, 0.1, 5000, Draws(0), 4000)
    assert found.taken == 1 and len(found.before) == 1
    levels = [found.before[0].stakes.level, found.proved.bets.stakes.level]
    assert levels == [0.1, 0.1] and found.before[0].left == 1.0


def test_neighbours_are_mixed_and_the_ends_are_not() -> None:
    claims = between_neighbours(3, [0.25, 0.75])
    assert claims.first.tolist() == [0, 0, 0, 1, 1, 2]
    assert claims.second.tolist() == [0, 1, 1, 2, 2, 2]
    assert claims.shares.tolist() == [0.0, 0.25, 0.75, 0.25, 0.75, 0.0]
    assert [part.tolist() for part in between_neighbours(1, [0.5])] == [[0], [0], [0.0]]


def test_steps_are_closest_where_the_proof_is_expected_to_end() -> None:
    """No other order of the same number loses less, on average over what walks settle, in a search by chance."""
    bold, safe = conservative._BOLDEST, conservative._SAFEST
    z = np.random.default_rng(0).normal(size=20_000)
    z = z[(z > bold) & (z < safe)]

    def lost(places: Any) -> float:
        margins = np.sort(safe - places * (safe - bold))  # what is taken is the least that is above what is settled
        return float(np.mean(margins[np.searchsorted(margins, z)] - z))

    for number in (14, 28):
        ours, rng = conservative.steps(number), np.random.default_rng(number)
        assert ours[0] == 0.0 and ours[-1] == 1.0 and np.all(np.diff(ours) > 0.0)
        assert lost(ours) < 0.85 * lost(np.linspace(0.0, 1.0, number))  # .71, as there are more and more
        for _ in range(200):
            other = np.clip(ours + np.sin(np.pi * ours) * rng.normal(scale=0.01, size=number), 0.0, 1.0)
            assert lost(ours) < lost(other) + 2e-3


def test_mixtures_of_two_are_claims_like_others() -> None:
    """Half of either has a margin of exactly zero: it, or less of the safe one, in at most 10 % of 1,000 runs."""
    cmdp, (bold, safe) = two_coins()
    simulator, runs = cmdp.simulator().scaled, 1000
    guesses = [guess_from_array(np.zeros((4, 2)), policy) for policy in (safe, bold)]
    assert ib.evaluate(cmdp, ib.Mixture([0.5, 0.5], (safe, bold))).margins[0] == pytest.approx(0.0, abs=1e-15)
    arguments = (safe, bold), guesses, between_neighbours(2, [0.5]), simulator, 0.1, 0.1, 400
    proved = [prove_family(*arguments, Draws(seed), 350) for seed in range(runs)]
    wrong = sum(found.taken is not None and found.taken >= 1 for found in proved)
    assert 0.002 * runs < wrong <= (0.1 + 3 * np.sqrt(0.1 * 0.9 / runs)) * runs
    assert sum(found.taken is not None for found in proved) > 0.4 * runs
    truth = [ib.evaluate(cmdp, ib.Mixture([1.0 - t, t], (safe, bold))) for t in (0.0, 0.5, 1.0)]
    values = np.array([[one.reward, *one.margins] for one in truth])
    false = sum(bool(np.any(found.proved.bounds > values[found.taken or 0] + 1e-12)) for found in proved)
    assert false / runs <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / runs)


def test_bets_on_a_mixture_are_weighted_means_of_those_on_its_policies() -> None:
    """With shares 0 and 1 they are those on the two policies by themselves, from the same walks."""
    cmdp, (bold, safe) = two_coins((0.8, 0.9))
    simulator = cmdp.simulator().scaled
    guesses = [guess_from_model(simulator.scaling.model(cmdp), policy) for policy in (safe, bold)]
    arguments = (safe, bold), guesses, between_neighbours(2, [0.25, 0.75]), simulator, 1e-4, 0.1, 600
    kept = []
    watched = np.array([0.0, 0.25, 0.75, 1.0])
    for claim in range(4):  # the bets for the first of an order: each claim in its turn
        order = Claims(np.zeros(4, dtype=np.int64), np.ones(4, dtype=np.int64), np.roll(watched, -claim))
        found = prove_family((safe, bold), guesses, order, *arguments[3:], Draws(3), 600)
        kept.append((*found.before, found.proved.bets)[0].book.bets)
    rows = min(map(len, kept))
    assert rows > 20
    for share, bets in zip(watched, kept, strict=True):
        mixed = (1.0 - share) * kept[0][:rows] + share * kept[3][:rows]
        assert bets[:rows] == pytest.approx(mixed, abs=2.0**-29)


# --- learning ---


def test_what_is_learned_goes_with_the_bets_on_all_that_are_safer(tmp_path: Any) -> None:
    """Both checkers go through them again; and the same seed gives the same."""
    run = ib.learn_certified(QUEUE.simulator(), samples=20_000, seed=0)
    again = ib.learn_certified(QUEUE.simulator(), samples=20_000, seed=0)
    assert isinstance(run.policy, ib.Policy) and run.certificate is run.attempts[0]
    assert np.array_equal(run.policy.probabilities, again.policy.probabilities)
    wagers = run.certificate.wagers
    assert len(wagers.attempts) > 1 and wagers.staked == 0.9 and wagers.bankroll == 1.0
    assert {played.stakes.level for played in wagers.attempts} == {0.9 * (1.0 - 0.99)}
    assert np.array_equal(wagers.probabilities, run.policy.probabilities)
    save_certificate(run.certificate, tmp_path / "bets.json")
    assert opinion(tmp_path / "bets.json")[0] == 0


def test_a_failed_family_is_followed_by_single_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its level is not spent again: what follows has the rest."""
    levels, proved = [], certified.prove

    def failing(*arguments: Any) -> ProvedFamily:
        found = prove_family(arguments[0][:1], arguments[1][:1], each_of(1), *arguments[3:])
        bounds = np.minimum(found.proved.bounds, -1e-6)
        return ProvedFamily(None, certified.replace(found.proved, in_bounds=False, bounds=bounds), ())

    def watched(*arguments: Any, level: float, **options: Any) -> Any:
        levels.append(level)
        return proved(*arguments, level=level, **options)

    monkeypatch.setattr(certified, "prove_family", failing)
    monkeypatch.setattr(certified, "prove", watched)
    run = ib.learn_certified(QUEUE.simulator(), samples=20_000, confidence=0.9, seed=0)
    assert levels[0] == pytest.approx(0.85 * 0.1 * 0.1) and len(run.attempts) > 1
    assert not run.attempts[0].in_bounds and run.attempts[1].wagers.bankroll == pytest.approx(0.1)


def test_it_is_resumed_from_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certified, "_STARTS", 200)
    cmdp, _ = two_coins((0.45, 0.9))
    arguments: dict[str, Any] = {"samples": 900, "confidence": 0.8}

    def learned(fuse: Any, seed: int, resume: Any = None) -> Any:
        return ib.learn_certified(as_user_simulator(cmdp, fuse), seed=seed, resume=resume, **arguments)

    seed, unbroken = next(
        (seed, run)
        for seed, run in ((seed, learned(Fuse(None), seed)) for seed in range(20))
        if run.policy is not None and len(run.attempts) == 1 and len(run.certificate.wagers.attempts) > 1
    )
    for first in (1, 200, 300, 500, unbroken.samples):
        with pytest.raises(Broken) as caught:
            learned(Fuse(first), seed)
        partial = caught.value.partial
        assert partial.status == "interrupted"
        assert partial.policy is None or (partial.certificate.in_bounds and partial.policy is partial.candidate)
        run = learned(Fuse(None), seed, partial)
        assert np.array_equal(run.policy.probabilities, unbroken.policy.probabilities)
        assert run.certificate.margins_lower.tobytes() == unbroken.certificate.margins_lower.tobytes()
        assert run.samples == unbroken.samples and run.reason == unbroken.reason
