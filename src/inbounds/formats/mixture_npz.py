"""The file of a mixture: the weights of its policies, their probabilities, and the labels of states and actions.

A zip of .npy members, written and read as the .npz file of a model is (`inbounds.formats.npz`), with the same
invariants. S states, n pairs, J policies; H stages, where they are policies of a finite horizon:

    header          JSON text: kind, version, labels of states and actions (or null)
    offsets         state s owns pairs offsets[s] : offsets[s + 1]
    actions         the action of each pair
    weights         the probability of each policy
    probabilities   of each policy, over pairs; where they depend on the stage, at each stage
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from inbounds.errors import InvalidInput
from inbounds.formats import npz

KIND_OF_MIXTURE, VERSION = "mixture", 1

LAYOUT: npz.Layout = {
    "header": (npz.BYTES, "b"),
    "offsets": (npz.WHOLE, "S+1"),
    "actions": (npz.WHOLE, "n"),
    "weights": (npz.DOUBLES, "J"),
    "probabilities": (npz.DOUBLES, "J n", "J H n"),
}


def write(mixture: Any, stream: BinaryIO) -> None:
    """Write a mixture, anything with its attributes, to a stream."""
    pairs = mixture.pairs
    header = {"kind": KIND_OF_MIXTURE, "version": VERSION, "states": pairs.state_labels, "actions": pairs.action_labels}
    arrays = {
        "header": npz.written_header(header | npz.labels_in_header(header)),
        "offsets": pairs.offsets,
        "actions": pairs.actions,
        "weights": mixture.weights,
        "probabilities": np.array([policy.probabilities for policy in mixture.policies]),
    }
    for piece in npz.packed(arrays):
        stream.write(piece)


def read(path: Path) -> dict[str, Any]:
    """The arrays of a file, and the labels; whether they are a mixture is for the record to say."""
    arrays = npz.unpacked(path, LAYOUT, "a mixture")
    header = npz.read_header(arrays["header"], KIND_OF_MIXTURE, VERSION, "states", "actions")
    shape, n_pairs = arrays["probabilities"].shape, arrays["actions"].size
    sizes = {"b": arrays["header"].size, "S+1": arrays["offsets"].size, "n": n_pairs, "J": arrays["weights"].size}
    meaning = "n and J are the sizes of actions and weights, H is the number of stages"
    npz.require_shapes(arrays, LAYOUT, sizes | {"H": shape[1] if len(shape) == 3 else None}, meaning)
    if sizes["S+1"] < 2 or n_pairs == 0 or sizes["J"] == 0:
        raise InvalidInput("there are no states, no pairs or no policies; a mixture needs at least one of each")
    npz.require_partition(arrays["offsets"], n_pairs, "offsets")
    labels = npz.labels_in_header(header)
    fields = {name: arrays[name] for name in LAYOUT if name != "header"}
    return fields | {"state_labels": labels["states"], "action_labels": labels["actions"]}
