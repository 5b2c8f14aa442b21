"""No coins: the best deterministic policy in bounds, against the enumeration of all of them."""

from __future__ import annotations

import dataclasses
import itertools
import re
import time
from fractions import Fraction
from typing import Any

import highspy
import numpy as np
import pytest
from hypothesis import given

import inbounds as ib
import strategies
from fuzz import rationals
from inbounds import solving
from inbounds.exact import deterministic, highs
from inbounds.exact.branching import Branching, Node
from inbounds.exact.deterministic import _Search
from inbounds.exact.highs import SMALL, Columns, minimise, minimise_whole
from inbounds.exact.incumbent import Incumbent
from inbounds.exact.limits import NO_LIMITS
from inbounds.exact.methods import best_mixture
from inbounds.exact.vertex import Corners
from inbounds.numerics.simplex import mixture_of_cuts
from inbounds.proofs import known_model
from inbounds.proofs.known_model import values_between
from inbounds.proofs.rationals import rational_values
from test_vertex import CRITERIA, over

TIGHT = 1e-10
"""A margin that is closer to zero may be on either side of it: such drawn problems say nothing."""


def every_policy(cmdp: ib.CMDP) -> list[ib.Evaluation]:
    """The values of all deterministic policies; of averages, those with one average."""
    choices = [range(int(cmdp.offsets[s]), int(cmdp.offsets[s + 1])) for s in range(cmdp.n_states)]
    found = []
    for chosen in itertools.product(*choices, repeat=cmdp.layers if cmdp.layers > 1 else 1):
        shape = (cmdp.layers, cmdp.n_states) if cmdp.layers > 1 else (cmdp.n_states,)
        try:
            found.append(ib.evaluate(cmdp, ib.Policy.deterministic(cmdp, np.array(chosen).reshape(shape))))
        except ib.InvalidInput:
            continue
    return found


def assert_best(cmdp: ib.CMDP) -> bool:
    """Against enumeration; whether any deterministic policy is in bounds."""
    judged = every_policy(cmdp)
    if any(np.any(np.abs(e.margins) < TIGHT * cmdp.margin_scales) for e in judged):
        return False
    inside = [e.reward for e in judged if np.all(e.margins > 0.0)]
    optimum = ib.solve(cmdp)
    if not inside:
        with pytest.raises(ib.Stopped, match=r"no deterministic policy .*is in bounds, but one that may randomise is"):
            ib.solve(cmdp, deterministic=True)
        return False
    best = ib.solve(cmdp, deterministic=True)
    assert best.policy.coins == 0 and best.in_bounds and best.certificate.in_bounds
    scale = max(float(np.ptp(cmdp.reward)), 1e-12) * cmdp.layers
    assert best.reward <= max(inside) + 1e-9 * scale
    assert best.upper_bound >= max(inside) - 1e-12 * scale
    if best.status == "optimal":
        assert best.reward == pytest.approx(max(inside), abs=2e-8 * scale)
    else:
        assert best.status == "best found" and "average" in cmdp.criterion
    assert best.price_of_determinism == pytest.approx(optimum.reward - best.reward, abs=1e-9 * scale)
    return True


@given(strategies.feasible(max_states=4, max_actions=3, least_slack=1))
def test_drawn_problems(drawn):
    assert_best(drawn.cmdp)


@pytest.mark.parametrize("criterion", [{"discount": 0.9}, {"horizon": 2}, {"average": True}], ids=str)
def test_every_criterion(criterion):
    states = 3 if "horizon" in criterion else 5
    assert sum(assert_best(over(criterion, seed, states=states)) for seed in range(4)) >= 2


def test_one_state_by_hand():
    """Cost 0 earns 0, cost 1 earns 1, cost .4 earns .3; at most .5: mixing earns .5, without coins it is .3."""
    cmdp = ib.CMDP(
        offsets=[0, 3],
        transition=np.ones((3, 1)),
        reward=[0.0, 1.0, 0.3],
        constraints=[ib.Constraint([0.0, 1.0, 0.4], at_most=0.5, name="cost")],
        initial=[1],
        discount=0.9,
    )
    best = ib.solve(cmdp, deterministic=True)
    assert best.policy.probabilities.tolist() == [0.0, 0.0, 1.0]
    assert best.reward == pytest.approx(0.3) and best.price_of_determinism == pytest.approx(0.2)
    assert best.gap <= 1e-8 and best.status == "optimal"
    assert best.certificate.reward_upper == pytest.approx(0.5)


