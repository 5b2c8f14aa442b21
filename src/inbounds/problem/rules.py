"""Models from Python rules: say what the states do, and the reachable part of the problem is explored and numbered."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from inbounds.arrays import Floats, divisors
from inbounds.errors import InvalidInput, Stopped
from inbounds.inputs import (
    SINGLE_TOLERANCE,
    SUM_TOLERANCE,
    asked,
    callback,
    function_of,
    is_single,
    positional_arguments,
    reported_number,
    required_arguments,
    whole_number,
)
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint, constraint_list, named_constraints
from inbounds.problem.marginal import mean_over
from inbounds.problem.pairs import equals_itself, numbered
from inbounds.problem.pieces import Pace, seconds_or_none


class Explored(NamedTuple):
    """How far `build` came when its time was over."""

    states: tuple[Any, ...]  # all that were found, in the order in which they were
    explored: int  # how many of them, the first

    @property
    def so_far(self) -> str:
        return (
            f"after {self.explored:,} states were explored and {len(self.states):,} found; close the state space, or "
            "allow more"
        )


def build(
    start: Any,
    actions: Callable[[Any], Iterable[Hashable]],
    transitions: Callable[[Any, Any], Mapping[Any, float] | Iterable[tuple[Any, float]]],
    *,
    reward: Callable[..., float],
    constraints: Sequence[Constraint] = (),
    discount: float | None = None,
    horizon: int | None = None,
    average: bool = False,
    max_states: int = 1_000_000,
    name: str = "",
    progress: Callable[[int, int], None] | None = None,
    time_limit: float | None = None,
) -> CMDP:
    """A constrained Markov decision process (CMDP) from Python rules over any hashable states, explored from the start.

    States are numbered in the order in which they are found (breadth first), and keep the user's labels. Exactly one of
    `discount`, `horizon` and `average` says what a value is: a discounted average per step, normalised by (1 -
    discount); a sum over the horizon; a long-run average per step.

    Parameters
    ----------
    start
        One state; or a dict ``{state: probability}``; or a list of states, each equally likely.
    actions
        ``actions(state)`` lists the actions that the state has.
    transitions
        ``transitions(state, action)`` gives ``{next_state: probability}``, or pairs ``(next_state, probability)``,
        in which a repeated state counts with the sum, and one with probability 0 is left out. They sum to 1 within
        1e-9; within 1e-5, if there are numbers of single precision (np.float32) among them.
    reward
        ``reward(state, action)``, maximised; or ``reward(state, action, next_state)``, which is averaged over the next
        state. The number of arguments that it must be given tells them apart: one that has a default is left to it,
        unless it is the third and called ``next_state``.
    constraints
        `Constraint` records whose signal is a function ``(state, action) -> number``, or of the next state too.
    discount, horizon, average
        Exactly one, as in `CMDP`.
    max_states
        Exploration stops with an error beyond this many states.
    progress : callable, optional
        Called with (states explored, states found so far), about four times a second.
    time_limit : float, optional
        Seconds, after which `Stopped` is raised, with the states that were found as its ``partial``. It is looked at
        between states.

    Examples
    --------
    A machine wears out while it runs; a repair takes a step, and at most a tenth of the steps may go to repairs:

    >>> import inbounds as ib
    >>> def wear(condition, action):
    ...     if action == "repair":
    ...         return {0: 1.0}
    ...     return [(condition, 0.7), (min(condition + 1, 3), 0.3)]
    >>> machine = ib.build(
    ...     start=0,
    ...     actions=lambda condition: ["run", "repair"] if condition > 0 else ["run"],
    ...     transitions=wear,
    ...     reward=lambda condition, action: (3.0 - condition) if action == "run" else 0.0,
    ...     constraints=[ib.Constraint(lambda condition, action: action == "repair", at_most=0.1, name="repairs")],
    ...     discount=0.95)
    >>> machine
    CMDP(4 states, 7 pairs, 1 constraint, discount 0.95)
    >>> best = ib.solve(machine)
    >>> round(best.reward, 4), [round(float(price), 4) for price in best.prices]
    (2.1339, [7.0842])
    """
    constraints, max_states = constraint_list(constraints), whole_number(max_states, "max_states")
    progress = callback(progress)
    function_of(actions, "actions", "state")
    function_of(transitions, "transitions", "state, action")
    function_of(reward, "reward", "state, action", "state, action, next_state")
    number, initial = start_states(start)
    action_number: dict[Hashable, int] = {}
    offsets, pair_actions = [0], []
    columns: list[int] = []
    probabilities: list[float] = []
    row_ends = [0]
    for position, constraint in enumerate(constraints):
        if not callable(constraint.signal):
            raise InvalidInput(
                f"ib.build needs constraints whose signal is a function (state, action) -> number, or of (state, "
                f"action, next_state); "
                f"constraint {position} is {constraint!r}"
            )
    constraints = named_constraints(constraints, lambda constraint: constraint.signal)
    for constraint in constraints:
        what = f"the signal of constraint {constraint.name!r}"
        function_of(constraint.signal, what, "state, action", "state, action, next_state")

    rules = [("the reward", reward)]
    rules += [(f"the signal of constraint {constraint.name!r}", constraint.signal) for constraint in constraints]
    of_next = [_of_next_state(rule) for _, rule in rules]
    values: list[list[float]] = [[] for _ in rules]
    pace, frontier, told = Pace(seconds_or_none(time_limit)), list(number), time.monotonic()
    for explored, state in enumerate(frontier):
        if progress is not None and time.monotonic() - told > _TELL_EVERY:
            told = time.monotonic()
            progress(explored, len(number))
        if pace.over:
            raise Stopped("time limit", Explored(tuple(frontier), explored))
        listed = asked(actions, (state,), "actions", f"state {state!r}")
        for action, column in numbered(listed, state, action_number, f"actions({state!r})"):
            where = f"state {state!r}, action {action!r}"
            pair_actions.append(column)
            row: dict[int, float] = {}
            single = False
            outcomes = _outcomes(asked(transitions, (state, action), "transitions", where), where)
            for successor, probability in outcomes:
                try:
                    place = number.get(successor)
                except TypeError as error:
                    raise InvalidInput(f"{where}: next state {successor!r} must be hashable") from error
                share = reported_number(probability, f"{where}: a probability")
                if share < 0.0:  # another one for the same state might hide it
                    moving = f"{where}: the probability of moving to state {successor!r}"
                    raise InvalidInput(f"{moving} is {share}; it must be a number >= 0")
                if share == 0.0:  # never happens: what it leads to need not be a state
                    continue
                if place is None:
                    if len(number) >= max_states:
                        raise InvalidInput(
                            f"more than {max_states:,} states are reachable; close the state space, or raise max_states"
                        )
                    place = number[_findable(successor, f"{where}: next state")] = len(number)
                    frontier.append(successor)
                row[place] = row.get(place, 0.0) + share
                single = single or (type(probability) is not float and is_single(probability))
            columns.extend(row)
            probabilities.extend(_doubled(list(row.values())) if single else row.values())
            row_ends.append(len(columns))
            for (what, rule), next_too, found in zip(rules, of_next, values, strict=True):
                if next_too:  # an entry per transition, averaged in the end
                    found += [_called(rule, what, where, state, action, frontier[place]) for place in row]
                else:
                    found.append(_called(rule, what, where, state, action))
        offsets.append(len(pair_actions))
    shares, ends = np.array(probabilities), np.array(row_ends)
    rewards, *signals = (
        _averaged(shares, own, ends) if more else np.array(own) for own, more in zip(values, of_next, strict=True)
    )

    initial_vector = np.zeros(len(number))
    initial_vector[: len(initial)] = initial
    return CMDP(
        offsets=np.array(offsets),
        transition=sp.csr_array(
            (shares, np.array(columns, dtype=np.int64), ends),
            shape=(len(pair_actions), len(number)),
        ),
        reward=rewards,
        constraints=tuple(
            replace(constraint, signal=own) for constraint, own in zip(constraints, signals, strict=True)
        ),
        initial=initial_vector,
        discount=discount,
        horizon=horizon,
        average=average,
        actions=np.array(pair_actions, dtype=np.int64),
        state_labels=tuple(number),
        action_labels=tuple(action_number),
        name=name,
    )


_TELL_EVERY = 0.25
"""Seconds between two calls of `progress`."""


def _doubled(shares: list[float]) -> list[float]:
    """Probabilities of single precision: of sum 1, if they had it within its tolerance; else the model refuses them."""
    total = math.fsum(shares)
    return [share / total for share in shares] if abs(total - 1.0) <= SINGLE_TOLERANCE else shares


def _averaged(probabilities: Floats, entries: list[float], row_ends: Any) -> Floats:
    """The mean over the next state for each pair, [n], by the shares that the model will have; 0 if it has none."""
    lengths = np.diff(row_ends)
    means, some = np.zeros(len(lengths)), lengths > 0
    starts = np.append(row_ends[:-1][some], row_ends[-1])
    sums = np.add.reduceat(probabilities, starts[:-1])
    by = np.repeat(np.where(sums > 0.0, divisors(sums, lengths[some]), 1.0), lengths[some])
    means[some] = mean_over(probabilities / by, np.array(entries), starts)
    return means


def _called(rule: Callable[..., Any], what: str, where: str, *arguments: Any) -> float:
    """The number that a rule gives for a pair, or for a transition."""
    after = f", next state {arguments[2]!r}" if len(arguments) == 3 else ""
    return reported_number(asked(rule, arguments, what, f"{where}{after}"), f"{where}{after}: {what}")


def start_states(start: Any) -> tuple[dict[Any, int], list[float]]:
    """The start states, numbered from 0, and their probabilities."""
    if isinstance(start, Mapping):
        weights = dict(start)
    elif isinstance(start, list):
        weights = {}
        for state in start:
            if _hashable(state) in weights:
                raise InvalidInput(f"start lists state {state!r} twice; give a dict {{state: probability}} instead")
            weights[state] = 1.0 / len(start)
    else:
        weights = {_hashable(start): 1.0}
    if not weights:
        raise InvalidInput("start names no state")
    initial = [
        reported_number(weight, f"start: the probability of state {state!r}") for state, weight in weights.items()
    ]
    if any(map(is_single, weights.values())):
        initial = _doubled(initial)
    for state, share in zip(weights, initial, strict=True):
        if not 0.0 <= share < math.inf:
            raise InvalidInput(f"start gives state {state!r} the probability {share}; it must be a number >= 0")
    if abs(sum(initial) - 1.0) > SUM_TOLERANCE:
        raise InvalidInput(f"the probabilities of start must sum to 1, found {sum(initial):.12g}")
    return {_findable(state, "the start state"): position for position, state in enumerate(weights)}, initial


def _of_next_state(rule: Any) -> bool:
    """Whether a function has three arguments that must be given, or a third one called next_state."""
    return required_arguments(rule) == 3 or [*positional_arguments(rule)][2:3] == ["next_state"]


def _findable(state: Any, what: str) -> Any:
    """The state, if it can be."""
    if not equals_itself(state):
        raise InvalidInput(f"{what} {state!r} is not equal to itself, so that it cannot be found again")
    return state


def _hashable(state: Any) -> Any:
    try:
        hash(state)
    except TypeError as error:
        raise InvalidInput(f"the start state {state!r} must be hashable") from error
    return state


def _outcomes(outcomes: Any, where: str) -> Iterable[tuple[Any, float]]:
    if isinstance(outcomes, Mapping):
        return outcomes.items()
    if isinstance(outcomes, Iterator):  # a rule that yields them runs only now
        outcomes = asked(list, (outcomes,), "transitions", where)
    try:
        return [(state, probability) for state, probability in outcomes]
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{where}: transitions must give {{next_state: probability}} or pairs (next_state, probability), "
            f"found {outcomes!r}"
        ) from error
