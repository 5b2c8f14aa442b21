"""A few cases of every attack of tests/fuzz, what the attacks rest on, and the models that once failed."""

from __future__ import annotations

import faulthandler
import os
import time
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import inbounds as ib
import naive
import reference
from fuzz import (
    arguments,
    extremes,
    false_certificates,
    inputs,
    learners,
    metamorphic,
    questions,
    rational,
    rationals,
    workers,
)
from fuzz.__main__ import attacks, main
from fuzz.judge import judge
from fuzz.models import CRITERIA, random_model, shrunk
from fuzz.simplex import maximum

KEPT = sorted(workers.REGRESSIONS.glob("*.npz"))
REPLAYED = extremes, learners, metamorphic, questions, rational
JUDGES = {attack.__name__.split(".")[-1]: attack.verdict for attack in REPLAYED}


# What the attacks rest on


def test_the_exact_program_on_problems_solved_by_hand() -> None:
    for problem in reference.FEASIBLE:
        solved = problem()
        exact = rationals.rational(solved.cmdp)
        assert float(rationals.best(exact, exact.reward, exact.margins)) == pytest.approx(solved.reward, abs=1e-15)
        if solved.cmdp.n_constraints:
            ones = [Fraction(1)] * solved.cmdp.n_constraints
            assert float(rationals.slater(exact, ones)) == pytest.approx(solved.slater, abs=1e-15)
    cmdp, slater, _ = reference.conflict()
    exact = rationals.rational(cmdp)
    assert rationals.best(exact, exact.reward, exact.margins) is None
    assert float(rationals.slater(exact, [Fraction(1)] * 2)) == pytest.approx(slater, abs=1e-15)


@pytest.mark.parametrize("kind", CRITERIA)
def test_the_exact_program_equals_the_best_of_all_deterministic_policies(kind: str) -> None:
    """Without constraints one of them is best; on average, in the best of its classes."""
    for seed in range(12):
        cmdp = random_model(np.random.default_rng(seed), kind, states=3, actions=2, constraints=0)
        if kind == "average" and not rationals.weakly_communicating(cmdp):
            continue
        if kind == "horizon":  # one choice for each stage
            cmdp = replace(cmdp, horizon=1, transition=cmdp.transitions[0], reward=cmdp.reward[0])
        exact = rationals.rational(cmdp)
        all_values = [rationals.values(exact, p, [exact.reward])[0] for p in naive.deterministic_policies(cmdp)]
        assert rationals.best(exact, exact.reward) == max(max(values) for values in all_values)


def test_the_exact_simplex_method_with_redundant_and_contradictory_rows() -> None:
    one = Fraction(1)
    assert maximum([one, 2 * one], [[one, one], [2 * one, 2 * one]], [one, 2 * one]).value == 2
    assert maximum([one, 2 * one], [[one, one], [one, one]], [one, 2 * one]) is None
    assert maximum([one, one], [[one, Fraction(0)], [Fraction(0), Fraction(-1)]], [one, Fraction(-3)]).point == [1, 3]


# What they notice


def test_a_wrong_answer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    cmdp = reference.two_rooms().cmdp
    assert judge(cmdp).complaints == []
    true = ib.solve(cmdp)
    forged = {
        "wrong reward": {"reward": true.reward + 1e-6},
        "wrong margin": {"margins": true.margins + 1e-6},
        "upper bound below optimum": {"upper_bound": true.upper_bound - 1e-6},
        "wide gap": {"upper_bound": true.upper_bound + 1e-6},
        "false margins_lower": {"certificate": replace(true.certificate, margins_lower=true.margins + 1e-6)},
        "false reward_lower": {"certificate": replace(true.certificate, reward_lower=true.reward + 1e-6)},
        "false reward_upper": {"certificate": replace(true.certificate, reward_upper=true.reward - 1e-6)},
        "not proved": {"certificate": replace(true.certificate, in_bounds=False)},
    }
    for kind, changed in forged.items():
        monkeypatch.setattr(ib, "solve", lambda problem, method="auto", changed=changed: replace(true, **changed))
        assert kind in {workers.kind_of(complaint) for complaint in judge(cmdp).complaints}


def test_a_relation_that_does_not_hold_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = ib.solve

    def solves_other_units_wrongly(problem: ib.CMDP, method: str = "auto") -> ib.CMDP:
        found = solve(problem, method=method)
        if abs(problem.reward).max() > 100.0:
            certificate = replace(found.certificate, reward_upper=found.certificate.reward_lower * 0.999)
            return replace(found, certificate=certificate)
        return found

    cmdp = reference.two_rooms().cmdp
    assert metamorphic.verdict(cmdp, "auto-scaled-by-powers").complaints == []
    monkeypatch.setattr(ib, "solve", solves_other_units_wrongly)
    changed = metamorphic._scaled(cmdp, 1024.0, np.ones(1))
    monkeypatch.setitem(metamorphic.RELATIONS, "scaled-by-powers", lambda model, rng: changed)
    kinds = {workers.kind_of(c) for c in metamorphic.verdict(cmdp, "auto-scaled-by-powers").complaints}
    assert "optima apart" in kinds


