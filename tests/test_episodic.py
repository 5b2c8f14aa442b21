"""Learners that play episodes: the parts that they share, and what each of the planning ones promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import inbounds as ib
from inbounds.algorithms.episodic import rules as radii
from inbounds.algorithms.episodic.frame import Frame, frame_of
from inbounds.algorithms.episodic.model import (
    Model,
    fill_means,
    fill_signals,
    fill_spans,
    new_model,
    radius,
    renew,
    see,
)
from inbounds.algorithms.episodic.playing import mixture_sums, new_play
from inbounds.algorithms.loop import run_on_samples
from inbounds.exact.box_plan import constrained_plan
from inbounds.numerics.boxes import new_sweep, sweep
from inbounds.studies.regret import judge_for, judged_values, watching, weigh
from inbounds.studies.runs import run_arms
from inbounds.studies.safe import check_on_model, safe_policy
from naive_cspda import ragged


def episodes_of(n_constraints: int, horizon: int, seed: int = 0) -> ib.CMDP:
    cmdp = ragged(n_constraints, seed)
    return ib.CMDP(
        offsets=cmdp.offsets,
        transition=cmdp.transition,
        reward=cmdp.reward,
        constraints=cmdp.constraints,
        initial=cmdp.initial,
        horizon=horizon,
    )


def learned(cmdp: ib.CMDP, draws: int, chosen: radii.Radii, seed: int = 0) -> tuple[Frame, Model]:
    """Counts of pairs drawn at random, some of them never, and the model that they make."""
    simulator, rng = cmdp.simulator(), np.random.default_rng(seed)
    frame, world = frame_of(ib.OptCMDP(), simulator, 1000), simulator.open()
    model = new_model(frame)
    for _ in range(draws):
        pair = int(rng.integers(cmdp.n_pairs - 1))  # the last is never tried
        h = int(rng.integers(cmdp.layers))
        after, heard = int(world.draw_next(pair + h * frame.row_step, rng)), pair + h * frame.signal_step
        signals = frame.factors * np.array([world.reward[heard], *world.margins[heard]])
        see(model, frame, np.array([[pair, after, h]]), signals[None])
        model.rows.starts[world.draw_start(rng)] += 1.0
    renew(model, chosen, 1.0, 1.0)
    return frame, model


def signals_of(frame: Frame, model: Model, chosen: radii.Radii) -> np.ndarray:
    horizon, n, n_signals = len(frame.weights), frame.offsets[-1], len(frame.low)
    signals = np.empty((horizon, n, n_signals))
    fill_signals(signals, model, frame, chosen, np.zeros((horizon + 1, n_signals)), 1.0, 0.0)
    return signals


def explicit(frame: Frame, model: Model, signals: np.ndarray, extended: bool) -> float | None:
    """The slow twin: the (extended) linear program itself, over z[h, pair, next], on HiGHS; None where infeasible.

    A pair never tried ends the episode: its row of z is a single exit.
    """
    horizon, n, n_signals = signals.shape
    n_states = len(frame.offsets) - 1
    states = np.repeat(np.arange(n_states), np.diff(frame.offsets))
    index = {}
    for h in range(horizon):
        for pair in range(n):
            row = pair + h * frame.row_step
            after = range(n_states) if model.known[row] > 0 else [-1]
            index.update({(h, pair, s): len(index) + i for i, s in enumerate(after)})
    width = len(index)
    worth = np.zeros((n_signals, width))
    flow, boxes = sp.lil_matrix((horizon * n_states, width)), []
    for (h, pair, s), j in index.items():
        worth[:, j] = signals[h, pair]
        flow[h * n_states + states[pair], j] += 1.0
        if s >= 0 and h + 1 < horizon:
            flow[(h + 1) * n_states + s, j] -= 1.0
    for h in range(horizon):
        for pair in range(n):
            row = pair + h * frame.row_step
            if model.known[row] == 0:
                continue
            own = [index[h, pair, s] for s in range(n_states)]
            lower, upper = np.zeros(n_states), np.full(n_states, model.rows.beyond[row] if extended else 0.0)
            seen = model.rows.successors[row, : model.rows.length[row]]
            lower[seen] = (model.rows.lower if extended else model.rows.chances)[row, : len(seen)]
            upper[seen] = (model.rows.upper if extended else model.rows.chances)[row, : len(seen)]
            for s in range(n_states):
                for end, sign in ((upper[s], 1.0), (lower[s], -1.0)):
                    line = np.zeros(width)
                    line[own] = -sign * end
                    line[own[s]] += sign
                    boxes.append(line)
    right = np.zeros(horizon * n_states)
    right[:n_states] = model.rows.starts / model.rows.starts.sum()
    found = linprog(
        -worth[0],
        A_ub=np.vstack([np.array(boxes).reshape(-1, width), -worth[1:]]),
        b_ub=np.zeros(len(boxes) + n_signals - 1),
        A_eq=flow.tocsr(),
        b_eq=right,
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return -found.fun if found.status == 0 else None


def planned(frame: Frame, model: Model, signals: np.ndarray, extended: bool) -> tuple[Any, ...]:
    """How many policies were tried, the prices, the policy, and the value by duality: max of J_r + u . J_g."""
    horizon, n, n_signals = signals.shape
    prices, policy = np.zeros(n_signals - 1), np.empty((horizon, n))
    tried = constrained_plan(signals, model.rows, extended, 1e4 * frame.W, prices, policy)
    swept = new_sweep(horizon, len(frame.offsets) - 1, n, n_signals, extended)
    sweep(signals, prices, policy.copy(), model.rows, signals[0, :0], signals[0, :0], True, swept)
    sums = model.rows.starts / model.rows.starts.sum() @ swept.values[0]
    return tried, prices, policy, float(sums[0] + prices @ sums[1:])


@pytest.mark.parametrize("extended", [False, True], ids=["plain", "extended"])
@pytest.mark.parametrize("n_constraints", [0, 1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_column_generation_is_the_linear_program(n_constraints: int, seed: int, extended: bool) -> None:
    chosen = radii.practical([0.1, 1.0, 0.5, 0.0][seed], [1.0, 2.0, 0.3, 1.0][seed])
    parts = learned(episodes_of(n_constraints, 3, seed), [20, 60, 150, 400][seed], chosen, seed)
    signals = signals_of(*parts, chosen)
    best = explicit(*parts, signals, extended)
    tried, prices, policy, value = planned(*parts, signals, extended)
    np.testing.assert_allclose(np.add.reduceat(policy, parts[0].offsets[:-1], axis=1), 1.0)
    assert np.all(policy >= 0.0) and np.all(prices >= 0.0)
    if best is None:
        assert tried < 0
    else:
        assert tried > 0 and value == pytest.approx(best, rel=1e-9, abs=1e-9)


def test_a_bound_that_no_policy_keeps_is_said() -> None:
    cmdp = episodes_of(1, 3).tightened(100.0)
    parts = learned(cmdp, 300, radii.practical(0.0, 0.0))
    tried, _, policy, _ = planned(*parts, signals_of(*parts, radii.practical(0.0, 0.0)), True)
    assert tried < 0 and np.all(policy >= 0.0)


def test_no_radius_is_the_empirical_model_and_more_radius_is_worth_more() -> None:
    """Zero radius: the box is a point, and the value that of `ib.solve` on it. It grows with either constant."""
    cmdp = episodes_of(2, 4)
    none = radii.practical(0.0, 0.0)
    frame, model = learned(cmdp, 3_000, none)
    signals = signals_of(frame, model, none)
    signals[:, -1] = -1e3  # never tried: not in the model below
    rows = np.zeros((cmdp.n_pairs, cmdp.n_states))
    for row in range(cmdp.n_pairs):
        rows[row, model.rows.successors[row, : model.rows.length[row]]] = model.rows.chances[
            row, : model.rows.length[row]
        ]
    rows[-1, 0] = 1.0
    empirical = ib.CMDP(
        offsets=cmdp.offsets,
        transition=rows,
        reward=signals[0, :, 0],
        constraints=[ib.Constraint(signals[0, :, 1 + i], at_least=0.0) for i in range(2)],
        initial=model.rows.starts / model.rows.starts.sum(),
        horizon=4,
    )
    best = ib.solve(empirical)
    for extended in (False, True):
        tried, _, policy, value = planned(frame, model, signals, extended)
        assert tried > 0 and value == pytest.approx(best.reward, abs=1e-9)
        judged = ib.evaluate(empirical, ib.Policy(empirical.pairs, policy))
        assert judged.reward == pytest.approx(best.reward, abs=1e-8) and judged.margins.min() > -1e-8
    for grid in ([(c, 1.0) for c in (0.0, 0.1, 0.5, 2.0)], [(0.1, c) for c in (0.0, 0.1, 1.0, 5.0)]):
        values = []
        for root, linear in grid:
            chosen = radii.practical(root, linear)
            parts = learned(cmdp, 200, chosen)
            values.append(planned(*parts, signals_of(*parts, chosen), True)[-1])
        assert np.all(np.diff(values) >= -1e-9) and values[-1] > values[0]


def test_radii_by_hand() -> None:
    """p = 1/4 after 4 visits, where sqrt(p (1 - p) / n) = sqrt(3) / 8."""
    root = np.sqrt(3.0) / 8.0
    assert radius(radii.practical(0.1, 1.0), 0.25, 4.0) == pytest.approx(0.1 * root + 0.25)
    one = frame_of(ib.OptCMDP(), episodes_of(0, 1).simulator(), 1)._replace(pairs=1)
    two = radii.efroni(6.0 * np.exp(-2.0), one)  # its logarithm is 2
    assert radius(two, 0.25, 4.0) == pytest.approx(2.0 * np.sqrt(2.0) * root + 28.0 / 12.0)
    assert radius(radii.bennett(0.08, 7.0 / 3.0, 1.0), 0.25, 4.0) == pytest.approx(
        min(0.4 * root + 7.0 * 0.08 / 9.0, np.sqrt(0.01))
    )
    assert radius(radii.bennett(0.08, 7.0 / 3.0, 1.0), 0.25, 1.0) == 1.0
    assert radius(radii.bennett(0.08, 2.0 / 3.0), 0.0, 4.0) == pytest.approx(2.0 * 0.08 / 12.0)


def test_means_that_never_change_are_exact_and_those_that_do_are_noisy() -> None:
    frame = frame_of(ib.OptCMDP(), episodes_of(1, 3).simulator(), 100)
    model = new_model(frame)
    for k in range(1000):
        see(model, frame, np.array([[2, 0, 0]]), np.array([[0.1, 0.3 if k < 999 else 0.5]]))
    assert model.means[2, 0] == 0.1 and model.noisy.tolist() == [0, 1]
    assert model.means[2, 1] == pytest.approx(0.3002, rel=1e-12)


def test_signals_never_heard_at_a_stage_have_no_mean_although_the_row_is_known() -> None:
    """Transitions are alike at every stage and signals are not: a pair that was tried at stage 1 alone, seen from 0."""
    plain = episodes_of(1, 2)
    cmdp = plain.asking(reward=plain.reward + np.array([[0.0], [1.0]]))
    frame = frame_of(ib.OptCMDP(), cmdp.simulator(), 100)
    assert frame.row_step == 0 and frame.signal_step == cmdp.n_pairs
    model, chosen = new_model(frame), radii.Radii()
    see(model, frame, np.array([[2, 0, 1]]), np.array([[0.25, 0.75]]))
    renew(model, chosen, 1.0, 1.0)
    signals = signals_of(frame, model, chosen)
    optimistic = signals.copy()
    fill_means(signals, model, frame, True)
    assert signals[1, 2].tolist() == [0.25, 0.75]  # the mean
    signals[1, 2] = optimistic[1, 2]
    np.testing.assert_array_equal(signals, optimistic)  # where nothing was heard, what planning takes; not 0


def test_spans_by_hand() -> None:
    cmdp = episodes_of(1, 2)
    frame = frame_of(ib.OptCMDP(), cmdp.simulator(), 100)
    values, spans = np.zeros((3, cmdp.n_states, 2)), np.empty((3, 2))
    values[0, :, 0], values[1, :, 0] = [0.5, 1.9, 9.0, 0.0, 0.0], [0.0, 1.0, 9.0, 0.0, 0.0]
    acted = np.array([1, 1, 0, 0, 0])
    width = frame.high[1] - frame.low[1]
    fill_spans(spans, values, acted, frame, False)
    np.testing.assert_allclose(spans, [[1.4, width], [1.0, width], [0.0, 0.0]])
    fill_spans(spans, values, acted, frame, True)
    np.testing.assert_allclose(spans, [[1.4, width], [1.0, width], [1.0, width]])


def test_blocks_of_the_mixture() -> None:
    def frame_for(samples: int, **changes: Any) -> Frame:
        return frame_of(ib.OptCMDP.practical(**changes), episodes_of(0, 1).simulator(), samples)

    assert sorted(frame_for(11).blocks) == [1, 2, 5] and len(frame_for(11, average="all").blocks) == 0
    frame = frame_for(12)
    play = new_play(frame)
    play.mixture[0], play.mixture[1] = 3.0, 5.0
    for done, sums in ((12, 3.0), (11, 8.0), (6, 3.0), (7, 8.0), (3, 3.0)):
        play.episode[0] = done
        assert np.all(mixture_sums(play, frame) == sums)


# ---- judge and mixture


@pytest.mark.parametrize("problem", ["media", "stages", "queue"])
def test_the_judge_is_the_evaluation(problem: str) -> None:
    """Of the policies of chosen episodes; on a truncated problem as `ib.truncate` has it. No bit of the run changes."""
    from test_contract import with_stages

    cmdp = with_stages() if problem == "stages" else getattr(ib.zoo, problem)()
    settings, samples = ib.OptCMDPBonus.practical(), 1000
    judge = judge_for(cmdp, settings, samples)
    simulator = cmdp.simulator()
    run = run_on_samples(simulator, settings, samples, 3, advance=watching(judge, settings))
    unjudged = ib.learn(simulator, settings, samples=samples, seed=3)
    assert np.array_equal(run.policy.probabilities, unjudged.policy.probabilities)
    values = judged_values(judge, simulator, settings, samples)
    base = ib.truncate(cmdp, epsilon=1e-3).problem if problem == "queue" else cmdp
    assert values.shape == (samples // base.layers, 1 + cmdp.n_constraints) and np.all(np.isfinite(values))
    first = ib.evaluate(base, ib.Policy(base.pairs, _policy_of(settings, simulator, samples, 0)))
    np.testing.assert_allclose(values[0], [first.reward, *first.margins], rtol=0.0, atol=1e-10)
    last = ib.evaluate(base, ib.Policy(base.pairs, _policy_of(settings, simulator, samples, len(values) - 1)))
    np.testing.assert_allclose(values[-1], [last.reward, *last.margins], rtol=0.0, atol=1e-10)
    thin = judge_for(cmdp, settings, samples, episodes=[0, 7, 20])
    run_on_samples(simulator, settings, samples, 3, advance=watching(thin, settings))
    np.testing.assert_array_equal(judged_values(thin, simulator, settings, samples), values[[0, 7, 20]])


def _policy_of(settings: Any, simulator: ib.Simulator, samples: int, episode: int) -> np.ndarray:
    """The policy [H, n] that is played in an episode, seed 3."""
    rng, record = np.random.default_rng(3), settings.algorithm
    state, constants, *_ = record.prepare(settings, simulator, samples, rng)
    record.advance(state, constants, simulator.open(), rng, 0, episode * len(constants.frame.weights) + 1)
    return state.play.policy


def test_the_mixture_as_one_policy_has_the_mean_of_the_values() -> None:
    """Exactly by the occupancies; the learner's own, by its visits, has them as its expectation."""
    cmdp = episodes_of(2, 4)
    rng = np.random.default_rng(0)
    policies = [ib.Policy.from_occupancy(cmdp, rng.random(cmdp.shape)) for _ in range(6)]
    mixed = ib.Policy.from_occupancy(cmdp, np.mean([ib.occupancy(cmdp, policy) for policy in policies], axis=0))
    means = np.mean([[e.reward, *e.margins] for e in (ib.evaluate(cmdp, policy) for policy in policies)], axis=0)
    judge, frame = judge_for(cmdp, ib.OptCMDP(), 4), frame_of(ib.OptCMDP(), cmdp.simulator(), 4)
    weigh(judge, 0, new_play(frame)._replace(policy=np.array(mixed.probabilities)))
    np.testing.assert_allclose(judged_values(judge, cmdp.simulator(), ib.OptCMDP(), 4)[0], means, rtol=0.0, atol=1e-12)


