"""inbounds: the most reward among the policies that keep every bound, for finite constrained Markov decision processes.

Names are loaded on first use, so that ``import inbounds`` and the command line start at once. No module shares its name
with one of them, so that ``import inbounds.x.y`` is always what it says.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inbounds import zoo as zoo
    from inbounds.algorithms.concave_cspda import ConcaveCSPDA as ConcaveCSPDA
    from inbounds.algorithms.crpo import CRPO as CRPO
    from inbounds.algorithms.cspda import CSPDA as CSPDA
    from inbounds.algorithms.episodic.conrl import CONRL as CONRL
    from inbounds.algorithms.episodic.dope import DOPE as DOPE
    from inbounds.algorithms.episodic.opdop import OPDOP as OPDOP
    from inbounds.algorithms.episodic.opt_cmdp import OptCMDP as OptCMDP
    from inbounds.algorithms.episodic.opt_cmdp_bonus import OptCMDPBonus as OptCMDPBonus
    from inbounds.algorithms.episodic.opt_dual import OptDual as OptDual
    from inbounds.algorithms.episodic.opt_pess_lp import OptPessLP as OptPessLP
    from inbounds.algorithms.episodic.opt_pess_primal_dual import OptPessPrimalDual as OptPessPrimalDual
    from inbounds.algorithms.episodic.opt_primal_dual import OptPrimalDual as OptPrimalDual
    from inbounds.algorithms.episodic.optimistic_gmbl import OptimisticGMBL as OptimisticGMBL
    from inbounds.algorithms.episodic.triple_q import TripleQ as TripleQ
    from inbounds.algorithms.episodic.truly_no_regret import TrulyNoRegret as TrulyNoRegret
    from inbounds.algorithms.episodic.uc_cfh import UCCFH as UCCFH
    from inbounds.algorithms.model_based import ModelBased as ModelBased
    from inbounds.algorithms.npg_pd import NPGPD as NPGPD
    from inbounds.algorithms.opg_pd import OPGPD as OPGPD
    from inbounds.algorithms.pdsc import PDSC as PDSC
    from inbounds.algorithms.randomized_primal_dual import RandomizedPrimalDual as RandomizedPrimalDual
    from inbounds.algorithms.rpg_pd import RPGPD as RPGPD
    from inbounds.algorithms.saddle_point import judge_averages as judge_averages
    from inbounds.algorithms.triple_qa import TripleQA as TripleQA
    from inbounds.algorithms.ucbvi_gamma import UCBVIGamma as UCBVIGamma
    from inbounds.algorithms.utility import Utility as Utility
    from inbounds.algorithms.utility import negative_kl as negative_kl
    from inbounds.algorithms.utility import state_entropy as state_entropy
    from inbounds.certifying import certify as certify
    from inbounds.comparing import compare as compare
    from inbounds.comparing import compare_suite as compare_suite
    from inbounds.criteria.evaluation import evaluate as evaluate
    from inbounds.criteria.evaluation import mix as mix
    from inbounds.criteria.evaluation import occupancy as occupancy
    from inbounds.errors import Infeasible as Infeasible
    from inbounds.errors import InvalidInput as InvalidInput
    from inbounds.errors import Stopped as Stopped
    from inbounds.estimating import Estimate as Estimate
    from inbounds.estimating import estimate as estimate
    from inbounds.exact.feasibility import slater as slater
    from inbounds.exact.surface import surface as surface
    from inbounds.exact.truncation import truncate as truncate
    from inbounds.learning import iterate as iterate
    from inbounds.learning import learn as learn
    from inbounds.learning import learn_certified as learn_certified
    from inbounds.learning import plan as plan
    from inbounds.problem.cmdp import CMDP as CMDP
    from inbounds.problem.cmdp import load as load
    from inbounds.problem.constraint import Constraint as Constraint
    from inbounds.problem.logs import from_counts as from_counts
    from inbounds.problem.mixture import Mixture as Mixture
    from inbounds.problem.policy import Policy as Policy
    from inbounds.problem.rules import build as build
    from inbounds.problem.simulator import Simulator as Simulator
    from inbounds.reporting import report as report
    from inbounds.simulating import simulate as simulate
    from inbounds.solving import frontier as frontier
    from inbounds.solving import solve as solve

_HOMES = {
    "CMDP": "problem.cmdp",
    "CONRL": "algorithms.episodic.conrl",
    "CRPO": "algorithms.crpo",
    "CSPDA": "algorithms.cspda",
    "ConcaveCSPDA": "algorithms.concave_cspda",
    "Constraint": "problem.constraint",
    "DOPE": "algorithms.episodic.dope",
    "Estimate": "estimating",
    "Infeasible": "errors",
    "InvalidInput": "errors",
    "Mixture": "problem.mixture",
    "ModelBased": "algorithms.model_based",
    "NPGPD": "algorithms.npg_pd",
    "OPDOP": "algorithms.episodic.opdop",
    "OPGPD": "algorithms.opg_pd",
    "OptCMDP": "algorithms.episodic.opt_cmdp",
    "OptCMDPBonus": "algorithms.episodic.opt_cmdp_bonus",
    "OptDual": "algorithms.episodic.opt_dual",
    "OptPessLP": "algorithms.episodic.opt_pess_lp",
    "OptPessPrimalDual": "algorithms.episodic.opt_pess_primal_dual",
    "OptPrimalDual": "algorithms.episodic.opt_primal_dual",
    "OptimisticGMBL": "algorithms.episodic.optimistic_gmbl",
    "PDSC": "algorithms.pdsc",
    "Policy": "problem.policy",
    "RPGPD": "algorithms.rpg_pd",
    "RandomizedPrimalDual": "algorithms.randomized_primal_dual",
    "Simulator": "problem.simulator",
    "Stopped": "errors",
    "TripleQ": "algorithms.episodic.triple_q",
    "TripleQA": "algorithms.triple_qa",
    "TrulyNoRegret": "algorithms.episodic.truly_no_regret",
    "UCBVIGamma": "algorithms.ucbvi_gamma",
    "UCCFH": "algorithms.episodic.uc_cfh",
    "Utility": "algorithms.utility",
    "build": "problem.rules",
    "certify": "certifying",
    "compare": "comparing",
    "compare_suite": "comparing",
    "estimate": "estimating",
    "evaluate": "criteria.evaluation",
    "from_counts": "problem.logs",
    "frontier": "solving",
    "iterate": "learning",
    "judge_averages": "algorithms.saddle_point",
    "learn": "learning",
    "learn_certified": "learning",
    "load": "problem.cmdp",
    "mix": "criteria.evaluation",
    "negative_kl": "algorithms.utility",
    "occupancy": "criteria.evaluation",
    "plan": "learning",
    "report": "reporting",
    "simulate": "simulating",
    "slater": "exact.feasibility",
    "solve": "solving",
    "state_entropy": "algorithms.utility",
    "surface": "exact.surface",
    "truncate": "exact.truncation",
}

__all__ = [*_HOMES, "zoo"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "zoo":
        return import_module("inbounds.zoo")
    if name not in _HOMES:
        raise AttributeError(f"module 'inbounds' has no attribute {name!r}")
    value = getattr(import_module(f"inbounds.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
