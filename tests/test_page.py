"""The page: what is in it, that it needs nothing else, and that it works in a real browser."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

import inbounds as ib
from inbounds.cli import main

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
    assert data["states"] == 49 and data["layers"] == 1 and len(curve["bounds"]) == 5 and len(data["views"]) == 6
    columns = [np.array(column["words"])[unpacked(column["places"])].tolist() for column in data["columns"]]
    assert list(zip(*columns, strict=True)) == [(str(a), str(b)) for a, b in problem.state_labels]
    found = ib.frontier(problem, 0, 5, certificate=True).solutions[
        ::-1
    ]  # from the loosest at_most bound on, so downwards
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
    assert data_of(bare)["frontiers"] == [] and "<table>" not in bare.read_text()


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
    assert ib.load("s-model.npz").constraints[0].bound == 0.1


def test_files_that_came_with_no_page_stay_as_they_are(tmp_path) -> None:
    """Those of an earlier page of the same name are replaced; what else has such a name may be anything."""
    queue, page = ib.zoo.queue(), tmp_path / "queue.html"
    for name in ("queue-model.npz", "queue-policy.json"):
        (tmp_path / name).write_text("mine")
        ib.report(queue, page, points=0)  # a page, but without files beside it
        with pytest.raises(ib.InvalidInput, match=f"{name} is there already, and no earlier queue.html came with it"):
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


def test_infeasible_problems_have_no_page(tmp_path) -> None:
    with pytest.raises(ib.Infeasible):
        ib.report(ib.zoo.queue().with_bound("service", at_least=99), tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


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


def test_filter_sort_and_slider_in_a_browser(browser, shelf) -> None:
    opened(browser, shelf)
    policy = ib.solve(stock()).policy
    assert typed(browser, "") == "49 of 49 states"
    assert typed(browser, "state1=3") == "7 of 49 states" and {row[0] for row in rows(browser)} == {"3"}
    takes_tea = sum(policy[state].get("tea", 0.0) > 0.0 for state in policy)
    assert typed(browser, "does=tea") == f"{takes_tea} of 49 states"
    assert typed(browser, "nowhere") == "0 of 49 states; no state has nowhere" and rows(browser) == []
    assert typed(browser, "state9=3 tea").startswith("0 of 49 states; no column state9 (there are state1, state2, does")
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
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for path, axes in ((compared, ("state 1", "state 2")), (tmp_path / "queue.html", ("state", ""))):
            opened(browser, path)
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
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
    for path, points in ((shelf, 5), (queue, 4)):
        opened(browser, path)
        script = (
            "const s = document.querySelector('#curves input'), done = arguments[1]; s.value = arguments[0];"
            "const of = name => s.mark.getAttribute(name);"
            "s.oninput().then(() => done(of('visibility') === 'visible' ? +of('cx') : null))"
        )
        places = [browser.execute_async_script(script, value) for value in range(points + 1)]
        marked = [place for place in places if place is not None]
        assert len(marked) == points and marked == sorted(marked) and marked[0] < marked[-1]


def test_stages_in_a_browser(browser, tmp_path) -> None:
    media = ib.zoo.media()
    (path,) = ib.report(media, tmp_path / "media.html", points=0)
    opened(browser, path)
    policy = ib.solve(media).policy
    for stage in (0, 9):
        browser.execute_script(
            "const s = document.getElementById('stage'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))",
            stage,
        )
        own = policy.at(stage)
        assert [re.sub(r" \d.*", "", row[1]) for row in rows(browser)] == [
            max(own[state], key=own[state].get) for state in own
        ]
    assert browser.get_log("browser") == []


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
