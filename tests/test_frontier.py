"""The price of safety: concave, its slope the price, flat where the bound does not matter."""

from __future__ import annotations

import base64
import dataclasses
import runpy
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection, PolyCollection

import inbounds as ib
import strategies
from averages import constrained_optimum
from inbounds.criteria import criterion_of
from inbounds.exact import moving_bound, surface
from inbounds.exact.bundle import Bundle
from inbounds.exact.optimum import Units
from inbounds.exact.vertex import Corners
from inbounds.pictures.bounds import _triangles


def solve(cmdp, method="bundle", **options):
    return ib.solve(cmdp, method, certificate=False, **options)


def one_state(pays: float = 1.0) -> ib.CMDP:
    """Work pays 1 and uses 1, rest pays nothing and uses nothing: with use at most b the optimum is min(b, 1)."""
    return ib.CMDP(
        offsets=[0, 2],
        transition=[[1.0], [1.0]],
        reward=[pays, 0.0],
        constraints=[ib.Constraint([1.0, 0.0], at_most=0.25, name="use")],
        initial=[1.0],
        discount=0.9,
    )


def test_by_hand():
    curve = ib.frontier(one_state(), "use", points=21, tolerance=1e-9)
    assert curve.matters_from == pytest.approx(1.0, abs=1e-9)
    assert curve.possible_to == pytest.approx(0.0, abs=1e-9)
    assert not curve.at_least and curve.constraint == "use"
    assert np.all(np.diff(curve.bounds) < 0.0)
    assert curve.rewards == pytest.approx(np.minimum(curve.bounds, 1.0), abs=1e-8)
    inside = curve.bounds < 1.0 - 1e-9
    assert curve.prices[inside, 0] == pytest.approx(1.0, abs=1e-6)
    assert curve.prices[curve.bounds > 1.0 + 1e-9, 0] == pytest.approx(0.0, abs=1e-9)
    assert np.count_nonzero(~inside) >= 2


def check(cmdp: ib.CMDP, k: int, curve, tolerance: float) -> None:
    """Every point against the linear program at its own bound, which shares nothing with the path; and the shape."""
    spread = cmdp.layers * float(np.ptp(cmdp.reward)) / 2 or 1.0
    outward = 1.0 if curve.at_least else -1.0
    tightened = outward * (curve.bounds - cmdp.constraints[k].bound)
    assert np.all(np.diff(tightened) > 0.0)  # from the loosest to the tightest
    for amount, found in zip(tightened, curve.solutions, strict=True):
        amounts = np.zeros(cmdp.n_constraints)
        amounts[k] = amount
        there = cmdp.tightened(amounts)
        best = solve(there, "lp")
        # Each may be out of bounds by what counts as rounding, and gains at most the price of that.
        rounding = 1e-9 * float(np.max(found.prices * there.margin_scales, initial=0.0)) + 1e-9 * spread
        assert found.in_bounds and np.all(found.prices >= 0.0)
        assert found.margins == pytest.approx(
            there.margins.reshape(there.n_constraints, -1) @ found.occupancy.ravel(), abs=1e-9
        )
        assert found.margin_scales == pytest.approx(there.margin_scales)
        assert found.gap <= tolerance * max(abs(best.reward), 0.01 * spread) + rounding
        assert found.reward <= best.reward + rounding
        assert best.reward <= found.upper_bound + rounding
    # Falling and concave: between two points the slope lies between the prices at its ends, up to the gaps there.
    drops, widths, gaps = -np.diff(curve.rewards), np.diff(tightened), [found.gap for found in curve.solutions]
    allowed = np.add(gaps[:-1], gaps[1:]) + 1e-9 * spread
    assert np.all(drops >= curve.prices[:-1, k] * widths - allowed)
    assert np.all(drops <= curve.prices[1:, k] * widths + allowed)


@given(strategies.feasible(max_constraints=2, least_slack=1), st.sampled_from([2, 3, 6]))
def test_every_point_is_the_optimum_of_its_own_problem(drawn, points):
    cmdp = drawn.cmdp
    if cmdp.n_constraints == 0:
        with pytest.raises(ib.InvalidInput, match="no constraint whose bound"):
            ib.frontier(cmdp)
        return
    check(cmdp, 0, ib.frontier(cmdp, 0, points=points, tolerance=1e-8), 1e-8)


@pytest.mark.parametrize(
    ("problem", "k"),
    [
        (ib.zoo.queue(), 0),
        (ib.zoo.queue(), 1),
        (ib.zoo.jump_grid(), 0),
        (ib.zoo.garnet(states=60, constraints=1, seed=3), 0),
        (ib.zoo.garnet(states=60, constraints=3, seed=3, discount=0.98, ring=True), 2),
    ],
)
def test_named_problems(problem, k):
    for points, tolerance in ((2, 1e-6), (25, 1e-6), (9, 1e-9)):
        check(problem, k, ib.frontier(problem, k, points=points, tolerance=tolerance), tolerance)


@pytest.mark.parametrize("ring", [False, True])
def test_a_larger_problem_takes_few_solves(ring):
    cmdp = ib.zoo.garnet(states=1200, actions=4, constraints=2, discount=0.95, ring=ring, seed=5)
    curve, alone = ib.frontier(cmdp, 1, points=20), solve(cmdp, tolerance=1e-6)
    assert all(found.in_bounds and found.gap <= 1.01e-6 * found.upper_bound for found in curve.solutions)
    assert curve.unconstrained_solves < 6 * alone.unconstrained_solves
    nearest = int(np.argmin(np.abs(curve.bounds - cmdp.constraints[1].bound)))
    assert curve.rewards[nearest] == pytest.approx(alone.reward, abs=0.02)


def test_the_same_constraint_twice():
    """Where the moving bound is the looser of the two it does not matter, and then it matters alone."""
    queue = ib.zoo.queue()
    twice = dataclasses.replace(queue.constraints[0], name="again")
    cmdp = dataclasses.replace(queue, constraints=(*queue.constraints, twice))
    curve = ib.frontier(cmdp, "again", points=8, tolerance=1e-8)
    assert curve.matters_from == pytest.approx(queue.constraints[0].bound, abs=1e-6)
    check(cmdp, 2, curve, 1e-8)
    once = ib.frontier(queue, "service", points=8)
    assert curve.possible_to == pytest.approx(once.possible_to, abs=1e-6)


