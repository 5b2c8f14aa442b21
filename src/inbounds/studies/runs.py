"""Many runs of learners, each judged exactly on the model; with a journal, none is done twice.

What a run comes to depends on its task alone: not on the other tasks, nor on the worker that ran it.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from inbounds.algorithms.algorithm import learn, record_of
from inbounds.arrays import Floats, Ints
from inbounds.errors import InvalidInput
from inbounds.formats.npz import digest
from inbounds.numerics.compiled import sources_digest
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import ROUNDING, evaluate
from inbounds.studies.journal import Journal, key_of
from inbounds.studies.parallel import run_jobs, valid_workers


class Task(NamedTuple):
    """One run: ``ib.learn(cmdp.simulator(), settings, samples=samples, seed=seed)``, judged on `cmdp`."""

    cmdp: CMDP
    settings: Any
    samples: int
    checkpoints: tuple[int, ...]
    seed: int


@dataclass(frozen=True)
class JudgedRun:
    """What one run came to: what a line of the journal holds. Values are totals: discounted sums."""

    algorithm: str
    seed: int
    samples: list[int] = field(default_factory=list)  # [C]
    rewards: list[float] = field(default_factory=list)  # [C]
    margins: list[list[float]] = field(default_factory=list)  # [C, K]
    seconds: float = 0.0  # of wall clock, of the learner alone
    settings: dict[str, float | str] = field(default_factory=dict)  # what they became for this problem and budget
    refusal: str = ""  # why it did not run


@dataclass(frozen=True, eq=False, kw_only=True)
class Curves:
    """Runs of several seeds at the same checkpoints. Values are totals: discounted sums, in the user's units."""

    samples: Ints  # [C]
    rewards: Floats  # [seeds, C]
    margins: Floats  # [seeds, C, K]
    margin_scales: Floats  # [K], the largest absolute total margin, for what counts as zero

    @property
    def out_of_bounds(self) -> npt.NDArray[np.bool_]:
        """Which runs are out of bounds at each checkpoint, [seeds, C]."""
        return np.any(self.margins < -ROUNDING * self.margin_scales, axis=2)


def curves(cmdp: CMDP, runs: Sequence[JudgedRun]) -> dict[str, Any]:
    """The fields of `Curves` from runs on `cmdp` with the same checkpoints; of no runs, empty."""
    shape = len(runs), len(runs[0].samples) if runs else 0
    return {
        "samples": np.array(runs[0].samples if runs else [], dtype=np.int64),
        "rewards": np.array([run.rewards for run in runs]).reshape(shape),
        "margins": np.array([run.margins for run in runs]).reshape(*shape, cmdp.n_constraints),
        "margin_scales": cmdp.total(cmdp.margin_scales),
    }


def run_tasks(
    tasks: Sequence[Task],
    *,
    workers: int | None = None,
    journal: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[JudgedRun], int]:
    """The runs, in the order of the tasks; and how many of them were found in the journal.

    `progress` is called with (runs finished, runs in all).

    Examples
    --------
    >>> import inbounds as ib
    >>> tasks = [Task(ib.zoo.queue(), ib.CRPO.practical(), 2_000, (1_000, 2_000), seed) for seed in range(3)]
    >>> runs, resumed = run_tasks(tasks, workers=1)
    >>> [run.seed for run in runs], runs[0].samples, resumed
    ([0, 1, 2], [1000, 2000], 0)
    """
    workers = valid_workers(workers)
    book = None if journal is None else Journal(journal)
    keys = [] if book is None else task_keys(tasks)
    found = {position: line for position, key in enumerate(keys) if book and (line := book.get(key)) is not None}
    runs = {position: JudgedRun(**line) for position, line in found.items()}

    def finish(position: int, run: JudgedRun) -> None:
        runs[position] = run
        if book is not None:
            book.add(keys[position], asdict(run))
        report()

    def report() -> None:
        if progress is not None:
            progress(len(runs), len(tasks))

    report()
    missing = [position for position in range(len(tasks)) if position not in found]
    # One run of each algorithm here, before the workers start: it compiles the kernels, which they find on disk.
    here = sorted({id(tasks[position].settings): position for position in reversed(missing)}.values())
    there = [position for position in missing if position not in here]
    for position in here:
        finish(position, run_judged(tasks[position]))
    run_jobs(
        run_judged,
        [(tasks[position],) for position in there],
        workers=workers,
        finished=lambda number, run: finish(there[number], run),
    )
    return [runs[position] for position in range(len(tasks))], len(found)


def run_judged(task: Task) -> JudgedRun:
    """Run a learner, and evaluate its policy at every checkpoint on the model."""
    name = record_of(task.settings).name
    try:
        run = learn(
            task.cmdp.simulator(), task.settings, samples=task.samples, seed=task.seed, checkpoints=task.checkpoints
        )
    except InvalidInput as refusal:
        return JudgedRun(name, task.seed, refusal=str(refusal))
    judged = [evaluate(task.cmdp, policy) for policy in run.policies]
    return JudgedRun(
        algorithm=name,
        seed=task.seed,
        samples=run.samples.tolist(),
        rewards=[one.total_reward for one in judged],
        margins=[one.total_margins.tolist() for one in judged],
        seconds=run.seconds,
        settings={name: value for name, value in run.settings.items() if isinstance(value, int | float | str)},
    )


def task_keys(tasks: Sequence[Task]) -> list[str]:
    """Under which each run is found in a journal: the same exactly when nothing that could change the run differs."""
    problems = {id(task.cmdp): task.cmdp for task in tasks}
    settings = {id(task.settings): task.settings for task in tasks}
    # Labels change no run.
    models = {key: digest(replace(cmdp, state_labels=None, action_labels=None)) for key, cmdp in problems.items()}
    made_of = {key: [_identity(one), _source_digest(type(one))] for key, one in settings.items()}
    return [
        key_of(models[id(cmdp)], *made_of[id(one)], samples, checkpoints, seed)
        for cmdp, one, samples, checkpoints, seed in tasks
    ]


def _identity(settings: Any) -> str:
    """What the settings are; something new every time for settings that no text tells apart, such as functions."""
    plain = is_dataclass(settings) and all(_plain(getattr(settings, field.name)) for field in fields(settings))
    return repr(settings) if plain else os.urandom(16).hex()


def _plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_plain(entry) for entry in value)
    return value is None or isinstance(value, bool | int | float | str | np.generic)


def _source_digest(settings_class: type) -> str:
    """Of everything that could change a run: the library, and the file of the algorithm if it is the user's own."""
    try:
        own = Path(inspect.getfile(settings_class)).read_bytes()
    except (TypeError, OSError):  # typed at a prompt: nothing tells whether it is still the same
        own = os.urandom(16)
    return sources_digest() + hashlib.sha256(own).hexdigest()
