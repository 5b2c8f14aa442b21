"""Long-run averages per step.

J(m) is the long-run average per step of a signal m. Where a policy has no limit, the limsup counts for the reward and
the liminf for the margins: the strongest reading. Both bounds of the contract hold for it, and for policies that
remember: along any path the terms y(s_t) - y(s_t+1) telescope, so that for every y

    E sum_{t<T} m  =  E sum_{t<T} (m - E y)(s_t, a_t)  +  y(s_0) - E y(s_T);

divide by T. The maximum is over all states, and the minimum over all that the policy can come to: nothing need be known
about classes.

**Which models.** The optimum must not depend on the start. For that the graph of all moves must have one closed class,
and outside of it there must be no set in which a policy can stay (weakly communicating: Bather 1973). Every class of
every policy then lies within the closed class of the model, and can be reached from everywhere.

**The optimum for one reward.** With T V (s) the largest of reward(s, a) + sum P V, at ANY vector V

    min (T V - V)  <=  average of the greedy policy  <=  optimum  <=  max (T V - V),

and the right one is the contract's second bound. Every solve returns this bracket, moved apart by a bound on the
rounding of the sweep that computed it. Two ways lead to a V with a narrow one:

sweeps
    One over all pairs finds the greedy policy, cheap ones over its rows alone then make V flat; repeat. Chains are lazy
    (they move with probability 0.9, else stay), which changes no average and has no periods. Fast where chains mix
    fast.
elimination
    Policy iteration with a leak k, that is at discount 1 - k, until the policy d stands still, with ever smaller leaks
    down to 3e-8; then implicit sweeps, which contract by k, and where they do not, both once more with 1e-12:

        V  = (I - (1 - k) P_d)^-1 (reward_d - middle of T V - V),      V += (I - (1 - k) P_d)^-1 (T V - V - middle).

    The leak makes the matrix regular, however many classes d has, and state reduction (`reduce_states`) solves it
    without a subtraction, however slowly they mix. Fast where elimination fills in little. On the way the bracket can
    grow by orders of magnitude before it closes, so it says nothing while the policy still moves.

**Policies with several closed classes** have averages that depend on the start. The time of such a policy is that of
ONE class, the best for its reward: every class gives an occupancy. A mixture of occupancies may have several classes
too, and then no stationary policy need attain it. `linked` mixes in a share e of an occupancy whose policy goes from
each class to each other: that is again an occupancy, now with one class, so its policy has exactly the mixed values,
and the loss is linear in e (`criteria.linking`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from inbounds.arrays import Floats, Ints
from inbounds.criteria.contract import ACCURACY, DENSE_STATES, Criterion, Followed, Found
from inbounds.criteria.linking import LEAST_SHARE, Linking
from inbounds.errors import InvalidInput
from inbounds.numerics.bellman import NO_BACKUPS, UNIT, improve, rounding_of_sweep
from inbounds.numerics.classes import (
    Classes,
    classes_of,
    graph_of,
    graph_of_all_moves,
    moves_from,
    walk_to,
    where_a_policy_can_return,
    where_a_policy_can_stay,
)
from inbounds.numerics.elimination import (
    EliminationPlan,
    Factors,
    eliminate,
    make_plan,
    pinned,
    plan_after,
    plan_if_faster,
    reduce_states,
)
from inbounds.numerics.rows import Chain, chosen_chain, lazy_chain, longest_row, mixed_chain
from inbounds.numerics.stationary import dense_stationary, forgets, settle_by_aggregation
from inbounds.numerics.sweeps import (
    TRIAL_SWEEPS,
    improve_values,
    is_over,
    residuals,
    settle_flow,
    sweep_values,
)
from inbounds.numerics.visits import absorbing, best_pin, dense_relative_values, gain_of, time_between_visits

_MOVE = 0.9
"""How often lazy chains move. Half costs random models 1.4 times the sweeps, and 1 never ends on periodic ones."""

_LEAKS = (1e-3, 3e-8, 1e-12)
"""Of policy iteration by elimination, one after the other; from an earlier answer not the first.

