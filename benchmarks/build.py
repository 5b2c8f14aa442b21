"""What `ib.build` takes for a hundred thousand states, against calling the rules alone.

    python benchmarks/build.py

The fleet of examples/fleet.py: 103,360 states, 277,120 pairs, 3.1 million transitions. The rules are Python, and each
has to be called once for each pair: that is the floor. CPU seconds, by turns, and their ratio.
"""

from __future__ import annotations

import runpy
import statistics
import time
from pathlib import Path

TURNS = 3


def seconds(work) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def main() -> None:
    rules = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "fleet.py"))
    problem = rules["fleet"]()

    def call_the_rules() -> None:
        for state in problem.state_labels:
            for action in rules["overhauls"](state):
                rules["next_week"](state, action)
                rules["earned"](state, action)
                for constraint in (0.05 * (state[0] - action), action):
                    float(constraint)

    alone, built = [], []
    for _ in range(TURNS):
        alone.append(seconds(call_the_rules))
        built.append(seconds(rules["fleet"]))
    print(f"{problem}, {problem.transition.nnz:,} transitions")
    print(f"the rules alone {statistics.median(alone):.1f} s, build {statistics.median(built):.1f} s CPU")
    print(f"ratio {statistics.median(b / a for a, b in zip(alone, built, strict=True)):.2f}")


if __name__ == "__main__":
    main()
