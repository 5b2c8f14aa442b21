"""The appendix's conversions, and Table 1 derived with them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner

import inbounds as ib
from inbounds.algorithms import ALGORITHMS
from inbounds.algorithms.conversions import (
    Order,
    as_totals,
    discounted,
    episodes_needed,
    expected_gap,
    failure_for_mean,
    mixture_gap,
    needed,
    samples_of_episodes,
    stages_as_states,
    steps_as_episodes,
    successors_as_states,
    with_inner_loop,
)
from inbounds.algorithms.table_one import FOOTNOTES, TABLE_ONE, derive, derived, fitting, readings, row_named, verdict
from inbounds.cli import main
from messages import one_message

HALF = Fraction(1, 2)


def row_of(name: str):
    (row,) = (row for row in TABLE_ONE if row.name.startswith(name))
    return row


def test_uc_cfh_as_the_appendix_works_it_out() -> None:
    """Its three displayed orders in turn: episodes with C <= S, samples K H, and H = 1 / (1 - gamma)."""
    episodes = Order.of(S=1, A=1, N=2, H=2, accuracy=2)
    bounded = successors_as_states(episodes)
    assert bounded == Order.of(S=3, A=1, H=2, accuracy=2)
    samples = samples_of_episodes(bounded)
    assert samples == Order.of(S=3, A=1, H=3, accuracy=2)
    assert discounted(samples) == Order.of(S=3, A=1, effective=3, accuracy=2)
    assert [order for _, order in derive(row_of("UC-CFH"))] == [
        episodes,
        bounded,
        samples,
        discounted(samples),
        discounted(samples),  # for the mean: only a logarithm changes
    ]


@pytest.mark.parametrize("power", [HALF, Fraction(4, 5), Fraction(2, 3)])
@pytest.mark.parametrize("accuracy", [0.5, 0.03])
def test_the_order_of_the_episodes_is_what_inverting_the_regret_gives(power: Fraction, accuracy: float) -> None:
    """c K^a / K <= eps from K = (c / eps)^(1 / (1 - a)) on, in numbers and in exponents."""
    constant = 7.0
    least = episodes_needed(lambda k: constant * k ** float(power), accuracy)
    exact = (constant / accuracy) ** (1.0 / (1.0 - float(power)))
    assert least == pytest.approx(math.ceil(exact), abs=1 + 1e-9 * exact)
    order = needed(mixture_gap(Order.of(S=1, K=power)))
    assert order == Order.of(S=1 / (1 - power), accuracy=1 / (1 - power))


def test_the_least_number_of_episodes_is_the_least() -> None:
    for accuracy in (3.0, 0.7, 0.21):
        least = episodes_needed(lambda k: 2.0 * math.sqrt(k) + math.log(k), accuracy)
        brute = next(k for k in range(1, 1000) if 2.0 * math.sqrt(k) + math.log(k) <= accuracy * k)
        assert least == brute
    with pytest.raises(ib.InvalidInput, match="not below linear"):
        episodes_needed(lambda k: 2.0 * k, 0.5)
    with pytest.raises(ib.InvalidInput, match="does not fall"):
        needed(Order.of(S=1))


def test_the_mixture_has_the_mean_of_the_values_and_a_draw_in_every_state_has_not() -> None:
    """Step 1 in numbers: regret / K is the gap of the mixture that draws once; of one that draws in each state, not."""
    queue = ib.zoo.queue()
    policies = [ib.slater(queue).policy, ib.solve(queue).policy, ib.Policy.uniform(queue)]
    best = ib.solve(queue).total_reward
    gaps = [best - ib.evaluate(queue, policy).total_reward for policy in policies]
    mixed = best - ib.evaluate(queue, ib.mix(queue, policies)).total_reward
    assert mixed == pytest.approx(sum(gaps) / len(gaps), abs=1e-12)
    rows = ib.Policy(queue.pairs, np.mean([policy.probabilities for policy in policies], axis=0))
    assert abs(best - ib.evaluate(queue, rows).total_reward - sum(gaps) / len(gaps)) > 1e-3


def test_a_high_probability_becomes_a_mean() -> None:
    for accuracy in (0.3, 0.01):
        for discount in (0.5, 0.99):
            failure = failure_for_mean(accuracy, discount)
            assert failure == pytest.approx(accuracy * (1 - discount))
            assert expected_gap(accuracy, failure, discount) == pytest.approx((2 - failure) * accuracy, rel=1e-12)


def test_substitutions() -> None:
    assert steps_as_episodes(Order.of(H=1, T=HALF)) == Order.of(H=Fraction(3, 2), K=HALF)
    assert stages_as_states(Order.of(S=2, H=7)) == Order.of(S=2, H=5)
    assert as_totals(Order.of(effective=2, accuracy=2)) == Order.of(effective=4, accuracy=2)
    inner = Order.of(S=-1, A=-1, T=1, effective=1)
    assert with_inner_loop(Order.of(S=1, A=1, effective=3, accuracy=2), inner) == Order.of(
        S=1, A=1, effective=7, accuracy=4
    )


def test_orders_are_exact_and_printed_as_the_tables_do() -> None:
    assert str(Order.of()) == "1"
    assert str(Order.of(S=1, A=1)) == "SA" and str(Order.of(accuracy=2)) == "1 / ε^2"
    assert str(Order.of(S=Fraction(5, 2), A=Fraction(5, 2), effective=Fraction(37, 2), accuracy=5)) == (
        "(SA)^2.5 / ((1-γ)^18.5 ε^5)"
    )
    assert str(Order.of(T=-HALF, effective=-1)) == "(1-γ) / T^0.5"
    assert Order.of(S=1) * Order.of(S=HALF) ** 2 == Order.of(S=2)


def test_table_one_what_follows_and_what_does_not() -> None:
    found = {row.name.split(" (")[0]: verdict(row) for row in TABLE_ONE}
    assert len(found) == 14
    assert {name for name, agrees in found.items() if agrees == "no"} == {"OPDOP", "PDSC"}
    assert {name for name, agrees in found.items() if agrees == "stated"} == {"Randomized Primal-Dual", "lower bound"}
    assert all(row.note for row in TABLE_ONE if verdict(row) == "no")
    assert {row.source for row in TABLE_ONE} == {"read", "quoted", "memory"}
    assert {row.footnote for row in TABLE_ONE} - {0} == set(FOOTNOTES) == set(range(1, 7))


def test_the_best_of_all_is_the_best_of_those_with_zero_violation() -> None:
    """The caption of Table 1 has it without the condition: three rows have a lower power of 1 / (1 - gamma)."""
    own = row_of("CSPDA").printed

    def powers(order: Order) -> list[Fraction]:
        return [order.S, order.A, order.effective, order.accuracy]

    for row in TABLE_ONE:
        if row.violation == "zero":
            assert all(mine <= other for mine, other in zip(powers(own), powers(row.printed), strict=True))
    constrained = [row for row in TABLE_ONE if row.violation != "no constraints"]
    lower = {row.name.split(" (")[0]: row.printed.S for row in constrained if row.printed.effective < own.effective}
    assert lower == {"OptDual-CMDP": 2, "OptPrimalDual-CMDP": 2, "UC-CFH": 3}


def test_opdop_follows_if_steps_are_taken_for_episodes() -> None:
    row = row_of("OPDOP")
    assert derived(row) == replace(row.printed, effective=Fraction(5))
    misread = replace(row, own=replace(row.own, K=row.own.T, T=Fraction(0)), steps=row.steps[1:])
    assert derived(misread) == row.printed


def test_only_dividing_by_h_gives_the_rows_whose_transitions_depend_on_the_stage() -> None:
    """S' = S H read the other way, H to the power of S more, gives none of the four."""
    staged = [row for row in TABLE_ONE if any(step == "S' = SH" for step, _ in row.steps) and verdict(row) == "yes"]
    assert len(staged) == 4

    def more(order: Order) -> Order:
        return replace(order, H=order.H + order.S)

    for row in staged:
        other = replace(row, steps=tuple((step, more if step == "S' = SH" else do) for step, do in row.steps))
        assert derived(other) != row.printed


