"""Proof from samples alone: a gambler who can only grow rich if the policy is in bounds.

Nothing is assumed of the simulator but its declared ranges and that its draws are independent. The samples are walks
of the policy, from which a guess of its values takes most of the noise (`inbounds.proofs.walks` says why their mean is
right whatever the guess); the proof is a bet on each of them (`inbounds.proofs.betting` has the theorem and its proof).
Policy and guess are fixed before the walks that are bet on: the guess is given, or made from a few walks that are spent
on it alone. All of this is in scaled units (rewards in [0, 1], margins in [-1, 1]); results come back in the user's
units. The bets go with the certificate, so that others can go through them again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from inbounds.arrays import Floats, freeze
from inbounds.errors import InvalidInput
from inbounds.inputs import finite_or_nan, float_array, random_seed, shown, whole_number
from inbounds.numerics.compiled import compiled
from inbounds.problem.cmdp import CMDP
from inbounds.problem.criterion import require_criterion
from inbounds.problem.draws import World, fitted
from inbounds.problem.mixture import Mixture, members_of
from inbounds.problem.pieces import Asked, Draws, OutOfTime, Pace, attach, kept, seconds_or_none
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator
from inbounds.proofs.betting import (
    GRID,
    Book,
    Fortune,
    Played,
    Stakes,
    bet_on,
    look,
    make_stakes,
    new_book,
    new_fortune,
    raise_bounds,
    settleable,
    variance_so_far,
)
from inbounds.proofs.certificate import FOR_ALL_BOUNDS, FOR_ALL_MARGINS, Certificate, Wagers
from inbounds.proofs.evidence import Counted, Evidence, Log, counted, new_log
from inbounds.proofs.walks import (
    Guess,
    Walker,
    draw_mixed_walk,
    guess_from_array,
    guess_from_model,
    make_walker,
    walk_for_evidence,
)

_ROUNDING = 1e-12  # of scaled units: so far beyond a range a guess is not moved, but rounded
_PILOT_SHARE = 0.1  # of what the proof is expected to take, to guess the values when no guess is given, but at first
_PILOT_PER_STATE = 100  # walks for each state,
_PILOT_GROWS = 4  # times as many, until they are such a part: what little is seen at first may promise no margin


def certify_by_samples(
    policy: Policy | Mixture,
    simulator: Simulator,
    *,
    confidence: float = 0.99,
    samples: int,
    seed: int | np.random.SeedSequence = 0,
    value: CMDP | Any = None,
    progress: Callable[[int], None] | None = None,
    time_limit: float | None = None,
    resume: Certificate | None = None,
) -> Certificate:
    """Whether a policy is in bounds, and lower bounds that hold all at once, from samples alone, with `confidence`.

    This is `ib.certify` on a simulator, which says what the arguments are. Stops as soon as every margin is proved to
    be >= 0, which is one claim; the bounds are another. Both hold at any stopping time, so peeking is free:
    `inbounds.proofs.betting` says why. Values are in the user's units, normalised by (1 - discount).

    `value` is a guess of the policy's values, fixed before these samples; the better, the fewer samples it takes, but
    *no guess, however wrong, makes the certificate wrong*. A model, in the user's units, on which the policy is
    evaluated; or the value of each pair [K + 1, n]: the reward's first, then the margins', normalised. What is beyond
    the declared ranges, where no value can be, is moved to their ends. By default an empirical model is made of walks
    of the policy: for a tenth of the samples that the proof will probably take, and of those given at most; 100 walks a
    state at first. `progress` is called with
    the samples drawn so far, about four times a second. After `time_limit` seconds the bounds so far come back, which
    hold like any others; they are also the `partial` of an exception, and `resume` goes on from either.
    """
    if not isinstance(simulator, Simulator):
        raise InvalidInput(f"simulator must be an ib.Simulator, found {type(simulator).__name__}")
    require_criterion(simulator, "discounted", "certify")
    members, simulator = _drawn_members(simulator, policy), simulator.scaled  # whatever learners see
    judged = members if isinstance(policy, Mixture) else members.policies[0]
    alpha = 1.0 - valid_confidence(confidence)
    budget, seed = whole_number(samples, "samples"), random_seed(seed)
    given = None if value is None else [_given_guess(value, member, simulator) for member in members.policies]
    guesses, note = (None, "") if given is None else ([guess for guess, _ in given], given[0][1])
    fixed = [members.weights, *(member.probabilities for member in members.policies), *chain(*guesses or ())]
    asked = Asked(simulator, None, (budget, confidence, b"".join(array.tobytes() for array in fixed)), seed)
    paused = None if resume is None else asked.require_same(resume, Certificate)
    draws = Draws(seed, Pace(seconds_or_none(time_limit), progress), asked, paused)
    try:
        if guesses is None:
            evidence, most = Evidence(simulator), int(_PILOT_SHARE * budget)
            evidence.add_starts(draws, max(1000, 10 * simulator.pairs.n_states))
            first = math.ceil(_PILOT_PER_STATE * simulator.pairs.n_states / (1.0 - simulator.discount))
            spent = min(first, most)
            walker = _piloted(members, evidence, spent, draws)
            # What hardly ever happens is not seen at first; who has little margin, and long to prove it, looks longer.
            while (enough := int(min(_PILOT_SHARE * _samples_needed(walker, alpha, simulator), most))) > spent:
                more = min(enough, _PILOT_GROWS * spent) - spent
                walker, spent = _piloted(members, evidence, more, draws), spent + more
        else:
            walker = make_walker(simulator, members.weights, members.policies, guesses)
        proved = prove_walks(walker, simulator, alpha, budget - draws.passed_samples, draws)
        return replace(as_certificate(proved, simulator, confidence, draws.samples, judged), note=note)
    except OutOfTime:
        return replace(so_far(draws, simulator, confidence, judged), note=note)
    except BaseException as error:
        attach(error, replace(so_far(draws, simulator, confidence, judged), note=note))
        raise


def _piloted(members: Mixture, evidence: Evidence, samples: int, draws: Draws) -> Walker:
    """How to walk with guesses from the model of the evidence, with so many more samples of walks of the policies."""
    for share, member in zip(members.weights, members.policies, strict=True):
        walk_for_evidence(member, evidence, int(share * samples), draws)
    model, noise = evidence.model(), evidence.signal_variance
    guesses = [guess_from_model(model, member, noise) for member in members.policies]
    return make_walker(evidence.simulator, members.weights, members.policies, guesses)


def _samples_needed(walker: Walker, level: float, simulator: Simulator) -> float:
    """About how many samples a proof of all margins takes, if the guess is right; infinite if it says there is none."""
    rows = 1 + np.flatnonzero(walker.designs[0].low[1:] < 0.0)
    if np.any(walker.mean[rows] <= 0.0):
        return math.inf
    walks = 1.0
    while np.any(settleable(level, -walker.least, walker.variance, walks)[rows] > walker.mean[rows]):
        walks *= 1.25
    return walks / (1.0 - simulator.discount)


def _drawn_members(simulator: Simulator, policy: Policy | Mixture) -> Mixture:
    """As a mixture of those policies that are ever drawn, as those of the simulator."""
    weights, policies = members_of(simulator, policy)
    drawn = np.flatnonzero(weights > 0.0)
    return Mixture(weights[drawn], tuple(policies[member] for member in drawn))


class Bets(NamedTuple):
    """A proof under way: how it bets, what that came to, the bets and the samples drawn; all but the first change."""

    stakes: Stakes
    fortune: Fortune
    book: Book
    log: Log
    low: Floats  # [K + 1], what values are at least by the ranges alone


@dataclass(frozen=True)
class Proved:
    """What one series of walks showed, in scaled units: lower bounds [K + 1], reward first, and the walks' means."""

    bounds: Floats
    means: Floats
    samples: int
    in_bounds: bool
    seen: Counted  # the samples, if a log had room for them
    variances: Floats  # [K + 1], of a bet, as expected and seen
    raised: npt.NDArray[np.bool_]  # [K + 1], where the bound is 0 because all margins are proved to be in bounds
    bets: Played | None = None


