"""What comes from outside, checked once and in one place: each check returns the value, or names the culprit."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.errors import InvalidInput

Value = TypeVar("Value")


def is_whole(value: Any, least: int) -> bool:
    """Whether `value` is a whole number of at least `least`; True and False are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)


def whole_number(value: Any, what: str, least: int = 1) -> int:
    """`value` as an int of at least `least`; `what` names it in the error message. 1e4 is a whole number too."""
    if isinstance(value, float | np.floating) and value.is_integer():
        value = int(value)
    if not is_whole(value, least):
        raise InvalidInput(f"{what} must be a whole number of at least {least:,}, found {value!r}")
    return int(value)


def finite_or_nan(value: Any) -> float:
    """`value` as a float; nan, which no condition accepts, when it is not a finite number; True and False are none."""
    real = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    try:
        return float(value) if real and math.isfinite(value) else math.nan
    except (OverflowError, TypeError):  # a whole number beyond all floats, or a complex one
        return math.nan


def real_number(value: Any, what: str, which: str) -> float:
    """`value` as a float; `what` names it in the error message, and `which` says what it must be like."""
    try:
        if isinstance(value, bool | np.bool_ | str | bytes | bytearray):
            raise TypeError("neither True and False nor texts are numbers")
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{what} must be a number {which}, found {value!r}") from error


def positive(value: Any, what: str) -> float:
    """`value` as a finite float above 0; `what` names it in the error message."""
    number = real_number(value, what, "above 0")
    if not 0.0 < number < math.inf:
        raise InvalidInput(f"{what} must be a number above 0, found {value!r}")
    return number


def reported_number(value: Any, what: str) -> float:
    """What a user's function gave, as a float, if it is one number (True and False are 1 and 0); infinite and nan pass.

    Text, complex numbers, arrays of any length, and whole numbers too large for a float are none; `what` names it.
    """
    if type(value) is float:  # nearly always, and this is called millions of times
        return value
    single = not isinstance(value, str | bytes | bytearray | complex | np.complexfloating)
    try:
        if single and not np.ndim(value):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    shown = repr(value)
    raise InvalidInput(f"{what} must be a number, found {shown if len(shown) <= 100 else shown[:97] + '...'}")


def named(name: str, table: Mapping[str, Value], what: str) -> Value:
    """The entry of a table that the user chose by its name; `what` the table lists, in the error message."""
    if name not in table:
        raise InvalidInput(f"no {what} is called {name!r}; there are: {', '.join(table)}")
    return table[name]


def probability(value: Any, what: str) -> float:
    """`value` as a float in [0, 1]; `what` names it in the error message."""
    if not 0.0 <= finite_or_nan(value) <= 1.0:
        raise InvalidInput(f"{what} must be a probability, a number in [0, 1], found {value!r}")
    return float(value)


def required_arguments(rule: Any) -> int:
    """How many arguments a user's function must be given; -1 when there is no telling."""
    try:
        parameters = inspect.signature(rule).parameters.values()
    except (TypeError, ValueError):
        return -1
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in by_position and each.default is inspect.Parameter.empty for each in parameters)


def function_of(rule: Any, what: str, *forms: str) -> None:
    """That `rule` is a function that can be called in one of some `forms`, such as "state, action"."""
    listed = " or ".join(f"{what}({form})" for form in forms)
    if not callable(rule):
        shown = repr(rule)
        raise InvalidInput(
            f"{what} must be a function, {listed}, found {shown if len(shown) <= 100 else shown[:97] + '...'}"
        )
    try:
        signature = inspect.signature(rule)
    except (TypeError, ValueError):  # there is no telling
        return
    for form in forms:
        try:
            signature.bind(*form.split(", "))
            return
        except TypeError:
            continue
    raise InvalidInput(f"{what} must be a function that is called as {listed}, found one that takes {signature}")


def asked(rule: Callable[..., Any], arguments: tuple[Any, ...], what: str, where: str) -> Any:
    """What a user's rule gives; an error in it says where it was."""
    try:
        return rule(*arguments)
    except Exception as error:
        error.add_note(f"in {what}, at {where}" if where else f"in {what}")
        raise


def random_seed(seed: Any) -> int | np.random.SeedSequence:
    """A seed of ``numpy.random.default_rng`` that gives the same run every time."""
    return seed if isinstance(seed, np.random.SeedSequence) else whole_number(seed, "seed", least=0)


def float_array(values: object, what: str) -> Floats:
    """`values` as float64, of whatever shape, copied only if need be; `what` names it in the error message.

    Texts and dates are no numbers, although NumPy would turn them into some; nor is what a mask hides.
    """
    try:
        found = np.asarray(values)
        if found.dtype.kind not in "biufO" or np.ma.is_masked(values):
            raise TypeError("entries are masked" if np.ma.is_masked(values) else f"entries are of type {found.dtype}")
        return np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{what} must be numbers, found {type(values).__name__} ({error})") from error


def float_vector(values: object, length: int, what: str) -> Floats:
    """A read-only copy of `values` as float64 [length]; `what` names it in the error message."""
    vector = float_array(values, what).copy()
    if vector.shape != (length,):
        raise InvalidInput(f"{what} must have {length} entries, found shape {vector.shape}")
    return freeze(vector)
