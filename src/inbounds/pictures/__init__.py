"""Pictures of what is done, or of how much time is spent, in each state: arrays and labels in, a figure out.

Where states lie in the picture, their labels say: a number, or a text, is a place on one axis; a tuple of two, on two
axes; of more, the first two are the axes, and there is a panel for each of some values of the others: where most of the
time is spent, at its stage if there are any, if that is known, else where most states are. The title says how many.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from inbounds.arrays import Floats, Ints
from inbounds.errors import InvalidInput
from inbounds.formats.atomic import naming, replaced
from inbounds.formats.labels import label_in_words, state_columns
from inbounds.inputs import file_path
from inbounds.tables import printable, so_many

_PANELS = 6
"""At most, in one figure: more would be too small to read."""

_COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#999999",
    "#332288", "#88CC55", "#882255", "#DDCC77", "#117733", "#AA44CC", "#774411", "#77DDDD",
)  # fmt: skip
"""The first eight are distinct for every kind of colour vision (Okabe and Ito 2008)."""

_DISTINCT, _REST = 8, "#DDDDDD"
"""Up to so many actions that are numbers have a colour each, more are on a scale; the colour of actions beyond all."""

BLUE, ORANGE = _COLOURS[0], _COLOURS[3]

_MARKS, _FEW = 2_500, 200
"""Cells in a panel up to which those that randomise are marked one by one; and how many marks any panel can bear."""


_SHORT_NAME, _LONG_NAME = 24, 60
"""Letters of a problem's name up to which a title goes on behind it; and from which on it is cut."""

_LONG_LABEL, _LONG_TICK = 40, 16
"""Letters from which on the name of an action or a constraint is cut, and that of a place on an axis."""


class Grid(NamedTuple):
    """Where states lie: a panel, and a row and a column in it."""

    panels: list[str]  # what each is of
    panel: Ints  # [S], -1 for states that are in none
    row: Ints  # [S]
    column: Ints  # [S]
    rows: list[Any]  # what the rows stand for; one of them, where there is one axis
    columns: list[Any]
    axes: tuple[str, str]  # the names of what rows and columns are, as in tables; no name where there is one row
    main: int = 0  # the panel that weighs most
    slices: int = 1  # of how many possible panels these are some


def grid_of(labels: Sequence[Any], weights: Floats | None = None) -> Grid:
    """The places of states by their labels [S]; panels for what weighs most, by `weights` [S] or number of states."""
    named = state_columns(labels)
    axes, titles = [_axis(values) for values in named.values()], [*named]
    columns, column = axes[0]
    across = (titles[1] if len(titles) > 1 else "", titles[0])
    rows, row = axes[1] if len(axes) > 1 else ([""], np.zeros(len(labels), dtype=np.int64))
    if len(axes) <= 2:
        return Grid([""], np.zeros(len(labels), dtype=np.int64), row, column, rows, columns, across)
    # Of the other parts of the labels every combination that there is could have a panel; those that weigh most do, and
    # where all weigh the same, some that are evenly chosen.
    others = np.stack([places for _, places in axes[2:]], axis=1)
    kinds, which = np.unique(others, axis=0, return_inverse=True)
    size = np.bincount(which.ravel(), weights, minlength=len(kinds))
    shown = np.sort(np.argsort(-size, kind="stable")[:_PANELS])
    if size.min() == size.max():
        shown = np.unique(np.linspace(0, len(kinds) - 1, min(len(kinds), _PANELS)).round().astype(np.int64))
    place = np.full(len(kinds), -1)
    place[shown] = np.arange(len(shown))
    names = [
        ", ".join(f"{title} = {values[k]}" for title, (values, _), k in zip(titles[2:], axes[2:], kind, strict=True))
        for kind in kinds[shown]
    ]
    return Grid(
        names, place[which.ravel()], row, column, rows, columns, across, int(np.argmax(size[shown])), len(kinds)
    )


