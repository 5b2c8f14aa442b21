"""What the paper's settings are for a target accuracy, and what its constants really cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from inbounds.algorithms.cspda import EXPERIMENT_CONSTANT, PROOF_CONSTANT, formulas, proved_error
from inbounds.algorithms.settings import stated
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
    promise: str
    """What the paper proves of a run with these settings, over runs, in scaled units."""


@dataclass(frozen=True)
class PaperPlan:
    """The paper's settings for a target: four readings of it, with the constant that each needs and what it promises.

    Attributes
    ----------
    sizes : Sizes
    epsilon : float
        The target: expected reward within epsilon of the optimum, in scaled units, normalised by (1 - discount).
    slater : float
        The Slater constant phi, in scaled units.
    statement : Settings
        Theorem 3 as it is printed, "within eps", with the constant 1195.5 of its proof: the proof gives 4 eps.
    proof : Settings
        Theorem 3 with eps = epsilon / 4, and that constant: the target is met, with zero expected violation.
    corollary : Settings
        Corollary 2, kappa = 0, with eps = epsilon / 2, and that constant: the target is met, with a small violation.
    experiment : Settings
        With the constant 0.02 of the paper's experiment: no theorem covers it.
    """

    sizes: Sizes
    epsilon: float
    slater: float
    statement: Settings
    proof: Settings
    corollary: Settings
    experiment: Settings

    @property
    def readings(self) -> dict[str, Settings]:
        return {name: getattr(self, name) for name in ("statement", "proof", "corollary", "experiment")}

    def __str__(self) -> str:
        names = ("kappa", "alpha", "beta", "shift")
        rows = [
            (reading, f"{own.constant:g}", f"{own.samples:,}", *(f"{getattr(own, name):.4g}" for name in names))
            for reading, own in self.readings.items()
        ]
        header = ("reading", "constant c~1", "samples T", "kappa", "alpha", "beta", "M")
        promises = [f"{name}: {settings.promise}" for name, settings in self.readings.items()]
        return "\n".join([text_table(header, rows), *promises])


def paper_plan(sizes: Sizes, epsilon: float, slater: float) -> PaperPlan:
    """The plan of ``ib.plan``, for a problem of these sizes."""
    quarter, half, free = epsilon / 4.0, epsilon / 2.0, sizes.n_constraints == 0
    margins, small = (
        ("", "")
        if free
        else (", and margins >= 0", f", and margins >= {stated(-epsilon * slater, at_least=True, digits=6)}")
    )
    target, fourfold = stated(epsilon, digits=6), stated(4.0 * epsilon, digits=6)
    return PaperPlan(
        sizes,
        epsilon,
        slater,
        statement=_settings(
            sizes,
            epsilon,
            slater,
            PROOF_CONSTANT,
            f"Theorem 3 prints a reward within {target}; its proof gives {fourfold}{margins}",
        ),
        proof=_settings(sizes, quarter, slater, PROOF_CONSTANT, f"Theorem 3: reward within {target}{margins}"),
        corollary=_settings(
            sizes,
            half,
            slater,
            PROOF_CONSTANT,
            f"Corollary 2: reward within {target}{small}",
            conservative=False,
        ),
        experiment=_settings(sizes, quarter, slater, EXPERIMENT_CONSTANT, "none: no theorem covers this constant"),
    )


def _settings(
    sizes: Sizes, eps: float, slater: float, constant: float, promise: str, conservative: bool = True
) -> Settings:
    """Of Theorem 2, whose T also keeps kappa within half the Slater constant; with kappa = 0, of Corollary 1."""
    least = max(16.0, 4.0 * slater**2) if conservative else 0.0
    samples = math.ceil(
        max(least, 1.0 / eps**2)
        * constant**2
        * max(sizes.n_constraints, 1)
        * sizes.n_pairs
        * math.log(sizes.n_pairs)
        / ((1.0 - sizes.discount) ** 2 * slater**2)
    )
    samples = max(samples, 1)
    found = formulas(*sizes, slater, samples, constant)
    return Settings(
        constant, samples, found.kappa if conservative else 0.0, found.alpha, found.beta, found.shift, promise
    )


class Bounds(NamedTuple):
    """What the paper proves of expectations over runs of T samples, for any kappa <= phi / 2; scaled units, normalised.

    With eps = `duality_gap`. Theorems 2 and 3 are kappa = 2 phi eps, the corollaries kappa = 0. That alpha and beta are
    the paper's formulas is assumed, and that u and v start in their sets; the constant is that of the proof.
    """

    duality_gap: float  # Theorem 1: at most eps
    flow_residual: float  # Theorem 2 and Corollary 1: at most (1 - gamma) phi eps
    conservative_gap: float  # Lemma 3, of optimal values, no expectation: at most kappa / phi
    occupancy_gap: float  # Theorem 2 and Corollary 1, of <lam*, r> - <lam, r>: at most kappa / phi + eps
    occupancy_margin: float  # the same, of <lam, g_i>: at least kappa - phi eps
    policy_gap: float  # Theorem 3 and Corollary 2: at most kappa / phi + (1 + phi) eps
    policy_margin: float  # the same: at least kappa - 2 phi eps


def proved_bounds(sizes: Sizes, slater: float, samples: int, kappa: float) -> Bounds:
    """The paper's curves at one T."""
    eps = proved_error(sizes.n_pairs, sizes.n_constraints, sizes.discount, slater, samples)
    return Bounds(
        duality_gap=eps,
        flow_residual=(1.0 - sizes.discount) * slater * eps,
        conservative_gap=kappa / slater,
        occupancy_gap=kappa / slater + eps,
        occupancy_margin=kappa - slater * eps,
        policy_gap=kappa / slater + (1.0 + slater) * eps,
        policy_margin=kappa - 2.0 * slater * eps,
    )


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
