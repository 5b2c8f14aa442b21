"""Proofs on a known model: never more than the truth, in exact arithmetic, and hardly less."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import inbounds as ib
import naive_proofs
from inbounds.criteria import criterion_of, discounted
from inbounds.exact.methods import best_mixture
from inbounds.numerics.compiled import interpreted
from inbounds.proofs import rationals, rounding
from inbounds.proofs.files import save_certificate
from inbounds.proofs.known_model import certified, certify_infeasible, certify_known

# --- problems and their exact values, from the textbook ---


def drawn(seed, states=4, constraints=2, discount=0.8, scale=1.0):
    """A small random problem: states with 1 to 3 actions, rows of 1 to all next states, constraints of both senses."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, size=states)
    n_pairs = int(counts.sum())
    rows = np.zeros((n_pairs, states))
    for row in rows:
        reached = rng.choice(states, size=rng.integers(1, states + 1), replace=False)
        row[reached] = rng.dirichlet(np.ones(len(reached)))
    initial = np.zeros(states)
    initial[: rng.integers(1, states + 1)] = 1.0
    limits = []
    for k in range(constraints):
        signal = scale * rng.normal(size=n_pairs)
        side = "at_least" if k % 2 == 0 else "at_most"
        limits.append(ib.Constraint(signal, name=f"limit {k}", **{side: scale * float(rng.normal(scale=0.1))}))
    return ib.CMDP(
        offsets=np.concatenate([[0], np.cumsum(counts)]),
        transition=rows,
        reward=scale * rng.normal(size=n_pairs),
        constraints=tuple(limits),
        initial=initial / initial.sum(),
        discount=discount,
    )


def random_policy(cmdp, seed):
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=cmdp.n_pairs) * (rng.random(cmdp.n_pairs) < 0.7)
    weights[cmdp.offsets[:-1]] += 1e-3  # so that no state is left without an action
    return ib.Policy(cmdp.pairs, weights / cmdp.pairs.sum_by_state(weights)[cmdp.pairs.states])


def exact_values(cmdp, probabilities, gains):
    """The normalised value of each of `gains` (lists of rationals over pairs), by elimination in rationals."""
    n, discount = cmdp.n_states, Fraction(cmdp.discount)
    chosen = normalised_by_state(cmdp, probabilities)
    dense = cmdp.transition.toarray()
    matrix = []
    for state in range(n):
        row = [Fraction(int(state == other)) for other in range(n)]
        right = [Fraction(0)] * len(gains)
        for pair in range(cmdp.offsets[state], cmdp.offsets[state + 1]):
            if not chosen[pair]:
                continue
            stored = [Fraction(p) for p in dense[pair].tolist()]
            for other in range(n):
                row[other] -= discount * chosen[pair] * stored[other] / sum(stored)
            for k, gain in enumerate(gains):
                right[k] += (1 - discount) * chosen[pair] * gain[pair]
        matrix.append(row + right)
    for i in range(n):  # Gauss and Jordan; the diagonal dominates, so no pivot is zero
        matrix[i] = [x / matrix[i][i] for x in matrix[i]]
        for j in range(n):
            if j != i and matrix[j][i]:
                factor = matrix[j][i]
                matrix[j] = [x - factor * y for x, y in zip(matrix[j], matrix[i], strict=True)]
    initial = [Fraction(p) for p in cmdp.initial.tolist()]
    return [
        sum(p * row[n + k] for p, row in zip(initial, matrix, strict=True)) / sum(initial) for k in range(len(gains))
    ]


def normalised_by_state(cmdp, probabilities):
    stored = [Fraction(p) for p in np.asarray(probabilities).tolist()]
    sums = [sum(stored[first:last]) for first, last in itertools.pairwise(cmdp.offsets.tolist())]
    return [p / sums[state] for p, state in zip(stored, cmdp.pairs.states.tolist(), strict=True)]


def exact_gains(cmdp):
    """The reward and the margins, as rationals over pairs."""
    margins = [
        [(1 if c.at_least is not None else -1) * (Fraction(x) - Fraction(c.bound)) for x in c.signal.tolist()]
        for c in cmdp.constraints
    ]
    return [[Fraction(x) for x in cmdp.reward.tolist()], *margins]


