"""The truncation of a discounted problem: an episode of H steps, and what the cut can cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.criteria.evaluation import occupancy
from inbounds.errors import InvalidInput
from inbounds.inputs import finite_or_nan, shown
from inbounds.problem.cmdp import CMDP, require_model
from inbounds.problem.constraint import Constraint
from inbounds.problem.criterion import require_criterion, valid_horizon
from inbounds.problem.policy import Policy, for_problem


@dataclass(frozen=True, eq=False, repr=False)
class Truncation:
    """A discounted problem cut off after H steps, and what the cut can cost.

    Follow any policy for H steps and anything afterwards. The discounted value J of a signal, normalised by
    (1 - discount), is then the truncated one plus a tail that no policy can move far:

        J = (1 - discount) * (sum over the horizon of ``problem``) + tail,     |tail| <= discount^H * max |signal|.

    The same holds for margins. So a policy that is in bounds in ``problem`` misses a bound of ``cmdp`` by at most
    ``margin_errors``, and one that keeps ``problem.tightened(margin_errors / (1 - discount))`` misses none.

    Attributes
    ----------
    cmdp : CMDP
        The discounted problem.
    problem : CMDP, with a horizon
        Stage h has reward ``discount^h * reward`` and likewise every signal; its values are discounted sums up to H,
        to be compared with ``total_reward`` and ``total_margins``. Each bound is the discounted sum of the bound up
        to H, so that the value of a margin is the discounted sum of the margin. Prices are those of `cmdp`.
    reward_error : float
        The bound on the tail of the reward above, normalised: discount^H times the largest absolute reward.
    margin_errors : array [K]
        Likewise for each margin.
    """

    cmdp: CMDP
    problem: CMDP
    reward_error: float
    margin_errors: Floats

    @property
    def horizon(self) -> int:
        return self.problem.layers

    def to_stationary(self, policy: Policy, afterwards: Policy | None = None) -> Policy:
        """ONE stationary policy of the discounted problem from a policy of the truncation, by its occupancy.

        What is exact: the result has, for every signal, the discounted value of "`policy` for H steps, then the
        stationary policy `afterwards` for ever", because the occupancy of that behaviour,

            (1 - discount) sum_{h<H} discount^h occupancy_h  +  discount^H (occupancy of `afterwards` from stage H on),

        satisfies the flow equations. What is not exact: the truncation does not count the second term, so the values
        differ from (1 - discount) times those of the truncation by up to `reward_error` and `margin_errors`. In
        particular a bound that `policy` meets with nothing to spare may be missed by that much. And the stationary
        policy shares the discounted occupancy, not the distribution at each time.

        Parameters
        ----------
        policy : Policy
            Of `problem`.
        afterwards : Policy, optional
            By default the rule of stage 0, the one that looks farthest ahead.

        Examples
        --------
        >>> import inbounds as ib
        >>> queue = ib.zoo.queue()
        >>> cut = ib.truncate(queue, epsilon=1e-6)
        >>> cut.horizon
        20
        >>> best = cut.to_stationary(ib.solve(cut.problem).policy)
        >>> abs(ib.evaluate(queue, best).reward - ib.solve(queue).reward) < 1e-4
        True
        """
        discount, policy = self.cmdp.discount, for_problem(self.problem, policy)
        afterwards = policy.at(0) if afterwards is None else for_problem(self.cmdp, afterwards)
        spent = occupancy(self.problem, policy)
        weights = (1.0 - discount) * discount ** np.arange(self.horizon)
        mass = weights @ spent
        arrived = spent[-1] @ self.problem.transition[-1]
        rest = occupancy(replace(self.cmdp, initial=arrived), afterwards)
        return Policy.from_occupancy(self.cmdp, mass + discount**self.horizon * rest, otherwise=afterwards)

    def __repr__(self) -> str:
        return f"Truncation({self.cmdp!r} after {self.horizon} steps, reward error {self.reward_error:.1e})"


def truncate(cmdp: CMDP, epsilon: float | None = None, *, horizon: int | None = None) -> Truncation:
    """A discounted problem cut off after H steps: with a finite horizon, and discounted stage rewards and signals.

    The values of the one are discounted averages per step, normalised by (1 - discount); those of the other are sums
    over the horizon, here discounted sums. (An average-reward or a finite-horizon problem has nothing to cut.)

    Parameters
    ----------
    cmdp : CMDP
    epsilon : float in (0, 1)
        The smallest H with ``discount^H <= epsilon`` is taken: no value, normalised by (1 - discount), then changes by
        more than `epsilon` times the largest absolute entry of its signal.
    horizon : int
        H itself, instead of `epsilon`.

    Examples
    --------
    >>> import inbounds as ib
    >>> ib.truncate(ib.zoo.queue(), horizon=20)
    Truncation(CMDP(queue: 6 states, 96 pairs, 2 constraints, discount 0.5) after 20 steps, reward error 4.8e-06)
    """
    if (epsilon is None) == (horizon is None):
        raise InvalidInput("truncate needs exactly one of epsilon and horizon=")
    require_model(cmdp, "truncate")
    require_criterion(cmdp, "discounted", "truncate")
    discount = cmdp.discount
    stages = stages_for(discount, epsilon) if epsilon is not None else valid_horizon(horizon)
    powers = discount ** np.arange(stages)
    left = discount**stages

    def cut(constraint: Constraint) -> Constraint:
        signal = powers[:, None] * constraint.signal
        return replace(constraint.with_bound(constraint.bound * float(powers.sum())), signal=signal)

    problem = CMDP(
        offsets=cmdp.offsets,
        transition=cmdp.transition,
        reward=powers[:, None] * cmdp.reward,
        constraints=tuple(cut(constraint) for constraint in cmdp.constraints),
        initial=cmdp.initial,
        horizon=stages,
        actions=cmdp.actions,
        state_labels=cmdp.state_labels,
        action_labels=cmdp.action_labels,
        name=cmdp.name,
    )
    return Truncation(
        cmdp=cmdp,
        problem=problem,
        reward_error=left * float(np.abs(cmdp.reward).max()),
        margin_errors=freeze(left * np.abs(cmdp.margins).max(axis=1)),
    )


def stages_for(discount: float, epsilon: float) -> int:
    """The smallest number of stages H >= 1 with discount^H <= epsilon."""
    if not 0.0 < (share := finite_or_nan(epsilon)) < 1.0:
        raise InvalidInput(f"epsilon must be a number in (0, 1), found {shown(epsilon)}")
    epsilon = share
    if discount == 0.0:
        return 1
    stages = valid_horizon(max(math.ceil(math.log(epsilon) / math.log(discount)), 1))
    # The ratio of logarithms may round to the wrong side of a whole number.
    while discount**stages > epsilon:
        stages += 1
    while stages > 1 and discount ** (stages - 1) <= epsilon:
        stages -= 1
    return stages