The first because, with a small leak, a policy of many classes improves at their borders only, state by state: a grid of
100 x 100 took 241 steps without it, and 41 with it. The second is three times the root of `UNIT`. How far apart the
values of two classes are is known to UNIT / leak, if their averages tie; and a policy that takes such an error for a
reason to change class may lose as much in every step, which is UNIT / leak^2 in all. With smaller leaks the policies of
four queues, each of which can stand still in 64 of 256 states, changed 500 times and never got better (18 of 720 solves
with 3e-9, none with 1e-8). The last, where sweeps with the second do not close the bracket, because classes whose
averages differ by less than the leak times the value of changing are not told apart, and the bracket stays as wide."""

_FEW = 0.01
"""The next leak's turn comes when a step changes at most this share of the states."""

_QUIET = 10
"""So many implicit sweeps, without the bracket closing, are the end of a leak; of the last, rounding allows no more."""

_SHRINK = 0.03
"""Evaluate a policy until its residual is this share of what the last improvement left, then improve again."""

_EXPECTED_SWEEPS = 8
"""Over the rows of a policy that is expected to be best, before the first improvement."""

_ROUGH = 2e-3
"""How accurate `Average.values` are where they are iterated, relative to the largest signal."""

_MOST_ROUNDS, _FIRST_ROUNDS = 1_000, 25
"""Of sweeps; after 25, 100 and 400 of them it is tried whether elimination is possible."""

_MOST_STEPS = 500
"""Of elimination."""

_SWEEPS, _MOST_SWEEPS = 1_000, 20_000
"""Over the flow of one chain, before elimination is tried; and where that is impossible."""

_AT_LAST = 30_000
"""What aggregation took, in sweeps, when it did not settle: elimination may then cost some times that."""

_MOST_CLASSES = 16
"""Of a policy, for aggregation, which takes them one by one; where there are more, sweeps alone."""

_NEEDS = "average=True needs an optimum that does not depend on the start: "


class Kept(NamedTuple):
    """What is kept of a policy: its lazy chain, and what it is worth in one step of that."""

    chain: Chain
    stage: Floats  # [S]


class _Look(NamedTuple):
    """A vector V and what one sweep over all pairs shows there."""

    value: Floats  # [S], V
    backed: Floats  # [S], T V
    chosen: Ints  # [S], the greedy policy
    chain: Chain  # of that
    changed: int  # in how many states it is new
    low: float  # the least of T V - V
    high: float
    rounding: float  # of those

    @property
    def width(self) -> float:
        return self.high - self.low