def best_value(cmdp, gain):
    """The largest value of `gain` under any policy: by trying every deterministic one."""
    choices = [range(first, last) for first, last in itertools.pairwise(cmdp.offsets.tolist())]
    return max(
        exact_values(cmdp, [float(pair in chosen) for pair in range(cmdp.n_pairs)], [gain])[0]
        for chosen in map(set, itertools.product(*choices))
    )


def weighted(gains, weights):
    return [sum(Fraction(w) * x for w, x in zip(weights, column, strict=True)) for column in zip(*gains, strict=True)]


SHAPES = [
    {},
    {"discount": 0.0},
    {"discount": 0.999999},
    {"states": 1},
    {"constraints": 0},
    {"states": 7, "constraints": 3, "discount": 0.3},
    {"scale": 1e95},
    {"scale": 1e-160},
]


# --- C1 ---


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_lower_bounds_are_below_the_truth_and_close_to_it(shape, exact):
    for seed in range(6):
        cmdp = drawn(seed, **shape)
        policy = random_policy(cmdp, seed)
        certificate = certify_known(policy, cmdp, exact=exact)
        reward, *margins = exact_values(cmdp, policy.probabilities, exact_gains(cmdp))
        sizes = [float(np.abs(cmdp.reward).max()), *cmdp.margin_scales]
        lowers = [certificate.reward_lower, *certificate.margins_lower]
        for truth, lower, size in zip([reward, *margins], lowers, sizes, strict=True):
            assert Fraction(lower) <= truth
            assert truth - Fraction(lower) <= 1e-12 * Fraction(size)
        assert certificate.in_bounds == all(lower >= 0.0 for lower in certificate.margins_lower)
        assert certificate.kind == ("exact" if exact else "rounding-bounded")
        assert (certificate.confidence, certificate.samples, certificate.reward_upper) == (1.0, 0, math.inf)


@pytest.mark.parametrize("size", [0.0, 1e-12, 1.0, 1e12])
def test_any_vector_proves_a_bound_and_rounding_is_covered(size):
    """The floating-point bounds are below the rational ones of the same vectors, by no more than the allowance."""
    for seed in range(20):
        cmdp = drawn(seed, states=6, discount=[0.0, 0.5, 0.99][seed % 3])
        policy = random_policy(cmdp, seed)
        vectors = size * np.random.default_rng(seed).normal(size=(1 + cmdp.n_constraints, cmdp.n_states))
        rounded = rounding.rounded_lowers(cmdp, policy.probabilities, vectors)
        rational = rationals.rational_lowers(cmdp, policy.probabilities, vectors)
        truths = exact_values(cmdp, policy.probabilities, exact_gains(cmdp))
        for low, high, truth in zip(rounded, rational, truths, strict=True):
            assert low <= high and Fraction(high) <= truth
            assert high - low <= 1e-13 * (1.0 + 10.0 * size) / (1.0 - cmdp.discount)
        prices, values = np.abs(vectors[:, 0][1:]), vectors[0]
        for reward_weight in (0.0, 1.0):
            high = rounding.rounded_upper(cmdp, prices, values, reward_weight)
            low = rationals.rational_upper(cmdp, prices, values, reward_weight)
            assert low <= high


def test_the_allowance_is_needed():
    """Without it, floating point does claim more than is true: the test above can fail."""
    overshoots = 0
    for seed in range(40):
        cmdp = drawn(seed, states=6)
        policy = random_policy(cmdp, seed)
        vectors = np.random.default_rng(seed).normal(size=(1 + cmdp.n_constraints, cmdp.n_states))
        hopeful = interpreted(rounding.lower_residual)
        hopeful.__globals__["UNIT"] = 0.0
        gains = [cmdp.reward, *cmdp.margins]
        for gain, vector, proved in zip(
            gains, vectors, rationals.rational_lowers(cmdp, policy.probabilities, vectors), strict=True
        ):
            criterion = criterion_of(cmdp)
            arguments = (criterion.rows, policy.probabilities, gain, np.abs(gain), vector, vector, 1.0, criterion.reach)
            shift = hopeful(*arguments)
            overshoots += cmdp.initial @ vector + shift > proved
    assert overshoots > 10


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.95, 0.99999])
def test_sweeping_is_as_good_as_elimination(discount, monkeypatch):
    cmdp = replace(ib.zoo.garnet(states=500, actions=3, seed=3), discount=discount)
    policy = random_policy(cmdp, 0)
    swept = certify_known(policy, cmdp)
    monkeypatch.setattr(discounted, "DENSE_STATES", 500)
    solved = certify_known(policy, replace(cmdp))
    assert abs(swept.reward_lower - solved.reward_lower) < 1e-14
    np.testing.assert_allclose(swept.margins_lower, solved.margins_lower, rtol=0.0, atol=1e-14)


