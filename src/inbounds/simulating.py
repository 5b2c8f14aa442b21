"""What a policy does, step by step: trajectories to look at, and what they come to.

Of a policy on a known model `ib.evaluate` gives the values themselves, and of one on a simulator `ib.estimate` the best
estimate for a number of samples. This is for seeing: which states, which actions, what was paid, run by run.

A discounted sum has no end, and a run has. What is left after T steps, the weight discount^T times the value from
there on, is not left out, which would put every mean off by the same amount however many runs there are: the run goes
on, ends after each step with probability 1 - discount, and what its last step shows stands for all that is left. Let G
be the number of steps before that one. Then P(G = g) = (1 - discount) discount^g, so that

    E[reward at T + G]  =  (1 - discount) sum over g of discount^g E[reward at T + g]

is the value from there on: the mean over runs is that of the whole sum, without a bias.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from inbounds.arrays import Floats, Ints, freeze
from inbounds.errors import InvalidInput
from inbounds.formats.labels import label_columns
from inbounds.frames import frame
from inbounds.inputs import callback, random_seed, whole_number
from inbounds.numerics.compiled import compiled
from inbounds.numerics.interrupts import holding_handlers
from inbounds.problem.cmdp import CMDP
from inbounds.problem.draws import draw_ends, draw_next, draw_pair, draw_start, fitted, observed
from inbounds.problem.pairs import Pairs
from inbounds.problem.pieces import Pace, attach, generator_of, seconds_or_none
from inbounds.problem.policy import Policy, for_problem
from inbounds.problem.simulator import Simulator
from inbounds.tables import as_given, escaped, html_card, html_table, so_many, text_table, wrapped

_NEGLIGIBLE = 1e-3
"""What is left of a discounted sum after the steps that are kept when the user names no number."""

_CONFIDENCE = 0.95

_DIFFERENT = 10
"""Runs that must differ from what most of them come to, before their spread says much about how rare that is."""


@dataclass(frozen=True, eq=False, repr=False)
class Trajectories:
    """Runs of a policy. As text, what they come to.

    Attributes
    ----------
    states : int array [R, T + 1]
        The number of the state at each step of each run, and the one after the last; ``.labels`` has the labels.
    pairs : int array [R, T]
        The pair (state and action) at each step.
    rewards : array [R, T]
    signals : array [K, R, T]
        What was observed of each constraint, in the user's units.
    values : array [R, 1 + K]
        What each run came to, of the reward and of every signal: the discounted average per step, normalised by
        (1 - discount), of its steps and of `rest`; the sum over the horizon; or the average per step.
    rest : array [R, 1 + K]
        Of a discounted problem, where the user names no number of steps: what one step after the last showed, drawn so
        that it stands for all of them on average. Its weight in `values` is discount^T. Otherwise 0, and of no weight.
    means, errors : array [1 + K]
        Over the runs, with standard errors; infinite of a single run.
    intervals : array [1 + K, 2]
        Student's 95 % intervals, each for itself: of normal values they hold 95 times in 100, of others the more
        nearly so the more runs there are, and of what happens in a few runs only they are too narrow, which the text
        says. What they hold is the policy's value where `covered` is 1, discounted or over a horizon; where it is
        less, the value of these steps alone; of averages, that of these steps, which is off from the long-run average
        by what the start still shows, a share that falls as 1 / T.
    covered : float
        How much of what a value counts is in the means: all of it, 1, unless the user named fewer steps; then
        1 - discount^T of a discounted average, T / H of a sum. 1 of averages.
    bounds : tuple of (name, "at_least" or "at_most", bound), length K
    status : str
        "done"; or "time limit", or "interrupted" (the ``partial`` of an exception): then these are runs that were
        finished.
    long_run : bool
        Whether a value is a long-run average, of which any number of steps shows the beginning only.
    """

    states: Ints
    pairs: Ints
    rewards: Floats
    signals: Floats
    values: Floats
    rest: Floats
    means: Floats
    errors: Floats
    intervals: Floats
    covered: float
    bounds: tuple[tuple[str, str, float], ...]
    _layout: Pairs
    status: str = "done"
    long_run: bool = False

    @property
    def runs(self) -> int:
        return len(self.states)

    @property
    def steps(self) -> int:
        """Of each run."""
        return self.pairs.shape[1]

    def labels(self, run: int = 0) -> list[tuple[Any, Any]]:
        """The state and the action of every step of a run, by their labels."""
        run = whole_number(run, "run", least=0, most=self.runs - 1)
        return [
            (self._layout.state_label(int(state)), self._layout.action_label(int(pair)))
            for state, pair in zip(self.states[run], self.pairs[run], strict=False)
        ]

    def to_frame(self) -> Any:
        """A data frame of pandas or polars: run, step, state, action, next state, reward, and each signal by name."""
        layout, count = self._layout, self.runs * self.steps
        run, step = np.indices((self.runs, self.steps)).reshape(2, count)
        before, after = (block.ravel() for block in (self.states[:, :-1], self.states[:, 1:]))
        labelled = {
            **label_columns([layout.state_label(int(state)) for state in before], "state"),
            **label_columns([layout.action_label(int(pair)) for pair in self.pairs.ravel()], "action"),
            **label_columns([layout.state_label(int(state)) for state in after], "next state"),
        }
        signals = {name: own.reshape(count) for (name, _, _), own in zip(self.bounds, self.signals, strict=True)}
        return frame({"run": run, "step": step, **labelled, "reward": self.rewards.reshape(count), **signals})

    def __repr__(self) -> str:
        return f"Trajectories({so_many(self.runs, 'run')} of {so_many(self.steps, 'step')})"

    def __str__(self) -> str:
        table = f"{self!r}\n\n{text_table(*self._table)}"
        return f"{table}\n\n{wrapped(self._meaning)}" if self._meaning else table

    def _repr_html_(self) -> str:
        return html_card(repr(self), html_table(*self._table), f"<p>{escaped(self._meaning)}</p>")

    @property
    def _meaning(self) -> str:
        """What the intervals are of, where that is not the value of the policy, and which cannot be relied on."""
        said = []
        if self.long_run:
            said.append(
                f"Averages of the first {self.steps:,} steps: the long-run averages are off from them by what the "
                "start still shows, which falls as 1 / steps."
            )
        elif self.covered < 1.0:
            said.append(
                f"The {self.steps:,} steps asked for have {100.0 * self.covered:.4g} % of what a value counts; what "
                "would follow is in no mean, and in no interval."
            )
        names = ("reward", *(name for name, _, _ in self.bounds))
        rare = [name for name, own in zip(names, self.values.T, strict=True) if _rarely_differs(own)]
        if rare:
            said.append(
                f"{', '.join(rare)}: nearly all runs came to the same, and of what is rare an interval shows too "
                "little; take more runs."
            )
        return " ".join(said)

    @property
    def _table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows, as texts."""
        rows: list[tuple[str, ...]] = []
        for place, (name, side, bound) in enumerate((("reward", "", 0.0), *self.bounds)):
            low, high = self.intervals[place]
            interval = f"{low:.6g} to {high:.6g}" if math.isfinite(low) else "-"
            wanted = f"{'>=' if side == 'at_least' else '<='} {as_given(bound)}" if side else ""
            rows.append((name, f"{self.means[place]:.6g}", interval, wanted))
        return ("", "mean", "95 % interval", "bound"), rows


