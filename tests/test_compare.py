"""Comparisons: what is run, that workers and interruptions do not matter, and that the report shows what was run."""

import csv
import importlib.util
import io
import json
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import inbounds as ib
from inbounds.algorithms import ALGORITHMS
from inbounds.cli import main
from inbounds.problem.pieces import attached
from inbounds.reports.comparison import (
    comparison_csv,
    comparison_figure,
    regret_csv,
    regret_figure,
    summary_rows,
    write_comparison,
)
from inbounds.studies import runs
from inbounds.studies.comparison import Comparison, Entry
from inbounds.studies.journal import Journal
from inbounds.studies.safe import safe_policy
from own_algorithms import Picky

ROOT = Path(__file__).parent.parent
SMALL = {"samples": 3_000, "seeds": 3, "workers": 1}


def q_learning() -> type:
    """The example of docs/adding-an-algorithm.md."""
    if "q_learning" not in sys.modules:
        spec = importlib.util.spec_from_file_location("q_learning", ROOT / "examples" / "q_learning.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["q_learning"] = module
        spec.loader.exec_module(module)
    return sys.modules["q_learning"].QLearning


@pytest.fixture(scope="module")
def small() -> Comparison:
    return ib.compare(ib.zoo.queue(), {"cspda": ib.CSPDA.practical(slater=0.2), "q": q_learning()()}, **SMALL)


def same(one: Comparison, other: Comparison) -> bool:
    return all(
        np.array_equal(mine.rewards, theirs.rewards) and np.array_equal(mine.margins, theirs.margins)
        for mine, theirs in zip(one.entries, other.entries, strict=True)
    )


def test_a_run_can_be_had_again_on_its_own(small: Comparison) -> None:
    queue = ib.zoo.queue()
    run = ib.learn(queue.simulator(), ib.CSPDA.practical(slater=0.2), samples=3_000, seed=2)
    judged, entry = ib.evaluate(queue, run.policy), small.entry("cspda")
    assert entry.rewards[2, -1] == judged.total_reward
    assert np.array_equal(entry.margins[2, -1], judged.total_margins)
    assert entry.samples[-1] == 3_000 and small.optimum == pytest.approx(4.644858248633466, abs=1e-9)


def test_algorithms_without_constraints_are_held_to_the_other_optimum(small: Comparison) -> None:
    entry = small.entry("q")
    assert not entry.constrained and entry.optimum == pytest.approx(5.659335557513892, abs=1e-9)
    assert entry.margins.shape == (3, len(entry.samples), 0)
    assert np.all(entry.gaps >= -1e-9) and not np.any(entry.out_of_bounds)


def test_the_result_does_not_depend_on_the_number_of_workers(small: Comparison) -> None:
    settings = {"cspda": ib.CSPDA.practical(slater=0.2), "cspda too": ib.CSPDA.practical(slater=0.2)}
    parallel = ib.compare(ib.zoo.queue(), settings, samples=3_000, seeds=3, workers=2)
    for entry in parallel.entries:
        assert np.array_equal(entry.rewards, small.entry("cspda").rewards)


def test_it_goes_on_where_it_was_killed(small: Comparison, tmp_path: Path) -> None:
    """Killed after any number of runs, in the middle of a line: the rest is run, and the result is the same."""
    settings = {"cspda": ib.CSPDA.practical(slater=0.2), "q": q_learning()()}
    journal = tmp_path / "runs.jsonl"
    seen: list[tuple[int, int]] = []
    first = ib.compare(ib.zoo.queue(), settings, **SMALL, journal=journal, progress=lambda *now: seen.append(now))
    assert first.resumed == 0 and same(first, small) and seen == [(done, 6) for done in range(7)]
    lines = journal.read_bytes().splitlines(keepends=True)
    assert len(lines) == 6
    for kept in range(7):
        journal.write_bytes(b"".join(lines[:kept]) + (lines[kept][:50] if kept < 6 else b""))
        again = ib.compare(ib.zoo.queue(), settings, **SMALL, journal=journal)
        assert again.resumed == kept and same(again, small)


def test_runs_of_another_kind_are_not_taken_from_the_journal(tmp_path: Path) -> None:
    journal = tmp_path / "runs.jsonl"
    settings = {"cspda": ib.CSPDA.practical(slater=0.2)}
    ib.compare(ib.zoo.queue(), settings, **SMALL, journal=journal)
    for cmdp, other, samples in (
        (ib.zoo.queue(discount=0.6), settings, 3_000),
        (ib.zoo.queue(), {"cspda": ib.CSPDA.practical(slater=0.1)}, 3_000),
        (ib.zoo.queue(), settings, 4_000),
    ):
        assert ib.compare(cmdp, other, samples=samples, seeds=3, workers=1, journal=journal).resumed == 0


def test_settings_that_no_text_tells_apart_are_not_taken_from_the_journal(tmp_path: Path) -> None:
    """Two utilities of the same name are different functions."""
    n_pairs = ib.zoo.queue().n_pairs
    found = []
    for share in (0.0, 1.0):
        gradient = share * np.ones(n_pairs) * (np.arange(n_pairs) < 16)
        utility = ib.Utility(lambda x, g=gradient: float(x @ g), lambda x, g=gradient: g, lipschitz=1.0)
        settings = {"concave": ib.ConcaveCSPDA.practical(utility=utility, slater=0.2)}
        found.append(ib.compare(ib.zoo.queue(), settings, **SMALL, journal=str(tmp_path / "runs.jsonl")))
    assert found[1].resumed == 0 and not same(*found)


def test_nothing_is_run_before_the_number_of_workers_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ib.InvalidInput, match="workers must be"):
        ib.compare(ib.zoo.queue(), ["crpo"], samples=1_000, seeds=1, workers=0, journal=tmp_path / "runs.jsonl")
    assert not (tmp_path / "runs.jsonl").exists()


