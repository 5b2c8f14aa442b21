"""The loop of the learners that keep a model, and the records of what they differ in.

    at the start of an episode, if it is time: bring the model up to the counts, and make the next policy
        by a plan with constraints (`doubling`), or by one sweep and a step (`one_sweep`)
    play the episode, count

An algorithm's own file says by `published` what its paper has for a run: radii, rules, theorem, and what that takes.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from inbounds.algorithms.algorithm import Algorithm, Answer, Prepared
from inbounds.algorithms.episodic.doubling import plan
from inbounds.algorithms.episodic.frame import frame_of, said_of
from inbounds.algorithms.episodic.model import count, new_model
from inbounds.algorithms.episodic.one_sweep import FIRST_SQUARE, step
from inbounds.algorithms.episodic.playing import EPISODE, STAGE, answer, begin, finish, judge_of, new_play, play_on
from inbounds.algorithms.episodic.rules import DUE, SAFE, TIMES, Constants, State
from inbounds.algorithms.episodic.sweeps import new_sweep
from inbounds.algorithms.kernels import FIRST_STARTS
from inbounds.algorithms.settings import guarantee_unless
from inbounds.numerics.compiled import compiled
from inbounds.problem.draws import draw_start
from inbounds.problem.simulator import Simulator


def prepare(settings: Any, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    """The state before the first episode, what the settings became, and what the paper's theorem says of the run."""
    frame = frame_of(settings, simulator, samples)
    safe, paper = settings.fallback(simulator, frame), settings.published(frame)
    size, radii, planning, stepping = frame.size, paper.radii, paper.planning, paper.stepping
    model, signals = new_model(frame, samples), np.zeros((size.H, size.pairs, 1 + size.bounds))
    spans, none = frame.rest[:, None] * (frame.high - frame.low), np.zeros(size.bounds)
    if settings.as_published:
        spans[:] = paper.span
    adaptive = not settings.as_published and max(radii.of_box, radii.of_visits) > 0.0
    judge = judge_of(model, frame, signals, [])
    state = State(
        play=new_play(frame),
        model=model,
        spans=spans,
        signals=signals,
        swept=new_sweep(size.H, size.S, size.pairs, 1 + size.bounds, stepping.extended),
        logs=np.zeros((size.H, size.pairs)),
        prices=none,
        ahead=none.copy(),
        queues=none.copy(),
        squares=none + FIRST_SQUARE,
        margins=np.zeros(1 + size.bounds),
        marks=np.array([int(planning.planned or stepping.greedy), 0, 0]),
        shown=none.copy(),
        around=none.copy(),
    )
    rules = {name: float(value) for name, value in stepping._asdict().items() if value not in (False, 0.0, math.inf)}
    parts = {name: getattr(radii, name) for name in ("root", "linear", "of_visits")}
    if planning.planned:
        parts = {name: value for name, value in parts.items() if value} | {"growth": planning.growth}
    found = samples if paper.unit == "samples" else frame.episodes
    reason, applies = paper.departs
    gaps = {
        "practical radii, without its logarithms": not settings.as_published,
        "a truncated problem": frame.truncated,
        f"{found:,.0f} {paper.unit}: {paper.target} takes {paper.needed:.1e} of them": found < paper.needed,
        reason: applies,
    }
    guarantee = guarantee_unless(gaps, f"{paper.theorem}, with probability {1.0 - settings.delta:g}")
    constants = Constants(frame, radii, judge, adaptive, planning, stepping, safe, none + paper.spare)
    return Prepared(state, constants, 0, said_of(settings, frame) | rules | parts | dict(paper.said), guarantee)


@compiled
def advance(state: State, constants: Constants, world: Any, rng: np.random.Generator, drawn: int, until: int) -> int:
    """Steps of episodes, one for each sample. Those that are to be safe watch some starts first, which are free."""
    play, frame, model, rule, marks = state.play, constants.frame, state.model, constants.planning, state.marks
    if drawn == 0 and until > 0 and constants.safe.shape[0] > 0:
        for _ in range(FIRST_STARTS):
            model.starts[draw_start(world, rng)] += 1.0
    while drawn < until:
        if play.place[STAGE] < 0:
            begin(play, model.starts, world, rng)
            if marks[DUE] == 1 and play.place[EPISODE] < frame.episodes:
                marks[DUE] = 0
                if rule.planned:
                    plan(state, constants)
                else:
                    step(state, constants)
        drawn += play_on(play, frame, constants.judge, world, rng, until - drawn)
        if play.place[STAGE] == frame.weights.shape[0]:
            count(model, frame, 0, play.path, play.seen)
            finish(play, frame)
            if marks[SAFE] == 1:
                marks[TIMES] += 1
                state.shown[:] += play.sums[play.place[EPISODE] - 1, 1:]
            for h in range(frame.weights.shape[0]):
                row = play.path[h, 0] + h * frame.row_step
                if model.visits[row] - model.known[row] >= max(rule.least, (rule.growth - 1.0) * model.known[row]):
                    marks[DUE] = 1
    return drawn


def extract(state: State, constants: Constants, simulator: Simulator) -> Answer:
    """The mixture of the policies played; the last one of those whose entropy counts, which is what these are for."""
    return answer(state.play, state.prices.copy(), constants.frame, simulator, last=constants.stepping.tau > 0.0)


online = partial(
    Algorithm,
    prepare=prepare,
    advance=advance,
    extract=extract,
    setting="episodes, online",
    output="mixture of the policies played",
    violation="O(ε)",
    criterion="finite-horizon",
    access="online",
)
"""The record of such an algorithm."""
