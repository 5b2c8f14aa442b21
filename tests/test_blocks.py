"""Bets on blocks of walks, which find how little of a safe policy makes a bold one provably in bounds."""

from __future__ import annotations

import copy
import itertools
import json
import random
from fractions import Fraction

import numpy as np
import pytest

import inbounds as ib
from fuzz.certificates import nudges, second
from inbounds.algorithms import certified
from inbounds.numerics.compiled import interpreted
from inbounds.problem.pieces import Draws
from inbounds.proofs.blocks import (
    BOLD_WALKS,
    BlockFortune,
    Blocks,
    BlockStakes,
    bet_on_block,
    prove_share,
    settleable_share,
)
from inbounds.proofs.files import load_certificate, save_certificate, sealed
from inbounds.proofs.verify import Unreadable, verify_bets
from inbounds.proofs.walks import guess_from_array, guess_from_model, make_design
from test_bets_checked import forged as forged_file
from test_resume import Broken, Fuse
from test_samples import as_user_simulator

QUEUE = ib.zoo.queue()


def two_coins(chances=(0.25, 0.75)):
    """State 1 with a chance that depends on the action; margin +1 there, -1 in state 0: values of half 2 chance - 1."""
    cmdp = ib.CMDP(
        offsets=[0, 2, 4],
        transition=[[1 - chance, chance] for chance in chances] * 2,
        reward=[1.0, 0.0] * 2,
        constraints=(ib.Constraint([-1.0, -1.0, 1.0, 1.0], at_least=0.0, name="coin"),),
        initial=[0.5, 0.5],
        discount=0.5,
    )
    return cmdp, [ib.Policy.deterministic(cmdp, [action, 2 + action]) for action in (0, 1)]


# --- Theorem 1 ---


def law(rng, least, points=3):
    """A random law of rationals that are at least `least`: (values, probabilities)."""
    weights = [Fraction(rng.randint(1, 9)) for _ in range(points)]
    values = [Fraction(least), *(Fraction(rng.randint(-20, 60), 20) for _ in range(points - 1))]
    return [max(value, least) for value in values], [weight / sum(weights) for weight in weights]


def mean(values, probabilities):
    return sum((v * p for v, p in zip(values, probabilities, strict=True)), Fraction(0))


def test_the_mean_of_a_block_is_at_most_one():
    """In rationals, by enumeration: any laws, shares and stakes, as long as the mixture has a margin of exactly 0."""
    rng, within = random.Random(0), 0
    for _ in range(200):
        (x, p), (y, q) = law(rng, Fraction(-1)), law(rng, Fraction(-2))
        share = Fraction(rng.randint(0, 40), 40)
        above = (1 - share) * mean(x, p) + share * mean(y, q)
        x, y = [value - above for value in x], [value - above for value in y]  # exactly 0 now
        caps = [(1 - share) * -min(x), BOLD_WALKS * share * -min(y)]
        stake = Fraction(rng.randint(1, 100), 100) * Fraction(9, 10) / max(caps) if max(caps) > 0 else Fraction(1)
        of_bold = mean([1 + stake * (1 - share) * value for value in x], p)
        of_safe = mean([1 + stake * BOLD_WALKS * share * value for value in y], q)
        assert of_bold**BOLD_WALKS * of_safe <= 1
        within += max(of_bold, of_safe) > 1
    assert within > 50  # within a block the mean is above 1: that is why it is not looked at there


def game(order, level, variance=1.0):
    """The state before the first block: one margin, walks of -1 or 1, two blocks until the deadline."""
    rows = 2
    stakes = BlockStakes(
        level=level,
        order=np.array(order),
        least=np.full((2, rows), -1.0),
        variance=np.full((2, rows), variance),
        trust=np.full((2, rows), 10.0),
        discount=0.0,
        together=1,
        aim=2 * (BOLD_WALKS + 1),
        budget=2 * (BOLD_WALKS + 1),
    )
    settled = np.array([[1, 0]] * len(order))
    moments, block = np.zeros((2, rows, 2)), np.zeros((BOLD_WALKS + 1, rows))
    counts, spent = np.zeros(5, dtype=np.int64), np.zeros(BOLD_WALKS + 1, dtype=np.int64)
    fortune = BlockFortune(np.ones((len(order), rows)), settled, moments, block, spent, counts)
    return stakes, fortune, Blocks(np.empty((2, BOLD_WALKS, rows)), np.empty((2, rows)), np.zeros((2, 5), dtype=int))


