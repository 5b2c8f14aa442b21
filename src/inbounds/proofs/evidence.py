"""What samples have shown so far, and the empirical model that it makes; in scaled units.

Evidence serves to find candidates and to guess values. No proof rests on it: proofs draw samples of their own, whose
log may become evidence afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from inbounds.algorithms.kernels import draw_next, draw_start
from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled, interpreted
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint
from inbounds.problem.simulator import Simulator, World


class Log(NamedTuple):
    """What was observed, for a later model; nothing is kept once the arrays are full."""

    pairs: npt.NDArray[np.int32]  # [room]
    successors: npt.NDArray[np.int32]  # [room]
    sums: Floats  # [n, K + 1], of rewards and margins, in scaled units
    squares: Floats  # [n, K + 1], of the same
    used: Ints  # [1]


def new_log(simulator: Simulator, room: int) -> Log:
    """An empty log with room for so many samples."""
    shape = (simulator.pairs.n_pairs if room else 0, 1 + simulator.n_constraints)
    return Log(
        pairs=np.empty(room, dtype=np.int32),
        successors=np.empty(room, dtype=np.int32),
        sums=np.zeros(shape),
        squares=np.zeros(shape),
        used=np.zeros(1, dtype=np.int64),
    )


@compiled
def record(log: Log, world: World, pair: int, after: int) -> None:
    """Note the sample just drawn."""
    if log.used[0] < log.pairs.shape[0]:
        log.pairs[log.used[0]] = pair
        log.successors[log.used[0]] = after
        log.used[0] += 1
        for k in range(log.sums.shape[1]):
            seen = world.reward[pair] if k == 0 else world.margins[pair, k - 1]
            log.sums[pair, k] += seen
            log.squares[pair, k] += seen * seen


@compiled
def draw_pairs(world: World, rng: np.random.Generator, log: Log, per_pair: int) -> None:
    """Every pair `per_pair` times, for the log."""
    for pair in range(world.states.shape[0]):
        for _ in range(per_pair):
            record(log, world, pair, draw_next(world, pair, rng))


@compiled
def count_starts(world: World, rng: np.random.Generator, number: int, counts: Ints) -> None:
    """Add `number` draws of a start to `counts` [S]."""
    for _ in range(number):
        counts[draw_start(world, rng)] += 1


class Evidence:
    """What samples have shown: how often each pair led where, with what reward and margins, in scaled units."""

    def __init__(self, simulator: Simulator) -> None:
        pairs, rows = simulator.pairs, 1 + simulator.n_constraints
        self.simulator = simulator
        self.transitions = sp.csr_array((pairs.n_pairs, pairs.n_states), dtype=np.float64)  # counts
        self.sums = np.zeros((pairs.n_pairs, rows))
        self.squares = np.zeros((pairs.n_pairs, rows))
        self.starts = np.zeros(pairs.n_states)  # counts

    @property
    def visits(self) -> Floats:
        """How often each pair was tried, [n]."""
        return np.asarray(self.transitions.sum(axis=1)).ravel()

    @property
    def signal_variance(self) -> Floats:
        """The variance of rewards and margins at each pair, [n, K + 1]; 0 in a simulator made from a model."""
        tried = np.maximum(self.visits, 1.0)[:, None]
        return np.maximum(self.squares / tried - (self.sums / tried) ** 2, 0.0)

    def add(self, log: Log) -> None:
        """Add what a log has noted."""
        used = int(log.used[0])
        if used == 0:
            return
        seen = (np.ones(used), (log.pairs[:used], log.successors[:used]))
        self.transitions = self.transitions + sp.coo_array(seen, shape=self.transitions.shape).tocsr()
        self.sums += log.sums
        self.squares += log.squares

    def add_starts(self, rng: np.random.Generator, number: int) -> None:
        """Draw and add so many starts, which are free, for the initial distribution of the model."""
        world, draws = self.simulator.open()
        count = interpreted(count_starts, **draws) if draws else count_starts
        counts = np.zeros(self.simulator.pairs.n_states, dtype=np.int64)
        count(world, rng, number, counts)
        self.starts += counts

    def try_each(self, rng: np.random.Generator, per_pair: int) -> None:
        """Draw and add `per_pair` samples of every pair."""
        world, draws = self.simulator.open()
        draw = interpreted(draw_pairs, **draws) if draws else draw_pairs
        log = new_log(self.simulator, per_pair * self.simulator.pairs.n_pairs)
        draw(world, rng, log, per_pair)
        self.add(log)

    def model(self) -> CMDP:
        """The empirical model, in scaled units; a pair never tried stays where it is and earns the average."""
        pairs, visits = self.simulator.pairs, self.visits
        tried = np.maximum(visits, 1.0)
        stay = np.flatnonzero(visits == 0.0)
        counts = self.transitions + sp.csr_array(
            (np.ones(len(stay)), (stay, pairs.states[stay])), shape=self.transitions.shape
        )
        means = self.sums / tried[:, None]
        means[stay] = self.sums.sum(axis=0) / max(visits.sum(), 1.0)
        return CMDP(
            offsets=pairs.offsets,
            transition=sp.csr_array(counts.multiply(1.0 / tried[:, None])),
            reward=means[:, 0],
            constraints=tuple(
                Constraint(means[:, 1 + k], at_least=0.0, name=constraint.name)
                for k, constraint in enumerate(self.simulator.constraints)
            ),
            initial=self.starts / self.starts.sum(),
            discount=self.simulator.discount,
            actions=pairs.actions,
        )
