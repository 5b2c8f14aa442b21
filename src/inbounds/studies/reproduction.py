"""The paper's experiment: CSPDA on the queue, with and without conservatism, many seeds.

The paper (section "Evaluations on a Queuing System") runs 200 independent simulations of T = 100,000 samples with
kappa = 0 and with kappa > 0. It does not say which step sizes it used; we run the experiment twice, with its formulas
and with the practical preset. At each checkpoint the policy of the average occupancy so far is evaluated exactly on
the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from inbounds.algorithms.cspda import CSPDA
from inbounds.arrays import Floats
from inbounds.exact.methods import solve_uncertified
from inbounds.inputs import whole_number
from inbounds.studies.runs import Curves, curves, run_arms
from inbounds.zoo.single_server_queue import queue

PAPER_SLATER = 0.2
"""The Slater constant of the paper's experiment, in scaled units; it is exact for the queue."""

PAPER_SAMPLES, PAPER_SEEDS = 100_000, 200


@dataclass(frozen=True, eq=False, kw_only=True)
class Arm(Curves):
    """One setting of the experiment, and what its runs came to. Values are totals: discounted sums."""

    setting: str  # "paper's formulas" or "practical preset"
    kappa: float  # scaled units
    average_from: int  # the sample from which the output is averaged, once it has been reached

    @property
    def conservative(self) -> bool:
        return self.kappa > 0.0

    @property
    def mean_margins(self) -> Floats:
        """Over seeds, at the end, [K]."""
        return self.margins[:, -1].mean(axis=0)


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
    seeds, samples = whole_number(seeds, "seeds", least=2), whole_number(samples, "samples", least=1_000)
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
    runs, _ = run_arms(
        [(problem, algorithm) for _, algorithm in arms],
        samples=samples,
        checkpoints=_checkpoints(samples),
        seeds=seeds,
        workers=workers,
        progress=progress,
    )
    results = [
        Arm(
            setting=name,
            kappa=float(own[0].settings["kappa"]),
            average_from=samples // 2 if algorithm.average == "second half" else 0,
            **curves(problem, own),
        )
        for (name, algorithm), own in zip(arms, runs, strict=True)
    ]
    kappa = max(arm.kappa for arm in results)
    return Reproduction(
        constraint_names=tuple(constraint.name for constraint in problem.constraints),
        arms=tuple(results),
        optimum=solve_uncertified(problem).total_reward,
        conservative_optimum=solve_uncertified(problem.tightened(kappa * problem.margin_scales)).total_reward,
        kappa=kappa,
        seeds=seeds,
    )


def _checkpoints(samples: int) -> list[int]:
    """Fifty even steps, for a linear axis, and a few early ones, where the curves move fastest."""
    even = {round(samples * k / 50) for k in range(1, 51)}
    early = {round(samples * share) for share in (0.001, 0.002, 0.005, 0.01)}
    return sorted(even | early)
