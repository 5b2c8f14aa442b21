"""A solve that begins from the answer to a similar problem, against one that begins from nothing.

    python benchmarks/warm_start.py [--quick] [--only battery]

The problem was solved; then a bound is loosened or tightened by 1 %, every reward or transition probability changes by
up to 1 % (at random, for each entry), or the rewards become entirely others and ten times as large, and so do the
prices: a start that is far away. Both sides of a ratio run in one process, by turns, each time on a problem of which
nothing is known yet; seconds are CPU seconds, the least of up to three. "plain" has any coins and no certificate,
"whole" is ``ib.solve`` as it is. Solves are those of the answer: a start that leads nowhere adds up to 15. The battery
and the fleet are those of examples/: chains that mix slowly, with some 100,000 states.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import Any

from exact import by_turns, in_process, made

EXAMPLES = {"battery": 103_424, "fleet": 103_360}
CHANGES = ("bound - 1 %", "bound + 1 %", "rewards 1 %", "moves 1 %", "other rewards")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes only: about a minute")
    parser.add_argument("--only", help="problems of one kind: garnet, ring, grid, battery, fleet")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(measure(**json.loads(arguments.case))))
        return
    print("Warm and cold, 2 bounds, discount 0.99 (fleet: 0.98); ratios are warm / cold")
    print(f"{'':32s} {'solves':>9s}  {'plain s':>15s} {'ratio':>6s} {'whole':>6s} {'by':>7s} {'apart':>8s}")
    sizes = [("garnet", 1_000), ("ring", 1_000), ("grid", 900)]
    if not arguments.quick:
        sizes = [("garnet", 10_000), ("ring", 10_000), ("grid", 10_000), ("garnet", 100_000), *EXAMPLES.items()]
    for kind, states in sizes:
        if arguments.only not in (None, kind):
            continue
        for change in CHANGES:
            found = in_process({"kind": kind, "states": states, "change": change}, __file__)
            (cold, warm, whole_cold, whole_warm), solves = found["seconds"], found["solves"]
            print(
                f"{f'{kind} {states:,}, {change}':32s} {solves[1]:3d} / {solves[0]:3d}  {warm:6.3f} / {cold:6.3f} "
                f"{warm / cold:6.2f} {whole_warm / whole_cold:6.2f} {found['by']:>7s} {found['apart']:8.0e}",
                flush=True,
            )


def measure(kind: str, states: int, change: str) -> dict[str, Any]:
    """CPU seconds of plain and whole solves, cold and warm, and how many unconstrained problems they solve."""
    import inbounds as ib

    small = made("grid", 400, discount=0.99)
    ib.solve(changed(small, change), start=ib.solve(small))  # compiles, or loads, all that is needed
    cmdp = example(kind) if kind in EXAMPLES else made(kind, states, discount=0.99)
    best, other = ib.solve(cmdp), changed(cmdp, change)
    plain, answers = {"coins": "any", "certificate": False}, {}

    def solved(how: str, **options: Any) -> Any:
        def run(fresh: Any) -> None:
            answers[how] = ib.solve(fresh, **options)

        return other, run

    seconds = by_turns(
        1 if states > 50_000 else 3,
        solved("cold, plain", **plain),
        solved("warm, plain", start=best, **plain),
        solved("cold"),
        solved("warm", start=best),
    )
    cold, warm = answers["cold"], answers["warm"]
    assert cold.in_bounds and warm.in_bounds and warm.status == "optimal"
    return {
        "seconds": seconds,
        "solves": [cold.unconstrained_solves, warm.unconstrained_solves],
        "by": warm.method,
        "apart": abs(warm.reward - cold.reward) / abs(cold.reward),
    }


def example(kind: str) -> Any:
    """The problem of a file in examples/."""
    import sys
    from importlib import import_module
    from pathlib import Path

    sys.path.append(str(Path(__file__).parents[1] / "examples"))
    return getattr(import_module(kind), kind)()


def changed(cmdp: Any, change: str) -> Any:
    import numpy as np
    import scipy.sparse as sp

    rng, own = np.random.default_rng(1), cmdp.constraints[0]
    if change.startswith("bound"):
        return cmdp.with_bound(0, **{own.side: own.bound * (1.01 if "+" in change else 0.99)})
    if change == "rewards 1 %":
        return replace(cmdp, reward=cmdp.reward * (1.0 + 0.01 * rng.uniform(-1.0, 1.0, cmdp.shape)))
    if change == "other rewards":
        return replace(cmdp, reward=10.0 * rng.random(cmdp.shape))
    moves = cmdp.transition
    chances = moves.data * (1.0 + 0.01 * rng.uniform(-1.0, 1.0, moves.nnz))
    chances /= np.repeat(np.add.reduceat(chances, moves.indptr[:-1]), np.diff(moves.indptr))
    return replace(cmdp, transition=sp.csr_array((chances, moves.indices, moves.indptr), shape=moves.shape))


if __name__ == "__main__":
    main()
