"""Finite-horizon problems, their policies and their exact values.

An episode has stages 0..H-1. **A value is the expected SUM over the horizon**: there is no discount and nothing is
normalised, and bounds are given on that scale. Transitions, reward and signals may change with the stage; the states
and their actions do not.

The occupancy of a policy is the probability of each pair at each stage, [H, n]; every stage sums to 1. It follows
forwards from the initial distribution,

    sum_a occupancy_0(s, a) = initial(s)
    sum_a occupancy_h(s', a) = sum_{s, a} P_{h-1}(s' | s, a) occupancy_{h-1}(s, a)        h = 1 .. H-1

and every value is a product with it. Conversely any solution >= 0 of these equations is the occupancy of the policy
occupancy_h(s, a) / sum_b occupancy_h(s, b), so a mixture of policies becomes ONE policy with exactly the mixed values
through its mixed occupancy, as in the discounted case (Altman 1999).

A constraint ``sum of the signal >= bound`` is spread evenly over the stages: the margin at a pair is
``signal_h - bound / H``. Because every stage of an occupancy sums to 1, its value is the value of the signal minus
the bound.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from inbounds.arrays import Floats, Ints, divisors, freeze
from inbounds.errors import InvalidInput
from inbounds.inputs import float_array, whole_number
from inbounds.problem.cmdp import (
    Constraint,
    Problem,
    dense_fields,
    extremes,
    named_constraints,
    require_finite,
    sizes,
    valid_initial,
    valid_transition,
    with_bound,
)
from inbounds.problem.pairs import Pairs
from inbounds.problem.policy import ROUNDING, Policy, draw_action, evaluate, mix, mixed_occupancy, occupancy


@dataclass(frozen=True, eq=False, repr=False)
class EpisodicCMDP(Problem):
    """A finite-horizon constrained Markov decision process, in its native form: vectors over pairs.

    A value is the expected SUM over the horizon (there is no discount), and so is every bound. Most models come from
    `EpisodicCMDP.from_dense`. Every array is copied, checked and made read-only; what is wrong is reported with its
    stage and the labels of its state and action.

    Attributes
    ----------
    offsets : int array [S + 1]
        State ``s`` owns pairs ``offsets[s] : offsets[s + 1]``, at every stage.
    transition : tuple of H CSR arrays [n, S]
        Probabilities of the next state, one row per pair; given as one CSR array when it does not depend on the
        stage. That of the last stage leads out of the episode and changes no value.
    reward : array [H, n]
        Maximised; given as [n] when it does not depend on the stage.
    constraints : tuple of Constraint, each with a signal [H, n] (or [n]) and a bound on the sum over the horizon
    initial : array [S]
        Distribution of the first state.
    horizon : int
        The number of stages H.
    actions : int array [n], optional
        The action of each pair; by default 0, 1, 2, ... within each state.
    state_labels, action_labels : tuples, optional
        The user's names.
    name : str
        What the problem is called in tables.
    pairs : Pairs
        The numbering of states and actions, made from the fields above.

    Examples
    --------
    One state, three steps; working pays 1 and costs 1 unit of energy, resting pays nothing; at most 2 units in all:

    >>> import inbounds as ib
    >>> from inbounds.problem.episodic import EpisodicCMDP
    >>> problem = EpisodicCMDP(
    ...     offsets=[0, 2], transition=[[1.0], [1.0]], reward=[1.0, 0.0],
    ...     constraints=[ib.Constraint([1.0, 0.0], at_most=2.0, name="energy")], initial=[1.0], horizon=3)
    >>> problem
    EpisodicCMDP(1 state, 2 pairs, 1 constraint, horizon 3)
    >>> problem.margins.shape, problem.reward.shape
    ((1, 3, 2), (3, 2))
    """

    offsets: Ints
    transition: Any
    reward: Floats
    constraints: tuple[Constraint, ...]
    initial: Floats
    horizon: int
    actions: Ints | None = None
    state_labels: tuple[Hashable, ...] | None = None
    action_labels: tuple[Hashable, ...] | None = None
    name: str = ""
    pairs: Pairs = field(init=False)

    def __post_init__(self) -> None:
        pairs = Pairs.create(self.offsets, self.actions, self.state_labels, self.action_labels)
        horizon = whole_number(self.horizon, "horizon")

        def valid_signal(constraint: Constraint) -> Floats:
            return _per_stage(constraint.signal, horizon, pairs, f"the signal of constraint {constraint.name!r}")

        self._set_fields(
            pairs,
            horizon=horizon,
            reward=_per_stage(self.reward, horizon, pairs, "the reward"),
            constraints=named_constraints(self.constraints, valid_signal),
            initial=valid_initial(self.initial, pairs),
            transition=_valid_transitions(self.transition, horizon, pairs),
        )

    @classmethod
    def from_dense(
        cls,
        transition: Any,
        *,
        reward: Any,
        constraints: Sequence[Constraint] = (),
        initial: Any,
        horizon: int,
        allowed: Any = None,
        state_labels: Sequence[Hashable] | None = None,
        action_labels: Sequence[Hashable] | None = None,
        name: str = "",
    ) -> EpisodicCMDP:
        """A model from dense arrays; values and bounds are sums over the horizon.

        Parameters
        ----------
        transition : array [S, A, S], or [H, S, A, S] when it depends on the stage
        reward : array [S, A] or [H, S, A]
        constraints : each with a signal [S, A] or [H, S, A], and a bound on the sum over the horizon
        initial : array [S]
        horizon : int
            The number of stages H.
        allowed : bool array [S, A], optional
            False where a state does not have an action; whatever the other arrays hold there is ignored.
        state_labels, action_labels : sequences of length S and A, optional

        Examples
        --------
        >>> import numpy as np, inbounds as ib
        >>> from inbounds.problem.episodic import EpisodicCMDP
        >>> stay, move = np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]])
        >>> EpisodicCMDP.from_dense(
        ...     np.stack([stay, move], axis=1), reward=[[0.0, 1.0], [0.0, 2.0]],
        ...     constraints=[ib.Constraint([[0.0, 1.0], [0.0, 1.0]], at_most=3.0, name="moves")],
        ...     initial=[1.0, 0.0], horizon=5)
        EpisodicCMDP(2 states, 4 pairs, 1 constraint, horizon 5)
        """
        horizon = whole_number(horizon, "horizon")
        dense = float_array(transition, "transition")
        if dense.ndim not in (3, 4) or dense.shape[-3] != dense.shape[-1] or 0 in dense.shape:
            raise InvalidInput(f"transition must have shape [S, A, S] or [H, S, A, S], found {dense.shape}")
        if dense.ndim == 4 and len(dense) != horizon:
            raise InvalidInput(f"transition has {len(dense)} stages, but the horizon is {horizon}")
        shape = dense.shape[-3:-1]
        where, fields = dense_fields(shape, reward, constraints, allowed, state_labels, action_labels, horizon)
        return cls(
            transition=(
                sp.csr_array(dense[where]) if dense.ndim == 3 else tuple(sp.csr_array(stage[where]) for stage in dense)
            ),
            initial=initial,
            horizon=horizon,
            name=name,
            **fields,
        )

    @cached_property
    def margins(self) -> Floats:
        """The margin of every constraint at every stage and pair, [K, H, n]; each bound is spread over the stages."""
        margins = np.empty((self.n_constraints, self.horizon, self.n_pairs))
        for row, constraint in zip(margins, self.constraints, strict=True):
            row[:] = self._spread(constraint).margin(constraint.signal)
        return freeze(margins)

    @cached_property
    def margin_scales(self) -> Floats:
        """A bound on the absolute value of each margin, [K]: the largest margin of any pair, summed over the stages.

        1 where the margin is zero throughout.
        """
        scales = np.empty(self.n_constraints)
        for k, constraint in enumerate(self.constraints):
            largest = np.abs(self._spread(constraint).margin(extremes(constraint.signal))).max(axis=0)
            scales[k] = float(largest.sum()) or 1.0
        return freeze(scales)

    @property
    def criterion(self) -> dict[str, Any]:
        """What a value is: ``{"horizon": H}``, as in files and certificates."""
        return {"horizon": self.horizon}

    def _spread(self, constraint: Constraint) -> Constraint:
        """The constraint with the share of its bound that falls to each stage."""
        return with_bound(constraint, constraint.bound / self.horizon)

    def __repr__(self) -> str:
        return f"EpisodicCMDP({sizes(self.pairs, self.n_constraints, self.name)}, horizon {self.horizon})"


@dataclass(frozen=True, eq=False, repr=False)
class EpisodicPolicy:
    """A policy of an episode: the probability of each action at each stage in each state.

    Attributes
    ----------
    pairs : Pairs
        The numbering of states and actions.
    probabilities : array [H, n]
        Over pairs; those of one state at one stage sum to 1.

    Examples
    --------
    >>> import inbounds as ib
    >>> from inbounds.problem.episodic import EpisodicPolicy
    >>> policy = EpisodicPolicy.uniform(ib.zoo.media())
    >>> policy.table().shape
    (10, 10, 2)
    """

    pairs: Pairs
    probabilities: Floats

    def __post_init__(self) -> None:
        pairs = self.pairs
        probabilities = float_array(self.probabilities, "the probabilities of an episodic policy")
        if probabilities.ndim != 2 or len(probabilities) == 0 or probabilities.shape[1] != pairs.n_pairs:
            raise InvalidInput(
                f"the probabilities of an episodic policy must have shape [H, n] with n = {pairs.n_pairs}, "
                f"found {probabilities.shape}"
            )
        bad = ~(np.isfinite(probabilities) & (probabilities >= 0.0))
        if np.any(bad):
            stage, pair = (int(where[0]) for where in np.nonzero(bad))
            raise InvalidInput(
                f"stage {stage}, {pairs.describe(pair)}: the policy has probability {probabilities[stage, pair]}; "
                f"it must be a number >= 0"
            )
        sums = pairs.sum_by_state(probabilities)
        bad = np.abs(sums - 1.0) > 1e-9
        if np.any(bad):
            stage, state = (int(where[0]) for where in np.nonzero(bad))
            raise InvalidInput(
                f"stage {stage}, state {pairs.state_label(state)!r}: the policy's probabilities sum to "
                f"{sums[stage, state]:.12g}; they must sum to 1"
            )
        scale = divisors(sums, np.diff(pairs.offsets))
        object.__setattr__(self, "probabilities", freeze(probabilities / scale[:, pairs.states]))

    @classmethod
    def uniform(cls, problem: EpisodicCMDP) -> EpisodicPolicy:
        """Every action of a state equally likely, at every stage."""
        return cls.repeated(problem, Policy.uniform(problem))

    @classmethod
    def repeated(cls, problem: EpisodicCMDP, policy: Policy) -> EpisodicPolicy:
        """The stationary `policy` at every stage."""
        return cls(problem.pairs, np.tile(policy.probabilities, (problem.horizon, 1)))

    @classmethod
    def from_table(cls, problem: EpisodicCMDP, table: Any) -> EpisodicPolicy:
        """From probabilities [H, S, A]; entries of actions that a state lacks must be 0."""
        dense = float_array(table, "the table of a policy")
        if dense.ndim != 3 or len(dense) != problem.horizon:
            raise InvalidInput(
                f"the table of a policy must have shape [H, S, A] with H = {problem.horizon}, found {dense.shape}"
            )
        return cls(problem.pairs, np.array([Policy.from_table(problem, stage).probabilities for stage in dense]))

    @classmethod
    def deterministic(cls, problem: EpisodicCMDP, chosen: Any) -> EpisodicPolicy:
        """Always the pair `chosen[h, s]` at stage ``h`` in state ``s``; `chosen` is an int array [H, S] of pairs."""
        pairs = problem.pairs
        chosen = np.asarray(chosen)
        if chosen.shape != (problem.horizon, problem.n_states) or np.any(
            (chosen < pairs.offsets[:-1]) | (chosen >= pairs.offsets[1:])
        ):
            raise InvalidInput(
                "chosen must hold, for every stage and state, the number of one of the state's own pairs"
            )
        probabilities = np.zeros((problem.horizon, problem.n_pairs))
        np.put_along_axis(probabilities, chosen, 1.0, axis=1)
        return cls(pairs, probabilities)

    @classmethod
    def from_occupancy(
        cls, problem: EpisodicCMDP, occupancy: Any, otherwise: EpisodicPolicy | None = None
    ) -> EpisodicPolicy:
        """occupancy_h(s, a) / sum_b occupancy_h(s, b), from an occupancy [H, n].

        Where a state has no occupancy at a stage, `otherwise` (default: uniform).
        """
        pairs = problem.pairs
        mass = np.maximum(float_array(occupancy, "the occupancy"), 0.0)
        if mass.shape != (problem.horizon, problem.n_pairs):
            raise InvalidInput(
                f"the occupancy must have shape [H, n] = ({problem.horizon}, {problem.n_pairs}), found {mass.shape}"
            )
        if not np.all(np.isfinite(mass)):
            stage, pair = (int(where[0]) for where in np.nonzero(~np.isfinite(mass)))
            raise InvalidInput(
                f"stage {stage}, {pairs.describe(pair)}: the occupancy is {mass[stage, pair]}; it must be finite"
            )
        by_state = pairs.sum_by_state(mass)[:, pairs.states]
        fallback = (otherwise or cls.uniform(problem)).probabilities
        visited = by_state > 0.0
        return cls(pairs, np.where(visited, mass / np.where(visited, by_state, 1.0), fallback))

    @property
    def horizon(self) -> int:
        return len(self.probabilities)

    def at(self, stage: int) -> Policy:
        """The rule of one stage, as a stationary policy."""
        return Policy(self.pairs, self.probabilities[stage])

    def table(self) -> Floats:
        """The probabilities as a dense table [H, S, A], 0 where a state does not have an action."""
        return np.array([self.pairs.table(stage) for stage in self.probabilities])

    def sample(self, stage: int, state: int, rng: np.random.Generator) -> int:
        """Draw an action (a column of `table()`) at `stage` in state number `state`."""
        return draw_action(self.pairs, self.probabilities[stage], state, rng)

    def __repr__(self) -> str:
        surest = np.maximum.reduceat(self.probabilities, self.pairs.offsets[:-1], axis=1)
        mixed = int(np.count_nonzero(surest < 1.0))
        return f"EpisodicPolicy({self.horizon} stages, {self.pairs.n_states:,} states, randomises in {mixed:,})"


@dataclass(frozen=True, eq=False)
class EpisodicEvaluation:
    """The exact values of a policy of an episode, in the user's units: expected SUMS over the horizon."""

    reward: float
    margins: Floats  # [K]
    occupancy: Floats  # [H, n]
    margin_scales: Floats  # [K], a bound on each absolute margin

    @property
    def in_bounds(self) -> bool:
        """Every margin >= 0, up to the rounding of floating point (1e-9 of what a margin can be at most)."""
        return bool(np.all(self.margins >= -ROUNDING * self.margin_scales))


