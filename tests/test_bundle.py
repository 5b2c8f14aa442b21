"""The level bundle against the linear program, and where problems degenerate."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inbounds as ib
import naive
from inbounds.criteria import criterion_of
from inbounds.exact.bundle import Bundle, slater_bundle
from strategies import cmdps


def solve(cmdp, method="bundle", **options):
    return ib.solve(cmdp, method, certificate=False, **options)


drawn = settings(deadline=None, max_examples=80, derandomize=True)

# algorithms.md, section 21: the paper's kappa (scaled) and the total reward of the conservative problem.
CONSERVATIVE = {
    0.0: 4.644858248633466,
    0.007489: 4.634188,
    0.02: 4.616362,
    0.05: 4.573619,
    0.1: 4.502361,
    0.15: 4.429394,
    0.2: 4.353550,
}


def assert_agree(cmdp, tolerance=1e-8):
    """Bundle and LP find the same optimum; the bundle's own bounds hold and are as close as they should be."""
    found, reference = solve(cmdp, "bundle", tolerance=tolerance), solve(cmdp, "lp")
    spread = float(np.ptp(cmdp.reward)) / 2 or 1.0
    allowed = tolerance * max(abs(reference.reward), 0.01 * spread)
    # Each may be out of bounds by what counts as rounding, and gains at most the price of that.
    rounding = 1e-9 * float(np.max(reference.prices * cmdp.margin_scales, initial=0.0)) + 1e-12 * spread
    assert found.in_bounds
    assert found.reward == pytest.approx(reference.reward, abs=allowed + rounding)
    assert found.upper_bound >= reference.reward - rounding
    assert found.gap <= allowed + rounding
    assert np.all(found.prices >= 0.0)
    # The bound is what prices and value function prove, and nothing else.
    priced = cmdp.reward + found.prices @ cmdp.margins
    excess = np.max(criterion_of(cmdp).backup(priced, found.value_function) - found.value_function[cmdp.pairs.states])
    proved = cmdp.initial @ found.value_function + max(excess, 0.0) / (1.0 - cmdp.discount)
    assert found.upper_bound == pytest.approx(proved, abs=1e-15 * max(1.0, abs(proved)))
    return found


@pytest.mark.parametrize("kappa", CONSERVATIVE)
def test_the_queue_and_its_conservative_versions(kappa):
    queue = ib.zoo.queue()
    found = assert_agree(queue.tightened(kappa * queue.margin_scales))
    assert found.total_reward == pytest.approx(CONSERVATIVE[kappa], abs=6e-7)
    assert found.method == "bundle"
    assert found.unconstrained_solves > 1


def test_the_queue_to_the_last_digits():
    best = solve(ib.zoo.queue(), tolerance=1e-9)
    assert best.total_reward == pytest.approx(4.644858248633466, abs=1e-8)
    # Section 21 gives them for the scaled margins: (0.096920, 0.045560), the second divided by 1.68 / 5.
    assert best.prices == pytest.approx([0.096920, 0.135595], abs=1e-6)
    assert best.gap <= 1e-9 * best.reward


@drawn
@given(cmdp=cmdps())
def test_drawn_problems(cmdp):
    assert_agree(cmdp)


@drawn
@given(cmdp=cmdps(max_states=3, max_actions=3, max_constraints=6))
def test_drawn_problems_with_many_constraints(cmdp):
    assert_agree(cmdp)


@drawn
@given(cmdp=cmdps(), scaled=st.booleans())
def test_slater_constants(cmdp, scaled):
    if cmdp.n_constraints == 0:
        return
    scales = cmdp.margin_scales if scaled else np.ones(cmdp.n_constraints)
    found = ib.slater(cmdp, scaled=scaled)
    largest = float(np.max(cmdp.margin_scales / scales))
    assert found.value == pytest.approx(naive.slater_lp(cmdp, scales), abs=1e-8 * largest)
    assert found.value - 1e-12 * largest <= found.upper_bound <= found.value + 1e-9 * largest
    assert found.prices.sum() == pytest.approx(1.0, abs=1e-12)
    assert np.all(found.prices >= 0.0)


@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("discount", [0.9, 0.99])
def test_garnets(ring, discount):
    cmdp = ib.zoo.garnet(states=150, actions=4, constraints=3, discount=discount, ring=ring, seed=4)
    found = assert_agree(cmdp)
    assert np.all(found.prices > 0.0)


def test_a_larger_garnet_certifies_itself():
    """Elimination or sweeps, dense or sparse evaluation: other code than in the small ones."""
    for ring in (False, True):
        cmdp = ib.zoo.garnet(states=1200, actions=4, constraints=2, discount=0.98, ring=ring, seed=7)
        found = solve(cmdp)
        assert found.in_bounds
        assert found.gap <= 1e-8 * found.reward
        assert found.occupancy.sum() == pytest.approx(1.0, abs=1e-12)


