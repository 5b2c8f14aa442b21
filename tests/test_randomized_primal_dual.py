"""Randomized primal-dual: its gradients by enumeration, its bookkeeping by brute force, its runs over seeds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms.kernels import average_values
from inbounds.algorithms.randomized_primal_dual import (
    Constants,
    State,
    advance,
    average_occupancy,
    average_policy,
    formulas,
    prepare,
)
from inbounds.numerics.compiled import interpreted
from naive_cspda import Dense, dense, ragged
from uniforms import Uniforms

QUEUE = ib.zoo.queue().unconstrained()
PROBLEMS = {"queue": QUEUE, "ragged": ragged(0), "no future": ragged(0, discount=0.0)}
EACH_PROBLEM = pytest.mark.parametrize("cmdp", PROBLEMS.values(), ids=PROBLEMS)


def naive(
    cmdp: ib.CMDP, rng: np.random.Generator, steps: int, *, alpha: float, beta: float, M: float
) -> tuple[np.ndarray, ...]:
    """The averages of pi [n], mu [n] and v [S] of the paper's method, dense, line by line, with q uniform.

    One uniform each for the state, the action and the next state, in this order.
    """
    d = dense(cmdp)
    n, n_states, theta, q = len(d.r), len(d.rho), 1.0 - d.gamma, 1.0 / len(d.rho)
    xi, v, sums = np.full(n_states, q), np.zeros(n_states), (np.zeros(n), np.zeros(n), np.zeros(n_states))
    pi = 1.0 / np.bincount(d.state)[d.state]
    for _ in range(steps):
        p = (1.0 - theta) * xi + theta * q
        for total, iterate in zip(sums, (pi, p[d.state] * pi, v), strict=True):
            total += iterate
        x = rng.random()
        if x < theta:
            i = int(x / theta * n_states)
        else:
            i = int(np.searchsorted(np.cumsum(xi), (x - theta) / (1.0 - theta), side="right"))
        row = np.flatnonzero(d.state == i)
        k = row[np.searchsorted(np.cumsum(pi[row]), rng.random(), side="right")]
        j = int(np.searchsorted(np.cumsum(d.P[k]), rng.random(), side="right"))
        growth = np.exp(beta * (d.gamma * v[j] - v[i] + d.r[k] - M) / (p[i] * pi[k]))
        gradient = np.zeros(n_states)
        gradient[i] += (1.0 - d.gamma) * q / p[i] - 1.0
        gradient[j] += d.gamma
        v = np.clip(v - alpha * gradient, 0.0, 1.0 / (1.0 - d.gamma))
        xi[i] += xi[i] * pi[k] * (growth - 1.0)
        pi[k] *= growth
        xi /= xi.sum()
        pi[row] /= pi[row].sum()
    return tuple(total / steps for total in sums)


def prepared(
    cmdp: ib.CMDP, settings: ib.RandomizedPrimalDual, samples: int, seed: int = 0
) -> tuple[State, Constants, Any, Any]:
    simulator, rng = cmdp.simulator(), np.random.default_rng(seed)
    start = prepare(settings, simulator, samples, rng)
    assert start.samples == 0
    return start.state, start.constants, simulator.open(), rng


# ---- the two stochastic gradients, by full enumeration over (s, a, s'), through the kernel itself


def lagrangian_gradients(d: Dense, mu: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of (1 - gamma) <q, v> + <mu, r + gamma P v - v>, in mu [n] and in v [S], with q uniform."""
    n_states = len(d.rho)
    by_state = np.bincount(d.state, weights=mu, minlength=n_states)
    return d.r + d.gamma * d.P @ v - v[d.state], (1.0 - d.gamma) / n_states + d.gamma * d.P.T @ mu - by_state


