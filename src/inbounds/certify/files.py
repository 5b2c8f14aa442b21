"""Certificates in and out of small JSON files, which `verify` checks without the rest of the library.

Every number of a proof is written as a hexadecimal double, so that nothing is lost to decimals. docs/certificates.md
describes the format.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.certify.certificate import KINDS, Certificate, InfeasibilityCertificate, Proof
from inbounds.errors import InvalidInput
from inbounds.formats.atomic import replaced
from inbounds.model.cmdp import Constraint

KIND, VERSION = "inbounds certificate", 1


def save_certificate(certificate: Certificate | InfeasibilityCertificate, path: str | os.PathLike[str]) -> None:
    """Write a certificate to a JSON file, whole or not at all. Values are normalised by (1 - discount).

    Examples
    --------
    >>> import tempfile, inbounds as ib
    >>> from inbounds.certify.exact import certify_exact
    >>> from inbounds.certify.verify import verify
    >>> queue = ib.zoo.queue()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     queue.save(f"{folder}/queue.npz")
    ...     save_certificate(certify_exact(ib.slater(queue).policy, queue), f"{folder}/queue.json")
    ...     verify(f"{folder}/queue.npz", f"{folder}/queue.json")[0]
    True
    """
    if isinstance(certificate, InfeasibilityCertificate):
        content: dict[str, Any] = {
            "statement": "infeasible",
            "arithmetic": certificate.kind,
            "discount": certificate.discount.hex(),
            "margin_upper": _hex(certificate.margin_upper),
            "prices": _hexes(certificate.prices),
            "value_function": _hexes(certificate.value_function),
        }
    else:
        proof = certificate.proof
        content = {
            "statement": "policy",
            "arithmetic": certificate.kind,
            "confidence": certificate.confidence,
            "samples": certificate.samples,
            "methods": list(certificate.methods),
            "margins_lower": _hexes(certificate.margins_lower),
            "reward_lower": _hex(certificate.reward_lower),
            "reward_upper": _hex(certificate.reward_upper),
            "discount": proof and proof.discount.hex(),
            "policy": proof and _hexes(proof.probabilities),
            "margin_vectors": proof and [_hexes(vector) for vector in proof.margin_vectors],
            "reward_vector": proof and _hexes(proof.reward_vector),
            "prices": proof and _hexes(proof.prices),
            "value_function": proof and _hexes(proof.value_function),
        }
    constraints = [
        {"name": c.name, "bound": float(c.bound).hex(), "sense": 1 if c.at_least is not None else -1}
        for c in certificate.constraints
    ]
    document = {"kind": KIND, "version": VERSION, "constraints": constraints} | content
    try:
        with replaced(Path(path)) as stream:
            stream.write(json.dumps(document, allow_nan=False, indent=0).encode("ascii") + b"\n")
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from error


def load_certificate(path: str | os.PathLike[str]) -> Certificate | InfeasibilityCertificate:
    """The certificate in a JSON file. Nothing is checked but the form; checking the proof is the work of `verify`."""
    try:
        document = json.loads(Path(path).read_bytes().decode("utf-8"))
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path}: is not JSON text in UTF-8 ({str(error)[:200]})") from error
    try:
        return _certificate(document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidInput(f"{path}: is not a certificate, or is damaged ({error!r:.200})") from error


def _certificate(document: Any) -> Certificate | InfeasibilityCertificate:
    if document["kind"] != KIND or document["version"] != VERSION or document["arithmetic"] not in KINDS:
        raise ValueError(f"only the kind {KIND!r}, version {VERSION}, can be read")
    constraints = tuple(
        Constraint(
            name=_text(entry["name"]),
            **{{1: "at_least", -1: "at_most"}[entry["sense"]]: float.fromhex(entry["bound"])},
        )
        for entry in document["constraints"]
    )
    n_constraints = len(constraints)
    if document["statement"] == "infeasible":
        margin_upper = _number(document["margin_upper"], math.inf)
        return InfeasibilityCertificate(
            infeasible=margin_upper < 0.0,
            kind=document["arithmetic"],
            constraints=constraints,
            prices=_vector(document["prices"], n_constraints),
            value_function=_vector(document["value_function"]),
            margin_upper=margin_upper,
            discount=float.fromhex(document["discount"]),
        )
    if document["statement"] != "policy":
        raise ValueError("the statement is neither 'policy' nor 'infeasible'")
    margins = _vector(document["margins_lower"], n_constraints)
    methods = tuple(_text(method) for method in document["methods"])
    if len(methods) != n_constraints:
        raise ValueError(f"methods must have {n_constraints} entries")
    return Certificate(
        in_bounds=bool(np.all(margins >= 0.0)),
        kind=document["arithmetic"],
        constraints=constraints,
        margins_lower=margins,
        methods=methods,
        reward_lower=_number(document["reward_lower"], -math.inf),
        reward_upper=_number(document["reward_upper"], math.inf),
        confidence=float(document["confidence"]),
        samples=int(document["samples"]),
        proof=_proof(document, n_constraints) if document["policy"] is not None else None,
    )


def _proof(document: Any, n_constraints: int) -> Proof:
    reward_vector = _vector(document["reward_vector"])
    n_states = len(reward_vector)
    rows = [_vector(row, n_states) for row in document["margin_vectors"]]
    if len(rows) != n_constraints:
        raise ValueError(f"margin_vectors must have {n_constraints} entries")
    priced = document["prices"] is not None
    return Proof(
        discount=float.fromhex(document["discount"]),
        probabilities=_vector(document["policy"]),
        margin_vectors=freeze(np.array(rows).reshape(n_constraints, n_states)),
        reward_vector=reward_vector,
        prices=_vector(document["prices"], n_constraints) if priced else None,
        value_function=_vector(document["value_function"], n_states) if priced else None,
    )


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
