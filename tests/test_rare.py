"""What a policy does where it hardly ever comes: the best at the prices, however it was found."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest

import inbounds as ib
from inbounds.criteria import criterion_of
from inbounds.exact.methods import best_mixture, brought_back
from inbounds.exact.vertex import Corners

WORN = 6
FINDING_OUT = 1e-6
"""What an action may lose, relative to the largest reward: far more than rounding, far less than a repair is worth."""


def machines(breaking: tuple[float, float], cap: float, **criterion: Any) -> ib.CMDP:
    """Two machines that wear, and one crew: a good policy sees both worn out with a probability of some 1e-15."""

    def transitions(wear: tuple[int, int], action: str) -> list[tuple[tuple[int, ...], float]]:
        each = [
            [(0, 0.9), (w, 0.1)]
            if action == f"fix {i}"
            else [(w, 1.0 - breaking[i]), (w + 1, breaking[i])]
            if w < WORN
            else [(w, 1.0)]
            for i, w in enumerate(wear)
        ]
        return [(tuple(w for w, _ in both), math.prod(p for _, p in both)) for both in itertools.product(*each)]

    return ib.build(
        start=(0, 0),
        actions=lambda wear: ["wait", *(f"fix {i}" for i in (0, 1) if wear[i])],
        transitions=transitions,
        reward=lambda wear, action: sum(WORN - w for w in wear) - 2.0 * (action != "wait"),
        constraints=[ib.Constraint(lambda wear, action: float(action != "wait"), at_most=cap, name="repairs")],
        **criterion,
    )


def losing(problem: ib.CMDP, best: ib.Solution) -> list[Any]:
    """The places where the policy loses by what it does, at the prices of the answer; of averages, those it visits."""
    criterion = criterion_of(problem)
    margins = problem.margins.reshape(problem.n_constraints, problem.reward.size)
    priced = problem.reward.ravel() + best.prices @ margins
    values = criterion.solve(priced, 1e-13 * np.abs(priced).max()).value_function
    backup = criterion.backup(priced, values)
    loss = (backup[criterion.largest(backup)][criterion.places] - backup) / criterion.unit
    mean = np.bincount(criterion.places, loss * best.policy.probabilities.ravel(), criterion.n_places)
    there = criterion.reached
    if criterion.mass_row:
        there = there & (np.bincount(criterion.places, best.occupancy, criterion.n_places) > 0.0)
    return [int(place) for place in np.flatnonzero(there & (mean > FINDING_OUT * np.abs(priced).max()))]


BREAKING = ((0.1, 0.1), (0.1, 0.2), (0.2, 0.2), (0.15, 0.3))
CAPS = (0.2, 0.25, 0.35, 0.6)
FAMILY = list(itertools.product(BREAKING, CAPS))


@pytest.mark.parametrize("breaking", BREAKING)
def test_what_is_hardly_ever_visited_is_the_best_at_the_prices(breaking: tuple[float, float]) -> None:
    for cap in CAPS:
        problem = machines(breaking, cap, discount=0.95)
        for options in ({}, {"method": "lp"}, {"method": "bundle"}, {"certificate": False}):
            best = ib.solve(problem, **options)
            assert losing(problem, best) == []
            assert best.policy.coins <= 1 and best.in_bounds and best.status == "optimal"
        free = dataclasses.replace(problem, constraints=())
        assert losing(free, ib.solve(free)) == []


def test_nor_does_another_way_to_ask_change_it() -> None:
    for breaking, cap in FAMILY[::3]:
        problem = machines(breaking, cap, discount=0.95)
        looser = problem.with_bound("repairs", at_most=1.02 * cap)
        assert losing(looser, ib.solve(looser, start=ib.solve(problem))) == []
        curve = ib.frontier(problem, "repairs", points=6)
        for bound, point in zip(curve.bounds, curve.solutions, strict=True):
            assert losing(problem.with_bound("repairs", at_most=float(bound)), point) == []
        if cap == CAPS[-1]:  # a bound that does not bind: the best of all has no coin
            assert losing(problem, ib.solve(problem, deterministic=True)) == []


@pytest.mark.parametrize("criterion", [{"horizon": 9}, {"average": True}], ids=str)
def test_for_every_criterion(criterion: dict[str, Any]) -> None:
    for breaking, cap in FAMILY[::3]:
        problem = machines(breaking, cap * criterion.get("horizon", 1), **criterion)
        for method in ("auto", "lp"):
            best = ib.solve(problem, method)
            assert losing(problem, best) == []
            assert best.policy.coins <= 1 and best.in_bounds


def test_with_any_coins_too_where_a_coin_cannot_matter() -> None:
    for breaking, cap in FAMILY:
        problem = machines(breaking, cap, discount=0.95)
        best = ib.solve(problem, coins="any")
        time = np.bincount(problem.pairs.states, best.occupancy, problem.n_states)
        assert best.in_bounds and all(time[place] > 1e-16 for place in losing(problem, best))


def test_a_rare_coin_that_holds_a_bound_stays() -> None:
    """The bound is on what is done in a state that is reached with probability 1e-9."""
    transition = np.zeros((2, 2, 2))
    transition[0, :, :] = [1.0 - 1e-9, 1e-9]
    transition[1, :, 0] = 1.0
    reward, signal = np.array([[0.0, 0.0], [0.0, 1.0]]), np.array([[0.0, 0.0], [0.0, 1.0]])
    problem = ib.CMDP.from_dense(
        transition, reward=reward, constraints=[ib.Constraint(signal, at_most=2e-10)], initial=[1.0, 0.0], discount=0.9
    )
    best = ib.solve(problem)
    assert best.in_bounds
    assert 0.0 < best.policy.probabilities[3] < 0.3  # of about 9e-10 a good fifth


def centre() -> ib.CMDP:
    """Calls, promises to call back and agents: the best prices lead to states where the first policy never is."""
    calls, late, busy, vip = 5, 7, 0.11, 0.14

    def transitions(state: tuple[int, int, int], action: tuple[int, str]) -> list[tuple[Any, float]]:
        (n, v, agents), (turn, first), done = state, action, min(0.2 * state[2], 0.9)
        after = []
        for call, back, served in itertools.product((0, 1), repeat=3):
            to_n = n - (served and (first == "std" or (v == 0 and n > 0)))
            to_v = v - (served and first == "vip" and v > 0)
            chance = (busy if call else 1 - busy) * (vip if back else 1 - vip) * (done if served else 1 - done)
            after.append(((min(to_n + call, calls), min(to_v + back, late), agents + turn), chance))
        return after

    limits = (0.24365439536883898, 0.02113434011268625, 0.0010610443666460869, 0.10091343525404217)
    signals = (
        lambda s, a: s[0],
        lambda s, a: s[1] > 2,
        lambda s, a: (s[0] == calls) + (s[1] == late),
        lambda s, a: a[0] != 0,
    )
    return ib.build(
        start=(0, 0, 2),
        actions=lambda s: [
            (turn, first)
            for turn in (-1, 0, 1)
            if 1 <= s[2] + turn <= 4
            for first in (("vip", "std") if s[0] else ("vip",))
        ],
        transitions=transitions,
        reward=lambda s, a: -2.0 * s[2] - 0.5 * abs(a[0]),
        constraints=[
            ib.Constraint(signal, at_most=limit, name=f"bound {k}")
            for k, (signal, limit) in enumerate(zip(signals, limits, strict=True))
        ],
        discount=0.9,
    )


def test_few_coins_are_found_by_a_few_exchanges(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exchange evaluates a policy, so hundreds cost many times the solve; the search used to go in circles."""
    exchanges, exchanged = [], Corners.exchanged

    def counted(self: Corners, *arguments: Any, **options: Any) -> Any:
        exchanges.append(1)
        return exchanged(self, *arguments, **options)

    monkeypatch.setattr(Corners, "exchanged", counted)
    problem = centre()
    best = ib.solve(problem, certificate=False)
    assert best.policy.coins <= 4 and best.status == "optimal" and best.ranges is not None
    assert len(exchanges) <= problem.n_states


