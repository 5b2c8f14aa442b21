"""What several sub-commands print: tables, JSON, progress on a terminal."""

from __future__ import annotations

import codecs
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click


def facts_of(result: Any, *names: str) -> dict[str, Any]:
    """Some attributes of a result, arrays as lists."""
    found = {name: getattr(result, name) for name in names}
    return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in found.items()}


def value_text(value: float, problem: Any, digits: int = 6) -> str:
    """A value of a problem, and what it is, as its criterion says."""
    from inbounds.criteria import criterion_of

    return criterion_of(problem).in_words(value, digits)


@contextmanager
def progress_bar(what: str, total: int | None, quiet: bool, first: str = "") -> Iterator[Callable[..., None]]:
    """A progress bar on stderr, when that is a terminal: call what it yields with (done) or (done, total).

    While nothing is done it says what comes `first`.
    It shows how many are done of how many, how many a second of late, and the time left at that rate.
    """
    from rich.progress import TextColumn

    marks = deque([(time.perf_counter(), 0)])
    with _bar(what, total, quiet, TextColumn("{task.fields[words]}", markup=False)) as (bar, task):
        bar.update(task, words=first)

        def show(done: int, total: int | None = total) -> None:
            pace = pace_text(done, total, rate_of_late(marks, time.perf_counter(), done)) or first
            bar.update(task, completed=done, total=total, words=pace)

        yield show


_OF_LATE = 10.0
"""Seconds over which a rate is told."""

UNWRITTEN = "none of them is written; --time-limit writes what is finished by then"
"""What becomes of runs that are in no journal."""


@contextmanager
def runs_bar(quiet: bool, kept: str, first: str = "") -> Iterator[Callable[[int, int], None]]:
    """A progress bar of runs. What breaks them off carries how many are finished, and `kept`: what becomes of them."""
    from inbounds.problem.pieces import attach
    from inbounds.tables import so_many

    finished, runs = 0, 0
    with progress_bar("runs", None, quiet, first) as advance_to:

        def show(done: int, total: int) -> None:
            nonlocal finished, runs
            finished, runs = done, total
            advance_to(done, total)

        try:
            yield show
        except BaseException as error:
            if finished:
                attach(error, f"{finished:,} of {so_many(runs, 'run')}; {kept}")
            raise


@contextmanager
def telling_bar(what: str, quiet: bool) -> Iterator[tuple[Callable[[int, int], None], Callable[[str], None]]]:
    """A progress bar for steps that may take minutes each: the time that passes, and in words what is being done."""
    from rich.progress import TextColumn, TimeElapsedColumn

    words = TextColumn("{task.fields[words]}", markup=False)
    with _bar(what, None, quiet, TimeElapsedColumn(), words) as (bar, task):
        yield (
            lambda done, total: bar.update(task, completed=done, total=total),
            lambda doing: bar.update(task, words=doing),
        )


def _watched() -> bool:
    """Whether stderr is a terminal. Rich may take a log for one, if the environment asks for colours there."""
    return sys.stderr.isatty()


