"""Check a certificate against a model, in exact rational arithmetic, with the standard library alone.

    python verify.py model.npz certificate.json      exit code 0: accepted, 1: rejected, 2: a file cannot be read
    python verify.py certificate.json                the same for one that rests on samples

This file uses nothing of the library that made the certificate, and trusts nothing that the certificate claims. Two
hashes keep out damaged files, but no liar, who can compute them too. What convinces is the arithmetic. In it a double
is the binary number that it is; rows of transition probabilities P, the initial distribution rho and the policy's row
pi in each state are divided by their exact sums. J(m) is an expectation along the path s_0, a_0, s_1, ... of a policy:

    discount d    sum_t (1 - d) d^t m(s_t, a_t)                own = 1    reach = d / (1 - d)    start = 1
    horizon H     sum_(t < H) m_t(s_t, a_t)                    own = 0    reach = 1              start = 1
    average       1/N sum_(t < N) m(s_t, a_t), as N grows      own = 0    reach = 1              start = 0

(where averages have no limit: the lower one for margins, the upper one for the reward). A margin is signal - bound, or
bound - signal for a most value; over a horizon with bound / H at each stage. For ANY numbers y, one for each state,

    (E y)(s, a)  =  own y(s) + reach sum_s' P(s'|s,a) (y(s) - y(s'))       (stage h: y_h(s), P_h, y_(h+1)(s'); y_H = 0)

has J(E y) = start <rho, y> under every policy, also one that remembers, because along the path the rest cancels: what
is added up is d^t y(s_t) - d^(t+1) y(s_t+1), or y_t(s_t) - y_(t+1)(s_t+1), or an N-th of y(s_t) - y(s_t+1), and then
(y(s_0) - y(s_N)) / N tends to 0, whatever the classes of the chain. So J(m) = start <rho, y> + J(m - E y), and J of
m - E y is a mean of it, over a horizon the sum of a mean for each stage: it is between the extremes. Therefore:

"policy": the policy is in bounds. For the reward and for each margin, called m, the certificate has a vector y, and

    J(m)  >=  start <rho, y> + sum over stages of min_s sum_a pi(a|s) (m - E y)(s, a)                             (C1)

over the states s that the policy can be in, must be at least the claimed lower bound, which for margins must be >= 0.
What it would do elsewhere never comes into it. If the certificate has prices u >= 0 and a vector V,

    J(reward) in bounds  <=  start <rho, V> + sum over stages of max_(s,a) (reward + u . margins - E V)(s, a)     (C2)

must be at most the claimed upper bound. "mixture": one of several policies is drawn at the start, by their weights
divided by their exact sum, and kept to. J of a mixture is the weighted mean of theirs, which with vectors of its own
for each policy is at least the weighted mean of the bounds (C1); the rest is as for a policy. "infeasible": no policy
is in bounds; (C2) without the reward is below 0 (C3).

"policy", from samples (C4): the policy is in bounds with the stated confidence. The certificate lists bets on walks of
the policy, each no less than a least value and with a mean of at most J. From the bets before it, each stake is worked
out again by the rule of docs/certificates.md, and with it the capital, which for a margin <= 0 would ever have reached
1 / level with probability at most that level. "mixture", from samples (C5): the same of walks that begin with a
coin, or of weighted means of walks of its policies. Nobody can see in a file whether walks were drawn as they should
be.

A fraction is a pair (numerator, denominator). Numbers are multiples of one power of two each, hence integers; only the
sums of probabilities remain as denominators, odd numbers after their powers of two are taken out. Integers stay short:
their widths are limited, see WIDEST: what is wider in a state is refused, and before a sum over stages or policies gets
wider, its terms are rounded against the claim, to multiples of 2^-GRID or less. So each bound is one pass over the
transitions.
"""

import json
import math
import os
import re
import stat
import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import compress, pairwise
from operator import mul
from typing import Any, NamedTuple, TextIO

WHOLE = "<i8 <i4 |i1"
LAYOUT = {  # of the model file; name: accepted types; shape; the other shape, where it depends on the stage
    "header": ("|u1", "b"), "offsets": (WHOLE, "S+1"), "actions": (WHOLE, "n"), "indptr": (WHOLE, "n+1", "H*n+1"),
    "indices": (WHOLE, "m"), "probabilities": ("<f8", "m"), "reward": ("<f8", "n", "H n"),
    "signals": ("<f8", "K n", "K H n"), "bounds": ("<f8", "K"), "senses": (WHOLE, "K"), "initial": ("<f8", "S"),
}  # fmt: skip
CODES = {"<f8": "d", "<i8": "q", "<i4": "i", "|i1": "b", "|u1": "B"}  # of the module struct
HEADER = "kind version name criterion constraints states actions"  # the keys of the model's header
PARTS = ("state_parts", "action_parts")  # those that it may have: what the parts of labels are called
COMMON = "kind version model statement arithmetic criterion constraints seal prices value_function"
CLAIMED = "margins_lower margin_vectors reward_lower reward_upper methods confidence samples"
KEYS = {  # of a certificate, by its statement
    "policy": f"{COMMON} {CLAIMED} policy reward_vector",
    "mixture": f"{COMMON} {CLAIMED} weights policies reward_vectors",
    "infeasible": f"{COMMON} margin_upper",
}
OF_BETS = (
    "kind version constraints statement arithmetic seal margins_lower reward_lower methods confidence samples bets"
)
ANEW = "write it anew, with --save-model of `inbounds solve` or by ib.load(...).save(...), and check with that file"
ANOTHER = f"the model file has other bytes than the one it is about (SHA-256 differs); if it is the same model, {ANEW}"
NESTING = frozenset({dict, list})  # what holds other values, in JSON
LONGEST = 10**5  # stages
WIDEST = 2**15  # bits of the denominator of a state, and of an exact sum over stages and policies
BITS = 1074  # behind the point, of a double
GRID = 3 * BITS  # what a wider sum is rounded to; with a discount, BITS more, over 1 - discount

