"""The shared kernels: softmax, the sum tree, the projections; each against brute force."""

from __future__ import annotations

import math
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from inbounds.algorithms.kernels import (
    FAN_OUT,
    project_prices,
    project_simplex,
    softmax_row,
    tree_find,
    tree_levels,
    tree_rebuild,
    tree_set,
    tree_total,
)
from inbounds.numerics.compiled import interpreted
from naive_cspda import project
from naive_policy_gradient import project_by_sorting

SIZES = [1, 7, 8, 9, 63, 64, 65, 511, 512, 513, 1000, 4097]


def tree_of(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    levels = tree_levels(len(weights))
    tree = np.zeros(levels[-1])
    tree[: len(weights)] = weights
    tree_rebuild(tree, levels)
    return tree, levels


def naive_find(weights: np.ndarray, x: float) -> int:
    return int(np.searchsorted(np.cumsum(weights), x, side="right"))


# ---- the sum tree. Whole weights below 2^20 add up without rounding, so brute force must agree exactly.


@pytest.mark.parametrize("n", SIZES)
def test_tree_equals_brute_force_over_random_operations(n: int) -> None:
    rng = np.random.default_rng(n)
    weights = rng.integers(0, 1000, n).astype(float)
    weights[rng.integers(n)] = 5.0  # at least one is positive
    tree, levels = tree_of(weights)
    for _ in range(300):
        k, weight = int(rng.integers(n)), float(rng.integers(0, 1000))
        if weights.sum() - weights[k] + weight > 0.0:
            weights[k] = weight
            tree_set(tree, levels, k, weight)
        total = weights.sum()
        assert tree_total(tree, levels) == total
        for x in (0.0, float(rng.integers(total)), rng.random() * total, total - 1.0, np.nextafter(total, 0.0)):
            assert tree_find(tree, levels, n, x) == naive_find(weights, x)
    np.testing.assert_array_equal(tree[:n], weights)
    rebuilt, _ = tree_of(weights)
    np.testing.assert_array_equal(tree, rebuilt)


@pytest.mark.parametrize("n", [n for n in SIZES if n <= 1000])
def test_find_at_every_boundary(n: int) -> None:
    weights = np.random.default_rng(n).integers(1, 50, n).astype(float)
    tree, levels = tree_of(weights)
    starts = np.cumsum(weights) - weights
    assert [tree_find(tree, levels, n, x) for x in starts] == list(range(n))
    assert [tree_find(tree, levels, n, np.nextafter(x + w, 0.0)) for x, w in zip(starts, weights, strict=True)] == list(
        range(n)
    )


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("find", [tree_find, interpreted(tree_find)], ids=["compiled", "interpreted"])
def test_padding_is_never_returned(n: int, find) -> None:
    """Rounding can leave x at or past what is left of it; the interpreted code would raise where it left the array."""
    rng = np.random.default_rng(n)
    for _ in range(20):
        tree, levels = tree_of(np.exp(rng.normal(0.0, 2.0, n)))
        total = tree_total(tree, levels)
        for x in (np.nextafter(total, 0.0), total, total * (1.0 + 1e-12), 2.0 * total + 1.0):
            assert 0 <= find(tree, levels, n, x) < n


@pytest.mark.parametrize("n", SIZES)
def test_tree_layout_is_whole_nodes(n: int) -> None:
    levels = tree_levels(n)
    assert np.all(np.diff(levels) % FAN_OUT == 0) and np.all(np.diff(levels) > 0)
    assert levels[0] == 0 and levels[1] >= n and levels[-1] - levels[-2] == FAN_OUT
    for below, above in pairwise(levels[:-1]):
        used = (above - below) // FAN_OUT  # nodes of the level below, each with a sum in the level above
        assert levels[list(levels).index(above) + 1] - above >= used


def test_tree_does_not_drift() -> None:
    """After 1e5 changes over many orders of magnitude every sum is what a rebuild gives, bit for bit."""
    rng = np.random.default_rng(0)
    tree, levels = tree_of(rng.random(100))
    python = interpreted(tree_set)
    for step in range(100_000):
        (tree_set if step % 50 else python)(tree, levels, step % 97, float(np.exp(rng.normal(0.0, 20.0))))
    rebuilt, _ = tree_of(tree[:100].copy())
    np.testing.assert_array_equal(tree, rebuilt)


# ---- softmax: rows of one to four pairs, and one of 300

RAGGED_OFFSETS = np.cumsum([0, 3, 1, 4, 2, 300])
BOTH = [False, True]


def kernel(which: Any, twin: bool) -> Any:
    return interpreted(which) if twin else which


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


@pytest.mark.parametrize("twin", BOTH, ids=["compiled", "interpreted"])
@pytest.mark.parametrize("shift", [0.0, -745.0, 800.0, 1e15, -1e15])
def test_softmax_of_every_row(shift: float, twin: bool) -> None:
    """Each row by itself: the others, in the logits and in the policy, keep their bits."""
    logits = np.random.default_rng(0).normal(0.0, 3.0, RAGGED_OFFSETS[-1]) + shift
    row = kernel(softmax_row, twin)
    for first, last in pairwise(RAGGED_OFFSETS):
        ours, policy = logits.copy(), np.full(len(logits), np.nan)
        row(ours, policy, first, last)
        np.testing.assert_allclose(policy[first:last], softmax(logits[first:last]), rtol=1e-14, atol=0.0)
        np.testing.assert_array_equal(ours[first:last], logits[first:last] - logits[first:last].max())
        assert ours[first:last].max() == 0.0
        outside = np.r_[0:first, last : len(logits)]
        assert np.all(np.isnan(policy[outside])) and np.array_equal(ours[outside], logits[outside])


@pytest.mark.parametrize("twin", BOTH, ids=["compiled", "interpreted"])
@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        ([8e307, -8e307], [1.0, 0.0]),
        ([-1e308, -1e308], [0.5, 0.5]),
        ([0.0, -746.0, -1e5], [1.0, 0.0, 0.0]),  # the exponential is zero from about -745.13 on
        ([710.0, 710.0, 710.0, 710.0], [0.25, 0.25, 0.25, 0.25]),  # the exponential overflows from about 709.78 on
        ([0.0, math.log(3.0)], [0.25, 0.75]),
        ([-7.0], [1.0]),
    ],
)
def test_softmax_of_extreme_logits(logits: list[float], expected: list[float], twin: bool) -> None:
    array, policy = np.array(logits), np.empty(len(logits))
    kernel(softmax_row, twin)(array, policy, 0, len(logits))
    np.testing.assert_allclose(policy, expected, rtol=1e-15, atol=0.0)
    assert policy.sum() == pytest.approx(1.0, abs=1e-15)
    again = policy.copy()
    kernel(softmax_row, twin)(array, again, 0, len(logits))
    np.testing.assert_array_equal(again, policy)  # the shifted logits mean the same