def occupancy_episodic(problem: EpisodicCMDP, policy: EpisodicPolicy) -> Floats:
    """The probability of each pair at each stage under `policy`, [H, n]; every stage sums to 1."""
    if policy.horizon != problem.horizon or not np.array_equal(policy.pairs.offsets, problem.offsets):
        raise InvalidInput(
            f"the policy ({policy.horizon} stages, {policy.pairs.n_pairs} pairs) does not belong to this problem "
            f"({problem!r})"
        )
    spent = np.empty((problem.horizon, problem.n_pairs))
    by_state = problem.initial
    for stage in range(problem.horizon):
        spent[stage] = by_state[problem.pairs.states] * policy.probabilities[stage]
        by_state = spent[stage] @ problem.transition[stage]
    return freeze(spent)


def evaluate_episodic(problem: EpisodicCMDP, policy: EpisodicPolicy) -> EpisodicEvaluation:
    """The exact reward and margins of a policy, in the user's units: expected SUMS over the horizon.

    Examples
    --------
    >>> import inbounds as ib
    >>> from inbounds.problem.episodic import EpisodicPolicy, evaluate_episodic
    >>> media = ib.zoo.media()
    >>> uniform = evaluate_episodic(media, EpisodicPolicy.uniform(media))
    >>> round(uniform.reward, 6), abs(float(uniform.margins[0])) < 1e-12, uniform.occupancy.shape
    (-8.254212, True, (10, 20))
    """
    spent = occupancy_episodic(problem, policy)
    return EpisodicEvaluation(
        reward=float(np.vdot(spent, problem.reward)),
        margins=freeze(np.tensordot(problem.margins, spent, axes=2)),
        occupancy=spent,
        margin_scales=problem.margin_scales,
    )


