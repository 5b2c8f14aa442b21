"""Estimates of a policy's values: the appendix's Algorithm 2, as printed and corrected, by enumeration in rationals."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import inbounds as ib
from inbounds.estimating import average_walks
from inbounds.numerics.compiled import interpreted
from inbounds.proofs.evidence import new_log
from inbounds.proofs.walks import new_tally, plain_design
from uniforms import Uniforms

# Algorithm 2, printed and corrected, on a chain of two states. The policy is part of the chain.

CHAIN = ((Fraction(1, 4), Fraction(3, 4)), (Fraction(2, 3), Fraction(1, 3)))
REWARD = (Fraction(1), Fraction(-2))
START = (Fraction(1, 5), Fraction(4, 5))
DISCOUNT = Fraction(3, 7)
LENGTHS = 120  # walks longer than that are bounded by the tail


def exact_values() -> tuple[Fraction, Fraction]:
    """V = (1 - gamma) r + gamma P V by Cramer's rule: the paper's value of each state, normalised."""
    a, b = 1 - DISCOUNT * CHAIN[0][0], -DISCOUNT * CHAIN[0][1]
    c, d = -DISCOUNT * CHAIN[1][0], 1 - DISCOUNT * CHAIN[1][1]
    first, second = ((1 - DISCOUNT) * reward for reward in REWARD)
    return (first * d - b * second) / (a * d - b * c), (a * second - c * first) / (a * d - b * c)


def mean_sums(start: tuple[Fraction, ...]) -> list[Fraction]:
    """E[r_1 + ... + r_h] for h = 0, 1, ..., LENGTHS, from a distribution over the first state."""
    sums, where = [Fraction(0)], start
    for _ in range(LENGTHS):
        sums.append(sums[-1] + sum(p * r for p, r in zip(where, REWARD, strict=True)))
        where = tuple(sum(where[s] * CHAIN[s][after] for s in (0, 1)) for after in (0, 1))
    return sums


def bracket(weights: list[Fraction], terms: list[Fraction], tail: Fraction) -> tuple[Fraction, Fraction]:
    found = sum(weight * term for weight, term in zip(weights, terms, strict=True))
    return found - tail, found + tail


def geometric(first: int) -> tuple[list[Fraction], Fraction]:
    """P(H = h) for h = 0..LENGTHS of a geometric H that counts from `first`, and a bound on E[|sum|; H > LENGTHS]."""
    stop = 1 - DISCOUNT
    weights = [stop * DISCOUNT ** (h - first) if h >= first else Fraction(0) for h in range(LENGTHS + 1)]
    # E[H; H > n] = P(H > n) (n + 1 / (1 - gamma)), and |r| <= 2
    return weights, 2 * DISCOUNT ** (LENGTHS + 1 - first) * (LENGTHS + 1 / stop)


def within(value: Fraction, limits: tuple[Fraction, Fraction]) -> bool:
    assert limits[1] - limits[0] < Fraction(1, 10**30)  # so that nothing else is within
    return limits[0] <= value <= limits[1]


def test_as_printed_every_entry_is_unbiased_for_the_sum_and_not_for_the_value() -> None:
    weights, tail = geometric(first=1)
    for state, value in enumerate(exact_values()):
        from_state = tuple(Fraction(int(s == state)) for s in (0, 1))
        printed = bracket(weights, mean_sums(from_state), tail)
        assert within(value / (1 - DISCOUNT), printed)
        assert not within(value, printed)


def test_as_printed_with_a_geometric_that_counts_from_zero_it_is_off_by_the_discount() -> None:
    weights, tail = geometric(first=0)
    for state, value in enumerate(exact_values()):
        from_state = tuple(Fraction(int(s == state)) for s in (0, 1))
        printed = bracket(weights, mean_sums(from_state), tail)
        assert within(DISCOUNT * value / (1 - DISCOUNT), printed)
        assert not within(value / (1 - DISCOUNT), printed)


def test_corrected_it_is_the_value_from_the_start() -> None:
    weights, tail = geometric(first=1)
    low, high = bracket(weights, mean_sums(START), tail)
    value = sum(p * v for p, v in zip(START, exact_values(), strict=True))
    assert within(value, ((1 - DISCOUNT) * low, (1 - DISCOUNT) * high))


def test_as_printed_the_entries_share_their_horizon() -> None:
    """Var of the mean of two entries: with one H for both it keeps the variance of E[sum | H], which own H's halve."""
    weights, _ = geometric(first=1)
    sums = [mean_sums(tuple(Fraction(int(s == state)) for s in (0, 1))) for state in (0, 1)]
    means = [sum(w * x for w, x in zip(weights, own, strict=True)) for own in sums]
    shared = sum(w * (x - means[0]) * (y - means[1]) for w, x, y in zip(weights, *sums, strict=True))
    assert shared > Fraction(1, 10)  # the covariance of the two entries; with an H of their own it is zero
    ones = list(map(Fraction, range(LENGTHS + 1)))  # a reward of 1 everywhere: both entries are H itself
    variance = sum(w * h * h for w, h in zip(weights, ones, strict=True)) - (1 / (1 - DISCOUNT)) ** 2
    assert abs(variance - DISCOUNT / (1 - DISCOUNT) ** 2) < Fraction(1, 10**30)


