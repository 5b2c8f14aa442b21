"""Where a solver stops before it is done, what it knows by then, and how it goes on from there.

Solvers look at the clock between unconstrained solves, and hand the deadline to each of them. What they know is always
a pair of valid bounds and the policies found so far; nothing of it is lost at a limit, or by Ctrl-C.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from inbounds.arrays import Floats
from inbounds.errors import InvalidInput
from inbounds.inputs import positive, whole_number
from inbounds.problem.pieces import same_problem
from inbounds.problem.policy import Policy
from inbounds.tables import outwards, so_many

TIME, ITERATIONS = "time limit", "iteration limit"


class Limits(NamedTuple):
    """When to stop: a time of ``time.monotonic()``, and a number of unconstrained solves."""

    deadline: float | None = None
    iterations: int | None = None

    @classmethod
    def of(cls, time_limit: Any, iterations: Any) -> Limits:
        """From what the user asked for, checked; seconds count from now."""
        return cls(
            None if time_limit is None else time.monotonic() + positive(time_limit, "time_limit"),
            None if iterations is None else whole_number(iterations, "iterations"),
        )

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    @property
    def seconds_left(self) -> float | None:
        """At least a thousandth: solvers want a positive number."""
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 1e-3)

    def reached(self, solves: int) -> str:
        """The limit that ends a search after so many unconstrained solves, in words; empty when none does."""
        if self.over:
            return TIME
        return ITERATIONS if self.iterations is not None and solves >= self.iterations else ""


NO_LIMITS = Limits()


@dataclass(frozen=True, eq=False, repr=False)
class Partial:
    """What was known when a solver stopped early; values as the criterion of the problem has them.

    Hand it back as ``resume=`` with the same problem and settings, and the solver goes on as if it had not stopped: the
    answer has the bits of an unbroken run.

    Attributes
    ----------
    status : str
        Why it stopped: "time limit", "iteration limit" or "interrupted".
    lower, upper : float
        Bounds on the optimum (primal and dual bound); minus infinity while no policy in bounds is known.
    unconstrained_solves : int
        How many unconstrained problems were solved by then.
    policy : Policy or None
        The best policy known to be in bounds; while there is none, the one that is closest to it.
    reward : float
    margins : array [K]
        Of that policy.
    points : tuple of Solution
        Of a frontier: the points that are finished.
    curve : Frontier or None
        Of a frontier that was interrupted: these points, as they come back at a limit.
    """

    status: str
    lower: float = -math.inf
    upper: float = math.inf
    unconstrained_solves: int = 0
    policy: Policy | None = None
    reward: float = math.nan
    margins: Floats | None = None
    points: tuple[Any, ...] = ()
    curve: Any = None
    asked: tuple[Any, ...] = ()  # what it is an answer to
    state: Any = None  # what the solver goes on from

    @property
    def gap(self) -> float:
        """upper - lower."""
        return self.upper - self.lower

    @property
    def in_words(self) -> str:
        """What is known, in one line."""
        known = [f"{len(self.points)} of the points"] if self.points else []
        if not self.points and (self.policy is not None or not math.isinf(self.upper)):
            least = "no policy in bounds yet" if math.isinf(self.lower) else f"a reward of {self.lower:.6g} in bounds"
            most = f"that the optimum is at most {outwards(self.upper, up=True)}"
            known = [least] + ([] if math.isinf(self.upper) else [most])
        return ", and ".join(known) or "nothing yet"

    def __repr__(self) -> str:
        return f"Partial({self.status}: {self.in_words})"

    @property
    def so_far(self) -> str:
        """How far it came, in words; empty if nowhere."""
        if not self.unconstrained_solves:
            return ""
        after = f"after {so_many(self.unconstrained_solves, 'unconstrained solve')}, before"
        if math.isinf(self.upper):
            return f"{after} anything was finished"
        most = outwards(self.upper, up=True)
        return f"{after} a policy in bounds was known; the optimum, if there is one, is at most {most}"


def state_to_resume(resume: Any, asked: tuple[Any, ...]) -> Any:
    """The state of a `Partial` from outside, which must belong to the same question."""
    if resume is None:
        return None
    if not isinstance(resume, Partial):
        raise InvalidInput(f"resume takes the `partial` of an answer or an error, found {type(resume).__name__}")
    same = len(asked) == len(resume.asked) and same_problem(resume.asked[0], asked[0]) and resume.asked[1:] == asked[1:]
    if not same:
        raise InvalidInput("resume belongs to another problem, or to other settings; give those that it came from")
    return resume.state
