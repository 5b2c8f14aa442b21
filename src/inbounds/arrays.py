"""Array types, and arrays that nobody can change."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def freeze(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Mark an array that we own as read-only, and return it."""
    array.flags.writeable = False
    return array


class ReadOnly:
    """A record whose arrays stay read-only in its copies, too: those of `pickle` and `copy.deepcopy` are writable.

    Kernels depend on it: for arrays that are writable they would be compiled once more.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        for value in state.values():
            _freeze_all(value)
        self.__dict__.update(state)


def _freeze_all(value: Any) -> None:
    """Mark an array, a sparse one, or each of a tuple as read-only."""
    if isinstance(value, np.ndarray):
        freeze(value)
    elif isinstance(value, tuple):
        for part in value:
            _freeze_all(part)
    elif hasattr(value, "indptr"):
        _freeze_all((value.data, value.indices, value.indptr))


def divisors(sums: Any, terms: Any) -> Any:
    """What to divide probabilities by that sum to about 1: their sum, or 1 where only rounding of the terms is left.

    So normalising twice changes nothing, and a copy of a model or a policy has the same bits.
    """
    return np.where(np.abs(sums - 1.0) > terms * 2.0**-52, sums, 1.0)
