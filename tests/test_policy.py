"""Policies: their occupancies and values against dense twins, mixtures, sampling, and the ways in."""

from __future__ import annotations

import dataclasses
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inbounds as ib
import naive
import reference
import strategies
from inbounds.algorithms import ALGORITHMS
from inbounds.criteria import criterion_of, discounted
from inbounds.criteria.contract import DENSE_STATES


@given(strategies.with_policies())
def test_occupancy_solves_the_flow_equations_and_sums_to_one(drawn):
    cmdp, [policy] = drawn
    spent = ib.occupancy(cmdp, policy)
    assert np.all(spent >= 0.0)
    assert abs(spent.sum() - 1.0) < 1e-12
    assert np.max(np.abs(naive.flow_residual(cmdp, spent))) < 1e-12


@given(strategies.with_policies())
def test_occupancy_equals_its_power_series(drawn):
    cmdp, [policy] = drawn
    series, missing = naive.occupancy_series(cmdp, policy.probabilities, steps=60)
    assert np.abs(ib.occupancy(cmdp, policy) - series).sum() <= missing + 1e-12


@given(strategies.with_policies(), st.data())
def test_products_with_the_occupancy_are_values(drawn, data):
    cmdp, [policy] = drawn
    signal = np.array(data.draw(st.lists(strategies.eighths, min_size=cmdp.n_pairs, max_size=cmdp.n_pairs)))
    expected = naive.value(cmdp, policy.probabilities, signal)
    assert ib.occupancy(cmdp, policy) @ signal == pytest.approx(expected, abs=1e-12)


@given(strategies.with_policies())
def test_evaluate_equals_the_dense_twin(drawn):
    cmdp, [policy] = drawn
    judged = ib.evaluate(cmdp, policy)
    assert judged.reward == pytest.approx(naive.value(cmdp, policy.probabilities, cmdp.reward), abs=1e-12)
    assert judged.margins.shape == (cmdp.n_constraints,)
    for margin, signal in zip(judged.margins, cmdp.margins, strict=True):
        assert margin == pytest.approx(naive.value(cmdp, policy.probabilities, signal), abs=1e-12)
    assert judged.total_reward == judged.reward / (1.0 - cmdp.discount)
    assert np.array_equal(judged.total_margins, judged.margins / (1.0 - cmdp.discount))


