"""The price of safety as a picture: the optimum against the bound, and its slope, the price, below it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from inbounds.arrays import Floats
from inbounds.exact.moving_bound import Frontier
from inbounds.exact.surface import Surface
from inbounds.reports.figures import BLUE, ORANGE, csv_text, note, tidy_panel, write_report

_OUTLYING = 10.0
"""How many times the median of the positive prices one may be before the picture leaves it out, and says so."""


def write_frontier(frontier: Frontier, constraint_names: list[str], directory: Path) -> list[Path]:
    """Write the figure as SVG and PNG and the points as CSV; the paths."""
    figures = {"frontier": frontier_figure(frontier, constraint_names)}
    return write_report(directory, figures, {"frontier": frontier_csv(frontier, constraint_names)})


def frontier_figure(frontier: Frontier, constraint_names: list[str]) -> Figure:
    """The optimum (above) and its slope, the price of the bound (below), from the loosest bound to the tightest."""
    figure = Figure(figsize=(7.0, 5.6), layout="constrained")
    optimum, price = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    optimum.plot(frontier.bounds, frontier.rewards, color=BLUE, marker="o", markersize=2.5, linewidth=1.4)
    optimum.set_ylabel("optimum")
    prices = frontier.prices[:, constraint_names.index(frontier.constraint)]
    price.plot(frontier.bounds, prices, color=ORANGE, marker="o", markersize=2.5, linewidth=1.4)
    price.set_ylabel("price of the bound\n(slope of the optimum)")
    top = _highest_shown(prices)
    price.set_ylim(-0.05 * top, 1.15 * top)
    above = int(np.count_nonzero(prices > top))
    if above:
        note(price, f"{above} above, up to {prices.max():.4g} ", frontier.possible_to, 0.88, "right")
    price.set_xlabel(f"bound: {frontier.constraint} {'at least' if frontier.at_least else 'at most'}")
    for panel in (optimum, price):
        _mark(panel, frontier)
    if not frontier.at_least:
        price.invert_xaxis()
    optimum.set_title(f"The price of safety: {frontier.constraint}, from loose to tight", fontsize=11)
    return figure


def _highest_shown(prices: Floats) -> float:
    """The highest price that the panel must hold: all but outliers, those above ten times the median of the positive.

    Close to the end the price may grow without limit; the rest of the curve should stay readable.
    """
    positive = prices[(prices > 0.0) & np.isfinite(prices)]
    return float(positive[positive <= _OUTLYING * np.median(positive)].max()) if len(positive) else 1.0


def write_surface(surface: Surface, directory: Path) -> list[Path]:
    """Write the figure as SVG and PNG and the points as CSV; the paths."""
    return write_report(directory, {"surface": surface_figure(surface)}, {"surface": surface_csv(surface)})


def surface_figure(surface: Surface) -> Figure:
    """The optimum as colour, with lines of the same optimum; blank where no policy keeps both bounds."""
    figure = Figure(figsize=(7.0, 5.4), layout="constrained")
    panel = figure.subplots()
    (across, upwards), rewards = surface.bounds, np.ma.masked_invalid(surface.rewards.T)
    colours = panel.pcolormesh(across, upwards, rewards, shading="nearest", cmap="viridis")
    if rewards.count() > 4 and rewards.max() > rewards.min():
        lines = panel.contour(across, upwards, rewards, levels=8, colors="white", linewidths=0.7)
        panel.clabel(lines, fontsize=7, fmt="%.4g")
    panel.plot(*surface.present, marker="o", color=ORANGE, markersize=7, markeredgecolor="white")
    panel.annotate(" now", surface.present, fontsize=9, color=ORANGE)
    for axis, name, least in zip((panel.xaxis, panel.yaxis), surface.constraints, surface.at_least, strict=True):
        axis.set_label_text(f"{name} {'at least' if least else 'at most'}")
        axis.set_inverted(not least)  # from loose to tight
    figure.colorbar(colours, label="optimum")
    panel.set_title("What two bounds cost together, from loose to tight", fontsize=11)
    tidy_panel(panel)
    return figure


def surface_csv(surface: Surface) -> str:
    """One row per point of the grid: both bounds, the optimum and both prices; nan where no policy keeps both."""
    first, second = surface.constraints
    rows = [
        (
            float(a),
            float(b),
            float(surface.rewards[i, j]),
            float(surface.prices[0, i, j]),
            float(surface.prices[1, i, j]),
        )
        for i, a in enumerate(surface.bounds[0])
        for j, b in enumerate(surface.bounds[1])
    ]
    return csv_text([f"bound_{first}", f"bound_{second}", "reward", f"price_{first}", f"price_{second}"], rows)


def _mark(panel: Any, frontier: Frontier) -> None:
    panel.axvline(frontier.matters_from, color="grey", linewidth=0.9, linestyle=":")
    panel.axvline(frontier.possible_to, color="black", linewidth=1.1, linestyle="--")
    if min(frontier.bounds) <= frontier.present <= max(frontier.bounds):
        panel.axvline(frontier.present, color=ORANGE, linewidth=1.0, linestyle="-.")
    tidy_panel(panel)
    if panel.get_subplotspec().is_first_row():
        note(panel, " the bound begins to matter", frontier.matters_from, 0.02, "left")
        note(panel, "no policy beyond ", frontier.possible_to, 0.95, "right")
        if min(frontier.bounds) <= frontier.present <= max(frontier.bounds):
            note(panel, f" now {frontier.present:g}", frontier.present, 0.5, "left")


def frontier_csv(frontier: Frontier, constraint_names: list[str]) -> str:
    """One row per bound, from the loosest to the tightest: the optimum, its upper bound, all margins and prices."""
    names = [f"{what}_{name}" for what in ("margin", "price") for name in constraint_names]
    rows = [
        (float(bound), found.reward, found.upper_bound, *found.margins, *found.prices)
        for bound, found in zip(frontier.bounds, frontier.solutions, strict=True)
    ]
    return csv_text(["bound", "reward", "upper_bound", *names], rows)
