"""The record of a certificate: its table, its verdict, and its file."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import inbounds as ib
from inbounds.formats import npz
from inbounds.proofs.certificate import Certificate
from inbounds.proofs.files import load_certificate, save_certificate, sealed
from inbounds.proofs.known_model import certify_infeasible, certify_known
from inbounds.proofs.verify import verify, verify_bets
from inbounds.tables import outwards
from naive_proofs import CRITERIA, proof_of_a_policy, proof_of_infeasibility


@pytest.fixture(scope="module")
def queue():
    return ib.zoo.queue()


@pytest.fixture(scope="module")
def proved(queue):
    best = ib.solve(queue)
    policy = ib.mix(queue, [best.policy, ib.slater(queue).policy], [0.5, 0.5])
    return certify_known(policy, queue, prices=best.prices, value_function=best.value_function)


@pytest.fixture(scope="module")
def infeasible(queue):
    impossible = queue.tightened(1.0)
    with pytest.raises(ib.Infeasible) as caught:
        ib.solve(impossible)
    return certify_infeasible(caught.value, impossible)


def sampled(constraints, lowers, **changes):
    """What a judge that has only samples would say."""
    fields = {
        "in_bounds": min(lowers) >= 0.0,
        "kind": "confidence",
        "constraints": constraints,
        "margins_lower": np.array(lowers),
        "methods": ("betting",) * len(lowers),
        "confidence": 0.99,
        "samples": 12_345,
    }
    return Certificate(**(fields | changes))


LIMITS = (ib.Constraint(at_most=0.25, name="energy"), ib.Constraint(at_least=-2.0, name="service level"))


def test_table_of_a_proof(proved):
    lines = str(proved).splitlines()
    assert lines[0].split() == ["constraint", "bound", "margin", "at", "least", "how"]
    assert len(lines) == 2 + 2 + 1 + 2  # a heading and its rule, two constraints, the reward, two lines of verdict
    assert lines[2].split() == ["service", ">=", "0", outwards(proved.margins_lower[0]), "rounding", "bounded"]
    assert "optimum at most" in lines[4]
    assert lines[5].startswith("in bounds: proved, every rounding error bounded; at most 0.0")
    assert repr(proved) == f"Certificate({' '.join(lines[5:])})"


@pytest.mark.parametrize("gap", [5e-12, 3e-7, 0.2, 0.0])
def test_the_reward_and_its_ceiling_are_printed_no_further_apart_than_they_are(gap):
    """Up to a tenth: as the sentence below the table says it."""
    made = sampled(LIMITS, [0.0, 0.0], kind="exact", reward_lower=32.855623456, reward_upper=32.855623456 + gap)
    least, most = re.search(r"\(reward\) +(\S+) +optimum at most (\S+)", str(made)).groups()
    assert Fraction(least) <= Fraction(made.reward_lower) <= Fraction(made.reward_upper) <= Fraction(most)
    assert float(Fraction(most) - Fraction(least)) <= (1.1 * made.gap if gap else 1.1e-4)


def test_table_of_samples():
    assert str(sampled(LIMITS, [0.01, 0.2])) == (
        "constraint       bound  margin at least  how\n"
        "-------------  -------  ---------------  -------\n"
        "energy         <= 0.25             0.01  betting\n"
        "service level    >= -2              0.2  betting\n"
        "in bounds: with confidence 0.99, from 12,345 samples\n"
        "(one by one, with confidence 0.99 each: it is in bounds; all bounds hold at\n"
        "once)"
    )


def test_what_holds_at_once_and_what_one_by_one():
    assert sampled(LIMITS, [0.01, -0.2]).claims == "all bounds hold at once, with confidence 0.99"
    zero = sampled(LIMITS, [0.0, 0.2], methods=("betting for all margins", "betting for all bounds"))
    assert zero.claims.endswith("all bounds hold at once, those betting for all margins apart")
    assert zero.to_dict()["claims"] == zero.claims


@pytest.mark.parametrize("confidence", [0.9999999, 1.0 - 1e-15, 1.0 - 2.0**-53])
def test_no_confidence_is_printed_as_certainty(queue, confidence):
    made = ib.certify(ib.Policy.uniform(queue), queue.simulator(), samples=10, confidence=confidence)
    assert f"confidence {confidence!r}" in made.claims and "confidence 1)" not in str(made)
    assert f"confidence {confidence!r}," in replace(made, in_bounds=True).verdict
    found = ib.estimate(queue.simulator(), ib.Policy.uniform(queue), samples=10, confidence=confidence)
    assert f"{confidence!r} interval" in str(found)


def test_what_was_broken_off_before_its_first_bet_is_rejected_as_that(tmp_path, queue):
    begun = ib.certify(ib.Policy.uniform(queue), queue.simulator(), samples=1_000, time_limit=1e-9)
    assert begun.wagers is None
    save_certificate(begun, tmp_path / "begun.json")
    accepted, lines = verify_bets(str(tmp_path / "begun.json"))
    assert not accepted and lines == ["it holds no bets: its proof was broken off before the first"]


def test_verdict_names_what_is_not_proved():
    certificate = sampled(LIMITS, [0.01, -0.5])
    assert certificate.verdict == "not proved to be in bounds (confidence): 'service level' (margin at least -0.5)"
    nothing = sampled(LIMITS, [-math.inf, math.nan], in_bounds=False, kind="estimate")
    assert "'energy' (margin at least -inf)" in nothing.verdict and "'service level'" in nothing.verdict
    assert "estimate, not a proof" in sampled(LIMITS, [0.0, 0.0], kind="estimate").verdict


def test_no_constraint():
    certificate = Certificate(True, "exact", (), np.empty(0), ())
    assert certificate.verdict == "in bounds: proved in exact arithmetic"
    assert str(certificate).count("\n") == 2


def test_printed_bounds_are_proved_too():
    """Up to the 17 digits that a gap of the last bit asks for; and they are the nearest that are."""
    rng = random.Random(0)
    for digits in (6, 10, 15, 16, 17):
        for _ in range(500):
            bound = rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-20, 20)
            least, most = Fraction(outwards(bound, digits=digits)), Fraction(outwards(bound, True, digits))
            assert least <= Fraction(bound) <= most
            assert most - least <= Fraction(abs(bound)) / 10 ** (digits - 1)
            if digits <= 15:  # so many digits of a float are as they were
                assert [f"{float(end):.{digits}g}" for end in (least, most)] == [
                    outwards(bound, up, digits) for up in (False, True)
                ]
    assert outwards(0.0) == "0" and outwards(math.inf) == "inf"


def test_a_gap_is_rounded_up_and_so_are_its_digits():
    """Of a float, and of the decimal that is shown: both ends of a reward that is known to the last bit."""
    wide = sampled(LIMITS, [0.0, 0.0], kind="exact", reward_lower=-1e-17, reward_upper=1.0)
    assert Fraction(wide.gap) >= 1 + Fraction(1e-17) and "at most 1.00001 below" in wide.verdict
    for reward in (0.94674638746113438, 0.36282535347632788, 0.1, 32.855623456):
        for upper in (reward, math.nextafter(reward, 1e9)):
            made = sampled(LIMITS, [0.0, 0.0], kind="exact", reward_lower=reward, reward_upper=upper)
            least, most = re.search(r"\(reward\) +(\S+) +optimum at most (\S+)", str(made)).groups()
            assert Fraction(least) <= Fraction(reward) <= Fraction(upper) <= Fraction(most)


def test_to_dict_is_json(proved, infeasible):
    for certificate in (proved, infeasible, sampled(LIMITS, [-math.inf, 0.0], in_bounds=False)):
        facts = json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
        assert facts["verdict"] == certificate.verdict and len(facts["constraints"]) == 2
    facts = proved.to_dict()
    assert facts["in_bounds"] and facts["kind"] == "rounding-bounded" and facts["samples"] == 0
    assert facts["constraints"][0] == {
        "name": "service",
        "at_least": 0.0,
        "margin_lower": proved.margins_lower[0],
        "method": "rounding bounded",
    }
    assert sampled(LIMITS, [-math.inf, 0.0], in_bounds=False).to_dict()["constraints"][0]["margin_lower"] is None


def test_table_of_an_infeasibility(infeasible):
    lines = str(infeasible).splitlines()
    assert lines[0].split() == ["constraint", "bound", "weight"] and len(lines) == 6
    assert lines[-2].startswith("no policy is in bounds: proved with every rounding error bounded")
    assert "not proved" in replace(infeasible, infeasible=False, margin_upper=0.1).verdict


def test_files_keep_every_bit(tmp_path, proved, infeasible):
    path = tmp_path / "certificate.json"
    without_price = replace(
        proved, reward_upper=math.inf, proof=replace(proved.proof, prices=None, value_function=None)
    )
    nothing = replace(proved, reward_lower=-math.inf)
    for certificate in (proved, without_price, nothing, sampled(LIMITS, [0.1, -0.2])):
        save_certificate(certificate, path)
        back = load_certificate(path)
        assert str(back) == str(certificate) and back.to_dict() == certificate.to_dict()
        assert back.margins_lower.tobytes() == certificate.margins_lower.tobytes()
        assert back.reward_lower == certificate.reward_lower and back.in_bounds == certificate.in_bounds
        assert (back.proof is None) == (certificate.proof is None)
        assert (back.model is None) == (certificate.model is None)
        if back.proof is not None:
            assert back.proof.criterion == certificate.proof.criterion == {"discount": 0.5}
            for name in ("probabilities", "margin_vectors", "reward_vector", "prices", "value_function"):
                one, other = getattr(back.proof, name), getattr(certificate.proof, name)
                assert (one is None) == (other is None) and (one is None or np.array_equal(one, other)), name
    save_certificate(infeasible, path)
    back = load_certificate(path)
    assert str(back) == str(infeasible) and np.array_equal(back.value_function, infeasible.value_function)
    assert back.criterion == infeasible.criterion == {"discount": 0.5}


@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
def test_files_keep_every_criterion(tmp_path, criterion):
    path = tmp_path / "certificate.json"
    model, certificate = proof_of_a_policy(criterion, seed=1)
    save_certificate(certificate, path)
    back = load_certificate(path)
    stages = criterion.get("horizon", 1)
    assert back.proof.criterion == criterion and type(*back.proof.criterion.values()) is type(*criterion.values())
    assert back.proof.probabilities.shape == (stages * len(model.actions),)
    assert back.proof.margin_vectors.shape == (2, stages * 3) and back.proof.reward_vector.shape == (stages * 3,)
    assert back.to_dict() == certificate.to_dict() and back.model == npz.digest(model)
    content = path.read_bytes()
    save_certificate(back, path)
    assert path.read_bytes() == content
    _, infeasible = proof_of_infeasibility(criterion, seed=1)
    save_certificate(infeasible, path)
    assert load_certificate(path).criterion == criterion
    assert load_certificate(path).value_function.tobytes() == infeasible.value_function.tobytes()
    document = json.loads(content)
    for odd in ({}, {"discount": 0.5}, {"discount": "0x1p-1", "average": True}, {"horizon": 0}, {"average": 1}, None):
        with pytest.raises(ib.InvalidInput, match=r"damaged\.json: is not a certificate, or is damaged"):
            attempt(tmp_path, sealed(document | {"criterion": odd}), swallow=False)


def test_the_same_certificate_gives_the_same_bytes(tmp_path, proved):
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    save_certificate(proved, one)
    save_certificate(load_certificate(one), other)
    assert one.read_bytes() == other.read_bytes()


def test_a_certificate_names_its_model_by_the_hash_of_its_file(tmp_path, queue, proved, infeasible):
    model, path = tmp_path / "model.npz", tmp_path / "certificate.json"
    for certificate, cmdp in (
        (proved, queue),
        (ib.solve(queue).certificate, queue),
        (infeasible, queue.tightened(1.0)),
    ):
        assert certificate.model is not None
        save_certificate(certificate, path)
        cmdp.save(model)
        digest = hashlib.sha256(model.read_bytes()).hexdigest()
        assert json.loads(path.read_text())["model"] == load_certificate(path).model == digest
    save_certificate(sampled(LIMITS, [0.1, 0.2]), path)
    assert json.loads(path.read_text())["model"] is None and load_certificate(path).model is None


def test_the_examples_in_the_documentation_work(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[1] / "docs" / "certificates.md").read_text(encoding="utf-8")
    first, bets, convert, reseal = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict = {}
    exec(first, names)
    exec(bets, names)
    assert verify_bets("learned.json")[0]
    assert "in bounds: proved" in capsys.readouterr().out
    exec(convert, {})
    assert verify("queue.npz", "queue.json")[0] and verify("checked.npz", "queue.json")[0]
    content = Path("queue.json").read_bytes()
    edited = content.replace(b"rounding bounded", b"by hand")
    Path("queue.json").write_bytes(edited)
    assert not verify("queue.npz", "queue.json")[0]
    exec(reseal, {})
    assert verify("queue.npz", "queue.json")[0] and Path("queue.json").read_bytes()[:-68] == edited[:-68]
    Path("queue.json").write_bytes(content)
    exec(reseal, {})
    assert Path("queue.json").read_bytes() == content


def test_a_model_that_no_file_can_keep(tmp_path, queue):
    """It is certified, but the certificate could be checked against nothing."""
    odd = replace(queue, state_labels=tuple(map(frozenset, ([state] for state in range(queue.n_states)))))
    certificate = ib.solve(odd).certificate
    assert certificate.in_bounds
    with pytest.raises(ib.InvalidInput, match=r"c\.json: cannot be written, because its model .* frozenset"):
        save_certificate(certificate, tmp_path / "c.json")
    assert not list(tmp_path.iterdir())


def test_the_seal_is_the_hash_of_what_comes_before_it(tmp_path, proved, infeasible):
    path = tmp_path / "certificate.json"
    for certificate in (proved, infeasible, sampled(LIMITS, [0.1, 0.2])):
        save_certificate(certificate, path)
        content = path.read_bytes()
        seal = hashlib.sha256(content[:-68]).hexdigest()
        assert content.endswith(f'"seal": "{seal}"\n}}\n'.encode())
        assert list(json.loads(content))[-1] == "seal"
        assert sealed(json.loads(content)) == content


def test_nothing_may_change_without_the_seal(tmp_path, proved):
    path = tmp_path / "certificate.json"
    save_certificate(proved, path)
    content = path.read_bytes()
    for changed in (
        content.replace(b"rounding bounded", b"rounding Bounded"),
        content.replace(b"\n", b"\r\n"),
        content[:-1],
        content + b"\n",
        content.replace(b'"seal": "', b'"sea1": "'),
        json.dumps(json.loads(content)).encode(),
    ):
        assert changed != content
        with pytest.raises(ib.InvalidInput, match=r"damaged\.json: is damaged or edited; its seal is not the SHA-256"):
            attempt(tmp_path, changed, swallow=False)


def test_other_versions_are_named(tmp_path, proved):
    path = tmp_path / "certificate.json"
    save_certificate(proved, path)
    document = json.loads(path.read_text())
    old = {key: value for key, value in document.items() if key not in ("model", "seal")} | {"version": 1}
    for version, content in ((1, json.dumps(old).encode()), (2, sealed(document | {"version": 2}))):
        message = rf"damaged\.json: is a certificate of version {version}, and this version of inbounds reads 3"
        with pytest.raises(ib.InvalidInput, match=message):
            attempt(tmp_path, content, swallow=False)
    with pytest.raises(ib.InvalidInput, match="its kind is not 'inbounds certificate'"):
        attempt(tmp_path, sealed(document | {"kind": "cmdp"}), swallow=False)


def test_damaged_files_end_in_one_message(tmp_path, proved, infeasible):
    path = tmp_path / "certificate.json"
    rng = random.Random(0)
    for certificate in (proved, infeasible):
        save_certificate(certificate, path)
        document = json.loads(path.read_text())
        for key in document:
            for odd in (None, 7, "text", [], ["nan", 3], {"a": 1}, [[["0x1p+0"]]], 10**400):
                attempt(tmp_path, sealed(document | {key: odd}))
        content = path.read_bytes()
        for _ in range(300):
            data = bytearray(content)
            data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
            with pytest.raises(ib.InvalidInput, match=r"damaged\.json: is "):
                attempt(tmp_path, bytes(data[: rng.choice([len(data), len(data), rng.randrange(len(data))])]), False)
    for content in (b"", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"kind": "cmdp"}'):
        with pytest.raises(ib.InvalidInput, match=r"damaged\.json"):
            attempt(tmp_path, content, swallow=False)
    with pytest.raises(ib.InvalidInput, match="cannot be read"):
        load_certificate(tmp_path / "missing.json")
    with pytest.raises(ib.InvalidInput, match="cannot be written"):
        save_certificate(proved, tmp_path / "no such folder" / "certificate.json")


def attempt(folder, content, swallow=True):
    """Load a file; it comes out as a certificate that can be shown, or ends in `InvalidInput`."""
    path = folder / "damaged.json"
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    try:
        certificate = load_certificate(path)
        str(certificate), json.dumps(certificate.to_dict(), allow_nan=False)
    except ib.InvalidInput:
        if not swallow:
            raise
