"""The chain of a policy between two visits to one state: what its classes earn there, and how they spend their time.

State reduction pins one state of each closed class (`reduce_states`, with no leak); from one visit to that until the
next a class begins anew, so its average is what it earns between two visits, divided by how long that takes (the
renewal theorem), and its stationary distribution how often it is where in between. Nothing is subtracted on the way, so
both keep their digits, however slowly a chain mixes.

A chain may be lazy: then one step of it is worth the share `move` of a step, and `stage` [S] is what that share earns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from inbounds.arrays import Floats
from inbounds.numerics.elimination import Factors, eliminate, eliminate_transposed, pinned, reduce_states
from inbounds.numerics.rows import Chain

_TIED = 1e-12
"""Averages that differ by less, relative to the largest signal, are the same."""


def absorbing(chain: Chain, state: int) -> Chain:
    """The same chain, but that it never leaves `state`."""
    weights = chain.weights.copy()
    weights[chain.starts[state] : chain.starts[state + 1]] = 0.0
    return chain._replace(weights=weights)


def _row(chain: Chain, state: int) -> tuple[Any, Floats]:
    """The targets and weights of one state."""
    entries = slice(int(chain.starts[state]), int(chain.starts[state + 1]))
    return chain.targets[entries], chain.weights[entries]


def gain_of(chain: Chain, stage: Floats, move: float, pin: int, rewards: Floats, steps: Floats) -> float:
    """The average of one class: reward per step between two visits to its pinned state, from those until a visit."""
    targets, weights = _row(chain, pin)
    gathered, lasted = np.sum(weights * rewards[targets]), np.sum(weights * steps[targets])
    return float((stage[pin] + gathered) / (move + lasted))


def best_pin(chain: Chain, stage: Floats, move: float, factors: Factors, initial: Floats) -> tuple[int, Floats]:
    """The pinned state of the class with the largest average, and how many steps [S] it takes to a pinned state.

    Of classes that tie the one that the initial distribution leads to most often: not the one that rounding prefers,
    which may be far from all that other policies do, and linked to it at a cost.
    """
    pins = pinned(factors)
    rewards, steps = eliminate(factors, stage), eliminate(factors, np.full(len(stage), move))
    gains = np.array([gain_of(chain, stage, move, int(pin), rewards, steps) for pin in pins])
    tied = gains >= gains.max() - _TIED * float(np.abs(stage).max())
    if np.count_nonzero(tied) > 1:
        visits = np.repeat(eliminate_transposed(factors, initial), np.diff(chain.starts))
        arriving = initial + np.bincount(chain.targets, visits * chain.weights, len(initial))
        gains = np.where(tied, arriving[pins], -np.inf)
    return int(pins[int(np.argmax(gains))]), steps


def time_between_visits(chain: Chain, factors: Factors, pin: int) -> Floats:
    """The stationary distribution [S] of the class of a pinned state, from the visits between two to that."""
    x = _visits(chain, factors, pin)
    if not np.isfinite(x.sum()):  # the pinned state is so rare that counts overflow: count between visits elsewhere
        pin = int(np.argmax(np.nan_to_num(x, nan=np.inf)))
        x = _visits(chain, reduce_states(factors.plan, absorbing(chain, pin)), pin)
    return x / x.sum()


def _visits(chain: Chain, factors: Factors, pin: int) -> Floats:
    """How often each state is visited between two visits to the pinned state `pin`, [S]; there 1."""
    targets, weights = _row(chain, pin)
    right = np.zeros(len(chain.starts) - 1)
    np.add.at(right, targets, weights)
    right[pin] = 0.0
    visits = eliminate_transposed(factors, right)
    visits[pin] = 1.0
    return np.maximum(visits, 0.0)


def dense_relative_values(moves: Floats, stages: Floats, time: Floats) -> Floats:
    """y [J, S] with stage - (I - moves) y the same everywhere for each of `stages` [J, S]: 0 at the busiest state.

    The unknown of that state is the average instead. Refined twice, with the residual from differences.
    """
    busiest = int(np.argmax(time))
    matrix = -moves
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, -matrix.sum(axis=1))
    matrix[:, busiest] = 1.0
    y = np.zeros_like(stages)
    for _ in range(3):
        missing = stages.copy()
        for row, residual in zip(y, missing, strict=True):
            residual -= np.sum(moves * (row[:, None] - row[None, :]), axis=1)
        try:
            step = np.linalg.solve(matrix, missing.T).T
        except np.linalg.LinAlgError:  # there are classes that the start does not lead to
            step = np.linalg.lstsq(matrix, missing.T, rcond=None)[0].T
        step[:, busiest] = 0.0
        y += step
    return y
