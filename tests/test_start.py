"""A solve that begins from the answer to a similar problem: the same answer as without, and as certain."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import inbounds as ib
import strategies
from inbounds.criteria import criterion_of
from inbounds.exact.start import Start

CRITERIA = {"discounted": {"discount": 0.97}, "horizon": {"horizon": 4}, "average": {"average": True}}
CHANGES = ("bound", "reward", "signal", "transition")


def made(seed, criterion, states=40, constraints=2):
    """A garnet under a criterion, with bounds that bind."""
    plain = ib.zoo.garnet(states, actions=4, successors=4, constraints=constraints, discount=0.97, seed=seed)
    stages = criterion.get("horizon", 1)
    return ib.CMDP(
        offsets=plain.offsets,
        transition=plain.transition,
        reward=plain.reward,
        constraints=[ib.Constraint(c.signal, at_least=stages * c.bound, name=c.name) for c in plain.constraints],
        initial=plain.initial,
        **criterion,
    )


def changed(cmdp, what, seed, by=0.02):
    """The problem with a bound, the reward, a signal or all transition probabilities changed by a share."""
    rng, first = np.random.default_rng(seed), cmdp.constraints[0]

    def off(values):
        return values * (1.0 + by * rng.uniform(-1.0, 1.0, values.shape))

    if what == "bound":
        return cmdp.with_bound(0, at_least=first.bound * (1.0 - by))
    if what == "reward":
        return dataclasses.replace(cmdp, reward=off(cmdp.reward))
    if what == "signal":
        moved = ib.Constraint(off(first.signal), at_least=first.bound, name=first.name)
        return dataclasses.replace(cmdp, constraints=[moved, *cmdp.constraints[1:]])
    (moves, *_) = cmdp.transitions
    data = off(moves.data)
    sums = np.add.reduceat(data, moves.indptr[:-1])
    data = data / np.repeat(sums, np.diff(moves.indptr))
    return dataclasses.replace(cmdp, transition=sp.csr_array((data, moves.indices, moves.indptr), shape=moves.shape))


def assert_agree(cmdp, warm, cold, tolerance=1e-8):
    """Both bounds of either answer hold, and both are as close as was asked for."""
    allowed = tolerance * max(abs(cold.upper_bound), 0.01 * float(np.ptp(cmdp.reward)) * cmdp.layers)
    assert warm.in_bounds
    assert warm.status == cold.status == "optimal"
    assert warm.gap <= 1.01 * allowed
    assert warm.reward <= cold.upper_bound + 1e-12
    assert cold.reward <= warm.upper_bound + 1e-12
    own = ib.evaluate(cmdp, warm.policy)
    assert own.reward == pytest.approx(warm.reward, abs=1e-11)
    # The upper bound follows from its prices and values on this model, wherever they came from.
    priced = (cmdp.reward + np.tensordot(warm.prices, cmdp.margins, axes=1)).ravel()
    assert criterion_of(cmdp).upper_bound(priced, warm.value_function.ravel()) <= warm.upper_bound + 1e-9


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("criterion", CRITERIA.values(), ids=CRITERIA)
def test_warm_and_cold_agree(criterion, what, seed):
    cmdp = made(seed, criterion)
    other = changed(cmdp, what, seed)
    warm, cold = ib.solve(other, "bundle", start=ib.solve(cmdp, "bundle")), ib.solve(other, "bundle")
    assert_agree(other, warm, cold)
    assert warm.certificate.in_bounds
    assert warm.policy.coins <= 2


@pytest.mark.parametrize("criterion", CRITERIA.values(), ids=CRITERIA)
def test_a_start_saves_solves(criterion):
    cmdp = made(0, criterion, states=300)
    best, solves = ib.solve(cmdp), []
    for what in CHANGES:
        other = changed(cmdp, what, 1, by=0.01)
        warm, cold = ib.solve(other, start=best, coins="any"), ib.solve(other, coins="any")
        assert warm.method == "path"
        assert_agree(other, warm, cold)
        solves.append((warm.unconstrained_solves, cold.unconstrained_solves))
    assert sum(warm for warm, _ in solves) < 0.6 * sum(cold for _, cold in solves)


@pytest.mark.parametrize("times", [0.0, 1e-6, 1.0, 1e6])
@pytest.mark.parametrize("criterion", CRITERIA.values(), ids=CRITERIA)
def test_a_start_that_is_far_away_is_not_wrong(criterion, times):
    """Another model altogether, in other units too: prices and values are off by any factor."""
    cmdp, far = made(5, criterion), made(6, criterion)
    start = ib.solve(dataclasses.replace(far, reward=times * far.reward), "bundle")
    assert_agree(cmdp, ib.solve(cmdp, "bundle", start=start), ib.solve(cmdp, "bundle"))


@pytest.mark.parametrize("criterion", CRITERIA.values(), ids=CRITERIA)
def test_the_answer_to_the_same_problem(criterion):
    cmdp = made(5, criterion)
    best = ib.solve(cmdp, "bundle")
    assert_agree(cmdp, ib.solve(cmdp, "bundle", start=best), best)


@given(drawn=st.tuples(strategies.feasible(), st.integers(0, 99)))
def test_drawn_problems_from_anywhere(drawn):
    (cmdp, *_), seed = drawn
    rng = np.random.default_rng(seed)
    other = dataclasses.replace(
        cmdp.tightened(np.full(cmdp.n_constraints, -0.5)), reward=rng.uniform(-1.0, 1.0, cmdp.shape)
    )
    warm, cold = ib.solve(cmdp, "bundle", start=ib.solve(other, "bundle")), ib.solve(cmdp, "bundle")
    assert warm.in_bounds == cold.in_bounds
    assert warm.status == cold.status
    scale = 1e-8 * max(1.0, float(np.abs(cmdp.reward).max()) * cmdp.layers)
    assert warm.reward == pytest.approx(cold.reward, abs=max(2.0 * scale, cold.gap + warm.gap))


def test_a_policy_that_is_out_of_bounds_now():
    cmdp = made(1, CRITERIA["discounted"])
    best = ib.solve(cmdp, "bundle")
    tighter = cmdp.with_bound(0, at_least=cmdp.constraints[0].bound * 1.02)
    assert not ib.evaluate(tighter, best.policy).in_bounds
    assert_agree(tighter, ib.solve(tighter, "bundle", start=best), ib.solve(tighter, "bundle"))


def test_no_policy_is_in_bounds_any_more():
    cmdp = made(1, CRITERIA["discounted"])
    impossible = cmdp.with_bound(0, at_least=2.0)
    with pytest.raises(ib.Infeasible, match="no policy is in bounds"):
        ib.solve(impossible, "bundle", start=ib.solve(cmdp))


def test_a_bound_that_did_not_bind():
    cmdp = made(2, CRITERIA["discounted"])
    loose = cmdp.with_bound(0, at_least=-1.0)
    best = ib.solve(loose, "bundle")
    assert best.prices[0] == 0.0
    assert_agree(cmdp, ib.solve(cmdp, "bundle", start=best), ib.solve(cmdp, "bundle"))
    assert_agree(loose, ib.solve(loose, "bundle", start=ib.solve(cmdp)), best)


def test_states_and_actions_are_matched_by_their_labels():
    def built(start, actions, reward):
        return ib.build(
            start=start,
            actions=lambda s: actions,
            transitions=lambda s, a: {s: 1.0} if a == "stay" else {(s + 1) % 60: 0.8, (7 * s + 3) % 60: 0.2},
            reward=lambda s, a: reward * np.sin(s) + (a == "go"),
            constraints=[ib.Constraint(lambda s, a: a == "go", at_most=0.4, name="moves")],
            discount=0.95,
        )

    cmdp = built({0: 0.5, 40: 0.5}, ["stay", "go"], 1.0)
    other = built({40: 0.5, 0: 0.5}, ["go", "stay"], 1.001)
    assert cmdp.pairs.state_labels != other.pairs.state_labels
    best, cold = ib.solve(cmdp, "bundle"), ib.solve(other, "bundle")
    begin = Start.of(other, best)
    here = {label: begin.value_function[s] for s, label in enumerate(other.pairs.state_labels)}
    assert here == dict(zip(cmdp.pairs.state_labels, best.value_function.tolist(), strict=True))
    assert ib.Policy(other.pairs, begin.taken).by_label() == best.policy.by_label()
    warm = ib.solve(other, "bundle", start=best)
    assert_agree(other, warm, cold)
    assert warm.unconstrained_solves < cold.unconstrained_solves


def test_limits_return_what_is_known_and_go_on():
    cmdp = made(3, CRITERIA["discounted"], states=300)
    best = ib.solve(cmdp)
    looser = changed(cmdp, "bound", 0)
    whole = ib.solve(looser, "bundle", start=best)
    cut = ib.solve(looser, "bundle", start=best, iterations=1)  # the earlier policy is in bounds here
    assert cut.status == "iteration limit"
    assert cut.in_bounds
    assert cut.reward >= best.reward - 1e-9
    assert cut.partial.lower <= whole.reward <= whole.upper_bound <= cut.partial.upper + 1e-12
    again = ib.solve(looser, "bundle", resume=cut.partial)
    assert again.reward == whole.reward
    assert np.array_equal(again.prices, whole.prices)
    assert np.array_equal(again.policy.probabilities, whole.policy.probabilities)
    with pytest.raises(ib.Stopped) as stopped:
        ib.solve(changed(cmdp, "bound", 0, by=-0.02), "bundle", start=best, iterations=1)
    assert stopped.value.partial.upper < np.inf


def test_small_problems_and_those_without_constraints_do_without():
    queue = ib.zoo.queue()
    assert ib.solve(queue, start=ib.solve(queue)).method == "lp"
    free = ib.zoo.garnet(100, constraints=0, seed=1)
    best = ib.solve(free)
    for method in ("auto", "bundle"):
        assert ib.solve(free, method, start=best).reward == pytest.approx(best.reward, rel=1e-8)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("yesterday's", "start takes a Solution, which ib.solve returns, found str"),
        (ib.Policy.uniform(ib.zoo.queue()), "start takes a Solution, which ib.solve returns, found Policy"),
        (ib.solve(ib.zoo.garnet(20, seed=1)), "does not belong to this problem"),
        (ib.solve(ib.zoo.queue().asking(constraints=())), "start has 0 prices, and this problem 2 constraints"),
    ],
)
@pytest.mark.parametrize("method", ["auto", "bundle"])
def test_other_starts_are_refused(method, start, message):
    with pytest.raises(ib.InvalidInput, match=message) as refused:
        ib.solve(ib.zoo.queue(), method, start=start)
    assert "\n" not in str(refused.value)


def test_start_and_resume_exclude_each_other():
    cmdp = made(0, CRITERIA["discounted"])
    best, rough = ib.solve(cmdp), ib.solve(cmdp, "bundle", iterations=8)
    with pytest.raises(ib.InvalidInput, match="give resume or start, not both"):
        ib.solve(cmdp, "bundle", resume=rough.partial, start=best)


def slow(capacity=20, levels=5):
    """A battery whose price walks: a chain that mixes slowly, and next to whose coins hardly any change is small."""
    change = (-1, 0, 1)

    def moves(state, by):
        charge, price = state
        up, down = 0.3 * (1.0 - price / (levels - 1)), 0.3 * price / (levels - 1)
        steps = ((1, up), (-1, down), (0, 1.0 - up - down))
        return [((charge + by, price + step), chance) for step, chance in steps if chance > 0.0]

    return ib.build(
        start=(capacity // 2, levels // 2),
        actions=lambda state: [by for by in change if 0 <= state[0] + by <= capacity],
        transitions=moves,
        reward=lambda state, by: -(0.1 + state[1] / levels) * (2 + by),
        constraints=[
            ib.Constraint(lambda state, by: abs(by), at_most=0.2, name="wear"),
            ib.Constraint(lambda state, by: state[0] < 0.2 * capacity, at_most=0.1, name="low"),
        ],
        discount=0.995,
    )


@pytest.mark.parametrize("what", ["looser", "tighter", "reward", "transition"])
def test_the_vertex_of_a_slow_chain_is_found_without_solves(what):
    cmdp = slow()
    best = ib.solve(cmdp)
    factor = {"looser": 1.01, "tighter": 0.99}.get(what)
    other = changed(cmdp, what, 3, 0.01) if factor is None else cmdp.with_bound("wear", at_most=factor * 0.2)
    warm, cold = ib.solve(other, start=best), ib.solve(other)
    assert_agree(other, warm, cold)
    assert warm.method == "path" and warm.unconstrained_solves <= 3 < cold.unconstrained_solves
    assert warm.policy.coins <= 2 and warm.certificate.in_bounds and warm.gap < 1e-9


def test_the_vectors_of_a_start_go_by_the_labels():
    cmdp = slow(6, 3)
    order = np.random.default_rng(0).permutation(cmdp.n_states)
    pairs = np.concatenate([np.arange(*cmdp.offsets[[state, state + 1]]) for state in order])
    (moves,) = cmdp.transitions
    shuffled = ib.CMDP(
        offsets=np.append(0, np.cumsum(np.diff(cmdp.offsets)[order])),
        transition=sp.csr_array(moves.toarray()[pairs][:, order]),
        reward=cmdp.reward[pairs],
        constraints=[dataclasses.replace(c, signal=c.signal[pairs]) for c in cmdp.constraints],
        initial=cmdp.initial[order],
        actions=cmdp.pairs.actions[pairs],
        state_labels=[cmdp.state_labels[state] for state in order],
        action_labels=cmdp.action_labels,
        discount=cmdp.discount,
    )
    best = ib.solve(cmdp, "bundle")
    start, proof = Start.of(shuffled, best), best.certificate.proof
    assert np.array_equal(start.vectors, np.vstack([proof.reward_vector, proof.margin_vectors])[:, order])
    assert_agree(shuffled, ib.solve(shuffled, "bundle", start=best), ib.solve(shuffled, "bundle"))
    assert Start.of(shuffled, ib.solve(cmdp, "bundle", certificate=False)).vectors is None


def alike(machines=3, worn=8, parts=4):
    """Machines that are all alike: which of two equally worn ones is repaired makes no difference."""

    def transitions(state, action):
        *wear, left = state
        if action == "buy":
            left = min(left + 3, parts - 1)
        if action.startswith("fix"):
            wear[int(action[4:])], left = 0, left - 1
        return [
            ((*(min(w + by * (i == j), worn - 1) for j, w in enumerate(wear)), left), chance / machines)
            for i in range(machines)
            for by, chance in enumerate((0.2, 0.6, 0.2))
        ]

    def reward(state, action):
        worth = sum(2.0 - (w > worn // 2) - (w == worn - 1) for w in state[:-1])
        return worth - (action == "buy") - 0.5 * action.startswith("fix")

    return ib.build(
        start=(*[0] * machines, parts - 1),
        actions=lambda state: ["run", "buy", *(f"fix {i}" for i in range(machines) if state[i] and state[-1])],
        transitions=transitions,
        reward=reward,
        constraints=[
            ib.Constraint(lambda state, action: action.startswith("fix"), at_most=0.08, name="workshop"),
            ib.Constraint(lambda state, action: sum(w < worn - 1 for w in state[:-1]), at_least=1.5, name="ready"),
        ],
        discount=0.98,
    )


def test_from_many_coins_to_any_coins_the_bundle_begins_at_the_prices():
    """A vertex among many that are equally good takes longer to find than a mixture."""
    cmdp = alike()
    best = ib.solve(cmdp, "bundle", coins="any")
    assert best.policy.coins > 100
    for most in (0.0802, 0.082, 0.079):
        other = cmdp.with_bound("workshop", at_most=most)
        warm = ib.solve(other, "bundle", start=best, coins="any")
        cold = ib.solve(other, "bundle", coins="any")
        assert_agree(other, warm, cold)
        assert warm.method == "bundle" and warm.unconstrained_solves <= 0.5 * cold.unconstrained_solves
    few = ib.solve(other, "bundle", start=best)
    assert_agree(other, few, cold)
    assert few.policy.coins <= 2


@pytest.mark.parametrize("times", [0.0, 1e-6, 1.0, 1e6])
@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("criterion", CRITERIA.values(), ids=CRITERIA)
def test_a_start_with_coins_everywhere_is_not_wrong(criterion, what, times):
    """Whatever its prices and values are."""
    cmdp = made(3, criterion)
    best, other = ib.solve(cmdp, "bundle"), changed(cmdp, what, 3)
    everywhere = dataclasses.replace(
        best,
        policy=ib.Policy.uniform(cmdp),
        prices=times * best.prices,
        value_function=times * best.value_function,
    )
    warm, cold = (ib.solve(other, "bundle", coins="any", start=start) for start in (everywhere, None))
    assert warm.method == "bundle"
    assert_agree(other, warm, cold)


def test_a_start_with_another_horizon_is_refused_by_name() -> None:
    """(The message blamed a policy that nobody gave.)"""
    short, long = (ib.zoo.media(horizon=horizon) for horizon in (6, 8))
    with pytest.raises(ib.InvalidInput, match="start is the solution of a problem with 6 stages, and this one has 8"):
        ib.solve(long, start=ib.solve(short))
