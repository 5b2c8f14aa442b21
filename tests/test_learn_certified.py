"""Learning that returns only what it can prove."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from scipy.stats import norm

import inbounds as ib
import reference
from inbounds.algorithms import certified as learning
from inbounds.algorithms import exploring
from inbounds.algorithms.certified import CertifiedRun
from inbounds.errors import InvalidInput
from inbounds.problem.pieces import Draws
from inbounds.proofs.evidence import Evidence
from inbounds.proofs.walks import guess_from_model
from test_samples import RARE, as_user_simulator, coin
from test_walks import small_problem

QUEUE = ib.zoo.queue()


def runs_on(cmdp: ib.CMDP, seeds: int, **arguments: Any) -> list[CertifiedRun]:
    simulator = cmdp.simulator()
    return [ib.learn_certified(simulator, seed=seed, **arguments) for seed in range(seeds)]


def test_the_queue_gives_policies_in_bounds_with_nearly_all_the_reward() -> None:
    """The full figures, over 500 runs, are in benchmarks/betting.py. The mean of 20 has a standard error of .002."""
    runs = runs_on(QUEUE, 20, samples=100_000, confidence=0.99)
    judged = [ib.evaluate(QUEUE, run.policy) for run in runs if run.policy is not None]
    assert len(judged) >= 19
    assert np.mean([one.total_reward for one in judged]) >= 4.62
    assert sum(not one.in_bounds for one in judged) <= 2  # each with probability at most .01: P(3 or more) is .001
    assert all(run.samples <= 100_000 for run in runs)


@pytest.mark.parametrize("breakdown", RARE)
def test_breakdowns_that_hardly_ever_happen_do_not_keep_the_best_policy_from_being_proved(
    breakdown: tuple[float, ...],
) -> None:
    """To hurry is best, and in bounds twice or thrice over; as is nearly all of its reward."""
    cmdp, hurry, _ = reference.breakdowns(*breakdown)
    optimum = ib.evaluate(cmdp, hurry).reward
    for run in runs_on(cmdp, 3, samples=300_000):
        assert run.policy is not None and ib.evaluate(cmdp, run.policy).reward > 0.95 * optimum


@pytest.mark.parametrize(
    ("cmdp", "samples"), [(ib.zoo.garnet(states=10, actions=3, seed=1), 10_000), (ib.zoo.jump_grid(), 10_000)]
)
def test_other_problems_at_low_confidence_are_wrong_no_more_often_than_stated(cmdp: ib.CMDP, samples: int) -> None:
    runs = runs_on(cmdp, 30, samples=samples, confidence=0.8)
    judged = [ib.evaluate(cmdp, run.policy) for run in runs if run.policy is not None]
    assert len(judged) > 20
    assert sum(not one.in_bounds for one in judged) <= 30 * 0.2 + 3 * math.sqrt(30 * 0.2 * 0.8)


def test_a_learner_that_proposes_the_unprovable_returns_nothing_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the learner does: here it always proposes a policy whose margin is exactly zero, at 80 %."""
    cmdp, policy = coin()

    def stubborn(evidence: Evidence, *_: Any, **__: Any) -> Any:
        return policy, guess_from_model(evidence.model(), policy)

    monkeypatch.setattr(learning, "family", lambda *_: None)
    monkeypatch.setattr(learning, "conservative", stubborn)
    repetitions = 120
    returned = sum(run.policy is not None for run in runs_on(cmdp, repetitions, samples=4000, confidence=0.8))
    assert returned <= repetitions * 0.2 + 3 * math.sqrt(repetitions * 0.2 * 0.8)