def test_which_convention_gives_each_exponent() -> None:
    """By hand: powers of 1 / (1 - gamma) with S as it is, S' / H and S H; then the same with eps normalised."""
    by_hand = {
        "opt-dual": (5, 3, 7, 3, 1, 5),
        "opt-primal-dual": (5, 3, 7, 3, 1, 5),
        "uc-cfh": (3, 0, 6, 1, -2, 4),
        "conrl": (6, 4, 8, 4, 2, 6),
        "optpess-primal-dual": (7, 4, 10, 5, 2, 8),
        "opdop": (7, 5, 9, 5, 3, 7),
        "triple-q": (21, Fraction(37, 2), Fraction(47, 2), 16, Fraction(27, 2), Fraction(37, 2)),
    }
    sums, share = "ε of sums", "ε normalised"
    fits = {
        "opt-dual": [("S'/H", sums), ("S", share)],
        "opt-primal-dual": [("S'/H", sums), ("S", share)],
        "uc-cfh": [("S", sums)],
        "conrl": [("S", sums), ("SH", share)],
        "optpess-primal-dual": [("S'/H", sums)],
        "opdop": [],
        "triple-q": [("S'/H", sums), ("SH", share)],
    }
    assert {row.algorithm for row in TABLE_ONE if readings(row)} == set(by_hand)
    assert {row.algorithm for row in TABLE_ONE} - set(ALGORITHMS) == {""}  # the lower bound is no algorithm
    for name, powers in by_hand.items():
        row = row_named(name)
        assert [order.effective for order in readings(row).values()] == list(powers)
        assert fitting(row) == fits[name]
        # The derivation of the row is one of its readings, and agrees exactly if that one fits.
        assert derived(row) in readings(row).values() and (verdict(row) == "yes") == bool(fits[name])


