"""Jobs over worker processes. What a job computes never depends on how many workers there are, or which one runs it."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from itertools import chain
from typing import Any

from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor

from inbounds.errors import InvalidInput
from inbounds.streams import fill_missing_streams
from inbounds.workers import WorkerLost, begin_worker, reraise, starting_workers, valid_workers

_ROUNDS = 8
"""How often each worker comes back for more, at least: so that none is idle for long while another finishes."""
_START = 5.0
"""Seconds that workers may take to start, where others work too: with less time than that, none are started. Two took
.7 seconds on two idle cores, and up to 4 where four other processes were at work."""
_BEGUN = -1
"""In the place of a job's number, of what is no job: that it comes back tells that a worker has begun."""


def run_jobs(
    function: Callable[..., Any],
    jobs: Sequence[tuple[Any, ...]],
    *,
    workers: int | None = None,
    finished: Callable[[int, Any], None] | None = None,
    together: int = 1,
    ends: float | None = None,
) -> list[Any]:
    """``[function(*job) for job in jobs]`` on `workers` processes (default: one per core), in the order of the jobs.

    `function` must be importable by name. `finished` is called in this process with the position of a job and its
    result, as soon as there is one. Jobs of a few milliseconds cost less when up to `together` of them are handed over
    at once; they are then finished at once, too. Raises `WorkerLost` when a worker is killed,
    and `InvalidInput` when none can be started.

    Jobs that know of a limit, and return None when ``time.time()`` `ends` it, need not wait for workers: where these
    may take longer to start than is left, this process works alone; and where none has begun by then, all is None.

    Examples
    --------
    >>> run_jobs(pow, [(2, 3), (3, 2)], workers=1)
    [8, 9]
    """
    processes = min(valid_workers(workers), max(len(jobs), 1))
    if multiprocessing.current_process().daemon:  # one of a pool of multiprocessing: it may start no others
        processes = 1
    missing = processes - len(multiprocessing.active_children()) if processes > 1 else 0
    left = None if ends is None else max(ends - time.time(), 0.0)
    if left is not None and missing > 0 and left < _START:
        processes, missing = 1, 0
    limited, batch = left is not None and processes > 1, max(1, min(together, len(jobs) // (_ROUNDS * processes)))
    parallel = Parallel(
        processes,
        return_as="generator_unordered",
        batch_size=batch,
        timeout=left if limited else None,
        initializer=begin_worker,
        initargs=(os.getpid(),),
    )
    # Only for what tells that a worker has begun: the jobs themselves end in time, and none of them is cut.
    signs = [(_BEGUN, int, ())] * (batch if limited else 0)
    results: list[Any] = [None] * len(jobs)
    begun = False
    fill_missing_streams()
    try:
        with warnings.catch_warnings():  # joblib counts what an interruption cost, which is said in one line elsewhere
            warnings.filterwarnings(
                "ignore", r"\d+ tasks (which were still being processed|have been successfully executed)", UserWarning
            )
            with starting_workers(missing, InvalidInput, "work in this process alone: workers=1, --jobs 1"):
                work = ((place, function, job) for place, job in enumerate(jobs))
                running = parallel(delayed(_numbered)(*each) for each in chain(signs, work))
            with closing(running):  # now, and not when what is raised here is forgotten: then joblib would be heard
                for position, result in running:
                    begun, parallel.timeout = True, None
                    if position == _BEGUN:
                        continue
                    results[position] = result
                    if finished is not None:
                        finished(position, result)
    except multiprocessing.TimeoutError:
        if begun or not limited:
            raise
    except BrokenProcessPool as error:
        raise WorkerLost(
            "a worker process was killed, or ran out of memory; what a journal recorded is kept: the same call goes on "
            "from there, if need be with fewer workers"
        ) from error
    except RuntimeError as error:
        if processes == 1 or threading.main_thread().is_alive():
            raise
        # In a function that `atexit` calls: new threads and processes are refused from then on.
        raise InvalidInput(
            "worker processes cannot be started while Python is shutting down: take workers=1"
        ) from error
    finally:
        if processes > 1 and multiprocessing.parent_process() is not None:
            # joblib keeps workers for the next call until the process ends. One of multiprocessing waits for them then.
            get_reusable_executor(reuse=True).shutdown(wait=True)
    return results


def _numbered(position: int, function: Callable[..., Any], job: tuple[Any, ...]) -> tuple[int, Any]:
    try:
        return position, function(*job)
    except Exception as error:
        reraise(error)
