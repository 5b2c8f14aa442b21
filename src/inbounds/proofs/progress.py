"""How far the making of a proof is, told to whoever wants to know."""

from __future__ import annotations

from collections.abc import Callable

ProofProgress = Callable[[int, int], None]
"""Called with the number of vectors and bounds of a proof that are made, and how many there will be."""


class Count:
    """Steps of a proof that are made, told to whoever wants to know."""

    def __init__(self, progress: ProofProgress | None, total: int) -> None:
        self._progress, self._done, self._total = progress, 0, total

    def add(self, steps: int = 1) -> None:
        self._done += steps
        if self._progress is not None:
            self._progress(self._done, self._total)

    def again(self, steps: int) -> None:
        """So many steps have to be made once more."""
        self._total += steps