def test_a_chain_that_hardly_mixes():
    """A ring of 500 states: the residual flattens by the discount in each sweep, and no faster."""
    ring = np.arange(500)
    cmdp = ib.CMDP(
        offsets=np.arange(501),
        transition=0.5 * np.eye(500) + 0.5 * np.eye(500)[(ring + 1) % 500],
        reward=np.cos(2.0 * np.pi * ring / 500),
        constraints=(),
        initial=np.eye(500)[0],
        discount=0.99,
    )
    # The value of exp(i angle) is geometric: (1 - d) / (1 - d (1 + exp(i angle)) / 2).
    truth = (0.01 / (1.0 - 0.99 * 0.5 * (1.0 + np.exp(2j * np.pi / 500)))).real
    # A sweep rounds about six times, and the residual contains two of them, divided by 1 - d; vectors are below 1.6.
    loss = truth - certify_known(ib.Policy.uniform(cmdp), cmdp).reward_lower
    assert 0.0 <= loss < 12 * 2.0**-53 * 1.6 / 0.01 + 2e-14


def test_kernels_equal_their_interpreted_twins():
    cmdp = drawn(5, states=6, constraints=3)
    policy, criterion = random_policy(cmdp, 1), criterion_of(cmdp)
    rows, form = criterion.rows, (criterion.own, criterion.reach)
    vector, there = np.random.default_rng(0).normal(size=(2, cmdp.n_states))
    for gain in (cmdp.reward, *cmdp.margins):
        arguments = (rows, policy.probabilities, gain, np.abs(gain), vector, there, *form)
        assert rounding.lower_residual(*arguments) == interpreted(rounding.lower_residual)(*arguments)
    arguments = (rows, cmdp.reward, np.abs(cmdp.reward), 3, vector, there, *form)
    assert rounding.upper_excess(*arguments) == interpreted(rounding.upper_excess)(*arguments)


def test_overflow_proves_nothing():
    cmdp = drawn(0, scale=1e99)
    prices, zeros = np.full(2, 1e215), np.zeros(cmdp.n_states)
    certificate = certify_known(ib.Policy.uniform(cmdp), cmdp, prices=prices, value_function=zeros)
    assert certificate.reward_upper == math.inf and certificate.gap == math.inf
    vectors = np.full((3, cmdp.n_states), 1.7e308) * np.array([1.0, -1.0, 1.0, -1.0])
    assert rounding.rounded_lowers(cmdp, ib.Policy.uniform(cmdp).probabilities, vectors) == [-math.inf] * 3
    exactly = certify_known(ib.Policy.uniform(cmdp), cmdp, exact=True, prices=prices, value_function=zeros)
    assert exactly.reward_upper == math.inf  # beyond all doubles
    assert np.all(certificate.margins_lower <= exactly.margins_lower)


# --- C2 and C3 ---


@pytest.mark.parametrize("exact", [False, True])
def test_upper_bound_holds_for_any_prices_and_vector(exact):
    for seed in range(8):
        cmdp = drawn(seed, states=3, discount=[0.0, 0.7, 0.95][seed % 3])
        rng = np.random.default_rng(seed)
        prices, guess = rng.exponential(size=cmdp.n_constraints), rng.normal(size=cmdp.n_states)
        certificate = certify_known(ib.Policy.uniform(cmdp), cmdp, exact=exact, prices=prices, value_function=guess)
        assert Fraction(certificate.reward_upper) >= best_value(cmdp, weighted(exact_gains(cmdp), [1.0, *prices]))


