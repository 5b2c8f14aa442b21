"""`inbounds reproduce`: the paper's experiment."""

from __future__ import annotations

from pathlib import Path

import click

from inbounds.cli.arguments import jobs_option, json_option, output_option
from inbounds.cli.printing import print_files, print_json, print_table, progress_bar


@click.command("reproduce")
@click.argument("experiment", type=click.Choice(["queue"]))
@click.option("--seeds", type=int, default=200, show_default=True, help="Runs of each setting.")
@click.option("--samples", type=int, default=100_000, show_default=True, help="Samples of each run.")
@jobs_option
@output_option("the figures and the CSV", "reproduction/EXPERIMENT")
@json_option
def command(experiment: str, seeds: int, samples: int, jobs: int | None, output: Path | None, as_json: bool) -> None:
    """The paper's experiment: figures and table.

    200 seeds x {kappa = 0, kappa > 0} x 100,000 samples, with the paper's formulas and with the practical preset.
    Writes Figure 1 (reward), Figure 2 (constraint values) and the error-bar figure as SVG and PNG, and a CSV of the
    curves; prints the table, and where the paper's claim holds. The result does not depend on the number of workers.

    \b
    Examples
      inbounds reproduce queue
      inbounds reproduce queue --seeds 20 --samples 20000
    """
    from inbounds.studies.reproduction import reproduce_queue

    with progress_bar("runs", None, quiet=as_json) as advance_to:
        done = reproduce_queue(seeds=seeds, samples=samples, workers=jobs, progress=advance_to)

    from inbounds.reports.reproduction import summary_rows, verdicts, write_reproduction

    output = output or Path("reproduction") / experiment
    written = write_reproduction(done, output)
    rows = summary_rows(done)
    if as_json:
        print_json(
            arms=rows,
            seeds=seeds,
            samples=samples,
            optimum=done.optimum,
            conservative_optimum=done.conservative_optimum,
            verdicts=verdicts(done),
            files=[str(path) for path in written],
        )
        return
    click.echo(f"CSPDA on the paper's queue: {seeds} runs of {samples:,} samples; totals, mean (standard deviation)")
    print_table(
        ("setting", "kappa", "reward", *done.constraint_names, "out of bounds"),
        [
            (
                row["setting"],
                f"{row['kappa']:.4f}",
                f"{row['mean_total_reward']:.3f} ({row['sd_total_reward']:.3f})",
                *(
                    f"{mean:+.3f} ({sd:.3f})"
                    for mean, sd in zip(row["mean_total_margins"], row["sd_total_margins"], strict=True)
                ),
                f"{row['share_out_of_bounds']:.1%}",
            )
            for row in rows
        ],
    )
    click.echo(
        f"LP optimum {done.optimum:.6f}; "
        f"conservative LP optimum {done.conservative_optimum:.6f} (kappa = {done.kappa:.6f})"
    )
    for line in verdicts(done):
        click.echo(line)
    print_files(output, written)
