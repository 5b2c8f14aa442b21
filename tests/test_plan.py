"""The paper's settings for a target, and what its constants cost."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms.cspda import prepare
from inbounds.algorithms.paper_plan import Bounds, Settings, Sizes, proved_bounds

QUEUE = ib.zoo.queue()
SIZES = Sizes(6, 96, 2, 0.5)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 0.99])
@pytest.mark.parametrize("which", ["statement", "proof", "corollary", "experiment"])
def test_formulas(epsilon: float, which: str) -> None:
    """Theorem 2 with eps = epsilon / 4: its proof gives 4 eps where Theorem 3 says eps. The corollary's: 2 eps."""
    settings = getattr(ib.plan(SIZES, epsilon=epsilon, slater=0.2), which)
    constant = 0.02 if which == "experiment" else 1195.5
    phi, rate, eps = 0.2, 0.5, epsilon / {"statement": 1, "proof": 4, "corollary": 2, "experiment": 4}[which]
    most = 1 / eps**2 if which == "corollary" else max(16, 4 * phi**2, 1 / eps**2)
    T = constant**2 * 2 * 96 * math.log(96) / (rate**2 * phi**2) * most
    assert settings.constant == constant
    assert settings.samples == pytest.approx(T, rel=1e-12, abs=1.0) and settings.samples >= T * (1.0 - 1e-12)
    T = settings.samples
    kappa = 0.0 if which == "corollary" else 2 * constant / rate * math.sqrt(2 * 96 * math.log(96) / T)
    assert settings.kappa == pytest.approx(kappa, rel=1e-12)
    assert settings.alpha == pytest.approx(math.sqrt(6) / (rate * phi * math.sqrt(2 * T)), rel=1e-12)
    assert settings.beta == pytest.approx(rate * phi * math.sqrt(math.log(96) / (96 * T)), rel=1e-12)
    assert settings.shift == pytest.approx(108.0, rel=1e-12)
    # The theory ties kappa to the target: kappa = 2 eps phi, never above phi / 2.
    assert settings.kappa <= phi / 2
    if which in ("statement", "proof") and 1 / eps**2 > 16:
        assert settings.kappa == pytest.approx(2 * eps * phi, rel=1e-6)


def test_the_target_costs_sixteen_times_the_statement_of_the_theorem() -> None:
    stated = 1195.5**2 * 2 * 96 * math.log(96) / (0.5**2 * 0.2**2) / 0.1**2
    assert ib.plan(SIZES, epsilon=0.1, slater=0.2).proof.samples == pytest.approx(16 * stated, rel=1e-12)
    constants = ib.plan(SIZES, epsilon=0.1, slater=0.2)
    assert constants.proof.samples / constants.experiment.samples == pytest.approx((1195.5 / 0.02) ** 2, rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 0.99])
def test_the_guarantee_covers_the_proof_s_settings_and_not_the_experiment_s(epsilon: float) -> None:
    plan = ib.plan(QUEUE, epsilon=epsilon, slater=0.2)
    for settings, covered in ((plan.proof, True), (plan.corollary, True), (plan.experiment, False)):
        kappa = 0.0 if settings is plan.corollary else None
        start = prepare(
            ib.CSPDA(slater=0.2, constant=settings.constant, kappa=kappa),
            QUEUE.simulator(),
            settings.samples,
            np.random.default_rng(0),
        )
        assert start.guarantee.startswith("none") != covered
        assert (start.constants.kappa[0], *start.constants.steps[:3]) == (
            settings.kappa,
            settings.alpha,
            settings.beta,
            settings.shift,
        )


def test_a_model_a_simulator_and_sizes_give_the_same_plan() -> None:
    by_model = ib.plan(QUEUE, epsilon=0.1)
    assert by_model.sizes == SIZES
    assert by_model.slater == pytest.approx(0.2, abs=1e-9)
    given = [ib.plan(problem, epsilon=0.1, slater=0.2) for problem in (QUEUE, QUEUE.simulator(), SIZES, tuple(SIZES))]
    assert all(plan == given[0] for plan in given)


