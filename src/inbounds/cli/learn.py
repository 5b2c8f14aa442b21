"""`inbounds learn`: from samples."""

from __future__ import annotations

import sys
from math import isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from inbounds.cli import EXIT_STOPPED, EXIT_UNPROVED
from inbounds.cli.arguments import (
    WHOLE_NUMBER,
    json_option,
    policy_option,
    preset_option,
    print_headline,
    problem_argument,
    problem_facts,
    problem_from,
    refuse_given,
    require_outputs,
    safe_from,
    safe_option,
    save_policy_option,
    scale_option,
    time_limit_option,
)
from inbounds.cli.printing import (
    policy_facts,
    print_json,
    print_policy,
    print_table,
    print_wrapped,
    progress_bar,
    value_text,
)
from inbounds.errors import within_memory
from inbounds.tables import printable

if TYPE_CHECKING:
    from inbounds.problem.cmdp import CMDP

_LONG = 40
"""Characters, from which on what a setting became is a sentence, with a line of its own."""


@click.command("learn")
@problem_argument
@click.option(
    "--algorithm",
    help="A name from `inbounds algorithms`.  [default: cspda, with a horizon opt-cmdp; with --certified: a plan on "
    "the empirical model]",
)
@preset_option
@scale_option
@click.option(
    "--samples", type=WHOLE_NUMBER, default=100_000, show_default=True, help="State-action-state transitions to draw."
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same run, bit for bit.")
@click.option(
    "--slater",
    type=float,
    help="Slater constant in the units of --scale (`inbounds plan PROBLEM` shows it for `theory`); estimated from "
    "samples when not given.",
)
@click.option(
    "--kappa",
    type=float,
    help="Tightening in the units of --scale; 0 switches it off. Default: the algorithm's own rule.",
)
@safe_option
@click.option(
    "--slack", type=float, help="What every margin of --safe is at least, in scaled units; estimated if not given."
)
@click.option(
    "--epsilon",
    type=float,
    help="Where an episodic learner truncates a discounted problem: discount^H <= epsilon.  [default: 0.001]",
)
@click.option("--unconstrained", is_flag=True, help="Drop the constraints, for algorithms that know none.")
@click.option("--certified", is_flag=True, help="Return only a policy that the samples prove to be in bounds.")
@click.option(
    "--mixture",
    is_flag=True,
    help="With --certified: a mixture of policies, one of them drawn at the start of an episode; about as good.",
)
@click.option("--confidence", type=float, default=0.99, show_default=True, help="With --certified: of the proof.")
@time_limit_option
@policy_option
@save_policy_option
@json_option
def command(
    problem: str,
    parameters: tuple[str, ...],
    algorithm: str | None,
    preset: str,
    scale: bool,
    samples: int,
    seed: int,
    safe: str | None,
    unconstrained: bool,
    certified: bool,
    mixture: bool,
    confidence: float,
    time_limit: float | None,
    show_policy: bool,
    save_policy: Path | None,
    as_json: bool,
    **options: float | None,
) -> None:
    """Learn PROBLEM from samples, and judge exactly.

    The learner sees a simulator only; the model is used afterwards, to say what its policy is really worth, and of an
    online learner what every episode on the way was. With --certified, exit code 4 means that no policy could be proved
    to be in bounds.

    \b
    Examples
      inbounds learn queue --algorithm cspda --samples 100000 --seed 0
      inbounds learn queue --preset paper --slater 0.2 --kappa 0
      inbounds learn queue --preset paper --slater 0.2 --scale none
      inbounds learn queue --algorithm npg-pd --preset practical
      inbounds learn queue --algorithm ucbvi-gamma --unconstrained
      inbounds learn media --algorithm opt-cmdp
      inbounds learn media --algorithm dope --safe half
      inbounds learn queue --certified --confidence 0.99
      inbounds learn queue --certified --mixture
    """
    import inbounds as ib
    from inbounds.algorithms import ALGORITHMS
    from inbounds.errors import Infeasible, InvalidInput
    from inbounds.inputs import named
    from inbounds.studies.regret import episode_optimum, play, plays_online
    from inbounds.studies.safe import check_on_model, takes_safe

    cmdp = problem_from(
        problem, parameters, discounted_for="learn --certified" if certified else "learn", horizons=not certified
    )
    if unconstrained:
        cmdp = cmdp.unconstrained()
    if mixture and (not certified or algorithm is not None):
        raise InvalidInput("--mixture goes with --certified, and without --algorithm: its policies are planned")
    if not certified:
        refuse_given("is that of a proof: add --certified, or leave it out", "confidence")
    require_outputs(("--save-policy", save_policy, "mixture" if mixture else "policy"), read=(problem, safe))
    settings_given = {**options, "safe": safe_from(safe, cmdp)}
    given: dict[str, Any] = {name: value for name, value in settings_given.items() if value is not None}
    how = (samples, confidence, seed, time_limit, show_policy, save_policy, as_json)
    if certified and algorithm is None:
        refuse_given("is a setting of an algorithm: give --algorithm, or leave it out", "preset", *given)
        _learn_certified(cmdp, problem, scale, "model", *how, mixture)
        return
    if algorithm is None:
        algorithm = "cspda" if cmdp.horizon is None else "opt-cmdp"
    settings_class = named(algorithm, ALGORITHMS, "algorithm")
    for name in given:
        if name not in settings_class.__dataclass_fields__:
            raise InvalidInput(f"{settings_class.algorithm.name} has no setting {name}: leave --{name} out")
    if cmdp.constraints and not settings_class.algorithm.constrained:
        raise InvalidInput(
            f"{settings_class.algorithm.name} knows no constraints, and {problem} has {cmdp.n_constraints}; "
            f"add --unconstrained to drop them"
        )
    if takes_safe(settings_class) and safe is None and cmdp.constraints:
        raise InvalidInput(
            f"{settings_class.algorithm.name} needs a policy that is known to be in bounds: add --safe half, for one "
            f"that the model gives, or --safe FILE"
        )
    settings = (settings_class.practical if preset == "practical" else settings_class)(**given)
    check_on_model(settings, cmdp)
    if certified:
        _learn_certified(cmdp, problem, scale, settings, *how)
        return
    online = plays_online(settings)
    try:
        best = ib.solve(cmdp)  # before anything is learned: it may say that there is nothing to learn
    except Infeasible as proof:
        if not online:
            raise
        best, why = None, str(proof)  # an online learner plays on, and is said to be out of bounds
    cost: dict[str, list[float]] = {}
    with progress_bar("learning", samples, quiet=as_json) as advance_to, within_memory(samples):
        asked: Any = {"samples": samples, "seed": seed, "progress": advance_to, "time_limit": time_limit}
        if online:
            most = nan if best is None else episode_optimum(cmdp, settings)
            run, cost = play(cmdp, settings, most, scale=scale, **asked)
        else:
            run = ib.learn(cmdp.simulator(scale), settings, **asked)
    judged = ib.evaluate(cmdp, run.policy)
    if save_policy is not None:
        run.policy.save(save_policy)
    if as_json:
        print_json(
            problem=problem_facts(cmdp, problem),
            algorithm=algorithm,
            preset=preset,
            scale="theory" if scale else "none",
            samples=int(run.samples[-1]),
            seed=seed,
            seconds=run.seconds,
            settings=dict(run.settings),
            guarantee=run.guarantee,
            reward=judged.reward,
            total_reward=judged.total_reward,
            optimum=None if best is None else best.reward,
            in_bounds=judged.in_bounds,
            constraints=[
                {"name": c.name, "margin": float(m), "total_margin": float(t), "price": None if isnan(p) else float(p)}
                for c, m, t, p in zip(cmdp.constraints, judged.margins, judged.total_margins, run.prices, strict=True)
            ],
            policy=run.policy.probabilities.tolist(),
            episodes={name: None if isnan(sums[-1]) else sums[-1] for name, sums in cost.items()} or None,
            status=run.status,
        )
        sys.exit(0 if run.status == "done" else EXIT_STOPPED)
    print_headline(cmdp, problem)
    print_wrapped(
        f"{settings_class.algorithm.name}, {preset} settings{'' if scale else ', units as given'}, "
        f"{run.samples[-1]:,} samples, seed {seed}, {run.seconds:.2f} s"
    )
    shown = {name: value if isinstance(value, str) else f"{value:.6g}" for name, value in run.settings.items()}
    print_wrapped("  ".join(f"{name} {value}" for name, value in shown.items() if len(value) < _LONG))
    for name, value in shown.items():
        if len(value) >= _LONG:
            print_wrapped(f"{name}: {value}")
    print_wrapped(reward_text(judged, best, cmdp))
    exact = [nan] * cmdp.n_constraints if best is None else best.prices
    if cmdp.constraints:
        print_table(
            ("constraint", "bound", "margin", "price, learned", "price, exact"),
            [
                (c.name, c.in_words, f"{m:+.6g}", *("none" if isnan(price) else f"{price:.4g}" for price in prices))
                for c, m, *prices in zip(cmdp.constraints, judged.margins, run.prices, exact, strict=True)
            ],
        )
        click.echo("IN BOUNDS" if judged.in_bounds else "OUT OF BOUNDS: a margin is negative")
    if best is None:
        print_wrapped(why)
    if cost:
        print_wrapped(_cost_text({name: sums[-1] for name, sums in cost.items()}))
    print_wrapped(f"guarantee {run.guarantee}")
    if show_policy:
        print_policy(run.policy)
    if run.status != "done":
        click.echo(f"{run.status.upper()}: {run.samples[-1]:,} of {samples:,} samples were drawn")
        sys.exit(EXIT_STOPPED)


def _learn_certified(
    cmdp: CMDP,
    problem: str,
    scale: bool,
    learner: Any,
    samples: int,
    confidence: float,
    seed: int,
    time_limit: float | None,
    show_policy: bool,
    save_policy: Path | None,
    as_json: bool,
    mixture: bool = False,
) -> None:
    """Learn and prove with samples; the model only says afterwards what the policy is really worth.

    When nothing could be proved, the process ends with `EXIT_UNPROVED`; when time was over first, `EXIT_STOPPED`.
    """
    import inbounds as ib

    with progress_bar("learning and proving", samples, quiet=as_json) as advance_to, within_memory(samples):
        run = ib.learn_certified(
            cmdp.simulator(scale),
            samples=samples,
            confidence=confidence,
            seed=seed,
            learner=learner,
            progress=advance_to,
            time_limit=time_limit,
            mixture=mixture,
        )
    judged = None if run.policy is None else ib.evaluate(cmdp, run.policy)
    if save_policy is not None and run.policy is not None:
        run.policy.save(save_policy)
    if as_json:
        print_json(
            problem=problem_facts(cmdp, problem),
            samples=run.samples,
            seed=seed,
            reason=run.reason,
            certificate=None if run.certificate is None else run.certificate.to_dict(),
            policy=None if run.policy is None else policy_facts(run.policy),
            reward=None if judged is None else judged.reward,
            margins=None if judged is None else judged.margins.tolist(),
            status=run.status,
        )
    else:
        print_headline(cmdp, problem)
        if run.certificate is not None:
            print_wrapped(str(run.certificate))
        print_wrapped(run.reason)
        if judged is None:
            click.echo("NO POLICY: nothing could be proved to be in bounds")
        else:
            best = ib.solve(cmdp)
            margins = [
                f", margin of {printable(c.name)} {m:+.4g}"
                for c, m in zip(cmdp.constraints, judged.margins, strict=True)
            ]
            print_wrapped(f"On the model: {reward_text(judged, best, cmdp)}{''.join(margins)}")
            if show_policy:
                print_policy(run.policy)
    if run.status != "done":
        sys.exit(EXIT_STOPPED)
    if run.policy is None:
        sys.exit(EXIT_UNPROVED)


def reward_text(judged: Any, best: Any, cmdp: CMDP) -> str:
    optimum = "no policy is in bounds" if best is None else f"optimum {value_text(best.reward, cmdp)}"
    return f"reward {value_text(judged.reward, cmdp)} ({optimum})"


def _cost_text(cost: dict[str, float]) -> str:
    """What the episodes of an online learner cost, in words; sums over so many episodes."""
    episodes = cost["episodes"]
    each = {name: total / max(episodes, 1.0) for name, total in cost.items()}
    regret = f"regret {each['regret']:.4g} (plain {each['plain_regret']:.4g}), "
    return (
        f"On the way, {episodes:,.0f} episodes; of each on average: {'' if isnan(each['regret']) else regret}"
        f"violation {each['violation']:.4g} (plain {each['plain_violation']:.4g}); "
        f"out of bounds in {each['out_of_bounds']:.1%} of them"
    )
