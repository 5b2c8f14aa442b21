"""What a policy is worth on a known model: the one evaluation, for every criterion.

The occupancy of a policy (occupancy measure) is the share of time that it spends at each pair, as the criterion counts
time; every value is a product with it: reward = <occupancy, reward>.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.criteria import criterion_of
from inbounds.errors import InvalidInput, Stopped
from inbounds.inputs import entries
from inbounds.numerics.interrupts import holding_handlers
from inbounds.numerics.sweeps import is_over
from inbounds.pictures import occupancy_figure, written
from inbounds.problem.cmdp import CMDP, require_model
from inbounds.problem.constraint import Constraint
from inbounds.problem.mixture import Mixture, members_of
from inbounds.problem.pairs import Pairs
from inbounds.problem.pieces import seconds_or_none
from inbounds.problem.policy import Policy, for_problem
from inbounds.tables import escaped, html_card, html_table, printable, text_table, wrapped

ROUNDING = 1e-9
"""How far below zero a margin may be, relative to the largest it can be, before it counts as out of bounds."""


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """The exact values of a policy on a known model, in the user's units.

    ``reward`` and ``margins`` are what the criterion calls a value: discounted averages per step, normalised by (1 -
    discount); sums over a finite horizon; or long-run averages per step. ``total_reward`` and ``total_margins`` are the
    discounted sums, and for the other criteria the same as the values.
    """

    reward: float
    margins: Floats  # [K]
    total_reward: float
    total_margins: Floats  # [K]
    occupancy: Floats  # [n], or [H, n]
    margin_scales: Floats  # [K], a bound on each absolute margin
    constraints: tuple[Constraint, ...]  # K, without their signals
    pairs: Pairs  # the numbering of states and actions

    @property
    def in_bounds(self) -> bool:
        """Every margin >= 0, up to the rounding of floating point (1e-9 of the largest margin there can be)."""
        return within_rounding(self.margins, self.margin_scales)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Where the policy spends its time, drawn as `Policy.plot` draws what it does; with `path` also a file."""
        pairs = self.pairs
        labels = [pairs.state_label(state) for state in range(pairs.n_states)]
        time = np.atleast_2d(pairs.sum_by_state(self.occupancy))
        return written(occupancy_figure(labels, time, pairs.problem), path)

    def __str__(self) -> str:
        table = f"\n\n{text_table(*self._table)}\n\n" if self.constraints else "\n"
        return f"{wrapped(self._lead)}{table}{wrapped(self.verdict)}"

    def _repr_html_(self) -> str:
        table = html_table(*self._table) if self.constraints else ""
        return html_card(self._lead, table, f"<p>{escaped(self.verdict)}</p>")

    @property
    def _lead(self) -> str:
        return f"reward {self.reward:.10g}"

    @property
    def _table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        rows: list[tuple[str, ...]]
        rows = [(c.name, c.in_words, f"{m:.6g}") for c, m in zip(self.constraints, self.margins, strict=True)]
        return ("constraint", "bound", "margin"), rows

    @property
    def verdict(self) -> str:
        """Whether it is in bounds, in words; if not, which bounds it misses, and by how much."""
        if self.in_bounds:
            return "in bounds, up to rounding"
        below = zip(self.constraints, self.margins, self.margin_scales, strict=True)
        out = [f"{printable(c.name)} by {-margin:.4g}" for c, margin, scale in below if margin < -ROUNDING * scale]
        return f"OUT OF BOUNDS: {', '.join(out)}"

    def __repr__(self) -> str:
        return f"Evaluation(reward {self.reward:.10g}, {self.verdict})"


def within_rounding(margins: Floats, scales: Floats) -> bool:
    """Whether margins [K] are >= 0, up to rounding."""
    return bool(np.all(margins >= -ROUNDING * scales))


@holding_handlers()
def occupancy(cmdp: CMDP, policy: Policy | Mixture) -> Floats:
    """The share of time that `policy` spends at each pair (its occupancy measure), [n]; with a horizon [H, n].

    Sums to 1 (at each stage). Discounted, it is (1 - discount) times the discounted number of visits; with a horizon,
    the probability of each pair at each stage; for averages, the long-run share of steps. That of a `Mixture` is the
    weighted mean of those of its policies.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> spent = ib.occupancy(queue, ib.Policy.uniform(queue))
    >>> [round(float(share), 4) for share in queue.pairs.sum_by_state(spent)]
    [0.1599, 0.1655, 0.167, 0.1704, 0.1911, 0.1461]
    """
    return freeze(_entries(cmdp, policy).reshape(cmdp.shape))


