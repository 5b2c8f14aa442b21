"""What the episodes of an online learner cost while it learned: regret and violation, exactly, by a judge.

Let J_r(k) and J_g(k) be the exact values of the policy that was played in episode k, and J* the optimum. Then

    regret               sum_k max(0, J* - J_r(k))               strong: one episode never makes up for another
    plain regret         sum_k (J* - J_r(k))                     what most theorems bound
    violation            sum_k max_i max(0, -J_g_i(k))           strong
    plain violation      max_i max(0, sum_k -J_g_i(k))
    out of bounds        how many k have some J_g_i(k) < 0

A learner sees none of these: values are of the model, which only the judge knows. In the user's units; of a discounted
problem they are those of its truncation, discounted sums up to the end of an episode, and so is the optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from inbounds.algorithms.algorithm import Run, record_of
from inbounds.algorithms.episodic.frame import TRUNCATED, frame_of
from inbounds.algorithms.episodic.learner import advance as advance_plans
from inbounds.algorithms.episodic.playing import Play
from inbounds.algorithms.loop import run_on_samples
from inbounds.arrays import Floats, Ints
from inbounds.criteria import criterion_of
from inbounds.exact.methods import solve_uncertified
from inbounds.exact.truncation import truncate
from inbounds.numerics.boxes import Boxes, Swept, follow, new_boxes, new_sweep
from inbounds.numerics.compiled import compiled
from inbounds.problem.cmdp import CMDP
from inbounds.problem.simulator import Simulator

MEASURES = ("regret", "plain_regret", "violation", "plain_violation", "out_of_bounds")

OUT_OF_BOUNDS = 1e-6
"""An episode counts as out of bounds when a margin is below zero by more than this share of the largest that it can be:
policies planned to a tolerance of 1e-7 miss a bound by less on a problem without chance."""


class Judge(NamedTuple):
    """The exact values of the policies of some episodes, and what it takes to know them. No learner sees it.

    It costs a forward pass for each policy that is judged, and nothing where the policy is that of the episode before.
    """

    truth: Boxes
    signals: Floats  # [H, n, X], weighted, in the learner's units
    room: Swept
    episodes: Ints  # [J], which to judge, in increasing order, from 0
    values: Floats  # [J, X], of their policies: sums over an episode
    stamp: Ints  # [1], after how many changes of the policy one was judged last


@compiled
def weigh(judge: Judge, episode: int, play: Play) -> None:
    """Record what the policy of an episode is worth, if that is to be judged."""
    found = np.searchsorted(judge.episodes, episode)
    if found < judge.episodes.shape[0] and judge.episodes[found] == episode:
        if judge.stamp[0] == play.changes[0]:
            judge.values[found] = judge.values[found - 1]
        else:
            follow(play.policy, judge.signals, judge.truth, False, judge.room, judge.values[found])
        judge.stamp[0] = play.changes[0]


@compiled
def watch_plans(
    judge: Judge, state: Any, constants: Any, world: Any, rng: np.random.Generator, drawn: int, until: int
) -> int:
    """The `advance` of those that keep a model, stopped in an episode's first step: then they have its policy."""
    while drawn < until:
        episode, stage = drawn // constants.frame.H, drawn % constants.frame.H
        end = drawn + 1 if stage == 0 else drawn + constants.frame.H - stage
        drawn = advance_plans(state, constants, world, rng, drawn, min(end, until))
        if stage == 0:
            weigh(judge, episode, state.play)
    return drawn


def watch_piecemeal(
    record: Any, judge: Judge, state: Any, constants: Any, world: Any, rng: np.random.Generator, drawn: int, until: int
) -> int:
    """The `advance` of one that makes its policy as it goes: all of it is made before the episode, for the judge."""
    while drawn < until:
        episode, stage = drawn // constants.frame.H, drawn % constants.frame.H
        if stage == 0:
            record.complete(state, constants)
            state.play.changes[0] += 1
            weigh(judge, episode, state.play)
        drawn = record.advance(state, constants, world, rng, drawn, min(drawn + constants.frame.H - stage, until))
    return drawn


def watching(judge: Judge, settings: Any) -> Callable[..., int]:
    """The `advance` of an online learner, watched by a judge."""
    record = record_of(settings)
    return partial(watch_plans, judge) if record.complete is None else partial(watch_piecemeal, record, judge)


def plays_online(settings: Any) -> bool:
    """Whether an algorithm plays episode after episode, so that what it plays is worth judging."""
    return record_of(settings).access == "online"


def episode_optimum(cmdp: CMDP, settings: Any) -> float:
    """The most that an episode can be worth in bounds: the optimum, of a discounted problem that of its truncation."""
    if "discount" in cmdp.criterion:
        cmdp = truncate(cmdp, settings.epsilon or TRUNCATED).problem
    return solve_uncertified(cmdp).total_reward