def test_none_is_not_the_same_as_infeasible():
    """Between 0.4 and 0.6 only a coin gets; and a problem that no policy solves is infeasible as ever."""
    signal = [0.0, 1.0]
    cmdp = ib.CMDP(
        offsets=[0, 2],
        transition=np.ones((2, 1)),
        reward=[0.0, 1.0],
        constraints=[
            ib.Constraint(signal, at_least=0.4, name="low"),
            ib.Constraint(signal, at_most=0.6, name="high"),
        ],
        initial=[1],
        discount=0.9,
    )
    assert ib.solve(cmdp).reward == pytest.approx(0.6)
    with pytest.raises(ib.Stopped) as stopped:
        ib.solve(cmdp, deterministic=True)
    assert "leave deterministic out" in str(stopped.value)
    assert stopped.value.status == "no deterministic policy is in bounds"
    with pytest.raises(ib.Infeasible):
        ib.solve(cmdp.tightened([0.5, 0.0]), deterministic=True)


def test_a_bound_that_is_met_exactly():
    cmdp = ib.CMDP(
        offsets=[0, 3],
        transition=np.ones((3, 1)),
        reward=[0.0, 1.0, 1.5],
        constraints=[ib.Constraint([0.0, 0.25, 0.75], at_most=0.25, name="cost")],
        initial=[1],
        discount=0.5,
    )
    best = ib.solve(cmdp, deterministic=True)
    assert best.reward == pytest.approx(1.0) and best.in_bounds


def test_the_queue_is_proved():
    best = ib.solve(ib.zoo.queue(), deterministic=True)
    assert best.status == "optimal" and best.gap <= 1e-8
    assert best.reward == pytest.approx(2.3197482, abs=1e-6)
    assert best.price_of_determinism == pytest.approx(2.68e-3, abs=1e-5)


def test_what_is_excluded_is_in_no_better_policy():
    """The entries left out by the Lagrangian bound, against all deterministic policies."""
    cmdp = over({"discount": 0.9}, seed=2, states=5)
    found, _ = best_mixture(cmdp, coins="few")
    incumbent = Incumbent(cmdp, Corners(cmdp), values_between, NO_LIMITS)
    search = _Search(incumbent, found, 1e-8, NO_LIMITS)
    search.run()
    best = incumbent.best
    assert best is not None
    branching = Branching(cmdp, incumbent, search.allowed, NO_LIMITS)
    everything = np.ones(cmdp.n_pairs, dtype=bool)
    priced = branching._priced(Node(search.upper, everything, search.prices, None, ()))
    assert priced is not None
    left = branching._not_excluded(priced[0], first=True)
    assert np.count_nonzero(~left) > 0
    reward = search.corners.units.value(best.reward)
    for judged in every_policy(cmdp):
        if np.all(judged.margins >= 0.0) and judged.reward > reward + 1e-9:
            assert np.all(left[judged.occupancy > 0.0])


@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
def test_more_states_than_a_proof_takes(criterion):
    """A bound from the prices alone; it is close."""
    best = ib.solve(over(criterion, seed=4, states=320), deterministic=True)
    assert best.policy.coins == 0 and best.in_bounds
    assert best.gap == pytest.approx(best.price_of_determinism, abs=1e-9) and best.gap <= 1e-3 * best.reward


def test_without_constraints_nothing_is_lost():
    cmdp = ib.zoo.garnet(30, constraints=0, seed=1)
    best = ib.solve(cmdp, deterministic=True)
    assert best.policy.coins == 0 and best.status == "optimal" and best.price_of_determinism <= 1e-8


@pytest.mark.parametrize("left", [1e-7, 1e-8, 1e-9])
def test_without_constraints_next_to_a_discount_of_1_the_answer_is_that_of_a_plain_solve(left):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        states = int(rng.integers(2, 7))
        counts = rng.integers(1, 4, states)
        n = int(counts.sum())
        cmdp = ib.CMDP(
            offsets=np.append(0, np.cumsum(counts)),
            transition=np.eye(states)[rng.integers(states, size=n)],
            reward=np.round(rng.normal(size=n), 2),
            constraints=[],
            initial=rng.dirichlet(np.ones(states)),
            discount=1.0 - left,
        )
        plain, pure = ib.solve(cmdp), ib.solve(cmdp, deterministic=True)
        assert pure.policy.coins == 0 and pure.price_of_determinism == 0.0
        assert (pure.status, pure.reward, pure.upper_bound) == (plain.status, plain.reward, plain.upper_bound)


