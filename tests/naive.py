"""Slow dense twins, written from the textbook, without cleverness. Everything here is normalised by (1 - discount)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from scipy.optimize import linprog

import inbounds as ib


def state_matrix(cmdp: ib.CMDP, probabilities: np.ndarray) -> np.ndarray:
    """P_pi [S, S]: the chain that the policy runs."""
    matrix = np.zeros((cmdp.n_states, cmdp.n_states))
    dense = cmdp.transition.toarray()
    for state in range(cmdp.n_states):
        for pair in range(cmdp.offsets[state], cmdp.offsets[state + 1]):
            matrix[state] += probabilities[pair] * dense[pair]
    return matrix


def value_function(cmdp: ib.CMDP, probabilities: np.ndarray, signal: np.ndarray) -> np.ndarray:
    """V [S]: the value of a signal over pairs from every state, by the Bellman equation."""
    mean = np.zeros(cmdp.n_states)
    for state in range(cmdp.n_states):
        for pair in range(cmdp.offsets[state], cmdp.offsets[state + 1]):
            mean[state] += probabilities[pair] * signal[pair]
    chain = state_matrix(cmdp, probabilities)
    return np.linalg.solve(np.eye(cmdp.n_states) - cmdp.discount * chain, (1.0 - cmdp.discount) * mean)


def value(cmdp: ib.CMDP, probabilities: np.ndarray, signal: np.ndarray) -> float:
    return float(cmdp.initial @ value_function(cmdp, probabilities, signal))


def occupancy_series(cmdp: ib.CMDP, probabilities: np.ndarray, steps: int) -> tuple[np.ndarray, float]:
    """The first `steps` terms of (1 - discount) sum_t discount^t Prob(s_t, a_t); and the mass left out, exactly.

    Every term has mass (1 - discount) discount^t, so the error in the sum of absolute values is discount^steps.
    """
    chain = state_matrix(cmdp, probabilities)
    here = cmdp.initial.copy()
    total = np.zeros(cmdp.n_pairs)
    for step in range(steps):
        for state in range(cmdp.n_states):
            for pair in range(cmdp.offsets[state], cmdp.offsets[state + 1]):
                total[pair] += (1.0 - cmdp.discount) * cmdp.discount**step * here[state] * probabilities[pair]
        here = here @ chain
    return total, cmdp.discount**steps


def flow_residual(cmdp: ib.CMDP, occupancy: np.ndarray) -> np.ndarray:
    """Mass of each state, minus what the flow equations say it must be, [S]."""
    dense = cmdp.transition.toarray()
    residual = -(1.0 - cmdp.discount) * cmdp.initial
    for pair in range(cmdp.n_pairs):
        residual[cmdp.pairs.states[pair]] += occupancy[pair]
        residual = residual - cmdp.discount * occupancy[pair] * dense[pair]
    return residual


def flow_rows(cmdp: ib.CMDP) -> np.ndarray:
    """The left-hand side of the flow equations, [S, n]."""
    rows = -cmdp.discount * cmdp.transition.toarray().T
    for pair in range(cmdp.n_pairs):
        rows[cmdp.pairs.states[pair], pair] += 1.0
    return rows


def lp(cmdp: ib.CMDP) -> tuple[float, np.ndarray] | None:
    """(optimum, prices) of the occupancy program by scipy's linprog on dense matrices; None when infeasible."""
    found = linprog(
        -cmdp.reward,
        A_ub=-cmdp.margins if cmdp.n_constraints else None,
        b_ub=np.zeros(cmdp.n_constraints) if cmdp.n_constraints else None,
        A_eq=flow_rows(cmdp),
        b_eq=(1.0 - cmdp.discount) * cmdp.initial,
        bounds=(0, None),
        method="highs-ds",
    )
    if found.status == 2:
        return None
    assert found.status == 0, found.message
    return -float(found.fun), -np.asarray(found.ineqlin.marginals) if cmdp.n_constraints else np.empty(0)


def slater_lp(cmdp: ib.CMDP, scales: np.ndarray) -> float:
    """max t such that some policy keeps every margin at least t * scale, by linprog on dense matrices."""
    found = linprog(
        np.append(np.zeros(cmdp.n_pairs), -1.0),
        A_ub=np.column_stack([-cmdp.margins, scales]),
        b_ub=np.zeros(cmdp.n_constraints),
        A_eq=np.column_stack([flow_rows(cmdp), np.zeros(cmdp.n_states)]),
        b_eq=(1.0 - cmdp.discount) * cmdp.initial,
        bounds=[(0, None)] * cmdp.n_pairs + [(None, None)],
        method="highs-ds",
    )
    assert found.status == 0, found.message
    return -float(found.fun)


def deterministic_policies(cmdp: ib.CMDP) -> Iterator[np.ndarray]:
    """The probabilities [n] of every deterministic policy."""
    choices = [range(cmdp.offsets[state], cmdp.offsets[state + 1]) for state in range(cmdp.n_states)]
    for chosen in itertools.product(*choices):
        probabilities = np.zeros(cmdp.n_pairs)
        probabilities[list(chosen)] = 1.0
        yield probabilities


def best_deterministic(cmdp: ib.CMDP, signal: np.ndarray) -> float:
    """The largest value of a signal over all policies: one of the deterministic ones attains it."""
    return max(value(cmdp, probabilities, signal) for probabilities in deterministic_policies(cmdp))


def best_value(cmdp: ib.CMDP, signal: np.ndarray, accuracy: float) -> float:
    """The same by value iteration, within `accuracy`, for models too large to enumerate."""
    values = np.zeros(cmdp.n_states)
    while True:
        backup = (1.0 - cmdp.discount) * signal + cmdp.discount * (cmdp.transition @ values)
        new = np.maximum.reduceat(backup, cmdp.offsets[:-1])
        change = np.max(np.abs(new - values))
        values = new
        if change * cmdp.discount / (1.0 - cmdp.discount) <= accuracy:
            return float(cmdp.initial @ values)


def invert(cumulative: np.ndarray, u: float) -> int:
    """The first position whose cumulative probability exceeds u, by looking at all of them in order."""
    for position, reached in enumerate(cumulative):
        if u < reached:
            return position
    raise AssertionError("the last cumulative probability must exceed every u")