@pytest.mark.parametrize(("level", "order"), [(0.5, [0.5]), (0.3, [0.5]), (0.2, [0.75, 0.5, 0.25])])
def test_false_claims_by_enumeration(level, order):
    """All 1,024 games of two blocks, in rationals: what the bets themselves do when the margin is exactly zero."""
    place, bet = interpreted(bet_on_block), order.index(0.5)
    chances = [Fraction(1, 4)] * BOLD_WALKS + [Fraction(3, 4)]  # of a walk of 1: margins of -1/2 and 1/2
    reached, total, expected, later = Fraction(0), Fraction(0), Fraction(0), Fraction(0)
    for path in itertools.product((0, 1), repeat=2 * (BOLD_WALKS + 1)):
        probability = Fraction(1)
        for step, won in enumerate(path):
            chance = chances[step % (BOLD_WALKS + 1)]
            probability *= chance if won else 1 - chance
        stakes, fortune, blocks = game(order, level)
        for number in range(2):
            won = path[number * (BOLD_WALKS + 1) : (number + 1) * (BOLD_WALKS + 1)]
            fortune.block[:, 1] = [2.0 * each - 1.0 for each in won]
            place(stakes, fortune, blocks, (number + 1) * (BOLD_WALKS + 1))
        total += probability
        reached += probability * int(fortune.settled[bet, 1])
        expected += probability * Fraction(float(fortune.capital[bet, 1]))
        passed = [bool(fortune.settled[m, 1]) for m in range(len(order))]
        later += probability * (
            all(passed[: bet + 1])
        )  # 0.5 or a later share is taken: it is out of bounds, or on the edge
    assert total == 1 and expected <= 1 + Fraction(1, 10**12)  # up to the rounding of capitals
    assert 0 < reached <= Fraction(level) and later <= Fraction(level)


# --- Theorem 2 ---


def test_a_mixture_on_the_edge_is_rarely_taken():
    """Half of either has a margin of exactly zero: it, or less of the safe one, in at most 10 % of 2,000 runs."""
    cmdp, policies = two_coins((0.0, 1.0))
    simulator, order, runs = cmdp.simulator(), np.array([1.0, 0.5, 0.0]), 2000
    guesses = [guess_from_array(np.zeros((4, 2)), policy) for policy in policies]
    assert ib.evaluate(cmdp, ib.Mixture([0.5, 0.5], policies)).margins[0] == 0.0
    proved = [prove_share(policies, guesses, order, simulator, 0.1, 0.1, 400, Draws(seed), 350) for seed in range(runs)]
    wrong = sum(found.share is not None and found.share <= 0.5 for found in proved)
    assert wrong / runs <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / runs)
    assert sum(found.share is not None for found in proved) > 0.4 * runs  # what is in bounds by .5 is taken
    assert wrong > 0.002 * runs  # and the bets on the edge do bet
    truth = [[1.0, -0.5], [0.0, 0.5]]
    false = sum(bool(np.any(found.bounds > np.array(truth) + 1e-12)) for found in proved)
    assert false / runs <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / runs)  # the bounds, at once


