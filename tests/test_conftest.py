"""What `make quick` leaves out is there to be left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import SLOW

FILES = {path.name: path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py")}


@pytest.mark.parametrize("name", sorted(SLOW))
def test_what_is_called_slow_exists(name: str) -> None:
    assert name in FILES or any(f"def {name}(" in text for text in FILES.values())
