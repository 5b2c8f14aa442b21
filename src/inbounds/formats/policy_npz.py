"""The .npz format of a policy, for many states: arrays as those of a model (`inbounds.formats.npz`).

header          JSON text: kind, version, labels of states and actions (or null), the names of their parts if any
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
    write_rules(KIND, VERSION, policy.pairs, {"probabilities": policy.probabilities}, stream)


def read(path: Path) -> dict[str, Any]:
    """The fields of the policy in the file at `path`; messages do not name the file."""
    return read_rules(path, LAYOUT, KIND, VERSION)


def write_rules(kind: str, version: int, pairs: Any, arrays: dict[str, Any], stream: BinaryIO) -> None:
    """Write what is done at each pair, by one policy or by several, with the labels."""
    header = {"kind": kind, "version": version} | npz.labels_to_header(pairs)
    layout = {"header": npz.written_header(header), "offsets": pairs.offsets, "actions": pairs.actions}
    for piece in npz.packed(layout | arrays):
        stream.write(piece)


def read_rules(path: Path, layout: npz.Layout, kind: str, version: int) -> dict[str, Any]:
    """The arrays of a layout and the labels; of several policies there are `weights`, J of them."""
    arrays = npz.unpacked(path, layout, f"a {kind}")
    header = npz.read_header(arrays["header"], kind, version)
    probabilities, n_pairs = arrays["probabilities"], arrays["actions"].size
    stages = probabilities.shape[-2] if probabilities.ndim == len(layout["probabilities"][2].split()) else None
    sizes = {"b": arrays["header"].size, "S+1": arrays["offsets"].size, "n": n_pairs, "H": stages}
    sizes |= {"J": arrays["weights"].size} if "weights" in layout else {}
    several = "n and J are the sizes of actions and weights" if "weights" in layout else "n is the size of actions"
    npz.require_shapes(arrays, layout, sizes, f"{several}, H is the number of stages")
    if sizes["S+1"] < 2 or n_pairs == 0 or sizes.get("J") == 0:
        needed = "there are no states, no pairs or no policies" if "J" in sizes else "there are no states or no pairs"
        raise InvalidInput(f"{needed}; a {kind} needs at least one of each")
    npz.require_partition(arrays["offsets"], n_pairs, "offsets")
    return {name: arrays[name] for name in layout if name != "header"} | npz.labels_from_header(header)
