"""The problem: a finite constrained Markov decision process (CMDP), with one of three criteria.

Reward is maximised, and every constraint's margin must have a value >= 0 (`inbounds.problem.constraint`). What a value
is, the criterion says; exactly one of three is given:

    discount=0.95   discounted averages per step: sums of discount^t, normalised by (1 - discount), so that occupancies
                    sum to 1; ``total = value / (1 - discount)`` is the discounted sum
    horizon=12      SUMS over that many stages; every array may have a leading axis of stages
    average=True    long-run averages per step

Bounds are on the scale of values. A constraint on the sum over a horizon is spread evenly over the stages: its margin
at a pair is ``signal_h - bound / H``, so that the value of the margin is the value of the signal minus the bound.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from inbounds.arrays import Floats, Ints, ReadOnly, divisors, freeze
from inbounds.errors import InvalidInput
from inbounds.formats import read_model, write_model
from inbounds.inputs import (
    LARGEST_NUMBER,
    SOUND,
    float_array,
    float_vector,
    is_single,
    plain_number,
    require_places,
    shown,
    sum_tolerance,
)
from inbounds.problem.constraint import Constraint, named_constraints
from inbounds.problem.criterion import criterion_in_words, valid_criterion
from inbounds.problem.marginal import marginal
from inbounds.problem.pairs import Pairs, sizes, table_entries
from inbounds.problem.simulator import Simulator
from inbounds.tables import html_card, html_table

_ROUNDED_TO_ZERO = 1e-12
"""A margin smaller than this share of its signal and bound is the rounding of their difference."""


@dataclass(frozen=True, eq=False, repr=False)
class CMDP(ReadOnly):
    """A finite constrained Markov decision process, in its native form: vectors over pairs.

    Most models come from `CMDP.from_dense` or `build`. Every array is copied, checked and made read-only; a
    probability row that is wrong is reported with the labels of its state and action. Exactly one of `discount`,
    `horizon` and `average` says what a value is: a discounted average per step, normalised by (1 - discount); a SUM
    over the horizon; a long-run average per step.

    Attributes
    ----------
    offsets : int array [S + 1]
        State ``s`` owns pairs ``offsets[s] : offsets[s + 1]``.
    transition : CSR array [n, S]
        Probabilities of the next state, one row per pair. With a horizon: a tuple of H of them, which may all be the
        same; that of the last stage leads out of the episode and changes no value.
    reward : array [n]
        Maximised. With a horizon: [H, n]; given as [n] when it does not depend on the stage. A sparse array [n, S], a
        number per transition, is averaged over the next state; so are signals.
    constraints : tuple of Constraint, each with a signal like the reward
    initial : array [S]
        Distribution of the first state.
    discount : float in [0, 1), optional
    horizon : int, optional
        The number of stages H.
    average : bool
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
    One state; working pays 1 and costs 1 unit of energy, resting pays nothing; at most a quarter of the time at work:

    >>> import inbounds as ib
    >>> work = dict(offsets=[0, 2], transition=[[1.0], [1.0]], reward=[1.0, 0.0], initial=[1.0])
    >>> cmdp = ib.CMDP(**work, constraints=[ib.Constraint([1.0, 0.0], at_most=0.25, name="energy")], discount=0.9)
    >>> cmdp
    CMDP(1 state, 2 pairs, 1 constraint, discount 0.9)
    >>> cmdp.margins
    array([[-0.75,  0.25]])

    The same work for three steps, with at most 2 units in all:

    >>> cmdp = ib.CMDP(**work, constraints=[ib.Constraint([1.0, 0.0], at_most=2.0, name="energy")], horizon=3)
    >>> cmdp
    CMDP(1 state, 2 pairs, 1 constraint, horizon 3)
    >>> cmdp.margins.shape, cmdp.reward.shape
    ((1, 3, 2), (3, 2))
    """

    offsets: Ints
    transition: Any
    reward: Floats
    constraints: tuple[Constraint, ...]
    initial: Floats
    discount: Any = None  # a float, where it is the criterion
    horizon: int | None = None
    average: bool = False
    actions: Ints | None = None
    state_labels: tuple[Hashable, ...] | None = None
    action_labels: tuple[Hashable, ...] | None = None
    name: str = ""
    pairs: Pairs = field(init=False)

    if TYPE_CHECKING:  # what may be given is more than what is kept of it

        def __init__(
            self,
            offsets: Sequence[int] | Ints,
            transition: Any,
            reward: Any,
            constraints: Sequence[Constraint],
            initial: Sequence[float] | Floats,
            discount: Any = None,
            horizon: int | None = None,
            average: bool = False,
            actions: Sequence[int] | Ints | None = None,
            state_labels: Sequence[Hashable] | None = None,
            action_labels: Sequence[Hashable] | None = None,
            name: str = "",
        ) -> None: ...

    def __post_init__(self) -> None:
        pairs = Pairs.create(self.offsets, self.actions, self.state_labels, self.action_labels, self.name)
        criterion = valid_criterion(self.discount, self.horizon, self.average)
        horizon = criterion.get("horizon")

        transition = _valid_transitions(self.transition, horizon, pairs)

        def over_pairs(values: Any, what: str) -> Floats:
            return _over_pairs(marginal(values, transition, pairs, what), horizon, pairs, what)

        def valid_signal(constraint: Constraint) -> Floats:
            return over_pairs(constraint.signal, f"the signal of constraint {constraint.name!r}")

        for name, value in {
            "offsets": pairs.offsets,
            "actions": pairs.actions,
            "state_labels": pairs.state_labels,
            "action_labels": pairs.action_labels,
            "pairs": pairs,
            "discount": criterion.get("discount"),
            "horizon": horizon,
            "average": criterion.get("average", False),
            "reward": over_pairs(self.reward, "the reward"),
            "constraints": named_constraints(self.constraints, valid_signal),
            "initial": valid_initial(self.initial, pairs),
            "transition": transition,
        }.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_dense(
        cls,
        transition: Any,
        *,
        reward: Any,
        constraints: Sequence[Constraint] = (),
        initial: Any,
        discount: float | None = None,
        horizon: int | None = None,
        average: bool = False,
        allowed: Any = None,
        state_labels: Sequence[Hashable] | None = None,
        action_labels: Sequence[Hashable] | None = None,
        name: str = "",
    ) -> CMDP:
        """A model from dense arrays.

        Parameters
        ----------
        transition : array [S, A, S]
        reward : array [S, A]
            Or [S, A, S], where it depends on the next state: it is averaged over that, exactly.
        constraints : each with a signal like the reward
            With a horizon, each of these may have a leading axis of stages: [H, S, A, S] and [H, S, A]. (Where a shape
            is both [H, S, A] and [S, A, S], it is taken as the former.)
        initial : array [S]
        discount, horizon, average
            Exactly one, as in `CMDP`: values are discounted averages per step, sums over the horizon, or long-run
            averages per step.
        allowed : bool array [S, A], optional
            False where a state does not have an action; whatever the other arrays hold there is ignored.
        state_labels, action_labels : sequences of length S and A, optional

        Examples
        --------
        >>> import numpy as np, inbounds as ib
        >>> stay, move = np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]])
        >>> ib.CMDP.from_dense(
        ...     np.stack([stay, move], axis=1), reward=[[0.0, 1.0], [0.0, 2.0]],
        ...     constraints=[ib.Constraint([[0.0, 1.0], [0.0, 1.0]], at_most=0.5, name="moves")],
        ...     initial=[1.0, 0.0], discount=0.8)
        CMDP(2 states, 4 pairs, 1 constraint, discount 0.8)
        """
        criterion = valid_criterion(discount, horizon, average)
        stages = criterion.get("horizon")
        dense = float_array(transition, "transition")
        if is_single(transition):  # sums are judged by the precision that they came in
            dense = dense.astype(np.float32)
        staged = stages is not None and dense.ndim == 4
        if dense.ndim - staged != 3 or dense.shape[-3] != dense.shape[-1] or 0 in dense.shape:
            wanted = "[S, A, S]" if stages is None else "[S, A, S] or [H, S, A, S]"
            raise InvalidInput(f"transition must have shape {wanted}, found {dense.shape}")
        if staged and len(dense) != stages:
            raise InvalidInput(f"transition has {len(dense)} stages, but the horizon is {stages}")
        shape = dense.shape[-3:-1]
        shapes = {"[S, A]": shape} if stages is None else {"[S, A]": shape, "[H, S, A]": (stages, *shape)}
        try:
            mask = np.ones(shape, dtype=bool) if allowed is None else np.asarray(allowed)
        except ValueError:
            raise InvalidInput(
                f"allowed must be booleans of shape [S, A] = {shape}, one for each action of each state; found rows of "
                "different lengths"
            ) from None
        if mask.shape != shape or mask.dtype != bool or np.ma.is_masked(allowed):
            raise InvalidInput(
                f"allowed must be booleans of shape [S, A] = {shape}, found {mask.dtype} of shape {mask.shape}"
            )
        where = np.nonzero(mask)
        return cls(
            offsets=np.concatenate([[0], np.cumsum(mask.sum(axis=1))]),
            transition=tuple(sp.csr_array(stage[where]) for stage in dense) if staged else sp.csr_array(dense[where]),
            reward=_dense_values(reward, where, shapes, dense.shape, "reward"),
            constraints=tuple(
                replace(
                    c,
                    signal=_dense_values(c.signal, where, shapes, dense.shape, f"the signal of constraint {c.name!r}"),
                )
                for c in named_constraints(constraints, lambda c: c.signal)
            ),
            initial=initial,
            **criterion,
            actions=where[1],
            state_labels=state_labels,  # type: ignore[arg-type]  # checked, and made a tuple, there
            action_labels=tuple(range(shape[1])) if action_labels is None else action_labels,  # type: ignore[arg-type]
            name=name,
        )

    @property
    def n_states(self) -> int:
        return self.pairs.n_states

    @property
    def n_pairs(self) -> int:
        return self.pairs.n_pairs

    @property
    def n_constraints(self) -> int:
        return len(self.constraints)

    @property
    def criterion(self) -> dict[str, Any]:
        """What says what a value is: ``{"discount": 0.95}``, ``{"horizon": 12}`` or ``{"average": True}``."""
        if self.discount is not None:
            return {"discount": self.discount}
        return {"horizon": self.horizon} if self.horizon is not None else {"average": True}

    @property
    def layers(self) -> int:
        """How many unit masses an occupancy has: H with a horizon, else 1."""
        return self.horizon or 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the reward, of signals, policies and occupancies: (n,), or (H, n) with a horizon."""
        return self.reward.shape

    @property
    def signals(self) -> tuple[Floats, ...]:
        """Of the constraints."""
        return tuple(constraint.signal for constraint in self.constraints)

    @property
    def transitions(self) -> tuple[Any, ...]:
        """The transitions of each layer: CSR arrays [n, S]."""
        return self.transition if isinstance(self.transition, tuple) else (self.transition,)

    @cached_property
    def margins(self) -> Floats:
        """The margin of every constraint at every pair, [K, n]; with a horizon [K, H, n], bounds spread over stages."""
        margins = np.empty((self.n_constraints, *self.shape))
        for row, constraint in zip(margins, self.constraints, strict=True):
            row[...] = self._spread(constraint).margin(constraint.signal)
        return freeze(margins)

    @cached_property
    def margin_scales(self) -> Floats:
        """A bound on the absolute value of each margin, [K]: the largest at any pair, summed over the layers.

        Where the signal equals the bound throughout, up to rounding, the size of the bound instead (1 if that is 0).
        """
        scales = np.empty(self.n_constraints)
        for k, constraint in enumerate(self.constraints):
            # One of the two has the largest absolute margin, to the last bit: a subtraction keeps the order.
            ends = np.array([constraint.signal.min(axis=-1), constraint.signal.max(axis=-1)])
            largest = float(np.sum(np.abs(self._spread(constraint).margin(ends)).max(axis=0)))
            size = max(float(np.sum(np.abs(ends).max(axis=0))), abs(constraint.bound)) or 1.0
            scales[k] = largest if largest > _ROUNDED_TO_ZERO * size else size
        return freeze(scales)

    def _spread(self, constraint: Constraint) -> Constraint:
        """The constraint with the share of its bound that falls to each layer."""
        return constraint if self.layers == 1 else constraint.with_bound(constraint.bound / self.layers)

    def tightened(self, by: Any) -> Self:
        """The same problem with the margin of every constraint smaller by `by` (a number, or one per constraint).

        In the units of the bounds. The conservative problem of the paper, whose ``kappa`` is in scaled units, is
        ``cmdp.tightened(kappa * cmdp.margin_scales)``.
        """
        amounts = float_array(by, "what the problem is tightened by")
        if amounts.ndim == 0:
            amounts = np.full(self.n_constraints, amounts)
        amounts = float_vector(amounts, self.n_constraints, "what the problem is tightened by")
        return self.asking(constraints=[c.tightened(float(a)) for c, a in zip(self.constraints, amounts, strict=True)])

    def unconstrained(self) -> Self:
        """The same problem without its constraints."""
        return self.asking(constraints=())

    def asking(self, *, reward: Any = None, constraints: Sequence[Constraint] | None = None) -> Self:
        """The same model with another reward (of this `shape`, finite) or other constraints, of such signals.

        All else is shared, with what was computed of it: changing the question costs nothing, whatever the size.
        """
        changed = copy(self)
        if reward is not None:
            object.__setattr__(changed, "reward", self._asked(reward, "reward"))
        if constraints is not None:
            named = named_constraints(constraints, lambda each: self._asked(each.signal, "a constraint"))
            object.__setattr__(changed, "constraints", named)
            for depends_on_bounds in ("margins", "margin_scales"):
                changed.__dict__.pop(depends_on_bounds, None)
        return changed

    def _asked(self, values: Any, what: str) -> Floats:
        """What is asked instead: what is asked already, or a copy that nobody can change."""
        if any(values is own for own in (self.reward, *self.signals)):
            return values
        if not isinstance(values, np.ndarray) or values.dtype != np.float64 or values.shape != self.shape:
            raise InvalidInput(f"asking: {what} must be an array of floats of shape {self.shape}; or make an ib.CMDP")
        bad = ~(np.abs(values) <= LARGEST_NUMBER)
        if np.any(bad):
            raise InvalidInput(f"asking: {what} must be {SOUND}, found {shown(float(values[bad][0]))}")
        return freeze(values.copy())

    def with_bound(self, constraint: int | str, *, at_least: float | None = None, at_most: float | None = None) -> Self:
        """The same problem with another bound on one constraint, by its name or position: what if it were so much?

        The bound is on the scale of values, and on the side that the constraint has. All else is shared.

        Examples
        --------
        >>> import inbounds as ib
        >>> media = ib.zoo.media()
        >>> [round(ib.solve(media.with_bound("fast actions", at_most=bound)).reward, 4) for bound in (4, 5, 6)]
        [-7.2734, -6.7467, -6.2581]
        """
        place = self.constraint_number(constraint)
        old = self.constraints[place]
        given = {"at_least": at_least, "at_most": at_most}
        if [side for side, bound in given.items() if bound is not None] != [old.side]:
            other = "at_most" if old.side == "at_least" else "at_least"
            raise InvalidInput(f"constraint {old.name!r} has a bound {old.side}: give {old.side}= alone, no {other}=")
        new = old.with_bound(given[old.side])  # type: ignore[arg-type]  # it is given
        return self.asking(constraints=[new if k == place else c for k, c in enumerate(self.constraints)])

    def constraint_number(self, constraint: int | str) -> int:
        """The position of a constraint, from its name or its position."""
        names = [c.name for c in self.constraints]
        if isinstance(constraint, str) and constraint in names:
            return names.index(constraint)
        place = plain_number(constraint)
        if place in range(len(names)):
            return int(place)  # type: ignore[arg-type]  # it is not None
        listed = ", ".join(map(repr, names)) or "none"
        raise InvalidInput(f"there is no constraint {shown(constraint)}; the problem has: {listed}")

    def simulator(self, scale: bool = True) -> Simulator:
        """The sampling access to this model that learners are given (a generative model).

        With ``scale=False`` they see rewards and margins in the units of this model, not scaled to [0, 1] and [-1, 1].
        """
        return Simulator.tabular(self, scale)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that ``ib.load(path)`` reads, whole or not at all.

        The suffix decides: ``.npz`` for any size, ``.toml`` to read and edit. Both keep every number to the last bit,
        and the labels.
        """
        write_model(self, path)

    def __eq__(self, other: object) -> bool:
        """The same problem: the same numbers, labels and name."""
        if not isinstance(other, CMDP):
            return NotImplemented
        return self is other or (
            self._facts == other._facts
            and all(np.array_equal(*both) for both in zip(self._arrays(), other._arrays(), strict=True))
        )

    def __hash__(self) -> int:
        return hash(self._facts)

    @property
    def _facts(self) -> tuple[Any, ...]:
        """What is not in arrays; equal facts have as many arrays."""
        bounds = tuple((c.name, c.side, c.bound) for c in self.constraints)
        labels = (self.state_labels, self.action_labels)
        return self.name, tuple(self.criterion.items()), bounds, labels, self.n_states, len(self.transitions)

    def _arrays(self) -> list[Any]:
        rows = [part for moves in self.transitions for part in (moves.indptr, moves.indices, moves.data)]
        return [self.offsets, self.actions, self.initial, *rows, self.reward, *self.signals]

    def _repr_html_(self) -> str:
        rows = [(c.name, c.in_words) for c in self.constraints]
        return html_card(repr(self), html_table(("constraint", "bound"), rows) if rows else "")

    def __repr__(self) -> str:
        return f"CMDP({sizes(self.pairs, self.n_constraints, self.name)}, {criterion_in_words(self.criterion)})"


def load(path: str | os.PathLike[str]) -> CMDP:
    """The model in a file, ``.npz`` or ``.toml``; bounds in files are on the scale of the model's values.

    Examples
    --------
    >>> import tempfile, inbounds as ib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ib.zoo.queue().save(f"{folder}/queue.npz")
    ...     ib.load(f"{folder}/queue.npz")
    CMDP(queue: 6 states, 96 pairs, 2 constraints, discount 0.5)
    """
    fields = read_model(path)
    try:
        constraints = tuple(Constraint(**constraint) for constraint in fields.pop("constraints"))
        return CMDP(constraints=constraints, **fields)
    except InvalidInput as error:
        raise InvalidInput(f"{os.fspath(path)}: {error}") from error


def _dense_values(values: Any, where: Any, shapes: dict[str, Any], moves: tuple[int, ...], what: str) -> Any:
    """A table as a vector over pairs; one per transition, [S, A, S] or [H, S, A, S], as sparse arrays [n, S]."""
    table = float_array(values, what)
    if table.shape not in shapes.values():
        if table.shape == moves[-3:]:
            return sp.csr_array(table[where])
        if table.ndim == 4 and table.shape[1:] == moves[-3:]:
            return tuple(sp.csr_array(stage[where]) for stage in table)
        shapes = {**shapes, "[S, A, S]": moves[-3:]}
    return table_entries(table, where, shapes, what)


def _over_pairs(values: Any, horizon: int | None, pairs: Pairs, what: str) -> Floats:
    """A read-only copy of `values` [n]; with a horizon, of [n] or [H, n] as [H, n], the former as a view."""
    array = float_array(values, what).copy()
    n_pairs = pairs.n_pairs
    if array.shape == (n_pairs,):
        _require_sizes(array, what, pairs)
        return freeze(array) if horizon is None else freeze(np.broadcast_to(freeze(array), (horizon, n_pairs)))
    if horizon is None:
        raise InvalidInput(f"{what} must have {n_pairs} entries, one per pair, found shape {array.shape}")
    if array.shape != (horizon, n_pairs):
        raise InvalidInput(
            f"{what} must have {n_pairs} entries, one per pair, "
            f"or shape [H, n] = ({horizon}, {n_pairs}), found shape {array.shape}"
        )
    sound = (np.abs(array) <= LARGEST_NUMBER).all(axis=1)
    if not sound.all():
        stage = int(np.argmin(sound))
        try:
            _require_sizes(array[stage], what, pairs)
        except InvalidInput as error:
            raise InvalidInput(f"stage {stage}, {error}") from None
    return freeze(array)


def _require_sizes(values: Floats, what: str, pairs: Pairs) -> None:
    """Refuse what is no number, and what sums and products with could be infinite."""
    bad = ~(np.abs(values) <= LARGEST_NUMBER)
    if np.any(bad):
        pair = int(np.argmax(bad))
        raise InvalidInput(f"{pairs.describe(pair)}: {what} is {values[pair]}; it must be {SOUND}{_and_more(bad)}")


def valid_initial(initial: Any, pairs: Pairs) -> Floats:
    vector = float_vector(initial, pairs.n_states, "initial")
    bad = ~(np.isfinite(vector) & (vector >= 0.0))
    if np.any(bad):
        state = int(np.argmax(bad))
        raise InvalidInput(
            f"initial gives state {pairs.state_label(state)!r} the probability {vector[state]}; "
            f"it must be a number >= 0{_and_more(bad)}"
        )
    with np.errstate(over="ignore"):
        total = vector.sum()
    if abs(total - 1.0) > sum_tolerance(initial):
        raise InvalidInput(f"initial must sum to 1, found {total:.12g}")
    return freeze(vector / divisors(total, np.count_nonzero(vector)))


def require_model(problem: Any, who: str) -> None:
    """Refuse whatever is no model; `who` wants one."""
    if not isinstance(problem, CMDP):
        raise InvalidInput(f"{who} takes a known model, a CMDP; found {type(problem).__name__}")


def _valid_transitions(transition: Any, horizon: int | None, pairs: Pairs) -> Any:
    """The checked CSR array; with a horizon, H of them: one that serves several stages is checked and kept once.

    Stages of the same numbers share one array, however they were given: what others do once for each array, such as to
    pool what is seen of it, depends on the model alone.
    """
    listed = isinstance(transition, list) or (isinstance(transition, np.ndarray) and transition.ndim > 0)
    several = listed and len(transition) > 0 and np.ndim(transition[0]) == 2
    staged = several or isinstance(transition, tuple)
    if horizon is None:
        if staged:
            raise InvalidInput("transition has stages, which is for a finite horizon: give horizon=")
        return valid_transition(transition, pairs)
    if not staged:
        return (valid_transition(transition, pairs),) * horizon
    transition = tuple(transition)  # of an array every look makes a new view of a stage
    if len(transition) != horizon:
        raise InvalidInput(f"transition has {len(transition)} stages, but the horizon is {horizon}")
    checked: dict[int, Any] = {}
    different: dict[bytes, Any] = {}
    for stage, matrix in enumerate(transition):
        if id(matrix) not in checked:
            try:
                valid = valid_transition(matrix, pairs)
            except InvalidInput as error:
                raise InvalidInput(f"stage {stage}, {error}") from None
            checked[id(matrix)] = different.setdefault(_fingerprint(valid), valid)
    return tuple(checked[id(matrix)] for matrix in transition)


def _fingerprint(matrix: Any) -> bytes:
    """Of the numbers of a CSR array: those of two arrays are the same if and only if all their numbers are."""
    numbers = sha256()
    for array in (matrix.indptr, matrix.indices, matrix.data):
        numbers.update(array)
    return numbers.digest()


def valid_transition(transition: Any, pairs: Pairs) -> Any:
    n_pairs, n_states = pairs.n_pairs, pairs.n_states
    tolerance = sum_tolerance(transition)
    require_places(transition, "transition")
    try:
        given = transition if sp.issparse(transition) else float_array(transition, "it")
        matrix = sp.csr_array(given, dtype=np.float64, copy=True)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"transition must be a sparse or dense matrix [n, S] of numbers ({error})") from error
    if matrix.shape != (n_pairs, n_states):
        raise InvalidInput(
            f"transition must have shape [n, S] = ({n_pairs}, {n_states}), one row per pair, found {matrix.shape}"
        )
    matrix.sum_duplicates()
    bad = ~(np.isfinite(matrix.data) & (matrix.data >= 0.0))
    if np.any(bad):
        entry = int(np.argmax(bad))
        pair = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        target = pairs.state_label(int(matrix.indices[entry]))
        raise InvalidInput(
            f"{pairs.describe(pair)}: the probability of moving to state {target!r} is {matrix.data[entry]}; "
            f"it must be a number >= 0{_and_more(bad)}"
        )
    matrix.eliminate_zeros()
    with np.errstate(over="ignore"):  # an infinite sum is reported like any other wrong one
        sums = np.asarray(matrix.sum(axis=1)).ravel()
    bad = ~(np.abs(sums - 1.0) <= tolerance)
    if np.any(bad):
        pair = int(np.argmax(bad))
        raise InvalidInput(
            f"{pairs.describe(pair)}: the probabilities of the next state sum to {sums[pair]:.12g}; "
            f"they must sum to 1{_and_more(bad)}"
        )
    lengths = np.diff(matrix.indptr)
    matrix.data /= np.repeat(divisors(sums, lengths), lengths)
    # Sweeps over the rows are bound by memory: half as wide an index, where it suffices, is a quarter less to read.
    index = np.int32 if max(matrix.nnz, n_pairs, n_states) < 2**31 else np.int64
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    for array in (matrix.data, matrix.indices, matrix.indptr):
        freeze(array)
    return matrix


def _and_more(bad: Any) -> str:
    others = int(np.count_nonzero(bad)) - 1
    return f" (and {others:,} more like it)" if others else ""
