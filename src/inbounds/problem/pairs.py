"""Pairs: how states and their actions are numbered, and what the user calls them.

A *pair* is a state with one of its actions. Pairs are numbered 0..n-1, grouped by state: state ``s`` owns the pairs
``offsets[s] : offsets[s + 1]``. States may have different numbers of actions. Everything per action (reward, signal,
policy, occupancy) is a vector over pairs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from inbounds.arrays import Floats, Ints, ReadOnly, freeze
from inbounds.errors import InvalidInput
from inbounds.formats.labels import alike, parts_of
from inbounds.inputs import asked, entries, float_array, real_number, shown, whole_number
from inbounds.numerics.classes import first_largest
from inbounds.tables import printable, so_many


@dataclass(frozen=True, eq=False)
class Pairs(ReadOnly):
    """The layout of a problem, shared by its model, its simulator and its policies.

    Attributes
    ----------
    offsets : int array [S + 1]
        State ``s`` owns pairs ``offsets[s] : offsets[s + 1]``.
    actions : int array [n]
        The action of each pair: a column of the ``[S, A]`` tables.
    state_labels : tuple of length S, or None
        The user's names of the states; None means 0..S-1.
    action_labels : tuple of length A, or None
        The user's names of the actions; None means 0..A-1.
    problem : str
        What the problem is called, for the titles of pictures; may be empty.

    Examples
    --------
    Two states, the second with one action only:

    >>> pairs = Pairs.create(offsets=[0, 2, 3], state_labels=("on", "off"))
    >>> pairs.n_states, pairs.n_pairs, pairs.n_actions
    (2, 3, 2)
    >>> pairs.describe(2)
    "state 'off', action 0"
    """

    offsets: Ints
    actions: Ints
    state_labels: tuple[Hashable, ...] | None
    action_labels: tuple[Hashable, ...] | None
    problem: str = ""

    @classmethod
    def create(
        cls,
        offsets: object,
        actions: object = None,
        state_labels: Sequence[Hashable] | None = None,
        action_labels: Sequence[Hashable] | None = None,
        problem: str = "",
    ) -> Pairs:
        """Validate and freeze. Without `actions`, the actions of each state are 0, 1, 2, ..."""
        if not isinstance(problem, str):
            raise InvalidInput(f"the name of a problem must be text, found {shown(problem)}")
        offsets_array = _int_vector(offsets, "offsets")
        if len(offsets_array) < 2:
            raise InvalidInput("the problem has no states: offsets must have one entry more than there are states")
        if offsets_array[0] != 0:
            raise InvalidInput(f"offsets must start at 0, found {offsets_array[0]}")
        n_states = len(offsets_array) - 1
        for what, labels in (("state_labels", state_labels), ("action_labels", action_labels)):
            if isinstance(labels, str | bytes) or not (labels is None or isinstance(labels, Iterable)):
                raise InvalidInput(f"{what} must be a list of labels, found {shown(labels)}")
        if state_labels is not None:
            state_labels = alike(tuple(entries(state_labels, "state_labels")))
            if len(state_labels) != n_states:
                raise InvalidInput(f"state_labels must have {n_states} entries, found {len(state_labels)}")
            require_distinct(state_labels, "state_labels")

        def name(state: int) -> str:
            return repr(state_labels[state] if state_labels is not None else state)

        counts = np.diff(offsets_array)
        if np.any(counts < 0):
            raise InvalidInput(f"offsets must not decrease, but do at state {name(int(np.argmax(counts < 0)))}")
        if np.any(counts == 0):
            state = int(np.argmax(counts == 0))
            raise InvalidInput(f"state {name(state)} has no actions; every state needs at least one")

        n_pairs = int(offsets_array[-1])
        if actions is None:
            actions_array = np.arange(n_pairs, dtype=np.int64) - np.repeat(offsets_array[:-1], counts)
        else:
            actions_array = _int_vector(actions, "actions")
            if len(actions_array) != n_pairs:
                raise InvalidInput(f"actions must have {n_pairs} entries, one per pair, found {len(actions_array)}")
            if np.any(actions_array < 0):
                raise InvalidInput("actions must not be negative: they are columns of the [S, A] tables")
        if action_labels is not None:
            action_labels = alike(tuple(entries(action_labels, "action_labels")))
            if len(action_labels) <= int(actions_array.max()):
                raise InvalidInput(
                    f"action_labels must name every action 0..{actions_array.max()}, found {len(action_labels)} labels"
                )
            require_distinct(action_labels, "action_labels")
        pairs = cls(freeze(offsets_array), freeze(actions_array), state_labels, action_labels, problem)
        _require_distinct_actions(pairs)
        return pairs

    @property
    def n_states(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_pairs(self) -> int:
        return int(self.offsets[-1])

    @cached_property
    def n_actions(self) -> int:
        """The number of columns of an [S, A] table."""
        return len(self.action_labels) if self.action_labels is not None else int(self.actions.max()) + 1

    @cached_property
    def states(self) -> Ints:
        """The state of each pair, [n]."""
        return freeze(np.repeat(np.arange(self.n_states, dtype=np.int64), np.diff(self.offsets)))

    @cached_property
    def state_numbers(self) -> dict[Hashable, int]:
        """The number of each state, by its label."""
        return {self.state_label(state): state for state in range(self.n_states)}

    @cached_property
    def parts(self) -> dict[str, tuple[str, ...] | None]:
        """The names of the parts of "state" and "action" labels, where these are named tuples."""
        return {"state": parts_of(self.state_labels), "action": parts_of(self.action_labels)}

    def state_number(self, label: Any) -> int:
        """The number of the state that the user calls `label`."""
        try:
            if self.state_labels is None and isinstance(label, bool):
                raise KeyError
            return self.state_numbers[label]
        except (KeyError, TypeError):
            raise InvalidInput(f"there is no state {shown(label)}; there are {self._listed_states()}") from None

    def _listed_states(self) -> str:
        shown = ", ".join(repr(self.state_label(state)) for state in range(min(self.n_states, 3)))
        return shown if self.n_states <= 3 else f"{self.n_states:,}: {shown}, ..."

    def actions_of(self, state: int) -> dict[Hashable, int]:
        """The pair of each action of a state, by the label of the action, in the order of the pairs."""
        state = _place(state, self.n_states, "state")
        own = range(int(self.offsets[state]), int(self.offsets[state + 1]))
        return {self.action_label(pair): pair for pair in own}

    def state_label(self, state: int) -> Hashable:
        state = _place(state, self.n_states, "state")
        return self.state_labels[state] if self.state_labels is not None else state

    def action_label(self, pair: int) -> Hashable:
        action = int(self.actions[_place(pair, self.n_pairs, "pair")])
        return self.action_labels[action] if self.action_labels is not None else action

    def describe(self, pair: int) -> str:
        """The pair in the user's words, for messages."""
        pair = _place(pair, self.n_pairs, "pair")
        return f"state {self.state_label(int(self.states[pair]))!r}, action {self.action_label(pair)!r}"

    def sum_by_state(self, values: Floats) -> Floats:
        """Sum a vector over pairs [n] within each state, [S]; or each of several, [H, n], [H, S]."""
        return np.add.reduceat(self._over_pairs(values), self.offsets[:-1], axis=-1)

    def best(self, values: Floats) -> tuple[Floats, Ints]:
        """The largest entry of a vector over pairs [n] in each state, [S], and its pair [S]: the first of several."""
        values = self._over_pairs(values)
        if values.ndim != 1:
            raise InvalidInput(f"values must be a vector over pairs, found shape {values.shape}")
        chosen = first_largest(self.offsets, values)
        return values[chosen], chosen

    def table(self, values: Floats, missing: float = 0.0) -> Floats:
        """A vector over pairs [n] as a dense table [S, A], `missing` where a state does not have an action."""
        table = np.full((self.n_states, self.n_actions), real_number(missing, "missing"))
        values = self._over_pairs(values)
        if values.ndim != 1:
            raise InvalidInput(f"values must be a vector over pairs, found shape {values.shape}")
        table[self.states, self.actions] = values
        return table

    def _over_pairs(self, values: Any) -> Floats:
        """Vectors over pairs, [..., n]."""
        found = float_array(values, "values")
        if found.ndim == 0 or found.shape[-1] != self.n_pairs:
            raise InvalidInput(f"values must have {self.n_pairs:,} entries, one per pair, found shape {found.shape}")
        return found

    def vector(self, table: object, what: str = "the table") -> Floats:
        """A dense table [S, A] as a vector over pairs [n]; entries of actions that a state lacks are ignored."""
        return table_entries(table, (self.states, self.actions), {"[S, A]": (self.n_states, self.n_actions)}, what)