def test_attempts_are_a_bankroll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt stakes .85 of what those before have left, on fresh samples, and leaves what it did not lose."""
    spent: list[tuple[float, int, Any]] = []
    of_bounds: list[float] = []
    prove = learning.prove

    def watched(policy: Any, simulator: Any, guess: Any, alpha: float, samples: int, *rest: Any, **more: Any) -> Any:
        proved = prove(policy, simulator, guess, alpha, samples, *rest, **more)
        spent.append((more["level"], proved.samples, proved.bets))
        of_bounds.append(alpha)
        return proved

    monkeypatch.setattr(learning, "prove", watched)
    run = ib.learn_certified(QUEUE.tightened(0.479).simulator(), samples=5000, confidence=0.9, seed=0)
    assert run.policy is None and len(run.attempts) == len(spent) > 1
    bankroll = 1.0
    for level, _, bets in spent:
        assert level == pytest.approx(0.1 * 0.85 * bankroll)
        bankroll *= 0.15 + 0.85 * min(1.0, *bets.capital)
    assert of_bounds == pytest.approx([0.1 * 0.85 * 0.15**attempt for attempt in range(len(spent))])
    assert run.samples <= 5000 and sum(samples for _, samples, _ in spent) < 5000
    assert run.certificate is not None and run.certificate.wagers is not None
    assert [played.stakes.level for played in run.certificate.wagers.attempts] == [level for level, _, _ in spent]


def test_what_is_returned_says_what_happened() -> None:
    run = ib.learn_certified(QUEUE.simulator(), samples=20_000, seed=0)
    assert run.policy is not None and run.certificate is run.attempts[-1] and run.certificate.in_bounds
    assert run.certificate.kind == "confidence" and run.certificate.confidence == 0.99
    assert run.reason.startswith("a policy in bounds: with confidence 0.99, from ")
    assert f"{run.samples:,} samples in all" in run.reason and repr(run) == f"CertifiedRun({run.reason})"


def test_an_impossible_problem_returns_no_policy_and_the_reason() -> None:
    run = ib.learn_certified(QUEUE.tightened([1.5, 0.0]).simulator(), samples=20_000, seed=0)
    assert run.policy is None and run.certificate is None and run.attempts == ()
    assert run.reason.startswith("no policy: as far as the samples show, none keeps 'service'")
    assert 0 < run.samples < 20_000  # exploring was enough


def test_too_few_samples_return_no_policy_and_the_reason() -> None:
    run = ib.learn_certified(QUEUE.simulator(), samples=100, seed=0)
    assert run.policy is None and run.samples == 0
    assert run.reason == (
        "no policy: 100 samples are too few to try each of 96 pairs and prove anything; give at least 192"
    )
    run = ib.learn_certified(QUEUE.simulator(), samples=200, confidence=0.999999, seed=0)
    assert run.policy is None and run.certificate is not None and not run.certificate.in_bounds
    assert re.search("samples did not suffice in . attempts?; the last candidate is not proved to be in", run.reason)


@pytest.mark.parametrize("learner", ["model", ib.CSPDA.practical(slater=0.3)])
@pytest.mark.parametrize("n_constraints", [0, 2])
def test_a_users_simulator_gives_the_same_run_and_every_sample_is_counted(learner: Any, n_constraints: int) -> None:
    calls = [0]

    def count() -> None:
        calls[0] += 1

    cmdp = small_problem(n_constraints=n_constraints)
    mine = ib.learn_certified(as_user_simulator(cmdp, count), samples=2000, seed=1, learner=learner)
    table = ib.learn_certified(cmdp.simulator(), samples=2000, seed=1, learner=learner)
    assert calls[0] == mine.samples == table.samples <= 2000
    assert len(mine.attempts) == len(table.attempts)
    assert (mine.policy is None) == (table.policy is None)
    if mine.policy is not None and table.policy is not None:
        np.testing.assert_allclose(mine.policy.probabilities, table.policy.probabilities, atol=1e-9)


def test_without_constraints_the_policy_is_returned_with_a_bound_on_its_reward() -> None:
    free = small_problem(n_constraints=0)
    run = ib.learn_certified(free.simulator(), samples=10_000, seed=0)
    assert run.policy is not None and run.certificate is not None and run.certificate.in_bounds
    assert run.certificate.reward_lower <= ib.evaluate(free, run.policy).reward


@pytest.mark.parametrize("mixture", [False, True])
def test_bounds_that_nothing_could_break_are_proved_at_once(mixture: bool) -> None:
    loose = QUEUE.tightened(-100.0)
    run = ib.learn_certified(loose.simulator(), samples=2_000, seed=0, mixture=mixture)
    assert run.certificate.in_bounds and ib.evaluate(loose, run.policy).in_bounds


def test_cspda_is_proved_like_any_other_learner_and_tightened_when_it_fails() -> None:
    settings = ib.CSPDA.practical(slater=0.2)
    judged = []
    for run in runs_on(QUEUE, 5, samples=100_000, learner=settings):
        assert run.policy is not None
        judged.append(ib.evaluate(QUEUE, run.policy))
    assert all(one.in_bounds for one in judged)
    source = learning.AlgorithmSource(Evidence(QUEUE.simulator()), Draws(0), settings, QUEUE.simulator())
    source.kappa = 0.01
    source.failed(np.array([0.3, -0.02]))
    assert source.settings.kappa == pytest.approx(0.04) and source.settings.slater == 0.2


def test_proofs_are_the_same_whatever_units_the_learner_sees() -> None:
    """They are made in scaled units. Rewards from 50 to 100, where a range of [0, 1] would prove nonsense."""
    problem = QUEUE.asking(reward=50.0 + 10.0 * QUEUE.reward)
    runs = [ib.learn_certified(problem.simulator(scale), samples=50_000, seed=2) for scale in (True, False)]
    assert runs[0].reason == runs[1].reason
    assert runs[0].certificate is not None and runs[1].certificate is not None
    assert runs[0].certificate.to_dict() == runs[1].certificate.to_dict()
    assert runs[0].certificate.reward_lower > 50.0


def test_a_learner_in_the_users_units_is_proved_and_tightened_in_them() -> None:
    settings, given = ib.CSPDA(slater=0.2), QUEUE.simulator(scale=False)
    run = ib.learn_certified(given, samples=300_000, seed=0, learner=settings)
    assert run.policy is not None and ib.evaluate(QUEUE, run.policy).in_bounds
    source = learning.AlgorithmSource(Evidence(given.scaled), np.random.default_rng(0), settings, given)
    source.kappa = 0.01
    source.failed(np.array([-0.02, -0.03]))  # of 5 and of 1.68
    assert source.settings.kappa == pytest.approx(0.01 + 1.5 * 0.02 * 5.0)


def test_the_margin_asked_for_is_what_the_proof_needs() -> None:
    """With much evidence, a proof of n samples settles the candidate about as often as z = 1 predicts.

    The predicted margin is one standard deviation above what half of all proofs settle, for each of two constraints
    (84 % each, about 70 % both); 60 runs: at least 50 %, three standard errors below.
    """
    simulator = QUEUE.simulator()
    evidence = Evidence(simulator)
    evidence.add_starts(Draws(1), 100_000)
    evidence.try_pairs(Draws(0), np.full(96, 20_000))
    policy, guess = learning.conservative(evidence, 0.01, 20_000, 1.0, np.zeros(2))
    settled = sum(
        learning.prove(policy, simulator, guess, 0.01, 20_000, Draws(seed), aim=20_000).in_bounds for seed in range(60)
    )
    assert settled >= 30
    margins = ib.evaluate(QUEUE, policy).margins / QUEUE.margin_scales
    assert np.all(margins < 0.02)  # not more than needed: the queue could keep 0.2


def test_failed_proofs_teach_later_candidates() -> None:
    simulator = QUEUE.simulator()
    evidence = Evidence(simulator)
    evidence.try_pairs(Draws(0), np.full(96, 10))
    assert evidence.totals.visits.sum() == 960 and np.all(evidence.totals.visits == 10)
    learning.walk_for_evidence(ib.Policy.uniform(QUEUE), evidence, 777, Draws(0))
    assert evidence.totals.visits.sum() == 960 + 777
    evidence.add_starts(Draws(0), 1000)
    model = evidence.model()
    scaled = (QUEUE.margins / QUEUE.margin_scales[:, None], (QUEUE.reward - 0.0) / 5.0)
    np.testing.assert_allclose(model.margins, scaled[0], atol=1e-12)
    np.testing.assert_allclose(model.reward, scaled[1], atol=1e-12)


def test_the_same_seed_gives_the_same_run() -> None:
    one, two, other = (ib.learn_certified(QUEUE.simulator(), samples=20_000, seed=seed) for seed in (3, 3, 4))
    assert one.policy is not None and two.policy is not None and other.policy is not None
    assert np.array_equal(one.policy.probabilities, two.policy.probabilities) and one.samples == two.samples
    assert not np.array_equal(one.policy.probabilities, other.policy.probabilities)


def test_wrong_input_is_refused_by_name() -> None:
    simulator = QUEUE.simulator()
    for arguments, message in (
        ({"samples": 0}, "samples must be a whole number"),
        ({"samples": 100, "confidence": 1.0}, "confidence must be a probability between 0 and 1"),
        ({"samples": 100, "seed": "x"}, "seed must be a whole number"),
        ({"samples": 100, "learner": "magic"}, 'learner must be "model", or settings such as ib.CSPDA.practical()'),
    ):
        with pytest.raises(InvalidInput, match=message):
            ib.learn_certified(simulator, **arguments)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="learners see a simulator only"):
        ib.learn_certified(QUEUE, samples=100)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(3))
def test_water_fills_up_to_one_level(seed: int) -> None:
    """Against the twin that pours drop by drop, always where visits / weight is least."""
    rng = np.random.default_rng(seed)
    visits, weights = rng.integers(0, 30, size=12), rng.dirichlet(np.ones(12))
    times, twin = learning.filled_up(visits, weights, 100), np.zeros(12)
    assert times.sum() == 100 and np.all(times >= 0)
    for _ in range(100_000):
        twin[np.argmin((visits + twin) / weights)] += 0.001
    assert np.max(np.abs(times - twin)) <= 1.01


def test_exploration_goes_where_the_plan_is_unsure() -> None:
    """Two states; action 1 of the second is surely bad, and all else is deterministic but for action 0 of the first."""
    cmdp = ib.CMDP(
        offsets=[0, 2, 4],
        transition=[[0.5, 0.5], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]],
        reward=[1.0, 0.0, 0.5, 0.0],
        constraints=[ib.Constraint([0.0, 0.2, 1.0, 0.0], at_least=0.05, name="c")],
        initial=[1.0, 0.0],
        discount=0.9,
    )
    evidence = Evidence(cmdp.simulator())
    evidence.add_starts(Draws(0), 100)
    evidence.try_pairs(Draws(0), np.full(4, 500))
    model = evidence.model()
    best = ib.solve(model)
    guess = guess_from_model(model, best.policy)
    shares = learning.worth_trying(evidence, model, best.policy, best.prices, guess, 0.25)
    assert shares.sum() == pytest.approx(1.0) and np.all(shares >= 0.25 / 4)
    assert shares[0] > 0.6 and shares[3] < 0.1


@pytest.mark.parametrize("seed", range(3))
def test_half_of_the_samples_lower_what_wrong_actions_are_expected_to_lose(seed: int) -> None:
    """Against the derivatives, by differences, of the loss as the module has it; the other half is mu sd."""
    cmdp = ib.zoo.garnet(states=6, actions=3, seed=seed)
    evidence = Evidence(cmdp.simulator().scaled)
    evidence.add_starts(Draws(seed), 1000)
    evidence.try_pairs(Draws(seed), np.random.default_rng(seed).integers(20, 200, cmdp.n_pairs))
    model, visits = evidence.model(), evidence.totals.visits
    best = ib.solve(model)
    guess, weights = guess_from_model(model, best.policy), np.concatenate([[1.0], best.prices])
    pairs, taken, values = model.pairs, best.policy.probabilities, guess.state_values @ weights
    assert np.any((taken > 0.0) & (taken < 1.0))  # a coin

    def noise(values: Any) -> Any:
        return exploring.smoothed_noise(evidence, model, values[:, None], np.zeros((cmdp.n_pairs, 1)))[:, 0]

    def errors(visits: Any) -> Any:
        own = noise(values) / visits
        return np.sqrt(own + pairs.sum_by_state(taken * own)[pairs.states])

    q = guess.pair_values @ weights
    z = (pairs.best(q)[0][pairs.states] - q) / errors(visits)
    doubt = np.exp(-(z**2) / 18.0)
    doubting = ib.Policy(pairs, doubt / pairs.sum_by_state(doubt)[pairs.states])
    spent = 0.5 * (ib.occupancy(model, best.policy) + ib.occupancy(model, doubting))

    def lost(visits: Any) -> float:
        z = (pairs.best(q)[0][pairs.states] - q) / errors(visits)
        each = (1.0 - taken) * errors(visits) * (norm.pdf(z) - z * norm.cdf(-z))
        return float(pairs.sum_by_state(spent) @ pairs.sum_by_state(each))

    step = 1e-3 * np.diag(visits)
    gains = [(lost(visits - own) - lost(visits + own)) / (2.0 * own.sum()) for own in step]
    wanted = visits * np.sqrt(gains)  # least with visits in proportion to sqrt(c var), if gains are c var / visits^2
    of_margins = np.column_stack([noise(column) for column in guess.state_values[:, 1:].T])
    worth = spent * np.sqrt(noise(values) + of_margins @ best.prices**2)
    shares = learning.worth_trying(evidence, model, best.policy, best.prices, guess, 0.0)
    np.testing.assert_allclose(shares, 0.5 * wanted / wanted.sum() + 0.5 * worth / worth.sum(), rtol=1e-3, atol=1e-6)
    evenly = learning.worth_trying(evidence, model, best.policy, best.prices, guess, 0.4)
    np.testing.assert_allclose(evenly, 0.4 / cmdp.n_pairs + 0.6 * shares)


def test_optimism_is_that_of_plans_on_few_samples() -> None:
    """On a sparse model it is seen; with much evidence it is next to nothing."""
    garnet = ib.zoo.garnet(states=30, actions=5, seed=2)
    simulator = garnet.simulator()

    def found(per_pair: int) -> float:
        halves = Evidence(simulator), Evidence(simulator)
        for seed, half in enumerate(halves):
            half.add_starts(Draws(seed), 10_000)
            half.try_pairs(Draws(10 + seed), np.full(garnet.n_pairs, per_pair))
        return float(learning.optimism(*halves).max())

    assert found(2) > 0.01 > found(2000)


@pytest.mark.parametrize("name", ["learn", "fixed"])
def test_out_of_bounds_no_more_often_than_stated_at_margin_zero(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 90 %: certified learning on a problem whose only policy has a margin of exactly zero, and proofs of it.

    The share that is returned is at most .1; 120 runs: allowed .1 plus three standard errors. (The whole check, of
    2,000 runs, is in benchmarks/certified_learning.py.)
    """
    monkeypatch.setattr(learning, "_STARTS", 1000)
    monkeypatch.setattr(learning, "_MOST_STARTS", 1000)
    cmdp, policy = coin()
    simulator, runs = cmdp.simulator(), 120
    if name == "learn":
        wrong = sum(
            ib.learn_certified(simulator, samples=600, confidence=0.9, seed=s).policy is not None for s in range(runs)
        )
    else:
        wrong = sum(ib.certify(policy, simulator, samples=600, confidence=0.9, seed=s).in_bounds for s in range(runs))
    assert wrong <= 0.1 * runs + 3 * math.sqrt(0.09 * runs)


