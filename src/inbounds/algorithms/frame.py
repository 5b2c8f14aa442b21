"""A learner in a frame: a pilot, the learner, a test of what it found, and the best mixture of what was tested.

What practical presets are made of (``repair=True``). No formula says how far from its bounds a learner should stay:
what its policy really does depends on the problem more than on any rate. So it is tested, and put right by what the
test shows (`inbounds.algorithms.repair`, which says why the test is asymptotic, and no proof).

    learners        pilot .10 of the samples, every pair in turn: an empirical model, its Slater constant, and the
                    policy of that, the safest; learner .70; trial of its policy .15; trial of the safest .05
    those that      learner .68; trial of its plan without a kappa for the model's error .12; trial of a second plan on
    plan on a       the same model .12, tightened by its error on the first, as the trial showed it, and by 2 z standard
    model           errors, at most half its Slater constant (`moved`); trial of the safest .08
    CSPDA           has its own parts: `cspda_stages`

The answer is the best mixture of all policies tested by then; before the first test is over, the learner's own. What a
part that is left out would have drawn goes to those that follow, in proportion. A part is left out when

* there are no constraints: then there is nothing to repair, and the learner has everything;
* a tenth of the samples is less than one of every pair: then there is no pilot, and no safest policy.

The Slater constant that a learner would estimate from samples of its own is then the pilot's: half of it, at least
0.01. A kappa that is given as a number is asked of the learner, and of the mixture: its tested margins reach it.

**How it fits the loop.** Each part is an `advance` of its own with a state of its own, in the order of the parts; the
next begins, by what was found before, with the first sample that it draws. So all that is remembered is in the state,
and splitting a run never changes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Algorithm, Answer, Prepared, Report
from inbounds.algorithms.empirical import advance as draw_in_turn
from inbounds.algorithms.empirical import half_of, log_in_turn, model_of
from inbounds.algorithms.piloted import piloted
from inbounds.algorithms.planning import at_once, safest_of
from inbounds.algorithms.repair import (
    ENOUGH,
    LEVEL,
    Outcome,
    Repaired,
    new_trial,
    outcome,
    repair,
    walk,
    wanted_margins,
)
from inbounds.algorithms.settings import Settings
from inbounds.arrays import Floats, Ints, freeze
from inbounds.criteria.evaluation import evaluate
from inbounds.errors import within_memory
from inbounds.problem.cmdp import CMDP
from inbounds.problem.draws import World, fitted
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator
from inbounds.tables import rounded_up


class Part(NamedTuple):
    """One part of a run in a frame."""

    name: str
    samples: int
    advance: Any
    state: Any
    constants: Any
    extract: Callable[[Any, Any, Simulator], Answer] | None = None  # of a learner
    report: Callable[[Any, Any, Simulator], Report] | None = None  # of a learner: what its settings became in the end
    settings: Mapping[str, float | str] = {}  # what they became
    guarantee: str = ""  # of a learner: its own
    note: str = ""  # what there is to say of how it began
    answer: Answer | None = None  # of a trial: what is tested
    own: bool = False  # of a trial: whether that is the learner's

    @property
    def over(self) -> bool:
        """Of a trial: whether it has drawn all its samples."""
        return self.answer is not None and int(self.state.visits.sum()) == self.samples


class State(NamedTuple):
    parts: list[Part]  # the last is under way, or over as well
    surveys: list[Survey]  # of the pilot's model, once there is one
    drawn: Ints  # [1], samples


class Survey(NamedTuple):
    """What a model from samples says, in the units that the learner sees."""

    model: CMDP
    slater: float  # the largest margin that a policy keeps in every constraint at once; 0 without constraints
    safest: Policy  # that policy
    more: Any = None  # what else a preset finds there

    @property
    def room(self) -> float:
        """What margins can be asked for."""
        return max(self.slater, 0.0)


class Frame(NamedTuple):
    settings: Any  # of the bare method
    simulator: Simulator
    samples: int
    kappa: float  # that is asked of the mixture

    def share(self, state: State, shares: Mapping[str, float]) -> int:
        """Samples of the first of the parts that are to come, by their shares; the last of them takes what is left."""
        left = self.samples - sum(part.samples for part in state.parts)
        first, *others = shares.values()
        return math.ceil(left * first / (first + sum(others))) if others else left

    @property
    def with_pilot(self) -> bool:
        return int(PILOT * self.samples) >= self.simulator.pairs.n_pairs


UNTESTED = "none: nothing was tested yet"
NO_THEOREM = "none: no theorem covers a preset that tests and mixes"

PILOT = 0.10
_LEAST_SHARE = 0.02
"""Of the trial of the safest policy, where there are most parts: see `inbounds.algorithms.cspda_stages`."""
LEARNER = {"learner": 0.70, "trial of learner": 0.15, "trial of safest": 0.05}
PLANNER = {"learner": 0.68, "trial of first plan": 0.12, "trial of second plan": 0.12, "trial of safest": 0.08}


@dataclass(frozen=True, repr=False)
class RepairSettings(Settings):
    """Of algorithms that know constraints.

    Parameters
    ----------
    repair : bool
        Whether the run ends in a test by walks and the best mixture of what was tested (`inbounds.algorithms.frame`),
        as practical presets do; the samples of that count. False: the bare method.
    """

    repair: bool = field(default=False, metadata=checks.SWITCH, kw_only=True)

    @property
    def record(self) -> Algorithm:
        if not self.repair:
            unknown = self.algorithm.piloted and getattr(self, "slater", None) is None
            return piloted(self.algorithm) if unknown else self.algorithm
        return self.algorithm._replace(prepare=prepare, advance=advance, extract=extract, report=report_of)

    @property
    def following(self) -> Callable[[Frame, State, np.random.Generator], Part]:
        """What the parts of a run are: each by what was found before."""
        return next_of_learner if self.algorithm.plan is None else next_of_planner

    @property
    def worth(self) -> Callable[[Floats], float] | None:
        """What to mix for, a concave function of the occupancy [n]; None: the reward."""
        return None


def prepare(settings: Any, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    """The first part."""
    kappa = getattr(settings, "kappa", None)
    asked = 0.0 if kappa is None or isinstance(kappa, str) else float(kappa)
    frame = Frame(replace(settings, repair=False), simulator, samples, asked)
    state = State([], [], np.zeros(1, dtype=np.int64))
    state.parts.append(frame.settings.following(frame, state, rng))
    return Prepared(state, frame, 0, {}, UNTESTED)


def advance(state: State, frame: Frame, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
    """From `drawn` to `until` samples, through as many parts as that takes."""
    while drawn < until:
        part, before = state.parts[-1], sum(part.samples for part in state.parts[:-1])
        if drawn - before == part.samples:
            state.parts.append(frame.settings.following(frame, state, rng))
            continue
        stop = min(until - before, part.samples)
        fitted(part.advance, world)(part.state, part.constants, world, rng, drawn - before, stop)
        drawn = state.drawn[0] = before + stop
    return drawn


def pilot(frame: Frame, samples: int) -> Part:
    return Part("pilot", samples, draw_in_turn, log_in_turn(frame.simulator, samples), None)


def survey(frame: Frame, log: Any) -> Survey:
    """Of the model that a log makes."""
    model = model_of(log, frame.simulator)
    assert model is not None
    safest = safest_of(model)
    return Survey(model, float(safest.value) if model.n_constraints > 0 else 0.0, safest.policy)


def learner(frame: Frame, samples: int, settings: Any, rng: np.random.Generator) -> Part:
    record = settings.record
    with within_memory(samples):
        begun = record.prepare(settings, frame.simulator, samples, rng)
    return Part(
        name="learner",
        samples=samples,
        advance=record.advance,
        state=begun.state,
        constants=begun.constants,
        extract=record.extract,
        report=record.report,
        settings=begun.settings,
        guarantee=begun.guarantee,
    )


def trial(frame: Frame, state: State, name: str, answer: Answer, samples: int, own: bool = False) -> Part:
    """A test of the policy of an answer; its values on the model of the survey, if there is one, take away noise."""
    model = state.surveys[0].model if state.surveys else None
    walks, followed = new_trial(frame.simulator, answer.policy, samples, model)
    return Part(name, samples, walk, walks, followed, answer=answer, own=own)


def next_of_learner(frame: Frame, state: State, rng: np.random.Generator) -> Part:
    """Pilot, learner, trials of the learner and of the safest."""
    names, repairs = [part.name for part in state.parts], frame.simulator.n_constraints > 0
    if not names and repairs and frame.with_pilot:
        return pilot(frame, int(PILOT * frame.samples))
    shares = dict(LEARNER)
    if "pilot" not in names:
        del shares["trial of safest"]
    if "learner" not in names:
        settings = frame.settings
        if names:
            state.surveys.append(survey(frame, state.parts[0].state))
            if getattr(settings, "slater", 1.0) is None:
                settings = replace(settings, slater=half_of(state.surveys[0].slater))
        samples = frame.share(state, shares) if repairs else frame.samples
        if not names:  # it may have to estimate its Slater constant itself, for which it needs this much
            samples = min(max(samples, 2 * frame.simulator.pairs.n_pairs), frame.samples)
        return learner(frame, samples, settings, rng)
    del shares["learner"]
    if names[-1] == "learner":
        answer, samples = answer_of(state.parts[-1], frame), frame.share(state, shares)
        return trial(frame, state, "trial of learner", answer, samples, own=True)
    return trial_of_safest(frame, state)


def next_of_planner(frame: Frame, state: State, rng: np.random.Generator) -> Part:
    """Learner, trials of its plan, of a second one by what that showed, and of the safest, all on one model."""
    repairs, parts, plan = frame.simulator.n_constraints > 0, state.parts, frame.settings.algorithm.plan
    assert plan is not None
    shares = dict(list(PLANNER.items())[len(parts) :])
    if not parts:
        n_pairs = frame.simulator.pairs.n_pairs
        samples = min(max(frame.share(state, shares), n_pairs), frame.samples) if repairs else frame.samples
        # Without the kappa that a formula sets for the error of the model: the test finds what it takes.
        settings = replace(frame.settings, kappa_multiplier=0.0) if repairs else frame.settings
        return learner(frame, samples, settings, rng)
    log, constants = parts[0].state, parts[0].constants
    if len(parts) == 1:
        state.surveys.append(survey(frame, log))
        answer = plan(state.surveys[0].model, constants, int(log.visits.min()))
        return trial(frame, state, "trial of first plan", answer, frame.share(state, shares), own=True)
    if len(parts) == 2:
        found = state.surveys[0]
        test = outcome_of(parts[1])
        kappa = wanted_margins(test, frame.kappa, 2.0, 0.5 * found.room)
        answer = plan(moved(found.model, test, kappa - frame.kappa), constants, int(log.visits.min()))
        own = bool(np.all(np.isfinite(answer.prices)))
        part = trial(frame, state, "trial of second plan", answer, frame.share(state, shares), own=own)
        return part._replace(settings=second_kappa(kappa))
    return trial_of_safest(frame, state)


def moved(model: CMDP, test: Outcome, margins: Floats) -> CMDP:
    """A model tightened so that plans on it have the margins [K]: by them, and by its error on the policy tested."""
    if not np.all(np.isfinite(test.errors)):
        return model.tightened(margins)
    expected = at_once(model, lambda: evaluate(model, test.policy).margins)
    return model.tightened(margins + expected - test.means[1:])


def second_kappa(kappa: Any) -> dict[str, float | str]:
    """By how much the constraints were tightened for the second candidate, to be shown."""
    return {"second kappa": ", ".join(f"{each:.3g}" for each in kappa) or "none"}


def trial_of_safest(frame: Frame, state: State) -> Part:
    """The last part."""
    answer = Answer(state.surveys[0].safest, np.zeros(frame.simulator.n_constraints))
    return trial(frame, state, "trial of safest", answer, frame.share(state, {"trial of safest": 1.0}))


def answer_of(part: Part, frame: Frame) -> Answer:
    """What a learner has found by now."""
    assert part.extract is not None
    return part.extract(part.state, part.constants, frame.simulator)


def outcome_of(part: Part) -> Outcome:
    """What a trial has come to by now."""
    assert part.answer is not None
    return outcome(part.name.removeprefix("trial of "), part.answer.policy, part.state)


def own_answer(state: State, frame: Frame) -> Answer:
    """The learner's own, the latest; without any, the uniform policy."""
    for part in reversed(state.parts):
        if part.own and part.answer is not None:
            return part.answer
        if part.extract is not None and part.samples > 0:
            return answer_of(part, frame)
    return Answer(Policy.uniform(frame.simulator), np.zeros(frame.simulator.n_constraints))


