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
from typing import Any

import numpy as np
import scipy.sparse as sp

from inbounds.algorithms.algorithm import Run, record_of
from inbounds.algorithms.episodic.frame import TRUNCATED, frame_of
from inbounds.algorithms.episodic.playing import Judge, judge_of
from inbounds.algorithms.loop import run_on_samples
from inbounds.arrays import Floats
from inbounds.criteria import criterion_of
from inbounds.exact.methods import solve_uncertified
from inbounds.exact.truncation import truncate
from inbounds.numerics.boxes import new_boxes
from inbounds.problem.cmdp import CMDP
from inbounds.problem.simulator import Simulator

MEASURES = ("regret", "plain_regret", "violation", "plain_violation", "out_of_bounds")

OUT_OF_BOUNDS = 1e-6
"""An episode counts as out of bounds when a margin is below zero by more than this share of the largest that it can be:
policies planned to a tolerance of 1e-7 miss a bound by less on a problem without chance."""


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
    return judge_of(frame, truth, np.ascontiguousarray(weighted), judged)


def judged_values(judge: Judge, simulator: Simulator, settings: Any, samples: int) -> Floats:
    """The exact values [J, X] of the judged policies, in the user's units: the reward, then the margins."""
    return frame_of(settings, simulator, samples).in_user_units(judge.values, simulator)


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
    run = run_on_samples(cmdp.simulator(scale), settings, samples, seed, checkpoints, progress, time_limit, judge=judge)
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
