"""Proof from samples alone: a gambler who can only grow rich if the policy is in bounds.

Nothing is assumed of the simulator but its declared ranges and that its draws are independent. The samples are walks
of the policy, from which a guess of its values takes most of the noise (`inbounds.proofs.walks` says why their mean is
right whatever the guess); the proof is a bet on each of them (`inbounds.proofs.betting` says why its bounds hold at
any time). The guess is fixed before the walks that are bet on: it is given, or made from a few walks that are spent on
it alone. All of this is in scaled units (rewards in [0, 1], margins in [-1, 1]); results come back in the user's units.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.errors import InvalidInput
from inbounds.inputs import random_seed, whole_number
from inbounds.numerics.compiled import compiled
from inbounds.problem.cmdp import CMDP
from inbounds.problem.criterion import require_criterion
from inbounds.problem.draws import CHUNK, World, fitted
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator
from inbounds.proofs.betting import Fortune, Stakes, bet_on, look, make_stakes, new_fortune
from inbounds.proofs.certificate import Certificate
from inbounds.proofs.evidence import Evidence, Log, new_log
from inbounds.proofs.walks import (
    Design,
    Guess,
    draw_walk,
    guess_from_array,
    guess_from_model,
    make_design,
    walk_for_evidence,
)

_PILOT_SHARE = 0.1  # of the samples, to guess the values when no guess is given, but no more than
_PILOT_PER_STATE = 100  # walks for each state, after which a better guess would save little


def certify_by_samples(
    policy: Policy,
    simulator: Simulator,
    *,
    confidence: float = 0.99,
    samples: int,
    seed: int | np.random.SeedSequence = 0,
    value: CMDP | Any = None,
    progress: Callable[[int], None] | None = None,
) -> Certificate:
    """Lower bounds on the margins and the reward of a policy from samples alone, all true at once with `confidence`.

    This is `ib.certify` on a simulator, which says what the arguments are. Stops as soon as every margin is proved to
    be >= 0. The bounds hold at any stopping time, so peeking is free: `inbounds.proofs.betting` says why, and how
    `confidence` is shared. Values are in the user's units, normalised by (1 - discount).

    `value` is a guess of the policy's values, fixed before these samples; the better, the fewer samples it takes, but
    *no guess, however wrong, makes the certificate wrong*. A model, in the user's units, on which the policy is
    evaluated; or the value of each pair [K + 1, n]: the reward's first, then the margins', normalised. By default a
    tenth of the samples is spent on walks of the policy, of which an empirical model is made. `progress` is called with
    the samples drawn so far, about every million.
    """
    if not isinstance(simulator, Simulator):
        raise InvalidInput(f"simulator must be an ib.Simulator, found {type(simulator).__name__}")
    require_criterion(simulator, "discounted", "certify")
    if not isinstance(policy, Policy) or not np.array_equal(policy.pairs.offsets, simulator.pairs.offsets):
        raise InvalidInput(f"{policy!r} is not a policy of this problem ({simulator!r})")
    simulator = simulator.scaled  # whatever learners see
    alpha = 1.0 - valid_confidence(confidence)
    budget = whole_number(samples, "samples")
    rng = np.random.default_rng(random_seed(seed))
    spent = 0
    if value is None:
        enough = math.ceil(_PILOT_PER_STATE * simulator.pairs.n_states / (1.0 - simulator.discount))
        spent = min(int(_PILOT_SHARE * budget), enough)
        evidence = Evidence(simulator)
        evidence.add_starts(rng, max(1000, 10 * simulator.pairs.n_states))
        walk_for_evidence(policy, evidence, spent, rng)
        guess = guess_from_model(evidence.model(), policy, evidence.signal_variance)
    else:
        guess = _given_guess(value, policy, simulator)
    shown = None if progress is None else lambda drawn: progress(spent + drawn)
    proved = prove(policy, simulator, guess, alpha, budget - spent, rng, progress=shown)
    return as_certificate(proved, simulator, confidence, spent + proved.samples)


@dataclass(frozen=True)
class Proved:
    """What one series of walks showed, in scaled units: lower bounds [K + 1], reward first."""

    bounds: Floats
    samples: int
    in_bounds: bool


def prove(
    policy: Policy,
    simulator: Simulator,
    guess: Guess,
    alpha: float,
    samples: int,
    rng: np.random.Generator,
    log: Log | None = None,
    progress: Callable[[int], None] | None = None,
) -> Proved:
    """Lower bounds that all hold with probability 1 - `alpha`, given everything that happened before."""
    world = simulator.open()
    run = fitted(walk_and_bet, world)
    design = make_design(simulator, policy, guess)
    discount = simulator.discount
    stakes = make_stakes(design.least, guess.mean, guess.variance(discount), alpha, samples * (1.0 - discount))
    fortune = new_fortune(stakes, design.low)
    log = new_log(simulator, 0) if log is None else log
    drawn, settled = 0, False
    while drawn < samples and not settled:
        drawn, settled = run(design, stakes, fortune, world, rng, log, drawn, min(drawn + CHUNK, samples), samples)
        if progress is not None:
            progress(drawn)
    look(stakes, fortune)
    bounds = fortune.bound
    return Proved(freeze(bounds), drawn, bool(np.all(bounds[1:] >= 0.0)))


@compiled
def walk_and_bet(
    design: Design,
    stakes: Stakes,
    fortune: Fortune,
    world: World,
    rng: np.random.Generator,
    log: Log,
    drawn: int,
    until: int,
    budget: int,
) -> tuple[int, bool]:
    """Walk and bet until all is settled, or `until` samples are drawn; never more than `budget`, even within a walk."""
    rows = stakes.goal.shape[0]
    totals, active = np.empty(rows), np.empty(rows, dtype=np.int64)
    while drawn < until:
        drawn, complete = draw_walk(design, world, rng, log, drawn, budget, totals, active)
        if complete and bet_on(stakes, fortune, totals):
            return drawn, True
    return drawn, False


def as_certificate(proved: Proved, simulator: Simulator, confidence: float, samples: int) -> Certificate:
    """In the user's units."""
    scaling = simulator.scaling
    return Certificate(
        in_bounds=proved.in_bounds,
        kind="confidence",
        constraints=simulator.constraints,
        margins_lower=freeze(proved.bounds[1:] * scaling.margin_scales),
        methods=("betting on walks",) * simulator.n_constraints,
        reward_lower=float(scaling.reward_low + scaling.reward_span * proved.bounds[0]),
        confidence=float(confidence),
        samples=samples,
    )


