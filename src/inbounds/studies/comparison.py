"""What a comparison of algorithms came to: a record per algorithm, and what they are measured against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inbounds.arrays import Floats
from inbounds.studies.runs import Curves


@dataclass(frozen=True, eq=False, kw_only=True)
class Entry(Curves):
    """What the runs of one algorithm came to. Values are totals: discounted sums, in the user's units."""

    name: str
    settings: str  # as they would be typed
    constrained: bool  # otherwise it ran without the problem's constraints
    optimum: float  # of the problem that it ran on
    seconds: Floats  # [seeds], of wall clock, of the learner alone
    refusal: str = ""  # why it did not run

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
    """All entries, and what they are measured against. Values are totals."""

    problem: str
    constraint_names: tuple[str, ...]
    optimum: float
    unconstrained_optimum: float
    entries: tuple[Entry, ...]
    samples: int
    seeds: int
    preset: str
    resumed: int  # runs that were found in the journal
    status: str = "done"  # or "time limit": then runs are missing

    def entry(self, name: str) -> Entry:
        return next(entry for entry in self.entries if entry.name == name)

    def __repr__(self) -> str:
        names = ", ".join(entry.name for entry in self.entries)
        return f"Comparison({self.problem}: {names}; seeds {self.seeds}, samples {self.samples:,})"
