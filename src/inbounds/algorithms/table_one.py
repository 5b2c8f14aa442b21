"""Table 1 of the CSPDA paper: sample complexities of the literature, printed, and derived from each paper's own bound.

The table is that of the paper's appendix A (by the order of its source it is the second; its text calls it Table 1).
Every row holds what the algorithm's own paper proves, as an `Order`, and the conversions that lead from there to the
printed column, in turn. `derive` applies them, so each exponent can be followed; where the result is not what is
printed, `note` says so.

**What comes out.** Of fourteen rows ten follow from the papers' own bounds, all with the appendix's own steps, and two
are such bounds as they stand. Two do not follow. OPDOP: its theorem gives (1-γ)^5 where 4 is printed; 4 is what
follows if the T of that theorem, which counts steps, is taken for the number of episodes. PDSC: only the rate in T is
known to us, which gives ε^2 and leaves the power of 1-γ open. Agreement says that the exponents of S, A, 1 / (1-γ) and
1 / ε follow, no more: constants, logarithms, the number of constraints and the Slater constant are hidden.

**Which convention gives each exponent.** The episodic papers leave two things open: what becomes of S when transitions
depend on the stage, and whether ε is of a sum or of a normalised value. `readings` derives an episodic row under all
six conventions, `fitting` says which give what is printed. One pair serves all rows that follow: sums, and S = S' / H
where an algorithm keeps stages apart, S itself where it does not. With ε normalised OptDual and OptPrimalDual come out
too, CONRL and Triple-Q if a power of H is added for every power of S besides; OptPess-PrimalDual comes out under that
one pair only, and OPDOP under none.

`source` says where a paper's own bound is from: "read" in the paper or its abstract, "quoted" in the CSPDA paper,
"memory" where it is as we recall it and was not checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from inbounds.algorithms.conversions import (
    Order,
    as_totals,
    discounted,
    mixture_gap,
    needed,
    samples_of_episodes,
    stages_as_states,
    steps_as_episodes,
    successors_as_states,
    with_inner_loop,
)
from inbounds.inputs import named

_HALF = Fraction(1, 2)

Conversion = Callable[[Order], Order]


@dataclass(frozen=True)
class Row:
    """One row: what is printed, what the algorithm's own paper proves, and how the one becomes the other."""

    name: str
    printed: Order
    own: Order
    own_is: str  # "regret", "gap", "episodes", "iterations" or "samples": what the own bound counts
    source: str  # "read", "quoted" or "memory"
    steps: tuple[tuple[str, Conversion], ...]  # what each conversion is called, and the conversion
    violation: str
    generative: str
    footnote: int = 0  # of the printed table
    note: str = ""
    algorithm: str = ""  # as `inbounds algorithms` calls it
    counts: str = "samples"  # what the derived order counts: or "iterations", of a paper that takes values for given

    @property
    def remarks(self) -> list[str]:
        """What has to be said beside the numbers: the footnote of the print, and our note."""
        return [*filter(None, [FOOTNOTES.get(self.footnote, ""), self.note and f"{self.name}: {self.note}."])]


def derive(row: Row) -> tuple[tuple[str, Order], ...]:
    """The own bound and what it is after each conversion; the last is the derived sample complexity.

    Examples
    --------
    >>> for step, order in derive(next(row for row in TABLE_ONE if row.name.startswith("UC-CFH"))):
    ...     print(f"{step}: {order}")
    episodes: SA N^2 H^2 / ε^2
    successors <= S: S^3 A H^2 / ε^2
    H samples an episode: S^3 A H^3 / ε^2
    H = 1/(1-γ): S^3 A / ((1-γ)^3 ε^2)
    δ = ε(1-γ), for the mean: S^3 A / ((1-γ)^3 ε^2)
    """
    found = [(row.own_is, row.own)]
    for name, conversion in row.steps:
        found.append((name, conversion(found[-1][1])))
    return tuple(found)


def derived(row: Row) -> Order:
    """The sample complexity that follows from the own bound."""
    return derive(row)[-1][1]


def readings(row: Row) -> dict[tuple[str, str], Order]:
    """What an episodic row comes to under each convention, by (what S becomes, what ε is of); of others, nothing.

    Examples
    --------
    >>> for (states, accuracy), order in readings(row_named("uc-cfh")).items():
    ...     print(f"{states}, {accuracy}: (1-γ)^{-order.effective}")
    S, ε of sums: (1-γ)^-3
    S'/H, ε of sums: (1-γ)^0
    SH, ε of sums: (1-γ)^-6
    S, ε normalised: (1-γ)^-1
    S'/H, ε normalised: (1-γ)^2
    SH, ε normalised: (1-γ)^-4
    """
    if PER_EPISODE not in row.steps:
        return {}
    plain = derived(replace(row, steps=tuple(step for step in row.steps if step != BY_STAGE)))
    return {
        (states, accuracy): replace(plain, effective=plain.effective + turn * plain.S - normalised * plain.accuracy)
        for accuracy, normalised in (("ε of sums", 0), ("ε normalised", 1))
        for states, turn in (("S", 0), ("S'/H", -1), ("SH", 1))
    }


