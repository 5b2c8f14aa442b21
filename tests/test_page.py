"""The page: what is in it, that it needs nothing else, and that it works in a real browser."""

from __future__ import annotations

import base64
import contextlib
import errno
import html
import json
import os
import re
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

import inbounds as ib
from inbounds.cli import main
from inbounds.reporting import written_report
from inbounds.reports.page import BESIDE

KINDS = {"u1": "<u1", "u2": "<u2", "u4": "<u4", "f8": "<f8"}


def stock() -> ib.CMDP:
    """Two products on a shelf: labels of two parts, and one that would end a script."""
    full = 6

    def demand(state, action):
        kept = [min(level + (action == name), full) for level, name in zip(state, ("tea", "rice"), strict=True)]
        return [
            ((max(kept[0] - 1, 0), kept[1]), 0.4),
            ((kept[0], max(kept[1] - 1, 0)), 0.4),
            (tuple(kept), 0.2),
        ]

    return ib.build(
        (3, 3),
        lambda state: ["tea", "rice", "</script><b>none"],
        demand,
        reward=lambda state, action: float(min(state) > 0),
        constraints=[ib.Constraint(lambda state, action: action in ("tea", "rice"), at_most=0.5, name="orders <&>")],
        discount=0.9,
        name="shelf & stock",
    )


