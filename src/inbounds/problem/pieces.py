"""Long runs in short pieces: progress and limits by the clock, and nothing lost when one is broken off.

A run is advanced in pieces, first of one step, then of up to eight times as many, until a piece takes a quarter of a
second. After each piece a copy is kept of everything that the run has changed: arrays, the state of the generator.
When an exception ends it (Ctrl-C, or an error in a user's step function), wherever that falls, the run can go on from
the last copy. What was drawn since is then drawn again, from the same state of the generator, so the run ends with the
bits of one that was never broken off. (Only a step function with a memory of its own can tell; what it remembers is out
of reach. So a learner of episodes is copied between two of them, and what goes on begins with a start. A compiled
kernel is interrupted between two pieces only.)

`Pace` makes the pieces. `Draws` is for runs of several series of draws with decisions in between: it remembers the
result of each series, so that the same code, run again from the top, passes through what is finished, and goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from inbounds.errors import InvalidInput, within_memory
from inbounds.inputs import callback, positive, shown
from inbounds.problem.draws import World, memory_of

_PIECE = 0.25  # seconds that a piece should take
_COPY = 0.05  # of a piece's time may go to the copy; otherwise pieces are longer
_SPAWNED_AT_ONCE = 1_000
_GROWTH = 8  # of a piece against the one before
_ATTACHED = "known so far, to inbounds"  # no name of Python's: nothing of a user's own is called so

Progress = Callable[[int], None] | None


class OutOfTime(Exception):
    """The time limit was reached between two pieces of a series of draws."""


class Pace:
    """The clock of one run: how long pieces are, when to stop, and whom to tell."""

    def __init__(self, time_limit: float | None = None, progress: Progress = None) -> None:
        self.started, self.limit, self.progress = time.perf_counter(), time_limit, callback(progress)
        self._size = 1  # of the next piece, if what was advanced goes on

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    @property
    def left(self) -> float | None:
        """Seconds until the limit, but some, however little; None without a limit."""
        return None if self.limit is None else max(self.limit - self.seconds, 1e-9)

    @property
    def over(self) -> bool:
        return self.limit is not None and self.seconds >= self.limit

    def pieces(
        self,
        advance: Callable[[int, int], int],
        keep: Callable[[int], None],
        done: int,
        until: int,
        *,
        ended: Callable[[], bool] = lambda: False,
        before: int | None = 0,
        going_on: bool = False,
        whole: int = 1,
    ) -> int:
        """How far ``advance(done, until) -> done`` came, piece by piece: to `until`, or less if it ended or time did.

        ``keep(done)`` is called after each piece, and then progress is told, `before` added (None: it is not told).
        Unless there is nothing to do, there is at least one piece, however little time there is. The first is one step,
        unless this is `going_on` with what was advanced before: then its length is known. A piece ends at a multiple of
        `whole`, or at `until`.
        """
        size, begun = self._size if going_on else 1, done > 0
        while done < until and not (begun and ended()):
            began, so_far, begun = time.perf_counter(), done, True
            done = advance(done, min(-(-(done + size) // whole) * whole, until))
            advanced = time.perf_counter()
            keep(done)
            copied = time.perf_counter()
            aim = max(_PIECE, (copied - advanced) / _COPY)
            if self.left is not None:
                aim = min(aim, self.left)
            # By the steps made: the last piece before `until` is shorter than it might be.
            size = max(1, min(_GROWTH * size, int((done - so_far) * aim / max(copied - began, 1e-9))))
            if self.progress is not None and before is not None:
                self.progress(before + done)
            if self.over:
                break
        self._size = size
        return done


def seconds_or_none(time_limit: Any) -> float | None:
    """A time limit as it was given, checked."""
    return None if time_limit is None else positive(time_limit, "time_limit", "number of seconds")


def kept(value: Any, whole: bool = False) -> Any:
    """A copy of arrays, or lists or (named) tuples of them, that nothing changes any more; read-only arrays are shared.

    A record may say by a method ``kept()`` what is enough for it, unless the `whole` is wanted.
    """
    if isinstance(value, np.ndarray):
        with within_memory(None):
            return value.copy() if value.flags.writeable else value
    if not whole and callable(getattr(value, "kept", None)):
        return value.kept()
    if isinstance(value, list):
        return [kept(part, whole) for part in value]
    if isinstance(value, tuple):
        parts = [kept(part, whole) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def generator_of(seed: int | np.random.SeedSequence) -> np.random.Generator:
    """A generator with a seed sequence of its own: that of the user stays as it is, whatever a step spawns."""
    if isinstance(seed, np.random.SeedSequence):
        given = seed
        seed = np.random.SeedSequence(
            given.entropy,
            spawn_key=given.spawn_key,
            pool_size=given.pool_size,
            n_children_spawned=given.n_children_spawned,
        )
    return np.random.default_rng(seed)


class Drawn(NamedTuple):
    """What a generator has come to: its bits, and how many others were spawned from it, which these do not show."""

    bits: Any
    spawned: int

    @classmethod
    def by(cls, rng: np.random.Generator) -> Drawn:
        sequence: Any = rng.bit_generator.seed_seq
        return cls(rng.bit_generator.state, sequence.n_children_spawned)

    def restore(self, rng: np.random.Generator) -> None:
        """Bring a generator of the same seed, which is not yet as far, to where this was."""
        sequence: Any = rng.bit_generator.seed_seq
        rng.bit_generator.state = self.bits
        while (behind := self.spawned - sequence.n_children_spawned) > 0:
            sequence.spawn(min(behind, _SPAWNED_AT_ONCE))


def attach(error: BaseException, partial: Any) -> None:
    """Let an exception carry what is known so far: for the user as its `partial`, for the library as `attached`."""
    with suppress(Exception):  # a user's own exception may have a `partial` that is another thing, or take none
        vars(error)[_ATTACHED] = partial
        error.partial = partial  # type: ignore[attr-defined]


def attached(error: BaseException) -> Any:
    """What was attached to an exception last, whatever its own `partial` is; None if nothing was."""
    with suppress(Exception):  # as above
        return vars(error).get(_ATTACHED)
    return None


def same_problem(one: Any, other: Any) -> bool:
    """Whether two models or two simulators ask the same. The functions behind a user's simulator may have changed."""
    if one is other:
        return True
    alike = type(one) is type(other) and one.criterion == other.criterion and repr(one) == repr(other)
    if not alike or repr(one.constraints) != repr(other.constraints):
        return False
    arrays = [_arrays_of(each) for each in (one, other)]
    names = [(each.pairs.state_labels, each.pairs.action_labels) for each in (one, other)]
    return names[0] == names[1] and all(np.array_equal(mine, theirs) for mine, theirs in zip(*arrays, strict=False))


