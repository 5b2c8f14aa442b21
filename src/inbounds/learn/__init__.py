"""Algorithms that see samples, one file per published algorithm; and the one table that lists them."""

from __future__ import annotations

from typing import Any

from inbounds.learn.concave_cspda import ConcaveCSPDA
from inbounds.learn.cspda import CSPDA
from inbounds.learn.randomized_primal_dual import RandomizedPrimalDual

ALGORITHMS: dict[str, type[Any]] = {
    "cspda": CSPDA,
    "concave-cspda": ConcaveCSPDA,
    "randomized-primal-dual": RandomizedPrimalDual,
}
"""Name to settings class. Drives the command line and the contract tests."""
