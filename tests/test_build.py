"""Models from Python rules."""

from __future__ import annotations

import math
from collections import OrderedDict
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import inbounds as ib


class Neither:
    """As the missing value of pandas: whether it is equal to anything has no answer."""

    def __eq__(self, other):
        return self

    def __ne__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value is ambiguous")

    def __hash__(self):
        return 1

    def __repr__(self):
        return "neither"


NEITHER = Neither()


def built(**changes):
    """States "a" -> "b" -> "c", all to "c"; `changes` replace what a test is about."""
    arguments = {
        "start": "a",
        "actions": lambda state: ["go"],
        "transitions": lambda state, action: {{"a": "b", "b": "c", "c": "c"}[state]: 1.0},
        "reward": lambda state, action: 1.0,
        "discount": 0.5,
        **changes,
    }
    return ib.build(**arguments)


def refused(message):
    return pytest.raises(ib.InvalidInput, match=message)


def test_labels_order_and_values():
    """Breadth first: the successors of a state in the order in which its rule gives them, action by action."""

    def transitions(state, action):
        x, y = state
        if action == "right":
            return [((min(x + 1, 1), y), 0.25), (state, 0.75)]
        return {(x, min(y + 1, 1)): 1.0}

    grid = ib.build(
        (0, 0),
        lambda state: ["up"] if state == (1, 0) else ["right", "up"],
        transitions,
        reward=lambda state, action: 10 * state[0] + state[1] + 100 * (action == "up"),
        constraints=[ib.Constraint(lambda state, action: action == "up", at_most=0.5, name="climbs")],
        discount=0.5,
        name="grid",
    )
    assert grid.state_labels == ((0, 0), (1, 0), (0, 1), (1, 1))
    assert grid.action_labels == ("right", "up")
    assert grid.offsets.tolist() == [0, 2, 3, 5, 7]
    assert grid.actions.tolist() == [0, 1, 1, 0, 1, 0, 1]
    assert grid.reward.tolist() == [0, 100, 110, 1, 101, 11, 111]
    assert grid.constraints[0].signal.tolist() == [0, 1, 1, 0, 1, 0, 1]
    assert grid.margins[0].tolist() == [0.5, -0.5, -0.5, 0.5, -0.5, 0.5, -0.5]
    assert grid.initial.tolist() == [1, 0, 0, 0]
    assert grid.transition.toarray().tolist() == [
        [0.75, 0.25, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 0, 1],
        [0, 0, 0.75, 0.25],
        [0, 0, 1, 0],
        [0, 0, 0, 1],
        [0, 0, 0, 1],
    ]
    assert repr(grid) == "CMDP(grid: 4 states, 7 pairs, 1 constraint, discount 0.5)"
    assert ib.Policy.uniform(grid).by_label()[(1, 0)] == {"up": 1.0}


def test_only_what_can_be_reached_is_there():
    assert built(start="b").state_labels == ("b", "c")


def test_what_has_no_chance_to_happen_is_no_state():
    """So a rule may write "one more, with probability 0" at the edge of its states, and the space stays closed."""
    edge = 4
    line = ib.build(
        start=0,
        actions=lambda here: ["go"],
        transitions=lambda here, go: [(here + 1, 0.5 if here < edge else 0.0), (here, 0.5 if here < edge else 1.0)],
        reward=lambda here, go, then: float(then),
        constraints=[],
        discount=0.9,
        max_states=10,
    )
    assert line.state_labels == tuple(range(edge + 1)) and line.transition.nnz == 2 * edge + 1


