"""Signals and compiled code: no handler raises where Numba does not look.

To take a generator apart, and to put arrays and records together, what Numba compiles calls functions of Python, and
does not ask whether they failed. A handler that raises in one of them, as that of Ctrl-C does, ends the process with a
segmentation fault, or comes out as a SystemError. So handlers are held while kernels are called: one that is due in
such a function waits until the kernel has returned. Anywhere else it runs at once.

While a kernel is compiled they wait as well, until it is: an exception in the middle of that may be lost (LLVM calls
Python, and there is nobody to raise it to), leave Numba unable to compile anything else, or end the process when what
was left half made is freed. Who asks a second time is not kept waiting; nor is a handler after which the process ends.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any

import numpy as np
from numba.core import serialize
from numba.core.registry import CPUDispatcher

_NAMES = ["INT", "TERM", "HUP", "QUIT", "ALRM", "VTALRM", "PROF", "USR1", "USR2", "XCPU", "BREAK"]
_SIGNALS = tuple(getattr(signal, f"SIG{name}") for name in _NAMES if hasattr(signal, f"SIG{name}"))
"""Those whose handlers people let raise. Not every system has all of them."""

_CALLED_BY_NUMBA = {
    ctypes.cast.__code__,
    serialize._numba_unpickle.__code__,
    type(np.random.default_rng(0).bit_generator.ctypes).__new__.__code__,
}

# The same without an enumeration of all handlers around them, which takes ten times as long as they do.
_signal: Any = import_module("_signal")

_waiting: list[tuple[Callable[..., Any], int]] = []  # handlers that are due, each with its signal
_holding = False
_compiling = 0  # how many kernels, each for the one before it


class Kernel(CPUDispatcher):  # type: ignore[misc]  # Numba has no annotations
    """What Numba compiles; called from Python, it lets handlers wait where they must not raise."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if _holding:
            result = super().__call__(*arguments, **named)
            if _waiting and _in_main_thread():
                _catch_up()
            return result
        if not _in_main_thread():  # where no handler runs
            return super().__call__(*arguments, **named)
        with holding_handlers():
            return self(*arguments, **named)

    def compile(self, sig: Any) -> Any:
        global _compiling
        if not _in_main_thread():
            return super().compile(sig)
        _compiling += 1
        try:
            return super().compile(sig)
        finally:
            _compiling -= 1
            if not _compiling:
                _catch_up()


class _Patient:
    """A handler that waits while Numba calls Python, or compiles."""

    def __init__(self, handler: Callable[..., Any]) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if _within_a_call_by_numba(frame) or self._waits_for_compilation(number):
            _waiting.append((self.handler, number))
        else:
            self.handler(number, frame)

    def _waits_for_compilation(self, number: int) -> bool:
        insisting = any(number == other for _, other in _waiting) or getattr(self.handler, "ends_the_process", False)
        return bool(_compiling) and not insisting


@contextmanager
def holding_handlers() -> Iterator[None]:
    """Within, handlers of signals are patient. Costs a few microseconds, once for all kernels that are called."""
    global _holding
    if _holding or not _in_main_thread():
        yield
        return
    held: dict[int, _Patient] = {}
    try:
        _holding = True
        for number in _SIGNALS:
            handler = _signal.getsignal(number)
            if callable(handler):
                held[number] = handler if isinstance(handler, _Patient) else _Patient(handler)
                _signal.signal(number, held[number])
        yield
    finally:
        # A handler may raise in between: what is then left as it is does the same, and is put right the next time.
        _holding = False
        for number, patient in held.items():
            if _signal.getsignal(number) is patient:  # and not one that was set since
                _signal.signal(number, patient.handler)
        _catch_up()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _within_a_call_by_numba(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code not in _CALLED_BY_NUMBA:
        frame = frame.f_back
    return frame is not None


def _catch_up() -> None:
    for _ in range(len(_waiting)):  # one that raises leaves the others to the next call
        handler, number = _waiting.pop(0)
        handler(number, sys._getframe())
