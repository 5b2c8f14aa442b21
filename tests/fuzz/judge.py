"""What must be true of every answer about a small model, held against the rationals.

    proved            a certificate says nothing false: exact margins and reward of its policy, exact optimum
    right             the optimum is in the bracket [certificate.reward_lower, upper_bound] of every method
    own               what is reported as the policy's values are its values
    feasible          Infeasible is raised if no policy is in bounds, and only then; a flag never says more
    tight             where there is room to spare the gap is what was asked for, and the proof is there

An answer may be refused by an error with a name of the library's, where the model is extreme.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import inbounds as ib
from inbounds.proofs.known_model import certify_infeasible

from . import rationals
from .workers import Verdict, in_time

HAIR = Fraction(1, 10**8)
"""Relative to the largest margin: closer to the boundary than this, feasibility may be left open, though not wrong."""

EDGE = Fraction(1, 10**10)
"""The same relative to signals and bounds: INFEASIBLE of exact/feasibility.py."""

PROVABLE = Fraction(3, 10**9)
"""A scaled Slater constant from which on a proof must be there: the library promises it above 1e-9."""

ROOMY = Fraction(1, 10**4)
"""A scaled Slater constant from which on prices are moderate, and a wide gap has no excuse."""

OWN = Fraction(1, 10**9)
"""How far reported values may be from the policy's exact ones, relative to the largest there can be."""


TINY = Fraction(1, 10**290)
"""What underflow may cost."""


class Complaints(list[str]):
    def __init__(self, prefix: str = "") -> None:
        super().__init__()
        self.prefix = prefix

    def unless(self, holds: bool, kind: str, detail: Any = "") -> None:
        if not holds:
            self.append(f"{kind} ({self.prefix}): {detail}")


class Truth:
    """The exact answers about a model."""

    def __init__(self, cmdp: ib.CMDP, loose: bool = False) -> None:
        self.cmdp = cmdp
        self.model = rationals.rational(cmdp)
        self.optimum = rationals.best(self.model, self.model.reward, self.model.margins)
        self.scales = self.model.scales
        self.dust = [Fraction(16, 2**53) * size for size in self.model.sizes]  # rounding of signal - bound
        self.size = max(map(abs, self.model.reward)) * self.model.layers
        self.room = rationals.slater(self.model, self.scales) if self.scales else None  # scaled
        # What plain floating point loses of a bound without a certificate, relative to the largest signal.
        smallest = min(float(matrix.data[matrix.data > 0.0].min()) for matrix in cmdp.transitions)
        left = 1 - self.model.discount if self.model.kind == "discount" else Fraction(1)
        lasting = Fraction(max(smallest, 1e-8)) if self.model.kind == "average" else left  # of relative values
        self.floating = Fraction(16, 2**53) / lasting
        # A proof's vectors are doubles: here they cannot hold the differences that it is made of.
        self.beyond = left < Fraction(1, 10**14)
        # Long-run averages that hinge on moves which linear programs do not see. Less may be claimed, never more.
        self.hinges = self.model.kind == "average" and smallest < 1e-12
        # What it may cost to link classes that do not meet, where moves are so rare: docs/exact.md.
        self.linking = Fraction(10.0 * (2.0**-52 / smallest) ** 0.5)
        # Whether parts may be held together by so little that a proof loses nearly what a link costs.
        self.loose = loose

    @property
    def feasible(self) -> bool:
        return self.optimum is not None

    @property
    def doubtful(self) -> bool:
        """So close to the boundary, for margins or for signals and bounds, that feasibility may be left open."""
        if self.room is None or abs(self.room) <= HAIR:
            return self.room is not None
        return abs(rationals.slater(self.model, [size or Fraction(1) for size in self.model.sizes])) <= EDGE

    def has_room(self, least: Fraction) -> bool:
        return self.room is None or self.room >= least