def test_compiled_softmax_equals_the_interpreted_one() -> None:
    row, logits = interpreted(softmax_row), np.random.default_rng(4).normal(0.0, 5.0, RAGGED_OFFSETS[-1])
    policy, twin_policy, twin_logits = np.empty(len(logits)), np.empty(len(logits)), logits.copy()
    for first, last in pairwise(RAGGED_OFFSETS):
        softmax_row(logits, policy, first, last)
        row(twin_logits, twin_policy, first, last)
    np.testing.assert_array_equal(policy, twin_policy)
    np.testing.assert_array_equal(logits, twin_logits)


# ---- the projection onto { u >= 0, sum u <= R }


def nearest_by_active_sets(u: np.ndarray, radius: float) -> np.ndarray:
    """The best of all feasible points that are stationary for some set of active constraints."""
    best = np.zeros_like(u)
    for positive in product([False, True], repeat=len(u)):
        free = np.array(positive)
        if not free.any():
            continue
        for full in (False, True):
            point = np.zeros_like(u)
            point[free] = u[free] - ((u[free].sum() - radius) / free.sum() if full else 0.0)
            feasible = point.min() >= -1e-12 and point.sum() <= radius + 1e-12
            if feasible and np.sum((point - u) ** 2) < np.sum((best - u) ** 2):
                best = point
    return best


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 5])
def test_projection_equals_brute_force_over_active_sets(dimension: int) -> None:
    rng = np.random.default_rng(dimension)
    for _ in range(200):
        radius = rng.uniform(0.1, 20.0)
        u = rng.normal(0.0, radius, dimension)
        if rng.random() < 0.3:
            u = np.round(u)  # ties
        projected = u.copy()
        project_prices(projected, radius)
        np.testing.assert_allclose(projected, nearest_by_active_sets(u, radius), rtol=0.0, atol=1e-12 * radius + 1e-12)
        np.testing.assert_allclose(projected, project(u, radius), rtol=0.0, atol=1e-12 * radius)
        again = projected.copy()
        project_prices(again, radius)
        np.testing.assert_allclose(again, projected, rtol=0.0, atol=1e-14 * radius)
        twin = u.copy()
        interpreted(project_prices)(twin, radius)
        np.testing.assert_array_equal(twin, projected)


