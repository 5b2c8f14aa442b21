"""Limits, statuses, and going on from where a solver was stopped."""

from __future__ import annotations

import pickle
import time
from itertools import pairwise

import numpy as np
import pytest

import inbounds as ib
from inbounds.algorithms.algorithm import record_of
from inbounds.criteria import criterion_of
from inbounds.criteria.discounted import Discounted
from inbounds.exact.feasibility import infeasible
from inbounds.exact.limits import Limits, Partial
from inbounds.exact.methods import best_mixture, with_few_coins
from inbounds.exact.moving_bound import along_bounds
from inbounds.exact.reachable import well_scaled
from inbounds.proofs.known_model import certified, certify_infeasible
from inbounds.reports.reproduction import summary_rows, verdicts
from inbounds.reports.theorems import theorem_verdicts
from inbounds.studies import reproduction, theorems
from inbounds.studies.parallel import run_jobs
from inbounds.studies.runs import run_arms


def garnet():
    """Made anew each time: what a criterion plans once for a model is planned again."""
    return ib.zoo.garnet(states=60, actions=4, constraints=3, discount=0.95, seed=3)


@pytest.fixture(scope="module")
def unbroken():
    return ib.solve(garnet(), "bundle")


def assert_same_bits(best, other):
    assert np.array_equal(best.policy.probabilities, other.policy.probabilities)
    assert (best.reward, best.upper_bound, best.status) == (other.reward, other.upper_bound, other.status)
    assert np.array_equal(best.prices, other.prices)
    assert np.array_equal(best.value_function, other.value_function)
    assert best.unconstrained_solves == other.unconstrained_solves
    assert np.array_equal(best.certificate.margins_lower, other.certificate.margins_lower)


def test_a_limit_of_iterations_gives_bounds_that_hold_and_close(unbroken):
    assert unbroken.status == "optimal" and unbroken.partial is None
    gaps = []
    for iterations in range(1, unbroken.unconstrained_solves):
        cmdp = garnet()
        try:
            best = ib.solve(cmdp, "bundle", iterations=iterations)
        except ib.Stopped as stopped:
            known, status = stopped.partial, stopped.status
            assert known.lower == -np.inf and not np.all(known.margins >= 0.0)
            assert "before a policy in bounds was known" in str(stopped)
        else:
            known, status = best.partial, best.status
            assert best.certificate.in_bounds and best.gap >= unbroken.upper_bound - best.reward - 1e-12
            assert known.lower <= unbroken.upper_bound
            gaps.append(known.gap)
        assert status == known.status == "iteration limit"
        assert known.unconstrained_solves == iterations
        assert known.upper >= unbroken.reward - 1e-12
        judged = ib.evaluate(cmdp, known.policy)
        assert judged.reward == known.reward and np.array_equal(judged.margins, known.margins)
    assert len(gaps) > 5 and all(later <= earlier + 1e-12 for earlier, later in pairwise(gaps))


@pytest.mark.parametrize("iterations", [1, 2, 5, 9])
def test_going_on_from_a_limit_has_the_bits_of_an_unbroken_run(unbroken, iterations):
    cmdp = garnet()
    try:
        partial = ib.solve(cmdp, "bundle", iterations=iterations).partial
    except ib.Stopped as stopped:
        partial = stopped.partial
    for _ in range(2):  # it can be done twice
        assert_same_bits(ib.solve(cmdp, "bundle", resume=partial), unbroken)


