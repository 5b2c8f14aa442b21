"""Concave functions of the occupancy, for `ConcaveCSPDA`: the record that holds one, and those that ship.

An occupancy is the discounted share of time spent at each pair, [n]; it sums to 1. A reward is the linear function
<occupancy, reward>. The entropy of the time spent in each state, or its distance to a target, is not linear, and no
reward stands for it.

Logarithms have no bound near zero. The functions here look at the distribution of states x through

    y = (1 - smoothing) x + smoothing / S

which is never below smoothing / S: a smooth concave function with a bounded gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.errors import InvalidInput
from inbounds.inputs import finite_number, finite_or_nan, float_vector, positive, real_number, shown
from inbounds.problem.pairs import Pairs, pairs_of
from inbounds.tables import as_given, so_many


@dataclass(frozen=True, repr=False)
class Utility:
    """A concave function of the occupancy, in the user's units.

    Parameters
    ----------
    value : callable
        ``value(occupancy)`` is a number; `occupancy` is an array [n], >= 0, that sums to 1, and is read-only.
    gradient : callable
        ``gradient(occupancy)`` is its gradient [n], or any supergradient where there is a kink.
    lipschitz : float
        No entry of the gradient is larger in absolute value, at any occupancy: the Lipschitz constant of the function
        in the sum of absolute values. It sets the scale of the steps.
    name : str

    Examples
    --------
    As little as possible of the time of the most visited state:

    >>> import numpy as np
    >>> import inbounds as ib
    >>> pairs = ib.zoo.queue().pairs
    >>> spread = ib.Utility(
    ...     value=lambda occupancy: -pairs.sum_by_state(occupancy).max(),
    ...     gradient=lambda occupancy: -1.0 * (pairs.states == pairs.sum_by_state(occupancy).argmax()),
    ...     lipschitz=1.0,
    ...     name="spread",
    ... )
    >>> spread
    Utility('spread')
    >>> run = ib.learn(ib.zoo.queue().simulator(), ib.ConcaveCSPDA.practical(utility=spread), samples=10_000)
    """

    value: Callable[[Floats], float]
    gradient: Callable[[Floats], Any]
    lipschitz: float
    name: str = "utility"

    def __post_init__(self) -> None:
        for what in ("value", "gradient"):
            if not callable(getattr(self, what)):
                raise InvalidInput(
                    f"Utility: {what} must be a function of the occupancy, found {shown(getattr(self, what))}"
                )
        if not isinstance(self.name, str) or not self.name:
            raise InvalidInput(f"Utility: name must be a text, found {shown(self.name)}")
        object.__setattr__(self, "lipschitz", positive(self.lipschitz, f"Utility {self.name!r}: lipschitz"))

    def at_least(self, bound: float) -> Utility:
        """The function minus `bound`: as a constraint, which has to be >= 0, "at least `bound`"."""
        value, bound = self.value, finite_number(bound, "the bound of a utility")
        return replace(self, value=lambda occupancy: value(occupancy) - bound, name=f"{self.name} >= {as_given(bound)}")

    def __repr__(self) -> str:
        return f"Utility({self.name!r})"


def checked_value(utility: Utility, occupancy: Floats) -> float:
    """The value at an occupancy [n], if it is a number."""
    value = real_number(utility.value(occupancy), f"Utility {utility.name!r}: its value at an occupancy")
    if not math.isfinite(value):
        raise InvalidInput(f"Utility {utility.name!r}: its value at an occupancy is {value}; it must be finite")
    return value


def checked_gradient(utility: Utility, occupancy: Floats) -> Floats:
    """The gradient [n] at an occupancy [n], if it is one and within its bound."""
    gradient = float_vector(utility.gradient(occupancy), len(occupancy), f"the gradient of utility {utility.name!r}")
    largest = np.max(np.abs(gradient))
    if not np.isfinite(largest):
        raise InvalidInput(f"Utility {utility.name!r}: an entry of its gradient is {largest}; all must be finite")
    if not largest <= utility.lipschitz * (1.0 + 1e-9):
        raise InvalidInput(
            f"Utility {utility.name!r}: an entry of its gradient is {largest:g} in absolute value, "
            f"beyond lipschitz ({utility.lipschitz:g}); give a larger one, or a smoother function"
        )
    return gradient


def require_concave(utility: Utility, n_pairs: int) -> None:
    """Refuse a function whose value rises above what its gradient at another occupancy allows.

    Looked at between a few distributions over pairs, even and uneven ones: enough to notice a gradient of the wrong
    sign, or of another function.
    """
    uneven = np.random.default_rng(0).exponential(size=(3, n_pairs)) ** 4
    points = [freeze(weights / weights.sum()) for weights in (np.ones(n_pairs), *uneven)]
    values = [checked_value(utility, point) for point in points]
    for point, value in zip(points, values, strict=True):
        gradient = checked_gradient(utility, point)
        for other, reached in zip(points, values, strict=True):
            allowed = value + float(np.sum(gradient * (other - point)))
            if reached > allowed + 1e-9 * (utility.lipschitz + abs(reached)):
                raise InvalidInput(
                    f"Utility {utility.name!r}: the gradient at one occupancy allows at most {allowed:.6g} at another, "
                    f"where the value is {reached:.6g}; is the function concave, and the sign of the gradient right?"
                )


def state_entropy(problem: Any, *, smoothing: float = 0.01) -> Utility:
    """The entropy of the distribution of states, in natural units: log S when every state gets the same time.

    It is that of y = (1 - smoothing) x + smoothing / S in place of the distribution x itself, so that its gradient is
    bounded: never below the entropy of x, and above it by at most smoothing * log S plus the entropy of a coin that
    lands heads with probability `smoothing`.

    Parameters
    ----------
    problem : CMDP or Simulator
    smoothing : float in (0, 1)

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue().unconstrained()
    >>> entropy = ib.state_entropy(queue)
    >>> run = ib.learn(queue.simulator(), ib.ConcaveCSPDA.practical(utility=entropy), samples=200_000)
    >>> entropy.value(ib.evaluate(queue, run.policy).occupancy) > 1.79  # log 6 = 1.7918
    True
    """
    pairs = pairs_of(problem)
    from_uniform = _negative_kl(pairs, np.full(pairs.n_states, 1.0 / pairs.n_states), smoothing, "state entropy")
    return replace(from_uniform, value=lambda occupancy: math.log(pairs.n_states) + from_uniform.value(occupancy))


def negative_kl(problem: Any, target: Any, *, smoothing: float = 0.01) -> Utility:
    """Minus the divergence KL(x || target) of the distribution of states x from a target [S]: 0 where they agree.

    Both are mixed with the uniform distribution first, a share `smoothing` of it, so that the gradient is bounded and
    the target may have zeros. The result is >= (1 - smoothing) times what it would be without.

    Parameters
    ----------
    problem : CMDP or Simulator
    target : array [S]
        A distribution over states.
    smoothing : float in (0, 1)

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue().unconstrained()
    >>> half_full = ib.negative_kl(queue, [0.1, 0.15, 0.25, 0.25, 0.15, 0.1])
    >>> round(half_full.value(ib.evaluate(queue, ib.Policy.uniform(queue)).occupancy), 3)
    -0.059
    >>> run = ib.learn(queue.simulator(), ib.ConcaveCSPDA.practical(utility=half_full), samples=200_000)
    >>> half_full.value(ib.evaluate(queue, run.policy).occupancy) > -0.005
    True
    """
    return _negative_kl(pairs_of(problem), target, smoothing, "minus KL to a target")


def _negative_kl(pairs: Pairs, target: Any, smoothing: float, name: str) -> Utility:
    share = _share(smoothing)
    wanted = _smoothed(_distribution(target, pairs), share)

    def smooth(occupancy: Floats) -> Floats:
        if len(occupancy) != pairs.n_pairs:
            raise InvalidInput(
                f"Utility {name!r} was made of a problem with {so_many(pairs.n_pairs, 'pair')}, and this one has "
                f"{len(occupancy):,}; make it of this one"
            )
        return _smoothed(pairs.sum_by_state(occupancy), share)

    def value(occupancy: Floats) -> float:
        mixed = smooth(occupancy)
        return float(-(mixed @ np.log(mixed / wanted)))

    def gradient(occupancy: Floats) -> Floats:
        return (-(1.0 - share) * (np.log(smooth(occupancy) / wanted) + 1.0))[pairs.states]

    least, most = _smoothed(np.array([0.0, 1.0]), share, pairs.n_states)
    ends = np.log([least / wanted.max(), most / wanted.min()]) + 1.0
    return Utility(value, gradient, lipschitz=(1.0 - share) * float(np.abs(ends).max()), name=name)


def _smoothed(distribution: Floats, share: float, n_states: int | None = None) -> Floats:
    return (1.0 - share) * distribution + share / (n_states or len(distribution))


def _share(smoothing: float) -> float:
    share = finite_or_nan(smoothing)
    if not 1e-100 < share < 1.0:  # logarithms of smaller ones might be infinite
        raise InvalidInput(f"smoothing must be a number in (0, 1), and above 1e-100, found {shown(smoothing)}")
    return share


def _distribution(target: Any, pairs: Pairs) -> Floats:
    distribution = float_vector(target, pairs.n_states, "the target distribution of states")
    if not np.all(distribution >= 0.0) or not abs(distribution.sum() - 1.0) <= 1e-9:
        raise InvalidInput(f"the target distribution of states must be >= 0 and sum to 1, found {distribution}")
    return distribution
