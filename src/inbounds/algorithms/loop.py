"""The only loop and exit of a run: log-spaced checkpoints, pieces in between, and the record of the run.

`ib.learn` and `ib.iterate` are both this loop; one counts samples, the other iterations. `inbounds.problem.pieces` says
how it is broken off and resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from inbounds.algorithms.algorithm import (
    Algorithm,
    Answer,
    Averages,
    Prepared,
    Report,
    Run,
    promises_nothing,
    record_of,
)
from inbounds.algorithms.known import in_scaled_units, known_model
from inbounds.arrays import freeze
from inbounds.errors import InvalidInput, within_memory
from inbounds.inputs import float_vector, is_whole, shown, whole_number
from inbounds.problem.cmdp import CMDP
from inbounds.problem.criterion import require_criterion
from inbounds.problem.draws import fitted, memory_of
from inbounds.problem.pieces import Asked, Drawn, OutOfTime, Pace, Progress, attach, generator_of, kept
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Scaling, Simulator
from inbounds.problem.thoughts import UNTHOUGHT, Memory, Thoughts
from inbounds.tables import so_many

Extract = Callable[[Any], Answer]
"""``extract(state)``: the answer of a state, in scaled units."""

MOST_CHECKPOINTS = 100_000
"""Each keeps a policy."""


class Paused(NamedTuple):
    """A run at the end of a piece: everything that it takes to go on."""

    asked: Asked
    begun: Prepared  # its state as it is now
    done: int  # samples, or iterations
    outside: Any  # the state of the generator, and the buffers of a user's world; None on a known model
    reached: tuple[int, ...]  # checkpoints
    answers: tuple[Answer, ...]  # at each of them, in scaled units
    seconds: float  # of earlier calls
    thoughts: Memory = UNTHOUGHT  # of what comes next


def run_on_samples(
    simulator: Simulator,
    algorithm: Any,
    samples: int,
    seed: int | np.random.SeedSequence,
    checkpoints: int | Sequence[int] = 1,
    progress: Progress = None,
    time_limit: float | None = None,
    resume: Run | None = None,
    advance: Any = None,
) -> Run:
    """The run of ``ib.learn``, whose arguments these are, checked.

    `advance` takes the place of the algorithm's own: it does the same, and watches (`inbounds.studies.regret`).
    """
    pace, record = Pace(time_limit, progress), record_of(algorithm)
    refuse(record, simulator, "cmdp.unconstrained().simulator()")
    rng, world = generator_of(seed), simulator.open()
    asked = Asked(simulator, algorithm, (samples, tuple(checkpoint_counts(checkpoints, 0, samples))), seed)

    def prepare() -> Prepared:
        with within_memory(samples):
            begun = record.prepare(algorithm, simulator, samples, rng)
        return _prepared(begun, record, samples)

    def outside() -> Any:
        return Drawn.by(rng), kept(memory_of(world))

    if resume is None:
        trip = first(asked, prepare, outside)
        guarantee = within_ranges(trip.begun.guarantee, simulator)
        trip = trip._replace(begun=trip.begun._replace(guarantee=guarantee))
    else:
        trip = going_on(asked, resume)
        drawn, before = trip.outside
        drawn.restore(rng)
        for own, old in zip(memory_of(world), before, strict=True):
            own[...] = old
    own = partial(advance or fitted(record.advance, world), trip.begun.state, trip.begun.constants, world, rng)

    def draw(done: int, until: int) -> int:
        reached = own(done, until)
        if not is_whole(reached, until) or reached > until:  # or it would be waited for
            raise _wrong(record, "advance", f"{until:,}, the samples that it was to come to", reached)
        return until

    counts = checkpoint_counts(checkpoints, max(trip.begun.samples, record.before(trip.begun.constants)), samples)

    def extract(state: Any) -> Answer:
        return _checked(record.extract(state, trip.begun.constants, simulator), record, simulator)

    def report(begun: Prepared) -> Prepared:
        if record.report is None:
            return begun
        said = record.report(begun.state, begun.constants, simulator)
        if not isinstance(said, Report):
            raise _wrong(record, "report", "a Report", said)
        _require_words(said, record, "report")
        return begun._replace(settings=said.settings, guarantee=within_ranges(said.guarantee, simulator))

    discount = simulator.criterion.get("discount", 0.0)
    whole = record.period(trip.begun.constants)
    return visit(trip, counts, draw, extract, outside, simulator.scaling, discount, pace, report=report, whole=whole)


def _wrong(record: Algorithm, function: str, wanted: str, found: Any) -> InvalidInput:
    """What is said of an algorithm, a user's own, that does not keep to what is asked of it."""
    return InvalidInput(f"{function} of {record.name} must return {wanted}, found {shown(found)}")