def _arrays_of(problem: Any) -> list[Any]:
    layout = [problem.pairs.offsets, problem.pairs.actions]
    if not hasattr(problem, "open"):  # a model
        rows = [part for matrix in problem.transitions for part in (matrix.data, matrix.indices, matrix.indptr)]
        return [*layout, problem.reward, problem.margins, problem.initial, *rows]
    scaling, world = problem.scaling, problem.open()
    ranges = [np.array([scaling.reward_low, scaling.reward_span]), scaling.margin_scales]
    ranges += [problem.reward_range, problem.margin_ranges, problem.signal_ranges]
    return [*layout, *ranges, *(world if isinstance(world, World) else ())]


def same_draws(one: Any, other: Any) -> bool:
    """Whether outcomes come in the same way, so that the same seed gives the same; any number of jobs is one way."""
    ways = [getattr(each, "_source", None) for each in (one, other)]
    return len({None if way is None else way.vectorised for way in ways}) == 1


def same_seed(one: Any, other: Any) -> bool:
    if isinstance(one, np.random.SeedSequence) and isinstance(other, np.random.SeedSequence):
        as_far = one.n_children_spawned == other.n_children_spawned
        return as_far and np.array_equal(one.generate_state(8), other.generate_state(8))  # all that generators take
    return type(one) is type(other) and one == other


def same_settings(one: Any, other: Any) -> bool:
    """Whether two algorithms have the same settings; those of a user's own may hold arrays."""
    return type(one) is type(other) and _equal(one, other)


