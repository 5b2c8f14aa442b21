"""A model from logged transitions: what was seen, how often, and how far the truth may be from it.

Of a pair seen N times the empirical probabilities p' are the shares of its next states, and its reward and signals the
means. With probability at least `confidence`, at once for all pairs and all that is measured of them (a share of
delta = (1 - confidence) / (n (2 + K)) each, for n pairs and K constraints),

    |p' - p|_1       <=  2 w(log((2^(S - 1) - 1) / delta))
    |mean - reward|  <=  (highest - lowest) w(log(1 / delta)),  and so for each signal, where
    w(x)              =  sqrt((N + 20) (x + log(1 + N / 20) / 2) / 2) / N

if every row of the log was drawn from the pair's own distribution, whatever chose the pairs and ended the log, and the
S states and n pairs of the log are all that there are. The second needs the ranges, which nobody can read off the log.
Neither says more than the range itself: 2 for probabilities in sum, highest - lowest for a mean.

How often a pair is seen depends on what was seen before, so N is no fixed number, and bounds for one (Hoeffding 1963,
Weissman et al. 2003) do not hold: who looks at a pair until its mean is off by such a bound will see that sooner or
later. These hold for every N at once (Robbins 1970). Let D be the sum of N draws from [0, 1], less their means given
the past. By Hoeffding's lemma exp(l D - l^2 N / 8) is a supermartingale for every l, and so is its mean over a normal l
of variance 1 / 5, (1 + N / 20)^(-1/2) exp(2 D^2 / (N + 20)), which exceeds 1 / delta with probability delta at most
(Ville): that is |D| / N > w. Any other number in place of 20 would do; with it w is 5 to 22 % wider, from 100 visits to
10,000, than what holds for a fixed number of them. Half of |p' - p|_1 is the largest such |D| / N over the sets of next
states, of which 2^(S - 1) - 1 are different, because a set and what it leaves out have the same. With `smoothing`, p'
is no share of what was seen: the distance between the two, which is known, comes on top.

The optimum of the model looks better than it is: the best of many policies by the log's reckoning is one to which the
log was kind. A bound that holds for all policies at once covers the one that was chosen. Of a discounted problem,
whose occupancy x is that of the policy on the empirical model, the value on the true model is off from it by

    V - V'  =  sum over pairs of x (r - r' + discount / (1 - discount) (p - p') v)

with v the true value function, normalised by (1 - discount), which lies within the range R of the reward. So, with the
widths above, w_r and w_p, it is off by at most  sum of x (w_r + discount / (1 - discount) w_p R / 2), and so for each
signal.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from inbounds.arrays import Floats, Ints, freeze
from inbounds.errors import InvalidInput
from inbounds.inputs import (
    LARGEST_NUMBER,
    a_word,
    entries,
    finite_number,
    listed,
    real_number,
    reported_number,
    shown,
)
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint, named_constraints
from inbounds.problem.pairs import equals_itself
from inbounds.problem.rules import start_states
from inbounds.problem.simulator import valid_range
from inbounds.tables import so_many

_UNIT = 2**1074
"""So many of the smallest float are 1."""

_WHEN = 20.0
"""Widths are narrowest, compared with those for a fixed number of visits, some ten to a hundred times this often."""


@dataclass(frozen=True, eq=False, repr=False)
class Logged:
    """An empirical model, and how far the truth may be from it.

    Attributes
    ----------
    model : CMDP
        What was seen, as a model: solve it, learn on it, save it. Its optimum is in bounds of itself, NOT for sure of
        the truth, and earns less there than it says, as a rule: it was chosen for what the log says of it. What the
        widths leave open is yours to weigh, e.g. by ``model.tightened(...)``.
    visits : int array [n]
        How often each pair was seen; 0 for an action "stay" that was added.
    transition_widths : array [n]
        How far the probabilities of the next state may be off, in sum, the smoothing included; at most 2.
    reward_widths : array [n]
        How far the mean reward may be off, at most the range that was given; nan if none was.
    signal_widths : array [K, n]
        The same for each signal.
    confidence : float
        The probability with which all widths hold at once.
    smoothing : float
        How many observations were added to every next state that was seen after the same state.
    """

    model: CMDP
    visits: Ints
    transition_widths: Floats
    reward_widths: Floats
    signal_widths: Floats
    confidence: float
    smoothing: float

    def __repr__(self) -> str:
        least = int(self.visits.min())
        return f"Logged({self.model!r}, {so_many(int(self.visits.sum()), 'transition')}, at least {least:,} of a pair)"


def from_counts(
    transitions: Iterable[Sequence[Any]],
    *,
    start: Any,
    constraints: Sequence[Constraint] = (),
    discount: float | None = None,
    horizon: int | None = None,
    average: bool = False,
    smoothing: float = 0.0,
    unseen: str = "refuse",
    confidence: float = 0.95,
    reward_range: tuple[float, float] | None = None,
    signal_ranges: Sequence[tuple[float, float]] | None = None,
    name: str = "",
) -> Logged:
    """The empirical model of logged transitions, with confidence widths: for when there is a log, and no simulator.

    States and actions are numbered in the order in which they are seen, and keep their labels. Values are as the
    criterion says: discounted averages per step, normalised by (1 - discount), sums over a horizon, long-run averages.

    Parameters
    ----------
    transitions : rows ``(state, action, next_state, reward, signals)``
        Any iterable, such as ``csv.reader`` with its texts turned into numbers, or ``frame.itertuples(index=False)``.
        `signals` has a number for each constraint; without constraints it may be left out.
    start
        As in `build`: one state; a dict ``{state: probability}``; or a list of states, each equally likely.
    constraints
        `Constraint` records without a signal: a bound and a name.
    discount, horizon, average
        Exactly one, as in `CMDP`.
    smoothing : float >= 0
        So many observations are added to every next state that was seen after the same state, by whatever action.
    unseen : "refuse" or "stay"
        What to do with a state that was entered and never left, or is a start of which the log says nothing: refuse the
        log, or give it one action, "stay", that stays there for a reward and signals of 0.
    confidence : float in (0, 1)
    reward_range, signal_ranges : (lowest, highest), and one for each constraint; optional
        For the widths of the reward and of the signals.

    Examples
    --------
    >>> import inbounds as ib
    >>> log = [("dry", "pump", "dry", 1.0, [2]), ("dry", "pump", "wet", 1.0, [2]), ("wet", "wait", "dry", 0.0, [0])]
    >>> power = ib.Constraint(at_most=1.5, name="power")
    >>> seen = ib.from_counts(log * 50, start="dry", constraints=[power], discount=0.9)
    >>> seen
    Logged(CMDP(2 states, 2 pairs, 1 constraint, discount 0.9), 150 transitions, at least 50 of a pair)
    >>> seen.visits.tolist(), seen.model.reward.tolist(), [round(float(w), 3) for w in seen.transition_widths]
    ([100, 50], [1.0, 0.0], [0.369, 0.551])
    """
    constraints = named_constraints(constraints, _no_signal)
    confidence = finite_number(confidence, "confidence")
    if not 0.0 < confidence < 1.0:
        raise InvalidInput(f"confidence must be a number in (0, 1), found {confidence!r}")
    smoothing = real_number(smoothing, "smoothing", ">= 0")
    if not 0.0 <= smoothing <= LARGEST_NUMBER:
        raise InvalidInput(f"smoothing must be a number from 0 to {LARGEST_NUMBER:g}, found {smoothing!r}")
    unseen = a_word(unseen, "unseen", "refuse", "stay")
    ranges = _ranges(reward_range, signal_ranges, constraints)
    named_values = ["the reward", *(f"the signal of {constraint.name!r}" for constraint in constraints)]
    number, initial = start_states(start)
    single = isinstance(transitions, str | bytes) or getattr(transitions, "ndim", 1) == 0
    if single or not isinstance(transitions, Iterable):
        raise InvalidInput(f"the log must be rows of transitions, found {shown(transitions)}")
    action_number: dict[Hashable, int] = {}
    after: dict[tuple[int, int], dict[int, float]] = {}  # (state, action): next state: how often
    sums: dict[tuple[int, int], list[int]] = {}  # of reward and signals, exact
    for place, row in enumerate(transitions):
        state, action, successor, values = _row(row, place, len(constraints))
        for label, what in ((state, "state"), (action, "action"), (successor, "next state")):
            if not equals_itself(label):
                raise InvalidInput(
                    f"row {place}: the {what} is {label!r}, a gap in the table: fill it in, or leave the row out"
                )
        try:
            pair = number.setdefault(state, len(number)), action_number.setdefault(action, len(action_number))
            arrived = number.setdefault(successor, len(number))
        except TypeError as error:
            raise InvalidInput(f"row {place}: states and actions must be hashable, found {tuple(row)!r}") from error
        for value, limits, what in zip(values, ranges, named_values, strict=True):
            if limits is not None and not limits[0] <= value <= limits[1]:
                raise InvalidInput(f"row {place}: {what} is {value!r}, outside its range {limits}")
        seen = after.setdefault(pair, {})
        seen[arrived] = seen.get(arrived, 0.0) + 1.0
        before = sums.get(pair, [0] * len(values))
        sums[pair] = [total + _in_units(value) for total, value in zip(before, values, strict=True)]
    if not after:
        raise InvalidInput("the log has no transitions")
    _leave(after, sums, number, action_number, unseen, len(constraints))
    pairs = sorted(after)
    visits = np.array([sum(after[pair].values()) for pair in pairs])
    # Whole numbers are divided as exactly as a float can be: what is always the same has itself as its mean.
    parts = [_UNIT * max(int(count), 1) for count in visits]
    means = np.array([[total / part for total in sums[pair]] for pair, part in zip(pairs, parts, strict=True)]).T
    first = np.zeros(len(number))
    first[: len(initial)] = initial
    transition = _shares(after, pairs, len(number), smoothing)
    model = CMDP(
        offsets=np.searchsorted([state for state, _ in pairs], np.arange(len(number) + 1)),
        transition=transition,
        reward=means[0],
        constraints=tuple(replace(c, signal=own) for c, own in zip(constraints, means[1:], strict=True)),
        initial=first,
        discount=discount,
        horizon=horizon,
        average=average,
        actions=np.array([action for _, action in pairs]),
        state_labels=tuple(number),
        action_labels=tuple(action_number),
        name=name,
    )
    spans = np.array([np.nan if limits is None else limits[1] - limits[0] for limits in ranges])
    added = visits == 0.0
    log_one = math.log(len(pairs) * (2 + len(constraints)) / (1.0 - confidence))
    sets = len(number) - 1  # the logarithm, to base 2, of how many there are; without the empty one
    log_sets = sets * math.log(2.0) + math.log1p(-(2.0**-sets)) if sets else -math.inf
    moved = np.asarray(abs(transition - _shares(after, pairs, len(number), 0.0)).sum(axis=1)).ravel()
    counted = np.where(added, 1.0, visits)
    moves = np.minimum(2.0 * _width(counted, log_sets + log_one) + moved, 2.0)
    widths = spans[:, None] * np.minimum(_width(counted, log_one), 1.0)
    moves[added], widths[:, added] = 0.0, 0.0  # what was added is what it is
    return Logged(
        model=model,
        visits=freeze(visits.astype(np.int64)),
        transition_widths=freeze(moves),
        reward_widths=freeze(widths[0]),
        signal_widths=freeze(widths[1:]),
        confidence=float(confidence),
        smoothing=smoothing,
    )


def _width(counted: Floats, logarithm: float) -> Floats:
    """w of the module's text, [n], of pairs that were seen so often."""
    doubted = np.maximum(logarithm + np.log1p(counted / _WHEN) / 2.0, 0.0)
    return np.asarray(np.sqrt((counted + _WHEN) * doubted / 2.0) / counted)


