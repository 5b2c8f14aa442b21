"""UCBVI-gamma: its counts and backups against dense arrays, a twin from the paper, optimism, the walk, its policies."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms.ucbvi_gamma import Constants, State, advance, back_up, choose, paper_log_term, prepare
from inbounds.numerics.compiled import interpreted
from naive_cspda import dense, ragged
from uniforms import watched

QUEUE = ib.zoo.queue().unconstrained()
RAGGED = ragged(0)
VARIANTS = {
    "paper": ib.UCBVIGamma(),
    "paper, smaller": ib.UCBVIGamma(constant=0.5, log_term=0.02),
    "no third term": ib.UCBVIGamma(constant=0.5, log_term=0.02, correction=False),
    "noisy": ib.UCBVIGamma(constant=0.5, log_term=0.02, noisy_rewards=True),
    "restart": ib.UCBVIGamma(constant=0.5, log_term=0.02, restart=True),
    "in turn": ib.UCBVIGamma(constant=0.5, log_term=0.02, backups=3),
    "more in turn than pairs": ib.UCBVIGamma(constant=0.5, log_term=0.02, backups=1000),
    "practical": ib.UCBVIGamma.practical(),
}
EVERY = pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)
PROBLEMS = pytest.mark.parametrize(
    "cmdp", [RAGGED, ragged(0, seed=1, discount=0.95), ragged(0, discount=0.0)], ids=["ragged", "far", "no future"]
)


def prepared(cmdp: ib.CMDP, settings: ib.UCBVIGamma, samples: int, seed: int = 0) -> tuple[State, Constants, Any, Any]:
    simulator, rng = cmdp.simulator(), np.random.default_rng(seed)
    start = prepare(settings, simulator, samples, rng)
    return start.state, start.constants, simulator.open(), rng


def counts(state: State) -> np.ndarray:
    """N(s, a, s') as a dense table [n, S], from the lists."""
    table = np.zeros((len(state.lists), len(state.values)), dtype=int)
    for k, row in enumerate(state.lists):
        while row > 0:
            after, count, row = state.moves[row]
            assert table[k, after] == 0 and count > 0  # every next state once
            table[k, after] = count
    return table


def optimal_values(cmdp: ib.CMDP) -> np.ndarray:
    """Q* [n] in scaled units, not normalised: by value iteration."""
    d, values = dense(cmdp), np.zeros(cmdp.n_states)
    while True:
        pair_values = d.r + d.gamma * d.P @ values
        new = np.maximum.reduceat(pair_values, cmdp.offsets[:-1])
        if np.abs(new - values).max() <= 1e-14 / (1.0 - d.gamma):
            return pair_values
        values = new


# ---- the algorithm again, dense and slow, from the paper


class Naive(NamedTuple):
    Q: np.ndarray  # [n]
    N: np.ndarray  # [n, S]
    policy: np.ndarray  # [S]


def ucbvi(cmdp: ib.CMDP, settings: ib.UCBVIGamma, rng: np.random.Generator, T: int) -> Naive:
    """Line by line. One uniform for a start, one for a move, one for the end of a walk where it may end."""
    d = dense(cmdp)
    n, n_states, gamma = len(d.r), len(d.rho), d.gamma
    H, A = 1.0 / (1.0 - gamma), int(np.diff(cmdp.offsets).max())
    U, c = settings.log_term, settings.constant
    if U is None:
        U = math.log(40 * n * T**3 * math.log(T) ** 2 / ((1 - gamma) ** 2 * (1 - settings.confidence)))
    Q, N = np.full(n, H), np.zeros((n, n_states))
    s, turn = -1, 0

    def backed_up(k: int, V: np.ndarray) -> float:
        m = N[k].sum()
        if m == 0:
            return Q[k]
        p = N[k] / m
        bonus = math.sqrt(c * U * (p @ (V - p @ V) ** 2) / m) + c * U * H / m
        if settings.correction:
            state_counts = np.array([N[d.state == after].sum() for after in range(n_states)])
            B = A**2 * n_states * U**5 * H**5 / np.maximum(state_counts, 1)
            bonus += math.sqrt(c * (p @ np.minimum(100 * B, H**2)) / m)
        more = c * U / m if settings.noisy_rewards else 0.0  # of a table the variance of the rewards is zero
        return min(Q[k], d.r[k] + gamma * p @ V + gamma * bonus + more)

    def greedy(state: int) -> int:
        return int(cmdp.offsets[state] + np.argmax(Q[cmdp.offsets[state] : cmdp.offsets[state + 1]]))

    def V() -> np.ndarray:
        return np.maximum.reduceat(Q, cmdp.offsets[:-1])

    for _ in range(T):
        if s < 0:
            s = int(np.searchsorted(np.cumsum(d.rho), rng.random(), side="right"))
        k = greedy(s)
        after = int(np.searchsorted(np.cumsum(d.P[k]), rng.random(), side="right"))
        N[k, after] += 1
        if settings.backups is None:
            now = V()
            Q = np.array([backed_up(pair, now) for pair in range(n)])
        else:
            Q[k] = backed_up(k, V())
            for _ in range(min(settings.backups, n)):
                Q[turn] = backed_up(turn, V())
                turn = (turn + 1) % n
        s = after
        if settings.restart and rng.random() >= gamma:
            s = -1
    return Naive(Q, N, np.array([greedy(state) for state in range(n_states)]))


@EVERY
@PROBLEMS
def test_equals_the_dense_twin_on_the_same_path(cmdp: ib.CMDP, settings: ib.UCBVIGamma) -> None:
    """Rewards are random: no two values lie so close together that rounding could send the two walks apart."""
    samples = 150
    for seed in range(2):
        state, constants, world, rng = prepared(cmdp, settings, samples, seed)
        advance(state, constants, world, rng, 0, samples)
        twin = ucbvi(cmdp, settings, np.random.default_rng(seed), samples)
        np.testing.assert_array_equal(counts(state), twin.N)
        np.testing.assert_array_equal(state.greedy, twin.policy)
        np.testing.assert_allclose(state.pair_values, twin.Q, rtol=1e-12, atol=0.0)
        if settings.log_term == 0.02:  # it is no comparison of values that have not moved
            assert np.mean(twin.Q[twin.N.sum(axis=1) > 0] < 1.0 / (1.0 - cmdp.discount)) > 0.5


# ---- counts, means and variances


@EVERY
def test_lists_hold_what_was_drawn(settings: ib.UCBVIGamma) -> None:
    drawn: list[tuple[int, int]] = []

    def draw_next(pair: int, rng: np.random.Generator) -> int:
        after = int(np.searchsorted(np.cumsum(rows[pair]), rng.random(), side="right"))
        drawn.append((int(pair), after))
        return after

    rows = RAGGED.transition.toarray()
    state, constants, world, rng = prepared(RAGGED, settings, 700)
    interpreted(advance)(state, constants, watched(world, draw_next=draw_next), rng, 0, 700)
    expected = np.zeros((RAGGED.n_pairs, RAGGED.n_states), dtype=int)
    np.add.at(expected, tuple(np.array(drawn).T), 1)
    np.testing.assert_array_equal(counts(state), expected)
    np.testing.assert_array_equal(state.visits, expected.sum(axis=1))
    np.testing.assert_array_equal(state.state_visits, RAGGED.pairs.sum_by_state(state.visits))
    assert state.walk[1] == 1 + np.count_nonzero(expected)  # not one row per sample
    assert len(state.moves) == 1 + RAGGED.n_pairs * RAGGED.n_states  # nor room for that


def test_rewards_of_a_table_are_exact_and_have_no_variance() -> None:
    state, constants, world, rng = prepared(RAGGED, ib.UCBVIGamma.practical(), 5000)
    advance(state, constants, world, rng, 0, 5000)
    tried = state.visits > 0
    np.testing.assert_array_equal(state.rewards[tried, 0], world.reward[tried])
    assert not np.any(state.rewards[:, 1])


def test_rewards_that_vary_have_their_mean_and_variance() -> None:
    paid: dict[str, list[float]] = {"left": [], "right": []}

    def step(state: str, action: str, rng: np.random.Generator) -> tuple[str, float, list[float]]:
        paid[action].append(2.0 + rng.random() ** 2)
        return "only", paid[action][-1], []

    simulator = ib.Simulator(
        step, start=lambda rng: "only", states=["only"], actions=["left", "right"], discount=0.5, reward_range=(2, 3)
    )
    rng = np.random.default_rng(0)
    state, constants, *_ = prepare(ib.UCBVIGamma.practical(), simulator, 300, rng)
    interpreted(advance)(state, constants, simulator.open(), rng, 0, 300)
    for k, rewards in enumerate(paid.values()):
        assert len(rewards) > 20
        assert state.rewards[k, 0] == pytest.approx(np.mean(rewards) - 2.0, rel=1e-12)
        assert state.rewards[k, 1] / state.visits[k] == pytest.approx(np.var(rewards), rel=1e-12)


@EVERY
def test_a_backup_equals_its_formula(settings: ib.UCBVIGamma) -> None:
    """At random values, counts and rewards; far from where Q was, so that the smaller of the two is the new one."""
    cmdp, samples, rng = RAGGED, 3000, np.random.default_rng(1)
    state, constants, world, walk = prepared(cmdp, settings, samples)
    for drawn in range(samples):  # from anywhere, so that every pair is tried
        state.greedy[:] = rng.integers(cmdp.offsets[:-1], cmdp.offsets[1:])
        state.walk[0] = rng.integers(cmdp.n_states)
        advance(state, constants, world, walk, drawn, drawn + 1)
    state.values[:] = rng.uniform(0.0, 1.0, cmdp.n_states) / (1.0 - cmdp.discount)
    state.rewards[:] = rng.uniform(0.0, 1.0, state.rewards.shape) * [1.0, 50.0]
    gamma, V, N = cmdp.discount, state.values, counts(state)
    U = settings.log_term or paper_log_term(cmdp.n_pairs, gamma, samples, settings.confidence)
    c, H, S, A = settings.constant, 1.0 / (1.0 - gamma), cmdp.n_states, 4
    for k in range(cmdp.n_pairs):
        m = state.visits[k]
        p = N[k] / m
        average, variance = p @ V, p @ (V - p @ V) ** 2
        bonus = np.sqrt(c * U * variance / m) + c * U * H / m
        if settings.correction:
            B = A**2 * S * U**5 * H**5 / np.maximum(state.state_visits, 1)
            bonus += np.sqrt(c * (p @ np.minimum(100.0 * B, H**2)) / m)
        expected = state.rewards[k, 0] + gamma * average + gamma * bonus
        if settings.noisy_rewards:
            expected += np.sqrt(c * U * state.rewards[k, 1] / m / m) + c * U / m
        state.pair_values[k] = 1e9
        assert back_up(state, constants, k)
        assert state.pair_values[k] == pytest.approx(expected, rel=1e-12)
        state.pair_values[k] = 0.9 * expected
        assert not back_up(state, constants, k) and state.pair_values[k] == 0.9 * expected  # never rises


def test_the_third_term_takes_the_smaller_of_its_two() -> None:
    """By hand: one pair that stays, m = 4 visits, V = 1: the term is sqrt(c min(100 B, H^2) / m)."""
    cmdp = ib.CMDP([0, 1], np.ones((1, 1)), [1.0], [], [1.0], discount=0.5)
    for U, least in ((1e-3, 100.0 * 1e-15 * 32.0 / 4.0), (1.0, 4.0)):
        settings = ib.UCBVIGamma(constant=2.0, log_term=U)
        state, constants, _, _ = prepared(cmdp, settings, 10)
        state.visits[0] = state.state_visits[0] = 4
        state.lists[0], state.moves[1] = 1, [0, 4, 0]
        state.values[0], state.pair_values[0], state.rewards[0, 0] = 1.0, 100.0, 0.25
        assert back_up(state, constants, 0)
        expected = 0.25 + 0.5 * (1.0 + 2.0 * U * 2.0 / 4.0 + math.sqrt(2.0 * least / 4.0))
        assert state.pair_values[0] == pytest.approx(expected, rel=1e-14)


def test_a_variance_is_not_lost_to_rounding() -> None:
    """Values near 1 / (1 - 0.9999) that differ by 1e-4: a mean of squares less a squared mean would lose all of it."""
    cmdp = ib.CMDP([0, 1, 2], np.full((2, 2), 0.5), [0.0, 1.0], [], [0.5, 0.5], discount=0.9999)
    state, constants, _, _ = prepared(cmdp, ib.UCBVIGamma(constant=1.0, log_term=1.0, correction=False), 10)
    state.visits[0], state.lists[0] = 4, 1
    state.moves[1:3] = [[0, 1, 2], [1, 3, 0]]
    state.values[:] = 9000.0, 9000.0001
    state.pair_values[0] = 1e9
    assert back_up(state, constants, 0)
    of_variance = state.pair_values[0] - 0.9999 * (9000.0 + 0.75e-4) - constants.range_term / 4.0
    assert of_variance == pytest.approx(0.9999 * math.sqrt(1e-8 * 3 / 16 / 4), rel=1e-6)


@pytest.mark.parametrize("samples", [2, 100, 10**6])
def test_log_term_is_the_paper_s(samples: int) -> None:
    ours = paper_log_term(96, 0.9, samples, 0.95)
    assert ours == pytest.approx(
        math.log(40 * 96 * samples**3 * max(math.log(samples), 1.0) ** 2 / (0.01 * 0.05)), rel=1e-14
    )
    run = ib.learn(QUEUE.simulator(), ib.UCBVIGamma(confidence=0.9), samples=samples // 1000 + 1)
    assert run.settings["log_term"] == paper_log_term(96, 0.5, samples // 1000 + 1, 0.9) > 0.0


# ---- what always holds


@EVERY
@PROBLEMS
def test_values_never_rise_and_the_greedy_pair_is_the_first_of_the_best(cmdp: ib.CMDP, settings: ib.UCBVIGamma) -> None:
    state, constants, world, rng = prepared(cmdp, settings, 600)
    before = state.pair_values.copy()
    for drawn in range(600):
        advance(state, constants, world, rng, drawn, drawn + 1)
        assert np.all(state.pair_values <= before) and np.all(state.pair_values >= 0.0)
        assert np.all(state.pair_values[state.visits == 0] == 1.0 / (1.0 - cmdp.discount))
        for s, (first, last) in enumerate(zip(cmdp.offsets[:-1], cmdp.offsets[1:], strict=True)):
            assert state.greedy[s] == first + np.argmax(state.pair_values[first:last])
            assert state.values[s] == state.pair_values[state.greedy[s]]
        before = state.pair_values.copy()


@pytest.mark.parametrize("problem", [0, 1, 2])
@pytest.mark.parametrize("backups", [None, 1])
def test_values_are_optimistic_with_the_paper_s_bonus(problem: int, backups: int | None) -> None:
    """Q >= Q* at the end, and hence at all times, since Q never rises. Were the bound tight a seed would fail with
    probability 0.05; it is far from it, so of these 4 seeds none may. Some value has come near its optimum.
    """
    cmdp = ragged(0, seed=problem, discount=0.4)
    best = optimal_values(cmdp)
    for seed in range(4):
        state, constants, world, rng = prepared(cmdp, ib.UCBVIGamma(backups=backups), 100_000, seed)
        advance(state, constants, world, rng, 0, 100_000)
        excess = (state.pair_values - best) * (1.0 - cmdp.discount)
        assert np.all(excess >= 0.0) and excess.min() < 0.05, excess


def test_values_are_not_optimistic_without_a_bonus() -> None:
    """So the test above can fail."""
    best = optimal_values(RAGGED)
    settings = ib.UCBVIGamma(constant=1e-9, correction=False)
    below = 0
    for seed in range(5):
        state, constants, world, rng = prepared(RAGGED, settings, 10_000, seed)
        advance(state, constants, world, rng, 0, 10_000)
        below += bool(np.any(state.pair_values < best - 1e-6))
    assert below == 5


def test_without_a_future_values_are_rewards() -> None:
    """With discount 0 nothing is left of the paper's bonus, and the reward of a table is known after one sample."""
    cmdp = ragged(0, discount=0.0)
    state, constants, world, rng = prepared(cmdp, ib.UCBVIGamma(), 2000)
    advance(state, constants, world, rng, 0, 2000)
    tried = state.visits > 0
    np.testing.assert_array_equal(state.pair_values, np.where(tried, world.reward, 1.0))


# ---- the walk


def walked(settings: ib.UCBVIGamma, samples: int) -> list[tuple[int, int]]:
    """Every event in turn: (state, next state) of a move, (-1, state) of a start."""
    events: list[tuple[int, int]] = []
    rows, initial = np.cumsum(RAGGED.transition.toarray(), axis=1), np.cumsum(RAGGED.initial)

    def draw_start(rng: np.random.Generator) -> int:
        events.append((-1, int(np.searchsorted(initial, rng.random(), side="right"))))
        return events[-1][1]

    def draw_next(pair: int, rng: np.random.Generator) -> int:
        events.append((int(world.states[pair]), int(np.searchsorted(rows[pair], rng.random(), side="right"))))
        return events[-1][1]

    state, constants, world, rng = prepared(RAGGED, settings, samples)
    told = watched(world, draw_start=draw_start, draw_next=draw_next)
    interpreted(advance)(state, constants, told, rng, 0, samples)
    assert events[0][0] == -1 and sum(s >= 0 for s, _ in events) == samples
    assert all(s in (-1, came_to) for (_, came_to), (s, _) in pairwise(events))
    return events


def test_the_paper_s_walk_is_one_trajectory() -> None:
    assert all(s >= 0 for s, _ in walked(ib.UCBVIGamma(), 500)[1:])


def test_walks_that_restart_end_with_probability_one_minus_discount() -> None:
    """Ends after all but the last of 6000 steps: binomial, within 4 standard deviations (false alarm: 6e-5)."""
    samples = 6000
    starts = [s for before, s in walked(ib.UCBVIGamma.practical(), samples) if before == -1]
    expected = (samples - 1) * (1.0 - RAGGED.discount)
    assert abs(len(starts) - 1 - expected) < 4.0 * math.sqrt(expected * RAGGED.discount)
    assert set(starts) == set(np.flatnonzero(RAGGED.initial))


def test_an_absorbing_state_ends_the_paper_s_learning_but_not_the_preset_s() -> None:
    """The first action leads to a poor state for ever; the second pays at home. The paper's walk falls in at once."""
    trap = ib.CMDP([0, 2, 3], [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]], [0.0, 1.0, 0.1], [], [1.0, 0.0], discount=0.8)
    for settings, best in ((ib.UCBVIGamma(), 0), (ib.UCBVIGamma.practical(), 1)):
        for seed in range(5):
            state, constants, world, rng = prepared(trap, settings, 20_000, seed)
            advance(state, constants, world, rng, 0, 20_000)
            assert state.greedy[0] == best
            if best == 0:
                assert state.visits.tolist() == [1, 0, 19_999]


# ---- its policies


@pytest.mark.parametrize("samples", [100_000, 1_000_000])
def test_the_preset_finds_the_best_policy_of_the_queue(samples: int) -> None:
    """5.659335557513892 is the optimum without constraints; every one of 5 seeds ends there."""
    simulator = QUEUE.simulator()
    for seed in range(5):
        run = ib.learn(simulator, ib.UCBVIGamma.practical(), samples=samples, seed=seed)
        assert ib.evaluate(QUEUE, run.policy).total_reward == pytest.approx(5.659335557513892, abs=1e-9)
        assert run.prices.shape == (0,)


def test_the_paper_s_settings_find_a_good_policy_slowly() -> None:
    """100,000 samples for 13 pairs and a short horizon. The first action of every state, the greedy policy of equal
    values, loses 0.28 (scaled units, normalised): it has been left behind.
    """
    cmdp = ragged(0, seed=2, discount=0.4)

    def gap(policy: ib.Policy) -> float:
        return (ib.solve(cmdp).reward - ib.evaluate(cmdp, policy).reward) / np.ptp(cmdp.reward)

    assert gap(ib.Policy.deterministic(cmdp, cmdp.offsets[:-1])) > 0.25
    for seed in range(4):
        assert gap(ib.learn(cmdp.simulator(), ib.UCBVIGamma(), samples=100_000, seed=seed).policy) < 0.01


@pytest.mark.parametrize("discount", [0.0, 0.5])
def test_noisy_rewards_need_their_bonus(discount: float) -> None:
    """Two coins that pay with probability .3 and .8: the preset finds the better one. With discount 0 the paper's bonus
    vanishes, and the first bad luck with the better coin, of probability .2, is final.

    Of 300 runs .997 and .79 found it: the limits are 3 standard deviations of 60 runs and more away from these.
    """

    def toss(state: int, action: int, rng: np.random.Generator) -> tuple[int, float, list[float]]:
        return 0, float(rng.random() < (0.3, 0.8)[action]), []

    coins = ib.Simulator(toss, start=lambda rng: 0, states=1, actions=[0, 1], discount=discount, reward_range=(0, 1))

    def share(settings: ib.UCBVIGamma) -> float:
        runs = [ib.learn(coins, settings, samples=120, seed=seed) for seed in range(60)]
        return float(np.mean([run.policy.probabilities[1] for run in runs]))

    assert share(ib.UCBVIGamma.practical()) > 0.95
    if discount == 0.0:
        assert share(ib.UCBVIGamma.practical(noisy_rewards=False)) < 0.95


# ---- settings and the record


def test_what_the_guarantee_covers() -> None:
    def guarantee(settings: ib.UCBVIGamma) -> str:
        return ib.learn(QUEUE.simulator(), settings, samples=10).guarantee

    assert "with probability 0.99 a regret along the walk" in guarantee(ib.UCBVIGamma(confidence=0.99))
    assert "nothing of the last policy alone" in guarantee(ib.UCBVIGamma())
    for changed in (ib.UCBVIGamma.practical(), ib.UCBVIGamma(backups=1), ib.UCBVIGamma(restart=True)):
        assert guarantee(changed) == "none: the paper's theorem does not cover settings that differ from its own"


def test_settings_in_a_run() -> None:
    run = ib.learn(QUEUE.simulator(), ib.UCBVIGamma.practical(backups=4), samples=10)
    assert run.settings == {
        "constant": 1.0,
        "log_term": 1.0,
        "correction": "False",
        "backups": 4.0,
        "restart": "True",
        "noisy_rewards": "True",
    }
    assert ib.learn(QUEUE.simulator(), ib.UCBVIGamma(), samples=10).settings["backups"] == "all"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"confidence": 1.0}, r"UCBVIGamma: confidence must be a number in \(0, 1\), found 1.0"),
        ({"confidence": None}, "confidence must be a number in"),
        ({"constant": 0.0}, "constant must be a number > 0, found 0.0"),
        ({"constant": None}, "constant must be a number > 0, found None"),
        ({"log_term": -1.0}, "log_term must be a number > 0, found -1.0"),
        ({"log_term": float("inf")}, "log_term must be a number > 0, found inf"),
        ({"backups": 0}, "backups must be a whole number of at least 1, found 0"),
        ({"backups": 1.5}, "backups must be a whole number of at least 1, found 1.5"),
        ({"correction": 1}, "correction must be True or False, found 1"),
        ({"restart": "yes"}, "restart must be True or False, found 'yes'"),
        ({"noisy_rewards": None}, "noisy_rewards must be True or False, found None"),
    ],
)
def test_wrong_settings_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ib.InvalidInput, match=message):
        ib.UCBVIGamma(**changes)


def test_settings_are_shown_as_typed() -> None:
    assert repr(ib.UCBVIGamma()) == "UCBVIGamma()"
    assert ib.UCBVIGamma.practical(backups=3).backups == 3


def test_going_on_beyond_the_announced_samples_is_refused() -> None:
    state, constants, world, rng = prepared(QUEUE, ib.UCBVIGamma(), 5)
    with pytest.raises(AssertionError):
        advance(state, constants, world, rng, 0, 1000)


def test_choose_takes_the_first_of_equals() -> None:
    state, *_ = prepared(QUEUE, ib.UCBVIGamma(), 5)
    state.pair_values[16:32] = [1.0, 3.0, 2.0, 3.0] * 4
    choose(state, QUEUE.offsets, 1)
    assert state.greedy[1] == 17 and state.values[1] == 3.0
