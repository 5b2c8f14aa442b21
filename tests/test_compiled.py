"""Compilation: interpreted twins, and a cache that other processes hit and that changed sources miss."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numba.core import config

import inbounds as ib
from inbounds import waiting
from inbounds.numerics import compiled as module
from inbounds.numerics.compiled import compiled, interpreted
from uniforms import watched


class Pair(NamedTuple):
    first: np.ndarray
    second: float


@compiled
def inner(x):
    return x + 1


@compiled
def outer(x, factor=2):
    return factor * inner(x)


@compiled
def outermost(x):
    return outer(x) + inner(x)


@compiled
def raised(x, up):
    return x + 1 if up else x


@compiled
def raised_by_constants(x, up):
    return raised(x, True) + raised(x, up=False) + raised(x, up) + raised(7, up)


@compiled
def factorial(n):
    if n <= 1:
        return 1
    return n * factorial(n - 1)


@compiled
def fill(pair):
    for i in range(pair.first.shape[0]):
        pair.first[i] = inner(pair.second) * i


def test_the_twin_is_python_all_the_way_down() -> None:
    twin = interpreted(outermost)
    assert twin(3) == outermost(3) == 12
    assert type(twin).__name__ == "function" and twin.__name__ == "outermost"
    assert type(twin.__globals__["outer"]).__name__ == type(twin.__globals__["inner"]).__name__ == "function"
    assert twin.__globals__["outer"].__globals__["inner"] is twin.__globals__["inner"]
    assert interpreted(outer)(3, 5) == 20


def test_a_constant_of_a_caller_is_no_reason_to_compile_again() -> None:
    assert raised_by_constants(3, True) == interpreted(raised_by_constants)(3, True) == 4 + 3 + 4 + 8
    assert len(raised.signatures) == len(raised_by_constants.signatures) == 1


def test_other_worlds_reach_kernels_across_files() -> None:
    from inbounds.algorithms.empirical import draw_in_turn, log_in_turn

    drawn: list[int] = []

    def draw_next(pair: int, rng: None) -> int:
        drawn.append(pair)
        return 0

    simulator = ib.zoo.queue().simulator()
    log, world = log_in_turn(simulator, 192), watched(simulator.open(), draw_next=draw_next, draw_start=lambda rng: 3)
    interpreted(draw_in_turn)(log, world, None, 0, 192)
    assert drawn == [*range(96), *range(96)] == log.pairs.tolist()
    assert log.starts.tolist() == [0, 0, 0, 1192, 0, 0]


def test_recursion_and_records() -> None:
    assert interpreted(factorial)(5) == factorial(5) == 120
    ours, theirs = Pair(np.zeros(3), 1.5), Pair(np.zeros(3), 1.5)
    fill(ours)
    interpreted(fill)(theirs)
    np.testing.assert_array_equal(ours.first, [0.0, 2.5, 5.0])
    np.testing.assert_array_equal(ours.first, theirs.first)


def test_the_caller_s_numba_settings_stay_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", "somewhere else")
    compiled(inner.py_func)
    assert config.CACHE_DIR == "somewhere else"


def test_kernels_release_the_lock_and_are_exact() -> None:
    options = inner.targetoptions
    assert options["nogil"] and not options.get("fastmath") and not options.get("parallel")


# ---- the cache


SCRIPT = """
import inbounds as ib
from inbounds.algorithms.cspda_steps import advance
run = ib.learn(ib.zoo.queue().simulator(), ib.CSPDA(slater=0.2), samples=400)
print(sum(advance.stats.cache_hits.values()), sum(advance.stats.cache_misses.values()), run.policy.probabilities.sum())
"""


def in_another_process(environment: dict[str, str], script: str = SCRIPT) -> list[str]:
    package = str(Path(ib.__file__).parents[1])
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env=os.environ | {"PYTHONPATH": package} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_another_process_hits_the_cache(tmp_path: Path) -> None:
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)}
    first = in_another_process(environment)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    second = in_another_process(environment)
    assert first[:2] == ["0", "1"] and second[:2] == ["1", "0"] and first[2] == second[2]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == files
    assert any("advance" in path.name for path in files)
    assert all(path.relative_to(tmp_path).parts[:2] == ("inbounds", "kernels") for path in files)


def fresh_directory(path: str = "") -> Path | None:
    module.sources_digest.cache_clear()
    module._sources.cache_clear()
    return module._cache_directory.__wrapped__(path)


def test_the_directory_depends_on_what_a_file_is_made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    for room in ("learn", "numerics", "problem"):
        (package / room).mkdir(parents=True)
    kernels, other, user = package / "learn" / "kernels.py", package / "learn" / "other.py", tmp_path / "user.py"
    (package / "numerics" / "compiled.py").write_text("x = 1\n")
    (package / "problem" / "__init__.py").write_text("")
    (package / "problem" / "draws.py").write_text("    from inbounds.numerics.compiled import x\n")
    kernels.write_text("from inbounds.problem import (\n    draws,\n)\n")
    other.write_text("import inbounds.learn.kernels as kernels\n")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "__file__", str(package / "numerics" / "compiled.py"))
    for name in ("sources_digest", "_sources"):  # not to disturb others
        monkeypatch.setattr(module, name, cache(getattr(module, name).__wrapped__))
    files = [str(path) for path in (kernels, other, user)]
    before = [fresh_directory(file) for file in files]
    assert all(directory is not None and directory.is_dir() for directory in before)
    assert before == [fresh_directory(file) for file in files]

    def changed() -> list[bool]:
        now = [fresh_directory(file) for file in files]
        found = [old != new for old, new in zip(before, now, strict=True)]
        before[:] = now
        return found

    (package / "numerics" / "compiled.py").write_text("x = 2\n")
    assert changed() == [True, True, True]
    (package / "problem" / "draws.py").rename(package / "problem" / "moves.py")
    assert changed() == [True, True, True]
    other.write_text("import inbounds.learn.kernels as kernels  # changed\n")
    assert changed() == [False, True, True]
    (package / "learn" / "new.py").write_text("")
    assert changed() == [False, False, True]


def test_what_other_sources_left_long_ago_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    kernels = tmp_path / "inbounds" / "kernels"
    for name, days in (("old", 91), ("recent", 89)):
        (kernels / name).mkdir(parents=True)
        (kernels / name / "kernel.nbi").write_text("")
        then = time.time() - 86_400 * days
        os.utime(kernels / name, (then, then))
    current = fresh_directory()
    assert sorted(kernels.iterdir()) == sorted([current, kernels / "recent"])


def test_kernels_typed_at_a_prompt_compile_without_a_cache() -> None:
    code = (
        "from inbounds.numerics.compiled import compiled\n"
        "@compiled\n"
        "def double(x): return 2 * x\n"
        "print(double(21), type(double._cache).__name__)"
    )
    found = subprocess.run([sys.executable], input=code, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["42", "NullCache"]


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    for variable, base in (("NUMBA_CACHE_DIR", "numba"), ("XDG_CACHE_HOME", "xdg"), ("HOME", "home/.cache")):
        directory = fresh_directory()
        assert directory is not None and directory.parent == tmp_path / base / "inbounds" / "kernels"
        monkeypatch.delenv(variable)


def test_without_a_place_to_write_kernels_compile_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert fresh_directory() is None
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    assert fresh_directory() is not None
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # read-only, which root would not notice
    assert fresh_directory() is None

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert fresh_directory() is None
    monkeypatch.setattr(module, "_cache_directory", lambda path: None)
    assert compiled(inner.py_func)(3) == 4


def test_a_process_without_a_place_to_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    script = """
import numpy as np
from inbounds.algorithms.kernels import project_prices
u = np.array([-5.0, 5.0])
project_prices(u, 4.0)
print(*u)
"""
    assert in_another_process({"NUMBA_CACHE_DIR": str(tmp_path / "file")}, script) == ["0.0", "4.0"]


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    script = """
import resource
import numpy as np
from inbounds.algorithms.kernels import project_prices
resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
u = np.array([-5.0, 5.0])
project_prices(u, 4.0)
print(*u)
"""
    pytest.importorskip("resource")
    assert in_another_process({"NUMBA_CACHE_DIR": str(tmp_path)}, script) == ["0.0", "4.0"]


def test_small_problems_wait_for_no_compiler(tmp_path: Path) -> None:
    """The first answer of a new installation, in every criterion, and that there is none."""
    script = """
