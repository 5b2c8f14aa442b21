"""Trajectories: they follow the model and the policy, and what they come to is what the policy is worth."""

from __future__ import annotations

import numpy as np
import pytest

import inbounds as ib
from inbounds import simulating


def worth(problem: ib.CMDP, policy: ib.Policy) -> np.ndarray:
    """The values of the reward and of every signal."""
    judged = ib.evaluate(problem, policy)
    signals = [c.outward * margin + c.bound for c, margin in zip(problem.constraints, judged.margins, strict=True)]
    return np.array([judged.reward, *signals])


@pytest.mark.parametrize("name", ["queue", "media", "admission", "inventory", "garnet"])
def test_means_are_what_the_policy_is_worth(name) -> None:
    """A z-test of a few means a problem: beyond 4.5 standard errors one in 150,000."""
    problem = ib.zoo.make(name)
    policy = ib.solve(problem).policy
    steps = 400 if "average" in problem.criterion else None
    seen = ib.simulate(problem, policy, steps=steps, runs=2_000, seed=1)
    left = 20 / 400 if steps else 0.0  # of a long-run average, what the start costs
    assert np.all(np.abs(seen.means - worth(problem, policy)) <= 4.5 * seen.errors + left)


def machine(offset: float = 0.0, **criterion) -> ib.CMDP:
    """The README's, with so much added to the reward of every step."""
    return ib.build(
        0,
        lambda wear: ["run", "repair"] if wear else ["run"],
        lambda wear, act: [(0, 1.0)] if act == "repair" else [(wear, 0.7), (min(wear + 1, 3), 0.3)],
        reward=lambda wear, act: offset + ((3.0 - wear) if act == "run" else 0.0),
        constraints=[ib.Constraint(lambda wear, act: act == "repair", at_most=0.1, name="repairs")],
        **(criterion or {"discount": 0.95}),
    )


@pytest.mark.parametrize(
    ("problem", "runs"),
    [
        (machine(), 50),
        (machine(100.0), 50),
        (machine(-1e6), 50),
        (machine(100.0, discount=0.8), 50),
        (machine(100.0, discount=0.99), 50),
        (machine(100.0, horizon=12).with_bound("repairs", at_most=1.2), 50),
        (ib.zoo.queue(), 50),
        (ib.zoo.media(), 50),
    ],
)
def test_intervals_hold_as_often_as_they_say(problem, runs) -> None:
    """Of 400 seeds 380 on average, if the values were normal. Fewer than 352 is 6.4 standard deviations below that; the
    skew of these values costs intervals of 50 runs less than 2 in 100, from where 352 is still 3.9 below."""
    policy = ib.solve(problem).policy
    truth = worth(problem, policy)
    held = np.zeros(len(truth))
    for seed in range(400):
        low, high = ib.simulate(problem, policy, seed=seed, runs=runs).intervals.T
        held += (low <= truth + 1e-9 * abs(truth)) & (truth - 1e-9 * abs(truth) <= high)
    assert held.min() >= 352


def test_intervals_of_what_is_rare_say_so() -> None:
    """With so little weight on later steps, a repair is in few runs: 50 of them cannot tell how few."""
    problem = machine(discount=0.2)
    policy = ib.solve(problem).policy
    few, many = (str(ib.simulate(problem, policy, runs=runs, seed=0)) for runs in (20, 5_000))
    assert "repairs: nearly all runs came to the same" in " ".join(few.split()) and "nearly all" not in many


def test_what_is_left_of_a_discounted_sum_is_in_the_means() -> None:
    """A reward that is always the same is known without an error, however short a run is."""
    const = ib.build(0, lambda s: ["a"], lambda s, a: [(0, 1)], reward=lambda s, a: 1.0, discount=0.95)
    seen = ib.simulate(const, ib.Policy.uniform(const), seed=0, runs=20)
    (low, high), left = seen.intervals[0], 0.95**seen.steps
    assert low <= 1.0 <= high and high - low < 1e-12 and seen.covered == 1.0
    weights = 0.05 * 0.95 ** np.arange(seen.steps)
    np.testing.assert_allclose(seen.values[:, 0], seen.rewards @ weights + left * seen.rest[:, 0], rtol=1e-14)


def test_the_rest_is_a_step_drawn_as_the_discount_weighs_them() -> None:
    """A chain that counts its steps and earns their number: the rest is T + G, whose mean is T + discount / (1 -
    discount) and whose standard deviation sqrt(discount) / (1 - discount)."""
    count = ib.build(
        0, lambda s: ["on"], lambda s, a: [(min(s + 1, 400), 1.0)], reward=lambda s, a: float(s), discount=0.9
    )
    seen = ib.simulate(count, ib.Policy.uniform(count), seed=0, runs=20_000)
    after = seen.rest[:, 0] - seen.steps
    assert after.min() == 0.0 and abs(np.mean(after == 0.0) - 0.1) <= 4.5 * np.sqrt(0.09 / 20_000)
    assert abs(after.mean() - 9.0) <= 4.5 * np.sqrt(90.0 / 20_000)


