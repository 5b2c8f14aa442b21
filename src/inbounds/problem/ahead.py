"""Outcomes of a user's step function drawn ahead: in worker processes, or many in one call.

What follows a pair (a state with an action) does not depend on what was drawn before, so outcomes may be drawn before
they are wanted, and by whoever has time. The invariant: **outcome number j of a pair is a function of the run's key, of
the pair and of j alone**. So a run has the same bits whatever the number of workers, and whatever was drawn ahead in
vain.

Outcomes come in blocks. Block b of a pair has a generator of its own, seeded with the key, the pair and b; the key is
drawn from the run's generator at the first draw. A block is a 32nd of what was drawn of its pair before it, so that
what is drawn in vain stays a 32nd of what is used for each worker, and at least 1 and at most `_LARGEST`. Vectorised
steps cost little an outcome: there, blocks double.

When a block of a pair is begun, its next ones are asked for, one for each worker. Where pairs are drawn in turn, those
that come next are too. A message to a worker costs as much as a quarter of a millisecond of work, so while all have
something to do, blocks wait until a message of several is worth it. What is in one message changes no outcome.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from copy import deepcopy
from pickle import loads
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib.externals.loky import ProcessPoolExecutor

from inbounds.arrays import Ints
from inbounds.errors import InvalidInput
from inbounds.inputs import listed
from inbounds.streams import fill_missing_streams
from inbounds.workers import WorkerLost, as_sent, begin_worker, received, reraise, starting_workers

_LARGEST = 16
"""Outcomes in a block, or in a message of small ones: enough that a step of a tenth of a millisecond is worth sending,
and few that are in vain."""

_SHARE = 32
"""What has been drawn of a pair is so many times as much as its next block."""

_VECTOR = 1024
"""The same for a vectorised step."""

_IN_TURN = 8
"""How many pairs ahead each worker looks while pairs are drawn one after the other."""


_OF_PARENTS: list[Any] = []
"""After a fork, workers of the process before: kept, because to let go of them would tell them to end."""


class Source:
    """Where blocks are drawn: in this process, or in workers that live as long as the simulator."""

    def __init__(self, step: Callable[..., Any], vectorised: bool, jobs: int | None) -> None:
        self.step, self.vectorised, self.jobs = step, vectorised, jobs
        self._pool: Any = None
        self._process = os.getpid()
        self._sent: list[Future[list[bytes]]] = []  # messages that were not answered when the last was sent, and that

    def __getstate__(self) -> dict[str, Any]:
        """For copies, here or in another process, which have workers of their own."""
        return {**self.__dict__, "_pool": None, "_sent": []}

    def size_after(self, drawn: int) -> int:
        """The size of the block that follows `drawn` outcomes of a pair."""
        return min(max(drawn, 1), _VECTOR) if self.vectorised else min(max(drawn // _SHARE, 1), _LARGEST)

    @property
    def busy(self) -> bool:
        """Whether every worker has a message at hand, and one that waits."""
        return sum(not message.done() for message in self._sent) >= 2 * (self.jobs or 0)

    def send(self, blocks: list[tuple[Any, ...]]) -> Future[list[bytes]]:
        """Have blocks drawn by a worker."""
        if self._process != os.getpid():  # this process was forked: the workers are those of the one before it
            _OF_PARENTS.append(self._pool)
            self.lose()
        message: Future[list[bytes]] = self._begun().submit(_in_worker, blocks)
        self._sent = [*(sent for sent in self._sent if not sent.done()), message]
        return message

    def _begun(self) -> Any:
        """The workers; where there are none yet, they are started."""
        if self._pool is None:
            step, self._process = (self.step, self.vectorised), os.getpid()
            fill_missing_streams()
            try:
                with starting_workers(self.jobs or 0, WorkerLost, "take fewer jobs"):
                    pool = ProcessPoolExecutor(self.jobs, initializer=_begin, initargs=(self._process, *step))
                    pool.submit(os.getpid)
            except WorkerLost:
                raise
            except Exception as error:  # all that happens here besides is that step is sent
                raise InvalidInput(
                    f"step cannot be sent to worker processes ({type(error).__name__}: {error}); let it make what it "
                    "needs at its first call, or leave jobs out"
                ) from error
            self._pool = pool
        return self._pool

    def lose(self) -> None:
        """Give up workers of which one was killed: the next draw starts others."""
        self._pool, self._sent = None, []

    def draw(self, block: tuple[Any, ...]) -> list[Any]:
        """Draw a block here."""
        return _drawn(self.step, self.vectorised, *block)


def _drawn(
    step: Callable[..., Any], vectorised: bool, state: Any, action: Any, seed: Sequence[int], size: int
) -> list[Any]:
    """`size` outcomes ``(next_state, reward, signals)`` of one pair.

    They are read later, so each is copied: a step may return the same list or array again, with other numbers in it.
    """
    rng = np.random.default_rng(list(seed))
    if not vectorised:
        return [_copied(step(state, action, rng)) for _ in range(size)]
    found = step([state] * size, [action] * size, rng)
    if not isinstance(found, tuple | list) or len(found) != 3:
        raise InvalidInput(
            f"a vectorised step must return (next_states, rewards, signals), found {type(found).__name__} for "
            f"{size} times state {state!r}, action {action!r}"
        )
    columns = [listed(part) for part in found]
    if any(column is None or len(column) != size for column in columns):
        counts = ", ".join("no list" if column is None else str(len(column)) for column in columns)
        raise InvalidInput(
            f"a vectorised step must return as many next states, rewards and lists of signals as it was given states, "
            f"{size}; found {counts} for state {state!r}, action {action!r}. One that takes a single state is not "
            "vectorised: leave vectorised=True out"
        )
    return [_copied(outcome) for outcome in zip(*columns, strict=True)]


def _copied(outcome: Any) -> Any:
    """An outcome whose numbers are its own; a next state is a label, and stays the object that it is."""
    if not isinstance(outcome, tuple | list) or len(outcome) != 3:
        return _Refused(repr(outcome))
    after, reward, signals = outcome
    several = listed(signals)
    return after, _own(reward), _own(signals) if several is None else [_own(signal) for signal in several]


def _own(value: Any) -> Any:
    if isinstance(value, float):  # most are, and those do not change
        return value
    try:
        return deepcopy(value)
    except Exception:  # a lock, say: no number, nor a list of them
        return _Refused(repr(value))


class _Refused:
    """What no step may return, and what need not be possible to copy or to send, as the message shows it."""

    def __init__(self, shown: str) -> None:
        self._shown = shown

    def __repr__(self) -> str:
        return self._shown


_STEP: Any = None  # in a worker: the step function, and whether it is vectorised


def _begin(parent: int, step: Callable[..., Any], vectorised: bool) -> None:
    global _STEP
    begin_worker(parent)
    _STEP = step, vectorised


def _in_worker(blocks: list[tuple[Any, ...]]) -> list[bytes]:
    """The outcomes of each block, packed: what cannot be sent, or unpacked, would be no fault of anybody's otherwise.

    Those of several blocks end before one that fails: alone, it says what is wrong with it.
    """
    found: list[bytes] = []
    for block in blocks:
        try:
            found.append(_packed(_drawn(*_STEP, *block)))
        except Exception as error:
            if len(blocks) == 1:
                reraise(error)
            break
    return found


def _packed(outcomes: list[Any]) -> bytes:
    """What cannot be sent, or not be put together again, is as the message shows it."""
    try:
        whole = as_sent(outcomes)
        loads(whole)
    except Exception:
        shown = (one if isinstance(one, _Refused) else tuple(map(_sendable, one)) for one in outcomes)
        return as_sent(list(shown))
    return whole


def _sendable(part: Any) -> Any:
    try:
        received(part)
    except Exception:
        return _Refused(repr(part))
    return part


class Outcomes:
    """The outcomes of one run. All that it remembers is `key` [2] and `drawn` [n], which may be set back."""

    def __init__(self, source: Source, labels: Callable[[int], tuple[Any, Any]], n_pairs: int) -> None:
        self.source, self.labels, self.n_pairs = source, labels, n_pairs
        self.key: npt.NDArray[np.uint64] = np.zeros(2, dtype=np.uint64)
        self.drawn: Ints = np.zeros(n_pairs, dtype=np.int64)
        self._ready: dict[int, deque[Any]] = {}
        self._held: list[tuple[int, int]] = []  # blocks for the next message, and how many outcomes they have
        self._outcomes_held = 0
        # The message and the place in it; None where it is held.
        self._coming: dict[tuple[int, int], tuple[Future[list[bytes]], int] | None] = {}
        self._last = -1
        self._starts = [0]  # outcomes of a pair before each block

    def take(self, pair: int, rng: np.random.Generator) -> Any:
        """The next outcome of a pair."""
        if not self.key.any():
            self.key[:] = rng.integers(1, 2**63, size=2, dtype=np.uint64)
        try:
            return self._taken(pair)
        except BrokenProcessPool as error:
            self.source.lose()
            raise WorkerLost(
                "a worker process of the simulator was killed, or ran out of memory; go on, with resume= where there "
                "is one, and if need be with fewer jobs"
            ) from error

    def _taken(self, pair: int) -> Any:
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
        if self.source.jobs is None or (pair, block) in self._coming:
            return
        self._coming[pair, block] = None
        self._held.append((pair, block))
        self._outcomes_held += self._described(pair, block)[-1]
        if self._outcomes_held >= _LARGEST or not self.source.busy:
            self._send()

    def _send(self) -> None:
        message = self.source.send([self._described(*block) for block in self._held])
        self._coming.update({block: (message, place) for place, block in enumerate(self._held)})
        self._held, self._outcomes_held = [], 0

    def _wait(self, pair: int, block: int) -> list[Any]:
        if self.source.jobs is None:
            return self.source.draw(self._described(pair, block))
        self._ask(pair, block)
        if self._coming[pair, block] is None:
            self._send()
        message, place = self._coming.pop((pair, block))  # type: ignore[misc]  # it is sent
        found = message.result()
        if place >= len(found):
            found, place = self.source.send([self._described(pair, block)]).result(), 0
        return loads(found[place])  # type: ignore[no-any-return]