def test_without_constraints_all_algorithms_are_in_one_group() -> None:
    found = ib.compare(ib.zoo.queue().unconstrained(), {"crpo": ib.CRPO(), "q": q_learning()()}, **SMALL)
    assert [entry.constrained for entry in found.entries] == [True, True]
    assert found.entry("q").optimum == found.optimum == found.unconstrained_optimum
    assert [panel.get_title() for panel in comparison_figure(found).axes] == [""]
    assert repr(found) == "Comparison(queue: crpo, q; seeds 3, samples 3,000)"


def test_one_that_refuses_does_not_stop_the_others() -> None:
    found = ib.compare(ib.zoo.garnet(states=2_000), ["npg-pd"], samples=1_000, seeds=2, workers=1)
    assert "too few to estimate the Slater constant" in found.entries[0].refusal
    assert summary_rows(found)[0]["refusal"] == found.entries[0].refusal
    assert comparison_csv(found).count("\n") == 1
    comparison_figure(found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": 0}, "seeds must be a whole number"),
        ({"samples": 10}, "samples must be a whole number of at least 1,000"),
        ({"algorithms": ["cspda", "magic"]}, "no algorithm is called 'magic'; there are: cspda"),
        ({"algorithms": {"mine": ib.CSPDA}}, "algorithm must be settings"),
        ({"algorithms": "cspda"}, "must be a list of names, or a dict from name to settings"),
        ({"algorithms": [ib.CSPDA()]}, "must be a list of names, or a dict from name to settings"),
        ({"algorithms": ib.CSPDA()}, "must be a list of names, or a dict from name to settings"),
        ({"preset": "lucky"}, "preset must be"),
        ({"workers": 0}, "workers must be a whole number"),
    ],
)
def test_wrong_input_is_named(change: dict, message: str) -> None:
    with pytest.raises(ib.InvalidInput, match=message):
        ib.compare(ib.zoo.queue(), **{"algorithms": ["cspda"], **SMALL, **change})
    with pytest.raises(ib.InvalidInput, match="compare is for discounted or finite-horizon problems"):
        ib.compare(ib.zoo.admission())


def hand_made(runs: int = 2) -> Comparison:
    """Two runs, two checkpoints, one constraint: every number of the report can be worked out by hand.

    Of "safe" the first so many.
    """

    def entry(name: str, rewards: list[list[float]], margins: list[list[float]], runs: int = 2) -> Entry:
        return Entry(
            name=name,
            settings=f"{name}()",
            constrained=True,
            optimum=5.0,
            seeds=np.arange(runs),
            samples=np.array([10, 20]),
            rewards=np.array(rewards)[:runs],
            margins=np.array(margins)[:runs, :, None],
            margin_scales=np.array([1.0]),
            seconds=np.array([1.0, 3.0])[:runs],
        )

    return Comparison(
        problem="by hand",
        constraint_names=("only",),
        optimum=5.0,
        unconstrained_optimum=6.0,
        entries=(
            entry("bold", [[1.0, 6.0], [3.0, 4.5]], [[0.5, -1.0], [0.5, 0.5]]),
            entry("safe", [[1.0, 4.0], [3.0, 4.5]], [[-0.5, 0.25], [0.5, 0.75]], runs),
        ),
        samples=20,
        seeds=2,
        preset="practical",
        resumed=0,
        status="done" if runs == 2 else "time limit",
    )


