"""The episodic learners that move prices: each against its twin written from the formulas, and what it is for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms.episodic.frame import frame_of
from inbounds.algorithms.episodic.learner import step_prices
from inbounds.algorithms.loop import run_on_samples
from inbounds.studies.regret import judge_for, judged_values, watching
from naive_cspda import ragged
from naive_episodic import Known, greedy, softmax, staged, triple_q

SIX = (ib.OptDual, ib.OptPrimalDual, ib.OptPessPrimalDual, ib.OPDOP, ib.TripleQ, ib.TrulyNoRegret)
MEDIA, FACTORED = ib.zoo.media(), ib.zoo.factored()
NO_TIES = FACTORED.asking(reward=FACTORED.reward + 0.01 * np.random.default_rng(0).random(FACTORED.n_pairs))
"""Without it rounding decides between pairs that are worth the same. Here moves are pooled, and signals are not."""
PROBLEMS = {"media": MEDIA, "discounted": ragged(2, discount=0.5), "staged": staged(), "factored": NO_TIES}

EACH = [pytest.param(name, marks=() if name == "staged" else pytest.mark.slow) for name in PROBLEMS]


def known_of(settings: Any, cmdp: ib.CMDP, samples: int) -> Known:
    frame = frame_of(settings, cmdp.simulator(), samples)
    alike = frame.row_step == 0, frame.signal_step == 0
    return Known(frame.offsets, frame.weights, frame.low, frame.high, alike, frame.K)


def slack_of(cmdp: ib.CMDP, slater: float) -> np.ndarray:
    """Of every margin, in a learner's units, by hand: the library's unit is the whole episode, a learner's one step."""
    whole = cmdp.margin_scales if cmdp.criterion.get("horizon") else cmdp.margin_scales * 1.998046875  # 2 - 2^-9
    largest = np.abs(cmdp.margins).reshape(cmdp.n_constraints, -1).max(axis=1)
    return slater * whole / largest


TWINS = {
    "opt-dual": (ib.OptDual.practical(), lambda known, cmdp: greedy(known)),
    "optpess": (ib.OptPessPrimalDual.practical(), lambda known, cmdp: greedy(known, wary=True)),
    "optpess, slack": (
        ib.OptPessPrimalDual.practical(slater=0.1),
        lambda known, cmdp: greedy(known, slack_of(cmdp, 0.1), wary=True),
    ),
    "opt-primal-dual": (ib.OptPrimalDual.practical(), lambda known, cmdp: softmax(known, 0.1, 100.0)),
    "opdop": (ib.OPDOP.practical(), lambda known, cmdp: softmax(known, 0.1, 200.0, late=True)),
    "truly no-regret": (ib.TrulyNoRegret.practical(), lambda known, cmdp: softmax(known, 0.1, 100.0, tau=0.1)),
    "triple-q": (ib.TripleQ.practical(), lambda known, cmdp: triple_q(known)),
    "triple-q, paper": (ib.TripleQ(), lambda known, cmdp: triple_q(known, published=True)),
}


@pytest.mark.parametrize("problem", EACH)
@pytest.mark.parametrize("name", TWINS)
def test_equals_its_twin_episode_by_episode(name: str, problem: str) -> None:
    """The policies where the learner was, or everywhere, and the prices, of forty episodes."""
    (settings, twin_of), cmdp = TWINS[name], PROBLEMS[problem]
    simulator, rng, episodes = cmdp.simulator(), np.random.default_rng(7), 40
    horizon = cmdp.horizon or 10
    samples = episodes * horizon
    state, constants, drawn, _, _ = settings.algorithm.prepare(settings, simulator, samples, rng)
    twin, world, states = twin_of(known_of(settings, cmdp, samples), cmdp), simulator.open(), cmdp.pairs.states
    next(twin)
    highest = 0.0
    for k in range(episodes):
        drawn = settings.algorithm.advance(state, constants, world, rng, drawn, k * horizon + 1)
        policy, prices = twin.send(int(states[state.play.path[0, 0]]))
        drawn = settings.algorithm.advance(state, constants, world, rng, drawn, (k + 1) * horizon)
        path = state.play.path
        here = [(h, slice(*cmdp.offsets[states[pair] : states[pair] + 2])) for h, pair in enumerate(path[:, 0])]
        everywhere = [(h, slice(None)) for h in range(horizon)]
        for h, pairs in here if "triple" in name else everywhere:
            np.testing.assert_allclose(state.play.policy[h, pairs], policy[h, pairs], rtol=1e-7, atol=1e-12)
        if "triple" not in name:
            np.testing.assert_allclose(state.prices, prices, rtol=1e-9, atol=1e-12)
        _, prices = twin.send((path[:, 0].copy(), path[:, 1].copy(), state.play.seen.copy()))
        if "triple" in name:
            np.testing.assert_allclose(state.prices, prices, rtol=1e-9, atol=1e-12)
        highest = max(highest, state.prices.max())
    slack = problem == "discounted" or (problem == "staged" and "optpess" in name)  # as long as much is hoped for
    assert state.play.episode[0] == episodes and (highest > 0.0 or slack)