def fitting(row: Row) -> list[tuple[str, str]]:
    """The conventions under which an episodic row comes out as it is printed.

    Examples
    --------
    >>> fitting(row_named("optpess-primal-dual")), fitting(row_named("opdop"))
    ([("S'/H", 'ε of sums')], [])
    """
    return [convention for convention, order in readings(row).items() if order == row.printed]


def row_named(algorithm: str) -> Row:
    """The row of an algorithm by its name in ``inbounds algorithms``."""
    return named(algorithm, {row.algorithm: row for row in TABLE_ONE if row.algorithm}, "row of Table 1")


def verdict(row: Row) -> str:
    """Whether the printed sample complexity follows: "yes", "no", or "stated" where there was nothing to convert."""
    if derived(row) != row.printed:
        return "no"
    return "yes" if row.steps else "stated"


def _but_for_a_logarithm(order: Order) -> Order:
    """The order stays as it is."""
    return order


_MIXTURE = (("mixture of the policies", mixture_gap), ("at most ε", needed))
PER_EPISODE, BY_STAGE = ("H samples an episode", samples_of_episodes), ("S' = SH", stages_as_states)
DISCOUNTED = ("H = 1/(1-γ)", discounted)
_STATIONARY = (PER_EPISODE, DISCOUNTED)
_STAGED = (PER_EPISODE, BY_STAGE, DISCOUNTED)
_SUCCESSORS = ("successors <= S", successors_as_states)
IN_MEAN = ("δ = ε(1-γ), for the mean", _but_for_a_logarithm)

_EFRONI = Order.of(S=_HALF, A=_HALF, N=_HALF, H=2, K=_HALF)