def without_room(seed: int, criterion: dict) -> ib.CMDP:
    """One signal is to be what it is under the uniform policy, neither more nor less; another bound may move."""
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.ones(4), size=(4, 3))
    reward, held, moving = rng.normal(size=(3, 4, 3))
    start = np.full(4, 0.25)
    free = ib.CMDP.from_dense(moves, reward=reward, constraints=[], initial=start, **criterion)
    spent = ib.occupancy(free, ib.Policy.uniform(free))
    held, moving = (np.broadcast_to(signal.ravel(), free.shape).copy() for signal in (held, moving))
    value, other = (float(np.sum(spent * signal)) for signal in (held, moving))
    return free.asking(
        constraints=[
            ib.Constraint(moving, at_most=other, name="moving"),
            ib.Constraint(held, at_most=value, name="no more"),
            ib.Constraint(held, at_least=value, name="no less"),
        ]
    )


@pytest.mark.parametrize("criterion", [{"discount": 0.9}, {"horizon": 4}, {"average": True}])
@pytest.mark.parametrize("vertices", [True, False])
def test_bounds_that_leave_no_room_have_prices_with_an_end(criterion, vertices, monkeypatch) -> None:
    """(They grew from point to point, to 1e30, and upper bounds lost all their digits to them.)"""
    if not vertices:
        monkeypatch.setattr(moving_bound, "_VERTICES", 0)
    for seed in range(4):
        cmdp = without_room(seed, criterion)
        for bound, found in zip((curve := ib.frontier(cmdp, "moving", points=5)).bounds, curve.solutions, strict=True):
            alone = solve(cmdp.with_bound("moving", at_most=float(bound)), "lp")
            size = max(abs(alone.reward), 0.02 * float(np.ptp(cmdp.reward)) * cmdp.layers)
            assert found.status == "optimal" and found.reward == pytest.approx(alone.reward, abs=1e-6 * size)
            assert found.upper_bound == pytest.approx(alone.reward, abs=1e-6 * size)
            assert np.max(found.prices) <= 1e3 * max(1.0, np.max(alone.prices))


@pytest.mark.parametrize("missing", [2.0**-53, 2.0**-52, 1e-15])
def test_bounds_that_only_rounding_excludes_have_no_price(missing: float) -> None:
    """A signal that is 1 throughout is to be at most a hair less: prices of that had no end, and took the others."""
    cmdp = ib.CMDP(
        offsets=[0, 2, 4],
        transition=[[1, 0], [0.5, 0.5], [0, 1], [0.3, 0.7]],
        reward=[0.0, 1.0, 0.5, 2.0],
        constraints=[
            ib.Constraint([0.0, 1.0, 0.0, 0.5], at_most=0.3, name="moving"),
            ib.Constraint(np.ones(4), at_most=1.0 - missing, name="one"),
        ],
        initial=[1, 0],
        discount=0.9,
    )
    curve = ib.frontier(cmdp, "moving", points=6)
    slope = 1.761467889908257
    assert curve.own_prices == pytest.approx([0.0, slope, slope, slope, 3.25, 3.25], rel=1e-6)
    assert np.max(curve.prices[:, 1]) <= 1.0
    assert [found.upper_bound for found in curve.solutions] == pytest.approx(curve.rewards, rel=1e-6)


def test_the_price_is_the_slope():
    queue = ib.zoo.queue()
    curve = ib.frontier(queue, "flow", points=12, tolerance=1e-9)
    steps = np.diff(curve.bounds)
    slopes = -np.diff(curve.rewards) / steps
    # Concave: between two points the slope lies between the prices at its ends.
    assert np.all(slopes >= curve.prices[:-1, 1] - 1e-6)
    assert np.all(slopes <= curve.prices[1:, 1] + 1e-6)


def test_beyond_the_end_nothing_is_in_bounds_and_before_the_start_the_bound_is_free():
    queue = ib.zoo.queue()
    curve = ib.frontier(queue, "service", points=4)
    beyond = queue.tightened([curve.possible_to + 1e-5, 0.0])
    with pytest.raises(ib.Infeasible):
        ib.solve(beyond)
    assert ib.solve(queue.tightened([curve.possible_to - 1e-5, 0.0])).in_bounds
    free = ib.solve(queue.tightened([curve.matters_from - 1.0, 0.0]))
    assert curve.rewards[0] == pytest.approx(free.reward, rel=2e-6)
    assert free.prices[0] == pytest.approx(0.0, abs=1e-9)


def test_a_bound_that_never_matters_gives_a_flat_line():
    always = ib.zoo.queue()
    constant = ib.Constraint(np.full(96, 0.5), at_least=0.0, name="constant")
    cmdp = ib.CMDP(
        offsets=always.offsets, transition=always.transition, reward=always.reward, constraints=(constant,),
        initial=always.initial, discount=always.discount,
    )  # fmt: skip
    curve = ib.frontier(cmdp, "constant", points=5)
    assert np.ptp(curve.rewards) <= 1e-5
    assert curve.possible_to == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"constraint": "speed"}, "there is no constraint 'speed'; the problem has: 'service', 'flow'"),
        ({"constraint": 2}, "there is no constraint 2; the problem has: 'service', 'flow'"),
        ({"constraint": True}, "there is no constraint"),
        ({"points": 1}, "points must be a whole number of at least 2"),
    ],
)
def test_wrong_input(arguments, message):
    with pytest.raises(ib.InvalidInput, match=message):
        ib.frontier(ib.zoo.queue(), **arguments)


def test_the_other_constraints_must_be_possible():
    with pytest.raises(ib.Infeasible, match="'flow' cannot be met by any policy"):
        ib.frontier(ib.zoo.queue(full_buffer="closed"), "service")


@pytest.mark.parametrize("name", ["media", "three_cycle", "inventory", "hazard_grid", "factored"])
def test_finite_horizons(name):
    problem = getattr(ib.zoo, name)()
    check(problem, 0, ib.frontier(problem, 0, points=7, tolerance=1e-8), 1e-8)


# ---- bounds of one's own, and two at once


def test_a_list_of_bounds_gives_the_optimum_at_each() -> None:
    queue = ib.zoo.queue()
    curve = ib.frontier(queue, "service", bounds=[0.5, -2, 0, 3, -7])
    assert curve.bounds.tolist() == [-7, -2, 0, 0.5] and curve.impossible.tolist() == [3.0] and curve.present == 0.0
    for bound, reward in zip(curve.bounds, curve.rewards, strict=True):
        alone = ib.solve(queue.with_bound("service", at_least=bound))
        assert abs(reward - alone.reward) < 2e-6 * abs(alone.reward)
    at_most = ib.frontier(ib.zoo.media(), 0, bounds=[6.0, 4.0, 5.0])
    assert at_most.bounds.tolist() == [6.0, 5.0, 4.0]  # from loose to tight
    assert abs(at_most.rewards[1] + 6.746704) < 1e-5


