"""Comparisons on a suite: what is run and how it is scored, that workers do not matter, and what is printed."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import inbounds as ib
from inbounds.algorithms import ALGORITHMS
from inbounds.cli import main
from inbounds.reports.suite import suite_csv, suite_rows, suite_table
from inbounds.studies.suite import Score, SuiteComparison, Yardstick
from inbounds.tables import text_table

SMALL = {"samples": (2_000, 4_000), "seeds": 2, "workers": 1}


def two() -> dict[str, ib.CMDP]:
    return {name: problem for name, problem in ib.zoo.suite().items() if name in ("tiny", "small")}


@pytest.fixture(scope="module")
def found() -> SuiteComparison:
    return ib.compare_suite(two(), ["model-based", "crpo"], **SMALL)


def same(one: SuiteComparison, other: SuiteComparison) -> bool:
    return [list(map(list, score.gaps.values())) for score in one.scores] == [
        list(map(list, score.gaps.values())) for score in other.scores
    ]


def test_a_run_can_be_had_again_on_its_own(found: SuiteComparison) -> None:
    problem = two()["small"]
    run = ib.learn(problem.simulator(), ib.CRPO.practical(), samples=4_000, seed=1)
    judged, best = ib.evaluate(problem, run.policy), ib.solve(problem)
    score = found.score("crpo", 4_000)
    priced = best.prices @ np.maximum(-judged.margins, 0.0)
    assert score.gaps["small"][1] == pytest.approx((best.reward - judged.reward + priced) / best.reward, abs=1e-9)
    assert score.outside["small"][1] == (not judged.in_bounds)
    assert found.optima["small"] == pytest.approx(best.total_reward) and score.runs == 4
    assert repr(found) == "SuiteComparison(own problems: model-based, crpo; 2 problems, seeds 2, 2,000 and 4,000)"


@pytest.mark.parametrize("name", ["tiny", "coin", "queue20"])
def test_no_policy_looks_better_than_the_optimum(name: str) -> None:
    """Weak duality; and at the optimum itself the gap is zero. Without the prices, policies out of bounds do."""
    problem, rng = ib.zoo.suite()[name], np.random.default_rng(0)
    judge = Yardstick.of(name, problem)
    best, free = ib.solve(problem), ib.solve(problem.unconstrained())
    judged = ib.evaluate(problem, best.policy)
    assert judge.gaps(np.array(judged.total_reward), judged.total_margins) == pytest.approx(0.0, abs=1e-8)
    outside = ib.evaluate(problem, free.policy)
    assert outside.total_reward > judge.optimum
    assert judge.gaps(np.array(outside.total_reward), outside.total_margins) > -1e-9
    for _ in range(50):
        states = problem.pairs.states
        weights = rng.standard_exponential(problem.n_pairs) ** 3
        policy = ib.Policy(problem.pairs, weights / np.bincount(states, weights)[states])
        judged = ib.evaluate(problem, policy)
        assert judge.gaps(np.array(judged.total_reward), judged.total_margins) > -1e-9


@pytest.mark.slow
def test_neither_workers_nor_interruptions_matter(found: SuiteComparison, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    journal = tmp_path / "runs.jsonl"
    parallel = ib.compare_suite(
        two(),
        ["model-based", "crpo"],
        **SMALL | {"workers": 2},
        journal=journal,
        progress=lambda *now: seen.append(now),
    )
    assert same(parallel, found) and parallel.resumed == 0 and parallel.status == "done"
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[0] == (0, 16) and seen[-1] == (16, 16)
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:11]))
    again = ib.compare_suite(two(), ["model-based", "crpo"], **SMALL, journal=journal)
    assert same(again, found) and again.resumed == 11


def test_a_time_limit_gives_what_is_finished(tmp_path: Path) -> None:
    journal = tmp_path / "runs.jsonl"
    none = ib.compare_suite(two(), ["crpo"], **SMALL, journal=journal, time_limit=1e-9)
    assert none.status == "time limit" and [score.runs for score in none.scores] == [0, 0]
    assert suite_rows(none) == [] and suite_csv(none).count("\n") == 1
    first = ib.compare_suite(two(), ["crpo"], samples=2_000, seeds=2, workers=1, journal=journal)
    some = ib.compare_suite(two(), ["crpo"], **SMALL, journal=journal, time_limit=1e-9)
    assert some.status == "time limit" and some.resumed == 4
    assert [score.runs for score in some.scores] == [4, 0]
    assert same(first, ib.compare_suite(two(), ["crpo"], samples=2_000, seeds=2, workers=1))


def test_what_breaks_a_suite_off_carries_the_runs_that_are_finished(found: SuiteComparison) -> None:
    def progress(done: int, _: int) -> None:
        if done == 10:  # of 8 with each budget
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as broken:
        ib.compare_suite(two(), ["model-based", "crpo"], **SMALL, progress=progress)
    partial = broken.value.partial  # type: ignore[attr-defined]
    assert isinstance(partial, SuiteComparison) and partial.status == "interrupted"
    assert [score.runs for score in partial.scores] == [4, 4, 1, 1]
    assert same(replace(partial, scores=partial.scores[:2]), replace(found, scores=found.scores[:2]))


def test_a_problem_that_is_refused_is_named_and_the_others_count() -> None:
    problems = {**two(), "large": ib.zoo.garnet(states=2_000)}
    done = ib.compare_suite(problems, ["model-based"], samples=1_000, seeds=2, workers=1)
    score = done.scores[0]
    assert list(score.refusals) == ["large"] and "too few to try each" in score.refusals["large"]
    assert score.runs == 4 and len(score.gaps["large"]) == 0 and score.worst[0] != "large"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"suite": "third"}, "no half of the suite is called 'third'"),
        ({"suite": 3}, 'suite must be "tuning", "untouched", "all", or a dict'),
        ({"suite": {}}, 'suite must be "tuning", "untouched", "all", or a dict'),
        ({"suite": {"free": ib.zoo.queue().unconstrained()}}, "free has no constraints"),
        ({"suite": {"average": ib.zoo.admission()}}, "compare_suite is for discounted problems"),
        ({"suite": {"model": ib.zoo.queue().simulator()}}, "compare_suite"),
        ({"samples": 10}, "samples must be a whole number of at least 1,000"),
        ({"samples": ()}, "samples must be a whole number of at least 1,000"),
        ({"samples": (10_000, "many")}, "samples must be a whole number of at least 1,000, found 'many'"),
        ({"seeds": 0}, "seeds must be a whole number"),
        ({"workers": 0}, "workers must be a whole number"),
        ({"preset": "lucky"}, "preset must be"),
        ({"algorithms": ["ucbvi-gamma"]}, "ucbvi-gamma is not for discounted problems with constraints"),
        ({"algorithms": ["magic"]}, "no algorithm is called 'magic'"),
    ],
    ids=str,
)
def test_wrong_input_is_named(change: dict, message: str) -> None:
    arguments = {"suite": two(), "algorithms": ["crpo"], **SMALL, **change}
    with pytest.raises(ib.InvalidInput, match=message):
        ib.compare_suite(**arguments)


def test_a_relative_gap_needs_an_optimum_other_than_zero() -> None:
    nothing = ib.CMDP.from_dense(
        np.ones((1, 2, 1)),
        reward=[[0.0, 0.0]],
        constraints=[ib.Constraint([[0.0, 1.0]], at_least=0.5)],
        initial=[1.0],
        discount=0.5,
    )
    with pytest.raises(ib.InvalidInput, match="the optimum of nothing is 0"):
        ib.compare_suite({"nothing": nothing}, ["crpo"], **SMALL)


def by_hand() -> SuiteComparison:
    """Two problems of four runs: every number of the report can be worked out by hand."""

    def score(name: str, good: list[float], bad: list[float], out: list[int]) -> Score:
        return Score(
            algorithm=name,
            settings=f"{name}()",
            samples=1_000_000,
            seeds={"chain": np.arange(4), "grid": np.arange(4)},
            gaps={"chain": np.array(good), "grid": np.array(bad)},
            outside={"chain": np.zeros(4, dtype=bool), "grid": np.array(out, dtype=bool)},
            refusals={},
            seconds=1.0,
        )

    return SuiteComparison(
        name="by hand",
        problems=("chain", "grid"),
        optima={"chain": 1.0, "grid": 2.0},
        scores=(
            score("bold", [0.0, 0.0, 0.1, 0.3], [0.5, 0.7, 0.9, 0.9], [1, 1, 0, 0]),
            score("safe", [0.01] * 4, [0.02] * 4, [0] * 4),
        ),
        samples=(1_000_000,),
        seeds=4,
        preset="practical",
        resumed=0,
    )


def test_the_rows_hold_shares_middle_means_and_the_worst_problem() -> None:
    safe, bold = suite_rows(by_hand())
    assert safe["share_in_bounds"]["estimate"] == 1.0 and bold["share_in_bounds"]["estimate"] == 0.75
    assert bold["interquartile_gap"]["estimate"] == pytest.approx((0.1 + 0.3 + 0.5 + 0.7) / 4.0)
    assert safe["interquartile_gap"] == pytest.approx({"estimate": 0.015, "lower": 0.015, "upper": 0.015})
    assert bold["worst_problem"] == {"problem": "grid", "mean_gap": pytest.approx(0.75)}
    assert bold["most_out_of_bounds"] == {"problem": "grid", "runs": 2}
    assert safe["most_out_of_bounds"] == {"problem": "", "runs": 0}
    assert suite_table(by_hand(), 1_000_000)[1][0] == ("safe", "100 %", "68-100", "1.50", "1.50-1.50", "grid 2.00", "0")
    assert suite_table(by_hand(), 100_000)[1] == []


def test_what_rests_on_fewer_runs_says_so_and_comes_last() -> None:
    """(One run, on the easiest problem, was ranked first of those that had all.)"""
    whole = by_hand()
    bold, safe = whole.scores
    first = {"chain": 1, "grid": 0}
    one = replace(
        safe,
        seeds={name: seeds[: first[name]] for name, seeds in safe.seeds.items()},
        gaps={name: gaps[: first[name]] for name, gaps in safe.gaps.items()},
        outside={name: flags[: first[name]] for name, flags in safe.outside.items()},
    )
    short = replace(whole, scores=(one, bold), status="time limit")
    assert (whole.runs, short.runs) == ("4 runs", "0 to 4 of 4 runs")
    assert [row["algorithm"] for row in suite_rows(whole)] == ["safe", "bold"]
    assert [(row["algorithm"], row["runs"]) for row in suite_rows(short)] == [("bold", 8), ("safe", 1)]
    assert suite_rows(short)[1]["runs_by_problem"] == first
    header, rows = suite_table(short, 1_000_000)
    assert header[:2] == ("algorithm", "runs") and [row[:2] for row in rows] == [("bold", "8 of 8"), ("safe", "1 of 8")]
    assert "runs" not in suite_table(whole, 1_000_000)[0]
    assert "seeds 4, 0 to 4 of 4 runs" in repr(short) and "runs" not in repr(whole)


def test_the_csv_holds_every_run(found: SuiteComparison) -> None:
    rows = list(csv.DictReader(io.StringIO(suite_csv(found))))
    assert len(rows) == 2 * 2 * 2 * 2
    row = next(row for row in rows if (row["algorithm"], row["problem"]) == ("crpo", "tiny") and row["seed"] == "1")
    assert float(row["relative_gap"]) == found.score("crpo", 2_000).gaps["tiny"][1]


def test_tables_of_the_whole_suite_fit_80_columns() -> None:
    """The longest names there are, and the widest numbers."""
    names = [name for name, one in ALGORITHMS.items() if one.algorithm.constrained]
    longest = max((*ib.zoo.suite("all"),), key=len)
    scores = tuple(
        Score(
            algorithm=name,
            settings="",
            samples=1_000,
            seeds={longest: np.arange(2), "other": np.arange(2)},
            gaps={longest: np.array([1.111, 2.222]), "other": np.array([0.0811, 0.0922])},
            outside={longest: np.array([True, True]), "other": np.array([False, False])},
            refusals={},
            seconds=0.0,
        )
        for name in names
        if ALGORITHMS[name].algorithm.criterion == "discounted"
    )
    done = SuiteComparison("all", (longest, "other"), {}, scores, (1_000,), 5, "practical", 0)
    for asked in (2, 5):
        table = suite_table(replace(done, seeds=asked), 1_000)
        assert max(map(len, text_table(*table).splitlines())) <= 80 and ("runs" in table[0]) is (asked == 5)


def test_the_command_prints_tables_within_80_columns_and_json(tmp_path: Path) -> None:
    arguments = ["compare", "--suite", "tuning", "--algorithm", "crpo", "--samples", "2000", "--seeds", "1"]
    arguments += ["--jobs", "1", "--output", str(tmp_path)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    text = done.output.replace(str(tmp_path.resolve()), "")
    assert max(map(len, text.splitlines())) <= 80 and "crpo" in text and "2,000 samples a run" in text
    again = CliRunner().invoke(main, [*arguments, "--json"])
    facts = json.loads(again.stdout)
    assert facts["resumed"] == 12 and facts["suite"] == "tuning" and len(facts["problems"]) == 12
    row = facts["algorithms"][0]
    assert row["runs"] == 12 and row["interquartile_gap"]["lower"] is None  # one run of each tells no interval
    assert (tmp_path / "suite.csv").exists() and (tmp_path / "runs.jsonl").exists()
    stopped = CliRunner().invoke(main, [*arguments, "--fresh", "--time-limit", "1e-9"])
    assert stopped.exit_code == 5 and "time limit reached before anything was known" in stopped.output


@pytest.mark.parametrize("arguments", [[], ["queue", "--suite", "tuning"], ["--suite", "all", "--set", "discount=0.9"]])
def test_the_command_takes_a_problem_or_a_suite(arguments: list[str]) -> None:
    refused = CliRunner().invoke(main, ["compare", *arguments])
    assert refused.exit_code == 2 and "compare takes a PROBLEM" in refused.output
