"""What several sub-commands take: a problem, by name or from a file, and the options that they share."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from inbounds.cli.printing import asking_for_json, print_wrapped, reading_status
from inbounds.tables import in_unicode, printable

KIND_BY_CRITERION = {"discount": "discounted", "horizon": "finite horizon", "average": "long-run average"}
"""How each criterion is called."""


class _Whole(click.ParamType):  # type: ignore[type-arg]
    """A whole number, which may be written as 1e5."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from inbounds.inputs import MOST_COUNTED, shown

        try:
            number = Decimal(str(value))  # exact, where a float would take one whole number for another
        except InvalidOperation:
            number = Decimal("nan")
        if not number.is_finite() or number != number.to_integral_value():
            self.fail(f"{shown(value)} is not a valid integer.", param, ctx)
        if not -MOST_COUNTED <= number <= MOST_COUNTED:  # before it is written out: it may have a billion digits
            self.fail(f"{shown(value)} is too large; at most {MOST_COUNTED:,} can be counted.", param, ctx)
        return int(number)


WHOLE_NUMBER = _Whole()


class _Place(click.Path):
    """A path that is not empty, as of a shell variable that is not set: it would be the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not os.fspath(value):
            self.fail("the name is empty; give one, or leave it out.", param, ctx)
        return super().convert(value, param, ctx)


ANY_PLACE = _Place(path_type=Path)
FILE = _Place(dir_okay=False, path_type=Path)

set_option = click.option(
    "--set",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change a parameter of the problem, e.g. --set discount=0.9 (see `inbounds zoo PROBLEM`).",
)
bound_option = click.option(
    "--bound",
    multiple=True,
    metavar="NAME=VALUE",
    expose_value=False,
    callback=lambda context, option, given: context.meta.__setitem__(_BOUNDS, given),
    help="What if: another bound on a constraint, by its name or position, e.g. --bound service=2.5.",
)
_MOST_DIGITS = 18
"""Of a position. Python refuses to read thousands."""

_BOUNDS = "inbounds.bounds"
"""Where the context of a command keeps them, so that `problem_from` and `with_bounds` alone have to know."""
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
jobs_option = click.option(
    "--jobs",
    type=int,
    callback=lambda context, option, given: None if given is None else _workers(given),
    help="Worker processes.  [default: one per core]",
)
policy_option = click.option("--policy", "show_policy", is_flag=True, help="Also print the policy, state by state.")
save_policy_option = click.option(
    "--save-policy",
    type=FILE,
    help="Save the policy with its labels: .json, .npz or .csv (not of a mixture).",
)
time_limit_option = click.option(
    "--time-limit", type=float, help="Seconds, after which what is known so far is printed (exit code 5)."
)
safe_option = click.option(
    "--safe",
    type=_Place(),
    metavar="half|FILE",
    help="A policy known to be safe, for algorithms that start from one. half: the best one that keeps every scaled "
    "margin at half the Slater constant. FILE: a policy that was saved (.json, .npz, .csv).",
)
json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    callback=asking_for_json,
    help="Print one JSON object, for machines; a refusal too.",
)


def _workers(given: int) -> int:
    from inbounds.workers import valid_workers

    return valid_workers(given, "--jobs")


def problem_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("problem")(set_option(bound_option(command)))


def problem_or_none_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("problem", required=False)(set_option(bound_option(command)))


def output_option(what: str, default: str) -> Callable[[Any], Any]:
    """Where files go; `what` they are, and how the folder is called when none is given."""
    folder = _Place(file_okay=False, path_type=Path)
    return click.option("--output", type=folder, help=f"Where {what} go.  [default: {default}]")


def output_folder(given: Path | None, default: Path, *files: str, read: str | None = None) -> Path:
    """Where `files` go; refused before any work is done, if they cannot, or one is what the command has `read`."""
    from inbounds.formats.atomic import naming, require_folder, require_writable

    folder = default if given is None else given
    with naming(folder, "written"):
        require_folder(folder)
    for path in (folder / file for file in files if folder.is_dir()):
        with naming(path, "written"):
            require_writable(path)
        require_nothing_lost("--output", path, (read,))
    return Path(os.path.realpath(folder)) if folder.is_symlink() else folder  # which may lead to one that is to be made


def require_outputs(*written: tuple[str, Path | None, str], read: tuple[str | Path | None, ...]) -> None:
    """Refuse, before any work is done for them, files that cannot be written, or whose writing would lose something.

    `written` are (option, path, what is written); `read` are files that the command reads, or names of the zoo.
    """
    from inbounds.errors import InvalidInput
    from inbounds.formats import require_written
    from inbounds.formats.atomic import naming, require_writable

    taken: dict[str, str] = {}
    for option, path, what in written:
        if path is None:
            continue
        if what == "certificate":
            with naming(path, "written"):
                require_writable(path)
        else:
            require_written(path, what)
        if (other := taken.setdefault(os.path.realpath(path), option)) != option:
            raise InvalidInput(f"{other} and {option} name the same file, {path}; give two")
        require_nothing_lost(option, path, read)


def require_nothing_lost(option: str, path: Path, read: tuple[str | Path | None, ...]) -> None:
    """Refuse a file that the command reads, or prints into."""
    from inbounds.errors import InvalidInput

    for file in read:
        if file is not None and Path(file).suffix and os.path.exists(file) and path.exists() and path.samefile(file):
            raise InvalidInput(f"{option} would overwrite {file}, which is read; give another name")
    if path.exists() and _is_printed_to(path):
        raise InvalidInput(f"{option} names {path}, into which the command itself prints; give another name")


def _is_printed_to(path: Path) -> bool:
    """Whether a file is the standard output or the standard error: another file would take its place."""
    return any(os.path.samestat(path.stat(), os.fstat(number)) for number in (1, 2))


def refuse_given(why: str, *names: str) -> None:
    """Refuse those of the options that the user gave: they would change nothing. `why` follows the option's name."""
    from inbounds.errors import InvalidInput

    context = click.get_current_context()
    for option in context.command.params:
        if option.name in names and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
            raise InvalidInput(f"{option.opts[0]} {why}")


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
    elif Path(problem).suffix.lower() not in formats.FORMATS:
        wrong = f"{problem!r} is no model" if Path(problem).is_file() else f"no problem is called {problem!r}"
        raise InvalidInput(
            f"{wrong}; give a file ({', '.join(formats.FORMATS)}) or one of: {', '.join(problems.PROBLEMS)}"
        )
    elif parameters:
        raise InvalidInput("--set changes problems of the zoo; a model in a file has no parameters, edit the file")
    else:
        with reading_status(Path(problem)):
            loaded = models.load(problem)
    context = click.get_current_context(silent=True)
    moved: set[int] = set()
    for bound in context.meta.get(_BOUNDS, ()) if context else ():
        loaded = _bounded(loaded, bound, moved)
    kind = next(iter(loaded.criterion))
    if discounted_for and kind != "discount" and not (horizons and kind == "horizon"):
        raise InvalidInput(
            f"{problem} has a {KIND_BY_CRITERION[kind]}; `inbounds {discounted_for}` takes discounted problems"
            f"{' and finite horizons' * horizons} (see `inbounds zoo`)"
        )
    return loaded