def _ranges(reward: Any, signals: Any, constraints: Sequence[Constraint]) -> list[tuple[float, float] | None]:
    """The declared ranges of the reward and of each signal; None where there is none."""
    given = [None] * len(constraints) if signals is None else entries(signals, "signal_ranges")
    if len(given) != len(constraints):
        raise InvalidInput(f"signal_ranges must have {len(constraints)} entries, found {len(given)}")
    first = None if reward is None else valid_range(reward, "reward_range")
    others = [
        None if limits is None else valid_range(limits, f"signal_ranges: that of {constraint.name!r}")
        for limits, constraint in zip(given, constraints, strict=True)
    ]
    return [first, *others]


def _no_signal(constraint: Constraint) -> None:
    if constraint.signal is not None:
        raise InvalidInput(
            f"constraint {constraint.name!r} has a signal of its own, and the rows of the log report it: leave the "
            "signal out"
        )


def _row(row: Any, place: int, n_signals: int) -> tuple[Any, Any, Any, list[float]]:
    """State, action, next state, and the reward with the signals [1 + K], of a row of the log."""
    fields = None if isinstance(row, str | bytes | Mapping) else tuple(row) if isinstance(row, Iterable) else None
    if fields is None or len(fields) not in (4, 5) or (len(fields) == 4 and n_signals):
        raise InvalidInput(f"row {place} must be (state, action, next_state, reward, signals), found {shown(row)}")
    signals = fields[4] if len(fields) == 5 else ()
    if isinstance(signals, Mapping | Set):
        raise InvalidInput(f"row {place}: the signals must be a list, in the order of constraints, found {signals!r}")
    own = listed(signals)
    reported = (fields[3], signals) if own is None else (fields[3], *own)
    values = [reported_number(value, f"row {place}: the reward or a signal") for value in reported]
    if len(values) != 1 + n_signals:
        raise InvalidInput(f"row {place} has {len(values) - 1} signals for {n_signals} constraints")
    if not all(map(math.isfinite, values)):
        raise InvalidInput(f"row {place}: the reward and the signals must be finite, found {values}")
    return fields[0], fields[1], fields[2], values


