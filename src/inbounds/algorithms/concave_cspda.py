"""Concave CSPDA: the Conservative Stochastic Primal-Dual Algorithm for concave functions of the occupancy.

Qinbo Bai, Amrit Singh Bedi, Mridul Agarwal, Alec Koppel, Vaneet Aggarwal. "Achieving Zero Constraint Violation for
Concave Utility Constrained Reinforcement Learning via Primal-Dual Approach", Journal of Artificial Intelligence
Research, 2023: the sequel of the paper of `cspda`, whose module introduces the letters.

Problem
-------
Only a generative model is at hand. With concave functions f and h_j of the occupancy lam that the user knows, and the
simulator's own constraints, whose margins g_i are observed pair by pair,

    max f(lam)   subject to   h_j(lam) >= 0,   <lam, g_i> >= 0,   lam an occupancy

Without an f the simulator's reward takes its place; without an f and any h_j this is CSPDA, bit for bit.

Updates
-------
Those of CSPDA, from the values before the step, with the gradients of f and h_j at lam in the place of signals:

    Z   = df(k) + sum_j u_j dh_j(k) + sum_i u_i g_i(k) + gamma v(s') - v(s)
    u_j <- u_j - alpha (h_j(lam) - kappa)            exact: h_j is known, and so is lam
    u_i <- u_i - alpha (lam(k) g_i(k) / zeta(k) - kappa)            from the sample, as in CSPDA
    and u is projected onto { u >= 0, sum u <= 4 / phi }; v and lam as in CSPDA

The output is the policy of the average of lam over the steps. The flow equations hold for that average only in the
limit, so judge f at the occupancy of the policy itself: ``utility.value(ib.evaluate(cmdp, run.policy).occupancy)``.

Units
-----
CSPDA assumes rewards in [0, 1] and margins in [-1, 1]. Inside, f and h_j are divided by their Lipschitz constants, so
that no entry of a gradient is beyond 1, and CSPDA's formulas are used as they are. |Z| <= M still holds. But where a
reward differs by at most 1 between occupancies, f may differ by 2: the best prices may then reach 4 / phi, all of the
set, not half of it. And h_j, unlike a margin, may be beyond [-1, 1] itself. `slater` and `kappa` are about
h_j / lipschitz_j. Prices come back in the user's units: utility gained per unit of bound relaxed;
those of the simulator's constraints only. So do average values, of the gradient of f in the place of the reward.

Guarantee
---------
By its abstract, the paper has zero violation from an order of 1 / eps^2 samples. Neither its text nor its constants
were at hand: the updates above are our derivation from the Lagrangian, and a run with functions claims no guarantee. A
run without has that of CSPDA.

Departures
----------
* A gradient costs O(n), and a call of the user's function. `refresh` says how many samples one look at f and h_j
  serves; 1 is the paper's algorithm. In between, gradients and the values h_j(lam) are those of the last look.
* The theorem's own formulas, with the Lipschitz constants in them, are not known here: after the division above, those
  of CSPDA.
* The Slater constant is estimated only for the simulator's own constraints. With any h_j it must be given.

Practical preset
----------------
`ConcaveCSPDA.practical()`: without functions, that of CSPDA, bit for bit. With a utility, the frame of learners
(`inbounds.algorithms.frame`) around the bare preset of CSPDA, with kappa = 0 and a look every n samples. No theorem
covers it. Margins are linear, and walks test them as they do those of any policy. Of f nothing is claimed: it is known,
and so are, from the walks, the occupancies lam_i of the policies tested. Weights w are chosen for the most sum_i w_i
f(lam_i) among the mixtures that the test shows in bounds; the answer has the occupancy sum_i w_i lam_i, so it is worth
at least that: f(sum_i w_i lam_i) >= sum_i w_i f(lam_i), as f is concave (Jensen).

With `constraints` there is no repair, and `guarantee` says that nothing was shown. What walks estimate without bias is
the mean of a signal; h_j at the time that walks found is off by its curvature besides, of which nothing is known, and
the safest policy would be that of a concave program.

Cost
----
O(log n + K + J) a sample, and O(n) a look with one call of every function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from inbounds.algorithms import checks, cspda, cspda_steps
from inbounds.algorithms.algorithm import Algorithm, Answer, Averages, Prepared, promises_nothing
from inbounds.algorithms.cspda import CSPDA
from inbounds.algorithms.cspda_steps import State
from inbounds.algorithms.cspda_steps import advance as take_steps
from inbounds.algorithms.frame import Frame, Part, next_of_learner
from inbounds.algorithms.frame import State as FrameState
from inbounds.algorithms.kernels import average_values
from inbounds.algorithms.settings import require
from inbounds.algorithms.utility import Utility, checked_gradient, checked_value, require_concave
from inbounds.arrays import Floats, freeze
from inbounds.errors import InvalidInput
from inbounds.problem.draws import World
from inbounds.problem.simulator import Simulator


@dataclass(frozen=True, repr=False, kw_only=True)
class ConcaveCSPDA(CSPDA):
    """Settings of CSPDA for concave functions of the occupancy: these, and those of `CSPDA`. See the module.

    Parameters
    ----------
    utility : Utility, optional
        What to maximise; default: the simulator's reward.
    constraints : sequence of Utility
        Functions of the occupancy that have to be >= 0, beside the simulator's own constraints. With any, `slater` has
        to be given: a margin that some policy keeps in every constraint at once, of each of these functions divided by
        its `lipschitz`, and in scaled units in the simulator's.
    refresh : int or "pairs"
        Samples between two looks at the functions. 1 is the paper's algorithm; "pairs": as many as there are pairs.

    Examples
    --------
    The queue that spends its time as evenly as possible, within its bounds:

    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> entropy = ib.state_entropy(queue)
    >>> settings = ib.ConcaveCSPDA.practical(utility=entropy)
    >>> settings.utility, settings.refresh
    (Utility('state entropy'), 'pairs')
    >>> run = ib.learn(queue.simulator(), settings, samples=200_000, seed=0)
    >>> judged = ib.evaluate(queue, run.policy)
    >>> judged.in_bounds, "shown by a test" in run.guarantee
    (True, True)
    >>> entropy.value(judged.occupancy) > 1.77  # log 6 = 1.7918 is the most without bounds
    True
    """

    utility: Utility | None = field(
        default=None, metadata=checks.check(lambda value: isinstance(value, Utility), "an ib.Utility")
    )
    constraints: tuple[Utility, ...] = ()
    refresh: int | str = field(default=1, metadata=checks.WHOLE_OR_PAIRS)

    preset: ClassVar = dict(CSPDA.preset, refresh="pairs")

    @classmethod
    def practical(cls, **changes: Any) -> Self:
        """The preset that the module describes; `changes` replace any of its settings."""
        given = changes.get("constraints")
        some = isinstance(given, tuple | list) and len(given) > 0  # anything else is refused below, by its name
        return super().practical(**{"repair": not some, **changes})

    def __post_init__(self) -> None:
        listed = isinstance(self.constraints, tuple | list) and all(isinstance(f, Utility) for f in self.constraints)
        require(listed, self, "constraints", "a list of ib.Utility")
        object.__setattr__(self, "constraints", tuple(self.constraints))
        super().__post_init__()
        what = "False with constraints: walks test no function that is not linear in the occupancy"
        require(not (self.repair and self.constraints), self, "repair", what)
        if self.constraints and self.slater is None:
            raise InvalidInput(
                "ConcaveCSPDA: slater must be given with constraints; it is estimated for the simulator's own only"
            )

    @property
    def following(self) -> Callable[[Frame, FrameState, np.random.Generator], Part]:
        return next_of_curved if self.utility is not None or self.constraints else super().following

    @property
    def worth(self) -> Callable[[Floats], float] | None:
        utility = self.utility
        return None if utility is None else lambda occupancy: checked_value(utility, occupancy) / utility.lipschitz


def next_of_curved(frame: Frame, state: FrameState, rng: np.random.Generator) -> Part:
    """As of any learner, without the kappa that a formula sets: the test finds what it takes."""
    return next_of_learner(frame._replace(settings=replace(frame.settings, kappa=frame.kappa)), state, rng)


class Constants(NamedTuple):
    cspda: cspda_steps.Constants
    utility: Utility | None
    constraints: tuple[Utility, ...]
    refresh: int


def prepare(settings: ConcaveCSPDA, simulator: Simulator, samples: int, pilot: Any) -> Prepared:
    utility, constraints = settings.utility, settings.constraints
    for function in constraints if utility is None else (utility, *constraints):
        require_concave(function, simulator.pairs.n_pairs)
    begun = cspda.prepare(settings, simulator, samples, pilot, len(constraints), utility is not None)
    refresh = simulator.pairs.n_pairs if settings.refresh == "pairs" else int(settings.refresh)
    curved = utility is not None or len(constraints) > 0
    resolved: dict[str, float | str] = {"utility": "reward" if utility is None else utility.name, "refresh": refresh}
    if constraints:
        resolved["constraints"] = ", ".join(function.name for function in constraints)
    guarantee = "none: the constants of the theorem for concave functions are not known here"
    if not curved:
        guarantee = begun.guarantee
    if promises_nothing(guarantee) and simulator.n_constraints + len(constraints) > 0:
        guarantee += "; in bounds not shown, as no walks test it"
    return begun._replace(
        constants=Constants(begun.constants, utility, constraints, refresh),
        settings={**begun.settings, **resolved},
        guarantee=guarantee,
    )


def advance(state: State, constants: Constants, world: World, rng: np.random.Generator, drawn: int, until: int) -> int:
    """CSPDA's steps, from `drawn` to `until` samples, and a look at the functions every `refresh` of them."""
    while drawn < until:
        stop = until
        if state.slopes.shape[1] > 0:
            since = int(state.steps[0]) % constants.refresh
            if since == 0:
                take_slopes(state, constants)
            stop = min(until, drawn + constants.refresh - since)
        drawn = take_steps(state, constants.cspda, world, rng, drawn, stop)
    return drawn


