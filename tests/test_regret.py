"""What the episodes of a learner cost, by a judge: sums against plain loops, exact values against a twin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inbounds as ib
from inbounds.algorithms import ALGORITHMS
from inbounds.algorithms.loop import run_on_samples
from inbounds.studies.journal import Journal
from inbounds.studies.regret import (
    MEASURES,
    OUT_OF_BOUNDS,
    episode_optimum,
    judge_for,
    judged_values,
    play,
    summed,
    watching,
)
from inbounds.studies.runs import run_arms
from inbounds.studies.safe import safe_policy, takes_safe


def summed_slowly(rewards, margins, optimum, scales, episodes):
    """From the definitions, one episode at a time."""
    found = {name: [] for name in MEASURES}
    for count in episodes:
        regret = plain_regret = violation = outside = 0.0
        missed = [0.0] * len(scales)
        for reward, own in list(zip(rewards, margins, strict=True))[:count]:
            regret += max(0.0, optimum - reward)
            plain_regret += optimum - reward
            violation += max([0.0, *(-margin for margin in own)])
            missed = [sum_so_far - margin for sum_so_far, margin in zip(missed, own, strict=True)]
            outside += any(margin < -OUT_OF_BOUNDS * scale for margin, scale in zip(own, scales, strict=True))
        plain_violation = max([0.0, *missed])
        for name, value in zip(MEASURES, (regret, plain_regret, violation, plain_violation, outside), strict=True):
            found[name].append(value)
    return found


@given(st.integers(0, 2**32 - 1), st.integers(0, 3), st.integers(1, 12))
def test_sums_are_those_of_the_definitions(seed: int, n_constraints: int, n_episodes: int) -> None:
    rng = np.random.default_rng(seed)
    rewards, margins = rng.normal(size=n_episodes), rng.normal(size=(n_episodes, n_constraints))
    margins[rng.random(margins.shape) < 0.3] = 0.0
    scales, counts = rng.uniform(0.5, 2.0, n_constraints), sorted(rng.integers(0, n_episodes + 1, 4).tolist())
    found = summed(rewards, margins, 0.3, scales, counts)
    slow = summed_slowly(rewards, margins, 0.3, scales, counts)
    assert found.keys() == slow.keys()
    for name in MEASURES:
        assert found[name] == pytest.approx(slow[name], abs=1e-12)
    # Strong sums never cancel, so they bound the plain ones and never fall.
    assert all(strong >= plain - 1e-12 for strong, plain in zip(found["regret"], found["plain_regret"], strict=True))
    assert all(a >= b - 1e-12 for a, b in zip(found["violation"], found["plain_violation"], strict=True))
    assert found["regret"] == sorted(found["regret"]) and found["violation"] == sorted(found["violation"])


def test_a_margin_that_is_zero_up_to_planning_is_in_bounds() -> None:
    margins = np.array([[-1e-9], [-1e-5]])
    assert summed(np.zeros(2), margins, 0.0, np.array([1.0]), [1, 2])["out_of_bounds"] == [0.0, 1.0]
    assert summed(np.zeros(2), margins, 0.0, np.array([100.0]), [1, 2])["out_of_bounds"] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("name", "gap"), [("media", 1.360), ("inventory", 2.962), ("three_cycle", 1.0), ("factored", 0.05)]
)
def test_the_safe_policy_keeps_half_of_what_there_is_to_spare(name: str, gap: float) -> None:
    """Gaps as an independent implementation found them."""
    problem = ib.zoo.make(name)
    judged = ib.evaluate(problem, safe_policy(problem))
    assert ib.solve(problem).reward - judged.reward == pytest.approx(gap, abs=5e-4)
    spare = ib.slater(problem, scaled=True).value
    assert np.all(judged.margins >= 0.5 * spare * problem.margin_scales - 1e-9)


def test_where_nothing_can_be_spared_no_policy_is_safe() -> None:
    with pytest.raises(ib.InvalidInput, match=r"nothing|anything to spare in every bound at once \(Slater constant"):
        safe_policy(ib.zoo.media(fast_actions=0.0))
    free = ib.zoo.media().unconstrained()
    assert ib.evaluate(free, safe_policy(free)).reward == pytest.approx(-5.393138, abs=1e-6)


ONLINE = [name for name, one in ALGORITHMS.items() if one.algorithm.access == "online"]
EPISODES = 2_000


def settings_of(name: str, cmdp: ib.CMDP, **changes: Any) -> Any:
    """The practical preset, with a safe policy where one is needed."""
    one = ALGORITHMS[name]
    return one.practical(**changes, **({"safe": safe_policy(cmdp)} if takes_safe(one) else {}))


def test_twelve_play_online_and_one_may_ask_for_any_pair() -> None:
    assert len(ONLINE) == 12
    episodic = [one.algorithm for one in ALGORITHMS.values() if one.algorithm.criterion == "finite-horizon"]
    assert [record.name for record in episodic if record.access == "generative"] == ["Optimistic-GMBL"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ONLINE)
def test_what_was_judged_is_what_was_played(name: str) -> None:
    """What an episode pays, less the judged value of its policy, is a martingale difference.

    It is at most the range of an episode, [-10, 0] of the reward and [-5, 5] of the margin: by Azuma's inequality the
    mean of E of them is beyond 10 sqrt(2 log(2 / p) / E) with probability p at most, here 1e-9.
    """
    media = ib.zoo.media()
    settings = settings_of(name, media)
    judge = judge_for(media, settings, 10 * EPISODES)
    run = run_on_samples(media.simulator(), settings, 10 * EPISODES, 0, advance=watching(judge, settings))
    values = judged_values(judge, media.simulator(), settings, 10 * EPISODES)
    assert run.episodes.shape == values.shape == (EPISODES, 2) and np.all(np.isfinite(values))
    beyond = 10.0 * np.sqrt(2.0 * np.log(2.0 / 1e-9) / EPISODES)
    assert np.all(np.abs((run.episodes - values).mean(axis=0)) <= beyond)
    assert np.all(values[:, 0] <= 0.0) and np.all(np.abs(values[:, 1]) <= 5.0 + 1e-9)


@pytest.mark.parametrize("discounted", [False, True])
def test_a_safe_policy_that_is_never_left_is_judged_exactly(discounted: bool) -> None:
    """With its paper's constants OptPess-LP plays nothing else: every episode is worth what the policy is."""
    problem = ib.zoo.queue() if discounted else ib.zoo.media()
    settings = ib.OptPessLP(safe=safe_policy(problem))
    optimum = episode_optimum(problem, settings)
    length = 10  # of an episode, in both
    _, cost = play(problem, settings, optimum, samples=40 * length, seed=0, checkpoints=[5 * length + 3])
    cut = ib.truncate(problem, 1e-3) if discounted else None
    own = problem if cut is None else cut.problem
    worth = ib.evaluate(own, ib.Policy(own.pairs, np.broadcast_to(settings.safe.probabilities, own.shape)))
    assert optimum == pytest.approx(ib.solve(own).reward, abs=1e-9)
    assert cost["episodes"] == [5.0, 40.0] and cost["out_of_bounds"] == [0.0, 0.0]
    for name in ("regret", "plain_regret"):
        assert cost[name] == pytest.approx([5 * (optimum - worth.reward), 40 * (optimum - worth.reward)], abs=1e-9)
    assert cost["violation"] == pytest.approx([0.0, 0.0], abs=1e-12)


