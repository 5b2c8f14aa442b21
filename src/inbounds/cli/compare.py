"""`inbounds compare`: every algorithm on the same samples."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from inbounds.cli import EXIT_STOPPED
from inbounds.cli.arguments import (
    WHOLE_NUMBER,
    called,
    jobs_option,
    json_option,
    output_folder,
    output_option,
    preset_option,
    print_headline,
    problem_facts,
    problem_from,
    problem_or_none_argument,
    refuse_given,
    safe_from,
    safe_option,
    scale_option,
    time_limit_option,
)
from inbounds.cli.printing import (
    facts_of,
    names_of,
    print_files,
    print_json,
    print_table,
    print_wrapped,
    runs_bar,
)
from inbounds.errors import within_memory
from inbounds.tables import so_many

_COMPILING = "the first run of each algorithm compiles it, which may take a minute once"


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
    type=WHOLE_NUMBER,
    help="The budget of every run.  [default: 100,000; with --suite that and 1,000,000]",
)
@click.option("--seeds", type=int, help="Runs of each algorithm.  [default: 20; with --suite 5 on each problem]")
@click.option(
    "--algorithm",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only this one; may be repeated.  [default: all of `inbounds algorithms` that are for such a problem]",
)
@preset_option
@scale_option
@safe_option
@jobs_option
@output_option("the picture, the CSV and the journal of finished runs", "comparison/PROBLEM")
@click.option("--fresh", is_flag=True, help="Run everything again, whatever is in the journal.")
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
    safe: str | None,
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

    On a problem with a horizon, online learners play episode after episode: what that costs is summed, and drawn, as
    regret and violation; and each is run with its paper's constants, too. On a discounted problem they run, on its
    truncation, if they are named.

    \b
    Examples
      inbounds compare queue --samples 100000 --seeds 20
      inbounds compare queue --algorithm cspda --algorithm npg-pd
      inbounds compare media
      inbounds compare --suite tuning
    """
    import inbounds as ib

    if (problem is None) is (suite is None) or (suite and parameters):
        raise ib.InvalidInput(
            "compare takes a PROBLEM, whose parameters --set may change, or --suite: not both, and not neither"
        )
    if suite is not None:
        refuse_given("is for a PROBLEM: leave it out with --suite", "bound", "safe")
        _on_suite(suite, names, samples, seeds, preset, scale, jobs, output, fresh, time_limit, as_json)
        return
    assert problem is not None
    from inbounds.reports.comparison import FILES, summary_rows, write_comparison

    samples, seeds = 100_000 if samples is None else samples, 20 if seeds is None else seeds
    cmdp = problem_from(problem, parameters, discounted_for="compare", horizons=True)
    output = output_folder(output, Path("comparison") / Path(problem).stem, *FILES, read=problem)
    with _journal(output, fresh) as journal:
        with runs_bar(as_json, _goes_on(journal), _COMPILING) as advance_to, within_memory(samples):
            done = ib.compare(
                cmdp,
                names or None,
                samples=samples,
                seeds=seeds,
                preset=preset,
                scale=scale,
                safe=safe_from(safe, cmdp),
                workers=jobs,
                journal=journal,
                progress=advance_to,
                time_limit=time_limit,
            )
        _require_runs(
            [entry for entry in done.entries if not entry.refusal],
            {entry.name: entry.refusal for entry in done.entries},
            done.status,
        )
    written = write_comparison(replace(done, problem=called(cmdp, problem)), output)
    rows = summary_rows(done)
    if as_json:
        print_json(
            problem=problem_facts(cmdp, problem),
            **facts_of(done, "samples", "seeds", "preset", "optimum", "unconstrained_optimum", "safe_gap"),
            algorithms=rows,
            resumed=done.resumed,
            status=done.status,
            files=names_of(written),
        )
        sys.exit(EXIT_STOPPED if done.status != "done" else 0)
    print_headline(cmdp, problem)
    what = "totals (discounted sums)" if cmdp.horizon is None else "sums over the horizon"
    print_wrapped(
        f"{done.runs} of {samples:,} samples each, {preset} settings"
        f"{'' if scale else ', units as given'}; {what}, means over runs, judged on the model"
    )
    with_constraints = f"{'With the constraints: ' if cmdp.constraints else ''}optimum {done.optimum:.6g}"
    without = f"Without the constraints, for algorithms that know none: optimum {done.unconstrained_optimum:.6g}"
    for constrained, heading in ((True, with_constraints), (False, without)):
        group = [row for row in rows if row["constrained"] is constrained]
        if not group:
            continue
        click.echo(heading)
        ran = [row for row in group if "refusal" not in row]
        _print_returned(ran, constrained and cmdp.n_constraints > 0, done.seeds)
        for row in group:
            if "refusal" in row:
                print_wrapped(f"{row['algorithm']} did not run: {row['refusal']}")
            elif row["missing"]:
                print_wrapped(f"{row['algorithm']} did not run with every seed: {row['missing']}")
    if any(_runs_of([row], done.seeds) for row in rows if "refusal" not in row):
        print_wrapped(_FEWER)
    print_wrapped(
        "gap: optimum - reward, below zero only where bounds are broken; +-: its standard error; worst margin: of the "
        "constraint that fares worst, below zero is out of bounds; seconds: the fastest run, on one core."
    )
    _print_played([row for row in rows if "refusal" not in row and "mean_loss" in row], done)
    if done.resumed:
        click.echo(f"Found in {journal.path}, not run again: {done.resumed}. --fresh runs everything.")
    print_files(output, written)
    if done.status != "done":
        click.echo(f"{done.status.upper()}: runs are missing; {_goes_on(journal)}")
        sys.exit(EXIT_STOPPED)


