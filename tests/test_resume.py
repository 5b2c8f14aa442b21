"""Nothing lost: runs broken off anywhere, by an exception or a time limit, end with the bits of unbroken ones."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms import ALGORITHMS, certified, planning
from inbounds.problem import pieces, thoughts
from inbounds.problem.pieces import Draws, Pace, kept
from inbounds.proofs.betting import Book, Played, make_stakes
from inbounds.proofs.evidence import Evidence, counted, new_log
from inbounds.proofs.samples import Proved
from naive_cspda import ragged
from test_contract import CASES, InTurn, problem_for
from test_samples import as_user_simulator, coin
from test_walks import HALF_HALF, SMALL, small_problem

QUEUE = ib.zoo.queue()


class Broken(Exception):
    """Raised by a user's step function."""


class Fuse:
    """Raises at the call with a given number, once."""

    def __init__(self, at: int | None, error: BaseException | None = None) -> None:
        self.calls, self.at, self.error = 0, at, error or Broken()

    def __call__(self, *_: Any) -> None:
        self.calls += 1
        if self.calls == self.at:
            raise self.error


def same(one: Any, two: Any) -> bool:
    return (
        np.array_equal(one.samples, two.samples)
        and np.array_equal(one.prices, two.prices, equal_nan=True)
        and len(one.policies) == len(two.policies) == len(one.averages_at) == len(two.averages_at)
        and all(
            np.array_equal(getattr(a, what), getattr(b, what))
            for a, b in zip(one.averages_at, two.averages_at, strict=True)
            for what in ("occupancy", "prices", "values")
        )
        and all(
            np.array_equal(a.probabilities, b.probabilities) for a, b in zip(one.policies, two.policies, strict=True)
        )
    )


def broken_off(call: Callable[[Any], Any], error: type[BaseException] = Broken) -> Any:
    """The `partial` of the exception that a call with ``resume=None`` ends with."""
    with pytest.raises(error) as raised:
        call(None)
    return raised.value.partial


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_step_that_fails_anywhere_loses_nothing(name: str) -> None:
    """Every algorithm; failing at random calls, and once more after the resume."""
    settings, rng = next(iter(CASES[name].values())), np.random.default_rng(len(name))
    (cmdp, settings), samples = problem_for(settings, "ragged"), 300
    arguments = {"samples": samples, "seed": 3, "checkpoints": [40, 150]}
    unbroken = ib.learn(cmdp.simulator(), settings, **arguments)
    for first in [1, 2, samples, *rng.integers(3, samples, 4)]:
        partial = broken_off(
            lambda resume, first=first: ib.learn(
                as_user_simulator(cmdp, Fuse(int(first))), settings, resume=resume, **arguments
            )
        )
        if partial is not None:
            assert partial.status == "interrupted" and partial.samples[-1] < first and partial.paused is not None
            assert partial.policy is None or len(partial.policies) == len(partial.samples)
        again = Fuse(int(rng.integers(1, samples)))
        try:
            run = ib.learn(as_user_simulator(cmdp, again), settings, resume=partial, **arguments)
        except Broken as error:
            run = ib.learn(as_user_simulator(cmdp, Fuse(None)), settings, resume=error.partial, **arguments)
        assert run.status == "done" and run.paused is None and same(run, unbroken)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_ctrl_c_between_pieces_of_compiled_kernels_loses_nothing(name: str) -> None:
    settings = next(iter(CASES[name].values()))
    cmdp, settings = problem_for(settings, "ragged")
    simulator = cmdp.simulator()
    arguments = {"samples": 2000, "seed": 1, "checkpoints": [700]}
    unbroken, partial = ib.learn(simulator, settings, **arguments), None
    for at in (1, 3, 2):
        with pytest.raises(KeyboardInterrupt) as raised:
            fuse = Fuse(at, KeyboardInterrupt())
            ib.learn(simulator, settings, resume=partial, progress=fuse, **arguments)
        partial = raised.value.partial
        assert partial.policy.probabilities.shape == (simulator.pairs.n_pairs,)
        assert partial.guarantee.startswith("none")
    run = ib.learn(simulator, settings, resume=partial, **arguments)
    assert same(run, unbroken) and same(ib.learn(simulator, settings, resume=partial, **arguments), unbroken)
    assert run.settings == unbroken.settings and run.guarantee == unbroken.guarantee


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if ALGORITHMS[name].algorithm.known is not None])
def test_iterations_on_a_known_model_are_resumed(name: str) -> None:
    settings, cmdp = next(iter(CASES[name].values())), ragged(2)
    arguments = {"iterations": 60, "checkpoints": [7, 30, 45]}
    unbroken = ib.iterate(cmdp, settings, **arguments)
    for at in (1, 2, 4):
        partial = broken_off(
            lambda resume, at=at: ib.iterate(
                cmdp, settings, progress=Fuse(at, KeyboardInterrupt()), resume=resume, **arguments
            ),
            KeyboardInterrupt,
        )
        assert partial.iterations[-1] < 60 and not partial.samples.any()
        run = ib.iterate(cmdp, settings, resume=partial, **arguments)
        assert same(run, unbroken) and np.array_equal(run.iterations, unbroken.iterations)
    short = ib.iterate(cmdp, settings, time_limit=1e-9, **arguments)
    assert short.status == "time limit" and short.iterations.tolist() == [1]
    assert "time limit" in repr(short) and same(ib.iterate(cmdp, settings, resume=short, **arguments), unbroken)


