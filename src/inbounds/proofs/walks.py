"""Walks of a policy: samples whose mean is the policy's value, made nearly constant by a guess of that value.

Everything is in scaled units (rewards in [0, 1], margins in [-1, 1]) and normalised by (1 - discount).

**The sample.** Fix, before any sample, a guess q(s, a) of the value of one margin m under the policy, and let v(s) =
sum_a pi(a|s) q(s, a). A *walk* starts from s_0 ~ initial, follows the policy, and goes on after each transition with
probability g = discount. With d_t = (1 - g) m(s_t, a_t) + g v(s_{t+1}) - q(s_t, a_t),

    X = mean of v over a few free starts + sum of d_t over the steps of the walk,        E[X] = J, the value of m.

For step t is reached with probability g^t, and sum_t g^t E[(1 - g) m_t] = J, while sum_t g^t E[g v(s_{t+1}) - q(s_t,
a_t)] telescopes to -E[v(s_0)]. This holds for *every* q; a good one makes X nearly constant, since what is left is the
noise of g v(s_{t+1}) around its mean. Every transition of a walk serves. The last pair alone would do as well, but has
1 / (1 - g) times the variance for the same cost; q = 0 and the last pair alone is the plain estimator.

**Its least value.** J from any state is at least `low`, the least that any pair may report (0 for the reward). If
after a step the sum is below a `floor` chosen before the samples, the guess is given up: the rest of the walk counts as
it is paid, above `low`. In the place of the later d_t stand

    g (low - v(s'))  and, for each later step of the walk,  (1 - g) (m - low) >= 0.

Given that the walk comes to s', those steps are worth g (v_true(s') - low) on average, and the sum of both is
g (v_true(s') - v(s')), as that of the later d_t is: so E[X] = J still, wherever the floor is. Let `lowest` = min v over
all states, and max q be over the pairs that the policy can choose. *Lemma:* for every guess q, however wrong, and every
floor,

    X >= least = min( floor,  min(floor, lowest) + low - max q ).

Proof. Write T_0 for the mean over the starts and T_t for the sum after t steps. A walk makes at least one step. If no
T_t is below the floor, X is the last of them, at least the floor. Otherwise let t be the first step after which it is.
Before it was not: T_{t-1} >= floor if t > 1, and T_0, which is not compared with the floor, is a mean of v, so
T_{t-1} >= min(floor, lowest). The terms g v(s') cancel: the sum becomes T_{t-1} + (1 - g) m + g v(s') - q +
g (low - v(s')) = T_{t-1} + (1 - g) m + g low - q, with m >= low, which is at least the second term; and what is added
later is never negative. (A walk that the budget cuts is dropped; it is no sample.)
The second term alone is not enough: where max q < low, a guess that is too low everywhere, it lies above the floor.
In floating point the comparison is exact, and so is that nothing negative is added later, for rounding keeps the order;
the step below the floor rounds a few times, each time by 2^-53 of a number that is no larger than a few times the
largest of |q|, |v|, |floor| and 1: `_RANGE_SLACK` is a thousand times that.

**How deep the floor is** decides how many walks a proof takes, never whether it holds. Deeper, it makes the range of X
larger; higher, more walks lose their guess, and a walk that has lost it varies as much as what is paid. Eight standard
deviations below the mean hardly any walk gets there step by step. But what happens once in a thousand steps, a
breakdown, takes a walk further at once. A proof of a margin a takes about log(1 / level) (2 variance / a^2 + range / a)
walks. So the depth is that with the least F + 2 S(F) / a, with S(F) the variance that walks below a floor at a depth of
F add, on the model that the guess is from: the sum over all unusual falls (of a pair to a next state, or in what it
pays; deeper than half of the eight standard deviations) of how often a walk makes one, times (v - low)^2, times the
probability that what follows leads from there down to the floor, e^-1.4 for each standard deviation of that.

**Walks of a mixture.** A mixture draws one of its policies at the start, j with probability w_j, so a walk of the
mixture is that coin and a walk of the policy that it chose, each with its own guess. With g_j the mean that is guessed
of X_j and g = sum_j w_j g_j, the sample is X_j + g - g_j: since sum_j w_j (g - g_j) = 0, its mean is J of the mixture,
sum_j w_j J_j, whatever the guesses; if they are right, the coin adds nothing to its variance. It is at least
min_j (least_j + g - g_j). A policy is a mixture of itself alone.

No support that was merely observed enters, and no upper limit is needed: the bounds are one-sided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.criteria import criterion_of
from inbounds.criteria.contract import Followed
from inbounds.numerics.compiled import compiled
from inbounds.problem.cmdp import CMDP
from inbounds.problem.draws import World, draw_ends, draw_next, draw_start, observed
from inbounds.problem.pieces import Draws
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator, cumulative_rows
from inbounds.proofs.evidence import Evidence, Log, record

_START_NOISE = 0.1  # free starts are averaged until their variance is this much of that of the transitions,
_STARTS_PER_STEP = 32  # but at most so many for each transition that a walk is expected to draw,
_MOST_STARTS = 10_000  # and so many in all: near a discount of 1 a walk would not get beyond them
_FLOOR = 8.0  # standard deviations of a walk between its mean and the floor, or more: tails are about exp(-1.4 * 8)
_TAIL = 1.4  # how fast they fall off, in standard deviations
_UNUSUAL = 0.5  # of the way to such a floor, from which on a step down is looked at by itself
_DEPTHS = 64  # floors that are compared,
_DEEPEST = 8.0  # at most so many standard deviations of what follows below the deepest fall
_REWARD_ROOM = 0.01  # how far below the reward its bound may be, of the range: there is no margin to go by
_FAINT = 0.01  # standard deviations of a walk: to prove a smaller margin takes 1e5 walks, and no floor is made for that
_FLOOR_LEAST = 1e-6  # the least such distance: a walk without noise is off its mean by rounding
_FLOOR_UNKNOWN = 4.0  # the same distance, in scaled units, when no model gives a standard deviation
_RANGE_SLACK = 1e-9  # against rounding, of the least value of a walk, as long as what is added up is below
_LARGE = 1e3  # and in proportion beyond


class Guess(NamedTuple):
    """A guess of the values of reward (column 0) and margins (1..K), in scaled units, fixed before the samples."""

    pair_values: Floats  # [n, K + 1], q
    state_values: Floats  # [S, K + 1], v(s) = sum_a pi(a|s) q(s, a)
    # The rest decides how well the bets do, never whether the bounds are right; NaN where nothing is known.
    mean: Floats  # [K + 1], of v over the starts
    start_variance: Floats  # [K + 1], of v over the starts
    step_variance: Floats  # [K + 1], of the sum of d_t over a walk
    depth: Floats  # [K + 1], of the floor below the mean
    without_guess: Floats  # [K + 1], the variance that walks below the floor add

    def starts(self, discount: float) -> int:
        """How many starts a walk should average over."""
        most = min(math.ceil(_STARTS_PER_STEP / (1.0 - discount)), _MOST_STARTS)
        needed = self.start_variance / np.maximum(_START_NOISE * self.step_variance, 1e-300)
        return max(1, math.ceil(np.nan_to_num(np.minimum(needed, most), nan=most).max()))

    def variance(self, discount: float) -> Floats:
        """Of a walk, if the guess is right, [K + 1]."""
        return self.start_variance / self.starts(discount) + self.step_variance + self.without_guess


def guess_from_model(model: CMDP, policy: Policy, signal_variance: Floats | float = 0.0) -> Guess:
    """The policy's values on a model in scaled units, and the variance that walks have if the model is right.

    `signal_variance` [n, K + 1] is that of rewards and margins at each pair.
    """
    discount, criterion = model.discount, criterion_of(model)
    pair_values, state_values, followed = values_on_model(model, policy)
    noise = step_noise(model, state_values, signal_variance)
    visits, mean = criterion.time_at_entries(followed) / (1.0 - discount), model.initial @ state_values
    rows = pair_values.shape[1]
    guess = Guess(
        pair_values=pair_values,
        state_values=state_values,
        mean=mean,
        start_variance=model.initial @ (state_values - mean) ** 2,
        step_variance=visits @ noise,
        depth=np.zeros(rows),
        without_guess=np.zeros(rows),
    )
    spread = np.sqrt(guess.variance(discount))
    unusual = np.maximum(_UNUSUAL * _FLOOR * spread, _FLOOR_LEAST)
    falls = [_falls(model, guess, k, visits, signal_variance, unusual[k]) for k in range(rows)]
    if not any(len(own.depth) for own in falls):
        return guess._replace(depth=_FLOOR * spread)
    centred = criterion.proof_vectors(followed, noise.T).T / (1.0 - discount)
    ahead = np.sqrt(np.maximum(centred + guess.step_variance, 0.0))  # [S, K + 1], from each state on
    room = np.maximum(np.where(np.arange(rows) == 0, _REWARD_ROOM, mean), _FAINT * np.maximum(spread, _FLOOR_LEAST))
    chosen = [_best_depth(_FLOOR * spread[k], falls[k], ahead[:, k], room[k]) for k in range(rows)]
    depth, without_guess = np.array(chosen).T
    return guess._replace(depth=depth, without_guess=without_guess)


def values_on_model(model: CMDP, policy: Policy) -> tuple[Floats, Floats, Followed]:
    """q [n, K + 1] and v [S, K + 1] of reward and margins on a model, and the policy's time there."""
    discount, pairs, criterion = model.discount, model.pairs, criterion_of(model)
    followed = criterion.follow(policy.probabilities)
    signals = np.vstack([model.reward, *model.margins])
    centred = criterion.proof_vectors(followed, signals)  # each less its mean over the starts, which is its value
    values = (centred + (signals @ criterion.time_at_entries(followed))[:, None]).T
    # Whatever the solve left over, v must be the policy's mean of q: that is what makes walks unbiased.
    pair_values = (1.0 - discount) * signals.T + discount * (model.transition @ values)
    state_values = np.add.reduceat(policy.probabilities[:, None] * pair_values, pairs.offsets[:-1], axis=0)
    return pair_values, state_values, followed