def _prepared(begun: Any, record: Algorithm, samples: int) -> Prepared:
    """What a run begins with, if it can: what is wrong with it would come out when the run is over, or is printed."""
    if not isinstance(begun, Prepared) or not (is_whole(begun.samples, 0) and begun.samples <= samples):
        raise _wrong(record, "prepare", f"Prepared, with at most {samples:,} samples", begun)
    _require_words(begun, record, "prepare")
    return begun


def _require_words(said: Prepared | Report, record: Algorithm, function: str) -> None:
    """Refuse what cannot be said of a run."""
    if not isinstance(said.settings, Mapping):
        raise _wrong(record, function, f"a {type(said).__name__} whose settings are a dict", said.settings)
    if not isinstance(said.guarantee, str):
        raise _wrong(record, function, f"a {type(said).__name__} whose guarantee is a text", said.guarantee)


def _checked(answer: Any, record: Algorithm, simulator: Simulator) -> Answer:
    """An answer, if it is one of this problem: what is wrong with it would come out when the run is over."""
    if not isinstance(answer, Answer) or not isinstance(answer.policy, Policy):
        raise _wrong(record, "extract", "an Answer with a Policy", answer)
    if answer.policy.probabilities.shape[-1:] != simulator.shape[-1:]:
        raise _wrong(record, "extract", f"a policy of this problem ({simulator!r})", answer.policy)
    prices = float_vector(answer.prices, simulator.n_constraints, f"extract of {record.name}: the prices")
    if not isinstance(answer.averages, Averages):
        raise _wrong(record, "extract", "Averages", answer.averages)
    episodes = answer.episodes
    if episodes is not None and (not isinstance(episodes, np.ndarray) or episodes.ndim != 2):
        raise _wrong(record, "extract", "the sums of its episodes as an array [k, 1 + K], or None", episodes)
    return answer._replace(prices=prices)


def run_on_model(
    cmdp: CMDP,
    algorithm: Any,
    iterations: int,
    checkpoints: int | Sequence[int] = 1,
    progress: Progress = None,
    time_limit: float | None = None,
    resume: Run | None = None,
) -> Run:
    """The run of ``ib.iterate``, whose arguments these are, checked."""
    pace, record = Pace(time_limit, progress), record_of(algorithm)
    known = record.known
    assert known is not None
    refuse(record, cmdp, "cmdp.unconstrained()")
    scaling, scaled = in_scaled_units(cmdp)
    model = known_model(scaled)
    counts = checkpoint_counts(checkpoints, 0, iterations, "iterations")
    asked = Asked(cmdp, algorithm, (iterations, tuple(counts)), None)
    if resume is None:
        trip = first(asked, lambda: _prepared(known.prepare(algorithm, scaled, iterations), record, 0), lambda: None)
    else:
        trip = going_on(asked, resume)

    def iterate(done: int, until: int) -> int:
        known.advance(trip.begun.state, trip.begun.constants, model, done, until)
        return until

    def extract(state: Any) -> Answer:
        return known.extract(state, trip.begun.constants, cmdp)

    run = visit(trip, counts, iterate, extract, lambda: None, scaling, cmdp.discount, pace, iterations=True)
    if known.concluded is None or run.status != "done":
        return run
    return replace(run, guarantee=known.concluded(trip.begun.state, trip.begun.constants, cmdp))