@pytest.mark.parametrize("settings", [ib.OPGPD.practical(iterations=20), ib.RPGPD(iterations=20)])
def test_the_iterations_of_a_plan_are_cut_and_gone_on_with(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call whose time is over before it begins makes one step, or one iteration of a plan."""
    monkeypatch.setattr(thoughts, "_LEAST", 1e-9)
    simulator, arguments = ragged(2).simulator(), {"samples": 100, "seed": 3}
    unbroken, run, begun = ib.learn(simulator, settings, **arguments), None, set()
    while run is None or run.status != "done":
        run = ib.learn(simulator, settings, time_limit=1e-9, resume=run, **arguments)
        if run.paused is not None and isinstance(run.paused.thoughts.begun, tuple):
            begun.add(run.paused.thoughts.begun[1])
        assert run.policy is not None
    assert begun == set(range(1, 20)) | (begun & {20}) and same(run, unbroken)


def test_plans_of_certified_learning_keep_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solve of its empirical model that is cut is gone on with, to the same bits."""
    solved, cuts = planning.best_mixture, iter([True, False, True, True, False, False, True])

    def cut(*asked: Any, limits: Any, **options: Any) -> Any:
        if limits.deadline is not None and next(cuts, False):
            raise ib.Stopped("time limit")
        return solved(*asked, limits=limits, **options)

    monkeypatch.setattr(planning, "best_mixture", cut)
    simulator, arguments = QUEUE.simulator(), {"samples": 30_000, "seed": 1}
    unbroken, run, calls = ib.learn_certified(simulator, **arguments), None, 0
    while run is None or run.status != "done":
        run, calls = ib.learn_certified(simulator, time_limit=1e6, resume=run, **arguments), calls + 1
    assert calls == 5 and run.samples == unbroken.samples and run.reason == unbroken.reason
    assert np.array_equal(run.candidate.probabilities, unbroken.candidate.probabilities)


def test_the_exception_stays_what_it_is() -> None:
    error = Broken("out of coffee")
    for call in (
        lambda simulator: ib.learn(simulator, ib.CSPDA(slater=0.2), samples=300),
        lambda simulator: ib.learn_certified(simulator, samples=3000),
        lambda simulator: ib.certify(HALF_HALF, simulator, samples=3000),
    ):
        with pytest.raises(Broken, match="out of coffee") as raised:
            call(as_user_simulator(SMALL, Fuse(100, error)))
        assert raised.value is error and error.partial.samples is not None  # type: ignore[attr-defined]


@pytest.mark.parametrize("cmdp", [SMALL, ib.zoo.media()], ids=["discounted", "horizon"])
def test_estimates_and_trajectories_so_far_are_those_of_a_shorter_call(cmdp: ib.CMDP) -> None:
    """Ctrl-C between two pieces of a kernel."""
    simulator, policy = cmdp.simulator(), ib.Policy.uniform(cmdp)
    stopped = {"seed": 1, "progress": Fuse(3, KeyboardInterrupt())}
    found = broken_off(lambda _: ib.estimate(simulator, policy, samples=10**6, **stopped), KeyboardInterrupt)
    short = ib.estimate(simulator, policy, samples=found.samples, seed=1)
    assert found.status == "interrupted" and found.walks == short.walks > 1
    assert found.reward == short.reward and np.array_equal(found.margins_interval, short.margins_interval)
    stopped = {"seed": 1, "progress": Fuse(3, KeyboardInterrupt())}
    seen = broken_off(lambda _: ib.simulate(simulator, policy, runs=10**4, **stopped), KeyboardInterrupt)
    fewer = ib.simulate(simulator, policy, runs=seen.runs, seed=1)
    assert seen.status == "interrupted" and seen.runs > 1
    assert np.array_equal(seen.states, fewer.states) and np.array_equal(seen.intervals, fewer.intervals)


@pytest.mark.parametrize("at", [1, 1_500])
def test_an_error_in_a_step_has_estimates_and_trajectories_so_far_unless_there_are_none(at: int) -> None:
    found = broken_off(lambda _: ib.estimate(as_user_simulator(SMALL, Fuse(at)), HALF_HALF, samples=10**4))
    seen = broken_off(lambda _: ib.simulate(as_user_simulator(SMALL, Fuse(at)), HALF_HALF, runs=10**4))
    if at == 1:
        assert found is None and seen is None
    else:
        whole = ib.simulate(as_user_simulator(SMALL), HALF_HALF, runs=seen.runs)
        assert 100 < found.samples < at and 1 < seen.runs < at and np.array_equal(seen.values, whole.values)


def test_exceptions_that_take_no_attributes_pass_unchanged() -> None:
    class Slotted(BaseException):
        __slots__ = ()

        def __setattr__(self, name: str, value: Any) -> None:
            if name == "partial":
                raise AttributeError(name)
            super().__setattr__(name, value)

    with pytest.raises(Slotted):
        ib.learn(as_user_simulator(SMALL, Fuse(9, Slotted())), ib.CSPDA(slater=0.2), samples=300)


class Fell(Exception):
    """With a `partial` of its own, which is none of the library's."""

    @property
    def partial(self) -> str:
        return "half of the floor"


class Guarded(Exception):
    """Which may be neither read nor written."""

    @property
    def partial(self) -> Any:
        raise ValueError("not yours to read")

    @partial.setter
    def partial(self, _: Any) -> None:
        raise ValueError("not yours to write")


@pytest.mark.parametrize("error", [Fell("robot fell"), Guarded("robot fell")], ids=["read-only", "guarded"])
def test_an_exception_with_a_partial_of_its_own_comes_out_and_what_is_known_is_kept(error: Exception) -> None:
    """(It was read as if it were a run: "'str' object has no attribute 'samples'".)"""
    for call in (
        lambda simulator: ib.learn(simulator, ib.CSPDA(slater=0.2), samples=300),
        lambda simulator: ib.learn_certified(simulator, samples=3000, learner=ib.CSPDA.practical()),
        lambda simulator: ib.learn_certified(simulator, samples=3000),
        lambda simulator: ib.certify(HALF_HALF, simulator, samples=3000),
        lambda simulator: ib.estimate(simulator, HALF_HALF, samples=3000),
    ):
        for at in (1, 200):
            with pytest.raises(type(error), match="robot fell") as raised:
                call(as_user_simulator(SMALL, Fuse(at, error)))
            assert raised.value is error
        assert pieces.attached(error).samples is not None


# Time limits


@pytest.mark.parametrize("name", ALGORITHMS)
def test_however_short_the_time_there_is_a_policy_and_a_way_on(name: str) -> None:
    settings = next(iter(CASES[name].values()))
    cmdp, settings = problem_for(settings, "ragged")
    simulator = cmdp.simulator()
    unbroken = ib.learn(simulator, settings, samples=500, seed=2)
    run = ib.learn(simulator, settings, samples=500, seed=2, time_limit=1e-9)
    assert run.status == "time limit" and 0 < run.samples[-1] < 500 and run.policy is run.policies[-1]
    assert np.isfinite(run.policy.probabilities).all()
    assert same(ib.learn(simulator, settings, samples=500, seed=2, resume=run), unbroken)


def test_many_short_times_make_a_whole_run() -> None:
    arguments = {"samples": 30, "seed": 2, "checkpoints": [5, 20], "time_limit": 1e-9}
    run = ib.learn(QUEUE.simulator(), ib.CSPDA(slater=0.2), **arguments)
    calls = 1
    while run.status != "done":
        run, calls = ib.learn(QUEUE.simulator(), ib.CSPDA(slater=0.2), resume=run, **arguments), calls + 1
    assert calls == 30 and same(
        run, ib.learn(QUEUE.simulator(), ib.CSPDA(slater=0.2), **arguments | {"time_limit": None})
    )


def slow(cmdp: ib.CMDP, seconds: float) -> ib.Simulator:
    return as_user_simulator(cmdp, lambda: time.sleep(seconds))


@pytest.mark.slow
def test_limits_and_progress_keep_time_with_a_slow_simulator() -> None:
    """5 ms a step: pieces are found by the clock, so neither waits for a number of samples."""
    told: list[float] = []
    began = time.perf_counter()
    run = ib.learn(
        slow(ragged(2), 0.005),
        ib.CSPDA(slater=0.2),
        samples=10_000,
        time_limit=1.5,
        progress=lambda drawn: told.append(time.perf_counter()),
    )
    assert run.status == "time limit" and 1.5 <= time.perf_counter() - began < 3.0
    assert max(np.diff([began, *told])) < 1.0


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), float("inf"), "soon", True])
def test_a_time_limit_is_a_number_of_seconds(limit: Any) -> None:
    simulator = QUEUE.simulator()
    for call in (
        lambda: ib.learn(simulator, ib.CSPDA(slater=0.2), samples=100, time_limit=limit),
        lambda: ib.iterate(QUEUE, ib.OPGPD(), time_limit=limit),
        lambda: ib.learn_certified(simulator, samples=1000, time_limit=limit),
        lambda: ib.certify(ib.Policy.uniform(QUEUE), simulator, samples=1000, time_limit=limit),
    ):
        what = "finite number" if limit == float("inf") else "number"
        with pytest.raises(ib.InvalidInput, match=f"time_limit must be a {what} of seconds above 0, found"):
            call()


