"""Is there a policy in bounds, with how much to spare, and if not, why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.criteria import criterion_of
from inbounds.criteria.evaluation import values_of
from inbounds.errors import Diagnosis, Infeasible, InvalidInput, Stopped
from inbounds.exact.bundle import Bundle, slater_bundle
from inbounds.exact.limits import NO_LIMITS, Limits
from inbounds.exact.lp import occupancy_lp, slater_lp
from inbounds.exact.optimum import OPTIMAL, STALLED, Optimum, flat_margins
from inbounds.exact.reachable import raised, require_sizes, well_scaled, where_reached
from inbounds.exact.solution import policy_of
from inbounds.inputs import positive, switch
from inbounds.numerics.interrupts import holding_handlers
from inbounds.problem.cmdp import CMDP, require_model
from inbounds.problem.policy import Policy
from inbounds.tables import outwards

INFEASIBLE = 1e-10
"""How far below zero, relative to the priced margins, the best joint margin must be for a problem to be infeasible."""

_BALANCED = 1e4
"""Margins whose sizes are at most this far apart are compared in the user's units at once."""

_NOISE = 1e-13
"""What rounding may take of a margin, relative to its size."""

_REACH = 1e5
"""So many times what is left of a bound may be broken by what is mixed in, with a weight below half its inverse."""

_MUCH = 0.05
"""Of the most that there is to spare."""

_DEAR = 4.0
"""So many times what the prices say that it takes."""

_ROUGHLY = 1e-6
"""How good a policy with room to spare has to be, relative to the best."""

_MORE_THAN_A_LINK = 1e-6
"""A link that takes more of the largest margin than that is worse than none, of which a proof may show nothing."""

_AMPLE = 1e-2
"""With more to spare than this, relative to the largest margin, nothing better is looked for."""

_STEPS = 30
"""Of Newton's method, at most, where they are further apart; three or four are usual."""

PROGRAM_ENTRIES = 240
"""Up to this many columns the linear program is faster than the bundle, certificate included: it wins by a factor of
ten at 100, of two at 200, and loses from about 240 to 320 on."""


@dataclass(frozen=True, eq=False, repr=False)
class Slater:
    """The largest margin that some policy keeps in every constraint at once; values as the criterion has them.

    Attributes
    ----------
    value : float
        That margin, of `policy`, evaluated on the model (the Slater constant); infinite without constraints.
    policy : Policy
        A policy that keeps it.
    upper_bound : float
        No policy keeps more; proved by `prices` and `value_function`.
    prices : array [K]
        Weights >= 0 that sum to 1 over the (scaled) margins.
    value_function : array [S], or [H, S]
        The best value, from each state, of the margins combined with `prices`; less a constant where discounts are so
        close to 1 that it would cost the proof its digits.
    status : str
        "optimal"; "time limit" or "iteration limit" when that came first; "stalled" when rounding left more between
        `value` and `upper_bound` than was asked for.
    """

    value: float
    policy: Policy
    upper_bound: float
    prices: Floats
    value_function: Floats
    status: str = OPTIMAL

    @property
    def gap(self) -> float:
        """How far `value` can be from the largest: upper_bound - value, 0 where rounding makes it negative."""
        return max(self.upper_bound - self.value, 0.0) if np.isfinite(self.value) else 0.0

    def proves_infeasible(self, margin_scales: Floats) -> bool:
        """Whether no policy is in bounds, beyond what rounding explains; never when `policy` itself is."""
        return self.value < 0.0 and self.upper_bound < -INFEASIBLE * float(self.prices @ margin_scales)

    def __repr__(self) -> str:
        most = outwards(self.upper_bound, up=True, digits=10)
        known = "" if self.status == OPTIMAL else f", {self.status}: at most {most}"
        return f"Slater({self.value:.10g}{known})"


