"""What an algorithm fills in, and what a run of it comes to.

An algorithm is a frozen dataclass of settings (what the user writes: ``ib.CSPDA(kappa=0.0)``) whose class attribute
`algorithm` is an `Algorithm` record: functions of its own file. The loop (`inbounds.algorithms.loop`) asks for nothing
else, so a user's own algorithm runs like the ones that ship.

`advance` runs until `samples` reaches `until`. Everything it remembers is in the arrays of its state, so splitting a
run never changes it; the loop uses that for checkpoints, for progress, and to stay interruptible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.errors import InvalidInput
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator


class Prepared(NamedTuple):
    """What `Algorithm.prepare` hands to the loop."""

    state: Any  # NamedTuple of arrays, changed in place
    constants: Any  # NamedTuple of numbers and arrays that never change
    samples: int  # drawn so far, by the preparation itself
    settings: Mapping[str, float | str]  # what the settings became for this problem and budget, by public name
    guarantee: str  # what the paper proves of this run, or why it proves nothing


class Known(NamedTuple):
    """The functions of an algorithm that runs on a known model too, as ``ib.iterate`` does."""

    prepare: Callable[[Any, CMDP, int], Prepared]
    """``prepare(settings, model, iterations)``: the state before the first iteration on `model`, in scaled units."""
    advance: Any
    """Compiled ``advance(state, constants, model, done, until)``: iterations number `done` to `until` - 1, on a
    `KnownModel`."""
    extract: Callable[[Any, Any, Any], tuple[Policy, Floats]]
    """``extract(state, constants, problem)``, as in `Algorithm`; `problem` is the model."""


class Algorithm(NamedTuple):
    """The functions of one algorithm's file, and what the table of algorithms says about it."""

    name: str
    paper: str
    prepare: Callable[[Any, Simulator, int, np.random.Generator], Prepared]
    """``prepare(settings, simulator, samples, rng)``: the state before the first sample, for a budget of `samples`."""
    advance: Any
    """``advance(state, constants, world, rng, drawn, until) -> until``, compiled or calling what is: exactly so many
    samples, wherever that is in the algorithm's own iterations."""
    extract: Callable[[Any, Any, Simulator], tuple[Policy, Floats]]
    """``extract(state, constants, simulator)``: the policy of a state, and its prices [K] in scaled units."""
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
    criterion: str = "discounted"
    """Which problems it is for: "discounted", "finite-horizon" or "average-reward". The loop refuses the others."""


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
    settings : dict
        What the settings became for this problem and this budget.
    guarantee : str
        What the paper proves of this run, or why it proves nothing.
    iterations : int array [C], or None
        On a known model (`ib.iterate`): iterations made at each checkpoint; `samples` is then zero.
    """

    policy: Policy
    prices: Floats
    samples: Ints
    policies: tuple[Policy, ...]
    seconds: float
    settings: Mapping[str, float | str] = field(default_factory=dict)
    guarantee: str = ""
    iterations: Ints | None = None

    def __repr__(self) -> str:
        if self.iterations is not None:
            return f"Run({self.iterations[-1]:,} iterations, {len(self.policies)} checkpoints, {self.seconds:.2f} s)"
        return f"Run({int(self.samples[-1]):,} samples, {len(self.policies)} checkpoints, {self.seconds:.2f} s)"


def record_of(algorithm: Any) -> Algorithm:
    """The record of an algorithm's settings."""
    record = getattr(algorithm, "algorithm", None)
    if not isinstance(record, Algorithm) or isinstance(algorithm, type):  # a class without its () is no settings
        raise InvalidInput(f"algorithm must be settings such as ib.CSPDA(), found {algorithm!r}")
    return record
