"""Who is told of a wait that nobody asked for: the first compilation of kernels in a process that finds none on disk.

Whoever talks to a user registers here, and whoever makes that user wait says so here; neither has to import the other.
"""

from collections.abc import Callable

_listeners: list[Callable[[], None]] = []


def before_compiling(listener: Callable[[], None]) -> None:
    """Let `listener` be called once, when the first kernel is about to be compiled."""
    _listeners.append(listener)


def compiling() -> None:
    """A kernel is about to be compiled."""
    while _listeners:
        _listeners.pop()()