def test_the_learner_s_own_mixture_is_close_to_the_exact_one() -> None:
    media, settings, samples = ib.zoo.media(), ib.OptCMDP.practical(), 100_000
    gaps = []
    for seed in range(3):
        judge = judge_for(media, settings, samples)
        run = run_on_samples(media.simulator(), settings, samples, seed, advance=watching(judge, settings))
        exact = judged_values(judge, media.simulator(), settings, samples)[5_000:].mean(axis=0)
        own = ib.evaluate(media, run.policy)
        gaps.append(np.abs(exact - [own.reward, *own.margins]))
    assert np.mean(gaps, axis=0).max() < 0.005  # as measured by others: at most .005


# ---- what each promises


@pytest.mark.parametrize("settings", [ib.OptCMDP(), ib.OptCMDPBonus(), ib.UCCFH(least=1.0), ib.CONRL()], ids=repr)
def test_plans_with_the_papers_radii_are_optimistic(settings: Any) -> None:
    """The value of a plan over the box, or with the bonus, is at least the optimum, on 20 seeds; delta is .05."""
    cmdp = ib.zoo.three_cycle()
    scaled = cmdp.simulator().scaling.model(cmdp)
    best, hopeful = ib.solve(scaled).reward, 0
    for seed in range(20):
        rng, record, simulator = np.random.default_rng(seed), settings.algorithm, cmdp.simulator()
        state, constants, *_ = record.prepare(settings, simulator, 600, rng)
        record.advance(state, constants, simulator.open(), rng, 0, 600)
        renew(state.model, constants.radii, 1.0, 1.0)
        signals = np.empty((6, 6, 2))
        fill_signals(signals, state.model, constants.frame, constants.radii, state.spans, 1.0, 0.0)
        value = planned(constants.frame, state.model, signals, constants.planning.extended)[-1]
        hopeful += value >= best - 1e-9
    assert hopeful == 20


