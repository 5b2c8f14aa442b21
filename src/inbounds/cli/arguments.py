"""What several sub-commands take: a problem, by name or from a file, and the options that they share."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

KIND_BY_CRITERION = {"discount": "discounted", "horizon": "finite horizon", "average": "long-run average"}
"""How each criterion is called."""

set_option = click.option(
    "--set",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change a parameter of the problem, e.g. --set discount=0.9 (see `inbounds zoo PROBLEM`).",
)
preset_option = click.option(
    "--preset",
    type=click.Choice(["practical", "paper"]),
    default="practical",
    show_default=True,
    help="Settings that work (no theorem covers them), or the papers' formulas.",
)
scale_option = click.option(
    "--scale",
    type=click.Choice(["theory", "none"]),
    default="theory",
    show_default=True,
    callback=lambda context, option, given: given == "theory",
    help="What learners see: rewards in [0, 1] and margins in [-1, 1], or all in the problem's own units.",
)
jobs_option = click.option("--jobs", type=int, help="Worker processes.  [default: one per core]")
policy_option = click.option("--policy", "show_policy", is_flag=True, help="Also print the policy, state by state.")
time_limit_option = click.option(
    "--time-limit", type=float, help="Seconds, after which what is known so far is printed (exit code 5)."
)
safe_option = click.option(
    "--safe",
    metavar="half|FILE",
    help="A policy known to be safe, for algorithms that start from one. half: the best one that keeps every scaled "
    "margin at half the Slater constant. FILE: what `inbounds solve ... --json` printed.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for machines.")


def problem_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("problem")(set_option(command))


def output_option(what: str, default: str) -> Callable[[Any], Any]:
    """Where files go; `what` they are, and how the folder is called when none is given."""
    folder = click.Path(file_okay=False, path_type=Path)
    return click.option("--output", type=folder, help=f"Where {what} go.  [default: {default}]")


def problem_from(problem: str, parameters: tuple[str, ...], discounted_for: str = "", horizons: bool = False) -> Any:
    """The problem that the user named, with the parameters that they set; or the model in the file that they named.

    Some commands work for discounted problems only, or for `horizons` too: `discounted_for` names the one that is
    asking.
    """
    from inbounds import formats
    from inbounds import zoo as problems
    from inbounds.errors import InvalidInput
    from inbounds.problem import cmdp as models

    if problem in problems.PROBLEMS:
        loaded: Any = _from_zoo(problem, parameters)
    elif Path(problem).suffix not in formats.FORMATS:
        raise InvalidInput(
            f"no problem is called {problem!r}; give a file ({', '.join(formats.FORMATS)}) or one of: "
            f"{', '.join(problems.PROBLEMS)}"
        )
    elif parameters:
        raise InvalidInput("--set changes problems of the zoo; a model in a file has no parameters, edit the file")
    else:
        loaded = models.load(problem)
    kind = next(iter(loaded.criterion))
    if discounted_for and kind != "discount" and not (horizons and kind == "horizon"):
        raise InvalidInput(
            f"{problem} has a {KIND_BY_CRITERION[kind]}; `inbounds {discounted_for}` takes discounted problems"
            f"{' and finite horizons' * horizons} (see `inbounds zoo`)"
        )
    return loaded


def safe_from(text: str | None, cmdp: Any) -> Any:
    """The policy that --safe names, for a problem; None if it names none."""
    import json

    import numpy as np

    from inbounds.errors import InvalidInput
    from inbounds.problem.policy import Policy
    from inbounds.studies.safe import safe_policy

    if text is None or text == "half":
        return None if text is None else safe_policy(cmdp)
    try:
        found = json.loads(Path(text).read_bytes())
        return Policy(cmdp.pairs, np.array(found["policy"], dtype=np.float64))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidInput(
            f'--safe takes "half", or a file with the policy of this problem as `inbounds solve --json` prints it; '
            f"{text}: {error}"
        ) from error


def _from_zoo(problem: str, parameters: tuple[str, ...]) -> Any:
    import inspect

    from inbounds import zoo as problems
    from inbounds.errors import InvalidInput

    known = inspect.signature(problems.PROBLEMS[problem]).parameters
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
        return problems.make(problem, **values)
    except TypeError as error:
        raise InvalidInput(f"{problem} cannot be built from {', '.join(parameters)}: {error}") from error
