"""What a run works out between its draws: plans on an empirical model, which may take longer than all its draws.

A plan counts as no sample, and is made in the middle of a piece of what counts. So whoever makes one, however deep in a
run, makes it a thought: it keeps to the limit of the run that it is part of, and the run remembers it. The piece is
made anew when the run goes on; then a thought that was finished is not thought again, and one that was broken off goes
on from what it kept, or begins again. The bits are the same, for what is thought, and in which order, depends on what
was drawn, never on time.

Outside of a run nothing limits a thought, and nothing remembers it; it comes in pieces all the same, for a compiled
kernel is interrupted between two pieces only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from inbounds.problem.pieces import Begun, Drawn, Draws, OutOfTime, Pace, kept

_LEAST = 0.25
"""Seconds that a thought has however short the limit is, if the call did nothing else: as long as a piece of draws."""

_MORE = 2.0
"""So many times as long as it had in vain a thought has the next time, so that some call comes further."""

T = TypeVar("T")


@dataclass(frozen=True)
class Thought:
    """What a thought is told: what it kept before, the seconds that it has, and whether less than all of it will do."""

    begun: Any = None
    seconds: float | None = None
    hurried: bool = False
    keep: Callable[[Any], None] = lambda state: None


class Memory(NamedTuple):
    """The thoughts of a piece that is to be made anew."""

    finished: tuple[Any, ...] = ()
    begun: Any = None  # what the one after those kept
    given: float = 0.0  # seconds that it had since, in vain


UNTHOUGHT = Memory()


class Thoughts:
    """Those of a run, one after the other. `hurried`: each has a moment, and is taken for what it came to by then."""

    def __init__(self, pace: Pace, memory: Memory = UNTHOUGHT, *, moved: bool = False, hurried: bool = False) -> None:
        self.memory, self._pace, self._moved, self._hurried = memory, pace, moved, hurried
        self._passed = 0  # of what is finished, how much this piece has come through

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Within, every thought is one of these."""
        before = _at_work.set(self)
        try:
            yield
        finally:
            _at_work.reset(before)

    def forget(self) -> None:
        """The piece is over, and will not be made anew; what it did not come to is still ahead."""
        self.memory = self.memory._replace(finished=self.memory.finished[self._passed :])
        self._passed, self._moved = 0, True

    def have(self, think: Callable[[Thought], T]) -> T:
        if self._passed == len(self.memory.finished):
            if self._moved and self._pace.over:
                raise OutOfTime
            result = self._new(think)
            self.memory, self._moved = Memory((*self.memory.finished, result)), True
        self._passed += 1
        found: T = self.memory.finished[self._passed - 1]
        return found

    def _new(self, think: Callable[[Thought], T]) -> T:
        begun, given = self.memory.begun, self.memory.given
        seconds, further = _LEAST if self._hurried else self._pace.left, False
        if seconds is not None:
            seconds = max(seconds, 0.0 if self._moved else _LEAST, _MORE * given)

        def keep(state: Any) -> None:
            nonlocal further
            self.memory, self._moved, further = self.memory._replace(begun=state, given=0.0), True, True

        try:
            return think(Thought(begun, seconds, self._hurried, keep))
        except OutOfTime:
            if not further and seconds is not None:
                self.memory = self.memory._replace(given=max(given, seconds))
            raise


_at_work: ContextVar[Thoughts | None] = ContextVar("the thoughts of the run that is at work", default=None)


def thought(think: Callable[[Thought], T]) -> T:
    """``think(thought)``, which raises `OutOfTime` where its seconds are over first; and is not called in vain."""
    thoughts = _at_work.get()
    return think(Thought()) if thoughts is None else thoughts.have(think)


def in_pieces(state: T, advance: Callable[[T, int, int], T], number: int) -> Callable[[Thought], T]:
    """To think: `state` after ``advance(state, done, until) -> state``, which may change it, from 0 to `number`."""

    def think(own: Thought) -> T:
        now, begun = (state, 0) if own.begun is None else (kept(own.begun[0], whole=True), own.begun[1])

        def piece(done: int, until: int) -> int:
            nonlocal now
            now = advance(now, done, until)
            return until

        done = Pace(own.seconds).pieces(piece, lambda done: own.keep((kept(now, whole=True), done)), begun, number)
        if done < number and not own.hurried:
            raise OutOfTime
        return now

    return think


def thought_once(draws: Draws, call: Callable[[], T]) -> T:
    """What comes of a call that draws nothing, as one of the things that a run of several series does once."""

    def think() -> tuple[T, int]:
        begun = draws.paused.begun
        thoughts = Thoughts(draws.pace, UNTHOUGHT if begun is None else begun.state, moved=draws.moved)
        try:
            with thoughts.at_work():
                return call(), 0
        except BaseException:
            now = Begun(thoughts.memory, 0, 0, Drawn.by(draws.rng))
            draws.paused = draws.paused._replace(begun=now)
            raise

    result: T = draws.once(think)
    return result
