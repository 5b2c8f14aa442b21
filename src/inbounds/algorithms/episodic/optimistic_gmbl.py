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
from inbounds.algorithms.episodic.frame import Frame, frame_of, horizon_of, said_of
from inbounds.algorithms.episodic.model import Model, count, fill_signals, new_model, refresh
from inbounds.algorithms.episodic.planning import constrained_plan
from inbounds.algorithms.episodic.settings import OptimisticSettings
from inbounds.algorithms.episodic.sweeps import follow, new_sweep
from inbounds.algorithms.kernels import FIRST_STARTS
from inbounds.algorithms.settings import guarantee_unless
from inbounds.errors import InvalidInput
from inbounds.numerics.compiled import compiled
from inbounds.problem.draws import draw_next, draw_start, observed
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator


class Constants(NamedTuple):
    frame: Frame
    confidence: Confidence
    queries: int  # pairs, or pairs at stages


def prepare(settings: OptimisticGMBL, simulator: Simulator, samples: int, rng: np.random.Generator) -> Prepared:
    frame = frame_of(settings, simulator, max(samples, horizon_of(settings, simulator)))  # it plays no episode
    S, pairs, _, H, _, _, bounds = frame.size
    queries = pairs * (H if frame.row_step or frame.signal_step else 1)
    if samples < queries:
        raise InvalidInput(
            f"Optimistic-GMBL samples every pair{' at every stage' * (queries > pairs)}: {samples:,} samples "
            f"are too few for {queries:,}; give at least {queries:,}"
        )
    outcomes = 12.0 * (bounds + 2) * pairs * H / settings.delta
    needed = 256.0 / (settings.accuracy * H) ** 2 * S * H**3 * math.log(outcomes)
    radii = settings.radii(bennett(math.log(4.0 * outcomes * S), 2.0 / 3.0))._replace(of_box=0.0)
    of_each, target = samples // queries, f"accuracy {settings.accuracy:g} of the horizon"
    gaps = {
        "practical radii, without its logarithms": not settings.as_published,
        "a truncated problem": frame.truncated,
        f"{of_each:,.0f} samples of every pair: an {target} takes {needed:.1e} of them": of_each < needed,
    }
    theorem = f"the paper's, with {target} and probability {1.0 - settings.delta:g}"
    said = {name: value for name, value in said_of(settings, frame).items() if name in ("truncated", "epsilon")}
    said |= {"root": radii.root, "linear": radii.linear, "samples of a pair": of_each}
    constants = Constants(frame, radii, queries)
    return Prepared(new_model(frame, samples), constants, 0, said, guarantee_unless(gaps, theorem))


@compiled
def advance(model: Model, constants: Constants, world: Any, rng: np.random.Generator, drawn: int, until: int) -> int:
    """Every pair in turn; a start, which is free, with every sample, and some before the first."""
    frame, n_pairs = constants.frame, constants.frame.offsets[-1]
    path, seen = np.empty((1, 2), dtype=np.int64), np.empty((1, frame.low.shape[0]))
    if drawn == 0 and until > 0:
        for _ in range(FIRST_STARTS):
            model.starts[draw_start(world, rng)] += 1.0
    while drawn < until:
        h, pair = drawn % constants.queries // n_pairs, drawn % n_pairs
        path[0, 0], path[0, 1] = pair, draw_next(world, pair + h * frame.row_step, rng)
        for x in range(seen.shape[1]):
            seen[0, x] = frame.factors[x] * observed(world, pair + h * frame.signal_step, x)
        count(model, frame, h, path, seen)
        model.starts[draw_start(world, rng)] += 1.0
        drawn += 1
    return drawn


def extract(model: Model, constants: Constants, simulator: Simulator) -> Answer:
    frame, radii, size = constants.frame, constants.confidence, constants.frame.size
    signals, policy = np.empty((size.H, size.pairs, 1 + size.bounds)), np.empty((size.H, size.pairs))
    prices, spans = np.zeros(size.bounds), np.zeros((size.H + 1, 1 + size.bounds))
    refresh(model, radii, 1.0, 1.0)
    fill_signals(signals, model, frame, radii, spans, 1.0, 0.0)
    if constrained_plan(signals, model, frame, True, prices, policy) < 0:
        prices[:] = np.nan
    chosen, swept = Policy(simulator.pairs, policy), new_sweep(size.H, size.S, size.pairs, 0, False)
    if frame.truncated:  # by the occupancy in the empirical model
        follow(policy, signals, model, frame, False, swept, np.empty(1 + size.bounds))
        chosen = Policy.from_occupancy(simulator, frame.weights @ swept.occupancy, otherwise=chosen.at(0))
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
    algorithm = Algorithm(
        name="Optimistic-GMBL",
        paper="HasanzadeZonuz, Bura, Kalathil, Shakkottai (AAAI 2021)",
        setting="episodes, generative model",
        output="plan over the box",
        sample_complexity="S^2 A / ((1-γ)^3 ε^2)",
        violation="O(ε)",
        constants="paper (its algorithm box)",
        criterion="finite-horizon",
        prepare=prepare,
        advance=advance,
        extract=extract,
    )
