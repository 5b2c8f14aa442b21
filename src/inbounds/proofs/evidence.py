"""What samples have shown so far, and the empirical model that it makes; in scaled units.

Evidence serves to learn, to find candidates and to guess values. No proof rests on it: proofs draw samples of their
own, whose log may become evidence afterwards.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from inbounds.arrays import Floats, Ints
from inbounds.errors import within_memory
from inbounds.numerics.compiled import compiled
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint
from inbounds.problem.draws import World, draw_next, draw_start, fitted, observed
from inbounds.problem.pieces import Draws
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

    def kept(self) -> Log:
        """A copy that later samples do not change: the lists only grow, and are shared."""
        sums = {name: getattr(self, name).copy() for name in ("visits", "sums", "squares", "starts", "used")}
        return self._replace(**sums)


def new_log(simulator: Simulator, room: int) -> Log:
    """An empty log with room for so many samples."""
    pairs, signals = simulator.pairs, 1 + simulator.n_constraints
    with within_memory(room):
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
def draw_pairs(log: Log, world: World, rng: np.random.Generator, drawn: int, until: int, ends: Ints) -> int:
    """Samples number `drawn` to `until` - 1 for the log: first those of pair 0, until number `ends[0]`, and so on."""
    pair = 0
    while drawn < until:
        while ends[pair] <= drawn:
            pair += 1
        record(log, world, pair, draw_next(world, pair, rng))
        drawn += 1
    return drawn


@compiled
def draw_starts(log: Log, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
    """Starts number `drawn` to `until` - 1, which are free, for the log."""
    while drawn < until:
        log.starts[draw_start(world, rng)] += 1
        drawn += 1
    return drawn


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


class Counted(NamedTuple):
    """What a log came to, without its lists."""

    totals: Log
    moves: Any  # CSR [n, S], how often each pair led where


def counted(log: Log) -> Counted:
    used, shape = int(log.used[0]), (len(log.visits), len(log.starts))
    none = np.empty(0, dtype=np.int32)
    with within_memory(used):
        seen = (np.ones(used), (log.pairs[:used], log.successors[:used]))
        return Counted(log._replace(pairs=none, successors=none), sp.coo_array(seen, shape=shape).tocsr())


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

    def add(self, seen: Log | Counted) -> None:
        """Add what a log has noted."""
        seen = counted(seen) if isinstance(seen, Log) else seen
        self.moves = self.moves + seen.moves
        for what in ("visits", "sums", "squares", "starts"):
            getattr(self.totals, what)[:] += getattr(seen.totals, what)

    def draw(self, draws: Draws, room: int, number: int, kernel: Any, *more: Any, free: bool = False) -> Counted:
        """Draw and add a series: `number` draws by a kernel that keeps a log with `room` for so many samples."""

        def advance(log: Log, world: Any, rng: np.random.Generator, drawn: int, until: int) -> int:
            return int(fitted(kernel, world)(log, world, rng, drawn, until, *more))

        log = new_log(self.simulator, room)
        seen = draws.series(self.simulator, log, advance, number, free=free, result=lambda log, _: counted(log))
        self.add(seen)
        return cast(Counted, seen)

    def add_starts(self, draws: Draws, number: int) -> Counted:
        """Draw and add so many starts, for the initial distribution of the model."""
        return self.draw(draws, 0, number, draw_starts, free=True)

    def try_pairs(self, draws: Draws, times: Ints) -> Counted:
        """Draw and add `times` [n] samples of each pair."""
        ends = np.cumsum(times)
        return self.draw(draws, int(ends[-1]), int(ends[-1]), draw_pairs, ends)

    def model(self) -> CMDP:
        """The empirical model of everything added so far."""
        moves = self.moves.tocoo()
        return empirical_model(self.simulator, self.totals, moves.row, moves.col, moves.data)
