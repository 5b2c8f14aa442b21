"""Discounts next to 1, chances next to 0, classes that never meet: every solve ends, and what it says is so.

Each question is asked under an alarm: what hangs fails.
"""

from __future__ import annotations

import ast
import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import inbounds as ib
from inbounds.criteria import criterion_of
from inbounds.numerics.elimination import (
    _minimum_degree,
    dense_visits,
    eliminate,
    eliminate_transposed,
    make_plan,
    reduce_states,
)
from inbounds.numerics.rows import Chain, unsigned
from inbounds.numerics.sweeps import combined_sweeps, improve_values, is_over
from inbounds.proofs import known_model
from inbounds.proofs.known_model import certify_infeasible
from rationals import ENDS, best_in_rationals, extreme_model, occupancy_in_rationals, solved

PATIENCE = 60.0
"""Seconds: far more than anything here takes, compiling included."""


@contextmanager
def in_time(seconds: float = PATIENCE) -> Iterator[None]:
    """Fail where the body takes longer, whatever it is doing in Python."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: object) -> None:
        raise AssertionError(f"not finished after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def line(size: int, discount: float, constrained: bool = False) -> ib.CMDP:
    """To the left or to the right, for certain; something at either end."""
    rows = np.zeros((2 * size, size))
    rows[2 * np.arange(size), np.maximum(np.arange(size) - 1, 0)] = 1.0
    rows[2 * np.arange(size) + 1, np.minimum(np.arange(size) + 1, size - 1)] = 1.0
    reward, cost = np.zeros(2 * size), np.tile([0.0, 1.0], size)
    reward[0], reward[-1] = 0.3, 1.0
    return ib.CMDP(
        offsets=2 * np.arange(size + 1),
        transition=rows,
        reward=reward,
        constraints=[ib.Constraint(cost, at_most=0.5, name="right")] if constrained else [],
        initial=np.eye(size)[size // 2],
        discount=discount,
    )


# --- every loop ends


def test_no_loop_waits_for_a_float():
    """Of the loops in numerics and criteria, `while` is for counting entries, states and lists; a `for` has a cap."""
    root, floats = Path(ib.__file__).parent, []
    for path in sorted([*root.glob("numerics/*.py"), *root.glob("criteria/*.py"), *root.glob("exact/[lhpn]*.py")]):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        floats += [
            f"{path.name}: while {ast.unparse(node.test)}"
            for node in ast.walk(tree)
            if isinstance(node, ast.While) and ast.unparse(node.test) not in COUNTING
        ]
    assert floats == []


COUNTING = {
    "entry < end",
    "offsets[s + 1] <= pair",
    "known < len(order)",
    "len(leaving)",
    "waiting",
    "done < n_states",
    "head[least] < 0",
    "root >= 0",
    "depth >= 0",
    "leader[state] != state",
    "j > 0 and totals[order[h + 1, j - 1]] < totals[s]",
    "frame is not None and frame.f_code not in _CALLED_BY_NUMBA",
    # these wait for a float too, but not longer than for `most` sweeps; and what is not a number is not larger
    "sweeps < most and change > tolerance",
    "sweeps < most and high - low > goal",
}


def test_a_frontier_down_to_nothing_ends():
    """A goal of 0 made combinations of nothing, which were no numbers, and were waited for."""
    problem = ib.CMDP(
        offsets=[0, 2, 4],
        transition=[[1, 0], [0.5, 0.5], [0, 1], [0.3, 0.7]],
        reward=[0, 1, 0.5, 2],
        constraints=[ib.Constraint([0, 1, 0, 0.5], at_most=0.0, name="c")],
        initial=[1, 0],
        discount=0.9,
    )
    with in_time():
        curve = ib.frontier(problem, "c", points=3)
    assert curve.possible_to == pytest.approx(0.0, abs=1e-12)
    for bound, point in zip(curve.bounds, curve.solutions, strict=True):
        there = ib.solve(problem.asking(constraints=[problem.constraints[0].with_bound(float(bound))]), method="lp")
        assert point.reward == pytest.approx(there.reward, abs=1e-5)


def test_two_classes_that_never_meet_end():
    """Rounds of sweeps gained nothing, for ever."""
    problem = ib.CMDP(
        offsets=[0, 2, 4, 6],
        transition=np.eye(3)[[1, 0, 0, 0, 0, 2]],
        reward=[-0.7, 0.1, -0.7, -0.5, 0.4, 0.2],
        constraints=[],
        initial=[1, 0, 0],
        discount=0.999999,
    )
    with in_time():
        found = criterion_of(problem).solve(problem.reward, 1e-9)
        swept = ib.solve(problem, method="bundle")
    assert found.lower <= 0.1 <= found.upper
    assert found.upper - found.lower < 1e-7
    assert swept.reward == pytest.approx(0.1, abs=1e-14)


@pytest.mark.parametrize("discount", [0.9, 0.999, 0.99999, 1.0 - 1e-9])
@pytest.mark.parametrize("constrained", [False, True])
def test_a_line_of_700_cells(discount, constrained):
    problem = line(700, discount, constrained)
    with in_time():
        best = ib.solve(problem, method="bundle")
    assert best.certificate.in_bounds
    if not constrained:
        ways = 0.3 * discount**350, discount**349
        assert best.reward == pytest.approx(max(ways), rel=1e-11)


# --- combinations


def test_changes_that_are_multiples_of_each_other_are_not_combined():
    """Their Gram matrix is singular; and where they are tiny, the weights are no numbers."""
    for shrink, size in ((1.0, 1.0), (1.0 - 2.0**-50, 1e-160), (0.5, 1e-150)):
        steps = []

        def sweep(old, new, shrink=shrink, size=size, steps=steps):
            new[:] = old + size * shrink ** len(steps)
            steps.append(1)
            return float(np.abs(new - old).max())

        x = np.zeros(5)
        with in_time(), np.errstate(all="raise", under="ignore"):
            combined_sweeps(sweep, x, 0.0, 100)
        assert np.all(np.isfinite(x))
        assert 0 < len(steps) <= 120


def test_deadlines_are_looked_at_between_sweeps():
    assert not is_over(None)
    assert not is_over(time.monotonic() + 60.0)
    assert is_over(time.monotonic())
    x, swept = np.zeros(3), []
    assert not combined_sweeps(lambda old, new: swept.append(1) or 1.0, x, 0.0, 1000, deadline=0.0)
    assert swept == []
    chain = Chain(np.arange(3), np.array([1, 0], dtype=np.uint32), np.full(2, 0.999))
    value = np.zeros(2)
    improve_values(chain, np.array([1.0, 0.0]), value, np.empty(2), 0.0, deadline=0.0)
    assert value.max() < 15.0  # a dozen sweeps, of two hundred


# --- against rationals


@pytest.mark.parametrize("criterion", ["discount", "horizon", "average"])
def test_brackets_of_extreme_models(criterion):
    """The bracket contains the optimum without rounding: with time, and with none."""
    checked = 0
    for seed in range(60):
        try:
            model = extreme_model(seed, criterion)
            solver = criterion_of(model)
        except ib.InvalidInput:  # for averages: classes that never meet
            continue
        best = best_in_rationals(model, [Fraction(float(r)) for r in model.reward.ravel()[: model.n_pairs]])
        with in_time():
            for deadline in (None, 0.0):
                found = solver.solve(model.reward.ravel(), 1e-10, deadline=deadline)
                assert Fraction(found.lower) <= best <= Fraction(found.upper), (seed, deadline)
        checked += 1
    assert checked > 40


def test_rewards_of_extreme_models():
    """Every digit of the reward, and a policy as good as the best one, at any discount."""
    for seed in range(100, 160):
        model = extreme_model(seed, "discount")
        with in_time():
            found = ib.solve(model)
        reward = [Fraction(float(r)) for r in model.reward]
        time_in = occupancy_in_rationals(model, found.policy.probabilities)
        taken = [Fraction(float(p)) for p in found.policy.probabilities]
        exact = sum(time_in[s] * p * r for s, p, r in zip(model.pairs.states, taken, reward, strict=True))
        scale = float(np.abs(model.reward).max())
        rounding = 1e-14 if model.discount > 0.99 else 1e-13  # LAPACK may lose the digits of 1 / (1 - discount)
        assert abs(float(Fraction(found.reward) - exact)) <= rounding * model.n_states * scale, seed
        assert float(best_in_rationals(model, reward) - exact) <= 1e-8 * scale, seed
        assert found.upper_bound >= float(exact) - 1e-13 * scale


@pytest.mark.parametrize("discount", ENDS[3:])
def test_a_chain_eliminated_without_subtraction(discount):
    """Sparse and full, time and values, against rationals: all digits, whatever the discount."""
    rng, size = np.random.default_rng(3), 6
    moves = np.zeros((size, size))
    moves[np.arange(size), (np.arange(size) + 1) % 3] = 1.0  # three that go round, and three that lead there,
    moves[3:] += rng.dirichlet(np.ones(size), size=3) * [[1e-12], [1.0], [1e-3]]
    moves[5] = np.eye(size)[5]  # of which one stays
    moves /= moves.sum(axis=1, keepdims=True)
    exact = [[Fraction(float(p)) for p in row] for row in moves]
    exact = [[p / sum(row) for p in row] for row in exact]
    kept, states = Fraction(discount), range(size)
    reward, initial = rng.normal(size=size), np.full(size, 1.0 / size)
    time_in = solved([[(i == j) - kept * exact[i][j] for i in states] for j in states], [(1 - kept) / size] * size)
    right = [(1 - kept) * Fraction(float(r)) for r in reward]
    values = solved([[(i == j) - kept * exact[i][j] for j in states] for i in states], right)
    starts, targets = np.arange(size + 1) * size, unsigned(np.tile(np.arange(size, dtype=np.int32), size))
    plan = make_plan(starts, targets, np.inf, np.inf)
    assert plan is not None
    factors = reduce_states(plan, Chain(starts, targets, discount * moves.ravel()), leak=1.0 - discount)
    visits = dense_visits(discount * moves, 1.0 - discount)
    expected, digits = np.array(time_in, dtype=float), 1e-15 * size
    assert eliminate_transposed(factors, (1.0 - discount) * initial) == pytest.approx(expected, rel=digits, abs=0.0)
    assert initial @ visits == pytest.approx(expected, rel=digits, abs=0.0)
    expected, digits = np.array(values, dtype=float), digits * np.abs(reward).max()
    assert eliminate(factors, (1.0 - discount) * reward) == pytest.approx(expected, abs=digits)
    assert visits @ reward == pytest.approx(expected, abs=digits)


@pytest.mark.parametrize("discount", [1.0 - 1e-9, 1.0 - 1e-12, 1.0 - 2.0**-53])
def test_brackets_close_where_states_meet(discount):
    """Values relative to their mean keep the digits that 1 / (1 - discount) would take."""
    rng = np.random.default_rng(5)
    model = ib.CMDP(
        offsets=2 * np.arange(8),
        transition=rng.dirichlet(np.ones(7), size=14),
        reward=rng.normal(size=14),
        constraints=[],
        initial=np.eye(7)[0],
        discount=discount,
    )
    found = criterion_of(model).solve(model.reward, 1e-12)
    best = best_in_rationals(model, [Fraction(float(r)) for r in model.reward])
    assert Fraction(found.lower) <= best <= Fraction(found.upper)
    assert found.upper - found.lower <= 1e-12


@pytest.mark.parametrize("size", [150, 400])
def test_larger_models_at_the_last_discount(size):
    """No full matrix, no small separators: sparse elimination fills in, and is still taken."""
    model = ib.zoo.garnet(states=size, actions=2, constraints=0, discount=1.0 - 2.0**-53, seed=1)
    with in_time():
        found = ib.solve(model, certificate=False)
    as_average = ib.CMDP(
        offsets=model.offsets,
        transition=model.transition,
        reward=model.reward,
        constraints=[],
        initial=model.initial,
        average=True,
    )
    assert found.reward == pytest.approx(ib.evaluate(as_average, found.policy).reward, abs=1e-12)
    assert found.reward == pytest.approx(ib.solve(as_average, certificate=False).reward, abs=1e-9)


# --- the linear program


@pytest.mark.parametrize(
    ("discount", "rare"), [(1.0 - 1e-12, 0.0), (0.999, 1e-12), (0.999, 1e-20), (1.0 - 1e-9, 1e-300), (0.9, 1e-13)]
)
def test_where_highs_finds_no_optimum_the_bundle_does(discount, rare):
    rows = np.array([[1.0 - rare, rare], [rare, 1.0 - rare], [rare, 1.0 - rare], [1.0 - rare, rare]])
    problem = ib.CMDP(
        offsets=[0, 2, 4],
        transition=rows,
        reward=[0.1, 0.9, -0.3, 0.4],
        constraints=[ib.Constraint([0.3, -0.5, 0.2, 0.7], at_least=0.1, name="c")],
        initial=[0.5, 0.5],
        discount=discount,
    )
    with in_time():
        program, bundle = ib.solve(problem, method="lp"), ib.solve(problem, method="bundle")
    assert program.method in ("lp", "bundle")
    assert program.certificate.in_bounds
    assert program.reward == pytest.approx(bundle.reward, abs=1e-6)
    if discount > 1.0 - 1e-11:
        assert program.method == "bundle"


# --- ordering


def test_ordering_gives_up_early_where_it_would_give_up_late():
    """Of a random graph 27 % were eliminated before it gave up, in five times the time of the first 22 %."""
    rng, size = np.random.default_rng(0), 10_000
    targets = rng.integers(0, size, 12 * size)
    edges = sp.csr_array((np.ones(12 * size), (np.repeat(np.arange(size), 12), targets)), shape=(size, size))
    edges = sp.csr_array(edges + edges.T - sp.diags_array((edges + edges.T).diagonal()))
    edges.eliminate_zeros()
    order, *_ = _minimum_degree(
        edges.indices.astype(np.int32), edges.indptr.astype(np.int64), 68.0 * size, np.inf, np.inf
    )
    assert len(order) < 0.24 * size


def test_ordering_has_a_bound():
    """Where everything leads to one state, every elimination looks at its whole list."""
    size = 20_000
    starts, targets = np.arange(size + 1), np.zeros(size, dtype=np.uint32)
    assert make_plan(starts, targets, np.inf, 1e12) is None
    assert make_plan(starts[:101], targets[:100], np.inf, 1e12) is not None


# --- numbers


@pytest.mark.parametrize("value", [True, False, np.True_, "x", None, 1j])
def test_true_and_false_are_no_numbers(value):
    queue = ib.zoo.queue()
    with pytest.raises(ib.InvalidInput, match="tolerance must be a number above 0"):
        ib.solve(queue, tolerance=value)
    if value is not None:
        with pytest.raises(ib.InvalidInput, match="time_limit must be a number above 0"):
            ib.solve(queue, time_limit=value)
        with pytest.raises(ib.InvalidInput, match=r"discount must be a number in \[0, 1\)"):
            ib.CMDP(offsets=[0, 1], transition=[[1.0]], reward=[0.0], constraints=[], initial=[1.0], discount=value)


def test_what_rounding_alone_calls_better_is_not_taken():
    """To stay for ever and to go round by way of the reward are worth the same, up to rounding, before both are."""
    problem = ib.CMDP(
        offsets=[0, 3, 6],
        transition=[[1, 0], [0, 1], [1 - 1e-9, 1e-9], [0, 1], [1 / 1.001, 0.001 / 1.001], [0, 1]],
        reward=[-1.0, -1.0, -1.0, -1.0, 1.0, -1.0],
        constraints=[],
        initial=[0, 1],
        discount=1.0 - 1e-12,
    )
    best = best_in_rationals(problem, [Fraction(float(r)) for r in problem.reward])
    with in_time():
        found = criterion_of(problem).solve(problem.reward, 1e-10)
    assert Fraction(found.lower) <= best <= Fraction(found.upper)
    assert found.upper - found.lower <= 1e-10


def test_proofs_at_discounts_next_to_one():
    """The vectors of a proof need no constant, and keep their digits without it: in bounds, optimal, and infeasible."""
    for discount in (1.0 - 1e-9, 1.0 - 1e-12):
        problem = ib.CMDP(
            offsets=[0, 2, 4],
            transition=[[1, 0], [0, 1], [0, 1], [1, 0]],
            reward=[0.1, 0.9, -0.3, 0.4],
            constraints=[ib.Constraint([0.3, -0.5, 0.2, 0.7], at_least=0.15, name="c")],
            initial=[0.5, 0.5],
            discount=discount,
        )
        with in_time():
            found = ib.solve(problem)
            assert found.certificate.in_bounds
            assert found.certificate.reward_upper - found.reward <= 1e-8
            with pytest.raises(ib.Infeasible) as refused:
                ib.solve(problem.tightened(0.5))
        assert certify_infeasible(refused.value, problem.tightened(0.5)).infeasible


@pytest.mark.parametrize("size", [1e8, 1e12])
@pytest.mark.parametrize("method", ["lp", "bundle"])
def test_costs_that_cancel_where_nothing_leads_take_no_digit(size: float, method: str) -> None:
    """At a price of 1 the reward and the priced signal there add up to nothing, but their rounding errors do not."""
    cmdp = ib.CMDP(
        offsets=[0, 2, 4],
        transition=[[1, 0], [1, 0], [0, 1], [0, 1]],
        reward=[0, 1, size, -size],
        constraints=[ib.Constraint([0, 1, size, -size], at_most=0.3, name="c")],
        initial=[1, 0],
        discount=0.9,
    )
    best = ib.solve(cmdp, method=method)
    assert best.certificate.in_bounds and best.upper_bound - best.reward < 1e-12


@pytest.mark.parametrize("least", [5e-324, 1e-300, 1e-100, 1e-30])
def test_a_bound_that_is_missed_by_hardly_anything_takes_few_steps(least: float, monkeypatch) -> None:
    """A proof moved inside by twice as much each time, from 1e-300 on: a thousand times."""
    asked, judged = 0, known_model._judged

    def counted(*arguments, **more):
        nonlocal asked
        asked += 1
        return judged(*arguments, **more)

    monkeypatch.setattr(known_model, "_judged", counted)
    cmdp = ib.CMDP(
        offsets=[0, 2, 4],
        transition=[[1, 0], [0.5, 0.5], [0, 1], [0.3, 0.7]],
        reward=[0, 1, 0.5, 2],
        constraints=[
            ib.Constraint([0, 1, 0, 0.5], at_most=0.0, name="c"),
            ib.Constraint([0, 1, 0, 0.5], at_least=least, name="d"),
        ],
        initial=[1, 0],
        discount=0.9,
    )
    with contextlib.suppress(ib.Infeasible):
        assert not ib.solve(cmdp).certificate.in_bounds
    assert asked <= 300