def test_without_constraints() -> None:
    plan = ib.plan(ib.zoo.garnet(10, 3, 2, constraints=0), epsilon=0.1)
    assert plan.slater == 1.0 and plan.proof.kappa == 0.0 and plan.proof.samples > 1


def test_one_pair_needs_one_sample() -> None:
    assert ib.plan(Sizes(1, 1, 1, 0.5), epsilon=0.1, slater=1.0).proof.samples == 1


def test_the_table_shows_which_constant_each_promise_needs() -> None:
    lines = str(ib.plan(QUEUE, epsilon=0.1)).splitlines()
    assert lines[0].split() == ["reading", "constant", "c~1", "samples", "T", "kappa", "alpha", "beta", "M"]
    assert [line.split()[0] for line in lines[2:6]] == ["statement", "proof", "corollary", "experiment"]
    assert [line.split()[1] for line in lines[2:6]] == ["1195.5", "1195.5", "1195.5", "0.02"]
    assert len({len(line) for line in lines[:6]}) == 1 and len(lines[0]) <= 80
    assert lines[6:] == [
        "statement: Theorem 3 prints a reward within 0.1; its proof gives 0.4, and margins >= 0",
        "proof: Theorem 3: reward within 0.1, and margins >= 0",
        "corollary: Corollary 2: reward within 0.1, and margins >= -0.02",
        "experiment: none: no theorem covers this constant",
    ]


@pytest.mark.parametrize("epsilon", [0.05, 0.2])
def test_each_reading_keeps_its_promise_by_the_bounds_that_the_proofs_give(epsilon: float) -> None:
    plan = ib.plan(SIZES, epsilon=epsilon, slater=0.2)

    def bounds(settings: Settings) -> Bounds:
        return proved_bounds(SIZES, 0.2, settings.samples, settings.kappa)

    assert bounds(plan.statement).policy_gap == pytest.approx((3 + 0.2) * epsilon, rel=1e-6)  # at most 4 epsilon
    assert bounds(plan.proof).policy_gap == pytest.approx((3 + 0.2) / 4 * epsilon, rel=1e-6)  # at most epsilon
    assert bounds(plan.corollary).policy_gap == pytest.approx((1 + 0.2) / 2 * epsilon, rel=1e-6)
    assert bounds(plan.corollary).policy_margin == pytest.approx(-0.2 * epsilon, rel=1e-6)
    for settings in (plan.statement, plan.proof):  # T is rounded up
        assert bounds(settings).policy_margin == pytest.approx(0.0, abs=1e-9)
        assert bounds(settings).occupancy_margin == pytest.approx(settings.kappa / 2, rel=1e-9)
    assert bounds(plan.experiment).policy_margin < -1.0  # margins are at least -1 anyway


@pytest.mark.parametrize(
    ("problem", "arguments", "message"),
    [
        (QUEUE, {"epsilon": 0.0}, r"epsilon must be a number in \(0, 1\)"),
        (QUEUE, {"epsilon": 1.0}, "epsilon must be"),
        (QUEUE, {"epsilon": math.nan}, "epsilon must be"),
        (QUEUE, {"epsilon": "small"}, "epsilon must be a number in .* found 'small'"),
        (QUEUE, {"epsilon": None}, "epsilon must be a number"),
        (QUEUE, {"epsilon": 0.1, "slater": 0.0}, r"slater must be a number in \(0, 1\]"),
        (QUEUE, {"epsilon": 0.1, "slater": 1.5}, "slater must be"),
        (QUEUE, {"epsilon": 0.1, "slater": "x"}, "slater must be a number"),
        (QUEUE.simulator(), {"epsilon": 0.1}, "give slater="),
        (SIZES, {"epsilon": 0.1}, "give slater="),
        (
            Sizes(6, 5, 2, 0.5),
            {"epsilon": 0.1, "slater": 0.2},
            "n_pairs, .* at least 6, found 5",
        ),
        (
            Sizes(0, 0, 0, 0.5),
            {"epsilon": 0.1, "slater": 0.2},
            "n_states must be .* at least 1, found 0",
        ),
        (
            Sizes(6, 96, -1, 0.5),
            {"epsilon": 0.1, "slater": 0.2},
            "n_constraints must be .* at least 0, found -1",
        ),
        (Sizes(6, 96, 2, 1.0), {"epsilon": 0.1, "slater": 0.2}, "discount"),
        ((6, 96), {"epsilon": 0.1, "slater": 0.2}, "the problem of a plan must be a CMDP, a Simulator, or Sizes"),
        ("queue", {"epsilon": 0.1, "slater": 0.2}, "the problem of a plan must be a CMDP, a Simulator, or Sizes"),
    ],
)
def test_bad_arguments_are_named(problem, arguments: dict, message: str) -> None:
    with pytest.raises(ib.InvalidInput, match=message):
        ib.plan(problem, **arguments)


