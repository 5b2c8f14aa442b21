"""What the settings of every algorithm have in common: how they are checked, shown and documented, and their preset."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Self

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Algorithm
from inbounds.algorithms.kernels import BASELINE_RATE
from inbounds.errors import InvalidInput
from inbounds.inputs import plain_number, shown
from inbounds.tables import kept_in_digits

SMALLEST, LARGEST = 1e-100, 1e12
"""Of settings: powers, inverses and exponentials of these are no accidents of floating point."""


def require(holds: bool, settings: Any, name: str, what: str) -> None:
    """Refuse a setting, by its name, unless the condition holds; `what` completes "must be ..."."""
    if not holds:
        raise InvalidInput(f"{type(settings).__name__}: {name} must be {what}, found {shown(getattr(settings, name))}")


@dataclass(frozen=True, repr=False)
class Settings:
    """What the settings of the algorithms of the library inherit."""

    algorithm: ClassVar[Algorithm]
    preset: ClassVar[Mapping[str, Any]] = {}
    """What `practical` changes."""

    def __init_subclass__(cls) -> None:
        """Complete the docstring: by the parameters that are inherited, which are said once, where they are declared;
        and, where there is no example, by the preset."""
        text, mark, examples = inspect.cleandoc(cls.__doc__ or "").partition("\n\nExamples\n")
        listed = "\n\nParameters\n----------\n"
        for parent in cls.__bases__:
            inherited = (parent.__doc__ or "").partition(listed)[2].partition("\n\nExamples\n")[0]
            text += ("\n" if listed in text else listed) * bool(inherited) + inherited
        if cls.preset and not mark:
            names = [*getattr(cls, "__dataclass_fields__", ()), *inspect.get_annotations(cls)]
            typed = ", ".join(f"{name}={cls.preset[name]!r}" for name in names if name in cls.preset)
            mark = "\n\nExamples\n--------\n"
            examples = f">>> {cls.__name__}.practical()\n{cls.__name__}({typed})"
        cls.__doc__ = text + mark + examples

    def __post_init__(self) -> None:
        for each in fields(self):
            number = plain_number(given := getattr(self, each.name))
            if isinstance(number, float) and number.is_integer() and "whole" in each.metadata:
                number = int(number)
            value = given if number is None else number
            object.__setattr__(self, each.name, value)  # a float, whatever kind of number was given
            infinite = isinstance(number, float) and not math.isfinite(number)  # which is refused for what it is
            if number and not infinite and not SMALLEST <= abs(number) <= LARGEST:
                require(False, self, each.name, f"0, or of a size from {SMALLEST:g} to {LARGEST:g}")
            if each.metadata and not (value is None and each.default is None):
                require(each.metadata["holds"](value), self, each.name, each.metadata["what"])

    @classmethod
    def practical(cls, **changes: Any) -> Self:
        """The preset that the module describes; `changes` replace any of its settings."""
        return cls(**{**cls.preset, **changes})

    @property
    def record(self) -> Algorithm:
        """What runs with these settings."""
        return self.algorithm

    def __repr__(self) -> str:
        """As it would be typed: only what differs from the defaults."""
        given = [(each.name, getattr(self, each.name), each.default) for each in fields(self)]
        typed = ", ".join(f"{name}={value!r}" for name, value, default in given if value != default)
        return f"{type(self).__name__}({typed})"


class Formulas(NamedTuple):
    """What a paper's formulas for `StepSettings` give for a problem, in scaled units."""

    alpha: float
    beta: float
    shift: float
    kappa: float = 0.0


class Steps(NamedTuple):
    """What `StepSettings` became for a problem and a number of steps."""

    alpha: float
    beta: float
    shift: float  # used when baseline_rate is 0
    baseline_rate: float
    exploration: float
    restart: int  # the step at which averages start anew


