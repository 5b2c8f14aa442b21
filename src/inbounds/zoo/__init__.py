"""Named problems, one small file each, one table.

>>> import inbounds as ib
>>> ib.zoo.names()
('garnet', 'queue')
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inbounds.errors import InvalidInput
from inbounds.model.cmdp import CMDP
from inbounds.zoo.garnet import garnet as garnet
from inbounds.zoo.queue import queue as queue

PROBLEMS: dict[str, Callable[..., CMDP]] = {"garnet": garnet, "queue": queue}


def names() -> tuple[str, ...]:
    """The names of all problems."""
    return tuple(PROBLEMS)


def load(name: str, **parameters: Any) -> CMDP:
    """The problem called `name`, with `parameters` in place of its defaults."""
    if name not in PROBLEMS:
        raise InvalidInput(f"no problem is called {name!r}; there are: {', '.join(names())}")
    return PROBLEMS[name](**parameters)
