"""Random small models of all three criteria; and smaller ones, that fail in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import inbounds as ib

from .rationals import rational, values, weakly_communicating

CRITERIA = ("discount", "horizon", "average")


def distribution(rng: np.random.Generator, size: int) -> np.ndarray:
    """A point mass, eighths with zeros, or generic numbers."""
    style = rng.integers(3)
    if style == 0:
        return np.eye(size)[rng.integers(size)]
    if style == 1:
        return rng.multinomial(8, np.full(size, 1.0 / size)) / 8.0
    weights = rng.exponential(size=size)
    return weights / weights.sum()


def numbers(rng: np.random.Generator, size: int) -> np.ndarray:
    """Zeros and ones, eighths, or generic numbers."""
    style = rng.integers(3)
    if style == 0:
        return rng.integers(-1, 2, size).astype(float)
    return rng.integers(-16, 17, size) / 8.0 if style == 1 else rng.normal(size=size)


def criterion(rng: np.random.Generator, kind: str) -> dict[str, Any]:
    if kind == "discount":
        return {"discount": float(rng.choice([0.0, 0.5, 0.8, 0.9, 0.97, 0.999, rng.random()]))}
    return {"horizon": int(rng.integers(1, 4))} if kind == "horizon" else {"average": True}


def random_model(
    rng: np.random.Generator, kind: str, states: int = 4, actions: int = 3, constraints: int = 3, slack: Any = None
) -> ib.CMDP:
    """At most so many of each. Bounds are what a random policy keeps, moved by `slack` or by something random."""
    for attempt in range(20):
        n_states = int(rng.integers(1, states + 1))
        offsets = np.concatenate([[0], np.cumsum(rng.integers(1, actions + 1, n_states))])
        n = int(offsets[-1])
        plain = ib.CMDP(
            offsets=offsets,
            transition=np.array([distribution(rng, n_states) for _ in range(n)]),
            reward=numbers(rng, n),
            constraints=(),
            initial=distribution(rng, n_states),
            **criterion(rng, kind),
        )
        if kind != "average" or attempt == 19 or weakly_communicating(plain):
            break
    return bounded(rng, plain, int(rng.integers(0, constraints + 1)), slack)


def bounded(rng: np.random.Generator, plain: ib.CMDP, constraints: int, slack: Any = None) -> ib.CMDP:
    """With random constraints that a random policy keeps, up to `slack` of the size of each signal."""
    n = plain.n_pairs
    policy = np.concatenate([distribution(rng, int(size)) for size in np.diff(plain.offsets)])
    policy = np.tile(policy, plain.layers)
    listed = []
    for k in range(constraints):
        signal = numbers(rng, n)
        reached = _reached(plain.asking(reward=np.broadcast_to(signal, plain.shape)), policy)
        room = rng.choice([0.0, 0.125, 0.01, rng.random(), -0.05]) if slack is None else slack
        room = float(room * np.ptp(signal) * plain.layers)
        if rng.random() < 0.5:
            listed.append(ib.Constraint(signal, at_least=reached - room, name=f"floor {k}"))
        else:
            listed.append(ib.Constraint(signal, at_most=reached + room, name=f"ceiling {k}"))
    return replace(plain, constraints=tuple(listed))


def _reached(plain: ib.CMDP, policy: np.ndarray) -> float:
    """The value of its reward under a policy; of more than a few states roughly, by dense floating point."""
    if plain.n_states <= 6:
        exact = rational(plain)
        return float(min(values(exact, policy, [exact.reward])[0]))
    here, total, reward = plain.initial, 0.0, plain.reward.reshape(plain.layers, -1)
    chosen = policy.reshape(plain.layers, -1)
    steps = plain.layers if plain.horizon is not None else 300
    left = 1.0
    for t in range(steps):
        h = t % plain.layers
        at_pairs = here[plain.pairs.states] * chosen[h]
        stop = 1.0 if plain.horizon is not None else 1.0 / steps if plain.average else (1.0 - plain.discount) * left
        total += stop * float(at_pairs @ reward[h])
        left *= plain.discount or 1.0
        here = at_pairs @ plain.transitions[h]
    return total + (left * float(at_pairs @ reward[0]) if plain.discount else 0.0)


# --- smaller models


def shrunk(model: ib.CMDP, fails: Callable[[ib.CMDP], bool]) -> ib.CMDP:
    """The smallest and roundest model that still fails, as far as one change at a time leads there.

    `fails` may raise TimeoutError to end it.
    """
    try:
        changed = True
        while changed:
            changed = False
            for smaller in _smaller(model):
                if fails(smaller):
                    model, changed = smaller, True
                    break
    except TimeoutError:
        pass
    return model


def _smaller(model: ib.CMDP) -> Iterator[ib.CMDP]:
    for change in (_fewer_constraints, _fewer_states, _fewer_pairs, _fewer_stages, _rounder):
        candidates = change(model)
        while True:
            try:
                yield next(candidates)
            except StopIteration:
                break
            except (ib.InvalidInput, ValueError):  # not a model
                break


def _fewer_constraints(model: ib.CMDP) -> Iterator[ib.CMDP]:
    for k in range(model.n_constraints):
        yield replace(model, constraints=model.constraints[:k] + model.constraints[k + 1 :])


def _fewer_states(model: ib.CMDP) -> Iterator[ib.CMDP]:
    for state in range(model.n_states if model.n_states > 1 else 0):
        kept = [s for s in range(model.n_states) if s != state]
        pairs = [p for s in kept for p in range(model.offsets[s], model.offsets[s + 1])]
        smaller = of_pairs(model, pairs, kept)
        if smaller is not None:
            yield smaller


def _fewer_pairs(model: ib.CMDP) -> Iterator[ib.CMDP]:
    for state in range(model.n_states):
        own = range(model.offsets[state], model.offsets[state + 1])
        for pair in own if len(own) > 1 else ():
            smaller = of_pairs(model, [p for p in range(model.n_pairs) if p != pair], list(range(model.n_states)))
            if smaller is not None:
                yield smaller


def _fewer_stages(model: ib.CMDP) -> Iterator[ib.CMDP]:
    if model.horizon is not None and model.horizon > 1 and np.all(model.reward == model.reward[0]):
        yield replace(
            model,
            horizon=1,
            transition=model.transitions[0],
            reward=model.reward[0],
            constraints=tuple(replace(c, signal=c.signal[0]) for c in model.constraints),
        )


def _rounder(model: ib.CMDP) -> Iterator[ib.CMDP]:
    for digits in (0, 1, 2, 3):
        reward = np.round(model.reward, digits)
        if not np.array_equal(reward, model.reward):
            yield replace(model, reward=reward)
        for k, c in enumerate(model.constraints):
            for other in (
                replace(c, signal=np.round(c.signal, digits)),
                c.with_bound(float(np.round(c.bound, digits))),
            ):
                if not np.array_equal(other.signal, c.signal) or other.bound != c.bound:
                    yield replace(model, constraints=(*model.constraints[:k], other, *model.constraints[k + 1 :]))
        if model.horizon is None:
            transition = np.round(model.transition.toarray(), digits)
            transition /= np.where(transition.sum(axis=1, keepdims=True) > 0, transition.sum(axis=1, keepdims=True), 1)
            if not np.array_equal(transition, model.transition.toarray()) and np.all(transition.sum(axis=1) > 0):
                yield replace(model, transition=transition)


def of_pairs(model: ib.CMDP, pairs: list[int], states: list[int]) -> ib.CMDP | None:
    """The model with some pairs and states only; what led elsewhere leads to the first state. None: no action left."""
    columns = np.zeros((model.n_states, len(states)))
    columns[:, 0] = 1.0
    columns[states] = np.eye(len(states))
    counts = [sum(1 for p in pairs if model.offsets[s] <= p < model.offsets[s + 1]) for s in states]
    matrices = [sp.toarray()[pairs] @ columns for sp in model.transitions]
    initial = model.initial @ columns
    if 0 in counts or initial.sum() <= 0:
        return None
    take = (lambda v: v[..., pairs]) if model.horizon is not None else (lambda v: v[pairs])
    return ib.CMDP(
        offsets=np.concatenate([[0], np.cumsum(counts)]),
        transition=tuple(matrices) if model.horizon is not None else matrices[0],
        reward=take(model.reward),
        constraints=tuple(replace(c, signal=take(c.signal)) for c in model.constraints),
        initial=initial,
        **model.criterion,
    )
