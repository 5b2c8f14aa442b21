"""Ctrl-C on the command line: one line and exit code 130, at any moment; SIGTERM likewise, and 143; SIGHUP, and 129.

Before a command runs there is nothing to lose, and `leave` ends the process on the spot: an exception raised in the
middle of an import is turned into another, or swallowed. While one runs, Ctrl-C raises a KeyboardInterrupt, so that
what is known so far can be shown; `interruptible` remembers that it did, whatever becomes of that exception.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""At these nothing half written stays behind, and workers are told. Not every system has all of them."""

EXIT_SIGNAL = 128
"""To which the number of the signal is added, as shells have it."""


def leave(signal_number: int = signal.SIGINT, frame: FrameType | None = None) -> NoReturn:
    """End now, with one line and without cleaning up."""
    with suppress(OSError):  # the terminal may be what is gone
        os.write(2, b"inbounds: interrupted\n")
    os._exit(EXIT_SIGNAL + signal_number)


def leave_on_interrupt() -> None:
    """Ctrl-C, SIGTERM and SIGHUP mean `leave`, unless they are ignored (as under nohup) or this is no main thread."""
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            try:
                signal.signal(number, leave)
            except ValueError:  # not the main thread: signals are somebody else's
                return


class _Signalled(KeyboardInterrupt):
    """What is raised at a signal: a kind of its own, because Python notes a plain one that passes through ``exec``.

    Many an import has a text executed, and Python, after the last exit handler, would then end itself by SIGINT,
    whatever the signal was and whatever the exit code is.
    """


class Interrupted(Exception):
    """Ctrl-C was pressed, and this came of it: `known` is what the interrupted call knew so far, or None."""

    def __init__(self, known: Any, exit_code: int) -> None:
        super().__init__(known)
        self.known, self.exit_code = known, exit_code


class _Interrupt:
    """The handler of a command: it raises, and then the process ends, in whatever state a compiler is left."""

    ends_the_process = True

    def __init__(self) -> None:
        self.happened = 0  # which signal

    def __call__(self, signal_number: int, frame: FrameType | None) -> None:
        if self.happened:
            leave(self.happened)
        self.happened = signal_number
        raise _Signalled


@contextmanager
def interruptible() -> Iterator[None]:
    """Within, Ctrl-C raises; what then comes out, whatever it is, becomes `Interrupted`. A second Ctrl-C leaves."""
    interrupt = _Interrupt()

    def swallowed(unraisable: Any) -> None:
        if interrupt.happened:  # raised where nothing can be: in a finaliser
            leave(interrupt.happened)
        reported(unraisable)

    reported = sys.unraisablehook
    # Of several one may be ignored: that of Ctrl-C is where a script starts a command in the background.
    ours = [number for number in ENDING if signal.getsignal(number) is leave]
    if not ours:  # not our process: a test, or somebody's program
        yield
        return
    sys.unraisablehook = swallowed
    try:
        for number in ours:  # SIGTERM and SIGHUP too, so that workers are told, and nothing of theirs is left
            signal.signal(number, interrupt)
        yield
    except BaseException as error:
        if not interrupt.happened:
            raise
        raise Interrupted(getattr(error, "partial", None), EXIT_SIGNAL + interrupt.happened) from error
    finally:
        for number in ours:
            signal.signal(number, leave)
        # What an interrupted call leaves half made complains when it is cleared away.
        sys.unraisablehook = (lambda unraisable: None) if interrupt.happened else reported
