"""Cases run by processes that can be killed, and what came of them.

A question that takes more than `LIMIT` seconds is too slow, and a case that takes more than `CASE` is a hang: its
process is killed and another takes its place. A kernel that has to be compiled first is neither: such a question or
case is asked once more.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple

import inbounds as ib

from .models import shrunk

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # inherited: the processes are the parallelism

LIMIT = 10.0
"""Seconds that one question to the library may take."""

CASE = 120.0
"""Seconds that a case may take, the rationals of the tests included, which need most of it: then it is killed."""

COMPILING = 180.0
"""Seconds that it may take the first time, when kernels are not on disk yet."""

WORKERS = 2
ENOUGH = 200
"""Failures after which a run stops: something is wrong everywhere."""

REGRESSIONS = Path(__file__).parent / "regressions"


class Verdict(NamedTuple):
    """What is wrong with the answers to one case, as "kind: detail"; and what was tried, for the table."""

    complaints: list[str]
    tried: dict[str, int]


class Failure(NamedTuple):
    case: Any
    complaint: str

    @property
    def kind(self) -> str:
        return kind_of(self.complaint)


@dataclass
class Report:
    """What a run came to: `tried` counts of what was done, the failures, and the files that were kept."""

    tried: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    seconds: float = 0.0
    stopped: str = ""  # why it ended before all cases were tried


def kind_of(complaint: str) -> str:
    """What stands before the colon, without the question in brackets: one model of each kind is kept."""
    return re.sub(r" \(.*?\)", "", complaint.partition(":")[0])


class TooSlow(Exception):
    """A question took more than `LIMIT` seconds, twice: the first time it may have been compiling."""


def in_time(question: Callable[[], Any]) -> Any:
    """The answer, if it comes within the limit."""
    for _ in range(2):
        began = time.monotonic()
        found = question()
        seconds = time.monotonic() - began
        if seconds <= LIMIT:
            return found
    raise TooSlow(f"an answer after {seconds:.1f} s")


def guarded(check: Callable[[Any], Verdict], case: Any) -> Verdict:
    """A verdict whatever happens; warnings are faults."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return check(case)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)
            inside = [f"{Path(f.filename).name}:{f.name}" for f in where if "inbounds" in Path(f.filename).parts]
            place = inside[-1].replace(":", " ") if inside else "the tests"
            text = "".join(traceback.format_exception(error)[-3:])
            return Verdict([f"{type(error).__name__} in {place}: {error} | {text}"[:2000]], {"cases": 1})


def _work(check: Callable[[Any], Verdict], channel: Any) -> None:
    channel.send(True)
    while True:
        try:
            case = channel.recv()
        except EOFError:
            return
        channel.send(guarded(check, case))


HANG = Verdict([f"hang: no answer within {CASE:g} s"], {"cases": 1})


