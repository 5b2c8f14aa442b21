"""The public questions about learning: run an algorithm, on samples or on a known model; learn with a proof; plan.

Arguments are checked here. The work is done in `inbounds.algorithms`: by `loop`, `certified` and `paper_plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from inbounds.algorithms.algorithm import Algorithm, Run, record_of
from inbounds.algorithms.certified import CertifiedRun, search
from inbounds.algorithms.converted_plan import ConvertedPlan, converted_plan
from inbounds.algorithms.loop import run_on_model, run_on_samples
from inbounds.algorithms.paper_plan import PaperPlan, Sizes, paper_plan, slater_for_theorem
from inbounds.errors import InvalidInput
from inbounds.inputs import finite_or_nan, random_seed, shown, switch, whole_number
from inbounds.numerics.interrupts import holding_handlers
from inbounds.problem.cmdp import CMDP, require_model
from inbounds.problem.criterion import require_criterion, valid_discount
from inbounds.problem.pieces import seconds_or_none
from inbounds.problem.simulator import Simulator
from inbounds.proofs.samples import valid_confidence


@holding_handlers()
def learn(
    simulator: Simulator,
    algorithm: Any,
    *,
    samples: int,
    seed: int | np.random.SeedSequence = 0,
    checkpoints: int | Sequence[int] = 1,
    progress: Callable[[int], None] | None = None,
    time_limit: float | None = None,
    resume: Run | None = None,
) -> Run:
    """Run an algorithm on a simulator (a generative model) until it has drawn `samples` samples.

    Never raises for "not converged": judge the policy with `evaluate` when the model is known. Every algorithm says
    which criterion it is for, and refuses the others (of discounted averages, sums over a finite horizon, and long-run
    averages per step); those for a finite horizon run on discounted problems too, which they truncate.

    Parameters
    ----------
    simulator : Simulator
        ``cmdp.simulator()``, or around the user's own step function (which runs the same code interpreted). With
        ``scale=False`` the algorithm sees the user's own units.
    algorithm
        Settings such as ``ib.CSPDA()``.
    samples : int
        The budget: state-action-state transitions. Draws of a start are free.
    seed : int
        The same seed gives the same run, bit for bit.
    checkpoints : int or sequence of int
        How many policies to record at log-spaced sample counts; or those counts themselves. The end is always recorded.
    progress : callable, optional
        Called with the samples drawn so far, about four times a second.
    time_limit : float, optional
        Seconds, after which the run so far comes back; ``run.status`` is then "time limit".
    resume : Run, optional
        Go on from a run that ran out of time, or from the ``error.partial`` of an exception that broke one off (Ctrl-C,
        an error in a step function), with the same arguments: it ends with the bits of an unbroken run. None, also as
        a `partial`, starts from the beginning. What was drawn since the last copy is drawn again, and a step function
        with a memory of its own has to bear that. A learner of episodes goes on between two of them, with a start: so a
        simulator that cannot be set to a state, only begin anew or go on, serves it still.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> run = ib.learn(queue.simulator(), ib.CSPDA.practical(), samples=100_000, seed=0)
    >>> judged = ib.evaluate(queue, run.policy)
    >>> judged.in_bounds, judged.total_reward > 4.58
    (True, True)
    """
    record_of(algorithm)
    require_simulator(simulator)
    budget = whole_number(samples, "samples")
    limit = seconds_or_none(time_limit)
    return run_on_samples(simulator, algorithm, budget, random_seed(seed), checkpoints, progress, limit, resume)


@holding_handlers()
def iterate(
    cmdp: CMDP,
    algorithm: Any,
    *,
    iterations: int = 1_000,
    checkpoints: int | Sequence[int] = 1,
    progress: Callable[[int], None] | None = None,
    time_limit: float | None = None,
    resume: Run | None = None,
) -> Run:
    """Run an algorithm on a known model, with exact values in the place of samples.

    For the algorithms whose papers assume that values are known, and for the exact forms of others; ``ib.learn`` runs
    the same settings from samples. ``ib.solve`` is the fast way to the optimum itself. Discounted problems only: values
    are normalised by (1 - discount), and ``run.prices`` are Lagrange multipliers (dual variables) in the user's units.

    Parameters
    ----------
    cmdp : CMDP
    algorithm
        Settings such as ``ib.OPGPD()``.
    iterations : int
        How many to make. There is no randomness.
    checkpoints : int or sequence of int
        How many policies to record at log-spaced numbers of iterations; or those numbers themselves.
    progress : callable, optional
        Called with the iterations made so far, about four times a second.
    time_limit : float, optional
        Seconds, after which the run so far comes back; ``run.status`` is then "time limit".
    resume : Run, optional
        Go on from a run that ran out of time, or from the ``error.partial`` of an exception that broke one off (Ctrl-C,
        an error in a step function), with the same arguments: it ends with the bits of an unbroken run. None, also as
        a `partial`, starts from the beginning.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> run = ib.iterate(queue, ib.OPGPD(), iterations=10_000, checkpoints=[100])
    >>> best = ib.solve(queue).total_reward
    >>> [abs(ib.evaluate(queue, policy).total_reward - best) < 1e-3 for policy in run.policies]
    [False, True]
    """
    record = record_of(algorithm)
    if record.known is None:
        raise InvalidInput(f"{record.name} learns from samples: ib.learn(cmdp.simulator(), ...)")
    require_model(cmdp, "iterate")
    number = whole_number(iterations, "iterations")
    return run_on_model(cmdp, algorithm, number, checkpoints, progress, seconds_or_none(time_limit), resume)


@holding_handlers()
def learn_certified(
    simulator: Simulator,
    *,
    samples: int,
    confidence: float = 0.99,
    seed: int | np.random.SeedSequence = 0,
    learner: Any = "model",
    progress: Callable[[int], None] | None = None,
    time_limit: float | None = None,
    resume: CertifiedRun | None = None,
    mixture: bool = False,
) -> CertifiedRun:
    """Learn a policy and prove from fresh samples that it is in bounds; return it only with the proof.

    With probability at least `confidence` no policy that is out of bounds is returned, whatever the learner did: every
    candidate is fixed before the samples of its proof are drawn, and the attempts share one bankroll of 1 - confidence.
    Each proof is a confidence sequence: it may be looked at as often as one likes. `inbounds.algorithms.certified` has
    the theorem and its proof. Discounted problems only: values are
    normalised by (1 - discount).

    Parameters
    ----------
    simulator : Simulator
        ``cmdp.simulator()``, or around the user's own step function, whose declared ranges are relied upon.
    samples : int
        The budget for everything, in transitions. Several policies are proved at once, and all samples go to the
        bolder ones as long as there is hope for them. Starts are free, and 100,000 or more of them are drawn.
    confidence : float in (0, 1)
    seed : int
        The same seed gives the same run.
    learner : "model" or settings
        "model": the boldest policy of the empirical model with as much margin as a proof needs. Or an algorithm such as
        ``ib.CSPDA.practical()``, whose setting ``kappa``, if it has one, is raised after a failed proof by half as
        much again as it fell short, up to 1: a margin that practical presets then ask of their tests, and the others of
        their own steps.
    progress : callable, optional
        Called with the samples spent so far, about four times a second.
    time_limit : float, optional
        Seconds, after which what is known so far comes back; ``run.status`` is then "time limit".
    resume : CertifiedRun, optional
        Go on from a run that ran out of time, or from the ``error.partial`` of an exception that broke one off, with
        the same arguments: it ends with the bits of an unbroken run.
    mixture : bool
        Return an `ib.Mixture` instead of a policy: of a bold policy and a safe one, of which one is drawn at the start
        of an episode. The proof finds how little of the safe one will do. Where a single policy is proved to be as
        good, it is that policy.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> run = ib.learn_certified(queue.simulator(), samples=100_000, confidence=0.99, seed=0)
    >>> run.certificate.in_bounds, run.certificate.confidence, run.samples <= 100_000
    (True, 0.99, True)
    >>> ib.evaluate(queue, run.policy).in_bounds
    True
    """
    require_simulator(simulator)
    instead = "ib.learn with ib.OptCMDP.practical() learns those, without a proof"
    require_criterion(simulator, "discounted", "learn_certified", instead)
    by_model = isinstance(learner, str) and learner == "model"
    if not by_model and not isinstance(getattr(learner, "algorithm", None), Algorithm):
        raise InvalidInput(f'learner must be "model", or settings such as ib.CSPDA.practical(), found {learner!r}')
    if switch(mixture, "mixture") and not by_model:
        raise InvalidInput('mixture=True plans on the empirical model: leave learner="model" as it is, or mixture out')
    confidence, budget = valid_confidence(confidence), whole_number(samples, "samples")
    seed, limit, learner = random_seed(seed), seconds_or_none(time_limit), None if by_model else learner
    return search(simulator, budget, confidence, seed, learner, progress, limit, resume, mixture)


@overload
def plan(problem: CMDP | Simulator | Sizes, *, epsilon: float, slater: float | None = None) -> PaperPlan: ...


@overload
def plan(problem: CMDP | Simulator | Sizes, *, epsilon: float, algorithm: str) -> ConvertedPlan: ...


def plan(
    problem: CMDP | Simulator | Sizes, *, epsilon: float, slater: float | None = None, algorithm: str | None = None
) -> PaperPlan | ConvertedPlan:
    """The paper's T, kappa, alpha, beta and M for a target accuracy, and what its constants really cost.

    Four readings, each with the constant that it needs and what it promises: the theorem's `statement`, whose proof
    gives a reward within 4 eps where it says eps; that `proof`, with ``eps = epsilon / 4``, so that the target is what
    you get; the `corollary` for kappa = 0; and the constant of the paper's `experiment`, which promises nothing.
    Discounted problems only.

    With `algorithm` instead: what the own bound of an algorithm of Table 1, such as a regret, comes to in samples, by
    the conversions of the paper's appendix; for problems with a horizon too, if the algorithm has episodes. PDSC's
    paper counts no samples, and its plan has iterations in their place.

    Parameters
    ----------
    problem : CMDP, Simulator, or Sizes
    epsilon : float in (0, 1)
        Reward within epsilon of the optimum, in scaled units (the range of the reward is 1), normalised by (1 -
        discount); over a horizon H, where values are sums, within epsilon H.
    slater : float in (0, 1], optional
        The Slater constant (of Slater's condition) in scaled units. For a `CMDP` it is computed when it is not given.
    algorithm : str, optional
        A name from ``inbounds algorithms`` that has a row in Table 1.

    Examples
    --------
    >>> import inbounds as ib
    >>> p = ib.plan(ib.zoo.queue(), epsilon=0.1)
    >>> p.experiment.samples, f"{p.proof.samples:.2e}", f"{p.corollary.samples:.2e}"
    (56087, '2.00e+14', '5.01e+13')
    >>> p.corollary.promise
    'Corollary 2: reward within 0.1, and margins >= -0.02'
    >>> print(ib.plan(ib.zoo.media(), epsilon=0.1, algorithm="conrl"))
    step                      order, O~
    ------------------------  ---------------------
    regret                    S A^0.5 H^2.5 K^0.5
    mixture of the policies   S A^0.5 H^2.5 / K^0.5
    at most ε                 S^2 A H^5 / ε^2
    H samples an episode      S^2 A H^6 / ε^2
    δ = ε(1-γ), for the mean  S^2 A H^6 / ε^2
    At this size: of the order of 2.0e+08 samples, but for a probability of 0.1; then the mean is within 0.19.
    Table 1 prints S^2 A / ((1-γ)^6 ε^2) (S, ε of sums or SH, ε normalised).
    """
    if not 0.0 < (share := finite_or_nan(epsilon)) < 1.0:
        raise InvalidInput(f"epsilon must be a number in (0, 1), in scaled units, found {shown(epsilon)}")
    epsilon = share
    if algorithm is not None:
        if slater is not None:
            raise InvalidInput("slater= is for the plan of CSPDA: the orders of other algorithms leave it out")
        return _converted(problem, algorithm, epsilon)
    if isinstance(problem, CMDP | Simulator):
        require_criterion(problem, "discounted", "plan")
    if isinstance(problem, CMDP):
        sizes = Sizes(problem.n_states, problem.n_pairs, problem.n_constraints, problem.discount)
        if slater is None:
            slater = slater_for_theorem(problem)
    elif isinstance(problem, Simulator):
        sizes = Sizes(problem.pairs.n_states, problem.pairs.n_pairs, problem.n_constraints, problem.discount)
    else:
        sizes = _valid_sizes(problem)
    if slater is None:
        raise InvalidInput("give slater=, the Slater constant in scaled units; only for a CMDP can it be computed")
    if not 0.0 < (margin := finite_or_nan(slater)) <= 1.0:
        raise InvalidInput(f"slater must be a number in (0, 1], in scaled units, found {shown(slater)}")
    slater = margin
    try:
        return paper_plan(sizes, epsilon, slater)
    except (ZeroDivisionError, OverflowError) as error:
        raise InvalidInput(
            f"no number says how many samples epsilon = {epsilon!r} takes with slater = {slater!r}: give larger ones"
        ) from error


def _converted(problem: CMDP | Simulator | Sizes, algorithm: str, epsilon: float) -> ConvertedPlan:
    if not isinstance(problem, CMDP | Simulator):
        sizes = _valid_sizes(problem)
        return converted_plan(algorithm, sizes.n_states, sizes.n_pairs, 1.0 / (1.0 - sizes.discount), False, epsilon)
    stages = "horizon" in problem.criterion
    if not stages:
        require_criterion(problem, "discounted", "plan")
    length = problem.layers if stages else 1.0 / (1.0 - problem.discount)
    return converted_plan(algorithm, problem.pairs.n_states, problem.pairs.n_pairs, length, stages, epsilon)


def require_simulator(simulator: Any) -> None:
    """Refuse whatever else is given to a learner, above all the model."""
    if not isinstance(simulator, Simulator):
        raise InvalidInput(
            f"learners see a simulator only: give cmdp.simulator() or ib.Simulator(...), "
            f"found {type(simulator).__name__}"
        )


def _valid_sizes(sizes: Any) -> Sizes:
    if not isinstance(sizes, tuple | list) or len(sizes) != len(Sizes._fields):
        raise InvalidInput(
            "the problem of a plan must be a CMDP, a Simulator, or Sizes(n_states, n_pairs, n_constraints, discount), "
            f"found {shown(sizes)}"
        )
    n_states = whole_number(sizes[0], "the sizes of a plan: n_states")
    return Sizes(
        n_states,
        whole_number(sizes[1], "the sizes of a plan: n_pairs, of which every state has one,", least=n_states),
        whole_number(sizes[2], "the sizes of a plan: n_constraints", least=0),
        valid_discount(sizes[3]),
    )
