"""Tiny problems solved by hand. Each function returns the problem with its answer; the docstring derives the answer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import inbounds as ib


class Solved(NamedTuple):
    cmdp: ib.CMDP
    reward: float  # the optimum, normalised by (1 - discount)
    prices: np.ndarray  # [K]
    table: np.ndarray  # [S, A], the optimal policy
    slater: float  # in the user's units


def work_and_rest() -> Solved:
    """One state. Working pays 1 and takes 1 unit of energy, resting neither; at most 1/4 of a unit on average.

    With x the share of time at work, every policy has reward x and energy x, so the best is x = 1/4 whatever the
    discount. One more unit of energy is one more unit of reward: price 1. Resting always leaves a margin of 1/4, which
    no policy exceeds: slater = 1/4.
    """
    cmdp = ib.CMDP.from_dense(
        np.ones((1, 2, 1)),
        reward=[[1.0, 0.0]],
        constraints=[ib.Constraint([[1.0, 0.0]], at_most=0.25, name="energy")],
        initial=[1.0],
        discount=0.9,
        action_labels=["work", "rest"],
    )
    return Solved(cmdp, 0.25, np.array([1.0]), np.array([[0.25, 0.75]]), 0.25)


def two_rooms() -> Solved:
    """Two states, start in 0, discount 1/2; staying or moving, both certain. Moving out of 0 pays 1, out of 1 pays 3.

    At most a quarter of the steps may be moves. Let x, y be the shares of time at (0, move) and (1, move). The flow
    into state 1 gives  mass(1) = (x + mass(1) - y) / 2,  hence  mass(1) = x - y >= y, so  y <= x / 2.
    Maximise x + 3 y subject to x + y <= 1/4 and 0 <= y <= x/2: the best split takes y = x/2, so x = 1/6, y = 1/12 and
    the reward is 5/12, that is 5/3 per unit of moving: price 5/3.
    mass(1) = x - y = 1/12 = y: in state 1 always move. mass(0) = 11/12: in state 0 move with probability
    (1/6) / (11/12) = 2/11.
    Never moving leaves a margin of 1/4, the largest possible: slater = 1/4.
    """
    stay, move = np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]])
    cmdp = ib.CMDP.from_dense(
        np.stack([stay, move], axis=1),
        reward=[[0.0, 1.0], [0.0, 3.0]],
        constraints=[ib.Constraint([[0.0, 1.0], [0.0, 1.0]], at_most=0.25, name="moves")],
        initial=[1.0, 0.0],
        discount=0.5,
        state_labels=["hall", "attic"],
        action_labels=["stay", "move"],
    )
    return Solved(cmdp, 5 / 12, np.array([5 / 3]), np.array([[9 / 11, 2 / 11], [0.0, 1.0]]), 0.25)


def myopic() -> Solved:
    """Discount 0: only the first step counts, so every state is a problem of its own, tied by the constraint alone.

    Start in either state with probability 1/2. In state 0 the second action pays 4 more and uses 1, in state 1 it pays
    1 more and uses 1; at most 3/4 used on average. Use it always in state 0 (use 1/2, gain 2) and half the time in
    state 1 (use 1/4, gain 1/4): reward 9/4. The last unit of use earns 1: price 1. Never using leaves 3/4: slater.
    """
    cmdp = ib.CMDP.from_dense(
        np.tile(np.eye(2)[:, None, :], (1, 2, 1)),
        reward=[[0.0, 4.0], [0.0, 1.0]],
        constraints=[ib.Constraint([[0.0, 1.0], [0.0, 1.0]], at_most=0.75, name="use")],
        initial=[0.5, 0.5],
        discount=0.0,
    )
    return Solved(cmdp, 9 / 4, np.array([1.0]), np.array([[0.0, 1.0], [0.5, 0.5]]), 0.75)


def no_constraints() -> Solved:
    """Two states, no constraint. From 0: take 1 and stay, or nothing and go to 1, which pays 3 for ever; discount 0.9.

    Staying is worth 1 from state 0 (normalised), leaving 0.9 * 3 = 2.7: leave. State 1 has a single action.
    """
    cmdp = ib.CMDP(
        offsets=[0, 2, 3],
        transition=[[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]],
        reward=[1.0, 0.0, 3.0],
        constraints=(),
        initial=[1.0, 0.0],
        discount=0.9,
    )
    return Solved(cmdp, 2.7, np.empty(0), np.array([[0.0, 1.0], [1.0, 0.0]]), np.inf)


def slack_constraint() -> Solved:
    """`work_and_rest` with more energy than there is work: the bound does not bind, its price is 0.

    Always work: reward 1, margin 2 - 1 = 1. Resting leaves 2: slater = 2.
    """
    cmdp = ib.CMDP.from_dense(
        np.ones((1, 2, 1)),
        reward=[[1.0, 0.0]],
        constraints=[ib.Constraint([[1.0, 0.0]], at_most=2.0, name="energy")],
        initial=[1.0],
        discount=0.9,
    )
    return Solved(cmdp, 1.0, np.array([0.0]), np.array([[1.0, 0.0]]), 2.0)


def unreachable_state() -> Solved:
    """`work_and_rest` with a second state that nothing leads to; there, working pays 5.

    It has no occupancy, so the constraint says nothing about it, but at the price 1 of energy working there is worth
    5 - 1 = 4 and resting 0: the greedy choice is to work.
    """
    cmdp = ib.CMDP.from_dense(
        np.tile(np.array([1.0, 0.0]), (2, 2, 1)),
        reward=[[1.0, 0.0], [5.0, 0.0]],
        constraints=[ib.Constraint([[1.0, 0.0], [1.0, 0.0]], at_most=0.25, name="energy")],
        initial=[1.0, 0.0],
        discount=0.9,
    )
    return Solved(cmdp, 0.25, np.array([1.0]), np.array([[0.25, 0.75], [1.0, 0.0]]), 0.25)


def conflict() -> tuple[ib.CMDP, float, np.ndarray]:
    """One state, two actions, two signals; each bound can be met, both together cannot. (problem, slater, prices)

    Action 0 gives the first signal 1, action 1 the second; both must be at least 0.6. With x the share of action 0 the
    margins are x - 0.6 and 0.4 - x: their sum is -0.2 always, so the best least margin is -0.1 at x = 1/2, and the
    weights 1/2, 1/2 prove it.
    """
    cmdp = ib.CMDP.from_dense(
        np.ones((1, 2, 1)),
        reward=[[0.0, 0.0]],
        constraints=[
            ib.Constraint([[1.0, 0.0]], at_least=0.6, name="apples"),
            ib.Constraint([[0.0, 1.0]], at_least=0.6, name="pears"),
        ],
        initial=[1.0],
        discount=0.8,
    )
    return cmdp, -0.1, np.array([0.5, 0.5])


def rows_do_not_average() -> tuple[ib.CMDP, ib.Policy, ib.Policy, float, float]:
    """Averaging the probabilities of two policies is not mixing them. (problem, first, second, mixed, row average)

    Start in state 0; "go" leads to state 1, "stay" remains; state 1 is absorbing and pays 1 for "take", 0 for "leave".
    Discount 1/2. First policy: stay, take: never gets to state 1, value 0. Second: go, leave: value 0. Any mixture of
    the two has value 0. Their row average goes with probability 1/2 and takes with probability 1/2; the share of time
    in state 0 is  m = 1/2 + m/4,  so m = 2/3, state 1 has 1/3, half of it taken: value 1/6.
    """
    cmdp = ib.CMDP.from_dense(
        [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]],
        reward=[[0.0, 0.0], [1.0, 0.0]],
        initial=[1.0, 0.0],
        discount=0.5,
    )
    first = ib.Policy.from_table(cmdp, [[1.0, 0.0], [1.0, 0.0]])
    second = ib.Policy.from_table(cmdp, [[0.0, 1.0], [0.0, 1.0]])
    return cmdp, first, second, 0.0, 1 / 6


FEASIBLE = (work_and_rest, two_rooms, myopic, no_constraints, slack_constraint, unreachable_state)


def breakdowns(discount: float, chance: float, repaired: float, times: float) -> tuple[ib.CMDP, ib.Policy, float]:
    """A machine that breaks down hardly ever, and is down until it is repaired; a bound of `times` what hurry gives.

    From "up", hurry pays 1 and breaks with probability `chance`, care pays .6 and does so a quarter as often; from
    "down" each step repairs with probability `repaired`. With x the share of time that is down under hurry, the flow
    into "down" is x = discount (chance (1 - x) + (1 - repaired) x), as the start is "up":

        x = discount chance / (1 - discount (1 - repaired) + discount chance).

    The problem, the policy that always hurries, which is best and in bounds where `times` >= 1, and its margin.
    """
    share = discount * chance / (1.0 - discount * (1.0 - repaired) + discount * chance)
    cmdp = ib.CMDP(
        offsets=[0, 2, 3],
        transition=[[1.0 - chance, chance], [1.0 - chance / 4, chance / 4], [repaired, 1.0 - repaired]],
        reward=[1.0, 0.6, 0.0],
        constraints=(ib.Constraint([0.0, 0.0, 1.0], at_most=times * share, name="down"),),
        initial=[1.0, 0.0],
        discount=discount,
    )
    return cmdp, ib.Policy(cmdp.pairs, [1.0, 0.0, 1.0]), (times - 1.0) * share
