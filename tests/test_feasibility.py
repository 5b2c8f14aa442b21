"""Slater constants, and proofs that no policy is in bounds, checked from the model alone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import inbounds as ib
import naive
import reference
import strategies
from inbounds.exact.feasibility import infeasible
from inbounds.exact.limits import ITERATIONS, TIME
from inbounds.exact.methods import best_mixture
from inbounds.exact.optimum import Optimum
from test_solve import rescaled


def proved_bound(cmdp, proof):
    """What the prices and the value function of `proof` prove, in numpy, from the model.

    prices >= 0 and  V >= (1 - discount) prices.m + discount P V  at every pair  =>  prices.margins <= initial.V for
    every policy. A residual e of the inequality is repaired by adding e / (1 - discount) to V.
    """
    prices, values = proof.prices, proof.value_function
    assert np.all(prices >= 0.0)
    assert prices.sum() == pytest.approx(1.0, abs=1e-12)
    combined = prices @ cmdp.margins
    slack = values[cmdp.pairs.states] - (1 - cmdp.discount) * combined - cmdp.discount * (cmdp.transition @ values)
    residual = max(float(-slack.min()), 0.0)
    assert residual <= 1e-8 * float(prices @ cmdp.margin_scales)
    return float(cmdp.initial @ values) + residual / (1 - cmdp.discount)


def refusal(cmdp):
    with pytest.raises(ib.Infeasible) as raised:
        ib.solve(cmdp)
    return raised.value


# The Slater constant


@pytest.mark.parametrize("problem", reference.FEASIBLE)
def test_slater_constants_by_hand(problem):
    cmdp, *_, expected = problem()
    found = ib.slater(cmdp)
    assert found.value == pytest.approx(expected, abs=1e-12)
    assert found.upper_bound == pytest.approx(expected, abs=1e-12)


@given(strategies.cmdps(), st.booleans())
def test_slater_agrees_with_scipy_and_is_attained_and_proved(cmdp, scaled):
    assume(cmdp.n_constraints > 0)
    scales = cmdp.margin_scales if scaled else np.ones(cmdp.n_constraints)
    found = ib.slater(cmdp, scaled=scaled)
    largest = float(np.max(cmdp.margin_scales / scales))
    assert found.value == pytest.approx(naive.slater_lp(cmdp, scales), abs=1e-6 * largest)
    attained = [naive.value(cmdp, found.policy.probabilities, margin) for margin in cmdp.margins]
    assert found.value == pytest.approx(np.min(attained / scales), abs=1e-12 * largest)
    assert found.value - 1e-12 * largest <= found.upper_bound <= found.value + 1e-8 * largest
    by_scaled_margins = dataclasses.replace(found, prices=found.prices / scales / np.sum(found.prices / scales))
    factor = np.sum(found.prices / scales)
    proof = dataclasses.replace(by_scaled_margins, value_function=found.value_function / factor)
    assert proved_bound(cmdp, proof) * factor == pytest.approx(found.upper_bound, abs=1e-9 * largest)


@given(strategies.feasible(max_constraints=3), st.data())
def test_no_policy_keeps_more_than_the_slater_constant(drawn, data):
    cmdp = drawn.cmdp
    assume(cmdp.n_constraints > 0)
    found = ib.slater(cmdp)
    probabilities = data.draw(strategies.policy_probabilities(cmdp.offsets))
    least = min(naive.value(cmdp, probabilities, margin) for margin in cmdp.margins)
    assert least <= found.upper_bound + 1e-12 * float(np.max(cmdp.margin_scales))
    assert found.value >= drawn.slack - 1e-8 * float(np.max(cmdp.margin_scales))


def test_slater_without_constraints_is_infinite():
    found = ib.slater(reference.no_constraints().cmdp)
    assert found.value == found.upper_bound == np.inf
    assert found.prices.shape == (0,)
    assert repr(found) == "Slater(inf)"


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_slater_in_other_units(factor):
    cmdp = rescaled(ib.zoo.queue(), margins=[factor, factor])
    assert ib.slater(cmdp).value == pytest.approx(0.48 * factor, rel=1e-9)
    assert ib.slater(cmdp, scaled=True).value == pytest.approx(0.2, rel=1e-9)


# Infeasible problems


def test_a_conflict_by_hand():
    cmdp, slater, prices = reference.conflict()
    error = refusal(cmdp)
    assert error.slater == pytest.approx(slater, abs=1e-12)
    assert error.prices == pytest.approx(prices, abs=1e-12)
    assert error.conflict == ("apples", "pears")
    assert error.diagnosis.reason.endswith("constraints 'apples' and 'pears' cannot be met together")
    assert str(error) == str(error.diagnosis)
    assert proved_bound(cmdp, error) == pytest.approx(slater, abs=1e-12)


def test_only_the_constraints_that_conflict_are_named():
    """A third constraint with room to spare has no part in the proof; a bound beyond reach conflicts alone."""
    cmdp, _, _ = reference.conflict()
    idle = ib.Constraint(np.array([1.0, 1.0]), at_most=5.0, name="idle")
    assert refusal(dataclasses.replace(cmdp, constraints=(*cmdp.constraints, idle))).conflict == ("apples", "pears")
    apples, pears = cmdp.constraints
    greedy = dataclasses.replace(apples, at_least=1.5)
    alone = refusal(dataclasses.replace(cmdp, constraints=(greedy, dataclasses.replace(pears, at_least=-1.0))))
    assert alone.conflict == ("apples",)
    assert alone.diagnosis.reason.endswith("constraint 'apples' cannot be met by any policy")
    assert alone.diagnosis.best_alone[0] == pytest.approx(1.0, abs=1e-9)
    assert alone.diagnosis.relaxed_bounds[0] == pytest.approx(1.0, abs=1e-9)


@given(strategies.feasible(least_slack=1), st.integers(0, 2))
def test_the_relaxed_bounds_are_the_tightest_that_can_be_met(drawn, position):
    """Just beyond a relaxed bound the problem is infeasible, just before it is not; NaN when nothing helps."""
    cmdp = drawn.cmdp
    if cmdp.n_constraints == 0:
        return
    k = position % cmdp.n_constraints
    impossible = np.zeros(cmdp.n_constraints)
    impossible[k] = 10.0 * cmdp.margin_scales[k]
    broken = cmdp.tightened(impossible)
    diagnosis = refusal(broken).diagnosis
    assert diagnosis.names[k] in diagnosis.conflict
    constraint = broken.constraints[k]
    for step, feasible in ((1e-6, False), (-1e-6, True)):
        outward = step * cmdp.margin_scales[k]
        moved = diagnosis.relaxed_bounds[k] + (outward if constraint.at_least is not None else -outward)
        side = {"at_least": moved} if constraint.at_least is not None else {"at_most": moved}
        other = ib.Constraint(constraint.signal, name=constraint.name, **side)
        changed = dataclasses.replace(
            broken, constraints=(*broken.constraints[:k], other, *broken.constraints[k + 1 :])
        )
        if feasible:
            assert ib.solve(changed).in_bounds
        else:
            refusal(changed)
    best = [
        ib.solve(dataclasses.replace(cmdp, reward=c.margin(c.signal), constraints=())).reward
        for c in broken.constraints
    ]
    for c, alone, value in zip(broken.constraints, best, diagnosis.best_alone, strict=True):
        assert c.margin(value) == pytest.approx(alone, abs=1e-7)


def test_nothing_helps_alone_when_the_others_already_conflict():
    cmdp, _, _ = reference.conflict()
    idle = ib.Constraint(np.array([1.0, 1.0]), at_most=5.0, name="idle")
    diagnosis = refusal(dataclasses.replace(cmdp, constraints=(*cmdp.constraints, idle))).diagnosis
    assert np.isnan(diagnosis.relaxed_bounds).tolist() == [False, False, True]
    assert "does not help alone" in str(diagnosis)


@given(strategies.cmdps(), st.sampled_from([1e-6, 1e-3, 0.5]))
def test_bounds_beyond_the_slater_constant_are_refused_with_a_proof(cmdp, beyond):
    assume(cmdp.n_constraints > 0)
    reach = naive.slater_lp(cmdp, cmdp.margin_scales)
    harder = cmdp.tightened((reach + beyond) * cmdp.margin_scales)
    error = refusal(harder)
    bound = proved_bound(harder, error)
    assert bound < 0.0
    assert error.slater <= bound + 1e-12 * float(np.max(harder.margin_scales))
    assert error.slater < 0.0
    assert set(error.conflict) <= {constraint.name for constraint in harder.constraints}
    assert error.conflict
    if harder.n_states <= 3:
        for probabilities in naive.deterministic_policies(harder):
            combined = sum(
                price * naive.value(harder, probabilities, margin)
                for price, margin in zip(error.prices, harder.margins, strict=True)
            )
            assert combined <= bound + 1e-12 * float(np.max(harder.margin_scales))


@pytest.mark.parametrize("margins", [(1.0, 1e6), (1e6, 1.0), (1e6, 1e-3), (1e-3, 1e6), (1e6, 1e-6)])
def test_margins_of_very_different_sizes(margins):
    """Reading the full buffer as "closed" no policy is in bounds, in whatever units the constraints are given."""
    cmdp = rescaled(ib.zoo.queue(full_buffer="closed"), margins=margins)
    error = refusal(cmdp)
    assert proved_bound(cmdp, error) < 0.0
    feasible = ib.slater(rescaled(ib.zoo.queue(), margins=margins))
    assert feasible.value == pytest.approx(min(1.0 * margins[0], 0.48 * margins[1]), rel=1e-6)


@pytest.mark.parametrize(
    ("states", "actions", "successors", "which"),
    [
        (30, 4, 5, "alone"),
        (30, 4, 5, "beside another"),
        (300, 3, 5, "alone"),
        (300, 3, 5, "beside another"),
        (1000, 2, 3, "beside another"),
    ],
)
def test_a_bound_just_beyond_the_maximum(states, actions, successors, which):
    """0.1 % more than any policy reaches. On such programs HiGHS often answers "unknown", not "infeasible"."""
    cmdp = ib.zoo.garnet(
        states=states, actions=actions, successors=successors, constraints=1 if which == "alone" else 2, seed=1
    )
    first, *others = cmdp.constraints
    most = naive.best_value(cmdp, first.signal, 1e-12)
    beyond = dataclasses.replace(first, at_least=1.001 * most)
    cmdp = dataclasses.replace(cmdp, constraints=(beyond, *others))
    error = refusal(cmdp)
    bound = proved_bound(cmdp, error)
    assert bound < 0.0
    assert "signal 0" in error.conflict
    assert error.slater <= bound + 1e-12
    if which == "alone":
        assert error.slater == pytest.approx(-0.001 * most, rel=1e-6)
        assert bound == pytest.approx(-0.001 * most, rel=1e-4)


def test_just_within_the_maximum_is_solved():
    cmdp = ib.zoo.garnet(states=100, actions=3, constraints=1, seed=1)
    most = naive.best_value(cmdp, cmdp.constraints[0].signal, 1e-12)
    within = dataclasses.replace(cmdp.constraints[0], at_least=0.999999 * most)
    assert ib.solve(dataclasses.replace(cmdp, constraints=(within,))).in_bounds


def test_a_scaled_slater_constant_is_what_settings_accept() -> None:
    """A signal of 1 that can be had always: rounding took the constant to 1.0000000000000009."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        cmdp = ib.CMDP.from_dense(
            rng.dirichlet(np.ones(3), (3, 2)),
            reward=rng.random((3, 2)),
            constraints=[ib.Constraint(np.tile([1.0, 0.0], (3, 1)), at_least=0.0, name="always")],
            initial=np.ones(3) / 3,
            discount=0.9,
        )
        found = ib.slater(cmdp, scaled=True).value
        assert 1.0 - 1e-12 < found <= 1.0
        assert ib.CSPDA(slater=found).slater == found