@holding_handlers()
def simulate(
    problem: CMDP | Simulator,
    policy: Policy,
    steps: int | None = None,
    seed: int | np.random.SeedSequence = 0,
    *,
    runs: int = 20,
    progress: Callable[[int], None] | None = None,
    time_limit: float | None = None,
) -> Trajectories:
    """Follow a policy: trajectories, and what they come to with intervals.

    Values are discounted averages per step, normalised by (1 - discount), sums over a finite horizon, or averages per
    step, as the criterion says. Of a reward or signal that depends on the next state a model keeps the mean over it, so
    the trajectories of a model show that mean, not what was earned in that step.

    Parameters
    ----------
    problem : CMDP or Simulator
    policy : Policy
    steps : int, optional
        Of each run, which then ends there, and its value is that of these steps alone. With a horizon it cannot be
        more. Default: the horizon; so many that a thousandth of a discounted sum is left, for which one step more
        stands, so that the means are those of the whole sum (`Trajectories.rest`); 1,000 for averages.
    seed : int
        The same seed gives the same trajectories.
    runs : int
        How many trajectories, each from a start of its own.
    progress : callable, optional
        Called with the steps taken so far in all, about four times a second.
    time_limit : float, optional
        Seconds, after which the runs that are finished come back, at least one; ``status`` is then "time limit".

    An exception that ends it (Ctrl-C, or an error in your step function) has the runs that were finished about
    a quarter of a second before as its ``partial``; None, if there was none.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> seen = ib.simulate(queue, ib.solve(queue).policy, runs=400, seed=0)
    >>> seen
    Trajectories(400 runs of 10 steps)
    >>> seen.states.shape, seen.rewards.shape, seen.signals.shape, len(seen.labels())
    ((400, 11), (400, 10), (2, 400, 10), 10)
    >>> low, high = seen.intervals[0]
    >>> bool(low < ib.solve(queue).reward < high)
    True
    """
    if not isinstance(problem, CMDP | Simulator):
        raise InvalidInput(f"simulate takes a CMDP or a Simulator, found {type(problem).__name__}")
    simulator = _observing(problem) if isinstance(problem, CMDP) else problem.observing
    own = for_problem(simulator, policy)
    horizon, discount = simulator.criterion.get("horizon"), simulator.criterion.get("discount")
    length = _length(steps, horizon, discount)
    wanted, rng = whole_number(runs, "runs"), generator_of(random_seed(seed))
    shape = wanted, length
    try:
        states, pairs = np.zeros((wanted, length + 1), dtype=np.int64), np.zeros(shape, dtype=np.int64)
        seen = np.zeros((1 + simulator.n_constraints, wanted, length + 1))  # of every step, and of the rest
    except (MemoryError, ValueError) as error:
        message = f"{wanted:,} runs of {length:,} steps do not fit into memory; simulate fewer at a time"
        raise InvalidInput(message) from error
    goes_on = discount if discount is not None and steps is None else 0.0
    world = simulator.open()
    rule = own.probabilities.ravel()
    follow = fitted(_follow, world)

    def some(done: int, until: int) -> int:
        follow(world, rule, rng, goes_on, states, pairs, seen, done, until)
        return until

    finished = 0

    def keep(done: int) -> None:
        nonlocal finished
        finished = done

    def so_far(status: str) -> Trajectories:
        shown = seen[:, :finished].copy()  # Ctrl-C may come in the middle of this, and then it is done again
        scaling = simulator.scaling
        shown[0] = scaling.reward_low + scaling.reward_span * shown[0]
        for k, constraint in enumerate(simulator.constraints):  # margins, as learners see them, back to signals
            margins = scaling.margin_scales[k] * shown[1 + k]
            shown[1 + k] = constraint.outward * margins + constraint.bound / simulator.layers
        if not goes_on:
            shown[:, :, length] = 0.0
        weights = np.ones(length + 1) if horizon else np.full(length + 1, 1.0 / length)
        if discount is not None:
            weights = (1.0 - discount) * discount ** np.arange(length + 1)
        weights[length] = goes_on**length if goes_on else 0.0
        values, means = (shown @ weights).T, (shown @ weights).mean(axis=1)
        errors = values.std(axis=0, ddof=1) / math.sqrt(finished) if finished > 1 else np.full(len(means), np.inf)
        wide = stdtrit(finished - 1, 0.5 + 0.5 * _CONFIDENCE) * errors if finished > 1 else errors
        wide = wide + np.finfo(float).eps * (np.abs(shown) @ weights).sum(axis=1)  # where no run differs, rounding does
        return Trajectories(
            states=freeze(states[:finished]),
            pairs=freeze(pairs[:finished]),
            rewards=freeze(shown[0, :, :length]),
            signals=freeze(shown[1:, :, :length]),
            values=freeze(values),
            rest=freeze(shown[:, :, length].T),
            means=freeze(means),
            errors=freeze(errors),
            intervals=freeze(np.stack([means - wide, means + wide], axis=1)),
            covered=_covered(length, horizon, discount, steps is None),
            bounds=tuple((c.name, c.side, c.bound) for c in problem.constraints),
            _layout=own.pairs,
            status=status,
            long_run=horizon is None and discount is None,
        )

    callback(progress)
    pace = Pace(seconds_or_none(time_limit), progress and (lambda done: progress(done * length)))
    try:
        number = pace.pieces(some, keep, 0, wanted)
        return so_far("done" if number == wanted else "time limit")
    except BaseException as error:
        attach(error, so_far("interrupted") if finished else None)
        raise


