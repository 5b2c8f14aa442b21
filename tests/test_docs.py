"""Every example in a docstring runs, and everything public has one; the README runs; every link leads somewhere."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import pkgutil
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import inbounds as ib

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(ib.__path__, "inbounds.")
    if not module.name.endswith("__main__")  # importing it runs the command line
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = importlib.import_module(name)
    failures, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failures == 0


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is(name):
    assert (importlib.import_module(name).__doc__ or "").strip()


@pytest.mark.parametrize("name", [name for name in ib.__all__ if name not in ("Infeasible", "InvalidInput")])
def test_every_public_name_has_an_example(name):
    """The two exceptions are exempt: they are raised, not called."""
    assert ">>>" in (inspect.getdoc(getattr(ib, name)) or "")


@pytest.mark.parametrize("name", ib.__all__)
def test_every_public_method_is_documented(name):
    thing = getattr(ib, name)
    assert inspect.getdoc(thing)
    if not inspect.isclass(thing):
        return
    undocumented = [
        member
        for member, value in vars(thing).items()
        if not member.startswith("_")
        and (isinstance(value, classmethod | staticmethod) or inspect.isfunction(value))
        and not inspect.getdoc(getattr(thing, member))
    ]
    assert undocumented == []


@pytest.mark.parametrize("problem", ib.zoo.names())
def test_every_problem_has_an_example(problem):
    assert ">>>" in (inspect.getdoc(ib.zoo.PROBLEMS[problem]) or "")


def test_the_battery_is_what_its_text_says():
    spec = importlib.util.spec_from_file_location("battery", Path(__file__).parents[1] / "examples" / "battery.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    small = example.battery(capacity=12, levels=6)
    for state, charge in ((0, 0), (small.n_states - 1, 12)):  # no load and an empty battery; all of both
        changes = small.actions[small.offsets[state] : small.offsets[state + 1]] - 2
        assert min(changes) == (0 if state == 0 else -2) and max(changes) == (2 if charge == 0 else 0)
    best, check = ib.solve(small), ib.solve(small, method="lp")
    assert best.in_bounds and best.reward == pytest.approx(check.reward, abs=1e-8)
    assert np.all(best.prices > 0.0)


def test_the_readme_runs_and_prints_what_it_says(capsys):
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S | re.M):
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert printed.startswith("2.1339") and "[7.08" in printed and "'repair': 0.42" in printed
    assert names["run"].policy is not None


def test_every_model_of_the_page_on_files_has_a_policy_in_bounds(tmp_path):
    page = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    models = [block for block in re.findall(r"^```toml\n(.*?)^```", page, re.S | re.M) if "[[pair]]" in block]
    assert len(models) >= 3
    for block in models:
        (tmp_path / "model.toml").write_text(block, encoding="utf-8")
        assert ib.solve(ib.load(tmp_path / "model.toml")).in_bounds


def test_certified_learning_runs_as_its_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"policy": ib.slater(ib.zoo.queue()).policy}
    page = (ROOT / "docs" / "certified-learning.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", page, re.S | re.M):
        if "error.partial" not in block:  # a million samples, of a robot
            exec(compile(block, "certified-learning.md", "exec"), names)
    assert names["action"] in names["policy"][3]


def test_the_machine_of_the_readme_asked_in_three_ways(capsys):
    spec = importlib.util.spec_from_file_location("machine", ROOT / "examples" / "machine.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)  # prints, and must not fail
    assert capsys.readouterr().out.count("in bounds: proved") == 2
    for repairs, criterion, reward, price in (
        (0.1, {"discount": 0.95}, 2.134, 7.08),
        (0.1, {"average": True}, 1.900, 9.0),
        (1.2, {"horizon": 12}, 27.80, 1.38),
    ):
        best = ib.solve(example.machine(repairs, **criterion))
        assert best.reward == pytest.approx(reward, abs=0.005) and best.prices[0] == pytest.approx(price, abs=0.005)


def test_make_help_names_every_target():
    if shutil.which("make") is None:
        pytest.skip("no make here")
    said = subprocess.run(["make", "-C", str(ROOT), "help"], capture_output=True, text=True, check=True).stdout
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)[1].split()
    assert [target for target in targets if f"make {target} " not in said] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert missing == []


def test_every_page_can_be_found_from_the_readme():
    linked = set(re.findall(r"\]\((docs/[^)#]+\.md)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert {f"docs/{page.name}" for page in ROOT.glob("docs/*.md")} <= linked
