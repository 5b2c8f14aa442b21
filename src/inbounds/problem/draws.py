"""The world as kernels see it, and every draw that they make: next states, starts, actions, ends of walks.

`draw_next` and `draw_start` ask the world. That of a model is a table, `World`: compiled kernels search it directly,
and interpreted ones by the same code through its methods. A user's own simulator opens a world of its own, with methods
that call the user's functions, and the same kernels run on it interpreted (`fitted`): one code, two speeds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import overload

from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled, interpreted


class World(NamedTuple):
    """A model's simulator: arrays only, in the units that learners see, which are scaled unless the user said no.

    Kernels read `offsets`, `states`, `reward` and `margins`, which every world has. After a next state has been drawn
    for a pair, ``reward[pair]`` and ``margins[pair]`` hold what was observed with it: the table's entries, or what the
    user's step function reported just then. So kernels read them after the draw.
    """

    offsets: Ints  # [S + 1]
    states: npt.NDArray[np.int32]  # [n], the state of each pair
    row_starts: npt.NDArray[np.int32]  # [n + 1], where the row of a pair starts in the next two
    cumulative: Floats  # [nnz], cumulative probabilities within a row; the last of a row is 1
    successors: npt.NDArray[np.int32]  # [nnz]
    reward: Floats  # [n], in [0, 1] where scaled
    margins: Floats  # [n, K], in [-1, 1] where scaled
    start_cumulative: Floats  # [S], cumulative initial distribution; the last is 1
    start_guide: npt.NDArray[np.int32]  # [S], first state whose cumulative probability exceeds j / S (rounded down)
    stages: Ints  # [3]: steps until it begins anew, 0: never; how far apart the rows, and the signals, of stages lie

    def draw_next(self, pair: int, rng: np.random.Generator) -> int:
        """As `inbounds.problem.draws.draw_next`, from the table."""
        return _next_in_table(self, pair, rng)

    def draw_start(self, rng: np.random.Generator) -> int:
        """As `inbounds.problem.draws.draw_start`, from the table."""
        return _start_in_table(self, rng)


def draw_next(world: Any, pair: int, rng: np.random.Generator) -> int:
    """One sample: the next state after `pair`."""
    return world.draw_next(pair, rng)


def draw_start(world: Any, rng: np.random.Generator) -> int:
    """A first state, free of charge."""
    return world.draw_start(rng)


def _next_in_table(world: Any, pair: Any, rng: Any) -> int:
    u = rng.random()
    low, high = world.row_starts[pair], world.row_starts[pair + 1] - 1
    while high - low > 8:
        middle = (low + high) >> 1
        if world.cumulative[middle] <= u:
            low = middle + 1
        else:
            high = middle
    while world.cumulative[low] <= u:  # ends: the last of a row is 1, and u < 1
        low += 1
    return int(world.successors[low])


def _start_in_table(world: Any, rng: Any) -> int:
    """Inversion from a guide table: a constant number of steps on average."""
    u = rng.random()
    n_states = world.start_cumulative.shape[0]
    state = world.start_guide[min(int(u * n_states), n_states - 1)]
    while world.start_cumulative[state] <= u:
        state += 1
    return int(state)


# A method of a NamedTuple cannot be compiled: compiled code gets the search itself in the place of the question. Numba
# wants the same parameters, annotations included, in the search and in what chooses it.


@overload(draw_next)
def _compiled_next(world: Any, pair: Any, rng: Any) -> Callable[..., int] | None:
    return _next_in_table if _is_table(world) else None


@overload(draw_start)
def _compiled_start(world: Any, rng: Any) -> Callable[..., int] | None:
    return _start_in_table if _is_table(world) else None


def _is_table(world: Any) -> bool:
    return isinstance(world, types.NamedTuple) and world.instance_class is World


def fitted(kernel: Any, world: Any) -> Any:
    """The kernel that runs on a world: itself on a table, otherwise the same code run by Python."""
    return kernel if isinstance(world, World) else interpreted(kernel)


def memory_of(world: Any) -> tuple[Any, ...]:
    """What a world remembers, as arrays that it changes: nothing of a table."""
    return () if isinstance(world, World) else world.memory


@compiled
def observed(world: Any, pair: int, signal: int) -> float:
    """What the last draw of a pair reported: its reward (signal 0), or one of its margins (1..K); scaled units."""
    return world.reward[pair] if signal == 0 else world.margins[pair, signal - 1]


@compiled
def draw_pair(policy: Floats, offsets: Ints, state: int, rng: np.random.Generator) -> int:
    """A pair of `state`, drawn from the policy [n]: O(A)."""
    u = rng.random()
    pair, last = offsets[state], offsets[state + 1] - 1
    while pair < last:
        u -= policy[pair]
        if u < 0.0:
            break
        pair += 1
    return int(pair)


@compiled
def draw_episode(world: Any, policy: Floats, rng: np.random.Generator, totals: Floats) -> None:
    """One episode of a policy [H * n]: the sums of its reward and margins, in scaled units, into `totals` [1 + K]."""
    horizon, row_step, signal_step = world.stages[0], world.stages[1], world.stages[2]
    n = world.states.shape[0]
    for k in range(totals.shape[0]):
        totals[k] = 0.0
    state = draw_start(world, rng)
    for h in range(horizon):
        pair = draw_pair(policy[h * n : (h + 1) * n], world.offsets, state, rng)
        after = draw_next(world, pair + h * row_step, rng)
        for k in range(totals.shape[0]):
            totals[k] += observed(world, pair + h * signal_step, k)
        state = after


@compiled
def draw_ends(discount: float, rng: np.random.Generator) -> bool:
    """Whether a walk that ends with probability 1 - discount after every step ends now."""
    return rng.random() >= discount