# The kernel itself, over every sequence of draws


def halves(discount: float = 0.5) -> ib.CMDP:
    """Every draw is between two halves, so that all sequences of uniforms 1/4 and 3/4 are all that can happen."""
    return ib.CMDP(
        offsets=[0, 2, 4],
        transition=[[0.5, 0.5], [1.0, 0.0], [0.5, 0.5], [0.0, 1.0]],
        reward=[3.0, -1.0, 0.5, 2.0],
        constraints=(ib.Constraint([1.0, -2.0, 0.0, 0.5], at_least=0.25, name="signal"),),
        initial=[0.5, 0.5],
        discount=discount,
    )


def first_steps(cmdp: ib.CMDP, policy: ib.Policy, steps: int) -> list[float]:
    """(1 - gamma) sum_{t < steps} gamma^t E[x_t] of reward and margin, what is beyond the budget being worth `low`."""
    where, found = cmdp.initial, np.zeros(2)
    low = np.array([cmdp.reward.min(), 0.0])  # the reward is counted from its least, margins are not shifted
    signals = np.vstack([cmdp.reward, cmdp.margins[0]])
    for t in range(steps):
        pairs = np.repeat(where, np.diff(cmdp.offsets)) * policy.probabilities
        found += (1 - cmdp.discount) * cmdp.discount**t * (signals @ pairs - low)
        where = pairs @ cmdp.transition.toarray()
    return list(found + low)


@pytest.mark.parametrize("budget", [1, 2, 3])
def test_whatever_the_budget_the_estimate_has_the_value_of_its_first_steps(budget: int) -> None:
    """E over all draws of the real kernel, exactly: a walk that the budget cut counts as if it were whole."""
    cmdp = halves()
    policy, simulator = ib.Policy.uniform(cmdp), cmdp.simulator()
    design, world, log = plain_design(simulator, policy), simulator.open(), new_log(simulator, 0)
    run, length = interpreted(average_walks), 4 * budget  # at most: a start, and choice, draw and end of each step
    mean = np.zeros(2)
    for draws in itertools.product((0.25, 0.75), repeat=length):
        tally = new_tally(simulator)
        assert run(design, world, Uniforms(*draws), log, tally, 0, budget, budget) == budget
        mean += tally.mean / 2**length
    scaling = simulator.scaling
    found = [scaling.reward_low + scaling.reward_span * mean[0], scaling.margin_scales[0] * mean[1]]
    np.testing.assert_allclose(found, first_steps(cmdp, policy, budget), rtol=0, atol=1e-12)
    exact = ib.evaluate(cmdp, policy)
    span = [scaling.reward_span, scaling.margin_scales[0]]
    assert np.all(np.abs(found - np.array([exact.reward, *exact.margins])) <= cmdp.discount**budget * np.array(span))


# The verb


