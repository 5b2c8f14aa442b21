"""Walks of a policy, by full enumeration: their mean, whatever the guess, their least value and their variance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import inbounds as ib
import reference
from inbounds.numerics.compiled import interpreted
from inbounds.proofs import walks
from inbounds.proofs.evidence import new_log
from uniforms import watched


def small_problem(discount: float = 0.6, n_constraints: int = 2) -> ib.CMDP:
    rng = np.random.default_rng(5)
    return ib.CMDP(
        offsets=[0, 2, 3],
        transition=[[0.3, 0.7], [1.0, 0.0], [0.45, 0.55]],
        reward=rng.normal(size=3),
        constraints=tuple(
            ib.Constraint(rng.normal(size=3), at_least=-0.2 * k, name=f"signal {k}") for k in range(n_constraints)
        ),
        initial=[0.25, 0.75],
        discount=discount,
    )


def scaled_values(cmdp: ib.CMDP, policy: ib.Policy) -> np.ndarray:
    """The true values from every state, [S, K + 1], in scaled units."""
    scaling = cmdp.simulator().scaling
    signals = np.vstack([(cmdp.reward - scaling.reward_low) / scaling.reward_span, cmdp.margins])
    signals[1:] /= scaling.margin_scales[:, None]
    weighted = policy.probabilities[:, None] * np.hstack([cmdp.transition.toarray(), signals.T])
    rows = np.add.reduceat(weighted, cmdp.offsets[:-1], axis=0)
    chain, here = rows[:, : cmdp.n_states], rows[:, cmdp.n_states :]
    return np.linalg.solve(np.eye(cmdp.n_states) - cmdp.discount * chain, (1 - cmdp.discount) * here)


class Script:
    """Plays every sequence of random choices in turn, with its probability."""

    def __init__(self) -> None:
        self.digits: list[int] = []
        self.sizes: list[int] = []

    def __iter__(self) -> Any:
        while True:
            self.position, self.probability = 0, 1.0
            yield
            del self.digits[self.position :], self.sizes[self.position :]
            while self.digits and self.digits[-1] == self.sizes[-1] - 1:
                self.digits.pop()
                self.sizes.pop()
            if not self.digits:
                return
            self.digits[-1] += 1

    def choose(self, probabilities: Sequence[float]) -> int:
        options = [(k, p) for k, p in enumerate(probabilities) if p > 0]
        if self.position == len(self.digits):
            self.digits.append(0)
            self.sizes.append(len(options))
        choice, probability = options[self.digits[self.position]]
        self.position += 1
        self.probability *= probability
        return choice


def enumerate_walks(cmdp: ib.CMDP, policy: ib.Policy, design: walks.Design, steps: int) -> tuple[np.ndarray, float]:
    """E[X] [K + 1] of the real kernel over every walk, and the least of X - design.least that occurred.

    Walks are cut after `steps` transitions; what the rest of a cut walk is worth on average is known exactly: the true
    value from the state that it has reached, less the guess there, or less `low` in the rows that lost their guess.
    """
    simulator = cmdp.simulator()
    transition, truth = cmdp.transition.toarray(), scaled_values(cmdp, policy)
    script, where = Script(), [0, 0]

    def draw_start(rng: Any) -> int:
        start = script.choose(cmdp.initial)
        if where[1] == 0:  # the first start of a walk is where it begins
            where[0] = start
        where[1] += 1
        return start

    def draw_next(pair: int, rng: Any) -> int:
        where[0] = script.choose(transition[pair])
        return where[0]

    class Scripted:
        """In turn the policy's choice, and whether the walk goes on."""

        def __init__(self) -> None:
            self.calls = 0

        def random(self) -> float:
            self.calls += 1
            if self.calls % 2 == 0:
                return 0.0 if script.choose([cmdp.discount, 1 - cmdp.discount]) == 0 else cmdp.discount
            first, last = cmdp.offsets[where[0]], cmdp.offsets[where[0] + 1]
            chosen = script.choose(policy.probabilities[first:last])
            return float(np.sum(policy.probabilities[first : first + chosen]))

    walk = interpreted(walks.draw_walk)
    world, rows = watched(simulator.open(), draw_start=draw_start, draw_next=draw_next), 1 + cmdp.n_constraints
    mean, mass, lowest = np.zeros(rows), 0.0, math.inf
    log = new_log(simulator, 0)
    for _ in script:
        totals, guessed = np.empty(rows), np.empty(rows, dtype=np.int64)
        where[:] = [0, 0]
        drawn, complete = walk(design, world, Scripted(), log, 0, steps, totals, guessed)
        assert 1 <= drawn <= steps
        if complete:  # one that the budget cuts is no sample
            lowest = min(lowest, float(np.min(totals - design.least)))
        else:
            totals = totals + truth[where[0]] - np.where(guessed == 1, design.state_values[where[0]], design.low)
        mean += script.probability * totals
        mass += script.probability
    assert abs(mass - 1.0) < 1e-12
    return mean, lowest


