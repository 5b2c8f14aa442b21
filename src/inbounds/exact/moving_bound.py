"""The price of safety: the optimum as one bound moves from where it does not matter to where nothing is in bounds.

As a function of the bound the optimum is concave and piecewise linear (its dual is a minimum of linear functions of the
bound), and its slope is the price. It is flat while the bound does not matter, then falls ever more steeply, and ends
where no policy keeps the bound together with the others.

All points are solved along one path (`inbounds.exact.path`): a policy's margin moves with the bound by the same amount
for every policy, so every policy and every upper bound found for one point serves all others, and small changes of the
best policy at one point lead to the next. Where that fails, a point is solved on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.criteria import criterion_of
from inbounds.criteria.evaluation import ROUNDING, values_of, within_rounding
from inbounds.errors import Infeasible, InvalidInput, Stopped
from inbounds.exact.bundle import Bundle, Round
from inbounds.exact.feasibility import spare_occupancy
from inbounds.exact.frontier import CLOSE, Frontier
from inbounds.exact.limits import TIME, Limits, Partial, state_to_resume
from inbounds.exact.methods import Watch, best_mixture, brought_back, gap_allowed, with_few_coins
from inbounds.exact.optimum import OPTIMAL, STALLED, UNPROVED, Optimum, flat_margins
from inbounds.exact.path import Path, Place
from inbounds.exact.reachable import require_sizes, well_scaled
from inbounds.exact.solution import Solution, assemble, policy_of
from inbounds.inputs import callback, float_array, positive, whole_number, within
from inbounds.problem.cmdp import CMDP
from inbounds.problem.pieces import attach

Prover = Callable[..., Solution]
"""Called as ``judge(problem, mixture, method=..., progress=...)``: what it is worth, moved to where that is proved."""

Says = Callable[[str], None]
"""Told in words what is being done."""

_FLAT_SHARE = 0.15
"""The share of the points, at most, that show where the bound does not matter yet."""

MOST_POINTS = 100_000
"""Each keeps a solution."""

_EDGE = 1e-4
"""The frontier ends this share of its length before the last bound that can be met: there the price may be infinite."""

_CLOSELY = 1e-8
"""The relative gap to which a point is solved alone that is to be a vertex: from there one is quick to find."""

_VERTICES = 50_000
"""Pairs (times stages) up to which every point is a vertex, and its prices exact: with more, one takes longer."""

_LEANING = 1e-7
"""Of the reward, in the units of both: what a margin counts where policies are equally good but for that."""

_LAST_DIGITS = 1e-13
"""The relative gap to which the best of these is found: what is left of it, over the leaning, is how far off it is."""

_MORE_THAN_A_LINK = 1e-5
"""Of the largest margin: a policy that has less to spare may have none once its classes are linked."""

_SHARES = np.geomspace(1e-9, 1.0, 28)
"""Of a safer policy, tried in turn where one that is best by its occupancy is out of bounds when it is followed."""


def along_bounds(
    cmdp: CMDP,
    constraint: int | str,
    points: int,
    *,
    bounds: Sequence[float] | None = None,
    between: tuple[float, float] | None = None,
    tolerance: float = 1e-6,
    judge: Prover | None = None,
    ties: bool = True,
    progress: Callable[[int, int], None] | None = None,
    says: Says | None = None,
    time_limit: float | None = None,
    iterations: int | None = None,
    resume: Partial | None = None,
) -> Frontier:
    """``ib.frontier``; with a `judge` every point is a vertex, as in small problems, and what the judge makes of it.

    Without `ties`, where the bound begins to matter is told of one of the policies that are best without it.
    """
    if not isinstance(cmdp, CMDP):
        raise InvalidInput(f"frontier takes a CMDP; found {type(cmdp).__name__}")
    if not cmdp.constraints:
        raise InvalidInput("the problem has no constraint whose bound could move")
    k, points = cmdp.constraint_number(constraint), whole_number(points, "points", 2, MOST_POINTS)
    progress, says = callback(progress), callback(says, "says")
    tolerance = positive(tolerance, "tolerance")
    wanted = wanted_bounds(bounds, between, points)
    asked, limits = (cmdp, k, points, tolerance, wanted, judge), Limits.of(time_limit, iterations)
    state = state_to_resume(resume, asked)
    if resume is not None:
        asked, cmdp = resume.asked, resume.asked[0]  # the same model, and the very one that the path knows
    way = _Walk(cmdp, k, points, tolerance, limits, wanted, judge, state, says, ties)
    if progress is not None:
        progress(0 if way.state is None else len(way.state.solutions), len(wanted or range(points)))
    try:
        for _ in way.go():
            if progress is not None:
                progress(len(way.state.solutions), len(way.bounds))
        return way.curve()
    except Stopped as stopped:
        partial = way.known(stopped.status, asked)
        if partial.points:
            return way.curve(stopped.status, partial)
        raise Stopped(stopped.status, partial) from None
    except Infeasible:
        raise
    except BaseException as error:
        partial = way.known("interrupted", asked)
        attach(error, replace(partial, curve=way.curve("interrupted", partial)) if partial.points else partial)
        raise


def bounds_of_interest(
    cmdp: CMDP, k: int, points: int, tolerance: float, time_limit: float | None, says: Says | None = None
) -> Floats:
    """The bounds [P] that a frontier has where none are asked for, from the loosest to the tightest."""
    way = _Walk(cmdp, k, points, tolerance, Limits.of(time_limit, None), None, None, None, says)
    way.find_bounds()
    return way.bounds


class _Ends(NamedTuple):
    """Where a frontier begins and ends, as margins at the bound that is counted from: how much tighter it can be."""

    free: Optimum
    loose: float  # of the policy `free`
    idle: float  # of some policy that is as good: so much tighter it can be at no cost
    tight: float  # a policy keeps it
    beyond: float  # no policy keeps more
    path: Path
    solves: int  # besides those of the path
    ways: Any  # of the criterion


class _State(NamedTuple):
    """Where a walk along a frontier is between two points: all that the next one depends on."""

    path: Path
    last: Place | None  # approached, and not yet settled
    solutions: tuple[Solution, ...]
    solves: int
    ways: Any  # of the criterion
    lost: bool = False  # whether small changes did not lead to a point
    alone: tuple[float, Bundle] | None = None  # the last bound for which there is a bundle


class _Point(NamedTuple):
    """The answer at one bound, and what it took."""

    solution: Solution
    solves: int = 0  # besides those of the path
    alone: tuple[float, Bundle] | None = None  # where it was solved on its own: as in `_State`


class _Walk:
    """A frontier on its way. `ends` and `state` are replaced as a whole: an interruption leaves a valid one.

    Bounds are counted from the present one, or from that end of the signal's own range which is closest to it: from a
    bound far outside, as many digits of the others would be lost.
    """

    def __init__(
        self,
        cmdp: CMDP,
        k: int,
        points: int,
        tolerance: float,
        limits: Limits,
        wanted: tuple[float, ...] | None,
        judge: Prover | None,
        resume: Any,
        says: Says | None = None,
        ties: bool = True,
    ) -> None:
        self.k, self.points, self.tolerance, self.limits, self.wanted = k, points, tolerance, limits, wanted
        self.given, self.judge = cmdp, judge
        self._says: Says = (lambda doing: None) if says is None else says
        self.coins = "any" if judge is None and cmdp.reward.size > _VERTICES else "few"
        self.ties = ties and self.coins == "few"
        self.present, asked = cmdp.constraints[k].bound, well_scaled(cmdp)
        signal = asked.constraints[k].signal
        least, most = (float(np.sum(ends)) for ends in (signal.min(axis=-1), signal.max(axis=-1)))
        self.own = asked.constraints[k].with_bound(min(max(self.present, least), most))
        self.cmdp = self._at(asked, self.own.bound)
        require_sizes(self.cmdp)
        self.scale = float(self.cmdp.margin_scales[k])
        self.bounds = self.impossible = np.empty(0)
        self.ends: _Ends | None = None
        self.state: Any = None
        if resume is not None:
            self.ends, self.state = resume
            criterion_of(self.cmdp).ways = (self.state or self.ends).ways

    def _at(self, problem: CMDP, bound: float) -> CMDP:
        moved = (c.with_bound(bound) if j == self.k else c for j, c in enumerate(problem.constraints))
        return problem.asking(constraints=tuple(moved))

    def _amounts(self, amount: float) -> Floats:
        """How much tighter each bound is, [K], where that which moves is so by `amount`."""
        amounts = np.zeros(self.cmdp.n_constraints)
        amounts[self.k] = amount
        return amounts

    def go(self) -> Iterator[None]:
        """Solve point after point."""
        tightened, ends = self.find_bounds()
        if self.state is None:
            self.state = _State(ends.path, None, (), ends.solves, ends.ways)
        first, inside = (int(np.count_nonzero(tightened <= end)) for end in (ends.loose, self._inside))
        amounts = [self._amounts(amount) for amount in tightened]
        while (done := len(self.state.solutions)) < len(self.bounds):
            if limit := self.limits.reached(self.unconstrained_solves):
                raise Stopped(limit)
            path, last = self.state.path.kept(self.state.last)
            path.limits = self.limits._replace(iterations=None)
            solutions, lost = self.state.solutions, self.state.lost
            bound = float(self.bounds[done])
            self._doing("")
            if done < first and solutions and self.coins == "any":  # the same policy, and the same upper bound
                values = values_of(self._at(self.cmdp, bound), solutions[0].occupancy.ravel())
                point = _Point(replace(solutions[0], **values))
            elif done < first:
                point = self._solution(bound, ends.free)
            elif done < inside:
                settled = None
                if not (lost and self.judge):  # points that are proved have to be solved well, which is as quick alone
                    place = last if last is not None else path.approach(amounts[done], self.tolerance)
                    last = path.approach(amounts[done + 1], self.tolerance) if done + 1 < inside else None
                    settled = path.settle(place, self.tolerance)
                lost = lost or settled is None
                point = self._solution(bound, settled)
            elif (edge := self._at_the_edge(bound)) is not None:
                point = edge
            else:  # and none that is tighter
                self.bounds, lost = np.split(self.bounds, [done])
                self.impossible = np.concatenate([lost, self.impossible])
                break
            solves, alone = self.state.solves + point.solves, point.alone or self.state.alone
            ways = criterion_of(self.cmdp).ways
            self.state = _State(path, last, (*solutions, point.solution), solves, ways, lost, alone)
            yield

    def _ends(self) -> _Ends:
        cmdp, k, tolerance, scales = self.cmdp, self.k, self.tolerance, self.cmdp.margin_scales
        criterion, margins, reward = criterion_of(cmdp), flat_margins(cmdp), cmdp.reward.ravel()
        others = np.delete(np.arange(cmdp.n_constraints), k)
        name = self.own.name
        self._says(f"from where on the bound on {name} matters")
        path = Path(criterion, reward, margins, scales, self.limits)
        (free,) = path.follow([self._amounts(-2.0 * self.scale)], tolerance)  # so loose that it cannot matter
        self._says(f"the tightest bound on {name} that a policy keeps")
        ahead = Path(criterion, margins[k], margins[others], scales[others], self.limits)
        (best,) = ahead.follow([np.zeros(len(others))], tolerance)
        solves = ahead.unconstrained_solves
        if free is None or best is None:  # perhaps the others exclude each other
            without = cmdp.asking(constraints=cmdp.constraints[:k] + cmdp.constraints[k + 1 :])
            free = self._whole(without)
            best = self._whole(without.asking(reward=cmdp.margins[k]))
            solves += free.unconstrained_solves + best.unconstrained_solves
            free = free._replace(prices=np.insert(free.prices, k, 0.0))
        # What a policy keeps when it is followed: next to a discount of 1, its occupancy has fewer digits.
        loose, tight = (
            min(_followed_value(cmdp, end, margins[k], tolerance), end.value(margins[k])) for end in (free, best)
        )
        idle, more = self._idle(free, loose) if self.ties else (loose, 0)
        if criterion.mass_row:  # of averages, a policy may keep that which no other that is as good can be linked to
            idle = min(idle, max(loose, tight))
        idle = min(idle, best.upper_bound)
        tight = max(tight, idle)  # which a policy keeps
        return _Ends(free, loose, idle, tight, best.upper_bound, path, solves + more, criterion.ways)

    def _idle(self, free: Optimum, loose: float) -> tuple[float, int]:
        """How tight the bound can be at no cost, and the solves that it took to find out.

        Where several policies are best without it, one that leans to its margin keeps the most.
        """
        cmdp, k = self.cmdp, self.k
        margin, reward = flat_margins(cmdp)[k], cmdp.reward.ravel()
        size = float(np.max(np.abs(reward))) or 1.0
        leaning = cmdp.reward + _LEANING * size * cmdp.layers / self.scale * cmdp.margins[k]
        without = cmdp.asking(reward=leaning, constraints=cmdp.constraints[:k] + cmdp.constraints[k + 1 :])
        try:
            found = self._to_the_last_digits(without)
        except Stopped as stopped:
            if stopped.status != STALLED:
                raise
            return loose, 0
        kept, worth = (self._reached(found, signal) for signal in (margin, reward))
        better, idle = worth - free.limit(reward), loose
        if better >= 0.0:  # `free` is only as good as was asked for
            idle = kept
        elif better >= -ROUNDING * size * cmdp.layers:
            idle = max(loose, kept)
        return idle, found.unconstrained_solves

    def _reached(self, found: Optimum, signal: Floats) -> float:
        """What policies come as close to as one likes: of averages, the value of a mixture before it is linked.

        Of other criteria the value of its policy itself: next to a discount of 1, its occupancy has fewer digits.
        """
        if criterion_of(self.cmdp).mass_row:
            return found.limit(signal)
        return _followed_value(self.cmdp, found, signal, self.tolerance)

    def _to_the_last_digits(self, problem: CMDP) -> Optimum:
        """The best mixture, as good as a vertex can be told from its neighbours."""
        if not problem.n_constraints:
            return self._whole(problem, _LAST_DIGITS)
        found = self._whole(problem, min(self.tolerance, _CLOSELY))
        for tolerance in (_LAST_DIGITS, _CLOSELY):
            vertex = with_few_coins(problem, found, tolerance, self.limits)
            self._require_time()
            if vertex is not found:
                return vertex
        return found

    @property
    def _inside(self) -> float:
        """How much tighter a bound can be for its point to be on the path.

        Not the last bound itself: rounding could put the margin of a signal that never changes on either side of it.
        """
        assert self.ends is not None
        return self.ends.tight - CLOSE * self.scale

    def find_bounds(self) -> tuple[Floats, _Ends]:
        """How much tighter the bound is at each point, [P], and the ends; sets the bounds, and what nothing keeps."""
        if self.ends is None:
            self.ends = self._ends()
        own, ends = self.own, self.ends
        if self.wanted is not None:
            wanted = own.outward * np.sort(own.outward * np.array(self.wanted))
            tightened = own.outward * (wanted - own.bound)
            kept = tightened <= ends.beyond + CLOSE * self.scale  # some of them may not be: see below
            self.bounds, self.impossible = wanted[kept], wanted[~kept]
            return tightened[kept], ends
        loose, tight = ends.idle, ends.tight
        length = tight - loose if tight - loose > ROUNDING * self.scale else 0.0
        flat = min(int(_FLAT_SHARE * self.points), self.points - 2)
        before = length * flat / (self.points - 1 - flat) if length > 0.0 else self.scale
        tightened = np.linspace(loose - before, min(tight - _EDGE * (length or before), self._inside), self.points)
        self.bounds = own.bound + own.outward * tightened
        now, room = own.outward * (self.present - own.bound), CLOSE * self.scale
        if self.points > 2 and tightened[0] + room < now < tightened[-1] - room:
            closest = 1 + int(np.argmin(np.abs(tightened[1:-1] - now)))
            tightened[closest], self.bounds[closest] = now, self.present
        return tightened, ends

    def _at_the_edge(self, bound: float) -> _Point | None:
        """At a bound between what a policy is known to keep and what none keeps: solved on its own, if it can be."""
        try:
            point = self._solution(bound, None)
        except (Infeasible, Stopped) as error:
            if isinstance(error, Stopped) and error.status != STALLED:
                raise
            return None
        return point if within_rounding(point.solution.margins, point.solution.margin_scales) else None

    def _solution(self, bound: float, mixture: Optimum | None) -> _Point:
        """At a bound: from the path, or solved on its own, by a bundle that begins with what the last one knew."""
        there, limits = self._at(self.cmdp, bound), self.limits._replace(iterations=None)
        nearly: Solution | None = None
        if mixture is not None:
            found = self._finished(bound, there, _linked(there, mixture, self.tolerance), "path")
            if found is not None and found.in_bounds:
                found = self._called(there, found)
                if found.status != STALLED or found.linked:  # what links classes is no better alone
                    return _Point(found)
                nearly = found
        tolerance = min(self.tolerance, _CLOSELY) if self.coins == "few" else self.tolerance
        watch, coins = Watch(self._known_of(there, bound)), "any" if self.judge is None else "few"

        def told(solves: int, lower: float, upper: float) -> None:
            self._doing(f": {solves} solves, gap {upper - lower:.1e}")

        alone, by = best_mixture(there, tolerance=tolerance, progress=told, limits=limits, coins=coins, watch=watch)
        if alone.status not in (OPTIMAL, STALLED):
            raise Stopped(alone.status)
        self._require_time()
        bundle = None
        if isinstance(watch.search, Bundle):
            bundle = bound, watch.search
            taken_along = 0 if watch.resume is None else watch.resume.cuts.solves
            alone = alone._replace(unconstrained_solves=alone.unconstrained_solves - taken_along)
        again = self._finished(bound, there, alone, by)
        assert again is not None
        if nearly is not None and (nearly.gap <= again.gap or not again.in_bounds):
            again = nearly
        return _Point(self._called(there, again), alone.unconstrained_solves, bundle)

    def _known_of(self, there: CMDP, bound: float) -> Round | None:
        """What a bundle at a bound can begin from."""
        if self.state.alone is None:
            return None
        before, bundle = self.state.alone
        return bundle.where(self._amounts(self.own.outward * (bound - before)), there.margin_scales)

    def _finished(self, bound: float, there: CMDP, mixture: Optimum, by: str) -> Solution | None:
        """A mixture as an answer: a vertex, where few coins are wanted, and proved, where that was asked for.

        None where the path led to no vertex that could be proved: from a closer mixture one is easier to find.
        """
        few, from_path = mixture, by == "path"
        if self.coins == "few" and (from_path or self.judge is None):
            self._doing(": few coins")
            few = with_few_coins(there, mixture, self.tolerance, self.limits, thorough=False)
            self._require_time()
        if self.judge is None:
            return (
                assemble(there, brought_back(there, there, few), method=by)
                if from_path
                else self._brought_in(there, few, by)
            )
        if from_path and few.corner is None and not few.linked:
            return None
        given = self._at(self.given, bound)
        found = self.judge(given, brought_back(given, there, few), method=by, progress=self._proving)
        return found if found.in_bounds else replace(found, status=UNPROVED)

    def _called(self, there: CMDP, found: Solution) -> Solution:
        """The answer, called optimal only where its gap is what was asked for; to link classes may cost more."""
        allowed = 1.01 * gap_allowed(there, found.upper_bound, self.tolerance)
        return replace(found, status=STALLED) if found.status == OPTIMAL and found.gap > allowed else found

    def _doing(self, more: str) -> None:
        """Say which bound it is, and what is being done there."""
        done = 0 if self.state is None else len(self.state.solutions)
        self._says(f"bound {done + 1} of {len(self.bounds)}{more}")

    def _proving(self, done: int, total: int) -> None:
        """The progress of a proof; a limit ends it, and with it the frontier at the points before."""
        self._doing(f": proof, {done} of {total}")
        if done < total:
            self._require_time()

    def _brought_in(self, problem: CMDP, found: Optimum, method: str) -> Solution:
        """The policy of a mixture; with so much of a safer one that it is in bounds, where it hardly mixes and is not.

        Long-run averages: two policies that each stay where they are make one that falls apart, and is linked again.
        """
        solution = assemble(problem, found, method=method)
        spare = None if solution.in_bounds else spare_occupancy(problem, found, _MORE_THAN_A_LINK)
        for share in _SHARES if spare is not None else ():
            self._require_time()
            mixed = found._replace(
                occupancy=(1.0 - share) * found.occupancy + share * spare, status=STALLED, corner=None
            )
            solution = assemble(problem, _linked(problem, mixed, self.tolerance), method=method)
            if solution.in_bounds:
                break
        return solution if solution.in_bounds else replace(solution, status=UNPROVED)

    def _require_time(self) -> None:
        """What was looked for until time was over need not be what an unbroken run finds: it does not count."""
        if self.limits.over:
            raise Stopped(TIME)

    def _whole(self, problem: CMDP, tolerance: float | None = None, coins: str = "any") -> Optimum:
        found, _ = best_mixture(problem, tolerance=tolerance or self.tolerance, limits=self.limits, coins=coins)
        self._require_time()
        if found.status not in (OPTIMAL, STALLED):
            raise Stopped(found.status)
        return found

    @property
    def unconstrained_solves(self) -> int:
        return 0 if self.state is None else self.state.solves + self.state.path.unconstrained_solves

    def known(self, status: str, asked: tuple[Any, ...]) -> Partial:
        return Partial(
            status,
            unconstrained_solves=self.unconstrained_solves,
            points=() if self.state is None else self.state.solutions,
            asked=asked,
            state=None if self.ends is None else (self.ends, self.state),
        )

    def curve(self, status: str = OPTIMAL, partial: Partial | None = None) -> Frontier:
        assert self.ends is not None
        own, solutions = self.own, self.state.solutions
        return Frontier(
            constraint=own.name,
            names=tuple(c.name for c in self.cmdp.constraints),
            at_least=own.at_least is not None,
            bounds=freeze(self.bounds[: len(solutions)]),
            solutions=solutions,
            matters_from=own.bound + own.outward * self.ends.idle,
            possible_to=own.bound + own.outward * self.ends.tight,
            present=self.present,
            impossible=freeze(self.impossible),
            unconstrained_solves=self.unconstrained_solves,
            status=status,
            partial=partial,
            problem=self.given.name,
        )


def _followed_value(problem: CMDP, mixture: Optimum, signal: Floats, tolerance: float) -> float:
    """The value of a signal [N] under the policy of a mixture."""
    criterion, question = criterion_of(problem), problem.asking(constraints=())
    spent, _ = criterion.linked(mixture.occupancy, tuple, tolerance, np.empty((0, len(signal))))
    taken = policy_of(question, spent, np.empty(0), mixture.value_function)
    return float(np.sum(criterion.time_at_entries(criterion.follow(taken)) * signal))


def _linked(problem: CMDP, mixture: Optimum, tolerance: float) -> Optimum:
    """With an occupancy that some policy has."""
    scaled = flat_margins(problem) / problem.margin_scales[:, None]
    spent, linked = criterion_of(problem).linked(mixture.occupancy, tuple, tolerance, scaled)
    return mixture._replace(occupancy=spent, linked=linked, apart=mixture.occupancy if linked else None)


def wanted_bounds(bounds: Any, between: Any, points: int) -> tuple[float, ...] | None:
    """The bounds that were asked for; None where they are to be found."""
    if bounds is not None and between is not None:
        raise InvalidInput("give bounds= or between=, not both")
    if bounds is None and between is None:
        return None
    name = "bounds" if between is None else "between"
    given = float_array(bounds if between is None else between, name)
    if (
        given.ndim != 1
        or given.size == 0
        or not np.all(np.isfinite(given))
        or (between is not None and given.size != 2)
    ):
        wanted = "a list of finite numbers" if between is None else "two finite numbers"
        raise InvalidInput(f"{name} must be {wanted}, found {(bounds if between is None else between)!r}")
    for bound in given.tolist():
        within(bound, f"each bound in {name}")  # beyond, totals and the axes of pictures overflow
    return tuple(map(float, np.unique(given if between is None else np.linspace(given[0], given[1], points))))
