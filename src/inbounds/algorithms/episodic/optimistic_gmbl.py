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
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Answer
from inbounds.algorithms.episodic.frame import Frame
from inbounds.algorithms.episodic.learner import Constants, State, online
from inbounds.algorithms.episodic.model import bennett, fill_signals, renew, see
from inbounds.algorithms.episodic.planning import constrained_plan
from inbounds.algorithms.episodic.rules import OptimisticSettings, Published
from inbounds.algorithms.episodic.sweeps import follow
from inbounds.algorithms.kernels import FIRST_STARTS
from inbounds.errors import InvalidInput
from inbounds.numerics.compiled import compiled
from inbounds.problem.draws import draw_next, draw_start, observed
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator


@compiled
def queries_of(frame: Frame) -> int:
    """Pairs, or pairs at stages where these differ."""
    return int(frame.offsets[-1]) * (frame.weights.shape[0] if frame.row_step + frame.signal_step > 0 else 1)


@compiled
def advance(state: State, constants: Constants, world: Any, rng: np.random.Generator, drawn: int, until: int) -> int:
    """Every pair in turn; a start, which is free, with every sample, and some before the first."""
    frame, starts, queries = constants.frame, state.model.starts, queries_of(constants.frame)
    path, seen = np.empty((queries, 3), dtype=np.int64), np.empty((queries, frame.low.shape[0]))
    for _ in range(FIRST_STARTS if drawn == 0 and until > 0 else 0):
        starts[draw_start(world, rng)] += 1.0
    while drawn < until:
        size = min(until - drawn, queries)
        for t in range(size):
            pair, h = (drawn + t) % frame.offsets[-1], (drawn + t) % queries // frame.offsets[-1]
            path[t, 0], path[t, 1], path[t, 2] = pair, draw_next(world, pair + h * frame.row_step, rng), h
            for x in range(seen.shape[1]):
                seen[t, x] = frame.factors[x] * observed(world, pair + h * frame.signal_step, x)
            starts[draw_start(world, rng)] += 1.0
        see(state.model, frame, path[:size], seen[:size])
        drawn += size
    return drawn


def extract(state: State, constants: Constants, simulator: Simulator) -> Answer:
    model, frame, radii, signals = state.model, constants.frame, constants.confidence, state.signals
    policy, prices = np.empty(signals.shape[:2]), np.zeros(len(state.prices))
    renew(model, radii, 1.0, 1.0)
    fill_signals(signals, model, frame, radii, state.spans, 1.0, 0.0)
    if constrained_plan(signals, model, frame, True, prices, policy) < 0:
        prices[:] = np.nan
    chosen = Policy(simulator.pairs, policy)
    if frame.truncated:  # by the occupancy in the empirical model
        follow(policy, signals, model, frame, False, state.swept, state.margins)
        chosen = Policy.from_occupancy(simulator, frame.weights @ state.swept.occupancy, otherwise=chosen.at(0))
    return Answer(chosen, prices * frame.factors[1:])


@dataclass(frozen=True, repr=False, kw_only=True)
class OptimisticGMBL(OptimisticSettings):
    """Settings of Optimistic-GMBL; the defaults are the paper's radii. See the module for the algorithm.

    It plans once, at the end: `average` changes nothing.

    Parameters
    ----------
    accuracy : float in (0, 1]
        The paper's eps, as a share of the horizon; it decides what the guarantee says, and nothing else.

    Examples
    --------
    >>> OptimisticGMBL.practical()
    OptimisticGMBL(root=0.1, linear=1.0)
    """

    accuracy: float = field(default=0.1, metadata=checks.SHARE | {"what": "a number in (0, 1]"})

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
        S, pairs, _, H, _, _, bounds = frame.size
        samples, queries = frame.samples, queries_of(frame)
        if samples < queries:
            raise InvalidInput(
                f"Optimistic-GMBL samples every pair{' at every stage' * (queries > pairs)}: {samples:,} samples "
                f"are too few for {queries:,}; give at least {queries:,}"
            )
        outcomes, each = 12.0 * (bounds + 2) * pairs * H / self.delta, samples // queries
        needed = 256.0 / (self.accuracy * H) ** 2 * S * H**3 * math.log(outcomes)
        radii = self.radii(bennett(math.log(4.0 * outcomes * S), 2.0 / 3.0))._replace(of_box=0.0)
        target, units = f"accuracy {self.accuracy:g} of the horizon", "samples of every pair"
        promise = Published(f"the paper's, with {target}", needed, radii, f"an {target}", units, each)
        return promise._replace(said={"samples of a pair": each})