@pytest.mark.parametrize(
    ("u", "radius", "expected"),
    [
        ([-5.0, 5.0], 4.0, [0.0, 4.0]),  # projecting on the l1 ball first and clipping after gives (0, 2)
        ([3.0, 3.0], 4.0, [2.0, 2.0]),
        ([1.0, 2.0], 4.0, [1.0, 2.0]),
        ([10.0, 1.0, 0.0], 4.0, [4.0, 0.0, 0.0]),
        ([-1.0], 4.0, [0.0]),
        ([], 4.0, []),
    ],
)
def test_projection_by_hand(u, radius: float, expected) -> None:
    prices = np.array(u)
    project_prices(prices, radius)
    np.testing.assert_allclose(prices, expected, rtol=0.0, atol=1e-15)


def test_projection_ends_when_an_entry_equals_the_threshold() -> None:
    """Prices that a run reached: rounding made two sets of positive entries take turns for ever."""
    prices = np.array([float.fromhex("0x1.2ccf9893314b0p-2"), float.fromhex("0x1.b411276f44350p+3")])
    radius = 4.0 / 0.3
    project_prices(prices, radius)
    np.testing.assert_allclose(prices, [0.0, radius], rtol=0.0, atol=1e-14)

    rng = np.random.default_rng(0)
    for _ in range(3000):
        rest = rng.uniform(0.0, 1.0, rng.integers(1, 4))
        prices = np.append(rest, radius + rest.min() * (1.0 + rng.integers(-3, 4) * 2.0**-52))
        expected = project(prices, radius)
        project_prices(prices, radius)
        np.testing.assert_allclose(prices, expected, rtol=0.0, atol=1e-14)


def test_projection_of_prices_that_swallow_the_radius() -> None:
    prices = np.array([1e20, 1e20, 1e20])
    project_prices(prices, 4.0)
    assert np.all(prices >= 0.0) and prices.sum() <= 4.0


# ---- the projection onto { x >= 0, sum x = R }


@pytest.mark.parametrize("length", [1, 2, 3, 8, 40])
def test_simplex_projection_is_that_by_sorting(length: int) -> None:
    rng = np.random.default_rng(length)
    for _ in range(300):
        row = rng.normal(0.0, rng.choice([0.1, 1.0, 30.0]), length)
        if rng.random() < 0.3:
            row = np.round(row)  # ties
        padded = np.concatenate([[7.0], row, [-7.0]])
        project_simplex(padded, 1, 1 + length, 1.0)
        found = padded[1:-1]
        assert padded[0] == 7.0 and padded[-1] == -7.0
        np.testing.assert_allclose(found, project_by_sorting(row), rtol=0.0, atol=1e-13 * max(1.0, np.abs(row).max()))
        assert found.sum() == pytest.approx(1.0, abs=1e-13 * max(1.0, np.abs(row).max()))
        twin = row.copy()
        interpreted(project_simplex)(twin, 0, length, 1.0)
        np.testing.assert_array_equal(twin, found)


def test_simplex_projection_is_the_nearest_point() -> None:
    """<x - p, q - p> <= 0 for every corner q of the simplex: what characterises the nearest point p."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        x = rng.normal(0.0, 2.0, 6)
        p = x.copy()
        project_simplex(p, 0, 6, 1.0)
        assert p.min() >= 0.0 and np.all((np.eye(6) - p) @ (x - p) <= 1e-13)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([5.0], [1.0]),
        ([0.2, 0.8], [0.2, 0.8]),
        ([-1.0, -1.0], [0.5, 0.5]),
        ([3.0, 1.0], [1.0, 0.0]),
        ([0.6, 0.6, -5.0], [0.5, 0.5, 0.0]),
    ],
)
def test_simplex_projection_by_hand(row: list[float], expected: list[float]) -> None:
    found = np.array(row)
    project_simplex(found, 0, len(found), 1.0)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-15)