def test_a_range_of_bounds() -> None:
    curve = ib.frontier(ib.zoo.queue(), 0, 5, between=(0.5, -1.5))
    np.testing.assert_allclose(curve.bounds, [-1.5, -1.0, -0.5, 0.0, 0.5])
    once = ib.frontier(ib.zoo.queue(), 0, 4, between=(0.5, 0.5))  # as with bounds=[0.5, 0.5]
    assert once.bounds.tolist() == [0.5] and once.plot().axes
    line = ib.surface(ib.zoo.queue(), 0, 1, 3, between=((0.5, 0.5), (-1.0, 0.0)))
    assert [own.tolist() for own in line.bounds] == [[0.5], [-1.0, -0.5, 0.0]] and line.plot().axes
    none = ib.frontier(ib.zoo.queue(), 0, bounds=[4.0])
    assert repr(none) == "Frontier('service', 0 points)" and none.prices.shape == (0, 2)
    assert len(none.bounds) == 0 and none.impossible.tolist() == [4.0]
    assert none.plot().axes


def test_bounds_of_one_s_own_are_resumed() -> None:
    garnet, bounds = ib.zoo.garnet(states=30), np.linspace(0.0, 0.6, 7).tolist()
    whole = ib.frontier(garnet, 0, bounds=bounds)
    partial, part, rounds = None, None, 0
    while part is None or part.status != "optimal":
        try:
            part = ib.frontier(garnet, 0, bounds=bounds, resume=partial, iterations=10 * (rounds + 1))
            partial = part.partial
        except ib.Stopped as stopped:
            partial = stopped.partial
        rounds += 1
    assert part.rewards.tobytes() == whole.rewards.tobytes() and rounds > 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"bounds": []}, r"bounds must be a list of finite numbers, found \[\]"),
        ({"bounds": [0.0, np.nan]}, "bounds must be a list of finite numbers"),
        ({"between": (0.0, 1.0, 2.0)}, "between must be two finite numbers"),
        ({"bounds": [1e308, -1e308]}, r"each bound in bounds must be a number between .* found 1e\+308"),
        ({"between": (-1e300, 0.0)}, "each bound in between must be a number between"),
        ({"bounds": [0.0], "between": (0.0, 1.0)}, "give bounds= or between=, not both"),
        ({"certificate": "no"}, "certificate must be True or False, found 'no'"),
    ],
)
def test_bounds_that_are_none_are_refused(more, message) -> None:
    with pytest.raises(ib.InvalidInput, match=message):
        ib.frontier(ib.zoo.queue(), 0, **more)


def test_a_surface_is_the_optimum_at_both_bounds() -> None:
    queue = ib.zoo.queue()
    found = ib.surface(queue, "service", 1, points=4)
    assert found.constraints == ("service", "flow") and found.present == (0.0, 0.0)
    for i, service in enumerate(found.bounds[0]):
        for j, flow in enumerate(found.bounds[1]):
            there = queue.with_bound(0, at_least=service).with_bound(1, at_least=flow)
            try:
                alone = ib.solve(there)
            except ib.Infeasible:
                assert np.isnan(found.rewards[i, j])
                continue
            assert abs(found.rewards[i, j] - alone.reward) < 2e-6 * abs(alone.reward)
    with pytest.raises(ib.InvalidInput, match="surface takes two constraints, found 'flow' twice"):
        ib.surface(queue, "flow", 1)


@pytest.mark.parametrize("points", [2, 4])
def test_a_surface_whose_tightest_rows_no_policy_keeps(points) -> None:
    found = ib.surface(ib.zoo.garnet(), 0, 1, points=points)
    assert np.isfinite(found.rewards[0, 0]) and np.isnan(found.rewards[-1, -1])


def test_what_no_policy_keeps_is_blank() -> None:
    """Work and rest of one state: at least a of one and b of the other cannot be had when a + b > 1."""
    one = ib.CMDP.from_dense(
        np.ones((1, 3, 1)), reward=[[0.0, 0.0, 1.0]], initial=[1.0], discount=0.5,
        constraints=[
            ib.Constraint([[1.0, 0, 0]], at_least=0.2, name="work"),
            ib.Constraint([[0, 1.0, 0]], at_least=0.2, name="rest"),
        ],
    )  # fmt: skip
    found = ib.surface(one, 0, 1, points=6)
    for i, work in enumerate(found.bounds[0]):
        for j, rest in enumerate(found.bounds[1]):
            expected = 1.0 - max(work, 0.0) - max(rest, 0.0)
            assert np.isnan(found.rewards[i, j]) if expected < -1e-9 else abs(found.rewards[i, j] - expected) < 1e-5
    assert len(found.to_frame()) == 36 and int(found.to_frame()["reward"].isna().sum()) == np.isnan(found.rewards).sum()


@pytest.mark.parametrize("points", [2, 5, 12, 30])
def test_the_picture_holds_every_price_but_outliers(points: int) -> None:
    from dataclasses import replace

    curve = ib.frontier(ib.zoo.queue(), "service", bounds=np.linspace(-1.0, 0.9, points))

    def shown(prices):
        points = [
            replace(found, prices=np.array([price, 0.0])) for found, price in zip(curve.solutions, prices, strict=True)
        ]
        panel = replace(curve, solutions=tuple(points)).plot().axes[1]
        low, high = panel.get_ylim()
        return [bool(low < price < high) for price in prices], panel.get_title("right")  # above: no curve is there

    steep = np.arange(1.0, points + 1.0)
    steep[-1] *= 3.0  # the tightest bound has by far the largest price, within ten medians
    assert shown(steep) == ([True] * points, "")
    assert shown(np.zeros(points)) == ([True] * points, "")
    if points > 2:
        steep[-1] = 20.0 * points
        assert shown(steep) == ([True] * (points - 1) + [False], f"1 above, up to {20 * points:.4g}")


# ---- the ends