# What is refused


def test_resume_wants_a_run_of_the_same_question() -> None:
    simulator, settings = QUEUE.simulator(), ib.CSPDA(slater=0.2)
    run = ib.learn(simulator, settings, samples=1000, seed=0, time_limit=1e-9)
    for what, change in (
        ("problem", {"simulator": QUEUE.tightened(0.1).simulator()}),
        ("problem", {"simulator": ragged(2).simulator()}),
        ("algorithm", {"algorithm": ib.CSPDA(slater=0.3)}),
        ("algorithm", {"algorithm": ib.CRPO()}),
        ("budget (samples, checkpoints, options)", {"samples": 1001}),
        ("budget (samples, checkpoints, options)", {"checkpoints": [10]}),
        ("seed", {"seed": 1}),
        ("seed", {"seed": np.random.SeedSequence(0)}),
    ):
        arguments = {"simulator": simulator, "algorithm": settings, "samples": 1000, "seed": 0} | change
        with pytest.raises(ib.InvalidInput, match=re.escape(f"resume is a run with another {what}: give the same")):
            ib.learn(resume=run, **arguments)
    done = ib.learn(QUEUE.simulator(), settings, samples=1000, seed=0, resume=run)  # another simulator of the same
    for wrong in (done, "run", QUEUE, ib.learn_certified(simulator, samples=1000, time_limit=1e-9)):
        with pytest.raises(ib.InvalidInput, match="resume must be the partial Run of an exception"):
            ib.learn(simulator, settings, samples=1000, seed=0, resume=wrong)


def test_a_seed_sequence_is_the_same_seed_when_it_says_the_same() -> None:
    arguments = {"samples": 500, "seed": np.random.SeedSequence(4)}
    run = ib.learn(QUEUE.simulator(), ib.CSPDA(slater=0.2), time_limit=1e-9, **arguments)
    again = ib.learn(QUEUE.simulator(), ib.CSPDA(slater=0.2), resume=run, samples=500, seed=np.random.SeedSequence(4))
    assert same(again, ib.learn(QUEUE.simulator(), ib.CSPDA(slater=0.2), **arguments))
    arguments["seed"] = np.random.SeedSequence(np.array([4, 5]))
    run = ib.learn(QUEUE.simulator(), ib.CSPDA(slater=0.2), time_limit=1e-9, **arguments)
    for entropy in (np.array([4, 5]), [4, 5]):
        arguments["seed"] = np.random.SeedSequence(entropy)
        assert ib.learn(QUEUE.simulator(), ib.CSPDA(slater=0.2), resume=run, **arguments).status == "done"
    for other in (np.random.SeedSequence([4, 6]), np.random.SeedSequence([4, 5], pool_size=8)):
        with pytest.raises(ib.InvalidInput, match="another seed"):
            ib.learn(QUEUE.simulator(), ib.CSPDA(slater=0.2), resume=run, **arguments | {"seed": other})


