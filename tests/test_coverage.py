"""docs/coverage.md: every label of the paper is in it, and every file and test that it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")

COUNTS = {"thm": 4, "lem": 7, "coro": 2, "ass": 1, "alg": 2, "fig": 2, "tab": 2}
"""Of the environments in the paper's source."""

ERRORS = {"A": 22, "P": 12, "E": 12, "T": 8}
"""Of the paper, by kind."""


def listed() -> list[str]:
    """The labels of the paper, from the indented block at the top."""
    block = TEXT.split("## What there is to cover")[1].split("## The problem")[0]
    indented = " ".join(re.findall(r"^    .*", block, flags=re.MULTILINE))
    return re.findall(rf"\b(?:{'|'.join(COUNTS)}):\w+", indented)


def rows() -> list[str]:
    return [line for line in TEXT.splitlines() if line.startswith("|") and not line.startswith(("|---", "| in", "| |"))]


def named() -> list[str]:
    """Files and tests that the rows name."""
    return sorted({name for row in rows() for name in re.findall(r"`([\w/.-]+\.(?:py|md|png)(?:::\w+)?)`", row)})


@cache
def functions(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)}


def test_every_label_of_the_paper_is_listed_once_and_counted() -> None:
    labels = listed()
    assert len(labels) == len(set(labels)) == sum(COUNTS.values())
    assert {kind: sum(label.startswith(f"{kind}:") for label in labels) for kind in COUNTS} == COUNTS
    sentence = " ".join(TEXT.split("## What there is to cover")[1].split())
    assert sentence.startswith(
        "The source has 4 theorems, 7 lemmas, 2 corollaries, 1 assumption, 2 algorithms, 2 figures and 2 tables"
    )


@pytest.mark.parametrize("label", listed())
def test_every_label_has_a_row_with_a_test(label: str) -> None:
    (row,) = (row for row in rows() if f"`{label}`" in row)
    assert re.search(r"`test_\w+\.py::test_\w+`", row)


def test_every_error_of_the_paper_has_its_row_in_turn() -> None:
    found = re.findall(r"^\| ([APET]\d+) \|", TEXT, flags=re.MULTILINE)
    assert found == [f"{kind}{number}" for kind, most in ERRORS.items() for number in range(1, most + 1)]


@pytest.mark.parametrize("name", named())
def test_what_is_named_exists(name: str) -> None:
    path, _, test = name.partition("::")
    (file,) = (home / path for home in (ROOT / "tests", ROOT / "src" / "inbounds", ROOT) if (home / path).is_file())
    assert not test or test in functions(file)


def test_every_row_says_how_it_is_checked() -> None:
    for row in rows():
        last = row.strip("| ").split(" | ")[-1]
        assert "::test_" in last or last in ("nothing to check", "as for the theorems")