def test_prices_beyond_are_told_where_the_next_vertex_leaves_for_elsewhere() -> None:
    for breaking, cap in FAMILY:
        best = ib.solve(machines(breaking, cap, discount=0.95))
        assert best.ranges is not None and best.prices_beyond is not None
        beyond = best.prices_beyond[np.isfinite(best.ranges)]
        assert not np.any(np.isnan(beyond)), (breaking, cap)


def test_a_price_that_is_rounding_is_zero() -> None:
    problem = machines((0.1, 0.1), 0.6, discount=0.95)
    found, _ = best_mixture(problem)
    assert found.prices[0] == 0.0
    rounded = brought_back(problem, problem, found._replace(prices=np.array([3.4e-15])))
    assert rounded.prices[0] == 0.0
    real = brought_back(problem, problem, found._replace(prices=np.array([1e-9])))
    assert real.prices[0] == 1e-9


# --- bounds that only hardly ever visited states can break


def stairs() -> ib.CMDP:
    """Four states, each of which leads up with 1e-4 or less; a bound of 1e-8 on the time in the upper three."""
    up = 1.6696726952172437e-05
    rows = [
        [1 - 5 * up, 5 * up, 0, 0],
        [1 - 10 * up, 10 * up, 0, 0],
        [0.6425540777571377, 0.35742922551591017, up, 0],
        [0.22257690444536823, 0, 0.7774063988276796, up],
        [0.2645534281868265, 0, 0.7353630881784127, 5 * up],
        [0.20549317468160055, 0, 0.7943398580488777, 10 * up],
        [0, 0, 0.35774642428078507, 0.6422535757192149],
        [0, 0, 0.4355412445594279, 0.5644587554405721],
        [0, 0, 0.21829910067445324, 0.7817008993255468],
    ]
    return ib.CMDP(
        offsets=[0, 2, 3, 6, 9],
        transition=np.array(rows, dtype=float) / np.sum(rows, axis=1, keepdims=True),
        reward=[-2.0, 0.237, 0.215, 0.738, 0.761, -5.0, 1.0, -1.43, -0.109],
        constraints=[ib.Constraint([0, 0, 0, 1, 1, 1, 1, 1, 1], at_most=9.845350563018627e-09, name="up")],
        initial=[1, 0, 0, 0],
        discount=0.9,
    )