def test_what_is_proved_of_the_whole_run_is_not_said_of_a_part_of_it() -> None:
    """(Its guarantee was that of all samples: margins >= 0 in the mean, and the first sample's were -0.4.)"""
    one = ragged(1)
    covered, asked = ib.CSPDA(slater=0.2, constant=1195.5), {"samples": 10**15, "seed": 0}
    run = ib.learn(QUEUE.simulator(), covered, time_limit=1e-9, **asked)
    assert run.status == "time limit" and run.guarantee.startswith(
        "none yet, as the run is broken off; when it is over, after its 1,000,000,000,000,000 samples: the paper's "
        "Theorem 3: over runs, the expected margins are >= 0 and "
    )
    assert "guarantee: none yet" in str(run)
    again = ib.learn(QUEUE.simulator(), covered, time_limit=1e-9, resume=run, **asked)
    assert again.guarantee == run.guarantee and again.samples[-1] > run.samples[-1]

    asked = {"iterations": 30}
    for settings in (ib.NPGPD(price_step="journal"), ib.CRPO(tolerance=0.1), ib.RPGPD(eta=1e-6)):
        whole = ib.iterate(one, settings, **asked)
        assert not whole.guarantee.startswith("none")
        run = ib.iterate(one, settings, time_limit=1e-9, **asked)
        told = "none yet, as the run is broken off; when it is over, after its 30 iterations: " + whole.guarantee
        if isinstance(settings, ib.CRPO):  # which knows only then whether it had any to average
            told += ", unless no policy on the way had such margins"
        assert run.iterations[-1] < 30 and run.guarantee == told
        with pytest.raises(KeyboardInterrupt) as raised:
            ib.iterate(one, settings, resume=run, progress=Fuse(1, KeyboardInterrupt()), **asked)
        assert raised.value.partial.guarantee == told
        assert ib.iterate(one, settings, resume=raised.value.partial, **asked).guarantee == whole.guarantee

    nothing = ib.learn(QUEUE.simulator(), ib.CRPO(), samples=500).guarantee  # is proved of the whole run either
    assert ib.learn(QUEUE.simulator(), ib.CRPO(), samples=500, time_limit=1e-9).guarantee == nothing


@dataclass(frozen=True)
class Weighted:
    """An algorithm of one's own, with arrays among its settings."""

    weights: Any
    rate: float = 1.0
    algorithm: ClassVar = InTurn.algorithm


def test_a_guarantee_that_only_begins_like_none_is_not_taken_for_none() -> None:
    """(It was told of a broken run as if it held, and in units that break its ranges.)"""
    record, said = ib.CRPO.algorithm, "nonexpansive steps: within 0.1 of the optimum"

    def prepare(*given: Any) -> Any:
        return record.prepare(*given)._replace(guarantee=said)

    class Sure(ib.CRPO):
        algorithm = record._replace(prepare=prepare)

    broken = ib.learn(QUEUE.simulator(), Sure(), samples=10**7, time_limit=1e-9)
    assert broken.guarantee.startswith("none yet, as the run is broken off") and broken.guarantee.endswith(said)
    assert ib.learn(QUEUE.simulator(), Sure(), samples=100).guarantee == said
    outside = ib.learn(QUEUE.simulator(scale=False), Sure(), samples=100).guarantee
    assert outside.startswith("none: the units are as given") and said not in outside


def test_settings_with_arrays_go_on_with_equal_ones() -> None:
    """(The truth of an array with several entries was asked for, which NumPy refuses in a sentence of its own.)"""
    whole = ib.learn(QUEUE.simulator(), Weighted(np.ones(3)), samples=960)

    def first(weights: Any) -> Any:
        return ib.learn(QUEUE.simulator(), Weighted(weights), samples=960, time_limit=1e-9)

    def resumed(settings: Any, run: Any) -> Any:
        return ib.learn(QUEUE.simulator(), settings, samples=960, resume=run)

    for make in (
        lambda: np.ones(3),
        lambda: [np.ones(2), np.zeros(3)],
        lambda: {"a": (np.ones(2), 3), "b": np.zeros(0)},
        lambda: Weighted(np.ones(2)),
    ):
        assert same(resumed(Weighted(make()), first(make())), whole)
        for other in (Weighted(np.ones(4)), Weighted(np.array([1.0, 1.0, 2.0])), Weighted(make(), 2.0), Weighted(None)):
            with pytest.raises(ib.InvalidInput, match="resume is a run with another algorithm"):
                resumed(other, first(make()))


def test_units_as_given_are_part_of_the_question() -> None:
    settings, arguments = ib.CSPDA(slater=0.2), {"samples": 500, "seed": 0}
    given = QUEUE.simulator(scale=False)
    unbroken, run = ib.learn(given, settings, **arguments), ib.learn(given, settings, time_limit=1e-9, **arguments)
    resumed = ib.learn(QUEUE.simulator(scale=False), settings, resume=run, **arguments)
    assert same(resumed, unbroken) and resumed.guarantee == unbroken.guarantee
    with pytest.raises(ib.InvalidInput, match="another problem"):
        ib.learn(QUEUE.simulator(), settings, resume=run, **arguments)