@pytest.mark.parametrize("problem", ["queue", "jump_grid", "garnet"])
def test_a_solution_is_certified(problem):
    cmdp = getattr(ib.zoo, problem)()
    plain = ib.solve(cmdp, certificate=False)
    solution = ib.solve(cmdp)
    certificate = solution.certificate
    assert certificate.in_bounds and certificate.kind == "rounding-bounded"
    assert np.all(certificate.margins_lower <= solution.margins + 1e-13 * cmdp.margin_scales)
    scale = float(np.abs(cmdp.reward).max())
    assert certificate.gap <= plain.gap + 1e-9 * scale
    assert abs(solution.reward - plain.reward) <= 1e-9 * scale
    assert solution.upper_bound == certificate.reward_upper and np.array_equal(solution.prices, plain.prices)
    exactly = certify_known(
        solution.policy, cmdp, exact=True, prices=solution.prices, value_function=solution.value_function
    )
    assert np.all(certificate.margins_lower <= exactly.margins_lower)
    assert certificate.reward_lower <= exactly.reward_lower <= exactly.reward_upper <= certificate.reward_upper


def test_strictness_costs_almost_nothing():
    cmdp = ib.zoo.queue()
    solution = ib.solve(cmdp, method="lp", certificate=False)
    # A vertex of the program: both constraints bind, so that no bound below the margins can be a positive number.
    assert np.all(np.abs(solution.margins) < 1e-13)
    assert not certify_known(solution.policy, cmdp).in_bounds
    found, by = best_mixture(cmdp, "lp")
    strict = certified(cmdp, found, method=by)
    assert strict.certificate.in_bounds and certify_known(strict.policy, cmdp).in_bounds
    assert 0.0 < strict.reward_given_up < 1e-11
    safest = ib.occupancy(cmdp, ib.slater(cmdp).policy)  # has room, and is left as it is
    again = certified(cmdp, found._replace(occupancy=safest), method=by)
    assert again.reward_given_up == 0.0 and again.certificate.in_bounds


def test_a_policy_well_out_of_bounds_is_brought_in_at_a_price():
    cmdp = ib.zoo.queue()
    greedy, by = best_mixture(cmdp.tightened(-0.01))  # for 0.01 more than allowed
    solution, best = certified(cmdp, greedy, method=by), ib.solve(cmdp)
    assert solution.certificate.in_bounds
    assert 0.0 < greedy.value(cmdp.reward) - best.reward <= solution.reward_given_up + 1e-12


def test_only_boundary_policies():
    """The signal is 0 whatever is done and must be at least 0: no policy has a positive margin."""
    cmdp = ib.CMDP(
        offsets=[0, 2, 3],
        transition=[[0.3, 0.7], [0.9, 0.1], [0.5, 0.5]],
        reward=[1.0, 0.0, 0.5],
        constraints=[ib.Constraint([0.1, 0.1, 0.1], at_most=0.1, name="level")],
        initial=[0.5, 0.5],
        discount=0.9,
    )
    solution, plain = ib.solve(cmdp), ib.solve(cmdp, certificate=False)
    certificate = solution.certificate
    assert np.array_equal(solution.policy.probabilities, plain.policy.probabilities)
    assert solution.reward_given_up == 0.0
    assert certificate.in_bounds == bool(certificate.margins_lower[0] >= 0.0)
    assert -1e-13 < certificate.margins_lower[0] <= 0.0
    if not certificate.in_bounds:
        assert "to spare" in certificate.methods[0] and "not proved" in certificate.verdict
    assert certify_known(solution.policy, cmdp, exact=True).in_bounds  # in rationals the margin is 0, which is enough


@pytest.mark.parametrize("exact", [False, True])
def test_infeasible_problems_are_proved_so(exact):
    proved = 0
    for seed in range(12):
        cmdp = drawn(seed, states=3).tightened(0.4)
        try:
            ib.solve(cmdp)
        except ib.Infeasible as error:
            certificate = certify_infeasible(error, cmdp, exact=exact)
            assert certificate.infeasible and "no policy is in bounds" in certificate.verdict
            truth = best_value(cmdp, weighted(exact_gains(cmdp)[1:], error.prices))
            assert truth <= Fraction(certificate.margin_upper) < 0
            assert Fraction(certificate.margin_upper) - truth < 1e-8
            proved += 1
    assert proved >= 3