@pytest.fixture(scope="module")
def shelf(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "shelf.html"
    ib.report(stock(), path, points=5, beside=True)
    return path


def data_of(path: Path) -> dict[str, Any]:
    text = path.read_text("utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def unpacked(packed: dict[str, str]) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(packed["data"])), dtype=KINDS[packed["type"]])


def test_the_page_has_the_policy_of_every_bound(shelf) -> None:
    problem, data = stock(), data_of(shelf)
    best = ib.solve(problem)
    curve = data["frontiers"][0]
    assert data["states"] == 49 and data["layers"] == 1
    columns = [np.array(column["words"])[unpacked(column["places"])].tolist() for column in data["columns"]]
    assert list(zip(*columns, strict=True)) == [(str(a), str(b)) for a, b in problem.state_labels]
    asked = ib.frontier(problem.with_bound(0, at_most=9), 0, 5, certificate=True)  # none for the present bound
    apart = np.abs(asked.bounds - 0.5) > 1e-3  # the one next to the present bound is no other stop
    found = [asked.solutions[point] for point in np.flatnonzero(apart)[::-1]]  # of at_most the loosest are first
    assert len(curve["bounds"]) == len(found) >= 4 and len(data["views"]) == 1 + len(found)
    policies = [best.policy, *(solution.policy for solution in found)]
    for view, policy in zip(data["views"], policies, strict=True):
        chosen, coins = unpacked(view["does"]), {}
        for state, action, chance in zip(
            *(unpacked(view["coins"][name]) for name in ("at", "does", "with")), strict=True
        ):
            coins.setdefault(state, {})[problem.action_labels[action]] = chance
        assert len(coins) == policy.coins
        for state, label in enumerate(policy):
            own = {action: chance for action, chance in policy[label].items() if chance}
            assert own[problem.action_labels[chosen[state]]] == max(own.values())
            assert own == coins.get(state, {problem.action_labels[chosen[state]]: 1.0})  # to the last bit
    time = unpacked(data["views"][0]["time"]).astype(float)
    shown = np.where(time > 0, 10 ** ((time - 65535) / 65534 * data["decades"]) * data["views"][0]["most"], 0.0)
    np.testing.assert_allclose(shown, problem.pairs.sum_by_state(best.occupancy), rtol=3e-4, atol=1e-9)
    assert curve["rewards"] == [solution.reward for solution in found]
    assert curve["bounds"] == sorted(curve["bounds"])
    assert all(said.startswith(("randomises in 1 state;", "never randomises;")) for said in curve["said"])
    assert all(said.endswith("; proved to be in bounds") for said in curve["said"]) and data["other"] is None


def test_it_needs_nothing_from_elsewhere_and_escapes_what_it_shows(shelf) -> None:
    text = shelf.read_text("utf-8")
    urls = set(re.findall(r"https?://[^\s\"'<>]+", text))
    assert urls <= {"http://www.w3.org/2000/svg"}  # the name of a language, which nobody fetches
    assert not re.search(r"<(script|link|img|iframe)[^>]*(src|href)=", text)
    assert text.count("</script>") == 2 and "<b>none" not in text
    assert "shelf &amp; stock" in text and "orders &lt;&amp;&gt;" in text
    assert sorted(path.name for path in shelf.parent.iterdir()) == [
        "shelf-certificate.json", "shelf-model.npz", "shelf-policy.json", "shelf.html",
    ]  # fmt: skip
    assert "inbounds verify shelf-model.npz shelf-certificate.json" in text


@pytest.mark.parametrize("name", ["queue", "media", "admission"])
def test_every_criterion_has_a_page(name, tmp_path) -> None:
    problem = ib.zoo.make(name)
    (path,) = ib.report(problem, tmp_path / "page.html", points=2)
    assert data_of(path)["layers"] == problem.layers
    text = path.read_text()
    criterion = {"queue": "discount 0.5;", "media": "horizon 10;", "admission": "an action; a value is a long-run"}
    assert criterion[name] in text
    assert "inbounds verify page-model.npz page-certificate.json" in text and "MODEL" not in text and "--beside" in text
    assert text.count("<td>") and ("How prices move" in text)
    (bare,) = ib.report(problem.unconstrained(), tmp_path / "bare.html")
    before, proof = bare.read_text().split("<h2>The proof</h2>")
    assert data_of(bare)["frontiers"] == [] and "<table>" not in before and proof.count("<tr>") == 2


@pytest.mark.parametrize(
    ("path", "more", "message"),
    [
        ("page.txt", {}, "the path of a page is a file .html, found"),
        ("page.html", {"points": 1}, "points must be 2 or more, or 0 for no curves"),
        ("none/page.html", {"points": 0}, "cannot be written: no such file"),
    ],
)
def test_bad_input_is_named(tmp_path, path, more, message) -> None:
    with pytest.raises(ib.InvalidInput, match=message):
        ib.report(ib.zoo.queue(), tmp_path / path, **more)


def test_the_model_that_was_read_stays_as_it_was(tmp_path, monkeypatch) -> None:
    """The files beside never have its name of themselves; where they would, nothing is written."""
    monkeypatch.chdir(tmp_path)
    problem = ib.zoo.queue()
    for name, more, code in (
        ("s.npz", [], 0),
        ("t-model.npz", ["--output", "t.html"], 2),
        ("t-model.npz", ["--output", str(tmp_path / "t.html")], 2),
        ("t-model.npz", ["--output", "u.html"], 0),
    ):
        problem.save(name)
        before = Path(name).read_bytes()
        words = ["report", name, "--bound", "service=0.1", "--points", "0", "--beside", *more]
        result = CliRunner().invoke(main, words)
        assert result.exit_code == code and Path(name).read_bytes() == before
        assert code == 0 or "--beside would overwrite t-model.npz, the model itself" in result.output
    assert not Path("t.html").exists()
    assert ib.load("s-service=0.1-model.npz").constraints[0].bound == 0.1


def test_files_that_came_with_no_page_stay_as_they_are(tmp_path) -> None:
    """Those of an earlier page of the same name are replaced; what else has such a name may be anything."""
    queue, page = ib.zoo.queue(), tmp_path / "queue.html"
    for name in ("queue-model.npz", "queue-policy.json"):
        (tmp_path / name).write_text("mine")
        ib.report(queue, page, points=0)  # a page, but without files beside it
        with pytest.raises(ib.InvalidInput, match=f"{name} is there already, and .* came with it"):
            ib.report(queue, page, points=0, beside=True)
        assert (tmp_path / name).read_text() == "mine"
        (tmp_path / name).unlink()
        page.unlink()
    for _ in range(2):
        ib.report(queue, page, points=0, beside=True)
    assert ib.load(tmp_path / "queue-model.npz") == queue


def rule(stock: tuple[int, int]) -> str:
    """What is done today: order what there is less of, and at most four of it."""
    return "</script><b>none" if min(stock) > 3 else "tea" if stock[0] < stock[1] else "rice"


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> Path:
    """The page of the shelf with the rule in use beside the best, through the command line."""
    folder, problem = tmp_path_factory.mktemp("compared"), stock()
    problem.save(folder / "shelf.npz")
    ib.Policy.from_rule(problem, rule).save(folder / "rule.csv")
    words = [str(folder / "shelf.npz"), "--policy", str(folder / "rule.csv"), "--points", "3"]
    result = CliRunner().invoke(main, ["report", *words, "--output", str(folder / "page.html")])
    assert result.exit_code == 0, result.output
    return folder / "page.html"


def test_another_policy_is_beside_the_best(compared) -> None:
    problem, text, data = stock(), compared.read_text("utf-8"), data_of(compared)
    policy, best = ib.Policy.from_rule(problem, rule), ib.solve(problem)
    judged = ib.evaluate(problem, policy)
    assert "It is OUT OF BOUNDS: orders &lt;&amp;&gt; by " in text and not judged.in_bounds
    assert f'<td>reward</td><td class="n">{best.reward:.6g}</td><td class="n">{judged.reward:.6g}</td>' in text
    assert f'<td class="n">{judged.margins[0]:.6g}</td>' in text
    apart = best.policy.compare(policy, best)
    assert f"In {len(apart)} states, and for {apart.share:.2%} of the time of the best." in text
    view = data["views"][data["other"]]
    assert [problem.action_labels[action] for action in unpacked(view["does"])] == [rule(label) for label in policy]
    assert data["frontiers"][0]["other"] == pytest.approx([0.5 - judged.margins[0], judged.reward])
    with pytest.raises(ib.InvalidInput, match="does not belong to this problem"):
        ib.report(problem, compared.with_name("other.html"), policy=ib.Policy.uniform(ib.zoo.queue()))


@pytest.mark.parametrize("name", ["@@DATA@@", "@@HEAD@@", "@@TITLE@@ @@TAIL@@"])
def test_a_name_that_looks_like_a_place_of_the_frame_is_a_name(name, tmp_path) -> None:
    ib.report(replace(ib.zoo.queue(), name=name), tmp_path / "page.html", points=0)
    text = (tmp_path / "page.html").read_text("utf-8")
    assert f"<title>{name}</title>" in text and f"<h1>{name}</h1>" in text
    assert data_of(tmp_path / "page.html")["states"] == 6 and text.count("<h2>The proof</h2>") == 1


@pytest.mark.skipif(os.name != "posix", reason="names of files on POSIX systems")
@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("a b", "inbounds verify 'a b-model.npz' 'a b-certificate.json'"),
        ("-x", "inbounds verify ./-x-model.npz ./-x-certificate.json"),
        (os.fsdecode(b"\xff"), r"inbounds verify '\udcff-model.npz' '\udcff-certificate.json'"),
    ],
)
def test_the_command_of_a_page_is_one_for_its_files(name, command, tmp_path) -> None:
    ib.report(ib.zoo.queue(), tmp_path / f"{name}.html", points=0, beside=True)
    assert f"<pre>{html.escape(command)}</pre>" in (tmp_path / f"{name}.html").read_text("utf-8")


def test_infeasible_problems_have_no_page(tmp_path) -> None:
    with pytest.raises(ib.Infeasible):
        ib.report(ib.zoo.queue().with_bound("service", at_least=99), tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def level(more: float = 0.0) -> ib.CMDP:
    """One state, with a bound that is as tight as it can be, and costs next to nothing."""
    return ib.build(
        start=0,
        actions=lambda state: [0, 1],
        transitions=lambda state, act: [(0, 1.0)],
        reward=lambda state, act: 2.0 + more * (1 - act),
        constraints=[ib.Constraint(lambda state, act: act, at_least=1.0, name="work")],
        horizon=3,
    ).with_bound("work", at_least=3.0)


@pytest.mark.parametrize("more", [0.0, 1e-15])
def test_a_bound_that_costs_nothing_as_far_as_it_can_be_kept_has_a_sentence(tmp_path, more: float) -> None:
    ib.report(level(more), tmp_path / "page.html")
    told = "work at least 3 does not matter: a looser bound gains nothing, and no policy keeps more."
    text = (tmp_path / "page.html").read_text()
    assert html.escape(level().constraints[0].in_words) in text and told.split("does")[1] in text
    assert '"frontiers": []' in text


# ---- in a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("no chromium and chromedriver here: make browser installs them")
    selenium = pytest.importorskip("selenium.webdriver")
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "disable-background-networking",
                 "disable-component-update", "disable-sync", "no-first-run", "window-size=1200,1400"):  # fmt: skip
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    window = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    window.set_script_timeout(30)
    yield window
    window.quit()


