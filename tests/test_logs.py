"""Models from logged transitions: the counts by hand, the widths by their formulas, and how often they hold."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import inbounds as ib

POWER = [ib.Constraint(at_most=1.5, name="power")]
LOG = [
    ("dry", "pump", "dry", 1.0, [2.0]),
    ("dry", "pump", "wet", 3.0, [2.0]),
    ("dry", "pump", "wet", 2.0, [5.0]),
    ("wet", "wait", "dry", 0.0, [0.0]),
]


def test_counts_by_hand() -> None:
    seen = ib.from_counts(LOG, start={"wet": 1.0}, constraints=POWER, discount=0.9, name="rooms")
    model = seen.model
    assert model.state_labels == ("wet", "dry") and model.action_labels == ("pump", "wait") and model.name == "rooms"
    assert model.offsets.tolist() == [0, 1, 2] and model.actions.tolist() == [1, 0]
    np.testing.assert_allclose(model.transition.toarray(), [[0.0, 1.0], [2 / 3, 1 / 3]])
    assert model.reward.tolist() == [0.0, 2.0] and model.signals[0].tolist() == [0.0, 3.0]
    assert model.initial.tolist() == [1.0, 0.0] and seen.visits.tolist() == [1, 3]
    assert ib.solve(model.with_bound("power", at_most=3.0)).certificate.in_bounds


def test_rows_without_signals_or_with_one_number() -> None:
    bare = ib.from_counts([row[:4] for row in LOG], start="dry", horizon=3)
    assert bare.model.n_constraints == 0 and bare.model.reward.shape == (3, 2)
    one = ib.from_counts([(*row[:4], row[4][0]) for row in LOG], start="dry", constraints=POWER, average=True)
    assert one.model.signals[0].tolist() == [3.0, 0.0]


def width(visits, delta):
    """How far a mean of so many draws from [0, 1] may be off, whatever decided how many: all numbers at once."""
    return np.sqrt((visits + 20) * (np.log(1 / delta) + np.log(1 + visits / 20) / 2) / 2) / visits


def test_widths_are_those_of_the_formulas() -> None:
    seen = ib.from_counts(
        LOG * 100,
        start="dry",
        constraints=POWER,
        discount=0.9,
        confidence=0.9,
        reward_range=(0, 4),
        signal_ranges=[(0, 5)],
    )
    delta = 0.1 / (2 * 3)
    for place, visits in enumerate((300, 100)):
        assert seen.visits[place] == visits
        assert seen.transition_widths[place] == pytest.approx(2 * width(visits, delta / (2 ** (2 - 1) - 1)))
        assert seen.reward_widths[place] == pytest.approx(4 * width(visits, delta))
        assert seen.signal_widths[0, place] == pytest.approx(5 * width(visits, delta))
    without = ib.from_counts(LOG, start="dry", constraints=POWER, discount=0.9)
    assert np.isnan(without.reward_widths).all() and np.isnan(without.signal_widths).all()
    assert without.transition_widths.max() <= 2.0


def test_widths_of_three_states_count_three_sets() -> None:
    """One, two, and the third alone; each with what it leaves out."""
    log = [(0, "go", 1, 0.0), (1, "go", 2, 0.0), (2, "go", 0, 0.0)] * 200
    seen = ib.from_counts(log, start=0, discount=0.9)
    assert seen.transition_widths == pytest.approx(np.full(3, 2 * width(200, 0.05 / (3 * 2) / 3)))
    one = ib.from_counts([(0, "go", 0, 0.0)], start=0, discount=0.9)
    assert one.transition_widths.tolist() == [0.0]


def test_no_width_is_wider_than_what_can_be() -> None:
    """However rarely a pair was seen."""
    seen = ib.from_counts(
        LOG, start="dry", constraints=POWER, discount=0.9, reward_range=(0, 17.4), signal_ranges=[(0, 5)]
    )
    assert seen.reward_widths.max() == 17.4 and seen.signal_widths.max() == 5.0 and seen.transition_widths.max() <= 2.0


def test_how_far_a_policy_chosen_by_the_log_may_be_off() -> None:
    """The bound of the module's text, for the optimum that a log chose: with confidence 90 % it holds, of 100 logs;
    more than 30 failures have a chance below 1e-8. Without it the log flatters: what it says is too much, on
    average."""
    rng, failed, flattered = np.random.default_rng(1), 0, 0.0
    truth = ib.zoo.garnet(states=5, actions=3, successors=3, constraints=0, discount=0.6, seed=0)
    rows = truth.transition.toarray()
    reach = float(truth.reward.max() - truth.reward.min())
    for _ in range(100):
        log = [
            (int(state), int(action), int(rng.choice(5, p=row)), float(reward))
            for state, action, row, reward in zip(truth.pairs.states, truth.actions, rows, truth.reward, strict=True)
            for _ in range(30)
        ]
        seen = ib.from_counts(
            log, start=dict(enumerate(truth.initial)), discount=0.6, confidence=0.9,
            reward_range=(float(truth.reward.min()), float(truth.reward.max())),
        )  # fmt: skip
        found = ib.solve(seen.model)
        off = found.occupancy @ (seen.reward_widths + 0.6 / 0.4 * seen.transition_widths * reach / 2)
        real = ib.evaluate(truth, found.policy).reward
        failed += abs(real - found.reward) > off
        flattered += found.reward - real
    assert failed <= 30 and flattered > 0.0


@pytest.mark.parametrize("stated", [False, True])
def test_widths_hold_whatever_ended_the_log(stated) -> None:
    """Each of two pairs is tried until its reward, or its next state, is off by more than the width: that of a fixed
    number of draws (Hoeffding), or the one that is stated. With 95 % confidence at most 5 % of 400 logs may succeed;
    more than 45 do with a chance below 1e-6."""
    rng, delta, most, false = np.random.default_rng(3), 0.05 / (2 * 2), 3_000, 0
    numbers = np.arange(1, most + 1)
    enough = width(numbers, delta) if stated else np.sqrt(np.log(2 / delta) / (2 * numbers))
    for _ in range(400):
        log = []
        for state in (0, 1):
            draws = rng.integers(0, 2, (2, most))
            off = np.abs(np.cumsum(draws, axis=1) / numbers - 0.5).max(axis=0) > enough
            tried = int(np.argmax(off)) + 1 if off.any() else most
            log += [(state, "go", int(after), float(reward)) for after, reward in draws[:, :tried].T]
        if len(log) == 2 * most:
            continue  # it was never off
        seen = ib.from_counts(log, start=0, discount=0.5, reward_range=(0, 1))
        rows = np.abs(seen.model.transition.toarray() - 0.5).sum(axis=1)
        false += bool(
            np.any(rows > seen.transition_widths) or np.any(abs(seen.model.reward - 0.5) > seen.reward_widths)
        )
    assert false <= 45


def test_smoothing_widens_by_what_it_moves() -> None:
    log = [(0, "a", 0, 0.0), (0, "b", 1, 0.0), (1, "b", 0, 0.0)] * 1_000
    plain, smooth = (ib.from_counts(log, start=0, discount=0.9, smoothing=by) for by in (0.0, 1_000.0))
    moved = np.abs((smooth.model.transition - plain.model.transition).toarray()).sum(axis=1)
    assert moved == pytest.approx([2 / 3, 2 / 3, 0.0])
    assert smooth.transition_widths == pytest.approx(plain.transition_widths + moved)


def test_smoothing_adds_to_what_was_seen_after_the_state() -> None:
    log = [("a", "x", "a", 0.0), ("a", "y", "b", 0.0), ("a", "y", "b", 0.0), ("b", "x", "a", 0.0)]
    model = ib.from_counts(log, start="a", discount=0.5, smoothing=0.5).model
    np.testing.assert_allclose(model.transition.toarray(), [[1.5 / 2, 0.5 / 2], [0.5 / 3, 2.5 / 3], [1.0, 0.0]])


def test_states_that_are_never_left() -> None:
    log = [("a", "x", "end", 1.0)]
    with pytest.raises(ib.InvalidInput, match="""state 'end' was never left; unseen="stay" lets it stay there"""):
        ib.from_counts(log, start="a", discount=0.5)
    with pytest.raises(ib.InvalidInput, match="state 7 is a start, and in no row of the log"):
        ib.from_counts([("a", "x", "a", 1.0)], start=7, discount=0.5)
    seen = ib.from_counts(log, start="a", discount=0.5, unseen="stay", reward_range=(0, 1))
    assert seen.model.transition.toarray().tolist() == [[0.0, 1.0], [0.0, 1.0]]
    assert seen.visits.tolist() == [1, 0] and seen.transition_widths[1] == seen.reward_widths[1] == 0.0


def test_the_widths_hold_as_often_as_they_say() -> None:
    """They are wide: with confidence 90 % nearly all of 200 logs keep them. That more than 40 fail although each does
    with probability at most .1 has a chance below 1e-5."""
    rng, failed = np.random.default_rng(0), 0
    truth = np.array([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0], [0.1, 0.1, 0.8]])
    for _ in range(200):
        log, state = [], 0
        for _ in range(300):
            after = int(rng.choice(3, p=truth[state]))
            log.append((state, "go", after, float(rng.random() < 0.3)))
            state = after
        seen = ib.from_counts(log, start=0, discount=0.5, confidence=0.9, reward_range=(0, 1))
        rows = truth[list(seen.model.state_labels)][:, list(seen.model.state_labels)]
        off = np.abs(seen.model.transition.toarray() - rows).sum(axis=1)
        failed += bool(
            np.any(off > seen.transition_widths) or np.any(abs(seen.model.reward - 0.3) > seen.reward_widths)
        )
    assert failed <= 40


@pytest.mark.parametrize(
    ("log", "more", "message"),
    [
        ([], {}, "the log has no transitions"),
        (
            [("a", "x", "a")],
            {},
            r"row 0 must be \(state, action, next_state, reward, signals\), found",
        ),
        (["axa0"], {}, "row 0 must be"),
        ([("a", "x", "a", 0.0)], {"constraints": POWER}, "row 0 must be"),
        ([("a", "x", "a", 0.0, [1, 2])], {"constraints": POWER}, "row 0 has 2 signals for 1 constraints"),
        ([("a", "x", "a", "much")], {}, "row 0: the reward or a signal must be a number, found 'much'"),
        ([("a", "x", "a", math.inf)], {}, "row 0: the reward and the signals must be finite"),
        ([("a", ["x"], "a", 0.0)], {}, "row 0: states and actions must be hashable"),
        ([("a", "x", "a", 0.0)], {"confidence": 1.0}, r"confidence must be a number in \(0, 1\), found 1.0"),
        ([("a", "x", "a", 0.0)], {"smoothing": -1}, r"smoothing must be a number from 0 to 1e\+100, found -1"),
        ([("a", "x", "a", 0.0)], {"smoothing": 1e308}, r"smoothing must be a number from 0 to 1e\+100, found 1e\+308"),
        ([("a", "x", "a", 0.0)], {"unseen": "guess"}, """unseen must be "refuse" or "stay", found 'guess'"""),
        ([("a", "x", "a", 0.0)], {"reward_range": (1, 0)}, "reward_range must be two finite numbers, the lowest first"),
        ([("a", "x", "a", 5.0)], {"reward_range": (0, 1)}, r"row 0: the reward is 5.0, outside its range \(0.0, 1.0\)"),
        (5, {}, "the log must be rows of transitions, found 5"),
        ([("a", "x", "a", 0.0)], {"signal_ranges": [(0, 1)]}, "signal_ranges must have 0 entries, found 1"),
    ],
)
def test_what_is_wrong_is_named(log, more, message) -> None:
    with pytest.raises(ib.InvalidInput, match=message):
        ib.from_counts(log, start="a", discount=0.5, **more)


def test_sums_beyond_doubles_are_refused_without_a_warning() -> None:
    with pytest.raises(ib.InvalidInput, match="reward"):
        ib.from_counts(
            [("a", "x", "a", 1.7e308, [0.0])] * 3,
            start="a",
            constraints=[ib.Constraint(at_most=1.0, name="c")],
            discount=0.9,
        )


def test_a_gap_in_a_table_is_no_state() -> None:
    """(Each nan was a state of its own, or an action.)"""
    row = [0, "go", 0, 1.0]
    for place, what in ((0, "state"), (1, "action"), (2, "next state")):
        for gap in (float("nan"), np.float32("nan"), (1, float("nan")), np.datetime64("NaT")):
            with pytest.raises(ib.InvalidInput, match=f"row 1: the {what} is .*a gap in the table"):
                ib.from_counts([row, [*row[:place], gap, *row[place + 1 :]]], start=0, discount=0.5)


def test_what_a_log_cannot_use_is_refused() -> None:
    row = (0, "go", 0, 1.0, [0.5])
    own = ib.Constraint(lambda state, action: 100.0, at_most=1.0, name="heat")
    with pytest.raises(ib.InvalidInput, match="'heat' has a signal of its own, and the rows of the log report it"):
        ib.from_counts([row], start=0, constraints=[own], discount=0.5)
    with pytest.raises(ib.InvalidInput, match=r"row 0 must be .*, found \{'a': 'go'"):
        ib.from_counts([dict(zip("sanr", row, strict=False))], start=0, discount=0.5)


@pytest.mark.parametrize("signals", [{0: 0.7}, {0.7}])
def test_signals_are_a_list(signals) -> None:
    """(The keys of a dict were the signals, and a set had them in any order.)"""
    with pytest.raises(ib.InvalidInput, match="row 0: the signals must be a list, in the order of constraints"):
        ib.from_counts(
            [("a", "x", "a", 1.0, signals)], start="a", constraints=[ib.Constraint(at_most=9.0)], discount=0.5
        )


@pytest.mark.parametrize("values", [[0.1], [0.1, 0.3], [1e16, 1.0, -1e16], [5e-324, 0.0, 1e100]])
def test_means_are_those_of_fractions(values) -> None:
    """(They were running sums: what was always 0.1 had a mean of 0.10000000000018848, and was infeasible.)"""
    log = [("s", "a", "s", value, [value]) for value in values] * 30_000
    cost = ib.Constraint(at_most=max(values), name="cost")
    seen = ib.from_counts(log, start="s", constraints=[cost], discount=0.9)
    mean = float(sum(map(Fraction, values)) / len(values))
    assert seen.model.reward.tolist() == [mean] and seen.model.signals[0].tolist() == [mean]


def test_a_log_that_always_pays_the_bound_is_in_bounds() -> None:
    log = [("s", "a", "s", 0.1, [0.1])] * 100_000
    limits = {"reward_range": (0.1, 0.1), "signal_ranges": [(0.1, 0.1)]}
    cost = ib.Constraint(at_most=0.1, name="cost")
    seen = ib.from_counts(log, start="s", constraints=[cost], discount=0.9, **limits)
    assert ib.solve(seen.model).certificate.in_bounds
    assert seen.reward_widths.tolist() == [0.0] and seen.model.reward.tolist() == [0.1]


@pytest.mark.parametrize("signals", [np.array(2.0), {"power": 2.0}.values(), memoryview(np.array([2.0]))])
def test_signals_are_read_as_those_of_a_step_are(signals) -> None:
    seen = ib.from_counts([("s", "a", "s", 1.0, signals)], start="s", constraints=POWER, discount=0.9)
    assert seen.model.signals[0].tolist() == [2.0]
