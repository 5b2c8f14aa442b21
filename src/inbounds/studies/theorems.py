"""The paper's theorems on runs at growing T: what is measured, beside what is proved.

Theorem 1 bounds the duality gap of the averages, Theorem 2 and Corollary 1 what the average occupancy is short of,
Theorem 3 and Corollary 2 the same of its policy: each in expectation over runs, which here is a mean over seeds. The
bounds are for alpha and beta set for T, so every T has runs of its own. `paper_plan.Bounds` says what follows for which
kappa.

Two problems: the paper's queue, where the T that Theorem 2 asks for is out of reach (2.0e12, with the constant of its
proof), and a small one, made so that it is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from inbounds.algorithms.cspda import CSPDA, PROOF_CONSTANT, price_radius, value_radius
from inbounds.algorithms.known import in_scaled_units
from inbounds.algorithms.paper_plan import Bounds, Sizes, paper_plan, proved_bounds, slater_for_theorem
from inbounds.algorithms.saddle_point import judge_averages
from inbounds.arrays import Floats
from inbounds.criteria.evaluation import evaluate
from inbounds.errors import Stopped
from inbounds.exact.methods import solve_uncertified
from inbounds.inputs import whole_number
from inbounds.learning import learn
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint
from inbounds.problem.pieces import attach, seconds_or_none
from inbounds.studies.parallel import run_jobs
from inbounds.zoo.single_server_queue import queue

MOST_SAMPLES = 100_000_000
"""Of one run: enough for the theorem's own T on the small problem."""

_TENS = tuple(10**power for power in range(3, 8))


@dataclass(frozen=True, eq=False)
class TheoremPoint:
    """Runs with one kappa at one T; scaled units, values normalised by (1 - discount)."""

    arm: str  # which kappa
    samples: int
    kappa: float
    duality_gap: Floats  # [seeds]
    flow_residual: Floats  # [seeds]
    occupancy_gap: Floats  # [seeds]: the optimum less <lam, r>
    occupancy_margins: Floats  # [seeds, K]: <lam, g_i>
    policy_gap: Floats  # [seeds]: the optimum less the value of the policy
    policy_margins: Floats  # [seeds, K]
    conservative_gap: float  # what the optimum loses by kappa: Lemma 3
    bounds: Bounds

    @property
    def checks(self) -> dict[str, tuple[float, float]]:
        """By name of the bound, what was measured (a mean over seeds, of margins the least) and the bound itself."""
        measured = {
            name: float(values.mean(axis=0).min()) if values.ndim == 2 else float(values.mean())
            for name, values in (
                ("duality_gap", self.duality_gap),
                ("flow_residual", self.flow_residual),
                ("conservative_gap", np.array(self.conservative_gap)),
                ("occupancy_gap", self.occupancy_gap),
                ("occupancy_margin", self.occupancy_margins),
                ("policy_gap", self.policy_gap),
                ("policy_margin", self.policy_margins),
            )
        }
        return {name: (value, getattr(self.bounds, name)) for name, value in measured.items()}

    @property
    def holds(self) -> dict[str, bool]:
        """Margins are at least their bound, all else is at most its; a billionth is rounding."""
        return {
            name: value >= bound - 1e-9 if name.endswith("margin") else value <= bound + 1e-9
            for name, (value, bound) in self.checks.items()
        }


@dataclass(frozen=True, eq=False)
class TheoremStudy:
    """What was measured on one problem."""

    problem: str
    sizes: Sizes
    slater: float
    own_samples: int  # the least T of Theorem 2, with the constant of its proof
    points: tuple[TheoremPoint, ...]
    price_sums: tuple[float, float]  # Lemma 1: the largest sum of best prices at any kappa here, and its bound
    value_sizes: tuple[float, float]  # Lemma 1: the largest best value of a state, and its bound
    status: str = "done"  # or "time limit", or "interrupted" (the partial of an exception): then points are missing


