"""Long-run averages: problems solved by hand, enumeration, rationals, and SciPy's linear programs."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog

import inbounds as ib
from averages import (
    WAYS,
    best_by_enumeration,
    by,
    closed_classes,
    constrained_optimum,
    dense_time,
    deterministic,
    islands,
    lower_bound,
    machine,
    matrix_of,
    models,
    none,
    policy_of,
    problem,
    queues_in_a_row,
    random_model,
    ring_of_four,
    slow_ring,
    two_blocks,
)
from inbounds.criteria import average
from inbounds.criteria.average import Average
from inbounds.criteria.contract import Found
from inbounds.errors import InvalidInput
from inbounds.numerics import visits
from inbounds.numerics.classes import classes_of, graph_of
from inbounds.numerics.elimination import eliminate, eliminate_transposed, make_plan, pinned, reduce_states
from inbounds.numerics.rows import Chain
from inbounds.numerics.stationary import dense_stationary
from inbounds.numerics.visits import time_between_visits
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint
from inbounds.zoo.admission_control import admission
from inbounds.zoo.random_garnet import garnet
from inbounds.zoo.single_server_queue import queue

UNIT = 2.0**-53


# --- the problems solved by hand

BY_HAND = {
    "machine": (machine(), 1.9, [9.0]),
    "islands": (islands(), 0.5, [1.0]),
    "ring": (ring_of_four(), 13 / 12, [1.5, 2 / 3]),
    "admission 2": (admission(2, 0.5, 0.5, 2.5), 1 / 3, [2 / 3]),
    "admission 50": (admission(), 0.49138990626357937, [0.02715252343411]),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_the_flow_and_the_mass_row_describe_the_occupancies(name):
    cmdp, optimum, prices = BY_HAND[name]
    value, occupancy, found = constrained_optimum(Average(cmdp), cmdp)
    assert value == pytest.approx(optimum, abs=1e-10)
    assert found == pytest.approx(prices, abs=1e-8)
    if name == "ring":
        assert occupancy[::2] == pytest.approx([1 / 4, 1 / 6, 7 / 12, 0], abs=1e-9)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", BY_HAND)
def test_at_the_prices_the_unconstrained_optimum_is_the_constrained_one(name, way):
    cmdp, optimum, prices = BY_HAND[name]
    criterion = by(way, cmdp)
    priced = cmdp.reward + np.array(prices) @ cmdp.margins
    found = criterion.solve(priced, 1e-11)
    assert found.lower - 1e-12 <= optimum <= found.upper + 1e-12
    assert found.upper - found.lower <= 2e-11
    assert criterion.upper_bound(priced, found.value_function) <= found.upper


def test_the_machine_by_hand():
    """Repairing at wear 2 takes 23/3 steps and earns 50/3; at wear 3, 11 and 20."""
    cmdp = machine()
    criterion = Average(cmdp)
    for at, steps, earned in ((2, 23 / 3, 50 / 3), (3, 11.0, 20.0)):
        taken = deterministic(cmdp, [0, 1, 4 if at == 2 else 3, 6])
        followed = criterion.follow(taken)
        occupancy = criterion.time_at_entries(followed)
        assert occupancy @ cmdp.reward == pytest.approx(earned / steps, abs=1e-14)
        assert occupancy @ cmdp.constraints[0].signal == pytest.approx(1.0 / steps, abs=1e-14)


def test_admission_by_hand():
    """Letting in at 0 only: rate 1/4, half a customer; at 0 and 1: 3/8 and 1."""
    cmdp = admission(2, 0.5, 0.5, 2.5)
    assert [cmdp.pairs.describe(pair) for pair in range(5)] == [
        "state '0 present', action 'let in'",
        "state '0 present', action 'turn away'",
        "state '1 present', action 'let in'",
        "state '1 present', action 'turn away'",
        "state '2 present', action 'turn away'",
    ]
    criterion, present = Average(cmdp), np.array([0, 0, 1, 1, 2])
    for chosen, rate, customers in (([0, 3, 4], 1 / 4, 1 / 2), ([0, 2, 4], 3 / 8, 1.0)):
        occupancy = criterion.time_at_entries(criterion.follow(deterministic(cmdp, chosen)))
        assert occupancy @ cmdp.reward == pytest.approx(rate, abs=1e-15)
        assert occupancy @ present == pytest.approx(customers, abs=1e-15)
    with pytest.raises(InvalidInput, match="serve must be above 0"):
        admission(serve=0.0)


def as_average(cmdp: CMDP) -> CMDP:
    """The same arrays and bounds, as averages."""
    return CMDP(cmdp.offsets, cmdp.transition, cmdp.reward, cmdp.constraints, cmdp.initial, average=True)


@pytest.mark.parametrize(
    "make, optimum, prices",
    [
        (queue, 1.6018255512914479, [0.81140799196006, 0.95672328197014]),
        (lambda: garnet(100, 4, discount=0.999, seed=1), 0.7802233859064553, [0.29096117922, 0.26236206728]),
    ],
)
def test_problems_of_the_zoo_as_averages(make, optimum, prices):
    cmdp = as_average(make())
    criterion = Average(cmdp)
    found = criterion.solve(cmdp.reward + np.array(prices) @ cmdp.margins, 1e-11)
    assert found.lower - 1e-9 <= optimum <= found.upper + 1e-9
    value, occupancy, _ = constrained_optimum(criterion, cmdp)
    assert value == pytest.approx(optimum, abs=1e-8)
    linked, classes = criterion.linked(occupancy, tuple, 1e-8, cmdp.margins)
    reached = criterion.time_at_entries(criterion.follow(policy_of(criterion, linked)))
    assert classes == 0
    assert reached @ cmdp.reward == pytest.approx(optimum, abs=1e-8)
    assert np.min(cmdp.margins @ reached) >= -1e-8


# --- which models


def test_the_attributes_of_the_contract():
    criterion = Average(machine())
    assert (criterion.own, criterion.reach, criterion.start, criterion.mass_row) == (0.0, 1.0, 0.0, True)
    assert criterion.total(1.5) == 1.5
    assert criterion.value_in_words == "a long-run average per step"


@pytest.mark.parametrize(
    "moves, initial, message",
    [
        # 0 {stay, go to 1}, 1 {stay}: one closed class, but the optimum depends on the start.
        ([[1, 0], [0, 1], [0, 1]], [1, 0], "a policy can stay at state 'a' for ever and never reach state 'b'"),
        ([[1, 0], [1, 0], [0, 1]], [0.5, 0.5], "states 'a' and 'b' never meet"),
        ([[1, 0], [1, 0], [0, 1]], [0, 1], "states 'b' and 'a' never meet (the initial distribution never leads to "
         "state 'a': leave it out)"),
        ([[1, 0], [0, 1], [0, 1]], [0, 1], "a policy can stay at state 'a' for ever and never reach state 'b' (the "
         "initial distribution never leads to state 'a': leave it out)"),
    ],
)  # fmt: skip
def test_refused_models(moves, initial, message):
    with pytest.raises(InvalidInput) as refused:
        Average(problem([0, 2, 3], moves, [1, 0, 0], initial=initial, labels=("a", "b")))
    assert str(refused.value) == "average=True needs an optimum that does not depend on the start: " + message


@pytest.mark.parametrize("start", ["delivered", "running"])
def test_a_refusal_names_a_state_at_which_a_policy_can_stay(start):
    """Not one that is left at the first step, whatever is done, for a place where it can."""
    rules = {
        "delivered": {"unpack": "unpacked"},
        "unpacked": {"install": "idle"},
        "idle": {"wait": "idle", "begin": "running"},
        "running": {"run": "down"},
        "down": {"mend": "running"},
    }
    names, pairs = tuple(rules), [(state, after) for state, own in rules.items() for after in own.values()]
    moves = [[float(name == after) for name in names] for _, after in pairs]
    offsets = np.searchsorted([names.index(state) for state, _ in pairs], np.arange(6))
    initial = np.eye(5)[names.index(start)]
    with pytest.raises(
        InvalidInput, match="a policy can stay at state 'idle' for ever and never reach state 'running'"
    ):
        Average(problem(offsets, moves, np.zeros(6), initial=initial, labels=names))


def test_transient_states_that_every_policy_leaves_are_welcome():
    # 0 and 1 lead to each other or to 2, but never for ever to each other: 1 always may fall to 2.
    moves = [[0, 1, 0], [0.5, 0, 0.5], [0, 0, 1]]
    found = Average(problem([0, 1, 2, 3], moves, [9, 9, 1])).solve(np.array([9.0, 9.0, 1.0]), 1e-12)
    assert found.lower - 1e-12 <= 1.0 <= found.upper + 1e-12


@given(data=st.data())
def test_a_model_is_accepted_if_and_only_if_the_optimum_depends_on_no_start(data):
    """For every reward that is 1 in one pair and 0 elsewhere; these decide it."""
    n_states = data.draw(st.integers(1, 3))
    counts = data.draw(st.lists(st.integers(1, 2), min_size=n_states, max_size=n_states))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    moves = np.zeros((int(offsets[-1]), n_states))
    for row in moves:
        targets = data.draw(st.lists(st.integers(0, n_states - 1), min_size=1, max_size=2, unique=True))
        row[targets] = 1.0 / len(targets)
    every = [list(c) for c in itertools.product(*(range(a, b) for a, b in itertools.pairwise(offsets)))]

    def optimum_from(start, reward):
        best = 0.0
        for chosen in every:
            matrix = moves[chosen]
            limit = np.linalg.matrix_power(0.5 * (matrix + np.eye(n_states)), 4096)
            best = max(best, float(limit[start] @ reward[chosen]))
        return best

    same = all(
        np.ptp([optimum_from(start, np.eye(len(moves))[pair]) for start in range(n_states)]) < 1e-9
        for pair in range(len(moves))
    )
    cmdp = problem(offsets, moves, np.zeros(len(moves)), initial=np.full(n_states, 1.0 / n_states))
    if same:
        Average(cmdp)
    else:
        with pytest.raises(InvalidInput, match="needs an optimum that does not depend on the start"):
            Average(cmdp)


# --- state reduction


def as_chain(matrix) -> Chain:
    sparse = sp.csr_array(matrix)
    return Chain(sparse.indptr.astype(np.int64), sparse.indices.astype(np.uint32), sparse.data)


def plan_of(chain):
    return make_plan(chain.starts, chain.targets, np.inf, np.inf)


def rational_time(matrix):
    """The stationary distribution of a chain with one class, in rationals; the rows divided by their exact sums."""
    n = len(matrix)
    left = [[Fraction(float(p)) for p in row] for row in matrix]
    left = [[p / sum(row) for p in row] for row in left]
    for k in range(n - 1, 0, -1):
        out = sum(left[k][:k])
        for i in range(k):
            left[i][k] /= out
            for j in range(k):
                left[i][j] += left[i][k] * left[k][j]
    x = [Fraction(1)]
    for k in range(1, n):
        x.append(sum(x[i] * left[i][k] for i in range(k)))
    return [value / sum(x) for value in x]


def tiny_chain(seed, n=9):
    """A ring, so that it is one class, and other moves; probabilities down to 1e-20."""
    rng = np.random.default_rng(seed)
    matrix = 10.0 ** rng.uniform(-20, 0, (n, n)) * (rng.random((n, n)) < 0.4)
    matrix[np.arange(n), (np.arange(n) + 1) % n] = 10.0 ** rng.uniform(-20, 0, n)
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, np.maximum(1.0 - matrix.sum(axis=1), 0.0))
    return matrix / matrix.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(12))
def test_state_reduction_is_right_in_every_entry_however_small(seed):
    matrix = tiny_chain(seed)
    # Only what leaves a state counts: the share that stays is what the others leave of 1.
    moving = matrix.copy()
    np.fill_diagonal(moving, 0.0)
    out = [sum(Fraction(float(p)) for p in row) for row in moving]
    exact = rational_time(moving)  # of the chain that always moves: the time there is shorter in proportion
    exact = [x / o for x, o in zip(exact, out, strict=True)]
    exact = [x / sum(exact) for x in exact]
    chain = as_chain(matrix)
    factors = reduce_states(plan_of(chain), chain)
    assert len(pinned(factors)) == 1
    for found in (
        dense_stationary(matrix),
        time_between_visits(chain, factors, int(pinned(factors)[0])),
    ):
        assert max(abs(Fraction(float(x)) / e - 1) for x, e in zip(found, exact, strict=True)) < 200 * UNIT


@pytest.mark.parametrize("leak", [1e-9, 1e-3, 0.5])
@pytest.mark.parametrize("seed", range(4))
def test_state_reduction_solves_the_equations_with_a_leak(seed, leak):
    cmdp = random_model(seed, states=15)
    matrix = cmdp.transition.toarray()[cmdp.offsets[:-1]]
    chain, right = as_chain(matrix), np.random.default_rng(seed).standard_normal(15)
    factors = reduce_states(plan_of(chain), chain, leak, 1.0 - leak)
    system = np.eye(15) - (1.0 - leak) * matrix
    assert system @ eliminate(factors, right) == pytest.approx(right, abs=1e-15 / leak + 1e-13)
    assert system.T @ eliminate_transposed(factors, right) == pytest.approx(right, abs=1e-15 / leak + 1e-13)


def test_each_closed_class_is_pinned_once():
    blocks = sp.block_diag([np.full((size, size), 1.0 / size) for size in (1, 3, 2)]).toarray()
    passing = np.zeros((2, 8))
    passing[0, [1, 7]], passing[1, [2, 5]] = 0.5, 0.5
    matrix = np.vstack([np.hstack([blocks, np.zeros((6, 2))]), passing])
    chain = as_chain(matrix)
    factors = reduce_states(plan_of(chain), chain)
    assert sorted(np.searchsorted([1, 4, 6], pinned(factors), side="right")) == [0, 1, 2]
    # The steps until a pinned state: from 6 by way of 7.
    steps = eliminate(factors, np.ones(8))
    others = np.setdiff1d(np.arange(8), pinned(factors))
    inner = np.eye(len(others)) - matrix[np.ix_(others, others)]
    assert steps[others] == pytest.approx(np.linalg.solve(inner, np.ones(len(others))), abs=1e-13)


# --- the best policy for one reward


@pytest.mark.parametrize("way", WAYS)
@given(cmdp=models(), tolerance=st.sampled_from([1.0, 1e-3, 1e-8, 0.0]))
def test_the_bracket_contains_the_optimum(way, cmdp, tolerance):
    criterion = by(way, cmdp)
    found = criterion.solve(cmdp.reward, tolerance)
    optimum = best_by_enumeration(cmdp, cmdp.reward)
    assert found.lower - 1e-13 <= optimum <= found.upper + 1e-13
    assert criterion.upper_bound(cmdp.reward, found.value_function) <= found.upper
    time = criterion.time(found, 1e-12)
    assert time.sum() == pytest.approx(1.0, abs=1e-13)
    assert found.lower - 1e-11 <= time @ cmdp.reward[found.chosen] <= found.upper + 1e-11
    # The rare moves make large values, and what rounding leaves of these is all that may be missing.
    size = 1.0 + float(np.abs(found.value_function).max())
    assert found.upper - found.lower <= max(tolerance, (1e8 if way == "sweeps" else 2_000) * UNIT * size)


@pytest.mark.parametrize("way", ("as it comes", "elimination"))
def test_policies_that_are_equally_good_do_not_keep_elimination_going(way):
    """Staying at 0 costs 3/8 a step; so does going to 1 and back, where 3/7 of the time is spent, for 7/8 a step."""
    cmdp = problem([0, 2, 3], [[0.25, 0.75], [1, 0], [1, 0]], [0.0, -0.375, -0.875])
    found = by(way, cmdp).solve(cmdp.reward, 1e-12)
    assert found.upper - found.lower <= 1e-12
    assert found.lower <= -0.375 <= found.upper


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("period", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_periods_do_not_matter(way, period, seed):
    cmdp = random_model(seed, states=20, period=period)
    free = cmdp.unconstrained()
    criterion = by(way, free)
    found = criterion.solve(cmdp.reward, 1e-11)
    optimum, _, _ = constrained_optimum_without_constraints(criterion, free)
    assert found.upper - found.lower <= 1e-11
    assert found.lower - 1e-9 <= optimum <= found.upper + 1e-9
    time = criterion.time(found, 1e-13)
    assert time == pytest.approx(dense_time(cmdp.transition.toarray()[found.chosen])[0], abs=1e-12)


def constrained_optimum_without_constraints(criterion, cmdp):
    flow, right = criterion.flow
    equal = np.vstack([flow.toarray().T, np.ones(cmdp.n_pairs)])
    answer = linprog(-cmdp.reward, A_eq=equal, b_eq=np.append(right, 1.0), bounds=(0, None))
    return -answer.fun, answer.x, None


@pytest.mark.parametrize("link", [1e-3, 1e-5, 1e-7, 1e-8])
@pytest.mark.parametrize("seed", range(3))
def test_blocks_that_hardly_meet(link, seed):
    cmdp = two_blocks(link, seed=seed)
    criterion = Average(cmdp)
    found = criterion.solve(cmdp.reward, 1e-9)
    # Relative values are of the size 1 / link, and the bracket cannot be narrower than what rounding leaves of them.
    assert found.upper - found.lower <= max(1e-9, 30 * 64 * UNIT / link)
    # The optimum, to first order: the better block, but for the steps between; the dense solve is exact enough.
    time = criterion.time(found, 1e-12)
    assert found.lower <= time @ cmdp.reward[found.chosen] <= found.upper
    assert time == pytest.approx(dense_stationary(cmdp.transition.toarray()[found.chosen]), abs=1e-15 / link)
    followed = criterion.follow(deterministic(cmdp, found.chosen))
    vectors = criterion.proof_vectors(followed, cmdp.reward[None, :])
    earned = float(followed.time @ cmdp.reward[found.chosen])
    lost = earned - lower_bound(criterion, followed.taken, cmdp.reward, vectors[0])
    assert lost <= 1e-14 + 2e-15 / link


def test_sweeps_that_take_too_long_fall_back_to_elimination():
    cmdp = two_blocks(1e-7, size=80)
    criterion = Average(cmdp)
    criterion._planned = True  # as if sweeps had seemed fast enough
    found = criterion.solve(cmdp.reward, 1e-7)
    assert criterion._plan is not None
    assert found.upper - found.lower <= 1e-7

    uniform = np.repeat(1.0 / np.diff(cmdp.offsets), np.diff(cmdp.offsets))
    criterion = Average(two_blocks(1e-5, size=80))
    followed = criterion.follow(uniform)
    assert criterion._plan is not None
    assert followed.time == pytest.approx(dense_stationary(matrix_of(two_blocks(1e-5, size=80), uniform)), abs=1e-9)


def test_random_blocks_that_hardly_meet_are_eliminated_at_any_rate():
    """Factors that are larger than sparse ones should be still cost less than sweeps that never settle."""
    rng, states, blocks = np.random.default_rng(0), 240, 4
    moves = np.zeros((2 * states, states))
    for pair, row in enumerate(moves):
        block = np.flatnonzero(np.arange(states) % blocks == pair // 2 % blocks)
        row[rng.choice(block, 3, replace=False)] = rng.dirichlet(np.ones(3)) * (1.0 - 1e-8)
        row[rng.integers(states)] += 1e-8
    cmdp = ib.CMDP(
        offsets=np.arange(0, 2 * states + 1, 2), transition=moves, reward=rng.random(2 * states), constraints=(),
        initial=np.eye(states)[0], average=True,
    )  # fmt: skip
    criterion = Average(cmdp)
    uniform = np.full(2 * states, 0.5)
    followed = criterion.follow(uniform)
    assert criterion._plan is not None
    assert followed.time == pytest.approx(dense_stationary(matrix_of(cmdp, uniform)), abs=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_slow_rings_are_eliminated_and_random_models_are_swept(seed):
    ring, criterion = slow_ring(600, seed), Average(slow_ring(600, seed))
    found = criterion.solve(ring.reward, 1e-10)
    assert criterion._plan is not None
    assert found.upper - found.lower <= 1e-10
    swept = by("sweeps", ring)
    rough = swept.solve(ring.reward, 1e-4)
    assert max(rough.lower, found.lower) <= min(rough.upper, found.upper)

    garnet = random_model(seed, states=150, density=0.05).unconstrained()
    criterion = Average(garnet)
    found = criterion.solve(garnet.reward, 1e-10)
    assert criterion._plan is None
    assert found.upper - found.lower <= 1e-10
    assert abs(found.upper - by("elimination", garnet).solve(garnet.reward, 1e-10).upper) <= 2e-10


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_is_where_the_next_solve_begins(way):
    cmdp = random_model(0, states=30)
    criterion = by(way, cmdp)
    found = criterion.solve(cmdp.reward, 1e-10)
    again = criterion.solve(cmdp.reward, 1e-10, found)
    assert np.array_equal(again.chosen, found.chosen)
    expected = criterion.expect(cmdp.reward, found.chosen, found.value_function)
    assert (expected.lower, expected.upper) == (-np.inf, np.inf)
    from_there = criterion.solve(cmdp.reward, 1e-10, expected, settled=0.1, keep_backups=True)
    assert abs(from_there.upper - found.upper) <= 2e-10
    backups = from_there.backups
    assert backups == pytest.approx(criterion.backup(cmdp.reward, from_there.value_function), abs=1e-12)
    best, _ = cmdp.pairs.best(backups)
    assert backups[from_there.chosen] == pytest.approx(best, abs=1e-9)
    assert isinstance(from_there, Found)


@pytest.mark.parametrize("reward", [0.0, 1e-300, 1e300, -7.0])
def test_every_solve_ends(reward):
    cmdp = machine()
    signal = reward * cmdp.reward
    for way in WAYS:
        found = by(way, cmdp).solve(signal, 0.0)
        assert found.lower <= found.upper
        optimum = best_by_enumeration(cmdp, signal)
        assert found.lower <= optimum * (1 + 1e-14) + 1e-300 and optimum <= found.upper + 1e-15 * abs(optimum)


@pytest.mark.parametrize("way", WAYS)
@given(cmdp=models())
def test_values_of_signals_on_the_policy(way, cmdp):
    criterion = by(way, cmdp)
    found = criterion.solve(cmdp.reward, 1e-6)
    matrix = cmdp.transition.toarray()[found.chosen]
    assume(len(closed_classes(matrix)) == 1)
    signals = np.random.default_rng(0).random((2, cmdp.n_pairs))
    values, gains = criterion.values(found, signals)
    for y, gain, signal in zip(values, gains, signals, strict=True):
        on_policy = (signal - (y[criterion.places] - criterion.layers[0].transition @ y))[found.chosen]
        exact = float(dense_time(matrix)[0] @ signal[found.chosen])
        if way == "sweeps":  # roughly; chains of 2^-12 mix too slowly for that
            assert on_policy.min() - 1e-9 <= exact <= on_policy.max() + 1e-9
        else:
            assert on_policy == pytest.approx(gain, abs=1e-10)
            assert gain == pytest.approx(exact, abs=1e-11)
    again, _ = criterion.values(found, signals, values)
    assert again.shape == values.shape


# --- policies


@pytest.mark.parametrize("way", WAYS)
@given(cmdp=models(), data=st.data())
def test_following_a_policy_and_proving_its_value(way, cmdp, data):
    criterion = by(way, cmdp)
    taken = np.concatenate(
        [
            np.array(data.draw(st.lists(st.integers(0, 4), min_size=int(size), max_size=int(size)))) + 1e-3
            for size in np.diff(cmdp.offsets)
        ]
    )
    taken *= data.draw(st.lists(st.sampled_from([0.0, 1.0, 1.0]), min_size=len(taken), max_size=len(taken)))
    sums = criterion.pairs.sum_by_state(taken)
    taken = np.where(sums[cmdp.pairs.states] > 0, taken, 1.0)
    taken /= criterion.pairs.sum_by_state(taken)[cmdp.pairs.states]
    matrix = matrix_of(cmdp, taken)
    times = dense_time(matrix)
    if len(times) > 1:  # every state is where the start may be
        with pytest.raises(InvalidInput, match="its averages depend on the start"):
            criterion.follow(taken)
        return
    followed = criterion.follow(taken)
    slowest = 1e-6 if way == "sweeps" else 1e-11
    assert followed.time == pytest.approx(times[0], abs=slowest)
    signals = np.random.default_rng(0).standard_normal((3, cmdp.n_pairs))
    vectors = criterion.proof_vectors(followed, signals)
    for y, signal in zip(vectors, signals, strict=True):
        value = float(times[0] @ criterion.pairs.sum_by_state(taken * signal))
        proved = lower_bound(criterion, taken, signal, y)
        rounding = 1e-12 + 32 * UNIT * float(np.abs(y).max())
        assert proved <= value + rounding
        if way != "sweeps":
            assert value - proved <= rounding
    again = criterion.proof_vectors(followed, signals, vectors)
    assert again.shape == vectors.shape


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(3))
def test_proofs_are_tight_for_policies_that_mix(way, seed):
    cmdp = random_model(seed, states=25)
    criterion = by(way, cmdp)
    taken = np.random.default_rng(seed).random(cmdp.n_pairs)
    taken /= criterion.pairs.sum_by_state(taken)[cmdp.pairs.states]
    followed = criterion.follow(taken)
    assert followed.time == pytest.approx(dense_time(matrix_of(cmdp, taken))[0], abs=1e-13)
    vectors = criterion.proof_vectors(followed, cmdp.margins)
    for y, signal in zip(vectors, cmdp.margins, strict=True):
        value = float(criterion.time_at_entries(followed) @ signal)
        assert abs(value - lower_bound(criterion, taken, signal, y)) <= 2e-14


@pytest.mark.parametrize("seed", range(2))
def test_proofs_on_slow_rings_pin_the_busiest_state(seed):
    cmdp = slow_ring(1_000, seed)
    criterion = Average(cmdp)
    found = criterion.solve(cmdp.reward, 1e-10)
    followed = criterion.follow(
        criterion.fill_in(deterministic(cmdp, found.chosen), np.ones(1_000, bool), found.chosen)
    )
    (y,) = criterion.proof_vectors(followed, cmdp.reward[None, :])
    value = float(followed.time @ cmdp.reward[found.chosen])
    assert y[int(np.argmax(followed.time))] == 0.0
    assert value - lower_bound(criterion, followed.taken, cmdp.reward, y) <= 1e-11


@pytest.mark.parametrize("way", WAYS)
def test_of_several_classes_the_time_is_that_of_the_best(way):
    cmdp = ring_of_four()
    criterion = by(way, cmdp)
    stay = np.arange(0, 8, 2)
    for reward, best in (([3, 0, 2, 0, 0, 0, 1, 0], 0), ([0, 0, 2, 0, 5, 0, 1, 0], 2)):
        reward = np.array(reward, dtype=float)
        expected = criterion.expect(reward, stay, np.zeros(4))
        assert criterion.time(expected, 1e-12).tolist() == np.eye(4)[best].tolist()
        found = criterion.solve(reward, 1e-9)
        assert criterion.time(found, 1e-12) @ reward[found.chosen] == pytest.approx(reward.max(), abs=1e-12)
    with pytest.raises(InvalidInput) as refused:
        by(way, problem([0, 2, 4], [[1, 0], [0, 1], [0, 1], [1, 0]], np.zeros(4), initial=[0.5, 0.5])).follow(
            np.array([1.0, 0.0, 1.0, 0.0])
        )
    assert str(refused.value) == (
        "the policy comes to stay around state 0 or around state 1, and never from one to the other: its averages "
        "depend on the start"
    )


@pytest.mark.parametrize("way", WAYS)
def test_a_class_that_the_start_does_not_lead_to_does_not_count(way):
    criterion = by(way, islands())
    followed = criterion.follow(np.array([1.0, 0.0, 1.0, 0.0]))
    assert followed.time.tolist() == [1.0, 0.0]
    vectors = criterion.proof_vectors(followed, np.array([[1.0, 0.0, 0.0, 0.0]]))
    assert np.all(np.isfinite(vectors))
    assert lower_bound(criterion, followed.taken, np.array([1.0, 0.0, 0.0, 0.0]), vectors[0]) <= 1.0


@given(cmdp=models(max_states=6), data=st.data())
def test_filling_in_leaves_one_class(cmdp, data):
    """Elsewhere the policy walks to where one class of another policy is."""
    criterion = Average(cmdp)
    chosen = np.array([data.draw(st.integers(a, b - 1)) for a, b in itertools.pairwise(cmdp.offsets.tolist())])
    matrix = cmdp.transition.toarray()[chosen]
    visited = np.zeros(cmdp.n_states, dtype=bool)
    visited[data.draw(st.sampled_from(closed_classes(matrix)))] = True
    filled = criterion.fill_in(deterministic(cmdp, chosen), visited, chosen)
    assert criterion.pairs.sum_by_state(filled) == pytest.approx(1.0)
    (inside,) = closed_classes(matrix_of(cmdp, filled))
    assert np.array_equal(inside, np.flatnonzero(visited))
    nowhere = criterion.fill_in(np.zeros(cmdp.n_pairs), np.zeros(cmdp.n_states, dtype=bool), chosen)
    assert np.array_equal(nowhere, deterministic(cmdp, chosen))


# --- no kernel for small problems


def test_small_problems_do_not_wait_for_a_compiler(monkeypatch):
    def compiles(*_):
        raise AssertionError("a kernel was called")

    for name in ("improve", "eliminate", "reduce_states", "make_plan", "residuals"):
        monkeypatch.setattr(average, name, compiles)
    for name in ("eliminate", "eliminate_transposed", "reduce_states"):
        monkeypatch.setattr(visits, name, compiles)
    for name in ("chosen_chain", "mixed_chain", "lazy_chain", "improve_values", "settle_flow", "sweep_values"):
        monkeypatch.setattr(average, name, compiles)
    cmdp = ring_of_four()
    criterion = Average(cmdp)
    occupancy, _ = criterion.linked(np.array([1 / 4, 0, 1 / 6, 0, 7 / 12, 0, 0, 0]), tuple, 1e-6, none(criterion))
    followed = criterion.follow(policy_of(criterion, occupancy))
    assert criterion.proof_vectors(followed, cmdp.margins).shape == (2, 4)


# --- the limit of discounted problems


def discounted_optimum(cmdp, discount):
    """From the first state, by dense policy iteration."""
    value, chosen = np.zeros(cmdp.n_states), None
    while True:
        _, better = cmdp.pairs.best((1.0 - discount) * cmdp.reward + discount * (cmdp.transition @ value))
        if chosen is not None and np.array_equal(better, chosen):
            return float(value[0])
        chosen = better
        matrix = np.eye(cmdp.n_states) - discount * cmdp.transition.toarray()[chosen]
        value = np.linalg.solve(matrix, (1.0 - discount) * cmdp.reward[chosen])


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_discounted_optima_tend_to_the_average_one_at_the_rate_one_minus_discount(seed):
    cmdp = machine().unconstrained() if seed is None else random_model(seed).unconstrained()
    found = Average(cmdp).solve(cmdp.reward, 1e-13)
    optimum = 0.5 * (found.lower + found.upper)
    slopes = [(discounted_optimum(cmdp, 1.0 - far) - optimum) / far for far in (1e-2, 1e-3, 1e-4, 1e-5)]
    # Each is ten times closer to the limit than the one before.
    assert abs(slopes[2] - slopes[3]) <= 0.2 * abs(slopes[1] - slopes[2]) + 1e-8
    assert abs(slopes[1] - slopes[2]) <= 0.2 * abs(slopes[0] - slopes[1]) + 1e-8
    # Above, provably: with V = gain + (1 - discount) h the discounted excess is at most (1 - discount) (- min h).
    h = found.value_function
    for far in (1e-2, 1e-5):
        assert discounted_optimum(cmdp, 1.0 - far) <= found.upper + far * (h[0] - h.min()) + 1e-12


def test_graphs_of_policies_agree_with_reachability():
    for seed in range(5):
        matrix = (np.random.default_rng(seed).random((12, 12)) < 0.12) + np.eye(12)
        classes = classes_of(graph_of(as_chain(matrix)))
        found = sorted(np.flatnonzero(classes.label == label).tolist() for label in classes.closed_ones)
        assert found == sorted(inside.tolist() for inside in closed_classes(matrix))


def test_classes_that_tie_are_told_apart_from_any_start():
    """Staying at 1 and at 2 both pay 2: a solve begun elsewhere left a bracket of 1e-5, and the bundle stuck."""
    moves = np.eye(3)[[0, 1, 1, 1, 2, 2, 2, 0, 0]]
    reward = [0, 0, -2, 2, 3, 2, 2, 0, 0]
    signal = [0.506, -1.871, -0.81, 0.302, -0.942, 0.605, 0.611, 0.134, -2.134]
    cmdp = problem([0, 3, 6, 9], moves, reward, [Constraint(signal, at_most=1 / 3, name="limit")])
    best = ib.solve(cmdp, "bundle")
    assert best.upper_bound == pytest.approx(2.0, abs=1e-7) and best.reward == pytest.approx(2.0, abs=1e-6)
    criterion, rng = Average(cmdp), np.random.default_rng(0)
    for _ in range(30):
        start = criterion.solve(rng.normal(size=9), 1e-9)
        found = criterion.solve(np.array(reward, dtype=float), 1e-9, start)
        assert found.upper - found.lower <= 2e-9


@pytest.mark.parametrize("begin", range(4))
def test_of_classes_that_tie_elimination_takes_the_one_that_the_start_leads_to(begin):
    """(It was the one that rounding preferred, and what other policies do was linked to it, at a cost.)"""
    moves = np.eye(4)[[0, 1, 1, 2, 2, 3, 3, 0]]
    cmdp = problem([0, 2, 4, 6, 8], moves, [1, 0, 1, 0, 1, 0, 1, 0], initial=np.eye(4)[begin])
    criterion = by("elimination", cmdp)
    found = criterion.solve(cmdp.reward, 1e-10)
    assert criterion.time(found, 1e-10) == pytest.approx(np.eye(4)[begin], abs=1e-12)
    assert criterion.values(found, cmdp.reward[None, :])[1] == pytest.approx(1.0)


def four_queues() -> CMDP:
    """Of 256 states 64 can be stood still in, all for the same reward, which is a little less than the optimum."""
    served = [0.5050768343640678, 0.6262015738010733, 0.41777813106885203, 0.8976847140711768]
    worth = [0.05075575671502777, 0.6149667458421083, 0.16366108955560751]
    return queues_in_a_row(3, 0.4241097408425196, served, worth)


def test_many_classes_that_tie_below_the_optimum_do_not_wear_elimination_down():
    """(Which was told from which by rounding: 500 policies, and a bracket of 4e-3; begun elsewhere, of 0.1.)"""
    cmdp = four_queues()
    criterion = by("elimination", cmdp)
    elsewhere = criterion.solve(-np.asarray(cmdp.reward), 1e-10)
    for start in (None, elsewhere):
        found = criterion._by_elimination(np.array(cmdp.reward), 1e-10, start)
        assert found.upper - found.lower <= 2e-10


def test_what_was_asked_before_makes_no_answer_worse():
    """(After the Slater constant the same solve was stalled with a gap of 4e-3, and so were frontiers.)"""
    cmdp, asked_before = four_queues(), four_queues()
    ib.slater(asked_before)
    fresh, later = ib.solve(cmdp), ib.solve(asked_before)
    assert fresh.status == later.status == "optimal"
    assert later.reward == pytest.approx(fresh.reward, abs=1e-12) and later.gap <= 1e-12


@pytest.mark.parametrize("begun", ["from nothing", "from an earlier answer"])
def test_what_elimination_leaves_open_is_tried_by_sweeps_though_there_is_a_plan(begun, monkeypatch):
    cmdp = random_model(0, states=120)
    criterion = by("elimination", cmdp)
    start = None if begun == "from nothing" else criterion.solve(-np.asarray(cmdp.reward), 1e-10)
    monkeypatch.setattr(average, "_MOST_STEPS", 0)
    found = criterion.solve(cmdp.reward, 1e-10, start)
    assert found.upper - found.lower <= 2e-10


def test_policies_that_come_again_end_the_search(monkeypatch) -> None:
    """(365 states in a row, and an action that leads home: three policies followed each other for 500 steps.)"""
    seed, states, actions, moves = 8189, 365, 2, 4
    rng, pairs = np.random.default_rng(seed), states * actions
    after = np.clip(
        np.repeat(np.arange(states), actions)[:, None] + rng.integers(-2, 3, size=(pairs, moves)), 0, states - 1
    )
    after[::actions, 0] = 0
    chances = rng.dirichlet(np.ones(moves), size=pairs)
    chances[::actions] *= 0.5
    chances[::actions, 0] += 0.5
    transition = np.zeros((pairs, states))
    np.add.at(transition, (np.arange(pairs)[:, None], after), chances)
    reward = rng.normal(size=pairs) * (rng.random(pairs) < 0.1)
    cmdp = ib.CMDP(np.arange(0, pairs + 1, actions), transition, reward, [], np.eye(states)[0], average=True)
    criterion = by("elimination", cmdp)
    steps, look = [], type(criterion)._look
    monkeypatch.setattr(type(criterion), "_look", lambda *given: (steps.append(1), look(*given))[1])
    criterion.solve(cmdp.reward, 1e-9)
    assert len(steps) < 100


def wells(states: int, left: float, right: float) -> tuple[CMDP, float]:
    """A walk drawn to both ends, more strongly to the right; and the share of time in the right half, by balance.

    It begins at the left end, and takes some 1e20 steps to the other.
    """
    places = np.arange(states)
    up = np.where(places < states // 2, left, right)
    moves = np.zeros((states, states))
    np.add.at(moves, (places, np.minimum(places + 1, states - 1)), up)
    np.add.at(moves, (places, np.maximum(places - 1, 0)), 1.0 - up)
    time = np.cumprod(np.append(1.0, up[:-1] / (1.0 - up[1:])))
    inside = (places >= states // 2).astype(float)
    bound = Constraint(inside, at_most=0.5, name="right")
    return problem(np.arange(states + 1), moves, inside, [bound]), float(time[states // 2 :].sum() / time.sum())


@pytest.mark.parametrize(("states", "left", "right"), [(80, 0.3, 0.75), (120, 0.3, 0.75), (160, 0.4, 0.65)])
def test_a_part_that_is_hardly_ever_left_is_not_taken_for_all(states, left, right):
    """(Of 120 states the walk was said to stay at the left for ever, in bounds; asked again, at the right.)"""
    cmdp, share = wells(states, left, right)
    judged = ib.evaluate(cmdp, ib.Policy.uniform(cmdp))
    assert judged.reward == pytest.approx(share, abs=1e-9) and share > 0.999 and not judged.in_bounds


@pytest.mark.parametrize("exact", [False, True])
def test_no_proof_is_poorer_than_the_least_that_is_ever_paid(exact):
    """(A signal between 0 and 1 was proved to be above -2e27, and a bound of -1 not to be kept.)"""
    cmdp, _ = wells(120, 0.3, 0.75)
    free = cmdp.asking(constraints=[Constraint(cmdp.reward, at_least=-1.0, name="right")])
    certificate = ib.certify(ib.Policy.uniform(free), free, exact=exact)
    assert certificate.in_bounds and certificate.margins_lower[0] >= 0.99 and certificate.reward_lower >= -0.01


@pytest.mark.parametrize("states", [60, 92, 120])
def test_the_only_policy_is_found_however_rarely_it_leaves_a_part(states):
    """(For HiGHS such moves do not exist: "no deterministic policy with one recurrent class is in bounds".)"""
    cmdp, share = wells(states, 0.3, 0.75)
    bounded = cmdp.asking(constraints=[Constraint(cmdp.reward, at_least=0.5, name="right")])
    best = ib.solve(bounded, deterministic=True)
    assert best.reward == pytest.approx(share, abs=1e-9) and best.upper_bound >= share - 1e-9


def test_no_average_is_proved_to_be_more_than_the_most_that_is_paid():
    """Whatever a vector proves where a state is left once in 1e10 steps: there it lost 4e-7."""
    rare = 1e-10
    walk = ib.CMDP(
        offsets=np.arange(4),
        transition=[[1.0, 0.0, 0.0], [0.9, 0.0, 0.1], [rare, 0.0, 1.0 - rare]],
        reward=[0.0, 0.0, -1.0],
        constraints=[],
        initial=[0.0, 0.0, 1.0],
        average=True,
    )
    best = ib.solve(walk)
    assert abs(best.reward) <= 1e-9 and best.upper_bound == best.certificate.reward_upper <= 1e-290
