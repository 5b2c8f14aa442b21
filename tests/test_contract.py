"""What every algorithm owes: the same tests for each entry of `inbounds.algorithms.ALGORITHMS`.

An algorithm joins by adding its settings to `CASES`; the first test fails until it has.
"""

from __future__ import annotations

import ast
import copy
import re
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner
from numba.core.dispatcher import Dispatcher

import inbounds as ib
from inbounds.algorithms import ALGORITHMS
from inbounds.algorithms.algorithm import Algorithm, Answer, Averages, Known, Prepared, Report, record_of
from inbounds.algorithms.known import in_scaled_units, known_model
from inbounds.cli import main
from inbounds.numerics.compiled import interpreted
from inbounds.problem.draws import draw_next
from naive_cspda import ragged

EVEN = ib.Utility(
    value=lambda occupancy: -float(occupancy @ occupancy),
    gradient=lambda occupancy: -2.0 * occupancy,
    lipschitz=2.0,
    name="even",
)
"""A concave function of the occupancies of any problem."""

CASES: dict[str, dict[str, Any]] = {
    "crpo": {
        "paper": ib.CRPO(),
        "practical": ib.CRPO.practical(),
        "bare": ib.CRPO.practical(repair=False),
        "tolerant": ib.CRPO(step=1.0, tolerance=0.1, inner=7, average="second half"),
    },
    "cspda": {
        "paper": ib.CSPDA(slater=0.2),
        "practical": ib.CSPDA.practical(),
        "asked": ib.CSPDA.practical(slater=0.2, kappa=0.01),
        "bare": ib.CSPDA.practical(repair=False),
    },
    "ucbvi-gamma": {
        "paper": ib.UCBVIGamma(),
        "practical": ib.UCBVIGamma.practical(),
        "between": ib.UCBVIGamma(log_term=0.2, backups=3, restart=True),
    },
    "npg-pd": {
        "paper": ib.NPGPD(slater=0.2),
        "practical": ib.NPGPD.practical(),
        "bare": ib.NPGPD.practical(repair=False),
        "more walks": ib.NPGPD(slater=0.2, kappa=0.01, rollouts=2, start_rollouts=3, baseline=True),
    },
    "pdsc": {
        "paper": ib.PDSC(slater=0.2),
        "practical": ib.PDSC.practical(),
        "bare": ib.PDSC.practical(repair=False),
    },
    "triple-qa": {
        "paper": ib.TripleQA(),
        "practical": ib.TripleQA.practical(),
        "bare": ib.TripleQA.practical(repair=False),
        "small bonus": ib.TripleQA(kappa=0.02, bonus=0.01, frame=50, exploration=0.3),
    },
    "concave-cspda": {
        "reward": ib.ConcaveCSPDA.practical(),
        "utility": ib.ConcaveCSPDA.practical(slater=0.2, utility=EVEN),
        "bare": ib.ConcaveCSPDA.practical(slater=0.2, utility=EVEN, repair=False),
        "functions": ib.ConcaveCSPDA(slater=0.2, utility=EVEN, constraints=(EVEN.at_least(-0.3),), refresh=7),
    },
    "randomized-primal-dual": {
        "paper": ib.RandomizedPrimalDual(),
        "practical": ib.RandomizedPrimalDual.practical(),
        "no shift": ib.RandomizedPrimalDual(shift=0.0, beta=1e-3, average="second half"),
    },
    "model-based": {
        "paper": ib.ModelBased(slater=0.2, iterations=10),
        "practical": ib.ModelBased.practical(),
        "bare": ib.ModelBased.practical(repair=False),
        "relaxed": ib.ModelBased(feasibility="relaxed", epsilon=0.2, iterations=10, perturbation=True, net=True),
        "sketch": ib.ModelBased(plan="lp", memory="sketch"),
    },
    "opg-pd": {
        "paper": ib.OPGPD(slater=0.2, iterations=50),
        "practical": ib.OPGPD.practical(slater=0.2, iterations=50),
    },
    "opt-cmdp": {
        "paper": ib.OptCMDP(),
        "practical": ib.OptCMDP.practical(),
        "every episode": ib.OptCMDP.practical(growth=1.0, average="all"),
    },
    "opt-cmdp-bonus": {"paper": ib.OptCMDPBonus(), "practical": ib.OptCMDPBonus.practical()},
    "uc-cfh": {"paper": ib.UCCFH(), "practical": ib.UCCFH.practical()},
    "conrl": {"paper": ib.CONRL(), "practical": ib.CONRL.practical()},
    "optpess-lp": {"paper": ib.OptPessLP(), "practical": ib.OptPessLP.practical(slack=0.01)},
    "dope": {"paper": ib.DOPE(), "practical": ib.DOPE.practical(warm_up=3)},
    "opt-dual": {"paper": ib.OptDual(slater=0.2), "practical": ib.OptDual.practical()},
    "opt-primal-dual": {"paper": ib.OptPrimalDual(slater=0.2), "practical": ib.OptPrimalDual.practical()},
    "optpess-primal-dual": {
        "paper": ib.OptPessPrimalDual(slater=0.2),
        "practical": ib.OptPessPrimalDual.practical(),
        "slack": ib.OptPessPrimalDual.practical(slater=0.2),
    },
    "opdop": {"paper": ib.OPDOP(slater=0.2), "practical": ib.OPDOP.practical()},
    "triple-q": {"paper": ib.TripleQ(), "practical": ib.TripleQ.practical()},
    "truly-no-regret": {"paper": ib.TrulyNoRegret(slater=0.2), "practical": ib.TrulyNoRegret.practical()},
    "optimistic-gmbl": {"paper": ib.OptimisticGMBL(), "practical": ib.OptimisticGMBL.practical()},
    "rpg-pd": {
        "paper": ib.RPGPD(slater=0.2, iterations=50),
        "practical": ib.RPGPD.practical(slater=0.2, iterations=50),
        "floored": ib.RPGPD.practical(slater=0.2, kappa=0.01, iterations=50, floor=0.5),
    },
}
EVERY = pytest.mark.parametrize(
    "settings",
    [pytest.param(case, id=f"{name}-{what}") for name, cases in CASES.items() for what, case in cases.items()],
)

