"""Walks of geometric length: their sums by enumeration and by z-tests; the average policy by the obvious computation.

False alarms: every z-test states how often it would fail by chance if its seeds were drawn anew.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms.known import in_scaled_units, known_model
from inbounds.algorithms.rollouts import (
    Constants,
    State,
    Walks,
    all_ended,
    average_policy,
    begin_iteration,
    evaluate_exactly,
    make_step,
    new_state,
    resolve,
    resolve_known,
    roll_out,
)
from inbounds.numerics.compiled import interpreted
from naive_cspda import dense, ragged
from naive_rollouts import chooser, occupancy, values
from uniforms import pilot_of

TINY = ib.CMDP(
    offsets=[0, 2, 3],
    transition=[[0.3, 0.7], [1.0, 0.0], [0.6, 0.4]],
    reward=[1.0, 0.0, 0.4],
    constraints=[ib.Constraint([0.2, 1.0, -0.5], at_least=0.1)],
    initial=[0.8, 0.2],
    discount=0.4,
)


class Uniforms:
    """A generator that gives chosen numbers, then fails."""

    def __init__(self, numbers: list[float]) -> None:
        self.numbers = list(numbers)

    def random(self) -> float:
        return self.numbers.pop(0)


def some_state(cmdp: ib.CMDP, seed: int = 0) -> State:
    """A policy that is not uniform, and prices that are not zero."""
    rng = np.random.default_rng(seed)
    state = new_state(cmdp.pairs, cmdp.n_constraints)
    state.policy[:] = ib.Policy.from_occupancy(cmdp, rng.random(cmdp.n_pairs) + 0.1).probabilities
    state.logits[:] = np.log(state.policy)
    state.prices[:] = rng.uniform(0.2, 2.0, cmdp.n_constraints)
    return state


def copy_of(state: State) -> State:
    return State(*(array.copy() for array in state))


def paths(d: Any, policy: np.ndarray, pair: int, longest: int) -> list[tuple[float, list[float], list[int]]]:
    """Every walk from `pair` of at most `longest` queries: probability, the uniforms that lead to it, its pairs."""
    found = []
    middles = np.cumsum(d.P, axis=1) - d.P / 2
    for after in np.flatnonzero(d.P[pair]):
        probability, uniforms = d.P[pair, after], [middles[pair, after]]
        found.append((probability * (1 - d.gamma), [*uniforms, (1 + d.gamma) / 2], [pair]))
        if longest > 1:
            own = np.flatnonzero(d.state == after)
            for chosen, u in zip(own, np.cumsum(policy[own]) - policy[own] / 2, strict=True):
                for rest, more, pairs in paths(d, policy, int(chosen), longest - 1):
                    share = probability * d.gamma * policy[chosen]
                    found.append((share * rest, [*uniforms, d.gamma / 2, u, *more], [pair, *pairs]))
    return found


def expected_sums(d: Any, policy: np.ndarray, first: np.ndarray, signal: np.ndarray, longest: int) -> float:
    """E[ sum of the signal over a walk; it has at most `longest` queries ], its length being geometric."""
    total, prefix = 0.0, 0.0
    for queries in range(1, longest + 1):
        prefix += first @ signal
        total += (1 - d.gamma) * d.gamma ** (queries - 1) * prefix
        first = (first @ d.P) @ chooser(d, policy)
    return total


@pytest.mark.parametrize("baseline", [0.0, 0.6])
def test_the_mean_of_a_walk_from_a_pair_by_enumeration(baseline: float) -> None:
    """Every walk of at most 6 queries, forced through the kernel: probabilities and mean of the sums, to 1e-12.

    What longer walks add to the mean is at most the largest signal times their expected length, so the mean is also
    within that of Q, which a walk of one query fewer (gamma V), or one more, is not.
    """
    longest, walks = 6, Walks(1, 0, TINY.discount, False)
    before, d, world = some_state(TINY), dense(TINY), TINY.simulator().open()
    before.baseline[0] = baseline
    signal = d.r + d.g @ before.prices - baseline
    walk = interpreted(roll_out)
    for pair in range(TINY.n_pairs):
        mass = mean = 0.0
        for probability, uniforms, pairs in paths(d, before.policy, pair, longest):
            state, rng = copy_of(before), Uniforms(uniforms)
            state.position[0] = pair  # the walks from the pairs before have ended
            drawn = walk(state, walks, world, rng, 0, len(pairs))
            assert drawn == len(pairs) == state.baseline[1] and not rng.numbers
            assert state.position[:2].tolist() == [pair + 1, -1]
            assert state.action_values[pair] == pytest.approx(signal[pairs].sum(), abs=1e-12)
            assert not np.delete(state.action_values, pair).any() and not state.visits.any()
            mass += probability
            mean += probability * state.action_values[pair]
        assert mass == pytest.approx(1 - d.gamma**longest, abs=1e-12)
        first = np.eye(TINY.n_pairs)[pair]
        assert mean == pytest.approx(expected_sums(d, before.policy, first, signal, longest), abs=1e-12)
        tail = np.abs(signal).max() * d.gamma**longest * (longest + 1 / (1 - d.gamma))
        Q = values(d, before.policy, signal)[1][pair]
        assert abs(mean - Q) <= tail < 0.1 * abs(Q)


def test_the_mean_of_a_walk_from_the_start_by_enumeration() -> None:
    """Margins and visits of every walk of at most 5 queries, from every start and first action."""
    longest, walks = 5, Walks(1, 1, TINY.discount, False)
    before, d, world = some_state(TINY), dense(TINY), TINY.simulator().open()
    walk = interpreted(roll_out)
    mass, margin, visits = 0.0, 0.0, np.zeros(TINY.n_states)
    begin = np.cumsum(d.rho) - d.rho / 2
    for s0 in range(TINY.n_states):
        own = np.flatnonzero(d.state == s0)
        for chosen, u in zip(own, np.cumsum(before.policy[own]) - before.policy[own] / 2, strict=True):
            for rest, uniforms, pairs in paths(d, before.policy, int(chosen), longest):
                probability = d.rho[s0] * before.policy[chosen] * rest
                state, rng = copy_of(before), Uniforms([begin[s0], u, *uniforms])
                assert walk(state, walks, world, rng, 0, len(pairs)) == len(pairs) and not rng.numbers
                assert state.visits.tolist() == np.bincount(d.state[pairs], minlength=TINY.n_states).tolist()
                assert not state.action_values.any()
                mass += probability
                margin += probability * state.start_margins[0]
                visits += probability * state.visits
    first = d.rho[d.state] * before.policy
    assert mass == pytest.approx(1 - d.gamma**longest, abs=1e-12)
    assert margin == pytest.approx(expected_sums(d, before.policy, first, d.g[:, 0], longest), abs=1e-12)
    for s in range(TINY.n_states):
        here = (d.state == s).astype(float)
        assert visits[s] == pytest.approx(expected_sums(d, before.policy, first, here, longest), abs=1e-12)


@pytest.mark.parametrize("baseline", [0.0, 0.8])
@pytest.mark.parametrize("problem", ["ragged", "queue", "no future"])
def test_estimates_are_unbiased(problem: str, baseline: float) -> None:
    """Means over 400 iterations of 20 walks a pair and 100 from the start, against exact values, within 4.5 s.e.

    At most 96 + 2 + 6 + 1 Student tests with 399 degrees of freedom: false alarm 1e-3 a case. V without its first term,
    gamma V, would be off by 100 standard errors.
    """
    cmdp = {"ragged": ragged(2), "queue": ib.zoo.queue(), "no future": ragged(2, discount=0.0)}[problem]
    d, state, rng = dense(cmdp), some_state(cmdp), np.random.default_rng(1)
    state.baseline[0] = baseline
    walks, world = Walks(20, 100, float(cmdp.discount), False), cmdp.simulator().open()
    rows, drawn = [], 0
    for _ in range(400):
        before = drawn
        drawn = roll_out(state, walks, world, rng, drawn, 10**9)
        assert all_ended(state, walks)
        queries = [(drawn - before) / (100 + 20 * cmdp.n_pairs)]
        rows.append(np.concatenate([state.action_values, state.start_margins, state.visits / 100, queries]))
        assert state.visits.sum() + state.baseline[1] == drawn - before
        begin_iteration(state, drawn, 0)
    length = 1 / (1 - d.gamma)
    Q = values(d, state.policy, d.r + d.g @ state.prices)[1] - baseline * length
    V = [d.rho @ values(d, state.policy, g)[0] for g in d.g.T]
    time = np.bincount(d.state, occupancy(d, state.policy)) * length
    found, expected = np.array(rows), np.concatenate([Q, V, time, [length]])
    error = found.std(axis=0, ddof=1) / math.sqrt(len(found))
    exact = error < 1e-12  # nothing is random: no future, or a start that is never in a state
    np.testing.assert_allclose(found[:, exact], np.broadcast_to(expected[exact], found[:, exact].shape), atol=1e-12)
    z = (found.mean(axis=0) - expected)[~exact] / error[~exact]
    assert np.all(np.abs(z) < 4.5), z


def test_the_baseline_is_the_mean_signal_of_the_walks_before() -> None:
    """And it takes noise away: where every signal is the same, none is left."""
    cmdp = ragged(2)
    d, state, rng = dense(cmdp), some_state(cmdp), np.random.default_rng(0)
    walks, world = Walks(3, 2, float(cmdp.discount), True), cmdp.simulator().open()
    seen: list[int] = []
    twin = interpreted(roll_out)
    plain = twin.__globals__["draw_next"]

    def draw_next(world: Any, pair: int, rng: Any) -> int:
        seen.append(int(pair))
        return plain(world, pair, rng)

    twin.__globals__["draw_next"] = draw_next
    signal = d.r + d.g @ state.prices
    drawn = 0
    for _ in range(3):
        seen.clear()
        drawn = twin(state, walks, world, rng, drawn, 10**9)
        from_pairs = seen[int(state.visits.sum()) :]
        assert all_ended(state, walks)
        assert state.baseline[0] == pytest.approx(signal[from_pairs].mean(), abs=1e-12)
        begin_iteration(state, drawn, 0)

    flat = ib.CMDP(  # scaled: reward 0 and margin 1 everywhere
        offsets=[0, 2],
        transition=[[1.0], [1.0]],
        reward=[2.0, 2.0],
        constraints=[ib.Constraint([0.5, 0.5], at_least=0.0)],
        initial=[1.0],
        discount=0.9,
    )
    state, world = new_state(flat.pairs, 1), flat.simulator().open()
    state.prices[:] = 0.75
    walks = Walks(50, 1, 0.9, True)
    drawn = roll_out(state, walks, world, rng, drawn, 10**9)
    assert all_ended(state, walks) and state.action_values.min() > 3.0  # 0.75 times a mean length of 10
    begin_iteration(state, drawn, 0)
    drawn = roll_out(state, walks, world, rng, drawn, 10**9)
    assert all_ended(state, walks)
    np.testing.assert_allclose(state.action_values, 0.0, atol=1e-12)


def test_exact_values_in_the_place_of_estimates() -> None:
    cmdp = ragged(2)
    d, model = dense(cmdp), known_model(in_scaled_units(cmdp)[1])
    state = new_state(cmdp.pairs, 2, cmdp.initial)
    state.policy[:], state.prices[:] = some_state(cmdp).policy, [0.3, 1.2]
    evaluate_exactly(state, model)
    np.testing.assert_allclose(
        state.action_values, values(d, state.policy, d.r + d.g @ state.prices)[1], rtol=0, atol=1e-12
    )
    margins = [d.rho @ values(d, state.policy, g)[0] for g in d.g.T]
    np.testing.assert_allclose(state.start_margins, margins, rtol=0, atol=1e-12)
    np.testing.assert_allclose(state.visits, np.bincount(d.state, occupancy(d, state.policy)), rtol=0, atol=1e-12)


def test_a_step_by_hand() -> None:
    """One state with two actions, one constraint: logits 0 and 0, values 3 and 1, and so on."""
    cmdp = ib.CMDP(
        offsets=[0, 2],
        transition=[[1.0], [1.0]],
        reward=[1.0, 0.0],
        constraints=[ib.Constraint([0.0, 1.0], at_least=0.5)],
        initial=[1.0],
        discount=0.5,
    )
    constants = Constants(
        Walks(1, 1, 0.5, False), policy_step=0.5, price_step=0.1, kappa=0.2, radius=10.0, restart=0, decreasing=False
    )
    state = new_state(cmdp.pairs, 1)
    state.action_values[:], state.start_margins[:], state.visits[:], state.prices[:] = [3.0, 1.0], [-0.8], [4.0], [2.0]
    make_step(state, constants, cmdp.offsets, 1.0)
    assert state.policy == pytest.approx([math.e / (1 + math.e), 1 / (1 + math.e)], abs=1e-15)
    assert state.logits.tolist() == [0.0, -1.0]
    assert state.prices[0] == pytest.approx(2.0 + 0.1 * (0.8 + 0.2), abs=1e-15)
    assert state.row_sums.tolist() == [2.0, 2.0] and state.price_sums.tolist() == [2.0]  # of before the step
    policy = state.policy.copy()
    state.action_values[:], state.start_margins[:] = [1.0, 2.0], [50.0]
    make_step(state, constants, cmdp.offsets, 0.25)
    assert np.log(state.policy[1] / state.policy[0]) == pytest.approx(-1.0 + 0.25 * 0.5, abs=1e-12)
    assert state.prices[0] == pytest.approx(2.1 - 0.25 * 0.1 * 49.8, abs=1e-15)
    np.testing.assert_allclose(state.row_sums, 2.0 + 0.25 * 4.0 * policy, rtol=1e-15)
    assert state.price_sums[0] == pytest.approx(2.0 + 0.25 * 2.1) and state.weight[0] == 1.25
    state.start_margins[:] = [-1e6]
    make_step(state, constants, cmdp.offsets, 1.0)
    assert state.prices.tolist() == [10.0]
    state.start_margins[:] = [1e6]
    make_step(state, constants, cmdp.offsets, 1.0)
    assert state.prices.tolist() == [0.0] and state.position[2] == 4


def test_averages_start_anew_with_the_first_iteration_after_the_restart() -> None:
    state = new_state(TINY.pairs, 1)
    for drawn, restart, forgotten in [(10, 0, False), (20, 25, False), (30, 25, True), (40, 25, False)]:
        state.row_sums[:], state.price_sums[:], state.weight[:] = 1.0, 1.0, 1.0
        state.visits[:], state.action_values[:], state.start_margins[:], state.baseline[:] = 1.0, 1.0, 1.0, 1.0
        begin_iteration(state, drawn, restart)
        expected = 0.0 if forgotten else 1.0
        for kept in (state.row_sums, state.price_sums, state.weight):
            assert np.all(kept == expected)
        assert not state.visits.any() and not state.action_values.any() and not state.start_margins.any()
        assert state.baseline.tolist() == [1.0, 0.0] and state.position.tolist() == [0, -1, 0, drawn]


def test_the_average_policy_counts_the_visits_of_the_iteration_under_way() -> None:
    state = some_state(TINY)
    state.row_sums[:] = [2.0, 6.0, 0.0]
    state.visits[:] = [4.0, 0.0]
    policy, prices, averages, *_ = average_policy(state, TINY, weight=0.5)
    expected = np.array([2.0, 6.0]) + 0.5 * 4.0 * state.policy[:2]
    np.testing.assert_allclose(policy.probabilities[:2], expected / expected.sum(), rtol=1e-14)
    assert policy.probabilities[2] == 1.0
    np.testing.assert_allclose(averages.occupancy, [*(expected / expected.sum()), 0.0], rtol=1e-14)
    assert prices.tolist() == state.prices.tolist() and prices is not state.prices  # no iteration has ended
    state.price_sums[:], state.weight[:] = 3.0, 2.0
    assert average_policy(state, TINY, weight=0.0)[1].tolist() == [1.5]


UNREACHED = ib.CMDP(  # the second state cannot be entered, and nothing starts there
    offsets=[0, 2, 4],
    transition=[[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]],
    reward=[1.0, 0.0, 0.0, 1.0],
    constraints=[ib.Constraint([0.0, 1.0, 0.0, 0.0], at_least=0.3)],
    initial=[1.0, 0.0],
    discount=0.5,
)


@pytest.mark.parametrize("settings", [ib.NPGPD(slater=0.5), ib.PDSC(slater=0.5)])
def test_states_never_visited_keep_the_row_of_the_last_policy(settings: Any) -> None:
    simulator, rng, record = UNREACHED.simulator(), np.random.default_rng(0), settings.algorithm
    state, constants, *_ = record.prepare(settings, simulator, 3000, rng)
    record.advance(state, constants, simulator.open(), rng, 0, 3000)
    policy = record.extract(state, constants, simulator).policy
    assert state.policy[3] > 0.9  # it has been learned, from the walks that begin there
    assert policy.probabilities[2:].tolist() == state.policy[2:].tolist()
    assert not np.array_equal(policy.probabilities[:2], state.policy[:2])
    known = ib.iterate(UNREACHED, settings, iterations=100)
    assert known.policy.probabilities[3] > 0.9


@pytest.mark.parametrize("settings", [ib.NPGPD(slater=0.2), ib.PDSC(slater=0.2)])
def test_less_than_an_iteration_leaves_the_uniform_policy(settings: Any) -> None:
    queue = ib.zoo.queue()
    run = ib.learn(queue.simulator(), settings, samples=100, checkpoints=[1, 50])
    for policy in run.policies:
        np.testing.assert_allclose(policy.probabilities, 1 / 16, rtol=1e-15)
    assert run.prices.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("settings", [ib.NPGPD, ib.PDSC])
def test_what_common_settings_become(settings: Any) -> None:
    simulator, rng = ib.zoo.queue().simulator(), np.random.default_rng(0)
    plain = resolve(settings(slater=0.2), simulator, 240_000, rng)
    assert plain.walks == Walks(1, 24, 0.5, False) and plain.iterations == 1000.0
    assert (plain.kappa, plain.restart, plain.drawn) == (0.0, 0, 0)
    begun = plain.prepared(settings(), simulator, (1.0, 2.0), (1.5, 2.5), True, "none")
    assert begun.constants == Constants(plain.walks, 1.5, 2.5, 0.0, 10.0, 0, True)
    assert (begun.settings["policy_step"], begun.settings["price_step"]) == (1.0, 2.0) and begun.samples == 0
    more = resolve(
        settings(slater=0.2, kappa=0.03, rollouts=3, start_rollouts=12, baseline=True, average="second half"),
        simulator,
        60_001,
        rng,
    )
    assert more.walks == Walks(3, 12, 0.5, True) and more.iterations == pytest.approx(60_001 / 600)
    assert (more.kappa, more.restart) == (0.03, 30_000)
    assert more.prepared(settings(), simulator, (1.0, 1.0), (1.0, 1.0), False, "none").constants.kappa == 0.06
    shrunk = resolve(settings(slater=0.2, kappa="shrinking"), simulator, 240_000, rng)
    assert shrunk.kappa == pytest.approx(0.3 / math.sqrt(1000))
    few = resolve(settings(slater=0.2, kappa="shrinking"), simulator, 7, rng)
    assert few.iterations == 1.0 and few.kappa == 0.1  # half the Slater constant
    estimated = resolve(settings(average="second half"), simulator, 100_000, pilot_of(ib.zoo.queue(), 100_000))
    assert estimated.drawn == 9984 and estimated.restart == 9984 + 90_016 // 2
    assert estimated.slater == pytest.approx(0.1, rel=0.2)
    model = in_scaled_units(ib.zoo.queue())[1]
    known = resolve_known(settings(average="second half", kappa="shrinking"), model, 401)
    assert known.slater == pytest.approx(0.2, abs=1e-8) and known.restart == 200
    assert known.kappa == pytest.approx(0.3 / math.sqrt(401)) and known.iterations == 401.0
    given = resolve_known(settings(slater=0.4), model, 1)
    assert given.prepared(settings(), model, (1.0, 1.0), (1.0, 1.0), False, "none").constants.radius == 5.0


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        (name, bad)
        for name, values in {
            "slater": (0.0, -0.1, 1.1, math.nan, "0.2"),
            "kappa": (-0.1, 1.1, math.nan, "0.1", None),
            "policy_step": (0.0, -1.0, math.nan, math.inf, "1"),
            "price_step": (0.0, -1.0, math.nan, math.inf, "1"),
            "rollouts": (0, -1, 1.5, True, None, "1"),
            "start_rollouts": (0, -1, 1.5, True, "1"),
            "baseline": (1, None, "yes"),
            "average": ("half", None, 2),
        }.items()
        for bad in values
    ],
)
@pytest.mark.parametrize("settings", [ib.NPGPD, ib.PDSC])
def test_a_bad_setting_is_named(settings: Any, name: str, bad: object) -> None:
    with pytest.raises(ib.InvalidInput, match=rf"{settings.__name__}: {name} must be .*, found "):
        settings(**{name: bad})
