"""Optimistic-GMBL: as many samples of every pair, then the best policy in bounds over the whole box, once.

HasanzadeZonuz, Bura, Kalathil, Shakkottai: "Learning with Safety Constraints: Sample Complexity of Reinforcement
Learning for Constrained MDPs", AAAI 2021: their algorithm for a generative model. It is NOT online: the learner asks
for pairs as it likes, and plays no episode. Reward and margins are known.

    n = 256 / eps^2 S H^3 log(12 (I+2) S A H / delta)  samples of every pair, then
    pi = argmax J_r  with  J_gi >= 0   over policies and models of the box
    |P' - p| <= min( sqrt(2 p (1-p) l / n) + 2 l / (3n), sqrt(l / 2n) ),     l = log( 48 (I+2) S^2 A H / delta )

all from its algorithm box. With probability 1 - delta, eps-optimal and eps-feasible, from that n: 10^7 and more for
small problems. Departures: n is what the budget allows. Where stages differ, every pair is sampled at every stage.
Where no policy is in bounds, the policy is the least out of them, and there are no prices. Practical preset: radii
.1 sqrt(p (1-p) / n) + 1 / n; with none at all it does about as well, for hope buys nothing where samples are uniform.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from inbounds.algorithms.algorithm import Answer
from inbounds.algorithms.empirical import too_few
from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.learner import Constants, State, by_plan, online
from inbounds.algorithms.episodic.model import see
from inbounds.algorithms.episodic.playing import answer, draw
from inbounds.algorithms.episodic.rules import OptimisticSettings, Planning, Published, bennett
from inbounds.algorithms.kernels import FIRST_STARTS
from inbounds.errors import TooFewSamples
from inbounds.numerics.boxes import follow
from inbounds.numerics.compiled import compiled
from inbounds.problem.draws import draw_start
from inbounds.problem.simulator import Simulator
from inbounds.proofs.evidence import draw_starts


@compiled
def advance(state: State, constants: Constants, world: Any, rng: np.random.Generator, drawn: int, until: int) -> int:
    """Every pair in turn; a start, which is free, with every sample, and some before the first."""
    frame, starts = constants.frame, state.model.rows.starts
    path, seen = np.empty((1, 3), dtype=np.int64), np.empty((1, 1 + frame.bounds))
    draw_starts(state.model.rows, world, rng, 0, FIRST_STARTS if drawn == 0 and until > 0 else 0)
    while drawn < until:
        draw(path[0], seen[0], drawn % frame.pairs, drawn % frame.queries // frame.pairs, frame, world, rng)
        see(state.model, frame, path, seen)
        starts[draw_start(world, rng)] += 1.0
        drawn += 1
    return drawn


def extract(state: State, constants: Constants, simulator: Simulator) -> Answer:
    """A plan from the samples alone: not from the prices of an earlier one."""
    play, frame, prices = state.play, constants.frame, np.zeros_like(state.prices)
    if by_plan(state._replace(prices=prices), constants) < 0:
        prices[:] = np.nan
    if frame.truncated:  # by the occupancy in the empirical model
        follow(play.policy, state.signals, state.model.rows, False, state.swept, state.margins)
        play.mixture[0] = state.swept.occupancy
    return answer(play, prices, frame, simulator)._replace(episodes=None)


class OptimisticGMBL(OptimisticSettings):
    """Settings of Optimistic-GMBL; the defaults are the paper's radii. See the module for the algorithm.

    It plans once, at the end: `average` changes nothing.
    """

    preset: ClassVar = dict(root=0.1, linear=1.0)
    algorithm = online(
        name="Optimistic-GMBL",
        paper="HasanzadeZonuz, Bura, Kalathil, Shakkottai (AAAI 2021)",
        setting="episodes, generative model",
        output="plan over the box",
        sample_complexity="S^2 A / ((1-γ)^3 ε^2)",
        constants="paper (its algorithm box)",
        access="generative",
        advance=advance,
        extract=extract,
    )

    def _published(self, frame: Frame) -> Published:
        samples, queries, H = frame.samples, frame.queries, frame.H
        if samples < queries:
            raise TooFewSamples(
                f"Optimistic-GMBL samples every pair{' at every stage' * (queries > frame.pairs)}: "
                f"{too_few(samples)} for {queries:,}",
                queries,
            )
        outcomes, each = 12.0 * (frame.bounds + 2) * frame.pairs * H / self.delta, samples // queries
        needed = 25_600.0 * frame.S * H * math.log(outcomes)  # for eps = H / 10
        radii = self.radii(bennett(math.log(4.0 * outcomes * frame.S), 2.0 / 3.0), of_box=0.0)
        target, theorem = "an accuracy of a tenth of the horizon", "the paper's, with eps a tenth of the horizon"
        plan, said = Planning(planned=True, extended=True), {"samples of a pair": each}
        return Published(theorem, needed, radii, target, "samples of every pair", each, planning=plan, said=said)
