"""Where a search begins that knows the answer to a similar question."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats
from inbounds.criteria.contract import Criterion, Found
from inbounds.errors import InvalidInput
from inbounds.exact.optimum import Units
from inbounds.exact.solution import Solution
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import for_problem


class Start(NamedTuple):
    """An earlier answer, on the entries and places of the problem at hand, in the user's units.

    It is a guess, and no more: neither its values nor its bounds are taken over.
    """

    prices: Floats  # [K]
    taken: Floats  # [N], the probabilities of its policy
    coins: int  # that its policy throws
    value_function: Floats  # [M]
    vectors: Floats | None  # [1 + K, M], of the reward and the margins, up to constants: those that proved it

    @classmethod
    def of(cls, problem: CMDP, earlier: Any) -> Start:
        """The answer to another problem with the same states and actions, by their labels, and as many constraints."""
        if not isinstance(earlier, Solution):
            raise InvalidInput(f"start takes a Solution, which ib.solve returns, found {type(earlier).__name__}")
        if earlier.policy.horizon not in (None, problem.horizon):
            raise InvalidInput(
                f"start is the solution of a problem with {earlier.policy.horizon} stages, and this one has "
                f"{problem.horizon or 'none'}: give one with the same horizon, or without one"
            )
        policy = for_problem(problem, earlier.policy)
        if len(earlier.prices) != problem.n_constraints:
            raise InvalidInput(
                f"start has {len(earlier.prices)} prices, and this problem {problem.n_constraints} constraints: give "
                "the solution of a problem with the same constraints, whatever their bounds"
            )
        theirs, ours = earlier.policy.pairs, problem.pairs.state_labels
        order: Any = slice(None)
        if ours is not None and theirs.state_labels is not None and theirs.state_labels != ours:
            order = [theirs.state_number(label) for label in ours]

        def placed(values: Floats) -> Floats:
            """Over the places of this problem [M]; alike at every stage, as policies, where they have no stages."""
            by_state = values.reshape(-1, theirs.n_states)[:, order]
            return np.broadcast_to(by_state, (problem.layers, problem.n_states)).ravel()

        proof = None if earlier.certificate is None else earlier.certificate.proof
        vectors = None if proof is None else np.stack(list(map(placed, (proof.reward_vector, *proof.margin_vectors))))
        return cls(earlier.prices, policy.probabilities.ravel(), policy.coins, placed(earlier.value_function), vectors)

    def expected(self, criterion: Criterion, units: Units, objective: Floats, signals: Floats) -> tuple[Floats, Found]:
        """Its scaled prices [K], and what it makes one expect of the unconstrained solve there, in scaled units."""
        prices = self.prices * units.scales / units.spread
        reward = objective + np.einsum("k,kn->n", prices, signals)
        values = (self.value_function - criterion.level(units.centre)) / units.spread
        return prices, criterion.expect(reward, criterion.largest(self.taken), values)
