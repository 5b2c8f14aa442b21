"""Columns as a data frame of whichever library is there; neither is a dependency."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from inbounds.errors import InvalidInput

_LIBRARIES = ("pandas", "polars")


def frame(columns: Mapping[str, Any]) -> Any:
    """A data frame of pandas or of polars: of the one that is in use already, else of the one that is installed.

    Labels of several types in one column become text in polars, which has no such columns.
    """
    library = next(filter(None, map(_imported, sorted(_LIBRARIES, key=lambda name: name not in sys.modules))), None)
    if library is None:
        raise InvalidInput("a data frame needs pandas or polars: pip install pandas")
    if library.__name__ == "polars":
        columns = {
            name: values if _of_one_type(values) else [str(v) for v in values] for name, values in columns.items()
        }
    return library.DataFrame(columns)


def _imported(name: str) -> Any:
    """A library, or None where it is not there, or cannot be imported."""
    try:
        return import_module(name)
    except ImportError:
        return None


def _of_one_type(values: Any) -> bool:
    kinds = {type(value) for value in values}
    return len(kinds) <= 1 and not any(issubclass(kind, tuple) for kind in kinds)
