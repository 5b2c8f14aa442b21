"""What may stand in a file as the label of a state or of an action.

Text, whole numbers, floats, booleans, None, and tuples of these, nested as one likes. They come back equal and of the
same type; NumPy's scalars, named tuples and other subclasses come back as the plain value that they equal.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from inbounds.errors import InvalidInput

Label = str | int | float | bool | None | tuple["Label", ...]

DEEPEST = 32
LONGEST = 4096
"""How deep tuples may nest and how many bits a whole number may have: far beyond any use, and within what parsers and
`repr` can handle on every Python."""


def plain(value: Any, what: str) -> Label:
    """The label `value` in plain Python types, a list as a tuple; `what` names it in the error message.

    >>> plain((np.int64(3), [True, "up"]), "a state")
    (3, (True, 'up'))
    """
    return _plain(value, value, what, DEEPEST)


def _plain(part: Any, whole: Any, what: str, depth: int) -> Label:
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
            raise InvalidInput(f"{what} has a label of tuples that nest deeper than {DEEPEST}")
        return tuple(_plain(item, whole, what, depth - 1) for item in part)
    inside = "" if part is whole else f", which contains {shown(part)}"
    raise InvalidInput(
        f"{what} has the label {shown(whole)}{inside} of type {type(part).__name__}; the label in a file is text, "
        f"a number, true or false, None, or a tuple of these"
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


def shown(value: Any) -> str:
    """`repr`, cut short: what comes from a file may be long, or nest deep."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # a whole number of so many digits that Python refuses to write it
        return f"a very long {type(value).__name__}"


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_SHORT.maxtuple = _SHORT.maxlist = 20


def label_columns(labels: Sequence[Any], what: str) -> dict[str, list[Any]]:
    """Labels as the columns of a table: one called `what`; or ``what 1``, ``what 2``, ... where all are tuples alike.

    >>> label_columns([(0, "dry"), (1, "wet")], "state")
    {'state 1': [0, 1], 'state 2': ['dry', 'wet']}
    >>> label_columns([(0, "dry"), "closed"], "state")
    {'state': [(0, 'dry'), 'closed']}
    """
    widths = {len(label) if isinstance(label, tuple) else 0 for label in labels}
    flat = not any(isinstance(part, tuple) for label in labels if isinstance(label, tuple) for part in label)
    width = widths.pop() if len(widths) == 1 else 0
    if width == 0 or not flat:
        return {what: list(labels)}
    return {f"{what} {place + 1}": [label[place] for label in labels] for place in range(width)}
