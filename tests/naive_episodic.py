"""The episodic primal-dual learners written from their formulas, dense and slow; and a problem that differs by stage.

Each learner is a generator: it is sent the start of an episode, yields the policy [H, n] that it plays with the prices
[I] it has then, is sent the pairs, the next states and the signals of the episode, and so on. Nothing is shared with
the compiled code, and every array is dense: visits [H, n], moves [H, n, S], signals [H, n, X].
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import inbounds as ib

Learner = Iterator[tuple[np.ndarray, np.ndarray]]


class Known(NamedTuple):
    """What a learner knows beforehand."""

    offsets: np.ndarray  # [S + 1]
    weights: np.ndarray  # [H]
    low: np.ndarray  # [X], of a step
    high: np.ndarray  # [X]
    alike: tuple[bool, bool]  # whether stages are, in their transitions and in their signals
    episodes: int

    @property
    def left(self) -> np.ndarray:
        """W_h [H + 1]."""
        return np.array([self.weights[h:].sum() for h in range(len(self.weights) + 1)])

    def states(self) -> Any:
        return [range(first, last) for first, last in zip(self.offsets[:-1], self.offsets[1:], strict=True)]


class Seen:
    """All that was seen, recounted in full whenever it is asked for."""

    def __init__(self, known: Known) -> None:
        self.known, self.episodes, self.starts = known, [], []

    def model(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Visits [H, n], frequencies of next states [H, n, S], means of signals [H, n, X]."""
        horizon, n, n_states = len(self.known.weights), self.known.offsets[-1], len(self.known.offsets) - 1
        moves, sums = np.zeros((horizon, n, n_states)), np.zeros((horizon, n, len(self.known.low)))
        for pairs, after, signals in self.episodes:
            for h in range(horizon):
                moves[h, pairs[h], after[h]] += 1
                sums[h, pairs[h]] += signals[h]
        heard = moves.sum(axis=2, keepdims=True)
        if self.known.alike[0]:
            moves = np.repeat(moves.sum(axis=0)[None], horizon, axis=0)
        if self.known.alike[1]:
            sums, heard = (np.repeat(each.sum(axis=0)[None], horizon, axis=0) for each in (sums, heard))
        visits = moves.sum(axis=2)
        means = np.where(heard > 0, sums / np.maximum(heard, 1), self.known.high)
        return visits, moves / np.maximum(visits, 1)[:, :, None], means

    def acted(self) -> list[int]:
        """The states in which an action was taken."""
        pairs = {int(pair) for path, _, _ in self.episodes for pair in path}
        return sorted({int(np.searchsorted(self.known.offsets, pair, side="right")) - 1 for pair in pairs})

    def first(self, values: np.ndarray) -> np.ndarray:
        """The mean of values [S, ...] over the starts."""
        return np.mean([values[s] for s in self.starts], axis=0)


def half_width(visits: float, row: np.ndarray) -> float:
    """Half the sum of the practical radii, 1 / n, of the next states seen and of one that was not, if there is any."""
    return 0.5 * min(np.count_nonzero(row) + 1, len(row)) / visits


