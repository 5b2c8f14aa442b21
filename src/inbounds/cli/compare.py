"""`inbounds compare`: every algorithm on the same samples."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from inbounds.cli import EXIT_STOPPED
from inbounds.cli.arguments import (
    jobs_option,
    json_option,
    output_option,
    preset_option,
    problem_from,
    problem_or_none_argument,
    scale_option,
    time_limit_option,
)
from inbounds.cli.printing import (
    facts_of,
    print_files,
    print_json,
    print_table,
    print_wrapped,
    problem_facts,
    progress_bar,
)


@click.command("compare")
@problem_or_none_argument
@click.option(
    "--suite",
    type=click.Choice(["tuning", "untouched", "all"]),
    help="In the place of PROBLEM: the generated problems on which presets are tuned, those on which they are not, "
    "or both.",
)
@click.option(
    "--samples",
    type=int,
    help="The budget of every run.  [default: 100,000; with --suite that and 1,000,000]",
)
@click.option("--seeds", type=int, help="Runs of each algorithm.  [default: 20; with --suite 5 on each problem]")
@click.option(
    "--algorithm",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only this one; may be repeated.  [default: all of `inbounds algorithms`]",
)
@preset_option
@scale_option
@jobs_option
@output_option("the picture, the CSV and the journal of finished runs", "comparison/PROBLEM")
@click.option("--fresh", is_flag=True, help="Forget the finished runs in the journal, and run everything.")
@time_limit_option
@json_option
def command(
    problem: str | None,
    parameters: tuple[str, ...],
    suite: str | None,
    samples: int | None,
    seeds: int | None,
    names: tuple[str, ...],
    preset: str,
    scale: bool,
    jobs: int | None,
    output: Path | None,
    fresh: bool,
    time_limit: float | None,
    as_json: bool,
) -> None:
    """Every algorithm on the same budget, judged exactly.

    Each algorithm learns PROBLEM from the same number of samples, seed after seed, and its policies are evaluated on
    the model. Prints a table and draws the gap against the samples. Finished runs are kept in a journal: stop whenever
    you like, and the same command goes on where it stopped. Algorithms that know no constraints run without them and
    are measured against the optimum without them.

    With --suite the algorithms run on many problems, and the tables show the share of runs in bounds and the
    interquartile mean of the relative gap, with intervals.

    \b
    Examples
      inbounds compare queue --samples 100000 --seeds 20
      inbounds compare queue --algorithm cspda --algorithm npg-pd
      inbounds compare --suite tuning
    """
    import inbounds as ib

    if (problem is None) is (suite is None) or (suite and parameters):
        raise ib.InvalidInput(
            "compare takes a PROBLEM, whose parameters --set may change, or --suite: not both, and not neither"
        )
    if suite is not None:
        _on_suite(suite, names, samples, seeds, preset, scale, jobs, output, fresh, time_limit, as_json)
        return
    assert problem is not None
    samples, seeds = 100_000 if samples is None else samples, 20 if seeds is None else seeds
    cmdp = problem_from(problem, parameters, discounted_for="compare")
    if output is None:
        output = Path("comparison") / Path(problem).stem
    output.mkdir(parents=True, exist_ok=True)
    journal = output / "runs.jsonl"
    if fresh:
        journal.unlink(missing_ok=True)
    with progress_bar("runs", None, quiet=as_json) as advance_to:
        done = ib.compare(
            cmdp,
            names or None,
            samples=samples,
            seeds=seeds,
            preset=preset,
            scale=scale,
            workers=jobs,
            journal=journal,
            progress=advance_to,
            time_limit=time_limit,
        )

    from inbounds.reports.comparison import summary_rows, write_comparison

    written = write_comparison(done, output)
    rows = summary_rows(done)
    if as_json:
        print_json(
            problem=problem_facts(cmdp),
            **facts_of(done, "samples", "seeds", "preset", "optimum", "unconstrained_optimum"),
            algorithms=rows,
            resumed=done.resumed,
            status=done.status,
            files=[str(path) for path in written],
        )
        sys.exit(EXIT_STOPPED if done.status != "done" else 0)
    click.echo(repr(cmdp))
    click.echo(
        f"{seeds} run{'s' * (seeds != 1)} of {samples:,} samples each, {preset} settings"
        f"{'' if scale else ', units as given'}; totals (discounted sums), means over runs, judged on the model"
    )
    with_constraints = f"{'With the constraints: ' if cmdp.constraints else ''}optimum {done.optimum:.6g}"
    without = f"Without the constraints, for algorithms that know none: optimum {done.unconstrained_optimum:.6g}"
    for constrained, heading in ((True, with_constraints), (False, without)):
        group = [row for row in rows if row["constrained"] is constrained]
        if not group:
            continue
        click.echo(heading)
        print_table(
            ("algorithm", "gap", "+-", "worst margin", "out of bounds", "samples", "seconds"),
            [
                (
                    row["algorithm"],
                    f"{row['mean_gap']:+.4f}",
                    "-" if row["standard_error_gap"] is None else f"{row['standard_error_gap']:.4f}",
                    "-" if row["mean_worst_margin"] is None else f"{row['mean_worst_margin']:+.4f}",
                    f"{row['share_out_of_bounds']:.0%}" if constrained and cmdp.n_constraints else "-",
                    f"{row['samples']:,}",
                    f"{row['seconds']:.2f}",
                )
                for row in group
                if "refusal" not in row
            ],
        )
        for row in group:
            if "refusal" in row:
                click.echo(f"{row['algorithm']} did not run: {row['refusal']}")
    click.echo(
        "gap: optimum - reward, below zero only where bounds are broken; +-: its standard error; worst margin: of the "
        "constraint\nthat fares worst, below zero is out of bounds; seconds: the fastest run, on one core."
    )
    if done.resumed:
        click.echo(f"Found in {journal}, not run again: {done.resumed}. --fresh runs everything.")
    print_files(output, written)
    if done.status != "done":
        click.echo(f"{done.status.upper()}: runs are missing; the same command goes on from {journal}")
        sys.exit(EXIT_STOPPED)


def _on_suite(
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
    """With --suite: tables over all of its problems. The options are those of the command."""
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
