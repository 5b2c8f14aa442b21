"""Garnet problems: random models of any size (Archibald, McKinnon and Thomas 1995)."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from inbounds.errors import InvalidInput
from inbounds.model.cmdp import CMDP, Constraint
from inbounds.model.policy import Policy, evaluate


def garnet(
    states: int = 50,
    actions: int = 4,
    successors: int = 5,
    constraints: int = 2,
    discount: float = 0.9,
    seed: int = 0,
) -> CMDP:
    """A random problem: every pair has `successors` next states, drawn without replacement, with Dirichlet(1) weights.

    Reward and signals are uniform in [0, 1], the initial distribution is uniform. Each signal must be at least what the
    uniform policy gives, so the problem is always feasible. Values are normalised by (1 - discount).

    Examples
    --------
    >>> import inbounds as ib
    >>> ib.zoo.garnet(states=10, actions=3, seed=1)
    CMDP(garnet: 10 states, 30 pairs, 2 constraints, discount 0.9)
    """
    for what, value, least in (
        ("states", states, 1),
        ("actions", actions, 1),
        ("successors", successors, 1),
        ("constraints", constraints, 0),
        ("seed", seed, 0),
    ):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise InvalidInput(f"{what} must be a whole number of at least {least}, found {value!r}")
    if successors > states:
        raise InvalidInput(f"successors ({successors}) cannot exceed the number of states ({states})")

    rng = np.random.default_rng(seed)
    n_pairs = states * actions
    weights = rng.standard_exponential((n_pairs, successors))
    cmdp = CMDP(
        offsets=np.arange(states + 1) * actions,
        transition=sp.csr_array(
            (
                (weights / weights.sum(axis=1, keepdims=True)).ravel(),
                _distinct(rng, n_pairs, successors, states).ravel(),
                np.arange(n_pairs + 1) * successors,
            ),
            shape=(n_pairs, states),
        ),
        reward=rng.random(n_pairs),
        constraints=tuple(
            Constraint(rng.random(n_pairs), at_least=0.0, name=f"signal {k}") for k in range(constraints)
        ),
        initial=np.full(states, 1.0 / states),
        discount=discount,
        name="garnet",
    )
    return cmdp.tightened(evaluate(cmdp, Policy.uniform(cmdp)).margins)


def _distinct(
    rng: np.random.Generator, rows: int, per_row: int, below: int
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Each row: `per_row` distinct integers in 0..below-1, every subset equally likely (Floyd's sampling)."""
    chosen = np.empty((rows, per_row), dtype=np.int64)
    for position, top in enumerate(range(below - per_row, below)):
        draw = rng.integers(0, top + 1, size=rows)
        taken = np.any(chosen[:, :position] == draw[:, None], axis=1)
        chosen[:, position] = np.where(taken, top, draw)
    return chosen
