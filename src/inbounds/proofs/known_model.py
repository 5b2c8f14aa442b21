"""Proofs when the model is known: in bounds (C1), close to optimal (C2), and infeasible (C3).

What is proved
--------------
"The model" means: every stored double is the binary number that it is; every row of transition probabilities, the
initial distribution and the policy's row in each state are divided by their exact sums. Write P, rho, pi for those,
d for the discount, m for the reward or a margin, and J(m) for the value of the policy, normalised by (1 - d).

C1. For ANY vector w over states let, in every state,

    residual(s) = sum_a pi(a|s) [ (1 - d) m(s,a) + d sum_s' P(s'|s,a) w(s') ] - w(s).

Along the policy's path the w's telescope, so that J(m) = <rho, w> + E sum_t d^t residual(s_t), and hence

    J(m)  >=  <rho, w> + min_s residual(s) / (1 - d).                                                          (lower)

The vector v = w + min residual / (1 - d) is the one that satisfies v <= (1 - d) m + d P v in every state: the shift
repairs whatever vector there is. With w the value function of m, up to a constant, the residual is the same everywhere
and (lower) is J(m) itself; any error in w only loosens the bound.

C2. For ANY prices u >= 0 and vector V, with the largest value over all pairs of

    excess(s,a) = (1 - d) (reward + sum_k u_k margin_k)(s,a) + d sum_s' P(s'|s,a) V(s') - V(s),

    reward of any policy in bounds  <=  J(reward + u . margins)  <=  <rho, V> + max excess / (1 - d).           (upper)

C3. The same with no reward: if (upper) is negative, then u . margins is negative under every policy, and no policy is
in bounds.

Rounding
--------
Each number is computed from the differences w(s') - w(s), which sum to the same,

    residual(s) = sum_a pi(a|s) [ (1 - d) (m(s,a) - w(s)) + d sum_s' P(s'|s,a) (w(s') - w(s)) ],

because they are small where 1 / (1 - d) is large: a value function is constant up to terms of the order 1 - d. For the
same reason the stored vectors are centred, <rho, w> = 0 up to rounding.

With round to nearest every operation of floating point gives the true result times (1 + e), |e| <= u = 2^-53, or, when
it underflows, plus at most 2^-1075. So a computed sum of products differs from the true one by at most

    N u / (1 - N u)  *  (the same sum with every term replaced by its magnitude)    + underflow,

where N is the largest number of operations that any one term goes through (Higham 2002, section 3.1). In a row of L
successors, in a state with A actions of positive probability and K constraints, a term takes

    the difference, the product, L - 1 additions, the division by the row's sum, which itself took L - 1 additions, the
    discount, the sum of the two parts, the product with pi, A - 1 additions, the division by the sum of pi, itself of
    A - 1 additions: 2 L + 2 A + 3;  and K + 1 products and additions more with prices, without the part of pi.

The kernels take N = 2 (L + A + K) + 16 and allow 2 N u times the computed magnitudes plus N * 1e-300, which covers the
rounding of the magnitudes and of the allowance itself, as N u < 2^-20 for any model that fits a machine. An operation
that is fused with the next loses a rounding and keeps the bound. Initial sums are by `math.fsum`, correctly rounded.
Where anything overflows, the result is that nothing is proved.

With ``exact=True`` the same bounds are computed in rationals instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from inbounds.arrays import Floats, Ints, freeze
from inbounds.errors import Infeasible, InvalidInput
from inbounds.exact.feasibility import slater
from inbounds.exact.solution import Solution
from inbounds.inputs import float_vector
from inbounds.numerics.compiled import compiled
from inbounds.numerics.sweeps import TRIAL_SWEEPS, improve_values, sweep_values
from inbounds.problem.cmdp import CMDP, Constraint
from inbounds.problem.policy import Policy, chain_of, evaluate, occupancy
from inbounds.proofs.certificate import Certificate, InfeasibilityCertificate, Proof

UNIT = 2.0**-53
"""The largest relative error of one rounding."""

UNDERFLOW = 1e-300
"""Far more than one operation can lose to underflow."""

_DENSE_STATES = 400
"""Up to this many states a dense solve beats sweeping."""

_ROUNDING = 16.0 * UNIT
"""How flat sweeps can make a residual, relative to the values; a round of them that aims lower may never end."""

_STRICT = 1e-9
"""A Slater constant below this part of the margins counts as zero, as it does when feasibility is decided."""


def certify_exact(
    policy: Policy,
    cmdp: CMDP,
    *,
    exact: bool = False,
    prices: Any = None,
    value_function: Any = None,
) -> Certificate:
    """Prove what a policy is worth on a known model. Values are normalised by (1 - discount).

    The certificate gives lower bounds on the policy's margins and reward, with the vectors that prove them; with
    prices and a value function at hand (those of a `Solution`), also a bound on what any policy in bounds can have.
    What the vectors were computed with does not matter: poor ones prove less, but nothing false.

    Parameters
    ----------
    policy : Policy
    cmdp : CMDP
    exact : bool
        Do the arithmetic in rationals (kind "exact", about a second for a thousand states) instead of in floating point
        with every rounding error bounded (kind "rounding-bounded", a fraction of a second for a hundred thousand).
    prices : array [K], optional
    value_function : array [S], optional
        Normalised. Both or neither.

    Examples
    --------
    >>> import inbounds as ib
    >>> from inbounds.proofs.known_model import certify_exact
    >>> queue = ib.zoo.queue()
    >>> print(certify_exact(ib.Policy.uniform(queue), queue.tightened(-3.0), exact=True))
    constraint   bound         margin at least   how
    service      at least -3   1                 exact arithmetic
    flow         at least -3   2.47999           exact arithmetic
    (reward)                   2.49439
    in bounds: proved in exact arithmetic
    """
    if policy.pairs.n_pairs != cmdp.n_pairs or not np.array_equal(policy.pairs.offsets, cmdp.offsets):
        raise InvalidInput(f"the policy ({policy.pairs.n_pairs} pairs) does not belong to this problem ({cmdp!r})")
    if (prices is None) != (value_function is None):
        raise InvalidInput("a bound on the optimum needs both prices and value_function; give both, or neither")
    vectors = _value_vectors(cmdp, policy)
    proof = Proof(cmdp.criterion, policy.probabilities, vectors[1:], vectors[0])
    upper = math.inf
    if prices is not None:
        priced = _prices(prices, cmdp)
        values = _centred(cmdp, float_vector(value_function, cmdp.n_states, "value_function"))
        proof = replace(proof, prices=priced, value_function=values)
        upper = (_exact_upper if exact else _bounded_upper)(cmdp, priced, values, 1.0)
    lowers = (_exact_lowers if exact else _bounded_lowers)(cmdp, policy, vectors)
    margins = freeze(np.array(lowers[1:]))
    return Certificate(
        in_bounds=bool(np.all(margins >= 0.0)),
        kind="exact" if exact else "rounding-bounded",
        constraints=_without_signals(cmdp),
        margins_lower=margins,
        methods=("exact arithmetic" if exact else "rounding bounded",) * cmdp.n_constraints,
        reward_lower=lowers[0],
        reward_upper=upper,
        proof=proof,
        model=cmdp,
    )


def certify_infeasible(error: Infeasible, cmdp: CMDP, *, exact: bool = False) -> InfeasibilityCertificate:
    """The proof in an `Infeasible` exception, checked against the model. Values are normalised by (1 - discount).

    Examples
    --------
    >>> import inbounds as ib
    >>> from inbounds.proofs.known_model import certify_infeasible
    >>> impossible = ib.zoo.queue().tightened(3.0)
    >>> try:
    ...     ib.solve(impossible)
    ... except ib.Infeasible as error:
    ...     certify_infeasible(error, impossible).infeasible
    True
    """
    prices = _prices(error.prices, cmdp)
    values = _centred(cmdp, float_vector(error.value_function, cmdp.n_states, "value_function"))
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


def certified(cmdp: CMDP, solution: Solution) -> tuple[Solution, Certificate]:
    """A solution whose policy is proved to be in bounds, and the proof. Values are normalised by (1 - discount).

    At an optimum the margins of the constraints that bind are zero up to rounding, and half the time just below. Then
    as much of the Slater policy is mixed in as makes them provably >= 0, see `make_strict`; the solution returned
    holds the mixed policy, its values, and the proven `upper_bound`, so that its gap contains what that cost.

    When only policies on the boundary are feasible (a Slater constant of zero) this cannot be done: the policy is left
    as it is, and the certificate, whose proven margins are just below zero, says so. In rationals (``exact=True``) such
    a policy may still be proved to be in bounds.
    """
    policy, certificate = _strict(cmdp, solution)
    judged = evaluate(cmdp, policy)
    improved = replace(
        solution,
        policy=policy,
        reward=judged.reward,
        margins=judged.margins,
        occupancy=judged.occupancy,
        upper_bound=certificate.reward_upper,
    )
    return improved, certificate


def make_strict(cmdp: CMDP, solution: Solution) -> tuple[Policy, float]:
    """The policy of `solution`, moved just far enough that it is provably in bounds, and the reward that this cost.

    Mixes the occupancy of the Slater policy into that of the policy, with the weight (missing margin) / (Slater
    constant), typically 1e-14 to 1e-10. When the Slater constant is zero, only policies on the boundary are feasible,
    strictness cannot be had, and the policy comes back as it is. The reward is normalised by (1 - discount).
    """
    policy, _ = _strict(cmdp, solution)
    if policy is solution.policy:
        return policy, 0.0
    return policy, evaluate(cmdp, solution.policy).reward - evaluate(cmdp, policy).reward


def _strict(cmdp: CMDP, solution: Solution) -> tuple[Policy, Certificate]:
    """A policy as `make_strict` describes it, and its certificate."""
    first = certify_exact(solution.policy, cmdp, prices=solution.prices, value_function=solution.value_function)
    if first.in_bounds or not np.all(np.isfinite(first.margins_lower)):
        return solution.policy, first
    safest = slater(cmdp, scaled=True, tolerance=0.3)  # any policy with a margin to spare will do
    if safest.value > _STRICT:
        spent, safely_spent = solution.occupancy, occupancy(cmdp, safest.policy)
        weight = float(np.max(-first.margins_lower / cmdp.margin_scales)) / safest.value
        while weight < 0.5:  # rounding in the mixture may eat a little of the margin: then a little more
            mixed = (1.0 - weight) * spent + weight * safely_spent
            policy = Policy.from_occupancy(cmdp, mixed, otherwise=solution.policy)
            found = certify_exact(policy, cmdp)
            if found.in_bounds:
                return policy, _with_upper_bound_of(first, found)
            weight *= 2.0
    note = "rounding bounded; no policy is known with a margin to spare in every constraint"
    methods = tuple(
        method if lower >= 0.0 else note for method, lower in zip(first.methods, first.margins_lower, strict=True)
    )
    return solution.policy, replace(first, methods=methods)


def _with_upper_bound_of(one: Certificate, other: Certificate) -> Certificate:
    """`other`, and what `one` proves about all policies."""
    assert one.proof is not None and other.proof is not None
    proof = replace(other.proof, prices=one.proof.prices, value_function=one.proof.value_function)
    return replace(other, reward_upper=one.reward_upper, proof=proof)


def _without_signals(cmdp: CMDP) -> tuple[Constraint, ...]:
    return tuple(replace(constraint, signal=None) for constraint in cmdp.constraints)


def _prices(prices: Any, cmdp: CMDP) -> Floats:
    checked = float_vector(prices, cmdp.n_constraints, "prices")
    if not np.all(np.isfinite(checked) & (checked >= 0.0)):
        raise InvalidInput(f"prices must be finite numbers >= 0, found {checked}")
    return checked


# --- the vectors: nothing here needs to be right, only close ---


def _centred(cmdp: CMDP, vector: Floats) -> Floats:
    """The same vector up to a constant, with a mean of about zero at the start; zeros where it is not finite."""
    with np.errstate(all="ignore"):
        centred = vector - cmdp.initial @ vector
    return freeze(centred if np.all(np.isfinite(centred)) else np.zeros(cmdp.n_states))


def _value_vectors(cmdp: CMDP, policy: Policy) -> Floats:
    """The value functions of the reward and of each margin under `policy`, normalised and centred, [1 + K, S]."""
    signals = np.vstack([cmdp.reward[None, :], cmdp.margins])
    with np.errstate(all="ignore"):
        choose = sp.csr_array(
            (policy.probabilities, np.arange(cmdp.n_pairs), cmdp.offsets), shape=(cmdp.n_states, cmdp.n_pairs)
        )
        gains = (1.0 - cmdp.discount) * (choose @ signals.T)  # [S, 1 + K]
        if not np.all(np.isfinite(gains)):
            values = np.zeros_like(gains)
        elif cmdp.n_states <= _DENSE_STATES:
            values = _solve_dense((choose @ cmdp.transition).toarray(), gains, cmdp)
        else:
            values = _sweep(policy, gains, cmdp)
    return freeze(np.array([_centred(cmdp, row) for row in values.T]))


def _solve_dense(moves: Floats, gains: Floats, cmdp: CMDP) -> Floats:
    """By elimination, refined twice: once for the solve, once for the digits that centring brings within reach."""
    matrix = np.eye(cmdp.n_states) - cmdp.discount * moves
    values = np.asarray(np.linalg.solve(matrix, gains), dtype=np.float64)
    for _ in range(2):
        values -= cmdp.initial @ values
        missing = gains + cmdp.discount * (moves @ values) - values
        values += np.linalg.solve(matrix, missing - cmdp.initial @ missing)
    return values


def _sweep(policy: Policy, gains: Floats, cmdp: CMDP) -> Floats:
    """By iterating the evaluation, until the residual is flat or rounding keeps it from becoming flatter.

    What is the same in every state is taken off the gains after each round, and off the values: so they stay small, and
    keep their digits.
    """
    chain = chain_of(cmdp, policy)
    slowest = max(cmdp.discount, 0.5) ** TRIAL_SWEEPS  # a round makes at least twice as many
    values, scratch = np.zeros(gains.T.shape), np.empty(len(gains))
    for value, gain in zip(values, gains.T.copy(), strict=True):
        unit = float(np.abs(gain).max()) or 1.0
        gain /= unit
        before, span, size = np.inf, np.inf, 1.0 / (1.0 - cmdp.discount)
        while span > 4.0 * UNIT * size and not span > slowest * before:
            before = span
            improve_values(chain, gain, value, scratch, _ROUNDING * size)
            value -= np.sum(cmdp.initial * value)
            low, high = sweep_values(chain, gain, value, scratch, 0.0, 1)
            gain -= 0.5 * (low + high)
            span, size = high - low, float(np.abs(gain).max() + np.abs(value).max())
        value *= unit
    return values.T


# --- bounds in floating point ---


class Rows(NamedTuple):
    """A model as the kernels see it."""

    offsets: Ints  # [S + 1]
    row_starts: Ints  # [n + 1]
    successors: npt.NDArray[np.int32]  # [nnz]
    probabilities: Floats  # [nnz]
    discount: float


def _rows(cmdp: CMDP) -> Rows:
    matrix = cmdp.transition
    return Rows(
        offsets=np.asarray(cmdp.offsets),
        row_starts=matrix.indptr.astype(np.int64),
        successors=matrix.indices.astype(np.int32),
        probabilities=np.asarray(matrix.data),
        discount=cmdp.discount,
    )


@compiled
def lower_residual(rows, policy, gain, vector):  # type: ignore[no-untyped-def]
    """A number that min_s residual(s) certainly exceeds, for `gain` [n], the reward or a margin; NaN on overflow."""
    least = np.inf
    for state in range(len(rows.offsets) - 1):
        here = vector[state]
        total, size, weight, operations = 0.0, 0.0, 0.0, 16
        for pair in range(rows.offsets[state], rows.offsets[state + 1]):
            if policy[pair] == 0.0:
                continue
            row, row_size, row_weight = 0.0, 0.0, 0.0
            for entry in range(rows.row_starts[pair], rows.row_starts[pair + 1]):
                probability = rows.probabilities[entry]
                difference = vector[rows.successors[entry]] - here
                row += probability * difference
                row_size += probability * abs(difference)
                row_weight += probability
            stay = 1.0 - rows.discount
            total += policy[pair] * (stay * (gain[pair] - here) + rows.discount * (row / row_weight))
            size += policy[pair] * (stay * (abs(gain[pair]) + abs(here)) + rows.discount * (row_size / row_weight))
            weight += policy[pair]
            length = rows.row_starts[pair + 1] - rows.row_starts[pair]
            operations = max(operations, 2 * length + 16)
        operations += 2 * (rows.offsets[state + 1] - rows.offsets[state])
        residual = total / weight - operations * (2.0 * UNIT * (size / weight) + UNDERFLOW)
        if not residual >= least:  # so that a NaN gets through
            least = residual
            if np.isnan(residual):
                return least
    return least


@compiled
def upper_excess(rows, reward, margins, prices, values):  # type: ignore[no-untyped-def]
    """A number that certainly exceeds excess(s, a) at every pair; NaN on overflow."""
    largest = -np.inf
    n_constraints = len(prices)
    for state in range(len(rows.offsets) - 1):
        here = values[state]
        for pair in range(rows.offsets[state], rows.offsets[state + 1]):
            row, row_size, row_weight = 0.0, 0.0, 0.0
            for entry in range(rows.row_starts[pair], rows.row_starts[pair + 1]):
                probability = rows.probabilities[entry]
                difference = values[rows.successors[entry]] - here
                row += probability * difference
                row_size += probability * abs(difference)
                row_weight += probability
            gain, gain_size = reward[pair], abs(reward[pair])
            for k in range(n_constraints):
                gain += prices[k] * margins[k, pair]
                gain_size += prices[k] * abs(margins[k, pair])
            stay = 1.0 - rows.discount
            size = stay * (gain_size + abs(here)) + rows.discount * (row_size / row_weight)
            operations = 2 * (rows.row_starts[pair + 1] - rows.row_starts[pair] + n_constraints) + 16
            excess = stay * (gain - here) + rows.discount * (row / row_weight)
            excess += operations * (2.0 * UNIT * size + UNDERFLOW)
            if not excess <= largest:  # so that a NaN gets through
                largest = excess
                if np.isnan(excess):
                    return largest
    return largest


def _bounded_lowers(cmdp: CMDP, policy: Policy, vectors: Floats) -> list[float]:
    rows = _rows(cmdp)
    gains = [cmdp.reward, *cmdp.margins]
    return [
        -_shifted(cmdp, -vector, -lower_residual(rows, policy.probabilities, gain, vector))
        for gain, vector in zip(gains, vectors, strict=True)
    ]


def _bounded_upper(cmdp: CMDP, prices: Floats, values: Floats, reward_weight: float) -> float:
    excess = upper_excess(_rows(cmdp), reward_weight * cmdp.reward, cmdp.margins, prices, values)
    return _shifted(cmdp, values, excess)


def _shifted(cmdp: CMDP, vector: Floats, excess: float) -> float:
    """A number that certainly exceeds <rho, vector> + excess / (1 - discount); infinite on overflow."""
    with np.errstate(all="ignore"):
        weighted = cmdp.initial * vector
    if not (np.all(np.isfinite(weighted)) and math.isfinite(excess)):
        return math.inf
    mass = math.fsum(cmdp.initial)
    start = math.fsum(weighted) / mass
    size = math.fsum(np.abs(weighted)) / mass
    shift = excess / (1.0 - cmdp.discount)
    # A product, three correctly rounded sums and a division: 6 roundings of `start`; 4 of `shift` and of the sum.
    allowance = 16.0 * UNIT * (size + abs(shift)) + 2.0 * cmdp.n_states * UNDERFLOW
    bound = start + shift + allowance
    return bound if math.isfinite(bound) else math.inf


# --- the same bounds in rationals ---


def _exact_lowers(cmdp: CMDP, policy: Policy, vectors: Floats) -> list[float]:
    probabilities = [Fraction(p) for p in policy.probabilities.tolist()]
    offsets, columns = cmdp.offsets.tolist(), _exact_rows(cmdp)
    discount = Fraction(cmdp.discount)
    bounds = []
    for gain, vector in zip(_exact_gains(cmdp), vectors, strict=True):
        w = [Fraction(value) for value in vector.tolist()]
        residuals = []
        for state, (first, last) in enumerate(pairwise(offsets)):
            chosen = [pair for pair in range(first, last) if probabilities[pair]]
            backup: Fraction = sum(  # type: ignore[assignment]
                probabilities[pair] * ((1 - discount) * gain[pair] + discount * _mean(columns[pair], w))
                for pair in chosen
            )
            residuals.append(backup / sum(probabilities[pair] for pair in chosen) - w[state])
        bounds.append(_floor(_exact_start(cmdp, w) + min(residuals) / (1 - discount)))
    return bounds


def _exact_upper(cmdp: CMDP, prices: Floats, values: Floats, reward_weight: float) -> float:
    discount, w = Fraction(cmdp.discount), [Fraction(value) for value in values.tolist()]
    reward, *margins = _exact_gains(cmdp)
    weights = [Fraction(reward_weight), *map(Fraction, prices.tolist())]
    largest = max(
        (1 - discount) * sum(weight * gain[pair] for weight, gain in zip(weights, (reward, *margins), strict=True))
        + discount * _mean(row, w)
        - w[state]
        for pair, (row, state) in enumerate(zip(_exact_rows(cmdp), cmdp.pairs.states.tolist(), strict=True))
    )
    return -_floor(-(_exact_start(cmdp, w) + largest / (1 - discount)))


def _exact_rows(cmdp: CMDP) -> list[list[tuple[int, Fraction]]]:
    """The next states of every pair with their stored probabilities."""
    starts, entries = cmdp.transition.indptr.tolist(), cmdp.transition.data.tolist()
    successors = cmdp.transition.indices.tolist()
    return [
        [(successors[entry], Fraction(entries[entry])) for entry in range(first, last)]
        for first, last in pairwise(starts)
    ]


def _exact_gains(cmdp: CMDP) -> list[list[Fraction]]:
    """The reward, and every margin as the exact difference of signal and bound."""
    gains = [[Fraction(value) for value in cmdp.reward.tolist()]]
    for constraint in cmdp.constraints:
        sign, bound = 1 if constraint.at_least is not None else -1, Fraction(float(constraint.bound))
        gains.append([sign * (Fraction(value) - bound) for value in constraint.signal.tolist()])
    return gains


def _mean(row: Sequence[tuple[int, Fraction]], w: Sequence[Fraction]) -> Fraction:
    """The mean of `w` over next states, the row divided by its exact sum."""
    return Fraction(sum(p * w[state] for state, p in row)) / sum(p for _, p in row)


def _exact_start(cmdp: CMDP, w: Sequence[Fraction]) -> Fraction:
    return _mean([(state, Fraction(p)) for state, p in enumerate(cmdp.initial.tolist()) if p], w)


def _floor(value: Fraction) -> float:
    """The largest double that is not above `value`; minus infinity below all doubles."""
    try:
        nearest = float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.nextafter(math.inf, 0.0)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)
