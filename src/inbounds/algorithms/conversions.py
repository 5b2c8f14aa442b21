"""The appendix's conversions: from what a paper proves to samples of a discounted problem, so that papers compare.

A bound is kept as an order of magnitude, `Order`: exponents of the sizes, exact, without constants and logarithms. Each
conversion is a function of one order (Bai et al. 2022, appendix A, "Explanation of comparison"):

    step 1  regret to PAC         the mixture of the K policies is regret / K from the optimum  `mixture_gap`
                                  least K (or T) with that gap <= eps                         `needed`
    step 2  episodes to samples   H transitions each                                          `samples_of_episodes`
            S to S' = S H         when transitions depend on the stage                        `stages_as_states`
            H to 1 / (1 - gamma)  the mean of the horizon of Algorithm 2                      `discounted`
    step 3  probability to mean   delta = eps (1 - gamma): a logarithm, so the order stays    `expected_gap`
    footnotes 1, 2                the number of successors is at most S                       `successors_as_states`
    footnotes 3, 4                an iteration costs more than one sample                     `with_inner_loop`
    footnote 6                    from normalised values to sums                              `as_totals`

*Which way step 2 turns S into S H.* A problem whose transitions depend on the stage is a stationary one with the S' = S
H states (state, stage). So a bound proved for it with S states is a bound in S' with S = S' / H: every power of S takes
one power of H away. So read, OptDual, OptPrimalDual, OptPess-PrimalDual and Triple-Q come out as printed; multiplying
by H instead gives none of the four (`inbounds.algorithms.table_one`).

Examples
--------
UC-CFH, worked out in the appendix: eps-optimal in all but S A C^2 H^2 / eps^2 episodes, with C successors at most.

>>> episodes = Order.of(S=1, A=1, N=2, H=2, accuracy=2)
>>> print(episodes)
SA N^2 H^2 / ε^2
>>> print(successors_as_states(episodes))
S^3 A H^2 / ε^2
>>> print(samples_of_episodes(successors_as_states(episodes)))
S^3 A H^3 / ε^2
>>> print(discounted(samples_of_episodes(successors_as_states(episodes))))
S^3 A / ((1-γ)^3 ε^2)

Its transitions do not depend on the stage in the algorithm, so S stays; and step 3 changes a logarithm only:

>>> expected_gap(0.1, failure_for_mean(0.1, discount=0.9), discount=0.9) <= 2 * 0.1
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction

from inbounds.algorithms.settings import least_number
from inbounds.errors import InvalidInput


@dataclass(frozen=True)
class Order:
    """A product of powers, constants and logarithms left out; the fields are the exponents.

    Attributes
    ----------
    S, A : Fraction
        Of the numbers of states and of actions.
    N : Fraction
        Of the largest number of successors of a pair (Efroni et al. write N, Kalagarla et al. C).
    H : Fraction
        Of the length of an episode.
    K, T : Fraction
        Of the numbers of episodes, and of steps (samples or iterations; T = H K where there are episodes).
    effective : Fraction
        Of 1 / (1 - gamma), the effective horizon.
    accuracy : Fraction
        Of 1 / eps.

    Examples
    --------
    >>> print(Order.of(S=1, A=1, effective=4, accuracy=2))
    SA / ((1-γ)^4 ε^2)
    >>> regret = Order.of(S=1, A=Fraction(1, 2), H=3, K=Fraction(1, 2))
    >>> print(regret, "and squared", regret**2)
    S A^0.5 H^3 K^0.5 and squared S^2 A H^6 K
    """

    S: Fraction = Fraction(0)
    A: Fraction = Fraction(0)
    N: Fraction = Fraction(0)
    H: Fraction = Fraction(0)
    K: Fraction = Fraction(0)
    T: Fraction = Fraction(0)
    effective: Fraction = Fraction(0)
    accuracy: Fraction = Fraction(0)

    @classmethod
    def of(cls, **powers: int | Fraction) -> Order:
        """From exponents that may be whole numbers, by name."""
        return cls(**{name: Fraction(power) for name, power in powers.items()})

    def __mul__(self, other: Order) -> Order:
        return Order(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def __pow__(self, exponent: int | Fraction) -> Order:
        return Order(*(exponent * getattr(self, field.name) for field in fields(self)))

    def __str__(self) -> str:
        sizes = {name: getattr(self, name) for name in ("S", "A", "N", "H", "K", "T")}
        if self.S == self.A:
            together = "SA" if self.S == 1 else "(SA)"
            sizes = {together: self.S} | {name: power for name, power in sizes.items() if name not in "SA"}
        powers = {**sizes, "(1-γ)": -self.effective, "ε": -self.accuracy}
        above = _product(powers)
        below = _product({name: -power for name, power in powers.items()})
        return f"{above or '1'} / {f'({below})' if ' ' in below else below}" if below else above or "1"


def _product(powers: dict[str, Fraction]) -> str:
    """The positive powers."""
    return " ".join(f"{name}^{float(power):g}".removesuffix("^1") for name, power in powers.items() if power > 0)


# Step 1


def mixture_gap(regret: Order) -> Order:
    """Regret over K episodes (or T steps), divided by their number: how far the mixture of the policies is from best.

    The mixture draws one of the K policies, all alike, at the start of an episode and keeps to it. (The printed form,
    "pi(s) = pi_k(s) with probability 1 / K", read as a draw in every state, has other values: `ib.mix` is right.)
    """
    return replace(regret, K=regret.K - 1) if regret.K else replace(regret, T=regret.T - 1)


def needed(gap: Order) -> Order:
    """The episodes (or steps) after which a gap that falls with their number is at most eps.

    From c K^-a <= eps follows K >= (c / eps)^(1 / a).

    Examples
    --------
    >>> print(needed(mixture_gap(Order.of(S=1, A=Fraction(1, 2), K=Fraction(1, 2)))))
    S^2 A / ε^2
    """
    falls = -(gap.K or gap.T)
    if falls <= 0:
        raise InvalidInput(f"a gap of order {gap} does not fall with the number of episodes or steps")
    return (replace(gap, K=Fraction(0), T=Fraction(0)) * Order.of(accuracy=1)) ** (1 / falls)


def episodes_needed(regret: Callable[[int], float], accuracy: float) -> int:
    """The least K with regret(K) / K <= accuracy, for a bound whose regret(K) / K never rises.

    Examples
    --------
    >>> episodes_needed(lambda k: 30.0 * k**0.5, accuracy=0.1)
    90000
    """
    least = least_number(lambda episodes: regret(episodes) <= accuracy * episodes)
    if least == math.inf:
        raise InvalidInput(f"this regret stays above {accuracy:g} an episode: it is not below linear")
    return int(least)


# Step 2


def steps_as_episodes(order: Order) -> Order:
    """T = H K."""
    return replace(order, T=Fraction(0), K=order.K + order.T, H=order.H + order.T)


def samples_of_episodes(episodes: Order) -> Order:
    """An episode takes H transitions."""
    return replace(episodes, H=episodes.H + 1)


def stages_as_states(order: Order) -> Order:
    """In terms of S' = S H, the states of the stationary problem: S = S' / H."""
    return replace(order, H=order.H - order.S)


def discounted(order: Order) -> Order:
    """1 / (1 - gamma) in the place of H."""
    return replace(order, H=Fraction(0), effective=order.effective + order.H)


# Step 3


def expected_gap(accuracy: float, failure: float, discount: float) -> float:
    """At most this is E[V* - V], if V* - V <= accuracy but for a probability `failure`; sums, at most 1 / (1 - gamma).

    Examples
    --------
    >>> round(expected_gap(0.1, failure=0.01, discount=0.9), 12)
    0.199
    """
    return accuracy * (1.0 - failure) + failure / (1.0 - discount)


def failure_for_mean(accuracy: float, discount: float) -> float:
    """The probability of failure at which the mean gap is at most twice the accuracy: eps (1 - gamma)."""
    return accuracy * (1.0 - discount)


# Footnotes


def successors_as_states(order: Order) -> Order:
    """N <= S."""
    return replace(order, N=Fraction(0), S=order.S + order.N)


def with_inner_loop(iterations: Order, samples_each: Order) -> Order:
    """Iterations that cost `samples_each` samples each, an order that may name their number T itself."""
    return iterations * replace(samples_each, T=Fraction(0)) * iterations**samples_each.T


def as_totals(order: Order) -> Order:
    """For values that are sums: an accuracy eps of a sum is (1 - gamma) eps of the normalised value."""
    return replace(order, effective=order.effective + order.accuracy)
