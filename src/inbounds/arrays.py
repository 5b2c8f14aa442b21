"""Array types, and how an array from outside becomes one that nobody can change."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from inbounds.errors import InvalidInput

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def freeze(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Mark an array that we own as read-only, and return it."""
    array.flags.writeable = False
    return array


def float_array(values: object, what: str) -> Floats:
    """`values` as float64, of whatever shape, copied only if need be; `what` names it in the error message."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} must be numbers, found {type(values).__name__} ({error})") from error


def float_vector(values: object, length: int, what: str) -> Floats:
    """A read-only copy of `values` as float64 [length]; `what` names it in the error message."""
    vector = float_array(values, what).copy()
    if vector.shape != (length,):
        raise InvalidInput(f"{what} must have {length} entries, found shape {vector.shape}")
    return freeze(vector)


def divisors(sums: Any, terms: Any) -> Any:
    """What to divide probabilities by that sum to about 1: their sum, or 1 where only rounding of the terms is left.

    So normalising twice changes nothing, and a copy of a model or a policy has the same bits.
    """
    return np.where(np.abs(sums - 1.0) > terms * 2.0**-52, sums, 1.0)
