"""The level bundle: the exact solution of a constrained problem of any size through a few unconstrained ones.

For prices u >= 0 [K] let d(u) be the best value of the reward plus the priced margins, over all policies: one
unconstrained problem. d is convex, and by the duality of linear programs

    optimum = min over u >= 0 of d(u),

a problem with as many unknowns as there are constraints, whatever the number of states. Every policy j, with reward
R_j and margins M_j [K], gives a cut: d(u) >= R_j + u . M_j for every u. Two sides close in on the optimum:

    above   d at the best prices so far: the upper end of the bracket of that unconstrained solve;
    below   the master program over mixtures w of the policies found so far,
                max  sum_j w_j R_j - cap * s    subject to   sum_j w_j M_j + s >= 0,  sum_j w_j = 1,  w, s >= 0.
            When s = 0 the mixture is in bounds, and its reward a lower bound on the optimum. The dual of the master is
            the least, over prices that sum to at most `cap`, of the largest cut.

Going to the minimum of the cuts (Kelley) stalls. The level method (Lemarechal, Nemirovskii and Nesterov 1995) goes to
the point nearest to the best prices so far at which no cut exceeds the mean of the two sides. Close to the end the
minimum of the cuts is tried now and then: once all the policies that matter have been found, it is the optimum itself.
And since d is nearly smooth when there are many states, with M_j as its gradient where policy j is best, a Newton step
comes first, wherever the cuts leave room for it: with 30,000 states it halves the number of solves.

Unconstrained solves need only be as accurate as the gap is small: every policy, optimal or not, gives a valid cut, and
every bracket a valid upper bound. Mixtures go through occupancies (see `inbounds.problem.policy`), so the result is one
policy, made of at most K + 1 deterministic ones.

With no reward and prices that sum to exactly 1, the same method finds the Slater constant: the optimum is then
max over policies of min over k of M_k, and the slack s, now of any sign, is minus that.

Inside, the reward is shifted and scaled to [-1, 1] and each margin scaled to [-1, 1]; results are in the user's units.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from inbounds.arrays import Floats, Ints
from inbounds.criteria.contract import Criterion, Found
from inbounds.errors import Stopped
from inbounds.exact.highs import INFINITE, SMALL, Columns, minimise
from inbounds.exact.limits import NO_LIMITS, TIME, Limits
from inbounds.exact.optimum import OPTIMAL, Optimum, Units
from inbounds.exact.start import Start

GapProgress = Callable[[int, float, float], None]
"""Called after every unconstrained solve with their number so far, and the bounds below and above the optimum."""

_LEVEL = 0.5
"""Where between the bounds the cuts are cut off; of 0.1, 0.2, ..., 0.7 this took the fewest solves over all sizes."""

_ROOM = 0.1
"""A Newton step must lead to where the cuts promise at least this share of the gap."""

_VERTEX_GAP = 1e-5
"""From this gap on, the minimum of the cuts itself is tried too, whenever the gap is a hundredth of the last time's."""

_INNER = 0.1
"""The share of the gap that the bracket of an unconstrained solve may take."""

_FIRST_INNER = 1e-2
"""The width of the first bracket, before there is a gap."""

_STARTED_INNER = 1e-6
"""The same at the prices of an earlier answer, which leave a gap of about ten times that."""

_CUT_ACCURACY = 1e-12
"""Of the occupancies behind the cuts, in the sum of absolute values."""

_CAP = 10.0
"""The first bound on the sum of the scaled prices; it grows tenfold whenever the best prices turn out to be beyond."""

_LARGEST_CAP = 1e11

_TAKEN_ALONG = 12
"""Cuts for each constraint, and as many more, that serve when a bound has moved: those with the least upper bounds."""

_SLACK = 1e-10
"""A violation, relative to the largest margin of any pair, that rounding explains."""