def user_simulator(cmdp: ib.CMDP, calls: list[int]) -> ib.Simulator:
    """The same problem through a step function, drawing as the table does."""
    rows = cmdp.transition.toarray()

    def step(state: int, action: int, rng: Any) -> tuple[int, float, list[float]]:
        calls.append(1)
        pair = int(cmdp.offsets[state]) + action
        after = int(np.searchsorted(np.cumsum(rows[pair]), rng.random(), side="right"))
        return after, float(cmdp.reward[pair]), [float(constraint.signal[pair]) for constraint in cmdp.constraints]

    return ib.Simulator(
        step,
        start=lambda rng: int(np.searchsorted(np.cumsum(cmdp.initial), rng.random(), side="right")),
        states=cmdp.n_states,
        actions=[0, 1],
        discount=cmdp.discount,
        reward_range=(float(cmdp.reward.min()), float(cmdp.reward.max())),
        constraints=[ib.Constraint(at_least=0.25, name="signal")],
        signal_ranges=[(-2.0, 1.0)],
    )


def test_a_users_step_function_gives_the_estimate_of_the_table_and_every_sample_counts() -> None:
    cmdp, calls = halves(), []
    policy = ib.Policy(cmdp.pairs, [0.3, 0.7, 0.9, 0.1])
    asked = user_simulator(cmdp, calls)
    table = ib.estimate(cmdp.simulator(), policy, samples=501, seed=3)
    found = ib.estimate(asked, ib.Policy(asked.pairs, policy.probabilities), samples=501, seed=3)
    assert len(calls) == found.samples == table.samples == 501
    assert found.reward == pytest.approx(table.reward, abs=1e-12) and found.walks == table.walks
    np.testing.assert_allclose(found.margins, table.margins, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["queue", "garnet", "media", "inventory"])
def test_intervals_cover_the_exact_values_as_often_as_they_say(name: str) -> None:
    """The share of 400 intervals that cover is binomial: within five standard deviations of the nominal 0.9."""
    cmdp = ib.zoo.make(name)
    policy = ib.Policy.from_occupancy(cmdp, np.random.default_rng(0).exponential(size=cmdp.shape))
    exact, simulator, runs = ib.evaluate(cmdp, policy), cmdp.simulator(), 400
    truth = np.array([exact.reward, *exact.margins])
    covered, means = np.zeros(truth.size), np.zeros((runs, truth.size))
    for seed in range(runs):
        found = ib.estimate(simulator, policy, samples=3_000, seed=seed, confidence=0.9)
        intervals = np.vstack([found.reward_interval, found.margins_interval])
        covered += (intervals[:, 0] <= truth) & (truth <= intervals[:, 1])
        means[seed] = found.reward, *found.margins
    assert np.all(np.abs(covered / runs - 0.9) < 5 * math.sqrt(0.9 * 0.1 / runs))
    errors = means.std(axis=0) / math.sqrt(runs)
    assert np.all(np.abs(means.mean(axis=0) - truth) < 5 * errors + 1e-12)


def test_a_budget_about_as_long_as_a_walk_leaves_no_bias_but_what_lies_beyond_it() -> None:
    """Budget 12 at discount 0.9, walks of ten steps on average: the mean over 2000 seeds is that of twelve steps."""
    cmdp = halves(discount=0.9)
    policy, simulator = ib.Policy.uniform(cmdp), cmdp.simulator()
    found = np.array([ib.estimate(simulator, policy, samples=12, seed=seed).reward for seed in range(2000)])
    error = found.std() / math.sqrt(found.size)
    assert abs(found.mean() - first_steps(cmdp, policy, 12)[0]) < 5 * error < 0.1
    assert abs(found.mean() - ib.evaluate(cmdp, policy).reward) > 5 * error  # 0.9^12 of the range is missing


def test_so_few_samples_that_a_part_of_the_value_is_beyond_them_are_told() -> None:
    """1 - .9^12 of the value, and 1 - .9^65 = .99894, are within so many; with a horizon all is."""
    cmdp, media = halves(discount=0.9), ib.zoo.media()
    policy, simulator = ib.Policy.uniform(cmdp), cmdp.simulator()
    few, most = (ib.estimate(simulator, policy, samples=samples) for samples in (12, 65))
    assert few.covered == pytest.approx(1 - 0.9**12) and most.covered == pytest.approx(1 - 0.9**65)
    assert "12 samples have 71.76 % of what a value counts" in str(few).replace("\n", " ")
    assert "65 samples have 99.89 %" in str(most).replace("\n", " ")
    assert "1 sample has 10 %" in str(ib.estimate(simulator, policy, samples=1))
    for enough in (
        ib.estimate(simulator, policy, samples=66),
        ib.estimate(media.simulator(), ib.Policy.uniform(media), samples=10),
    ):
        assert "what a value counts" not in str(enough) and enough.covered >= 0.999


