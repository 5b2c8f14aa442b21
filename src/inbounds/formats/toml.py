"""The .toml format: a model as text, for models small enough to read.

    discount = 0.95
    initial = "new"

    [[constraint]]
    name = "repairs"
    at_most = 0.1

    [[pair]]
    state = "worn"
    action = "repair"
    reward = -1
    signals = { repairs = 1 }
    next = { new = 0.9, worn = 0.1 }

In place of the discount there may be ``horizon = 12`` or ``average = true``. Over a horizon a pair is given once, for
all stages, or once for each of them, with ``stage = 0`` and so on.

Floats are written with the fewest digits that give the same double, so a model comes back bit for bit. Where TOML
wants text, as the key of a table, a label that is not text stands as JSON: ``3``, ``"[0.2, true]"``. A key is first
looked up as text and then as JSON. Writing refuses a model whose labels could be confused so, as ``3`` and ``"3"``.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from inbounds.errors import InvalidInput
from inbounds.formats.criterion import CRITERIA, KIND, criterion_in_file, once, require_kind, transitions_once
from inbounds.formats.entries import require_entries
from inbounds.formats.labels import (
    IN_JSON,
    IN_TOML,
    Label,
    parts_of,
    plain,
    require_once,
    require_same_spelling,
    text,
    with_parts,
)
from inbounds.inputs import is_whole, shown

VERSION = 1

LARGEST = 64 * 2**20
"""Bytes, which take about a minute to parse; larger models belong in an .npz file."""

MOST = LARGEST // 8
"""Numbers of all stages, where something depends on the stage: a pair that does not is in the file once, and counts for
each of them."""

MOST_NUMBERED = 2**63 - 1
"""Of states or actions that are called by their numbers, which arrays hold in 64 bits."""

PARTS_KEYS = ("state_parts", "action_parts")
TOP_KEYS = ("kind", "version", "name", *CRITERIA, "initial", "states", "actions", *PARTS_KEYS, "constraint", "pair")
CONSTRAINT_KEYS = ("name", "at_least", "at_most")
PAIR_KEYS = ("state", "action", "stage", "reward", "signals", "next")


# --- reading ---


def read(path: Path) -> dict[str, Any]:
    """The fields of the model in the file at `path`; messages do not name the file."""
    with open(path, "rb") as stream:
        content = stream.read(LARGEST + 1)
    if not content:
        raise InvalidInput("the file is empty")
    if len(content) > LARGEST:
        raise InvalidInput(f"TOML is for small models, of up to {LARGEST // 2**20} MiB; use .npz")
    try:
        document = tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"is not text in UTF-8 ({error})") from error
    except RecursionError as error:
        raise InvalidInput("is not TOML that can be read: it nests too deep") from error
    except ValueError as error:  # TOMLDecodeError, with line and column, or a number beyond Python's limits
        twice = "; each pair begins with [[pair]], in two brackets" if "('pair',) twice" in str(error) else ""
        raise InvalidInput(f"is not valid TOML: {error}{twice}") from error
    return _fields(document)


def _fields(document: dict[str, Any]) -> dict[str, Any]:
    require_kind(document.get("kind", KIND), document.get("version", VERSION), VERSION)
    _require_nothing_misplaced(document)
    require_entries(document, TOP_KEYS, ("initial", "pair"), "the file")
    stated = {name: document[name] for name in CRITERIA if name in document}
    if "discount" in stated:
        stated["discount"] = _number(stated["discount"], "discount")
    criterion = criterion_in_file(stated, "the criterion")
    if criterion.get("discount") == 1.0:
        raise InvalidInput("discount must be in [0, 1), found 1; for long-run averages, write average = true instead")
    constraints = [
        _constraint(entry, f"constraint {position}")
        for position, entry in enumerate(_tables(document.get("constraint", []), "constraint"), start=1)
    ]
    names, horizon = [constraint["name"] for constraint in constraints], criterion.get("horizon")
    entries = [
        _pair(entry, position, names, horizon)
        for position, entry in enumerate(_tables(document["pair"], "pair"), start=1)
    ]
    if not entries:
        raise InvalidInput("there are no pairs; a model needs one [[pair]] for each action of each state")
    states = _Names(document.get("states"), [entry["state"] for entry in entries], "state")
    actions = _Names(document.get("actions"), [entry["action"] for entry in entries], "action")

    if states.count > len(entries):  # also a bound on what follows
        raise InvalidInput(
            f"there are {shown(states.count)} states, but only {len(entries)} pairs; each state needs one"
        )
    given: dict[tuple[int, int], dict[int | None, dict[str, Any]]] = {}  # by state and action, then by stage
    for entry in entries:
        where = entry["where"]
        by_stage = given.setdefault((states.number(entry["state"], where), actions.number(entry["action"], where)), {})
        if entry["stage"] in by_stage:
            raise InvalidInput(f"{where} is given twice")
        by_stage[entry["stage"]] = entry
    for by_stage in given.values():
        _require_stages(by_stage, horizon)
    order = sorted(given, key=lambda pair: pair[0])  # stable: within a state the order of the file
    pairs = [given[pair] for pair in order]
    for entry in entries:
        entry["next"] = sorted(_distribution(entry["next"], states, f"{entry['where']}: next").items())
    initial = np.zeros(states.count)
    for state, probability in _distribution(document["initial"], states, "initial").items():
        initial[state] = probability

    count = max(len(by_stage) for by_stage in pairs)  # H, or 1 where nothing depends on the stage
    _require_small(count, len(pairs), max(len(entry["next"]) for entry in entries))
    stages = [[p[h] if h in p else p[None] for p in pairs] for h in range(count)]  # [H or 1][n]
    transitions = transitions_once(tuple(_transition([entry["next"] for entry in at], states.count) for at in stages))
    return {
        "offsets": np.searchsorted([state for state, _ in order], np.arange(states.count + 1)),
        "transition": transitions[0] if len(transitions) == 1 else transitions,
        "reward": once(np.array([[entry["reward"] for entry in at] for at in stages])),
        "constraints": [
            constraint | {"signal": once(np.array([[entry["signals"][k] for entry in at] for at in stages]))}
            for k, constraint in enumerate(constraints)
        ],
        "initial": initial,
        "actions": np.array([action for _, action in order]),
        "state_labels": with_parts(states.labels, document.get("state_parts"), "state"),
        "action_labels": with_parts(actions.labels, document.get("action_parts"), "action"),
        "name": text(document.get("name", ""), "name"),
        **criterion,
    }


def _constraint(entry: dict[str, Any], what: str) -> dict[str, Any]:
    require_entries(entry, CONSTRAINT_KEYS, ("name",), what)
    name = text(entry["name"], f"the name of {what}")
    what = f"constraint {name!r}"
    bounds: dict[str, Any] = {
        side: _number(entry[side], f"{what}: {side}") for side in ("at_least", "at_most") if side in entry
    }
    if not name or len(bounds) != 1:
        raise InvalidInput(f"{what} needs a name, and exactly one of at_least and at_most")
    return {"name": name, **bounds}


def _pair(entry: dict[str, Any], position: int, constraints: list[str], horizon: int | None) -> dict[str, Any]:
    where = f"pair {position}"
    require_entries(entry, PAIR_KEYS, ("state", "action"), where)
    state = plain(entry["state"], f"{where}: the state", IN_TOML)
    action = plain(entry["action"], f"{where}: the action", IN_TOML)
    where = f"state {state!r}, action {action!r}"
    stage = entry.get("stage")
    if stage is not None:
        if horizon is None:
            raise InvalidInput(f"{where}: a stage needs a horizon, and the file has none")
        if not is_whole(stage, 0) or stage >= horizon:
            raise InvalidInput(f"{where}: stage must be a whole number in 0..{horizon - 1}, found {shown(stage)}")
        where = f"{where}, stage {stage}"
    require_entries(entry, PAIR_KEYS, ("next",), where)
    signals = entry.get("signals", {})
    if not isinstance(signals, dict):
        raise InvalidInput(f"{where}: signals must be a table {{ constraint = number }}, found {shown(signals)}")
    for name, signal in signals.items():
        if isinstance(signal, dict):
            _number(signal, f"{where}: the signal of {shown(name)}")  # which refuses it, and says why
    require_entries(signals, dict.fromkeys(constraints), (), f"{where}: signals")
    return {
        "where": where,
        "state": state,
        "action": action,
        "stage": stage,
        "reward": _number(entry.get("reward", 0.0), f"{where}: the reward"),
        "signals": [_number(signals.get(name, 0.0), f"{where}: the signal of {name!r}") for name in constraints],
        "next": entry["next"],
    }


def _require_stages(by_stage: dict[int | None, dict[str, Any]], horizon: int | None) -> None:
    """That a pair is given once for all stages, or once for each."""
    if set(by_stage) == {None} or (None not in by_stage and len(by_stage) == horizon):
        return
    advice = f"give it once without a stage, or once for each of the {horizon} stages"
    if None in by_stage:
        raise InvalidInput(f"{by_stage[None]['where']} is given both with and without a stage; {advice}")
    some, missing = next(iter(by_stage.values())), next(h for h in range(horizon or 0) if h not in by_stage)
    raise InvalidInput(f"{some['where']} is given, but not stage {missing}; {advice}")


def _require_small(stages: int, n_pairs: int, longest_row: int) -> None:
    """That numbers for every stage and pair, with rows as long as the longest, are not many more than a file holds."""
    if stages > 1 and stages * n_pairs * (1 + longest_row) > MOST:
        raise InvalidInput(
            f"TOML is for small models; {stages:,} stages of {n_pairs:,} pairs with up to {longest_row:,} next states "
            f"are too many where something depends on the stage; use .npz"
        )


def _transition(rows: list[list[tuple[int, float]]], n_states: int) -> Any:
    return sp.csr_array(
        (
            np.array([probability for row in rows for _, probability in row], dtype=np.float64),
            np.array([state for row in rows for state, _ in row], dtype=np.int64),
            np.cumsum([0] + [len(row) for row in rows]),
        ),
        shape=(len(rows), n_states),
    )


class _Names:
    """The states, or the actions, of a file: what they are called, and which number a name stands for."""

    def __init__(self, listed: Any, used: list[Label], what: str) -> None:
        self.what = what
        self.labels: tuple[Label, ...] | None = None
        if listed is None:
            self.labels = tuple(dict.fromkeys(used))
        elif isinstance(listed, list):
            self.labels = tuple(plain(label, f"{what}s, entry {k}", IN_TOML) for k, label in enumerate(listed, start=1))
            require_once(self.labels, what, f"{what}s")
        elif type(listed) is int and listed > MOST_NUMBERED:
            raise InvalidInput(f"{what}s = {shown(listed)}: there may be at most {MOST_NUMBERED:,} without labels")
        elif type(listed) is not int:
            raise InvalidInput(f"{what}s must be a list of labels or how many there are, found {shown(listed)}")
        elif not all(type(name) is int for name in used):
            label = next(name for name in used if type(name) is not int)
            raise InvalidInput(
                f"{what}s = {shown(listed)} is for {what}s that are called 0, 1, 2, ..., and one is called "
                f"{shown(label)}: list their labels, or leave {what}s out"
            )
        elif listed != (most := max((name for name in used if type(name) is int), default=-1)) + 1:
            raise InvalidInput(f"{what}s = {shown(listed)}, but the highest number of a {what} is {most}")
        self.count = listed if self.labels is None else len(self.labels)
        self.numbers = {label: number for number, label in enumerate(self.labels or ())}
        self.numbers_of_keys: dict[str, int] = {}

    def number(self, label: Label, where: str) -> int:
        if self.labels is None and type(label) is int and 0 <= label < self.count:
            return label  # not from a table: the file may claim any number of actions
        if label not in self.numbers or self.labels is None:
            raise InvalidInput(f"{where}: {shown(label)} is not one of the {self.what}s of the file")
        number = self.numbers[label]
        require_same_spelling(label, self.labels[number], self.what)
        return number

    def number_of_key(self, key: str, where: str) -> int:
        """The number of a label that stands as the key of a table: text, or else JSON."""
        if key not in self.numbers_of_keys:
            label: Label = key
            if key not in self.numbers:
                with suppress(ValueError, RecursionError):  # not JSON, or no label
                    label = plain(json.loads(key), where, IN_JSON)
            self.numbers_of_keys[key] = self.number(label, where)
        return self.numbers_of_keys[key]


def _distribution(value: Any, states: _Names, where: str) -> dict[int, float]:
    """Probabilities by state, from ``{ label = probability }``, or from one label that is certain."""
    if not isinstance(value, dict):
        return {states.number(plain(value, where, IN_TOML), where): 1.0}
    row: dict[int, float] = {}
    for key, probability in value.items():
        if isinstance(probability, dict):
            _number(probability, f"{where}: the probability of {shown(key)}")  # which refuses it, and says why
        state = states.number_of_key(key, where)
        if state in row:
            raise InvalidInput(f"{where}: {shown(key)} is given twice")
        row[state] = _number(probability, f"{where}: the probability of {shown(key)}")
    return row


_MOST_DIGITS = 18
"""Of the numbers of a fraction."""
_FRACTION = re.compile(rf"\s*([+-]?[0-9]{{1,{_MOST_DIGITS}}})\s*/\s*([0-9]{{1,{_MOST_DIGITS}}})\s*", re.ASCII)


def _number(value: Any, what: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise InvalidInput(f"{what} is too large for a double") from None
    if isinstance(value, str) and (fraction := _FRACTION.fullmatch(value)) and int(fraction[2]) != 0:
        return float(Fraction(int(fraction[1]), int(fraction[2])))
    hint = "; a name with a dot must stand in quotes" if isinstance(value, dict) else ""
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]+\s*/\s*[0-9]+\s*", value, re.ASCII):
        hint = f"; its numbers have at most {_MOST_DIGITS} digits, and the second is not 0"
    raise InvalidInput(f'{what} must be a number, or a fraction as in "1/3", found {shown(value)}{hint}')


def _tables(value: Any, what: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise InvalidInput(f"{what} must be given as [[{what}]], once for each, found {shown(value)}")
    return value


def _require_nothing_misplaced(document: dict[str, Any]) -> None:
    """That no entry of the whole file comes after a [[pair]], to which TOML then counts it."""
    for what, allowed in (("constraint", CONSTRAINT_KEYS), ("pair", PAIR_KEYS)):
        tables = document.get(what)
        for position, table in enumerate(tables if isinstance(tables, list) else (), start=1):
            for key in table if isinstance(table, dict) else ():
                if key in TOP_KEYS and key not in allowed:
                    raise InvalidInput(
                        f"{what} {position} has the entry {key!r}, which is of the whole file: it belongs above the "
                        "first [[constraint]] and the first [[pair]]"
                    )


# --- writing ---


def write(model: Any, stream: BinaryIO) -> None:
    """Write a model, anything with the attributes of one: a line for each pair, or for each stage where they differ."""
    ((criterion, value),) = criterion_in_file(model.criterion, "the criterion").items()
    states = _written_labels(model.state_labels, "state")
    actions = _written_labels(model.action_labels, "action")
    n_states, n_pairs = len(model.offsets) - 1, len(model.actions)
    n_actions = int(model.actions.max()) + 1
    numbers = range(max(n_states, n_actions))
    state_names, action_names = states or numbers, actions or numbers
    texts = {label for label in state_names if isinstance(label, str)}
    for label in state_names:
        if not isinstance(label, str) and _key_text(label) in texts:
            raise InvalidInput(
                f"the states {label!r} and {_key_text(label)!r} would be written alike; use .npz, or other labels"
            )
    names = [text(constraint.name, "the name of a constraint") for constraint in model.constraints]
    parts = parts_of(model.state_labels), parts_of(model.action_labels)

    def distribution(columns: Any, probabilities: Any) -> str:
        if len(columns) == 1 and probabilities[0] == 1.0:
            return _value(state_names[columns[0]])
        entries = zip(columns, probabilities, strict=True)
        return _table((_key_text(state_names[column]), _value(float(p))) for column, p in entries)

    # A zero with a sign is kept, as every other bit.
    started = np.flatnonzero((model.initial != 0.0) | np.signbit(model.initial))
    lines = [
        f"kind = {_value(KIND)}",
        f"version = {VERSION}",
        f"name = {_value(text(model.name, 'the name of the model'))}",
        f"{criterion} = {_value(value)}",
        f"initial = {distribution(started, model.initial[started])}",
        f"states = {_value(states) if states is not None else n_states}",
        f"actions = {_value(actions) if actions is not None else n_actions}",
        *(f"{key} = {_value(names)}" for key, names in zip(PARTS_KEYS, parts, strict=True) if names is not None),
        "",
        "constraint = [",
    ]
    for name, constraint in zip(names, model.constraints, strict=True):
        side = "at_least" if constraint.at_least is not None else "at_most"
        lines.append(f"  {_table([('name', _value(name)), (side, _value(float(constraint.bound)))])},")
    lines += ["]", "", "pair = ["]

    transitions = transitions_once(model.transition)
    gains = [once(gain) for gain in (model.reward, *(constraint.signal for constraint in model.constraints))]
    staged = len(transitions) > 1 or any(gain.ndim == 2 for gain in gains)
    stages = int(value) if staged else 1
    _require_small(stages, n_pairs, max(int(np.diff(stage.indptr).max()) for stage in transitions))
    pair_states = np.repeat(np.arange(n_states), np.diff(model.offsets))
    for pair in range(n_pairs):
        which = ("state", _value(state_names[pair_states[pair]])), ("action", _value(action_names[model.actions[pair]]))
        said = []
        for stage in range(stages):
            matrix = transitions[stage % len(transitions)]
            row = slice(matrix.indptr[pair], matrix.indptr[pair + 1])
            reward, *signals = (_value(float(gain[pair] if gain.ndim == 1 else gain[stage, pair])) for gain in gains)
            said.append([("reward", reward), ("next", distribution(matrix.indices[row], matrix.data[row]))])
            if names:
                said[-1].insert(1, ("signals", _table(zip(names, signals, strict=True))))
        if all(entries == said[0] for entries in said):
            lines.append(f"  {_table([*which, *said[0]])},")
        else:
            lines += [f"  {_table([*which, ('stage', str(h)), *entries])}," for h, entries in enumerate(said)]
    lines += ["]", ""]
    content = "\n".join(lines).encode("utf-8")
    if len(content) > LARGEST:
        raise InvalidInput(f"TOML is for small models, of up to {LARGEST // 2**20} MiB; use .npz")
    stream.write(content)


def _written_labels(labels: Any, what: str) -> tuple[Label, ...] | None:
    if labels is None:
        return None
    written = tuple(plain(label, f"{what} {position}") for position, label in enumerate(labels))
    for position, label in enumerate(written):
        if _contains_none(label):
            raise InvalidInput(f"{what} {position} has the label {label!r}; TOML has no None, use .npz")
    return written


def _contains_none(label: Label) -> bool:
    return label is None or (isinstance(label, tuple) and any(map(_contains_none, label)))


def _value(value: Any) -> str:
    """A label, or a number, in TOML. The `repr` of a float is the shortest text that reads back as the same double."""
    if isinstance(value, str):
        return '"' + _TO_ESCAPE.sub(lambda found: _ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04x}", value) + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)


_TO_ESCAPE = re.compile(r'[\x00-\x1f\x7f"\\]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _key_text(label: Label) -> str:
    return label if isinstance(label, str) else json.dumps(label)


def _table(entries: Iterable[tuple[str, str]]) -> str:
    """An inline table from keys, and values that are written already."""
    return f"{{ {', '.join(f'{_key(key)} = {value}' for key, value in entries)} }}"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)
