"""The stationary distribution of a chain that is one class, however slowly it mixes.

Sweeps over a chain without a discount (`inbounds.numerics.sweeps`) settle in the part where they begin, and see nothing
of the others: what they change is then as small as rounding, and the answer may be that of the wrong part. So it is
asked whether the chain *forgets* where it began. What numbers at random are worth after many steps is the same
everywhere in a closed class, unless there are parts that are hardly ever left: then it is their mean over the part. The
means of two parts of m states differ by some 1 / sqrt(m).

Where it does not forget, and elimination is too dear, the time is settled by aggregation on many levels (Horton and
Leutenegger 1994; De Sterck, Manteuffel, McCormick, Nguyen and Ruge 2008). All of it is about *flows*: with x the time
per state as it is thought to be, F_ij = x_i P_ij for i other than j, and what is looked for are factors e > 0 with

    sum_i e_i F_ij  =  e_j sum_k F_jk     for every j,

for then e x is stationary. One round, on a level:

    sweep       e_j = sum_i e_i F_ij / sum_k F_jk, one state after the other: settles what is close together
    group       few states each, that exchange the most, and make their flows those of a chain of groups
    descend     find the factors of that chain in the same way, twice; those of a few groups by state reduction
    sweep       once more, the other way round

Nothing is ever subtracted, so small flows keep their digits. What makes it work for parts within parts: two states are
put together only if what they exchange is much for one of them, compared with what that one exchanges with any other.
Were two halves of one part and two of another put together at once, no level would settle the time between those parts.

Rounds that change nothing any more are no proof: so it is done from two beginnings that have little in common, and
believed if they end at the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from inbounds.arrays import Floats, Ints
from inbounds.numerics.compiled import compiled
from inbounds.numerics.rows import Chain
from inbounds.numerics.sweeps import combined_sweeps, value_sweep

_UNCHANGED, _FORGOTTEN = 1e-12, 1e-5
"""Of numbers between 0 and 1: what a sweep changes when there is no more to see, and how far apart they may be then."""

_FEW = 64
"""States whose distribution is found by state reduction."""

_GROUP = 4
"""States of a group, at most; and any that exchange with no other."""

_MUCH = 0.25
"""What two states of a group exchange, as a share of the most that one of them does with any other."""

_SWEEPS, _TWICE = 2, 2
"""Before and behind a descent, and descents on each level but the first."""

_ROUNDS = 300
"""Rooms that are hardly ever left take 10 to 100; long walks, which are better eliminated, more than 200."""

_AGREED = 1e-10
"""How far apart two ends may be, in the sum of absolute values: what a round changes is less by its rate."""


def forgets(chain: Chain, inside: Any, most: int) -> bool:
    """Whether a chain forgets where it began in a closed class, `inside` [S], as far as about `most` sweeps show."""
    worth, nothing = np.random.default_rng(0).random(len(inside)), np.zeros(len(inside))

    def sweep(old: Floats, new: Floats) -> float:
        value_sweep(chain, nothing, old, new)
        return float(np.ptp((new - old)[inside]))

    combined_sweeps(sweep, worth, _UNCHANGED, most, up_to_constants=True)
    return bool(np.ptp(worth[inside]) <= _FORGOTTEN)


def settle_by_aggregation(chain: Chain, inside: Any, accuracy: float) -> Floats | None:
    """The stationary distribution [S] of a closed class, `inside` (bool [S]); None where two attempts do not agree.

    A round changes at most `accuracy` at the end, in the sum of absolute values, or what rounding does.
    """
    n_states, states = len(inside), np.flatnonzero(inside)
    moves = sp.csr_array((chain.weights, np.asarray(chain.targets, np.int64), chain.starts), shape=(n_states, n_states))
    moves = _between(moves[states][:, states])
    beginnings = np.ones(len(states)), np.random.default_rng(0).random(len(states)) ** -2.0
    with np.errstate(all="ignore"):
        one, other = (_settled(moves, beginning / beginning.sum(), accuracy) for beginning in beginnings)
    if one is None or other is None or not float(np.abs(one - other).sum()) <= _AGREED:
        return None
    x = np.zeros(n_states)
    x[states] = one
    return x


def dense_stationary(moves: Floats) -> Floats:
    """The stationary distribution of a chain [S, S] that is one class, by state reduction: no subtraction.

    What is on the diagonal plays no part, so that flows or rates will do as well as probabilities.
    """
    left, smallest = moves.copy(), float(np.finfo(np.float64).tiny)
    for k in range(len(left) - 1, 0, -1):
        left[:k, k] /= max(float(left[k, :k].sum()), smallest)
        left[:k, :k] += np.outer(left[:k, k], left[k, :k])
    x = np.ones(len(left))
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(1, len(left)):
            x[k] = np.sum(x[:k] * left[:k, k])
            x[: k + 1] /= x[: k + 1].max()
    return x / x.sum()


def _settled(moves: Any, x: Floats, accuracy: float) -> Floats | None:
    """Rounds from `x` [S] until one changes no more than `accuracy`, or than rounding does; None where none is."""
    enough = max(accuracy, 64.0 * float(np.finfo(np.float64).eps))
    for _ in range(_ROUNDS):
        before, x = x, x * _factors(moves.multiply(x[:, None]).tocsr())
        x /= x.sum()
        change = float(np.abs(x - before).sum())
        if not change > enough:
            return x if change == change else None
    return None


def _factors(flows: Any, descents: int = 1) -> Floats:
    """Factors [S], up to one for all, that bring flows (CSR [S, S], nothing on the diagonal) closer to balance."""
    n_states = flows.shape[0]
    if n_states <= _FEW:
        return dense_stationary(flows.toarray())
    leaving, arriving, factors = flows.sum(axis=1), flows.tocsc(), np.ones(n_states)
    if not leaving.min() > 0.0:  # a flow so small that it is none
        return np.full(n_states, np.nan)
    for _ in range(descents):
        for _ in range(_SWEEPS):
            _balance(arriving.indptr, arriving.indices, arriving.data, leaving, factors, False)
        now = flows.multiply(factors[:, None]).tocsr()
        group = _groups(now)
        member = sp.csr_array((np.ones(n_states), (np.arange(n_states), group)))
        factors *= _factors(_between(member.T @ now @ member), _TWICE)[group]
        factors /= factors.max()
        for _ in range(_SWEEPS):
            _balance(arriving.indptr, arriving.indices, arriving.data, leaving, factors, True)
    return factors


def _between(flows: Any) -> Any:
    """Flows (CSR) without those from a state to itself, each once."""
    flows = sp.coo_array(flows)
    apart = (flows.row != flows.col) & (flows.data > 0.0)
    return sp.csr_array((flows.data[apart], (flows.row[apart], flows.col[apart])), shape=flows.shape)


def _groups(flows: Any) -> Ints:
    """The number of the group of each state, [S]."""
    exchanged = (flows + flows.T).tocoo()
    once = exchanged.row < exchanged.col
    one, other, amount = exchanged.row[once], exchanged.col[once], exchanged.data[once]
    most, all_of_it = np.zeros(flows.shape[0]), exchanged.sum(axis=1)
    np.maximum.at(most, one, amount)
    np.maximum.at(most, other, amount)
    much = np.flatnonzero(amount >= _MUCH * np.minimum(most[one], most[other]))
    closest = np.argsort(-amount[much] / np.minimum(all_of_it[one[much]], all_of_it[other[much]]), kind="stable")
    in_order = much[closest]
    first = _joined(one[in_order].astype(np.int64), other[in_order].astype(np.int64), flows.shape[0], _GROUP)
    return np.unique(first, return_inverse=True)[1]


@compiled
def _balance(starts: Any, sources: Any, flows: Floats, leaving: Floats, factors: Floats, backwards: bool) -> Any:
    """One sweep, in place, over states in their order or `backwards`; flows are by the state where they arrive."""
    n_states = factors.shape[0]
    for k in range(n_states):
        s = n_states - 1 - k if backwards else k
        total = 0.0
        for entry in range(starts[s], starts[s + 1]):
            total += flows[entry] * factors[sources[entry]]
        factors[s] = total / leaving[s]


@compiled
def _joined(one: Ints, other: Ints, n_states: int, most: int) -> Any:
    """A state of the group of each state, [S]: pairs are put together in their order, while groups are small.

    Whoever is then alone joins the first that it has a pair with.
    """
    leader = np.arange(n_states)
    size = np.ones(n_states, dtype=np.int64)
    for alone in (False, True):
        for k in range(one.shape[0]):
            i, j = _leader_of(leader, one[k]), _leader_of(leader, other[k])
            if i != j and (size[i] + size[j] <= most or (alone and min(size[i], size[j]) == 1)):
                leader[i] = j
                size[j] += size[i]
    for s in range(n_states):
        leader[s] = _leader_of(leader, s)
    return leader


@compiled
def _leader_of(leader: Ints, state: int) -> Any:
    """Who leads the group of a state; the way there is made shorter for who comes after."""
    while leader[state] != state:
        leader[state] = leader[leader[state]]
        state = leader[state]
    return state
