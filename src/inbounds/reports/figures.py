"""How every report is written: figures as SVG and PNG, the numbers behind them as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from inbounds.formats.atomic import replaced_together
from inbounds.pictures import draw_into

SUFFIXES = ("svg", "png")
"""Of a figure."""


def files_of(figures: Iterable[str], tables: Iterable[str]) -> list[str]:
    """What the files of a report are called: those of its figures, then those of its tables.

    >>> files_of(["gap"], ["runs"])
    ['gap.svg', 'gap.png', 'runs.csv']
    """
    return [*(f"{name}.{suffix}" for name in figures for suffix in SUFFIXES), *(f"{name}.csv" for name in tables)]


def drawn(figures: Mapping[str, Figure], tables: Mapping[str, str]) -> dict[str, bytes]:
    """Figures as SVG and PNG and tables as CSV: the contents of files, by their names. The same bytes each time."""
    contents = []
    for figure in figures.values():
        for suffix, metadata in zip(SUFFIXES, ({"Date": None}, {"Software": None}), strict=True):
            stream = io.BytesIO()
            with matplotlib.rc_context({"svg.hashsalt": "inbounds", "svg.fonttype": "path"}):
                draw_into(figure, stream, suffix, metadata=metadata)
            contents.append(stream.getvalue())
    contents += [text.encode() for text in tables.values()]
    return dict(zip(files_of(figures, tables), contents, strict=True))


def write_report(directory: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write what was `drawn`, all of it or nothing; the paths, in that order."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / name for name in contents]
    with replaced_together(paths) as streams:
        for stream, content in zip(streams, contents.values(), strict=True):
            stream.write(content)
    return paths


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as CSV; numbers come back from it to the last bit.

    >>> csv_text(("samples", "reward"), [(10, 1 / 3)])
    'samples,reward\\n10,0.3333333333333333\\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([repr(float(cell)) if isinstance(cell, float) else cell for cell in row] for row in rows)
    return text.getvalue()