def sleeps_or_dies(case: str) -> workers.Verdict:
    if case == "sleep":
        time.sleep(60.0)
    if case == "die":
        os._exit(3)
    if case == "raise":
        raise RuntimeError("oops")
    return workers.Verdict([], {"cases": 1})


@pytest.mark.slow
def test_hangs_and_deaths_are_failures_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "COMPILING", 0.5)
    cases = ["fine", "sleep", "fine", "die", "fine", "raise", "fine"]
    found = sorted(
        (case, *[workers.kind_of(c) for c in verdict.complaints])
        for case, verdict in workers.outcomes(sleeps_or_dies, cases, time.monotonic() + 60.0, limit=0.5, workers=1)
    )
    assert found == [("die", "death"), *[("fine",)] * 4, ("raise", "RuntimeError in the tests"), ("sleep", "hang")]


def test_a_failing_model_is_made_small() -> None:
    """What fails whenever some action pays more than 1 ends with one state, one action and no constraint."""
    rng = np.random.default_rng(3)
    model = random_model(rng, "discount", states=4, actions=3)
    model = replace(model, reward=model.reward + 2.3)
    small = shrunk(model, lambda smaller: bool(np.any(smaller.reward > 1.0)))
    assert (small.n_states, small.n_pairs, small.n_constraints) == (1, 1, 0) and small.reward[0] > 1.0


# A few cases of each


@pytest.mark.parametrize("index", range(12))
def test_rational(index: int) -> None:
    assert rational.verdict(*rational.draw(0, index)).complaints == []


@pytest.mark.parametrize("index", range(9))
def test_questions(index: int) -> None:
    assert questions.verdict(*questions.draw(0, index)).complaints == []


def test_arguments() -> None:
    """Some of what needs no kernel; `make fuzz` tries them all."""
    quick = ("CMDP", "Constraint", "Mixture", "Policy", "Simulator", "Utility", "plan", "truncate")
    chosen = (case for case in arguments.cases(0) if case[0].startswith(quick))
    for case in islice(chosen, 300):
        assert workers.guarded(arguments.verdict, case).complaints == []


def test_a_number_written_otherwise_may_come_to_a_limit_as_any() -> None:
    """`Stopped` is what the documentation promises there: no refusal of the number."""
    asked = {"cmdp": ib.zoo.queue(), "first": 0, "second": 1, "points": 2, "time_limit": 1e-9}
    assert arguments.rewritten(ib.surface, asked, "points", "array without axes") == ""
    assert "refused as a Fraction" in arguments.rewritten(ib.surface, asked | {"points": -1}, "points", "Fraction")


@pytest.mark.parametrize("index", range(0, len(learners.NAMES), 5))
def test_learners(index: int) -> None:
    assert workers.guarded(lambda case: learners.verdict(*learners.draw(*case)), (0, index)).complaints == []


def test_inputs() -> None:
    found = inputs.run(200, 0, 60.0)
    assert found["failures"] == [] and not found["stopped"], found
    tried = found["tried"]  # of a changed file hardly any is accepted, of those that were made up some are
    assert tried["bets rejected"] > 10 and tried["made_up rejected"] > 5 and tried["made_up accepted"] > 0


@pytest.mark.parametrize("index", range(2 * len(metamorphic.RELATIONS)))
def test_metamorphic(index: int) -> None:
    assert metamorphic.verdict(*metamorphic.draw(1, index)).complaints == []


@pytest.mark.parametrize("index", range(2 * len(extremes.FAMILIES)))
def test_extremes(index: int) -> None:
    check = workers._Check(extremes.draw, extremes.verdict)
    assert workers.guarded(check, (1, index)).complaints == []


@pytest.mark.parametrize("scenario", false_certificates.SCENARIOS)
def test_false_certificates(scenario: str) -> None:
    runs = 4 if "learn" in scenario or "user" in scenario else 40
    false = false_certificates.check((scenario, 0, runs)).tried[scenario]
    assert false <= false_certificates.allowed(runs)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_what_failed_once(path: Path) -> None:
    attack, what, _ = path.stem.split(".")
    try:
        model = ib.load(path)
    except ib.InvalidInput:
        return  # refused by name
    faulthandler.dump_traceback_later(120.0, exit=True)  # some of them hung, where nothing but the end of all helps
    try:
        assert workers.guarded(lambda case: JUDGES[attack](*case), (model, what)).complaints == []
    finally:
        faulthandler.cancel_dump_traceback_later()


def test_every_attack_is_found_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(attacks()) >= {"extremes", "false_certificates", "metamorphic", "rational"}
    with pytest.raises(SystemExit):
        main(["--only", "nothing"])
    assert "no attack is called nothing" in capsys.readouterr().err
