"""The simulator: exact inversion of every row, the one scaling, a user's step function, and what it must not do."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inbounds as ib
import naive
import reference
import strategies
from inbounds.numerics.compiled import compiled
from inbounds.problem.criterion import require_criterion
from inbounds.problem.draws import World, draw_episode, draw_next, draw_start, fitted
from inbounds.problem.simulator import Scaling

LAST = 1.0 - 2.0**-53  # the largest number that a generator hands out


def fixed(u):
    """A generator that always hands out `u`."""
    return SimpleNamespace(random=lambda: u)


def telling(cumulative, n=1):
    """The u at which a mistake would show: both sides of every step of the cumulative distribution and of j / n."""
    steps = np.concatenate([cumulative, np.arange(n + 1) / n, [0.0, LAST]])
    around = np.concatenate([steps, np.nextafter(steps, 0.0), np.nextafter(steps, 1.0)])
    return sorted({float(u) for u in around if 0.0 <= u <= LAST})


# Tabular draws


@given(strategies.cmdps(max_constraints=1))
def test_draws_invert_the_rows_exactly(cmdp):
    world = cmdp.simulator().open()
    assert isinstance(world, World)
    dense = cmdp.transition.toarray()
    for pair in range(cmdp.n_pairs):
        row = dense[pair]
        possible = np.flatnonzero(row)
        cumulative = np.cumsum(row[possible])
        cumulative[-1] = 1.0
        for u in telling(cumulative):
            assert draw_next(world, pair, fixed(u)) == possible[naive.invert(cumulative, u)]


@given(strategies.cmdps(max_constraints=0))
def test_starts_invert_the_initial_distribution_exactly(cmdp):
    world = cmdp.simulator().open()
    for u in telling(world.start_cumulative, cmdp.n_states):
        state = draw_start(world, fixed(u))
        assert state == naive.invert(world.start_cumulative, u)
        assert cmdp.initial[state] > 0.0
    assert np.allclose(world.start_cumulative, np.cumsum(cmdp.initial), atol=1e-15)


@pytest.mark.parametrize("n_states", [1, 2, 3, 7, 10, 49, 56, 100, 1000])
@pytest.mark.parametrize("kind", ["uniform", "generic", "lumpy"])
def test_the_guide_table_equals_plain_inversion(n_states, kind):
    """Uniform distributions are the hard case: every step of theirs lies where a cell of the table starts."""
    rng = np.random.default_rng(n_states)
    initial = {
        "uniform": np.full(n_states, 1.0 / n_states),
        "generic": rng.dirichlet(np.ones(n_states)),
        "lumpy": rng.dirichlet(np.full(n_states, 0.02)),
    }[kind]
    cmdp = ib.CMDP(
        np.arange(n_states + 1), np.eye(n_states), np.zeros(n_states), (), initial / initial.sum(), discount=0.5
    )
    world = cmdp.simulator().open()
    us = np.array(telling(world.start_cumulative, n_states))
    expected = np.searchsorted(world.start_cumulative, us, side="right")
    assert [draw_start(world, fixed(u)) for u in us] == expected.tolist()


def test_probabilities_of_a_grid_of_draws_are_exact():
    """With probabilities k / 16 the 16 midpoints of [0, 1) hit every next state exactly k times."""
    counts = np.array([[3, 0, 5, 8], [16, 0, 0, 0], [0, 1, 0, 15], [4, 4, 4, 4]])
    cmdp = ib.CMDP(np.arange(5), counts / 16, np.zeros(4), (), counts[0] / 16, discount=0.5)
    world = cmdp.simulator().open()
    grid = (np.arange(16) + 0.5) / 16
    for pair in range(4):
        drawn = np.bincount([draw_next(world, pair, fixed(u)) for u in grid], minlength=4)
        assert drawn.tolist() == counts[pair].tolist()
    assert np.bincount([draw_start(world, fixed(u)) for u in grid], minlength=4).tolist() == counts[0].tolist()


def test_long_rows_are_searched_like_short_ones():
    cmdp = ib.zoo.garnet(states=60, actions=1, successors=40, constraints=0, seed=2)
    world = cmdp.simulator().open()
    for pair in range(5):
        first, last = world.row_starts[pair], world.row_starts[pair + 1]
        cumulative = world.cumulative[first:last]
        for u in telling(cumulative):
            assert draw_next(world, pair, fixed(u)) == world.successors[first + naive.invert(cumulative, u)]


@compiled
def draw_through(world, n_pairs, rng, drawn):
    for pair in range(n_pairs):
        drawn[pair, 0], drawn[pair, 1] = draw_next(world, pair, rng), draw_start(world, rng)


def test_compiled_draws_equal_interpreted_ones():
    cmdp = ib.zoo.garnet(states=30, actions=2, successors=20, seed=1)
    world, drawn, slow = cmdp.simulator().open(), np.zeros((cmdp.n_pairs, 2), dtype=np.int64), np.random.default_rng(7)
    draw_through(world, cmdp.n_pairs, np.random.default_rng(7), drawn)
    assert drawn.tolist() == [[draw_next(world, pair, slow), draw_start(world, slow)] for pair in range(cmdp.n_pairs)]


def test_a_probability_too_small_to_matter_is_harmless():
    cmdp = ib.CMDP([0, 1, 2, 3], [[1.0 - 1e-18, 1e-18, 0.0]] * 3, [0.0] * 3, (), [0.5, 0.5, 0.0], discount=0.5)
    world = cmdp.simulator().open()
    assert draw_next(world, 0, fixed(LAST)) in (0, 1)
    assert draw_start(world, fixed(LAST)) == 1


# Scaling


@given(strategies.cmdps())
def test_tabular_rewards_and_margins_are_scaled_without_shifting_margins(cmdp):
    simulator = cmdp.simulator()
    world, scaling = simulator.open(), simulator.scaling
    assert np.all((world.reward >= 0.0) & (world.reward <= 1.0))
    assert np.all(np.abs(world.margins) <= 1.0)
    assert world.margins.shape == (cmdp.n_pairs, cmdp.n_constraints)
    assert np.allclose(scaling.reward_low + scaling.reward_span * world.reward, cmdp.reward, atol=1e-12)
    assert np.allclose(scaling.margin_scales[:, None] * world.margins.T, cmdp.margins, atol=1e-12)
    if cmdp.reward.min() < cmdp.reward.max():
        assert (world.reward.min(), world.reward.max()) == (0.0, 1.0)
    assert np.array_equal(scaling.margin_scales, cmdp.margin_scales)
    for array in world:
        assert not array.flags.writeable


@given(strategies.cmdps())
def test_without_scaling_learners_see_the_numbers_of_the_model(cmdp):
    simulator = cmdp.simulator(scale=False)
    world, scaling = simulator.open(), simulator.scaling
    assert np.array_equal(world.reward, cmdp.reward) and np.array_equal(world.margins, cmdp.margins.T)
    assert (scaling.reward_low, scaling.reward_span) == (0.0, 1.0)
    assert scaling.margin_scales.tolist() == [1.0] * cmdp.n_constraints
    assert simulator.reward_range.tolist() == [cmdp.reward.min(), cmdp.reward.max()]
    assert np.array_equal(simulator.margin_ranges, np.stack([cmdp.margins.min(axis=1), cmdp.margins.max(axis=1)], 1))
    for array in world:
        assert not array.flags.writeable


@given(strategies.cmdps())
def test_the_scaled_twin_is_the_simulator_that_scales(cmdp):
    scaled, twin = cmdp.simulator(), cmdp.simulator(scale=False).scaled
    for ours, theirs in zip(scaled.open(), twin.open(), strict=True):
        assert np.array_equal(ours, theirs) and ours.dtype == theirs.dtype
    assert np.array_equal(scaled.reward_range, twin.reward_range)
    assert np.array_equal(scaled.margin_ranges, twin.margin_ranges)
    assert scaled.scaled is scaled and twin.scaled is twin
    assert scaled.beyond_the_theory == ""


def in_the_ranges(scale):
    """Rewards from 0 to 1, margins from -1 to 1, and both ends attained: there is nothing to scale."""
    cmdp = ib.CMDP.from_dense(
        [[[0.5, 0.5], [0.9, 0.1]], [[0.3, 0.7], [0.0, 1.0]]],
        reward=[[0.0, 1.0], [0.3, 0.7]],
        constraints=[ib.Constraint([[1.0, -1.0], [0.2, 0.1]], at_least=0.0)],
        initial=[0.5, 0.5],
        discount=0.8,
    )
    return cmdp.simulator(scale)


@pytest.mark.parametrize("settings", [ib.CSPDA(slater=0.2), ib.CRPO.practical(), ib.ModelBased.practical()])
def test_where_nothing_has_to_be_scaled_nothing_changes(settings):
    runs = [ib.learn(in_the_ranges(scale), settings, samples=2_000, seed=3) for scale in (True, False)]
    assert np.array_equal(runs[0].policy.probabilities, runs[1].policy.probabilities)
    assert np.array_equal(runs[0].prices, runs[1].prices, equal_nan=True)
    assert runs[0].guarantee == runs[1].guarantee


def test_ranges_beyond_those_of_the_theory_are_named():
    queue = ib.zoo.queue()
    assert queue.simulator().beyond_the_theory == in_the_ranges(False).beyond_the_theory == ""
    assert queue.simulator(scale=False).beyond_the_theory == (
        "rewards in [0, 5], not in [0, 1]; margins of 'service' in [-5, 1], not in [-1, 1]; "
        "margins of 'flow' in [-1.68, 0.48], not in [-1, 1]"
    )
    # Constant rewards, and signals equal to their bound, are where they are: no span is invented for them.
    still = ib.CMDP([0, 1], [[1.0]], [0.5], (ib.Constraint([7.0], at_most=7.0),), [1.0], discount=0.5)
    assert still.simulator(scale=False).beyond_the_theory == ""
    assert queue.tightened(0.5).simulator(scale=False).margin_ranges[0].tolist() == [-5.5, 0.5]


def test_scaling_is_on_or_off():
    with pytest.raises(ib.InvalidInput, match="scale must be True or False, found 'none'"):
        ib.zoo.queue().simulator(scale="none")


def test_scaling_of_constant_rewards_and_margins():
    scaling = Scaling.from_ranges(3.0, 3.0, [0.0, 2.0], ib.zoo.queue().constraints)
    assert (scaling.reward_low, scaling.reward_span, scaling.margin_scales.tolist()) == (3.0, 1.0, [1.0, 2.0])


def test_prices_come_back_in_the_users_units():
    """L = (low + span r) + u m with m = scale m', u = span u' / scale, is low + span (r + u' m')."""
    scaling = Scaling.from_ranges(-1.0, 4.0, [2.0, 10.0], ib.zoo.queue().constraints)
    assert scaling.prices_in_user_units(np.array([1.0, 1.0])).tolist() == [2.5, 0.5]


def test_a_simulator_hides_the_signals():
    cmdp = reference.two_rooms().cmdp
    assert [constraint.signal for constraint in cmdp.simulator().constraints] == [None]
    assert repr(cmdp.simulator()) == "Simulator(2 states, 4 pairs, 1 constraint, discount 0.5)"
    assert (
        repr(cmdp.simulator(scale=False)) == "Simulator(2 states, 4 pairs, 1 constraint, discount 0.5, units as given)"
    )


# A user's own step function


def user_simulator(cmdp, scale=True):
    """The model behind a step function that uses the generator as the tabular draws do: one number a draw."""
    pairs, dense = cmdp.pairs, cmdp.transition.toarray()
    number = {(pairs.state_label(s), pairs.action_label(p)): p for p, s in enumerate(pairs.states)}
    states = [pairs.state_label(s) for s in range(cmdp.n_states)]

    def inverted(probabilities, rng):
        possible = np.flatnonzero(probabilities)
        cumulative = np.cumsum(probabilities[possible])
        cumulative[-1] = 1.0
        return states[possible[np.searchsorted(cumulative, rng.random(), side="right")]]

    def step(state, action, rng):
        pair = number[state, action]
        signals = [constraint.signal[pair] for constraint in cmdp.constraints]
        return inverted(dense[pair], rng), cmdp.reward[pair], signals

    def actions(state):
        return [action for known, action in number if known == state]

    return ib.Simulator(
        step,
        lambda rng: inverted(cmdp.initial, rng),
        states=states,
        actions=actions,
        discount=cmdp.discount,
        reward_range=(cmdp.reward.min(), cmdp.reward.max()),
        constraints=[ib.Constraint(at_least=c.at_least, at_most=c.at_most, name=c.name) for c in cmdp.constraints],
        signal_ranges=[(c.signal.min(), c.signal.max()) for c in cmdp.constraints],
        scale=scale,
    )


def test_a_step_function_and_the_table_learn_the_same_bits_in_the_users_units():
    queue, settings = ib.zoo.queue(), ib.CSPDA(slater=0.2)
    table, users = queue.simulator(scale=False), user_simulator(queue, scale=False)
    assert users.beyond_the_theory == table.beyond_the_theory
    runs = [ib.learn(one, settings, samples=600, seed=4) for one in (table, users)]
    assert runs[0].policy.by_label() == runs[1].policy.by_label()
    assert np.array_equal(runs[0].prices, runs[1].prices)
    scaled = ib.learn(queue.simulator(), settings, samples=600, seed=4)
    assert not np.array_equal(scaled.policy.probabilities, runs[0].policy.probabilities)


@pytest.mark.parametrize("problem", [ib.zoo.queue, reference.two_rooms, reference.no_constraints, "ragged"])
@pytest.mark.parametrize("settings", [ib.CSPDA(slater=0.2), ib.CSPDA.practical(slater=0.2), ib.CSPDA()])
def test_a_step_function_and_the_table_learn_the_same_bits(problem, settings):
    if problem == "ragged":
        cmdp = ib.build(
            {"x": 0.25, "y": 0.75},
            lambda state: ["l", "r"] if state == "x" else ["r", "m", "l"],
            lambda state, action: {"x": 0.5, "y": 0.5} if action != "m" else {"z": 0.125, "y": 0.875},
            reward=lambda state, action: ord(state) + 2.0 * ord(action),
            constraints=[ib.Constraint(lambda s, a: -3.0 if a == "m" else 1.0, at_least=-1.0)],
            discount=0.75,
        )
    else:
        made = problem()
        cmdp = made.cmdp if isinstance(made, reference.Solved) else made
    table = ib.learn(cmdp.simulator(), settings, samples=600, seed=4, checkpoints=[250])
    users = ib.learn(user_simulator(cmdp), settings, samples=600, seed=4, checkpoints=[250])
    assert table.samples.tolist() == users.samples.tolist()
    assert np.array_equal(table.prices, users.prices)
    for ours, theirs in zip(table.policies, users.policies, strict=True):
        assert ours.by_label() == theirs.by_label()


def simulator(**changes):
    """Two states, two actions, one constraint; `changes` replace what a test is about."""
    arguments = {
        "step": lambda state, action, rng: ("on", 0.5, [0.25]),
        "start": lambda rng: "off",
        "states": ["off", "on"],
        "actions": ["press", "wait"],
        "discount": 0.5,
        "reward_range": (0.0, 1.0),
        "constraints": [ib.Constraint(at_most=0.5, name="heat")],
        "signal_ranges": [(0.0, 2.0)],
        **changes,
    }
    return ib.Simulator(arguments.pop("step"), arguments.pop("start"), **arguments)


def observed(**changes):
    """One draw of pair 1: state "off", action "wait". (next state, scaled reward, scaled margins)"""
    world = simulator(**changes).open()
    after = draw_next(world, 1, np.random.default_rng(0))
    return after, world.reward[1], world.margins[1].tolist()


def test_what_a_step_reports_is_scaled():
    """Reward range (-1, 3): 0.5 is 1.5 of 4. The margin 0.5 - 0.25 over its largest absolute value, |0.5 - 2| = 1.5."""
    assert observed(reward_range=(-1.0, 3.0)) == (1, 0.375, [0.25 / 1.5])
    floor = [ib.Constraint(at_least=0.5, name="heat")]
    assert observed(constraints=floor) == (1, 0.5, [-0.25 / 1.5])
    assert observed(reward_range=(-1.0, 3.0), scale=False) == (1, 0.5, [0.25])


def test_every_run_has_buffers_of_its_own():
    shared = simulator()
    first, second = shared.open(), shared.open()
    assert first.reward is not second.reward
    assert np.all(np.isnan(first.reward))


def test_states_may_be_given_by_their_number():
    for number in (3, np.int64(3)):
        assert simulator(states=number, start=lambda rng: 0).pairs.n_states == 3


def test_states_may_have_different_actions():
    made = simulator(actions=lambda state: ["press", "wait"] if state == "off" else ["wait"])
    assert made.pairs.offsets.tolist() == [0, 2, 3]
    assert made.pairs.describe(2) == "state 'on', action 'wait'"


STEP = r"step\('off', 'wait', rng\)"


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda s, a, r: ("away", 0.5, [0.25]), f"{STEP} gave the state 'away', which is not one of `states`"),
        (lambda s, a, r: (["on"], 0.5, [0.25]), rf"{STEP} gave the state \['on'\], which is not one of `states`"),
        (lambda s, a, r: ("on", 1.5, [0.25]), rf"{STEP} gave the reward 1.5, outside reward_range \(0, 1\)"),
        (lambda s, a, r: ("on", math.nan, [0.25]), rf"{STEP} gave the reward nan, outside reward_range"),
        (
            lambda s, a, r: ("on", 0.5, [2.5]),
            rf"{STEP} gave for 'heat' the signal 2.5, outside its signal range \(0, 2\)",
        ),
        (lambda s, a, r: ("on", 0.5, [math.nan]), f"{STEP} gave for 'heat' the signal nan"),
        (lambda s, a, r: ("on", 0.5, []), f"{STEP} gave 0 signals for 1 constraints"),
        (lambda s, a, r: ("on", 0.5, [0.1, 0.2]), f"{STEP} gave 2 signals for 1 constraints"),
        (lambda s, a, r: ("on", 0.5), rf"{STEP} must return \(next_state, reward, signals\)"),
        (lambda s, a, r: None, rf"{STEP} must return \(next_state, reward, signals\)"),
        (lambda s, a, r: ("on", "much", [0.25]), rf"{STEP} must return \(next_state, reward, signals\)"),
        (lambda s, a, r: ("on", 0.5, 0.25), rf"{STEP} must return \(next_state, reward, signals\)"),
        (lambda s, a, r: ("on", 0.5, ["hot"]), rf"{STEP} must return \(next_state, reward, signals\)"),
        (lambda s, a, r: ("on", 10**400, [0.25]), rf"{STEP} must .*: the reward is too large for a double, found 1000"),
        (lambda s, a, r: ("on", 0.5, [10**400]), rf"{STEP} must .*: a signal is too large for a double, found 1000"),
        (lambda s, a, r: ("on", 0.5, {0.25: "heat"}), rf"{STEP} must .*: the signals must be a list"),
        (lambda s, a, r: ("on", 0.5, {0.25}), rf"{STEP} must .*: the signals must be a list"),
        (lambda s, a, r: ("on", 0.5, "1"), rf"{STEP} must .*: the signals must be a list, .* found '1'"),
        (lambda s, a, r: ("on", 0.5, b"1"), rf"{STEP} must .*: the signals must be a list"),
        (lambda s, a, r: ("on", 0.5, None), rf"{STEP} must .*: the signals must be a list"),
        (lambda s, a, r: ("on", 0.5, np.array(0.25)), rf"{STEP} must .*: the signals must be a list"),
        (lambda s, a, r: ("on", 0.5, ["0.25"]), rf"{STEP} must .*: a signal must be a number, found '0.25'"),
        (lambda s, a, r: ("on", "0.5", [0.25]), rf"{STEP} must .*: the reward must be a number, found '0.5'"),
        (lambda s, a, r: ("on", None, [0.25]), rf"{STEP} must .*: the reward must be a number, found None"),
        (lambda s, a, r: ("on", 0.5 + 0j, [0.25]), rf"{STEP} must .*: the reward must be a number"),
        (lambda s, a, r: ("on", np.complex128(0.5), [0.25]), rf"{STEP} must .*: the reward must be a number"),
        (lambda s, a, r: ("on", np.array([0.5]), [0.25]), rf"{STEP} must .*: the reward must be a number"),
        (lambda s, a, r: ("on", 0.5, np.array([[0.25]])), rf"{STEP} must .*: a signal must be a number"),
        (lambda s, a, r: ("on", 0.5, [[0.25]]), rf"{STEP} must .*: a signal must be a number"),
        (lambda s, a, r: ("on", 0.5, np.array([0.1, 0.2])), f"{STEP} gave 2 signals for 1 constraints"),
        (lambda s, a, r: ("on", -math.inf, [0.25]), f"{STEP} gave the reward -inf, outside reward_range"),
        (lambda s, a, r: "on!", rf"{STEP} must return \(next_state, reward, signals\), found 'on!'"),
        (lambda s, a, r: {"on": 0, 0.5: 0, "c": 0}, rf"{STEP} must return \(next_state, reward, signals\)"),
        (lambda s, a, r: (x for x in ("on", 0.5, [0.25])), rf"{STEP} must return \(next_state, reward, signals\)"),
        (lambda s, a, r: (np.array([1, 2]), 0.5, [0.25]), f"{STEP} gave the state .*, which is not one of `states`"),
        (lambda s, a, r: (None, 0.5, [0.25]), f"{STEP} gave the state None, which is not one of `states`"),
        (lambda s, a, r: (math.nan, 0.5, [0.25]), f"{STEP} gave the state nan, which is not one of `states`"),
    ],
)
def test_wrong_reports_are_refused(step, message):
    with pytest.raises(ib.InvalidInput, match=message):
        observed(step=step)


@pytest.mark.parametrize(
    "outcome",
    [
        ["on", 0.5, (0.25,)],
        ("on", np.float32(0.5), np.array([0.25])),
        ("on", np.array(0.5), [np.array(0.25)]),
        ("on", Fraction(1, 2), [Fraction(1, 4)]),
        (np.str_("on"), 0.5, range(1)),
        ("on", True, [False]),
        ("on", np.True_, [1]),
    ],
)
def test_whatever_is_a_number_is_accepted(outcome):
    after, reward, [margin] = observed(step=lambda s, a, r: outcome)
    assert (after, reward) == (1, float(outcome[1])) and margin == (0.5 - float(next(iter(outcome[2])))) / 1.5


@pytest.mark.parametrize("start", [None, ["off"], 10**400, (s for s in "off"), np.array([0]), math.nan, 0, True])
def test_a_start_of_any_other_kind_is_refused(start):
    world = simulator(start=lambda rng: start).open()
    with pytest.raises(ib.InvalidInput, match=r"start\(rng\) gave the state .*, which is not one of `states`"):
        draw_start(world, np.random.default_rng(0))


def test_a_generator_of_actions_serves_every_state():
    assert simulator(actions=(action for action in ("press", "wait"))).pairs.n_pairs == 4


def test_an_error_inside_the_step_function_is_the_users_own():
    with pytest.raises(ValueError, match="invalid literal") as raised:
        observed(step=lambda s, a, r: int("nonsense"))
    assert not isinstance(raised.value, ib.InvalidInput)


def test_a_start_that_is_no_state_is_refused():
    world = simulator(start=lambda rng: "away").open()
    with pytest.raises(ib.InvalidInput, match=r"start\(rng\) gave the state 'away', which is not one of `states`"):
        draw_start(world, np.random.default_rng(0))


@given(st.floats(0.0, 1.0))
def test_everything_within_the_ranges_is_accepted(share):
    after, reward, [margin] = observed(step=lambda s, a, r: ("off", share, [2.0 * share]))
    assert after == 0
    assert reward == share
    assert -1.0 <= margin <= 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step": 3}, "step must be a function, .*, found 3"),
        ({"start": "off"}, "start must be a function, .*, found 'off'"),
        ({"states": []}, "states must name at least one state"),
        ({"states": 0}, "states must name at least one state"),
        ({"states": None}, "states must be a list of states or their number, found None"),
        ({"states": ["on", "on"]}, "states must be distinct, but 'on' occurs twice"),
        ({"states": [["on"]]}, r"states must be hashable, found \['on'\]"),
        ({"actions": []}, "state 'off' has no actions"),
        ({"actions": None}, "actions must list the actions of the state, found None"),
        ({"actions": lambda s: ["wait"] if s == "off" else []}, "state 'on' has no actions"),
        ({"actions": lambda s: None}, r"actions\('off'\) must list the actions of the state, found None"),
        ({"actions": "wait"}, "actions must list the actions of the state, found 'wait'"),
        ({"actions": lambda s: "wait"}, r"actions\('off'\) must list the actions of the state, found 'wait'"),
        ({"actions": lambda s: 10**400}, r"actions\('off'\) must list the actions of the state"),
        ({"actions": lambda s: np.zeros((2, 2))}, r"state 'off', action array.*: actions must be hashable"),
        ({"reward_range": (0, 10**400)}, "reward_range must be"),
        ({"actions": ["wait", "wait"]}, "state 'off' lists action 'wait' twice"),
        ({"actions": [["wait"]]}, r"state 'off', action \['wait'\]: actions must be hashable"),
        ({"discount": 1.0}, r"discount must be in \[0, 1\), found 1.0"),
        (
            {"reward_range": (1.0, 0.0)},
            r"reward_range must be two finite numbers, the lowest first, found \(1.0, 0.0\)",
        ),
        ({"reward_range": (0.0, math.inf)}, "reward_range must be two finite numbers"),
        ({"reward_range": (math.nan, 1.0)}, "reward_range must be two finite numbers"),
        ({"reward_range": 1.0}, r"reward_range must be \(lowest, highest\), found 1.0"),
        ({"reward_range": (0.0, 0.5, 1.0)}, r"reward_range must be \(lowest, highest\)"),
        ({"signal_ranges": []}, "signal_ranges must give .* each of the 1 constraints, found 0"),
        ({"signal_ranges": [(2.0, 0.0)]}, "the signal range of constraint 'heat' must be two finite numbers"),
        ({"constraints": ["heat"]}, "constraints must be ib.Constraint records, found str"),
    ],
)
def test_wrong_simulators_are_refused(changes, message):
    with pytest.raises(ib.InvalidInput, match=message):
        simulator(**changes)


def test_learners_take_simulators_only():
    with pytest.raises(ib.InvalidInput, match="learners see a simulator only"):
        ib.learn(reference.two_rooms().cmdp, ib.CSPDA(), samples=10)


def test_the_criterion_of_a_simulator():
    simulator = reference.two_rooms().cmdp.simulator()
    assert simulator.criterion == {"discount": 0.5}
    require_criterion(simulator, "discounted", "this")
    with pytest.raises(
        ib.InvalidInput, match=r"this is for average-reward problems, .* discounted: Simulator\(2 states"
    ):
        require_criterion(simulator, "average-reward", "this")


@pytest.mark.parametrize("criterion", [{"horizon": 12}, {"average": True}])
@pytest.mark.parametrize(
    "ask",
    [
        lambda simulator: ib.learn(simulator, ib.CSPDA(), samples=100),
        lambda simulator: ib.learn_certified(simulator, samples=100),
        lambda simulator: ib.certify(ib.Policy.uniform(simulator), simulator, samples=100),
    ],
    ids=["CSPDA", "learn_certified", "certify"],
)
def test_other_criteria_are_refused_by_name(ask, criterion, request):
    simulator = dataclasses.replace(reference.two_rooms().cmdp, discount=None, **criterion).simulator()
    assert simulator.criterion == criterion
    who, kind = request.node.callspec.id.split("-")[0], {"horizon": "finite-horizon", "average": "average-reward"}
    message = rf"{who} is for discounted problems, and this one is {kind[next(iter(criterion))]}: Simulator\(2 states"
    with pytest.raises(ib.InvalidInput, match=message):
        ask(simulator)


# Finite horizons


def staged_problem(seed: int, staged: tuple[str, ...]) -> ib.CMDP:
    rng = np.random.default_rng(seed)
    stages = {name: (4,) if name in staged else () for name in ("transition", "reward", "signal")}
    return ib.CMDP.from_dense(
        rng.dirichlet(np.ones(3), size=(*stages["transition"], 3, 2)),
        reward=rng.normal(size=(*stages["reward"], 3, 2)),
        constraints=[ib.Constraint(rng.normal(size=(*stages["signal"], 3, 2)), at_most=0.3, name="limit")],
        initial=rng.dirichlet(np.ones(3)),
        horizon=4,
        allowed=np.array([[True, True], [True, True], [True, False]]),
    )


def episodes(simulator: ib.Simulator, policy: ib.Policy, number: int, seed: int) -> np.ndarray:
    """The sums of reward and margins of so many episodes, in the user's units."""
    world, rng, scaling = simulator.open(), np.random.default_rng(seed), simulator.scaling
    run, totals, found = fitted(draw_episode, world), np.empty(1 + simulator.n_constraints), []
    for _ in range(number):
        run(world, policy.probabilities.ravel(), rng, totals)
        reward = simulator.layers * scaling.reward_low + scaling.reward_span * totals[0]
        found.append([reward, *(totals[1:] * scaling.margin_scales)])
    return np.array(found)


