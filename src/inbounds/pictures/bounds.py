"""The price of safety as pictures: what one bound costs, with its slope, the price, below it; and what two cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from inbounds.arrays import Floats
from inbounds.pictures import BLUE, ORANGE, as_written, note, tidy_panel, titled

_OUTLYING = 10.0
"""How many times the median of the positive prices one may be before the picture leaves it out, and says so."""

_PALE = "#F6D9C6"
"""The orange of prices, where they are known between two values only."""

_BETWEEN_WORDS = (0.1, 0.93)
"""Shares of a panel's height between which no line crosses the words at its bottom and at its top."""

_IN_TITLE = 24
"""Letters from which on the name of a constraint is cut in a title, which has other words."""

_RIM = 0.025
"""The share of a panel, at each of its edges, in which a number on a line would be cut."""

_SHADES = 256
"""Of colour: as many as a colour bar has."""


def frontier_figure(frontier: Any) -> Any:
    """The optimum of a `Frontier` above, and the price of the bound below, from the loosest bound to the tightest."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 5.6), layout="constrained")
    optimum, price = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    optimum.plot(frontier.bounds, frontier.rewards, color=BLUE, marker="o", markersize=2.5, linewidth=1.4)
    optimum.set_ylabel("optimum")
    optimum.set_ylim(_apart(optimum.get_ylim(), frontier.least_height))
    optimum.ticklabel_format(axis="y", useOffset=False)
    prices = frontier.own_prices
    top = _highest_shown(prices)
    price.plot(frontier.bounds, prices, color=ORANGE, marker="o", markersize=2.5, linestyle="")
    _draw_between(price, frontier.bounds, np.minimum(prices, 2.0 * top))
    price.set_ylabel("price of the bound\n(slope of the optimum)")
    price.set_ylim(-0.05 * top, 1.15 * top)
    above = int(np.count_nonzero(prices > top))
    if above:
        # Above the panel, where no curve is.
        price.set_title(f"{above} above, up to {prices.max():.4g}", loc="right", fontsize=8, color="dimgrey")
    price.set_xlabel(f"bound: {as_written(frontier.constraint)} {'at least' if frontier.at_least else 'at most'}")
    if not frontier.at_least:
        price.invert_xaxis()
    for panel in (optimum, price):
        _mark(panel, frontier)
    title = f"the price of safety, {as_written(frontier.constraint, _IN_TITLE)} from loose to tight"
    optimum.set_title(titled(title, frontier.problem), fontsize=11, wrap=True)
    return figure


def _apart(ends: tuple[float, float], least: float) -> tuple[float, float]:
    """The ends of an axis, by at least so much apart."""
    low, high = ends
    missing = max(least - (high - low), 0.0)
    return low - 0.5 * missing, high + 0.5 * missing


def _draw_between(panel: Any, bounds: Floats, prices: Floats) -> None:
    """Where the price is between the points: it rises in steps, of which only what lies between two prices is known.

    A box from each point to the next holds the steps; where both prices are the same, it is a line, and there is none.
    """
    from matplotlib.collections import PolyCollection

    (left, right), (low, high) = ((own[:-1], own[1:]) for own in (bounds, prices))
    corners = np.stack([left, low, right, low, right, high, left, high], axis=1).reshape(-1, 4, 2)
    panel.add_collection(PolyCollection([*corners], facecolors=_PALE, edgecolors=_PALE, linewidths=1.4, zorder=1))


def _highest_shown(prices: Floats) -> float:
    """The highest price that the panel must hold: all but outliers, those above ten times the median of the positive.

    Close to the end the price may grow without limit; the rest of the curve should stay readable.
    """
    positive = prices[(prices > 0.0) & np.isfinite(prices)]
    return float(positive[positive <= _OUTLYING * np.median(positive)].max()) if len(positive) else 1.0


def _mark(panel: Any, frontier: Any) -> None:
    """Lines at the bounds that matter; the present one, where it is outside the picture, is told instead."""
    tidy_panel(panel)
    points = [*frontier.bounds, frontier.possible_to]
    lowest, highest = min(points), max(points)
    height, side = _free_place(panel, frontier)
    first = panel.get_subplotspec().is_first_row()
    late = abs(frontier.matters_from - frontier.possible_to) < 0.5 * (highest - lowest)  # with more room before it
    lines = [
        (frontier.matters_from, "grey", ":", " the bound begins to matter ", 0.02, "right" if late else "left"),
        (frontier.possible_to, "black", "--", "no policy beyond ", 0.95, "right"),
        (frontier.present, ORANGE, "-.", f" now {frontier.present:g} ", height, side),
    ]
    for place, colour, style, words, height, side in lines:
        here = min(max(place, lowest), highest)
        if here == place:
            # The present bound may be next to either of the others, whose words are at the bottom and at the top.
            ends = _BETWEEN_WORDS if first and colour == ORANGE else (0.0, 1.0)
            panel.axvline(place, *ends, color=colour, linewidth=1.0, linestyle=style)
        if first and (here == place or colour == ORANGE):
            # From loose to tight the picture runs to the right, whichever the side of the bound.
            tight = here != place and (place > here) == frontier.at_least
            note(
                panel,
                words if here == place else f" {_outside(words, tight)} ",
                here,
                height,
                "right" if tight else side,
            )


def _free_place(panel: Any, frontier: Any) -> tuple[float, str]:
    """At which height of the panel, and on which side of the text its line, the present bound can be written.

    The optimum falls from left to right: to the left of a line all below the curve is free, and to the right all above.
    """
    if not len(frontier.bounds):  # no policy keeps any of them: there is no curve
        return 0.6, "left"
    ascending = np.argsort(frontier.bounds)
    curve = np.interp(frontier.present, frontier.bounds[ascending], frontier.rewards[ascending])
    across, up = panel.transAxes.inverted().transform(panel.transData.transform((frontier.present, curve)))
    if up > 0.35:
        return 0.14, "left" if across < 0.25 else "right"
    return 0.6, "left" if across < 0.75 else "right"


def _outside(words: str, tight: bool) -> str:
    return f"{words.strip()}, tighter ▸" if tight else f"◂ {words.strip()}, looser"


def surface_figure(surface: Any) -> Any:
    """The optimum of a `Surface` as colour, with lines of the same optimum; blank where no policy keeps both bounds.

    Dots are the bounds that were solved. Between three of them the optimum is drawn as the plane through them: it is
    concave, so that is never more than it is.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
    from matplotlib.tri import Triangulation

    figure = Figure(figsize=(7.0, 5.4), layout="constrained")
    panel = figure.subplots()
    for letter, name, least, own in zip("xy", surface.constraints, surface.at_least, surface.bounds, strict=True):
        room = 0.0 if len(own) > 1 else max(0.1 * abs(float(own[0])), 0.1)
        ends = float(own.min()) - room, float(own.max()) + room
        words = f"{as_written(name)} {'at least' if least else 'at most'}"
        panel.set(**{f"{letter}label": words, f"{letter}lim": ends if least else ends[::-1]})  # from loose to tight
    across, upwards = (own.ravel() for own in np.meshgrid(*surface.bounds, indexing="ij"))
    rewards = surface.rewards.ravel()
    solved = np.isfinite(rewards)
    lowest, highest = (rewards[solved].min(), rewards[solved].max()) if np.any(solved) else (0.0, 1.0)
    lowest, highest = _apart((float(lowest), float(highest)), surface.least_height)
    scale: dict[str, Any] = {"cmap": "viridis", "vmin": lowest, "vmax": highest}
    corners = _triangles(surface.rewards)
    if len(corners):
        between = Triangulation(across, upwards, corners)
        known = np.where(solved, rewards, lowest)
        if highest > lowest:
            # In shades of the value between the points: blended colours would be those of no value.
            shades = np.unique(np.linspace(lowest, highest, _SHADES + 1))
            with np.errstate(all="ignore"):  # of rewards of 1e-60 Matplotlib tries a power that is too large
                panel.tricontourf(between, known, levels=shades, extend="both", **scale)  # its own ends are not between
            levels = MaxNLocator(8).tick_values(lowest, highest)
            lines = panel.tricontour(between, known, levels=levels, colors="white", linewidths=0.7)
            for number in panel.clabel(lines, fontsize=7, fmt="%.4g"):
                here = panel.transAxes.inverted().transform(panel.transData.transform(number.get_position()))
                if np.any(np.abs(here - 0.5) > 0.5 - _RIM):
                    number.remove()
        else:
            panel.tripcolor(between, known, **scale)
    points = panel.scatter(
        across[solved], upwards[solved], c=rewards[solved], s=16, edgecolors="white", linewidths=0.5, **scale,
        clip_on=False, zorder=3,
    )  # fmt: skip
    panel.scatter(across[~solved], upwards[~solved], s=12, color="lightgrey", marker="x", clip_on=False, zorder=3)
    _mark_present(panel, surface)
    figure.colorbar(points, label="optimum").ax.ticklabel_format(axis="y", useOffset=False)
    unsolved = "no policy keeps both" if surface.status == "optimal" else "no policy keeps both, or not reached"
    told = "" if np.all(solved) else f"; crosses: {unsolved}"
    title = titled("what two bounds cost together, from loose to tight", surface.problem)
    panel.set_title(f"{title}\n(dots: solved{told})", fontsize=10)
    tidy_panel(panel)
    return figure