def test_averages_are_those_of_so_many_steps_from_the_start() -> None:
    """What their intervals hold is the expected average of the steps, which says so; the start shows in it."""
    problem = machine(100.0, average=True)
    policy = ib.solve(problem).policy
    moves = np.zeros((problem.n_states, problem.n_states))
    np.add.at(moves, problem.pairs.states, policy.probabilities[:, None] * problem.transition.toarray())
    paid = np.bincount(problem.pairs.states, policy.probabilities * problem.reward)
    at, expected = np.asarray(problem.initial), 0.0
    for _ in range(100):
        expected, at = expected + at @ paid / 100, at @ moves
    held = 0
    for seed in range(400):
        low, high = ib.simulate(problem, policy, steps=100, seed=seed, runs=50).intervals[0]
        held += low <= expected <= high
    assert held >= 352 and expected > ib.evaluate(problem, policy).reward + 0.01
    assert "Averages of the first 100 steps" in str(ib.simulate(problem, policy, steps=100))


def test_every_step_is_one_of_the_model() -> None:
    media = ib.zoo.media()
    best = ib.solve(media).policy
    seen = ib.simulate(media, best, runs=50, seed=3)
    assert seen.steps == 10 and seen.runs == 50 and seen.states.shape == (50, 11)
    for run in range(50):
        assert media.initial[seen.states[run, 0]] > 0.0
        for h in range(10):
            pair, after = seen.pairs[run, h], seen.states[run, h + 1]
            assert media.pairs.states[pair] == seen.states[run, h] and best.probabilities[h, pair] > 0.0
            assert media.transitions[h][[pair], [after]] > 0.0
            assert seen.rewards[run, h] == pytest.approx(media.reward[h, pair])
            assert seen.signals[0, run, h] == pytest.approx(media.signals[0][h, pair])


@pytest.mark.parametrize("criterion", [{"discount": 0.9}, {"horizon": 3}, {"average": True}])
def test_signals_are_those_of_the_model_whatever_the_bound(criterion) -> None:
    """A bound that stands for none, 1e18, leaves no digit of a margin, and all of a signal."""
    work = ib.CMDP(
        offsets=[0, 2],
        transition=[[1.0], [1.0]],
        reward=[1.0, 0.0],
        constraints=[
            ib.Constraint([0.1, 0.0], at_most=1e18, name="a"),
            ib.Constraint([0.1, 0.0], at_least=-1e6, name="b"),
        ],
        initial=[1.0],
        **criterion,
    )
    seen = ib.simulate(work, ib.Policy.uniform(work), seed=0)
    for signals in seen.signals:
        assert np.array_equal(signals, np.where(seen.pairs == 0, 0.1, 0.0))
    assert np.array_equal(seen.values[:, 1], seen.values[:, 2])
    assert seen.bounds == (("a", "at_most", 1e18), ("b", "at_least", -1e6))
    for scale in (True, False):
        again = ib.simulate(work.simulator(scale=scale), ib.Policy.uniform(work), seed=0)
        assert np.array_equal(again.signals, seen.signals) and again.bounds == seen.bounds


@pytest.mark.parametrize("criterion", [{"discount": 0.9}, {"horizon": 3}, {"average": True}])
@pytest.mark.parametrize("scale", [True, False])
def test_signals_are_those_that_a_step_reports_whatever_the_bound(criterion, scale) -> None:
    asked = ib.Simulator(
        lambda state, action, rng: (0, 1.0 - action, [0.1 * action, 0.3]), lambda rng: 0, states=1, actions=[0, 1],
        reward_range=(-2.0, 1.0), signal_ranges=[(0, 1), (0, 1)], scale=scale,
        constraints=[ib.Constraint(at_most=1e18, name="a"), ib.Constraint(at_least=-1e18, name="b")], **criterion,
    )  # fmt: skip
    seen = ib.simulate(asked, ib.Policy.uniform(asked), seed=0)
    assert np.array_equal(seen.signals[0], 0.1 * seen.pairs) and np.all(seen.signals[1] == 0.3)
    assert np.array_equal(seen.rewards, 1.0 - seen.pairs)
    assert seen.bounds == (("a", "at_most", 1e18), ("b", "at_least", -1e18))


def test_stages_that_differ_are_followed() -> None:
    moves = np.zeros((2, 2, 1, 2))
    moves[0, :, 0] = [[0, 1], [0, 1]]
    moves[1, :, 0] = [[1, 0], [1, 0]]
    problem = ib.CMDP.from_dense(moves, reward=[[[1.0], [2.0]], [[10.0], [20.0]]], initial=[1.0, 0.0], horizon=2)
    seen = ib.simulate(problem, ib.Policy.uniform(problem), runs=3)
    assert seen.states.tolist() == [[0, 1, 0]] * 3 and seen.rewards.tolist() == [[1.0, 20.0]] * 3