def test_a_deterministic_search_keeps_its_time():
    cmdp = ib.zoo.garnet(250, actions=8, constraints=2, seed=3)
    ib.solve(cmdp, deterministic=True, time_limit=60.0, certificate=False)  # compiled, and planned
    begin = time.monotonic()
    try:
        best = ib.solve(cmdp, deterministic=True, time_limit=1.0)
        assert best.status in ("time limit", "optimal") and best.policy.coins == 0
    except ib.Stopped as stopped:
        assert stopped.status == "time limit"
    assert time.monotonic() - begin < 20.0  # HiGHS and one evaluation end when they can, on a busy machine too


@pytest.mark.parametrize("seed", range(40))
def test_averages_where_one_may_stay_anywhere(seed: int) -> None:
    """On a ring where each state can stay or go on, choices may make several classes, whose mixture is no average.

    A policy ends in ONE cycle from the start: enumerated.
    """
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 6))
    transition = np.zeros((2 * size, size))
    transition[np.arange(0, 2 * size, 2), np.arange(size)] = 1.0
    transition[np.arange(1, 2 * size, 2), (np.arange(size) + 1) % size] = 1.0
    reward, signal = rng.integers(-2, 3, 2 * size).astype(float), rng.integers(0, 2, 2 * size).astype(float)
    bound = float(rng.choice([0.1, 0.4, 0.5, 0.7]))
    ring = ib.CMDP(
        offsets=np.arange(0, 2 * size + 1, 2),
        transition=transition,
        reward=reward,
        constraints=[ib.Constraint(signal, at_least=bound, name="a")],
        initial=np.eye(size)[0],
        average=True,
    )
    best = -np.inf
    for goes in itertools.product((0, 1), repeat=size):
        state, path = 0, []
        while state not in path:
            path.append(state)
            state = (state + goes[state]) % size
        pairs = [2 * s + goes[s] for s in path[path.index(state) :]]
        if np.mean(signal[pairs]) >= bound:
            best = max(best, np.mean(reward[pairs]))
    try:
        found = ib.solve(ring, deterministic=True).reward
    except (ib.Infeasible, ib.Stopped):
        found = -np.inf
    assert found == best or abs(found - best) <= 1e-9


def test_averages_are_of_policies_with_one_recurrent_class():
    """To stay everywhere has 1 from this start, and keeps .3 <= c <= .7; but it has no one average."""
    rooms = ib.CMDP(
        offsets=[0, 2, 4],
        transition=np.eye(2)[[0, 1, 1, 0]],
        reward=[-1.0, 0.0, 3.0, 0.0],
        constraints=[ib.Constraint([0.0, 0.0, 1.0, 0.0], at_most=0.7, name="c")],
        initial=[0.5, 0.5],
        average=True,
    )
    stay = ib.Policy(rooms.pairs, [1.0, 0.0, 1.0, 0.0])
    with pytest.raises(ib.InvalidInput, match="its averages depend on the start"):
        ib.evaluate(rooms, stay)
    best = ib.solve(rooms, deterministic=True)
    assert best.reward == 0.0 and 0.0 <= best.upper_bound <= 1e-12
    assert "below the best of those without coins that have one recurrent class" in best.standing
    assert best.certificate.reward_upper >= 1.0  # which is said of all policies
    both = [*rooms.constraints, ib.Constraint([0.0, 0.0, 1.0, 0.0], at_least=0.3, name="d")]
    with pytest.raises(ib.Stopped) as stopped:
        ib.solve(dataclasses.replace(rooms, constraints=both), deterministic=True)
    assert stopped.value.status == "no deterministic policy with one recurrent class is in bounds"


def test_what_is_printed_says_whose_best_and_whose_prices_it_is() -> None:
    """The best without coins where that is proved, else the best found."""
    queue = ib.zoo.queue()
    proved = ib.solve(queue, deterministic=True)
    said = " ".join(str(proved).split())
    assert "below the best without coins, and 0.002681 below the optimum that may randomise, whose prices these" in said
    found = " ".join(str(dataclasses.replace(proved, status="best found")).split())
    assert "below the best without coins (best found: to find the best is NP-hard), and" in found
    assert "NP-hard" not in said
    assert "coins" not in str(ib.solve(queue)) and "coins" in proved._repr_html_()


