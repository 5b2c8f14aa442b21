"""Policies, and their exact values on a known model.

The occupancy of a policy is the discounted share of time that it spends at each pair,

    occupancy(s, a) = (1 - discount) * sum_t discount^t * Prob(s_t = s, a_t = a),

a vector over pairs that sums to 1. Every value is a product with it: reward = <occupancy, reward>. It is the one
solution of the flow equations

    sum_a occupancy(s', a) - discount * sum_{s, a} P(s' | s, a) occupancy(s, a) = (1 - discount) * initial(s')

that belongs to the policy; conversely, any solution >= 0 of the flow equations is the occupancy of the stationary
policy occupancy(s, a) / sum_b occupancy(s, b) (Altman 1999, chapter 3). So a mixture of policies becomes ONE
stationary policy with the mixed values through its mixed occupancy. Averaging the probabilities row by row does not
have that property.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any

import numpy as np

from inbounds.arrays import Floats, divisors, freeze
from inbounds.errors import InvalidInput
from inbounds.inputs import float_vector
from inbounds.numerics.elimination import eliminate_transposed, factorise, plan_if_faster
from inbounds.numerics.rows import Chain, mixed_chain, rows_of
from inbounds.numerics.sweeps import TRIAL_SWEEPS, flow_sweeps, iterate_flow
from inbounds.problem.cmdp import CMDP
from inbounds.problem.pairs import Pairs

ROUNDING = 1e-9
"""How far below zero a margin may be, relative to the largest margin signal, before it counts as out of bounds."""

_DENSE_STATES = 400
"""Up to this many states a dense solve beats iterating."""

_ACCURACY = 1e-14
"""Of an occupancy found by iterating, in the sum of absolute values; rounding may allow less."""


@dataclass(frozen=True, eq=False, repr=False)
class Policy:
    """A stationary policy: the probability of each action in each state.

    Attributes
    ----------
    pairs : Pairs
        The numbering of states and actions (of a `CMDP` or a `Simulator`).
    probabilities : array [n]
        Over pairs; those of one state sum to 1.

    Examples
    --------
    >>> import inbounds as ib
    >>> policy = ib.Policy.uniform(ib.zoo.queue())
    >>> policy.table().shape
    (6, 16)
    """

    pairs: Pairs
    probabilities: Floats

    def __post_init__(self) -> None:
        pairs = self.pairs
        probabilities = float_vector(self.probabilities, pairs.n_pairs, "the probabilities of a policy")
        if not (probabilities.min() >= 0.0 and probabilities.max() < np.inf):
            pair = int(np.argmin(np.isfinite(probabilities) & (probabilities >= 0.0)))
            raise InvalidInput(
                f"{pairs.describe(pair)}: the policy has probability {probabilities[pair]}; it must be a number >= 0"
            )
        sums = pairs.sum_by_state(probabilities)
        if np.any(np.abs(sums - 1.0) > 1e-9):
            state = int(np.argmax(np.abs(sums - 1.0) > 1e-9))
            raise InvalidInput(
                f"state {pairs.state_label(state)!r}: the policy's probabilities sum to {sums[state]:.12g}; "
                f"they must sum to 1"
            )
        scale = divisors(sums, np.diff(pairs.offsets))
        if np.any(scale != 1.0):
            probabilities = freeze(probabilities / scale[pairs.states])
        object.__setattr__(self, "probabilities", probabilities)

    @classmethod
    def uniform(cls, problem: Any) -> Policy:
        """Every action of a state equally likely. `problem`: a `CMDP` or a `Simulator`."""
        pairs = problem.pairs
        return cls(pairs, (1.0 / np.diff(pairs.offsets))[pairs.states])

    @classmethod
    def from_table(cls, problem: Any, table: Any) -> Policy:
        """From probabilities [S, A]; entries of actions that a state lacks must be 0."""
        pairs = problem.pairs
        probabilities = pairs.vector(table, "the table of a policy")
        elsewhere = np.where(pairs.table(np.ones(pairs.n_pairs)) == 1.0, 0.0, np.asarray(table, dtype=np.float64))
        if np.any(elsewhere != 0.0):
            state = int(np.argmax(np.any(elsewhere != 0.0, axis=1)))
            raise InvalidInput(
                f"state {pairs.state_label(state)!r}: the table gives probability to an action that it does not have"
            )
        return cls(pairs, probabilities)

    @classmethod
    def deterministic(cls, problem: Any, chosen: Any) -> Policy:
        """Always the pair `chosen[s]` in state ``s``; `chosen` is an int array [S] of pair numbers."""
        pairs = problem.pairs
        chosen = np.asarray(chosen)
        if chosen.shape != (pairs.n_states,) or chosen.dtype.kind not in "iu":
            raise InvalidInput(f"chosen must be {pairs.n_states} whole numbers, found {chosen.dtype} {chosen.shape}")
        if np.any((chosen < pairs.offsets[:-1]) | (chosen >= pairs.offsets[1:])):
            raise InvalidInput("chosen must hold, for every state, the number of one of its own pairs")
        probabilities = np.zeros(pairs.n_pairs)
        probabilities[chosen] = 1.0
        return cls(pairs, probabilities)

    @classmethod
    def from_occupancy(cls, problem: Any, occupancy: Any, otherwise: Policy | None = None) -> Policy:
        """occupancy(s, a) / sum_b occupancy(s, b); in states with no occupancy, `otherwise` (default: uniform)."""
        pairs = problem.pairs
        mass = np.maximum(float_vector(occupancy, pairs.n_pairs, "the occupancy"), 0.0)
        if not np.all(np.isfinite(mass)):
            pair = int(np.argmin(np.isfinite(mass)))
            raise InvalidInput(f"{pairs.describe(pair)}: the occupancy is {mass[pair]}; it must be finite")
        by_state = pairs.sum_by_state(mass)
        if np.all(by_state > 0.0):
            return cls(pairs, mass / by_state[pairs.states])
        visited = (by_state > 0.0)[pairs.states]
        fallback = (otherwise or cls.uniform(problem)).probabilities
        return cls(pairs, np.where(visited, mass / np.where(visited, by_state[pairs.states], 1.0), fallback))

    def table(self) -> Floats:
        """The probabilities as a dense table [S, A], 0 where a state does not have an action."""
        return self.pairs.table(self.probabilities)

    def by_label(self, negligible: float = 1e-9) -> dict[Hashable, dict[Hashable, float]]:
        """``{state: {action: probability}}`` in the user's labels, for reading: actions of a `negligible` probability
        are left out (``negligible=0`` keeps all that are positive)."""
        rules: dict[Hashable, dict[Hashable, float]] = {}
        for pair in np.flatnonzero(self.probabilities > negligible):
            state = self.pairs.state_label(int(self.pairs.states[pair]))
            rules.setdefault(state, {})[self.pairs.action_label(int(pair))] = float(self.probabilities[pair])
        return rules

    def sample(self, state: int, rng: np.random.Generator) -> int:
        """Draw an action (a column of `table()`) in state number `state`."""
        return draw_action(self.pairs, self.probabilities, state, rng)

    def __repr__(self) -> str:
        mixed = int(np.count_nonzero(np.maximum.reduceat(self.probabilities, self.pairs.offsets[:-1]) < 1.0))
        return f"Policy({self.pairs.n_states:,} states, randomises in {mixed:,})"


def draw_action(pairs: Pairs, probabilities: Floats, state: int, rng: np.random.Generator) -> int:
    """Draw one of the actions of a state, by probabilities over pairs [n]."""
    first, last = int(pairs.offsets[state]), int(pairs.offsets[state + 1])
    cumulative = np.cumsum(probabilities[first:last])
    position = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
    return int(pairs.actions[first + min(position, last - first - 1)])


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The exact values of a policy on a known model, in the user's units.

    ``reward`` and ``margins`` are normalised by (1 - discount); ``total_reward`` and ``total_margins`` are discounted
    sums.
    """

    reward: float
    margins: Floats  # [K]
    occupancy: Floats  # [n]
    discount: float
    margin_scales: Floats  # [K], the largest absolute margin of any pair

    @property
    def total_reward(self) -> float:
        return self.reward / (1.0 - self.discount)

    @cached_property
    def total_margins(self) -> Floats:
        return self.margins / (1.0 - self.discount)

    @property
    def in_bounds(self) -> bool:
        """Every margin >= 0, up to the rounding of floating point (1e-9 of the largest margin of any pair)."""
        return bool(np.all(self.margins >= -ROUNDING * self.margin_scales))