@pytest.mark.parametrize("staged", [(), ("transition",), ("reward",), ("signal",), ("transition", "reward", "signal")])
def test_episodes_of_a_model_have_the_values_of_its_policies(staged: tuple[str, ...]) -> None:
    for seed in range(2):
        problem = staged_problem(seed, staged)
        policy = ib.Policy.from_occupancy(problem, np.random.default_rng(seed).exponential(size=problem.shape))
        truth, sums = ib.evaluate(problem, policy), episodes(problem.simulator(), policy, 20_000, seed)
        errors = sums.std(axis=0) / np.sqrt(len(sums))
        # Five standard errors: one of the twenty comparisons fails with a probability of about 1e-5.
        assert np.all(np.abs(sums.mean(axis=0) - [truth.reward, *truth.margins]) <= 5.0 * errors + 1e-12)


@pytest.mark.parametrize("staged", [(), ("transition",), ("reward",), ("signal",), ("transition", "reward", "signal")])
def test_what_is_alike_at_every_stage_is_so_in_a_file_and_in_another_process(staged: tuple[str, ...], tmp_path) -> None:
    """Learners pool what is: the same seed gives the same run, wherever the model comes from."""
    problem = staged_problem(0, staged)
    problem.save(tmp_path / "model.npz")
    for other in (pickle.loads(pickle.dumps(problem)), ib.load(tmp_path / "model.npz")):
        assert np.array_equal(other.simulator().open().stages, problem.simulator().open().stages)
        runs = [ib.learn(one.simulator(), ib.OptCMDP.practical(), samples=400, seed=1) for one in (problem, other)]
        assert runs[0].policy == runs[1].policy


