"""The practical preset of CSPDA: a pilot, two stages, trials of what they found, and the best mixture.

No Slater constant, no tuning, and no theorem. With steps by formula a preset cannot hold everywhere: the distance that
v has to go is a few tenths on random problems and ten times that on a queue or a chain, the size of Z - M is that of
the errors in v, far below its bound, and what the policy of the average really keeps may be a tenth below or above what
<lam, g> says. So the steps find their scale (a *stage*, `cspda_steps`), and what comes out is tested
(`inbounds.algorithms.frame`, `inbounds.algorithms.repair`). Shares of the samples:

    pilot           .10  every pair in turn: an empirical model, its optimum (lam0, u0, v0) and its safest policy
    first stage     .33  from lam0, u0, v0
    trial           .13  walks of the policy of its average: margins m, standard errors se, z for 1 %
    second stage    .14  from where the first ended, moved by what the model says of tighter constraints: it is to have
                         margins of 2 z se, at most half the pilot's Slater constant
    trials               .13 of the second stage, .10 of the pilot's optimum, .05 of a careful plan, .02 of the safest
    the answer           the mixture of the five with the most tested reward whose tested margins are above zero by z
                         standard errors of the mixture

**What the first trial is for.** The model has an opinion of the first stage's policy too, and the trial says by how
much it is wrong: e = margins on the model - m. The *moved* model, with its constraints tightened by e and by what is
wanted, has an optimum (lam1, u1, v1); the second stage starts from lam + lam1 - lam0 (at least 0), u + u1 - u0 and v +
v1 - v0, so that it keeps what the first stage has learned, and only the change is the model's. The *careful plan* is
the optimum of the model moved by 4 z se, at most three quarters of the Slater constant: what to lean on where the tests
come out worse than was hoped. It costs a thirtieth of the reward that the safest policy costs, which is the last
resort.

Each stage starts with a tenth of lam uniform. The radius is .1 in the first stage; in the second what the first moved,
at least .1 for u and .03 for v. Where the pilot's model has no policy in bounds, the first stage starts from the
safest; where the budget is too small for a pilot, from zeros, and the second from where the first ended, tightened by
what that missed as well; the guarantee of the run says so.

**What this is worth.** A plan on the same samples needs fewer of them: `ModelBased.practical()` has the same frame
around a linear program on the empirical model (docs/presets.md compares the two). The frame brings the bounds; the
steps are CSPDA's, made usable. In the answer the two stages have half of the weight, and the pilot's plans the other.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from inbounds.algorithms.algorithm import Answer
from inbounds.algorithms.cspda_steps import advance, average_occupancy, extract, new_stage
from inbounds.algorithms.frame import (
    PILOT,
    Frame,
    Part,
    State,
    answer_of,
    moved,
    outcome_of,
    pilot,
    second_kappa,
    survey,
    trial,
)
from inbounds.algorithms.kernels import average_values
from inbounds.algorithms.planning import at_once, best_of
from inbounds.algorithms.repair import wanted_margins
from inbounds.arrays import Floats
from inbounds.criteria.evaluation import occupancy as occupancy_of
from inbounds.errors import Infeasible
from inbounds.proofs.walks import values_on_model

STAGES = {
    "first stage": 0.33,
    "trial of first stage": 0.13,
    "second stage": 0.14,
    "trial of second stage": 0.13,
    "trial of plan": 0.10,
    "trial of careful plan": 0.05,
    "trial of safest": 0.02,
}
"""Shares of the samples, after a pilot of a tenth. The gap at 1e5 samples hardly depends on them (2.3 to 2.5 % on 42
problems): trials of less than a tenth cost caution, stages of less than a fifth cost reward."""

CAREFUL = 4.0, 0.75
"""What the careful plan is to have: so many times z standard errors, at most that share of the Slater constant."""

_RADIUS = 0.1  # the distance that u and v are taken to have to go, before they have gone further
_LEAST_RADII = 0.1, 0.03  # of u and of v, in the second stage
_MIX = 0.1  # of the uniform distribution, in the lam that a stage starts from


def next_part(frame: Frame, state: State, rng: np.random.Generator) -> Part:
    """The pilot, then the parts of `STAGES` that there can be, by what was found before."""
    parts = {part.name: part for part in state.parts}
    if not parts and frame.with_pilot:
        return pilot(frame, int(PILOT * frame.samples))
    if "pilot" in parts and not state.surveys:
        surveyed = survey(frame, parts["pilot"].state)
        with suppress(Infeasible):
            surveyed = surveyed._replace(more=best_of(surveyed.model))
        state.surveys.append(surveyed)
    found = state.surveys[0] if state.surveys else None
    absent = set(parts)
    if found is None or found.more is None:
        absent |= {"trial of plan", "trial of careful plan"}
    if found is None or frame.simulator.n_constraints == 0:
        absent |= {"trial of careful plan", "trial of safest"}
    left = {name: share for name, share in STAGES.items() if name not in absent}
    name, samples = next(iter(left)), frame.share(state, left)
    if name == "first stage":
        return first_stage(frame, state, samples)
    if name == "second stage":
        return second_stage(frame, state, samples)
    tried = name.removeprefix("trial of ")
    if tried in parts:
        return trial(frame, state, name, answer_of(parts[tried], frame), samples, own=True)
    assert found is not None
    policy = found.more.policy if tried == "plan" else found.safest
    if tried == "careful plan":
        test, (times, share) = outcome_of(parts["trial of first stage"]), CAREFUL
        margins = wanted_margins(test, frame.kappa, times, share * found.room)
        try:
            policy = best_of(moved(found.model, test, margins)).policy
        except Infeasible:
            name, samples = "trial of safest", frame.share(state, {"trial of safest": 1.0})
    return trial(frame, state, name, Answer(policy, np.zeros(frame.simulator.n_constraints)), samples)


def first_stage(frame: Frame, state: State, samples: int) -> Part:
    """From the optimum of the pilot's model; where it has none, from its safest policy; without a pilot from zeros."""
    simulator = frame.simulator
    n_pairs, n_states, steps = simulator.pairs.n_pairs, simulator.pairs.n_states, 1.0 / (1.0 - simulator.discount)
    lam, u, v = np.full(n_pairs, 1.0 / n_pairs), np.zeros(simulator.n_constraints), np.zeros(n_states)
    note = "it starts from zeros"
    if state.surveys:
        found, note = state.surveys[0], ""
        if found.more is not None:
            lam, u, v = found.more.occupancy, found.more.prices, steps * found.more.value_function
        else:
            note = "as far as the pilot shows no policy is in bounds, so it starts from the safest"
            model, safest = found.model, found.safest
            lam, values = at_once(model, lambda: (occupancy_of(model, safest), values_on_model(model, safest)[1]))
            v = steps * values[:, 0]
    kappa = np.full(simulator.n_constraints, frame.kappa)
    part = stage(frame, "first stage", samples, lam, u, v, (_RADIUS, _RADIUS), kappa)
    return part._replace(settings={"kappa": frame.kappa}, note=note)