def test_judging_changes_nothing_of_a_run_and_is_the_same_in_any_units() -> None:
    media, settings = ib.zoo.media(), ib.OptCMDP.practical()
    optimum = episode_optimum(media, settings)
    alone = ib.learn(media.simulator(), settings, samples=3_000, seed=3)
    for scale in (True, False):
        run, cost = play(media, settings, optimum, samples=3_000, seed=3, scale=scale)
        assert cost["episodes"] == [300.0] and all(np.isfinite(cost[name][0]) for name in MEASURES)
        if scale:
            assert np.array_equal(run.policy.probabilities, alone.policy.probabilities)
    free = media.unconstrained()
    run, cost = play(free, settings, episode_optimum(free, settings), samples=3_000, seed=3)
    assert cost["violation"] == [0.0] and cost["regret"][0] == pytest.approx(cost["plain_regret"][0], abs=1e-9)


def test_a_safe_policy_is_recognised_in_a_journal_and_another_is_not(tmp_path: Path) -> None:
    media = ib.zoo.media()
    safe, other = safe_policy(media), ib.solve(media.tightened(0.25)).policy
    journal = tmp_path / "runs.jsonl"
    for policy, found in ((safe, 0), (safe, 2), (other, 0), (ib.Policy(media.pairs, safe.probabilities), 2)):
        arms = [(media, ib.OptPessLP(safe=policy))]
        runs, resumed = run_arms(arms, samples=100, checkpoints=[100], seeds=2, workers=1, journal=journal)
        assert resumed == found and runs[0][0].played["episodes"] == [10.0] and runs[0][0].guarantee


def test_a_line_without_what_the_episodes_cost_is_no_run_of_an_online_learner(tmp_path: Path) -> None:
    arms = [(ib.zoo.media(), ib.OptPessLP(safe=safe_policy(ib.zoo.media())))]
    journal = tmp_path / "runs.jsonl"
    run_arms(arms, samples=100, checkpoints=[100], seeds=1, workers=1, journal=journal)
    line = json.loads(journal.read_text())
    line.pop("digest")
    key = line.pop("key")
    for changed in ({}, {"episodes": [10.0]}, {**line["played"], "regret": []}, {**line["played"], "regret": [None]}):
        journal.unlink()
        Journal(journal).add(key, {**line, "played": changed})
        assert run_arms(arms, samples=100, checkpoints=[100], seeds=1, workers=1, journal=journal)[1] == 0