def test_stages_are_alike_by_their_numbers_however_they_were_given(tmp_path) -> None:
    once, rng = staged_problem(0, ()), np.random.default_rng(1)
    apart = dataclasses.replace(once, transition=tuple(moves.copy() for moves in once.transition))
    apart.save(tmp_path / "model.npz")
    for other in (apart, pickle.loads(pickle.dumps(apart)), ib.load(tmp_path / "model.npz")):
        assert other == once and len({id(moves) for moves in other.transition}) == 1
        runs = [ib.learn(one.simulator(), ib.OptCMDP.practical(), samples=400, seed=1) for one in (once, other)]
        assert runs[0].policy == runs[1].policy
    first, second = (rng.dirichlet(np.ones(2), size=(2, 2)) for _ in range(2))
    model = ib.CMDP.from_dense(
        np.array([first, second, second, first]), reward=np.zeros((2, 2)), initial=[1.0, 0.0], horizon=4
    )
    numbers = [id(moves) for moves in model.transition]
    assert numbers[0] == numbers[3] != numbers[1] == numbers[2]


def test_a_simulator_of_a_horizon_says_what_it_is() -> None:
    problem = staged_problem(0, ("reward",))
    simulator = problem.simulator()
    assert simulator.criterion == {"horizon": 4} and simulator.shape == problem.shape == (4, 5)
    assert simulator.open().stages.tolist() == [4, 0, 5]
    assert repr(simulator).endswith("horizon 4)")
    assert ib.Policy.uniform(simulator).probabilities.shape == (4, 5)
    with pytest.raises(ib.InvalidInput, match="CSPDA is for discounted problems, and this one is finite-horizon"):
        ib.learn(simulator, ib.CSPDA(), samples=100)


