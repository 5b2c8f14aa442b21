"""Draws from a world, against brute force; compiled and interpreted ones are the same."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba.core.errors import TypingError

import inbounds as ib
from inbounds.numerics.compiled import compiled, interpreted
from inbounds.problem.draws import World, draw_ends, draw_next, draw_pair, draw_start, fitted, observed
from naive_cspda import ragged
from uniforms import Uniforms, watched

# ---- draws: the sets of uniforms that lead to each outcome have the right lengths


@pytest.mark.parametrize(
    "cmdp", [ib.zoo.queue(), ragged(2), ib.zoo.garnet(40, 1, 37, 0)], ids=["queue", "ragged", "wide"]
)
def test_draw_next_inverts_every_row(cmdp: ib.CMDP) -> None:
    world = cmdp.simulator().open()
    draw = draw_next
    rows = cmdp.transition.toarray()
    for pair in range(0, cmdp.n_pairs, max(1, cmdp.n_pairs // 20)):
        ends = np.cumsum(rows[pair])
        for state in np.flatnonzero(rows[pair]):
            for u in (ends[state] - rows[pair, state] + 1e-12, ends[state] - 1e-12):
                assert draw(world, pair, Uniforms(u)) == state
        last = np.flatnonzero(rows[pair])[-1]
        assert draw(world, pair, Uniforms(np.nextafter(1.0, 0.0))) == last
        assert draw(world, pair, Uniforms(0.0)) == np.flatnonzero(rows[pair])[0]


@pytest.mark.parametrize("initial", [np.full(7, 1 / 7), [0.0, 0.9, 0.0, 0.1, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0], [1.0]])
def test_draw_start_inverts_the_initial_distribution(initial) -> None:
    initial = np.array(initial)
    n_states = len(initial)
    cmdp = ib.CMDP(
        offsets=np.arange(n_states + 1),
        transition=np.eye(n_states),
        reward=np.zeros(n_states),
        constraints=[],
        initial=initial,
        discount=0.5,
    )
    world = cmdp.simulator().open()
    draw = draw_start
    ends = np.cumsum(initial)
    for state in np.flatnonzero(initial):
        for u in (ends[state] - initial[state] + 1e-12, ends[state] - 1e-12):
            assert draw(world, Uniforms(u)) == state
    assert initial[draw(world, Uniforms(0.0))] > 0.0
    assert draw(world, Uniforms(np.nextafter(1.0, 0.0))) == np.flatnonzero(initial)[-1]


@compiled
def draw_both(world: Any, pair: int, rng: np.random.Generator, drawn: Any) -> None:
    drawn[0], drawn[1] = draw_next(world, pair, rng), draw_start(world, rng)


def test_compiled_draws_equal_interpreted_ones() -> None:
    world, drawn = ragged(2).simulator().open(), np.zeros(2, dtype=np.int64)
    ours, theirs = np.random.default_rng(3), np.random.default_rng(3)
    for k in range(500):
        draw_both(world, k % 13, ours, drawn)
        assert drawn.tolist() == [draw_next(world, k % 13, theirs), draw_start(world, theirs)]
    assert ours.bit_generator.state == theirs.bit_generator.state


# ---- worlds: kernels ask whatever has the methods


def test_a_world_answers_for_itself() -> None:
    """The same kernel, run by Python, on a world whose draws are its own; on a table it is compiled."""
    table, drawn, asked = ragged(2).simulator().open(), np.zeros(2, dtype=np.int64), []
    world = watched(table, draw_next=lambda pair, rng: asked.append(pair) or 4, draw_start=lambda rng: 2)
    assert fitted(draw_both, table) is draw_both and isinstance(table, World)
    fitted(draw_both, world)(world, 7, None, drawn)
    assert drawn.tolist() == [4, 2] and asked == [7]


def test_draws_are_compiled_for_tables_only() -> None:
    class Other(World):
        pass

    table = ragged(2).simulator().open()
    with pytest.raises(TypingError, match="draw_next"):
        draw_both(Other(*table), 0, np.random.default_rng(0), np.zeros(2, dtype=np.int64))


@pytest.mark.parametrize("twin", [False, True], ids=["compiled", "interpreted"])
def test_what_was_observed(twin: bool) -> None:
    world, see = ragged(2).simulator().open(), interpreted(observed) if twin else observed
    for pair in (0, 5):
        assert [see(world, pair, signal) for signal in range(3)] == [world.reward[pair], *world.margins[pair]]
    silent = SimpleNamespace(reward=np.array([0.5]), margins=np.zeros((1, 0)))
    assert interpreted(observed)(silent, 0, 0) == 0.5


# ---- pairs of a policy, ends of walks: rows of one to four pairs, and one of 300

RAGGED_OFFSETS = np.cumsum([0, 3, 1, 4, 2, 300])
BOTH = [False, True]


def kernel(which: Any, twin: bool) -> Any:
    return interpreted(which) if twin else which


def random_policy(seed: int, zeros: bool) -> np.ndarray:
    rng = np.random.default_rng(seed)
    policy = rng.random(RAGGED_OFFSETS[-1])
    if zeros:
        policy[rng.random(len(policy)) < 0.3] = 0.0
        policy[RAGGED_OFFSETS[:-1] + rng.integers(np.diff(RAGGED_OFFSETS))] = 0.5  # something in every row
    return policy / np.repeat(np.add.reduceat(policy, RAGGED_OFFSETS[:-1]), np.diff(RAGGED_OFFSETS))


@pytest.mark.parametrize("zeros", BOTH)
def test_draw_pair_inverts_every_row(zeros: bool) -> None:
    """The uniforms that lead to a pair are one interval, of the length of its probability; at zero length, none."""
    draw = interpreted(draw_pair)
    for seed in range(5):
        policy = random_policy(seed, zeros)
        for state, (first, last) in enumerate(pairwise(RAGGED_OFFSETS)):
            ends = np.cumsum(policy[first:last])
            likely = np.flatnonzero(policy[first:last])
            for k in likely:
                for u in (ends[k] - policy[first + k] + 1e-12, ends[k] - 1e-12):
                    assert draw(policy, RAGGED_OFFSETS, state, Uniforms(u)) == first + k
            assert draw(policy, RAGGED_OFFSETS, state, Uniforms(0.0)) == first + likely[0]


def test_draw_pair_at_boundaries_by_hand() -> None:
    policy, offsets = np.array([0.25, 0.0, 0.5, 0.25, 1.0]), np.array([0, 4, 5])
    draw = interpreted(draw_pair)
    below = np.nextafter(0.25, 0.0)
    for u, pair in ((0.0, 0), (below, 0), (0.25, 2), (0.5, 2), (0.75, 3), (np.nextafter(1.0, 0.0), 3)):
        assert draw(policy, offsets, 0, Uniforms(u)) == pair
    for u in (0.0, 0.5, np.nextafter(1.0, 0.0)):
        assert draw(policy, offsets, 1, Uniforms(u)) == 4


@pytest.mark.parametrize("twin", BOTH, ids=["compiled", "interpreted"])
def test_the_last_action_catches_what_rounding_leaves(twin: bool) -> None:
    """Ten tenths add up to less than one, and a row may sum to a little less still: never a pair of the next state."""
    draw = kernel(draw_pair, twin)
    policy, offsets = np.concatenate([np.full(10, 0.1), [1.0]]), np.array([0, 10, 11])
    assert interpreted(draw_pair)(policy, offsets, 0, Uniforms(np.nextafter(1.0, 0.0))) == 9
    policy[:10] = [0.0, *[1e-300] * 9]  # nearly every uniform is beyond the sum
    assert {draw(policy, offsets, 0, np.random.default_rng(seed)) for seed in range(20)} == {9}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_frequencies_of_draw_pair(seed: int) -> None:
    """Counts of 10,000 draws: each of 10 pairs within 4.5 standard deviations (false alarm: 7e-5 a seed)."""
    policy, rng, draws = random_policy(seed, zeros=True), np.random.default_rng(seed), 10_000
    for state, (first, last) in enumerate(pairwise(RAGGED_OFFSETS[:-1])):
        drawn = np.bincount(
            [draw_pair(policy, RAGGED_OFFSETS, state, rng) for _ in range(draws)], minlength=RAGGED_OFFSETS[-1]
        )
        expected = draws * policy[first:last]
        deviation = np.sqrt(expected * (1.0 - policy[first:last]))
        assert np.all(np.abs(drawn[first:last] - expected) <= 4.5 * deviation), (drawn[first:last], expected)
        assert drawn[first:last].sum() == draws


@pytest.mark.parametrize("discount", [0.0, 0.3, 0.9, 0.999])
def test_draw_ends_with_probability_one_minus_discount(discount: float) -> None:
    ends = interpreted(draw_ends)
    assert ends(discount, Uniforms(discount)) and ends(discount, Uniforms(np.nextafter(1.0, 0.0)))
    if discount == 0.0:
        assert ends(discount, Uniforms(0.0))
    else:
        assert not ends(discount, Uniforms(np.nextafter(discount, 0.0))) and not ends(discount, Uniforms(0.0))


def test_compiled_pairs_and_ends_equal_interpreted_ones() -> None:
    ours, theirs = np.random.default_rng(3), np.random.default_rng(3)
    pairs, ends, policy = interpreted(draw_pair), interpreted(draw_ends), random_policy(4, zeros=False)
    for k in range(500):
        assert draw_pair(policy, RAGGED_OFFSETS, k % 5, ours) == pairs(policy, RAGGED_OFFSETS, k % 5, theirs)
        assert draw_ends(0.6, ours) == ends(0.6, theirs)
    assert ours.bit_generator.state == theirs.bit_generator.state
