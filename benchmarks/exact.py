"""The exact solver at growing sizes, against HiGHS on the same linear program; and what else a solve consists of.

    python benchmarks/exact.py [--quick] [--only SECTION]

Sections: sizes, constraints, frontier, small (below 100 pairs), first (nothing compiled yet), certificate (its share of
the solve), average (against the discount 0.999).

Every measurement runs in a process of its own, after a small problem has compiled or loaded everything. Seconds are CPU
seconds of that process, the least of up to five runs when they are short; read the ratios. Memory is the growth of the
peak resident set over what was resident before the solve, next to the size of the model's arrays. An opponent that
needs more than 100 times as long (and more than 20 s) is stopped there. The two sides of a ratio take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

OPPONENTS = {
    "simplex": {"solver": "simplex"},
    "ipx": {"solver": "ipx"},
    "ipx, no crossover": {"solver": "ipx", "run_crossover": "off"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes only: about a minute")
    parser.add_argument("--only", choices=SECTIONS, help="one section")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        case = json.loads(arguments.case)
        print(json.dumps(MEASURES[case.pop("what", "solve")](**case)))
        return
    for name, section in SECTIONS.items():
        if arguments.only in (None, name):
            section(arguments.quick)


def sizes_section(quick: bool) -> None:
    print("Garnet, 8 actions, 5 successors, 2 binding constraints")
    print(f"{'':26s} {'bundle s':>9s} {'solves':>6s} {'gap':>8s} {'extra/model MB':>15s}   best of HiGHS")
    sizes = [1000] if quick else [1000, 10_000, 100_000]
    for states in sizes:
        for discount in (0.9, 0.99):
            row(f"random {states:>9,}", states=states, discount=discount, against_lp=states <= 10_000)
    for states in sizes:
        row(f"ring   {states:>9,}", states=states, discount=0.99, ring=True, against_lp=states <= 10_000)

    if not quick:
        row("random 1,000,000", states=1_000_000, discount=0.99, tolerance=1e-6)


def constraints_section(quick: bool) -> None:
    states = 300 if quick else 3000
    print(f"\nUnconstrained solves by number of constraints, {states:,} states, discount 0.9")
    print(f"{'':26s} {'bundle s':>9s} {'solves':>6s} {'gap':>8s} {'extra/model MB':>15s}")
    for tolerance in (1e-6, 1e-8):
        for constraints in (1, 2, 5, 10, 20):
            name = f"K = {constraints}, gap {tolerance:.0e}"
            row(name, states=states, discount=0.9, constraints=constraints, tolerance=tolerance)


def frontier_section(quick: bool) -> None:
    states = 300 if quick else 3000
    print(f"\nFrontier of 50 points against one cold solve with the same gap, {states:,} states")
    print(
        "Target: at most x 10, at 3,000 states and the frontier's own gap of 1e-06. Seed 0 at 0.9, whose cold solve is"
    )
    print("the quickest, is at 9 to 10.7 from run to run. At 1e-08 a point takes two solves, a cold one hardly more.")
    print(
        f"{'':26s} {'cold s':>9s} {'solves':>6s} {'frontier s':>11s} {'solves':>6s} {'worst gap':>10s}   ratio"
        f"   ratio to ib.solve(cmdp) as it is, with certificate and gap 1e-8"
    )
    cases = [(discount, tolerance, 0) for discount in (0.9, 0.99) for tolerance in (1e-6, 1e-8)]
    for discount, tolerance, seed in cases + [(0.9, 1e-6, seed) for seed in (1, 2, 3, 4)]:
        case = {"states": states, "discount": discount, "tolerance": tolerance, "points": 50, "seed": seed}
        found = in_process(case)
        name = f"{discount}, gap {tolerance:.0e}, seed {seed}"
        print(
            f"{name:26s} {found['cold']:9.3f} {found['cold_solves']:6d} {found['frontier']:11.3f} {found['solves']:6d} "
            f"{found['gap']:10.1e}   x {found['frontier'] / found['cold']:4.1f}   x "
            f"{found['frontier'] / found['plain']:.1f}",
            flush=True,
        )


def small_section(quick: bool) -> None:
    print("\nSmall problems, certificate included; target: at most 4 ms")
    print(f"{'':26s} {'pairs':>9s} {'ms':>6s} {'bare LP ms':>11s}   ratio")
    for name, case in {"queue": {}, "garnet 10": {"states": 10}, "garnet 20": {"states": 20}}.items():
        found = in_process({"what": "small", "rounds": 10 if quick else 50, **case})
        ms, bare = 1e3 * found["seconds"], 1e3 * found["bare"]
        print(f"{name:26s} {found['pairs']:9d} {ms:6.2f} {bare:11.2f}   x {ms / bare:.1f}", flush=True)


def first_section(quick: bool) -> None:
    del quick
    print("\nThe first solve of a new installation (queue, nothing compiled yet); target: under 0.5 CPU seconds")
    with tempfile.TemporaryDirectory() as folder:
        found = in_process({"what": "first"}, NUMBA_CACHE_DIR=folder)
    ratio = found["first"] / found["second"]
    print(f"{'queue':26s} first {found['first']:.3f} s, second {found['second']:.4f} s: x {ratio:.0f}", flush=True)


def certificate_section(quick: bool) -> None:
    print("\nShare of the certificate: (with - without) / without; target: at most 0.3 on the grid")
    for kind, states, discount in (("grid", 3_600, 0.999), ("garnet", 10_000, 0.9)):
        states = min(states, 900) if quick else states
        found = in_process({"what": "certificate", "kind": kind, "states": states, "discount": discount})
        share = (found["with"] - found["without"]) / found["without"]
        name = f"{kind} {states:,} {discount}"
        print(f"{name:26s} without {found['without']:.3f} s, with {found['with']:.3f} s: {share:.2f}", flush=True)


def average_section(quick: bool) -> None:
    print("\nAverage reward against the discount 0.999, neither with a certificate")
    for kind, states in (("garnet", 10_000), ("ring", 1_000), ("grid", 10_000)):
        states = min(states, 400) if quick else states
        found = in_process({"what": "average", "kind": kind, "states": states})
        ratio, apart = found["average"] / found["discounted"], found["apart"]
        print(
            f"{kind + f' {states:,}':26s} discounted {found['discounted']:.3f} s, average {found['average']:.3f} s: "
            f"x {ratio:.2f}; optima {apart:.0e} apart, gap {found['gap']:.0e}",
            flush=True,
        )


def row(name: str, against_lp: bool = False, **case: Any) -> None:
    found = in_process(case)
    if "constraints" not in case:
        name += f" {case['discount']}"
    memory = f"{found['extra']:.0f}/{found['model']:.0f}"
    line = f"{name:26s} {found['seconds']:9.3f} {found['solves']:6d} {found['gap']:8.1e} {memory:>15s}"
    print(line, end="", flush=True)
    if against_lp:
        limit = max(100.0 * found["seconds"], 20.0)
        times = {}
        for opponent in OPPONENTS:
            times[opponent] = in_process({**case, "opponent": opponent, "limit": limit})
        finished = {opponent: t for opponent, t in times.items() if t["reward"] is not None}
        if finished:
            best = min(finished, key=lambda opponent: finished[opponent]["seconds"])
            seconds = finished[best]["seconds"]
            apart = abs(finished[best]["reward"] - found["reward"])
            print(f"   {seconds:.2f} s ({best}): x {seconds / found['seconds']:.0f}; optima {apart:.0e} apart", end="")
        else:
            print(f"   none within {limit:.0f} s: more than x {limit / found['seconds']:.0f}", end="")
    print(flush=True)


def in_process(case: dict[str, Any], script: str = __file__, **environment: str) -> dict[str, Any]:
    command = [sys.executable, script, "--case", json.dumps(case)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
    if done.returncode != 0:
        raise SystemExit(f"{case} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def measure(
    states: int,
    discount: float,
    constraints: int = 2,
    ring: bool = False,
    tolerance: float = 1e-8,
    opponent: str | None = None,
    limit: float = 0.0,
    points: int = 0,
    seed: int = 0,
) -> dict[str, Any]:
    """One solve, by the bundle or by an opponent, neither with a certificate; or a frontier next to a cold solve."""
    import inbounds as ib
    from inbounds.exact import lp

    def problem(size: int) -> ib.CMDP:
        return ib.zoo.garnet(
            size, actions=8, successors=5, constraints=constraints, discount=discount, ring=ring, seed=seed
        )

    if opponent is not None:
        lp._attempts = lambda n_columns: (OPPONENTS[opponent],)
        cmdp = problem(states)
        try:
            seconds, found = timed(lambda: lp.occupancy_lp(cmdp, time_limit=limit))
        except TimeoutError:
            return {"seconds": limit, "reward": None}
        return {"seconds": seconds, "reward": None if found is None else float(found.occupancy @ cmdp.reward)}

    # Small problems take another path; what large ones need must be compiled or loaded before.
    ib.solve(problem(500), tolerance=tolerance)
    cmdp = problem(states)
    if points:
        ib.frontier(problem(500), 0, 5, tolerance=tolerance)
        cold = plain = frontier = float("inf")
        for _ in range(7):  # by turns: the machine is faster at one moment than at the next
            seconds, alone = timed(lambda: ib.solve(cmdp, coins="any", tolerance=tolerance, certificate=False))
            cold = min(cold, seconds)
            plain = min(plain, timed(lambda: ib.solve(cmdp), most=1)[0])
            seconds, curve = timed(lambda: ib.frontier(cmdp, 0, points, tolerance=tolerance), most=1)
            frontier = min(frontier, seconds)
        return {
            "cold": cold,
            "plain": plain,
            "cold_solves": alone.unconstrained_solves,
            "frontier": frontier,
            "solves": curve.unconstrained_solves,
            "gap": max(point.gap / abs(point.reward) for point in curve.solutions),
        }
    arrays = [cmdp.transition.data, cmdp.transition.indices, cmdp.transition.indptr, cmdp.reward, cmdp.initial]
    arrays += [cmdp.offsets, cmdp.actions, *(c.signal for c in cmdp.constraints)]
    before = resident(reset_peak=True)
    seconds, best = timed(lambda: ib.solve(cmdp, coins="any", tolerance=tolerance, certificate=False))
    return {
        "seconds": seconds,
        "reward": best.reward,
        "solves": best.unconstrained_solves,
        "gap": best.gap / abs(best.reward),
        "in_bounds": best.in_bounds,
        "extra": resident() - before,
        "model": sum(array.nbytes for array in arrays) / 2**20,
    }


def small(rounds: int, states: int = 0) -> dict[str, Any]:
    """Solves of a small problem, with certificate, and of its linear program alone."""
    import inbounds as ib
    from inbounds.exact.lp import occupancy_lp

    cmdp = ib.zoo.garnet(states, actions=4, successors=5) if states else ib.zoo.queue()
    ib.solve(cmdp)
    times = by_turns(rounds, (cmdp, ib.solve), (cmdp, occupancy_lp))
    return {"pairs": cmdp.n_pairs, "seconds": times[0], "bare": times[1]}


def first() -> dict[str, Any]:
    """The first solve in this process, and the second."""
    import inbounds as ib

    cmdp = ib.zoo.queue()
    return {name: timed(lambda: ib.solve(cmdp), most=1)[0] for name in ("first", "second")}


def certificate(kind: str, states: int, discount: float) -> dict[str, Any]:
    """A solve with its certificate, and without."""
    import inbounds as ib

    ib.solve(made(kind, 400, discount=discount))
    cmdp = made(kind, states, discount=discount)
    times = by_turns(5, (cmdp, ib.solve), (cmdp, lambda fresh: ib.solve(fresh, certificate=False)))
    return {"with": times[0], "without": times[1]}


def average(kind: str, states: int) -> dict[str, Any]:
    """A solve of the average problem, and of the discounted one with the same moves."""
    import inbounds as ib

    criteria = ({"average": True}, {"discount": 0.999})
    for criterion in criteria:
        ib.solve(made(kind, 400, **criterion), certificate=False)
    both = [made(kind, states, **criterion) for criterion in criteria]
    long_run, discounted = (ib.solve(cmdp, certificate=False) for cmdp in both)
    times = by_turns(3, *((cmdp, lambda fresh: ib.solve(fresh, certificate=False)) for cmdp in both))
    apart = abs(long_run.reward - discounted.reward)
    return {"average": times[0], "discounted": times[1], "apart": apart, "gap": long_run.gap}


def made(kind: str, states: int, **criterion: Any) -> Any:
    """A garnet, a ring or a grid (4 moves, 0.15 slips), with 2 constraints that bind as those of garnets do."""
    import numpy as np
    import scipy.sparse as sp

    import inbounds as ib

    rng = np.random.default_rng(0)
    if kind == "grid":
        side, actions = round(states**0.5), 4
        i, j = np.divmod(np.arange(side * side), side)
        up, down = np.maximum(i - 1, 0), np.minimum(i + 1, side - 1)
        left, right = np.maximum(j - 1, 0), np.minimum(j + 1, side - 1)
        cells = [up * side + j, down * side + j, i * side + left, i * side + right]
        pair, other = np.divmod(np.arange(16 * len(i)), 4)
        chances = np.where(pair % 4 == other, 0.85, 0.05)
        moves = sp.csr_array((chances, (pair, np.array(cells)[other, pair // 4])), shape=(4 * len(i), len(i)))
    else:
        moves = ib.zoo.garnet(states, actions=8, constraints=0, ring=kind == "ring").transition
        actions = 8
    n_pairs, n_states = moves.shape
    signals = [ib.Constraint(rng.random(n_pairs), at_least=0.0, name=f"signal {k}") for k in range(2)]
    free = ib.CMDP(
        offsets=np.arange(n_states + 1) * actions,
        transition=moves,
        reward=rng.random(n_pairs),
        constraints=signals,
        initial=np.full(n_states, 1.0 / n_states),
        **criterion,
    )
    best, cautious = (
        free.margins @ ib.solve(free.asking(reward=reward, constraints=()), certificate=False).occupancy
        for reward in (free.reward, free.margins.sum(axis=0))
    )
    return free.tightened(best + 0.4 * (cautious - best))


def by_turns(rounds: int, *sides: tuple[Any, Callable[[Any], Any]]) -> list[float]:
    """CPU seconds of each side, a problem and what is done with it: the least of so many rounds.

    By turns, because the machine is faster at one moment than at the next; and each time with a problem of which
    nothing is known yet, made before the clock starts.
    """
    times = [float("inf")] * len(sides)
    for _ in range(rounds):
        for k, (cmdp, run) in enumerate(sides):
            fresh = replace(cmdp)
            times[k] = min(times[k], timed(lambda run=run, fresh=fresh: run(fresh), most=1)[0])
    return times


def timed(run: Callable[[], Any], most: int = 5) -> tuple[float, Any]:
    """CPU seconds of `run`, the least of up to `most` runs within about two seconds, and what it returned."""
    times: list[float] = []
    while not times or (len(times) < most and sum(times) < 2.0):
        start = time.process_time()
        result = run()
        times.append(time.process_time() - start)
    return min(times), result


def resident(reset_peak: bool = False) -> float:
    """The peak of the resident set in MB, after setting it to what is resident now if asked (Linux only)."""
    try:
        if reset_peak:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
    except OSError:
        return float("nan")


MEASURES = {"solve": measure, "small": small, "first": first, "certificate": certificate, "average": average}
SECTIONS = {
    "sizes": sizes_section,
    "constraints": constraints_section,
    "frontier": frontier_section,
    "small": small_section,
    "first": first_section,
    "certificate": certificate_section,
    "average": average_section,
}


if __name__ == "__main__":
    main()
