"""The command line as a user meets it: what it prints, its exit codes, its messages."""

import csv
import dataclasses
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import inbounds as ib
import inbounds.cli
from inbounds import waiting
from inbounds.algorithms import ALGORITHMS
from inbounds.cli import main
from inbounds.cli.printing import value_text
from messages import one_message, sentence


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_solve_prints_the_optimum_and_the_prices() -> None:
    result = run("solve", "queue")
    assert result.exit_code == 0
    assert "4.64485824863 in total" in result.output
    assert "0.0969197" in result.output and "0.135595" in result.output


def test_solve_json_is_one_object_with_every_number() -> None:
    answer = json.loads(run("solve", "queue", "--json").output)
    assert answer["total_reward"] == pytest.approx(4.644858248633466, abs=1e-9)
    assert [c["name"] for c in answer["constraints"]] == ["service", "flow"]
    assert len(answer["policy"]) == answer["problem"]["pairs"] == 96
    assert answer["in_bounds"] is True


def test_solve_shows_the_policy_in_the_users_labels() -> None:
    output = run("solve", "queue", "--policy").output
    assert "  4: (0.2, 0.7) 1\n" in output
    learned = run("learn", "queue", "--samples", "1000", "--policy").output
    assert "\n  4: " in learned and max(map(len, learned.splitlines())) <= 80


def test_the_module_is_the_command() -> None:
    found = subprocess.run([sys.executable, "-m", "inbounds", "zoo", "nope"], capture_output=True, text=True)
    assert found.returncode == 2 and found.stderr.startswith("inbounds: no problem is called 'nope'")


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_letters_that_the_output_does_not_have_are_spelled_out(encoding: str) -> None:
    for arguments in (("plan", "media", "--algorithm", "opt-dual"), ("algorithms", "--help"), ("algorithms", "--json")):
        command = [sys.executable, "-m", "inbounds", *arguments]
        found = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding})
        assert (found.returncode, found.stderr) == (0, b"")
        assert "\\u03b5" in found.stdout.decode(encoding)
    assert "Vaswani, Yang, Szepesvári" in str(json.loads(found.stdout.decode(encoding)))


def test_parameters_of_the_problem_can_be_set() -> None:
    assert "(queue: 9 states, 144 pairs" in run("solve", "queue", "--set", "buffer=8").output
    assert "4.616571342" in run("solve", "queue", "--set", "full_buffer=free").output


def test_learn_is_judged_exactly_and_reproducible() -> None:
    arguments = ("learn", "queue", "--algorithm", "cspda", "--samples", "20000", "--seed", "0", "--slater", "0.2")
    first, second = (json.loads(run(*arguments, "--json").output) for _ in range(2))
    assert first["policy"] == second["policy"]
    assert first["samples"] == 20_000
    assert first["in_bounds"] == all(c["margin"] >= -1e-9 for c in first["constraints"])
    assert first["guarantee"].startswith("none: ")
    text = run(*arguments).output
    assert ("IN BOUNDS" in text) and ("guarantee none" in text)


def test_learn_in_the_problems_own_units() -> None:
    arguments = ("learn", "queue", "--preset", "paper", "--slater", "0.2", "--samples", "2000")
    given = json.loads(run(*arguments, "--scale", "none", "--json").output)
    assert given["scale"] == "none" and "rewards in [0, 5], not in [0, 1]" in given["guarantee"]
    queue = ib.zoo.queue()
    learned = ib.learn(queue.simulator(scale=False), ib.CSPDA(slater=0.2), samples=2_000, seed=0)
    assert given["policy"] == learned.policy.probabilities.tolist()
    scaled = json.loads(run(*arguments, "--json").output)
    assert scaled["scale"] == "theory" and scaled["policy"] != given["policy"] and "units" not in scaled["guarantee"]
    assert "units as given" in run(*arguments, "--scale", "none").output
    assert run(*arguments, "--scale", "metres").exit_code == 2


def test_plan_says_what_both_constants_cost() -> None:
    output = run("plan", "queue", "--epsilon", "0.1").output
    assert "1195.5" in output and "0.02" in output and "56,087" in output
    assert max(len(line) for line in output.splitlines()) <= 100
    answer = json.loads(run("plan", "--states", "6", "--pairs", "96", "--constraints", "2", "--discount", "0.5",
                            "--slater", "0.2", "--json").output)  # fmt: skip
    assert answer["experiment"]["samples"] == 56_087


def test_zoo_lists_and_explains() -> None:
    assert "queue" in run("zoo").output
    assert "full_buffer" in run("zoo", "queue").output
    assert json.loads(run("zoo", "--json").output)["queue"]["parameters"]["buffer"] == 5


def test_reproduce_writes_where_it_says(tmp_path: Path) -> None:
    result = run(
        "reproduce", "queue", "--seeds", "2", "--samples", "1000", "--jobs", "1", "--output", str(tmp_path / "out")
    )
    assert result.exit_code == 0
    assert f"The pictures are in {tmp_path / 'out'}" in result.output
    assert "Optimum 4.644858" in result.output
    assert all(len(line) <= 100 for line in result.output.splitlines() if str(tmp_path) not in line)
    for part in ("costs as printed", "costs scaled", "practical preset", "kappa > 0 in bounds", "over delta"):
        assert part in result.output
    for name in ("as-printed", "figure-1-reward", "figure-2-constraints", "figure-3-error-bars", "figure-4-delta"):
        assert (tmp_path / "out" / f"{name}.png").exists()


