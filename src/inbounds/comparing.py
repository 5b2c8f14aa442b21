"""Every algorithm on the same problem with the same budget, each policy judged exactly on the model.

Learners see the simulator only, and get no privileged information: what an algorithm needs to know, such as the Slater
constant, it estimates from samples that count. The one exception is a policy that is known to be safe, without which
some cannot begin: it is the same for all of them, and its own gap is shown beside theirs. Algorithms that know no
constraints run on the problem without them and are measured against its optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from inbounds.algorithms import ALGORITHMS
from inbounds.algorithms.algorithm import record_of
from inbounds.criteria.evaluation import evaluate
from inbounds.errors import InvalidInput
from inbounds.exact.methods import solve_uncertified
from inbounds.inputs import a_word, callback, file_path, named, shown, switch, whole_number
from inbounds.problem.cmdp import CMDP, require_model
from inbounds.problem.criterion import CRITERION_NAMES, require_criterion
from inbounds.problem.pieces import seconds_or_none
from inbounds.problem.policy import Policy
from inbounds.studies.comparison import Comparison, Entry
from inbounds.studies.journal import Journal
from inbounds.studies.runs import JudgedRun, Stage, Task, curves, run_stages
from inbounds.studies.safe import check_on_model, safe_policy, takes_safe
from inbounds.studies.suite import SuiteComparison, Yardstick, score_of
from inbounds.workers import valid_workers
from inbounds.zoo import suite as suite_of_problems

_CHECKPOINTS = 12
_FIRST = 0.005
"""The first checkpoint, as a share of the samples."""

_PUBLISHED_SEEDS = 3
"""Runs of an episodic learner with its paper's constants, at most: they do the same whatever the seed."""


