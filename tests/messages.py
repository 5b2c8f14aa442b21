"""What a command says on stderr, as tests read it: on lines of 80 columns, whatever is said."""

from __future__ import annotations


def sentence(text: str) -> str:
    """The sentences, on one line."""
    return " ".join(text.split())


def one_message(text: str) -> bool:
    """Whether it is one message: the first line begins with the command's name, and those that go on are set in."""
    first, *rest = text.splitlines()
    fits = all(len(line) <= 80 or " " not in line.strip() for line in rest)  # a long path has a line of its own
    return first.startswith("inbounds: ") and all(line.startswith("    ") for line in rest) and fits
