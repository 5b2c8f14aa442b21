"""Proofs and the truth, for all three criteria, written from the formulas: dense, slow, in rationals.

A model is anything with the attributes of one and a `criterion`. Vectors over pairs have N entries and vectors over
states M: over a horizon H times as many as there are pairs and states, stage by stage.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

import inbounds as ib
from inbounds.proofs.certificate import Certificate, InfeasibilityCertificate, MixtureProof, Proof

CRITERIA = ({"discount": 0.75}, {"horizon": 3}, {"average": True})


class Exact(NamedTuple):
    """A model in rationals."""

    criterion: dict
    stages: int
    initial: list  # [S]
    pairs: list  # the pairs of each state, [S]
    moves: list  # [H or 1][n][S]
    gains: list  # the reward and the margins, [1 + K][H or 1][n]


def exact(model):
    horizon = model.criterion.get("horizon", 1)
    offsets, n_pairs = np.asarray(model.offsets).tolist(), len(model.actions)
    transitions = model.transition if isinstance(model.transition, tuple) else (model.transition,) * horizon
    moves = [[normalised(row) for row in stage.toarray().tolist()] for stage in transitions]

    def of_stages(values, share=0):
        rows = np.broadcast_to(values, (horizon, n_pairs)).tolist()
        return [[Fraction(x) - share for x in row] for row in rows]

    gains = [of_stages(model.reward)]
    for c in model.constraints:
        sign = 1 if c.at_least is not None else -1
        gains.append([[sign * x for x in row] for row in of_stages(c.signal, Fraction(float(c.bound)) / horizon)])
    pairs = [range(first, last) for first, last in itertools.pairwise(offsets)]
    return Exact(model.criterion, horizon, normalised(np.asarray(model.initial).tolist()), pairs, moves, gains)


def normalised(stored):
    values = [Fraction(x) for x in stored]
    return [x / sum(values) for x in values]


def by_state(model, probabilities):
    """A policy [N], of doubles, as rationals [H or 1][n]; each row of a state is divided by its sum."""
    n_pairs = model.pairs[-1].stop
    stages = []
    for stage in np.reshape(np.asarray(probabilities), (model.stages, n_pairs)).tolist():
        stages.append([x for pairs in model.pairs for x in normalised([stage[pair] for pair in pairs])])
    return stages


# --- the truth ---


def values(model, policy, gains):
    """The value of each of `gains` [..][H or 1][n] under a policy [H or 1][n]."""
    kind, states = next(iter(model.criterion)), range(len(model.pairs))
    if kind == "horizon":
        here, totals = model.initial, [Fraction(0)] * len(gains)
        for stage in range(model.stages):
            spent = [here[s] * policy[stage][pair] for s in states for pair in model.pairs[s]]
            totals = [t + dot(spent, gain[stage]) for t, gain in zip(totals, gains, strict=True)]
            here = [dot(spent, [row[s] for row in model.moves[stage]]) for s in states]
        return totals
    chain = [
        [sum(policy[0][pair] * model.moves[0][pair][to] for pair in model.pairs[s]) for to in states] for s in states
    ]
    if kind == "discount":
        d = Fraction(model.criterion["discount"])
        system = [[(i == j) - d * chain[j][i] for j in states] for i in states]
        here = solved(system, [(1 - d) * p for p in model.initial])
    else:
        here = long_run(chain, model.initial)
    spent = [here[s] * policy[0][pair] for s in states for pair in model.pairs[s]]
    return [dot(spent, gain[0]) for gain in gains]


def long_run(chain, initial):
    """The share of the steps in each state in the long run, for a chain of any number of classes."""
    states = range(len(chain))
    reach = [{s} for s in states]
    for _ in states:
        reach = [set().union(*(reach[t] for t in states if chain[s][t] or t == s)) for s in states]
    closed = {frozenset(reach[s]) for s in states if all(s in reach[t] for t in reach[s])}
    transient = [s for s in states if not any(s in members for members in closed)]
    shares = [Fraction(0)] * len(chain)
    for members in closed:
        inside = sorted(members)
        system = [[Fraction(1) for _ in inside]] + [[chain[j][i] - (i == j) for j in inside] for i in inside[1:]]
        stationary = solved(system, [Fraction(1)] + [Fraction(0)] * (len(inside) - 1))
        arrive = solved(
            [[(s == t) - chain[s][t] for t in transient] for s in transient],
            [sum(chain[s][t] for t in inside) for s in transient],
        )
        mass = sum(initial[s] for s in inside) + dot([initial[s] for s in transient], arrive)
        for s, share in zip(inside, stationary, strict=True):
            shares[s] = mass * share
    return shares


def best_value(model, gain):
    """The largest value of `gain` [H or 1][n] under any policy: that of the best deterministic one."""
    if "horizon" in model.criterion:
        after = [Fraction(0)] * len(model.pairs)
        for stage in reversed(range(model.stages)):
            worth = [x + dot(row, after) for x, row in zip(gain[stage], model.moves[stage], strict=True)]
            after = [max(worth[pair] for pair in pairs) for pairs in model.pairs]
        return dot(model.initial, after)
    every = [set(chosen) for chosen in itertools.product(*model.pairs)]
    n_pairs = model.pairs[-1].stop
    return max(values(model, [[Fraction(p in chosen) for p in range(n_pairs)]], [gain])[0] for chosen in every)


def weighted(gains, weights):
    return [
        [sum(Fraction(w) * x for w, x in zip(weights, at_pair, strict=True)) for at_pair in zip(*at_stage, strict=True)]
        for at_stage in zip(*gains, strict=True)
    ]


def is_true(stored, claim, known=None):
    """Whether what a certificate states, in the form of its file, is true of the model.

    `known` is a dict in which to keep what was worked out about this model, for certificates that differ in little.
    """
    known, number = {} if known is None else known, float.fromhex

    def remembered(key, work_out):
        if key not in known:
            known[key] = work_out()
        return known[key]

    model = remembered("model", lambda: exact(stored))
    if claim["statement"] == "infeasible":
        prices = [number(price) for price in claim["prices"]]
        best = remembered((0.0, *prices), lambda: best_value(model, weighted(model.gains[1:], prices)))
        return best <= number(claim["margin_upper"]) < 0
    single = claim["statement"] == "policy"
    weights = [Fraction(1)] if single else normalised([number(weight) for weight in claim["weights"]])
    each = []
    for texts in [claim["policy"]] if single else claim["policies"]:
        policy = [number(p) for p in texts]
        work_out = lambda policy=policy: values(model, by_state(model, policy), model.gains)  # noqa: E731
        each.append(remembered(("policy", *policy), work_out))
    found = [dot(weights, column) for column in zip(*each, strict=True)]
    lowers = [number(lower) for lower in claim["margins_lower"]]
    holds = len(lowers) == len(model.gains) - 1
    holds &= all(value >= lower >= 0.0 for value, lower in zip(found[1:], lowers, strict=True))
    if claim["reward_lower"] is not None:
        holds &= found[0] >= number(claim["reward_lower"])
    if claim["reward_upper"] is not None:
        prices = [1.0, *(number(price) for price in claim["prices"])]
        holds &= min(prices) >= 0.0
        best = remembered(tuple(prices), lambda: best_value(model, weighted(model.gains, prices)))
        holds &= best <= number(claim["reward_upper"])
    return holds


def dot(one, other):
    return sum((x * y for x, y in zip(one, other, strict=True)), Fraction(0))


def solved(matrix, right):
    """Gauss and Jordan, with the rows in an order in which no pivot is zero."""
    rows = [[Fraction(x) for x in row] + [Fraction(b)] for row, b in zip(matrix, right, strict=True)]
    for i in range(len(rows)):
        pivot = next(k for k in range(i, len(rows)) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(len(rows)):
            if k != i and rows[k][i]:
                factor = rows[k][i]
                rows[k] = [x - factor * y for x, y in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]


# --- the bounds that a vector proves ---


def left_over(model, gain, vector):
    """(start <rho, y>, gain - E y [H or 1][n]) for a vector y [M] of doubles."""
    n_states, (kind,) = len(model.pairs), model.criterion
    y = [[Fraction(x) for x in row] for row in np.reshape(vector, (model.stages, n_states)).tolist()]
    d = Fraction(model.criterion.get("discount", 0))
    own, reach = (1, d / (1 - d)) if kind == "discount" else (0, 1)
    left = []
    for stage, now in enumerate(y):
        after = now if kind != "horizon" else y[stage + 1] if stage + 1 < model.stages else [0] * n_states
        left.append(
            [
                gain[stage][pair]
                - own * now[s]
                - reach * sum(p * (now[s] - after[to]) for to, p in enumerate(model.moves[stage][pair]))
                for s in range(n_states)
                for pair in model.pairs[s]
            ]
        )
    return (Fraction(0) if kind == "average" else dot(model.initial, y[0])), left


def lower_bound(model, policy, gain, vector):
    """(C1)."""
    start, left = left_over(model, gain, vector)
    at = visits(model, policy)
    return start + sum(
        min(sum(policy[stage][pair] * row[pair] for pair in model.pairs[s]) for s in at[stage])
        for stage, row in enumerate(left)
    )


def visits(model, policy):
    """The states that a policy can be in, at each stage; without a horizon, at any time: as many steps as states."""
    states, stages = range(len(model.pairs)), range(model.stages)
    at, staged = [{s for s in states if model.initial[s]}], "horizon" in model.criterion

    def after(stage, here):
        return {
            to for s in here for p in model.pairs[s] if policy[stage][p] for to in states if model.moves[stage][p][to]
        }

    for step in stages[:-1] if staged else states:
        at.append(after(step if staged else 0, at[-1]))
    return at if staged else [set().union(*at)]


def upper_bound(model, gain, vector):
    """(C2)."""
    start, left = left_over(model, gain, vector)
    return start + sum(max(row) for row in left)


# --- the vectors ---


def value_vector(model, policy, gain):
    """Doubles [M] with which (C1) is tight, up to rounding: the values of what is left, or relative values."""
    states = range(len(model.pairs))
    if "horizon" in model.criterion:
        after, rows = [Fraction(0)] * len(states), []
        for stage in reversed(range(model.stages)):
            worth = [x + dot(row, after) for x, row in zip(gain[stage], model.moves[stage], strict=True)]
            after = [sum(policy[stage][pair] * worth[pair] for pair in model.pairs[s]) for s in states]
            rows.insert(0, after)
        return np.array(rows, dtype=float).ravel()
    at, vector = sorted(visits(model, policy)[0]), np.zeros(len(states))  # elsewhere anything will do
    earned = [float(sum(policy[0][pair] * gain[0][pair] for pair in model.pairs[s])) for s in at]
    chain = np.array(
        [[float(sum(policy[0][p] * model.moves[0][p][to] for p in model.pairs[s])) for to in at] for s in at]
    )
    if "discount" in model.criterion:
        d = model.criterion["discount"]
        vector[at] = np.linalg.solve(np.eye(len(at)) - d * chain, (1 - d) * np.array(earned))
        return vector
    pinned = np.eye(len(at)) - chain
    pinned[:, 0] = 1.0  # y(0) = 0, and in its place the average
    vector[at] = np.linalg.lstsq(pinned, np.array(earned), rcond=None)[0]
    vector[at[0]] = 0.0
    return vector


def best_vector(model, gain):
    """Doubles [M] that prove the least upper bound among the values of all deterministic policies."""
    n_pairs = model.pairs[-1].stop
    if "horizon" in model.criterion:
        after, rows = [Fraction(0)] * len(model.pairs), []
        for stage in reversed(range(model.stages)):
            worth = [x + dot(row, after) for x, row in zip(gain[stage], model.moves[stage], strict=True)]
            after = [max(worth[pair] for pair in pairs) for pairs in model.pairs]
            rows.insert(0, after)
        return np.array(rows, dtype=float).ravel()
    every = [[[Fraction(p in chosen) for p in range(n_pairs)]] for chosen in itertools.product(*model.pairs)]
    return min((value_vector(model, policy, gain) for policy in every), key=lambda y: upper_bound(model, gain, y))


# --- walks of several policies ---


def way_by_stacks(pairs, policy, start, numbers, coins, stacks):
    """The way of one policy [(pair, sample)]: at its i-th visit to a pair it takes the i-th of the pair's samples.

    `pairs` are those of each state, `policy` the probability of each pair. At each step the number in [0, 1) gives the
    action; a sample begins with its next state; the coin that is 1 ends the way.
    """
    state, visits, way = start, [0] * len(policy), []
    for number, coin in zip(numbers, coins, strict=True):
        above = Fraction(number)
        for pair in pairs[state]:
            above -= Fraction(policy[pair])
            if above < 0:
                break
        sample = stacks[pair][visits[pair]]
        visits[pair] += 1
        way.append((pair, sample))
        if coin == 1:
            break
        state = sample[0]
    return way


# --- small models, and certificates of them ---


EVERYTHING = ("transition", "reward", "signals")


def drawn_model(criterion, seed, states=3, constraints=2, staged=EVERYTHING, secluded=False):
    """States with 1 to 3 actions, rows that reach every state; over a horizon what is `staged` depends on the stage.

    It begins anywhere; `secluded`, in the first state, and the first action of each state leads to no later one but
    in the last state, which it never leaves.
    """
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, size=states)
    n_pairs, horizon = int(counts.sum()), criterion.get("horizon")
    shapes = {name: (n_pairs,) if horizon is None or name not in staged else (horizon, n_pairs) for name in EVERYTHING}
    offsets = np.concatenate([[0], np.cumsum(counts)])
    dense = [rng.dirichlet(np.ones(states), size=n_pairs) for _ in range(horizon or 1)]
    if secluded:
        for rows in dense:
            for state, first in enumerate(offsets[:-1]):
                within = np.arange(states) <= max(state, 1) if state < states - 1 else np.arange(states) == state
                rows[first] = np.where(within, rows[first], 0.0) / rows[first][within].sum()
    moves = tuple(sp.csr_array(rows) for rows in dense)
    return SimpleNamespace(
        criterion=criterion,
        offsets=offsets,
        actions=np.concatenate([np.arange(count) for count in counts]),
        transition=moves if len(shapes["transition"]) == 2 else moves[0],
        reward=rng.normal(size=shapes["reward"]),
        constraints=tuple(
            ib.Constraint(
                rng.normal(size=shapes["signals"]), name=f"limit {k}", **{("at_least", "at_most")[k % 2]: 0.0}
            )
            for k in range(constraints)
        ),
        initial=np.eye(states)[0] if secluded else rng.dirichlet(np.ones(states)),
        state_labels=None,
        action_labels=None,
        name="",
    )


def with_bounds(model, bounds):
    constraints = tuple(
        ib.Constraint(c.signal, name=c.name, **{"at_least" if c.at_least is not None else "at_most": float(bound)})
        for c, bound in zip(model.constraints, bounds, strict=True)
    )
    return SimpleNamespace(**vars(model) | {"constraints": constraints})


def tightened(model, by):
    """Every margin smaller by `by` [K]."""
    signs = [1 if c.at_least is not None else -1 for c in model.constraints]
    return with_bounds(model, [c.bound + sign * x for c, sign, x in zip(model.constraints, signs, by, strict=True)])


def rounded(value, up=False):
    """The nearest double on the safe side."""
    near = float(value)
    if up:
        return near if Fraction(near) >= value else math.nextafter(near, math.inf)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)


def proof_of_a_policy(criterion, seed, slack=1e-3, vectors=None, **shape):
    """A model, and a certificate that a random policy keeps its bounds by `slack`; it claims all that is proved."""
    model, rng = drawn_model(criterion, seed, **shape), np.random.default_rng(seed + 1000)
    stages, n_pairs = criterion.get("horizon", 1), len(model.actions)
    weights = rng.exponential(size=(stages, n_pairs)) * (rng.random((stages, n_pairs)) < 0.7) + 1e-300
    if shape.get("secluded"):  # it takes first actions alone
        weights *= np.isin(np.arange(n_pairs), model.offsets[:-1])
    sums = np.add.reduceat(weights, model.offsets[:-1], axis=1)
    probabilities = (weights / np.repeat(sums, np.diff(model.offsets), axis=1)).ravel()
    free = exact(model)
    found = values(free, by_state(free, probabilities), free.gains[1:])
    model = tightened(model, [float(value) - slack for value in found])
    known = exact(model)
    policy = by_state(known, probabilities)
    prices = rng.exponential(size=len(model.constraints))
    priced = weighted(known.gains, [1.0, *prices.tolist()])
    made = [value_vector(known, policy, gain) for gain in known.gains]
    best = best_vector(known, priced)
    if vectors is not None:
        made, best = [vectors(y) for y in made], vectors(best)
    lowers = [rounded(lower_bound(known, policy, gain, y)) for gain, y in zip(known.gains, made, strict=True)]
    return model, Certificate(
        in_bounds=min(lowers[1:], default=0.0) >= 0.0,
        kind="exact",
        constraints=model.constraints,
        margins_lower=np.array(lowers[1:]),
        methods=("by hand",) * len(prices),
        reward_lower=lowers[0],
        reward_upper=rounded(upper_bound(known, priced, best), up=True),
        proof=Proof(
            criterion, probabilities, np.array(made[1:]).reshape(len(prices), made[0].size), made[0], prices, best
        ),
        model=model,
    )


def proof_of_a_mixture(criterion, seed, slack=1e-3, weights=(0.75, 0.25), **shape):
    """The same of a mixture of random policies: each claims what is proved, some of them are out of bounds."""
    model, certificate = proof_of_a_policy(criterion, seed, slack=1.0, **shape)
    first, n_pairs = certificate.proof.probabilities, len(model.actions)
    rules = [first]
    for number in range(1, len(weights)):
        drawn = np.random.default_rng(seed + 2000 + number).exponential(size=(criterion.get("horizon", 1), n_pairs))
        sums = np.add.reduceat(drawn, model.offsets[:-1], axis=1)
        rules.append((drawn / np.repeat(sums, np.diff(model.offsets), axis=1)).ravel())
    shares, free = normalised(weights), exact(model)
    worth = [values(free, by_state(free, rule), free.gains[1:]) for rule in rules]
    model = tightened(model, [float(dot(shares, column)) - slack for column in zip(*worth, strict=True)])
    known = exact(model)
    members, bounds = [], []
    for rule in rules:
        policy = by_state(known, rule)
        made = [value_vector(known, policy, gain) for gain in known.gains]
        bounds.append([lower_bound(known, policy, gain, y) for gain, y in zip(known.gains, made, strict=True)])
        members.append(Proof(criterion, rule, np.array(made[1:]).reshape(len(made) - 1, made[0].size), made[0]))
    lowers = [rounded(dot(shares, column)) for column in zip(*bounds, strict=True)]
    priced = weighted(known.gains, [1.0, *certificate.proof.prices.tolist()])
    best = best_vector(known, priced)
    return model, replace(
        certificate,
        in_bounds=min(lowers[1:], default=0.0) >= 0.0,
        constraints=model.constraints,
        margins_lower=np.array(lowers[1:]),
        reward_lower=lowers[0],
        reward_upper=rounded(upper_bound(known, priced, best), up=True),
        proof=MixtureProof(np.array(weights), tuple(members), certificate.proof.prices, best),
        model=model,
    )


def proof_of_infeasibility(criterion, seed, slack=1e-3, **shape):
    """A model, and a certificate that no policy keeps its bounds: weighted margins of at most about -`slack`."""
    model, rng = drawn_model(criterion, seed, **shape), np.random.default_rng(seed + 1000)
    prices = rng.dirichlet(np.ones(len(model.constraints)))
    free = exact(model)
    best = float(best_value(free, weighted(free.gains[1:], prices.tolist())))
    model = tightened(model, [best + slack] * len(prices))
    known = exact(model)
    gain = weighted(known.gains[1:], prices.tolist())
    vector = best_vector(known, gain)
    upper = rounded(upper_bound(known, gain, vector), up=True)
    return model, InfeasibilityCertificate(
        infeasible=upper < 0.0,
        kind="exact",
        constraints=model.constraints,
        prices=prices,
        value_function=vector,
        margin_upper=upper,
        criterion=criterion,
        model=model,
    )
