"""The public questions about a known model: the best policy in bounds, how much room there is, what a bound costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from inbounds.arrays import freeze
from inbounds.criteria import criterion_of
from inbounds.errors import UNTOLD, Infeasible, InvalidInput, Stopped
from inbounds.exact.bundle import GapProgress
from inbounds.exact.deterministic import FOUND, WITHOUT_COINS, WITHOUT_COINS_ON_AVERAGE, best_deterministic
from inbounds.exact.frontier import Frontier
from inbounds.exact.limits import ITERATIONS, TIME, Limits, Partial, state_to_resume
from inbounds.exact.methods import FAR, Watch, best_mixture, gap_allowed
from inbounds.exact.moving_bound import along_bounds
from inbounds.exact.optimum import OPTIMAL, STALLED, UNPROVED, Optimum
from inbounds.exact.reachable import well_scaled
from inbounds.exact.solution import Solution, assemble, enough_for_a_proof
from inbounds.inputs import callback, positive, switch
from inbounds.numerics.interrupts import holding_handlers
from inbounds.problem.cmdp import CMDP
from inbounds.problem.pieces import attach
from inbounds.proofs.known_model import certified, upper_proof, values_between

_GROSS = 1e-5
"""An answer that is out of bounds by more, relative to the largest margin, is none: linked averages may be by 1e-7."""


@holding_handlers()
def solve(
    problem: CMDP,
    method: str = "auto",
    *,
    coins: str = "few",
    deterministic: bool = False,
    tolerance: float = 1e-8,
    progress: GapProgress | None = None,
    certificate: bool = True,
    proof_progress: Callable[[int, int], None] | None = None,
    time_limit: float | None = None,
    iterations: int | None = None,
    resume: Partial | None = None,
    start: Solution | None = None,
) -> Solution:
    """The most reward among the policies that keep every bound, with its prices, a bound on the error, and the proof.

    Values are in the user's units: discounted averages per step, normalised by (1 - discount); sums over a finite
    horizon; or long-run averages per step. The prices are the Lagrange multipliers (dual variables, shadow prices) of
    the constraints, and ``occupancy`` is the occupancy measure of the policy.

    At an optimum the margins that bind are zero, and in floating point half of them a little less. The policy returned
    is moved inside by just enough to be provably in bounds; ``reward_given_up`` says what that cost (of the order of
    1e-12), and ``certificate`` holds the proof.

    With few coins the policy randomises in no more states than there are constraints: it is a vertex (basic solution)
    of the occupancy program, and ``ranges`` says between which bounds the prices stay for sure.

    Nothing is lost at a limit. The answer is then the best policy in bounds that is known, with its gap, and ``status``
    names the limit; where none is known yet, `Stopped` is raised. Ctrl-C raises KeyboardInterrupt as ever. Both, what a
    progress function raises, and such an answer have a ``partial``: the bounds and the policy known so far, and what
    `resume` goes on from.

    Parameters
    ----------
    problem : CMDP
    method : "auto", "bundle", "lp" or "polish"
        "bundle" goes through a few unconstrained problems and takes any size. "lp" is the occupancy linear program on
        HiGHS: an independent check, for up to some thousand states; by the simplex method, or by interior point where
        that would not return; where HiGHS finds no optimum, or one to prove which takes much, the bundle finds it, and
        ``method`` of the answer says so.
        "polish" lets the simplex method go the last steps from the bundle's answer to an exact vertex of that program.
        "auto" takes the linear program for up to 240 pairs (times stages), one run of policy iteration where there are
        no constraints, and the bundle otherwise.
    coins : "few" or "any"
        "few" goes on to a policy that randomises in at most K states, mostly for a tenth to the whole of the time of
        the solve; among ties over hundreds of stages it may take twenty times as long. "any" leaves that out. Long-run
        averages whose best occupancy falls into classes that do not meet (``linked``) keep the coins that link these.
    deterministic : bool
        The best policy without any coin. To find it is NP-hard: for up to 300 states (times stages) the best is proved,
        mostly within a minute, by branch and bound; for more it is a good one, ``status`` is "best found", and ``gap``
        says how far from the best it can be; so it is where it cannot be told on which side of a bound a better one
        is: ``standing`` says which of the two, and what helps. ``price_of_determinism`` is what the coins were worth.
        Of long-run averages: the best among policies with one recurrent class from the start, which ``ib.evaluate``
        takes; ``status`` and ``upper_bound`` say nothing of those that come to stay in one of several places.
    tolerance : float
        The gap that may be left between the reward of the policy and the upper bound, relative to the optimum, or to a
        hundredth of the spread of the rewards where the optimum is closer to zero.
    progress : callable, optional
        Called by "bundle" after every unconstrained solve as ``progress(solves, lower, upper)`` with bounds on the
        optimum; lower is -inf until a mixture of policies in bounds is known.
    certificate : bool
        Whether to certify the answer.
    proof_progress : callable, optional
        Called while that is done, as ``proof_progress(done, total)`` with the number of vectors and bounds.
    time_limit : float, optional
        Seconds for the whole call. An answer that the limit cut short is not certified: there was no time.
    iterations : int, optional
        Unconstrained solves of the bundle, at most, in all; those from a start count by themselves, and those of
        the search for a deterministic policy and its proof do not count.
    resume : Partial, optional
        Of an earlier call with the same problem, method and tolerance: goes on from there, to the same bits.
    start : Solution, optional
        Of a similar problem (warm start): the same states and actions, by their labels, and the same constraints in the
        same order, but other bounds, rewards, signals or transition probabilities. Its prices, its policy, its value
        function and the vectors that proved it are where the search begins; no bound is taken from it, so the answer is
        as certain as any. Small changes of its policy lead to the new vertex, as a rule without any unconstrained
        solve. A start that is too far away costs time, and then the bundle takes over. ``method`` of the answer is
        "path" where it does not. Problems for which there is no bundle, the smallest and those without constraints, do
        without it.

    Raises
    ------
    Infeasible
        When no policy is in bounds: with the proof, the constraints that conflict, and how far each bound would have to
        be relaxed.
    Stopped
        When a limit was reached before any policy in bounds was known; or when floating point has too few digits for
        the problem: neither such a policy was found, nor a proof that there is none. With ``deterministic=True`` also
        when only policies that randomise are in bounds, or no other was found.

    Examples
    --------
    >>> import inbounds as ib
    >>> best = ib.solve(ib.zoo.queue())
    >>> round(best.total_reward, 7), [round(float(price), 6) for price in best.prices], best.gap < 1e-7
    (4.6448582, [0.09692, 0.135595], True)
    >>> best.certificate.in_bounds, best.reward_given_up < 1e-10, best.status
    (True, True, 'optimal')
    >>> best.policy
    Policy(6 states, randomises in 2)

    Without coins something is lost, here a thousandth:

    >>> pure = ib.solve(ib.zoo.queue(), deterministic=True)
    >>> pure.policy.coins, pure.status, round(pure.price_of_determinism, 5)
    (0, 'optimal', 0.00268)

    A few unconstrained solves are not enough here; the rest can be made later:

    >>> garnet = ib.zoo.garnet(states=100, seed=1)
    >>> rough = ib.solve(garnet, "bundle", iterations=5)
    >>> rough.status, rough.in_bounds, rough.gap > 1e-4
    ('iteration limit', True, True)
    >>> ib.solve(garnet, "bundle", resume=rough.partial).status
    'optimal'

    What if a bound were a little looser? The answer at hand is close to that:

    >>> best, looser = ib.solve(garnet), garnet.with_bound(0, at_least=0.99 * garnet.constraints[0].bound)
    >>> again = ib.solve(looser, start=best)
    >>> again.in_bounds, again.status, again.unconstrained_solves < best.unconstrained_solves / 2
    (True, 'optimal', True)
    """
    tolerance = positive(tolerance, "tolerance")
    asked, limits = (problem, method, tolerance), Limits.of(time_limit, iterations)
    deterministic, certificate = switch(deterministic, "deterministic"), switch(certificate, "certificate")
    progress, proof_progress = callback(progress), callback(proof_progress, "proof_progress")
    if resume is not None and start is not None:
        raise InvalidInput("give resume or start, not both: what is resumed has its own start")
    watch = Watch(*(state_to_resume(resume, asked) or (None, start)))

    def known(status: str) -> Partial:
        return _known(problem, watch, status, asked)

    try:
        few = "few" if deterministic else coins  # a search for none begins from few
        found, by = best_mixture(
            problem, method, tolerance=tolerance, progress=progress, limits=limits, watch=watch, coins=few
        )
        if deterministic and found.pure is None:
            best = _deterministic(problem, found, by, tolerance, certificate, proof_progress, limits)
        else:
            best = _answer(problem, found, by, method, tolerance, certificate, proof_progress, limits, coins)
        cut_short = best.status in (TIME, ITERATIONS) or (found.status == best.status == STALLED)
        return replace(best, partial=known(best.status)) if cut_short else best
    except Stopped as stopped:
        stopped.partial = known(stopped.status)
        raise
    except Infeasible:
        raise
    except BaseException as error:
        attach(error, known("interrupted"))
        raise


@holding_handlers()
def frontier(
    cmdp: CMDP,
    constraint: int | str = 0,
    points: int = 50,
    *,
    bounds: Sequence[float] | None = None,
    between: tuple[float, float] | None = None,
    tolerance: float = 1e-6,
    certificate: bool = False,
    progress: Callable[[int, int], None] | None = None,
    says: Callable[[str], None] | None = None,
    time_limit: float | None = None,
    iterations: int | None = None,
    resume: Partial | None = None,
) -> Frontier:
    """The optimum, its prices and its policy as one bound moves from loosest to tightest; the others stay.

    Values are in the user's units: discounted averages per step, normalised by (1 - discount), sums over a finite
    horizon, or long-run averages. (The Pareto frontier of reward and one constraint; its slope is the price, the
    Lagrange multiplier of that constraint.)

    Parameters
    ----------
    cmdp : CMDP
    constraint : int or str
        Which bound moves: its position, or its name. The bound that it has in `cmdp` only says where a point is.
    points : int
        How many bounds, evenly spaced from where the bound begins to matter (with seven points or more, from a little
        before) to just before the tightest possible, where the price may be infinite (``curve.possible_to``); the
        bound that `cmdp` has, if it is between them, takes the place of the closest one that is not an end.
    bounds : list of numbers, optional
        These bounds instead, in any order. Those that no policy keeps are in ``curve.impossible``.
    between : (number, number), optional
        `points` bounds from one to the other instead; from a bound to itself, that one alone.
    tolerance : float
        The relative gap of every point. In problems of up to 50,000 pairs (times stages), and with `certificate`, a
        point is a vertex of the occupancy program with few coins, and its prices are exact, whatever the tolerance.
        In others a price is good to about its square root.
    certificate : bool
        Prove every point, as ``ib.solve`` does, moved inside by what it takes.
    progress : callable, optional
        Called as ``progress(done, points)`` at the start, and when another point is finished.
    says : callable, optional
        Told in words what is being done, from the start: ``says("the tightest bound on service that a policy keeps")``.
    time_limit : float, optional
        Seconds for the whole call; then the points that are finished are returned. It holds within a point, too.
    iterations : int, optional
        The same for the number of unconstrained solves along the path.
    resume : Partial, optional
        Of an earlier call with the same arguments: goes on from there, to the same bits. A KeyboardInterrupt has it as
        ``partial`` too.

    Raises
    ------
    Infeasible
        When the other constraints already exclude each other.
    Stopped
        When a limit was reached before there was a point.

    Examples
    --------
    >>> import inbounds as ib
    >>> curve = ib.frontier(ib.zoo.queue(), constraint="service", points=5)
    >>> round(curve.matters_from, 4), round(curve.possible_to, 4)
    (-5.0, 1.0)
    >>> bool(curve.rewards[0] > curve.rewards[-1]), curve.prices.shape
    (True, (5, 2))
    >>> some = ib.frontier(ib.zoo.queue(), "service", bounds=[2, 0.5, 0])
    >>> some.bounds.tolist(), some.impossible.tolist(), some.present
    ([0.0, 0.5], [2.0], 0.0)
    """
    return along_bounds(
        cmdp,
        constraint,
        points,
        bounds=bounds,
        between=between,
        tolerance=tolerance,
        judge=certified if switch(certificate, "certificate") else None,
        progress=progress,
        says=says,
        time_limit=time_limit,
        iterations=iterations,
        resume=resume,
    )


def _answer(
    problem: CMDP,
    found: Optimum,
    by: str,
    method: str,
    tolerance: float,
    certificate: bool,
    progress: Callable[[int, int], None] | None,
    limits: Limits,
    coins: str,
) -> Solution:
    """The best mixture as an answer, judged; by the bundle, if a proof of the linear program's is too dear."""
    best = _judged(problem, found, by, certificate, progress, limits)
    if best.certificate is not None and method in ("auto", "lp") and by == "lp":
        best = _better(problem, best, tolerance if method == "auto" else max(tolerance, FAR), limits, coins)
    if best.status != OPTIMAL:
        return best
    if not best.in_bounds and np.any(best.margins < -_GROSS * best.margin_scales):
        raise Stopped(STALLED)
    allowed = 1.01 * gap_allowed(well_scaled(problem), best.upper_bound, tolerance)
    return replace(best, status=UNPROVED if not best.in_bounds else OPTIMAL if best.gap <= allowed else STALLED)