def opened(browser, path: Path) -> Any:
    browser.get(path.as_uri())
    browser.execute_async_script(
        "const done = arguments[0]; (function wait() { window.ready ? done() : setTimeout(wait, 20); })();"
    )
    return browser


def rows(browser) -> list[list[str]]:
    script = "return [...document.querySelectorAll('#rows .row')].map(r => [...r.children].map(c => c.textContent))"
    return browser.execute_script(script)


def typed(browser, text: str) -> str:
    """What the count says after a filter."""
    browser.execute_async_script(
        "const box = document.getElementById('filter'), done = arguments[1]; box.value = arguments[0];"
        "box.dispatchEvent(new Event('input')); requestAnimationFrame(() => requestAnimationFrame(() => done()));",
        text,
    )
    return browser.find_element("id", "count").text


def test_a_curve_of_noise_is_level_and_its_axis_tells_different_numbers(browser, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("inbounds.reporting._never_matters", lambda *told: False)
    ib.report(level(1e-12), tmp_path / "page.html", points=4)
    opened(browser, tmp_path / "page.html")
    line = browser.find_element("css selector", "#curves polyline").get_attribute("points")
    heights = [float(place.split(",")[1]) for place in line.split()]
    assert max(heights) - min(heights) < 3.0  # of 152
    names = browser.execute_script(
        "return [...document.querySelectorAll('#curves text[text-anchor=end]')].map(name => name.textContent)"
    )
    assert len(set(names)) == len(names) > 2


def test_parts_that_have_names_are_filtered_by_them(browser, tmp_path) -> None:
    class Stock(NamedTuple):
        tea: int
        rice: int

    shop = ib.build(
        Stock(0, 1),
        lambda stock: ["order", "wait"],
        lambda stock, action: [(Stock(tea, rice), 0.25) for tea in (0, 1) for rice in (1, 2)],
        reward=lambda stock, action: float(stock.tea),
        discount=0.9,
    )
    ib.report(shop, tmp_path / "shop.html")
    opened(browser, tmp_path / "shop.html")
    assert typed(browser, "rice=2") == "2 of 4 states" and {row[1] for row in rows(browser)} == {"2"}
    assert typed(browser, "tea=1 rice=2") == "1 of 4 states"
    heads = browser.execute_script("return [...document.querySelectorAll('#heads button')].map(b => b.textContent)")
    assert heads[:2] == ["tea", "rice"]


class Clash(NamedTuple):
    """Parts that are called as the page calls columns of its own, or as each other but for what is small or blank."""

    time: int
    does: int
    stage: int
    other: int
    Probability: int
    time_there: int
    state_time: int
    Tea: int
    tea: int


@pytest.mark.parametrize("criterion", [{"discount": 0.9}, {"horizon": 2}])
def test_every_column_can_be_asked_for_by_its_name(browser, tmp_path, criterion) -> None:
    """(`time>1`, which the page says is about the time in percent, was about a part of that name.)"""
    labels = [Clash(*map(int, f"{number:09b}")) for number in range(512)]
    n = len(labels)
    moves = sp.csr_array(
        (np.ones(2 * n), (np.arange(2 * n), np.arange(2 * n) // 2 + np.arange(2 * n) % 2)), (2 * n, n + 1)
    )
    moves = sp.csr_array(moves[:, :n] + sp.csr_array(([1.0], ([2 * n - 1], [0])), (2 * n, n)))
    problem = ib.CMDP(
        offsets=np.arange(0, 2 * n + 1, 2), transition=moves, reward=np.tile([0.0, 1.0], n), constraints=(),
        initial=np.eye(n)[0], state_labels=tuple(labels), action_labels=("stay", "go"), **criterion,
    )  # fmt: skip
    stays = ib.Policy.from_rule(problem, lambda *_: "stay")
    ib.report(problem, tmp_path / "page.html", points=0, policy=stays)
    opened(browser, tmp_path / "page.html")
    layers = criterion.get("horizon", 1)

    def count(text: str) -> int:
        return int(typed(browser, text).split(" ")[0].replace(",", ""))

    heads = [head.text for head in browser.find_elements("css selector", "#heads button")]
    named = [
        *("state time", "state does", "state stage" if layers > 1 else "stage", "state other", "state Probability"),
        *("time_there", "state_time", "Tea", "tea"),
    ]
    assert heads == [*["stage"] * (layers > 1), *named, "does", "other", "time there ▼"]
    for place, name in enumerate(named, layers > 1):
        for text in (f"{name}=1", f'"{name}" = 1', f"{name} > 0"):
            assert count(text) == layers * n / 2 and {row[place] for row in rows(browser)} == {"1"}, text
    assert count("other=stay") == layers * n and count("STATEOTHER=1") == layers * n / 2
    share = np.atleast_2d([problem.pairs.sum_by_state(own) for own in np.atleast_2d(ib.solve(problem).occupancy)])
    often = np.sum(share / layers > 0.01)
    assert count("time>1") == count("time there>1") == often and 0 < often < layers * n
    # What is compared is what is shown: of a share that is shown as 4.00 %, time>=4 and time=4 say the same.
    times = {row[-1].removesuffix(" %") for row in rows(browser) if row[-1] not in ("0", "< 0.0001 %")}
    for time in times:
        equal, more, less = (count(f"time{sign}{time}") for sign in ("=", ">", "<"))
        assert equal > 0 and equal + more + less == layers * n
        assert count(f"time>={time}") == equal + more and count(f"time<={time}") == equal + less
    examples = {code.text: count(code.text) for code in browser.find_elements("css selector", "#explained code")}
    goes = count("does=go")
    stage = {"stage=0": n} if layers > 1 else {}
    compare = {"state time<1": layers * n / 2}
    assert examples == {**compare, **stage, "does=go": goes, "time>1": often, "randomises": 0, "differs": goes}
    placeholder = browser.execute_script("return document.getElementById('filter').placeholder")
    assert placeholder == "state time=0 does=go" and count(placeholder) > 0
    assert [browser.find_element("id", axis).text for axis in ("level", "upright")] == ["state time", "state does"]
    assert browser.get_log("browser") == []


def test_every_label_can_be_asked_for(browser, tmp_path) -> None:
    """Also one with quotes, which are doubled within quotes; and a column whose name is in quotes."""
    sizes = [
        "",
        "5",
        '5"',
        'say "hi"',
        "say hi",
        "SAY HI",
        '"',
        '"5"',
        "(a",
        'x time>1 "',
        "((0, 1), 2)",
        "a=b",
        "gone",
    ]
    n = len(sizes)
    problem = ib.CMDP(
        offsets=np.arange(n + 1), transition=sp.eye_array(n, format="csr"), reward=np.zeros(n), constraints=(),
        initial=np.full(n, 1 / n), discount=0.5, state_labels=tuple((size, place) for place, size in enumerate(sizes)),
        action_labels=("stay",),
    )  # fmt: skip
    ib.report(problem, tmp_path / "page.html", points=0)
    opened(browser, tmp_path / "page.html")
    for place, size in enumerate(sizes):
        written = '"' + size.replace('"', '""') + '"'
        shown = browser.execute_script("return quoted(arguments[0])", size)
        for value in (written, shown):
            for text in (f"state 1={value}", f'"state 1" = {value} state2={place}', f"state2<99 state1=={value} stay"):
                assert typed(browser, text) == f"1 of {n} states", text
                assert [row[1] for row in rows(browser)] == [str(place)]
    for text, found in {
        'state 1=5"': 1,
        'state 1=say "hi"': 1,
        "state 1=Say Hi": 3,
        '"state 1=SAY HI"': 1,
        '"state 1" = gone': 1,
        '"state 2" >= 2': n - 2,
        '"state 2" >= 2 "STATE2" < 4': 2,
        '"state 2">=2': n - 2,
        "state 2 >= 2": n - 2,
        '"state 2 >= 2"': n - 2,
        '"say ""hi"""': 3,
    }.items():
        assert typed(browser, text) == f"{found} of {n} states", text
    assert "; no column state 3 (there are state 1, state 2, does" in typed(browser, '"state 3" >= 2')
    assert typed(browser, "state 1=").endswith("; state 1 = what?")
    assert '"5"""' in typed(browser, "state 1=nothing")
    assert browser.get_log("browser") == []


def test_filter_sort_and_slider_in_a_browser(browser, shelf) -> None:
    opened(browser, shelf)
    policy = ib.solve(stock()).policy
    assert typed(browser, "") == "49 of 49 states"
    assert typed(browser, "state1=3") == "7 of 49 states" and {row[0] for row in rows(browser)} == {"3"}
    takes_tea = sum(policy[state].get("tea", 0.0) > 0.0 for state in policy)
    assert typed(browser, "does=tea") == f"{takes_tea} of 49 states"
    assert typed(browser, "nowhere") == "0 of 49 states; no state has nowhere" and rows(browser) == []
    assert typed(browser, "state9=3 tea").startswith(
        "0 of 49 states; no column state9 (there are state 1, state 2, does"
    )
    typed(browser, "")
    for _ in range(2):  # once up, twice down
        browser.execute_script("document.querySelector('[data-column=\"1\"]').click()")
    assert [row[1] for row in rows(browser)][:7] == ["6"] * 7
    before = rows(browser)
    here = sum(bound < 0.5 for bound in data_of(shelf)["frontiers"][0]["bounds"])
    assert browser.execute_script("return +document.querySelector('#curves input').value") == here
    for value, words in ((0, "Shown below: orders <&> <="), (here, "Shown below: the bounds as they are.")):
        browser.execute_async_script(
            "const s = document.querySelector('#curves input'), done = arguments[1]; s.value = arguments[0];"
            "s.oninput().then(() => done());",
            value,
        )
        assert browser.find_element("id", "now").text.startswith(words)
        assert (rows(browser) == before) == (value == here)
    painted = "const c = document.getElementById('canvas'); return c.getContext('2d').getImageData(3, 3, 1, 1).data[3]"
    assert browser.execute_script(painted) > 0
    assert browser.get_log("browser") == []


def test_another_policy_in_a_browser(browser, compared) -> None:
    opened(browser, compared)
    problem = stock()
    apart = ib.solve(problem).policy.compare(ib.Policy.from_rule(problem, rule))
    assert typed(browser, "differs") == f"{len(apart)} of 49 states"
    assert typed(browser, "other=tea") == f"{sum(rule(label) == 'tea' for label in problem.state_labels)} of 49 states"
    shown = {tuple(map(int, row[:2])): row[3] for row in rows(browser)}
    assert shown and all(rule(label) == does for label, does in shown.items())
    colours = []
    for which in ("current", "other", "differs"):
        colours.append(
            browser.execute_script(
                "const s = document.getElementById('drawn'); s.value = arguments[0]; s.onchange();"
                "return document.getElementById('canvas').toDataURL()",
                which,
            )
        )
    assert colours[0] != colours[1] != colours[2] and len(browser.find_elements("css selector", "#curves .other")) == 1
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("width", [1200, 400])
def test_nothing_collides_or_sticks_out(browser, compared, tmp_path, width) -> None:
    """Names of values beside the map and the curves lie apart and inside, and the page is as wide as the window."""
    ib.report(ib.zoo.queue(), tmp_path / "queue.html", points=4)
    name = "x" * 300
    queue = ib.zoo.queue()
    named = tuple(replace(one, name=f"{name}{one.name}") for one in queue.constraints)
    states = tuple(f"{name}{state}" for state in range(6))
    long = replace(queue, name=name, state_labels=states, constraints=named)
    ib.report(long, tmp_path / "long.html", points=0)
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    cut = "return [...document.querySelectorAll('pre')].some(block => block.scrollWidth > block.clientWidth)"
    try:
        opened(browser, tmp_path / "long.html")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        if width > 400:  # on a telephone these tables scroll whatever their names are
            assert not browser.execute_script(cut.replace("pre", "table"))
        for path, axes in ((compared, ("state 1", "state 2")), (tmp_path / "queue.html", ("state", ""))):
            opened(browser, path)
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
            assert not browser.execute_script(cut)
            assert axes == tuple(browser.find_element("id", name).text for name in ("level", "upright"))
            boxes = browser.execute_script(
                "return [...document.querySelectorAll('#curves svg'), document.getElementById('chart')].map(box =>"
                "[box, ...box.querySelectorAll('text, .ticks span')].map(e => { const r = e.getBoundingClientRect();"
                "return [e.textContent, r.left, r.right, r.top, r.bottom]; }))"
            )
            for (_, left, right, top, bottom), *texts in boxes:
                assert len(texts) > 5
                for place, (word, *one) in enumerate(texts):
                    assert (
                        word
                        and left - 4 <= one[0]
                        and one[1] <= right + 8
                        and top - 4 <= one[2]
                        and one[3] <= bottom + 4
                    )
                    for other, *two in texts[:place]:
                        apart = one[0] >= two[1] or two[0] >= one[1] or one[2] >= two[3] - 3 or two[2] >= one[3] - 3
                        assert apart, (word, other)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_coins_are_shown_whole_in_a_browser(browser, tmp_path) -> None:
    """Every action of a coin, with its probability to three digits: in the table, over the map, and when asked for."""
    problem = ib.zoo.queue()
    (path,) = ib.report(problem, tmp_path / "queue.html", points=0)
    opened(browser, path)
    policy = ib.solve(problem).policy
    assert browser.find_element("id", "under").text.endswith(" A dot: the policy randomises there.")
    coins = {state: own for state in policy if max((own := policy[state]).values()) < 1.0}
    assert typed(browser, "randomises") == f"{len(coins)} of 6 states" and len(coins) == policy.coins == 2
    for state, does, _ in rows(browser):
        own = {action: chance for action, chance in coins[int(state)].items() if chance}
        shown = re.findall(r"(\(.*?\)) ([\d.e-]+) %", does)
        assert [name for name, _ in shown] == [str(action) for action in sorted(own, key=own.get, reverse=True)]
        for name, percent in shown:
            chance = own[next(action for action in own if str(action) == name)]
            assert abs(float(percent) / 100 - chance) <= 0.5e-2 * min(chance, 1 - chance)
        over = (
            "const c = document.getElementById('canvas'), b = c.getBoundingClientRect();"
            "c.onmousemove({clientX: b.left + (arguments[0] + .5) * b.width / 6, clientY: b.top + b.height / 2});"
            "return document.getElementById('under').textContent"
        )
        assert f"does: {does}," in browser.execute_script(over, int(state))
    for chance, text in ((0.554321, "55.4 %"), (0.999995, "99.9995 %"), (0.000005, "0.0005 %"), (0.5, "50 %")):
        assert browser.execute_script("return chance(arguments[0])", chance) == text
    action = next(iter(coins.values()))
    name = str(max(action, key=action.get))  # a tuple, so with a blank
    assert ", " in name
    takes = sum(own.get(max(action, key=action.get), 0.0) > 0.0 for own in map(policy.__getitem__, policy))
    for term in (f"does={name}", f'"does={name}"', f'does="{name}"', f"does={name.replace(' ', '')}", name):
        assert typed(browser, term) == f"{takes} of 6 states"
    assert browser.get_log("browser") == []


def test_a_flat_curve_has_one_short_number(browser, shelf) -> None:
    opened(browser, shelf)
    for ends, found in (((1 / 3, 1 / 3), [0.333333]), ((1 / 3, 1 / 3 + 1e-13), [0.333333]), ((0, 1), [0, 0.5, 1])):
        assert browser.execute_script("return round(arguments[0], arguments[1], 2)", *ends) == found


def test_the_slider_runs_as_the_curve_does(browser, shelf, tmp_path) -> None:
    """Its right end is the right end of the curve, whether the bound is at_most or at_least."""
    queue = tmp_path / "queue.html"
    ib.report(ib.zoo.queue(), queue, points=4)
    for path, points in ((shelf, 4), (queue, 4)):
        opened(browser, path)
        script = (
            "const s = document.querySelector('#curves input'), done = arguments[1]; s.value = arguments[0];"
            "const of = name => s.mark.getAttribute(name);"
            "s.oninput().then(() => done(of('visibility') === 'visible' ? +of('cx') : null))"
        )
        places = [browser.execute_async_script(script, value) for value in range(points + 1)]
        marked = [place for place in places if place is not None]
        assert len(marked) == points and marked == sorted(marked) and marked[0] < marked[-1]


def stage_on_the_map(browser, stage: int) -> str:
    """The map of a stage, as the browser has painted it."""
    return browser.execute_script(
        "const s = document.getElementById('stage'); s.value = arguments[0]; s.dispatchEvent(new Event('change'));"
        "return document.getElementById('canvas').toDataURL()",
        stage,
    )


def test_stages_in_a_browser(browser, tmp_path) -> None:
    """The table has every stage, and the map one."""
    media = ib.zoo.media()
    (path,) = ib.report(media, tmp_path / "media.html", points=0)
    opened(browser, path)
    policy, count = ib.solve(media).policy, media.n_states
    whole = f"{10 * count} states at their stages ({count} states, 10 stages)"
    assert typed(browser, "") == f"{10 * count} of {whole}"
    for stage in (0, 9):
        own = policy.at(stage)
        assert typed(browser, f"stage={stage}") == f"{count} of {whole}"
        shown = {row[1]: re.sub(r" \d.*", "", row[2]) for row in rows(browser)}
        assert shown == {str(state): max(own[state], key=own[state].get) for state in own}
    assert stage_on_the_map(browser, 0) != stage_on_the_map(browser, 9)
    assert typed(browser, "stage=9") == f"{count} of {whole}"
    assert browser.get_log("browser") == []


class Ward(NamedTuple):
    beds: int
    waiting: int


def ward() -> ib.CMDP:
    """Five days, 20 states, names of actions with blanks, a bound that binds, and one that nothing comes near."""

    def tomorrow(here: Ward, action: str) -> list[tuple[Ward, float]]:
        admitted = min(int(action.split()[1]), here.waiting, 4 - here.beds)
        beds = here.beds + admitted
        return [
            (Ward(max(beds - gone, 0), min(here.waiting - admitted + new, 3)), p * q)
            for gone, p in ((0, 0.5), (1, 0.5))
            for new, q in ((0, 0.4), (1, 0.6))
        ]

    return ib.build(
        Ward(2, 1),
        lambda here: [f"admit {number}" for number in range(min(here.waiting, 2) + 1)],
        tomorrow,
        reward=lambda here, action: min(int(action.split()[1]), 4 - here.beds),
        constraints=[
            ib.Constraint(lambda here, action: float(here.beds), at_most=6.0, name="beds taken"),
            ib.Constraint(lambda here, action: 1e-6 * here.waiting, at_most=1.5, name="refusals"),
        ],
        horizon=5,
        name="ward",
    )


@pytest.fixture(scope="module")
def fortnight(tmp_path_factory) -> Path:
    problem = ward()
    today = ib.Policy.from_rule(problem, lambda here, day: f"admit {min(here.waiting, 1)}")
    path = tmp_path_factory.mktemp("ward") / "ward.html"
    ib.report(problem, path, points=4, policy=today)
    return path


def test_what_is_said_of_all_stages_is_found_in_them(browser, fortnight) -> None:
    """Where two policies differ, and where one randomises: as many rows as the words and the policy have."""
    problem = ward()
    best, states = ib.solve(problem), problem.n_states
    apart = best.policy.compare(ib.Policy.from_rule(problem, lambda here, day: f"admit {min(here.waiting, 1)}"))
    whole = f"{5 * states} states at their stages ({states} states, 5 stages)"
    opened(browser, fortnight)
    page = browser.find_element("tag name", "main").text
    assert f"In {len(apart)} of {whole}, and for" in page and apart.stages is not None
    assert typed(browser, "differs") == f"{len(apart)} of {whole}"
    for stage in range(5):
        assert typed(browser, f"differs stage={stage}").startswith(f"{sum(apart.stages == stage)} of ")
    assert typed(browser, "randomises") == f"{best.policy.coins} of {whole}" and best.policy.coins == 1
    ((stage, *_),) = rows(browser)
    assert best.policy.at(int(stage)).coins == 1
    assert "randomises in 1 state at its stage; proved" in fortnight.read_text()


@pytest.mark.slow
def test_the_filter_compares_and_says_why_nothing_is_left(browser, fortnight) -> None:
    problem, policy = ward(), ib.solve(ward()).policy
    opened(browser, fortnight)
    labels = [label for label in problem.state_labels for _ in range(5)]

    def count(text: str) -> int:
        return int(typed(browser, text).split(" ")[0].replace(",", ""))

    for term, keeps in {
        "beds<2": lambda here: here.beds < 2,
        "beds < 2": lambda here: here.beds < 2,
        "beds>=3": lambda here: here.beds >= 3,
        "BEDS<=3 waiting!=1": lambda here: here.beds <= 3 and here.waiting != 1,
        "beds == 2.0": lambda here: here.beds == 2,
        "waiting>0.5": lambda here: here.waiting > 0.5,
    }.items():
        assert count(term) == sum(map(keeps, labels)), term
    assert count("stage>=3") == 2 * problem.n_states
    rules = [policy.at(stage)[label] for stage in range(5) for label in problem.state_labels]
    admits = sum(rule.get("admit 1", 0.0) > 0.0 for rule in rules)
    for term in ("does=admit 1", 'does="admit 1"', '"does=admit 1"', "does = ADMIT  1", "admit 1", '"admit 1"'):
        assert count(term) == admits, term
    assert count("does=admit 1 stage=2") == sum(rule.get("admit 1", 0.0) > 0.0 for rule in rules[40:60])
    assert count("does!=admit 1") == len(rules) - admits
    time = ib.solve(problem).occupancy
    share = np.array([problem.pairs.sum_by_state(own) for own in time]) / 5
    for term in ("time>1", "time there>1%", "time there > 1 %", '"time there">1', "time_there>1", "timethere>1"):
        assert count(term) == np.sum(share > 0.01), term
    assert count("time=0") == count("time<=0") == np.sum(share == 0.0) and count("probability<100") == 1
    for term, why in {
        "does=admit": '; does is never admit: it is "admit 0", "admit 1", "admit 2"',
        "beds=99": "; beds is never 99: it is 0, 1, 2, 3, 4",
        "bed<3": "; no column bed (there are stage, beds, waiting, does, other, time there)",
        "bed < 3": "; no column bed (there are stage, beds, waiting, does, other, time there)",
        "does<3": "; does has words, not numbers: it takes = and !=",
        "beds<few": "; few is no number",
        "beds<": "; beds < what?",
        "beds=1 beds=2": "; each holds somewhere, but nowhere together",
        "beds>4": "; no state has beds>4",
        "order": "; no state has order",
    }.items():
        said = typed(browser, term)
        assert said.startswith("0 of ") and said.endswith(why) and rows(browser) == [], term
    placeholder = browser.execute_script("return document.getElementById('filter').placeholder")
    assert placeholder == 'beds=2 does="admit 0"' and count(placeholder) > 0
    explained = browser.find_elements("css selector", "#explained code")
    assert [code.text for code in explained][-2:] == ["randomises", "differs"]
    assert all(count(code.text) > 0 for code in explained)
    assert browser.get_log("browser") == []


def test_the_most_time_comes_first(browser, fortnight) -> None:
    opened(browser, fortnight)
    problem = ward()
    first, *rest = rows(browser)
    assert first[:3] == ["0", "2", "1"] and first[-1] == "20.0 %"  # the start, for a fifth of the time
    shares = [0.0 if row[-1] == "0" else float(re.sub("[<% ]", "", row[-1])) for row in rest]
    assert shares == sorted(shares, reverse=True)
    heads = (
        "return [...document.querySelectorAll('#heads button')].map(b => [b.textContent, b.getAttribute('aria-sort')])"
    )
    assert browser.execute_script(heads)[-1] == ["time there ▼", "descending"]
    browser.execute_script("document.querySelector('#heads span:last-child button').click()")
    assert rows(browser)[0][1:3] == [str(part) for part in problem.state_labels[0]]  # as the model has them


@pytest.mark.slow
def test_an_action_keeps_its_colour(browser, fortnight, shelf) -> None:
    """Whatever the slider, the stage and the choice show, on the way there and back."""
    script = """
        const done = arguments[0], seen = {};
        function look() {
          const canvas = document.getElementById('canvas'), wide = data.columns[0].size, high = data.columns[1].size;
          const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
          copy.drawImage(canvas, 0, 0);
          for (const [cell, s] of cells) {
            const of = other && document.getElementById('drawn').value === 'other' ? other : current;
            const x = (cell % wide + .1) / wide * canvas.width;
            const y = (Math.floor(cell / wide) + .1) / high * canvas.height;
            (seen[data.actions[of.does[at(s)]]] ??= new Set()).add(copy.getImageData(x, y, 1, 1).data.join());
          }
          for (const item of document.querySelectorAll('#key span')) {
            const [r, g, b] = getComputedStyle(item.querySelector('i')).backgroundColor.match(/\\d+/g);
            (seen[item.textContent] ??= new Set()).add([r, g, b, 255].join());
          }
        }
        (async () => {
          for (const slider of document.querySelectorAll('#curves input'))
            for (const value of [...Array(+slider.max + 1).keys(), +slider.here]) {
              slider.value = value; await slider.oninput();
              for (let h = 0; h < L; h++) {
                stage = h;
                for (const which of other ? ['other', 'current'] : ['current']) {
                  document.getElementById('drawn').value = which; drawMap(); look();
                }
              }
            }
          done(Object.entries(seen).map(([name, fills]) => [name, [...fills]]));
        })();
    """
    for path, several in ((fortnight, 3), (shelf, 3)):
        opened(browser, path)
        seen = browser.execute_async_script(script)
        assert len(seen) == several and all(len(fills) == 1 for _, fills in seen), seen
        assert len({fills[0] for _, fills in seen}) == several
    assert browser.get_log("browser") == []


def test_a_bound_that_does_not_matter_has_a_sentence(browser, fortnight) -> None:
    opened(browser, fortnight)
    curve = ib.frontier(ward(), "refusals", 3)
    notes = browser.find_element("id", "notes").text
    begins, last = curve.ends_in_words
    assert notes == (
        f"refusals <= 1.5 does not matter: a tighter bound costs nothing until {begins}; no policy keeps less than "
        f"{last}."
    )
    assert [own["name"] for own in data_of(fortnight)["frontiers"]] == ["beds taken"]


@pytest.mark.slow
def test_the_present_bound_is_on_the_curve(browser, shelf, tmp_path) -> None:
    """Whether it binds, or lies before the bounds that matter; and no stop of the slider is next to it."""
    loose = stock().with_bound("orders <&>", at_most=1.2)
    ib.report(loose, tmp_path / "loose.html", points=5)
    ib.report(loose.with_bound("orders <&>", at_most=9), tmp_path / "far.html", points=5)
    for path, title in ((shelf, ""), (tmp_path / "loose.html", "until"), (tmp_path / "far.html", "until")):
        opened(browser, path)
        (own,) = data_of(path)["frontiers"]
        shown = len(own["bounds"]) + (own["present"] < 9)  # no policy orders so much
        stops = browser.execute_script(
            "return [...document.querySelectorAll('#curves .stop')].map(c => +c.getAttribute('cx'))"
        )
        assert len(stops) == shown and stops == sorted(stops) and np.diff(stops).min() > 1
        assert browser.execute_script("return +document.querySelector('#curves input').max") == len(own["bounds"])
        text = browser.find_element("id", "curves").text
        assert (f"; does not matter {title} " in text) == bool(title)
        assert own["bounds"][-1] >= own["present"] if not title else own["bounds"][-1] == pytest.approx(own["matters"])
    assert browser.get_log("browser") == []


def test_small_bounds_are_short(browser, shelf) -> None:
    opened(browser, shelf)
    for number, text in (
        (1.65e-6, "1.65e-6"),
        (0.25, "0.25"),
        (0, "0"),
        (-3.2e-5, "-3.2e-5"),
        (123456789, "123457000"),
    ):
        assert browser.execute_script("return digits(arguments[0])", number) == text


@pytest.mark.parametrize("finished", [None, 0, 1])
@pytest.mark.slow
def test_a_page_says_what_the_time_limit_left_out(browser, tmp_path, monkeypatch, finished) -> None:
    """No curve at all, none of its points, or one: on the page, by the command, and for programs."""
    problem = ib.zoo.queue()
    whole = {name: ib.frontier(problem, name, 4, certificate=True) for name in ("service", "flow")}

    def late(cmdp, k, points=4, **_):
        curve = whole[cmdp.constraints[k].name]
        if not finished or curve.constraint == "flow":
            raise ib.Stopped("time limit")
        return replace(curve, bounds=curve.bounds[:1], solutions=curve.solutions[:1], status="time limit")

    monkeypatch.setattr("inbounds.reporting.frontier", late)
    if finished is None:
        unproved = ib.solve(problem, certificate=False)
        monkeypatch.setattr("inbounds.reporting.solve", lambda *_, **__: unproved)
    words = ["report", "queue", "--points", "4", "--output", str(tmp_path / "page.html"), "--time-limit", "60"]
    result = CliRunner().invoke(main, words)
    service = (
        "3 of the 4 points of the curve of service, those of the tightest bounds"
        if finished
        else "the curve of service"
    )
    missing = ["the proof of the policy", "how prices move"] * (finished is None) + [service, "the curve of flow"]
    assert result.exit_code == 5, result.output
    assert f"TIME LIMIT: missing from the page: {'; '.join(missing)}." in re.sub(r"\s+", " ", result.output)
    opened(browser, tmp_path / "page.html")
    notice = browser.find_element("css selector", ".cut").text
    assert notice == f"Cut short by the time limit of 60 seconds. Missing: {'; '.join(missing)}."
    assert browser.find_element("id", "frontiers").is_displayed() == bool(finished)
    proved = "not proved in the time that was given" not in browser.find_element("tag name", "main").text
    assert proved == (finished is not None)
    stops = browser.execute_script(
        "return [...document.querySelectorAll('#curves .stop')].map(c => +c.getAttribute('cx'))"
    )
    if finished:
        assert len(stops) == 2 and stops[1] - stops[0] > 200  # the point that is there and the present one, far apart
        slider = browser.find_element("css selector", "#curves input")
        assert slider.size["width"] > 200 and slider.get_attribute("max") == "1"
        assert (
            "the tightest bounds are missing: the search for them was cut short"
            in browser.find_element("id", "curves").text
        )
    assert browser.get_log("browser") == []
    found = json.loads(CliRunner().invoke(main, [*words, "--json"]).output)
    assert found["status"] == "time limit" and found["missing"] == missing


def test_progress_counts_the_points_of_the_curves(tmp_path) -> None:
    told: list[tuple[int, int]] = []
    doing: list[str] = []
    seen = written_report(
        ward(), tmp_path / "ward.html", points=4, progress=lambda *step: told.append(step), says=doing.append
    )
    assert seen.missing == () and {total for _, total in told} == {9}
    counts = [done for done, _ in told]
    assert counts == sorted(counts) and set(counts) == {0, 1, 5, 6, 7, 8, 9}  # that which does not matter has no points
    assert {"the optimum", "beds taken: where its curve begins and ends", "beds taken: bound 4 of 4"} <= set(doing)


def test_large_problems_have_fewer_points_unless_they_are_asked_for(tmp_path, monkeypatch) -> None:
    queue = ib.zoo.queue()
    for points, limits, found in (
        (None, (20_000, 200_000), 12),
        (None, (5, 200_000), 6),
        (None, (5, 5), 4),
        (3, (5, 5), 3),
    ):
        monkeypatch.setattr("inbounds.reporting._POINTS", tuple(zip(limits, (12, 6), strict=True)))
        (path,) = ib.report(queue, tmp_path / "queue.html", points=points)
        assert {len(own["bounds"]) for own in data_of(path)["frontiers"]} == {found}
        assert ("The problem is large, and a point is a solve:" in path.read_text()) == (points is None and found < 12)


def test_columns_out_of_sight_are_told(browser, fortnight) -> None:
    try:
        for width in (1200, 400):
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            opened(browser, fortnight)
            assert browser.find_element("id", "aside").is_displayed() == (width == 400)
            last, inside, heads = browser.execute_script(
                "const rows = document.getElementById('rows'), left = rows.getBoundingClientRect().left;"
                "const right = own => own.lastElementChild.getBoundingClientRect().right;"
                "return [right(rows.querySelector('.row')), left + rows.clientWidth,"
                " right(document.getElementById('heads'))]"
            )
            assert last <= inside + 1 and abs(heads - last) <= 1  # no column under the scroll bar
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_many_states_stay_quick(browser, tmp_path) -> None:
    """benchmarks/page.py measures; here, that nothing breaks at 40,000 states."""
    side = 200
    labels = [(i, j) for i in range(side) for j in range(side)]
    n = len(labels)
    after = np.arange(n) // side * side + (np.arange(n) + 1) % side
    stay, go = sp.eye_array(n, format="csr"), sp.csr_array((np.ones(n), (np.arange(n), after)), shape=(n, n))
    moves = sp.vstack([stay, go], format="csr")[np.arange(2 * n).reshape(2, n).T.ravel()]
    problem = ib.CMDP(
        offsets=np.arange(0, 2 * n + 1, 2), transition=moves, reward=np.tile([0.0, 1.0], n), constraints=(),
        initial=np.full(n, 1 / n), discount=0.5, state_labels=tuple(labels), action_labels=("stay", "go"),
    )  # fmt: skip
    (path,) = ib.report(problem, tmp_path / "large.html", points=0)
    opened(browser, path)
    assert typed(browser, "state2=7 go") == "200 of 40,000 states"
    assert browser.get_log("browser") == [] and os.path.getsize(path) < 1_000_000


def test_a_page_and_what_is_beside_it_change_together_or_not_at_all(tmp_path, monkeypatch) -> None:
    """(Where the disk was full an old page was left beside the model and the proof of another one.)"""
    queue, page = ib.zoo.queue(), tmp_path / "p.html"
    ib.report(queue, page, points=0, beside=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(*given):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for failing in ("fsync", "replace"):
        with (
            monkeypatch.context() as patch,
            pytest.raises(ib.InvalidInput, match=r"p.*: cannot be written: no space"),
        ):
            patch.setattr(os, failing, full)
            ib.report(queue.with_bound("service", at_least=0.3), page, points=0, beside=True)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    ib.report(queue.with_bound("service", at_least=0.3), page, points=0, beside=True)
    assert {path.name for path in tmp_path.iterdir()} == set(before) and page.read_bytes() != before["p.html"]


def test_without_a_proof_none_of_an_earlier_page_stays(tmp_path) -> None:
    """(The certificate of another model stayed beside the new one, and the next page was refused.)"""
    page, small, large = tmp_path / "p.html", ib.zoo.queue(), ib.zoo.inventory()
    ib.report(small, page, points=0, beside=True)
    for limit in (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3):
        with contextlib.suppress(ib.Stopped):
            written = ib.report(large, page, points=0, beside=True, time_limit=limit)
            if (tmp_path / "p-certificate.json") not in written:
                assert not (tmp_path / "p-certificate.json").exists() and BESIDE in page.read_text()
                break
    ib.report(large, page, points=0, beside=True)
    assert (tmp_path / "p-certificate.json").exists()


@pytest.mark.parametrize("command", ["report", "frontier"])
def test_a_command_does_not_overwrite_what_it_reads_through_a_link(command: str, tmp_path: Path) -> None:
    model = tmp_path / "m.toml"
    model.write_text((Path(__file__).parents[1] / "examples" / "machine.toml").read_text())
    before = model.read_bytes()
    if command == "report":
        (tmp_path / "page.html").symlink_to(model)
        arguments = ["report", str(model), "--points", "0", "--output", str(tmp_path / "page.html")]
    else:
        (tmp_path / "o").mkdir()
        (tmp_path / "o" / "frontier.csv").symlink_to(model)
        arguments = [
            "frontier",
            str(model),
            "--constraint",
            "repairs",
            "--points",
            "3",
            "--output",
            str(tmp_path / "o"),
        ]
    refused = CliRunner().invoke(main, arguments)
    assert refused.exit_code == 2 and "which is read; give another name" in " ".join(refused.stderr.split())
    assert model.read_bytes() == before