class _Worker:
    """One process, and the case that it is at."""

    def __init__(self, check: Callable[[Any], Verdict]) -> None:
        context = multiprocessing.get_context("spawn")
        self.channel, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(check, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.case: Any = None
        self.turn = ""
        self.deadline = 0.0
        self.idle, self.over, self.ready = True, False, False

    def give(self, case: Any, limit: float, turn: str) -> None:
        if not self.ready:  # the clock starts when everything is imported
            self.ready = self.channel.recv()
        self.case, self.turn, self.idle = case, turn, False
        self.deadline = time.monotonic() + limit
        self.channel.send(case)

    def verdict(self) -> Verdict | None:
        """Of the case, or None while there is time."""
        if self.channel.poll(0):
            self.idle = True
            try:
                return self.channel.recv()
            except EOFError:
                self.process.join()
                self.over = True
                return Verdict([f"death: the process ended with code {self.process.exitcode}"], {"cases": 1})
        if time.monotonic() < self.deadline:
            return None
        self.end()
        return HANG

    def ask(self, case: Any, limit: float) -> Verdict:
        self.give(case, limit, "")
        while (verdict := self.verdict()) is None:
            wait([self.channel], max(0.0, self.deadline - time.monotonic()))
        return verdict

    def end(self) -> None:
        self.idle = self.over = True
        self.process.kill()
        self.process.join()
        self.channel.close()


def outcomes(
    check: Callable[[Any], Verdict], cases: Iterable[Any], until: float, limit: float = CASE, workers: int = WORKERS
) -> Iterator[tuple[Any, Verdict]]:
    """Each case with its verdict, in the order in which they end; no case begins after `until` (monotonic time)."""
    waiting = iter(cases)
    crew = [_Worker(check) for _ in range(workers)]
    again: list[Any] = []  # cases that may have been compiling
    patience = 3  # so many
    try:
        while True:
            for worker in crew:
                if worker.idle and again:
                    worker.give(again.pop(), COMPILING, "generous")
                elif worker.idle and time.monotonic() < until:
                    for case in islice(waiting, 1):
                        worker.give(case, limit, "first")
            busy = [worker for worker in crew if not worker.idle]
            if not busy:
                return
            left = min(worker.deadline for worker in busy) - time.monotonic()
            wait([worker.channel for worker in busy], max(0.0, left))
            for place, worker in enumerate(crew):
                verdict = None if worker.idle else worker.verdict()
                if verdict is None:
                    continue
                if worker.over:
                    crew[place] = _Worker(check)
                if verdict is HANG and worker.turn == "first" and patience > 0:
                    patience -= 1
                    again.append(worker.case)
                elif verdict is not HANG and worker.turn == "generous":
                    worker.give(worker.case, limit, "by the clock")
                else:
                    yield worker.case, verdict
    finally:
        for worker in crew:
            worker.end()


def campaign(
    draw: Callable[[int, int], tuple[ib.CMDP, str]],
    judge: Callable[[ib.CMDP, str], Verdict],
    count: int,
    seed: int,
    seconds: float,
    name: str,
    keep: bool = True,
) -> Report:
    """Judge the models ``draw(seed, i)`` for i < count in `seconds`; shrink and keep one of each kind of failure."""
    began = time.monotonic()
    report = Report()
    check = _Check(draw, judge)
    indices = ((seed, i) for i in range(count))
    done = 0
    for case, verdict in outcomes(check, indices, began + seconds):
        done += 1
        report.tried.update(verdict.tried)
        report.failures += [Failure(case, complaint) for complaint in verdict.complaints]
        if verdict.complaints:
            print(f"  {name}: seed {case[0]}, case {case[1]}: {verdict.complaints[0][:200]}", flush=True)
        if len(report.failures) >= ENOUGH:
            report.stopped = f"more than {ENOUGH} failures"
            break
        if done % 500 == 0:
            print(f"  {name}: {done:,} of {count:,} cases, {time.monotonic() - began:.0f} s", flush=True)
    if done < count and not report.stopped:
        report.stopped = f"{seconds:g} s were over after {done:,} of {count:,} cases"
    if keep:
        seen: set[str] = set()
        for failure in report.failures:
            if failure.kind not in seen:
                seen.add(failure.kind)
                kept = _keep(check, failure, name)
                report.kept += [kept] if kept is not None else []
    report.seconds = time.monotonic() - began
    return report


class _Check(NamedTuple):
    """Judge a case: (seed, index) of a model to draw, or (model, what) itself."""

    draw: Callable[[int, int], tuple[ib.CMDP, str]]
    judge: Callable[[ib.CMDP, str], Verdict]

    def __call__(self, case: tuple[Any, Any]) -> Verdict:
        try:
            model, what = self.draw(*case) if isinstance(case[0], int) else case
        except ib.InvalidInput:
            return Verdict([], {"refused when made": 1})
        return self.judge(model, what)


def _keep(check: _Check, failure: Failure, name: str, seconds: float = 60.0) -> Path | None:
    """Shrink the model of a failure while it fails in the same way, and write it to a file."""
    until = time.monotonic() + seconds
    limit = LIMIT if failure.kind == "hang" else CASE
    worker = _Worker(check)

    def fails(model: ib.CMDP) -> bool:
        nonlocal worker
        if time.monotonic() > until:
            raise TimeoutError
        verdict = worker.ask((model, what), limit)
        if worker.over:
            worker = _Worker(check)
        return any(kind_of(complaint) == failure.kind for complaint in verdict.complaints)

    try:
        model, what = check.draw(*failure.case)
        return keep(shrunk(model, fails), name, what, failure.kind)
    except ib.InvalidInput:
        return None
    finally:
        worker.end()


def keep(model: ib.CMDP, name: str, what: str, kind: str) -> Path | None:
    """Write a model to ``regressions/<attack>.<what>.<kind and hash>.npz``."""
    REGRESSIONS.mkdir(exist_ok=True)
    content = sha256(repr((model.reward.tolist(), model.margins.tolist(), what)).encode()).hexdigest()[:6]
    slug = re.sub(r"[^a-z0-9]+", "-", kind.lower()).strip("-")[:40]
    path = REGRESSIONS / f"{name}.{what}.{slug}-{content}.npz"
    model.save(path)
    return path
