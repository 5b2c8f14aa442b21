"""``python -m inbounds``: the command line, where the script `inbounds` is not on the path."""

from inbounds.cli import main

if __name__ == "__main__":
    main(prog_name="inbounds")
