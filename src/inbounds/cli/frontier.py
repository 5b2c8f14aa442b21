"""`inbounds frontier`: the price of safety."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from inbounds.cli import EXIT_INFEASIBLE, EXIT_STOPPED
from inbounds.cli.arguments import json_option, output_option, problem_argument, problem_from
from inbounds.cli.printing import facts_of, print_files, print_json, print_table, problem_facts, progress_bar, tidy


@click.command("frontier")
@problem_argument
@click.option("--constraint", required=True, help="The name of the constraint whose bound moves, or its position.")
@click.option("--and", "second", help="Another constraint: both bounds move, and the picture is a surface.")
@click.option("--points", type=int, help="How many bounds.  [default: 50; of each of two, 12]")
@click.option("--bounds", help="These bounds instead, e.g. 20,22.5,25.")
@click.option("--between", help="Bounds from one to another instead, e.g. 20:30.")
@click.option("--time-limit", type=float, help="Seconds for the whole of it; then the points that are finished.")
@output_option("the picture and the CSV", "frontier/PROBLEM-CONSTRAINT")
@json_option
def command(
    problem: str,
    parameters: tuple[str, ...],
    constraint: str,
    second: str | None,
    points: int | None,
    bounds: str | None,
    between: str | None,
    time_limit: float | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """The optimum as one bound moves: the price of safety.

    Moves one bound of PROBLEM from where it does not matter to where nothing is in bounds, the others unchanged; draws
    the optimum with the price as its slope, marks the present bound, and writes SVG, PNG and CSV. At the time limit the
    points that are finished are written, and the exit code is 5.

    \b
    Examples
      inbounds frontier queue --constraint service
      inbounds frontier model.toml --constraint repairs --points 20
      inbounds frontier queue --constraint service --bounds -2,-1,0,0.5
      inbounds frontier queue --constraint service --and flow
    """
    import inbounds as ib

    cmdp = problem_from(problem, parameters)
    names = [c.name for c in cmdp.constraints]
    which = _which(constraint, names)
    if second is not None:
        if bounds or between:
            raise ib.InvalidInput("--bounds and --between are for one constraint: leave them out, or --and")
        _surface(cmdp, problem, which, _which(second, names), points or 12, time_limit, output, as_json)
        return
    wanted: dict[str, Any] = {
        "bounds": _numbers(bounds, ",", "--bounds"),
        "between": _numbers(between, ":", "--between"),
    }
    number = 50 if points is None else points
    with progress_bar("points", number, quiet=as_json) as advance_to:
        curve = ib.frontier(cmdp, which, number, **wanted, progress=advance_to, time_limit=time_limit)
    stopped = "limit" in curve.status
    if not len(curve.bounds):
        known = f"one does up to {curve.possible_to:.6g}"
        click.echo(f"inbounds: no policy keeps any of these bounds on {curve.constraint!r}; {known}", err=True)
        sys.exit(EXIT_INFEASIBLE)

    from inbounds.reports.frontier import write_frontier

    if output is None:
        named = "".join(letter if letter.isalnum() else "-" for letter in curve.constraint)
        output = Path("frontier") / f"{Path(problem).stem}-{named}"
    written = write_frontier(curve, names, output)
    prices = curve.prices[:, names.index(curve.constraint)]
    if as_json:
        print_json(
            problem=problem_facts(cmdp),
            **facts_of(curve, "constraint", "at_least", "present", "matters_from", "possible_to", "impossible"),
            **facts_of(curve, "bounds", "rewards", "prices"),
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
    if len(curve.impossible):
        click.echo(f"Left out, as no policy keeps them: {', '.join(f'{bound:.6g}' for bound in curve.impossible)}.")
    print_files(output, written)
    if stopped:
        click.echo(f"{curve.status}: {len(curve.bounds)} of {number} points are finished.")
        sys.exit(EXIT_STOPPED)


def _which(constraint: str, names: list[str]) -> str | int:
    """A constraint by its name or its position."""
    return int(constraint) if constraint.isdecimal() and constraint not in names else constraint


def _numbers(text: str | None, between: str, option: str) -> list[float] | None:
    from inbounds.errors import InvalidInput

    try:
        return None if text is None else [float(part) for part in text.split(between)]
    except ValueError:
        raise InvalidInput(f"{option} takes numbers with {between!r} between them, found {text!r}") from None


def _surface(
    cmdp: Any,
    problem: str,
    first: str | int,
    second: str | int,
    points: int,
    time_limit: float | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """With --and: the optimum over two bounds."""
    import inbounds as ib
    from inbounds.reports.frontier import write_surface

    with progress_bar("rows", points, quiet=as_json) as advance_to:
        found = ib.surface(cmdp, first, second, points, progress=advance_to, time_limit=time_limit)
    if output is None:
        named = "-and-".join("".join(c if c.isalnum() else "-" for c in name) for name in found.constraints)
        output = Path("frontier") / f"{Path(problem).stem}-{named}"
    written = write_surface(found, output)
    if as_json:
        rewards = [[None if reward != reward else reward for reward in row] for row in found.rewards.tolist()]
        print_json(
            problem=problem_facts(cmdp),
            **facts_of(found, "constraints", "at_least", "present", "status"),
            bounds=[own.tolist() for own in found.bounds],
            rewards=rewards,
            files=[str(path) for path in written],
        )
        sys.exit(EXIT_STOPPED if "limit" in found.status else 0)
    click.echo(repr(cmdp))
    shown = sorted({round(step * (points - 1) / 5) for step in range(6)})
    signs = [">=" if least else "<=" for least in found.at_least]
    header = f"{found.constraints[0]} {signs[0]}", *(f"{found.bounds[1][j]:.4g}" for j in shown)
    rows = [
        (f"{found.bounds[0][i]:.4g}", *("-" if r != r else f"{r:.5g}" for r in found.rewards[i, shown])) for i in shown
    ]
    click.echo(f"The optimum, across: {found.constraints[1]} {signs[1]} ...; -: no policy keeps both.")
    print_table(header, rows)
    print_files(output, written)
    if "limit" in found.status:
        click.echo(f"{found.status}: some rows are missing.")
        sys.exit(EXIT_STOPPED)
