"""Policies in the user's hand: by label, from rules, in files, as frames, and deployed without the library."""

from __future__ import annotations

import ast
import csv
import dataclasses
import json
import math
import os
import pickle
import runpy
import subprocess
import sys
from collections import namedtuple
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inbounds as ib
from inbounds.formats import mixture_npz, npz, policy_npz
from inbounds.formats.npz import OTHERS
from inbounds.problem.pairs import Pairs
from inbounds.proofs.files import save_certificate

ROOT = Path(__file__).parents[1]
SUFFIXES = ("json", "npz", "csv")
ROOMS = Pairs.create([0, 2, 3, 5], [1, 0, 1, 0, 2], [("dry", 1), ("wet", 1), ("dry", 2)], ["wait", "pump", "call"])


def rooms(stages: int | None = None) -> ib.Policy:
    rule = [0.25, 0.75, 1.0, 0.0, 1.0]
    return ib.Policy(
        ROOMS, rule if stages is None else [np.roll([0.5, 0.5], h).tolist() + rule[2:] for h in range(stages)]
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("labels", [{}, {"state_labels": ("on", "off")}, {"action_labels": ("go", "stay")}])
def test_a_policy_comes_back_as_itself_whichever_labels_there_are(labels: dict, suffix: str, tmp_path: Path) -> None:
    """A file has labels for all or for none: numbers, where there were none, are the same rule."""
    policy = ib.Policy(Pairs.create([0, 2, 3], [0, 1, 1], **labels), [0.25, 0.75, 1.0])
    policy.save(tmp_path / f"rule.{suffix}")
    again = ib.Policy.load(tmp_path / f"rule.{suffix}")
    assert again == policy and hash(again) == hash(policy)
    assert policy != ib.Policy(Pairs.create([0, 2, 3], [0, 1, 1], ("off", "on")), [0.25, 0.75, 1.0])


# ---- by label


def test_a_state_has_its_actions_by_label() -> None:
    policy = rooms()
    assert policy["dry", 1] == {"pump": 0.25, "wait": 0.75}
    assert policy[("dry", 2)] == {"call": 1.0}
    assert list(policy) == [("dry", 1), ("wet", 1), ("dry", 2)] and len(policy) == 3
    assert rooms(4).at(2)["wet", 1] == {"pump": 1.0}
    unlabelled = ib.Policy.uniform(ib.zoo.queue())
    assert len(unlabelled[3]) == 16 and unlabelled[np.int64(3)] == unlabelled[3]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: rooms()["dry"], "there is no state 'dry'; there are ('dry', 1), ('wet', 1), ('dry', 2)"),
        (lambda: rooms()[["dry", 1]], "there is no state ['dry', 1]"),
        (lambda: ib.Policy.uniform(ib.zoo.queue())[6], "there is no state 6; there are 6: 0, 1, 2, ..."),
        (lambda: ib.Policy.uniform(ib.zoo.queue())[True], "there is no state True"),
        (lambda: rooms(3)["dry", 1], "this policy has 3 stages: write policy.at(stage)[('dry', 1)]"),
        (lambda: rooms(3).act(("dry", 1), np.random.default_rng(0)), "this policy has 3 stages: give stage="),
        (lambda: rooms(3).act(("dry", 1), np.random.default_rng(0), stage=3), "a whole number in 0..2, found 3"),
        (lambda: rooms().act(("dry", 1), np.random.default_rng(0), stage=0), "leave stage=0 out"),
    ],
)
def test_what_is_not_there_is_named(ask, message) -> None:
    with pytest.raises(ib.InvalidInput) as refused:
        ask()
    assert message in str(refused.value)


# ---- names for the parts of a state


class Stock(NamedTuple):
    tea: int
    rice: int


class Order(NamedTuple):
    lot: str
    urgent: bool


def named_shop(**criterion) -> ib.CMDP:
    """Sell what is there, or order; 4 states."""

    def tomorrow(stock: Stock, order: Order):
        lots = {"none": (0, 0), "tea": (1, 0), "rice": (0, 1)}[order.lot]
        sold = [(1, 0), (0, 1)]
        return [
            (Stock(*(min(max(a + b - c, 0), 1) for a, b, c in zip(stock, lots, s, strict=True))), 0.5) for s in sold
        ]

    return ib.build(
        start=Stock(1, 1),
        actions=lambda stock: [Order(lot, False) for lot in ("none", "tea", "rice")],
        transitions=tomorrow,
        reward=lambda stock, order: stock.tea + 2.0 * stock.rice,
        constraints=[ib.Constraint(lambda stock, order: order.lot != "none", at_most=0.4, name="orders")],
        **(criterion or {"discount": 0.9}),
    )


def parts(labels) -> set[tuple[str, ...]]:
    return {label._fields for label in labels}


@pytest.mark.parametrize("criterion", [{"discount": 0.9}, {"horizon": 3}])
def test_the_names_of_parts_travel_with_labels_through_every_file(criterion, tmp_path) -> None:
    shop = named_shop(**criterion)
    policy = ib.solve(shop.asking(constraints=())).policy
    for suffix in ("npz", "toml"):
        shop.save(tmp_path / f"shop.{suffix}")
        again = ib.load(tmp_path / f"shop.{suffix}")
        assert again == shop and npz.digest(again) == npz.digest(shop)
        assert parts(again.state_labels) == {("tea", "rice")} and parts(again.action_labels) == {("lot", "urgent")}
        assert again.state_labels[0].rice == 1 and repr(again.state_labels[0]) == "State(tea=1, rice=1)"
    for suffix in SUFFIXES:
        policy.save(tmp_path / f"rule.{suffix}")
        found = ib.Policy.load(tmp_path / f"rule.{suffix}")
        assert found.pairs.parts == {"state": ("tea", "rice"), "action": ("lot", "urgent")}
        assert ib.evaluate(shop, found).reward == ib.evaluate(shop, policy).reward
        assert found.compare(policy).share == 0.0
    rule = policy if policy.horizon is None else policy.at(0)
    assert rule[1, 1] == rule[Stock(1, 1)]  # a label with names is the tuple that it was
    mixture = ib.Mixture([0.5, 0.5], [policy, ib.Policy.uniform(shop)])
    for suffix in ("json", "npz"):
        mixture.save(tmp_path / f"mixture.{suffix}")
        assert ib.Mixture.load(tmp_path / f"mixture.{suffix}").pairs.parts["state"] == ("tea", "rice")
    (label,) = pickle.loads(pickle.dumps(again.state_labels[:1]))  # for worker processes
    assert label == (1, 1) and label.tea == 1


