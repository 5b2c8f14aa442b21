"""Algorithms for known models, from samples: all pairs are tried equally often; iterations are on the empirical model.

What `opg_pd` and `rpg_pd` share beside the iterations themselves; both also output their last iterate. Of both:

* Following the house rule that values are normalised, the setting `eta` is the step on normalised values: the paper's
  eta is eta * (1 - gamma).
* Several constraints, each with a price in [0, U]; the paper has one. U is twice the paper's, the bound 1 / slater on
  the best prices, so that the optimum is not at the edge. In the paper's constants U takes the place of
  1 / ((1 - gamma) xi), which bounds the prices there.
* From samples (``ib.learn``) every pair is tried equally often, and `iterations` iterations are made on the empirical
  model (means of the rewards and margins observed, frequencies of the next states) when a policy is asked for. The
  paper has nothing of the kind: for OPG-PD no samples at all, for RPG-PD walks, as the module of that says. Bare
  presets then have kappa = 0.1 / sqrt((1 - gamma) N) for the error of that model: see `empirical.accuracy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from inbounds.algorithms import checks
from inbounds.algorithms.algorithm import Algorithm, Answer, Known, Prepared
from inbounds.algorithms.empirical import accuracy, advance, extract, log_in_turn
from inbounds.algorithms.frame import RepairSettings
from inbounds.algorithms.known import known_model
from inbounds.problem.cmdp import CMDP
from inbounds.problem.policy import Policy
from inbounds.problem.simulator import Simulator
from inbounds.problem.thoughts import in_pieces, thought


@dataclass(frozen=True, repr=False, kw_only=True)
class PlugInSettings(RepairSettings):
    """What such algorithms have in common.

    Parameters
    ----------
    eta : float
        Step size, of policy and prices alike, on normalised values: the paper's eta divided by (1 - discount).
    slater : float in (0, 1], optional
        The Slater constant in scaled units; prices are kept below 2 / slater. Default: that of the model, known or
        empirical, and at least 0.01.
    iterations : int, optional
        From samples: how many are made on the empirical model. Default: 20,000, but 2e6 / n beyond a hundred pairs, and
        at least 100. On a known model, ``ib.iterate`` is told.
    """

    eta: float = field(default=0.3, metadata=checks.POSITIVE, kw_only=False)
    slater: float | None = field(default=None, metadata=checks.SHARE)
    kappa: float | None = field(default=None, metadata=checks.TIGHTENING)
    kappa_multiplier: float = field(default=0.0, metadata=checks.NOT_NEGATIVE)
    iterations: int | None = field(default=None, metadata=checks.WHOLE)


class PlugIn(NamedTuple):
    """The constants of an algorithm for known models that, from samples, iterates on the empirical model."""

    settings: Any
    iterations: int
    bias: float  # the kappa that its iterations need even with exact values


def default_iterations(n_pairs: int) -> int:
    """How many iterations are made on an empirical model: 20,000, but 2e6 / n beyond a hundred pairs; at least 100.

    So that a policy is a matter of seconds: small models are eliminated, at a cost that grows with a power of the
    number of states; large ones swept, tens of times an iteration.
    """
    return max(min(20_000, 2_000_000 // n_pairs), 100)


def plug_in_iterations(settings: Any, simulator: Simulator) -> int:
    """As given in the settings, or the default for so many pairs."""
    given = settings.iterations
    return default_iterations(simulator.pairs.n_pairs) if given is None else int(given)


def prepare_plug_in(
    settings: Any, simulator: Simulator, samples: int, steps: Sequence[str], guarantee: str, bias: float = 0.0
) -> Prepared:
    """As in `Algorithm`; `steps` names the settings to be shown beside those that all such algorithms have."""
    log = log_in_turn(simulator, samples)
    constants = PlugIn(settings, plug_in_iterations(settings, simulator), bias)
    resolved = {name: getattr(settings, name) for name in steps} | {
        "slater": "of the empirical model" if settings.slater is None else settings.slater,
        "kappa": tightening(constants, samples // simulator.pairs.n_pairs, simulator.discount),
        "iterations": constants.iterations,
    }
    return Prepared(log, constants, 0, resolved, guarantee)


def tightening(constants: PlugIn, per_pair: int, discount: float) -> float:
    """kappa after so many samples of every pair: as given, or the bias and a share of the accuracy of the model."""
    settings = constants.settings
    if settings.kappa is None:
        return min(constants.bias + settings.kappa_multiplier * accuracy(per_pair, discount), 1.0)
    return settings.kappa


def kappa_gap(settings: Any, slater: float, kappa: float) -> dict[str, bool]:
    """Why a paper's theorem does not cover a problem tightened by kappa, if it does not.

    The best prices of that problem are at most 1 / (slater - kappa), by a policy with that margin to spare. Up to half
    the Slater constant this is within [0, U], as U = 2 / slater; beyond, the saddle point may be outside.
    """
    why = f"the best prices may be above {2.0 / slater:.3g}, where they are kept"
    if settings.slater is None and kappa > slater:
        why = "no policy has such margins"
    return {f"kappa = {kappa:.3g}, more than half the Slater constant, {slater:.3g}: {why}": kappa > slater / 2.0}


def plan_plug_in(model: CMDP, constants: PlugIn, per_pair: int) -> Answer:
    """The policy after the iterations on a model that so many samples of every pair made."""
    kappa = tightening(constants, per_pair, model.discount)
    return iterate_plug_in(replace(constants.settings, kappa=kappa), model, constants.iterations)


def iterate_plug_in(algorithm: Any, model: CMDP, iterations: int) -> Answer:
    """The answer after some iterations on an (empirical) model in scaled units."""
    known = algorithm.algorithm.known
    begun, seen = known.prepare(algorithm, model, iterations), known_model(model)

    def advance(state: Any, done: int, until: int) -> Any:
        known.advance(state, begun.constants, seen, done, until)
        return state

    return known.extract(thought(in_pieces(begun.state, advance, iterations)), begun.constants, model)


def last_iterate(state: Any, constants: Any, problem: Any) -> Answer:
    """The `extract` of algorithms whose last policy and prices are the answer: nothing is averaged."""
    return Answer(Policy(problem.pairs, state.policy), state.prices.copy())


def plug_in_algorithm(
    prepare: Any, prepare_known: Any, advance_known: Any, extract_known: Any = last_iterate, **facts: Any
) -> Algorithm:
    """The record of such an algorithm."""
    return Algorithm(
        setting="discounted, known model; here also generative",
        needs="Slater constant",
        output="last iterate",
        violation="ε",
        prepare=prepare,
        advance=advance,
        extract=extract,
        plan=plan_plug_in,
        known=Known(prepare_known, advance_known, extract_known),
        **facts,
    )
