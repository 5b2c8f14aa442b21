"""What a judge has to say about a policy: the record, its table and its one line of verdict.

A certificate says of which kind its statement is:

    exact              a proof, in exact rational arithmetic on the stored model
    rounding-bounded   a proof, in floating point with every rounding error bounded
    confidence         true with the stated probability, whatever the model: it rests on samples
    estimate           numbers without a guarantee

`margins_lower` and `reward_lower` are what is proved: the true values are at least that. Minus infinity, and infinity
for `reward_upper`, mean that nothing is proved. All values are in the user's units, as the model's criterion has them:
discounted averages per step, normalised by (1 - discount); sums over the horizon; or long-run averages per step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from inbounds.arrays import Floats
from inbounds.problem.cmdp import CMDP
from inbounds.problem.constraint import Constraint
from inbounds.proofs.betting import Played
from inbounds.tables import Table, escaped, html_card, html_table, outwards, text_table, wrapped

FOR_ALL_MARGINS, FOR_ALL_BOUNDS = "betting for all margins", "betting for all bounds"
KINDS = ("exact", "rounding-bounded", "confidence", "estimate")


@dataclass(frozen=True, eq=False)
class Proof:
    """The vectors that prove a certificate on a known model: anyone can check them in one pass over the transitions.

    There are N = n numbers over pairs and M = S over states; over a horizon H times as many, stage by stage.

    Attributes
    ----------
    criterion : dict
        Of the model: ``{"discount": 0.95}``, ``{"horizon": 12}`` or ``{"average": True}``.
    probabilities : array [N]
        The policy, over pairs, stage by stage.
    margin_vectors : array [K, M]
    reward_vector : array [M]
        Each proves a lower bound on one value of the policy, see `inbounds.proofs.known_model`.
    prices : array [K], optional
    value_function : array [M], optional
        Together they prove that no policy in bounds has more reward than `Certificate.reward_upper`.
    """

    criterion: dict[str, Any]
    probabilities: Floats
    margin_vectors: Floats
    reward_vector: Floats
    prices: Floats | None = None
    value_function: Floats | None = None


@dataclass(frozen=True, eq=False)
class MixtureProof:
    """The vectors that prove a certificate of a mixture: those of each of its policies, and what they weigh.

    Attributes
    ----------
    weights : array [J]
        The probability of each policy, divided by their exact sum.
    members : tuple of J Proof
        Of the values of each policy; what they claim, added up with the weights, is what the mixture is worth.
    prices : array [K], optional
    value_function : array [M], optional
        Together they prove that no policy in bounds has more reward than `Certificate.reward_upper`.
    """

    weights: Floats
    members: tuple[Proof, ...]
    prices: Floats | None = None
    value_function: Floats | None = None

    @property
    def criterion(self) -> dict[str, Any]:
        return self.members[0].criterion


@dataclass(frozen=True, eq=False)
class Wagers:
    """The bets that a certificate from samples rests on: anyone can go through them again.

    Attributes
    ----------
    staked : float
        The share of the bankroll that each attempt may lose: 1 for a single one.
    discount : float
    probabilities : array [n], or [J, n]
        The policy that the last attempt bet on, or the policies of the mixture.
    reward_range : (float, float)
        Least reward and span in the user's units; bets are in scaled units, rewards in [0, 1], margins in [-1, 1].
    signal_ranges : array [K, 2]
        The least and the largest signal of each constraint that was declared, in the user's units.
    margin_scales : array [K]
        The largest margin of each constraint in the user's units.
    bounds : array [K + 1]
        Scaled lower bounds of the reward and the margins.
    attempts : tuple of Played
        The stakes and bets of each attempt; the last is that of the certificate. See `inbounds.proofs.betting`.
    bankroll : float
        Of the error probability, before the first attempt.
    weights : array [J], optional
        Of the policies of a mixture.
    """

    staked: float
    discount: float
    probabilities: Floats
    reward_range: tuple[float, float]
    signal_ranges: Floats
    margin_scales: Floats
    bounds: Floats
    attempts: tuple[Played, ...]
    bankroll: float = 1.0
    weights: Floats | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """What is known of the values of one policy, or of one mixture of policies, and how.

    Values are as the criterion of the model has them.
    ``print(certificate)`` shows it as a table with one line of verdict.

    Attributes
    ----------
    in_bounds : bool
        Every lower bound in `margins_lower` is >= 0: the policy keeps every bound. From samples this is one claim, of
        all margins together, which holds with probability `confidence`.
    kind : "exact", "rounding-bounded", "confidence" or "estimate"
    constraints : tuple of Constraint, without signals
        Names and bounds.
    margins_lower : array [K]
        The margin of each constraint is at least this.
    methods : tuple of K str
        How each of them was found, in a few words.
    reward_lower : float
        The reward is at least this.
    reward_upper : float
        No policy in bounds has more reward than this; infinite when that was not asked for.
    confidence : float
        The probability with which the policy is in bounds, if that is stated; and that with which all the bounds of
        the reward and the margins hold at once, apart from those that are 0 because it is in bounds (`methods` says
        which). The two hold one by one. 1 for proofs.
    samples : int
        Transitions drawn; 0 for proofs.
    proof : Proof or MixtureProof, optional
        What a checker needs, when there is a proof.
    model : CMDP or str, optional
        The model that the proof is about; of a certificate from a file, the SHA-256 of the model's .npz file.
    wagers : Wagers, optional
        The bets, when it rests on samples.
    note : str
        What else there is to know, such as a guess that had to be changed.
    paused
        What ``ib.certify(..., resume=)`` goes on from, when samples were broken off, or ran out of time.
    """

    in_bounds: bool
    kind: str
    constraints: tuple[Constraint, ...]
    margins_lower: Floats
    methods: tuple[str, ...]
    reward_lower: float = -math.inf
    reward_upper: float = math.inf
    confidence: float = 1.0
    samples: int = 0
    proof: Proof | MixtureProof | None = None
    model: CMDP | str | None = None
    wagers: Wagers | None = None
    note: str = ""
    paused: Any = None

    @property
    def gap(self) -> float:
        """How far the policy can be from the best one in bounds: reward_upper - reward_lower, rounded up."""
        gap = max(self.reward_upper - self.reward_lower, 0.0)
        if math.isfinite(gap) and math.fsum((self.reward_upper, -self.reward_lower, -gap)) > 0.0:
            return math.nextafter(gap, math.inf)
        return gap

    @property
    def verdict(self) -> str:
        """The certificate in one line."""
        if self.in_bounds:
            line = f"in bounds: {self._how()}"
            if math.isfinite(self.gap):
                line += f"; at most {outwards(self.gap, up=True)} below the best reward of any policy in bounds"
            return line
        doubtful = [
            f"{constraint.name!r} (margin at least {outwards(lower)})"
            for constraint, lower in zip(self.constraints, self.margins_lower, strict=True)
            if not lower >= 0.0
        ]
        return f"not proved to be in bounds ({self.kind}): {', '.join(doubtful)}"

    def _how(self) -> str:
        if self.kind == "confidence":
            return f"with confidence {self.confidence!r}, from {self.samples:,} samples"
        if self.kind == "estimate":
            return f"an estimate, not a proof, from {self.samples:,} samples"
        return "proved in exact arithmetic" if self.kind == "exact" else "proved, every rounding error bounded"

    @property
    def claims(self) -> str:
        """Which of the statements hold at once, and which one by one."""
        if self.kind != "confidence":
            return "all at once"
        if not self.in_bounds:
            return f"all bounds hold at once, with confidence {self.confidence!r}"
        zeros = "" if FOR_ALL_MARGINS not in self.methods else f", those {FOR_ALL_MARGINS} apart"
        each = f"one by one, with confidence {self.confidence!r} each"
        return f"{each}: it is in bounds; all bounds hold at once{zeros}"

    def to_dict(self) -> dict[str, Any]:
        """The table as plain values for JSON, None where nothing is known. The proof's vectors are left out."""
        return {
            "in_bounds": self.in_bounds,
            "kind": self.kind,
            "verdict": self.verdict,
            "constraints": _entries(
                self.constraints, margin_lower=map(finite, self.margins_lower), method=self.methods
            ),
            "reward_lower": finite(self.reward_lower),
            "reward_upper": finite(self.reward_upper),
            "confidence": self.confidence,
            "claims": self.claims,
            "samples": self.samples,
        }

    def __str__(self) -> str:
        return "\n".join([text_table(*self.table), *map(wrapped, (self.verdict, *self.remarks))])

    @property
    def table(self) -> Table:
        """What is proved of each constraint and of the reward: a header, and rows of texts."""
        digits = self._reward_digits
        ceiling = f"optimum at most {outwards(self.reward_upper, True, digits)}" if math.isfinite(self.gap) else ""
        least = outwards(self.reward_lower, digits=digits)
        reward = [("(reward)", "", least, ceiling)] if math.isfinite(self.reward_lower) else []
        lowers = map(outwards, self.margins_lower)
        return _table(("margin at least", "how"), self.constraints, lowers, self.methods, below=reward)

    @property
    def remarks(self) -> list[str]:
        """What there is to say besides the verdict."""
        return [f"({self.claims})"] * (self.kind == "confidence") + [f"({self.note})"] * bool(self.note)

    @property
    def _reward_digits(self) -> int:
        """So many that what is printed of the reward and of its ceiling is no further apart than they are: 6 to 17."""
        if not 0.0 < self.gap < math.inf:
            return 6
        size = max(abs(self.reward_lower), abs(self.reward_upper))
        return min(max(math.ceil(math.log10(size / self.gap)) + 2, 6), 17)

    def _repr_html_(self) -> str:
        return html_card(self.verdict, html_table(*self.table), *(f"<p>{escaped(r)}</p>" for r in self.remarks))

    def __repr__(self) -> str:
        return f"Certificate({self.verdict})"


