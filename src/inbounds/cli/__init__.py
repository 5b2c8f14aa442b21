"""The command line: one file and one library call per sub-command.

To add one, write a file in this folder with a click command called `command`, and its name into `COMMANDS`.

Exit codes: 0 done; 1 something failed that should not have, or a certificate is rejected; 2 the input is wrong, or the
output is closed or full (one message says what); 3 no policy is in bounds; 4 no policy could be proved to be in bounds
(`solve` and `learn --certified`); 5 a limit was reached first (`--time-limit`), and what was known by then is printed;
129 the terminal is gone (SIGHUP); 130 interrupted by Ctrl-C; 141 nobody reads the output any more (`| head`); 143
terminated (SIGTERM).
Heavy imports stay inside the commands, so that the help appears at once.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

import click

from inbounds.interruption import Interrupted, interruptible
from inbounds.streams import lead_nowhere
from inbounds.tables import WIDTH, text_table, wrapped
from inbounds.waiting import before_compiling

COMMANDS = (
    "algorithms",
    "compare",
    "frontier",
    "learn",
    "plan",
    "report",
    "reproduce",
    "solve",
    "theorems",
    "verify",
    "zoo",
)
EXIT_FAILED, EXIT_INVALID, EXIT_INFEASIBLE, EXIT_UNPROVED, EXIT_STOPPED = 1, 2, 3, 4, 5
EXIT_PIPE = 141  # 128 and the number of SIGPIPE, as shells have it
_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""What writing fails with: the disk, the quota or the file is full, broken, or not open for it."""
MEMORY_NEEDED = 900 * 2**20
"""Bytes of address space with which the smallest problem is compiled for, solved and drawn (measured: 700 MB are too
few)."""


class _Cli(click.Group):
    """Turns the refusals of the library into one message and an exit code."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().main(*arguments, **options)
        except OSError as error:  # the help, on a disk that is full
            _fail(_culprit(error), EXIT_INVALID)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with _ending_with_the_reader():  # the help is written here
            return super().make_context(*arguments, **options)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from inbounds.cli.printing import asking_for_json, print_refusal

        asking_for_json(ctx, None, "--json" in args)  # also where the command that has the option cannot be parsed
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:  # which click tells itself, on stderr
            refusal = self._of_a_command(error, args) if isinstance(error, click.NoSuchOption) else error
            print_refusal(refusal.format_message(), refusal.exit_code)
            raise refusal from None

    def _of_a_command(self, error: click.NoSuchOption, args: list[str]) -> click.UsageError:
        """What to say of an option before the command: that it goes behind it, if some command has it."""
        option = error.option_name
        having = [name for name, one in self.commands.items() if any(option in known.opts for known in one.params)]
        if not having:
            return error
        meant = next((word for word in (*args, "solve") if word in having), having[0])
        return click.UsageError(f"{option} goes after the command, as in: inbounds {meant} ... {option}", error.ctx)

    def invoke(self, ctx: click.Context) -> Any:
        with _ending_with_the_reader():
            return self._refusing(ctx)

    def _refusing(self, ctx: click.Context) -> Any:
        from inbounds.cli.printing import print_refusal
        from inbounds.errors import Infeasible, InvalidInput, Stopped

        def fail(message: str, code: int, table: str = "") -> NoReturn:
            print_refusal("\n".join(filter(None, (message, table))), code)
            _fail(message, code, table)

        try:
            _require_memory()
            _announce_compilation()
            with interruptible():
                return super().invoke(ctx)
        except Interrupted as error:
            known = error.known
            words = known if isinstance(known, str) else getattr(known, "in_words", None) or repr(known)
            fail("interrupted" + ("" if known is None else f"; known so far: {words}"), error.exit_code)
        except (click.exceptions.Exit, click.Abort):  # not failures
            raise
        except click.ClickException as error:  # which click tells itself, on stderr
            print_refusal(error.format_message(), error.exit_code)
            raise
        except InvalidInput as error:
            fail(str(error), EXIT_INVALID)
        except Infeasible as error:
            fail(error.diagnosis.reason, EXIT_INFEASIBLE, text_table(*error.diagnosis.table))
        except Stopped as error:
            fail(str(error), EXIT_STOPPED)
        except RuntimeError as error:
            fail(str(error), EXIT_FAILED)
        except MemoryError as error:
            fail(f"the problem does not fit into memory ({str(error) or 'no details'})", EXIT_INVALID)
        except BrokenPipeError:
            raise
        except OSError as error:
            fail(_culprit(error), EXIT_INVALID)


def _culprit(error: OSError) -> str:
    """What the system refused, and with what: files are named where they are used, the output and the folder here."""
    if error.filename:
        return f"{error.filename}: {error.strerror}"
    if error.errno == errno.ENOENT and _folder_is_gone():
        return "the current folder is gone: change to one that is there"
    if error.errno in _WRITING:
        lead_nowhere(1)  # else what is left is tried once more as the process ends, and its exit code is another
        why = "it is closed" if error.errno == errno.EBADF else (error.strerror or "").lower()
        return f"the output cannot be written: {why}"
    return str(error)


def _folder_is_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


@contextmanager
def _ending_with_the_reader() -> Iterator[None]:
    """Within, what reads the output may leave: then this ends without a word, and with the code of what SIGPIPE ends.

    The signal itself would also come of a worker that died, which is to be told.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()  # what is left would be written where nothing can be caught
    except BrokenPipeError:
        lead_nowhere(1, 2)
        sys.exit(EXIT_PIPE)