def test_a_regret_becomes_samples_of_a_problem() -> None:
    """S^2 A H^4 / eps^2 episodes of H steps on media, S = 10, A = 2, H = 10, eps = 0.1 of a sum of at most 10 steps."""
    found = ib.plan(ib.zoo.media(), epsilon=0.1, algorithm="opt-dual")
    assert found.samples == pytest.approx(100 * 2 * 10**5 / 1.0**2)
    assert found.steps[-1][1] == Order.of(S=2, A=1, H=5, accuracy=2) and "S' = SH" not in dict(found.steps)
    assert found.failure == pytest.approx(0.1) and found.mean == pytest.approx(0.1 * 0.9 + 0.1)
    queue = ib.zoo.queue()
    for same in (queue, queue.simulator(), (6, 96, 2, 0.5)):
        found = ib.plan(same, epsilon=0.1, algorithm="opdop")
        assert found.samples == pytest.approx(36 * 16 * 2**5 / 0.2**2) and "no convention gives it" in str(found)
    assert "no episodes" in ib.plan(queue, epsilon=0.1, algorithm="npg-pd").conventions
    for problem, algorithm, message in (
        (ib.zoo.media(), "npg-pd", "NPG-PD .* knows no episodes: give a discounted problem"),
        (queue, "magic", "no row of Table 1 is called 'magic'; there are: opt-dual"),
        (ib.zoo.admission(), "opt-dual", "plan is for discounted problems"),
    ):
        with pytest.raises(ib.InvalidInput, match=message):
            ib.plan(problem, epsilon=0.1, algorithm=algorithm)
    with pytest.raises(ib.InvalidInput, match="slater= is for the plan of CSPDA"):
        ib.plan(queue, epsilon=0.1, slater=0.2, algorithm="opdop")


