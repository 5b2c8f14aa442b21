"""Small models at the ends of what doubles can say. Each answer must be right by its own bracket, or have been refused.

near-one        discounts up to 1 - 2^-53
rare            probabilities down to 1e-300
units           reward and signals in units over twenty decades
periodic        chains that go round and never mix
multichain      classes of states that never meet, also on average
thin            Slater constants from 1e-1 down to 1e-9
edge            bounds that can be met only just, or that no policy meets by 1e-7 down to 1e-12
never-paid      at_most=0 for what never has to be paid: a margin of exactly zero, which must be proved
unreachable     states that nothing leads to, with rewards and costs of 1e8
tiny            signals of 1e-311 and of 1e+95
constant        signals that are the same everywhere, frontier included
deterministic   few states, certain moves, small whole numbers: ties everywhere
staged          moves and rewards that differ by stage, most of them certain: states that are reached too late, or never
rooms           rooms of states with a way from each to the next, by an action that succeeds with 1e-1 down to 1e-8
drifting        walks that drift one way or the other: no move is rare, and what is between the ends hardly ever visited
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import inbounds as ib

from . import rationals
from .judge import judge
from .models import CRITERIA, bounded, numbers, random_model
from .workers import Report, Verdict, campaign

COUNT = 3_000  # 200 of each family


def near_one(rng: np.random.Generator, kind: str) -> ib.CMDP:
    model = random_model(rng, "discount")
    far = float(rng.choice([1e-6, 1e-7, 1e-9, 1e-10, 1e-12, 2.0**-53]))
    plain = replace(model, constraints=(), discount=1.0 - far)
    if rng.random() < 0.5:
        plain = replace(plain, transition=certain(rng, plain))
    return bounded(rng, plain, int(rng.integers(0, 3)))


def rare(rng: np.random.Generator, kind: str) -> ib.CMDP:
    model = replace(random_model(rng, kind), constraints=())
    if model.n_states == 1:
        return bounded(rng, model, 1)
    transition = certain(rng, model)
    for row in transition:
        if rng.random() < 0.7:
            other = int(rng.integers(model.n_states))
            if row[other] == 0.0:
                row[other] = float(rng.choice([1e-9, 1e-12, 1e-14, 1e-16, 1e-30, 1e-100, 1e-300]))
    return bounded(rng, replace(model, transition=transition), int(rng.integers(0, 3)))


def units(rng: np.random.Generator, kind: str) -> ib.CMDP:
    model = random_model(rng, kind)
    factors = 10.0 ** rng.choice([-10, -8, -5, 0, 5, 8, 10], size=1 + model.n_constraints)
    return replace(
        model,
        reward=model.reward * factors[0],
        constraints=tuple(
            replace(c, signal=c.signal * f).with_bound(c.bound * f)
            for c, f in zip(model.constraints, factors[1:].tolist(), strict=True)
        ),
    )


def periodic(rng: np.random.Generator, kind: str) -> ib.CMDP:
    states = int(rng.integers(2, 6))
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 3, states))])
    owner = np.repeat(np.arange(states), np.diff(offsets))
    jump = np.where(rng.random(len(owner)) < 0.8, 1, int(rng.integers(1, states)))
    plain = ib.CMDP(
        offsets=offsets,
        transition=np.eye(states)[(owner + jump) % states],
        reward=numbers(rng, len(owner)),
        constraints=(),
        initial=np.eye(states)[0],
        **_criterion(rng, kind),
    )
    return bounded(rng, plain, int(rng.integers(0, 3)))


def multichain(rng: np.random.Generator, kind: str) -> ib.CMDP:
    """Blocks that never meet, and a state before them that leads to either; on average, from each to the next."""
    first, second = (random_model(rng, "discount", states=2, actions=2, constraints=0) for _ in range(2))
    n, m = first.n_states, second.n_states
    blocks = np.zeros((first.n_pairs + second.n_pairs, n + m + 1))
    blocks[: first.n_pairs, :n] = first.transition.toarray()
    blocks[first.n_pairs :, n : n + m] = second.transition.toarray()
    door = np.zeros((2, n + m + 1))
    door[0, 0] = door[1, n] = 1.0
    sizes = [*np.diff(first.offsets), *np.diff(second.offsets), 2]
    rows = [blocks, door]
    if kind == "average" and rng.random() < 0.8:  # a way back from the last state of each block
        rows = [blocks[: first.n_pairs], door[1:], blocks[first.n_pairs :], door[:1], door]
        sizes[n - 1] += 1
        sizes[n + m - 1] += 1
    transition = np.vstack(rows)
    plain = ib.CMDP(
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        transition=transition,
        reward=numbers(rng, len(transition)),
        constraints=(),
        initial=np.eye(n + m + 1)[-1],
        **_criterion(rng, kind),
    )
    return bounded(rng, plain, int(rng.integers(0, 3)))


def thin(rng: np.random.Generator, kind: str) -> ib.CMDP:
    return _moved(rng, kind, [1e-1, 1e-2, 1e-3, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9])


def edge(rng: np.random.Generator, kind: str) -> ib.CMDP:
    return _moved(rng, kind, [0.0, -1e-7, -1e-8, -1e-9, -1e-10, -1e-12])


def _moved(rng: np.random.Generator, kind: str, rooms: list[float]) -> ib.CMDP:
    """Bounds moved so that the scaled Slater constant is one of `rooms`, up to the rounding of the bounds."""
    states = int(rng.choice([4, 4, 6])) if kind != "horizon" else 3
    model = random_model(rng, kind, states=states)
    while model.n_constraints == 0:
        model = random_model(rng, kind, states=states)
    if model.average and not rationals.weakly_communicating(model):
        return model
    for _ in range(4):  # the scales move with the bounds, but not for long
        exact = rationals.rational(model)
        scales = exact.scales
        room = float(rationals.slater(exact, scales))
        model = model.tightened((room - rooms[0]) * np.array([float(s) for s in scales]))
    wanted = float(rng.choice(rooms))
    exact = rationals.rational(model)
    room = float(rationals.slater(exact, exact.scales))
    return model.tightened((room - wanted) * np.array([float(s) for s in exact.scales]))


def never_paid(rng: np.random.Generator, kind: str) -> ib.CMDP:
    """Every state has an action that costs nothing."""
    plain = replace(random_model(rng, kind, actions=3), constraints=())
    free = np.zeros(plain.n_pairs, dtype=bool)
    free[[rng.integers(a, b) for a, b in zip(plain.offsets[:-1], plain.offsets[1:], strict=True)]] = True
    listed = []
    for k in range(int(rng.integers(1, 3))):
        cost = np.where(free, 0.0, np.abs(numbers(rng, plain.n_pairs)))
        if rng.random() < 0.5:
            listed.append(ib.Constraint(cost, at_most=0.0, name=f"cost {k}"))
        else:
            listed.append(ib.Constraint(-cost, at_least=0.0, name=f"gain {k}"))
    return replace(plain, constraints=tuple(listed))


def unreachable(rng: np.random.Generator, kind: str) -> ib.CMDP:
    """Of large cost, and with a way to what can be reached."""
    model = random_model(rng, kind, states=3)
    new, n = int(rng.integers(1, 3)), model.n_states
    # New states come first: whoever takes a maximum over all pairs sees them.
    rows = np.vstack([np.eye(n)[rng.integers(n, size=new)], model.transitions[0].toarray()])
    big = float(rng.choice([1e4, 1e8, -1e8]))

    def grown(values: np.ndarray) -> np.ndarray:
        return np.append(rng.normal(size=new) * big, values if values.ndim == 1 else values[0])

    return ib.CMDP(
        offsets=np.concatenate([np.arange(new), new + model.offsets]),
        transition=np.column_stack([np.zeros((len(rows), new)), rows]),
        reward=grown(model.reward),
        constraints=tuple(replace(c, signal=grown(c.signal)) for c in model.constraints),
        initial=np.append(np.zeros(new), model.initial),
        **model.criterion,
    )


def tiny(rng: np.random.Generator, kind: str) -> ib.CMDP:
    model = random_model(rng, kind, states=3)
    factors = rng.choice([1e-311, 1e-320, 1e-200, 1e95, 1.0], size=1 + model.n_constraints).tolist()
    return replace(
        model,
        reward=model.reward * factors[0],
        constraints=tuple(
            replace(c, signal=c.signal * f).with_bound(c.bound * f)
            for c, f in zip(model.constraints, factors[1:], strict=True)
        ),
    )


def constant(rng: np.random.Generator, kind: str) -> ib.CMDP:
    model = random_model(rng, kind, slack=float(rng.choice([0.0, 0.1])))
    value = float(rng.choice([0.0, 1.0, 0.3]))
    bound = value * model.layers + float(rng.choice([0.0, 0.21, 1.0]))
    same = ib.Constraint(np.full(model.n_pairs, value), at_most=bound, name="constant")
    return replace(model, constraints=(same, *model.constraints[:1]))


def deterministic(rng: np.random.Generator, kind: str) -> ib.CMDP:
    model = replace(random_model(rng, kind, states=3), constraints=())
    plain = replace(model, transition=certain(rng, model), reward=rng.integers(-1, 3, model.n_pairs).astype(float))
    listed = tuple(
        ib.Constraint(
            rng.integers(0, 2, model.n_pairs).astype(float), at_most=float(rng.choice([0.0, 0.25, 0.5])), name=f"{k}"
        )
        for k in range(int(rng.integers(0, 3)))
    )
    return replace(plain, constraints=listed)


def staged(rng: np.random.Generator, kind: str) -> ib.CMDP:
    """From the first state one step up at most; what lies above pays most, and takes most of each constraint."""
    plain = replace(random_model(rng, "horizon", states=6, actions=2), constraints=())
    state, last = plain.pairs.states, plain.n_states - 1
    paid = state ** float(rng.integers(1, 4)) * float(rng.choice([1.0, -1.0, 100.0]))

    def moves() -> np.ndarray:
        up, fall = (np.eye(last + 1)[np.minimum(state + rng.integers(2, size=len(state)), last)] for _ in range(2))
        return up if rng.random() < 0.5 else 0.75 * up + 0.25 * fall

    alone = replace(
        plain,
        transition=tuple(moves() for _ in range(plain.layers)),
        reward=np.array([paid + numbers(rng, plain.n_pairs) for _ in range(plain.layers)]),
        initial=np.eye(last + 1)[0],
    )
    model = bounded(rng, alone, int(rng.integers(0, 3)))
    beyond = np.where(state > plain.layers, float(rng.choice([1.0, 100.0])), 0.0) * paid
    return replace(model, constraints=tuple(replace(c, signal=c.signal + beyond) for c in model.constraints))


def rooms(rng: np.random.Generator, kind: str) -> ib.CMDP:
    """To be in several of them on average takes a policy that links them; what is safe may be in yet another."""
    count, rare = int(rng.integers(2, 4)), float(rng.choice([0.1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8]))
    inside = [random_model(rng, "discount", states=2, actions=2, constraints=0) for _ in range(count)]
    firsts = np.cumsum([0] + [room.n_states for room in inside])
    rows, sizes = [], []
    for room, first, onward in zip(inside, firsts, [*firsts[1:-1], 0], strict=False):
        moves = np.zeros((room.n_pairs, firsts[-1]))
        moves[:, first : first + room.n_states] = room.transition.toarray()
        out = np.eye(firsts[-1])[first] * (1.0 - rare) + np.eye(firsts[-1])[onward] * rare
        rows += [moves, out[None]]
        sizes += np.diff(room.offsets).tolist()
        sizes[-1] += 1  # by the last state, back to the first or on
    transition = np.vstack(rows)
    plain = ib.CMDP(
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        transition=transition,
        reward=numbers(rng, len(transition)),
        constraints=(),
        initial=np.full(firsts[-1], 1.0 / firsts[-1]) if rng.random() < 0.5 else np.eye(firsts[-1])[0],
        **_criterion(rng, kind),
    )
    return bounded(rng, plain, int(rng.integers(1, 3)))


def drifting(rng: np.random.Generator, kind: str) -> ib.CMDP:
    """On average an optimum at both ends goes from one to the other by moves that are made ever more rarely."""
    n_states, against = int(rng.integers(4, 10)), 10.0 ** -rng.uniform(1.0, 5.0, size=10)
    transition = np.zeros((n_states, 2, n_states))
    for state in range(n_states):
        for action, onward in enumerate((state + 1, state - 1)):
            transition[state, action, np.clip(onward, 0, n_states - 1)] += 1.0 - against[state]
            transition[state, action, np.clip(2 * state - onward, 0, n_states - 1)] += against[state]
    ends = np.repeat(np.isin(np.arange(n_states), (0, n_states - 1)), 2)
    plain = ib.CMDP(
        offsets=np.arange(0, 2 * n_states + 1, 2),
        transition=transition.reshape(2 * n_states, n_states),
        reward=numbers(rng, 2 * n_states) * ends,
        constraints=(),
        initial=np.eye(n_states)[0],
        **_criterion(rng, kind),
    )
    drifts = [np.tile(drift, n_states * plain.layers) for drift in ([1.0, 0.0], [0.0, 1.0])]
    share, constraints = rng.uniform(0.2, 0.8), []
    for name in ("one", "other")[: int(rng.integers(1, 3))]:
        signal = numbers(rng, plain.n_pairs) * ends
        valued = rationals.rational(plain.asking(reward=np.broadcast_to(signal, plain.shape)))
        one, other = (float(min(rationals.values(valued, drift, [valued.reward])[0])) for drift in drifts)
        room = float(rng.choice([0.01, 0.1])) * np.ptp(signal) * plain.layers
        constraints.append(ib.Constraint(signal, at_least=share * one + (1.0 - share) * other - room, name=name))
    return replace(plain, constraints=tuple(constraints))


def certain(rng: np.random.Generator, model: ib.CMDP) -> np.ndarray:
    """Moves [n, S] that are all certain."""
    return np.eye(model.n_states)[rng.integers(model.n_states, size=model.n_pairs)]


def _criterion(rng: np.random.Generator, kind: str) -> dict[str, Any]:
    if kind == "discount":
        return {"discount": float(rng.choice([0.5, 0.99, 0.99999, 1 - 1e-6, 1 - 1e-9]))}
    return {"horizon": int(rng.integers(2, 5))} if kind == "horizon" else {"average": True}


def rings(rng: np.random.Generator, kind: str) -> ib.CMDP:
    """Moves without chance, and bounds that leave hardly any room: not all that have the most of it are good."""
    n_states, states, ends = int(rng.integers(4, 9)), [], []
    for state in range(n_states):
        onward = {(state + 1) % n_states, int(rng.integers(n_states))}
        states += [state] * len(onward)
        ends += sorted(onward)
    constraints = [
        ib.Constraint(
            (rng.random(len(ends)) < rng.choice([0.1, 0.3])) * rng.integers(1, 3, len(ends)).astype(float),
            at_most=float(10.0 ** -rng.uniform(2.0, 6.0)),
            name=name,
        )
        for name in ("one", "other")[: int(rng.integers(1, 3))]
    ]
    return ib.CMDP(
        offsets=np.searchsorted(states, range(n_states + 1)),
        transition=np.eye(n_states)[ends],
        reward=rng.integers(0, 6, len(ends)).astype(float) * (rng.random(len(ends)) < 0.6),
        constraints=constraints,
        initial=np.eye(n_states)[0],
        **_criterion(rng, kind),
    )


FAMILIES: dict[str, Callable[[np.random.Generator, str], ib.CMDP]] = {
    "near-one": near_one,
    "rare": rare,
    "units": units,
    "periodic": periodic,
    "multichain": multichain,
    "thin": thin,
    "edge": edge,
    "never-paid": never_paid,
    "unreachable": unreachable,
    "tiny": tiny,
    "constant": constant,
    "deterministic": deterministic,
    "staged": staged,
    "rooms": rooms,
    "drifting": drifting,
    "rings": rings,
}
STRICT = FAMILIES.keys() - {"near-one", "rare", "multichain", "edge", "tiny"}
"""Families that are refused no answer, and must have the digits and gaps of ordinary models."""

REFUSABLE = {"tiny", "near-one", "rare"}


def draw(seed: int, index: int) -> tuple[ib.CMDP, str]:
    rng = np.random.default_rng([seed, index, 3])
    family = list(FAMILIES)[index % len(FAMILIES)]
    with np.errstate(all="ignore"):
        return FAMILIES[family](rng, CRITERIA[index // len(FAMILIES) % 3]), family


def verdict(model: ib.CMDP, what: str) -> Verdict:
    found = judge(model, strict=what in STRICT, refusable=what in REFUSABLE, loose=what == "drifting")
    complaints = [f"{what}, {complaint}" for complaint in found.complaints]
    if what == "never-paid" and not complaints and _accepted(model):
        best = ib.solve(model)
        if not best.certificate.in_bounds:
            complaints.append(f"{what}, margin of exactly zero not proved: {best.certificate.margins_lower}")
    return Verdict(complaints, {**found.tried, what: 1})


def _accepted(model: ib.CMDP) -> bool:
    return not model.average or rationals.weakly_communicating(model)


def run(count: int, seed: int, seconds: float) -> Report:
    return campaign(draw, verdict, count, seed, seconds, "extremes")