def table_entries(table: object, where: tuple[Ints, ...], shapes: dict[str, tuple[int, ...]], what: str) -> Floats:
    """A dense table as a vector over pairs, whose states and actions are `where`; a table per stage as one per stage.

    `shapes` are those that the table may have, each under the names of its axes.
    """
    dense = float_array(table, what)
    if dense.shape not in shapes.values():
        wanted = " or ".join(f"{axes} = {shape}" for axes, shape in shapes.items())
        raise InvalidInput(f"{what} must have shape {wanted}, found {dense.shape}")
    states, actions = where
    return dense[..., states, actions]


def sizes(pairs: Pairs, n_constraints: int, name: str = "") -> str:
    """The size of a problem in words, after its name."""
    counts = ((pairs.n_states, "state"), (pairs.n_pairs, "pair"), (n_constraints, "constraint"))
    words = ", ".join(so_many(count, word) for count, word in counts)
    return f"{f'{printable(name)}: ' if name else ''}{words}"


def numbered(actions: object, state: Any, number: dict[Hashable, int], what: str) -> Iterator[tuple[Any, int]]:
    """The actions that a user's rule lists for a state, and their numbers; those not yet in `number` get the next."""
    single = isinstance(actions, str | bytes) or getattr(actions, "ndim", 1) == 0
    if single or not isinstance(actions, Iterable):
        raise InvalidInput(f"{what} must list the actions of the state, found {shown(actions)}")
    for action in asked(list, (actions,), what, ""):
        try:
            place = number.setdefault(action, len(number))
        except TypeError as error:
            raise InvalidInput(f"state {state!r}, action {action!r}: actions must be hashable") from error
        if not equals_itself(action):
            raise InvalidInput(f"state {state!r}: action {action!r} is not equal to itself, and cannot be found again")
        yield action, place