def test_declared_ranges_are_part_of_the_question() -> None:
    """A proof under way was begun with them: what margins are at least, and what its bets are at least."""

    def simulator(low: float) -> ib.Simulator:
        return ib.Simulator(
            lambda state, action, rng: (0, 0.5, [rng.random()]), lambda rng: 0, states=1, actions=[0], discount=0.5,
            reward_range=(0, 1), constraints=[ib.Constraint(at_least=0.0, name="c")], signal_ranges=[(low, 1)],
        )  # fmt: skip

    policy, arguments = ib.Policy.uniform(simulator(0.0)), {"samples": 500, "seed": 0}
    run = ib.certify(policy, simulator(-1.0), time_limit=1e-9, **arguments)
    with pytest.raises(ib.InvalidInput, match="another problem"):
        ib.certify(policy, simulator(0.0), resume=run, **arguments)
    assert ib.certify(policy, simulator(-1.0), resume=run, **arguments).in_bounds


# Certified learning, and proofs


def same_certified(one: Any, two: Any) -> bool:
    probabilities = [None if run.policy is None else run.policy.probabilities.tobytes() for run in (one, two)]
    bounds = [[c.margins_lower.tobytes() for c in run.attempts] for run in (one, two)]
    return probabilities[0] == probabilities[1] and bounds[0] == bounds[1] and one.samples == two.samples


