"""Which entries a table or an object in a file has: those that are known, and at least those that it needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from inbounds.errors import InvalidInput
from inbounds.inputs import shown


def require_entries(table: dict[str, Any], allowed: Iterable[str], required: Iterable[str], what: str) -> None:
    """Refuse an entry that is not `allowed`, and the lack of one that is `required`; `what` has them."""
    for key in table:  # first, as it may be one that is missing, misspelt
        if key not in allowed:
            raise InvalidInput(f"{what} has the unknown entry {shown(key)}; there are: {', '.join(allowed) or 'none'}")
    for key in required:
        if key not in table:
            raise InvalidInput(f"{what} has no {key!r}")
