"""inbounds: the most reward among the policies that keep every bound, for finite constrained Markov decision processes.

Names are loaded on first use, so that ``import inbounds`` and the command line start at once.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inbounds import zoo as zoo
    from inbounds.certify.judge import certify as certify
    from inbounds.certify.judge import solve as solve
    from inbounds.certify.learning import learn_certified as learn_certified
    from inbounds.errors import Infeasible as Infeasible
    from inbounds.errors import InvalidInput as InvalidInput
    from inbounds.exact.feasibility import slater as slater
    from inbounds.exact.frontier import frontier as frontier
    from inbounds.formats import load as load
    from inbounds.learn.algorithm import learn as learn
    from inbounds.learn.concave_cspda import ConcaveCSPDA as ConcaveCSPDA
    from inbounds.learn.crpo import CRPO as CRPO
    from inbounds.learn.cspda import CSPDA as CSPDA
    from inbounds.learn.known import iterate as iterate
    from inbounds.learn.model_based import ModelBased as ModelBased
    from inbounds.learn.npg_pd import NPGPD as NPGPD
    from inbounds.learn.opg_pd import OPGPD as OPGPD
    from inbounds.learn.pdsc import PDSC as PDSC
    from inbounds.learn.plan import plan as plan
    from inbounds.learn.randomized_primal_dual import RandomizedPrimalDual as RandomizedPrimalDual
    from inbounds.learn.rpg_pd import RPGPD as RPGPD
    from inbounds.learn.triple_qa import TripleQA as TripleQA
    from inbounds.learn.ucbvi_gamma import UCBVIGamma as UCBVIGamma
    from inbounds.learn.utility import Utility as Utility
    from inbounds.learn.utility import negative_kl as negative_kl
    from inbounds.learn.utility import state_entropy as state_entropy
    from inbounds.model.build import build as build
    from inbounds.model.cmdp import CMDP as CMDP
    from inbounds.model.cmdp import Constraint as Constraint
    from inbounds.model.episodic import EpisodicCMDP as EpisodicCMDP
    from inbounds.model.episodic import EpisodicPolicy as EpisodicPolicy
    from inbounds.model.policy import Policy as Policy
    from inbounds.model.policy import evaluate as evaluate
    from inbounds.model.policy import mix as mix
    from inbounds.model.policy import occupancy as occupancy
    from inbounds.model.simulator import Simulator as Simulator
    from inbounds.model.truncation import truncate as truncate
    from inbounds.study.compare import compare as compare

_HOMES = {
    "CMDP": "model.cmdp",
    "CRPO": "learn.crpo",
    "CSPDA": "learn.cspda",
    "ConcaveCSPDA": "learn.concave_cspda",
    "Constraint": "model.cmdp",
    "EpisodicCMDP": "model.episodic",
    "EpisodicPolicy": "model.episodic",
    "Infeasible": "errors",
    "InvalidInput": "errors",
    "ModelBased": "learn.model_based",
    "NPGPD": "learn.npg_pd",
    "OPGPD": "learn.opg_pd",
    "PDSC": "learn.pdsc",
    "Policy": "model.policy",
    "RPGPD": "learn.rpg_pd",
    "RandomizedPrimalDual": "learn.randomized_primal_dual",
    "Simulator": "model.simulator",
    "TripleQA": "learn.triple_qa",
    "UCBVIGamma": "learn.ucbvi_gamma",
    "Utility": "learn.utility",
    "build": "model.build",
    "certify": "certify.judge",
    "compare": "study.compare",
    "evaluate": "model.policy",
    "frontier": "exact.frontier",
    "iterate": "learn.known",
    "learn": "learn.algorithm",
    "learn_certified": "certify.learning",
    "load": "formats",
    "mix": "model.policy",
    "negative_kl": "learn.utility",
    "occupancy": "model.policy",
    "plan": "learn.plan",
    "slater": "exact.feasibility",
    "solve": "certify.judge",
    "state_entropy": "learn.utility",
    "truncate": "model.truncation",
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


class _Package(ModuleType):
    """Importing the subpackages `learn` and `certify` would bind their names here; the public names are functions."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """By name, like any module: functions of a script that say `ib` can then be sent to worker processes."""
        return import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Package
