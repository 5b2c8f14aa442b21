"""Garnet problems: random models of any size (Archibald, McKinnon and Thomas 1995)."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from inbounds.arrays import Floats
from inbounds.criteria import criterion_of
from inbounds.errors import InvalidInput
from inbounds.inputs import switch, whole_number
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint
from inbounds.zoo.making import TIGHTNESS

REACH = 10
"""How far a move on the ring goes at most, in either direction."""


def garnet(
    states: int = 50,
    actions: int = 4,
    successors: int = 5,
    constraints: int = 2,
    discount: float = 0.9,
    seed: int = 0,
    ring: bool = False,
) -> CMDP:
    """A random problem: every pair has `successors` next states, drawn without replacement, with Dirichlet(1) weights.

    Reward and signals are uniform in [0, 1], the initial distribution is uniform. Values are normalised by
    (1 - discount). Each signal must be at least 40 % of the way from what the best policy without constraints gives to
    what the policy that maximises the sum of the signals gives: mixing the two meets every bound exactly, so the
    problem is always feasible, and the constraints bind.

    Parameters
    ----------
    states, actions, successors, constraints : int
        How many; every state has the same number of actions.
    discount : float in [0, 1)
    seed : int
    ring : bool
        Draw the next states among those at most 10 away, the last state next to the first. Such chains mix slowly;
        without, they mix fast.

    Examples
    --------
    >>> import inbounds as ib
    >>> problem = ib.zoo.garnet(states=30, actions=3, seed=1)
    >>> problem
    CMDP(garnet: 30 states, 90 pairs, 2 constraints, discount 0.9)
    >>> bool((ib.solve(problem).prices > 0.0).all())
    True
    """
    states, actions = whole_number(states, "states"), whole_number(actions, "actions")
    successors, constraints = whole_number(successors, "successors"), whole_number(constraints, "constraints", least=0)
    seed = whole_number(seed, "seed", least=0)
    within = min(2 * REACH + 1, states) if switch(ring, "ring") else states
    if successors > within:
        reach = f"the {within} states within reach on the ring" if ring else f"the number of states ({states})"
        raise InvalidInput(f"successors ({successors}) cannot exceed {reach}")

    rng = np.random.default_rng(seed)
    n_pairs = states * actions
    weights = rng.standard_exponential((n_pairs, successors))
    targets = _distinct(rng, n_pairs, successors, within)
    if ring:
        targets = (np.repeat(np.arange(states), actions)[:, None] + targets - within // 2) % states
    cmdp = CMDP(
        offsets=np.arange(states + 1) * actions,
        transition=sp.csr_array(
            (
                (weights / weights.sum(axis=1, keepdims=True)).ravel(),
                targets.ravel(),
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
    if constraints == 0:
        return cmdp
    best, cautious = _signals_of_best(cmdp, cmdp.reward), _signals_of_best(cmdp, cmdp.margins.sum(axis=0))
    return cmdp.tightened(best + TIGHTNESS * (cautious - best))


def _signals_of_best(cmdp: CMDP, reward: Floats) -> Floats:
    """What every signal gives [K] under the best policy for `reward` [n]."""
    criterion = criterion_of(cmdp)
    found = criterion.solve(reward, 1e-9)
    return cmdp.margins[:, found.chosen] @ criterion.time(found, 1e-13)


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