@pytest.mark.parametrize("name", ["media", "inventory", "three_cycle", "factored"])
def test_with_the_papers_constants_the_safe_ones_stay_safe(name: str) -> None:
    cmdp = getattr(ib.zoo, name)()
    safe, samples = safe_policy(cmdp), 2_000 * cmdp.layers
    for settings in (ib.OptPessLP(safe=safe), ib.DOPE(safe=safe)):
        judge = judge_for(cmdp, settings, samples)
        run = run_on_samples(cmdp.simulator(), settings, samples, 0, advance=watching(judge, settings))
        values = judged_values(judge, cmdp.simulator(), settings, samples)
        assert values[:, 1:].min() >= -1e-9  # never out of bounds
        if isinstance(settings, ib.OptPessLP):
            own = ib.evaluate(cmdp, safe)
            np.testing.assert_allclose(values, np.tile([own.reward, *own.margins], (2_000, 1)), atol=1e-9)
        assert "leaving pi0" in run.guarantee or "warm-up" in run.guarantee or "slack" in run.guarantee


def two_rooms(initial: Any) -> ib.CMDP:
    """Two states that are never left; in the first the second action pays, and breaks the bound."""
    return ib.CMDP(
        offsets=[0, 2, 4],
        transition=[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]],
        reward=[0.0, 1.0, 0.0, 0.0],
        constraints=[ib.Constraint([1.0, 0.0, 1.0, 1.0], at_least=0.6, name="g")],
        initial=initial,
        horizon=1,
    )


