"""What several sub-commands take: a problem, by name or from a file."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from inbounds.problem.cmdp import CMDP
    from inbounds.problem.episodic import EpisodicCMDP


def _with(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def decorate(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


problem_argument = _with(
    click.argument("problem"),
    click.option(
        "--set",
        "parameters",
        multiple=True,
        metavar="NAME=VALUE",
        help="Change a parameter of the problem, e.g. --set discount=0.9 (see `inbounds zoo PROBLEM`).",
    ),
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for machines.")


def load(problem: str, parameters: tuple[str, ...]) -> CMDP | EpisodicCMDP:
    """The problem that the user named, with the parameters that they set; or the model in the file that they named."""
    import inspect

    from inbounds import formats
    from inbounds import zoo as problems
    from inbounds.errors import InvalidInput
    from inbounds.problem import cmdp as models

    make = problems.PROBLEMS.get(problem)
    if make is None and Path(problem).suffix in formats.FORMATS:
        if parameters:
            raise InvalidInput("--set changes problems of the zoo; a model in a file has no parameters, edit the file")
        return models.load(problem)
    if make is None:
        raise InvalidInput(
            f"no problem is called {problem!r}; give a file ({', '.join(formats.FORMATS)}) or one of: "
            f"{', '.join(problems.PROBLEMS)}"
        )
    known = inspect.signature(make).parameters
    values: dict[str, Any] = {}
    for parameter in parameters:
        name, equals, text = parameter.partition("=")
        if not equals:
            raise InvalidInput(f"--set takes NAME=VALUE, found {parameter!r}")
        if name not in known:
            raise InvalidInput(f"{problem} has no parameter {name!r}; it has: {', '.join(known)}")
        try:
            values[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            values[name] = text  # a word, such as full_buffer=free
    try:
        return make(**values)
    except TypeError as error:
        raise InvalidInput(f"{problem} cannot be built from {', '.join(parameters)}: {error}") from error


def load_discounted(problem: str, parameters: tuple[str, ...], command: str) -> CMDP:
    from inbounds.errors import InvalidInput
    from inbounds.problem.cmdp import CMDP

    loaded = load(problem, parameters)
    if not isinstance(loaded, CMDP):
        raise InvalidInput(
            f"{problem} has a finite horizon; `inbounds {command}` takes discounted problems (see `inbounds zoo`)"
        )
    return loaded