def test_iterations_with_values_given_are_not_called_samples() -> None:
    """PDSC: T >= 1 / eps^2 with exact values; one from samples walks about n / (1 - gamma) of them."""
    for problem in (ib.zoo.queue(), ib.zoo.suite()["wide"]):
        found = ib.plan(problem, epsilon=0.1, algorithm="pdsc")
        assert found.samples is None and found.iterations == pytest.approx(100.0)
        said = str(found)
        assert "of the order of 1.0e+02 iterations, with values given" in said and "probability" not in said
        assert "the samples that estimate Q are not counted" in said and found.row.note in said
    facts = json.loads(CliRunner().invoke(main, ["plan", "queue", "--algorithm", "pdsc", "--json"]).output)
    assert facts["samples"] is None and facts["iterations"] == pytest.approx(100.0) and len(facts["remarks"]) == 2
    counted = {row.algorithm: ib.plan(ib.zoo.queue(), epsilon=0.1, algorithm=row.algorithm) for row in TABLE_ONE[:-1]}
    assert [name for name, plan in counted.items() if plan.samples is None] == ["pdsc"]
    for name, plan in counted.items():  # step 3 is for bounds that hold with a probability
        without = name in ("npg-pd", "pdsc", "randomized-primal-dual", "cspda")
        assert ("but for a probability" in str(plan)) is not without


def test_the_command_converts_a_regret() -> None:
    said = CliRunner().invoke(main, ["plan", "media", "--algorithm", "opt-dual"])
    assert said.exit_code == 0 and "of the order of 2.0e+07 samples" in said.output
    facts = json.loads(CliRunner().invoke(main, ["plan", "queue", "--algorithm", "opdop", "--json"]).output)
    assert facts["conventions"] == "no convention gives it" and facts["samples"] == pytest.approx(460_800)
    for arguments in (("media", "--algorithm", "npg-pd"), ("queue", "--algorithm", "opdop", "--slater", "0.2")):
        wrong = CliRunner().invoke(main, ["plan", *arguments])
        assert wrong.exit_code == 2 and one_message(wrong.stderr)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("cspda", "CSPDA"),
        ("randomized-primal-dual", "Randomized Primal-Dual"),
        ("npg-pd", "NPG-PD"),
        ("crpo", "CRPO"),
        ("triple-qa", "Triple-Q"),
        ("ucbvi-gamma", "UCBVI-γ"),
    ],
)
def test_what_the_list_of_algorithms_says_is_derived(name: str, row: str) -> None:
    assert ALGORITHMS[name].algorithm.sample_complexity.split(",")[0] == str(derived(row_of(row)))


def test_the_command_prints_the_table_and_one_row() -> None:
    listed = CliRunner().invoke(main, ["algorithms", "--table1"])
    assert listed.exit_code == 0 and max(len(line) for line in listed.output.splitlines()) <= 100
    (opdop,) = (line for line in listed.output.splitlines() if line.startswith("opdop  ") and "1-γ" in line)
    assert opdop.split("  ")[0] == "opdop" and "S^2 A / ((1-γ)^5 ε^2)  " in opdop and opdop.endswith(" no")
    said = " ".join(listed.output.split())
    for remark in (
        "no convention gives the printed 4",
        "zero violation at 1/ε^2",
        "for ergodic problems only",
        "φ stays",
    ):
        assert remark in said
    one = CliRunner().invoke(main, ["algorithms", "uc-cfh", "--table1"]).output
    assert "S^3 A H^3 / ε^2" in one and "[2]" in one
    facts = json.loads(CliRunner().invoke(main, ["algorithms", "--table1", "--json"]).output)
    assert len(facts) == 14 and facts["opdop"]["agrees"] == "no" and facts["cspda"]["steps"]["samples"]
    wrong = CliRunner().invoke(main, ["algorithms", "magic", "--table1"])
    assert wrong.exit_code == 2 and "no row of Table 1 is called 'magic'" in wrong.output