def test_infeasible_problems_and_those_without_slack() -> None:
    with pytest.raises(ib.Infeasible):
        ib.plan(ib.zoo.queue(full_buffer="closed"), epsilon=0.1)
    at_the_bound = ib.CMDP(
        offsets=[0, 2],
        transition=[[1.0], [1.0]],
        reward=[1.0, 0.0],
        constraints=[ib.Constraint([1.0, 0.0], at_most=0.0, name="never")],
        initial=[1.0],
        discount=0.5,
    )
    with pytest.raises(ib.InvalidInput, match="exactly at a bound"):
        ib.plan(at_the_bound, epsilon=0.1)


@pytest.mark.parametrize("how", [{}, {"algorithm": "conrl"}, {"algorithm": "crpo"}])
def test_a_plan_can_be_sent_to_another_process(how: dict) -> None:
    plan = ib.plan(QUEUE, epsilon=0.1, **how)
    assert str(pickle.loads(pickle.dumps(plan))) == str(plan)


def test_only_discounted_problems_are_planned_for():
    for problem in (ib.zoo.media(), ib.zoo.media().simulator(), ib.zoo.admission()):
        with pytest.raises(ib.InvalidInput, match="plan is for discounted problems, and this one is"):
            ib.plan(problem, epsilon=0.1)


@pytest.mark.parametrize("algorithm", ["conrl", "npg-pd", "crpo"])
def test_more_samples_than_can_be_counted_are_refused(algorithm: str) -> None:
    with pytest.raises(ib.InvalidInput, match="takes more samples than a double can count"):
        ib.plan(QUEUE, epsilon=1e-200, algorithm=algorithm)


def test_promises_are_rounded_to_the_safe_side() -> None:
    """epsilon = .12345649 and slater = .2: 4 epsilon = .49382596, epsilon slater = .024691298."""
    plan = ib.plan(SIZES, epsilon=0.12345649, slater=0.2)
    assert plan.statement.promise == (
        "Theorem 3 prints a reward within 0.123457; its proof gives 0.493826, and margins >= 0"
    )
    assert plan.corollary.promise == "Corollary 2: reward within 0.123457, and margins >= -0.0246913"
    assert "margins >= -0.0246915" in ib.plan(SIZES, epsilon=0.1234571, slater=0.2).corollary.promise  # -.02469142


def test_without_constraints_nothing_is_promised_of_margins() -> None:
    plan = ib.plan(QUEUE.unconstrained(), epsilon=0.1)
    assert [own.promise for own in plan.readings.values()] == [
        "Theorem 3 prints a reward within 0.1; its proof gives 0.4",
        "Theorem 3: reward within 0.1",
        "Corollary 2: reward within 0.1",
        "none: no theorem covers this constant",
    ]
    assert all("margins >= " in own.promise for own in list(ib.plan(QUEUE, epsilon=0.1).readings.values())[:3])