def claimed(settings: Any, simulator: ib.Simulator, samples: int = 10**8) -> str:
    return settings.algorithm.prepare(settings, simulator, samples, np.random.default_rng(0)).guarantee


SAFE = ib.Policy.deterministic(two_rooms([1.0, 0.0]), np.array([[0, 2]]))
KNOWN_SIGNALS = [ib.UCCFH(), ib.DOPE(safe=SAFE, slack=0.5), ib.OPDOP(slater=0.5), ib.OptimisticGMBL(), ib.TripleQ()]
OWN_RADII = [
    *(ib.OptCMDP(), ib.OptCMDPBonus(), ib.CONRL(), ib.OptPessLP(safe=SAFE, slack=0.5), ib.TrulyNoRegret(slater=0.5)),
    *(kind(slater=0.5) for kind in (ib.OptDual, ib.OptPrimalDual, ib.OptPessPrimalDual)),
]


@pytest.mark.parametrize("settings", [*KNOWN_SIGNALS, *OWN_RADII], ids=lambda settings: type(settings).__name__)
def test_no_theorem_is_claimed_where_chance_is_what_its_paper_has_not(settings: Any) -> None:
    """A random start has no radius in any model; random signals have one in some papers' formulas."""

    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float, list[float]]:
        return state, float(action), [float(rng.random() < 0.55)]

    own = ib.Simulator(
        step,
        start=lambda rng: 0,
        states=2,
        actions=[0, 1],
        horizon=1,
        reward_range=(0, 1),
        constraints=[ib.Constraint(at_least=0.6, name="g")],
        signal_ranges=[(0, 1)],
    )
    fixed, drawn = claimed(settings, two_rooms([0.0, 1.0]).simulator()), two_rooms([0.5, 0.5]).simulator()
    assert "random" not in fixed
    assert fixed.startswith("none") == isinstance(settings, ib.TripleQ | ib.TrulyNoRegret)  # whose theorems take more
    for simulator in (drawn, own):
        said = claimed(settings, simulator)
        assert said.startswith("none: the paper's theorem does not cover ")
        assert ("a start that may be random" in said) != isinstance(settings, ib.TripleQ)
        random = simulator is own and settings in KNOWN_SIGNALS
        assert ("rewards or signals of a step that may be random" in said) == random