def test_a_user_s_step_function_over_a_horizon_gives_the_episodes_of_the_table() -> None:
    problem = staged_problem(3, ())
    pairs, rows, starts = problem.pairs, np.cumsum(problem.transition[0].toarray(), axis=1), np.cumsum(problem.initial)
    number = {(int(s), int(a)): k for k, (s, a) in enumerate(zip(pairs.states, pairs.actions, strict=True))}
    reward, signal = problem.reward[0], problem.constraints[0].signal[0]

    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float, list[float]]:
        k = number[state, action]
        return int(np.searchsorted(rows[k], rng.random(), side="right")), reward[k], [signal[k]]

    asked = ib.Simulator(
        step,
        start=lambda rng: int(np.searchsorted(starts, rng.random(), side="right")),
        states=3,
        actions=lambda state: [0, 1] if state < 2 else [0],
        horizon=4,
        reward_range=(reward.min(), reward.max()),
        constraints=[ib.Constraint(at_most=0.3, name="limit")],
        signal_ranges=[(signal.min(), signal.max())],
    )
    policy = ib.Policy.uniform(problem)
    assert np.array_equal(episodes(asked, policy, 50, 1), episodes(problem.simulator(), policy, 50, 1))


def test_an_error_in_a_step_a_start_or_actions_says_where() -> None:
    def fails(*arguments):
        raise RuntimeError("sensor")

    common = {"states": ["a"], "actions": ["x"], "discount": 0.5, "reward_range": (0, 1)}
    for more in ({}, {"jobs": 1}):
        with pytest.raises(RuntimeError, match="sensor") as error:
            ib.learn(ib.Simulator(fails, lambda rng: "a", **common, **more), ib.CRPO.practical(), samples=100)
        assert "in step, at step('a', 'x', rng)" in error.value.__notes__
    with pytest.raises(RuntimeError, match="sensor") as error:
        ib.simulate(
            ib.Simulator(lambda s, a, rng: (s, 0.0, []), fails, **common),
            ib.Policy.from_rule(ib.Simulator(fails, fails, **common), {"a": "x"}),
        )
    assert error.value.__notes__ == ["in start(rng)"]
    with pytest.raises(RuntimeError, match="sensor") as error:
        ib.Simulator(fails, fails, **common | {"actions": fails})
    assert error.value.__notes__ == ["in actions, at state 'a'"]
    with pytest.raises(ib.InvalidInput, match="the problem must be a CMDP or a Simulator, found str"):
        ib.Policy.from_rule("x", {})
    with pytest.raises(ib.InvalidInput, match=r"x\.zzz: a picture is a file \.png, \.svg or \.pdf"):
        ib.Policy.uniform(ib.zoo.queue()).plot("x.zzz")


