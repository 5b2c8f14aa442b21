"""Generators, worlds and pilots that draw what a test wants drawn."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

import inbounds as ib
from inbounds.algorithms.empirical import draw_in_turn, log_in_turn, pilot_samples


class Uniforms:
    """A generator that gives chosen numbers, then fails."""

    def __init__(self, *numbers: float) -> None:
        self.numbers = list(numbers)

    def random(self) -> float:
        return self.numbers.pop(0)


def watched(world: Any, **draws: Callable[..., int]) -> Any:
    """The same world with other draws, such as ``draw_next=lambda pair, rng: 0``."""
    return SimpleNamespace(**({"draw_next": world.draw_next, "draw_start": world.draw_start} | world._asdict() | draws))


def pilot_of(cmdp: ib.CMDP, samples: int, seed: int = 0) -> Any:
    """The log of the pilot that estimates a Slater constant in a run of so many samples."""
    simulator = cmdp.simulator()
    drawn = pilot_samples(simulator, samples)
    log = log_in_turn(simulator, drawn)
    draw_in_turn(log, simulator.open(), np.random.default_rng(seed), 0, drawn)
    return log
