"""The paper's queue against the reference numbers of its audit, and its transition table as exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import inbounds as ib
import naive

OPTIMUM = 4.644858248633466
KAPPA = 2 * 0.02 / 0.5 * np.sqrt(2 * 96 * np.log(96) / 1e5)  # the experiment's, audit E4: 0.007489


@pytest.fixture(scope="module")
def queue():
    return ib.zoo.queue()


@pytest.fixture(scope="module")
def best(queue):
    return ib.solve(queue)


# Numbers


def test_optimum(best):
    assert best.total_reward == pytest.approx(OPTIMUM, abs=1e-9)
    assert best.upper_bound / 0.5 == pytest.approx(OPTIMUM, abs=1e-9)
    assert best.total_margins == pytest.approx([0.0, 0.0], abs=1e-9)


def test_prices(queue, best):
    """Of scaled margins (r / 5, g1 / 5, g2 / 1.68): 0.096920 and 0.045560."""
    scaled = best.prices * queue.margin_scales / 5.0
    assert queue.margin_scales == pytest.approx([5.0, 1.68], abs=1e-14)
    assert scaled == pytest.approx([0.096920, 0.045560], abs=1e-6)
    assert best.prices == pytest.approx([0.096920, 0.135595], abs=1e-6)


def test_value_function(best):
    """The audit's v is not normalised, and of the reward divided by 5."""
    v = best.value_function / 0.5 / 5.0
    assert v == pytest.approx([1.853313, 1.475653, 1.081927, 0.698595, 0.351720, 0.112622], abs=1e-6)


def test_occupancy_of_the_optimum(queue, best):
    """The optimal vertex that the audit found has this state marginal; whichever we find, it must be an optimum."""
    assert naive.value(queue, best.policy.probabilities, queue.reward) / 0.5 == pytest.approx(OPTIMUM, abs=1e-9)
    vertex = {
        0: {(0.2, 0.7): 1.0},
        1: {(0.2, 0.5): 0.5738, (0.2, 0.6): 0.4262},
        2: {(0.8, 0.5): 0.9551, (0.2, 0.6): 0.0449},
        3: {(0.2, 0.6): 1.0},
        4: {(0.2, 0.7): 1.0},
        5: {(0.2, 0.7): 1.0},
    }
    table = np.zeros((6, 16))
    for state, row in vertex.items():
        for action, probability in row.items():
            table[state, queue.action_labels.index(action)] = probability
    judged = ib.evaluate(queue, ib.Policy.from_table(queue, table))
    marginal = queue.pairs.sum_by_state(np.asarray(judged.occupancy))
    assert marginal == pytest.approx([0.118378, 0.196812, 0.174494, 0.126356, 0.167093, 0.216866], abs=1e-4)
    assert judged.total_reward == pytest.approx(OPTIMUM, abs=1e-3)  # its probabilities are printed to four digits


@pytest.mark.parametrize(
    ("kappa", "total"),
    [
        (0.0, 4.644858),
        (KAPPA, 4.634188),
        (0.02, 4.616362),
        (0.05, 4.573619),
        (0.1, 4.502361),
        (0.15, 4.429394),
        (0.2, 4.353550),
    ],
)
def test_conservative_optima(queue, kappa, total):
    """kappa is in scaled units. At 0.2 the bounds only just can be met: it is the Slater constant."""
    tightened = queue.tightened(kappa * queue.margin_scales)
    solution = ib.solve(tightened)
    assert solution.total_reward == pytest.approx(total, abs=1e-6)
    assert ib.evaluate(tightened, solution.policy).in_bounds
    assert solution.in_bounds or kappa == 0.2


def test_beyond_the_slater_constant_nothing_is_in_bounds(queue):
    with pytest.raises(ib.Infeasible):
        ib.solve(queue.tightened(0.2001 * queue.margin_scales))


def test_slater(queue):
    """The slowest service has the margin 3 - 10 * 0.2 = 1, the largest flow 1.2 - 8 * 0.3^2 = 0.48, in every state."""
    assert ib.slater(queue).value == pytest.approx(0.48, abs=1e-12)
    assert ib.slater(queue, scaled=True).value == pytest.approx(0.2, abs=1e-12)