def take_slopes(state: State, constants: Constants) -> None:
    """The functions at the lam of now: their gradients and, of the constraints, their values; in scaled units."""
    weights = state.tree[: len(state.pair_sums)]
    occupancy = freeze(weights / weights.sum())
    for j, function in enumerate(constants.constraints):
        state.slopes[:, j] = checked_gradient(function, occupancy) / function.lipschitz
        state.heights[j] = checked_value(function, occupancy) / function.lipschitz
    if constants.utility is not None:
        gradient = checked_gradient(constants.utility, occupancy)
        state.slopes[:, len(constants.constraints)] = gradient / constants.utility.lipschitz


def extract(state: State, constants: Constants, simulator: Simulator) -> Answer:
    policy, prices, averages, _ = cspda_steps.extract(state, constants.cspda, simulator)
    prices, values = prices[: simulator.n_constraints], average_values(state)
    if constants.utility is not None:
        # The loop turns scaled reward into the user's: a utility was divided by its Lipschitz constant instead.
        unit = constants.utility.lipschitz / simulator.scaling.reward_span
        low = simulator.scaling.reward_low / simulator.scaling.reward_span / (1.0 - simulator.discount)
        prices, values = prices * unit, values * unit - low
    return Answer(policy, prices, Averages(averages.occupancy, prices, values))


ConcaveCSPDA.algorithm = Algorithm(
    name="Concave CSPDA",
    paper="Bai, Bedi, Agarwal, Koppel, Aggarwal (JAIR 2023)",
    setting="discounted, generative model, concave utility",
    needs="Slater, Lipschitz constants",
    output="average occupancy",
    sample_complexity="1 / ε^2",
    violation="zero",
    constants="derived here",
    prepare=prepare,
    piloted=True,
    advance=advance,
    extract=extract,
)
