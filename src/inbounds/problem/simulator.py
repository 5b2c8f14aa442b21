"""The simulator: all that a learner may see of a problem.

A learner knows the states, the actions of each state, the discount, how to draw a start, and the ranges of reward and
margins. It may query any pair for a next state, with the reward and the margins observed there; each query is one
sample.

The theory assumes rewards in [0, 1] and margins in [-1, 1]. The one scaling between that and the user's units is here:

    reward = low + span * scaled reward        low, low + span: the range of the reward
    margin = scale_k * scaled margin           scale_k: the largest absolute margin of constraint k

Margins are never shifted, so their sign keeps its meaning. With ``scale=False`` the learner sees the user's own units
instead; the ranges may then be beyond those of the theory, and `beyond_the_theory` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from inbounds.arrays import Floats, Ints, ReadOnly, freeze
from inbounds.errors import InvalidInput
from inbounds.inputs import asked as called
from inbounds.inputs import (
    finite_or_nan,
    function_of,
    listed,
    plain_number,
    reported_number,
    require_size,
    shown,
    switch,
    whole_number,
    within,
)
from inbounds.problem.ahead import Outcomes, Source
from inbounds.problem.constraint import Constraint, named_constraints
from inbounds.problem.criterion import criterion_in_words, valid_criterion
from inbounds.problem.draws import World
from inbounds.problem.pairs import Pairs, numbered, require_distinct, sizes
from inbounds.workers import received, valid_workers

MOST_STATES = 10**7
"""Of a user's own simulator: each has a label, and each is asked for its actions."""


@dataclass(frozen=True, eq=False)
class Scaling(ReadOnly):
    """Between the user's units and those of a learner: of the theory (rewards in [0, 1], margins in [-1, 1]) or own."""

    reward_low: float
    reward_span: float
    margin_scales: Floats  # [K]

    @classmethod
    def from_ranges(
        cls, reward_low: float, reward_high: float, margin_scales: Any, constraints: Sequence[Constraint]
    ) -> Scaling:
        span = reward_high - reward_low
        scales = np.asarray(margin_scales, dtype=np.float64)
        require_size(span, "the reward")
        for scale, constraint in zip(scales, constraints, strict=True):
            require_size(float(scale), f"constraint {constraint.name!r}")
        return cls(reward_low, span if span > 0.0 else 1.0, freeze(np.where(scales > 0.0, scales, 1.0)))

    @classmethod
    def identity(cls, n_constraints: int) -> Scaling:
        """The user's own units."""
        return cls(0.0, 1.0, freeze(np.ones(n_constraints)))

    def model(self, cmdp: Any) -> Any:
        """A model in the user's units, in scaled units; its constraints are that margins are >= 0."""
        margins = (margin / scale for margin, scale in zip(cmdp.margins, self.margin_scales, strict=True))
        return cmdp.asking(
            reward=freeze((cmdp.reward - self.reward_low) / self.reward_span),
            constraints=[
                Constraint(freeze(margin), at_least=0.0, name=constraint.name)
                for margin, constraint in zip(margins, cmdp.constraints, strict=True)
            ],
        )

    def prices_in_user_units(self, scaled_prices: Floats) -> Floats:
        """Multipliers of scaled margins as reward gained per unit of bound relaxed, both in the user's units."""
        return scaled_prices * self.reward_span / self.margin_scales

    def values_in_user_units(self, scaled_sums: Floats, discount: float) -> Floats:
        """Discounted sums of scaled rewards [S] as values of the user's rewards, normalised by (1 - discount)."""
        return self.reward_low + self.reward_span * (1.0 - discount) * scaled_sums

    def sums_in_user_units(self, sums: Floats, factors: Floats, weight: float) -> Floats:
        """Sums of reward and margins over an episode [..., 1 + K], the steps of which weigh `weight` in all; those of a
        learner with units of its own, `factors` [1 + K] times the scaled ones."""
        shift = np.zeros(len(factors))
        shift[0] = self.reward_low * weight
        return np.asarray(sums * (np.append(self.reward_span, self.margin_scales) / factors) + shift)