@holding_handlers()
def evaluate(cmdp: CMDP, policy: Policy | Mixture, *, time_limit: float | None = None) -> Evaluation:
    """The exact reward and margins of a policy, or of a `Mixture` of policies, in the user's units.

    Values are discounted averages per step, normalised by (1 - discount); sums over a finite horizon; or long-run
    averages per step: as the criterion of the problem says. A policy of another model is matched by the labels of
    states and actions, in whatever order they are; it is refused where they are not the same.

    After `time_limit` seconds `Stopped` is raised. It is looked at between the policies of a mixture: one is one step.
    `Stopped` too is the answer where a policy hardly ever leaves some parts of a model of averages, and the time that
    it spends in each cannot be found.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> uniform = ib.evaluate(queue, ib.Policy.uniform(queue))
    >>> round(uniform.total_reward, 6), [round(float(m), 6) for m in uniform.total_margins], uniform.in_bounds
    (4.988788, [-4.0, -1.04], False)
    >>> media = ib.zoo.media()
    >>> uniform = ib.evaluate(media, ib.Policy.uniform(media))
    >>> round(uniform.reward, 6), abs(float(uniform.margins[0])) < 1e-12, uniform.occupancy.shape
    (-8.254212, True, (10, 20))
    >>> uniform
    Evaluation(reward -8.254211791, in bounds, up to rounding)
    """
    limit = seconds_or_none(time_limit)
    return Evaluation(**values_of(cmdp, _entries(cmdp, policy, None if limit is None else time.monotonic() + limit)))


def _entries(cmdp: CMDP, policy: Policy | Mixture, deadline: float | None = None) -> Floats:
    """The occupancy of a policy, or the weighted mean of those of a mixture, stage by stage [N]."""
    require_model(cmdp, "the evaluation of a policy")
    criterion, (weights, policies) = criterion_of(cmdp), members_of(cmdp, policy)
    spent = np.zeros(criterion.n_entries)
    for number, (weight, member) in enumerate(zip(weights, policies, strict=True)):
        if number > 0 and is_over(deadline):  # the first is a step, and every call makes one
            raise Stopped("time limit")
        followed = criterion.follow(member.probabilities.ravel())
        if not followed.settled:
            raise Stopped("not settled")
        spent += weight * criterion.time_at_entries(followed)
    return spent


def values_of(cmdp: CMDP, spent: Floats) -> dict[str, Any]:
    """The values that belong to an occupancy [N], as the fields of an `Evaluation`."""
    # Where the policy never is, nothing counts. And no products of matrices: BLAS would wake all cores for them.
    entries = np.flatnonzero(spent != 0.0)
    shares, criterion = spent[entries], criterion_of(cmdp)
    reward = float(np.sum(shares * cmdp.reward.ravel()[entries]))
    margins = np.array([np.sum(shares * margin[entries]) for margin in cmdp.margins.reshape(-1, spent.size)])
    return {
        "reward": reward,
        "margins": freeze(margins),
        "total_reward": float(criterion.total(reward)),
        "total_margins": freeze(np.array(criterion.total(margins))),
        "occupancy": freeze(spent.reshape(cmdp.shape)),
        "margin_scales": cmdp.margin_scales,
        "constraints": tuple(replace(constraint, signal=None) for constraint in cmdp.constraints),
        "pairs": cmdp.pairs,
    }


@holding_handlers()
def mix(cmdp: CMDP, policies: Sequence[Policy] | Mixture, weights: Any = None) -> Policy:
    """ONE policy whose values are the weighted means of the values of `policies` (default: equal weights).

    Of a `Mixture` the weights are taken too. The values are those of ``ib.Mixture(weights, policies)``, which draws one
    of the policies at the start and keeps to it, and needs no model; this is a stationary policy, without a coin to
    remember, and takes one. Mixing goes through occupancies, so the values are exact, whatever the criterion counts as
    a value (a discounted average, a sum, or a long-run average); averaging the probabilities would not give them.

    One exception: where policies of long-run averages stay in places that do not meet, no one policy has the means of
    their values. The policy returned then links these places, as ``ib.solve`` does: it changes from one to another very
    rarely, and its values are off by what a small share of the time can do: 1e-7, or more where places are hard to
    change (docs/exact.md, under averages).

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> best, safest = ib.solve(queue).policy, ib.slater(queue).policy
    >>> half = ib.evaluate(queue, ib.mix(queue, [best, safest]))
    >>> mean = (ib.evaluate(queue, best).reward + ib.evaluate(queue, safest).reward) / 2
    >>> abs(half.reward - mean) < 1e-12
    True
    """
    require_model(cmdp, "mix")
    if isinstance(policies, Policy):
        raise InvalidInput("policies must be a list of policies, or a Mixture, found one Policy")
    if isinstance(policies, Mixture):
        weights, policies = policies.weights if weights is None else weights, policies.policies
    members = [for_problem(cmdp, each, "each of the policies to mix") for each in entries(policies, "policies")]
    even = np.full(len(members), 1.0 / max(len(members), 1))
    mixture = Mixture(even if weights is None else weights, members)
    largest = mixture.policies[int(np.argmax(mixture.weights))]
    spent, _ = criterion_of(cmdp).linked(_entries(cmdp, mixture), tuple, 0.0, np.empty((0, cmdp.reward.size)))
    return Policy.from_occupancy(cmdp, spent.reshape(cmdp.shape), otherwise=largest)
