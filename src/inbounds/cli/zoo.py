"""`inbounds zoo`: the named problems."""

from __future__ import annotations

import re
from typing import Any

import click

from inbounds.cli.arguments import KIND_BY_CRITERION, json_option
from inbounds.cli.printing import print_json, print_table, print_text, print_wrapped


@click.command("zoo")
@click.argument("problem", required=False)
@json_option
def command(problem: str | None, as_json: bool) -> None:
    """List the named problems, or explain one.

    All of them can be solved, with frontier and certificate; learning and comparisons take those that are discounted
    or have a horizon.

    \b
    Examples
      inbounds zoo
      inbounds zoo garnet
    """
    import inspect

    from inbounds.inputs import named
    from inbounds.zoo import PROBLEMS

    shown = PROBLEMS if problem is None else {problem: named(problem, PROBLEMS, "problem")}
    facts: dict[str, dict[str, Any]] = {
        name: {
            "summary": (inspect.getdoc(make) or "").split("\n")[0],
            "parameters": {p.name: p.default for p in inspect.signature(make).parameters.values()},
        }
        for name, make in shown.items()
    }
    if as_json:
        print_json(**facts)
    elif problem is None:
        print_table(
            ("problem", "kind", "what it is"),
            [(name, _kind(fact["parameters"]), re.split(r"[:;.]", fact["summary"])[0]) for name, fact in facts.items()],
        )
        click.echo("`inbounds zoo PROBLEM` shows the parameters of one.")
    else:
        text = inspect.getdoc(PROBLEMS[problem]) or ""
        print_text(text.split("\nExamples\n")[0].rstrip())
        print_wrapped("Defaults: " + ", ".join(f"{k}={v!r}" for k, v in facts[problem]["parameters"].items()))


def _kind(parameters: dict[str, Any]) -> str:
    kinds = (name for criterion, name in KIND_BY_CRITERION.items() if criterion in parameters)
    return next(kinds, KIND_BY_CRITERION["average"])
