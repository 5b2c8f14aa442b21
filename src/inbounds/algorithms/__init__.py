"""Algorithms that see samples, one file per published algorithm; and the one table that lists them."""

from __future__ import annotations

from typing import Any

from inbounds.algorithms.concave_cspda import ConcaveCSPDA
from inbounds.algorithms.crpo import CRPO
from inbounds.algorithms.cspda import CSPDA
from inbounds.algorithms.episodic.conrl import CONRL
from inbounds.algorithms.episodic.dope import DOPE
from inbounds.algorithms.episodic.opdop import OPDOP
from inbounds.algorithms.episodic.opt_cmdp import OptCMDP
from inbounds.algorithms.episodic.opt_cmdp_bonus import OptCMDPBonus
from inbounds.algorithms.episodic.opt_dual import OptDual
from inbounds.algorithms.episodic.opt_pess_lp import OptPessLP
from inbounds.algorithms.episodic.opt_pess_primal_dual import OptPessPrimalDual
from inbounds.algorithms.episodic.opt_primal_dual import OptPrimalDual
from inbounds.algorithms.episodic.optimistic_gmbl import OptimisticGMBL
from inbounds.algorithms.episodic.triple_q import TripleQ
from inbounds.algorithms.episodic.truly_no_regret import TrulyNoRegret
from inbounds.algorithms.episodic.uc_cfh import UCCFH
from inbounds.algorithms.model_based import ModelBased
from inbounds.algorithms.npg_pd import NPGPD
from inbounds.algorithms.opg_pd import OPGPD
from inbounds.algorithms.pdsc import PDSC
from inbounds.algorithms.randomized_primal_dual import RandomizedPrimalDual
from inbounds.algorithms.rpg_pd import RPGPD
from inbounds.algorithms.triple_qa import TripleQA
from inbounds.algorithms.ucbvi_gamma import UCBVIGamma

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
    "opt-cmdp": OptCMDP,
    "opt-cmdp-bonus": OptCMDPBonus,
    "uc-cfh": UCCFH,
    "conrl": CONRL,
    "optpess-lp": OptPessLP,
    "dope": DOPE,
    "opt-dual": OptDual,
    "opt-primal-dual": OptPrimalDual,
    "optpess-primal-dual": OptPessPrimalDual,
    "opdop": OPDOP,
    "triple-q": TripleQ,
    "truly-no-regret": TrulyNoRegret,
    "optimistic-gmbl": OptimisticGMBL,
}
"""Name to settings class: first the paper's Table 1, then later algorithms. Drives the command line, the comparison and
the contract tests."""
