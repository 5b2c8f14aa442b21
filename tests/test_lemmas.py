"""The lemmas and the steps of the paper's proofs, in numbers: each inequality at random points, each slip by example.

What holds for every point is tried at random ones, in exact expectation where it speaks of one. Scaled units: reward in
[0, 1], margins in [-1, 1]; lam sums to 1 and v is not normalised, as in the paper.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms.cspda import PROOF_CONSTANT
from naive_cspda import Dense, dense, gradients, lagrangian, project, ragged

QUEUE = ib.zoo.queue()
PROBLEMS = {"queue": QUEUE, "garnet": ib.zoo.garnet(states=8, actions=3, successors=3)}
PHI = {name: ib.slater(cmdp, scaled=True).value for name, cmdp in PROBLEMS.items()}


def flow(d: Dense, lam: np.ndarray) -> np.ndarray:
    """sum_a (gamma P_a^T - I) lam_a + (1 - gamma) rho, [S]."""
    return d.gamma * lam @ d.P - np.bincount(d.state, lam, len(d.rho)) + (1.0 - d.gamma) * d.rho


def saddle(name: str, kappa: float) -> tuple[Dense, np.ndarray, np.ndarray, np.ndarray]:
    """lam, u and v of the conservative problem's optimum."""
    cmdp, d = PROBLEMS[name], dense(PROBLEMS[name])
    best, span = ib.solve(cmdp.tightened(kappa * cmdp.margin_scales), method="lp"), np.ptp(cmdp.reward)
    prices = best.prices * cmdp.margin_scales / span
    # The solver's value is that of r + u (g - kappa); the paper's v leaves kappa to the term beside it.
    values = ((best.value_function - cmdp.reward.min()) / span + kappa * prices.sum()) / (1.0 - d.gamma)
    return d, np.asarray(best.occupancy), prices, values


def kl(lam: np.ndarray, other: np.ndarray) -> float:
    return float(np.sum(lam * np.log(lam / other)))


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("share", [0.0, 0.25, 0.5])
def test_lemma_1_the_optimal_duals_are_bounded(name: str, share: float) -> None:
    phi = PHI[name]
    d, lam, u, v = saddle(name, share * phi)
    assert u.sum() <= 2.0 / phi and np.abs(v).max() <= (1.0 + 2.0 / phi) / (1.0 - d.gamma)
    # They are the duals: v is the best value of r + u.g, so no entry of the gradient in lam is positive, and where lam
    # is it is zero. The printed proof has it zero everywhere, which is wrong.
    grad_lam, grad_u, grad_v = gradients(d, lam, u, v, share * phi)
    assert np.all(grad_lam <= 1e-8) and np.all(np.abs(grad_lam[lam > 1e-6]) <= 1e-7) and grad_lam.min() < -0.01
    assert np.all(grad_u >= -1e-8) and np.abs(u @ grad_u) <= 1e-8 and np.abs(grad_v).max() <= 1e-8


