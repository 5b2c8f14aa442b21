"""`inbounds solve` and `inbounds frontier`: exit codes, limits, and what is written when there is no policy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import inbounds as ib
from inbounds.cli import main
from inbounds.exact.solution import Solution
from messages import one_message, sentence


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def saved(tmp_path: Path):
    def save(bound: float, states: int = 0) -> Path:
        if states:
            cmdp = ib.zoo.garnet(states=states, actions=4, constraints=2, discount=0.999, seed=1)
        else:
            cmdp = ib.CMDP(
                offsets=[0, 2, 4],
                transition=[[1, 0], [0.5, 0.5], [0, 1], [0.3, 0.7]],
                reward=[0.0, 1.0, 0.5, 2.0],
                constraints=[ib.Constraint(np.array([0.0, 1.0, 0.0, 0.5]), at_most=bound, name="c")],
                initial=[1, 0],
                discount=0.9,
            )
        cmdp.save(tmp_path / "model.npz")
        return tmp_path / "model.npz"

    return save


def test_what_is_not_proved_is_exit_code_4(saved) -> None:
    model = saved(-1e-12)
    result = run("solve", model)
    assert result.exit_code == 4 and "not proved to be in bounds" in result.output
    assert "gap is not as small" not in result.output  # it is: what is missing is a policy with room for the proof
    answer = run("solve", model, "--json")
    assert answer.exit_code == 4
    assert json.loads(answer.output)["in_bounds"] is False and json.loads(answer.output)["status"] == "not proved"
    assert run("solve", saved(0.0)).exit_code == 0


def test_the_proof_that_no_policy_is_in_bounds_is_written_too(saved, tmp_path: Path) -> None:
    model, copy, proof = saved(-0.1), tmp_path / "copy.npz", tmp_path / "proof.json"
    result = run("solve", model, "--save-model", copy, "--certificate", proof)
    assert result.exit_code == 3 and "no policy is in bounds" in result.stderr
    checked = run("verify", copy, proof)
    assert checked.exit_code == 0 and checked.output.startswith("ACCEPTED: no policy is in bounds\n")


def test_a_time_limit_is_exit_code_5_with_what_is_known(saved, tmp_path: Path) -> None:
    model = saved(0.0, states=150)
    result = run("solve", model, "--method", "bundle", "--time-limit", "1e-9", "--certificate", tmp_path / "p.json")
    assert result.exit_code == 5 and "time limit" in result.output + result.stderr
    assert not (tmp_path / "p.json").exists()
    assert run("solve", model, "--method", "lp", "--time-limit", "1e-9").exit_code == 5
    curve = run("frontier", model, "--constraint", "0", "--time-limit", "1e-9")
    assert curve.exit_code == 5 and curve.stderr.startswith("inbounds: time limit reached")


def test_a_frontier_that_is_cut_short_is_written(saved, tmp_path: Path, monkeypatch) -> None:
    frontier = ib.frontier
    monkeypatch.setattr(ib, "frontier", lambda *a, time_limit, **k: frontier(*a, **k, iterations=25))
    out = tmp_path / "out"
    result = run("frontier", saved(0.0, states=150), "--constraint", "0", "--points", "30", "--output", out)
    assert result.exit_code == 5 and "iteration limit: tighter bounds are missing." in result.output
    assert (out / "frontier.csv").exists()


def test_wrong_limits_are_exit_code_2() -> None:
    for command in (("solve", "queue"), ("frontier", "queue", "--constraint", "0")):
        result = run(*command, "--time-limit", "0")
        assert result.exit_code == 2 and "time_limit must be a number above 0" in result.stderr


# Coins


def test_over_a_horizon_states_are_counted_at_every_stage() -> None:
    shown = run("solve", "media", "--coins", "any")
    coins = json.loads(run("solve", "media", "--coins", "any", "--json").output)["coins"]
    assert coins > 10 and f"randomises in {coins} of 100 states (10 at each of 10 stages)." in shown.output


def test_a_coin_that_is_counted_is_shown(tmp_path: Path) -> None:
    """Next to none: the proof of a bound that is kept exactly needs a little room."""
    (tmp_path / "shop.toml").write_text(
        'horizon = 2\ninitial = "shop"\nconstraint = [{ name = "stock", at_least = 1 }]\npair = [\n'
        '{ state = "shop", action = "sell", stage = 0, reward = 1, next = "shop" },\n'
        '{ state = "shop", action = "sell", stage = 1, reward = 0.5, next = "shop" },\n'
        '{ state = "shop", action = "keep", signals = { stock = 1 }, next = "shop" },\n]\n'
    )
    shown = run("solve", tmp_path / "shop.toml", "--policy").output
    facts = json.loads(run("solve", tmp_path / "shop.toml", "--json").output)
    assert facts["coins"] == 1 and 0.0 < facts["policy"][0][1] < 1e-9
    assert "randomises in 1 of 2 states" in shown
    assert f"  shop: sell 1, keep {facts['policy'][0][1]:.4g}\nstage 1\n  shop: keep 1\n" in shown


def test_how_many_states_randomise_and_how_far_the_prices_hold() -> None:
    shown = run("solve", "queue")
    assert shown.exit_code == 0 and "The policy randomises in 2 of 6 states." in shown.output
    table = shown.output[shown.output.index("is proved):") :].splitlines()
    assert table[1].split() == ["constraint", "bound", "price", "from", "to", "below", "above"]
    assert table[3].split() == ["service", ">=", "0", "0.0969197", "-0.0543038", "0.403894", "0.0967963", "0.0970421"]
    facts = json.loads(run("solve", "queue", "--json").output)
    assert facts["coins"] == 2
    assert [(round(c["from"], 7), round(c["to"], 7)) for c in facts["constraints"]] == [
        (-0.0543038, 0.4038936),
        (-0.0625739, 0.0807169),
    ]
    assert [(round(c["price_below"], 6), round(c["price_above"], 6)) for c in facts["constraints"]] == [
        (0.096796, 0.097042),
        (0.134805, 0.135987),
    ]


def test_any_coins() -> None:
    shown = run("solve", "queue", "--coins", "any")
    assert shown.exit_code == 0 and "Prices stay" not in shown.output
    facts = json.loads(run("solve", "queue", "--coins", "any", "--json").output)
    assert facts["coins"] >= 2 and facts["constraints"][0]["from"] is None
    assert run("solve", "queue", "--coins", "none").exit_code == 2


def test_no_end_and_no_policy_are_told_apart_from_what_is_not_known(saved) -> None:
    def told(model: Path, *options: str) -> list[object]:
        own = json.loads(run("solve", model, "--json", *options).output)["constraints"][0]
        return [own[key] for key in ("from", "to", "price_below", "price_above")]

    low, high, below, above = told(saved(50.0))  # a bound that does not matter, however loose
    assert (high, above) == ("no end", "no end") and 0.0 < low < 50.0 and below > 0.0
    assert "inf" in run("solve", saved(50.0)).output
    low, high, below, above = told(saved(0.1))  # and none below 0 is kept
    assert (low, below) == (0.0, "no policy") and high > 0.1 and above > 0.0
    assert "no policy" in run("solve", saved(0.1)).output
    assert told(saved(0.1), "--coins", "any") == [None] * 4


def test_a_price_that_is_not_proved_is_null(saved, monkeypatch) -> None:
    monkeypatch.setattr(Solution, "prices_beyond", np.array([[np.nan, np.inf]]))
    own = json.loads(run("solve", saved(0.1), "--json").output)["constraints"][0]
    assert own["price_below"] is None and own["price_above"] == "no policy"


def test_no_coins() -> None:
    shown = run("solve", "queue", "--deterministic")
    assert shown.exit_code == 0 and "The policy never randomises." in shown.output
    standing = ib.solve(ib.zoo.queue(), deterministic=True).standing
    assert f"Its reward is {standing}." in sentence(shown.output) and "0.002681 below the optimum that" in standing
    assert "reward that the optimum which may randomise gains per unit of bound" in sentence(shown.output)
    assert "The price is the reward gained per unit" in sentence(run("solve", "queue").output)
    facts = json.loads(run("solve", "queue", "--deterministic", "--json").output)
    assert facts["loosening"] is None and facts["kept_in_rationals"] is False
    assert facts["coins"] == 0 and facts["status"] == "optimal" and 0.0026 < facts["price_of_determinism"] < 0.0027


def test_no_policy_without_coins_is_one_line_and_exit_code_5(tmp_path: Path) -> None:
    signal = np.array([0.0, 1.0])
    only_a_coin = ib.CMDP(
        offsets=[0, 2],
        transition=np.ones((2, 1)),
        reward=[0.0, 1.0],
        constraints=[ib.Constraint(signal, at_least=0.4, name="low"), ib.Constraint(signal, at_most=0.6, name="high")],
        initial=[1],
        discount=0.9,
    )
    only_a_coin.save(tmp_path / "model.npz")
    result = run("solve", tmp_path / "model.npz", "--deterministic")
    assert result.exit_code == 5
    assert sentence(result.stderr).startswith(
        "inbounds: no deterministic policy is in bounds, but one that may randomise is"
    )
    assert one_message(result.stderr)


def test_a_problem_beyond_any_memory_is_one_line() -> None:
    result = run("solve", "queue", "--set", "buffer=1e9")
    assert result.exit_code == 2 and "does not fit into memory" in result.output and "Traceback" not in result.output
