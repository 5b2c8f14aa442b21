"""A known model as compiled iterations see it: scaled units, copies, priced signals."""

from __future__ import annotations

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms.known import (
    in_scaled_units,
    known_model,
    known_slater,
    priced_signals,
    slater_and_gaps,
    start_value,
)
from inbounds.algorithms.plug_in import default_iterations
from naive_cspda import ragged


def test_scaled_units_and_back() -> None:
    cmdp = ib.zoo.queue()
    scaling, scaled = in_scaled_units(cmdp)
    policy = ib.Policy.from_occupancy(cmdp, np.random.default_rng(0).random(cmdp.n_pairs))
    ours, theirs = ib.evaluate(cmdp, policy), ib.evaluate(scaled, policy)
    assert scaling.reward_low + scaling.reward_span * theirs.reward == pytest.approx(ours.reward, abs=1e-12)
    np.testing.assert_allclose(scaling.margin_scales * theirs.margins, ours.margins, rtol=0.0, atol=1e-12)
    assert known_slater(ib.OPGPD(), scaled) == pytest.approx(0.2, abs=1e-8)  # section "Evaluations" of the paper
    assert known_slater(ib.OPGPD(), scaled.unconstrained()) == 1.0
    assert known_slater(ib.OPGPD(slater=0.3), scaled) == 0.3


def test_a_constant_that_is_not_there_is_no_theorem_s() -> None:
    """0.01 takes the place of less; of what is given nothing is known."""
    scaled = in_scaled_units(ib.zoo.queue())[1]

    def gaps(cmdp: ib.CMDP, given: float | None = None) -> list[str]:
        settings = ib.OPGPD(slater=given)
        used, reasons = slater_and_gaps(settings, cmdp)
        assert used == known_slater(settings, cmdp)
        return [reason for reason, applies in reasons.items() if applies]

    assert gaps(scaled) == gaps(scaled.unconstrained()) == gaps(scaled.tightened(0.3), 0.3) == []
    assert gaps(scaled.tightened(0.3)) == ["a problem in which no policy is in bounds"]
    assert gaps(scaled.tightened(0.195)) == ["a Slater constant of 0.005, less than 0.01"]
    assert slater_and_gaps(ib.OPGPD(), scaled.tightened(0.195))[0] == 0.01


def test_iterations_on_an_empirical_model_fall_with_its_size() -> None:
    assert [default_iterations(n) for n in (1, 96, 200, 10_000, 1_000_000)] == [20_000, 20_000, 10_000, 200, 100]


@pytest.mark.parametrize("n_constraints", [0, 1, 2])
def test_arrays_of_a_model_are_its_own(n_constraints: int) -> None:
    """Copies, never views of the model's: one type for every problem, so that kernels compile once."""
    model = known_model(in_scaled_units(ragged(n_constraints))[1])
    arrays = [array for array in (*model, *model.chains, *model.chains.rows) if isinstance(array, np.ndarray)]
    assert len(arrays) == 3 + 4 + 4 and all(array.flags.writeable and array.flags.c_contiguous for array in arrays)


def test_priced_signals() -> None:
    scaled, prices = in_scaled_units(ragged(2))[1], np.array([0.5, 3.0])
    signals = np.full((3, scaled.n_pairs), np.nan)
    priced_signals(known_model(scaled), prices, signals)
    np.testing.assert_allclose(signals[0], scaled.reward + prices @ scaled.margins, rtol=1e-14)
    np.testing.assert_array_equal(signals[1:], scaled.margins)


def test_the_mean_of_a_value_over_the_starts() -> None:
    model = known_model(in_scaled_units(ragged(1))[1])
    value = np.random.default_rng(0).random(len(model.initial))
    assert start_value(model, value) == pytest.approx(ragged(1).initial @ value, rel=1e-14)
