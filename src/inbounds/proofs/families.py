"""Which is the boldest of several policies, or of the mixtures of two, that is provably in bounds: walks for all.

Policies are fixed, each with a guess of its values, and *claims* about them, 1 ... M: that a policy is in bounds, or a
mixture of two, which draws the second of them with probability t at the start of an episode; the safest is first and
then come ever bolder ones. The policies are much alike, so that one walk serves nearly all of them:

    a *walk of the family* starts from one state for all. For every step there is one number, uniform in [0, 1), that
    gives every policy its action, by its own cumulative probabilities, and one coin, that ends the walk for all. For
    every pair there is a *stack* of samples: where a policy comes to a pair for the i-th time in this walk, it takes
    the i-th of them. It is drawn when the first policy wants it, and costs nothing for the others.

Policies whose actions agree go the same way. Where actions differ their ways part, and yet they go on to share: those
that come to the same pairs, if in another order, take the same samples. A walk of all takes, of each pair, as many
samples as the policy that comes to it most often.

**Theorem 1.** What policy m sees is a walk of it, as `inbounds.proofs.walks` has it, and independent of all walks
before. *Proof.* Think of the numbers, the coins and all stacks, without end, as drawn before the walk: they are
independent of each other, and it makes no difference if one is drawn only when it is wanted, for what is wanted next
depends on nothing but what was drawn before. Policy m takes each of them at most once, and which it takes next depends
on nothing but those that it took before. So each that it takes is, given those, a fresh draw: its action has its
probabilities, its next state and its signals those of its pair, and its coin those of a coin. With whom m shares them
decides only who else looks at the same draws.

With X and Y of two policies in one walk, (1 - t) X + t Y is at least the same sum of their least values, and has the
mean (1 - t) J_X + t J_Y, the value of their mixture: that takes no more than the means, however X and Y depend on each
other. The same walk so serves the mixtures of all shares t, and none of the noise is that of a coin.

So the capital of each margin of each claim, W of `inbounds.proofs.betting`, is a nonnegative supermartingale if that
margin is <= 0: the bets for one claim are those of a proof of it alone. They depend on those of the others, which the
next theorem does not mind.

**Theorem 2.** Fix the order of the claims before the walks, bet on all of them, each at the full level, and take the
last one before the first whose margins are not all settled. What is out of bounds is taken with probability at most
`level`. *Proof.* Let i be the first claim in the order that is wrong; which one that is does not depend on the walks.
If a wrong one is taken, it is i or a later one, so i was settled, which has probability at most `level`
(`inbounds.proofs.betting`). This is fixed-sequence testing: nothing is paid for the search, which ends with just the
margin that the walks could prove, where a single policy has to guess it beforehand.

What is fixed before the first walk: the claims and their order, guesses, floors, the level. What may follow the walks
before: stakes, when to end, and for whom to walk. For a claim that is settled nobody walks any more, and one without
prospects is given up, with all after it. Each walk is finished for all who walk; one that the budget cuts is dropped.

**What it costs.** To change an action in one step changes a margin by (1 - discount) times something, so policies
whose margins differ by D part about D / (1 - discount) times in a walk. What comes after takes more samples only as far
as it leads to other pairs, or to the same ones more often: a few of a walk's steps where there are few pairs, nearly
all of them where there are so many that no two ways meet.

**Bounds, at once.** Lower bounds of the reward and the margins are stated that hold for all M claims at once with
probability 1 - alpha, each with alpha / M, hence for the one that is taken.

References: W. Maurer, L. Hothorn and W. Lehmacher, Multiple comparisons in drug clinical trials and preclinical assays:
a-priori ordered hypotheses, in: Biometrie in der chemisch-pharmazeutischen Industrie 6 (1995); D. B. Wilson, Generating
random spanning trees more quickly than the cover time, STOC (1996), for stacks; and those of betting.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.errors import within_memory
from inbounds.numerics.compiled import compiled
from inbounds.problem.draws import World, draw_ends, draw_next, draw_start, fitted, observed
from inbounds.problem.pieces import Draws
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator
from inbounds.proofs.betting import (
    GO_ON,
    MOST_BETS,
    Book,
    Fortune,
    Played,
    Stakes,
    bet_on,
    make_stakes,
    prospects,
)
from inbounds.proofs.evidence import Log, new_log, record
from inbounds.proofs.samples import Bets, Proved, played, what_they_show
from inbounds.proofs.walks import Design, Guess, make_design

_LOOKS = 10  # on the way, at which claims without prospects are given up
_HOPELESS = 0.02  # probability that all samples left would settle it, below which a claim is given up


class Claims(NamedTuple):
    """Of what it is claimed that it is in bounds, in the order of the tests: mixtures of two of the policies."""

    first: Ints  # [M]
    second: Ints  # [M], the same where the claim is about one policy
    shares: Floats  # [M], of the second


def each_of(policies: int) -> Claims:
    """One policy after the other."""
    return Claims(np.arange(policies), np.arange(policies), np.zeros(policies))


def between_neighbours(policies: int, shares: Sequence[float]) -> Claims:
    """The first policy, mixtures of each two that follow each other, with these shares of the second, and the last.

    >>> between_neighbours(3, [0.5]).second.tolist()
    [0, 1, 2, 2]
    """
    steps = np.repeat(np.arange(policies - 1), len(shares))
    last = np.arange(1, policies)[-1:]  # there is none if there is but one
    return Claims(
        first=np.concatenate([[0], steps, last]),
        second=np.concatenate([[0], steps + 1, last]),
        shares=np.concatenate([[0.0], np.tile(shares, policies - 1), 0.0 * last]),
    )


class SharedWalks(NamedTuple):
    """How walks of the family are drawn. Rows are the reward (0) and the margins (1..K)."""

    discount: float
    starts: int
    choice: Floats  # [n, P], cumulative probabilities of each policy within each state; the last of a state is 1
    pair_values: Floats  # [n, P, K + 1]
    state_values: Floats  # [S, P, K + 1]
    floor: Floats  # [P, K + 1]
    low: Floats  # [K + 1], the least value from any state


class Stacks(NamedTuple):
    """The draws of one walk, in the order in which they were wanted; room that every walk uses anew."""

    top: Ints  # [n], the first sample of each pair; -1: none
    taken: Ints  # [n], the last of them that was taken on the way at hand; -1: none
    samples: Ints  # [room, 3]: the pair, the next state, the next sample of the same pair, -1: none
    seen: Floats  # [room, K + 1], what was observed with it
    clock: Floats  # [room, 2]: the number that gives all their action at each step; 1 where the walk ends after it
    way: Ints  # [room], the sample taken at each step of the way at hand


class FamilyStakes(NamedTuple):
    """How bets for each claim are placed; the first has an aim, the others all of the budget."""

    level: float
    shares: Floats  # [K + 1]
    goals: Floats  # [K + 1]
    least: Floats  # [M, K + 1]
    reference: Floats  # [M, K + 1]
    prior: Floats  # [M, K + 1, 3]
    planned: float
    aims: Ints  # [M]
    budget: int
    discount: float
    together: int


class FamilyFortune(NamedTuple):
    """What the bets for each claim have come to; changed in place."""

    capital: Floats  # [M, K + 1]
    settled: Ints  # [M, K + 1]
    moments: Floats  # [M, K + 1, 2]
    group: Floats  # [M, K + 1]
    counts: Ints  # [M, 6]
    hopeful: Ints  # [3]: claims that are not given up, the first ones; looks, and samples by the last of them


class Books(NamedTuple):
    """The bets for each claim one by one."""

    bets: Floats  # [M, room, K + 1]
    drawn: Ints  # [room]; all that are not settled have as many bets

    def kept(self) -> Books:
        """The lists only grow, and are shared."""
        return self


class FamilyBets(NamedTuple):
    """A proof under way: the middle three change."""

    stakes: FamilyStakes
    fortune: FamilyFortune
    books: Books
    log: Log
    low: Floats  # [K + 1], what values are at least by the ranges alone


class ProvedFamily(NamedTuple):
    """What the walks showed, in scaled units."""

    taken: int | None  # the claim that is proved; None when not even the first is settled
    proved: Proved  # of that claim, or of the first
    before: tuple[Played, ...]  # the bets on those before it, all settled


def walks_of(designs: Sequence[Design]) -> SharedWalks:
    """Of policies, from how each would walk alone."""
    return SharedWalks(
        discount=designs[0].discount,
        starts=max(design.starts for design in designs),
        choice=np.column_stack([design.choice for design in designs]),
        pair_values=np.stack([design.pair_values for design in designs], axis=1),
        state_values=np.stack([design.state_values for design in designs], axis=1),
        floor=np.array([design.floor for design in designs]),
        low=designs[0].low,
    )


def prove_family(
    policies: Sequence[Policy],
    guesses: Sequence[Guess],
    claims: Claims,
    simulator: Simulator,
    level: float,
    alpha: float,
    samples: int,
    draws: Draws,
    aim: int,
) -> ProvedFamily:
    """Bet on walks of all policies, each with a guess of its values, for claims about them, by Theorem 2.

    What is taken is in bounds but for a probability `level`; the bounds hold at once but for `alpha`. All samples are
    noted, for evidence. Where the first claim has no prospects, or is not settled by `aim` samples and will hardly be
    by all, the proof ends.
    """
    designs = [make_design(simulator, *member) for member in zip(policies, guesses, strict=True)]
    discount, number, low = simulator.discount, len(claims.shares), designs[0].low
    together = math.ceil(max(samples * (1.0 - discount), 1.0) / MOST_BETS)
    walks = walks_of(designs)
    share = claims.shares[:, None]
    least, mean, spread = (
        (1.0 - share) * np.array(each)[claims.first] + share * np.array(each)[claims.second]
        for each in (
            [design.least for design in designs],
            [guess.mean for guess in guesses],
            [np.sqrt(guess.variance(discount)) for guess in guesses],  # their walks go together, nearly always
        )
    )
    alone = [
        make_stakes(*expected, alpha, samples // together, discount, level)
        for expected in zip(least, mean, spread**2 / together, strict=True)
    ]
    stakes = FamilyStakes(
        level=level,
        shares=alone[0].shares,
        goals=alone[0].goals,
        least=np.array([own.least for own in alone]),
        reference=np.array([own.reference for own in alone]),
        prior=np.array([own.prior for own in alone]),
        planned=alone[0].planned,
        aims=np.array([aim] + [samples] * (number - 1), dtype=np.int64),
        budget=samples,
        discount=float(discount),
        together=together,
    )
    settled = np.tile((low >= 0.0).astype(np.int64), (number, 1))
    settled[:, 0] = 1
    fortune = FamilyFortune(
        capital=np.ones((number, len(low))),
        settled=settled,
        moments=np.zeros((number, len(low), 2)),
        group=np.zeros((number, len(low))),
        counts=np.zeros((number, 6), dtype=np.int64),
        hopeful=np.array([number, 0, 0], dtype=np.int64),
    )
    room = 2 * math.ceil(stakes.planned) + 100
    with within_memory(samples):
        books = Books(np.empty((number, room, len(low))), np.empty(room, dtype=np.int64))
    bets = FamilyBets(stakes, fortune, books, new_log(simulator, samples), low)

    def advance(bets: FamilyBets, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
        return int(fitted(walk_together, world)(walks, claims, *bets[:4], world, rng, drawn, until))

    def over(bets: FamilyBets) -> bool:
        return bool(np.all(bets.fortune.settled[: bets.fortune.hopeful[0]] == 1))

    return cast(ProvedFamily, draws.series(simulator, bets, advance, samples, ended=over, result=what_family_shows))


def what_family_shows(bets: FamilyBets, drawn: int) -> ProvedFamily:
    """The claim that is taken and its bounds, and the bets for those before it."""
    passed = np.all(bets.fortune.settled == 1, axis=1)
    taken = (len(passed) if passed.all() else int(np.argmin(passed))) - 1
    alone = [
        Bets(
            stakes_of(bets.stakes, claim),
            fortune_of(bets.fortune, claim),
            Book(bets.books.bets[claim], bets.books.drawn),
            bets.log,
            bets.low,
        )
        for claim in range(max(taken, 0) + 1)
    ]
    proved = what_they_show(alone[-1], drawn, len(passed))
    return ProvedFamily(taken if taken >= 0 else None, proved, tuple(map(played, alone[:-1])))


@compiled
def stakes_of(stakes: FamilyStakes, claim: int) -> Stakes:
    """Those of a proof of one claim alone."""
    return Stakes(
        stakes.least[claim],
        stakes.level,
        stakes.shares,
        stakes.goals,
        stakes.reference[claim],
        stakes.prior[claim],
        stakes.planned,
        stakes.aims[claim],
        stakes.budget,
        stakes.discount,
        stakes.together,
        0,
    )


@compiled
def fortune_of(fortune: FamilyFortune, claim: int) -> Fortune:
    """The same of what its bets came to."""
    return Fortune(
        fortune.capital[claim],
        fortune.settled[claim],
        fortune.moments[claim],
        fortune.group[claim],
        fortune.counts[claim],
    )


@compiled
def walk_together(
    walks: SharedWalks,
    claims: Claims,
    stakes: FamilyStakes,
    fortune: FamilyFortune,
    books: Books,
    log: Log,
    world: World,
    rng: np.random.Generator,
    drawn: int,
    until: int,
) -> int:
    """Walk and bet until all are settled or given up, or `until` samples are drawn; never more than the budget."""
    policies, rows = walks.floor.shape
    which, who = np.empty(stakes.least.shape[0], dtype=np.int64), np.empty(policies, dtype=np.int64)
    totals, guessed = np.empty((policies, rows)), np.empty((policies, rows), dtype=np.int64)
    waiting, mixed = np.empty((policies, 4), dtype=np.int64), np.empty(rows)
    stacks = new_stacks(world.states.shape[0], rows)
    while drawn < until:
        number, walking = unsettled(claims, fortune, which, who)
        if number == 0:
            break
        drawn, complete, stacks = draw_family(
            walks, world, rng, log, drawn, stakes.budget, who[:walking], totals, guessed, waiting, stacks
        )
        if not complete:
            continue
        for claim in which[:number]:
            first, second, share = claims.first[claim], claims.second[claim], claims.shares[claim]
            for k in range(rows):
                mixed[k] = (1.0 - share) * totals[first, k] + share * totals[second, k]
            book = Book(books.bets[claim], books.drawn)
            bet_on(stakes_of(stakes, claim), fortune_of(fortune, claim), book, mixed, drawn)
        if fortune.counts[which[number - 1], 1] == 0:
            look_at_family(stakes, fortune)
            if fortune.counts[which[number - 1], 0] == books.drawn.shape[0]:
                fortune.hopeful[0] = 0
    return drawn


@compiled
def unsettled(claims: Claims, fortune: FamilyFortune, which: Ints, who: Ints) -> tuple[int, int]:
    """The claims that are still bet on, into `which`, the policies that walk for them, into `who`; their numbers."""
    number, walking = 0, 0
    who[:] = 0
    for claim in range(fortune.hopeful[0]):
        if not np.all(fortune.settled[claim] == 1):
            which[number] = claim
            number += 1
            who[claims.first[claim]] = who[claims.second[claim]] = 1
    for policy in range(who.shape[0]):
        if who[policy] == 1:
            who[walking] = policy
            walking += 1
    return number, walking


@compiled
def look_at_family(stakes: FamilyStakes, fortune: FamilyFortune) -> None:
    """Between two bets: give up the first claim without prospects, and all after it, ten times on the way.

    And the first of all, hence everything, when it is not settled by its aim and all samples will hardly do.
    """
    drawn, hopeful = np.max(fortune.counts[:, 2]), fortune.hopeful
    left = float(stakes.budget - drawn)
    due = drawn >= stakes.aims[0] > hopeful[2]
    if due or drawn * _LOOKS >= stakes.budget * (hopeful[1] + 1):
        for claim in range(hopeful[0] if left > 0.0 else 0):
            own = fortune_of(fortune, claim)
            if not np.all(own.settled == 1):
                least = GO_ON if due and claim == 0 else _HOPELESS
                if prospects(stakes_of(stakes, claim), own, left) < least:
                    hopeful[0] = claim
                    break
        hopeful[1], hopeful[2] = drawn * _LOOKS // stakes.budget, drawn


@compiled
def new_stacks(pairs: int, rows: int) -> Stacks:
    """With room for a few samples; there will be more."""
    nothing, room = np.full(pairs, -1), 64
    return Stacks(
        nothing,
        nothing.copy(),
        np.empty((room, 3), dtype=np.int64),
        np.empty((room, rows)),
        np.empty((room, 2)),
        np.empty(room, dtype=np.int64),
    )


@compiled
def with_more_room(stacks: Stacks) -> Stacks:
    """The same stacks, and as much room again."""
    return Stacks(
        stacks.top,
        stacks.taken,
        np.concatenate((stacks.samples, stacks.samples)),
        np.concatenate((stacks.seen, stacks.seen)),
        np.concatenate((stacks.clock, stacks.clock)),
        np.concatenate((stacks.way, stacks.way)),
    )


@compiled
def go_back(stacks: Stacks, number: int, step: int) -> None:
    """To `step` of the way at hand: of the `number` samples of the walk only those before it are taken."""
    for sample in range(number):
        stacks.taken[stacks.samples[sample, 0]] = -1
    for before in range(step):
        stacks.taken[stacks.samples[stacks.way[before], 0]] = stacks.way[before]


@compiled
def draw_family(
    walks: SharedWalks,
    world: World,
    rng: np.random.Generator,
    log: Log,
    drawn: int,
    budget: int,
    who: Ints,
    totals: Floats,
    guessed: Ints,
    waiting: Ints,
    stacks: Stacks,
) -> tuple[int, bool, Stacks]:
    """One walk of the policies `who`: their X of every row into `totals`; the samples drawn by then, whether the budget
    sufficed to finish, and the room that was used. `waiting` [P, 4] is room for those whose ways parted from the way
    at hand: they go on from there when it is at its end, those that parted last first.
    """
    gamma, rows, floor, low = walks.discount, totals.shape[1], walks.floor, walks.low
    choice, pair_values, state_values = walks.choice, walks.pair_values, walks.state_values
    state = draw_start(world, rng)
    for member in who:
        for k in range(rows):
            totals[member, k] = state_values[state, member, k]
            guessed[member, k] = 1
    for _ in range(1, walks.starts):
        other = draw_start(world, rng)
        for member in who:
            for k in range(rows):
                totals[member, k] += state_values[other, member, k]
    for member in who:
        for k in range(rows):
            totals[member, k] /= walks.starts
    first, last, parts = 0, who.shape[0], 0  # who goes the way at hand, and how many parts wait
    number, steps, step, complete = 0, 0, 0, True  # samples on all stacks, steps on the clock
    while True:
        if max(number, steps) == stacks.way.shape[0]:
            stacks = with_more_room(stacks)
        top, taken, samples, seen, clock, way = stacks
        if step == steps:
            clock[step, 0] = rng.random()
        u = clock[step, 0]
        begin = pair = world.offsets[state]
        while choice[pair, who[first]] <= u:
            pair += 1
        together = first + 1
        while together < last:  # who has the same action
            if choice[pair, who[together]] <= u or (pair > begin and choice[pair - 1, who[together]] > u):
                break
            together += 1
        if together < last:
            waiting[parts, 0], waiting[parts, 1], waiting[parts, 2], waiting[parts, 3] = step, state, together, last
            parts += 1
        sample = top[pair] if taken[pair] < 0 else samples[taken[pair], 2]
        if sample < 0:
            if drawn >= budget:
                complete = False
                break
            sample, after = number, draw_next(world, pair, rng)
            drawn, number = drawn + 1, number + 1
            record(log, world, pair, after)
            samples[sample, 0], samples[sample, 1], samples[sample, 2] = pair, after, -1
            for k in range(rows):
                seen[sample, k] = observed(world, pair, k)
            if taken[pair] < 0:
                top[pair] = sample
            else:
                samples[taken[pair], 2] = sample
        taken[pair] = way[step] = sample
        after = samples[sample, 1]
        for k in range(rows):
            paid = (1.0 - gamma) * seen[sample, k]
            for place in range(first, together):
                member = who[place]
                if guessed[member, k] == 1:
                    value = state_values[after, member, k]
                    totals[member, k] += paid + gamma * value - pair_values[pair, member, k]
                    if totals[member, k] < floor[member, k]:
                        totals[member, k] += gamma * (low[k] - value)
                        guessed[member, k] = 0
                else:
                    totals[member, k] += paid - (1.0 - gamma) * low[k]
        if step == steps:
            clock[step, 1] = 1.0 if draw_ends(gamma, rng) else 0.0
            steps += 1
        if clock[step, 1] == 0.0:
            state, last, step = after, together, step + 1
        elif parts > 0:
            parts -= 1
            step, state, first, last = waiting[parts, 0], waiting[parts, 1], waiting[parts, 2], waiting[parts, 3]
            go_back(stacks, number, step)
        else:
            break
    go_back(stacks, number, 0)
    for sample in range(number):
        stacks.top[stacks.samples[sample, 0]] = -1
    return drawn, complete, stacks