@pytest.mark.parametrize("present", [1e12, -1e12, 1e-3])
def test_the_present_bound_plays_no_part(present: float) -> None:
    """Counted from a bound that is far away, as many digits of the others would be lost."""
    near, far = one_state(), one_state().with_bound("use", at_most=present)
    asked = [1.2, 0.3, 0.1, 0.0, -0.1]
    curve, other = ib.frontier(near, bounds=asked), ib.frontier(far, bounds=asked)
    assert other.bounds.tolist() == curve.bounds.tolist() == [1.2, 0.3, 0.1, 0.0]  # to the last digit
    assert other.impossible.tolist() == [-0.1] and other.present == present
    assert other.rewards == pytest.approx([1.0, 0.3, 0.1, 0.0], abs=1.1e-6)  # the gap that is allowed
    assert (other.matters_from, other.possible_to) == pytest.approx((1.0, 0.0), abs=1e-12)
    check(near, 0, ib.frontier(far, 0, points=9), 1e-6)


@pytest.mark.parametrize(
    ("problem", "k"),
    [
        (ib.zoo.queue(), 0),
        (ib.zoo.queue(), 1),
        (ib.zoo.media(), 0),
        (ib.zoo.admission(), 0),
        (ib.zoo.garnet(states=60, constraints=3, seed=3, discount=0.98, ring=True), 2),
        (one_state(), 0),
    ],
)
def test_the_last_bound_can_be_kept_and_so_can_what_is_printed_of_it(problem, k) -> None:
    own = problem.constraints[k]
    curve = ib.frontier(problem, k, points=3)
    printed = float(curve.ends_in_words[1])
    beyond = curve.possible_to + own.outward * 1e-5 * problem.margin_scales[k]
    ends = ib.frontier(problem, k, bounds=[curve.possible_to, printed, beyond])
    assert set(ends.bounds) == {curve.possible_to, printed} and ends.impossible.tolist() == [beyond]
    assert f"{printed:.6g}" in str(ends) and abs(printed - curve.possible_to) <= 1.1e-5 * abs(curve.possible_to) + 1e-12
    for bound, found in zip(ends.bounds, ends.solutions, strict=True):
        alone = solve(problem.with_bound(k, **{own.side: bound}), "auto")
        assert found.in_bounds and abs(found.reward - alone.reward) <= 3e-6 * abs(alone.reward) + 1e-9


def test_points_where_the_bound_does_not_matter_have_their_own_bound() -> None:
    curve = ib.frontier(one_state(), bounds=[1e9, 5.0, 2.0, 0.5])
    for bound, found in zip(curve.bounds, curve.solutions, strict=True):
        assert found.constraints[0].bound == bound
        assert found.margins[0] == pytest.approx(bound - min(bound, 1.0), rel=1e-12, abs=1e-9)
        assert found.total_margins == pytest.approx(found.margins / 0.1)


@pytest.mark.parametrize("name", ["queue", "media", "garnet"])
def test_points_can_be_proved_with_few_coins(name: str) -> None:
    problem = ib.zoo.garnet(states=60, seed=2) if name == "garnet" else ib.zoo.make(name)
    plain, proved = ib.frontier(problem, 0, 6), ib.frontier(problem, 0, 6, certificate=True)
    assert proved.bounds.tolist() == plain.bounds.tolist()
    for bound, found, before in zip(proved.bounds, proved.solutions, plain.solutions, strict=True):
        there = problem.with_bound(0, **{problem.constraints[0].side: float(bound)})
        assert found.certificate.in_bounds and found.policy.coins <= problem.n_constraints
        assert ib.certify(found.policy, there).in_bounds  # of the problem as it is there, and nothing else
        assert found.reward == pytest.approx(before.reward, rel=3e-6) and found.constraints[0].bound == bound


# ---- to be looked at


def test_a_frontier_is_a_table_a_frame_and_a_picture(tmp_path) -> None:
    curve = ib.frontier(one_state(), bounds=[0.5, 0.25, -1.0])
    lines = str(curve).splitlines()
    assert lines[0] == "the optimum as the bound on use moves"
    assert [line.split() for line in lines[4:7]] == [
        ["<=", "0.5", "0.5", "1", "yes"], ["<=", "0.25", "0.25", "1", "yes"], ["<=", "-1", "-", "-", "no"],
    ]  # fmt: skip
    assert lines[-1] == "The bound is 0.25 now. It begins to matter at 1; no policy keeps one beyond 0."
    table = curve.to_frame()
    assert list(table.columns) == ["bound", "possible", "reward", "upper_bound", "margin_use", "price_use"]
    assert table["possible"].tolist() == [True, True, False] and table["bound"].tolist() == [0.5, 0.25, -1.0]
    assert table["reward"].tolist()[:2] == curve.rewards.tolist() and np.isnan(table["reward"][2])
    assert curve.plot(tmp_path / "curve.png") is not None and (tmp_path / "curve.png").stat().st_size > 10_000
    many = ib.frontier(one_state(), points=30)
    assert "12 of its 30 points" in str(many) and len(str(many).splitlines()) == 18
    assert '<td class="n">no</td>' in curve._repr_html_()


def test_a_surface_is_a_table_a_frame_and_a_picture(tmp_path) -> None:
    queue = ib.zoo.queue()
    found = ib.surface(queue, 0, "flow", bounds=([0.5, 0.0], None), between=(None, (0.4, 9.0)), points=3)
    assert [own.tolist() for own in found.bounds] == [[0.0, 0.5], [0.4, 4.7, 9.0]]
    lines = str(found).splitlines()
    assert [line.split() for line in lines[2:6]][2:] == [["0", "2.26300", "-", "-"], ["0.5", "2.21442", "-", "-"]]
    assert lines[-1] == "Now: service >= 0 and flow >= 0."
    assert found.to_frame()["reward"].tolist()[0] == found.rewards[0, 0] and len(found.to_frame()) == 6
    assert found.plot(tmp_path / "surface.svg") is not None and (tmp_path / "surface.svg").exists()
    assert '<td class="n">2.26300</td>' in found._repr_html_()
    large = dataclasses.replace(found, bounds=(np.arange(30.0), found.bounds[1]), rewards=np.zeros((30, 3)))
    assert "Of 30 x 3 points 12 x 3 are shown." in str(large)


@pytest.mark.parametrize("present", np.linspace(-5.5, 0.9, 9))
def test_no_curve_runs_through_the_words(present: float) -> None:
    """Wherever the present bound is, the words beside it are where the curve is not."""
    figure = ib.frontier(ib.zoo.queue().with_bound("service", at_least=present), 0, 30).plot()
    figure.draw_without_rendering()
    panel = figure.axes[0]
    (words,) = (text for text in panel.texts if "now" in text.get_text())
    curve, box = panel.lines[0].get_xydata(), words.get_window_extent()
    dense = np.stack([np.interp(np.linspace(0, 29, 2_000), np.arange(30), own) for own in curve.T], axis=1)
    assert not any(box.contains(x, y) for x, y in panel.transData.transform(dense))
    left, right = panel.get_window_extent().intervalx
    assert left <= box.x0 and box.x1 <= right


