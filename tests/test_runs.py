"""Runs of learners: judged as they would be alone, whoever runs them and whatever the journal holds already."""

import importlib
import json
import sys
from dataclasses import asdict, dataclass, fields, make_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import inbounds as ib
import own_algorithms
from inbounds.algorithms import ALGORITHMS
from inbounds.errors import BeyondMemory
from inbounds.studies.journal import Journal
from inbounds.studies.runs import Curves, JudgedRun, Task, _source_digest, curves, judged_run, run_arms
from own_algorithms import Silent, large, small

SIZES = {"samples": 1_000, "checkpoints": [500, 1_000], "seeds": 3}


def arms() -> list:
    queue = ib.zoo.queue()
    return [(queue, ib.CRPO.practical()), (queue.unconstrained(), ib.CRPO.practical())]


def values(runs: list[list[JudgedRun]]) -> list:
    return [[{**asdict(run), "seconds": 0.0} for run in own] for own in runs]


def keys(path: Path) -> set[bytes]:
    return {line.split(b'"')[3] for line in path.read_bytes().splitlines()}


def test_neither_results_nor_keys_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    one, _ = run_arms(arms(), **SIZES, workers=1, journal=tmp_path / "one.jsonl")
    two, _ = run_arms(arms(), **SIZES, workers=2, journal=tmp_path / "two.jsonl")
    assert values(one) == values(two) and [[run.seed for run in own] for own in one] == [[0, 1, 2]] * 2
    assert keys(tmp_path / "one.jsonl") == keys(tmp_path / "two.jsonl") and len(keys(tmp_path / "one.jsonl")) == 6


def test_a_run_is_what_learning_and_judging_by_hand_gives() -> None:
    queue, settings = arms()[0]
    run = judged_run(Task(queue, settings), 1_000, [500, 1_000], 2)
    learned = ib.learn(queue.simulator(), settings, samples=1_000, seed=2, checkpoints=[500, 1_000])
    judged = [ib.evaluate(queue, policy) for policy in learned.policies]
    assert run.samples == learned.samples.tolist() and run.rewards == [one.total_reward for one in judged]
    assert run.margins == [one.total_margins.tolist() for one in judged] and run.settings == dict(learned.settings)


@pytest.mark.parametrize("kept", [0, 1, 4, 6])
def test_what_the_journal_holds_is_not_run_again(kept: int, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    first, _ = run_arms(arms(), **SIZES, workers=1, journal=path)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[6 - kept :]))
    seen: list[tuple[int, int]] = []
    again, resumed = run_arms(arms(), **SIZES, workers=1, journal=path, progress=lambda *now: seen.append(now))
    assert resumed == kept and values(again) == values(first)
    assert seen == [(done, 6) for done in range(kept, 7)]


def test_units_reach_the_learner_and_the_key(tmp_path: Path) -> None:
    path, (queue, settings) = tmp_path / "runs.jsonl", arms()[0]
    scaled, _ = run_arms([Task(queue, settings)], **SIZES, workers=1, journal=path)
    given, resumed = run_arms([Task(queue, settings, scale=False)], **SIZES, workers=1, journal=path)
    assert resumed == 0 and run_arms([(queue, settings)], **SIZES, workers=1, journal=path)[1] == 3
    learned = ib.learn(queue.simulator(scale=False), settings, samples=1_000, seed=2)
    assert given[0][2].rewards[-1] == ib.evaluate(queue, learned.policy).total_reward != scaled[0][2].rewards[-1]


def test_labels_change_no_key_and_bounds_do(tmp_path: Path) -> None:
    path, (queue, settings) = tmp_path / "runs.jsonl", arms()[0]
    run_arms([(queue, settings)], **SIZES, workers=1, journal=path)
    for cmdp, resumed in ((replace(queue, action_labels=None), 3), (queue.tightened(0.1), 0)):
        assert run_arms([(cmdp, settings)], **SIZES, workers=1, journal=path)[1] == resumed


def test_a_refusal_is_a_run_and_is_remembered(tmp_path: Path) -> None:
    big = [(ib.zoo.garnet(states=2_000), ib.CSPDA())]
    for resumed in (0, 3):
        runs, found = run_arms(big, **SIZES, workers=1, journal=tmp_path / "runs.jsonl")
        assert found == resumed and all("too few to estimate the Slater constant" in run.refusal for run in runs[0])