def drawn_stages(seed: int) -> ib.CMDP:
    """20 states over 6 stages, with up to 3 actions and two bounds that the uniform policy keeps by .01."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 4, size=20))])
    n_pairs = offsets[-1]
    transition = rng.dirichlet(np.full(20, 0.3), size=n_pairs)
    reward, initial, signals = rng.normal(size=n_pairs), rng.dirichlet(np.ones(20)), rng.normal(size=(2, n_pairs))
    constraints = [ib.Constraint(signal, at_least=0.0, name=name) for signal, name in zip(signals, "ab", strict=True)]
    cmdp = ib.CMDP(offsets, transition, reward, constraints, initial, horizon=6)
    return cmdp.tightened(ib.evaluate(cmdp, ib.Policy.uniform(cmdp)).margins - 0.01)


def test_what_highs_refuses_is_no_bound(monkeypatch):
    """HiGHS finds the optimum of this one and refuses it, as rows are broken by 6e-9: it left a bound of 0.

    (Nor is a proof left out where the prices of few iterations are not the best: it said that none was found.)
    """
    cmdp = drawn_stages(36)
    best = ib.solve(cmdp, deterministic=True)
    assert best.status == "optimal" and best.reward == pytest.approx(3.352691863784, abs=1e-9)
    for iterations in (4, 6):
        proved = ib.solve(cmdp, deterministic=True, iterations=iterations)
        assert proved.status == "optimal" and proved.reward == pytest.approx(best.reward, abs=1e-9)
    monkeypatch.setattr(deterministic, "PROVED_PLACES", 0)
    rough = ib.solve(cmdp, deterministic=True, iterations=6)
    assert rough.upper_bound >= best.reward - 1e-9 and rough.status == "iteration limit"
    assert rough.certificate.in_bounds and rough.partial.unconstrained_solves == 6
    monkeypatch.undo()
    again = ib.solve(cmdp, deterministic=True, resume=rough.partial)
    assert again.status == "optimal" and again.reward == pytest.approx(best.reward, abs=1e-9)


class _Fails(highspy.Highs):
    """HiGHS that says it failed, whatever it found."""

    def run(self) -> Any:
        super().run()
        return highspy.HighsStatus.kError


def test_what_a_failure_leaves_is_not_read(monkeypatch):
    program = Columns.dense(np.array([[1.0], [2.0]])), np.array([-1.0, -3.0]), np.array([-np.inf]), np.array([2.0])
    assert minimise_whole(*program, np.ones(2), gap=1e-9, nodes=9).tolist() == [0.0, 1.0]
    monkeypatch.setattr(highs.highspy, "Highs", _Fails)
    assert minimise_whole(*program, np.ones(2), gap=1e-9, nodes=9) is None
    assert minimise(*program, attempts=SMALL) is None


@pytest.mark.parametrize("criterion", [{"discount": 0.9}, {"horizon": 2}, {"average": True}], ids=str)
def test_no_word_of_highs_is_in_a_proof(criterion, monkeypatch):
    """Where its integer programs lead nowhere the best is found and proved all the same."""
    monkeypatch.setattr(deterministic, "minimise_whole", lambda *_, **__: None)
    states = 3 if "horizon" in criterion else 5
    assert sum(assert_best(over(criterion, seed, states=states)) for seed in range(4)) >= 2


def test_what_highs_took_for_the_best_is_not():
    """Of an integer program for this one HiGHS said, by default settings, that .0019 less is the optimum."""
    rng = np.random.default_rng(5166)
    n_states, n_constraints = int(rng.choice([3, 5, 8, 15, 20])), int(rng.integers(1, 3))
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 4, size=n_states))])
    n_pairs, moves = offsets[-1], np.full(n_states, 0.3)
    transition, kind = rng.dirichlet(moves, size=n_pairs), rng.choice(["d", "h", "a"])
    drawn = {"discount": float(rng.choice([0.5, 0.9, 0.99]))}, {"horizon": int(rng.integers(1, 8))}, {"average": True}
    initial, reward = rng.dirichlet(np.ones(n_states)), rng.normal(size=n_pairs)
    free = ib.CMDP(offsets, transition, reward, [], initial, **drawn["dha".index(kind)])
    constraints = []
    for k in range(n_constraints):
        signal = rng.normal(size=n_pairs)
        value = ib.evaluate(dataclasses.replace(free, reward=signal), ib.Policy.uniform(free)).reward
        constraints.append(ib.Constraint(signal, at_least=value - abs(rng.normal()) * 0.02 - 1e-3, name=f"c{k}"))
    best = ib.solve(dataclasses.replace(free, constraints=constraints), deterministic=True)
    assert best.status == "optimal" and best.reward == pytest.approx(-0.4122634333, abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_mixture_is_that_of_a_linear_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, sums = rng.normal(size=12), rng.normal(size=(12, 1 + seed % 3))
    prices, shares, missing = mixture_of_cuts(values, sums, 1e4)
    bounds = sums.shape[1]
    table = np.hstack([np.vstack([sums, np.eye(bounds)]), np.append(np.ones(12), np.zeros(bounds))[:, None]])
    rows = np.append(np.zeros(bounds), 1.0), np.append(np.full(bounds, np.inf), 1.0)
    x, duals = minimise(Columns.dense(table), np.append(-values, np.full(bounds, 1e4)), *rows)
    assert shares.sum() == pytest.approx(1.0)
    if x[12:].sum() > 1e-9:  # none is in bounds, and the prices say so
        assert missing > 1e-9 and np.all(sums @ prices < 0.0)
    else:
        assert missing <= 1e-12 and shares == pytest.approx(x[:12], abs=1e-8)
        assert prices == pytest.approx(duals[:bounds], abs=1e-6)


def test_a_proof_ends_with_its_time_and_an_honest_bound():
    """After one node the bound is that of what is open; without a policy, nothing is said of there being none."""
    cmdp = ib.zoo.garnet(60, actions=4, constraints=2, discount=0.95, seed=2)
    found, _ = best_mixture(cmdp, coins="few")
    best, corners = ib.solve(cmdp, deterministic=True), Corners(cmdp)
    incumbent = Incumbent(cmdp, corners, values_between, NO_LIMITS)
    search = _Search(incumbent, found, 1e-8, NO_LIMITS)
    late = Branching(cmdp, incumbent, search.allowed, NO_LIMITS)
    late.ends = time.monotonic()
    assert late.run(search.upper, search.prices) == (search.upper, False, False, 0) and incumbent.best is None
    assert Branching(cmdp, incumbent, search.allowed, NO_LIMITS).run(search.upper, search.prices).complete
    assert corners.units.value(incumbent.reward) == pytest.approx(best.reward, abs=1e-8)


@pytest.mark.parametrize("deterministic", [False, True])
def test_no_time_for_the_certificate_is_a_time_limit(deterministic: bool, monkeypatch):
    cmdp = ib.zoo.garnet(20, constraints=0, seed=1)
    monkeypatch.setattr("inbounds.solving._proved", lambda *_: None)  # it takes longer than there is
    late = ib.solve(cmdp, deterministic=deterministic, time_limit=60.0)
    assert late.status == "time limit" and late.certificate is None and late.partial.status == "time limit"
    unasked = ib.solve(cmdp, deterministic=deterministic, certificate=False)
    assert unasked.status == "optimal" and unasked.partial is None


def slowly_changing() -> ib.CMDP:
    """Three states that change once in a million steps. The best policy has 1e-11 to spare, and 1.3125 = 21/16."""
    moves = np.array([[0, 0, 1], [2, 0, 3], [3, 0, 3], [1, 0, 0], [1, 1, 0]]) * 2.0**-20
    moves[np.arange(5), [0, 1, 1, 2, 2]] += 1.0 - moves.sum(axis=1)
    return ib.CMDP(
        offsets=[0, 1, 3, 5],
        transition=moves,
        reward=[2.0, 1.0, 3.0, 5.0, 0.0],
        constraints=[ib.Constraint([0.0, 4.0, 4.0, 2.0, 5.0], at_least=2.125 - 1e-11, name="c")],
        initial=[1.0, 0.0, 0.0],
        average=True,
    )


def test_a_policy_is_in_bounds_where_that_is_proved_however_few_digits_its_vectors_have():
    """They are 8e5, and their last digit is more than what is to spare: 1.1538 was called the optimum."""
    best = ib.solve(slowly_changing(), deterministic=True)
    assert best.status == "optimal" and best.certificate.in_bounds
    assert best.reward == pytest.approx(1.3125, abs=1e-12) and best.policy.probabilities.tolist() == [1, 0, 1, 0, 1]


@pytest.mark.parametrize("states", [20, 80])
@pytest.mark.parametrize("seed", range(10))
def test_the_only_policy_is_found_however_slowly_it_mixes(states: int, seed: int):
    """A lazy walk is everywhere as long. (In 10 of 30 no policy without coins was said to be in bounds.)"""
    walk = np.zeros((states, states))
    for s in range(states):
        for at in (max(s - 1, 0), min(s + 1, states - 1)):
            walk[s, at] += 2.0**-8
        walk[s, s] += 1.0 - 2.0**-7
    signal = np.where(np.arange(states) < states // 2, 9.0, 0.0) + np.random.default_rng(seed).integers(0, 2, states)
    bound = ib.Constraint(signal, at_least=signal.sum() / states - 1e-11, name="c")
    start = np.eye(states)[0]
    cmdp = ib.CMDP(np.arange(states + 1), walk, np.arange(float(states)), [bound], start, average=True)
    assert ib.solve(cmdp, deterministic=True).certificate.in_bounds


@pytest.mark.parametrize("largest", [0.3, 1e6])
def test_a_policy_that_is_out_of_bounds_by_a_hair_is_not_the_best(largest: float):
    """.1 + .2 is more than .3, by as much as doubles can tell; it was returned, "not proved", and nothing else."""
    cmdp = ib.CMDP(
        offsets=[0, 3],
        transition=np.ones((3, 1)),
        reward=[1.0, 0.9, 2.0],
        constraints=[ib.Constraint([0.1 + 0.2, 0.25, 2.0 * largest], at_most=0.3, name="cost")],
        initial=[1.0],
        discount=0.5,
    )
    best = ib.solve(cmdp, deterministic=True)
    assert best.status == "optimal" and best.certificate.in_bounds and best.policy.probabilities.tolist() == [0, 1, 0]


def test_where_it_cannot_be_told_whether_the_best_is_in_bounds_nothing_is_said_of_it(monkeypatch):
    """The best that is proved is returned, under a bound on those that may be better; or they are, unproved."""

    def roughly(*asked: Any) -> tuple[np.ndarray, np.ndarray]:
        least, most = values_between(*asked)
        return least - 1e-9, most + 1e-9

    monkeypatch.setattr(solving, "values_between", roughly)
    best = ib.solve(slowly_changing(), deterministic=True)
    assert best.status == "best found" and best.certificate.in_bounds and best.reward < 1.2
    assert best.upper_bound >= 1.3125


@pytest.mark.parametrize("criterion", [{"discount": 0.9}, {"horizon": 2}, {"average": True}], ids=str)
def test_that_a_policy_which_may_randomise_is_in_bounds_is_said_where_that_is_proved(criterion):
    """No policy pays less than .25; by 4e-10 less that is proved, and by 1e-13 it cannot be told."""
    stages = criterion.get("horizon", 1)
    for missing, refusal, said in (
        (4e-10, ib.Infeasible, "no policy is in bounds"),
        (1e-13, ib.Stopped, "and of those that randomise it cannot be told"),
    ):
        cmdp = ib.CMDP(
            offsets=[0, 2],
            transition=[[1.0], [1.0]],
            reward=[1.0, 2.0],
            constraints=[ib.Constraint([0.25, 1.0], at_most=(0.25 - missing) * stages, name="c")],
            initial=[1.0],
            **criterion,
        )
        with pytest.raises(refusal, match=said):
            ib.solve(cmdp, deterministic=True)


def stock(most: float, levels: int = 100) -> ib.CMDP:
    """What is paid for an order, and where more than half is full, is whole: many policies meet a bound exactly."""
    rows, reward, paid, offsets = [], [], [], [0]
    for level in range(levels):
        for ordered in range(min(4, levels - level)):
            row = np.zeros(levels)
            for sold, chance in ((0, 0.25), (1, 0.5), (2, 0.25)):
                row[min(max(level + ordered - sold, 0), levels - 1)] += chance
            rows.append(row)
            reward.append(3.0 * min(level + ordered, 1) - ordered)
            paid.append(float(level > levels // 2) + (ordered > 0))
        offsets.append(len(rows))
    bound = ib.Constraint(paid, at_most=most, name="paid")
    return ib.CMDP(offsets, np.array(rows), reward, [bound], np.eye(levels)[0], discount=0.9)


def test_what_the_search_proves_the_certificate_proves():
    """In rationals, as only the rows of one policy are looked at, also where there are more than 300 pairs."""
    cmdp = stock(0.775)
    best = ib.solve(cmdp, deterministic=True)
    assert cmdp.n_pairs > 300 and best.status == "optimal"
    assert best.certificate.in_bounds and best.certificate.kind == "exact"


def test_without_a_certificate_what_cannot_be_told_is_not_called_optimal(monkeypatch):
    """Where the search cannot tell whether any policy is in bounds, and a certificate is not asked, or can."""
    nothing = np.full(2, -np.inf), np.full(2, np.inf)
    monkeypatch.setattr(solving, "values_between", lambda *_: nothing)
    for certificate, status in ((False, "not proved"), (True, "best found")):
        best = ib.solve(stock(0.775, levels=4), deterministic=True, certificate=certificate)
        assert best.status == status and best.policy.coins == 0


def test_the_bound_of_a_linear_program_is_not_believed():
    """HiGHS's was 8e-13 below what a policy without coins has, which is in bounds: 1.2532355988785968, by fractions."""
    moves, own, rare = np.eye(4)[[0, 1, 1, 2, 3, 3]], [0, 1, 1, 2, 3, 3], 2.0**-14
    for pair, (to, times) in enumerate([(1, 1), (2, 1), (2, 4), (3, 1), (0, 2), (0, 1)]):
        moves[pair, [to, own[pair]]] += np.array([1.0, -1.0]) * times * rare
    initial = ["0x1.d8d99173bc86dp-2", "0x1.4cb2a92eddc63p-2", "0x1.015440ec26d0cp-3", "0x1.6726939d492a9p-4"]
    bound = 8953885208114161 / 18014398509481984
    cmdp = ib.CMDP(
        offsets=[0, 1, 3, 4, 6],
        transition=moves,
        reward=[2.0, 1.0, 0.0, 2.0, -2.0, 0.0],
        constraints=[ib.Constraint([2.0, -1.0, 0.0, 0.0, 0.0, 1.0], at_least=bound, name="c")],
        initial=[float.fromhex(share) for share in initial],
        discount=1.0 - 2.0**-20,
    )
    for certificate in (True, False):
        assert ib.solve(cmdp, deterministic=True, certificate=certificate).upper_bound >= 1.2532355988785968


