"""What comes from outside, checked once and in one place: each check returns the value, or names the culprit."""

from __future__ import annotations

import inspect
import json
import math
import os
import reprlib
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.errors import InvalidInput

Value = TypeVar("Value")


MOST_COUNTED = 2**53
"""The largest count: up to here whole numbers are floats too, and nothing that is counted goes further."""

SUM_TOLERANCE = 1e-9
"""How far the probabilities of a row may sum from 1 before the row counts as wrong; within it, it is renormalised."""

SINGLE_TOLERANCE = 1e-5
"""The same for single precision (float32), whose sums of a hundred probabilities are off by 1e-6."""

LARGEST_NUMBER = 1e100
"""The largest size of a reward, a signal or a bound: sums, squares and prices of such are still floats."""

SMALLEST_NUMBER = 1e-140
"""The smallest, but for zero: below it a price, which is a ratio of two, or a proof may not fit a float."""

SOUND = f"finite, and at most {LARGEST_NUMBER:g} in size"
"""What such a number must be, in words."""


def shown(value: Any) -> str:
    """`repr`, cut short, for a message: what comes from outside may be long, or nest deep."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # a whole number of so many digits that Python refuses to write it
        return f"a very long {type(value).__name__}"


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_SHORT.maxtuple = _SHORT.maxlist = 20


def is_whole(value: Any, least: int) -> bool:
    """Whether `value` is a whole number of at least `least`; True and False are none, nor are durations of NumPy."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64) and bool(value >= least)


def plain_number(value: Any) -> int | float | None:
    """One real number as Python's own int or float, whoever wrote it; None if it is none.

    Fractions, decimals, scalars of NumPy and arrays without axes are numbers. True and False, texts, complex numbers,
    dates, masked entries and arrays with axes are none; nor is a fraction beyond all floats.
    """
    if type(value) in (float, int):
        return value  # type: ignore[no-any-return]
    if getattr(getattr(value, "dtype", None), "kind", "f") not in "biufO" or np.ma.is_masked(value):
        return None  # complex numbers, texts, dates and durations of NumPy, some of which pass for whole numbers
    if getattr(value, "ndim", None) == 0 and callable(getattr(value, "item", None)):
        value = value.item()  # scalars and arrays without axes, of any library
    if not isinstance(value, Real | Decimal) or isinstance(value, bool):
        return None
    try:
        return int(value) if isinstance(value, Integral) else float(value)
    except (ValueError, OverflowError):  # a signalling nan, or a fraction of whole numbers beyond all floats
        return None


def whole_number(value: Any, what: str, least: int = 1, most: int = MOST_COUNTED) -> int:
    """`value` as an int from `least` to `most`; `what` names it in the error message. 1e4 is a whole number too."""
    number = plain_number(value)
    if number is None or not least <= number < math.inf or number != math.floor(number):
        raise InvalidInput(f"{what} must be a whole number of at least {least:,}, found {shown(value)}")
    if number > most:
        raise InvalidInput(f"{what} must be a whole number of at most {most:,}, found {shown(value)}")
    return int(number)


def finite_or_nan(value: Any) -> float:
    """`value` as a float; nan, which no condition accepts, when it is not one finite number (see `plain_number`)."""
    number = plain_number(value)
    try:
        return float(number) if number is not None and math.isfinite(number) else math.nan
    except OverflowError:  # a whole number beyond all floats
        return math.nan


def real_number(value: Any, what: str, which: str = "") -> float:
    """`value` as a float; `what` names it in the error message, and `which` says what it must be like."""
    number = plain_number(value)
    try:
        if number is not None:
            return float(number)
    except OverflowError:
        pass
    if not which:  # else that it is not such a number says more
        _require_double(value, what)
    raise InvalidInput(f"{what} must be a number{which and ' '}{which}, found {shown(value)}")


def _require_double(value: Any, what: str) -> None:
    """Refuse what is a number, but larger than any float, such as 10**400, for what it is."""
    try:
        with suppress(TypeError, ValueError):  # no number that can be told
            float(value if isinstance(value, Real) else 0.0)
    except OverflowError:
        raise InvalidInput(f"{what} is too large for a double, found {shown(value)}") from None


def positive(value: Any, what: str, kind: str = "number") -> float:
    """`value` as a finite float above 0; `what` names it in the error message, and `kind` says of what it is one."""
    number = finite_or_nan(value)
    if not number > 0.0:
        if isinstance(value, int) and value > 0:  # a negative one is not too large
            _require_double(value, what)
        finite = "finite " if plain_number(value) == math.inf else ""
        raise InvalidInput(f"{what} must be a {finite}{kind} above 0, found {shown(value)}")
    return number


def finite_number(value: Any, what: str) -> float:
    """`value` as a finite float; `what` names it in the error message."""
    number = finite_or_nan(value)
    if math.isnan(number):
        _require_double(value, what)
        raise InvalidInput(f"{what} must be a finite number, found {shown(value)}")
    return number