def test_the_last_before_the_first_that_fails_is_taken():
    """With a wrong order, most difficult first, nothing is taken: no share after one that fails counts."""
    cmdp, policies = two_coins()
    guesses = [guess_from_array(np.zeros((4, 2)), policy) for policy in policies]
    proved = prove_share(policies, guesses, np.array([0.0, 1.0]), cmdp.simulator(), 0.1, 0.1, 5000, Draws(0), 4000)
    assert proved.share is None and proved.samples < 4000  # given up
    proved = prove_share(policies, guesses, np.array([1.0, 0.0]), cmdp.simulator(), 0.1, 0.1, 5000, Draws(0), 4000)
    assert proved.share == 1.0


def test_what_can_be_settled_is_what_about_half_of_all_proofs_settle():
    """The prediction on which plans rest; a bound is moved until the margin is just what it says."""
    samples, level, share, kept = 2000, 0.05, 0.1, 0.0
    cmdp, policies = two_coins((0.4, 0.7))
    for _ in range(20):
        simulator = cmdp.tightened(kept).simulator()
        model = simulator.scaling.model(cmdp.tightened(kept))
        guesses = [guess_from_model(model, policy) for policy in policies]
        least = np.array([make_design(simulator, *each).least for each in zip(policies, guesses, strict=True)])
        width, _ = settleable_share(share, level, least, np.array([g.variance(0.5) for g in guesses]), 0.5 * samples)
        margin = ib.evaluate(model, ib.Mixture([1.0 - share, share], policies)).margins[0]
        kept += (margin - width[1]) * simulator.scaling.margin_scales[0]
    assert margin == pytest.approx(width[1], abs=1e-9)
    taken = sum(
        prove_share(policies, guesses, np.array([share]), simulator, level, level, samples, Draws(seed), samples).share
        is not None
        for seed in range(200)
    )
    assert 0.25 < taken / 200 < 0.6


# --- certificates ---


def opinion(path):
    """The exit code and the lines of both checkers, on which they agree."""
    answers = []
    try:
        accepted, lines = verify_bets(str(path))
        answers.append((0 if accepted else 1, lines))
    except Unreadable as reason:
        answers.append((2, [str(reason)]))
    try:
        answers.append((0, second.check(str(path))))
    except second.Rejected as reason:
        answers.append((1, [str(reason)]))
    except second.Unreadable as reason:
        answers.append((2, [str(reason)]))
    assert answers[0][0] == answers[1][0], answers
    return answers[0]


@pytest.fixture(scope="module")
def learned():
    """A mixture by blocks, from few samples on a problem with much margin to spare."""
    cmdp, _ = two_coins((0.45, 0.9))
    for seed in range(20):
        run = ib.learn_certified(cmdp.simulator(), samples=1500, confidence=0.9, seed=seed, mixture=True)
        if run.policy is not None and len(run.policy.policies) == 2:
            return run
    raise AssertionError("no mixture in twenty runs")


def test_blocks_are_gone_through_again_by_both_checkers(tmp_path, learned):
    path = tmp_path / "bets.json"
    save_certificate(learned.certificate, path)
    code, lines = opinion(path)
    assert code == 0 and lines[0].startswith("the mixture is in bounds, with confidence 0.9")
    loaded = load_certificate(path)
    assert loaded.verdict == learned.certificate.verdict and loaded.wagers.blocks is not None
    save_certificate(loaded, tmp_path / "again.json")
    assert path.read_bytes() == (tmp_path / "again.json").read_bytes()


