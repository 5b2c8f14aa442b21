"""Mixtures of policies: a coin at the start of an episode.

When an episode begins, a mixture draws one of its policies, and it keeps to that one until the episode ends. So every
value of a mixture is the weighted mean of the values of its policies, whatever the criterion counts as one: a mean over
paths is the mean over the coin of the means over the paths of the policy that it chose. The same holds of occupancies,
and of averages per step, where the whole of time is one episode.

A mixture is NO stationary policy, and nothing here makes it look like one: what it does in a state depends on the coin,
hence on the past. Throwing the coin again in every state, or averaging probabilities, gives other values. ONE policy
with the values of a mixture goes through its occupancy, which takes the model: that is `ib.mix`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from inbounds.arrays import Floats, ReadOnly, divisors, freeze
from inbounds.errors import InvalidInput
from inbounds.formats import read_mixture, write_mixture
from inbounds.inputs import float_vector, generator
from inbounds.problem.pairs import Pairs
from inbounds.problem.policy import Policy, for_problem
from inbounds.tables import html_card, html_table

_SHOWN = 12
"""Policies that a notebook shows of a mixture."""


@dataclass(frozen=True, eq=False, repr=False)
class Mixture(ReadOnly):
    """A mixture of policies: one of them is drawn at the start of an episode and kept until its end.

    To deploy it, throw the coin once when an episode begins, ``policy = mixture.draw(rng)``, and act by that policy. A
    mixture itself cannot act in a state, and where a policy is asked for it is refused.

    Its values are the weighted means of those of its policies (`evaluate`): of discounted averages per step, normalised
    by (1 - discount), of sums over a finite horizon, or of long-run averages per step. `certify` proves them.

    Attributes
    ----------
    weights : array [J]
        The probability of each policy; they sum to 1.
    policies : tuple of J Policy
        Of one problem: those of the others are matched to the first by the labels of states and actions.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> best, safest = ib.solve(queue).policy, ib.slater(queue).policy
    >>> mixture = ib.Mixture([0.75, 0.25], [best, safest])
    >>> mixture
    Mixture(2 policies with the weights 0.75, 0.25; 6 states)
    >>> tonight = mixture.draw(np.random.default_rng(0))
    >>> tonight is best or tonight is safest
    True
    >>> mean = 0.75 * ib.evaluate(queue, best).reward + 0.25 * ib.evaluate(queue, safest).reward
    >>> abs(ib.evaluate(queue, mixture).reward - mean) < 1e-12
    True
    """

    weights: Floats
    policies: Sequence[Policy]

    if TYPE_CHECKING:  # what may be given is more than what is kept of it

        def __init__(self, weights: Sequence[float] | Floats, policies: Sequence[Policy]) -> None: ...

    instead = (
        ": it draws one of its policies at the start of an episode; act by mixture.draw(rng), or, where the model is "
        "known, make one policy with the same values: ib.mix(cmdp, mixture.policies, mixture.weights)"
    )
    """What to do where a policy is needed; `for_problem` says so."""

    def __post_init__(self) -> None:
        if not isinstance(self.policies, Sequence) or isinstance(self.policies, str | bytes):
            raise InvalidInput(f"the policies of a mixture must be a list, found {type(self.policies).__name__}")
        if not self.policies:
            raise InvalidInput("a mixture needs at least one policy")
        if isinstance(self.weights, Sequence) and any(isinstance(weight, Policy) for weight in self.weights):
            raise InvalidInput("a mixture is given its weights first: ib.Mixture([0.75, 0.25], [one, other])")
        weights = float_vector(self.weights, len(self.policies), "the weights of a mixture")
        if not np.all(weights >= 0.0) or not abs(weights.sum() - 1.0) <= 1e-9:
            raise InvalidInput(f"the weights of a mixture must be >= 0 and sum to 1, found {weights.tolist()}")
        weights = weights / divisors(weights.sum(), len(weights))
        object.__setattr__(self, "weights", freeze(weights))
        object.__setattr__(self, "policies", tuple(map(self._matched, range(len(self.policies)))))

    def _matched(self, number: int) -> Policy:
        """Policy `number`, as one of the problem of the first."""
        first, policy = self.policies[0], self.policies[number]
        if not isinstance(policy, Policy):
            raise InvalidInput(f"policy {number} of the mixture must be an ib.Policy, found {type(policy).__name__}")
        try:
            return for_problem(first, policy)
        except InvalidInput as error:
            raise InvalidInput(f"the policies of a mixture must be of one problem; number {number}: {error}") from None

    @property
    def pairs(self) -> Pairs:
        """The numbering of states and actions, of all of its policies."""
        return self.policies[0].pairs

    def draw(self, rng: np.random.Generator) -> Policy:
        """Throw the coin: the policy to act by until the end of the episode that begins."""
        ends = np.cumsum(self.weights)
        return self.policies[int(np.searchsorted(ends, generator(rng).random() * ends[-1], side="right"))]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the mixture, with the labels of its problem, to a file, whole or not at all.

        ``.json`` to read and for controllers, ``.npz`` for many states.
        """
        write_mixture(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Mixture:
        """The mixture in a file, every bit of it, with its labels.

        Examples
        --------
        >>> import tempfile, inbounds as ib
        >>> one = ib.Mixture([1.0], [ib.Policy.uniform(ib.zoo.queue())])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     one.save(f"{folder}/one.npz")
        ...     ib.Mixture.load(f"{folder}/one.npz")
        Mixture(1 policy with the weight 1; 6 states)
        """
        fields = read_mixture(path)
        try:
            names = ("offsets", "actions", "state_labels", "action_labels")
            pairs = Pairs.create(**{name: fields[name] for name in names})
            return cls(fields["weights"], [Policy(pairs, member) for member in fields["probabilities"]])
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from None

    def __eq__(self, other: object) -> bool:
        """The same weights of the same policies, in the same order."""
        if not isinstance(other, Mixture):
            return NotImplemented
        return np.array_equal(self.weights, other.weights) and self.policies == other.policies

    def __hash__(self) -> int:
        return hash(self.policies)

    def __getattr__(self, name: str) -> Any:
        if hasattr(Policy, name) or name in Policy.__dataclass_fields__:
            raise AttributeError(f"a Mixture has no {name!r} of its own{self.instead}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _repr_html_(self) -> str:
        members = zip(self.weights[:_SHOWN], self.policies, strict=False)
        rows = [(f"{weight:.6g}", repr(policy)) for weight, policy in members]
        return html_card(repr(self), html_table(("weight", "policy"), rows, words=2))

    def __repr__(self) -> str:
        shown = [f"{weight:.6g}" for weight in self.weights[:5]] + ["..."] * (len(self.weights) > 5)
        words = "1 policy with the weight" if len(shown) == 1 else f"{len(self.weights):,} policies with the weights"
        return f"Mixture({words} {', '.join(shown)}; {self.pairs.n_states:,} states)"


def members_of(problem: Any, policy: Policy | Mixture) -> tuple[Floats, tuple[Policy, ...]]:
    """The weights [J] and the policies of a mixture, as those of a problem; a policy is a mixture of itself alone."""
    weights, policies = (policy.weights, policy.policies) if isinstance(policy, Mixture) else (np.ones(1), (policy,))
    return weights, tuple(for_problem(problem, member) for member in policies)
