"""A finished comparison as a table, figures (SVG and PNG) and CSV files of all runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from inbounds.pictures import BLUE, ORANGE, as_written, tidy_panel, titled
from inbounds.reports.figures import csv_text, drawn, files_of, write_report
from inbounds.studies.comparison import Comparison, Entry
from inbounds.studies.statistics import errors_beside, standard_error
from inbounds.tables import so_many_of

_BRIGHT = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_COLOURS = (*_BRIGHT, "#000000", "#7F7F7F", "#8C510A", "#5D3A9B", "#B2182B", "#44AA99", "#882255")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
"""Colours that differ for every kind of colour vision, or differ in marker; of other numbers, so that no pair soon
repeats."""

_SMALLEST_GAP = 1e-4
"""Relative to the optimum: smaller gaps are drawn as good as zero."""

_SMALLEST_COST = 1e-3
"""Of the largest cost of an episode: smaller ones are drawn as good as zero."""

FILLED = 0.95
"""A marker is filled where at least this share of the runs is in bounds."""


FILES = files_of(("comparison", "regret"), ("comparison", "regret"))
"""Those of regret only where something is played."""


def write_comparison(comparison: Comparison, directory: Path) -> list[Path]:
    """Write the figures as SVG and PNG and every run as CSV; the paths."""
    figures, tables = {"comparison": comparison_figure(comparison)}, {"comparison": comparison_csv(comparison)}
    if any(entry.played for entry in comparison.entries):
        figures["regret"], tables["regret"] = regret_figure(comparison), regret_csv(comparison)
    return write_report(directory, drawn(figures, tables))


def summary_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """The table: one entry per algorithm at the end of its runs, totals; the smallest gap in bounds first.

    In each group: algorithms whose runs are mostly in bounds, then the others, then those of fewer runs than were asked
    for, in the same order, then those that did not run. With a horizon by their loss.
    """
    rows = []
    for entry in comparison.entries:
        if entry.refusal:
            rows.append({"algorithm": entry.name, "constrained": entry.constrained, "refusal": entry.refusal})
            continue
        gaps = entry.gaps[:, -1]
        rows.append(
            {
                "algorithm": entry.name,
                "constrained": entry.constrained,
                "settings": entry.settings,
                "runs": entry.runs,
                "missing": entry.missing,
                "mean_gap": float(gaps.mean()),
                "standard_error_gap": standard_error(gaps) if entry.runs > 1 else None,
                "mean_worst_margin": float(entry.worst_margins[:, -1].mean()) if entry.margins.shape[2] else None,
                "mean_violation": float(entry.violations[:, -1].mean()),
                "share_out_of_bounds": float(entry.out_of_bounds[:, -1].mean()),
                "samples": int(entry.samples[-1]),
                "seconds": float(entry.seconds.min()),  # the others may include compilation, or loading its result
                **_episodic_facts(comparison, entry),
            }
        )
    return sorted(rows, key=lambda row: _rank(row, comparison.seeds))


def _episodic_facts(comparison: Comparison, entry: Entry) -> dict[str, Any]:
    """What is said of learners on a problem with a horizon: the loss, and of online ones what an episode cost."""
    if comparison.horizon is None and not entry.played:
        return {}
    facts: dict[str, Any] = {"mean_loss": _mean_loss(comparison, entry), "promise": entry.promise}
    facts["oscillates"] = entry.oscillates
    for name, sums in entry.played.items():
        each = 1.0 if name == "episodes" else entry.played["episodes"][:, -1]
        facts[name if name == "episodes" else f"mean_{name}_per_episode"] = float(np.mean(sums[:, -1] / each))
    for other in comparison.published:
        if other.name == entry.name and not other.refusal:
            facts["published"] = {
                "runs": other.runs,
                "mean_gap": float(other.gaps[:, -1].mean()),
                "mean_violation": float(other.violations[:, -1].mean()),
                "mean_loss": _mean_loss(comparison, other),
                "guarantee": other.guarantee,
            }
    return facts


def _mean_loss(comparison: Comparison, entry: Entry) -> float | None:
    loss = float(comparison.losses(entry)[:, -1].mean())
    return None if np.isnan(loss) else loss


def _rank(row: dict[str, Any], seeds: int) -> tuple[bool, bool, bool, bool, float]:
    if "refusal" in row:
        return not row["constrained"], True, True, True, 0.0
    where = not row["constrained"], False, row["runs"] < seeds
    if row.get("mean_loss") is not None:  # with a horizon few stay in bounds: what breaking them costs is in the loss
        return *where, False, row["mean_loss"]
    return *where, 1.0 - row["share_out_of_bounds"] < FILLED, abs(row["mean_gap"])


def comparison_figure(comparison: Comparison) -> Figure:
    """Gap to the optimum against samples, a line per algorithm; filled markers where the runs are in bounds."""
    ran = [entry for entry in comparison.entries if not entry.refusal]
    ends = sorted(ran, key=lambda entry: -float(entry.gaps[:, -1].mean()))  # as the lines end, the largest gap first
    groups = [[entry for entry in ends if entry.constrained is constrained] for constrained in (True, False)]
    shown = [group for group in groups if group] or [[]]
    figure = Figure(figsize=(5.4 + 4.4 * len(shown), 5.2), layout="constrained")
    panels = figure.subplots(1, len(shown), squeeze=False, width_ratios=[1.5 if g is groups[0] else 1.0 for g in shown])
    styles = _styles(comparison)
    for panel, group in zip(panels[0], shown, strict=True):
        threshold = _threshold(group)
        for entry in group:
            _draw(panel, entry, styles[entry.name])
        panel.axhline(0.0, color="black", linewidth=0.9, linestyle="--")
        if comparison.safe_gap is not None and group is groups[0]:
            panel.axhline(comparison.safe_gap, color="dimgrey", linewidth=0.9, linestyle="-.")
            end = {"xycoords": ("axes fraction", "data"), "ha": "left", "va": "bottom"}
            panel.annotate("the safe policy", (0.01, comparison.safe_gap), fontsize=8, color="dimgrey", **end)
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
    figure.legend(handles=_legend(comparison, shown, styles), frameon=False, fontsize=8, loc="outside right center")
    figure.suptitle(
        titled(
            f"{comparison.runs} of {comparison.samples:,} samples, {comparison.preset} settings, judged exactly",
            comparison.problem,
        ),
        fontsize=11,
    )
    return figure


def _styles(comparison: Comparison) -> dict[str, dict[str, Any]]:
    """Of every algorithm that ran, the same in each figure."""
    ran = [entry.name for entry in comparison.entries if not entry.refusal]
    return {name: _style(_COLOURS[k % len(_COLOURS)], _MARKERS[k % len(_MARKERS)]) for k, name in enumerate(ran)}


def _style(colour: str, marker: str) -> dict[str, Any]:
    return {"color": colour, "marker": marker, "markersize": 5.5}


def _draw(panel: Any, entry: Entry, style: dict[str, Any]) -> None:
    gaps = entry.gaps.mean(axis=0)
    inside = 1.0 - entry.out_of_bounds.mean(axis=0) >= FILLED
    panel.plot(entry.samples, gaps, color=style["color"], linewidth=1.1, zorder=1)
    _draw_interval(panel, entry.samples, entry.gaps, style["color"])
    for there, face in ((inside, style["color"]), (~inside, "white")):
        panel.plot(entry.samples[there], gaps[there], linestyle="none", markerfacecolor=face, zorder=2, **style)


def _draw_interval(panel: Any, places: Any, values: Any, colour: str) -> None:
    """Where the mean of values [seeds, C] is, shaded."""
    if len(values) > 1:
        mean, error = values.mean(axis=0), errors_beside(len(values)) * standard_error(values)
        panel.fill_between(places, mean - error, mean + error, color=colour, alpha=0.15, linewidth=0, zorder=0)


def regret_figure(comparison: Comparison) -> Figure:
    """What the episodes cost so far, per episode: strong regret above, strong violation below; a column per kind.

    Lines are means over runs, with their intervals; dotted, the same learner with its paper's constants. The safe
    policy is a line of its own.
    """
    played = [entry for entry in comparison.entries if entry.played]
    kinds = {
        "single policies settle": [entry for entry in played if not (entry.oscillates or entry.starts_safe)],
        "single policies oscillate (~):\nonly their mixture means anything": [e for e in played if e.oscillates],
        "start from the safe policy": [entry for entry in played if entry.starts_safe],
    }
    shown = {kind: group for kind, group in kinds.items() if group}
    figure = Figure(figsize=(2.0 + 4.0 * len(shown), 7.2), layout="constrained")
    panels = figure.subplots(2, len(shown), squeeze=False, sharex=True, sharey="row")
    published, styles = {entry.name: entry for entry in comparison.published if entry.played}, _styles(comparison)
    for column, (kind, group) in enumerate(shown.items()):
        for row, name in enumerate(("regret", "violation")):
            panel = panels[row][column]
            for entry in group:
                style, (places, costs) = styles[entry.name], _per_episode(entry, name)
                label = as_written(entry.name) + _fewer(entry.runs, comparison.seeds) if row == 0 else None
                panel.plot(places, costs.mean(axis=0), linewidth=1.1, label=label, **style | {"markersize": 3.5})
                _draw_interval(panel, places, costs, style["color"])
                if entry.name in published:
                    places, costs = _per_episode(published[entry.name], name)
                    panel.plot(places, costs.mean(axis=0), linewidth=1.0, linestyle=":", color=style["color"])
            if row == 0 and comparison.safe_gap is not None:
                label = "the safe policy" if group[0].starts_safe else None
                panel.axhline(comparison.safe_gap, color="black", linewidth=0.9, linestyle="--", label=label)
            panel.set_xscale("log")
            tidy_panel(panel)
        panels[0][column].set_title(kind, fontsize=10)
        panels[1][column].set_xlabel("episodes", fontsize=9)
        # Named one by one: by itself a legend leaves out names that begin with an underscore.
        named = [line for line in panels[0][column].lines if not str(line.get_label()).startswith("_child")]
        panels[0][column].legend(handles=named, frameon=False, fontsize=8)
    for row, name in enumerate(("regret", "violation")):
        ends = [float(_per_episode(entry, name)[1].mean(axis=0)[-1]) for entry in played]
        least = max(0.5 * min((end for end in ends if end > 0.0), default=1.0), _SMALLEST_COST * max(ends, default=1.0))
        panels[row][0].set_yscale("symlog", linthresh=least or 1.0, linscale=0.6)
        panels[row][0].set_ylim(bottom=0.0)
        panels[row][0].set_ylabel(f"{name} per episode so far (strong)", fontsize=9)
    repeated = so_many_of([entry.runs for entry in published.values()], comparison.published_seeds, "run")
    dotted = f"; dotted: {repeated} with the constants of their papers" if published else ""
    figure.suptitle(
        titled(
            f"what {comparison.runs} of {comparison.samples:,} samples cost while they learned, judged exactly{dotted}",
            comparison.problem,
        ),
        fontsize=11,
    )
    return figure


def _fewer(runs: int, asked: int) -> str:
    """What a name is followed by in a picture, where not all of its runs are there."""
    return f" ({so_many_of([runs], asked, 'run')})" if runs < asked else ""


def _per_episode(entry: Entry, name: str) -> tuple[Any, Any]:
    """Episodes [C], and a cost of the episodes so far divided by their number [seeds, C]; from the first one on."""
    episodes = entry.played["episodes"]
    there = episodes[0] > 0
    return episodes[0, there], entry.played[name][:, there] / episodes[:, there]


def regret_csv(comparison: Comparison) -> str:
    """What the episodes of every run cost, summed up to each checkpoint."""
    measures: list[str] = []
    rows: list[list[Any]] = []
    for constants, entries in ((comparison.preset, comparison.entries), ("paper", comparison.published)):
        for entry in entries:
            measures = measures or list(entry.played)
            for (run, c), _ in np.ndenumerate(entry.rewards if entry.played else np.empty((0, 0))):
                costs = [float(entry.played[name][run, c]) for name in measures]
                rows.append([entry.name, constants, int(entry.seeds[run]), int(entry.samples[c]), *costs])
    return csv_text(["algorithm", "constants", "seed", "samples", *measures], rows)


def _legend(comparison: Comparison, groups: list[list[Entry]], styles: dict[str, dict[str, Any]]) -> list[Line2D]:
    """The algorithms in the order of the groups; and what filled and hollow mean."""
    shown = {
        entry.name: as_written(entry.name) + " ~" * entry.oscillates + _fewer(entry.runs, comparison.seeds)
        for group in groups
        for entry in group
    }
    grey = {"linestyle": "none", **_style("dimgrey", "o")}
    return [
        *(Line2D([], [], linewidth=1.1, label=label, **styles[name]) for name, label in shown.items()),
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
        for (run, c), reward in np.ndenumerate(entry.rewards):
            values = [reward, gaps[run, c], *entry.margins[run, c], *missing]
            rows.append([entry.name, int(entry.seeds[run]), int(entry.samples[c]), *values, int(outside[run, c])])
    return csv_text(["algorithm", "seed", "samples", "total_reward", "gap", *names, "out_of_bounds"], rows)