def test_rows_of_fewer_runs_than_were_asked_for_say_so_and_come_last() -> None:
    """(A comparison cut short was told, drawn and ranked as if it had been whole.)"""
    whole, short = hand_made(), hand_made(runs=1)
    assert whole.runs == "2 runs" and short.runs == "1 to 2 of 2 runs"
    assert [(row["algorithm"], row["runs"]) for row in summary_rows(whole)] == [("safe", 2), ("bold", 2)]
    assert [(row["algorithm"], row["runs"]) for row in summary_rows(short)] == [("bold", 2), ("safe", 1)]
    assert repr(whole).endswith("seeds 2, samples 20)")
    assert repr(short).endswith("seeds 2, 1 to 2 of 2 runs, samples 20)")
    assert '<td class="n">1</td></tr></tbody>' in short._repr_html_()

    def words(comparison: Comparison) -> tuple[str, list[str]]:
        figure = comparison_figure(comparison)
        (legend,) = figure.legends
        return figure.get_suptitle(), [text.get_text() for text in legend.get_texts()][:2]

    assert words(whole) == ("by hand: 2 runs of 20 samples, practical settings, judged exactly", ["bold", "safe"][::-1])
    assert words(short)[0] == "by hand: 1 to 2 of 2 runs of 20 samples, practical settings, judged exactly"
    assert set(words(short)[1]) == {"bold", "safe (1 of 2 runs)"}


def test_means_have_the_interval_of_so_many_runs() -> None:
    """Of two runs 12.7 standard errors on either side, where many have 1.96."""
    (band,) = (one for one in comparison_figure(hand_made(runs=1)).axes[0].collections)  # one run alone has none
    ends = band.get_paths()[0].vertices
    at_end = ends[ends[:, 0] == 20.0, 1]
    assert np.ptp(at_end) == pytest.approx(2.0 * 12.7062 * 0.75, rel=1e-5)  # gaps of -1 and 0.5


def test_runs_that_are_refused_leave_the_others_and_are_said() -> None:
    """An algorithm that some seeds refuse: its row has the others, and why they are not all."""
    mine = {"picky": Picky(), "crpo": ib.CRPO.practical()}
    found = ib.compare(ib.zoo.queue(), mine, samples=1_000, seeds=6, workers=1)
    picky = found.entry("picky")
    assert 0 < picky.runs < 6 and picky.refusal == "" and "not with this seed" in picky.missing
    rows = summary_rows(found)
    assert [row["algorithm"] for row in rows] == ["crpo", "picky"]
    assert rows[1]["runs"] == picky.runs and rows[1]["missing"] == picky.missing and rows[0]["missing"] == ""
    assert found.runs == f"{picky.runs} to 6 of 6 runs" and found.status == "done"


def test_a_command_that_ran_out_of_time_says_how_many_runs_its_rows_rest_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*arguments: object, **options: object) -> Comparison:
        return replace(hand_made(runs=1), entries=(*hand_made(runs=1).entries, never))

    never = replace(
        hand_made().entries[0],
        name="never",
        refusal="the time limit came first",
        seeds=np.arange(0),
        samples=np.arange(0),
        rewards=np.zeros((0, 0)),
        margins=np.zeros((0, 0, 1)),
    )
    monkeypatch.setattr(ib, "compare", cut)
    asked = ["compare", "queue", "--seeds", "2", "--samples", "20", "--output", str(tmp_path)]
    said = CliRunner().invoke(main, asked)
    assert said.exit_code == 5 and max(map(len, said.output.replace(str(tmp_path.resolve()), "").splitlines())) <= 80
    assert "\n1 to 2 of 2 runs of 20 samples each" in said.output and "TIME LIMIT: runs are missing" in said.output
    bold, safe = (line.split() for line in said.output.splitlines() if line.startswith(("bold ", "safe ")))
    assert bold[:4] == ["bold", "2", "of", "2"] and safe[:4] == ["safe", "1", "of", "2"]
    assert "never did not run: the time limit came first" in said.output
    facts = json.loads(CliRunner().invoke(main, [*asked, "--json"]).stdout)
    assert [(row["algorithm"], row.get("runs")) for row in facts["algorithms"]] == [
        ("bold", 2),
        ("safe", 1),
        ("never", None),
    ]
    assert facts["status"] == "time limit" and facts["seeds"] == 2


