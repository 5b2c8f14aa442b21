"""Models of averages, the criterion by each of its ways, and slow references; for test_average and test_linking."""

from __future__ import annotations

import itertools

import numpy as np
import scipy.sparse as sp
from hypothesis import assume
from hypothesis import strategies as st
from scipy.optimize import linprog

from inbounds.criteria.average import Average
from inbounds.errors import InvalidInput
from inbounds.numerics.elimination import make_plan
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint

# --- problems


def none(criterion):
    """No margins."""
    return np.empty((0, criterion.n_entries))


def problem(offsets, moves, reward, constraints=(), initial=None, labels=None) -> CMDP:
    initial = np.eye(len(offsets) - 1)[0] if initial is None else initial
    return CMDP(offsets, moves, reward, tuple(constraints), initial, average=True, state_labels=labels)


def machine(repairs=0.1) -> CMDP:
    """Wear 0..3: running pays 3 - wear and wears by one with probability 0.3; a repair takes one step."""
    moves, reward, repair = [], [], []
    for wear in range(4):
        run = np.zeros(4)
        run[wear] += 0.7
        run[min(wear + 1, 3)] += 0.3
        moves.append(run), reward.append(3.0 - wear), repair.append(0.0)
        if wear:
            moves.append(np.eye(4)[0]), reward.append(0.0), repair.append(1.0)
    return problem([0, 1, 3, 5, 7], moves, reward, [Constraint(repair, at_most=repairs, name="repairs")])


def islands() -> CMDP:
    """Staying on 0 pays 1; every step on 0 counts, at most half of them."""
    moves = [[1, 0], [0, 1], [0, 1], [1, 0]]
    return problem([0, 2, 4], moves, [1, 0, 0, 0], [Constraint([1, 1, 0, 0], at_most=0.5, name="on 0")])


def ring_of_four() -> CMDP:
    """Stay, or go on; the best three of the four states are stayed at, and never meet."""
    moves = [np.eye(4)[t] for s in range(4) for t in (s, (s + 1) % 4)]
    signals = [[2, 1, 0, 1, 0, 1, 1, 1], [0, 1, 3, 1, 0, 1, 1, 1]]
    constraints = [Constraint(signal, at_most=0.5, name=name) for signal, name in zip(signals, "ab", strict=True)]
    return problem([0, 2, 4, 6, 8], moves, [3, 0, 2, 0, 0, 0, 1, 0], constraints)


def random_model(seed, states=12, actions=3, period=1, density=0.4) -> CMDP:
    rng = np.random.default_rng(seed)
    n_pairs = states * actions
    moves = rng.random((n_pairs, states)) * (rng.random((n_pairs, states)) < density) + 1e-3
    if period > 1:
        phase = np.arange(states) % period
        moves *= phase[None, :] == (np.repeat(phase, actions)[:, None] + 1) % period
    moves /= moves.sum(axis=1, keepdims=True)
    constraints = [Constraint(rng.random(n_pairs), at_most=bound) for bound in (0.42, 0.45)]
    return problem(np.arange(states + 1) * actions, moves, rng.random(n_pairs), constraints)


def two_blocks(link, size=50, seed=0, successors=5) -> CMDP:
    """Two random blocks; every pair changes block with probability `link`."""
    rng, states, actions = np.random.default_rng(seed), 2 * size, 3
    moves = np.zeros((states * actions, states))
    for pair, row in enumerate(moves):
        block = pair // actions // size
        row[block * size + rng.choice(size, successors, replace=False)] = (1.0 - link) / successors
        row[(1 - block) * size + rng.integers(size)] = link
    return problem(np.arange(states + 1) * actions, moves, rng.random(len(moves)))


def slow_ring(states, seed=0, actions=4, reach=4) -> CMDP:
    """Next states are near on a ring: slow mixing, little fill."""
    rng = np.random.default_rng(seed)
    n_pairs = states * actions
    targets = (np.repeat(np.arange(states), actions)[:, None] + rng.integers(-reach, reach + 1, (n_pairs, 4))) % states
    targets[::actions, 0] = (np.arange(states) + 1) % states
    moves = sp.coo_array((rng.random(targets.size), (np.repeat(np.arange(n_pairs), 4), targets.ravel())))
    moves = sp.csr_array(moves, shape=(n_pairs, states))
    moves = sp.csr_array(sp.diags_array(1.0 / moves.sum(axis=1)) @ moves)
    return problem(np.arange(states + 1) * actions, moves, rng.random(n_pairs))


def queues_in_a_row(room, arriving, served, worth) -> CMDP:
    """Let a customer in or not, serve one queue or none: what is lost, worked or waited for at most has its price."""
    states = list(itertools.product(range(room + 1), repeat=len(served)))
    number = {state: k for k, state in enumerate(states)}
    offsets, moves, signals = [0], [], []
    for state in states:
        for open_door, queue in itertools.product((0, 1), [None, *np.flatnonzero(state)]):
            row = np.zeros(len(states))
            for comes, goes in itertools.product((0, 1), repeat=2):
                chance = (arriving if comes else 1 - arriving) if open_door else float(not comes)
                chance *= float(not goes) if queue is None else served[queue] if goes else 1 - served[queue]
                after = [*state, 0]
                if goes and chance > 0.0:
                    after[queue] -= 1
                    after[queue + 1] = min(room, after[queue + 1] + 1)
                after[0] = min(room, after[0] + comes)
                row[number[tuple(after[:-1])]] += chance
            moves.append(row)
            signals.append([queue is not None, not open_door, max(state)])
        offsets.append(len(moves))
    margins = np.array([1.2, 0.9, 2.9]) - np.array(signals, dtype=float)
    constraints = [
        Constraint(signal, at_most=9.0, name=name)
        for signal, name in zip(np.transpose(signals).astype(float), ("work", "loss", "wait"), strict=True)
    ]
    return problem(offsets, sp.csr_array(np.array(moves)), margins @ np.array(worth), constraints)


