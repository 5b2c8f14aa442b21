"""Small changes of a policy, and the optimum along moving bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import inbounds as ib
import naive
from inbounds.criteria import criterion_of
from inbounds.exact.bundle import Bundle
from inbounds.exact.nearby import Nearby, combine
from inbounds.exact.path import Path
from inbounds.numerics.compiled import interpreted

drawn = settings(deadline=None, max_examples=100, derandomize=True)


def solve(cmdp, method="bundle", **options):
    return ib.solve(cmdp, method, certificate=False, **options)


# Few distinct values, so that ties are common.
quarters = st.integers(-4, 4).map(lambda count: count / 4)


@st.composite
def programs(draw):
    n_constraints = draw(st.integers(0, 3))
    n_changes = draw(st.integers(0 if n_constraints else 1, 8))
    numbers = st.lists(quarters, min_size=n_constraints, max_size=n_constraints).map(np.array)
    effects = np.array([[draw(quarters), *draw(numbers)] for _ in range(n_changes)]).reshape(-1, n_constraints + 1)
    groups = np.sort(np.array(draw(st.lists(st.integers(0, 3), min_size=n_changes, max_size=n_changes)), dtype=int))
    lowest = np.abs(draw(numbers)).astype(float)
    return effects, groups, draw(numbers).astype(float), lowest, lowest + np.abs(draw(numbers)) + 0.25


@drawn
@given(programs())
def test_changes_are_combined_as_the_linear_program_says(program):
    effects, groups, margins, lowest, highest = program
    prices, gain, shares = combine(*program)
    # Columns: shares of changes; how far margins are below zero, at the highest price; and above, at the lowest.
    n_changes, n_constraints = len(effects), len(margins)
    identity = np.eye(n_constraints)
    by_group = (groups == np.unique(groups)[:, None]).astype(float) if n_changes else np.empty((0, 0))
    best = linprog(
        -np.concatenate([effects[:, 0], -highest, lowest]),
        A_eq=np.hstack([effects[:, 1:].T, identity, -identity]) if n_constraints else None,
        b_eq=-margins if n_constraints else None,
        A_ub=np.hstack([by_group, np.zeros((len(by_group), 2 * n_constraints))]) if n_changes else None,
        b_ub=np.ones(len(by_group)) if n_changes else None,
    )
    optimum = -best.fun
    assert gain == pytest.approx(optimum, abs=1e-10)
    assert np.all((lowest <= prices) & (prices <= highest))
    assert np.all(shares >= 0.0) and np.all(by_group @ shares <= 1.0 + 1e-12)
    kept = margins + effects[:, 1:].T @ shares
    reached = effects[:, 0] @ shares + np.sum(np.where(kept > 0.0, lowest, highest) * kept)
    assert reached == pytest.approx(optimum, abs=1e-10)
    # The prices prove it.
    worth = effects[:, 0] + effects[:, 1:] @ prices
    proved = margins @ prices + sum(max(0.0, worth[groups == group].max()) for group in np.unique(groups))
    assert proved == pytest.approx(optimum, abs=1e-10)


@pytest.mark.parametrize("seed", range(20))
def test_a_side_of_a_wide_box_does_not_replace_itself(seed):
    """A price of zero could come out as -1e-12 next to one of 1e11: its side seemed violated, round after round."""
    rng = np.random.default_rng(seed)
    loss, missed, kept = rng.uniform(1e-8, 1e-7, size=3)
    margins = np.array([rng.uniform(1.0, 2.0), -missed])
    effects = np.array([[-loss, 0.0, missed + kept]])
    prices, gain, shares = combine(effects, np.zeros(1, dtype=int), margins, np.zeros(2), np.full(2, 1e11))
    assert shares == pytest.approx([missed / (missed + kept)], rel=1e-9)
    assert prices == pytest.approx([0.0, loss / (missed + kept)], rel=1e-6)
    assert gain == pytest.approx(-loss * missed / (missed + kept), rel=1e-6)


@settings(deadline=None, max_examples=20, derandomize=True)
@given(programs())
def test_the_twin_has_the_same_bits(program):
    for ours, theirs in zip(combine(*program), interpreted(combine)(*program), strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("ring", [False, True])
def test_what_a_small_change_is_worth(ring):
    """To first order in its probability, by evaluating the changed policy; with elimination, and with sweeps."""
    cmdp = ib.zoo.garnet(states=60, actions=3, constraints=2, seed=3, ring=ring, discount=0.99 if ring else 0.9)
    criterion, prices = criterion_of(cmdp), np.array([0.4, 0.3])
    reward = cmdp.reward + prices @ cmdp.margins
    found = criterion.solve(reward, 1e-13, keep_backups=True)
    time = criterion.time(found, 1e-15)
    nearby = Nearby(criterion, found, time, cmdp.margins, prices, np.array([100.0, 100.0]))
    assert (found.factors is not None) == ring
    assert len(nearby._entries) == 120  # so wide that every other action could pay
    step = 1e-5
    base = np.zeros(cmdp.n_pairs)
    base[found.chosen] = 1.0
    signals = [cmdp.reward, *cmdp.margins]
    accuracy = 1e-3 if ring else 0.02  # by sweeps, the value functions of the margins are rough
    for pair, state, effect in zip(nearby._entries[::9], nearby._places[::9], nearby._effects[::9], strict=True):
        changed = base.copy()
        changed[found.chosen[state]] -= step
        changed[pair] += step
        slopes = [(naive.value(cmdp, changed, s) - naive.value(cmdp, base, s)) / step for s in signals]
        assert effect == pytest.approx(slopes, abs=accuracy * float(np.max(np.abs(slopes))))


def path_of(cmdp):
    return Path(criterion_of(cmdp), cmdp.reward, cmdp.margins, cmdp.margin_scales)


def judged(cmdp, found):
    """Margins in bounds, and a proven gap; the bounds on the optimum."""
    assert np.all(cmdp.margins @ found.occupancy >= -1e-9 * cmdp.margin_scales)
    assert found.occupancy.sum() == pytest.approx(1.0, abs=1e-9)
    assert np.all(found.prices >= 0.0)
    return float(found.occupancy @ cmdp.reward), float(cmdp.initial @ found.value_function)


@pytest.mark.parametrize(("ring", "discount"), [(True, 0.97), (False, 0.9)])
def test_moving_bounds_changes_nothing_but_the_work(ring, discount):
    cmdp = ib.zoo.garnet(states=600, actions=4, seed=12, ring=ring, discount=discount)
    moves = np.array([[0.0, 0.0], [1e-3, 0.0], [1e-3, -2e-3], [3e-3, -2e-3], [-1e-3, 1e-3]])
    path = path_of(cmdp)
    warm, cold_solves = path.follow(moves, 1e-8), 0
    for amounts, found in zip(moves, warm, strict=True):
        there = cmdp.tightened(amounts)
        cold = Bundle(criterion_of(there), there.reward, there.margins, there.margin_scales).solve(1e-8)
        cold_solves += cold.unconstrained_solves
        (reward, upper), (same, also) = judged(there, found), judged(there, cold)
        assert max(reward, same) <= min(upper, also) + 1e-9
        assert upper - reward <= 1.01e-8 * upper
    assert path.unconstrained_solves < 0.5 * cold_solves


def test_a_path_finds_its_first_place_with_several_constraints():
    cmdp = ib.zoo.garnet(states=800, actions=5, constraints=5, seed=2)
    path = path_of(cmdp)
    (found,) = path.follow([np.zeros(5)], 1e-7)
    (reward, upper), best = judged(cmdp, found), solve(cmdp, tolerance=1e-7)
    assert max(reward, best.reward) <= min(upper, best.upper_bound) + 1e-9
    assert upper - reward <= 1.01e-7 * upper
    assert path.unconstrained_solves < best.unconstrained_solves


def test_bounds_that_cannot_be_kept_are_not():
    queue = ib.zoo.queue()
    path = path_of(queue)
    beyond = 0.3 * queue.margin_scales
    possible, impossible = path.follow([np.zeros(2), beyond], 1e-8)
    assert judged(queue, possible)[0] == pytest.approx(solve(queue).reward, rel=1e-8)
    assert impossible is None


def test_no_bounds_at_all():
    cmdp = ib.zoo.garnet(states=40, constraints=0, seed=1)
    (found,) = path_of(cmdp).follow([np.zeros(0)], 1e-9)
    assert judged(cmdp, found)[0] == pytest.approx(solve(cmdp).reward, rel=1e-9)


def test_along_nothing():
    assert path_of(ib.zoo.queue()).follow([], 1e-6) == []
