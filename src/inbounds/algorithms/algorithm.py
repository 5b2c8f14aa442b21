"""What an algorithm fills in, and the only loop, clock and exit.

An algorithm is a frozen dataclass of settings (what the user writes: ``ib.CSPDA(kappa=0.0)``) whose class attribute
`algorithm` is an `Algorithm` record: functions of its own file. The loop asks for nothing else, so a user's own
algorithm runs like the ones that ship.

`advance` runs until `samples` reaches `until`. Everything it remembers is in the arrays of its state, so splitting a
run never changes it; the loop uses that for checkpoints, for progress, and to stay interruptible.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints, freeze
from inbounds.errors import InvalidInput
from inbounds.numerics.compiled import interpreted
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator

CHUNK = 1_000_000
"""Samples between two looks at the keyboard and the progress callback."""


class Prepared(NamedTuple):
    """What `Algorithm.prepare` hands to the loop."""

    state: Any  # NamedTuple of arrays, changed in place
    constants: Any  # NamedTuple of numbers and arrays that never change
    samples: int  # drawn so far, by the preparation itself
    settings: Mapping[str, float | str]  # what the settings became for this problem and budget, by public name
    guarantee: str  # what the paper proves of this run, or why it proves nothing


class Known(NamedTuple):
    """The functions of an algorithm that runs on a known model too; `inbounds.algorithms.known.iterate` calls them."""

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
    constrained: bool = True
    """False for algorithms that know no constraints: the loop refuses to run them on a problem that has some."""
    known: Known | None = None


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


def learn(
    simulator: Simulator,
    algorithm: Any,
    *,
    samples: int,
    seed: int | np.random.SeedSequence = 0,
    checkpoints: int | Sequence[int] = 1,
    progress: Callable[[int], None] | None = None,
) -> Run:
    """Run an algorithm on a simulator until it has drawn `samples` samples.

    Never raises for "not converged": judge the policy with `evaluate` when the model is known.

    Parameters
    ----------
    simulator : Simulator
        ``cmdp.simulator()``, or around the user's own step function (which runs the same code interpreted).
    algorithm
        Settings such as ``ib.CSPDA()``.
    samples : int
        The budget: state-action-state transitions. Draws of a start are free.
    seed : int
        The same seed gives the same run, bit for bit.
    checkpoints : int or sequence of int
        How many policies to record at log-spaced sample counts; or those counts themselves. The end is always recorded.
    progress : callable, optional
        Called with the samples drawn so far, about every million.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> run = ib.learn(queue.simulator(), ib.CSPDA.practical(slater=0.2), samples=100_000, seed=0)
    >>> judged = ib.evaluate(queue, run.policy)
    >>> judged.in_bounds, judged.total_reward > 4.5
    (True, True)
    """
    record = record_of(algorithm)
    require_simulator(simulator)
    if simulator.n_constraints > 0 and not record.constrained:
        raise InvalidInput(
            f"{record.name} knows no constraints, and this problem has {simulator.n_constraints}; "
            f"drop them: cmdp.unconstrained().simulator()"
        )
    budget = valid_samples(samples)
    started = time.perf_counter()
    rng = np.random.default_rng(valid_seed(seed))
    world, draws = simulator.open()
    advance = interpreted(record.advance, **draws) if draws else record.advance

    state, constants, drawn, settings, guarantee = record.prepare(algorithm, simulator, budget, rng)
    counts, policies, prices = [], [], np.empty(0)
    for checkpoint in checkpoint_counts(checkpoints, drawn, budget):
        while drawn < checkpoint:
            drawn = advance(state, constants, world, rng, drawn, min(drawn + CHUNK, checkpoint))
            if progress is not None:
                progress(drawn)
        policy, prices = record.extract(state, constants, simulator)
        counts.append(drawn)
        policies.append(policy)
    return Run(
        policy=policies[-1],
        prices=freeze(simulator.scaling.prices_in_user_units(prices)),
        samples=freeze(np.array(counts, dtype=np.int64)),
        policies=tuple(policies),
        seconds=time.perf_counter() - started,
        settings=settings,
        guarantee=guarantee,
    )


def record_of(algorithm: Any) -> Algorithm:
    """The record of an algorithm's settings."""
    record = getattr(algorithm, "algorithm", None)
    if not isinstance(record, Algorithm) or isinstance(algorithm, type):  # a class without its () is no settings
        raise InvalidInput(f"algorithm must be settings such as ib.CSPDA(), found {algorithm!r}")
    return record


def require_simulator(simulator: Any) -> None:
    """Refuse whatever else is given to a learner, above all the model."""
    if not isinstance(simulator, Simulator):
        raise InvalidInput(
            f"learners see a simulator only: give cmdp.simulator() or ib.Simulator(...), "
            f"found {type(simulator).__name__}"
        )


def valid_samples(samples: Any) -> int:
    """A budget of at least one sample."""
    if isinstance(samples, bool) or not isinstance(samples, int | np.integer) or samples < 1:
        raise InvalidInput(f"samples must be a whole number of at least 1, found {samples!r}")
    return int(samples)


def valid_seed(seed: Any) -> int | np.random.SeedSequence:
    """A seed of ``numpy.random.default_rng`` that gives the same run every time."""
    if isinstance(seed, np.random.SeedSequence):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidInput(f"seed must be a whole number of at least 0, found {seed!r}")
    return int(seed)


def checkpoint_counts(checkpoints: int | Sequence[int], drawn: int, samples: int, what: str = "samples") -> list[int]:
    """Increasing counts (of `what`) after `drawn`, of which `samples` is the last."""
    if isinstance(checkpoints, int | np.integer):
        if checkpoints < 1:
            raise InvalidInput(f"checkpoints must be at least 1, found {checkpoints}")
        first = min(100, samples)
        spaced = np.geomspace(first, samples, int(checkpoints)) if checkpoints > 1 else np.array([samples])
        wanted = {int(count) for count in np.rint(spaced)}
    else:
        listed = list(checkpoints) if isinstance(checkpoints, Iterable) else [checkpoints]
        wrong = [count for count in listed if not (isinstance(count, int | np.integer) and 1 <= count <= samples)]
        if wrong:
            raise InvalidInput(
                f"checkpoints must be whole numbers between 1 and {what} ({samples:,}), found {wrong[0]!r}"
            )
        wanted = {int(count) for count in listed}
    return sorted({count for count in wanted if count > drawn} | {samples})