import inbounds as ib
for problem in (ib.zoo.queue(), ib.zoo.three_cycle(), ib.zoo.admission(buffer=40)):
    assert ib.solve(problem).certificate.in_bounds and ib.slater(problem).value > 0.0
    try:
        ib.solve(problem.tightened(10.0))
    except ib.Infeasible as error:
        print(error.slater < 0.0)
"""
    assert in_another_process({"NUMBA_CACHE_DIR": str(tmp_path)}, script) == ["True"] * 3
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".nbi", ".nbc")]


def test_whoever_waits_is_told_when_nothing_is_on_disk(tmp_path, monkeypatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(waiting, "_listeners", [lambda: told.append("compiling")])
    monkeypatch.setattr(module, "_cache_directory", lambda path: tmp_path)

    def double(x):
        return 2 * x

    first, again = compiled(double), compiled(double)
    assert first(2) == 4 and told == ["compiling"]
    waiting.before_compiling(lambda: told.append("again"))
    assert again(2) == 4 and told == ["compiling"]  # from the disk


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("content", [b"", b"\0" * 50, b"\x80\x04\x95"])
def test_what_is_damaged_on_disk_is_compiled_anew(tmp_path, monkeypatch, suffix, content) -> None:
    """(An empty index, as a power cut leaves it, ended every command that needed it, again and again.)"""
    monkeypatch.setattr(module, "_cache_directory", lambda path: tmp_path)

    def triple(x):
        return 3 * x

    assert compiled(triple)(2) == 6
    (path,) = tmp_path.rglob(f"*{suffix}")
    whole = path.read_bytes()
    path.write_bytes(content)
    assert compiled(triple)(2) == 6
    assert len(path.read_bytes()) >= len(whole) - 8  # it is there again
    told: list[str] = []
    monkeypatch.setattr(waiting, "_listeners", [lambda: told.append("compiling")])
    assert compiled(triple)(2) == 6 and not told


def test_machine_code_that_lost_a_page_is_not_run(tmp_path, monkeypatch) -> None:
    """Numba would: whatever can still be unpickled."""
    monkeypatch.setattr(module, "_cache_directory", lambda path: tmp_path)

    def quadruple(x):
        return 4 * x

    assert compiled(quadruple)(2) == 8
    (path,) = tmp_path.rglob("*.nbc")
    whole = path.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 40)):
        damaged = whole[:place] + bytes(byte ^ 0xFF for byte in whole[place : place + 64]) + whole[place + 64 :]
        path.write_bytes(damaged)
        told: list[str] = []
        monkeypatch.setattr(waiting, "_listeners", [lambda told=told: told.append("compiling")])
        assert compiled(quadruple)(2) == 8 and told == ["compiling"]


def test_a_kernel_for_other_types_is_not_taken(tmp_path, monkeypatch) -> None:
    """Two processes that add to the index of a kernel at the same moment give both of theirs the same file."""
    monkeypatch.setattr(module, "_cache_directory", lambda path: tmp_path)

    def half(x):
        return x / 2

    kernel = compiled(half)
    assert kernel(3) == 1.5
    (path,) = tmp_path.rglob("*.nbc")
    for_integers = path.read_bytes()
    assert kernel(3.0) == 1.5
    (other,) = set(tmp_path.rglob("*.nbc")) - {path}
    other.write_bytes(for_integers)
    assert compiled(half)(5.0) == 2.5
