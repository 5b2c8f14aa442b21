"""CRPO: TD(0) by enumeration, an iteration by hand, whole runs against dense transcriptions and the optimum.

Every statistical test says how often it would fail by chance if its seeds were drawn anew; the seeds are the first
ones, not chosen.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms.crpo import Constants, State, advance, end_iteration, formulas, prepare
from inbounds.algorithms.known import in_scaled_units
from inbounds.numerics.compiled import interpreted
from naive_cspda import Dense, dense, ragged

QUEUE = ib.zoo.queue()
SMALL = ib.zoo.garnet(states=4, actions=3, successors=2, constraints=2, discount=0.7, seed=1)
FIRST_STARTS = 1000


class Uniforms:
    """A generator that gives chosen numbers, then fails."""

    def __init__(self, *numbers: float) -> None:
        self.numbers = list(numbers)

    def random(self) -> float:
        return self.numbers.pop(0)


def prepared(cmdp: ib.CMDP, settings: ib.CRPO, samples: int, seed: int = 0) -> tuple[State, Constants, Any, Any]:
    simulator, rng = cmdp.simulator(), np.random.default_rng(seed)
    start = prepare(settings, simulator, samples, rng)
    return start.state, start.constants, simulator.open(), rng


def softmax(d: Dense, logits: np.ndarray) -> np.ndarray:
    """The policy [n] of logits [n]."""
    weights = np.exp(logits - np.array([logits[d.state == s].max() for s in d.state]))
    return weights / (np.bincount(d.state, weights)[d.state])


def signals_of(d: Dense) -> np.ndarray:
    return np.column_stack([d.r, d.g])  # [n, 1 + K]


def exact_values(d: Dense, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q [n, 1 + K] and V [S, 1 + K], not normalised, and the occupancy [n], by dense solves."""
    choose = (np.arange(len(d.rho))[:, None] == d.state) * policy
    chain = np.eye(len(d.rho)) - d.gamma * choose @ d.P
    V = np.linalg.solve(chain, choose @ signals_of(d))
    time = (1.0 - d.gamma) * np.linalg.solve(chain.T, d.rho)
    return signals_of(d) + d.gamma * d.P @ V, V, time[d.state] * policy


# ---- TD(0)


def random_point(cmdp: ib.CMDP, drawn: int) -> tuple[State, Constants, Any, Dense]:
    """Some policy, some values, in the midst of an iteration; `drawn` is odd in a step of the walk."""
    state, constants, world, _ = prepared(cmdp, ib.CRPO(inner=10**6), 10**6)
    d, rng = dense(cmdp), np.random.default_rng(7)
    state.policy[:] = softmax(d, rng.normal(size=cmdp.n_pairs))
    state.pair_values[:] = rng.normal(size=state.pair_values.shape)
    for s in range(cmdp.n_states):
        state.state_values[s] = state.policy[d.state == s] @ state.pair_values[d.state == s]
    state.tries[:] = rng.integers(0, 9, cmdp.n_pairs)
    state.counts[:2] = drawn
    return state, constants, world, d


def copy_of(state: State) -> State:
    return State(*(array.copy() for array in state))