def test_the_names_of_parts_are_the_columns_of_tables_the_axes_of_pictures_and_the_filters_of_the_page(
    tmp_path,
) -> None:
    pytest.importorskip("pandas")
    shop = named_shop()
    best = ib.solve(shop)
    named = ["state tea", "state rice", "action lot", "action urgent"]
    assert [*best.policy.to_frame()] == [*named, "probability"]
    best.policy.save(tmp_path / "rule.csv")
    assert (tmp_path / "rule.csv").read_text().startswith(",".join(named))
    seen = ib.simulate(shop, best.policy, runs=2, seed=0).to_frame()
    assert {*named, "next state tea", "next state rice"} <= {*seen}
    difference = best.policy.compare(ib.Policy.uniform(shop))
    assert "state rice" in difference.to_frame() and "tea 1, rice 1" in str(difference)
    assert "tea 1, rice 1" in best.policy._repr_html_()
    panel = best.policy.plot().axes[0]
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("tea", "rice")
    ib.report(shop, tmp_path / "shop.html", points=0)
    assert '"name": "tea"' in (tmp_path / "shop.html").read_text()


def test_both_checkers_take_a_model_whose_labels_have_parts(tmp_path) -> None:
    shop = named_shop()
    shop.save(tmp_path / "shop.npz")
    save_certificate(ib.solve(shop).certificate, tmp_path / "proof.json")
    for checker in ("src/inbounds/proofs/verify.py", "checkers/integers.py"):
        arguments = [sys.executable, "-I", ROOT / checker, tmp_path / "shop.npz", tmp_path / "proof.json"]
        assert subprocess.run(arguments, capture_output=True).returncode == 0


def test_columns_of_named_parts_in_another_order_are_no_other_policy(tmp_path) -> None:
    """Both are tuples of two numbers: swapped, tea would be taken for rice."""
    shop = named_shop()
    ib.Policy.uniform(shop).save(tmp_path / "rule.csv")
    rows = list(csv.reader((tmp_path / "rule.csv").read_text().splitlines()))
    with (tmp_path / "swapped.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([[row[1], row[0], *row[2:]] for row in rows])
    with pytest.raises(ib.InvalidInput, match=r"has the parts \('tea', 'rice'\), and in the policy \('rice', 'tea'\)"):
        ib.evaluate(shop, ib.Policy.load(tmp_path / "swapped.csv"))


def test_a_start_that_is_a_plain_tuple_takes_no_names_away(tmp_path) -> None:
    shop = named_shop()
    plain = ib.Policy(Pairs.create([0, 1, 2], state_labels=[(0, 1), Stock(1, 1)]), [1.0, 1.0])
    assert plain.pairs.parts["state"] == ("tea", "rice") and shop.pairs.parts["state"] == ("tea", "rice")
    plain.save(tmp_path / "plain.csv")
    assert parts(ib.Policy.load(tmp_path / "plain.csv").pairs.state_labels) == {("tea", "rice")}


def test_names_that_are_none_are_not_written(tmp_path) -> None:
    """A tuple whose fields have no names of their own, and labels of two kinds, are as plain tuples."""
    odd = namedtuple("odd", ("class", "def"), rename=True)
    for labels in ([odd(0, 1), odd(0, 2)], [Stock(0, 1), Order("tea", False)], [Stock(0, 1), (0, 2, 4)]):
        policy = ib.Policy(Pairs.create([0, 1, 2], state_labels=labels), [1.0, 1.0])
        for suffix in SUFFIXES:
            policy.save(tmp_path / f"odd.{suffix}")
            assert ib.Policy.load(tmp_path / f"odd.{suffix}").pairs.parts == {"state": None, "action": None}


def test_names_are_those_that_python_reads(tmp_path) -> None:
    """Two spellings that a program cannot tell apart are one name; a keyword in other letters is none."""
    micro, mu, keyword = "\N{MICRO SIGN}", "\N{GREEK SMALL LETTER MU}", "\N{FULLWIDTH LATIN SMALL LETTER I}f"
    for spelled, found in ((micro, ((mu, "n"),)), (keyword, (None,))):
        kind = namedtuple("Kind", (spelled, "n"))
        problem = ib.build(
            kind(0, 0),
            lambda here: ["stay", "go"],
            lambda here, action, kind=kind: [(kind(0, 0), 0.5), (kind(0, 1), 0.5)],
            reward=lambda here, action: float(here.n),
            discount=0.9,
        )
        policy = ib.solve(problem).policy
        for suffix in ("npz", "toml"):
            problem.save(tmp_path / f"model.{suffix}")
            again = ib.load(tmp_path / f"model.{suffix}")
            assert again == problem and (again.pairs.parts["state"],) == found
        for suffix in SUFFIXES:
            policy.save(tmp_path / f"rule.{suffix}")
            again = ib.Policy.load(tmp_path / f"rule.{suffix}")
            assert again == policy and (again.pairs.parts["state"],) == found
            assert ib.evaluate(problem, again).reward == ib.evaluate(problem, policy).reward
    assert ib.Policy.load(tmp_path / "rule.csv").pairs.state_labels == ((0, 0), (0, 1))
    (tmp_path / "table.csv").write_text("state \N{LATIN SMALL LIGATURE FI},state fi,action,probability\n1,2,a,1\n")
    with pytest.raises(ib.InvalidInput, match=r"table.csv.*two parts of a state have the same name"):
        ib.Policy.load(tmp_path / "table.csv")


def test_a_record_that_no_file_keeps_says_what_to_do(tmp_path) -> None:
    record = dataclasses.make_dataclass("Wear", ["worn"], frozen=True)
    policy = ib.Policy(Pairs.create([0, 1, 2], state_labels=[record(0), record(1)]), [1.0, 1.0])
    for suffix in SUFFIXES:
        with pytest.raises(ib.InvalidInput, match=r"Wear\(worn=0\) of type Wear; .*; make it a NamedTuple$"):
            policy.save(tmp_path / f"wear.{suffix}")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (["tea", "_rice"], "must have names that Python takes"),
        (["tea", "lambda"], "must have names that Python takes"),
        (["tea", 3], "must have names that Python takes"),
        ("tea", "must have names that Python takes"),
        ([], "must have names that Python takes"),
        (["tea", "\N{FULLWIDTH LOW LINE}cls"], "must have names that Python takes"),
        (["tea", "\N{FULLWIDTH LATIN SMALL LETTER I}f"], "must have names that Python takes"),
        (["tea", "tea"], "two parts of a state have the same name"),
        (["\N{MICRO SIGN}", "\N{GREEK SMALL LETTER MU}"], "two parts of a state have the same name"),
        (["\N{LATIN SMALL LIGATURE FI}", "fi"], "two parts of a state have the same name"),
        (["\N{LATIN SMALL LETTER LONG S}", "s"], "two parts of a state have the same name"),
        (["tea"], "state (1, 1) does not have the parts ['tea']"),
    ],
)
def test_bad_names_of_parts_are_named(parts, message, tmp_path) -> None:
    ib.Policy.uniform(named_shop()).save(tmp_path / "rule.json")
    found = json.loads((tmp_path / "rule.json").read_text())
    (tmp_path / "bad.json").write_text(json.dumps(found | {"state_parts": parts}))
    with pytest.raises(ib.InvalidInput) as refused:
        ib.Policy.load(tmp_path / "bad.json")
    assert message in str(refused.value) and "bad.json" in str(refused.value)


