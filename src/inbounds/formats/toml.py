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
from inbounds.formats.labels import Label, plain, shown, text
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint

KIND, VERSION = "cmdp", 1

LARGEST = 64 * 2**20
"""Bytes, which take about a minute to parse; larger models belong in an .npz file."""

TOP_KEYS = ("kind", "version", "name", "discount", "initial", "states", "actions", "constraint", "pair")
CONSTRAINT_KEYS = ("name", "at_least", "at_most")
PAIR_KEYS = ("state", "action", "reward", "signals", "next")


# --- reading ---


def read(path: Path) -> CMDP:
    """The model in the file at `path`; messages do not name the file."""
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
        raise InvalidInput(f"is not valid TOML: {error}") from error
    return _model(document)


def _model(document: dict[str, Any]) -> CMDP:
    if document.get("kind", KIND) != KIND:
        raise InvalidInput(f"the file holds a model of the kind {shown(document['kind'])}; only {KIND!r} can be read")
    version = document.get("version", VERSION)
    if version != VERSION or isinstance(version, bool):
        raise InvalidInput(
            f"the file has the format version {shown(version)}; this version of inbounds reads {VERSION}"
        )
    _require_keys(document, TOP_KEYS, ("discount", "initial", "pair"), "the file")
    constraints = [
        _constraint(entry, f"constraint {position}")
        for position, entry in enumerate(_tables(document.get("constraint", []), "constraint"), start=1)
    ]
    names = [constraint.name for constraint in constraints]
    pairs = [_pair(entry, position, names) for position, entry in enumerate(_tables(document["pair"], "pair"), start=1)]
    if not pairs:
        raise InvalidInput("there are no pairs; a model needs one [[pair]] for each action of each state")
    states = _Names(document.get("states"), [pair["state"] for pair in pairs], "state")
    actions = _Names(document.get("actions"), [pair["action"] for pair in pairs], "action")

    if states.count > len(pairs):  # also a bound on what follows
        raise InvalidInput(f"there are {shown(states.count)} states, but only {len(pairs)} pairs; each state needs one")
    given: set[tuple[int, int]] = set()
    for pair in pairs:
        pair["key"] = states.number(pair["state"], pair["where"]), actions.number(pair["action"], pair["where"])
        if pair["key"] in given:
            raise InvalidInput(f"{pair['where']} is given twice")
        given.add(pair["key"])
    pairs.sort(key=lambda pair: pair["key"][0])  # stable: within a state the order of the file
    rows = [_distribution(pair["next"], states, f"{pair['where']}: next") for pair in pairs]
    initial = np.zeros(states.count)
    for state, probability in _distribution(document["initial"], states, "initial").items():
        initial[state] = probability
    return CMDP(
        offsets=np.searchsorted([pair["key"][0] for pair in pairs], np.arange(states.count + 1)),
        transition=sp.csr_array(
            (
                np.array([probability for row in rows for probability in row.values()], dtype=np.float64),
                np.array([state for row in rows for state in row], dtype=np.int64),
                np.cumsum([0] + [len(row) for row in rows]),
            ),
            shape=(len(pairs), states.count),
        ),
        reward=np.array([pair["reward"] for pair in pairs]),
        constraints=tuple(
            Constraint(
                np.array([pair["signals"][k] for pair in pairs]),
                at_least=constraint.at_least,
                at_most=constraint.at_most,
                name=constraint.name,
            )
            for k, constraint in enumerate(constraints)
        ),
        initial=initial,
        discount=_number(document["discount"], "discount"),
        actions=np.array([pair["key"][1] for pair in pairs]),
        state_labels=states.labels,
        action_labels=actions.labels,
        name=text(document.get("name", ""), "name"),
    )


def _constraint(entry: dict[str, Any], what: str) -> Constraint:
    _require_keys(entry, CONSTRAINT_KEYS, ("name",), what)
    name = text(entry["name"], f"the name of {what}")
    what = f"constraint {name!r}"
    bounds = {side: _number(entry[side], f"{what}: {side}") for side in ("at_least", "at_most") if side in entry}
    if not name or len(bounds) != 1:
        raise InvalidInput(f"{what} needs a name, and exactly one of at_least and at_most")
    return Constraint(name=name, **bounds)  # type: ignore[arg-type]


def _pair(entry: dict[str, Any], position: int, constraints: list[str]) -> dict[str, Any]:
    where = f"pair {position}"
    _require_keys(entry, PAIR_KEYS, ("state", "action"), where)
    state = plain(entry["state"], f"{where}: the state")
    action = plain(entry["action"], f"{where}: the action")
    where = f"state {state!r}, action {action!r}"
    _require_keys(entry, PAIR_KEYS, ("next",), where)
    signals = entry.get("signals", {})
    if not isinstance(signals, dict):
        raise InvalidInput(f"{where}: signals must be a table {{ constraint = number }}, found {shown(signals)}")
    _require_keys(signals, dict.fromkeys(constraints), (), f"{where}: signals")
    return {
        "where": where,
        "state": state,
        "action": action,
        "reward": _number(entry.get("reward", 0.0), f"{where}: the reward"),
        "signals": [_number(signals.get(name, 0.0), f"{where}: the signal of {name!r}") for name in constraints],
        "next": entry["next"],
    }


