"""`inbounds algorithms`: what can be run."""

from __future__ import annotations

import textwrap

import click

from inbounds.cli.arguments import json_option
from inbounds.cli.printing import print_json, print_table

_HEADERS = {"sample_complexity": "samples, O~"}
_FACTS = ("name", "paper", "setting", "needs", "output", "sample_complexity", "violation")


@click.command("algorithms")
@click.argument("name", required=False)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """List the learning algorithms, or explain one.

    Sample complexity and violation are orders of magnitude, as in Table 1 of the CSPDA paper or, for later
    algorithms, in their own: S states, A actions, discount γ, accuracy ε; logarithms and other constants are hidden.

    \b
    Examples
      inbounds algorithms
      inbounds algorithms npg-pd
    """
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
        for columns in (("paper",), ("setting",), ("needs", "output"), ("sample_complexity", "violation")):
            header = ("algorithm", *(_HEADERS.get(column, column) for column in columns))
            print_table(header, [(key, *(str(fact[column]) for column in columns)) for key, fact in facts.items()])
            click.echo()
        click.echo(
            "Explain one: `inbounds algorithms NAME`. Run one: `inbounds learn queue --algorithm NAME`.\n"
            "Run all: `inbounds compare queue`."
        )
    else:
        module = inspect.getmodule(ALGORITHMS[name])
        click.echo(inspect.getdoc(module) or "")
        click.echo("\nSettings\n--------")
        text = inspect.getdoc(ALGORITHMS[name]) or ""
        click.echo(text.split("\nExamples\n")[0].split("Parameters\n----------\n")[-1].rstrip())
        known = ", on a known model: ib.iterate(cmdp, ...)" if facts[name]["known_model"] else ""
        click.echo(textwrap.fill(f"In Python: ib.{facts[name]['class']}.practical(){known}.", width=100))
