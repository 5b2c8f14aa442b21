"""A generator that draws what a test wants drawn."""

from __future__ import annotations


class Uniforms:
    """A generator that gives chosen numbers, then fails."""

    def __init__(self, *numbers: float) -> None:
        self.numbers = list(numbers)

    def random(self) -> float:
        return self.numbers.pop(0)