class _Names:
    """The states, or the actions, of a file: what they are called, and which number a name stands for."""

    def __init__(self, listed: Any, used: list[Label], what: str) -> None:
        self.what = what
        self.labels: tuple[Label, ...] | None = None
        if listed is None:
            self.labels = tuple(dict.fromkeys(used))
        elif isinstance(listed, list):
            self.labels = tuple(plain(label, f"{what}s, entry {k}") for k, label in enumerate(listed, start=1))
        elif type(listed) is not int:
            raise InvalidInput(f"{what}s must be a list of labels or how many there are, found {shown(listed)}")
        elif listed != (most := max((name for name in used if type(name) is int), default=-1)) + 1:
            raise InvalidInput(f"{what}s = {shown(listed)}, but the highest number of a {what} is {most}")
        self.count = listed if self.labels is None else len(self.labels)
        self.numbers = {label: number for number, label in enumerate(self.labels or ())}
        self.numbers_of_keys: dict[str, int] = {}

    def number(self, label: Label, where: str) -> int:
        if self.labels is None and type(label) is int and 0 <= label < self.count:
            return label  # not from a table: the file may claim any number of actions
        if label not in self.numbers:
            raise InvalidInput(f"{where}: {shown(label)} is not one of the {self.what}s of the file")
        return self.numbers[label]

    def number_of_key(self, key: str, where: str) -> int:
        """The number of a label that stands as the key of a table: text, or else JSON."""
        if key not in self.numbers_of_keys:
            label: Label = key
            if key not in self.numbers:
                with suppress(ValueError, RecursionError):  # not JSON, or no label
                    label = plain(json.loads(key), where)
            self.numbers_of_keys[key] = self.number(label, where)
        return self.numbers_of_keys[key]


def _distribution(value: Any, states: _Names, where: str) -> dict[int, float]:
    """Probabilities by state, from ``{ label = probability }``, or from one label that is certain."""
    if not isinstance(value, dict):
        return {states.number(plain(value, where), where): 1.0}
    row: dict[int, float] = {}
    for key, probability in value.items():
        state = states.number_of_key(key, where)
        if state in row:
            raise InvalidInput(f"{where}: {shown(key)} is given twice")
        row[state] = _number(probability, f"{where}: the probability of {shown(key)}")
    return row


_FRACTION = re.compile(r"\s*([+-]?[0-9]{1,18})\s*/\s*([0-9]{1,18})\s*", re.ASCII)


def _number(value: Any, what: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise InvalidInput(f"{what} is too large for a double") from None
    if isinstance(value, str) and (fraction := _FRACTION.fullmatch(value)) and int(fraction[2]) != 0:
        return float(Fraction(int(fraction[1]), int(fraction[2])))
    hint = "; a label with a dot must stand in quotes" if isinstance(value, dict) else ""
    raise InvalidInput(f'{what} must be a number, or a fraction as in "1/3", found {shown(value)}{hint}')


def _tables(value: Any, what: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise InvalidInput(f"{what} must be given as [[{what}]], once for each, found {shown(value)}")
    return value


def _require_keys(table: dict[str, Any], allowed: Iterable[str], required: Iterable[str], what: str) -> None:
    for key in required:
        if key not in table:
            raise InvalidInput(f"{what} has no {key!r}")
    for key in table:
        if key not in allowed:
            raise InvalidInput(f"{what} has the unknown entry {shown(key)}; there are: {', '.join(allowed) or 'none'}")


# --- writing ---


def write(cmdp: CMDP, stream: BinaryIO) -> None:
    """Write `cmdp` with a line for each pair."""
    states = _written_labels(cmdp.state_labels, "state")
    actions = _written_labels(cmdp.action_labels, "action")
    numbers = range(max(cmdp.n_states, cmdp.pairs.n_actions))
    state_names, action_names = states or numbers, actions or numbers
    texts = {label for label in state_names if isinstance(label, str)}
    for label in state_names:
        if not isinstance(label, str) and _key_text(label) in texts:
            raise InvalidInput(
                f"the states {label!r} and {_key_text(label)!r} would be written alike; use .npz, or other labels"
            )
    names = [text(constraint.name, "the name of a constraint") for constraint in cmdp.constraints]

    def distribution(columns: Any, probabilities: Any) -> str:
        if len(columns) == 1 and probabilities[0] == 1.0:
            return _value(state_names[columns[0]])
        entries = zip(columns, probabilities, strict=True)
        return _table((_key_text(state_names[column]), _value(float(p))) for column, p in entries)

    # A zero with a sign is kept, as every other bit.
    started = np.flatnonzero((cmdp.initial != 0.0) | np.signbit(cmdp.initial))
    lines = [
        f"kind = {_value(KIND)}",
        f"version = {VERSION}",
        f"name = {_value(text(cmdp.name, 'the name of the model'))}",
        f"discount = {_value(cmdp.discount)}",
        f"initial = {distribution(started, cmdp.initial[started])}",
        f"states = {_value(states) if states is not None else cmdp.n_states}",
        f"actions = {_value(actions) if actions is not None else cmdp.pairs.n_actions}",
        "",
        "constraint = [",
    ]
    for name, constraint in zip(names, cmdp.constraints, strict=True):
        side = "at_least" if constraint.at_least is not None else "at_most"
        lines.append(f"  {_table([('name', _value(name)), (side, _value(float(constraint.bound)))])},")
    lines += ["]", "", "pair = ["]
    matrix = cmdp.transition
    for pair in range(cmdp.n_pairs):
        row = slice(matrix.indptr[pair], matrix.indptr[pair + 1])
        entries = [
            ("state", _value(state_names[cmdp.pairs.states[pair]])),
            ("action", _value(action_names[cmdp.pairs.actions[pair]])),
            ("reward", _value(float(cmdp.reward[pair]))),
            ("next", distribution(matrix.indices[row], matrix.data[row])),
        ]
        if names:
            signals = ((n, _value(float(c.signal[pair]))) for n, c in zip(names, cmdp.constraints, strict=True))
            entries.insert(3, ("signals", _table(signals)))
        lines.append(f"  {_table(entries)},")
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
