"""`inbounds frontier`: the price of safety."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from inbounds.cli import EXIT_STOPPED
from inbounds.cli.arguments import json_option, output_option, problem_argument, problem_from
from inbounds.cli.printing import facts_of, print_files, print_json, print_table, problem_facts, progress_bar, tidy


@click.command("frontier")
@problem_argument
@click.option("--constraint", required=True, help="The name of the constraint whose bound moves, or its position.")
@click.option("--points", type=int, default=50, show_default=True, help="How many bounds.")
@click.option("--time-limit", type=float, help="Seconds for the whole of it; then the points that are finished.")
@output_option("the picture and the CSV", "frontier/PROBLEM-CONSTRAINT")
@json_option
def command(
    problem: str,
    parameters: tuple[str, ...],
    constraint: str,
    points: int,
    time_limit: float | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """The optimum as one bound moves: the price of safety.

    Moves one bound of PROBLEM from where it does not matter to where nothing is in bounds, the others unchanged; draws
    the optimum with the price as its slope, and writes SVG, PNG and CSV. At the time limit the points that are
    finished are written, and the exit code is 5.

    \b
    Examples
      inbounds frontier queue --constraint service
      inbounds frontier model.toml --constraint repairs --points 20
    """
    import inbounds as ib

    cmdp = problem_from(problem, parameters)
    names = [c.name for c in cmdp.constraints]
    which: str | int = int(constraint) if constraint.isdecimal() and constraint not in names else constraint
    with progress_bar("points", points, quiet=as_json) as advance_to:
        curve = ib.frontier(cmdp, which, points, progress=advance_to, time_limit=time_limit)
    stopped = "limit" in curve.status

    from inbounds.reports.frontier import write_frontier

    if output is None:
        named = "".join(letter if letter.isalnum() else "-" for letter in curve.constraint)
        output = Path("frontier") / f"{Path(problem).stem}-{named}"
    written = write_frontier(curve, names, output)
    prices = curve.prices[:, names.index(curve.constraint)]
    if as_json:
        print_json(
            problem=problem_facts(cmdp),
            **facts_of(curve, "constraint", "at_least", "matters_from", "possible_to", "bounds", "rewards", "prices"),
            status=curve.status,
            files=[str(path) for path in written],
        )
        sys.exit(EXIT_STOPPED if stopped else 0)
    click.echo(repr(cmdp))
    sign = ">=" if curve.at_least else "<="
    shown = sorted({round(step * (len(curve.bounds) - 1) / 9) for step in range(10)})
    print_table(
        (f"bound on {curve.constraint}", "optimum", "price"),
        [(f"{sign} {curve.bounds[p]:.6g}", f"{curve.rewards[p]:.6g}", f"{prices[p]:.4g}") for p in shown],
    )
    begins, ends = (tidy(end, float(abs(curve.bounds).max())) for end in (curve.matters_from, curve.possible_to))
    click.echo(f"The bound begins to matter at {begins:.6g}; no policy keeps one beyond {ends:.6g}.")
    print_files(output, written)
    if stopped:
        click.echo(f"{curve.status}: {len(curve.bounds)} of {points} points are finished.")
        sys.exit(EXIT_STOPPED)