def test_the_colour_of_a_surface_is_where_all_around_it_was_solved() -> None:
    """And within the bounds that were asked for; a corner that nothing keeps takes its triangle away, not its row."""
    queue = ib.zoo.queue()
    found = ib.surface(queue, 0, 1, 6, between=((-1.0, 1.6), (-0.4, 1.0)))
    lost = np.isnan(found.rewards)
    assert lost.any() and not lost.all()
    corners = _triangles(found.rewards)
    assert len(corners) > 0 and not lost.ravel()[corners].any()
    panel = found.plot().axes[0]
    assert sorted(panel.get_xlim()) == [-1.0, 1.6] and sorted(panel.get_ylim()) == [-0.4, 1.0]
    possible, impossible = (own.get_offsets() for own in panel.collections if isinstance(own, PathCollection))
    assert len(possible) == np.count_nonzero(~lost) and len(impossible) == np.count_nonzero(lost)
    one_lost = np.array([[1.0, 2.0], [3.0, np.nan]])
    assert [sorted(own) for own in _triangles(one_lost).tolist()] == [[0, 1, 2]]
    assert len(_triangles(one_lost.T)) == 1 and len(_triangles(np.zeros((1, 5)))) == 0
    single = ib.surface(queue, 0, 1, bounds=([0.1], [0.0, 0.2])).plot().axes[0]
    assert len(single.collections[0].get_offsets()) == 2


@pytest.mark.parametrize("inside", [True, False])
def test_the_picture_tells_the_present_bound_wherever_it_is(inside: bool) -> None:
    queue, ends = ib.zoo.queue(), (-0.5, 0.9) if inside else (0.6, 0.9)
    said = [text.get_text() for text in ib.frontier(queue, 0, 3, between=ends).plot().axes[0].texts]
    assert (" now 0 " in said) == inside and any("now 0, looser" in text for text in said) != inside
    panel = ib.surface(queue, 0, 1, 2, between=(ends, (-0.5, 0.4))).plot().axes[0]
    said = [text.get_text() for text in panel.texts]
    assert ("now" in said) == inside and ("now (0, 0), outside" in said) != inside
    (point,) = panel.lines
    (left, right), (x,) = panel.get_xlim(), point.get_xdata()
    assert left <= x <= right and (x == 0.0) == inside


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"bounds": [0.0, 1.0, 2.0]}, "bounds must be two: one for 'service' and one for 'flow'"),
        ({"bounds": [0.0, 1.0]}, "bounds must be a list of finite numbers, found 0.0"),
        ({"bounds": ([0.0], [1e308])}, "each bound in bounds must be a number between"),
        ({"between": 3}, "between must be two"),
        ({"bounds": ([0.0], None), "between": ((0.0, 1.0), None)}, "give bounds= or between=, not both"),
    ],
)
def test_bounds_of_a_surface_that_are_none_are_refused(more, message) -> None:
    with pytest.raises(ib.InvalidInput, match=message):
        ib.surface(ib.zoo.queue(), 0, 1, **more)


@pytest.mark.parametrize("name", ["queue", "media", "inventory", "admission"])
def test_prices_are_those_of_solve(name: str) -> None:
    problem = getattr(ib.zoo, name)()
    for k, constraint in enumerate(problem.constraints):
        curve = ib.frontier(problem, k, 7, tolerance=1e-4)
        for bound, prices in zip(curve.bounds[:-1], curve.prices, strict=False):
            there = problem.with_bound(k, **{constraint.side: float(bound)})
            assert prices == pytest.approx(ib.solve(there).prices, rel=1e-9, abs=1e-12)


def test_a_surface_goes_as_far_as_bounds_can_while_the_other_is_what_it_is() -> None:
    problem = ib.zoo.queue()
    found = ib.surface(problem, 0, 1, points=5)
    for k in (0, 1):
        assert found.bounds[k] == pytest.approx(ib.frontier(problem, k, 5).bounds, abs=1e-9)
    assert np.count_nonzero(np.isnan(found.rewards)) < 5
    # Nothing is in bounds as the problem is: each goes as far as it can without the other.
    impossible = problem.with_bound(0, at_least=0.9).with_bound(1, at_least=0.5)
    with pytest.raises(ib.Infeasible):
        ib.solve(impossible)
    again = ib.surface(impossible, 0, 1, points=5)
    assert np.isfinite(again.rewards[0, 0])


def test_what_is_known_at_one_bound_serves_at_others() -> None:
    """Cuts and upper bounds that were taken along hold at the other bound; from there it takes fewer solves."""
    problem = ib.zoo.garnet(states=60, seed=4)

    def bundle(of: ib.CMDP, known=None) -> Bundle:
        margins = of.margins.reshape(of.n_constraints, -1)
        return Bundle(criterion_of(of), of.reward.ravel(), margins, of.margin_scales, known)

    first = bundle(problem)
    first.solve(1e-9)
    for amount in (0.003, -0.05):
        tightened = np.array([amount, 0.0])
        there = problem.tightened(tightened)
        known = first.where(tightened, there.margin_scales)
        again, afresh = bundle(there, known), bundle(there)
        found, alone = again.solve(1e-9), afresh.solve(1e-9)
        assert found.value(there.reward) == pytest.approx(alone.value(there.reward), abs=1e-9)
        assert found.unconstrained_solves - known.cuts.solves < alone.unconstrained_solves
        units = Units.of(criterion_of(there), there.reward.ravel(), there.margin_scales)
        for (chosen, time), margins, upper in zip(
            known.cuts.policies, known.cuts.margins, known.cuts.uppers, strict=True
        ):
            own = there.margins.reshape(there.n_constraints, -1)[:, chosen] @ time / there.margin_scales
            assert margins == pytest.approx(own, abs=1e-12)
            assert units.value(float(upper)) >= alone.value(there.reward) - 1e-9


def test_a_vertex_that_no_small_change_leads_to_takes_few_bases(monkeypatch) -> None:
    """Where all that is worth as much hardly changes a margin, prices are not moved far away to change more."""
    evaluated = []
    own = Corners.evaluate
    monkeypatch.setattr(Corners, "evaluate", lambda *given: evaluated.append(1) or own(*given))
    battery = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "battery.py"))["battery"]
    curve = ib.frontier(battery(capacity=30, levels=8), 1, 9)
    assert curve.status == "optimal" and all(point.in_bounds for point in curve.solutions)
    assert len(evaluated) <= 12  # 25 where prices are moved at once