def _require_runs(ran: list[Any], refusals: dict[str, str], status: str) -> None:
    """Refuse where no algorithm ran: there is nothing to show, and nothing is written."""
    from inbounds.errors import InvalidInput, Stopped

    if ran:
        return
    if status != "done":
        raise Stopped(status)
    reasons = "; ".join(f"{name}: {reason}" for name, reason in refusals.items())
    raise InvalidInput(f"no algorithm ran. {reasons}")


@contextmanager
def _journal(output: Path, fresh: bool) -> Iterator[Any]:
    """The journal of finished runs, in a folder that is there; a fresh one runs everything again.

    Nothing that is in it goes away: another process may use it, and what is refused, or killed, replaces nothing.
    A refusal leaves no folder behind.
    """
    from inbounds.studies.journal import Journal

    made = [folder for folder in (output, *output.parents) if not folder.exists()]
    output.mkdir(parents=True, exist_ok=True)
    try:
        yield Journal(output / "runs.jsonl", fresh)
    finally:
        for folder in made:
            with suppress(OSError):  # there is something in it
                folder.rmdir()


def _goes_on(journal: Any) -> str:
    """How the runs that are missing are had."""
    return f"the same command{' without --fresh' * journal.fresh} goes on from {journal.path}"


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

    output = output_folder(output, Path("comparison") / f"suite-{suite}", "suite.csv")
    with _journal(output, fresh) as journal:
        with runs_bar(as_json, _goes_on(journal), _COMPILING) as advance_to, within_memory(samples):
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
        _require_runs(
            [score for score in done.scores if score.runs],
            {score.algorithm: refusal for score in done.scores for refusal in score.refusals.values()},
            done.status,
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
            files=names_of(written),
        )
        sys.exit(EXIT_STOPPED if done.status != "done" else 0)
    print_wrapped(
        f"{done.name}: {len(done.problems)} problems, {done.runs} on each, "
        f"{preset} settings{'' if scale else ', units as given'}"
    )
    for budget in done.samples:
        click.echo(f"{budget:,} samples a run")
        print_table(*suite_table(done, budget))
    for score in done.scores:
        if not (score.runs or score.refusals):
            print_wrapped(f"{score.algorithm}: no run of {score.samples:,} samples was finished")
        for problem, refusal in score.refusals.items():
            print_wrapped(f"{score.algorithm} did not run on {problem} with {score.samples:,} samples: {refusal}")
    click.echo(
        "in bounds: share of the runs, Wilson interval; gap: (optimum - reward, with what\n"
        "is out of bounds at its price) / optimum, mean of the middle half of the runs,\n"
        "bootstrap interval; worst problem: the largest mean gap, %; most out: the\n"
        "problem with most runs out of bounds, and how many."
    )
    if any(score.runs < done.asked for score in done.scores):
        print_wrapped(_FEWER)
    if done.resumed:
        click.echo(f"Found in {journal.path}, not run again: {done.resumed}. --fresh runs everything.")
    click.echo(f"Every run is in {written[0].resolve()}")
    if done.status != "done":
        click.echo(f"{done.status.upper()}: runs are missing; {_goes_on(journal)}")
        sys.exit(EXIT_STOPPED)