class Bundle:
    """A constrained problem on its way to being solved.

    Parameters
    ----------
    criterion : Criterion
        Its unconstrained solves are all that is needed.
    reward : array [N]
    margins : array [K, N]
    scales : array [K]
        Each at least the absolute value of that margin under any policy.
    resume : Round, optional
        Where an earlier search of the same problem was.
    start : Start, optional
        The answer to a similar problem, at whose prices a search begins that is not resumed.
    """

    def __init__(
        self,
        criterion: Criterion,
        reward: Floats,
        margins: Floats,
        scales: Floats,
        resume: Round | None = None,
        start: Start | None = None,
    ) -> None:
        self._units = Units.of(criterion, reward, scales)
        dual = _Dual(criterion, self._units.objective(reward), margins, scales)
        if resume is None and start is not None:
            prices, expected = start.expected(criterion, self._units, dual.objective, margins / scales[:, None])
            cap = max(_CAP * float(prices.sum()), _CAP)
            resume = _nothing(len(scales), prices, cap, _STARTED_INNER, expected)
        self._search = _Search(dual, False, resume)

    @property
    def round(self) -> Round:
        """Where the search is between two rounds: what it can go on from."""
        return self._search.round

    def where(self, tightened: Floats, scales: Floats) -> Round:
        """What a search can begin from whose bounds are so much tighter [K], with other `scales` [K] of its margins.

        As a bound moves, the margin of every policy moves by the same amount: each cut and each upper bound holds
        there, too. Those that matter most are taken along.
        """
        search, units = self._search, self._units
        cuts, ratio, amount = search.cuts, units.scales / scales, tightened / scales
        prices = cuts.prices / ratio
        relief = np.sum(prices * amount, axis=1)
        near = np.sort(np.argsort(cuts.uppers - relief, kind="stable")[: _TAKEN_ALONG * (1 + len(scales))])
        return Round(
            cuts=_Cuts(
                rewards=cuts.rewards[near],
                margins=cuts.margins[near] * ratio - amount,
                prices=prices[near],
                uppers=(cuts.uppers - relief)[near],
                policies=tuple(cuts.policies[j] for j in near),
                value_functions=tuple(cuts.value_functions[j] - units.criterion.level(float(relief[j])) for j in near),
                last=cuts.last,
            ),
            try_next=None,
            inner=_FIRST_INNER,
            cap=max(float(_CAP * prices[near].sum(axis=1).max(initial=0.0)), _CAP),
            smallest=np.inf,
            quiet=0,
            vertex_gap=_VERTEX_GAP,
        )

    def solve(
        self, tolerance: float = 1e-8, progress: GapProgress | None = None, limits: Limits = NO_LIMITS
    ) -> Optimum | None:
        """The occupancy of a best policy in bounds, with prices; None when prices prove that no policy is in bounds.

        The gap is at most `tolerance` relative to the optimum (or to a hundredth of the spread of the rewards where the
        optimum is closer to zero than that), or what rounding allows. At a limit it is `known`, with the limit as its
        status, or `Stopped` if no policy known is in bounds.
        """
        units = self._units

        def report(solves: int, lower: float, upper: float) -> None:
            if progress is not None:
                progress(solves, units.value(lower), units.value(upper))

        weights = self._search.close_gap(lambda upper: units.gap_allowed(tolerance, upper), report, limits)
        if self._search.stopped:
            found, in_bounds = self.known()
            if found is None or not in_bounds:
                raise Stopped(self._search.stopped)
            return found._replace(status=self._search.stopped)
        return None if weights is None else self._mixture(weights)

    def known(self) -> tuple[Optimum | None, bool]:
        """The best mixture in bounds of the policies found so far, and True; or the one closest to that, and False.

        None before there are any.
        """
        cuts, best = self._search.cuts, None
        if cuts.solves == 0:
            return None, False
        cap = self._search.round.cap
        while best is None or (best.slack > _SLACK and cap < _LARGEST_CAP):
            best = _solve_master(cuts, cap, prices_sum_to_one=False)
            cap *= 100.0
        if best.slack > _SLACK:
            best = _solve_master(cuts, 1.0, prices_sum_to_one=True)
        return self._mixture(best.weights), best.slack <= _SLACK

    def _mixture(self, weights: Floats) -> Optimum:
        dual, cuts, units = self._search.dual, self._search.cuts, self._units
        return Optimum(
            occupancy=dual.mixed_occupancy(cuts, weights),
            prices=units.prices(cuts.best_prices),
            value_function=units.value_function(cuts.best_value_function),
            upper_bound=units.value(cuts.upper),
            unconstrained_solves=cuts.solves,
            spare=dual.safest_occupancy(cuts),
            best=cuts.policies[cuts.best_index],
        )


def slater_bundle(
    criterion: Criterion,
    margins: Floats,
    margin_scales: Floats,
    units: Floats,
    tolerance: float = 1e-10,
    limits: Limits = NO_LIMITS,
) -> Optimum:
    """An occupancy whose least margin, each divided by its entry of `units` [K], is largest.

    The prices sum to 1, and the value function is that of the margins so divided and combined with them: it proves
    that no policy does better. There must be at least one constraint. At a limit it is the best that is known.
    """
    unit = float(np.min(margin_scales / units))  # no policy's least margin is larger than this
    search = _Search(_Dual(criterion, np.zeros(margins.shape[1]), margins, units * unit), True)
    weights = search.close_gap(lambda upper: tolerance * max(abs(upper), 0.1), None, limits)
    assert weights is not None  # a least margin always has a maximum
    cuts = search.cuts
    return Optimum(
        occupancy=search.dual.mixed_occupancy(cuts, weights),
        prices=cuts.best_prices,
        value_function=unit * cuts.best_value_function,
        upper_bound=unit * cuts.upper,
        unconstrained_solves=cuts.solves,
        status=search.stopped or OPTIMAL,
    )


