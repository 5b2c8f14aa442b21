"""The paper's figures, drawn from a finished reproduction: SVG, PNG, CSV files, the tables and the verdict.

The first picture is the paper's Figures 1 and 2 with its costs as printed, and the sweep over delta; the others show
every reading side by side.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from inbounds.pictures import BLUE, ORANGE, note, tidy_panel
from inbounds.reports.figures import csv_text, drawn, files_of
from inbounds.studies.reproduction import Arm, Reproduction, crossings

_COLOURS = {False: BLUE, True: ORANGE}
_MARKERS = {False: "o", True: "s"}
_THIN = {"color": "black", "linewidth": 0.9}


FILES = files_of(
    ("as-printed", "figure-1-reward", "figure-2-constraints", "figure-3-error-bars", "figure-4-delta"),
    ("curves", "delta"),
)


def drawn_reproduction(reproduction: Reproduction) -> dict[str, bytes]:
    """Every figure as SVG and PNG and the numbers as CSV: the contents of `FILES`."""
    figures = {
        "as-printed": first_figure(reproduction),
        "figure-1-reward": reward_figure(reproduction),
        "figure-2-constraints": constraint_figure(reproduction, error_bars=False),
        "figure-3-error-bars": constraint_figure(reproduction, error_bars=True),
        "figure-4-delta": delta_figure(reproduction),
    }
    return drawn(figures, {"curves": curves_csv(reproduction), "delta": delta_csv(reproduction)})


def first_figure(reproduction: Reproduction) -> Figure:
    """The paper's Figures 1 and 2 under the first reading, and the last constraint's sweep over delta."""
    reading, names = reproduction.readings[0], reproduction.constraint_names
    figure = Figure(figsize=(9.0, 2.8 * -(-(2 + len(names)) // 2)), layout="constrained")
    panels = figure.subplots(-(-(2 + len(names)) // 2), 2, squeeze=False).ravel()
    delta = reproduction.arm(reading, conservative=True).delta
    _draw_rewards(panels[0], reproduction, reading)
    _over_samples(panels[0], f"Figure 1: reward (δ = {delta:g})", "total reward")
    panels[0].legend(frameon=False, fontsize=8)
    for row, name in enumerate(names):
        panel = panels[1 + row]
        _draw_margins(panel, reproduction, reading, row, error_bars=False)
        _over_samples(panel, f"Figure 2: {name} (δ = {delta:g})", f"total margin: {name}")
    last = panels[1 + len(names)]
    _draw_sweep(last, reproduction, reading, len(names) - 1)
    _over_delta(last, f"{names[-1]} at the end, against δ, ± two standard errors", f"total margin: {names[-1]}")
    for panel in panels[2 + len(names) :]:
        panel.set_axis_off()
    figure.suptitle(
        f"CSPDA on the paper's queue, {reading}: mean of {reproduction.seeds} runs; grey: out of bounds", fontsize=11
    )
    return figure


def reward_figure(reproduction: Reproduction) -> Figure:
    """Figure 1 of the paper: total reward against samples."""
    figure = Figure(figsize=(12.0, 3.4), layout="constrained")
    panels = figure.subplots(1, len(reproduction.readings), squeeze=False)[0]
    for panel, reading in zip(panels, reproduction.readings, strict=True):
        _draw_rewards(panel, reproduction, reading)
        _over_samples(panel, reading, "total reward")
    _shared_legend(figure, panels[0])
    figure.suptitle(f"CSPDA on the paper's queue: reward, mean of {reproduction.seeds} runs", fontsize=11)
    return figure


def constraint_figure(reproduction: Reproduction, error_bars: bool) -> Figure:
    """Figure 2 of the paper: the value of both constraints against samples; with error bars, that of its appendix."""
    names, readings = reproduction.constraint_names, reproduction.readings
    figure = Figure(figsize=(12.0, 2.8 * len(names)), layout="constrained")
    grid = figure.subplots(len(names), len(readings), squeeze=False)
    for row, name in enumerate(names):
        for panel, reading in zip(grid[row], readings, strict=True):
            _draw_margins(panel, reproduction, reading, row, error_bars)
            _over_samples(panel, reading if row == 0 else "", f"total margin: {name}")
    _shared_legend(figure, grid[0][0])
    bars = ", bars: ± one standard deviation" if error_bars else ""
    figure.suptitle(
        f"CSPDA on the paper's queue: constraint values, mean of {reproduction.seeds} runs{bars}; grey: out of bounds",
        fontsize=11,
    )
    return figure


def delta_figure(reproduction: Reproduction) -> Figure:
    """The value of both constraints at the end of the runs against delta, the exploration that the paper leaves out."""
    names, readings = reproduction.constraint_names, reproduction.readings
    figure = Figure(figsize=(12.0, 2.8 * len(names)), layout="constrained")
    grid = figure.subplots(len(names), len(readings), squeeze=False)
    for row, name in enumerate(names):
        for panel, reading in zip(grid[row], readings, strict=True):
            _draw_sweep(panel, reproduction, reading, row)
            _over_delta(panel, reading if row == 0 else "", f"total margin: {name}")
    _shared_legend(figure, grid[0][0])
    figure.suptitle(
        f"CSPDA on the paper's queue: constraint values after {reproduction.samples:,} samples against δ, mean of "
        f"{_numbers_of_runs(reproduction)} runs, bars: ± two standard errors; grey: out of bounds",
        fontsize=11,
    )
    return figure


def _numbers_of_runs(reproduction: Reproduction) -> str:
    """Of each arm of the sweep; those with other deltas have fewer where a limit was reached."""
    numbers = sorted({len(arm.seeds) for arm in (*reproduction.arms, *reproduction.sweep)})
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def _draw_rewards(panel: Any, reproduction: Reproduction, reading: str) -> None:
    for conservative in (False, True):
        arm = reproduction.arm(reading, conservative)
        panel.plot(arm.samples, arm.rewards.mean(axis=0), color=_COLOURS[conservative], label=_kappa_label(arm))
    conservative_arm = reproduction.arm(reading, conservative=True)
    panel.axhline(reproduction.optimum, linestyle="--", label="optimum", **_THIN)
    tightened = f"optimum, tightened by κ = {conservative_arm.kappa:.4f}"
    panel.axhline(reproduction.conservative_optima[reading], linestyle=":", label=tightened, **_THIN)
    _mark_restart(panel, conservative_arm)


def _draw_margins(panel: Any, reproduction: Reproduction, reading: str, constraint: int, error_bars: bool) -> None:
    arms = [reproduction.arm(reading, conservative) for conservative in (False, True)]
    for arm in arms:
        values = arm.margins[:, :, constraint]
        mean, spread = values.mean(axis=0), values.std(axis=0, ddof=1)
        if error_bars:
            # From the end backwards, which is what matters; a little aside, so that the bars do not hide each other.
            shown, aside = np.arange(len(arm.samples))[::-4], (0.006 if arm.conservative else -0.006) * arm.samples[-1]
            _draw_bars(panel, arm.samples[shown] + aside, mean[shown], spread[shown], arm)
        else:
            panel.plot(arm.samples, mean, color=_COLOURS[arm.conservative], label=_kappa_label(arm))
    _mark_restart(panel, arms[1])
    # Far below the bound, where every run starts, there is nothing to tell the two apart.
    late = [arm.margins[:, arm.samples >= 0.15 * arm.samples[-1], constraint] for arm in arms]
    spreads = [values.std(axis=0, ddof=1) if error_bars else 0.0 for values in late]
    lows = [float(np.min(values.mean(axis=0) - spread)) for values, spread in zip(late, spreads, strict=True)]
    highs = [float(np.max(values.mean(axis=0) + spread)) for values, spread in zip(late, spreads, strict=True)]
    _show_bound(panel, min(0.0, *lows), max(0.0, *highs))


def _draw_sweep(panel: Any, reproduction: Reproduction, reading: str, constraint: int) -> None:
    """Bars are two standard errors."""
    lows, highs = [0.0], [0.0]
    for conservative in (False, True):
        arms = reproduction.over_delta(reading, conservative)
        deltas, mean = np.array([arm.delta for arm in arms]), np.array([arm.mean_margins[constraint] for arm in arms])
        bars = 2.0 * np.array([arm.standard_errors[constraint] for arm in arms])
        aside = 1.012 if conservative else 1.0 / 1.012  # on a logarithmic axis
        _draw_bars(panel, deltas * aside, mean, bars, arms[-1])
        lows.append(float(np.min(mean - bars)))
        highs.append(float(np.max(mean + bars)))
    panel.set_xscale("log")
    panel.set_xticks(deltas, [f"{delta:g}" for delta in deltas])
    panel.minorticks_off()
    _show_bound(panel, min(lows), max(highs))
    if parting := parting_deltas(reproduction, reading):
        panel.axvspan(*parting, color=ORANGE, alpha=0.15, linewidth=0.0)
        note(panel, " only κ > 0\n in bounds", parting[1], 0.75, "left")


def _draw_bars(panel: Any, x: Any, mean: Any, bars: Any, arm: Arm) -> None:
    panel.errorbar(
        x,
        mean,
        yerr=bars,
        marker=_MARKERS[arm.conservative],
        markersize=3,
        linewidth=1.2,
        elinewidth=0.8,
        capsize=2,
        color=_COLOURS[arm.conservative],
        label=_kappa_label(arm),
    )


def _show_bound(panel: Any, low: float, high: float) -> None:
    """Grey below zero, and the limits of the axis around what is to be seen."""
    panel.axhspan(-1e3, 0.0, color="black", alpha=0.06, linewidth=0.0)
    panel.axhline(0.0, linestyle="--", **_THIN)
    room = 0.08 * (high - low) or 1.0
    panel.set_ylim(low - room, high + room)


def _mark_restart(panel: Any, arm: Arm) -> None:
    """The practical preset averages the second half only: there its curves jump."""
    if arm.average_from:
        panel.axvline(arm.average_from, color="grey", linewidth=0.8, linestyle="-.")
        note(panel, "     average starts anew", arm.average_from, 0.9, "left")


def _kappa_label(arm: Arm) -> str:
    return f"κ = {arm.kappa:.4f}" if arm.conservative else "κ = 0"


def _shared_legend(figure: Figure, panel: Any) -> None:
    """That of one panel for all of them, below."""
    handles = panel.get_legend_handles_labels()
    figure.legend(*handles, frameon=False, fontsize=8, ncols=4, loc="outside lower center")


def _over_samples(panel: Any, title: str, ylabel: str) -> None:
    panel.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value else "0")
    _finish(panel, title, ylabel, "samples")


def _over_delta(panel: Any, title: str, ylabel: str) -> None:
    _finish(panel, title, ylabel, "δ, the share of exploration")


def _finish(panel: Any, title: str, ylabel: str, xlabel: str) -> None:
    panel.set_title(title, fontsize=10)
    panel.set_ylabel(ylabel, fontsize=9)
    panel.set_xlabel(xlabel, fontsize=9)
    tidy_panel(panel)


def curves_csv(reproduction: Reproduction) -> str:
    """Every curve of every figure: mean and standard deviation over seeds, and the share of runs out of bounds."""
    return _csv(reproduction, reproduction.arms)


def delta_csv(reproduction: Reproduction) -> str:
    """The same at the end of the runs, for every delta."""
    arms = [
        arm
        for reading in reproduction.readings
        for conservative in (False, True)
        for arm in reproduction.over_delta(reading, conservative)
    ]
    return _csv(reproduction, arms, only_end=True)


def _csv(reproduction: Reproduction, arms: Any, only_end: bool = False) -> str:
    columns = ["reading", "kappa", "delta", "samples", "mean_total_reward", "sd_total_reward"]
    for name in reproduction.constraint_names:
        columns += [f"mean_total_margin_{name}", f"sd_total_margin_{name}"]
    rows: list[list[Any]] = []
    for arm in arms:
        for c in range(len(arm.samples))[-1 if only_end else 0 :]:
            curves = (arm.rewards[:, c], *arm.margins[:, c].T)
            spreads = [value for values in curves for value in (values.mean(), values.std(ddof=1))]
            share = arm.out_of_bounds[:, c].mean()
            rows.append([arm.reading, arm.kappa, arm.delta, int(arm.samples[c]), *spreads, share])
    return csv_text([*columns, "share_out_of_bounds"], rows)


def summary_rows(reproduction: Reproduction) -> list[dict[str, Any]]:
    """The table at the end of the runs: one entry per arm of the figures, then of the sweep; totals."""
    return [
        {
            "reading": arm.reading,
            "kappa": arm.kappa,
            "delta": arm.delta,
            "mean_total_reward": float(arm.rewards[:, -1].mean()),
            "sd_total_reward": float(arm.rewards[:, -1].std(ddof=1)),
            "mean_total_margins": arm.mean_margins.tolist(),
            "sd_total_margins": arm.margins[:, -1].std(axis=0, ddof=1).tolist(),
            "standard_errors": arm.standard_errors.tolist(),
            "share_out_of_bounds": arm.share_out_of_bounds,
        }
        for arm in (*reproduction.arms, *reproduction.sweep)
    ]


def parting_deltas(reproduction: Reproduction, reading: str) -> tuple[float, float] | None:
    """Between which of the deltas tried it is as the paper says: kappa > 0 is in bounds on average, kappa = 0 is not.

    None where there are none, or where a curve comes in bounds more than once, or leaves them, as delta grows.
    """
    arms = [reproduction.over_delta(reading, conservative) for conservative in (True, False)]
    begins, ends = map(_in_bounds_from, arms)
    if begins is None or ends is None or not begins < ends:
        return None
    return begins, min(ends, arms[0][-1].delta)


def _in_bounds_from(arms: list[Arm]) -> float | None:
    """From which delta on a curve is in bounds on average; infinite if from none, None if from there on not always."""
    found = crossings(arms)
    if not found:
        return arms[0].delta if arms[0].mean_margins.min() >= 0.0 else math.inf
    return found[0].delta if len(found) == 1 and found[0].rising else None


def verdict_rows(reproduction: Reproduction) -> list[dict[str, Any]]:
    """Both halves of the paper's claim under every reading, at the delta of the figures and over all of them."""
    rows = []
    for reading in reproduction.readings:
        claims = reproduction.claims(reading)
        delta = reproduction.arm(reading, conservative=True).delta
        at_figures = next(claim for claim in claims if claim.delta == delta)
        both = [c.delta for c in claims if c.conservative_in_bounds is True and c.plain_out_of_bounds is True]
        parting = parting_deltas(reproduction, reading)
        rows.append(
            {
                "reading": reading,
                "delta": delta,
                "kappa > 0 in bounds": _outcome(at_figures.conservative_in_bounds),
                "kappa = 0 out of bounds": _outcome(at_figures.plain_out_of_bounds),
                "both shown at delta": both,
                "both between deltas": None if parting is None else list(parting),
            }
        )
    return rows


