"""A run that begins with a pilot: where settings leave the Slater constant out, all pairs are tried in turn first.

The paper's forms of CSPDA, NPG-PD and PDSC need that constant before their first step. Estimated within `prepare`, the
samples of it would be one piece: lost when the run is broken off, and drawn beyond its time limit. So pilot and learner
are two parts of one state, and `prepare` of the algorithm itself comes between them: it takes the pilot's `Log` where
others take a generator (`inbounds.algorithms.empirical.slater_from_pilot`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from inbounds.algorithms.algorithm import Algorithm, Answer, Prepared, Report
from inbounds.algorithms.empirical import draw_in_turn, log_in_turn, pilot_samples
from inbounds.errors import within_memory
from inbounds.problem.draws import World, fitted
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator
from inbounds.proofs.evidence import Log

_UNPREPARED = "none: the Slater constant is not estimated yet"


class State(NamedTuple):
    pilot: Log | None  # None where there is nothing to estimate: without constraints
    learner: list[Prepared]  # empty until the pilot is over


class Constants(NamedTuple):
    settings: Any
    simulator: Simulator
    samples: int
    pilot: int  # samples


def piloted(record: Algorithm) -> Algorithm:
    """The record of the same algorithm with a pilot before it."""
    return record._replace(prepare=prepare, advance=advance, extract=extract, report=report_of, before=before)


def prepare(settings: Any, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    pilot, constants = None, Constants(settings, simulator, samples, pilot_samples(simulator, samples))
    if constants.pilot > 0:
        pilot = log_in_turn(simulator, constants.pilot)
    state = State(pilot, [])
    if pilot is None:
        state.learner.append(_learner(state, constants))
    return Prepared(state, constants, 0, *report_of(state, constants, simulator))


def before(constants: Constants) -> int:
    return constants.pilot


def _learner(state: State, constants: Constants) -> Prepared:
    settings, simulator, samples, _ = constants
    with within_memory(samples):
        return settings.algorithm.prepare(settings, simulator, samples, state.pilot)  # type: ignore[no-any-return]


def advance(state: State, constants: Constants, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
    """From `drawn` to `until` samples: of the pilot, then of the learner."""
    record = constants.settings.algorithm
    if drawn < constants.pilot:
        drawn = fitted(draw_in_turn, world)(state.pilot, world, rng, drawn, min(until, constants.pilot))
    if drawn < until:
        if not state.learner:
            state.learner.append(_learner(state, constants))
        learner = state.learner[0]
        drawn = fitted(record.advance, world)(learner.state, learner.constants, world, rng, drawn, until)
    return drawn


def extract(state: State, constants: Constants, simulator: Simulator) -> Answer:
    """The learner's; before it begins, the uniform policy."""
    if not state.learner:
        return Answer(Policy.uniform(simulator), np.zeros(simulator.n_constraints))
    learner = state.learner[0]
    return constants.settings.algorithm.extract(learner.state, learner.constants, simulator)


def report_of(state: State, constants: Constants, simulator: Simulator) -> Report:
    """What `prepare` of the learner said."""
    return Report(state.learner[0].settings, state.learner[0].guarantee) if state.learner else Report({}, _UNPREPARED)
