"""Proofs from samples alone: how often they are wrong, what they spend, and in whose units they are."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import inbounds as ib
import reference
from inbounds.errors import InvalidInput
from inbounds.problem.pieces import Draws
from inbounds.proofs.evidence import Evidence
from inbounds.proofs.samples import certify_by_samples
from inbounds.proofs.walks import guess_from_model, walk_for_evidence
from test_walks import HALF_HALF, SMALL, small_problem

# Twin of the model's draws: with it, a user's simulator sees the same random numbers as the table does.


def inverted(probabilities: Sequence[float], u: float) -> int:
    cumulative = np.cumsum(probabilities)
    cumulative[cumulative == cumulative[-1]] = 1.0
    return int(np.argmax(cumulative > u))


def as_user_simulator(cmdp: ib.CMDP, count: Callable[[], None] = lambda: None) -> ib.Simulator:
    """The same problem behind a step function that calls `count` at every sample."""
    transition, pairs = cmdp.transition.toarray(), cmdp.pairs

    def step(state: Any, action: Any, rng: np.random.Generator) -> tuple[Any, float, list[float]]:
        count()
        pair = int(pairs.offsets[state]) + list(pairs.actions[pairs.offsets[state] : pairs.offsets[state + 1]]).index(
            action
        )
        after = inverted(transition[pair], rng.random())
        return after, float(cmdp.reward[pair]), [float(c.signal[pair]) for c in cmdp.constraints]

    return ib.Simulator(
        step,
        start=lambda rng: inverted(cmdp.initial, rng.random()),
        states=cmdp.n_states,
        actions=lambda state: [int(a) for a in pairs.actions[pairs.offsets[state] : pairs.offsets[state + 1]]],
        discount=cmdp.discount,
        reward_range=(cmdp.reward.min(), cmdp.reward.max()),
        constraints=[ib.Constraint(at_least=c.at_least, at_most=c.at_most, name=c.name) for c in cmdp.constraints],
        signal_ranges=[(c.signal.min(), c.signal.max()) for c in cmdp.constraints],
    )


def coin(bias: float = 0.5, discount: float = 0.5) -> tuple[ib.CMDP, ib.Policy]:
    """State 1 with probability `bias` at every step; the margin is +1 there and -1 in state 0: its value 2 bias - 1."""
    cmdp = ib.CMDP(
        offsets=[0, 1, 2],
        transition=[[1 - bias, bias]] * 2,
        reward=[0.0, 1.0],
        constraints=(ib.Constraint([-1.0, 1.0], at_least=0.0, name="coin"),),
        initial=[1 - bias, bias],
        discount=discount,
    )
    return cmdp, ib.Policy.uniform(cmdp)


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("guess", [0.0, 3.0, -3.0])
def test_a_simulator_at_the_extremes_of_its_ranges_leaves_the_capital_positive(discount: float, guess: float) -> None:
    """Every sample as bad as the ranges allow, then every sample as good; guesses far off in both directions."""
    for worst in (True, False):
        simulator = ib.Simulator(
            lambda state, action, rng, worst=worst: (0, 0.0, [-2.0]) if worst else (1, 1.0, [5.0]),
            start=lambda rng: int(rng.random() < 0.5),
            states=2,
            actions=[0],
            discount=discount,
            reward_range=(0.0, 1.0),
            constraints=[ib.Constraint(at_least=0.0, name="extreme")],
            signal_ranges=[(-2.0, 5.0)],
        )
        values = np.array([[guess, 0.0], [0.0, guess]])
        cert = certify_by_samples(ib.Policy.uniform(simulator), simulator, samples=3000, seed=0, value=values)
        assert np.isfinite(cert.margins_lower[0]) and np.isfinite(cert.reward_lower)
        assert cert.in_bounds == (not worst)
        assert -2.0 <= cert.margins_lower[0] <= (-2.0 if worst else 5.0)
        assert 0.0 <= cert.reward_lower <= (0.0 if worst else 1.0)


def false_certificates(repetitions: int, samples: int, value: Any) -> int:
    """How often a policy whose margin is exactly zero is certified at 95 % by samples looked at after every walk."""
    cmdp, policy = coin()
    simulator = cmdp.simulator()
    assert abs(ib.evaluate(cmdp, policy).margins[0]) < 1e-15
    return sum(
        certify_by_samples(policy, simulator, confidence=0.95, samples=samples, seed=seed, value=value).in_bounds
        for seed in range(repetitions)
    )


def out_by_a_little() -> ib.CMDP:
    """Fair coin flips whose one policy has the margin -0.05."""
    return ib.CMDP(
        offsets=[0, 1, 2],
        transition=np.full((2, 2), 0.5),
        reward=[0.0, 1.0],
        constraints=[ib.Constraint([1.0, -1.0], at_least=0.05, name="c")],
        initial=[0.5, 0.5],
        discount=0.9,
    )


@pytest.mark.parametrize("guess", [sign * 10.0**power for power in (-6, -3, 0, 2, 3, 4, 6) for sign in (1.0, -1.0)])
def test_guesses_far_off_certify_no_policy_that_is_out_of_bounds(guess: float) -> None:
    """200 runs at 99 % with guesses of 100 and more below: at most 6 false certificates (P(7 or more) < .005)."""
    cmdp, runs = out_by_a_little(), 200 if guess in (-1e2, -1e3, -1e4) else 20
    simulator, policy = cmdp.simulator(), ib.Policy.uniform(cmdp)
    value = np.array([[0.5, 0.5], [guess, guess]])
    certs = [ib.certify(policy, simulator, samples=3000, seed=seed, value=value) for seed in range(runs)]
    assert sum(cert.in_bounds for cert in certs) <= 0.01 * runs + 3 * math.sqrt(runs * 0.01 * 0.99)
    assert all(cert.margins_lower[0] >= -1.05 for cert in certs)


@pytest.mark.parametrize("guess", [1e100, -1e100, 1e4, -1e4, 1e-300])
def test_guesses_far_off_for_a_users_simulator_and_as_models(guess: float) -> None:
    cmdp = out_by_a_little()
    user = as_user_simulator(cmdp, lambda: None)
    for value in (
        np.full((2, 2), guess),
        dataclasses.replace(cmdp, reward=[guess, -guess]),
        dataclasses.replace(cmdp, constraints=[ib.Constraint([guess, guess / 2], at_least=0.0, name="c")]),
    ):
        cert = ib.certify(ib.Policy.uniform(cmdp), user, samples=500, seed=1, value=value)
        assert ("(value= is beyond the declared ranges in " in str(cert)) == (abs(guess) > 1.0)
        assert not cert.in_bounds and np.isfinite(cert.reward_lower) and cert.samples == 500


@pytest.mark.parametrize("value", [np.zeros((2, 2)), coin()[0], None], ids=["none", "exact", "pilot"])
def test_peeking_at_every_sample_does_not_certify_too_often(value: Any) -> None:
    repetitions = 300
    limit = repetitions * 0.05 + 3 * math.sqrt(repetitions * 0.05 * 0.95)
    assert false_certificates(repetitions, 2000, value) <= limit


def test_a_policy_out_of_bounds_is_not_certified() -> None:
    """Each of 100 runs may fail with probability at most 1e-4, so all pass with probability at least 0.99."""
    queue = ib.zoo.queue()
    reckless = ib.solve(queue.tightened(-0.1)).policy
    assert not ib.evaluate(queue, reckless).in_bounds
    simulator = queue.simulator()
    for seed in range(100):
        cert = certify_by_samples(reckless, simulator, confidence=0.9999, samples=5000, seed=seed)
        assert not cert.in_bounds
        assert cert.samples == 5000


def test_bounds_hold_at_once_and_are_close_when_the_budget_is_spent() -> None:
    """A tight policy spends everything. All bounds must hold in all but 1 % of runs; 40 runs: at most 3 (P < 1e-3)."""
    queue = ib.zoo.queue()
    best = ib.solve(queue)
    wrong = 0
    for seed in range(40):
        cert = certify_by_samples(best.policy, queue.simulator(), samples=20_000, seed=seed, value=queue)
        wrong += bool(np.any(cert.margins_lower > best.margins) or cert.reward_lower > best.reward)
        assert np.all(cert.margins_lower > best.margins - 0.02 * queue.margin_scales)
        assert cert.reward_lower > best.reward - 0.02 * 5
    assert wrong <= 3


def test_the_control_variate_saves_samples() -> None:
    """The plain estimator is the margin at the last pair of a walk; benchmarks/betting.py has the full comparison."""
    queue = ib.zoo.queue()
    policy = ib.solve(queue.tightened(0.02 * queue.margin_scales)).policy
    spent = {}
    for name, value in (("none", np.zeros((3, queue.n_pairs))), ("pilot", None)):
        certs = [
            certify_by_samples(policy, queue.simulator(), samples=100_000, seed=seed, value=value) for seed in range(5)
        ]
        assert all(cert.in_bounds for cert in certs)
        spent[name] = np.median([cert.samples for cert in certs])
    assert spent["none"] > 3 * spent["pilot"]


@pytest.mark.parametrize("value", ["pilot", "model", "array"])
def test_a_users_simulator_gives_the_same_certificate_and_every_sample_is_counted(value: str) -> None:
    calls = [0]

    def count() -> None:
        calls[0] += 1

    guess = {"pilot": None, "model": SMALL, "array": np.full((3, 3), 0.1)}[value]
    user = as_user_simulator(SMALL, count)
    for samples in (1, 7, 2000):
        calls[0] = 0
        mine = certify_by_samples(HALF_HALF, user, samples=samples, seed=4, value=guess)
        table = certify_by_samples(HALF_HALF, SMALL.simulator(), samples=samples, seed=4, value=guess)
        assert calls[0] == mine.samples == table.samples <= samples
        np.testing.assert_allclose(mine.margins_lower, table.margins_lower, rtol=0, atol=1e-12)
        assert abs(mine.reward_lower - table.reward_lower) < 1e-12


def test_random_rewards_and_signals_are_expected_and_proved() -> None:
    """One state; the signal is +1 or -1 with mean 0.2, the reward 0 or 1 with mean 0.6."""
    simulator = ib.Simulator(
        lambda state, action, rng: (0, float(rng.random() < 0.6), [1.0 if rng.random() < 0.6 else -1.0]),
        start=lambda rng: 0,
        states=1,
        actions=["go"],
        discount=0.75,
        reward_range=(0, 1),
        constraints=[ib.Constraint(at_least=0.0, name="noisy")],
        signal_ranges=[(-1, 1)],
    )
    policy = ib.Policy.uniform(simulator)
    evidence = Evidence(simulator)
    evidence.add_starts(Draws(0), 10)
    walk_for_evidence(policy, evidence, 4000, Draws(0))
    guess = guess_from_model(evidence.model(), policy, evidence.signal_variance)
    # A walk adds (1 - g) times the noise of each step, and has 1 / (1 - g) steps on average.
    np.testing.assert_allclose(guess.step_variance, 0.25 * np.array([0.24, 0.96]), rtol=0.05)
    cert = certify_by_samples(policy, simulator, samples=6000, seed=1)
    assert cert.in_bounds and cert.samples < 6000 and 0.0 <= cert.margins_lower[0] <= 0.2
    assert cert.reward_lower <= 0.6


RARE = [
    (0.9, 1e-3, 1.0, 3.0),
    (0.8, 2e-3, 1.0, 2.0),
    (0.5, 5e-3, 1.0, 2.0),
    (0.9, 1e-3, 0.2, 3.0),
    (0.95, 3e-3, 0.3, 2.0),
]


@pytest.mark.parametrize("breakdown", RARE)
def test_what_happens_hardly_ever_and_costs_much_is_proved_with_few_samples(breakdown: tuple[float, ...]) -> None:
    """Each breakdown takes a walk far down; the samples are no more than without a guess, and hardly those of twins.

    (With the floor at eight standard deviations, and the worst in the place of what comes below it, no number did.)
    """
    cmdp, hurry, margin = reference.breakdowns(*breakdown)
    simulator, zeros = cmdp.simulator(), np.zeros((2, cmdp.n_pairs))
    assert ib.evaluate(cmdp, hurry).margins[0] == pytest.approx(margin)
    for value in (None, cmdp):
        certs = [certify_by_samples(hurry, simulator, samples=300_000, seed=seed, value=value) for seed in range(4)]
        plain = [certify_by_samples(hurry, simulator, samples=300_000, seed=seed, value=zeros) for seed in range(4)]
        assert all(cert.in_bounds and 0.0 <= cert.margins_lower[0] <= margin for cert in certs)
        assert np.median([cert.samples for cert in certs]) < np.median([cert.samples for cert in plain])


def test_a_rare_cost_of_a_step_of_ones_own_is_proved_with_few_samples() -> None:
    """One state; a claim of 1 in one step of a thousand, at most three allowed."""
    simulator = ib.Simulator(
        lambda state, action, rng: (0, 1.0, [float(rng.random() < 1e-3)]),
        start=lambda rng: 0,
        states=1,
        actions=["insure"],
        discount=0.9,
        reward_range=(0, 1),
        constraints=[ib.Constraint(at_most=3e-3, name="claims")],
        signal_ranges=[(0, 1)],
    )
    policy = ib.Policy.uniform(simulator)
    default = certify_by_samples(policy, simulator, samples=200_000, seed=1)
    zeros = certify_by_samples(policy, simulator, samples=200_000, seed=1, value=np.zeros((2, 1)))
    assert default.in_bounds and (not zeros.in_bounds or default.samples < zeros.samples)


def test_the_same_seed_gives_the_same_certificate_and_another_seed_another() -> None:
    queue = ib.zoo.queue()
    policy = ib.solve(queue.tightened(0.05)).policy
    certs = [certify_by_samples(policy, queue.simulator(), samples=50_000, seed=seed) for seed in (1, 1, 2)]
    assert certs[0].samples == certs[1].samples != certs[2].samples
    assert np.array_equal(certs[0].margins_lower, certs[1].margins_lower)
    assert certs[0].samples < 50_000  # it stops when it is settled


def test_units_are_the_users() -> None:
    """Signals times 10 and rewards moved: bounds follow, samples do not change."""
    scaled = ib.CMDP(
        offsets=SMALL.offsets,
        transition=SMALL.transition,
        reward=100.0 + 8.0 * SMALL.reward,
        constraints=tuple(
            ib.Constraint(-4.0 * c.signal, at_most=-4.0 * c.bound, name=c.name) for c in SMALL.constraints
        ),
        initial=SMALL.initial,
        discount=SMALL.discount,
    )
    mine = certify_by_samples(HALF_HALF, SMALL.simulator(), samples=5000, seed=0)
    other = certify_by_samples(HALF_HALF, scaled.simulator(), samples=5000, seed=0)
    assert mine.samples == other.samples
    np.testing.assert_allclose(other.margins_lower, 4.0 * mine.margins_lower, rtol=1e-9)
    assert abs(other.reward_lower - (100.0 + 8.0 * mine.reward_lower)) < 1e-6


def test_without_constraints_all_samples_go_to_the_reward() -> None:
    free = small_problem(n_constraints=0)
    cert = certify_by_samples(HALF_HALF, free.simulator(), samples=20_000, seed=0)
    truth = ib.evaluate(free, HALF_HALF).reward
    assert cert.in_bounds and cert.samples == 20_000 and cert.margins_lower.shape == (0,)
    assert truth - 0.1 * np.ptp(free.reward) < cert.reward_lower < truth


def test_margins_that_cannot_be_negative_need_no_luck() -> None:
    always = ib.CMDP(
        offsets=[0, 1],
        transition=[[1.0]],
        reward=[1.0],
        constraints=(ib.Constraint([2.0], at_least=0.0, name="always"),),
        initial=[1.0],
        discount=0.9,
    )
    cert = certify_by_samples(ib.Policy.uniform(always), always.simulator(), samples=500, seed=0)
    assert cert.in_bounds and cert.samples < 500


def test_progress_counts_up_to_the_samples_spent() -> None:
    seen: list[int] = []
    cmdp, policy = coin()
    cert = certify_by_samples(policy, cmdp.simulator(), samples=5000, seed=0, progress=seen.append)
    assert seen[-1] == cert.samples


@pytest.mark.parametrize("confidence", [0.0, 1.0, -0.1, 99, "high", None, math.nan])
def test_a_confidence_outside_0_1_is_refused(confidence: Any) -> None:
    cmdp, policy = coin()
    with pytest.raises(InvalidInput, match="confidence must be a probability between 0 and 1"):
        certify_by_samples(policy, cmdp.simulator(), confidence=confidence, samples=10)


def test_wrong_input_is_refused_by_name() -> None:
    cmdp, policy = coin()
    simulator = cmdp.simulator()
    for arguments, message in (
        ({"samples": 0}, "samples must be a whole number of at least 1, found 0"),
        ({"samples": 2.5}, "samples must be a whole number"),
        ({"samples": 10, "seed": -1}, "seed must be a whole number"),
        ({"samples": 10, "value": np.zeros(2)}, r"shape \[K \+ 1, n\] = \(2, 2\), the reward first"),
        ({"samples": 10, "value": np.full((2, 2), np.nan)}, "finite numbers"),
        ({"samples": 10, "value": [[1, 2], [3, 10**400]]}, "value, where it is no CMDP, must be numbers"),
        ({"samples": 10, "value": [[1, 2], [3]]}, "value, where it is no CMDP, must be numbers"),
        ({"samples": 10, "value": np.full((2, 2), np.inf)}, "finite numbers"),
        ({"samples": 10, "value": "model"}, "value, where it is no CMDP, must be numbers"),
        ({"samples": 10, "value": SMALL}, "value must be a model of the same problem"),
    ):
        with pytest.raises(InvalidInput, match=message):
            certify_by_samples(policy, simulator, **arguments)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="does not belong to this problem"):
        certify_by_samples(HALF_HALF, simulator, samples=10)
    with pytest.raises(InvalidInput, match="simulator must be"):
        certify_by_samples(policy, cmdp, samples=10)  # type: ignore[arg-type]


def test_certificates_are_the_same_whatever_units_learners_see() -> None:
    """A simulator in the user's units is scaled for the proof: its rewards and margins may be of any size."""
    big = SMALL.asking(
        reward=5.0 + 100.0 * SMALL.reward,
        constraints=[ib.Constraint(70.0 * c.signal, at_least=70.0 * c.bound, name=c.name) for c in SMALL.constraints],
    )
    one, other = (ib.certify(HALF_HALF, big.simulator(scale), samples=5_000, seed=1) for scale in (True, False))
    assert one.to_dict() == other.to_dict()
    with_guess = [ib.certify(HALF_HALF, big.simulator(s), samples=5_000, seed=1, value=big) for s in (True, False)]
    assert with_guess[0].to_dict() == with_guess[1].to_dict()


@pytest.mark.parametrize("high", [1.03, 1.0, 0.3, 7.7, 1e6 / 3.0])
def test_what_the_range_alone_says_is_its_end_in_the_users_units(high: float) -> None:
    """(Scaled and back, -0.9 was -0.8999999999999999: a bound above the truth.)"""
    for low in (-0.9, -0.1, -1.7, -math.pi):
        simulator = ib.Simulator(
            lambda state, action, rng, low=low: (0, 0.0, [low]),
            lambda rng: 0,
            states=1,
            actions=["a"],
            discount=0.5,
            reward_range=(0, 1),
            constraints=[ib.Constraint(at_least=0.0, name="c")],
            signal_ranges=[(low, high)],
        )
        found = ib.certify(ib.Policy.uniform(simulator), simulator, samples=100, seed=0)
        assert found.margins_lower.tolist() == [low] and not found.in_bounds
