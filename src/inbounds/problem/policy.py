"""Policies: the probability of each action in each state, and with a finite horizon at each stage.

Where a policy is, its *occupancy* says (occupancy measure): the share of time that it spends at each pair, as the
criterion counts time (`inbounds.criteria`). Conversely every occupancy x is that of the policy
x(s, a) / sum_b x(s, b) (Altman 1999, chapter 3). So a mixture of policies becomes ONE policy with the mixed values
through its mixed occupancy. Averaging the probabilities row by row does not have that property.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from inbounds.arrays import Floats, ReadOnly, divisors, freeze
from inbounds.errors import InvalidInput
from inbounds.formats import read_policy, write_policy
from inbounds.formats.atomic import naming
from inbounds.formats.labels import label_in_words
from inbounds.formats.policy_csv import policy_columns
from inbounds.frames import frame
from inbounds.inputs import float_array, generator, is_whole, plain_number, probability, shown, sum_tolerance
from inbounds.pictures import policy_figure, written
from inbounds.problem.difference import Difference, choices_in_words, difference, time_by_state
from inbounds.problem.pairs import Pairs, pairs_of
from inbounds.problem.thumb import probabilities_of_rule
from inbounds.tables import html_card, html_table, so_many

Labels = tuple[Hashable, ...] | None

_SHOWN = 12
"""States that a notebook shows of a policy."""

_ROUNDING = 1e-6
"""How far below 0 an occupancy may be, of its sum: linear programs leave such entries."""


@dataclass(frozen=True, eq=False, repr=False)
class Policy(ReadOnly):
    """A policy (stationary, randomised): the probability of each action in each state; with a horizon, at each stage.

    What it is worth, `evaluate` says: discounted averages per step, normalised by (1 - discount), sums over a finite
    horizon, or long-run averages per step.

    Attributes
    ----------
    pairs : Pairs
        The numbering of states and actions (of a `CMDP` or a `Simulator`).
    probabilities : array [n], or [H, n] with a finite horizon
        Over pairs; those of one state (at one stage) sum to 1.

    Examples
    --------
    >>> import inbounds as ib
    >>> ib.Policy.uniform(ib.zoo.queue()).table().shape
    (6, 16)
    >>> ib.Policy.uniform(ib.zoo.media())
    Policy(10 stages, 10 states, randomises in 100)
    """

    pairs: Pairs
    probabilities: Floats

    if TYPE_CHECKING:  # what may be given is more than what is kept of it

        def __init__(self, pairs: Pairs, probabilities: Any) -> None: ...

    def __post_init__(self) -> None:
        pairs = self.pairs
        if not isinstance(pairs, Pairs):
            raise InvalidInput(f"pairs must be those of a problem, cmdp.pairs, found {shown(pairs)}")
        probabilities = float_array(self.probabilities, "the probabilities of a policy").copy()
        if probabilities.shape[-1:] != (pairs.n_pairs,) or probabilities.ndim > 2 or probabilities.size == 0:
            raise InvalidInput(
                f"the probabilities of a policy must have {pairs.n_pairs} entries, one per pair (with a horizon: at "
                f"each stage), found shape {probabilities.shape}"
            )
        if not (probabilities.min() >= 0.0 and probabilities.max() < np.inf):
            where, pair = _first(~(np.isfinite(probabilities) & (probabilities >= 0.0)))
            found = probabilities[(*where, pair)]
            raise InvalidInput(
                f"{_at(where)}{pairs.describe(pair)}: the policy has probability {found}; it must be a number >= 0"
            )
        sums = pairs.sum_by_state(probabilities)
        bad = np.abs(sums - 1.0) > sum_tolerance(self.probabilities)
        if np.any(bad):
            where, state = _first(bad)
            raise InvalidInput(
                f"{_at(where)}state {pairs.state_label(state)!r}: the policy's probabilities sum to "
                f"{sums[(*where, state)]:.12g}; they must sum to 1"
            )
        scale = divisors(sums, np.diff(pairs.offsets))
        if np.any(scale != 1.0):
            probabilities /= scale[..., pairs.states]
        object.__setattr__(self, "probabilities", freeze(probabilities))

    @classmethod
    def uniform(cls, problem: Any) -> Policy:
        """Every action of a state equally likely. `problem`: a `CMDP` or a `Simulator`."""
        pairs = pairs_of(problem)
        return cls(pairs, np.broadcast_to((1.0 / np.diff(pairs.offsets))[pairs.states], problem.shape))

    @classmethod
    def from_table(cls, problem: Any, table: Any) -> Policy:
        """From probabilities [S, A], or [H, S, A]; entries of actions that a state lacks must be 0."""
        pairs, dense = pairs_of(problem), float_array(table, "the table of a policy")
        if dense.ndim == 3:
            stages = [cls.from_table(problem, stage).probabilities for stage in dense]
            return for_problem(problem, cls(pairs, np.array(stages)))
        probabilities = pairs.vector(dense, "the table of a policy")
        elsewhere = np.where(pairs.table(np.ones(pairs.n_pairs)) == 1.0, 0.0, dense)
        if np.any(elsewhere != 0.0):
            state = int(np.argmax(np.any(elsewhere != 0.0, axis=1)))
            raise InvalidInput(
                f"state {pairs.state_label(state)!r}: the table gives probability to an action that it does not have"
            )
        return cls(pairs, probabilities)

    @classmethod
    def deterministic(cls, problem: Any, chosen: Any) -> Policy:
        """Always the pair `chosen[s]` in state ``s``; `chosen` is an int array [S], or [H, S], of pair numbers."""
        pairs = pairs_of(problem)
        chosen, wanted = np.asarray(chosen), (*problem.shape[:-1], pairs.n_states)
        if chosen.shape != wanted or chosen.dtype.kind not in "iu":
            raise InvalidInput(f"chosen must be whole numbers of shape {wanted}, found {chosen.dtype} {chosen.shape}")
        if np.any((chosen < pairs.offsets[:-1]) | (chosen >= pairs.offsets[1:])):
            raise InvalidInput("chosen must hold, for every state, the number of one of its own pairs")
        probabilities = np.zeros(problem.shape)
        np.put_along_axis(probabilities, chosen, 1.0, axis=-1)
        return cls(pairs, probabilities)

    @classmethod
    def from_rule(cls, problem: Any, rule: Any) -> Policy:
        """What a rule does in each state, by labels: to score the rule of thumb in use against the optimum.

        Parameters
        ----------
        problem : CMDP or Simulator
        rule : function or dict
            ``rule(state)``, or ``rule[state]``, is the action; or a dict ``{action: probability}``. With a finite
            horizon it may depend on the stage: ``rule(state, stage)``, or a list with a dict for each stage. A second
            argument that has a default is left to it, unless that is called ``stage``.

        Examples
        --------
        >>> import inbounds as ib
        >>> queue = ib.zoo.queue()
        >>> thumb = ib.Policy.from_rule(queue, lambda customers: (0.8, 0.4) if customers > 2 else (0.6, 0.7))
        >>> judged = ib.evaluate(queue, thumb)
        >>> round(judged.total_reward, 3), judged.in_bounds
        (5.289, False)
        """
        probabilities = probabilities_of_rule(problem, rule)
        return cls(problem.pairs, probabilities)

    @classmethod
    def from_occupancy(cls, problem: Any, occupancy: Any, otherwise: Policy | None = None) -> Policy:
        """occupancy(s, a) / sum_b occupancy(s, b); in states with no occupancy, `otherwise` (default: uniform)."""
        pairs = pairs_of(problem)
        given = float_array(occupancy, "the occupancy")
        if given.shape != problem.shape:
            raise InvalidInput(f"the occupancy must have the shape {problem.shape}, found {given.shape}")
        mass = np.maximum(given, 0.0)
        wrong = ~np.isfinite(mass) | (given < -_ROUNDING * mass.sum())
        if np.any(wrong):
            where, pair = _first(wrong)
            found = given[(*where, pair)]
            raise InvalidInput(
                f"{_at(where)}{pairs.describe(pair)}: the occupancy is {found}; it must be finite and >= 0"
            )
        by_state = pairs.sum_by_state(mass)
        if np.all(by_state > 0.0):
            return cls(pairs, mass / by_state[..., pairs.states])
        visited = (by_state > 0.0)[..., pairs.states]
        fallback = (for_problem(problem, otherwise) if otherwise else cls.uniform(problem)).probabilities
        return cls(pairs, np.where(visited, mass / np.where(visited, by_state[..., pairs.states], 1.0), fallback))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the probabilities: (n,), or (H, n) with a finite horizon."""
        return self.probabilities.shape

    @property
    def horizon(self) -> int | None:
        """The number of stages, or None for a stationary policy."""
        return len(self.probabilities) if self.probabilities.ndim == 2 else None

    @property
    def coins(self) -> int:
        """In how many states (with a horizon: states at a stage) it randomises."""
        surest = np.maximum.reduceat(self.probabilities, self.pairs.offsets[:-1], axis=-1)
        return int(np.count_nonzero(surest < 1.0))

    def at(self, stage: int) -> Policy:
        """The rule of one stage, 0..H-1, as a stationary policy; of one that is stationary, itself."""
        return self if self.horizon is None else Policy(self.pairs, self._rule(stage))

    def table(self) -> Floats:
        """The probabilities as a dense table [S, A], or [H, S, A]; 0 where a state does not have an action."""
        if self.horizon is not None:
            return np.array([self.pairs.table(stage) for stage in self.probabilities])
        return self.pairs.table(self.probabilities)

    def by_label(self, negligible: float = 1e-9) -> Any:
        """``{state: {action: probability}}`` in the user's labels, for reading; with a horizon, a list of one a stage.

        Actions of a `negligible` probability are left out (``negligible=0`` keeps all that are positive).
        """
        if self.horizon is not None:
            return [self.at(stage).by_label(negligible) for stage in range(self.horizon)]
        negligible = probability(negligible, "negligible")
        rules: dict[Hashable, dict[Hashable, float]] = {}
        for pair in np.flatnonzero(self.probabilities > negligible):
            state = self.pairs.state_label(int(self.pairs.states[pair]))
            rules.setdefault(state, {})[self.pairs.action_label(int(pair))] = float(self.probabilities[pair])
        return rules

    def __getitem__(self, state: Any) -> dict[Hashable, float]:
        """What is done in a state, by its label: ``{action: probability}``, without the actions of probability 0.

        With a finite horizon: ``policy.at(stage)[state]``.
        """
        if self.horizon is not None:
            raise InvalidInput(f"this policy has {self.horizon} stages: write policy.at(stage)[{state!r}]")
        own = self.pairs.actions_of(self.pairs.state_number(state))
        return {action: float(self.probabilities[pair]) for action, pair in own.items() if self.probabilities[pair] > 0}

    def __iter__(self) -> Iterator[Hashable]:
        """The labels of the states."""
        return iter(self.pairs.state_numbers)

    def __contains__(self, state: Any) -> bool:
        """Whether there is a state of that label."""
        try:
            return self.pairs.state_number(state) >= 0
        except InvalidInput:
            return False

    def __len__(self) -> int:
        """The number of states."""
        return self.pairs.n_states

    def act(self, state: Any, rng: np.random.Generator | None = None, stage: int | None = None) -> Hashable:
        """Draw an action in a state: both by their labels; with a finite horizon, at a stage 0..H-1.

        Without `rng` the draw is a new one each time, from the randomness of the operating system. With a generator of
        your own, made once and handed over at every call, it can be repeated, and is quicker.

        Examples
        --------
        >>> import inbounds as ib
        >>> queue = ib.zoo.queue()
        >>> policy = ib.Policy.from_rule(queue, lambda customers: (0.8, 0.4))  # the rates of service and of arrivals
        >>> policy.act(3, np.random.default_rng(0)), policy[3]
        ((0.8, 0.4), {(0.8, 0.4): 1.0})
        >>> policy.act(3)
        (0.8, 0.4)
        """
        source = np.random.default_rng() if rng is None else generator(rng)
        rule = self._rule(stage)
        number = self.pairs.state_number(state)
        first, last = int(self.pairs.offsets[number]), int(self.pairs.offsets[number + 1])
        cumulative = np.cumsum(rule[first:last])
        position = int(np.searchsorted(cumulative, source.random() * cumulative[-1], side="right"))
        return self.pairs.action_label(first + min(position, last - first - 1))

    def _rule(self, stage: Any) -> Floats:
        """The probabilities [n] at a stage, which must be given where there are stages, and only there."""
        if self.horizon is None:
            if stage is not None:
                raise InvalidInput(f"this policy is the same at every step: leave stage={shown(stage)} out")
            return self.probabilities
        place = plain_number(stage)
        if place not in range(self.horizon):
            raise InvalidInput(
                f"this policy has {self.horizon} stages: give stage=, a whole number in 0..{self.horizon - 1}, "
                f"found {shown(stage)}"
            )
        return self.probabilities[int(place)]  # type: ignore[arg-type]  # it is not None

    def compare(self, other: Policy, occupancy: Any = None) -> Difference:
        """Where this policy and another differ, and how much: state by state, those that weigh most first.

        Parameters
        ----------
        other : Policy
            Of the same problem, or of one with the same labels.
        occupancy : array [n] or [H, n], or what has one
            How much each state counts: the share of time there (occupancy measure). Of ``ib.solve(...)`` or
            ``ib.evaluate(...)``, or that array itself. Left out, all states count alike.

        Examples
        --------
        >>> import inbounds as ib
        >>> queue = ib.zoo.queue()
        >>> best, rule = ib.solve(queue), ib.Policy.from_rule(queue, lambda customers: (0.2, 0.4))
        >>> difference = best.policy.compare(rule, best)
        >>> round(difference.share, 3), len(difference)
        (1.0, 6)
        """
        own = self
        if self.horizon is None and isinstance(other, Policy) and other.horizon is not None:
            own = Policy(self.pairs, np.broadcast_to(self.probabilities, (other.horizon, self.pairs.n_pairs)))
        return difference(own, for_problem(own, other, "the other policy"), occupancy)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy with its labels: ``.json`` to read, ``.npz`` for many states, ``.csv`` for spreadsheets.

        docs/deploy.md has a controller that loads the ``.json`` without this library. The file is written whole or not
        at all.
        """
        write_policy(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """The policy in a file that ``policy.save(path)`` wrote, or a spreadsheet did.

        Examples
        --------
        >>> import tempfile, inbounds as ib
        >>> uniform = ib.Policy.uniform(ib.zoo.queue())
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     uniform.save(f"{folder}/uniform.json")
        ...     again = ib.Policy.load(f"{folder}/uniform.json")
        >>> again, again == uniform
        (Policy(6 states, randomises in 6), True)
        """
        fields = read_policy(path)
        with naming(path, "read"):
            probabilities = fields.pop("probabilities")
            return cls(Pairs.create(**fields), probabilities)

    def plot(self, path: str | os.PathLike[str] | None = None, occupancy: Any = None) -> Any:
        """A picture of what is done in each state: a matplotlib figure; with `path` also a file (.png, .svg, .pdf).

        States lie where their labels say: on a line, or on a plane if the labels are tuples of two. Of longer tuples,
        and of stages, there are panels for some: where most of the time is spent, of each stage its own, if the
        `occupancy` is given, array [n] or [H, n], or what has one, such as ``ib.solve(...)``; else where most states
        are. The title says how many. The colour is that of the likeliest action; a dot is where others are taken too.
        """
        pairs, rules = self.pairs, np.atleast_2d(self.probabilities)
        best = np.array([pairs.best(rule)[1] for rule in rules])
        labels = [pairs.state_label(state) for state in range(pairs.n_states)]
        names = pairs.action_labels or range(pairs.n_actions)
        surest = np.take_along_axis(rules, best, axis=1)
        time = None if occupancy is None else np.atleast_2d(time_by_state(self, occupancy))
        return written(policy_figure(labels, names, pairs.actions[best], surest, time, pairs.problem), path)

    def to_frame(self) -> Any:
        """A data frame of pandas or polars: stage, if there are any, state, action, probability; a row for each pair.

        Labels that are tuples of the same length have a column for each part.
        """
        return frame(policy_columns(self))

    def __eq__(self, other: object) -> bool:
        """The same rule: the same numbers and labels, in the same order."""
        if not isinstance(other, Policy):
            return NotImplemented
        own, theirs = ((each.pairs.offsets, each.pairs.actions, each.probabilities) for each in (self, other))
        return self is other or (
            self._facts == other._facts and all(np.array_equal(*both) for both in zip(own, theirs, strict=True))
        )

    def __hash__(self) -> int:
        return hash(self._facts)

    @property
    def _facts(self) -> tuple[Any, ...]:
        """What is not in arrays. Numbers from 0 on are what the labels are where there are none, as files have them."""
        pairs = self.pairs
        return _unless_counted(pairs.state_labels), _unless_counted(pairs.action_labels), self.shape

    def _repr_html_(self) -> str:
        first, rows = list(self)[:_SHOWN], []
        for stage in range(self.horizon or 1):
            rule = self if self.horizon is None else self.at(stage)
            at_stage = () if self.horizon is None else (str(stage),)
            rows += [(*at_stage, label_in_words(state), choices_in_words(rule[state])) for state in first]
        header = (*(() if self.horizon is None else ("stage",)), "state", "does")
        more = f"<p>... {len(self):,} states in all</p>" if len(self) > _SHOWN else ""
        return html_card(repr(self), html_table(header, rows[: 10 * _SHOWN], words=3), more)

    def __repr__(self) -> str:
        stages = f"{so_many(self.horizon, 'stage')}, " if self.horizon else ""
        return f"Policy({stages}{so_many(self.pairs.n_states, 'state')}, randomises in {self.coins:,})"


def _unless_counted(labels: tuple[Hashable, ...] | None) -> tuple[Hashable, ...] | None:
    """Labels; None where they are the numbers 0, 1, 2, ..., in that order."""
    return None if labels == tuple(range(len(labels or ()))) else labels


def for_problem(problem: Any, policy: Policy, what: str = "a policy") -> Policy:
    """The policy as one of the problem's: the one place where a policy meets a problem that it may not be of.

    States and actions are matched by their labels where both have them, in whatever order; by their numbers where
    neither has, or where the labels of one are the numbers of the other, as files may leave them out; else by position
    where one of the two has labels only. Refused, with the first state that differs, when they are not the same. With a
    horizon, a stationary policy acts alike at every stage. `what` it is, in a refusal.
    """
    if not isinstance(policy, Policy):
        instead = getattr(type(policy), "instead", "")  # of a mixture
        if isinstance(getattr(policy, "policy", None), Policy):  # a solution, a run, what was certified
            instead = ": hand over its policy, as in best.policy"
        raise InvalidInput(f"{what} must be an ib.Policy, found {type(policy).__name__}{instead}")
    own, wanted = policy.probabilities, problem.shape
    order = _order(problem, policy)
    if own.shape not in (wanted, wanted[-1:]):
        raise InvalidInput(f"the policy {policy!r} does not belong to this problem ({problem!r})")
    if order is None and own.shape == wanted:
        return policy
    own = own if order is None else own[..., order]
    return Policy(policy.pairs if order is None else problem.pairs, np.broadcast_to(own, wanted))


def _order(problem: Any, policy: Policy) -> Any:
    """The policy's pair for each pair of the problem, int [n]; None where they are the same throughout."""
    pairs, theirs = problem.pairs, policy.pairs
    if theirs is pairs:
        return None

    def refused(why: str) -> InvalidInput:
        return InvalidInput(f"the policy {policy!r} does not belong to this problem ({problem!r}): {why}")

    for what, parts in pairs.parts.items():
        if None not in (parts, theirs.parts[what]) and parts != theirs.parts[what]:
            raise refused(f"a label of a {what} has the parts {parts}, and in the policy {theirs.parts[what]}")
    states = _named(pairs.state_labels, theirs.state_labels)
    names = _named(pairs.action_labels, theirs.action_labels)
    by_label = None not in states
    by_position = names.count(None) == 1  # numbers are names where there are no others
    alike = np.array_equal(pairs.offsets, theirs.offsets) and (not by_label or states[0] == states[1])
    if alike and (by_position or (names[0] == names[1] and np.array_equal(pairs.actions, theirs.actions))):
        return None

    def actions(each: Pairs, state: int) -> dict[Hashable, int]:
        """The name of every action of a state, and its pair."""
        own = range(int(each.offsets[state]), int(each.offsets[state + 1]))
        return {pair - own.start if by_position else each.action_label(pair): pair for pair in own}

    own = "policy[state]" if policy.horizon is None else "policy.at(stage)[state]"
    asked = "state" if policy.horizon is None else "state, stage"
    hint = (
        "; what it says where it can, and a rule of yours elsewhere: ib.Policy.from_rule(problem, lambda "
        f"{asked}: {own} if state in policy else ...)"
        if by_label
        else ""
    )
    place = {theirs.state_label(s) if by_label else s: s for s in range(theirs.n_states)}
    order = np.empty(pairs.n_pairs, dtype=np.int64)
    for state in range(pairs.n_states):
        label = pairs.state_label(state)
        other = place.pop(label if by_label else state, None)
        if other is None:
            raise refused(f"it has no state {label!r}{hint}")
        here, there = actions(pairs, state), actions(theirs, other)
        if here.keys() != there.keys():
            helps = hint if here.keys() >= there.keys() else ""  # else what the policy says cannot be done here
            raise refused(f"state {label!r} has the actions {list(here)}, and in the policy {list(there)}{helps}")
        for name, pair in here.items():
            order[pair] = there[name]
    if place:
        raise refused(f"the problem has no state {theirs.state_label(next(iter(place.values())))!r}{hint}")
    return order


def _named(own: Labels, theirs: Labels) -> tuple[Labels, Labels]:
    """The labels of both; where one has none, its numbers are, if the labels of the other are the same numbers."""
    for given in (own, theirs):
        if given is not None and all(is_whole(label, 0) for label in given):
            numbers = tuple(range(len(given)))
            if {*given} == {*numbers}:
                return numbers if own is None else own, numbers if theirs is None else theirs
    return own, theirs


def _first(bad: Any) -> tuple[tuple[int, ...], int]:
    """Where the first entry is that is bad: its stage, if there are stages, and its last index."""
    *stage, last = np.unravel_index(int(np.argmax(bad)), bad.shape)
    return tuple(int(s) for s in stage), int(last)


def _at(stage: tuple[int, ...]) -> str:
    return f"stage {stage[0]}, " if stage else ""