ONE_STATE = ib.CMDP(
    offsets=[0, 3],
    transition=np.ones((3, 1)),
    reward=[1.0, 0.5, 0.0],
    constraints=[ib.Constraint([1.0, 0.2, 0.0], at_most=0.4, name="work")],
    initial=[1.0],
    discount=0.9,
)
ONE_PAIR = ib.CMDP(
    offsets=[0, 1],
    transition=[[1.0]],
    reward=[1.0],
    constraints=[ib.Constraint([1.0], at_least=0.5, name="only")],
    initial=[1.0],
    discount=0.9,
)
PROBLEMS: dict[str, ib.CMDP] = {
    "queue": ib.zoo.queue(),
    "ragged": ragged(2),
    "one constraint": ragged(1),
    "no constraint": ragged(0),
    "one state": ONE_STATE,
    "one pair": ONE_PAIR,
    "no future": ragged(2, discount=0.0),
}


def in_episodes(cmdp: ib.CMDP, horizon: int, **changes: Any) -> ib.CMDP:
    """The problem over a horizon; bounds are on sums."""
    return replace(cmdp, discount=None, horizon=horizon, **changes)


def with_stages(horizon: int = 4) -> ib.CMDP:
    """Other transitions and other signals at every stage."""
    cmdp = ragged(2)
    rows, rng = cmdp.transition.toarray(), np.random.default_rng(3)
    stages = tuple(np.roll(rows, h, axis=1) for h in range(horizon))
    constraints = [replace(c, signal=rng.uniform(-1.0, 1.0, (horizon, cmdp.n_pairs))) for c in cmdp.constraints]
    reward = rng.random((horizon, cmdp.n_pairs))
    return in_episodes(cmdp, horizon, transition=stages, reward=reward, constraints=constraints)


EPISODES: dict[str, ib.CMDP] = {
    "two constraints": in_episodes(ragged(2), 4),  # of its five states one has one action, and one is never a start
    "one state, one step": in_episodes(ONE_STATE, 1),
    "one pair in episodes": in_episodes(ONE_PAIR, 3),
    "free": in_episodes(ragged(0), 4),
    "five constraints": in_episodes(ragged(5), 3),
    "unreachable": ib.CMDP(
        offsets=[0, 2, 3, 5],
        transition=[[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]],
        reward=[0.0, 1.0, 0.5, 3.0, 2.0],
        constraints=[ib.Constraint([0.0, 1.0, 0.0, 0.0, 0.0], at_most=1.0, name="moves")],
        initial=[1, 0, 0],
        horizon=5,
    ),
    "stages": with_stages(),
}
"""Problems of a few steps, for learners that play episodes."""
EPISODE_PROBLEMS = pytest.mark.parametrize("problem", EPISODES)
EPISODIC = pytest.mark.parametrize(
    "settings",
    [
        pytest.param(case, id=f"{name}-{what}")
        for name, cases in CASES.items()
        for what, case in cases.items()
        if case.algorithm.criterion == "finite-horizon"
    ],
)
EACH = {name: pytest.param(name, marks=() if name == "ragged" else pytest.mark.slow) for name in PROBLEMS}
SOME_PROBLEMS = pytest.mark.parametrize("problem", [EACH["queue"], EACH["ragged"]])
ALL_PROBLEMS = pytest.mark.parametrize("problem", EACH.values())


def problem_for(settings: Any, problem: str) -> tuple[ib.CMDP, Any]:
    """The problem; without its constraints for an algorithm that knows none. And the settings, with a safe policy."""
    cmdp = (PROBLEMS | EPISODES)[problem]
    if hasattr(settings, "safe"):
        if cmdp.n_constraints == 0:
            pytest.skip("such algorithms refuse problems without bounds")
        settings = replace(settings, safe=ib.Policy.uniform(cmdp))
    return cmdp if settings.algorithm.constrained else cmdp.unconstrained(), settings


def leaves(state: Any) -> list[np.ndarray]:
    """Every array of a state, in the order in which it has them, those of its parts and policies included.

    What is nan, and so equals nothing, is turned into a number.
    """
    if isinstance(state, ib.Policy):
        return [state.probabilities]
    if isinstance(state, np.ndarray | float | int):
        return [np.nan_to_num(state, nan=-1e300)]
    return [array for part in state for array in leaves(part)] if isinstance(state, tuple | list) else []


