"""The only loop, clock and exit: log-spaced checkpoints, pieces in between, and the record of the run.

`ib.learn` and `ib.iterate` are both this loop; one counts samples, the other iterations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from inbounds.algorithms.algorithm import Algorithm, Answer, Prepared, Run, record_of
from inbounds.algorithms.known import in_scaled_units, known_model
from inbounds.arrays import freeze
from inbounds.errors import InvalidInput
from inbounds.inputs import is_whole
from inbounds.problem.cmdp import CMDP
from inbounds.problem.criterion import require_criterion
from inbounds.problem.draws import CHUNK, fitted
from inbounds.problem.simulator import Scaling, Simulator

_CHUNK = 1_000
"""Iterations between two looks at the keyboard and the progress callback."""

Progress = Callable[[int], None] | None


def run_on_samples(
    simulator: Simulator,
    algorithm: Any,
    samples: int,
    seed: int | np.random.SeedSequence,
    checkpoints: int | Sequence[int] = 1,
    progress: Progress = None,
) -> Run:
    """The run of ``ib.learn``, whose arguments these are, checked."""
    started, record = time.perf_counter(), record_of(algorithm)
    refuse(record, simulator, "cmdp.unconstrained().simulator()")
    rng, world = np.random.default_rng(seed), simulator.open()
    advance = fitted(record.advance, world)
    begun = record.prepare(algorithm, simulator, samples, rng)
    begun = begun._replace(guarantee=within_ranges(begun.guarantee, simulator))
    counts = checkpoint_counts(checkpoints, begun.samples, samples)
    draw = partial(advance, begun.state, begun.constants, world, rng)
    extract = partial(record.extract, begun.state, begun.constants, simulator)
    discount = simulator.criterion.get("discount", 0.0)
    return visit(begun, counts, CHUNK, draw, extract, simulator.scaling, discount, progress, started)


def run_on_model(
    cmdp: CMDP, algorithm: Any, iterations: int, checkpoints: int | Sequence[int] = 1, progress: Progress = None
) -> Run:
    """The run of ``ib.iterate``, whose arguments these are, checked."""
    started, record = time.perf_counter(), record_of(algorithm)
    known = record.known
    assert known is not None
    refuse(record, cmdp, "cmdp.unconstrained()")
    scaling, scaled = in_scaled_units(cmdp)
    model = known_model(scaled)
    begun = known.prepare(algorithm, scaled, iterations)
    counts = checkpoint_counts(checkpoints, 0, iterations, "iterations")

    def iterate(done: int, until: int) -> int:
        known.advance(begun.state, begun.constants, model, done, until)
        return until

    extract = partial(known.extract, begun.state, begun.constants, cmdp)
    run = visit(begun, counts, _CHUNK, iterate, extract, scaling, cmdp.discount, progress, started)
    return replace(run, samples=freeze(np.zeros_like(run.samples)), iterations=run.samples)


def visit(
    begun: Prepared,
    counts: Sequence[int],
    chunk: int,
    advance: Callable[[int, int], int],
    extract: Callable[[], Answer],
    scaling: Scaling,
    discount: float,
    progress: Progress,
    started: float,
) -> Run:
    """The run with a policy at each of the counts; `samples` are whatever ``advance(done, until) -> until`` counts.

    It is called for pieces of at most `chunk`. ``extract()`` is the answer of the moment, in scaled units.
    """
    done, reached, policies, averages, prices = begun.samples, [], [], [], np.empty(0)
    for checkpoint in counts:
        while done < checkpoint:
            done = advance(done, min(done + chunk, checkpoint))
            if progress is not None:
                progress(done)
        policy, prices, averaged = extract()
        reached.append(done)
        policies.append(policy)
        averages.append(averaged.in_user_units(scaling, discount))
    return Run(
        policy=policies[-1],
        prices=freeze(scaling.prices_in_user_units(prices)),
        samples=freeze(np.array(reached, dtype=np.int64)),
        policies=tuple(policies),
        seconds=time.perf_counter() - started,
        settings=begun.settings,
        guarantee=begun.guarantee,
        averages_at=tuple(averages),
    )


def within_ranges(guarantee: str, simulator: Simulator) -> str:
    """A guarantee as far as the ranges that every theory here assumes are kept; they are, unless units are as given."""
    beyond = simulator.beyond_the_theory
    if not beyond:
        return guarantee
    why = f"the units are as given, and the theory assumes others: {beyond}"
    return f"{guarantee}; and {why}" if guarantee.startswith("none") else f"none: {why}"


def refuse(record: Algorithm, problem: CMDP | Simulator, without: str) -> None:
    """Refuse a problem of another criterion, or with constraints that the algorithm knows nothing of."""
    require_criterion(problem, record.criterion, record.name)
    if problem.n_constraints > 0 and not record.constrained:
        raise InvalidInput(
            f"{record.name} knows no constraints, and this problem has {problem.n_constraints}; drop them: {without}"
        )


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
        wrong = [count for count in listed if not (is_whole(count, 1) and count <= samples)]
        if wrong:
            raise InvalidInput(
                f"checkpoints must be whole numbers between 1 and {what} ({samples:,}), found {wrong[0]!r}"
            )
        wanted = {int(count) for count in listed}
    return sorted({count for count in wanted if count > drawn} | {samples})