@st.composite
def models(draw: st.DrawFn, max_states: int = 4) -> CMDP:
    """Small models that are accepted, of all kinds: with periods, transient states, policies of several classes."""
    n_states = draw(st.integers(1, max_states))
    counts = draw(st.lists(st.integers(1, 3), min_size=n_states, max_size=n_states))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    n_pairs = int(offsets[-1])
    moves = np.zeros((n_pairs, n_states))
    for row in moves:
        for target in draw(st.lists(st.integers(0, n_states - 1), min_size=1, max_size=3)):
            row[target] += 2.0 ** -draw(st.sampled_from([0, 1, 2, 12]))
    moves /= moves.sum(axis=1, keepdims=True)
    reward = np.array(draw(st.lists(st.integers(-8, 8), min_size=n_pairs, max_size=n_pairs))) / 8
    cmdp = problem(offsets, moves, reward, initial=np.full(n_states, 1.0 / n_states))
    try:
        Average(cmdp)
    except InvalidInput:
        assume(False)
    return cmdp


# --- the same criterion by each of its ways


def by(way: str, cmdp: CMDP) -> Average:
    criterion = Average(cmdp)
    criterion._planned = True
    if way == "elimination":
        criterion._small = False
        criterion._plan = make_plan(*criterion._all_moves, most_fill=np.inf, most_work=np.inf)
    elif way == "sweeps":
        criterion._small = False
        criterion._fall_back = lambda spent: False
    else:
        criterion._planned = False
    return criterion


WAYS = ("as it comes", "elimination", "sweeps")


# --- references


def matrix_of(cmdp, taken):
    choose = sp.csr_array((taken, np.arange(cmdp.n_pairs), cmdp.offsets), shape=(cmdp.n_states, cmdp.n_pairs))
    return (choose @ cmdp.transition).toarray()


def closed_classes(matrix):
    """By reachability."""
    reach = np.linalg.matrix_power((matrix > 0.0) | np.eye(len(matrix), dtype=bool), len(matrix)) > 0
    together = reach & reach.T
    recurrent = np.flatnonzero(np.all(reach == together, axis=1))
    return [np.flatnonzero(row) for row in np.unique(together[recurrent], axis=0)]


def dense_time(matrix):
    """The stationary distribution of each closed class [S], by least squares."""
    times = []
    for inside in closed_classes(matrix):
        part = matrix[np.ix_(inside, inside)]
        system = np.vstack([np.eye(len(part)) - part.T, np.ones(len(part))])
        time = np.zeros(len(matrix))
        time[inside] = np.linalg.lstsq(system, np.append(np.zeros(len(part)), 1.0), rcond=None)[0]
        times.append(time)
    return times


def best_by_enumeration(cmdp, reward):
    every = itertools.product(*(range(first, last) for first, last in itertools.pairwise(cmdp.offsets)))
    return max(
        float(time @ reward[list(chosen)])
        for chosen in every
        for time in dense_time(cmdp.transition.toarray()[list(chosen)])
    )


def constrained_optimum(criterion, cmdp):
    """Optimum, occupancy and prices, by SciPy's linear program on the flow."""
    flow, right = criterion.flow
    assert np.array_equal(right, np.zeros(cmdp.n_states))
    equal = np.vstack([flow.toarray().T, np.ones(cmdp.n_pairs)])
    answer = linprog(
        -cmdp.reward,
        A_ub=-cmdp.margins if cmdp.n_constraints else None,
        b_ub=np.zeros(cmdp.n_constraints) if cmdp.n_constraints else None,
        A_eq=equal,
        b_eq=np.append(right, 1.0),
        bounds=(0, None),
        # With presolve HiGHS is off by 4e-9 on admission control.
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10, "presolve": False},
    )
    assert answer.status == 0
    return -answer.fun, answer.x, -answer.ineqlin.marginals


def lower_bound(criterion, taken, signal, y):
    """The contract's first bound."""
    excess = signal - (y[criterion.places] - criterion.layers[0].transition @ y)
    return float(np.min(criterion.pairs.sum_by_state(taken * excess)))


def deterministic(cmdp, chosen):
    taken = np.zeros(cmdp.n_pairs)
    taken[chosen] = 1.0
    return taken


def policy_of(criterion, occupancy):
    time = criterion.pairs.sum_by_state(occupancy)
    taken = occupancy / np.where(time > 0.0, time, 1.0)[criterion.places]
    return criterion.fill_in(taken, time > 0.0, criterion.pairs.offsets[:-1])
