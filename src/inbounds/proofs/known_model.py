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

Rounding
--------
Each number is computed from the differences w(s') - w(s), because they are small where reach = d / (1 - d) is large: a
discounted value function is constant up to terms of the order 1 - d. For the same reason those vectors are centred,
<rho, w> = 0 up to rounding.

With round to nearest every operation of floating point gives the true result times (1 + e), |e| <= u = 2^-53, or, when
it underflows, plus at most 2^-1075. So a computed sum of products differs from the true one by at most

    N u / (1 - N u)  *  (the same sum with every term replaced by its magnitude)    + underflow,

where N is the largest number of operations that any one term goes through (Higham 2002, section 3.1). In a row of L
successors, in a state with A actions of positive probability and K constraints, a term takes

    the difference, the product, L - 1 additions, the division by the row's sum, which itself took L - 1 additions, the
    product with reach, itself of two roundings, the sum of the parts, the product with pi, A - 1 additions, the
    division by the sum of pi, itself of A - 1 additions: 2 L + 2 A + 6;  a margin is a difference, of a bound that was
    divided by the number of layers: 2 more;  and K + 1 products and additions more with prices, without the part of pi.

The kernels take N = 2 (L + A + K) + 16 and allow 2 N u times the computed magnitudes plus N * 1e-300, which covers the
rounding of the magnitudes and of the allowance itself, as N u < 2^-20 for any model that fits a machine. Where all that
is added up is zero, so is the sum: nothing is allowed for, and a margin of exactly zero is proved. The magnitude
of a margin is taken as that of its signal plus that of its bound, so that a difference that cancels is allowed for. An
operation that is fused with the next loses a rounding and keeps the bound. Initial sums are by `math.fsum`, correctly
rounded. Where anything overflows, the result is that nothing is proved.

What one operation loses to underflow, 2^-1075, may be multiplied afterwards by the reach, at most 2^53, which 1e-300
covers by far. By a price, which may be any double, only one such loss is multiplied: that of a bound that was divided
by the number of layers. So 1e-300 is added to the magnitude of such a bound, unless it is zero: 2 N u price 1e-300 is
more than price 2^-1075, and a bound of which division leaves nothing is not taken for zero.

With ``exact=True`` the same bounds are computed in rationals instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from inbounds.arrays import Floats, freeze
from inbounds.criteria import criterion_of
from inbounds.criteria.contract import DENSE_STATES, Followed
from inbounds.criteria.evaluation import values_of
from inbounds.errors import Infeasible, InvalidInput
from inbounds.exact.feasibility import spare_occupancies, spare_occupancy
from inbounds.exact.optimum import Optimum, flat_margins
from inbounds.exact.reachable import well_scaled
from inbounds.exact.solution import Solution, piece_of, policy_of, taken_by
from inbounds.inputs import float_array, shown
from inbounds.numerics.bellman import UNIT
from inbounds.numerics.classes import graph_of, moves_from
from inbounds.numerics.compiled import compiled, interpreted
from inbounds.numerics.rows import Chain, Rows
from inbounds.problem.cmdp import CMDP, require_model
from inbounds.problem.constraint import Constraint
from inbounds.problem.mixture import Mixture, members_of
from inbounds.problem.policy import Policy
from inbounds.proofs.certificate import Certificate, InfeasibilityCertificate, MixtureProof, Proof

UNDERFLOW = 1e-300
"""Far more than one operation can lose to underflow."""

_INTERPRETED_ENTRIES = 100
"""Up to this many the kernels are run by Python: a millisecond, where compiling them takes seconds."""

_AIM = 1e-13
"""Where a margin that binds is put first, relative to the largest: about ten times what rounding takes of it."""

_LEAST = 1e-17
"""Less than that, relative to the largest margin, changes nothing that is stored: to begin with less takes many more
steps, each twice the one before."""

_COMFORTABLE = 1e-9
"""A margin of this part of the largest is proved as it is."""

_STRICT = 1e-10
"""A margin to spare below this part of the largest counts as none, as it does when feasibility is decided."""

_ROOMY = 1e-5
"""With less to spare than this, what the solver came by is not enough, and the safest policy is looked for."""

_RATIONAL_ENTRIES = 300
"""Up to this many, a policy that misses its bounds in floating point is tried in rationals too: 50 ms."""

_RATIONAL_MOVES = 30_000
"""Up to this many transitions in all, a policy without coins is judged in rationals where floating point cannot tell
whether it is in bounds: a tenth of a second, as only its own are looked at."""

_HAIR = 1e-9
"""What rounding takes of a margin, relative to the largest, unless the chain hardly mixes."""

_NEVER = 1e-15
"""A time per place so short may be none at all."""

ProofProgress = Callable[[int, int], None]
"""Called with the number of vectors and bounds of a proof that are made, and how many there will be."""


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
    count = _Count(progress, 2 * len(rules) * (1 + cmdp.n_constraints) + (prices is not None))
    vectors, visiting = [], []
    with np.errstate(all="ignore"):
        for taken in rules:
            followed, reached = _followed(cmdp, criterion.follow(taken))
            vectors.append(_vectors(cmdp, followed, reached, None, count))
            visiting.append(_visiting(cmdp, taken, reached))
    upper, judge = math.inf, _exact_means if exact else _bounded_lowers
    judged = [_judged(judge, cmdp, own, vector, count) for own, vector in zip(visiting, vectors, strict=True)]
    proving = zip(rules, (own for own, _ in judged), strict=True)
    members = tuple(Proof(cmdp.criterion, taken, own[1:], own[0]) for taken, own in proving)
    proof: Proof | MixtureProof = MixtureProof(weights, members) if isinstance(policy, Mixture) else members[0]
    if prices is not None:
        priced, values = _checked(cmdp, prices, value_function)
        proof = replace(proof, prices=priced, value_function=values)
        upper = (_exact_upper if exact else _bounded_upper)(cmdp, priced, values, 1.0)
        count.add()
    lowers = _mixed(weights, [lowers for _, lowers in judged])
    return _certificate(cmdp, lowers, upper, proof, "exact" if exact else "rounding-bounded")


def values_between(cmdp: CMDP, taken: Floats) -> tuple[Floats, Floats]:
    """What the reward and the margins [1 + K] of a policy [N] certainly are at least, and at most.

    In rationals where floating point leaves the sign of a margin open, and the model is small.
    """
    policy = Policy(cmdp.pairs, taken.reshape(cmdp.shape))
    swapped = [replace(each, at_least=each.at_most, at_most=each.at_least) for each in cmdp.constraints]
    negated = cmdp.asking(reward=-cmdp.reward, constraints=swapped)

    def least(problem: CMDP, exact: bool) -> Floats:
        proved = certify_known(policy, problem, exact=exact)
        return np.append(proved.reward_lower, proved.margins_lower)

    for exact in (False, True) if _few_moves(cmdp) else (False,):
        lowers, uppers = least(cmdp, exact), -least(negated, exact)
        if np.all(lowers[1:] >= 0.0) or np.any(uppers[1:] < 0.0):
            break
    return lowers, uppers


def upper_proof(cmdp: CMDP, found: Optimum) -> tuple[Floats, Floats, float]:
    """The prices [K] and a vector [M] of a best mixture, and the bound on all rewards in bounds that they prove.

    It is infinite where it overflows.
    """
    priced = cmdp.reward.ravel() + np.einsum("k,kn->n", found.prices, flat_margins(cmdp))
    prices, values = _checked(cmdp, found.prices, criterion_of(cmdp).sharpened(priced, found.value_function))
    upper = _bounded_upper(cmdp, prices, values, 1.0)
    if criterion_of(cmdp).mass_row:  # of averages none is more than the most that is paid, which takes no vector
        none = freeze(np.zeros_like(values))
        most = _bounded_upper(cmdp, prices, none, 1.0)
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
        mixed.append(_floor(mean) if proved else -math.inf)
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
    prices, values = _checked(cmdp, error.prices, error.value_function)
    upper = (_exact_upper if exact else _bounded_upper)(cmdp, prices, values, 0.0)
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
    other probabilities (`_Aiming`). Into any other mixture goes as much of an occupancy with a margin to spare as it
    takes (`_Mixing`). The certificate is made once, of the policy that was moved; the solution holds that policy, its
    values, and the proven `upper_bound`, so that its gap contains what that cost.

    When only policies on the boundary are feasible (a Slater constant of zero) this cannot be done. A margin of exactly
    zero is proved all the same where no rounding enters, and in rationals where the model is small; otherwise the
    policy is left as it is, and the certificate, whose proven margins are just below zero, says so.
    """
    asked = well_scaled(cmdp)
    scales = asked.margin_scales
    way: _Aiming | _Mixing | _Staying
    if found.pure is not None:
        way = _Staying(cmdp, found)
    else:
        way = _Mixing(cmdp, found) if found.corner is None else _Aiming(cmdp, found)
    count = _Count(progress, 2 * (1 + cmdp.n_constraints) + 1)
    prices, values, upper = upper_proof(cmdp, found)
    count.add()
    vectors = way.vectors
    small = cmdp.reward.size <= _RATIONAL_ENTRIES or (found.pure is not None and _few_moves(cmdp))

    def lacking(lowers: list[float]) -> Floats:
        return np.maximum(-np.array(lowers[1:]) / scales, 0.0)

    while True:
        followed = way.followed()
        reached = _reached_by(cmdp, followed)
        visiting = _visiting(cmdp, followed.taken, reached)
        vectors = _vectors(cmdp, followed, reached, vectors, count)
        vectors, lowers = _judged(_bounded_lowers, cmdp, visiting, vectors, count)
        kind = "rounding-bounded"
        if small and not np.max(lacking(lowers), initial=0.0) <= _HAIR:  # next to a discount of 1 all is rounding
            lowers, kind = _exact_lowers(cmdp, visiting, vectors), "exact"
        missing = float(np.max(lacking(lowers), initial=0.0))
        if not 0.0 < missing < np.inf:
            break
        if not way.stricter(lacking(lowers)):
            if not isinstance(way, _Aiming) or not (mixing := _Mixing(cmdp, found)).stricter(lacking(lowers)):
                break
            way = mixing
        count.again(2 * (1 + cmdp.n_constraints))
    proof = Proof(cmdp.criterion, followed.taken, vectors[1:], vectors[0], prices, values)
    if small and missing > 0.0 and min((exact := _exact_lowers(cmdp, visiting, vectors))[1:]) >= 0.0:
        lowers, kind = exact, "exact"
    if kind == "exact":
        upper = _exact_upper(cmdp, prices, values, 1.0)
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


class _Staying:
    """A deterministic policy: it cannot be moved by a little. Attributes as below."""

    moved, vectors, linked = False, None, 0

    def __init__(self, cmdp: CMDP, found: Optimum) -> None:
        self._cmdp, self._found = cmdp, found

    def followed(self) -> Followed:
        """The policy with its time per place."""
        return _stored(self._cmdp, taken_by(self._cmdp, self._found), self._found.occupancy[self._found.pure])

    def stricter(self, missing: Floats) -> bool:
        """Never."""
        del missing
        return False


class _Aiming:
    """A vertex on its way inside the bounds: the same coins, or those of a neighbour, with other probabilities.

    Attributes
    ----------
    moved : bool
        Whether it is not where the solver left it.
    vectors : array [1 + K, M]
        Where the vectors of the proof may begin.
    linked : int
        How many classes the way itself had to link; 0: none.
    """

    linked = 0

    def __init__(self, cmdp: CMDP, found: Optimum) -> None:
        self._cmdp, self._corner, self._found = cmdp, found.corner, found
        units = found.corner.units
        self.moved, self._aim = False, np.zeros(cmdp.n_constraints)
        self.vectors: Floats | None = np.append(units.spread, units.scales)[:, None] * found.corner.vectors()
        criterion = criterion_of(cmdp)
        self._time: Any = np.bincount(criterion.places, found.occupancy, criterion.n_places)
        self._toward(np.full(cmdp.n_constraints, _AIM))

    def followed(self) -> Followed:
        """The policy, as it will be stored, with its time per place."""
        taken = self._corner.vertex.probabilities(criterion_of(self._cmdp).n_entries)
        followed = _stored(self._cmdp, taken, self._time)
        self._time = followed.time
        return followed

    def stricter(self, missing: Floats) -> bool:
        """Move further, where rounding took more of the scaled margins than was there: by what is missing [K].

        False when no vertex is so far inside: no scaled margin is above 1.
        """
        step = np.maximum(2.0 * self._aim, _LEAST)
        aim = np.maximum(self._aim + 2.0 * missing, np.where(missing > 0.0, step, 0.0))
        if aim.max() > 1.0:
            return False
        return self._toward(aim) or self._toward(aim, spare_occupancy(well_scaled(self._cmdp), self._found, _ROOMY))

    def _toward(self, aim: Floats, spare: Floats | None = None) -> bool:
        corner = self._corner.tightened(aim, spare)
        if corner is None:
            return False
        self._corner, self._aim, self.moved = corner, aim, True
        return True


class _Mixing:
    """A mixture on its way inside the bounds: more and more of an occupancy with a margin to spare where it is needed.

    First a little of one that may break the bounds that do not bind; then of the safest mixture of the policies that
    the solver came by, or the safest there is (`spare_occupancies`). Attributes as above.
    """

    vectors: Floats | None = None
    linked = 0

    def __init__(self, cmdp: CMDP, found: Optimum) -> None:
        self._cmdp, self._asked, self._found, self._weight = cmdp, well_scaled(cmdp), found, 0.0
        self._scaled = flat_margins(self._asked) / self._asked.margin_scales[:, None]
        self._left = np.sum(found.occupancy * self._scaled, axis=1)
        self._spares = spare_occupancies(self._asked, found, _ROOMY, lifting=found.linked > 0)
        self._safer: Floats | None = None
        self._margins, self._most = np.zeros(cmdp.n_constraints), 1.0
        short = np.maximum(_AIM - self._left, 0.0)
        if np.min(self._left, initial=np.inf) < _COMFORTABLE and self._next(short):
            self._weight = min(self._needed(short), 1.0)

    @property
    def moved(self) -> bool:
        return self._weight > 0.0

    def _next(self, short: Floats) -> bool:
        """The next occupancy with room where margins are `short` [K], nothing of it yet; False if there is none."""
        for safer in self._spares:
            margins = np.sum(safer * self._scaled, axis=1)
            if np.all(margins[short > 0.0] > _STRICT):
                broken = (margins <= 0.0) & (margins < self._left)
                # What may be taken of it: until half of what is left of the bounds that it breaks is gone.
                most = np.min(0.5 * self._left[broken] / (self._left - margins)[broken], initial=1.0)
                self._safer, self._margins, self._most, self._weight = safer, margins, float(most), 0.0
                return True
        return False

    def _needed(self, short: Floats) -> float:
        """How much of it makes up for what margins are `short` of [K]."""
        return float(np.max(short[short > 0.0] / self._margins[short > 0.0], initial=0.0))

    def followed(self) -> Followed:
        """The policy, as it will be stored, with its time per place."""
        spent = self._found.occupancy
        if self._weight > 0.0 and self._safer is not None:
            spent = (1.0 - self._weight) * spent + self._weight * self._safer
            # Long-run averages: two policies that each stay where they are make one that falls apart.
            spent, self.linked = criterion_of(self._cmdp).linked(spent, tuple, _AIM, self._scaled)
        taken = policy_of(self._cmdp, spent, self._found.prices, self._found.value_function)
        criterion = criterion_of(self._cmdp)
        time: Any = np.bincount(criterion.places, spent, criterion.n_places)
        return _stored(self._cmdp, taken, time)

    def stricter(self, missing: Floats) -> bool:
        """More of it, where rounding took more of the scaled margins than was there; False if there is no more."""
        known = self._safer is not None or self._next(missing)
        while known and self._weight < 1.0:
            if np.all(self._margins[missing > 0.0] > _STRICT):
                more = max(2.0 * self._weight, self._weight + 1.5 * self._needed(missing), _LEAST)
                if more <= self._most or self._most == 1.0:
                    self._weight = min(more, 1.0)
                    return True
            known = self._next(missing)
        return False


def _stored(cmdp: CMDP, taken: Floats, time: Floats) -> Followed:
    """A policy [N] as it will be stored, with its time per place, begun from `time` [M]."""
    criterion = criterion_of(cmdp)
    taken = Policy(cmdp.pairs, taken.reshape(cmdp.shape)).probabilities.ravel()
    return criterion.follow(taken, start=time * (len(criterion.layers) / time.sum()))


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


class _Count:
    """Steps of a proof that are made, told to whoever wants to know."""

    def __init__(self, progress: ProofProgress | None, total: int) -> None:
        self._progress, self._done, self._total = progress, 0, total

    def add(self, steps: int = 1) -> None:
        self._done += steps
        if self._progress is not None:
            self._progress(self._done, self._total)

    def again(self, steps: int) -> None:
        """So many steps have to be made once more."""
        self._total += steps


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


def _signals(cmdp: CMDP) -> Floats:
    """The reward and the margins over entries, [1 + K, N]."""
    return np.vstack([cmdp.reward.reshape(1, -1), flat_margins(cmdp)])


def _checked(cmdp: CMDP, prices: Any, value_function: Any) -> tuple[Floats, Floats]:
    """Prices [K] and a vector over places [M], from outside."""
    checked = float_array(prices, "prices")
    if checked.shape != (cmdp.n_constraints,) or not np.all(np.isfinite(checked) & (checked >= 0.0)):
        raise InvalidInput(f"prices must be {cmdp.n_constraints} finite numbers >= 0, found {prices}")
    values, n_places = float_array(value_function, "value_function").ravel(), criterion_of(cmdp).n_places
    if values.shape != (n_places,):
        raise InvalidInput(f"value_function must have {n_places} entries, found {values.size}")
    return freeze(checked.copy()), _settled(cmdp, values[None, :])[0]


def _vectors(cmdp: CMDP, followed: Followed, reached: Any, start: Floats | None, count: _Count) -> Floats:
    """Vectors over places [1 + K, M], those of `start` improved, that prove the values of a policy: see C1 above."""
    criterion, signals = criterion_of(cmdp), _signals(cmdp)
    kept = reached if not criterion.mass_row or np.all(followed.time > _NEVER) else _stays(cmdp, followed)
    paid = signals if np.all(kept) else np.where(kept[criterion.places], signals, 0.0)
    vectors = np.empty((len(signals), criterion.n_places))
    # One at a time, and told, where one takes long; unless they share a factorisation that is not kept.
    step = len(signals) if criterion.mass_row or criterion.n_places <= DENSE_STATES else 1
    for j in range(0, len(signals), step):
        begin = None if start is None else start[j : j + step]
        vectors[j : j + step] = criterion.proof_vectors(followed, paid[j : j + step], begin)
        count.add(step)
    if criterion.mass_row and not np.all(kept):  # lowered by the time that it takes to get there
        away = np.where(kept[criterion.places], 0.0, 1.0)
        longer = criterion.proof_vectors(followed, away[None, :])[0]
        longer = longer - longer[kept].max()
        sizes = np.abs(signals).max(axis=1, initial=0.0)
        vectors = np.where(kept, vectors, vectors - 2.0 * sizes[:, None] * longer)
    return _settled(cmdp, vectors)


def _followed(cmdp: CMDP, followed: Followed) -> tuple[Followed, Any]:
    """A policy to compute vectors from, the same where the one that is followed comes; and those places, bool [M].

    An average of a policy that would stay elsewhere, if it ever came there, has vectors as one that walks from there.
    """
    reached, criterion = _reached_by(cmdp, followed), criterion_of(cmdp)
    if followed.elsewhere:
        return criterion.follow(criterion.fill_in(followed.taken, reached, criterion.largest(followed.taken))), reached
    return followed, reached


def _visiting(cmdp: CMDP, taken: Floats, reached: Any) -> Floats:
    """A policy [N], and zeros at the places that it never comes to: there the bounds of C1 do not look."""
    return taken if np.all(reached) else np.where(reached[criterion_of(cmdp).places], taken, 0.0)


def _reached_by(cmdp: CMDP, followed: Followed) -> Any:
    """The places that a policy can come to, bool [M]; maybe more of them, which proves less and nothing false."""
    criterion = criterion_of(cmdp)
    if np.all(followed.time > _NEVER):
        return np.ones(criterion.n_places, dtype=bool)
    now = cmdp.initial > 0.0
    if not criterion.shifts:
        return _led_to(cmdp, followed.taken, now)
    reached = []
    for layer in criterion.layers:
        reached.append(now)
        moves = layer.transition[now[cmdp.pairs.states] & (followed.taken[layer.entries] > 0.0)]
        now = np.bincount(moves.indices, minlength=cmdp.n_states) > 0
    return np.concatenate(reached)


def _stays(cmdp: CMDP, followed: Followed) -> Any:
    """The states in which a policy comes to stay, bool [S]."""
    return _led_to(cmdp, followed.taken, np.arange(cmdp.n_states) == int(np.argmax(followed.time)))


def _led_to(cmdp: CMDP, taken: Floats, begin: Any) -> Any:
    """The states that a policy [n] may come to from some states `begin`, bool [S]."""
    used = np.flatnonzero(taken > 0.0)
    moves = criterion_of(cmdp).layers[0].transition[used]
    per_state = np.bincount(cmdp.pairs.states[used], np.diff(moves.indptr), cmdp.n_states).astype(moves.indptr.dtype)
    starts = np.append(0, np.cumsum(per_state)).astype(moves.indptr.dtype)
    return moves_from(graph_of(Chain(starts, moves.indices, moves.data)), begin) >= 0


def _settled(cmdp: CMDP, vectors: Floats) -> Floats:
    """Vectors over places [J, M] as they will be stored: discounted ones centred; zeros where one is not finite."""
    criterion = criterion_of(cmdp)
    if criterion.own > 0.0:  # a constant changes nothing, and takes no digits
        with np.errstate(all="ignore"):
            vectors = vectors - np.sum(criterion.initial * vectors, axis=1, keepdims=True)
    return freeze(np.where(np.all(np.isfinite(vectors), axis=1, keepdims=True), vectors, 0.0))


# --- bounds in floating point ---


@compiled
def lower_residual(rows, policy, gain, size, here, there, own, reach):  # type: ignore[no-untyped-def]
    """A number that min_s residual(s) in one layer certainly exceeds, for `gain` [n]; NaN on overflow.

    The least is over states where `policy` [n] is not zero at all pairs (`_visiting`). `here` [S] is the vector at the
    layer's places, `there` [S] where its moves lead; `size` [n] are the magnitudes of what the gain is the sum of.
    """
    least = np.inf
    for state in range(len(rows.offsets) - 1):
        at = here[state]
        total, magnitude, weight, operations, anything = 0.0, 0.0, 0.0, 16, abs(at)
        for pair in range(rows.offsets[state], rows.offsets[state + 1]):
            if policy[pair] == 0.0:
                continue
            row, row_size, row_weight = 0.0, 0.0, 0.0
            for entry in range(rows.starts[pair], rows.starts[pair + 1]):
                probability = rows.probabilities[entry]
                difference = there[rows.targets[entry]] - at
                row += probability * difference
                row_size += probability * abs(difference)
                row_weight += probability
                anything += abs(difference)
            anything += size[pair]
            total += policy[pair] * (gain[pair] - own * at + reach * (row / row_weight))
            magnitude += policy[pair] * (size[pair] + own * abs(at) + reach * (row_size / row_weight))
            weight += policy[pair]
            length = rows.starts[pair + 1] - rows.starts[pair]
            operations = max(operations, 2 * length + 16)
        if weight == 0.0:  # the policy never comes here
            continue
        operations += 2 * (rows.offsets[state + 1] - rows.offsets[state])
        lost = 2.0 * UNIT * (magnitude / weight) + (UNDERFLOW if anything > 0.0 else 0.0)
        residual = total / weight - operations * lost
        if not residual >= least:  # so that a NaN gets through
            least = residual
            if residual != residual:
                return least
    return least


@compiled
def upper_excess(rows, gain, size, n_prices, here, there, own, reach):  # type: ignore[no-untyped-def]
    """A number that certainly exceeds excess(s, a) at every pair of one layer; NaN on overflow.

    `gain` [n] is the reward with `n_prices` priced margins, `size` [n] the same sum of magnitudes.
    """
    largest = -np.inf
    for state in range(len(rows.offsets) - 1):
        at = here[state]
        for pair in range(rows.offsets[state], rows.offsets[state + 1]):
            row, row_size, row_weight = 0.0, 0.0, 0.0
            for entry in range(rows.starts[pair], rows.starts[pair + 1]):
                probability = rows.probabilities[entry]
                difference = there[rows.targets[entry]] - at
                row += probability * difference
                row_size += probability * abs(difference)
                row_weight += probability
            magnitude = size[pair] + own * abs(at) + reach * (row_size / row_weight)
            operations = 2 * (rows.starts[pair + 1] - rows.starts[pair] + n_prices) + 16
            excess = gain[pair] - own * at + reach * (row / row_weight)
            excess += operations * (2.0 * UNIT * magnitude + UNDERFLOW)
            if not excess <= largest:  # so that a NaN gets through
                largest = excess
                if excess != excess:
                    return largest
    return largest


_by_python = cache(interpreted)


def _in_layers(cmdp: CMDP, kernel: Any, y: Floats, *arguments: Any) -> list[float]:
    """What a kernel says of each layer, given vectors over entries and plain numbers.

    For few entries it is run by Python, on lists, which Python reads three times as fast as arrays.
    """
    criterion, found = criterion_of(cmdp), []
    small = cmdp.reward.size <= _INTERPRETED_ENTRIES
    for layer, here, there in criterion.steps(y):
        own = [a[layer.entries] if isinstance(a, np.ndarray) else a for a in arguments]
        vectors: list[Any] = [layer.rows, *own, here, there, criterion.own, criterion.reach]
        if small:
            rows = Rows(*(column.tolist() for column in layer.rows))
            vectors = [rows, *(v.tolist() if isinstance(v, np.ndarray) else v for v in vectors[1:])]
        try:
            found.append((_by_python(kernel) if small else kernel)(*vectors))
        except (ZeroDivisionError, OverflowError):  # which compiled code says with infinities
            found.append(math.nan)
    return found


def _magnitudes(cmdp: CMDP) -> Floats:
    """Of the reward and of the margins [1 + K, N]: what rounding is relative to.

    A bound that is spread over several layers is rounded before it is subtracted, and counts by itself; by more than
    zero, though it may underflow.
    """
    sizes = np.abs(_signals(cmdp))
    if cmdp.layers > 1:
        bounds = np.array([constraint.bound for constraint in cmdp.constraints])
        sizes[1:] += np.where(bounds == 0.0, 0.0, np.abs(bounds / cmdp.layers) + UNDERFLOW)[:, None]
    return sizes


def _judged(judge: Any, cmdp: CMDP, visiting: Floats, vectors: Floats, count: _Count) -> tuple[Floats, Any]:
    """Vectors, and the bounds that `judge` has of them; none is poorer than what the zero vector proves.

    That is the least that the policy is ever paid. Where a chain hardly ever leaves a part of it, relative values are
    so large that their rounding alone is more than that.
    """
    lowers = judge(cmdp, visiting, vectors, count)
    taken, layers = visiting > 0.0, criterion_of(cmdp).layers
    leasts = [
        sum(float(signal[layer.entries][taken[layer.entries]].min(initial=np.inf)) for layer in layers)
        for signal in _signals(cmdp)
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


def _bounded_lowers(cmdp: CMDP, taken: Floats, vectors: Floats, count: _Count | None = None) -> list[float]:
    lowers = []
    with np.errstate(all="ignore"):
        for gain, size, vector in zip(_signals(cmdp), _magnitudes(cmdp), vectors, strict=True):
            shifts = [-residual for residual in _in_layers(cmdp, lower_residual, vector, taken, gain, size)]
            lowers.append(-_shifted(cmdp, -vector, shifts))
            if count is not None:
                count.add()
    return [lower + 0.0 for lower in lowers]  # no minus zero


def _bounded_upper(cmdp: CMDP, prices: Floats, values: Floats, reward_weight: float) -> float:
    weights = np.append(reward_weight, prices)
    with np.errstate(all="ignore"):
        gain, size = (np.einsum("k,kn->n", weights, parts) for parts in (_signals(cmdp), _magnitudes(cmdp)))
        return _shifted(cmdp, values, _in_layers(cmdp, upper_excess, values, gain, size, len(prices)))


def _shifted(cmdp: CMDP, vector: Floats, shifts: list[float]) -> float:
    """A number that certainly exceeds start <rho, vector_0> + the sum of `shifts`; infinite on overflow."""
    criterion = criterion_of(cmdp)
    with np.errstate(all="ignore"):
        first = vector[criterion.layers[0].places]
        weighted = criterion.start * cmdp.initial * first
    if not (np.all(np.isfinite(weighted)) and all(map(math.isfinite, shifts))):
        return math.inf
    mass = math.fsum(cmdp.initial)
    try:
        start = math.fsum(weighted) / mass
        size = math.fsum(np.abs(weighted)) / mass
        shift = math.fsum(shifts)
    except OverflowError:
        return math.inf
    # Two products, correctly rounded sums and a division: 6 roundings of `start`; 3 of `shift` and of the sum.
    allowance = 16.0 * UNIT * (size + abs(shift))
    if size > 0.0 or (criterion.start and np.any(first[cmdp.initial > 0.0])):
        allowance += 2.0 * cmdp.n_states * UNDERFLOW
    bound = start + shift + allowance
    return bound if math.isfinite(bound) else math.inf


# --- the same bounds in rationals ---


def _exact_lowers(cmdp: CMDP, taken: Floats, vectors: Floats) -> list[float]:
    return [_floor(mean) for mean in _exact_means(cmdp, taken, vectors)]


def _exact_means(cmdp: CMDP, taken: Floats, vectors: Floats, count: _Count | None = None) -> list[Fraction]:
    """(lower) of the reward and of each margin, for a policy as `_visiting` gives it."""
    probabilities = [Fraction(p) for p in taken.tolist()]
    offsets, bounds = cmdp.offsets.tolist(), []
    for gain, vector in zip(_exact_gains(cmdp), vectors, strict=True):
        excess, least = _exact_excess(cmdp, gain, vector, probabilities), Fraction(0)
        for layer in criterion_of(cmdp).layers:
            residuals = []
            for first, last in pairwise(offsets):
                entries = range(layer.entries.start + first, layer.entries.start + last)
                chosen = [entry for entry in entries if probabilities[entry]]
                if chosen:  # the policy comes here
                    mean = sum((probabilities[entry] * excess[entry] for entry in chosen), Fraction(0))
                    residuals.append(mean / sum(probabilities[entry] for entry in chosen))
            least += min(residuals)
        bounds.append(_exact_start(cmdp, vector) + least)
        if count is not None:
            count.add()
    return bounds


def _exact_upper(cmdp: CMDP, prices: Floats, values: Floats, reward_weight: float) -> float:
    weights = [Fraction(reward_weight), *map(Fraction, prices.tolist())]
    gains = zip(*_exact_gains(cmdp), strict=True)
    priced = [sum((w * x for w, x in zip(weights, at, strict=True)), Fraction(0)) for at in gains]
    excess = _exact_excess(cmdp, priced, values)
    largest = sum((max(excess[layer.entries]) for layer in criterion_of(cmdp).layers), Fraction(0))
    return -_floor(-(_exact_start(cmdp, values) + largest))


def _exact_excess(
    cmdp: CMDP, gain: Sequence[Fraction], vector: Floats, taken: Sequence[Fraction] | None = None
) -> list[Fraction]:
    """gain - E vector at every entry; zero at those that are not `taken`, if that is given: nobody asks there."""
    criterion, states = criterion_of(cmdp), cmdp.pairs.states.tolist()
    own, reach, excess = Fraction(criterion.own), criterion.exact_reach, []
    for layer, here, there in criterion.steps(vector):
        y, y_next = [Fraction(v) for v in here.tolist()], [Fraction(v) for v in there.tolist()]
        matrix = layer.transition
        probabilities, successors = matrix.data.tolist(), matrix.indices.tolist()
        for pair, (state, (first, last)) in enumerate(zip(states, pairwise(matrix.indptr.tolist()), strict=True)):
            entry = layer.entries.start + pair
            if taken is not None and not taken[entry]:
                excess.append(Fraction(0))
                continue
            row = [(successors[at], Fraction(probabilities[at])) for at in range(first, last)]
            excess.append(gain[entry] - own * y[state] + reach * (_mean(row, y_next) - y[state]))
    return excess


def _exact_gains(cmdp: CMDP) -> list[list[Fraction]]:
    """The reward, and every margin as the exact difference of signal and the layer's share of the bound."""
    gains = [[Fraction(value) for value in cmdp.reward.ravel().tolist()]]
    for constraint in cmdp.constraints:
        sign, bound = int(constraint.outward), Fraction(float(constraint.bound)) / cmdp.layers
        gains.append([sign * (Fraction(value) - bound) for value in constraint.signal.ravel().tolist()])
    return gains


def _mean(row: Sequence[tuple[int, Fraction]], w: Sequence[Fraction]) -> Fraction:
    """The mean of `w` over next states, the row divided by its exact sum."""
    return Fraction(sum(p * w[state] for state, p in row)) / sum(p for _, p in row)


def _exact_start(cmdp: CMDP, vector: Floats) -> Fraction:
    w = [Fraction(value) for value in vector[: cmdp.n_states].tolist()]
    rho = [(state, Fraction(p)) for state, p in enumerate(cmdp.initial.tolist()) if p]
    return Fraction(criterion_of(cmdp).start) * _mean(rho, w)


def _floor(value: Fraction) -> float:
    """The largest double that is not above `value`; minus infinity below all doubles."""
    try:
        nearest = float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.nextafter(math.inf, 0.0)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)