def two_modes(most: float) -> ib.CMDP:
    """To stay left earns 1, and right .2; at most so long left."""
    return ib.CMDP(
        offsets=[0, 2, 4],
        transition=np.eye(2)[[0, 1, 1, 0]],
        reward=[1.0, 0.0, 0.2, 0.0],
        constraints=[ib.Constraint([1.0, 1.0, 0.0, 0.0], at_most=most, name="left")],
        initial=[1.0, 0.0],
        average=True,
    )


@pytest.mark.parametrize("certificate", [False, True])
def test_a_policy_without_coins_links_nothing(certificate: bool):
    """It stays right; only the optimum that may randomise goes to and fro between two classes."""
    assert ib.solve(two_modes(0.5)).linked == 2
    best = ib.solve(two_modes(0.5), deterministic=True, certificate=certificate)
    assert best.reward == pytest.approx(0.2) and best.linked == 0


def wearing(wear: float, at_most: float, stages: int) -> ib.CMDP:
    """A machine that wears with this probability when it runs; what that takes no double says to the last bit."""
    return ib.CMDP(
        offsets=[0, 2, 4],
        transition=[[1.0 - wear, wear], [1.0 - wear, wear], [0.0, 1.0], [1.0, 0.0]],
        reward=[3.0, 1.0, 2.0, 0.0],
        constraints=[ib.Constraint([0.3, 0.1, 0.2, 0.0], at_most=at_most, name="wear")],
        initial=[1.0, 0.0],
        horizon=stages,
    )


