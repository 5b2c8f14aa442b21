"""Checks of the parameters that several problems share."""

from __future__ import annotations

from typing import Any

import numpy as np

from inbounds.errors import InvalidInput


def probability(value: Any, what: str) -> float:
    """`value` as a float in [0, 1]; `what` names it in the error message."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0.0 <= value <= 1.0:
        raise InvalidInput(f"{what} must be a probability, a number in [0, 1], found {value!r}")
    return float(value)
