"""What algorithms come to on a suite of problems: how often in bounds, and how far from the optimum.

The *relative gap* of a policy counts what is out of bounds at its price:

    (optimum - reward + sum over constraints of price * violation) / |optimum|

It is never negative. With the best prices u >= 0 no policy has reward + sum u margin above the optimum (weak duality),
and margin >= -violation. So a policy cannot look better than the optimum by being out of bounds, as its plain gap can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inbounds.arrays import Floats, Ints
from inbounds.errors import InvalidInput
from inbounds.exact.methods import solve_uncertified
from inbounds.inputs import named, plain_number, shown
from inbounds.problem.cmdp import CMDP
from inbounds.studies.runs import Curves, JudgedRun, curves
from inbounds.studies.statistics import Interval, interquartile, share
from inbounds.tables import so_many_of


@dataclass(frozen=True, eq=False, kw_only=True)
class Score:
    """The runs of one algorithm with one budget, on every problem of a suite."""

    algorithm: str
    settings: str  # as they would be typed
    samples: int
    seeds: Mapping[str, Ints]  # of each problem: those of the runs that are here [runs]
    gaps: Mapping[str, Floats]  # of each problem: relative gap of each run [runs]; no unit
    outside: Mapping[str, npt.NDArray[np.bool_]]  # of each problem: whether each run is out of bounds [runs]
    refusals: Mapping[str, str]  # why it did not run on some problems
    seconds: float  # of wall clock, of the learner alone, all runs

    @property
    def in_bounds(self) -> Interval:
        """The share of all runs, with its Wilson interval."""
        flags = np.concatenate(list(self.outside.values()))
        return share(int(np.count_nonzero(~flags)), len(flags))

    @property
    def runs(self) -> int:
        return sum(map(len, self.gaps.values()))

    @property
    def gap(self) -> Interval:
        """The interquartile mean of the relative gap of all runs, with its interval by the stratified bootstrap."""
        return interquartile(list(self.gaps.values()))

    @property
    def worst(self) -> tuple[str, float]:
        """The problem with the largest mean relative gap, and that."""
        means = {problem: float(gaps.mean()) for problem, gaps in self.gaps.items() if len(gaps)}
        return max(means.items(), key=lambda item: item[1], default=("", float("nan")))

    @property
    def most_outside(self) -> tuple[str, int]:
        """The problem on which most runs are out of bounds, and how many; no name when there are none."""
        counts = {problem: int(np.count_nonzero(flags)) for problem, flags in self.outside.items()}
        problem, count = max(counts.items(), key=lambda item: item[1], default=("", 0))
        return (problem if count else "", count)


@dataclass(frozen=True, eq=False, repr=False)
class SuiteComparison:
    """Every algorithm with every budget on a suite, see `Score`."""

    name: str  # of the suite
    problems: tuple[str, ...]
    optima: Mapping[str, float]  # of each problem: its total, a discounted sum
    scores: tuple[Score, ...]
    samples: tuple[int, ...]
    seeds: int
    preset: str
    resumed: int  # runs that were found in the journal
    status: str = "done"  # or "time limit", or "interrupted" (see `run_stages`): then runs are missing

    @property
    def runs(self) -> str:
        """How many each algorithm has on each problem, in words: "5 runs", or "0 to 1 of 5 runs"."""
        return so_many_of([len(gaps) for score in self.scores for gaps in score.gaps.values()], self.seeds, "run")

    @property
    def asked(self) -> int:
        """How many each score would have if none were missing."""
        return self.seeds * len(self.problems)

    def score(self, algorithm: str, samples: int) -> Score:
        """What an algorithm came to with a budget."""
        known = {score.algorithm: score for score in self.scores}
        called = named(algorithm, known, "algorithm").algorithm
        own = [score for score in self.scores if score.algorithm == called]
        for score in own:
            if score.samples == plain_number(samples):
                return score
        budgets = " and ".join(f"{score.samples:,}" for score in own)
        raise InvalidInput(f"{algorithm} was not compared with {shown(samples)} samples, only with {budgets}")

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(score.algorithm for score in self.scores))
        budgets = " and ".join(f"{count:,}" for count in self.samples)
        finished = f", {self.runs}" * (self.status != "done")
        number = f"{len(self.problems)} problems, seeds {self.seeds}{finished}"
        return f"SuiteComparison({self.name}: {names}; {number}, {budgets})"


class Yardstick(NamedTuple):
    """A problem with what runs on it are held against: its optimum, a total, and its prices [K]."""

    cmdp: CMDP
    optimum: float
    prices: Floats

    @classmethod
    def of(cls, name: str, cmdp: CMDP) -> Yardstick:
        best = solve_uncertified(cmdp)
        if best.total_reward == 0.0:
            raise InvalidInput(f"the optimum of {name} is 0, and the gaps of a suite are relative to it")
        return cls(cmdp, best.total_reward, best.prices)

    def gaps(self, rewards: Floats, margins: Floats) -> Floats:
        """The relative gap [...] of rewards [...] and margins [..., K], which are totals.

        Examples
        --------
        >>> import inbounds as ib
        >>> judge = Yardstick(ib.zoo.suite()["tiny"], optimum=2.0, prices=np.array([0.5]))
        >>> judge.gaps(np.array([1.5, 2.5]), np.array([[1.0], [-2.0]])).tolist()
        [0.25, 0.25]
        """
        return (self.optimum - rewards + np.maximum(-margins, 0.0) @ self.prices) / abs(self.optimum)


def score_of(
    name: str,
    settings: str,
    samples: int,
    judges: Mapping[str, Yardstick],
    runs: Sequence[Sequence[JudgedRun]],
) -> Score:
    """The score of the runs on each problem, in the order of the judges."""
    seeds, gaps, outside, refusals = {}, {}, {}, dict[str, str]()
    for (problem, judge), own in zip(judges.items(), runs, strict=True):
        ended = Curves(**curves(judge.cmdp, [run for run in own if not run.refusal]))
        seeds[problem] = ended.seeds
        gaps[problem] = judge.gaps(ended.rewards, ended.margins)[:, -1:].ravel()
        outside[problem] = ended.out_of_bounds[:, -1:].ravel()
        if len(ended.rewards) < len(own):
            refusals[problem] = next(run.refusal for run in own if run.refusal)
    seconds = sum(run.seconds for own in runs for run in own)
    return Score(
        algorithm=name,
        settings=settings,
        samples=samples,
        seeds=seeds,
        gaps=gaps,
        outside=outside,
        refusals=refusals,
        seconds=seconds,
    )