def second_stage(frame: Frame, state: State, samples: int) -> Part:
    """From where the first ended, moved by what the model says of the margins that its trial asks for."""
    parts = {part.name: part for part in state.parts}
    before, test = parts["first stage"], outcome_of(parts["trial of first stage"])
    lam, v = average_occupancy(before.state), average_values(before.state)
    u = before.state.price_sums / before.state.steps[1]
    off = float(np.linalg.norm(u - before.constants.prices)), float((v - before.constants.values).std())
    slater, found = frame.settings.slater, state.surveys[0] if state.surveys else None
    if slater is None:
        slater = np.inf if found is None else found.room
    kappa = wanted_margins(test, frame.kappa, 2.0, 0.5 * slater)
    ahead = None
    if found is not None and found.more is not None:
        with suppress(Infeasible):
            ahead = best_of(moved(found.model, test, kappa))
            lam = np.maximum(lam + ahead.occupancy - found.more.occupancy, 0.0)
            lam, u = lam / lam.sum(), u + ahead.prices - found.more.prices
            v = v + (ahead.value_function - found.more.value_function) / (1.0 - frame.simulator.discount)
    if ahead is None:
        kappa = np.minimum(kappa + np.maximum(frame.kappa - test.means[1:], 0.0), frame.kappa + 0.5 * slater)
    radii = max(off[0], _LEAST_RADII[0]), max(off[1], _LEAST_RADII[1])
    part = stage(frame, "second stage", samples, lam, u, v, radii, kappa)
    return part._replace(settings=second_kappa(kappa))


def stage(
    frame: Frame, name: str, samples: int, lam: Floats, u: Floats, v: Floats, radii: tuple[float, float], kappa: Floats
) -> Part:
    lam = (1.0 - _MIX) * lam + _MIX / len(lam)
    return Part(name, samples, advance, *new_stage(frame.simulator, samples, lam, u, v, radii, kappa), extract)
