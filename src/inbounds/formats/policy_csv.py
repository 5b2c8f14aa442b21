"""The .csv format of a policy, for spreadsheets: one row for each pair, at each stage if there are stages.

    state,action,probability                    stage,state 1,state 2,action,probability
    0,run,1.0                                   0,3,dry,wait,1.0
    1,run,0.25                                  0,3,dry,order,0.0

Labels that are tuples of the same length have a column for each part, called by its name if it has one: ``state tea``,
``state rice``. A cell is a whole number, a decimal one, true or false (also TRUE or FALSE, as spreadsheets have it), or
text; where that would be read as something else than the label was (the text "12", say), the heading of the column ends
in ``:text``, or in ``:json`` for a column of several kinds. Rows may be in any order. A last column, "rows left",
counts down to 0, so that a file that lost its end is noticed; where it is missing nothing is.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from inbounds.errors import InvalidInput
from inbounds.formats.criterion import LONGEST
from inbounds.formats.labels import IN_JSON, label_columns, plain, require_one_spelling, with_parts
from inbounds.formats.policy_json import policy_fields
from inbounds.inputs import shown

_LEFT = "rows left"


def write(policy: Any, stream: BinaryIO) -> None:
    """Write a policy, anything with the attributes of one, to a stream."""
    columns = {}
    for name, values in policy_columns(policy).items():
        if name in ("stage", "probability"):
            columns[name] = [repr(value) for value in values]
        else:
            kind, cells = _cells([plain(value, f"{name} of a row") for value in values])
            columns[f"{name}{kind}"] = cells
    columns[_LEFT] = [str(left) for left in reversed(range(policy.probabilities.size))]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    stream.write(text.getvalue().encode("utf-8"))


def policy_columns(policy: Any) -> dict[str, list[Any]]:
    """A policy as the columns of a table: stage, if there are any, state, action, probability; a row for each pair."""
    pairs, stages = policy.pairs, policy.horizon or 1
    states = [pairs.state_label(int(state)) for state in pairs.states]
    actions = [pairs.action_label(pair) for pair in range(pairs.n_pairs)]
    columns = {**label_columns(states, "state"), **label_columns(actions, "action")}
    columns = {name: values * stages for name, values in columns.items()}
    if policy.horizon is not None:
        columns = {"stage": np.repeat(np.arange(stages), pairs.n_pairs).tolist(), **columns}
    return {**columns, "probability": policy.probabilities.ravel().tolist()}


def read(path: Path) -> dict[str, Any]:
    """The fields of the policy in the file at `path`; messages do not name the file."""
    try:
        text = path.read_bytes().decode("utf-8-sig")  # spreadsheets put a mark in front
        _require_commas(text)
        table = csv.reader(io.StringIO(text, newline=""), strict=True)
        rows = {number: row for number, row in enumerate(table, start=1) if any(row)}  # spreadsheets leave empty ones
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"is not a table of comma-separated values in UTF-8 ({error})") from error
    if len(rows) < 2:
        raise InvalidInput("has no rows; a policy has a heading and a row for each action of each state")
    (_, heading), *numbered = rows.items()
    for number, row in numbered:
        if len(row) != len(heading):
            if len(row) > len(heading):
                why = "write decimals with a point, text with a comma in quotes, and no comma at the end"
            else:
                why = "is it cut short?" if heading[-1] else "delete the comma that ends the heading"
            raise InvalidInput(f"row {number} has {len(row)} cells, the heading has {len(heading)}: {why}")
    cells, numbers = [row for _, row in numbered], [number for number, _ in numbered]
    columns = _columns(heading, cells)
    if _LEFT in columns and sorted(columns[_LEFT]) != sorted(map(str, range(len(cells)))):
        raise InvalidInput(
            f"the column {_LEFT!r} does not count the {len(cells):,} rows from {len(cells) - 1:,} down to 0: rows were "
            "lost or added. Take a whole copy; or, if the rows are meant so, delete the column"
        )
    states, actions = _labels(columns, "state"), _labels(columns, "action")
    shares = list(map(_share, _column(columns, "probability"), numbers))
    stages = list(map(_stage, columns["stage"], numbers)) if "stage" in columns else None
    return _gathered(states, actions, shares, stages, numbers)


_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def _require_commas(text: str) -> None:
    """Refuse a table that is separated by something else, which commas would cut into other cells than are meant."""
    heading = next((line for line in text.splitlines() if line.strip()), "")
    advice = "separate the cells by commas, and write decimals with a point: 0.5 (spreadsheets set to English do)"
    if hint := re.fullmatch(r"""\s*"?sep=(.)"?\s*""", heading, re.IGNORECASE):
        more = "" if hint[1] == "," else f"; and {advice}"
        raise InvalidInput(f"the first line, {shown(heading)}, is for a spreadsheet only: delete it{more}")
    found = next((called for mark, called in _SEPARATORS.items() if mark in heading and "," not in heading), None)
    if found is not None:
        raise InvalidInput(f"the cells are separated by {found}: {advice}")


def _columns(heading: list[str], cells: list[list[str]]) -> dict[str, tuple[str, ...]]:
    """The columns of a table by their headings; those that are empty, as of a comma that ends every row, are none."""
    columns: dict[str, tuple[str, ...]] = {}
    for place, (name, column) in enumerate(zip(heading, zip(*cells, strict=True), strict=True), start=1):
        if not name.strip():
            if any(column):
                raise InvalidInput(f"column {place} has no heading; give it one, or delete it")
            continue
        _require_heading(name, heading)
        if name in columns:
            raise InvalidInput(f"two columns have the same heading, {shown(name)}")
        columns[name] = column
    return columns


def _require_heading(name: str, heading: list[str]) -> None:
    """Refuse the heading of a column that no policy has, and say what is meant if that can be seen."""
    known = f"stage|probability|{_LEFT}|{_LABEL.replace('WHAT', '(?:state|action)')}"
    if re.fullmatch(known, name):
        return
    first, space, part = name.strip().partition(" ")
    for meant in (f"{first.lower()}{space}{part}", name.strip().lower()):
        if re.fullmatch(known, meant):
            rest = "" if name == name.strip() else "; in the rows too no space belongs beside a comma"
            raise InvalidInput(f"has the heading {shown(name)}: write {shown(meant)}{rest}")
    if re.fullmatch(known, plainly := name.partition(":")[0]):
        raise InvalidInput(
            f"has the heading {shown(name)}: write {shown(plainly)}; only those of labels end in something more, "
            "':text' or ':json'"
        )
    missing = [what for what in ("state", "action", "probability") if not any(one.startswith(what) for one in heading)]
    advice = f"; is it {' or '.join(map(repr, missing))}, which is missing? Rename it" if missing else "; delete it"
    raise InvalidInput(f"has a column {shown(name)}, which no policy has{advice}")


def _gathered(
    states: Sequence[Any],
    actions: Sequence[Any],
    shares: Sequence[float],
    stages: Sequence[int] | None,
    numbers: Sequence[int],
) -> dict[str, Any]:
    """The fields of a policy from its rows, in whatever order; `numbers` are those of the rows in the file."""
    action_number: dict[Any, int] = {}
    own: dict[Any, dict[int, dict[int, float]]] = {}  # state: action: stage: probability
    for place, (state, action, share) in enumerate(zip(states, actions, shares, strict=True)):
        number = action_number.setdefault(action, len(action_number))
        by_stage = own.setdefault(state, {}).setdefault(number, {})
        stage = 0 if stages is None else stages[place]
        if stage in by_stage:
            raise InvalidInput(f"row {numbers[place]} has state {shown(state)}, action {shown(action)} once more")
        by_stage[stage] = share
    horizon = None if stages is None else max(stages) + 1
    offsets, pair_actions = [0], []
    rules: list[list[float]] = [[] for _ in range(horizon or 1)]
    for state, choices in own.items():
        for number, by_stage in choices.items():
            if len(by_stage) != len(rules):
                action = next(label for label, other in action_number.items() if other == number)
                raise InvalidInput(
                    f"state {shown(state)}, action {shown(action)} must have a row for each of the {len(rules)} "
                    f"stages, 0 to {len(rules) - 1}, found {len(by_stage)}"
                )
            pair_actions.append(number)
            for stage, rule in enumerate(rules):
                rule.append(by_stage[stage])
        offsets.append(len(pair_actions))
    return policy_fields(offsets, pair_actions, rules, horizon, list(own), list(action_number))


def _column(columns: dict[str, Any], name: str) -> Any:
    if name not in columns:
        raise InvalidInput(f"has no column {name!r}; found {', '.join(map(shown, columns))}")
    return columns[name]


_LABEL = r"WHAT(?: (\S+?))?(:text|:json)?"
"""The heading of a column of labels, or of a part of them."""


def _labels(columns: dict[str, Any], what: str) -> list[Any]:
    """The labels of states or actions, one a row, from the columns that are called so."""
    parts: dict[str, list[Any]] = {}
    headings: dict[str, str] = {}
    spellings = []
    for heading, cells in columns.items():
        match = re.fullmatch(_LABEL.replace("WHAT", what), heading)
        if match:
            part, kind = match[1] or "", match[2] or ""
            if part in parts:
                which = f"part {part} of the {what}" if part else f"the {what}"
                raise InvalidInput(f"the columns {headings[part]!r} and {heading!r} are both for {which}; delete one")
            headings[part] = heading
            parts[part] = [_value(cell, kind, f"column {heading!r}") for cell in cells]
            spellings.append(cells if kind != ":json" else [json.dumps(value) for value in parts[part]])
    _require_one_way(zip(*parts.values(), strict=True), zip(*spellings, strict=True), what)
    if list(parts) == [""]:
        return parts[""]
    numbers = [str(place) for place in range(1, len(parts) + 1)]
    if sorted(parts) == sorted(numbers) and parts:
        return list(zip(*(parts[number] for number in numbers), strict=True))
    if not parts or any(part == "" or part.isdigit() for part in parts):
        raise InvalidInput(
            f"must have a column {what!r}, or '{what} 1', '{what} 2', ... for the parts of a tuple, or one for each "
            f"part, called {what!r} and its name"
        )
    return list(with_parts(tuple(zip(*parts.values(), strict=True)), [*parts], what) or ())


def _require_one_way(labels: Iterable[Any], spellings: Iterable[Sequence[str]], what: str) -> None:
    """That rows of a table whose labels are equal have them in the same letters: 1 and 01 may be two codes."""
    first: dict[Any, Sequence[str]] = {}
    for label, spelling in zip(labels, spellings, strict=True):
        if (known := first.setdefault(label, spelling)) != spelling:
            apart = "let the heading of the column end in ':text'"
            require_one_spelling(", ".join(known), ", ".join(spelling), what, apart)


def _cells(values: list[Any]) -> tuple[str, list[str]]:
    """How the heading of a column of labels ends, and its cells."""
    texts = [_text(value) for value in values]
    if all(text is not None and _same(_guessed(text), value) for text, value in zip(texts, values, strict=True)):
        return "", [str(text) for text in texts]
    if all(isinstance(value, str) for value in values):
        return ":text", values
    return ":json", [json.dumps(value) for value in values]


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else repr(value) if isinstance(value, int | float) else None


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_MOST_DIGITS = 1200
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?|-?inf", re.ASCII)


def _guessed(cell: str) -> Any:
    """What a cell without a mark says; infinite, though it does not say so, where that is too long a number."""
    if cell in ("true", "false", "TRUE", "FALSE"):  # the latter as spreadsheets write them back
        return cell.lower() == "true"
    if _WHOLE.fullmatch(cell):
        return int(cell) if len(cell) <= _MOST_DIGITS else math.inf
    return float(cell) if _DECIMAL.fullmatch(cell) else cell


def _value(cell: str, kind: str, where: str) -> Any:
    if kind == ":json":
        try:
            return plain(json.loads(cell), where, IN_JSON)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"{where} must hold JSON, found {shown(cell)} ({error})") from error
    value = cell if kind == ":text" else _guessed(cell)
    if isinstance(value, float) and math.isinf(value) and not cell.endswith("inf"):
        raise InvalidInput(
            f"{where} has {shown(cell)}, too large for a number; if it is text, let the heading end in ':text'"
        )
    return value


def _share(cell: str, row: int) -> float:
    if not _DECIMAL.fullmatch(cell.strip()):  # float() would take 0.5_0, and digits of other scripts
        hint = "; write decimals with a point" if "," in cell else ""
        raise InvalidInput(f"row {row}: the probability must be a number, found {shown(cell)}{hint}")
    return float(cell)


def _stage(cell: str, row: int) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", cell) or int(cell) >= LONGEST:
        raise InvalidInput(f"row {row}: the stage must be a whole number from 0 on, found {shown(cell)}")
    return int(cell)