def judge_solution(truth: Truth, best: Any, complaints: Complaints, strict: bool) -> None:
    """`strict` asks for the gap and the digits that ordinary models have."""
    model, certificate = truth.model, best.certificate
    gains = [model.reward, *model.margins]
    exact = rationals.values(model, best.policy.probabilities, gains)
    wrong = complaints.unless
    lowest, highest = [min(v) for v in exact], [max(v) for v in exact]
    prices = [Fraction(float(p)) for p in best.prices]
    wrong(all(p >= 0 for p in prices), "negative price", best.prices)
    dual = rationals.best(model, rationals.priced(model, prices))
    assert dual is not None
    upper = Fraction(best.upper_bound) if np.isfinite(best.upper_bound) else None
    if certificate is not None:
        low = _fraction(certificate.reward_lower)
        wrong(
            low is None or low <= lowest[0],
            "false reward_lower",
            f"{certificate.reward_lower!r}, is {float(lowest[0])!r}",
        )
        for k, claimed in enumerate(map(_fraction, certificate.margins_lower)):
            wrong(
                claimed is None or claimed <= lowest[1 + k],
                "false margins_lower",
                f"{k}: {certificate.margins_lower[k]!r}, is {float(lowest[1 + k])!r}",
            )
        proved = all(m >= 0 for m in lowest[1:])
        wrong(proved or not certificate.in_bounds, "false in_bounds", [float(m) for m in lowest[1:]])
        ceiling = _fraction(certificate.reward_upper)
        wrong(
            ceiling is None or dual <= ceiling,
            "false reward_upper",
            f"{certificate.reward_upper!r}, dual {float(dual)!r}",
        )
        wrong(
            certificate.in_bounds
            or not truth.has_room(max(PROVABLE, truth.linking) if best.linked else PROVABLE)
            or truth.beyond
            or truth.hinges,
            "not proved",
            f"scaled Slater constant {float(truth.room or 0):.3g}, margins {certificate.margins_lower}",
        )
        wrong(best.in_bounds or not certificate.in_bounds, "flag below proof")
    # Reported values: the policy's own, or at least within the bracket that was proved.
    size = truth.size
    spread = Fraction(0)
    if not strict and certificate is not None and np.isfinite(certificate.gap):
        spread = Fraction(certificate.gap)
    wrong(
        lowest[0] - OWN * size - spread <= Fraction(best.reward) <= highest[0] + OWN * size + spread,
        "wrong reward",
        f"{best.reward!r}, is {float(lowest[0])!r}",
    )
    for k, scale in enumerate(truth.scales):
        slip = OWN * scale + truth.dust[k]
        wrong(
            lowest[1 + k] - slip <= Fraction(float(best.margins[k])) <= highest[1 + k] + slip or not strict,
            "wrong margin",
            f"{k}: {best.margins[k]!r}, is {float(lowest[1 + k])!r}",
        )
    if truth.optimum is None:
        wrong(
            not best.in_bounds,
            "in bounds of an infeasible problem",
            f"scaled Slater constant {float(truth.room or 0):.3g}",
        )
        wrong(truth.doubtful, "infeasible problem solved", f"scaled Slater constant {float(truth.room or 0):.3g}")
        return
    priced = size + sum((p * s for p, s in zip(prices, truth.scales, strict=True)), Fraction(0))
    rounding = priced / 10**12 + TINY
    proven = Fraction(0) if certificate is not None else rounding
    wrong(
        upper is None or truth.optimum <= upper + proven,
        "upper bound below optimum",
        f"{best.upper_bound!r} < {float(truth.optimum)!r}",
    )
    if truth.has_room(ROOMY):
        flat = max(model.reward) - min(model.reward)
        allowed = Fraction(2, 10**8) * max(abs(truth.optimum), flat * model.layers / 100) + rounding
        if model.kind == "average" and (best.linked or truth.loose):
            allowed += max(Fraction(1, 10**6), truth.linking) * priced  # the link, and what brings it into bounds
        elif model.kind == "average":
            allowed += truth.floating * size
        if strict:
            wrong(
                upper is not None and upper - lowest[0] <= allowed,
                "wide gap",
                f"{best.upper_bound!r} - {float(lowest[0])!r}",
            )
        wrong(best.in_bounds or truth.beyond or truth.hinges, "answer out of bounds", best.margins)


def judge_infeasible(truth: Truth, error: ib.Infeasible, complaints: Complaints, strict: bool) -> None:
    model, wrong = truth.model, complaints.unless
    wrong(not truth.feasible, "false Infeasible", f"scaled Slater constant {float(truth.room or 0):.3g}")
    prices = [Fraction(float(p)) for p in error.prices]
    best = rationals.best(model, rationals.priced(model, prices, reward=0))
    wrong(best is not None and best < 0, "Infeasible without proof", f"{float(best or 0)!r}")
    proof = certify_infeasible(error, truth.cmdp)
    wrong(best is not None and Fraction(proof.margin_upper) >= best, "false margin_upper", proof.margin_upper)
    wrong(proof.infeasible or not strict or truth.doubtful, "Infeasible not certified", proof.margin_upper)
    if not strict:
        return
    diagnosis = error.diagnosis
    for k, constraint in enumerate(truth.cmdp.constraints):
        close = Fraction(1, 10**6) * truth.scales[k]
        others = [margin for j, margin in enumerate(model.margins) if j != k]
        for what, kept, found in (
            ("best_alone", [], diagnosis.best_alone),
            ("relaxed_bounds", others, diagnosis.relaxed_bounds),
        ):
            reach = rationals.best(model, model.margins[k], kept)
            if reach is None or np.isnan(found[k]):
                # close to the edge either answer will do
                nearby = reach is not None or _joint(truth, others) > -HAIR
                wrong((reach is None) == bool(np.isnan(found[k])) or nearby, f"wrong {what}", f"{k}: {found[k]!r}")
                continue
            wanted = Fraction(float(constraint.bound)) + int(constraint.outward) * (
                min(reach, Fraction(0)) if what == "relaxed_bounds" else reach
            )
            wrong(
                abs(wanted - Fraction(float(found[k]))) <= close,
                f"wrong {what}",
                f"{k}: {found[k]!r}, is {float(wanted)!r}",
            )


