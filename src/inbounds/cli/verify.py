"""`inbounds verify`: check a proof."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from inbounds.cli.arguments import ANY_PLACE, json_option
from inbounds.cli.printing import print_json, print_wrapped, progress_bar


@click.command("verify")
@click.argument("files", metavar="[MODEL] CERTIFICATE", nargs=-1, required=True, type=ANY_PLACE)
@click.option("--time-limit", type=float, help="Seconds, after which nothing is said of the certificate (exit code 5).")
@json_option
def command(files: tuple[Path, ...], time_limit: float | None, as_json: bool) -> None:
    """Check a CERTIFICATE against a MODEL (.npz), or the bets of one from samples, which needs none.

    The checker is one file of the standard library, `proofs/verify.py`, and runs without the rest of the project:
    `python verify.py model.npz certificate.json`. It accepts only what holds in exact rational arithmetic. Exit code 0
    when it accepts, 1 when it does not, 2 when a file cannot be read or is no certificate at all; the first two also
    where the output cannot be written, or nobody reads it.

    \b
    Examples
      inbounds solve queue --save-model queue.npz --certificate queue.json
      inbounds verify queue.npz queue.json
      inbounds verify learned.json
    """
    from zipfile import is_zipfile

    from inbounds.errors import InvalidInput, Stopped
    from inbounds.exact.limits import TIME, Limits
    from inbounds.formats.atomic import naming, require_regular
    from inbounds.proofs.verify import Unreadable, verify_bets
    from inbounds.proofs.verify import verify as check
    from inbounds.streams import lead_nowhere
    from inbounds.tables import printable

    if len(files) > 2:
        raise InvalidInput("verify takes a model and a certificate, or a certificate from samples alone")
    for file in files:
        with naming(file, "read"):
            require_regular(file)
    limits = Limits.of(time_limit, None)
    try:
        with progress_bar("checking pairs", None, quiet=as_json) as advance_to:

            def step(done: int, total: int) -> None:
                if limits.over and done < total:
                    raise Stopped(TIME)
                advance_to(done, total)

            certificate = str(files[-1])
            alone = len(files) == 1
            accepted, lines = verify_bets(certificate) if alone else check(str(files[0]), certificate, step)
    except Unreadable as error:
        if files[-1].is_file() and is_zipfile(files[-1]):
            advice = "needs the certificate as well" if alone else "takes the model first"
            raise InvalidInput(
                f"{printable(files[-1])}: is an .npz file, where the certificate should be: inbounds verify MODEL "
                f"CERTIFICATE {advice}"
            ) from error
        message = str(error)
        for file in files:
            message = message.replace(str(file), printable(file))
        raise InvalidInput(message) from error
    try:
        if as_json:
            print_json(accepted=accepted, lines=lines)
        else:
            print_wrapped(f"{'ACCEPTED' if accepted else 'REJECTED'}: {lines[0]}")
            for line in lines[1:]:
                print_wrapped(f"  {line}")
        sys.stdout.flush()
    except OSError:  # a disk that is full, or nobody who reads: the exit code is the verdict, whatever becomes of words
        lead_nowhere(1)
    if not accepted:
        sys.exit(1)