@singledispatch
def occupancy(cmdp: CMDP, policy: Policy) -> Floats:
    """The discounted share of time that `policy` spends at each pair, [n]; sums to 1.

    Small models are solved by dense elimination. In large ones the flow equations are iterated until what is missing
    is below 1e-14 of the whole (or what rounding allows); when that is slow, with combined sweeps or, on grids and
    other graphs without shortcuts, by sparse elimination.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> spent = ib.occupancy(queue, ib.Policy.uniform(queue))
    >>> [round(float(share), 4) for share in queue.pairs.sum_by_state(spent)]
    [0.1599, 0.1655, 0.167, 0.1704, 0.1911, 0.1461]
    """
    return occupancy_near(cmdp, policy)


def occupancy_near(cmdp: CMDP, policy: Policy, start: Floats | None = None) -> Floats:
    """The occupancy of `policy` [n]; when it is found by iterating, from the time per state `start` [S]."""
    if policy.pairs.n_pairs != cmdp.n_pairs or not np.array_equal(policy.pairs.offsets, cmdp.offsets):
        raise InvalidInput(f"the policy ({policy.pairs.n_pairs} pairs) does not belong to this problem ({cmdp!r})")
    if cmdp.n_states <= _DENSE_STATES:
        weighted = cmdp.transition.toarray() * policy.probabilities[:, None]
        flow = np.add.reduceat(weighted, cmdp.offsets[:-1], axis=0)
        by_state = np.linalg.solve(np.eye(cmdp.n_states) - cmdp.discount * flow.T, (1.0 - cmdp.discount) * cmdp.initial)
    else:
        by_state = _time_per_state(cmdp, policy, start)
    return freeze(np.maximum(by_state, 0.0)[cmdp.pairs.states] * policy.probabilities)