def outcomes(state: State, frame: Frame) -> list[Outcome]:
    """Of the trials that are over."""
    tests, worth = [outcome_of(part) for part in state.parts if part.over], frame.settings.worth
    return tests if worth is None else [valued(test, worth, frame.simulator.pairs.states) for test in tests]


def valued(test: Outcome, worth: Callable[[Floats], float], states: Ints) -> Outcome:
    """With the value of what to mix for, at the time that the trial found, in the place of the reward."""
    occupancy = freeze(test.shares[states] * test.policy.probabilities)
    return test._replace(means=np.array([worth(occupancy), *test.means[1:]]))


def extract(state: State, frame: Frame, simulator: Simulator) -> Answer:
    """The best mixture of what is tested; before that, the learner's own."""
    own, tests = own_answer(state, frame), outcomes(state, frame)
    return own._replace(policy=repair(simulator, tests, frame.kappa).policy) if tests else own


def report_of(state: State, frame: Frame, simulator: Simulator) -> Report:
    """What the parts spent, what the trials showed, how they were mixed, and what that is worth."""
    settings: dict[str, float | str] = {}
    for part in state.parts:
        became = part.settings if part.report is None else part.report(part.state, part.constants, simulator).settings
        settings |= became
    if simulator.n_constraints == 0 and len(state.parts) == 1:
        return Report(settings, state.parts[0].guarantee or NO_THEOREM)
    ends = np.minimum(np.cumsum([part.samples for part in state.parts]), state.drawn[0])  # the last may be cut short
    spent = zip(state.parts, np.diff(ends, prepend=0).tolist(), strict=True)
    settings["spent"] = ", ".join(f"{part.name} {samples:,}" for part, samples in spent)
    tests = outcomes(state, frame)
    if not tests:
        return Report(settings, UNTESTED)
    found = repair(simulator, tests, frame.kappa)
    settings |= {
        "tested": "; ".join(f"{test.name} {in_words(simulator, test.means[1:], test.errors[1:])}" for test in tests),
        "weights": ", ".join(f"{test.name} {weight:.3g}" for test, weight in zip(tests, found.weights, strict=True)),
    }
    return Report(settings, guarantee(frame, state, found))