@contextmanager
def _bar(what: str, total: int | None, quiet: bool, *more: Any) -> Iterator[Any]:
    """A bar with its only task, on stderr; nothing where that is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), *more)
    with Progress(*columns, console=console, transient=True, disable=quiet or not _watched()) as bar:
        yield bar, bar.add_task(what, total=total, words="")


def rate_of_late(marks: deque[tuple[float, int]], now: float, done: int) -> float:
    """How many a second over the last ten seconds, or since the mark before; `marks` is added to, and pruned.

    What is done later may take much longer than what came first: walks of a proof, say, after exploration.

    >>> marks = deque([(0.0, 0)])
    >>> [rate_of_late(marks, at, done) for at, done in ((5.0, 5_000), (20.0, 6_500), (31.0, 7_600))]
    [1000.0, 100.0, 100.0]
    """
    marks.append((now, done))
    while len(marks) > 2 and marks[1][0] <= now - _OF_LATE:
        marks.popleft()
    before, had = marks[0]
    return (done - had) / (now - before) if now > before else 0.0


def pace_text(done: int, total: int | None, rate: float) -> str:
    """How many a second, and the time left for the rest at that rate.

    >>> pace_text(50_000, 200_000, 25_000.0), pace_text(3, None, 0.5), pace_text(0, 10, 0.0)
    ('25,000/s, 6 seconds left', '0.5/s', '')
    """
    if done <= 0 or not rate > 0.0:
        return ""
    shown = f"{rate:,.0f}/s" if rate >= 10.0 else f"{rate:.2g}/s"
    return shown if total is None else f"{shown}, {duration(max(total - done, 0) / rate)} left"


@contextmanager
def gap_status(quiet: bool) -> Iterator[dict[str, Any]]:
    """What `ib.solve` tells of its progress, one line on stderr, when that is a terminal.

    The bounds on the optimum as they close, and how much of the proof is made.
    """
    from rich.console import Console

    if quiet or not _watched():
        yield {}
        return
    with Console(stderr=True).status("solving") as status:
        yield {
            "progress": lambda solves, lower, upper: status.update(
                f"{solves} unconstrained solves, optimum between {lower:.9g} and {upper:.9g}, gap {upper - lower:.1e}"
            ),
            "proof_progress": lambda done, total: status.update(f"proof: {done} of {total} vectors and bounds"),
        }


_LARGE = 2**20
"""Bytes of a file that is not read at once."""


@contextmanager
def reading_status(path: Path) -> Iterator[None]:
    """A line on stderr, when that is a terminal, while a large file is read."""
    from rich.console import Console
    from rich.text import Text

    from inbounds.tables import printable

    if not _watched() or not path.is_file() or path.stat().st_size < _LARGE:
        yield
        return
    with Console(stderr=True).status(Text(f"reading {printable(path.name)}")):
        yield


_JSON = "inbounds.json"
"""Where a context of click keeps that one JSON object is wanted: True until it is printed."""


def asking_for_json(ctx: click.Context, _: click.Parameter | None, asked: bool) -> bool:
    """Keep that ``--json`` was given, for whoever has to end the command."""
    ctx.meta[_JSON] = asked
    return asked


def print_json(**facts: Any) -> None:
    """As it is where the output can be anything; elsewhere in ASCII, which is JSON all the same."""
    click.get_current_context().meta[_JSON] = False
    anything = codecs.lookup(getattr(sys.stdout, "encoding", None) or "utf-8").name.startswith("utf")
    click.echo(json.dumps(facts, indent=2, ensure_ascii=not anything))


def names_of(files: Iterable[Path]) -> list[str]:
    """What JSON calls files."""
    from inbounds.tables import in_unicode

    return [in_unicode(path) for path in files]


def print_refusal(message: str, code: int) -> None:
    """What ended a command, for machines that asked for JSON and have none yet."""
    from inbounds.tables import in_unicode

    if click.get_current_context().meta.get(_JSON):
        print_json(error=in_unicode(message), exit_code=code)


def print_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from inbounds.tables import text_table

    click.echo(text_table(header, rows))


def print_wrapped(text: str) -> None:
    """Sentences on lines as wide as a table."""
    from inbounds.tables import wrapped

    click.echo(wrapped(text, indent="    "))


def print_text(text: str) -> None:
    """A docstring, which may be wider than a terminal: its paragraphs are filled anew."""
    from inbounds.tables import WIDTH, wrapped

    def margin(line: str) -> str:
        return line[: len(line) - len(line.lstrip())]

    filled, before = [""], ""
    for line in text.split("\n"):
        # A line that is too long is one of a paragraph: it goes on in the next one, if that is set in as far.
        goes_on = len(before) > WIDTH and line.strip() and margin(line) == margin(before) and "  " not in before.strip()
        filled[-1:] = [f"{filled[-1]} {line.strip()}"] if goes_on else [filled[-1], line]
        before = line
    for line in filled[1:]:
        click.echo(wrapped(line, indent=margin(line) + "    " * ("  " in line.strip())))
    click.echo()


def policy_facts(policy: Any) -> Any:
    """Probabilities over pairs, for JSON; of a mixture, those of its policies and their weights."""
    from inbounds.problem.mixture import Mixture

    if isinstance(policy, Mixture):
        return {"weights": policy.weights.tolist(), "policies": [policy_facts(member) for member in policy.policies]}
    return policy.probabilities.tolist()


def print_policy(policy: Any, negligible: float = 1e-9) -> None:
    from inbounds.formats.labels import label_in_words
    from inbounds.problem.mixture import Mixture

    if isinstance(policy, Mixture):
        for weight, member in zip(policy.weights, policy.policies, strict=True):
            click.echo(f"drawn at the start with probability {weight:.4g}")
            print_policy(member, negligible)
        return
    if policy.probabilities.ndim == 2:
        for stage in range(len(policy.probabilities)):
            click.echo(f"stage {stage}")
            print_policy(policy.at(stage), negligible)
        return
    for state, actions in policy.by_label(negligible).items():
        chosen = ", ".join(f"{label_in_words(action)} {share:.4g}" for action, share in actions.items())
        print_wrapped(f"  {label_in_words(state)}: {chosen}")


def print_files(directory: Path, written: list[Path]) -> None:
    from inbounds.tables import printable

    several = sum(path.suffix == ".svg" for path in written) > 1
    click.echo(f"The picture{'s are' if several else ' is'} in {printable(str(directory.resolve()))}:")
    print_wrapped("    " + ", ".join(path.name for path in written))


def tidy(margin: float, scale: float) -> float:
    """Zero for what is zero up to rounding."""
    return 0.0 if abs(margin) <= 1e-12 * scale else float(margin)


def duration(seconds: float) -> str:
    for unit, length in (("years", 31_557_600.0), ("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.2g} seconds"
