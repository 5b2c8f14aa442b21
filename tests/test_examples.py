"""The examples run, and their documentation tells the truth."""

from __future__ import annotations

import importlib.util
import re
import runpy
import shutil
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import inbounds as ib

ROOT = Path(__file__).parents[1]


def output_of(name: str, folder: Path, monkeypatch, capsys) -> str:
    monkeypatch.setattr(sys, "argv", [name, str(folder)])
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def test_the_ward(tmp_path, monkeypatch, capsys) -> None:
    shown = output_of("ward", tmp_path, monkeypatch, capsys)
    best, today = (float(re.search(rf"{name} +([\d.]+) planned", shown)[1]) for name in ("best", "today"))
    assert best > today and all(len(line) <= 80 for line in shown.splitlines()[:-1])  # the last names a folder
    policy = ib.Policy.load(tmp_path / "ward.json")
    assert policy.horizon == 14 and ib.Policy.load(tmp_path / "ward.csv").compare(policy).share == 0.0
    assert policy.pairs.parts["state"] == ("occupied", "waiting") and policy.coins == 1
    controller = runpy.run_path(str(ROOT / "examples" / "controller.py"))
    rules, by_day = controller["load"](tmp_path / "ward.json"), policy.by_label(0.0)
    said = [{state: dict(map(tuple, days[day])) for state, days in rules.items()} for day in range(14)]
    assert said == by_day
    (place,) = ((day, state) for day in range(14) for state, choice in by_day[day].items() if len(choice) > 1)
    drawn = Counter(controller["act"](rules, place[1], place[0], Random(seed)) for seed in range(2_000))
    for choice, share in by_day[place[0]][place[1]].items():  # the coin of that day, within five standard errors
        assert abs(drawn[choice] / 2_000 - share) < 5 * (share * (1 - share) / 2_000) ** 0.5


def test_the_inventory_and_what_the_page_on_deployment_says_of_it(tmp_path, monkeypatch, capsys) -> None:
    shown = output_of("inventory", tmp_path, monkeypatch, capsys)
    pattern = r" +([\d.]+) a day; margins: storage ([+-][\d.]+)"
    best, today = (re.search(name + pattern, shown) for name in ("best", "today"))
    text = (ROOT / "docs" / "deploy.md").read_text()
    said = r"the rule earns ([\d.]+) a day and stores ([\d.]+) units more.*?the optimum earns ([\d.]+)"
    told = re.search(said, text, re.S)
    assert [f"{float(today[1]):.2f}", f"{-float(today[2]):.1f}", f"{float(best[1]):.2f}"] == list(told.groups())
    assert (tmp_path / "orders.png").stat().st_size > 10_000
    controller = runpy.run_path(str(ROOT / "examples" / "controller.py"))
    rules = controller["load"](tmp_path / "orders.json")
    assert len(rules) == 4_760 and controller["act"](rules, (35, 35)) in ("nothing", "tea", "rice", "both")
    assert "4,760 can come about" in (ROOT / "examples" / "inventory.py").read_text()


def test_the_page_on_deployment_runs(tmp_path, monkeypatch) -> None:
    """Every block, one after the other, in an empty folder with the two files that it says to copy; fewer states."""
    pytest.importorskip("pandas")
    for name in ("controller", "ward"):
        shutil.copy(ROOT / "examples" / f"{name}.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    text, names = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8"), {"__name__": "page"}
    for block in re.findall(r"^```python\n(.*?)^```", text.replace("FULL = 70", "FULL = 20"), re.S | re.M):
        exec(compile(block, "deploy.md", "exec"), names)
    assert names["best"].certificate.in_bounds and names["order"] in names["LOTS"] and names["choice"] == "all"
    assert names["problem"].n_states < 1_000 and [*names["table"]][:2] == ["state tea", "state rice"]
    example = runpy.run_path(str(ROOT / "examples" / "inventory.py"))
    names["FULL"] = example["FULL"]
    for order in example["LOTS"]:  # the same rules
        given = example["Stock"](35, 50), order
        assert names["next_day"](*given) == example["next_day"](*given)
        after = example["next_day"](*given)[4][0]
        assert names["sales"](*given, after) == example["sales"](*given, after)


def test_a_small_fleet(monkeypatch) -> None:
    """The example itself takes a minute: here is its model with fewer vans, parts, orders and weeks."""
    spec = importlib.util.spec_from_file_location("fleet", ROOT / "examples" / "fleet.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (module.VANS + 1) * (module.PARTS + 1) * module.LEVELS * module.WEEKS == 103_360
    for name, value in {"VANS": 8, "PARTS": 5, "LEVELS": 4, "WEEKS": 2}.items():
        monkeypatch.setattr(module, name, value)
    small = module.fleet()
    assert small.n_states == 9 * 6 * 4 * 2
    best, today = ib.solve(small), ib.evaluate(small, ib.Policy.from_rule(small, module.rule_of_thumb))
    assert best.certificate.in_bounds and (best.reward > today.reward or not today.in_bounds)
