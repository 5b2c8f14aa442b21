"""Algorithms that see samples, one file per published algorithm; and the one table that lists them."""

from __future__ import annotations

from typing import Any

from inbounds.learn.cspda import CSPDA
from inbounds.learn.ucbvi_gamma import UCBVIGamma

ALGORITHMS: dict[str, type[Any]] = {"cspda": CSPDA, "ucbvi-gamma": UCBVIGamma}
from inbounds.learn.npg_pd import NPGPD
from inbounds.learn.pdsc import PDSC

ALGORITHMS: dict[str, type[Any]] = {"cspda": CSPDA, "npg-pd": NPGPD, "pdsc": PDSC}
"""Name to settings class. Drives the command line and the contract tests."""
