"""Algorithms that see samples, one file per published algorithm; and the one table that lists them."""

from __future__ import annotations

from typing import Any

from inbounds.learn.crpo import CRPO
from inbounds.learn.cspda import CSPDA
from inbounds.learn.triple_qa import TripleQA

ALGORITHMS: dict[str, type[Any]] = {"crpo": CRPO, "cspda": CSPDA, "triple-qa": TripleQA}
"""Name to settings class. Drives the command line and the contract tests."""