def user_simulator(cmdp: ib.CMDP, record: list[tuple[Any, Any]] | None = None) -> ib.Simulator:
    """The same problem behind a user's step function that draws as the tables do: one uniform, inverted."""
    pairs = cmdp.pairs
    rows, stage = np.cumsum(cmdp.transitions[0].toarray(), axis=1), (0,) * (cmdp.layers > 1)  # stages must be alike
    starts = np.cumsum(cmdp.initial)
    pair_of = {(int(s), int(a)): k for k, (s, a) in enumerate(zip(pairs.states, pairs.actions, strict=True))}

    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float, list[float]]:
        if record is not None:
            record.append((state, action))
        k = pair_of[state, action]
        after = int(np.searchsorted(rows[k], rng.random(), side="right"))
        return after, cmdp.reward[(*stage, k)], [constraint.signal[(*stage, k)] for constraint in cmdp.constraints]

    def actions(state: int) -> list[int]:
        return pairs.actions[pairs.offsets[state] : pairs.offsets[state + 1]].tolist()

    return ib.Simulator(
        step,
        start=lambda rng: int(np.searchsorted(starts, rng.random(), side="right")),
        states=cmdp.n_states,
        actions=actions,
        **cmdp.criterion,
        reward_range=(cmdp.reward.min(), cmdp.reward.max()),
        constraints=[ib.Constraint(at_least=c.at_least, at_most=c.at_most, name=c.name) for c in cmdp.constraints],
        signal_ranges=[(c.signal.min(), c.signal.max()) for c in cmdp.constraints],
    )


AVERAGED = {
    "crpo": {"occupancy"},
    "cspda": {"occupancy", "prices", "values"},
    "npg-pd": {"occupancy", "prices"},
    "pdsc": {"occupancy", "prices"},
    "triple-qa": {"occupancy", "prices"},
    "concave-cspda": {"occupancy", "prices", "values"},
    "randomized-primal-dual": {"occupancy", "prices", "values"},
    "model-based": {"occupancy", "prices"},  # of iterations; a linear program averages nothing
}
"""What each algorithm may hand out in ``run.averages``; those that are not here nothing."""


def kept(averages: Averages) -> dict[str, np.ndarray]:
    return {each.name: array for each in fields(averages) if (array := getattr(averages, each.name)) is not None}


def same_averages(one: Averages, other: Averages) -> bool:
    return kept(one).keys() == kept(other).keys() and all(
        np.array_equal(array, kept(other)[name]) for name, array in kept(one).items()
    )


def same(one: Any, other: Any) -> bool:
    return (
        same_averages(one.averages, other.averages)
        and np.array_equal(one.policy.probabilities, other.policy.probabilities)
        and np.array_equal(one.prices, other.prices, equal_nan=True)
        and one.samples[-1] == other.samples[-1]
    )


def test_every_algorithm_is_here() -> None:
    assert set(CASES) == set(ALGORITHMS)
    for name, cases in CASES.items():
        assert all(type(case) is ALGORITHMS[name] for case in cases.values())


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(case, id=f"{name}-{what}")
        for name, cases in CASES.items()
        for what, case in cases.items()
        if hasattr(case, "slater")
    ],
)
@pytest.mark.parametrize("slater", [1e-100, 1e-55, 1e-12])
def test_slater_constants_next_to_nothing_are_taken_or_refused_by_name(settings: Any, slater: float) -> None:
    episodic = settings.algorithm.criterion == "finite-horizon"
    cmdp, settings = problem_for(settings, "two constraints" if episodic else "ragged")
    try:
        settings = replace(settings, slater=slater)
        run = ib.learn(cmdp.simulator(), settings, samples=800, seed=0)
    except ib.InvalidInput as error:
        assert "slater" in str(error)
        return
    assert np.all(np.isfinite(run.policy.probabilities)) and isinstance(run.guarantee, str)


@EVERY
@ALL_PROBLEMS
def test_returns_a_policy_of_the_problem_and_prices_if_it_has_any(settings: Any, problem: str) -> None:
    cmdp, settings = problem_for(settings, problem)
    run = ib.learn(cmdp.simulator(), settings, samples=1500, seed=0, checkpoints=[200, 1000])
    assert run.samples.tolist() == [200, 1000, 1500] or run.samples[0] > 200  # more was spent on the preparation
    assert len(run.policies) == len(run.samples) >= 1 and np.all(np.diff(run.samples) > 0)
    for policy in run.policies:
        sums = cmdp.pairs.sum_by_state(policy.probabilities)
        np.testing.assert_allclose(sums, 1.0, rtol=0.0, atol=1e-12)
        assert np.all(policy.probabilities >= 0.0)
    assert run.prices.shape == (cmdp.n_constraints,)
    if np.isnan(run.prices).any():  # there are none: ever, or of an estimated model in which no policy is in bounds
        assert np.isnan(run.prices).all() and isinstance(settings, ib.CRPO | ib.ModelBased | ib.OptimisticGMBL)
    else:
        assert np.all(np.isfinite(run.prices)) and np.all(run.prices >= 0.0)
    assert ib.evaluate(cmdp, run.policy).margins.shape == (cmdp.n_constraints,)
    assert run.settings and run.guarantee


