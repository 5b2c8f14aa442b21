"""A finished comparison as a table, a figure (SVG and PNG) and a CSV of all runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from inbounds.reports.figures import BLUE, ORANGE, csv_text, tidy_panel, write_report
from inbounds.studies.comparison import Comparison, Entry

_BRIGHT = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_COLOURS = (*_BRIGHT, "#000000", "#7F7F7F", "#8C510A", "#5D3A9B", "#B2182B")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
"""Colours that differ for every kind of colour vision, or differ in marker; of other numbers, so that no pair soon
repeats."""

_SMALLEST_GAP = 1e-4
"""Relative to the optimum: smaller gaps are drawn as good as zero."""

FILLED = 0.95
"""A marker is filled where at least this share of the runs is in bounds."""


def write_comparison(comparison: Comparison, directory: Path) -> list[Path]:
    """Write the figure as SVG and PNG and every run as CSV; the paths."""
    figures, tables = {"comparison": comparison_figure(comparison)}, {"comparison": comparison_csv(comparison)}
    return write_report(directory, figures, tables)


def summary_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """The table: one entry per algorithm at the end of its runs, totals; the smallest gap in bounds first.

    In each group: algorithms whose runs are mostly in bounds, then the others, then those that did not run.
    """
    rows = []
    for entry in comparison.entries:
        if entry.refusal:
            rows.append({"algorithm": entry.name, "constrained": entry.constrained, "refusal": entry.refusal})
            continue
        gaps, seeds = entry.gaps[:, -1], len(entry.rewards)
        rows.append(
            {
                "algorithm": entry.name,
                "constrained": entry.constrained,
                "settings": entry.settings,
                "mean_gap": float(gaps.mean()),
                "standard_error_gap": float(gaps.std(ddof=1) / np.sqrt(seeds)) if seeds > 1 else None,
                "mean_worst_margin": float(entry.worst_margins[:, -1].mean()) if entry.margins.shape[2] else None,
                "mean_violation": float(entry.violations[:, -1].mean()),
                "share_out_of_bounds": float(entry.out_of_bounds[:, -1].mean()),
                "samples": int(entry.samples[-1]),
                "seconds": float(entry.seconds.min()),  # the others may include compilation, or loading its result
            }
        )
    return sorted(rows, key=_rank)


def _rank(row: dict[str, Any]) -> tuple[bool, int, float]:
    if "refusal" in row:
        return not row["constrained"], 2, 0.0
    return not row["constrained"], int(1.0 - row["share_out_of_bounds"] < FILLED), abs(row["mean_gap"])


def comparison_figure(comparison: Comparison) -> Figure:
    """Gap to the optimum against samples, a line per algorithm; filled markers where the runs are in bounds."""
    ran = [entry for entry in comparison.entries if not entry.refusal]
    ends = sorted(ran, key=lambda entry: -float(entry.gaps[:, -1].mean()))  # as the lines end, the largest gap first
    groups = [[entry for entry in ends if entry.constrained is constrained] for constrained in (True, False)]
    shown = [group for group in groups if group] or [[]]
    figure = Figure(figsize=(5.4 + 4.4 * len(shown), 5.2), layout="constrained")
    panels = figure.subplots(1, len(shown), squeeze=False, width_ratios=[1.5 if g is groups[0] else 1.0 for g in shown])
    styles = {
        entry.name: _style(_COLOURS[place % len(_COLOURS)], _MARKERS[place % len(_MARKERS)])
        for place, entry in enumerate(ran)
    }
    for panel, group in zip(panels[0], shown, strict=True):
        threshold = _threshold(group)
        for entry in group:
            _draw(panel, entry, styles[entry.name])
        panel.axhline(0.0, color="black", linewidth=0.9, linestyle="--")
        panel.set_xscale("log")
        panel.set_yscale("symlog", linthresh=threshold, linscale=0.6)
        if all(np.all(entry.gaps.mean(axis=0) > -threshold) for entry in group):
            panel.set_ylim(bottom=-threshold)  # nothing is below: leave no room for it
        panel.set_xlabel("samples", fontsize=9)
        tidy_panel(panel)
        if comparison.constraint_names:
            with_constraints = bool(group) and group[0].constrained
            panel.set_title("with the constraints" if with_constraints else "without the constraints", fontsize=10)
    panels[0][0].set_ylabel("optimum − total reward, mean over runs", fontsize=9)
    figure.legend(handles=_legend(shown, styles), frameon=False, fontsize=8, loc="outside right center")
    figure.suptitle(
        f"{comparison.problem}: {comparison.seeds} runs of {comparison.samples:,} samples, "
        f"{comparison.preset} settings, judged exactly",
        fontsize=11,
    )
    return figure


def _style(colour: str, marker: str) -> dict[str, Any]:
    return {"color": colour, "marker": marker, "markersize": 5.5}


def _draw(panel: Any, entry: Entry, style: dict[str, Any]) -> None:
    gaps = entry.gaps.mean(axis=0)
    inside = 1.0 - entry.out_of_bounds.mean(axis=0) >= FILLED
    panel.plot(entry.samples, gaps, color=style["color"], linewidth=1.1, zorder=1)
    for there, face in ((inside, style["color"]), (~inside, "white")):
        panel.plot(entry.samples[there], gaps[there], linestyle="none", markerfacecolor=face, zorder=2, **style)


def _legend(groups: list[list[Entry]], styles: dict[str, dict[str, Any]]) -> list[Line2D]:
    """The algorithms in the order of the groups; and what filled and hollow mean."""
    shown = [entry.name for group in groups for entry in group]
    grey = {"linestyle": "none", **_style("dimgrey", "o")}
    return [
        *(Line2D([], [], linewidth=1.1, label=name, **styles[name]) for name in shown),
        Line2D([], [], label=f"filled: at least {FILLED:.0%}\nof the runs in bounds", **grey),
        Line2D([], [], label="hollow: fewer", markerfacecolor="white", **grey),
    ]


def _threshold(group: list[Entry]) -> float:
    """Where the axis turns from logarithmic to linear: below all but the smallest gaps at the end."""
    ends = [abs(float(entry.gaps[:, -1].mean())) for entry in group]
    return max(0.5 * float(np.quantile(ends, 0.2)), _SMALLEST_GAP * abs(group[0].optimum)) if group else 1.0


def comparison_csv(comparison: Comparison) -> str:
    """Every run at every checkpoint: totals."""
    names = [f"total_margin_{name}" for name in comparison.constraint_names]
    rows: list[list[Any]] = []
    for entry in comparison.entries:
        gaps, outside = entry.gaps, entry.out_of_bounds
        missing = [""] * (len(names) - entry.margins.shape[2])  # it ran without the constraints
        for (seed, c), reward in np.ndenumerate(entry.rewards):
            values = [reward, gaps[seed, c], *entry.margins[seed, c], *missing]
            rows.append([entry.name, seed, int(entry.samples[c]), *values, int(outside[seed, c])])
    return csv_text(["algorithm", "seed", "samples", "total_reward", "gap", *names, "out_of_bounds"], rows)