def test_an_infeasibility_that_is_not_there_is_not_proved():
    cmdp = ib.zoo.queue()
    error = ib.Infeasible(-1.0, np.array([0.5, 0.5]), np.zeros(cmdp.n_states), diagnosis=None)
    certificate = certify_infeasible(error, cmdp)
    assert not certificate.infeasible and certificate.margin_upper >= 0.0
    assert "not proved" in certificate.verdict


# --- refusals ---


def test_refusals():
    cmdp, other = drawn(0), drawn(1)
    policy = ib.Policy.uniform(cmdp)
    zeros = np.zeros(cmdp.n_states)
    with pytest.raises(ib.InvalidInput, match="does not belong"):
        certify_known(ib.Policy.uniform(other), cmdp)
    with pytest.raises(ib.InvalidInput, match="both"):
        certify_known(policy, cmdp, prices=[0.0, 0.0])
    with pytest.raises(ib.InvalidInput, match="both"):
        certify_known(policy, cmdp, value_function=zeros)
    for prices in ([-0.1, 0.0], [np.nan, 0.0], [0.0]):
        with pytest.raises(ib.InvalidInput, match="prices"):
            certify_known(policy, cmdp, prices=prices, value_function=zeros)
    with pytest.raises(ib.InvalidInput, match="value_function"):
        certify_known(policy, cmdp, prices=[0.0, 0.0], value_function=[0.0])


@pytest.mark.parametrize("seed", range(4))
def test_vectors_of_a_chain_that_drifts_slowly_are_good_enough(seed):
    """Ever on to the last of 600 states: combinations of sweeps alone would stand still far from the values."""
    rng, size = np.random.default_rng(seed), 600
    transition = np.zeros((size, 2, size))
    for s in range(size):
        for a in range(2):
            for step in rng.integers(0, 3, size=4):
                transition[s, a, min(s + step, size - 1)] += 0.25
    signal = rng.random((size, 2))
    cmdp = ib.CMDP.from_dense(
        transition,
        reward=rng.random((size, 2)),
        constraints=[ib.Constraint(signal, at_least=0.0, name="signal")],
        initial=np.eye(size)[0],
        discount=0.9999,
    )
    uniform = ib.Policy.uniform(cmdp)
    cmdp = cmdp.tightened(float(ib.evaluate(cmdp, uniform).margins[0]) - 1e-4)
    proved = ib.certify(uniform, cmdp)
    assert proved.in_bounds and proved.margins_lower[0] == pytest.approx(1e-4, abs=1e-11)


@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("slack", [0.5, 1e-2, 1e-4, 1e-6, 3e-8])
def test_nearly_infeasible_problems_are_proved(slack, ring):
    """The policy with a margin to spare comes from the solver's own cuts, not from a rough solve of its own."""
    cmdp = ib.zoo.garnet(states=300, actions=4, discount=0.99, ring=ring, seed=2)
    tight = cmdp.tightened((1.0 - slack) * ib.slater(cmdp).value)
    best = ib.solve(tight)
    assert best.certificate.in_bounds, best.certificate.verdict
    assert best.gap <= 2e-8 * abs(best.reward) and best.reward_given_up <= 1e-8