@EVERY
@ALL_PROBLEMS
def test_averages_are_handed_out_at_every_checkpoint(settings: Any, problem: str) -> None:
    """Occupancies that sum to one, prices that are those of the run, a value for every state; read-only, all three."""
    (cmdp, settings), name = problem_for(settings, problem), settings.algorithm.name.lower().replace(" ", "-")
    run = ib.learn(cmdp.simulator(), settings, samples=1500, seed=0, checkpoints=[200, 1000])
    assert len(run.averages_at) == len(run.policies) and run.averages is run.averages_at[-1]
    planned = isinstance(settings, ib.ModelBased) and settings.plan == "lp"
    assert set(kept(run.averages)) == (set() if planned else AVERAGED.get(name, set())) or (
        isinstance(settings, ib.CRPO) and not kept(run.averages)  # no iterate was in bounds
    )
    shapes = {"occupancy": cmdp.n_pairs, "prices": cmdp.n_constraints, "values": cmdp.n_states}
    for averages in run.averages_at:
        for what, array in kept(averages).items():
            assert array.shape == (shapes[what],) and np.all(np.isfinite(array)) and not array.flags.writeable
        if averages.occupancy is not None:
            assert averages.occupancy.sum() == pytest.approx(1.0, abs=1e-12) and np.all(averages.occupancy >= 0.0)
    if run.averages.prices is not None:
        np.testing.assert_array_equal(run.averages.prices, run.prices)


@EVERY
@SOME_PROBLEMS
def test_in_the_users_units_it_runs_and_says_what_its_guarantee_is_worth(settings: Any, problem: str) -> None:
    cmdp, settings = problem_for(settings, problem)
    given = cmdp.asking(reward=100.0 * cmdp.reward - 30.0)
    run = ib.learn(given.simulator(scale=False), settings, samples=1500, seed=0)
    sums = cmdp.pairs.sum_by_state(run.policy.probabilities)
    np.testing.assert_allclose(sums, 1.0, rtol=0.0, atol=1e-12)
    assert np.all(run.policy.probabilities >= 0.0)
    assert run.guarantee.startswith("none: ") and "rewards in [" in run.guarantee
    assert "units" not in ib.learn(given.simulator(), settings, samples=1500, seed=0).guarantee


@EVERY
@SOME_PROBLEMS
def test_same_seed_same_bits_and_other_seeds_differ(settings: Any, problem: str) -> None:
    """Other seeds end in other states; the policy may be the same, such as the best of the deterministic ones."""
    cmdp, settings = problem_for(settings, problem)
    simulator = cmdp.simulator()
    runs = [ib.learn(simulator, settings, samples=2000, seed=0) for _ in range(2)]
    assert same(*runs)
    record, ends = record_of(settings), []
    for seed in (0, 0, 1, 2**40):
        rng = np.random.default_rng(seed)
        state, constants, drawn, _, _ = record.prepare(settings, simulator, 2000, rng)
        record.advance(state, constants, simulator.open(), rng, drawn, 2000)
        ends.append(b"".join(array.tobytes() for array in leaves(state)))
    assert ends[0] == ends[1] and len(set(ends)) == 3


@EVERY
@ALL_PROBLEMS
def test_checkpoints_do_not_change_a_run(settings: Any, problem: str) -> None:
    cmdp, settings = problem_for(settings, problem)
    simulator = cmdp.simulator()
    whole = ib.learn(simulator, settings, samples=2000, seed=4)
    pieces = ib.learn(simulator, settings, samples=2000, seed=4, checkpoints=[1, 2, 500, 999, 1000, 1001, 1999])
    every_gap = np.cumsum(np.arange(1, 63))  # 1, 3, 6, ... 1953: pieces of every length up to 62
    many = ib.learn(simulator, settings, samples=2000, seed=4, checkpoints=every_gap)
    assert same(whole, pieces) and same(whole, many)


@EVERY
def test_advancing_in_odd_pieces_leaves_the_same_state(settings: Any) -> None:
    cmdp, settings = problem_for(settings, "ragged")
    simulator = cmdp.simulator()
    record, states = record_of(settings), []
    for stops in ([2000], [300, 301, 1000, 1003, 2000], [*range(263, 2000, 37), 2000]):
        rng = np.random.default_rng(9)
        state, constants, drawn, _, _ = record.prepare(settings, simulator, 2000, rng)
        for until in stops:
            drawn = record.advance(state, constants, simulator.open(), rng, drawn, until)
            assert drawn == until
        assert record.advance(state, constants, simulator.open(), rng, drawn, drawn) == drawn  # nothing to do
        states.append((*leaves(state), rng.bit_generator.state["state"]["state"]))
    for other in states[1:]:
        assert all(np.array_equal(mine, theirs) for mine, theirs in zip(states[0], other, strict=True))


@EVERY
@ALL_PROBLEMS
def test_equals_its_interpreted_twin(settings: Any, problem: str) -> None:
    cmdp, settings = problem_for(settings, problem)
    simulator = cmdp.simulator()
    record, ends = record_of(settings), []
    for advance in (record.advance, interpreted(record.advance)):
        rng = np.random.default_rng(5)
        samples = 800 if record.criterion == "discounted" else 150  # they plan, which is slow by Python
        state, constants, drawn, _, _ = record.prepare(settings, simulator, samples, rng)
        advance(state, constants, simulator.open(), rng, drawn, samples)
        ends.append((*leaves(state), rng.bit_generator.state["state"]["state"]))
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(*ends, strict=True))