def test_points_of_averages_that_fall_apart_are_linked_again() -> None:
    """94 states without chance, where the best at a bound stays in several places: it was worth 0 at the first."""
    packed = (
        "c-mc2iB7^m5Zzfo!AKw_99}?LC?!a!#D+)-0yYXZ6ueX9|G&fTbg#HQW_RYzn>VwKT-iSvPq*2A><_~0D0r~vhx*)EhhGI}Xf`Jo"
        "%Z+IrYujMpRd!=1>RP!GU46RiL*X^o|9Lz0!&#%cI{LNH$PU}yXk0OmD<cR?hqyZm=AM1Oe=ddf*egCoceZuDylK@IyKP9xRrzvp"
        "+c!J;MK`lQ>$v&7^Zh%U+8@n~8;4H2_ZUQ*^7^IK4!odObtju3c8%h|aw~@0eD6>S1b~vnP{J0TfwDzNVu9IY1HgjpK=A<VqXd|f"
        "rBcDc*f5XqIAg=?GzY_I6F5yF1k11x)?lKL4Y7nV1Bzrscw!E8GGgRT{<xJc?#0T$4F{p+iikjpIDl|NsuzIgrAQDDfaDbj;gtd;"
        "k3y$Wm8OyKJYI#r8nx_6Bjz~SsZs|ZyW)iv85b$q(wIPINO?qzOsW7mDK$EQ5))L)2xyn0hDkI%L<#;s8;xCDxEL*H+QkKd5+*tz"
        "8tot9h9zt"
    )
    numbers = np.frombuffer(zlib.decompress(base64.b85decode(packed)), np.uint8).reshape(5, 188)
    target, reward, *signals = numbers
    bounds = (0.45, 0.37978723404255316, 0.4627659574468085)
    problem = ib.CMDP(
        offsets=range(0, 189, 2),
        transition=np.eye(94)[target],
        reward=reward,
        initial=np.eye(94)[0],
        average=True,
        constraints=[ib.Constraint(own, at_most=bound) for own, bound in zip(signals, bounds, strict=True)],
    )
    curve = ib.frontier(problem, 0, points=5)
    assert np.all(np.diff(curve.rewards) < 0.0)
    for bound, reward in zip(curve.bounds[:2], curve.rewards, strict=False):
        best = ib.solve(problem.with_bound(0, at_most=float(bound)))
        assert reward == pytest.approx(best.reward, rel=1e-4)


def test_a_proved_frontier_that_was_broken_off_ends_with_the_same_bits() -> None:
    problem, partial, limit = ib.zoo.garnet(states=100, seed=2), None, 0.005
    while True:
        try:
            curve = ib.frontier(problem, 0, 4, certificate=True, time_limit=limit, resume=partial)
        except ib.Stopped as stopped:
            partial = stopped.partial
        else:
            if curve.status == "optimal":
                break
            partial = curve.partial
        limit *= 1.5
    whole = ib.frontier(problem, 0, 4, certificate=True)
    for point, other in zip(curve.solutions, whole.solutions, strict=True):
        assert point.policy == other.policy and point.reward == other.reward


def test_points_where_the_bound_does_not_matter_have_their_own_ranges() -> None:
    """How far another bound can move there depends on how much of this one is left."""
    problem = ib.zoo.garnet(states=40, seed=3)
    curve = ib.frontier(problem, 0, 14)
    flat = [p for p, price in enumerate(curve.own_prices) if price == 0.0]
    assert len(flat) >= 3
    found = [curve.solutions[p].ranges for p in flat]
    assert found[-1][1, 1] < found[0][1, 1]
    for p, ranges in zip(flat, found, strict=True):
        there = problem.with_bound(0, **{problem.constraints[0].side: float(curve.bounds[p])})
        assert ranges == pytest.approx(ib.solve(there).ranges, abs=1e-9)


@pytest.mark.parametrize("present", [-4.5, -3.0, 0.0, 0.31, 0.9])
@pytest.mark.parametrize("points", [3, 8])
def test_the_present_bound_is_a_point_of_a_frontier_that_chooses_its_own(present: float, points: int) -> None:
    queue = ib.zoo.queue()
    evenly = ib.frontier(queue.with_bound("service", at_least=-50.0), 0, points).bounds  # far from all that matters
    assert np.diff(evenly) == pytest.approx(np.full(points - 1, evenly[1] - evenly[0]))
    here = queue.with_bound("service", at_least=present)
    curve = ib.frontier(here, 0, points)
    assert present in curve.bounds and len(curve.bounds) == points and np.all(np.diff(curve.bounds) > 0.0)
    others = curve.bounds != present
    assert curve.bounds[others] == pytest.approx(evenly[others]) and others[0] and others[-1]
    (now,) = curve.solutions[int(np.argmin(others))].prices[:1]
    assert now == pytest.approx(solve(here).prices[0], rel=1e-4, abs=1e-6)


def test_the_price_between_two_points_is_drawn_as_what_is_known_of_it() -> None:
    """A box from each point to the next: every price between them, at bounds that no point has, is in it."""
    queue = ib.zoo.queue()
    curve = ib.frontier(queue, 0, 6)
    panel = curve.plot().axes[1]
    assert panel.lines[0].get_linestyle() == "None"
    (boxes,) = (own for own in panel.collections if isinstance(own, PolyCollection))
    extents = [path.get_extents() for path in boxes.get_paths()]
    assert len(extents) == 5
    for box, left, right in zip(extents, curve.bounds[:-1], curve.bounds[1:], strict=True):
        assert (box.x0, box.x1) == (left, right)
        for bound in np.linspace(left, right, 5)[1:-1]:
            (price,) = ib.frontier(queue, 0, bounds=[bound]).own_prices
            assert box.y0 - 1e-6 <= min(price, 2.0 * panel.get_ylim()[1] / 1.15) <= box.y1 + 1e-6


