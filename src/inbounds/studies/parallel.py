"""Jobs over worker processes. What a job computes never depends on how many workers there are, or which one runs it."""

from __future__ import annotations

import multiprocessing
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from typing import Any

from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor

from inbounds.errors import InvalidInput
from inbounds.streams import fill_missing_streams
from inbounds.workers import WorkerLost, begin_worker, reraise, starting_workers, valid_workers

_ROUNDS = 8
"""How often each worker comes back for more, at least: so that none is idle for long while another finishes."""


def run_jobs(
    function: Callable[..., Any],
    jobs: Sequence[tuple[Any, ...]],
    *,
    workers: int | None = None,
    finished: Callable[[int, Any], None] | None = None,
    together: int = 1,
) -> list[Any]:
    """``[function(*job) for job in jobs]`` on `workers` processes (default: one per core), in the order of the jobs.

    `function` must be importable by name. `finished` is called in this process with the position of a job and its
    result, as soon as there is one. Jobs of a few milliseconds cost less when up to `together` of them are handed over
    at once; they are then finished at once, too. Raises `WorkerLost` when a worker is killed,
    and `InvalidInput` when none can be started.

    Examples
    --------
    >>> run_jobs(pow, [(2, 3), (3, 2)], workers=1)
    [8, 9]
    """
    processes = min(valid_workers(workers), max(len(jobs), 1))
    if multiprocessing.current_process().daemon:  # one of a pool of multiprocessing: it may start no others
        processes = 1
    parallel = Parallel(
        processes,
        return_as="generator_unordered",
        batch_size=max(1, min(together, len(jobs) // (_ROUNDS * processes))),
        initializer=begin_worker,
        initargs=(os.getpid(),),
    )
    results: list[Any] = [None] * len(jobs)
    fill_missing_streams()
    try:
        with warnings.catch_warnings():  # joblib counts what an interruption cost, which is said in one line elsewhere
            warnings.filterwarnings(
                "ignore", r"\d+ tasks (which were still being processed|have been successfully executed)", UserWarning
            )
            missing = processes - len(multiprocessing.active_children()) if processes > 1 else 0
            with starting_workers(missing, InvalidInput, "work in this process alone: workers=1, --jobs 1"):
                running = parallel(delayed(_numbered)(place, function, job) for place, job in enumerate(jobs))
            with closing(running):  # now, and not when what is raised here is forgotten: then joblib would be heard
                for position, result in running:
                    results[position] = result
                    if finished is not None:
                        finished(position, result)
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
