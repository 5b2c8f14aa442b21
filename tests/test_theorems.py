"""The study of the paper's theorems: what is run, what is bounded, and that the report shows what was found."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import inbounds as ib
from inbounds.algorithms.cspda import proved_error
from inbounds.algorithms.paper_plan import Sizes, proved_bounds
from inbounds.cli import main
from inbounds.reports.theorems import theorem_rows, theorem_verdicts, theorems_csv, theorems_figure
from inbounds.studies import theorems
from inbounds.studies.theorems import TheoremStudy, small_problem, study_theorems


@pytest.fixture(scope="module")
def studies() -> tuple[TheoremStudy, ...]:
    return study_theorems(seeds=3, samples=10_000, workers=1)


def test_the_small_problem_is_what_it_says() -> None:
    """Slater constant 1, one price of 1/2, and 16 c^2 n log n / (1 - gamma)^2 samples: less than a hundred million."""
    small = small_problem()
    assert ib.slater(small, scaled=True).value == pytest.approx(1.0, abs=1e-9)
    best = ib.solve(small)
    assert best.reward == pytest.approx(0.5, abs=1e-9) and best.prices == pytest.approx([0.5], abs=1e-9)
    own = math.ceil(16 * 1195.5**2 * 3 * math.log(3) / 0.9**2)
    assert own == 93_046_456 < 100_000_000
    run_at = ib.CSPDA(slater=1.0, constant=1195.5).algorithm.prepare(
        ib.CSPDA(slater=1.0, constant=1195.5), small.simulator(), own, np.random.default_rng(0)
    )
    assert run_at.guarantee.startswith("the paper's Theorem 3") and run_at.constants.kappa <= 0.5


def test_the_bounds_are_the_paper_s() -> None:
    """eps = c sqrt(K n log n / T) / ((1 - gamma) phi), and kappa = 2 eps phi.

    Theorem 2: 3 eps, eps phi, (1 - gamma) eps phi; Theorem 3: 4 eps, 0. Corollary 1: eps, -eps phi (printed: -eps);
    Corollary 2: 2 eps, -2 eps phi (printed: -eps).
    """
    sizes, phi, samples = Sizes(6, 96, 2, 0.5), 0.2, 10**13
    eps = 1195.5 * math.sqrt(2 * 96 * math.log(96) / samples) / (0.5 * phi)
    assert proved_error(96, 2, 0.5, phi, samples) == pytest.approx(eps, rel=1e-14)
    conservative, plain = (proved_bounds(sizes, phi, samples, kappa) for kappa in (2 * eps * phi, 0.0))
    for bounds in (conservative, plain):
        assert bounds.duality_gap == pytest.approx(eps) and bounds.flow_residual == pytest.approx(0.5 * eps * phi)
    assert conservative.conservative_gap == pytest.approx(2 * eps) and plain.conservative_gap == 0.0
    assert conservative.occupancy_gap == pytest.approx(3 * eps) and plain.occupancy_gap == pytest.approx(eps)
    assert conservative.occupancy_margin == pytest.approx(eps * phi)
    assert plain.occupancy_margin == pytest.approx(-eps * phi)
    assert conservative.policy_gap <= 4 * eps and plain.policy_gap <= 2 * eps
    assert conservative.policy_margin == pytest.approx(0.0, abs=1e-12)
    assert plain.policy_margin == pytest.approx(-2 * eps * phi)


def test_every_t_has_runs_of_its_own(studies: tuple[TheoremStudy, ...]) -> None:
    assert [study.problem for study in studies] == [ib.zoo.queue().name, "boiler"]
    for study in studies:
        assert [(point.arm, point.samples) for point in study.points] == [
            (arm, samples) for arm in ("kappa = 0", "kappa, constant 0.02") for samples in (1_000, 10_000)
        ]
        assert all(point.duality_gap.shape == (3,) for point in study.points)
        assert all((point.kappa > 0.0) == (point.arm != "kappa = 0") for point in study.points)
    assert [study.slater for study in studies] == [0.2, 1.0]
    assert [f"{study.own_samples:.4g}" for study in studies] == ["2.004e+12", "9.305e+07"]


def test_a_point_is_what_a_run_of_one_s_own_comes_to(studies: tuple[TheoremStudy, ...]) -> None:
    """In scaled units: the queue's reward has the range 5, its margins the scales 5 and 1.68."""
    queue, point = ib.zoo.queue(), studies[0].points[3]
    run = ib.learn(queue.simulator(), ib.CSPDA(slater=0.2), samples=10_000, seed=2)
    averages, policy, best = ib.judge_averages(run, queue), ib.evaluate(queue, run.policy), ib.solve(queue)
    assert point.kappa == run.settings["kappa"]
    assert point.duality_gap[2] == pytest.approx(averages.duality_gap[-1] / 5.0, rel=1e-12)
    assert point.flow_residual[2] == averages.flow_residual[-1]
    assert point.occupancy_gap[2] == pytest.approx((best.reward - averages.reward[-1]) / 5.0, abs=1e-9)
    assert point.policy_gap[2] == pytest.approx((best.reward - policy.reward) / 5.0, abs=1e-9)
    np.testing.assert_allclose(point.occupancy_margins[2], averages.margins[-1] / [5.0, 1.68], rtol=1e-12)
    np.testing.assert_allclose(point.policy_margins[2], policy.margins / [5.0, 1.68], rtol=1e-12)
    tight = ib.solve(queue.tightened(point.kappa * queue.margin_scales))
    assert point.conservative_gap == pytest.approx((best.reward - tight.reward) / 5.0, abs=1e-9)