@pytest.mark.parametrize(
    ("settings", "most"),
    [(ib.OptCMDP, 0.04), (ib.OptCMDPBonus, 0.04), (ib.UCCFH, 0.04), (ib.CONRL, 0.04), (ib.OptimisticGMBL, 0.04)],
)
def test_presets_learn(settings: Any, most: float) -> None:
    """The loss on three problems, mean of 3 seeds and 10^4 episodes: those measured are below .025."""
    for name in ("media", "three_cycle", "factored"):
        cmdp = getattr(ib.zoo, name)()
        best, free = ib.solve(cmdp), ib.solve(cmdp.unconstrained()).reward
        losses = []
        for seed in range(3):
            run = ib.learn(cmdp.simulator(), settings.practical(), samples=10_000 * cmdp.layers, seed=seed)
            own = ib.evaluate(cmdp, run.policy)
            missed = max(0.0, best.reward - own.reward) + best.prices.max() * max(0.0, -own.margins.min())
            losses.append(missed / (free - best.reward))
        assert np.mean(losses) < most, name


def test_transitions_that_differ_by_stage_are_learned_for_each() -> None:
    """Stage 0 leads to the other state, stage 1 stays: pooled, the chances would be one half each."""
    swap, stay = np.array([[0, 1], [0, 1], [1, 0], [1, 0]]), np.array([[1, 0], [1, 0], [0, 1], [0, 1]])
    cmdp = ib.CMDP(
        offsets=[0, 2, 4],
        transition=(swap, stay, swap),
        reward=[[0, 0, 0, 0], [0, 1, 0, 0.4], [1, 0, 0, 0.2]],
        constraints=[ib.Constraint([0, 1, 0, 1], at_most=1.5, name="work")],
        initial=[1, 0],
        horizon=3,
    )
    best = ib.solve(cmdp).reward
    for settings in (ib.OptCMDP.practical(), ib.OptCMDPBonus.practical(), ib.OptimisticGMBL.practical()):
        run = ib.learn(cmdp.simulator(), settings, samples=6_000, seed=0)
        own = ib.evaluate(cmdp, run.policy)
        assert own.reward > best - 0.02 and own.margins[0] > -0.02