def _triangles(rewards: Floats) -> Any:
    """Of the points [P, Q], numbered row by row, those of each triangle whose corners were all solved: [M, 3]."""
    rows, columns = rewards.shape
    number = np.arange(rows * columns).reshape(rows, columns)
    squares = [number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]]
    around = np.stack([corner.ravel() for corner in squares], axis=1)
    solved = np.isfinite(rewards.ravel())
    # A square is cut along the diagonal whose ends were solved, if one of its corners was not.
    cut = np.where(solved[around[:, [0, 2]]].all(axis=1)[:, None], around, np.roll(around, -1, axis=1))
    corners = np.concatenate([cut[:, [0, 1, 2]], cut[:, [0, 2, 3]]])
    return corners[solved[corners].all(axis=1)]


def _mark_present(panel: Any, surface: Any) -> None:
    """A point at the present bounds; if they are outside the picture, an open one where its edge is closest to them."""
    limits = [sorted(panel.get_xlim()), sorted(panel.get_ylim())]
    here = [float(np.clip(bound, *ends)) for bound, ends in zip(surface.present, limits, strict=True)]
    inside = tuple(here) == tuple(surface.present)
    words = "now" if inside else "now ({:.4g}, {:.4g}), outside".format(*surface.present)
    face = ORANGE if inside else "white"
    panel.plot(
        *here, "o", color=face, markersize=7, markeredgecolor="white" if inside else ORANGE, clip_on=False, zorder=5
    )
    # Towards the middle of the picture, wherever the point is.
    across, up = panel.transAxes.inverted().transform(panel.transData.transform(here))
    panel.annotate(
        words,
        here,
        (8 if across < 0.5 else -8, 8 if up < 0.5 else -8),
        textcoords="offset points",
        ha="left" if across < 0.5 else "right",
        va="bottom" if up < 0.5 else "top",
        fontsize=9,
        color=ORANGE,
        bbox={"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
    )
    panel.set_xlim(limits[0] if surface.at_least[0] else limits[0][::-1])
    panel.set_ylim(limits[1] if surface.at_least[1] else limits[1][::-1])