class Average(Criterion):
    """Long-run averages per step, on the moves of one model; refused when these depend on the start."""

    own, reach = 0.0, 1.0
    start: ClassVar[float] = 0.0
    mass_row: ClassVar[bool] = True
    value_in_words: ClassVar[str] = "a long-run average per step"
    decided = ("_plan", "_planned", "_refused")

    def __init__(self, problem: Any) -> None:
        super().__init__(problem)
        self._rows = self.layers[0].rows
        self._n_states = self.pairs.n_states
        self._small = self._n_states <= DENSE_STATES
        self._longest = longest_row(self._rows)
        self._plan: EliminationPlan | None = None
        self._planned = False
        self._refused = 0.0  # the work for which there was no plan
        self._check()

    def _check(self) -> None:
        """One closed class, and outside of it nowhere to stay; else a message that names a state of each side."""
        graph = graph_of_all_moves(self._rows)
        classes = classes_of(graph)
        closed = classes.closed_ones
        outside = classes.label != closed[0]
        stay = where_a_policy_can_stay(self._rows, outside)
        if len(closed) == 1 and not np.any(stay):
            return
        reached = moves_from(graph, self.initial > 0.0) >= 0
        if len(closed) > 1:
            # Those that are reached come first: the culprits, if there are two.
            first, second = sorted((classes.a_state_of(label) for label in closed), key=lambda s: not reached[s])[:2]
            problem = f"states {self._name(first)} and {self._name(second)} never meet"
            culprit = second
        else:
            held = where_a_policy_can_return(self._rows, stay)
            culprit = int(np.argmax(held & reached)) if np.any(held & reached) else int(np.argmax(held))
            goal = classes.a_state_of(int(closed[0]))
            problem = f"a policy can stay at state {self._name(culprit)} for ever "
            problem += f"and never reach state {self._name(goal)}"
        if not reached[culprit]:
            problem += f" (the initial distribution never leads to state {self._name(culprit)}: leave it out)"
        raise InvalidInput(_NEEDS + problem)

    def _name(self, state: int) -> str:
        return repr(self.pairs.state_label(state))

    def total(self, value: Any) -> Any:
        """The average itself: there is no other scale."""
        return value

    def in_words(self, value: float, digits: int = 6) -> str:
        """Per step."""
        return f"{value:.{digits}g} per step"

    # --- the best policy for one reward

    def solve(
        self,
        reward: Floats,
        tolerance: float,
        start: Any = None,
        settled: float = 0.0,
        keep_backups: bool = False,
        deadline: float | None = None,
    ) -> Found:
        reward = np.array(reward, dtype=np.float64)  # not read-only, for which kernels would be compiled once more
        if not self._planned:
            self._plan, self._planned = self._choose_plan(reward), True
        found, sweeps_first = start, self._plan is None
        if sweeps_first:
            found = self._by_sweeps(reward, tolerance, start, settled, deadline)
        if self._plan is not None:  # perhaps only now
            found = self._by_elimination(reward, tolerance, found, deadline)
            if start is not None and self._is_wide(found, reward, tolerance) and not is_over(deadline):
                again = self._by_elimination(reward, tolerance, None, deadline)
                found = min(found, again, key=_width)
            if not sweeps_first and self._is_wide(found, reward, tolerance) and not is_over(deadline):
                # There is a plan for the sake of an earlier question: this one may be what sweeps are better at.
                swept = self._by_sweeps(reward, tolerance, start, settled, deadline, _FIRST_ROUNDS)
                found = min(found, swept, key=_width)
        if keep_backups:
            backups, chosen = np.empty_like(reward), found.chosen.copy()
            improve(self._rows, 1.0, reward, found.value_function, np.empty(self._n_states), chosen, backups)
            found = replace(found, backups=backups)
        return found

    def _is_wide(self, found: Found, reward: Floats, tolerance: float) -> bool:
        """Whether a bracket is wider than was asked for, and than rounding explains."""
        rounding = rounding_of_sweep(self._longest, float(np.abs(reward).max()), found.value_function)
        return bool(_width(found) > 2.0 * max(tolerance, 10.0 * rounding))

    def _choose_plan(self, reward: Floats) -> EliminationPlan | None:
        """A plan of elimination when it promises to be faster than sweeps, else None.

        How fast these contract is measured on the policy that is greedy for one step.
        """
        if self._small:
            return make_plan(*self._all_moves, most_fill=np.inf, most_work=np.inf)
        value, scratch = np.zeros(self._n_states), np.empty(self._n_states)
        chosen, largest = self._rows.offsets[:-1].copy(), float(np.abs(reward).max())
        improve(self._rows, 1.0, reward, value, scratch, chosen, NO_BACKUPS)
        chain, spans = self._chain(chosen), []
        for _ in range(2):
            low, high = sweep_values(chain, _MOVE * reward[chosen], value, scratch, 0.0, TRIAL_SWEEPS)
            settled = not high - low > 4.0 * rounding_of_sweep(self._longest, largest, value)
            spans.append(0.0 if settled else float(high - low))
        early, late = spans
        return plan_if_faster(early, late, len(chain.weights), *self._all_moves)

    @property
    def _all_moves(self) -> tuple[Any, Any]:
        """Where the moves of each state start, and their targets, for `make_plan`."""
        return self._rows.starts[self._rows.offsets], self._rows.targets

    def _fall_back(self, spent: float) -> bool:
        """Whether there is a plan of elimination now: one that costs a few times the `spent` multiplications."""
        if self._plan is None:
            self._plan, self._refused = plan_after(spent, self._refused, *self._all_moves)
            self._planned = True
        return self._plan is not None

    def _chain(self, chosen: Ints) -> Chain:
        """The lazy chain of the policy that takes the pairs `chosen` [S]."""
        return lazy_chain(chosen_chain(self._rows, chosen, _MOVE), _MOVE)

    def _begin(self, start: Found | None) -> tuple[Floats, Ints, Chain | None]:
        """The value function, policy and chain to begin from."""
        if start is None:
            return np.zeros(self._n_states), self._rows.offsets[:-1].copy(), None
        return start.value_function.copy(), start.chosen.copy(), start.chain.chain

    def _by_sweeps(
        self,
        reward: Floats,
        tolerance: float,
        start: Found | None,
        settled: float,
        deadline: float | None,
        most_rounds: int = _MOST_ROUNDS,
    ) -> Found:
        value, chosen, chain = self._begin(start)
        backed, largest = np.empty_like(value), float(np.abs(reward).max())
        attempt = _FIRST_ROUNDS
        for rounds in range(most_rounds + 1):
            before = chosen.copy()
            low, high = improve(self._rows, 1.0, reward, value, backed, chosen, NO_BACKUPS)
            rounding = rounding_of_sweep(self._longest, largest, value)
            low, high = low - rounding, high + rounding
            strayed = not 0.0 <= high - low < np.inf
            if strayed:  # values too large, or no numbers: the bracket of one step is all there is
                value = np.zeros_like(value)
                low, high = improve(self._rows, 1.0, reward, value, backed, chosen, NO_BACKUPS)
                rounding = rounding_of_sweep(self._longest, largest, value)
                low, high = low - rounding, high + rounding
            changed = int(np.count_nonzero(chosen != before))
            if changed > 0 or chain is None:
                chain = self._chain(chosen)
            # Written so that what is not a number is the end as well.
            done = not high - low > max(tolerance, 8.0 * rounding) or rounds == most_rounds
            done = done or (strayed and rounds > 0) or is_over(deadline)
            if not done and rounds == attempt:
                done, attempt = self._fall_back(rounds * (len(reward) + 200.0 * len(chain.weights))), 4 * attempt
            if done:
                break
            value += _MOVE * (backed - value)
            shrink = 0.0 if changed < settled * len(chosen) else _SHRINK
            goal = max(shrink * (high - low), 0.25 * tolerance, 2.0 * rounding)
            improve_values(chain, _MOVE * reward[chosen], value, backed, _MOVE * goal, deadline)
            value -= _middle(value)
        assert chain is not None
        return Found(value, chosen, low, high, Kept(chain, _MOVE * reward[chosen]))

    def _by_elimination(
        self, reward: Floats, tolerance: float, start: Found | None, deadline: float | None = None
    ) -> Found:
        """Policy iteration with ever smaller leaks, and implicit sweeps at the end: see the module."""
        plan = self._need_plan()
        least, most = float(reward.min()), float(reward.max())
        value, chosen, chain = self._begin(start)
        at = best = self._look(reward, value, chosen, chain, None if start is None else start.chosen)
        leaks = list(_LEAKS if start is None else _LEAKS[1:])
        leak, factors, swept, quiet = leaks.pop(0), None, False, 0
        tried: set[bytes] = set()  # policies, with this leak
        closest = np.inf  # the narrowest bracket with it, since its sweeps began
        for _ in range(_MOST_STEPS):
            narrow = not best.width > max(tolerance - 2.0 * best.rounding, 8.0 * best.rounding)
            if narrow or is_over(deadline) or (quiet > _QUIET and not leaks):
                break
            if quiet > _QUIET:
                at, leak, factors, swept, quiet, tried, closest = best, leaks.pop(0), None, False, 0, set(), np.inf
            if factors is None:
                factors = reduce_states(plan, at.chain, leak, 1.0 - leak)
            # One step of a lazy chain is worth the share _MOVE of a step.
            if swept:
                value = at.value + eliminate(factors, _MOVE * (at.backed - at.value - 0.5 * (at.low + at.high)))
            else:
                middle = min(max(0.5 * (at.low + at.high), least), most)
                value = eliminate(factors, _MOVE * (reward[at.chosen] - middle))
            at = self._look(reward, value, at.chosen.copy(), at.chain, at.chosen)
            quiet = quiet + swept if not 0.0 <= at.width < 0.9 * closest else 0
            closest = at.width if swept and 0.0 <= at.width < closest else closest
            best = at if 0.0 <= at.width < best.width else best
            if at.changed > 0:
                factors = None
            # At the best policy with a leak the bracket is that times the span of V. (Policies improve without a leak:
            # of two that are as good as that, now one and now the other may be chosen, for ever.)
            explained = at.width <= 2.0 * leak * float(np.ptp(at.value))
            in_circles = not swept and at.chosen.tobytes() in tried
            tried.add(at.chosen.tobytes())
            if leak == _LEAKS[0]:
                if explained or in_circles or at.changed <= _FEW * self._n_states:
                    leak, factors, tried = leaks.pop(0), None, set()
            elif explained or at.changed == 0:
                swept = True
            elif in_circles:  # by rounding, which a small leak magnifies: on with the best so far
                at, factors, swept = best, None, True
        own = Kept(best.chain, _MOVE * reward[best.chosen])
        lower, upper = best.low - best.rounding, best.high + best.rounding
        return Found(best.value, best.chosen, lower, upper, own, reduce_states(plan, best.chain))

    def _look(self, reward: Floats, value: Floats, chosen: Ints, chain: Chain | None, before: Ints | None) -> _Look:
        """The bracket at `value`, and the greedy policy there; `chain` is that of the pairs `before`."""
        value -= _middle(value)
        backed = np.empty_like(value)
        low, high = improve(self._rows, 1.0, reward, value, backed, chosen, NO_BACKUPS)
        changed = len(chosen) if before is None else int(np.count_nonzero(chosen != before))
        if chain is None or changed > 0:
            chain = self._chain(chosen)
        rounding = rounding_of_sweep(self._longest, float(np.abs(reward).max()), value)
        return _Look(value, backed, chosen, chain, changed, float(low), float(high), rounding)

    def expect(self, reward: Floats, chosen: Ints, value: Floats) -> Found:
        own, value = Kept(self._chain(chosen), _MOVE * reward[chosen]), value.copy()
        if self._plan is None:
            sweep_values(own.chain, own.stage, value, np.empty_like(value), 0.0, _EXPECTED_SWEEPS)
            value -= _middle(value)
        return Found(value, chosen, -np.inf, np.inf, own)

    # --- the time of a policy

    def time(self, found: Found, accuracy: float, start: Floats | None = None) -> Floats:
        if found.factors is None and self._plan is None:
            classes = classes_of(graph_of(found.chain.chain))
            slack = (accuracy + 1e-9) * float(np.abs(found.chain.stage).max())

            def within_bracket(x: Floats) -> bool:
                low, gain, high = (_MOVE * found.lower, float(np.sum(x * found.chain.stage)), _MOVE * found.upper)
                return len(classes.closed_ones) > 1 or low - slack <= gain <= high + slack

            swept = self._time_by_sweeps(found.chain, classes, accuracy, start, within_bracket)
            if swept is not None:
                return swept[0]
        factors = found.factors or reduce_states(self._need_plan(), found.chain.chain)
        return self._time_by_elimination(found.chain, factors)

    def _need_plan(self) -> EliminationPlan:
        assert self._plan is not None
        return self._plan

    def _time_by_sweeps(
        self, own: Kept, classes: Classes, accuracy: float, start: Floats | None, trusted: Callable[[Floats], bool]
    ) -> tuple[Floats, bool] | None:
        """Of the best class for the reward, and whether it settled; None when elimination is faster, or safer, which
        is then planned.

        Of a part of the chain that is hardly ever left sweeps see nothing: what they settle at has to be `trusted`.
        """
        closed = classes.closed_ones
        recurrent = classes.closed[classes.label]
        # One run from all closed classes at once settles each of them.
        x = np.where(recurrent, self.initial if start is None else np.maximum(start, 0.0), 0.0)
        if len(closed) > 1 or not x.sum() > 0.0:
            x = recurrent.astype(np.float64)
        x /= x.sum()
        rounding = (self._longest + 8) * UNIT
        settled = settle_flow(own.chain, x, accuracy, rounding, _SWEEPS) and trusted(x)
        if not settled:
            if self._fall_back(_SWEEPS * len(own.chain.weights)):
                return None
            some = closed[:_MOST_CLASSES]
            times = [settle_by_aggregation(own.chain, classes.label == label, accuracy) for label in some]
            apart = [time for time in times if time is not None]
            settled = len(apart) == len(closed)
            if settled:
                x = np.sum(apart, axis=0) / len(closed)
            elif self._fall_back(_AT_LAST * len(own.chain.weights)):
                return None
            else:
                settle_flow(own.chain, x, accuracy, rounding, _MOST_SWEEPS)
        if len(closed) > 1:
            mass = np.bincount(classes.label, x, len(classes.closed))[closed]
            gains = np.bincount(classes.label, x * own.stage, len(classes.closed))[closed] / mass
            x = np.where(classes.label == closed[int(np.argmax(gains))], x, 0.0)
            x /= x.sum()
        return x, settled

    def _time_by_elimination(self, own: Kept, factors: Factors) -> Floats:
        """Of the best class for the reward."""
        pins, chain = pinned(factors), own.chain
        pin = int(pins[0]) if len(pins) == 1 else best_pin(chain, own.stage, _MOVE, factors, self.initial)[0]
        return time_between_visits(chain, factors, pin)

    def values(self, found: Found, signals: Floats, start: Floats | None = None) -> tuple[Floats, Floats]:
        own, gains = found.chain, np.empty(len(signals))
        values = np.zeros((len(signals), self._n_states)) if start is None else start.copy()
        if found.factors is not None:
            pin, steps = best_pin(own.chain, own.stage, _MOVE, found.factors, self.initial)
        for k, signal in enumerate(signals):
            stage = _MOVE * signal[found.chosen]
            if found.factors is not None:
                rewards = eliminate(found.factors, stage)
                gains[k] = gain_of(own.chain, stage, _MOVE, pin, rewards, steps)
                values[k] = rewards - gains[k] * steps
            else:
                goal = _ROUGH * float(np.abs(stage).max())
                low, high = improve_values(own.chain, stage, values[k], np.empty(self._n_states), goal)
                gains[k] = 0.5 * (low + high) / _MOVE
            values[k] -= _middle(values[k])
        return values, gains

    def follow(self, taken: Floats, start: Floats | None = None, accuracy: float = ACCURACY) -> Followed:
        taken = np.array(taken, dtype=np.float64)
        if self._small:
            moves = self._dense_moves(taken)
            classes, elsewhere = self._one_class(_graph_of_matrix(moves))
            inside = np.flatnonzero(classes.label == classes.closed_ones[0])
            time = np.zeros(self._n_states)
            time[inside] = dense_stationary(moves[np.ix_(inside, inside)])
            return Followed(taken, time, moves, None, elsewhere)
        chain = lazy_chain(mixed_chain(self._rows, taken, _MOVE), _MOVE)
        classes, elsewhere = self._one_class(graph_of(chain))
        own = Kept(chain, np.zeros(self._n_states))
        inside, swept = classes.label == classes.closed_ones[0], None
        if self._plan is None:
            swept = self._time_by_sweeps(own, classes, accuracy, start, lambda _: forgets(chain, inside, _SWEEPS))
        if swept is None:
            factors = reduce_states(self._need_plan(), chain)
            pin = next(int(pin) for pin in pinned(factors) if inside[pin])
            swept = time_between_visits(chain, factors, pin), True
        return Followed(taken, swept[0], chain, None, elsewhere, swept[1])

    def _dense_moves(self, taken: Floats) -> Floats:
        """The chain [S, S] of a policy."""
        shape = (self._n_states, self.pairs.n_pairs)
        choose = sp.csr_array((taken, np.arange(len(taken)), self.pairs.offsets), shape=shape)
        return (choose @ self.layers[0].transition).toarray()

    def _one_class(self, graph: Any) -> tuple[Classes, bool]:
        """The classes of a policy, only that closed which the start leads to; and whether others were.

        Refused when the start leads to two of them.
        """
        classes = classes_of(graph)
        elsewhere = len(classes.closed_ones) > 1
        if elsewhere:
            reached = moves_from(graph, self.initial > 0.0) >= 0
            can_be = np.zeros(len(classes.closed), dtype=bool)
            can_be[classes.label[reached]] = True
            classes = classes._replace(closed=classes.closed & can_be)
        if len(classes.closed_ones) > 1:
            one, other = (self._name(classes.a_state_of(label)) for label in classes.closed_ones[:2])
            raise InvalidInput(
                f"the policy comes to stay around state {one} or around state {other}, and never from one to the "
                "other: its averages depend on the start"
            )
        return classes, elsewhere

    # --- proofs

    def proof_vectors(
        self, followed: Followed, signals: Floats, start: Floats | None = None, enough: float = 0.0
    ) -> Floats:
        del enough
        stages = np.array([self.pairs.sum_by_state(followed.taken * signal) for signal in signals])
        stages = stages.reshape(len(signals), self._n_states)
        with np.errstate(all="ignore"):
            if self._small:
                vectors = dense_relative_values(followed.chain, stages, followed.time)
            else:
                swept = None if self._plan is not None else self._flat_by_sweeps(followed, stages, start)
                vectors = self._flat_by_elimination(followed, stages) if swept is None else swept
        vectors[~np.all(np.isfinite(vectors), axis=1)] = 0.0
        return vectors

    def _flat_by_elimination(self, followed: Followed, stages: Floats) -> Floats:
        """Relative values, pinned at the busiest state, where hitting times are short, and refined twice."""
        chain, time, scratch = followed.chain, followed.time, np.empty(self._n_states)
        factors = reduce_states(self._need_plan(), absorbing(chain, int(np.argmax(time))))
        vectors = np.zeros_like(stages)
        for vector, stage in zip(vectors, _MOVE * stages, strict=True):
            stage -= np.sum(time * stage)
            for _ in range(3):
                residuals(chain, stage, vector, scratch)
                scratch -= np.sum(time * scratch)
                vector += eliminate(factors, scratch)
        return vectors

    def _flat_by_sweeps(self, followed: Followed, stages: Floats, start: Floats | None) -> Floats | None:
        """Relative values, until the residual is flat, or rounding keeps it from becoming flatter.

        What is the same in every state is taken off after each round: so the values stay small, and keep their digits.
        None when elimination can do better, which is then planned.
        """
        chain, scratch = followed.chain, np.empty(self._n_states)
        vectors = np.zeros_like(stages) if start is None else start.copy()
        for vector, stage in zip(vectors, _MOVE * stages, strict=True):
            unit = float(np.abs(stage).max()) or 1.0
            stage /= unit
            vector /= unit
            before = np.inf
            for rounds in range(_MOST_ROUNDS + 1):
                low, high = residuals(chain, stage, vector, scratch)
                stage -= 0.5 * (low + high)
                span, size = high - low, 1.0 + float(np.abs(vector).max())
                if not span > 4.0 * UNIT * size or not span < 0.9 * before or rounds == _MOST_ROUNDS:
                    break
                before = span
                improve_values(chain, stage, vector, scratch, 16.0 * UNIT * size)
                vector -= _middle(vector)
            vector *= unit
            if span > 1e3 * UNIT * size and self._fall_back((1.0 + rounds) * 200.0 * len(chain.weights)):
                return None
        return vectors

    # --- policies where there is no time, and between classes

    def fill_in(self, taken: Floats, visited: Any, chosen: Ints) -> Floats:
        """A policy [N] that is `taken` where it is `visited` (bool [M]), and elsewhere walks there.

        Not greedily, which may make a second class elsewhere.
        """
        if not np.any(visited):
            return super().fill_in(taken, visited, chosen)
        return taken if np.all(visited) else self.walking(taken, visited)

    def walking(self, taken: Floats, goal: Any) -> Floats:
        """A policy [N] that is `taken` at the states of a `goal` (bool [S]), and elsewhere walks there."""
        walk = np.zeros(self.n_entries)
        walk[walk_to(self._rows, self.backwards, goal)] = 1.0
        return np.where(goal[self.pairs.states], taken, walk)

    @cached_property
    def backwards(self) -> Any:
        """The graph of all moves, transposed."""
        return graph_of_all_moves(self._rows).T.tocsr()

    def together(self, weights: Floats) -> Ints:
        """As in the contract: so that there is one class that all of them lead to, where entries with weights allow it.

        They do if and only if one closed class is all that is left where every one of them is taken. Few are changed:
        from a class that is in there, backwards, only where the largest weights do not lead to it.
        """
        most = self.largest(weights)
        taken = np.zeros(self.n_entries)
        taken[most] = 1.0
        graph = self.graph_of_policy(taken)
        classes = classes_of(graph)
        if len(classes.closed_ones) == 1:
            return most
        some = np.repeat(weights > 0.0, np.diff(self._rows.starts))
        rows = self._rows._replace(probabilities=np.where(some, self._rows.probabilities, 0.0))
        moves = graph_of_all_moves(rows)
        whole = classes_of(moves)
        held = np.bincount(classes.label, self.pairs.sum_by_state(weights) * whole.closed[whole.label])
        leading = (
            moves_from(graph.T.tocsr(), classes.label == int(np.argmax(np.where(classes.closed, held, -1.0)))) >= 0
        )
        backwards = moves.T.tocsr()
        return np.where(moves_from(backwards, leading) > 0, walk_to(rows, backwards, leading), most)

    def linked(
        self, occupancy: Floats, spares: Callable[[], Iterable[Floats]], tolerance: float, margins: Floats
    ) -> tuple[Floats, int]:
        """As in the contract; where the link leads out of bounds, a little of one of the `spares` leads back."""
        return Linking(self, max(tolerance, LEAST_SHARE), spares, margins).of(occupancy)

    def each_alone(self, occupancy: Floats) -> list[Floats]:
        return Linking(self, LEAST_SHARE, tuple, np.empty((0, self.n_entries))).each_alone(occupancy)

    def graph_of_policy(self, taken: Floats, time: Floats | float = 1.0, rarest: float = 0.0) -> Any:
        """The graph of the chain of a policy [N], of moves that `time` [S] in their states makes more than `rarest`."""
        time = np.broadcast_to(time, self._n_states)
        if self._small:
            moves = self._dense_moves(taken)
            return _graph_of_matrix(np.where(time[:, None] * moves > rarest, moves, 0.0))
        chain = mixed_chain(self._rows, taken, 1.0)
        often = np.repeat(time, np.diff(chain.starts)) * chain.weights > rarest
        return graph_of(chain._replace(weights=np.where(often, chain.weights, 0.0)))


def _width(found: Found) -> float:
    """Of the bracket of an optimum."""
    return found.upper - found.lower


def _middle(value: Floats) -> float:
    """Halfway between the least and the largest."""
    return 0.5 * (float(value.max()) + float(value.min()))


def _graph_of_matrix(moves: Floats) -> Any:
    """The graph of a chain [S, S]."""
    matrix = sp.csr_array(moves)
    return graph_of(Chain(matrix.indptr, matrix.indices, matrix.data))
