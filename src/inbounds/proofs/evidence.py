"""What samples have shown so far, and the empirical model that it makes; in scaled units.

Evidence serves to learn, to find candidates and to guess values. No proof rests on it: proofs draw samples of their
own, whose log may become evidence afterwards.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint
from inbounds.problem.draws import World, draw_next, draw_start, fitted, observed
from inbounds.problem.simulator import Simulator


class Log(NamedTuple):
    """Samples one by one, and what they add up to; nothing is noted once the arrays are full."""

    pairs: npt.NDArray[np.int32]  # [room]
    successors: npt.NDArray[np.int32]  # [room]
    visits: Ints  # [n], how often each pair was tried
    sums: Floats  # [n, K + 1], of rewards and margins, in scaled units
    squares: Floats  # [n, K + 1], of the same
    starts: Ints  # [S], draws of a start
    used: Ints  # [1]


def new_log(simulator: Simulator, room: int) -> Log:
    """An empty log with room for so many samples."""
    pairs, signals = simulator.pairs, 1 + simulator.n_constraints
    return Log(
        pairs=np.zeros(room, dtype=np.int32),
        successors=np.zeros(room, dtype=np.int32),
        visits=np.zeros(pairs.n_pairs, dtype=np.int64),
        sums=np.zeros((pairs.n_pairs, signals)),
        squares=np.zeros((pairs.n_pairs, signals)),
        starts=np.zeros(pairs.n_states, dtype=np.int64),
        used=np.zeros(1, dtype=np.int64),
    )


@compiled
def record(log: Log, world: World, pair: int, after: int) -> None:
    """Note the sample just drawn."""
    if log.used[0] < log.pairs.shape[0]:
        log.pairs[log.used[0]] = pair
        log.successors[log.used[0]] = after
        log.used[0] += 1
        log.visits[pair] += 1
        for signal in range(log.sums.shape[1]):
            seen = observed(world, pair, signal)
            log.sums[pair, signal] += seen
            log.squares[pair, signal] += seen * seen


@compiled
def draw_pairs(world: World, rng: np.random.Generator, log: Log, per_pair: int) -> None:
    """Every pair `per_pair` times, for the log."""
    for pair in range(world.states.shape[0]):
        for _ in range(per_pair):
            record(log, world, pair, draw_next(world, pair, rng))


@compiled
def draw_starts(world: World, rng: np.random.Generator, log: Log, number: int) -> None:
    """So many starts, which are free, for the log."""
    for _ in range(number):
        log.starts[draw_start(world, rng)] += 1


def empirical_model(simulator: Simulator, totals: Log, pairs: Any, successors: Any, counts: Floats) -> CMDP:
    """The model, in scaled units, that samples make: a pair never tried stays where it is and earns the average.

    Its constraints are that margins are >= 0. `totals` holds what the samples add up to; the samples themselves are
    moves from `pairs` to `successors`, int [m], each seen `counts` times [m]; the same move may be listed again.
    """
    own, visits = simulator.pairs, totals.visits
    tried, stay = np.maximum(visits, 1.0), np.flatnonzero(visits == 0)
    seen = np.concatenate([counts * (1.0 / tried)[pairs], np.ones(len(stay))])
    means = totals.sums / tried[:, None]
    means[stay] = totals.sums.sum(axis=0) / max(visits.sum(), 1.0)
    return CMDP(
        offsets=own.offsets,
        transition=sp.csr_array(
            (seen, (np.concatenate([pairs, stay]), np.concatenate([successors, own.states[stay]]))),
            shape=(own.n_pairs, own.n_states),
        ),
        reward=means[:, 0],
        constraints=tuple(
            Constraint(means[:, 1 + k], at_least=0.0, name=constraint.name)
            for k, constraint in enumerate(simulator.constraints)
        ),
        initial=totals.starts / totals.starts.sum(),
        discount=simulator.discount,
        actions=own.actions,
        state_labels=own.state_labels,
        action_labels=own.action_labels,
    )


class Evidence:
    """The logs of several series of samples, added up; of the samples, how often each pair led where is kept."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self.totals = new_log(simulator, 0)
        self.moves = sp.csr_array((simulator.pairs.n_pairs, simulator.pairs.n_states), dtype=np.float64)  # counts

    @property
    def signal_variance(self) -> Floats:
        """The variance of rewards and margins at each pair, [n, K + 1]; 0 in a simulator made from a model."""
        tried = np.maximum(self.totals.visits, 1.0)[:, None]
        return np.maximum(self.totals.squares / tried - (self.totals.sums / tried) ** 2, 0.0)

    def add(self, log: Log) -> None:
        """Add what a log has noted."""
        used = int(log.used[0])
        seen = (np.ones(used), (log.pairs[:used], log.successors[:used]))
        self.moves = self.moves + sp.coo_array(seen, shape=self.moves.shape).tocsr()
        for what in ("visits", "sums", "squares", "starts"):
            getattr(self.totals, what)[:] += getattr(log, what)

    def add_starts(self, rng: np.random.Generator, number: int) -> None:
        """Draw and add so many starts, for the initial distribution of the model."""
        world = self.simulator.open()
        fitted(draw_starts, world)(world, rng, self.totals, number)

    def try_each(self, rng: np.random.Generator, per_pair: int) -> None:
        """Draw and add `per_pair` samples of every pair."""
        world, log = self.simulator.open(), new_log(self.simulator, per_pair * self.simulator.pairs.n_pairs)
        fitted(draw_pairs, world)(world, rng, log, per_pair)
        self.add(log)

    def model(self) -> CMDP:
        """The empirical model of everything added so far."""
        moves = self.moves.tocoo()
        return empirical_model(self.simulator, self.totals, moves.row, moves.col, moves.data)