def test_twenty_constraints():
    assert_agree(ib.zoo.garnet(states=60, actions=5, constraints=20, seed=2))


def test_units_do_not_matter():
    """Rewards with a large offset, and constraints on scales far apart."""
    plain = ib.zoo.garnet(states=30, constraints=2, seed=9)
    first, second = plain.constraints
    other = dataclasses.replace(
        plain,
        reward=1000.0 + 1e-3 * plain.reward,
        constraints=(
            ib.Constraint(1e6 * first.signal, at_least=1e6 * first.bound, name="large"),
            ib.Constraint(-1e-6 * second.signal, at_most=-1e-6 * second.bound, name="small"),
        ),
    )
    best, same = solve(plain), solve(other, tolerance=1e-14)
    assert same.reward == pytest.approx(1000.0 + 1e-3 * best.reward, abs=2e-11)
    assert same.prices == pytest.approx(1e-3 * best.prices * [1e-6, 1e6], rel=1e-4)
    assert same.in_bounds


# Degenerate problems.


def one_state(constraints, reward=(1.0, 0.0), discount=0.5):
    size = len(reward)
    return ib.CMDP(
        offsets=[0, size],
        transition=np.ones((size, 1)),
        reward=reward,
        constraints=constraints,
        initial=[1.0],
        discount=discount,
    )


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.999])
def test_one_state(discount):
    best = solve(one_state([ib.Constraint([1.0, 0.0], at_most=0.25)], discount=discount))
    assert best.reward == pytest.approx(0.25, abs=1e-9)
    assert best.prices == pytest.approx([1.0], abs=1e-8)


def test_no_constraint():
    cmdp = ib.zoo.garnet(states=40, constraints=0, seed=1)
    found = assert_agree(cmdp)
    assert found.prices.shape == (0,)
    assert np.all(np.isin(found.policy.probabilities, [0.0, 1.0]))


def test_a_constraint_that_never_binds():
    queue = ib.zoo.queue()
    idle = ib.Constraint(np.ones(queue.n_pairs), at_most=3.0, name="idle")
    found = assert_agree(dataclasses.replace(queue, constraints=(*queue.constraints, idle)))
    assert found.prices[2] == 0.0
    assert found.margins[2] == pytest.approx(2.0, abs=1e-12)
    assert found.reward == pytest.approx(solve(queue).reward, abs=1e-7)


def test_a_signal_that_is_zero_throughout():
    idle = ib.Constraint([0.0, 0.0], at_least=0.0, name="nothing")
    assert solve(one_state([idle])).reward == pytest.approx(1.0, abs=1e-9)


def test_duplicate_constraints():
    queue = ib.zoo.queue()
    twice = tuple(dataclasses.replace(c, name=f"{c.name} again") for c in queue.constraints)
    found = assert_agree(dataclasses.replace(queue, constraints=queue.constraints + twice))
    assert found.prices[:2] + found.prices[2:] == pytest.approx(solve(queue).prices, abs=1e-5)


@pytest.mark.parametrize("discount", [0.0, 0.9])
def test_a_constraint_that_only_one_policy_meets(discount):
    cmdp = one_state([ib.Constraint([0.25, 0.5, 1.0], at_least=1.0)], reward=(1.0, 0.5, 0.25), discount=discount)
    assert ib.slater(cmdp).value == pytest.approx(0.0, abs=1e-12)
    best = solve(cmdp)
    assert best.reward == pytest.approx(0.25, abs=1e-9)
    assert best.policy.probabilities == pytest.approx([0.0, 0.0, 1.0], abs=1e-9)


def test_bounds_that_are_the_best_achievable():
    """The Slater constant is zero up to rounding, on a problem where many policies are close to it."""
    cmdp = ib.zoo.garnet(states=40, constraints=1, seed=6)
    edge = cmdp.tightened(ib.slater(cmdp).value)
    best = solve(edge)
    assert best.in_bounds
    only = ib.evaluate(edge, ib.slater(cmdp).policy)
    assert best.reward >= only.reward - 1e-6


def test_a_constant_reward():
    cmdp = dataclasses.replace(ib.zoo.queue(), reward=np.full(96, 2.0))
    best = solve(cmdp)
    assert best.reward == pytest.approx(2.0, abs=1e-12)
    assert best.in_bounds