def test_noisy_signals_are_averaged() -> None:
    """Rewards of a fair coin against a sure .4: the mean of the noisy one is better by .1."""

    def step(state: int, action: str, rng: np.random.Generator) -> tuple[int, float, list[float]]:
        return state, float(rng.random() < 0.5) if action == "toss" else 0.4, [float(action == "toss")]

    coin = ib.Simulator(
        step, lambda rng: 0, states=1, actions=["sure", "toss"], horizon=2, reward_range=(0, 1),
        constraints=[ib.Constraint(at_most=1.0, name="tosses")], signal_ranges=[(0, 1)],
    )  # fmt: skip
    run = ib.learn(coin, ib.OptCMDP.practical(), samples=4_000, seed=0)
    tosses = run.policy.table()[:, 0, 1].sum()
    assert tosses == pytest.approx(1.0, abs=0.1) and run.episodes.shape == (2000, 2)
    assert run.prices[0] == pytest.approx(0.1, abs=0.06)


def test_an_infeasible_problem_is_no_error() -> None:
    cmdp = ib.zoo.media().tightened(6.0)
    safe = ib.DOPE.practical(safe=ib.Policy.uniform(cmdp))
    for settings in (ib.OptCMDP.practical(), ib.OptimisticGMBL.practical(), safe):
        run = ib.learn(cmdp.simulator(), settings, samples=2_000, seed=0)
        assert not ib.evaluate(cmdp, run.policy).in_bounds