# ---- rules of thumb


class Problem:
    """As much of a problem as a policy is made for."""

    def __init__(self, pairs: Pairs, stages: int | None = None) -> None:
        self.pairs, self.shape = pairs, (pairs.n_pairs,) if stages is None else (stages, pairs.n_pairs)


def test_a_rule_is_a_function_or_a_dict_of_actions_or_probabilities() -> None:
    rule = {("dry", 1): {"pump": 0.25, "wait": 0.75}, ("wet", 1): "pump", ("dry", 2): "call"}
    by_dict = ib.Policy.from_rule(Problem(ROOMS), rule)
    by_function = ib.Policy.from_rule(Problem(ROOMS), lambda room: rule[room])
    assert by_dict.probabilities.tolist() == by_function.probabilities.tolist() == rooms().probabilities.tolist()
    staged = ib.Policy.from_rule(Problem(ROOMS, 3), rule)
    assert staged.probabilities.tolist() == [rooms().probabilities.tolist()] * 3


def test_a_rule_may_depend_on_the_stage() -> None:
    def rule(room, stage):
        return "call" if room == ("dry", 2) and stage == 1 else "wait" if room[0] == "dry" else "pump"

    staged = ib.Policy.from_rule(Problem(ROOMS, 2), rule)
    listed = [{room: rule(room, stage) for room in ROOMS.state_labels} for stage in range(2)]
    assert staged.at(0)["dry", 2] == {"wait": 1.0} and staged.at(1)["dry", 2] == {"call": 1.0}
    assert staged.probabilities.tolist() == ib.Policy.from_rule(Problem(ROOMS, 2), listed).probabilities.tolist()


def test_a_stage_with_a_default_is_the_stage_all_the_same() -> None:
    """(It was always the default, without a word.)"""
    problem, nothing = Problem(ROOMS, 2), object()

    def by_day(room, stage=7, other=nothing):
        assert other is nothing
        return "pump" if room == ("wet", 1) else "wait" if stage else ("call" if room[1] == 2 else "pump")

    def late(room, other=nothing, stage=7):  # by position it is not the stage that a second argument would be given
        assert other is nothing
        return by_day(room, stage)

    assert ib.Policy.from_rule(problem, late).at(0) == ib.Policy.from_rule(problem, late).at(1)
    first, second = (ib.Policy.from_rule(problem, by_day).at(stage) for stage in (0, 1))
    always = ib.Policy.from_rule(Problem(ROOMS, None), by_day)
    assert first[("dry", 1)] == {"pump": 1.0} and second[("dry", 1)] == {"wait": 1.0} and always == second


def test_the_optimum_by_label_gives_the_optimum() -> None:
    for problem in (ib.zoo.queue(), ib.zoo.media(), ib.zoo.admission()):
        best = ib.solve(problem).policy
        again = ib.Policy.from_rule(problem, best.by_label(0.0))
        assert again.probabilities.tolist() == best.probabilities.tolist()


@pytest.mark.parametrize(
    ("rule", "stages", "message"),
    [
        ({("dry", 1): "pump"}, None, "the rule has no action for state ('wet', 1), nor for 1 others"),
        (
            {**dict.fromkeys(ROOMS.state_labels, "pump"), "attic": "pump"},
            None,
            "has a state 'attic', which the problem",
        ),
        (lambda room: "pump", None, "state ('dry', 2) has no action 'pump'; it has 'wait', 'call'"),
        (lambda room: ["pump"], None, "state ('dry', 1): the rule gave ['pump']; it must be an action"),
        (lambda room: {"pump": "much"}, None, "state ('dry', 1), action 'pump': the probability must be a number"),
        (
            lambda room: {"call" if room[1] == 2 else "pump": 0.5},
            None,
            "state ('dry', 1): the policy's probabilities sum to 0.5",
        ),
        (lambda room, stage: "pump", None, "rule(state, stage) asks for the stage; the problem has none"),
        ([{}], None, "the rule is a list of 1, one for each stage; the problem has no stages"),
        ([{}], 2, "the rule is a list of 1, one for each stage; the problem has 2 stages"),
        (lambda room, stage: "call", 2, "stage 0, state ('dry', 1) has no action 'call'"),
        (lambda: "pump", None, "rule must be a function that is called as rule(state), found one that takes ()"),
        (
            lambda a, b, c: "pump",
            2,
            "rule must be a function that is called as rule(state) or rule(state, stage), found",
        ),
        ("pump", None, "a rule must be a function of the state, or a dict from state to action, found 'pump'"),
    ],
)
def test_a_rule_that_does_not_fit_is_named(rule, stages, message) -> None:
    with pytest.raises(ib.InvalidInput) as refused:
        ib.Policy.from_rule(Problem(ROOMS, stages), rule)
    assert message in str(refused.value)


def test_an_error_in_a_rule_says_where() -> None:
    with pytest.raises(ZeroDivisionError) as error:
        ib.Policy.from_rule(Problem(ROOMS), lambda room: 1 / 0)
    assert error.value.__notes__ == ["in the rule of a policy, at state ('dry', 1)"]


# ---- files


labels = st.recursive(
    st.one_of(
        st.text(max_size=4),
        st.sampled_from(
            [
                "12",
                "1.5",
                "true",
                "",
                "-",
                "\r",
                "a\rb",
                "x\r\ny",
                "1e5",
                "inf",
                "nan",
                'a"b',
                "a,b",
                "a\nb",
                " x ",
                "=1+1",
            ]
        ),
        st.integers(-(10**20), 10**20),
        st.floats(allow_nan=False),
        st.booleans(),
        st.none(),
    ),
    lambda inner: st.tuples(inner, inner) | st.tuples(inner),
    max_leaves=4,
)


