"""What bounds cost, in files: the picture as SVG and PNG, and the points as CSV."""

from __future__ import annotations

from pathlib import Path

from inbounds.exact.frontier import Frontier
from inbounds.exact.surface import Surface
from inbounds.reports.figures import csv_text, drawn, write_report


def write_bounds(found: Frontier | Surface, directory: Path) -> list[Path]:
    """Write the figure as SVG and PNG and the points, as in the data frame, as CSV; the paths."""
    name, columns = type(found).__name__.lower(), found.columns
    points = csv_text([*columns], zip(*columns.values(), strict=True))
    return write_report(directory, drawn({name: found.plot()}, {name: points}))