def _given_guess(value: Any, policy: Policy, simulator: Simulator) -> Guess:
    """From what the user gave as `value`, in the user's units."""
    scaling, pairs, rows = simulator.scaling, simulator.pairs, 1 + simulator.n_constraints
    if isinstance(value, CMDP):
        same = np.array_equal(value.offsets, pairs.offsets) and value.n_constraints == simulator.n_constraints
        if not same or value.discount != simulator.discount:
            raise InvalidInput(f"value must be a model of the same problem ({simulator!r}), found {value!r}")
        return guess_from_model(scaling.model(value), policy)
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape != (rows, pairs.n_pairs) or not np.all(np.isfinite(array)):
        raise InvalidInput(
            f"value must be a CMDP or finite numbers of shape [K + 1, n] = ({rows}, {pairs.n_pairs}), "
            f"the reward first, found {value!r}"
        )
    array[0] = (array[0] - scaling.reward_low) / scaling.reward_span
    array[1:] /= scaling.margin_scales[:, None]
    return guess_from_array(np.ascontiguousarray(array.T), policy)


def valid_confidence(confidence: Any) -> float:
    """A probability, but neither 0 nor 1."""
    try:
        number = float(confidence)
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 < number < 1.0:
        raise InvalidInput(
            f"confidence must be a probability between 0 and 1, such as 0.99, found {confidence!r}; "
            f"no number of samples makes anything certain"
        )
    return number