@pytest.mark.slow
def test_bounds_that_are_printed_can_be_kept() -> None:
    """(Rounded to nearest, 58 of 97 were infeasible again.)"""
    followed = 0
    for seed in range(30):
        cmdp = ib.zoo.garnet(states=6, actions=3, seed=seed).tightened(0.3 if seed % 2 else 0.2)
        try:
            ib.solve(cmdp)
        except ib.Infeasible as error:
            for row, constraint in zip(str(error).splitlines()[3:], cmdp.constraints, strict=True):
                if "does not help" not in row:
                    bound = float(row.split()[-1])
                    ib.solve(cmdp.with_bound(constraint.name, **{constraint.side: bound}))
                    followed += 1
    assert followed >= 8


# A diagnosis within limits


def line() -> ib.CMDP:
    """Stay, or walk one on to the end of a line, which pays: to arrive one has to walk, and may hardly."""
    n_states = 40
    transition = np.zeros((n_states, 2, n_states))
    transition[range(n_states), 0, range(n_states)] = 1.0
    transition[range(n_states), 1, [min(s + 1, n_states - 1) for s in range(n_states)]] = 1.0
    end, walk = np.zeros((n_states, 2)), np.zeros((n_states, 2))
    end[-1], walk[:-1, 1] = 1.0, 1.0
    return ib.CMDP.from_dense(
        transition,
        reward=np.zeros((n_states, 2)),
        constraints=[ib.Constraint(end, at_least=0.5, name="arrives"), ib.Constraint(walk, at_most=0.1, name="walks")],
        initial=np.eye(n_states)[0],
        discount=0.99,
    )