def test_a_run_prints_what_happened_and_what_is_proved() -> None:
    run = ib.learn_certified(ib.zoo.queue().simulator(), samples=20_000, seed=0)
    lines = str(run).splitlines()
    assert " ".join(str(run).split("\n\n")[0].split()) == " ".join(run.reason.split())
    assert str(run).endswith(str(run.certificate)) and max(map(len, lines)) <= 80


def bold_or_safe(start: Any = lambda rng: 0) -> ib.Simulator:
    """One state; the bold action earns 1 and costs more often than not, a mixture of both is best."""

    def step(state: Any, action: Any, rng: np.random.Generator) -> Any:
        keeps = rng.random() < (0.3 if action == "bold" else 0.9)
        return 0, float(action == "bold"), [1.0 if keeps else -1.0]

    return ib.Simulator(
        step,
        start,
        states=1,
        actions=["safe", "bold"],
        discount=0.0,
        reward_range=(0, 1),
        constraints=[ib.Constraint(at_least=0.0, name="c")],
        signal_ranges=[(-1, 1)],
    )


def test_what_is_proved_when_a_run_is_broken_off_is_its_policy() -> None:
    """(`candidate` was the safest, the certificate that of a bolder one, and there was no policy.)"""

    class Enough(Exception):
        pass

    def until(limit: int) -> Any:
        def progress(samples: int) -> None:
            if samples >= limit:
                raise Enough

        return progress

    arguments: dict[str, Any] = {"samples": 20_000, "seed": 0}
    unbroken, proved = ib.learn_certified(bold_or_safe(), **arguments), 0
    for limit in range(4_000, 19_000, 2_500):
        with pytest.raises(Enough) as caught:
            ib.learn_certified(bold_or_safe(), progress=until(limit), **arguments)
        partial = caught.value.partial
        if partial.certificate is None:
            continue
        claimed = partial.certificate.wagers.probabilities
        assert np.array_equal(partial.candidate.probabilities, claimed)
        assert (partial.policy is not None) == partial.certificate.in_bounds
        if partial.policy is not None:
            proved += 1
            assert np.array_equal(partial.policy.probabilities, claimed)
            assert partial.certificate.reward_lower <= partial.policy.probabilities[1]  # its reward: true here
            assert "before bolder ones: interrupted after" in partial.reason
        run = ib.learn_certified(bold_or_safe(), resume=partial, **arguments)
        assert np.array_equal(run.policy.probabilities, unbroken.policy.probabilities)
        assert run.reason == unbroken.reason
    assert proved >= 2