_FEWER = "runs: how many there are, of those that were asked for; rows of fewer come after rows of all."


def _runs_of(rows: list[dict[str, Any]], asked: int) -> tuple[str, ...]:
    """The heading of a column for the number of runs, where some row has not all of them."""
    return ("runs",) * any(row["runs"] < asked for row in rows)


def _print_returned(rows: list[dict[str, Any]], bounded: bool, seeds: int) -> None:
    """What the policies at the end are worth."""
    losses, runs = any("mean_loss" in row for row in rows), _runs_of(rows, seeds)
    header = ("loss",) * losses, ("samples",) * (not losses)
    print_table(
        (
            "algorithm",
            *runs,
            *header[0],
            "gap",
            "+-",
            "worst margin",
            "out" if losses else "out of bounds",
            *header[1],
            "seconds",
        ),
        [
            (
                row["algorithm"],
                *(f"{row['runs']} of {seeds}" for _ in runs),
                *(_share(row.get("mean_loss")) for _ in header[0]),
                f"{row['mean_gap']:+.4f}",
                "-" if row["standard_error_gap"] is None else f"{row['standard_error_gap']:.4f}",
                "-" if row["mean_worst_margin"] is None else f"{row['mean_worst_margin']:+.4f}",
                f"{row['share_out_of_bounds']:.0%}" if bounded else "-",
                *(f"{row['samples']:,}" for _ in header[1]),
                f"{row['seconds']:.2f}",
            )
            for row in rows
        ],
    )


def _share(found: float | None) -> str:
    return "-" if found is None else f"{found:.1%}"


def _print_played(rows: list[dict[str, Any]], done: Any) -> None:
    """What the episodes cost, and what the papers promise and their constants do; if there are any."""
    online = [row for row in rows if "episodes" in row]
    if not online:
        return
    print_wrapped(
        "loss: gap and largest price * violation of the policy at the end, as a share of what the bounds cost."
    )
    click.echo(f"\nWhat an episode cost on the way, mean of {online[0]['episodes']:,.0f}")
    columns, runs = ("regret", "plain_regret", "violation", "plain_violation"), _runs_of(online, done.seeds)
    print_table(
        ("algorithm", *runs, *(column.replace("_", " ") for column in columns), "out"),
        [
            (
                row["algorithm"] + " ~" * row["oscillates"],
                *(f"{row['runs']} of {done.seeds}" for _ in runs),
                *(f"{row[f'mean_{column}_per_episode']:.4f}" for column in columns),
                _share(row["mean_out_of_bounds_per_episode"]),
            )
            for row in online
        ],
    )
    print_wrapped(
        "regret and violation are strong, no episode makes up for another; plain: they may; out: the share of episodes "
        "out of bounds."
    )
    if any(row["oscillates"] for row in rows):
        print_wrapped(
            "~: its single policies oscillate for ever, so its strong sums fall slowly or never; only their mixture "
            "means anything, and that is what it returns."
        )
    if done.safe_gap is not None:
        starting = " and ".join(entry.name for entry in done.entries if entry.starts_safe)
        print_wrapped(
            f"The safe policy, which {starting} start from, has a gap of {done.safe_gap:.4f}: that is their regret "
            "until they leave it, and just after it they are at first worse."
        )
    if any("published" in row for row in rows):
        click.echo()
        again = [row.get("published", {"runs": 0}) for row in rows]
        runs = _runs_of(again, done.published_seeds)
        print_table(
            ("algorithm", "its paper promises: samples, O~; violation", *runs, "loss"),
            [
                (
                    row["algorithm"],
                    row["promise"],
                    *(f"{other['runs']} of {done.published_seeds}" for _ in runs),
                    _share(other.get("mean_loss")),
                )
                for row, other in zip(rows, again, strict=True)
            ],
        )
        repeated = so_many(done.published_seeds, "run")
        print_wrapped(f"loss: at the end of the same budget with the constants of the paper, mean of {repeated}.")