class _Falls(NamedTuple):
    """Steps that take a walk far down in one row."""

    depth: Floats  # [F]
    after: Ints  # [F], where they lead
    cost: Floats  # [F], how often a walk makes one, times what it costs to give up the guess there


def _falls(
    model: CMDP, guess: Guess, k: int, visits: Floats, signal_variance: Floats | float, unusual: float
) -> _Falls:
    """Those of row `k` that are deeper than `unusual`, of a policy that makes `visits` [n] in a walk."""
    discount, moves, values = model.discount, model.transition, guess.state_values[:, k]
    low, signal = (0.0, model.reward) if k == 0 else (-1.0, model.margins[k - 1])
    expected, lengths = moves @ values, np.diff(moves.indptr)
    depth = discount * (np.repeat(expected, lengths) - values[moves.indices])
    far = np.flatnonzero(depth > unusual)
    often = np.repeat(visits, lengths)[far] * moves.data[far]
    # A signal with this mean and variance is as low as can be with at most this probability (Cantelli).
    variance = np.broadcast_to(signal_variance, guess.pair_values.shape)[:, k]
    paid, lowest = (1.0 - discount) * (signal - low), variance / np.maximum(variance + (signal - low) ** 2, 1e-300)
    poor = np.flatnonzero((paid > unusual) & (visits * lowest > 0.0))
    likeliest = [
        row.start + int(np.argmax(moves.data[row])) for row in map(slice, moves.indptr[poor], moves.indptr[poor + 1])
    ]
    after = np.append(moves.indices[far], moves.indices[likeliest]).astype(np.int64)
    times = np.append(often, (visits * lowest)[poor])
    return _Falls(np.append(depth[far], paid[poor]), after, times * (values[after] - low) ** 2)


