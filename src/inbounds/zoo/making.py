"""What the problems of the suite are made with: signals, coins, and bounds that bind."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from inbounds.arrays import Floats
from inbounds.criteria import criterion_of
from inbounds.criteria.evaluation import evaluate
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint
from inbounds.problem.policy import Policy

TIGHTNESS = 0.4
"""Where each bound lies between what the best unconstrained policy gives and what the most cautious one gives."""

_APART = 0.01
"""The least difference of the two that leaves room for a bound between them."""
_BELOW = 0.05
"""Otherwise: how far the bound is below both."""
_TIE = 1e-10
"""Normalised values of pairs that differ by less are equal but for rounding."""


def _signals_of_best(cmdp: CMDP, reward: Floats) -> Floats:
    """What every margin gives [K] under the best policy for `reward` [n]; of actions as good, the first is taken.

    Queues have many of those, and a bound must not hang on the last bit of a solver.
    """
    value = criterion_of(cmdp).solve(reward, 0.01 * _TIE).value_function
    worth = (1.0 - cmdp.discount) * reward + cmdp.discount * (cmdp.transition @ value)
    first = np.flatnonzero(worth >= value[cmdp.pairs.states] - _TIE)  # of every state, those that are best
    chosen = first[np.searchsorted(cmdp.pairs.states[first], np.arange(cmdp.n_states))]
    return evaluate(cmdp, Policy.deterministic(cmdp, chosen)).margins


def bounded(
    name: str,
    transition: Floats,
    reward: Floats,
    signals: dict[str, Floats],
    start: int | None,
    discount: float,
    allowed: npt.NDArray[np.bool_] | None = None,
) -> CMDP:
    """A discounted problem whose every signal must be at least 40 % of the way from indifference to caution.

    With b what a signal gives under the best unconstrained policy, and c what it gives under the policy with the
    largest sum of signals, its bound is b + 0.4 (c - b) where c > b + 0.01, and otherwise 0.05 below both; rounded to
    four digits. Mixing the two policies keeps all of them, up to that rounding.

    Parameters
    ----------
    transition : array [S, A, S]
    reward : array [S, A]
    signals : name to array [S, A]
    start : int, or None
        The first state; None: any, equally likely.
    allowed : bool array [S, A], optional
    """
    n_states = len(transition)
    free = CMDP.from_dense(
        transition,
        reward=reward,
        constraints=[Constraint(signal, at_least=0.0, name=signal_name) for signal_name, signal in signals.items()],
        initial=np.full(n_states, 1.0 / n_states) if start is None else np.eye(n_states)[start],
        discount=discount,
        allowed=allowed,
        name=name,
    )
    best, cautious = _signals_of_best(free, free.reward), _signals_of_best(free, free.margins.sum(axis=0))
    between = best + TIGHTNESS * (cautious - best)
    bounds = np.where(cautious > best + _APART, between, np.minimum(best, cautious) - _BELOW).round(4)
    return free.tightened(bounds)


def by_number(signals: Floats) -> dict[str, Floats]:
    """Signals [K, S, A] without a meaning, by number."""
    return {f"signal {k}": signal for k, signal in enumerate(signals)}


def of_action(n_states: int, signal: Any) -> Floats:
    """A signal of the actions alone [A], as [S, A]."""
    return np.tile(np.asarray(signal, dtype=np.float64), (n_states, 1))


def of_state(signal: Any, n_actions: int) -> Floats:
    """A signal of the states alone [S], as [S, A]."""
    return np.repeat(np.asarray(signal, dtype=np.float64)[:, None], n_actions, axis=1)


def two_coins(first: Any, second: Any) -> list[tuple[int, int, Any]]:
    """What two coins show, 1 or 0 each, and how likely that is; a probability of each, or an array of them."""
    return [
        (one, other, (first if one else 1.0 - first) * (second if other else 1.0 - second))
        for one in (1, 0)
        for other in (1, 0)
    ]