@st.composite
def policies(draw) -> ib.Policy:
    alike = draw(st.sampled_from([labels, st.integers(0, 50), st.tuples(st.integers(0, 3), st.sampled_from("ab"))]))
    states = draw(st.none() | st.lists(alike, min_size=1, max_size=4, unique=True))
    n_states = draw(st.integers(1, 3)) if states is None else len(states)
    actions = draw(st.none() | st.lists(labels, min_size=1, max_size=3, unique=True))
    n_actions = draw(st.integers(1, 3)) if actions is None else len(actions)
    own = [draw(st.permutations(range(n_actions)))[: draw(st.integers(1, n_actions))] for _ in range(n_states)]
    offsets = np.cumsum([0, *map(len, own)])
    pairs = Pairs.create(offsets, np.concatenate(own), states, actions)
    stages = draw(st.none() | st.integers(1, 3))
    weights = st.floats(1e-3, 1.0) | st.just(0.0)
    rows = [[draw(weights) for _ in range(pairs.n_pairs)] for _ in range(stages or 1)]
    mass = np.array(rows)
    mass[:, offsets[:-1]] += 0.01
    shares = mass / pairs.sum_by_state(mass)[:, pairs.states]
    return ib.Policy(pairs, shares[0] if stages is None else shares)


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(policy=policies())
def test_a_policy_comes_back_with_its_labels(suffix, tmp_path_factory, policy) -> None:
    path = tmp_path_factory.mktemp("policies") / f"policy.{suffix}"
    try:
        policy.save(path)
    except ib.InvalidInput as refusal:
        assert "valid Unicode" in str(refusal)
        return
    again = ib.Policy.load(path)
    assert again.probabilities.tobytes() == policy.probabilities.tobytes()
    assert again.pairs.offsets.tolist() == policy.pairs.offsets.tolist()
    names = [each.pairs.state_label(s) for each in (policy, again) for s in range(len(policy))]
    assert repr(names[: len(policy)]) == repr(names[len(policy) :])
    actions = [[each.pairs.action_label(pair) for pair in range(each.pairs.n_pairs)] for each in (policy, again)]
    assert repr(actions[0]) == repr(actions[1])
    content = path.read_bytes()
    again.save(path)
    assert path.read_bytes() == content or suffix == "npz"  # where labels that are the numbers count as none


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_policy_from_a_file_is_worth_the_same(suffix, tmp_path) -> None:
    for problem in (ib.zoo.queue(), ib.zoo.media(), ib.zoo.admission()):
        best = ib.solve(problem)
        best.policy.save(tmp_path / f"best.{suffix}")
        found = ib.evaluate(problem, ib.Policy.load(tmp_path / f"best.{suffix}"))
        assert found.reward == ib.evaluate(problem, best.policy).reward


def test_how_the_files_look(tmp_path) -> None:
    rooms().save(tmp_path / "rooms.json")
    assert (tmp_path / "rooms.json").read_text() == (
        '{\n"kind": "policy", "version": 1, "stages": null,\n"actions": ["wait", "pump", "call"],\n"states": [\n'
        '{"state": ["dry", 1], "actions": ["pump", "wait"], "choose": [["pump", 0.25], ["wait", 0.75]]},\n'
        '{"state": ["wet", 1], "actions": ["pump"], "choose": [["pump", 1.0]]},\n'
        '{"state": ["dry", 2], "actions": ["wait", "call"], "choose": [["call", 1.0]]}\n]\n}\n'
    )
    rooms(2).save(tmp_path / "rooms.csv")
    lines = (tmp_path / "rooms.csv").read_text().splitlines()
    heading = "stage,state 1,state 2,action,probability,rows left"
    assert lines[:3] == [heading, "0,dry,1,pump,0.5,9", "0,dry,1,wait,0.5,8"]
    assert len(lines) == 11
    text = ib.Policy(Pairs.create([0, 1, 2], [0, 0], ["12", "x"], [(1, "a")]), [1.0, 1.0])
    text.save(tmp_path / "text.csv")
    assert (tmp_path / "text.csv").read_text().splitlines()[0] == "state:text,action 1,action 2,probability,rows left"


def test_a_spreadsheet_may_sort_and_mark(tmp_path) -> None:
    path, policy = tmp_path / "rooms.csv", rooms(2)
    policy.save(path)
    heading, *rows = path.read_text().splitlines()
    Random(0).shuffle(rows)
    path.write_bytes("\r\n".join([heading, *rows, ""]).encode("utf-8-sig"))
    again = ib.Policy.load(path)
    assert again.by_label() == policy.by_label()
    assert again.compare(policy).share == 0.0