def _observing(cmdp: CMDP) -> Simulator:
    """A model's simulator with bounds of 0: its margins are the signals, to the last bit."""
    return cmdp.asking(constraints=[c.with_bound(0.0) for c in cmdp.constraints]).simulator(scale=False)


def _rarely_differs(values: Floats) -> bool:
    """Whether of several runs, with the values [R], most came to the same and hardly any to something else."""
    alike = np.round(values / max(float(np.abs(values).max()), 1e-300), 9)  # up to rounding
    most = int(np.unique(alike, return_counts=True)[1].max())
    return 2 * most > len(values) > 1 and len(values) - most < _DIFFERENT


def _covered(length: int, horizon: int | None, discount: float | None, whole: bool) -> float:
    """How much of what a value counts is in so many steps, or in all."""
    if whole or (horizon is None and discount is None):
        return 1.0
    return length / horizon if horizon is not None else 1.0 - (discount or 0.0) ** length


def _length(steps: Any, horizon: int | None, discount: float | None) -> int:
    if steps is not None:
        length = whole_number(steps, "steps")
        if horizon is not None and length > horizon:
            raise InvalidInput(f"steps must be at most the horizon, {horizon}, found {steps!r}")
        return length
    if horizon is not None:
        return horizon
    if discount is None:
        return 1_000
    return max(math.ceil(math.log(_NEGLIGIBLE) / math.log(discount)), 1) if discount > 0.0 else 1


