"""CSPDA written from the paper, dense and slow; the Lagrangian whose gradients it samples; a ragged problem to try.

Nothing here is shared with the compiled code: the scaling, the sampling, the projection and the averages are done
again, in the plainest way. Signs and departures are those of the paper's audit: u >= 0, and a value v that enters the
Lagrangian with +(1 - gamma) <rho, v>.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import inbounds as ib


class Dense(NamedTuple):
    """A problem in scaled units: rewards in [0, 1], margins in [-1, 1]."""

    P: np.ndarray  # [n, S]
    r: np.ndarray  # [n]
    g: np.ndarray  # [n, K]
    rho: np.ndarray  # [S]
    gamma: float
    state: np.ndarray  # [n]


def dense(cmdp: ib.CMDP) -> Dense:
    reward, margins = cmdp.reward, cmdp.margins
    return Dense(
        P=cmdp.transition.toarray(),
        r=(reward - reward.min()) / (np.ptp(reward) or 1.0),
        g=np.array([row / np.abs(row).max() for row in margins]).reshape(margins.shape).T,
        rho=np.array(cmdp.initial),
        gamma=cmdp.discount,
        state=np.repeat(np.arange(cmdp.n_states), np.diff(cmdp.offsets)),
    )


def lagrangian(d: Dense, lam: np.ndarray, u: np.ndarray, v: np.ndarray, kappa: float) -> float:
    """L(lam, u, v) of the paper."""
    return (
        lam @ d.r + u @ (d.g.T @ lam - kappa) + (1.0 - d.gamma) * (d.rho @ v) + lam @ (d.gamma * d.P @ v - v[d.state])
    )


def gradients(d: Dense, lam: np.ndarray, u: np.ndarray, v: np.ndarray, kappa: float) -> tuple[np.ndarray, ...]:
    """The gradients of L in lam, u and v. L is linear in each, so unit differences are exact."""
    here = lagrangian(d, lam, u, v, kappa)
    return (
        np.array([lagrangian(d, lam + e, u, v, kappa) - here for e in np.eye(len(lam))]),
        np.array([lagrangian(d, lam, u + e, v, kappa) - here for e in np.eye(len(u))]),
        np.array([lagrangian(d, lam, u, v + e, kappa) - here for e in np.eye(len(v))]),
    )


def project(u: np.ndarray, radius: float) -> np.ndarray:
    """Onto { u >= 0, sum u <= radius }: clip; if the sum is too large, project the clipped point on the simplex."""
    y = np.maximum(u, 0.0)
    if y.sum() <= radius:
        return y
    descending = np.sort(y)[::-1]
    thresholds = (np.cumsum(descending) - radius) / np.arange(1, len(y) + 1)
    return np.maximum(y - thresholds[np.flatnonzero(descending > thresholds)[-1]], 0.0)


class Averages(NamedTuple):
    lam: np.ndarray  # [n]
    u: np.ndarray  # [K]
    v: np.ndarray  # [S]


def cspda(
    cmdp: ib.CMDP,
    rng: np.random.Generator,
    steps: int,
    *,
    phi: float,
    kappa: float,
    alpha: float,
    beta: float,
    M: float,
    delta: float = 0.1,
) -> Averages:
    """Algorithm 1, line by line. One uniform each for the pair, the next state and the start, in this order."""
    d = dense(cmdp)
    n, n_states, n_constraints = len(d.r), len(d.rho), d.g.shape[1]
    value_bound = 2.0 * (1.0 / (1.0 - d.gamma) + 2.0 / ((1.0 - d.gamma) * phi))
    cumulative_P, cumulative_rho = np.cumsum(d.P, axis=1), np.cumsum(d.rho)
    lam, u, v = np.full(n, 1.0 / n), np.zeros(n_constraints), np.zeros(n_states)
    sums = Averages(np.zeros(n), np.zeros(n_constraints), np.zeros(n_states))
    for _ in range(steps):
        for total, iterate in zip(sums, (lam, u, v), strict=True):
            total += iterate
        zeta = (1.0 - delta) * lam + delta / n
        x = rng.random()
        if x < delta:
            k = int(x / delta * n)
        else:
            k = int(np.searchsorted(np.cumsum(lam), (x - delta) / (1.0 - delta), side="right"))
        s, after = d.state[k], int(np.searchsorted(cumulative_P[k], rng.random(), side="right"))
        s0 = int(np.searchsorted(cumulative_rho, rng.random(), side="right"))

        Z = d.r[k] + d.gamma * v[after] - v[s] + u @ d.g[k]
        gradient_u = lam[k] * d.g[k] / zeta[k] - kappa
        gradient_v = np.zeros(n_states)
        gradient_v[s0] += 1.0 - d.gamma
        gradient_v[after] += lam[k] * d.gamma / zeta[k]
        gradient_v[s] -= lam[k] / zeta[k]
        lam[k] *= np.exp(beta * (Z - M) / zeta[k])
        lam /= lam.sum()
        u = project(u - alpha * gradient_u, 4.0 / phi)
        v = np.clip(v - alpha * gradient_v, -value_bound, value_bound)
    return Averages(*(total / steps for total in sums))


def ragged(n_constraints: int, seed: int = 0, discount: float = 0.7) -> ib.CMDP:
    """Five states with 1 to 4 actions, sparse rows, a start that avoids a state, bounds of both kinds.

    Every bound leaves the uniform policy a margin of 0.1.
    """
    rng = np.random.default_rng([seed, n_constraints])
    counts = np.array([3, 1, 4, 2, 3])
    offsets = np.concatenate([[0], np.cumsum(counts)])
    n, n_states = int(offsets[-1]), len(counts)
    weights = rng.random((n, n_states)) * (rng.random((n, n_states)) < 0.6)
    weights[np.arange(n), rng.integers(n_states, size=n)] += 0.2
    cmdp = ib.CMDP(
        offsets=offsets,
        transition=weights / weights.sum(axis=1, keepdims=True),
        reward=rng.uniform(-2.0, 3.0, n),
        constraints=[
            ib.Constraint(rng.uniform(-1.0, 2.0, n), **{("at_least", "at_most")[i % 2]: 0.0})
            for i in range(n_constraints)
        ],
        initial=np.array([0.25, 0.3, 0.0, 0.15, 0.3]),
        discount=discount,
    )
    return cmdp.tightened(ib.evaluate(cmdp, ib.Policy.uniform(cmdp)).margins - 0.1)


def stage(
    cmdp: ib.CMDP,
    rng: np.random.Generator,
    steps: int,
    *,
    lam: np.ndarray,
    u: np.ndarray,
    v: np.ndarray,
    radii: tuple[float, float],
    kappa: np.ndarray,
) -> tuple[Averages, Averages]:
    """A stage of the practical preset, with every sum made anew at every step: its averages, and where it ended."""
    d = dense(cmdp)
    n, n_states = len(d.r), len(d.rho)
    cumulative_P, cumulative_rho = np.cumsum(d.P, axis=1), np.cumsum(d.rho)
    lam, u0, v0, M = lam / lam.sum(), u.copy(), v.copy(), 0.0
    hedge, gradients_u, gradients_v, us, vs, kept = [], [], [], [u0], [v0], []
    for t in range(1, steps + 1):
        kept.append((lam.copy(), u.copy(), v.copy()))
        zeta = 0.5 * lam + 0.5 / n
        x = rng.random()
        if x < 0.5:
            k = int(x / 0.5 * n)
        else:
            k = int(np.searchsorted(np.cumsum(lam), (x - 0.5) / 0.5, side="right"))
        s, after = d.state[k], int(np.searchsorted(cumulative_P[k], rng.random(), side="right"))
        s0 = int(np.searchsorted(cumulative_rho, rng.random(), side="right"))

        w = lam[k] / zeta[k]
        Z = d.r[k] + d.gamma * v[after] - v[s] + u @ d.g[k]
        gradients_u.append(w * d.g[k] - kappa)
        gradients_v.append(
            (1.0 - d.gamma) * np.eye(n_states)[s0] + w * (d.gamma * np.eye(n_states)[after] - np.eye(n_states)[s])
        )
        rho_u = max(radii[0], *(np.linalg.norm(each - u0) for each in us))
        rho_v = max(radii[1], *((each - v0).std() for each in vs))
        G = np.sum(np.square(gradients_v), axis=0)
        alpha_u = rho_u / np.sqrt(steps / t * np.sum(np.square(gradients_u))) if len(u) else 0.0
        alpha_v = rho_v / np.sqrt(steps / t * (0.97 * G + 0.03 * G.mean()))
        hedge.append(lam[k] * (Z - M) ** 2 / zeta[k] ** 2)
        beta = min(0.5 * np.sqrt(np.log(n) / (steps / t * np.sum(hedge))), 0.5 / (n * abs(Z - M)))
        lam[k] *= np.exp(beta * (Z - M) / zeta[k])
        lam /= lam.sum()
        u = project(u - alpha_u * gradients_u[-1], 50.0)
        v = np.clip(v - alpha_v * gradients_v[-1], -50.0 / (1.0 - d.gamma), 50.0 / (1.0 - d.gamma))
        M += max(1e-3, 1.0 / t) * (Z - M)
        us.append(u)
        vs.append(v)
    second = kept[steps // 2 :]
    return Averages(*(np.mean([each[i] for each in second], axis=0) for i in range(3))), Averages(lam, u, v)