def test_suffixes(tmp_path) -> None:
    for ask in (lambda: rooms().save(tmp_path / "rooms.toml"), lambda: ib.Policy.load("rooms.toml")):
        with pytest.raises(
            ib.InvalidInput, match=r"'\.toml' is not a policy format; it must be \.json, \.npz or \.csv"
        ):
            ask()
    with pytest.raises(ib.InvalidInput, match="the path of a policy must be text or a Path, found 3"):
        rooms().save(3)
    with pytest.raises(ib.InvalidInput, match=r"none\.json: cannot be read: no such file"):
        ib.Policy.load(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", 'is not a policy: a policy has "kind": "policy"'),
        ("{", "is not JSON text"),
        ('{"kind": "policy", "version": 2}', "has the format version 2; this version of inbounds reads 1"),
        ('{"kind": "policy", "version": 1.0}', "has the format version 1.0; this version of inbounds reads 1"),
        (
            '{"kind": "policy", "version": 1, "stages": null, "state_part": ["a"], "actions": [], "states": []}',
            "the policy has the unknown entry 'state_part'; there are: kind, version, stages, state_parts",
        ),
        (
            "STATE" + '{"state": 5, "action": ["a"], "choose": [["a", 1]]}',
            "state 5 has the unknown entry 'action'; there are: state, actions, choose",
        ),
        ("STATE" + '{"state": 5, "chose": [["a", 1]]}', "state 5 has the unknown entry 'chose'"),
        (
            '{"kind": "policy", "version": 1, "stages": 0, "actions": [], "states": []}',
            "stages must be null or a whole",
        ),
        ('{"kind": "policy", "version": 1, "actions": [], "states": []}', "the policy has no 'stages'"),
        (
            '{"kind": "policy", "version": 1, "stages": null, "actions": [], "states": []}',
            "the policy has no states: the ",
        ),
        ("STATE" + ", ".join(2 * ['{"state": 5, "choose": [["a", 1]]}']), "the list of states has 5 twice"),
        (
            "STATE" + '{"state": 0, "choose": [["a", 1]]}, {"state": false, "choose": [["a", 1]]}',
            "the states 0 and false are read as the same",
        ),
        (
            '{"kind": "policy", "version": 1, "stages": null, "actions": ["a", "a"], "states": []}',
            "the list of actions has 'a' twice",
        ),
        ('{"kind": "policy", "version": 1, "stages": null, "actions": ["a"], "states": [7]}', "state 0 has no 'state'"),
        ("STATE" + '{"state": 5}', "state 5 has no 'choose'"),
        ("STATE" + '{"state": 5, "choose": [["b", 1]]}', "state 5: the action 'b' is not in the list of actions"),
        ("STATE" + '{"state": 5, "choose": [["a", 0.5], ["a", 0.5]]}', "state 5, action 'a' is chosen twice"),
        ("STATE" + '{"state": 5, "choose": [["a", "1"]]}', "action 'a': the probability must be a number, found '1'"),
        ("STATE" + '{"state": 5, "choose": [["a", 1e999]]}', "the policy has probability inf"),
        ("STATE" + '{"state": 5, "choose": []}', "probabilities sum to 0"),
        (
            '{"kind": "policy", "version": 1, "stages": null, "actions": [1], '
            '"states": [{"state": 0, "choose": [[true, 1]]}]}',
            "the actions 1 and true are read as the same: if they are one, write it in one way",
        ),
        ("STATE" + '{"state": 5, "actions": [], "choose": []}', "no actions"),
        ("STATE" + '{"state": 5, "actions": ["c"], "choose": [["a", 1]]}', "chooses an action that it does not have"),
        (
            "STATE" + '{"state": {"x": 1}, "choose": [["a", 1]]}',
            "the label {'x': 1} of type dict; the label in a file is text, a number, true or false, null, or a list of",
        ),
    ],
)
def test_bad_json_is_named(tmp_path, text, message) -> None:
    whole = '{"kind": "policy", "version": 1, "stages": null, "actions": ["a", "c"], "states": [%s]}'
    (tmp_path / "bad.json").write_text(whole % text[5:] if text.startswith("STATE") else text)
    with pytest.raises(ib.InvalidInput) as refused:
        ib.Policy.load(tmp_path / "bad.json")
    assert str(refused.value).startswith(f"{tmp_path / 'bad.json'}: ") and message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows"),
        ("state,probability\n0,1", "must have a column 'action'"),
        ("state,action\n0,1", "has no column 'probability'"),
        ("state,action,probability\n0,a", "row 2 has 2 cells, the heading has 3"),
        ("state,action,probability\n0,a,much", "row 2: the probability must be a number, found 'much'"),
        ("state,action,probability\n0,a,1\n0,a,0", "row 3 has state 0, action 'a' once more"),
        ("stage,state,action,probability\n1,0,a,1", "state 0, action 'a' must have a row for each of the 2 stages"),
        ("stage,state,action,probability\n-1,0,a,1", "row 2: the stage must be a whole number from 0 on"),
        ("state 2,action,probability\n0,a,1", "must have a column 'state', or 'state 1'"),
        ("state:json,action,probability\n{,a,1", "column 'state:json' must hold JSON"),
        ("state,state,action,probability\n0,0,a,1", "two columns have the same heading, 'state'"),
        ("state;action;probability\n0;a;1.0", "the cells are separated by semicolons: separate the cells by commas"),
        ("state;action;probability\n0;a;0,5\n0;b;0,5", "by semicolons: separate the cells by commas, and write decim"),
        ('"state";"action";"probability"\n"0";"a";1', "the cells are separated by semicolons"),
        ("state\taction\tprobability\n0\ta\t1", "the cells are separated by tabs"),
        ("sep=,\nstate,action,probability\n0,a,1", "the first line, 'sep=,', is for a spreadsheet only: delete it"),
        ("sep=;\nstate;action;probability\n0;a;1", "delete it; and separate the cells by commas"),
        ("state,action,probability\n0,a,0,5\n0,b,0,5", "row 2 has 4 cells, the heading has 3: write decimals with a"),
        ('state,action,probability\n0,a,"0,5"\n0,b,"0,5"', "a number, found '0,5'; write decimals with a point"),
        ("state,action,probability,\n0,a,1", "row 2 has 3 cells, the heading has 4: delete the comma that ends the"),
        ("state, action, probability\n0, a, 1", "the heading ' action': write 'action'; in the rows too no space"),
        ("State,action,probability\n0,a,1", "has the heading 'State': write 'state'"),
        ("state Tea,STATE Rice,action,probability\n0,0,a,1", "has the heading 'STATE Rice': write 'state Rice'"),
        ("state,action,probability,Rows Left\n0,a,1,0", "has the heading 'Rows Left': write 'rows left'"),
        ("state,action,share\n0,a,1", "'share', which no policy has; is it 'probability', which is missing? Rename"),
        (",state,action,probability\n0,0,a,1", "column 1 has no heading; give it one, or delete it"),
        ("state,state:text,action,probability\n0,0,a,1", "'state' and 'state:text' are both for the state; delete one"),
        ("state 1,state 1:text,action,probability\n0,0,a,1", "'state 1:text' are both for part 1 of the state"),
        ("state,action,probability\n1,a,0.5\ntrue,b,0.5", "the states 1 and true are read as the same"),
        ("state,action,probability\n1,a,0.5\n1.0,b,0.5", "the states 1 and 1.0 are read as the same: if they are one,"),
        (
            "state,action,probability\n1,a,0.5\n01,b,0.5",
            "if they are two, let the heading of the column end in ':text'",
        ),
        ("state,action,probability\na,1,0.5\nb,01,0.5", "the actions 1 and 01 are read as the same"),
        ("state 1,state 2,action,probability\n1,x,a,1\n1.0,x,b,1", "the states 1, x and 1.0, x are read as the same"),
        ("state:json,action,probability\n1,a,1\ntrue,b,1", "the states 1 and true are read as the same"),
        (f"state,action,probability\n{'9' * 5000},a,1", "too large for a number; if it is text, let the heading end"),
        (f"state,action,probability\n{'0' * 5000}1,a,1", "too large for a number"),
        ("state,action,probability\n1e999,a,1", "column 'state' has '1e999', too large for a number"),
        ('state,action,probability\n0,"a', "is not a table of comma-separated values"),
        ("state,action,probability\n0,a,0.5", "probabilities sum to 0.5"),
        ("\nstate,action,probability\n\n0,a,0.5\n,,\n0,b,half", "row 6: the probability must be a number"),
        ("state:int,action,probability\n0,a,1", "has the heading 'state:int': write 'state'; only those of labels end"),
        ("stage,state,action,probability\n1,0,a,1\n2,0,a,1", "each of the 3 stages, 0 to 2, found 2"),
        ("state,action,probability\n\n0,a,1\n0,a,0", "row 4 has state 0, action 'a' once more"),
        ("state,action,probability\ntrue,a,0.5\nTRUE,b,0.5", "the states true and TRUE are read as the same"),
    ],
)
def test_bad_spreadsheets_are_named(tmp_path, text, message) -> None:
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(ib.InvalidInput) as refused:
        ib.Policy.load(tmp_path / "bad.csv")
    assert message in str(refused.value)


def test_an_editor_may_put_a_mark_in_front_of_json(tmp_path) -> None:
    rooms().save(tmp_path / "rooms.json")
    (tmp_path / "marked.json").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "rooms.json").read_bytes())
    assert ib.Policy.load(tmp_path / "marked.json") == rooms()


