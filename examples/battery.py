"""A battery between the grid and a house: 103,424 states, built from arrays, solved to a proven gap of 1e-8.

    python examples/battery.py [--levels 32]

Every hour the price and the load move one level up or down or stay, and the battery charges or discharges by up to two
units; what the house and the battery take comes from the grid, and nothing goes back. Pay as little as possible, while
the battery moves at most 0.3 units an hour on average (it wears), and is at most 5 % of the time below a fifth of its
capacity (a reserve for blackouts).
"""

import argparse
import time

import numpy as np
import scipy.sparse as sp

import inbounds as ib


def walk(levels: int) -> sp.csr_array:
    """A level that moves up or down with probability 0.3 each, less often away from the middle."""
    here = np.arange(levels)
    up = 0.3 * (1.0 - here / (levels - 1))
    down = 0.3 * here / (levels - 1)
    return sp.diags_array([down[1:], 1.0 - up - down, up[:-1]], offsets=[-1, 0, 1]).tocsr()


def battery(capacity: int = 100, levels: int = 32) -> ib.CMDP:
    # One number for each (charge, price, load), the load fastest; and the pairs of a state follow each other.
    charge, price, load = (axis.ravel() for axis in np.indices((capacity + 1, levels, levels)))
    changes = np.arange(-2, 3)
    state, choice = np.nonzero(
        (charge[:, None] + changes >= 0)
        & (charge[:, None] + changes <= capacity)
        & (changes >= -np.round(8 * load / levels)[:, None])  # no more than the house takes
    )
    change = changes[choice]

    # Rows of (price, load) -> next (price, load), and then the charge that a pair leads to.
    weather = sp.kron(walk(levels), walk(levels), format="csr")
    rows = weather[state % levels**2]
    targets = rows.indices + np.repeat((charge[state] + change) * levels**2, np.diff(rows.indptr))
    transition = sp.csr_array((rows.data, targets, rows.indptr), shape=(len(state), len(charge)))

    grid = 8 * load[state] / levels + change
    initial = np.zeros(len(charge))
    initial[(charge == capacity // 2) & (price == levels // 2) & (load == levels // 2)] = 1.0
    return ib.CMDP(
        offsets=np.searchsorted(state, np.arange(len(charge) + 1)),
        actions=choice,
        transition=transition,
        reward=-(0.1 + price[state] / levels) * grid,
        constraints=(
            ib.Constraint(np.abs(change), at_most=0.3, name="wear"),
            ib.Constraint(charge[state] < 0.2 * capacity, at_most=0.05, name="low reserve"),
        ),
        initial=initial,
        discount=0.99,
        name="battery",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--levels", type=int, default=32, help="of price and of load")
    problem = battery(levels=parser.parse_args().levels)
    print(problem)
    start = time.perf_counter()
    best = ib.solve(problem)
    print(f"solved in {time.perf_counter() - start:.1f} s with {best.unconstrained_solves} unconstrained solves")
    print(f"cost {-best.reward:.6f} an hour, proved to within {best.certificate.gap:.1e}; {best.policy}")
    for constraint, margin, price in zip(problem.constraints, best.margins, best.prices, strict=True):
        used = f"{constraint.bound - margin:.4f} of {constraint.bound:g}"
        print(f"{constraint.name:12s} {used}; one more is worth {price:.4f}")


if __name__ == "__main__":
    main()