def test_every_colour_of_a_surface_is_that_of_its_value() -> None:
    """Halfway between four points, and where the optimum is flat: as the colour bar has it."""
    steep = np.array([[100.0, 100.0, 40.0], [100.0, 100.0, 10.0], [90.0, 80.0, 0.0]])
    found = dataclasses.replace(
        ib.surface(ib.zoo.queue(), 0, 1, bounds=([0.0, 0.1, 0.2], [0.0, 0.1, 0.2])), rewards=steep, upper_bounds=steep
    )
    figure = found.plot()
    panel = figure.axes[0]
    for drawn in [*panel.texts, *panel.lines]:
        drawn.set_visible(False)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())
    bar = colormaps["viridis"](np.linspace(0.0, 1.0, 256))[:, :3]
    shown = 0
    for across in np.linspace(0.013, 0.187, 30):
        for upwards in np.linspace(0.011, 0.189, 30):
            x, y = panel.transData.transform((across, upwards))
            colour = pixels[len(pixels) - 1 - int(y), int(x), :3] / 255
            shown += np.abs(bar - colour).max(axis=1).min() < 0.02
            if across < 0.09 and upwards < 0.09:  # of a flat square
                assert colour == pytest.approx(bar[-1], abs=0.01)
    assert shown > 0.85 * 900  # the others are points and the white lines


@pytest.mark.parametrize("criterion", [{"discount": 0.9}, {"horizon": 4}, {"average": True}])
@pytest.mark.parametrize("actions", [3, 300])  # by the linear program, and by the bundle
def test_among_policies_that_are_equally_good_the_bound_matters_where_it_does(criterion, actions):
    """One state. All actions but one pay 1, some of them for less than others; the last pays less, for nothing."""
    cost = np.linspace(1.0, 0.25, actions - 1)
    work = ib.CMDP(
        offsets=[0, actions],
        transition=np.ones((actions, 1)),
        reward=np.append(np.ones(actions - 1), 0.5),
        constraints=[ib.Constraint(np.append(cost, 0.0), at_most=10.0, name="cost")],
        initial=[1.0],
        **criterion,
    )
    curve = ib.frontier(work, "cost", points=6)
    assert curve.matters_from == pytest.approx(0.25 * work.layers, abs=1e-9 * work.layers)
    assert curve.possible_to == pytest.approx(0.0, abs=1e-9)
    inside = np.array(curve.bounds) < curve.matters_from - 1e-9
    assert inside.sum() == 5 and np.all(curve.own_prices[inside] == pytest.approx(2.0))
    idle = ib.frontier(work, "cost", bounds=[0.5 * work.layers, 0.25 * work.layers])
    assert idle.matters_from == curve.matters_from and idle.rewards == pytest.approx(work.layers * np.ones(2))


def ring_where_many_are_best(best_actions: int, seed: int) -> ib.CMDP:
    """255 states on a ring with four actions, of which so many pay 1 and the others nothing."""
    ring = ib.zoo.garnet(states=255, actions=4, ring=True, discount=0.99, seed=seed)
    cost = ib.Constraint(np.random.default_rng(seed).random(ring.n_pairs), at_most=0.9, name="cost")
    return ring.asking(reward=np.tile(np.arange(4.0) < best_actions, 255).astype(float), constraints=[cost])


