"""Triple-QA: its targets by enumeration, queues and ties by hand, whole runs against a plain transcription.

Every statistical test says how often it would fail by chance if its seeds were drawn anew; the seeds are the first
ones, not chosen.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms.triple_qa import Constants, State, advance, best_action, end_frame, extract, formulas, prepare
from inbounds.numerics.compiled import interpreted
from naive_cspda import dense, ragged

QUEUE = ib.zoo.queue()
UNIFORM = 1e9
"""Exploration so large that every action is drawn at random."""


class Uniforms:
    """A generator that gives chosen numbers, then fails."""

    def __init__(self, *numbers: float) -> None:
        self.numbers = list(numbers)

    def random(self) -> float:
        return self.numbers.pop(0)


def prepared(cmdp: ib.CMDP, settings: ib.TripleQA, samples: int, seed: int = 0) -> tuple[State, Constants, Any, Any]:
    simulator, rng = cmdp.simulator(), np.random.default_rng(seed)
    start = prepare(settings, simulator, samples, rng)
    return start.state, start.constants, simulator.open(), rng


def copy_of(state: State) -> State:
    return State(*(array.copy() for array in state))


# ---- one step


def test_the_targets_by_enumeration() -> None:
    """Over the next states of every pair: the tables move by al ( x + gamma P values + b - table ) on average."""
    cmdp, bonus = ragged(2), 0.05
    d, step = dense(cmdp), interpreted(advance)
    before, constants, world, _ = prepared(cmdp, ib.TripleQA(bonus=bonus, chi=4.0, exploration=UNIFORM), 10_000)
    rng = np.random.default_rng(3)
    before.tables[:] = rng.uniform(0.0, 3.0, before.tables.shape)
    before.values[:] = rng.uniform(0.0, 3.0, before.values.shape)
    before.tries[:] = rng.integers(0, 9, cmdp.n_pairs)
    x = np.column_stack([d.r, 0.5 + 0.5 * d.g])
    horizon = 1.0 / (1.0 - d.gamma)
    iota = 8.0 * math.log(math.sqrt(2.0) * 10_000)
    for k in range(cmdp.n_pairs):
        s = d.state[k]
        own = np.flatnonzero(d.state == s)
        before.position[0] = s
        mean = np.zeros(3)
        for after in np.flatnonzero(d.P[k]):
            state = copy_of(before)
            middle = np.cumsum(d.P[k])[after] - d.P[k, after] / 2.0
            pick = (k - own[0] + 0.5) / len(own)
            uniforms = Uniforms(0.0, pick, middle, 0.1, d.gamma / 2.0)  # explore, pair, next, start, go on
            assert step(state, constants, world, uniforms, 0, 1) == 1 and not uniforms.numbers
            assert state.position[0] == after and state.sums[k] == 1.0 == state.sums.sum()
            assert np.all(np.delete(state.tables, k, axis=0) == np.delete(before.tables, k, axis=0))
            mean += d.P[k, after] * (state.tables[k] - before.tables[k])
        tau = before.tries[k] + 1
        rate, b = 5.0 / (4.0 + tau), bonus * horizon * math.sqrt(5.0 * iota / (4.0 + tau))
        expected = rate * (x[k] + d.gamma * d.P[k] @ before.values + b - before.tables[k])
        np.testing.assert_allclose(mean, expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("tables", ["reset", "kept"])
def test_estimates_are_lowered_together_or_not_at_all(tables: str) -> None:
    """Q below Qhat but a C above its Chat: nothing is lowered; unless the tables are kept, and nothing is a minimum."""
    cmdp, step = ragged(2), interpreted(advance)
    own = np.arange(cmdp.offsets[0], cmdp.offsets[1])
    for low, lowered in (((1.0, 1.0, 1.0), True), ((1.0, 1.0, -1.0), False), ((-1.0, 1.0, 1.0), False)):
        settings = ib.TripleQA(bonus=0.0, chi=1e9, exploration=UNIFORM, tables=tables)
        state, constants, world, _ = prepared(cmdp, settings, 1000)
        state.position[0] = 0
        state.tables[:] = 1.5
        state.tries[:] = 10**12  # the tables hardly move
        state.lower[:] = 1.5 + 0.5 * np.array(low)
        state.lower[own[2], 0] = 9.0  # the best action of the state, before and after
        step(state, constants, world, Uniforms(0.0, 0.1, 0.5, 0.5, 0.5), 0, 1)
        moved = lowered or tables == "kept"
        assert np.allclose(state.lower[own[0]], 1.5, atol=1e-2) == moved
        np.testing.assert_array_equal(state.values[0], state.lower[own[2]])


def test_ties_are_broken_evenly() -> None:
    """One uniform decides between three equal actions: each is taken for a third of its values."""
    lower, price = np.array([[1.0, 2.0], [0.5, 0.5], [2.0, 1.0], [0.0, 3.0], [0.6, 0.5]]), np.array([1.0])
    choose, taken = interpreted(best_action), np.zeros(5, dtype=int)
    for x in (np.arange(36) + 0.5) / 36:
        taken[choose(lower, price, 0, 5, Uniforms(x))] += 1
    assert taken.tolist() == [12, 0, 12, 12, 0]
    assert choose(lower, price, 0, 5, Uniforms(1.0 - 2.0**-53)) == 3
    assert choose(lower, np.array([1.1]), 0, 5, Uniforms()) == 3  # a higher price: utility decides
    assert choose(lower, np.array([0.9]), 0, 5, Uniforms()) == 2
    assert choose(lower, price, 1, 2, Uniforms()) == 1


# ---- frames, queues and what they see


def test_the_end_of_a_frame() -> None:
    state, constants, _, _ = prepared(ragged(2), ib.TripleQA(kappa=0.1, frame=10), 1000)
    horizon = 1.0 / (1.0 - 0.7)
    for array in (state.tables, state.lower, state.values):
        array[:] = 1.0
    state.queues[:], state.utilities[:], state.tries[:] = [0.2, 0.2], [4.0, 9.0], 5
    end_frame(state, constants)
    np.testing.assert_allclose(state.queues, [0.2 + 0.55 - 0.4, 0.0], rtol=0.0, atol=1e-15)
    assert not state.utilities.any() and not state.tries.any()
    assert all(np.all(array == horizon) for array in (state.tables, state.lower, state.values))
    kept = constants._replace(kept=True)
    state.tables[:], state.tries[:] = 1.0, 5
    end_frame(state, kept)
    assert np.all(state.tables == 1.0) and np.all(state.tries == 5)


def test_estimated_utilities_are_those_of_a_start() -> None:
    """Over all starts, what a step adds is (1 - gamma) What on average: the value from the initial distribution."""
    cmdp, step = ragged(2), interpreted(advance)
    d = dense(cmdp)
    before, constants, world, _ = prepared(cmdp, ib.TripleQA(exploration=UNIFORM), 1000)
    before.position[0] = 2  # where no walk starts, so that the step changes no value of a start
    before.values[:] = np.random.default_rng(0).uniform(0.0, 3.0, before.values.shape)
    mean = np.zeros(2)
    for s0 in np.flatnonzero(d.rho):
        state, middle = copy_of(before), np.cumsum(d.rho)[s0] - d.rho[s0] / 2.0
        step(state, constants, world, Uniforms(0.0, 0.5, 0.5, middle, 0.5), 0, 1)
        mean += d.rho[s0] * state.utilities
    np.testing.assert_allclose(mean, (1.0 - d.gamma) * d.rho @ before.values[:, 1:], rtol=0.0, atol=1e-12)


def test_observed_utilities_and_visits_are_those_of_the_occupancy() -> None:
    """Random actions, 40 seeds of 5,000 steps: utilities and visits as the uniform policy's exact ones.

    Within 4 standard errors, 2 + 13 tests: false alarm 0.1 %. The utility of a start alone would not pass.
    """
    cmdp = ragged(2)
    d, steps = dense(cmdp), 5_000
    occupancy = ib.occupancy(cmdp, ib.Policy.uniform(cmdp))
    utility = 0.5 + 0.5 * d.g
    seen, visits = [], []
    for seed in range(40):
        settings = ib.TripleQA.practical(repair=False, exploration=UNIFORM, frame=steps + 1, average="all")
        state, constants, world, rng = prepared(cmdp, settings, steps, seed)
        advance(state, constants, world, rng, 0, steps)
        seen.append(state.utilities / steps)
        visits.append(state.sums / steps)
    for found, expected in ((np.array(seen), occupancy @ utility), (np.array(visits), occupancy)):
        error = found.std(axis=0, ddof=1) / math.sqrt(len(found))
        assert np.all(np.abs(found.mean(axis=0) - expected) < 4.0 * error)
    first = (ib.Policy.uniform(cmdp).probabilities * d.rho[d.state]) @ utility
    assert np.max(np.abs(np.mean(seen, axis=0) - first) / np.std(seen, axis=0, ddof=1) * math.sqrt(40)) > 10.0


# ---- whole runs


def naive_run(cmdp: ib.CMDP, settings: ib.TripleQA, samples: int, seed: int, resolved: Any) -> Any:
    """The algorithm of the module's docstring, in the plainest way."""
    d, rng = dense(cmdp), np.random.default_rng(seed)
    n, n_constraints, horizon = len(d.r), d.g.shape[1], 1.0 / (1.0 - d.gamma)
    rows, ends = np.cumsum(d.P, axis=1), np.cumsum(d.rho)
    x = np.column_stack([d.r, (1.0 + d.g) / 2.0])
    chi, eta, frame, span = (resolved[name] for name in ("chi", "eta", "frame", "span"))
    iota, eps = 8.0 * math.log(math.sqrt(2.0) * samples), resolved["kappa"] / 2.0

    def fresh() -> tuple[np.ndarray, ...]:
        return np.full(x.shape, horizon), np.full(x.shape, horizon), np.full((len(d.rho), x.shape[1]), horizon)

    def start() -> int:
        return int(np.searchsorted(ends, rng.random(), side="right"))

    def scores(own: np.ndarray) -> np.ndarray:
        # Entry by entry: a matrix product may round the same numbers differently, and break ties.
        return hats[own, 0] + sum((Z[i] / eta * hats[own, 1 + i] for i in range(n_constraints)), np.zeros(len(own)))

    (Q, hats, V), tau = fresh(), np.zeros(n)
    Z, taken, prices, utility, s = np.zeros(n_constraints), [], [], [], None
    for t in range(1, samples + 1):
        s = start() if s is None else s
        own = np.flatnonzero(d.state == s)
        if settings.exploration > 0.0 and rng.random() < settings.exploration * math.sqrt(n / t):
            k = int(own[int(rng.random() * len(own))])
        else:
            best = own[scores(own) == scores(own).max()]
            k = int(best[0] if len(best) == 1 else best[int(rng.random() * len(best))])
        after = int(np.searchsorted(rows[k], rng.random(), side="right"))
        tau[k] += 1
        rate = (chi + 1.0) / (chi + tau[k])
        b = settings.bonus * span * math.sqrt((chi + 1.0) * iota / (chi + tau[k]))
        Q[k] += rate * (x[k] + d.gamma * V[after] + b - Q[k])
        if np.all(Q[k] <= hats[k]) or settings.tables == "kept":
            hats[k] = Q[k]
        V[s] = hats[own[int(np.argmax(scores(own)))]]
        utility.append(x[k, 1:] if settings.utility == "observed" else (1.0 - d.gamma) * V[start(), 1:])
        taken.append(k)
        prices.append(Z / (2.0 * eta))
        s = after if rng.random() < d.gamma else None
        if t % frame == 0:
            Z = np.maximum(0.0, Z + 0.5 + eps - np.mean(utility, axis=0))
            utility = []
            if settings.tables == "reset":
                (Q, hats, V), tau = fresh(), np.zeros(n)
    first = samples // 2 if settings.average == "second half" else 0
    return Q, Z, np.bincount(taken[first:], minlength=n), np.mean(prices[first:], axis=0)


