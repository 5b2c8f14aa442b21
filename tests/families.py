"""Seeded families of hostile small problems: the same seed gives the same problem, whoever asks.

Each family is a function of a seed alone; `FAMILIES` lists them all, with what is known of every member:

    "feasible"     some policy is in bounds with a margin to spare: solve must return a proved answer
    "boundary"     some policy is in bounds, perhaps with nothing to spare
    "infeasible"   no policy is in bounds

All draws are of NumPy's default generator, and every number is made so that what is said of the family holds exactly
or with room for rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import inbounds as ib

CRITERIA = ({"discount": 0.9}, {"discount": 0.999}, {"horizon": 4}, {"average": True})


def _moves(rng: np.random.Generator, offsets: np.ndarray, n_states: int) -> np.ndarray:
    """Rows [n, S] with two to four next states each; every state leads to the next with some probability."""
    n_pairs = int(offsets[-1])
    rows = np.zeros((n_pairs, n_states))
    states = np.repeat(np.arange(n_states), np.diff(offsets))
    for pair in range(n_pairs):
        others = rng.integers(0, n_states, size=int(rng.integers(1, 4)))
        rows[pair, others] += rng.random(len(others))
        rows[pair, (states[pair] + 1) % n_states] += rng.random() + 0.1
    return rows / rows.sum(axis=1, keepdims=True)


def _plain(rng: np.random.Generator, criterion: dict | None = None, most: int = 5) -> dict:
    """A random communicating model without constraints, as the arguments of `CMDP`."""
    n_states = int(rng.integers(2, most + 1))
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 4, size=n_states))])
    offsets[-1] += offsets[-1] == n_states  # at least one choice
    n_pairs = int(offsets[-1])
    initial = np.zeros(n_states)
    initial[rng.integers(n_states)] = 1.0
    return {
        "offsets": offsets,
        "transition": _moves(rng, offsets, n_states),
        "reward": rng.integers(-8, 9, size=n_pairs) / 8,
        "initial": initial,
        **(criterion or CRITERIA[int(rng.integers(len(CRITERIA)))]),
    }


def _value(plain: dict, signal: np.ndarray, policy: ib.Policy) -> float:
    return ib.evaluate(ib.CMDP(**{**plain, "reward": signal}, constraints=()), policy).reward


def _largest(plain: dict, signal: np.ndarray) -> float:
    free = ib.CMDP(**{**plain, "reward": signal}, constraints=())
    return ib.solve(free, certificate=False, tolerance=1e-13).reward


def extreme_units(seed: int) -> ib.CMDP:
    """Two to four constraints and a reward in units over twenty decades; one policy has a tenth to spare in each."""
    rng = np.random.default_rng((1, seed))
    plain = _plain(rng)
    inside = ib.Policy.uniform(ib.CMDP(**plain, constraints=()))
    constraints = []
    for k in range(int(rng.integers(2, 5))):
        unit = 10.0 ** float(rng.uniform(-10, 10))
        signal = unit * rng.integers(-8, 9, size=len(plain["reward"])) / 8
        signal[0], signal[-1] = unit, -unit
        slack = 0.1 * unit
        if rng.random() < 0.5:
            constraints.append(ib.Constraint(signal, at_least=_value(plain, signal, inside) - slack, name=f"c{k}"))
        else:
            constraints.append(ib.Constraint(signal, at_most=_value(plain, signal, inside) + slack, name=f"c{k}"))
    plain["reward"] = plain["reward"] * 10.0 ** float(rng.uniform(-10, 10))
    return ib.CMDP(**plain, constraints=constraints)


def tiny_slater(seed: int) -> ib.CMDP:
    """A Slater constant, scaled, of about 1e-9 (a little above) to 1e-1: a band around a value, or just below the most.

    The band from b to b + 2c has exactly the constant c, up to the rounding of b; so has the bound "at least the most
    that any policy has, less c".
    """
    rng = np.random.default_rng((2, seed))
    plain = _plain(rng, CRITERIA[seed % len(CRITERIA)])
    n_pairs = len(plain["reward"])
    signal = rng.integers(-8, 9, size=n_pairs) / 8
    signal[0], signal[-1] = 1.0, -1.0
    layers = plain.get("horizon", 1)
    constant = 4.0 * layers * 10.0 ** float(rng.uniform(-8.9, -2.0))  # of margins that are at most 2 per layer
    constraints = []
    least, most = -_largest(plain, -signal), _largest(plain, signal)
    if seed % 2 == 0 and most - least > 0.5 * layers:
        low = 0.5 * (least + most)
        constraints.append(ib.Constraint(signal, at_least=low, name="low"))
        constraints.append(ib.Constraint(signal, at_most=low + 2.0 * constant, name="high"))
    else:
        constraints.append(ib.Constraint(signal, at_least=most - constant, name="most"))
    return ib.CMDP(**plain, constraints=constraints)


def unreachable_costs(seed: int) -> ib.CMDP:
    """States that nothing leads to, with signals and rewards of 1e8; without them a problem like any other."""
    rng = np.random.default_rng((3, seed))
    plain = _plain(rng, CRITERIA[seed % len(CRITERIA)])
    n_states, n_pairs = len(plain["initial"]), len(plain["reward"])
    more = int(rng.integers(1, 4))
    inside = ib.Policy.uniform(ib.CMDP(**plain, constraints=()))
    signal = rng.integers(-8, 9, size=n_pairs) / 8
    signal[0], signal[-1] = 1.0, -1.0
    low = _value(plain, signal, inside) - 10.0 ** float(rng.uniform(-6, -1))
    offsets = np.append(plain["offsets"], n_pairs + 2 * np.arange(1, more + 1))
    rows = np.zeros((n_pairs + 2 * more, n_states + more))
    rows[:n_pairs, :n_states] = plain["transition"]
    rows[n_pairs:] = rng.dirichlet(np.full(n_states + more, 0.3), size=2 * more)
    far = 1e8 * rng.uniform(-1.0, 1.0, size=(2, 2 * more))
    plain.update(
        offsets=offsets,
        transition=rows,
        reward=np.append(plain["reward"], far[0]),
        initial=np.append(plain["initial"], np.zeros(more)),
    )
    return ib.CMDP(**plain, constraints=[ib.Constraint(np.append(signal, far[1]), at_least=low, name="c")])


def zero_margins(seed: int) -> ib.CMDP:
    """A cost that may never be paid (``at_most=0``); where it need not be, which is in every state that matters."""
    rng = np.random.default_rng((4, seed))
    plain = _plain(rng, CRITERIA[seed % len(CRITERIA)])
    offsets = plain["offsets"]
    cost = rng.integers(1, 9, size=len(plain["reward"])) / 8
    cost[offsets[:-1]] = 0.0  # the first action of every state is free
    return ib.CMDP(**plain, constraints=[ib.Constraint(cost, at_most=0.0, name="never")])


def barely_infeasible(seed: int) -> ib.CMDP:
    """A bound beyond the most that any policy has, by 1e-6 to 1e-3."""
    rng = np.random.default_rng((5, seed))
    plain = _plain(rng, CRITERIA[seed % len(CRITERIA)])
    signal = rng.integers(-8, 9, size=len(plain["reward"])) / 8
    signal[0], signal[-1] = 1.0, -1.0
    beyond = plain.get("horizon", 1) * 10.0 ** float(rng.uniform(-6, -3))
    return ib.CMDP(**plain, constraints=[ib.Constraint(signal, at_least=_largest(plain, signal) + beyond, name="c")])


FAMILIES: dict[str, tuple[Callable[[int], ib.CMDP], str]] = {
    "extreme units": (extreme_units, "feasible"),
    "tiny Slater constants": (tiny_slater, "feasible"),
    "unreachable costs": (unreachable_costs, "feasible"),
    "margins of zero": (zero_margins, "boundary"),
    "barely infeasible": (barely_infeasible, "infeasible"),
}
