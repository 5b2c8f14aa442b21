"""The suite itself: what is called slow is there."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import SLOW


def test_what_is_called_slow_is_there() -> None:
    files = list(Path(__file__).parent.glob("test_*.py"))
    names = {name for file in files for name in re.findall(r"^def (test_\w+)\(", file.read_text(), re.MULTILINE)}
    assert names | {file.name for file in files} >= SLOW