@pytest.mark.parametrize("position", [-1, 2])
@pytest.mark.parametrize("cmdp", [ragged(2), ragged(0), SMALL], ids=["ragged2", "ragged0", "small"])
def test_a_step_of_the_walk_is_td_on_the_policy(cmdp: ib.CMDP, position: int) -> None:
    """Over all (start, action, next state): the expected change of Q is the chance of the pair times beta times its
    Bellman residual; and V stays sum_a pi Q."""
    before, constants, world, d = random_point(cmdp, drawn=1)
    before.position[0] = position
    step = interpreted(advance)
    here = d.rho if position < 0 else np.eye(cmdp.n_states)[position]
    ends_of_rho, ends_of_rows = np.cumsum(d.rho), np.cumsum(d.P, axis=1)
    mean, mass = np.zeros_like(before.pair_values), 0.0
    for k in range(cmdp.n_pairs):
        s = d.state[k]
        own = np.flatnonzero(d.state == s)
        below = before.policy[own[own < k]].sum()
        for after in np.flatnonzero(d.P[k]):
            probability = here[s] * before.policy[k] * d.P[k, after]
            if probability == 0.0:
                continue
            state = copy_of(before)
            uniforms = Uniforms(
                *([ends_of_rho[s] - d.rho[s] / 2.0] if position < 0 else []),
                below + before.policy[k] / 2.0,
                ends_of_rows[k, after] - d.P[k, after] / 2.0,
                0.5 * ends_of_rho[0],  # a start, counted
                d.gamma / 2.0,  # the walk goes on
            )
            assert step(state, constants, world, uniforms, 1, 2) == 2 and not uniforms.numbers
            assert state.position[0] == after and state.visits[s] == 1 == state.visits.sum()
            assert state.starts[0] == 1 == state.starts.sum()
            for other in range(cmdp.n_states):
                expected = state.policy[d.state == other] @ state.pair_values[d.state == other]
                np.testing.assert_allclose(state.state_values[other], expected, rtol=0.0, atol=1e-12)
            mean += probability * (state.pair_values - before.pair_values)
            mass += probability
    assert mass == pytest.approx(1.0, abs=1e-12)
    residual = signals_of(d) + d.gamma * d.P @ before.state_values - before.pair_values
    chance = here[d.state] * before.policy
    expected = (chance / np.sqrt(1.0 + (1.0 - d.gamma) * before.tries))[:, None] * residual
    np.testing.assert_allclose(mean, expected, rtol=0.0, atol=1e-12)


def test_the_exact_values_are_where_td_rests() -> None:
    """Pairs in turn: over the next states of each, the expected change vanishes at the exact values, and only there."""
    cmdp = ragged(2)
    step = interpreted(advance)
    for shift in (0.0, 0.1):
        before, constants, world, d = random_point(cmdp, drawn=0)
        Q, V, _ = exact_values(d, before.policy)
        before.pair_values[:], before.state_values[:] = Q + shift, V + shift
        for k in range(cmdp.n_pairs):
            before.counts[0] = 2 * (k + 3 * cmdp.n_pairs)  # its turn, a few rounds on
            change = np.zeros(3)
            for after in np.flatnonzero(d.P[k]):
                state = copy_of(before)
                middle = np.cumsum(d.P[k])[after] - d.P[k, after] / 2.0
                step(state, constants, world, Uniforms(middle, 0.1), 0, 1)
                assert state.tries[k] == before.tries[k] + 1 and not state.visits.any()
                change += d.P[k, after] * (state.pair_values[k] - before.pair_values[k])
            expected = -shift * (1.0 - d.gamma) / math.sqrt(1.0 + (1.0 - d.gamma) * before.tries[k])
            np.testing.assert_allclose(change, expected, rtol=0.0, atol=1e-12)


def test_estimates_approach_the_exact_values() -> None:
    """A policy that hardly moves: after 400,000 samples Q is off by at most 5 standard deviations of its noise.

    With a rate of beta the noise of Q is about sqrt(beta / 2) times that of a target, which is at most half of gamma
    times the range of V; and the noise of other pairs, which the targets carry on, multiplies it by at most
    1 / (1 - gamma).
    """
    cmdp = ragged(2)
    state, constants, world, rng = prepared(cmdp, ib.CRPO(step=1e-9, inner=1000, values="carried over"), 400_000)
    advance(state, constants, world, rng, 0, 400_000)
    d = dense(cmdp)
    Q, V, _ = exact_values(d, np.array(ib.Policy.uniform(cmdp).probabilities))
    assert np.all(state.tries > 10_000)
    beta = 1.0 / np.sqrt((1.0 - d.gamma) * state.tries.min())
    noise = np.sqrt(beta / 2.0) * 0.5 * d.gamma * np.ptp(V, axis=0) / (1.0 - d.gamma)
    assert np.all(np.abs(state.pair_values - Q).max(axis=0) < 5.0 * noise)
    assert np.all(5.0 * noise < 0.5 * np.abs(Q).max(axis=0))  # and that says something


