"""The exact solver at growing sizes, against HiGHS on the same linear program.

    python benchmarks/exact.py [--quick]

Every measurement runs in a process of its own, after a small problem has compiled or loaded everything. Seconds are CPU
seconds of that process, the least of up to five runs when they are short; read the ratios. Memory is the growth of the
peak resident set over what was resident before the solve, next to the size of the model's arrays. An opponent that
needs more than 100 times as long (and more than 20 s) is stopped there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

OPPONENTS = {
    "simplex": {"solver": "simplex"},
    "ipx": {"solver": "ipx"},
    "ipx, no crossover": {"solver": "ipx", "run_crossover": "off"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes only: about a minute")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(measure(**json.loads(arguments.case))))
        return

    print("Garnet, 8 actions, 5 successors, 2 binding constraints")
    print(f"{'':26s} {'bundle s':>9s} {'solves':>6s} {'gap':>8s} {'extra/model MB':>15s}   best of HiGHS")
    sizes = [1000] if arguments.quick else [1000, 10_000, 100_000]
    for states in sizes:
        for discount in (0.9, 0.99):
            row(f"random {states:>9,}", states=states, discount=discount, against_lp=states <= 10_000)
    for states in sizes:
        row(f"ring   {states:>9,}", states=states, discount=0.99, ring=True, against_lp=states <= 10_000)

    if not arguments.quick:
        row("random 1,000,000", states=1_000_000, discount=0.99, tolerance=1e-6)

    states = 300 if arguments.quick else 3000
    print(f"\nUnconstrained solves by number of constraints, {states:,} states, discount 0.9")
    print(f"{'':26s} {'bundle s':>9s} {'solves':>6s} {'gap':>8s} {'extra/model MB':>15s}")
    for tolerance in (1e-6, 1e-8):
        for constraints in (1, 2, 5, 10, 20):
            name = f"K = {constraints}, gap {tolerance:.0e}"
            row(name, states=states, discount=0.9, constraints=constraints, tolerance=tolerance)

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


def in_process(case: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, __file__, "--case", json.dumps(case)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
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
        lp._ATTEMPTS = ({**OPPONENTS[opponent], "time_limit": limit},)
        cmdp = problem(states)
        seconds, found = timed(lambda: lp.occupancy_lp(cmdp))
        return {"seconds": seconds, "reward": None if found is None else float(found.occupancy @ cmdp.reward)}

    # Beyond 400 states evaluation takes another path, which must be compiled or loaded too.
    ib.solve(problem(500), tolerance=tolerance)
    cmdp = problem(states)
    if points:
        ib.frontier(problem(500), 0, 5, tolerance=tolerance)
        cold = plain = frontier = float("inf")
        for _ in range(7):  # by turns: the machine is faster at one moment than at the next
            seconds, alone = timed(lambda: ib.solve(cmdp, tolerance=tolerance, certificate=False))
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
    seconds, best = timed(lambda: ib.solve(cmdp, tolerance=tolerance, certificate=False))
    return {
        "seconds": seconds,
        "reward": best.reward,
        "solves": best.unconstrained_solves,
        "gap": best.gap / abs(best.reward),
        "in_bounds": best.in_bounds,
        "extra": resident() - before,
        "model": sum(array.nbytes for array in arrays) / 2**20,
    }


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


if __name__ == "__main__":
    main()
