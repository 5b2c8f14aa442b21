"""Proof from samples alone: a gambler who can only grow rich if the policy is in bounds.

Nothing is assumed of the simulator but its declared ranges and that its draws are independent. Everything below is in
scaled units (rewards in [0, 1], margins in [-1, 1]) and normalised by (1 - discount); results come back in the user's
units.

**The sample.** Fix, before any sample, a guess q(s, a) of the value of one margin m under the policy, and let v(s) =
sum_a pi(a|s) q(s, a). A *walk* starts from s_0 ~ initial, follows the policy, and goes on after each transition with
probability g = discount. With d_t = (1 - g) m(s_t, a_t) + g v(s_{t+1}) - q(s_t, a_t),

    X = mean of v over a few free starts + sum of d_t over the steps of the walk,        E[X] = J, the value of m.

For step t is reached with probability g^t, and sum_t g^t E[(1 - g) m_t] = J, while sum_t g^t E[g v(s_{t+1}) - q(s_t,
a_t)] telescopes to -E[v(s_0)]. This holds for *every* q; a good one makes X nearly constant, since what is left is the
noise of g v(s_{t+1}) around its mean. Every transition of a walk serves. The last pair alone would do as well, but has
1 / (1 - g) times the variance for the same cost; q = 0 and the last pair alone is the plain estimator.

**Its least value.** J from any state is at least `low`, the least that any pair may report (0 for the reward). If
after a step the sum is below a `floor` chosen before the samples, the rest of the walk, worth g (v_true(s') - v(s'))
on average, is replaced by g (low - v(s')), which is no more. So E[X] <= J, with equality when the floor is never
reached, and

    X >= least = min(floor, min v) + low - max q        over all states, and all pairs that the policy can choose.

No support that was merely observed enters, and no upper limit is needed: the statement is one-sided.

**The bet.** Before each walk a stake b >= 0 is chosen from the walks before it. For a claim "J <= c" the capital is

    K_n(c) = prod_i (1 + b_i (X_i - least)) / (1 + b_i (c - least)).

If J <= c, each factor is >= 0 with mean <= 1 given the past, so K_n(c) is a supermartingale that starts at 1 and, by
Ville's inequality, ever reaches 1 / alpha with probability at most alpha: at any stopping time, under any peeking.
(It is the capital prod (1 + l_i (X_i - c)) of Waudby-Smith and Ramdas, with l_i = b_i / (1 + b_i (c - least)).)
The stakes do not depend on c, so K_n(c) falls as c grows, and the claims rejected so far are exactly those with c below

    bound = the largest c for which K_n(c) >= 1 / alpha at some n looked at.

J < bound would mean that the capital of the true claim c = J had reached 1 / alpha: probability at most alpha. Stakes
are taken from a fixed list of levels, so that sum_i log(1 + b_i (c - least)) needs one count per level, and the bound
is found for all c at once from a few numbers. The test of c = 0 is looked at after every walk, other c at geometrically
spaced walks and at the end.

**Many claims.** Each of K constraints gets 0.9 alpha / K, the reward's own lower bound 0.1 alpha (all of it when K =
0): with probability 1 - alpha all bounds hold at once.

Reference: I. Waudby-Smith and A. Ramdas, Estimating means of bounded random variables by betting, JRSS B 86 (2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from inbounds.arrays import Floats, Ints, freeze
from inbounds.certify.certificate import Certificate
from inbounds.compiled import compiled, interpreted
from inbounds.errors import InvalidInput
from inbounds.learn.kernels import draw_next, draw_start
from inbounds.model.cmdp import CMDP, Constraint
from inbounds.model.policy import Policy, occupancy
from inbounds.model.simulator import Simulator, World, cumulative_rows

REWARD_SHARE = 0.1
"""Of alpha, for the lower bound of the reward; the constraints share the rest evenly."""

_PILOT_SHARE = 0.1  # of the samples, to guess the values when no guess is given, but no more than
_PILOT_PER_STATE = 100  # walks for each state, after which a better guess would save little
_START_NOISE = 0.1  # free starts are averaged until their variance is this much of that of the transitions,
_STARTS_PER_STEP = 32  # but at most so many for each transition that a walk is expected to draw
_FLOOR = 8.0  # standard deviations of a walk between its mean and the floor: tails are about exp(-1.4 * 8)
_FLOOR_UNKNOWN = 4.0  # the same distance, in scaled units, when no model gives a standard deviation
_RANGE_SLACK = 1e-9  # against rounding, of the least value of a walk
_GOAL_SLACK = 1e-6  # against rounding, of the logarithm of the capital
_LARGEST_STAKE = 0.9  # of the capital that may be at risk in one walk, at the claim that is tested
_LEVELS = 128
_LEVEL_RATIO = 1.1  # of successive stakes; being off by this much costs half a per cent
_TRUST = 100.0  # how many walks the mean and variance of a guess count for when stakes are chosen
_CHUNK = 1_000_000  # samples between two looks at the keyboard and the progress callback
_DENSE_STATES = 400


class Guess(NamedTuple):
    """A guess of the values of reward (column 0) and margins (1..K), in scaled units, fixed before the samples."""

    pair_values: Floats  # [n, K + 1], q
    state_values: Floats  # [S, K + 1], v(s) = sum_a pi(a|s) q(s, a)
    # The rest decides how well the bets do, never whether the bounds are right; NaN where nothing is known.
    mean: Floats  # [K + 1], of v over the starts
    start_variance: Floats  # [K + 1], of v over the starts
    step_variance: Floats  # [K + 1], of the sum of d_t over a walk

    def starts(self, discount: float) -> int:
        """How many starts a walk should average over."""
        most = math.ceil(_STARTS_PER_STEP / (1.0 - discount))
        needed = self.start_variance / np.maximum(_START_NOISE * self.step_variance, 1e-300)
        return max(1, math.ceil(np.nan_to_num(np.minimum(needed, most), nan=most).max()))

    def variance(self, discount: float) -> Floats:
        """Of a walk, if the guess is right, [K + 1]."""
        return self.start_variance / self.starts(discount) + self.step_variance


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


class Stakes(NamedTuple):
    """How bets are placed; the bound of row k is for the probability exp(-goal[k]) of being wrong."""

    levels: Floats  # [K + 1, L], falling
    goal: Floats  # [K + 1], log(1 / alpha_k)
    least: Floats  # [K + 1]
    reference: Floats  # [K + 1], the claim at which stakes are measured: 0 for margins
    prior: Floats  # [K + 1, 3], mean and variance expected of a walk, and how many walks that is trusted like
    planned: float  # walks that the budget allows for


class Fortune(NamedTuple):
    """Everything that the bets so far have come to; changed in place."""

    gains: Floats  # [K + 1], sum_i log(1 + b_i (X_i - least))
    placed: Ints  # [K + 1, L], how often each level was bet
    at_zero: Floats  # [K + 1], log K_n(0)
    bound: Floats  # [K + 1], the largest claim rejected so far
    moments: Floats  # [K + 1, 2], mean and sum of squared deviations of the walks
    settled: Ints  # [K + 1], 1 once the claim "J <= c" is rejected for every c < 0, and for 0
    counts: Ints  # [2], walks; walks at the next look


class Log(NamedTuple):
    """What was observed, for a later model; nothing is kept once the arrays are full."""

    pairs: npt.NDArray[np.int32]  # [room]
    successors: npt.NDArray[np.int32]  # [room]
    sums: Floats  # [n, K + 1], of rewards and margins, in scaled units
    squares: Floats  # [n, K + 1], of the same
    used: Ints  # [1]


@compiled
def record(log: Log, world: World, pair: int, after: int) -> None:
    """Note the sample just drawn."""
    if log.used[0] < log.pairs.shape[0]:
        log.pairs[log.used[0]] = pair
        log.successors[log.used[0]] = after
        log.used[0] += 1
        for k in range(log.sums.shape[1]):
            seen = world.reward[pair] if k == 0 else world.margins[pair, k - 1]
            log.sums[pair, k] += seen
            log.squares[pair, k] += seen * seen


@compiled
def draw_walk(
    design: Design,
    world: World,
    rng: np.random.Generator,
    log: Log,
    drawn: int,
    budget: int,
    totals: Floats,
    active: Ints,
) -> tuple[int, bool]:
    """One X for every row into `totals`; the samples drawn by then, and whether the budget sufficed to finish."""
    gamma, rows = design.discount, totals.shape[0]
    state = draw_start(world, rng)
    for k in range(rows):
        totals[k] = design.state_values[state, k]
        active[k] = 1
    for _ in range(1, design.starts):
        other = draw_start(world, rng)
        for k in range(rows):
            totals[k] += design.state_values[other, k]
    for k in range(rows):
        totals[k] /= design.starts
    left = rows
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
            if active[k] == 1:
                seen = world.reward[pair] if k == 0 else world.margins[pair, k - 1]
                totals[k] += (1.0 - gamma) * seen + gamma * design.state_values[after, k] - design.pair_values[pair, k]
                if totals[k] < design.floor[k]:
                    totals[k] += gamma * (design.low[k] - design.state_values[after, k])
                    active[k] = 0
                    left -= 1
        if rng.random() >= gamma or left == 0:
            return drawn, True
        state = after


@compiled
def choose_level(stakes: Stakes, fortune: Fortune, k: int) -> int:
    """The level of the next bet of row `k`, from the walks so far.

    With variance s2 the logarithm of the capital grows by about l (J - c) - l^2 s2 / 2 per walk. Of the margins only
    c = 0 matters. The stake that gets there fastest is l = J / s2, with J taken a standard error below its estimate;
    l = sqrt(2 goal / (planned s2)) gets there within the budget for the smallest J. The larger of the two is taken.
    The reward has no such claim and may be stopped at any time: l = sqrt(2 goal / (s2 n log(n + 1))).
    """
    walks = fortune.counts[0]
    trust = stakes.prior[k, 2]
    seen = trust + walks
    variance = (trust * stakes.prior[k, 1] + fortune.moments[k, 1]) / seen
    if k == 0:
        stake = math.sqrt(2.0 * stakes.goal[k] / (variance * (walks + 1.0) * math.log(walks + 2.0)))
    else:
        stake = math.sqrt(2.0 * stakes.goal[k] / (variance * stakes.planned))
        mean = (trust * stakes.prior[k, 0] + walks * fortune.moments[k, 0]) / seen
        if seen >= 10.0:
            stake = max(stake, (mean - math.sqrt(variance / seen)) / variance)
    at_risk = stake * (stakes.reference[k] - stakes.least[k])
    if at_risk >= _LARGEST_STAKE:
        return 0
    below = math.log(_LARGEST_STAKE / at_risk) / math.log(_LEVEL_RATIO)
    return min(1 + int(below), stakes.levels.shape[1] - 1)


@compiled
def place_bet(stakes: Stakes, fortune: Fortune, k: int, x: float) -> None:
    """Bet on row `k`, whose walk came to `x`. The level is chosen before `x` is looked at."""
    level = choose_level(stakes, fortune, k)
    stake = stakes.levels[k, level]
    gain = math.log1p(stake * (x - stakes.least[k]))
    fortune.gains[k] += gain
    fortune.placed[k, level] += 1
    fortune.at_zero[k] += gain - math.log1p(stake * (0.0 - stakes.least[k]))
    if fortune.at_zero[k] >= stakes.goal[k] + _GOAL_SLACK and fortune.settled[k] == 0:
        fortune.settled[k] = 1
        fortune.bound[k] = max(fortune.bound[k], 0.0)
    change = x - fortune.moments[k, 0]
    fortune.moments[k, 0] += change / (fortune.counts[0] + 1.0)
    fortune.moments[k, 1] += change * (x - fortune.moments[k, 0])


@compiled
def log_capital(stakes: Stakes, fortune: Fortune, k: int, claim: float) -> float:
    """log K_n(claim) of row `k`, for claim >= least."""
    total = fortune.gains[k]
    for level in range(stakes.levels.shape[1]):
        if fortune.placed[k, level] > 0:
            total -= fortune.placed[k, level] * math.log1p(stakes.levels[k, level] * (claim - stakes.least[k]))
    return total


@compiled
def look(stakes: Stakes, fortune: Fortune) -> None:
    """Raise the bound of every row to the largest claim that the capital of now rejects. By bisection from below."""
    for k in range(stakes.goal.shape[0]):
        rejected, open_claim = fortune.bound[k], 1.0
        if log_capital(stakes, fortune, k, rejected) < stakes.goal[k] + _GOAL_SLACK:
            continue
        for _ in range(50):
            middle = 0.5 * (rejected + open_claim)
            if log_capital(stakes, fortune, k, middle) >= stakes.goal[k] + _GOAL_SLACK:
                rejected = middle
            else:
                open_claim = middle
        fortune.bound[k] = rejected


@compiled
def bet_on(stakes: Stakes, fortune: Fortune, totals: Floats) -> bool:
    """Bet on one walk in every row; whether every margin is settled."""
    rows = totals.shape[0]
    all_settled = rows > 1
    for k in range(rows):
        place_bet(stakes, fortune, k, totals[k])
        if k > 0 and fortune.settled[k] == 0:
            all_settled = False
    fortune.counts[0] += 1
    if fortune.counts[0] >= fortune.counts[1] or all_settled:
        look(stakes, fortune)
        fortune.counts[1] = fortune.counts[0] + fortune.counts[0] // 8 + 1
    return all_settled


@compiled
def advance(
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


@compiled
def draw_walks(
    design: Design, world: World, rng: np.random.Generator, log: Log, budget: int, totals: Floats, active: Ints
) -> None:
    """Walks of the policy for their log only, of exactly `budget` samples."""
    drawn = 0
    while drawn < budget:
        drawn, _ = draw_walk(design, world, rng, log, drawn, budget, totals, active)


@compiled
def draw_pairs(world: World, rng: np.random.Generator, log: Log, per_pair: int) -> None:
    """Every pair `per_pair` times, for the log."""
    for pair in range(world.states.shape[0]):
        for _ in range(per_pair):
            record(log, world, pair, draw_next(world, pair, rng))


@compiled
def count_starts(world: World, rng: np.random.Generator, number: int, counts: Ints) -> None:
    for _ in range(number):
        counts[draw_start(world, rng)] += 1


class Evidence:
    """What samples have shown: how often each pair led where, with what reward and margins, in scaled units."""

    def __init__(self, simulator: Simulator) -> None:
        pairs, rows = simulator.pairs, 1 + simulator.n_constraints
        self.simulator = simulator
        self.transitions = sp.csr_array((pairs.n_pairs, pairs.n_states), dtype=np.float64)  # counts
        self.sums = np.zeros((pairs.n_pairs, rows))
        self.squares = np.zeros((pairs.n_pairs, rows))
        self.starts = np.zeros(pairs.n_states)  # counts

    @property
    def visits(self) -> Floats:
        """How often each pair was tried, [n]."""
        return np.asarray(self.transitions.sum(axis=1)).ravel()

    @property
    def signal_variance(self) -> Floats:
        """The variance of rewards and margins at each pair, [n, K + 1]; 0 in a simulator made from a model."""
        tried = np.maximum(self.visits, 1.0)[:, None]
        return np.maximum(self.squares / tried - (self.sums / tried) ** 2, 0.0)

    def add(self, log: Log) -> None:
        """Add what a log has noted."""
        used = int(log.used[0])
        if used == 0:
            return
        seen = (np.ones(used), (log.pairs[:used], log.successors[:used]))
        self.transitions = self.transitions + sp.coo_array(seen, shape=self.transitions.shape).tocsr()
        self.sums += log.sums
        self.squares += log.squares

    def add_starts(self, rng: np.random.Generator, number: int) -> None:
        """Draw so many starts, which are free, for the initial distribution of the model."""
        world, draws = self.simulator.open()
        count = interpreted(count_starts, **draws) if draws else count_starts
        counts = np.zeros(self.simulator.pairs.n_states, dtype=np.int64)
        count(world, rng, number, counts)
        self.starts += counts

    def model(self) -> CMDP:
        """The empirical model, in scaled units; a pair never tried stays where it is and earns the average."""
        pairs, visits = self.simulator.pairs, self.visits
        tried = np.maximum(visits, 1.0)
        stay = np.flatnonzero(visits == 0.0)
        counts = self.transitions + sp.csr_array(
            (np.ones(len(stay)), (stay, pairs.states[stay])), shape=self.transitions.shape
        )
        means = self.sums / tried[:, None]
        means[stay] = self.sums.sum(axis=0) / max(visits.sum(), 1.0)
        return CMDP(
            offsets=pairs.offsets,
            transition=sp.csr_array(counts.multiply(1.0 / tried[:, None])),
            reward=means[:, 0],
            constraints=tuple(
                Constraint(means[:, 1 + k], at_least=0.0, name=constraint.name)
                for k, constraint in enumerate(self.simulator.constraints)
            ),
            initial=self.starts / self.starts.sum(),
            discount=self.simulator.discount,
            actions=pairs.actions,
        )


def guess_from_model(model: CMDP, policy: Policy, signal_variance: Floats | float = 0.0) -> Guess:
    """The policy's values on a model in scaled units, and the variance that walks have if the model is right.

    `signal_variance` [n, K + 1] is that of rewards and margins at each pair.
    """
    discount, probabilities = model.discount, policy.probabilities
    signals = np.column_stack([model.reward, *model.margins])
    choose = sp.csr_array(
        (probabilities, np.arange(model.n_pairs), model.offsets), shape=(model.n_states, model.n_pairs)
    )
    chain, here = choose @ model.transition, (1.0 - discount) * (choose @ signals)
    if model.n_states <= _DENSE_STATES:
        values = np.linalg.solve(np.eye(model.n_states) - discount * chain.toarray(), here)
    else:
        values, missing = here / (1.0 - discount), 1.0
        while missing > 1e-9:
            values, missing = here + discount * (chain @ values), missing * discount
    # Whatever the solve left over, v must be the policy's mean of q: that is what makes walks unbiased.
    pair_values = (1.0 - discount) * signals + discount * (model.transition @ values)
    state_values = choose @ pair_values
    noise = step_noise(model, state_values, signal_variance)
    mean = model.initial @ state_values
    return Guess(
        pair_values=pair_values,
        state_values=state_values,
        mean=mean,
        start_variance=model.initial @ (state_values - mean) ** 2,
        step_variance=occupancy(model, policy) @ noise / (1.0 - discount),
    )


def step_noise(model: CMDP, state_values: Floats, signal_variance: Floats | float) -> Floats:
    """The variance of d_t at each pair, [n, K + 1]."""
    of_next = np.maximum(model.transition @ state_values**2 - (model.transition @ state_values) ** 2, 0.0)
    return model.discount**2 * of_next + (1.0 - model.discount) ** 2 * signal_variance


def guess_from_array(values: Floats, policy: Policy) -> Guess:
    """From values per pair [n, K + 1] in scaled units; nothing is known of how good they are."""
    pairs = policy.pairs
    state_values = np.add.reduceat(policy.probabilities[:, None] * values, pairs.offsets[:-1], axis=0)
    unknown = np.full(values.shape[1], np.nan)
    return Guess(values, state_values, unknown, unknown, unknown)


def make_design(simulator: Simulator, policy: Policy, guess: Guess) -> Design:
    low = np.concatenate([[0.0], np.minimum(simulator.margins_least, 0.0)])
    lowest = guess.state_values.min(axis=0)
    floor = guess.mean - _FLOOR * np.sqrt(guess.variance(simulator.discount))
    floor = np.where(np.isfinite(floor), floor, lowest - _FLOOR_UNKNOWN)
    possible = policy.probabilities > 0.0
    least = np.minimum(floor, lowest) + low - guess.pair_values[possible].max(axis=0)
    return Design(
        discount=float(simulator.discount),
        starts=guess.starts(simulator.discount),
        choice=cumulative_rows(policy.probabilities, policy.pairs.offsets),
        pair_values=np.ascontiguousarray(guess.pair_values),
        state_values=np.ascontiguousarray(guess.state_values),
        floor=floor,
        low=low,
        least=least - _RANGE_SLACK,
    )


def make_stakes(design: Design, guess: Guess, alpha: float, planned: float) -> Stakes:
    """For a probability of `alpha` that any bound is wrong, and a budget of about `planned` walks."""
    rows = len(design.least)
    shares = np.full(rows, (1.0 - REWARD_SHARE) * alpha / max(rows - 1, 1))
    shares[0] = REWARD_SHARE * alpha if rows > 1 else alpha
    reference = np.zeros(rows)
    reference[0] = min(max(float(np.nan_to_num(guess.mean[0], nan=0.5)), 0.0), 1.0)
    ranges = reference - design.least
    at_risk = _LARGEST_STAKE * _LEVEL_RATIO ** -np.arange(_LEVELS)
    variance = guess.variance(design.discount)
    known = np.isfinite(variance)
    # A walk without any noise still needs a finite stake.
    expected = np.maximum(np.where(known, variance, ranges**2 / 4.0), 1e-12)
    return Stakes(
        levels=(at_risk / (1.0 - at_risk)) / ranges[:, None],
        goal=-np.log(shares),
        least=design.least,
        reference=reference,
        prior=np.column_stack([np.where(known, guess.mean, 0.0), expected, np.where(known, _TRUST, 1.0)]),
        planned=max(float(planned), 1.0),
    )


def settleable(stakes: Stakes, variance: Floats, walks: float) -> Floats:
    """The value of each row, above its reference, that about half of all proofs with so many walks can settle."""
    ranges = stakes.reference - stakes.least
    stake = np.minimum(np.sqrt(2.0 * stakes.goal / (walks * np.maximum(variance, 1e-12))), _LARGEST_STAKE / ranges)
    return stakes.goal / (walks * stake) + stake * variance / 2.0


def new_fortune(stakes: Stakes, low: Floats) -> Fortune:
    rows, levels = stakes.levels.shape
    return Fortune(
        gains=np.zeros(rows),
        placed=np.zeros((rows, levels), dtype=np.int64),
        at_zero=np.zeros(rows),
        bound=low.copy(),
        moments=np.zeros((rows, 2)),
        settled=(low >= 0.0).astype(np.int64),
        counts=np.zeros(2, dtype=np.int64),
    )


def new_log(simulator: Simulator, room: int) -> Log:
    shape = (simulator.pairs.n_pairs if room else 0, 1 + simulator.n_constraints)
    return Log(
        pairs=np.empty(room, dtype=np.int32),
        successors=np.empty(room, dtype=np.int32),
        sums=np.zeros(shape),
        squares=np.zeros(shape),
        used=np.zeros(1, dtype=np.int64),
    )


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
    world, draws = simulator.open()
    run = interpreted(advance, **draws) if draws else advance
    design = make_design(simulator, policy, guess)
    stakes = make_stakes(design, guess, alpha, samples * (1.0 - simulator.discount))
    fortune = new_fortune(stakes, design.low)
    log = new_log(simulator, 0) if log is None else log
    drawn, settled = 0, False
    while drawn < samples and not settled:
        drawn, settled = run(design, stakes, fortune, world, rng, log, drawn, min(drawn + _CHUNK, samples), samples)
        if progress is not None:
            progress(drawn)
    look(stakes, fortune)
    bounds = fortune.bound
    return Proved(freeze(bounds), drawn, bool(np.all(bounds[1:] >= 0.0)))


def walk_for_evidence(policy: Policy, evidence: Evidence, samples: int, rng: np.random.Generator) -> None:
    """Add walks of the policy, of exactly `samples` samples, to the evidence."""
    simulator = evidence.simulator
    world, draws = simulator.open()
    rows = 1 + simulator.n_constraints
    nothing = guess_from_array(np.zeros((simulator.pairs.n_pairs, rows)), policy)
    design = make_design(simulator, policy, nothing)._replace(starts=1, floor=np.full(rows, -np.inf))
    log = new_log(simulator, samples)
    run = interpreted(draw_walks, **draws) if draws else draw_walks
    run(design, world, rng, log, samples, np.empty(rows), np.empty(rows, dtype=np.int64))
    evidence.add(log)


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

    Stops as soon as every margin is proved to be >= 0. The bounds hold at any stopping time, so peeking is free; the
    module says why. Values are in the user's units, normalised by (1 - discount).

    Parameters
    ----------
    policy : Policy
        Anyone's; fixed before these samples are drawn.
    simulator : Simulator
        ``cmdp.simulator()``, or around the user's own step function, whose declared ranges are relied upon.
    confidence : float in (0, 1)
        The probability with which all bounds hold. Of what is left, a tenth is for the bound on the reward, and the
        constraints share the rest evenly.
    samples : int
        The most transitions to draw. Starts are free.
    seed : int
        Use another one than for learning the policy: the samples must be fresh.
    value : CMDP or array [K + 1, n], optional
        A guess of the policy's values, fixed before these samples; the better, the fewer samples it takes, but *no
        guess, however wrong, makes the certificate wrong*. A model, in the user's units, on which the policy is
        evaluated; or the value of each pair: the reward's first, then the margins', normalised. By default a tenth of
        the samples is spent on walks of the policy, of which an empirical model is made.
    progress : callable, optional
        Called with the samples drawn so far, about every million.

    Examples
    --------
    >>> import inbounds as ib
    >>> from inbounds.certify.betting import certify_by_samples
    >>> queue = ib.zoo.queue()
    >>> careful = ib.solve(queue.tightened(0.05)).policy
    >>> certificate = certify_by_samples(careful, queue.simulator(), confidence=0.99, samples=50_000, seed=1)
    >>> certificate.in_bounds, certificate.kind
    (True, 'confidence')
    """
    if not isinstance(simulator, Simulator):
        raise InvalidInput(f"simulator must be an ib.Simulator, found {type(simulator).__name__}")
    if not isinstance(policy, Policy) or not np.array_equal(policy.pairs.offsets, simulator.pairs.offsets):
        raise InvalidInput(f"{policy!r} is not a policy of this problem ({simulator!r})")
    alpha = 1.0 - valid_confidence(confidence)
    budget = valid_samples(samples)
    rng = np.random.default_rng(valid_seed(seed))
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
    scaling, pairs, rows = simulator.scaling, simulator.pairs, 1 + simulator.n_constraints
    if isinstance(value, CMDP):
        same = np.array_equal(value.offsets, pairs.offsets) and value.n_constraints == simulator.n_constraints
        if not same or value.discount != simulator.discount:
            raise InvalidInput(f"value must be a model of the same problem ({simulator!r}), found {value!r}")
        scaled = CMDP(
            offsets=pairs.offsets,
            transition=value.transition,
            reward=(value.reward - scaling.reward_low) / scaling.reward_span,
            constraints=tuple(
                Constraint(margin / scale, at_least=0.0, name=constraint.name)
                for margin, scale, constraint in zip(
                    value.margins, scaling.margin_scales, value.constraints, strict=True
                )
            ),
            initial=value.initial,
            discount=value.discount,
            actions=pairs.actions,
        )
        return guess_from_model(scaled, policy)
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


def valid_samples(samples: Any) -> int:
    if isinstance(samples, bool) or not isinstance(samples, int | np.integer) or samples < 1:
        raise InvalidInput(f"samples must be a whole number of at least 1, found {samples!r}")
    return int(samples)


def valid_seed(seed: Any) -> int | np.random.SeedSequence:
    if isinstance(seed, np.random.SeedSequence):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidInput(f"seed must be a whole number of at least 0, found {seed!r}")
    return int(seed)