def compare(
    cmdp: CMDP,
    algorithms: Sequence[str] | Mapping[str, Any] | None = None,
    *,
    samples: int = 100_000,
    seeds: int = 20,
    preset: str = "practical",
    scale: bool = True,
    safe: Policy | None = None,
    workers: int | None = None,
    journal: str | Path | Journal | None = None,
    progress: Callable[[int, int], None] | None = None,
    time_limit: float | None = None,
) -> Comparison:
    """Run algorithms on the same budget and judge their policies exactly.

    Run number `seed` of an algorithm is ``ib.learn(cmdp.simulator(scale), settings, samples=samples, seed=seed)``: any
    of them can be had again on its own, and the result does not depend on the number of workers. The values of a
    comparison are totals: discounted sums, or sums over the horizon. Gaps are those of one policy (simple regret). Of
    online learners, which play episode after episode, what the episodes cost is summed as well: regret and violation,
    strong and plain (`inbounds.studies.regret`); and beside their practical presets they are run with the constants of
    their papers. Problems with a long-run average are refused.

    Parameters
    ----------
    cmdp : CMDP
    algorithms : names, or a dict from name to settings
        Which ones; default: all of ``inbounds algorithms`` that are for problems of this criterion. An episodic learner
        that is named runs on a discounted problem too, by its truncation. Settings may be of the user's own algorithm.
    samples : int
        The budget of every run, in transitions.
    seeds : int
        Runs of each algorithm: seeds 0, 1, ...
    preset : "practical" or "paper"
        For algorithms given by name: the preset that works, or the paper's formulas.
    scale : bool
        False: learners see rewards and margins in the units of `cmdp`, not scaled to [0, 1] and [-1, 1].
    safe : Policy, optional
        For algorithms given by name that have to be given a safe policy; the others do not look at it, and it is
        refused where none of them would. Default: the best policy that keeps every scaled margin at half the Slater
        constant.
    workers : int, optional
        Processes; default: one per core.
    journal : path, optional
        A file in which finished runs are recorded, and from which they are taken when they are there already. Only
        settings of numbers, texts and policies can be recognised: with a function among them, such as a `Utility`, or
        where a class, or a function of its algorithm, is not at the top of a file under its own name, runs are done
        again. So they are when one of these files has changed; modules of your own that they import are not looked at:
        after a change there, take another journal.
    progress : callable, optional
        Called with (runs finished, runs in all).
    time_limit : float, optional
        Seconds for the runs, after which what is finished comes back, of some algorithms perhaps fewer runs, or none;
        ``status`` is then "time limit". With a journal the same call goes on from there. What is finished is also the
        ``error.partial`` of an exception that broke the runs off (Ctrl-C, an error in your own algorithm, a disk that
        is full), with the status "interrupted"; None where there is none.

    Examples
    --------
    >>> import inbounds as ib
    >>> found = ib.compare(ib.zoo.queue(), ["cspda", "crpo"], samples=20_000, seeds=2, workers=1)
    >>> found.entry("crpo").rewards.shape, round(found.optimum, 6)  # 2 seeds, 12 checkpoints
    ((2, 12), 4.644858)
    """
    require_model(cmdp, "compare")
    if "average" in cmdp.criterion:
        require_criterion(cmdp, "discounted or finite-horizon", "compare")
    seeds, samples = whole_number(seeds, "seeds"), whole_number(samples, "samples", least=1_000)
    workers, limit, scale = valid_workers(workers), seconds_or_none(time_limit), switch(scale, "scale")
    progress, book = callback(progress), _opened(journal)
    wanted = _wanted(algorithms, preset, cmdp)
    if safe is not None:
        _require_use_of_safe(wanted)
    elif not isinstance(wanted, Mapping):
        safe = _safe_for(cmdp, wanted)
    chosen = dict(wanted) if isinstance(wanted, Mapping) else _by_name(wanted, preset, safe)
    for one in chosen.values():
        check_on_model(one, cmdp)
    again = []  # with the papers' constants
    if preset == "practical" and not isinstance(wanted, Mapping):
        again = [name for name, one in chosen.items() if record_of(one).criterion == "finite-horizon"]
    free = cmdp.unconstrained()
    best, free_optimum = solve_uncertified(cmdp), solve_uncertified(free).total_reward
    begins = next((entry.safe for entry in chosen.values() if takes_safe(entry)), None)
    safe_gap = None if begins is None else best.total_reward - evaluate(cmdp, begins).total_reward
    settings, published_seeds = [(chosen, seeds)], min(seeds, _PUBLISHED_SEEDS)
    if again:
        settings.append((_by_name(again, "paper", safe), published_seeds))
    checkpoints = _checkpoints(samples, cmdp.horizon or 1)
    stages = [
        Stage(
            [Task(cmdp if record_of(one).constrained else free, one, scale) for one in own.values()],
            samples,
            checkpoints,
            each,
        )
        for own, each in settings
    ]

    def comparison(runs: list[list[list[JudgedRun]]], resumed: int, status: str) -> Comparison:
        without = f"the {'interruption' if status == 'interrupted' else 'time limit'} came first"

        def entry(name: str, task: Task, own: Sequence[JudgedRun]) -> Entry:
            optimum = best.total_reward if task.cmdp is cmdp else free_optimum
            return _entry(name, task.settings, own, task.cmdp, cmdp, optimum, without)

        ran, *published = (
            tuple(map(entry, of_stage, stage.arms, arms))
            for (of_stage, _), stage, arms in zip(settings, stages, runs, strict=True)
        )
        return Comparison(
            problem=cmdp.name or repr(cmdp),
            constraint_names=tuple(constraint.name for constraint in cmdp.constraints),
            optimum=best.total_reward,
            unconstrained_optimum=free_optimum,
            entries=ran,
            samples=samples,
            seeds=seeds,
            preset=preset,
            resumed=resumed,
            status=status,
            largest_price=float(np.max(best.prices, initial=0.0)),
            horizon=cmdp.horizon,
            published=published[0] if published else (),
            published_seeds=published_seeds if published else 0,
            safe_gap=safe_gap,
        )

    return run_stages(
        stages,
        comparison,
        workers=workers,
        journal=book,
        progress=progress,
        time_limit=limit,
    )