# ---- walks and the mixture


def test_walks_visit_states_as_the_occupancy_does() -> None:
    """Over 40 seeds of 20,000 samples, half of them walks, within 4 standard errors: 5 tests, false alarm 0.1 %."""
    cmdp = ragged(2)
    d = dense(cmdp)
    expected = np.bincount(d.state, exact_values(d, np.array(ib.Policy.uniform(cmdp).probabilities))[2])
    shares = []
    for seed in range(40):
        state, constants, world, rng = prepared(cmdp, ib.CRPO(inner=20_001), 20_001, seed)
        advance(state, constants, world, rng, 0, 20_000)
        assert state.visits.sum() == 10_000
        shares.append(state.visits / 10_000)
    shares = np.array(shares)
    error = shares.std(axis=0, ddof=1) / math.sqrt(len(shares))
    assert np.all(np.abs(shares.mean(axis=0) - expected) < 4.0 * error)
    assert np.max(np.abs(d.rho - expected) / error) > 20.0  # starts alone would not pass


@pytest.mark.parametrize(("margins", "least", "chosen"), [
    ([0.2, 0.1], 0.0, 0),
    ([0.2, -0.1], 0.0, 2),
    ([-0.2, -0.1], 0.0, 1),  # the most violated
    ([-0.2, -0.1], -0.3, 0),  # within the tolerance
    ([0.2, 0.1], 0.15, 2),  # short of kappa
])  # fmt: skip
def test_what_an_iteration_improves(margins: list[float], least: float, chosen: int) -> None:
    cmdp = ragged(2)
    d, rng = dense(cmdp), np.random.default_rng(0)
    state, constants, world, _ = prepared(cmdp, ib.CRPO(step=0.7, values="carried over"), 1000)
    constants = constants._replace(least=least)
    state.logits[:] = rng.normal(size=cmdp.n_pairs)
    state.policy[:] = policy = softmax(d, state.logits)
    logits = state.logits.copy()
    state.counts[:] = [41, constants.inner, 5]
    state.starts[:] = [0, FIRST_STARTS + 41, 0, 0, 0]
    state.pair_values[:] = Q = rng.normal(size=state.pair_values.shape)
    state.state_values[1, 1:] = np.array(margins) / (1.0 - d.gamma)
    state.visits[:] = visits = np.array([3, 0, 2, 0, 1])
    state.sums[:] = sums = rng.random(cmdp.n_pairs)
    expected_sums = sums + visits[d.state] * policy if chosen == 0 else sums.copy()
    end_iteration(state, constants, world)
    new = softmax(d, logits + 0.7 * (1.0 - d.gamma) * Q[:, chosen])
    np.testing.assert_allclose(state.policy, new, rtol=0.0, atol=1e-14)
    np.testing.assert_allclose(state.sums, expected_sums, rtol=0.0, atol=1e-14)
    np.testing.assert_array_equal(state.pair_values, Q)
    for s in range(cmdp.n_states):
        np.testing.assert_allclose(state.state_values[s], new[d.state == s] @ Q[d.state == s], rtol=0.0, atol=1e-13)
    assert not state.visits.any() and state.counts.tolist() == [41, 0, 6]


