"""The untouched half of the suite: twelve problems, most of kinds that the tuning half lacks. Nothing is tuned on them.

A preset is run on them to be judged, once it is done; docs/presets.md says how often that was. If what was seen here
ever changes a preset, these problems are to be replaced. Rewards, signals and bounds are as in the tuning half.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from inbounds.problem.cmdp import CMDP
from inbounds.zoo.making import bounded, by_number, of_action, of_state, two_coins
from inbounds.zoo.tuning_half import branching


def maintenance(name: str, levels: int, discount: float) -> CMDP:
    """A machine that wears out: run it gently, run it hard, or serve it; worn to the last level it stands still."""
    wear = np.arange(levels)
    broken = wear == levels - 1
    transition = np.zeros((levels, 3, levels))
    for action, steps in enumerate((((0, 0.8), (1, 0.2)), ((0, 0.5), (1, 0.35), (2, 0.15)), ((0, 0.1), (-4, 0.9)))):
        for step, chance in steps:
            transition[wear, action, np.clip(wear + step, 0, levels - 1)] += chance
    pace = np.where(broken, 0.0, 1.0 - 0.5 * wear / levels)
    signals = {"runs": of_state(~broken, 3), "quiet": of_action(levels, [1.0, 0.0, 0.7])}
    return bounded(name, transition, np.outer(pace, [0.6, 1.0, 0.0]), signals, 0, discount)


def replacement(name: str, ages: int, discount: float) -> CMDP:
    """A machine that ages, and fails the more the older it is: keep it, overhaul it to half its age, or replace it."""
    age, failed = np.arange(ages + 1), ages  # the last state is a failed one
    transition = np.zeros((ages + 1, 3, ages + 1))
    risk = 0.02 + 0.05 * age[:-1]
    transition[age[:-1], 0, failed] = risk
    transition[age[:-1], 0, np.minimum(age[:-1] + 1, ages - 1)] += 1.0 - risk
    transition[age[:-1], 1, age[:-1] // 2] = 1.0
    transition[failed, :2, failed] = 1.0
    transition[:, 2, 0] = 1.0
    reward = np.outer(1.0 - 0.04 * age, [1.0, 0.2, 0.0])
    reward[failed] = 0.0
    signals = {"works": of_state(age < failed, 3), "frugal": of_action(ages + 1, [1.0, 0.6, 0.0])}
    return bounded(name, transition, reward, signals, 0, discount)


def gate(name: str, room: int, discount: float) -> CMDP:
    """A waiting room: at the door is nobody, a modest customer or a rich one; let in or turn away."""
    present, door = (part.ravel() for part in np.indices((room + 1, 3)))
    n_states = len(present)
    transition = np.zeros((n_states, 2, n_states))
    for action in range(2):
        inside = np.minimum(present + action * (door > 0), room)
        for served, chance in ((1, 0.5), (0, 0.5)):
            for comes, share in ((0, 0.3), (1, 0.45), (2, 0.25)):
                after = np.maximum(inside - served, 0) * 3 + comes
                transition[np.arange(n_states), action, after] += chance * share
    allowed = np.ones((n_states, 2), dtype=bool)
    allowed[:, 1] = present < room
    reward = np.outer(np.array([0.0, 0.3, 1.0])[door], [0.0, 1.0])
    signals = {"short": of_state(1.0 - present / room, 2), "fair": 1.0 - np.outer(door == 1, [1.0, 0.0])}
    return bounded(name, transition, reward, signals, 0, discount, allowed=allowed)


def ring(name: str, places: int, discount: float, seed: int) -> CMDP:
    """A ring with a prize half way round: stay, walk on, or leap and perhaps fall back; some places are in the sun."""
    shade = np.random.default_rng(seed).random(places) < 0.6
    place = np.arange(places)
    transition = np.zeros((places, 3, places))
    for action, steps in enumerate((((0, 1.0),), ((1, 0.8), (0, 0.2)), ((3, 0.5), (-1, 0.5)))):
        for step, chance in steps:
            transition[place, action, (place + step) % places] += chance
    reward = np.zeros((places, 3))
    reward[places // 2, 0] = 1.0
    signals = {"shade": of_state(shade, 3), "calm": of_action(places, [0.0, 1.0, 0.2])}
    return bounded(name, transition, reward, signals, 0, discount)


def traps(name: str, length: int, discount: float, holes: int, seed: int) -> CMDP:
    """A line, the better the farther right, with holes to jump over; it takes long to climb out, at the left end."""
    fallen = 1 + np.random.default_rng(seed).choice(length - 2, holes, replace=False)
    place = np.arange(length)
    transition = np.zeros((length, 4, length))
    walks = (((-1, 0.75), (1, 0.25)), ((1, 0.75), (-1, 0.25)), ((2, 0.5), (1, 0.2), (0, 0.3)), ((0, 1.0),))
    for action, steps in enumerate(walks):
        for step, chance in steps:
            transition[place, action, np.clip(place + step, 0, length - 1)] += chance
    transition[fallen] = 0.0
    transition[fallen, :, fallen], transition[fallen, :, 0] = 0.8, 0.2
    free = np.ones(length)
    free[fallen] = 0.0
    signals = {"free": of_state(free, 4), "rest": of_action(length, [0.5, 0.5, 0.0, 1.0])}
    return bounded(name, transition, of_state(free * place / (length - 1), 4), signals, 0, discount)


def layered(name: str, layers: int, width: int, actions: int, constraints: int, discount: float, seed: int) -> CMDP:
    """A Garnet in layers, each of which leads to the next, and the last to the first; only the last pays well."""
    rng = np.random.default_rng(seed)
    states = layers * width
    layer = np.arange(states) // width
    targets = rng.integers(0, width, (states, actions, 3)) + ((layer + 1) % layers * width)[:, None, None]
    transition = np.zeros((states, actions, states))
    np.add.at(transition, (*np.indices(targets.shape)[:2], targets), rng.dirichlet(np.ones(3), (states, actions)))
    reward = rng.random((states, actions)) * np.where(layer == layers - 1, 1.0, 0.2)[:, None]
    return bounded(name, transition, reward, by_number(rng.random((constraints, states, actions))), 0, discount)


def blocks(name: str, number: int, size: int, actions: int, constraints: int, discount: float, seed: int) -> CMDP:
    """A Garnet of blocks that are seldom left: with probability 0.03 a step, to anywhere in the next block."""
    rng = np.random.default_rng(seed)
    states = number * size
    block = np.arange(states) // size
    targets = rng.integers(0, size, (states, actions, 4)) + (block * size)[:, None, None]
    transition = np.zeros((states, actions, states))
    np.add.at(
        transition, (*np.indices(targets.shape)[:2], targets), 0.97 * rng.dirichlet(np.ones(4), (states, actions))
    )
    transition += 0.03 / size * (block == ((block + 1) % number)[:, None])[:, None, :]
    reward = rng.random((states, actions)) * rng.random(number)[block][:, None]  # some blocks pay better
    return bounded(name, transition, reward, by_number(rng.random((constraints, states, actions))), None, discount)


def fishery(name: str, most: int, discount: float) -> CMDP:
    """A stock of fish: catch nothing, 1, 3 or 6 of them if there are as many; what is left grows towards a limit."""
    catch, before = np.array([0, 1, 3, 6]), np.arange(most + 1)[:, None]
    allowed = catch <= before
    left = np.maximum(before - catch, 0)
    fertile = np.where(left > 0, 0.45 * (1.0 - left / most), 0.05)  # [S, 4], the chance of each of two young
    transition = np.zeros((most + 1, 4, most + 1))
    rows, columns = np.indices(left.shape)
    for one, other, chance in two_coins(fertile, fertile):
        np.add.at(transition, (rows, columns, np.minimum(left + one + other, most)), chance)
    signals = {"stock": of_state(np.arange(most + 1) / most, 4), "closed season": of_action(most + 1, catch == 0)}
    return bounded(name, transition, of_action(most + 1, catch / 6.0), signals, most // 2, discount, allowed=allowed)


def battery(name: str, levels: int, discount: float) -> CMDP:
    """A battery on a market whose price goes up and down: charge, wait or sell; pay little, and keep a reserve."""
    charge, price = (part.ravel() for part in np.indices((levels, 3)))
    n_states, prices = len(charge), np.array([0.1, 0.5, 1.0])
    market = np.array([[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.0, 0.2, 0.8]])
    transition = np.zeros((n_states, 3, n_states))
    for action, steps in enumerate((((1, 0.9), (0, 0.1)), ((0, 1.0),), ((-1, 1.0),))):
        for step, chance in steps:
            for later in range(3):
                after = np.clip(charge + step, 0, levels - 1) * 3 + later
                transition[np.arange(n_states), action, after] += chance * market[price, later]
    allowed = np.column_stack([charge < levels - 1, np.ones(n_states, dtype=bool), charge > 0])
    signals = {
        "reserve": of_state(charge / (levels - 1), 3),
        "thrift": 1.0 - np.outer(prices[price], [1.0, 0.0, 0.0]),
    }
    reward = np.outer(prices[price], [0.0, 0.0, 1.0])
    return bounded(name, transition, reward, signals, (levels // 2) * 3, discount, allowed=allowed)


def routing(name: str, buffer: int, discount: float) -> CMDP:
    """Jobs for two servers, a slow one and a dear fast one: send the next to either, or turn it away."""
    slow, fast = (part.ravel() for part in np.indices((buffer + 1, buffer + 1)))
    n_states = len(slow)
    transition = np.zeros((n_states, 3, n_states))
    for action in range(3):
        for slow_done, fast_done, chance in two_coins(0.3, 0.6):
            for comes, share in ((1, 0.7), (0, 0.3)):
                one = np.minimum(np.maximum(slow - slow_done, 0) + comes * (action == 0), buffer)
                other = np.minimum(np.maximum(fast - fast_done, 0) + comes * (action == 1), buffer)
                transition[np.arange(n_states), action, one * (buffer + 1) + other] += chance * share
    allowed = np.column_stack([slow < buffer, fast < buffer, np.ones(n_states, dtype=bool)])
    signals = {
        "short": of_state(1.0 - np.minimum((slow + fast) / buffer, 1.0), 3),
        "cheap": of_action(n_states, [1.0, 0.0, 1.0]),
    }
    return bounded(name, transition, of_action(n_states, [1.0, 1.0, 0.0]), signals, 0, discount, allowed=allowed)


def treatment(name: str, illness: int, toxicity: int, discount: float) -> CMDP:
    """A patient: no treatment, a mild or a strong one; it heals, and it poisons."""
    ill, toxic = (part.ravel() for part in np.indices((illness, toxicity)))
    n_states = len(ill)
    worse, better = (0.3, 0.12, 0.04), (0.05, 0.25, 0.5)
    poisoned, recovered = (0.0, 0.2, 0.5), (0.4, 0.15, 0.05)
    transition = np.zeros((n_states, 3, n_states))
    for action in range(3):
        up, down = worse[action], better[action]
        more, less = poisoned[action], recovered[action]
        for step, chance in ((1, up), (-1, down), (0, 1.0 - up - down)):
            for drift, share in ((1, more), (-1, less), (0, 1.0 - more - less)):
                after = np.clip(ill + step, 0, illness - 1) * toxicity + np.clip(toxic + drift, 0, toxicity - 1)
                transition[np.arange(n_states), action, after] += chance * share
    signals = {
        "tolerance": of_state(1.0 - toxic / (toxicity - 1), 3),
        "days off": of_action(n_states, [1.0, 0.4, 0.0]),
    }
    reward = of_state(1.0 - ill / (illness - 1), 3)
    return bounded(name, transition, reward, signals, (illness // 2) * toxicity, discount)


UNTOUCHED: dict[str, Callable[[], CMDP]] = {
    "wear12": lambda: maintenance("wear12", 12, 0.95),
    "ageing15": lambda: replacement("ageing15", 15, 0.97),
    "gate": lambda: gate("gate", 20, 0.95),
    "ring40": lambda: ring("ring40", 40, 0.95, seed=101),
    "traps30": lambda: traps("traps30", 30, 0.95, holes=6, seed=102),
    "layers8": lambda: layered("layers8", 8, 10, 4, 2, 0.9, seed=103),
    "blocks6": lambda: blocks("blocks6", 6, 15, 4, 3, 0.95, seed=104),
    "fishery24": lambda: fishery("fishery24", 24, 0.96),
    "battery10": lambda: battery("battery10", 10, 0.98),
    "routing6": lambda: routing("routing6", 6, 0.9),
    "ward6": lambda: treatment("ward6", 6, 4, 0.92),
    "garnet90": lambda: branching("garnet90", 90, 6, 4, 4, 0.8, seed=105, sparse=0.3),
}
