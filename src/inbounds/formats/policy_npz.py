"""The .npz format of a policy, for many states: arrays as those of a model (`inbounds.formats.npz`).

header          JSON text: kind, version, labels of states and actions (or null)
offsets         state s owns pairs offsets[s] : offsets[s + 1]
actions         the action of each pair
probabilities   of each pair [n]; with a finite horizon, at each stage [H, n]
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from inbounds.errors import InvalidInput
from inbounds.formats.npz import (
    BYTES,
    DOUBLES,
    WHOLE,
    labels_in_file,
    packed,
    read_arrays,
    read_header,
    require_partition,
)
from inbounds.formats.policy_json import KIND, VERSION, require_policy

LAYOUT: dict[str, tuple[str, ...]] = {
    "header": (BYTES, "b"),
    "offsets": (WHOLE, "S+1"),
    "actions": (WHOLE, "n"),
    "probabilities": (DOUBLES, "n", "H n"),
}


def write(policy: Any, stream: BinaryIO) -> None:
    """Write a policy, anything with the attributes of one, to a stream."""
    pairs = policy.pairs
    header = {
        "kind": KIND,
        "version": VERSION,
        "states": labels_in_file(pairs.state_labels, "state"),
        "actions": labels_in_file(pairs.action_labels, "action"),
    }
    arrays = {
        "header": np.frombuffer(json.dumps(header).encode("ascii"), dtype=np.uint8),
        "offsets": pairs.offsets,
        "actions": pairs.actions,
        "probabilities": policy.probabilities,
    }
    for piece in packed(arrays):
        stream.write(piece)


def read(path: Path) -> dict[str, Any]:
    """The fields of the policy in the file at `path`; messages do not name the file."""
    arrays = read_arrays(path, LAYOUT, "a policy")
    header = read_header(arrays.pop("header"))
    require_policy(header)
    if set(header) != {"kind", "version", "states", "actions"}:
        raise InvalidInput("the header must have the keys kind, version, states, actions")
    if arrays["offsets"].size < 2:
        raise InvalidInput("there are no states")
    require_partition(arrays["offsets"], arrays["actions"].size, "offsets")
    labels = {f"{what}_labels": labels_in_file(header[f"{what}s"], what) for what in ("state", "action")}
    return {**arrays, **labels}