@pytest.mark.parametrize("learner", ["model", ib.CSPDA.practical(slater=0.3)], ids=["model", "cspda"])
@pytest.mark.parametrize("tight", [False, True], ids=["one attempt", "several attempts"])
def test_certified_learning_is_resumed_from_anywhere(
    learner: Any, tight: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In exploration, in pilots, in runs of an algorithm, in proofs, and among the starts."""
    monkeypatch.setattr("inbounds.algorithms.certified._STARTS", 200)
    cmdp = small_problem()
    cmdp = cmdp.tightened(0.8 * ib.slater(cmdp).value) if tight else cmdp.tightened(-0.3)
    arguments = {"samples": 1200, "seed": 5, "learner": learner}
    unbroken = ib.learn_certified(as_user_simulator(cmdp, Fuse(None)), **arguments)
    assert (len(unbroken.attempts) > 1) == tight and unbroken.status == "done" and unbroken.paused is None
    rng = np.random.default_rng(0)
    for first in [1, unbroken.samples, *rng.integers(2, unbroken.samples, 6)]:
        partial = broken_off(
            lambda resume, first=first: ib.learn_certified(
                as_user_simulator(cmdp, Fuse(int(first))), resume=resume, **arguments
            )
        )
        assert partial.status == "interrupted" and partial.policy is None and partial.samples < first
        assert partial.reason.startswith("no policy yet: interrupted after")
        again = Fuse(int(rng.integers(1, unbroken.samples)))
        try:
            run = ib.learn_certified(as_user_simulator(cmdp, again), resume=partial, **arguments)
            assert again.calls >= unbroken.samples - partial.samples
        except Broken as error:
            run = ib.learn_certified(as_user_simulator(cmdp, Fuse(None)), resume=error.partial, **arguments)
        assert same_certified(run, unbroken) and run.reason == unbroken.reason


@pytest.mark.parametrize("learner", ["model", ib.CSPDA.practical(slater=0.2)], ids=["model", "cspda"])
def test_certified_learning_in_many_short_times(learner: Any) -> None:
    arguments = {"samples": 5000, "seed": 1, "learner": learner}
    unbroken = ib.learn_certified(QUEUE.simulator(), **arguments)
    run = ib.learn_certified(QUEUE.simulator(), time_limit=1e-9, **arguments)
    assert run.status == "time limit" and run.policy is None and "time limit" in run.reason
    calls = 1
    while run.status != "done":
        limit = 1e-9 if calls < 25 else 0.01 * 1.1 ** (calls - 25)  # however slow the machine is, it comes to an end
        run, calls = ib.learn_certified(QUEUE.simulator(), time_limit=limit, resume=run, **arguments), calls + 1
        assert calls < 300
    assert calls > 5 and same_certified(run, unbroken)


def test_certificates_are_resumed_from_anywhere() -> None:
    cmdp, policy = coin(0.52)
    for value in (None, cmdp):
        arguments = {"samples": 1500, "seed": 2, "value": value}
        unbroken = ib.certify(policy, cmdp.simulator(), **arguments)
        for first in (1, 100, 200, 700, unbroken.samples):
            fused = as_user_simulator(cmdp, Fuse(first))
            partial = broken_off(
                lambda resume, fused=fused, given=arguments: ib.certify(policy, fused, resume=resume, **given)
            )
            assert not partial.in_bounds and partial.samples < first
            assert partial.margins_lower[0] <= unbroken.margins_lower[0]  # it holds like any other
            cert = ib.certify(policy, as_user_simulator(cmdp, Fuse(None)), resume=partial, **arguments)
            assert cert.margins_lower.tobytes() == unbroken.margins_lower.tobytes() and cert.paused is None
            assert (cert.samples, cert.reward_lower) == (unbroken.samples, unbroken.reward_lower)
        cert, calls = ib.certify(policy, cmdp.simulator(), time_limit=1e-9, **arguments), 1
        while cert.paused is not None:
            cert = ib.certify(
                policy, cmdp.simulator(), time_limit=1e-9 if calls < 20 else None, resume=cert, **arguments
            )
            calls += 1
        assert calls > 3 and cert.margins_lower.tobytes() == unbroken.margins_lower.tobytes()


def test_what_certificates_refuse_to_go_on_from() -> None:
    cmdp, policy = coin()
    cert = ib.certify(policy, cmdp.simulator(), samples=500, time_limit=1e-9)
    with pytest.raises(ib.InvalidInput, match="another budget"):
        ib.certify(policy, cmdp.simulator(), samples=500, resume=cert, value=cmdp)
    with pytest.raises(ib.InvalidInput, match="another budget"):
        ib.certify(policy, cmdp.simulator(), samples=500, resume=cert, confidence=0.9)
    with pytest.raises(ib.InvalidInput, match="resume must be the partial Certificate"):
        ib.certify(policy, cmdp.simulator(), samples=500, resume=ib.certify(policy, cmdp))
    with pytest.raises(ib.InvalidInput, match="resume= is for proofs from samples"):
        ib.certify(policy, cmdp, resume=cert)


# The pieces themselves


@pytest.mark.parametrize("speed", [1e2, 1e4, 1e7])
def test_pieces_find_their_length_by_the_clock(speed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock of our own, on which a sample takes 1 / speed: no piece is long, nor are many short."""
    now, lengths = [0.0], []
    monkeypatch.setattr(pieces.time, "perf_counter", lambda: now[0])

    def advance(done: int, until: int) -> int:
        lengths.append((until - done) / speed)
        now[0] += lengths[-1]
        return until

    number = int(20 * speed)
    assert Pace().pieces(advance, lambda done: None, 0, number) == number
    assert max(lengths) <= 0.5 and len(lengths) < 100 + 20 / 0.2
    lengths.clear()
    assert Pace(time_limit=3.0).pieces(advance, lambda done: None, 0, number) < number
    assert 3.0 <= sum(lengths) < 3.3


def test_what_goes_on_begins_with_a_piece_as_long_as_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty checkpoints are fifty pieces and the few that find the length, not five pieces for each of them.

    On a clock of our own: when steps get slow in between, the first piece after that is no longer than one that was
    allowed before, whatever short pieces a checkpoint has cut off.
    """
    now, ends, speed, pace = [0.0], [], 1e6, Pace()
    monkeypatch.setattr(pieces.time, "perf_counter", lambda: now[0])

    def advance(done: int, until: int) -> int:
        ends.append(until)
        now[0] += (until - done) / speed
        return until

    done = 0
    for checkpoint in range(2_000, 100_001, 2_000):
        done = pace.pieces(advance, lambda done: None, done, checkpoint, going_on=True)
    assert done == 100_000 and len(ends) <= 55
    started = now[0]
    pace.pieces(advance, lambda done: None, done, 10_000_000, going_on=True)
    assert now[0] - started == pytest.approx(9.9) and max(b - a for a, b in pairwise(ends)) <= 0.25 * speed
    ends.clear()
    pace.pieces(advance, lambda done: None, 0, 100)  # something else: its speed is not known
    assert ends[0] == 1


def test_a_copy_is_kept_of_what_changes_and_nothing_else() -> None:
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    moving = np.zeros(3)
    copy = kept((fixed, (moving, 2.0)))
    moving += 1.0
    assert copy[0] is fixed and copy[1][0].tolist() == [0.0] * 3 and copy[1][1] == 2.0


def test_what_is_done_once_is_not_done_again() -> None:
    first = Draws(0)
    drawn = first.once(lambda: (first.rng.random(), 1))
    second = Draws(0, resume=first.paused)
    assert second.once(lambda: pytest.fail("done again")) == drawn
    assert second.rng.random() == first.rng.random() and second.samples == 1


def test_a_proof_that_fails_says_how_many_samples_would_probably_do() -> None:
    """Of 10 runs with the number named, most succeed; those of 1,000 samples fail."""
    hard = QUEUE.tightened(0.99 * ib.slater(QUEUE).value)
    run = ib.learn_certified(hard.simulator(), samples=1000, seed=0)
    assert run.policy is None and run.candidate is not None and run.status == "done"
    found = re.search(r"; about ([0-9,]+) samples in all would probably do$", run.reason)
    assert found is not None
    number = int(found[1].replace(",", ""))
    assert 2000 <= number <= 1_000_000
    proved = [ib.learn_certified(hard.simulator(), samples=number, seed=seed).policy for seed in range(1, 11)]
    assert sum(policy is not None for policy in proved) > 5


def test_the_number_of_samples_follows_the_formula() -> None:
    """Proofs need about (z / m)^2 variances of a walk, m the margin of the walks or the model's, if that is more."""

    def said(bias: float, mean: float, samples: int = 2000, careful: bool = True) -> str:
        cmdp, _ = coin(bias, discount=0.0)
        simulator = cmdp.simulator()
        evidence = Evidence(simulator)
        evidence.add_starts(Draws(0), 10**6)
        evidence.try_pairs(Draws(1), np.full(2, 10**6))
        variance, least = np.full(2, 0.04), np.full(2, -1.0)
        stakes = make_stakes(least, np.full(2, mean), variance, 0.01, samples, 0.0)
        nothing, many = counted(new_log(simulator, 0)), Book(np.zeros((10**6, 2)), np.arange(10**6))
        played = Played(stakes, many, np.full(2, -1.0), np.ones(2))
        means, none = np.array([0.5, mean]), np.zeros(2, dtype=bool)
        proved = Proved(np.full(2, -0.1), means, 100, False, nothing, variance, none, played)
        return certified._enough(proved, evidence, 1000, careful)

    def number(text: str) -> int:
        found = re.fullmatch(r"about ([0-9,]+) samples in all would probably do", text)
        assert found is not None
        return int(found[1].replace(",", ""))

    # z = 2.33 and two standard errors to spare, of a mean less its standard error, .0002.
    assert number(said(0.0, mean=0.0102)) == pytest.approx(((4.33 * 0.2 / 0.01) ** 2) / 1.6, rel=0.1)
    assert number(said(0.0, mean=0.4)) == 2000  # no less than twice
    assert number(said(1.0, mean=0.0001)) == 2000  # the model says that a margin of 1 can be had
    assert said(0.0, mean=-0.1).startswith("how many would do cannot be told")
    told = "how many would do cannot be told: as far as they show, what this learner finds may have no margin to prove"
    assert said(1.0, mean=-0.1, careful=False) == told  # whatever the model says
    assert said(0.0, mean=0.0003) == "even 1e+09 times as many would not do" or number(said(0.0, mean=0.0003)) > 10**6


def test_a_learner_that_does_not_grow_careful_promises_nothing() -> None:
    """(The paper's CRPO on the queue named 210,000 samples, then 420,000, and so on; none of them would do.)"""
    run = ib.learn_certified(QUEUE.simulator(), samples=600, seed=1, learner=ib.CRPO())
    assert run.policy is None and "what this learner finds may have no margin to prove" in run.reason


def test_what_has_ended_before_its_first_step_is_not_waited_for() -> None:
    calls = iter(range(3))

    def nothing(done: int, until: int) -> int:
        next(calls)
        return done

    assert Pace().pieces(nothing, lambda done: None, 0, 10, ended=lambda: True) == 0


@pytest.mark.parametrize("settings", [ib.CSPDA(), ib.NPGPD(), ib.PDSC()], ids=lambda settings: type(settings).__name__)
def test_what_estimates_a_slater_constant_is_a_part_of_the_run(settings: Any) -> None:
    """(A tenth of the budget, drawn in one piece: lost by an error, and drawn whatever the time limit.)"""
    arguments: dict[str, Any] = {"samples": 1_200, "seed": 2, "checkpoints": [300]}
    unbroken = ib.learn(QUEUE.simulator(), settings, **arguments)
    for at in (2, 50, 119, 120, 121, 150):
        with pytest.raises(Broken) as caught:
            ib.learn(as_user_simulator(QUEUE, Fuse(at)), settings, **arguments)
        partial = caught.value.partial
        assert 0 < partial.samples[-1] < at
        run = ib.learn(as_user_simulator(QUEUE, Fuse(None)), settings, resume=partial, **arguments)
        assert same(run, unbroken) and run.settings == unbroken.settings and run.guarantee == unbroken.guarantee

    def slow(*_: Any) -> None:
        time.sleep(0.005)

    begun = time.perf_counter()
    run = ib.learn(as_user_simulator(QUEUE, slow), settings, time_limit=0.1, **arguments)
    assert run.status == "time limit" and 0 < run.samples[-1] < 100
    assert run.guarantee.startswith("none: the Slater constant is not estimated yet")
    assert time.perf_counter() - begun < 60.0


# Generators that a step spawns


def spawning(bound: float) -> ib.Simulator:
    """A coin that is thrown by a generator of its own; a margin of `bound` - 1/2."""

    def step(state: Any, action: Any, rng: np.random.Generator) -> tuple[int, float, list[float]]:
        return 0, float(rng.random()), [float(rng.spawn(1)[0].random() < 0.5)]

    return ib.Simulator(
        step,
        lambda rng: int(rng.spawn(1)[0].integers(1)),
        states=1,
        actions=["a", "b"],
        discount=0.5,
        reward_range=(0, 1),
        constraints=[ib.Constraint(at_most=bound, name="c")],
        signal_ranges=[(0, 1)],
    )


@pytest.mark.parametrize("settings", [ib.CSPDA(slater=0.2), ib.CRPO.practical(), ib.ModelBased.practical()])
def test_what_a_step_spawns_goes_on_too(settings: Any) -> None:
    simulator, arguments = spawning(0.6), {"samples": 300, "seed": 3}
    unbroken, run = ib.learn(simulator, settings, **arguments), None
    while run is None or run.status != "done":
        run = ib.learn(simulator, settings, time_limit=1e-9 if run is None else 0.05, resume=run, **arguments)
    assert same(run, unbroken)


def test_proofs_that_go_on_see_no_draw_twice() -> None:
    """Every walk after a break was a copy of an earlier one: 4 of 20 proofs at 99 % were false."""
    simulator, policy = spawning(0.6), ib.Policy.uniform(spawning(0.6))
    for seed in range(3):
        arguments = {"confidence": 0.9, "samples": 60, "seed": seed, "value": np.zeros((2, 2))}
        unbroken = ib.certify(policy, simulator, **arguments)
        cert = ib.certify(policy, simulator, time_limit=1e-9, **arguments)
        calls = 1
        while cert.paused is not None:
            cert, calls = ib.certify(policy, simulator, time_limit=1e-9, resume=cert, **arguments), calls + 1
        assert calls > 5 and cert.margins_lower.tobytes() == unbroken.margins_lower.tobytes()


def test_certified_learning_that_spawns_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inbounds.algorithms.certified._STARTS", 50)
    simulator, arguments = spawning(0.9), {"samples": 600, "seed": 0, "confidence": 0.9}
    unbroken, run = ib.learn_certified(simulator, **arguments), None
    while run is None or run.status != "done":
        run = ib.learn_certified(simulator, time_limit=1e-9 if run is None else 0.02, resume=run, **arguments)
    assert same_certified(run, unbroken)


@pytest.mark.parametrize("spawned", [0, 2])
def test_a_seed_sequence_of_the_user_is_left_as_it_is(spawned: int) -> None:
    seed = np.random.SeedSequence(3)
    seed.spawn(spawned)
    simulator, policy = spawning(0.6), ib.Policy.uniform(spawning(0.6))
    for ask in (
        lambda: ib.learn(simulator, ib.CSPDA(slater=0.2), samples=100, seed=seed).policy.probabilities,
        lambda: ib.certify(policy, simulator, samples=60, seed=seed).margins_lower,
        lambda: ib.estimate(simulator, policy, samples=60, seed=seed).margins,
        lambda: ib.simulate(simulator, policy, steps=5, seed=seed).signals,
    ):
        assert ask().tobytes() == ask().tobytes() and seed.n_children_spawned == spawned
    run = ib.learn(simulator, ib.CSPDA(slater=0.2), samples=100, seed=seed, time_limit=1e-9)
    with pytest.raises(ib.InvalidInput, match="another seed"):
        other = np.random.SeedSequence(3, n_children_spawned=7)
        ib.learn(simulator, ib.CSPDA(slater=0.2), samples=100, seed=other, resume=run)


def test_a_proof_under_way_that_has_come_far_enough_has_its_policy() -> None:
    """It said that there is no policy yet, above a certificate that it is in bounds."""

    def step(state: Any, action: Any, rng: np.random.Generator) -> tuple[int, float, list[float]]:
        return 0, float(rng.random() < 0.5), [float(rng.random() < (0.1 if action == "a" else 0.9))]

    simulator = ib.Simulator(
        step,
        lambda rng: 0,
        states=1,
        actions=["a", "b"],
        discount=0.5,
        reward_range=(0, 1),
        constraints=[ib.Constraint(at_most=0.6, name="c")],
        signal_ranges=[(0, 1)],
    )
    arguments = {"samples": 4000, "seed": 0, "confidence": 0.9, "learner": ib.CSPDA.practical()}
    whole, with_policy = ib.learn_certified(simulator, **arguments), 0
    assert whole.policy is not None
    for at in range(whole.samples - 300, whole.samples, 20):

        def stop(done: int, at: int = at) -> None:
            if done >= at:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt) as raised:
            ib.learn_certified(simulator, progress=stop, **arguments)
        partial = raised.value.partial
        proved = partial.certificate is not None and partial.certificate.in_bounds
        assert (partial.policy is not None) == proved == ("no policy yet" not in partial.reason)
        with_policy += proved
        assert same_certified(ib.learn_certified(simulator, resume=partial, **arguments), whole)
    assert with_policy > 0