def test_the_table_holds_means_errors_and_shares_those_in_bounds_first() -> None:
    safe, bold = summary_rows(hand_made())
    assert (safe["algorithm"], bold["algorithm"]) == ("safe", "bold")
    assert safe["mean_gap"] == 0.75 and safe["standard_error_gap"] == pytest.approx(0.25)
    assert safe["mean_worst_margin"] == 0.5 and safe["share_out_of_bounds"] == 0.0 and safe["mean_violation"] == 0.0
    assert bold["mean_gap"] == -0.25 and bold["share_out_of_bounds"] == 0.5 and bold["mean_violation"] == 0.5
    assert bold["seconds"] == 1.0 and bold["samples"] == 20


def test_markers_are_filled_where_the_runs_are_in_bounds() -> None:
    panel = comparison_figure(hand_made()).axes[0]
    filled, hollow = set(), set()
    for line in panel.lines:
        if line.get_linestyle() == "None":
            marks = {(float(x), float(y)) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)}
            (hollow if line.get_markerfacecolor() == "white" else filled).update(marks)
    assert filled == {(10.0, 3.0), (20.0, 0.75)}  # "bold" at first, on top of "safe"; "safe" at the end
    assert hollow == {(10.0, 3.0), (20.0, -0.25)}


def test_the_csv_holds_every_run(small: Comparison, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(comparison_csv(small))))
    assert len(rows) == 3 * (len(small.entry("cspda").samples) + len(small.entry("q").samples))
    last = [row for row in rows if row["algorithm"] == "cspda" and row["seed"] == "1"][-1]
    assert float(last["total_reward"]) == small.entry("cspda").rewards[1, -1]
    assert float(last["total_margin_service"]) == small.entry("cspda").margins[1, -1, 0]
    assert all(row["total_margin_service"] == "" for row in rows if row["algorithm"] == "q")
    assert [path.name for path in write_comparison(small, tmp_path / "new")] == [
        "comparison.svg",
        "comparison.png",
        "comparison.csv",
    ]


def test_the_page_shows_the_example_and_the_example_is_short_and_right() -> None:
    example = (ROOT / "examples" / "q_learning.py").read_text()
    assert f"```python\n{example}```" in (ROOT / "docs" / "adding-an-algorithm.md").read_text()
    assert len(example.splitlines()) < 60
    queue = ib.zoo.queue().unconstrained()
    for seed in range(3):
        run = ib.learn(queue.simulator(), q_learning()(), samples=200_000, seed=seed)
        assert ib.evaluate(queue, run.policy).total_reward == pytest.approx(5.659335557513892, abs=0.05)
    with pytest.raises(ib.InvalidInput, match="Q-learning knows no constraints, and this problem has 2"):
        ib.learn(ib.zoo.queue().simulator(), q_learning()(), samples=100)


def test_learners_can_be_compared_in_the_users_units(small: Comparison) -> None:
    settings = {"cspda": ib.CSPDA.practical(slater=0.2)}
    given = ib.compare(ib.zoo.queue(), settings, **SMALL, scale=False).entry("cspda")
    run = ib.learn(ib.zoo.queue().simulator(scale=False), settings["cspda"], samples=3_000, seed=1)
    assert given.rewards[1, -1] == ib.evaluate(ib.zoo.queue(), run.policy).total_reward
    assert not np.array_equal(given.rewards, small.entry("cspda").rewards)


EPISODIC = ["opt-cmdp", "dope", "opt-dual", "optimistic-gmbl"]


@pytest.fixture(scope="module")
def episodes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Comparison, Path]:
    """Of media, with the journal that it left."""
    journal = tmp_path_factory.mktemp("episodes") / "runs.jsonl"
    return ib.compare(ib.zoo.media(), EPISODIC, samples=3_000, seeds=2, workers=1, journal=journal), journal


