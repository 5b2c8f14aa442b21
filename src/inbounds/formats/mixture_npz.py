"""The file of a mixture: the weights of its policies, their probabilities, and the labels of states and actions.

A zip of .npy members, written and read as the .npz file of a model is (`inbounds.formats.npz`), with the same
invariants. S states, n pairs, J policies; H stages, where they are policies of a finite horizon:

    header          JSON text: kind, version, labels of states and actions (or null), the names of their parts if any
    offsets         state s owns pairs offsets[s] : offsets[s + 1]
    actions         the action of each pair
    weights         the probability of each policy
    probabilities   of each policy, over pairs; where they depend on the stage, at each stage
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from inbounds.formats import npz
from inbounds.formats.policy_npz import read_rules, write_rules

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
    rules = np.array([policy.probabilities for policy in mixture.policies])
    arrays = {"weights": mixture.weights, "probabilities": rules}
    write_rules(KIND_OF_MIXTURE, VERSION, mixture.pairs, arrays, stream)


def read(path: Path) -> dict[str, Any]:
    """The arrays of a file, and the labels; whether they are a mixture is for the record to say."""
    return read_rules(path, LAYOUT, KIND_OF_MIXTURE, VERSION)
