"""OPG-PD and RPG-PD written from their equations, dense and slow: a matrix inverse, sorting, bisection.

Nothing is shared with the compiled code. Values are discounted sums, units are scaled, eta is the paper's.
"""

from __future__ import annotations

import numpy as np

from naive_cspda import Dense


def values(d: Dense, policy: np.ndarray, signal: np.ndarray) -> tuple[np.ndarray, float]:
    """Q [n] and V(rho) of a signal [n] under a policy [n]."""
    choose = (np.arange(len(d.rho))[:, None] == d.state) * policy
    V = np.linalg.solve(np.eye(len(d.rho)) - d.gamma * choose @ d.P, choose @ signal)
    return signal + d.gamma * d.P @ V, float(d.rho @ V)


def project_by_sorting(x: np.ndarray) -> np.ndarray:
    """Onto the probability simplex."""
    descending = np.sort(x)[::-1]
    thresholds = (np.cumsum(descending) - 1.0) / np.arange(1, len(x) + 1)
    return np.maximum(x - thresholds[np.flatnonzero(descending > thresholds)[-1]], 0.0)


def floored_by_bisection(weights: np.ndarray, floor: float) -> np.ndarray:
    """The nearest p >= floor / A to the normalised weights in KL(p || weights): max(floor / A, share * weights)."""
    weights, least = weights / weights.sum(), floor / len(weights)
    low, high = 0.0, 1.0  # with share = 1 the sum is at least 1
    for _ in range(200):
        share = (low + high) / 2.0
        if np.maximum(least, share * weights).sum() < 1.0:
            low = share
        else:
            high = share
    return np.maximum(least, high * weights)


def rows(d: Dense, x: np.ndarray, change) -> np.ndarray:
    """`change` applied to the entries of every state."""
    result = np.empty_like(x)
    for s in range(len(d.rho)):
        result[d.state == s] = change(x[d.state == s])
    return result


def uniform(d: Dense) -> np.ndarray:
    return rows(d, np.ones(len(d.state)), lambda row: row / len(row))


def opg_pd(
    d: Dense, eta: float, kappa: float, bound: float, iterations: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Equation (9), with both gradients computed anew in every iteration: (pi_t, u_t, pihat, uhat) after so many."""

    def gradients(policy: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slack = [values(d, policy, d.g[:, i])[1] - kappa / (1.0 - d.gamma) for i in range(len(u))]
        return values(d, policy, d.r + d.g @ u)[0], np.array(slack)

    policy, u = uniform(d), np.zeros(d.g.shape[1])
    policy_hat, u_hat = policy, u
    for _ in range(iterations):
        Q, G = gradients(policy, u)
        policy = rows(d, policy_hat + eta * Q, project_by_sorting)
        u = np.clip(u_hat - eta * G, 0.0, bound)
        Q, G = gradients(policy, u)
        policy_hat = rows(d, policy_hat + eta * Q, project_by_sorting)
        u_hat = np.clip(u_hat - eta * G, 0.0, bound)
    return policy, u, policy_hat, u_hat


def rpg_pd(
    d: Dense, etas: np.ndarray, taus: np.ndarray, floor: float, kappa: float, bound: float
) -> tuple[np.ndarray, np.ndarray]:
    """Equation (6), one iteration for each of the etas and taus: (pi_t, u_t) after them."""
    policy, u = uniform(d), np.zeros(d.g.shape[1])
    for eta, tau in zip(etas, taus, strict=True):
        Q, _ = values(d, policy, d.r + d.g @ u - tau * np.log(policy))
        slack = np.array([values(d, policy, d.g[:, i])[1] - kappa / (1.0 - d.gamma) for i in range(len(u))])
        best = rows(d, eta * Q, lambda row: np.exp(row - row.max()))
        policy = rows(d, policy * best, lambda row: floored_by_bisection(row, floor))
        u = np.clip((1.0 - eta * tau) * u - eta * slack, 0.0, bound)
    return policy, u