def within(value: Any, what: str, size: float = LARGEST_NUMBER) -> float:
    """`value` as a float whose size is one that can be reckoned with; `what` names it in the error message."""
    number = finite_number(value, what)
    if abs(number) > size:
        raise InvalidInput(f"{what} must be a number between -{size:g} and {size:g}, found {shown(value)}")
    return number


def require_places(matrix: Any, what: str) -> None:
    """Refuse a sparse array whose entries are not all within its shape: SciPy takes one, and NumPy reads beyond it.

    Or whose entries are no numbers, of which SciPy would make some. `what` names it. Other arrays pass.
    """
    layout = getattr(matrix, "format", None)
    if layout in ("coo", "lil", "dok", "dia") and matrix.dtype.kind not in "biuf":
        raise InvalidInput(f"{what} is a sparse array whose entries must be numbers, found {matrix.dtype}")
    if layout in ("csr", "csc", "bsr"):
        blocks = matrix.blocksize if layout == "bsr" else (1, 1)
        lines, places = (size // block for size, block in zip(matrix.shape, blocks, strict=True))
        if layout == "csc":
            lines, places = places, lines
        starts, indices = matrix.indptr, matrix.indices
        for name, numbers, kinds in (
            ("indptr", starts, "iu"),
            ("indices", indices, "iu"),
            ("data", matrix.data, "biuf"),
        ):
            if numbers.dtype.kind not in kinds or numbers.ndim != (3 if layout == "bsr" and name == "data" else 1):
                wanted = "numbers" if name == "data" else "whole numbers"
                raise InvalidInput(
                    f"{what} is a sparse array whose {name} must be a vector of {wanted}, found {numbers.dtype} of "
                    f"shape {numbers.shape}"
                )
        in_order = len(starts) == lines + 1 and starts[0] == 0 and starts[-1] <= min(len(indices), len(matrix.data))
        if not in_order or np.any(np.diff(starts) < 0):
            raise InvalidInput(
                f"{what} is a sparse array whose indptr must begin with 0, never fall, and have one entry more than "
                f"the {lines:,} {'columns' if layout == 'csc' else 'rows'} of it; its last is the number of entries"
            )
        axes = {("row" if layout == "csc" else "column"): (indices[: starts[-1]], places)}
    elif layout == "coo":
        axes = dict(zip(("row", "column"), zip(matrix.coords, matrix.shape, strict=True), strict=False))
    else:
        return
    for axis, (numbers, size) in axes.items():
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < size):
            found = int(numbers.min() if numbers.min() < 0 else numbers.max())
            raise InvalidInput(
                f"{what} is a sparse array with an entry in {axis} {found}, and its {axis}s are numbered from 0 to "
                f"{size - 1}"
            )


def require_size(size: float, what: str) -> None:
    """Refuse units in which results would not fit a float; `what` names what has them."""
    if 0.0 < size < SMALLEST_NUMBER:
        raise InvalidInput(
            f"{what} has a size of {size:.3g}; only from {SMALLEST_NUMBER:g} on is there room for prices and proofs: "
            "give it in other units"
        )


def switch(value: Any, what: str) -> bool:
    """`value`, True or False; `what` names it in the error message."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"{what} must be True or False, found {shown(value)}")
    return bool(value)


def entries(values: Any, what: str) -> list[Any]:
    """What a list, or anything that can be gone through in an order of its own, holds; `what` names it in the message.

    A set has no order, and what a mapping says would be lost.
    """
    try:
        if isinstance(values, Set | Mapping):
            raise TypeError
        return list(values)
    except TypeError:
        raise InvalidInput(f"{what} must be a list, found {shown(values)}") from None


def listed(values: Any) -> list[Any] | None:
    """What several values that a user's function gave hold, in an order of their own: a list, an array, an iterator.

    None of a single value, of a text, of a set, which has no order, and of a mapping, of which something would be lost.
    """
    if type(values) in (list, tuple):  # nearly always
        return list(values)
    if isinstance(values, str | bytes | Mapping | Set) or not isinstance(values, Iterable):
        return None
    return None if getattr(values, "ndim", 1) == 0 else list(values)


def a_word(value: Any, what: str, *words: str) -> str:
    """`value`, one of some words; `what` names it in the error message."""
    if not isinstance(value, str) or value not in words:
        listed = " or ".join(map(json.dumps, words)) if len(words) <= 2 else f"one of {', '.join(words)}"
        raise InvalidInput(f"{what} must be {listed}, found {shown(value)}")
    return value


def generator(rng: Any) -> np.random.Generator:
    """`rng`, a source of random numbers such as one of NumPy."""
    if not callable(getattr(rng, "random", None)):
        raise InvalidInput(f"rng must be a numpy.random.Generator, such as default_rng(0), found {shown(rng)}")
    return rng


def reported_number(value: Any, what: str) -> float:
    """What a user's function gave, as a float, if it is one number (True and False are 1 and 0); infinite and nan pass.

    Text, complex numbers and arrays of any length are none, and a number may be too large; `what` names it.
    """
    if type(value) is float:  # nearly always, and this is called millions of times
        return value
    return float(value) if isinstance(value, bool | np.bool_) else real_number(value, what)


def named(name: str, table: Mapping[str, Value], what: str) -> Value:
    """The entry of a table that the user chose by its name; `what` the table lists, in the error message."""
    if not isinstance(name, str) or name not in table:
        raise InvalidInput(f"no {what} is called {shown(name)}; there are: {', '.join(table)}")
    return table[name]


def probability(value: Any, what: str) -> float:
    """`value` as a float in [0, 1]; `what` names it in the error message."""
    if not 0.0 <= finite_or_nan(value) <= 1.0:
        raise InvalidInput(f"{what} must be a probability, a number in [0, 1], found {shown(value)}")
    return finite_or_nan(value)


def required_arguments(rule: Any) -> int:
    """How many arguments a user's function must be given; 0 when there is no telling."""
    return sum(each.default is inspect.Parameter.empty for each in positional_arguments(rule).values())


