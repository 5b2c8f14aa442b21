"""`inbounds report`: a problem and its answer as one page."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from inbounds.cli import EXIT_STOPPED
from inbounds.cli.arguments import (
    FILE,
    called,
    json_option,
    problem_argument,
    problem_facts,
    problem_from,
    require_nothing_lost,
    with_bounds,
)
from inbounds.cli.printing import names_of, print_json, print_wrapped, telling_bar


@click.command("report")
@problem_argument
@click.option(
    "--output",
    type=FILE,
    help="The page.  [default: PROBLEM.html, with what --bound says]",
)
@click.option("--points", type=int, help="Bounds of each slider; 0: no curves.  [default: 12; of large problems fewer]")
@click.option(
    "--policy",
    "other",
    type=FILE,
    help="Another policy (.json, .npz, .csv), such as the rule in use, to be shown beside the best.",
)
@click.option("--beside", is_flag=True, help="Also write the model, the certificate and the policy beside the page.")
@click.option("--time-limit", type=float, help="Seconds: curves that are not finished then are cut short.")
@json_option
def command(
    problem: str,
    parameters: tuple[str, ...],
    output: Path | None,
    points: int | None,
    other: Path | None,
    beside: bool,
    time_limit: float | None,
    as_json: bool,
) -> None:
    """Write one self-contained page: optimum, policy, prices, proof.

    Solves PROBLEM and writes an HTML page that loads nothing from anywhere: the policy to filter, sort and see as a
    map, the optimum as each bound moves, with a slider that moves the policy, and how to check the proof. With --beside
    page.html comes with page-model.npz, page-certificate.json and page-policy.json (.npz if it is large); files of
    these names that did not come with an earlier page.html are not overwritten, and the exit code is 2. What is missing
    because the time limit came first is said here and on the page, and the exit code is 5; at Ctrl-C it is the same
    once the optimum is known, and the exit code is 130.

    \b
    Examples
      inbounds report queue
      inbounds report model.npz --output page.html --beside
      inbounds report model.npz --policy rule.csv
    """
    import inbounds as ib
    from inbounds.problem.pieces import attached
    from inbounds.reporting import Written, paths_beside, written_report
    from inbounds.tables import printable

    cmdp = problem_from(problem, parameters)
    policy = None if other is None else ib.Policy.load(other)
    target = output or Path(f"{with_bounds(Path(problem).stem)}.html")
    for path in paths_beside(cmdp, target) if beside else ():
        for file, what in ((problem, "the model itself"), (other, "the other policy")):
            if file is not None and os.path.exists(path) and os.path.exists(file) and path.samefile(file):
                raise ib.InvalidInput(f"--beside would overwrite {file}, {what}; give another --output")
    require_nothing_lost("--output", target, (problem, other))
    interrupted, status = None, "time limit"
    try:
        with telling_bar("points", quiet=as_json) as (advance_to, says):
            written, missing = written_report(
                cmdp,
                target,
                points=points,
                policy=policy,
                beside=beside,
                progress=advance_to,
                says=says,
                time_limit=time_limit,
                title=called(cmdp, problem),
            )
    except KeyboardInterrupt as error:
        known = attached(error)
        if not isinstance(known, Written):
            raise
        (written, missing), interrupted, status = known, error, "interrupted"
    code = EXIT_STOPPED if missing else 0
    if as_json:
        status = status if missing or interrupted else "done"
        files = names_of(written)
        print_json(problem=problem_facts(cmdp, problem), status=status, files=files, missing=list(missing))
    else:
        for path in written:
            click.echo(f"{printable(path)}  {path.stat().st_size / 1e6:.2f} MB")
        if missing:
            print_wrapped(f"{status.upper()}: missing from the page: {'; '.join(missing)}.")
    if interrupted is not None:
        raise interrupted
    sys.exit(code)