def test_episodes_that_fit_are_all_whole() -> None:
    media = ib.zoo.media()
    found = ib.estimate(media.simulator(), ib.Policy.uniform(media), samples=1_009, seed=0)
    assert found.samples == 1_000 and found.walks == 100 and found.total_reward == found.reward
    alone = ib.estimate(media.simulator(), ib.Policy.uniform(media), samples=10, seed=0)
    assert alone.walks == 1 and alone.reward_error == math.inf and alone.reward_interval[1] == math.inf


def test_units_seeds_and_kinds() -> None:
    queue = ib.zoo.queue()
    policy, simulator = ib.Policy.uniform(queue), queue.simulator()
    found = ib.estimate(simulator, policy, samples=2_000, seed=7)
    again = ib.estimate(simulator, policy, samples=2_000, seed=np.random.SeedSequence(7))
    assert found.reward == again.reward and np.array_equal(found.margins, again.margins)
    assert found.reward != ib.estimate(simulator, policy, samples=2_000, seed=8).reward
    assert found.kind == "estimate" and found.samples == 2_000
    assert found.total_reward == pytest.approx(2 * found.reward) and np.allclose(found.total_margins, 2 * found.margins)
    half = np.ptp(found.reward_interval) / 2
    assert half == pytest.approx(1.96 * found.reward_error, rel=2e-2)
    text = str(found)
    assert all(word in text for word in ("service", "flow", "standard error", "0.95 interval"))
    # Other units of reward and signals: the same walks, so the same estimate in those units.
    stretched = ib.CMDP(
        offsets=queue.offsets,
        transition=queue.transition,
        reward=100.0 - 7.0 * queue.reward,
        constraints=tuple(
            ib.Constraint(3.0 * c.signal, at_least=3.0 * c.bound, name=c.name) for c in queue.constraints
        ),
        initial=queue.initial,
        discount=queue.discount,
    )
    other = ib.estimate(stretched.simulator(), ib.Policy(stretched.pairs, policy.probabilities), samples=2_000, seed=7)
    np.testing.assert_allclose(other.margins, 3.0 * found.margins, rtol=1e-12)
    np.testing.assert_allclose(other.margins_error, 3.0 * found.margins_error, rtol=1e-9)
    exact = ib.evaluate(stretched, policy).reward
    assert abs(other.reward - exact) < 5 * other.reward_error


@pytest.mark.parametrize("criterion", [{"discount": 0.95}, {"horizon": 4}])
def test_the_level_of_the_reward_costs_nothing_in_the_user_s_own_units_either(criterion: dict[str, Any]) -> None:
    """(It was counted from 0 there: 20 samples said 640 in the mean, and the value is between 1000 and 1001.)"""
    near = ib.CMDP(
        offsets=[0, 2, 3],
        transition=[[0.5, 0.5], [0.2, 0.8], [0.6, 0.4]],
        reward=[1000.0, 1001.0, 1000.5],
        constraints=[ib.Constraint([2.0, -1.0, 0.5], at_least=0.0, name="c")],
        initial=[0.5, 0.5],
        **criterion,
    )
    uniform, samples, seeds = ib.Policy.uniform(near), 20, 400
    exact, found = ib.evaluate(near, uniform), []
    for seed in range(seeds):
        given, scaled = (
            ib.estimate(near.simulator(scale), uniform, samples=samples, seed=seed) for scale in (False, True)
        )
        assert given.reward == pytest.approx(scaled.reward, rel=1e-12)
        assert given.reward_error == pytest.approx(scaled.reward_error, rel=1e-9)
        np.testing.assert_allclose(given.margins, scaled.margins, rtol=1e-9, atol=1e-12)
        found.append(given.reward)
    # Above its least value an estimate is at most 1 - discount for each sample, or 1 for each step of an episode: by
    # Hoeffding their mean is further than this from its own expectation with probability 1e-9. That is off by what
    # comes after the samples.
    discount, horizon = criterion.get("discount", 0.0), criterion.get("horizon", 0)
    width = horizon or (1.0 - discount) * samples
    tolerance = width * math.sqrt(math.log(2e9) / (2 * seeds)) + discount**samples
    assert abs(np.mean(found) - exact.reward) <= tolerance < 1.0