class _Cuts(NamedTuple):
    """The policies found so far. Nothing of it is ever changed: a round makes another."""

    rewards: Floats  # [J]
    margins: Floats  # [J, K], scaled: the cuts are rewards + margins @ prices
    prices: Floats  # [J, K], where they were found
    uppers: Floats  # [J], bounds on d there
    policies: tuple[tuple[Ints, Floats], ...]  # where they can be, and for how long
    value_functions: tuple[Floats, ...]
    last: Any  # what the next unconstrained solve begins from

    @property
    def solves(self) -> int:
        return len(self.policies)

    @property
    def best_index(self) -> int:
        """Where the bound on d is least."""
        return int(np.argmin(self.uppers))

    @property
    def upper(self) -> float:
        return float(self.uppers.min())

    @property
    def best_prices(self) -> Floats:
        return self.prices[self.best_index]

    @property
    def best_value_function(self) -> Floats:
        return self.value_functions[self.best_index]


class Round(NamedTuple):
    """Where a search is between two rounds: all that the next one depends on, so that it can be made again."""

    cuts: _Cuts
    try_next: Floats | None  # [K], prices; None: the cuts at hand say where
    inner: float  # the width of the next bracket
    cap: float
    smallest: float  # gap so far
    quiet: int  # rounds in which it did not shrink
    vertex_gap: float
    ways: Any = None  # of the criterion; None: as they are


def _nothing(
    n_constraints: int, first: Floats, cap: float, inner: float = _FIRST_INNER, expected: Found | None = None
) -> Round:
    """Before there are any cuts; the first is to be at the prices `first` [K]."""
    nothing = np.empty((0, n_constraints))
    return Round(
        cuts=_Cuts(np.empty(0), nothing, nothing, np.empty(0), (), (), expected),
        try_next=first,
        inner=inner,
        cap=cap,
        smallest=np.inf,
        quiet=0,
        vertex_gap=_VERTEX_GAP,
    )


class _Dual(NamedTuple):
    """The dual function d of a problem."""

    criterion: Criterion
    objective: Floats  # [N]
    signals: Floats  # [K, N]
    scales: Floats  # [K]

    def solve(self, cuts: _Cuts, prices: Floats, tolerance: float, deadline: float | None) -> tuple[_Cuts, bool]:
        """Evaluate d at `prices` up to `tolerance`, and add the cut of the policy found there.

        Also whether it came to that: from `deadline` on the bracket is as wide as it then is.
        """
        # Not a product of matrices, here and below: BLAS would wake all cores for it.
        reward = self.objective + np.einsum("k,kn->n", prices / self.scales, self.signals)
        found = self.criterion.solve(reward, tolerance, cuts.last, deadline=deadline)
        time = self.criterion.time(found, _CUT_ACCURACY, cuts.policies[-1][1] if cuts.policies else None)
        margins = np.sum(self.signals[:, found.chosen] * time, axis=1) / self.scales
        more = _Cuts(
            rewards=np.append(cuts.rewards, np.sum(time * self.objective[found.chosen])),
            margins=np.vstack([cuts.margins, margins]),
            prices=np.vstack([cuts.prices, prices]),
            uppers=np.append(cuts.uppers, found.upper),
            policies=(*cuts.policies, (found.chosen, time)),
            value_functions=(*cuts.value_functions, found.value_function),
            last=found,
        )
        return more, deadline is None or monotonic() < deadline

    def mixed_occupancy(self, cuts: _Cuts, weights: Floats) -> Floats:
        """The occupancy [N] of the policies found so far, mixed with `weights` [J]."""
        occupancy = np.zeros(len(self.objective))
        for weight, (chosen, time) in zip(weights, cuts.policies, strict=True):
            if weight > 0.0:
                occupancy[chosen] += weight * time
        return occupancy

    def safest_occupancy(self, cuts: _Cuts) -> Floats | None:
        """The mixture [N] of the policies found so far with the largest least margin; None if that is not positive."""
        if not cuts.margins.size:
            return None
        safest = _solve_master(cuts._replace(rewards=np.zeros(cuts.solves)), 1.0, prices_sum_to_one=True)
        return self.mixed_occupancy(cuts, safest.weights) if safest.slack < 0.0 else None


