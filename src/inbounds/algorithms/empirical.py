"""The empirical model: what the samples of every pair, drawn in turn, say about the problem."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from inbounds.algorithms.kernels import FIRST_STARTS, draw_next, draw_start
from inbounds.arrays import Floats, Ints
from inbounds.errors import InvalidInput
from inbounds.numerics.compiled import compiled, interpreted
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint
from inbounds.problem.simulator import Simulator, World

_SLATER_PER_PAIR = 10_000
"""Samples of each pair, at most, behind an estimate of the Slater constant, of which half is taken: more are wasted."""


class Tally(NamedTuple):
    """Samples of all pairs in turn: sample number t is of pair t mod n. The state of algorithms that draw like that."""

    next_states: Any  # int32 [budget]
    visits: Ints  # [n]
    rewards: Floats  # [n], sums, scaled units
    margins: Floats  # [n, K], sums, scaled units
    starts: Ints  # [S]


def new_tally(simulator: Simulator, samples: int) -> Tally:
    """Room for `samples` samples: at least one of every pair."""
    n_pairs = simulator.pairs.n_pairs
    if samples < n_pairs:
        raise InvalidInput(
            f"{samples:,} samples are too few to try each of {n_pairs:,} pairs; give at least {n_pairs:,} samples"
        )
    return Tally(
        next_states=np.zeros(samples, dtype=np.int32),
        visits=np.zeros(n_pairs, dtype=np.int64),
        rewards=np.zeros(n_pairs),
        margins=np.zeros((n_pairs, simulator.n_constraints)),
        starts=np.zeros(simulator.pairs.n_states, dtype=np.int64),
    )


@compiled
def draw_in_turn(tally: Tally, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
    """Samples number `drawn` to `until` - 1: all that algorithms do that learn a model first."""
    n = tally.visits.shape[0]
    if drawn == 0 and until > 0:
        for _ in range(FIRST_STARTS):
            tally.starts[draw_start(world, rng)] += 1
    while drawn < until:
        k = drawn % n
        tally.next_states[drawn] = draw_next(world, k, rng)
        tally.visits[k] += 1
        tally.rewards[k] += world.reward[k]
        for i in range(tally.margins.shape[1]):
            tally.margins[k, i] += world.margins[k, i]
        tally.starts[draw_start(world, rng)] += 1
        drawn += 1
    return drawn


def advance(tally: Tally, constants: Any, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
    """The `advance` of algorithms that learn a model first: their own constants wait until a policy is asked for."""
    return int(draw_in_turn(tally, world, rng, drawn, until))


def tallied_model(tally: Tally, simulator: Simulator) -> CMDP | None:
    """The empirical model in scaled units, with margins >= 0 as its constraints; None while a pair is untried."""
    pairs, drawn = simulator.pairs, int(tally.visits.sum())
    if drawn < pairs.n_pairs:
        return None
    pair = np.arange(drawn) % pairs.n_pairs
    margins = tally.margins / tally.visits[:, None]
    return CMDP(
        offsets=pairs.offsets,
        transition=sp.csr_array(
            (1.0 / tally.visits[pair], (pair, tally.next_states[:drawn])), shape=(pairs.n_pairs, pairs.n_states)
        ),
        reward=tally.rewards / tally.visits,
        constraints=tuple(
            Constraint(margins[:, k], at_least=0.0, name=constraint.name)
            for k, constraint in enumerate(simulator.constraints)
        ),
        initial=tally.starts / tally.starts.sum(),
        discount=simulator.discount,
        actions=pairs.actions,
        state_labels=pairs.state_labels,
        action_labels=pairs.action_labels,
    )


def accuracy(per_pair: int, discount: float) -> float:
    """1 / sqrt((1 - discount) * per_pair): how exact values on the empirical model can be, normalised, by their order.

    A model from SA / ((1 - discount)^3 epsilon^2) samples in all has values within epsilon, not normalised, up to
    constants and logarithms (Azar, Munos and Kappen 2013); this is (1 - discount) times that epsilon. Algorithms that
    learn a model first tighten the constraints by a share of it.
    """
    return 1.0 / math.sqrt((1.0 - discount) * per_pair)


def empirical_model(simulator: Simulator, per_pair: int, rng: np.random.Generator) -> CMDP:
    """A model in scaled units from `per_pair` samples of every pair, with margins >= 0 as its constraints."""
    samples = per_pair * simulator.pairs.n_pairs
    tally = new_tally(simulator, samples)
    world, draws = simulator.open()
    draw = interpreted(draw_in_turn, **draws) if draws else draw_in_turn
    draw(tally, world, rng, 0, samples)
    model = tallied_model(tally, simulator)
    assert model is not None
    return model


def estimate_slater(simulator: Simulator, samples: int, rng: np.random.Generator) -> tuple[float, int]:
    """The stated rule for an unknown Slater constant: (half the estimate, samples drawn for it)."""
    from inbounds.exact.feasibility import slater

    if simulator.n_constraints == 0:
        return 1.0, 0
    n_pairs = simulator.pairs.n_pairs
    per_pair = min(max(1, samples // (10 * n_pairs)), _SLATER_PER_PAIR)
    if 2 * per_pair * n_pairs > samples:
        raise InvalidInput(
            f"{samples:,} samples are too few to estimate the Slater constant of {n_pairs:,} pairs; "
            f"give slater=, or at least {2 * n_pairs:,} samples"
        )
    estimate = slater(empirical_model(simulator, per_pair, rng)).value
    # Rounded, so that the last digits of a solver, which may differ elsewhere, do not lead to another run.
    return min(max(round(0.5 * estimate, 6), 0.01), 1.0), per_pair * n_pairs