def test_without_constraints(queue):
    free = unconstrained(queue)
    assert ib.solve(free).total_reward == pytest.approx(5.659335557513892, abs=1e-9)
    assert naive.best_value(queue, queue.reward, 1e-12) / 0.5 == pytest.approx(5.659335557513892, abs=1e-9)


def unconstrained(cmdp):
    return ib.CMDP(
        offsets=cmdp.offsets,
        transition=cmdp.transition,
        reward=cmdp.reward,
        constraints=(),
        initial=cmdp.initial,
        discount=cmdp.discount,
    )


def test_the_minimum_would_leave_the_constraints_slack(queue):
    """Audit E1: read as "min", as printed, the answer would be 4.303737 and no constraint would matter."""
    turned = ib.CMDP(queue.offsets, queue.transition, -queue.reward, queue.constraints, queue.initial, queue.discount)
    least = ib.solve(turned)
    assert -least.total_reward == pytest.approx(4.303737330931897, abs=1e-9)
    assert np.max(least.prices) < 1e-9


def test_uniform_policy(queue):
    judged = ib.evaluate(queue, ib.Policy.uniform(queue))
    assert judged.total_reward == pytest.approx(4.988788385752319, abs=1e-9)
    assert judged.total_margins == pytest.approx([-4.0, -1.04], abs=1e-12)
    assert not judged.in_bounds


@pytest.mark.parametrize(("state", "total"), [(0, 9.266178), (5, 0.469961)])
def test_point_masses(queue, state, total):
    start = np.eye(6)[state]
    cmdp = ib.CMDP(queue.offsets, queue.transition, queue.reward, queue.constraints, start, queue.discount)
    assert ib.solve(cmdp).total_reward == pytest.approx(total, abs=1e-6)


def test_readings_of_the_full_buffer():
    assert ib.solve(ib.zoo.queue(full_buffer="free")).total_reward == pytest.approx(4.616571, abs=1e-6)
    closed = ib.zoo.queue(full_buffer="closed")
    with pytest.raises(ib.Infeasible):
        ib.solve(closed)
    assert naive.best_value(closed, closed.margins[1], 1e-12) == pytest.approx(-0.308, abs=5e-4)
    assert closed.constraints[1].signal[closed.offsets[5] :].tolist() == pytest.approx([-6.8] * 4)
    assert np.diff(closed.offsets).tolist() == [16] * 5 + [4]


# The table of the paper


def as_fraction(value):
    return Fraction(value).limit_denominator(1000)


@pytest.mark.parametrize("full_buffer", ["charged", "free", "closed"])
@pytest.mark.parametrize("buffer", [1, 2, 5])
def test_transition_table(buffer, full_buffer):
    """Every row of every pair, in exact arithmetic; doubles are within 1e-15 of it."""
    cmdp = ib.zoo.queue(buffer=buffer, full_buffer=full_buffer)
    dense = cmdp.transition.toarray()
    for pair in range(cmdp.n_pairs):
        x = int(cmdp.pairs.states[pair])
        a, b = map(as_fraction, cmdp.pairs.action_label(pair))
        row = [Fraction(0)] * (buffer + 1)
        if x == buffer:
            row[x - 1], row[x] = a, 1 - a
        elif x == 0:
            row[0], row[1] = 1 - b * (1 - a), b * (1 - a)
        else:
            row[x - 1], row[x], row[x + 1] = a * (1 - b), a * b + (1 - a) * (1 - b), (1 - a) * b
        assert sum(row) == 1
        assert np.max(np.abs(dense[pair] - np.array(row, dtype=float))) < 1e-15
        assert cmdp.reward[pair] == buffer - x
        assert cmdp.margins[0, pair] == pytest.approx(float(3 - 10 * a), abs=1e-14)
        free = full_buffer == "free" and x == buffer
        flow = Fraction(0) if free else Fraction(6, 5) - 8 * (1 - b) ** 2
        assert cmdp.margins[1, pair] == pytest.approx(float(flow), abs=1e-14)