@pytest.mark.parametrize("cut", [TIME, ITERATIONS])
def test_a_mixture_that_a_limit_cut_short_is_not_taken_for_the_best(cut: str) -> None:
    """Cut at each of its questions in turn: what is told is what is told without a limit, or not told."""
    cmdp = line()
    proof, whole = ib.slater(cmdp), refusal(cmdp).diagnosis
    assert not whole.each_alone and set(whole.conflict) == {"arrives", "walks"} and whole.complete
    for place in range(4):
        asked = 0

        def attempt(problem: ib.CMDP, place: int = place) -> Optimum:
            nonlocal asked
            found, _ = best_mixture(problem)
            asked += 1
            if asked <= place:
                return found
            stay = np.zeros(problem.n_pairs)
            stay[0] = 1.0
            return found._replace(occupancy=stay, status=cut)

        told = infeasible(cmdp, proof, attempt).diagnosis
        assert not told.complete and not told.each_alone and told.conflict == whole.conflict
        for own, sure in ((told.best_alone, whole.best_alone), (told.relaxed_bounds, whole.relaxed_bounds)):
            known = ~np.isnan(own)
            assert np.allclose(own[known], sure[known], rtol=1e-9)
        assert np.count_nonzero(~np.isnan(told.best_alone)) == (place + 1) // 2


