"""`inbounds theorems`: the paper's bounds beside what runs measure."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

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

_TABLES = (("kappa", "conservative_gap", "duality_gap"), ("flow_residual", "policy_gap", "policy_margin"))
"""Columns that go side by side."""


@click.command("theorems")
@click.option("--seeds", type=int, default=8, show_default=True, help="Runs at each T.")
@click.option(
    "--samples",
    type=WHOLE_NUMBER,
    default=100_000_000,
    show_default=True,
    help="No T is larger: powers of ten, and the theorem's own.",
)
@jobs_option
@output_option("the figure and the CSV", "reproduction/theorems")
@time_limit_option
@json_option
def command(
    seeds: int, samples: int, jobs: int | None, output: Path | None, time_limit: float | None, as_json: bool
) -> None:
    """The paper's theorems against runs at growing T.

    Runs CSPDA by the paper's formulas on its queue, and on a problem small enough for the theorem's own T, and judges
    the averages on the model: duality gap, flow residual, conservative gap, and the policy's reward and margins, each
    beside its bound. Expectations are means over the runs; all in scaled units.

    \b
    Examples
      inbounds theorems
      inbounds theorems --seeds 4 --samples 1000000
    """
    from inbounds.reports.figures import write_report
    from inbounds.reports.theorems import FILES, drawn_theorems, theorem_rows, theorem_verdicts
    from inbounds.studies.theorems import study_theorems

    output = output_folder(output, Path("reproduction") / "theorems", *FILES)
    with runs_bar(as_json, UNWRITTEN) as advance_to, within_memory(samples):
        done = study_theorems(seeds=seeds, samples=samples, workers=jobs, progress=advance_to, time_limit=time_limit)
        contents = drawn_theorems(done)
    written, rows = write_report(output, contents), theorem_rows(done)
    late = any(study.status != "done" for study in done) or len(done) < 2
    if as_json:
        status = "time limit" if late else "done"
        print_json(points=rows, status=status, verdicts=theorem_verdicts(done), files=names_of(written))
        sys.exit(EXIT_STOPPED if late else 0)
    click.echo(f"measured, mean of {seeds} runs, and proved; scaled units")
    for problem in dict.fromkeys(row["problem"] for row in rows):
        for columns in _TABLES:
            click.echo()
            print_table(
                (problem, "T", *(name.replace("_", " ") for name in columns)),
                [
                    (row["arm"].removeprefix("kappa, "), f"{row['samples']:,}", *(_shown(row, one) for one in columns))
                    for row in rows
                    if row["problem"] == problem
                ],
            )
    click.echo()
    for line in theorem_verdicts(done):
        print_wrapped(line)
    print_files(output, written)
    if late:
        click.echo("TIME LIMIT: points are missing, those with the most samples")
        sys.exit(EXIT_STOPPED)


def _shown(row: dict[str, Any], name: str) -> str:
    """What was measured beside its bound; or a setting."""
    if name == "kappa":
        return f"{row[name]:.3g}"
    sign = ">=" if name.endswith("margin") else "<="
    return f"{row[name]['measured']:.3g} {sign} {round(row[name]['bound'], 9) + 0.0:.3g}"  # 0 up to rounding is 0