def test_too_few_samples_for_the_learner_inside_end_the_run_in_words() -> None:
    """(Its InvalidInput came out in mid-run, and the number it named was too small, too.)"""
    simulator = ib.zoo.garnet(states=20, actions=5, seed=1).simulator()  # 100 pairs
    learner = ib.ModelBased()
    refused = ib.learn_certified(simulator, samples=100, seed=0, learner=learner)
    assert refused.policy is None and refused.samples == 0
    assert "65 samples are too few to try each of 100 pairs, and so many of 100 are for learning" in refused.reason
    assert refused.reason.endswith("; give at least 154 samples")
    enough = ib.learn_certified(simulator, samples=154, seed=0, learner=learner)
    later = ib.learn_certified(simulator, samples=400, seed=0, learner=learner)
    for run in (enough, later):
        assert len(run.attempts) == 1 and "samples did not suffice in 1 attempt" in run.reason


def test_the_number_of_samples_named_is_enough_for_a_learner_that_tests_itself() -> None:
    """(CSPDA's first candidate has no margin to spare, and the next ones had the margin that a longer proof needs.)"""
    work = reference.work_and_rest().cmdp
    learner, kept = ib.CSPDA.practical(), []
    for seed in range(6):
        run = ib.learn_certified(work.simulator(), samples=1_000, seed=seed, learner=learner)
        if run.policy is None:
            number = int(re.search(r"about ([\d,]+) samples in all", run.reason)[1].replace(",", ""))
            again = ib.learn_certified(work.simulator(), samples=number, seed=100 + seed, learner=learner)
            kept.append(again.policy is not None)
    assert len(kept) >= 4 and sum(kept) >= len(kept) - 1


