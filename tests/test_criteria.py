"""What is written once works for every criterion: the same drawn moves, asked in three ways.

Bundle, linear program and SciPy's own program agree; proofs are accepted by the checker; files, frontiers, Slater
constants and refusals know no criterion.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog

import inbounds as ib
import strategies
from inbounds.criteria import CRITERIA, criterion_of
from inbounds.exact.optimum import flat_margins
from inbounds.proofs.files import save_certificate
from inbounds.proofs.known_model import certify_infeasible
from inbounds.proofs.verify import verify

QUESTIONS = {"discount": {"discount": 0.8}, "horizon": {"horizon": 3}, "average": {"average": True}}
EVERY = pytest.mark.parametrize("name", CRITERIA)


def test_every_criterion_is_asked() -> None:
    assert set(QUESTIONS) == set(CRITERIA)


@st.composite
def problems(draw: st.DrawFn, name: str, bound: bool = True, constraints: int = 2) -> ib.CMDP:
    """Drawn moves with a way from everywhere to everywhere, and bounds that some drawn policy keeps, with room."""
    base = draw(strategies.cmdps(max_states=4, max_actions=3, max_constraints=0))
    n_states, n_pairs = base.n_states, base.n_pairs
    moves = base.transition.toarray()
    moves[base.offsets[:-1]] = 0.75 * moves[base.offsets[:-1]] + 0.25 / n_states  # some policy goes everywhere
    lists = st.lists(strategies.eighths, min_size=n_pairs, max_size=n_pairs).map(np.array)
    if name == "horizon" and draw(st.booleans()):
        stages = QUESTIONS["horizon"]["horizon"]
        lists = st.lists(lists, min_size=stages, max_size=stages).map(np.array)
    fields = {"offsets": base.offsets, "transition": moves, "initial": base.initial, **QUESTIONS[name]}
    signals = [draw(lists) for _ in range(draw(st.integers(0 if not bound else 1, constraints)))]
    limits = tuple(ib.Constraint(signal, at_least=0.0, name=f"signal {k}") for k, signal in enumerate(signals))
    free = ib.CMDP(reward=draw(lists), constraints=limits, **fields)
    try:
        criterion_of(free)
    except ib.InvalidInput:  # averages: a policy can stay somewhere for ever
        assume(False)
    reached = ib.evaluate(free, ib.Policy.uniform(free)).margins
    return free.tightened(reached - draw(st.integers(1, 4)) / 8)


def by_scipy(problem: ib.CMDP) -> float:
    """The optimum, from the textbook's equations, dense."""
    n_states, n_pairs, layers = problem.n_states, problem.n_pairs, problem.layers
    own = np.eye(n_states)[problem.pairs.states]
    moves = [matrix.toarray() for matrix in problem.transitions]
    if problem.discount is not None:
        rows, right = [(own - problem.discount * moves[0]).T], [(1.0 - problem.discount) * problem.initial]
    elif problem.average:
        rows, right = [(own - moves[0]).T, np.ones((1, n_pairs))], [np.zeros(n_states), np.ones(1)]
    else:
        rows, right = [], []
        for h in range(layers):
            row = np.zeros((n_states, layers * n_pairs))
            row[:, h * n_pairs : (h + 1) * n_pairs] = own.T
            if h > 0:
                row[:, (h - 1) * n_pairs : h * n_pairs] = -moves[h - 1].T
            rows.append(row)
            right.append(problem.initial if h == 0 else np.zeros(n_states))
    margins = flat_margins(problem)
    found = linprog(
        -problem.reward.ravel(),
        A_eq=np.vstack(rows),
        b_eq=np.concatenate(right),
        A_ub=-margins if len(margins) else None,
        b_ub=np.zeros(len(margins)) if len(margins) else None,
        method="highs",
    )
    assert found.status == 0
    return -found.fun


def size(problem: ib.CMDP, prices: np.ndarray) -> float:
    return problem.layers * max(1.0, float(np.abs(problem.reward).max())) + float(prices @ problem.margin_scales)


@EVERY
@given(data=st.data())
def test_all_methods_agree_and_prove_what_they_say(name: str, data: st.DataObject) -> None:
    problem = data.draw(problems(name, bound=False))
    optimum = by_scipy(problem)
    for method in ("auto", "bundle", "lp", "polish"):
        best = ib.solve(problem, method)
        # SciPy is exact to 1e-7 of feasibility, which the prices turn into reward; a link of classes costs 1e-7 too.
        allowed = 1e-6 * size(problem, best.prices)
        assert best.reward == pytest.approx(optimum, abs=allowed)
        assert best.upper_bound >= optimum - allowed
        assert best.certificate.in_bounds, best.certificate.verdict
        assert best.certificate.reward_lower <= best.reward + 1e-12 * size(problem, best.prices)
        judged = ib.evaluate(problem, best.policy)
        assert judged.in_bounds and judged.reward == pytest.approx(best.reward, abs=1e-9 * size(problem, best.prices))


