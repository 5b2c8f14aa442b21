"""Algorithms of one's own, in a file that pytest does not rewrite: what is loaded is what is written."""

from dataclasses import InitVar, dataclass, field
from typing import Any

import inbounds as ib


@dataclass(frozen=True)
class Silent(ib.CRPO):
    """With settings that its text leaves out."""

    step: float = field(default=1.0, repr=False)


def small(settings: Any, *given: Any) -> Any:
    return ib.CRPO.algorithm.prepare(ib.CRPO(step=0.1), *given)


def large(settings: Any, *given: Any) -> Any:
    return ib.CRPO.algorithm.prepare(ib.CRPO(step=2.0), *given)


@dataclass(frozen=True)
class Made:
    """With a setting that is no field: `step` is what `made` was made from."""

    step: InitVar[float] = 1.0

    def __post_init__(self, step: float) -> None:
        object.__setattr__(self, "made", step)


def prepared(settings: Any, *given: Any) -> Any:
    return ib.CRPO.algorithm.prepare(ib.CRPO(step=settings.made), *given)


Made.algorithm = ib.CRPO.algorithm._replace(prepare=prepared)


@dataclass(frozen=True)
class Picky:
    """Refuses about every other seed."""


def for_some(settings: Any, simulator: Any, samples: int, rng: Any) -> Any:
    if rng.random() < 0.5:
        raise ib.InvalidInput("not with this seed")
    return ib.CRPO.algorithm.prepare(ib.CRPO(), simulator, samples, rng)


Picky.algorithm = ib.CRPO.algorithm._replace(prepare=for_some)
