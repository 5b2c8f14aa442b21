"""Mixtures that are learned with their proof: how little of a safe policy makes a bold one provably in bounds."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

import inbounds as ib
from fuzz.certificates import second
from inbounds.algorithms import certified
from inbounds.proofs.families import between_neighbours, each_of, prove_family
from inbounds.proofs.files import load_certificate, save_certificate, sealed
from inbounds.proofs.verify import Unreadable, verify_bets
from inbounds.proofs.walks import guess_from_model
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
    """A mixture from few samples on a problem with much margin to spare, with the bets on several that are safer."""
    cmdp, _ = two_coins((0.45, 0.9))
    for seed in range(20):
        run = ib.learn_certified(cmdp.simulator(), samples=1500, confidence=0.9, seed=seed, mixture=True)
        if isinstance(run.policy, ib.Mixture) and len(run.certificate.wagers.attempts) > 1:
            return run
    raise AssertionError("no mixture in twenty runs")


def test_they_are_gone_through_again_by_both_checkers(tmp_path, learned):
    path = tmp_path / "bets.json"
    save_certificate(learned.certificate, path)
    code, lines = opinion(path)
    assert code == 0 and lines[0].startswith("the mixture is in bounds, with confidence 0.9")
    loaded = load_certificate(path)
    assert loaded.verdict == learned.certificate.verdict and loaded.wagers.weights is not None
    save_certificate(loaded, tmp_path / "again.json")
    assert path.read_bytes() == (tmp_path / "again.json").read_bytes()


def changed(claim, place, value):
    forged = copy.deepcopy(claim)
    where = forged["bets"]
    for key in place[:-1]:
        where = where[key]
    where[place[-1]] = value
    return forged


def test_claims_beyond_the_bets_are_rejected(tmp_path, learned):
    path = tmp_path / "bets.json"
    save_certificate(learned.certificate, path)
    claim = json.loads(path.read_text())
    bets, one = claim["bets"], (1.0).hex()

    def refused(**changes):
        forged = copy.deepcopy(claim)
        for key, value in changes.items():
            forged["bets"][key] = value
        path.write_bytes(forged_file(forged))
        code, lines = opinion(path)
        assert code == 1, (changes, lines)

    refused(weights=[one, one])
    refused(weights=bets["weights"][:1])
    refused(policies=bets["policies"][:1])
    refused(policies=[])
    refused(policies=None)
    last = bets["attempts"][-1]
    refused(attempts=[*bets["attempts"][:-1], last | {"aim": 0}])
    refused(attempts=[*bets["attempts"][:-1], last | {"aim": last["budget"] + 1}])
    refused(attempts=[*bets["attempts"][:-1], last | {"bets": [[-abs(x) for x in row] for row in last["bets"]]}])
    refused(attempts=[])
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
        found = prove_family(arguments[0][:1], arguments[1][:1], each_of(1), *arguments[3:], **options)
        bounds = np.minimum(found.proved.bounds, -1e-6)
        return found._replace(
            taken=None, before=(), proved=certified.replace(found.proved, in_bounds=False, bounds=bounds)
        )

    def watched(*arguments, level, **options):
        levels.append(level)
        return proved(*arguments, level=level, **options)

    monkeypatch.setattr(certified, "prove_family", failing)
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
    claims = between_neighbours(2, [0.5])

    def guess(evidence, policy):
        return guess_from_model(evidence.model(), policy)

    def explore(source, *_):
        source.evidence.add_starts(source.draws, 100)
        source.evidence.try_pairs(source.draws, np.full(4, 20))
        source.explored = True
        return 80

    def stubborn(evidence, *_):
        return certified.Family(
            tuple(policies[::-1]), tuple(guess(evidence, policy) for policy in policies[::-1]), claims
        )

    monkeypatch.setattr(certified.ModelSource, "_explore", explore)
    monkeypatch.setattr(certified, "family", stubborn)
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
    for first in (1, 300, unbroken.samples):
        with pytest.raises(Broken) as caught:
            learned(Fuse(first), seed)
        partial = caught.value.partial
        assert partial.status == "interrupted"
        assert partial.policy is None or (partial.certificate.in_bounds and partial.policy is partial.candidate)
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
    plan = certified.Family(tuple(policies), (), between_neighbours(2, [0.25]))
    assert plan.claimed(0) is policies[0] and plan.claimed(2) is policies[1]
    assert plan.claimed(1).weights.tolist() == [0.75, 0.25]


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
