"""What an exact solver returns, and how an occupancy and prices become it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.criteria import criterion_of
from inbounds.criteria.evaluation import Evaluation, values_of
from inbounds.exact.optimum import OPTIMAL, Optimum, flat_margins
from inbounds.exact.rare import with_best_values
from inbounds.exact.reachable import well_scaled, where_reached
from inbounds.exact.sensitivity import Piece, Sensitivities
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint
from inbounds.problem.policy import Policy
from inbounds.tables import outwards, printable


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Evaluation):
    """An optimal policy with bounds on both sides, in the user's units.

    Values are discounted averages per step, normalised by (1 - discount); sums over a finite horizon; or long-run
    averages per step: as the criterion of the problem says. ``reward``, ``margins`` and ``occupancy`` are those of
    `policy`, evaluated on the model, never the solver's own.

    Attributes
    ----------
    policy : Policy
        One policy, which says what to do in every state. Where it never comes, or too rarely for any value to feel what
        it does there, it is greedy at the optimal prices (for averages: it goes to where it stays).
    prices : array [K]
        Reward gained per unit of bound relaxed (Lagrange multipliers, dual variables, shadow prices); 0 for constraints
        that do not bind. Where a deterministic policy was asked for, those of the optimum that may randomise: what the
        policy itself would gain, they do not say.
    value_function : array [S], or [H, S]
        The best value, from each state, of the reward plus the priced margins (for averages: up to a constant; where
        the policy never comes, perhaps more than that). With `prices` it proves `upper_bound`; where a deterministic
        policy was asked for, ``certificate.reward_upper``, which is said of all policies.
    upper_bound : float
        No policy in bounds has more reward; where a deterministic one was asked for, no deterministic policy in bounds
        (for averages: none with one recurrent class from the start). Branch and bound says so then, in no file.
    method : str
        What found it.
    unconstrained_solves : int
        How many unconstrained problems were solved on the way; 0 for a linear program.
    certificate : Certificate, optional
        The proof that `policy` is in bounds and within `gap` of the best, when it was asked for (``ib.solve`` does).
    reward_given_up : float
        What it cost to move the policy from the edge of its bounds to where it is provably in bounds.
    linked : int
        For averages: how many classes of states that do not meet under the best occupancy (or under one next to it that
        is provably in bounds) the policy links, at the cost that its gap shows; a step from one to another is rare, so
        short runs do not show the average. 0: none.
    status : str
        "optimal": the gap is what was asked for. "time limit" or "iteration limit": that came first, and this
        is the best policy in bounds that was known, with its gap. "stalled": rounding, bounds that can only
        just be met, or classes that had to be `linked`, left a larger gap. "best found": of a deterministic
        policy, that no proof says it is the best; the gap says how far from it, and `standing` why. "not proved": the
        policy is in bounds up to rounding at best, see `certificate`.
    partial : Partial, optional
        At a limit: what ``ib.solve(problem, resume=best.partial)`` goes on from.
    piece
        What `ranges`, `prices_beyond` and `sensitivities` are found from, when they are asked for.
    price_of_determinism : float
        Of a deterministic policy that was asked for: how much more the best policy that may randomise has. 0 otherwise.
    among : str
        Which policies `upper_bound` speaks of, in words; empty: of all.
    kept_in_rationals : bool
        Of a deterministic policy of a small model that is "not proved": that it keeps every bound all the same is known
        from its values in rationals, too close to a bound for the certificate to show it, which is made of doubles.
    loosening : array [K], optional
        Of a deterministic policy that is the best found because of a better one that keeps its bounds or misses them by
        so little that it cannot be told which: loosened by that, they are kept for sure.
    """

    policy: Policy
    prices: Floats
    value_function: Floats
    upper_bound: float
    method: str
    unconstrained_solves: int = 0
    certificate: Any = None
    reward_given_up: float = 0.0
    linked: int = 0
    status: str = OPTIMAL
    partial: Any = None
    piece: Piece | None = None
    price_of_determinism: float = 0.0
    among: str = ""
    kept_in_rationals: bool = False
    loosening: Floats | None = None

    @property
    def in_bounds(self) -> bool:
        """Every margin >= 0: proved, where there is a certificate; else up to rounding, as for any evaluation."""
        return super().in_bounds if self.certificate is None else bool(self.certificate.in_bounds)

    @property
    def gap(self) -> float:
        """How far the policy can be from optimal: upper_bound - reward, 0 where rounding makes it negative."""
        return max(self.upper_bound - self.reward, 0.0)

    @cached_property
    def ranges(self) -> Floats | None:
        """Between which bounds each constraint can be moved, the others as they are, at constant prices: [K, 2].

        (Sensitivity ranges of the right-hand sides.) Exact within, and no word on what is beyond. None where the policy
        is not known to be a vertex of the occupancy program, as with ``coins="any"``.
        """
        return None if self.piece is None else self.piece.ranges

    @cached_property
    def prices_beyond(self) -> Floats | None:
        """The price of each constraint just below and just above that range, [K, 2]; None where `ranges` is.

        It is looked for when it is asked for first, which with many states may take as long as the solve itself.
        """
        return None if self.piece is None else self.piece.prices_beyond

    @property
    def sensitivities(self) -> Sensitivities | None:
        """How each price moves as its bound moves: a table to print, and a data frame; None where `ranges` is."""
        if self.ranges is None or self.prices_beyond is None:
            return None
        return Sensitivities(self.constraints, self.prices, self.ranges, self.prices_beyond)

    @property
    def standing(self) -> str:
        """How far from the best the policy can be, of which policies that is the best, and why it is not that one."""
        below = f"at most {outwards(self.gap, up=True, digits=2)} below the best"
        if not self.among:
            return below
        worth = f"{self.price_of_determinism:.4g} below the optimum that may randomise, whose prices these are"
        return f"{below} {self.among}{self._why_found}, and {worth}"

    @property
    def _why_found(self) -> str:
        if self.status != "best found":
            return ""
        if self.loosening is None:
            return " (best found: to find the best is NP-hard)"
        return (
            " (best found: of one with more reward it cannot be told on which side of a bound it is; "
            f"{self._loosened(self.loosening)}, it is in bounds)"
        )

    def _loosened(self, by: Floats) -> str:
        each = zip(self.constraints, by, strict=True)
        return "with " + " and ".join(
            f"{printable(c.name)} loosened by {outwards(more, up=True, digits=2)}" for c, more in each if more > 0.0
        )

    @property
    def _lead(self) -> str:
        return f"reward {self.reward:.10g}, {self.standing}; {self.policy!r}"

    @property
    def _table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        header, rows = super()._table
        return (*header, "price"), [(*row, f"{price:.6g}") for row, price in zip(rows, self.prices, strict=True)]

    @property
    def verdict(self) -> str:
        """What is proved of it, in words; without a certificate, how the search ended."""
        if self.certificate is None:
            return f"status: {self.status}"
        if self.certificate.in_bounds or not self.among or not np.all(np.isfinite(self.certificate.margins_lower)):
            return str(self.certificate.verdict)
        enough = self._loosened(enough_for_a_proof(self.constraints, -self.certificate.margins_lower))
        if self.kept_in_rationals:
            return f"not proved: its values in rationals are in bounds, but no certificate shows it; {enough}, one does"
        return f"{self.certificate.verdict}; {enough}, it is"

    def __repr__(self) -> str:
        return f"Solution(reward {self.reward:.10g}, gap {self.gap:.1e}, by {self.method})"


def enough_for_a_proof(constraints: tuple[Constraint, ...], missing: Floats) -> Floats:
    """By how much to loosen each bound [K] of which so much is missing to a proof: twice that, or a bound's last digit.

    Twice, as the proof of the looser problem has roundings of its own.
    """
    last = np.spacing(np.abs([c.bound for c in constraints]))
    return np.where(missing > 0.0, np.maximum(2.0 * missing, last), 0.0)


def policy_of(problem: CMDP, occupancy: Floats, prices: Floats, value_function: Floats) -> Floats:
    """The policy [N] of an occupancy [N]; where that never comes, as the criterion fills it in at the prices [K]."""
    criterion = criterion_of(problem)
    places = criterion.places
    time = np.bincount(places, occupancy, criterion.n_places)
    visited = time > 0.0
    if np.all(visited):
        return occupancy / time[places]
    taken = occupancy / np.where(visited, time, 1.0)[places]
    return criterion.fill_in(taken, visited, criterion.greedy(_priced(problem, prices), value_function))


def taken_by(problem: CMDP, found: Optimum) -> Floats:
    """The policy [N] of a mixture: of a vertex, its own, so that no rounding of occupancies looks like a coin."""
    if found.pure is None and found.corner is None:
        return policy_of(problem, found.occupancy, found.prices, found.value_function)
    criterion = criterion_of(problem)
    taken = np.zeros(criterion.n_entries)
    if found.pure is not None:
        taken[found.pure] = 1.0
    else:
        assert found.corner is not None
        taken = np.array(found.corner.vertex.probabilities(criterion.n_entries))
    visited = np.bincount(criterion.places, where_reached(problem, found.occupancy), criterion.n_places) > 0.0
    if not np.all(visited) and not criterion.mass_row:  # there a vertex may do anything; of averages it has to leave
        priced, best = with_best_values(problem, found)
        taken[~visited[criterion.places]] = 0.0
        taken[criterion.greedy(priced, best.value_function)[~visited]] = 1.0
    return taken


def _priced(problem: CMDP, prices: Floats) -> Floats:
    """The reward and the margins at their prices [K], [N]."""
    return np.asarray(problem.reward.ravel() + np.einsum("k,kn->n", prices, flat_margins(problem)))


def piece_of(problem: CMDP, found: Optimum) -> Piece | None:
    """Of a mixture that is a vertex."""
    return None if found.corner is None else Piece.of(well_scaled(problem), found.corner)


def assemble(problem: CMDP, found: Optimum, *, method: str) -> Solution:
    """The policy of a mixture, evaluated on the model."""
    criterion = criterion_of(problem)
    taken = taken_by(problem, found)
    time = np.bincount(criterion.places, found.occupancy, criterion.n_places)
    followed = criterion.follow(taken, start=time * (len(criterion.layers) / time.sum()))
    return Solution(
        **values_of(well_scaled(problem), criterion.time_at_entries(followed)),
        policy=Policy(problem.pairs, taken.reshape(problem.shape)),
        prices=freeze(found.prices),
        value_function=freeze(found.value_function.reshape(*problem.shape[:-1], problem.n_states)),
        upper_bound=found.upper_bound,
        method=method,
        unconstrained_solves=found.unconstrained_solves,
        linked=found.linked,
        status=found.status,
        piece=piece_of(problem, found),
    )
