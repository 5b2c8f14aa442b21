"""The .csv format of a policy, for spreadsheets: one row for each pair, at each stage if there are stages.

    state,action,probability                    stage,state 1,state 2,action,probability
    0,run,1.0                                   0,3,dry,wait,1.0
    1,run,0.25                                  0,3,dry,order,0.0

Labels that are tuples of the same length have a column for each part, called by its name if it has one: ``state tea``,
``state rice``. A cell is a whole number, a decimal one, true or
false, or text; where that would be read as something else than the label was (the text "12", say), the heading of the
column ends in ``:text``, or in ``:json`` for a column of several kinds. Rows may be in any order. A last column, "rows
left", counts down to 0, so that a file that lost its end is noticed; where it is missing nothing is.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from inbounds.errors import InvalidInput
from inbounds.formats.criterion import LONGEST
from inbounds.formats.labels import label_columns, plain, with_parts
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
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"is not a table of comma-separated values in UTF-8 ({error})") from error
    if len(rows) < 2:
        raise InvalidInput("has no rows; a policy has a heading and a row for each action of each state")
    heading, *cells = rows
    for number, row in enumerate(cells):
        if len(row) != len(heading):
            raise InvalidInput(
                f"row {number + 2} has {len(row)} cells, the heading has {len(heading)}: is it cut short?"
            )
    columns = dict(zip(heading, zip(*cells, strict=True), strict=True))
    if len(columns) != len(heading):
        raise InvalidInput("two columns have the same heading")
    if _LEFT in columns and sorted(columns[_LEFT]) != sorted(map(str, range(len(cells)))):
        raise InvalidInput(
            f"the column {_LEFT!r} does not count the {len(cells):,} rows from {len(cells) - 1:,} down to 0: rows were "
            "lost or added. Take a whole copy; or, if the rows are meant so, delete the column"
        )
    known = f"stage|probability|{_LEFT}|{_LABEL.replace('WHAT', '(?:state|action)')}"
    for name in columns:
        if not re.fullmatch(known, name):
            raise InvalidInput(f"has a column {shown(name)}, which no policy has; delete it")
    states, actions = _labels(columns, "state"), _labels(columns, "action")
    shares = [_share(cell, number + 2) for number, cell in enumerate(_column(columns, "probability"))]
    stages = [_stage(cell, number + 2) for number, cell in enumerate(columns["stage"])] if "stage" in columns else None
    return _gathered(states, actions, shares, stages)


def _gathered(
    states: Sequence[Any], actions: Sequence[Any], shares: Sequence[float], stages: Sequence[int] | None
) -> dict[str, Any]:
    """The fields of a policy from its rows, in whatever order."""
    action_number: dict[Any, int] = {}
    own: dict[Any, dict[int, dict[int, float]]] = {}  # state: action: stage: probability
    for place, (state, action, share) in enumerate(zip(states, actions, shares, strict=True)):
        number = action_number.setdefault(action, len(action_number))
        by_stage = own.setdefault(state, {}).setdefault(number, {})
        stage = 0 if stages is None else stages[place]
        if stage in by_stage:
            raise InvalidInput(f"row {place + 2} has state {shown(state)}, action {shown(action)} once more")
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
                    f"stages, found {len(by_stage)}"
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
    for heading, cells in columns.items():
        match = re.fullmatch(_LABEL.replace("WHAT", what), heading)
        if match:
            part = match[1] or ""
            if part in parts:
                raise InvalidInput(f"two columns are for part {part} of the {what}")
            parts[part] = [_value(cell, match[2] or "", f"column {heading!r}") for cell in cells]
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


_WHOLE = re.compile(r"[+-]?\d{1,1200}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?|-?inf", re.ASCII)


def _guessed(cell: str) -> Any:
    """What a cell without a mark says."""
    if cell in ("true", "false"):
        return cell == "true"
    if _WHOLE.fullmatch(cell):
        return int(cell)
    return float(cell) if _DECIMAL.fullmatch(cell) else cell


def _value(cell: str, kind: str, where: str) -> Any:
    if kind == ":json":
        try:
            return plain(json.loads(cell), where)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"{where} must hold JSON, found {shown(cell)} ({error})") from error
    return cell if kind == ":text" else _guessed(cell)


def _share(cell: str, row: int) -> float:
    if not _DECIMAL.fullmatch(cell.strip()):  # float() would take 0.5_0, and digits of other scripts
        raise InvalidInput(f"row {row}: the probability must be a number, found {shown(cell)}")
    return float(cell)


def _stage(cell: str, row: int) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", cell) or int(cell) >= LONGEST:
        raise InvalidInput(f"row {row}: the stage must be a whole number from 0 on, found {shown(cell)}")
    return int(cell)