Ratio = tuple[int, int]
Progress = Callable[[int, int], object]


class Rejected(Exception): ...  # says why


class Unreadable(Exception): ...  # a file that cannot be read, or is no certificate at all


def require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Rejected(otherwise)


class Shares(NamedTuple):
    """Probabilities, each `weights[i] / total`, where the total is `odd` times 2 to the power of `twos`."""

    weights: list[int]
    total: int
    odd: int
    twos: int


class Model(NamedTuple):
    criterion: dict[str, Any]  # as a certificate writes it
    stages: int  # 1 without a horizon
    weights: tuple[int, int, int, int]  # own, start, and reach as numerator and denominator
    initial: Shares
    pairs: list[range]  # of each state
    rows: list[tuple[Sequence[int], Shares]]  # of each pair, or of each at each stage: next states, probabilities
    twos: int  # the most of a row
    reward: Sequence[float]  # of each pair, or of each at each stage
    signals: list[Sequence[float]]  # the same, of each constraint
    names: list[str]  # of the constraints
    bounds: Sequence[float]  # the same
    senses: Sequence[int]  # the same; 1: at least, -1: at most
    step: Callable[[int], None]  # to be called with a number of pairs that were looked at


class Rule(NamedTuple):
    """A policy."""

    chosen: list[Shares]  # of the actions of each state, or of each at each stage
    visited: list[list[bool]]  # at each stage, whether it can be in each state


def visited(model: Model, chosen: list[Shares]) -> list[list[bool]]:
    """At each stage, whether a policy can be in each state: moves with a probability > 0 lead there from the start."""
    n_states, n_pairs = len(model.pairs), model.pairs[-1].stop

    def following(stage: int, state: int) -> Iterable[int]:
        for i, pair in enumerate(model.pairs[state]):
            if chosen[stage * n_states + state].weights[i]:
                states, row = model.rows[(stage * n_pairs + pair) % len(model.rows)]
                yield from compress(states, row.weights)

    now = list(compress(range(n_states), model.initial.weights))
    found = [[False] * n_states for _ in range(model.stages)]
    for stage, at in enumerate(found):
        later = list[int]()
        while now:
            state = now.pop()
            if not at[state]:
                at[state] = True
                (later if "horizon" in model.criterion else now).extend(following(stage, state))
        now = later
        model.step(n_pairs)
    return found


