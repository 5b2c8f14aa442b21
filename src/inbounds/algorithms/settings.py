"""What the settings of every algorithm have in common: how they are checked, and how they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from inbounds.algorithms.kernels import BASELINE_RATE
from inbounds.errors import InvalidInput
from inbounds.inputs import finite_or_nan, is_whole


def number(settings: Any, name: str) -> float:
    """The setting as a float; NaN, which no condition accepts, when it is not a finite number."""
    return finite_or_nan(getattr(settings, name))


def require(holds: bool, settings: Any, name: str, what: str) -> None:
    """Refuse a setting, by its name, unless the condition holds; `what` completes "must be ..."."""
    if not holds:
        raise InvalidInput(f"{type(settings).__name__}: {name} must be {what}, found {getattr(settings, name)!r}")


def require_positive(settings: Any, *names: str) -> None:
    """Each of these settings is a number > 0; or None, where that is the default and stands for the paper's formula."""
    for name in names:
        if not _left_open(settings, name):
            require(number(settings, name) > 0.0, settings, name, "a number > 0")


def require_whole(settings: Any, *names: str) -> None:
    """Each of these settings is a whole number >= 1; or None, where that is the default and stands for a rule."""
    for name in names:
        if not _left_open(settings, name):
            require(is_whole(getattr(settings, name), 1), settings, name, "a whole number of at least 1")


def require_share(settings: Any, name: str, what: str = "a number in (0, 1], in scaled units") -> None:
    """The setting is a number in (0, 1], or None; such as a Slater constant in scaled units."""
    if not _left_open(settings, name):
        require(0.0 < number(settings, name) <= 1.0, settings, name, what)


def require_kappa(settings: Any) -> None:
    """`kappa`, the tightening of every constraint in scaled units, is in [0, 1]; or None for the paper's formula."""
    if not _left_open(settings, "kappa"):
        require(0.0 <= number(settings, "kappa") <= 1.0, settings, "kappa", "a number in [0, 1], in scaled units")


def require_not_negative(settings: Any, *names: str) -> None:
    """Each of these settings is a number >= 0."""
    for name in names:
        require(number(settings, name) >= 0.0, settings, name, "a number >= 0")


def require_switch(settings: Any, *names: str) -> None:
    """Each of these settings is True or False."""
    for name in names:
        require(isinstance(getattr(settings, name), bool), settings, name, "True or False")


def require_average(settings: Any) -> None:
    """`average` says which steps, or iterations, the output averages."""
    require(settings.average in ("all", "second half"), settings, "average", '"all" or "second half"')


def require_steps(settings: Any) -> None:
    """What the primal-dual methods with multiplicative steps share: step sizes, `shift`, and the steps to average."""
    require_positive(settings, "alpha", "beta", "alpha_multiplier", "beta_multiplier")
    if settings.shift is not None and settings.shift != "baseline":
        require(number(settings, "shift") >= 0.0, settings, "shift", 'a number >= 0, or "baseline"')
    require_average(settings)


def chosen_steps(settings: Any, paper: Any, n_pairs: int) -> tuple[float, float]:
    """alpha and beta: as given, or the paper's formulas times their multipliers."""
    alpha = paper.alpha * settings.alpha_multiplier if settings.alpha is None else settings.alpha
    beta = paper.beta * settings.beta_multiplier if settings.beta is None else settings.beta
    if settings.shift == "baseline" and settings.beta is None:
        beta = min(beta, 1.0 / n_pairs)  # beyond about 2 / n the weights diverge
    return float(alpha), float(beta)


def chosen_shift(settings: Any, paper: Any) -> tuple[float, float]:
    """M, and the rate of the running mean in its place: one of them is 0."""
    if settings.shift == "baseline":
        return 0.0, BASELINE_RATE
    return float(paper.shift if settings.shift is None else settings.shift), 0.0


def steps_shown(settings: Any, constants: Any) -> dict[str, float | str]:
    """What these settings became, by public name."""
    return {
        "alpha": constants.alpha,
        "beta": constants.beta,
        "shift": "baseline" if settings.shift == "baseline" else constants.shift,
        "exploration": constants.exploration,
        "average": settings.average,
    }


def restart_of(settings: Any, steps: int) -> int:
    """The step, or iteration, out of so many at which averages start anew."""
    return steps // 2 if settings.average == "second half" else 0


def guarantee_unless(gaps: Sequence[str], theorem: str) -> str:
    """The guarantee of a run that the paper's theorem does not cover, for these reasons; without any, `theorem`."""
    return f"none: the paper's theorem does not cover {'; nor '.join(gaps)}" if gaps else theorem


def _left_open(settings: Any, name: str) -> bool:
    return getattr(settings, name) is None and getattr(type(settings), name) is None


def changed(settings: Any) -> dict[str, Any]:
    """The settings that differ from their defaults."""
    return {
        setting.name: getattr(settings, setting.name)
        for setting in fields(settings)
        if getattr(settings, setting.name) != setting.default
    }


def shown(settings: Any) -> str:
    """The settings as they would be typed: only what differs from the defaults."""
    return f"{type(settings).__name__}({', '.join(f'{name}={value!r}' for name, value in changed(settings).items())})"
