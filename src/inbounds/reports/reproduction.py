"""The paper's figures, drawn from a finished reproduction: SVG, PNG, a CSV of the curves, and the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from inbounds.reports.figures import BLUE, ORANGE, csv_text, note, tidy_panel, write_report
from inbounds.studies.reproduction import Arm, Reproduction

_COLOURS = {False: BLUE, True: ORANGE}
_MARKERS = {False: "o", True: "s"}


def write_reproduction(reproduction: Reproduction, directory: Path) -> list[Path]:
    """Write every figure as SVG and PNG and the curves as CSV; the paths, in the order of the paper."""
    figures = {
        "figure-1-reward": reward_figure(reproduction),
        "figure-2-constraints": constraint_figure(reproduction, error_bars=False),
        "figure-3-error-bars": constraint_figure(reproduction, error_bars=True),
    }
    return write_report(directory, figures, {"curves": curves_csv(reproduction)})


def reward_figure(reproduction: Reproduction) -> Figure:
    """Figure 1 of the paper: total reward against samples."""
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    panels = figure.subplots(1, len(reproduction.settings), sharey=True, squeeze=False)[0]
    for panel, setting in zip(panels, reproduction.settings, strict=True):
        for conservative in (False, True):
            arm = reproduction.arm(setting, conservative)
            panel.plot(arm.samples, arm.rewards.mean(axis=0), color=_COLOURS[conservative], label=_kappa_label(arm))
        tight, thin = f"LP optimum, κ = {reproduction.kappa:.4f}", {"color": "black", "linewidth": 0.9}
        panel.axhline(reproduction.optimum, linestyle="--", label="LP optimum", **thin)
        panel.axhline(reproduction.conservative_optimum, linestyle=":", label=tight, **thin)
        _mark_restart(panel, reproduction.arm(setting, conservative=True), height=0.9)
        _finish(panel, setting, "total reward")
    panels[-1].legend(frameon=False, fontsize=8)
    figure.suptitle(f"CSPDA on the queue: reward, mean of {reproduction.seeds} runs", fontsize=11)
    return figure


def constraint_figure(reproduction: Reproduction, error_bars: bool) -> Figure:
    """Figure 2 of the paper: the value of both constraints against samples; with error bars, that of its appendix."""
    names, settings = reproduction.constraint_names, reproduction.settings
    figure = Figure(figsize=(9.0, 5.6), layout="constrained")
    grid = figure.subplots(len(names), len(settings), sharex=True, sharey="row", squeeze=False)
    for row, name in enumerate(names):
        for panel, setting in zip(grid[row], settings, strict=True):
            for conservative in (False, True):
                _draw_margin(panel, reproduction.arm(setting, conservative), row, error_bars)
            # Far below the bound, where every run starts, there is nothing to tell the two apart.
            panel.axhspan(-1e3, 0.0, color="black", alpha=0.06, linewidth=0.0)
            panel.axhline(0.0, color="black", linewidth=0.9, linestyle="--")
            _mark_restart(panel, reproduction.arm(setting, conservative=True), height=0.03)
            _finish(panel, setting if row == 0 else "", f"total margin: {name}")
        grid[row][0].set_ylim(_limits(reproduction, row, error_bars))
    grid[0][-1].legend(frameon=False, fontsize=8, loc="lower right")
    bars = ", bars: ± one standard deviation" if error_bars else ""
    figure.suptitle(
        f"CSPDA on the queue: constraint values, mean of {reproduction.seeds} runs{bars}; grey: out of bounds",
        fontsize=11,
    )
    return figure


def _draw_margin(panel: Any, arm: Arm, constraint: int, error_bars: bool) -> None:
    values = arm.margins[:, :, constraint]
    mean, style = values.mean(axis=0), {"color": _COLOURS[arm.conservative], "label": _kappa_label(arm)}
    if not error_bars:
        panel.plot(arm.samples, mean, **style)
        return
    shown = np.arange(len(arm.samples))[::-4]  # from the end backwards: the end is what matters
    aside = (0.006 if arm.conservative else -0.006) * arm.samples[-1]  # so that the bars do not hide each other
    panel.errorbar(
        arm.samples[shown] + aside,
        mean[shown],
        yerr=values.std(axis=0, ddof=1)[shown],
        marker=_MARKERS[arm.conservative],
        markersize=3,
        linewidth=1.2,
        elinewidth=0.8,
        capsize=2,
        **style,
    )


def _limits(reproduction: Reproduction, constraint: int, error_bars: bool) -> tuple[float, float]:
    """From a little below the later part of the curves to a little above: their start would flatten everything else."""
    lows, highs = [0.0], [0.0]
    for arm in reproduction.arms:
        late = arm.margins[:, arm.samples >= 0.15 * arm.samples[-1], constraint]
        spread = late.std(axis=0, ddof=1) if error_bars else 0.0
        lows.append(float(np.min(late.mean(axis=0) - spread)))
        highs.append(float(np.max(late.mean(axis=0) + spread)))
    room = 0.08 * (max(highs) - min(lows))
    return min(lows) - room, max(highs) + room


def _mark_restart(panel: Any, arm: Arm, height: float) -> None:
    """The practical preset averages the second half only: there its curves jump."""
    if arm.average_from:
        panel.axvline(arm.average_from, color="grey", linewidth=0.8, linestyle="-.")
        note(panel, "average starts anew ", arm.average_from, height, "right")


def _kappa_label(arm: Arm) -> str:
    return f"κ = {arm.kappa:.4f}" if arm.conservative else "κ = 0"


def _finish(panel: Any, title: str, ylabel: str) -> None:
    panel.set_title(title, fontsize=10)
    panel.set_ylabel(ylabel, fontsize=9)
    panel.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value else "0")
    tidy_panel(panel)
    if panel.get_subplotspec().is_last_row():
        panel.set_xlabel("samples", fontsize=9)
    if not panel.get_subplotspec().is_first_col():
        panel.set_ylabel("")


def curves_csv(reproduction: Reproduction) -> str:
    """Every curve of every figure: mean and standard deviation over seeds, and the share of runs out of bounds."""
    columns = ["setting", "kappa", "samples", "mean_total_reward", "sd_total_reward"]
    for name in reproduction.constraint_names:
        columns += [f"mean_total_margin_{name}", f"sd_total_margin_{name}"]
    rows: list[list[Any]] = []
    for arm in reproduction.arms:
        for c, samples in enumerate(arm.samples):
            curves = (arm.rewards[:, c], *arm.margins[:, c].T)
            spreads = [value for values in curves for value in (values.mean(), values.std(ddof=1))]
            rows.append([arm.setting, arm.kappa, int(samples), *spreads, arm.out_of_bounds[:, c].mean()])
    return csv_text([*columns, "share_out_of_bounds"], rows)


def summary_rows(reproduction: Reproduction) -> list[dict[str, Any]]:
    """The table at the end of the runs: one entry per arm, totals."""
    return [
        {
            "setting": arm.setting,
            "kappa": arm.kappa,
            "mean_total_reward": float(arm.rewards[:, -1].mean()),
            "sd_total_reward": float(arm.rewards[:, -1].std(ddof=1)),
            "mean_total_margins": arm.mean_margins.tolist(),
            "sd_total_margins": arm.margins[:, -1].std(axis=0, ddof=1).tolist(),
            "share_out_of_bounds": float(arm.out_of_bounds[:, -1].mean()),
        }
        for arm in reproduction.arms
    ]


def verdicts(reproduction: Reproduction) -> list[str]:
    """Where the paper's claim, that kappa > 0 keeps both constraint values above zero, holds, and where it does not."""
    lines = []
    for setting in reproduction.settings:
        arm = reproduction.arm(setting, conservative=True)
        plain = reproduction.arm(setting, conservative=False)
        means = ", ".join(
            f"{name} {mean:+.3f}" for name, mean in zip(reproduction.constraint_names, arm.mean_margins, strict=True)
        )
        claim = "the paper's claim holds" if np.all(arm.mean_margins > 0.0) else "the paper's claim does NOT hold"
        outside, plain_outside = arm.out_of_bounds[:, -1].mean(), plain.out_of_bounds[:, -1].mean()
        lines.append(
            f"{setting}: {claim}: with kappa > 0 the mean margins are {means}; "
            f"{outside:.1%} of runs are out of bounds, {plain_outside:.1%} with kappa = 0"
        )
    return lines