def mix_episodic(problem: EpisodicCMDP, policies: Sequence[EpisodicPolicy], weights: Any = None) -> EpisodicPolicy:
    """ONE policy whose values (sums over the horizon) are the weighted means of those of `policies`.

    The mixture draws one of the policies before the episode and keeps to it; weights are equal by default. Mixing goes
    through occupancies, so the values are exact; averaging the probabilities would not give them.
    """
    mixed, heaviest = mixed_occupancy(problem, policies, weights)
    return EpisodicPolicy.from_occupancy(problem, mixed, otherwise=heaviest)


# The public names ib.occupancy, ib.evaluate and ib.mix take problems of both kinds.
occupancy.register(EpisodicCMDP, occupancy_episodic)
evaluate.register(EpisodicCMDP, evaluate_episodic)  # type: ignore[arg-type]
mix.register(EpisodicCMDP, mix_episodic)  # type: ignore[arg-type]


def _per_stage(values: Any, horizon: int, pairs: Pairs, what: str) -> Floats:
    """A read-only copy of `values`, [n] or [H, n], as [H, n]; a vector [n] is kept once and repeated as a view."""
    array = float_array(values, what).copy()
    if array.shape == (pairs.n_pairs,):
        require_finite(array, what, pairs)
        return freeze(np.broadcast_to(freeze(array), (horizon, pairs.n_pairs)))
    if array.shape != (horizon, pairs.n_pairs):
        raise InvalidInput(
            f"{what} must have {pairs.n_pairs} entries, one per pair, "
            f"or shape [H, n] = ({horizon}, {pairs.n_pairs}), found shape {array.shape}"
        )
    for stage, row in enumerate(array):
        try:
            require_finite(row, what, pairs)
        except InvalidInput as error:
            raise InvalidInput(f"stage {stage}, {error}") from None
    return freeze(array)


def _valid_transitions(transition: Any, horizon: int, pairs: Pairs) -> tuple[Any, ...]:
    """H checked CSR arrays; one that serves several stages is checked and kept once."""
    if not isinstance(transition, tuple):
        return (valid_transition(transition, pairs.n_pairs, pairs.n_states, pairs),) * horizon
    if len(transition) != horizon:
        raise InvalidInput(f"transition has {len(transition)} stages, but the horizon is {horizon}")
    checked: dict[int, Any] = {}
    for stage, matrix in enumerate(transition):
        if id(matrix) not in checked:
            try:
                checked[id(matrix)] = valid_transition(matrix, pairs.n_pairs, pairs.n_states, pairs)
            except InvalidInput as error:
                raise InvalidInput(f"stage {stage}, {error}") from None
    return tuple(checked[id(matrix)] for matrix in transition)