def rational_policies(cmdp: ib.CMDP) -> list[list[Fraction]]:
    """The reward and the margins of every deterministic policy, without rounding."""
    model, found = rationals.rational(cmdp), []
    choices = [range(int(cmdp.offsets[s]), int(cmdp.offsets[s + 1])) for s in range(cmdp.n_states)]
    for chosen in itertools.product(*choices, repeat=cmdp.layers):
        taken = np.zeros((cmdp.layers, cmdp.n_pairs))
        np.put_along_axis(taken, np.reshape(chosen, (cmdp.layers, -1)), 1.0, axis=1)
        each = rationals.values(model, taken, [model.reward, *model.margins])
        if len(each[0]) == 1:
            found.append([value for (value,) in each])
    return found


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("wear", [0.1, 0.7, 0.9])
def test_on_which_side_of_a_bound_at_its_own_value_a_policy_is_is_decided(wear: float, stages: int):
    """Bounds at the values of policies, each rounded to the next double: so some just keep them, and some just do not.

    (It could not be told, and up to half of the reward was given up.)
    """
    free = wearing(wear, 0.0, stages)
    kept_in_rationals = 0
    for bound in sorted({float(-wears) for _, wears in rational_policies(free)}):
        cmdp = free.with_bound("wear", at_most=bound)
        inside = [reward for reward, margin in rational_policies(cmdp) if margin >= 0]
        if not inside:
            with pytest.raises(ib.Stopped, match="no deterministic policy is in bounds"):
                ib.solve(cmdp, deterministic=True)
            continue
        best = ib.solve(cmdp, deterministic=True)
        assert best.reward == pytest.approx(float(max(inside)), abs=1e-12)
        assert best.in_bounds == best.certificate.in_bounds == (not best.kept_in_rationals)
        assert best.status == ("not proved" if best.kept_in_rationals else "optimal")
        if best.kept_in_rationals:
            kept_in_rationals += 1
            more = said_to_loosen(best.verdict)
            assert "not proved: its values in rationals are in bounds" in best.verdict
            looser = ib.solve(free.with_bound("wear", at_most=bound + more), deterministic=True)
            assert looser.certificate.in_bounds and looser.reward == pytest.approx(best.reward, abs=1e-12)
    assert kept_in_rationals or (wear, stages) != (0.9, 3)