def _in_units(value: float) -> int:
    """Of the smallest float: a whole number, which sums of rewards and signals do not round."""
    numerator, denominator = value.as_integer_ratio()
    return numerator * (_UNIT // denominator)


def _leave(after: Any, sums: Any, number: Any, action_number: Any, unseen: str, n_signals: int) -> None:
    """Give every state that was never left an action that stays; or refuse."""
    left = {state for state, _ in after}
    stuck = [label for label, state in number.items() if state not in left]
    if stuck and unseen == "refuse":
        more = f" (and {len(stuck) - 1:,} more like it)" if len(stuck) > 1 else ""
        entered = {successor for seen in after.values() for successor in seen}
        why = "was never left" if number[stuck[0]] in entered else "is a start, and in no row of the log"
        raise InvalidInput(f'state {stuck[0]!r} {why}{more}; unseen="stay" lets it stay there')
    for label in stuck:
        pair = number[label], action_number.setdefault("stay", len(action_number))
        after[pair], sums[pair] = {}, [0] * (1 + n_signals)


def _shares(after: Any, pairs: list[tuple[int, int]], n_states: int, smoothing: float) -> Any:
    """The empirical probabilities, CSR [n, S]."""
    known: dict[int, set[int]] = {}
    if smoothing:
        for (state, _), seen in after.items():
            known.setdefault(state, set()).update(seen)
    data: list[float] = []
    columns: list[int] = []
    ends = [0]
    for state, action in pairs:
        row = dict(after[state, action]) or {state: 1.0}
        for successor in known.get(state, ()) if after[state, action] else ():
            row[successor] = row.get(successor, 0.0) + smoothing
        total = sum(row.values())
        columns += row
        data += [count / total for count in row.values()]
        ends.append(len(columns))
    return sp.csr_array((np.array(data), np.array(columns), np.array(ends)), shape=(len(pairs), n_states))
