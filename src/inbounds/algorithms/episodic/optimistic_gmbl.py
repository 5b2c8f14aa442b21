"""Optimistic-GMBL: as many samples of every pair, then the best policy in bounds over the whole box, once.

Aria HasanzadeZonuz, Archana Bura, Dileep Kalathil, Srinivas Shakkottai. "Learning with Safety Constraints: Sample
Complexity of Reinforcement Learning for Constrained MDPs", AAAI 2021: their algorithm for a generative model.

Problem: episodes of H steps; transitions unknown, reward and margins known; any pair may be sampled. It is NOT online:
the learner asks for pairs as it likes, and plays no episode.

Updates: n = 256 / eps^2 S H^3 log(12 (I+2) S A H / delta) samples of every pair; then, with l = log(4 / delta_P) and
delta_P = delta / (12 (I+2) S^2 A H),

    pi = argmax J_r  with  J_gi >= 0   over policies and models of the box
    |P' - p| <= min( sqrt(2 p (1-p) l / n) + 2 l / (3n), sqrt(l / 2n) )

all from the algorithm box of the paper.

Guarantee: with probability 1 - delta, eps-optimal and eps-feasible, from that n: 10^7 and more for small problems.

Departures: n is what the budget allows. Where stages differ, every pair is sampled at every stage. Where no policy is
in bounds, the policy is the least out of them, and there are no prices. Practical preset: radii .1 sqrt(p (1-p) / n) +
1 / n; with none at all it does about as well, for hope buys nothing where samples are uniform.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Algorithm, Answer, Prepared
from inbounds.algorithms.episodic.confidence import Confidence, bennett
from inbounds.algorithms.episodic.counts import (
    Counts,
    count_transition,
    fill_signals,
    hear,
    new_counts,
    new_model,
    refresh_all,
)
from inbounds.algorithms.episodic.doubling import OptimisticSettings
from inbounds.algorithms.episodic.frame import Frame, frame_of, horizon_of, said_of
from inbounds.algorithms.episodic.planning import constrained_plan
from inbounds.algorithms.kernels import FIRST_STARTS
from inbounds.algorithms.settings import guarantee_unless
from inbounds.arrays import Floats
from inbounds.errors import InvalidInput
from inbounds.numerics.compiled import compiled
from inbounds.problem.draws import draw_next, draw_start, observed
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator


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
    >>> import inbounds as ib
    >>> media = ib.zoo.media()
    >>> run = ib.learn(media.simulator(), ib.OptimisticGMBL.practical(), samples=20_000, seed=0)
    >>> abs(ib.evaluate(media, run.policy).reward - ib.solve(media).reward) < 0.2
    True
    """

    accuracy: float = field(default=0.1, metadata=checks.SHARE | {"what": "a number in (0, 1]"})

    preset: ClassVar = dict(root=0.1, linear=1.0)


class Constants(NamedTuple):
    frame: Frame
    confidence: Confidence
    queries: int  # pairs, or pairs at stages


def prepare(settings: OptimisticGMBL, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    horizon, pairs = horizon_of(settings, simulator), simulator.pairs
    frame = frame_of(settings, simulator, max(samples, horizon))  # it plays no episode
    queries = pairs.n_pairs * (horizon if frame.row_step or frame.signal_step else 1)
    if samples < queries:
        raise InvalidInput(
            f"Optimistic-GMBL samples every pair{' at every stage' * (queries > pairs.n_pairs)}: {samples:,} samples "
            f"are too few for {queries:,}; give at least {queries:,}"
        )
    outcomes = 12.0 * (simulator.n_constraints + 2) * pairs.n_pairs * horizon / settings.delta
    needed = 256.0 / (settings.accuracy * horizon) ** 2 * pairs.n_states * horizon**3 * math.log(outcomes)
    confidence = settings.confidence(bennett(math.log(4.0 * outcomes * pairs.n_states), 2.0 / 3.0))
    of_each, target = samples // queries, f"accuracy {settings.accuracy:g} of the horizon"
    gaps = settings.gaps(simulator, needed, of_each, "samples of every pair", f"an {target}")
    theorem = f"the paper's, with {target} and probability {1.0 - settings.delta:g}"
    said = said_of(settings, simulator, frame)
    said = {name: said[name] for name in ("truncated", "epsilon") if name in said}
    said |= {"root": confidence.root, "linear": confidence.linear, "samples of a pair": of_each}
    constants = Constants(frame, confidence, queries)
    return Prepared(new_counts(frame, samples), constants, 0, said, guarantee_unless(gaps, theorem))


@compiled
def advance(counts: Counts, constants: Constants, world: Any, rng: np.random.Generator, drawn: int, until: int) -> int:
    """Every pair in turn; a start, which is free, with every sample, and some before the first."""
    frame, n_pairs = constants.frame, constants.frame.offsets[-1]
    seen = np.empty(frame.low.shape[0])
    if drawn == 0 and until > 0:
        for _ in range(FIRST_STARTS):
            counts.starts[draw_start(world, rng)] += 1.0
    while drawn < until:
        h, pair = drawn % constants.queries // n_pairs, drawn % n_pairs
        count_transition(counts, pair + h * frame.row_step, draw_next(world, pair + h * frame.row_step, rng))
        for x in range(seen.shape[0]):
            seen[x] = frame.factors[x] * observed(world, pair + h * frame.signal_step, x)
        hear(counts, pair + h * frame.signal_step, seen)
        counts.starts[draw_start(world, rng)] += 1.0
        drawn += 1
    return drawn


def extract(counts: Counts, constants: Constants, simulator: Simulator) -> Answer:
    frame, model = constants.frame, new_model(counts)
    horizon, n_signals, n_pairs = len(frame.weights), len(frame.low), simulator.pairs.n_pairs
    refresh_all(model, counts, constants.confidence)
    signals, policy = np.empty((horizon, n_pairs, n_signals)), np.empty((horizon, n_pairs))
    prices, spans = np.zeros(n_signals - 1), np.zeros((horizon + 1, n_signals))
    fill_signals(signals, counts, model, frame, constants.confidence, spans, 1.0, 0.0)
    if constrained_plan(signals, counts, model, frame, True, prices, policy) < 0:
        prices[:] = np.nan
    chosen, prices = Policy(simulator.pairs, policy), prices * frame.factors[1:]
    if "horizon" in simulator.criterion:
        return Answer(chosen, prices)
    mass: Floats = np.zeros(n_pairs)
    here = counts.starts / counts.starts.sum()
    for weight, rule in zip(frame.weights, policy, strict=True):  # the occupancy in the empirical model
        there = here[simulator.pairs.states] * rule
        mass += weight * there
        here = np.zeros(len(here))
        np.add.at(here, counts.successors, there[:, None] * model.chances)
    return Answer(Policy.from_occupancy(simulator, mass, otherwise=chosen.at(0)), prices)


OptimisticGMBL.algorithm = Algorithm(
    name="Optimistic-GMBL",
    paper="HasanzadeZonuz, Bura, Kalathil, Shakkottai (AAAI 2021)",
    setting="episodes, generative model",
    needs="nothing",
    output="plan over the box",
    sample_complexity="S^2 A / ((1-γ)^3 ε^2)",
    violation="O(ε)",
    constants="paper (its algorithm box)",
    criterion="finite-horizon",
    prepare=prepare,
    advance=advance,
    extract=extract,
)