@EVERY
@ALL_PROBLEMS
def test_a_user_s_simulator_gives_the_run_of_the_table(settings: Any, problem: str) -> None:
    """It sees only the simulator: with the same draws behind a step function, and no model, the same bits come out.

    And `samples` equals the draws counted.
    """
    cmdp, settings = problem_for(settings, problem)
    drawn: list[tuple[Any, Any]] = []
    samples = 600 if settings.algorithm.criterion == "discounted" else 150
    asked = user_simulator(cmdp, drawn)
    own = replace(settings, safe=ib.Policy.uniform(asked)) if hasattr(settings, "safe") else settings  # its labels
    theirs = ib.learn(asked, own, samples=samples, seed=6)
    assert len(drawn) == theirs.samples[-1]
    assert same(ib.learn(cmdp.simulator(), settings, samples=samples, seed=6), theirs)


@EVERY
def test_inputs_are_untouched(settings: Any) -> None:
    cmdp, settings = problem_for(settings, "ragged")
    simulator = cmdp.simulator()
    world = simulator.open()
    before, before_settings = [array.copy() for array in world], copy.deepcopy(settings)
    ib.learn(simulator, settings, samples=2000, checkpoints=5)
    for now, was in zip(world, before, strict=True):
        assert not now.flags.writeable
        np.testing.assert_array_equal(now, was)
    if hasattr(settings, "safe"):  # policies are equal to themselves only
        np.testing.assert_array_equal(settings.safe.probabilities, before_settings.safe.probabilities)
        before_settings = replace(before_settings, safe=settings.safe)
    assert settings == before_settings


@pytest.mark.parametrize("name", ALGORITHMS)
def test_one_compilation_serves_every_problem(name: str) -> None:
    record = ALGORITHMS[name].algorithm
    for settings in CASES[name].values():
        for problem in PROBLEMS:
            if hasattr(settings, "safe") and problem == "no constraint":
                continue
            cmdp, suited = problem_for(settings, problem)
            ib.learn(cmdp.simulator(), suited, samples=600, seed=np.int64(1), checkpoints=np.array([100]))
            if record.known is not None:
                ib.iterate(cmdp, suited, iterations=np.int64(3))
    for kernel in (record.advance, getattr(record.known, "advance", None)):
        if isinstance(kernel, Dispatcher):
            assert len(kernel.nopython_signatures) == 1


@EVERY
def test_a_model_in_place_of_a_simulator_is_refused(settings: Any) -> None:
    with pytest.raises(ib.InvalidInput, match=r"learners see a simulator only: give cmdp.simulator\(\)"):
        ib.learn(PROBLEMS["queue"], settings, samples=1000)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_records_are_complete(name: str) -> None:
    record = ALGORITHMS[name].algorithm
    for fact in ("name", "paper", "setting", "needs", "output", "sample_complexity", "violation"):
        assert getattr(record, fact), fact
    assert name == record.name.lower().replace(" ", "-")


UNCONSTRAINED = [name for name, settings in ALGORITHMS.items() if not settings.algorithm.constrained]


def test_which_know_no_constraints() -> None:
    assert {"randomized-primal-dual", "ucbvi-gamma"} <= set(UNCONSTRAINED)


@pytest.mark.parametrize("name", UNCONSTRAINED)
def test_constraints_are_refused_by_those_that_know_none(name: str) -> None:
    settings = next(iter(CASES[name].values()))
    with pytest.raises(ib.InvalidInput, match=r"knows no constraints, and this problem has 2; drop them"):
        ib.learn(PROBLEMS["queue"].simulator(), settings, samples=1000)


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in UNCONSTRAINED])
def test_constraints_are_heeded_by_all_others(name: str) -> None:
    """A price for each constraint; and with other bounds the same samples lead to another state."""
    (_, settings), ends = problem_for(ALGORITHMS[name].practical(), "queue"), []
    record = record_of(settings)
    for cmdp in (PROBLEMS["queue"], PROBLEMS["queue"].tightened(0.1)):
        simulator, rng = cmdp.simulator(), np.random.default_rng(0)
        assert ib.learn(simulator, settings, samples=1000).prices.shape == (2,)
        state, constants, drawn, *_ = record.prepare(settings, simulator, 1000, rng)
        record.advance(state, constants, simulator.open(), rng, drawn, 1000)
        ends.append(b"".join(array.tobytes() for array in leaves(state)))
    assert ends[0] != ends[1]