def no_settings() -> list[Any]:
    """Learners whose kappa cannot be raised: a constant, a property, no dataclass, or settings that refuse more."""

    def prepare(*given: Any) -> Any:
        return ib.CRPO.algorithm.prepare(ib.CRPO(), *given[1:])

    record = ib.CRPO.algorithm._replace(prepare=prepare)

    class Constant:
        kappa, algorithm, repair = 0.1, record, True

    @dataclass(frozen=True)
    class Shared(Constant):
        kappa: ClassVar[float] = 0.1

    @dataclass(frozen=True)
    class Derived(Constant):
        kappa: float = field(default=0.1, init=False)

    class Named(NamedTuple):
        kappa: float = 0.1
        algorithm: Any = record

    @dataclass(frozen=True)
    class Limited(Constant):
        kappa: float = 0.0

        def __post_init__(self) -> None:
            if self.kappa > 0.0:
                raise ArithmeticError("too much")

    return [Constant(), Shared(), Derived(), Named(), Limited()]


@pytest.mark.parametrize("settings", no_settings(), ids=lambda settings: type(settings).__name__)
def test_a_kappa_that_cannot_be_raised_stays_as_it_is(settings: Any) -> None:
    """(Each ended in a TypeError, or the error of the settings, after the first failed proof.)"""
    run = ib.learn_certified(QUEUE.simulator(), samples=1_000, learner=settings)
    assert run.policy is None and len(run.attempts) > 1 and "this learner finds" in run.reason
