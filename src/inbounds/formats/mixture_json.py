"""The .json format of a mixture: text that people read, and that a controller loads without this library.

One object, whose ``policies`` are objects as in the .json file of a policy (`inbounds.formats.policy_json`):

    {
    "kind": "mixture", "version": 1,
    "weights": [0.75, 0.25],
    "policies": [
    {"kind": "policy", ...},
    {"kind": "policy", ...}
    ]
    }
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from inbounds.errors import InvalidInput
from inbounds.formats import policy_json
from inbounds.formats.criterion import require_version
from inbounds.formats.entries import require_entries
from inbounds.formats.mixture_npz import KIND_OF_MIXTURE, VERSION
from inbounds.inputs import real_number


def write(mixture: Any, stream: BinaryIO) -> None:
    """Write a mixture, anything with its attributes, to a stream."""
    head = {"kind": KIND_OF_MIXTURE, "version": VERSION}
    weights = json.dumps(mixture.weights.tolist())
    stream.write(f'{{\n{json.dumps(head)[1:-1]},\n"weights": {weights},\n"policies": [\n'.encode("ascii"))
    for place, policy in enumerate(mixture.policies):
        stream.write(b",\n" * (place > 0))
        policy_json.write(policy, stream)
    stream.write(b"]\n}\n")


def read(path: Path) -> dict[str, Any]:
    """The fields of the file at `path`, as `inbounds.formats.mixture_npz.read` returns them."""
    found = policy_json.text_of(path)
    if not isinstance(found, dict) or found.get("kind") != KIND_OF_MIXTURE:
        raise InvalidInput(f'is not a mixture: a mixture has "kind": "{KIND_OF_MIXTURE}"')
    require_version(found.get("version"), VERSION)
    require_entries(found, ("kind", "version", "weights", "policies"), (), "the mixture")
    weights, policies = found.get("weights"), found.get("policies")
    if not isinstance(weights, list) or not isinstance(policies, list) or not policies:
        raise InvalidInput("weights and policies must be lists, and a mixture needs at least one policy")
    shares = [real_number(weight, f"weight {place}") for place, weight in enumerate(weights)]
    members = []
    for place, policy in enumerate(policies):
        try:
            members.append(policy_json.fields_of(policy))
        except InvalidInput as error:
            raise InvalidInput(f"policy {place}: {error}") from None
    first = members[0]
    for place, member in enumerate(members):
        alike = all(np.array_equal(member[name], first[name]) for name in ("offsets", "actions"))
        named = all(member[name] == first[name] for name in ("state_labels", "action_labels"))
        if not alike or not named or member["probabilities"].shape != first["probabilities"].shape:
            raise InvalidInput(f"policy {place} has other states, actions or stages than policy 0, or in another order")
    return first | {"weights": shares, "probabilities": [member["probabilities"] for member in members]}