def simulator_of(step=lambda state, action, rng: (state, 0.0, [0.0]), **changes):
    given = {
        "start": lambda rng: 0,
        "states": 2,
        "actions": ["a", "b"],
        "discount": 0.5,
        "reward_range": (0, 1),
        "constraints": [ib.Constraint(at_most=1.0, name="c")],
        "signal_ranges": [(0, 1)],
    }
    return ib.Simulator(step, **given | changes)


@pytest.mark.parametrize(
    ("step", "changes", "message"),
    [
        (
            lambda state, action: (state, 0.0, [0.0]),
            {},
            r"called as step\(state, action, rng\), found .* \(state, action\)",
        ),
        (lambda *_: (0, 0.0, [0.0]), {"start": lambda: 0}, r"start must be a function that is called as start\(rng\)"),
        (lambda *_: (0, 0.0, [0.0]), {"start": 0}, r"start must be a function, start\(rng\), found 0"),
        (
            lambda *_: (0, 0.0, [0.0]),
            {"actions": lambda: "ab"},
            r"called as actions\(state\), found one that takes \(\)",
        ),
        (lambda *_: (0, 0.0, [0.0]), {"signal_ranges": None}, "for each of the 1 constraints, found None"),
        (
            lambda *_: (0, 0.0, [0.0]),
            {"constraints": [ib.Constraint([1.0, 2.0], at_most=1.0, name="c")]},
            "'c' has a signal of its own, and a simulator's step reports it",
        ),
    ],
)
def test_what_a_simulator_is_made_of_is_refused_by_name(step, changes, message):
    with pytest.raises(ib.InvalidInput, match=message):
        simulator_of(step, **changes)


