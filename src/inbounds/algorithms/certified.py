"""Learning that returns only what it can prove.

    explore     try every pair equally often, then three times: solve the empirical model, and try what matters most
                and is known least
    several     policies of the empirical model, or mixtures of two, from a safe one to ever bolder ones
    proof       bet on fresh walks that serve all of them (`inbounds.proofs.families`), and return the boldest that is
                proved, with all that are safer

    or else, where the model does not expect that of the safest, or it failed:
    candidate   the best policy of the empirical model whose margins all reach kappa
    proof       bet on fresh walks of the candidate (`inbounds.proofs.samples`); it is proved if every margin is settled
    or else     add the walks of the failed proof to the evidence, ask for more margin, and try again

Where exploration's samples go is in `inbounds.algorithms.exploring`, how much margin is asked for, and which policies
are tried at once or mixed, in `inbounds.algorithms.conservative`; what is here is the theorem, and who does what when.

**Theorem.** With probability at least 1 - alpha no policy that is out of bounds is returned, whatever the learner did.
What is assumed is that draws are independent, and that rewards and signals stay in their
declared ranges.

*Several at once, then one by one.* Given the exploration, which fixes the policies, their order and whether they are
tried at all: if they are not, what follows is as below, with a bankroll that begins with 1. If they are, they have the
level .9 alpha, at which one that is out of bounds is taken with at most that probability (Theorem 2 of
`inbounds.proofs.families`). The single candidates that follow a failure are made of what is known by then, and have
walks of their own and a bankroll that begins with .1: given all before, one that is out of bounds is returned with
probability at most .1 alpha. The two add up to alpha.

*Attempts are a bankroll.* B_1 is 1, or .1. Candidate j, the guess of its values and its level s alpha B_j, s = .85, are
fixed before the walks of its proof are drawn. With the capitals W_k of the margins at its end,

    B_{j+1} = B_j ((1 - s) + s min(1, min_k W_k)).

*Proof.* If candidate j is out of bounds, let k be one of its margins that are <= 0, and W its capital, as it moves from
walk to walk (`inbounds.proofs.betting`): given everything before the attempt, a nonnegative supermartingale that begins
at 1, because the candidate was fixed before. So is M, B_1 times the product over all attempts of (1 - s) + s W, with
factor 1 where a candidate is in bounds: what was decided between two attempts decides which factor comes next, never
its mean. B_j <= M at the start of attempt j, for each factor of B is at most that of M. To prove a candidate that is
out of bounds, at attempt j, takes W >= 1 / (s alpha B_j), hence M >= B_j s W >= 1 / alpha. By Ville's inequality M,
which begins at B_1, ever gets there with probability at most alpha B_1. (An attempt that another follows ends between
two walks, so that nothing depends on a walk that was cut.) Nothing was assumed of how a candidate was found: a bad
learner costs reward, or returns nothing, but never safety.

*The bounds* of the reward and the margins, each a statement of its own beside that of being in bounds, hold at once but
for alpha, those of all attempts together: of several at once .9 alpha, and of the candidate that follows j failed ones
s (1 - s)^j alpha B_1, which add up to no more.

*What may adapt to what.* Fixed before the first walk of a proof: policy, guess, floor, least value, level. From walk to
walk: stakes, variances, the deadline, when to give up. Whenever one likes: the next candidate, its guess, where to
explore, kappa, the bias; they decide how much reward is lost, not whether the proof holds.

**A proof of one** aims at .8 of the samples left. It is given up as soon as, at a tenth of the way, all samples left
would settle it with a probability below .25; when the aim is reached it goes on to all that is left if that is .7.

**How many samples would probably do.** When nothing was proved, take the last attempt: with F times the samples its
walks would be F times as many, and .8 of them count: the aim. The margin to be had is that which the empirical model
says some policy keeps in every constraint at once (its Slater constant), if a later candidate can be more careful, as
those of the model and of presets that test themselves are; or, if it is more, or if no candidate will be, the mean of
the walks; either less a standard error, for it was looked for. The least F >= 2 for which w
and 2 standard errors, of the walks and of the model, are no more than that is named, times the samples given. Where the
margin is not above zero, no number is: as far as the samples show, there may be none to prove.

**A mixture instead** (``mixture=True``): the same, with mixtures of neighbours in the place of most of the policies.
Either way the safest has 85 % of the samples left, and the others all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from inbounds.algorithms.algorithm import Run
from inbounds.algorithms.conservative import (
    Family,
    NoCandidate,
    best_with,
    conservative,
    family,
    margin_needed,
)
from inbounds.algorithms.empirical import too_few
from inbounds.algorithms.exploring import filled_up, model_error, optimism, worth_trying
from inbounds.algorithms.loop import run_on_samples
from inbounds.algorithms.planning import safest_of
from inbounds.arrays import Floats, Ints
from inbounds.errors import BeyondMemory, TooFewSamples
from inbounds.inputs import finite_or_nan
from inbounds.problem.mixture import Mixture
from inbounds.problem.pieces import Asked, Draws, OutOfTime, Pace, Progress, attach, kept
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator
from inbounds.problem.thoughts import thought_once
from inbounds.proofs.betting import Played, left_for_bounds, settleable
from inbounds.proofs.certificate import Certificate
from inbounds.proofs.evidence import Evidence
from inbounds.proofs.families import FamilyBets, ProvedFamily, prove_family, what_family_shows
from inbounds.proofs.samples import Bets, Proved, as_certificate, prove, so_far
from inbounds.proofs.walks import Guess, guess_from_model, walk_for_evidence
from inbounds.tables import rounded_up, so_many, wrapped

_ATTEMPTS = 4
_STAKED = 0.85  # of the bankroll, on each attempt
_EXPLORE = 0.25  # of the samples; at least one of each pair, at most half
_EVENLY = 0.35  # of exploration: every pair equally often, at first;
_ANY = 0.25  # of the samples by the end of each round after it, evenly, because plans may be wrong;
_ENOUGH = 100  # but no more than so many of each pair
_ROUNDS = 3  # of exploration after that, each where the plan of the one before is least sure
_PROOF = 0.8  # of the samples left: the aim of the next proof, except that the last takes all
_WORTH = 0.02  # of all samples: with less left there is no further attempt,
_FEWEST_WALKS = 5  # nor with fewer walks
_RUN = 0.65  # of the samples left: for an algorithm, when one was given; its conservatism makes the proof easy
_PILOT = 0.05  # of the samples left: walks of its policy, to guess their values
_STARTS = 100_000  # free draws of a start, and three for each sample, for the empirical initial distribution,
_MOST_STARTS = 3_000_000  # but no more
_TO_SPARE = 2.0  # standard errors, by which the number of samples that would probably do is to suffice
_MOST_FACTOR = 1e9  # more times the samples than this are not tried
_AT_ONCE = 0.9  # of the error probability, for several policies at once, or a mixture; the rest is for policies one by
_RESERVE = 0.15  # one, if that fails, and so much of the samples left


@dataclass(frozen=True, eq=False, repr=False)
class CertifiedRun:
    """A policy with its proof, or no policy and the reason.

    Attributes
    ----------
    policy : Policy, Mixture or None
        In bounds with the probability that was asked for; a mixture if one was asked for and is better than a policy.
        None when no candidate could be proved to be.
    certificate : Certificate or None
        Of `policy`; without one, of the last candidate, if there was any.
    samples : int
        Spent in all: on learning, the proof, and failed proofs.
    reason : str
        What happened, in words.
    attempts : tuple of Certificate
        Of every candidate in turn, of several at once the one that was taken, or the safest. The last is the one of
        `policy`.
    candidate : Policy, Mixture or None
        The last that was tried. It is NOT proved to be in bounds, unless it is `policy`.
    status : "done", "time limit" or "interrupted"
        Why it stopped. Unless it is done, ``resume=`` takes the run to go on; "interrupted" is the `partial` of an
        exception. Where several policies were being proved, `policy` is then the boldest that is proved by now, and
        `certificate` its own; without one, the certificate is of the proof under way, if there was one.
    paused
        What ``resume=`` goes on from, the evidence included; None when it is done.
    """

    policy: Policy | Mixture | None
    certificate: Certificate | None
    samples: int
    reason: str
    attempts: tuple[Certificate, ...]
    candidate: Policy | Mixture | None = None
    status: str = "done"
    paused: Any = None

    @property
    def in_words(self) -> str:
        """What happened, in one line."""
        return self.reason

    def __repr__(self) -> str:
        return f"CertifiedRun({self.reason})"

    def __str__(self) -> str:
        """What happened, how to go on, and what is proved of the policy, or was of the last candidate."""
        how = "" if self.status == "done" else "; resume= goes on"
        return wrapped(self.reason + how) + ("" if self.certificate is None else f"\n\n{self.certificate}")


class Candidate(NamedTuple):
    """A policy to be proved, with a guess of its values; both are fixed before the samples of the proof are drawn."""

    policy: Policy
    guess: Guess  # in scaled units


def search(
    simulator: Simulator,
    samples: int,
    confidence: float,
    seed: int | np.random.SeedSequence,
    learner: Any,
    progress: Progress,
    time_limit: float | None = None,
    resume: CertifiedRun | None = None,
    mixture: bool = False,
) -> CertifiedRun:
    """The run of ``ib.learn_certified``, whose arguments these are, checked; `learner` is None for "model".

    A run is resumed by going through it again, without doing again what was done (`inbounds.problem.pieces.Draws`).
    """
    asked = Asked(simulator, learner, (samples, confidence, mixture), seed)
    paused = None if resume is None else asked.require_same(resume, CertifiedRun)
    draws = Draws(seed, Pace(time_limit, progress), asked, paused)
    seen_by_learner, simulator = simulator, simulator.scaled  # evidence and proofs are in scaled units
    evidence = Evidence(simulator)
    source: ModelSource | AlgorithmSource
    if learner is None:
        source = ModelSource(evidence, draws, samples)
    else:
        source = AlgorithmSource(evidence, draws, learner, seen_by_learner)
    attempts: list[Certificate] = []
    policy: Policy | Mixture | None = None
    candidate: Policy | Mixture | None = None
    plan: Family | None = None
    earlier: tuple[Played, ...] = ()
    proved, reason, bankroll, first_bankroll, first, alpha = None, "", 1.0, 1.0, 0, 1.0 - confidence

    def broken_off(status: str) -> CertifiedRun:
        begun, under_way, tried, known, what = draws.paused.begun, None, candidate, None, "no policy yet"
        if begun is not None and isinstance(begun.state, Bets) and candidate is not None:
            shown = so_far(draws, simulator, confidence, candidate, earlier, _STAKED, first_bankroll)
            under_way = replace(shown, paused=None)
            if under_way.in_bounds:
                known, what = candidate, f"a {_kind(candidate)} {under_way.verdict}, before the proof was over"
        elif begun is not None and isinstance(begun.state, FamilyBets) and plan is not None:
            # Bets may be looked at between any two walks: what is settled by now is proved.
            of_all = what_family_shows(kept(begun.state), begun.drawn)
            under_way = certificate_of_family(of_all, plan, simulator, confidence)
            tried = plan.claimed(of_all.taken or 0)
            if under_way.in_bounds:
                known, what = tried, f"a {_kind(tried)} {under_way.verdict}, before bolder ones"
        return CertifiedRun(
            policy=known,
            certificate=under_way or (attempts[-1] if attempts else None),
            samples=draws.samples,
            reason=f"{what}: {status} after {draws.samples:,} samples of {samples:,}",
            attempts=tuple(attempts),
            candidate=tried,
            status=status,
            paused=draws.paused,
        )

    try:
        breakable = bool(np.any(simulator.margin_ranges[:, 0] < 0.0))  # otherwise the boldest of all policies will do
        if isinstance(source, ModelSource) and breakable:
            level = _AT_ONCE * alpha
            plan = source.several(samples - draws.passed_samples, level, mixture)
        if plan is not None:
            left = samples - draws.passed_samples
            aim = math.ceil((1.0 - _RESERVE) * left)
            first, bankroll, candidate = 1, 1.0 - _AT_ONCE, plan.claimed(0)
            found = prove_family(*plan, simulator, level, level, left, draws, aim)
            proved, candidate = found.proved, plan.claimed(found.taken or 0)
            attempts.append(certificate_of_family(found, plan, simulator, confidence))
            evidence.add(proved.seen)
            if attempts[-1].in_bounds:
                policy = candidate
        first_bankroll = bankroll
        for attempt in range(first, _ATTEMPTS if policy is None else 0):
            if attempt > 0 and not source.worth_another(samples - draws.passed_samples, samples):
                break
            level = _STAKED * bankroll * alpha
            proposed = source.propose(attempt, samples - draws.passed_samples, level)
            if proposed is None:
                break
            candidate, guess = proposed
            left = samples - draws.passed_samples
            aim = aim_of(attempt, left)
            bounded = left_for_bounds(alpha, _STAKED, first_bankroll, len(earlier))
            proved = prove(candidate, simulator, guess, bounded, left, draws, left, level=level, aim=aim)
            made = as_certificate(
                proved, simulator, confidence, proved.samples, candidate, earlier, _STAKED, first_bankroll
            )
            attempts.append(made)
            if proved.in_bounds:
                policy = candidate
                break
            assert proved.bets is not None
            earlier = (*earlier, proved.bets)
            bankroll *= (1.0 - _STAKED) + _STAKED * proved.bets.left
            evidence.add(proved.seen)
            ahead = aim_of(attempt + 1, source.for_proof(samples - draws.passed_samples))
            source.failed(within_reach(proved, ahead / aim))
        reason = _in_words(attempts, policy, draws.samples)
        if policy is None and proved is not None:
            last = proved
            enough = thought_once(draws, lambda: _enough(last, evidence, samples, source.grows_careful))
            reason += f"; {enough}"
    except NoCandidate as refusal:
        reason = str(refusal)
    except OutOfTime:
        return broken_off("time limit")
    except BaseException as error:
        if isinstance(error, BeyondMemory):
            error.samples = samples  # not those of the part at hand
        attach(error, broken_off("interrupted"))
        raise
    return CertifiedRun(
        policy=policy,
        certificate=attempts[-1] if attempts else None,
        samples=draws.samples,
        reason=reason,
        attempts=tuple(attempts),
        candidate=candidate,
    )


def _in_words(attempts: list[Certificate], policy: Policy | Mixture | None, spent: int) -> str:
    tries, verdict = so_many(len(attempts), "attempt"), attempts[-1].verdict
    if policy is None:
        return f"no policy: the {spent:,} samples did not suffice in {tries}; the last candidate is {verdict}"
    return f"a {_kind(policy)} {verdict}; {spent:,} samples in all, {tries}"


def _kind(policy: Policy | Mixture) -> str:
    return "mixture" if isinstance(policy, Mixture) else "policy"


def within_reach(proved: Proved, share: float) -> Floats:
    """The margins [K] that proofs of a `share` of the length that was planned can be expected to show of the policy."""
    assert proved.bets is not None
    stakes = proved.bets.stakes
    return proved.means[1:] - settleable(stakes.level, -stakes.least, proved.variances, share * stakes.planned)[1:]


def _enough(proved: Proved, evidence: Evidence, samples: int, careful: bool) -> str:
    """How many samples would probably do, by the formula of the module, in words.

    If later candidates are more `careful`, they can have any margin that some policy has; else that of the last one.
    """
    assert proved.bets is not None
    stakes, model = proved.bets.stakes, evidence.model()
    most = safest_of(model)
    guess = guess_from_model(model, most.policy, evidence.signal_variance)
    of_model = model_error(evidence, model, most.policy, guess)
    of_walks = proved.variances / max(len(proved.bets.book.drawn), 1)
    unsettled = settleable(stakes.level, -stakes.least, proved.variances, stakes.planned)[1:] > 0.0
    shown = proved.means - np.sqrt(of_walks)
    margins = np.maximum(shown, most.value - np.sqrt(of_model) if careful else -np.inf)[1:][unsettled]
    if np.any(margins <= 0.0):
        may = "there may be" if careful else "what this learner finds may have"
        return f"how many would do cannot be told: as far as they show, {may} no margin to prove"
    factor = 2.0
    while factor < _MOST_FACTOR:
        bets = factor * _PROOF * stakes.planned
        spread = np.sqrt(proved.variances / bets + of_model / factor)
        needed = settleable(stakes.level, -stakes.least, proved.variances, bets) + _TO_SPARE * spread
        if np.all(needed[1:][unsettled] <= margins):
            break
        factor *= 1.05
    else:
        return f"even {_MOST_FACTOR:g} times as many would not do"
    return f"about {rounded_up(factor * samples):,} samples in all would probably do"


def aim_of(attempt: int, left: int) -> int:
    """The samples by which a proof should be done: the last takes all that is left."""
    return left if attempt == _ATTEMPTS - 1 else math.ceil(_PROOF * left)


class ModelSource:
    """Candidates from the conservative solution of the empirical model."""

    grows_careful = True

    def __init__(self, evidence: Evidence, draws: Draws, samples: int) -> None:
        self.evidence, self.draws = evidence, draws
        self.starts = min(max(3 * samples, _STARTS), _MOST_STARTS)
        self.bias = np.zeros(evidence.simulator.n_constraints)
        self.explored = False

    def several(self, left: int, level: float, mixture: bool) -> Family | None:
        """Policies to be proved at once, or to be mixed, after exploration; None where the model has no hope for it."""
        left -= self._explore(left, level)
        aim = math.ceil((1.0 - _RESERVE) * left)
        return thought_once(self.draws, lambda: family(self.evidence, level, aim, self.bias, mixture))

    def propose(self, attempt: int, left: int, level: float) -> Candidate:
        if not self.explored:
            left -= self._explore(left, level)
        elif attempt > 0:
            self.evidence.add_starts(self.draws, self.starts)  # they are free, and may have been what misled the plan
        bias = self.bias if attempt == 0 else 0.5 * self.bias  # the walks since then are no choice of the plan's
        aim, z = aim_of(attempt, left), 0.5 + 0.5 * attempt
        return thought_once(self.draws, lambda: Candidate(*conservative(self.evidence, level, aim, z, bias)))

    def worth_another(self, left: int, samples: int) -> bool:
        walks = left * (1.0 - self.evidence.simulator.discount)
        return left >= _WORTH * samples and walks >= _FEWEST_WALKS

    def _explore(self, budget: int, level: float) -> int:
        """Learn, and return the samples that it took."""
        n_pairs = self.evidence.simulator.pairs.n_pairs
        explore = max(int(_EXPLORE * budget), n_pairs)
        if 2 * explore > budget:
            raise NoCandidate(
                f"no policy: {too_few(budget)} to try each of {so_many(n_pairs, 'pair')} and prove anything; "
                f"give at least {2 * n_pairs:,}"
            )
        halves = Evidence(self.evidence.simulator), Evidence(self.evidence.simulator)
        for half in halves:
            self.evidence.add(half.add_starts(self.draws, self.starts // 2))
        evenly = _ENOUGH * n_pairs / explore  # more would go to pairs that no good policy takes
        self._try(halves, np.full(n_pairs, max(int(min(_EVENLY, evenly) * explore) // n_pairs, 1)))
        kappa, aim = np.zeros(self.evidence.simulator.n_constraints), aim_of(0, budget - explore)
        for rounds_left in range(_ROUNDS, 0, -1):
            number = (explore - int(self.evidence.totals.visits.sum())) // rounds_left
            if number > 0:
                ask = partial(self._next, number, min(_ANY, evenly), kappa, level, aim)
                times, kappa = thought_once(self.draws, ask)
                self._try(halves, times)
        self.bias, self.explored = thought_once(self.draws, lambda: optimism(*halves)), True
        return int(self.evidence.totals.visits.sum())

    def _try(self, halves: tuple[Evidence, Evidence], times: Ints) -> None:
        """Samples of the pairs, `times` [n], half of them for either half."""
        first = (times + np.arange(len(times)) % 2) // 2
        for half, own in zip(halves, (first, times - first), strict=True):
            self.evidence.add(half.try_pairs(self.draws, own))

    def _next(self, number: int, evenly: float, kappa: Floats, level: float, aim: int) -> tuple[Ints, Floats]:
        """How often to try each pair in the next round, and the margin that the plan of the one after should keep."""
        model = self.evidence.model()
        policy, prices = best_with(model, kappa)
        guess = guess_from_model(model, policy, self.evidence.signal_variance)
        shares = worth_trying(self.evidence, model, policy, prices, guess, evenly)
        times = filled_up(self.evidence.totals.visits, shares, number)
        return times, margin_needed(self.evidence, model, policy, guess, level, aim, 1.0, np.zeros(len(kappa)))

    def for_proof(self, left: int) -> int:
        """What the next attempt has for its proof."""
        return max(left, 1)

    def failed(self, within_reach: Floats) -> None:
        """The evidence has grown, and the next attempt asks for more; there is nothing else to remember."""


class AlgorithmSource:
    """Candidates from a learning algorithm, run afresh at each attempt."""

    def __init__(self, evidence: Evidence, draws: Draws, settings: Any, simulator: Simulator) -> None:
        self.evidence, self.draws, self.settings, self.simulator = evidence, draws, settings, simulator
        own = fields(settings) if is_dataclass(settings) else ()
        self.kappa_is_a_setting = any(each.name == "kappa" and each.init for each in own)
        self.kappa = 0.0  # of the last run

    @property
    def grows_careful(self) -> bool:
        """Whether a failed proof makes it ask for more margin, and get it: presets that test what they found do."""
        return self.kappa_is_a_setting and bool(getattr(self.settings, "repair", False))

    def worth_another(self, left: int, samples: int) -> bool:
        return left >= _WORTH * samples

    def for_proof(self, left: int) -> int:
        """What the next attempt, which learns first, has for its proof."""
        return max(left - int(_RUN * left) - int(_PILOT * left), 1)

    def propose(self, attempt: int, left: int, level: float) -> Candidate | None:
        """None where too few samples are left for another run."""
        self.evidence.add_starts(self.draws, _STARTS)
        learning, pilot = int(_RUN * left), int(_PILOT * left)
        if learning < 1:
            raise NoCandidate(f"no policy: {left:,} samples are too few to learn from")
        seed = int(self.draws.rng.integers(2**63))

        def learn(resume: Any, time_limit: float | None, progress: Progress) -> Run:
            return run_on_samples(self.simulator, self.settings, learning, seed, 1, progress, time_limit, resume)

        try:
            run = self.draws.nested(learn)
        except TooFewSamples as error:
            if attempt > 0:
                return None
            raise NoCandidate(
                f"no policy: {error.why}, and so many of {left:,} are for learning; give {error.instead}at least "
                f"{math.ceil(error.least / _RUN):,} samples"
            ) from None
        self.kappa = finite_or_nan(run.settings.get("kappa", 0.0))
        walk_for_evidence(run.policy, self.evidence, pilot, self.draws)
        guess = guess_from_model(self.evidence.model(), run.policy, self.evidence.signal_variance)
        return Candidate(run.policy, guess)

    def failed(self, within_reach: Floats) -> None:
        """The margins [K] that could be shown, scaled, are below zero by so much: ask for the most of it and half."""
        if self.kappa_is_a_setting and self.kappa < 1.0:
            units = self.evidence.simulator.scaling.margin_scales / self.simulator.scaling.margin_scales
            short = max(-float(np.min(within_reach * units)), 0.0)
            try:
                self.settings = replace(self.settings, kappa=min(self.kappa + 1.5 * short, 1.0))
            except Exception:  # a user's own settings may refuse so much, and then stay as they are
                self.kappa_is_a_setting = False


def certificate_of_family(found: ProvedFamily, plan: Family, simulator: Simulator, confidence: float) -> Certificate:
    """Of the policy or mixture that was taken, or without one of the safest; the bets on those before it go with it.

    They are a series of attempts, each settled at the same level: nothing of the bankroll is lost by one that succeeds.
    """
    proved = found.proved
    claimed = plan.claimed(found.taken or 0)
    return as_certificate(proved, simulator, confidence, proved.samples, claimed, found.before, _AT_ONCE)
