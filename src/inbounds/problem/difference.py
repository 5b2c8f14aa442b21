"""Where two policies differ, and how much: state by state, weighted by the time spent there where that is known."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from inbounds.arrays import Floats, Ints, freeze
from inbounds.errors import InvalidInput
from inbounds.formats.labels import label_columns, label_in_words
from inbounds.frames import frame
from inbounds.inputs import float_array
from inbounds.tables import html_card, html_table, so_many, text_table

_SHOWN, _KINDS = 10, 6
"""States that a printed difference lists; and where there are more of them, how many kinds of differences."""


@dataclass(frozen=True, eq=False, repr=False)
class Difference:
    """Where two policies differ; as text, the states that weigh most, and as a data frame all of them.

    In a state two policies act differently with the probability that remains where they agree at best: half the sum of
    the absolute differences of their probabilities (the total variation distance).

    Attributes
    ----------
    share : float
        Of the time, how much they act differently, or of the states, if no occupancy was given: the sum over states of
        weight times distance. In 0..1.
    states : int array [D]
        The states in which they differ by more than 1e-9, those of the largest weight times distance first.
    stages : int array [D], or None
        The stage of each, with a finite horizon.
    weights : array [D]
        The share of time in each, at its stage if there are any; all states alike, if no occupancy was given. Of all
        states they sum to 1.
    distances : array [D]
        How differently they act there, in 0..1.
    """

    share: float
    states: Ints
    stages: Ints | None
    weights: Floats
    distances: Floats
    _policies: tuple[Any, Any]
    _timed: bool  # whether the weights are shares of time

    def __len__(self) -> int:
        return len(self.states)

    @property
    def by_action(self) -> list[tuple[Hashable, Hashable, float, int]]:
        """What the one does likeliest, what the other does, how much of `share` that is, and in how many states.

        The largest first. Where both have the same likeliest action, they take it with other probabilities.
        """
        pairs, stages = self._policies[0].pairs, 0 if self.stages is None else self.stages
        rules = [np.atleast_2d(policy.probabilities) for policy in self._policies]
        chosen = [np.stack([pairs.best(rule)[1] for rule in own])[stages, self.states] for own in rules]
        kinds, of = np.unique(pairs.actions[np.stack(chosen)], axis=1, return_inverse=True)
        shares, states = np.bincount(of.ravel(), self.weights * self.distances), np.bincount(of.ravel())
        names = pairs.action_labels or range(pairs.n_actions)
        return [
            (names[kinds[0, kind]], names[kinds[1, kind]], float(shares[kind]), int(states[kind]))
            for kind in np.argsort(-shares, kind="stable")
        ]

    def to_frame(self) -> Any:
        """A data frame of pandas or polars: stage, if any, state, weight, distance, and what each of the two does."""
        rules = [[choices_in_words(self._choices(which, place)) for place in range(len(self))] for which in (0, 1)]
        stages = {} if self.stages is None else {"stage": self.stages.tolist()}
        states = label_columns(self._labels(), "state")
        numbers = {"weight": self.weights.tolist(), "distance": self.distances.tolist()}
        return frame({**stages, **states, **numbers, "this": rules[0], "other": rules[1]})

    def _labels(self) -> list[Hashable]:
        return [self._policies[0].pairs.state_label(int(state)) for state in self.states]

    def _choices(self, which: int, place: int) -> dict[Hashable, float]:
        policy = self._policies[which]
        rule = policy if self.stages is None else policy.at(int(self.stages[place]))
        return rule[rule.pairs.state_label(int(self.states[place]))]

    def __repr__(self) -> str:
        count = so_many(len(self), "state")
        return f"Difference({self.share:.2%} of the {self._whole}, {count})"

    def __str__(self) -> str:
        if not len(self):
            return self._lead
        kinds = f"{text_table(*self.kinds)}\n\n" if len(self) > _SHOWN else ""
        return f"{self._lead}\n\n{kinds}{text_table(*self.table)}\n{self._more}".rstrip()

    def _repr_html_(self) -> str:
        if not len(self):
            return html_card(self._lead)
        tables = [self.kinds, self.table] if len(self) > _SHOWN else [self.table]
        shown = (html_table(header, rows, words=len(header)) for header, rows in tables)
        return html_card(self._lead, *shown, f"<p>{self._more}</p>")

    @property
    def _whole(self) -> str:
        """What the share is of."""
        return "time" if self._timed else "states" if self.stages is None else "states at their stages"

    @property
    def _lead(self) -> str:
        if not len(self):
            return "The two policies do the same in every state."
        return f"They act differently {'' if self._timed else 'in '}{self.share:.2%} of the {self._whole}."

    @property
    def _more(self) -> str:
        return f"... and {len(self) - _SHOWN:,} more: to_frame() has all." if len(self) > _SHOWN else ""

    @property
    def kinds(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows, as texts, of the kinds of differences that weigh most."""
        rows: list[tuple[str, ...]] = []
        for this, other, share, states in self.by_action[:_KINDS]:
            instead = f"{label_in_words(other)}, more or less often" if other == this else label_in_words(other)
            rows.append((label_in_words(this), instead, f"{share:.2%}", f"{states:,}"))
        places = "states" if self.stages is None else "states at stages"
        return ("this likeliest", "other likeliest", "time" if self._timed else "share", places), rows

    @property
    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows, as texts, of the states that weigh most."""
        shown, labels = range(min(len(self), _SHOWN)), self._labels()
        rows: list[tuple[str, ...]] = [
            (
                *(() if self.stages is None else (str(self.stages[place]),)),
                label_in_words(labels[place]),
                f"{self.weights[place]:.3%}",
                f"{self.distances[place]:.3f}",
                *(choices_in_words(self._choices(which, place), 22) for which in (0, 1)),
            )
            for place in shown
        ]
        weight = "time" if self._timed else "share"
        return (*(() if self.stages is None else ("stage",)), "state", weight, "differ", "this", "other"), rows


def choices_in_words(choices: dict[Hashable, float], longest: int = 200) -> str:
    listed = sorted(choices.items(), key=lambda choice: -choice[1])
    text = ", ".join(label_in_words(action) + ("" if share == 1.0 else f" {share:.3g}") for action, share in listed)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def time_by_state(policy: Any, occupancy: Any) -> Floats:
    """The time in each state, [S] or [H, S], of an occupancy of the policy's shape, or of what has one."""
    shape = policy.probabilities.shape
    mass = float_array(getattr(occupancy, "occupancy", occupancy), "the occupancy")
    if mass.shape != shape or not np.all((mass >= 0.0) & (mass < np.inf)):
        raise InvalidInput(
            f"the occupancy must be numbers >= 0, all finite, of shape {shape}, such as "
            "ib.evaluate(problem, policy).occupancy"
        )
    with np.errstate(over="ignore"):
        total = mass.sum()
    if not 0.0 < total < np.inf:
        found = "is 0 everywhere: it says of no state that any time is spent there" if total == 0.0 else "is too large"
        raise InvalidInput(f"the occupancy {found}; give one such as ib.evaluate(problem, policy).occupancy")
    return policy.pairs.sum_by_state(mass)  # type: ignore[no-any-return]


def difference(policy: Any, other: Any, occupancy: Any) -> Difference:
    """``policy.compare(other, occupancy)`` of two policies of the same layout."""
    distances = 0.5 * policy.pairs.sum_by_state(np.abs(policy.probabilities - other.probabilities))
    weights = np.ones(distances.shape) if occupancy is None else time_by_state(policy, occupancy)
    weights = weights / weights.sum()
    product = weights * distances
    places = np.argsort(-product, axis=None, kind="stable")
    places = places[distances.ravel()[places] > 1e-9]
    *stages, states = np.unravel_index(places, distances.shape)
    return Difference(
        share=min(float(product.sum()), 1.0),
        states=freeze(states),
        stages=freeze(stages[0]) if stages else None,
        weights=freeze(weights.ravel()[places]),
        distances=freeze(distances.ravel()[places]),
        _policies=(policy, other),
        _timed=occupancy is not None,
    )
