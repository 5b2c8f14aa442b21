"""Which share of a safe policy makes a bold one provably in bounds: bets on blocks of walks that serve all shares.

Two policies are fixed, bold and safe, and for every share t in [0, 1] the mixture that draws the safe one with
probability t at the start of an episode; its margins are (1 - t) J_b + t J_s. Walks of both are drawn in *blocks* of
r = 4 bold ones, X_1 ... X_r, and a safe one, Y (`inbounds.proofs.walks`: X_i >= least_b, E[X_i] <= J_b, and the same of
Y). Against "the margin of the mixture is <= 0" the capital W = 1 is multiplied, once for each block, by

    (1 + b (1 - t) X_1) ... (1 + b (1 - t) X_r) (1 + b r t Y),         b (1 - t) (-least_b) < 1,   b r t (-least_s) < 1.

**Theorem 1.** If (1 - t) J_b + t J_s <= 0, then W ever reaches 1 / level at the end of a block with probability at most
`level`, whatever the stakes b >= 0, each chosen before its block. *Proof.* All factors are positive. Given what
happened before the block the walks in it are independent, so the mean of the product is at most

    (1 + b (1 - t) J_b)^r (1 + b r t J_s)  <=  exp(b r ((1 - t) J_b + t J_s))  <=  1.

So W, at the ends of blocks, is a nonnegative supermartingale, and Ville's inequality is the claim. (Within a block W is
not looked at: there its mean may be above 1.) As in `inbounds.proofs.betting` each margin has the full level: if the
mixture is out of bounds, one margin is <= 0, and for that one to be settled has probability at most `level`.

**Theorem 2.** Fix an order of shares t_1, t_2, ... before the walks, test them all with the same walks, each at the
full level, and take the last one before the first that fails. A mixture that is out of bounds is taken with probability
at most `level`. *Proof.* Let t_i be the first in the order whose mixture is out of bounds; which one that is does not
depend on the walks. If a mixture out of bounds is taken, it is t_i or a later one, so t_i was settled: by Theorem 1
this has probability at most `level` (fixed-sequence testing). Nothing is paid for the search: the order begins where
the proof is easiest, and goes on towards t = 0, where the reward is largest.

What is fixed before the first walk: both policies, their guesses and floors, r, the order, the level. Stakes may use
all blocks before, and are those of a deadline, with the variance r (1 - t)^2 s2_b + (r t)^2 s2_s of a block and the
blocks left for tau (`inbounds.proofs.betting`). Rounding is as there; beyond 2^18 walks, a bet is the mean of several.

**Bounds, at once.** Lower bounds of J_b and J_s of all rows, all at once with probability 1 - alpha (each policy has
half of alpha), hold at once for the mixtures of all shares, hence for the one that was taken: that is what a
certificate states beside "in bounds".

References: W. Maurer, L. Hothorn and W. Lehmacher, Multiple comparisons in drug clinical trials and preclinical assays:
a-priori ordered hypotheses, in: Biometrie in der chemisch-pharmazeutischen Industrie 6 (1995); and those of betting.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
from scipy.special import ndtri

from inbounds.arrays import Floats, Ints, freeze
from inbounds.numerics.compiled import compiled
from inbounds.problem.draws import World, fitted
from inbounds.problem.pieces import Draws
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator
from inbounds.proofs.betting import (
    CAPITAL_ROUNDING,
    GIVE_UP,
    GRID,
    LARGEST_STAKE,
    LOOKS,
    MOST_BETS,
    OVERSHOOT,
    RUINED,
    BlockRules,
    Book,
    Played,
    Stakes,
    boldness,
    make_stakes,
    normal_quantile,
    raise_bounds,
)
from inbounds.proofs.evidence import Counted, Log, counted, new_log
from inbounds.proofs.walks import Design, Guess, draw_walk, make_design

BOLD_WALKS = 4  # of a block, beside one of the safe policy


class BlockStakes(NamedTuple):
    """How bets are placed: all that is fixed before the first walk."""

    level: float
    order: Floats  # [M], shares of the safe policy
    least: Floats  # [2, K + 1], no bet is below; of the bold policy and of the safe one, as always here
    variance: Floats  # [2, K + 1], expected of a bet
    trust: Floats  # [2, K + 1], how many bets that is trusted like
    discount: float
    together: int  # walks whose mean is one bet
    aim: int  # samples by which the first share should be settled, or the proof ends
    budget: int  # samples that it may draw once that is so


class BlockFortune(NamedTuple):
    """Everything that the blocks so far have come to; changed in place."""

    capital: Floats  # [M, K + 1]; of row 0, which nothing is claimed of, 1
    settled: Ints  # [M, K + 1]
    moments: Floats  # [2, K + 1, 2], mean and sum of squared deviations of the bets
    block: Floats  # [r + 1, K + 1], sums of the walks of the block at hand; the safe ones last
    spent: Ints  # [r + 1], samples of the same
    counts: Ints  # [5]: blocks, walks of the block at hand, samples by the last block, looks, 1 if given up


class Blocks(NamedTuple):
    """The bets one by one."""

    bold: Floats  # [room, r, K + 1]
    safe: Floats  # [room, K + 1]
    drawn: Ints  # [room, r + 1], the samples of each

    def kept(self) -> Blocks:
        """The lists only grow, and are shared."""
        return self


class BlockBets(NamedTuple):
    """A proof under way: the middle three change."""

    stakes: BlockStakes
    fortune: BlockFortune
    blocks: Blocks
    log: Log
    of_policies: tuple[Stakes, ...]  # of the bounds of either policy
    low: Floats  # [K + 1], what values are at least by the ranges alone


class ProvedShare(NamedTuple):
    """What the blocks showed, in scaled units; rows are the reward and the margins."""

    share: float | None  # of the safe policy in the mixture that is in bounds; None when none is settled
    bounds: Floats  # [2, K + 1], lower bounds of the values of both policies, at once
    means: Floats  # [2, K + 1], of the walks
    samples: int
    seen: Counted
    bets: tuple[Played, ...]  # on the bold policy and on the safe one
    rules: BlockRules


def settleable_share(
    share: float, level: float, least: Floats, variance: Floats, walks: float
) -> tuple[Floats, Floats]:
    """Of a mixture, for so many walks in blocks: the margin that about half of all proofs settle, and its variance.

    `least` and `variance` [2, K + 1] are of walks; the results, [K + 1], are for the mean over all blocks.
    """
    blocks, r, goal = walks / (BOLD_WALKS + 1.0), BOLD_WALKS, -math.log(level)
    of_mean = ((1.0 - share) ** 2 * variance[0] / r + share**2 * variance[1]) / blocks
    at_risk = np.maximum((1.0 - share) * -least[0] / r, share * -least[1])
    width = -ndtri(level) * np.sqrt(of_mean) + goal * at_risk / (3.0 * blocks)
    return np.maximum(width, goal * at_risk / (LARGEST_STAKE * blocks)), of_mean


def prove_share(
    policies: Sequence[Policy],
    guesses: Sequence[Guess],
    order: Floats,
    simulator: Simulator,
    level: float,
    alpha: float,
    samples: int,
    draws: Draws,
    aim: int,
) -> ProvedShare:
    """Bet on blocks of walks of a bold and a safe policy, for all shares in their `order`, by Theorem 2.

    Of each there is a guess of its values. What is taken is in bounds but for a probability `level`; the bounds hold at
    once but for `alpha`. All samples are noted, for evidence. Where the first share is not settled by `aim` samples,
    the proof ends; otherwise it goes on with the rest of them.
    """
    rows, discount = 1 + simulator.n_constraints, simulator.discount
    bold, safe = (make_design(simulator, *member) for member in zip(policies, guesses, strict=True))
    walks = max(samples * (1.0 - discount), 1.0)
    together = math.ceil(walks / MOST_BETS)
    of_policies = []
    for design, guess, part in zip((bold, safe), guesses, (BOLD_WALKS, 1), strict=True):
        as_samples = math.ceil(part / (BOLD_WALKS + 1) * samples / together)  # if each bet were a walk
        variance = guess.variance(discount) / together
        own = make_stakes(design.least, guess.mean, variance, 0.5 * alpha, as_samples, discount, level)
        of_policies.append(own._replace(together=together, aim=aim, budget=samples))
    stakes = BlockStakes(
        level=level,
        order=order,
        least=np.array([own.least for own in of_policies]),
        variance=np.array([own.prior[:, 1] for own in of_policies]),
        trust=np.array([own.prior[:, 2] for own in of_policies]),
        discount=discount,
        together=together,
        aim=aim,
        budget=samples,
    )
    settled = np.zeros((len(order), rows), dtype=np.int64)
    settled[:, bold.low >= 0.0] = 1
    settled[:, 0] = 1
    fortune = BlockFortune(
        capital=np.ones((len(order), rows)),
        settled=settled,
        moments=np.zeros((2, rows, 2)),
        block=np.zeros((BOLD_WALKS + 1, rows)),
        spent=np.zeros(BOLD_WALKS + 1, dtype=np.int64),
        counts=np.zeros(5, dtype=np.int64),
    )
    room = 2 * math.ceil(walks / together / (BOLD_WALKS + 1)) + 100  # twice what is expected
    blocks = Blocks(
        np.empty((room, BOLD_WALKS, rows)), np.empty((room, rows)), np.empty((room, BOLD_WALKS + 1), dtype=np.int64)
    )
    bets = BlockBets(stakes, fortune, blocks, new_log(simulator, samples), tuple(of_policies), bold.low)

    def advance(bets: BlockBets, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
        return int(fitted(walk_in_blocks, world)(bold, safe, *bets[:4], world, rng, drawn, until))

    def over(bets: BlockBets) -> bool:
        return bool(np.all(bets.fortune.settled == 1)) or bool(bets.fortune.counts[4] == 1)

    return cast(ProvedShare, draws.series(simulator, bets, advance, samples, ended=over, result=what_blocks_show))


def what_blocks_show(bets: BlockBets, drawn: int) -> ProvedShare:
    """The share that is taken, and the bounds of both policies."""
    stakes, fortune, number = bets.stakes, bets.fortune, int(bets.fortune.counts[0])
    passed = np.all(fortune.settled == 1, axis=1)
    count = len(passed) if passed.all() else int(np.argmin(passed))
    spent, listed = bets.blocks.drawn[:number], (bets.blocks.bold, bets.blocks.safe)
    bounds, bets_on = np.array([bets.low, bets.low]), []
    for policy, drawn_by in enumerate((spent[:, :BOLD_WALKS], spent[:, BOLD_WALKS:])):
        taken = freeze(np.ascontiguousarray(listed[policy][:number].reshape(-1, len(bets.low))))
        book, nothing = Book(taken, freeze(np.cumsum(drawn_by))), freeze(np.ones(len(bets.low)))
        played = Played(bets.of_policies[policy], book, bets.low, nothing)
        raise_bounds(played.stakes, played.book, len(taken), bounds[policy])
        bets_on.append(played)
    return ProvedShare(
        share=float(stakes.order[count - 1]) if count else None,
        bounds=freeze(bounds),
        means=freeze(fortune.moments[:, :, 0].copy()),
        samples=drawn,
        seen=counted(bets.log),
        bets=tuple(bets_on),
        rules=BlockRules(
            order=freeze(stakes.order.copy()),
            bounds=freeze(bounds),
            capitals=freeze(fortune.capital[: max(count, 1), 1:].copy()),
        ),
    )


@compiled
def walk_in_blocks(
    bold: Design,
    safe: Design,
    stakes: BlockStakes,
    fortune: BlockFortune,
    blocks: Blocks,
    log: Log,
    world: World,
    rng: np.random.Generator,
    drawn: int,
    until: int,
) -> int:
    """Walk and bet until all is settled or given up, or `until` samples are drawn; never more than the budget."""
    rows, counts, together = stakes.least.shape[1], fortune.counts, stakes.together
    totals, active = np.empty(rows), np.empty(rows, dtype=np.int64)
    while drawn < until:
        place = counts[1] // together
        design = bold if place < BOLD_WALKS else safe
        before = drawn
        drawn, complete = draw_walk(design, world, rng, log, drawn, stakes.budget, totals, active)
        if complete:
            fortune.spent[place] += drawn - before
            for k in range(rows):
                fortune.block[place, k] += totals[k]
            counts[1] += 1
            if counts[1] == (BOLD_WALKS + 1) * together:
                if bet_on_block(stakes, fortune, blocks, drawn):
                    break
                look_at_blocks(stakes, fortune)
                if counts[0] == blocks.safe.shape[0]:
                    counts[4] = 1
                if counts[4] == 1:
                    break
    return drawn


@compiled
def deadline(stakes: BlockStakes, fortune: BlockFortune) -> int:
    """In samples: that of the first share, until it is settled."""
    for k in range(fortune.settled.shape[1]):
        if fortune.settled[0, k] == 0:
            return stakes.aim
    return stakes.budget


@compiled
def blocks_left(stakes: BlockStakes, fortune: BlockFortune) -> float:
    """Until the deadline, as it is expected."""
    left = (deadline(stakes, fortune) - fortune.counts[2]) * (1.0 - stakes.discount)
    return left / ((BOLD_WALKS + 1.0) * stakes.together)


@compiled
def variance_of_bets(stakes: BlockStakes, fortune: BlockFortune, policy: int, k: int) -> float:
    """Of a bet on one policy: what was expected, and what was seen."""
    bets = fortune.counts[0] * (BOLD_WALKS if policy == 0 else 1)
    trust = stakes.trust[policy, k]
    return (trust * stakes.variance[policy, k] + fortune.moments[policy, k, 1]) / (trust + bets)


@compiled
def variance_of_block(share: float, bold: float, safe: float) -> float:
    """Of what the stake of a block is multiplied with, from those of bets on either policy."""
    of_bold, of_safe = 1.0 - share, BOLD_WALKS * share
    return BOLD_WALKS * (of_bold * of_bold) * bold + (of_safe * of_safe) * safe


@compiled
def bet_on_block(stakes: BlockStakes, fortune: BlockFortune, blocks: Blocks, drawn: int) -> bool:
    """Bet on the block at hand, which ended with sample `drawn`, for every share; whether all are settled."""
    rows, counts, r = stakes.least.shape[1], fortune.counts, BOLD_WALKS
    number = counts[0]
    for k in range(rows):
        for j in range(r):
            blocks.bold[number, j, k] = np.floor(fortune.block[j, k] / stakes.together / GRID) * GRID
        blocks.safe[number, k] = np.floor(fortune.block[r, k] / stakes.together / GRID) * GRID
    tau = max(blocks_left(stakes, fortune), 1.0)
    all_settled = True
    for k in range(1, rows):
        bold, safe = variance_of_bets(stakes, fortune, 0, k), variance_of_bets(stakes, fortune, 1, k)
        for m in range(stakes.order.shape[0]):
            if fortune.settled[m, k] == 1:
                continue
            if fortune.capital[m, k] < RUINED:
                all_settled = False
                continue
            of_bold, of_safe = 1.0 - stakes.order[m], r * stakes.order[m]
            at_risk = max(-of_bold * stakes.least[0, k], -of_safe * stakes.least[1, k])
            spread = math.sqrt(tau * variance_of_block(stakes.order[m], bold, safe))
            stake = min(boldness(fortune.capital[m, k] * stakes.level / OVERSHOOT) / spread, LARGEST_STAKE / at_risk)
            factor = 1.0 + stake * of_safe * blocks.safe[number, k]
            for j in range(r):
                factor *= 1.0 + stake * of_bold * blocks.bold[number, j, k]
            fortune.capital[m, k] *= factor
            if fortune.capital[m, k] * stakes.level >= 1.0 + CAPITAL_ROUNDING:
                fortune.settled[m, k] = 1
            else:
                all_settled = False
    for k in range(rows):
        for j in range(r + 1):
            policy = 0 if j < r else 1
            x = blocks.bold[number, j, k] if j < r else blocks.safe[number, k]
            before = r * number + j if j < r else number
            change = x - fortune.moments[policy, k, 0]
            fortune.moments[policy, k, 0] += change / (before + 1.0)
            fortune.moments[policy, k, 1] += change * (x - fortune.moments[policy, k, 0])
            fortune.block[j, k] = 0.0
    for j in range(r + 1):
        blocks.drawn[number, j] = fortune.spent[j]
        fortune.spent[j] = 0
    counts[0], counts[1], counts[2] = number + 1, 0, drawn
    return all_settled


@compiled
def look_at_blocks(stakes: BlockStakes, fortune: BlockFortune) -> None:
    """Between two blocks: end at the deadline; ten times until then, give up where the first share has no prospects.

    As `prospects` of bets on single walks has it; the least of all rows counts.
    """
    counts, share, tau = fortune.counts, stakes.order[0], blocks_left(stakes, fortune)
    if tau <= 0.0:
        counts[4] = 1
    if tau <= 0.0 or counts[2] * LOOKS < stakes.aim * (counts[3] + 1):
        return
    counts[3] = counts[2] * LOOKS // stakes.aim
    for k in range(1, stakes.least.shape[1]):
        if fortune.settled[0, k] == 0:
            p = min(fortune.capital[0, k] * stakes.level / OVERSHOOT, 1.0)
            bold, safe = variance_of_bets(stakes, fortune, 0, k), variance_of_bets(stakes, fortune, 1, k)
            spread = math.sqrt(tau * variance_of_block(share, bold, safe))
            most = LARGEST_STAKE / max((share - 1.0) * stakes.least[0, k], -BOLD_WALKS * share * stakes.least[1, k])
            gain = BOLD_WALKS * ((1.0 - share) * fortune.moments[0, k, 0] + share * fortune.moments[1, k, 0])
            expected = min(normal_quantile(p), math.log(max(p, 1e-300)) / (most * spread)) + gain * tau / spread
            if 0.5 * math.erfc(-expected / math.sqrt(2.0 * (1.0 + tau / counts[0]))) < GIVE_UP:
                counts[4] = 1
