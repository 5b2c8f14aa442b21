"""Algorithms that see samples, one file per published algorithm; and the one table that lists them."""

from __future__ import annotations

from typing import Any

from inbounds.learn.cspda import CSPDA
from inbounds.learn.model_based import ModelBased
from inbounds.learn.opg_pd import OPGPD
from inbounds.learn.rpg_pd import RPGPD

ALGORITHMS: dict[str, type[Any]] = {"cspda": CSPDA, "model-based": ModelBased, "opg-pd": OPGPD, "rpg-pd": RPGPD}
"""Name to settings class. Drives the command line and the contract tests."""
