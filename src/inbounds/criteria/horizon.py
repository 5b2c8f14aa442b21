"""Sums over a finite horizon of H stages.

There is no discount, and nothing is normalised. Transitions, reward and signals may change with the stage; the states
and their actions do not. The occupancy of a policy is the probability of each pair at each stage, which follows
forwards from the initial distribution,

    sum_a x_0(s, a) = initial(s),        sum_a x_h(s', a) = sum_{s, a} P_{h-1}(s' | s, a) x_{h-1}(s, a),

and values follow backwards from the end. Both passes are exact up to rounding: nothing is iterated.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.criteria.contract import ACCURACY, Criterion, Followed, Found
from inbounds.numerics.bellman import UNIT
from inbounds.numerics.rows import longest_row
from inbounds.numerics.sweeps import is_over

_LOOK = 64
"""Stages between two looks at the clock: so long a piece takes milliseconds."""


class FiniteHorizon(Criterion):
    """Sums over a finite horizon."""

    own, reach, shifts = 0.0, 1.0, True
    value_in_words = "a sum over the horizon"

    def total(self, value: Any) -> Any:
        """The value itself: it is a sum already."""
        return value

    def in_words(self, value: float, digits: int = 6) -> str:
        """Over how many stages."""
        return f"{value:.{digits}g} over {len(self.layers)} stages"

    def solve(
        self,
        reward: Floats,
        tolerance: float,
        start: Any = None,
        settled: float = 0.0,
        keep_backups: bool = False,
        deadline: float | None = None,
    ) -> Found:
        """Backward induction, whatever the tolerance; the bracket is as wide as its rounding can be.

        From a deadline on, the stages that are left are passed over: whatever is done in one, it is worth between its
        least and its largest reward. The bracket is then as much wider.

        A backup of stage h adds a reward to a mean over at most L next states of values that are at most the sum of the
        rewards behind it; its error is at most (L + 4) units of rounding of that, and errors add up over the stages.
        """
        del tolerance, start, settled
        y, chosen = np.zeros(self.n_places), np.empty(self.n_places, dtype=np.int64)
        backups = np.empty(self.n_entries) if keep_backups else None
        ahead = np.zeros(self.pairs.n_states)
        rounding, largest, swept, longest = 0.0, 0.0, len(self.layers), self._longest_rows
        for h, layer in zip(range(swept - 1, -1, -1), reversed(self.layers), strict=True):
            if h % _LOOK == _LOOK - 1 and is_over(deadline):
                break
            swept = h
            backup = reward[layer.entries] + (0.0 if layer.next_places is None else layer.transition @ ahead)
            ahead, pairs = self.pairs.best(backup)
            y[layer.places], chosen[layer.places] = ahead, pairs + layer.entries.start
            largest += float(np.abs(reward[layer.entries]).max())
            rounding += (longest[h] + 4) * UNIT * largest
            if backups is not None:
                backups[layer.entries] = backup
        lower = upper = float(np.sum(self.initial * ahead))
        if swept > 0:
            rest = reward[: self.layers[swept - 1].entries.stop].reshape(swept, -1)
            sizes = largest + np.cumsum(np.abs(rest).max(axis=1)[::-1])
            rounding, largest = rounding + (max(longest) + 4) * UNIT * float(np.sum(sizes)), float(sizes[-1])
            passed = float(ahead.max()) + np.cumsum(rest.max(axis=1)[::-1])[::-1]
            y[: passed.size * len(ahead)] = np.repeat(passed, len(ahead))
            firsts = [layer.entries.start + self.pairs.offsets[:-1] for layer in self.layers[:swept]]
            chosen[: passed.size * len(ahead)] = np.concatenate(firsts)
            lower, upper = float(ahead.min()) + float(np.sum(rest.min(axis=1))), float(passed[0])
            if backups is not None:
                backups[: rest.size] = rest.ravel()
        rounding += 64 * UNIT * largest  # of the mean over the initial distribution
        return Found(y, chosen, lower - rounding, upper + rounding, backups=backups)

    @cached_property
    def _longest_rows(self) -> list[int]:
        """The most next states of any pair, for each stage."""
        apart = {id(layer.transition): layer.rows for layer in self.layers}
        longest = {key: longest_row(rows) for key, rows in apart.items()}
        return [longest[id(layer.transition)] for layer in self.layers]

    def time(self, found: Found, accuracy: float, start: Floats | None = None) -> Floats:
        """The probability of each state at each stage, [H * S]."""
        taken = np.zeros(self.n_entries)
        taken[found.chosen] = 1.0
        return self.follow(taken).time

    def expect(self, reward: Floats, chosen: Ints, value: Floats) -> Found:
        """Nothing is gained by a guess."""
        return Found(value, chosen, -np.inf, np.inf)

    def values(self, found: Found, signals: Floats, start: Floats | None = None) -> tuple[Floats, Floats]:
        """The value functions [K, H * S] of signals [K, N] under the policy; gains 0."""
        taken = np.zeros(self.n_entries)
        taken[found.chosen] = 1.0
        return self.proof_vectors(Followed(taken, np.empty(0), None, None), signals), np.zeros(len(signals))

    def follow(self, taken: Floats, start: Floats | None = None, accuracy: float = ACCURACY) -> Followed:
        """Forwards from the initial distribution."""
        del start, accuracy
        time, arriving = np.empty(self.n_places), self.initial
        lengths: dict[int, Any] = {}
        for layer in self.layers:
            time[layer.places] = arriving
            if layer.next_places is not None:
                moves = layer.transition  # as sums over its rows; a product from the left would transpose it each time
                if id(moves) not in lengths:
                    lengths[id(moves)] = np.diff(moves.indptr)
                leaving = np.repeat(arriving[self.pairs.states] * taken[layer.entries], lengths[id(moves)])
                arriving = np.bincount(moves.indices, leaving * moves.data, self.pairs.n_states)
        return Followed(taken, time, None, None)

    def proof_vectors(
        self, followed: Followed, signals: Floats, start: Floats | None = None, enough: float = 0.0
    ) -> Floats:
        """The value functions of signals [J, N] from each stage to the end, [J, H * S]."""
        del start, enough
        vectors = np.zeros((len(signals), self.n_places))
        for y, signal in zip(vectors, signals, strict=True):
            last = np.flatnonzero(signal).max(initial=-1) // self.pairs.n_pairs  # behind it nothing is worth anything
            for layer in reversed(self.layers[: last + 1]):
                ahead = 0.0 if layer.next_places is None else layer.transition @ y[layer.next_places]
                y[layer.places] = self.pairs.sum_by_state(
                    followed.taken[layer.entries] * (signal[layer.entries] + ahead)
                )
        return vectors