@pytest.mark.slow
def test_online_learners_are_judged_episode_by_episode(episodes: tuple[Comparison, Path]) -> None:
    found, _ = episodes
    media, entry = ib.zoo.media(), found.entry("opt-cmdp")
    assert found.horizon == 10 and found.optimum == pytest.approx(-6.746704, abs=1e-6)
    assert found.largest_price == pytest.approx(0.49519, abs=1e-5)
    assert found.safe_gap == pytest.approx(1.36047, abs=1e-4)
    assert np.all(entry.samples % 10 == 0) and np.array_equal(entry.played["episodes"][0], entry.samples // 10)
    run = ib.learn(media.simulator(), ib.OptCMDP.practical(), samples=3_000, seed=1)
    judged = ib.evaluate(media, run.policy)
    assert entry.rewards[1, -1] == judged.total_reward
    loss = max(found.optimum - judged.reward, 0.0) + found.largest_price * max(-judged.margins[0], 0.0)
    cost = found.unconstrained_optimum - found.optimum
    assert found.losses(entry)[1, -1] == pytest.approx(loss / cost, abs=1e-12)
    assert found.entry("optimistic-gmbl").played == {}
    assert [one.name for one in found.entries if one.oscillates] == ["opt-dual"]
    assert [one.name for one in found.entries if one.starts_safe] == ["dope"]
    # With its paper's constants DOPE plays the safe policy: its regret is that policy's gap, in every episode.
    assert [one.name for one in found.published] == EPISODIC
    dope = next(one for one in found.published if one.name == "dope")
    assert dope.played["regret"] == pytest.approx(found.safe_gap * dope.played["episodes"], rel=1e-9)


@pytest.mark.slow
def test_a_comparison_of_episodes_goes_on_from_its_journal(episodes: tuple[Comparison, Path]) -> None:
    found, journal = episodes
    again = ib.compare(ib.zoo.media(), EPISODIC, samples=3_000, seeds=2, workers=1, journal=journal)
    assert again.resumed == 2 * 2 * len(EPISODIC) and same(again, found)
    for one, other in zip((*again.entries, *again.published), (*found.entries, *found.published), strict=True):
        assert one.played.keys() == other.played.keys()
        assert all(np.array_equal(one.played[name], other.played[name]) for name in one.played)


@pytest.mark.slow
def test_the_report_of_episodes(episodes: tuple[Comparison, Path], tmp_path: Path) -> None:
    found, _ = episodes
    names = [path.name for path in write_comparison(found, tmp_path)]
    assert names == [f"{name}.{suffix}" for name in ("comparison", "regret") for suffix in ("svg", "png")] + [
        "comparison.csv",
        "regret.csv",
    ]
    titles = [panel.get_title() for panel in regret_figure(found).axes]
    assert len(titles) == 6 and titles[2] == "start from the safe policy" and "oscillate" in titles[1]
    safe = regret_figure(found).axes[2]
    assert any(np.all(np.array(line.get_ydata()) == found.safe_gap) for line in safe.lines)
    rows = list(csv.DictReader(io.StringIO(regret_csv(found))))
    last = [row for row in rows if (row["algorithm"], row["constants"], row["seed"]) == ("dope", "practical", "1")][-1]
    assert float(last["regret"]) == found.entry("dope").played["regret"][1, -1] and float(last["episodes"]) == 300.0
    assert len(rows) == 2 * 3 * 2 * len(found.entry("dope").samples)  # presets, online learners, seeds, checkpoints
    table = {row["algorithm"]: row for row in summary_rows(found)}
    assert [row["mean_loss"] for row in table.values()] == sorted(row["mean_loss"] for row in table.values())
    assert "mean_regret_per_episode" not in table["optimistic-gmbl"] and table["opt-dual"]["oscillates"]
    assert table["dope"]["published"]["mean_gap"] == pytest.approx(found.safe_gap, abs=1e-6)


def test_the_default_is_every_algorithm_for_such_a_problem() -> None:
    """All refuse at once, or are out of time at once: nothing is compiled."""
    of = {name: one.algorithm.criterion for name, one in ALGORITHMS.items()}
    for problem, criterion in ((ib.zoo.media(), "finite-horizon"), (ib.zoo.queue(), "discounted")):
        found = ib.compare(problem, samples=1_000, seeds=1, workers=1, time_limit=1e-9)
        assert found.status == "time limit"
        assert [one.name for one in found.entries] == [name for name, kind in of.items() if kind == criterion]
        assert len(found.entries) >= 11
        assert len(found.published) == (len(found.entries) if criterion == "finite-horizon" else 0)


def test_a_safe_policy_that_nobody_would_look_at_is_refused() -> None:
    media = ib.zoo.media()
    safe = safe_policy(media)
    with pytest.raises(
        ib.InvalidInput, match=r"start from a safe policy \(.*dope.*\), and of those compared none does"
    ):
        ib.compare(media, ["opt-cmdp"], safe=safe, **SMALL)
    with pytest.raises(ib.InvalidInput, match="safe is for algorithms given by name: write it into the settings"):
        ib.compare(media, {"mine": ib.DOPE.practical(safe=safe)}, safe=safe, **SMALL)


def test_a_safe_policy_that_is_not_is_refused_at_once() -> None:
    media = ib.zoo.media()
    bold = ib.solve(ib.zoo.media(fast_actions=6.0)).policy
    for arguments in ({"algorithms": ["dope"], "safe": bold}, {"algorithms": {"mine": ib.DOPE.practical(safe=bold)}}):
        with pytest.raises(ib.InvalidInput, match="misses the bound of 'fast actions' by 1"):
            ib.compare(media, **arguments, **SMALL)
    other = ib.Policy.uniform(ib.zoo.inventory())
    with pytest.raises(ib.InvalidInput, match="does not belong to this problem"):
        ib.compare(media, ["dope"], safe=other, **SMALL)
    tight = ib.compare(ib.zoo.media(fast_actions=0.0), ["dope"], samples=1_000, seeds=1, workers=1)
    assert "needs safe=" in tight.entries[0].refusal and tight.safe_gap is None


def test_a_comparison_in_which_nothing_ran_writes_nothing(tmp_path, monkeypatch):
    """Exit code 2 with every reason; 5 where the time was over first."""

    def refused(*_, **__):
        raise ib.InvalidInput("not this one")

    monkeypatch.setattr("inbounds.studies.runs.learn", refused)
    command = ["compare", "queue", "--algorithm", "crpo", "--algorithm", "cspda", "--seeds", "2", "--samples", "1000"]
    command += ["--jobs", "1", "--output", str(tmp_path)]
    ended = CliRunner().invoke(main, command)
    assert ended.exit_code == 2
    assert "no algorithm ran. crpo: not this one; cspda: not this one" in " ".join(ended.stderr.split())
    late = CliRunner().invoke(main, [*command, "--fresh", "--time-limit", "1e-9"])
    assert late.exit_code == 5 and "time limit" in late.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"runs.jsonl"}


