"""docs/presets.md: what can be computed is computed again, and no algorithm is passed over."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

import inbounds as ib
from inbounds.algorithms import ALGORITHMS

PAGE = (Path(__file__).parents[1] / "docs" / "presets.md").read_text(encoding="utf-8")
ROWS = {match[1]: match[2] for match in re.finditer(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE)}


@pytest.mark.parametrize(("name", "problem"), ib.zoo.suite("all").items(), ids=str)
def test_the_facts_of_every_problem_and_what_theory_promises(name: str, problem: ib.CMDP) -> None:
    best, gamma = ib.solve(problem), problem.discount
    rate = 100.0 * math.sqrt(problem.n_pairs / 1e6) / best.reward
    facts = (problem.n_states, problem.n_pairs, problem.n_constraints, f"{gamma:g}", f"{best.reward:.4f}")
    priced = (f"{best.prices.sum():.2f}", f"{ib.slater(problem).value:.3f}")
    rates = (f"{rate / (1.0 - gamma):.0f}", f"{rate / math.sqrt(1.0 - gamma):.0f}")
    assert ROWS[name] == " | ".join(map(str, (*facts, *priced, *rates)))


def test_every_algorithm_for_such_problems_is_measured_and_its_limit_said() -> None:
    names = [
        name
        for name, one in ALGORITHMS.items()
        if one.algorithm.constrained and one.algorithm.criterion == "discounted"
    ]
    for half in ("tuning", "untouched"):
        section = PAGE.partition(f"## The {half} half\n")[2].partition("\n## ")[0]
        assert [name for name in names if f"| {name} |" not in section] == []
    limits = PAGE.partition("## What limits each\n")[2].partition("\n## ")[0]
    assert [name for name in names if f"`{name}`" not in limits] == []


def test_nothing_is_left_to_fill_in() -> None:
    assert "<!--" not in PAGE and "| - |" not in PAGE