def test_a_wrong_vectorised_flag_is_said():
    learn = partial(ib.learn, algorithm=ib.CRPO.practical(), samples=20, seed=0)
    with pytest.raises(ib.InvalidInput, match=r"found 1, no list, 1 .* leave vectorised=True out"):
        learn(simulator_of(vectorised=True))
    with pytest.raises(TypeError) as caught:
        learn(simulator_of(lambda states, actions, rng: (list(states), [0.0 for _ in states], [[0.0] for _ in states])))
    assert "one that takes lists needs vectorised=True" in caught.value.__notes__[-1]


def test_an_online_learner_needs_no_simulator_that_can_be_set() -> None:
    """It begins anew or goes on from where it is: so the README says."""
    asked: list[tuple[int, int]] = []  # the state that is given, and the one that the simulator is in
    at = [0]

    def start(rng: np.random.Generator) -> int:
        at[0] = 0
        return 0

    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float, list[float]]:
        asked.append((state, at[0]))
        at[0] = int(rng.random() < 0.5)
        return at[0], float(action), [float(at[0])]

    simulator = ib.Simulator(
        step, start, states=2, actions=[0, 1], horizon=5, reward_range=(0, 1), signal_ranges=[(0, 1)],
        constraints=[ib.Constraint(at_most=3.0, name="late")],
    )  # fmt: skip
    ib.learn(simulator, ib.OptCMDP.practical(), samples=100, seed=0)
    assert len(asked) == 100 and all(given == true for given, true in asked)


