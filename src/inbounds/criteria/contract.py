"""What a criterion fills in, and what follows from it for all of them.

A vector over *entries* has N of them: one for each pair, or with a finite horizon for each pair at each stage, stage by
stage. A vector over *places* has M: one for each state, or for each state at each stage. The layers are the stages; a
criterion without stages has one. Every occupancy x [N] has mass 1 in each layer.

**The form.** Each criterion has a linear map E from vectors over places to vectors over entries,

    (E y)(h, s, a) = own * y_h(s) + reach * sum_s' P_h(s' | s, a) (y_h(s) - y_{h+1}(s')),

where y_{h+1} is y itself, or with a horizon the next stage's (0 behind the last one), such that x >= 0 is an occupancy
if and only if x E = start * initial in the first layer and 0 in the others (and, with a `mass_row`, x sums to 1):

                  own   reach          start
    discounted     1    d / (1 - d)      1
    horizon        0    1                1
    average        0    1                0      with the mass row

**The two bounds of which every proof consists.** For ANY vector y, prices u >= 0, and policy pi with occupancy x,

    J(m) = <x E, y> + <x, m - E y>      >= start <initial, y_0> + sum_h min_s sum_a pi_h(a|s) (m - E y)(h, s, a)
    optimum <= J(reward + u . margins)  <= start <initial, y_0> + sum_h max_(s,a) (reward + u . margins - E y)(h, s, a)

because every layer of x has mass 1. (For averages of policies without a limit, and for policies that remember, the same
follows by telescoping along the path: `inbounds.criteria.average`.) Certificates, the linear program, the Slater
constant and the frontier know no more of a criterion than this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from inbounds.arrays import Floats, Ints
from inbounds.numerics.classes import graph_of_all_moves, moves_from
from inbounds.numerics.rows import Rows, rows_of

DENSE_STATES = 90
"""Up to this many states a policy's chain is solved on a full matrix: at once, and without a kernel to compile.

