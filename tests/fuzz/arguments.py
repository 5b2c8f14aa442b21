"""Odd arguments: every public function and record, every argument of it, and all that is no number, or an odd one.

Each is called with what is right but for one argument, or two. It must answer, or refuse in a sentence that names the
argument: `InvalidInput`, or the TypeError of a wrong kind. What is no number is never taken for one; and a number is
one whoever wrote it: a `Fraction`, a `Decimal`, a scalar of NumPy, and an array without axes.
"""

from __future__ import annotations

import contextlib
import inspect
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import inbounds as ib
from inbounds.algorithms import ALGORITHMS

from .workers import ENOUGH, Failure, Report, Verdict, outcomes

COUNT = 20_000
SAMPLES = 60
"""Of a run with odd settings."""

NO_NUMBERS: dict[str, Any] = {
    "text": "0.5",
    "whole text": "2",
    "no text": "",
    "bytes": b"1",
    "nan": float("nan"),
    "nan of numpy": np.float32("nan"),
    "nan of decimals": Decimal("nan"),
    "signalling": Decimal("sNaN"),
    "complex": 1 + 0j,
    "complex of numpy": np.complex128(0.5),
    "list": [0.5],
    "nothing in a list": [],
    "tuple": (1, 2),
    "dict": {},
    "set": {0.5},
    "array": np.array([0.5]),
    "square": np.array([[1.0, 2.0], [3.0, 4.0]]),
    "text in an array": np.array("0.5"),
    "masked": np.ma.masked,
    "object": object(),
    "function": len,
    "type": int,
    "ellipsis": ...,
    "date": np.datetime64("2020-01-01"),
    "duration": np.timedelta64(1, "s"),
    "range": range(3),
}
SWITCHES: dict[str, Any] = {"True": True, "False": False, "True of numpy": np.True_}
NUMBERS: dict[str, Any] = {
    "infinite": float("inf"),
    "minus infinite": float("-inf"),
    "beyond floats": 10**400,
    "minus beyond floats": -(10**400),
    "a ratio beyond floats": Fraction(10**400, 3),
    "decimals beyond floats": Decimal("1e500"),
    "2^63": 2**63,
    "2^63 of numpy": np.uint64(2**63),
    "-2^70": -(2**70),
    "beyond printing": 10**5_000,
    "largest": 1.7e308,
    "smallest": 5e-324,
    "minus smallest": -5e-324,
    "minus one": -1,
    "zero": 0,
    "minus zero": -0.0,
    "one": 1,
    "fraction of a count": 2.7,
    "a ratio": Fraction(2, 7),
    "decimals": Decimal("0.3"),
    "just above one": 1.0000001,
    "half": 0.5,
}
ODD = {"None": None} | NO_NUMBERS | SWITCHES | NUMBERS

KINDS: dict[str, Callable[[Any], Any]] = {
    "Fraction": Fraction,
    "Decimal": Decimal,
    "scalar of numpy": lambda number: np.array(number)[()],
    "array without axes": np.array,
}
"""The same number, written otherwise."""


def tiny(**criterion: Any) -> ib.CMDP:
    """Two states, three pairs, one constraint with room to spare."""
    return ib.CMDP(
        offsets=[0, 2, 3],
        transition=[[1.0, 0.0], [0.25, 0.75], [0.5, 0.5]],
        reward=[0.25, 1.0, 0.5],
        constraints=[ib.Constraint([0.0, 1.0, 0.5], at_most=0.625 * criterion.get("horizon", 1), name="cost")],
        initial=[0.5, 0.5],
        name="tiny",
        **(criterion or {"discount": 0.5}),
    )


def step(state: Any, action: Any, rng: Any) -> tuple[int, float, list[float]]:
    return int(rng.integers(2)), 0.5, [0.25]


def begin(rng: Any) -> int:
    return 0


def choices(state: Any) -> list[int]:
    return [0, 1]


def moves(state: Any, action: Any) -> dict[int, float]:
    return {0: 0.5, 1: 0.5}


