"""The empirical model: what the same number of samples at every pair says about the problem."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from inbounds.arrays import Floats, Ints
from inbounds.compiled import compiled, interpreted
from inbounds.learn.kernels import draw_next, draw_start
from inbounds.model.cmdp import CMDP, Constraint
from inbounds.model.simulator import Simulator, World

_LEAST_STARTS = 1_000
"""Draws of a start, which are free, behind the empirical initial distribution; as many as samples, if that is more."""


def empirical_model(simulator: Simulator, per_pair: int, rng: np.random.Generator) -> CMDP:
    """A model in scaled units from `per_pair` samples of every pair, with margins >= 0 as its constraints."""
    pairs, n_constraints = simulator.pairs, simulator.n_constraints
    world, draws = simulator.open()
    next_states = np.empty((pairs.n_pairs, per_pair), dtype=np.int64)
    reward = np.zeros(pairs.n_pairs)
    margins = np.zeros((pairs.n_pairs, n_constraints))
    starts = np.zeros(pairs.n_states, dtype=np.int64)
    draw = interpreted(draw_each, **draws) if draws else draw_each
    draw(world, rng, next_states, reward, margins, starts, max(next_states.size, _LEAST_STARTS))
    return CMDP(
        offsets=pairs.offsets,
        transition=sp.csr_array(
            (
                np.full(next_states.size, 1.0 / per_pair),
                (np.repeat(np.arange(pairs.n_pairs), per_pair), next_states.ravel()),
            ),
            shape=(pairs.n_pairs, pairs.n_states),
        ),
        reward=reward,
        constraints=tuple(
            Constraint(margins[:, k], at_least=0.0, name=constraint.name)
            for k, constraint in enumerate(simulator.constraints)
        ),
        initial=starts / starts.sum(),
        discount=simulator.discount,
        actions=pairs.actions,
        state_labels=pairs.state_labels,
        action_labels=pairs.action_labels,
    )


@compiled
def draw_each(
    world: World,
    rng: np.random.Generator,
    next_states: Ints,
    reward: Floats,
    margins: Floats,
    starts: Ints,
    n_starts: int,
) -> None:
    """Fill `next_states` [n, m], the mean `reward` [n] and `margins` [n, K] seen with them, and `starts` counts [S]."""
    n, per_pair = next_states.shape
    for k in range(n):
        for j in range(per_pair):
            next_states[k, j] = draw_next(world, k, rng)
            reward[k] += world.reward[k] / per_pair
            for i in range(margins.shape[1]):
                margins[k, i] += world.margins[k, i] / per_pair
    for _ in range(n_starts):
        starts[draw_start(world, rng)] += 1