def test_lemma_2_the_duality_gap_is_the_mean_of_two_terms() -> None:
    """L is linear in each argument, so the printed inequality is an equality, with the gradients in their places."""
    d, rng, kappa, steps = dense(ragged(2)), np.random.default_rng(0), 0.03, 5
    n, n_states = d.P.shape
    lams, us, vs = (
        rng.dirichlet(np.ones(n), steps),
        rng.exponential(size=(steps, 2)),
        rng.normal(size=(steps, n_states)),
    )
    best, u, v = rng.dirichlet(np.ones(n)), rng.exponential(size=2), rng.normal(size=n_states)
    terms = 0.0
    for lam_t, u_t, v_t in zip(lams, us, vs, strict=True):
        grad_lam, grad_u, grad_v = gradients(d, lam_t, u_t, v_t, kappa)
        terms += grad_lam @ (best - lam_t) + grad_u @ (u_t - u) + grad_v @ (v_t - v)
    gap = lagrangian(d, best, us.mean(axis=0), vs.mean(axis=0), kappa) - lagrangian(d, lams.mean(axis=0), u, v, kappa)
    assert gap == pytest.approx(terms / steps, abs=1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
def test_lemma_3_tightening_costs_at_most_kappa_over_phi(name: str) -> None:
    phi, (d, lam, _, _) = PHI[name], saddle(name, 0.0)
    for share in (0.1, 0.3, 0.5):
        _, tightened, _, _ = saddle(name, share * phi)
        assert -1e-9 <= lam @ d.r - tightened @ d.r <= share


def test_lemma_4_a_step_of_the_occupancy() -> None:
    """Any gradient that is nowhere positive (what the shift M is for), here with one entry as sampled."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        n, beta = int(rng.integers(2, 9)), rng.exponential()
        now, other = rng.dirichlet(np.ones(n), 2)
        estimated, true = np.zeros(n), rng.normal(size=n)
        estimated[rng.integers(n)] = -10.0 * rng.exponential()
        after = now * np.exp(beta * estimated) / np.sum(now * np.exp(beta * estimated))
        bound = (kl(other, now) - kl(other, after)) / beta + beta / 2.0 * now @ estimated**2
        assert true @ (other - now) <= bound + (estimated - true) @ (now - other) + 1e-9


def test_lemma_4_needs_the_shift() -> None:
    """exp(x) <= 1 + x + x^2 / 2 holds for x <= 0 only: with a large positive entry the inequality fails."""
    now, other, estimated, beta = np.array([0.01, 0.99]), np.array([0.5, 0.5]), np.array([8.0, 0.0]), 1.0
    after = now * np.exp(beta * estimated) / np.sum(now * np.exp(beta * estimated))
    bound = (kl(other, now) - kl(other, after)) / beta + beta / 2.0 * now @ estimated**2
    assert estimated @ (other - now) > bound


def test_the_mirror_step_before_normalising_has_minus_one_in_its_exponent() -> None:
    """The printed solution has +1, which a wrong sign in the derivative gives; normalising takes either away."""
    rng, beta = np.random.default_rng(2), 0.7
    now, gradient = rng.dirichlet(np.ones(5)), -rng.exponential(size=5)

    def objective(lam: np.ndarray) -> float:
        return float(gradient @ (lam - now) - np.sum(lam * np.log(lam / now)) / beta)

    right, printed = now * np.exp(beta * gradient - 1.0), now * np.exp(beta * gradient + 1.0)
    assert all(objective(right) >= objective(right * rng.uniform(0.9, 1.1, 5)) for _ in range(200))
    assert objective(right) > objective(printed) + 0.1
    np.testing.assert_allclose(right / right.sum(), printed / printed.sum(), rtol=1e-14)


def test_lemma_5_a_step_of_the_duals() -> None:
    """Prices onto { u >= 0, sum <= R } and values onto their box: projections, so no point of the set gets farther."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        n_prices, n_states, alpha, radius, cap = 3, 4, rng.exponential(), 4.0 * rng.exponential(), rng.exponential()
        estimated, true = rng.normal(size=(2, 7))
        now, other = (
            np.concatenate([project(3.0 * rng.normal(size=n_prices), radius), rng.uniform(-cap, cap, n_states)])
            for _ in range(2)
        )
        moved = now - alpha * estimated
        after = np.concatenate([project(moved[:n_prices], radius), np.clip(moved[n_prices:], -cap, cap)])
        nearer = np.sum((now - other) ** 2) - np.sum((after - other) ** 2) + alpha**2 * np.sum(estimated**2)
        assert true @ (now - other) <= nearer / (2.0 * alpha) + (true - estimated) @ (now - other) + 1e-9


def test_lemma_6_as_printed_is_false_by_a_factor_of_two_and_its_use_is_right() -> None:
    """On [-D, D] with omega = x^2 / 2 <= D^2 / 2: Z = +-1 and x = D sign(Z) give E[Z x] = D, above the printed D / 2.

    With D in the place of D / 2 it holds, by Cauchy and Schwarz: E <sum Z, x> <= D E|sum Z| <= D sqrt(sum E Z^2). The
    paper's bound on T_6 has D, not half of it, so the theorem stands.
    """
    reach = Fraction(3)
    found = sum(Fraction(1, 2) * z * (reach * z) for z in (-1, 1))
    assert found == reach > reach / 2
    for number in range(1, 9):  # signs Z_1..Z_n, all equally likely, and the worst x for each: E|Z_1 + ... + Z_n| D
        mean = sum(Fraction(math.comb(number, up), 2**number) * abs(2 * up - number) for up in range(number + 1))
        assert float(reach * mean) <= float(reach) * math.sqrt(number)


def second_moments(d: Dense, lam: np.ndarray, u: np.ndarray, v: np.ndarray, delta: float, kappa: float, shift: float):
    """E sum lam Delta^2, E |grad_u|^2 and E |grad_v|^2 of sampled gradients, over every pair, successor and start."""
    zeta = (1.0 - delta) * lam + delta / len(lam)
    moments = np.zeros(3)
    for k, s in enumerate(d.state):
        for after in np.flatnonzero(d.P[k]):
            z = d.r[k] + d.gamma * v[after] - v[s] + u @ d.g[k] - shift
            weight = lam[k] / zeta[k]
            drift = np.zeros(len(v))
            drift[after] += d.gamma * weight
            drift[s] -= weight
            of_v = np.sum(drift**2) + 2.0 * (1 - d.gamma) * d.rho @ drift + (1 - d.gamma) ** 2
            of_u = np.sum((weight * d.g[k] - kappa) ** 2)
            moments += zeta[k] * d.P[k, after] * np.array([lam[k] * (z / zeta[k]) ** 2, of_u, of_v])
    return moments


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_terms_of_theorem_1(name: str) -> None:
    """T_1..T_6 one by one, at random points of the sets, in exact expectation; their sum is the proof's constant."""
    d, phi, rng = dense(PROBLEMS[name]), PHI[name], np.random.default_rng(4)
    (n, n_states), n_prices = d.P.shape, d.g.shape[1]
    scale = 1.0 / ((1.0 - d.gamma) * phi)
    shift = 4.0 * (1.0 / phi + 1.0 / (1.0 - d.gamma) + 2.0 * scale)
    cap = 2.0 * (1.0 + 2.0 / phi) / (1.0 - d.gamma)
    for _ in range(20):
        lam = rng.dirichlet(np.full(n, rng.choice([0.05, 1.0])))
        u = 4.0 / phi * rng.dirichlet(np.ones(n_prices))
        v = cap * rng.choice([-1.0, 1.0], size=n_states)
        of_lam, of_u, of_v = second_moments(d, lam, u, v, rng.uniform(0.01, 0.5), rng.uniform(0.0, 1.0), shift)
        assert of_lam / 2.0 <= 1024.0 * n * scale**2
        assert (of_u + of_v) / 2.0 <= 37.0 / 2.0 * n_prices
        assert u @ u + v @ v <= 52.0 * n_states * scale**2  # D^2 of T_6
        assert kl(np.maximum(lam, 1e-300), np.full(n, 1.0 / n)) <= math.log(n) + 1e-12
        pair = rng.choice(n)
        assert d.r[pair] + d.gamma * v.max() - v.min() + u @ d.g[pair] - shift <= 1e-9  # Delta <= 0, which M is for
    assert (
        64.0 / phi**2 + 16.0 * n_states * ((1.0 + 2.0 / phi) / (1.0 - d.gamma)) ** 2
    ) / 2.0 <= 104 * n_states * scale**2
    assert 2.0 * math.sqrt(13.0 * 37.0) <= 48.0
    assert PROOF_CONSTANT == 1 + 1024 + 104 + 37 / 2 + 48


@pytest.mark.parametrize("name", PROBLEMS)
def test_theorem_4_what_a_small_penalised_gap_implies(name: str) -> None:
    """Beck's theorem on the conservative problem, at random lam, with the paper's constants: gap, margins, flow."""
    phi, rng = PHI[name], np.random.default_rng(5)
    kappa = 0.5 * phi
    d, best, u, v = saddle(name, kappa)
    c1, c2 = 4.0 / phi, 2.0 * (1.0 + 2.0 / phi) / (1.0 - d.gamma)
    assert c1 >= 2.0 * u.sum() and c2 >= 2.0 * np.abs(v).max()
    for weight in np.linspace(0.0, 1.0, 21):
        lam = (1.0 - weight) * best + weight * rng.dirichlet(np.full(len(best), 0.1))
        short = max(0.0, float(np.max(kappa - d.g.T @ lam)))
        residual = float(np.abs(flow(d, lam)).sum())
        penalised = (best - lam) @ d.r + c1 * short + c2 * residual
        assert penalised >= -1e-9 and (best - lam) @ d.r <= penalised + 1e-9
        assert short <= 2.0 * penalised / c1 + 1e-9 and residual <= 2.0 * penalised / c2 + 1e-9


@pytest.mark.parametrize("name", PROBLEMS)
def test_theorem_3_an_occupancy_that_nearly_flows_has_nearly_the_values_of_its_policy(name: str) -> None:
    """|<lam, x> - J_x(pi_lam)| <= residual / (1 - gamma) max|x|, which takes the theorem from lam to its policy."""
    cmdp, rng = PROBLEMS[name], np.random.default_rng(6)
    d = dense(cmdp)
    low, span = cmdp.reward.min(), np.ptp(cmdp.reward)
    for weight in (0.001, 0.03, 1.0):
        exact = np.asarray(ib.occupancy(cmdp, ib.Policy.uniform(cmdp)))
        lam = (1.0 - weight) * exact + weight * rng.dirichlet(np.ones(len(exact)))
        values = ib.evaluate(cmdp, ib.Policy.from_occupancy(cmdp, lam))
        off = np.array([lam @ d.r - (values.reward - low) / span, *(d.g.T @ lam - values.margins / cmdp.margin_scales)])
        assert np.all(np.abs(off) <= np.abs(flow(d, lam)).sum() / (1.0 - d.gamma) + 1e-12) and np.abs(off).max() > 0.0