From 96 on OpenBLAS wakes other cores for a product of matrix and vector, which then spin for longer than that takes: a
solve of 100 states cost three times the CPU time of one of 99."""

ACCURACY = 1e-14
"""Of the time per place of a policy, in the sum of absolute values; rounding may allow less."""


@dataclass(frozen=True, eq=False)
class Found:
    """A policy that is optimal for one reward, up to a bracket.

    Attributes
    ----------
    value_function : array [M]
        With it the second bound above is `upper`.
    chosen : int array [M]
        The entry that the policy takes at each place.
    lower, upper : float
        The value of the policy and the optimum both lie in between.
    chain, factors
        What the criterion keeps of the policy, for its time per place.
    centred : array [M] or None
        The value function less a constant, where that has digits that the value function cannot have.
    backups : array [N] or None
        What each entry is worth, followed by this policy, up to the width of the bracket, in units of 1 / (own +
        reach), and up to a constant in each place; only when asked for.
    """

    value_function: Floats
    chosen: Ints
    lower: float
    upper: float
    chain: Any = None
    factors: Any = None
    backups: Floats | None = None
    centred: Floats | None = None


class Followed(NamedTuple):
    """A policy with its time per place, and what its values can be computed from."""

    taken: Floats  # [N], its probabilities
    time: Floats  # [M]
    chain: Any
    factors: Any
    elsewhere: bool = False  # averages: whether it would stay in another class, if it ever came there
    settled: bool = True  # averages: False where the time may be that of one part alone, which is hardly ever left


class Layer(NamedTuple):
    """One layer of entries and places."""

    rows: Rows
    transition: Any  # CSR [n, S]
    entries: slice
    places: slice
    next_places: slice | None  # None: behind the last stage, where everything is 0


class Criterion(ABC):
    """What a value is, on the moves of one model; shared by all questions asked of them.

    Parameters
    ----------
    problem : CMDP
        Its reward and its constraints play no part.
    """

    own: float
    reach: float
    start: ClassVar[float] = 1.0
    mass_row: ClassVar[bool] = False
    shifts: ClassVar[bool] = False  # whether y_{h+1} is the next stage's
    value_in_words: ClassVar[str]
    decided: ClassVar[tuple[str, ...]] = ()  # what of it questions decide

    def __init__(self, problem: Any) -> None:
        self.pairs, self.initial = problem.pairs, problem.initial
        made = {id(matrix): rows_of(problem.offsets, matrix) for matrix in problem.transitions}
        n, m, last = problem.n_pairs, problem.n_states, problem.layers - 1
        self.layers = tuple(
            Layer(
                rows=made[id(matrix)],
                transition=matrix,
                entries=slice(h * n, (h + 1) * n),
                places=slice(h * m, (h + 1) * m),
                next_places=None
                if self.shifts and h == last
                else slice((h + self.shifts) * m, (h + self.shifts + 1) * m),
            )
            for h, matrix in enumerate(problem.transitions)
        )
        self.n_entries, self.n_places = n * len(self.layers), m * len(self.layers)

    @property
    def ways(self) -> tuple[Any, ...]:
        """How chains are solved by now, which shows in the last bits of answers.

        The questions so far decided it. Who goes on from an earlier moment sets them to what they were.
        """
        return tuple(getattr(self, name) for name in self.decided)

    @ways.setter
    def ways(self, before: tuple[Any, ...]) -> None:
        for name, value in zip(self.decided, before, strict=True):
            setattr(self, name, value)

    # --- what a criterion fills in

    @abstractmethod
    def total(self, value: Any) -> Any:
        """A value on its other scale: the sum that it stands for; the value itself where there is none."""

    @abstractmethod
    def in_words(self, value: float, digits: int = 6) -> str:
        """A value and what it is, for people."""

    @abstractmethod
    def solve(
        self,
        reward: Floats,
        tolerance: float,
        start: Any = None,
        settled: float = 0.0,
        keep_backups: bool = False,
        deadline: float | None = None,
    ) -> Found:
        """The best policy for `reward` [N] without constraints, with a rigorous bracket at most `tolerance` wide.

        (Or as narrow as rounding allows.) It begins from an earlier answer, `start`. Once an improvement changes less
        than the share `settled` of the places, the policy may be evaluated to the end. `keep_backups` asks for those of
        the answer. From `deadline` on, a time of ``time.monotonic()``, it returns as soon as it can, with a bracket
        that is as rigorous, but as wide as it then is; one sweep over all entries is always made.
        """

    @abstractmethod
    def time(self, found: Found, accuracy: float, start: Floats | None = None) -> Floats:
        """The time that the policy spends at each place [M], up to `accuracy`; begun from `start` if it iterates.

        Of a policy whose classes do not meet: that of ONE of them, the best for its reward.
        """

    @abstractmethod
    def expect(self, reward: Floats, chosen: Ints, value: Floats) -> Found:
        """A policy that is expected to be best for `reward` [N], and roughly its value [M]: where a solve may begin."""

    @abstractmethod
    def values(self, found: Found, signals: Floats, start: Floats | None = None) -> tuple[Floats, Floats]:
        """Vectors y [K, M] and gains [K] with signal - E y = gain on the policy, for signals [K, N]: roughly.

        They are begun from `start`, those of a similar policy.
        """

    @abstractmethod
    def follow(self, taken: Floats, start: Floats | None = None, accuracy: float = ACCURACY) -> Followed:
        """The policy that takes entries with probabilities `taken` [N], and its time per place, begun from `start`."""

    @abstractmethod
    def proof_vectors(
        self, followed: Followed, signals: Floats, start: Floats | None = None, enough: float = 0.0
    ) -> Floats:
        """Vectors y [J, M], as accurate as can be, for which the first bound above is J(signal) for signals [J, N].

        Nothing here needs to be right, only close. `start` are those of nearly the same policy. Where sweeps come
        closer and closer, they may end when m - E y is level up to `enough`, relative to the largest signal.
        """

    def fill_in(self, taken: Floats, visited: Any, chosen: Ints) -> Floats:
        """A policy [N] that is `taken` where `visited` (bool [M]), and acts somehow elsewhere: by default greedily.

        `chosen` [M] are the entries of a policy that is best at the prices.
        """
        greedy = np.zeros(self.n_entries)
        greedy[chosen] = 1.0
        return np.where(visited[self.places], taken, greedy)

    def linked(
        self, occupancy: Floats, spares: Callable[[], Iterable[Floats]], tolerance: float, margins: Floats
    ) -> tuple[Floats, int]:
        """An occupancy [N] close to the one given that some policy has, and how many classes had to be linked for it.

        `spares()` are occupancies with a margin to spare in every constraint that binds, the cheapest first, as far as
        they are known; `margins` [K, N] are scaled.
        """
        del spares, tolerance, margins
        return occupancy, 0

    def each_alone(self, occupancy: Floats) -> list[Floats]:
        """Occupancies [N] that the one given is a mixture of, and between which no policy of it ever changes."""
        del occupancy
        return []

    def together(self, weights: Floats) -> Ints:
        """At every place the entry [M] with the largest of `weights` [N]; another with some, where those fall apart."""
        return self.largest(weights)

    def sharpened(self, reward: Floats, y: Floats) -> Floats:
        """A vector y [M] for the second bound above that loses no digits of `reward` [N]; by default the one given.

        `y` is the value function of the reward, or nearly; what is returned may differ from it by a constant.
        """
        del reward
        return y

    # --- what follows

    @property
    def unit(self) -> float:
        """What a Bellman backup in its natural scale, of coefficient 1 for the place itself, is multiplied by."""
        return 1.0 / (self.own + self.reach)

    @property
    def exact_reach(self) -> Fraction:
        """`reach` without rounding."""
        return Fraction(self.reach)

    @cached_property
    def places(self) -> Ints:
        """The place of each entry, [N]."""
        states = self.pairs.states
        return np.concatenate([layer.places.start + states for layer in self.layers]) if self.shifts else states

    @cached_property
    def reached(self) -> Any:
        """Whether some policy may come to each place: bool [M], and nothing leads from where it is to where it is not.

        Where all stages move alike, a state that is reached at some stage counts as reached at all of them.
        """
        at, alike = [self.initial > 0.0], self.moves_alike
        if alike and not np.all(at[0]):
            at = [moves_from(graph_of_all_moves(self.layers[0].rows), at[0]) >= 0]
        if alike or np.all(at[0]):
            return np.tile(at[0], len(self.layers))
        for layer in self.layers[:-1]:
            to = layer.transition[at[-1][self.pairs.states]].indices
            at.append(np.zeros_like(at[0]))
            at[-1][to] = True
        return np.concatenate(at)

    def time_at_entries(self, followed: Followed) -> Floats:
        """The occupancy [N] of a policy."""
        return np.maximum(followed.time, 0.0)[self.places] * followed.taken

    def backup(self, reward: Floats, y: Floats) -> Floats:
        """What each entry [N] is worth for `reward` [N] when places are worth `y`, in the natural scale."""
        result = self.unit * reward
        if self.shifts and self.moves_alike:  # all stages in one product
            ahead = y.reshape(len(self.layers), -1)[1:]
            result[: ahead.shape[0] * self.pairs.n_pairs] += (self.reach * self.unit) * (
                self.layers[0].transition @ ahead.T
            ).T.ravel()
            return result
        for layer in self.layers:
            if layer.next_places is not None:
                result[layer.entries] += (self.reach * self.unit) * (layer.transition @ y[layer.next_places])
        return result

    @cached_property
    def moves_alike(self) -> bool:
        """Whether the transitions of all layers are the same."""
        return len({id(layer.transition) for layer in self.layers}) == 1

    def upper_bound(self, reward: Floats, y: Floats) -> float:
        """The second bound above for any vector y, in plain floating point."""
        excess = (self.backup(reward, y) - y[self.places]) / self.unit
        begin = self.start * float(np.sum(self.initial * y[self.layers[0].places]))
        return begin + sum(float(np.max(excess[layer.entries])) for layer in self.layers)

    def level(self, value: float) -> Floats:
        """A vector over places that is worth `value` and whose E y is the same at every entry; zeros for averages."""
        if not self.shifts:
            return np.full(self.n_places, self.own * value)
        left = 1.0 - np.arange(len(self.layers)) / len(self.layers)
        return value * np.repeat(left, self.pairs.n_states)

    def greedy(self, reward: Floats, y: Floats) -> Ints:
        """At every place the entry with the best backup, [M]; the first of them when several tie."""
        return self.largest(self.backup(reward, y))

    def largest(self, values: Floats) -> Ints:
        """At every place the entry with the largest of `values` [N], [M]; the first of them when several tie."""
        return np.concatenate(
            [self.pairs.best(values[layer.entries])[1] + layer.entries.start for layer in self.layers]
        )

    @cached_property
    def flow(self) -> tuple[Any, Floats]:
        """E / (own + reach) as a CSR array [N, M], and what its product with an occupancy must be, [M]."""
        right = np.zeros(self.n_places)
        right[: self.pairs.n_states] = self.start * self.unit * self.initial
        back, n_pairs = self.reach * self.unit, self.pairs.n_pairs
        if not self.shifts:
            own = np.ones(n_pairs), self.pairs.states, np.arange(n_pairs + 1)
            moves = back * self.layers[0].transition
            return sp.csr_array(sp.csr_array(own, shape=moves.shape) - moves), right
        # In each row first the place itself, then where it leads; nothing from the last stage, which ends the episode.
        columns, values, lengths = [], [], []
        for layer in self.layers:
            matrix, leads = layer.transition, layer.next_places
            counts = np.zeros(n_pairs, dtype=np.int64) if leads is None else np.diff(matrix.indptr)
            first = np.cumsum(1 + counts) - (1 + counts)
            others = np.ones(n_pairs + int(counts.sum()), dtype=bool)
            others[first] = False
            column, value = np.empty(len(others), dtype=np.int64), np.empty(len(others))
            column[first], value[first] = layer.places.start + self.pairs.states, 1.0
            if leads is not None:
                column[others], value[others] = leads.start + matrix.indices, -back * matrix.data
            columns.append(column)
            values.append(value)
            lengths.append(1 + counts)
        starts = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
        parts = np.concatenate(values), np.concatenate(columns), starts
        return sp.csr_array(parts, shape=(self.n_entries, self.n_places)), right

    def steps(self, y: Floats) -> Iterator[tuple[Layer, Floats, Floats]]:
        """Each layer with y at its places and at those where its moves lead."""
        nowhere = np.zeros(self.pairs.n_states)
        for layer in self.layers:
            yield layer, y[layer.places], nowhere if layer.next_places is None else y[layer.next_places]