def gain(state: Any, action: Any) -> float:
    return 0.5


class Calls:
    """Every public callable by its name, with arguments that are right; made anew in each process."""

    def __init__(self, folder: Path) -> None:
        cmdp, stages, policy = tiny(), tiny(horizon=2), ib.Policy.uniform(tiny())
        care = ib.Constraint([1.0, 0.0, 0.5], at_least=0.125, name="care")
        both = replace(cmdp, constraints=(*cmdp.constraints, care))
        simulator, rng = cmdp.simulator(), np.random.default_rng(0)
        cmdp.save(folder / "tiny.npz")
        policy.save(folder / "policy.npz")
        mixture = ib.Mixture([0.5, 0.5], [policy, policy])
        mixture.save(folder / "mixture.npz")
        constraint = cmdp.constraints[0]
        utility = ib.state_entropy(cmdp)
        own = {"step": step, "start": begin, "states": 2, "actions": choices, "discount": 0.5, "reward_range": (0, 1)}
        own |= {"constraints": [ib.Constraint(at_most=0.5, name="c")], "signal_ranges": [(0, 1)]}
        rules = {"start": 0, "actions": choices, "transitions": moves, "reward": gain, "discount": 0.5}
        rules |= {"time_limit": 2.0}
        record = {"offsets": cmdp.offsets, "transition": cmdp.transition, "reward": cmdp.reward, "discount": 0.5}
        record |= {"constraints": cmdp.constraints, "initial": cmdp.initial}
        dense = {"transition": np.full((2, 2, 2), 0.5), "reward": np.eye(2), "initial": [0.5, 0.5], "discount": 0.5}
        run = {"samples": SAMPLES, "time_limit": 2.0}
        few = {"samples": 1_000, "seeds": 1, "workers": 1, "time_limit": 2.0}
        compared = ib.compare(cmdp, ["crpo"], samples=1_000, seeds=1, workers=1)
        suite = ib.compare_suite({"tiny": cmdp}, ["crpo"], samples=1_000, seeds=1, workers=1)
        log = [(0, 1, 1, 0.5, [0.5]), (1, 0, 0, 0.25, [0.0]), (0, 0, 0, 0.5, [0.5]), (1, 1, 0, 0.5, [0.5])]
        self.all: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
            "CMDP": (ib.CMDP, record),
            "CMDP over stages": (ib.CMDP, {**record, "discount": None, "horizon": 2}),
            "CMDP.from_dense": (ib.CMDP.from_dense, dense),
            "CMDP.tightened": (cmdp.tightened, {"by": 0.125}),
            "CMDP.asking": (cmdp.asking, {"reward": np.array([0.0, 0.5, 1.0])}),
            "CMDP.with_bound": (cmdp.with_bound, {"constraint": "cost", "at_most": 0.5}),
            "CMDP.constraint_number": (cmdp.constraint_number, {"constraint": 0}),
            "CMDP.simulator": (cmdp.simulator, {}),
            "CMDP.save": (cmdp.save, {"path": folder / "saved.npz"}),
            "Constraint": (ib.Constraint, {"signal": [0.0, 1.0], "at_most": 0.5, "name": "c"}),
            "Constraint.margin": (constraint.margin, {"signal": 0.5}),
            "Constraint.with_bound": (constraint.with_bound, {"bound": 0.5}),
            "Constraint.tightened": (constraint.tightened, {"by": 0.125}),
            "Mixture": (ib.Mixture, {"weights": [0.5, 0.5], "policies": [policy, policy]}),
            "Mixture.draw": (mixture.draw, {"rng": rng}),
            "Mixture.save": (mixture.save, {"path": folder / "saved.json"}),
            "Mixture.load": (ib.Mixture.load, {"path": folder / "mixture.npz"}),
            "Pairs.sum_by_state": (cmdp.pairs.sum_by_state, {"values": [0.5, 0.5, 1.0]}),
            "Pairs.best": (cmdp.pairs.best, {"values": [0.5, 0.5, 1.0]}),
            "Pairs.table": (cmdp.pairs.table, {"values": [0.5, 0.5, 1.0]}),
            "Pairs.vector": (cmdp.pairs.vector, {"table": [[0.5, 0.5], [1.0, 0.0]]}),
            "Pairs.actions_of": (cmdp.pairs.actions_of, {"state": 1}),
            "Pairs.state_label": (cmdp.pairs.state_label, {"state": 1}),
            "Pairs.action_label": (cmdp.pairs.action_label, {"pair": 2}),
            "Pairs.describe": (cmdp.pairs.describe, {"pair": 2}),
            "Pairs.state_number": (cmdp.pairs.state_number, {"label": 1}),
            "Policy": (ib.Policy, {"pairs": cmdp.pairs, "probabilities": policy.probabilities}),
            "Policy.uniform": (ib.Policy.uniform, {"problem": cmdp}),
            "Policy.from_table": (ib.Policy.from_table, {"problem": cmdp, "table": [[0.5, 0.5], [1.0, 0.0]]}),
            "Policy.deterministic": (ib.Policy.deterministic, {"problem": cmdp, "chosen": [0, 2]}),
            "Policy.from_rule": (ib.Policy.from_rule, {"problem": cmdp, "rule": lambda state: 0}),
            "Policy.from_occupancy": (ib.Policy.from_occupancy, {"problem": cmdp, "occupancy": [0.5, 0.25, 0.25]}),
            "Policy.at": (ib.Policy.uniform(stages).at, {"stage": 1}),
            "Policy.by_label": (policy.by_label, {}),
            "Policy.act": (policy.act, {"state": 0, "rng": rng}),
            "Policy.act over stages": (ib.Policy.uniform(stages).act, {"state": 0, "rng": rng, "stage": 1}),
            "Policy.compare": (policy.compare, {"other": policy}),
            "Policy.save": (policy.save, {"path": folder / "saved.csv"}),
            "Policy.load": (ib.Policy.load, {"path": folder / "policy.npz"}),
            "Policy.plot": (policy.plot, {"path": folder / "saved.svg"}),
            "Simulator": (ib.Simulator, own),
            "Simulator over stages": (ib.Simulator, {**own, "discount": None, "horizon": 2}),
            "Simulator.tabular": (ib.Simulator.tabular, {"cmdp": cmdp}),
            "Utility": (ib.Utility, {"value": utility.value, "gradient": utility.gradient, "lipschitz": 2.0}),
            "Utility.at_least": (utility.at_least, {"bound": 0.5}),
            "build": (ib.build, rules),
            "build over stages": (ib.build, {**rules, "discount": None, "horizon": 2}),
            "certify": (ib.certify, {"policy": policy, "problem": cmdp}),
            "certify on samples": (ib.certify, {"policy": policy, "problem": simulator, "seed": 0} | run),
            "compare": (ib.compare, {"cmdp": cmdp, "algorithms": ["crpo"]} | few),
            "compare_suite": (ib.compare_suite, {"suite": {"tiny": cmdp}, "algorithms": ["crpo"]} | few),
            "Comparison.entry": (compared.entry, {"name": "crpo"}),
            "Comparison.losses": (compared.losses, {"entry": compared.entry("crpo")}),
            "SuiteComparison.score": (suite.score, {"algorithm": "crpo", "samples": 1_000}),
            "estimate": (ib.estimate, {"simulator": simulator, "policy": policy} | run),
            "evaluate": (ib.evaluate, {"cmdp": cmdp, "policy": policy}),
            "from_counts": (
                ib.from_counts,
                {
                    "transitions": log,
                    "start": 0,
                    "constraints": [ib.Constraint(at_most=0.5, name="c")],
                    "discount": 0.5,
                    "reward_range": (0, 1),
                    "signal_ranges": [(0, 1)],
                },
            ),
            "frontier": (ib.frontier, {"cmdp": cmdp, "points": 3, "time_limit": 2.0}),
            "frontier of bounds": (ib.frontier, {"cmdp": cmdp, "bounds": [0.5, 0.6], "time_limit": 2.0}),
            "frontier between": (ib.frontier, {"cmdp": cmdp, "between": (0.5, 0.6), "points": 2, "time_limit": 2.0}),
            "iterate": (ib.iterate, {"cmdp": cmdp, "algorithm": ib.RPGPD(), "iterations": 20, "time_limit": 2.0}),
            "judge_averages": (
                ib.judge_averages,
                {"run": ib.learn(simulator, ib.CSPDA.practical(), samples=SAMPLES), "cmdp": cmdp},
            ),
            "learn": (ib.learn, {"simulator": simulator, "algorithm": ib.CRPO.practical()} | run),
            "learn over stages": (
                ib.learn,
                {"simulator": stages.simulator(), "algorithm": ib.OptCMDP.practical()} | run,
            ),
            "learn_certified": (ib.learn_certified, {"simulator": simulator} | run),
            "load": (ib.load, {"path": folder / "tiny.npz"}),
            "mix": (ib.mix, {"cmdp": cmdp, "policies": [policy, policy]}),
            "negative_kl": (ib.negative_kl, {"problem": cmdp, "target": [0.5, 0.5]}),
            "occupancy": (ib.occupancy, {"cmdp": cmdp, "policy": policy}),
            "plan": (ib.plan, {"problem": cmdp, "epsilon": 0.125}),
            "plan of sizes": (ib.plan, {"problem": (2, 3, 1, 0.5), "epsilon": 0.125, "slater": 0.5}),
            "plan of another": (ib.plan, {"problem": cmdp, "epsilon": 0.125, "algorithm": "crpo"}),
            "report": (ib.report, {"cmdp": cmdp, "path": folder / "page.html", "points": 3, "time_limit": 2.0}),
            "simulate": (
                ib.simulate,
                {"problem": cmdp, "policy": policy, "steps": 5, "runs": 2, "time_limit": 2.0},
            ),
            "slater": (ib.slater, {"cmdp": cmdp}),
            "solve": (ib.solve, {"problem": cmdp}),
            "state_entropy": (ib.state_entropy, {"problem": cmdp}),
            "surface": (
                ib.surface,
                {"cmdp": both, "first": "cost", "second": "care", "points": 2, "time_limit": 2.0},
            ),
            "truncate": (ib.truncate, {"cmdp": cmdp, "epsilon": 0.125}),
            "truncate to a horizon": (ib.truncate, {"cmdp": cmdp, "horizon": 3}),
            "zoo.make": (ib.zoo.make, {"name": "queue"}),
            "zoo.suite": (ib.zoo.suite, {}),
        }
        for place, what in enumerate(("n_states", "n_pairs", "n_constraints", "discount")):
            self.all[f"plan, {what}"] = _plan_of_sizes(place, what)
        for name in ib.zoo.names():
            small = {"garnet": {"states": 5}, "hazard_grid": {"size": 8, "horizon": 4}}.get(name, {})
            self.all[f"zoo.{name}"] = (getattr(ib.zoo, name), small)
        for name, one in ALGORITHMS.items():
            online = one.algorithm.criterion == "finite-horizon"
            asked = stages if online else cmdp if one.algorithm.constrained else cmdp.unconstrained()
            learner = asked.simulator()
            safe = {"safe": ib.Policy.uniform(stages)} if "safe" in inspect.signature(one).parameters else {}
            self.all[f"settings of {name}"] = (_ran(one, learner), safe)
            self.all[f"preset of {name}"] = (_ran(one.practical, learner), safe)


