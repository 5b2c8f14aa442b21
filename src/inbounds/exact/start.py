"""Where a search begins that knows the answer to a similar question."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats
from inbounds.errors import InvalidInput
from inbounds.exact.solution import Solution
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import for_problem


class Start(NamedTuple):
    """An earlier answer, on the entries and places of the problem at hand, in the user's units.

    It is a guess, and no more: neither its values nor its bounds are taken over.
    """

    prices: Floats  # [K]
    taken: Floats  # [N], the probabilities of its policy
    value_function: Floats  # [M]

    @classmethod
    def of(cls, problem: CMDP, earlier: Any) -> Start:
        """The answer to another problem with the same states and actions, by their labels, and as many constraints."""
        if not isinstance(earlier, Solution):
            raise InvalidInput(f"start takes a Solution, which ib.solve returns, found {type(earlier).__name__}")
        policy = for_problem(problem, earlier.policy)
        if len(earlier.prices) != problem.n_constraints:
            raise InvalidInput(
                f"start has {len(earlier.prices)} prices, and this problem {problem.n_constraints} constraints: give "
                "the solution of a problem with the same constraints, whatever their bounds"
            )
        values, theirs, ours = earlier.value_function, earlier.policy.pairs, problem.pairs.state_labels
        if ours is not None and theirs.state_labels is not None and theirs.state_labels != ours:
            values = values[..., [theirs.state_number(label) for label in ours]]
        values = np.broadcast_to(values, (*problem.shape[:-1], problem.n_states))  # alike at every stage, as policies
        return cls(earlier.prices, policy.probabilities.ravel(), values.ravel())
