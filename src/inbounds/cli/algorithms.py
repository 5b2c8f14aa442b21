"""`inbounds algorithms`: what can be run."""

from __future__ import annotations

import click

from inbounds.cli.arguments import json_option
from inbounds.cli.printing import print_json, print_table, print_text, print_wrapped

_HEADERS = {"sample_complexity": "samples, O~"}
_FACTS = (
    *("name", "paper", "setting", "criterion", "access", "needs", "output", "oscillates"),
    *("sample_complexity", "violation", "constants"),
)


@click.command("algorithms")
@click.argument("name", required=False)
@click.option(
    "--table1", is_flag=True, help="The CSPDA paper's Table 1: as printed, and derived from each paper's bound."
)
@json_option
def command(name: str | None, table1: bool, as_json: bool) -> None:
    """List the learning algorithms, or explain one.

    Sample complexity and violation are orders of magnitude, as in Table 1 of the CSPDA paper or, for later
    algorithms, in their own: S states, A actions, discount γ, accuracy ε; logarithms and other constants are hidden.
    --table1 derives that table, with a name the one row, step by step. Constants: whether the numbers in an algorithm's
    steps and bounds were read in its paper, in code, are derived here, or are from memory.

    \b
    Examples
      inbounds algorithms
      inbounds algorithms npg-pd
      inbounds algorithms --table1
      inbounds algorithms --table1 uc-cfh
    """
    if table1:
        _print_table1(name, as_json)
        return
    import inspect

    from inbounds.algorithms import ALGORITHMS
    from inbounds.inputs import named

    shown = ALGORITHMS if name is None else {name: named(name, ALGORITHMS, "algorithm")}
    facts = {
        key: {
            **{fact: getattr(settings.algorithm, fact) for fact in _FACTS},
            "class": settings.__name__,
            "constrained": settings.algorithm.constrained,
            "known_model": settings.algorithm.known is not None,
        }
        for key, settings in shown.items()
    }
    if as_json:
        print_json(**facts)
    elif name is None:
        for columns in (
            ("paper",),
            ("setting", "access"),
            ("needs", "output"),
            ("sample_complexity", "violation"),
            ("constants",),
        ):
            header = ("algorithm", *(_HEADERS.get(column, column) for column in columns))
            print_table(header, [(key, *(str(fact[column]) for column in columns)) for key, fact in facts.items()])
            click.echo()
        print_wrapped(
            "Access: online, it acts from the state that it is in; generative, it may ask for any pair.\n"
            "Explain one: `inbounds algorithms NAME`.\n"
            "Run one: `inbounds learn queue --algorithm NAME`.\n"
            "Run all: `inbounds compare queue`; those for problems with a horizon: `inbounds compare media`."
        )
    else:
        module = inspect.getmodule(ALGORITHMS[name])
        print_text(inspect.getdoc(module) or "")
        click.echo("Settings\n--------")
        text = inspect.getdoc(ALGORITHMS[name]) or ""
        print_text(text.split("\nExamples\n")[0].split("Parameters\n----------\n")[-1].rstrip())
        known = ", on a known model: ib.iterate(cmdp, ...)" if facts[name]["known_model"] else ""
        print_wrapped(f"In Python: ib.{facts[name]['class']}.practical(){known}.")


def _print_table1(name: str | None, as_json: bool) -> None:
    from inbounds.algorithms.table_one import FOOTNOTES, TABLE_ONE, derive, derived, readings, verdict
    from inbounds.inputs import named

    rows = {row.algorithm or "lower-bound": row for row in TABLE_ONE}
    shown = rows if name is None else {name: named(name, rows, "row of Table 1")}
    if as_json:
        print_json(
            **{
                key: {
                    "name": row.name,
                    "printed": str(row.printed),
                    "derived": str(derived(row)),
                    "agrees": verdict(row),
                    "steps": {step: str(order) for step, order in derive(row)},
                    "conventions": {", ".join(names): str(order) for names, order in readings(row).items()},
                    "source": row.source,
                    "violation": row.violation,
                    "generative": row.generative,
                    "footnote": FOOTNOTES.get(row.footnote, ""),
                    "note": row.note,
                }
                for key, row in shown.items()
            }
        )
        return
    if name is not None:
        row = rows[name]
        click.echo(f"{row.name}: printed {row.printed}\n")
        print_table(("step", "order"), [(step, str(order)) for step, order in derive(row)])
    else:
        print_table(
            ("row", "printed, O~", "derived, O~", "agrees"),
            [
                (
                    f"{key} [{row.footnote}]" if row.footnote else key,
                    str(row.printed),
                    str(derived(row)),
                    verdict(row),
                )
                for key, row in rows.items()
            ],
        )
        click.echo()
        print_table(
            ("row", "own bound", "of order, O~", "source"),
            [(key, row.own_is, str(row.own), row.source) for key, row in rows.items()],
        )
        click.echo()
        print_table(
            ("row", "violation", "generative"),
            [(key, row.violation, str(row.generative)) for key, row in rows.items()],
        )
    episodic = {key: row for key, row in shown.items() if readings(row)}
    if episodic:
        click.echo()
        print_wrapped(
            "The power of 1/(1-γ) with S as it is, with S'/H or SH in its place, n: with ε normalised; * where the "
            "whole order is as printed:"
        )
        conventions = list(readings(next(iter(episodic.values()))))
        print_table(
            ("row", "printed", *(f"{states}{', n' * ('normalised' in what)}" for states, what in conventions)),
            [
                (
                    key,
                    f"{float(row.printed.effective):g}",
                    *(f"{float(o.effective):g}{'*' * (o == row.printed)}" for o in readings(row).values()),
                )
                for key, row in episodic.items()
            ],
        )
    click.echo()
    remarks = [f"[{number}] {FOOTNOTES[number]}" for number in sorted({row.footnote for row in shown.values()} - {0})]
    remarks += [f"{key}: {row.note}." for key, row in shown.items() if row.note]
    remarks.append(
        "Source of the own bound: read, in the paper or its abstract; quoted, in the CSPDA paper; memory, as we recall "
        "it, not checked."
    )
    for remark in remarks:
        print_wrapped(remark)
