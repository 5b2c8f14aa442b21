"""CSPDA: the Conservative Stochastic Primal-Dual Algorithm.

Qinbo Bai, Amrit Singh Bedi, Mridul Agarwal, Alec Koppel, Vaneet Aggarwal. "Achieving Zero Constraint Violation for
Constrained Reinforcement Learning via Primal-Dual Approach", AAAI 2022. Algorithm 1.

Problem
-------
Only a generative model is at hand: any pair can be asked for a next state. In scaled units (reward r in [0, 1],
margins g_i in [-1, 1]), with an occupancy lam over the n pairs, prices u >= 0 of the K constraints and a value v of
each state, solve

    max over lam, min over u and v of
    L = <lam, r> + sum_i u_i (<lam, g_i> - kappa) + (1 - gamma) <rho, v> + sum_{s,a} lam(s,a) (gamma E v(s') - v(s))

with every constraint tightened by kappa > 0, so that the error of learning does not end on the wrong side of the bound.

Updates
-------
From lam uniform, u = 0, v = 0, one sample a step, all three from the values before the step:

    k = (s, a) ~ zeta = (1 - delta) lam + delta / n,   s0 ~ rho,   s' ~ P(. | s, a)
    Z = r(k) + gamma v(s') - v(s) + sum_i u_i g_i(k),  w = lam(k) / zeta(k)
    u_i    <- project( u_i - alpha (w g_i(k) - kappa) )        onto { u >= 0, sum u <= 4 / phi }
    v      <- clip( v - alpha ((1 - gamma) e(s0) + w (gamma e(s') - e(s))) )   to |v| <= 2 (1 + 2 / phi) / (1 - gamma)
    lam(k) <- lam(k) exp( beta (Z - M) / zeta(k) ), then normalise

The output is the policy of the average of lam over the steps: an average of occupancies, not a last iterate. The
averages of lam, u and v, which are all that the paper's Algorithm 1 returns, are in ``run.averages``.

Names
-----
    code                paper           code                paper
    slater              phi             exploration         delta
    shift               M               constant            c~_1
    alpha, beta, kappa  the same        price_radius        4 / phi
    weights             lam, unnormalised                   value_radius  radius of V

Guarantee
---------
With T >= max(16, 4 phi^2, 1 / eps^2) c~_1^2 K n log n / ((1 - gamma)^2 phi^2) samples, and the formulas below:
expected reward within 4 eps of the optimum and expected margins >= 0 (scaled units, normalised by (1 - gamma)). It is
a statement about the mean over runs: a single run may be out of bounds. The proof needs c~_1 = 1195.5; with more, kappa
grows, and a run states kappa / phi + 2 eps with the eps of 1195.5. The paper's experiment uses 0.02, which no theorem
covers. With kappa = 0, and T >= c~_1^2 K n log n / ((1 - gamma)^2 phi^2 eps^2):
within 2 eps, and >= -2 eps phi; c~_1 is then in no setting, only in this eps. What holds of the averages themselves,
and for which kappa, is in docs/theorems.md.

Departures from the paper's text, each an error or a gap in it
--------------------------------------------------------------
* The set of prices is printed without u >= 0, which the proof needs; we project onto { u >= 0, sum u <= 4 / phi }.
* The theorem's "<= eps" is "<= 4 eps" by its own proof.
* Starting u and v, delta, and the action set at the paper's full buffer are not given: zeros, 0.1, and see `zoo.queue`.
* Exploration must cover the support of lam, not the other way round as printed; it does, since delta > 0.
* The sampled gradient in lam has mean (gradient - M), not the gradient: the constant M cancels only in expectation.
  With samples it pushes every pair that is drawn down, however small the rewards are beside it, which is why the
  experiment comes out as the paper says with its costs as printed, and not with costs scaled (docs/reproduction.md).

Practical preset
----------------
`CSPDA.practical()`: no Slater constant, no tuning, and no theorem: a pilot, two stages whose steps find their own
scale, and the best mixture of what was tested by walks. `cspda_stages` has it, and says what it is worth.

`CSPDA.practical(repair=False)`: the bare method. M is a running mean, the average starts half way, alpha is multiplied
by 0.03 and beta by 100, at most 1 / n. It holds on the queue and little else.

Cost
----
O(log n + K) a step: `cspda_steps` has the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Algorithm, Prepared
from inbounds.algorithms.cspda_stages import next_part
from inbounds.algorithms.cspda_steps import Constants, advance, extract, new_state
from inbounds.algorithms.empirical import slater_from_pilot
from inbounds.algorithms.frame import Frame, Part, RepairSettings
from inbounds.algorithms.frame import State as FrameState
from inbounds.algorithms.kernels import tree_levels
from inbounds.algorithms.settings import Formulas, StepSettings, guarantee_unless, stated
from inbounds.errors import InvalidInput
from inbounds.problem.simulator import Simulator

PROOF_CONSTANT = 1195.5
"""The least c~_1 that the paper's proof allows: 1 + 1024 + 104 + 18.5 + 48, from five of its six terms; one is zero."""