def compare_suite(
    suite: str | Mapping[str, CMDP] = "tuning",
    algorithms: Sequence[str] | Mapping[str, Any] | None = None,
    *,
    samples: int | Sequence[int] = (100_000, 1_000_000),
    seeds: int = 5,
    preset: str = "practical",
    scale: bool = True,
    workers: int | None = None,
    journal: str | Path | Journal | None = None,
    progress: Callable[[int, int], None] | None = None,
    time_limit: float | None = None,
) -> SuiteComparison:
    """Run algorithms on a suite of problems: how often in bounds, and how far from the optimum, over all of them.

    Gaps are relative, with what is out of bounds counted at its price (Lagrange multiplier), so that they are never
    negative: see `inbounds.studies.suite`. Runs are those of ``ib.compare``, and independent of the number of workers.
    Discounted problems with constraints only.

    Parameters
    ----------
    suite : "tuning", "untouched", "all", or a dict from name to CMDP
        Which half of ``ib.zoo.suite``; or problems of your own. Nothing should be tuned on the untouched half.
    algorithms : names, or a dict from name to settings
        Which ones; default: all of ``inbounds algorithms`` that are for discounted problems with constraints.
    samples : int, or several
        The budgets; every run has one of them, as presets depend on it.
    seeds, preset, scale, workers, journal, progress, time_limit
        As in ``ib.compare``.

    Examples
    --------
    >>> import inbounds as ib
    >>> problems = {name: ib.zoo.suite()[name] for name in ("tiny", "small")}
    >>> found = ib.compare_suite(problems, ["model-based", "crpo"], samples=10_000, seeds=2, workers=1)
    >>> found
    SuiteComparison(own problems: model-based, crpo; 2 problems, seeds 2, 10,000)
    >>> score = found.score("model-based", 10_000)
    >>> score.in_bounds.estimate >= 0.75, 0.0 <= score.gap.estimate < 0.1, sorted(score.gaps)
    (True, True, ['small', 'tiny'])
    """
    problems = suite_of_problems(suite) if isinstance(suite, str) else _own_problems(suite)
    listed = samples if isinstance(samples, list | tuple) and samples else [samples]
    budgets = sorted({whole_number(count, "samples", least=1_000) for count in listed})
    seeds, limit, workers = whole_number(seeds, "seeds"), seconds_or_none(time_limit), valid_workers(workers)
    scale, progress = switch(scale, "scale"), callback(progress)
    book = _opened(journal)
    if algorithms is None:
        algorithms = [name for name, one in ALGORITHMS.items() if _fits_suites(one)]
    wanted = _wanted(algorithms, preset, next(iter(problems.values())))
    chosen = dict(wanted) if isinstance(wanted, Mapping) else _by_name(wanted, preset, None)
    for name, one in chosen.items():
        if not _fits_suites(one):
            raise InvalidInput(f"{name} is not for discounted problems with constraints, which those of a suite are")
    known = {name: Yardstick.of(name, cmdp) for name, cmdp in problems.items()}
    tasks = [Task(cmdp, one, scale) for one in chosen.values() for cmdp in problems.values()]

    def comparison(runs: list[list[list[JudgedRun]]], resumed: int, status: str) -> SuiteComparison:
        scores = []
        for budget, arms in zip(budgets, runs, strict=True):
            for number, (name, one) in enumerate(chosen.items()):
                own = arms[number * len(problems) : (number + 1) * len(problems)]
                scores.append(score_of(name, repr(one), budget, known, own))
        return SuiteComparison(
            name=suite if isinstance(suite, str) else "own problems",
            problems=tuple(problems),
            optima={name: judge.optimum for name, judge in known.items()},
            scores=tuple(scores),
            samples=tuple(budgets),
            seeds=seeds,
            preset=preset,
            resumed=resumed,
            status=status,
        )

    return run_stages(
        [Stage(tasks, budget, [budget], seeds) for budget in budgets],
        comparison,
        workers=workers,
        journal=book,
        progress=progress,
        time_limit=limit,
    )


def _opened(journal: Any) -> Journal | None:
    """What the user gives is a path; the command line opens the journal itself, to run everything again."""
    return journal if journal is None or isinstance(journal, Journal) else Journal(file_path(journal, "the journal"))


def _fits_suites(algorithm: Any) -> bool:
    record = algorithm.algorithm
    return bool(record.constrained and record.criterion == "discounted")


