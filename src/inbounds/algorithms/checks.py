"""What settings of algorithms have to be: the metadata of their fields, which `inbounds.algorithms.settings` reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inbounds.inputs import finite_or_nan, is_whole

Check = dict[str, Any]
"""What a setting has to be, as the metadata of its field. Where None is the default, it stands for a formula or a rule,
and passes."""


def check(holds: Callable[[Any], bool], what: str) -> Check:
    """Whether a value passes; `what` completes "must be ..."."""
    return {"holds": holds, "what": what}


def a_number(what: str, holds: Callable[[float], bool]) -> Check:
    """A finite number with a property; "a number" and `what` complete "must be ..."."""
    return check(lambda value: holds(finite_or_nan(value)), f"a number {what}")  # no condition accepts NaN


def a_whole_number(least: int) -> Check:
    """Which settings keep as an int, also where 1e4 was given."""
    return check(lambda value: is_whole(value, least), f"a whole number of at least {least}") | {"whole": True}


def one_of(*words: str) -> Check:
    return check(lambda value: isinstance(value, str) and value in words, " or ".join(f'"{word}"' for word in words))


def _is(word: str, value: Any) -> bool:
    """An array compares entry by entry."""
    return isinstance(value, str) and value == word


def or_word(word: str, otherwise: Check) -> Check:
    words = f'{otherwise["what"]}, or "{word}"'
    return otherwise | check(lambda value: _is(word, value) or otherwise["holds"](value), words)


POSITIVE = a_number("> 0", lambda value: value > 0.0)
NOT_NEGATIVE = a_number(">= 0", lambda value: value >= 0.0)
SHARE = a_number("in (0, 1], in scaled units", lambda value: 0.0 < value <= 1.0)
"""Such as a Slater constant."""
TIGHTENING = a_number("in [0, 1], in scaled units", lambda value: 0.0 <= value <= 1.0)
"""kappa, of every constraint."""
INSIDE = a_number("in (0, 1)", lambda value: 0.0 < value < 1.0)
"""Such as the probability of a failure."""
AT_LEAST_ONE = a_number("of at least 1", lambda value: value >= 1.0)
WHOLE = a_whole_number(1)
COUNT = a_whole_number(0)
WHOLE_OR_PAIRS = or_word("pairs", WHOLE)
SWITCH = check(lambda value: isinstance(value, bool), "True or False")
AVERAGE = one_of("all", "second half")
"""Which steps, or iterations, the output averages."""