def _best_depth(usual: float, falls: _Falls, ahead: Floats, room: float) -> tuple[float, float]:
    """Of the floor with which a margin of `room` takes the fewest walks, at least the `usual` one; and S there.

    `ahead` [S] is the standard deviation of what follows a fall.
    """
    if len(falls.depth) == 0:
        return usual, 0.0
    spread = np.maximum(ahead[falls.after], 1e-300)
    depths = np.linspace(usual, max(usual, float(np.max(falls.depth + _DEEPEST * spread))), _DEPTHS)
    given_up = [
        float(falls.cost @ np.exp(-_TAIL * np.minimum(np.maximum(depth - falls.depth, 0.0) / spread, 500.0)))
        for depth in depths
    ]
    best = int(np.argmin(depths + 2.0 * np.array(given_up) / room))
    return float(depths[best]), given_up[best]


def step_noise(model: CMDP, state_values: Floats, signal_variance: Floats | float) -> Floats:
    """The variance of d_t at each pair, [n, K + 1]."""
    of_next = np.maximum(model.transition @ state_values**2 - (model.transition @ state_values) ** 2, 0.0)
    return model.discount**2 * of_next + (1.0 - model.discount) ** 2 * signal_variance


def guess_from_array(values: Floats, policy: Policy) -> Guess:
    """From values per pair [n, K + 1] in scaled units; nothing is known of how good they are."""
    pairs = policy.pairs
    state_values = np.add.reduceat(policy.probabilities[:, None] * values, pairs.offsets[:-1], axis=0)
    unknown = np.full(values.shape[1], np.nan)
    return Guess(values, state_values, unknown, unknown, unknown, unknown, unknown)