def prove_walks(
    walker: Walker,
    simulator: Simulator,
    alpha: float,
    samples: int,
    draws: Draws,
    room: int = 0,
    *,
    level: float | None = None,
    aim: int | None = None,
) -> Proved:
    """Whether what walks is in bounds but for a probability `level`, and lower bounds at once but for `alpha`.

    Given everything that happened before, that is. The first `room` of the samples are noted, for evidence. With an
    `aim` bets are placed so as to be settled by so many samples; the proof is given up where there is no hope, and
    goes on to all of `samples` where there is. Without one, `samples` is the aim, and a proof may come sooner.
    """
    stakes = make_stakes(
        walker.least, walker.mean, walker.variance, alpha, samples, simulator.discount, level, aim, hurry=aim is None
    )
    low = walker.designs[0].low
    bets = Bets(stakes, new_fortune(low), new_book(stakes), new_log(simulator, room), low)

    def advance(bets: Bets, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
        return int(fitted(walk_and_bet, world)(walker, *bets[:4], world, rng, drawn, until))

    def over(bets: Bets) -> bool:
        settled = simulator.n_constraints > 0 and bool(np.all(bets.fortune.settled == 1))
        return settled or bool(bets.fortune.counts[4] == 1)

    return cast(Proved, draws.series(simulator, bets, advance, samples, ended=over, result=what_they_show))


def prove(policy: Policy, simulator: Simulator, guess: Guess, *arguments: Any, **options: Any) -> Proved:
    """The same of one policy, with a guess of its values."""
    return prove_walks(make_walker(simulator, np.ones(1), [policy], [guess]), simulator, *arguments, **options)


def what_they_show(bets: Bets, drawn: int, among: int = 1) -> Proved:
    """The bounds that bets have come to, which may be looked at, and the samples counted.

    They hold at once with those of as many other policies as there are, `among` so many.
    """
    stakes, fortune, bounds, over = bets.stakes, bets.fortune, bets.low.copy(), played(bets)
    number = len(over.book.drawn)
    raise_bounds(stakes._replace(shares=stakes.shares / among), over.book, number, bounds)
    in_bounds = bool(np.all(fortune.settled == 1))
    raised = in_bounds * (bounds < 0.0)
    raised[0] = False
    bounds[raised] = 0.0
    # What is not settled is not stated to be >= 0 by the other bets either: that would be to be in bounds, once more.
    bounds[fortune.settled == 0] = np.minimum(bounds[fortune.settled == 0], -GRID)
    return Proved(
        bounds=freeze(bounds),
        means=freeze(fortune.moments[:, 0].copy()),
        samples=drawn,
        in_bounds=in_bounds,
        seen=counted(bets.log),
        variances=freeze(
            np.array([variance_so_far(stakes, k, fortune.moments[k, 1], number) for k in range(len(bounds))])
        ),
        raised=freeze(raised),
        bets=over,
    )


def played(bets: Bets) -> Played:
    """Those so far, which nothing changes any more."""
    book = Book(*(freeze(array[: bets.fortune.counts[0]].copy()) for array in bets.book))
    return Played(bets.stakes, book, bets.low, freeze(bets.fortune.capital.copy()))


def so_far(
    draws: Draws,
    simulator: Simulator,
    confidence: float,
    policy: Policy | Mixture,
    earlier: tuple[Played, ...] = (),
    staked: float = 1.0,
    bankroll: float = 1.0,
) -> Certificate:
    """What is proved when a proof is broken off: the bounds of its bets, before any bet those of the ranges."""
    begun = draws.paused.begun
    if begun is not None and isinstance(begun.state, Bets):
        proved = what_they_show(kept(begun.state), begun.drawn)
    else:
        bounds = np.concatenate([[0.0], np.minimum(simulator.margin_ranges[:, 0], 0.0)])
        empty = counted(new_log(simulator, 0))
        unknown = freeze(np.full(len(bounds), np.nan))
        none = freeze(np.zeros(len(bounds), dtype=np.bool_))
        proved = Proved(freeze(bounds), unknown, 0, bool(np.all(bounds[1:] >= 0.0)), empty, unknown, none)
    made = as_certificate(proved, simulator, confidence, draws.samples, policy, earlier, staked, bankroll)
    return replace(made, paused=draws.paused)


@compiled
def walk_and_bet(
    walker: Walker,
    stakes: Stakes,
    fortune: Fortune,
    book: Book,
    log: Log,
    world: World,
    rng: np.random.Generator,
    drawn: int,
    until: int,
) -> int:
    """Walk and bet until all is settled or given up, or `until` samples are drawn; never more than the budget."""
    rows = stakes.least.shape[0]
    totals, guessed = np.empty(rows), np.empty(rows, dtype=np.int64)
    while drawn < until:
        drawn, complete = draw_mixed_walk(walker, world, rng, log, drawn, stakes.budget, totals, guessed)
        if complete:
            if bet_on(stakes, fortune, book, totals, drawn):
                break
            if fortune.counts[1] == 0:
                if stakes.hurry == 0:
                    look(stakes, fortune)
                if fortune.counts[0] == book.drawn.shape[0]:
                    fortune.counts[4] = 1
                if fortune.counts[4] == 1:
                    break
    return drawn


def as_certificate(
    proved: Proved,
    simulator: Simulator,
    confidence: float,
    samples: int,
    policy: Policy | Mixture,
    earlier: tuple[Played, ...] = (),
    staked: float = 1.0,
    bankroll: float = 1.0,
) -> Certificate:
    """In the user's units; with the bets, after those of `earlier` attempts, each with `staked` of the bankroll."""
    scaling, wagers = simulator.scaling, None
    if proved.bets is not None:
        attempts = (*earlier, proved.bets)
        wagers = wagers_on(policy, simulator, proved.bounds, attempts, staked=staked, bankroll=bankroll)
    margins = proved.bounds[1:] * scaling.margin_scales
    for k, (constraint, limits) in enumerate(zip(simulator.constraints, simulator.signal_ranges, strict=True)):
        if margins[k] < 0.0 and proved.bounds[1 + k] <= simulator.margin_ranges[k, 0]:  # what the range alone says
            margins[k] = min(map(constraint.margin, limits))  # scaled and back, it might be rounded up
    claimed = (FOR_ALL_MARGINS if zero else FOR_ALL_BOUNDS for zero in proved.raised[1:])
    return Certificate(
        in_bounds=proved.in_bounds,
        kind="confidence",
        constraints=simulator.constraints,
        margins_lower=freeze(margins),
        methods=tuple(claimed),
        reward_lower=float(scaling.reward_low + scaling.reward_span * proved.bounds[0]),
        confidence=float(confidence),
        samples=samples,
        wagers=wagers,
    )


def wagers_on(
    policy: Policy | Mixture, simulator: Simulator, bounds: Floats, attempts: tuple[Played, ...], **options: Any
) -> Wagers:
    """The bets on a policy or a mixture, and what they are about."""
    mixed, scaling = isinstance(policy, Mixture), simulator.scaling
    members = policy.policies if isinstance(policy, Mixture) else (policy,)
    probabilities = np.array([member.probabilities for member in members])
    return Wagers(
        discount=float(simulator.discount),
        probabilities=freeze(probabilities if mixed else probabilities[0]),
        weights=policy.weights if isinstance(policy, Mixture) else None,
        reward_range=(scaling.reward_low, scaling.reward_span),
        signal_ranges=simulator.signal_ranges,
        margin_scales=scaling.margin_scales,
        bounds=bounds,
        attempts=attempts,
        **options,
    )


def _given_guess(value: Any, policy: Policy, simulator: Simulator) -> tuple[Guess, str]:
    """From what the user gave as `value`, in the user's units; and what was moved, in words."""
    scaling, pairs, rows = simulator.scaling, simulator.pairs, 1 + simulator.n_constraints
    if isinstance(value, CMDP):
        same = np.array_equal(value.offsets, pairs.offsets) and value.n_constraints == simulator.n_constraints
        if not same or value.criterion != simulator.criterion:
            raise InvalidInput(f"value must be a model of the same problem ({simulator!r}), found {value!r}")
        model = scaling.model(value)
        moved = _within_ranges(model)
        pairs_of = zip((moved.reward, *moved.margins), (model.reward, *model.margins), strict=True)
        beyond = sum(int(np.sum(np.abs(inside - given) > _ROUNDING)) for inside, given in pairs_of)
        return guess_from_model(moved, policy), _moved_in_words(beyond)
    array = float_array(value, "value, where it is no CMDP,").copy()
    if array.shape != (rows, pairs.n_pairs) or not np.all(np.isfinite(array)):
        raise InvalidInput(
            f"value must be a CMDP or finite numbers of shape [K + 1, n] = ({rows}, {pairs.n_pairs}), "
            f"the reward first, found shape {array.shape}"
        )
    with np.errstate(over="ignore"):  # what is beyond the ranges is cut
        array[0] = (array[0] - scaling.reward_low) / scaling.reward_span
        array[1:] /= scaling.margin_scales[:, None]
    inside = np.clip(array, np.where(np.arange(rows) == 0, 0.0, -1.0)[:, None], 1.0)
    beyond = int(np.sum(np.abs(inside - array) > _ROUNDING))
    return guess_from_array(np.ascontiguousarray(inside.T), policy), _moved_in_words(beyond)


def _moved_in_words(beyond: int) -> str:
    return f"value= is beyond the declared ranges in {beyond:,} places, and was moved to their ends" if beyond else ""


def _within_ranges(model: CMDP) -> CMDP:
    """A model in scaled units with every reward in [0, 1] and every margin in [-1, 1].

    No value lies beyond. A guess that does would be harmless, but it would save less, and rounding grows with it.
    """
    return model.asking(
        reward=freeze(np.clip(model.reward, 0.0, 1.0)),
        constraints=[replace(c, signal=freeze(np.clip(c.signal, -1.0, 1.0))) for c in model.constraints],
    )


def valid_confidence(confidence: Any) -> float:
    """A probability, but neither 0 nor 1."""
    number = finite_or_nan(confidence)
    if not 0.0 < number < 1.0:
        raise InvalidInput(
            f"confidence must be a probability between 0 and 1, such as 0.99, found {shown(confidence)}; "
            f"no number of samples makes anything certain"
        )
    return number