@pytest.mark.parametrize("criterion", [{"horizon": 12}, {"average": True}], ids=["horizon", "average"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_problems_of_another_criterion_are_refused(name: str, criterion: dict[str, Any]) -> None:
    (queue, settings), record = problem_for(next(iter(CASES[name].values())), "queue"), ALGORITHMS[name].algorithm
    cmdp = replace(queue, discount=None, **criterion)
    if record.criterion == "finite-horizon":
        if "average" in criterion:
            with pytest.raises(ib.InvalidInput, match=f"{record.name} is for finite-horizon problems, and this one is"):
                ib.learn(cmdp.simulator(), settings, samples=1000)
        return
    assert record.criterion == "discounted"
    with pytest.raises(ib.InvalidInput, match=f"{record.name} is for discounted problems, and this one is .*Simulator"):
        ib.learn(cmdp.simulator(), settings, samples=1000)
    if record.known is not None:
        with pytest.raises(ib.InvalidInput, match=f"{record.name} is for discounted problems, and this one is .*CMDP"):
            ib.iterate(cmdp, settings, iterations=10)


@EVERY
@ALL_PROBLEMS
def test_on_a_known_model_pieces_and_the_interpreted_twin_give_the_same(settings: Any, problem: str) -> None:
    known, (cmdp, settings) = settings.algorithm.known, problem_for(settings, problem)
    if known is None:
        with pytest.raises(ib.InvalidInput, match="learns from samples"):
            ib.iterate(cmdp, settings, iterations=10)
        return
    whole = ib.iterate(cmdp, settings, iterations=60)
    pieces = ib.iterate(cmdp, settings, iterations=60, checkpoints=[1, 2, 30, 59])
    assert same(whole, pieces) and pieces.iterations.tolist() == [1, 2, 30, 59, 60] and not np.any(pieces.samples)
    scaled = in_scaled_units(cmdp)[1]
    ends = []
    for advance in (known.advance, interpreted(known.advance)):
        state, constants, *_ = known.prepare(settings, scaled, 20)
        advance(state, constants, known_model(scaled), 0, 20)
        ends.append(state)
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(*ends, strict=True))
    assert ib.evaluate(cmdp, whole.policy).margins.shape == whole.prices.shape == (cmdp.n_constraints,)


# ---- learners that play episodes


@EPISODIC
@EPISODE_PROBLEMS
def test_episodes_are_learned_from_and_cut_anywhere(settings: Any, problem: str) -> None:
    cmdp, settings = problem_for(settings, problem)
    simulator, horizon, online = cmdp.simulator(), cmdp.layers, settings.algorithm.access == "online"
    whole = ib.learn(simulator, settings, samples=203, seed=3)
    cut = ib.learn(simulator, settings, samples=203, seed=3, checkpoints=range(1, 204))
    assert same(whole, cut) and whole.policy.probabilities.shape == cmdp.shape
    ib.evaluate(cmdp, whole.policy)
    if online:
        assert whole.episodes.shape == (203 // horizon, 1 + cmdp.n_constraints)
        assert not whole.episodes.flags.writeable and np.array_equal(whole.episodes, cut.episodes)
        low, high = horizon * cmdp.reward.min(), horizon * cmdp.reward.max()
        assert np.all((whole.episodes[:, 0] >= low - 1e-9) & (whole.episodes[:, 0] <= high + 1e-9))
    else:
        assert whole.episodes is None
    least = horizon if online else cmdp.n_pairs * (horizon if problem == "stages" else 1)
    assert ib.learn(simulator, settings, samples=least, seed=0).policy.probabilities.shape == cmdp.shape
    if least > 1:
        with pytest.raises(ib.InvalidInput, match=f"give at least {least}"):
            ib.learn(simulator, settings, samples=least - 1)


class Guarded:
    """A world that may be asked only for pairs of the state that the walk is in, at the stage that it is at."""

    def __init__(self, world: Any) -> None:
        self.world, self.state, self.asked, self.steps = world, -1, 0, 0
        self.offsets, self.states, self.stages = world.offsets, world.states, world.stages
        self.reward, self.margins = world.reward, world.margins

    def draw_start(self, rng: Any) -> int:
        assert self.steps == 0, "the episode before is not over"
        self.state = self.world.draw_start(rng)
        return self.state

    def draw_next(self, pair: int, rng: Any) -> int:
        n = len(self.states)
        assert self.states[pair % n] == self.state, "asked for a pair of another state"
        assert pair // n == (self.steps if self.stages[1] else 0), "asked for another stage"
        self.asked, self.steps = self.asked + 1, (self.steps + 1) % self.stages[0]
        self.state = self.world.draw_next(pair, rng)
        return self.state


@EPISODIC
@EPISODE_PROBLEMS
def test_an_online_learner_asks_only_from_where_it_is(settings: Any, problem: str) -> None:
    """The interpreted twin on a world that raises otherwise ends as the kernel on the table; its draws are counted."""
    cmdp, settings = problem_for(settings, problem)
    record, simulator, ends = settings.algorithm, cmdp.simulator(), []
    if record.access == "generative":
        return
    guarded = Guarded(simulator.open())
    for advance, world in ((record.advance, simulator.open()), (interpreted(record.advance), guarded)):
        rng = np.random.default_rng(5)
        state, constants, drawn, _, _ = record.prepare(settings, simulator, 102, rng)
        advance(state, constants, world, rng, drawn, 102)
        ends.append((*leaves(state), rng.bit_generator.state["state"]["state"]))
    assert guarded.asked == 102
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(*ends, strict=True))


@pytest.mark.parametrize("problem", ["two constraints", "stages"])
def test_the_guard_stops_one_that_asks_for_any_pair(problem: str) -> None:
    settings, simulator = ib.OptimisticGMBL.practical(), EPISODES[problem].simulator()
    state, constants, *_ = settings.algorithm.prepare(settings, simulator, 102, np.random.default_rng(5))
    with pytest.raises(AssertionError, match=r"asked for a pair of another state|the episode before is not over"):
        interpreted(settings.algorithm.advance)(
            state, constants, Guarded(simulator.open()), np.random.default_rng(5), 0, 102
        )


@EPISODIC
def test_episodes_of_a_step_function_are_those_of_the_table(settings: Any) -> None:
    cmdp, settings = problem_for(settings, "two constraints")
    drawn: list[tuple[Any, Any]] = []
    theirs = ib.learn(user_simulator(cmdp, drawn), settings, samples=90, seed=6)
    assert len(drawn) == 90 and same(ib.learn(cmdp.simulator(), settings, samples=90, seed=6), theirs)


@EPISODIC
def test_a_discounted_problem_is_truncated_to_one_stationary_policy(settings: Any) -> None:
    queue, suited = problem_for(settings, "queue")
    run = ib.learn(queue.simulator(), replace(suited, epsilon=0.1), samples=500, seed=1)
    assert run.policy.probabilities.shape == (queue.n_pairs,)
    assert run.settings["truncated"] == "after 4 steps, to one stationary policy" and run.settings["epsilon"] == 0.1
    assert "a truncated problem" in run.guarantee
    if settings.algorithm.access == "online":
        assert run.episodes.shape == (125, 3)
    cmdp, suited = problem_for(settings, "two constraints")
    with pytest.raises(ib.InvalidInput, match="has a horizon already"):
        ib.learn(cmdp.simulator(), replace(suited, epsilon=0.1), samples=500)


def test_what_iterate_refuses() -> None:
    with pytest.raises(ib.InvalidInput, match="algorithm must be settings such as"):
        ib.iterate(PROBLEMS["queue"], ib.CSPDA)
    with pytest.raises(ib.InvalidInput, match=r"CSPDA learns from samples: ib.learn\(cmdp.simulator\(\), ...\)"):
        ib.iterate(PROBLEMS["queue"], ib.CSPDA())


# ---- what a new algorithm needs: one file, and one line of the table


@cache
def names_in_code(path: Path) -> set[Any]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom | ast.Import):
            listed = [alias.name for alias in node.names]
            names.update(".".join([getattr(node, "module", None) or "", *listed]).split("."))
        elif isinstance(node, ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute):
            names.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.Constant):
            names.add(node.value)
    return names


