"""Every algorithm on the same problem with the same budget, each policy judged exactly on the model.

Learners see the simulator only, and get no privileged information: what an algorithm needs to know, such as the Slater
constant, it estimates from samples that count. Algorithms that know no constraints run on the problem without them and
are measured against its optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from inbounds.algorithms import ALGORITHMS
from inbounds.algorithms.algorithm import record_of
from inbounds.errors import InvalidInput
from inbounds.exact.methods import solve_uncertified
from inbounds.inputs import named, whole_number
from inbounds.problem.cmdp import CMDP, require_model
from inbounds.problem.criterion import require_criterion
from inbounds.problem.pieces import seconds_or_none
from inbounds.studies.comparison import Comparison, Entry
from inbounds.studies.parallel import valid_workers
from inbounds.studies.runs import Task, curves, run_arms

_CHECKPOINTS = 12
_FIRST = 0.005
"""The first checkpoint, as a share of the samples."""


def compare(
    cmdp: CMDP,
    algorithms: Sequence[str] | Mapping[str, Any] | None = None,
    *,
    samples: int = 100_000,
    seeds: int = 20,
    preset: str = "practical",
    scale: bool = True,
    workers: int | None = None,
    journal: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    time_limit: float | None = None,
) -> Comparison:
    """Run algorithms on the same budget and judge their policies exactly.

    Run number `seed` of an algorithm is ``ib.learn(cmdp.simulator(scale), settings, samples=samples, seed=seed)``: any
    of them can be had again on its own, and the result does not depend on the number of workers. Discounted problems
    only; the values of a comparison are totals, discounted sums. Gaps are those of one policy (simple regret): they are
    not summed over the run as regret is.

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
    scale : bool
        False: learners see rewards and margins in the units of `cmdp`, not scaled to [0, 1] and [-1, 1].
    workers : int, optional
        Processes; default: one per core.
    journal : path, optional
        A file in which finished runs are recorded, and from which they are taken when they are there already. Only
        settings of numbers and texts can be recognised: with a function among them, such as a `Utility`, or of a class
        that is in no file, runs are done again.
    progress : callable, optional
        Called with (runs finished, runs in all).
    time_limit : float, optional
        Seconds for the runs, after which what is finished comes back, of some algorithms perhaps fewer runs, or none;
        ``status`` is then "time limit". With a journal the same call goes on from there.

    Examples
    --------
    >>> import inbounds as ib
    >>> found = ib.compare(ib.zoo.queue(), ["cspda", "crpo"], samples=20_000, seeds=2, workers=1)
    >>> found.entry("crpo").rewards.shape, round(found.optimum, 6)  # 2 seeds, 12 checkpoints
    ((2, 12), 4.644858)
    """
    require_model(cmdp, "compare")
    require_criterion(cmdp, "discounted", "compare")
    seeds, samples = whole_number(seeds, "seeds"), whole_number(samples, "samples", least=1_000)
    chosen, workers, limit = _settings(algorithms, preset), valid_workers(workers), seconds_or_none(time_limit)
    counts = sorted({round(count) for count in np.geomspace(_FIRST * samples, samples, _CHECKPOINTS)})
    free = cmdp.unconstrained()
    optimum, free_optimum = solve_uncertified(cmdp).total_reward, solve_uncertified(free).total_reward
    arms = {name: (cmdp if record_of(one).constrained else free, one) for name, one in chosen.items()}
    runs, resumed = run_arms(
        [Task(*arm, scale) for arm in arms.values()],
        samples=samples,
        checkpoints=counts,
        seeds=seeds,
        workers=workers,
        journal=None if journal is None else Path(journal),
        progress=progress,
        time_limit=limit,
    )
    entries = []
    for (name, (ran_on, settings)), own in zip(arms.items(), runs, strict=True):
        refusal = next((run.refusal for run in own if run.refusal), "" if own else "the time limit came first")
        ran = [] if refusal else own
        entries.append(
            Entry(
                name=name,
                settings=repr(settings),
                constrained=ran_on.n_constraints == cmdp.n_constraints,
                optimum=optimum if ran_on is cmdp else free_optimum,
                seconds=np.array([run.seconds for run in ran]),
                refusal=refusal,
                **curves(ran_on, ran),
            )
        )
    return Comparison(
        problem=cmdp.name or repr(cmdp),
        constraint_names=tuple(constraint.name for constraint in cmdp.constraints),
        optimum=optimum,
        unconstrained_optimum=free_optimum,
        entries=tuple(entries),
        samples=samples,
        seeds=seeds,
        preset=preset,
        resumed=resumed,
        status="done" if all(len(own) == seeds for own in runs) else "time limit",
    )


def _settings(algorithms: Sequence[str] | Mapping[str, Any] | None, preset: str) -> dict[str, Any]:
    if preset not in ("practical", "paper"):
        raise InvalidInput(f'preset must be "practical" or "paper", found {preset!r}')
    if isinstance(algorithms, Mapping):
        for settings in algorithms.values():
            record_of(settings)
        return dict(algorithms)
    if algorithms is None:
        algorithms = [name for name, one in ALGORITHMS.items() if one.algorithm.criterion == "discounted"]
    if not isinstance(algorithms, list | tuple) or not all(isinstance(name, str) for name in algorithms):
        raise InvalidInput(
            f'algorithms must be a list of names, or a dict from name to settings such as {{"mine": ib.CSPDA()}}, '
            f"found {algorithms!r}"
        )
    classes = {name: named(name, ALGORITHMS, "algorithm") for name in algorithms}
    return {name: one.practical() if preset == "practical" else one() for name, one in classes.items()}
