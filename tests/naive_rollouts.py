"""NPG-PD and PDSC written from their papers, dense and slow: exact, and from samples with the draws of the kernels.

Nothing here is shared with the compiled code. Walks are loops, every visited step of a walk from the start adds a row
of the policy to the average, the policy moves along advantages (the papers' form; the kernels move it along action
values, which is the same), and exact values come from dense linear equations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import inbounds as ib
from naive_cspda import Dense, dense, project


class Schedule(NamedTuple):
    """Steps along values that are not normalised, and the weight in the averages, of iteration m = 1, 2, ..."""

    policy: Callable[[int], float]
    price: Callable[[int], float]
    weight: Callable[[int], float]
    kappa: float  # not normalised
    radius: float


class Result(NamedTuple):
    policy: np.ndarray  # [n], the last
    prices: np.ndarray  # [K], the last
    average: np.ndarray  # [n], rows by visits, not divided
    average_prices: np.ndarray  # [K]
    iterations: int


def npg_pd(eta_1: float, eta_2: float, kappa: float, phi: float, gamma: float) -> Schedule:
    xi = phi / (1 - gamma)
    return Schedule(
        policy=lambda m: eta_1 / (1 - gamma),
        price=lambda m: eta_2,
        weight=lambda m: 1.0,
        kappa=kappa / (1 - gamma),
        radius=2 / ((1 - gamma) * xi),
    )


def pdsc(c_policy: float, c_price: float, kappa: float, phi: float, gamma: float) -> Schedule:
    return Schedule(
        policy=lambda m: c_policy / np.sqrt(m) * (1 - gamma),
        price=lambda m: c_price / np.sqrt(m) * (1 - gamma),
        weight=lambda m: 1 / np.sqrt(m),
        kappa=kappa / (1 - gamma),
        radius=2 / phi,
    )


def uniform(d: Dense) -> np.ndarray:
    return 1.0 / np.bincount(d.state)[d.state]


def chooser(d: Dense, policy: np.ndarray) -> np.ndarray:
    """[S, n]: the policy of each state in its row."""
    return (np.arange(len(d.rho))[:, None] == d.state) * policy


def values(d: Dense, policy: np.ndarray, signal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """V [S] and Q [n] of a signal [n], not normalised."""
    choose = chooser(d, policy)
    V = np.linalg.solve(np.eye(len(d.rho)) - d.gamma * choose @ d.P, choose @ signal)
    return V, signal + d.gamma * d.P @ V


def occupancy(d: Dense, policy: np.ndarray) -> np.ndarray:
    choose = chooser(d, policy)
    time = (1 - d.gamma) * np.linalg.solve((np.eye(len(d.rho)) - d.gamma * choose @ d.P).T, d.rho)
    return time[d.state] * policy


def ascend(d: Dense, policy: np.ndarray, advantages: np.ndarray, step: float) -> np.ndarray:
    moved = policy * np.exp(step * advantages)
    return moved / np.bincount(d.state, moved)[d.state]


def exact(cmdp: ib.CMDP, iterations: int, schedule: Schedule, restart: int = 0) -> Result:
    d = dense(cmdp)
    policy, u = uniform(d), np.zeros(d.g.shape[1])
    average, prices, total = np.zeros(len(policy)), np.zeros(len(u)), 0.0
    for m in range(1, iterations + 1):
        if m == restart + 1:
            average, prices, total = np.zeros(len(policy)), np.zeros(len(u)), 0.0
        w = schedule.weight(m)
        average, prices, total = average + w * occupancy(d, policy), prices + w * u, total + w
        V, Q = values(d, policy, d.r + d.g @ u)
        margins = np.array([d.rho @ values(d, policy, g)[0] for g in d.g.T])
        policy = ascend(d, policy, Q - V[d.state], schedule.policy(m))
        u = project(u - schedule.price(m) * (margins - schedule.kappa), schedule.radius)
    return Result(policy, u, average, prices / total, iterations)


def sampled(
    cmdp: ib.CMDP,
    rng: np.random.Generator,
    samples: int,
    schedule: Schedule,
    *,
    rollouts: int,
    start_rollouts: int,
    use_baseline: bool = False,
    restart: int = 0,
) -> Result:
    """Stops in the middle of a walk, when `samples` queries have been made."""
    d = dense(cmdp)
    n, n_constraints = d.g.shape
    policy, u, b = uniform(d), np.zeros(n_constraints), 0.0
    average, prices, total = np.zeros(n), np.zeros(n_constraints), 0.0
    made, m, before = 0, 1, 0

    def invert(probabilities: np.ndarray) -> int:
        return min(int(np.searchsorted(np.cumsum(probabilities), rng.random(), side="right")), len(probabilities) - 1)

    def choose(s: int) -> int:
        own = np.flatnonzero(d.state == s)
        return int(own[invert(policy[own])])

    def done() -> Result:
        return Result(policy, u, average, prices / total if total else u, m - 1)

    while True:
        margins, returns, signals = [], np.zeros(n), []
        for _ in range(start_rollouts):
            walk = []
            k = -1
            while True:
                if made == samples:
                    return done()
                k = choose(invert(d.rho)) if k < 0 else k
                after, made = invert(d.P[k]), made + 1
                average = average + schedule.weight(m) * (d.state == d.state[k]) * policy
                walk.append(d.g[k])
                if rng.random() >= d.gamma:
                    break
                k = choose(after)
            margins.append(np.sum(walk, axis=0))
        for origin in range(n):
            for _ in range(rollouts):
                k = origin
                while True:
                    if made == samples:
                        return done()
                    after, made = invert(d.P[k]), made + 1
                    signals.append(d.r[k] + d.g[k] @ u)
                    returns[origin] += signals[-1] - b
                    if rng.random() >= d.gamma:
                        break
                    k = choose(after)
        w = schedule.weight(m)
        prices, total = prices + w * u, total + w
        if before < restart <= made:
            average, prices, total = np.zeros(n), np.zeros(n_constraints), 0.0
        V = np.bincount(d.state, policy * returns)[d.state]  # any baseline of a state will do
        policy = ascend(d, policy, (returns - V) / rollouts, schedule.policy(m))
        u = project(u - schedule.price(m) * (np.mean(margins, axis=0) - schedule.kappa), schedule.radius)
        if use_baseline:
            b = float(np.mean(signals))
        before, m = made, m + 1