def sources_that_name(settings: type) -> set[str]:
    """The files of the library whose code names an algorithm: its settings, its module, or its entry in the table.

    Prose does not count, nor does the list of public names.
    """
    root, module = Path(ib.__file__).parent, settings.__module__.rsplit(".", 1)[1]
    own = {settings.__name__, module, settings.algorithm.name.lower().replace(" ", "-")}
    found = {path.relative_to(root).as_posix() for path in root.rglob("*.py") if names_in_code(path) & own}
    return found - {"__init__.py", "algorithms/table_one.py"}  # a table of the paper, whoever is in it


MORE = {
    "cspda": {
        "algorithms/concave_cspda.py",  # extends it
        "algorithms/paper_plan.py",  # the settings of its theorem
        "algorithms/saddle_point.py",  # the game whose saddle point it seeks
        "cli/learn.py",  # its default
        "studies/reproduction.py",  # its paper's experiment
        "studies/theorems.py",  # its paper's theorems
    },
    "opt-cmdp": {"cli/learn.py"},  # the default of problems with a horizon
}
"""What the library has of its own accord about the algorithm that it grew out of."""


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_setting_is_documented_once_also_where_it_is_inherited(name: str) -> None:
    headings = re.findall(r"^([a-z_, ]+) : ", ALGORITHMS[name].__doc__ or "", flags=re.MULTILINE)
    documented = [setting for heading in headings for setting in heading.split(", ")]
    assert sorted(documented) == sorted(field.name for field in fields(ALGORITHMS[name]))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_is_named_in_its_file_and_in_the_table_only(name: str) -> None:
    settings = ALGORITHMS[name]
    own = settings.__module__.removeprefix("inbounds.").replace(".", "/") + ".py"
    assert sources_that_name(settings) == {own, "algorithms/__init__.py"} | MORE.get(name, set())


class Counted(NamedTuple):
    draws: np.ndarray  # [n]


@dataclass(frozen=True)
class InTurn:
    """The least algorithm: it tries the pairs in turn, counts, and takes each as often as it was tried."""

    algorithm: ClassVar[Algorithm]

    @classmethod
    def practical(cls) -> InTurn:
        return cls()


def count_in_turn(state: Counted, constants: Any, world: Any, rng: Any, drawn: int, until: int) -> int:
    for sample in range(drawn, until):
        draw_next(world, sample % len(state.draws), rng)
        state.draws[sample % len(state.draws)] += 1.0
    return until


InTurn.algorithm = Algorithm(
    name="In turn",
    paper="none",
    prepare=lambda settings, simulator, samples, rng: Prepared(
        Counted(np.zeros(simulator.pairs.n_pairs)), None, 0, {}, "none"
    ),
    advance=count_in_turn,
    extract=lambda state, constants, simulator: Answer(
        ib.Policy.from_occupancy(simulator, state.draws),
        np.zeros(simulator.n_constraints),
    ),
)


