"""What a value is: one file per criterion, each of which fills in the contract, and one table."""

from __future__ import annotations

from typing import Any

from inbounds.criteria.average import Average
from inbounds.criteria.contract import Criterion
from inbounds.criteria.discounted import Discounted
from inbounds.criteria.horizon import FiniteHorizon

CRITERIA: dict[str, type[Criterion]] = {
    "discount": Discounted,
    "horizon": FiniteHorizon,
    "average": Average,
}


def criterion_of(problem: Any) -> Criterion:
    """The criterion of a problem, on its moves: made once, and shared by all questions asked of the same moves.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> criterion_of(queue) is criterion_of(queue.tightened(0.1)), criterion_of(queue).value_in_words
    (True, 'a discounted average per step, normalised by (1 - discount)')
    """
    cached = problem.__dict__.get("_criterion")
    if cached is None:
        (name,) = problem.criterion
        cached = CRITERIA[name](problem)
        object.__setattr__(problem, "_criterion", cached)
    return cached
