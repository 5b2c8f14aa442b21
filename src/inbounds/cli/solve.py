"""`inbounds solve`: the exact optimum."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import click

from inbounds.cli import EXIT_STOPPED, EXIT_UNPROVED, complain
from inbounds.cli.arguments import (
    FILE,
    json_option,
    policy_option,
    print_headline,
    problem_argument,
    problem_facts,
    problem_from,
    require_outputs,
    save_policy_option,
)
from inbounds.cli.printing import (
    facts_of,
    gap_status,
    print_json,
    print_policy,
    print_table,
    print_wrapped,
    tidy,
    value_text,
)

_HOW_TO_CHECK = (
    "To check the certificate, solve with --save-model FILE.npz too: `inbounds verify` takes the model in just the "
    "bytes that inbounds writes."
)


@click.command("solve")
@problem_argument
@click.option("--method", default="auto", show_default=True, help="auto, bundle, lp or polish.")
@click.option(
    "--coins",
    type=click.Choice(["few", "any"]),
    default="few",
    show_default=True,
    help="Randomise in no more states than there are constraints, or wherever it falls.",
)
@click.option("--deterministic", is_flag=True, help="Never randomise: the best such policy that is found (NP-hard).")
@click.option("--tolerance", type=float, default=1e-8, show_default=True, help="The relative gap that may remain.")
@click.option("--time-limit", type=float, help="Seconds for the whole of it.")
@policy_option
@save_policy_option
@click.option("--certificate", type=FILE, help="Save the proof, as JSON.")
@click.option("--save-model", type=FILE, help="Save the model, .npz or .toml.")
@json_option
def command(
    problem: str,
    parameters: tuple[str, ...],
    show_policy: bool,
    save_policy: Path | None,
    certificate: Path | None,
    save_model: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Solve PROBLEM exactly: optimum and prices.

    PROBLEM is a name from `inbounds zoo`, or a model file (.toml, .npz). The policy's values are evaluated on the
    model, not taken from the solver; the gap bounds how far from optimal it can be. When no policy is in bounds, says
    which constraints conflict, and exits with 3; --certificate then holds the proof of that. Exits with 4 when the
    policy could not be proved to be in bounds, and with 5 at the time limit, with the best policy known by then; or
    when no policy is found that never randomises.

    \b
    Examples
      inbounds solve queue
      inbounds solve queue --set buffer=20 --set discount=0.9 --policy
      inbounds solve model.toml
      inbounds solve queue --deterministic --time-limit 60
      inbounds solve queue --bound service=0.5 --save-policy best.json
      inbounds solve queue --save-model queue.npz --certificate queue.json
      inbounds verify queue.npz queue.json
    """
    import inbounds as ib

    loaded = problem_from(problem, parameters)
    require_outputs(
        ("--save-model", save_model, "model"),
        ("--save-policy", save_policy, "policy"),
        ("--certificate", certificate, "certificate"),
        read=(problem,),
    )
    if save_model is not None:
        loaded.save(save_model)
    checkable = certificate is None or _is_in_a_file(loaded, problem, save_model)
    try:
        with gap_status(quiet=as_json) as reports:
            best = ib.solve(loaded, **reports, **options)
        proof = best.certificate
    except ib.Infeasible as error:
        if certificate is not None:
            from inbounds.proofs.known_model import certify_infeasible

            _save(certify_infeasible(error, loaded), certificate)
            if not checkable and not as_json:
                print_wrapped(_HOW_TO_CHECK)
        if as_json:
            _print_infeasible(error, loaded, problem)
        raise
    except ib.Stopped as error:
        if as_json:
            upper = getattr(error.partial, "upper", math.inf)
            print_json(
                problem=problem_facts(loaded, problem),
                status=error.status,
                in_bounds=False,
                upper_bound=upper if math.isfinite(upper) else None,
            )
        raise
    if certificate is not None:
        _save(proof, certificate)
    if save_policy is not None:
        best.policy.save(save_policy)
    if as_json:
        print_json(
            problem=problem_facts(loaded, problem),
            **facts_of(best, "method", "unconstrained_solves", "reward", "total_reward", "total_margins"),
            **facts_of(best, "upper_bound", "gap", "in_bounds", "status", "price_of_determinism"),
            coins=best.policy.coins,
            kept_in_rationals=best.kept_in_rationals,
            loosening=None if best.loosening is None else best.loosening.tolist(),
            certificate=None if proof is None else proof.to_dict(),
            constraints=[
                {"name": c.name, "bound": c.bound, "margin": float(m), "price": float(p), **moving}
                for c, m, p, moving in zip(loaded.constraints, best.margins, best.prices, _moving(best), strict=True)
            ],
            policy=best.policy.probabilities.tolist(),
        )
        _leave(best)
        return
    print_headline(loaded, problem)
    print_wrapped(f"optimum   {value_text(best.reward, loaded, digits=12)} (gap {best.gap:.1e}, by {best.method})")
    if loaded.constraints:
        print_table(
            ("constraint", "bound", "margin", "price"),
            [
                (c.name, c.in_words, f"{tidy(m, s):.6g}", f"{p:.6g}")
                for c, m, s, p in zip(loaded.constraints, best.margins, loaded.margin_scales, best.prices, strict=True)
            ],
        )
        gains = "that the optimum which may randomise gains" if options["deterministic"] else "gained"
        print_wrapped(f"The price is the reward {gains} per unit of bound relaxed; 0 where the bound does not matter.")
    click.echo(_coins_text(best.policy))
    if best.sensitivities is not None and loaded.constraints:
        print_wrapped(
            "As one bound moves, and the others do not, all prices stay at least from ... to ...; just below and just "
            "above that, its own price is (-: the range has no end there, or none is proved):"
        )
        print_table(*best.sensitivities.table)
    if options["deterministic"]:
        print_wrapped(f"Its reward is {best.standing}.")
    if best.linked:
        print_wrapped(
            f"What the policy is made of falls into {best.linked} classes of states that do not meet; it links them, "
            f"and its gap says what that costs. Changes of class are rare: short runs do not show the average."
        )
    if best.status not in ("optimal", "best found", "not proved"):  # of the last the verdict has the words
        stalled = "the gap is not as small as was asked for"
        print_wrapped(f"{best.status}: {stalled if best.status == 'stalled' else 'this is what was known by then'}")
    print_wrapped("not certified: there was no time left" if proof is None else best.verdict)
    if not checkable and proof is not None:
        print_wrapped(_HOW_TO_CHECK)
    if show_policy:
        print_policy(best.policy, negligible=0.0)  # a coin, however small, was counted as one
    _leave(best)


