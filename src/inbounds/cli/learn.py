"""`inbounds learn`: from samples."""

from __future__ import annotations

import sys
from math import isnan
from typing import TYPE_CHECKING, Any

import click

from inbounds.cli import EXIT_STOPPED, EXIT_UNPROVED
from inbounds.cli.arguments import (
    json_option,
    policy_option,
    preset_option,
    problem_argument,
    problem_from,
    scale_option,
    time_limit_option,
)
from inbounds.cli.printing import (
    bound_text,
    print_json,
    print_policy,
    print_table,
    print_wrapped,
    problem_facts,
    progress_bar,
    value_text,
)

if TYPE_CHECKING:
    from inbounds.problem.cmdp import CMDP

_LONG = 40
"""Characters, from which on what a setting became is a sentence, with a line of its own."""


@click.command("learn")
@problem_argument
@click.option(
    "--algorithm",
    help="A name from `inbounds algorithms`.  [default: cspda; with --certified: a plan on the empirical model]",
)
@preset_option
@scale_option
@click.option("--samples", type=int, default=100_000, show_default=True, help="State-action-state transitions to draw.")
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
@click.option("--unconstrained", is_flag=True, help="Drop the constraints, for algorithms that know none.")
@click.option("--certified", is_flag=True, help="Return only a policy that the samples prove to be in bounds.")
@click.option("--confidence", type=float, default=0.99, show_default=True, help="With --certified: of the proof.")
@time_limit_option
@policy_option
@json_option
def command(
    problem: str,
    parameters: tuple[str, ...],
    algorithm: str | None,
    preset: str,
    scale: bool,
    samples: int,
    seed: int,
    unconstrained: bool,
    certified: bool,
    confidence: float,
    time_limit: float | None,
    show_policy: bool,
    as_json: bool,
    **options: float | None,
) -> None:
    """Learn PROBLEM from samples, and judge exactly.

    The learner sees a simulator only; the model is used afterwards, to say what its policy is really worth. With
    --certified, exit code 4 means that no policy could be proved to be in bounds.

    \b
    Examples
      inbounds learn queue --algorithm cspda --samples 100000 --seed 0
      inbounds learn queue --preset paper --slater 0.2 --kappa 0
      inbounds learn queue --preset paper --slater 0.2 --scale none
      inbounds learn queue --algorithm npg-pd --preset practical
      inbounds learn queue --algorithm ucbvi-gamma --unconstrained
      inbounds learn queue --certified --confidence 0.99
    """
    import inbounds as ib
    from inbounds.algorithms import ALGORITHMS
    from inbounds.errors import InvalidInput
    from inbounds.inputs import named

    cmdp = problem_from(problem, parameters, discounted_for="learn")
    if unconstrained:
        cmdp = cmdp.unconstrained()
    given = {name: value for name, value in options.items() if value is not None}  # settings of the algorithm
    if certified and algorithm is None:
        for name in given:
            raise InvalidInput(f"--{name} is a setting of an algorithm: give --algorithm, or leave --{name} out")
        _learn_certified(cmdp, scale, "model", samples, confidence, seed, time_limit, show_policy, as_json)
        return
    algorithm = algorithm or "cspda"
    settings_class = named(algorithm, ALGORITHMS, "algorithm")
    for name in given:
        if name not in settings_class.__dataclass_fields__:
            raise InvalidInput(f"{settings_class.algorithm.name} has no setting {name}: leave --{name} out")
    if cmdp.constraints and not settings_class.algorithm.constrained:
        raise InvalidInput(
            f"{settings_class.algorithm.name} knows no constraints, and {problem} has {cmdp.n_constraints}; "
            f"add --unconstrained to drop them"
        )
    settings = (settings_class.practical if preset == "practical" else settings_class)(**given)
    if certified:
        _learn_certified(cmdp, scale, settings, samples, confidence, seed, time_limit, show_policy, as_json)
        return
    best = ib.solve(cmdp)  # before anything is learned: it may say that there is nothing to learn
    with progress_bar("learning", samples, quiet=as_json) as advance_to:
        run = ib.learn(
            cmdp.simulator(scale), settings, samples=samples, seed=seed, progress=advance_to, time_limit=time_limit
        )
    judged = ib.evaluate(cmdp, run.policy)
    if as_json:
        print_json(
            problem=problem_facts(cmdp),
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
            optimum=best.reward,
            in_bounds=judged.in_bounds,
            constraints=[
                {"name": c.name, "margin": float(m), "total_margin": float(t), "price": None if isnan(p) else float(p)}
                for c, m, t, p in zip(cmdp.constraints, judged.margins, judged.total_margins, run.prices, strict=True)
            ],
            policy=run.policy.probabilities.tolist(),
            status=run.status,
        )
        sys.exit(0 if run.status == "done" else EXIT_STOPPED)
    click.echo(repr(cmdp))
    click.echo(
        f"{settings_class.algorithm.name}, {preset} settings{'' if scale else ', units as given'}, "
        f"{run.samples[-1]:,} samples, seed {seed}, {run.seconds:.2f} s"
    )
    shown = {name: value if isinstance(value, str) else f"{value:.6g}" for name, value in run.settings.items()}
    print_wrapped("  ".join(f"{name} {value}" for name, value in shown.items() if len(value) < _LONG))
    for name, value in shown.items():
        if len(value) >= _LONG:
            print_wrapped(f"{name}: {value}")
    click.echo(reward_text(judged, best, cmdp))
    if cmdp.constraints:
        print_table(
            ("constraint", "bound", "margin", "price, learned", "price, exact"),
            [
                (c.name, bound_text(c), f"{m:+.6g}", "none" if isnan(p) else f"{p:.4g}", f"{e:.4g}")
                for c, m, p, e in zip(cmdp.constraints, judged.margins, run.prices, best.prices, strict=True)
            ],
        )
        click.echo("IN BOUNDS" if judged.in_bounds else "OUT OF BOUNDS: a margin is negative")
    print_wrapped(f"guarantee {run.guarantee}")
    if show_policy:
        print_policy(run.policy)
    if run.status != "done":
        click.echo(f"{run.status.upper()}: {run.samples[-1]:,} of {samples:,} samples were drawn")
        sys.exit(EXIT_STOPPED)