class _Master(NamedTuple):
    weights: Floats  # [J], of the policies in the best mixture
    prices: Floats  # [K], where the largest cut is least
    slack: float  # the largest violation of the mixture; minus its least margin when prices sum to one
    value: float
    solved: bool = True  # False: the best policy alone, where HiGHS found no optimum


class _Search:
    """The level method at work on a dual function.

    Attributes
    ----------
    round : Round
        Where it is between two rounds. It is replaced as a whole, so an interruption at any moment leaves a valid one.
    cuts : _Cuts
        All that is known: of that round, or of one that a deadline cut short.
    stopped : str
        The limit that ended it; empty while none did.
    """

    def __init__(self, dual: _Dual, prices_sum_to_one: bool, resume: Round | None = None) -> None:
        self.dual, self.prices_sum_to_one, self.stopped = dual, prices_sum_to_one, ""
        n_constraints = len(dual.signals)
        first = np.full(n_constraints, 1.0 / n_constraints) if prices_sum_to_one else np.zeros(n_constraints)
        self.round = resume or _nothing(n_constraints, first, 1.0 if prices_sum_to_one else _CAP)
        self.cuts = self.round.cuts
        if self.round.ways is not None:
            dual.criterion.ways = self.round.ways

    def close_gap(
        self, gap_allowed: Callable[[float], float], report: GapProgress | None, limits: Limits
    ) -> Floats | None:
        """Add cuts until the gap is small enough; the weights of the mixture, or None when no policy is in bounds.

        At a limit too: then they are those of the best mixture so far, in bounds or not.
        """
        dual, sum_to_one = self.dual, self.prices_sum_to_one
        n_constraints = len(dual.signals)
        freedom = n_constraints - sum_to_one
        while True:
            cuts, try_next, inner, cap, smallest, quiet, vertex_gap, _ = self.round
            if cuts.solves and (limit := limits.reached(cuts.solves)):
                self.stopped = limit
                return _solve_master(cuts, cap, sum_to_one).weights
            whole = True
            if try_next is not None:
                cuts, whole = dual.solve(cuts, try_next, inner, limits.deadline)
            self.cuts = cuts
            while True:
                master = _solve_master(cuts, cap, sum_to_one)
                gap, allowed = cuts.upper - master.value, gap_allowed(cuts.upper)
                quiet = 0 if gap < 0.99 * smallest else quiet + 1
                smallest = min(gap, smallest)
                # Rounding, or the tolerances of the master, can leave a gap that no cut closes.
                stuck = quiet > 20 + 4 * n_constraints or not master.solved
                in_bounds = sum_to_one or master.slack <= _SLACK
                small = allowed if in_bounds else max(allowed, 0.01 * cap * master.slack)
                if in_bounds or not (gap <= small or stuck) or cap >= _LARGEST_CAP or not master.solved:
                    break
                # The best prices within the cap leave a violation: better ones are beyond it, or there are none.
                cap, smallest, quiet = 10.0 * cap, np.inf, 0
            if report is not None:
                report(cuts.solves, master.value if in_bounds else -np.inf, cuts.upper)
            if not sum_to_one and cuts.upper < -1.0 - allowed:
                return None  # d is at least the reward of any policy in bounds, and that at least -1
            if gap <= allowed or stuck:
                return master.weights
            if not whole:  # this round is not worth going on from: it is made again when the search is resumed
                self.stopped = TIME
                return master.weights
            inner = max(_INNER * gap, 0.1 * allowed) * 0.5 ** min(quiet, 10)
            newton = None if sum_to_one else _newton_point(cuts, gap, cap)
            if freedom == 0 or (newton is None and gap < vertex_gap):
                prices, inner, vertex_gap = master.prices, 1e-3 * allowed, 0.01 * gap
            elif newton is not None:
                prices = newton
            else:
                prices = _level_point(cuts, master, gap, cap, sum_to_one)
            self.round = Round(cuts, prices, inner, cap, smallest, quiet, vertex_gap, dual.criterion.ways)