REWARD, MARGIN = [0.0, 1.0, 0.3, 0.6], [1.0, -1.0, 0.5, -0.2]


class Game:
    """A world that cannot be set: `start` begins an episode, and a step leads on from where it is, whatever it is told.

    It notes where a learner takes it to be elsewhere, and episodes that begin in the middle of another; one of its
    steps fails.
    """

    def __init__(self, cmdp: ib.CMDP, length: int, at: int | None) -> None:
        self.cmdp, self.length, self.at = cmdp, length, at
        self.rows, self.steps, self.state, self.left, self.wrong = cmdp.transitions[0].toarray(), 0, 0, 0, 0

    def start(self, rng: np.random.Generator) -> int:
        self.state, self.left = int(rng.choice(self.cmdp.n_states, p=self.cmdp.initial)), self.length
        return self.state

    def step(self, state: int, action: int, rng: np.random.Generator) -> tuple[int, float, list[float]]:
        self.steps += 1
        if self.steps == self.at:
            raise Broken
        self.wrong += state != self.state or self.left == 0
        pair = int(self.cmdp.pairs.offsets[self.state]) + action
        self.state, self.left = int(rng.choice(self.cmdp.n_states, p=self.rows[pair])), self.left - 1
        return self.state, REWARD[pair], [MARGIN[pair]]

    def simulator(self) -> ib.Simulator:
        signals = [ib.Constraint(at_least=0.0, name="g")]
        ranges = {"reward_range": (0.0, 1.0), "constraints": signals, "signal_ranges": [(-1.0, 1.0)]}
        return ib.Simulator(
            self.step, self.start, states=self.cmdp.n_states, actions=[0, 1], **ranges, **self.cmdp.criterion
        )


