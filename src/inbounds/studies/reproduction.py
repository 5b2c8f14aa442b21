"""The paper's experiment: CSPDA on the queue, with and without conservatism, many seeds.

The paper (section "Evaluations on a Queuing System") runs 200 independent simulations of T = 100,000 samples with
kappa = 0 and with kappa > 0. It does not say which step sizes it used; we run the experiment twice, with its formulas
and with the practical preset. At each checkpoint the policy of the average occupancy so far is evaluated exactly on
the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from inbounds.algorithms.cspda import CSPDA
from inbounds.arrays import Floats, Ints
from inbounds.errors import InvalidInput
from inbounds.exact.attempt import solve
from inbounds.learning import learn
from inbounds.problem.policy import ROUNDING, evaluate
from inbounds.studies.parallel import run_jobs
from inbounds.zoo.single_server_queue import queue

PAPER_SLATER = 0.2
"""The Slater constant of the paper's experiment, in scaled units; it is exact for the queue."""

PAPER_SAMPLES, PAPER_SEEDS = 100_000, 200

_SEEDS_PER_JOB = 5


@dataclass(frozen=True, eq=False)
class Arm:
    """One setting of the experiment, and what its runs came to. Values are totals: discounted sums."""

    setting: str  # "paper's formulas" or "practical preset"
    kappa: float  # scaled units
    average_from: int  # the sample from which the output is averaged, once it has been reached
    samples: Ints  # [C]
    rewards: Floats  # [seeds, C]
    margins: Floats  # [seeds, C, K]
    margin_scales: Floats  # [K], the largest absolute total margin, for what counts as zero

    @property
    def conservative(self) -> bool:
        return self.kappa > 0.0

    @property
    def mean_margins(self) -> Floats:
        """Over seeds, at the end, [K]."""
        return self.margins[:, -1].mean(axis=0)

    @property
    def out_of_bounds(self) -> npt.NDArray[np.bool_]:
        """Which runs are out of bounds at each checkpoint, [seeds, C]."""
        return np.any(self.margins < -ROUNDING * self.margin_scales, axis=2)


@dataclass(frozen=True, eq=False)
class Reproduction:
    """The whole experiment. Values are totals."""

    constraint_names: tuple[str, ...]
    arms: tuple[Arm, ...]
    optimum: float
    conservative_optimum: float
    kappa: float  # of the conservative arms, scaled units
    seeds: int

    def arm(self, setting: str, conservative: bool) -> Arm:
        return next(arm for arm in self.arms if arm.setting == setting and arm.conservative == conservative)

    @property
    def settings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(arm.setting for arm in self.arms))


def reproduce_queue(
    *,
    seeds: int = PAPER_SEEDS,
    samples: int = PAPER_SAMPLES,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Reproduction:
    """Run the paper's experiment; `progress` is called with (runs finished, runs in all).

    Run number `seed` of an arm is ``ib.learn(queue.simulator(), settings, samples=samples, seed=seed)``: any of them
    can be had again on its own, and the result does not depend on the number of workers.

    Examples
    --------
    >>> small = reproduce_queue(seeds=2, samples=1_000, workers=1)
    >>> [(arm.setting, arm.conservative, arm.rewards.shape[0]) for arm in small.arms]
    ... # doctest: +NORMALIZE_WHITESPACE
    [("paper's formulas", False, 2), ("paper's formulas", True, 2),
     ('practical preset', False, 2), ('practical preset', True, 2)]
    """
    for what, count, least in (("seeds", seeds, 2), ("samples", samples, 1_000)):
        if isinstance(count, bool) or not isinstance(count, int) or count < least:
            raise InvalidInput(f"{what} must be a whole number of at least {least}, found {count!r}")
    problem = queue()
    settings = {
        "paper's formulas": CSPDA(slater=PAPER_SLATER),
        "practical preset": CSPDA.practical(slater=PAPER_SLATER),
    }
    arms = [
        (name, algorithm if conservative else replace(algorithm, kappa=0.0))
        for name, algorithm in settings.items()
        for conservative in (False, True)
    ]
    checkpoints = _checkpoints(samples)
    blocks = [list(range(first, min(first + _SEEDS_PER_JOB, seeds))) for first in range(0, seeds, _SEEDS_PER_JOB)]
    jobs = [(algorithm, samples, checkpoints, block) for _, algorithm in arms for block in blocks]

    # Compile before the workers start, so that they find the kernel on disk.
    kappas = [learn(problem.simulator(), algorithm, samples=samples).settings["kappa"] for _, algorithm in arms]
    finished = 0

    def count_runs(position: int, values: Floats) -> None:
        nonlocal finished
        finished += len(values)
        if progress is not None:
            progress(finished, len(arms) * seeds)

    found = run_jobs(run_block, jobs, workers=workers, finished=count_runs)
    results = []
    for position, (name, algorithm) in enumerate(arms):
        values = np.concatenate(found[position * len(blocks) : (position + 1) * len(blocks)])
        results.append(
            Arm(
                setting=name,
                kappa=float(kappas[position]),
                average_from=samples // 2 if algorithm.average == "second half" else 0,
                samples=np.array(checkpoints),
                rewards=values[:, :, 0],
                margins=values[:, :, 1:],
                margin_scales=problem.total(problem.margin_scales),
            )
        )
    kappa = max(arm.kappa for arm in results)
    return Reproduction(
        constraint_names=tuple(constraint.name for constraint in problem.constraints),
        arms=tuple(results),
        optimum=solve(problem).total_reward,
        conservative_optimum=solve(problem.tightened(kappa * problem.margin_scales)).total_reward,
        kappa=kappa,
        seeds=seeds,
    )


def run_block(algorithm: CSPDA, samples: int, checkpoints: Sequence[int], seeds: Sequence[int]) -> Floats:
    """Total reward and margins of every checkpoint's policy for some seeds, [seeds, C, 1 + K]."""
    problem = queue()
    simulator = problem.simulator()
    values = np.empty((len(seeds), len(checkpoints), 1 + problem.n_constraints))
    for row, seed in zip(values, seeds, strict=True):
        run = learn(simulator, algorithm, samples=samples, seed=seed, checkpoints=checkpoints)
        for entry, policy in zip(row, run.policies, strict=True):
            judged = evaluate(problem, policy)
            entry[0], entry[1:] = judged.total_reward, judged.total_margins
    return values


def _checkpoints(samples: int) -> list[int]:
    """Fifty even steps, for a linear axis, and a few early ones, where the curves move fastest."""
    even = {round(samples * k / 50) for k in range(1, 51)}
    early = {round(samples * share) for share in (0.001, 0.002, 0.005, 0.01)}
    return sorted(even | early)
