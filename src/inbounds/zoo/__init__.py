"""Named problems (constrained Markov decision processes, CMDPs), one small file each, one table.

Each says which criterion it has: discounted averages per step, normalised by (1 - discount); sums over a finite
horizon; or long-run averages per step.

>>> import inbounds as ib
>>> ib.zoo.names()
('admission', 'factored', 'garnet', 'hazard_grid', 'inventory', 'jump_grid', 'media', 'queue', 'three_cycle')
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from inbounds.errors import InvalidInput
from inbounds.inputs import named, shown
from inbounds.problem.cmdp import CMDP
from inbounds.zoo.admission_control import admission as admission
from inbounds.zoo.factored_grid import factored as factored
from inbounds.zoo.hazard_gridworld import hazard_grid as hazard_grid
from inbounds.zoo.inventory_control import inventory as inventory
from inbounds.zoo.jump_gridworld import jump_grid as jump_grid
from inbounds.zoo.media_streaming import media as media
from inbounds.zoo.random_garnet import garnet as garnet
from inbounds.zoo.ring_of_three import three_cycle as three_cycle
from inbounds.zoo.single_server_queue import queue as queue
from inbounds.zoo.tuning_half import TUNING
from inbounds.zoo.untouched_half import UNTOUCHED

PROBLEMS: dict[str, Callable[..., CMDP]] = {
    problem.__name__: problem
    for problem in (admission, factored, garnet, hazard_grid, inventory, jump_grid, media, queue, three_cycle)
}


def names() -> tuple[str, ...]:
    """The names of all problems."""
    return tuple(PROBLEMS)


def make(name: str, **parameters: Any) -> CMDP:
    """The problem called `name`, with `parameters` in place of its defaults."""
    problem = named(name, PROBLEMS, "problem")
    known = inspect.signature(problem).parameters
    for parameter in parameters:
        if parameter not in known:
            raise InvalidInput(f"{name} has no parameter {shown(parameter)}; it has: {', '.join(known)}")
    try:
        return problem(**parameters)
    except ValueError as error:  # NumPy's word for a table beyond any memory; what is wrong besides is refused before
        if "array is too big" not in str(error) and "Maximum allowed dimension" not in str(error):
            raise
        raise MemoryError(f"{name} with {parameters}") from error


HALVES = {"tuning": TUNING, "untouched": UNTOUCHED, "all": TUNING | UNTOUCHED}


def suite(half: str = "tuning") -> dict[str, CMDP]:
    """Twelve generated discounted problems by name, on which presets may be tuned; or the twelve on which they may not.

    Values are normalised by (1 - discount). Rewards and signals are in [0, 1], and every signal must be at least its
    bound, which lies between what the best policy without constraints gives and what the most cautious one gives.

    Parameters
    ----------
    half : "tuning", "untouched" or "all"

    Examples
    --------
    >>> import inbounds as ib
    >>> list(ib.zoo.suite())[:3]
    ['tiny', 'coin', 'small']
    >>> ib.zoo.suite("untouched")["gate12"]
    CMDP(gate12: 39 states, 75 pairs, 2 constraints, discount 0.92)
    """
    return {name: make_one() for name, make_one in named(half, HALVES, "half of the suite").items()}
