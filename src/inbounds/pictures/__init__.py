"""Pictures of what is done, or of how much time is spent, in each state: arrays and labels in, a figure out.

Where states lie in the picture, their labels say: a number, or a text, is a place on one axis; a tuple of two, on two
axes; of more, the first two are the axes, and there is a panel for each of some values of the others.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.errors import InvalidInput
from inbounds.formats.atomic import naming, replaced
from inbounds.formats.labels import label_in_words, state_columns
from inbounds.inputs import file_path

_PANELS = 6
"""At most, in one figure: more would be too small to read."""

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#999999")
"""Distinct for every kind of colour vision (Okabe and Ito 2008)."""

BLUE, ORANGE = _COLOURS[0], _COLOURS[3]

_MARKS, _FEW = 2_500, 200
"""Cells in a panel up to which those that randomise are marked one by one; and how many marks any panel can bear."""


class Grid(NamedTuple):
    """Where states lie: a panel, and a row and a column in it."""

    panels: list[str]  # what each is of
    panel: Ints  # [S], -1 for states that are in none
    row: Ints  # [S]
    column: Ints  # [S]
    rows: list[Any]  # what the rows stand for; one of them, where there is one axis
    columns: list[Any]
    axes: tuple[str, str]  # the names of what rows and columns are, as in tables; no name where there is one row


def grid_of(labels: Sequence[Any]) -> Grid:
    """The places of states by their labels [S]."""
    named = state_columns(labels)
    axes, titles = [_axis(values) for values in named.values()], [*named]
    columns, column = axes[0]
    across = (titles[1] if len(titles) > 1 else "", titles[0])
    rows, row = axes[1] if len(axes) > 1 else ([""], np.zeros(len(labels), dtype=np.int64))
    if len(axes) <= 2:
        return Grid([""], np.zeros(len(labels), dtype=np.int64), row, column, rows, columns, across)
    # Of the other parts of the labels every combination that there is could have a panel; some do, evenly chosen.
    others = np.stack([places for _, places in axes[2:]], axis=1)
    kinds, which = np.unique(others, axis=0, return_inverse=True)
    shown = np.unique(np.linspace(0, len(kinds) - 1, min(len(kinds), _PANELS)).round().astype(np.int64))
    place = np.full(len(kinds), -1)
    place[shown] = np.arange(len(shown))
    names = [
        ", ".join(f"{title} = {values[k]}" for title, (values, _), k in zip(titles[2:], axes[2:], kind, strict=True))
        for kind in kinds[shown]
    ]
    return Grid(names, place[which.ravel()], row, column, rows, columns, across)


def _axis(values: list[Any]) -> tuple[list[Any], Ints]:
    """The different values in their order, numbers by size and others as they come, and the place of each."""
    numbers = all(isinstance(value, int | float) for value in values)
    distinct = sorted(set(values)) if numbers else list(dict.fromkeys(values))
    number = {value: place for place, value in enumerate(distinct)}
    return distinct, np.array([number[value] for value in values], dtype=np.int64)


def policy_figure(labels: Sequence[Any], actions: Sequence[Any], chosen: Ints, surest: Floats) -> Any:
    """What a policy does: the action that it is most likely to take, and where it randomises.

    `chosen` [L, S] are places in `actions`, and `surest` their probabilities, for each of L stages (1 without stages).
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    used = np.unique(chosen)
    places = np.searchsorted(used, chosen)
    by_size = len(used) > len(_COLOURS) and all(isinstance(actions[a], int | float) for a in used)
    few = len(used) <= len(_COLOURS)
    if few:
        colours: Any = ListedColormap(_COLOURS[: len(used)])
        values, limits = places.astype(float), (-0.5, len(used) - 0.5)
    else:
        values = np.array([float(actions[a]) for a in used])[places] if by_size else places.astype(float)
        colours, limits = "viridis", (float(values.min()), float(values.max()))
    figure, panels, scale = _panels(labels, values, colours, limits, "what it does")
    marked = False
    for panel, cells in panels.items():
        mixed = surest.ravel()[cells.entries] < 1.0 - 1e-9
        if np.any(mixed) and (len(cells.entries) <= _MARKS or np.count_nonzero(mixed) <= _FEW):
            panel.plot(cells.column[mixed], cells.row[mixed], "k.", markersize=3)
            marked = True
    if few:
        legend: list[Any] = [Patch(color=_COLOURS[k], label=label_in_words(actions[a])) for k, a in enumerate(used)]
    else:
        legend = []
        figure.colorbar(scale, ax=list(panels), label="action" if by_size else "action, by number", shrink=0.8)
    if marked:
        legend.append(Line2D([], [], color="black", marker=".", linestyle="", label="randomises"))
    if legend:
        figure.legend(handles=legend, loc="outside lower center", ncols=min(len(legend), 5), fontsize=8, frameon=False)
    return figure