def judge_for(cmdp: CMDP, settings: Any, samples: int, episodes: Sequence[int] | None = None) -> Judge:
    """The judge of a run on the simulator of `cmdp`, for all its episodes or those listed, from 0."""
    simulator = cmdp.simulator()
    frame = frame_of(settings, simulator, samples)
    scaled = simulator.scaling.model(cmdp)
    rows = sp.vstack(scaled.transitions if frame.row_step else scaled.transitions[:1], format="csr")
    length = np.diff(rows.indptr)
    listed = np.arange(length.max()) < length[:, None]
    successors, chances = np.zeros(listed.shape, dtype=np.int64), np.zeros(listed.shape)
    successors[listed], chances[listed] = rows.indices, rows.data
    reward, margins = np.atleast_2d(scaled.reward), scaled.margins.reshape(-1, cmdp.layers, cmdp.n_pairs)
    signals = np.stack([np.broadcast_to(reward, margins.shape[1:]), *margins], axis=-1)
    weighted = frame.weights[:, None, None] * (frame.factors * signals)
    truth = new_boxes(frame.offsets, frame.states, frame.row_step, frame.H, 0)._replace(
        starts=np.array(cmdp.initial), length=length.astype(np.int64), successors=successors, chances=chances
    )
    judged = np.arange(frame.K) if episodes is None else np.unique(np.asarray(episodes, dtype=np.int64))
    room, values = new_sweep(frame.H, frame.S, frame.pairs, 0, False), np.full((len(judged), 1 + frame.bounds), np.nan)
    return Judge(truth, np.ascontiguousarray(weighted), room, judged, values, np.full(1, -1))


def judged_values(judge: Judge, simulator: Simulator, settings: Any, samples: int) -> Floats:
    """The exact values [J, X] of the judged policies, in the user's units: the reward, then the margins."""
    frame = frame_of(settings, simulator, samples)
    return simulator.scaling.sums_in_user_units(judge.values, frame.factors, frame.W)


def play(
    cmdp: CMDP,
    settings: Any,
    optimum: float,
    *,
    samples: int,
    seed: int,
    scale: bool = True,
    checkpoints: int | Sequence[int] = 1,
    progress: Callable[[int], None] | None = None,
    time_limit: float | None = None,
) -> tuple[Run, dict[str, list[float]]]:
    """The run of ``ib.learn``, of an online learner; and what its episodes cost at each checkpoint, by name.

    Beside the measures above, "episodes": how many were finished by then.

    Examples
    --------
    >>> import inbounds as ib
    >>> media, settings = ib.zoo.media(), ib.OptCMDP.practical()
    >>> run, cost = play(media, settings, episode_optimum(media, settings), samples=2_000, seed=0, checkpoints=[500])
    >>> cost["episodes"], cost["violation"][0] <= cost["violation"][1]
    ([50.0, 200.0], True)
    """
    judge = judge_for(cmdp, settings, samples)
    asked = cmdp.simulator(scale), settings, samples, seed, checkpoints, progress, time_limit
    run = run_on_samples(*asked, advance=watching(judge, settings))
    values = judged_values(judge, cmdp.simulator(), settings, samples)
    length = frame_of(settings, cmdp.simulator(), samples).H
    episodes = [int(count) // length for count in run.samples]
    scales = criterion_of(cmdp).total(cmdp.margin_scales)
    cost = summed(values[:, 0], values[:, 1:], optimum, scales, episodes)
    return run, {"episodes": [float(count) for count in episodes], **cost}


def summed(
    rewards: Floats, margins: Floats, optimum: float, margin_scales: Floats, episodes: Sequence[int]
) -> dict[str, list[float]]:
    """The measures above over the first so many `episodes`, each a list like these.

    Parameters
    ----------
    rewards, margins : arrays [E], [E, K]
        Of the policy of each episode.
    optimum : float
    margin_scales : array [K]
        The largest absolute value of each margin, for what counts as zero.
    episodes : list of int

    Examples
    --------
    Two episodes, one better than the optimum and out of bounds:

    >>> found = summed(np.array([1.0, 4.0]), np.array([[1.0], [-2.0]]), 2.0, np.array([1.0]), [1, 2])
    >>> found["regret"], found["plain_regret"]
    ([1.0, 1.0], [1.0, -1.0])
    >>> found["violation"], found["plain_violation"], found["out_of_bounds"]
    ([0.0, 2.0], [0.0, 1.0], [0.0, 1.0])
    """
    gaps, missing = optimum - rewards, np.max(-margins, axis=1, initial=0.0)
    sums = {
        "regret": np.cumsum(np.maximum(gaps, 0.0)),
        "plain_regret": np.cumsum(gaps),
        "violation": np.cumsum(missing),
        "plain_violation": np.max(np.cumsum(-margins, axis=0), axis=1, initial=0.0),
        "out_of_bounds": np.cumsum(np.any(margins < -OUT_OF_BOUNDS * margin_scales, axis=1)),
    }
    return {name: [float(sums[name][count - 1]) if count else 0.0 for count in episodes] for name in MEASURES}
