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
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from inbounds.arrays import Floats, Ints
from inbounds.criteria.contract import Criterion
from inbounds.exact.highs import INFINITE, SMALL, Columns, minimise
from inbounds.exact.mixture import Mixture, Units

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

_CUT_ACCURACY = 1e-12
"""Of the occupancies behind the cuts, in the sum of absolute values."""

_CAP = 10.0
"""The first bound on the sum of the scaled prices; it grows tenfold whenever the best prices turn out to be beyond."""

_LARGEST_CAP = 1e11

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
    """

    def __init__(self, criterion: Criterion, reward: Floats, margins: Floats, scales: Floats) -> None:
        self._units = Units.of(criterion, reward, scales)
        self._dual = _Dual(criterion, self._units.objective(reward), margins, scales)

    def solve(self, tolerance: float = 1e-8, progress: GapProgress | None = None) -> Mixture | None:
        """The occupancy of a best policy in bounds, with prices; None when prices prove that no policy is in bounds.

        The gap is at most `tolerance` relative to the optimum (or to a hundredth of the spread of the rewards where the
        optimum is closer to zero than that), or what rounding allows.
        """
        dual, units = self._dual, self._units

        def report(solves: int, lower: float, upper: float) -> None:
            if progress is not None:
                progress(solves, units.value(lower), units.value(upper))

        weights = _close_gap(dual, lambda upper: units.gap_allowed(tolerance, upper), report, prices_sum_to_one=False)
        if weights is None:
            return None
        return Mixture(
            occupancy=dual.mixed_occupancy(weights),
            prices=units.prices(dual.best_prices),
            value_function=units.value_function(dual.best_value_function),
            upper_bound=units.value(dual.upper),
            unconstrained_solves=dual.solves,
            spare=dual.safest_occupancy(),
        )


def slater_bundle(
    criterion: Criterion, margins: Floats, margin_scales: Floats, units: Floats, tolerance: float = 1e-10
) -> Mixture:
    """An occupancy whose least margin, each divided by its entry of `units` [K], is largest.

    The prices sum to 1, and the value function is that of the margins so divided and combined with them: it proves
    that no policy does better. There must be at least one constraint.
    """
    unit = float(np.min(margin_scales / units))  # no policy's least margin is larger than this
    dual = _Dual(criterion, np.zeros(margins.shape[1]), margins, units * unit)
    weights = _close_gap(dual, lambda upper: tolerance * max(abs(upper), 0.1), None, prices_sum_to_one=True)
    assert weights is not None  # a least margin always has a maximum
    return Mixture(
        occupancy=dual.mixed_occupancy(weights),
        prices=dual.best_prices,
        value_function=unit * dual.best_value_function,
        upper_bound=unit * dual.upper,
        unconstrained_solves=dual.solves,
    )


class _Dual:
    """The dual function d of a problem: the policies found so far, their cuts, and the best prices.

    Attributes
    ----------
    rewards : array [J], margins : array [J, K]
        Of the policies found so far, scaled: the cuts are ``rewards + margins @ prices``.
    prices : array [J, K]
        Where they were found.
    uppers : array [J]
        Bounds on d there.
    best_index : int
        Where that bound is least.
    """

    def __init__(self, criterion: Criterion, objective: Floats, signals: Floats, scales: Floats) -> None:
        n_constraints = len(signals)
        self.objective = objective
        self.signals = signals
        self.scales = scales
        self.criterion = criterion
        self.rewards = np.empty(0)
        self.margins = np.empty((0, n_constraints))
        self.prices = np.empty((0, n_constraints))
        self.uppers = np.empty(0)
        self._policies: list[tuple[Ints, Floats]] = []  # where they can be, and for how long
        self._value_functions: list[Floats] = []
        self._last: Any = None

    @property
    def solves(self) -> int:
        return len(self._policies)

    @property
    def best_index(self) -> int:
        return int(np.argmin(self.uppers))

    @property
    def upper(self) -> float:
        return float(self.uppers.min())

    @property
    def best_prices(self) -> Floats:
        return self.prices[self.best_index]

    @property
    def best_value_function(self) -> Floats:
        return self._value_functions[self.best_index]

    def solve(self, prices: Floats, tolerance: float) -> None:
        """Evaluate d at `prices` up to `tolerance`, and add the cut of the policy found there."""
        # Not a product of matrices, here and below: BLAS would wake all cores for it.
        reward = self.objective + np.einsum("k,kn->n", prices / self.scales, self.signals)
        found = self._last = self.criterion.solve(reward, tolerance, self._last)
        time = self.criterion.time(found, _CUT_ACCURACY, self._policies[-1][1] if self._policies else None)
        self._policies.append((found.chosen, time))
        self._value_functions.append(found.value_function)
        self.prices = np.vstack([self.prices, prices])
        self.uppers = np.append(self.uppers, found.upper)
        self.rewards = np.append(self.rewards, np.sum(time * self.objective[found.chosen]))
        margins = np.sum(self.signals[:, found.chosen] * time, axis=1) / self.scales
        self.margins = np.vstack([self.margins, margins])

    def mixed_occupancy(self, weights: Floats) -> Floats:
        """The occupancy [N] of the policies found so far, mixed with `weights` [J]."""
        occupancy = np.zeros(len(self.objective))
        for weight, (chosen, time) in zip(weights, self._policies, strict=True):
            if weight > 0.0:
                occupancy[chosen] += weight * time
        return occupancy

    def safest_occupancy(self) -> Floats | None:
        """The mixture [N] of the policies found so far with the largest least margin; None if that is not positive."""
        if not self.margins.size:
            return None
        safest = _solve_master(np.zeros(len(self.rewards)), self.margins, 1.0, prices_sum_to_one=True)
        return self.mixed_occupancy(safest.weights) if safest.slack < 0.0 else None


class _Master(NamedTuple):
    weights: Floats  # [J], of the policies in the best mixture
    prices: Floats  # [K], where the largest cut is least
    slack: float  # the largest violation of the mixture; minus its least margin when prices sum to one
    value: float


def _close_gap(
    dual: _Dual,
    gap_allowed: Callable[[float], float],
    report: GapProgress | None,
    prices_sum_to_one: bool,
) -> Floats | None:
    """Add cuts until the gap is small enough; the weights of the mixture, or None when no policy is in bounds."""
    n_constraints = dual.margins.shape[1]
    freedom = n_constraints - prices_sum_to_one
    cap = 1.0 if prices_sum_to_one else _CAP
    prices = np.full(n_constraints, 1.0 / n_constraints) if prices_sum_to_one else np.zeros(n_constraints)
    inner, smallest, quiet, vertex_gap = _FIRST_INNER, np.inf, 0, _VERTEX_GAP
    while True:
        dual.solve(prices, inner)
        while True:
            master = _solve_master(dual.rewards, dual.margins, cap, prices_sum_to_one)
            gap, allowed = dual.upper - master.value, gap_allowed(dual.upper)
            quiet = 0 if gap < 0.99 * smallest else quiet + 1
            smallest = min(gap, smallest)
            # Rounding, or the tolerances of the master, can leave a gap that no cut closes.
            stuck = quiet > 20 + 4 * n_constraints
            in_bounds = prices_sum_to_one or master.slack <= _SLACK
            small = allowed if in_bounds else max(allowed, 0.01 * cap * master.slack)
            if in_bounds or not (gap <= small or stuck) or cap >= _LARGEST_CAP:
                break
            # The best prices within the cap leave a violation: better ones are beyond it, or there are none.
            cap, smallest, quiet = 10.0 * cap, np.inf, 0
        if report is not None:
            report(dual.solves, master.value if in_bounds else -np.inf, dual.upper)
        if not prices_sum_to_one and dual.upper < -1.0 - allowed:
            return None  # d is at least the reward of any policy in bounds, and that at least -1
        if gap <= allowed or stuck:
            return master.weights
        inner = max(_INNER * gap, 0.1 * allowed) * 0.5 ** min(quiet, 10)
        newton = None if prices_sum_to_one else _newton_point(dual, gap, cap)
        if freedom == 0 or (newton is None and gap < vertex_gap):
            prices, inner, vertex_gap = master.prices, 1e-3 * allowed, 0.01 * gap
        elif newton is not None:
            prices = newton
        else:
            prices = _level_point(dual, master, gap, cap, prices_sum_to_one)


def _solve_master(rewards: Floats, margins: Floats, cap: float, prices_sum_to_one: bool) -> _Master:
    """The best mixture of the policies found so far, and the prices that prove it best."""
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
    if found is None:
        raise RuntimeError("HiGHS found no optimum of a master program, which always has one; please report it")
    x, duals = found
    weights = np.maximum(x[:n_policies], 0.0)
    weights /= weights.sum()
    # The numbers are those of the mixture itself, not what the solver says about it.
    slack = float(np.max(-(weights @ margins), initial=-np.inf if prices_sum_to_one else 0.0))
    return _Master(
        weights=weights,
        prices=np.maximum(duals[:n_constraints], 0.0),
        slack=slack,
        value=float(weights @ rewards) - cap * slack,
    )


def _newton_point(dual: _Dual, gap: float, cap: float) -> Floats | None:
    """The minimum of a quadratic model of d around the best prices so far; None where the cuts leave no room for it.

    The curvature comes from the margins at the nearest prices tried, which are gradients of d: BFGS updates from the
    farthest to the nearest, so that the nearest count most.
    """
    centre, gradient = dual.best_prices, dual.margins[dual.best_index]
    steps, turns = dual.prices - centre, dual.margins - gradient
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
    promise = dual.upper - float(np.max(dual.rewards + dual.margins @ point))
    return point if promise >= _ROOM * gap and point.sum() <= cap else None


def _level_point(dual: _Dual, master: _Master, gap: float, cap: float, prices_sum_to_one: bool) -> Floats:
    """The prices nearest to the best so far at which no cut exceeds the level.

    A least-distance problem  min |y|  subject to  G y >= h,  solved through non-negative least squares (Lawson and
    Hanson 1974, chapter 23), in units of the gap so that h is of the order of 1 to the end.
    """
    centre = dual.best_prices
    n_constraints = len(centre)
    cuts = dual.rewards + dual.margins @ centre
    level = master.value + _LEVEL * gap
    directions = -np.vstack([dual.margins, -np.eye(n_constraints), np.ones(n_constraints)])
    distances = np.concatenate([cuts - level, -centre, [centre.sum() - cap]]) / gap
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
    excess = float(np.max(dual.rewards + dual.margins @ point)) - level
    return point if excess <= 0.05 * gap else master.prices
