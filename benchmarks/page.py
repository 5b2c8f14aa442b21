"""The page of a large problem: its size, and how quick it is in a real browser.

    python benchmarks/page.py                the battery of examples/, 103,424 states
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

from selenium import webdriver


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
            for word in ("1", "state1=3", "zzz", "2 0", "") if what == "filter" else ("", "", ""):
                browser.execute_script(script, word)
                taken.append(browser.execute_script("return window.lastFilterMilliseconds"))
            slowest[what] = max(taken)
        print(f"size {page.stat().st_size / 1e6:.2f} MB, first paint {paint:.0f} ms, ready {1e3 * ready:.0f} ms,")
        print(", ".join(f"{what} {value:.0f} ms" for what, value in slowest.items()))
    finally:
        browser.quit()


def main() -> None:
    if len(sys.argv) > 1:
        measure(Path(sys.argv[1]).resolve())
        return
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    import battery
    import inbounds as ib

    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        (page,) = ib.report(battery.battery(), Path(folder) / "battery.html", points=8)
        print(f"solved and written in {time.perf_counter() - begun:.0f} s")
        measure(page)


if __name__ == "__main__":
    main()