def test_a_line_in_the_table_is_all_that_a_new_algorithm_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop, a user's simulator, the comparison, certified learning and the command line: none knows its name."""
    monkeypatch.setitem(ALGORITHMS, "in-turn", InTurn)
    queue = PROBLEMS["queue"]
    run = ib.learn(queue.simulator(), InTurn(), samples=960, checkpoints=[96])
    assert run.samples.tolist() == [96, 960] and same(ib.learn(user_simulator(queue), InTurn(), samples=960), run)
    np.testing.assert_allclose(run.policy.probabilities, ib.Policy.uniform(queue).probabilities, rtol=1e-15)
    found = ib.compare(queue, ["in-turn"], samples=1000, seeds=2, workers=1)
    assert found.entry("in-turn").rewards.shape[0] == 2
    certified = ib.learn_certified(queue.simulator(), learner=InTurn(), samples=2000)
    assert certified.samples <= 2000 and certified.attempts
    listed = CliRunner().invoke(main, ["algorithms"])
    assert listed.exit_code == 0 and "in-turn" in listed.output


UNIFORM = ib.Policy.uniform(PROBLEMS["queue"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"advance": lambda *given: given[-2]}, "advance of In turn must return 1, the samples that it was to come to"),
        ({"advance": lambda *given: given[-1] + 7}, "advance of In turn must return 1, the samples that it was to"),
        ({"advance": lambda *given: None}, "advance of In turn must return 1, the samples that it was to come to"),
        ({"prepare": lambda *given: None}, "prepare of In turn must return Prepared, with at most 960 samples"),
        (
            {"prepare": lambda *given: Prepared(Counted(np.zeros(96)), None, 5_000, {}, "none")},
            "prepare of In turn must return Prepared, with at most 960 samples",
        ),
        (
            {"prepare": lambda *given: Prepared(Counted(np.zeros(96)), None, 0, None, "none")},
            "prepare of In turn must return a Prepared whose settings are a dict, found None",
        ),
        (
            {"prepare": lambda *given: Prepared(Counted(np.zeros(96)), None, 0, {}, None)},
            "prepare of In turn must return a Prepared whose guarantee is a text, found None",
        ),
        (
            {"report": lambda *given: Report(None, "none")},
            "report of In turn must return a Report whose settings are a dict, found None",
        ),
        ({"extract": lambda *given: None}, "extract of In turn must return an Answer with a Policy, found None"),
        ({"extract": lambda *given: Answer(None, np.zeros(2))}, "extract of In turn must return an Answer with a Po"),
        (
            {"extract": lambda *given: Answer(UNIFORM, np.zeros(5))},
            "extract of In turn: the prices must have 2 entries",
        ),
        ({"extract": lambda *given: Answer(UNIFORM, None)}, "extract of In turn: the prices must"),
        (
            {"extract": lambda *given: Answer(UNIFORM, [0, 0], None)},
            "extract of In turn must return Averages, found No",
        ),
        ({"report": lambda *given: None}, "report of In turn must return a Report, found None"),
        (
            {"extract": lambda *given: Answer(ib.Policy.uniform(ib.zoo.jump_grid()), np.zeros(2))},
            "extract of In turn must return a policy of this problem",
        ),
    ],
)
def test_an_algorithm_of_one_s_own_that_does_not_keep_to_the_contract_is_told(changes, message) -> None:
    """(Some were waited for without end, and others lost all samples when the run was over.)"""

    @dataclass(frozen=True)
    class Wrong:
        algorithm: ClassVar[Algorithm] = InTurn.algorithm._replace(**changes)

    with pytest.raises(ib.InvalidInput) as refused:
        ib.learn(PROBLEMS["queue"].simulator(), Wrong(), samples=960)
    assert message in str(refused.value) and hasattr(refused.value, "partial")
    if {"report", "extract"} & set(changes):
        assert refused.value.partial.samples[-1] == 960


@pytest.mark.parametrize(
    ("begun", "message"),
    [
        (None, "prepare of In turn must return Prepared, with at most 0 samples, found None"),
        (Prepared(Counted(np.zeros(96)), None, 0, None, ""), "a Prepared whose settings are a dict, found None"),
    ],
)
def test_so_is_one_on_a_known_model(begun: Any, message: str) -> None:
    @dataclass(frozen=True)
    class Wrong:
        algorithm: ClassVar[Algorithm] = InTurn.algorithm._replace(known=Known(lambda *given: begun, None, None))

    with pytest.raises(ib.InvalidInput, match=message):
        ib.iterate(PROBLEMS["queue"], Wrong(), iterations=10)


def test_a_kappa_in_words_is_none() -> None:
    @dataclass(frozen=True)
    class Wordy:
        algorithm: ClassVar[Algorithm] = InTurn.algorithm._replace(
            prepare=lambda *given: Prepared(Counted(np.zeros(96)), None, 0, {"kappa": "auto"}, "none")
        )

    run = ib.learn_certified(PROBLEMS["queue"].simulator(), learner=Wordy(), samples=2_000)
    assert run.attempts