def _joint(truth: Truth, margins: list[list[Fraction]]) -> Fraction:
    kept = [k for k, margin in enumerate(truth.model.margins) if any(margin is other for other in margins)]
    if not kept:
        return Fraction(1)
    found = rationals.best(truth.model, [], margins, [truth.scales[k] for k in kept])
    return found if found is not None else Fraction(-1)


def judge_slater(truth: Truth, found: Any, complaints: Complaints, scaled: bool, strict: bool) -> None:
    model, wrong = truth.model, complaints.unless
    if not truth.scales:
        wrong(np.isposinf(found.value), "wrong Slater constant", found.value)
        return
    # The library's own units: the largest margin of any pair.
    units = [Fraction(float(s)) for s in truth.cmdp.margin_scales] if scaled else [Fraction(1)] * len(truth.scales)
    exact = rationals.slater(model, units)
    # On average a policy may have to link classes that do not meet.
    share = max(Fraction(3, 10**7), truth.linking) if model.kind == "average" else Fraction(1, 10**8)
    largest = max(s / u for s, u in zip(truth.scales, units, strict=True))
    dust = max(d / u for d, u in zip(truth.dust, units, strict=True))
    close = share * largest + dust
    wrong(
        abs(Fraction(found.value) - exact) <= close or not strict,
        "wrong Slater constant",
        f"{found.value!r}, is {float(exact)!r}",
    )
    wrong(Fraction(found.value) <= exact + close, "Slater constant too large", f"{found.value!r}, is {float(exact)!r}")
    slip = largest * (Fraction(1, 10**11) + truth.floating) + dust
    wrong(
        Fraction(found.upper_bound) >= exact - slip,
        "Slater bound too small",
        f"{found.upper_bound!r} < {float(exact)!r}",
    )
    kept = rationals.values(model, found.policy.probabilities, model.margins)
    least = min(min(v) / u for v, u in zip(kept, units, strict=True))
    wrong(
        Fraction(found.value) <= least + close, "Slater policy falls short", f"{found.value!r}, keeps {float(least)!r}"
    )


