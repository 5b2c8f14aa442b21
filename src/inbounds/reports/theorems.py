"""The paper's bounds and what was measured, drawn from a finished study: one figure, a CSV, a table, verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from inbounds.pictures import BLUE, ORANGE, note, tidy_panel
from inbounds.reports.figures import csv_text, drawn, files_of
from inbounds.studies.theorems import TheoremPoint, TheoremStudy

_GREEN = "#009E73"
_STYLES = {
    "kappa = 0": (BLUE, "o"),
    "kappa, constant 0.02": (ORANGE, "s"),
    "kappa, the proof's constant": (_GREEN, "D"),
}
_PANELS = {
    "duality_gap": ("duality gap", "Theorem 1"),
    "flow_residual": ("flow residual", "Theorem 2"),
    "conservative_gap": ("conservative gap", "Lemma 3, κ / φ"),
}


FILES = files_of(["theorems"], ["theorems"])


def drawn_theorems(studies: Sequence[TheoremStudy]) -> dict[str, bytes]:
    """The figure as SVG and PNG and every check as CSV: the contents of `FILES`."""
    return drawn({"theorems": theorems_figure(studies)}, {"theorems": theorems_csv(studies)})


def theorems_figure(studies: Sequence[TheoremStudy]) -> Figure:
    """A row for each problem: duality gap, flow residual and conservative gap against T, with the paper's curves."""
    figure = Figure(figsize=(10.5, 3.1 * len(studies) + 0.4), layout="constrained")
    grid = figure.subplots(len(studies), len(_PANELS), squeeze=False)
    for row, study in zip(grid, studies, strict=True):
        for panel, (name, (label, curve)) in zip(row, _PANELS.items(), strict=True):
            _draw(panel, study, name, label, curve)
        row[0].set_title(f"{study.problem}: {_facts_of(study)}", fontsize=9, loc="left")
    seeds = len(studies[0].points[0].duality_gap)
    figure.suptitle(
        f"CSPDA by the paper's formulas: mean of {seeds} runs at each T, in scaled units; dashed: proved", fontsize=11
    )
    return figure


def _facts_of(study: TheoremStudy) -> str:
    return f"φ = {study.slater:g}, theorem's own T = {study.own_samples:.2g}"


def _draw(panel: Any, study: TheoremStudy, name: str, label: str, curve: str) -> None:
    for arm, (colour, marker) in _STYLES.items():
        points = [point for point in study.points if point.arm == arm]
        shown = [point for point in points if point.checks[name][0] > 0.0]  # without kappa nothing is given up
        if not shown:
            continue
        counts = [point.samples for point in shown]
        means = [point.checks[name][0] for point in shown]
        errors = [_standard_error(point, name) for point in shown]
        style = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1.2}
        panel.errorbar(counts, means, yerr=errors, elinewidth=0.8, capsize=2, label=arm.replace("kappa", "κ"), **style)
        if name == "conservative_gap":
            bounds = [point.checks[name][1] for point in shown]
            panel.plot(counts, bounds, color=colour, linestyle="--", linewidth=1.0, marker="_", markersize=9)
    if name != "conservative_gap":  # the same curve for every kappa
        curves = {point.samples: point.checks[name][1] for point in study.points}
        marker = "_" if len(curves) == 1 else ""  # one point alone has no line that would be seen
        style = {"color": "black", "linestyle": "--", "linewidth": 1.0, "marker": marker, "markersize": 9}
        panel.plot(list(curves), list(curves.values()), **style)
    panel.set(xscale="log", yscale="log")
    low, high = panel.get_ylim()
    panel.set_ylim(low, high * 6.0)  # room for the words
    note(panel, f"dashed: {curve}", panel.get_xlim()[1], 0.93, "right")
    panel.set_ylabel(label, fontsize=9)
    panel.set_xlabel("samples T", fontsize=9)
    tidy_panel(panel)
    if name == "flow_residual":
        panel.legend(frameon=False, fontsize=7, loc="center right")


def _standard_error(point: TheoremPoint, name: str) -> float:
    values = np.atleast_1d(getattr(point, name))
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def theorems_csv(studies: Sequence[TheoremStudy]) -> str:
    """Every check of every point: what was measured, and the bound."""
    header = ["problem", "arm", "samples", "kappa", "quantity", "measured", "bound", "holds"]
    rows = [
        [study.problem, point.arm, point.samples, point.kappa, name, measured, bound, point.holds[name]]
        for study in studies
        for point in study.points
        for name, (measured, bound) in point.checks.items()
    ]
    return csv_text(header, rows)


def theorem_rows(studies: Sequence[TheoremStudy]) -> list[dict[str, Any]]:
    """One entry per point, for the table and for machines."""
    return [
        {
            "problem": study.problem,
            "arm": point.arm,
            "samples": point.samples,
            "kappa": point.kappa,
            **{name: {"measured": measured, "bound": bound} for name, (measured, bound) in point.checks.items()},
            "holds": all(point.holds.values()),
        }
        for study in studies
        for point in study.points
    ]


def theorem_verdicts(studies: Sequence[TheoremStudy]) -> list[str]:
    """Whether every bound held, how loose they are, what rate was seen, and whether the theorem's own T was reached."""
    lines = []
    for study in studies:
        broken = [f"{name} at {p.samples:,} ({p.arm})" for p in study.points for name, ok in p.holds.items() if not ok]
        number = sum(len(point.holds) for point in study.points)
        plain = [point for point in study.points if point.arm == "kappa = 0"]
        (measured, bound), ends = plain[-1].checks["duality_gap"], (plain[0], plain[-1])
        fell = ""
        if len(plain) > 1:
            fall = math.log(ends[1].duality_gap.mean() / ends[0].duality_gap.mean())
            rate = fall / math.log(ends[1].samples / ends[0].samples)
            fell = f"; from T = {ends[0].samples:,} on it fell as T^{rate:.2f}, and its bound falls as T^-0.50"
        lines.append(
            f"{study.problem}: "
            + (f"does NOT hold: {', '.join(broken)}" if broken else f"all {number} bounds hold")
            + f"; at T = {ends[1].samples:,} the duality gap is {measured:.3g}, proved {bound:.3g}{fell}"
        )
        (prices, most), (values, highest) = study.price_sums, study.value_sizes
        lines.append(
            f"  Lemma 1: best prices sum to {prices:.3g} <= {most:.3g}; best values reach {values:.3g} <= {highest:.3g}"
        )
        lines.append(_own(study))
    return lines


def _own(study: TheoremStudy) -> str:
    """What came of the theorem at its own T."""
    theirs = next((point for point in study.points if point.samples == study.own_samples and point.kappa > 0.0), None)
    if theirs is None:
        return (
            f"  Theorem 2 asks for at least {study.own_samples:,} samples, which were not run: here it promises nothing"
        )
    (margin, least), (gap, most) = theirs.checks["policy_margin"], theirs.checks["policy_gap"]
    return (
        f"  Theorem 3 at its own T = {study.own_samples:,}, kappa = {theirs.kappa:.3g}: "
        f"least mean margin {margin:+.3f}, promised >= {round(least, 9) + 0.0:.3g}; "
        f"reward lost {gap:.3f}, promised <= {most:.3g}"
    )