def test_the_published_formulas() -> None:
    """Of media: S = 10, 20 pairs, A = 2, H = 10, one constraint of slack .5 * 10 in steps of 1."""
    samples, K, H = 10_000, 1000, 10.0
    simulator = MEDIA.simulator()

    def rule(settings: Any) -> Any:
        return settings.algorithm.prepare(settings, simulator, samples, np.random.default_rng(0)).constants

    slack = float(frame_of(ib.OptDual(), simulator, samples).slack(0.5)[0])
    assert slack == pytest.approx(5.0)
    rho = H / slack
    dual = rule(ib.OptDual(slater=0.5))
    assert dual.stepping.price_step == pytest.approx(rho / (H * math.sqrt(K)))
    assert dual.stepping.extended and dual.stepping.greedy and not dual.stepping.adaptive
    assert dual.radii.root == pytest.approx(2 * math.sqrt(math.log(6 * 20 * H * K / 0.05)))
    both = rule(ib.OptPrimalDual(slater=0.5)).stepping
    assert both.price_step == dual.stepping.price_step and both.policy_power == 0.0
    assert both.policy_step == pytest.approx(math.sqrt(2 * math.log(2) / (H**2 * (1 + rho) ** 2 * K)))
    pess = rule(ib.OptPessPrimalDual(slater=0.5))
    assert pess.stepping.price_step == pytest.approx(1 / (slack * H))
    assert pess.spare[0] == pytest.approx(5 * H**2 * math.sqrt(10**3 * 2))
    assert pess.stepping.log_scale == pytest.approx(16 * 10**2 * 2 * H / 0.05)
    assert pess.radii.of_visits == pytest.approx((1 + 100) * math.sqrt(math.log(16 * 200 * H * K / 0.05)))
    opdop = rule(ib.OPDOP(slater=0.5))
    assert opdop.stepping.price_step == pytest.approx(K**-0.5) and opdop.stepping.price_bound == pytest.approx(
        2 * H / slack
    )
    assert opdop.stepping.policy_step == pytest.approx(math.sqrt(math.log(2)) / (H**2 * math.sqrt(K)))
    assert opdop.stepping.uniform == pytest.approx(1 / K) and opdop.stepping.late and opdop.radii.ridge == 1.0
    assert opdop.radii.of_visits == pytest.approx(2 * H * math.sqrt(10 * math.log(20 * H * K / 0.05)))
    truly = rule(ib.TrulyNoRegret(slater=0.5)).stepping
    assert truly.price_step == truly.policy_step == pytest.approx(K ** (-5 / 7) / H**2)
    assert truly.tau == pytest.approx(K ** (-1 / 7)) and truly.tau_power == 0.0
    assert truly.price_bound == pytest.approx(H / slack)


@pytest.mark.parametrize("settings", [each() for each in SIX])
def test_a_guarantee_has_figures(settings: Any) -> None:
    run = ib.learn(MEDIA.simulator(), settings, samples=1000, seed=0)
    assert run.guarantee.startswith("none: the paper's theorem does not cover 100 episodes: ") and "e+" in run.guarantee
    practical = ib.learn(MEDIA.simulator(), type(settings).practical(), samples=1000, seed=0)
    assert "nor" in practical.guarantee and run.settings["episodes"] == 100


