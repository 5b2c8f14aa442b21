"""Numbers, lists, switches and paths from outside: one reader for each, and what it refuses, by name."""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import inbounds as ib
from fuzz import arguments
from inbounds.algorithms import ALGORITHMS
from inbounds.cli import main
from inbounds.inputs import plain_number, shown, whole_number
from inbounds.tables import WIDTH


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (2, 2),
        (np.int32(2), 2),
        (0.5, 0.5),
        (np.float32(0.5), 0.5),
        (np.array(0.5), 0.5),
        (Fraction(1, 2), 0.5),
        (Decimal("0.5"), 0.5),
        (10**400, 10**400),
        (float("inf"), float("inf")),
        (True, None),
        (np.True_, None),
        ("2", None),
        (b"2", None),
        (1 + 0j, None),
        (np.complex128(1.0), None),
        (np.array([0.5]), None),
        (np.array("0.5"), None),
        (np.timedelta64(1, "ns"), None),
        (np.array(np.timedelta64(1, "ns")), None),
        (np.ma.masked, None),
        (Fraction(10**400, 3), None),
        (Decimal("sNaN"), None),
        (None, None),
    ],
)
def test_one_reader_for_all_kinds_of_numbers(value: Any, number: Any) -> None:
    found = plain_number(value)
    assert found == number and type(found) is type(number)


def test_whole_numbers_are_whole_and_no_larger_than_floats_can_count() -> None:
    assert [whole_number(value, "x") for value in (3, 3.0, np.array(3), Fraction(3))] == [3] * 4
    for value in (2.7, "2", True, float("inf"), float("nan"), 0, None):
        with pytest.raises(ib.InvalidInput, match="x must be a whole number of at least 1, found"):
            whole_number(value, "x")
    with pytest.raises(ib.InvalidInput, match="x must be a whole number of at most 9,007,199,254,740,992"):
        whole_number(10**400, "x")


def test_a_message_is_short_whatever_it_shows() -> None:
    assert len(shown(10**400)) <= 100 and len(shown(["x" * 1_000] * 1_000)) <= 2_000
    assert shown(10**5_000) == "a very long int"  # which Python does not print
    assert shown("x") == "'x'"


@pytest.mark.parametrize(
    ("sizes", "more", "message"),
    [
        ((2.7, 3.9, 1, 0.5), {}, "n_states must be a whole number of at least 1, found 2.7"),
        (("2", 3, 1, 0.5), {}, "n_states must be a whole number"),
        ((float("inf"), 3, 1, 0.5), {}, "n_states must be a whole number"),
        ((10**400, 3, 1, 0.5), {}, "n_states must be a whole number of at most"),
        ((2, 1, 1, 0.5), {}, "n_pairs, of which every state has one, must be a whole number of at least 2, found 1"),
        ((2, 3, 1, "0.5"), {}, "discount must be a number"),
        ((2, 3, 1, 0.5), {"epsilon": "0.1"}, "epsilon must be a number in"),
        ((2, 3, 1, 0.5), {"slater": "0.5"}, "slater must be a number in"),
        ("2315", {}, "the problem of a plan must be a CMDP, a Simulator, or Sizes"),
    ],
)
def test_plans_take_numbers_only(sizes: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ib.InvalidInput, match=message):
        ib.plan(sizes, **{"epsilon": 0.1, "slater": 0.5} | more)


def test_fractions_are_numbers() -> None:
    queue = ib.zoo.queue()
    assert ib.truncate(queue, Fraction(1, 8)).problem == ib.truncate(queue, 0.125).problem
    assert ib.CSPDA(kappa=Fraction(1, 8)) == ib.CSPDA(kappa=0.125)
    assert queue.with_bound("flow", at_least=Decimal("0.5")) == queue.with_bound("flow", at_least=0.5)


def test_settings_beyond_what_can_be_reckoned_with_are_refused() -> None:
    for value in (5e-324, 1.7e308):
        with pytest.raises(ib.InvalidInput, match=r"CRPO: step must be 0, or of a size from 1e-100 to 1e\+12, found"):
            ib.CRPO(step=value)


def test_comparisons_are_of_algorithms_with_names() -> None:
    queue = ib.zoo.queue()
    with pytest.raises(ib.InvalidInput, match="algorithms: the name of settings must be text, found 5"):
        ib.compare(queue, {5: ib.CSPDA()})  # type: ignore[dict-item]
    for nothing in ([], {}, ()):
        with pytest.raises(ib.InvalidInput, match="algorithms must be a list of names"):
            ib.compare(queue, nothing)


def test_mixtures_are_mixed_drawn_from_and_compared() -> None:
    queue = ib.zoo.queue()
    policies = [ib.Policy.uniform(queue), ib.Policy.deterministic(queue, queue.offsets[:-1])]
    mixture = ib.Mixture([0.25, 0.75], policies)
    assert ib.mix(queue, mixture) == ib.mix(queue, policies, [0.25, 0.75])
    assert mixture == ib.Mixture([0.25, 0.75], policies) and len({mixture, ib.Mixture([0.25, 0.75], policies)}) == 1
    assert mixture != ib.Mixture([0.75, 0.25], policies) and mixture != "a mixture"
    for call, wrong in ((mixture.draw, None), (lambda rng: policies[0].act(0, rng), 7)):
        with pytest.raises(ib.InvalidInput, match=r"rng must be a numpy\.random\.Generator"):
            call(wrong)  # type: ignore[arg-type]