@pytest.mark.parametrize("delta", [0.0, 0.3])
@pytest.mark.parametrize("shift", [None, "baseline"])
@EACH_PROBLEM
def test_the_two_gradients_are_unbiased(cmdp: ib.CMDP, shift: str | None, delta: float) -> None:
    """E grad_mu = grad L - M and E grad_v exact, at mu = p pi, to 1e-11; and xi moves with pi as it says.

    Each outcome is forced by the uniforms that lead to it, one step of the kernel is run by Python, and the gradient
    is read off what the step changed. The probabilities of the outcomes add up to one, so these are all of them.
    """
    alpha, beta = 0.01, 1e-3
    settings = ib.RandomizedPrimalDual(alpha=alpha, beta=beta, shift=shift, exploration=delta)
    before, constants, world, _ = prepared(cmdp, settings, 1000)
    rng, d, n, n_states = np.random.default_rng(3), dense(cmdp), cmdp.n_pairs, cmdp.n_states
    xi = rng.dirichlet(np.full(n_states, 2.0))
    before.tree[:n_states] = 3.7 * xi
    before.tree[n_states : constants.levels[1]] = 0.0
    assert len(constants.levels) == 2  # one node: the weights are the whole tree
    before.policy[:] = ib.Policy.from_occupancy(cmdp, rng.random(n) + 0.1).probabilities
    before.values[:, 0] = rng.uniform(0.2, 0.8, n_states) / (1.0 - d.gamma)
    before.baseline[0] = rng.normal()
    M = before.baseline[0] if shift == "baseline" else constants.steps.shift
    v, pi, theta = before.values[:, 0].copy(), before.policy.copy(), 1.0 - d.gamma
    p = (1.0 - theta) * xi + theta / n_states
    step = interpreted(advance)

    mean_mu, mean_v, mass = np.zeros(n), np.zeros(n_states), 0.0
    for k in range(n):
        s, first, last = d.state[k], *cmdp.offsets[d.state[k] : d.state[k] + 2]
        states = [
            (theta / n_states, theta * (s + 0.5) / n_states),
            ((1.0 - theta) * xi[s], theta + (1.0 - theta) * (xi[:s].sum() + xi[s] / 2)),
        ]
        actions = [((1.0 - delta) * pi[k], [(1.0 + delta) / 2] * (delta > 0.0) + [pi[first:k].sum() + pi[k] / 2])]
        if delta > 0.0:
            actions.append((delta / (last - first), [delta / 2, (k - first + 0.5) / (last - first)]))
        for state_probability, x in states:
            for action_probability, y in actions:
                for after in np.flatnonzero(d.P[k]):
                    probability = state_probability * action_probability * d.P[k, after]
                    if probability == 0.0:
                        continue
                    state = State(*(array.copy() for array in before))
                    uniforms = Uniforms(x, *y, np.cumsum(d.P[k])[after] - d.P[k, after] / 2)
                    assert step(state, constants, world, uniforms, 0, 1) == 1 and not uniforms.numbers
                    moved = state.tree[s] / before.tree[s]
                    growth = moved * state.policy[k] / pi[k]
                    excess = math.log(growth) / beta  # (Z - M) / (p zeta)
                    assert moved == pytest.approx(1.0 + pi[k] * (growth - 1.0), rel=1e-14)
                    others = [a for a in range(first, last) if a != k]
                    np.testing.assert_allclose(state.policy[others] * moved, pi[others], rtol=1e-14)
                    elsewhere = d.state != s
                    np.testing.assert_array_equal(state.policy[elsewhere], pi[elsewhere])
                    if shift == "baseline":  # the running mean of Z, used only from the next step on
                        zeta = (1.0 - delta) * pi[k] + delta / (last - first)
                        assert state.baseline[0] == pytest.approx(M + 1e-3 * p[s] * zeta * excess, abs=1e-12)
                    mean_mu[k] += probability * excess
                    mean_v += probability * (v - state.values[:, 0]) / alpha
                    mass += probability
    grad_mu, grad_v = lagrangian_gradients(d, p[d.state] * pi, v)
    assert mass == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(mean_mu, grad_mu - M, rtol=0.0, atol=1e-11)
    np.testing.assert_allclose(mean_v, grad_v, rtol=0.0, atol=1e-11)


