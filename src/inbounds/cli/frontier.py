"""`inbounds frontier`: the price of safety."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from inbounds.cli import EXIT_INFEASIBLE, EXIT_STOPPED, complain
from inbounds.cli.arguments import (
    called,
    file_name,
    json_option,
    name_or_position,
    output_folder,
    output_option,
    print_headline,
    problem_argument,
    problem_facts,
    problem_from,
    refuse_given,
)
from inbounds.cli.printing import facts_of, names_of, print_files, print_json, telling_bar


@click.command("frontier")
@problem_argument
@click.option("--constraint", required=True, help="The name of the constraint whose bound moves, or its position.")
@click.option("--and", "second", help="Another constraint: both bounds move, and the picture is a surface.")
@click.option("--points", type=int, help="How many bounds.  [default: 50; of each of two, 12]")
@click.option("--bounds", multiple=True, help="These bounds instead, e.g. 20,22.5,25.")
@click.option("--between", multiple=True, help="Bounds from one to another instead, e.g. 20:30.")
@click.option("--time-limit", type=float, help="Seconds for the whole of it; then the points that are finished.")
@output_option("the picture and the CSV", "frontier/PROBLEM-CONSTRAINT")
@json_option
def command(
    problem: str,
    parameters: tuple[str, ...],
    constraint: str,
    second: str | None,
    points: int | None,
    bounds: tuple[str, ...],
    between: tuple[str, ...],
    time_limit: float | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """The optimum as one bound moves: the price of safety.

    Moves one bound of PROBLEM from where it does not matter to where nothing is in bounds, the others unchanged; draws
    the optimum with the price as its slope, marks the present bound, and writes SVG, PNG and CSV. With --and, two
    bounds; --bounds and --between, given once, are those of --constraint, and given twice, also those of the other. At
    the time limit the points that are finished are written, and the exit code is 5; at Ctrl-C too, and it is 130.

    \b
    Examples
      inbounds frontier queue --constraint service
      inbounds frontier model.toml --constraint repairs --points 20
      inbounds frontier queue --constraint service --bounds -2,-1,0,0.5
      inbounds frontier queue --constraint service --and flow
      inbounds frontier queue --constraint 0 --and 1 --between -1:1 --points 5
    """
    import inbounds as ib
    from inbounds.problem.pieces import attach, attached
    from inbounds.reports.figures import files_of
    from inbounds.reports.frontier import write_bounds

    cmdp = problem_from(problem, parameters)
    names = [c.name for c in cmdp.constraints]
    chosen = [name_or_position(name, cmdp) for name in (constraint, second) if name is not None]
    wanted: dict[str, Any] = {}
    for option, texts, separator in (("bounds", bounds, ","), ("between", between, ":")):
        if len(texts) > len(chosen):
            raise ib.InvalidInput(f"--{option} is given {len(texts)} times: once for each bound that moves, at most")
        if texts:
            given = [_numbers(text, separator, f"--{option}") for text in texts]
            wanted[option] = given[0] if second is None else (*given, None)[:2]
    if bounds and between:
        raise ib.InvalidInput("--bounds says which bounds, and --between how far they go: give one of the two")
    if len(bounds) == len(chosen):
        refuse_given("is how many bounds there are, and --bounds says which: give one of the two", "points")
    moved = [names[cmdp.constraint_number(one)] for one in chosen]
    named = "-and-".join("".join(letter if letter.isalnum() else "-" for letter in name) for name in moved)
    kind = "frontier" if second is None else "surface"
    output = output_folder(
        output, Path("frontier") / f"{Path(problem).stem}-{file_name(named)}", *files_of([kind], [kind]), read=problem
    )
    number = points if points is not None else 50 if second is None else 12
    ask: Any = ib.frontier if second is None else ib.surface
    interrupted, known = None, "all points"
    try:
        with telling_bar("points" if second is None else "rows", quiet=as_json) as (advance_to, says):
            found = ask(cmdp, *chosen, number, **wanted, progress=advance_to, says=says, time_limit=time_limit)
    except KeyboardInterrupt as error:
        partial = attached(error)
        found = getattr(partial, "curve", partial)
        if found is None:
            raise
        interrupted, known = error, getattr(partial, "in_words", "the rows that are finished")
    if (nothing := _nothing_kept(found)) is not None:
        if as_json:
            facts = {**_facts(found), "status": "infeasible"}  # as `inbounds solve` says it
            print_json(problem=problem_facts(cmdp, problem), **facts, files=[])
        complain(nothing)
        sys.exit(EXIT_INFEASIBLE)
    found = replace(found, problem=called(cmdp, problem))
    try:
        written = write_bounds(found, output)
    except KeyboardInterrupt as error:  # while it was drawn: all is known, and is not lost for a picture
        interrupted = error
        written = write_bounds(found, output)
    if as_json:
        print_json(problem=problem_facts(cmdp, problem), **_facts(found), files=names_of(written))
    else:
        print_headline(cmdp, problem)
        click.echo(found)
        print_files(output, written)
    if interrupted is not None:
        attach(interrupted, f"{known}, which are written")
        raise interrupted
    sys.exit(EXIT_STOPPED if "limit" in found.status else 0)


def _nothing_kept(found: Any) -> str | None:
    """That no policy keeps any of the bounds asked for, in words; None where one does, or a limit came first."""
    if hasattr(found, "constraint"):
        known = f"one does {'up' if found.at_least else 'down'} to {found.ends_in_words[1]}"
        return None if len(found.bounds) else f"no policy keeps any of these bounds on {found.constraint!r}; {known}"
    whole = "limit" not in found.status and found.status != "interrupted"
    if whole and all(reward != reward for reward in found.rewards.flat):
        first, second = found.constraints
        return f"no policy keeps any of these bounds on {first!r} together with one of those on {second!r}"
    return None


def _facts(found: Any) -> dict[str, Any]:
    """For JSON, which knows no nan: null."""
    if hasattr(found, "constraint"):
        which = ("constraint", "at_least", "present", "matters_from", "possible_to", "impossible", "bounds", "rewards")
        return facts_of(found, *which, "prices", "statuses", "status")
    rewards = [[None if reward != reward else reward for reward in row] for row in found.rewards.tolist()]
    facts = facts_of(found, "constraints", "at_least", "present", "statuses", "status")
    return {**facts, "bounds": [own.tolist() for own in found.bounds], "rewards": rewards}


def _numbers(text: str, separator: str, option: str) -> list[float]:
    from inbounds.errors import InvalidInput

    try:
        return [float(part) for part in text.split(separator)]
    except ValueError:
        raise InvalidInput(f"{option} takes numbers with {separator!r} between them, found {text!r}") from None
