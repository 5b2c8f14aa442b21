"""Q-learning with a generative model: the smallest complete algorithm. See docs/adding-an-algorithm.md."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

import inbounds as ib
from inbounds.algorithms.algorithm import Algorithm, Answer, Prepared
from inbounds.numerics.compiled import compiled
from inbounds.problem.draws import draw_next


@dataclass(frozen=True)
class QLearning:
    """Watkins' Q-learning; every pair in turn, step sizes n^-rate."""

    rate: float = 0.7
    algorithm: ClassVar[Algorithm]


class Constants(NamedTuple):
    discount: float
    rate: float


class State(NamedTuple):
    values: np.ndarray  # [n], of pairs, discounted sums in scaled units


def prepare(settings: QLearning, simulator: ib.Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    constants = Constants(simulator.discount, settings.rate)
    return Prepared(State(np.zeros(simulator.pairs.n_pairs)), constants, 0, {"rate": settings.rate}, "the limit only")


@compiled
def advance(state: State, constants: Constants, world: Any, rng: np.random.Generator, drawn: int, until: int) -> int:
    values, n = state.values, state.values.shape[0]
    while drawn < until:
        pair = drawn % n
        after = draw_next(world, pair, rng)
        best = values[world.offsets[after]]
        for other in range(world.offsets[after] + 1, world.offsets[after + 1]):
            best = max(best, values[other])
        step = (drawn // n + 1.0) ** -constants.rate
        values[pair] += step * (world.reward[pair] + constants.discount * best - values[pair])
        drawn += 1
    return drawn


def extract(state: State, constants: Constants, simulator: ib.Simulator) -> Answer:
    offsets = simulator.pairs.offsets
    chosen = [first + int(np.argmax(state.values[first:last])) for first, last in pairwise(offsets)]
    return Answer(ib.Policy.deterministic(simulator, np.array(chosen)), np.empty(0))


QLearning.algorithm = Algorithm("Q-learning", "Watkins (1989)", prepare, advance, extract, constrained=False)
