"""Hostile problems: extreme units, hardly any room, costs where nothing leads, margins of exactly zero."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import inbounds as ib
from families import FAMILIES, extreme_units, tiny_slater, unreachable_costs, zero_margins
from inbounds.exact import bundle as bundle_module
from inbounds.proofs.files import save_certificate
from inbounds.proofs.known_model import certify_infeasible
from inbounds.proofs.verify import verify


@pytest.mark.parametrize("method", ["auto", "bundle"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_member_is_solved_with_a_proof(family, method):
    make, known = FAMILIES[family]
    for seed in range(20):
        cmdp = make(seed)
        if known == "infeasible":
            with pytest.raises(ib.Infeasible) as caught:
                ib.solve(cmdp, method)
            assert certify_infeasible(caught.value, cmdp).infeasible, seed
            continue
        best = ib.solve(cmdp, method)
        assert best.certificate.in_bounds and best.in_bounds, (seed, best.certificate.verdict)
        assert best.status in ("optimal", "stalled"), seed
        assert best.certificate.reward_lower <= best.reward <= best.certificate.reward_upper, seed
        assert np.all(best.margins >= best.certificate.margins_lower)


def test_slater_constants_down_to_a_billionth_are_proved():
    """118 problems; the constant is what the family says, and the proof costs little where there is some room."""
    constants = []
    for seed in range(118):
        cmdp = tiny_slater(seed)
        best, room = ib.solve(cmdp), ib.slater(cmdp, scaled=True)
        assert best.certificate.in_bounds, (seed, best.certificate.verdict)
        assert best.gap <= 1e-8 * max(abs(best.reward), 1.0) or best.gap <= 2e-12 / room.value, seed
        constants.append(room.value)
    assert min(constants) < 4e-9 and max(constants) > 1e-2


@pytest.mark.parametrize("make", [unreachable_costs, zero_margins])
def test_the_checker_agrees(make, tmp_path):
    """What is proved by vectors that are lowered where the policy never comes, holds in exact arithmetic."""
    for seed in range(8):
        cmdp = make(seed)
        cmdp.save(tmp_path / "model.npz")
        save_certificate(ib.solve(cmdp).certificate, tmp_path / "proof.json")
        accepted, lines = verify(str(tmp_path / "model.npz"), str(tmp_path / "proof.json"))
        assert accepted, (seed, lines)


def without_the_unreachable(cmdp):
    """The same problem on the states that are reached: the first ones, by construction."""
    reached = int(np.flatnonzero(np.diff(cmdp.offsets))[-1]) + 1
    while abs(cmdp.reward[..., cmdp.offsets[reached - 1]]).max() > 1e3:
        reached -= 1
    pairs = int(cmdp.offsets[reached])
    transitions = [matrix[:pairs, :reached] for matrix in cmdp.transitions]
    return ib.CMDP(
        offsets=cmdp.offsets[: reached + 1],
        transition=tuple(transitions) if cmdp.horizon else transitions[0],
        reward=cmdp.reward[..., :pairs],
        constraints=[replace(c, signal=c.signal[..., :pairs]) for c in cmdp.constraints],
        initial=cmdp.initial[:reached],
        **cmdp.criterion,
    )


def test_states_that_nothing_leads_to_take_no_digit():
    for seed in range(40):
        cmdp = unreachable_costs(seed)
        best, alone = ib.solve(cmdp), ib.solve(without_the_unreachable(cmdp))
        assert best.reward == pytest.approx(alone.reward, abs=2e-8), seed
        assert best.gap <= 2e-8 and best.upper_bound >= alone.reward
        assert best.certificate.gap <= 2e-8
        assert best.policy.probabilities.size == cmdp.reward.size
        sums = cmdp.pairs.sum_by_state(best.policy.probabilities.reshape(-1, cmdp.n_pairs))
        assert sums == pytest.approx(np.ones_like(sums))
        # There too it is greedy, at the value function that comes with it.
        if cmdp.discount is not None:
            priced = cmdp.reward + best.prices @ cmdp.margins
            backup = (1 - cmdp.discount) * priced + cmdp.discount * (cmdp.transition @ best.value_function)
            for state in np.flatnonzero(cmdp.pairs.sum_by_state(np.asarray(best.occupancy)) == 0.0):
                own = slice(cmdp.offsets[state], cmdp.offsets[state + 1])
                assert backup[own][np.argmax(best.policy.probabilities[own])] == backup[own].max()


def three_units(seed):
    garnet = ib.zoo.garnet(states=20, constraints=3, seed=seed)
    units = zip(garnet.constraints, (1e-8, 1.0, 1e8), strict=True)
    return garnet, garnet.asking(
        constraints=[replace(c, signal=c.signal * unit).with_bound(c.bound * unit) for c, unit in units]
    )


@pytest.mark.parametrize("seed", range(5))
def test_three_constraints_in_units_of_sixteen_decades(seed):
    plain, cmdp = three_units(seed)
    best, same = ib.solve(plain, "bundle"), ib.solve(cmdp, "bundle")
    assert same.certificate.in_bounds and same.reward == pytest.approx(best.reward, rel=2e-8)
    room = ib.slater(cmdp)
    assert room.status == "optimal" and room.upper_bound - 1e-9 * 1e-8 <= room.value <= room.upper_bound * (1 + 1e-12)
    # What counts in the user's units is the first margin: the others have only to be kept.
    alone = ib.solve(plain.asking(reward=plain.margins[0], constraints=plain.constraints[1:]), tolerance=1e-10)
    assert room.value == pytest.approx(1e-8 * alone.reward, rel=1e-6)
    assert ib.slater(cmdp, scaled=True).value == pytest.approx(ib.slater(plain, scaled=True).value, rel=1e-7)


def test_slater_constants_and_conflicts_in_extreme_units():
    for seed in range(30):
        cmdp = extreme_units(seed)
        room = ib.slater(cmdp)
        assert room.status == "optimal" and room.value > 0.0
        assert room.upper_bound - room.value <= 1e-8 * room.upper_bound + 1e-9 * cmdp.margin_scales.min(), seed
        first = cmdp.constraints[0]
        beyond = first.tightened(3.0 * cmdp.margin_scales[0])
        with pytest.raises(ib.Infeasible) as caught:
            ib.solve(cmdp.asking(constraints=[beyond, *cmdp.constraints[1:]]))
        assert caught.value.conflict[0] == first.name


def test_a_master_that_fails_ends_with_the_best_policy_and_its_gap(monkeypatch):
    cmdp, minimise, calls = ib.zoo.garnet(states=60, constraints=2, seed=1), bundle_module.minimise, []

    def failing(*arguments, **options):
        calls.append(1)
        return None if len(calls) == 6 else minimise(*arguments, **options)

    optimum = ib.solve(cmdp)
    monkeypatch.setattr(bundle_module, "minimise", failing)
    best = ib.solve(cmdp, "bundle")
    assert len(calls) >= 6 and best.upper_bound >= optimum.reward - 1e-12
    assert best.status in ("stalled", "optimal")


def small(signal, bound, discount=0.9, unit=1.0):
    return ib.CMDP(
        offsets=[0, 2, 4],
        transition=[[1, 0], [0.5, 0.5], [0, 1], [0.3, 0.7]],
        reward=np.array([0.0, 1.0, 0.5, 2.0]) * unit,
        constraints=[ib.Constraint(signal, at_most=bound, name="c")],
        initial=[1, 0],
        discount=discount,
    )


def test_a_cost_that_may_never_be_paid():
    best = ib.solve(small([0.0, 1.0, 0.0, 0.5], 0.0))
    assert best.reward == 0.0 and best.certificate.margins_lower.tolist() == [0.0]
    assert best.certificate.in_bounds and best.in_bounds and best.status == "optimal"


def test_a_signal_that_is_its_bound_everywhere():
    """0.1 - 0.1 is zero: nothing is rounded, and the margin is proved to be zero."""
    best = ib.solve(small([0.1] * 4, 0.1))
    assert best.certificate.in_bounds and best.certificate.margins_lower.tolist() == [0.0]


@pytest.mark.parametrize("by", [1e-11, 1e-13])
def test_the_flag_follows_the_proof(by):
    cmdp = small([0.0, 1.0, 0.0, 0.5], -by)  # the cost is at least 0
    best = ib.solve(cmdp)
    assert not best.certificate.in_bounds and not best.in_bounds and best.status == "not proved"
    assert ib.evaluate(cmdp, best.policy).in_bounds  # up to rounding


@pytest.mark.parametrize("size", [1e-311, 1e-320, 1e-200])
def test_units_without_room_are_refused_by_name(size):
    signal = np.array([0.0, 1.0, 0.0, 0.5])
    for question in (ib.solve, ib.slater, ib.frontier):
        with pytest.raises(ib.InvalidInput, match=r"constraint 'c' has a size of .* give it in other units"):
            question(small(signal * size, 0.3 * size))
    with pytest.raises(ib.InvalidInput, match="the reward has a size of"):
        ib.solve(small(signal, 0.3, unit=size))


@pytest.mark.parametrize("size", [1e-130, 1e95])
def test_units_within_are_as_good_as_any(size):
    signal = np.array([0.0, 1.0, 0.0, 0.5])
    plain = ib.solve(small(signal, 0.3))
    for method in ("auto", "bundle"):
        best = ib.solve(small(signal * size, 0.3 * size), method)
        assert best.certificate.in_bounds and best.reward == pytest.approx(plain.reward, rel=2e-8)
        assert best.prices * size == pytest.approx(plain.prices, rel=1e-6)


def test_a_frontier_over_a_signal_that_never_changes():
    cmdp = ib.CMDP(
        offsets=[0, 3, 4],
        transition=[[0.678, 0.322], [0.439, 0.561], [0.318, 0.682], [0.371, 0.629]],
        reward=[0, -1, 0, 1],
        constraints=[
            ib.Constraint([0.0] * 4, at_most=0.21, name="a"),
            ib.Constraint([-1, 1, 0, 0], at_most=0.326, name="b"),
        ],
        initial=[1, 0],
        discount=0.999,
    )
    curve = ib.frontier(cmdp, "a", points=5)
    assert len(curve.solutions) == 5 and np.ptp(curve.rewards) <= 2e-6


def test_a_frontier_whose_changed_policies_fall_apart():
    """Averages: small changes of a policy can leave two classes of states that never meet."""
    cmdp = ib.load(Path(__file__).parent / "fuzz/regressions/extremes.units.frontier-of-classes-that-fall-apart.npz")
    curve = ib.frontier(cmdp, 0, points=4)
    assert len(curve.solutions) == 4 and all(solution.in_bounds for solution in curve.solutions)


def test_a_policy_in_bounds_is_never_called_infeasible():
    """At a discount this close to 1 a bound in plain floating point may be nonsense; the policy is there to see."""
    cmdp = ib.load(Path(__file__).parent / "fuzz/regressions/extremes.near-one.infeasible-without-a-proof.npz")
    room = ib.slater(cmdp)
    assert room.value > 0.0 and not room.proves_infeasible(cmdp.margin_scales)
    for method in ("auto", "bundle"):
        ib.solve(cmdp, method)
