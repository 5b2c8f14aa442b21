"""The .json format of a policy: text that people read, and that a controller loads without this library.

One object; S lines of the list ``states``, one for each state, in order:

    {
    "kind": "policy", "version": 1, "stages": null,
    "actions": ["run", "repair"],
    "states": [
    {"state": 0, "actions": ["run"], "choose": [["run", 1.0]]},
    {"state": 1, "choose": [["run", 0.25], ["repair", 0.75]]}
    ]
    }

``choose`` has the actions of a positive probability. With a finite horizon ``stages`` is their number, and ``choose``
has one such list for each stage. A state that does not have every action, in the order of the list at the top, has a
list of its own. A tuple is written as a list; where its parts have names, ``"state_parts": ["tea", "rice"]`` stands
before the actions, and so do ``"action_parts"``.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from inbounds.errors import InvalidInput
from inbounds.formats.criterion import LONGEST, require_version
from inbounds.formats.entries import require_entries
from inbounds.formats.labels import (
    IN_JSON,
    Label,
    parsed,
    parts_of,
    plain,
    require_once,
    require_same_spelling,
    with_parts,
)
from inbounds.inputs import is_whole, shown

KIND, VERSION = "policy", 1
ENTRIES = ("kind", "version", "stages", "state_parts", "action_parts", "actions", "states")
STATE_ENTRIES = ("state", "actions", "choose")

Numbers = dict[Label, tuple[int, Label]]
"""The number of each action, and its label as it stands in the list of them."""


def write(policy: Any, stream: BinaryIO) -> None:
    """Write a policy, anything with the attributes of one, to a stream."""
    pairs, horizon = policy.pairs, policy.horizon
    labels = [plain(_action(pairs, number), f"action {number}") for number in range(pairs.n_actions)]
    names = [json.dumps(label) for label in labels]
    rows = np.atleast_2d(policy.probabilities).tolist()
    actions, offsets = pairs.actions.tolist(), pairs.offsets.tolist()
    every = list(range(len(labels)))

    def choices(row: list[float], state: int) -> str:
        own = range(offsets[state], offsets[state + 1])
        return f"[{', '.join(f'[{names[actions[pair]]}, {row[pair]!r}]' for pair in own if row[pair] > 0.0)}]"

    head: dict[str, Any] = {"kind": KIND, "version": VERSION, "stages": horizon}
    parts = {f"{what}_parts": parts_of(getattr(pairs, f"{what}_labels")) for what in ("state", "action")}
    head |= {key: names for key, names in parts.items() if names is not None}
    stream.write(f'{{\n{json.dumps(head)[1:-1]},\n"actions": [{", ".join(names)}],\n"states": [\n'.encode("ascii"))
    for state in range(pairs.n_states):
        label = json.dumps(plain(pairs.state_label(state), f"state {state}"))
        rule = choices(rows[0], state) if horizon is None else f"[{', '.join(choices(row, state) for row in rows)}]"
        own = actions[offsets[state] : offsets[state + 1]]
        listed = "" if own == every else f' "actions": [{", ".join(names[action] for action in own)}],'
        end = "\n" if state == pairs.n_states - 1 else ",\n"
        stream.write(f'{{"state": {label},{listed} "choose": {rule}}}{end}'.encode("ascii"))
    stream.write(b"]\n}\n")


def _action(pairs: Any, number: int) -> Any:
    return number if pairs.action_labels is None else pairs.action_labels[number]


def read(path: Path) -> dict[str, Any]:
    """The fields of the policy in the file at `path`; messages do not name the file."""
    return fields_of(text_of(path))


def text_of(path: Path) -> Any:
    """What the JSON text in a file says."""
    try:
        return parsed(path.read_bytes().removeprefix(BOM_UTF8))  # some editors put a mark in front
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"is not JSON text in UTF-8 ({error})") from error


def fields_of(found: Any) -> dict[str, Any]:
    """The fields of the policy that an object stands for."""
    require_policy(found)
    require_entries(found, ENTRIES, ("stages", "actions", "states"), "the policy")
    horizon, labels, states = found["stages"], found["actions"], found["states"]
    if horizon is not None and (not is_whole(horizon, 1) or horizon > LONGEST):
        raise InvalidInput(f"stages must be null or a whole number in 1..{LONGEST:,}, found {shown(horizon)}")
    if not isinstance(labels, list) or not isinstance(states, list):
        raise InvalidInput("actions and states must be lists")
    action_labels = [plain(label, f"action {number}", IN_JSON) for number, label in enumerate(labels)]
    require_once(action_labels, "action", "the list of actions")
    number_of = {label: (number, label) for number, label in enumerate(action_labels)}
    state_labels, offsets, actions = [], [0], []
    rules: list[list[float]] = [[] for _ in range(horizon or 1)]
    for state, entry in enumerate(states):
        where = f"state {state}"
        if not isinstance(entry, dict) or "state" not in entry:
            raise InvalidInput(f"{where} has no 'state'")
        label = plain(entry["state"], where, IN_JSON)
        where = f"state {shown(label)}"
        require_entries(entry, STATE_ENTRIES, ("choose",), where)
        chosen = entry["choose"]
        by_stage = [chosen] if horizon is None else chosen
        if not isinstance(by_stage, list) or len(by_stage) != len(rules):
            raise InvalidInput(f"{where}: choose must have a list for each of the {len(rules)} stages")
        own = _own_actions(entry.get("actions", labels), number_of, where)
        for rule, choices in zip(rules, by_stage, strict=True):
            shares = _shares(choices, number_of, where)
            if not set(shares) <= set(own):
                raise InvalidInput(f"{where} chooses an action that it does not have")
            rule += [shares.get(number, 0.0) for number in own]
        actions += own
        offsets.append(len(actions))
        state_labels.append(label)
    if not state_labels:
        raise InvalidInput("the policy has no states: the list of them is empty")
    require_once(state_labels, "state", "the list of states")
    fields = policy_fields(offsets, actions, rules, horizon, state_labels, action_labels)
    for what in ("state", "action"):
        fields[f"{what}_labels"] = with_parts(fields[f"{what}_labels"], found.get(f"{what}_parts"), what)
    return fields


def require_policy(found: Any) -> None:
    """That an object, or a header, is of a policy in a version that is known."""
    if not isinstance(found, dict) or found.get("kind") != KIND:
        kind = found.get("kind") if isinstance(found, dict) else None
        other = f"; this is the kind {shown(kind)} (a mixture: ib.Mixture.load)" if isinstance(kind, str) else ""
        raise InvalidInput(f'is not a policy: a policy has "kind": "{KIND}"{other}')
    require_version(found.get("version"), VERSION)


def policy_fields(
    offsets: Any, actions: Any, rules: Any, horizon: int | None, state_labels: Any, action_labels: Any
) -> dict[str, Any]:
    """The fields of a policy; labels that are nothing but the numbers count as none."""
    probabilities = np.array(rules, dtype=np.float64)
    return {
        "offsets": np.array(offsets, dtype=np.int64),
        "actions": np.array(actions, dtype=np.int64),
        "state_labels": _unless_numbers(state_labels),
        "action_labels": _unless_numbers(action_labels),
        "probabilities": probabilities[0] if horizon is None else probabilities,
    }


def _unless_numbers(labels: list[Any]) -> tuple[Any, ...] | None:
    numbers = all(type(label) is int and label == place for place, label in enumerate(labels))
    return None if numbers else tuple(labels)


def _own_actions(listed: Any, number_of: Numbers, where: str) -> list[int]:
    if not isinstance(listed, list):
        raise InvalidInput(f"{where}: actions must be a list, found {shown(listed)}")
    return [_number(action, number_of, where) for action in listed]


def _number(action: Any, number_of: Numbers, where: str) -> int:
    label = plain(action, f"an action of {where}", IN_JSON)
    if label not in number_of:
        raise InvalidInput(f"{where}: the action {shown(label)} is not in the list of actions")
    number, known = number_of[label]
    require_same_spelling(label, known, "action")
    return number


def _shares(choices: Any, number_of: Numbers, where: str) -> dict[int, float]:
    """The probability of each action in a list of [action, probability], by its number."""
    if not isinstance(choices, list) or not all(isinstance(one, list) and len(one) == 2 for one in choices):
        raise InvalidInput(f"{where}: choose must be a list of [action, probability], found {shown(choices)}")
    found: dict[int, float] = {}
    for action, share in choices:
        number, what = _number(action, number_of, where), f"{where}, action {shown(action)}"
        if number in found:
            raise InvalidInput(f"{what} is chosen twice")
        if isinstance(share, bool) or not isinstance(share, int | float):
            raise InvalidInput(f"{what}: the probability must be a number, found {shown(share)}")
        try:
            found[number] = float(share)
        except OverflowError:
            raise InvalidInput(f"{what}: the probability is too large") from None
    return found