def _plan_of_sizes(place: int, what: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A plan as a function of one of the sizes, and its usual value."""
    usual = (2, 3, 1, 0.5)

    def plan(**size: Any) -> Any:
        return ib.plan((*usual[:place], size[what], *usual[place + 1 :]), epsilon=0.125, slater=0.5)

    kind = float if what == "discount" else int
    only = inspect.Parameter(what, inspect.Parameter.KEYWORD_ONLY, annotation=kind.__name__)
    plan.__signature__ = inspect.Signature([only])  # type: ignore[attr-defined]
    return plan, {what: usual[place]}


def _ran(make: Callable[..., Any], simulator: ib.Simulator) -> Callable[..., Any]:
    """Settings, and a few steps with them."""

    def run(**settings: Any) -> Any:
        made = make(**settings)
        try:
            return ib.learn(simulator, made, samples=SAMPLES, time_limit=2.0)
        except ib.InvalidInput as refusal:
            if "ib.iterate" not in str(refusal):
                raise
        return ib.iterate(tiny(), made, iterations=10, time_limit=2.0)

    owner = getattr(make, "__self__", make)
    run.__signature__ = inspect.signature(owner)  # type: ignore[attr-defined]
    return run


NAMED_OTHERWISE: dict[str, str] = {
    "algorithm": "is called",
    "average": "exactly one of|criterion|is for",
    "at_most": "the bound",
    "bound": "at_least",
    "bounds": "between",
    "label": "state",
    "cmdp": "CMDP|model",
    "constraints": "signal_ranges",
    "discount": "exactly one of",
    "first": "constraint",
    "horizon": "exactly one of|stages",
    "journal": "file|director",
    "path": "file|suffix|picture|director",
    "name": "is called",
    "offsets": "states|transition must",
    "policy": "policies",
    "policies": "policy|weights",
    "problem": "CMDP",
    "reward": "rewards",
    "reward_range": "range",
    "second": "constraint",
    "signal_ranges": "range",
    "simulator": "learners see",
    "smoothing": "sum to",
    "start": "was never left",
    "states": "actions",
    "transitions": "row",
}
"""What a refusal may say of an argument instead of its name."""

FUNCTIONS = {
    "actions",
    "gradient",
    "progress",
    "proof_progress",
    "reward",
    "rule",
    "says",
    "start",
    "step",
    "transitions",
    "value",
}
"""Arguments that may be functions: what fails in them is the user's own."""


def numeric(call: Callable[..., Any], argument: str) -> bool:
    """Whether one number is asked for, and nothing else but None or a text."""
    said = re.sub(r"\b(None|str)\b|np\.random\.SeedSequence|[\s|']", "", str(_annotation(call, argument)))
    return re.sub("float|int", "", said) == "" and said != ""


def _annotation(call: Callable[..., Any], argument: str) -> Any:
    found = inspect.signature(call).parameters[argument].annotation
    return "" if found is inspect.Parameter.empty else found


def judged(call: Callable[..., Any], good: dict[str, Any], odd: dict[str, str]) -> tuple[str, str]:
    """What came of it, and what is wrong with that; `odd` says by name what each argument is instead."""
    given = good | {argument: ODD[value] for argument, value in odd.items()}
    try:
        call(**given)
    except (ib.InvalidInput, TypeError, ValueError) as error:
        said = str(error)
        if any(argument in FUNCTIONS and value in ("function", "type") for argument, value in odd.items()):
            return "refused", ""
        if not isinstance(error, ib.InvalidInput | TypeError):
            raise
        if not any(_names(argument, said) for argument in odd):
            return "refused", f"a refusal that names none of {', '.join(odd)}: {type(error).__name__}: {said[:300]}"
        if len(said) > 2_000:
            return "refused", f"a refusal of {len(said):,} characters"
        return "refused", ""
    except (ib.Infeasible, ib.Stopped):
        return "answered", ""
    except MemoryError:
        large = any(value in NUMBERS for value in odd.values())
        return "too large", "" if large else "out of memory"
    for argument, value in odd.items():
        if argument == "missing" and value.startswith("nan"):  # which stands for what is not there
            continue
        if numeric(call, argument) and (value in NO_NUMBERS or value in SWITCHES):
            words = value in ("text", "whole text", "no text") and "str" in str(_annotation(call, argument))
            return "answered", "" if words else f"{value} is taken for the number {argument}"
    return "answered", ""


def _names(argument: str, said: str) -> bool:
    words = {argument, argument.rstrip("s"), *NAMED_OTHERWISE.get(argument, "").split("|")} - {""}
    return any(word.lower() in said.lower() for word in words)


def rewritten(call: Callable[..., Any], good: dict[str, Any], argument: str, kind: str) -> str:
    """What is wrong with the answer to the same number, written otherwise."""
    number = good.get(argument, inspect.signature(call).parameters[argument].default)
    try:
        call(**good | {argument: KINDS[kind](number)})
    except ib.InvalidInput as error:
        return f"refused as a {kind}: {str(error)[:200]}"
    except (ib.Infeasible, ib.Stopped):  # an answer, as in `judged`: on a busy machine kernels take long to load
        return ""
    return ""


_CALLS: dict[str, Any] = {}


def verdict(case: tuple[str, dict[str, str]]) -> Verdict:
    """Of one call."""
    if not _CALLS:
        folder = tempfile.TemporaryDirectory()
        _CALLS.update(Calls(Path(folder.name)).all, folder=folder)
    name, odd = case
    call, good = _CALLS[name]
    with contextlib.chdir(_CALLS["folder"].name):  # "0.5" is a path too
        if set(odd.values()) & set(KINDS):
            ((argument, kind),) = odd.items()
            complaint, came = rewritten(call, good, argument, kind), "rewritten"
        else:
            came, complaint = judged(call, good, odd)
    return Verdict([f"{name}({odd}): {complaint}"] if complaint else [], {came: 1})


def cases(seed: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Every argument with every odd value, in the order that the seed gives; then two at a time, without end."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        calls = {name: (call, good) for name, (call, good) in Calls(Path(folder)).all.items()}
    single: list[tuple[str, dict[str, str]]] = []
    arguments = {name: list(inspect.signature(call).parameters) for name, (call, _) in calls.items()}
    for name, (call, good) in calls.items():
        for argument in arguments[name]:
            unprintable = {"beyond printing"} if not numeric(call, argument) else set()  # labels are printed by Python
            single += [(name, {argument: value}) for value in ODD if value not in unprintable]
            number = good.get(argument, inspect.signature(call).parameters[argument].default)
            if numeric(call, argument) and isinstance(number, int | float) and not isinstance(number, bool):
                own = isinstance(number, int) and " of " in name  # a setting that is whole is written as one
                single += [(name, {argument: kind}) for kind in list(KINDS)[2 * own :]]
    rng.shuffle(single)
    yield from single
    printable = [value for value in ODD if value != "beyond printing"]
    several = [name for name in calls if len(arguments[name]) > 1]
    while True:
        name = rng.choice(several)
        yield name, {argument: rng.choice(printable) for argument in rng.sample(arguments[name], 2)}


WITH_KERNELS = (
    "certify",
    "compare",
    "estimate",
    "frontier",
    "iterate",
    "learn",
    "preset",
    "report",
    "simulate",
    "surface",
)
"""How the calls begin that compile."""


def compiled() -> None:
    """All that needs kernels once, so that they are on disk: what is slow later does not compile."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, (call, good) in Calls(Path(folder)).all.items():
            if name.startswith(WITH_KERNELS):
                with contextlib.suppress(ib.InvalidInput, ib.Stopped):
                    call(**good)


def run(count: int, seed: int, seconds: float) -> Report:
    began, report, done = time.monotonic(), Report(), 0
    compiled()
    for case, found in outcomes(verdict, islice(cases(seed), count), began + seconds):
        done += 1
        report.tried.update(found.tried)
        for complaint in found.complaints:
            report.failures.append(Failure(case, complaint))
            print(f"  arguments: {case}: {complaint[:300]}", flush=True)
        if len(report.failures) >= ENOUGH:
            report.stopped = f"more than {ENOUGH} failures"
            break
    if done < count and not report.stopped:
        report.stopped = f"{seconds:g} s were over after {done:,} of {count:,} cases"
    report.seconds = time.monotonic() - began
    return report