def small_problem() -> CMDP:
    """A problem so small, and with so much room (Slater constant 1), that T of the theorem's own is 93 million.

    A boiler, low or high on steam. When it is low it may be left alone or pushed, which is what earns; when it is high
    it vents. Pushing costs as much rest as anything else gives, so at most half the time may be spent on it.
    """
    return CMDP.from_dense(
        [[[0.9, 0.1], [0.3, 0.7]], [[0.8, 0.2], [0.0, 1.0]]],
        reward=[[0.0, 1.0], [0.0, 0.0]],
        constraints=[Constraint([[1.0, -1.0], [1.0, 0.0]], at_least=0.0, name="rest")],
        allowed=[[True, True], [True, False]],
        initial=[0.8, 0.2],
        discount=0.1,
        name="boiler",
    )


def study_theorems(
    *,
    seeds: int = 8,
    samples: int = MOST_SAMPLES,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    time_limit: float | None = None,
) -> tuple[TheoremStudy, ...]:
    """Run CSPDA by the paper's formulas at growing T, up to `samples`, on both problems, and judge its averages.

    At T = 1,000, 10,000, ... 10 million with kappa = 0 and with the kappa of the experiment's constant; and at the
    least T of Theorem 2 itself, where `samples` allows it, with kappa = 0 and with the theorem's kappa. `progress` is
    called with (runs finished, runs in all). The result does not depend on the number of workers.

    After `time_limit` seconds the points whose runs are all finished come back, and the problems that have one;
    `Stopped` is raised where none has. An exception that broke the runs off, such as Ctrl-C, carries the same as its
    `partial`: with the status "interrupted", or none.

    Examples
    --------
    >>> small = study_theorems(seeds=2, samples=10_000, workers=1)[1]
    >>> small.problem, small.own_samples, [(point.arm, point.samples) for point in small.points]
    ... # doctest: +NORMALIZE_WHITESPACE
    ('boiler', 93046456, [('kappa = 0', 1000), ('kappa = 0', 10000),
     ('kappa, constant 0.02', 1000), ('kappa, constant 0.02', 10000)])
    >>> all(all(point.holds.values()) for point in small.points)
    True
    """
    seeds, samples = whole_number(seeds, "seeds", least=2), whole_number(samples, "samples", least=_TENS[0])
    limit = seconds_or_none(time_limit)
    ends = None if limit is None else time.time() + limit
    problems = [queue(), small_problem()]
    facts = [_facts(problem) for problem in problems]
    arms = [(place, *arm) for place, (_, slater, own) in enumerate(facts) for arm in _arms(slater, own, samples)]
    jobs = [
        (problems[place], settings, count, seed, ends) for place, _, settings, count in arms for seed in range(seeds)
    ]
    found: dict[int, list[float]] = {}

    def finish(position: int, run: list[float] | None) -> None:
        if run is None:
            return
        found[position] = run
        if progress is not None:
            progress(len(found), len(jobs))

    def studies(missing: str) -> tuple[TheoremStudy, ...]:
        """Of the points whose runs are all finished; where some are not, `missing` says why."""
        rows = [[found.get(place * seeds + seed) for seed in range(seeds)] for place in range(len(arms))]
        made = []
        for place, problem in enumerate(problems):
            own = [(arm[1:], of_arm) for arm, of_arm in zip(arms, rows, strict=True) if arm[0] == place]
            whole = [(arm, np.array(of_arm)) for arm, of_arm in own if all(run is not None for run in of_arm)]
            if whole and whole[0][0] == own[0][0]:  # what the others are measured by
                made.append(_study(problem, *facts[place], whole, "done" if len(whole) == len(own) else missing))
        return tuple(made)

    # Those that the others are measured by here, in no time: something is then known before any worker starts, and
    # they find the kernel compiled. Then the longest first, so that none waits for one, unless they may not come to an
    # end.
    here = [position for position, job in enumerate(jobs) if job[2] == _TENS[0]]
    growing = 1 if ends is not None else -1
    order = sorted({*range(len(jobs))}.difference(here), key=lambda at: growing * jobs[at][2])
    try:
        for position in here:
            finish(position, judged_averages_run(*jobs[position]))
        run_jobs(
            judged_averages_run,
            [jobs[position] for position in order],
            workers=workers,
            finished=lambda number, run: finish(order[number], run),
            ends=ends,
        )
        done = studies("time limit")
    except BaseException as error:
        attach(error, studies("interrupted") or None)
        raise
    if not done:
        raise Stopped("time limit")
    return done