def _solve_master(cuts: _Cuts, cap: float, prices_sum_to_one: bool) -> _Master:
    """The best mixture of the policies found so far, and the prices that prove it best."""
    rewards, margins = cuts.rewards, cuts.margins
    n_policies, n_constraints = margins.shape
    columns = np.ones((n_policies + 1, n_constraints + 1))
    columns[:-1, :-1] = margins
    columns[-1, -1] = 0.0
    found = minimise(
        Columns.dense(columns),
        np.append(-rewards, cap),
        row_lower=np.append(np.zeros(n_constraints), 1.0),
        row_upper=np.append(np.full(n_constraints, INFINITE), 1.0),
        column_lower=np.append(np.zeros(n_policies), -INFINITE if prices_sum_to_one else 0.0),
        attempts=SMALL,
    )
    least = -np.inf if prices_sum_to_one else 0.0
    if found is None:  # it always has an optimum; but what HiGHS does not find, the best policy alone replaces
        worth = rewards - cap * np.max(-margins, axis=1, initial=least)
        weights, duals = np.zeros(n_policies), cuts.best_prices
        weights[np.argmax(worth)] = 1.0
    else:
        x, duals = found
        weights = np.maximum(x[:n_policies], 0.0)
        weights /= weights.sum()
    # The numbers are those of the mixture itself, not what the solver says about it.
    slack = float(np.max(-(weights @ margins), initial=least))
    return _Master(
        weights=weights,
        prices=np.maximum(duals[:n_constraints], 0.0),
        slack=slack,
        value=float(weights @ rewards) - cap * slack,
        solved=found is not None,
    )


def _newton_point(cuts: _Cuts, gap: float, cap: float) -> Floats | None:
    """The minimum of a quadratic model of d around the best prices so far; None where the cuts leave no room for it.

    The curvature comes from the margins at the nearest prices tried, which are gradients of d: BFGS updates from the
    farthest to the nearest, so that the nearest count most.
    """
    centre, gradient = cuts.best_prices, cuts.margins[cuts.best_index]
    steps, turns = cuts.prices - centre, cuts.margins - gradient
    lengths, products = np.sum(steps**2, axis=1), np.sum(steps * turns, axis=1)
    # Prices closer than rounding say nothing about the curvature.
    useful = (lengths > 1e-24) & (products > 1e-12 * np.sqrt(lengths * np.sum(turns**2, axis=1)))
    farthest_first = [j for j in np.argsort(-lengths, kind="stable") if useful[j]][-8 * (len(centre) + 1) :]
    if not farthest_first:
        return None
    nearest = farthest_first[-len(centre) - 1 :]
    curvature = np.median(products[nearest] / lengths[nearest]) * np.eye(len(centre))
    for j in farthest_first:
        image = curvature @ steps[j]
        along = float(steps[j] @ image)
        if not along > 1e-12 * lengths[j] * abs(np.trace(curvature)):  # lost to rounding
            continue
        curvature += np.outer(turns[j], turns[j]) / products[j] - np.outer(image, image) / along
    try:
        root = np.linalg.cholesky(curvature)  # the model is |root^T (u - centre) + root^-1 gradient|^2 / 2
        point = nnls(root.T, root.T @ centre - np.linalg.solve(root, gradient))[0]
    except (np.linalg.LinAlgError, RuntimeError):
        return None
    promise = cuts.upper - float(np.max(cuts.rewards + cuts.margins @ point))
    return point if promise >= _ROOM * gap and point.sum() <= cap else None


def _level_point(cuts: _Cuts, master: _Master, gap: float, cap: float, prices_sum_to_one: bool) -> Floats:
    """The prices nearest to the best so far at which no cut exceeds the level.

    A least-distance problem  min |y|  subject to  G y >= h,  solved through non-negative least squares (Lawson and
    Hanson 1974, chapter 23), in units of the gap so that h is of the order of 1 to the end.
    """
    centre = cuts.best_prices
    n_constraints = len(centre)
    values = cuts.rewards + cuts.margins @ centre
    level = master.value + _LEVEL * gap
    directions = -np.vstack([cuts.margins, -np.eye(n_constraints), np.ones(n_constraints)])
    distances = np.concatenate([values - level, -centre, [centre.sum() - cap]]) / gap
    if prices_sum_to_one:  # move within the plane on which the sum stays what it is
        plane = np.linalg.qr(np.column_stack([np.ones(n_constraints), np.eye(n_constraints)[:, 1:]]))[0][:, 1:]
        directions, distances = directions[:-1] @ plane, distances[:-1]
    else:
        plane = np.eye(n_constraints)
    stacked = np.vstack([directions.T, distances])
    target = np.append(np.zeros(plane.shape[1]), 1.0)
    try:
        residual = stacked @ nnls(stacked, target)[0] - target
    except RuntimeError:  # it did not converge
        return master.prices
    if not residual[-1] < 0.0:
        return master.prices
    point = np.maximum(centre - gap * (plane @ (residual[:-1] / residual[-1])), 0.0)
    excess = float(np.max(cuts.rewards + cuts.margins @ point)) - level
    return point if excess <= 0.05 * gap else master.prices
