"""How every report is written: figures as SVG and PNG, the numbers behind them as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from inbounds.formats.atomic import replaced
from inbounds.pictures import draw_into


def write_report(directory: Path, figures: Mapping[str, Figure], tables: Mapping[str, str]) -> list[Path]:
    """Write figures as SVG and PNG and tables as CSV, by their names; the paths, in that order.

    Every file is written whole or not at all, and the same report gives the same bytes.
    """
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in figures.items():
        for suffix, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
            written.append(directory / f"{name}.{suffix}")
            steady = matplotlib.rc_context({"svg.hashsalt": "inbounds", "svg.fonttype": "path"})
            with replaced(written[-1]) as stream, steady:
                draw_into(figure, stream, suffix, metadata=metadata)
    for name, text in tables.items():
        written.append(directory / f"{name}.csv")
        with replaced(written[-1]) as stream:
            stream.write(text.encode())
    return written


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