RUNS = {
    "paper": ib.TripleQA(),
    "paper, no bonus": ib.TripleQA(bonus=0.0, kappa=0.05, frame=70),
    "paper, small bonus": ib.TripleQA(bonus=0.005, kappa=0.05, frame=70, chi=3.0, exploration=0.2),
    "practical": ib.TripleQA.practical(repair=False),
    "kept, estimated": ib.TripleQA.practical(repair=False, utility="estimated", average="all", frame=31),
}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("cmdp", [QUEUE, ragged(2), ragged(0)], ids=["queue", "ragged2", "ragged0"])
def test_a_run_equals_the_plain_transcription(cmdp: ib.CMDP, run: str) -> None:
    """On the same path, action by action, over 1000 steps.

    The queue's actions often tie (its reward depends on the state alone), so here the transcription must round alike.
    """
    settings, steps = RUNS[run], 1000
    for seed in range(2):
        start = prepare(settings, cmdp.simulator(), steps, np.random.default_rng(seed))
        state = start.state
        advance(state, start.constants, cmdp.simulator().open(), np.random.default_rng(seed), 0, steps)
        tables, queues, visits, prices = naive_run(cmdp, settings, steps, seed, start.settings)
        np.testing.assert_array_equal(state.sums, visits)
        np.testing.assert_allclose(state.tables, tables, rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(state.queues, queues, rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(extract(state, start.constants, cmdp).prices, prices, rtol=0.0, atol=1e-9)


def test_the_output_counts_the_pairs_taken_and_is_greedy_elsewhere() -> None:
    cmdp = ib.zoo.garnet(states=300, actions=3, successors=3, constraints=1, discount=0.5, seed=0)
    state, constants, world, rng = prepared(cmdp, ib.TripleQA.practical(repair=False, exploration=0.1), 1000)
    advance(state, constants, world, rng, 0, 1000)
    policy = extract(state, constants, cmdp).policy
    visits = cmdp.pairs.sum_by_state(state.sums)
    assert visits.sum() == 500.0 and np.any(visits == 0.0) and np.any(visits > 3.0)
    score = state.lower @ np.concatenate([[1.0], state.queues / constants.eta])
    for s in range(cmdp.n_states):
        own = slice(cmdp.offsets[s], cmdp.offsets[s + 1])
        if visits[s] > 0.0:
            expected = state.sums[own] / visits[s]
        else:
            expected = np.arange(3) == np.argmax(score[own])
        np.testing.assert_allclose(policy.probabilities[own], expected, rtol=0.0, atol=1e-15)


def totals(settings: ib.TripleQA, samples: int, seeds: range) -> np.ndarray:
    simulator = QUEUE.simulator()
    judged = (ib.evaluate(QUEUE, ib.learn(simulator, settings, samples=samples, seed=seed).policy) for seed in seeds)
    return np.array([[one.total_reward, *one.total_margins] for one in judged])


def test_the_preset_stays_in_bounds_on_the_queue() -> None:
    """40 runs of 100,000 samples: the mean within 0.05 of the optimum and margins above zero, with 4 standard errors to
    spare; fewer runs out of bounds with kappa than without.

    If 5 % of runs were out of bounds, more than 7 of 40 would be with probability 0.1 %.
    """
    rows, plain = (totals(settings, 100_000, range(40)) for settings in (
        ib.TripleQA.practical(repair=False), ib.TripleQA.practical(repair=False, kappa=0.0)))  # fmt: skip
    sure = rows.mean(axis=0) - 4.0 * rows.std(axis=0, ddof=1) / math.sqrt(len(rows))
    assert sure[0] > 4.644858 - 0.05 and np.all(sure[1:] > 0.0)
    out, plain_out = (int(np.any(some[:, 1:] < 0.0, axis=1).sum()) for some in (rows, plain))
    assert out <= 7 and plain_out > out


def test_prices_approach_the_exact_ones() -> None:
    """200,000 steps: the mean over 8 seeds within a fifth of the optimum's prices."""
    found = [
        ib.learn(QUEUE.simulator(), ib.TripleQA.practical(repair=False), samples=200_000, seed=seed).prices
        for seed in range(8)
    ]
    np.testing.assert_allclose(np.mean(found, axis=0), ib.solve(QUEUE).prices, rtol=0.2)


def test_the_paper_s_settings_learn_nothing_in_practice() -> None:
    """As the module says: the bonus keeps every estimate at its upper bound, and the actions are random."""
    state, constants, world, rng = prepared(QUEUE, ib.TripleQA(), 100_000)
    advance(state, constants, world, rng, 0, 100_000)
    assert np.all(state.lower == 2.0)
    rows = totals(ib.TripleQA(), 100_000, range(5))
    np.testing.assert_allclose(rows.mean(axis=0), [4.988788, -4.0, -1.04], rtol=0.0, atol=0.03)


# ---- settings


def test_formulas() -> None:
    """K = 10^6, n = 96, span 2."""
    found = formulas(96, 2.0, 1_000_000)
    assert found.chi == pytest.approx(100.0) and found.eta == pytest.approx(10.0)
    assert found.iota == pytest.approx(8.0 * math.log(math.sqrt(2.0) * 1e6))
    assert found.kappa == pytest.approx(2.0 * 9.0 * 2.0 * math.sqrt(96 * found.iota) / 10.0)
    start = prepare(ib.TripleQA(), QUEUE.simulator(), 1_000_000, np.random.default_rng(0))
    assert start.settings["frame"] == 10_000 and start.settings["span"] == 2.0 and start.samples == 0
    assert start.constants.least == pytest.approx(0.5 + 9.0 * 2.0 * math.sqrt(96 * found.iota) / 10.0)
    # eps is below the slack of the queue, 0.1 for utilities, from this number of steps on
    assert formulas(96, 2.0, 4 * 10**27).kappa / 2.0 > 0.1 > formulas(96, 2.0, 41 * 10**26).kappa / 2.0


def test_the_preset_is_what_its_module_says() -> None:
    start = prepare(ib.TripleQA.practical(repair=False), QUEUE.simulator(), 1_000_000, np.random.default_rng(0))
    constants = start.constants
    assert (constants.chi, constants.eta, constants.frame, constants.bonus) == (2.0, 3.0, 1000, 0.0)
    assert constants.exploration == pytest.approx(math.sqrt(96)) and constants.kept and constants.observed
    assert constants.restart == 500_000
    assert start.settings["kappa"] == pytest.approx(math.sqrt(2e-6))
    assert constants.least == pytest.approx(0.5 + 0.5 * math.sqrt(2e-6))
    assert (
        prepare(
            ib.TripleQA.practical(repair=False, kappa=0.2), QUEUE.simulator(), 10, np.random.default_rng(0)
        ).constants.least
        == 0.6
    )
    with pytest.raises(TypeError):
        ib.TripleQA.practical(repair=False, kapa=0.0)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        (name, bad)
        for name, values in {
            "kappa": (-0.1, 1.1, math.nan, "0.1"),
            "span": (0.0, -1.0, math.inf, "1"),
            "chi": (-1.0, math.nan, "big", [1.0]),
            "eta": (0.0, -1.0, math.inf, "1"),
            "frame": (0, 1.5, "all", True),
            "frame_exponent": (0.0, 1.5, None, "1"),
            "bonus": (-1.0, math.inf, None, "1"),
            "exploration": (-1.0, math.inf, None, "1"),
            "tables": ("fresh", None),
            "utility": ("seen", None),
            "average": ("half", None, 2),
            "kappa_multiplier": (0.0, -1.0, math.inf, "1"),
        }.items()
        for bad in values
    ],
)
def test_a_bad_setting_is_named(name: str, bad: object) -> None:
    with pytest.raises(ib.InvalidInput, match=rf"TripleQA: {name} must be .*, found "):
        ib.TripleQA(**{name: bad})


def test_settings_are_shown_as_written() -> None:
    assert repr(ib.TripleQA()) == "TripleQA()" and repr(ib.TripleQA(chi="horizon")) == "TripleQA(chi='horizon')"


def test_what_is_guaranteed() -> None:
    for settings, differ in (
        (ib.TripleQA(), False),
        (ib.TripleQA(span=1.0), False),
        (ib.TripleQA.practical(repair=False), True),
    ):
        text = prepare(settings, QUEUE.simulator(), 1000, np.random.default_rng(0)).guarantee
        assert text.startswith("none: ") and ("the settings differ" in text) == differ
