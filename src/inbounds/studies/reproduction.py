"""The paper's experiment: CSPDA on the queue, with and without conservatism, many seeds, under three readings.

The paper (section "Evaluations on a Queuing System") runs 200 independent simulations of T = 100,000 samples with
kappa = 0 and with kappa > 0. It claims that with kappa > 0 both constraint values end above zero, and that with kappa =
0 they do not, at similar reward. Two things are left open: in which units the costs went in, and delta, the
exploration. So everything is run under three readings,

    costs as printed    the costs of its text as they stand, its formulas for alpha, beta, M and kappa
    costs scaled        the same formulas, costs scaled to the ranges that its theory assumes
    practical preset    scaled, with the steps of `CSPDA.practical`, bare: ``repair=False``

and, at the end of the runs, over delta. At each checkpoint the policy of the average occupancy so far is evaluated
exactly on the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from inbounds.algorithms.cspda import CSPDA
from inbounds.arrays import Floats
from inbounds.errors import Stopped
from inbounds.exact.methods import solve_uncertified
from inbounds.inputs import whole_number
from inbounds.problem.pieces import seconds_or_none
from inbounds.studies.runs import Curves, JudgedRun, Stage, Task, curves, run_stages
from inbounds.studies.statistics import errors_beside, standard_error
from inbounds.zoo.single_server_queue import queue

PAPER_SLATER = 0.2
"""The Slater constant of the paper's experiment; exact for the queue in scaled units, and kept as printed too."""

PAPER_SAMPLES, PAPER_SEEDS = 100_000, 200

DELTA = 0.1
"""The exploration of the figures; the paper gives none."""

OTHER_DELTAS = (0.03, 0.04, 0.05, 0.2)
"""What else the sweep tries: dense where, as printed, the two curves cross zero."""

TOGETHER = 20
"""Runs that go to a worker at a time: a quarter of a second of them. One by one they would take a fifth longer."""

SURE = 0.9973
"""How sure it has to be that a mean is not zero to count as above or below it: as of three standard errors over very
many runs, by Student's t (`errors_beside`). By chance a mean is as far on the other side once in 700 times."""


class Reading(NamedTuple):
    """One way to read what the paper's experiment was."""

    name: str
    algorithm: CSPDA
    scale: bool


READINGS = (
    Reading("costs as printed", CSPDA(slater=PAPER_SLATER, exploration=DELTA), scale=False),
    Reading("costs scaled", CSPDA(slater=PAPER_SLATER, exploration=DELTA), scale=True),
    Reading("practical preset", CSPDA.practical(slater=PAPER_SLATER, exploration=DELTA, repair=False), scale=True),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Arm(Curves):
    """One setting of the experiment, and what its runs came to. Values are totals: discounted sums."""

    reading: str
    kappa: float  # in the units that the learner saw
    delta: float
    average_from: int  # the sample from which the output is averaged, once it has been reached

    @property
    def conservative(self) -> bool:
        return self.kappa > 0.0

    @property
    def mean_margins(self) -> Floats:
        """Over seeds, at the end, [K]."""
        return self.margins[:, -1].mean(axis=0)

    @property
    def standard_errors(self) -> Floats:
        """Of `mean_margins`, [K]."""
        return np.asarray(standard_error(self.margins[:, -1]))

    @property
    def share_out_of_bounds(self) -> float:
        """Of runs, at the end."""
        return float(self.out_of_bounds[:, -1].mean())

    @property
    def in_bounds_on_average(self) -> bool | None:
        """Whether the runs show that every mean margin is above zero, or that one is below; None if neither."""
        mean, room = self.mean_margins, errors_beside(self.runs, SURE) * self.standard_errors
        if np.all(mean > room):
            return True
        return False if np.any(mean < -room) else None


class Claim(NamedTuple):
    """Both halves of the paper's claim, for one reading and one delta. True: shown, False: refuted, None: neither."""

    reading: str
    delta: float
    conservative_in_bounds: bool | None  # with kappa > 0 every mean margin is above zero
    plain_out_of_bounds: bool | None  # with kappa = 0 some mean margin is below zero


@dataclass(frozen=True, eq=False)
class Reproduction:
    """The whole experiment. Values are totals."""

    constraint_names: tuple[str, ...]
    arms: tuple[Arm, ...]  # of the figures, all with the same delta
    sweep: tuple[Arm, ...]  # with other deltas; only the end of each run
    optimum: float
    conservative_optima: Mapping[str, float]  # by reading: of the problem tightened by kappa, in the learner's units
    seeds: int  # of each arm of the figures
    samples: int
    status: str = "done"
    """Or "time limit", or "interrupted" (see `run_stages`): then there are fewer seeds than asked for, or no sweep."""

    @property
    def readings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(arm.reading for arm in self.arms))

    def arm(self, reading: str, conservative: bool) -> Arm:
        """That of the figures."""
        return next(arm for arm in self.arms if arm.reading == reading and arm.conservative == conservative)

    def over_delta(self, reading: str, conservative: bool) -> list[Arm]:
        """The arms of one reading, with or without kappa, from the smallest delta to the largest."""
        own = (a for a in (*self.arms, *self.sweep) if a.reading == reading and a.conservative == conservative)
        return sorted(own, key=lambda arm: arm.delta)

    def claims(self, reading: str) -> list[Claim]:
        """What the runs say of both halves of the paper's claim, from the smallest delta to the largest."""
        pairs = zip(self.over_delta(reading, True), self.over_delta(reading, False), strict=True)
        verdicts = [(arm.delta, arm.in_bounds_on_average, plain.in_bounds_on_average) for arm, plain in pairs]
        return [Claim(reading, delta, safe, None if plain is None else not plain) for delta, safe, plain in verdicts]