def test_a_guarantee_rests_on_what_it_was_told() -> None:
    """Enough episodes, and one start: then a Slater constant has to be given, and one constraint be all."""

    def stated(settings: Any, cmdp: ib.CMDP, samples: int = 10**6) -> str:
        return settings.algorithm.prepare(settings, cmdp.simulator(), samples, np.random.default_rng(0)).guarantee

    one = ib.CMDP(
        offsets=[0, 2, 3],
        transition=[[0.5, 0.5], [0.2, 0.8], [0.6, 0.4]],
        reward=[0.0, 1.0, 0.5],
        constraints=[ib.Constraint([1.0, -1.0, 0.5], at_least=0, name="c")],
        initial=[1.0, 0.0],
        horizon=3,
    )
    two = one.asking(constraints=[*one.constraints, ib.Constraint(one.reward, at_least=0, name="d")])
    for kind in (ib.OptDual, ib.OptPrimalDual, ib.OptPessPrimalDual, ib.OPDOP):
        alone = kind in (ib.OptPessPrimalDual, ib.OPDOP)
        assert stated(kind(slater=0.5), one).endswith("with probability 0.95, if the Slater constant is right")
        assert stated(kind(), one) == ("none: the paper's theorem does not cover a Slater constant that is not given")
        assert ("several constraints" in stated(kind(slater=0.5), two)) == alone
        assert stated(kind(), one.unconstrained()).endswith("with probability 0.95")
    for kind in (ib.OptPessPrimalDual, ib.TripleQ):
        few = stated(kind(), one.unconstrained(), 3_000)
        assert "its theorem takes" in few and "violation" not in few and "slack" not in few
    for kind in (ib.OptCMDP, ib.OptCMDPBonus, ib.CONRL):
        assert "regret and violation, with" in stated(kind(), one)
        assert "regret, with" in stated(kind(), one.unconstrained())
    safe = ib.Policy(one.pairs, np.tile([0.9, 0.1, 1.0], (3, 1)))
    assert stated(ib.DOPE(safe=safe), one).endswith("does not cover a slack of the safe policy that is not given")
    assert stated(ib.DOPE(safe=safe, slack=0.2), one).endswith(", if the slack of the safe policy is right")


def test_the_pessimism_of_the_paper_is_above_the_slack_for_long() -> None:
    """eps_k at k = 10^8 is 13 on media, whose slack is 10: as computed apart."""
    settings = ib.OptPessPrimalDual(slater=1.0)
    constants = settings.algorithm.prepare(settings, MEDIA.simulator(), 10**5, np.random.default_rng(0)).constants
    log = math.log(1e8 * constants.stepping.log_scale)
    assert constants.spare[0] * (log + 1) / math.sqrt(1e8 * log) == pytest.approx(13, abs=0.5)


def test_the_prices_of_the_paper_are_its_queues_over_eta() -> None:
    """lambda <- max(0, lambda - g + eps_k), and the price that is next planned with: lambda / (slack H sqrt(k + 1))."""
    settings, rng = ib.OptPessPrimalDual(slater=0.5), np.random.default_rng(0)
    state, constants, *_ = settings.algorithm.prepare(settings, MEDIA.simulator(), 10**5, rng)
    constants = constants._replace(spare=np.array([1e-3]))  # so that queues empty, too
    queue, found = 0.0, []
    for k in range(1, 200):
        margin = float(rng.normal())
        state.margins[1], state.play.episode[0] = margin, k - 1
        step_prices(state, constants, 0.0, float(k))
        log = math.log(k * constants.stepping.log_scale)
        queue = max(queue - margin + 1e-3 * (log + 1) / math.sqrt(k * log), 0.0)
        found.append(queue)
        assert state.prices[0] == state.ahead[0] == pytest.approx(queue / (5.0 * 10.0 * math.sqrt(k + 1)), rel=1e-9)
    assert min(found) == 0.0 < max(found)


