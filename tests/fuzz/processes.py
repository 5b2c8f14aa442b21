"""Processes that are interrupted or killed at random moments: one line, nothing left behind, and nothing lost.

Three attacks. Ctrl-C, SIGTERM or SIGHUP: the exit code of that signal (or the answer, if it came first) and at most one
line. kill -9 while a file is written over and over: the path holds the whole old file or the whole new one. kill -9 of
a comparison, or of one of its workers: no process is left and no pipe is held; the same command goes on and ends with
what an unbroken one ends with.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .workers import Failure, Report

COUNT = 60

COMMANDS = (
    ("solve", "queue"),
    ("solve", "garnet", "--set", "states=5000"),
    ("learn", "queue", "--samples", "5000000"),
    ("frontier", "queue", "--constraint", "service"),
    ("compare", "queue", "--jobs", "2", "--seeds", "6", "--samples", "20000"),
)
COMPARISONS = (  # options, the folder, and how many runs are recorded in the end
    ("queue --algorithm cspda --algorithm crpo --seeds 8 --samples 30000", "queue", 16),
    ("--suite tuning --algorithm crpo --seeds 2 --samples 30000", "suite-tuning", 24),
)
WRITING = """
import sys
import inbounds as ib
models = [ib.zoo.garnet(states=states) for states in (300, 500)]
print("ready", flush=True)
while True:
    for model in models:
        model.save(sys.argv[1])
"""


def run(count: int, seed: int, seconds: float) -> Report:
    report, rng, started = Report(), random.Random(seed), time.monotonic()
    attacks = (interrupted, interrupted, interrupted, killed_while_writing, comparison_killed)
    for number in range(count):
        if time.monotonic() - started > seconds:
            report.stopped = "time"
            break
        attack = attacks[number % len(attacks)]
        with tempfile.TemporaryDirectory() as folder:
            complaint = attack(rng, Path(folder))
        report.tried[attack.__name__.replace("_", " ")] += 1
        if complaint:
            report.failures.append(Failure((seed, number), complaint))
    report.seconds = time.monotonic() - started
    return report


def begun(*command: str, folder: Path) -> subprocess.Popen[str]:
    def listening() -> None:  # to Ctrl-C, also when this was started in the background, where it is ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)

    return subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        text=True,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=listening,
    )


def interrupted(rng: random.Random, folder: Path) -> str:
    """Not before the interpreter itself is up: its own start is not ours to answer for."""
    command = rng.choice(COMMANDS)
    waited = rng.choice((rng.uniform(0.15, 0.6), rng.uniform(0.6, 3.0)))
    number = rng.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    process = begun("-m", "inbounds", *command, folder=folder)
    time.sleep(waited)
    os.killpg(process.pid, number)
    try:
        _, errors = process.communicate(timeout=20.0)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return f"hang: {' '.join(command)} after {number.name} at {waited:.3f} s"
    # By the signal itself: while the interpreter was going down, all done, so without a word.
    codes = (0, 128 + number) if errors else (0, 128 + number, -number)
    if process.returncode not in codes or errors.count("inbounds: ") > 1:
        return f"{number.name}: {' '.join(command)} at {waited:.3f} s: {process.returncode}, {errors[-300:]!r}"
    return ""


def killed_while_writing(rng: random.Random, folder: Path) -> str:
    import inbounds as ib

    path = folder / "model.npz"
    process = begun("-c", WRITING, str(path), folder=folder)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(rng.uniform(0.05, 0.5))
    process.kill()
    process.communicate()
    if path.exists() and ib.load(path).n_states not in (300, 500):
        return "torn: the file is neither the old one nor the new one"
    return ""


def comparison_killed(rng: random.Random, folder: Path) -> str:
    """Once or twice, the second time perhaps while it resumes; then once to the end."""
    wanted, name, least = rng.choice(COMPARISONS)
    command = ("compare", *wanted.split(), "--jobs", "2", "--json")
    for _ in range(rng.randint(1, 2)):
        process = begun("-m", "inbounds", *command, folder=folder)
        time.sleep(rng.uniform(1.0, 6.0))
        members = _group(process.pid)
        worker = rng.random() < 0.5 and len(members) > 2
        os.kill(max(members) if worker else process.pid, signal.SIGKILL)
        try:
            _, errors = process.communicate(timeout=20.0)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "hang: a killed comparison holds its pipe for 20 s"
        if "Traceback" in errors:
            return f"traceback: {errors[-300:]!r}"
        time.sleep(1.0)
        if left := _group(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
            return f"left: {len(left)} processes a second after"
    process = begun("-m", "inbounds", *command, folder=folder)
    _, errors = process.communicate(timeout=120.0)
    runs = (folder / "comparison" / name / "runs.jsonl").read_bytes().count(b"\n")
    return (
        ""
        if process.returncode == 0 and runs >= least
        else f"lost: {process.returncode}, {runs} runs, {errors[-300:]!r}"
    )


def _group(leader: int) -> list[int]:
    """The processes of a session that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = path.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(group) == leader and state != "Z":
            found.append(int(path.parent.name))
    return found
