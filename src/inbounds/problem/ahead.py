"""Outcomes of a user's step function drawn ahead: in worker processes, or many in one call.

What follows a pair (a state with an action) does not depend on what was drawn before, so outcomes may be drawn before
they are wanted, and by whoever has time. The invariant: **outcome number j of a pair is a function of the run's key, of
the pair and of j alone**. So a run has the same bits whatever the number of workers, and whatever was drawn ahead in
vain.

Outcomes come in blocks. Block b of a pair has a generator of its own, seeded with the key, the pair and b; the key is
drawn from the run's generator at the first draw. A block is an eighth of what was drawn of its pair before it, so that
what is drawn in vain stays an eighth of what is used for each worker, and at least 1 and at most `_LARGEST`. Vectorised
steps cost little an outcome: there, blocks double.

When a block of a pair is begun, its next ones are asked for, one for each worker. Where pairs are drawn in turn, those
that come next are too.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib.externals.loky import ProcessPoolExecutor

from inbounds.arrays import Ints
from inbounds.errors import InvalidInput
from inbounds.workers import WorkerLost, begin_worker

_LARGEST = 64
"""Outcomes in a block: enough that a step of a tenth of a millisecond is worth sending."""

_VECTOR = 1024
"""The same for a vectorised step."""

_IN_TURN = 8
"""How many pairs ahead each worker looks while pairs are drawn one after the other."""


class Source:
    """Where blocks are drawn: in this process, or in workers that live as long as the simulator."""

    def __init__(self, step: Callable[..., Any], vectorised: bool, jobs: int | None) -> None:
        self.step, self.vectorised, self.jobs = step, vectorised, jobs
        self._pool: Any = None

    def size_after(self, drawn: int) -> int:
        """The size of the block that follows `drawn` outcomes of a pair."""
        return min(max(drawn, 1), _VECTOR) if self.vectorised else min(max(drawn // 8, 1), _LARGEST)

    def ask(self, block: tuple[Any, ...]) -> Future[list[Any]] | None:
        """Have a block drawn by a worker; None without workers."""
        if self.jobs is None:
            return None
        if self._pool is None:
            step = self.step, self.vectorised
            self._pool = ProcessPoolExecutor(self.jobs, initializer=_begin, initargs=(os.getpid(), *step))
        return self._pool.submit(_in_worker, block)  # type: ignore[no-any-return]

    def draw(self, block: tuple[Any, ...]) -> list[Any]:
        """Draw a block here."""
        return _drawn(self.step, self.vectorised, *block)


def _drawn(
    step: Callable[..., Any], vectorised: bool, state: Any, action: Any, seed: Sequence[int], size: int
) -> list[Any]:
    """`size` outcomes ``(next_state, reward, signals)`` of one pair."""
    rng = np.random.default_rng(list(seed))
    if not vectorised:
        return [step(state, action, rng) for _ in range(size)]
    found = step([state] * size, [action] * size, rng)
    if not isinstance(found, tuple | list) or len(found) != 3:
        raise InvalidInput(
            f"a vectorised step must return (next_states, rewards, signals), found {type(found).__name__} for "
            f"{size} times state {state!r}, action {action!r}"
        )
    columns = [list(part) if isinstance(part, Iterable) else None for part in found]
    if any(column is None or len(column) != size for column in columns):
        counts = ", ".join("no list" if column is None else str(len(column)) for column in columns)
        raise InvalidInput(
            f"a vectorised step must return as many next states, rewards and lists of signals as it was given states, "
            f"{size}; found {counts} for state {state!r}, action {action!r}. One that takes a single state is not "
            "vectorised: leave vectorised=True out"
        )
    return list(zip(*columns, strict=True))


_STEP: Any = None  # in a worker: the step function, and whether it is vectorised


def _begin(parent: int, step: Callable[..., Any], vectorised: bool) -> None:
    global _STEP
    begin_worker(parent)
    _STEP = step, vectorised


def _in_worker(block: tuple[Any, ...]) -> list[Any]:
    return _drawn(*_STEP, *block)


class Outcomes:
    """The outcomes of one run. All that it remembers is `key` [2] and `drawn` [n], which may be set back."""

    def __init__(self, source: Source, labels: Callable[[int], tuple[Any, Any]], n_pairs: int) -> None:
        self.source, self.labels, self.n_pairs = source, labels, n_pairs
        self.key: npt.NDArray[np.uint64] = np.zeros(2, dtype=np.uint64)
        self.drawn: Ints = np.zeros(n_pairs, dtype=np.int64)
        self._ready: dict[int, deque[Any]] = {}
        self._coming: dict[tuple[int, int], Future[list[Any]]] = {}
        self._last = -1
        self._starts = [0]  # outcomes of a pair before each block

    def take(self, pair: int, rng: np.random.Generator) -> Any:
        """The next outcome of a pair."""
        if not self.key.any():
            self.key[:] = rng.integers(1, 2**63, size=2, dtype=np.uint64)
        ready = self._ready.get(pair)
        if not ready:
            block = self._block_of(int(self.drawn[pair]))
            outcomes = self._wait(pair, block)
            ready = self._ready[pair] = deque(outcomes[int(self.drawn[pair]) - self._starts[block] :])
            if block > 0:  # one for each worker: of a pair that is drawn again and again they share the work
                for ahead in range(1, (self.source.jobs or 0) + 1):
                    self._ask(pair, block + ahead)
        if pair == (self._last + 1) % self.n_pairs:
            self._ask_those_that_come(pair)
        self._last = pair
        self.drawn[pair] += 1
        return ready.popleft()

    def _ask_those_that_come(self, pair: int) -> None:
        for ahead in range(1, min(_IN_TURN * (self.source.jobs or 0), self.n_pairs - 1) + 1):
            after = (pair + ahead) % self.n_pairs
            if not self._ready.get(after):
                self._ask(after, self._block_of(int(self.drawn[after])))

    def _block_of(self, drawn: int) -> int:
        """The number of the block in which outcome number `drawn` of a pair is."""
        while self._starts[-1] <= drawn:
            self._add_block()
        return bisect_right(self._starts, drawn) - 1

    def _add_block(self) -> None:
        self._starts.append(self._starts[-1] + self.source.size_after(self._starts[-1]))

    def _described(self, pair: int, block: int) -> tuple[Any, ...]:
        """What it takes to draw a block."""
        while len(self._starts) < block + 2:
            self._add_block()
        size = self._starts[block + 1] - self._starts[block]
        return (*self.labels(pair), (int(self.key[0]), int(self.key[1]), pair, block), size)

    def _ask(self, pair: int, block: int) -> None:
        if (pair, block) not in self._coming:
            future = self.source.ask(self._described(pair, block))
            if future is not None:
                self._coming[pair, block] = future

    def _wait(self, pair: int, block: int) -> list[Any]:
        future = self._coming.pop((pair, block), None) or self.source.ask(self._described(pair, block))
        if future is None:
            return self.source.draw(self._described(pair, block))
        try:
            return future.result()
        except BrokenProcessPool as error:
            raise WorkerLost(
                "a worker process of the simulator was killed, or ran out of memory; go on with resume=, if need be "
                "with fewer jobs"
            ) from error
