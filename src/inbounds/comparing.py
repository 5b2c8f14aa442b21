"""Every algorithm on the same problem with the same budget, each policy judged exactly on the model.

Learners see the simulator only, and get no privileged information: what an algorithm needs to know, such as the Slater
constant, it estimates from samples that count. Algorithms that know no constraints run on the problem without them and
are measured against its optimum.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from inbounds.algorithms import ALGORITHMS
from inbounds.algorithms.algorithm import record_of
from inbounds.arrays import Floats, Ints
from inbounds.errors import InvalidInput
from inbounds.exact.attempt import solve
from inbounds.formats.npz import digest
from inbounds.learning import learn
from inbounds.numerics.compiled import sources_digest
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import ROUNDING, evaluate
from inbounds.studies.journal import Journal, key_of
from inbounds.studies.parallel import run_jobs, valid_workers

_CHECKPOINTS = 12
_FIRST = 0.005
"""The first checkpoint, as a share of the samples."""


@dataclass(frozen=True, eq=False)
class Entry:
    """What the runs of one algorithm came to. Values are totals: discounted sums, in the user's units."""

    name: str
    settings: str  # as they would be typed
    constrained: bool  # otherwise it ran without the problem's constraints
    optimum: float  # of the problem that it ran on
    samples: Ints  # [C]
    rewards: Floats  # [seeds, C]
    margins: Floats  # [seeds, C, K]
    margin_scales: Floats  # [K], the largest absolute total margin, for what counts as zero
    seconds: Floats  # [seeds], of wall clock, of the learner alone
    refusal: str = ""  # why it did not run

    @property
    def gaps(self) -> Floats:
        """Optimum minus reward, [seeds, C]. Policies that are out of bounds can be better than the optimum."""
        return self.optimum - self.rewards

    @property
    def worst_margins(self) -> Floats:
        """The least margin of each run, [seeds, C]; infinite without constraints."""
        return np.min(self.margins, axis=2, initial=np.inf)

    @property
    def violations(self) -> Floats:
        """The largest violation of each run, [seeds, C]."""
        return np.max(-self.margins, axis=2, initial=0.0)

    @property
    def out_of_bounds(self) -> npt.NDArray[np.bool_]:
        """Which runs are out of bounds, [seeds, C]."""
        return np.any(self.margins < -ROUNDING * self.margin_scales, axis=2)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """All entries, and what they are measured against. Values are totals."""

    problem: str
    constraint_names: tuple[str, ...]
    optimum: float
    unconstrained_optimum: float
    entries: tuple[Entry, ...]
    samples: int
    seeds: int
    preset: str
    resumed: int  # runs that were found in the journal

    def entry(self, name: str) -> Entry:
        return next(entry for entry in self.entries if entry.name == name)

    def __repr__(self) -> str:
        names = ", ".join(entry.name for entry in self.entries)
        return f"Comparison({self.problem}: {names}; seeds {self.seeds}, samples {self.samples:,})"


