"""Worker processes: how many, and how they behave.

Workers end with the process that started them, however it ends: each looks every `_LOOK` seconds whether its parent is
still there. They leave the keyboard and the output to the parent: what reads that need not wait for them.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pickle import loads
from traceback import format_exception_only
from typing import Any, NoReturn

from joblib.externals.loky.backend.reduction import dumps

from inbounds.inputs import whole_number
from inbounds.streams import fill_missing_streams

_LOOK = 0.2
"""Seconds for which a worker may outlive its parent: short for a person, and no load."""


MOST_WORKERS = 1_000
"""More than a machine has cores; whether there is room for many more could not be asked without taking it."""

_BESIDES = 4
"""What a pool starts besides its workers: two threads, and two processes that keep track of what it uses."""


class WorkerLost(RuntimeError):
    """A worker process ended in the middle of a job: killed, or out of memory."""


def valid_workers(workers: int | None, what: str = "workers") -> int:
    """How many processes to use: as many as were asked for, or one per core that this process may use."""
    if workers is not None:
        return whole_number(workers, what, most=MOST_WORKERS)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def starting_workers(number: int, refusal: type[Exception], otherwise: str) -> Iterator[None]:
    """Within, that the system allows no more processes or files is a `refusal` of one sentence, and what to do then.

    `number` is how many there are to be started, and `otherwise` what to do where no more can be allowed. Workers
    that are started here, and what keeps track of their resources, inherit that Ctrl-C and SIGHUP are blocked, which a
    terminal sends to them as well: they would end in the middle of their imports, with tracebacks. They end with this
    process all the same.
    """
    blocked = None
    try:
        if number > 0:
            _require_room(_BESIDES + 2 * number)  # each with the thread that watches its parent
        if hasattr(signal, "pthread_sigmask"):
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
            resource_tracker.ensure_running()  # which unblocks SIGINT when it starts
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        yield
    except Exception as error:
        reason = _said_by_system(error)
        if reason is None:
            raise
        raise refusal(
            f"worker processes cannot be started ({reason}); raise what is allowed (ulimit -n: open files, ulimit -u: "
            f"processes, or memory), or {otherwise}"
        ) from error
    finally:
        if blocked is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _require_room(tasks: int) -> None:
    """That so many processes and threads are allowed, told by threads: limits on processes count them too.

    Afterwards is too late: loky waits for ever where a thread of its own cannot start a second one.
    """
    over = threading.Event()
    begun: list[threading.Thread] = []
    try:
        for _ in range(tasks):
            thread = threading.Thread(target=over.wait, daemon=True)
            thread.start()
            begun.append(thread)
    except RuntimeError as error:
        if "can't start new thread" not in str(error):  # Python is shutting down
            raise
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error
    finally:
        over.set()
        for thread in begun:
            thread.join()


def _said_by_system(error: BaseException | None) -> str | None:
    """What the system said, if that is what an error came of: loky clears up after one, and fails there in turn."""
    while error is not None and not isinstance(error, OSError):
        error = error.__context__
    return None if error is None else os.strerror(error.errno).lower() if error.errno else str(error)


def begin_worker(parent: int) -> None:
    """In a new worker: leave Ctrl-C and the output to the parent, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    fill_missing_streams()
    os.dup2(2, 1)  # what a user's code prints is seen, and is in nobody's table
    try:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    except RuntimeError:  # no more threads are allowed; that this worker is gone is told by the parent
        os._exit(1)


def as_sent(value: Any) -> bytes:
    """A value as it is sent to another process; whatever cannot be raises an exception of its own."""
    return dumps(value)


def received(value: Any) -> Any:
    """What a value is in another process that it is sent to."""
    return loads(as_sent(value))


def reraise(error: Exception) -> NoReturn:
    """In a worker: raise an error of a user's code so that it arrives, if not itself, then its words.

    One that cannot be sent, or put together again from its `args`, would end the worker, as if it had been killed.
    """
    try:
        received(error)
    except Exception:
        raise RuntimeError("".join(format_exception_only(error)).strip()) from error
    raise error


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os._exit(1)
