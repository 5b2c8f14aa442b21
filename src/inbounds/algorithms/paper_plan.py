"""What the paper's settings are for a target accuracy, and what its constants really cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from inbounds.algorithms.cspda import EXPERIMENT_CONSTANT, PROOF_CONSTANT, formulas
from inbounds.errors import InvalidInput
from inbounds.exact.feasibility import slater as exact_slater
from inbounds.exact.methods import solve_uncertified
from inbounds.problem.cmdp import CMDP
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
class PaperPlan:
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


def paper_plan(sizes: Sizes, epsilon: float, slater: float) -> PaperPlan:
    """The plan of ``ib.plan``, for a problem of these sizes."""
    return PaperPlan(
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


def slater_for_theorem(cmdp: CMDP) -> float:
    """The Slater constant of a model, in scaled units, if the paper's theorem allows it: 1 without constraints."""
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