def _require_memory() -> None:
    """Some libraries wait for ever when they cannot be loaded into the memory that a shell allows."""
    try:
        import resource
    except ImportError:  # no such limits here
        return
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    if allowed != resource.RLIM_INFINITY and allowed < MEMORY_NEEDED:
        from inbounds.errors import InvalidInput

        raise InvalidInput(
            f"the memory that a process may have is limited to {allowed / 2**20:.0f} MB, and the libraries alone take "
            f"{MEMORY_NEEDED / 2**20:.0f} MB: raise it (ulimit -v)"
        )


def _announce_compilation() -> None:
    """Say on a terminal why the first command of a kind takes so long; a log has no use for it."""
    if sys.stderr.isatty():
        said = "compiling what this command needs, up to a minute or two; kept on disk for the next time"
        # By print, which looks at stderr anew: a progress bar that is there by then makes room above it.
        before_compiling(lambda: print(_lines(said), file=sys.stderr))


def complain(message: str, table: str = "") -> None:
    """A message on stderr, on lines as wide as the terminal, or as a table is where there is none; a table as it is."""
    try:
        click.echo("\n".join(filter(None, (_lines(message), table))), err=True)
    except OSError:  # the disk is full, or the reader gone: the exit code is left to say it
        lead_nowhere(2)


def _lines(message: str) -> str:
    try:
        width = os.get_terminal_size(2).columns or WIDTH
    except OSError:  # no terminal
        width = WIDTH
    whole = f"inbounds:\N{NO-BREAK SPACE}{message}"  # so that a long path does not leave the name on a line of its own
    return wrapped(whole, indent="    ", width=width).replace("\N{NO-BREAK SPACE}", " ", 1)


def _fail(message: str, code: int, table: str = "") -> NoReturn:
    complain(message, table)
    sys.exit(code)


@click.group(cls=_Cli, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(package_name="inbounds", prog_name="inbounds")
def main() -> None:
    """The most reward among the policies that keep every bound.

    inbounds solves finite constrained Markov decision processes: exactly when the model is known, from samples when
    there is only a simulator.

    \b
    Begin with
      inbounds solve queue        the optimum of the paper's queue, and prices
      inbounds learn queue        learn it from samples
      inbounds compare queue      every algorithm on the same number of samples
      inbounds frontier queue --constraint service     what a bound costs, drawn
      inbounds reproduce queue    the paper's experiment: its figures and table

    Values are what the criterion of the problem says: discounted averages per step, normalised by
    (1 - discount), whose "total" is the discounted sum; sums over a finite horizon; long-run averages.
    Exit codes: 2 for wrong input, 3 when no policy is in bounds, 4 when none could be proved to be,
    5 when a limit was reached first, 141 when what reads the output is gone (`| head`).
    """


for command_file in COMMANDS:
    main.add_command(import_module(f"{__name__}.{command_file}").command)
