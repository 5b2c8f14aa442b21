"""What a paper's own bound asks of a problem, in samples: the rows of `table_one`, at the size of a problem.

Orders of magnitude: constants, logarithms, the number of constraints and the Slater constant are left out. The numbers
compare papers on one problem and promise nothing; the theorems themselves ask for far more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from inbounds.algorithms.conversions import Order, expected_gap, failure_for_mean
from inbounds.algorithms.settings import stated
from inbounds.algorithms.table_one import (
    BY_STAGE,
    DISCOUNTED,
    IN_MEAN,
    PER_EPISODE,
    Row,
    derive,
    fitting,
    readings,
    row_named,
)
from inbounds.errors import InvalidInput
from inbounds.tables import text_table


@dataclass(frozen=True)
class ConvertedPlan:
    """From a paper's own bound to samples, one conversion at a time.

    Attributes
    ----------
    row : Row
        Of Table 1: the paper's own bound, and what is printed.
    epsilon : float
        The target, in scaled units, normalised: per step.
    steps : tuple of (str, Order)
        The own bound, and what it is after each conversion that this problem needs.
    samples : float, or None
        The last of them at the size of this problem: the transitions after which the mixture of the policies played is
        within epsilon, but for a probability `failure`. Of this order, no more is said. None where the paper takes
        values for given, and does not count what it takes to estimate them;
    iterations : float, or None
        then the last of them counts these.
    failure : float
        Step 3 of the appendix: the probability at which the mean over runs is within `mean`, twice epsilon at most.
    mean : float
    """

    row: Row
    epsilon: float
    steps: tuple[tuple[str, Order], ...]
    samples: float | None
    iterations: float | None
    failure: float
    mean: float

    @property
    def conventions(self) -> str:
        """Under which conventions the printed exponents follow: what S becomes, and what ε is of (`readings`)."""
        if not readings(self.row):
            return "no episodes, so no convention to choose"
        return (
            " or ".join(f"{states}, {accuracy}" for states, accuracy in fitting(self.row)) or "no convention gives it"
        )

    def __str__(self) -> str:
        table = text_table(("step", "order, O~"), [(step, str(order)) for step, order in self.steps])
        number = f"{self.samples:.1e} samples" if self.iterations is None else f"{self.iterations:.1e} iterations"
        in_mean = f"but for a probability of {self.failure:g}; then the mean is within {stated(self.mean, digits=6)}"
        given = "with values given; the samples that estimate them are not counted"
        words = [given] * (self.samples is None) + [in_mean] * (IN_MEAN in self.row.steps)
        return "\n".join(
            [
                table,
                f"At this size: of the order of {', '.join([number, *words])}.",
                f"Table 1 prints {self.row.printed} ({self.conventions}).",
                *self.row.remarks,
            ]
        )


def converted_plan(
    algorithm: str, n_states: int, n_pairs: int, length: float, stages: bool, epsilon: float
) -> ConvertedPlan:
    """The plan of ``ib.plan(..., algorithm=)``; `length` is the horizon (with `stages`), or 1 / (1 - discount)."""
    row = row_named(algorithm)
    if stages:
        if PER_EPISODE not in row.steps:
            raise InvalidInput(f"{row.name} knows no episodes: give a discounted problem")
        # A horizon is what the paper itself speaks of: nothing is to be discounted, and S is its own.
        row = replace(row, steps=tuple(step for step in row.steps if step not in (BY_STAGE, DISCOUNTED)))
    steps, total = derive(row), epsilon * length
    sizes = {"S": n_states, "A": n_pairs / n_states, "H": length, "effective": length, "accuracy": 1.0 / total}
    number = 1.0
    try:
        for name, size in sizes.items():
            number *= size ** float(getattr(steps[-1][1], name))
    except OverflowError:
        number = math.inf
    if not number < math.inf:
        raise InvalidInput(f"epsilon = {epsilon:g} takes more {row.counts} than a double can count; give a larger one")
    samples, iterations = (number, None) if row.counts == "samples" else (None, number)
    discount = 1.0 - 1.0 / length
    failure = failure_for_mean(total, discount)
    mean = expected_gap(total, failure, discount) / length
    return ConvertedPlan(row_named(algorithm), epsilon, steps, samples, iterations, failure, mean)