def naive_run(cmdp: ib.CMDP, settings: ib.CRPO, samples: int, seed: int, inner: int, step: float, least: float) -> Any:
    """CRPO from samples, in the plainest way: V computed from Q each time, rows of the policy summed visit by visit."""
    d, rng = dense(cmdp), np.random.default_rng(seed)
    n, x = len(d.r), signals_of(d)
    rows, ends = np.cumsum(d.P, axis=1), np.cumsum(d.rho)
    starts = np.zeros(len(d.rho))

    def start() -> int:
        return int(np.searchsorted(ends, rng.random(), side="right"))

    for _ in range(FIRST_STARTS):
        starts[start()] += 1
    theta, Q, tries, average, iterate, walker = np.zeros(n), np.zeros(x.shape), np.zeros(n), np.zeros(n), [], None
    pi = softmax(d, theta)
    restart = samples // inner // 2 if settings.average == "second half" else 0
    for t in range(samples):
        if t % 2 == 0:
            k = t // 2 % n
        else:
            walker = start() if walker is None else walker
            own = np.flatnonzero(d.state == walker)
            k = int(own[min(np.searchsorted(np.cumsum(pi[own]), rng.random(), side="right"), len(own) - 1)])
            iterate.append(pi * (d.state == walker))
        after = int(np.searchsorted(rows[k], rng.random(), side="right"))
        starts[start()] += 1
        if t % 2 == 1:
            walker = after if rng.random() < d.gamma else None
        tries[k] += 1
        Q[k] += (x[k] + d.gamma * (pi * (d.state == after)) @ Q - Q[k]) / np.sqrt(
            1.0 + (1.0 - d.gamma) * (tries[k] - 1.0)
        )
        if (t + 1) % inner == 0:
            if (t + 1) // inner - 1 == restart:
                average[:] = 0.0
            V = np.array([pi[d.state == s] @ Q[d.state == s] for s in range(len(d.rho))])
            margins = (1.0 - d.gamma) * (starts / starts.sum()) @ V[:, 1:]
            improved = 0 if np.all(margins >= least) else 1 + int(np.argmin(margins))
            if improved == 0:
                average += np.sum(iterate, axis=0) if iterate else 0.0
            theta += step * (1.0 - d.gamma) * Q[:, improved]
            pi, iterate = softmax(d, theta), []
            if settings.values == "afresh":
                Q[:], tries[:] = 0.0, 0.0
    return pi, Q, average