def said_to_loosen(words: str) -> float:
    """By how much the bound on wear is to be loosened."""
    found = re.search(r"with wear loosened by ([-.0-9e]+)[,)]", words)
    assert found is not None, words
    return float(found[1])


@pytest.mark.parametrize("wear", [0.7, 0.9])
def test_what_is_open_is_a_bound_is_said_and_by_how_much_to_loosen_it(wear: float, monkeypatch):
    """Where a policy of more places has a bound at its own value: its values in rationals would take long."""
    monkeypatch.setattr(known_model, "_STAGES_ELIMINATED", 0)
    free, open_ = wearing(wear, 0.0, 3), 0
    for bound in sorted({float(-wears) for _, wears in rational_policies(free)}):
        try:
            best = ib.solve(free.with_bound("wear", at_most=bound), deterministic=True)
        except (ib.Stopped, ib.Infeasible):
            continue
        if best.status == "best found":
            assert "NP-hard" not in best.standing and "on which side of a bound" in best.standing
            more = said_to_loosen(best.standing)
            assert best.loosening is not None and best.loosening[0] <= more <= 1e-13
            looser = ib.solve(free.with_bound("wear", at_most=bound + more), deterministic=True)
            assert looser.status == "optimal" and looser.certificate.in_bounds
            assert looser.reward == pytest.approx(best.upper_bound) and looser.reward > best.reward + 1e-3
            open_ += 1
        elif best.status == "not proved":
            looser = free.with_bound("wear", at_most=bound + said_to_loosen(best.verdict + ","))
            assert ib.solve(looser, deterministic=True).certificate.in_bounds
    assert open_