@holding_handlers()
def slater(
    cmdp: CMDP,
    *,
    scaled: bool = False,
    tolerance: float = 1e-10,
    time_limit: float | None = None,
    iterations: int | None = None,
) -> Slater:
    """The Slater constant of a problem: the largest margin that some policy keeps in every constraint at once.

    Negative when no policy is in bounds (Slater's condition fails). In the user's units: discounted averages per step,
    normalised by (1 - discount), sums over a finite horizon, or long-run averages. With ``scaled=True`` every margin is
    first divided by the largest that it can be, which is the paper's phi and what `CSPDA` takes. With a `tolerance` of,
    say, 0.3 the policy is found faster, and its margin may be smaller by that share than the largest.

    After `time_limit` seconds, or so many unconstrained solves as `iterations` says, the best that is known by then is
    returned, with bounds that hold, and the limit as its ``status``.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> round(ib.slater(queue).value, 9), round(ib.slater(queue, scaled=True).value, 9)
    (0.48, 0.2)

    No policy of the three-cycle has to move, so it can spend nothing of the 3 moves it may spend:

    >>> round(ib.slater(ib.zoo.three_cycle()).value, 9)
    3.0
    """
    require_model(cmdp, "slater")
    tolerance, scaled = positive(tolerance, "tolerance"), switch(scaled, "scaled")
    return slater_within(cmdp, Limits.of(time_limit, iterations), scaled=scaled, tolerance=tolerance)


def slater_within(cmdp: CMDP, limits: Limits, *, scaled: bool = False, tolerance: float = 1e-10) -> Slater:
    """The same within limits that a larger question has."""
    places = (*cmdp.shape[:-1], cmdp.n_states)
    if cmdp.n_constraints == 0:
        none = freeze(np.empty(0))
        return Slater(np.inf, Policy.uniform(cmdp), np.inf, none, freeze(np.zeros(places)))
    asked = well_scaled(cmdp)
    require_sizes(asked)
    if scaled:  # by what states have that nothing leads to, too
        require_sizes(cmdp)
    criterion, margins, scales = criterion_of(asked), flat_margins(asked), asked.margin_scales
    units = cmdp.margin_scales if scaled else np.ones(cmdp.n_constraints)
    found = _safest(asked, units, tolerance, limits)

    def bound(weights: Floats, value_function: Floats) -> tuple[float, Floats, Floats]:
        """What weights [K] of the scaled margins prove: the upper bound, what they combine to [N], its values."""
        proof = criterion.sharpened(np.einsum("k,kn->n", weights / units, margins), value_function)
        values = raised(cmdp, asked, weights / units, proof, reward_weight=0.0)
        combined = np.einsum("k,kn->n", weights / units, flat_margins(cmdp))
        return criterion.upper_bound(combined, values), combined, values

    upper, combined, values = bound(found.prices, found.value_function)
    question = cmdp.asking(reward=combined.reshape(cmdp.shape), constraints=())

    def followed(occupancy: Floats) -> tuple[float, Floats]:
        """The least margin of the policy of an occupancy, and the policy [N]."""
        taken = policy_of(question, where_reached(cmdp, occupancy), np.empty(0), values)
        judged = values_of(asked, criterion.time_at_entries(criterion.follow(taken)))
        return float(np.min(np.minimum(judged["margins"], scales) / units)), taken  # none is larger, but by rounding

    spent, _ = criterion.linked(found.occupancy, lambda: (found.occupancy,), tolerance, margins / scales[:, None])
    value, taken = followed(spent)
    weights = found.prices

    def is_wide() -> bool:
        return upper - value > 2.0 * max(tolerance, 1e-9) * max(abs(upper), float(np.sum(weights * scales / units)))

    if is_wide():
        with suppress(InvalidInput):  # what falls apart has no average
            unlinked = followed(found.occupancy)
            if unlinked[0] - value > _MORE_THAN_A_LINK * float(np.max(scales / units)):
                value, taken = unlinked

    # Margins far apart in size: perhaps one constraint alone decides, which the rounding of a large one hides.
    if found.status == OPTIMAL and (is_wide() or value < 0.0 <= upper):
        for alone in np.eye(cmdp.n_constraints):
            best = criterion.solve(np.einsum("k,kn->n", alone / units, margins), 0.0, deadline=limits.deadline)
            proved, _, by = bound(alone, best.value_function)
            if proved < upper:
                upper, weights, values = proved, alone, by
    status = STALLED if found.status == OPTIMAL and is_wide() else found.status
    return Slater(
        value=value,
        policy=Policy(cmdp.pairs, taken.reshape(cmdp.shape)),
        upper_bound=upper,
        prices=freeze(weights),
        value_function=freeze(values.reshape(places)),
        status=status,
    )