def judge_frontier(truth: Truth, curve: Any, k: int, complaints: Complaints, strict: bool) -> None:
    model, wrong = truth.model, complaints.unless
    outward = int(truth.cmdp.constraints[k].outward)
    original = Fraction(float(truth.cmdp.constraints[k].bound))
    others = [margin for j, margin in enumerate(model.margins) if j != k]
    tightest = rationals.best(model, model.margins[k], others)
    wrong(tightest is not None, "frontier of an infeasible problem")
    if tightest is None:
        return
    scale, flat = truth.scales[k], (max(model.reward) - min(model.reward)) * model.layers
    share = max(Fraction(2, 10**6), truth.linking) if model.kind == "average" else Fraction(2, 10**6)
    edge = (share + truth.floating) * scale + truth.dust[k]
    reached = (Fraction(float(curve.possible_to)) - original) * outward
    # The other constraints may be kept up to rounding only, 1e-9 of each margin: what that buys is exact.
    slack = Fraction(1, 10**9) + truth.floating
    about = [(j, slack * s + d) for j, (s, d) in enumerate(zip(truth.scales, truth.dust, strict=True)) if j != k]
    relaxed = [[m + by / model.layers for m in model.margins[j]] for j, by in about]
    furthest = rationals.best(model, model.margins[k], relaxed)
    wrong(
        furthest is not None
        and (tightest - edge <= reached or truth.hinges)
        and reached <= furthest + scale * (Fraction(2, 10**9) + truth.floating) + truth.dust[k],
        "wrong possible_to",
        f"{float(reached)!r}, is {float(tightest)!r}",
    )
    for bound, solution in zip(curve.bounds, curve.solutions, strict=True):
        moved = (Fraction(float(bound)) - original) * outward / model.layers
        margins = [[m - moved for m in margin] if j == k else margin for j, margin in enumerate(model.margins)]
        optimum = rationals.best(model, model.reward, margins)
        prices = [Fraction(float(p)) for p in solution.prices]
        rounding = truth.size + sum(
            (p * (s + abs(moved) + 10**9 * d) for p, s, d in zip(prices, truth.scales, truth.dust, strict=True)),
            Fraction(0),
        )
        if optimum is None:
            short = rationals.best(model, [], margins, truth.scales)
            wrong(
                short is not None and short >= -HAIR - truth.floating, "frontier point infeasible", f"bound {bound!r}"
            )
            continue
        wrong(
            optimum <= Fraction(solution.upper_bound) + rounding * (Fraction(1, 10**12) + truth.floating),
            "frontier bound below optimum",
            f"bound {bound!r}: {solution.upper_bound!r} < {float(optimum)!r}",
        )
        # A point without a certificate may be out of bounds by rounding, 1e-9 of each margin: what that buys is exact.
        loose = Fraction(1, 10**9) + truth.floating
        amounts = [(loose * (s + abs(moved)) + d) / model.layers for s, d in zip(truth.scales, truth.dust, strict=True)]
        relaxed = [[m + by for m in margin] for margin, by in zip(margins, amounts, strict=True)]
        most = rationals.best(model, model.reward, relaxed)
        wrong(
            (most is not None and Fraction(solution.reward) <= most + truth.size * loose)
            or (
                solution.status == "not proved"
                and not solution.in_bounds
                and (truth.hinges or (rationals.best(model, [], margins, truth.scales) or 0) <= PROVABLE)
            ),
            "frontier point above optimum",
            f"bound {bound!r}: {solution.reward!r} > {float(most or 0)!r}",
        )
        if not strict:
            continue
        allowed = Fraction(2, 10**6) * max(abs(optimum), flat / 100) + rounding / 10**11
        if model.kind == "average" and (solution.linked or solution.status != "optimal"):
            allowed += max(Fraction(1, 10**5), truth.linking) * rounding  # a link, or a coin that is one
        wrong(
            Fraction(solution.reward) >= optimum - allowed,
            "frontier point below optimum",
            f"bound {bound!r}: {solution.reward!r} < {float(optimum)!r}",
        )


def judge(
    cmdp: ib.CMDP,
    *,
    strict: bool = True,
    methods: tuple[str, ...] = ("auto", "bundle", "lp"),
    refusable: bool = False,
    loose: bool = False,
) -> Verdict:
    """All questions about one small model; `refusable`: it is extreme, and any error of the library's own will do.

    `loose`: on average, parts may be held together by hardly any moves.
    """
    complaints, tried = Complaints(), Counter({"models": 1})
    if cmdp.average and not rationals.weakly_communicating(cmdp):
        refusable = True
    strict = strict and (cmdp.discount is None or cmdp.discount <= 1.0 - 1e-7)  # fewer digits are there beyond
    truth = Truth(cmdp, loose)

    def ask(what: str, question: Callable[[], Any], follow: Callable[[Any], None]) -> None:
        complaints.prefix = what
        try:
            found = in_time(question)
        except ib.Infeasible as error:
            tried["infeasible"] += 1
            judge_infeasible(truth, error, complaints, strict) if what.startswith("solve") else complaints.unless(
                not truth.feasible, "false Infeasible"
            )
        except Exception as error:
            undecided = (
                isinstance(error, ib.Stopped) and error.status == "stalled" and (truth.doubtful or not truth.feasible)
            )
            if not (refusable or undecided) or type(error).__module__ != "inbounds.errors":
                raise type(error)(f"[{what}] {error}").with_traceback(error.__traceback__) from None
            tried["refused"] += 1
        else:
            tried[what.split()[0]] += 1
            follow(found)

    for method in methods:
        ask(
            f"solve {method}",
            lambda m=method: ib.solve(cmdp, method=m),
            lambda found: judge_solution(truth, found, complaints, strict),
        )
    for scaled in (False, True):
        ask(
            "slater",
            lambda s=scaled: ib.slater(cmdp, scaled=s),
            lambda found, s=scaled: judge_slater(truth, found, complaints, s, strict),
        )
    for k in range(min(cmdp.n_constraints, 2)):
        others_feasible = rationals.best(
            truth.model, truth.model.reward, [m for j, m in enumerate(truth.model.margins) if j != k]
        )
        if others_feasible is None:
            continue
        complaints.prefix = "frontier"
        ask(
            "frontier",
            lambda k=k: ib.frontier(cmdp, k, points=4),
            lambda found, k=k: judge_frontier(truth, found, k, complaints, strict),
        )
    return Verdict(list(complaints), dict(tried))


def _fraction(x: float) -> Fraction | None:
    return Fraction(float(x)) if np.isfinite(x) else None