def test_a_comma_that_ends_every_row_makes_no_column(tmp_path) -> None:
    (tmp_path / "p.csv").write_text("state,action,probability,,\n0,a,1,,\n1,a,1,,\n")
    assert ib.Policy.load(tmp_path / "p.csv").by_label() == {0: {"a": 1.0}, 1: {"a": 1.0}}


def test_a_spreadsheet_writes_truth_in_capitals_and_leaves_rows_empty(tmp_path) -> None:
    (tmp_path / "p.csv").write_text("state,action,probability\nFALSE,TRUE,1\n,,\nTRUE,TRUE,1\n,,\n")
    assert ib.Policy.load(tmp_path / "p.csv").by_label() == {False: {True: 1.0}, True: {True: 1.0}}
    capitals = ib.Policy(Pairs.create([0, 1, 2], [0, 0], ["TRUE", "FALSE"], ["go"]), [1.0, 1.0])
    capitals.save(tmp_path / "capitals.csv")
    assert ib.Policy.load(tmp_path / "capitals.csv") == capitals


def test_labels_that_the_advice_tells_apart_are_two(tmp_path) -> None:
    (tmp_path / "p.csv").write_text(f"state:text,action,probability\n1,a,1\n01,a,1\ntrue,a,1\n{'9' * 5000},a,1\n")
    assert [*ib.Policy.load(tmp_path / "p.csv").by_label()] == ["1", "01", "true", "9" * 5000]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_parts_that_are_equal_and_of_other_kinds_come_back(suffix, tmp_path) -> None:
    states = ((1, "x"), (1.0, "y"), (True, "z"), (-0.0, "x"), (0.0, "y"), (math.inf, "x"), (10**1220, "x"))
    pairs = Pairs(np.arange(len(states) + 1), np.zeros(len(states), dtype=np.int64), states, (10**1220,))
    labelled = ib.Policy(pairs, np.ones(len(states)))
    labelled.save(tmp_path / f"p.{suffix}")
    assert repr([*ib.Policy.load(tmp_path / f"p.{suffix}").by_label()]) == repr([*labelled.by_label()])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damaged_files_end_in_one_message(suffix, tmp_path) -> None:
    path, rng = tmp_path / f"rooms.{suffix}", Random(suffix)
    rooms(2).save(path)
    whole = path.read_bytes()
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(content))
            content[place : place + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 3))
        path.write_bytes(content)
        try:
            ib.Policy.load(path)
        except ib.InvalidInput as refused:
            assert "\n" not in str(refused).replace(str(path), "")[:40]


# ---- frames


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_policy_as_a_frame(library, monkeypatch) -> None:
    other = pytest.importorskip(library)
    for name in ("pandas", "polars"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, library, other)
    found = rooms(2).to_frame()
    assert type(found).__module__.startswith(library)
    assert list(found.columns) == ["stage", "state 1", "state 2", "action", "probability"]
    assert list(found["action"])[:3] == ["pump", "wait", "pump"] and list(found["stage"]) == [0] * 5 + [1] * 5
    mixed = ib.Policy(Pairs.create([0, 1, 2], [0, 0], ["a", 3]), [1.0, 1.0]).to_frame()
    assert list(map(str, mixed["state"])) == ["a", "3"]
    nested = ib.Policy(Pairs.create([0, 1, 2], [0, 0], [Stock((0, 1), 2), Stock((1, 1), 2)]), [1.0, 1.0]).to_frame()
    assert str(next(iter(nested["state"]))) == "Stock(tea=(0, 1), rice=2)"


def test_without_either_library_one_sentence(monkeypatch) -> None:
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)  # cannot be imported
    with pytest.raises(ib.InvalidInput, match="a data frame needs pandas or polars: pip install pandas"):
        rooms().to_frame()


# ---- equality


def test_policies_are_equal_by_value(tmp_path) -> None:
    for policy in (rooms(), rooms(3), ib.Policy.uniform(ib.zoo.queue())):
        for suffix in ("json", "npz"):
            policy.save(tmp_path / f"same.{suffix}")
            again = ib.Policy.load(tmp_path / f"same.{suffix}")
            assert again == policy and hash(again) == hash(policy) and len({again, policy}) == 1
    renamed = Pairs.create(ROOMS.offsets, ROOMS.actions, ROOMS.state_labels, ["a", "b", "c"])
    others = (
        ib.Policy(ROOMS, [0.25 + 1e-15, 0.75, 1.0, 0.0, 1.0]),  # less than what is normalised away
        ib.Policy(renamed, rooms().probabilities),
        rooms(1),
        "rooms",
    )
    assert all(other != rooms() for other in others)


# ---- differences


def test_where_two_policies_differ() -> None:
    other = ib.Policy(ROOMS, [0.5, 0.5, 1.0, 1.0, 0.0])
    found = rooms().compare(other, [0.1, 0.3, 0.5, 0.06, 0.04])
    assert found.states.tolist() == [0, 2] and found.stages is None
    np.testing.assert_allclose(found.weights, [0.4, 0.1])
    np.testing.assert_allclose(found.distances, [0.25, 1.0])
    assert found.share == pytest.approx(0.2)
    assert repr(found) == "Difference(20.00% of the time, 2 states)"
    alike = rooms().compare(other)
    assert alike.states.tolist() == [2, 0] and alike.share == pytest.approx((0.25 + 1.0) / 3)
    lines = str(alike).splitlines()
    assert lines[0] == "They act differently in 41.67% of the states." and repr(alike).count("of the states") == 1
    assert lines[2].split() == ["state", "share", "differ", "this", "other"] and "time" not in str(alike)
    assert "in 41.67% of the states." in alike._repr_html_() and "<th>share</th>" in alike._repr_html_()
    table = str(found).splitlines()
    assert table[0] == "They act differently 20.00% of the time." and all(len(line) <= 80 for line in table)
    assert table[2].split() == ["state", "time", "differ", "this", "other"] and "<th>time</th>" in found._repr_html_()
    assert list(found.to_frame()["other"]) == ["pump 0.5, wait 0.5", "wait"]


def test_policies_in_another_order_differ_by_label_only() -> None:
    shuffled = Pairs.create(
        [0, 1, 3, 5], [1, 0, 1, 2, 0], [("wet", 1), ("dry", 1), ("dry", 2)], ["wait", "pump", "call"]
    )
    same = ib.Policy(shuffled, [1.0, 0.75, 0.25, 1.0, 0.0])
    assert rooms().compare(same).share == 0.0
    assert str(rooms().compare(same)) == "The two policies do the same in every state."


def test_one_of_two_may_be_stationary() -> None:
    problem = ib.zoo.media()
    staged, uniform = ib.solve(problem).policy, ib.Policy.uniform(problem).at(0)
    assert uniform.horizon is None
    assert staged.compare(uniform).share == uniform.compare(staged).share > 0.0