def test_what_is_refused_leaves_no_folder(tmp_path):
    for kept in (tmp_path, tmp_path / "there"):
        kept.mkdir(exist_ok=True)
        command = ["compare", "queue", "--samples", "1000", "--jobs", "1", "--output", str(kept / "in" / "it")]
        assert CliRunner().invoke(main, [*command, "--algorithm", "nope"]).exit_code == 2
        assert CliRunner().invoke(main, [*command, "--algorithm", "crpo", "--time-limit", "1e-9"]).exit_code == 5
        assert kept.is_dir() and not (kept / "in").exists()


def test_fresh_replaces_nothing_where_nothing_runs(tmp_path, monkeypatch):
    """Whether it is refused before the runs, by every algorithm, or stopped before the first is finished."""
    command = ["compare", "queue", "--samples", "1000", "--jobs", "1", "--output", str(tmp_path)]
    crpo, journal = [*command, "--algorithm", "crpo", "--seeds", "2"], tmp_path / "runs.jsonl"
    assert CliRunner().invoke(main, crpo).exit_code == 0
    recorded = journal.read_bytes()
    for more, code in (
        (["--algorithm", "nope"], 2),
        (["--algorithm", "crpo", "--seeds", "0"], 2),
        (["--algorithm", "optpess-lp", "--safe", str(tmp_path / "no.json")], 2),
        (["--algorithm", "crpo", "--time-limit", "1e-9"], 5),
    ):
        assert CliRunner().invoke(main, [*command, *more, "--fresh"]).exit_code == code
        assert journal.read_bytes() == recorded
    with monkeypatch.context() as changed:
        changed.setattr("inbounds.studies.runs.learn", _refused)
        assert CliRunner().invoke(main, [*crpo, "--fresh"]).exit_code == 2
        assert journal.read_bytes() == recorded
    # What is run takes the place of what was there: it is found first.
    fresh = json.loads(CliRunner().invoke(main, [*crpo, "--fresh", "--json"]).stdout)
    assert fresh["resumed"] == 0 and journal.read_bytes().startswith(recorded)
    again = json.loads(CliRunner().invoke(main, [*crpo, "--json"]).stdout)
    assert again["resumed"] == 2 and again["algorithms"][0]["seconds"] == fresh["algorithms"][0]["seconds"]
    assert [path.name for path in tmp_path.glob("runs*")] == ["runs.jsonl"]


