"""The page of a large problem: its size, and how quick it is in a real browser.

    python benchmarks/page.py                the battery of examples/, 103,424 states
    python benchmarks/page.py grid           102,400 states of a problem that is solved at once
    python benchmarks/page.py stages         the same number of rows: 5,120 states at 20 stages
    python benchmarks/page.py page.html      a page that is there already

Needs Chromium and its driver (`make browser`). First paint is the browser's own measure; ready, when the table and the
map are drawn; filter and sort, from the key to the drawn rows, the slowest of several.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from selenium import webdriver

import inbounds as ib

FILTERS = ("1", "state1=3", "state1<9 state2>=20", "zzz", "2 0", "time>0.001", "does!=go", "randomises", "differs", "")


def grid(states: int, stages: int | None) -> ib.CMDP:
    """Rings of 80 states: stay, or go round, which is worth something, and may be done half of the time."""
    wide = 80
    labels = [divmod(state, wide) for state in range(states)]
    after = np.arange(states) // wide * wide + (np.arange(states) + 1) % wide
    go = sp.csr_array((np.ones(states), (np.arange(states), after)), shape=(states, states))
    moves = sp.vstack([sp.eye_array(states, format="csr"), go], format="csr")
    going = np.tile([0.0, 1.0], states)
    return ib.CMDP(
        offsets=np.arange(0, 2 * states + 1, 2),
        transition=moves[np.arange(2 * states).reshape(2, states).T.ravel()],
        reward=going * np.repeat(1.0 + np.arange(states) % wide, 2),
        constraints=(ib.Constraint(going, at_most=0.5 * (stages or 1), name="moves"),),
        initial=np.arange(1.0, states + 1) / np.arange(1.0, states + 1).sum(),
        state_labels=tuple(labels),
        action_labels=("stay", "go"),
        **({"discount": 0.5} if stages is None else {"horizon": stages}),
    )


def measure(page: Path) -> None:
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "window-size=1200,1400"):
        options.add_argument(f"--{flag}")
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        begun = time.perf_counter()
        browser.get(page.as_uri())
        browser.set_script_timeout(60)
        browser.execute_async_script(
            "const d = arguments[0]; (function w() { window.ready ? d() : setTimeout(w, 5) })()"
        )
        ready = time.perf_counter() - begun
        paint = browser.execute_script("return performance.getEntriesByName('first-contentful-paint')[0].startTime")
        slowest = {}
        for what, script in {
            "filter": "document.getElementById('filter').value = arguments[0]; refresh()",
            "sort": "document.getElementById('filter').value = ''; sortBy(columns.length - 1)",
        }.items():
            taken = []
            for word in FILTERS if what == "filter" else ("", "", ""):
                browser.execute_script(script, word)
                taken.append(browser.execute_script("return window.lastFilterMilliseconds"))
            slowest[what] = max(taken)
        print(f"size {page.stat().st_size / 1e6:.2f} MB, first paint {paint:.0f} ms, ready {1e3 * ready:.0f} ms,")
        print(", ".join(f"{what} {value:.0f} ms" for what, value in slowest.items()))
    finally:
        browser.quit()


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] not in ("grid", "stages"):
        measure(Path(sys.argv[1]).resolve())
        return
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    import battery

    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        if len(sys.argv) > 1:
            problem = grid(102_400, None) if sys.argv[1] == "grid" else grid(5_120, 20)
            page = ib.report(problem, Path(folder) / "page.html", points=2, policy=ib.Policy.uniform(problem))[0]
        else:
            page = ib.report(battery.battery(), Path(folder) / "battery.html", points=8)[0]
        print(f"solved and written in {time.perf_counter() - begun:.0f} s")
        measure(page)


if __name__ == "__main__":
    main()
