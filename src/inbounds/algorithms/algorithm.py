"""What an algorithm fills in, and what a run of it comes to.

An algorithm is a frozen dataclass of settings (what the user writes: ``ib.CSPDA(kappa=0.0)``) whose class attribute
`algorithm` is an `Algorithm` record: functions of its own file. The loop (`inbounds.algorithms.loop`) asks for nothing
else, so a user's own algorithm runs like the ones that ship.

`advance` runs until `samples` reaches `until`. Everything it remembers is in the arrays of its state, so splitting a
run never changes it; the loop uses that for checkpoints, for progress, and to stay interruptible.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints, freeze
from inbounds.errors import InvalidInput
from inbounds.inputs import shown
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Scaling, Simulator
from inbounds.tables import so_many, wrapped


class Prepared(NamedTuple):
    """What `Algorithm.prepare` hands to the loop."""

    state: Any  # NamedTuple of arrays, changed in place
    constants: Any  # NamedTuple of numbers and arrays that never change
    samples: int  # drawn so far, by the preparation itself
    settings: Mapping[str, float | str]  # what the settings became for this problem and budget, by public name
    guarantee: str  # what the paper proves of this run, or why it proves nothing


def promises_nothing(guarantee: str) -> bool:
    """Whether a guarantee is none: the word, alone or before the reason.

    >>> [promises_nothing(each) for each in ("none", "none: no theorem", "nonexpansive", "none of the margins < 0")]
    [True, True, False, False]
    """
    return re.match(r"none(?: yet)?\s*(?:$|[:;,.])", guarantee) is not None


@dataclass(frozen=True, eq=False, repr=False)
class Averages:
    """What a learner averaged on the way, and hands out beside its policy; None where it averaged no such thing.

    Of CSPDA these are all that its Algorithm 1 returns: the averages of the paper's lambda, u and v over the steps.
    They are the learner's own estimates, NOT facts about its policy: an average occupancy keeps the flow equations only
    in the limit, so <occupancy, reward> is no policy's value. What they are worth on a known model says
    ``ib.judge_averages``; what the policy is worth, ``ib.evaluate``.

    Attributes
    ----------
    occupancy : array [n], or None
        The average occupancy (occupancy measure): sums to 1.
    prices : array [K], or None
        The average prices (Lagrange multipliers): reward gained per unit of bound relaxed, in the user's units.
    values : array [S], or None
        The average values of the states, of the reward plus the priced margins, as ``ib.solve(...).value_function`` has
        them: in the user's units, normalised by (1 - discount). The paper's v is a discounted sum, in scaled units.
    """

    occupancy: Floats | None = None
    prices: Floats | None = None
    values: Floats | None = None

    def __repr__(self) -> str:
        kept = [each.name for each in fields(self) if getattr(self, each.name) is not None]
        return f"Averages({', '.join(kept) or 'none'})"

    def in_user_units(self, scaling: Scaling, discount: float) -> Averages:
        """From scaled units, in which values are discounted sums; read-only."""
        return Averages(
            occupancy=None if self.occupancy is None else freeze(self.occupancy),
            prices=None if self.prices is None else freeze(scaling.prices_in_user_units(self.prices)),
            values=None if self.values is None else freeze(scaling.values_in_user_units(self.values, discount)),
        )


def shares(sums: Floats) -> Floats | None:
    """The average occupancy of sums over the pairs [n] that are proportional to it; None while there are none."""
    total = sums.sum()
    return sums / total if total > 0.0 else None


class Answer(NamedTuple):
    """What `Algorithm.extract` makes of a state, in scaled units."""

    policy: Policy
    prices: Floats  # [K]; nan where the algorithm has none
    averages: Averages = Averages()
    episodes: Floats | None = None  # [k, 1 + K], of a learner that plays episodes: their sums, in the user's units


class Report(NamedTuple):
    """What `Algorithm.report` says of a state."""

    settings: Mapping[str, float | str]  # by public name
    guarantee: str


class Known(NamedTuple):
    """The functions of an algorithm that runs on a known model too, as ``ib.iterate`` does."""

    prepare: Callable[[Any, CMDP, int], Prepared]
    """``prepare(settings, model, iterations)``: the state before the first iteration on `model`, in scaled units."""
    advance: Any
    """Compiled ``advance(state, constants, model, done, until)``: iterations number `done` to `until` - 1, on a
    `KnownModel`."""
    extract: Callable[[Any, Any, Any], Answer]
    """``extract(state, constants, problem)``, as in `Algorithm`; `problem` is the model."""
    concluded: Callable[[Any, Any, CMDP], str] | None = None
    """``concluded(state, constants, problem)``: of algorithms that know more when the run is over, what is guaranteed,
    in the place of what was prepared."""


def _from_the_start(constants: Any) -> int:
    return 0


def _every_sample(constants: Any) -> int:
    return 1


class Algorithm(NamedTuple):
    """The functions of one algorithm's file, and what the table of algorithms says about it."""

    name: str
    paper: str
    prepare: Callable[[Any, Simulator, int, np.random.Generator], Prepared]
    """``prepare(settings, simulator, samples, rng)``: the state before the first sample, for a budget of `samples`."""
    advance: Any
    """``advance(state, constants, world, rng, drawn, until) -> until``, compiled or calling what is: exactly so many
    samples, wherever that is in the algorithm's own iterations."""
    extract: Callable[[Any, Any, Simulator], Answer]
    """``extract(state, constants, simulator)``: the policy of a state with its prices and averages, in scaled units."""
    piloted: bool = False
    """Whether a Slater constant that the settings leave out is estimated from a pilot, which comes before `prepare`:
    this then takes the pilot's `Log` in the place of rng. See `inbounds.algorithms.piloted`."""
    period: Callable[[Any], int] = _every_sample
    """``period(constants)``: of learners of episodes, how many samples each has, from the first sample on. Between two
    of them a simulator need not know where it is: there a run can be gone on from."""
    before: Callable[[Any], int] = _from_the_start
    """``before(constants)``: samples before the first step that makes a policy; checkpoints up to there fall away."""
    setting: str = ""
    needs: str = "nothing"
    output: str = ""
    sample_complexity: str = ""
    """As in Table 1 of the CSPDA paper, or as the algorithm's own paper states it; logarithms are hidden."""
    violation: str = ""
    constants: str = "not said"
    """Where the numbers in its formulas and bounds are from: "paper (which theorem)", read there; "derived here"; or
    "from memory", not checked against the paper's text."""
    constrained: bool = True
    """False for algorithms that know no constraints: the loop refuses to run them on a problem that has some."""
    known: Known | None = None
    report: Callable[[Any, Any, Simulator], Report] | None = None
    """``report(state, constants, simulator)``: of algorithms that can say so only in the end, what the settings became
    and what is guaranteed, in the place of what was prepared."""
    plan: Callable[[CMDP, Any, int], Answer] | None = None
    """Of those that learn a model first, from a `Log`: ``plan(model, constants, per_pair)``, the answer on an empirical
    model, in scaled units, that so many samples of every pair made."""
    criterion: str = "discounted"
    """Which problems it is for: "discounted", "finite-horizon" or "average-reward". The loop refuses the others; but
    learners for a finite horizon run on discounted problems too, which they truncate."""
    access: str = "generative"
    """How it samples: "generative", any pair it likes; or "online", from the state that it is in."""
    complete: Callable[[Any, Any], None] | None = None
    """``complete(state, constants)``, of online learners that make a policy as they go: all of it, for an episode."""
    oscillates: bool = False
    """Whether the single policies that it plays swing for ever, so that only their mixture means anything."""


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """What a learner found. It carries no value of its policies: only a judge that sees the model may compute one.

    Attributes
    ----------
    policy : Policy
        The policy at the end.
    prices : array [K]
        The learner's estimate of the price of each constraint, in the user's units; nan where it has none.
    samples : int array [C]
        Samples drawn at each checkpoint: state-action-state transitions. The last entry is the whole run.
    policies : tuple of Policy, length C
        The policy at each checkpoint; the last is `policy`.
    seconds : float
        Of wall clock, compilation included. Not a measure between algorithms; samples are.
    scaling : Scaling
        The units that the learner saw, which are those of `settings`.
    settings : dict
        What the settings became for this problem and this budget. Of a preset that ends in a repair also what each part
        of the run spent, the tested margins with their standard errors (in the user's units), and the weights of what
        was mixed.
    guarantee : str
        What the paper proves of this run, or why it proves nothing; and what a test, if there was one, shows. Of a run
        that is broken off nothing is proved yet: then what will be, when it is over.
    averages : Averages
        What the learner averaged: ``.occupancy`` [n], ``.prices`` [K], ``.values`` [S]; None where it has none.
    averages_at : tuple of Averages, length C
        The same at each checkpoint; the last is `averages`. A checkpoint keeps 8 bytes for each pair and state here,
        beside the 8 for each pair of its policy.
    episodes : array [k, 1 + K], or None
        Of a learner that plays episodes: the sums of the reward and of the margins that it saw in each whole episode,
        in the user's units (discounted sums on a discounted problem). What its policies are worth, a judge can say.
    iterations : int array [C], or None
        On a known model (`ib.iterate`): iterations made at each checkpoint; `samples` is then zero.
    status : "done", "time limit" or "interrupted"
        Why it stopped. Unless it is done, the last entries of `samples` and `policies` are of the moment at which it
        stopped, and ``resume=`` takes the run to go on; "interrupted" is the `partial` of an exception, whose policy is
        None if there was none yet.
    paused
        What ``resume=`` goes on from; None when it is done.
    """

    policy: Policy
    prices: Floats
    samples: Ints
    policies: tuple[Policy, ...]
    seconds: float
    scaling: Scaling
    settings: Mapping[str, float | str] = field(default_factory=dict)
    guarantee: str = ""
    iterations: Ints | None = None
    averages_at: tuple[Averages, ...] = ()
    episodes: Floats | None = None
    status: str = "done"
    paused: Any = None

    @property
    def averages(self) -> Averages:
        return self.averages_at[-1]

    @property
    def in_words(self) -> str:
        """How far it came, in one line."""
        counted, what = (self.samples, "sample") if self.iterations is None else (self.iterations, "iteration")
        status = "" if self.status == "done" else f", {self.status}"
        points = so_many(len(self.policies), "checkpoint")
        return f"{so_many(int(counted[-1]), what)}, {points}, {self.seconds:.2f} s{status}"

    def __repr__(self) -> str:
        return f"Run({self.in_words})"

    def __str__(self) -> str:
        """With what the settings became, in a column, and the guarantee."""
        became = {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in self.settings.items()}
        facts = became | ({"guarantee": self.guarantee} if self.guarantee else {})
        return "\n".join([repr(self), *(wrapped(f"{name}: {value}", "    ") for name, value in facts.items())])


def record_of(algorithm: Any) -> Algorithm:
    """The record of an algorithm's settings."""
    record = getattr(algorithm, "algorithm", None)
    if not isinstance(record, Algorithm) or isinstance(algorithm, type):  # a class without its () is no settings
        raise InvalidInput(f"algorithm must be settings such as ib.CSPDA(), found {shown(algorithm)}")
    return getattr(algorithm, "record", record)