@dataclass(frozen=True, eq=False, repr=False)
class InfeasibilityCertificate:
    """A proof that no policy is in bounds; values are as the criterion of the model has them.

    The margins, added up with the weights `prices` >= 0, have a value of at most `margin_upper` < 0 under every
    policy; so under every policy some margin is negative.

    Attributes
    ----------
    infeasible : bool
        Whether `margin_upper` is below zero, that is, whether the proof holds.
    kind : "exact" or "rounding-bounded"
    constraints : tuple of Constraint, without signals
    prices : array [K]
    value_function : array [M], of S numbers, over a horizon of S for each stage
    margin_upper : float
    criterion : dict
        Of the model: ``{"discount": 0.95}``, ``{"horizon": 12}`` or ``{"average": True}``.
    model : CMDP or str, optional
        The model that the proof is about; of a certificate from a file, the SHA-256 of the model's .npz file.
    """

    infeasible: bool
    kind: str
    constraints: tuple[Constraint, ...]
    prices: Floats
    value_function: Floats
    margin_upper: float
    criterion: dict[str, Any]
    model: CMDP | str | None = None

    @property
    def verdict(self) -> str:
        if not self.infeasible:
            return (
                f"not proved: the weighted margins are only known to be at most {outwards(self.margin_upper, up=True)}"
            )
        how = "in exact arithmetic" if self.kind == "exact" else "with every rounding error bounded"
        return (
            f"no policy is in bounds: proved {how}; the weighted margins of any policy sum to at most "
            f"{outwards(self.margin_upper, up=True)}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The table as plain values for JSON. The value function is left out."""
        return {
            "infeasible": self.infeasible,
            "kind": self.kind,
            "verdict": self.verdict,
            "constraints": _entries(self.constraints, weight=self.prices.tolist()),
            "margin_upper": finite(self.margin_upper),
        }

    def __str__(self) -> str:
        return f"{text_table(*self.table)}\n{wrapped(self.verdict)}"

    @property
    def table(self) -> Table:
        """The weight of each constraint in the proof: a header, and rows of texts."""
        return _table(("weight",), self.constraints, (f"{price:.6g}" for price in self.prices))

    def _repr_html_(self) -> str:
        return html_card(self.verdict, html_table(*self.table))

    def __repr__(self) -> str:
        return f"InfeasibilityCertificate({self.verdict})"


def _entries(constraints: tuple[Constraint, ...], **columns: Any) -> list[dict[str, Any]]:
    """The table of the constraints for JSON, with the given columns [K]."""
    rows = zip(constraints, *columns.values(), strict=True)
    return [{"name": c.name, c.side: float(c.bound), **dict(zip(columns, row, strict=True))} for c, *row in rows]


def _table(header: tuple[str, ...], constraints: tuple[Constraint, ...], *columns: Any, below: Any = ()) -> Table:
    """The same for reading, and further rows `below`."""
    rows = zip(constraints, *columns, strict=True)
    shown = [(c.name, c.in_words, *row) for c, *row in rows]
    return ("constraint", "bound", *header), [*shown, *below]


def finite(value: float) -> float | None:
    """The number, or None where it is infinite and JSON has no word for it."""
    return float(value) if np.isfinite(value) else None
