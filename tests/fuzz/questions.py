"""The other questions about tiny models: no coins, few coins, warm starts, surfaces, trajectories, files of policies.

pure         the best policy without coins against all of them, enumerated: it is in bounds, nothing is better by more
             than the gap, and "none is in bounds" is said where it is so
coins        with few coins a policy randomises in at most as many states as there are constraints
warm         a solve that starts from the answer to another bound is as right as any
surface      every point against the exact linear program; nan where no policy keeps both bounds, and only there
walks        trajectories go where the model can go, do what the policy can do, and add up to their values
round trips  a policy comes back from .json, .npz and .csv with its bits
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import inbounds as ib

from . import rationals
from .judge import HAIR, Complaints, Truth, judge_solution
from .models import CRITERIA, random_model
from .workers import Report, Verdict, campaign, in_time

COUNT = 600
POLICIES = 1_000
"""At most so many deterministic ones are gone through."""


def draw(seed: int, index: int) -> tuple[ib.CMDP, str]:
    rng = np.random.default_rng([seed, index, 9])
    model = random_model(rng, CRITERIA[index % 3], states=3, actions=3)
    labels = {"state_labels": tuple(("s", i) for i in range(model.n_states))} if index % 2 else {}
    return replace(model, **labels), "all"


def run(count: int, seed: int, seconds: float) -> Report:
    return campaign(draw, verdict, count, seed, seconds, "questions")


def verdict(model: ib.CMDP, what: str) -> Verdict:
    complaints, tried = Complaints(), Counter[str]({"models": 1})
    if model.average and not rationals.weakly_communicating(model):
        return Verdict([], {"left out": 1})
    truth = Truth(model)
    found = _asked(truth, complaints, "solve", lambda: ib.solve(model))
    if found is not None:
        tried["coins"] += 1
        complaints.prefix = "coins"
        few = found.policy.coins <= model.n_constraints or found.linked or found.status != "optimal"
        complaints.unless(few, "too many coins", f"{found.policy.coins} of {model.n_constraints}")
        tried.update(_walked(model, found.policy, complaints))
        tried.update(_round_trips(found.policy, complaints))
        tried.update(_warm(model, found, complaints))
    tried.update(_pure(truth, complaints))
    tried.update(_surface(truth, complaints))
    return Verdict(list(complaints), dict(tried))


def _asked(truth: Truth, complaints: Complaints, what: str, question: Any) -> Any:
    """The answer, or None where it is refused, and may be: the problem is infeasible, or nearly."""
    complaints.prefix = what
    try:
        return in_time(question)
    except (ib.Infeasible, ib.Stopped) as error:
        complaints.unless(not truth.feasible or truth.doubtful, f"{type(error).__name__} of a feasible problem", error)
    return None


def _pure(truth: Truth, complaints: Complaints) -> dict[str, int]:
    """On average a policy may have several classes, and its values depend on the start: those are left out."""
    cmdp, model = truth.cmdp, truth.model
    own = [[e for e, place in enumerate(model.place) if place == at] for at in range(model.n_places)]
    if model.kind == "average" or prod(map(len, own)) > POLICIES:
        return {}
    values = []
    for choice in product(*own):
        taken = np.ones(cmdp.layers * cmdp.n_pairs)  # where nothing is chosen, anything
        taken[model.entry] = 0.0
        taken[[model.entry[e] for e in choice]] = 1.0
        values.append([number for (number,) in rationals.values(model, taken, [model.reward, *model.margins])])
    inside = [reward for reward, *margins in values if min(margins, default=Fraction(0)) >= 0]
    slip = [HAIR * scale + dust for scale, dust in zip(truth.scales, truth.dust, strict=True)]
    nearly = [reward for reward, *margins in values if all(m >= -s for m, s in zip(margins, slip, strict=True))]
    roomy = [reward for reward, *margins in values if all(m >= s for m, s in zip(margins, slip, strict=True))]
    wrong, complaints.prefix = complaints.unless, "pure"
    try:
        found = in_time(lambda: ib.solve(cmdp, deterministic=True))
    except ib.Infeasible:
        wrong(not truth.feasible, "false Infeasible")
        return {"pure, infeasible": 1}
    except ib.Stopped as stopped:
        wrong(not roomy, "a deterministic policy is in bounds", f"{stopped.status}: {float(max(roomy or [0]))!r}")
        return {"pure, none": 1}
    close = Fraction(1, 10**8) * truth.size + Fraction(1, 10**290)
    wrong(found.policy.coins == 0, "it has coins", found.policy.coins)
    wrong(bool(nearly), "no deterministic policy is in bounds", found.reward)
    if nearly:
        wrong(Fraction(found.reward) <= max(nearly) + close, "above all deterministic policies", found.reward)
    if inside:
        wrong(Fraction(found.upper_bound) >= max(inside) - close, "bound below the best", found.upper_bound)
    if roomy and found.status == "optimal":
        flat = (max(model.reward) - min(model.reward)) * model.layers
        allowed = Fraction(2, 10**8) * max(abs(max(roomy)), flat) + close
        wrong(Fraction(found.reward) >= max(roomy) - allowed, "below the best", f"{found.reward}, {float(max(roomy))}")
    exact = rationals.values(model, found.policy.probabilities, model.margins)
    if found.certificate is not None and (found.in_bounds or found.kept_in_rationals):
        wrong(all(min(value) >= 0 for value in exact), "false in_bounds", [float(min(value)) for value in exact])
    return {"pure": 1}


def _warm(model: ib.CMDP, found: Any, complaints: Complaints) -> dict[str, int]:
    if not model.n_constraints:
        return {}
    room = 0.1 * float(model.margin_scales[0])
    for by in (room, -room):
        other = model.asking(constraints=[model.constraints[0].tightened(by), *model.constraints[1:]])
        truth = Truth(other)
        best = _asked(truth, complaints, "warm", lambda other=other: ib.solve(other, "bundle", start=found))
        if best is not None:
            judge_solution(truth, best, complaints, strict=True)
    return {"warm": 2}


def _surface(truth: Truth, complaints: Complaints) -> dict[str, int]:
    cmdp, model = truth.cmdp, truth.model
    if cmdp.n_constraints < 2 or not truth.feasible or truth.doubtful or model.kind == "average":
        return {}
    found = _asked(truth, complaints, "surface", lambda: ib.surface(cmdp, 0, 1, points=3))
    if found is None:
        return {}
    flat = (max(model.reward) - min(model.reward)) * model.layers
    for (i, first), (j, second) in product(enumerate(found.bounds[0]), enumerate(found.bounds[1])):
        margins = list(model.margins)
        for k, bound in ((0, first), (1, second)):
            own = cmdp.constraints[k]
            by = (Fraction(float(bound)) - Fraction(float(own.bound))) * int(own.outward) / model.layers
            margins[k] = [m - by for m in margins[k]]
        room = rationals.best(model, [], margins, truth.scales)
        assert room is not None
        if abs(room) <= 10 * HAIR:
            continue
        optimum, reward = rationals.best(model, model.reward, margins), found.rewards[i, j]
        complaints.unless((optimum is None) == bool(np.isnan(reward)), "wrong nan", f"{first}, {second}: {reward}")
        if optimum is not None and not np.isnan(reward):
            allowed = Fraction(3, 10**6) * max(abs(optimum), flat) + truth.size / 10**9
            allowed += Fraction(1, 10**8) * sum(
                (Fraction(float(p)) * s for p, s in zip(found.prices[:, i, j], truth.scales, strict=False)), Fraction(0)
            )
            off = abs(Fraction(float(reward)) - optimum)
            complaints.unless(off <= allowed, "wrong point", f"{first}, {second}: {reward}, is {float(optimum)}")
    return {"surface": 1}


def _walked(model: ib.CMDP, policy: ib.Policy, complaints: Complaints) -> dict[str, int]:
    complaints.prefix, wrong = "walks", complaints.unless
    steps = model.horizon or 20
    seen = ib.simulate(model, policy, steps=steps, runs=5, seed=1)
    rules = np.broadcast_to(np.atleast_2d(policy.probabilities), (model.layers, model.n_pairs))
    rewards = np.broadcast_to(np.atleast_2d(model.reward), (model.layers, model.n_pairs))
    for run, t in product(range(5), range(steps)):
        h, pair, state, after = t % model.layers, seen.pairs[run, t], seen.states[run, t], seen.states[run, t + 1]
        wrong(model.pairs.states[pair] == state and rules[h, pair] > 0.0, "an action that it does not take", (run, t))
        wrong(model.transitions[h][[pair]].toarray()[0, after] > 0.0, "a move that there is not", (run, t))
        size = max(abs(float(rewards.max())), abs(float(rewards.min())))
        wrong(abs(seen.rewards[run, t] - rewards[h, pair]) <= 1e-9 * size, "a reward that was not paid", (run, t))
    return {"walks": 1}


def _round_trips(policy: ib.Policy, complaints: Complaints) -> dict[str, int]:
    complaints.prefix = "round trips"
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".json", ".npz", ".csv"):
            path = Path(folder) / f"policy{suffix}"
            policy.save(path)
            again = ib.Policy.load(path)
            same = again.by_label(0.0) == policy.by_label(0.0)
            complaints.unless(same, "another policy", suffix)
    return {"round trips": 1}