@pytest.mark.parametrize("limit", [{"iterations": 1}, {"iterations": 4}, {"iterations": 8}, {"tolerance": 0.1}])
@pytest.mark.parametrize("seed", range(4))
def test_a_diagnosis_is_as_good_whatever_the_answer_would_have_to_be(seed: int, limit: dict[str, float]) -> None:
    rng, base = np.random.default_rng(seed), ib.zoo.garnet(states=60, seed=seed)
    free = base.asking(constraints=[ib.Constraint(rng.random(base.n_pairs), at_least=0.0, name=n) for n in "abc"])
    best = [ib.solve(free.asking(reward=c.signal, constraints=()), certificate=False).reward for c in free.constraints]
    clash = base.asking(
        constraints=[
            ib.Constraint(c.signal, at_least=(0.97 if k < 2 else 0.5) * own, name=c.name)
            for k, (c, own) in enumerate(zip(free.constraints, best, strict=True))
        ]
    )
    sure = refusal(clash).diagnosis
    try:
        ib.solve(clash, "bundle", **limit)
    except ib.Stopped:
        return
    except ib.Infeasible as error:
        told = error.diagnosis
    assert told.complete or "iterations" in limit
    for own, exact in ((told.best_alone, sure.best_alone), (told.relaxed_bounds, sure.relaxed_bounds)):
        known = ~np.isnan(own)
        assert told.complete <= bool(np.all(known == ~np.isnan(exact)))
        assert np.allclose(own[known], exact[known], rtol=1e-6)
