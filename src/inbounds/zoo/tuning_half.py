"""The tuning half of the suite: twelve generated problems on which presets may be tuned.

Rewards and signals are in [0, 1], and every signal must be at least its bound, which `inbounds.zoo.making.bounded`
sets. Values are normalised by (1 - discount). The seeds, and the order of the draws, are a part of the problems.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.stats

from inbounds.problem.cmdp import CMDP
from inbounds.zoo.hazard_gridworld import cells_ahead
from inbounds.zoo.making import bounded, by_number, of_action, of_state, two_coins


def branching(
    name: str,
    states: int,
    actions: int,
    successors: int,
    constraints: int,
    discount: float,
    seed: int,
    sparse: float = 1.0,
) -> CMDP:
    """A Garnet whose successors are drawn with replacement; a share `sparse` of the pairs pays at all."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, states, (states, actions, successors))
    weights = rng.dirichlet(np.ones(successors), (states, actions))
    transition = np.zeros((states, actions, states))
    np.add.at(transition, (*np.indices(targets.shape)[:2], targets), weights)
    reward = rng.random((states, actions)) * (rng.random((states, actions)) < sparse)
    signals = rng.random((constraints, states, actions))
    return bounded(name, transition, reward, by_number(signals), None, discount)


def dense(name: str, states: int, actions: int, constraints: int, discount: float, seed: int) -> CMDP:
    """Every pair may lead to every state."""
    rng = np.random.default_rng(seed)
    transition = rng.random((states, actions, states))
    transition /= transition.sum(axis=2, keepdims=True)
    reward = rng.random((states, actions))
    signals = rng.random((constraints, states, actions))
    return bounded(name, transition, reward, by_number(signals), None, discount)


def chain(name: str, length: int, discount: float) -> CMDP:
    """A river: drift to the left for a pittance, or swim to the right for the prize; drifting is what must be done."""
    transition, place = np.zeros((length, 2, length)), np.arange(length)
    left, right = np.maximum(place - 1, 0), np.minimum(place + 1, length - 1)
    transition[place, 0, left] = 1.0
    for after, chance in ((right, 0.6), (place, 0.35), (left, 0.05)):
        transition[place, 1, after] += chance
    reward = np.zeros((length, 2))
    reward[-1, 1], reward[0, 0] = 1.0, 0.05
    return bounded(name, transition, reward, {"drifting": of_action(length, [1.0, 0.0])}, 0, discount)


def grid(name: str, side: int, discount: float, hazards: int, seed: int) -> CMDP:
    """Walk from one corner to the other, past hazards, slipping now and then; and take rests on the way."""
    n_states = side * side
    traps = 1 + np.random.default_rng(seed).choice(n_states - 2, hazards, replace=False)
    intended = np.eye(n_states)[np.column_stack([cells_ahead(side), np.arange(n_states)])]  # the last action waits
    transition = 0.9 * intended + 0.1 * intended[:, :4].mean(axis=1, keepdims=True)
    transition[-1] = np.eye(n_states)[0]
    reward, safe = np.zeros((n_states, 5)), np.ones((n_states, 5))
    reward[-1], safe[traps] = 1.0, 0.0
    waiting = of_action(n_states, [0.0, 0.0, 0.0, 0.0, 1.0])
    return bounded(name, transition, reward, {"off hazards": safe, "waiting": waiting}, 0, discount)


def service_queue(name: str, buffer: int, discount: float) -> CMDP:
    """A queue with three rates of service and two of arrival: keep it short, cheaply, and let people in."""
    service, arrival = np.repeat([0.2, 0.5, 0.8], 2), np.tile([0.2, 0.6], 3)
    length = np.arange(buffer + 1)
    transition = np.zeros((buffer + 1, 6, buffer + 1))
    for action in range(6):
        for served, come, chance in two_coins(service[action], arrival[action]):
            transition[length, action, np.minimum(np.maximum(length - served, 0) + come, buffer)] += chance
    reward = of_state(1.0 - length / buffer, 6)
    signals = {"ease": of_action(buffer + 1, 1.0 - service / 0.8), "entry": of_action(buffer + 1, arrival / 0.6)}
    return bounded(name, transition, reward, signals, buffer // 2, discount)


def two_queues(name: str, buffer: int, discount: float) -> CMDP:
    """One server for two queues: serve one of them, slowly or fast."""
    first, second = (length.ravel() for length in np.indices((buffer + 1, buffer + 1)))
    n_states = len(first)
    transition = np.zeros((n_states, 4, n_states))
    for action in range(4):
        queue, rate = action // 2, (0.5, 0.9)[action % 2]
        for served, come, chance in two_coins(rate, 0.25):
            for come_too, chance_too in ((1, 0.35), (0, 0.65)):
                one = np.minimum(np.maximum(first - served * (queue == 0), 0) + come, buffer)
                other = np.minimum(np.maximum(second - served * (queue == 1), 0) + come_too, buffer)
                transition[np.arange(n_states), action, one * (buffer + 1) + other] += chance * chance_too
    signals = {"first short": of_state(1.0 - first / buffer, 4), "slow": of_action(n_states, [1.0, 0.0, 1.0, 0.0])}
    return bounded(name, transition, of_state(1.0 - second / buffer, 4), signals, 0, discount)


def stock(name: str, capacity: int, discount: float) -> CMDP:
    """An inventory: order nothing, 2, 4 or 6 where it fits, and sell what is asked for, 4 a day on average."""
    demand = scipy.stats.poisson.pmf(np.arange(17), 4.0)
    demand /= demand.sum()
    n_states, orders = capacity + 1, np.array([0, 2, 4, 6])
    after = np.arange(n_states)[:, None] + orders  # [S, 4], after the order
    allowed = after <= capacity
    transition, sales = np.zeros((n_states, 4, n_states)), np.zeros((n_states, 4))
    place, action = np.nonzero(allowed)
    for wanted, chance in enumerate(demand):
        transition[place, action, np.maximum(after[allowed] - wanted, 0)] += chance
        sales += chance * np.minimum(after, wanted)
    transition[~allowed, 0] = 1.0
    signals = {"empty shelves": 1.0 - np.minimum(after / capacity, 1.0), "no order": of_action(n_states, orders == 0)}
    return bounded(name, transition, np.minimum(sales / 4.0, 1.0), signals, capacity // 2, discount, allowed=allowed)


TUNING: dict[str, Callable[[], CMDP]] = {
    "tiny": lambda: branching("tiny", 3, 2, 2, 1, 0.5, seed=1),
    "coin": lambda: branching("coin", 3, 3, 3, 2, 0.9, seed=2),
    "small": lambda: dense("small", 10, 4, 1, 0.8, seed=3),
    "garnet60": lambda: branching("garnet60", 60, 4, 4, 2, 0.9, seed=4),
    "sparse100": lambda: branching("sparse100", 100, 5, 5, 1, 0.95, seed=5, sparse=0.1),
    "five": lambda: branching("five", 80, 5, 6, 5, 0.9, seed=6),
    "wide": lambda: branching("wide", 200, 10, 5, 2, 0.95, seed=7, sparse=0.2),
    "chain20": lambda: chain("chain20", 20, 0.98),
    "grid5": lambda: grid("grid5", 5, 0.95, hazards=5, seed=8),
    "queue20": lambda: service_queue("queue20", 20, 0.9),
    "queues6": lambda: two_queues("queues6", 6, 0.95),
    "stock20": lambda: stock("stock20", 20, 0.97),
}
