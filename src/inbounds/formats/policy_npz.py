"""The .npz format of a policy, for many states: arrays as those of a model (`inbounds.formats.npz`).

header          JSON text: kind, version, labels of states and actions (or null)
offsets         state s owns pairs offsets[s] : offsets[s + 1]
actions         the action of each pair
probabilities   of each pair [n]; with a finite horizon, at each stage [H, n]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

from inbounds.errors import InvalidInput
from inbounds.formats import npz
from inbounds.formats.policy_json import KIND, VERSION

LAYOUT: npz.Layout = {
    "header": (npz.BYTES, "b"),
    "offsets": (npz.WHOLE, "S+1"),
    "actions": (npz.WHOLE, "n"),
    "probabilities": (npz.DOUBLES, "n", "H n"),
}


def write(policy: Any, stream: BinaryIO) -> None:
    """Write a policy, anything with the attributes of one, to a stream."""
    pairs = policy.pairs
    labels = {"states": pairs.state_labels, "actions": pairs.action_labels}
    header = {"kind": KIND, "version": VERSION, **npz.labels_in_header(labels)}
    arrays = {
        "header": npz.written_header(header),
        "offsets": pairs.offsets,
        "actions": pairs.actions,
        "probabilities": policy.probabilities,
    }
    for piece in npz.packed(arrays):
        stream.write(piece)


def read(path: Path) -> dict[str, Any]:
    """The fields of the policy in the file at `path`; messages do not name the file."""
    arrays = npz.unpacked(path, LAYOUT, "a policy")
    header = npz.read_header(arrays["header"], KIND, VERSION, "states", "actions")
    shape, n_pairs = arrays["probabilities"].shape, arrays["actions"].size
    sizes = {"b": arrays["header"].size, "S+1": arrays["offsets"].size, "n": n_pairs}
    meaning = "n is the size of actions, H is the number of stages"
    npz.require_shapes(arrays, LAYOUT, sizes | {"H": shape[0] if len(shape) == 2 else None}, meaning)
    if sizes["S+1"] < 2 or n_pairs == 0:
        raise InvalidInput("there are no states or no pairs; a policy needs at least one of each")
    npz.require_partition(arrays["offsets"], n_pairs, "offsets")
    labels = npz.labels_in_header(header)
    fields = {name: arrays[name] for name in LAYOUT if name != "header"}
    return fields | {"state_labels": labels["states"], "action_labels": labels["actions"]}
