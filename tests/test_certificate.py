"""The record of a certificate: its table, its verdict, and its file."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import inbounds as ib
from inbounds.certify.certificate import Certificate, printed
from inbounds.certify.exact import certify_exact, certify_infeasible
from inbounds.certify.files import load_certificate, save_certificate


@pytest.fixture(scope="module")
def queue():
    return ib.zoo.queue()


@pytest.fixture(scope="module")
def proved(queue):
    best = ib.solve(queue)
    policy = ib.mix(queue, [best.policy, ib.slater(queue).policy], [0.5, 0.5])
    return certify_exact(policy, queue, prices=best.prices, value_function=best.value_function)


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
    assert len(lines) == 1 + 2 + 1 + 1  # a heading, two constraints, the reward, one line of verdict
    assert lines[1].split() == ["service", "at", "least", "0", printed(proved.margins_lower[0]), "rounding", "bounded"]
    assert "optimum at most" in lines[3]
    assert lines[4].startswith("in bounds: proved, every rounding error bounded; at most 0.0")
    assert repr(proved) == f"Certificate({lines[4]})"


def test_table_of_samples():
    assert str(sampled(LIMITS, [0.01, 0.2])) == (
        "constraint      bound          margin at least   how\n"
        "energy          at most 0.25   0.01              betting\n"
        "service level   at least -2    0.2               betting\n"
        "in bounds: with confidence 0.99, from 12,345 samples"
    )


def test_verdict_names_what_is_not_proved():
    certificate = sampled(LIMITS, [0.01, -0.5])
    assert certificate.verdict == "not proved to be in bounds (confidence): 'service level' (margin at least -0.5)"
    nothing = sampled(LIMITS, [-math.inf, math.nan], in_bounds=False, kind="estimate")
    assert "'energy' (margin at least -inf)" in nothing.verdict and "'service level'" in nothing.verdict
    assert "estimate, not a proof" in sampled(LIMITS, [0.0, 0.0], kind="estimate").verdict


def test_no_constraint():
    certificate = Certificate(True, "exact", (), np.empty(0), ())
    assert certificate.verdict == "in bounds: proved in exact arithmetic"
    assert str(certificate).count("\n") == 1


def test_printed_bounds_are_proved_too():
    rng = random.Random(0)
    for _ in range(500):
        bound = rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-20, 20)
        assert Fraction(printed(bound)) <= Fraction(bound) <= Fraction(printed(bound, up=True))
        assert abs(float(printed(bound)) - bound) <= 1e-5 * abs(bound)
    assert printed(0.0) == "0" and printed(math.inf) == "inf"


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
    assert lines[0].split() == ["constraint", "bound", "weight"] and len(lines) == 4
    assert lines[-1].startswith("no policy is in bounds: proved with every rounding error bounded")
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
        if back.proof is not None:
            for name in ("probabilities", "margin_vectors", "reward_vector", "prices", "value_function"):
                one, other = getattr(back.proof, name), getattr(certificate.proof, name)
                assert (one is None) == (other is None) and (one is None or np.array_equal(one, other)), name
    save_certificate(infeasible, path)
    back = load_certificate(path)
    assert str(back) == str(infeasible) and np.array_equal(back.value_function, infeasible.value_function)


def test_the_same_certificate_gives_the_same_bytes(tmp_path, proved):
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    save_certificate(proved, one)
    save_certificate(load_certificate(one), other)
    assert one.read_bytes() == other.read_bytes()


def test_damaged_files_end_in_one_message(tmp_path, proved, infeasible):
    path = tmp_path / "certificate.json"
    rng = random.Random(0)
    for certificate in (proved, infeasible):
        save_certificate(certificate, path)
        document = json.loads(path.read_text())
        for key in document:
            for odd in (None, 7, "text", [], ["nan", 3], {"a": 1}, [[["0x1p+0"]]], 10**400):
                attempt(tmp_path, json.dumps(document | {key: odd}).encode())
        content = path.read_bytes()
        for _ in range(300):
            data = bytearray(content)
            data[rng.randrange(len(data))] = rng.randrange(256)
            attempt(tmp_path, bytes(data[: rng.choice([len(data), len(data), rng.randrange(len(data))])]))
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