EXPERIMENT_CONSTANT = 0.02
"""The c~_1 of the paper's experiment."""


@dataclass(frozen=True, repr=False)
class CSPDA(StepSettings, RepairSettings):
    """Settings of CSPDA; the defaults are the paper's formulas. See the module for the algorithm.

    Parameters
    ----------
    slater : float in (0, 1], optional
        The Slater constant phi in scaled units: a margin that some policy keeps in every constraint at once. When it
        is not given, a tenth of the samples (they count), but at most 10,000 of every pair, is drawn evenly over the
        pairs, and half the Slater constant of the empirical model is taken, at least 0.01. The practical preset does
        not need it: there half of it, instead of half the pilot's, is the most that the second stage is tightened by.
    kappa : float, optional
        How much every constraint is tightened, in scaled units. Default: the paper's formula; 0 is its Corollary. In
        the practical preset, whose tests find what it takes to be in bounds: a margin to keep beyond that, 0 by
        default; stages and the mixture are asked for it.
    alpha, beta : float, optional
        Step sizes of prices and values, and of the occupancy. Default: the paper's formulas.
    exploration : float in (0, 1/2)
        The paper's delta.
    constant : float
        The paper's c~_1, which sets kappa. Its experiment uses 0.02; its proof needs 1195.5.

    Examples
    --------
    >>> import inbounds as ib
    >>> ib.CSPDA(slater=0.2, kappa=0.0)
    CSPDA(slater=0.2, kappa=0.0)
    >>> queue = ib.zoo.queue()
    >>> run = ib.learn(queue.simulator(), ib.CSPDA.practical(), samples=100_000, seed=0)
    >>> judged = ib.evaluate(queue, run.policy)
    >>> judged.in_bounds, judged.total_reward > 4.58, "shown by a test" in run.guarantee
    (True, True, True)
    """

    slater: float | None = field(default=None, metadata=checks.SHARE)
    kappa: float | None = field(default=None, metadata=checks.TIGHTENING)
    exploration: float = field(default=0.1, metadata=checks.a_number("in (0, 1/2)", lambda value: 0.0 < value < 0.5))
    constant: float = field(default=EXPERIMENT_CONSTANT, metadata=checks.POSITIVE, kw_only=True)

    preset: ClassVar = dict(
        shift="baseline", average="second half", alpha_multiplier=0.03, beta_multiplier=100.0, repair=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for each in fields(self) if self.repair and self.following is next_part else ():
            heeded = each.name in ("slater", "kappa", "repair")
            if not heeded and getattr(self, each.name) not in (each.default, self.preset.get(each.name, each.default)):
                raise InvalidInput(
                    f"{type(self).__name__}: {each.name} is a setting of the bare method; give repair=False with it, "
                    f"or leave it out: the steps of the preset find their own scale"
                )

    @property
    def following(self) -> Callable[[Frame, FrameState, np.random.Generator], Part]:
        return next_part


def formulas(
    n_states: int,
    n_pairs: int,
    n_constraints: int,
    discount: float,
    slater: float,
    steps: int,
    constant: float,
) -> Formulas:
    """Theorem 2's settings. Without constraints, those of one constraint that is never active, and kappa = 0."""
    horizon = 1.0 / (1.0 - discount)
    log_n = math.log(n_pairs)
    return Formulas(
        alpha=math.sqrt(n_states / (steps * max(n_constraints, 1))) * horizon / slater,
        beta=slater / horizon * math.sqrt(log_n / (steps * n_pairs)),
        shift=4.0 * (1.0 / slater + horizon + 2.0 * horizon / slater),
        kappa=2.0 * constant * horizon * math.sqrt(n_constraints * n_pairs * log_n / steps),
    )


def price_radius(slater: float) -> float:
    """Of the set U: prices are >= 0 and sum to at most so much, twice the most that the best ones can."""
    return 4.0 / slater


def value_radius(slater: float, discount: float) -> float:
    """Of the set V: the absolute value of a state is at most so much, twice the most that the best ones can."""
    return 2.0 * (1.0 + 2.0 / slater) / (1.0 - discount)


def proved_error(n_pairs: int, n_constraints: int, discount: float, slater: float, steps: int) -> float:
    """The eps that the paper's proof buys with so many steps; its Theorem 1 bounds the duality gap by it."""
    rate = math.sqrt(max(n_constraints, 1) * n_pairs * math.log(n_pairs) / steps)
    return PROOF_CONSTANT * rate / ((1.0 - discount) * slater)


def prepare(
    settings: CSPDA,
    simulator: Simulator,
    samples: int,
    pilot: Any,
    n_further: int = 0,
    with_utility: bool = False,
) -> Prepared:
    """As in `Algorithm`, with room for `n_further` functions of lam >= 0, and for a utility in the reward's place."""
    pairs, discount, n_constraints = simulator.pairs, simulator.discount, simulator.n_constraints + n_further
    slater, drawn = slater_from_pilot(settings, simulator, pilot)
    steps = samples - drawn
    paper = formulas(pairs.n_states, pairs.n_pairs, n_constraints, discount, slater, steps, settings.constant)
    kappa = float(paper.kappa if settings.kappa is None else settings.kappa)
    constants = Constants(
        steps=settings.steps(paper, pairs.n_pairs, steps),
        discount=float(discount),
        kappa=np.full(n_constraints, kappa),
        price_radius=price_radius(slater),
        value_radius=value_radius(slater, discount),
        levels=tree_levels(pairs.n_pairs),
        horizon=0,
        prices=np.zeros(n_constraints),
        values=np.zeros(pairs.n_states),
    )
    state = new_state(constants, pairs.n_pairs, n_further, with_utility)
    shown = {"slater": slater, "kappa": kappa} | settings.shown(constants.steps)
    error = proved_error(pairs.n_pairs, n_constraints, discount, slater, steps)
    free = n_constraints == 0
    guarantee = _guarantee(settings, slater, drawn > 0, 0.0 if free else kappa, error, free)
    return Prepared(state, constants, drawn, shown, guarantee)


def _guarantee(settings: CSPDA, slater: float, estimated: bool, kappa: float, error: float, free: bool) -> str:
    """With kappa = 0 the paper's constant is in no setting: only in what is proved, its corollary.

    The gap is at most kappa / phi + (1 + phi) eps for any kappa up to phi / 2, with eps at the proof's constant, and
    phi is at most 1: 2 eps without kappa, 4 eps with that of this constant, and more with a larger one.
    """
    constant, plain = settings.constant, kappa == 0.0
    own = {name: getattr(settings, name) for name in ("slater", "constant", "exploration")}
    if plain:
        own["kappa"] = settings.kappa
    reward = f"the expected reward is within {stated(kappa / slater + 2.0 * error)} of the optimum"
    below = 2.0 * error * (1.0 if free else slater) if plain else 0.0
    empty = "; at so few samples that says nothing" if below >= 1.0 else ""
    margins = "" if free else f"the expected margins are >= {stated(-below, at_least=True)} and "
    right = "" if free else ", if the Slater constant is right"
    why = ": too few samples" if settings.kappa is None else ""
    return guarantee_unless(
        {
            "settings that differ from the paper's formulas": settings != type(settings)(**own),
            f"constant {constant:g} where the proof needs {PROOF_CONSTANT:g}": constant < PROOF_CONSTANT and not plain,
            "an estimated Slater constant": estimated,
            f"kappa {kappa:.3g} above half the Slater constant, {slater / 2.0:.3g}{why}": kappa > slater / 2.0,
        },
        f"the paper's {'Corollary 2' if plain else 'Theorem 3'}: over runs, {margins}{reward} (scaled units){right}"
        f"{empty}",
    )


CSPDA.algorithm = Algorithm(
    name="CSPDA",
    paper="Bai, Bedi, Agarwal, Koppel, Aggarwal (AAAI 2022)",
    setting="discounted, generative model",
    needs="Slater constant",
    output="average occupancy",
    sample_complexity="SA / ((1-γ)^4 ε^2)",
    violation="zero",
    constants="paper (Theorems 1 and 2)",
    prepare=prepare,
    advance=advance,
    extract=extract,
    piloted=True,
)