def test_unreachable_states_are_greedy_at_the_prices():
    """State 1 is never visited; from there, the second action earns more, and the first nothing."""
    cmdp = ib.CMDP(
        offsets=[0, 2, 4],
        transition=[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]],
        reward=[1.0, 0.0, 0.0, 0.5],
        constraints=[ib.Constraint([1.0, 0.0, 0.0, 0.0], at_most=0.25)],
        initial=[1.0, 0.0],
        discount=0.9,
    )
    best = solve(cmdp)
    assert best.policy.probabilities == pytest.approx([0.25, 0.75, 0.0, 1.0], abs=1e-8)
    priced = cmdp.reward + best.prices @ cmdp.margins
    assert np.argmax(criterion_of(cmdp).backup(priced, best.value_function)[2:]) == 1


def test_large_prices():
    """A gain of 1 for a violation of 1e-5: the price is far beyond the first cap."""
    cmdp = one_state([ib.Constraint([-1e-5, 1e-3, -1.0], at_least=0.0)], reward=(1.0, 0.0, -1.0))
    best = solve(cmdp)
    assert best.reward == pytest.approx(1.0 - 1e-5 / (1e-3 + 1e-5), abs=1e-8)
    assert best.in_bounds


@pytest.mark.parametrize("beyond", [1e-6, 1e-3, 0.1, 10.0])
def test_infeasible_problems(beyond):
    queue = ib.zoo.queue()
    edge = 0.2 * queue.margin_scales
    with pytest.raises(ib.Infeasible) as raised:
        solve(queue.tightened(edge + beyond * queue.margin_scales))
    error = raised.value
    cmdp = queue.tightened(edge + beyond * queue.margin_scales)
    assert error.slater == pytest.approx(ib.slater(cmdp).value, abs=1e-12)
    assert error.slater < 0.0
    combined = error.prices @ cmdp.margins
    excess = criterion_of(cmdp).backup(combined, error.value_function) - error.value_function[cmdp.pairs.states]
    assert cmdp.initial @ error.value_function + max(excess.max(), 0.0) / (1.0 - cmdp.discount) < 0.0


def test_infeasible_and_large():
    cmdp = ib.zoo.garnet(states=1000, actions=4, seed=3)
    with pytest.raises(ib.Infeasible):
        solve(cmdp.tightened(1.001 * ib.slater(cmdp).value))
    solve(cmdp.tightened(0.999 * ib.slater(cmdp).value))


# The interface.


def bundle_of(cmdp):
    return Bundle(criterion_of(cmdp), cmdp.reward, cmdp.margins, cmdp.margin_scales)


def test_at_most_one_policy_more_than_constraints_is_mixed():
    cmdp = ib.zoo.garnet(states=400, actions=4, constraints=3, seed=8)
    found = bundle_of(cmdp).solve()
    assert found is not None
    taken = cmdp.pairs.sum_by_state((found.occupancy > 0.0).astype(float))
    assert taken.max() <= 4
    assert found.occupancy.sum() == pytest.approx(1.0, abs=1e-12)
    scales = cmdp.margin_scales
    assert slater_bundle(criterion_of(cmdp), cmdp.margins, scales, scales).unconstrained_solves > 1


def test_progress_reports_bounds_that_close():
    reports = []
    best = solve(ib.zoo.queue(), progress=lambda *report: reports.append(report))
    solves, lowers, uppers = (np.array(column) for column in zip(*reports, strict=True))
    assert np.array_equal(solves, np.arange(1, best.unconstrained_solves + 1))
    assert np.all(np.diff(uppers) <= 0.0)
    assert lowers[0] == -np.inf  # the best unconstrained policy is out of bounds
    assert np.all(lowers <= best.upper_bound + 1e-12)
    assert np.all(uppers >= best.reward - 1e-12)
    assert uppers[-1] - lowers[-1] <= 1e-8 * best.reward


@pytest.mark.parametrize("tolerance", [1e-2, 1e-5])
def test_a_loose_tolerance_is_kept_and_saves_solves(tolerance):
    cmdp = ib.zoo.garnet(states=200, constraints=2, seed=5)
    loose, tight = solve(cmdp, tolerance=tolerance), solve(cmdp)
    assert loose.gap <= tolerance * loose.upper_bound
    assert loose.reward <= tight.upper_bound
    assert tight.reward <= loose.upper_bound
    assert loose.unconstrained_solves < tight.unconstrained_solves


@pytest.mark.parametrize("tolerance", [0.0, -1.0, np.nan, np.inf])
def test_wrong_tolerances_are_refused(tolerance):
    what = "finite number" if tolerance == np.inf else "number"
    with pytest.raises(ib.InvalidInput, match=f"tolerance must be a {what} above 0"):
        solve(ib.zoo.queue(), tolerance=tolerance)


def test_the_same_bits_every_time():
    cmdp = ib.zoo.garnet(states=80, seed=2)
    once, again = solve(cmdp), solve(cmdp)
    assert np.array_equal(once.policy.probabilities, again.policy.probabilities)
    assert once.upper_bound == again.upper_bound