@pytest.mark.parametrize("ending", ["refused", "killed", "done"])
def test_fresh_takes_nothing_away_from_another_process(ending, tmp_path, monkeypatch):
    """At every moment of it all that was recorded is in the journal, from before it and from others since."""
    journal, other = Journal(tmp_path / "runs.jsonl"), tmp_path / "runs.before.jsonl"
    journal.add("before", {"seconds": 1.0})
    other.write_text("somebody's own")

    def meanwhile(*_, **__):
        assert Journal(journal.path).get("before") == {"seconds": 1.0}  # as it would be after a kill
        journal.add("since", {"seconds": 2.0})
        raise ib.InvalidInput("no") if ending == "refused" else KeyboardInterrupt

    if ending == "done":
        monkeypatch.setattr("inbounds.studies.runs.asdict", lambda run: journal.add("since", {"seconds": 2.0}) or {})
    else:
        monkeypatch.setattr("inbounds.comparing._wanted", meanwhile)
    command = ["compare", "queue", "--algorithm", "crpo", "--seeds", "1", "--samples", "1000", "--jobs", "1"]
    ended = CliRunner().invoke(main, [*command, "--output", str(tmp_path), "--fresh"])
    assert ended.exit_code == {"refused": 2, "killed": 1, "done": 0}[ending]
    CliRunner().invoke(main, [*command, "--output", str(tmp_path)])
    found = Journal(journal.path)
    assert found.get("before") == {"seconds": 1.0} and found.get("since") == {"seconds": 2.0}
    assert other.read_text() == "somebody's own"


def test_a_fresh_comparison_that_was_stopped_says_how_to_go_on(tmp_path, monkeypatch):
    """The same command would begin again."""
    monkeypatch.setattr("inbounds.studies.runs.run_jobs", lambda *_, **__: [])  # as if the time were over
    command = ["compare", "queue", "--algorithm", "crpo", "--seeds", "2", "--samples", "1000", "--jobs", "1"]
    ended = CliRunner().invoke(main, [*command, "--output", str(tmp_path), "--fresh"])
    assert ended.exit_code == 5 and "the same command without --fresh goes on from" in ended.output
    monkeypatch.undo()
    assert json.loads(CliRunner().invoke(main, [*command, "--output", str(tmp_path), "--json"]).stdout)["resumed"] == 1


def ended_at(run: int, by: type[BaseException] = KeyboardInterrupt):
    """A `progress` that ends what it watches when that many runs are finished."""

    def progress(done: int, _: int) -> None:
        if done == run:
            raise by

    return progress


@pytest.mark.parametrize(("workers", "by"), [(1, KeyboardInterrupt), (2, KeyboardInterrupt), (1, RuntimeError)])
def test_what_breaks_a_comparison_off_carries_the_runs_that_are_finished(workers, by):
    asked = {"algorithms": ["crpo", "model-based"], "samples": 1_000, "seeds": 4, "workers": workers}
    whole = ib.compare(ib.zoo.queue(), **asked)
    with pytest.raises(by) as broken:
        ib.compare(ib.zoo.queue(), **asked, progress=ended_at(6, by))
    partial = broken.value.partial
    assert isinstance(partial, Comparison) and partial.status == "interrupted"
    lengths = [len(entry.rewards) for entry in partial.entries]
    assert lengths == [3, 3] if workers == 1 else sum(lengths) == 6
    for entry in partial.entries:
        assert np.array_equal(entry.rewards, whole.entry(entry.name).rewards[entry.seeds])
    assert summary_rows(partial) and comparison_csv(partial)


def test_runs_behind_one_that_is_missing_come_back_with_their_seeds(monkeypatch):
    """(Of an algorithm only those before the first missing one came back: 1 of 7.)"""
    asked = {"algorithms": ["crpo"], "samples": 1_000, "seeds": 4, "workers": 1}
    whole, run = ib.compare(ib.zoo.queue(), **asked), runs.judged_run
    monkeypatch.setattr(runs, "judged_run", lambda *job: None if job[3] == 1 else run(*job))
    some = ib.compare(ib.zoo.queue(), **asked, time_limit=60.0)
    (entry,) = some.entries
    assert entry.seeds.tolist() == [0, 2, 3]
    assert np.array_equal(entry.rewards, whole.entry("crpo").rewards[entry.seeds])
    rows = list(csv.DictReader(io.StringIO(comparison_csv(some))))
    assert {row["seed"] for row in rows} == {"0", "2", "3"}
    suite = {"queue": ib.zoo.queue()}
    scores = ib.compare_suite(suite, ["crpo"], samples=1_000, seeds=4, workers=1, time_limit=60.0).scores
    assert [score.seeds["queue"].tolist() for score in scores] == [[0, 2, 3]]