def test_repeated_successors_are_summed():
    pairs = [("a", 0.25), ("b", 0.5), ("a", 0.25)]
    cmdp = built(transitions=lambda state, action: pairs)
    assert cmdp.state_labels == ("a", "b")
    assert cmdp.transition.toarray().tolist() == [[0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize(
    "outcomes",
    [{"a": 0.5, "b": 0.5}, OrderedDict(a=0.5, b=0.5), [("a", 0.5), ("b", 0.5)], (("a", 0.5), ("b", 0.5))],
)
def test_outcomes_may_be_a_mapping_or_pairs(outcomes):
    cmdp = built(transitions=lambda state, action: outcomes)
    assert cmdp.transition.toarray().tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_outcomes_and_actions_may_be_generators():
    cmdp = built(
        actions=lambda state: (action for action in ("x", "y")),
        transitions=lambda state, action: ((after, 0.5) for after in ("a", "b")),
    )
    assert (cmdp.n_states, cmdp.n_pairs) == (2, 4)


@pytest.mark.parametrize(
    ("start", "states", "initial"),
    [
        ("a", ("a", "b", "c"), [1, 0, 0]),
        ({"b": 0.75, "a": 0.25}, ("b", "a", "c"), [0.75, 0.25, 0]),
        (["c", "a"], ("c", "a", "b"), [0.5, 0.5, 0]),
        ({"a": 1.0, "c": 0.0}, ("a", "c", "b"), [1, 0, 0]),
    ],
)
def test_starts(start, states, initial):
    cmdp = built(start=start)
    assert cmdp.state_labels == states
    assert cmdp.initial.tolist() == initial


def test_a_tuple_is_one_state():
    step = {(0, 0): (1, 0), (1, 0): (1, 0)}
    assert built(start=(0, 0), transitions=lambda s, a: {step[s]: 1.0}).state_labels == ((0, 0), (1, 0))


def test_max_states():
    def line(limit, **changes):
        return built(start=0, transitions=lambda s, a: {min(s + 1, 9): 1.0}, max_states=limit, **changes)

    assert line(10).n_states == 10
    with refused("more than 9 states are reachable; close the state space, or raise max_states"):
        line(9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start": []}, "start names no state"),
        ({"start": {}}, "start names no state"),
        ({"start": {"a", "b"}}, "the start state .* must be hashable"),
        ({"start": [["a"]]}, r"the start state \['a'\] must be hashable"),
        ({"start": ["a", "a"]}, "start lists state 'a' twice"),
        ({"start": {"a": 0.5, "b": 0.6}}, "the probabilities of start must sum to 1, found 1.1"),
        ({"start": {"a": 1.5, "b": -0.5}}, "start gives state 'b' the probability -0.5"),
        ({"start": {"a": math.nan}}, "start gives state 'a' the probability nan"),
        ({"start": {"a": 1e308, "b": 1e308}}, "the probabilities of start must sum to 1, found inf"),
        ({"start": {"a": 10**400}}, "start: the probability of state 'a' is too large for a double, found 1000"),
        ({"reward": lambda s, a: 10**400}, "state 'a', action 'go': the reward is too large for a double, found 1000"),
        ({"reward": lambda s, a: Fraction(10**400)}, "the reward is too large for a double, found Fraction"),
        (
            {"constraints": [ib.Constraint(lambda s, a: -(10**400), at_most=1.0, name="noise")]},
            "state 'a', action 'go': the signal of constraint 'noise' is too large for a double",
        ),
        ({"time_limit": 10**400}, "time_limit is too large for a double"),
        ({"start": {"a": "all"}}, "start: the probability of state 'a' must be a number, found 'all'"),
        ({"actions": lambda state: [] if state == "b" else ["go"]}, "state 'b' has no actions"),
        ({"actions": lambda state: None}, r"actions\('a'\) must list the actions of the state, found None"),
        ({"actions": lambda state: [["go"]]}, r"state 'a', action \['go'\]: actions must be hashable"),
        ({"actions": lambda state: ["go", "go"]}, "state 'a' lists action 'go' twice"),
        ({"transitions": lambda s, a: None}, "state 'a', action 'go': transitions must give .* found None"),
        ({"transitions": lambda s, a: "b"}, "state 'a', action 'go': transitions must give .* found 'b'"),
        ({"transitions": lambda s, a: ["b"]}, "state 'a', action 'go': transitions must give"),
        ({"transitions": lambda s, a: [(["b"], 1.0)]}, r"state 'a', action 'go': next state \['b'\] must be hashable"),
        (
            {"transitions": lambda s, a: {"a": "sure"}},
            "state 'a', action 'go': a probability must be a number, found 'sure'",
        ),
        ({"transitions": lambda s, a: {"a": 0.9}}, "state 'a', action 'go': the probabilities .* sum to 0.9"),
        ({"transitions": lambda s, a: {}}, "state 'a', action 'go': the probabilities .* sum to 0;"),
        ({"transitions": lambda s, a: {"a": 1.5, "b": -0.5}}, "state 'a', action 'go': .* moving to state 'b' is -0.5"),
        ({"transitions": lambda s, a: [(math.nan, 1.0)]}, "next state nan is not equal to itself"),
        ({"transitions": lambda s, a: [(NEITHER, 1.0)]}, "next state neither is not equal to itself"),
        ({"actions": lambda state: [math.nan]}, "state 'a': action nan is not equal to itself"),
        ({"start": ("a", math.nan)}, r"the start state \('a', nan\) is not equal to itself"),
        ({"transitions": lambda s, a: {"a": math.nan}}, "state 'a', action 'go': .* moving to state 'a' is nan"),
        ({"reward": lambda s, a: None}, "state 'a', action 'go': the reward must be a number, found None"),
        ({"reward": lambda s, a: math.inf}, "state 'a', action 'go': the reward is inf"),
        ({"discount": 1.0}, r"discount must be in \[0, 1\), found 1.0"),
        (
            {"constraints": [ib.Constraint(np.ones(3), at_most=1.0)]},
            "signal is a function .* constraint 0 is Constraint",
        ),
        ({"constraints": [ib.Constraint(at_most=1.0)]}, "signal is a function .* constraint 0 is Constraint"),
        ({"constraints": ["noise"]}, "must be ib.Constraint records, found str at position 0"),
        (
            {"constraints": [ib.Constraint(lambda s, a: "loud", at_most=1.0, name="noise")]},
            "state 'a', action 'go': the signal of constraint 'noise' must be a number, found 'loud'",
        ),
        (
            {"constraints": [ib.Constraint(lambda s, a: None, at_most=1.0)]},
            "state 'a', action 'go': the signal of constraint 'constraint 0' must be a number",
        ),
        (
            {"constraints": [ib.Constraint(lambda s, a: 1.0, at_most=1.0, name="n") for _ in range(2)]},
            "two constraints are called 'n'",
        ),
    ],
)
def test_wrong_rules_are_refused(changes, message):
    with refused(message):
        built(**changes)


def test_an_error_inside_a_rule_is_the_users_own():
    with pytest.raises(ZeroDivisionError):
        built(reward=lambda state, action: 1 / 0)
    with pytest.raises(KeyError):
        built(transitions=lambda state, action: {}[state])


# ---- what depends on the next state


def test_what_depends_on_the_next_state_is_averaged_over_it() -> None:
    """A walk on a ring of three, by hand: forwards with .75, reward 4 and one unit of wear for passing the gate."""

    def rules(three: bool) -> ib.CMDP:
        def passes(state, action, after):
            return float(action == "walk" and state == 2 and after == 0)

        reward, wear = (lambda s, a, t: 4.0 * passes(s, a, t)), passes
        if not three:
            reward, wear = (lambda s, a: 3.0 * (a == "walk" and s == 2)), (lambda s, a: 0.75 * (a == "walk" and s == 2))
        return ib.build(
            0,
            lambda state: ["walk", "wait"],
            lambda state, action: {(state + 1) % 3: 0.75, state: 0.25} if action == "walk" else {state: 1.0},
            reward=reward,
            constraints=[ib.Constraint(wear, at_most=0.1, name="wear")],
            discount=0.9,
        )

    assert rules(three=True) == rules(three=False)


def test_a_value_that_is_the_same_for_every_next_state_is_kept_to_the_bit() -> None:
    model = ib.build(
        0,
        lambda state: ["go"],
        lambda state, action: {0: 0.1, 1: 0.2, 2: 0.7},
        reward=lambda state, action, after: 0.3,
        discount=0.5,
    )
    assert model.reward.tolist() == [0.3] * 3


def test_defaults_do_not_count_as_arguments() -> None:
    model = ib.build(0, lambda s: ["go"], lambda s, a: {0: 1.0}, reward=lambda s, a, scale=2.0: scale, discount=0.5)
    assert model.reward.tolist() == [2.0]


def test_dense_and_sparse_tables_of_transitions_give_the_same_model() -> None:
    rng = np.random.default_rng(0)
    moves = rng.dirichlet(np.ones(4), size=(4, 3))
    reward, signal = rng.random((4, 3, 4)), rng.random((4, 3, 4))
    by_hand = [(moves * values).sum(axis=2) for values in (reward, signal)]
    common = {"initial": [0.25] * 4, "discount": 0.9}
    dense = ib.CMDP.from_dense(
        moves, reward=reward, constraints=[ib.Constraint(signal, at_most=0.5, name="c")], **common
    )
    native = ib.CMDP(
        offsets=np.arange(0, 13, 3),
        transition=moves.reshape(12, 4),
        reward=sp.csr_array(reward.reshape(12, 4)),
        constraints=[ib.Constraint(sp.csr_array(signal.reshape(12, 4)), at_most=0.5, name="c")],
        **common,
    )
    for model in (dense, native):
        np.testing.assert_allclose(model.reward, by_hand[0].ravel(), rtol=1e-15)
        np.testing.assert_allclose(model.signals[0], by_hand[1].ravel(), rtol=1e-15)
    stages = rng.random((2, 4, 3, 4))
    timed = ib.CMDP.from_dense(moves, reward=stages, initial=[0.25] * 4, horizon=2)
    np.testing.assert_allclose(timed.reward, (moves * stages).sum(axis=3).reshape(2, 12), rtol=1e-15)


def test_a_number_that_is_not_finite_is_named_with_the_next_state() -> None:
    reward = np.zeros((2, 1, 2))
    reward[1, 0, 0] = np.inf
    moves = np.full((2, 1, 2), 0.5)
    with pytest.raises(ib.InvalidInput, match="state 1, action 0, next state 0: the reward is inf; it must be finite"):
        ib.CMDP.from_dense(moves, reward=reward, initial=[1.0, 0.0], discount=0.5)
    moves[1, 0] = [0.0, 1.0]  # where nobody goes nothing counts
    ib.CMDP.from_dense(moves, reward=reward, initial=[1.0, 0.0], discount=0.5)
    with pytest.raises(ib.InvalidInput, match=r"or be sparse of shape \[n, S\] = \(1, 1\), one per transition"):
        ib.CMDP(
            offsets=[0, 1], transition=[[1.0]], reward=sp.csr_array((2, 2)), constraints=(), initial=[1], discount=0
        )


# ---- a user's rule that fails, and progress


@pytest.mark.parametrize("rule", ["actions", "transitions", "the reward", "the signal of constraint 'c'"])
def test_an_error_in_a_rule_says_at_which_state_and_action(rule) -> None:
    def failing(what, works):
        return works if what != rule else lambda *arguments: {}["missing"]

    with pytest.raises(KeyError, match="missing") as error:
        ib.build(
            "home",
            failing("actions", lambda s: ["go"]),
            failing("transitions", lambda s, a: {"home": 1.0}),
            reward=failing("the reward", lambda s, a: 0.0),
            constraints=[ib.Constraint(failing("the signal of constraint 'c'", lambda s, a: 0.0), at_most=1, name="c")],
            discount=0.5,
        )
    where = "state 'home'" if rule == "actions" else "state 'home', action 'go'"
    assert error.value.__notes__ == [f"in {rule}, at {where}"]


def test_an_error_in_a_rule_that_yields_says_where() -> None:
    def yielding(*arguments):
        yield from {}["missing"]

    for rules, where in (
        ((yielding, lambda s, a: {s: 1.0}), "in actions('home')"),
        ((lambda s: ["go"], yielding), "in transitions, at state 'home', action 'go'"),
    ):
        with pytest.raises(KeyError, match="missing") as error:
            ib.build("home", *rules, reward=lambda s, a: 0.0, discount=0.5)
        assert error.value.__notes__ == [where]


def test_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inbounds.problem.rules._TELL_EVERY", -1.0)
    told: list[tuple[int, int]] = []
    ib.build(
        0, lambda s: [0], lambda s, a: {min(s + 1, 9): 1.0}, reward=lambda s, a: 0.0, discount=0.5,
        progress=lambda *counts: told.append(counts),
    )  # fmt: skip
    assert told == [(state, min(state + 1, 10)) for state in range(10)]


@pytest.mark.parametrize(
    ("what", "given", "message"),
    [
        (
            "reward",
            1,
            r"reward must be a function, reward\(state, action\) or reward\(state, action, next_state\), found 1",
        ),
        ("reward", lambda state: 1.0, r"is called as reward\(state, action\) .* found one that takes \(state\)"),
        ("actions", ["x"], r"actions must be a function, actions\(state\), found \['x'\]"),
        ("actions", lambda: ["x"], r"is called as actions\(state\), found one that takes \(\)"),
        ("transitions", {0: 1.0}, r"transitions must be a function, transitions\(state, action\), found"),
        (
            "constraints",
            [ib.Constraint(lambda state: 1.0, at_most=1.0, name="c")],
            r"the signal of constraint 'c' must be a function that is called as",
        ),
    ],
)
def test_what_a_model_is_built_from_is_refused_by_name(what, given, message):
    rules = {
        "actions": lambda state: ["x"],
        "transitions": lambda state, action: {state: 1.0},
        "reward": lambda state, action: 1.0,
    }
    with pytest.raises(ib.InvalidInput, match=message):
        ib.build(0, **rules | {what: given}, discount=0.5)


def test_probabilities_in_single_precision_are_normalised():
    third = np.float32(1 / 3)
    assert abs(3 * float(third) - 1.0) > 1e-9  # refused in double precision
    model = built(
        start={state: third for state in "abc"},
        transitions=lambda state, action: {"a": third, "b": third, "c": third},
        reward=lambda state, action, after: 3.0 * (after == "a"),
    )
    assert np.all(np.abs(np.append(model.transition.data, model.initial) - 1 / 3) <= 2.0**-53)
    assert np.all(np.abs(model.reward - 1.0) <= 2.0**-51)
    mixed = built(transitions=lambda state, action: [("a", third), ("b", np.array(third)), ("a", 1 / 3)])
    np.testing.assert_allclose(mixed.transition.toarray().sum(axis=1), 1.0, atol=1e-15)
    halves = built(transitions=lambda state, action: {"a": np.float16(0.5), "b": 0.5})
    assert halves.transition.data.tolist() == [0.5] * 4
    for wrong in (np.float32(0.3333), np.float16(1 / 3)):  # off by 1e-4 and by 2e-4
        with refused("sum to 0.999"):
            built(transitions=lambda state, action, wrong=wrong: {"a": wrong, "b": wrong, "c": wrong})
    with refused("state 'a', action 'go': .* sum to 1.0000000298"):  # a row of doubles, beside one of singles
        built(
            transitions=lambda state, action: (
                {s: float(third) for s in "abc"} if state == "a" else {s: third for s in "abc"}
            )
        )


def test_a_next_state_with_a_default_is_the_next_state_where_it_is_the_third() -> None:
    """(By its name alone, another argument was given the next state.)"""
    rules = dict(start=0, actions=lambda s: ["a"], transitions=lambda s, a: {0: 0.5, 1: 0.5}, discount=0.5)
    assert ib.build(**rules, reward=lambda s, a, next_state=7: next_state).reward.tolist() == [0.5, 0.5]
    assert ib.build(**rules, reward=lambda s, a, weight=2.0, next_state=7: weight + next_state).reward.tolist() == [
        9,
        9,
    ]
    assert ib.build(**rules, reward=lambda s, next_state: 1.0).reward.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("level", [0.0, 1000.0, 1e6])
@pytest.mark.parametrize("missing", [1e-10, 9e-10])
def test_means_over_the_next_state_are_by_the_shares_of_the_model(level, missing):
    """(Probabilities of ten digits made signals from 1000 on less than 1000: falsely infeasible, falsely proved.)"""
    rules = {
        "start": 0,
        "actions": lambda state: ["go"],
        "transitions": lambda state, action: dict.fromkeys(range(3), (1.0 - missing) / 3.0),
        "discount": 0.9,
    }
    model = ib.build(**rules, reward=lambda state, action, next_state: level + next_state)
    np.testing.assert_allclose(model.reward, level + 1.0, rtol=1e-15)
    pressure = ib.Constraint(lambda state, action, next_state: level + 1e-9 * next_state, at_least=level, name="low")
    kept = ib.build(**rules, reward=lambda state, action: 0.0, constraints=[pressure])
    assert kept.constraints[0].signal.min() >= level
    assert ib.solve(kept).certificate.in_bounds


@pytest.mark.parametrize(
    "outcomes",
    [[(0, 1.5), (0, -0.5)], [(0, 1.0), ("ghost", 0.3), ("ghost", -0.3)], {0: 1.25, 1: -0.25}],
    ids=["cancelled", "nowhere", "alone"],
)
def test_a_negative_probability_is_refused_even_where_another_hides_it(outcomes):
    with pytest.raises(ib.InvalidInput, match=r"state 0, action 'go': the probability of moving to state .* is -0\."):
        ib.build(0, lambda s: ["go"], lambda s, a: outcomes, reward=lambda s, a: 1.0, discount=0.5)


def test_an_error_in_a_rule_of_the_next_state_says_where_it_was():
    def reward(state, action, next_state):
        return next(iter(()))

    with pytest.raises(StopIteration) as stopped:
        ib.build(0, lambda s: ["go"], lambda s, a: {0: 1.0}, reward=reward, discount=0.5)
    assert stopped.value.__notes__ == ["in the reward, at state 0, action 'go', next state 0"]