def occupancy_figure(labels: Sequence[Any], time: Floats) -> Any:
    """The share of time in each state, [L, S] for L stages (1 without stages), on a logarithmic scale."""
    from matplotlib.colors import LogNorm

    most = float(time.max())
    shown = np.where(time > 1e-9 * most, time, np.nan)
    norm = LogNorm(vmin=max(float(np.nanmin(shown)), 1e-6 * most), vmax=most)
    figure, panels, scale = _panels(labels, shown, "Blues", norm, "time in each state")
    figure.colorbar(scale, ax=list(panels), label="share of time", shrink=0.8)
    return figure


class _Cells(NamedTuple):
    """The cells of one panel: which entries of [L, S] they show, and where."""

    entries: Ints
    row: Ints
    column: Ints


def _panels(
    labels: Sequence[Any], values: Floats, colours: Any, scale: Any, title: str
) -> tuple[Any, dict[Any, _Cells], Any]:
    """A figure of panels with values [L, S] as cells, the cells of each panel, and what a colour bar needs."""
    from matplotlib.figure import Figure

    grid, (stages, n_states) = grid_of(labels), values.shape
    rows, (upright, level) = grid.rows, grid.axes
    if stages > 1 and len(rows) == 1:  # on one axis: the stages are the other
        everywhere = np.arange(stages * n_states)
        views = [("", _Cells(everywhere, everywhere // n_states, np.tile(grid.column, stages)))]
        rows, upright = list(range(stages)), "stage"
    else:
        shown = np.unique(np.linspace(0, stages - 1, min(stages, _PANELS)).round().astype(int))
        of_slice = [(0, panel) for panel in range(len(grid.panels))] if stages == 1 else [(int(h), 0) for h in shown]
        views = []
        for stage, panel in of_slice:
            own = np.flatnonzero(grid.panel == panel)
            parts = [f"stage {stage}"] * (stages > 1) + [grid.panels[panel]] * bool(grid.panels[panel])
            views.append((", ".join(parts), _Cells(stage * n_states + own, grid.row[own], grid.column[own])))
    across = math.ceil(math.sqrt(len(views)))
    down = math.ceil(len(views) / across)
    wide, high = max(3.0, 9.0 / across), 1.1 if len(rows) == 1 else max(2.4, 5.0 / down)
    figure = Figure(figsize=(wide * across, high * down + 1.0), layout="constrained")
    drawn = figure.subplots(down, across, squeeze=False).ravel()
    norm = {"norm": scale} if not isinstance(scale, tuple) else {"vmin": scale[0], "vmax": scale[1]}
    panels = {}
    for panel in drawn[len(views) :]:
        panel.set_axis_off()
    for panel, (name, cells) in zip(drawn, views, strict=False):
        picture = np.full((len(rows), len(grid.columns)), np.nan)
        picture[cells.row, cells.column] = values.ravel()[cells.entries]
        image = panel.imshow(picture, origin="lower", aspect="auto", cmap=colours, interpolation="nearest", **norm)
        panel.set_title(name, fontsize=9)
        panel.set_xlabel(level, fontsize=8)
        panel.set_ylabel(upright, fontsize=8)
        _ticks(panel.xaxis, grid.columns)
        _ticks(panel.yaxis, rows if len(rows) > 1 else [])
        panels[panel] = cells
    figure.suptitle(title, fontsize=11)
    return figure, panels, image


def _ticks(axis: Any, values: list[Any]) -> None:
    """At most twelve of the values, evenly chosen; long texts slant."""
    places = np.unique(np.linspace(0, max(len(values) - 1, 0), 12).round().astype(int))[: len(values)]
    texts = [str(values[place]) for place in places]
    long = max(map(len, texts), default=0) > 4 and axis.axis_name == "x"
    slant = {"rotation": 30, "ha": "right"} if long else {}
    axis.set_ticks(places, [text if len(text) <= 16 else f"{text[:15]}…" for text in texts], fontsize=7, **slant)


def tidy_panel(panel: Any) -> None:
    """Small ticks, and no frame where there is no axis."""
    panel.tick_params(labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)


def note(panel: Any, text: str, x: float, height: float, side: str) -> None:
    """A few words beside the line at `x`, at a share of the panel's height; `side` of the text is the line's."""
    where = {"xycoords": ("data", "axes fraction"), "ha": side, "va": "bottom"}
    panel.annotate(text, (x, height), fontsize=8, color="dimgrey", **where)


def written(figure: Any, path: str | os.PathLike[str] | None) -> Any:
    """The figure; in a file too, if there is a path: PNG, SVG or PDF by its suffix, whole or not at all."""
    if path is not None:
        file = file_path(path, "path")
        if file.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise InvalidInput(f"{file}: a picture is a file .png, .svg or .pdf")
        with naming(file, "written"), replaced(file) as stream:
            figure.savefig(stream, format=file.suffix[1:].lower(), dpi=150)
    return figure