@pytest.mark.parametrize("kind", [ib.OptPessLP, ib.DOPE])
def test_the_safe_presets_keep_the_bounds_of_the_queue(kind: Any) -> None:
    """Means of 5 runs of 10^4 episodes, every policy judged exactly: .3 % of them out of bounds, 1e-4 a time."""
    cmdp = ib.zoo.queue()
    settings = kind.practical(safe=safe_policy(cmdp))
    samples = 10_000 * frame_of(settings, cmdp.simulator(), 10_000).weights.size
    runs, _ = run_arms([(cmdp, settings)], samples=samples, checkpoints=(samples,), seeds=5, workers=1)
    costs = {name: np.mean([run.played[name][-1] for run in runs[0]]) / 10_000 for name in runs[0][0].played}
    assert costs["out_of_bounds"] <= 0.003 and costs["violation"] <= 1e-4
    best, own = ib.solve(cmdp).total_reward, ib.evaluate(cmdp, settings.safe).total_reward
    assert best - np.mean([run.rewards[-1] for run in runs[0]]) <= 0.65 * (best - own)


def test_dope_takes_from_the_margins_all_of_a_box_of_half_the_radii() -> None:
    """After one visit: its one successor, and all that was not seen, are each worth half a radius of 1."""
    cmdp = ib.zoo.media()
    settings = ib.DOPE.practical(safe=safe_policy(cmdp))
    begun = settings.algorithm.prepare(settings, cmdp.simulator(), 1_000, np.random.default_rng(0))
    model = begun.state.model
    see(model, begun.constants.frame, np.array([[3, 2, 0]]), np.zeros((1, 2)))
    renew(model, begun.constants.radii, 1.0, 1.0)
    assert model.width[3] == 1.0 and model.rows.beyond[3] == 0.5 and model.rows.lower[3, 0] == 0.5


@pytest.mark.parametrize("settings", [ib.OptCMDP, ib.OptCMDPBonus, ib.UCCFH, ib.CONRL, ib.OptimisticGMBL])
def test_where_no_policy_is_in_bounds_the_least_out_of_them_is_played(settings: Any) -> None:
    """One step, two actions that miss the bound by 1/2 and by 1: the second is tried last, and is not kept for it."""
    cmdp = ib.CMDP(
        offsets=[0, 2],
        transition=[[1], [1]],
        reward=[0, 1],
        constraints=[ib.Constraint([-0.5, -1.0], at_least=0.0)],
        initial=[1],
        horizon=1,
    )
    run = ib.learn(cmdp.simulator(), settings.practical(), samples=100, seed=0)
    np.testing.assert_array_equal(run.policy.probabilities, [[1.0, 0.0]])