def first(asked: Asked, prepare: Callable[[], Prepared], outside: Callable[[], Any]) -> Paused:
    """A run before its first piece. An exception on the way there has nothing to go on from: its `partial` is None."""
    try:
        begun = prepare()
    except BaseException as error:
        attach(error, None)
        raise
    return Paused(asked, begun, begun.samples, outside(), (), (), 0.0)


def going_on(asked: Asked, resume: Run) -> Paused:
    """What an earlier run kept, if it asked the same; copied, so that it can be gone on from again."""
    paused = asked.require_same(resume, Run)
    return paused._replace(begun=paused.begun._replace(state=kept(paused.begun.state, whole=True)))


def visit(
    trip: Paused,
    counts: Sequence[int],
    advance: Callable[[int, int], int],
    extract: Extract,
    outside: Callable[[], Any],
    scaling: Scaling,
    discount: float,
    pace: Pace,
    iterations: bool = False,
    report: Callable[[Prepared], Prepared] = lambda begun: begun,
    whole: int = 1,
) -> Run:
    """The run from `trip` on, with a policy at each of the counts (of samples, or of iterations).

    ``advance(done, until) -> until`` changes the state of `trip` in place. An exception carries the run so far as its
    `partial`; at a time limit that run is returned. Either is the run at a multiple of `whole`, wherever checkpoints
    are.
    """
    state, last = trip.begun.state, trip._replace(begun=trip.begun._replace(state=kept(trip.begun.state)))
    thoughts = Thoughts(pace, trip.thoughts)
    done, reached, answers = trip.done, trip.reached, trip.answers

    def keep(done: int) -> None:
        nonlocal last
        if done % whole == 0 or done == counts[-1]:
            begun = last.begun._replace(state=kept(state))
            last = last._replace(begun=begun, done=done, outside=outside(), reached=reached, answers=answers)
            thoughts.forget()

    def ended(status: str) -> Run:
        marks, given = last.reached, last.answers
        if last.done not in marks:  # stopped between two checkpoints
            of_answer = thoughts.memory if last.done == counts[len(marks)] else UNTHOUGHT
            marks, given = (*marks, last.done), (*given, _answer_so_far(last, extract, of_answer))
        counted, said = freeze(np.array(marks, dtype=np.int64)), _reported(last.begun, report, status)
        seconds, budget = last.seconds + pace.seconds, so_many(counts[-1], "iteration" if iterations else "sample")
        return Run(
            policy=given[-1].policy,
            prices=freeze(scaling.prices_in_user_units(given[-1].prices)),
            samples=freeze(np.zeros_like(counted)) if iterations else counted,
            policies=tuple(answer.policy for answer in given),
            seconds=seconds,
            scaling=scaling,
            settings=said.settings,
            guarantee=said.guarantee if status == "done" else _not_yet(said.guarantee, budget),
            averages_at=tuple(answer.averages.in_user_units(scaling, discount) for answer in given),
            episodes=None if given[-1].episodes is None else freeze(given[-1].episodes),
            iterations=counted if iterations else None,
            status=status,
            paused=None if status == "done" else last._replace(seconds=seconds, thoughts=thoughts.memory),
        )

    try:
        for checkpoint in counts[len(reached) :]:
            with thoughts.at_work():
                done = pace.pieces(advance, keep, done, checkpoint, going_on=True, whole=whole)
                if done < checkpoint:
                    return ended("time limit")
                answer = extract(state)
            before = [earlier._replace(episodes=None) for earlier in answers]  # the last has them all
            reached, answers = (*reached, done), (*before, answer)
            if last.done == done:
                last = last._replace(reached=reached, answers=answers)
                thoughts.forget()
                if pace.over and checkpoint < counts[-1]:
                    return ended("time limit")
        return ended("done")
    except OutOfTime:
        return ended("time limit")
    except BaseException as error:
        attach(error, ended("interrupted"))
        raise