def _safest(cmdp: CMDP, units: Floats, tolerance: float, limits: Limits = NO_LIMITS) -> Optimum:
    """An occupancy whose least margin, each divided by its entry of `units` [K], is largest.

    Let t be that margin. In terms of the margins' own scales D_k, the largest t is where

        phi(t)  =  max over policies of  min over k of  (margin_k - t units_k) / D_k

    is zero, whatever D > 0. When sizes are far apart, programs in the user's units would be hopeless; phi is not. It is
    concave and falls, and prices p [K] that prove phi(t) give its slope, - sum_k p_k units_k / D_k: Newton's method
    comes down on the largest t from above.
    """
    scales = cmdp.margin_scales
    if float(np.max(scales / units)) <= _BALANCED * float(np.min(scales / units)):
        return _safest_balanced(cmdp, units, tolerance, limits)
    most = float(np.min(scales / units))  # that any policy can have
    level, solves, first, last = 0.0, 0, None, None
    for _ in range(_STEPS):
        moved = cmdp.tightened(level * units)
        found = _safest_balanced(moved, moved.margin_scales, 1e-10, limits)
        solves += found.unconstrained_solves
        weights = found.prices / moved.margin_scales
        slope = float(np.sum(weights * units))
        down = found.upper_bound / slope
        criterion = criterion_of(cmdp)
        values = found.value_function / slope + criterion.level(level)
        found = found._replace(
            prices=weights * units / slope,
            value_function=values,
            upper_bound=level + down,
            unconstrained_solves=solves,
        )
        first, last = first or found, found
        if found.status != OPTIMAL or abs(down) <= tolerance * max(abs(level), most):
            break
        level = min(level + down, most)
    assert first is not None and last is not None
    # At that level the large margins are zero up to their own rounding. A little of the policy that has room in each
    # of them, relative to its size, keeps that from counting.
    margins = flat_margins(cmdp)
    short, room = (
        np.sum(o * margins, axis=1) - level * units - np.where(scales > _BALANCED * most * units, _NOISE * scales, 0.0)
        for o in (last.occupancy, first.occupancy)
    )
    lifts = room > np.maximum(short, 0.0)
    weight = float(np.max(np.where(lifts & (short < 0.0), -short / np.where(lifts, room - short, 1.0), 0.0)))
    if 0.0 < weight <= 1e-6:
        last = last._replace(occupancy=(1.0 - weight) * last.occupancy + weight * first.occupancy)
    return last


def _safest_balanced(cmdp: CMDP, units: Floats, tolerance: float, limits: Limits) -> Optimum:
    found = slater_lp(cmdp, units) if cmdp.reward.size <= PROGRAM_ENTRIES else None
    if found is None:
        found = slater_bundle(criterion_of(cmdp), flat_margins(cmdp), cmdp.margin_scales, units, tolerance, limits)
    return found


def spare_occupancy(problem: CMDP, found: Optimum, enough: float = 0.0) -> Floats | None:
    """An occupancy [N] with a margin to spare in every constraint: what the solver came by, or the safest there is.

    The former if its least margin, relative to the largest, is more than `enough`; otherwise the one that costs the
    least for the room that it has, if it has much of what there is. None when no policy is known to have one. Linked,
    as policies of long-run averages have to be: a little of one that falls apart makes another fall apart.
    """
    if problem.n_constraints == 0:
        return found.spare
    scaled = flat_margins(problem) / problem.margin_scales[:, None]

    def linked(occupancy: Floats) -> Floats:
        return criterion_of(problem).linked(occupancy, tuple, _NOISE, scaled)[0]

    def room(occupancy: Floats) -> float:
        return float(np.min(np.sum(occupancy * scaled, axis=1)))

    if found.spare is not None and room(found.spare) > enough:
        return linked(found.spare)
    safest = _safest(problem, problem.margin_scales, 1e-10)
    if not safest.upper_bound > 0.0:
        return None
    known = [linked(where_reached(problem, own)) for own in (found.spare, safest.occupancy) if own is not None]
    most, best, reward = max(map(room, known)), found.value(problem.reward), problem.reward.ravel()

    def cost(occupancy: Floats) -> float:
        """What it takes of the reward, for the room that it has; a little room is none."""
        own = room(occupancy)
        return (best - float(np.sum(occupancy * reward))) / own if own > _MUCH * most else np.inf

    least = float(np.sum(found.prices * problem.margin_scales))  # so much any policy takes
    if 0.0 < most < _AMPLE and min(map(cost, known)) > _DEAR * max(least, np.finfo(float).tiny):
        cheaper = _best_with_room(problem, 0.5 * most)
        known += [] if cheaper is None else [linked(where_reached(problem, cheaper))]
    return min(known, key=cost)