def test_rows_of_the_paper_by_hand(queue):
    """a = 1/5, b = 2/5: up from an empty queue 8/25; inside, down 3/25, stay 14/25, up 8/25; full, down 1/5."""
    dense, labels = queue.transition.toarray(), queue.action_labels
    first = labels.index((0.2, 0.4))
    assert dense[first] == pytest.approx([17 / 25, 8 / 25, 0, 0, 0, 0], abs=1e-15)
    assert dense[2 * 16 + first] == pytest.approx([0, 3 / 25, 14 / 25, 8 / 25, 0, 0], abs=1e-15)
    assert dense[5 * 16 + first] == pytest.approx([0, 0, 0, 0, 1 / 5, 4 / 5], abs=1e-15)
    last = labels.index((0.8, 0.7))
    assert dense[last] == pytest.approx([43 / 50, 7 / 50, 0, 0, 0, 0], abs=1e-15)
    assert dense[3 * 16 + last] == pytest.approx([0, 0, 12 / 50, 31 / 50, 7 / 50, 0], abs=1e-15)
    assert dense[5 * 16 + last] == pytest.approx([0, 0, 0, 0, 4 / 5, 1 / 5], abs=1e-15)


def test_actions_are_numbered_as_in_the_audit(queue):
    """k = 4 i_a + i_b."""
    assert queue.action_labels[:5] == ((0.2, 0.4), (0.2, 0.5), (0.2, 0.6), (0.2, 0.7), (0.4, 0.4))
    assert (queue.n_states, queue.n_pairs) == (6, 96)
    assert queue.initial.tolist() == pytest.approx([1 / 6] * 6)


# Parameters


def test_every_parameter_is_open():
    cmdp = ib.zoo.queue(buffer=3, service=[0.1, 0.9], flow=[0.0, 0.25, 0.5], discount=0.8)
    assert (cmdp.n_states, cmdp.n_pairs, cmdp.discount) == (4, 24, 0.8)
    assert cmdp.action_labels[:3] == ((0.1, 0.0), (0.1, 0.25), (0.1, 0.5))
    assert cmdp.reward.reshape(4, 6)[:, 0].tolist() == [3, 2, 1, 0]


def test_closed_with_zero_among_the_flows():
    """Flow 0 is then an action of every state, and the only one at the full buffer."""
    cmdp = ib.zoo.queue(buffer=2, service=[0.5], flow=[0.5, 0.0], full_buffer="closed")
    assert np.diff(cmdp.offsets).tolist() == [2, 2, 1]
    assert cmdp.pairs.action_label(4) == (0.5, 0.0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"buffer": 0}, "buffer must be a whole number of at least 1, found 0"),
        ({"buffer": 2.5}, "buffer must be a whole number of at least 1, found 2.5"),
        ({"buffer": True}, "buffer must be a whole number of at least 1, found True"),
        ({"service": [0.0, 0.5]}, "service must not contain 0"),
        ({"service": [0.5, 1.0]}, "service must be a list of probabilities below 1"),
        ({"service": []}, "service must be a list of probabilities below 1"),
        ({"service": 0.5}, "service must be a list of probabilities below 1, found 0.5"),
        ({"service": ["fast"]}, "service must be numbers"),
        ({"service": [float("nan")]}, "service must be a list of probabilities below 1"),
        ({"flow": [-0.1]}, "flow must be a list of probabilities below 1"),
        ({"flow": [0.5, 0.5]}, "flow must not repeat a rate"),
        ({"discount": 1.0}, r"discount must be in \[0, 1\), found 1.0"),
        ({"full_buffer": "open"}, "full_buffer must be one of charged, free, closed, found 'open'"),
    ],
)
def test_wrong_parameters_are_refused(parameters, message):
    with pytest.raises(ib.InvalidInput, match=message):
        ib.zoo.queue(**parameters)


def test_the_zoo_is_one_table():
    assert "queue" in ib.zoo.names()
    assert ib.zoo.make("queue", buffer=2).n_states == 3
    for problem, parameters in (("queue", {"bufer": 3}), ("garnet", {"state": 3, "seed": 1})):
        with pytest.raises(
            ib.InvalidInput, match=f"{problem} has no parameter '{next(iter(parameters))}'; it has: .*discount"
        ):
            ib.zoo.make(problem, **parameters)
    with pytest.raises(ib.InvalidInput, match=r"no problem is called 'zebra'; there are: .*queue"):
        ib.zoo.make("zebra")