def _reported(begun: Prepared, report: Callable[[Prepared], Prepared], status: str) -> Prepared:
    """What a run says of itself; of one that is broken off, what it said before if that is what failed."""
    try:
        return report(begun)
    except Exception:
        if status != "interrupted":
            raise
        return begun


def _not_yet(guarantee: str, budget: str) -> str:
    """A guarantee, which is of the whole run, as one that is broken off has it; what holds of no run stays as it is."""
    if not guarantee or promises_nothing(guarantee):
        return guarantee
    return f"none yet, as the run is broken off; when it is over, after its {budget}: {guarantee}"


def _answer_so_far(last: Paused, extract: Extract, thoughts: Memory) -> Answer:
    """The answer of the last copy, as far as it was thought through, or is in a moment.

    One without a policy when there is none yet, or it cannot be had.
    """
    try:
        if last.done > last.begun.samples:
            with Thoughts(Pace(), thoughts, hurried=True).at_work():
                return extract(last.begun.state)
    except OutOfTime:  # of a plan that a moment is too short for: as while there is no model yet
        problem = last.asked.problem
        return Answer(Policy.uniform(problem), np.full(problem.n_constraints, np.nan))
    except BaseException:  # also a second Ctrl-C: what matters is the first, and that the run can go on
        pass
    nothing: Any = None
    return Answer(nothing, np.full(last.asked.problem.n_constraints, np.nan))


def within_ranges(guarantee: str, simulator: Simulator) -> str:
    """A guarantee as far as the ranges that every theory here assumes are kept; they are, unless units are as given."""
    beyond = simulator.beyond_the_theory
    if not beyond:
        return guarantee
    why = f"the units are as given, and the theory assumes others: {beyond}"
    return f"{guarantee}; and {why}" if promises_nothing(guarantee) else f"none: {why}"


def refuse(record: Algorithm, problem: CMDP | Simulator, without: str) -> None:
    """Refuse a problem of another criterion, or with constraints that the algorithm knows nothing of."""
    if not (record.criterion == "finite-horizon" and "discount" in problem.criterion):  # which it truncates
        instead = "take one of the learners of episodes, such as ib.OptCMDP.practical() (`inbounds algorithms`)"
        require_criterion(problem, record.criterion, record.name, instead)
    if problem.n_constraints > 0 and not record.constrained:
        raise InvalidInput(
            f"{record.name} knows no constraints, and this problem has {problem.n_constraints}; drop them: {without}"
        )


def checkpoint_counts(checkpoints: int | Sequence[int], drawn: int, samples: int, what: str = "samples") -> list[int]:
    """Increasing counts (of `what`) after `drawn`, of which `samples` is the last."""
    single = isinstance(checkpoints, str | bytes) or getattr(checkpoints, "ndim", 1) == 0
    if single or not isinstance(checkpoints, Iterable):
        checkpoints = whole_number(checkpoints, "checkpoints", most=MOST_CHECKPOINTS)
        first = min(100, samples)
        spaced = np.geomspace(first, samples, checkpoints) if checkpoints > 1 else np.array([samples])
        wanted = {int(count) for count in np.rint(spaced)}
    else:
        wanted = {_count_up_to(samples, each, what) for each in checkpoints}
    return sorted({count for count in wanted if count > drawn} | {samples})


def _count_up_to(samples: int, given: Any, what: str) -> int:
    try:
        return whole_number(given, "checkpoints", most=samples)
    except InvalidInput:
        raise InvalidInput(
            f"checkpoints must be whole numbers between 1 and {what} ({samples:,}), found {shown(given)}"
        ) from None