def _best_with_room(problem: CMDP, room: float) -> Floats | None:
    """An occupancy that is good for one with room in all bounds, relative to the largest margins, if it is found."""
    inside, found = problem.tightened(room * problem.margin_scales), None
    if problem.reward.size <= PROGRAM_ENTRIES:
        found = occupancy_lp(inside)
    else:
        search = Bundle(criterion_of(inside), inside.reward.ravel(), flat_margins(inside), problem.margin_scales)
        with suppress(Stopped):
            found = search.solve(_ROUGHLY)
    return None if found is None else found.occupancy


def spare_occupancies(problem: CMDP, found: Optimum, enough: float = 0.0, *, lifting: bool = True) -> Iterator[Floats]:
    """Occupancies [N] of which a little brings `found` inside its bounds, the cheapest first, as far as they are known.

    A constraint that does not bind need not be kept by what is mixed in so sparingly, and where little is to spare in
    all constraints at once there may be a lot in those that bind. So with `lifting` the first has a margin to spare in
    these, and is out of the other bounds by at most `_REACH` times what `found` has left of them. The last is
    `spare_occupancy`.
    """
    left = np.maximum(np.sum(found.occupancy * flat_margins(problem), axis=1), 0.0)
    if lifting and np.any(left > 0.0):
        relaxed = problem.tightened(-np.minimum(_REACH * left, 2.0 * problem.margin_scales))
        lifted = spare_occupancy(relaxed, found, max(enough, _AMPLE))
        if lifted is not None:
            yield lifted
    spare = spare_occupancy(problem, found, enough)
    if spare is not None:
        yield spare


def infeasible(problem: CMDP, proof: Slater, attempt: Callable[[CMDP], Optimum | Slater]) -> Infeasible:
    """The exception for a problem without a policy in bounds.

    `attempt` solves a problem: it returns a mixture, or a proof that there is none. Each constraint is asked twice,
    with its margin in the place of the reward: what is the best alone, and what is the best that the others allow? When
    the latter is negative, that is how far the bound has to be relaxed. Where a limit is reached first, the answer is
    left open: a mixture that a limit cut short is not the best. That no policy meets a constraint is said where the
    upper bound of its margin is below zero.
    """

    def whole(found: Optimum | Slater) -> Optimum | Slater:
        if isinstance(found, Optimum) and found.status not in (OPTIMAL, STALLED):
            raise Stopped(found.status)
        return found

    names = tuple(constraint.name for constraint in problem.constraints)
    bounds = np.array([constraint.bound for constraint in problem.constraints])
    alone, relaxed, complete = np.full(len(names), np.nan), np.full(len(names), np.nan), True
    hopeless = np.zeros(len(names), dtype=bool)
    for k, constraint in enumerate(problem.constraints):
        others = problem.constraints[:k] + problem.constraints[k + 1 :]
        margin, outward = problem.margins[k], constraint.outward
        try:
            free = whole(attempt(problem.asking(reward=margin, constraints=())))
            assert isinstance(free, Optimum)
            alone[k] = bounds[k] + outward * free.value(margin)
            hopeless[k] = free.upper_bound < -INFEASIBLE * problem.margin_scales[k]
            best = whole(attempt(problem.asking(reward=margin, constraints=others)))
        except Stopped:
            complete = False
            break
        if isinstance(best, Optimum):
            relaxed[k] = bounds[k] + outward * min(best.value(margin), 0.0)
    for values in (alone, relaxed):  # zero is easier to read than what rounding leaves of it
        values[np.abs(values) <= 1e-12 * problem.margin_scales] = 0.0
    weights = proof.prices * problem.margin_scales  # what counts is the share of the proof, whatever the units
    conflicting = hopeless if np.any(hopeless) else weights > 1e-9 * weights.sum()
    return Infeasible(
        slater=proof.value,
        prices=proof.prices,
        value_function=proof.value_function,
        diagnosis=Diagnosis(
            names=names,
            at_least=tuple(constraint.at_least is not None for constraint in problem.constraints),
            bounds=freeze(bounds),
            best_alone=freeze(alone),
            relaxed_bounds=freeze(relaxed),
            conflict=tuple(name for name, involved in zip(names, conflicting, strict=True) if involved),
            each_alone=bool(np.any(hopeless)),
            complete=complete,
        ),
    )