def leaves(value, place=()):
    """Every number in the bets, as the keys that lead to it."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [leaf for key, inner in items for leaf in leaves(inner, (*place, key))]
    return [place]


def changed(claim, place, value):
    forged = copy.deepcopy(claim)
    where = forged["bets"]
    for key in place[:-1]:
        where = where[key]
    where[place[-1]] = value
    return forged


def at(claim, place):
    found = claim["bets"]
    for key in place:
        found = found[key]
    return found


def matters(claim, place):
    """Whether a claim depends on a number in the bets to the last bit; on others it may, if they decided anything."""
    name, last = next(key for key in reversed(place) if isinstance(key, str)), place[-1]
    if name == "order":
        return last < len(claim["bets"]["blocks"]["capitals"])
    if name == "bets":
        return place[-2] > 0 and last < 8  # the first bets on a margin: nothing is settled yet
    return name in ("weights", "capitals", "staked", "bankroll", "discount", "aim") or place[0] == "bounds"


def test_mutations_are_rejected(tmp_path, learned):
    """One number changed and all hashes made again: both checkers say the same, and accept nothing that matters."""
    path, rng = tmp_path / "bets.json", random.Random(0)
    save_certificate(learned.certificate, path)
    claim = json.loads(path.read_text())
    groups = {}
    for place in leaves(claim["bets"]):
        name = next(key for key in reversed(place) if isinstance(key, str))
        groups.setdefault((place[0], name, matters(claim, place)), []).append(place)
    tried = rejected = 0
    for (_, name, strict), places in groups.items():
        for place in rng.sample(places, min(len(places), 4)):
            value = at(claim, place)
            near = 2 if name == "order" else 0  # a share that differs by the last bit may come to the same
            other = rng.choice([other for other in nudges(value)[near:4] if other != value])
            path.write_bytes(forged_file(changed(claim, place, other)))
            code, lines = opinion(path)
            tried, rejected = tried + 1, rejected + (code != 0)
            assert code != 0 or not strict, (place, value, other, lines)
    assert rejected > 0.5 * tried > 20


def test_claims_beyond_the_bets_are_rejected(tmp_path, learned):
    path = tmp_path / "bets.json"
    save_certificate(learned.certificate, path)
    claim = json.loads(path.read_text())
    bets, blocks = claim["bets"], claim["bets"]["blocks"]
    order = [float.fromhex(t) for t in blocks["order"]]
    taken = order.index(float.fromhex(bets["weights"][1]))
    one = (1.0).hex()

    def refused(**changes):
        forged = copy.deepcopy(claim)
        for key, value in changes.items():
            forged["bets"][key] = value
        path.write_bytes(forged_file(forged))
        code, lines = opinion(path)
        assert code == 1, (changes, lines)

    following = order[taken + 1] if taken + 1 < len(order) else 0.123
    weights = [(1.0 - following).hex(), following.hex()]
    refused(weights=weights)
    refused(weights=weights, blocks=blocks | {"capitals": [*blocks["capitals"], blocks["capitals"][-1]]})
    refused(weights=weights, blocks=blocks | {"order": [following.hex()], "capitals": blocks["capitals"][:1]})
    refused(weights=[one, one])
    refused(weights=bets["weights"][::-1])
    refused(weights=bets["weights"][:1])
    refused(policies=bets["policies"][:1])
    refused(policies=[])
    refused(policies=None)
    refused(blocks=None)
    refused(blocks={})
    refused(blocks=blocks | {"order": []})
    refused(blocks=blocks | {"order": None})
    refused(blocks=blocks | {"capitals": blocks["capitals"][:-1]})
    refused(blocks=blocks | {"bounds": blocks["bounds"][:1]})
    refused(attempts=[attempt | {"aim": 0} for attempt in bets["attempts"]])
    refused(attempts=[attempt | {"aim": attempt["budget"] + 1} for attempt in bets["attempts"]])
    refused(attempts=[bets["attempts"][0] | {"aim": 1}, bets["attempts"][1]])
    refused(attempts=bets["attempts"][:1])
    refused(attempts=bets["attempts"][::-1])
    refused(bankroll=(2.0).hex())
    refused(bankroll=(0.0).hex())
    refused(bounds=[(x + 2**-30).hex() for x in map(float.fromhex, bets["bounds"])])
    path.write_bytes(sealed(claim | {"statement": "policy"}))
    assert opinion(path)[0] == 1
    path.write_bytes(sealed(claim | {"weights": bets["weights"]}))
    assert opinion(path)[0] == 1


def test_a_mixture_that_was_given_is_checked_too(tmp_path):
    mixture = ib.Mixture([0.5, 0.5], [ib.solve(QUEUE).policy, ib.slater(QUEUE).policy])
    certificate = ib.certify(mixture, QUEUE.simulator(), samples=3000, seed=1)
    assert certificate.in_bounds
    path = tmp_path / "bets.json"
    save_certificate(certificate, path)
    code, lines = opinion(path)
    assert code == 0 and lines[0].startswith("the mixture is in bounds")
    claim = json.loads(path.read_text())
    path.write_bytes(forged_file(changed(claim, ("weights", 0), (0.75).hex())))
    assert opinion(path)[0] == 1


# --- the whole ---


def test_mixtures_are_learned_with_their_proof():
    simulator = QUEUE.simulator()
    runs = [ib.learn_certified(simulator, samples=20_000, seed=seed, mixture=True) for seed in range(12)]
    judged = [ib.evaluate(QUEUE, run.policy) for run in runs if run.policy is not None]
    assert len(judged) >= 11 and sum(not one.in_bounds for one in judged) <= 1  # at 99 %: two have probability .006
    assert sum(isinstance(run.policy, ib.Mixture) and len(run.policy.policies) == 2 for run in runs) > 6
    singles = [ib.learn_certified(simulator, samples=20_000, seed=seed) for seed in range(12)]
    alone = np.mean([ib.evaluate(QUEUE, run.policy).reward for run in singles if run.policy is not None])
    assert np.mean([one.reward for one in judged]) > alone - 0.005
    seed, run = next((seed, run) for seed, run in enumerate(runs) if isinstance(run.policy, ib.Mixture))
    again = ib.learn_certified(simulator, samples=20_000, seed=seed, mixture=True)
    assert np.array_equal(again.policy.weights, run.policy.weights)
    assert again.certificate.margins_lower.tobytes() == run.certificate.margins_lower.tobytes()
    assert run.reason.startswith("a mixture in bounds: with confidence 0.99") and run.samples <= 20_000


def test_a_failed_mixture_is_followed_by_policies(monkeypatch, tmp_path):
    """Its level is not spent again: what follows has the rest, and the checkers see that it was enough."""
    levels = []
    proved = certified.prove

    def failing(*arguments, **options):
        return prove_share(*arguments, **options)._replace(share=None)

    def watched(*arguments, level, **options):
        levels.append(level)
        return proved(*arguments, level=level, **options)

    monkeypatch.setattr(certified, "prove_share", failing)
    monkeypatch.setattr(certified, "prove", watched)
    cmdp, _ = two_coins((0.45, 0.9))
    for seed in range(10):
        run = ib.learn_certified(cmdp.simulator(), samples=3000, confidence=0.9, seed=seed, mixture=True)
        if len(run.attempts) > 1 and run.policy is not None:
            break
    assert levels[0] == pytest.approx(0.85 * 0.1 * 0.1)
    assert isinstance(run.policy, ib.Policy)  # a mixture of one is that one
    assert not run.attempts[0].in_bounds and run.certificate.in_bounds
    save_certificate(run.certificate, tmp_path / "bets.json")
    assert opinion(tmp_path / "bets.json")[0] == 0
    assert run.certificate.wagers.bankroll == pytest.approx(0.1)


def test_whatever_is_proposed_a_wrong_answer_is_rare(monkeypatch):
    """A plan whose mixtures are all out of bounds, or on the edge, and policies too: at most 10 % of 300 runs."""
    cmdp, policies = two_coins((0.25, 0.5))
    order = np.array([1.0, 0.5, 0.0])

    def guess(evidence, policy):
        return guess_from_model(evidence.model(), policy)

    def explore(source, *_):
        source.evidence.add_starts(source.draws, 100)
        source.evidence.try_pairs(source.draws, np.full(4, 20))
        source.explored = True
        return 80

    def stubborn(evidence, *_):
        return certified.BoldAndSafe(tuple(policies), tuple(guess(evidence, policy) for policy in policies), order)

    monkeypatch.setattr(certified.ModelSource, "_explore", explore)
    monkeypatch.setattr(certified, "bold_and_safe", stubborn)
    monkeypatch.setattr(certified, "conservative", lambda evidence, *_: (policies[1], guess(evidence, policies[1])))
    monkeypatch.setattr(certified, "_enough", lambda *_: "")
    simulator, runs = cmdp.simulator(), 300
    found = [
        ib.learn_certified(simulator, samples=800, confidence=0.9, seed=seed, mixture=True) for seed in range(runs)
    ]
    wrong = sum(run.policy is not None for run in found)
    assert wrong / runs <= 0.1 + 3 * np.sqrt(0.09 / runs)
    assert any(len(run.attempts) > 1 for run in found)  # both kinds of proof were tried


def test_it_is_resumed_from_anywhere(monkeypatch):
    monkeypatch.setattr(certified, "_STARTS", 200)
    cmdp, _ = two_coins((0.45, 0.9))
    arguments = {"samples": 900, "confidence": 0.8, "mixture": True}

    def learned(fuse, seed, resume=None):
        return ib.learn_certified(as_user_simulator(cmdp, fuse), seed=seed, resume=resume, **arguments)

    seed, unbroken = next(
        (seed, run)
        for seed, run in ((seed, learned(Fuse(None), seed)) for seed in range(20))
        if isinstance(run.policy, ib.Mixture)
    )
    for first in (1, 200, 300, 500, unbroken.samples):
        with pytest.raises(Broken) as caught:
            learned(Fuse(first), seed)
        partial = caught.value.partial
        assert partial.status == "interrupted" and partial.policy is None
        run = learned(Fuse(None), seed, partial)
        assert np.array_equal(run.policy.weights, unbroken.policy.weights) and run.samples == unbroken.samples
        assert run.certificate.margins_lower.tobytes() == unbroken.certificate.margins_lower.tobytes()
        assert run.reason == unbroken.reason
    with pytest.raises(ib.InvalidInput, match="another budget"):
        ib.learn_certified(as_user_simulator(cmdp), seed=seed, resume=partial, samples=900, confidence=0.8)
    run, calls = ib.learn_certified(cmdp.simulator(), seed=seed, time_limit=1e-9, **arguments), 1
    while run.status != "done":
        run, calls = (
            ib.learn_certified(cmdp.simulator(), seed=seed, time_limit=1e-9, resume=run, **arguments),
            calls + 1,
        )
    whole = ib.learn_certified(cmdp.simulator(), seed=seed, **arguments)
    assert calls > 5 and np.array_equal(run.policy.weights, whole.policy.weights)


def test_where_one_policy_does_it_is_no_mixture():
    run = ib.learn_certified(QUEUE.unconstrained().simulator(), samples=5000, seed=0, mixture=True)
    assert isinstance(run.policy, ib.Policy) and run.reason.startswith("a policy in bounds")
    _, policies = two_coins()
    plan = certified.BoldAndSafe(tuple(policies), (), np.array([1.0, 0.5, 0.0]))
    assert plan.mixed(0.0) is policies[0] and plan.mixed(1.0) is policies[1]
    assert plan.mixed(0.25).weights.tolist() == [0.75, 0.25]


def test_bad_input_is_refused_in_one_sentence():
    simulator = QUEUE.simulator()
    with pytest.raises(ib.InvalidInput, match="mixture=True plans on the empirical model"):
        ib.learn_certified(simulator, samples=1000, learner=ib.CSPDA.practical(), mixture=True)
    with pytest.raises(ib.InvalidInput, match="mixture must be True or False, found 1"):
        ib.learn_certified(simulator, samples=1000, mixture=1)
    run = ib.learn_certified(simulator, samples=100, seed=0, mixture=True)
    assert run.policy is None and "samples are too few" in run.reason
    run = ib.learn_certified(QUEUE.tightened([1.5, 0.0]).simulator(), samples=20_000, seed=0, mixture=True)
    assert run.policy is None and run.reason.startswith("no policy: as far as the samples show, none keeps 'service'")