@given(strategies.with_policies())
def test_both_ways_to_the_occupancy_agree(drawn):
    cmdp, [policy] = drawn
    solved = cmdp.pairs.sum_by_state(np.asarray(ib.occupancy(cmdp, policy)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(discounted, "DENSE_STATES", 0)
        swept = criterion_of(cmdp).follow(policy.probabilities).time
    assert np.max(np.abs(swept - solved)) < 1e-12


def test_a_model_beyond_the_dense_limit_takes_the_other_way():
    states = DENSE_STATES + 1
    cmdp = ib.zoo.garnet(states=states, actions=2, seed=3)
    policy = ib.Policy.uniform(cmdp)
    spent = ib.occupancy(cmdp, policy)
    assert abs(spent.sum() - 1.0) < 1e-12
    assert spent @ cmdp.reward == pytest.approx(naive.value(cmdp, policy.probabilities, cmdp.reward), abs=1e-12)


@given(strategies.with_policies(count=3), st.lists(st.integers(1, 9), min_size=3, max_size=3))
def test_a_mixture_has_the_mean_values_exactly(drawn, shares):
    cmdp, policies = drawn
    weights = np.array(shares) / sum(shares)
    mixed = ib.evaluate(cmdp, ib.mix(cmdp, policies, weights))
    parts = [ib.evaluate(cmdp, policy) for policy in policies]
    assert mixed.reward == pytest.approx(sum(w * p.reward for w, p in zip(weights, parts, strict=True)), abs=1e-12)
    mean = sum(w * p.margins for w, p in zip(weights, parts, strict=True))
    assert np.max(np.abs(mixed.margins - mean), initial=0.0) < 1e-12
    occupancies = sum(w * p.occupancy for w, p in zip(weights, parts, strict=True))
    assert np.max(np.abs(mixed.occupancy - occupancies)) < 1e-12


def test_weights_are_equal_by_default():
    cmdp, first, second, _, _ = reference.rows_do_not_average()
    given_weights = ib.mix(cmdp, [first, second, second], [1 / 3, 1 / 3, 1 / 3])
    assert np.array_equal(ib.mix(cmdp, [first, second, second]).probabilities, given_weights.probabilities)


def test_averaging_rows_is_not_mixing():
    cmdp, first, second, mixed, averaged = reference.rows_do_not_average()
    rows = ib.Policy(cmdp.pairs, (first.probabilities + second.probabilities) / 2)
    assert ib.evaluate(cmdp, rows).reward == pytest.approx(averaged, abs=1e-15)
    assert ib.evaluate(cmdp, ib.mix(cmdp, [first, second])).reward == pytest.approx(mixed, abs=1e-15)


@pytest.mark.parametrize(
    ("policies", "weights", "message"),
    [
        ([], None, "a mixture needs at least one policy"),
        ([0, 1], [0.5], "the weights of a mixture must have 2 entries"),
        ([0, 1], [0.7, 0.7], "must be >= 0 and sum to 1"),
        ([0, 1], [1.5, -0.5], "must be >= 0 and sum to 1"),
        ([0, 1], [math.nan, 1.0], "must be >= 0 and sum to 1"),
    ],
)
def test_wrong_mixtures_are_refused(policies, weights, message):
    cmdp, *both, _, _ = reference.rows_do_not_average()
    with pytest.raises(ib.InvalidInput, match=message):
        ib.mix(cmdp, [both[p] for p in policies], weights)


@given(strategies.with_policies())
def test_a_policy_comes_back_from_its_occupancy_where_it_goes(drawn):
    cmdp, [policy] = drawn
    otherwise = ib.Policy.deterministic(cmdp, cmdp.offsets[:-1])
    spent = ib.occupancy(cmdp, policy)
    back = ib.Policy.from_occupancy(cmdp, spent, otherwise=otherwise)
    visited = cmdp.pairs.sum_by_state(np.asarray(spent))[cmdp.pairs.states] > 0.0
    assert np.max(np.abs(back.probabilities - policy.probabilities)[visited], initial=0.0) < 1e-14
    assert np.array_equal(back.probabilities[~visited], otherwise.probabilities[~visited])


def test_an_answer_is_no_problem():
    best = ib.solve(machine())
    for make in (ib.Policy.uniform, lambda given: ib.Policy.from_rule(given, lambda state: "run")):
        with pytest.raises(ib.InvalidInput, match="the problem must be a CMDP or a Simulator, found Solution"):
            make(best)


def test_states_without_occupancy_are_uniform_by_default():
    cmdp = reference.two_rooms().cmdp
    assert ib.Policy.from_occupancy(cmdp, [0.5, 0.5, 0.0, 0.0]).probabilities[2:].tolist() == [0.5, 0.5]


def test_an_occupancy_that_is_not_finite_is_refused():
    cmdp = reference.two_rooms().cmdp
    with pytest.raises(ib.InvalidInput, match="state 'attic', action 'stay': the occupancy is nan"):
        ib.Policy.from_occupancy(cmdp, [0.5, 0.5, math.nan, 0.0])


class Script:
    """A generator that hands out given numbers."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def random(self):
        return self.numbers.pop(0)


def ragged():
    """Actions of state "a": x and z; of state "b": y alone."""
    return ib.CMDP(
        offsets=[0, 2, 3],
        transition=[[1.0, 0.0]] * 3,
        reward=[0.0] * 3,
        constraints=(),
        initial=[1.0, 0.0],
        discount=0.5,
        actions=[0, 2, 1],
        state_labels=("a", "b"),
        action_labels=("x", "y", "z"),
    )


def test_sampling_inverts_the_cumulative_probabilities():
    policy = ib.Policy(ragged().pairs, [0.25, 0.75, 1.0])
    below = np.nextafter(0.25, 0.0)
    drawn = [policy.act("a", Script(u)) for u in (0.0, below, 0.25, 0.6, 1.0 - 2.0**-53)]
    assert drawn == ["x", "x", "z", "z", "z"]
    assert policy.act("b", Script(0.0)) == policy.act("b", Script(1.0 - 2.0**-53)) == "y"


def test_sampling_never_takes_an_action_of_probability_zero():
    cmdp = ib.CMDP.from_dense(np.ones((1, 3, 1)), reward=np.zeros((1, 3)), initial=[1.0], discount=0.5)
    for table, only in (([[0.0, 0.0, 1.0]], 2), ([[0.0, 1.0, 0.0]], 1), ([[1.0, 0.0, 0.0]], 0)):
        policy = ib.Policy.from_table(cmdp, table)
        assert {policy.act(0, Script(u)) for u in (0.0, 0.5, 1.0 - 2.0**-53)} == {only}


def test_actions_are_drawn_anew_where_no_generator_is_given():
    """That 200 tosses of a fair coin are all alike has a chance of 2^-199."""
    coin = ib.CMDP.from_dense(np.ones((1, 2, 1)), reward=np.zeros((1, 2)), initial=[1.0], discount=0.5)
    policy = ib.Policy.uniform(coin)
    assert {policy.act(0) for _ in range(200)} == {0, 1}
    staged = ib.CMDP.from_dense(np.ones((1, 2, 1)), reward=np.zeros((1, 2)), initial=[1.0], horizon=2)
    assert ib.Policy.uniform(staged).act(0, stage=1) in (0, 1)


def test_a_solution_in_the_place_of_a_policy_is_told_where_its_policy_is():
    queue = ib.zoo.queue()
    with pytest.raises(
        ib.InvalidInput, match=r"must be an ib.Policy, found Solution: hand over its policy, as in best.policy$"
    ):
        ib.evaluate(queue, ib.solve(queue))


def test_a_policy_of_fewer_states_or_actions_says_how_to_carry_it_over():
    """As that of a log is, of which the known model has more; what the refusal proposes works as it stands."""

    def chain(last, actions, **criterion):
        return ib.build(
            0, lambda s: actions, lambda s, a: [(min(s + 1, last), 1.0)], reward=lambda s, a: 0.0, **criterion
        )

    few = ib.Policy.uniform(chain(1, ["stay"], discount=0.5))
    for problem, why in (
        (chain(3, ["stay"], discount=0.5), "it has no state 2"),
        (chain(1, ["stay", "on"], discount=0.5), "state 0 has the actions"),
        (chain(0, ["stay"], discount=0.5), "the problem has no state 1"),
    ):
        proposed = r"ib\.Policy\.from_rule\(problem, lambda state: policy\[state\] if state in policy else \.\.\.\)"
        with pytest.raises(ib.InvalidInput, match=f"{why}.*{proposed}"):
            ib.evaluate(problem, few)
        carried = ib.Policy.from_rule(problem, lambda state: few[state] if state in few else "stay")  # noqa: SIM401
        assert all(carried[state] == {"stay": 1.0} for state in carried)
    assert 1 in few and 2 not in few and [] not in few
    staged = ib.Policy.uniform(chain(1, ["stay"], horizon=2))
    with pytest.raises(ib.InvalidInput, match=r"lambda state, stage: policy\.at\(stage\)\[state\] if"):
        ib.evaluate(chain(1, ["stay", "on"], horizon=2), staged)


@pytest.mark.parametrize("seed", range(5))
def test_sampling_frequencies(seed):
    """Counts are binomial. With 15 frequencies over the five seeds, one beyond 5.5 standard deviations has a chance
    below 15 * 4e-8 under the true probabilities."""
    probabilities = np.array([0.1, 0.2, 0.7])
    cmdp = ib.CMDP.from_dense(np.ones((1, 3, 1)), reward=np.zeros((1, 3)), initial=[1.0], discount=0.5)
    policy, rng, draws = ib.Policy(cmdp.pairs, probabilities), np.random.default_rng(seed), 4_000
    counts = np.bincount([policy.act(0, rng) for _ in range(draws)], minlength=3)
    z = (counts - draws * probabilities) / np.sqrt(draws * probabilities * (1.0 - probabilities))
    assert np.max(np.abs(z)) < 5.5


def test_tables_go_in_and_out():
    policy = ib.Policy.from_table(ragged(), [[0.25, 0.0, 0.75], [0.0, 1.0, 0.0]])
    assert policy.probabilities.tolist() == [0.25, 0.75, 1.0]
    assert policy.table().tolist() == [[0.25, 0.0, 0.75], [0.0, 1.0, 0.0]]
    assert policy.by_label() == {"a": {"x": 0.25, "z": 0.75}, "b": {"y": 1.0}}
    assert repr(policy) == "Policy(2 states, randomises in 1)"


@given(strategies.with_policies())
def test_table_round_trip(drawn):
    cmdp, [policy] = drawn
    back = ib.Policy.from_table(cmdp, policy.table())
    assert np.array_equal(back.probabilities, policy.probabilities)


def test_by_label_leaves_out_what_is_never_done():
    assert ib.Policy.deterministic(ragged(), [1, 2]).by_label() == {"a": {"z": 1.0}, "b": {"y": 1.0}}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            [[0.5, 0.1, 0.4], [0.0, 1.0, 0.0]],
            "state 'a': the table gives probability to an action that it does not have",
        ),
        (
            [[0.5, 0.0, 0.5], [1.0, 0.0, 0.0]],
            "state 'b': the table gives probability to an action that it does not have",
        ),
        ([[0.5, 0.0, 0.6], [0.0, 1.0, 0.0]], "state 'a': the policy's probabilities sum to 1.1"),
        ([[1.5, 0.0, -0.5], [0.0, 1.0, 0.0]], "state 'a', action 'z': the policy has probability -0.5"),
        ([[math.nan, 0.0, 1.0], [0.0, 1.0, 0.0]], "state 'a', action 'x': the policy has probability nan"),
        ([[0.5, 0.5]], r"must have shape \[S, A\] = \(2, 3\), found \(1, 2\)"),
        ([["half", "half", 0.0]] * 2, "must be numbers, found list"),
    ],
)
def test_wrong_tables_are_refused(table, message):
    with pytest.raises(ib.InvalidInput, match=message):
        ib.Policy.from_table(ragged(), table)


def test_probabilities_are_renormalised_within_the_tolerance_and_only_there():
    pairs = ragged().pairs
    assert ib.Policy(pairs, [0.5, 0.5 + 5e-10, 1.0]).probabilities[:2].sum() == pytest.approx(1.0, abs=1e-15)
    with pytest.raises(ib.InvalidInput, match=r"state 'a': the policy's probabilities sum to 1\.000000002"):
        ib.Policy(pairs, [0.5, 0.5 + 2e-9, 1.0])
    with pytest.raises(ib.InvalidInput, match="must have 3 entries"):
        ib.Policy(pairs, [0.5, 0.5])


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ([2, 2], "one of its own pairs"),
        ([0, 1], "one of its own pairs"),
        ([-1, 2], "one of its own pairs"),
        ([0], r"chosen must be whole numbers of shape \(2,\), found int64 \(1,\)"),
        ([0.0, 2.0], r"chosen must be whole numbers of shape \(2,\), found float64"),
    ],
)
def test_wrong_choices_are_refused(chosen, message):
    with pytest.raises(ib.InvalidInput, match=message):
        ib.Policy.deterministic(ragged(), chosen)


def test_a_policy_of_another_problem_is_refused():
    stranger = ib.Policy.uniform(ragged())
    with pytest.raises(ib.InvalidInput, match="does not belong to this problem"):
        ib.evaluate(reference.two_rooms().cmdp, stranger)
    same_count = ib.CMDP([0, 1, 3], [[1.0, 0.0]] * 3, [0.0] * 3, (), [1.0, 0.0], 0.5)
    with pytest.raises(ib.InvalidInput, match="does not belong to this problem"):
        ib.occupancy(same_count, stranger)


# Policies of other problems: matched by labels


def machine(states=(0, 1, 2, 3), actions=("run", "repair"), **criterion):
    """A machine that wears out, with its states and the actions of each state listed in any order."""
    pairs = [(s, a) for s in states for a in actions if not (s == 0 and a == "repair")]
    rows = np.zeros((len(pairs), len(states)))
    for row, (s, a) in zip(rows, pairs, strict=True):
        if a == "repair":
            row[states.index(0)] = 1.0
        else:
            row[states.index(s)] += 0.7
            row[states.index(min(s + 1, 3))] += 0.3
    return ib.CMDP(
        offsets=np.concatenate([[0], np.cumsum([sum(p[0] == s for p in pairs) for s in states])]),
        transition=rows,
        reward=[3.0 - s if a == "run" else 0.0 for s, a in pairs],
        constraints=[ib.Constraint([float(a == "repair") for _, a in pairs], at_most=0.1, name="repairs")],
        initial=[float(s == 0) for s in states],
        actions=[actions.index(a) for _, a in pairs],
        state_labels=tuple(f"wear {s}" for s in states),
        action_labels=tuple(actions),
        **(criterion or {"discount": 0.95}),
    )


ORDERS = [((3, 1, 0, 2), ("run", "repair")), ((0, 1, 2, 3), ("repair", "run")), ((2, 0, 3, 1), ("repair", "run"))]


@pytest.mark.parametrize(("states", "actions"), ORDERS)
@pytest.mark.parametrize("criterion", [{"discount": 0.95}, {"horizon": 4}, {"average": True}], ids=str)
def test_a_policy_is_worth_the_same_on_the_same_model_in_another_order(states, actions, criterion):
    first, second = machine(**criterion), machine(states, actions, **criterion)
    best, other = ib.solve(first), ib.slater(first).policy
    assert ib.evaluate(second, best.policy).reward == pytest.approx(best.reward, abs=1e-12)
    np.testing.assert_allclose(ib.evaluate(second, best.policy).margins, best.margins, atol=1e-12)
    assert ib.certify(best.policy, second).reward_lower == pytest.approx(best.reward, abs=1e-9)
    mixed = ib.mix(second, [best.policy, other], [0.25, 0.75])
    assert mixed.pairs is second.pairs
    judged = ib.mix(first, [best.policy, other], [0.25, 0.75])
    assert ib.evaluate(second, mixed).reward == pytest.approx(ib.evaluate(first, judged).reward, abs=1e-12)
    assert ib.evaluate(first, mixed).reward == pytest.approx(ib.evaluate(second, mixed).reward, abs=1e-12)


def test_samples_of_the_same_model_in_another_order_are_of_the_same_policy():
    first, second = machine(), machine((2, 0, 3, 1), ("repair", "run"))
    policy = ib.slater(first).policy
    cert = ib.certify(policy, second.simulator(), samples=20_000, seed=0)
    assert cert.in_bounds  # matched by position, it would repair where it is not to
    reordered = ib.Policy.from_occupancy(second, np.zeros(second.n_pairs), otherwise=policy)
    assert reordered.by_label() == {label: policy.by_label()[label] for label in reordered.by_label()}


def test_stationary_policies_and_truncations_of_another_order():
    first, second = machine(), machine((2, 0, 3, 1), ("repair", "run"))
    best = ib.solve(first).policy
    values = [ib.evaluate(ib.truncate(model, horizon=9).problem, best).reward for model in (first, second)]
    assert values[0] == pytest.approx(values[1], abs=1e-12)
    cut = ib.truncate(second, horizon=9)
    plan = ib.solve(cut.problem).policy
    one = cut.to_stationary(plan, afterwards=best)
    assert one.pairs is second.pairs
    assert ib.evaluate(second, one).reward == pytest.approx(ib.evaluate(first, one).reward, abs=1e-12)


def test_other_labels_are_refused_with_the_first_state_that_differs():
    policy = ib.Policy.uniform(machine())
    renamed = dataclasses.replace(machine(), state_labels=("wear 0", "wear 1", "broken", "wear 3"))
    with pytest.raises(ib.InvalidInput, match=r"does not belong to this problem .*: it has no state 'broken'"):
        ib.evaluate(renamed, policy)
    with pytest.raises(ib.InvalidInput, match=r"it has no state 'wear 2'"):
        ib.occupancy(machine(), ib.Policy.uniform(renamed))
    relabelled = dataclasses.replace(machine(), action_labels=("run", "replace"))
    message = r"state 'wear 1' has the actions \['run', 'replace'\], and in the policy \['run', 'repair'\]"
    for ask in (ib.evaluate, ib.occupancy, lambda model, it: ib.certify(it, model), lambda m, it: ib.mix(m, [it])):
        with pytest.raises(ib.InvalidInput, match=message):
            ask(relabelled, policy)
    with pytest.raises(ib.InvalidInput, match=message):
        ib.certify(policy, relabelled.simulator(), samples=100)
    fewer = ib.CMDP([0, 1], [[1.0]], [0.0], (), [1.0], 0.5, state_labels=("wear 0",), action_labels=("run",))
    with pytest.raises(ib.InvalidInput, match="the problem has no state 'wear 1'"):
        ib.evaluate(fewer, policy)
    with pytest.raises(ib.InvalidInput, match=r"a policy must be an ib\.Policy, found ndarray"):
        ib.evaluate(machine(), policy.probabilities)


def test_without_labels_on_both_sides_states_go_by_number():
    labelled = machine()
    bare = dataclasses.replace(labelled, state_labels=None, action_labels=None)
    best = ib.solve(labelled)
    for model, policy in ((bare, best.policy), (labelled, ib.solve(bare).policy)):
        assert ib.evaluate(model, policy).reward == pytest.approx(best.reward, abs=1e-9)
    swapped = ib.CMDP([0, 2], np.ones((2, 1)), [1.0, 0.0], (), [1.0], 0.5, actions=[1, 0])
    plain = ib.CMDP([0, 2], np.ones((2, 1)), [0.0, 1.0], (), [1.0], 0.5)
    assert ib.evaluate(plain, ib.Policy.deterministic(swapped, [0])).reward == 1.0
    others = ib.CMDP([0, 2], np.ones((2, 1)), [1.0, 0.0], (), [1.0], 0.5, actions=[0, 2])
    with pytest.raises(ib.InvalidInput, match=r"state 0 has the actions \[0, 1\], and in the policy \[0, 2\]"):
        ib.evaluate(plain, ib.Policy.uniform(others))


def producers():
    """Everything that makes a policy, by name: of the machine, whose labels it has to carry."""
    model = machine()
    sim, far = model.simulator(), machine().tightened(-1.0)
    yield "solve", lambda: ib.solve(model).policy
    for method in ("lp", "bundle", "polish"):
        yield method, lambda method=method: ib.solve(model, method=method).policy
    yield "slater", lambda: ib.slater(model).policy
    yield "mix", lambda: ib.mix(model, [ib.Policy.uniform(model)])
    yield "truncation", lambda: ib.solve(ib.truncate(model, horizon=3).problem).policy.at(0)
    yield "stationary", lambda: (lambda cut: cut.to_stationary(ib.solve(cut.problem).policy))(ib.truncate(model, 0.1))
    yield "certified", lambda: ib.learn_certified(far.simulator(), samples=20_000, seed=0).policy
    cspda = ib.CSPDA.practical(slater=0.1)
    yield "certified cspda", lambda: ib.learn_certified(far.simulator(), samples=20_000, learner=cspda).policy
    for name, settings in ALGORITHMS.items():
        asked = sim if settings.algorithm.constrained else model.unconstrained().simulator()
        given = {"safe": ib.Policy.uniform(model)} if "safe" in settings.__dataclass_fields__ else {}
        preset = partial(settings.practical, **given)
        yield name, lambda asked=asked, preset=preset: ib.learn(asked, preset(), samples=1000).policy
        if settings.algorithm.known is not None:
            known = lambda settings=settings: ib.iterate(model, settings.practical(), iterations=3).policy  # noqa: E731
            yield f"{name}, known", known


PRODUCERS = dict(producers())


@pytest.mark.parametrize("name", PRODUCERS)
def test_labels_travel_with_every_policy(name):
    policy = PRODUCERS[name]()
    rules = policy.by_label()
    assert list(rules) == [f"wear {s}" for s in range(4)] and rules["wear 0"] == {"run": 1.0}
    assert all(set(actions) <= {"run", "repair"} for actions in rules.values())
    reordered = machine((2, 0, 3, 1), ("repair", "run"))
    value = ib.evaluate(reordered, policy).reward
    assert value == pytest.approx(ib.evaluate(machine(), policy).reward, abs=1e-12)


def test_labels_travel_through_files(tmp_path):
    for suffix in ("npz", "toml"):
        machine().save(tmp_path / f"machine.{suffix}")
        loaded = ib.load(tmp_path / f"machine.{suffix}")
        assert ib.solve(loaded).policy.by_label().keys() == ib.solve(machine()).policy.by_label().keys()
        assert ib.evaluate(machine((3, 1, 0, 2)), ib.solve(loaded).policy).reward == pytest.approx(
            ib.solve(machine()).reward, abs=1e-9
        )


def test_inputs_are_copied_and_results_read_only():
    cmdp = ragged()
    given_probabilities = np.array([0.25, 0.75, 1.0])
    policy = ib.Policy(cmdp.pairs, given_probabilities)
    given_probabilities[:] = 0.0
    assert policy.probabilities.tolist() == [0.25, 0.75, 1.0]
    judged = ib.evaluate(cmdp, policy)
    for array in (policy.probabilities, judged.occupancy, judged.margins, ib.occupancy(cmdp, policy)):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


def test_in_bounds_allows_rounding_and_no_more():
    """Margins of one state are exact: 1/4 - x for working a share x."""
    cmdp = reference.work_and_rest().cmdp
    scale = cmdp.margin_scales[0]
    for over, expected in ((0.0, True), (0.5e-9 * scale, True), (2e-9 * scale, False), (-0.1, True), (0.1, False)):
        share = 0.25 + over
        assert ib.evaluate(cmdp, ib.Policy(cmdp.pairs, [share, 1.0 - share])).in_bounds is expected


@pytest.mark.parametrize("stage", [-1, 10, None, 1.5, True, "0"])
def test_a_stage_that_is_none_is_refused(stage):
    policy = ib.Policy.uniform(ib.zoo.media())
    for question in (policy.at, lambda stage: policy.act(next(iter(policy)), np.random.default_rng(0), stage)):
        with pytest.raises(ib.InvalidInput, match=r"has 10 stages: give stage=, a whole number in 0\.\.9, found"):
            question(stage)


def test_occupancies_below_zero_are_refused_but_for_rounding() -> None:
    problem = ib.zoo.queue()
    mass = ib.evaluate(problem, ib.Policy.uniform(problem)).occupancy.copy()
    mass[5] = -1e-8
    assert ib.Policy.from_occupancy(problem, mass).probabilities[5] == 0.0
    mass[5] = -1e-3
    with pytest.raises(ib.InvalidInput, match=r"the occupancy is -0\.001; it must be finite and >= 0"):
        ib.Policy.from_occupancy(problem, mass)
