"""`inbounds reproduce`: the paper's experiment."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from inbounds.cli import EXIT_STOPPED
from inbounds.cli.arguments import (
    WHOLE_NUMBER,
    jobs_option,
    json_option,
    output_folder,
    output_option,
    time_limit_option,
)
from inbounds.cli.printing import UNWRITTEN, names_of, print_files, print_json, print_table, print_wrapped, runs_bar
from inbounds.errors import within_memory


@click.command("reproduce")
@click.argument("experiment", type=click.Choice(["queue"]))
@click.option("--seeds", type=int, default=200, show_default=True, help="Runs of each setting.")
@click.option("--samples", type=WHOLE_NUMBER, default=100_000, show_default=True, help="Samples of each run.")
@jobs_option
@output_option("the figures and the CSV", "reproduction/EXPERIMENT")
@time_limit_option
@json_option
def command(
    experiment: str,
    seeds: int,
    samples: int,
    jobs: int | None,
    output: Path | None,
    time_limit: float | None,
    as_json: bool,
) -> None:
    """The paper's experiment: figures, tables and verdict.

    200 seeds x {kappa = 0, kappa > 0} x 100,000 samples under three readings of the paper: its costs as printed, its
    costs scaled to the ranges of its theory, and the practical preset; and all of it over delta, the exploration that
    the paper does not give. Writes Figure 1 (reward), Figure 2 (constraint values), the error bars and the sweep over
    delta as SVG and PNG, and CSV files of the curves. Prints what the runs came to, and what they show of both halves
    of the paper's claim. The result does not depend on the number of workers.

    \b
    Examples
      inbounds reproduce queue
      inbounds reproduce queue --seeds 20 --samples 20000
    """
    from inbounds.reports.figures import write_report
    from inbounds.reports.reproduction import FILES, drawn_reproduction, summary_rows, verdict_rows, verdicts
    from inbounds.studies.reproduction import SURE, reproduce_queue
    from inbounds.studies.statistics import errors_beside

    output = output_folder(output, Path("reproduction") / experiment, *FILES)
    with runs_bar(as_json, UNWRITTEN) as advance_to, within_memory(samples):
        done = reproduce_queue(seeds=seeds, samples=samples, workers=jobs, progress=advance_to, time_limit=time_limit)
        contents = drawn_reproduction(done)
    written = write_report(output, contents)
    rows, claims = summary_rows(done), verdict_rows(done)
    if as_json:
        print_json(
            arms=rows,
            seeds=done.seeds,
            samples=samples,
            status=done.status,
            optimum=done.optimum,
            conservative_optima=dict(done.conservative_optima),
            claims=claims,
            verdicts=verdicts(done),
            files=names_of(written),
        )
        sys.exit(EXIT_STOPPED if done.status != "done" else 0)
    print_wrapped(
        f"CSPDA on the paper's queue: {done.seeds} runs of {samples:,} samples; totals, mean (standard deviation)"
    )
    print_table(
        ("reading", "kappa", "delta", "reward", *done.constraint_names, "out of bounds"),
        [
            (
                row["reading"],
                f"{row['kappa']:.4f}",
                f"{row['delta']:g}",
                f"{row['mean_total_reward']:.3f} ({row['sd_total_reward']:.3f})",
                *(
                    f"{mean:+.3f} ({sd:.3f})"
                    for mean, sd in zip(row["mean_total_margins"], row["sd_total_margins"], strict=True)
                ),
                f"{row['share_out_of_bounds']:.1%}",
            )
            for row in rows[: len(done.arms)]
        ],
    )
    tightened = ", ".join(f"{value:.6f} ({reading})" for reading, value in done.conservative_optima.items())
    print_wrapped(f"Optimum {done.optimum:.6f}; tightened by kappa: {tightened}")
    click.echo("\nThe paper's claim: on average, kappa > 0 ends in bounds, and kappa = 0 does not")
    halves = ("kappa > 0 in bounds", "kappa = 0 out of bounds")
    print_table(
        ("reading", "delta", *halves, "both in the mean, for delta"),
        [
            (
                claim["reading"],
                f"{claim['delta']:g}",
                *(claim[half] for half in halves),
                "nowhere tried"
                if claim["both between deltas"] is None
                else "{:.3f} to {:.3f}".format(*claim["both between deltas"]),
            )
            for claim in claims
        ],
    )
    print_wrapped(
        f"shown: by more than {errors_beside(done.seeds, SURE):.3g} standard errors of the mean over {done.seeds} runs "
        f"(Student's t, once in 700 times by chance); refuted: so is the contrary; "
        "undecided: neither. In the mean: between which deltas the means, interpolated, are on the sides of zero that "
        "the paper says"
    )
    for line in verdicts(done):
        print_wrapped(line)
    print_files(output, written)
    if done.status != "done":
        others = min((len(arm.seeds) for arm in done.sweep), default=0)
        print_wrapped(f"{done.status.upper()}: {done.seeds} of {seeds} runs; with other deltas {others or 'none'}")
        sys.exit(EXIT_STOPPED)
