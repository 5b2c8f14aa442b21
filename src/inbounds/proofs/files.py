"""Certificates in and out of small JSON files, which `verify` checks without the rest of the library.

Every number of a proof is written as a hexadecimal double, so that nothing is lost to decimals. Two hashes keep a
damaged file from being taken for a whole one: `model` is the SHA-256 of the model's .npz file, and the file ends with
its own `seal`. docs/certificates.md describes the format.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.errors import InvalidInput
from inbounds.formats import npz
from inbounds.formats.atomic import naming, replaced, require_regular
from inbounds.formats.criterion import criterion_in_file
from inbounds.formats.labels import parsed
from inbounds.inputs import shown
from inbounds.problem.constraint import Constraint
from inbounds.proofs.betting import GRID, Book, Played, Stakes, left_for_bounds, shares_of
from inbounds.proofs.certificate import KINDS, Certificate, InfeasibilityCertificate, MixtureProof, Proof, Wagers

KIND, VERSION = "inbounds certificate", 3

MEMBERS = {"policy": "policies", "margin_vectors": "margin_vectors", "reward_vector": "reward_vectors"}
"""The entries of a policy, and what those of all policies of a mixture are called."""

_AFTER_SEAL = '"\n}\n'


def save_certificate(certificate: Certificate | InfeasibilityCertificate, path: str | os.PathLike[str]) -> None:
    """Write a certificate to a JSON file, whole or not at all. Values are as the criterion of the model has them.

    This is when the model is hashed, which takes about as long as saving it.

    Examples
    --------
    >>> import tempfile, inbounds as ib
    >>> from inbounds.proofs.known_model import certify_known
    >>> from inbounds.proofs.verify import verify
    >>> queue = ib.zoo.queue()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     queue.save(f"{folder}/queue.npz")
    ...     save_certificate(certify_known(ib.slater(queue).policy, queue), f"{folder}/queue.json")
    ...     verify(f"{folder}/queue.npz", f"{folder}/queue.json")[0]
    True
    """
    if isinstance(certificate, InfeasibilityCertificate):
        content: dict[str, Any] = {
            "statement": "infeasible",
            "arithmetic": certificate.kind,
            "criterion": _written_criterion(certificate.criterion),
            "margin_upper": _hex(certificate.margin_upper),
            "prices": _hexes(certificate.prices),
            "value_function": _hexes(certificate.value_function),
        }
    elif not isinstance(certificate, Certificate):
        raise InvalidInput(f"a certificate is needed, such as that of a solution, found {shown(certificate)}")
    else:
        proof = certificate.proof
        content = {
            "statement": "mixture" if _is_of_a_mixture(certificate) else "policy",
            "arithmetic": certificate.kind,
            "confidence": certificate.confidence,
            "samples": certificate.samples,
            "methods": list(certificate.methods),
            "margins_lower": _hexes(certificate.margins_lower),
            "reward_lower": _hex(certificate.reward_lower),
            "reward_upper": _hex(certificate.reward_upper),
            "criterion": proof and _written_criterion(proof.criterion),
            **_written_policies(certificate),
            "prices": proof and _hexes(proof.prices),
            "value_function": proof and _hexes(proof.value_function),
        }
        if certificate.wagers is not None:
            content["bets"] = _written_bets(certificate.wagers, certificate.samples)
    constraints = [
        {"name": c.name, "bound": float(c.bound).hex(), "sense": 1 if c.at_least is not None else -1}
        for c in certificate.constraints
    ]
    try:
        digested = certificate.model is None or isinstance(certificate.model, str)
        model = certificate.model if digested else npz.digest(certificate.model)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: cannot be written, because its model could not be saved: {error}") from error
    document: dict[str, Any] = {"kind": KIND, "version": VERSION, "model": model, "constraints": constraints} | content
    if "bets" in document:
        document["bets"]["about"] = what_bets_are_about(document)
    with naming(path, "written"), replaced(Path(path)) as stream:
        stream.write(sealed(document))


def what_bets_are_about(document: dict[str, Any]) -> str:
    """One SHA-256 of all that a file with bets says, but this hash and the seal: no part can be changed alone."""
    bets = {key: value for key, value in document["bets"].items() if key != "about"}
    said = {key: value for key, value in document.items() if key != "seal"}
    said |= {"bets": bets, "confidence": float(document["confidence"]).hex()}
    return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def _is_of_a_mixture(certificate: Certificate) -> bool:
    of_samples = certificate.wagers is not None and certificate.wagers.weights is not None
    return of_samples or isinstance(certificate.proof, MixtureProof)


def _written_policies(certificate: Certificate) -> dict[str, Any]:
    """The policy, or the policies and their weights, with the vectors of their values; nothing without a proof."""
    proof = certificate.proof
    if isinstance(proof, MixtureProof):
        return _written_members(proof)
    if _is_of_a_mixture(certificate):
        return dict.fromkeys(["weights", *MEMBERS.values()])
    return _written_member(proof)


def _written_member(proof: Proof | None) -> dict[str, Any]:
    """A policy, and the vectors of its values."""
    return {
        "policy": proof and _hexes(proof.probabilities),
        "margin_vectors": proof and [_hexes(vector) for vector in proof.margin_vectors],
        "reward_vector": proof and _hexes(proof.reward_vector),
    }


def _written_members(proof: MixtureProof) -> dict[str, Any]:
    """The same of every policy of a mixture, each under the plural of its name."""
    members = [_written_member(member) for member in proof.members]
    listed = {plural: [member[name] for member in members] for name, plural in MEMBERS.items()}
    return {"weights": _hexes(proof.weights), **listed}


def sealed(document: dict[str, Any]) -> bytes:
    """The file of a certificate: its JSON, which ends with the seal, the SHA-256 of every byte before the seal.

    A seal tells damage from what was meant. It does not tell who meant it: anybody can seal anything.

    >>> print(sealed({"kind": "note"}).decode().rstrip())
    {
    "kind": "note",
    "seal": "60b7de3297d63a8f1b2fec7121a447c81b78c760387dfbe5fb49900769b6aa1a"
    }
    """
    unsealed = {key: value for key, value in document.items() if key != "seal"}
    text = json.dumps(unsealed | {"seal": ""}, allow_nan=False, indent=0) + "\n"
    head = text.removesuffix(_AFTER_SEAL).encode("ascii")
    return head + _seal(head)


def _seal(head: bytes) -> bytes:
    """What a file that begins with `head` has to end with."""
    return (hashlib.sha256(head).hexdigest() + _AFTER_SEAL).encode("ascii")


def load_certificate(path: str | os.PathLike[str]) -> Certificate | InfeasibilityCertificate:
    """The certificate in a JSON file.

    Its form, its seal, its weights and what its bets are about are checked; checking the proof is the work of `verify`.
    """
    with naming(path, "read"):
        require_regular(path)
        content = Path(path).read_bytes()
    try:
        document = parsed(content)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path}: is not JSON text in UTF-8 ({str(error)[:200]})") from error
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise InvalidInput(f"{path}: is not a certificate: its kind is not {KIND!r}")
    if document.get("version") != VERSION:
        raise InvalidInput(
            f"{path}: is a certificate of version {shown(document.get('version'))}, and this version of inbounds reads "
            f"{VERSION}; certify and save it anew"
        )
    length = len(_seal(b""))
    if content[-length:] != _seal(content[:-length]):
        raise InvalidInput(
            f"{path}: is damaged or edited; its seal is not the SHA-256 of what comes before it. "
            f"Take a whole copy, or certify and save it anew"
        )
    try:
        return _certificate(document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidInput(f"{path}: is not a certificate, or is damaged ({error!r:.200})") from error


def _certificate(document: dict[str, Any]) -> Certificate | InfeasibilityCertificate:
    if document["arithmetic"] not in KINDS:
        raise ValueError(f"the arithmetic must be one of {', '.join(KINDS)}")
    model = None if document["model"] is None else _text(document["model"])
    constraints = tuple(
        Constraint(
            name=_text(entry["name"]),
            **{{1: "at_least", -1: "at_most"}[entry["sense"]]: float.fromhex(entry["bound"])},
        )
        for entry in document["constraints"]
    )
    n_constraints = len(constraints)
    common = {"kind": document["arithmetic"], "constraints": constraints, "model": model}
    if document["statement"] == "infeasible":
        margin_upper = _number(document["margin_upper"], math.inf)
        return InfeasibilityCertificate(
            infeasible=margin_upper < 0.0,
            prices=_vector(document["prices"], n_constraints),
            value_function=_vector(document["value_function"]),
            margin_upper=margin_upper,
            criterion=_criterion(document["criterion"]),
            **common,
        )
    if document["statement"] not in ("policy", "mixture"):
        raise ValueError("the statement is none of 'policy', 'mixture' and 'infeasible'")
    margins = _vector(document["margins_lower"], n_constraints)
    methods = tuple(_text(method) for method in document["methods"])
    if len(methods) != n_constraints:
        raise ValueError(f"methods must have {n_constraints} entries")
    proof: Proof | MixtureProof | None = None
    if document["statement"] == "mixture" and document["policies"] is not None:
        proof = _mixture_proof(document, n_constraints)
    elif document["statement"] == "policy" and document["policy"] is not None:
        proof = _proof(document, n_constraints)
    return Certificate(
        in_bounds=bool(np.all(margins >= 0.0)),
        margins_lower=margins,
        methods=methods,
        reward_lower=_number(document["reward_lower"], -math.inf),
        reward_upper=_number(document["reward_upper"], math.inf),
        confidence=float(document["confidence"]),
        samples=int(document["samples"]),
        proof=proof,
        wagers=_wagers(document, n_constraints) if "bets" in document else None,
        **common,
    )


def _weights(written: Any, length: int) -> Floats:
    weights = _vector(written, length)
    if not np.all(weights >= 0.0) or not abs(math.fsum(weights) - 1.0) <= 1e-9:
        raise ValueError(f"the weights of a mixture must be >= 0 and sum to 1, found {weights.tolist()}")
    return weights


def _mixture_proof(document: Any, n_constraints: int) -> MixtureProof:
    weights = _weights(document["weights"], len(document["policies"]))
    listed = [document[plural] for plural in MEMBERS.values()]
    if len(weights) == 0 or any(len(entries) != len(weights) for entries in listed):
        raise ValueError("a mixture must have a policy, and vectors, for each of its weights")
    unpriced = {"criterion": document["criterion"], "prices": None}
    members = [
        _proof(unpriced | dict(zip(MEMBERS, entries, strict=True)), n_constraints)
        for entries in zip(*listed, strict=True)
    ]
    return MixtureProof(weights, tuple(members), *_priced(document, n_constraints, len(members[0].reward_vector)))


def _proof(document: Any, n_constraints: int) -> Proof:
    reward_vector = _vector(document["reward_vector"])
    length = len(reward_vector)
    rows = [_vector(row, length) for row in document["margin_vectors"]]
    if len(rows) != n_constraints:
        raise ValueError(f"margin_vectors must have {n_constraints} entries")
    return Proof(
        _criterion(document["criterion"]),
        _vector(document["policy"]),
        freeze(np.array(rows).reshape(n_constraints, length)),
        reward_vector,
        *_priced(document, n_constraints, length),
    )


def _priced(document: Any, n_constraints: int, length: int) -> tuple[Floats | None, Floats | None]:
    """The prices and the value function, where a bound on the optimum is claimed."""
    if document["prices"] is None:
        return None, None
    return _vector(document["prices"], n_constraints), _vector(document["value_function"], length)


def _written_bets(wagers: Wagers, samples: int) -> dict[str, Any]:
    """What the checkers go through again; bets are whole numbers of 2^-30, the samples of each are counted."""
    attempts, drawn = [], wagers.attempts[-1].book.drawn
    for stakes, book, low, capital in wagers.attempts:
        attempts.append(
            {
                "hurry": int(stakes.hurry),
                "together": int(stakes.together),
                "planned": _hex(stakes.planned),
                "aim": int(stakes.aim),
                "budget": int(stakes.budget),
                "least": _hexes(stakes.least),
                "low": _hexes(low),
                "capitals": _hexes(capital[1:]),
                "reference": _hexes(stakes.reference),
                "goals": _hexes(stakes.goals),
                "expected": [_hexes(row) for row in stakes.prior],
                "drawn": np.diff(book.drawn, prepend=0).tolist(),
                "bets": [[int(x) for x in row / GRID] for row in book.bets.T],
            }
        )
    mixed = {
        "weights": _hexes(wagers.weights),
        "policies": [_hexes(row) for row in np.atleast_2d(wagers.probabilities)],
    }
    return {
        "staked": _hex(wagers.staked),
        "bankroll": _hex(wagers.bankroll),
        "discount": _hex(wagers.discount),
        **({"policy": _hexes(wagers.probabilities)} if wagers.weights is None else mixed),
        "reward_range": [_hex(x) for x in wagers.reward_range],
        "signal_ranges": [_hexes(row) for row in wagers.signal_ranges],
        "margin_scales": _hexes(wagers.margin_scales),
        "bounds": _hexes(wagers.bounds),
        "apart": samples - (int(drawn[-1]) if len(drawn) else 0),
        "attempts": attempts,
    }


def _wagers(document: Any, n_constraints: int) -> Wagers:
    written, confidence = document["bets"], document["confidence"]
    if written["about"] != what_bets_are_about(document):
        raise ValueError("its bets are about something else than it says: `about` is not the hash of all else")
    rows, bankroll, attempts, failed = 1 + n_constraints, float.fromhex(written["bankroll"]), [], 0
    staked, discount, first = float.fromhex(written["staked"]), float.fromhex(written["discount"]), bankroll
    for attempt in written["attempts"]:
        drawn = np.cumsum(attempt["drawn"], dtype=np.int64)
        bets = np.array(attempt["bets"], dtype=np.float64).reshape(rows, len(drawn)).T * GRID
        stakes = Stakes(
            least=_vector(attempt["least"], rows),
            level=staked * bankroll * (1.0 - confidence),
            shares=freeze(shares_of(left_for_bounds(1.0 - confidence, staked, first, failed), rows)),
            goals=_vector(attempt["goals"], rows),
            reference=_vector(attempt["reference"], rows),
            prior=freeze(np.array([_vector(row, 3) for row in attempt["expected"]]).reshape(rows, 3)),
            planned=float.fromhex(attempt["planned"]),
            aim=int(attempt["aim"]),
            budget=int(attempt["budget"]),
            discount=discount,
            together=int(attempt["together"]),
            hurry=int(attempt["hurry"]),
        )
        book = Book(freeze(np.ascontiguousarray(bets)), freeze(drawn))
        capital = np.concatenate([[1.0], _vector(attempt["capitals"], n_constraints)])
        attempts.append(Played(stakes, book, _vector(attempt["low"], rows), freeze(capital)))
        bankroll *= (1.0 - staked) + staked * attempts[-1].left
        failed += not attempts[-1].settled
    mixed = "weights" in written
    return Wagers(
        bankroll=float.fromhex(written["bankroll"]),
        weights=_weights(written["weights"], len(written["policies"])) if mixed else None,
        staked=staked,
        discount=discount,
        probabilities=freeze(np.array([_vector(row) for row in written["policies"]]))
        if mixed
        else _vector(written["policy"]),
        reward_range=(float.fromhex(written["reward_range"][0]), float.fromhex(written["reward_range"][1])),
        signal_ranges=freeze(np.array([_vector(row, 2) for row in written["signal_ranges"]]).reshape(n_constraints, 2)),
        margin_scales=_vector(written["margin_scales"], n_constraints),
        bounds=_vector(written["bounds"], rows),
        attempts=tuple(attempts),
    )


def _written_criterion(criterion: dict[str, Any]) -> dict[str, Any]:
    valid = criterion_in_file(criterion, "the criterion")
    return {name: value.hex() if name == "discount" else value for name, value in valid.items()}


def _criterion(written: dict[str, Any]) -> dict[str, Any]:
    read = {name: float.fromhex(value) if name == "discount" else value for name, value in written.items()}
    return criterion_in_file(read, "the criterion")


def _hex(value: float) -> str | None:
    return float(value).hex() if math.isfinite(value) else None


def _hexes(vector: Floats | None) -> list[str] | None:
    return None if vector is None else [value.hex() for value in vector.tolist()]


def _number(text: Any, otherwise: float) -> float:
    return otherwise if text is None else float.fromhex(text)


def _vector(texts: Any, length: int | None = None) -> Floats:
    if not isinstance(texts, list) or length not in (None, len(texts)):
        raise ValueError(f"a vector must be a list of {'hexadecimal numbers' if length is None else length} entries")
    return freeze(np.array([float.fromhex(text) for text in texts], dtype=np.float64))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"must be text, found {value!r}")
    return value
