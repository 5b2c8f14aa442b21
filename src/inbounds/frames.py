"""Columns as a data frame of whichever library is there; neither is a dependency."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from inbounds.errors import InvalidInput

_LIBRARIES = ("pandas", "polars")


def frame(columns: Mapping[str, Any]) -> Any:
    """A data frame of pandas or of polars: of the one that is in use already, else of the one that is installed.

    Labels of several types in one column become text in polars, which has no such columns.
    """
    known = [name for name in _LIBRARIES if name in sys.modules] or [name for name in _LIBRARIES if find_spec(name)]
    if not known:
        raise InvalidInput("a data frame needs pandas or polars: pip install pandas")
    library = import_module(known[0])
    if known[0] == "polars":
        columns = {
            name: values if _of_one_type(values) else [str(v) for v in values] for name, values in columns.items()
        }
    return library.DataFrame(columns)


def _of_one_type(values: Any) -> bool:
    kinds = {type(value) for value in values}
    return len(kinds) <= 1 and not any(issubclass(kind, tuple) for kind in kinds)
