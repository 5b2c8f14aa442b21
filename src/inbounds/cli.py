"""The command line: one library call per sub-command.

Exit codes: 0 done; 1 something failed that should not have; 2 the input is wrong (one message says what); 3 no policy
is in bounds. Heavy imports stay inside the commands, so that the help appears at once.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from inbounds.model.cmdp import CMDP
    from inbounds.model.episodic import EpisodicCMDP

EXIT_INVALID, EXIT_INFEASIBLE = 2, 3


class _Cli(click.Group):
    """Turns the two refusals of the library into one message and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        from inbounds.errors import Infeasible, InvalidInput

        try:
            return super().invoke(ctx)
        except InvalidInput as error:
            _fail(str(error), EXIT_INVALID)
        except Infeasible as error:
            _fail(str(error), EXIT_INFEASIBLE)
        except OSError as error:
            _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), EXIT_INVALID)


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"inbounds: {message}", err=True)
    sys.exit(code)


@click.group(cls=_Cli, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="inbounds", prog_name="inbounds")
def main() -> None:
    """The most reward among the policies that keep every bound.

    inbounds solves finite constrained Markov decision processes: exactly when the model is known, from samples when
    there is only a simulator.

    \b
    Begin with
      inbounds solve queue          the exact optimum of the paper's queue, and the price of each bound
      inbounds learn queue          learn it from samples
      inbounds frontier queue --constraint service      what each bound costs, as a picture
      inbounds reproduce queue      the paper's experiment, its figures and its table

    Values are discounted averages per step, normalised by (1 - discount); "total" is the discounted sum.
    Exit codes: 2 for wrong input, 3 when no policy is in bounds.
    """


