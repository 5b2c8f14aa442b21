"""What may stand in a file as the label of a state or of an action.

Text, whole numbers, floats, booleans, None, and tuples of these, nested as one likes. They come back equal and of the
same type; NumPy's scalars and other subclasses come back as the plain value that they equal. Labels that are all named
tuples of the same fields keep the names of their parts, and come back as named tuples.
"""

from __future__ import annotations

import json
import re
from collections import namedtuple
from collections.abc import Iterable, Sequence
from dataclasses import is_dataclass
from functools import lru_cache
from keyword import iskeyword
from typing import Any
from unicodedata import normalize

import numpy as np

from inbounds.errors import InvalidInput
from inbounds.inputs import shown
from inbounds.tables import printable

Label = str | int | float | bool | None | tuple["Label", ...]

DEEPEST = 32
LONGEST = 4096
"""How deep tuples may nest and how many bits a whole number may have: far beyond any use, and within what parsers and
`repr` can handle on every Python."""


def parsed(content: bytes) -> Any:
    """What JSON text in UTF-8 says, in which no object may have a key twice: which of the two would count?"""

    def once(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in items:
            if key in found:
                raise ValueError(f"the key {shown(key)} is there twice")
            found[key] = value
        return found

    return json.loads(content.decode("utf-8"), object_pairs_hook=once)


IN_PYTHON = "text, a number, true or false, None, or a tuple of these"
IN_JSON = "text, a number, true or false, null, or a list of these"
IN_TOML = "text, a number, true or false, or a list of these"
"""What a label in a file may be, in the words of where it is read."""


def plain(value: Any, what: str, kinds: str = IN_PYTHON) -> Label:
    """The label `value` in plain Python types, a list as a tuple; `what` names it in the error message.

    `kinds` says there what it may be.

    >>> plain((np.int64(3), [True, "up"]), "a state")
    (3, (True, 'up'))
    """
    return _plain(value, value, what, kinds, DEEPEST)


def _plain(part: Any, whole: Any, what: str, kinds: str, depth: int) -> Label:
    if isinstance(part, np.generic):
        part = part.item()
    if part is None or isinstance(part, bool):
        return part
    if isinstance(part, int):
        if part.bit_length() > LONGEST:
            raise InvalidInput(f"{what} has a whole number of more than {LONGEST} bits in its label")
        return int(part)
    if isinstance(part, float) and part == part:  # a NaN could never be looked up
        return float(part)
    if isinstance(part, str):
        return text(part, f"the label of {what}")
    if isinstance(part, tuple | list):
        if depth == 0:
            raise InvalidInput(f"{what} has a label whose parts nest deeper than {DEEPEST}")
        return tuple(_plain(item, whole, what, kinds, depth - 1) for item in part)
    inside = "" if part is whole else f", which contains {shown(part)}"
    raise InvalidInput(
        f"{what} has the label {shown(whole)}{inside} of type {type(part).__name__}; the label in a file is "
        f"{kinds}{'; make it a NamedTuple' if is_dataclass(part) else ''}"
    )


def text(value: Any, what: str) -> str:
    """`value`, which must be text, and of characters that UTF-8 can keep."""
    if not isinstance(value, str):
        raise InvalidInput(f"{what} must be text, found {shown(value)}")
    plain_text = str.__str__(value)
    if _SURROGATE.search(plain_text):
        raise InvalidInput(f"{what} must be valid Unicode, found {shown(plain_text)}")
    return plain_text


_SURROGATE = re.compile("[\ud800-\udfff]")  # halves of characters, as in undecodable names of files


def require_one_spelling(one: str, other: str, what: str, apart: str = "write them as text, in quotes") -> None:
    """Refuse a label that a file writes in two ways: Python takes 1, 1.0 and true for one, and the file may mean two.

    `what` they are of, "state" or "action"; `apart` is how this format tells them apart.
    """
    if one != other:
        raise InvalidInput(
            f"the {what}s {shown(one)[1:-1]} and {shown(other)[1:-1]} are read as the same: if they "
            f"are one, write it in one way; if they are two, {apart}"
        )


def require_same_spelling(label: Label, known: Label, what: str) -> None:
    """The same for labels that are equal and were read from JSON or TOML, which tell 1, 1.0 and true apart."""
    if label is not known and repr(label) != repr(known):
        require_one_spelling(json.dumps(known), json.dumps(label), what)


def require_once(labels: Iterable[Label], what: str, where: str) -> None:
    """Refuse a label that a list in a file has twice; `what` they are of, "state" or "action", `where` they stand."""
    first: dict[Label, Label] = {}
    for label in labels:
        if label in first:
            require_same_spelling(label, first[label], what)
            raise InvalidInput(f"{where} has {shown(label)} twice")
        first[label] = label


def parts_of(labels: Iterable[Any] | None) -> tuple[str, ...] | None:
    """The names of the parts of labels that are all named tuples of the same fields; None of others.

    >>> parts_of([named_label("state", ("tea", "rice"))(3, 5)]), parts_of([(3, 5)])
    (('tea', 'rice'), None)
    """
    fields = {getattr(kind, "_fields", ()) if issubclass(kind, tuple) else () for kind in set(map(type, labels or ()))}
    parts = tuple(map(_name, fields.pop() if len(fields) == 1 else ()))
    return parts if parts and all(parts) else None


def alike(labels: tuple[Any, ...]) -> tuple[Any, ...]:
    """Labels, with plain tuples among named ones of one kind, as a start may be, made of that kind: they are equal.

    >>> alike(((0, 0), named_label("state", ("tea", "rice"))(3, 5)))
    (State(tea=0, rice=0), State(tea=3, rice=5))
    """
    named = set(map(type, labels)) - {tuple}
    kind = named.pop() if len(named) == 1 else tuple
    fits = parts_of([label for label in labels if type(label) is kind]) if kind is not tuple else None
    if fits is None or any(len(label) != len(fits) for label in labels):
        return labels
    return tuple(label if type(label) is kind else kind(*label) for label in labels)


def _name(part: Any) -> str:
    """The name of a part as Python reads it in a program, where the micro sign is the Greek letter; "" of what is none.

    >>> _name("stock"), _name("\N{LATIN SMALL LIGATURE FI}ll"), _name("if")
    ('stock', 'fill', '')
    """
    name = normalize("NFKC", part) if isinstance(part, str) and part.isidentifier() else ""
    return "" if iskeyword(name) or name.startswith("_") else name


@lru_cache(maxsize=64)
def named_label(what: str, parts: tuple[str, ...]) -> Any:
    """The named tuple for labels whose parts have names; `what` they are of, "state" or "action"."""
    kind = namedtuple(what.capitalize(), parts)  # type: ignore[misc]  # the names of its fields are data
    kind.__reduce__ = _reduced  # type: ignore[assignment]
    return kind


def _reduced(label: Any) -> tuple[Any, ...]:
    """How a label gets to another process, its kind being in no module."""
    return _again, (type(label).__name__.lower(), label._fields, tuple(label))


def _again(what: str, parts: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return named_label(what, parts)(*values)


def with_parts(labels: tuple[Label, ...] | None, parts: Any, what: str) -> tuple[Any, ...] | None:
    """Labels from a file as named tuples, if the file names their `parts`."""
    if parts is None:
        return labels
    names = tuple(map(_name, parts)) if isinstance(parts, list) else ()
    if not names or not all(names):
        raise InvalidInput(f"the parts of a {what} must have names that Python takes, found {shown(parts)}")
    for label in labels or (0,):  # without labels there are numbers
        if not isinstance(label, tuple) or len(label) != len(names):
            raise InvalidInput(f"{what} {shown(label)} does not have the parts {shown(parts)}")
    if len(set(names)) < len(names):
        raise InvalidInput(f"two parts of a {what} have the same name, as Python reads names: {shown(parts)}")
    kind = named_label(what, names)
    return tuple(kind(*label) for label in labels or ())  # type: ignore[misc]  # they are tuples, as was just seen


def label_columns(labels: Sequence[Any], what: str) -> dict[str, list[Any]]:
    """Labels as the columns of a table: one called `what`; or ``what 1``, ``what 2``, ... where all are tuples alike.

    The parts of named tuples have their names in place of the numbers.

    >>> label_columns([(0, "dry"), (1, "wet")], "state")
    {'state 1': [0, 1], 'state 2': ['dry', 'wet']}
    >>> label_columns([(0, "dry"), "closed"], "state")
    {'state': [(0, 'dry'), 'closed']}
    >>> label_columns([named_label("state", ("level", "weather"))(0, "dry")], "state")
    {'state level': [0], 'state weather': ['dry']}
    """
    widths = {len(label) if isinstance(label, tuple) else 0 for label in labels}
    flat = not any(isinstance(part, tuple) for label in labels if isinstance(label, tuple) for part in label)
    width = widths.pop() if len(widths) == 1 else 0
    if width == 0 or not flat:
        return {what: list(labels)}
    names = parts_of(labels) or range(1, width + 1)
    return {f"{what} {name}": [label[place] for label in labels] for place, name in enumerate(names)}


def label_in_words(label: Any) -> str:
    """A label in a table that people read.

    >>> label_in_words((35, "dry")), label_in_words(named_label("state", ("tea", "rice"))(35, 40))
    ("(35, 'dry')", 'tea 35, rice 40')
    """
    parts = parts_of((label,))
    if parts is None:
        return printable(str(label))
    return printable(", ".join(f"{part} {value}" for part, value in zip(parts, label, strict=True)))


def state_columns(labels: Sequence[Any]) -> dict[str, list[Any]]:
    """The same for states alone, on the axes of a picture, say: a part that has a name is called by nothing else."""
    columns = label_columns(labels, "state")
    return {name.removeprefix("state "): own for name, own in columns.items()} if parts_of(labels) else columns
