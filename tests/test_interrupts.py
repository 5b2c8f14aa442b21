"""Signals while compiled code is called: they raise what their handlers raise, and end no process."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

import inbounds as ib
from inbounds.numerics import interrupts
from inbounds.numerics.compiled import compiled
from inbounds.numerics.interrupts import holding_handlers

ENDED = """
import os, random, signal, sys, threading, time
import numpy as np
import inbounds as ib
{setup}
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run behind a shell
call()
begun = time.perf_counter()
call()
lasts = time.perf_counter() - begun
moments, ended = random.Random({seed}), dict(interrupted=0, done=0)
for _ in range({times}):
    timer = threading.Timer(lasts * moments.random(), os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        call()
        timer.join()
        time.sleep(0.01)
        ended["done"] += 1
    except KeyboardInterrupt:
        ended["interrupted"] += 1
    timer.join()
print(ended["interrupted"], signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
"""Ctrl-C at random moments of a call, in a process of its own: it may end by a segmentation fault."""


@pytest.mark.parametrize(
    "setup",
    [
        "garnet = ib.zoo.garnet(states=1000, seed=1)\npolicy = ib.Policy.uniform(garnet)\n"
        "call = lambda: [ib.evaluate(garnet, policy) for _ in range(20)]",
        "garnet = ib.zoo.garnet(states=1000, seed=1)\ncall = lambda: ib.slater(garnet)",
        "queue = ib.zoo.queue()\npolicy, simulator = ib.slater(queue).policy, queue.simulator()\n"
        "call = lambda: ib.certify(policy, simulator, confidence=0.999999, samples=50_000, seed=1)",
        "simulator = ib.zoo.queue().simulator()\n"
        "call = lambda: ib.learn(simulator, ib.CSPDA(slater=0.2), samples=20_000, seed=1, checkpoints=40)",
        # Kernels that are called by no public function.
        "from inbounds.criteria import criterion_of\ncriterion = criterion_of(ib.zoo.garnet(states=1000, seed=1))\n"
        "call = lambda: [criterion.solve(np.ones(criterion.n_entries), 1e-9) for _ in range(20)]",
    ],
)
def test_an_interruption_ends_no_process(setup: str) -> None:
    script = ENDED.format(setup=setup, seed=3, times=40)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    interrupted, as_before = done.stdout.split()
    assert int(interrupted) > 12 and as_before == "True"


class Both(NamedTuple):
    array: Any
    number: float


@compiled
def _array(count: int, share: float) -> Any:
    return np.full(3, _added(count, share))


@compiled
def _record(count: int, share: float) -> Any:
    return Both(np.full(3, _added(count, share)), share)


@compiled
def _drawn(rng: np.random.Generator, count: int) -> Any:
    total = 0.0
    for _ in range(count):
        total += rng.random()
    return np.full(3, total)


@compiled
def _added(count: int, share: float) -> float:
    total = 0.0
    for k in range(count):
        total += share / (1.0 + k)
    return total


@pytest.fixture
def raising_alarm() -> Iterator[Callable[[float], None]]:
    """Sets an alarm whose handler raises TimeoutError."""

    def handler(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, handler)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kernel", [_array, _record, lambda count, _: _drawn(np.random.default_rng(0), count)])
def test_a_handler_raises_what_it_raises_when_the_kernel_has_returned(
    kernel: Callable[[int, float], Any], raising_alarm: Callable[[float], None]
) -> None:
    """A signal within the kernel is due in the first line of Python that runs after it: within a call by Numba."""
    kernel(10, 0.5)
    handler = signal.getsignal(signal.SIGALRM)
    for hold in (False, True):
        raising_alarm(0.05)
        with pytest.raises(TimeoutError):
            if hold:
                with holding_handlers():
                    kernel(200_000_000, 0.5)
            else:
                kernel(200_000_000, 0.5)
        assert signal.getsignal(signal.SIGALRM) is handler and not interrupts._waiting and not interrupts._holding


SOURCE = """
def kernel(x, n):
    for i in range(n):
        for j in range(x.shape[0]):
            x[j] = (np.sum(x[:j]) * i + {number}) % 3.0
    return x
"""


def fresh_kernel(number: int) -> Any:
    """One that is not compiled yet."""
    names: dict[str, Any] = {"np": np}
    exec(SOURCE.format(number=number), names)
    return compiled(names["kernel"])


def test_a_handler_waits_for_what_is_being_compiled_and_is_never_lost(
    raising_alarm: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fifth of them were, and at last the process: `free(): double free detected`."""
    compile_of_numba, begun_with = CPUDispatcher.compile, []

    def compiling(kernel: Any, signature: Any) -> Any:
        begun_with.append(kernel)
        return compile_of_numba(kernel, signature)

    monkeypatch.setattr(CPUDispatcher, "compile", compiling)
    fresh_kernel(0)(np.ones(5), 3)
    begun = time.perf_counter()
    fresh_kernel(1)(np.ones(5), 3)
    lasts, moments, raised = time.perf_counter() - begun, np.random.default_rng(0), 0
    number = 1
    while (number := number + 1) < 32 or (raised <= 10 and number < 300):  # how long one lasts may change meanwhile
        kernel, due = fresh_kernel(number), 0.8 * lasts * moments.random()
        raising_alarm(due)
        begun = time.perf_counter()
        try:
            kernel(np.ones(5), 3)
            lasted = time.perf_counter() - begun
            assert lasted <= due + 0.01
            lasts = min(lasts, lasted)
        except TimeoutError:
            raised += 1
            assert len(kernel.signatures) == begun_with.count(kernel)  # none is left half compiled
        raising_alarm(0.0)
        assert not interrupts._waiting and not interrupts._compiling
    assert raised > 10


@pytest.mark.parametrize(("ends", "asked"), [(False, 2), (True, 1)])
def test_who_asks_twice_or_ends_the_process_does_not_wait_for_the_compiler(
    ends: bool, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[int] = []

    class Handler:
        ends_the_process = ends

        def __call__(self, number: int, frame: FrameType | None) -> None:
            heard.append(interrupts._compiling)

    before = signal.signal(signal.SIGALRM, Handler())
    compile_kernel, times = interrupts.CPUDispatcher.compile, iter(range(asked))

    def asking(kernel: Any, signature: Any) -> Any:
        for _ in times:
            signal.raise_signal(signal.SIGALRM)
        return compile_kernel(kernel, signature)

    monkeypatch.setattr(interrupts.CPUDispatcher, "compile", asking)
    try:
        fresh_kernel(99)(np.ones(5), 3)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert heard == [1] + [0] * (asked - 1)  # at once, and what waited when all is compiled


def test_handlers_are_as_they_were_after_a_call_and_one_that_was_set_within_stays(
    raising_alarm: Callable[[float], None],
) -> None:
    before = signal.getsignal(signal.SIGALRM)
    queue = ib.zoo.queue()
    ib.learn(queue.simulator(), ib.CRPO(), samples=1_000, seed=0)
    with holding_handlers():
        assert signal.getsignal(signal.SIGALRM) is not before
        ib.solve(queue)
        assert signal.getsignal(signal.SIGALRM) is not before
    assert signal.getsignal(signal.SIGALRM) is before

    heard: list[int] = []

    def own(number: int, frame: FrameType | None) -> None:
        heard.append(number)

    def setting(done: int) -> None:
        signal.signal(signal.SIGALRM, own)

    ib.learn(queue.simulator(), ib.CRPO(), samples=1_000, seed=0, progress=setting)
    assert signal.getsignal(signal.SIGALRM) is own
    with holding_handlers():
        signal.raise_signal(signal.SIGALRM)
    assert heard == [signal.SIGALRM]


def test_an_interruption_while_the_last_words_are_found_keeps_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    simulator, asked = ib.zoo.queue().simulator(), {"samples": 3_000, "seed": 2}
    whole = ib.learn(simulator, ib.CRPO.practical(), **asked)
    from inbounds.algorithms import loop

    made, calls = loop.Run, iter([True])

    def interrupted(**facts: Any) -> Any:
        if facts["status"] == "done" and next(calls, False):
            raise KeyboardInterrupt
        return made(**facts)

    monkeypatch.setattr(loop, "Run", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        ib.learn(simulator, ib.CRPO.practical(), **asked)
    monkeypatch.undo()
    partial = caught.value.partial  # type: ignore[attr-defined]
    assert partial.status == "interrupted" and partial.samples[-1] == 3_000
    again = ib.learn(simulator, ib.CRPO.practical(), **asked, resume=partial)
    assert np.array_equal(again.policy.probabilities, whole.policy.probabilities) and again.guarantee == whole.guarantee