def test_a_reward_just_beyond_its_range_is_shown_with_its_digits() -> None:
    simulator = ib.Simulator(
        lambda state, action, rng: (0, 1.0000001, []),
        lambda rng: 0,
        states=1,
        actions=[0],
        discount=0.5,
        reward_range=(0, 1),
    )
    with pytest.raises(ib.InvalidInput, match=r"gave the reward 1.0000001, outside reward_range \(0, 1\)"):
        ib.estimate(simulator, ib.Policy.uniform(simulator), samples=10)


# The command line


def invoked(*words: str) -> Any:
    return CliRunner().invoke(main, list(words))


def test_a_bound_and_a_parameter_are_given_once() -> None:
    twice = invoked("solve", "queue", "--bound", "service=1", "--bound", "0=0.5")
    assert twice.exit_code == 2 and "--bound gives constraint 'service' two bounds; give one" in twice.output
    twice = invoked("solve", "queue", "--set", "buffer=3", "--set", "buffer=4")
    assert twice.exit_code == 2 and "--set gives buffer two values; give one" in twice.output


def test_json_says_that_no_policy_is_in_bounds_and_why() -> None:
    found = invoked("solve", "queue", "--bound", "service=1000", "--json")
    said = json.loads(found.stdout)
    assert found.exit_code == 3 and said["status"] == "infeasible" and said["conflict"] == ["service"]
    assert said["slater"] < 0 and said["constraints"][0]["bound"] == 1000.0


def test_json_says_that_a_limit_came_first() -> None:
    found = invoked("solve", "garnet", "--set", "states=3000", "--time-limit", "1e-6", "--json")
    said = json.loads(found.stdout)
    assert found.exit_code == 5 and said["status"] == "time limit"


@pytest.mark.parametrize("command", [("algorithms", "cspda"), ("algorithms", "triple-q"), ("zoo", "queue")])
def test_what_is_printed_fits_on_a_terminal(command: tuple[str, ...]) -> None:
    lines = invoked(*command).output.split("\n")
    assert len(lines) > 20 and max(map(len, lines)) <= WIDTH


def test_a_certificate_fits_on_a_terminal() -> None:
    queue = ib.zoo.queue()
    assert max(map(len, str(ib.solve(queue).certificate).split("\n"))) <= WIDTH


@pytest.mark.parametrize(
    ("heading", "row", "message"),
    [
        ("state,action,probability", "0,0,0.5_0", "row 2: the probability must be a number, found '0.5_0'"),
        ("state,action,probability", "0,0,\uff11", "row 2: the probability must be a number, found '\uff11'"),
        ("state,action,probability,note", "0,0,1,x", "has a column 'note', which no policy has; delete it"),
    ],
)
def test_tables_of_policies_are_plain(heading: str, row: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "policy.csv").write_text(f"{heading}\n{row}\n", encoding="utf-8")
    with pytest.raises(ib.InvalidInput, match=message):
        ib.Policy.load(tmp_path / "policy.csv")


# The attack


def test_every_public_name_is_attacked(tmp_path: Path) -> None:
    attacked = {name.split(".")[0].split(" ")[0] for name in arguments.Calls(tmp_path).all}
    records = {"Estimate", "Infeasible", "InvalidInput", "Stopped"}  # which the library makes
    algorithms = {one.__name__ for one in arguments.ALGORITHMS.values()}
    assert set(ib.__all__) - attacked - records - algorithms == set()


def test_what_is_taken_for_a_number_is_noticed() -> None:
    def takes_all(count: int = 1) -> None: ...

    def names_nothing(count: int = 1) -> None:
        raise ib.InvalidInput("something is wrong")

    assert arguments.judged(takes_all, {}, {"count": "text"})[1] == "text is taken for the number count"
    assert arguments.judged(takes_all, {}, {"count": "one"}) == ("answered", "")
    assert "names none of count" in arguments.judged(names_nothing, {}, {"count": "text"})[1]


class Unanswering:
    """Neither true nor false, nor equal, nor larger, nor smaller."""

    def _refuse(self, *others: Any) -> Any:
        raise ArithmeticError("asked before it was read")

    __bool__ = __eq__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_setting_is_asked_for_its_truth_before_it_is_read(name: str) -> None:
    """Of the constructor and of the preset, every setting: taken, or refused by name."""
    odd = (Unanswering(), np.eye(2), np.array([]), np.array(["a", "b"]), np.ma.masked, object(), [np.eye(2)], {})
    for made in (ALGORITHMS[name], ALGORITHMS[name].practical):
        for each in dataclasses.fields(ALGORITHMS[name]):
            for value in odd:
                try:
                    made(**{each.name: value})
                except ib.InvalidInput as refused:
                    assert each.name in str(refused), (made, each.name, value)
