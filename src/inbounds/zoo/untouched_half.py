"""The untouched half of the suite: twelve problems, most of kinds that the tuning half lacks. Nothing is tuned on them.

A preset is run on them to be judged, once it is done; docs/presets.md says how often that was. If what was seen here
ever changes a preset, these problems are to be replaced, as their forerunners were. Rewards, signals and bounds are
as in the tuning half.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from inbounds.arrays import Floats
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


def tandem(name: str, buffer: int, discount: float) -> CMDP:
    """Two queues in a row, whose servers share what power there is: let people in, and keep the second one short."""
    first, second = (part.ravel() for part in np.indices((buffer + 1, buffer + 1)))
    n_states, place = len(first), np.arange(len(first))
    powers = ((0.3, 0.3), (0.7, 0.3), (0.3, 0.7), (0.6, 0.6))
    transition = np.zeros((n_states, 4, n_states))
    for action, (one, other) in enumerate(powers):
        for done, gone, chance in two_coins(one, other):
            passed = (first > 0) & (done > 0) & (second - ((second > 0) & (gone > 0)) < buffer)
            for comes, share in ((1, 0.4), (0, 0.6)):
                left = np.minimum(first - passed + comes, buffer)
                right = np.maximum(second - gone, 0) + passed
                transition[place, action, left * (buffer + 1) + right] += chance * share
    signals = {
        "second short": of_state(1.0 - second / buffer, 4),
        "saving": of_action(n_states, [1.0, 0.4, 0.4, 0.0]),
    }
    return bounded(name, transition, of_state(1.0 - first / buffer, 4), signals, 0, discount)


def epidemic(name: str, most: int, discount: float) -> CMDP:
    """An illness that goes round: do nothing, be careful or stay at home; life goes on as long as few are ill."""
    ill, place = np.arange(most + 1), np.arange(most + 1)
    transition = np.zeros((most + 1, 3, most + 1))
    for action, contact in enumerate((1.0, 0.6, 0.25)):
        catch = np.minimum(0.05 + 1.2 * contact * ill / most * (1.0 - ill / most), 0.95)
        heal = 0.1 + 0.3 * ill / most
        for more, fewer, chance in two_coins(catch, heal):
            transition[place, action, np.clip(ill + 2 * more - fewer, 0, most)] += chance
    reward = np.outer(1.0 - 0.2 * ill / most, [1.0, 0.6, 0.1])
    signals = {"healthy": of_state(1.0 - ill / most, 3), "at home": of_action(most + 1, [0.0, 0.3, 1.0])}
    return bounded(name, transition, reward, signals, most // 3, discount)


def reservoir(name: str, levels: int, discount: float) -> CMDP:
    """A dam in a dry and a wet season: let out nothing, some or much, which gives power; keep water, and no floods."""
    water, wet = (part.ravel() for part in np.indices((levels, 2)))
    n_states, release = len(water), np.array([0, 1, 3])
    transition = np.zeros((n_states, 3, n_states))
    for action, out in enumerate(release):
        left = np.maximum(water - out, 0)
        for inflow, dry_chance, wet_chance in ((0, 0.6, 0.1), (1, 0.3, 0.4), (2, 0.1, 0.3), (3, 0.0, 0.2)):
            chance = np.where(wet == 1, wet_chance, dry_chance)
            for changes in (0, 1):
                after = np.minimum(left + inflow, levels - 1) * 2 + (wet ^ changes)
                transition[np.arange(n_states), action, after] += chance * (0.1 if changes else 0.9)
    power = np.minimum(water[:, None], release) / 3.0 * (0.4 + 0.6 * water / (levels - 1))[:, None]
    signals = {
        "no flood": of_state(water < levels - 2, 3),
        "reserve": of_state(np.minimum(water / (levels // 2), 1.0), 3),
    }
    return bounded(name, transition, power, signals, (levels // 2) * 2, discount)


def courier(name: str, side: int, discount: float) -> CMDP:
    """Fetch parcels in one corner and bring them to the opposite one; the middle is forbidden, and fuel is dear."""
    cell, loaded = (part.ravel() for part in np.indices((side * side, 2)))
    row, column, n_states = cell // side, cell % side, 2 * side * side
    transition = np.zeros((n_states, 5, n_states))
    for action, (down, right) in enumerate(((-1, 0), (0, 1), (1, 0), (0, -1), (0, 0))):
        there = np.clip(row + down, 0, side - 1) * side + np.clip(column + right, 0, side - 1)
        for goes, chance in ((there, 0.85), (cell, 0.15)):
            carries = np.where(goes == side * side - 1, 1, np.where(goes == 0, 0, loaded))
            transition[np.arange(n_states), action, goes * 2 + carries] += chance
    delivers = transition[:, :, 0] * (loaded == 1)[:, None]  # arrives in the first cell, with a parcel
    middle = (np.abs(row - (side - 1) / 2) < 1) & (np.abs(column - (side - 1) / 2) < 1)
    signals = {"allowed": of_state(~middle, 5), "parked": of_action(n_states, [0.0, 0.0, 0.0, 0.0, 1.0])}
    return bounded(name, transition, delivers, signals, 0, discount)


def rotation(name: str, fertility: int, discount: float) -> CMDP:
    """A field: wheat after wheat wears the soil out, clover mends it, and weeds come and go; spray little."""
    soil, weeds = (part.ravel() for part in np.indices((fertility, 3)))
    n_states, place = len(soil), np.arange(len(soil))
    transition = np.zeros((n_states, 4, n_states))  # wheat, wheat with a spray, clover, nothing
    for action, (change, spread) in enumerate(((-1, 0.6), (-2, 0.1), (1, 0.3), (1, 0.5))):
        for works, spreads, chance in two_coins(0.7, spread):
            after = np.clip(soil + change * works, 0, fertility - 1) * 3
            transition[place, action, after + np.clip(weeds + 2 * spreads - 1, 0, 2)] += chance
    yields = soil / (fertility - 1)
    reward = np.column_stack([yields * (1.0 - 0.4 * weeds), yields * (1.0 - 0.1 * weeds), 0.25 * yields, 0.0 * yields])
    signals = {"clean": of_action(n_states, [1.0, 0.0, 1.0, 1.0]), "soil": of_state(yields, 4)}
    return bounded(name, transition, reward, signals, (fertility - 1) * 3, discount)


def trainee(name: str, skills: int, energy: int, discount: float) -> CMDP:
    """Work, learn or rest: skill is forgotten, energy runs out, and work pays by skill."""
    skill, fresh = (part.ravel() for part in np.indices((skills, energy)))
    n_states, place = len(skill), np.arange(len(skill))
    transition = np.zeros((n_states, 3, n_states))
    for action, (learns, forgets, tires, recovers) in enumerate(
        ((0.05, 0.1, 0.6, 0.05), (0.45, 0.0, 0.4, 0.1), (0.0, 0.2, 0.0, 0.8))
    ):
        for step, chance in ((1, learns), (-1, forgets), (0, 1.0 - learns - forgets)):
            for drift, share in ((-1, tires), (1, recovers), (0, 1.0 - tires - recovers)):
                after = np.clip(skill + step, 0, skills - 1) * energy + np.clip(fresh + drift, 0, energy - 1)
                transition[place, action, after] += chance * share
    reward = np.outer(skill / (skills - 1) * (0.3 + 0.7 * fresh / (energy - 1)), [1.0, 0.0, 0.0])
    signals = {"fresh": of_state(fresh / (energy - 1), 3), "learning": of_action(n_states, [0.0, 1.0, 0.0])}
    return bounded(name, transition, reward, signals, energy - 1, discount)


def windy(name: str, side: int, constraints: int, discount: float, seed: int) -> CMDP:
    """A round world in which every column has its wind: signals and rewards of the cells are waves."""
    rng = np.random.default_rng(seed)
    row, column = (part.ravel() for part in np.indices((side, side)))
    n_states, wind, place = side * side, rng.random(side)[column], np.arange(side * side)
    transition = np.zeros((n_states, 4, n_states))
    for action, (down, right) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1))):
        for blown, chance in ((1, 0.6 * wind), (0, 1.0 - 0.6 * wind)):
            after = (row + down + blown) % side * side + (column + right) % side
            transition[place, action, after] += chance

    def wave() -> Floats:
        turns, phase = rng.integers(1, 3, 2), 2.0 * np.pi * rng.random()
        return of_state(0.5 + 0.5 * np.cos(2.0 * np.pi * (turns[0] * row + turns[1] * column) / side + phase), 4)

    return bounded(name, transition, wave(), by_number(np.array([wave() for _ in range(constraints)])), None, discount)


UNTOUCHED: dict[str, Callable[[], CMDP]] = {
    "wear18": lambda: maintenance("wear18", 18, 0.97),
    "gate12": lambda: gate("gate12", 12, 0.92),
    "ring25": lambda: ring("ring25", 25, 0.97, seed=201),
    "blocks8": lambda: blocks("blocks8", 8, 10, 3, 2, 0.93, seed=202),
    "tandem6": lambda: tandem("tandem6", 6, 0.95),
    "epidemic24": lambda: epidemic("epidemic24", 24, 0.96),
    "dam12": lambda: reservoir("dam12", 12, 0.97),
    "courier4": lambda: courier("courier4", 4, 0.95),
    "field8": lambda: rotation("field8", 8, 0.98),
    "trainee6": lambda: trainee("trainee6", 6, 5, 0.94),
    "windy9": lambda: windy("windy9", 9, 3, 0.9, seed=203),
    "garnet120": lambda: branching("garnet120", 120, 5, 6, 3, 0.9, seed=204, sparse=0.5),
}