@pytest.mark.parametrize(
    "criterion", [{"discount": 0.9}, {"discount": 0.999}, {"horizon": 3}, {"average": True}], ids=str
)
def test_values_in_rationals(criterion):
    """Against solving for the time that a policy spends; of averages, those of policies with one recurrent class."""
    cmdp = over(criterion, seed=3, states=3 if "horizon" in criterion else 5)
    model, choices = rationals.rational(cmdp), np.random.default_rng(0)
    for _ in range(20):
        taken = np.zeros((cmdp.layers, cmdp.n_pairs))
        chosen = choices.integers(cmdp.offsets[:-1], cmdp.offsets[1:], size=(cmdp.layers, cmdp.n_states))
        np.put_along_axis(taken, chosen, 1.0, axis=1)
        each = rationals.values(model, taken, [model.reward, *model.margins])
        assert rational_values(cmdp, taken.ravel()) == [value for (value,) in each]


def test_values_in_rationals_are_those_of_one_recurrent_class():
    """That to which all places lead; there are none of a policy that comes to stay in one of two."""
    modes = two_modes(0.5)
    assert rational_values(modes, np.array([0.0, 1.0, 1.0, 0.0])) == [Fraction(0.2), Fraction(1, 2)]
    assert rational_values(modes, np.array([1.0, 0.0, 1.0, 0.0])) is None