@pytest.mark.parametrize(
    ("limits", "side", "signal"),
    [
        ((1e6, 1e6 + 1e-7), {"at_least": 1e6}, 1e6 - 9e-7),
        ((-1e6, -1e6 + 1e-9), {"at_most": -1e6 + 1e-9}, -1e6 + 9e-7),
        ((0.3, 0.3), {"at_most": 0.3}, 0.1 + 0.2),
    ],
)
def test_what_is_beyond_a_range_by_rounding_counts_as_its_end(limits, side, signal):
    """Far from zero that may be many times the range. No learner sees a margin beyond, no proof contradicts another."""
    simulator = ib.Simulator(
        lambda state, action, rng: (0, 0.5, [signal]), lambda rng: 0, states=1, actions=[0], discount=0.5,
        reward_range=(0, 1), constraints=[ib.Constraint(**side, name="c")], signal_ranges=[limits],
    )  # fmt: skip
    world = simulator.open()
    world.draw_next(0, np.random.default_rng(0))
    least, largest = simulator.margin_ranges[0]
    assert least <= world.margins[0, 0] <= largest
    proved = ib.certify(ib.Policy.uniform(simulator), simulator, samples=50, seed=0)
    assert proved.in_bounds and ib.learn_certified(simulator, samples=50, seed=0).policy is not None


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_are_read_only_so_that_no_kernel_is_compiled_for_them(copied) -> None:
    """(A model sent to a worker had kernels of its own there, which took minutes.)"""
    for model in (ib.zoo.queue(), ib.zoo.media()):
        simulator = model.simulator()
        for other in (copied(model).simulator(), copied(simulator)):
            assert numba.typeof(other.open()) == numba.typeof(simulator.open())
            assert numba.typeof(other.pairs.states) == numba.typeof(simulator.pairs.states)
        policy, again = copied(ib.Policy.uniform(model)), copied(model)
        moves = again.transition[0] if model.horizon else again.transition
        for array in (policy.probabilities, again.reward, again.constraints[0].signal, again.initial, moves.data):
            with pytest.raises(ValueError, match="read-only"):
                array.flat[0] = 0.5