def bound(
    model: Model, places: int, gain: list[int], y: list[int], policy: Rule | None, of: int = 1, most: int = 0
) -> tuple[int, Ratio]:
    """(C1), what a vector y proves about the value of `gain` under a policy, one `of` several; or, without, (C2).

    Gain and vector are in units of 2^-places; `most` is the largest of the powers of two in the policies' sums. The
    bound is the first number over `model.initial.total`, plus the fraction over down * 2^(twos + most); see `joined`.
    """
    (own, start, up, down), rows, n_states, n_pairs = model.weights, model.rows, len(model.pairs), model.pairs[-1].stop
    twos = model.twos
    extremes, widths = list[Ratio](), 0
    for stage in range(model.stages):
        extreme, widest = None, 0
        now, later = (y[h * n_states : (h + 1) * n_states] for h in (stage, stage + 1))
        after = (later or [0] * n_states) if "horizon" in model.criterion else now
        for state, pairs in enumerate(model.pairs):
            model.step(len(pairs))
            if policy is not None and not policy.visited[stage][state]:
                continue
            v, found = now[state], dict[int, int]()  # the numerators, by the odd sum of their rows
            chosen = policy.chosen[stage * n_states + state] if policy is not None else None
            for i, e in enumerate(range(stage * n_pairs + pairs.start, stage * n_pairs + pairs.stop)):
                if chosen is not None and not chosen.weights[i]:
                    continue
                states, row = rows[e % len(rows)]
                flow = v * row.total - sum(map(mul, row.weights, map(after.__getitem__, states)))
                left = (down * (gain[e % len(gain)] - own * v) * row.odd << twos) - (up * flow << twos - row.twos)
                if chosen is not None:
                    found[row.odd] = found.get(row.odd, 0) + chosen.weights[i] * left
                else:
                    found[row.odd] = max(found.get(row.odd, left), left)
            if chosen is not None:
                width = sum(map(int.bit_length, found)) + chosen.odd.bit_length()
                require(width <= WIDEST, f"too many bits are needed in state {state}: {width:,}")
                numerator, denominator = total((left, odd) for odd, left in found.items())
                mean = (numerator << most - chosen.twos, denominator * chosen.odd)
                extreme = mean if extreme is None or less(mean, extreme) else extreme
            else:
                width = max(map(int.bit_length, found))
                for odd, left in found.items():
                    extreme = (left, odd) if extreme is None or less(extreme, (left, odd)) else extreme
            widest = max(widest, width)
        extremes.append(extreme or (0, 1))
        widths += widest
    if widths * of > WIDEST:
        finer = BITS - (up + down).bit_length() + 1 if own else 0  # as a discount is a multiple of 2^-BITS
        left = GRID + finer - places - twos - most
        rounded = [(n << left) // d if policy is not None else -((-n << left) // d) for n, d in extremes]
        extremes = [(sum(rounded), 1 << left)]
    return start * sum(map(mul, model.initial.weights, y)), total(extremes)


def joined(model: Model, at_start: int, ratio: Ratio, most: int) -> Ratio:
    """The bound whose parts `bound` gave, or weighted sums of them."""
    numerator, denominator = ratio
    return total([(at_start, model.initial.total), (numerator, denominator * model.weights[3] << model.twos + most)])


def total(ratios: Iterable[Ratio]) -> Ratio:
    """Their sum, two by two, so that most of the numbers are short."""
    left = list(ratios)
    while len(left) > 1:
        pairs = zip(left[::2], left[1::2], strict=False)
        left[: len(left) // 2 * 2] = [(a + c, b) if b == d else (a * d + c * b, b * d) for (a, b), (c, d) in pairs]
    return left[0] if left else (0, 1)


def less(one: Ratio, other: Ratio) -> bool:
    return one[0] < other[0] if one[1] == other[1] else one[0] * other[1] < other[0] * one[1]


def near(ratio: Ratio) -> str:
    try:
        return repr(ratio[0] / ratio[1])
    except OverflowError:
        return f"{'-' if ratio[0] < 0 else ''}1e309"


def whole(*vectors: Sequence[float]) -> tuple[int, list[list[int]]]:
    """(unit, the vectors times unit), for one power of two that makes them all integers."""
    ratios = [[x.as_integer_ratio() for x in vector] for vector in vectors]
    unit = max((d for vector in ratios for _, d in vector), default=1)
    return unit, [[n * (unit // d) for n, d in vector] for vector in ratios]


def shares(probabilities: Sequence[float], what: str) -> Shares:
    """Probabilities that sum to 1, but for rounding, divided by their sum."""
    unit, (weights,) = whole(probabilities)
    summed = sum(weights)
    near_one = abs(summed - unit) * 10**9 <= unit
    require(near_one and min(weights) >= 0, f"{what} has a negative probability, or probabilities that do not sum to 1")
    twos = (summed & -summed).bit_length() - 1
    return Shares(weights, summed, summed >> twos, twos)


def check(model: Model, claim: Any) -> list[str]:
    """What the certificate proves, in lines; raises `Rejected` if it does not."""
    n_states, n_pairs, lines = len(model.pairs), model.pairs[-1].stop, list[str]()
    names, bounds, senses, K = model.names, model.bounds, model.senses, len(model.names)
    stated = [
        {"name": name, "bound": b.hex(), "sense": sense} for name, b, sense in zip(names, bounds, senses, strict=True)
    ]
    require(same(claim["constraints"], stated), "it is about other constraints than the model's")
    require(same(claim["criterion"], model.criterion), "it is about another criterion than the model's")

    def vector(name: str) -> list[float]:
        return doubles(claim[name], model.stages * n_states)

    def lower(what: str, gain: Sequence[float], ys: list[list[float]], offset: float, claimed: float) -> None:
        unit, (m, *integers) = whole(gain, *ys)
        places, of = unit.bit_length() - 1, len(ys)
        found = [bound(model, places, m, y, policy, of, most) for y, policy in zip(integers, policies, strict=True)]
        at_start = sum(w * begun for w, (begun, _) in zip(coin.weights, found, strict=True))
        by_stage = total((w * a, b) for w, (_, (a, b)) in zip(coin.weights, found, strict=True))
        mixed = over(joined(model, at_start, by_stage, most), unit * coin.total)
        proved = total([mixed, offset.as_integer_ratio()])
        require(not less(proved, claimed.as_integer_ratio()), f"{what} is only proved to be >= {near(proved)}")
        lines.append(f"{what} is >= {claimed!r}")

    def upper(what: str, claimed: float, reward_weight: int) -> None:
        prices, y = doubles(claim["prices"], K), vector("value_function")
        require(all(price >= 0 for price in prices), "a price is negative")
        unit, (u, b) = whole(prices, bounds)
        scale, (reward, integers, *signals) = whole(model.reward, y, *model.signals)
        priced = [0] * len(signals[0]) if signals else [0]  # for each pair, or for each at each stage
        for w, signal in zip(map(mul, u, senses), signals, strict=True):
            priced = [x + w * g for x, g in zip(priced, signal, strict=True)]
        size = max(len(reward), len(priced))
        gain = [reward_weight * unit * reward[e % len(reward)] + priced[e % len(priced)] for e in range(size)]
        places = (unit * scale).bit_length() - 1
        found = over(joined(model, *bound(model, places, gain, [unit * v for v in integers], None), 0), unit * scale)
        proved = total([found, (-sum(map(mul, map(mul, u, senses), b)), unit * unit)])
        require(not less(claimed.as_integer_ratio(), proved), f"{what} only proved to be <= {near(proved)}")
        lines.append(f"{what} <= {claimed!r}")

    if claim["statement"] == "infeasible":
        claimed = double(claim["margin_upper"])
        require(claimed < 0, "the weighted margins are not claimed to be negative")
        upper("the weighted margins of any policy are", claimed, 0)
        return ["no policy is in bounds", *lines]
    methods = claim["methods"]
    require(
        isinstance(methods, list) and len(methods) == K and all(type(x) is str for x in methods), "methods are wrong"
    )
    numbers = type(claim["confidence"]) in (int, float) and type(claim["samples"]) is int
    require(numbers, "confidence or samples is not a number")
    if claim["statement"] == "policy":  # a mixture of one
        weights, listed = [1.0], [[claim[key]] for key in ("policy", "margin_vectors", "reward_vector")]
    else:
        listed = [claim[key] for key in ("policies", "margin_vectors", "reward_vectors")]
        several = all(isinstance(entries, list) and len(entries) == len(listed[0]) > 0 for entries in listed)
        require(several, "the mixture does not have vectors for each of its policies")
        weights = doubles(claim["weights"], len(listed[0]))
    coin, (rules, margin_vectors, reward_vectors) = shares(weights, "the mixture"), listed
    n_entries, n_places = model.stages * n_pairs, model.stages * n_states
    policies = []
    for rule in rules:
        chosen = doubles(rule, n_entries)
        stages = (chosen[first : first + n_pairs] for first in range(0, n_entries, n_pairs))
        of_states = [shares(stage[p.start : p.stop], "the policy") for stage in stages for p in model.pairs]
        policies.append(Rule(of_states, visited(model, of_states)))
    most = max(chosen.twos for policy in policies for chosen in policy.chosen)
    margins = doubles(claim["margins_lower"], K)
    require(all(margin >= 0 for margin in margins), "a margin is only claimed to be at least a negative number")
    one_each = all(isinstance(vectors, list) and len(vectors) == K for vectors in margin_vectors)
    require(one_each, "there is not one vector for each margin")
    for k, (name, b, sense, signal, claimed) in enumerate(
        zip(names, bounds, senses, model.signals, margins, strict=True)
    ):
        ys = [doubles(vectors[k], n_places) for vectors in margin_vectors]
        lower(f"the margin of {name!r}", [sense * x for x in signal], ys, -sense * b, claimed)
    if claim["reward_lower"] is not None:
        ys = [doubles(y, n_places) for y in reward_vectors]
        lower("the reward", model.reward, ys, 0.0, double(claim["reward_lower"]))
    if claim["reward_upper"] is not None:
        upper("the reward of any policy in bounds is", double(claim["reward_upper"]), 1)
    return [f"the {claim['statement']} is in bounds", *lines]


class Attempt(NamedTuple):
    """Bets on walks of one policy, as the certificate has them; in lists of rows the reward is first, then margins."""

    together: int  # walks whose mean is a bet
    hurry: int  # 1: to settle soon counts
    planned: float  # bets
    aim: int  # samples: the deadline
    budget: int  # samples: that from the aim on
    least: list[float]  # of a bet
    low: list[float]  # of a value
    capitals: list[float]  # what the bets of each margin come to
    reference: list[float]  # the value at which the stakes of a bound are at most .9
    goals: list[float]  # of the bounds, for their stakes
    expected: list[list[float]]  # mean and variance of a bet, and how many bets these count for
    drawn: list[int]  # samples of each bet
    bets: list[list[float]]


def attempt_of(entry: Any, rows: int) -> Attempt:
    keys = "together hurry planned aim budget least low capitals reference goals expected drawn bets"
    require(isinstance(entry, dict) and set(entry) == set(keys.split()), "an attempt has other entries")
    together, hurry, aim, budget = (entry[key] for key in ("together", "hurry", "aim", "budget"))
    drawn, lists = entry["drawn"], entry["bets"]
    require(type(together) is int and together >= 1 and type(hurry) is int and hurry in (0, 1), "an attempt is wrong")
    require(is_whole(drawn) and min(drawn, default=together) >= together, "the samples of a bet are wrong")
    require(sum(drawn) < 2**53 and together < 2**53, "there are too many samples")
    require(isinstance(lists, list) and len(lists) == rows, "there are not bets for each margin, and the reward")
    require(all(is_whole(row) and len(row) == len(drawn) for row in lists), "a list of bets is wrong")
    require(all(abs(x) < 2**53 for row in lists for x in row), "a bet is too large")
    require(is_whole([aim, budget]) and 0 < aim <= budget < 2**53, "the aim, or the budget, is wrong")
    require(sum(drawn) <= budget, "more samples were drawn than the budget allows")
    least, low, reference, goals = (doubles(entry[key], rows) for key in ("least", "low", "reference", "goals"))
    capitals = doubles(entry["capitals"], rows - 1)
    require(isinstance(entry["expected"], list) and len(entry["expected"]) == rows, "what was expected is wrong")
    expected, planned = [doubles(row, 3) for row in entry["expected"]], double(entry["planned"])
    positive = [planned, *goals, *(x for _, variance, trust in expected for x in (variance, trust))]
    sizes = [*positive, *least, *(mean for mean, _, _ in expected)]
    require(min(positive) >= 2.0**-100 and max(map(abs, sizes)) <= 2.0**100, "a number is out of range")
    # So no stake is infinite: an overflow in what follows is one of the capital, and then it is not the one stated.
    rooms = [*map(float.__sub__, reference, least), *(-x for x in least[1:])]
    inside = all(0.0 <= x <= 1.0 for x in reference)
    require(inside and min(rooms) >= 2.0**-100, "a reference is wrong, or the least of a margin")
    unit = 2.0**-30
    bets = [[x * unit for x in row] for row in lists]
    require(all(min(row, default=x) >= x for row, x in zip(bets, least, strict=True)), "a bet is below the least")
    numbers = planned, aim, budget, least, low, capitals, reference, goals, expected
    return Attempt(together, hurry, *numbers, drawn, bets)


def is_whole(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(x) is int for x in numbers)


def moments(attempt: Attempt, k: int) -> Iterable[tuple[int, float, float, float]]:
    """Of each bet: its number, and the mean, the squared deviations and the variance that the ones before it show."""
    mean, squares, (_, expected, trust) = 0.0, 0.0, attempt.expected[k]
    for i, x in enumerate(attempt.bets[k]):
        yield i, mean, squares, (trust * expected + squares) / (trust + i)
        change = x - mean
        mean += change / (i + 1.0)
        squares += change * (x - mean)


def boldness(p: float) -> float:
    """What to stake, times the noise to come, where the capital is p of its goal."""
    share, exponent = math.frexp(p)
    q = 2.0 * (1.0 - share) - exponent
    return q * math.sqrt(1.386 / (q + 1.4)) if exponent <= 0 else 0.0


def capital(attempt: Attempt, k: int, level: float, discount: float) -> tuple[float, bool]:
    """What the bets that margin k is not <= 0 come to, and whether that is settled."""
    prior, _, trust = attempt.expected[k]
    held, drawn, most = 1.0, 0, 0.9 / -attempt.least[k]
    for i, mean, _, variance in moments(attempt, k):
        if held < 2.0**-500:
            break
        bold = boldness(held * level / 1.03)
        deadline = attempt.aim if drawn < attempt.aim else attempt.budget
        left = max((deadline - drawn) * (1.0 - discount) / attempt.together, 1.0)
        stake = bold / math.sqrt(left * variance)
        if attempt.hurry and trust + i >= 10.0:
            lower = (trust * prior + i * mean) / (trust + i) - math.sqrt(variance / (trust + i))
            stake = max(stake, lower / variance * (bold / (bold + 0.8)))
        held *= 1.0 + min(stake, most) * attempt.bets[k][i]
        if held * level >= 1.0 + 1e-6:
            return held, True
        drawn += attempt.drawn[i]
    return held, False


def rejects(attempt: Attempt, k: int, share: float, claimed: float) -> bool:
    """Whether the bets that row k is not <= `claimed` ever come to 1 / share."""
    held, most = 1.0, 0.9 / (attempt.reference[k] - attempt.least[k])
    for i, _, _, variance in moments(attempt, k):
        bets = attempt.planned if k else (i + 1.0) * 0.7 * math.frexp(i + 2.0)[1]
        stake = min(math.sqrt(2.0 * attempt.goals[k] / (variance * bets)), most)
        if stake * (claimed - attempt.least[k]) > 1.0:
            return False
        held *= 1.0 + stake * (attempt.bets[k][i] - claimed)
        if held >= (1.0 + 1e-6) / share:
            return True
        if held < 2.0**-500:
            return False
    return False


def share_of(alpha: float, K: int, k: int) -> float:
    """The probability that the bound of row k may have of being wrong, of `alpha` for all of an attempt."""
    return alpha if K == 0 else 0.1 * alpha if k == 0 else (1.0 - 0.1) * alpha / K


def check_bets(claim: Any) -> list[str]:
    """(C4): what the bets prove, in lines; raises `Rejected` if they do not. In doubles, as they were placed."""
    constraints, bets, confidence = claim["constraints"], claim["bets"], claim["confidence"]
    proof = set(claim) - {"bets", *OF_BETS.split()}
    require(all(claim[key] is None for key in proof), "it has entries of a proof on a model")
    listed = isinstance(constraints, list) and all(isinstance(c, dict) and len(c) == 3 for c in constraints)
    require(listed and all(set(c) == {"name", "bound", "sense"} for c in constraints), "a constraint is wrong")
    senses = [c["sense"] for c in constraints]
    require(all(same(sense, 1) or same(sense, -1) for sense in senses), "a sense is wrong")
    require(all(type(c["name"]) is str for c in constraints), "a name is wrong")
    limits, K = [double(c["bound"]) for c in constraints], len(constraints)
    require(type(confidence) is float and 0.0 < confidence < 1.0, "the confidence is not between 0 and 1")
    mixed = claim["statement"] == "mixture"
    keys = "staked bankroll discount reward_range signal_ranges margin_scales bounds apart attempts about "
    keys += "weights policies" if mixed else "policy"
    require(isinstance(bets, dict) and set(bets) == set(keys.split()), "the bets have other entries")
    require(bets["about"] == what_they_are_about(claim), "the bets are about something else: another hash")
    staked, bankroll, discount = (double(bets[key]) for key in ("staked", "bankroll", "discount"))
    require(0.0 < staked <= 1.0 and 0.0 < bankroll <= 1.0, "what is staked is out of range")
    require(0.0 <= discount < 1.0, "the discount is out of range")
    alpha, rules = 1.0 - confidence, bets["policies"] if mixed else [bets["policy"]]
    listed = isinstance(rules, list) and bool(rules) and all(isinstance(rule, list) and rule for rule in rules)
    require(listed and all(len(rule) == len(rules[0]) for rule in rules), "the policy has no probabilities")
    possible = all(0.0 <= p <= 1.0 for rule in rules for p in doubles(rule, len(rule)))
    require(possible, "the policy has no probabilities")
    if mixed:
        shares(doubles(bets["weights"], len(rules)), "the mixture")
    require(isinstance(bets["attempts"], list) and bool(bets["attempts"]), "there are no bets")
    of_bounds = staked * bankroll * alpha
    for entry in bets["attempts"]:
        attempt, level = attempt_of(entry, K + 1), staked * bankroll * alpha
        rows = [(1.0, True) if attempt.low[k] >= 0.0 else capital(attempt, k, level, discount) for k in range(1, K + 1)]
        require([held for held, _ in rows] == attempt.capitals, "the bets do not come to the capitals that are stated")
        settled = all(done for _, done in rows)
        require(settled or entry is not bets["attempts"][-1], "the last attempt does not settle every margin")
        bankroll *= (1.0 - staked) + staked * min([1.0, *(held for held, _ in rows)])
        of_bounds *= 1.0 if settled else 1.0 - staked
    apart, drawn = bets["apart"], sum(bets["attempts"][-1]["drawn"])
    right = is_whole([apart, claim["samples"]]) and apart >= 0
    require(right and claim["samples"] == drawn + apart, "the samples are not those of the bets, and those apart")
    (low, span), scales = doubles(bets["reward_range"], 2), doubles(bets["margin_scales"], K)
    require(isinstance(bets["signal_ranges"], list) and len(bets["signal_ranges"]) == K, "the ranges are wrong")
    ranges = [doubles(ends, 2) for ends in bets["signal_ranges"]]
    require(all(first <= last for first, last in ranges), "a range of a signal ends below where it begins")
    lows = [doubles(entry["low"], K + 1) for entry in bets["attempts"]]
    bounds, margins, reward = doubles(bets["bounds"], K + 1), doubles(claim["margins_lower"], K), claim["reward_lower"]
    sizes = [abs(x) for x in [span, *scales, *filter(None, bounds)]]
    require(min(sizes) >= 2.0**-500 and max(sizes) <= 2.0**500, "the span, a scale or a bound is out of range")
    for k, (limit, sense, ends, scale) in enumerate(zip(limits, senses, ranges, scales, strict=True), 1):
        margin = [sense * (end - limit) for end in ends]
        within = [x / scale or (-(2.0**-1074) if x < 0.0 else 0.0) for x in margin]
        require(max(map(abs, within)) <= 1.0 + 1e-9, f"the scale of margin {k} is not that of its range")
        require(all(own[k] == min(0.0, *within) for own in lows), f"the least margin {k} is not that of its range")
    require(all(own[0] == 0.0 for own in lows), "the least reward is not 0 in its units")
    require(double(reward) == low + span * bounds[0], "the bound of the reward is not that of the bets")
    require(
        margins == [x * scale for x, scale in zip(bounds[1:], scales, strict=True)], "a margin is not that of the bets"
    )
    require(
        all(x >= 0.0 for x in [*bounds[1:], *scales, span]), "a margin is not claimed to be >= 0, or a scale is not"
    )
    for k, bound in enumerate(bounds):
        proved = bound <= (attempt.low[k] if k == 0 else 0.0) or rejects(attempt, k, share_of(of_bounds, K, k), bound)
        require(proved, f"bound number {k} is not proved by the bets")
    zeros = [x == 0.0 > y for x, y in zip(bounds[1:], lows[-1][1:], strict=True)]
    methods = [f"betting for all {'margins' if zero else 'bounds'}" for zero in zeros]
    require(claim["methods"] == methods, "the methods are not those of the bounds")
    lines = [
        f"the margin of {c['name']!r} is >= {m!r} ({method}), if its signal is within {ends}"
        for c, m, method, ends in zip(constraints, margins, methods, ranges, strict=True)
    ]
    number = sum(len(entry["drawn"]) for entry in bets["attempts"])
    how = (
        f"with confidence {confidence!r}, if these {number:,} bets are on walks of it that were drawn as they should be"
    )
    reward = f"the reward is >= {double(reward)!r}, if no reward is below {low!r}"
    apart = ", those betting for all margins apart" if any(zeros) else ""
    at_once = f"one by one, with confidence {confidence!r} each: it is in bounds; all bounds hold at once{apart}"
    return [f"the {claim['statement']} is in bounds, {how}", *lines, reward, at_once]


def what_they_are_about(claim: Any) -> str:
    """The hash of the whole certificate but this hash and the seal, whatever its spaces and the order of its keys."""
    rest = {key: claim[key] for key in set(claim) - {"seal", "bets", "confidence"}}
    rest["bets"] = {key: claim["bets"][key] for key in set(claim["bets"]) - {"about"}}
    rest["confidence"] = claim["confidence"].hex()
    return sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def over(ratio: Ratio, unit: int) -> Ratio:
    return ratio[0], ratio[1] * unit


def same(one: Any, other: Any) -> bool:
    """Equal, in their types too: in Python True is 1, and 2.0 is 2."""
    return bool(one == other) and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def double(text: Any) -> float:
    """A double from the text that float.hex makes of it, and from no other."""
    try:
        value = float.fromhex(text) if isinstance(text, str) else math.nan
    except (ValueError, OverflowError):
        value = math.nan
    require(math.isfinite(value) and value.hex() == text, f"{str(text)[:30]!r} is not a double in hexadecimal")
    return value


def doubles(texts: Any, length: int) -> list[float]:
    require(isinstance(texts, list) and len(texts) == length, "a vector does not have the right length")
    return [double(text) for text in texts]


def read_model(content: bytes, claim: Any, progress: Progress | None) -> Model:
    """The model in a zip of .npy members, which must be, byte for byte, as inbounds writes it: see docs/files.md."""
    arrays, directory, position = dict[str, tuple[list[int], Any]](), b"", 0
    for name in LAYOUT:
        path = f"{name}.npy".encode()
        start = position + 50 + len(path)
        size = int.from_bytes(content[start - 8 : start], "little")
        layout = (
            f"the members are not those of a model, each once, as inbounds writes them: {name!r} is elsewhere or packed"
        )
        require(start + size <= len(content), layout)
        member = memoryview(content)[start : start + size]
        common = struct.pack("<5H3I", 45, 0, 0, 0, 33, zlib.crc32(member), 2**32 - 1, 2**32 - 1)
        head = b"PK\3\4" + common + struct.pack("<2H", len(path), 20) + path + struct.pack("<2H2Q", 1, 16, size, size)
        require(content[position:start] == head, layout)
        arrays[name] = read_array(member, name)
        entry = struct.pack("<5H2I", len(path), 28, 0, 0, 0, 0o644 << 16, 2**32 - 1)
        extra = struct.pack("<2H3Q", 1, 24, size, size, position)
        directory += b"PK\1\2" + struct.pack("<H", 3 << 8 | 45) + common + entry + path + extra
        position = start + size
    count, length = len(LAYOUT), len(directory)
    end = b"PK\6\6" + struct.pack("<Q2H2I4Q", 44, 45, 45, 0, 0, count, count, length, position)
    end += b"PK\6\7" + struct.pack("<IQI", 0, position + length, 1)
    end += b"PK\5\6" + struct.pack("<4H2IH", 0, 0, count, count, length, 2**32 - 1, 0)
    require(content[position:] == directory + end, "the members are followed by something else than their directory")
    return built(arrays, claim, progress)


def built(arrays: dict[str, tuple[list[int], Any]], claim: Any, progress: Progress | None) -> Model:
    a = {name: numbers for name, (_, numbers) in arrays.items()}
    header = parsed(bytes(a["header"]))
    require(isinstance(header, dict) and set(header) - {*PARTS} == {*HEADER.split()}, "the header has other keys")
    require(same([header["kind"], header["version"]], ["cmdp", 2]), "the model is not of the kind cmdp, version 2")
    criterion = header["criterion"]
    require(isinstance(criterion, dict) and len(criterion) == 1, "the criterion is wrong")
    ((kind, c),) = criterion.items()
    require(type(c) is {"discount": float, "horizon": int, "average": bool}.get(kind), "the criterion is wrong")
    require(0 <= c < 1 if kind == "discount" else 1 <= c <= LONGEST, "the discount or the horizon is wrong")
    up, unit = c.as_integer_ratio() if kind == "discount" else (1, 2)  # 1/2 makes a reach of 1
    weights, H = (int(kind == "discount"), int(kind != "average"), up, unit - up), c if kind == "horizon" else 1
    (S, n, K, size), m = (len(a[name]) for name in ("initial", "actions", "bounds", "header")), len(a["probabilities"])
    sizes = {"S": S, "S+1": S + 1, "n": n, "n+1": n + 1, "K": K, "m": m, "H": H, "H*n+1": H * n + 1, "b": size}
    for name, (_, *shapes) in LAYOUT.items():
        allowed = [[sizes[x] for x in shape.split()] for shape in shapes[: 2 if kind == "horizon" else 1]]
        require(arrays[name][0] in allowed, f"the sizes of the arrays do not agree: {name}")
    names, labels, actions = (header[key] for key in ("constraints", "states", "actions"))
    named = isinstance(names, list) and all(type(name) is str and name for name in names)
    require(named and len(set(names)) == len(names) == K, "the constraints do not have names of their own")
    require(labels is None or (isinstance(labels, list) and len(labels) == S), "the states are not all labelled")
    require((actions is None or isinstance(actions, list)) and type(header["name"]) is str, "a label is wrong")
    pairs, entries = partition(a["offsets"], n), partition(a["indptr"], m)
    require(S > 0 and all(pairs), "a state has no pair")
    require(all(0 <= state < S for state in a["indices"]), "a next state is wrong")
    require(set(a["senses"]) <= {1, -1} and min(a["actions"]) >= 0, "a sense or an action is wrong")
    step = len(a["signals"]) // K if K else 0
    p, next_states = a["probabilities"], a["indices"]
    several = len(rules) if isinstance(rules := claim.get("policies"), list) else 1
    claimed = [claim.get(key) is not None for key in ("margins_lower", "reward_lower", "reward_upper", "margin_upper")]
    passes = sum(map(mul, claimed, (K * several, several, 1, 1))) + (claim["statement"] != "infeasible") * several
    counted = counter(progress, len(entries) + passes * H * n, max(1024 * len(entries) // max(m, 1), 1))
    rows = list[tuple[Sequence[int], Shares]]()
    for e in entries:
        rows.append((next_states[e.start : e.stop], shares(p[e.start : e.stop], "the model")))
        counted(1)
    return Model(
        criterion={kind: c.hex() if kind == "discount" else c},
        stages=H,
        weights=weights,
        initial=shares(a["initial"], "the initial distribution"),
        pairs=pairs,
        rows=rows,
        twos=max(row.twos for _, row in rows),
        reward=a["reward"],
        signals=[a["signals"][k * step : (k + 1) * step] for k in range(K)],
        names=names,
        bounds=a["bounds"],
        senses=a["senses"],
        step=counted,
    )


def counter(progress: Progress | None, end: int, often: int) -> Callable[[int], None]:
    """A function to be called with numbers of pairs; of each so many, `often`, it tells how many there were."""
    done = 0

    def step(pairs: int) -> None:
        nonlocal done
        before, done = done, done + pairs
        if progress is not None and (done // often > before // often or done == end):
            progress(done, end)

    return step


def partition(ends: Sequence[int], whole_size: int) -> list[range]:
    rises = ends[0] == 0 and ends[-1] == whole_size and all(x <= y for x, y in pairwise(ends))
    require(rises, "offsets or indptr do not rise from 0 to the end")
    return [range(x, y) for x, y in pairwise(ends)]


def read_array(member: memoryview, name: str) -> tuple[list[int], Any]:
    """The shape of the array in a .npy member, and its numbers."""
    found = re.match(
        rb".{10}\{'descr': '([<|][fiu][148])', .{24}'shape': \((\d{1,18}(, \d{1,18})*,?)\)", member[:150], re.DOTALL
    )
    dtype, lengths = (found[1].decode(), found[2].decode()) if found else ("", "")
    require(dtype in LAYOUT[name][0].split(), f"{name!r} is not an array of the right type")
    shape = tuple(int(length) for length in lengths.split(",") if length.strip())
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    head = b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode()
    fits = len(member) - len(head) == math.prod(shape) * struct.calcsize(CODES[dtype])
    require(member[: len(head)] == head and fits, f"{name!r} is not an array as inbounds writes it")
    numbers = struct.unpack(f"<{math.prod(shape)}{CODES[dtype]}", member[len(head) :])
    require(dtype != "<f8" or all(map(math.isfinite, numbers)), f"{name!r} has a number that is not finite")
    return list(shape), numbers


def parsed(content: bytes, **options: Any) -> Any:
    """JSON in ASCII; no object has a key twice, and no value more than 39 lists and objects around it."""

    def once(items: list[tuple[str, Any]]) -> dict[str, Any]:
        require(len(dict(items)) == len(items), "a key is there twice")
        return dict(items)

    try:
        value = json.loads(content.decode("ascii"), object_pairs_hook=once, **options)
    except (ValueError, RecursionError) as error:
        raise Rejected(f"not JSON text in ASCII ({error})"[:200]) from error
    layer: list[Any] = [[value]]
    for _ in range(40):
        layer = [inner for whole in layer for inner in nested(whole)]
    require(not any(layer), "JSON that nests too deep")
    return value


def nested(whole: Any) -> Iterable[Any]:
    """The lists and objects in one; most hold nothing but millions of numbers, and are passed over quickly."""
    values = whole.values() if isinstance(whole, dict) else whole
    return () if NESTING.isdisjoint(map(type, values)) else [value for value in values if type(value) in NESTING]


def refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def content_of(path: str) -> bytes:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # reading a pipe or a device might never end
            raise Unreadable(f"{path}: is a directory, or not a regular file")
        with open(path, "rb") as stream:
            return stream.read()
    except (OSError, ValueError, MemoryError) as error:
        why = (
            "there is not enough memory"
            if isinstance(error, MemoryError)
            else getattr(error, "strerror", None) or error
        )
        raise Unreadable(f"{path}: cannot be read: {why}") from error


def verify(model_path: str, certificate_path: str, progress: Progress | None = None) -> tuple[bool, list[str]]:
    """Whether the certificate is accepted; and what it proves, or why it is rejected, in lines.

    Raises `Unreadable` if a file cannot be read, or is no model or no certificate at all. `progress` is called with the
    number of pairs that were looked at, and of those that there are to look at.
    """
    content = content_of(model_path)
    if content[:4] != b"PK\3\4":
        raise Unreadable(f"{model_path}: is not an .npz file; if it is a model, {ANEW}")

    def checked(claim: Any) -> list[str]:
        if claim["arithmetic"] == "confidence":
            raise Unreadable(f"{certificate_path}: it rests on samples: check its bets, without a model")
        require(claim["arithmetic"] in ("exact", "rounding-bounded"), "it holds no proof")
        require(claim["model"] == sha256(content).hexdigest(), ANOTHER)
        return check(read_model(content, claim, progress), claim)

    return opinion(certificate_path, checked)


def verify_bets(certificate_path: str) -> tuple[bool, list[str]]:
    """The same for a certificate that rests on samples: it holds its bets, and there is no model."""

    def checked(claim: Any) -> list[str]:
        if claim["arithmetic"] != "confidence":
            raise Unreadable(f"{certificate_path}: it is about a model: give that first")
        require("bets" in claim, "it holds no bets: its proof was broken off before the first")
        return check_bets(claim)

    return opinion(certificate_path, checked)


def opinion(path: str, checked: Callable[[Any], list[str]]) -> tuple[bool, list[str]]:
    """Of a certificate with the right entries."""
    certificate = content_of(path)
    try:
        claim = parsed(certificate, parse_constant=refuse)
    except Rejected as error:
        raise Unreadable(f"{path}: is not a certificate: {error}") from error
    if not isinstance(claim, dict) or not same([claim.get("kind"), claim.get("version")], ["inbounds certificate", 3]):
        raise Unreadable(f"{path}: is not a certificate, version 3")
    try:
        seal = sha256(certificate[:-68]).hexdigest()
        require(certificate[-68:] == f'{seal}"\n}}\n'.encode(), "the certificate is damaged or edited: wrong seal")
        statement = str(claim.get("statement"))
        require(statement in KEYS, "the statement is none of 'policy', 'mixture', 'infeasible'")
        sampled = statement != "infeasible" and same(claim.get("arithmetic"), "confidence")
        bets = {"bets"} if sampled else set[str]()
        require(set(claim) - bets == set(KEYS[statement].split()), "it has other entries than a certificate")
        require(claim["seal"] == seal, "the certificate is damaged or edited: its seal is not the last entry")
        return True, checked(claim)
    except Rejected as error:
        return False, [str(error)[:300]]


def say(text: str, stream: TextIO | None, end: str = "\n") -> None:
    """The exit code is the verdict whatever becomes of the words: the disk may be full, or the reader gone."""
    with suppress(OSError, ValueError):
        print(text.encode("utf-8", "backslashreplace").decode(), end=end, file=stream, flush=True)


def main(arguments: list[str]) -> int:
    if len(arguments) not in (1, 2):
        say(str(__doc__), sys.stderr)
        return 2

    def show(done: int, end: int) -> None:
        say(f"\r{done / end:.0%} ", sys.stderr, "\r" if done == end else "")

    try:
        if len(arguments) == 1:
            accepted, lines = verify_bets(arguments[0])
        else:
            accepted, lines = verify(arguments[0], arguments[1], show if sys.stderr and sys.stderr.isatty() else None)
    except (Unreadable, MemoryError) as error:
        say(f"UNREADABLE: {str(error) or 'not enough memory'}", sys.stdout)
        return 2
    say(f"{'ACCEPTED' if accepted else 'REJECTED'}: " + "\n  ".join(lines), sys.stdout)
    return 0 if accepted else 1


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # at once: Python would try again to write what could not be, and change the code