@EVERY
@given(data=st.data())
def test_the_checker_accepts_proofs_and_files_come_back(name: str, data: st.DataObject, tmp_path_factory) -> None:
    problem, folder = data.draw(problems(name)), tmp_path_factory.getbasetemp()
    best = ib.solve(problem)
    for suffix in ("npz", "toml"):
        problem.save(folder / f"{name}.{suffix}")
        again = ib.load(folder / f"{name}.{suffix}")
        assert again.criterion == problem.criterion and np.array_equal(again.margins, problem.margins)
        for one, other in zip(again.transitions, problem.transitions, strict=True):
            assert np.array_equal(one.data, other.data)
    save_certificate(best.certificate, folder / f"{name}.json")
    accepted, lines = verify(str(folder / f"{name}.npz"), str(folder / f"{name}.json"))
    assert accepted, lines
    # The same proof says nothing about another problem.
    problem.tightened(1e-3).save(folder / f"{name}.npz")
    assert not verify(str(folder / f"{name}.npz"), str(folder / f"{name}.json"))[0]


@EVERY
@given(data=st.data())
def test_slater_constants_refusals_and_their_proofs(name: str, data: st.DataObject, tmp_path_factory) -> None:
    problem, folder = data.draw(problems(name)), tmp_path_factory.getbasetemp()
    best = ib.slater(problem)
    scale = float(np.max(problem.margin_scales))
    assert best.value <= best.upper_bound + 1e-9 * scale <= best.value + 2e-6 * scale
    assert ib.evaluate(problem, best.policy).margins.min() == pytest.approx(best.value, abs=1e-12 * scale)
    harder = problem.tightened(best.value + 1e-3 * scale)
    with pytest.raises(ib.Infeasible) as raised:
        ib.solve(harder)
    assert raised.value.slater < 0.0 and raised.value.conflict
    certificate = certify_infeasible(raised.value, harder)
    assert certificate.infeasible
    harder.save(folder / "harder.npz")
    save_certificate(certificate, folder / "harder.json")
    assert verify(str(folder / "harder.npz"), str(folder / "harder.json"))[0]


@EVERY
@given(data=st.data())
def test_frontiers(name: str, data: st.DataObject) -> None:
    problem = data.draw(problems(name, constraints=1))
    curve = ib.frontier(problem, 0, points=4, tolerance=1e-7)
    for bound, found in zip(curve.bounds, curve.solutions, strict=True):
        there = replace(problem, constraints=(problem.constraints[0].with_bound(float(bound)),))
        allowed = 2e-6 * size(there, found.prices)
        assert found.in_bounds and found.reward == pytest.approx(by_scipy(there), abs=allowed)
    assert np.all(np.diff(curve.rewards) <= 1e-6 * size(problem, np.zeros(1)))


@EVERY
@given(data=st.data())
def test_both_bounds_hold_for_any_vector(name: str, data: st.DataObject) -> None:
    """The contract's two inequalities, for vectors that have nothing to do with the problem."""
    problem = data.draw(problems(name))
    criterion = criterion_of(problem)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    for y in (rng.normal(size=criterion.n_places), np.zeros(criterion.n_places)):
        policy = ib.Policy.from_occupancy(problem, rng.exponential(size=problem.shape))
        residual = (criterion.unit * problem.reward.ravel() - y[criterion.places]) / criterion.unit
        residual += (criterion.backup(problem.reward.ravel(), y) / criterion.unit) - problem.reward.ravel()
        lower = criterion.start * float(problem.initial @ y[: problem.n_states])
        for layer in criterion.layers:
            means = problem.pairs.sum_by_state(policy.probabilities.ravel()[layer.entries] * residual[layer.entries])
            lower += means.min()
        value = ib.evaluate(problem, policy).reward
        assert lower - 1e-9 <= value <= criterion.upper_bound(problem.reward.ravel(), y) + 1e-9


@EVERY
def test_the_oracle_proves_its_bracket(name: str) -> None:
    """`upper` is what the second bound gives for the value function; every deterministic policy obeys it."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        problem = ib.CMDP.from_dense(
            0.9 * rng.dirichlet(np.full(3, 0.3), size=(3, 2)) + 0.1 / 3,
            reward=rng.normal(size=(3, 2)),
            initial=rng.dirichlet(np.ones(3)),
            **QUESTIONS[name],
        )
        criterion = criterion_of(problem)
        found = criterion.solve(problem.reward.ravel(), 1e-10)
        assert criterion.upper_bound(problem.reward.ravel(), found.value_function) <= found.upper + 1e-12
        places = (*problem.shape[:-1], problem.n_states)
        every = itertools.product([0, 1], repeat=int(np.prod(places)))
        best = max(
            ib.evaluate(problem, ib.Policy.deterministic(problem, problem.offsets[:-1] + np.reshape(c, places))).reward
            for c in every
        )
        assert found.lower - 1e-12 <= best <= found.upper + 1e-12 and found.upper - found.lower <= 1e-9


def test_the_discounted_optimum_tends_to_the_average_one() -> None:
    """At the rate 1 - discount: the difference, divided by that, settles."""
    for average in (ib.zoo.admission(buffer=6, delay=2.5), ib.zoo.admission(buffer=20)):
        limit = ib.solve(average).reward
        gaps = [
            (ib.solve(replace(average, average=False, discount=d)).reward - limit) / (1.0 - d)
            for d in (0.99, 0.999, 0.9999)
        ]
        assert abs(gaps[2] - gaps[1]) < 0.5 * abs(gaps[1] - gaps[0]) + 1e-6
        assert abs(gaps[2]) * 1e-4 < 1e-3