def _deterministic(
    problem: CMDP,
    found: Optimum,
    by: str,
    tolerance: float,
    certificate: bool,
    progress: Callable[[int, int], None] | None,
    limits: Limits,
) -> Solution:
    """The best deterministic policy that is found around a best mixture, judged."""
    upper = upper_proof(problem, found)[-1]
    found = found._replace(upper_bound=upper) if math.isfinite(upper) else found
    try:
        pure, upper, missing = best_deterministic(problem, found, tolerance, limits, values_between)
    except Stopped as stopped:
        if stopped.status in (TIME, ITERATIONS):
            raise
        # That one which may randomise is in bounds is said where that is proved.
        any_ = _answer(problem, found, by, "auto", tolerance, True, None, limits, "any")
        raise stopped if any_.in_bounds else Stopped(stopped.status + UNTOLD) from None
    best = _judged(problem, pure, by, certificate, progress, limits)
    if best.certificate is not None and not best.in_bounds:
        least, _ = values_between(problem, best.policy.probabilities.ravel())
        best = replace(best, kept_in_rationals=bool(np.all(least[1:] >= 0.0)))
    status = best.status
    if status not in (TIME, ITERATIONS) and not best.in_bounds:
        status = UNPROVED
    elif status == UNPROVED and best.certificate is not None:
        status = FOUND
    return replace(
        best,
        upper_bound=min(max(upper, best.reward), best.upper_bound),
        price_of_determinism=max(min(found.upper_bound, best.upper_bound) - best.reward, 0.0),
        status=status,
        among=WITHOUT_COINS_ON_AVERAGE if criterion_of(problem).mass_row else WITHOUT_COINS,
        loosening=None if missing is None or status != FOUND else freeze(enough_for_a_proof(best.constraints, missing)),
    )


