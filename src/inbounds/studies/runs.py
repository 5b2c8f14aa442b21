"""Many runs of learners, each judged exactly on the model; with a journal, none is done twice.

What a run comes to depends on its problem, settings, samples and seed: not on other runs, nor on the worker.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from inbounds.algorithms.algorithm import record_of
from inbounds.arrays import Floats, Ints
from inbounds.criteria import criterion_of
from inbounds.criteria.evaluation import ROUNDING, evaluate
from inbounds.errors import BeyondMemory, InvalidInput
from inbounds.formats.npz import digest
from inbounds.learning import learn
from inbounds.numerics.compiled import sources_digest
from inbounds.problem.cmdp import CMDP
from inbounds.problem.pieces import Pace, attach, attached
from inbounds.problem.policy import Policy
from inbounds.studies.journal import Journal, key_of
from inbounds.studies.parallel import run_jobs
from inbounds.studies.regret import MEASURES, episode_optimum, play, plays_online

Made = TypeVar("Made")


class Task(NamedTuple):
    """A problem with the settings of an algorithm, and the units that it sees: scaled, or as the problem has them."""

    cmdp: CMDP
    settings: Any
    scale: bool = True
    optimum: float = 0.0  # of an episode, which online learners are judged by; `run_arms` finds it


class Stage(NamedTuple):
    """Runs of arms with the same budget, seeds and checkpoints, see `run_arms`."""

    arms: Sequence[Task]
    samples: int
    checkpoints: Sequence[int]
    seeds: int


@dataclass(frozen=True)
class JudgedRun:
    """What one run came to: what a line of the journal holds. Values are totals: discounted sums, or over a horizon."""

    algorithm: str
    seed: int
    samples: list[int] = field(default_factory=list)  # [C]
    rewards: list[float] = field(default_factory=list)  # [C]
    margins: list[list[float]] = field(default_factory=list)  # [C, K]
    seconds: float = 0.0  # of wall clock, of the learner alone
    settings: dict[str, float | str] = field(default_factory=dict)  # what they became for this problem and budget
    refusal: str = ""  # why it did not run
    beyond_memory: bool = False  # whether that is for want of memory: no journal holds it
    guarantee: str = ""
    played: dict[str, list[float]] = field(default_factory=dict)  # by name, [C]: see `inbounds.studies.regret`


@dataclass(frozen=True, eq=False, kw_only=True)
class Curves:
    """Runs of several seeds at the same checkpoints. Values are totals: discounted sums, or over a horizon."""

    seeds: Ints  # [seeds], of the runs that are here: where a limit was reached, others may be missing
    samples: Ints  # [C]
    rewards: Floats  # [seeds, C]
    margins: Floats  # [seeds, C, K]
    margin_scales: Floats  # [K], the largest absolute total margin, for what counts as zero
    played: Mapping[str, Floats] = field(default_factory=dict)
    """Of online learners, [seeds, C] each: "episodes" so far, and the sums of `inbounds.studies.regret` over them."""

    @property
    def runs(self) -> int:
        """How many are here."""
        return len(self.seeds)

    @property
    def out_of_bounds(self) -> npt.NDArray[np.bool_]:
        """Which runs are out of bounds at each checkpoint, [seeds, C]."""
        return np.any(self.margins < -ROUNDING * self.margin_scales, axis=2)


def curves(cmdp: CMDP, runs: Sequence[JudgedRun]) -> dict[str, Any]:
    """The fields of `Curves` from runs on `cmdp` with the same checkpoints; of no runs, empty."""
    shape = len(runs), len(runs[0].samples) if runs else 0
    return {
        "seeds": np.array([run.seed for run in runs], dtype=np.int64),
        "samples": np.array(runs[0].samples if runs else [], dtype=np.int64),
        "rewards": np.array([run.rewards for run in runs]).reshape(shape),
        "margins": np.array([run.margins for run in runs]).reshape(*shape, cmdp.n_constraints),
        "margin_scales": criterion_of(cmdp).total(cmdp.margin_scales),
        "played": {name: np.array([run.played[name] for run in runs]) for name in (runs[0].played if runs else ())},
    }


def run_stages(
    stages: Sequence[Stage],
    made: Callable[[list[list[list[JudgedRun]]], int, str], Made],
    *,
    workers: int | None = None,
    journal: Journal | None = None,
    progress: Callable[[int, int], None] | None = None,
    together: int = 1,
    time_limit: float | None = None,
) -> Made:
    """What a study makes of its runs: ``made(runs of each arm of each stage, found in the journal, status)``.

    The status is "done"; or "time limit", and then runs are missing. An exception carries as its `partial` what is made
    of the runs that were finished, with the status "interrupted"; None if there are none. The other arguments are those
    of `run_arms`.
    """
    pace, sizes = Pace(time_limit), [len(stage.arms) * stage.seeds for stage in stages]
    runs: list[list[list[JudgedRun]]] = [[[] for _ in stage.arms] for stage in stages]
    resumed = 0
    try:
        for place, stage in enumerate(stages):

            def report(done: int, _: int, before: int = sum(sizes[:place])) -> None:
                if progress is not None:
                    progress(before + done, sum(sizes))

            try:
                runs[place], found = run_arms(
                    stage.arms,
                    samples=stage.samples,
                    checkpoints=stage.checkpoints,
                    seeds=stage.seeds,
                    workers=workers,
                    journal=journal,
                    progress=report,
                    together=together,
                    time_limit=pace.left,
                )
            except BaseException as error:
                runs[place], found = attached(error) or (runs[place], 0)
                resumed += found
                raise
            resumed += found
        missing = sum(len(own) for arms in runs for own in arms) < sum(sizes)
        return made(runs, resumed, "time limit" if missing else "done")
    except BaseException as error:
        attach(error, made(runs, resumed, "interrupted") if any(map(any, runs)) else None)
        raise


def run_arms(
    arms: Sequence[Task | tuple[CMDP, Any]],
    *,
    samples: int,
    checkpoints: Sequence[int],
    seeds: int,
    workers: int | None = None,
    journal: Path | Journal | None = None,
    progress: Callable[[int, int], None] | None = None,
    together: int = 1,
    time_limit: float | None = None,
) -> tuple[list[list[JudgedRun]], int]:
    """The runs of each arm, a `Task`; and how many of all were found in the journal.

    After `time_limit` seconds no run is begun, and those under way are given up; those that are finished are returned,
    each with its seed. An exception carries as its `partial` what would be returned at that moment.

    Run number `seed` of an arm is ``ib.learn(cmdp.simulator(scale), settings, samples=samples, seed=seed)``, judged on
    `cmdp` at every checkpoint. `progress` is called with (runs finished, runs in all). Short runs cost less when some
    go `together` to a worker, see `run_jobs`.

    Examples
    --------
    >>> import inbounds as ib
    >>> arms = [(ib.zoo.queue(), ib.CRPO.practical()), (ib.zoo.queue(), ib.CSPDA.practical())]
    >>> runs, resumed = run_arms(arms, samples=2_000, checkpoints=(1_000, 2_000), seeds=3, workers=1)
    >>> [[run.seed for run in own] for own in runs], runs[0][0].samples, resumed
    ([[0, 1, 2], [0, 1, 2]], [1000, 2000], 0)
    """
    ends = None if time_limit is None else time.time() + time_limit
    jobs = [(task, samples, checkpoints, seed) for task in _with_optima(arms) for seed in range(seeds)]
    book = Journal(journal) if isinstance(journal, Path) else journal
    keys = [] if book is None else _keys(jobs)
    runs = {} if book is None else _recorded(jobs, seeds, [book.get(key) for key in keys])
    missing, resumed = [position for position in range(len(jobs)) if position not in runs], len(runs)

    def report() -> None:
        if progress is not None:
            progress(len(runs), len(jobs))

    def finish(position: int, run: JudgedRun | None) -> None:
        if run is None:
            return
        runs[position] = run
        # A refusal would take the place of a run; and another time there may be more memory.
        if book is not None and not (run.refusal and book.fresh) and not run.beyond_memory:
            book.add(keys[position], asdict(run))
        report()

    def so_far() -> tuple[list[list[JudgedRun]], int]:
        places = [range(place * seeds, (place + 1) * seeds) for place in range(len(arms))]
        return [[runs[position] for position in own if position in runs] for own in places], resumed

    # One run of each algorithm here, before the workers start: it compiles the kernels, which they find on disk.
    here = {type(jobs[position][0].settings): position for position in reversed(missing)}.values()
    # Seed by seed: when the time is over, no arm has many more runs than another.
    there = sorted((position for position in missing if position not in here), key=lambda position: position % seeds)
    waiting = [(*jobs[position], ends) for position in there]
    try:
        report()
        for position in sorted(here):
            finish(position, judged_run(*jobs[position], ends))
        run_jobs(
            judged_run,
            waiting,
            workers=workers,
            finished=lambda number, run: finish(there[number], run),
            together=together,
            ends=ends,
        )
        return so_far()
    except BaseException as error:
        attach(error, so_far())
        raise


def judged_run(
    task: Task, samples: int, checkpoints: Sequence[int], seed: int, ends: float | None = None
) -> JudgedRun | None:
    """Run a learner, and evaluate its policy at every checkpoint on the model; None if ``time.time()`` `ends` it."""
    cmdp, settings, scale, optimum = task
    name, left = record_of(settings).name, None if ends is None else ends - time.time()
    if left is not None and left <= 0.0:
        return None
    asked: Any = {"samples": samples, "seed": seed, "checkpoints": checkpoints, "time_limit": left}
    played: dict[str, list[float]] = {}
    try:
        if plays_online(settings):
            run, played = play(cmdp, settings, optimum, scale=scale, **asked)
        else:
            run = learn(cmdp.simulator(scale), settings, **asked)
    except InvalidInput as refusal:
        return JudgedRun(name, seed, refusal=str(refusal), beyond_memory=isinstance(refusal, BeyondMemory))
    if run.status != "done":
        return None
    judged = [evaluate(cmdp, policy) for policy in run.policies]
    return JudgedRun(
        algorithm=name,
        seed=seed,
        samples=run.samples.tolist(),
        rewards=[one.total_reward for one in judged],
        margins=[one.total_margins.tolist() for one in judged],
        seconds=run.seconds,
        settings={name: value for name, value in run.settings.items() if isinstance(value, int | float | str)},
        guarantee=run.guarantee,
        played=played,
    )


def _with_optima(arms: Sequence[Task | tuple[Any, ...]]) -> list[Task]:
    """The arms as tasks, with what an episode can be worth where episodes are judged: found once for all seeds."""
    known: dict[Any, float] = {}
    tasks = []
    for task in (Task(*arm) for arm in arms):
        if plays_online(task.settings):
            key = id(task.cmdp), getattr(task.settings, "epsilon", None)
            if key not in known:
                known[key] = episode_optimum(task.cmdp, task.settings)
            task = task._replace(optimum=known[key])
        tasks.append(task)
    return tasks


def _recorded(
    jobs: Sequence[tuple[Any, ...]], seeds: int, lines: Sequence[dict[str, Any] | None]
) -> dict[int, JudgedRun]:
    """The runs in lines of a journal, by position; a line that is no run of its job is passed over, whatever it says.

    A digest tells damage, not a line that somebody else wrote, or another program.
    """
    runs = {}
    for position, (job, line) in enumerate(zip(jobs, lines, strict=True)):
        try:
            run = None if line is None else JudgedRun(**line)
            if run is not None and _is_run_of(run, *job):
                runs[position] = run
        except (TypeError, ValueError, OverflowError):
            continue
    for first in range(0, len(jobs), seeds):  # runs of one arm have the same checkpoints
        own = [position for position in range(first, first + seeds) if position in runs]
        if len({tuple(runs[position].samples) for position in own}) > 1:
            for position in own:
                del runs[position]
    return runs


def _is_run_of(run: JudgedRun, task: Task, samples: int, checkpoints: Sequence[int], seed: int) -> bool:
    texts = isinstance(run.refusal, str) and isinstance(run.settings, dict) and isinstance(run.played, dict)
    if not texts or (run.algorithm, run.seed) != (record_of(task.settings).name, seed):
        return False
    if run.refusal:
        return not (run.samples or run.rewards or run.margins or run.played)
    counts, reached = sorted({*checkpoints, samples}), len(run.samples)
    played = [cost for costs in run.played.values() for cost in costs]
    numbers = np.array([*run.rewards, *(margin for margins in run.margins for margin in margins), *played, run.seconds])
    measured = ["episodes", *MEASURES] if plays_online(task.settings) else []
    return (
        0 < reached <= len(counts)
        and list(run.samples) == counts[-reached:]
        and len(run.rewards) == reached
        and [len(margins) for margins in run.margins] == [task.cmdp.n_constraints] * reached
        and list(run.played) == measured
        and all(len(costs) == reached for costs in run.played.values())
        and numbers.dtype.kind in "if"
        and bool(np.all(np.isfinite(numbers)))
    )


def _keys(jobs: Sequence[tuple[Any, ...]]) -> list[str]:
    """Under which the run of each job is found in a journal: the same when nothing that could change it differs."""
    problems = {id(task.cmdp): task.cmdp for task, *_ in jobs}
    settings = {id(task.settings): task.settings for task, *_ in jobs}
    # Labels change no run, unless a policy among the settings meets the problem by them.
    models = {key: digest(replace(cmdp, state_labels=None, action_labels=None)) for key, cmdp in problems.items()}
    made_of = {key: (_identity(one), _source_digest(one)) for key, one in settings.items()}
    met = {key: key_of(repr((cmdp.pairs.state_labels, cmdp.pairs.action_labels))) for key, cmdp in problems.items()}
    # The optimum is that of the model.
    return [
        key_of(
            models[id(task.cmdp)],
            *made_of[id(task.settings)],
            met[id(task.cmdp)] if _policies_of(task.settings) else "",
            task.scale,
            *rest,
        )
        for task, *rest in jobs
    ]


def _given(settings: Any) -> dict[str, Any]:
    """By name; all fields, also those that a class leaves out of its text, and whatever else it keeps."""
    if not is_dataclass(settings):
        return {"": settings}
    slots = {
        str(name) for own in inspect.getmro(type(settings)) for name in np.atleast_1d(vars(own).get("__slots__", ()))
    }
    kept = {field.name for field in fields(settings)} | getattr(settings, "__dict__", {}).keys() | slots
    return {name: getattr(settings, name) for name in sorted(kept) if hasattr(settings, name)}


def _policies_of(settings: Any) -> list[Policy]:
    return [value for value in _given(settings).values() if isinstance(value, Policy)]


def _identity(settings: Any) -> str:
    """What the settings are; something new every time for settings that no text tells apart, such as functions."""
    given = _given(settings)
    if not all(_plain(value) or isinstance(value, Policy) for value in given.values()):
        return os.urandom(16).hex()
    texts = {name: _policy_digest(value) if isinstance(value, Policy) else repr(value) for name, value in given.items()}
    return repr((type(settings).__qualname__, texts))


def _policy_digest(policy: Policy) -> str:
    """Of the probabilities, and of what they belong to: a policy meets a problem by its labels."""
    pairs = policy.pairs
    whose = repr((pairs.offsets.tolist(), pairs.actions.tolist(), pairs.state_labels, pairs.action_labels))
    return hashlib.sha256(whose.encode() + policy.probabilities.tobytes()).hexdigest()


def _plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_plain(entry) for entry in value)
    return value is None or isinstance(value, bool | int | float | str | np.generic)


def _source_digest(settings: Any) -> str:
    """Of all that the library can see of what could change a run: itself, and what an algorithm is made of.

    That is the classes of the settings, the functions of their records, and the files that these are in. Where one is
    not what its module has under its name, it was made by a function, and nothing tells what that was called with:
    then it is something new every time.
    """
    parts: list[Any] = [each for each in type(settings).__mro__ if each.__module__ != "builtins"]
    for record in (settings.algorithm, record_of(settings)):  # the one may be a frame around the other
        parts += [*record._replace(known=None), *(record.known or ())]
    try:
        own = repr([_found(part) if callable(part) else part for part in parts]).encode()
    except (AttributeError, KeyError, TypeError, OSError):
        own = os.urandom(16)
    return sources_digest() + hashlib.sha256(own).hexdigest()


def _found(part: Any) -> tuple[str, ...]:
    """The name of a class or a function, and its files; an error where it is not to be found there."""
    module = sys.modules[part.__module__]
    if attrgetter(part.__qualname__)(module) is not part:
        raise AttributeError(part)
    return part.__module__, part.__qualname__, *_files_of(part, module)


@cache
def _files_of(part: Any, module: Any) -> tuple[str, ...]:
    """Digests of the file of a class or a function, and that of its module, when first asked: what is run is no later.

    Nor may it be earlier: an error where a file was changed after it was imported. A function that was wrapped may come
    from another file than the name that it has.
    """
    files = {inspect.getfile(module), inspect.getfile(getattr(part, "py_func", part))}
    texts = {file: Path(file).read_bytes() for file in sorted(files)}
    if not _is_as_written(module, texts[inspect.getfile(module)]):
        raise OSError(f"{module} was changed after it was imported")
    return tuple(hashlib.sha256(text).hexdigest() for text in texts.values())


def _is_as_written(module: Any, text: bytes) -> bool:
    """Whether the functions of a module, and of its classes, are those that its file has now."""
    file = inspect.getfile(module)
    left, written = [compile(text, file, "exec", dont_inherit=True)], set[Any]()
    while left:
        inner = [each for each in left.pop().co_consts if inspect.iscode(each)]
        left += inner
        written.update(inner)
    own = [each for each in vars(module).values() if getattr(each, "__module__", None) == module.__name__]
    own += [method for each in own if inspect.isclass(each) for method in vars(each).values()]
    plain = [inspect.unwrap(getattr(each, "__func__", getattr(each, "py_func", each))) for each in own]
    codes = [each.__code__ for each in plain if inspect.isfunction(each)]
    return all(code in written for code in codes if code.co_filename == file)
