"""Which of the three criteria a problem has: checked, refused, and said in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from inbounds.errors import InvalidInput
from inbounds.inputs import real_number, shown, whole_number
from inbounds.tables import as_given

CRITERION_NAMES = {"discount": "discounted", "horizon": "finite-horizon", "average": "average-reward"}
"""What a problem with that key in its `criterion` is called; the names that `Algorithm.criterion` may have."""


MOST_STAGES = 10**7
"""Stages of a horizon: every solver keeps some hundred bytes for each, and more would not fit."""


def criterion_in_words(criterion: dict[str, Any]) -> str:
    ((name, value),) = criterion.items()
    return {"average": "long-run average", "horizon": f"horizon {value}"}.get(name) or discount_in_words(value)


def discount_in_words(discount: float) -> str:
    """A discount in as many digits as say it.

    >>> discount_in_words(0.95), discount_in_words(1 - 2**-53)
    ('discount 0.95', 'discount 0.9999999999999999')
    """
    return f"discount {as_given(discount)}"


def valid_criterion(discount: Any, horizon: Any, average: Any) -> dict[str, Any]:
    """The one criterion that is given, checked."""
    if not isinstance(average, bool | np.bool_):
        raise InvalidInput(f"average must be True or left out, found {shown(average)}")
    if (discount is not None) + (horizon is not None) + bool(average) != 1:
        raise InvalidInput("a problem has exactly one of discount=, horizon= and average=True: what is a value?")
    if average:
        return {"average": True}
    if horizon is not None:
        return {"horizon": valid_horizon(horizon)}
    return {"discount": valid_discount(discount, "for long-run averages, give average=True instead")}


def valid_horizon(horizon: Any) -> int:
    stages = whole_number(horizon, "horizon", most=10**5_000)
    if stages > MOST_STAGES:
        found = f"{stages:,}" if stages < 10**18 else "more than 10^18"
        raise InvalidInput(f"a horizon of {found} stages is too long: at most {MOST_STAGES:,}")
    return stages


def valid_discount(discount: Any, instead: str = "") -> float:
    """A number in [0, 1); `instead` is what to give in place of 1, where there is such a thing."""
    value = real_number(discount, "discount", "in [0, 1)")
    if not 0.0 <= value < 1.0:
        hint = f"; {instead}" if instead and value == 1.0 else ""
        raise InvalidInput(f"discount must be in [0, 1), found {value}{hint}")
    return value


def require_criterion(problem: Any, wanted: str, who: str, instead: str = "") -> None:
    """Refuse a problem of another criterion than `wanted`, one of the names in `CRITERION_NAMES`; `who` wants it.

    `instead` is what to take for a problem with a horizon.
    """
    (found,) = (CRITERION_NAMES[key] for key in problem.criterion)
    if found != wanted:
        way = f"; {instead}" if instead and found == "finite-horizon" else ""
        raise InvalidInput(f"{who} is for {wanted} problems, and this one is {found}: {problem!r}{way}")
