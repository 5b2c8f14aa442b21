"""`inbounds plan`: what the paper's theorem asks for."""

from __future__ import annotations

import click

from inbounds.cli.arguments import bound_option, json_option, problem_from, refuse_given, set_option
from inbounds.cli.printing import duration, print_json, print_wrapped

_SIZES = ("states", "pairs", "constraints", "discount")


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
@click.option("--algorithm", help="Another one of Table 1: what its own bound comes to in samples.")
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
    algorithm: str | None,
    as_json: bool,
) -> None:
    """What the paper asks for a target accuracy.

    Shows CSPDA's samples and settings by the paper's formulas, in four readings, and which promise needs which
    constant: the theorem's statement, its proof (1195.5), the corollary for kappa = 0 (the same), and the experiment
    (0.02), which no theorem covers. Epsilon is in scaled units: the range of the reward is 1.

    With --algorithm: the own bound of an algorithm of Table 1, such as a regret, converted to samples as in the paper's
    appendix, for problems with a horizon too. Orders of magnitude: constants and logarithms are left out. PDSC's paper
    counts no samples, only iterations whose values are given.

    \b
    Examples
      inbounds plan queue --epsilon 0.1
      inbounds plan media --algorithm opt-dual
      inbounds plan --states 1000 --pairs 8000 --discount 0.99 --slater 0.1
    """
    from dataclasses import asdict

    import inbounds as ib
    from inbounds.algorithms.paper_plan import Sizes
    from inbounds.errors import InvalidInput
    from inbounds.problem.criterion import discount_in_words
    from inbounds.tables import as_given, so_many

    if problem is not None:
        refuse_given("is for a plan without PROBLEM, which has its own sizes: leave it out", *_SIZES)
        target = problem_from(problem, parameters)
        if algorithm is None and "discount" not in target.criterion:
            raise InvalidInput(
                f"{problem} is no discounted problem, and the paper's plan is for these; --algorithm plans for finite "
                "horizons too, as in: inbounds plan media --algorithm opt-dual"
            )
    elif states is None or pairs is None:
        raise InvalidInput("give a PROBLEM, or --states and --pairs (and --slater)")
    else:
        refuse_given("changes a PROBLEM: give one, or leave it out", "parameters", "bound")
        target = Sizes(states, pairs, constraints, discount)
        if slater is None and algorithm is None:
            raise InvalidInput(
                "give --slater, the Slater constant in scaled units; only for a PROBLEM can it be computed"
            )
    if algorithm is not None:
        if slater is not None:
            raise InvalidInput("--slater is for the plan of CSPDA: the orders of other algorithms leave it out")
        converted = ib.plan(target, epsilon=epsilon, algorithm=algorithm)
        if as_json:
            print_json(
                algorithm=algorithm,
                epsilon=epsilon,
                steps={step: str(order) for step, order in converted.steps},
                samples=converted.samples,
                iterations=converted.iterations,
                failure=converted.failure,
                mean=converted.mean,
                printed=str(converted.row.printed),
                conventions=converted.conventions,
                remarks=converted.row.remarks,
            )
        else:
            within = f"within {as_given(epsilon)} of the optimum per step, in scaled units"
            print_wrapped(f"{converted.row.name}, {within}\n{converted}")
        return
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
        f"{so_many(found.sizes.n_states, 'state')}, {so_many(found.sizes.n_pairs, 'pair')}, "
        f"{so_many(found.sizes.n_constraints, 'constraint')}, "
        f"{discount_in_words(found.sizes.discount)}; Slater constant {found.slater:.6g}; "
        f"expected reward within {as_given(epsilon)} of the optimum"
    )
    print_wrapped(str(found))
    print_wrapped(
        f"At 10 million samples a second the proof's takes {duration(found.proof.samples / 1e7)}; the experiment's has "
        f"{found.proof.samples / found.experiment.samples:.2g} times fewer samples."
    )
