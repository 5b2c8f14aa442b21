"""Jobs over workers: order, progress, and independence of the number of workers."""

import pytest

from inbounds.errors import InvalidInput
from inbounds.studies.parallel import run_jobs


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_jobs_and_are_handed_over_at_once(workers: int) -> None:
    seen: dict[int, int] = {}
    powers = run_jobs(pow, [(2, k) for k in range(7)], workers=workers, finished=seen.__setitem__)
    assert powers == [2**k for k in range(7)] and seen == dict(enumerate(powers))


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_a_wrong_number_of_workers_is_refused(workers: object) -> None:
    with pytest.raises(InvalidInput, match="workers must be a whole number"):
        run_jobs(pow, [(1, 1)], workers=workers)  # type: ignore[arg-type]
