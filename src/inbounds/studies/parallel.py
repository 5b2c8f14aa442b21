"""Jobs over worker processes. What a job computes never depends on how many workers there are, or which one runs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from joblib import Parallel, delayed

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
    parallel = Parallel(min(valid_workers(workers), max(len(jobs), 1)), return_as="generator_unordered", batch_size=1)
    results: list[Any] = [None] * len(jobs)
    for position, result in parallel(delayed(_numbered)(place, function, job) for place, job in enumerate(jobs)):
        results[position] = result
        if finished is not None:
            finished(position, result)
    return results


def valid_workers(workers: int | None) -> int:
    """How many processes to use: as many as were asked for, or one per core that this process may use."""
    if workers is not None:
        return whole_number(workers, "workers")
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _numbered(position: int, function: Callable[..., Any], job: tuple[Any, ...]) -> tuple[int, Any]:
    return position, function(*job)