def _facts(problem: CMDP) -> tuple[Sizes, float, int]:
    """The sizes, the Slater constant in scaled units, and the least T of Theorem 2."""
    sizes = Sizes(problem.n_states, problem.n_pairs, problem.n_constraints, problem.discount)
    slater = round(slater_for_theorem(problem), 9)  # 0.2 and 1 by hand; no T may hang on the last bits of a solver
    return sizes, slater, paper_plan(sizes, 0.5, slater).statement.samples  # from 1 / 4 on, eps asks for no more


def _arms(slater: float, own: int, samples: int) -> list[tuple[str, CSPDA, int]]:
    """Name, settings and T of each arm on one problem."""
    tens = [count for count in _TENS if count <= samples]
    theirs = [own] if own <= samples else []
    plain, proved = CSPDA(slater=slater, kappa=0.0), CSPDA(slater=slater, constant=PROOF_CONSTANT)
    return [
        *(("kappa = 0", plain, count) for count in (*tens, *theirs)),
        *(("kappa, constant 0.02", CSPDA(slater=slater), count) for count in tens),
        *(("kappa, the proof's constant", proved, count) for count in theirs),
    ]


def judged_averages_run(
    cmdp: CMDP, settings: CSPDA, samples: int, seed: int, ends: float | None = None
) -> list[float] | None:
    """One run: kappa, gap, residual, reward and margins of the averages, reward and margins of the policy.

    None if ``time.time()`` `ends` it.
    """
    left = None if ends is None else ends - time.time()
    if left is not None and left <= 0.0:
        return None
    run = learn(cmdp.simulator(), settings, samples=samples, seed=seed, time_limit=left)
    if run.status != "done":
        return None
    averages, policy = judge_averages(run, cmdp), evaluate(cmdp, run.policy)
    assert averages.duality_gap is not None
    return [
        float(run.settings["kappa"]),
        float(averages.duality_gap[-1]),
        float(averages.flow_residual[-1]),
        float(averages.reward[-1]),
        *averages.margins[-1].tolist(),
        policy.reward,
        *policy.margins.tolist(),
    ]


def _study(
    problem: CMDP, sizes: Sizes, slater: float, own: int, runs: list[tuple[tuple[str, CSPDA, int], Floats]], status: str
) -> TheoremStudy:
    scaling, scaled = in_scaled_units(problem)
    n_constraints, optimum = problem.n_constraints, solve_uncertified(scaled).reward
    points, price_sums, value_sizes = [], [], []
    for (arm, _, samples), rows in runs:
        kappa = float(rows[0, 0])
        best = solve_uncertified(scaled.tightened(kappa))
        price_sums.append(float(best.prices.sum()))
        value_sizes.append(float(np.abs(best.value_function).max()) / (1.0 - sizes.discount))
        rewards = (rows[:, [3, 4 + n_constraints]] - scaling.reward_low) / scaling.reward_span
        points.append(
            TheoremPoint(
                arm=arm,
                samples=samples,
                kappa=kappa,
                duality_gap=rows[:, 1] / scaling.reward_span,
                flow_residual=rows[:, 2],
                occupancy_gap=optimum - rewards[:, 0],
                occupancy_margins=rows[:, 4 : 4 + n_constraints] / scaling.margin_scales,
                policy_gap=optimum - rewards[:, 1],
                policy_margins=rows[:, 5 + n_constraints :] / scaling.margin_scales,
                conservative_gap=max(optimum - best.reward, 0.0),
                bounds=proved_bounds(sizes, slater, samples, kappa),
            )
        )
    return TheoremStudy(
        problem=problem.name,
        sizes=sizes,
        slater=slater,
        own_samples=own,
        points=tuple(points),
        price_sums=(max(price_sums), price_radius(slater) / 2.0),
        value_sizes=(max(value_sizes), value_radius(slater, sizes.discount) / 2.0),
        status=status,
    )
