"""Samples of every pair in turn: what algorithms draw that learn a model first, and the model that it makes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from inbounds.algorithms.algorithm import Answer
from inbounds.algorithms.kernels import FIRST_STARTS
from inbounds.algorithms.planning import safest_of
from inbounds.algorithms.sketch import Sketch, sketched_model
from inbounds.errors import TooFewSamples, within_memory
from inbounds.numerics.compiled import compiled
from inbounds.problem.cmdp import CMDP
from inbounds.problem.draws import World, draw_next, draw_start, fitted
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator
from inbounds.proofs.evidence import Log, draw_starts, empirical_model, new_log, record
from inbounds.tables import so_many

_SLATER_PER_PAIR = 10_000
"""Samples of each pair, at most, behind an estimate of the Slater constant, of which half is taken: more are wasted."""


def log_in_turn(simulator: Simulator, samples: int) -> Log:
    """Room for `samples` samples, of which number t is of pair t mod n: at least one of every pair."""
    require_each(simulator, samples)
    return new_log(simulator, samples)


def require_each(simulator: Simulator, samples: int) -> None:
    """Refuse fewer samples than pairs."""
    n_pairs = simulator.pairs.n_pairs
    if samples < n_pairs:
        raise TooFewSamples(f"{too_few(samples)} to try each of {so_many(n_pairs, 'pair')}", n_pairs)


def too_few(samples: int) -> str:
    return f"{so_many(samples, 'sample')} {'is' if samples == 1 else 'are'} too few"


@compiled
def draw_in_turn(log: Log, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
    """Samples number `drawn` to `until` - 1: all that algorithms do that learn a model first."""
    n = log.visits.shape[0]
    if drawn == 0 and until > 0:
        draw_starts(log, world, rng, 0, FIRST_STARTS)
    while drawn < until:
        record(log, world, drawn % n, draw_next(world, drawn % n, rng))
        log.starts[draw_start(world, rng)] += 1
        drawn += 1
    return drawn


def advance(log: Log, constants: Any, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
    """The `advance` of algorithms that learn a model first: their own constants wait until a policy is asked for."""
    return int(draw_in_turn(log, world, rng, drawn, until))


def model_of(log: Log | Sketch, simulator: Simulator) -> CMDP | None:
    """The empirical model in scaled units, with margins >= 0 as its constraints; None while a pair is untried."""
    if log.visits.min() == 0:
        return None
    if isinstance(log, Sketch):
        return sketched_model(log, simulator)
    drawn = int(log.used[0])
    with within_memory(drawn):
        return empirical_model(simulator, log, log.pairs[:drawn], log.successors[:drawn], np.ones(drawn))


def extract(state: Log | Sketch, constants: Any, simulator: Simulator) -> Answer:
    """The `extract` of algorithms that learn a model first: their plan on that of now; uniform while there is none."""
    model = model_of(state, simulator)
    if model is None:
        return Answer(Policy.uniform(simulator), np.zeros(simulator.n_constraints))
    return constants.settings.algorithm.plan(model, constants, int(state.visits.min()))


def sampled_model(simulator: Simulator, per_pair: int, rng: np.random.Generator) -> CMDP:
    """A model in scaled units from `per_pair` samples of every pair, with margins >= 0 as its constraints."""
    samples, world = per_pair * simulator.pairs.n_pairs, simulator.open()
    log = log_in_turn(simulator, samples)
    fitted(draw_in_turn, world)(log, world, rng, 0, samples)
    model = model_of(log, simulator)
    assert model is not None
    return model


def accuracy(per_pair: int, discount: float) -> float:
    """1 / sqrt((1 - discount) * per_pair): how exact values on the empirical model can be, normalised, by their order.

    A model from SA / ((1 - discount)^3 epsilon^2) samples in all has values within epsilon, not normalised, up to
    constants and logarithms (Azar, Munos and Kappen 2013); this is (1 - discount) times that epsilon. Algorithms that
    learn a model first tighten the constraints by a share of it; bare presets by a tenth: 2.5 standard errors of
    the margins that result on the queue, 1 to 3 on the other problems we tried.
    """
    return 1.0 / math.sqrt((1.0 - discount) * per_pair)


def pilot_samples(simulator: Simulator, samples: int) -> int:
    """How many of so many samples estimate a Slater constant: the same number of each pair, 0 without constraints."""
    if simulator.n_constraints == 0:
        return 0
    n_pairs = simulator.pairs.n_pairs
    per_pair = min(max(1, samples // (10 * n_pairs)), _SLATER_PER_PAIR)
    if 2 * per_pair * n_pairs > samples:
        why = f"{too_few(samples)} to estimate the Slater constant of {so_many(n_pairs, 'pair')}"
        raise TooFewSamples(why, 2 * n_pairs, "slater=, or ")
    return per_pair * n_pairs


def slater_from_pilot(settings: Any, simulator: Simulator, pilot: Any) -> tuple[float, int]:
    """The Slater constant as given in the settings, or half an estimate; and the samples drawn for it.

    `pilot` is then the `Log` of these; otherwise it does not matter.
    """
    if settings.slater is not None:
        return settings.slater, 0
    if simulator.n_constraints == 0:
        return 1.0, 0
    model = model_of(pilot, simulator)
    assert model is not None
    return half_of(safest_of(model).value), int(pilot.used[0])


def half_of(slater: float) -> float:
    """Half an estimate of the Slater constant, to be on the safe side; at least 0.01.

    Rounded, so that the last digits of a solver, which may differ elsewhere, do not lead to another run.
    """
    return min(max(round(0.5 * slater, 6), 0.01), 1.0)