@dataclass(frozen=True, repr=False, kw_only=True)
class StepSettings(Settings):
    """Of primal-dual methods with multiplicative steps, exp( step * (signal - M) ), that sample step by step.

    Parameters
    ----------
    shift : float or "baseline", optional
        The paper's M; default: its formula. "baseline": a running mean instead.
    average : "all" or "second half"
        Which steps the output averages.
    alpha_multiplier, beta_multiplier : float
        Factors on the paper's formulas for alpha and beta.
    """

    alpha: float | None = field(default=None, metadata=checks.POSITIVE)
    beta: float | None = field(default=None, metadata=checks.POSITIVE)
    shift: float | str | None = field(default=None, metadata=checks.or_word("baseline", checks.NOT_NEGATIVE))
    exploration: float = 0.0
    average: str = field(default="all", metadata=checks.AVERAGE)
    alpha_multiplier: float = field(default=1.0, metadata=checks.POSITIVE)
    beta_multiplier: float = field(default=1.0, metadata=checks.POSITIVE)

    def steps(self, paper: Formulas, n_pairs: int, number: int) -> Steps:
        """What these became for a number of steps."""
        alpha = paper.alpha * self.alpha_multiplier if self.alpha is None else self.alpha
        beta = paper.beta * self.beta_multiplier if self.beta is None else self.beta
        baseline = self.shift == "baseline"
        if baseline and self.beta is None:
            beta = min(beta, 1.0 / n_pairs)  # beyond about 2 / n the weights diverge
        shift = paper.shift if self.shift is None else self.shift
        return Steps(
            alpha=float(alpha),
            beta=float(beta),
            shift=0.0 if baseline else float(shift),
            baseline_rate=BASELINE_RATE if baseline else 0.0,
            exploration=float(self.exploration),
            restart=restart_of(self, number),
        )

    def shown(self, steps: Steps) -> dict[str, float | str]:
        """The same for the record of the run."""
        shift = {"shift": "baseline"} if self.shift == "baseline" else {}
        return resolved(steps, "alpha", "beta", "shift", "exploration") | shift | {"average": self.average}


def resolved(constants: Any, *names: str) -> dict[str, float | str]:
    """What settings became, by their public names, where constants have them."""
    return {name: getattr(constants, name) for name in names}


def restart_of(settings: Any, steps: int) -> int:
    """The step, or iteration, out of so many at which averages start anew."""
    return steps // 2 if settings.average == "second half" else 0


def guarantee_unless(gaps: Mapping[str, bool], theorem: str) -> str:
    """`theorem`; or that the paper's does not cover the run, for those of the reasons that apply."""
    reasons = [reason for reason, applies in gaps.items() if applies]
    return f"none: the paper's theorem does not cover {'; nor '.join(reasons)}" if reasons else theorem


def stated(bound: float, at_least: bool = False, digits: int = 3) -> str:
    """A bound in a guarantee, in so few digits that still hold: rounded up, or down where it is one from below.

    >>> stated(0.1231), stated(-0.1231, at_least=True), stated(0.1 + 0.2)
    ('0.124', '-0.124', '0.3')
    """
    return kept_in_digits(bound, at_least, 1e-12 * abs(bound), digits)  # what the formula itself is rounded by


_COUNTABLE = 2**1000
"""What formulas of doubles still take: no run is as long."""


def least_number(holds: Callable[[int], bool]) -> float:
    """The least whole number from 1 on for which it holds, as for all larger ones; infinite where there is none.

    Exact, however large: by doubling, and then by bisection.

    >>> least_number(lambda number: number**2 >= 30), least_number(lambda number: False)
    (6, inf)
    """
    high = 1
    while not holds(high):
        high *= 2
        if high > _COUNTABLE:
            return math.inf
    low = high // 2  # for which it does not, or 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


_TAKEN_FOR_KNOWN = {"slater": "Slater constant", "slack": "slack of the safe policy"}
"""Settings that theorems take for known, as they are called. Where one is not given, something stands in for it."""


def taken_for_known(settings: Any) -> tuple[dict[str, bool], str]:
    """The gaps of a theorem that takes such settings for known, where they are not given; and the words where they are.

    >>> from inbounds.algorithms.episodic.opdop import OPDOP
    >>> taken_for_known(OPDOP())
    ({'a Slater constant that is not given': True}, ', if the Slater constant is right')
    """
    called = {name: words for name, words in _TAKEN_FOR_KNOWN.items() if hasattr(settings, name)}
    gaps = {f"a {words} that is not given": getattr(settings, name) is None for name, words in called.items()}
    return gaps, "".join(f", if the {words} is right" for words in called.values())