def _own_problems(problems: Any) -> dict[str, CMDP]:
    if not isinstance(problems, Mapping) or not problems:
        raise InvalidInput(
            f'suite must be "tuning", "untouched", "all", or a dict from name to problem, found {shown(problems)}'
        )
    for name, cmdp in problems.items():
        require_model(cmdp, "compare_suite")
        require_criterion(cmdp, "discounted", "compare_suite")
        if cmdp.n_constraints == 0:
            raise InvalidInput(f"{name} has no constraints: a suite asks how often they are kept; use ib.compare")
    return dict(problems)


def _checkpoints(samples: int, length: int) -> list[int]:
    """Log-spaced counts, of whole episodes of that length; the last is all samples."""
    spaced = np.geomspace(_FIRST * samples, samples, _CHECKPOINTS)
    return sorted({min(max(round(count / length), 1) * length, samples) for count in spaced} | {samples})


def _entry(
    name: str, settings: Any, runs: Sequence[JudgedRun], ran_on: CMDP, cmdp: CMDP, optimum: float, without: str
) -> Entry:
    """The entry of the runs that ran; why others did not is said by their refusal, or `without` any."""
    ran, record = [run for run in runs if not run.refusal], record_of(settings)
    refusal = next((run.refusal for run in runs if run.refusal), "")
    return Entry(
        name=name,
        settings=repr(settings),
        constrained=ran_on.n_constraints == cmdp.n_constraints,
        optimum=optimum,
        seconds=np.array([run.seconds for run in ran]),
        refusal="" if ran else refusal or without,
        missing=refusal if ran else "",
        promise="; ".join(text for text in (record.sample_complexity, record.violation) if text),
        oscillates=record.oscillates,
        guarantee=ran[0].guarantee if ran else "",
        starts_safe=takes_safe(settings),
        **curves(ran_on, ran),
    )


def _wanted(algorithms: Any, preset: str, cmdp: CMDP) -> list[str] | Mapping[str, Any]:
    """The algorithms that were asked for, checked: names, or settings by name."""
    a_word(preset, "preset", "practical", "paper")
    if isinstance(algorithms, Mapping) and algorithms:
        for name, settings in algorithms.items():
            if not isinstance(name, str):
                raise InvalidInput(f"algorithms: the name of settings must be text, found {shown(name)}")
            record_of(settings)
        return algorithms
    if algorithms is None:
        (criterion,) = (CRITERION_NAMES[key] for key in cmdp.criterion)
        return [name for name, one in ALGORITHMS.items() if one.algorithm.criterion == criterion]
    if not isinstance(algorithms, list | tuple) or not algorithms or not all(isinstance(n, str) for n in algorithms):
        raise InvalidInput(
            f'algorithms must be a list of names, or a dict from name to settings such as {{"mine": ib.CSPDA()}}, '
            f"found {shown(algorithms)}"
        )
    for name in algorithms:
        named(name, ALGORITHMS, "algorithm")
    return list(algorithms)


def _by_name(names: Sequence[str], preset: str, safe: Policy | None) -> dict[str, Any]:
    """Settings of a preset, with the safe policy where one is needed."""
    made = {}
    for name in names:
        one, given = ALGORITHMS[name], {"safe": safe} if takes_safe(ALGORITHMS[name]) else {}
        made[name] = one.practical(**given) if preset == "practical" else one(**given)
    return made


def _require_use_of_safe(wanted: list[str] | Mapping[str, Any]) -> None:
    """Refuse a safe policy that nobody would look at."""
    if isinstance(wanted, Mapping):
        raise InvalidInput("safe is for algorithms given by name: write it into the settings that are to start from it")
    if not any(takes_safe(ALGORITHMS[name]) for name in wanted):
        starting = ", ".join(name for name, one in ALGORITHMS.items() if takes_safe(one))
        raise InvalidInput(
            f"safe is for algorithms that start from a safe policy ({starting}), and of those compared none does: "
            "leave it out, or name one of them"
        )


def _safe_for(cmdp: CMDP, names: Sequence[str]) -> Policy | None:
    """The policy that is safe by choice; None where no algorithm asks for one, or none is: then those say so."""
    try:
        return safe_policy(cmdp) if any(takes_safe(ALGORITHMS[name]) for name in names) else None
    except InvalidInput:
        return None