def unwrapped(table: str) -> str:
    """The words of a table, each cell whole: those that went on in the next line, too."""
    columns: list[slice] = []
    cells: list[list[str]] = []
    above = ""
    for line in table.splitlines():
        if line.startswith("---"):
            columns = [slice(*found.span()) for found in re.finditer("-+", line)]
            cells.append([above[column].strip() for column in columns])
        elif columns and line[columns[0]].strip():
            cells.append([line[column].strip() for column in columns])
        elif columns and line.strip():
            cells[-1] = [
                f"{cell} {line[column].strip()}".strip() for cell, column in zip(cells[-1], columns, strict=True)
            ]
        else:
            columns = []
        above = line
    return "\n".join("  ".join(row) for row in cells)


def test_algorithms_lists_every_fact_and_explains_one() -> None:
    listed = unwrapped(run("algorithms").output)
    for name, settings in ALGORITHMS.items():
        record = settings.algorithm
        for fact in (name, record.paper, record.setting, record.needs, record.output, record.sample_complexity):
            assert fact in listed
    facts = json.loads(run("algorithms", "--json").output)
    assert set(facts) == set(ALGORITHMS) and facts["cspda"]["violation"] == "zero"
    explained = run("algorithms", "cspda").output
    assert "Departures from the paper" in explained and "alpha, beta : float" in explained


def test_every_algorithm_says_where_its_constants_are_from() -> None:
    """One of four origins, a paper's with the theorem; in the table, in the JSON, and never only in prose."""
    listed, facts = unwrapped(run("algorithms").output), json.loads(run("algorithms", "--json").output)
    rows = re.split(r"algorithm +constants\n", listed)[1].splitlines()
    table = dict(row.split(None, 1) for row in rows)
    assert set(table) == set(ALGORITHMS)
    for name, settings in ALGORITHMS.items():
        said = settings.algorithm.constants
        paper = r"paper \((.*(Theorem|Algorithm)s? \d.*|its algorithm box)\)|from an image of the paper"
        assert re.match(rf"{paper}|from code|derived here|from memory", said), name
        assert table[name] == said == facts[name]["constants"]
        text = inspect.getdoc(inspect.getmodule(settings)) or ""
        assert ("from memory" in said) == ("from memory" in " ".join(text.split())), name
        assert "as we recall" not in text


def test_the_list_says_what_is_discounted() -> None:
    kinds = {line.split("  ")[0]: line for line in run("zoo").output.splitlines()}
    assert "finite horizon" in kinds["media"] and "discounted" in kinds["garnet"]
    assert "long-run average" in kinds["admission"]


def test_learn_without_constraints_does_not_speak_of_bounds() -> None:
    output = run("learn", "queue", "--algorithm", "ucbvi-gamma", "--unconstrained", "--samples", "2000").output
    assert "optimum 2.82967" in output and "BOUNDS" not in output


def test_learn_certified_takes_the_algorithm_that_was_given() -> None:
    arguments = ("learn", "queue", "--certified", "--samples", "20000", "--json")
    own = json.loads(run(*arguments).output)
    given = json.loads(run(*arguments, "--algorithm", "cspda", "--slater", "0.2").output)
    learner = ib.CSPDA.practical(slater=0.2)
    same = ib.learn_certified(ib.zoo.queue().simulator(), samples=20_000, seed=0, learner=learner)
    assert given["reason"] == same.reason != own["reason"] and given["samples"] == same.samples


def test_learn_certified_that_proves_nothing_has_an_exit_code() -> None:
    for style in ((), ("--json",)):
        result = run("learn", "queue", "--certified", "--samples", "100", *style)
        assert result.exit_code == 4 and result.stderr == ""
        assert json.loads(result.output)["policy"] is None if style else "NO POLICY" in result.output


def test_learn_a_certified_mixture() -> None:
    arguments = ("learn", "queue", "--certified", "--mixture", "--samples", "20000")
    shown = run(*arguments, "--policy").output
    assert "a mixture in bounds: with confidence 0.99" in shown
    assert shown.count("drawn at the start with probability") == 2
    facts = json.loads(run(*arguments, "--json").output)["policy"]
    assert sum(facts["weights"]) == pytest.approx(1.0) and [len(rule) for rule in facts["policies"]] == [96, 96]
    for wrong in (("learn", "queue", "--mixture"), (*arguments, "--algorithm", "cspda")):
        result = run(*wrong)
        assert result.exit_code == 2 and "--mixture goes with --certified" in result.stderr


def test_an_algorithm_without_prices_has_none() -> None:
    arguments = ("learn", "queue", "--algorithm", "crpo", "--samples", "2000")
    row = next(line for line in run(*arguments).output.splitlines() if line.startswith("service"))
    assert row.split()[-2] == "none"
    assert [c["price"] for c in json.loads(run(*arguments, "--json").output)["constraints"]] == [None, None]