# ---- bad input


@pytest.mark.parametrize("kind", [ib.OptPessLP, ib.DOPE])
def test_what_the_safe_ones_refuse(kind: Any) -> None:
    media = ib.zoo.media()
    simulator = media.simulator()
    with pytest.raises(ib.InvalidInput, match="needs safe=, a policy that is known to be in bounds"):
        ib.learn(simulator, kind.practical(), samples=1000)
    with pytest.raises(ib.InvalidInput, match="does not belong to this problem"):
        ib.learn(simulator, kind.practical(safe=ib.Policy.uniform(ib.zoo.inventory())), samples=1000)
    with pytest.raises(ib.InvalidInput, match="this one has none: use another"):
        free = media.unconstrained()
        ib.learn(free.simulator(), kind.practical(safe=ib.Policy.uniform(free)), samples=1)  # more would not help
    with pytest.raises(ib.InvalidInput, match=r"safe must be an ib\.Policy"):
        kind(safe=3)
    for slack in (0.0, -1.0):
        with pytest.raises(ib.InvalidInput, match=r"slack must be a number in \(0, 1\]"):
            kind(slack=slack)
    greedy = ib.solve(media.unconstrained()).policy
    check_on_model(kind(safe=safe_policy(media), slack=0.5 * (1 - 1e-12)), media)
    with pytest.raises(ib.InvalidInput, match=r"safe= is not safe: it misses the bound of 'fast actions' by 4\.08"):
        check_on_model(kind(safe=greedy), media)
    with pytest.raises(ib.InvalidInput, match=r"slack must be at most what safe= keeps of every bound, 0\.5"):
        check_on_model(kind(safe=safe_policy(media), slack=0.6), media)


def test_what_settings_refuse() -> None:
    for change, what in (
        ({"growth": 0.5}, "growth must be a number of at least 1"),
        ({"root": -1.0}, "root must be a number >= 0"),
        ({"delta": 1.0}, r"delta must be a number in \(0, 1\)"),
        ({"epsilon": 0.0}, r"epsilon must be a number in \(0, 1\)"),
        ({"average": "some"}, 'average must be "all" or "second half"'),
    ):
        with pytest.raises(ib.InvalidInput, match=what):
            ib.OptCMDP(**change)


@pytest.mark.parametrize(
    ("outcome", "what"),
    [
        ((7, 0.5, [0.0]), "gave the state 7, which is not one of `states`"),
        ((1, 1.5, [0.0]), r"gave the reward 1.5, outside reward_range \(0, 1\)"),
        ((1, 0.5, [3.0]), r"gave for 'tosses' the signal 3, outside its signal range \(0, 1\)"),
        ((1, 0.5, [0.0, 0.0]), "gave 2 signals for 1 constraints"),
    ],
)
def test_errors_of_a_step_function_name_the_stage(outcome: Any, what: str) -> None:
    def step(state: int, action: str, rng: np.random.Generator) -> Any:
        return outcome if state == 1 else (1, 0.5, [0.0])

    world = ib.Simulator(
        step, lambda rng: 0, states=2, actions=["go"], horizon=3, reward_range=(0, 1),
        constraints=[ib.Constraint(at_most=1.0, name="tosses")], signal_ranges=[(0, 1)],
    )  # fmt: skip
    with pytest.raises(ib.InvalidInput, match=rf"stage 1: step\(1, 'go', rng\) {what}"):
        ib.learn(world, ib.OptCMDP.practical(), samples=30)
    with pytest.raises(ib.InvalidInput, match=rf"^(stage \d: )?step\(1, 'go', rng\) {what}"):
        ib.learn(world, ib.OptimisticGMBL.practical(), samples=30)
