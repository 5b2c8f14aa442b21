"""The public questions about learning: run an algorithm, on samples or on a known model; learn with a proof; plan.

The work is done in `inbounds.algorithms`: `loop`, `certified` and `paper_plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from inbounds.algorithms.algorithm import Run
from inbounds.algorithms.certified import CertifiedRun, search
from inbounds.algorithms.loop import run_on_model, run_on_samples
from inbounds.algorithms.paper_plan import PaperPlan, Sizes, plan_for
from inbounds.problem.cmdp import CMDP
from inbounds.problem.simulator import Simulator


def learn(
    simulator: Simulator,
    algorithm: Any,
    *,
    samples: int,
    seed: int | np.random.SeedSequence = 0,
    checkpoints: int | Sequence[int] = 1,
    progress: Callable[[int], None] | None = None,
) -> Run:
    """Run an algorithm on a simulator until it has drawn `samples` samples.

    Never raises for "not converged": judge the policy with `evaluate` when the model is known.

    Parameters
    ----------
    simulator : Simulator
        ``cmdp.simulator()``, or around the user's own step function (which runs the same code interpreted).
    algorithm
        Settings such as ``ib.CSPDA()``.
    samples : int
        The budget: state-action-state transitions. Draws of a start are free.
    seed : int
        The same seed gives the same run, bit for bit.
    checkpoints : int or sequence of int
        How many policies to record at log-spaced sample counts; or those counts themselves. The end is always recorded.
    progress : callable, optional
        Called with the samples drawn so far, about every million.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> run = ib.learn(queue.simulator(), ib.CSPDA.practical(slater=0.2), samples=100_000, seed=0)
    >>> judged = ib.evaluate(queue, run.policy)
    >>> judged.in_bounds, judged.total_reward > 4.5
    (True, True)
    """
    return run_on_samples(simulator, algorithm, samples, seed, checkpoints, progress)


def iterate(
    cmdp: CMDP,
    algorithm: Any,
    *,
    iterations: int = 1_000,
    checkpoints: int | Sequence[int] = 1,
    progress: Callable[[int], None] | None = None,
) -> Run:
    """Run an algorithm on a known model, with exact values in the place of samples.

    For the algorithms whose papers assume that values are known, and for the exact forms of others; ``ib.learn`` runs
    the same settings from samples. ``ib.solve`` is the fast way to the optimum itself.

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
        Called with the iterations made so far.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> run = ib.iterate(queue, ib.OPGPD(), iterations=10_000, checkpoints=[100])
    >>> best = ib.solve(queue).total_reward
    >>> [abs(ib.evaluate(queue, policy).total_reward - best) < 1e-3 for policy in run.policies]
    [False, True]
    """
    return run_on_model(cmdp, algorithm, iterations, checkpoints, progress)


def learn_certified(
    simulator: Simulator,
    *,
    samples: int,
    confidence: float = 0.99,
    seed: int | np.random.SeedSequence = 0,
    learner: Any = "model",
    progress: Callable[[int], None] | None = None,
) -> CertifiedRun:
    """Learn a policy and prove from fresh samples that it is in bounds; return it only with the proof.

    With probability at least `confidence` no policy that is out of bounds is returned, whatever the learner did: every
    candidate is fixed before the samples of its proof are drawn, and the probabilities of a wrong proof, halved from
    attempt to attempt, sum to at most 1 - confidence. `inbounds.algorithms.certified` has the argument in full.

    Parameters
    ----------
    simulator : Simulator
        ``cmdp.simulator()``, or around the user's own step function, whose declared ranges are relied upon.
    samples : int
        The budget for everything, in transitions; what is not needed is not spent. Starts are free.
    confidence : float in (0, 1)
    seed : int
        The same seed gives the same run.
    learner : "model" or settings
        "model": the conservative linear program on the empirical model. Or an algorithm such as
        ``ib.CSPDA.practical()``, whose ``kappa`` is raised after a failed proof by half as much again as it fell short.
    progress : callable, optional
        Called with the samples spent so far, after every attempt.

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
    return search(simulator, samples, confidence, seed, learner, progress)


def plan(problem: CMDP | Simulator | Sizes, *, epsilon: float, slater: float | None = None) -> PaperPlan:
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
    return plan_for(problem, epsilon, slater)
