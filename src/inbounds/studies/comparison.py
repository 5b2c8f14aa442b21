"""What a comparison of algorithms came to: a record per algorithm, and what they are measured against.

Values are totals: discounted sums, or sums over a horizon; in the user's units.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inbounds.arrays import Floats
from inbounds.errors import InvalidInput
from inbounds.inputs import named, shown
from inbounds.studies.runs import Curves
from inbounds.tables import html_card, html_table, so_many_of

_COSTS_NOTHING = 1e-9
"""Of the optimum: what bounds may cost up to rounding."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Entry(Curves):
    """What the runs of one algorithm came to."""

    name: str
    settings: str  # as they would be typed
    constrained: bool  # otherwise it ran without the problem's constraints
    optimum: float  # of the problem that it ran on
    seconds: Floats  # [seeds], of wall clock, of the learner alone
    refusal: str = ""  # why it did not run
    missing: str = ""  # why some of its runs did not, though others did
    promise: str = ""  # of its paper: the order of its samples, and of its violation
    oscillates: bool = False  # of what it plays only the mixture means anything
    guarantee: str = ""  # what the paper proves of these runs
    starts_safe: bool = False  # it was given the safe policy

    @property
    def gaps(self) -> Floats:
        """Optimum minus reward, [seeds, C]. Policies that are out of bounds can be better than the optimum."""
        return self.optimum - self.rewards

    @property
    def worst_margins(self) -> Floats:
        """The least margin of each run, [seeds, C]; infinite without constraints."""
        return np.min(self.margins, axis=2, initial=np.inf)

    @property
    def violations(self) -> Floats:
        """The largest violation of each run, [seeds, C]."""
        return np.max(-self.margins, axis=2, initial=0.0)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """All entries, and what they are measured against."""

    problem: str
    constraint_names: tuple[str, ...]
    optimum: float
    unconstrained_optimum: float
    entries: tuple[Entry, ...]
    samples: int
    seeds: int
    preset: str
    resumed: int  # runs that were found in the journal
    status: str = "done"  # or "time limit", or "interrupted" (see `run_stages`): then runs are missing
    largest_price: float = 0.0  # of the optimum
    horizon: int | None = None
    published: tuple[Entry, ...] = ()  # episodic learners once more, with their papers' constants
    published_seeds: int = 0  # runs of these, each
    safe_gap: float | None = None  # of the policy that those start from that have to be given a safe one

    @property
    def runs(self) -> str:
        """How many each algorithm that ran has, in words: "20 runs", or "1 to 2 of 20 runs"."""
        return so_many_of([entry.runs for entry in self.entries if not entry.refusal], self.seeds, "run")

    def entry(self, name: str) -> Entry:
        """The entry of an algorithm, by its name; of several that are called so, the first."""
        return named(name, {entry.name: entry for entry in reversed(self.entries)}, "algorithm")

    def losses(self, entry: Entry) -> Floats:
        """(max(gap, 0) + largest price * violation) / what the bounds cost, [seeds, C]; nan where they cost nothing.

        0 is the optimum, 1 as bad as the bounds are dear. What breaking a bound gains counts for nothing here.
        """
        if not isinstance(entry, Entry):
            raise InvalidInput(f"entry must be one of the entries, such as entry('crpo'), found {shown(entry)}")
        cost = self.unconstrained_optimum - self.optimum
        lost = np.maximum(entry.gaps, 0.0) + self.largest_price * entry.violations
        return lost / cost if cost > _COSTS_NOTHING * abs(self.optimum) else np.full_like(lost, np.nan)

    def _repr_html_(self) -> str:
        rows = []
        for entry in self.entries:
            if entry.refusal or not entry.rewards.size:
                rows.append((entry.name, "-", "-", "-", "0"))
                continue
            out = f"{np.mean(entry.out_of_bounds[:, -1]):.0%}" if entry.constrained else "-"
            error = np.std(entry.gaps[:, -1], ddof=1) / np.sqrt(len(entry.gaps)) if len(entry.gaps) > 1 else np.nan
            rows.append((entry.name, f"{np.mean(entry.gaps[:, -1]):+.4f}", f"{error:.4f}", out, f"{entry.runs:,}"))
        optimum = f"<p>optimum {self.optimum:.6g}; values are totals</p>"
        header = ("algorithm", "gap", "standard error", "out of bounds", "runs")
        return html_card(repr(self), html_table(header, rows), optimum)

    def __repr__(self) -> str:
        names = ", ".join(entry.name for entry in self.entries)
        finished = f", {self.runs}" * (self.status != "done")
        return f"Comparison({self.problem}: {names}; seeds {self.seeds}{finished}, samples {self.samples:,})"