def called(cmdp: Any, problem: str) -> str:
    """What titles call a problem: a model without a name as its file.

    The model itself keeps the name that it has: a certificate is about the model that the file holds.
    """
    return cmdp.name or in_unicode(Path(problem).stem)


def print_headline(cmdp: Any, problem: str) -> None:
    """The first sentence of what a command prints: what the problem is called, and how large it is."""
    shown = repr(cmdp)
    print_wrapped(shown if cmdp.name else f"CMDP({printable(called(cmdp, problem))}: {shown.removeprefix('CMDP(')}")


def problem_facts(cmdp: Any, problem: str) -> dict[str, Any]:
    """What JSON says of a problem, which it calls as titles do."""
    return {
        "name": called(cmdp, problem),
        "states": cmdp.n_states,
        "pairs": cmdp.n_pairs,
        "constraints": cmdp.n_constraints,
        **cmdp.criterion,
    }


def with_bounds(name: str) -> str:
    """The name of a file for this problem: with what --bound says, so that what-ifs do not overwrite each other."""
    given: tuple[str, ...] = click.get_current_context().meta.get(_BOUNDS, ())
    return "-".join([name, *(file_name(re.sub(r"[^\w.+=-]+", "-", in_unicode(bound))) for bound in given)])


def file_name(text: str) -> str:
    """A text as the name of a file, in UTF-8 whatever the locale."""
    return os.fsdecode(text.encode("utf-8", "surrogateescape"))


def _bounded(cmdp: Any, given: str, moved: set[int]) -> Any:
    """The problem with one bound as the user gave it, NAME=VALUE; none is `moved` twice."""
    from inbounds.errors import InvalidInput

    name, equals, text = given.rpartition("=")
    try:
        bound = float(text)
    except ValueError:
        equals = ""
    if not equals:
        raise InvalidInput(f"--bound takes NAME=VALUE, a number, found {given!r}")
    number = cmdp.constraint_number(name_or_position(name, cmdp))
    if number in moved:
        raise InvalidInput(f"--bound gives constraint {cmdp.constraints[number].name!r} two bounds; give one")
    moved.add(number)
    return cmdp.with_bound(number, **{cmdp.constraints[number].side: bound})


def name_or_position(text: str, cmdp: Any) -> str | int:
    """A constraint as the user named it: by its position, unless one has this name. No position has so many digits."""
    text = in_unicode(text)
    named = any(constraint.name == text for constraint in cmdp.constraints)
    return text if named or not text.isdecimal() or len(text) > _MOST_DIGITS else int(text)


def safe_from(text: str | None, cmdp: Any) -> Any:
    """The policy that --safe names, for a problem; None if it names none."""
    from inbounds.problem.policy import Policy, for_problem
    from inbounds.studies.safe import safe_policy

    if text is None or text == "half":
        return None if text is None else safe_policy(cmdp)
    return for_problem(cmdp, Policy.load(text))


def _from_zoo(problem: str, parameters: tuple[str, ...]) -> Any:
    from inbounds import zoo as problems
    from inbounds.errors import InvalidInput
    from inbounds.inputs import plain_number

    values: dict[str, Any] = {}
    for parameter in parameters:
        name, equals, text = parameter.partition("=")
        if not equals:
            raise InvalidInput(f"--set takes NAME=VALUE, found {parameter!r}")
        if name in values:
            raise InvalidInput(f"--set gives {name} two values; give one")
        try:
            values[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError):
            values[name] = text  # a word, such as full_buffer=free
        except (MemoryError, RecursionError):  # of Python's parser, whatever the memory is
            raise InvalidInput(f"--set {name}: its value nests too deep to be read") from None
    if plain_number(values.get("discount")) == 1:
        raise InvalidInput(
            f"discount must be in [0, 1), found {float(values['discount'])}; for long-run averages, save the model "
            f"(inbounds solve {problem} --save-model {problem}.toml), write average = true in place of its discount, "
            "and give the file"
        )
    try:
        return problems.make(problem, **values)
    except TypeError as error:
        raise InvalidInput(f"{problem} cannot be built from {', '.join(parameters)}: {error}") from error