SMALL = small_problem()
HALF_HALF = ib.Policy(SMALL.pairs, [0.35, 0.65, 1.0])
QUIET = {"start_variance": np.zeros(3), "step_variance": np.zeros(3), "without_guess": np.zeros(3)}


@pytest.mark.parametrize("starts", [1, 2])
@pytest.mark.parametrize("guess", ["wrong", "zero", "model"])
def test_a_walk_is_unbiased_whatever_the_guess(guess: str, starts: int) -> None:
    simulator = SMALL.simulator()
    if guess == "model":
        values = walks.guess_from_model(simulator.scaling.model(SMALL), HALF_HALF)
    else:
        table = np.zeros((3, 3)) if guess == "zero" else np.random.default_rng(1).normal(size=(3, 3))
        values = walks.guess_from_array(table, HALF_HALF)
    design = walks.make_design(simulator, HALF_HALF, values)
    design = design._replace(starts=starts, floor=np.full(3, -math.inf))
    mean, _ = enumerate_walks(SMALL, HALF_HALF, design, steps=4)
    np.testing.assert_allclose(mean, SMALL.initial @ scaled_values(SMALL, HALF_HALF), rtol=0, atol=1e-12)


@pytest.mark.parametrize("depth", [0.05, 0.4])
def test_a_floor_keeps_the_mean_and_no_walk_is_below_its_least(depth: float) -> None:
    simulator = SMALL.simulator()
    values = walks.guess_from_array(np.random.default_rng(2).uniform(-0.3, 0.5, size=(3, 3)), HALF_HALF)
    values = values._replace(mean=values.state_values.max(axis=0), depth=np.full(3, depth), **QUIET)
    design = walks.make_design(simulator, HALF_HALF, values)
    np.testing.assert_allclose(design.floor, values.state_values.max(axis=0) - depth)
    mean, lowest = enumerate_walks(SMALL, HALF_HALF, design, steps=4)
    np.testing.assert_allclose(mean, SMALL.initial @ scaled_values(SMALL, HALF_HALF), rtol=0, atol=1e-12)
    assert lowest >= 0.0
    never = design._replace(floor=np.full(3, -math.inf))
    assert enumerate_walks(SMALL, HALF_HALF, never, steps=4)[1] < 0.0  # so the floor was reached


DECADES = [0.0] + [sign * 10.0**power for power in range(-6, 7) for sign in (1.0, -1.0)]


@pytest.mark.parametrize("magnitude", DECADES)
@pytest.mark.parametrize("kind", ["everywhere", "drawn", "with a model's floor", "with a floor of its size"])
def test_no_walk_ends_below_its_least_however_wrong_the_guess(kind: str, magnitude: float) -> None:
    """Twelve decades of guesses of both signs, every walk of up to three steps, both endings; and the mean is kept."""
    simulator, rng = SMALL.simulator(), np.random.default_rng(3)
    table = np.full((3, 3), magnitude)
    if kind == "drawn":
        table *= rng.random((3, 3))
    values = walks.guess_from_array(table, HALF_HALF)
    if kind.startswith("with"):
        right = walks.guess_from_model(simulator.scaling.model(SMALL), HALF_HALF)
        depth = right.depth if kind == "with a model's floor" else np.full(3, magnitude)
        values = values._replace(mean=right.mean, depth=depth, **QUIET)
    design = walks.make_design(simulator, HALF_HALF, values)._replace(starts=1)
    mean, lowest = enumerate_walks(SMALL, HALF_HALF, design, steps=3)
    assert lowest >= 0.0
    truth = SMALL.initial @ scaled_values(SMALL, HALF_HALF)
    np.testing.assert_allclose(mean, truth, rtol=0, atol=1e-12 * max(1.0, abs(magnitude)))


@pytest.mark.parametrize("magnitude", [1e-3, 1.0, 1e3, 1e6])
def test_the_least_is_no_lower_than_it_must_be(magnitude: float) -> None:
    """Against the lemma, term by term; a guess within the ranges, where the second term rules, is bounded as before."""
    simulator, table = SMALL.simulator(), magnitude * np.random.default_rng(4).uniform(-1.0, 1.0, size=(3, 3))
    values = walks.guess_from_array(table, HALF_HALF)
    design = walks.make_design(simulator, HALF_HALF, values)
    for k in range(3):
        low, lowest = design.low[k], values.state_values[:, k].min()
        crossing = min(design.floor[k], lowest) + low - values.pair_values[:, k].max()
        assert design.least[k] == pytest.approx(min(design.floor[k], crossing), rel=1e-8, abs=1e-8)