def test_a_run_that_is_broken_off_leaves_those_before_it_and_nothing_of_its_own(monkeypatch):
    asked = {"algorithms": ["crpo", "model-based"], "samples": 1_000, "seeds": 2, "workers": 1}
    learn, left = ib.learn, iter([True, False])

    def interrupted(*arguments, **options):
        if next(left):
            return learn(*arguments, **options)
        error = KeyboardInterrupt()
        error.partial = "a run of its own"
        raise error

    monkeypatch.setattr("inbounds.studies.runs.learn", interrupted)
    with pytest.raises(KeyboardInterrupt) as broken:
        ib.compare(ib.zoo.queue(), **asked)
    ran, other = broken.value.partial.entries
    assert len(ran.rewards) == 1 and other.refusal == "the interruption came first"
    left = iter([False])
    with pytest.raises(KeyboardInterrupt) as broken:
        ib.compare(ib.zoo.queue(), **asked)
    assert broken.value.partial is None


class Fell(Exception):
    """With a `partial` of its own, which is none of the library's."""

    @property
    def partial(self) -> str:
        return "half of the floor"


def test_an_error_with_a_partial_of_its_own_comes_out_and_finished_runs_are_kept(monkeypatch):
    """(It was taken for the runs: "too many values to unpack".)"""
    learn, left = ib.learn, iter([True, False])

    def falling(*arguments, **options):
        if next(left):
            return learn(*arguments, **options)
        raise Fell("robot fell")

    monkeypatch.setattr("inbounds.studies.runs.learn", falling)
    with pytest.raises(Fell, match="robot fell") as broken:
        ib.compare(ib.zoo.queue(), ["crpo", "model-based"], samples=1_000, seeds=2, workers=1)
    known = attached(broken.value)
    assert isinstance(known, Comparison) and len(known.entries[0].rewards) == 1


def test_a_comparison_whose_journal_takes_no_more_carries_every_run(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "runs.jsonl")

    def full(*_):
        raise ib.InvalidInput("no space")

    monkeypatch.setattr(journal, "add", full)
    with pytest.raises(ib.InvalidInput, match="no space") as broken:
        ib.compare(ib.zoo.queue(), ["crpo"], samples=1_000, seeds=2, workers=1, journal=journal)
    assert len(broken.value.partial.entry("crpo").rewards) == 1


def _refused(*_, **__):
    raise ib.InvalidInput("not this one")


def test_a_journal_knows_by_which_labels_a_safe_policy_met_the_problem(tmp_path):
    """The same numbers under other labels: the policy then starts elsewhere."""

    def problem(labels):
        return ib.CMDP(
            offsets=[0, 2, 4],
            transition=[[0.5, 0.5]] * 4,
            reward=[0.0, 1.0, 0.0, 0.3],
            constraints=[ib.Constraint([0.0, 1.0, 0.0, 0.1], at_most=2.0, name="cost")],
            initial=[0.5, 0.5],
            horizon=4,
            state_labels=labels,
        )

    one, other = problem(("a", "b")), problem(("b", "a"))
    safe = ib.Policy.from_rule(one, lambda state: 0 if state == "a" else 1)
    asked = {"samples": 1_000, "seeds": 1, "workers": 1, "journal": tmp_path / "runs.jsonl"}
    first = ib.compare(one, ["optpess-lp"], safe=safe, preset="paper", **asked)
    second = ib.compare(other, ["optpess-lp"], safe=safe, preset="paper", **asked)
    alone = ib.compare(other, ["optpess-lp"], safe=safe, preset="paper", **asked | {"journal": None})
    assert (first.resumed, second.resumed) == (0, 0)
    assert second.entries[0].rewards.tolist() == alone.entries[0].rewards.tolist() != first.entries[0].rewards.tolist()


def test_what_was_not_compared_is_refused_by_name() -> None:
    found = ib.compare(ib.zoo.queue(), ["crpo"], samples=1000, seeds=1, workers=1)
    with pytest.raises(ib.InvalidInput, match="no algorithm is called 'cspda'; there are: crpo"):
        found.entry("cspda")
    with pytest.raises(ib.InvalidInput, match=r"entry must be one of the entries, such as entry\('crpo'\)"):
        found.losses("crpo")  # type: ignore[arg-type]
    suite = ib.compare_suite({"q": ib.zoo.queue()}, ["crpo"], samples=1000, seeds=1, workers=1)
    assert suite.score("crpo", 1000).algorithm == "crpo"
    with pytest.raises(ib.InvalidInput, match="crpo was not compared with 100000 samples, only with 1,000"):
        suite.score("crpo", 100_000)
    with pytest.raises(ib.InvalidInput, match="no algorithm is called 'cspda'; there are: crpo"):
        suite.score("cspda", 1000)
    with pytest.raises(ib.InvalidInput, match="no algorithm is called"):
        suite.score(np.ones((2, 2)), 1000)
    with pytest.raises(ib.InvalidInput, match="was not compared with"):
        suite.score("crpo", Decimal("sNaN"))
