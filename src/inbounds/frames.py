"""Columns as a data frame of whichever library is there; neither is a dependency."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from inbounds.errors import InvalidInput
from inbounds.tables import printable

_LIBRARIES = ("pandas", "polars")


def frame(columns: Mapping[str, Any]) -> Any:
    """A data frame of pandas or of polars: of the one that is in use already, else of the one that is installed.

    What polars has no column for becomes text there: labels of several types, and those of types that it does not know.
    """
    library = next(filter(None, map(_imported, sorted(_LIBRARIES, key=lambda name: name not in sys.modules))), None)
    if library is None:
        raise InvalidInput("a data frame needs pandas or polars: pip install pandas")
    if library.__name__ == "polars":
        columns = {name: _series(library, values) for name, values in columns.items()}
    return library.DataFrame(columns)


def _series(polars: Any, values: Any) -> Any:
    """A column of polars; of texts where it has none for the values."""
    if _of_one_type(values):
        with suppress(Exception):  # each type that it does not know is refused in another way
            column = polars.Series(values)
            if column.dtype != polars.Object:
                return column
    return polars.Series([printable(str(value)) for value in values], dtype=polars.String)


def _imported(name: str) -> Any:
    """A library, or None where it is not there, or cannot be imported."""
    try:
        return import_module(name)
    except ImportError:
        return None


def _of_one_type(values: Any) -> bool:
    kinds = {type(value) for value in values}
    return len(kinds) <= 1 and not any(issubclass(kind, tuple) for kind in kinds)
