"""A finished comparison on a suite as a table, and a CSV of all runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from inbounds.reports.figures import csv_text, drawn, write_report
from inbounds.studies.statistics import Interval
from inbounds.studies.suite import SuiteComparison


def write_suite(done: SuiteComparison, directory: Path) -> list[Path]:
    """Write every run as CSV; the paths."""
    return write_report(directory, drawn({}, {"suite": suite_csv(done)}))


def suite_rows(done: SuiteComparison) -> list[dict[str, Any]]:
    """One entry per algorithm and budget, the smallest gap first; what cannot be said is None.

    Those that have fewer runs than were asked for come after those that have all: problems they lack may be hard ones.
    """
    rows = [
        {
            "algorithm": score.algorithm,
            "settings": score.settings,
            "samples": score.samples,
            "runs": score.runs,
            "runs_by_problem": {name: len(gaps) for name, gaps in score.gaps.items()},
            "share_in_bounds": _ends(score.in_bounds),
            "interquartile_gap": _ends(score.gap),
            "worst_problem": dict(zip(("problem", "mean_gap"), score.worst, strict=True)),
            "most_out_of_bounds": dict(zip(("problem", "runs"), score.most_outside, strict=True)),
            "mean_gap_by_problem": {name: float(gaps.mean()) for name, gaps in score.gaps.items() if len(gaps)},
            "out_of_bounds_by_problem": {name: int(flags.sum()) for name, flags in score.outside.items()},
            "refusals": dict(score.refusals),
            "seconds": score.seconds,
        }
        for score in done.scores
        if score.runs
    ]
    return sorted(
        rows, key=lambda row: (row["samples"], row["runs"] < done.asked, row["interquartile_gap"]["estimate"])
    )


def _ends(interval: Interval) -> dict[str, float | None]:
    return {name: None if math.isnan(end) else end for name, end in interval._asdict().items()}


def suite_table(done: SuiteComparison, samples: int) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows for one budget: within 80 columns for every algorithm that ships.

    How many runs there are is said where some are missing.
    """
    own = [row for row in suite_rows(done) if row["samples"] == samples]
    short = any(row["runs"] < done.asked for row in own)
    header = ("algorithm", *("runs",) * short, "in bounds", "95 %", "gap %", "95 %", "worst problem", "most out")
    rows: list[tuple[str, ...]] = []
    for row in own:
        inside, gap = row["share_in_bounds"], row["interquartile_gap"]
        worst, most = row["worst_problem"], row["most_out_of_bounds"]
        rows.append(
            (
                row["algorithm"],
                *(f"{row['runs']} of {done.asked}",) * short,
                f"{100.0 * inside['estimate']:.0f} %",
                f"{100.0 * inside['lower']:.0f}-{100.0 * inside['upper']:.0f}",
                _percent(gap["estimate"]),
                "-" if gap["lower"] is None else f"{_percent(gap['lower'])}-{_percent(gap['upper'])}",
                f"{worst['problem']} {_percent(worst['mean_gap'])}",
                f"{most['problem']} {most['runs']}".strip(),
            )
        )
    return header, rows


def _percent(relative: float) -> str:
    """Two digits below ten, and fewer above.

    >>> _percent(0.00693), _percent(0.123), _percent(2.5)
    ('0.69', '12', '250')
    """
    return f"{100.0 * relative:.{2 if relative < 0.0995 else 0}f}"


def suite_csv(done: SuiteComparison) -> str:
    """Every run: its relative gap, and whether it is out of bounds."""
    rows = [
        [score.algorithm, score.samples, problem, int(seed), float(gap), int(outside)]
        for score in done.scores
        for problem, gaps in score.gaps.items()
        for seed, gap, outside in zip(score.seeds[problem], gaps, score.outside[problem], strict=True)
    ]
    return csv_text(["algorithm", "samples", "problem", "seed", "relative_gap", "out_of_bounds"], rows)
