"""What samples have shown: logs, their sum, and the one empirical model."""

from __future__ import annotations

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms.empirical import draw_in_turn, log_in_turn, model_of
from inbounds.numerics.compiled import interpreted
from inbounds.proofs.evidence import Evidence, Log, draw_pairs, draw_starts, empirical_model, new_log
from naive_cspda import ragged

CMDP = ragged(2)


def filled(room: int, per_pair: int, seed: int = 0) -> Log:
    """A log with room for so many samples, offered `per_pair` of every pair, and 50 starts."""
    simulator = CMDP.simulator()
    log, rng = new_log(simulator, room), np.random.default_rng(seed)
    draw_pairs(log, simulator.open(), rng, 0, per_pair * CMDP.n_pairs, np.cumsum(np.full(CMDP.n_pairs, per_pair)))
    draw_starts(log, simulator.open(), rng, 0, 50)
    return log


def test_a_log_adds_up_what_it_lists() -> None:
    log, world, n = filled(5 * CMDP.n_pairs, 5), CMDP.simulator().open(), CMDP.n_pairs
    assert log.used[0] == 5 * n and log.pairs.tolist() == np.repeat(np.arange(n), 5).tolist()
    assert log.visits.tolist() == [5] * n and log.starts.sum() == 50
    np.testing.assert_allclose(log.sums, 5.0 * np.column_stack([world.reward, world.margins]), rtol=1e-14)
    np.testing.assert_allclose(log.squares, 5.0 * np.column_stack([world.reward, world.margins]) ** 2, rtol=1e-14)


def test_nothing_is_noted_once_a_log_is_full() -> None:
    whole, full = filled(5 * CMDP.n_pairs, 5), filled(12, 5)
    assert full.used[0] == full.visits.sum() == 12
    np.testing.assert_array_equal(full.pairs, whole.pairs[:12])
    np.testing.assert_array_equal(full.successors, whole.successors[:12])
    assert full.visits[:3].tolist() == [5, 5, 2] and not full.sums[3:].any()
    assert filled(0, 5).used[0] == 0


def test_the_interpreted_twin_notes_the_same() -> None:
    simulator, logs = CMDP.simulator(), []
    for draw in (draw_pairs, interpreted(draw_pairs)):
        logs.append(new_log(simulator, 3 * CMDP.n_pairs))
        ends = np.cumsum(np.arange(CMDP.n_pairs) % 3)
        draw(logs[-1], simulator.open(), np.random.default_rng(5), 0, int(ends[-1]), ends)
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(*logs, strict=True))


def test_samples_and_counts_make_the_same_model() -> None:
    """Samples one by one, as algorithms keep them, and counted, as evidence does: one function, equal but for rounding.

    (A sum of m shares 1 / N and the product m (1 / N) are rounded differently.)
    """
    simulator = CMDP.simulator()
    log = log_in_turn(simulator, 40 * CMDP.n_pairs)
    draw_in_turn(log, simulator.open(), np.random.default_rng(1), 0, 40 * CMDP.n_pairs)
    listed, evidence = model_of(log, simulator), Evidence(simulator)
    evidence.add(log)
    counted = evidence.model()
    np.testing.assert_allclose(listed.transition.toarray(), counted.transition.toarray(), rtol=1e-14, atol=0.0)
    np.testing.assert_allclose(listed.transition.toarray() * 40, np.rint(listed.transition.toarray() * 40), atol=1e-12)
    for what in ("reward", "margins", "initial"):
        np.testing.assert_array_equal(getattr(listed, what), getattr(counted, what))


def test_evidence_is_the_sum_of_its_logs() -> None:
    evidence, logs = Evidence(CMDP.simulator()), [filled(5 * CMDP.n_pairs, 5, seed) for seed in (0, 1)]
    for log in logs:
        evidence.add(log)
    for what in ("visits", "sums", "squares", "starts"):
        np.testing.assert_array_equal(getattr(evidence.totals, what), sum(getattr(log, what) for log in logs))
    moves = np.zeros(evidence.moves.shape)
    for log in logs:
        np.add.at(moves, (log.pairs, log.successors), 1.0)
    np.testing.assert_array_equal(evidence.moves.toarray(), moves)
    assert np.max(evidence.signal_variance) < 1e-14  # a table always reports the same


def test_a_pair_never_tried_stays_and_earns_the_average() -> None:
    log, simulator = filled(12, 5), CMDP.simulator()
    model = empirical_model(simulator, log, log.pairs, log.successors, np.ones(12))
    stays = np.zeros((CMDP.n_pairs - 3, CMDP.n_states))
    stays[np.arange(len(stays)), CMDP.pairs.states[3:]] = 1.0
    np.testing.assert_array_equal(model.transition.toarray()[3:], stays)
    np.testing.assert_allclose(model.reward[3:], log.sums[:, 0].sum() / 12, rtol=1e-14)
    np.testing.assert_allclose(model.margins[:, 3:], (log.sums[:, 1:].sum(axis=0) / 12)[:, None].repeat(len(stays), 1))


def test_algorithms_wait_until_every_pair_was_tried() -> None:
    simulator = CMDP.simulator()
    log = log_in_turn(simulator, CMDP.n_pairs)
    draw_in_turn(log, simulator.open(), np.random.default_rng(0), 0, CMDP.n_pairs - 1)
    assert model_of(log, simulator) is None
    with pytest.raises(ib.InvalidInput, match=f"samples are too few to try each of {CMDP.n_pairs} pairs"):
        log_in_turn(simulator, CMDP.n_pairs - 1)