def in_words(simulator: Simulator, margins: Any, errors: Any) -> str:
    """Tested margins with their standard errors, in the user's units."""
    units = simulator.scaling.margin_scales
    each = zip(simulator.constraints, units * margins, units * errors, strict=True)
    return ", ".join(f"{c.name} {margin:+.3g} ({error:.2g})" for c, margin, error in each)


def guarantee(frame: Frame, state: State, found: Repaired) -> str:
    """What the test shows of the mixture, and what it is worth."""
    text = NO_THEOREM + "".join(f"; {part.note}" for part in state.parts if part.note)
    if not state.surveys:
        text += "; the budget is too small for a pilot: there is no safest policy to mix with"
    if frame.simulator.n_constraints == 0:
        return text
    what = "in bounds" if frame.kappa == 0.0 else "every margin at least kappa"
    why = "" if found.shown else " (more samples may show it)"
    if found.walks < ENOUGH:
        # Of whatever is mixed then, the shortest trial too; a fifth more, for walks are not all of the same length.
        shortest = min(part.samples for part in state.parts if part.over) / frame.samples
        if not state.surveys:  # with more samples there will be a pilot, and trials of what it leads to
            shortest = min(shortest, _LEAST_SHARE)
        enough = rounded_up(1.2 * ENOUGH / (shortest * (1.0 - frame.simulator.discount)))
        why = f" ({found.walks:,} walks are too few for it: about {enough:,} samples make {ENOUGH})"
    shown = "shown" if found.shown else "not shown"
    test = f"{shown} by a test by walks at level {LEVEL:g}, asymptotic and no proof{why}"
    margins = f"tested margins (standard errors): {in_words(frame.simulator, found.margins, found.errors)}"
    return f"{text}; {what}: {test}; {margins}"