@compiled
def _follow(
    world: Any,
    policy: Floats,
    rng: np.random.Generator,
    goes_on: float,
    states: Ints,
    pairs: Ints,
    seen: Floats,
    first: int,
    last: int,
) -> None:
    """The runs `first` to `last` - 1 of a policy [n], or [H * n]: fills states, pairs and what was observed.

    After its last step a run goes on with probability `goes_on`, again and again, if that is not 0; the last column of
    what was observed is that of the step where it ends.
    """
    n, staged = world.states.shape[0], 1 if world.stages[0] > 0 else 0
    row_step, signal_step = world.stages[1], world.stages[2]
    for run in range(first, last):
        state = draw_start(world, rng)
        states[run, 0] = state
        for t in range(pairs.shape[1]):
            h = t * staged
            pair = draw_pair(policy[h * n : (h + 1) * n], world.offsets, state, rng)
            state = draw_next(world, pair + h * row_step, rng)
            pairs[run, t], states[run, t + 1] = pair, state
            for k in range(seen.shape[0]):
                seen[k, run, t] = observed(world, pair + h * signal_step, k)
        ended = goes_on == 0.0
        while not ended:
            pair = draw_pair(policy, world.offsets, state, rng)
            state = draw_next(world, pair, rng)
            ended = draw_ends(goes_on, rng)
        if goes_on > 0.0:
            for k in range(seen.shape[0]):
                seen[k, run, pairs.shape[1]] = observed(world, pair, k)
