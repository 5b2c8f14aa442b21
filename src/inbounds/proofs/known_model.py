"""Proofs when the model is known: in bounds (C1), close to optimal (C2), and infeasible (C3); for every criterion.

What is proved
--------------
"The model" means: every stored double is the binary number that it is; every row of transition probabilities, the
initial distribution and the policy's row at each place are divided by their exact sums. Write P, rho, pi for those, m
for the reward or a margin, and J(m) for the value of the policy. The numbers own, reach and start are those of the
criterion, and E its map from vectors over places to vectors over entries (`inbounds.criteria.contract`).

C1. For ANY vector w over places let, at every place,

    residual(h, s) = sum_a pi_h(a|s) (m - E w)(h, s, a)
                   = sum_a pi_h(a|s) [ m(h,s,a) - own w_h(s) + reach sum_s' P_h(s'|s,a) (w_{h+1}(s') - w_h(s)) ].

Along the policy's path the w's telescope, so that

    J(m)  >=  start <rho, w_0> + sum over layers of min_s residual(h, s),                                      (lower)

the least taken over the places that the policy can come to. With w the value function of m, up to a constant, the
residual is the same at all of them and (lower) is J(m) itself; any error in w only loosens the bound. What is paid
where the policy never comes is left out when w is computed, so that no rounding of large costs there can count. For
averages the same is done where it does not come to stay, and w lowered there until the residual is larger than
elsewhere.

A mixture of policies has the weighted mean of their values, so the weighted mean of their bounds (lower) is one of its
values; "the weights" are divided by their exact sum. That mean is taken in rationals and rounded once, downwards.

C2. For ANY prices u >= 0 and vector V, with the largest value over all pairs of a layer of

    excess(h, s, a) = (reward + sum_k u_k margin_k - E V)(h, s, a),

    reward of any policy in bounds  <=  J(reward + u . margins)  <=  start <rho, V_0> + sum of max excess.     (upper)

C3. The same with no reward: if (upper) is negative, then u . margins is negative under every policy, and no policy is
in bounds.

Both are computed twice over: in floating point with every rounding error bounded (`inbounds.proofs.rounding`), and with
``exact=True`` in rationals (`inbounds.proofs.rationals`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.criteria import criterion_of
from inbounds.criteria.evaluation import values_of
from inbounds.errors import Infeasible, InvalidInput
from inbounds.exact.optimum import Optimum, flat_margins
from inbounds.exact.reachable import well_scaled
from inbounds.exact.solution import Solution, piece_of
from inbounds.inputs import shown
from inbounds.problem.cmdp import CMDP, require_model
from inbounds.problem.constraint import Constraint
from inbounds.problem.mixture import Mixture, members_of
from inbounds.problem.policy import Policy
from inbounds.proofs.certificate import Certificate, InfeasibilityCertificate, MixtureProof, Proof
from inbounds.proofs.inside import Aiming, Mixing, Staying
from inbounds.proofs.progress import Count, ProofProgress
from inbounds.proofs.rationals import floor, rational_lowers, rational_means, rational_upper, rational_values
from inbounds.proofs.rounding import rounded_lowers, rounded_upper, signals_of
from inbounds.proofs.vectors import checked, followed_by, reached_by, vectors_of, visited_part

_RATIONAL_ENTRIES = 300
"""Up to this many, a policy that misses its bounds in floating point is tried in rationals too: 50 ms."""

_RATIONAL_MOVES = 30_000
"""Up to this many transitions in all, a policy without coins is judged in rationals where floating point cannot tell
whether it is in bounds: a tenth of a second, as only its own are looked at."""

_ELIMINATED, _STAGES_ELIMINATED = 30, 300
"""Up to so many states, or over a horizon states times stages, such a policy is judged by its own values: a third of a
second at most. Their digits grow with the number of states, and the time with its fourth power."""

_HAIR = 1e-9
"""What rounding takes of a margin, relative to the largest, unless the chain hardly mixes."""


def certify_known(
    policy: Policy | Mixture,
    cmdp: CMDP,
    *,
    exact: bool = False,
    prices: Any = None,
    value_function: Any = None,
    progress: ProofProgress | None = None,
) -> Certificate:
    """Prove what a policy, or a mixture of policies, is worth on a known model; values as the criterion has them.

    The certificate gives lower bounds on the policy's margins and reward, with the vectors that prove them; with
    prices and a value function at hand (those of a `Solution`), also a bound on what any policy in bounds can have.
    What the vectors were computed with does not matter: poor ones prove less, but nothing false.

    Parameters
    ----------
    policy : Policy or Mixture
    cmdp : CMDP
    exact : bool
        Do the arithmetic in rationals (kind "exact", about a second for a thousand states) instead of in floating point
        with every rounding error bounded (kind "rounding-bounded", a fraction of a second for a hundred thousand).
    prices : array [K], optional
    value_function : array [S], or [H, S], optional
        Both or neither.
    progress : callable, optional
        Called as ``progress(done, total)`` with the number of vectors and bounds that are made.

    Examples
    --------
    >>> import inbounds as ib
    >>> queue = ib.zoo.queue()
    >>> certify_known(ib.Policy.uniform(queue), queue.tightened(-3.0), exact=True).verdict
    'in bounds: proved in exact arithmetic'
    """
    if (prices is None) != (value_function is None):
        raise InvalidInput("a bound on the optimum needs both prices and value_function; give both, or neither")
    criterion, (weights, policies) = criterion_of(cmdp), members_of(cmdp, policy)
    rules = [member.probabilities.ravel() for member in policies]
    count = Count(progress, 2 * len(rules) * (1 + cmdp.n_constraints) + (prices is not None))
    vectors, visiting = [], []
    with np.errstate(all="ignore"):
        for taken in rules:
            followed, reached = followed_by(cmdp, criterion.follow(taken))
            vectors.append(vectors_of(cmdp, followed, reached, None, count))
            visiting.append(visited_part(cmdp, taken, reached))
    upper, judge = math.inf, rational_means if exact else rounded_lowers
    judged = [_judged(judge, cmdp, own, vector, count) for own, vector in zip(visiting, vectors, strict=True)]
    proving = zip(rules, (own for own, _ in judged), strict=True)
    members = tuple(Proof(cmdp.criterion, taken, own[1:], own[0]) for taken, own in proving)
    proof: Proof | MixtureProof = MixtureProof(weights, members) if isinstance(policy, Mixture) else members[0]
    if prices is not None:
        priced, values = checked(cmdp, prices, value_function)
        proof = replace(proof, prices=priced, value_function=values)
        upper = (rational_upper if exact else rounded_upper)(cmdp, priced, values, 1.0)
        count.add()
    lowers = _mixed(weights, [lowers for _, lowers in judged])
    return _certificate(cmdp, lowers, upper, proof, "exact" if exact else "rounding-bounded")


def values_between(cmdp: CMDP, taken: Floats) -> tuple[Floats, Floats]:
    """What the reward and the margins [1 + K] of a policy [N] certainly are at least, and at most.

    In rationals where floating point leaves the sign of a margin open, and the model is small: the values themselves,
    or, where it is not as small as that, bounds by a vector, which may leave it open too.
    """
    policy = Policy(cmdp.pairs, taken.reshape(cmdp.shape))
    swapped = [replace(each, at_least=each.at_most, at_most=each.at_least) for each in cmdp.constraints]
    negated = cmdp.asking(reward=-cmdp.reward, constraints=swapped)

    def least(problem: CMDP, exact: bool) -> Floats:
        proved = certify_known(policy, problem, exact=exact)
        return np.append(proved.reward_lower, proved.margins_lower)

    lowers, uppers = least(cmdp, False), -least(negated, False)
    if np.all(lowers[1:] >= 0.0) or np.any(uppers[1:] < 0.0) or not _few_moves(cmdp):
        return lowers, uppers
    values = _values_themselves(cmdp, taken)
    if values is not None:
        return np.array([floor(value) for value in values]), -np.array([floor(-value) for value in values])
    return least(cmdp, True), -least(negated, True)


def _values_themselves(cmdp: CMDP, taken: Floats) -> list[Fraction] | None:
    """The reward and the margins [1 + K] of a policy [N] without coins, if it comes to few places."""
    criterion = criterion_of(cmdp)
    with np.errstate(all="ignore"):
        visiting = visited_part(cmdp, taken, reached_by(cmdp, criterion.follow(taken)))
    few = np.count_nonzero(visiting) <= (_STAGES_ELIMINATED if criterion.shifts else _ELIMINATED)
    return rational_values(cmdp, visiting) if few else None


def upper_proof(cmdp: CMDP, found: Optimum) -> tuple[Floats, Floats, float]:
    """The prices [K] and a vector [M] of a best mixture, and the bound on all rewards in bounds that they prove.

    It is infinite where it overflows.
    """
    priced = cmdp.reward.ravel() + np.einsum("k,kn->n", found.prices, flat_margins(cmdp))
    prices, values = checked(cmdp, found.prices, criterion_of(cmdp).sharpened(priced, found.value_function))
    upper = rounded_upper(cmdp, prices, values, 1.0)
    if criterion_of(cmdp).mass_row:  # of averages none is more than the most that is paid, which takes no vector
        none = freeze(np.zeros_like(values))
        most = rounded_upper(cmdp, prices, none, 1.0)
        if most < upper:
            return prices, none, most
    return prices, values, upper


def _few_moves(cmdp: CMDP) -> bool:
    return sum(layer.transition.nnz for layer in criterion_of(cmdp).layers) <= _RATIONAL_MOVES


def _mixed(weights: Floats, lowers: Sequence[Sequence[float | Fraction]]) -> list[float]:
    """The weighted means of lower bounds [J, 1 + K], rounded once and downwards; of a policy alone, its own."""
    shares, mixed = [Fraction(weight) for weight in weights.tolist()], []
    for bounds in zip(*lowers, strict=True):
        taken = [(share, bound) for share, bound in zip(shares, bounds, strict=True) if share]
        proved = all(bound > -math.inf for _, bound in taken)
        mean = sum((share * Fraction(bound) for share, bound in taken if proved), Fraction(0)) / sum(shares)
        mixed.append(floor(mean) if proved else -math.inf)
    return mixed


def certify_infeasible(error: Infeasible, cmdp: CMDP, *, exact: bool = False) -> InfeasibilityCertificate:
    """The proof in an `Infeasible` exception, checked against the model; values as the criterion has them.

    Examples
    --------
    >>> import inbounds as ib
    >>> impossible = ib.zoo.queue().tightened(3.0)
    >>> try:
    ...     ib.solve(impossible)
    ... except ib.Infeasible as error:
    ...     certify_infeasible(error, impossible).infeasible
    True
    """
    if not isinstance(error, Infeasible):
        raise InvalidInput(f"certify_infeasible takes the ib.Infeasible that a solve raised, found {shown(error)}")
    require_model(cmdp, "certify_infeasible")
    prices, values = checked(cmdp, error.prices, error.value_function)
    upper = (rational_upper if exact else rounded_upper)(cmdp, prices, values, 0.0)
    return InfeasibilityCertificate(
        infeasible=upper < 0.0,
        kind="exact" if exact else "rounding-bounded",
        constraints=_without_signals(cmdp),
        prices=prices,
        value_function=values,
        margin_upper=upper,
        criterion=cmdp.criterion,
        model=cmdp,
    )


def certified(cmdp: CMDP, found: Optimum, *, method: str, progress: ProofProgress | None = None) -> Solution:
    """The solution of a problem whose best mixture is `found`, its policy proved to be in bounds, with the proof.

    At an optimum the margins of the constraints that bind are zero up to rounding, and half the time just below. So the
    policy is moved to where they are provably >= 0, typically by 1e-13. A vertex is aimed there: the same coins have
    other probabilities (`Aiming`). Into any other mixture goes as much of an occupancy with a margin to spare as it
    takes (`Mixing`). The certificate is made once, of the policy that was moved; the solution holds that policy, its
    values, and the proven `upper_bound`, so that its gap contains what that cost.

    When only policies on the boundary are feasible (a Slater constant of zero) this cannot be done. A margin of exactly
    zero is proved all the same where no rounding enters, and in rationals where the model is small; otherwise the
    policy is left as it is, and the certificate, whose proven margins are just below zero, says so.
    """
    asked = well_scaled(cmdp)
    scales = asked.margin_scales
    way: Aiming | Mixing | Staying
    if found.pure is not None:
        way = Staying(cmdp, found)
    else:
        way = Mixing(cmdp, found) if found.corner is None else Aiming(cmdp, found)
    count = Count(progress, 2 * (1 + cmdp.n_constraints) + 1)
    prices, values, upper = upper_proof(cmdp, found)
    count.add()
    vectors = way.vectors
    small = cmdp.reward.size <= _RATIONAL_ENTRIES or (found.pure is not None and _few_moves(cmdp))

    def lacking(lowers: list[float]) -> Floats:
        return np.maximum(-np.array(lowers[1:]) / scales, 0.0)

    while True:
        followed = way.followed()
        reached = reached_by(cmdp, followed)
        visiting = visited_part(cmdp, followed.taken, reached)
        vectors = vectors_of(cmdp, followed, reached, vectors, count)
        vectors, lowers = _judged(rounded_lowers, cmdp, visiting, vectors, count)
        kind = "rounding-bounded"
        if small and not np.max(lacking(lowers), initial=0.0) <= _HAIR:  # next to a discount of 1 all is rounding
            lowers, kind = rational_lowers(cmdp, visiting, vectors), "exact"
        missing = float(np.max(lacking(lowers), initial=0.0))
        if not 0.0 < missing < np.inf:
            break
        if not way.stricter(lacking(lowers)):
            if not isinstance(way, Aiming) or not (mixing := Mixing(cmdp, found)).stricter(lacking(lowers)):
                break
            way = mixing
        count.again(2 * (1 + cmdp.n_constraints))
    proof = Proof(cmdp.criterion, followed.taken, vectors[1:], vectors[0], prices, values)
    if small and missing > 0.0 and min((exact := rational_lowers(cmdp, visiting, vectors))[1:]) >= 0.0:
        lowers, kind = exact, "exact"
    if kind == "exact":
        upper = rational_upper(cmdp, prices, values, 1.0)
    certificate = _certificate(cmdp, lowers, upper, proof, kind)
    if not certificate.in_bounds:
        note = "rounding bounded; no policy is known with a margin to spare in every constraint"
        certificate = replace(
            certificate,
            methods=tuple(
                how if low >= 0.0 else note for how, low in zip(certificate.methods, lowers[1:], strict=True)
            ),
        )
    upper_bound = upper if math.isfinite(upper) else found.upper_bound
    judged = _within(asked, values_of(asked, criterion_of(cmdp).time_at_entries(followed)), certificate)
    return Solution(
        **judged,
        policy=Policy(cmdp.pairs, followed.taken.reshape(cmdp.shape)),
        prices=freeze(found.prices),
        value_function=freeze(found.value_function.reshape(*cmdp.shape[:-1], cmdp.n_states)),
        upper_bound=upper_bound,
        method=method,
        unconstrained_solves=found.unconstrained_solves,
        certificate=certificate,
        reward_given_up=max(found.value(cmdp.reward) - judged["reward"], 0.0) if way.moved else 0.0,
        linked=max(found.linked, way.linked),
        status=found.status,
        piece=piece_of(cmdp, found),
    )


def _judged(judge: Any, cmdp: CMDP, visiting: Floats, vectors: Floats, count: Count) -> tuple[Floats, Any]:
    """Vectors, and the bounds that `judge` has of them; none is poorer than what the zero vector proves.

    That is the least that the policy is ever paid. Where a chain hardly ever leaves a part of it, relative values are
    so large that their rounding alone is more than that.
    """
    lowers = judge(cmdp, visiting, vectors, count)
    taken, layers = visiting > 0.0, criterion_of(cmdp).layers
    leasts = [
        sum(float(signal[layer.entries][taken[layer.entries]].min(initial=np.inf)) for layer in layers)
        for signal in signals_of(cmdp)
    ]
    poor = [place for place, (lower, least) in enumerate(zip(lowers, leasts, strict=True)) if not lower >= least]
    if poor:
        plain = vectors.copy()
        plain[poor] = 0.0
        instead = judge(cmdp, visiting, plain)
        better = [place for place in poor if instead[place] > lowers[place]]
        vectors = np.where(np.isin(np.arange(len(vectors)), better)[:, None], 0.0, vectors)
        lowers = [instead[place] if place in better else lower for place, lower in enumerate(lowers)]
    return vectors, lowers


def _within(cmdp: CMDP, judged: dict[str, Any], certificate: Certificate) -> dict[str, Any]:
    """The values of a policy, as evaluated in floating point, moved to what is proved of them where that excludes them.

    Evaluation and proof are two computations. Where a chain hardly mixes the former may be off by more than the latter.
    """
    criterion, upper = criterion_of(cmdp), certificate.reward_upper if certificate.in_bounds else math.inf
    reward = min(max(judged["reward"], certificate.reward_lower), upper)
    margins = np.maximum(judged["margins"], certificate.margins_lower)
    return judged | {
        "reward": float(reward),
        "margins": freeze(margins),
        "total_reward": float(criterion.total(reward)),
        "total_margins": freeze(np.array(criterion.total(margins))),
    }


def _certificate(cmdp: CMDP, lowers: list[float], upper: float, proof: Proof | MixtureProof, kind: str) -> Certificate:
    margins = freeze(np.array(lowers[1:]))
    return Certificate(
        in_bounds=bool(np.all(margins >= 0.0)),
        kind=kind,
        constraints=_without_signals(cmdp),
        margins_lower=margins,
        methods=("exact arithmetic" if kind == "exact" else "rounding bounded",) * cmdp.n_constraints,
        reward_lower=lowers[0],
        reward_upper=upper,
        proof=proof,
        model=cmdp,
    )


def _without_signals(cmdp: CMDP) -> tuple[Constraint, ...]:
    return tuple(replace(constraint, signal=None) for constraint in cmdp.constraints)