def test_differences_over_stages_are_weighted_by_stage() -> None:
    media = ib.zoo.media()
    best, uniform = ib.solve(media), ib.Policy.uniform(media)
    found = best.policy.compare(uniform, best)
    naive = sum(
        0.5
        * abs(best.policy.at(h).table()[s] - uniform.at(h).table()[s]).sum()
        * best.occupancy[h][2 * s : 2 * s + 2].sum()
        for h in range(10)
        for s in range(10)
    )
    assert found.share == pytest.approx(naive / 10)
    assert {(int(h), int(s)) for h, s in zip(found.stages, found.states, strict=True)} <= {
        (h, s) for h in range(10) for s in range(10)
    }
    assert "... and " in str(found)


def test_many_differences_are_summed_up_by_action() -> None:
    """Of 60 states 40 have another likeliest action, in two ways, and 15 take the same one more often."""
    pairs = Pairs.create(
        3 * np.arange(61), state_labels=[f"room {s}" for s in range(60)], action_labels=["a", "b", "c"]
    )
    one, other = np.tile([0.8, 0.2, 0.0], (60, 1)), np.tile([0.8, 0.2, 0.0], (60, 1))
    other[:25], other[25:40], other[40:55] = [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]
    found = ib.Policy(pairs, one.ravel()).compare(ib.Policy(pairs, other.ravel()))
    summed = [("a", "b", 25 * 0.8 / 60, 25), ("a", "c", 15 / 60, 15), ("a", "a", 15 * 0.2 / 60, 15)]
    for (*names, share, states), (*named, expected, counted) in zip(found.by_action, summed, strict=True):
        assert (names, states) == (named, counted) and share == pytest.approx(expected)
    assert sum(share for *_, share, _ in found.by_action) == pytest.approx(found.share)
    lines = str(found).splitlines()
    assert lines[2].split() == ["this", "likeliest", "other", "likeliest", "share", "states"]
    assert lines[4].split() == ["a", "b", "33.33%", "25"] and "a, more or less often" in lines[6]
    assert found._repr_html_().count("<table") == 2 and all(len(line) <= 80 for line in lines)
    media = ib.zoo.media()
    staged = ib.solve(media).policy.compare(ib.Policy.uniform(media))
    assert sum(states for *_, states in staged.by_action) == len(staged) and "states at stages" in str(staged)


def test_an_occupancy_of_another_shape_is_refused() -> None:
    for bad in ([1.0], [-1.0, 1, 1, 1, 1], [math.inf, 1, 1, 1, 1], "much"):
        with pytest.raises(ib.InvalidInput, match="the occupancy must be numbers"):
            rooms().compare(rooms(), bad)
    for bad, found in (([0.0] * 5, "is 0 everywhere"), ([1e308] * 5, "is too large")):
        with pytest.raises(ib.InvalidInput, match=f"the occupancy {found}"):
            rooms().compare(rooms(), bad)


# ---- a controller without the library


def test_the_controller_is_short_and_needs_nothing() -> None:
    """Thirty lines of code, fifty with what explains them, as the page on deployment says."""
    source = (ROOT / "examples" / "controller.py").read_text()
    explained = {
        number for text in _docstrings(ast.parse(source)) for number in range(text.lineno, text.end_lineno + 1)
    }
    lines = source.splitlines()
    code = [line for number, line in enumerate(lines, 1) if line.strip() and number not in explained]
    assert len(code) <= 30 and len(lines) < 50
    assert "thirty lines of code, fifty with what explains them" in (ROOT / "docs" / "deploy.md").read_text()
    imported = {line.split()[1] for line in code if line.startswith(("import", "from"))}
    assert imported <= {"json", "random", "sys"}


def _docstrings(tree):
    """The statements of a module that are its docstrings."""
    for owner in (tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))):
        if ast.get_docstring(owner) is not None:
            yield owner.body[0]


def test_the_controller_takes_a_state_as_json_has_it(tmp_path) -> None:
    act, load = map(runpy.run_path(str(ROOT / "examples" / "controller.py")).get, ("act", "load"))
    rooms().save(tmp_path / "rooms.json")
    assert act(load(tmp_path / "rooms.json"), json.loads('["wet", 1]')) == "pump"
    (tmp_path / "marked.json").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "rooms.json").read_bytes())  # by an editor
    assert load(tmp_path / "marked.json") == load(tmp_path / "rooms.json")


def test_the_controller_says_of_any_other_file_that_it_is_one(tmp_path) -> None:
    load = runpy.run_path(str(ROOT / "examples" / "controller.py"))["load"]
    rooms().save(tmp_path / "rooms.csv")
    ib.zoo.queue().save(tmp_path / "model.npz")
    (tmp_path / "other.json").write_text("[1, 2]")
    (tmp_path / "later.json").write_text('{"kind": "policy", "version": 2}')
    (tmp_path / "cut.json").write_text('{"kind": "policy", "version": 1')
    for name in ("rooms.csv", "model.npz", "other.json", "later.json", "cut.json"):
        with pytest.raises(ValueError, match=rf"{name} is no policy in JSON \(version 1\)") as caught:
            load(tmp_path / name)
        assert caught.type is ValueError
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.json")


def test_the_controller_draws_what_the_policy_says(tmp_path) -> None:
    namespace = runpy.run_path(str(ROOT / "examples" / "controller.py"))
    rooms().save(tmp_path / "rooms.json")
    rooms(2).save(tmp_path / "staged.json")
    rules = namespace["load"](tmp_path / "rooms.json")
    assert {state: dict(map(tuple, choices)) for state, choices in rules.items()} == rooms().by_label(0.0)
    draws, rng = 4_000, Random(0)
    share = sum(namespace["act"](rules, ("dry", 1), rng=rng) == "pump" for _ in range(draws)) / draws
    assert abs(share - 0.25) < 5 * np.sqrt(0.25 * 0.75 / draws)
    staged = namespace["load"](tmp_path / "staged.json")
    assert namespace["act"](staged, ("dry", 2), 1) == "call"


def test_the_controller_throws_the_coin_of_a_mixture_when_it_loads(tmp_path) -> None:
    namespace = runpy.run_path(str(ROOT / "examples" / "controller.py"))
    other = ib.Policy.from_rule(Problem(ROOMS), lambda room: "wait" if room[0] == "dry" else "pump")
    ib.Mixture([0.3, 0.7], [rooms(), other]).save(tmp_path / "nights.json")
    episodes, rng, first = 2_000, Random(1), 0
    for _ in range(episodes):
        rules = namespace["load"](tmp_path / "nights.json", rng)
        drawn = {state: dict(map(tuple, choices)) for state, choices in rules.items()}
        assert drawn in (rooms().by_label(0.0), other.by_label(0.0))
        first += drawn == rooms().by_label(0.0)
    assert abs(first / episodes - 0.3) < 5 * np.sqrt(0.3 * 0.7 / episodes)