def chain_of(cmdp: CMDP, policy: Policy) -> Chain:
    """The Markov chain that a policy makes of a model."""
    return mixed_chain(rows_of(cmdp.offsets, cmdp.transition), policy.probabilities, cmdp.discount)


def _time_per_state(cmdp: CMDP, policy: Policy, start: Floats | None = None) -> Floats:
    chain = chain_of(cmdp, policy)
    time = (cmdp.initial if start is None else start).copy()
    early = flow_sweeps(chain, cmdp.initial, cmdp.discount, time, _ACCURACY, most=TRIAL_SWEEPS)
    if early == 0.0:
        return time
    late = flow_sweeps(chain, cmdp.initial, cmdp.discount, time, _ACCURACY, most=TRIAL_SWEEPS)
    plan = plan_if_faster(early, late, len(chain.weights), chain.starts, chain.targets)
    if plan is not None:
        return eliminate_transposed(factorise(plan, chain), (1.0 - cmdp.discount) * cmdp.initial)
    return iterate_flow(chain, cmdp.initial, cmdp.discount, _ACCURACY, start=time)


@singledispatch
def evaluate(cmdp: CMDP, policy: Policy) -> Evaluation:
    """The exact reward and margins of a policy, in the user's units.

    Values are normalised by (1 - discount); ``total_reward`` and ``total_margins`` are discounted sums.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> uniform = ib.evaluate(queue, ib.Policy.uniform(queue))
    >>> round(uniform.total_reward, 6), [round(float(m), 6) for m in uniform.total_margins], uniform.in_bounds
    (4.988788, [-4.0, -1.04], False)
    """
    return evaluation(cmdp, occupancy(cmdp, policy))


def evaluation(cmdp: CMDP, spent: Floats) -> Evaluation:
    """The values that belong to an occupancy [n]."""
    # Where the policy never is, nothing counts. And no products of matrices: BLAS would wake all cores for them.
    pairs = np.flatnonzero(spent != 0.0)
    shares = spent[pairs]
    return Evaluation(
        reward=float(np.sum(shares * cmdp.reward[pairs])),
        margins=freeze(np.array([np.sum(shares * c.margin(c.signal[pairs])) for c in cmdp.constraints])),
        occupancy=spent,
        discount=cmdp.discount,
        margin_scales=cmdp.margin_scales,
    )


@singledispatch
def mix(cmdp: CMDP, policies: Sequence[Policy], weights: Any = None) -> Policy:
    """ONE stationary policy whose values are the weighted means of the values of `policies` (default: equal weights).

    The mixture draws one of the policies at the start and keeps to it. Mixing goes through occupancies, so the values
    are exact; averaging the probabilities would not give them.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> best, safest = ib.solve(queue).policy, ib.slater(queue).policy
    >>> half = ib.evaluate(queue, ib.mix(queue, [best, safest]))
    >>> mean = (ib.evaluate(queue, best).reward + ib.evaluate(queue, safest).reward) / 2
    >>> abs(half.reward - mean) < 1e-12
    True
    """
    mixed, heaviest = mixed_occupancy(cmdp, policies, weights)
    return Policy.from_occupancy(cmdp, mixed, otherwise=heaviest)


def mixed_occupancy(problem: Any, policies: Sequence[Any], weights: Any) -> tuple[Any, Any]:
    """The weighted mean of the occupancies of policies of a problem of either kind, and the policy that weighs most."""
    shares = _mixture_weights(policies, weights)
    mixed = sum(share * occupancy(problem, policy) for share, policy in zip(shares, policies, strict=True))
    return mixed, policies[int(np.argmax(shares))]


def _mixture_weights(policies: Sequence[Any], weights: Any) -> Floats:
    """The weights of a mixture, checked; equal ones by default."""
    if not policies:
        raise InvalidInput("a mixture needs at least one policy")
    if weights is None:
        return np.full(len(policies), 1.0 / len(policies))
    shares = float_vector(weights, len(policies), "the weights of a mixture")
    if not np.all(shares >= 0.0) or abs(shares.sum() - 1.0) > 1e-9:
        raise InvalidInput("the weights of a mixture must be >= 0 and sum to 1")
    return shares