def test_queues_may_have_the_step_of_adagrad_for_their_price() -> None:
    """lambda <- max(0, lambda - g + slack / sqrt(k)), the price c lambda / sqrt(G), as others have it."""
    settings, rng = ib.OptPessPrimalDual.practical(price_step=0.7), np.random.default_rng(1)
    state, constants, *_ = settings.algorithm.prepare(settings, MEDIA.simulator(), 10**5, rng)
    steps = constants.stepping._replace(queued=True, relative=False)
    constants = constants._replace(stepping=steps, spare=np.array([0.5]))
    queue, squares, found = 0.0, 0.01, []
    for k in range(1, 200):
        margin = float(rng.normal(0.1))
        state.margins[1] = margin
        step_prices(state, constants, 0.0, float(k))
        queue, squares = max(queue - margin + 0.5 / math.sqrt(k), 0.0), squares + margin**2
        found.append(queue)
        assert state.prices[0] == state.ahead[0] == pytest.approx(0.7 * queue / math.sqrt(squares), rel=1e-9)
    assert min(found) == 0.0 < max(found)


def test_an_episode_is_planned_with_the_queue_over_its_own_eta() -> None:
    """pi_k is the best policy for the prices lambda_k / (slack H sqrt(k)): what the sweep before episode k is given."""
    settings, horizon, episodes = ib.OptPessPrimalDual(slater=0.5), 10, 30
    own, begun = settings.algorithm.advance, []

    def watched(state: Any, constants: Any, world: Any, rng: Any, drawn: int, until: int) -> int:
        while drawn < until:
            planned = float(state.ahead[0])
            drawn = own(state, constants, world, rng, drawn, drawn + 1)
            if drawn % horizon == 1:  # an episode began, with a plan
                begun.append((planned, float(state.margins[1]), constants))
        return drawn

    run_on_samples(MEDIA.simulator(), settings, episodes * horizon, 0, advance=watched)
    assert len(begun) == episodes
    queue = 0.0
    for k, (planned, margin, constants) in enumerate(begun, start=1):
        assert planned == pytest.approx(queue / (5.0 * 10.0 * math.sqrt(k)), rel=1e-9)
        log = math.log(k * constants.stepping.log_scale)
        queue = max(queue - margin + constants.spare[0] * (log + 1.0) / math.sqrt(k * log), 0.0)
    assert queue > 0.0


def asked(settings: Any, cmdp: ib.CMDP, samples: int) -> float:
    """How many episodes, or samples, the guarantee of a run that has fewer says that its theorem takes: two digits."""
    begun = settings.algorithm.prepare(settings, cmdp.simulator(), samples, np.random.default_rng(0))
    return float(begun.guarantee.split("takes ")[1].split()[0])


@pytest.mark.parametrize("slater", [1.0, 0.3])
def test_the_theorem_of_triple_q_asks_for_the_least_number_with_its_own_logarithm(slater: float) -> None:
    """K >= (16 sqrt(n H^6 iota^3) / slack)^5, iota at that K, and the slack that of (1 + g) / 2: half of 10 slater."""

    def enough(K: float) -> bool:
        iota = 128.0 * math.log(math.sqrt(2.0 * 20 * 10) * K)
        return (16.0 * math.sqrt(20 * 10**6 * iota**3) / (5.0 * slater)) ** 5 <= K

    found = asked(ib.TripleQ(slater=slater), MEDIA, 10**5)
    assert found > 1e50 and enough(found) and not enough(0.89 * found)  # rounded up by a tenth at most
    assert asked(ib.TripleQ(slater=slater), MEDIA, 10**4) == found  # whatever the run has


def test_the_theorem_of_optpess_lp_asks_for_the_least_number_with_its_own_logarithm() -> None:
    """n >= Z (2 H (1 + S H) / slack)^2 visits, Z = log(16 S n H K / delta) of a run of n = K H samples."""

    def enough(n: float) -> bool:
        return n >= math.log(16.0 * 10 * 20 * n / 0.05) * (2.0 * 10 * 101 / 1.0) ** 2

    found = asked(ib.OptPessLP(safe=ib.Policy.uniform(MEDIA), slack=0.1), MEDIA, 10**5)
    assert enough(found) and not enough(0.89 * found)
    assert asked(ib.OptPessLP(safe=ib.Policy.uniform(MEDIA), slack=0.1), MEDIA, 10**4) == found


