"""Jobs over workers: order, progress, and independence of the number of workers."""

import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from inbounds.errors import InvalidInput
from inbounds.studies import parallel
from inbounds.studies.parallel import run_jobs


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_jobs_and_are_handed_over_at_once(workers: int) -> None:
    seen: dict[int, int] = {}
    powers = run_jobs(pow, [(2, k) for k in range(7)], workers=workers, finished=seen.__setitem__)
    assert powers == [2**k for k in range(7)] and seen == dict(enumerate(powers))


@pytest.mark.parametrize(("number", "together"), [(7, 20), (100, 3)])
def test_jobs_that_go_together_come_back_as_if_they_had_not(number: int, together: int) -> None:
    seen: dict[int, int] = {}
    jobs = [(2, k) for k in range(number)]
    powers = run_jobs(pow, jobs, workers=2, finished=seen.__setitem__, together=together)
    assert powers == [2**k for k in range(number)] and seen == dict(enumerate(powers))


def test_with_less_time_than_workers_take_to_start_this_process_works_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing, "active_children", list)
    assert run_jobs(os.getpid, [()] * 4, workers=2, ends=time.time() + 1.0) == [os.getpid()] * 4


@pytest.mark.slow
def test_workers_that_have_not_begun_at_the_limit_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """(Both slept for so many seconds as this process has number; and were waited for.)"""
    monkeypatch.setattr(parallel, "begin_worker", time.sleep)
    monkeypatch.setattr(parallel, "_START", 0.0)
    assert run_jobs(pow, [(2, 3)] * 4, workers=2, ends=time.time() + 0.3) == [None] * 4
    monkeypatch.undo()
    assert run_jobs(pow, [(2, 3)] * 4, workers=2, ends=time.time() + 60.0) == [8] * 4


@pytest.mark.slow
def test_jobs_that_have_begun_end_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_START", 0.0)
    run_jobs(pow, [(2, 3)] * 4, workers=2)  # starts them
    assert run_jobs(_late, [(2.0,), (2.0,)], workers=2, ends=time.time() + 1.5) == ["late", "late"]


def _late(seconds: float) -> str:
    time.sleep(seconds)
    return "late"


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_a_wrong_number_of_workers_is_refused(workers: object) -> None:
    with pytest.raises(InvalidInput, match="workers must be a whole number"):
        run_jobs(pow, [(1, 1)], workers=workers)  # type: ignore[arg-type]


def test_no_workers_while_python_shuts_down() -> None:
    """A function that `atexit` calls is told so; with one worker it runs."""
    lines = ["import atexit", "from inbounds.studies.parallel import run_jobs", "def late(workers):"]
    lines += ["    try: print(run_jobs(pow, [(2, 3), (3, 2)], workers=workers))"]
    lines += ["    except Exception as error: print(type(error).__name__, error)"]
    lines += ["atexit.register(late, 1)", "atexit.register(late, 2)"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    refusal = "InvalidInput worker processes cannot be started while Python is shutting down: take workers=1"
    assert (done.stdout.splitlines(), done.stderr) == ([refusal, "[8, 9]"], "")


CHILD = """
import multiprocessing
from inbounds.studies.parallel import run_jobs


def job():
    assert run_jobs(pow, [(2, k) for k in range(7)], workers=2) == [2**k for k in range(7)]


if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=job)
    child.start()
    child.join()
    print(child.exitcode)
"""


def test_a_process_of_multiprocessing_does_not_wait_for_workers_that_wait_for_work(tmp_path: Path) -> None:
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.stdout == "0\n", done.stderr


IN_A_POOL = """
import multiprocessing
from inbounds.studies.parallel import run_jobs

def job(number):
    return run_jobs(pow, [(2, number), (3, number)], workers=2)

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print(pool.map(job, [2]))
"""


def test_a_process_that_may_start_no_others_works_alone(tmp_path: Path) -> None:
    """(joblib warned, and with warnings as errors nothing ran.)"""
    script = tmp_path / "pool.py"
    script.write_text(IN_A_POOL)
    done = subprocess.run([sys.executable, "-W", "error", str(script)], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("[[4, 9]]\n", "")