def test_workers_change_nothing(studies: tuple[TheoremStudy, ...]) -> None:
    for one, other in zip(studies, study_theorems(seeds=3, samples=10_000, workers=2), strict=True):
        for mine, theirs in zip(one.points, other.points, strict=True):
            assert mine.checks == theirs.checks and np.array_equal(mine.duality_gap, theirs.duality_gap)


def test_what_others_are_measured_by_is_known_before_workers_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """(With two workers the time was over before they had started: nothing was known.)"""
    monkeypatch.setattr(theorems, "run_jobs", lambda *asked, **options: [])
    found = study_theorems(seeds=2, samples=10_000, workers=2, time_limit=600.0)
    assert [study.status for study in found] == ["time limit"] * 2
    assert [{point.samples for point in study.points} for study in found] == [{1_000}] * 2


def test_a_broken_bound_is_called_broken(studies: tuple[TheoremStudy, ...]) -> None:
    """Each of the seven, by a measurement just beyond its bound; and what was found is within all of them."""
    assert all(all(point.holds.values()) for study in studies for point in study.points)
    study, point = studies[0], studies[0].points[3]
    for name, values in (
        ("duality_gap", np.full(3, point.bounds.duality_gap)),
        ("flow_residual", np.full(3, point.bounds.flow_residual)),
        ("conservative_gap", point.bounds.conservative_gap),
        ("occupancy_gap", np.full(3, point.bounds.occupancy_gap)),
        ("occupancy_margins", np.array([[1.0, point.bounds.occupancy_margin]] * 3)),
        ("policy_gap", np.full(3, point.bounds.policy_gap)),
        ("policy_margins", np.array([[point.bounds.policy_margin, 1.0]] * 3)),
    ):
        away = -1e-6 if name.endswith("margins") else 1e-6
        assert all(replace(point, **{name: values}).holds.values())
        broken = replace(point, **{name: values + away})
        assert [key for key, holds in broken.holds.items() if not holds] == [name.removesuffix("s")]
        lines = theorem_verdicts([replace(study, points=(study.points[0], broken))])
        assert f"does NOT hold: {name.removesuffix('s')} at 10,000" in lines[0]


def test_what_is_said_of_the_theorem_s_own_t(studies: tuple[TheoremStudy, ...]) -> None:
    lines = theorem_verdicts(studies)
    assert lines[0].startswith("queue: all 28 bounds hold; at T = 10,000 the duality gap is ")
    assert lines[1].startswith("  Lemma 1: best prices sum to 0.142 <= 10; best values reach 1.85 <= 22")
    assert "at least 2,004,006,562,805 samples, which were not run" in lines[2]
    small = studies[1]
    reached = replace(small.points[-1], samples=small.own_samples, kappa=0.5)
    said = theorem_verdicts([replace(small, points=(*small.points, reached))])[2]
    assert said.startswith("  Theorem 3 at its own T = 93,046,456, kappa = 0.5: least mean margin +")


def test_what_is_proved_is_seen_at_a_single_t_too(studies: tuple[TheoremStudy, ...]) -> None:
    single = [replace(study, points=tuple(p for p in study.points if p.samples == 1_000)) for study in studies]
    for drawn, length in ((studies, 2), (single, 1)):
        for panel in theorems_figure(drawn).axes:
            (proved,) = [line for line in panel.lines if line.get_linestyle() == "--"]
            assert len(proved.get_xdata()) == length
            assert length > 1 or proved.get_marker() == "_"


def test_the_report_and_the_command(studies: tuple[TheoremStudy, ...], tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(theorems_csv(studies))))
    assert len(rows) == 2 * 4 * 7 and {row["holds"] for row in rows} == {"True"}
    assert float(rows[0]["measured"]) == studies[0].points[0].duality_gap.mean()
    arguments = ["theorems", "--seeds", "2", "--samples", "1000", "--jobs", "1", "--output", str(tmp_path / "out")]
    shown = CliRunner().invoke(main, arguments)
    assert shown.exit_code == 0, shown.output
    assert "duality gap" in shown.output and "boiler" in shown.output and "nan" not in shown.output
    assert all(len(line) <= 100 for line in shown.output.splitlines() if str(tmp_path) not in line)
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert files == ["theorems.csv", "theorems.png", "theorems.svg"]
    answer = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).output)
    assert len(answer["points"]) == 4 == len(theorem_rows(studies)) // 2 and len(answer["verdicts"]) == 6
    refused = CliRunner().invoke(main, ["theorems", "--seeds", "1"])
    assert refused.exit_code == 2 and "seeds must be a whole number" in refused.output
