"""How every figure is saved."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from inbounds.formats.atomic import replaced


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as SVG and PNG; the paths. The same figure gives the same bytes."""
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in ("svg", "png")]
    for path in paths:
        metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        with replaced(path) as stream, matplotlib.rc_context({"svg.hashsalt": "inbounds", "svg.fonttype": "path"}):
            figure.savefig(stream, format=path.suffix[1:], dpi=150, metadata=metadata)
    return paths