def _judged(
    problem: CMDP,
    found: Optimum,
    method: str,
    certificate: bool,
    progress: Callable[[int, int], None] | None,
    limits: Limits,
) -> Solution:
    """The answer, certified if that was asked for; where there is no time for it, that is how it ended."""
    best = None if not certificate or limits.over else _proved(problem, found, method, progress, limits)
    late = TIME if certificate else found.status
    return assemble(problem, found._replace(status=late), method=method) if best is None else best


def _proved(
    problem: CMDP, found: Optimum, method: str, progress: Callable[[int, int], None] | None, limits: Limits
) -> Solution | None:
    """The certified answer; None when the time is over first."""

    def step(done: int, total: int) -> None:
        if progress is not None:
            progress(done, total)
        if limits.over and done < total:
            raise Stopped(TIME)

    try:
        return certified(problem, found, method=method, progress=step)
    except Stopped:
        return None


def _better(problem: CMDP, best: Solution, tolerance: float, limits: Limits, coins: str) -> Solution:
    """The answer of the linear program; or the bundle's, if proving the former took more than the gap allowed.

    Where bounds can only just be met, what HiGHS calls feasible may be out of bounds by as much as there is room.
    """
    fine = best.in_bounds and best.gap <= gap_allowed(well_scaled(problem), best.upper_bound, tolerance)
    if fine or problem.n_constraints == 0:
        return best
    try:
        other, by = best_mixture(problem, "bundle", tolerance=tolerance, limits=limits, coins=coins)
    except Stopped:
        return best
    again = certified(problem, other, method=by)
    return max(best, again, key=lambda answer: (answer.in_bounds, -answer.gap))


def _known(problem: CMDP, watch: Watch, status: str, asked: tuple[Any, ...]) -> Partial:
    """What a solve knows that was stopped."""
    found: Optimum | None
    found, in_bounds = (None, False) if watch.search is None else watch.search.known()
    if found is None:
        return Partial(status, asked=asked, state=watch.state)
    no_margins = np.empty((0, len(found.occupancy)))
    spent, linked = criterion_of(problem).linked(found.occupancy, tuple, asked[2], no_margins)
    judged = assemble(problem, found._replace(occupancy=spent, linked=linked), method="bundle")
    return Partial(
        status=status,
        lower=judged.reward if in_bounds and judged.in_bounds else -math.inf,
        upper=judged.upper_bound,
        unconstrained_solves=judged.unconstrained_solves,
        policy=judged.policy,
        reward=judged.reward,
        margins=judged.margins,
        asked=asked,
        state=watch.state,
    )
