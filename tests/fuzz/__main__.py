"""The runner: every attack in turn, a table, and exit code 1 if anything failed."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # the twins of the suite, for attacks that use them


def attacks() -> dict[str, Any]:
    """Every module of this package that has ``run(count, seed, seconds)``, by name."""
    package = __package__ or "fuzz"
    names = [found.name for found in pkgutil.iter_modules([str(Path(__file__).parent)]) if found.name != "__main__"]
    modules = {name: importlib.import_module(f"{package}.{name}") for name in sorted(names)}
    return {name: module for name, module in modules.items() if callable(getattr(module, "run", None))}


def of(report: Any, what: str, default: Any) -> Any:
    """An entry of a report, which is a record or a dict."""
    return report.get(what, default) if isinstance(report, dict) else getattr(report, what, default)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--only", default="", help="names of attacks, with commas between")
    parser.add_argument("--count", type=int, help="cases of each attack; by default what each asks for")
    parser.add_argument("--seconds", type=float, default=1_800.0, help="for all of them together")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    available = attacks()
    wanted = [name for name in chosen.only.split(",") if name] or list(available)
    unknown = set(wanted) - set(available)
    if unknown:
        parser.error(f"no attack is called {', '.join(sorted(unknown))}; there are: {', '.join(available)}")
    rows, failed, began = [], False, time.monotonic()
    for position, name in enumerate(wanted):
        count = chosen.count or getattr(available[name], "COUNT", 1_000)
        left = chosen.seconds - (time.monotonic() - began)
        if left <= 0.0:
            rows.append((name, "not begun: the time is over", "", "", ""))
            failed = True
            continue
        # What one attack does not need, the later ones have; none may take more than twice its even share.
        share = min(left, 2.0 * left / (len(wanted) - position))
        print(f"{name}: {count:,} cases, seed {chosen.seed}, at most {share:.0f} s", flush=True)
        start = time.monotonic()
        report = available[name].run(count, chosen.seed, share)
        failures = list(of(report, "failures", []))
        tried = of(report, "tried", {}) or {}
        told = (
            ", ".join(f"{number:,} {what}" for what, number in tried.items()) if isinstance(tried, dict) else str(tried)
        )
        stopped = of(report, "stopped", "")
        rows.append((name, told, f"{len(failures):,}", f"{time.monotonic() - start:.0f}", stopped))
        failed = failed or bool(failures)
        for kind, number in Counter(getattr(f, "kind", None) or str(f)[:100] for f in failures).most_common(30):
            print(f"  FAILED {number:,} times: {kind}")
        for path in of(report, "kept", []):
            print(f"  kept {path}")
    print(f"\nseed {chosen.seed}, {time.monotonic() - began:.0f} s in all")
    for name, told, failures, seconds, stopped in rows:
        print(
            f"{name:<20} {failures or '-':>6} failures {seconds or '-':>6} s   {told}"
            + (f"   ({stopped})" if stopped else "")
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