def test_the_theorem_of_optpess_primal_dual_covers_a_run_from_the_least_number_on() -> None:
    """eps_k <= slack, where a power of two would ask for up to twice as many episodes. S = 2, n = 3, H = 3."""
    problem = ib.CMDP(
        offsets=[0, 2, 3],
        transition=[[0.5, 0.5], [0.2, 0.8], [0.6, 0.4]],
        reward=[0.0, 1.0, 0.5],
        constraints=[ib.Constraint([1.0, -1.0, 0.5], at_least=0, name="c")],
        initial=[1.0, 0.0],
        horizon=3,
    )
    for slater in (1.0, 0.9, 0.8, 0.7):

        def fits(k: int, slater: float = slater) -> bool:
            log = math.log(k * 16.0 * 2 * 3 * 3 / 0.05)
            return 5.0 * 9 * 2 * math.sqrt(3) * (log + 1) / math.sqrt(k * log) <= 3.0 * slater

        settings, least = ib.OptPessPrimalDual(slater=slater), next(k for k in range(20_000, 10**6) if fits(k))
        found = asked(settings, problem, 3 * (least - 1))
        assert least <= found <= 1.11 * least
        begun = settings.algorithm.prepare(settings, problem.simulator(), 3 * least, np.random.default_rng(0))
        assert begun.guarantee.startswith("the paper's, of the mixture of all")


def test_the_single_policies_of_opt_dual_jump_and_the_mixture_does_not() -> None:
    """The optimum randomises, so that no deterministic policy is near it: every one is off by .05 or more."""
    best, samples, settings = ib.solve(FACTORED), 2000 * FACTORED.horizon, ib.OptDual.practical()
    judge = judge_for(FACTORED, settings, samples)
    run = run_on_samples(FACTORED.simulator(), settings, samples, 0, advance=watching(judge, settings))
    margins = judged_values(judge, FACTORED.simulator(), settings, samples)[1000:, 1]
    mixture = ib.evaluate(FACTORED, run.policy)
    assert abs(mixture.reward - best.reward) < 0.01 and abs(mixture.margins[0]) < 0.01
    assert np.mean(np.abs(margins) > 0.05) > 0.9 and margins.min() < 0.0 < margins.max()
    assert ib.OptDual.algorithm.oscillates and not ib.TrulyNoRegret.algorithm.oscillates


def test_jumps_of_policies_are_not_taken_for_chance() -> None:
    """Nothing is left to chance on the ring, so that nothing is kept from its bound."""
    cmdp = ib.zoo.three_cycle()
    best, settings = ib.solve(cmdp), ib.OptPessPrimalDual.practical()
    for seed in range(3):
        run = ib.learn(cmdp.simulator(), settings, samples=10_000 * cmdp.layers, seed=seed)
        own = ib.evaluate(cmdp, run.policy)
        assert abs(best.reward - own.reward) < 0.002 and -0.002 < own.margins[0] < 0.002


def test_the_last_policy_is_what_truly_no_regret_returns() -> None:
    settings, simulator, rng = ib.TrulyNoRegret.practical(), MEDIA.simulator(), np.random.default_rng(3)
    state, constants, drawn, _, _ = settings.algorithm.prepare(settings, simulator, 2000, rng)
    settings.algorithm.advance(state, constants, simulator.open(), rng, drawn, 2000)
    run = ib.learn(simulator, settings, samples=2000, seed=3)
    np.testing.assert_array_equal(run.policy.probabilities, state.play.policy)


@pytest.mark.parametrize("settings", SIX)
def test_bad_settings_are_refused_by_name(settings: Any) -> None:
    for wrong in ({"slater": 0.0}, {"slater": -1.0}, {"price_step": 0.0}, {"average": "some"}):
        with pytest.raises(ib.InvalidInput, match=f"{settings.__name__}: {next(iter(wrong))} must be"):
            settings(**wrong)
    with pytest.raises(ib.InvalidInput, match="at least 10"):
        ib.learn(MEDIA.simulator(), settings.practical(), samples=9)
    with pytest.raises(ib.InvalidInput, match="epsilon"):
        ib.learn(MEDIA.simulator(), settings.practical(epsilon=0.1), samples=100)