def test_a_constant_reward_has_no_error() -> None:
    cmdp = halves()
    cmdp = ib.CMDP(
        offsets=cmdp.offsets,
        transition=cmdp.transition,
        reward=[4.0] * 4,
        constraints=(),
        initial=cmdp.initial,
        discount=0.5,
    )
    found = ib.estimate(cmdp.simulator(), ib.Policy.uniform(cmdp), samples=100)
    assert found.reward == 4.0 and found.reward_error == 0.0 and found.margins.shape == (0,)


@pytest.mark.parametrize("confidence", [0.5, 1.0 - 1e-15, 1.0 - 2.0**-53])
def test_intervals_are_finite_however_sure_they_are_to_be(confidence: float) -> None:
    """Where nothing is random they are a point; the next confidence is 1, which is refused."""
    still = ib.CMDP([0, 1], [[1.0]], [0.5], [ib.Constraint([0.3], at_most=0.4, name="c")], [1.0], discount=0.0)
    found = ib.estimate(still.simulator(), ib.Policy.uniform(still), samples=10, confidence=confidence)
    assert found.reward_interval.tolist() == [0.5, 0.5] and np.allclose(found.margins_interval, 0.1)
    queue = ib.zoo.queue()
    found = ib.estimate(queue.simulator(), ib.Policy.uniform(queue), samples=500, confidence=confidence)
    exact = ib.evaluate(queue, ib.Policy.uniform(queue)).reward
    assert np.all(np.isfinite(found.margins_interval)) and np.all(np.isfinite(found.reward_interval))
    assert confidence == 0.5 or found.reward_interval[0] < exact < found.reward_interval[1]


def test_wrong_input_is_refused_by_name() -> None:
    queue, media, admission = ib.zoo.queue(), ib.zoo.media(), ib.zoo.admission()
    uniform = ib.Policy.uniform(queue)
    for problem, policy, more, message in (
        (queue, uniform, {"samples": 10}, "simulator must be an ib.Simulator, found CMDP"),
        (queue.simulator(), uniform, {"samples": 0}, "samples must be a whole number of at least 1, found 0"),
        (queue.simulator(), uniform, {"samples": 9, "confidence": 1.0}, "confidence must be a probability"),
        (queue.simulator(), uniform, {"samples": 9, "seed": -1}, "seed must be a whole number"),
        (queue.simulator(), "wait", {"samples": 9}, "policy must be an ib.Policy, found str"),
        (media.simulator(), uniform, {"samples": 99}, "does not belong to this problem"),
        (media.simulator(), ib.Policy.uniform(media), {"samples": 9}, "at least 10, the steps of one episode, found 9"),
        (admission.simulator(), ib.Policy.uniform(admission), {"samples": 9}, "a long-run average is not the mean of"),
    ):
        with pytest.raises(ib.InvalidInput, match=message):
            ib.estimate(problem, policy, **more)


@pytest.mark.parametrize("name", ["queue", "media"])
def test_a_time_limit_gives_the_estimate_so_far_and_progress_changes_nothing(name: str) -> None:
    problem, seen = ib.zoo.make(name), []
    uniform = ib.Policy.uniform(problem)
    whole = ib.estimate(problem.simulator(), uniform, samples=3_000, seed=1, progress=seen.append)
    assert (whole.status, whole.samples, seen[-1]) == ("done", 3_000, 3_000)
    some = ib.estimate(problem.simulator(), uniform, samples=10**12, seed=1, time_limit=0.05)
    assert some.status == "time limit" and 0 < some.samples < 10**12
    same = ib.estimate(problem.simulator(), uniform, samples=10**12, seed=1, time_limit=1e-9)
    assert same.walks >= 1 and same.status == "time limit"
