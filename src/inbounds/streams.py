"""The standard streams of a process that was started without them (closed by the shell, ``>&-``), or that lost them."""

import os
import sys


def fill_missing_streams() -> None:
    """Have what is missing of the standard input, output and error lead nowhere.

    Else the next file that is opened is taken for it by whoever writes to its number; and what starts worker processes
    flushes the output, which must be there.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:  # what is opened has the lowest number that is free, this one; workers are to have it too
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115 (it stays)


def refuse_output() -> None:
    """Have the standard output refuse whatever is written, as a full disk does: what a command prints is its answer."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 1)
    os.close(nothing)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 (it stays)


def lead_nowhere(*numbers: int) -> None:
    """Have these outputs take what could not be written, which Python tries again as it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in numbers:
        os.dup2(nowhere, number)