def equals_itself(label: Any) -> bool:
    """Whether a label, with all its parts, is equal to itself: NaN and other gaps in tables are not.

    Such a label could never be found again, and would be another state, or action, wherever it is met.
    """
    parts = [label]
    for part in parts:
        if isinstance(part, tuple):
            parts.extend(part)
            continue
        try:
            if part != part:
                return False
        except Exception:  # the missing value of pandas is neither equal nor not
            return False
    return True


def _place(number: Any, count: int, what: str) -> int:
    """The number of one of `count` states or pairs."""
    if type(number) is int and 0 <= number < count:  # nearly always
        return number
    return whole_number(number, what, least=0, most=count - 1)


def pairs_of(problem: Any) -> Pairs:
    """The pairs of a model or a simulator, and nothing else."""
    if not isinstance(getattr(problem, "pairs", None), Pairs) or not hasattr(problem, "shape"):
        raise InvalidInput(f"the problem must be a CMDP or a Simulator, found {type(problem).__name__}")
    return problem.pairs  # type: ignore[no-any-return]


def _int_vector(values: object, what: str) -> Ints:
    try:
        array = np.array(values)
    except ValueError as error:
        raise InvalidInput(f"{what} must be a vector of whole numbers ({error})") from error
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu") or np.ma.is_masked(values):
        found = "entries that are masked" if np.ma.is_masked(values) else f"{array.dtype} of shape {array.shape}"
        raise InvalidInput(f"{what} must be a vector of whole numbers, found {found}")
    return array.astype(np.int64)


def require_distinct(labels: tuple[Hashable, ...], what: str) -> None:
    """Refuse labels that are not hashable, not equal to themselves, or there twice; `what` names them."""
    seen: set[Hashable] = set()
    for label in labels:
        try:
            repeated = label in seen
        except TypeError as error:
            raise InvalidInput(f"{what} must be hashable, found {shown(label)}") from error
        if not equals_itself(label):
            raise InvalidInput(f"{what} must be equal to themselves, to be found again, but {shown(label)} is not")
        if repeated:
            raise InvalidInput(f"{what} must be distinct, but {label!r} occurs twice")
        seen.add(label)


def _require_distinct_actions(pairs: Pairs) -> None:
    order = np.lexsort((pairs.actions, pairs.states))
    same = (np.diff(pairs.states[order]) == 0) & (np.diff(pairs.actions[order]) == 0)
    if np.any(same):
        pair = int(order[int(np.argmax(same))])
        state = pairs.state_label(int(pairs.states[pair]))
        raise InvalidInput(f"state {state!r} lists action {pairs.action_label(pair)!r} twice")