def _equal(one: Any, other: Any) -> bool:
    """Whether ``one == other``, also of records and lists with arrays in them, of which that is no answer."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    try:
        return bool(one == other)
    except ValueError:  # an array inside, compared entry by entry
        mine, theirs = _parts_of(one), _parts_of(other)
        if mine is None or theirs is None or mine.keys() != theirs.keys():
            return False
        return all(_equal(part, theirs[name]) for name, part in mine.items())


def _parts_of(value: Any) -> dict[Any, Any] | None:
    """By name or place; None of a value that has none here."""
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value) if each.compare}
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    return value if isinstance(value, dict) else None


class Asked(NamedTuple):
    """The question that a run answers: it goes on only with the same."""

    problem: Any
    algorithm: Any
    budget: Any  # samples or iterations, checkpoints, confidence: whatever else has to be the same
    seed: Any

    def require_same(self, resume: Any, kind: type) -> Any:
        """What an earlier run kept, if it is one of the same question; `kind` of result is wanted."""
        paused = getattr(resume, "paused", None)
        if not isinstance(resume, kind) or paused is None:
            raise InvalidInput(
                f"resume must be the partial {kind.__name__} of an exception, or one that ran out of time, "
                f"found {shown(resume)}"
            )
        before = paused.asked
        for what, same in (
            ("problem", same_problem(self.problem, before.problem)),
            ("way to call step (jobs= or none, vectorised= or not)", same_draws(self.problem, before.problem)),
            ("algorithm", same_settings(self.algorithm, before.algorithm)),
            ("budget (samples, checkpoints, options)", self.budget == before.budget),
            ("seed", same_seed(self.seed, before.seed)),
        ):
            if not same:
                raise InvalidInput(
                    f"resume is a run with another {what}: give the same problem, algorithm, budget and seed, or start "
                    f"anew without resume"
                )
        return paused


class Finished(NamedTuple):
    """A series of draws that is over, or another thing done once."""

    result: Any
    samples: int
    rng: Drawn  # after it


class Begun(NamedTuple):
    """A series of draws at the end of a piece."""

    state: Any
    drawn: int
    samples: int
    rng: Drawn
    world: Any = ()  # what it remembers


class PausedDraws(NamedTuple):
    """Where a run of several series was; the series at hand is the last, if one is."""

    asked: Any
    finished: tuple[Finished, ...] = ()
    begun: Begun | None = None

    @property
    def samples(self) -> int:
        return sum(series.samples for series in self.finished) + (self.begun.samples if self.begun is not None else 0)


class Draws:
    """All draws of one run: several series, with whatever its code does in between.

    To resume, the code runs again: what is finished is not done again, and leaves the generator as it did.
    """

    def __init__(
        self, seed: Any, pace: Pace | None = None, asked: Asked | None = None, resume: PausedDraws | None = None
    ) -> None:
        self.rng, self.pace = generator_of(seed), pace or Pace()
        self.paused = PausedDraws(asked) if resume is None else resume
        self._passed = 0  # of what is finished, how much the code has come through
        self.moved = False  # whether anything was finished since

    @property
    def samples(self) -> int:
        """Drawn so far, those since the last piece not counted."""
        return self.paused.samples

    @property
    def passed_samples(self) -> int:
        """Drawn by what the code has come through; less than `samples` while it runs again."""
        return sum(series.samples for series in self.paused.finished[: self._passed])

    def once(self, call: Callable[[], tuple[Any, int]]) -> Any:
        """The result of a call, which gives it with the samples that it drew; it is not made again after a resume."""
        finished = self.paused.finished
        if self._passed < len(finished):
            result, _, drawn = finished[self._passed]
            drawn.restore(self.rng)
        elif self.moved and self.pace.over:
            raise OutOfTime
        else:
            result, samples = call()
            done = Finished(result, samples, Drawn.by(self.rng))
            self.paused, self.moved = self.paused._replace(finished=(*finished, done), begun=None), True
        self._passed += 1
        return result

    def series(
        self,
        simulator: Any,
        state: Any,
        advance: Callable[[Any, Any, np.random.Generator, int, int], int],
        number: int,
        *,
        free: bool = False,
        ended: Callable[[Any], bool] = lambda state: False,
        result: Callable[[Any, int], Any] = lambda state, drawn: state,
    ) -> Any:
        """``result(state, drawn)`` after ``advance(state, world, rng, drawn, until) -> drawn`` came to `number`.

        Or less, if ``ended(state)`` says so. Draws that are `free` do not count as samples.
        """

        def draw() -> tuple[Any, int]:
            own, drawn, world, begun = state, 0, simulator.open(), self.paused.begun
            if begun is not None:
                own, drawn = kept(begun.state, whole=True), begun.drawn
                begun.rng.restore(self.rng)
                for now, before_it in zip(memory_of(world), begun.world, strict=True):
                    now[...] = before_it
            before = self.passed_samples

            def keep(done: int) -> None:
                now = Begun(kept(own), done, 0 if free else done, Drawn.by(self.rng), kept(memory_of(world)))
                self.paused = self.paused._replace(begun=now)

            def over() -> bool:
                return ended(own)

            drawn = self.pace.pieces(
                lambda done, until: int(advance(own, world, self.rng, done, until)),
                keep,
                drawn,
                number,
                ended=over,
                before=None if free else before,
            )
            if drawn < number and not over():
                raise OutOfTime
            return result(own, drawn), 0 if free else drawn

        return self.once(draw)

    def nested(self, call: Callable[[Any, float | None, Progress], Any]) -> Any:
        """A run within the run, ``call(resume, time_limit, progress)``, that is broken off and resumed with it."""

        def run() -> tuple[Any, int]:
            begun, before, tell = self.paused.begun, self.passed_samples, self.pace.progress

            def keep(partial: Any) -> None:
                if partial is not None:
                    drawn = int(partial.samples[-1])
                    now = Begun(partial, drawn, drawn, Drawn.by(self.rng))
                    self.paused = self.paused._replace(begun=now)

            told = None if tell is None else lambda drawn: tell(before + drawn)
            try:
                found = call(None if begun is None else begun.state, self.pace.left, told)
            except BaseException as error:
                keep(attached(error))
                raise
            if found.status != "done":
                keep(found)
                raise OutOfTime
            return found, int(found.samples[-1])

        return self.once(run)
