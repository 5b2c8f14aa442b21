"""The command line, as the script `inbounds` and as ``python -m inbounds``."""

import os
import signal
import sys
from io import TextIOWrapper


def run() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback of the next import
    from inbounds.interruption import leave_on_interrupt

    leave_on_interrupt()
    from inbounds.streams import fill_missing_streams, refuse_output

    closed = sys.stdout is None
    fill_missing_streams()
    if closed:
        refuse_output()
    os.environ["MPLBACKEND"] = "agg"  # pictures go to files, whatever shows them elsewhere, and whether it is there
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # not what a test reads
            stream.reconfigure(errors="backslashreplace")  # letters that the terminal does not have
    from inbounds.cli import main

    main(prog_name="inbounds")


if __name__ == "__main__":
    run()
