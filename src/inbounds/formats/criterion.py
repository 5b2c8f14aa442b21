"""What files say of the kind and the criterion of a model, and of the stages of a finite horizon.

A model has exactly one criterion: ``{"discount": 0.95}``, ``{"horizon": 12}`` or ``{"average": True}``. Over a horizon
its transitions, reward and signals may depend on the stage. What does not is written once, whatever it looks like in
memory, so that the same model gives the same file.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from inbounds.arrays import Floats
from inbounds.errors import InvalidInput
from inbounds.inputs import is_whole, shown

KIND = "cmdp"

CRITERIA = ("discount", "horizon", "average")

LONGEST = 10**5
"""Stages: far beyond any use, and few enough that a small file that claims them makes nobody run out of memory."""


def require_kind(kind: Any, version: Any, known: int, wanted: str = KIND) -> None:
    """That a file holds what is wanted, a model, in a version of its format that is known."""
    if kind != wanted:
        raise InvalidInput(f"the file holds a model of the kind {shown(kind)}; only {wanted!r} can be read")
    require_version(version, known)


def require_version(version: Any, known: int) -> None:
    """That the version of a format is one that is known: a whole number, neither 1.0 nor true."""
    if type(version) is not int or version != known:
        raise InvalidInput(f"has the format version {shown(version)}; this version of inbounds reads {known}")


def criterion_in_file(criterion: Any, what: str) -> dict[str, Any]:
    """The criterion in plain types; `what` names it in the error message. Whether a discount is below 1, others check.

    >>> criterion_in_file({"horizon": np.int64(12)}, "the criterion")
    {'horizon': 12}
    """
    if not isinstance(criterion, dict) or len(criterion) != 1 or not set(criterion) <= set(CRITERIA):
        raise InvalidInput(f"{what} must be exactly one of discount, horizon and average, found {shown(criterion)}")
    ((name, value),) = criterion.items()
    if name == "horizon":
        if not is_whole(value, 1) or value > LONGEST:
            raise InvalidInput(f"horizon must be a whole number in 1..{LONGEST:,}, found {shown(value)}")
        return {name: int(value)}
    if name == "average":
        if value is not True:
            raise InvalidInput(f"average must be true, or left out, found {shown(value)}")
        return {name: True}
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InvalidInput(f"discount must be a number, found {shown(value)}")
    try:
        return {name: float(value)}
    except OverflowError:
        raise InvalidInput("discount is too large for a double") from None


def same_bits(one: Any, other: Any) -> bool:
    """Whether two arrays of doubles are equal to the last bit: 0.0 is not -0.0."""
    return one.shape == other.shape and np.array_equal(one.view(np.int64), other.view(np.int64))


def once(values: Any) -> Floats:
    """Numbers [H, n] as [n] where every stage has the same, bit for bit; otherwise, and [n], as they are.

    >>> once(np.array([[1.0, 2.0], [1.0, 2.0]])), once(np.array([[0.0], [-0.0]])).shape
    (array([1., 2.]), (2, 1))
    """
    values = np.asarray(values, dtype=np.float64)
    alike = values.ndim == 2 and all(same_bits(row, values[0]) for row in values[1:])
    return values[0] if alike else values


def transitions_once(transition: Any) -> tuple[Any, ...]:
    """The different transitions, CSR arrays [n, S]: those of the H stages, or just one where they are all the same."""
    if not isinstance(transition, tuple):
        return (transition,)
    first = transition[0]
    alike = all(
        stage is first
        or (
            np.array_equal(stage.indptr, first.indptr)
            and np.array_equal(stage.indices, first.indices)
            and same_bits(stage.data, first.data)
        )
        for stage in transition[1:]
    )
    return (first,) if alike else transition