def _axis(values: list[Any]) -> tuple[list[Any], Ints]:
    """The different values in their order, numbers by size and others as they come, and the place of each."""
    numbers = all(isinstance(value, int | float) for value in values)
    distinct = sorted(set(values)) if numbers else list(dict.fromkeys(values))
    number = {value: place for place, value in enumerate(distinct)}
    return distinct, np.array([number[value] for value in values], dtype=np.int64)


def policy_figure(
    labels: Sequence[Any],
    actions: Sequence[Any],
    chosen: Ints,
    surest: Floats,
    time: Floats | None = None,
    problem: str = "",
) -> Any:
    """What a policy does: the action that it is most likely to take, and where it randomises.

    `chosen` [L, S] are places in `actions`, and `surest` their probabilities, for each of L stages (1 without stages).
    `time` [L, S], if it is known, is the share of time in each state. The legend has what is drawn, and the title what
    the `problem` is called. Of more actions than there are colours, those that are drawn in most states have one each,
    the most frequent first, and the others share one; numbers are on a scale instead.
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    layout = _layout(labels, len(chosen), time)
    drawn = np.concatenate([chosen.ravel()[cells.entries] for _, cells in layout.views])
    used, states = np.unique(drawn, return_counts=True)
    by_size = len(used) > _DISTINCT and all(isinstance(actions[a], int | float) for a in used)
    colours: Any
    if by_size:
        values = np.array([float(action) if isinstance(action, int | float) else np.nan for action in actions])[chosen]
        sizes = [float(actions[a]) for a in used]
        limits, colours = (min(sizes), max(sizes)), "viridis"
    else:
        named = used if len(used) <= len(_COLOURS) else used[np.argsort(-states, kind="stable")[: len(_COLOURS)]]
        place = np.full(len(actions), len(named))
        place[named] = np.arange(len(named))
        values, limits = place[chosen].astype(float), (-0.5, len(named) + 0.5)
        colours = ListedColormap([*_COLOURS[: len(named)], _REST])
    title = titled(f"the likeliest action in {layout.extent}", problem)
    figure, panels, scale = _panels(layout, values, colours, limits, title)
    marked = False
    for panel, cells in panels.items():
        mixed = surest.ravel()[cells.entries] < 1.0 - 1e-9
        if np.any(mixed) and (len(cells.entries) <= _MARKS or np.count_nonzero(mixed) <= _FEW):
            panel.plot(cells.column[mixed], cells.row[mixed], "k.", markersize=3)
            marked = True
    legend: list[Any] = []
    if by_size:
        figure.colorbar(scale, ax=list(panels), label="action", shrink=0.8)
    else:
        words = [as_written(label_in_words(actions[a])) for a in named]
        legend += [Patch(color=colour, label=word) for colour, word in zip(_COLOURS, words, strict=False)]
        if len(used) > len(named):
            legend.append(Patch(color=_REST, label=f"{len(used) - len(named)} other actions"))
    if marked:
        legend.append(Line2D([], [], color="black", marker=".", linestyle="", label="randomises"))
    if legend:
        _draw_legend(figure, legend)
    return figure


def _short(text: str, most: int) -> str:
    shown = printable(text)
    return shown if len(shown) <= most else f"{shown[: most - 1].strip()}…"


def _draw_legend(figure: Any, entries: list[Any]) -> None:
    """Below the panels, in as many columns as there is room for, to be read row by row."""
    longest = max(len(entry.get_label()) for entry in entries)
    columns = min(len(entries), max(int(figure.get_figwidth() / (0.07 * longest + 0.6)), 1))
    down = [entry for column in range(columns) for entry in entries[column::columns]]  # legends are filled by columns
    figure.legend(handles=down, loc="outside lower center", ncols=columns, fontsize=8, frameon=False)


def occupancy_figure(labels: Sequence[Any], time: Floats, problem: str = "") -> Any:
    """The share of time in each state, [L, S] for L stages (1 without stages), on a logarithmic scale."""
    from matplotlib.colors import LogNorm

    most = float(time.max())
    shown = np.where(time > 1e-9 * most, time, np.nan)
    norm = LogNorm(vmin=max(float(np.nanmin(shown)), 1e-6 * most), vmax=most)
    layout = _layout(labels, len(time), time)
    figure, panels, scale = _panels(layout, shown, "Blues", norm, titled(f"the time in {layout.extent}", problem))
    figure.colorbar(scale, ax=list(panels), label="share of time", shrink=0.8)
    return figure


class _Cells(NamedTuple):
    """The cells of one panel: which entries of [L, S] they show, and where."""

    entries: Ints
    row: Ints
    column: Ints


class _Layout(NamedTuple):
    """The panels of a figure, what each is of, and what their axes are."""

    views: list[tuple[str, _Cells]]
    rows: list[Any]
    columns: list[Any]
    axes: tuple[str, str]
    extent: str  # how much of the states that is, in words


def _layout(labels: Sequence[Any], stages: int, time: Floats | None) -> _Layout:
    """Where the states [S] of L stages are drawn, by their labels; `time` [L, S], if known, says which matter most."""
    n_states = len(labels)
    shown = np.unique(np.linspace(0, stages - 1, min(stages, _PANELS)).round().astype(int))
    grid = grid_of(labels, None if time is None else time[0])
    if stages > 1 and len(grid.rows) == 1:  # on one axis: the stages are the other
        everywhere = np.arange(stages * n_states)
        cells = _Cells(everywhere, everywhere // n_states, np.tile(grid.column, stages))
        extent = _extent(n_states, stages, len(everywhere))
        return _Layout([("", cells)], list(range(stages)), grid.columns, ("stage", grid.axes[1]), extent)
    if stages == 1:
        chosen = [(0, grid, panel) for panel in range(len(grid.panels))]
    else:  # of each stage, where most of its own time is spent
        own_time = time is not None and grid.slices > 1
        grids = [grid_of(labels, time[h]) if own_time else grid for h in shown]  # type: ignore[index]
        chosen = [(int(h), own, own.main) for h, own in zip(shown, grids, strict=True)]
    views = []
    for stage, places, panel in chosen:
        own = np.flatnonzero(places.panel == panel)
        parts = [f"stage {stage}"] * (stages > 1) + [places.panels[panel]] * bool(places.panels[panel])
        views.append((", ".join(parts), _Cells(stage * n_states + own, places.row[own], places.column[own])))
    drawn = sum(len(cells.entries) for _, cells in views)
    extent = _extent(n_states, stages, drawn, f"{len(views)} of {stages * grid.slices:,} panels")
    return _Layout(views, grid.rows, grid.columns, grid.axes, extent)


def _extent(n_states: int, stages: int, drawn: int, panels: str = "") -> str:
    """How many states a figure has, of how many."""
    if drawn == stages * n_states:
        count = f"each of {so_many(n_states, 'state')}"
        return count if stages == 1 else f"{count}, stage by stage"
    return f"{drawn:,} of {stages * n_states:,} states{' by stage' * (stages > 1)}: {panels}"


def _panels(
    layout: _Layout, values: Floats, colours: Any, scale: Any, title: str
) -> tuple[Any, dict[Any, _Cells], Any]:
    """A figure of panels with values [L, S] as cells, the cells of each panel, and what a colour bar needs."""
    from matplotlib.figure import Figure

    views, rows, columns, (upright, level), _ = layout
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
        picture = np.full((len(rows), len(columns)), np.nan)
        picture[cells.row, cells.column] = values.ravel()[cells.entries]
        image = panel.imshow(picture, origin="lower", aspect="auto", cmap=colours, interpolation="nearest", **norm)
        panel.set_title(as_written(name, _LONG_NAME), fontsize=9)
        panel.set_xlabel(as_written(level), fontsize=8)
        panel.set_ylabel(as_written(upright), fontsize=8)
        _ticks(panel.xaxis, columns, 0.75 * wide)
        _ticks(panel.yaxis, rows if len(rows) > 1 else [], 0.75 * high)
        panels[panel] = cells
    figure.suptitle(title, fontsize=11)
    return figure, panels, image


def _ticks(axis: Any, values: list[Any], length: float) -> None:
    """Values at even steps, as many as there is room for on so many inches: round numbers if they are numbers.

    Long texts slant.
    """
    texts = [_short(str(value), _LONG_TICK) for value in values]
    longest, level = max(map(len, texts), default=1), axis.axis_name == "x"
    slanted = level and longest > 4
    room = max(int(length / (0.2 if slanted or not level else 0.06 * longest + 0.12)), 2)
    places = ruled(values, min(room, 12))
    slant = {"rotation": 30, "ha": "right"} if slanted else {}
    axis.set_ticks(places, [as_written(texts[place]) for place in places], fontsize=7, **slant)


def ruled(values: Sequence[Any], most: int) -> list[int]:
    """The places of at most so many of the values, which ascend if they are numbers, at even steps as on a ruler.

    >>> [list(range(33))[place] for place in ruled(range(33), 8)], ruled(["a", "b", "c", "d", "e"], 3)
    ([0, 5, 10, 15, 20, 25, 30], [0, 2, 4])
    """
    every = list(range(0, len(values), math.ceil(len(values) / most) or 1))
    if len(values) <= most or not all(isinstance(value, int | float) for value in values):
        return every
    spread = float(values[-1]) - float(values[0])
    decade = 10.0 ** math.floor(math.log10(spread / most))
    for step in (factor * decade for factor in (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)):
        places = [place for place, value in enumerate(values) if abs(value / step - round(value / step)) < 1e-6]
        if len(places) <= most:
            # Numbers that do not lie on a ruler are shown as they are.
            return places if len(places) > max(most // 4, 1) else every
    return every


def titled(title: str, problem: str) -> str:
    """A title that begins with what the problem is called, if it has a name; a long one has a line of its own.

    >>> titled("the time in each of 6 states", "queue"), titled("the time in each of 6 states", "")
    ('queue: the time in each of 6 states', 'the time in each of 6 states')
    """
    name = as_written(problem.strip(), _LONG_NAME)
    return title if not name else f"{name}:{' ' if len(name) <= _SHORT_NAME else chr(10)}{title}"


def as_written(name: str, most: int = _LONG_LABEL) -> str:
    """A name of the user's as a picture takes it, letter by letter: between two dollars would be a formula.

    >>> as_written("$x$"), as_written("a\\nb"), as_written("a" * 300, 8)
    ('\\\\$x\\\\$', 'a\\\\nb', 'aaaaaaa…')
    """
    return _short(name, most).replace("$", r"\$")


def tidy_panel(panel: Any) -> None:
    """Small ticks, and no frame where there is no axis."""
    panel.tick_params(labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)


def note(panel: Any, text: str, x: float, height: float, side: str) -> None:
    """A few words beside the line at `x`, at a share of the panel's height; `side` of the text is the line's.

    Where a line passes, the words are on white.
    """
    where = {"xycoords": ("data", "axes fraction"), "ha": side, "va": "bottom", "zorder": 6}
    box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    panel.annotate(text, (x, height), fontsize=8, color="dimgrey", bbox=box, **where)


def written(figure: Any, path: str | os.PathLike[str] | None) -> Any:
    """The figure; in a file too, if there is a path: PNG, SVG or PDF by its suffix, whole or not at all."""
    if path is not None:
        file = file_path(path, "path")
        if file.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise InvalidInput(f"{file}: a picture is a file .png, .svg or .pdf")
        with naming(file, "written"), replaced(file) as stream:
            draw_into(figure, stream, file.suffix[1:].lower())
    return figure


def draw_into(figure: Any, stream: BinaryIO, kind: str, **more: Any) -> None:
    """The figure as a file of a kind, `png`, `svg` or `pdf`, into a stream."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # a label that the font cannot write is a box
        figure.savefig(stream, format=kind, dpi=150, **more)