def test_settings_that_json_cannot_hold_do_not_stop_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's own algorithm may say anything about its settings."""

    def learn(*arguments: object, **options: object) -> object:
        return replace(ib.learn(*arguments, **options), settings={"rate": 0.5, "weights": np.ones(3)})

    monkeypatch.setattr("inbounds.studies.runs.learn", learn)
    runs, _ = run_arms(arms()[:1], **SIZES, workers=1, journal=tmp_path / "runs.jsonl")
    assert [run.settings for run in runs[0]] == [{"rate": 0.5}] * 3


def made(step: float) -> Any:
    """Settings of a class whose functions know what no field says."""

    def prepare(settings: Any, *given: Any) -> Any:
        return ib.CRPO.algorithm.prepare(ib.CRPO(step=step), *given)

    @dataclass(frozen=True)
    class Made:
        algorithm: ClassVar = ib.CRPO.algorithm._replace(prepare=prepare)

    return Made()


def test_other_settings_are_others_also_where_their_text_is_the_same(tmp_path: Path) -> None:
    """(The key of a journal was the text of the settings: runs of the first were those of the second.)"""
    path, queue = tmp_path / "runs.jsonl", ib.zoo.queue()
    for one, other, found in ((Silent(step=0.1), Silent(step=2.0), 3), (made(0.1), made(2.0), 0)):
        assert repr(one).split("object")[0] == repr(other).split("object")[0]
        first, _ = run_arms([(queue, one)], **SIZES, workers=1, journal=path)
        second, resumed = run_arms([(queue, other)], **SIZES, workers=1, journal=path)
        assert resumed == 0 and values(first) != values(second)
        assert run_arms([(queue, one)], **SIZES, workers=1, journal=path)[1] == found


def test_what_settings_keep_beside_their_fields_tells_them_apart(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    for step in (0.1, 2.0):
        assert found_again(path, own_algorithms.Made(step)) == [0, 3]


def test_what_was_changed_after_it_was_imported_is_not_recognised(tmp_path: Path, monkeypatch: Any) -> None:
    """(The runs of the program that was imported were those of the file as it was then.)"""
    monkeypatch.syspath_prepend(tmp_path)
    files = {"own_core": CORE.replace("STEP", "0.1"), "own_base": BASE, "own_settings": SETTINGS}
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    settings = importlib.import_module("own_settings").Mine()
    (tmp_path / "own_core.py").write_text(CORE.replace("STEP", "2.0"))
    assert found_again(tmp_path / "runs.jsonl", settings) == [0, 0]


def test_too_little_memory_is_not_remembered(tmp_path: Path, monkeypatch: Any) -> None:
    def learn(*arguments: object, **options: object) -> object:
        raise BeyondMemory(1_000, "no details")

    path = tmp_path / "runs.jsonl"
    with monkeypatch.context() as patch:
        patch.setattr("inbounds.studies.runs.learn", learn)
        runs, _ = run_arms(arms()[:1], **SIZES, workers=1, journal=path)
    assert all("does not fit into memory" in run.refusal for run in runs[0])
    runs, found = run_arms(arms()[:1], **SIZES, workers=1, journal=path)
    assert found == 0 and not any(run.refusal for run in runs[0])


def found_again(path: Path, settings: Any) -> list[int]:
    """How many runs each of two calls finds."""
    return [run_arms([(ib.zoo.queue(), settings)], **SIZES, workers=1, journal=path)[1] for _ in range(2)]


CORE = """
import inbounds as ib
from inbounds.algorithms.algorithm import Algorithm

def prepare(settings, *given):
    return ib.CRPO.algorithm.prepare(ib.CRPO(step=STEP), *given)
"""
BASE = """
from dataclasses import dataclass
import inbounds as ib
import own_core

@dataclass(frozen=True)
class Base:
    step: float = 1.0
    algorithm = ib.CRPO.algorithm._replace(prepare=own_core.prepare)
"""
SETTINGS = """
from dataclasses import dataclass
from own_base import Base

@dataclass(frozen=True)
class Mine(Base):
    more: int = 1
"""


@pytest.mark.parametrize("changed", ["own_core", "own_base", "own_settings"])
def test_a_journal_looks_at_every_file_of_an_algorithm(changed: str, tmp_path: Path, monkeypatch: Any) -> None:
    """(Only at that of the settings: after a change in the file of its functions, or of a class that they inherit from,
    the runs of the old ones came back.)"""
    monkeypatch.syspath_prepend(tmp_path)
    files = {"own_core": CORE.replace("STEP", "0.1"), "own_base": BASE, "own_settings": SETTINGS}
    found = []
    for more in ("", "# changed\n"):
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text + more * (name == changed))
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        settings = importlib.import_module("own_settings").Mine()
        found += found_again(tmp_path / "runs.jsonl", settings)
        (tmp_path / f"{changed}.py").write_text("")  # what is run is what was imported
        found += found_again(tmp_path / "runs.jsonl", settings)
    assert found == [0, 3, 3, 3] * 2


