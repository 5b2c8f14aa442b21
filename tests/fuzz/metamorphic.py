"""Two models that say the same must have the same answer: relations between solves, in all three criteria.

Each relation changes a model and says how the answer changes with it. What is compared are intervals that both solves
have proved, so the tolerance is their gaps, and beside those only the rounding of the change itself: numbers that were
multiplied or moved by d differ from what is meant by half a unit in the last place, so the optimum differs by at most

    4 * 2^-53 * (largest reward + sum of prices * (largest signal + bound))  * layers  * (1 + reach, for probabilities)

because prices (Lagrange multipliers) say what a change of a margin is worth, from either side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import inbounds as ib

from .models import CRITERIA, random_model
from .rationals import weakly_communicating
from .workers import Report, Verdict, campaign, in_time

COUNT = 10_000  # solves

HAIR = 1e-7
"""Of the scaled Slater constant: closer to the boundary, one of two equal models may be called feasible only."""

PROVABLE = 3e-9
"""From this scaled Slater constant on, both must be proved."""


class Changed(NamedTuple):
    """A model that says the same; its rewards are `factor` times those of the original, plus `shift`."""

    model: ib.CMDP
    factor: float = 1.0
    shift: float = 0.0
    prices: Callable[[np.ndarray], np.ndarray] = lambda prices: prices  # of the original, from its own


def relabelled(model: ib.CMDP, rng: np.random.Generator) -> Changed:
    states = tuple(f"state {i}" for i in rng.permutation(model.n_states))
    actions = tuple(f"do {i}" for i in rng.permutation(int(model.actions.max()) + 1))
    return Changed(replace(model, state_labels=states, action_labels=actions, name="relabelled"))


def permuted_states(model: ib.CMDP, rng: np.random.Generator) -> Changed:
    order = rng.permutation(model.n_states)
    pairs = np.concatenate([np.arange(model.offsets[s], model.offsets[s + 1]) for s in order])
    sizes = np.diff(model.offsets)[order]
    return Changed(_rearranged(model, pairs, sizes, lambda matrix: matrix[:, order], model.initial[order]))


def permuted_actions(model: ib.CMDP, rng: np.random.Generator) -> Changed:
    pairs = np.concatenate([rng.permutation(np.arange(a, b)) for a, b in _spans(model)])
    return Changed(_rearranged(model, pairs, np.diff(model.offsets)))


def permuted_constraints(model: ib.CMDP, rng: np.random.Generator) -> Changed:
    order = rng.permutation(model.n_constraints)
    back = np.argsort(order)
    return Changed(
        replace(model, constraints=tuple(model.constraints[k] for k in order)), prices=lambda prices: prices[back]
    )


def scaled_by_powers(model: ib.CMDP, rng: np.random.Generator) -> Changed:
    return _scaled(model, 2.0 ** rng.integers(-40, 41), 2.0 ** rng.integers(-40, 41, model.n_constraints))


def scaled_by_anything(model: ib.CMDP, rng: np.random.Generator) -> Changed:
    return _scaled(model, 10 ** rng.uniform(-8, 8), 10 ** rng.uniform(-8, 8, model.n_constraints))


def shifted_reward(model: ib.CMDP, rng: np.random.Generator) -> Changed:
    by = float(rng.integers(-8, 9) / 4)
    return Changed(replace(model, reward=model.reward + by), shift=by * model.layers)


def negated_signals(model: ib.CMDP, rng: np.random.Generator) -> Changed:
    return Changed(
        replace(
            model,
            constraints=tuple(
                ib.Constraint(-c.signal, at_most=-c.bound, name=c.name)
                if c.at_least is not None
                else ib.Constraint(-c.signal, at_least=-c.bound, name=c.name)
                for c in model.constraints
            ),
        )
    )


def duplicated_action(model: ib.CMDP, rng: np.random.Generator) -> Changed:
    pair = int(rng.integers(model.n_pairs))
    sizes = np.diff(model.offsets).copy()
    sizes[np.searchsorted(model.offsets, pair, side="right") - 1] += 1
    return Changed(_rearranged(model, np.insert(np.arange(model.n_pairs), pair, pair), sizes))


def split_state(model: ib.CMDP, rng: np.random.Generator) -> Changed:
    """One state becomes two that are alike; what led there leads to either with half the probability."""
    state = int(rng.integers(model.n_states))
    own = np.arange(model.offsets[state], model.offsets[state + 1])
    pairs = np.concatenate([np.arange(model.n_pairs), own])
    initial = np.append(model.initial, 0.0)
    initial[[state, -1]] = model.initial[state] / 2.0

    def columns(matrix: np.ndarray) -> np.ndarray:
        halved = np.column_stack([matrix, matrix[:, state] / 2.0])
        halved[:, state] /= 2.0
        return halved

    return Changed(_rearranged(model, pairs, np.append(np.diff(model.offsets), len(own)), columns, initial))


def unreachable_states(model: ib.CMDP, rng: np.random.Generator) -> Changed:
    """New states that lead to the old ones, and to which nothing leads, with rewards and signals of their own."""
    new = int(rng.integers(1, 3))
    pairs = np.concatenate([np.arange(model.n_pairs), rng.integers(model.n_pairs, size=new)])

    def columns(matrix: np.ndarray) -> np.ndarray:
        return np.column_stack([matrix, np.zeros((len(matrix), new))])

    grown = _rearranged(
        model,
        pairs,
        np.append(np.diff(model.offsets), np.ones(new, dtype=int)),
        columns,
        np.append(model.initial, np.zeros(new)),
    )
    factor = np.ones(grown.n_pairs)
    factor[-new:] = rng.choice([1.0, -3.0, 100.0, 1e8, -1e8], size=new)
    return Changed(
        replace(
            grown,
            reward=grown.reward * factor,
            constraints=tuple(replace(c, signal=c.signal * factor) for c in grown.constraints),
        )
    )


def redundant_constraint(model: ib.CMDP, rng: np.random.Generator) -> Changed:
    """A looser copy of a constraint; or, where there is none, a bound that nothing can break."""
    if model.n_constraints:
        k = int(rng.integers(model.n_constraints))
        room = float(rng.choice([0.0, 0.25, 1.0])) * float(model.margin_scales[k])
        extra = replace(model.constraints[k].tightened(-room), name="redundant")
    else:
        k, signal = 0, model.reward
        extra = ib.Constraint(signal, at_most=float(np.sum(np.max(signal, axis=-1))) + 0.5, name="redundant")

    def prices(found: np.ndarray) -> np.ndarray:
        merged = found[:-1].copy()
        if model.n_constraints:
            merged[k] += found[-1]
        return merged

    return Changed(replace(model, constraints=(*model.constraints, extra)), prices=prices)


def tightened_and_relaxed(model: ib.CMDP, rng: np.random.Generator) -> Changed:
    by = rng.choice([0.125, 0.3, 1e-3]) * model.margin_scales
    return Changed(model.tightened(by).tightened(-by))


def _spans(model: ib.CMDP) -> list[tuple[int, int]]:
    return list(zip(model.offsets[:-1].tolist(), model.offsets[1:].tolist(), strict=True))


def _rearranged(
    model: ib.CMDP,
    pairs: np.ndarray,
    sizes: np.ndarray,
    columns: Callable[[np.ndarray], np.ndarray] = lambda matrix: matrix,
    initial: np.ndarray | None = None,
) -> ib.CMDP:
    matrices = [columns(matrix.toarray()[pairs]) for matrix in model.transitions]
    return ib.CMDP(
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        transition=tuple(matrices) if model.horizon is not None else matrices[0],
        reward=model.reward[..., pairs],
        constraints=tuple(replace(c, signal=c.signal[..., pairs]) for c in model.constraints),
        initial=model.initial if initial is None else initial,
        **model.criterion,
    )


def _scaled(model: ib.CMDP, factor: float, factors: np.ndarray) -> Changed:
    return Changed(
        replace(
            model,
            reward=model.reward * factor,
            constraints=tuple(
                replace(c, signal=c.signal * f).with_bound(c.bound * f)
                for c, f in zip(model.constraints, factors.tolist(), strict=True)
            ),
        ),
        factor=float(factor),
        prices=lambda prices: prices * factors / factor,
    )


RELATIONS: dict[str, Callable[[ib.CMDP, np.random.Generator], Changed]] = {
    "relabelled": relabelled,
    "permuted-states": permuted_states,
    "permuted-actions": permuted_actions,
    "permuted-constraints": permuted_constraints,
    "scaled-by-powers": scaled_by_powers,
    "scaled-by-anything": scaled_by_anything,
    "shifted-reward": shifted_reward,
    "negated-signals": negated_signals,
    "duplicated-action": duplicated_action,
    "split-state": split_state,
    "unreachable-states": unreachable_states,
    "redundant-constraint": redundant_constraint,
    "tightened-and-relaxed": tightened_and_relaxed,
    # compared in ways of their own
    "tightened": lambda model, rng: Changed(model),
    "policy-by-label": lambda model, rng: Changed(model),
}
METHODS = ("auto", "bundle", "lp", "auto")
SIZES = ((4, 3), (4, 3), (12, 4), (4, 3), (12, 4), (110, 4))  # states and actions, at most


def draw(seed: int, index: int) -> tuple[ib.CMDP, str]:
    rng = np.random.default_rng([seed, index, 2])
    relation = list(RELATIONS)[index % len(RELATIONS)]
    states, actions = SIZES[rng.integers(len(SIZES))]
    model = random_model(rng, CRITERIA[index // len(RELATIONS) % 3], states, actions)
    method = METHODS[rng.integers(len(METHODS))]
    return model, f"{method}-{relation}"


def verdict(model: ib.CMDP, what: str) -> Verdict:
    method, _, relation = what.partition("-")
    rng = np.random.default_rng(0)
    complaints: list[str] = []
    defined = not model.average or weakly_communicating(model)
    first = _answer(model, method)
    if first == "refused":
        return Verdict([] if not defined else [f"refused ({relation})"], {"refused": 1})
    if relation == "tightened":
        return _monotone(model, first, method, rng)
    if relation == "policy-by-label":
        return _by_label(model, first, rng)
    changed = RELATIONS[relation](model, rng)
    second = _answer(changed.model, method)
    if isinstance(first, float) != isinstance(second, float):
        room = ib.slater(model, scaled=True).value
        if abs(room) > HAIR:
            complaints.append(
                f"feasible before and not after, or the reverse ({relation}): scaled Slater constant {room}"
            )
        return Verdict(complaints, {"solves": 2, "at the edge": 1})
    if isinstance(first, float):
        return Verdict([], {"solves": 2, "infeasible": 1})
    rounding = _rounding(model, first) + _rounding(changed.model, second) / changed.factor
    low, high = _interval(first)
    other_low, other_high = ((x - changed.shift) / changed.factor for x in _interval(second))

    def wrong(kind: str, *numbers: Any) -> None:
        complaints.append(f"{kind} ({relation}): {', '.join(f'{x!r}' for x in numbers)}")

    if low > other_high + rounding or other_low > high + rounding:
        wrong("optima apart", low, high, other_low, other_high)
    if first.certificate.in_bounds != second.certificate.in_bounds:
        room = min(ib.slater(m, scaled=True).value for m in (model, changed.model))
        if room >= PROVABLE:
            wrong("proved in one of them only", room, first.certificate.margins_lower, second.certificate.margins_lower)
    if relation in ("relabelled", "negated-signals") and first.reward != second.reward:
        wrong("other bits", first.reward, second.reward)
    # The prices of the changed model prove its upper bound of the original too: the best at those prices is below it.
    prices = changed.prices(second.prices)
    priced = model.reward + np.einsum("k,k...->...", prices, model.margins)
    at_prices = ib.solve(model.asking(reward=priced, constraints=()))
    if at_prices.certificate.reward_lower > other_high + rounding:
        wrong("prices prove less", at_prices.certificate.reward_lower, other_high)
    if at_prices.upper_bound < low - rounding:
        wrong("prices prove too much", at_prices.upper_bound, low)
    return Verdict(complaints, {"solves": 3, relation: 1})


def _monotone(model: ib.CMDP, first: Any, method: str, rng: np.random.Generator) -> Verdict:
    """Tighter bounds cost what the prices say, at least from one side: optimum(tighter) <= upper - prices . amounts."""
    by = rng.choice([0.01, 0.1]) * model.margin_scales
    second = _answer(model.tightened(by), method)
    if isinstance(first, float):
        bad = not isinstance(second, float) and second.in_bounds
        return Verdict(["feasible when tighter: not before"] if bad else [], {"solves": 2, "infeasible": 1})
    if isinstance(second, float):
        return Verdict([], {"solves": 2, "infeasible": 1})
    complaints = []
    rounding = _rounding(model, first) + _rounding(model, second)
    low, high = _interval(first)
    tight_low, tight_high = _interval(second)
    if tight_low > high - float(first.prices @ by) + rounding:
        complaints.append(f"price too high (tightened): {tight_low!r} > {high!r} - {float(first.prices @ by)!r}")
    if low > tight_high + float(second.prices @ by) + rounding:
        complaints.append(f"price too low (tightened): {low!r} > {tight_high!r} + {float(second.prices @ by)!r}")
    return Verdict(complaints, {"solves": 2, "tightened": 1})


def _by_label(model: ib.CMDP, first: Any, rng: np.random.Generator) -> Verdict:
    """A policy means what its labels say: on the same rules in another order it has the same values, or is refused."""
    if isinstance(first, float):
        return Verdict([], {"solves": 1, "infeasible": 1})
    pairs = np.concatenate([rng.permutation(np.arange(a, b)) for a, b in _spans(model)])
    labels = {
        "state_labels": tuple(f"state {i}" for i in range(model.n_states)),
        "action_labels": tuple(f"do {i}" for i in range(int(model.actions.max()) + 1)),
    }
    labelled = replace(model, **labels)
    other = replace(_rearranged(model, pairs, np.diff(model.offsets)), actions=model.actions[pairs], **labels)
    policy = ib.Policy(labelled.pairs, first.policy.probabilities)
    try:
        here, there = ib.evaluate(labelled, policy), ib.evaluate(other, policy)
    except ib.InvalidInput:
        return Verdict([], {"solves": 1, "refused": 1})
    size = float(np.max(np.abs(model.reward))) * model.layers
    close = abs(here.reward - there.reward) <= 1e-9 * size
    complaint = f"another value by position (policy-by-label): {here.reward!r}, {there.reward!r}"
    return Verdict([] if close else [complaint], {"solves": 1, "policy-by-label": 1})


def _answer(model: ib.CMDP, method: str) -> Any:
    """A solution; the Slater constant of an infeasible problem; or "refused"."""
    try:
        return in_time(lambda: ib.solve(model, method=method))
    except ib.Infeasible as error:
        return float(error.slater)
    except ib.InvalidInput:
        return "refused"


def _interval(found: Any) -> tuple[float, float]:
    """In which the optimum is proved to be; from below only if the policy is proved to be in bounds."""
    low = found.certificate.reward_lower if found.certificate.in_bounds else -np.inf
    return low, found.certificate.reward_upper


def _rounding(model: ib.CMDP, found: Any) -> float:
    sizes = [float(np.max(np.abs(c.signal))) + abs(c.bound) for c in model.constraints]
    reach = model.discount / (1.0 - model.discount) if model.discount is not None else 1.0
    size = float(np.max(np.abs(model.reward))) + float(found.prices @ np.array(sizes, dtype=float))
    # Moved probabilities act through the relative values, which no signal exceeds by more than the states there are.
    return 4 * 2.0**-53 * size * model.layers * (1.0 + min(reach, 1e3)) + 1e-290


def run(count: int, seed: int, seconds: float) -> Report:
    return campaign(draw, verdict, count // 2, seed, seconds, "metamorphic")