def game(kind: str) -> tuple[ib.CMDP, int]:
    """Two states, two actions, one bound; and how many steps an episode has."""
    cmdp = ib.CMDP(
        offsets=[0, 2, 4],
        transition=[[0.5, 0.5], [0.9, 0.1], [0.2, 0.8], [0.6, 0.4]],
        reward=REWARD,
        constraints=[ib.Constraint(MARGIN, at_least=0.0, name="g")],
        initial=[0.5, 0.5],
        **({"horizon": 7} if kind == "horizon" else {"discount": 0.5}),
    )
    return cmdp, 7 if kind == "horizon" else 10  # 2^-10 <= 1e-3, where it is truncated


ONLINE = [
    name
    for name, one in ALGORITHMS.items()
    if (one.algorithm.access, one.algorithm.criterion) == ("online", "finite-horizon")
]


@pytest.mark.parametrize("kind", ["horizon", "discount"])
@pytest.mark.parametrize("name", ONLINE)
def test_a_world_that_cannot_be_set_goes_on_with_a_start(name: str, kind: str) -> None:
    """Broken off by an error, or by the time, in the middle of an episode: no move is counted that never happened.

    Checkpoints are inside episodes, and what is left over at the end is less than one.
    """
    (cmdp, length), rng = game(kind), np.random.default_rng(len(name))
    safe = {"safe": ib.Policy.uniform(cmdp)} if name in ("optpess-lp", "dope") else {}
    settings, samples = ALGORITHMS[name].practical(**safe), 18 * length + 3
    arguments = {"samples": samples, "seed": 5, "checkpoints": [length + 2, 9 * length + 1]}
    unbroken = ib.learn(Game(cmdp, length, None).simulator(), settings, **arguments)
    assert unbroken.samples.tolist() == [length + 2, 9 * length + 1, samples]
    for at in (3, length + 4, 9 * length + 3, samples - 1, *rng.integers(1, samples, 3).tolist()):
        world = Game(cmdp, length, int(at))
        partial = broken_off(
            lambda resume, world=world: ib.learn(world.simulator(), settings, resume=resume, **arguments)
        )
        assert partial.samples[-1] % length == 0
        late = ib.learn(world.simulator(), settings, resume=partial, time_limit=1e-9, **arguments)
        assert late.status == "time limit" or late.samples[-1] == samples
        run = late if late.paused is None else ib.learn(world.simulator(), settings, resume=late, **arguments)
        assert run.status == "done" and run.samples.tolist() == unbroken.samples.tolist() and world.wrong == 0
