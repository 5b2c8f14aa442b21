"""The paper's experiment: what is run, that workers do not matter, and that the report shows what was run."""

import csv
import io
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import inbounds as ib
from inbounds.reports.reproduction import curves_csv, summary_rows, verdicts, write_reproduction
from inbounds.studies.reproduction import Arm, Reproduction, reproduce_queue


@pytest.fixture(scope="module")
def small() -> Reproduction:
    return reproduce_queue(seeds=6, samples=2_000, workers=1)


def test_the_result_does_not_depend_on_the_number_of_workers(small: Reproduction) -> None:
    parallel = reproduce_queue(seeds=6, samples=2_000, workers=2)
    for one, other in zip(small.arms, parallel.arms, strict=True):
        assert np.array_equal(one.rewards, other.rewards)
        assert np.array_equal(one.margins, other.margins)


def test_a_run_can_be_had_again_on_its_own(small: Reproduction) -> None:
    queue = ib.zoo.queue()
    run = ib.learn(queue.simulator(), ib.CSPDA.practical(slater=0.2), samples=2_000, seed=3)
    judged = ib.evaluate(queue, run.policy)
    arm = small.arm("practical preset", conservative=True)
    assert arm.rewards[3, -1] == judged.total_reward
    assert np.array_equal(arm.margins[3, -1], judged.total_margins)


def test_it_runs_the_papers_settings(small: Reproduction) -> None:
    assert [(arm.setting, arm.conservative) for arm in small.arms] == [
        ("paper's formulas", False),
        ("paper's formulas", True),
        ("practical preset", False),
        ("practical preset", True),
    ]
    # kappa = 2 * 0.02 / 0.5 * sqrt(2 * 96 * ln 96 / T)
    assert small.kappa == pytest.approx(0.08 * np.sqrt(192 * np.log(96) / 2_000))
    assert small.optimum == pytest.approx(4.644858248633466, abs=1e-9)
    assert all(arm.samples[-1] == 2_000 and np.all(np.diff(arm.samples) > 0) for arm in small.arms)


def test_progress_ends_at_the_number_of_runs() -> None:
    seen: list[tuple[int, int]] = []
    reproduce_queue(seeds=3, samples=1_000, workers=1, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (12, 12)
    assert all(before < after for (before, _), (after, _) in pairwise(seen))


@pytest.mark.parametrize(("name", "value"), [("seeds", 1), ("samples", 10), ("seeds", 2.5)])
def test_wrong_sizes_are_refused(name: str, value: object) -> None:
    with pytest.raises(ib.InvalidInput, match=name):
        reproduce_queue(**{name: value})  # type: ignore[arg-type]


def hand_made() -> Reproduction:
    """Two runs, two checkpoints, one constraint: every number of the report can be worked out by hand."""

    def arm(kappa: float, margins: list[list[float]]) -> Arm:
        return Arm(
            setting="by hand",
            kappa=kappa,
            average_from=0,
            samples=np.array([10, 20]),
            rewards=np.array([[1.0, 2.0], [3.0, 6.0]]),
            margins=np.array(margins)[:, :, None],
            margin_scales=np.array([1.0]),
        )

    return Reproduction(
        constraint_names=("only",),
        arms=(arm(0.0, [[-1.0, -2.0], [1.0, 2.0]]), arm(0.5, [[-1.0, 1.0], [1.0, 2.0]])),
        optimum=5.0,
        conservative_optimum=4.0,
        kappa=0.5,
        seeds=2,
    )


def test_the_table_holds_means_deviations_and_shares() -> None:
    plain, conservative = summary_rows(hand_made())
    assert plain["mean_total_reward"] == 4.0
    assert plain["sd_total_reward"] == pytest.approx(np.sqrt(8.0))
    assert plain["mean_total_margins"] == [0.0]
    assert plain["share_out_of_bounds"] == 0.5
    assert conservative["mean_total_margins"] == [1.5]
    assert conservative["share_out_of_bounds"] == 0.0


def test_the_verdict_follows_the_numbers() -> None:
    assert verdicts(hand_made()) == [
        "by hand: the paper's claim holds: with kappa > 0 the mean margins are only +1.500; "
        "0.0% of runs are out of bounds, 50.0% with kappa = 0"
    ]


def test_the_csv_holds_every_point_of_every_curve(small: Reproduction) -> None:
    rows = list(csv.DictReader(io.StringIO(curves_csv(small))))
    assert len(rows) == sum(len(arm.samples) for arm in small.arms)
    last = rows[-1]
    arm = small.arms[-1]
    assert float(last["mean_total_reward"]) == float(arm.rewards[:, -1].mean())
    assert float(last["sd_total_margin_flow"]) == float(arm.margins[:, -1, 1].std(ddof=1))


def test_the_files_are_written_and_the_same_every_time(small: Reproduction, tmp_path: Path) -> None:
    first = write_reproduction(small, tmp_path / "a")
    second = write_reproduction(small, tmp_path / "b")
    assert [path.name for path in first] == [
        "figure-1-reward.svg",
        "figure-1-reward.png",
        "figure-2-constraints.svg",
        "figure-2-constraints.png",
        "figure-3-error-bars.svg",
        "figure-3-error-bars.png",
        "curves.csv",
    ]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert len(one.read_bytes()) > 1_000
