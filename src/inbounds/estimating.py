"""What a policy is worth, from samples alone: the unbiased estimator of the paper's appendix, and its error.

Bai et al. 2022 (the CSPDA paper), Algorithm 2, "Unbiased estimator for Value Function". It is printed so:

    1  sample s_1 ~ rho, H ~ Geo(1 - gamma)
    2  for each state s_1:
    3      for h = 1..H: take a_h ~ pi(. | s_h), observe s_(h+1) and r(s_h, a_h)
    4      V(s_1) = r(s_1, a_1) + ... + r(s_H, a_H)

**What that computes.** H is independent of the walk and P(H >= h) = gamma^(h-1), so E V(s) = sum_h gamma^(h-1) E r_h: a
sum without discount, up to a horizon that is geometric, has the mean of the discounted sum to infinity. Each entry is
unbiased for the *sum*. As printed it is nevertheless not an estimator of what the paper calls the value:

* line 2 overwrites the start that line 1 drew: nothing is ever estimated from rho. The result is a table of all S
  states, for S / (1 - gamma) transitions on average in the place of 1 / (1 - gamma);
* all S entries share one H, so they are not independent. With a reward of 1 everywhere all of them are the number H,
  and their average over the states is no better than one of them;
* the paper's value (its first equation) carries the factor 1 - gamma, line 4 does not: it is 1 / (1 - gamma) too large;
* "Geo" has to count from 1, as its stated mean 1 / (1 - gamma) implies; counted from 0 the result is gamma times that.

**What is done here.** A walk starts from rho, follows the policy, goes on after each transition with probability gamma,
and yields X = (1 - gamma) times the sum of what it observed: E X is the value, normalised, of the reward and of every
margin at once. The next walk has its own start and its own length. (The reward is counted from the least that the
simulator declares, which takes away the part of the noise that is the random length alone.)

**A budget of transitions.** The budget cuts the last walk, and long walks are the likelier to be
cut. Counting it as if it were whole is right all the same: t steps fall into n given walks with probability
gamma^(t-n) (1 - gamma)^(n-1), whichever of them is long, so the n walks, the cut one included, are exchangeable, and
their mean has the expectation of the first one, cut after t steps. So E[estimate] is the value of the first `samples`
steps, exactly: it is off by at most discount^samples of the range, and nobody who has seen so few steps can do better.
Where that is not little (`Estimate.covered`), the estimate is biased, and its interval is one of those steps alone.

With a finite horizon a walk is an episode of all its H steps, and a value is a sum. A long-run average is not the mean
of anything that ends, so there it is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import stdtrit

from inbounds.arrays import Floats, freeze
from inbounds.errors import InvalidInput
from inbounds.inputs import random_seed, whole_number
from inbounds.numerics.compiled import compiled
from inbounds.numerics.interrupts import holding_handlers
from inbounds.problem.constraint import Constraint
from inbounds.problem.draws import World, draw_episode, fitted
from inbounds.problem.pieces import Pace, attach, generator_of, kept, seconds_or_none
from inbounds.problem.policy import Policy, for_problem
from inbounds.problem.simulator import Simulator
from inbounds.proofs.evidence import Log, new_log
from inbounds.proofs.samples import valid_confidence
from inbounds.proofs.walks import Design, Tally, count_walk, draw_walk, new_tally, plain_design, standard_errors
from inbounds.tables import so_many, text_table, wrapped

_NEGLIGIBLE = 1e-3
"""What may be missing of a discounted sum, unsaid."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """What samples say of a policy's values, in the user's units: estimates, not proofs (`ib.certify` proves).

    Values are discounted averages per step, normalised by (1 - discount), or sums over a finite horizon.

    Attributes
    ----------
    reward : float
    margins : array [K]
    reward_error, margins_error : float, array [K]
        Standard errors; infinite with fewer than two walks.
    reward_interval, margins_interval : array [2], array [K, 2]
        Student's confidence intervals, each with probability `confidence` for itself, not all at once; approximate, as
        they take means of walks for normally distributed, and too narrow with few walks.
    confidence : float
    walks : int
        How many walks (episodes, with a horizon) the estimate is the mean of.
    samples : int
        Transitions drawn; all of them are in the estimate.
    covered : float
        How much of what a value counts is in the mean of such estimates: 1 - discount^samples, and all of it, 1, with
        a horizon. Where a thousandth is missing, the text says so.
    total_reward, total_margins : float, array [K]
        The discounted sums, value / (1 - discount); with a horizon the same as the values.
    status : str
        "done" or "time limit"; or "interrupted", of the ``partial`` of an exception.
    kind : str
        "estimate": the weakest of the kinds of statement that a `Certificate` can make.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> found = ib.estimate(queue.simulator(), ib.Policy.uniform(queue), samples=20_000, seed=0)
    >>> found.kind, found.samples, 9_000 < found.walks < 11_000
    ('estimate', 20000, True)
    """

    kind: ClassVar = "estimate"

    reward: float
    margins: Floats
    reward_error: float
    margins_error: Floats
    reward_interval: Floats
    margins_interval: Floats
    confidence: float
    walks: int
    samples: int
    covered: float
    total_reward: float
    total_margins: Floats
    constraints: tuple[Constraint, ...]
    status: str = "done"

    def __str__(self) -> str:
        names = ("reward", *(constraint.name or "" for constraint in self.constraints))
        columns = zip(
            names,
            (self.reward, *self.margins),
            (self.reward_error, *self.margins_error),
            (self.reward_interval, *self.margins_interval),
            strict=True,
        )
        rows = [
            (name, f"{value:+.6g}", f"{error:.2g}", f"{low:+.6g} to {high:+.6g}")
            for name, value, error, (low, high) in columns
        ]
        table = text_table(("", "estimate", "standard error", f"{self.confidence!r} interval"), rows)
        if 1.0 - self.covered < _NEGLIGIBLE:
            return table
        few = (
            f"{so_many(self.samples, 'sample')} {'has' if self.samples == 1 else 'have'} {100.0 * self.covered:.4g} % "
            "of what a value counts; what would follow is in no estimate, and in no interval: take more samples."
        )
        return f"{table}\n\n{wrapped(few)}"


@holding_handlers()
def estimate(
    simulator: Simulator,
    policy: Policy,
    *,
    samples: int,
    seed: int | np.random.SeedSequence = 0,
    confidence: float = 0.95,
    progress: Callable[[int], None] | None = None,
    time_limit: float | None = None,
) -> Estimate:
    """Reward and margins of a policy from samples: an estimate with its error (Monte Carlo evaluation).

    The paper's Algorithm 2, corrected; `inbounds.estimating` says what was wrong with its printed form. Values are
    discounted averages per step, normalised by (1 - discount), or sums over a finite horizon. With a horizon estimates
    are unbiased. Of a discounted problem they are so for the first `samples` steps: in the mean they are off by up to
    discount^samples of a range, so give a few times 1 / (1 - discount), ten or more for the intervals to hold. This is
    no proof: for bounds that hold whatever the model, at any sample size, see `ib.certify`.

    Parameters
    ----------
    simulator : Simulator
        Of a model (``cmdp.simulator()``), or around your own step function (a generative model).
    policy : Policy
    samples : int
        How many transitions are drawn: exactly so many in a discounted problem, and all are used; with a horizon H, as
        many whole episodes as fit, so give at least H. Draws of a first state are free.
    seed : int
        The same seed gives the same estimate.
    confidence : float in (0, 1)
        Of each interval.
    progress : callable, optional
        Called with the samples drawn so far, about four times a second.
    time_limit : float, optional
        Seconds, after which the estimate from what is drawn by then comes back; ``status`` is then "time limit". Its
        bias is of the order of one walk among all, as the last one was waited for.

    An exception that ends it (Ctrl-C, or an error in your step function) has such an estimate as its ``partial``, from
    the walks that were finished about a quarter of a second before; None, if there was none.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> uniform = ib.Policy.uniform(queue)
    >>> found = ib.estimate(queue.simulator(), uniform, samples=100_000, seed=1)
    >>> exact = ib.evaluate(queue, uniform)
    >>> abs(found.reward - exact.reward) < 4 * found.reward_error < 0.05
    True
    >>> bool(found.margins_interval[0, 0] < exact.margins[0] < found.margins_interval[0, 1])
    True
    """
    if not isinstance(simulator, Simulator):
        raise InvalidInput(f"simulator must be an ib.Simulator, found {type(simulator).__name__}")
    if "average" in simulator.criterion:
        raise InvalidInput(
            f"estimate is for discounted and finite-horizon problems, and this one is average-reward ({simulator!r}): "
            "a long-run average is not the mean of walks that end"
        )
    policy, level = for_problem(simulator, policy), valid_confidence(confidence)
    simulator = simulator.scaled  # whatever learners see: walks count the reward from the least that is declared
    budget, rng = whole_number(samples, "samples"), generator_of(random_seed(seed))
    pace = Pace(seconds_or_none(time_limit), progress)
    tally, wanted, advance = (_episodes if "horizon" in simulator.criterion else _walks)(simulator, policy, budget, rng)
    last = kept(tally), 0

    def keep(drawn: int) -> None:
        nonlocal last
        last = kept(tally), drawn

    def so_far(status: str) -> Estimate:
        return _in_user_units(simulator, *last, level, status)

    try:
        drawn = pace.pieces(advance, keep, 0, wanted)
        return so_far("done" if drawn == wanted else "time limit")
    except BaseException as error:
        attach(error, so_far("interrupted") if last[1] > 0 else None)
        raise


Drawing = tuple[Tally, int, Callable[[int, int], int]]
"""The tally, the samples to draw, and ``advance(drawn, until) -> drawn``, which draws and counts them."""


def _walks(simulator: Simulator, policy: Policy, budget: int, rng: np.random.Generator) -> Drawing:
    world, tally = simulator.open(), new_tally(simulator)
    design, log, run = plain_design(simulator, policy), new_log(simulator, 0), fitted(average_walks, world)

    def advance(drawn: int, until: int) -> int:
        return int(run(design, world, rng, log, tally, drawn, until, budget))

    return tally, budget, advance


def _episodes(simulator: Simulator, policy: Policy, budget: int, rng: np.random.Generator) -> Drawing:
    horizon, world, tally = simulator.layers, simulator.open(), new_tally(simulator)
    if budget < horizon:
        raise InvalidInput(f"samples must be at least {horizon:,}, the steps of one episode, found {budget:,}")
    run = fitted(average_episodes, world)

    def advance(drawn: int, until: int) -> int:
        episodes = max(1, (until - drawn) // horizon)
        run(policy.probabilities.ravel(), world, rng, tally, episodes)
        return drawn + episodes * horizon

    return tally, horizon * (budget // horizon), advance


@compiled
def average_walks(
    design: Design, world: World, rng: np.random.Generator, log: Log, tally: Tally, drawn: int, until: int, budget: int
) -> int:
    """Walks until `until` samples are drawn, never more than `budget`; how many are drawn by then."""
    rows = tally.mean.shape[0]
    totals, guessed = np.empty(rows), np.empty(rows, dtype=np.int64)
    while drawn < until:
        drawn, _ = draw_walk(design, world, rng, log, drawn, budget, totals, guessed)
        count_walk(tally, totals)  # also one that the budget cut: see above
    return drawn


@compiled
def average_episodes(policy: Floats, world: World, rng: np.random.Generator, tally: Tally, episodes: int) -> None:
    """So many episodes of a policy [H * n]."""
    totals = np.empty(tally.mean.shape[0])
    for _ in range(episodes):
        draw_episode(world, policy, rng, totals)
        count_walk(tally, totals)


def _in_user_units(simulator: Simulator, tally: Tally, drawn: int, confidence: float, status: str) -> Estimate:
    scaling, walks = simulator.scaling, int(tally.walks[0])
    units = np.array([scaling.reward_span, *scaling.margin_scales])
    values, errors = units * tally.mean, units * standard_errors(tally)
    values[0] += simulator.layers * scaling.reward_low
    reach = errors
    if walks > 1:
        reach = errors * -stdtrit(walks - 1, 0.5 * (1.0 - confidence))  # the other end would be rounded to 1
    intervals = np.stack([values - reach, values + reach], axis=1)
    steps = 1.0 / (1.0 - simulator.discount) if "discount" in simulator.criterion else 1.0
    return Estimate(
        reward=float(values[0]),
        margins=freeze(values[1:]),
        reward_error=float(errors[0]),
        margins_error=freeze(errors[1:]),
        reward_interval=freeze(intervals[0]),
        margins_interval=freeze(intervals[1:]),
        confidence=confidence,
        walks=walks,
        samples=drawn,
        covered=1.0 - simulator.discount**drawn if "discount" in simulator.criterion else 1.0,
        total_reward=float(steps * values[0]),
        total_margins=freeze(steps * values[1:]),
        constraints=simulator.constraints,
        status=status,
    )
