"""Jobs over workers: order, progress, and independence of the number of workers."""

import pytest

from inbounds.errors import InvalidInput
from inbounds.study.parallel import run_jobs


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_jobs_and_progress_counts_them(workers: int) -> None:
    seen: list[int] = []
    assert run_jobs(pow, [(2, k) for k in range(7)], workers=workers, progress=seen.append) == [2**k for k in range(7)]
    assert sorted(seen) == list(range(7))


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_a_wrong_number_of_workers_is_refused(workers: object) -> None:
    with pytest.raises(InvalidInput, match="workers must be a whole number"):
        run_jobs(pow, [(1, 1)], workers=workers)  # type: ignore[arg-type]
