"""Algorithms that see samples, one file per published algorithm; and the one table that lists them."""

from __future__ import annotations

from typing import Any

from inbounds.learn.concave_cspda import ConcaveCSPDA
from inbounds.learn.crpo import CRPO
from inbounds.learn.cspda import CSPDA
from inbounds.learn.model_based import ModelBased
from inbounds.learn.npg_pd import NPGPD
from inbounds.learn.opg_pd import OPGPD
from inbounds.learn.pdsc import PDSC
from inbounds.learn.randomized_primal_dual import RandomizedPrimalDual
from inbounds.learn.rpg_pd import RPGPD
from inbounds.learn.triple_qa import TripleQA
from inbounds.learn.ucbvi_gamma import UCBVIGamma

ALGORITHMS: dict[str, type[Any]] = {
    "cspda": CSPDA,
    "randomized-primal-dual": RandomizedPrimalDual,
    "npg-pd": NPGPD,
    "crpo": CRPO,
    "pdsc": PDSC,
    "triple-qa": TripleQA,
    "ucbvi-gamma": UCBVIGamma,
    "model-based": ModelBased,
    "rpg-pd": RPGPD,
    "opg-pd": OPGPD,
    "concave-cspda": ConcaveCSPDA,
}
"""Name to settings class: first the paper's Table 1, then later algorithms. Drives the command line, the comparison and
the contract tests."""