def test_a_text_is_no_list_of_states_and_a_dict_no_list_of_actions() -> None:
    with pytest.raises(ib.InvalidInput, match="states must be a list of states or their number, found 'ab'"):
        simulator(states="ab")
    with pytest.raises(ib.InvalidInput, match="found a dict: where it has the actions of each state, give"):
        simulator(actions={"off": ["press"], "on": ["wait"]})


class Cell(NamedTuple):
    row: int


@pytest.mark.parametrize(
    ("labels", "step"),
    [
        ([0, 1], lambda states, actions, rng: ([1 - s for s in states], [0.0] * len(states), [[]] * len(states))),
        ([Cell(0), Cell(1)], lambda states, actions, rng: ([Cell(s.row) for s in states], [0.0], [[]])),
        (["a", "b"], lambda states, actions, rng: ([s for s in states], [0.0] * len(states), [[]] * len(states))),
        ([0, 1], lambda states, actions, rng: ([{"x": 1}[a] for a in actions], [0.0], [[]])),
    ],
)
def test_a_step_that_takes_lists_is_told_of_vectorised_however_it_fails(labels, step):
    asked = {"states": labels, "actions": ["go"], "discount": 0.5, "reward_range": (0, 1)}
    world = ib.Simulator(step, lambda rng: labels[0], **asked)
    with pytest.raises(Exception) as raised:
        ib.estimate(world, ib.Policy.uniform(world), samples=10)
    assert any("one that takes lists needs vectorised=True" in note for note in raised.value.__notes__)


def test_a_step_of_one_state_that_is_given_lists_is_told_so():
    asked = {"states": ["a"], "actions": ["go"], "discount": 0.5, "reward_range": (0, 1)}
    world = ib.Simulator(lambda s, a, rng: ({"a": "a"}[s], 0.0, []), lambda rng: "a", vectorised=True, **asked)
    with pytest.raises(TypeError, match="unhashable") as raised:
        ib.estimate(world, ib.Policy.uniform(world), samples=10)
    assert any("with vectorised=True step is given a list of states" in note for note in raised.value.__notes__)


def test_a_step_that_fails_later_is_not_told_how_it_is_called():
    calls = []

    def step(state, action, rng):
        calls.append(state)
        if len(calls) > 5:
            raise KeyError("sensor")
        return 0, 0.0, []

    world = ib.Simulator(step, lambda rng: 0, states=1, actions=["go"], discount=0.5, reward_range=(0, 1))
    with pytest.raises(KeyError) as raised:
        ib.estimate(world, ib.Policy.uniform(world), samples=10)
    assert raised.value.__notes__ == ["in step, at step(0, 'go', rng)"]


def test_only_a_model_has_a_table():
    with pytest.raises(ib.InvalidInput, match=r"Simulator\.tabular takes a known model, a CMDP; found Policy"):
        ib.Simulator.tabular(ib.Policy.uniform(ib.zoo.queue()))