def swept(seen: Seen, spans: np.ndarray, width: Any, choose: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q [H, n, X] with bonuses, V [H + 1, S, X] and policy [H, n]; ``choose(h, pairs, Q of them)`` gives chances."""
    known = seen.known
    visits, chances, means = seen.model()
    horizon, n = visits.shape
    Q, V = np.zeros((horizon, n, len(known.low))), np.zeros((horizon + 1, len(known.offsets) - 1, len(known.low)))
    policy = np.zeros((horizon, n))
    for h in reversed(range(horizon)):
        for s, pairs in enumerate(known.states()):
            for k in pairs:
                Q[h, k] = known.left[h] * known.high
                if visits[h, k] > 0:
                    bonus = spans[h + 1] * width(visits[h, k], chances[h, k])
                    Q[h, k] = known.weights[h] * means[h, k] + bonus + chances[h, k] @ V[h + 1]
                    Q[h, k] = np.clip(Q[h, k], known.left[h] * known.low, known.left[h] * known.high)
            policy[h, pairs] = choose(h, pairs, Q[h, pairs])
            V[h, s] = policy[h, pairs] @ Q[h, pairs]
    return Q, V, policy


def sober(seen: Seen, policy: np.ndarray) -> np.ndarray:
    """The margins [I] of a policy [H, n] without any bonus; a pair never tried still ends the episode with the most."""
    known, (visits, chances, means) = seen.known, seen.model()
    V = np.zeros((len(known.offsets) - 1, len(known.low)))
    for h in reversed(range(len(policy))):
        Q = known.weights[h] * means[h] + chances[h] @ V
        Q[visits[h] == 0] = known.left[h] * known.high
        V = np.array([policy[h, pairs] @ Q[pairs] for pairs in known.states()])
    return seen.first(V)[1:]


def spans_of(seen: Seen, V: np.ndarray) -> np.ndarray:
    """Of the values to go in the states acted in; at least the range of a step, at most that of all that is left."""
    known = seen.known
    width = known.high - known.low
    spans = np.zeros((len(known.weights) + 1, len(width)))
    for h, weight in enumerate(known.weights):
        values = V[h, seen.acted()]
        spans[h] = np.clip(values.max(axis=0) - values.min(axis=0), weight * width, known.left[h] * width)
    return spans


def widest(known: Known) -> np.ndarray:
    return known.left[:, None] * (known.high - known.low)


def greedy(known: Known, slater: np.ndarray | None = None, wary: bool = False) -> Learner:
    """OptDual; wary: OptPess-PrimalDual, with the slack of every margin or without."""
    seen, spans, k = Seen(known), widest(known), 0
    u, G, expected = np.zeros(len(known.low) - 1), np.full(len(known.low) - 1, 0.01), []
    start = yield np.zeros(0), u
    while True:
        seen.starts.append(start)
        k += 1

        def best(h: int, pairs: Any, Q: np.ndarray, u: np.ndarray = u) -> np.ndarray:
            return np.eye(len(pairs))[np.argmax(Q[:, 0] + Q[:, 1:] @ u)]

        _, V, policy = swept(seen, spans, half_width, best)
        if seen.episodes:
            spans = spans_of(seen, V)
        g, eps = sober(seen, policy), np.zeros(len(u))
        G = G + g**2
        if wary and seen.episodes:
            sums = np.array([known.weights @ signals[:, 1:] for _, _, signals in seen.episodes])
            each = np.arange(1.0, k) * np.arange(2.0, k + 1)  # weights of episodes 1 to k - 1
            eps = 2 * np.sqrt(each @ (sums - np.array(expected)) ** 2 / each.sum() / (k - 1))
            eps = eps if slater is None else np.minimum(eps, 0.5 * slater)
        expected.append(g)
        u = np.maximum(u - np.maximum(u, 1) * (g - eps) / np.sqrt(G), 0)
        seen.episodes.append((yield policy, u))
        start = yield policy, u


def softmax(known: Known, c: float, step: float, tau: float = 0.0, late: bool = False) -> Learner:
    """OptPrimalDual; late, with a share of the uniform policy: OPDOP; with tau: Mueller et al."""
    seen, spans, theta = Seen(known), widest(known), 1.0 / known.episodes if late else 0.0
    policy = np.concatenate([np.full(len(pairs), 1.0 / len(pairs)) for pairs in known.states()])
    policy = np.repeat(policy[None], len(known.weights), axis=0)
    kept = np.zeros_like(policy)  # logarithms of the policy, against its best action
    u, G, g, ahead = (np.full(len(known.low) - 1, first) for first in (0.0, 0.01, 0.0, 0.0))
    k = 0

    def stepped(u: np.ndarray, G: np.ndarray, temperature: float) -> tuple[np.ndarray, np.ndarray]:
        s = c * np.maximum(u, 1) / np.sqrt(G)
        u = np.maximum((1 - s * temperature) * u - s * g, 0)
        return u, np.maximum(u - math.sqrt(k) * s * g, 0)

    start = yield np.zeros(0), u
    while True:
        seen.starts.append(start)
        if seen.episodes:
            k += 1
            temperature, eta = tau * k**-0.4, step / (known.left[0] * math.sqrt(k))
            if late:
                G = G + g**2
                u, ahead = stepped(u, G, temperature)

            def same(h: int, pairs: Any, Q: np.ndarray, policy: np.ndarray = policy) -> np.ndarray:
                return policy[h, pairs]

            Q, V, _ = swept(seen, spans, half_width, same)
            spans, g = spans_of(seen, V), sober(seen, policy)
            to_go = entropy_to_go(seen, policy)
            new = np.empty_like(policy)
            for h in range(len(known.weights)):
                for pairs in known.states():
                    if late:
                        kept[h, pairs] = np.log((1 - theta) * policy[h, pairs] + theta / len(pairs))
                    target = Q[h, pairs, 0] + Q[h, pairs, 1:] @ ahead + temperature * to_go[h, pairs]
                    logs = (1 - eta * temperature) * kept[h, pairs] + eta * target
                    weights = np.exp(logs - logs.max())
                    new[h, pairs] = weights / weights.sum()
                    kept[h, pairs] = np.maximum(logs - logs.max(), -10.0)
            policy = np.maximum(new, 1e-300)  # so that logarithms exist
            if not late:
                G = G + g**2
                u, ahead = stepped(u, G, temperature)
        seen.episodes.append((yield policy, u))
        start = yield policy, u


def entropy_to_go(seen: Seen, policy: np.ndarray) -> np.ndarray:
    """After each pair [H, n], of the policy in the empirical model; none after a pair never tried."""
    known = seen.known
    _, chances, _ = seen.model()
    to_go, values = np.zeros_like(policy), np.zeros(len(known.offsets) - 1)
    for h in reversed(range(len(policy))):
        to_go[h] = chances[h] @ values
        for s, pairs in enumerate(known.states()):
            values[s] = policy[h, pairs] @ (to_go[h, pairs] - np.log(policy[h, pairs]))
    return to_go


def triple_q(known: Known, published: bool = False) -> Learner:
    """Triple-Q, by the paper's formulas or as the preset has it; u is the price of the margin."""
    horizon, n, n_signals, K = len(known.weights), known.offsets[-1], len(known.low), known.episodes
    W = known.left[0]
    tables = np.full((horizon, n, n_signals), W) if published else np.zeros((horizon, n, n_signals))
    if not published:
        tables += known.left[:-1, None, None]
    tries, u, G, Z, total = np.zeros((horizon, n)), *(np.full(n_signals - 1, x) for x in (0.0, 0.01, 0.0, 0.0))
    iota = 128 * math.log(math.sqrt(2 * n * horizon) * K)
    eps = 8 * math.sqrt(n * W**6 * iota**3) / K**0.2
    chi, frame = (K**0.2, round(K**0.6)) if published else (horizon, round(K**0.25))
    k = 0
    yield np.zeros(0), u
    while True:
        k += 1
        worth = tables[:, :, 0] + 2 * tables[:, :, 1:] @ u
        policy = np.zeros((horizon, n))
        share = 0.0 if published else min(1 / math.sqrt(k), 1)
        for h in range(horizon):
            for pairs in known.states():
                best = worth[h, pairs] == worth[h, pairs].max()
                policy[h, pairs] = (1 - share) * best / best.sum() + share / len(pairs)
        path, _, signals = yield policy, u
        old = tables.copy()
        for h in range(horizon):
            pair = path[h]
            utilities = known.weights[h] * np.concatenate([signals[h, :1], 0.5 + 0.5 * signals[h, 1:]])
            after = old[h + 1, path[h + 1]] if h + 1 < horizon else np.zeros(n_signals)
            tries[h, pair] += 1
            rate = (chi + 1) / (chi + tries[h, pair])
            bonus = 0.25 * math.sqrt(W**2 * iota * rate) if published else 0.0
            tables[h, pair] = (1 - rate) * old[h, pair] + rate * (utilities + after + bonus)
        total = total + (old[0, path[0], 1:] if published else known.weights @ signals[:, 1:])
        if k % frame == 0:
            mean, total = total / frame, np.zeros(n_signals - 1)
            if published:
                Z = np.maximum(Z + W / 2 + eps - mean, 0)
                u = Z / (2 * K**0.2)
                tables[:], tries[:] = W, 0
            else:
                G = G + mean**2
                u = np.maximum(u - 0.3 * mean / np.sqrt(G), 0)
        yield policy, u


def staged(horizon: int = 4, constraints: int = 2, seed: int = 5) -> ib.CMDP:
    """Three states with 1, 2 and 3 actions, whose transitions, reward and signals differ by stage."""
    rng = np.random.default_rng(seed)
    transition = tuple(sp.csr_array(rng.dirichlet(np.ones(3), size=6)) for _ in range(horizon))
    signals = rng.random((constraints, horizon, 6))
    return ib.CMDP(
        offsets=[0, 1, 3, 6],
        transition=transition,
        reward=rng.random((horizon, 6)),
        constraints=[
            ib.Constraint(signal, at_least=0.7 * horizon, name=f"signal {i}") for i, signal in enumerate(signals)
        ],
        initial=[0.5, 0.3, 0.2],
        horizon=horizon,
    )
