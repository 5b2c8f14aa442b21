"""A model from samples in memory that does not grow with them: a sketch of it, and what the sketch misses.

An empirical model remembers every move that was seen: up to T numbers after T samples. Here every pair has room for b
different next states, the first that are seen, with how often each was seen; of other next states only their number is
known. Where no pair has led to more than b, nothing is lost, and the sketch IS the empirical model. Otherwise

    sketch       P0(s' | pair) = times seen / times that any of those b was seen       (the others are left out)
    correction   c(pair) = mean of V(s') over the samples since V was set, all of them  -  P0 V

for a table V [S, K + 1] of values of the reward and the margins, normalised by (1 - gamma), which does not change while
samples arrive. The model is P0 with the signals m + gamma / (1 - gamma) c in the place of the means m. A policy's value
on it solves v = (1 - gamma) m + gamma (c + P0 v), and with c + P0 V = P V, P the empirical rows of these samples, what
P itself would give, v' = (1 - gamma) m + gamma P v', differs from it by

    v' - v = gamma (1 - gamma P0)^-1 (P - P0) (v' - V),        each for the rows of the policy.

So it is exact for a policy whose values are V, and for others the error is second order: that of the sketch times how
far their values are from V. To bring V near, there are epochs: the values of the best policy of each become the V of
the next, whose samples V has not seen.

    fill      the first b samples of every pair, V = 0 and c = 0
    epochs    .15, .25 and .60 of the other samples

Memory: n (2 b + 3 (K + 1) + 2) + S (K + 2) numbers and a few, whatever T.

Where pairs lead to many more than b states and the best policies differ by little in reward but by much in what they
visit, V does not cover the next plan, and the error is not small; the more so the closer gamma is to 1. The test and
the mixture that presets end in keep such runs in bounds; from gamma = 0.98 on, with such pairs, the empirical model is
the better choice where it fits into memory. docs/presets.md has the figures.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inbounds.algorithms.kernels import FIRST_STARTS
from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled
from inbounds.problem.cmdp import CMDP
from inbounds.problem.draws import World, draw_next, draw_start, observed
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator
from inbounds.proofs.evidence import draw_starts, empirical_model, new_log
from inbounds.proofs.walks import values_on_model

KEPT = 32
"""Next states of every pair that are told apart, b."""

EPOCHS = (0.15, 0.40)
"""Where epochs end before the last, as shares of the samples after the first b of every pair."""


class Sketch(NamedTuple):
    """What is remembered. `visits`, `sums` and `starts` are as in a `Log`."""

    successors: npt.NDArray[np.int32]  # [n, b], the first different next states of each pair; -1 where there is room
    counts: Ints  # [n, b], how often each was seen
    visits: Ints  # [n], how often each pair was tried
    sums: Floats  # [n, K + 1], of rewards and margins, in scaled units
    starts: Ints  # [S], draws of a start
    values: Floats  # [S, K + 1], V
    streamed: Ints  # [n], samples of each pair since V was set
    onward: Floats  # [n, K + 1], sums of V(s') since then
    settled: Floats  # [n, K + 1], c of the epoch before
    rounds: Ints  # [1], the fewest samples of a pair in that epoch
    ends: Ints  # [E], sample counts at which epochs end

    @property
    def lost(self) -> Ints:
        """How often each pair led to a state that is not told apart, [n]."""
        return self.visits - self.counts.sum(axis=1)


def new_sketch(simulator: Simulator, samples: int, kept: int = KEPT) -> Sketch:
    """Before the first of so many samples, of which number t is of pair t mod n."""
    n, n_states, signals = simulator.pairs.n_pairs, simulator.pairs.n_states, 1 + simulator.n_constraints
    after = samples // n - kept  # samples of every pair after the fill
    rounds = {kept, *(kept + round(share * after) for share in EPOCHS)} if after > 0 else set()
    return Sketch(
        successors=np.full((n, kept), -1, dtype=np.int32),
        counts=np.zeros((n, kept), dtype=np.int64),
        visits=np.zeros(n, dtype=np.int64),
        sums=np.zeros((n, signals)),
        starts=np.zeros(n_states, dtype=np.int64),
        values=np.zeros((n_states, signals)),
        streamed=np.zeros(n, dtype=np.int64),
        onward=np.zeros((n, signals)),
        settled=np.zeros((n, signals)),
        rounds=np.zeros(1, dtype=np.int64),
        ends=np.array([*(count * n for count in sorted(rounds) if count * n < samples), samples]),
    )


@compiled
def stream(sketch: Sketch, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
    """Samples number `drawn` to `until` - 1, which must be of one epoch. The draws are those of `draw_in_turn`."""
    n, kept, signals = sketch.visits.shape[0], sketch.counts.shape[1], sketch.sums.shape[1]
    if drawn == 0 and until > 0:
        draw_starts(sketch, world, rng, 0, FIRST_STARTS)
    while drawn < until:
        pair = drawn % n
        after = draw_next(world, pair, rng)
        place = 0
        while place < kept and sketch.successors[pair, place] != after and sketch.successors[pair, place] >= 0:
            place += 1
        if place < kept:
            sketch.successors[pair, place] = after
            sketch.counts[pair, place] += 1
        sketch.visits[pair] += 1
        sketch.streamed[pair] += 1
        for k in range(signals):
            sketch.sums[pair, k] += observed(world, pair, k)
            sketch.onward[pair, k] += sketch.values[after, k]
        sketch.starts[draw_start(world, rng)] += 1
        drawn += 1
    return drawn


def sketched_model(sketch: Sketch, simulator: Simulator) -> CMDP:
    """The corrected model in scaled units, with margins >= 0 as its constraints; every pair must have been tried."""
    gamma, visits = simulator.discount, sketch.visits[:, None]
    signals = sketch.sums / visits + gamma / (1.0 - gamma) * correction(sketch)
    totals = new_log(simulator, 0)._replace(visits=np.ones_like(sketch.visits), sums=signals, starts=sketch.starts)
    pairs, places = np.nonzero(sketch.counts)
    rows = sketch.counts / sketch.counts.sum(axis=1, keepdims=True)
    return empirical_model(simulator, totals, pairs, sketch.successors[pairs, places], rows[pairs, places])


def correction(sketch: Sketch) -> Floats:
    """c [n, K + 1], 0 where nothing is lost; by the present epoch, or while that has fewer samples by the one before.

    In the latter case P0 has gone on since: policies that are asked for half way bear with that.
    """
    least = int(sketch.streamed.min())
    if least == 0 or least < sketch.rounds[0]:
        found = sketch.settled
    else:
        seen = sketch.counts / sketch.counts.sum(axis=1, keepdims=True)
        expected = np.einsum("pb,pbk->pk", seen, sketch.values[sketch.successors])
        found = sketch.onward / sketch.streamed[:, None] - expected
    return np.where(sketch.lost[:, None] > 0, found, 0.0)


def turn(sketch: Sketch, model: CMDP, policy: Policy) -> None:
    """Begin an epoch: the values of a policy on the sketched model become V."""
    sketch.settled[:] = correction(sketch)
    sketch.rounds[0] = sketch.streamed.min()
    sketch.values[:] = values_on_model(model, policy)[1]
    sketch.streamed[:] = 0
    sketch.onward[:] = 0.0