def test_what_does_not_fit_into_memory_is_one_message() -> None:
    result = run("solve", "garnet", "--set", "states=100000000000")
    assert result.exit_code == 2 and result.stderr.startswith("inbounds: the problem does not fit into memory")


@pytest.mark.parametrize("command", [("learn",), ("compare", "--algorithm", "cspda", "--seeds", "2", "--jobs", "1")])
def test_samples_that_do_not_fit_into_memory_are_named(command, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*command, "queue", "--samples", "1e15")
    assert result.exit_code == 2 and one_message(result.stderr)
    said = "learning from 1,000,000,000,000,000 samples does not fit into memory: give fewer samples"
    assert said in sentence(result.stderr)


def test_compare_prints_a_table_draws_and_resumes(tmp_path: Path) -> None:
    arguments = (
        "compare",
        "queue",
        "--samples",
        "2000",
        "--seeds",
        "2",
        "--jobs",
        "1",
        "--output",
        str(tmp_path / "c"),
    )
    names = ("--algorithm", "cspda", "--algorithm", "model-based", "--algorithm", "ucbvi-gamma")
    result = run(*arguments, *names)
    assert result.exit_code == 0, result.output
    assert "With the constraints: optimum 4.64486" in result.output
    assert "optimum 5.65934" in result.output and "worst margin" in result.output
    assert {path.name for path in (tmp_path / "c").iterdir()} == {
        "comparison.svg",
        "comparison.png",
        "comparison.csv",
        "runs.jsonl",
    }
    again = json.loads(run(*arguments, *names, "--json").output)
    assert again["resumed"] == 6 and [row["algorithm"] for row in again["algorithms"]][-1] == "ucbvi-gamma"
    assert json.loads(run(*arguments, *names, "--fresh", "--json").output)["resumed"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("solve", "nope"), "no problem is called 'nope'"),
        (("solve", "queue", "--set", "colour=1"), "queue has no parameter 'colour'"),
        (("solve", "queue", "--set", "buffer"), "--set takes NAME=VALUE"),
        (("solve", "queue", "--set", "buffer=0"), "buffer must be a whole number of at least 1, found 0"),
        (("solve", "queue", "--set", "service=()"), "service must be a list of probabilities"),
        (("solve", "queue", "--set", "discount=1"), "discount must be in [0, 1), found 1.0"),
        (("solve", "queue", "--method", "magic"), "method must be one of"),
        (("learn", "queue", "--algorithm", "magic"), "no algorithm is called 'magic'"),
        (("learn", "queue", "--samples", "0"), "samples must be a whole number of at least 1"),
        (("learn", "queue", "--seed", "-1"), "seed must be a whole number of at least 0"),
        (("learn", "queue", "--slater", "7"), "slater must be a number in (0, 1]"),
        (("learn", "queue", "--algorithm", "npg-pd", "--samples", "100"), "too few to estimate the Slater constant"),
        (("learn", "queue", "--algorithm", "ucbvi-gamma"), "add --unconstrained to drop them"),
        (("learn", "queue", "--algorithm", "ucbvi-gamma", "--unconstrained", "--kappa", "0"), "leave --kappa out"),
        (("learn", "queue", "--certified", "--kappa", "0.1"), "--kappa is a setting of an algorithm"),
        (("learn", "queue", "--certified", "--preset", "practical"), "--preset is a setting of an algorithm"),
        (("learn", "queue", "--confidence", "0.5"), "--confidence is that of a proof: add --certified"),
        (("plan", "queue", "--states", "3"), "--states is for a plan without PROBLEM"),
        (("plan", "queue", "--discount", "0.9"), "--discount is for a plan without PROBLEM"),
        (("plan", "--states", "3", "--pairs", "6", "--slater", "1", "--bound", "a=1"), "--bound changes a PROBLEM"),
        (("compare", "--suite", "tuning", "--safe", "half"), "--safe is for a PROBLEM"),
        (("compare", "media", "--algorithm", "opt-cmdp", "--safe", "half"), "of those compared none does"),
        (("compare", "--suite", "tuning", "--bound", "a=1"), "--bound is for a PROBLEM"),
        (("frontier", "queue", "--constraint", "0", "--bounds", "0,1", "--points", "2"), "--points is how many bounds"),
        (("learn", "queue", "--certified", "--algorithm", "magic"), "no algorithm is called 'magic'"),
        (("learn", "queue", "--algorithm", ""), "no algorithm is called ''"),
        (("learn", "queue", "--certified", "--algorithm", ""), "no algorithm is called ''"),
        (("algorithms", "magic"), "no algorithm is called 'magic'; there are: cspda"),
        (("compare", "queue", "--algorithm", "magic", "--output", "/dev/null/x"), "/dev/null/x"),
        (("compare", "admission"), "`inbounds compare` takes discounted problems and finite horizons"),
        (("learn", "admission"), "admission has a long-run average; `inbounds learn` takes discounted problems and"),
        (("learn", "media", "--samples", "9"), "9 samples are less than one of 10 steps; give at least 10"),
        (("learn", "media", "--algorithm", "optimistic-gmbl", "--samples", "19"), "20"),
        (
            ("learn", "media", "--algorithm", "dope"),
            "DOPE needs a policy that is known to be in bounds: add --safe half",
        ),
        (("learn", "media", "--algorithm", "dope", "--safe", "none.json"), "none.json: cannot be read: no such file"),
        (("learn", "media", "--algorithm", "opt-cmdp", "--safe", "half"), "has no setting safe: leave --safe out"),
        (("learn", "media", "--algorithm", "dope", "--safe", "half", "--slack", "0"), "slack must be"),
        (("learn", "media", "--algorithm", "dope", "--safe", "half", "--slack", "0.6"), "at most what safe= keeps"),
        (("learn", "media", "--algorithm", "optpess-primal-dual", "--slater", "0"), "slater must be"),
        (("learn", "media", "--algorithm", "optpess-primal-dual", "--slater", "-1"), "slater must be"),
        (
            ("learn", "media", "--algorithm", "optpess-lp", "--safe", "half", "--unconstrained"),
            "this one has none: use another algorithm",
        ),
        (("learn", "media", "--set", "fast_actions=0", "--algorithm", "dope", "--safe", "half"), "Slater constant"),
        (("learn", "media", "--algorithm", "opt-cmdp", "--epsilon", "0.1"), "this one has a horizon already"),
        (("learn", "queue", "--algorithm", "opt-cmdp", "--epsilon", "2"), "epsilon must be a number in (0, 1)"),
        (("learn", "media", "--algorithm", "cspda"), "take one of the learners of episodes, such as ib.OptCMDP"),
        (("learn", "media", "--certified"), "`inbounds learn --certified` takes discounted problems"),
        (
            ("plan", "three_cycle"),
            "three_cycle is no discounted problem, and the paper's plan is for these; --algorithm plans for",
        ),
        (("plan",), "give a PROBLEM"),
        (("plan", "queue", "--epsilon", "0"), "epsilon must be a number in (0, 1)"),
        (
            ("frontier", "queue", "--constraint", "speed"),
            "there is no constraint 'speed'; the problem has: 'service', 'flow'",
        ),
        (("frontier", "queue", "--constraint", "0", "--bounds", "a,b"), "--bounds takes numbers with ',' between them"),
        (("frontier", "queue", "--constraint", "0", "--and", "0"), "surface takes two constraints, found 'service'"),
        (("frontier", "queue", "--constraint", "0", "--bounds", "1", "--bounds", "2"), "--bounds is given 2 times"),
        (
            ("frontier", "queue", "--constraint", "0", "--and", "1", "--bounds", "1", "--between", "0:1"),
            "give one of the two",
        ),
        (("solve", "queue", "--bound", "speed=1"), "there is no constraint 'speed'"),
        (("solve", "queue", "--bound", "service"), "--bound takes NAME=VALUE, a number, found 'service'"),
        (("plan", "queue", "--bound", "service=much"), "--bound takes NAME=VALUE, a number"),
        (("frontier", "queue", "--constraint", "0", "--points", "1"), "points must be a whole number of at least 2"),
        (("solve", "queue", "--tolerance", "0"), "tolerance must be a number above 0"),
        (("solve", "queue", "--tolerance", "inf"), "tolerance must be a finite number above 0, found inf"),
        (("solve", "queue", "--time-limit", "inf"), "must be a finite number above 0, found inf"),
        (
            ("solve", "queue", "--set", "discount=1"),
            "discount must be in [0, 1), found 1.0; for long-run averages, save the model (inbounds solve queue --",
        ),
        (("plan", "--states", "3", "--pairs", "6", "--slater", "1", "--discount", "1"), "in [0, 1), found 1.0"),
        (("reproduce", "queue", "--seeds", "0"), "seeds must be a whole number"),
    ],
)
def test_wrong_input_is_one_message_and_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("inbounds: ") and message in sentence(result.stderr)
    assert one_message(result.stderr)
    assert result.stdout == ""