def _with(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def decorate(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


_problem = _with(
    click.argument("problem"),
    click.option(
        "--set",
        "parameters",
        multiple=True,
        metavar="NAME=VALUE",
        help="Change a parameter of the problem, e.g. --set discount=0.9 (see `inbounds zoo PROBLEM`).",
    ),
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for machines.")


@main.command()
@_problem
@click.option("--method", default="auto", show_default=True, help="auto, bundle, lp or polish.")
@click.option("--tolerance", type=float, default=1e-8, show_default=True, help="The relative gap that may remain.")
@click.option("--policy", "show_policy", is_flag=True, help="Also print the policy, state by state.")
@click.option("--certificate", type=click.Path(dir_okay=False, path_type=Path), help="Save the proof, as JSON.")
@click.option("--save-model", type=click.Path(dir_okay=False, path_type=Path), help="Save the model, .npz or .toml.")
@_json
def solve(
    problem: str,
    parameters: tuple[str, ...],
    method: str,
    tolerance: float,
    show_policy: bool,
    certificate: Path | None,
    save_model: Path | None,
    as_json: bool,
) -> None:
    """Solve PROBLEM exactly: optimum and prices.

    PROBLEM is a name from `inbounds zoo`, or a model file (.toml, .npz). The policy's values are evaluated on the
    model, not taken from the solver; the gap bounds how far from optimal it can be. When no policy is in bounds, says
    which constraints conflict, and exits with 3.

    \b
    Examples
      inbounds solve queue
      inbounds solve queue --set buffer=20 --set discount=0.9 --policy
      inbounds solve model.toml
      inbounds solve queue --save-model queue.npz --certificate queue.json
      inbounds verify queue.npz queue.json
    """
    import inbounds as ib

    loaded = _load(problem, parameters)
    discounted = isinstance(loaded, ib.CMDP)
    if not discounted and (certificate is not None or save_model is not None):
        raise ib.InvalidInput(
            f"{problem} has a finite horizon; models and proofs are saved of discounted problems only"
        )
    with _gap_progress(quiet=as_json) as report:
        best: Any = ib.solve(loaded, method=method, tolerance=tolerance, progress=report)
    if save_model is not None:
        _load_discounted(problem, parameters, "solve").save(save_model)
    if certificate is not None:
        from inbounds.certify.files import save_certificate

        save_certificate(best.certificate, certificate)
    horizon = getattr(loaded, "horizon", None)
    if as_json:
        totals = {} if horizon else {"total_reward": best.total_reward, "total_margins": best.total_margins.tolist()}
        _print_json(
            problem=_problem_facts(loaded),
            method=best.method,
            unconstrained_solves=best.unconstrained_solves,
            reward=best.reward,
            **totals,
            upper_bound=best.upper_bound,
            gap=best.gap,
            in_bounds=best.in_bounds,
            certificate=best.certificate.to_dict() if discounted else None,
            constraints=[
                {"name": c.name, "margin": float(m), "price": float(p)}
                for c, m, p in zip(loaded.constraints, best.margins, best.prices, strict=True)
            ],
            policy=best.policy.probabilities.tolist(),
        )
        return
    click.echo(repr(loaded))
    if horizon:
        click.echo(f"optimum   {best.reward:.12g} over {horizon} stages (gap {best.gap:.1e}, by {best.method})")
    else:
        click.echo(
            f"optimum   {best.reward:.9g} per step, {best.total_reward:.12g} in total "
            f"(gap {best.gap:.1e}, by {best.method})"
        )
    if loaded.constraints:
        _print_table(
            ("constraint", "bound", "margin", "price"),
            [
                (c.name, _bound_text(c), f"{_tidy(m, s):.6g}", f"{p:.6g}")
                for c, m, s, p in zip(loaded.constraints, best.margins, loaded.margin_scales, best.prices, strict=True)
            ],
        )
        click.echo("The price is the reward gained per unit of bound relaxed; 0 where the bound does not matter.")
    if discounted:
        click.echo(best.certificate.verdict)
    if show_policy and horizon:
        for stage in range(horizon):
            click.echo(f"stage {stage}")
            _print_policy(best.policy.at(stage))
    elif show_policy:
        _print_policy(best.policy)


@main.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("certificate", type=click.Path(path_type=Path))
@_json
def verify(model: Path, certificate: Path, as_json: bool) -> None:
    """Check a CERTIFICATE against a MODEL (.npz).

    The checker is one file of the standard library, `certify/verify.py`, and runs without the rest of the project:
    `python verify.py model.npz certificate.json`. It accepts only what holds in exact rational arithmetic. Exit code 0
    when it accepts, 1 when it does not.
    """
    from inbounds.certify.verify import verify as check

    accepted, lines = check(str(model), str(certificate))
    if as_json:
        _print_json(accepted=accepted, lines=lines)
    else:
        click.echo(f"{'ACCEPTED' if accepted else 'REJECTED'}: {lines[0]}")
        for line in lines[1:]:
            click.echo(f"  {line}")
    if not accepted:
        sys.exit(1)


@main.command()
@_problem
@click.option("--constraint", required=True, help="The name of the constraint whose bound moves, or its position.")
@click.option("--points", type=int, default=50, show_default=True, help="How many bounds.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("frontier"),
    show_default=True,
    help="Where the picture and the CSV go.",
)
@_json
def frontier(
    problem: str, parameters: tuple[str, ...], constraint: str, points: int, output: Path, as_json: bool
) -> None:
    """The optimum as one bound moves: the price of safety.

    Moves one bound of PROBLEM from where it does not matter to where nothing is in bounds, the others unchanged; draws
    the optimum with the price as its slope, and writes SVG, PNG and CSV.

    \b
    Examples
      inbounds frontier queue --constraint service
      inbounds frontier model.toml --constraint repairs --points 20
    """
    import inbounds as ib

    cmdp = _load_discounted(problem, parameters, "frontier")
    names = [c.name for c in cmdp.constraints]
    which: str | int = int(constraint) if constraint.isdecimal() and constraint not in names else constraint
    curve = ib.frontier(cmdp, which, points)

    from inbounds.report.frontier import write_frontier

    written = write_frontier(curve, names, output)
    prices = curve.prices[:, names.index(curve.constraint)]
    if as_json:
        _print_json(
            problem=_problem_facts(cmdp),
            constraint=curve.constraint,
            at_least=curve.at_least,
            matters_from=curve.matters_from,
            possible_to=curve.possible_to,
            bounds=curve.bounds.tolist(),
            rewards=curve.rewards.tolist(),
            prices=curve.prices.tolist(),
            files=[str(path) for path in written],
        )
        return
    click.echo(repr(cmdp))
    sign = ">=" if curve.at_least else "<="
    shown = sorted({round(step * (points - 1) / 9) for step in range(10)})
    _print_table(
        (f"bound on {curve.constraint}", "optimum", "price"),
        [(f"{sign} {curve.bounds[p]:.6g}", f"{curve.rewards[p]:.6g}", f"{prices[p]:.4g}") for p in shown],
    )
    begins, ends = (_tidy(end, float(abs(curve.bounds).max())) for end in (curve.matters_from, curve.possible_to))
    click.echo(f"The bound begins to matter at {begins:.6g}; no policy keeps one beyond {ends:.6g}.")
    click.echo(f"The picture is in {output.resolve()}: {', '.join(path.name for path in written)}")


@main.command()
@_problem
@click.option("--algorithm", default="cspda", show_default=True, help="The algorithm's name.")
@click.option(
    "--preset",
    type=click.Choice(["paper", "practical"]),
    default="practical",
    show_default=True,
    help="The paper's formulas, or settings that work (no theorem covers them).",
)
@click.option("--samples", type=int, default=100_000, show_default=True, help="State-action-state transitions to draw.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same run, bit for bit.")
@click.option("--slater", type=float, help="Slater constant in scaled units; estimated from samples when not given.")
@click.option(
    "--kappa", type=float, help="Tightening in scaled units; 0 switches it off. Default: the paper's formula."
)
@click.option("--certified", is_flag=True, help="Return only a policy that the samples prove to be in bounds.")
@click.option("--confidence", type=float, default=0.99, show_default=True, help="With --certified: of the proof.")
@click.option("--policy", "show_policy", is_flag=True, help="Also print the policy, state by state.")
@_json
def learn(
    problem: str,
    parameters: tuple[str, ...],
    algorithm: str,
    preset: str,
    samples: int,
    seed: int,
    slater: float | None,
    kappa: float | None,
    certified: bool,
    confidence: float,
    show_policy: bool,
    as_json: bool,
) -> None:
    """Learn PROBLEM from samples, and judge exactly.

    The learner sees a simulator only; the model is used afterwards, to say what its policy is really worth.

    \b
    Examples
      inbounds learn queue --algorithm cspda --samples 100000 --seed 0
      inbounds learn queue --preset paper --slater 0.2 --kappa 0
      inbounds learn queue --certified --confidence 0.99
    """
    import inbounds as ib
    from inbounds.errors import InvalidInput
    from inbounds.learn import ALGORITHMS

    cmdp = _load_discounted(problem, parameters, "learn")
    if certified:
        _learn_certified(cmdp, samples, confidence, seed, show_policy, as_json)
        return
    if algorithm not in ALGORITHMS:
        raise InvalidInput(f"no algorithm is called {algorithm!r}; there are: {', '.join(ALGORITHMS)}")
    settings_class = ALGORITHMS[algorithm]
    make = settings_class.practical if preset == "practical" else settings_class
    settings = make(slater=slater, kappa=kappa)
    with _progress("learning", samples, quiet=as_json) as advance_to:
        run = ib.learn(cmdp.simulator(), settings, samples=samples, seed=seed, progress=advance_to)
    judged = ib.evaluate(cmdp, run.policy)
    best = ib.solve(cmdp)
    if as_json:
        _print_json(
            problem=_problem_facts(cmdp),
            algorithm=algorithm,
            preset=preset,
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
                {"name": c.name, "margin": float(m), "total_margin": float(t), "price": float(p)}
                for c, m, t, p in zip(cmdp.constraints, judged.margins, judged.total_margins, run.prices, strict=True)
            ],
            policy=run.policy.probabilities.tolist(),
        )
        return
    click.echo(repr(cmdp))
    click.echo(
        f"{settings_class.algorithm.name}, {preset} settings, {run.samples[-1]:,} samples, seed {seed}, "
        f"{run.seconds:.2f} s"
    )
    click.echo("  ".join(f"{name} {_setting_text(value)}" for name, value in run.settings.items()))
    click.echo(
        f"reward    {judged.reward:.6g} per step, {judged.total_reward:.6g} in total "
        f"(optimum {best.reward:.6g}, {best.total_reward:.6g})"
    )
    if cmdp.constraints:
        _print_table(
            ("constraint", "bound", "margin", "price, learned", "price, exact"),
            [
                (c.name, _bound_text(c), f"{m:+.6g}", f"{p:.4g}", f"{e:.4g}")
                for c, m, p, e in zip(cmdp.constraints, judged.margins, run.prices, best.prices, strict=True)
            ],
        )
    click.echo("IN BOUNDS" if judged.in_bounds else "OUT OF BOUNDS: a margin is negative")
    click.echo(f"guarantee {run.guarantee}")
    if show_policy:
        _print_policy(run.policy)


def _learn_certified(cmdp: CMDP, samples: int, confidence: float, seed: int, show_policy: bool, as_json: bool) -> None:
    """Learn and prove with samples; the model only says afterwards what the policy is really worth."""
    import inbounds as ib

    with _progress("learning and proving", samples, quiet=as_json) as advance_to:
        run = ib.learn_certified(
            cmdp.simulator(), samples=samples, confidence=confidence, seed=seed, progress=advance_to
        )
    judged = None if run.policy is None else ib.evaluate(cmdp, run.policy)
    if as_json:
        _print_json(
            problem=_problem_facts(cmdp),
            samples=run.samples,
            seed=seed,
            reason=run.reason,
            certificate=None if run.certificate is None else run.certificate.to_dict(),
            policy=None if run.policy is None else run.policy.probabilities.tolist(),
            reward=None if judged is None else judged.reward,
            margins=None if judged is None else judged.margins.tolist(),
        )
        return
    click.echo(repr(cmdp))
    if run.certificate is not None:
        click.echo(str(run.certificate))
    click.echo(run.reason)
    if run.policy is None or judged is None:
        click.echo("NO POLICY: nothing could be proved to be in bounds")
        return
    best = ib.solve(cmdp)
    click.echo(
        f"On the model: reward {judged.reward:.6g} per step, {judged.total_reward:.6g} in total "
        f"(optimum {best.reward:.6g}, {best.total_reward:.6g}); margins "
        + ", ".join(f"{c.name} {m:+.4g}" for c, m in zip(cmdp.constraints, judged.margins, strict=True))
    )
    if show_policy:
        _print_policy(run.policy)


@main.command()
@click.argument("problem", required=False)
@click.option("--set", "parameters", multiple=True, metavar="NAME=VALUE", help="Change a parameter of the problem.")
@click.option("--epsilon", type=float, default=0.1, show_default=True, help="Target accuracy, in scaled units.")
@click.option("--slater", type=float, help="Slater constant in scaled units; computed when PROBLEM is given.")
@click.option("--states", type=int, help="Without PROBLEM: number of states.")
@click.option("--pairs", type=int, help="Without PROBLEM: number of state-action pairs.")
@click.option("--constraints", type=int, default=1, show_default=True, help="Without PROBLEM: number of constraints.")
@click.option("--discount", type=float, default=0.9, show_default=True, help="Without PROBLEM: the discount.")
@_json
def plan(
    problem: str | None,
    parameters: tuple[str, ...],
    epsilon: float,
    slater: float | None,
    states: int | None,
    pairs: int | None,
    constraints: int,
    discount: float,
    as_json: bool,
) -> None:
    """What the paper asks for a target accuracy.

    Shows CSPDA's samples and settings by the paper's formulas, twice: with the constant 1195.5 that its proof needs,
    and with the 0.02 of its experiment, which no theorem covers. Epsilon is in scaled units: the range of the reward
    is 1.

    \b
    Examples
      inbounds plan queue --epsilon 0.1
      inbounds plan --states 1000 --pairs 8000 --constraints 2 --discount 0.99 --slater 0.1
    """
    from dataclasses import asdict

    import inbounds as ib
    from inbounds.errors import InvalidInput
    from inbounds.learn.plan import Sizes

    target: Any
    if problem is not None:
        target = _load_discounted(problem, parameters, "plan")
    elif states is None or pairs is None:
        raise InvalidInput("give a PROBLEM, or --states and --pairs (and --slater)")
    else:
        target = Sizes(states, pairs, constraints, discount)
    found = ib.plan(target, epsilon=epsilon, slater=slater)
    if as_json:
        _print_json(
            sizes=found.sizes._asdict(),
            epsilon=found.epsilon,
            slater=found.slater,
            proof=asdict(found.proof),
            experiment=asdict(found.experiment),
        )
        return
    click.echo(
        f"{found.sizes.n_states:,} states, {found.sizes.n_pairs:,} pairs, {found.sizes.n_constraints} constraints, "
        f"discount {found.sizes.discount:g}; Slater constant {found.slater:.6g}; "
        f"expected reward within {epsilon:g} of the optimum"
    )
    click.echo(str(found))
    click.echo(
        "The guarantee holds in the left column only. At 10 million samples a second it takes "
        f"{_duration(found.proof.samples / 1e7)}; the right column is what the paper's experiment uses, "
        f"{found.proof.samples / found.experiment.samples:.2g} times fewer samples, and no theorem covers it."
    )


@main.command()
@click.argument("experiment", type=click.Choice(["queue"]))
@click.option("--seeds", type=int, default=200, show_default=True, help="Runs of each setting.")
@click.option("--samples", type=int, default=100_000, show_default=True, help="Samples of each run.")
@click.option("--jobs", type=int, help="Worker processes.  [default: one per core]")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("reproduction/queue"),
    show_default=True,
    help="Where the figures go.",
)
@_json
def reproduce(experiment: str, seeds: int, samples: int, jobs: int | None, output: Path, as_json: bool) -> None:
    """The paper's experiment: figures and table.

    200 seeds x {kappa = 0, kappa > 0} x 100,000 samples, with the paper's formulas and with the practical preset.
    Writes Figure 1 (reward), Figure 2 (constraint values) and the error-bar figure as SVG and PNG, and a CSV of the
    curves; prints the table, and where the paper's claim holds. The result does not depend on the number of workers.
    """
    from inbounds.study.reproduce import reproduce_queue

    total = 4 * seeds
    with _progress("runs", total, quiet=as_json) as advance_to:
        done = reproduce_queue(seeds=seeds, samples=samples, workers=jobs, progress=lambda count, _: advance_to(count))

    from inbounds.report.reproduction import summary_rows, verdicts, write_reproduction

    written = write_reproduction(done, output)
    rows = summary_rows(done)
    if as_json:
        _print_json(
            arms=rows,
            seeds=seeds,
            samples=samples,
            optimum=done.optimum,
            conservative_optimum=done.conservative_optimum,
            verdicts=verdicts(done),
            files=[str(path) for path in written],
        )
        return
    click.echo(f"CSPDA on the paper's queue: {seeds} runs of {samples:,} samples; totals, mean (standard deviation)")
    _print_table(
        ("setting", "kappa", "reward", *done.constraint_names, "out of bounds"),
        [
            (
                row["setting"],
                f"{row['kappa']:.4f}",
                f"{row['mean_total_reward']:.3f} ({row['sd_total_reward']:.3f})",
                *(
                    f"{mean:+.3f} ({sd:.3f})"
                    for mean, sd in zip(row["mean_total_margins"], row["sd_total_margins"], strict=True)
                ),
                f"{row['share_out_of_bounds']:.1%}",
            )
            for row in rows
        ],
    )
    click.echo(
        f"LP optimum {done.optimum:.6f}; "
        f"conservative LP optimum {done.conservative_optimum:.6f} (kappa = {done.kappa:.6f})"
    )
    for line in verdicts(done):
        click.echo(line)
    click.echo(f"The pictures are in {output.resolve()}:")
    for path in written:
        click.echo(f"  {path.name}")


@main.command()
@click.argument("problem", required=False)
@_json
def zoo(problem: str | None, as_json: bool) -> None:
    """List the named problems, or explain one."""
    import inspect

    from inbounds.errors import InvalidInput
    from inbounds.zoo import PROBLEMS

    if problem is not None and problem not in PROBLEMS:
        raise InvalidInput(f"no problem is called {problem!r}; there are: {', '.join(PROBLEMS)}")
    shown = PROBLEMS if problem is None else {problem: PROBLEMS[problem]}
    facts = {
        name: {
            "summary": (inspect.getdoc(make) or "").split("\n")[0],
            "parameters": {p.name: p.default for p in inspect.signature(make).parameters.values()},
        }
        for name, make in shown.items()
    }
    if as_json:
        _print_json(**facts)
    elif problem is None:
        _print_table(("problem", "what it is"), [(name, str(fact["summary"])) for name, fact in facts.items()])
        click.echo("`inbounds zoo PROBLEM` shows the parameters of one.")
    else:
        text = inspect.getdoc(PROBLEMS[problem]) or ""
        click.echo(text.split("\nExamples\n")[0].rstrip())
        click.echo("\nDefaults: " + ", ".join(f"{k}={v!r}" for k, v in facts[problem]["parameters"].items()))  # type: ignore[attr-defined]


def _load(problem: str, parameters: tuple[str, ...]) -> CMDP | EpisodicCMDP:
    """The problem that the user named, with the parameters that they set; or the model in the file that they named."""
    import inspect

    from inbounds import formats
    from inbounds import zoo as problems
    from inbounds.errors import InvalidInput

    make = problems.PROBLEMS.get(problem)
    if make is None and Path(problem).suffix in formats.FORMATS:
        if parameters:
            raise InvalidInput("--set changes problems of the zoo; a model in a file has no parameters, edit the file")
        return formats.load(problem)
    if make is None:
        raise InvalidInput(
            f"no problem is called {problem!r}; give a file ({', '.join(formats.FORMATS)}) or one of: "
            f"{', '.join(problems.PROBLEMS)}"
        )
    known = inspect.signature(make).parameters
    values: dict[str, Any] = {}
    for parameter in parameters:
        name, equals, text = parameter.partition("=")
        if not equals:
            raise InvalidInput(f"--set takes NAME=VALUE, found {parameter!r}")
        if name not in known:
            raise InvalidInput(f"{problem} has no parameter {name!r}; it has: {', '.join(known)}")
        try:
            values[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            values[name] = text  # a word, such as full_buffer=free
    try:
        return make(**values)
    except TypeError as error:
        raise InvalidInput(f"{problem} cannot be built from {', '.join(parameters)}: {error}") from error


def _load_discounted(problem: str, parameters: tuple[str, ...], command: str) -> CMDP:
    from inbounds.errors import InvalidInput
    from inbounds.model.cmdp import CMDP

    loaded = _load(problem, parameters)
    if not isinstance(loaded, CMDP):
        raise InvalidInput(f"{problem} has a finite horizon; `inbounds {command}` takes discounted problems")
    return loaded


def _problem_facts(problem: Any) -> dict[str, Any]:
    span = {"horizon": problem.horizon} if hasattr(problem, "horizon") else {"discount": problem.discount}
    return {
        "name": problem.name,
        "states": problem.n_states,
        "pairs": problem.n_pairs,
        "constraints": problem.n_constraints,
        **span,
    }


@contextmanager
def _progress(what: str, total: int, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, when that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def _gap_progress(quiet: bool) -> Iterator[Callable[[int, float, float], None]]:
    """The bounds on the optimum as they close, one line on stderr, when that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda solves, lower, upper: None
        return
    with console.status("solving") as status:
        yield lambda solves, lower, upper: status.update(
            f"{solves} unconstrained solves, optimum between {lower:.9g} and {upper:.9g}, gap {upper - lower:.1e}"
        )


def _print_json(**facts: Any) -> None:
    click.echo(json.dumps(facts, indent=2, ensure_ascii=False))


def _print_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from inbounds.table import text_table

    click.echo(text_table(header, rows))


def _print_policy(policy: Any) -> None:
    for state, actions in policy.by_label().items():
        click.echo(f"  {state}: " + ", ".join(f"{action} {share:.4g}" for action, share in actions.items()))


def _bound_text(constraint: Any) -> str:
    return f"{'>=' if constraint.at_least is not None else '<='} {constraint.bound:g}"


def _tidy(margin: float, scale: float) -> float:
    """Zero for what is zero up to rounding."""
    return 0.0 if abs(margin) <= 1e-12 * scale else float(margin)


def _setting_text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def _duration(seconds: float) -> str:
    for unit, length in (("years", 31_557_600.0), ("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.2g} seconds"
