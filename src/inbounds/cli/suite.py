"""`inbounds compare --suite`: every algorithm on many problems."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from inbounds.cli import EXIT_STOPPED
from inbounds.cli.printing import facts_of, print_json, print_table, print_wrapped, progress_bar


def run_suite(
    suite: str,
    names: tuple[str, ...],
    samples: int | None,
    seeds: int | None,
    preset: str,
    scale: bool,
    jobs: int | None,
    output: Path | None,
    fresh: bool,
    time_limit: float | None,
    as_json: bool,
) -> None:
    """The options are those of `inbounds compare`."""
    import inbounds as ib

    output = Path("comparison") / f"suite-{suite}" if output is None else output
    output.mkdir(parents=True, exist_ok=True)
    journal = output / "runs.jsonl"
    if fresh:
        journal.unlink(missing_ok=True)
    with progress_bar("runs", None, quiet=as_json) as advance_to:
        done = ib.compare_suite(
            suite,
            names or None,
            samples=(100_000, 1_000_000) if samples is None else samples,
            seeds=5 if seeds is None else seeds,
            preset=preset,
            scale=scale,
            workers=jobs,
            journal=journal,
            progress=advance_to,
            time_limit=time_limit,
        )

    from inbounds.reports.suite import suite_rows, suite_table, write_suite

    written = write_suite(done, output)
    if as_json:
        print_json(
            suite=done.name,
            **facts_of(done, "problems", "optima", "samples", "seeds", "preset"),
            algorithms=suite_rows(done),
            resumed=done.resumed,
            status=done.status,
            files=[str(path) for path in written],
        )
        sys.exit(EXIT_STOPPED if done.status != "done" else 0)
    click.echo(
        f"{done.name}: {len(done.problems)} problems, {done.seeds} run{'s' * (done.seeds != 1)} on each, "
        f"{preset} settings{'' if scale else ', units as given'}"
    )
    for budget in done.samples:
        click.echo(f"{budget:,} samples a run")
        print_table(*suite_table(done, budget))
    for score in done.scores:
        for problem, refusal in score.refusals.items():
            print_wrapped(f"{score.algorithm} did not run on {problem} with {score.samples:,} samples: {refusal}")
    click.echo(
        "in bounds: share of the runs, Wilson interval; gap: (optimum - reward, with what\n"
        "is out of bounds at its price) / optimum, mean of the middle half of the runs,\n"
        "bootstrap interval; worst problem: the largest mean gap, %; most out: the\n"
        "problem with most runs out of bounds, and how many."
    )
    if done.resumed:
        click.echo(f"Found in {journal}, not run again: {done.resumed}. --fresh runs everything.")
    click.echo(f"Every run is in {written[0].resolve()}")
    if done.status != "done":
        click.echo(f"{done.status.upper()}: runs are missing; the same command goes on from {journal}")
        sys.exit(EXIT_STOPPED)