def positional_arguments(rule: Any) -> dict[str, inspect.Parameter]:
    """The arguments that a user's function may be given by position; none when there is no telling."""
    try:
        parameters = inspect.signature(rule).parameters
    except (TypeError, ValueError):
        return {}
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {name: each for name, each in parameters.items() if each.kind in by_position}


def function_of(rule: Any, what: str, *forms: str) -> None:
    """That `rule` is a function that can be called in one of some `forms`, such as "state, action"."""
    listed = " or ".join(f"{what}({form})" for form in forms)
    if not callable(rule):
        raise InvalidInput(f"{what} must be a function, {listed}, found {shown(rule)}")
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


def callback(function: Any, what: str = "progress") -> Any:
    """A function that is told how far something is, or None."""
    if function is not None and not callable(function):
        raise InvalidInput(f"{what} must be a function, or left out, found {shown(function)}")
    return function


def file_path(path: Any, what: str) -> Path:
    """`path` as a Path; `what` names it in the error message."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(f"{what} must be text or a Path, found {shown(path)}")
    if "\0" in str(path):
        raise InvalidInput(f"{what} must not contain a null character, found {shown(path)}")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} must be valid Unicode, found {shown(path)}") from None
    return Path(path)


def asked(rule: Callable[..., Any], arguments: tuple[Any, ...], what: str, where: str) -> Any:
    """What a user's rule gives; an error in it says where it was."""
    try:
        return rule(*arguments)
    except Exception as error:
        error.add_note(f"in {what}, at {where}" if where else f"in {what}")
        raise


def random_seed(seed: Any) -> int | np.random.SeedSequence:
    """A seed of ``numpy.random.default_rng`` that gives the same run every time."""
    if isinstance(seed, np.random.SeedSequence):
        return seed
    return whole_number(seed, "seed", least=0, most=2**128)  # as many bits as SeedSequence draws by itself


def float_array(values: object, what: str) -> Floats:
    """`values` as float64, of whatever shape, copied only if need be; `what` names it in the error message.

    Texts and dates are no numbers, although NumPy would turn them into some; nor is what a mask hides.
    """
    try:
        found = np.asarray(values)
        if found.dtype.kind not in "biufO" or np.ma.is_masked(values):
            raise TypeError("entries are masked" if np.ma.is_masked(values) else f"entries are of type {found.dtype}")
        if found.dtype.kind == "O" and any(isinstance(entry, str | bytes | None) for entry in found.flat):
            raise TypeError("entries are texts, or None")
        return np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{what} must be numbers, found {type(values).__name__} ({error})") from error


def float_vector(values: object, length: int, what: str) -> Floats:
    """A read-only copy of `values` as float64 [length]; `what` names it in the error message."""
    vector = float_array(values, what).copy()
    if vector.shape != (length,):
        raise InvalidInput(f"{what} must have {length} entries, found shape {vector.shape}")
    return freeze(vector)


def is_single(numbers: Any) -> bool:
    """Whether an array, a table or list of such, or a number, is of single precision or less."""
    precision = getattr(numbers, "dtype", None)
    if precision is None and (isinstance(numbers, list | tuple) or hasattr(numbers, "__array__")):
        with suppress(ValueError):  # of rows of different lengths, which others refuse
            precision = np.asarray(numbers).dtype
    return precision in (np.float32, np.float16)


def sum_tolerance(probabilities: Any) -> float:
    """How far from 1 the sum of probabilities may be, in the precision that they came in."""
    return SINGLE_TOLERANCE if is_single(probabilities) else SUM_TOLERANCE