def compare(
    cmdp: CMDP,
    algorithms: Sequence[str] | Mapping[str, Any] | None = None,
    *,
    samples: int = 100_000,
    seeds: int = 20,
    preset: str = "practical",
    workers: int | None = None,
    journal: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Run algorithms on the same budget and judge their policies exactly.

    Run number `seed` of an algorithm is ``ib.learn(cmdp.simulator(), settings, samples=samples, seed=seed)``: any of
    them can be had again on its own, and the result does not depend on the number of workers.

    Parameters
    ----------
    cmdp : CMDP
    algorithms : names, or a dict from name to settings
        Which ones; default: all of ``inbounds algorithms``. Settings may be of the user's own algorithm.
    samples : int
        The budget of every run.
    seeds : int
        Runs of each algorithm: seeds 0, 1, ...
    preset : "practical" or "paper"
        For algorithms given by name: the preset that works, or the paper's formulas.
    workers : int, optional
        Processes; default: one per core.
    journal : path, optional
        A file in which finished runs are recorded, and from which they are taken when they are there already. Only
        settings of numbers and texts can be recognised: with a function among them, such as a `Utility`, or of a class
        that is in no file, runs are done again.
    progress : callable, optional
        Called with (runs finished, runs in all).

    Examples
    --------
    >>> import inbounds as ib
    >>> found = ib.compare(ib.zoo.queue(), ["cspda", "crpo"], samples=20_000, seeds=2, workers=1)
    >>> found.entry("crpo").rewards.shape, round(found.optimum, 6)  # 2 seeds, 12 checkpoints
    ((2, 12), 4.644858)
    """
    if not isinstance(cmdp, CMDP):
        raise InvalidInput(f"compare takes a discounted problem, a CMDP; found {type(cmdp).__name__}")
    for what, count, least in (("seeds", seeds, 1), ("samples", samples, 1_000)):
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < least:
            raise InvalidInput(f"{what} must be a whole number of at least {least:,}, found {count!r}")
    chosen, workers = _settings(algorithms, preset), valid_workers(workers)
    checkpoints = sorted({round(count) for count in np.geomspace(_FIRST * samples, samples, _CHECKPOINTS)})
    free = cmdp.unconstrained()
    optimum, free_optimum = solve(cmdp).total_reward, solve(free).total_reward

    identity = digest(replace(cmdp, state_labels=None, action_labels=None))  # labels change no run
    jobs, keys = [], []
    for settings in chosen.values():
        made_of = [_identity(settings), _source_digest(type(settings))]
        for seed in range(seeds):
            jobs.append((cmdp if record_of(settings).constrained else free, settings, int(samples), checkpoints, seed))
            keys.append(key_of(identity, *made_of, int(samples), checkpoints, seed))
    book = None if journal is None else Journal(Path(journal))
    runs = [None if book is None else book.get(key) for key in keys]
    missing = [position for position, run in enumerate(runs) if run is None]
    done = resumed = len(jobs) - len(missing)
    if progress is not None:
        progress(done, len(jobs))

    def finish(position: int, run: dict[str, Any]) -> None:
        nonlocal done
        runs[position] = run
        if book is not None:
            book.add(keys[position], run)
        done += 1
        if progress is not None:
            progress(done, len(jobs))

    # One run of each algorithm here, before the workers start: it compiles the kernels, which they find on disk.
    here = [position for position in missing if jobs[position][-1] == 0]
    there = [position for position in missing if jobs[position][-1] != 0]
    for position in here:
        finish(position, run_one(*jobs[position]))
    run_jobs(
        run_one,
        [jobs[position] for position in there],
        workers=workers,
        finished=lambda number, run: finish(there[number], run),
    )

    entries = [
        _entry(name, settings, cmdp, free_optimum, optimum, runs[place * seeds : (place + 1) * seeds])
        for place, (name, settings) in enumerate(chosen.items())
    ]
    return Comparison(
        problem=cmdp.name or repr(cmdp),
        constraint_names=tuple(constraint.name for constraint in cmdp.constraints),
        optimum=optimum,
        unconstrained_optimum=free_optimum,
        entries=tuple(entries),
        samples=int(samples),
        seeds=int(seeds),
        preset=preset,
        resumed=resumed,
    )


def run_one(cmdp: CMDP, settings: Any, samples: int, checkpoints: Sequence[int], seed: int) -> dict[str, Any]:
    """One run, judged at every checkpoint: what a line of the journal holds."""
    try:
        run = learn(cmdp.simulator(), settings, samples=samples, seed=seed, checkpoints=checkpoints)
    except InvalidInput as refusal:
        return {"refusal": str(refusal)}
    judged = [evaluate(cmdp, policy) for policy in run.policies]
    return {
        "algorithm": record_of(settings).name,
        "seed": seed,
        "samples": run.samples.tolist(),
        "rewards": [one.total_reward for one in judged],
        "margins": [one.total_margins.tolist() for one in judged],
        "seconds": run.seconds,
    }


def _settings(algorithms: Sequence[str] | Mapping[str, Any] | None, preset: str) -> dict[str, Any]:
    if preset not in ("practical", "paper"):
        raise InvalidInput(f'preset must be "practical" or "paper", found {preset!r}')
    if isinstance(algorithms, Mapping):
        for settings in algorithms.values():
            record_of(settings)
        return dict(algorithms)
    if algorithms is None:
        algorithms = list(ALGORITHMS)
    if not isinstance(algorithms, list | tuple) or not all(isinstance(name, str) for name in algorithms):
        raise InvalidInput(
            f'algorithms must be a list of names, or a dict from name to settings such as {{"mine": ib.CSPDA()}}, '
            f"found {algorithms!r}"
        )
    names = list(algorithms)
    unknown = [name for name in names if name not in ALGORITHMS]
    if unknown:
        raise InvalidInput(f"no algorithm is called {unknown[0]!r}; there are: {', '.join(ALGORITHMS)}")
    return {name: ALGORITHMS[name].practical() if preset == "practical" else ALGORITHMS[name]() for name in names}


def _entry(
    name: str, settings: Any, cmdp: CMDP, free_optimum: float, optimum: float, runs: Sequence[dict[str, Any] | None]
) -> Entry:
    constrained = record_of(settings).constrained or cmdp.n_constraints == 0
    refusal = next((run["refusal"] for run in runs if run is not None and "refusal" in run), "")
    ran = [] if refusal else [run for run in runs if run is not None]
    n_constraints = cmdp.n_constraints if constrained else 0
    n_checkpoints = len(ran[0]["samples"]) if ran else 0
    return Entry(
        name=name,
        settings=repr(settings),
        constrained=constrained,
        optimum=optimum if constrained else free_optimum,
        samples=np.array(ran[0]["samples"] if ran else [], dtype=np.int64),
        rewards=np.array([run["rewards"] for run in ran]).reshape(len(ran), n_checkpoints),
        margins=np.array([run["margins"] for run in ran]).reshape(len(ran), n_checkpoints, n_constraints),
        margin_scales=cmdp.total(cmdp.margin_scales) if constrained else np.empty(0),
        seconds=np.array([run["seconds"] for run in ran]),
        refusal=refusal,
    )


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