def _outcome(shown: bool | None) -> str:
    return {True: "shown", False: "refuted", None: "undecided"}[shown]


def verdicts(reproduction: Reproduction) -> list[str]:
    """What is shown of both halves of the paper's claim and what is not, in words: three lines for every reading."""
    lines, names = [], reproduction.constraint_names
    for row in verdict_rows(reproduction):
        reading, delta = row["reading"], row["delta"]
        for conservative, half in ((True, "kappa > 0 in bounds"), (False, "kappa = 0 out of bounds")):
            arm = reproduction.arm(reading, conservative)
            means = ", ".join(
                f"{name} {mean:+.3f} +- {error:.3f}"
                for name, mean, error in zip(names, arm.mean_margins, arm.standard_errors, strict=True)
            )
            found = f"{means}; {arm.share_out_of_bounds:.1%} of runs out of bounds"
            lines.append(f"{reading}, delta {delta:g}: {half} on average: {row[half].upper()} ({found})")
        lines.append(f"{reading}, over delta: {_over_delta_in_words(reproduction, reading, row)}")
    return lines


def _over_delta_in_words(reproduction: Reproduction, reading: str, row: dict[str, Any]) -> str:
    curves = []
    for conservative in (True, False):
        arms = reproduction.over_delta(reading, conservative)
        found = crossings(arms)
        places = " and ".join(f"{one.delta:.4f} +- {one.standard_error:.4f}" for one in found)
        inside = "in" if arms[0].mean_margins.min() >= 0.0 else "out of"
        ends = f"from {arms[0].delta:g} to {arms[-1].delta:g}" if len(arms) > 1 else f"at {arms[0].delta:g}"
        name = "kappa > 0" if conservative else "kappa = 0"
        curves.append(f"{name} crosses zero at {places}" if found else f"{name} is {inside} bounds {ends}")
    parting, shown = row["both between deltas"], row["both shown at delta"]
    both = []
    if parting is not None:
        where = f"between {parting[0]:.4f} and {parting[1]:.4f}" if parting[0] < parting[1] else f"at {parting[0]:g}"
        both.append(f"{where} both halves hold in the mean")
    if both and not shown:
        both.append("both are shown at none of the deltas tried")
    if shown:
        both.append(f"both are shown at delta {', '.join(f'{one:g}' for one in shown)}")
    return "; ".join([*curves, *(both or ["nowhere do the curves part as the paper says"])])