@pytest.mark.parametrize("calls", [1, 2, 6, 11])
def test_going_on_after_an_interruption_has_the_bits_of_an_unbroken_run(unbroken, calls, monkeypatch):
    """Ctrl-C in the middle of a round: the round is made again."""
    cmdp, solve, count = garnet(), Discounted.time, iter(range(1, 1000))

    def interrupted(*arguments):
        if next(count) == calls:
            raise KeyboardInterrupt
        return solve(*arguments)

    monkeypatch.setattr(Discounted, "time", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        ib.solve(cmdp, "bundle")
    partial = caught.value.partial
    assert partial.status == "interrupted" and partial.unconstrained_solves == calls - 1
    assert partial.upper >= unbroken.reward - 1e-12 >= partial.lower - 1e-9
    assert ("optimum is at most" if calls > 1 else "nothing yet") in partial.in_words
    assert repr(partial) == f"Partial(interrupted: {partial.in_words})"
    assert_same_bits(ib.solve(cmdp, "bundle", resume=partial), unbroken)


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_an_interruption_while_proving_loses_nothing(unbroken, error):
    def interrupted(done, total):
        raise error

    cmdp = garnet()
    with pytest.raises(error) as caught:
        ib.solve(cmdp, "bundle", proof_progress=interrupted)
    partial = caught.value.partial
    assert partial.gap <= 1e-7
    assert_same_bits(ib.solve(cmdp, "bundle", resume=partial), unbroken)


def test_the_time_limit_holds_for_the_proof_too(unbroken):
    cmdp = garnet()
    best = ib.solve(cmdp, "bundle", time_limit=0.5, proof_progress=lambda done, total: time.sleep(0.5))
    assert best.status == "time limit" and best.certificate is None
    assert best.upper_bound >= unbroken.reward - 1e-12
    assert_same_bits(ib.solve(cmdp, "bundle", resume=best.partial), unbroken)


@pytest.mark.parametrize("method", ["auto", "bundle", "lp", "polish"])
def test_no_time_at_all(method):
    """Valid bounds, or nothing known; and never a hang, nor another exception."""
    cmdp = ib.zoo.garnet(states=150, actions=4, constraints=2, discount=0.999, seed=1)
    optimum = ib.solve(cmdp)
    try:
        best = ib.solve(cmdp, method, time_limit=1e-9)
    except ib.Stopped as stopped:
        assert stopped.status == "time limit"
        assert stopped.partial.upper >= optimum.reward and stopped.partial.lower == -np.inf
        assert "time limit" in str(stopped)
    else:
        assert best.status == "time limit" and best.certificate is None
        assert best.reward - 1e-12 <= optimum.upper_bound and best.upper_bound >= optimum.reward
    assert best_after(cmdp, method).status == "optimal"


def best_after(cmdp, method):
    return ib.solve(cmdp, method, time_limit=600.0)


@pytest.mark.parametrize("criterion", [{"discount": 0.99}, {"average": True}, {"horizon": 5}])
def test_no_time_for_a_problem_without_constraints(criterion):
    cmdp = ib.zoo.garnet(states=150, actions=4, constraints=0, seed=1, discount=0.9)
    cmdp = ib.CMDP(
        offsets=cmdp.offsets,
        transition=cmdp.transition,
        reward=cmdp.reward,
        constraints=(),
        initial=cmdp.initial,
        **criterion,
    )
    best, hasty = ib.solve(cmdp), ib.solve(cmdp, time_limit=1e-9)
    assert best.status == "optimal" and hasty.status == "time limit" and hasty.certificate is None
    assert hasty.reward - 1e-12 <= best.upper_bound and hasty.upper_bound >= best.reward - 1e-12


def test_slater_within_limits():
    cmdp = ib.zoo.garnet(states=150, actions=4, constraints=3, seed=5)
    best = ib.slater(cmdp)
    assert best.status == "optimal" and best.gap <= 1e-9
    for limits in ({"iterations": 1}, {"iterations": 3}, {"time_limit": 1e-9}):
        rough = ib.slater(cmdp, **limits)
        assert "limit" in rough.status
        assert rough.value <= best.upper_bound + 1e-12 and rough.upper_bound >= best.value - 1e-12


def curve_of(cmdp, **options):
    return ib.frontier(cmdp, 1, points=8, **options)


@pytest.fixture(scope="module")
def whole():
    return curve_of(garnet())


def assert_same_curve(curve, other):
    assert np.array_equal(curve.bounds, other.bounds) and np.array_equal(curve.rewards, other.rewards)
    assert np.array_equal(curve.prices, other.prices)
    assert curve.unconstrained_solves == other.unconstrained_solves
    for one, two in zip(curve.solutions, other.solutions, strict=True):
        assert np.array_equal(one.policy.probabilities, two.policy.probabilities)


def test_a_frontier_within_limits_has_the_first_points_and_goes_on(whole):
    assert whole.status == "optimal" and len(whole.bounds) == 8
    lengths = set()
    for iterations in range(1, whole.unconstrained_solves, 2):
        cmdp = garnet()
        try:
            curve = curve_of(cmdp, iterations=iterations)
        except ib.Stopped as stopped:
            partial = stopped.partial
            assert partial.points == ()
        else:
            assert curve.status == "iteration limit"
            partial, points = curve.partial, len(curve.bounds)
            assert np.array_equal(curve.bounds, whole.bounds[:points])
            assert np.array_equal(curve.rewards, whole.rewards[:points])
        lengths.add(len(partial.points))
        assert_same_curve(curve_of(cmdp, resume=partial), whole)
    assert len(lengths) > 3


@pytest.mark.parametrize(
    ("calls", "error"), [(1, KeyboardInterrupt), (8, KeyboardInterrupt), (15, OSError), (22, OSError)]
)
def test_an_interrupted_frontier_goes_on(whole, calls, error, monkeypatch):
    cmdp, solve, count = garnet(), Discounted.solve, iter(range(1, 1000))

    def interrupted(*arguments, **options):
        if next(count) == calls:
            raise error
        return solve(*arguments, **options)

    monkeypatch.setattr(Discounted, "solve", interrupted)
    with pytest.raises(error) as caught:
        curve_of(cmdp)
    partial = caught.value.partial
    assert partial.in_words.startswith(f"{len(partial.points)} of the points" if partial.points else "no")
    assert_same_curve(curve_of(cmdp, resume=caught.value.partial), whole)


def test_an_interrupted_frontier_has_its_points_as_at_a_limit():
    def stop(done: int, points: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    whole = ib.frontier(ib.zoo.queue(), "service", points=6)
    with pytest.raises(KeyboardInterrupt) as caught:
        ib.frontier(ib.zoo.queue(), "service", points=6, progress=stop)
    curve = caught.value.partial.curve
    assert curve.status == "interrupted" and curve.bounds.tolist() == whole.bounds[:3].tolist()
    assert "interrupted: tighter bounds are missing" in str(curve)


def test_what_is_finished_is_not_lost_for_a_picture(tmp_path, monkeypatch):
    """Ctrl-C while `inbounds frontier` draws: all is written, and said, with the exit code of Ctrl-C."""
    from inbounds.cli.frontier import command
    from inbounds.reports import frontier as drawing

    write, calls = drawing.write_bounds, []

    def interrupted_once(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return write(*arguments)

    monkeypatch.setattr(drawing, "write_bounds", interrupted_once)
    arguments = ["queue", "--constraint", "service", "--points", "3", "--output", str(tmp_path / "there")]
    with command.make_context("frontier", arguments) as context, pytest.raises(KeyboardInterrupt) as stopped:
        command.invoke(context)
    assert stopped.value.partial == "all points, which are written"
    assert sorted(file.suffix for file in (tmp_path / "there").iterdir()) == [".csv", ".png", ".svg"]


@pytest.mark.parametrize("done", [1, 4])
def test_an_interrupted_report_writes_what_is_finished_and_says_what_is_not(done, tmp_path):
    """(It said that no policy in bounds was known, when the optimum was, and wrote nothing.)"""

    def stop(so_far: int, total: int) -> None:
        if so_far == done:
            raise KeyboardInterrupt

    page = tmp_path / "queue.html"
    with pytest.raises(KeyboardInterrupt) as caught:
        ib.report(ib.zoo.queue(), page, points=4, progress=stop)
    written = caught.value.partial
    assert written.files == [page] and written.in_words.startswith("what ")
    assert ("how prices move" in written.missing) == (done == 1) and "curve of" in written.missing[-1]
    assert "Cut short by an interruption" in page.read_text("utf-8")


def test_a_frontier_without_time():
    with pytest.raises(ib.Stopped) as stopped:
        curve_of(garnet(), time_limit=1e-9)
    assert stopped.value.status == "time limit" and stopped.value.partial.points == ()


def test_a_diagnosis_that_a_limit_cuts_short_is_left_open():
    cmdp = ib.zoo.queue().tightened(3.0)
    with pytest.raises(ib.Infeasible) as whole:
        ib.solve(cmdp)
    assert whole.value.diagnosis.complete and "not known" not in str(whole.value)

    def no_time(problem):
        raise ib.Stopped("time limit")

    error = infeasible(cmdp, ib.slater(cmdp), no_time)
    assert not error.diagnosis.complete and np.all(np.isnan(error.diagnosis.relaxed_bounds))
    assert str(error).count("not known") == 2 and certify_infeasible(error, cmdp).infeasible


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_limit": 0}, "time_limit must be a number above 0, found 0"),
        ({"time_limit": "soon"}, "time_limit must be a number above 0, found 'soon'"),
        ({"time_limit": float("nan")}, "time_limit must be a number above 0"),
        ({"iterations": 0}, "iterations must be a whole number of at least 1, found 0"),
        ({"iterations": 2.5}, "iterations must be a whole number"),
    ],
)
def test_limits_that_are_none(options, message):
    for question in (ib.solve, ib.slater, ib.frontier):
        with pytest.raises(ib.InvalidInput, match=message):
            question(ib.zoo.queue(), **options)


@pytest.mark.parametrize("average", [False, True])
def test_how_chains_are_solved_is_not_decided_anew_when_a_solve_goes_on(average, monkeypatch):
    """The first prices decided it; later ones, or the evaluation of what is known at a stop, may decide otherwise."""

    def ring(n=150):
        rng = np.random.default_rng(0)
        stay, on = np.eye(n), np.roll(np.eye(n), 1, axis=1)
        signals = rng.integers(-2, 3, (3, 2 * n)).astype(float)
        return ib.CMDP(
            offsets=np.arange(0, 2 * n + 1, 2),
            transition=np.stack([0.9 * stay + 0.1 * on, on], axis=1).reshape(2 * n, n),
            reward=signals[0],
            constraints=[ib.Constraint(signal, at_least=0.2) for signal in signals[1:]],
            initial=np.full(n, 1 / n),
            **({"average": True} if average else {"discount": 0.95}),
        )

    unbroken = ib.solve(ring(), "bundle")
    other, known = ring(), ib.solve(ring(), "bundle", iterations=4).partial
    assert known is not None

    def again(self, reward):
        raise AssertionError("decided before")

    monkeypatch.setattr(type(criterion_of(other)), "_choose_plan", again)
    assert_same_bits(ib.solve(other, "bundle", resume=known), unbroken)


def test_resume_belongs_to_one_question():
    cmdp = garnet()
    with pytest.raises(ib.InvalidInput, match="resume takes the `partial`"):
        ib.solve(cmdp, resume=3)
    partial = ib.solve(cmdp, "bundle", iterations=9).partial
    for other, options in ((cmdp.tightened(1e-9), {}), (cmdp, {"tolerance": 1e-6})):
        with pytest.raises(ib.InvalidInput, match="resume belongs to another problem, or to other settings"):
            ib.solve(other, "bundle", resume=partial, **options)
    with pytest.raises(ib.InvalidInput, match="resume belongs to another"):
        ib.frontier(cmdp, 0, resume=partial)
    assert isinstance(partial, Partial) and "state=" not in repr(partial)


def test_the_same_problem_made_again_or_sent_by_another_process_goes_on(unbroken):
    partial = pickle.loads(pickle.dumps(ib.solve(garnet(), "bundle", iterations=9).partial))
    assert_same_bits(ib.solve(garnet(), "bundle", resume=partial), unbroken)
    some = ib.frontier(ib.zoo.queue(), "service", points=6, iterations=8)
    whole = ib.frontier(ib.zoo.queue(), "service", points=6)
    assert some.status == "iteration limit"
    goes_on = ib.frontier(ib.zoo.queue(), "service", points=6, resume=pickle.loads(pickle.dumps(some.partial)))
    assert np.array_equal(goes_on.rewards, whole.rewards) and np.array_equal(goes_on.prices, whole.prices)


@pytest.mark.parametrize("exact", [False, True])
def test_a_proof_on_a_model_stops_at_its_limit_and_counts(exact):
    queue, seen = ib.zoo.queue(), []
    with pytest.raises(ib.Stopped, match="time limit reached before anything was known"):
        ib.certify(ib.Policy.uniform(queue), queue, exact=exact, time_limit=1e-9)
    in_time = ib.certify(ib.Policy.uniform(queue), queue, exact=exact, time_limit=60.0, progress=seen.append)
    assert in_time.kind == ("exact" if exact else "rounding-bounded") and seen[-1] == 6


def test_no_horizon_is_too_long_to_be_refused():
    queue = ib.zoo.queue(discount=0.999)
    for horizon in (10**7 + 1, 10**12, 10**400):
        with pytest.raises(ib.InvalidInput, match="stages is too long: at most 10,000,000"):
            ib.truncate(queue, horizon=horizon)
        with pytest.raises(ib.InvalidInput, match="stages is too long"):
            ib.CMDP(offsets=[0, 1], transition=[[1.0]], reward=[0.0], constraints=[], initial=[1.0], horizon=horizon)
    with pytest.raises(ib.InvalidInput, match="stages is too long"):
        ib.truncate(ib.zoo.queue(discount=1.0 - 2.0**-53), 0.1)


def test_progress_of_the_proof_counts_to_the_end():
    seen = []
    ib.solve(ib.zoo.garnet(states=150, seed=1), proof_progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] and len(seen) >= 7
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def endless(**options):
    """A rule whose states never end."""
    return ib.build(
        0, lambda state: ["on"], lambda state, action: {state + 1: 1.0}, reward=lambda *_: 0.0, discount=0.9, **options
    )


def test_building_stops_at_its_limit_with_what_was_found():
    with pytest.raises(ib.Stopped, match="time limit reached after 1 states were explored and 2 found") as caught:
        ib.build(
            0,
            lambda state: ["on"],
            lambda state, action: time.sleep(0.05) or {state + 1: 1.0},
            reward=lambda *_: 0.0,
            discount=0.9,
            time_limit=0.04,
        )
    assert caught.value.status == "time limit" and caught.value.partial.states == (0, 1)
    with pytest.raises(ib.InvalidInput, match="more than 5 states"):
        endless(max_states=5, time_limit=600.0)
    with pytest.raises(ib.InvalidInput, match="time_limit must be a number of seconds above 0"):
        endless(time_limit=0)


def test_an_evaluation_looks_at_its_limit_between_the_policies_of_a_mixture():
    queue = ib.zoo.queue()
    two = ib.Mixture([0.5, 0.5], [ib.Policy.uniform(queue), ib.slater(queue).policy])
    with pytest.raises(ib.Stopped, match="time limit reached before anything was known"):
        ib.evaluate(queue, two, time_limit=1e-9)
    one = two.policies[0]  # one step, which is always made
    assert ib.evaluate(queue, one, time_limit=1e-9).reward == ib.evaluate(queue, one).reward
    assert ib.evaluate(queue, two, time_limit=60.0).reward == ib.evaluate(queue, two).reward


@pytest.mark.parametrize("stages_swept", [0, 1, 3, 6])
def test_a_sweep_over_a_horizon_is_cut_between_stages_and_its_bracket_holds(stages_swept, monkeypatch):
    """Against the optimum, and against the value of the policy that it returns, whose first stages were passed over."""
    media = ib.zoo.garnet(states=20, actions=3, constraints=0, discount=0.9, seed=2)
    rewards = np.random.default_rng(1).normal(size=(6, media.n_pairs))
    problem = ib.CMDP(
        offsets=media.offsets,
        transition=media.transition,
        reward=rewards,
        constraints=(),
        initial=media.initial,
        horizon=6,
    )
    criterion, looks = criterion_of(problem), iter(range(100))
    optimum = criterion.solve(problem.reward.ravel(), 0.0)
    monkeypatch.setattr("inbounds.criteria.horizon._LOOK", 1)
    monkeypatch.setattr("inbounds.criteria.horizon.is_over", lambda deadline: next(looks) >= stages_swept)
    found = criterion.solve(problem.reward.ravel(), 0.0, deadline=0.0, keep_backups=True)
    assert found.lower <= optimum.lower and optimum.upper <= found.upper
    assert criterion.upper_bound(problem.reward.ravel(), found.value_function) <= found.upper
    probabilities = np.zeros(criterion.n_entries)
    probabilities[found.chosen] = 1.0
    policy = ib.Policy(problem.pairs, probabilities.reshape(problem.shape))
    assert found.lower <= ib.evaluate(problem, policy).reward <= found.upper
    assert (found.upper - found.lower < 1e-12) is (stages_swept == 6)
    assert np.all(np.isfinite(found.backups))


def test_few_coins_that_came_too_late_are_not_called_optimal():
    """The mixture is as good, but it is not the answer of an unbroken run, and can be gone on from."""
    problem = well_scaled(garnet())
    found, _ = best_mixture(problem, "bundle")
    late = with_few_coins(problem, found, 1e-8, Limits(deadline=time.monotonic()))
    assert (found.status, late.status, late.corner) == ("optimal", "time limit", None)
    assert with_few_coins(problem, found, 1e-8, Limits()).corner is not None


def test_a_simulation_within_its_limit_has_the_first_runs():
    queue = ib.zoo.queue()
    uniform = ib.Policy.uniform(queue)
    whole, some = (ib.simulate(queue, uniform, runs=300, steps=50, seed=3, time_limit=limit) for limit in (60.0, 1e-9))
    assert (whole.status, some.status) == ("done", "time limit") and 1 <= some.runs < whole.runs == 300
    assert np.array_equal(some.states, whole.states[: some.runs])
    assert np.array_equal(some.signals, whole.signals[:, : some.runs])


def test_the_limit_of_a_frontier_holds_within_the_proof_of_a_point():
    """The points before are returned; and resumed it comes to the same."""
    queue, proved, seconds = ib.zoo.queue(), [], 60.0

    def judge(problem, mixture, *, method, progress):
        if len(proved) == 2 and seconds < 60.0:
            time.sleep(seconds)  # in the middle of the third proof
            progress(1, 7)
        found = certified(problem, mixture, method=method, progress=progress)
        proved.append(found)
        return found

    whole = along_bounds(queue, "service", 5, judge=judge)
    proved.clear()
    seconds = 3.0
    some = along_bounds(queue, "service", 5, judge=judge, time_limit=seconds)
    assert some.status == "time limit" and len(some.bounds) == 2 and len(proved) == 2
    seconds = 60.0
    rest = along_bounds(queue, "service", 5, judge=judge, resume=some.partial)
    assert rest.rewards.tolist() == whole.rewards.tolist() and len(rest.bounds) == 5


@pytest.mark.parametrize("certificate", [False, True])
def test_a_frontier_says_what_it_does_from_the_start(certificate):
    heard = []
    ib.frontier(
        ib.zoo.garnet(states=100, seed=1),
        0,
        points=3,
        certificate=certificate,
        progress=lambda done, total: heard.append((done, total)),
        says=heard.append,
    )
    name = ib.zoo.garnet(states=100, seed=1).constraints[0].name
    first = [f"from where on the bound on {name} matters", f"the tightest bound on {name} that a policy keeps"]
    assert heard[:4] == [(0, 3), *first, "bound 1 of 3"]
    assert heard[-1] == (3, 3) and [word for word in heard if isinstance(word, tuple)] == [(k, 3) for k in range(4)]
    assert ("bound 3 of 3: proof, 7 of 7" in heard) == certificate
    with pytest.raises(ib.InvalidInput, match="says must be a function"):
        ib.frontier(ib.zoo.queue(), 0, points=3, says=5)


def test_a_surface_says_which_row_it_is_at():
    heard = []
    ib.surface(
        ib.zoo.queue(), 0, 1, bounds=([0.0, 0.5], [0.0]), progress=lambda *far: heard.append(far), says=heard.append
    )
    assert heard[0] == (0, 2) and "row 1 of 2: bound 1 of 1" in heard and heard[-1] == (2, 2)


def test_the_limit_of_a_surface_holds_from_its_first_curve_on():
    with pytest.raises(ib.Stopped, match="time limit"):
        ib.surface(ib.zoo.queue(), 0, 1, points=4, time_limit=1e-9)


@pytest.mark.parametrize("begun", ["bound 1 of 5", "bound 3 of 5"])
def test_a_frontier_goes_on_with_the_same_ways_on_a_model_that_was_made_anew(begun):
    """How chains are solved is remembered by a model and decided by its first questions: a new one begins again."""
    n, up = 200, (0.45, 0.55)
    transition, rng = np.zeros((n, 2, n)), np.random.default_rng(1)
    for state, action in np.ndindex(n, 2):
        transition[state, action, min(state + 1, n - 1)] += up[action]
        transition[state, action, max(state - 1, 0)] += 1.0 - up[action]
    reward, signal = rng.random((n, 2)), rng.random((n, 2))

    def model():
        paid = ib.Constraint(signal, at_most=0.6, name="paid")
        return ib.CMDP.from_dense(transition, reward=reward, constraints=[paid], initial=np.eye(n)[0], discount=0.9999)

    def breaks(doing):
        if doing == begun:
            raise RuntimeError("broken off")

    with pytest.raises(RuntimeError, match="broken off") as broken:
        ib.frontier(model(), 0, points=5, says=breaks)
    again, whole = ib.frontier(model(), 0, points=5, resume=broken.value.partial), ib.frontier(model(), 0, points=5)
    assert np.array_equal(again.rewards, whole.rewards) and again.unconstrained_solves == whole.unconstrained_solves


@pytest.mark.parametrize("by", ["progress", "says"])
def test_a_surface_that_is_broken_off_has_its_finished_rows(by):
    queue, bounds = ib.zoo.queue(), ([0.0, 0.25, 0.5], [0.0, 0.2])
    whole = ib.surface(queue, 0, 1, bounds=bounds)

    def breaks(*told):
        if told in ((2, 3), ("row 3 of 3: bound 1 of 2",)):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as broken:
        ib.surface(queue, 0, 1, bounds=bounds, **{by: breaks})
    known = broken.value.partial
    assert isinstance(known, type(whole)) and known.status == "interrupted"
    assert np.array_equal(known.rewards[:2], whole.rewards[:2]) and np.all(np.isnan(known.rewards[2]))
    assert "interrupted: rows at the end may be missing" in str(known)


def test_a_surface_that_is_broken_off_by_its_last_progress_has_all_of_it():
    def breaks(done, rows):
        if done == rows:
            raise ValueError("full")

    with pytest.raises(ValueError, match="full") as broken:
        ib.surface(ib.zoo.queue(), 0, 1, bounds=([0.0, 0.25], [0.0, 0.2]), progress=breaks)
    assert np.all(broken.value.partial.statuses == "optimal")


def test_a_surface_that_is_broken_off_before_its_first_row_has_nothing():
    def breaks(*told):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as broken:
        ib.surface(ib.zoo.queue(), 0, 1, points=3, says=breaks)
    assert broken.value.partial is None


def test_a_page_at_its_limit_is_written_with_what_is_known(tmp_path, monkeypatch):
    """Without the proof, when that is not finished; without curves, when none is; and not at all without a policy."""
    queue = ib.zoo.queue()
    unproved = ib.solve(queue, certificate=False)
    monkeypatch.setattr("inbounds.reporting.solve", lambda *_, **__: unproved)

    def late(*_, **__):
        raise ib.Stopped("time limit")

    monkeypatch.setattr("inbounds.reporting.frontier", late)
    written = ib.report(queue, tmp_path / "page.html", points=3, beside=True, time_limit=60.0)
    assert [path.name for path in written] == ["page.html", "page-model.npz", "page-policy.json"]
    monkeypatch.setattr("inbounds.reporting.solve", late)
    with pytest.raises(ib.Stopped):
        ib.report(queue, tmp_path / "other.html", time_limit=60.0)
    assert not (tmp_path / "other.html").exists()


def test_the_paper_s_experiment_within_a_limit_has_as_many_seeds_for_every_arm(monkeypatch):
    """Whatever is cut: as many runs of each arm, the first ones, and a status; refused where there are fewer than 2."""
    whole = reproduction.reproduce_queue(seeds=4, samples=1_000, workers=1)

    def cut(*arguments, time_limit, **options):
        runs, resumed = run_arms(*arguments, **options)
        kept = next(lengths)
        return [own[: kept + (place % 2)] for place, own in enumerate(runs)], resumed

    monkeypatch.setattr("inbounds.studies.runs.run_arms", cut)
    for figures, sweep in ((3, 0), (3, 2)):
        lengths = iter((figures, sweep))
        some = reproduction.reproduce_queue(seeds=4, samples=1_000, workers=1, time_limit=60.0)
        assert some.status == "time limit" and some.seeds == figures and len(some.sweep) == (24 if sweep else 0)
        for arm, other in zip(some.arms, whole.arms, strict=True):
            assert np.array_equal(arm.rewards, other.rewards[:figures])
        assert summary_rows(some) and verdicts(some)
    lengths = iter((1, 1))
    with pytest.raises(ib.Stopped, match="time limit"):
        reproduction.reproduce_queue(seeds=4, samples=1_000, workers=1, time_limit=60.0)


def test_the_theorems_within_a_limit_have_the_points_that_are_finished(monkeypatch):
    """Whatever the machine: runs above 1,000 samples are given up here."""
    whole, judged = theorems.study_theorems(seeds=2, samples=10_000, workers=1), theorems.judged_averages_run
    monkeypatch.setattr(theorems, "judged_averages_run", lambda *job: judged(*job) if job[2] == 1_000 else None)
    some = theorems.study_theorems(seeds=2, samples=10_000, workers=1, time_limit=60.0)
    for one, other in zip(some, whole, strict=True):
        assert (one.status, other.status) == ("time limit", "done")
        assert [point.samples for point in one.points] == [1_000, 1_000]
        same = [point for point in other.points if point.samples == 1_000]
        assert [point.checks for point in one.points] == [point.checks for point in same]
    assert theorem_verdicts(some)
    with pytest.raises(ib.Stopped, match="time limit"):
        theorems.study_theorems(seeds=2, samples=10_000, workers=1, time_limit=1e-9)


def test_what_breaks_the_paper_s_experiments_off_carries_what_is_finished():
    """As a limit would leave it; nothing where a limit would be refused."""

    def interrupted(study, run, **sizes):
        def progress(done, _):
            if done == run:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt) as broken:
            study(workers=1, progress=progress, **sizes)
        return broken.value.partial

    sizes = {"seeds": 3, "samples": 1_000}
    whole, some = (
        reproduction.reproduce_queue(**sizes, workers=1),
        interrupted(reproduction.reproduce_queue, 13, **sizes),
    )
    assert (some.status, some.seeds, some.sweep) == ("interrupted", 2, ())
    for arm, other in zip(some.arms, whole.arms, strict=True):
        assert np.array_equal(arm.rewards, other.rewards[:2])
    assert interrupted(reproduction.reproduce_queue, 11, **sizes) is None
    first, second = interrupted(theorems.study_theorems, 9, seeds=2, samples=10_000)
    assert [point.samples for point in first.points] == [1_000, 1_000] and first.status == "interrupted"
    assert [point.samples for point in second.points] == [1_000, 1_000] and theorem_verdicts((first, second))
    assert interrupted(theorems.study_theorems, 1, seeds=2, samples=10_000) is None


def test_runs_are_made_seed_by_seed_so_that_a_limit_is_fair():
    """In which order they are finished is all that a limit can cut."""
    queue, seen = ib.zoo.queue(), []

    def jobs(function, waiting, *, finished, **options):
        seen.extend((record_of(task.settings).name, seed) for task, _, _, seed, _ in waiting)
        return run_jobs(function, waiting, finished=finished, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("inbounds.studies.runs.run_jobs", jobs)
        run_arms(
            [(queue, ib.CRPO.practical()), (queue, ib.CSPDA.practical())],
            samples=1_000,
            checkpoints=[1_000],
            seeds=3,
            workers=1,
        )
    assert seen == [("CRPO", 1), ("CSPDA", 1), ("CRPO", 2), ("CSPDA", 2)]


def test_a_frontier_without_a_point_says_no_bound_that_it_does_not_know():
    with pytest.raises(ib.Stopped, match=r"after \d+ unconstrained solves, before anything was finished$") as stopped:
        ib.frontier(ib.zoo.garnet(states=100, seed=1), 0, points=5, certificate=True, iterations=20)
    assert stopped.value.partial.upper == float("inf")