def test_an_output_folder_that_cannot_be_made_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    result = run(
        "reproduce",
        "queue",
        "--seeds",
        "2",
        "--samples",
        "1000",
        "--jobs",
        "1",
        "--output",
        str(tmp_path / "file" / "x"),
    )
    assert result.exit_code == 2
    assert result.stderr.startswith("inbounds: ") and one_message(result.stderr)


def test_a_file_that_is_no_model_is_not_called_a_problem(tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text("{}")
    result = run("solve", str(tmp_path / "policy.json"))
    assert result.exit_code == 2 and "policy.json' is no model; give a file (.npz, .toml)" in sentence(result.stderr)


def test_pages_of_other_bounds_have_names_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for bounds in ((), ("--bound", "service=-0.5"), ("--bound", "0=-1", "--bound", "flow=-0.5")):
        assert run("report", "queue", "--points", "0", *bounds).exit_code == 0
    assert sorted(os.listdir()) == ["queue-0=-1-flow=-0.5.html", "queue-service=-0.5.html", "queue.html"]


def test_infeasible_is_exit_code_3_with_the_reason() -> None:
    result = run("solve", "queue", "--set", "full_buffer=closed")
    assert result.exit_code == 3
    assert "no policy is in bounds" in result.stderr
    assert "constraint 'flow' cannot be met by any policy" in sentence(result.stderr)
    assert "flow         >= 0   -0.307908  >= -0.751012\n" in result.stderr


def test_finite_horizons_are_solved() -> None:
    assert "optimum   -6.7467042" in run("solve", "media").output
    answer = json.loads(run("solve", "three_cycle", "--json").output)
    assert answer["problem"]["horizon"] == 6 and answer["reward"] == pytest.approx(2.0)
    assert "stage 5\n" in run("solve", "three_cycle", "--policy").output


@pytest.mark.parametrize(
    ("criterion", "text"),
    [
        ({"discount": 0.5}, "2.5 per step, 5 in total"),
        ({"horizon": 4}, "2.5 over 4 stages"),
        ({"average": True}, "2.5 per step"),
    ],
)
def test_a_value_is_printed_in_the_words_of_its_criterion(criterion: dict, text: str) -> None:
    problem = ib.CMDP(offsets=[0, 1], transition=[[1.0]], reward=[1.0], constraints=(), initial=[1.0], **criterion)
    assert value_text(2.5, problem) == text


def test_a_model_without_a_name_is_called_as_its_file(tmp_path: Path) -> None:
    dataclasses.replace(ib.zoo.queue(), name="").save(tmp_path / "depot.npz")
    assert "CMDP(depot: 6 states" in run("solve", str(tmp_path / "depot.npz")).output
    assert ib.load(tmp_path / "depot.npz").name == ""


def test_frontier_writes_a_picture_and_a_csv(tmp_path: Path) -> None:
    result = run("frontier", "queue", "--constraint", "service", "--points", "8", "--output", str(tmp_path / "f"))
    assert result.exit_code == 0
    assert "The bound is 0 now. It begins to matter at -5; no policy keeps one beyond 1." in result.output
    assert {path.name for path in (tmp_path / "f").iterdir()} == {"frontier.svg", "frontier.png", "frontier.csv"}
    rows = list(csv.DictReader((tmp_path / "f" / "frontier.csv").read_text().splitlines()))
    answer = json.loads(run("frontier", "queue", "--constraint", "0", "--points", "8", "--json", "--output",
                            str(tmp_path / "g")).output)  # fmt: skip
    assert [float(row["reward"]) for row in rows] == answer["rewards"]
    assert [float(row["price_service"]) for row in rows] == [prices[0] for prices in answer["prices"]]


def test_two_bounds_move_where_they_are_told_to(tmp_path: Path) -> None:
    words = (
        "frontier",
        "queue",
        "--constraint",
        "flow",
        "--and",
        "service",
        "--points",
        "3",
        "--output",
        str(tmp_path),
    )
    both = json.loads(run(*words, "--between", "0:0.4", "--between", "1:-1", "--json").output)
    assert both["bounds"] == [[0.0, 0.2, 0.4], [-1.0, 0.0, 1.0]] and both["constraints"] == ["flow", "service"]
    one = json.loads(run(*words, "--bounds", "0.4", "--json").output)
    assert one["bounds"][0] == [0.4] and len(one["bounds"][1]) == 3 and len(one["rewards"]) == 1
    assert (tmp_path / "surface.csv").read_text().count("\n") == 4


def test_frontiers_of_two_constraints_do_not_overwrite_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for constraint in ("service", "flow"):
        assert run("frontier", "queue", "--constraint", constraint, "--points", "3").exit_code == 0
    assert {path.name for path in (tmp_path / "frontier").iterdir()} == {"queue-service", "queue-flow"}


def test_models_in_files_are_solved(tmp_path: Path) -> None:
    ib.zoo.queue().save(tmp_path / "queue.npz")
    assert "4.64485824863 in total" in run("solve", str(tmp_path / "queue.npz")).output
    (tmp_path / "half.npz").write_bytes((tmp_path / "queue.npz").read_bytes()[:5000])
    for path in ("half.npz", "none.toml"):
        result = run("solve", str(tmp_path / path))
        assert result.exit_code == 2 and one_message(result.stderr) and path in result.stderr


def test_verify_stops_at_a_limit(tmp_path: Path) -> None:
    files = [str(tmp_path / "model.npz"), str(tmp_path / "proof.json")]
    run("solve", "garnet", "--set", "states=600", "--save-model", files[0], "--certificate", files[1])
    ended = run("verify", *files, "--time-limit", "1e-6")
    assert ended.exit_code == 5 and "time limit" in ended.stderr
    assert run("verify", *files, "--time-limit", "600").exit_code == 0


def test_verify_accepts_the_proof_of_solve_and_nothing_else(tmp_path: Path) -> None:
    model, text, proof = tmp_path / "queue.npz", tmp_path / "queue.toml", tmp_path / "queue.json"
    assert run("solve", "queue", "--save-model", str(model), "--certificate", str(proof)).exit_code == 0
    good = run("verify", str(model), str(proof))
    assert good.exit_code == 0 and good.output.startswith("ACCEPTED: the policy is in bounds\n")
    assert json.loads(run("verify", str(model), str(proof), "--json").output)["accepted"] is True

    assert run("solve", "queue", "--save-model", str(text)).exit_code == 0
    refused = run("verify", str(text), str(proof))
    assert refused.exit_code == 2 and "is not an .npz file; if it is a model, write it anew" in sentence(refused.stderr)
    ib.load(text).save(tmp_path / "converted.npz")
    assert run("verify", str(tmp_path / "converted.npz"), str(proof)).exit_code == 0

    proof.write_bytes(proof.read_bytes().replace(b"rounding bounded", b"sounding rounded"))
    edited = run("verify", str(model), str(proof))
    for missing in ((tmp_path / "none.npz", proof), (model, tmp_path / "none.json"), (model, tmp_path), (model, model)):
        unread = run("verify", *map(str, missing))
        assert unread.exit_code == 2 and one_message(unread.stderr) and not unread.stdout
    assert edited.exit_code == 1 and edited.output == "REJECTED: the certificate is damaged or edited: wrong seal\n"


FILES = sorted(path.stem for path in Path(inbounds.cli.__file__).parent.glob("*.py"))
SHARED = {"__init__", "arguments", "printing"}


def test_every_file_is_a_command_that_the_help_lists() -> None:
    listed = run("--help").output.partition("Commands:\n")[2]
    assert [line.split()[0] for line in listed.splitlines()] == [name for name in FILES if name not in SHARED]


@pytest.mark.parametrize("command", [name for name in FILES if name not in SHARED])
def test_every_command_has_help_with_an_example_and_json(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0 and "--json" in result.output
    examples = result.output.partition("  Examples\n")[2].partition("\n\n")[0].splitlines()
    assert any(line.split()[:2] == ["inbounds", command] for line in examples)


def test_help_loads_nothing_heavy() -> None:
    """The start-up time of the command line is a matter of what it imports."""
    script = (
        "import sys\nfrom inbounds.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'scipy', 'numba', 'highspy', 'matplotlib', 'joblib', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_an_online_learner_is_judged_on_the_way(tmp_path: Path) -> None:
    arguments = ("learn", "media", "--algorithm", "opt-cmdp", "--samples", "3000")
    said = run(*arguments)
    assert said.exit_code == 0 and "On the way, 300 episodes; of each on average: regret" in said.output
    facts = json.loads(run("learn", "media", "--samples", "3000", "--json").output)  # the default for a horizon
    assert facts["algorithm"] == "opt-cmdp" and facts["episodes"]["episodes"] == 300.0
    assert facts["episodes"]["violation"] >= facts["episodes"]["plain_violation"] - 1e-9
    stopped = run(*arguments[:-1], "100000000", "--time-limit", "0.3")
    assert stopped.exit_code == 5 and "TIME LIMIT" in stopped.output
    cut = run("learn", "queue", "--algorithm", "opt-cmdp", "--samples", "3000")
    assert cut.exit_code == 0 and "truncated: after 10 steps" in " ".join(cut.output.split())


@pytest.mark.slow
def test_an_online_learner_plays_on_where_no_policy_is_in_bounds() -> None:
    """For the others there is nothing to learn."""
    arguments = ("--set", "fast_actions=-1", "--samples", "1000")
    said = run("learn", "media", *arguments)
    assert said.exit_code == 0 and "(no policy is in bounds)" in said.output and "OUT OF BOUNDS" in said.output
    assert "100.0% of them" in " ".join(said.output.split()) and "regret" not in said.output.split("On the way")[1][:90]
    facts = json.loads(run("learn", "media", *arguments, "--json").output)
    assert facts["optimum"] is None and facts["episodes"]["regret"] is None and not facts["in_bounds"]
    assert run("learn", "queue", "--set", "full_buffer=closed").exit_code == 3


@pytest.mark.slow
def test_a_safe_policy_comes_from_a_file(tmp_path: Path) -> None:
    files = {bound: tmp_path / f"{bound}.json" for bound in (4, 6)}
    for bound, path in files.items():
        assert run("solve", "media", "--set", f"fast_actions={bound}", "--save-policy", str(path)).exit_code == 0
    arguments = ("learn", "media", "--algorithm", "optpess-lp", "--preset", "paper", "--samples", "1000", "--safe")
    facts = json.loads(run(*arguments, str(files[4]), "--json").output)
    assert facts["episodes"]["out_of_bounds"] == 0.0
    assert facts["constraints"][0]["margin"] == pytest.approx(1.0, abs=0.5)  # mixed by its own visits
    bold = run(*arguments, str(files[6]))
    assert bold.exit_code == 2 and "misses the bound of 'fast actions' by 1" in sentence(bold.stderr)
    run("solve", "queue", "--save-policy", str(tmp_path / "queue.json"))
    (tmp_path / "none.json").write_text("[1, 2]")
    (tmp_path / "cut.json").write_text('{"policy": [1')
    for name in ("queue.json", "none.json", "cut.json"):
        wrong = run(*arguments, str(tmp_path / name))
        assert wrong.exit_code == 2 and one_message(wrong.stderr), wrong.stderr


@pytest.mark.slow
def test_compare_on_a_horizon_fits_the_page(tmp_path: Path) -> None:
    names = [text for name in ("opt-cmdp", "dope", "optpess-primal-dual") for text in ("--algorithm", name)]
    sizes = ("--samples", "2000", "--seeds", "2", "--jobs", "1", "--output", str(tmp_path))
    said = run("compare", "media", *names, *sizes)
    assert said.exit_code == 0, said.output
    tables = [line for line in said.output.splitlines() if line.startswith(("algorithm ", "opt-", "optpess-", "dope "))]
    assert len(tables) == 3 + 3 * 3 and max(len(line) for line in tables) <= 80
    assert "optpess-primal-dual ~" in said.output and "has a gap of 1.3605" in said.output
    assert "single policies oscillate" in said.output and "its paper promises" in said.output
    assert {path.name for path in tmp_path.iterdir()} >= {"regret.png", "regret.svg", "regret.csv", "runs.jsonl"}
    again = json.loads(run("compare", "media", *names, *sizes, "--json").output)
    assert again["resumed"] == 12 and again["safe_gap"] == pytest.approx(1.36047, abs=1e-4)
    assert all("published" in row for row in again["algorithms"])


def test_algorithms_says_how_each_samples_and_what_it_needs() -> None:
    facts = json.loads(run("algorithms", "--json").output)
    assert facts["opt-cmdp"]["access"] == "online" and facts["optimistic-gmbl"]["access"] == "generative"
    assert facts["dope"]["needs"] == "safe policy" and facts["opt-dual"]["oscillates"] is True
    assert all(facts[name][fact] for name in facts for fact in ("access", "needs", "constants"))
    assert "access" in run("algorithms").output


def test_bounds_that_nothing_keeps_are_infeasible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = run("frontier", "queue", "--constraint", "0", "--bounds", "5,6")
    assert said.exit_code == 3
    assert "no policy keeps any of these bounds on 'service'; one does up to 1" in sentence(said.stderr)
    facts = run("frontier", "queue", "--constraint", "0", "--bounds", "5,6", "--json")
    assert facts.exit_code == 3 and json.loads(facts.stdout)["impossible"] == [5.0, 6.0]
    solved = run("solve", "queue", "--bound", "service=5", "--json")
    assert json.loads(solved.stdout)["status"] == json.loads(facts.stdout)["status"] == "infeasible"
    both = ("frontier", "queue", "--constraint", "0", "--and", "1", "--bounds", "5,6", "--bounds", "0,5")
    said, facts = run(*both), run(*both, "--json")
    assert said.exit_code == facts.exit_code == 3 and json.loads(facts.stdout)["rewards"] == [[None] * 2] * 2
    assert json.loads(facts.stdout)["status"] == "infeasible"
    sentence_of_both = "no policy keeps any of these bounds on 'service' together with one of those on 'flow'"
    assert sentence_of_both in sentence(said.stderr)
    assert not list(tmp_path.iterdir())


def test_numbers_of_samples_may_be_written_as_1e3() -> None:
    facts = json.loads(run("learn", "queue", "--algorithm", "crpo", "--samples", "1e3", "--json").output)
    assert facts["samples"] == 1_000
    for wrong in ("1.5", "many", "inf"):
        assert run("learn", "queue", "--samples", wrong).exit_code == 2
    assert run("compare", "queue", "--bound", "speed=1").exit_code == 2


@pytest.mark.slow
def test_every_table_and_sentence_fits_80_columns(tmp_path: Path) -> None:
    """Of every command that prints one; only a path may be longer, for it cannot be broken."""
    small, folder = ("--samples", "2000", "--seeds", "2", "--jobs", "1"), ("--output", str(tmp_path / "out"))
    queue, proof = str(tmp_path / "queue.npz"), str(tmp_path / "proof.json")
    saved = ("--save-model", queue, "--certificate", proof)
    commands: list[tuple[str, ...]] = [
        ("zoo",),
        ("algorithms",),
        ("algorithms", "--table1"),
        *(("algorithms", "--table1", name) for name in ("uc-cfh", "cspda", "triple-q")),
        ("solve", "queue", "--deterministic", *saved),
        ("solve", "media", "--policy"),
        ("solve", "queue", "--bound", "service=3"),
        ("verify", queue, proof),
        ("frontier", "queue", "--constraint", "service", "--points", "5", *folder),
        ("frontier", "queue", "--constraint", "service", "--and", "flow", "--points", "4", *folder),
        ("plan", "queue"),
        ("plan", "--states", "100000", "--pairs", "800000", "--discount", "0.99", "--slater", "0.01"),
        ("plan", "media", "--algorithm", "opt-dual"),
        ("learn", "queue", "--samples", "2000"),
        ("learn", "queue", "--certified", "--samples", "20000"),
        ("learn", "media", "--algorithm", "opt-dual", "--samples", "2000"),
        ("compare", "queue", "--algorithm", "crpo", "--algorithm", "ucbvi-gamma", *small, *folder),
        ("compare", "media", "--algorithm", "opt-dual", "--algorithm", "opt-cmdp", *small, *folder),
        ("compare", "--suite", "tuning", "--algorithm", "crpo", *small[:2], "--seeds", "1", *folder),
        ("reproduce", "queue", *small, *folder),
        ("theorems", *small, *folder),
    ]
    assert {command[0] for command in commands} == set(inbounds.cli.COMMANDS) - {"report"}  # which prints only paths
    wide = []
    for command in commands:
        result = run(*command)
        assert result.exit_code in (0, 3, 4), (command, result.output)
        lines = result.stdout.splitlines()
        wide += [(command, line) for line in lines if len(line) > 80 and str(tmp_path) not in line]
    assert not wide


def test_no_line_of_a_help_or_of_a_message_is_wider_than_a_terminal() -> None:
    for arguments in ((), *((command,) for command in inbounds.cli.COMMANDS)):
        assert [line for line in run(*arguments, "--help").output.splitlines() if len(line) > 80] == []
    said = run("solve", "queue", "--set", "bufer=3").stderr
    assert len(said) > 80 and all(len(line) <= 80 for line in said.splitlines()) and one_message(said)


def test_a_terminal_is_told_why_the_first_command_takes_long(monkeypatch, capsys) -> None:
    """Once, and only a terminal; what is found on disk is not compiled."""
    monkeypatch.setattr(waiting, "_listeners", [])
    inbounds.cli._announce_compilation()  # a test has no terminal
    waiting.compiling()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    inbounds.cli._announce_compilation()
    for _ in range(2):
        waiting.compiling()
    assert capsys.readouterr().err.count("compiling what this command needs") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("solve", "nope"), 2, "no problem is called 'nope'"),
        (("frontier", "queue", "--constraint", "service", "--bound", "flow=9"), 3, "'flow' cannot be met"),
        (("learn", "queue", "--bound", "flow=9", "--samples", "2000"), 3, "'flow' cannot be met"),
        (("compare", "queue", "--algorithm", "nope"), 2, "no algorithm is called 'nope'"),
        (("frontier", "queue", "--constraint", "service", "--time-limit", "1e-9"), 5, "time limit"),
        (("verify", "nope.npz", "nope.json"), 2, "nope.npz: cannot be read: no such file or directory"),
        (("verify", "nope.json"), 2, "nope.json: cannot be read: no such file or directory"),
        (("zoo", "nope"), 2, "no problem is called 'nope'"),
        (("solve",), 2, "Missing argument 'PROBLEM'."),
        (("solve", "queue", "--tolerance", "x"), 2, "'x' is not a valid float."),
        (("solve", "queue", "--nope"), 2, "No such option"),
        (("solve", "queue", "extra"), 2, "unexpected extra argument"),
        (("frontier", "queue"), 2, "Missing option '--constraint'."),
        (("nope",), 2, "No such command 'nope'."),
        (("compare", "queue", "--jobs", "0"), 2, "--jobs must be a whole number of at least 1, found 0"),
    ],
)
def test_with_json_a_refusal_is_one_object_too(
    arguments: tuple[str, ...], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, [*arguments, "--json"])
    found = json.loads(result.stdout)
    assert result.exit_code == code and (found.get("exit_code", code), said in result.stderr) == (code, True)
    assert "error" not in found or said in found["error"]
    assert CliRunner().invoke(main, arguments).stdout == "" or "limit" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--json", "solve", "queue"), "--json goes after the command, as in: inbounds solve ... --json"),
        (("--time-limit", "5", "report", "queue", "--json"), "as in: inbounds report ... --time-limit"),
        (("--json",), "--json goes after the command"),
        (("--nope", "solve", "queue", "--json"), "No such option '--nope'."),
    ],
)
def test_what_stands_before_the_command_is_refused_in_json_too(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    found = json.loads(result.stdout)
    assert (result.exit_code, found["exit_code"]) == (2, 2) and said in found["error"] and said in result.stderr


def test_the_advice_for_a_discount_of_one_works(tmp_path: Path) -> None:
    path = tmp_path / "queue.toml"
    assert run("solve", "queue", "--save-model", str(path)).exit_code == 0
    path.write_text(path.read_text().replace("discount = 0.5", "average = true"))
    assert "long-run average" in run("solve", str(path)).output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("frontier", "queue", "--constraint", "9" * 5000), "there is no constraint '9999"),
        (("solve", "queue", "--bound", "9" * 5000 + "=1"), "there is no constraint '9999"),
        (("solve", "queue", "--set", "buffer=" + "9" * 5000), "buffer"),
        (("learn", "queue", "--samples", "9" * 5000), "is too large; at most 9,007,199,254,740,992 can be counted"),
        (("learn", "queue", "--samples", "9" * 20), "is too large; at most 9,007,199,254,740,992 can be counted"),
        (("compare", "queue", "--samples", "9007199254740993"), "is too large; at most 9,007,199,254,740,992 can be"),
        (("learn", "queue", "--samples", "1e999999999"), "is too large; at most 9,007,199,254,740,992 can be counted"),
        (("learn", "queue", "--samples", "1e" + "9" * 30), "is not a valid integer"),
        (("learn", "queue", "--seed", "9" * 5000), "is not a valid integer"),
        (("compare", "queue", "--seeds", "9" * 5000), "is not a valid integer"),
        (("solve", "garnet", "--set", "states=" + "-" * 90_000 + "1"), "--set states: its value nests too deep"),
        (("solve", "garnet", "--set", "states=" + "(" * 150 + "1"), "states"),
        (("solve", "garnet", "--set", "states={[]: 1}"), "states"),
    ],
)
def test_a_number_of_thousands_of_digits_or_signs_is_refused(arguments: tuple[str, ...], message: str) -> None:
    refused = run(*arguments)
    assert refused.exit_code == 2 and isinstance(refused.exception, SystemExit)
    assert message in " ".join(refused.stderr.split())
