"""The one loop: checkpoints, progress, units, and what it refuses."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms import loop
from inbounds.algorithms.cspda import prepare
from inbounds.algorithms.cspda_steps import advance
from inbounds.problem.pieces import kept
from inbounds.proofs.evidence import new_log
from naive_cspda import ragged

QUEUE = ib.zoo.queue()
SIMULATOR = QUEUE.simulator()
SETTINGS = ib.CSPDA(slater=0.2)


def test_log_spaced_checkpoints() -> None:
    run = ib.learn(SIMULATOR, SETTINGS, samples=100_000, checkpoints=40)
    assert len(run.samples) == len(run.policies) == 40
    assert run.samples[0] == 100 and run.samples[-1] == 100_000
    ratios = run.samples[1:] / run.samples[:-1]
    np.testing.assert_allclose(ratios, 1000 ** (1 / 39), rtol=0.01)  # up to rounding to whole samples
    assert run.policy is run.policies[-1]


@pytest.mark.parametrize(
    ("checkpoints", "expected"),
    [
        (1, [1000]),
        (2, [100, 1000]),
        ([10, 500], [10, 500, 1000]),
        ([500, 10, 500], [10, 500, 1000]),
        ([1000], [1000]),
        ([], [1000]),
        (np.array([1, 999]), [1, 999, 1000]),
        (range(200, 601, 200), [200, 400, 600, 1000]),
    ],
)
def test_checkpoint_counts_always_have_the_end(checkpoints, expected: list[int]) -> None:
    run = ib.learn(SIMULATOR, SETTINGS, samples=1000, checkpoints=checkpoints)
    assert run.samples.tolist() == expected and len(run.policies) == len(expected)


def test_fewer_samples_than_checkpoints() -> None:
    assert ib.learn(SIMULATOR, SETTINGS, samples=1, checkpoints=5).samples.tolist() == [1]
    counts = ib.learn(SIMULATOR, SETTINGS, samples=110, checkpoints=40).samples
    assert np.all(np.diff(counts) > 0) and counts[0] == 100 and counts[-1] == 110


def test_checkpoints_before_the_first_step_of_the_algorithm_fall_away() -> None:
    """9984 of 100,000 samples estimate the Slater constant: there is no policy before them."""
    run = ib.learn(SIMULATOR, ib.CSPDA(), samples=100_000, checkpoints=[10, 9984, 9985, 50_000])
    assert run.samples.tolist() == [9985, 50_000, 100_000]


def test_progress_is_called_after_every_piece_and_changes_nothing() -> None:
    plain = ib.learn(SIMULATOR, SETTINGS, samples=2500)
    seen: list[int] = []
    run = ib.learn(SIMULATOR, SETTINGS, samples=2500, checkpoints=[1500], progress=seen.append)
    assert seen == sorted(set(seen)) and {1500, 2500} <= set(seen) and len(seen) > 4
    np.testing.assert_array_equal(run.policy.probabilities, plain.policy.probabilities)


def test_prices_come_back_in_the_user_s_units() -> None:
    run = ib.learn(SIMULATOR, SETTINGS, samples=5000, seed=3)
    rng = np.random.default_rng(3)
    start = prepare(SETTINGS, SIMULATOR, 5000, rng)
    advance(start.state, start.constants, SIMULATOR.open(), rng, 0, 5000)
    scaled = start.state.price_sums / 5000
    # reward spans 0..5; the largest absolute margins are 5 and 1.68
    np.testing.assert_allclose(run.prices, scaled * 5.0 / np.array([5.0, 1.68]), rtol=1e-14)
    assert np.all(run.prices > 0.0) and not run.prices.flags.writeable


def test_units_change_nothing_but_the_units() -> None:
    """Rewards times 4 and signals times 2 (exact in binary): the same policy to the bit, prices doubled."""
    cmdp = ragged(2)
    larger = ib.CMDP(
        offsets=cmdp.offsets,
        transition=cmdp.transition,
        reward=4.0 * cmdp.reward,
        constraints=[
            ib.Constraint(2.0 * c.signal, **{"at_least" if c.at_least is not None else "at_most": 2.0 * c.bound})
            for c in cmdp.constraints
        ],
        initial=cmdp.initial,
        discount=cmdp.discount,
    )
    ours, theirs = (ib.learn(problem.simulator(), SETTINGS, samples=3000, seed=1) for problem in (cmdp, larger))
    np.testing.assert_array_equal(ours.policy.probabilities, theirs.policy.probabilities)
    np.testing.assert_array_equal(2.0 * ours.prices, theirs.prices)
    assert ours.prices.any()


def test_a_run_says_what_it_was() -> None:
    run = ib.learn(SIMULATOR, SETTINGS, samples=1000, checkpoints=2)
    assert repr(run).startswith("Run(1,000 samples, 2 checkpoints, ")
    assert run.seconds > 0.0 and not run.samples.flags.writeable
    assert run.settings["slater"] == 0.2 and run.settings["shift"] == pytest.approx(108.0)
    assert run.guarantee.startswith("none: ")
    assert not hasattr(run, "reward") and not hasattr(run, "margins")  # only a judge computes values


def test_seed_sequences_are_seeds() -> None:
    seed = np.random.SeedSequence(7)
    first, second = (ib.learn(SIMULATOR, SETTINGS, samples=500, seed=s) for s in (seed, np.int64(7)))
    np.testing.assert_array_equal(first.policy.probabilities, second.policy.probabilities)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"samples": 0}, "samples must be a whole number of at least 1, found 0"),
        ({"samples": -5}, "samples must be"),
        ({"samples": 10.5}, "samples must be"),
        ({"samples": True}, "samples must be"),
        ({"samples": "10"}, "samples must be"),
        ({"seed": -1}, "seed must be a whole number of at least 0, found -1"),
        ({"seed": 1.5}, "seed must be"),
        ({"seed": None}, "seed must be"),
        ({"seed": True}, "seed must be"),
        ({"checkpoints": 0}, "checkpoints must be a whole number of at least 1, found 0"),
        ({"checkpoints": -2}, "checkpoints must be a whole number of at least 1"),
        ({"checkpoints": [0]}, r"checkpoints must be whole numbers between 1 and samples \(1,000\), found 0"),
        ({"checkpoints": [1001]}, "found 1001"),
        ({"checkpoints": [1.5]}, "found 1.5"),
        ({"checkpoints": 1.5}, "found 1.5"),
        ({"checkpoints": None}, "found None"),
        ({"checkpoints": ["a"]}, "found 'a'"),
        ({"algorithm": "cspda"}, r"algorithm must be settings such as ib.CSPDA\(\), found 'cspda'"),
        ({"algorithm": None}, "algorithm must be settings"),
        ({"algorithm": ib.CSPDA}, "algorithm must be settings"),
        ({"simulator": QUEUE}, r"learners see a simulator only: give cmdp.simulator\(\) .* found CMDP"),
        ({"simulator": None}, "learners see a simulator only"),
    ],
)
def test_bad_arguments_are_named(arguments: dict, message: str) -> None:
    good = {"simulator": SIMULATOR, "algorithm": SETTINGS, "samples": 1000}
    with pytest.raises(ib.InvalidInput, match=message):
        ib.learn(**(good | arguments))


def test_whole_numbers_are_whole_however_they_are_written() -> None:
    """(1e2 was a number of checkpoints and of samples, and no checkpoint; nor a number of iterations.)"""
    whole, run = (
        ib.learn(SIMULATOR, SETTINGS, samples=samples, checkpoints=checkpoints)
        for samples, checkpoints in ((1000, [100, 200]), (1e3, [1e2, Fraction(200)]))
    )
    assert run.samples.tolist() == whole.samples.tolist() == [100, 200, 1000]
    assert np.array_equal(run.policy.probabilities, whole.policy.probabilities)
    settings = ib.ModelBased(iterations=1e3), ib.UCBVIGamma(backups=np.float64(2.0)), ib.CRPO(inner=5.0)
    assert settings == (ib.ModelBased(iterations=1000), ib.UCBVIGamma(backups=2), ib.CRPO(inner=5))
    assert [repr(each) for each in settings[1:]] == ["UCBVIGamma(backups=2)", "CRPO(inner=5)"]


def test_a_guarantee_ends_where_the_units_break_its_ranges() -> None:
    given = QUEUE.simulator(scale=False)
    beyond = f"the units are as given, and the theory assumes others: {given.beyond_the_theory}"
    assert loop.within_ranges("the theorem", SIMULATOR) == "the theorem"
    assert loop.within_ranges("the theorem", given) == f"none: {beyond}"
    assert loop.within_ranges("none: scaled constants", given) == f"none: scaled constants; and {beyond}"
    free = QUEUE.unconstrained()
    promised, broken = (
        ib.learn(free.simulator(scale), ib.RandomizedPrimalDual(), samples=38_400, seed=0).guarantee
        for scale in (True, False)
    )
    assert not promised.startswith("none")
    assert broken == ("none: the units are as given, and the theory assumes others: rewards in [0, 5], not in [0, 1]")


def test_prices_are_in_the_users_units_whatever_the_learner_sees() -> None:
    """The best policy of the empirical model has the same prices, in whatever units that model was."""
    settings = ib.ModelBased.practical(kappa=0.0)
    scaled, given = (
        ib.learn(QUEUE.simulator(scale), settings, samples=96 * 200, seed=1).prices for scale in (True, False)
    )
    np.testing.assert_allclose(scaled, given, rtol=1e-6)


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-141])
def test_units_without_room_for_prices_are_refused_by_name(size):
    """(Prices were infinite, with a warning of NumPy.)"""
    parts = dict(offsets=[0, 2], transition=[[1.0], [1.0]], initial=[1.0], discount=0.9)
    cost = ib.Constraint([0.0, 1.0], at_most=0.5, name="cost")
    small_cost = ib.Constraint([0.0, size], at_most=0.0, name="cost")
    for reward, constraint, what in ((size, cost, "the reward"), (1.0, small_cost, "constraint 'cost'")):
        cmdp = ib.CMDP(reward=[0.0, reward], constraints=[constraint], **parts)
        for ask in (
            lambda m: ib.learn(m.simulator(), ib.CRPO(), samples=100),
            lambda m: ib.iterate(m, ib.RPGPD(), iterations=2),
        ):
            with pytest.raises(ib.InvalidInput, match=f"{what} has a size of .* give it in other units"):
                ask(cmdp)


@pytest.mark.parametrize("settings", [ib.ModelBased(), ib.CSPDA.practical()])
def test_more_samples_than_memory_holds_are_refused_by_name(settings) -> None:
    with pytest.raises(ib.InvalidInput, match="000,000,000,000 samples does not fit into memory: give fewer"):
        ib.learn(QUEUE.simulator(), settings, samples=10**15)


@pytest.mark.parametrize("learner", ["model", ib.CSPDA.practical(), ib.ModelBased()])
def test_more_samples_than_memory_holds_are_refused_in_certified_learning_too(learner) -> None:
    """(The logs of exploration and of proofs ended in a MemoryError of NumPy.)"""
    with pytest.raises(ib.InvalidInput, match="from 1,000,000,000,000,000 samples does not fit into memory") as told:
        ib.learn_certified(QUEUE.simulator(), samples=10**15, learner=learner)
    assert told.value.partial.status == "interrupted"


def test_logs_and_copies_of_more_samples_than_memory_holds_are_refused() -> None:
    with pytest.raises(ib.InvalidInput, match="000,000,000,000 samples does not fit into memory: give fewer"):
        new_log(SIMULATOR, 10**15)

    class Full(np.ndarray):
        def copy(self, order="C"):
            raise MemoryError

    with pytest.raises(ib.InvalidInput, match="so many samples does not fit into memory"):
        kept(np.zeros(3).view(Full))


@pytest.mark.parametrize("odd", [[10], np.array([10]), "10", None])
def test_a_checkpoint_that_is_no_number_is_named(odd):
    simulator = ib.zoo.queue().unconstrained().simulator()
    with pytest.raises(ib.InvalidInput, match="checkpoints must be whole numbers between 1 and samples"):
        ib.learn(simulator, ib.RandomizedPrimalDual(), samples=300, checkpoints=(5, odd, 300))