def test_at_the_optimum_the_gradients_vanish() -> None:
    """The saddle point of the uniform start belongs to the best policy of any start: the q of our choice is harmless.

    At its occupancy and values: no state's flow is unbalanced, and no pair is worth more than its state.
    """
    cmdp = ragged(0)
    d, best = dense(cmdp), ib.solve(cmdp).policy
    uniform = ib.CMDP(
        offsets=cmdp.offsets,
        transition=cmdp.transition,
        reward=d.r,
        constraints=(),
        initial=np.full(cmdp.n_states, 1.0 / cmdp.n_states),
        discount=cmdp.discount,
    )
    choose = (np.arange(cmdp.n_states)[:, None] == d.state) * best.probabilities
    v = np.linalg.solve(np.eye(cmdp.n_states) - d.gamma * choose @ d.P, choose @ d.r)
    grad_mu, grad_v = lagrangian_gradients(d, ib.occupancy(uniform, best), v)
    np.testing.assert_allclose(grad_v, 0.0, atol=1e-12)
    reached = ib.occupancy(cmdp, best) > 0.0
    np.testing.assert_allclose(grad_mu[reached], 0.0, atol=1e-9)
    assert np.all(grad_mu <= 1e-9)
    assert ib.solve(uniform).reward == pytest.approx(ib.evaluate(uniform, best).reward, abs=1e-9)


def test_values_stay_in_their_box() -> None:
    cmdp = ragged(0)
    state, constants, world, rng = prepared(cmdp, ib.RandomizedPrimalDual(alpha=2.0), 2000)
    highest, touched = 1.0 / (1.0 - cmdp.discount), set()
    for until in range(1, 2001):
        advance(state, constants, world, rng, until - 1, until)
        values = state.values[:, 0]
        assert np.all((values >= 0.0) & (values <= highest))
        touched |= {edge for edge in (0.0, highest) if np.any(values == edge)}
    assert touched == {0.0, highest}


# ---- bookkeeping


@EACH_PROBLEM
@pytest.mark.parametrize(
    "settings",
    [
        ib.RandomizedPrimalDual(),
        ib.RandomizedPrimalDual(beta=1.0, shift=20.0),  # the weights of the states shrink to 1e-100 and are rescaled
        # Totals that grow by far more than 2^20 between two rescalings: a running sum of 1 / W would lose its digits.
        ib.RandomizedPrimalDual(beta=0.05, shift=0.0, exploration=0.3),
        ib.RandomizedPrimalDual.practical(),
    ],
    ids=["paper", "rescaled", "growing", "practical"],
)
def test_the_lazy_averages_equal_the_dense_ones_on_the_same_path(
    cmdp: ib.CMDP, settings: ib.RandomizedPrimalDual
) -> None:
    samples = 3001
    state, constants, world, rng = prepared(cmdp, settings, samples)
    total, occupancy, values = np.zeros(cmdp.n_pairs), np.zeros(cmdp.n_pairs), np.zeros(cmdp.n_states)
    steps, rescaled, theta = 0, 0, 1.0 - cmdp.discount
    for drawn in range(samples):
        if drawn == samples // 2 and settings.average == "second half":
            total[:], occupancy[:], values[:], steps = 0.0, 0.0, 0.0, 0
        weights = state.tree[: cmdp.n_states].sum()
        p = (1.0 - theta) * state.tree[: cmdp.n_states] / weights + theta / cmdp.n_states
        total += state.policy
        occupancy += p[cmdp.pairs.states] * state.policy
        values += state.values[:, 0]
        steps += 1
        assert advance(state, constants, world, rng, drawn, drawn + 1) == drawn + 1
        rescaled += state.tree[: cmdp.n_states].sum() > 1e50 * weights
        assert np.all(np.abs(cmdp.pairs.sum_by_state(state.policy) - 1.0) < 1e-14)
    assert state.steps.tolist() == [samples, steps]
    np.testing.assert_allclose(average_policy(state, cmdp), total / steps, rtol=0.0, atol=1e-12)
    averaged = average_occupancy(state, constants, cmdp)
    np.testing.assert_allclose(averaged, occupancy / steps, rtol=0.0, atol=1e-12)
    assert averaged.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(average_values(state), values / steps, rtol=0.0, atol=1e-12 / theta)
    assert (rescaled > 0) == (settings.shift == 20.0)


