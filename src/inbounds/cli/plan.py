"""`inbounds plan`: what the paper's theorem asks for."""

from __future__ import annotations

import click

from inbounds.cli.arguments import bound_option, json_option, problem_from, set_option
from inbounds.cli.printing import duration, print_json, print_wrapped


@click.command("plan")
@click.argument("problem", required=False)
@set_option
@bound_option
@click.option("--epsilon", type=float, default=0.1, show_default=True, help="Target accuracy, in scaled units.")
@click.option("--slater", type=float, help="Slater constant in scaled units; computed when PROBLEM is given.")
@click.option("--states", type=int, help="Without PROBLEM: number of states.")
@click.option("--pairs", type=int, help="Without PROBLEM: number of state-action pairs.")
@click.option("--constraints", type=int, default=1, show_default=True, help="Without PROBLEM: number of constraints.")
@click.option("--discount", type=float, default=0.9, show_default=True, help="Without PROBLEM: the discount.")
@json_option
def command(
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

    Shows CSPDA's samples and settings by the paper's formulas, in four readings, and which promise needs which
    constant: the theorem's statement, its proof (1195.5), the corollary for kappa = 0 (the same), and the experiment
    (0.02), which no theorem covers. Epsilon is in scaled units: the range of the reward is 1.

    \b
    Examples
      inbounds plan queue --epsilon 0.1
      inbounds plan --states 1000 --pairs 8000 --constraints 2 --discount 0.99 --slater 0.1
    """
    from dataclasses import asdict

    import inbounds as ib
    from inbounds.algorithms.paper_plan import Sizes
    from inbounds.errors import InvalidInput

    if problem is not None:
        target = problem_from(problem, parameters, discounted_for="plan")
    elif states is None or pairs is None:
        raise InvalidInput("give a PROBLEM, or --states and --pairs (and --slater)")
    else:
        target = Sizes(states, pairs, constraints, discount)
    found = ib.plan(target, epsilon=epsilon, slater=slater)
    if as_json:
        print_json(
            sizes=found.sizes._asdict(),
            epsilon=found.epsilon,
            slater=found.slater,
            **{name: asdict(settings) for name, settings in found.readings.items()},
        )
        return
    print_wrapped(
        f"{found.sizes.n_states:,} states, {found.sizes.n_pairs:,} pairs, {found.sizes.n_constraints} constraints, "
        f"discount {found.sizes.discount:g}; Slater constant {found.slater:.6g}; "
        f"expected reward within {epsilon:g} of the optimum"
    )
    click.echo(str(found))
    print_wrapped(
        f"At 10 million samples a second the proof's takes {duration(found.proof.samples / 1e7)}; the experiment's has "
        f"{found.proof.samples / found.experiment.samples:.2g} times fewer samples."
    )
