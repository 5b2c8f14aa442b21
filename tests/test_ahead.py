"""Outcomes drawn ahead: the same bits whatever the number of workers, also when a run is broken off."""

from __future__ import annotations

import copy
import errno
import os
import pickle
import signal
import threading
from collections import Counter

import numpy as np
import pytest

import inbounds as ib
from inbounds.problem.ahead import Outcomes, Source
from inbounds.workers import WorkerLost


def drift(state, action, rng):
    after = min(max(state + int(rng.integers(-1, 2)) + action, 0), 4)
    return after, after / 4.0, [float(action)]


def first(rng):
    return int(rng.integers(5))


def drift_of_many(states, actions, rng):
    after = np.clip(np.array(states) + rng.integers(-1, 2, size=len(states)) + np.array(actions), 0, 4)
    return after.tolist(), after / 4.0, [[float(action)] for action in actions]


def line(step=drift, **how) -> ib.Simulator:
    return ib.Simulator(
        step, first, states=5, actions=[0, 1], discount=0.8, reward_range=(0, 1),
        constraints=[ib.Constraint(at_most=0.5, name="pushes")], signal_ranges=[(0, 1)], **how,
    )  # fmt: skip


def test_outcomes_depend_on_key_pair_and_number_alone() -> None:
    """Against the definition, in two orders."""

    def outcomes(order: list[int]) -> dict[tuple[int, int], object]:
        drawn: Counter[int] = Counter()
        ahead, found = Outcomes(Source(drift, False, None), lambda pair: (pair // 2, pair % 2), 10), {}
        for pair in order:
            found[pair, drawn[pair]] = ahead.take(pair, np.random.default_rng(7))
            drawn[pair] += 1
        return found

    rng = np.random.default_rng(0)
    random, in_turn = outcomes(rng.integers(10, size=600).tolist()), outcomes([*range(10)] * 60)
    shared = random.keys() & in_turn.keys()
    assert len(shared) > 400 and all(random[each] == in_turn[each] for each in shared)
    key, number = np.random.default_rng(7).integers(1, 2**63, size=2, dtype=np.uint64), 0
    for block in range(50):  # of pair 3: blocks of a 32nd of what came before, at least 1
        stream = np.random.default_rng([int(key[0]), int(key[1]), 3, block])
        for _ in range(max(number // 32, 1)):
            assert in_turn[3, number] == drift(1, 1, stream)
            number += 1


@pytest.mark.parametrize("algorithm", [ib.ModelBased(), ib.CRPO.practical()], ids=lambda one: type(one).__name__)
def test_runs_do_not_depend_on_the_number_of_workers(algorithm) -> None:
    runs = [ib.learn(line(jobs=jobs), algorithm, samples=600, seed=3, checkpoints=3) for jobs in (1, 2)]
    for one, other in zip(runs[0].policies, runs[1].policies, strict=True):
        assert one.probabilities.tobytes() == other.probabilities.tobytes()


def test_a_simulator_at_work_can_be_copied_and_sent() -> None:
    """Its workers stay behind."""
    simulator = line(drift, jobs=2)
    runs = [ib.learn(simulator, ib.ModelBased(), samples=300, seed=3)]
    for other in (copy.copy(simulator), copy.deepcopy(simulator), pickle.loads(pickle.dumps(simulator)), simulator):
        runs.append(ib.learn(other, ib.ModelBased(), samples=300, seed=3))
    assert all(run.policy == runs[0].policy for run in runs)


def test_workers_serve_proofs_and_estimates_too() -> None:
    simulator = line(jobs=2)
    policy = ib.Policy.from_rule(simulator, lambda state: {0: 0.8, 1: 0.2})
    assert ib.certify(policy, simulator, samples=3_000, confidence=0.9, seed=0).in_bounds
    found = ib.estimate(simulator, policy, samples=2_000, seed=0)
    assert abs(found.margins[0] - 0.3) < 5 * found.margins_error[0]


@pytest.mark.parametrize("how", [{"jobs": 2}, {"vectorised": True}, {"vectorised": True, "jobs": 1}], ids=str)
def test_a_run_that_is_broken_off_ends_with_the_same_bits(how) -> None:
    simulator = line(drift_of_many if "vectorised" in how else drift, **how)
    whole = ib.learn(simulator, ib.CRPO.practical(), samples=500, seed=1)
    run, parts = None, 0
    while run is None or run.status != "done":
        run = ib.learn(simulator, ib.CRPO.practical(), samples=500, seed=1, time_limit=1e-9, resume=run)
        parts += 1
    assert parts > 2 and run.policy.probabilities.tobytes() == whole.policy.probabilities.tobytes()
    certified = ib.learn_certified(simulator, samples=1_500, confidence=0.9, seed=1)
    partial = None
    while partial is None or partial.status != "done":
        partial = ib.learn_certified(simulator, samples=1_500, confidence=0.9, seed=1, time_limit=0.1, resume=partial)
    assert partial.reason == certified.reason and partial.samples == certified.samples


class Needing(Exception):
    """Cannot be put together from its `args`."""

    def __init__(self, part: str, number: int) -> None:
        super().__init__(f"the {part} is {number}")


def needing(state, action, rng):
    raise Needing("valve", 7)


def test_an_error_that_cannot_be_sent_comes_back_in_words() -> None:
    """And not as a worker that was killed, after which to go on would help."""
    with pytest.raises(RuntimeError, match=r"Needing: the valve is 7") as caught:
        ib.learn(line(needing, jobs=1), ib.ModelBased(), samples=100)
    assert not isinstance(caught.value, WorkerLost)


def test_a_step_that_cannot_be_sent_is_refused_by_name() -> None:
    lock = threading.Lock()

    def locked(state, action, rng):
        with lock:
            return drift(state, action, rng)

    simulator = line(locked, jobs=1)
    for _ in range(2):
        with pytest.raises(ib.InvalidInput, match=r"step cannot be sent to worker processes .*leave jobs out"):
            ib.learn(simulator, ib.ModelBased(), samples=100)


class OnePipe:
    """The module `os` for someone who may have one pipe."""

    pipes = 0

    def __getattr__(self, name):
        return getattr(os, name)

    def pipe(self):
        self.pipes += 1
        if self.pipes > 1:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return os.pipe()


def test_too_few_processes_for_workers_are_told_before_any_is_started(monkeypatch) -> None:
    """loky would wait for ever."""

    def refused(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(WorkerLost, match=r"worker processes cannot be started \(resource temporarily unavailable\)"):
        ib.learn(line(jobs=1), ib.ModelBased(), samples=100)


def test_too_few_files_for_workers_are_not_blamed_on_step(monkeypatch) -> None:
    """Even where loky, which clears up after the pipes of a worker, fails there in turn."""
    monkeypatch.setattr("joblib.externals.loky.backend.popen_loky_posix.os", OnePipe())
    with pytest.raises(WorkerLost, match=r"worker processes cannot be started \(too many open files\); raise what is"):
        ib.learn(line(jobs=1), ib.ModelBased(), samples=100)


@pytest.mark.parametrize("how", [{}, {"jobs": 1}, {"vectorised": True}], ids=str)
@pytest.mark.parametrize("make", [lambda told: {"pushes": told}.values(), lambda told: memoryview(np.array([told]))])
def test_whatever_has_an_order_is_a_list_of_signals(make, how) -> None:
    """(With jobs=, or vectorised, a view of a dict was refused, which cannot be copied.)"""

    def signals(action):
        return make(0.5 * action)

    def step(state, action, rng):
        return *drift(state, action, rng)[:2], signals(action)

    def step_many(states, actions, rng):
        return *drift_of_many(states, actions, rng)[:2], [signals(action) for action in actions]

    simulator = line(step_many if "vectorised" in how else step, **how)
    found = ib.estimate(simulator, ib.Policy.uniform(simulator), samples=500, seed=0)
    assert 0.1 < found.margins[0] < 0.4


@pytest.mark.parametrize("how", [{"jobs": 1}, {"vectorised": True}], ids=str)
def test_signals_may_be_told_one_by_one(how) -> None:
    shared = [0.0]

    def telling(state, action, rng):
        shared[0] = rng.random()
        return *drift(state, action, rng)[:2], (each for each in shared)

    def telling_many(states, actions, rng):
        after, rewards, _ = drift_of_many(states, actions, rng)
        return after, rewards, ((each for each in [0.5 * action]) for action in actions)

    def plain(state, action, rng):
        told = rng.random()
        return *drift(state, action, rng)[:2], [told]

    def plain_many(states, actions, rng):
        return *drift_of_many(states, actions, rng)[:2], [[0.5 * action] for action in actions]

    steps = (telling_many, plain_many) if "vectorised" in how else (telling, plain)
    one, other = (ib.learn(line(step, **how), ib.ModelBased(), samples=300, seed=3) for step in steps)
    assert one.policy == other.policy


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_has_workers_of_its_own(capfd) -> None:
    """It would wait for ever for those of the process before it, which answer that one."""
    simulator = line(jobs=1)
    before = ib.learn(simulator, ib.ModelBased(), samples=300, seed=3)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        same = ib.learn(simulator, ib.ModelBased(), samples=300, seed=3).policy == before.policy
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert ib.learn(simulator, ib.ModelBased(), samples=300, seed=3).policy == before.policy


class Reusing:
    """Steps that return the same objects again and again, with other numbers in them; or new ones each time."""

    def __init__(self, again: bool) -> None:
        self.again, self.outcome, self.table = again, [0, 0.0, [0.0]], np.zeros((2_000, 3))

    def one(self, state, action, rng):
        outcome = self.outcome if self.again else [0, 0.0, [0.0]]
        outcome[0], outcome[1] = drift(state, action, rng)[:2]
        outcome[2][0] = rng.random()
        return outcome

    def many(self, states, actions, rng):
        table = self.table if self.again else np.zeros((2_000, 3))
        rows = table[: len(states)]
        rows[:, 0], rows[:, 1] = drift_of_many(states, actions, rng)[:2]
        rows[:, 2] = rng.random(len(states))
        return rows[:, 0].astype(int), rows[:, 1], rows[:, 2:]


@pytest.mark.parametrize("how", [{"jobs": 1}, {"jobs": 2}, {"vectorised": True}], ids=str)
def test_a_step_may_return_the_same_list_again(how) -> None:
    """Outcomes are read after others were drawn."""
    steps = [getattr(Reusing(again), "many" if "vectorised" in how else "one") for again in (False, True)]
    runs = [ib.learn(line(step, **how), ib.ModelBased(), samples=900, seed=3) for step in steps]
    assert runs[0].policy == runs[1].policy and runs[0].prices.tobytes() == runs[1].prices.tobytes()
    policy = ib.Policy.uniform(line())
    proofs = [ib.certify(policy, line(step, **how), samples=900, seed=3) for step in steps]
    assert proofs[0].reward_lower == proofs[1].reward_lower
    assert proofs[0].margins_lower.tobytes() == proofs[1].margins_lower.tobytes()


class Place:
    """A label that is equal to itself alone."""


class OnlyThere:
    """What can be sent, and not put together again."""

    def __init__(self, state):
        self.state = state

    def __reduce__(self):
        return OnlyThere, ()

    def __repr__(self):
        return "<only there>"


def test_labels_stay_the_objects_that_they_are() -> None:
    here, there = Place(), Place()

    def step(states, actions, rng):
        return [there if rng.random() < 0.5 else here for _ in states], [0.0] * len(states), [[] for _ in states]

    simulator = ib.Simulator(
        step, lambda rng: here, states=[here, there], actions=[0, 1], discount=0.5, reward_range=(0, 1), vectorised=True
    )
    assert ib.learn(simulator, ib.ModelBased(), samples=200, seed=0).policy.probabilities.shape == (4,)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (("at", Place()), r"state \('at', <.*Place.*>\) comes back from worker processes as another object"),
        (Place(), "state <.*Place.*> comes back from worker processes as another object"),
        (threading.Lock(), "states cannot be sent to worker processes"),
    ],
    ids=["tuple", "object", "lock"],
)
def test_labels_that_workers_would_not_bring_back_are_refused_by_name(label, message) -> None:
    asked = {"states": [0, label], "actions": [0], "discount": 0.5, "reward_range": (0, 1)}
    ib.Simulator(drift, first, **asked)
    with pytest.raises(ib.InvalidInput, match=f"{message}.*; name states by numbers, texts .* or leave jobs out"):
        ib.Simulator(drift, first, **asked, jobs=1)


def test_vectorised_steps_have_the_right_law() -> None:
    """Next states of one pair: three of equal probability, beyond 5 standard errors one seed in a million."""
    simulator = line(drift_of_many, vectorised=True)
    world, rng, draws = simulator.open(), np.random.default_rng(0), 3_000
    counts = Counter(world.draw_next(4, rng) for _ in range(draws))  # state 2, action 0
    assert set(counts) == {1, 2, 3}
    assert all(abs(count - draws / 3) < 5 * np.sqrt(draws * 2 / 9) for count in counts.values())


def failing(state, action, rng):
    if state == 2:
        raise ZeroDivisionError("at two")
    return drift(state, action, rng)


@pytest.mark.parametrize("how", [{}, {"jobs": 1}], ids=str)
def test_an_error_in_a_step_comes_back_with_what_is_known(how) -> None:
    with pytest.raises(ZeroDivisionError, match="at two") as error:
        ib.learn(line(failing, **how), ib.CRPO.practical(), samples=500, seed=1)
    assert hasattr(error.value, "partial")


def picky(state, action, rng):
    if (state, action) == (3, 1):
        raise ZeroDivisionError("at three")
    return drift(state, action, rng)


def test_an_error_in_a_message_of_several_blocks_is_that_of_its_own_pair() -> None:
    """Pairs are asked for in turn, so that pair 7 fails in a message that begins with others."""
    outcomes = Outcomes(Source(picky, False, 1), lambda pair: (pair // 2, pair % 2), 10)
    rng = np.random.default_rng(0)
    for _ in range(3):
        for pair in range(7):
            outcomes.take(pair, rng)
        with pytest.raises(ZeroDivisionError, match="at three"):
            outcomes.take(7, rng)
        for pair in (8, 9):
            outcomes.take(pair, rng)


def test_messages_have_several_blocks_while_the_workers_are_busy(monkeypatch) -> None:
    source = Source(drift, False, 2)
    outcomes, rng, messages = Outcomes(source, lambda pair: (pair // 2, pair % 2), 10), np.random.default_rng(0), []
    send = source.send
    monkeypatch.setattr(Source, "busy", property(lambda source: len(messages) > 4))
    monkeypatch.setattr(source, "send", lambda blocks: (messages.append(len(blocks)), send(blocks))[1])
    alone = Outcomes(Source(drift, False, None), outcomes.labels, 10)
    for pair in [*range(10)] * 30:
        assert outcomes.take(pair, rng) == alone.take(pair, np.random.default_rng(0))
    assert messages[:4] == [1, 1, 1, 1] and sum(messages) > 2 * len(messages)
    assert len(source._sent) < len(messages)  # what was answered is not kept


def dying(state, action, rng):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_is_one_sentence() -> None:
    with pytest.raises(WorkerLost, match="a worker process of the simulator was killed, or ran out of memory; go on"):
        ib.learn(line(dying, jobs=1), ib.CRPO.practical(), samples=500, seed=1)


def dying_once(state, action, rng):
    if os.path.exists(os.environ["INBOUNDS_TEST_DEATH"]):
        os.remove(os.environ["INBOUNDS_TEST_DEATH"])
        os.kill(os.getpid(), signal.SIGKILL)
    return drift(state, action, rng)


def test_the_same_simulator_goes_on_after_a_worker_was_killed(tmp_path, monkeypatch) -> None:
    death, asked = tmp_path / "death", {"samples": 600, "seed": 1}
    monkeypatch.setenv("INBOUNDS_TEST_DEATH", str(death))
    simulator = line(dying_once, jobs=1)
    unbroken = ib.learn(line(jobs=1), ib.CRPO.practical(), **asked)
    death.touch()
    with pytest.raises(WorkerLost) as lost:
        ib.learn(simulator, ib.CRPO.practical(), **asked)
    resumed = ib.learn(simulator, ib.CRPO.practical(), resume=lost.value.partial, **asked)
    assert (
        resumed.policy == unbroken.policy and ib.learn(simulator, ib.CRPO.practical(), **asked).policy == resumed.policy
    )


def test_another_way_to_call_step_is_refused_by_name() -> None:
    """It gives other bits for the same seed; the number of jobs does not."""
    asked = {"algorithm": ib.CRPO.practical(), "samples": 600, "seed": 1}
    many = line(drift_of_many, vectorised=True)
    for simulator, others in ((line(), [line(jobs=1), many]), (line(jobs=2), [line(), many]), (many, [line()])):
        run = ib.learn(simulator, time_limit=1e-9, **asked)
        for other in others:
            with pytest.raises(ib.InvalidInput, match="another way to call step"):
                ib.learn(other, resume=run, **asked)
    run = ib.learn(line(jobs=2), time_limit=1e-9, **asked)
    assert ib.learn(line(jobs=1), resume=run, **asked).policy == ib.learn(line(jobs=1), **asked).policy


@pytest.mark.parametrize(
    ("step", "how", "message"),
    [
        (drift, {"jobs": 0}, "jobs must be a whole number of at least 1, found 0"),
        (drift, {"jobs": 100_000}, "jobs must be a whole number of at most 1,000, found 100000"),
        (drift, {"vectorised": "yes"}, "vectorised must be True or False, found 'yes'"),
        (lambda s, a, rng: 5, {"vectorised": True}, "a vectorised step must return .* found int for 1 times state"),
        (
            lambda s, a, rng: (s[:-1], [0.0], [[0.0]]),
            {"vectorised": True},
            "as many next states, rewards and lists of signals as it was given states, 1; found 0, 1, 1",
        ),
        (lambda s, a, rng: (["x"], [0.0], [[0.0]]), {"vectorised": True}, "gave the state 'x', which is not one of"),
        # What cannot be copied, or sent back by a worker.
        (lambda s, a, rng: (s, [0.0], [threading.Lock()]), {"vectorised": True}, "signals must be a list, .*lock"),
        (lambda s, a, rng: (s, 0.0, threading.Lock()), {"jobs": 1}, "signals must be a list, .* found <unlocked"),
        (lambda s, a, rng: (s, threading.Lock(), [0.0]), {"jobs": 1}, "the reward must be a number, found <unlocked"),
        (
            lambda s, a, rng: (threading.Lock(), 0.0, [0.0]),
            {"jobs": 1},
            "gave the state <unlocked .* not one of `states`",
        ),
        (
            lambda s, a, rng: (OnlyThere(s), 0.0, [0.0]),
            {"jobs": 1},
            "gave the state <only there>, .* not one of `states`",
        ),
        (lambda s, a, rng: (x for x in (s, 0.0, [0.0])), {"jobs": 1}, r"must return \(next_state, .* found <generator"),
    ],
)
def test_bad_steps_are_named(step, how, message) -> None:
    with pytest.raises(ib.InvalidInput, match=message):
        ib.learn(line(step, **how), ib.CRPO.practical(), samples=500, seed=1)


@pytest.mark.parametrize("reward", [{0: 0.25}, {0.25}, "1", b"1"], ids=["dict", "set", "text", "bytes"])
def test_what_has_no_order_of_its_own_is_no_list_of_rewards(reward) -> None:
    """(The keys of a dict were taken for rewards.)"""

    def step(states, actions, rng):
        return list(states), reward if len(states) == 1 else dict.fromkeys(range(len(states)), 0.25), [[]] * len(states)

    simulator = ib.Simulator(
        step, lambda rng: 0, states=1, actions=[0], discount=0.5, reward_range=(0, 9), vectorised=True
    )
    with pytest.raises(ib.InvalidInput, match=r"as many next states, rewards .*no list"):
        ib.learn(simulator, ib.ModelBased(), samples=10)
