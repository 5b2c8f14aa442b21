"""Few coins and no coins: what they cost on top of a plain solve, and how close they come.

    python benchmarks/coins.py [--quick] [--only SECTION]

Sections: few (at most as many coins as constraints), none (no coins), ranges (prices within their ranges and beyond),
small (hundreds of small and degenerate problems), million (one garnet of 1,000,000 states, with its memory).

The two sides of a ratio run in one process, by turns, each time on a problem of which nothing is known yet; seconds are
CPU seconds, the least of up to three. A plain solve has no certificate and any coins. Gaps are relative to the optimum.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from exact import by_turns, in_process, made, resident, timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes only: about a minute")
    parser.add_argument("--only", choices=SECTIONS, help="one section")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        case = json.loads(arguments.case)
        print(json.dumps(MEASURES[case.pop("what")](**case)))
        return
    for name, section in SECTIONS.items():
        if arguments.only in (None, name) and not (arguments.quick and name == "million"):
            section(arguments.quick)


def few_section(quick: bool) -> None:
    print("Few coins; target: at most K coins, certified, gap at most 1e-9, at most twice the plain solve")
    print(f"{'':24s} {'plain s':>8s} {'coins':>7s} {'few s':>8s} {'ratio':>6s} {'coins':>6s} {'gap':>8s}   certified")
    cases = [("queue", 0), ("garnet", 1_000), ("grid", 2_500)]
    if not quick:
        cases += [("garnet", 10_000), ("garnet", 100_000), ("ring", 100_000), ("grid", 99_856), ("battery", 103_424)]
    for kind, states in cases:
        found = in_process({"what": "few", "kind": kind, "states": states}, __file__)
        name = f"{kind} {states:,}" if states else kind
        print(
            f"{name:24s} {found['plain']:8.3f} {found['any']:7,d} {found['few']:8.3f} "
            f"{found['few'] / found['plain']:6.2f} {found['coins']:6d} {found['gap']:8.1e} "
            f"{found['proved']!s:>5s} x {found['certified'] / found['plain']:.2f}",
            flush=True,
        )


def none_section(quick: bool) -> None:
    print(
        "\nNo coins; target: gaps of 2e-8 on a garnet and a ring of 100,000 states, 2e-6 on a grid of 10,000, 2e-5 on"
    )
    print("the battery; the queue proved within a minute, garnets of 300 states in 15 s")
    print(f"{'':24s} {'plain s':>8s} {'s':>8s} {'gap':>8s} {'price':>8s}   status")
    cases: list[tuple[str, int, float]] = [("queue", 0, 0.5), ("garnet", 100, 0.9), ("garnet", 1_000, 0.9)]
    if not quick:
        cases += [("garnet", 300, 0.9), ("garnet", 10_000, 0.99), ("garnet", 100_000, 0.99), ("ring", 100_000, 0.99)]
        cases += [("grid", 10_000, 0.99), ("battery", 103_424, 0.99)]
    for kind, states, discount in cases:
        found = in_process({"what": "none", "kind": kind, "states": states, "discount": discount}, __file__)
        name = f"{kind} {states:,}" if states else kind
        print(
            f"{name:24s} {found['plain']:8.3f} {found['seconds']:8.2f} {found['gap']:8.1e} {found['price']:8.1e}   "
            f"{found['status']}{'' if found['in_bounds'] else ', NOT in bounds'}",
            flush=True,
        )


def ranges_section(quick: bool) -> None:
    print("\nRanges: prices and optimum at .9 of every range (target: off by 1e-10 at most) and at 1.2 (others)")
    for kind, states in (
        (("queue", 0), ("garnet", 200)) if quick else (("queue", 0), ("garnet", 200), ("garnet", 10_000))
    ):
        found = in_process({"what": "ranges", "kind": kind, "states": states}, __file__)
        name = f"{kind} {states:,}" if states else kind
        print(
            f"{name:24s} at .9 prices off by {found['prices_inside']:.0e}, optimum off the line by "
            f"{found['line_inside']:.0e}; at 1.2 prices by {found['prices_outside']:.0e} at least, optimum below by "
            f"{found['line_outside']:.0e} at least",
            flush=True,
        )


def small_section(quick: bool) -> None:
    found = in_process({"what": "small", "seeds": 4 if quick else 17}, __file__)
    print(f"\nSmall and degenerate problems, all three criteria, some with a constant reward: {found['problems']}")
    print(
        f"more than K coins, or no vertex: {found['failed']}; not certified: {found['unproved']}; "
        f"worst gap {found['gap']:.0e}; "
        f"ratio to the plain solve: median {found['median']:.2f}, worst {found['worst']:.1f}",
        flush=True,
    )


def million_section(quick: bool) -> None:
    del quick
    found = in_process({"what": "million"}, __file__)
    print(
        f"\ngarnet 1,000,000: plain {found['plain']:.1f} s, certified with few coins {found['few']:.1f} s "
        f"(x {found['few'] / found['plain']:.2f}); {found['coins']} coins, gap {found['gap']:.0e}, in bounds "
        f"{found['in_bounds']}; {found['extra']:,.0f} MB more than before",
        flush=True,
    )


def problem(kind: str, states: int, discount: float = 0.99) -> Any:
    import inbounds as ib

    if kind == "queue":
        return ib.zoo.queue()
    if kind == "battery":
        sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
        from battery import battery

        return battery()
    if kind == "grid":
        return made(kind, states, discount=discount)
    return ib.zoo.garnet(states, actions=8, successors=5, discount=discount, ring=kind == "ring")


def warm(kind: str) -> None:
    """Compile, or load, what a large problem needs."""
    import inbounds as ib

    ib.solve(problem("garnet" if kind in ("queue", "battery") else kind, 400))


def few(kind: str, states: int) -> dict[str, Any]:
    """A plain solve, one with few coins, and one with its certificate."""
    import inbounds as ib

    warm(kind)
    cmdp = problem(kind, states)
    times = by_turns(
        1 if states > 50_000 else 3,
        (cmdp, lambda fresh: ib.solve(fresh, coins="any", certificate=False)),
        (cmdp, lambda fresh: ib.solve(fresh, certificate=False)),
        (cmdp, ib.solve),
    )
    best, usual = ib.solve(cmdp), ib.solve(cmdp, coins="any", certificate=False)
    return {
        "plain": times[0],
        "few": times[1],
        "certified": times[2],
        "any": usual.policy.coins,
        "coins": best.policy.coins,
        "gap": best.gap / abs(best.reward),
        "proved": best.certificate.in_bounds,
    }


def none(kind: str, states: int, discount: float) -> dict[str, Any]:
    """A deterministic policy next to a plain solve."""
    import inbounds as ib

    warm(kind)
    cmdp = problem(kind, states, discount)
    plain = timed(lambda: ib.solve(cmdp, coins="any", certificate=False), most=1)[0]
    seconds, best = timed(lambda: ib.solve(cmdp, deterministic=True), most=1)
    return {
        "plain": plain,
        "seconds": seconds,
        "gap": best.gap / abs(best.reward),
        "price": best.price_of_determinism / abs(best.reward),
        "status": best.status,
        "in_bounds": best.in_bounds,
    }


def ranges(kind: str, states: int) -> dict[str, Any]:
    """Every bound moved to .9 of its range, and to 1.2."""
    from dataclasses import replace

    import inbounds as ib

    cmdp = problem(kind, states)
    best = ib.solve(cmdp, tolerance=1e-9)
    inside, outside = [], []
    for k, constraint in enumerate(cmdp.constraints):
        for end in best.ranges[k]:
            for part, into in ((0.9, inside), (1.2, outside)):
                bound = constraint.bound + part * (end - constraint.bound)
                if not math.isfinite(bound):
                    continue
                constraints = [*cmdp.constraints[:k], constraint.with_bound(bound), *cmdp.constraints[k + 1 :]]
                other = ib.solve(replace(cmdp, constraints=constraints), tolerance=1e-9)
                line = best.reward - constraint.outward * best.prices[k] * (bound - constraint.bound)
                into.append((float(abs(other.prices - best.prices).max()), float(line - other.reward)))
    return {
        "prices_inside": max(prices for prices, _ in inside),
        "line_inside": max(abs(off) for _, off in inside),
        "prices_outside": min(prices for prices, _ in outside),
        "line_outside": min(off for _, off in outside),
    }


def small(seeds: int) -> dict[str, Any]:
    """Garnets of 10 to 60 states with rounded numbers, K 1, 2 and 5, under each criterion; every third of no reward."""
    import statistics

    import numpy as np

    import inbounds as ib

    failed, unproved, gaps, ratios = 0, 0, [], []
    for seed in range(seeds):
        for constraints in (1, 2, 5):
            plain = ib.zoo.garnet(10 + 3 * seed, actions=3, successors=3, constraints=constraints, seed=seed)
            for criterion in ({"discount": 0.9}, {"discount": 0.99}, {"horizon": 3}, {"average": True}):
                stages = criterion.get("horizon", 1)
                cmdp = ib.CMDP(
                    offsets=plain.offsets,
                    transition=plain.transition,
                    reward=np.full(plain.n_pairs, 0.5) if seed % 3 == 0 else np.round(4 * plain.reward) / 4,
                    constraints=[
                        ib.Constraint(np.round(4 * c.signal) / 4, at_least=0.9 * stages * c.bound, name=c.name)
                        for c in plain.constraints
                    ],
                    initial=plain.initial,
                    **criterion,
                )
                ib.solve(cmdp)
                best = ib.solve(cmdp)
                usual, more = by_turns(
                    1,
                    (cmdp, lambda fresh: ib.solve(fresh, coins="any", certificate=False)),
                    (cmdp, lambda fresh: ib.solve(fresh, certificate=False)),
                )
                failed += best.ranges is None or best.policy.coins > constraints
                unproved += not best.in_bounds
                gaps.append(best.gap / max(abs(best.reward), 1e-9))
                ratios.append(more / usual)
    return {
        "problems": len(gaps),
        "failed": failed,
        "unproved": unproved,
        "gap": max(gaps),
        "median": statistics.median(ratios),
        "worst": max(ratios),
    }


def million() -> dict[str, Any]:
    """One garnet of a million states, with the peak of the resident memory."""
    import inbounds as ib

    warm("garnet")
    cmdp = problem("garnet", 1_000_000)
    plain = timed(lambda: ib.solve(cmdp, coins="any", certificate=False), most=1)[0]
    before = resident(reset_peak=True)
    seconds, best = timed(lambda: ib.solve(cmdp), most=1)
    return {
        "plain": plain,
        "few": seconds,
        "coins": best.policy.coins,
        "gap": best.gap / abs(best.reward),
        "in_bounds": best.in_bounds,
        "extra": resident() - before,
    }


SECTIONS = {
    "few": few_section,
    "none": none_section,
    "ranges": ranges_section,
    "small": small_section,
    "million": million_section,
}
MEASURES = {"few": few, "none": none, "ranges": ranges, "small": small, "million": million}

if __name__ == "__main__":
    main()