class Design(NamedTuple):
    """How walks are drawn. Rows are the reward (0) and the margins (1..K)."""

    discount: float
    starts: int
    choice: Floats  # [n], cumulative probabilities of the policy within each state; the last of a state is 1
    pair_values: Floats  # [n, K + 1]
    state_values: Floats  # [S, K + 1]
    floor: Floats  # [K + 1]
    low: Floats  # [K + 1], the least value from any state
    least: Floats  # [K + 1], no walk is below


def make_design(simulator: Simulator, policy: Policy, guess: Guess) -> Design:
    """How to walk with the policy: the floor and the least value of a walk follow from the guess.

    The simulator is one in scaled units, whose least reward is 0.
    """
    low = np.concatenate([[0.0], np.minimum(simulator.margin_ranges[:, 0], 0.0)])
    lowest = guess.state_values.min(axis=0)
    floor = guess.mean - np.maximum(guess.depth, _FLOOR_LEAST)
    floor = np.where(np.isfinite(floor), floor, lowest - _FLOOR_UNKNOWN)
    possible = guess.pair_values[policy.probabilities > 0.0]
    least = np.minimum(floor, np.minimum(floor, lowest) + low - possible.max(axis=0))  # the lemma of the module
    largest = np.maximum(_LARGE, np.maximum(np.abs(floor), np.abs(possible).max(axis=0)))
    return Design(
        discount=float(simulator.discount),
        starts=guess.starts(simulator.discount),
        choice=cumulative_rows(policy.probabilities, policy.pairs.offsets),
        pair_values=np.ascontiguousarray(guess.pair_values),
        state_values=np.ascontiguousarray(guess.state_values),
        floor=floor,
        low=low,
        least=least - _RANGE_SLACK * (largest / _LARGE),
    )


class Walker(NamedTuple):
    """How walks of a mixture of J policies are drawn, and what to expect of one."""

    designs: tuple[Design, ...]  # [J]
    ends: Floats  # [J], cumulative weights; the last is 1
    shifts: Floats  # [J, K + 1], g - g_j
    least: Floats  # [K + 1], no walk is below
    # The rest decides how well the bets do, never whether the bounds are right; NaN where nothing is known.
    mean: Floats  # [K + 1]
    variance: Floats  # [K + 1], of a walk


def make_walker(simulator: Simulator, weights: Floats, policies: Sequence[Policy], guesses: Sequence[Guess]) -> Walker:
    """For policies, each with a guess of its values; weights [J] are above 0."""
    designs = tuple(make_design(simulator, *member) for member in zip(policies, guesses, strict=True))
    means = np.array([guess.mean for guess in guesses])
    mean = weights @ means
    shifts = np.nan_to_num(mean - means) if len(guesses) > 1 else np.zeros_like(means)
    return Walker(
        designs=designs,
        ends=cumulative_rows(weights, np.array([0, len(weights)])),
        shifts=shifts,
        least=(np.array([design.least for design in designs]) + shifts).min(axis=0),
        mean=mean,
        variance=weights @ np.array([guess.variance(simulator.discount) for guess in guesses]),
    )


def plain_design(simulator: Simulator, policy: Policy) -> Design:
    """Walks without a guess and without a floor: X is (1 - discount) times the sum of what was observed."""
    rows = 1 + simulator.n_constraints
    nothing = guess_from_array(np.zeros((simulator.pairs.n_pairs, rows)), policy)
    return make_design(simulator, policy, nothing)._replace(starts=1, floor=np.full(rows, -np.inf))