@pytest.mark.parametrize("best_actions", [3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_where_many_policies_are_best_the_bound_begins_to_matter_at_the_least_cost_of_these(best_actions, seed) -> None:
    """(It was where the cost of a policy was that leans to little cost up to a tenth, off by 1e-4.)"""
    ring = ring_where_many_are_best(best_actions, seed)
    dear = ring.reward == 0.0
    cost = ring.constraints[0].signal
    cheapest = ib.solve(ring.asking(reward=-cost - 1e6 * dear, constraints=[]), tolerance=1e-14)
    least = ib.evaluate(ring.asking(reward=cost, constraints=[]), cheapest.policy).reward
    curve = ib.frontier(ring, "cost", points=3)
    assert curve.matters_from == pytest.approx(least, abs=1e-10)


@pytest.mark.parametrize("seed", [43, 46, 49, 52])
def test_the_bound_begins_to_matter_where_the_best_policy_without_it_is(seed) -> None:
    """(It was where one was that is good up to the tolerance, 2e-5 tighter.)"""
    for constraint in (0, 1):
        garnet = ib.zoo.garnet(states=200, seed=seed)
        curve = ib.frontier(garnet, constraint, points=2)
        free = ib.solve(garnet.with_bound(constraint, at_least=-10.0), tolerance=1e-14)
        assert curve.matters_from == pytest.approx(free.margins[constraint] - 10.0, abs=1e-10)
        again = ib.frontier(garnet, constraint, points=2)  # whatever was asked before
        assert again.matters_from == pytest.approx(curve.matters_from, abs=1e-12)


def patrol(cells: int, least: float = 0.5) -> ib.CMDP:
    """Staying at either end of a row of cells pays 2; .3 of the time at the first, and so much at the last."""
    return ib.build(
        start=0,
        actions=lambda cell: [step for step in (0, -1, 1) if 0 <= cell + step < cells],
        transitions=lambda cell, step: [(cell + step, 1.0)],
        reward=lambda cell, step: 2.0 if step == 0 and cell in (0, cells - 1) else 0.0,
        constraints=[
            ib.Constraint(lambda cell, step: cell == 0, at_least=0.3, name="first"),
            ib.Constraint(lambda cell, step: cell == cells - 1, at_least=least, name="last"),
        ],
        average=True,
    )


@pytest.mark.parametrize("cells", [6, 120])  # by the linear program, and by the bundle
def test_a_bound_that_linked_classes_keep_at_no_cost_does_not_matter(cells: int) -> None:
    """(It was said to matter from 0 on, as a link takes 1e-7 of the reward.)"""
    for name, last in (("first", 0.5), ("last", 0.7)):
        curve = ib.frontier(patrol(cells), name, points=4)
        assert curve.matters_from == curve.possible_to == pytest.approx(last, abs=1e-5)
        assert all(solution.in_bounds for solution in curve.solutions)
        assert curve.rewards == pytest.approx(2.0, abs=2e-5)


def ring_of_ties(seed: int) -> ib.CMDP:
    """Stay or go on, for rewards and signals that are whole numbers: many policies, of several classes, are best."""
    rng, n = np.random.default_rng(seed), 12
    signals, share = rng.integers(0, 3, (2, 2 * n)), rng.uniform(0.3, 0.9, 2)
    return ib.CMDP(
        offsets=np.arange(0, 2 * n + 1, 2),
        transition=np.stack([np.eye(n), np.roll(np.eye(n), 1, axis=1)], axis=1).reshape(2 * n, n),
        reward=rng.integers(0, 3, 2 * n) * np.tile([1.0, 0.0], n),
        constraints=[
            ib.Constraint(signal, at_most=2.0 * own, name=name)
            for name, signal, own in zip("ab", signals, share, strict=True)
        ],
        initial=np.eye(n)[0],
        average=True,
    )


@pytest.mark.parametrize("seed", range(12))
def test_of_averages_a_bound_begins_to_matter_where_the_last_of_the_best_occupancies_is_lost(seed: int) -> None:
    ring = ring_of_ties(seed)
    for k, other in ((0, 1), (1, 0)):
        alone = ring.asking(constraints=[ring.constraints[other]])
        best = constrained_optimum(criterion_of(alone), alone)[0]
        still = ib.Constraint(ring.reward, at_least=best - 1e-10, name="as good")
        leaning = alone.asking(reward=ring.margins[k], constraints=[*alone.constraints, still])
        loosest = ring.constraints[k].bound - constrained_optimum(criterion_of(leaning), leaning)[0]
        curve = ib.frontier(ring, k, points=3)
        # A link takes 1e-6 of the time, and 1e-10 of the reward are a millionth of a bound at most.
        assert curve.matters_from == pytest.approx(loosest, abs=1e-5)
        assert all(solution.in_bounds for solution in curve.solutions)


def shown_height(panel) -> float:
    """Of a curve, as a share of its panel."""
    return float(np.ptp(panel.lines[0].get_ydata()) / np.ptp(panel.get_ylim()))


def test_what_points_are_not_good_to_is_drawn_level() -> None:
    """(A zigzag of 1e-6, of points that link classes, went from the bottom of the picture to its top.)"""
    curve = ib.frontier(patrol(6), "first", points=8)
    assert 0.0 < np.ptp(curve.rewards) <= np.max(curve.upper_bounds - curve.rewards) + 1e-12
    figure = curve.plot()
    FigureCanvasAgg(figure).draw()
    assert shown_height(figure.axes[0]) <= 1 / 50
    names = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert len(set(names)) == len(names) > 2
    both = ib.surface(patrol(6), "first", "last", points=3)
    (least, most), *_ = (own.get_clim() for own in both.plot().axes[0].collections if own.get_array() is not None)
    assert np.nanmax(both.rewards) - np.nanmin(both.rewards) <= (most - least) / 50


@pytest.mark.parametrize("cost", [1e-6, 1e-3, 1.0])
def test_a_small_cost_that_is_known_fills_the_picture(cost: float) -> None:
    work = ib.build(
        start=0,
        actions=lambda state: [0, 1],
        transitions=lambda state, act: [(0, 1.0)],
        reward=lambda state, act: 3.0 + cost * act,
        constraints=[ib.Constraint(lambda state, act: act, at_most=0.5, name="work")],
        discount=0.9,
    )
    figure = ib.frontier(work, "work", points=8).plot()
    FigureCanvasAgg(figure).draw()
    assert shown_height(figure.axes[0]) > 0.8
    names = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert len(set(names)) == len(names) > 2


def test_a_point_whose_gap_is_wide_is_not_called_optimal(monkeypatch):
    """As where classes that hardly meet have to be linked: the policy is worth less than the upper bound by a half."""
    assembled = moving_bound.assemble

    def poor(*arguments, **options):
        found = assembled(*arguments, **options)
        return dataclasses.replace(found, upper_bound=found.upper_bound + 0.5)

    good = ib.frontier(ib.zoo.queue(), "service", bounds=[-2.0, 0.0])
    assert {point.status for point in good.solutions} == {"optimal"} and "more may be possible" not in str(good)
    monkeypatch.setattr(moving_bound, "assemble", poor)
    curve = ib.frontier(ib.zoo.queue(), "service", bounds=[-2.0, 0.0])
    assert {point.status for point in curve.solutions} == {"stalled"}
    assert "At 2 points more may be possible: there the gap is larger than" in str(curve).replace("\n", " ")


def test_a_surface_says_where_more_may_be_possible_and_where_a_policy_is_out_of_bounds(monkeypatch):
    found = ib.surface(ib.zoo.queue(), 0, 1, bounds=([0.0, 0.5, 9.0], [0.0, 0.2]))
    assert found.statuses.tolist() == [["optimal"] * 2, ["optimal"] * 2, [""] * 2]
    assert np.all(found.upper_bounds[:2] >= found.rewards[:2]) and np.all(np.isnan(found.upper_bounds[2]))
    assert "possible" not in str(found) and list(found.columns)[2:4] == ["reward", "upper_bound"]
    along = moving_bound.along_bounds

    def doubtful(*arguments, **options):
        curve = along(*arguments, **options)
        first, second = curve.solutions
        solutions = (dataclasses.replace(first, status="stalled"), dataclasses.replace(second, status="not proved"))
        return dataclasses.replace(curve, solutions=solutions)

    monkeypatch.setattr(surface, "along_bounds", doubtful)
    said = str(ib.surface(ib.zoo.queue(), 0, 1, bounds=([0.0, 0.5], [0.0, 0.2]))).replace("\n", " ")
    assert "At 2 points more may be possible" in said and "At 2 points the policy is not shown to be in bounds" in said


@pytest.mark.parametrize("criterion", [{"discount": 0.9}, {"horizon": 4}, {"average": True}])
@pytest.mark.parametrize("apart", [0, 2])
def test_every_point_is_certified_in_every_criterion(criterion, apart):
    """With states that nothing leads to, and without any. (Averages without any ended in a ValueError.)"""
    cmdp = ib.zoo.garnet(states=6, constraints=2, discount=0.9, seed=3)
    n_pairs, more = cmdp.n_pairs, np.arange(1, apart + 1)
    moves = np.zeros((n_pairs + apart, 6 + apart))
    moves[:n_pairs, :6] = cmdp.transition.toarray()
    moves[n_pairs:, 0] = 1.0
    paid = np.full(apart, 1e8)
    own = ib.CMDP(
        offsets=np.append(cmdp.offsets, n_pairs + more),
        transition=moves,
        reward=np.append(cmdp.reward, paid),
        constraints=[ib.Constraint(np.append(c.signal, -paid), at_least=-1e9, name=c.name) for c in cmdp.constraints],
        initial=np.append(cmdp.initial, np.zeros(apart)),
        **criterion,
    )
    kept = ib.evaluate(own, ib.Policy.uniform(own)).margins
    curve = ib.frontier(own.tightened(kept - 0.01), 0, points=4, certificate=True)
    assert len(curve.solutions) == 4
    assert all(point.certificate.in_bounds for point in curve.solutions)