def test_a_journal_knows_classes_and_functions_by_where_they_are_found(tmp_path: Path, monkeypatch: Any) -> None:
    """(Two classes that a function made with the same name were one.)"""
    record, path = ib.CRPO.algorithm, tmp_path / "runs.jsonl"

    class Called:
        def __call__(self, *given: Any) -> Any:
            return small(*given)

    for prepare in (partial(small), lambda *given: small(*given), Called(), made(0.1).algorithm.prepare):
        monkeypatch.setattr(Silent, "algorithm", record._replace(prepare=prepare), raising=False)
        assert found_again(path, Silent()) == [0, 0]
    for prepare in (small, large):
        monkeypatch.setattr(Silent, "algorithm", record._replace(prepare=prepare), raising=False)
        assert found_again(path, Silent()) == [0, 3]
        bases, more = (Silent,), [("rate", float, 1.0)]
        for kind in (type("Silent", bases, {}), make_dataclass("Silent", more, bases=bases, frozen=True)):
            assert found_again(path, kind()) == [0, 0]
        # A preset that tests what it found is a frame around the functions: they are looked at behind it.
        assert found_again(path, Silent(repair=True)) == [0, 3]


@pytest.mark.parametrize("kind", ALGORITHMS.values(), ids=lambda kind: kind.__name__)
def test_the_algorithms_of_the_library_are_all_recognised(kind: Any) -> None:
    settings = object.__new__(kind)
    for each in fields(kind):
        object.__setattr__(settings, each.name, each.default)
    assert _source_digest(settings) == _source_digest(settings)


def test_curves_of_no_runs_are_empty() -> None:
    queue = ib.zoo.queue()
    none = Curves(**curves(queue, []))
    assert none.rewards.shape == (0, 0) and none.margins.shape == (*none.out_of_bounds.shape, 2)


@pytest.mark.parametrize(
    "change",
    [
        {"foo": 1},
        {"seed": None},
        {"seed": 2},
        {"algorithm": "another"},
        {"rewards": "ab"},
        {"rewards": None},
        {"rewards": [float("nan"), 0.0]},
        {"rewards": [0.5]},
        {"samples": [5, 5]},
        {"samples": [1000], "rewards": [0.5], "margins": [[0.0, 0.0]]},
        {"margins": [[0.0], [0.0]]},
        {"seconds": "long"},
        {"settings": None},
        {"refusal": 3},
        {"refusal": "no"},
    ],
    ids=str,
)
def test_a_line_with_a_digest_of_its_own_that_is_no_such_run_is_passed_over(change: dict, tmp_path: Path) -> None:
    path, sizes = tmp_path / "runs.jsonl", {**SIZES, "seeds": 2}
    first, _ = run_arms(arms()[:1], **sizes, workers=1, journal=path)
    line = json.loads(path.read_text().splitlines()[1])
    key = line.pop("key")
    del line["digest"]
    Journal(path).add(key, {**line, **change})
    again, resumed = run_arms(arms()[:1], **sizes, workers=1, journal=path)
    assert resumed < 2
    assert [run.rewards for run in again[0]] == [run.rewards for run in first[0]]


def test_a_time_limit_gives_the_runs_that_are_finished(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    none, _ = run_arms(arms(), **SIZES, workers=1, journal=path, time_limit=1e-9)
    assert none == [[], []] and not path.exists()
    whole, _ = run_arms(arms(), **SIZES, workers=1, journal=path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"seed": 1,' not in line))
    some, resumed = run_arms(arms(), **SIZES, workers=1, journal=path, time_limit=1e-9)
    assert resumed == 4 and [[run.seed for run in own] for own in some] == [[0, 2], [0, 2]]
    again, _ = run_arms(arms(), **SIZES, workers=2, journal=path, time_limit=60.0)
    assert [[run.rewards for run in own] for own in again] == [[run.rewards for run in own] for own in whole]