@EACH_PROBLEM
def test_the_first_steps_equal_the_dense_transcription(cmdp: ib.CMDP) -> None:
    """Path by path, before rounding drives the two apart."""
    for seed in range(3):
        state, constants, world, rng = prepared(cmdp, ib.RandomizedPrimalDual(), 10_000, seed)
        advance(state, constants, world, rng, 0, 200)
        theirs, occupancy, values = naive(
            cmdp,
            np.random.default_rng(seed),
            200,
            alpha=constants.steps.alpha,
            beta=constants.steps.beta,
            M=constants.steps.shift,
        )
        np.testing.assert_allclose(average_policy(state, cmdp), theirs, rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(average_occupancy(state, constants, cmdp), occupancy, rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(average_values(state), values, rtol=0.0, atol=1e-12)
        assert np.abs(theirs - ib.Policy.uniform(cmdp).probabilities).max() > 1e-3  # something was learned


def test_extreme_weights_stay_finite_and_positive() -> None:
    """Exponents of thousands a step: no zero, no infinity, no NaN, and rows that still sum to one."""
    for shift in (0.0, 1e4, "baseline"):
        state, constants, world, rng = prepared(QUEUE, ib.RandomizedPrimalDual(shift=shift, beta=1.0), 20_000)
        advance(state, constants, world, rng, 0, 20_000)
        assert np.all(np.isfinite(state.tree)) and np.all(state.tree[:6] > 0.0) and np.all(state.policy > 0.0)
        np.testing.assert_allclose(QUEUE.pairs.sum_by_state(average_policy(state, QUEUE)), 1.0, atol=1e-12)


# ---- runs


def totals(settings: ib.RandomizedPrimalDual, samples: int, seeds: range) -> np.ndarray:
    simulator = QUEUE.simulator()
    runs = (ib.learn(simulator, settings, samples=samples, seed=seed) for seed in seeds)
    return np.array([ib.evaluate(QUEUE, run.policy).total_reward for run in runs])


def test_the_paper_s_formulas_reproduce_a_measured_run() -> None:
    """An independent implementation's run of 200,000 samples ended at 5.17; ours have a spread of 0.026 about 5.161.

    It lies within 3 standard deviations of one run. False alarm: 0.3 %.
    """
    rows = totals(ib.RandomizedPrimalDual(), 200_000, range(20))
    assert abs(rows.mean() - 5.17) < 3.0 * rows.std(ddof=1)
    assert rows.std(ddof=1) < 0.05


def test_the_practical_preset_comes_close() -> None:
    """Optimum 5.659336. The mean over 5 seeds is within 0.02 after a million samples, every one within 0.05."""
    rows = totals(ib.RandomizedPrimalDual.practical(), 1_000_000, range(5))
    gaps = 5.659335557513892 - rows
    assert gaps.mean() < 0.02 and gaps.max() < 0.05 and gaps.min() > -1e-9


def test_states_that_no_start_reaches_are_learned_too() -> None:
    """The uniform q visits every state: the policy is near its best from each, not from the start only."""
    cmdp = ragged(0)
    policy = ib.learn(cmdp.simulator(), ib.RandomizedPrimalDual.practical(), samples=300_000).policy
    assert cmdp.initial[2] == 0.0
    for start in range(cmdp.n_states):
        there = ib.CMDP(
            offsets=cmdp.offsets,
            transition=cmdp.transition,
            reward=cmdp.reward,
            constraints=(),
            initial=np.eye(cmdp.n_states)[start],
            discount=cmdp.discount,
        )
        assert ib.solve(there).reward - ib.evaluate(there, policy).reward < 0.02 * np.ptp(cmdp.reward)


# ---- settings


def test_formulas() -> None:
    """At T = 200,000 on the queue: beta = 0.5 sqrt(log 97 / (192 T)), alpha = 6 / (2 * 0.25) beta, M = 2."""
    beta = 0.5 * math.sqrt(math.log(97.0) / (192.0 * 200_000))
    state, constants, _, _ = prepared(QUEUE, ib.RandomizedPrimalDual(), 200_000)
    assert constants.steps[:2] == pytest.approx((12.0 * beta, beta), rel=1e-14)
    assert constants.steps[2:] == (2.0, 0.0, 0.0, 0)
    assert np.all(state.tree[:6] == 1.0 / 6) and np.all(state.policy == 1.0 / 16) and not state.values.any()


def test_practical_preset_is_what_its_module_says() -> None:
    _, constants, _, _ = prepared(QUEUE, ib.RandomizedPrimalDual.practical(), 200_000)
    paper = formulas(6, 96, 0.5, 200_000)
    assert constants.steps[:2] == pytest.approx((0.3 * paper.alpha, 30.0 * paper.beta))
    assert constants.steps[2:] == (0.0, 1e-3, 0.1, 100_000)
    assert prepared(QUEUE, ib.RandomizedPrimalDual.practical(), 100)[1].steps.beta == 1.0 / 96
    assert prepared(QUEUE, ib.RandomizedPrimalDual.practical(beta=0.5), 100)[1].steps.beta == 0.5
    with pytest.raises(TypeError):
        ib.RandomizedPrimalDual.practical(kappa=0.0)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        (name, bad)
        for name, values in {
            "alpha": (0.0, -1.0, math.nan, math.inf, "1"),
            "beta": (0.0, -1.0, math.nan, math.inf, "1"),
            "shift": (-1.0, math.nan, math.inf, "mean", "7"),
            "exploration": (1.0, -0.1, math.nan, None, "0.1"),
            "alpha_multiplier": (0.0, -1.0, math.inf, None, "1"),
            "beta_multiplier": (0.0, -1.0, math.inf, None, "1"),
            "average": ("half", None, 2),
        }.items()
        for bad in values
    ],
)
def test_a_bad_setting_is_named(name: str, bad: object) -> None:
    with pytest.raises(ib.InvalidInput, match=rf"RandomizedPrimalDual: {name} must be .*, found "):
        ib.RandomizedPrimalDual(**{name: bad})


def test_what_the_paper_proves_of_a_run() -> None:
    """96 pairs and 1 - gamma = 1/2: S A / ((1 - gamma)^4 eps^2) is 38,400 for eps = .2, a sum of .1 per step."""

    def guarantee(settings: ib.RandomizedPrimalDual, samples: int) -> str:
        return prepare(settings, QUEUE.simulator(), samples, np.random.default_rng(0)).guarantee

    target = "within 0.1 of the reward's range per step of the optimum, by the order of its bound alone,"
    assert guarantee(ib.RandomizedPrimalDual(), 38_400).startswith(f"the paper's, from memory: {target} when all ")
    for few, said in ((1, "1 sample"), (38_399, "38,399 samples")):
        gap = f"none: the paper's theorem does not cover {said}: {target} takes 3.9e+04 of them"
        assert guarantee(ib.RandomizedPrimalDual(), few) == gap
    for other in (ib.RandomizedPrimalDual.practical(), ib.RandomizedPrimalDual(beta=0.1)):
        assert guarantee(other, 10**6).startswith("none: ")