def _print_infeasible(error: Any, cmdp: Any, problem: str) -> None:
    """That no policy is in bounds, and why, as JSON; null: to relax this bound alone does not help, or is not known."""
    found = error.diagnosis
    moved = [float(bound) if math.isfinite(bound) else None for bound in found.relaxed_bounds]
    alone = [float(value) if math.isfinite(value) else None for value in found.best_alone]
    print_json(
        problem=problem_facts(cmdp, problem),
        status="infeasible",
        in_bounds=False,
        slater=float(error.slater),
        conflict=list(found.conflict),
        constraints=[
            {"name": c.name, "bound": c.bound, "weight": float(price), "best_alone": best, "relax_to": relaxed}
            for c, price, best, relaxed in zip(cmdp.constraints, error.prices, alone, moved, strict=True)
        ],
    )


def _coins_text(policy: Any) -> str:
    """In how many states a policy randomises, in one sentence."""
    if not policy.coins:
        return "The policy never randomises."
    states, stages = policy.pairs.n_states, policy.horizon or 1
    each = "" if policy.horizon is None else f" ({states:,} at each of {stages:,} stages)"
    return f"The policy randomises in {policy.coins:,} of {states * stages:,} states{each}."


def _moving(best: Any) -> list[dict[str, float | str | None]]:
    """The range of each price, and the prices beyond, for JSON, which knows no infinity; null: not known."""
    if best.ranges is None:
        return [dict.fromkeys(("from", "to", "price_below", "price_above")) for _ in best.prices]
    return [
        {"from": _end(low), "to": _end(high), "price_below": _beyond(low, below), "price_above": _beyond(high, above)}
        for (low, high), (below, above) in zip(best.ranges.tolist(), best.prices_beyond.tolist(), strict=True)
    ]


def _end(end: float) -> float | str:
    return "no end" if math.isinf(end) else end


def _beyond(end: float, price: float) -> float | str | None:
    """The price beyond an end, as `Sensitivities.beyond` has it, but told apart from one where there is no end."""
    if math.isinf(end):
        return "no end"
    return "no policy" if math.isinf(price) else None if math.isnan(price) else price


def _save(proof: Any, path: Path) -> None:
    from inbounds.proofs.files import save_certificate

    if proof is None:
        complain(f"{path} is not written: there was no time left for a proof")
    else:
        save_certificate(proof, path)


def _is_in_a_file(cmdp: Any, problem: str, saved: Path | None) -> bool:
    """Whether the model was saved, or is given, in the bytes that a certificate names it by."""
    from hashlib import file_digest

    from inbounds.formats.npz import digest

    if saved is not None and saved.suffix.lower() == ".npz":
        return True
    if Path(problem).suffix.lower() != ".npz":
        return False
    with open(problem, "rb") as stream:
        return file_digest(stream, "sha256").hexdigest() == digest(cmdp)


def _leave(best: Any) -> None:
    """End with the exit code of an answer that is not what was asked for."""
    if "limit" in best.status:
        sys.exit(EXIT_STOPPED)
    if not best.in_bounds:
        sys.exit(EXIT_UNPROVED)
