"""Generators and worlds that draw what a test wants drawn."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


class Uniforms:
    """A generator that gives chosen numbers, then fails."""

    def __init__(self, *numbers: float) -> None:
        self.numbers = list(numbers)

    def random(self) -> float:
        return self.numbers.pop(0)


def watched(world: Any, **draws: Callable[..., int]) -> Any:
    """The same world with other draws, such as ``draw_next=lambda pair, rng: 0``."""
    return SimpleNamespace(**({"draw_next": world.draw_next, "draw_start": world.draw_start} | world._asdict() | draws))