TABLE_ONE = (
    Row(
        "OptDual-CMDP (Efroni et al. 2020)",
        printed=Order.of(S=2, A=1, effective=3, accuracy=2),
        own=_EFRONI,
        own_is="regret",
        source="memory",
        steps=(_SUCCESSORS, *_MIXTURE, *_STAGED, IN_MEAN),
        violation="ε",
        generative="no",
        algorithm="opt-dual",
        footnote=1,
    ),
    Row(
        "OptPrimalDual-CMDP (Efroni et al. 2020)",
        printed=Order.of(S=2, A=1, effective=3, accuracy=2),
        own=_EFRONI,
        own_is="regret",
        source="memory",
        steps=(_SUCCESSORS, *_MIXTURE, *_STAGED, IN_MEAN),
        violation="ε",
        generative="no",
        algorithm="opt-primal-dual",
        footnote=1,
    ),
    Row(
        "UC-CFH (Kalagarla et al. 2021)",
        printed=Order.of(S=3, A=1, effective=3, accuracy=2),
        own=Order.of(S=1, A=1, N=2, H=2, accuracy=2),
        own_is="episodes",
        source="quoted",
        steps=(_SUCCESSORS, *_STATIONARY, IN_MEAN),
        violation="ε",
        generative="no",
        algorithm="uc-cfh",
        footnote=2,
    ),
    Row(
        "CONRL (Brantley et al. 2020)",
        printed=Order.of(S=2, A=1, effective=6, accuracy=2),
        own=Order.of(S=1, A=_HALF, H=Fraction(5, 2), K=_HALF),
        own_is="regret",
        source="memory",
        steps=(*_MIXTURE, *_STATIONARY, IN_MEAN),
        violation="ε",
        generative="no",
        algorithm="conrl",
    ),
    Row(
        "OptPess-PrimalDual (Liu et al. 2021)",
        printed=Order.of(S=3, A=1, effective=4, accuracy=2),
        own=Order.of(S=Fraction(3, 2), A=_HALF, H=3, K=_HALF),
        own_is="regret",
        source="memory",
        steps=(*_MIXTURE, *_STAGED, IN_MEAN),
        violation="zero",
        generative="no",
        algorithm="optpess-primal-dual",
        note="zero violation at 1/ε^2 without a generative model, which the paper's introduction says none had",
    ),
    Row(
        "OPDOP (Ding et al. 2021)",
        printed=Order.of(S=2, A=1, effective=4, accuracy=2),
        own=Order.of(S=1, A=_HALF, H=Fraction(5, 2), T=_HALF),
        own_is="regret",
        source="read",
        steps=(("T = HK", steps_as_episodes), *_MIXTURE, *_STAGED, IN_MEAN),
        violation="ε",
        generative="no",
        algorithm="opdop",
        note="no convention gives the printed 4; it follows if T, which counts steps, is taken for the episodes K",
    ),
    Row(
        "UCBVI-γ (He et al. 2021)",
        printed=Order.of(S=1, A=1, effective=3, accuracy=2),
        own=Order.of(S=_HALF, A=_HALF, T=_HALF, effective=Fraction(3, 2)),
        own_is="regret",
        source="read",
        steps=(*_MIXTURE, IN_MEAN),
        violation="no constraints",
        generative="no",
        algorithm="ucbvi-gamma",
        note="regret along one trajectory: the policies are compared from the states that it visits",
    ),
    Row(
        "NPG-PD (Ding et al. 2020)",
        printed=Order.of(S=1, A=1, effective=5, accuracy=2),
        own=Order.of(T=-_HALF, effective=2),
        own_is="gap",
        source="read",
        steps=(
            ("at most ε", needed),
            ("SA/(1-γ) samples an iteration", partial(with_inner_loop, samples_each=Order.of(S=1, A=1, effective=1))),
        ),
        violation="ε",
        generative="yes",
        algorithm="npg-pd",
        footnote=3,
    ),
    Row(
        "CRPO (Xu et al. 2021)",
        printed=Order.of(S=1, A=1, effective=7, accuracy=4),
        own=Order.of(S=_HALF, A=_HALF, T=-_HALF, effective=Fraction(3, 2)),
        own_is="gap",
        source="memory",
        steps=(
            ("at most ε", needed),
            ("T/((1-γ)SA) samples each", partial(with_inner_loop, samples_each=Order.of(S=-1, A=-1, T=1, effective=1))),
            IN_MEAN,
        ),
        violation="ε",
        generative="yes",
        algorithm="crpo",
        footnote=4,
    ),
    Row(
        "PDSC (Chen et al. 2021)",
        printed=Order.of(effective=4, accuracy=2),
        own=Order.of(T=-_HALF),
        own_is="gap",
        source="read",
        steps=(("at most ε", needed), ("sums, not averages", as_totals)),
        violation="ε",
        generative="yes",
        algorithm="pdsc",
        footnote=5,
        note="its abstract gives the rate in T alone: the power of 1/(1-γ) is not derived here",
        counts="iterations",
    ),
    Row(
        "Triple-Q (Wei et al. 2022)",
        printed=Order.of(S=Fraction(5, 2), A=Fraction(5, 2), effective=Fraction(37, 2), accuracy=5),
        own=Order.of(S=_HALF, A=_HALF, H=4, K=Fraction(4, 5)),
        own_is="regret",
        source="read",
        steps=(*_MIXTURE, *_STAGED, IN_MEAN),
        violation="zero",
        generative="no",
        algorithm="triple-q",
    ),
    Row(
        "Randomized Primal-Dual (Wang 2020)",
        printed=Order.of(S=1, A=1, effective=4, accuracy=2),
        own=Order.of(S=1, A=1, effective=4, accuracy=2),
        own_is="samples",
        source="memory",
        steps=(),
        violation="no constraints",
        generative="yes",
        algorithm="randomized-primal-dual",
        note="for ergodic problems only, which the table leaves out",
    ),
    Row(
        "CSPDA (Bai et al. 2022), Theorem 3",
        printed=Order.of(S=1, A=1, effective=4, accuracy=2),
        own=Order.of(S=1, A=1, effective=2, accuracy=2),
        own_is="samples",
        source="read",
        steps=(("sums, not averages", as_totals),),
        violation="zero",
        generative="yes",
        algorithm="cspda",
        footnote=6,
        note="the hidden Slater constant φ stays normalised; as a sum it would add another 1/(1-γ)^2",
    ),
    Row(
        "lower bound (Lattimore, Hutter 2012; Azar et al. 2013)",
        printed=Order.of(S=1, A=1, effective=3, accuracy=2),
        own=Order.of(S=1, A=1, effective=3, accuracy=2),
        own_is="samples",
        source="memory",
        steps=(),
        violation="no constraints",
        generative="n/a",
    ),
)
"""In the order of the print: model-based, model-free, the lower bound."""

FOOTNOTES = {
    1: "Their bound has the largest number of successors of a pair, at most S; and a factor sqrt(A) is missing in it, "
    "which the paper takes for a slip: it is put in here.",
    2: "Their bound has C, the largest number of successors of a pair, at most S.",
    3: "Their Theorem 4; each iteration of their Algorithm 2 takes SA/(1-γ) samples.",
    4: "Each of the T iterations evaluates its policy with K_in = T/((1-γ)SA) samples.",
    5: "How it depends on S and A is not said there, and the samples that estimate Q are not counted.",
    6: "Values are normalised in the CSPDA paper, so a factor 1/(1-γ)^2 is added to compare.",
}
"""Those of the printed table, in our words."""