class Crossing(NamedTuple):
    """Where the least mean margin changes its sign, between two deltas that were tried."""

    delta: float
    standard_error: float
    rising: bool  # it is above zero for larger deltas


def crossings(arms: Sequence[Arm]) -> list[Crossing]:
    """Where arms with growing delta go in or out of bounds on average, by linear interpolation.

    The standard error is that of the interpolated margin over the slope: the first term of the delta method.
    """
    found = []
    for one, other in pairwise(arms):
        low, high = float(one.mean_margins.min()), float(other.mean_margins.min())
        if (low < 0.0) == (high < 0.0):
            continue
        share, slope = low / (low - high), (high - low) / (other.delta - one.delta)
        errors = [float(arm.standard_errors[arm.mean_margins.argmin()]) for arm in (one, other)]
        error = np.hypot((1.0 - share) * errors[0], share * errors[1]) / abs(slope)
        found.append(Crossing(one.delta + share * (other.delta - one.delta), float(error), high > low))
    return found


def reproduce_queue(
    *,
    seeds: int = PAPER_SEEDS,
    samples: int = PAPER_SAMPLES,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    time_limit: float | None = None,
) -> Reproduction:
    """Run the paper's experiment; `progress` is called with (runs finished, runs in all).

    After `time_limit` seconds what comes back has as many seeds as every setting has finished, and no sweep over delta
    if that is fewer than two; `Stopped` is raised where the figures have fewer than two. An exception that broke the
    runs off, such as Ctrl-C, carries the same as its `partial`: with the status "interrupted", or None.

    Run number `seed` of an arm is ``ib.learn(queue.simulator(scale), settings, samples=samples, seed=seed)``: any of
    them can be had again on its own, and the result does not depend on the number of workers.

    Examples
    --------
    >>> small = reproduce_queue(seeds=2, samples=1_000, workers=1)
    >>> [(arm.reading, arm.conservative) for arm in small.arms]  # doctest: +NORMALIZE_WHITESPACE
    [('costs as printed', False), ('costs as printed', True), ('costs scaled', False), ('costs scaled', True),
     ('practical preset', False), ('practical preset', True)]
    >>> [arm.delta for arm in small.over_delta("costs as printed", conservative=True)]
    [0.03, 0.04, 0.05, 0.1, 0.2]
    """
    seeds, samples = whole_number(seeds, "seeds", least=2), whole_number(samples, "samples", least=1_000)
    problem, limit = queue(), seconds_or_none(time_limit)
    variants = [
        (reading, replace(reading.algorithm, exploration=delta, kappa=None if conservative else 0.0))
        for delta in (DELTA, *OTHER_DELTAS)
        for reading in READINGS
        for conservative in (False, True)
    ]
    tasks = [Task(problem, algorithm, reading.scale) for reading, algorithm in variants]
    in_figures = 2 * len(READINGS)

    def reproduction(runs: list[list[list[JudgedRun]]], _: int, status: str) -> Reproduction | None:
        """Of the seeds that every setting has finished; None where the figures have fewer than two."""
        common = [set.intersection(*({run.seed for run in judged} for judged in own)) for own in runs]
        if len(common[0]) < 2:
            return None
        figures, sweep = (
            tuple(
                Arm(
                    reading=reading.name,
                    kappa=float(judged[0].settings["kappa"]),
                    delta=algorithm.exploration,
                    average_from=samples // 2 if algorithm.average == "second half" else 0,
                    **curves(problem, [run for run in judged if run.seed in finished]),
                )
                for (reading, algorithm), judged in zip(of_stage, own, strict=True)
                if len(finished) >= 2
            )
            for of_stage, own, finished in zip(
                (variants[:in_figures], variants[in_figures:]), runs, common, strict=True
            )
        )
        kappas = {arm.reading: arm.kappa for arm in (*figures, *sweep) if arm.conservative}
        tightenings = {
            one.name: kappas[one.name] * problem.simulator(one.scale).scaling.margin_scales for one in READINGS
        }
        return Reproduction(
            constraint_names=tuple(constraint.name for constraint in problem.constraints),
            arms=figures,
            sweep=sweep,
            optimum=solve_uncertified(problem).total_reward,
            conservative_optima={
                name: solve_uncertified(problem.tightened(tightening)).total_reward
                for name, tightening in tightenings.items()
            },
            seeds=len(common[0]),
            samples=samples,
            status=status,
        )

    done = run_stages(
        [
            Stage(tasks[:in_figures], samples, _checkpoints(samples), seeds),
            Stage(tasks[in_figures:], samples, [samples], seeds),
        ],
        reproduction,
        workers=workers,
        progress=progress,
        together=TOGETHER,
        time_limit=limit,
    )
    if done is None:
        raise Stopped("time limit")
    return done


def _checkpoints(samples: int) -> list[int]:
    """Fifty even steps, for a linear axis, and a few early ones, where the curves move fastest."""
    even = {round(samples * k / 50) for k in range(1, 51)}
    early = {round(samples * share) for share in (0.001, 0.002, 0.005, 0.01)}
    return sorted(even | early)
