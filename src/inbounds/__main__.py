"""The command line, as the script `inbounds` and as ``python -m inbounds``."""

from inbounds.interruption import leave_on_interrupt


def run() -> None:
    leave_on_interrupt()
    from inbounds.cli import main

    main(prog_name="inbounds")


if __name__ == "__main__":
    run()