@compiled
def draw_walk(
    design: Design,
    world: World,
    rng: np.random.Generator,
    log: Log,
    drawn: int,
    budget: int,
    totals: Floats,
    guessed: Ints,
) -> tuple[int, bool]:
    """One X for every row into `totals`; the samples drawn by then, and whether the budget sufficed to finish."""
    gamma, rows = design.discount, totals.shape[0]
    state = draw_start(world, rng)
    for k in range(rows):
        totals[k] = design.state_values[state, k]
        guessed[k] = 1
    for _ in range(1, design.starts):
        other = draw_start(world, rng)
        for k in range(rows):
            totals[k] += design.state_values[other, k]
    for k in range(rows):
        totals[k] /= design.starts
    while True:
        if drawn >= budget:
            return drawn, False
        u = rng.random()
        pair = world.offsets[state]
        while design.choice[pair] <= u:
            pair += 1
        after = draw_next(world, pair, rng)
        drawn += 1
        record(log, world, pair, after)
        for k in range(rows):
            paid = (1.0 - gamma) * observed(world, pair, k)
            if guessed[k] == 1:
                totals[k] += paid + gamma * design.state_values[after, k] - design.pair_values[pair, k]
                if totals[k] < design.floor[k]:
                    totals[k] += gamma * (design.low[k] - design.state_values[after, k])
                    guessed[k] = 0
            else:
                totals[k] += paid - (1.0 - gamma) * design.low[k]
        if draw_ends(gamma, rng):
            return drawn, True
        state = after


@compiled
def draw_mixed_walk(
    walker: Walker,
    world: World,
    rng: np.random.Generator,
    log: Log,
    drawn: int,
    budget: int,
    totals: Floats,
    guessed: Ints,
) -> tuple[int, bool]:
    """The same of a mixture: a coin, and a walk of the policy that it chose."""
    member = 0
    if walker.ends.shape[0] > 1:
        u = rng.random()
        while walker.ends[member] <= u:
            member += 1
    drawn, complete = draw_walk(walker.designs[member], world, rng, log, drawn, budget, totals, guessed)
    for k in range(totals.shape[0]):
        totals[k] += walker.shifts[member, k]
    return drawn, complete


@compiled
def draw_walks(
    log: Log, world: World, rng: np.random.Generator, drawn: int, until: int, design: Design, budget: int
) -> int:
    """Walks of the policy for their log only, to the end of the one that comes to `until` samples; at most `budget`."""
    rows = design.floor.shape[0]
    totals, guessed = np.empty(rows), np.empty(rows, dtype=np.int64)
    while drawn < until:
        drawn, _ = draw_walk(design, world, rng, log, drawn, budget, totals, guessed)
    return drawn


def walk_for_evidence(policy: Policy, evidence: Evidence, samples: int, draws: Draws) -> None:
    """Add walks of the policy, of exactly `samples` samples, to the evidence."""
    evidence.draw(draws, samples, samples, draw_walks, plain_design(evidence.simulator, policy), samples)


class Tally(NamedTuple):
    """Means and spreads of walks so far, in scaled units; column 0 is the reward."""

    walks: Ints  # [1]
    mean: Floats  # [K + 1]
    squares: Floats  # [K + 1], sums of squared deviations from the mean


def new_tally(simulator: Simulator) -> Tally:
    rows = 1 + simulator.n_constraints
    return Tally(np.zeros(1, dtype=np.int64), np.zeros(rows), np.zeros(rows))


@compiled
def count_walk(tally: Tally, totals: Floats) -> None:
    """Welford's update: no large numbers are subtracted."""
    tally.walks[0] += 1
    for k in range(totals.shape[0]):
        off = totals[k] - tally.mean[k]
        tally.mean[k] += off / tally.walks[0]
        tally.squares[k] += off * (totals[k] - tally.mean[k])


def standard_errors(tally: Tally) -> Floats:
    """Of the means, [K + 1]; infinite with fewer than two walks."""
    walks = int(tally.walks[0])
    if walks < 2:
        return np.full(tally.mean.shape, math.inf)
    return np.sqrt(tally.squares / (walks * (walks - 1.0)))
