"""Mixtures: a coin at the start of an episode, never a stationary policy in disguise."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inbounds as ib
import naive_proofs
import reference
import strategies
from fuzz.certificates import Files, opinion
from inbounds.problem.mixture import members_of
from inbounds.proofs.certificate import MixtureProof
from inbounds.proofs.files import load_certificate, save_certificate, sealed
from naive_proofs import CRITERIA, proof_of_a_mixture
from test_known_model import random_policy
from test_policy import machine


@pytest.fixture(scope="module")
def queue():
    return ib.zoo.queue()


@pytest.fixture(scope="module")
def mixture(queue):
    return ib.Mixture([0.75, 0.25], [ib.solve(queue).policy, ib.slater(queue).policy])


def randomised(cmdp, seed):
    """A policy without a pattern, at each stage if there are any."""
    rng, stages = np.random.default_rng(seed), cmdp.shape[:-1]
    weights = rng.exponential(size=cmdp.shape)
    return (
        ib.Policy(cmdp.pairs, weights / cmdp.pairs.sum_by_state(weights)[..., cmdp.pairs.states])
        if stages
        else (random_policy(cmdp, seed))
    )


# --- the record ---


def test_the_coin_is_thrown_once_an_episode(mixture):
    rng = np.random.default_rng(0)
    drawn = [mixture.draw(rng) for _ in range(4000)]
    assert all(policy is mixture.policies[0] or policy is mixture.policies[1] for policy in drawn)
    often = sum(policy is mixture.policies[0] for policy in drawn)
    assert abs(often - 3000) < 4 * np.sqrt(4000 * 0.75 * 0.25)  # one in 16,000 by chance
    never = ib.Mixture([0.0, 1.0, 0.0], [mixture.policies[k] for k in (0, 1, 0)])
    assert all(never.draw(rng) is mixture.policies[1] for _ in range(100))


@pytest.mark.parametrize("name", ["act", "compare", "table", "by_label", "probabilities", "at"])
def test_it_does_not_act_in_a_state(mixture, name):
    with pytest.raises(AttributeError, match=rf"a Mixture has no '{name}' of its own: .* mixture\.draw\(rng\)"):
        getattr(mixture, name)
    assert not hasattr(mixture, name)
    with pytest.raises(AttributeError, match="'Mixture' object has no attribute 'unicorn'"):
        _ = mixture.unicorn


def test_it_is_a_record(mixture):
    assert repr(mixture) == "Mixture(2 policies with the weights 0.75, 0.25; 6 states)"
    assert repr(ib.Mixture([1.0], mixture.policies[:1])) == "Mixture(1 policy with the weight 1; 6 states)"
    many = ib.Mixture(np.full(8, 0.125), [mixture.policies[0]] * 8)
    assert repr(many).startswith("Mixture(8 policies with the weights 0.125, 0.125, 0.125, 0.125, 0.125, ...;")
    with pytest.raises(dataclasses.FrozenInstanceError):
        mixture.weights = np.ones(2)
    with pytest.raises(ValueError, match="read-only"):
        mixture.weights[0] = 1.0
    for other in (pickle.loads(pickle.dumps(mixture)), copy.deepcopy(mixture)):
        assert np.array_equal(other.weights, mixture.weights) and repr(other) == repr(mixture)
    nearly = ib.Mixture([0.75 + 1e-10, 0.25], mixture.policies)
    assert nearly.weights.sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(
    ("weights", "members", "message"),
    [
        ([], [], "a mixture needs at least one policy"),
        ([0.5], [0, 1], "the weights of a mixture must have 2 entries"),
        ([0.7, 0.7], [0, 1], r"must be >= 0 and sum to 1, found \[0.7, 0.7\]"),
        ([1.5, -0.5], [0, 1], "must be >= 0 and sum to 1"),
        ([np.nan, 1.0], [0, 1], "must be >= 0 and sum to 1"),
        ([np.inf, 1.0], [0, 1], "must be >= 0 and sum to 1"),
        ("ab", [0, 1], "the weights of a mixture must be numbers, found str"),
    ],
)
def test_wrong_weights_are_refused(mixture, weights, members, message):
    with pytest.raises(ib.InvalidInput, match=message):
        ib.Mixture(weights, [mixture.policies[k] for k in members])


def test_wrong_policies_are_refused(queue, mixture):
    with pytest.raises(ib.InvalidInput, match=r"policy 1 of the mixture must be an ib\.Policy, found Mixture"):
        ib.Mixture([0.5, 0.5], [mixture.policies[0], mixture])
    with pytest.raises(ib.InvalidInput, match="the policies of a mixture must be a list, found Policy"):
        ib.Mixture([1.0], mixture.policies[0])
    other = ib.Policy.uniform(ib.zoo.jump_grid())
    with pytest.raises(ib.InvalidInput, match=r"a mixture is given its weights first: ib\.Mixture\(\[0\.75, 0\.25\], "):
        ib.Mixture(mixture.policies, [0.75, 0.25])
    with pytest.raises(ib.InvalidInput, match=r"must be of one problem; number 1: the policy .* does not belong"):
        ib.Mixture([0.5, 0.5], [mixture.policies[0], other])


def test_labels_travel_whatever_their_order(tmp_path):
    first, second = machine(), machine((2, 0, 3, 1), ("repair", "run"))
    own, other = ib.slater(first).policy, ib.solve(second).policy
    mixed = ib.Mixture([0.5, 0.5], [own, other])
    assert mixed.policies[1].pairs is first.pairs and mixed.policies[1].by_label() == {
        state: other.by_label()[state] for state in mixed.policies[1].by_label()
    }
    judged = ib.evaluate(first, mixed)
    mean = 0.5 * (ib.evaluate(first, own).reward + ib.evaluate(first, other).reward)
    assert judged.reward == pytest.approx(mean, abs=1e-12)
    assert ib.evaluate(second, mixed).reward == pytest.approx(mean, abs=1e-12)
    mixed.save(tmp_path / "mixed.npz")
    loaded = ib.Mixture.load(tmp_path / "mixed.npz")
    assert loaded.draw(np.random.default_rng(0)).by_label() == mixed.draw(np.random.default_rng(0)).by_label()
    assert ib.evaluate(second, loaded).reward == ib.evaluate(second, mixed).reward
    renamed = dataclasses.replace(first, state_labels=("wear 0", "wear 1", "broken", "wear 3"))
    with pytest.raises(ib.InvalidInput, match="it has no state 'broken'"):
        ib.evaluate(renamed, mixed)


# --- values ---


@given(strategies.with_policies(count=3), st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any))
def test_values_are_the_weighted_means(drawn, shares):
    cmdp, policies = drawn
    weights = np.array(shares) / sum(shares)
    mixed, parts = ib.evaluate(cmdp, ib.Mixture(weights, policies)), [ib.evaluate(cmdp, policy) for policy in policies]
    for what in ("reward", "margins", "occupancy", "total_reward", "total_margins"):
        mean = sum(weight * getattr(part, what) for weight, part in zip(weights, parts, strict=True))
        assert np.max(np.abs(getattr(mixed, what) - mean), initial=0.0) < 1e-12 * max(
            1.0, np.max(np.abs(mean), initial=0)
        )
    assert np.array_equal(ib.occupancy(cmdp, ib.Mixture(weights, policies)), mixed.occupancy)


@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
def test_values_in_rationals(criterion):
    """By enumeration of the coin, for every criterion; for averages also where a policy makes two classes."""
    for seed in range(5):
        stored = naive_proofs.drawn_model(criterion, seed)
        cmdp = ib.CMDP(
            stored.offsets, stored.transition, stored.reward, stored.constraints, stored.initial, **criterion
        )
        policies = [randomised(cmdp, seed), randomised(cmdp, seed + 50), ib.Policy.uniform(cmdp)]
        weights = [Fraction(1, 2), Fraction(1, 8), Fraction(3, 8)]
        known = naive_proofs.exact(stored)
        each = [
            naive_proofs.values(known, naive_proofs.by_state(known, policy.probabilities.ravel()), known.gains)
            for policy in policies
        ]
        truth = [float(naive_proofs.dot(weights, column)) for column in zip(*each, strict=True)]
        judged = ib.evaluate(cmdp, ib.Mixture([float(weight) for weight in weights], policies))
        np.testing.assert_allclose([judged.reward, *judged.margins], truth, atol=1e-12)


def test_two_classes_and_a_coin():
    """Averages: each policy stays where it goes first, and the two never meet again; the coin decides for good."""
    cmdp = ib.CMDP(
        offsets=[0, 2, 4, 6],
        transition=np.eye(3)[[1, 2, 1, 0, 2, 0]],  # from 0 to either side; there, stay or go back
        reward=[0.0, 0.0, 1.0, 0.0, 5.0, 0.0],
        constraints=(),
        initial=[1.0, 0.0, 0.0],
        average=True,
    )
    left, right = ib.Policy.deterministic(cmdp, [0, 2, 4]), ib.Policy.deterministic(cmdp, [1, 2, 4])
    coin = ib.Mixture([0.25, 0.75], [left, right])
    assert ib.evaluate(cmdp, coin).reward == pytest.approx(4.0, abs=1e-12)
    # One policy has to go from one to the other now and then: in a share of the time that is 1e-7.
    one = ib.evaluate(cmdp, ib.mix(cmdp, coin))
    assert one.reward == pytest.approx(4.0, abs=5e-7)
    assert one.occupancy[[2, 4]] == pytest.approx([0.25, 0.75], abs=1e-7)


def test_averaging_rows_is_another_thing():
    cmdp, first, second, mixed, averaged = reference.rows_do_not_average()
    coin = ib.Mixture([0.5, 0.5], [first, second])
    assert ib.evaluate(cmdp, coin).reward == pytest.approx(mixed, abs=1e-15) != averaged
    one = ib.mix(cmdp, coin.policies, coin.weights)
    assert ib.evaluate(cmdp, one).reward == pytest.approx(mixed, abs=1e-15)


def test_stationary_and_staged_members():
    media = ib.zoo.media()
    staged, flat = ib.solve(media).policy, ib.Policy(media.pairs, ib.Policy.uniform(media).probabilities[0])
    coin = ib.Mixture([0.5, 0.5], [staged, flat])
    mean = 0.5 * (ib.evaluate(media, staged).reward + ib.evaluate(media, flat).reward)
    assert ib.evaluate(media, coin).reward == pytest.approx(mean, abs=1e-12)
    assert [member.horizon for member in members_of(media, coin)[1]] == [10, 10]


# --- where a policy is needed ---


def test_it_is_refused_where_a_policy_is_needed(queue, mixture):
    cut = ib.truncate(queue, horizon=3)
    for ask in (
        lambda: ib.estimate(queue.simulator(), mixture, samples=100),
        lambda: ib.mix(queue, [mixture, mixture.policies[0]]),
        lambda: ib.Policy.from_occupancy(queue, np.zeros(queue.n_pairs), otherwise=mixture),
        lambda: cut.to_stationary(ib.solve(cut.problem).policy, afterwards=mixture),
        lambda: cut.to_stationary(mixture),
    ):
        with pytest.raises(ib.InvalidInput, match=r"must be an ib\.Policy, found Mixture: it draws .* ib\.mix\(cmdp"):
            ask()


# --- files ---


@pytest.mark.parametrize("suffix", ["npz", "json"])
@pytest.mark.parametrize("make", [machine, ib.zoo.queue, ib.zoo.media])
def test_files_keep_every_bit(tmp_path, make, suffix):
    cmdp = make()
    saved = ib.Mixture([0.1, 0.2, 0.7], [randomised(cmdp, seed) for seed in range(3)])
    for name in ("one", "other"):
        saved.save(tmp_path / f"{name}.{suffix}")
    assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"other.{suffix}").read_bytes()
    loaded = ib.Mixture.load(tmp_path / f"one.{suffix}")
    assert np.array_equal(loaded.weights, saved.weights)
    assert all(np.array_equal(*(m.probabilities for m in p)) for p in zip(loaded.policies, saved.policies, strict=True))
    assert loaded.pairs.state_labels == saved.pairs.state_labels
    assert loaded.pairs.action_labels == saved.pairs.action_labels
    if suffix == "json":
        assert [set(member) for member in json.loads((tmp_path / "one.json").read_text())["policies"]] == 3 * [
            {"kind", "version", "stages", "actions", "states"}
        ]
        return
    with np.load(tmp_path / "one.npz", allow_pickle=False) as arrays:
        assert list(arrays) == ["header", "offsets", "actions", "weights", "probabilities"]


def test_texts_that_are_wrong_are_named(tmp_path, mixture):
    path = tmp_path / "mixture.json"
    mixture.save(path)
    whole = json.loads(path.read_text())
    first, second = whole["policies"]

    def refused(message, text=None, **changes):
        path.write_text(json.dumps(whole | changes) if text is None else text)
        with pytest.raises(ib.InvalidInput, match=f"mixture.json: .*{message}"):
            ib.Mixture.load(path)

    refused("is not JSON text", "{")
    refused('a mixture has "kind": "mixture"', "[]")
    refused('a mixture has "kind": "mixture"', kind="policy")
    refused("weight 0 must be a number, found True", weights=[True, False])
    refused("format version 2", version=2)
    refused("format version True", version=True)
    refused("format version 1.0; this version of inbounds reads 1", version=1.0)
    refused("the mixture has the unknown entry 'weight'; there are: kind, version, weights, policies", weight=[1.0])
    refused("must be >= 0 and sum to 1", weights=[0.5, 0.6])
    refused("must have 2 entries", weights=[1.0])
    refused("weight 0 must be a number", weights=["a", "b"])
    refused("must be lists", weights=1.0)
    refused("at least one policy", policies=[])
    refused("policy 1: is not a policy", policies=[first, {}])
    refused("policy 1 has other states", policies=[first, second | {"states": second["states"][::-1]}])
    mixture.save(path)
    with pytest.raises(ib.InvalidInput, match=r"mixture\.json: is not a policy.*ib\.Mixture"):
        ib.Policy.load(path)


def test_files_that_are_wrong_are_named(tmp_path, queue, mixture):
    path = tmp_path / "mixture.npz"
    mixture.save(path)
    with np.load(path) as arrays:
        whole = dict(arrays)

    def refused(message, **changes):
        np.savez(path, **{name: array for name, array in (whole | changes).items() if array is not None})
        with pytest.raises(ib.InvalidInput, match=f"mixture.npz: .*{message}"):
            ib.Mixture.load(path)

    refused("must be >= 0 and sum to 1", weights=np.array([0.5, 0.6]))
    refused("must have the shape", weights=np.array([1.0]))
    refused("probabilities sum to", probabilities=0.5 * whole["probabilities"])
    refused("has no member 'offsets.npy'; a mixture has the members", offsets=None)
    refused("holds a policy, where a mixture is wanted", weights=None)
    refused("must rise from 0", offsets=whole["offsets"][::-1].copy())
    refused("no states, no pairs or no policies", weights=np.empty(0), probabilities=np.empty((0, queue.n_pairs)))
    refused("of the kind 'cmdp'", header=np.frombuffer(b'{"kind": "cmdp", "version": 2}', np.uint8))
    refused("format version 7", header=np.frombuffer(b'{"kind": "mixture", "version": 7}', np.uint8))
    refused("not JSON", header=np.frombuffer(b"{", np.uint8))
    queue.save(tmp_path / "queue.npz")
    with pytest.raises(ib.InvalidInput, match=r"queue\.npz: holds a model, where a mixture is wanted"):
        ib.Mixture.load(tmp_path / "queue.npz")
    mixture.save(path)
    with pytest.raises(ib.InvalidInput, match=r"mixture\.npz: holds a mixture, where a model is wanted"):
        ib.load(path)
    with pytest.raises(
        ib.InvalidInput, match=r"the suffix '\.toml' is not a mixture format; it must be \.json or \.npz"
    ):
        mixture.save(tmp_path / "mixture.toml")


# --- proofs on a known model ---


@pytest.mark.parametrize("exact", [False, True])
def test_proofs_are_linear_and_checked(tmp_path, queue, mixture, exact):
    best = ib.solve(queue)
    certificate = ib.certify(mixture, queue, exact=exact, prices=best.prices, value_function=best.value_function)
    judged = ib.evaluate(queue, mixture)
    np.testing.assert_allclose(certificate.margins_lower, judged.margins, atol=1e-12)
    assert certificate.reward_lower == pytest.approx(judged.reward, abs=1e-12) and certificate.in_bounds
    assert certificate.reward_upper == pytest.approx(best.reward, abs=1e-9)
    accepted, lines = Files(tmp_path, queue, certificate).verify()
    assert accepted and lines[0] == "the mixture is in bounds" and len(lines) == 5


@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
def test_a_member_may_be_out_of_bounds(tmp_path, criterion):
    """The mixture is in bounds by 1e-3, proved in both arithmetics; the safe policy alone carries it."""
    out = 0
    for seed in range(6):
        stored, by_hand = proof_of_a_mixture(criterion, seed, weights=(0.5, 0.25, 0.25))
        cmdp = ib.CMDP(
            stored.offsets, stored.transition, stored.reward, stored.constraints, stored.initial, **criterion
        )
        members = [ib.Policy(cmdp.pairs, m.probabilities.reshape(cmdp.shape)) for m in by_hand.proof.members]
        for exact in (False, True):
            certificate = ib.certify(ib.Mixture(by_hand.proof.weights, members), cmdp, exact=exact)
            assert certificate.in_bounds
            np.testing.assert_allclose(certificate.margins_lower, by_hand.margins_lower, atol=1e-11)
            assert Files(tmp_path, cmdp, certificate).verify()[0]
        out += any(not ib.certify(member, cmdp).in_bounds for member in members)
    assert out >= 3


def test_a_margin_of_exactly_zero_is_proved_in_rationals(tmp_path):
    """Margins of 1/3 and -1/3, neither a double: their mean is 0, to the last bit."""
    cmdp = ib.CMDP(
        [0, 2],
        [[1.0], [1.0]],
        [0.0, 1.0],
        [ib.Constraint([2.0, 1.0], at_least=1.5, name="half")],
        [1.0],
        1.0 / 3.0,
    )
    members = [ib.Policy.deterministic(cmdp, [0]), ib.Policy.deterministic(cmdp, [1])]
    certificate = ib.certify(ib.Mixture([0.5, 0.5], members), cmdp, exact=True)
    assert certificate.margins_lower[0] == 0.0 and certificate.in_bounds
    assert Files(tmp_path, cmdp, certificate).verify()[0]
    less = ib.certify(ib.Mixture([0.5 - 2**-40, 0.5 + 2**-40], members), cmdp, exact=True)
    assert not less.in_bounds


def test_of_one_policy_it_says_the_same(queue, mixture):
    alone, coin = (ib.certify(it, queue) for it in (mixture.policies[1], ib.Mixture([1.0], mixture.policies[1:])))
    assert np.array_equal(alone.margins_lower, coin.margins_lower) and alone.reward_lower == coin.reward_lower
    never = ib.Mixture([0.0, 1.0], [ib.Policy.uniform(queue), mixture.policies[1]])
    assert np.array_equal(ib.certify(never, queue).margins_lower, alone.margins_lower)


def test_certificates_come_back_from_their_files(tmp_path, queue, mixture):
    certificate = ib.certify(mixture, queue)
    save_certificate(certificate, tmp_path / "one.json")
    loaded = load_certificate(tmp_path / "one.json")
    assert isinstance(loaded.proof, MixtureProof) and np.array_equal(loaded.proof.weights, mixture.weights)
    assert loaded.verdict == certificate.verdict and loaded.proof.criterion == queue.criterion
    save_certificate(loaded, tmp_path / "other.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "other.json").read_bytes()


@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
def test_structures_that_are_wrong_are_rejected(tmp_path, criterion):
    files = Files(tmp_path, *proof_of_a_mixture(criterion, 0))
    assert files.verify()[0] and files.is_true(files.claim)
    one = (1.0).hex()
    for change in (
        {"weights": files.claim["weights"][::-1]},
        {"weights": [one, one]},
        {"weights": [one]},
        {"weights": [*files.claim["weights"], (0.0).hex()]},
        {"weights": [(-0.25).hex(), (1.25).hex()]},
        {"weights": []},
        {"weights": None},
        {"weights": 2},
        {"policies": files.claim["policies"][:1]},
        {"policies": files.claim["policies"][::-1]},
        {"policies": None},
        {"policies": []},
        {"weights": [], "policies": [], "margin_vectors": [], "reward_vectors": []},
        {"margin_vectors": files.claim["margin_vectors"][0]},
        {"margin_vectors": [row[:1] for row in files.claim["margin_vectors"]]},
        {"reward_vectors": files.claim["reward_vectors"][0]},
        {"statement": "policy"},
        {"reward_vector": files.claim["reward_vectors"][0]},
        {"policy": files.claim["policies"][0]},
    ):
        accepted, lines = files.verify(claim=files.claim | change)
        assert not accepted, (change, lines)


def test_widths_add_up_over_members(tmp_path, monkeypatch):
    """What the exact sums of a mixture may take is shared by its members; rounded, they prove the same doubles."""
    from fuzz import certificates
    from inbounds.proofs import verify

    files = Files(tmp_path, *proof_of_a_mixture({"horizon": 3}, 0, weights=(0.25,) * 4))
    for limit in (12_000, 3_000):  # of bits; with the second, the bounds of the members are rounded
        monkeypatch.setattr(verify, "WIDEST", limit)
        monkeypatch.setattr(certificates.second, "WIDEST", limit)
        code, lines = opinion(files.model, files.certificate)
        assert code == 0, lines


# --- proofs from samples ---


def test_walks_of_a_mixture_have_the_mean_of_its_values(queue, mixture):
    """A z-test of what is bet on, with right guesses, with wrong ones, and of the least value."""
    from inbounds.proofs.evidence import new_log
    from inbounds.proofs.walks import draw_mixed_walk, guess_from_array, guess_from_model, make_walker

    simulator, model = queue.simulator(), queue.simulator().scaling.model(queue)
    judged = ib.evaluate(model, mixture)
    truth, rng = np.array([judged.reward, *judged.margins]), np.random.default_rng(5)
    wrong = guess_from_array(np.random.default_rng(1).uniform(-1, 1, (queue.n_pairs, 3)), mixture.policies[1])
    bold, safe = (guess_from_model(model, policy) for policy in mixture.policies)
    poor = guess_from_model(model.tightened(0.1), mixture.policies[0])
    for guesses, right in (((bold, safe), True), ((poor, safe), False), ((bold, wrong), False)):
        walker = make_walker(simulator, mixture.weights, mixture.policies, guesses)
        log, totals, guessed = new_log(simulator, 0), np.empty(3), np.empty(3, dtype=np.int64)
        seen = np.empty((5000, 3))
        for number in range(len(seen)):
            draw_mixed_walk(walker, simulator.open(), rng, log, 0, 10**9, totals, guessed)
            seen[number] = totals
        assert np.all(seen >= walker.least)
        errors = seen.std(axis=0) / np.sqrt(len(seen))
        assert np.all(np.abs(seen.mean(axis=0) - truth) < 4.5 * errors)  # nine tests: one in 16,000 by chance
        if right:  # the coin adds nothing; a kurtosis of 20 makes an error of 6 %
            np.testing.assert_allclose(seen.var(axis=0), walker.variance, rtol=0.25)


def test_certified_from_samples(queue, mixture):
    simulator = queue.simulator()
    certificate = ib.certify(mixture, simulator, samples=50_000, seed=1)
    assert certificate.in_bounds and certificate.kind == "confidence"
    assert np.all(certificate.margins_lower <= ib.evaluate(queue, mixture).margins)
    again = ib.certify(mixture, simulator, samples=50_000, seed=1)
    assert np.array_equal(again.margins_lower, certificate.margins_lower) and again.samples == certificate.samples
    assert ib.certify(mixture, simulator, samples=50_000, seed=1, value=queue).samples < certificate.samples
    never = ib.Mixture([0.0, 1.0], mixture.policies)
    alone = ib.certify(mixture.policies[1], simulator, samples=50_000, seed=1)
    assert np.array_equal(ib.certify(never, simulator, samples=50_000, seed=1).margins_lower, alone.margins_lower)
    with pytest.raises(ib.InvalidInput, match="does not belong"):
        ib.certify(mixture, ib.zoo.jump_grid().simulator(), samples=100)


def test_a_mixture_on_the_edge_is_rarely_certified():
    """A margin of exactly zero, from one policy above and one below: at most 10 % of 2,000, plus three errors."""
    cmdp = ib.CMDP(
        [0, 2],
        [[1.0], [1.0]],
        [0.0, 1.0],
        [ib.Constraint([1.0, -1.0], at_least=0.0, name="signal")],
        [1.0],
        0.5,
    )
    mixture = ib.Mixture([0.5, 0.5], [ib.Policy.deterministic(cmdp, [0]), ib.Policy.deterministic(cmdp, [1])])
    assert ib.evaluate(cmdp, mixture).margins[0] == 0.0
    simulator, nothing = cmdp.simulator(), np.zeros((2, 2))
    runs = 2000
    wrong = sum(
        ib.certify(mixture, simulator, samples=120, confidence=0.9, seed=seed, value=nothing).in_bounds
        for seed in range(runs)
    )
    assert wrong / runs <= 0.1 + 3 * np.sqrt(0.09 / runs)
    assert wrong > 0  # the bets do bet


@pytest.mark.parametrize("weights", [[0.5, 0.6], [-0.5, 1.5]])
def test_a_certificate_with_weights_that_are_none_is_not_loaded(tmp_path, weights):
    files = Files(tmp_path, *proof_of_a_mixture({"discount": 0.5}, 0, weights=(0.5, 0.5)))
    files.certificate.write_bytes(sealed(files.claim | {"weights": [float(weight).hex() for weight in weights]}))
    with pytest.raises(ib.InvalidInput, match="weights of a mixture must be >= 0 and sum to 1"):
        load_certificate(files.certificate)