def test_the_predicted_variance_is_that_of_the_walks() -> None:
    """By simulation: the sample variance of n walks, whose own standard error is about sqrt((kurtosis - 1) / n)."""
    simulator = SMALL.simulator()
    guess = walks.guess_from_model(simulator.scaling.model(SMALL), HALF_HALF)
    design = walks.make_design(simulator, HALF_HALF, guess)
    world = simulator.open()
    rng, log = np.random.default_rng(0), new_log(simulator, 0)
    totals = np.empty((10_000, 3))
    for row in totals:
        walks.draw_walk(design, world, rng, log, 0, 10**6, row, np.empty(3, dtype=np.int64))
    centred = totals - totals.mean(axis=0)
    kurtosis = np.mean(centred**4, axis=0) / np.mean(centred**2, axis=0) ** 2
    tolerance = 5 * np.sqrt((kurtosis - 1) / len(totals))
    assert np.all(np.abs(totals.var(axis=0) / guess.variance(SMALL.discount) - 1) < tolerance)
    truth = SMALL.initial @ scaled_values(SMALL, HALF_HALF)
    assert np.all(np.abs(totals.mean(axis=0) - truth) < 5 * totals.std(axis=0) / math.sqrt(len(totals)))


@pytest.mark.parametrize("repaired", [1.0, 0.2])
def test_the_floor_lies_below_what_happens_hardly_ever(repaired: float) -> None:
    """A breakdown, of one walk in a hundred, takes it deeper than eight standard deviations; few lose their guess.

    And the variance is what is predicted, within 5 standard errors of its own.
    """
    cmdp, hurry, _ = reference.breakdowns(0.9, 1e-3, repaired, 3.0)
    simulator, model = cmdp.simulator().scaled, cmdp.simulator().scaling.model(cmdp)
    guess = walks.guess_from_model(model, hurry)
    fall = 0.9 * 0.999 * (guess.state_values[0, 1] - guess.state_values[1, 1])
    assert 8.0 * math.sqrt(guess.step_variance[1]) < fall < guess.depth[1]
    design, world = walks.make_design(simulator, hurry, guess), simulator.open()
    rng, log = np.random.default_rng(0), new_log(simulator, 0)
    totals, guessed = np.empty((100_000, 2)), np.empty((100_000, 2), dtype=np.int64)
    for row, own in zip(totals, guessed, strict=True):
        walks.draw_walk(design, world, rng, log, 0, 10**6, row, own)
    margins = totals[:, 1]
    broken = np.count_nonzero(margins < guess.mean[1] - 0.5 * fall)
    assert broken > 100 and np.count_nonzero(guessed[:, 1] == 0) <= 0.25 * broken
    kurtosis = np.mean((margins - margins.mean()) ** 4) / margins.var() ** 2
    assert abs(margins.var() / guess.variance(0.9)[1] - 1.0) < 5 * math.sqrt((kurtosis - 1) / len(margins))


@pytest.mark.parametrize("seed", range(20))
def test_the_falls_of_a_model_are_those_of_a_slow_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cmdp = ib.zoo.garnet(states=6, actions=2, successors=3, seed=seed)
    model, policy = cmdp.simulator().scaling.model(cmdp), ib.Policy.uniform(cmdp)
    guess, visits, noise = walks.guess_from_model(model, policy), rng.random(12), rng.random((12, 3)) * (seed % 2)
    for k in range(3):
        low, signal = (0.0, model.reward) if k == 0 else (-1.0, model.margins[k - 1])
        steps, values = model.transition.toarray(), guess.state_values[:, k]
        found = []
        for pair in range(12):
            for after in np.flatnonzero(steps[pair]):
                depth = model.discount * (steps[pair] @ values - values[after])
                found.append((depth, after, visits[pair] * steps[pair, after]))
            depth = (1.0 - model.discount) * (signal[pair] - low)
            chance = noise[pair, k] / max(noise[pair, k] + (signal[pair] - low) ** 2, 1e-300)
            found.append((depth, int(np.argmax(steps[pair])), visits[pair] * chance))
        wanted = sorted((d, a, t * (values[a] - low) ** 2) for d, a, t in found if d > 1e-3 and t > 0.0)
        falls = walks._falls(model, guess, k, visits, noise, 1e-3)
        np.testing.assert_allclose(sorted(zip(*falls, strict=True)), wanted, rtol=1e-9)


def test_walks_without_noise_have_a_floor_all_the_same() -> None:
    """Of a margin below zero, and a variance that underflows: nothing divides by what that comes to."""
    always = ib.CMDP(
        offsets=[0, 1, 2],
        transition=[[0.0, 1.0], [1.0, 0.0]],
        reward=[0.5, 1.0],
        constraints=[ib.Constraint([-0.5, -0.25], at_least=0.0, name="below")],
        initial=[1.0, 0.0],
        discount=0.9,
    )
    guess = walks.guess_from_model(always, ib.Policy.uniform(always), 5e-324)
    assert np.all(np.isfinite(guess.depth))


def test_starts_are_few_however_long_a_walk_is() -> None:
    """(3e10 of them, before the first transition, at a discount of 1 - 1e-9.)"""
    cmdp = ib.zoo.queue()
    guess = walks.guess_from_array(np.zeros((cmdp.n_pairs, 3)), ib.Policy.uniform(cmdp))
    assert [guess.starts(discount) for discount in (0.5, 0.75, 0.9999, 1.0 - 1e-9)] == [64, 128, 10_000, 10_000]