def test_the_controller_says_what_is_wrong_in_one_sentence(tmp_path) -> None:
    act, load = map(runpy.run_path(str(ROOT / "examples" / "controller.py")).get, ("act", "load"))
    rooms().save(tmp_path / "rooms.json")
    rooms(3).save(tmp_path / "staged.json")
    plain, staged = load(tmp_path / "rooms.json"), load(tmp_path / "staged.json")
    for rules, arguments, message in (
        (plain, (("dry", 9),), r"the policy has no state \('dry', 9\)"),
        (staged, (("dry", 1),), "the policy has 3 stages, counted from 0; found stage None"),
        (staged, (("dry", 1), 3), "the policy has 3 stages, counted from 0; found stage 3"),
        (staged, (("dry", 1), -1), "found stage -1"),
        (plain, (("dry", 1), 0), "the policy has no stages, counted from 0; found stage 0"),
    ):
        with pytest.raises(ValueError, match=message):
            act(rules, *arguments)
    command = [sys.executable, "-I", "-S", str(ROOT / "examples" / "controller.py"), str(tmp_path / "rooms.json"), "7"]
    found = subprocess.run(command, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    assert found.returncode == 1 and found.stderr == "ValueError: the policy has no state 7\n"


def test_the_controller_runs_alone(tmp_path) -> None:
    rooms().save(tmp_path / "rooms.json")
    state = json.dumps(["wet", 1])
    command = [
        sys.executable,
        "-I",
        "-S",
        str(ROOT / "examples" / "controller.py"),
        str(tmp_path / "rooms.json"),
        state,
    ]
    found = subprocess.run(command, capture_output=True, text=True, env={"PATH": os.environ["PATH"]}, check=True)
    assert found.stdout == "pump\n"


def test_spreadsheets_read_the_table(tmp_path) -> None:
    """As any reader of comma-separated values sees it."""
    rooms().save(tmp_path / "rooms.csv")
    with open(tmp_path / "rooms.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert rows[0] == {"state 1": "dry", "state 2": "1", "action": "pump", "probability": "0.25", "rows left": "4"}


def test_a_table_that_lost_rows_is_noticed(tmp_path):
    """Wherever it was cut between two rows; rows in another order are all there; a table of one's own has no count."""
    for policy in (ib.Policy.uniform(ib.zoo.queue()), ib.Policy.uniform(ib.zoo.media())):
        path = tmp_path / "policy.csv"
        policy.save(path)
        heading, *rows = path.read_text().splitlines()
        for kept in range(1, len(rows)):
            path.write_text("\n".join([heading, *rows[:kept]]))
            with pytest.raises(ib.InvalidInput, match="rows were lost or added"):
                ib.Policy.load(path)
        path.write_text("\n".join([heading, *rows[::-1]]))
        assert len(ib.Policy.load(path)) == len(policy)
        own = [row.rpartition(",")[0] for row in (heading, *rows)]
        path.write_text("\n".join(own))
        assert np.array_equal(ib.Policy.load(path).probabilities, policy.probabilities)


def test_a_file_of_another_kind_says_what_it_is(tmp_path):
    queue = ib.zoo.queue()
    uniform = ib.Policy.uniform(queue)
    kinds = {"model": (queue, ib.load), "policy": (uniform, ib.Policy.load)}
    kinds["mixture"] = (ib.Mixture([1.0], [uniform]), ib.Mixture.load)
    for kind, (record, load) in kinds.items():
        record.save(tmp_path / f"{kind}.npz")
        assert OTHERS[f"a {kind}"][0] == list({"model": npz, "policy": policy_npz, "mixture": mixture_npz}[kind].LAYOUT)
        for other, (_, load_other) in kinds.items():
            if other != kind:
                with pytest.raises(ib.InvalidInput, match=f"holds a {kind}, where a {other} is wanted; {_name(load)}"):
                    load_other(tmp_path / f"{kind}.npz")
    save_certificate(ib.certify(ib.slater(queue).policy, queue), tmp_path / "certificate.json")
    with pytest.raises(ib.InvalidInput, match=r"is not a policy.* this is the kind 'inbounds certificate'"):
        ib.Policy.load(tmp_path / "certificate.json")


def _name(load):
    return f"ib.{load.__qualname__}"


@pytest.mark.parametrize("suffix", [".json", ".csv", ".npz"])
def test_numbers_are_labels_after_a_file_too(suffix, tmp_path) -> None:
    """The same rules, actions listed the other way round, so that states are found in another order, too."""

    def ring(listed: list[int]) -> ib.CMDP:
        return ib.build(
            start=0,
            actions=lambda state: listed,
            transitions=lambda state, step: [((state + step) % 5, 0.75), (state, 0.25)],
            reward=lambda state, step: float(state * state + step),
            constraints=[],
            discount=0.9,
        )

    one, other = ring([0, 1, 2]), ring([2, 1, 0])
    assert one.pairs.state_labels != other.pairs.state_labels and one.pairs.action_labels != other.pairs.action_labels
    for own, asked in ((one, other), (other, one)):
        policy = ib.Policy.from_rule(own, lambda state: {1: 0.25, 2: 0.75} if state < 3 else {0: 0.5, 2: 0.5})
        policy.save(tmp_path / f"rule{suffix}")
        again = ib.Policy.load(tmp_path / f"rule{suffix}")
        for each in (policy, again):
            assert ib.evaluate(asked, each).reward == pytest.approx(ib.evaluate(own, policy).reward, rel=1e-12)


class Other:
    def __repr__(self) -> str:
        return "other"


@pytest.mark.parametrize(
    "labels",
    [
        [np.datetime64("2026-01-01"), np.datetime64("2026-01-02")],
        [1, 2**70],
        ["a", "b\ud800"],
        [Other(), Other()],
        [Decimal("0.1"), Decimal("1e500")],
        [frozenset("a"), frozenset("b")],
    ],
    ids=["dates", "beyond 64 bits", "no text for a file", "objects", "decimals", "sets"],
)
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_has_a_column_for_every_kind_of_label(
    labels: list[Any], library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(library)
    monkeypatch.setattr("inbounds.frames._LIBRARIES", (library,))
    first, second = labels
    cmdp = ib.build(
        start=first,
        actions=lambda s: ["go"],
        transitions=lambda s, a: {second if s == first else first: 1.0},
        reward=lambda s, a: 1.0,
        discount=0.9,
    )
    policy = ib.Policy.uniform(cmdp)
    for found in (policy.to_frame(), ib.simulate(cmdp, policy, steps=3).to_frame()):
        assert len(found) >= 2 and repr(found)
