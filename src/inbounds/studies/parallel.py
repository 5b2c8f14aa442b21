"""Jobs over worker processes. What a job computes never depends on how many workers there are, or which one runs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from inbounds.inputs import whole_number


def run_jobs(
    function: Callable[..., Any],
    jobs: Sequence[tuple[Any, ...]],
    *,
    workers: int | None = None,
    finished: Callable[[int, Any], None] | None = None,
) -> list[Any]:
    """``[function(*job) for job in jobs]`` on `workers` processes (default: one per core), in the order of the jobs.

    `function` must be importable by name. `finished` is called in this process with the position of a job and its
    result, as soon as there is one.

    Examples
    --------
    >>> run_jobs(pow, [(2, 3), (3, 2)], workers=1)
    [8, 9]
    """
    workers = valid_workers(workers)
    results: list[Any] = [None] * len(jobs)
    for position, result in _finished(function, jobs, min(workers, len(jobs))):
        results[position] = result
        if finished is not None:
            finished(position, result)
    return results


def valid_workers(workers: int | None) -> int:
    """How many processes to use: as many as were asked for, or one per core that this process may use."""
    if workers is not None:
        return whole_number(workers, "workers")
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _finished(function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], workers: int) -> Any:
    """(position, result) of every job, as they finish."""
    if workers <= 1:
        return (_numbered(position, function, job) for position, job in enumerate(jobs))
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)
    return parallel(delayed(_numbered)(position, function, job) for position, job in enumerate(jobs))


def _numbered(position: int, function: Callable[..., Any], job: tuple[Any, ...]) -> tuple[int, Any]:
    return position, function(*job)