@pytest.mark.parametrize("criterion", [{"discount": 0.95}, {"horizon": 12}, {"average": True}], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_an_equality_is_proved_where_its_two_bounds_are_a_hair_apart(seed, criterion):
    plain = ib.zoo.garnet(states=60, seed=seed)
    rows = {"offsets": plain.offsets, "transition": plain.transition, "reward": plain.reward, "initial": plain.initial}
    signal = np.random.default_rng(seed).random(plain.n_pairs)
    largest = float(criterion.get("horizon", 1))
    between = [ib.Constraint(signal, at_least=0.5 * largest, name="low")]
    between += [ib.Constraint(signal, at_most=(0.5 + 1e-12) * largest, name="high")]
    best = ib.solve(ib.CMDP(**rows, constraints=between, **criterion))
    assert best.status == "optimal" and best.certificate.in_bounds
    assert np.all(best.certificate.margins_lower >= 0.0)


def test_a_certified_solve_of_a_few_hundred_states_asks_lapack_for_nothing(monkeypatch):
    """Dense solves wake all cores; each policy is evaluated once, by sweeps or by elimination."""
    cmdp = ib.zoo.garnet(states=250, actions=4, seed=1)

    def never(*arguments):
        raise AssertionError("a dense solve")

    for name in ("solve", "inv", "lstsq"):
        original = getattr(np.linalg, name)

        def small_only(matrix, *rest, original=original):
            return never() if len(matrix) > 50 else original(matrix, *rest)

        monkeypatch.setattr(np.linalg, name, small_only)
    assert ib.solve(cmdp).certificate.in_bounds
    assert ib.evaluate(cmdp, ib.Policy.uniform(cmdp)).margins.shape == (2,)


def test_a_sum_over_stages_that_overflows_proves_nothing():
    """Each stage is within the range of doubles, and their sum is not: no bound, and no error."""
    cmdp = ib.CMDP(offsets=[0, 1], transition=[[1.0]], reward=[1.0], constraints=(), initial=[1.0], horizon=3)
    guess = np.array([[1.7e308], [-1.7e308], [1.7e308]])
    certificate = certify_known(ib.Policy.uniform(cmdp), cmdp, prices=np.empty(0), value_function=guess)
    assert certificate.reward_upper == np.inf


LEAST = 5e-324
SMALL = (0.0, LEAST, 2 * LEAST, 3 * LEAST, 7 * LEAST, 1e-320, 2.4e-319, 1e-310, 1e-307, 1e-300, 1e-297, 1e-290)
ENDS = [
    *({"horizon": stages} for stages in (1, 2, 3, 7, 1000)),
    *({"discount": d} for d in (0.0, LEAST, 0.5, 1.0 - 2.0**-53)),
    {"average": True},
]


@pytest.mark.parametrize("criterion", ENDS, ids=str)
def test_no_bound_is_lost_at_the_ends_of_the_doubles(criterion):
    """Whatever underflows, and whatever it is multiplied by later: bounds are those of rationals, or weaker."""
    long, told = criterion.get("horizon", 1) > 10, 0
    rng = np.random.default_rng(sum(map(ord, str(criterion))))

    def some(shape, *units):
        """Numbers of any size in one of the units, or in several."""
        units = units[rng.integers(len(units))]
        return rng.choice(SMALL, size=shape) * rng.choice(units, size=shape) * rng.choice([1.0, -1.0], size=shape)

    for trial in range(2 if long else 150):
        states, actions = (1, 1) if long else (int(rng.integers(1, 4)), int(rng.integers(1, 3)))
        n, stages = states * actions, criterion.get("horizon", 1)
        rows, initial, taken = (np.abs(some(shape, [1.0])) for shape in ((n, states), states, (stages, n)))
        rows[np.arange(n), rng.integers(states, size=n)] = 1.0
        initial[rng.integers(states)] = 1.0
        taken[:, actions * np.arange(states)] = 1.0
        staged = trial % 2 and "horizon" in criterion
        signals = some((2, stages, n) if staged else (2, n), [0.0], [0.0, 1.0], [1.0, 1e300])
        cmdp = ib.CMDP(
            offsets=actions * np.arange(states + 1),
            transition=rows,
            reward=some(n, [0.0], [1.0]),
            constraints=[
                ib.Constraint(signals[0], at_least=float(some((), [1.0]))),
                ib.Constraint(signals[1], at_most=float(some((), [1.0]))),
            ],
            initial=initial,
            **criterion,
        )
        vectors = some((3, stages * states), [0.0], [1.0], [1.0, 1e290])
        prices = rng.choice([0.0, LEAST, 1.0, 1e10, 1e25, 1e140, 1e250, 1e300, 1.7e308], size=2)
        model = naive_proofs.exact(cmdp)
        policy = naive_proofs.by_state(model, taken)
        lowers = rounding.rounded_lowers(cmdp, taken.ravel(), vectors)
        for lower, gain, vector in zip(lowers, model.gains, vectors, strict=True):
            if lower > -math.inf:
                assert Fraction(lower) <= naive_proofs.lower_bound(model, policy, gain, vector)
                told += 1
        for weight in (0.0, 1.0):
            upper = rounding.rounded_upper(cmdp, prices, vectors[0], weight)
            if upper < math.inf:
                gain = naive_proofs.weighted(model.gains, [weight, *prices])
                assert Fraction(upper) >= naive_proofs.upper_bound(model, gain, vectors[0])
                told += 1
    assert told > (5 if long else 500)


@pytest.mark.parametrize(("stages", "bound"), [(3, LEAST), (12, 2e-323), (1000, 2e-321)])
def test_a_bound_too_small_to_be_spread_over_the_stages_is_not_taken_for_none(stages, bound):
    for sign, side in ((1.0, "at_least"), (-1.0, "at_most")):
        constraint = ib.Constraint([0.0, -sign], **{side: sign * bound})
        cmdp = ib.CMDP(
            offsets=[0, 2],
            transition=[[1.0], [1.0]],
            reward=[1.0, 0.0],
            constraints=[constraint],
            initial=[1.0],
            horizon=stages,
        )
        best = ib.Policy(cmdp.pairs, np.tile([1.0, 0.0], (stages, 1)))
        assert not certify_known(best, cmdp).in_bounds
        if stages == 3:
            assert not ib.solve(cmdp).certificate.in_bounds
        nothing = ib.Constraint([0.0, -sign], **{side: 0.0})  # a bound of zero is met, and that is proved
        assert certify_known(best, replace(cmdp, constraints=(nothing,))).in_bounds


def test_large_prices_do_not_multiply_what_a_bound_lost_when_it_was_spread():
    staged = [[LEAST], [LEAST], [0.0]]
    form = {"offsets": [0, 1], "transition": [[1.0]], "initial": [1.0], "horizon": 3}
    met = ib.CMDP(reward=[0.0], constraints=[ib.Constraint(staged, at_least=2 * LEAST)], **form)
    assert certify_known(ib.Policy.uniform(met), met, exact=True).in_bounds
    error = ib.Infeasible(-1.0, np.array([1e300]), np.zeros((3, 1)), diagnosis=None)
    assert not certify_infeasible(error, met).infeasible

    form |= {"offsets": [0, 2], "transition": [[1.0], [1.0]]}
    cmdp = ib.CMDP(reward=[0.0, 1e-25], constraints=[ib.Constraint([0.0, -LEAST], at_least=-LEAST)], **form)
    first = ib.Policy(cmdp.pairs, np.tile([1.0, 0.0], (3, 1)))
    certificate = certify_known(first, cmdp, prices=[2e299], value_function=np.zeros((3, 1)))
    assert certificate.reward_upper >= 1e-25  # of the other action, taken once


@pytest.mark.parametrize("states", [10, 150])
def test_averages_of_policies_that_would_stay_elsewhere_if_they_ever_came_there(states):
    """The first action of each half of the states leads to that half; the other half pays a hundred times as much."""
    half = states // 2
    for seed in range(6):
        rng, moves = np.random.default_rng(seed), np.zeros((states, 2, states))
        for state in range(states):
            own = np.arange(half) + (state >= half) * half
            moves[state, 0, rng.permutation(own)[:3]] = rng.dirichlet(np.ones(3))
            moves[state, 0, own[0]] += 1.0
            moves[state, 0] /= moves[state, 0].sum()
            moves[state, 1, rng.permutation(states)[:4]] = rng.dirichlet(np.ones(4))
        cost = rng.random((states, 2))
        cost[half:] += 100.0
        cmdp = ib.CMDP.from_dense(
            moves,
            reward=rng.normal(size=(states, 2)),
            constraints=[ib.Constraint(cost, at_most=1.0, name="cost")],
            initial=np.eye(states)[0],
            average=True,
        )
        policy = ib.Policy(cmdp.pairs, np.tile([1.0, 0.0], states))
        found, worth = certify_known(policy, cmdp), ib.evaluate(cmdp, policy)
        assert found.in_bounds
        np.testing.assert_allclose(found.margins_lower, worth.margins, rtol=0, atol=1e-9)
        assert np.all(found.margins_lower <= worth.margins + 1e-13)


def test_what_is_no_proof_is_refused_by_name(tmp_path):
    queue = ib.zoo.queue()
    best = ib.solve(queue, certificate=False)
    for wrong in (best.certificate, best, tmp_path):
        with pytest.raises(ib.InvalidInput, match="a certificate is needed, such as that of a solution, found"):
            save_certificate(wrong, tmp_path / "proof.json")
    with pytest.raises(ib.InvalidInput, match=r"takes the ib\.Infeasible that a solve raised, found None"):
        certify_infeasible(None, queue)