def _learn_certified(
    cmdp: CMDP,
    scale: bool,
    learner: Any,
    samples: int,
    confidence: float,
    seed: int,
    time_limit: float | None,
    show_policy: bool,
    as_json: bool,
) -> None:
    """Learn and prove with samples; the model only says afterwards what the policy is really worth.

    When nothing could be proved, the process ends with `EXIT_UNPROVED`; when time was over first, `EXIT_STOPPED`.
    """
    import inbounds as ib

    with progress_bar("learning and proving", samples, quiet=as_json) as advance_to:
        run = ib.learn_certified(
            cmdp.simulator(scale),
            samples=samples,
            confidence=confidence,
            seed=seed,
            learner=learner,
            progress=advance_to,
            time_limit=time_limit,
        )
    judged = None if run.policy is None else ib.evaluate(cmdp, run.policy)
    if as_json:
        print_json(
            problem=problem_facts(cmdp),
            samples=run.samples,
            seed=seed,
            reason=run.reason,
            certificate=None if run.certificate is None else run.certificate.to_dict(),
            policy=None if run.policy is None else run.policy.probabilities.tolist(),
            reward=None if judged is None else judged.reward,
            margins=None if judged is None else judged.margins.tolist(),
            status=run.status,
        )
    else:
        click.echo(repr(cmdp))
        if run.certificate is not None:
            click.echo(str(run.certificate))
        click.echo(run.reason)
        if judged is None:
            click.echo("NO POLICY: nothing could be proved to be in bounds")
        else:
            best = ib.solve(cmdp)
            margins = [f", margin of {c.name} {m:+.4g}" for c, m in zip(cmdp.constraints, judged.margins, strict=True)]
            click.echo(f"On the model: {reward_text(judged, best, cmdp)}{''.join(margins)}")
            if show_policy:
                print_policy(run.policy)
    if run.status != "done":
        sys.exit(EXIT_STOPPED)
    if run.policy is None:
        sys.exit(EXIT_UNPROVED)


def reward_text(judged: Any, best: Any, cmdp: CMDP) -> str:
    return f"reward {value_text(judged.reward, cmdp)} (optimum {value_text(best.reward, cmdp)})"
