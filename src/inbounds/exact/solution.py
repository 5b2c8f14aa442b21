"""What an exact solver returns, and how an occupancy and prices become it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import Evaluation, Policy, evaluation, occupancy_near

if TYPE_CHECKING:
    from inbounds.proofs.certificate import Certificate

INFEASIBLE = 1e-10
"""How far below zero, relative to the priced margins, the best joint margin must be for a problem to be infeasible."""


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Evaluation):
    """An optimal policy with bounds on both sides, in the user's units; values are normalised by (1 - discount).

    ``reward``, ``margins`` and ``occupancy`` are those of `policy`, evaluated on the model, never the solver's own.

    Attributes
    ----------
    policy : Policy
        One stationary policy. In states that it never visits it is greedy at the optimal prices.
    prices : array [K]
        Reward gained per unit of bound relaxed; 0 for constraints that do not bind.
    value_function : array [S]
        The best value, from each state, of the reward plus the priced margins. With `prices` it proves `upper_bound`.
    upper_bound : float
        No policy in bounds has more reward.
    method : str
        What found it.
    unconstrained_solves : int
        How many unconstrained problems were solved on the way; 0 for a linear program.
    certificate : Certificate, optional
        The proof that `policy` is in bounds and within `gap` of the best, when it was asked for (``ib.solve`` does).
    reward_given_up : float
        What it cost to move the policy from the edge of its bounds to where it is provably in bounds.
    """

    policy: Policy
    prices: Floats
    value_function: Floats
    upper_bound: float
    method: str
    unconstrained_solves: int = 0
    certificate: Certificate | None = None
    reward_given_up: float = 0.0

    @property
    def gap(self) -> float:
        """How far the policy can be from optimal: upper_bound - reward, 0 where rounding makes it negative."""
        return max(self.upper_bound - self.reward, 0.0)

    def __repr__(self) -> str:
        return f"Solution(reward {self.reward:.10g}, gap {self.gap:.1e}, by {self.method})"


@dataclass(frozen=True, eq=False, repr=False)
class JointMargin:
    """The largest margin that some policy keeps in every constraint at once, and the proof that none keeps more.

    `Slater` and `EpisodicSlater` say which kind of policy it is, and in which units its margins are.
    """

    value: float
    policy: Any
    upper_bound: float
    prices: Floats
    value_function: Floats

    def proves_infeasible(self, margin_scales: Floats) -> bool:
        """Whether no policy is in bounds, beyond what rounding explains."""
        return self.upper_bound < -INFEASIBLE * float(self.prices @ margin_scales)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value:.10g})"


def priced_backup(cmdp: CMDP, reward: Floats, value_function: Floats) -> Floats:
    """(1 - discount) * reward + discount * E[value of the next state], per pair [n]: one Bellman backup, normalised."""
    return (1.0 - cmdp.discount) * reward + cmdp.discount * (cmdp.transition @ value_function)


def upper_bound(cmdp: CMDP, reward: Floats, value_function: Floats) -> float:
    """A valid bound on the value of `reward` under any policy, from any guess of the value function.

    If V(s) >= (1 - discount) reward(s, a) + discount E V(s') at every pair, then no policy's value from the start
    exceeds <initial, V>. A guess that misses by e at the worst pair is mended by adding e / (1 - discount)
    everywhere.
    """
    excess = float(np.max(priced_backup(cmdp, reward, value_function) - value_function[cmdp.pairs.states]))
    return float(cmdp.initial @ value_function) + max(excess, 0.0) / (1.0 - cmdp.discount)


def greedy(cmdp: CMDP, reward: Floats, value_function: Floats) -> Policy:
    """In every state the pair with the best backup; the first of them when several tie."""
    _, chosen = cmdp.pairs.best(priced_backup(cmdp, reward, value_function))
    return Policy.deterministic(cmdp, chosen)


def assemble(
    cmdp: CMDP,
    occupancy: Floats,
    prices: Floats,
    value_function: Floats,
    proved: float | None = None,
    unconstrained_solves: int = 0,
    *,
    method: str,
) -> Solution:
    """The policy of an occupancy, evaluated on the model, with the bound that prices and a value function prove.

    `proved` is that bound, where it is known.
    """
    prices = np.maximum(prices, 0.0)
    time = cmdp.pairs.sum_by_state(occupancy)
    everywhere = bool(np.all(time > 0.0))
    if proved is None or not everywhere:
        priced = cmdp.reward + np.einsum("k,kn->n", prices, cmdp.margins)
    if proved is None:
        proved = upper_bound(cmdp, priced, value_function)
    otherwise = None if everywhere else greedy(cmdp, priced, value_function)
    policy = Policy.from_occupancy(cmdp, occupancy, otherwise)
    judged = evaluation(cmdp, occupancy_near(cmdp, policy, start=time / time.sum()))
    return Solution(
        policy=policy,
        reward=judged.reward,
        margins=judged.margins,
        prices=freeze(prices),
        value_function=freeze(value_function),
        upper_bound=proved,
        occupancy=judged.occupancy,
        discount=cmdp.discount,
        margin_scales=cmdp.margin_scales,
        method=method,
        unconstrained_solves=unconstrained_solves,
    )