def test_seeds_labels_and_frames() -> None:
    problem = machine()
    policy = ib.solve(problem).policy
    one, same, other = (ib.simulate(problem, policy, steps=40, runs=3, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(one.states, same.states) and not np.array_equal(one.states, other.states)
    assert one.labels()[0] == (0, "run") and len(one.labels(2)) == 40
    found = one.to_frame()
    assert list(found.columns) == ["run", "step", "state", "action", "next state", "reward", "repairs"]
    assert len(found) == 120 and next(iter(found["next state"])) == one.states[0, 1]
    assert str(one).splitlines()[0] == "Trajectories(3 runs of 40 steps)" and "<= 0.1" in str(one)
    assert all(len(line) <= 80 for line in str(one).splitlines())


def test_the_user_s_own_step_function() -> None:
    def toss(state, action, rng):
        return state, float(rng.random() < 0.5), [float(action == "cheat")]

    coin = ib.Simulator(
        toss, lambda rng: "table", states=["table"], actions=["toss", "cheat"], discount=0.5,
        reward_range=(0, 1), constraints=[ib.Constraint(at_most=1 / 3, name="cheating")], signal_ranges=[(0, 1)],
    )  # fmt: skip
    seen = ib.simulate(coin, ib.Policy.from_rule(coin, {"table": {"toss": 0.25, "cheat": 0.75}}), runs=2_000, seed=0)
    assert set(np.unique(seen.rewards)) == {0.0, 1.0} and set(np.unique(np.round(seen.signals, 12))) == {0.0, 1.0}
    assert np.all(np.abs(seen.means - [0.5, 0.75]) <= 4.5 * seen.errors + 1e-12)


def test_steps_and_seed_are_the_third_and_the_fourth() -> None:
    queue = ib.zoo.queue()
    policy = ib.Policy.uniform(queue)
    short, same = ib.simulate(queue, policy, 7, 3, runs=2), ib.simulate(queue, policy, steps=7, seed=3, runs=2)
    assert short.states.shape == (2, 8) and np.array_equal(short.states, same.states)


def test_runs_that_are_cut_short_say_so() -> None:
    queue, media = ib.zoo.queue(), ib.zoo.media()  # discount 0.5, horizon 10
    whole, short = (ib.simulate(queue, ib.Policy.uniform(queue), steps) for steps in (None, 2))
    assert whole.covered == 1.0 and short.covered == 0.75
    nearly = ib.simulate(queue, ib.Policy.uniform(queue), whole.steps)  # asked for: then what follows is left out
    assert nearly.covered == 1.0 - 0.5**10 and "99.9 % of what a value counts" in str(nearly)
    assert np.array_equal(nearly.rest, np.zeros_like(nearly.rest))
    stages = ib.simulate(media, ib.Policy.uniform(media), 4)
    assert stages.covered == 0.4 and "40 % of what a value counts" in str(stages)
    assert "75 % of what a value counts" in str(short) and "of what a value counts" not in str(whole)
    assert all(len(line) <= 80 for line in str(short).splitlines())


def test_a_single_run_has_no_interval() -> None:
    queue = ib.zoo.queue()
    seen = ib.simulate(queue, ib.Policy.uniform(queue), runs=1)
    assert np.isinf(seen.errors).all() and "  -  " in str(seen)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 11}, "steps must be at most the horizon, 10, found 11"),
        ({"steps": 0}, "steps must be a whole number of at least 1"),
        ({"runs": 0}, "runs must be a whole number of at least 1"),
        ({"policy": ib.Policy.uniform(ib.zoo.queue())}, "does not belong to this problem"),
        ({"problem": "media"}, "simulate takes a CMDP or a Simulator, found str"),
    ],
)
def test_bad_input_is_named(arguments, message) -> None:
    media = ib.zoo.media()
    asked = {"problem": media, "policy": ib.Policy.uniform(media)} | arguments
    with pytest.raises(ib.InvalidInput, match=message):
        ib.simulate(asked.pop("problem"), asked.pop("policy"), **asked)


def test_more_than_fits_is_refused_by_name() -> None:
    queue = ib.zoo.queue()
    with pytest.raises(ib.InvalidInput, match="1,000,000 runs of 1,000,000,000 steps do not fit into memory"):
        ib.simulate(queue, ib.Policy.uniform(queue), steps=10**9, runs=10**6, time_limit=1.0)


def test_what_comes_after_the_last_run_loses_none(monkeypatch) -> None:
    """(Ctrl-C while what was seen is put together: no `partial`.)"""
    queue = ib.zoo.queue()
    policy, summed, calls = ib.Policy.uniform(queue), simulating.stdtrit, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return summed(*arguments)

    whole = ib.simulate(queue, policy, runs=20, seed=3)
    monkeypatch.setattr(simulating, "stdtrit", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        ib.simulate(queue, policy, runs=20, seed=3)
    partial = caught.value.partial
    assert partial.status == "interrupted" and np.array_equal(partial.values, whole.values)
    assert np.array_equal(partial.rewards, whole.rewards) and np.array_equal(partial.signals, whole.signals)
