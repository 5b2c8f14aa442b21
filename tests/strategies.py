"""Hypothesis strategies: small ragged CMDPs that are feasible by construction."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import inbounds as ib


@st.composite
def cmdps(draw: st.DrawFn, max_states: int = 5, max_actions: int = 4, max_constraints: int = 3) -> ib.CMDP:
    """Bounds are what one random policy gives, less a slack that is often zero: Slater constants of zero are common."""
    n_states = draw(st.integers(1, max_states))
    counts = [draw(st.integers(1, max_actions)) for _ in range(n_states)]
    n_pairs = sum(counts)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    # Sparse rows, and values on a coarse grid: unreachable states, ties and zeros are common.
    rows = rng.random((n_pairs, n_states)) * (rng.random((n_pairs, n_states)) < 0.6)
    rows[np.arange(n_pairs), rng.integers(n_states, size=n_pairs)] += 0.5
    initial = rng.integers(0, 3, size=n_states).astype(float)
    initial[rng.integers(n_states)] += 1.0
    constraints = [
        ib.Constraint(rng.integers(-4, 5, size=n_pairs) / 4, at_least=0.0, name=f"signal {k}")
        for k in range(draw(st.integers(0, max_constraints)))
    ]
    cmdp = ib.CMDP(
        offsets=np.concatenate([[0], np.cumsum(counts)]),
        transition=rows / rows.sum(axis=1, keepdims=True),
        reward=rng.integers(-4, 5, size=n_pairs) / 4,
        constraints=constraints,
        initial=initial / initial.sum(),
        discount=draw(st.sampled_from([0.0, 0.5, 0.9, 0.97])),
    )
    mass = rng.integers(0, 3, size=n_pairs).astype(float)
    mass[cmdp.offsets[:-1]] += 1.0
    policy = ib.Policy(cmdp.pairs, mass / cmdp.pairs.sum_by_state(mass)[cmdp.pairs.states])
    slack = draw(st.sampled_from([0.0, 0.0, 0.125, 0.5]))
    return cmdp.tightened(ib.evaluate(cmdp, policy).margins - slack)
