"""What the paper's settings are for a target accuracy, and what its constants really cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from inbounds.algorithms.cspda import EXPERIMENT_CONSTANT, PROOF_CONSTANT, formulas
from inbounds.errors import InvalidInput
from inbounds.exact.methods import solve_uncertified
from inbounds.problem.cmdp import CMDP, valid_discount
from inbounds.problem.simulator import Simulator
from inbounds.tables import text_table


class Sizes(NamedTuple):
    """What the paper's formulas need to know of a problem."""

    n_states: int
    n_pairs: int
    n_constraints: int
    discount: float


@dataclass(frozen=True)
class Settings:
    """The paper's settings for one value of its constant; scaled units, normalised by (1 - discount)."""

    constant: float  # c~_1
    samples: int  # T
    kappa: float
    alpha: float
    beta: float
    shift: float  # M


@dataclass(frozen=True)
class Plan:
    """The paper's settings for a target, under the constant of its proof and that of its experiment.

    Attributes
    ----------
    sizes : Sizes
    epsilon : float
        The target: expected reward within epsilon of the optimum, in scaled units, normalised by (1 - discount).
    slater : float
        The Slater constant phi, in scaled units.
    proof : Settings
        With the constant 1195.5 that the proof needs: the guarantee holds.
    experiment : Settings
        With the constant 0.02 of the paper's experiment: no theorem covers it.
    """

    sizes: Sizes
    epsilon: float
    slater: float
    proof: Settings
    experiment: Settings

    def __str__(self) -> str:
        settings = (("kappa", "kappa"), ("alpha", "alpha"), ("beta", "beta"), ("M", "shift"))
        rows = [
            ("constant c~1", f"{self.proof.constant:g}", f"{self.experiment.constant:g}"),
            ("samples T", f"{self.proof.samples:,}", f"{self.experiment.samples:,}"),
            *(
                (label, f"{getattr(self.proof, name):.6g}", f"{getattr(self.experiment, name):.6g}")
                for label, name in settings
            ),
        ]
        return text_table(("", "proof", "experiment"), rows)


def plan(problem: CMDP | Simulator | Sizes, *, epsilon: float, slater: float | None = None) -> Plan:
    """The paper's T, kappa, alpha, beta and M for a target accuracy, and what its constants really cost.

    The theorem's proof gives a reward within 4 eps, where its statement says eps; the plan asks for ``eps = epsilon /
    4``, so that the target is what you get.

    Parameters
    ----------
    problem : CMDP, Simulator, or Sizes
    epsilon : float in (0, 1)
        Reward within epsilon of the optimum, in scaled units (the range of the reward is 1), normalised by (1 -
        discount).
    slater : float in (0, 1], optional
        The Slater constant in scaled units. For a `CMDP` it is computed when it is not given.

    Examples
    --------
    >>> import inbounds as ib
    >>> p = ib.plan(ib.zoo.queue(), epsilon=0.1)
    >>> p.experiment.samples, f"{p.proof.samples:.2e}"
    (56087, '2.00e+14')
    """
    epsilon = _as_number(epsilon, "epsilon")
    if not 0.0 < epsilon < 1.0:
        raise InvalidInput(f"epsilon must be in (0, 1), in scaled units, found {epsilon!r}")
    if isinstance(problem, CMDP):
        sizes = Sizes(problem.n_states, problem.n_pairs, problem.n_constraints, problem.discount)
        if slater is None:
            slater = _exact_slater(problem)
    elif isinstance(problem, Simulator):
        sizes = Sizes(problem.pairs.n_states, problem.pairs.n_pairs, problem.n_constraints, problem.discount)
    else:
        sizes = _valid_sizes(problem)
    if slater is None:
        raise InvalidInput("give slater=, the Slater constant in scaled units; only for a CMDP can it be computed")
    slater = _as_number(slater, "slater")
    if not 0.0 < slater <= 1.0:
        raise InvalidInput(f"slater must be in (0, 1], in scaled units, found {slater!r}")
    return Plan(
        sizes,
        epsilon,
        slater,
        proof=_settings(sizes, epsilon, slater, PROOF_CONSTANT),
        experiment=_settings(sizes, epsilon, slater, EXPERIMENT_CONSTANT),
    )


def _settings(sizes: Sizes, epsilon: float, slater: float, constant: float) -> Settings:
    eps = epsilon / 4.0
    samples = math.ceil(
        max(16.0, 4.0 * slater**2, 1.0 / eps**2)
        * constant**2
        * max(sizes.n_constraints, 1)
        * sizes.n_pairs
        * math.log(sizes.n_pairs)
        / ((1.0 - sizes.discount) ** 2 * slater**2)
    )
    samples = max(samples, 1)
    found = formulas(*sizes, slater, samples, constant)
    return Settings(constant, samples, found.kappa, found.alpha, found.beta, found.shift)


def _exact_slater(cmdp: CMDP) -> float:
    from inbounds.exact.feasibility import slater as exact_slater

    if cmdp.n_constraints == 0:
        return 1.0
    value = exact_slater(cmdp, scaled=True).value
    if value < 0.0:
        solve_uncertified(cmdp)  # raises Infeasible, with the diagnosis
    if value <= 1e-9:
        raise InvalidInput(
            "every policy in bounds is exactly at a bound (Slater constant 0), which the paper's theorem excludes; "
            "relax a bound"
        )
    return value


def _valid_sizes(sizes: Any) -> Sizes:
    try:
        checked = Sizes(*sizes)
        counts = [int(count) for count in checked[:3]]
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"plan takes a CMDP, a Simulator, or Sizes(n_states, n_pairs, n_constraints, discount), found {sizes!r}"
        ) from error
    if counts[0] < 1 or counts[1] < counts[0] or counts[2] < 0:
        raise InvalidInput("plan needs at least one state, at least as many pairs as states, and constraints >= 0")
    return Sizes(counts[0], counts[1], counts[2], valid_discount(checked.discount))


def _as_number(value: Any, what: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} must be a number, found {value!r}") from error