class Simulator(ReadOnly):
    """Sampling access to a problem (a generative model): around the user's own step function, or made from a model.

    The latter is ``cmdp.simulator()``. Values, and with them bounds, are discounted averages per step, normalised by
    (1 - discount); sums over a finite horizon; or long-run averages per step.

    Parameters
    ----------
    step
        ``step(state, action, rng)`` returns ``(next_state, reward, signals)`` with one signal per constraint. `rng`
        is the run's ``numpy.random.Generator``; draw from it and the run is reproducible.
    start
        ``start(rng)`` returns a first state. Starts are not counted as samples, and many are drawn: up to 32 / (1 -
        discount), and no more than 10,000, for each walk of a proof, and at least 100,000 by `ib.learn_certified`, in
        this process. Let it be quick: one of a millisecond takes two minutes there.
    states
        All states, as hashable labels; or their number.
    actions
        ``actions(state)`` lists the actions of a state; or one list of actions that every state has.
    discount, horizon, average
        Exactly one, as in `CMDP`: what a value is. With a horizon, the simulator begins anew after so many steps.
    reward_range
        ``(lowest, highest)`` reward that `step` may report.
    constraints
        `Constraint` records without a signal: `step` reports it. Bounds are on the scale of values.
    signal_ranges
        ``(lowest, highest)`` of every signal, in the order of the constraints. What `step` reports beyond a range is an
        error, unless it is rounding, 1e-12 of the larger end at most: then it counts as that end.
    jobs : int, optional
        Worker processes that call `step`, for one that takes long: see below.
    vectorised : bool
        True: ``step(states, actions, rng)`` takes lists of the same length, and returns as many next states, rewards
        and lists of signals.
    scale : bool
        Whether learners see rewards and margins in the ranges of the theory, [0, 1] and [-1, 1]. With False they see
        the user's own units, and settings such as ``slater`` and ``kappa`` are in these, though between 0 and 1, as in
        the theory. Results are in the user's units either way, and proofs and estimates are the same.

    **Slow steps.** A learner asks for one outcome at a time. With `jobs`, or a vectorised step, outcomes are drawn
    ahead, which only a generative model allows: what follows a pair must not depend on what was asked before. Each
    block of outcomes has a generator of its own, so a run has the same bits whatever the number of jobs; it has others
    than without `jobs`, where all draws come from the run's one generator. What is drawn
    ahead in vain is not counted as samples: at the end of each series of draws, for each job and once more, up to a
    32nd of what was drawn, or one outcome of each pair. Workers are started at the first draw, and live as long as the
    simulator.

    Attributes
    ----------
    pairs : Pairs
    discount : float
        Where that is the criterion.
    criterion : dict
        What says what a value is, as in a `CMDP`: ``{"discount": 0.95}``, ``{"horizon": 12}`` or ``{"average": True}``.
    constraints : tuple of Constraint
    scaling : Scaling
        The one scaling between the user's units and those that learners see.
    reward_range : array [2]
        The least and the largest reward, in the units that learners see.
    margin_ranges : array [K, 2]
        The least and the largest margin that any pair can report, in the units that learners see.

    Examples
    --------
    A coin that pays when it lands heads; the second action cheats, and may be used a third of the time:

    >>> import inbounds as ib
    >>> def toss(state, action, rng):
    ...     heads = rng.random() < (0.9 if action == "cheat" else 0.5)
    ...     return state, float(heads), [float(action == "cheat")]
    >>> coin = ib.Simulator(
    ...     toss, start=lambda rng: "table", states=["table"], actions=["toss", "cheat"], discount=0.5,
    ...     reward_range=(0, 1), constraints=[ib.Constraint(at_most=1 / 3, name="cheating")], signal_ranges=[(0, 1)])
    >>> coin
    Simulator(1 state, 2 pairs, 1 constraint, discount 0.5)
    >>> run = ib.learn(coin, ib.CSPDA.practical(), samples=2_000, seed=0)
    >>> run.policy.table().shape
    (1, 2)
    """

    pairs: Pairs
    criterion: dict[str, Any]
    constraints: tuple[Constraint, ...]
    scaling: Scaling
    reward_range: Floats
    margin_ranges: Floats
    _table: World | None  # of a model
    _gains: tuple[Floats, ...]  # of a model: reward and signals, in the user's units

    def __init__(
        self,
        step: Callable[[Any, Any, np.random.Generator], tuple[Any, float, Sequence[float]]],
        start: Callable[[np.random.Generator], Any],
        *,
        states: Sequence[Hashable] | int,
        actions: Callable[[Any], Iterable[Hashable]] | Sequence[Hashable],
        discount: float | None = None,
        horizon: int | None = None,
        average: bool = False,
        reward_range: tuple[float, float],
        constraints: Sequence[Constraint] = (),
        signal_ranges: Sequence[tuple[float, float]] = (),
        jobs: int | None = None,
        vectorised: bool = False,
        scale: bool = True,
    ) -> None:
        function_of(step, "step", "states, actions, rng" if vectorised is True else "state, action, rng")
        function_of(start, "start", "rng")
        if callable(actions):
            function_of(actions, "actions", "state")
        self.pairs = _user_pairs(states, actions)
        self.criterion = valid_criterion(discount, horizon, average)
        self.constraints = named_constraints(constraints, _no_signal)
        listed = isinstance(signal_ranges, Sequence | np.ndarray) and np.ndim(signal_ranges) > 0
        if not listed or len(signal_ranges) != len(self.constraints):
            raise InvalidInput(
                f"signal_ranges must give (lowest, highest) for each of the {len(self.constraints)} constraints, "
                f"found {len(signal_ranges) if listed else shown(signal_ranges)}"
            )
        vectorised = switch(vectorised, "vectorised")
        self._step, self._start = step, start
        workers = None if jobs is None else valid_workers(jobs, "jobs")
        if workers is not None:
            _require_states_that_come_back(self.pairs.state_labels or ())
        self._source = Source(step, vectorised, workers) if vectorised or workers is not None else None
        self._reward_range = valid_range(reward_range, "reward_range")
        self._signal_ranges = [
            valid_range(limits, f"the signal range of constraint {constraint.name!r}")
            for limits, constraint in zip(signal_ranges, self.constraints, strict=True)
        ]
        own = zip(self._spread, self._signal_ranges, strict=True)
        ends = np.array([[constraint.margin(end) for end in limits] for constraint, limits in own]).reshape(-1, 2)
        self._table = None
        self._of_theory = Scaling.from_ranges(
            *self._reward_range, self.layers * np.abs(ends).max(axis=1), self.constraints
        )
        self._set_units(np.array(self._reward_range), np.sort(ends, axis=1), scale)

    @classmethod
    def tabular(cls, cmdp: Any, scale: bool = True) -> Simulator:
        """The simulator of a model. Same as ``cmdp.simulator(scale=scale)``."""
        if not hasattr(cmdp, "margin_scales"):
            raise InvalidInput(f"Simulator.tabular takes a known model, a CMDP; found {type(cmdp).__name__}")
        self = object.__new__(cls)
        self.pairs = cmdp.pairs
        self.criterion = cmdp.criterion
        self.constraints = tuple(replace(constraint, signal=None) for constraint in cmdp.constraints)
        low, high = float(cmdp.reward.min()), float(cmdp.reward.max())
        everywhere = tuple(range(1, cmdp.margins.ndim))  # over stages too
        ends = np.stack([cmdp.margins.min(axis=everywhere), cmdp.margins.max(axis=everywhere)], axis=1)
        self._signal_ranges = [(float(c.signal.min()), float(c.signal.max())) for c in cmdp.constraints]
        self._table, self._gains = _tabular_world(cmdp), (cmdp.reward, *cmdp.signals)
        self._of_theory = Scaling.from_ranges(low, high, cmdp.margin_scales, cmdp.constraints)
        self._set_units(np.array([low, high]), ends, scale)
        return self

    def _set_units(self, reward_range: Floats, margin_ranges: Floats, scale: bool) -> None:
        """Choose the units that learners see; the ranges [2] and [K, 2], and the table, are in the user's."""
        chosen = self._of_theory if switch(scale, "scale") else Scaling.identity(self.n_constraints)
        self.scaling = chosen
        self.reward_range = freeze((reward_range - chosen.reward_low) / chosen.reward_span)
        scaled = margin_ranges / chosen.margin_scales[:, None]
        # What may go below 0 may do so in these units too: else its range alone would be proof that it never does.
        self.margin_ranges = freeze(np.where((scaled == 0.0) & (margin_ranges < 0.0), -5e-324, scaled))
        if self._table is not None:
            self._table = self._table._replace(
                reward=freeze((self._table.reward - chosen.reward_low) / chosen.reward_span),
                margins=freeze(self._table.margins / chosen.margin_scales),
            )

    @property
    def scaled(self) -> Simulator:
        """The same simulator in the units of the theory, in which proofs are made; itself if it is in these."""
        if self.scaling is self._of_theory:
            return self
        twin = copy(self)
        twin._set_units(self.reward_range, self.margin_ranges, scale=True)
        return twin

    @property
    def observing(self) -> Simulator:
        """The same simulator in the user's units, with bounds of 0: its margins are the signals, to the last bit.

        Where a bound is far from what is ever seen, margins have few digits of the signals.
        """
        twin = copy(self)
        twin.constraints = tuple(constraint.with_bound(0.0) for constraint in self.constraints)
        twin.scaling = Scaling.identity(self.n_constraints)
        if self._table is not None:
            stages = len(self._table.reward) // self.pairs.n_pairs
            reward, *signals = (freeze(np.atleast_2d(gain)[:stages].ravel()) for gain in self._gains)
            margins = [
                constraint.outward * signal for constraint, signal in zip(self.constraints, signals, strict=True)
            ]
            shape = self.n_constraints, len(reward)
            twin._table = self._table._replace(
                reward=reward, margins=freeze(np.ascontiguousarray(np.reshape(margins, shape).T))
            )
        return twin

    @property
    def beyond_the_theory(self) -> str:
        """Which ranges are beyond those that the theory assumes, in words; empty if none is. So it is when scaled."""
        low, high = (float(end) for end in self.reward_range)
        beyond = [] if low >= 0.0 and high <= 1.0 else [f"rewards in [{low:g}, {high:g}], not in [0, 1]"]
        for constraint, (least, largest) in zip(self.constraints, self.margin_ranges, strict=True):
            if max(-least, largest) > 1.0:
                beyond.append(f"margins of {constraint.name!r} in [{least:g}, {largest:g}], not in [-1, 1]")
        return "; ".join(beyond)

    @property
    def n_constraints(self) -> int:
        return len(self.constraints)

    @property
    def signal_ranges(self) -> Floats:
        """The least and the largest signal of each constraint, [K, 2], in the user's units."""
        return freeze(np.array(self._signal_ranges, dtype=np.float64).reshape(-1, 2))

    @property
    def discount(self) -> float:
        return float(self.criterion["discount"])

    @property
    def layers(self) -> int:
        """How many stages a horizon has, else 1."""
        return int(self.criterion.get("horizon", 1))

    @property
    def _spread(self) -> list[Constraint]:
        """The constraints with the share of their bounds that falls to each stage."""
        return [c if self.layers == 1 else c.with_bound(c.bound / self.layers) for c in self.constraints]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of policies and occupancies."""
        return (*((self.layers,) if "horizon" in self.criterion else ()), self.pairs.n_pairs)

    def open(self) -> World | AskedWorld:
        """The world for one run of a kernel; `inbounds.problem.draws` says how kernels draw from it.

        A model's table is shared and never changes. That of a user's step function has buffers of its own.
        """
        return AskedWorld(self) if self._table is None else self._table

    def __repr__(self) -> str:
        units = "" if self.scaling is self._of_theory else ", units as given"
        return f"Simulator({sizes(self.pairs, self.n_constraints)}, {criterion_in_words(self.criterion)}{units})"


_HOW_STEP_IS_CALLED = {
    False: "step is given one state and one action; one that takes lists needs vectorised=True",
    True: "with vectorised=True step is given a list of states and one of actions; one of a single state is not",
}


class AskedWorld:
    """The world of a user's step function, for one run: what kernels read of a `World`, and its own draws.

    `reward` [n] and `margins` [n, K] are buffers, nan until a draw fills them with what was observed, in the units that
    learners see.
    """

    def __init__(self, simulator: Simulator) -> None:
        pairs = simulator.pairs
        assert pairs.state_labels is not None
        self.simulator = simulator
        self.number = {label: state for state, label in enumerate(pairs.state_labels)}
        self.offsets, self.states = pairs.offsets, pairs.states
        self.stages = np.array([simulator.criterion.get("horizon", 0), 0, 0])
        self.reward = np.full(pairs.n_pairs, np.nan)
        self.margins = np.full((pairs.n_pairs, simulator.n_constraints), np.nan)
        source = simulator._source
        self._lists = source is not None and source.vectorised
        self.outcomes = None if source is None else Outcomes(source, self._labels, pairs.n_pairs)
        self.walk = np.array([-1, -1])  # stage and state of the walk from the last start; -1 when none is under way

    @property
    def memory(self) -> tuple[Any, ...]:
        """All that draws change: arrays, which may be set to what they were."""
        ahead = self.outcomes
        return (self.reward, self.margins, self.walk, *(() if ahead is None else (ahead.key, ahead.drawn)))

    def _labels(self, pair: int) -> tuple[Any, Any]:
        pairs = self.simulator.pairs
        return pairs.state_label(int(pairs.states[pair])), pairs.action_label(int(pair))

    def draw_start(self, rng: np.random.Generator) -> int:
        """The number of the state that ``start(rng)`` gives."""
        state = self._numbered(called(self.simulator._start, (rng,), "start(rng)", ""), "start(rng)")
        self.walk[:] = 0, state
        return state

    def draw_next(self, pair: int, rng: np.random.Generator) -> int:
        """The number of the state that the step function gives; reward and margins of the pair are then as observed."""
        try:
            return self._drawn(pair, rng)
        except Exception as error:
            if np.all(np.isnan(self.reward)):  # at its first call
                error.add_note(_HOW_STEP_IS_CALLED[self._lists])
            raise

    def _drawn(self, pair: int, rng: np.random.Generator) -> int:
        asked, scaling = self.simulator, self.simulator.scaling
        state, action = self._labels(pair)
        where = f"step({state!r}, {action!r}, rng)"
        if self.walk[1] != asked.pairs.states[pair]:  # not from where the walk is: any pair may be asked for
            self.walk[0] = -1
        elif 0 <= self.walk[0] < self.stages[0]:
            where = f"stage {self.walk[0]}: {where}"
        if self.outcomes is None:
            outcome = called(asked._step, (state, action, rng), "step", where)
        else:
            outcome = called(self.outcomes.take, (int(pair), rng), "step", where)
        if not isinstance(outcome, tuple | list) or len(outcome) != 3:
            raise InvalidInput(f"{where} must return (next_state, reward, signals), found {outcome!r}")
        successor, reported, several = outcome
        reward = reported_number(reported, f"{where} must return (next_state, reward, signals): the reward")
        own = listed(several)
        if own is None:
            raise InvalidInput(
                f"{where} must return (next_state, reward, signals): the signals must be a list, one for each "
                f"constraint, found {several!r}"
            )
        signals = [
            reported_number(signal, f"{where} must return (next_state, reward, signals): a signal") for signal in own
        ]
        if len(signals) != asked.n_constraints:
            raise InvalidInput(f"{where} gave {len(signals)} signals for {asked.n_constraints} constraints")
        reward = _within(reward, asked._reward_range, f"{where} gave the reward", "reward_range")
        self.reward[pair] = (reward - scaling.reward_low) / scaling.reward_span
        for k, (signal, constraint) in enumerate(zip(signals, asked._spread, strict=True)):
            found = f"{where} gave for {constraint.name!r} the signal"
            signal = _within(signal, asked._signal_ranges[k], found, "its signal range")
            self.margins[pair, k] = constraint.margin(signal) / scaling.margin_scales[k]
        after = self._numbered(successor, where)
        self.walk[:] = (self.walk[0] + 1, after) if self.walk[0] >= 0 else (-1, -1)
        return after

    def _numbered(self, label: Any, where: str) -> int:
        try:
            return self.number[label]
        except (KeyError, TypeError):
            raise InvalidInput(f"{where} gave the state {label!r}, which is not one of `states`") from None


def _no_signal(constraint: Constraint) -> None:
    if constraint.signal is not None:
        raise InvalidInput(
            f"constraint {constraint.name!r} has a signal of its own, and a simulator's step reports it: leave the "
            "signal out, and return it from step"
        )


def _user_pairs(
    states: Sequence[Hashable] | int, actions: Callable[[Any], Iterable[Hashable]] | Sequence[Hashable]
) -> Pairs:
    if plain_number(states) is not None:
        states = range(whole_number(states, "states", least=0, most=MOST_STATES))
    if isinstance(states, str | bytes) or not isinstance(states, Iterable) or getattr(states, "ndim", 1) == 0:
        raise InvalidInput(f"states must be a list of states or their number, found {shown(states)}")
    labels: tuple[Hashable, ...] = tuple(states)
    if not labels:
        raise InvalidInput("states must name at least one state, found none")
    require_distinct(labels, "states")
    if isinstance(actions, Mapping):
        raise InvalidInput(
            "actions must be the list of all actions, or a function of the state, found a dict: where it has the "
            "actions of each state, give actions=lambda state: table[state]"
        )
    if not callable(actions) and isinstance(actions, Iterator):
        actions = list(actions)  # every state reads it
    action_number: dict[Hashable, int] = {}
    offsets, pair_actions = [0], []
    for label in labels:
        own, what = actions, "actions"
        if callable(actions):
            own, what = called(actions, (label,), "actions", f"state {label!r}"), f"actions({label!r})"
        pair_actions += [action for _, action in numbered(own, label, action_number, what)]
        offsets.append(len(pair_actions))
    return Pairs.create(offsets, np.array(pair_actions, dtype=np.int64), labels, tuple(action_number))


def _require_states_that_come_back(labels: tuple[Hashable, ...]) -> None:
    """That states are the same after workers were told of them: plain objects are equal to themselves alone."""
    instead = "name states by numbers, texts or tuples of these, or leave jobs out"
    try:
        copies = received(labels)
    except Exception as error:
        raise InvalidInput(
            f"states cannot be sent to worker processes ({type(error).__name__}: {error}); {instead}"
        ) from error
    known = set(labels)
    for label, back in zip(labels, copies, strict=True):
        if back not in known:
            raise InvalidInput(
                f"state {shown(label)} comes back from worker processes as another object, which is not equal to it; "
                f"{instead}"
            )


def valid_range(limits: Any, what: str) -> tuple[float, float]:
    try:
        low, high = map(finite_or_nan, limits)
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must be (lowest, highest), found {shown(limits)}") from None
    if not low <= high:
        raise InvalidInput(f"{what} must be two finite numbers, the lowest first, found {shown(limits)}")
    return within(low, what), within(high, what)


def _within(value: float, limits: tuple[float, float], found: str, what: str) -> float:
    """`value`, or the end of its range where it is beyond that by rounding: proofs rely on the ranges to the last bit.

    Far from zero, what is rounding to the value may be more than the whole range.
    """
    low, high = limits
    slack = 1e-12 * max(abs(low), abs(high))
    if not low - slack <= value <= high + slack:
        raise InvalidInput(f"{found} {value:.15g}, outside {what} ({low:.15g}, {high:.15g})")
    return min(max(value, low), high)


def _tabular_world(cmdp: Any) -> World:
    """The table of a model, in the user's units."""
    stages = cmdp.transitions if len({id(matrix) for matrix in cmdp.transitions}) > 1 else cmdp.transitions[:1]
    rows = sp.vstack(stages, format="csr")
    alike = cmdp.layers == 1 or all(np.all(values == values[0]) for values in (cmdp.reward, *cmdp.signals))
    kept = slice(0, 1 if alike else None)
    reward = np.atleast_2d(cmdp.reward)[kept].ravel()
    margins = cmdp.margins.reshape(cmdp.n_constraints, cmdp.layers, cmdp.n_pairs)[:, kept]
    margins = margins.reshape(cmdp.n_constraints, reward.size)
    starts = cumulative_rows(cmdp.initial, np.array([0, cmdp.n_states]))
    # Indices are short: at a million pairs a step is a matter of cache misses.
    return World(
        offsets=cmdp.offsets,
        states=freeze(cmdp.pairs.states.astype(np.int32)),
        row_starts=freeze(rows.indptr.astype(np.int32 if rows.nnz < 2**31 else np.int64)),
        cumulative=freeze(cumulative_rows(rows.data, rows.indptr)),
        successors=freeze(rows.indices.astype(np.int32)),
        reward=freeze(reward),
        margins=freeze(np.ascontiguousarray(margins.T)),
        start_cumulative=freeze(starts),
        start_guide=freeze(_guide(starts)),
        stages=freeze(np.array([cmdp.horizon or 0, len(stages) > 1 and cmdp.n_pairs, not alike and cmdp.n_pairs])),
    )


def cumulative_rows(probabilities: Floats, row_starts: Ints) -> Floats:
    """Cumulative sums within rows, each of which is exactly 1 from its last positive entry on."""
    cumulative = np.empty_like(probabilities)
    lengths = np.diff(row_starts)
    for length in np.unique(lengths):  # rows of one length form a rectangle
        entries = row_starts[:-1][lengths == length][:, None] + np.arange(length)
        sums = np.cumsum(probabilities[entries], axis=1)
        sums[sums == sums[:, -1:]] = 1.0
        cumulative[entries] = sums
    return cumulative


def _guide(cumulative: Floats) -> npt.NDArray[np.int32]:
    """Where to start looking for the state of u, by the integer part of u * S: never beyond the state itself."""
    # The product u * S may be rounded up to the next whole number, so a cell starts a little before j / S.
    cells = np.arange(len(cumulative)) / len(cumulative) * (1.0 - 2.0**-52)
    return np.searchsorted(cumulative, cells, side="right").astype(np.int32)