def test_a_vertex_is_not_given_up_for_one_whose_prices_allow_anything():
    """Its gap was measured by what the new prices allowed, 2e7 times as much."""
    best = ib.solve(stairs(), method="bundle")
    assert best.status == "optimal" and best.gap < 1e-9 and best.policy.coins <= 1
    assert best.prices[0] < 1.0 and best.ranges is not None


def rare_ends() -> ib.CMDP:
    """Five states of an average, the upper ones visited 1e-9 of the time, with a bound on that."""
    up = 0.0007076004691683321
    rows = [
        [1 - up, up, 0, 0, 0],
        [0.20194753218922393, 0.7973448673416078, up, 0, 0],
        [0.7204098113011317, 0.2781749877605316, 2 * up, 0, 0],
        [0, 0.3176408574549786, 0.6822176224511878, up / 5, 0],
        [0, 0.6703214077044823, 0.32953707220168404, up / 5, 0],
        [0, 0.5396625153852761, 0.4589222836763872, 2 * up, 0],
        [0, 0, 0.5058061314059514, 0.4927786676557119, 2 * up],
        [0.4323572725830994, 0, 0, 0.5669351269477324, up],
        [0, 0, 0.4346371768674858, 0.5652213030386807, up / 5],
        [0, 0, 0, 0.22466231786500876, 0.7753376821349912],
        [0.799753535569552, 0, 0, 0, 0.20024646443044808],
        [0, 0, 0, 0.22686161014566691, 0.773138389854333],
    ]
    return ib.CMDP(
        offsets=[0, 1, 3, 6, 9, 12],
        transition=np.array(rows, dtype=float) / np.sum(rows, axis=1, keepdims=True),
        reward=[-0.63, 0.0158, 1.1, 0.482, -5.0, 0.787, 1.16, 5.0, -2.0, -1.7, 1.27, 0.676],
        constraints=[ib.Constraint([0, 0, 0, 0, 0, 0, 1, 1, 2, 1, 1, 1], at_most=6.873e-10, name="up")],
        initial=[1, 0, 0, 0, 0],
        average=True,
    )


def test_a_price_beyond_a_range_is_that_of_the_next_piece_or_not_told():
    """A step of 1e-7 goes over pieces of 1e-9: its price of 0 was told for one of 2e4."""
    cmdp = rare_ends()
    best = ib.solve(cmdp)
    end, price = best.ranges[0, 1], best.prices_beyond[0, 1]
    beyond = ib.solve(cmdp.with_bound("up", at_most=1.4 * end))
    assert beyond.status == "optimal" and beyond.prices[0] > 1e3
    assert np.isnan(price) or price == pytest.approx(beyond.prices[0], rel=1e-6)