@pytest.mark.parametrize("values", ["afresh", "carried over"])
@pytest.mark.parametrize("average", ["all", "second half"])
@pytest.mark.parametrize("cmdp", [QUEUE, ragged(2), ragged(0)], ids=["queue", "ragged2", "ragged0"])
def test_a_run_equals_the_plain_transcription(cmdp: ib.CMDP, average: str, values: str) -> None:
    """On the same path, 1200 samples in 63 iterations of an odd length: rounding moves it by less than 1e-9.

    kappa is such that some iterations improve the reward and some do not.
    """
    shares = []
    settings = ib.CRPO(kappa=0.1, tolerance=0.0, step=2.0, inner=19, average=average, values=values)
    for seed in range(2):
        state, constants, world, rng = prepared(cmdp, settings, 1200, seed)
        advance(state, constants, world, rng, 0, 1200)
        policy, Q, sums = naive_run(cmdp, settings, 1200, seed, 19, 2.0, 0.1)
        np.testing.assert_allclose(state.policy, policy, rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(state.pair_values, Q, rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(state.sums, sums, rtol=0.0, atol=1e-7)
        shares.append(sums.sum() / (63 * 19 // 2))  # of the steps of the walk
    if average == "all":
        assert (
            all(0.1 < share < 0.98 for share in shares) if cmdp.n_constraints else shares == pytest.approx([1.0, 1.0])
        )


def test_when_nothing_improved_the_reward_the_last_policy_is_returned() -> None:
    run = ib.learn(QUEUE.simulator(), ib.CRPO.practical(repair=False, kappa=1.0), samples=5_000, seed=0)
    state, constants, world, rng = prepared(QUEUE, ib.CRPO.practical(repair=False, kappa=1.0), 5_000)
    advance(state, constants, world, rng, 0, 5_000)
    assert not state.sums.any()
    np.testing.assert_allclose(run.policy.probabilities, state.policy, rtol=0.0, atol=1e-15)
    exact = ib.iterate(QUEUE, ib.CRPO.practical(repair=False, kappa=1.0), iterations=200)
    assert np.abs(exact.policy.probabilities - ib.Policy.uniform(QUEUE).probabilities).max() > 0.1
    assert np.all(np.isnan(run.prices)) and np.all(np.isnan(exact.prices))


# ---- exact values


@pytest.mark.parametrize("average", ["all", "second half"])
@pytest.mark.parametrize("cmdp", [QUEUE, ragged(2), ragged(0)], ids=["queue", "ragged2", "ragged0"])
def test_iterations_on_a_known_model_equal_the_plain_transcription(cmdp: ib.CMDP, average: str) -> None:
    """Over 200 iterations; a margin within rounding of the limit would part them, and none is."""
    d, n_iterations, average_occupancy = dense(cmdp), 200, np.zeros(cmdp.n_pairs)
    theta = np.zeros(cmdp.n_pairs)
    for iteration in range(n_iterations):
        if average == "second half" and iteration == n_iterations // 2:
            average_occupancy[:] = 0.0
        Q, V, occupancy = exact_values(d, softmax(d, theta))
        margins = (1.0 - d.gamma) * d.rho @ V[:, 1:]
        improved = 0 if np.all(margins >= 0.01) else 1 + int(np.argmin(margins))
        average_occupancy += occupancy * (improved == 0)
        theta += 0.5 * (1.0 - d.gamma) * Q[:, improved]
    settings = ib.CRPO(kappa=0.01, tolerance=0.0, step=0.5, average=average)
    found = ib.iterate(cmdp, settings, iterations=n_iterations).policy
    expected = ib.Policy.from_occupancy(cmdp, average_occupancy)
    np.testing.assert_allclose(found.probabilities, expected.probabilities, rtol=0.0, atol=1e-9)


def test_the_reference_figures_on_the_queue() -> None:
    """alpha / (1 - gamma) = 0.05 and eta = 0.002 for 20,000 iterations: figures of an independent computation."""
    run = ib.iterate(QUEUE, ib.CRPO(step=0.1, tolerance=0.001), iterations=20_000)
    judged = ib.evaluate(QUEUE, run.policy)
    assert judged.total_reward == pytest.approx(4.6292, abs=5e-5)
    np.testing.assert_allclose(judged.total_margins, [0.011, 0.002], rtol=0.0, atol=5e-4)


@pytest.mark.parametrize("seed", range(6))
def test_exact_values_lead_to_the_optimum_within_bounds(seed: int) -> None:
    """5,000 iterations on random problems: within 0.002 of the optimum, and every margin at least kappa - tolerance."""
    cmdp = in_scaled_units(ib.zoo.garnet(states=6, actions=3, successors=3, constraints=2, discount=0.8, seed=seed))[1]
    best = ib.solve(cmdp).reward
    judged = ib.evaluate(cmdp, ib.iterate(cmdp, ib.CRPO.practical(repair=False, step=0.3), iterations=5_000).policy)
    assert np.all(judged.margins >= -1e-12) and best - 0.002 <= judged.reward <= best + 1e-9
    loose = ib.evaluate(
        cmdp, ib.iterate(cmdp, ib.CRPO.practical(repair=False, tolerance=0.02), iterations=1_000).policy
    )
    assert np.all(loose.margins >= -0.02 - 1e-12) and loose.reward > judged.reward
    tight = ib.evaluate(cmdp, ib.iterate(cmdp, ib.CRPO.practical(repair=False, kappa=0.01), iterations=1_000).policy)
    assert np.all(tight.margins >= 0.01 - 1e-12) and tight.reward < judged.reward


def test_without_constraints_it_is_the_natural_policy_gradient() -> None:
    free = QUEUE.unconstrained()
    found = ib.iterate(free, ib.CRPO.practical(repair=False), iterations=5_000).policy
    assert ib.evaluate(free, found).total_reward == pytest.approx(ib.solve(free).total_reward, abs=1e-3)


# ---- runs from samples


def test_the_preset_stays_in_bounds_on_the_queue() -> None:
    """40 runs of 100,000 samples: the mean within 0.05 of the optimum with 4 standard errors to spare, at most 2 out.

    If 1 % of runs were out of bounds, more than 2 of 40 would be with probability 0.7 %.
    """
    simulator = QUEUE.simulator()
    runs = [
        ib.learn(simulator, ib.CRPO.practical(repair=False), samples=100_000, seed=seed).policy for seed in range(40)
    ]
    judged = [ib.evaluate(QUEUE, policy) for policy in runs]
    totals = np.array([one.total_reward for one in judged])
    assert totals.mean() - 4.0 * totals.std(ddof=1) / math.sqrt(len(totals)) > 4.644858 - 0.05
    assert sum(not one.in_bounds for one in judged) <= 2


def test_more_samples_come_closer() -> None:
    """Mean gaps over 8 seeds, at 20,000, 100,000 and 500,000 samples: each less than 0.7 times the one before."""
    gaps = []
    for samples in (20_000, 100_000, 500_000):
        runs = [
            ib.learn(QUEUE.simulator(), ib.CRPO.practical(repair=False), samples=samples, seed=seed)
            for seed in range(8)
        ]
        gaps.append(4.644858 - np.mean([ib.evaluate(QUEUE, run.policy).total_reward for run in runs]))
    assert gaps[1] < 0.7 * gaps[0] and gaps[2] < 0.7 * gaps[1] and gaps[2] > 0.0


# ---- settings


def test_formulas_and_rules() -> None:
    """n = 96, gamma = 1/2: 10^8 samples are 69300 iterations of 1443, for sqrt(10^8 * 2 / 96) = 1443.4."""
    assert prepare(ib.CRPO(), QUEUE.simulator(), 100_000, np.random.default_rng(0)).settings["inner"] == 96
    start = prepare(ib.CRPO(), QUEUE.simulator(), 10**8, np.random.default_rng(0))
    assert start.samples == 0 and start.settings["inner"] == 1443 and start.settings["iterations"] == 69_300
    assert start.constants.afresh and start.constants.restart == 0 and start.settings["kappa"] == 0.0
    assert start.settings["step"] == pytest.approx(1.0 / math.sqrt(0.5 * 96 * 69_300), rel=1e-12)
    assert start.settings["tolerance"] == pytest.approx(2.0 * math.sqrt(96 / (0.5 * 69_300)), rel=1e-12)
    # step is the paper's alpha over (1 - gamma)^2, tolerance its eta times (1 - gamma)
    alpha, eta = 0.1**1.5 / math.sqrt(24 * 500), 2.0 * math.sqrt(24) / (0.1**1.5 * math.sqrt(500))
    assert formulas(24, 0.9, 500) == pytest.approx((alpha / 0.1**2, eta * 0.1), rel=1e-12)


def test_the_preset_is_what_its_module_says() -> None:
    start = prepare(ib.CRPO.practical(repair=False), QUEUE.simulator(), 100_000, np.random.default_rng(0))
    assert start.constants.inner == 96 and start.constants.step == 1.0 and not start.constants.afresh
    assert start.constants.restart == 100_000 // 96 // 2
    assert start.settings["kappa"] == start.constants.least == pytest.approx(0.03 * math.sqrt(192 / 100_000), rel=1e-12)
    assert ib.CRPO.practical(repair=False, kappa=0.1).kappa == 0.1
    assert (
        prepare(ib.CRPO.practical(repair=False), QUEUE.simulator(), 50, np.random.default_rng(0)).constants.inner == 50
    )
    with pytest.raises(TypeError):
        ib.CRPO.practical(repair=False, kapa=0.0)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        (name, bad)
        for name, values in {
            "kappa": (-0.1, 1.1, math.nan, "0.1"),
            "tolerance": (-0.1, math.nan, math.inf, "0.1"),
            "step": (0.0, -1.0, math.nan, math.inf, "1"),
            "inner": (0, 1.5, "all", True),
            "values": ("zero", None, 1),
            "average": ("half", None, 2),
            "kappa_multiplier": (-1.0, math.inf, None, "1"),
        }.items()
        for bad in values
    ],
)
def test_a_bad_setting_is_named(name: str, bad: object) -> None:
    with pytest.raises(ib.InvalidInput, match=rf"CRPO: {name} must be .*, found "):
        ib.CRPO(**{name: bad})


def test_settings_are_shown_as_written() -> None:
    assert repr(ib.CRPO()) == "CRPO()" and repr(ib.CRPO(kappa=0.1, inner="pairs")) == "CRPO(kappa=0.1, inner='pairs')"


def test_what_is_guaranteed() -> None:
    assert prepare(ib.CRPO(), QUEUE.simulator(), 1000, np.random.default_rng(0)).guarantee.startswith("none: ")
    for step, kept in ((None, False), (1.0, True)):  # 50 iterations of the paper's step do not get there: none in N0
        run = ib.iterate(QUEUE, ib.CRPO(tolerance=0.05, kappa=0.01, step=step), iterations=50)
        judged = ib.evaluate(in_scaled_units(QUEUE)[1], run.policy)
        assert bool(np.all(judged.margins >= -0.04 - 1e-12)) is kept
        bound = "at least -0.04 (scaled units, normalised)"
        assert run.guarantee == (
            f"every margin is {bound}"
            if kept
            else f"none: no policy on the way had every margin {bound}; what is returned is the last one"
        )


def test_a_run_that_is_broken_off_does_not_know_yet_which_margins_it_will_have() -> None:
    some = ib.iterate(QUEUE, ib.CRPO(tolerance=0.05, kappa=0.01), iterations=50, time_limit=1e-9)
    assert some.status == "time limit" and some.guarantee.endswith("unless no policy on the way had such margins")
    whole = ib.iterate(QUEUE, ib.CRPO(tolerance=0.05, kappa=0.01), iterations=50, resume=some)
    assert whole.guarantee.startswith("none: no policy on the way had every margin at least -0.04")


def test_the_margins_that_are_printed_are_kept() -> None:
    """(Three digits were the nearest, and may promise more than is proved: -0.0123 for -0.01234.)"""
    for tolerance in (0.01234, 0.01236, 0.012, 0.099999):
        told = ib.iterate(QUEUE, ib.CRPO(tolerance=tolerance), iterations=2).guarantee
        least = float(told.partition("every margin at least ")[2].split()[0])
        assert -1.01 * tolerance < least <= -tolerance


def test_a_claim_about_margins_is_about_those_that_are_averaged() -> None:
    """The uniform policy is in bounds, the two after it are not: the second half has none, and the last is the answer.

    The second state only makes the margins of the first small, so that they are mended more slowly than spent.
    """
    cmdp = ib.CMDP(
        offsets=[0, 2, 3],
        transition=[[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]],
        reward=[0.0, 1.0, 0.5],
        constraints=[ib.Constraint([0.1, -0.09, 1.0], at_least=0.0, name="c")],
        initial=[1.0, 0.0],
        discount=0.1,
    )
    settings = ib.CRPO(step=1.0, tolerance=0.0, average="second half")
    run, whole = ib.iterate(cmdp, settings, iterations=2), ib.iterate(cmdp, ib.CRPO(tolerance=0.0), iterations=2)
    assert ib.evaluate(cmdp, ib.Policy.uniform(cmdp)).in_bounds and not ib.evaluate(cmdp, run.policy).in_bounds
    assert run.guarantee.startswith("none: no policy in the second half of the way had every margin at least ")
    assert whole.guarantee.startswith("every margin is at least ") and "unless" not in whole.guarantee


def test_without_constraints_nothing_is_said_of_margins() -> None:
    for settings in (ib.CRPO(), ib.CRPO(tolerance=0.01), ib.CRPO.practical()):
        run = ib.iterate(QUEUE.unconstrained(), settings, iterations=3)
        assert run.guarantee == "none: how close the reward comes is known as an order only"
