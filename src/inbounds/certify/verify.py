"""Check a certificate against a model, in exact rational arithmetic, with the standard library alone.

    python verify.py model.npz certificate.json          exit code 0: accepted, 1: rejected

This file uses nothing of the library that made the certificate, and trusts nothing that the certificate claims.
A double is the binary number that it is. Every row of transition probabilities, the initial distribution rho and the
policy's row in each state are divided by their exact sums. Values are normalised by (1 - d), with d the discount. A
margin is signal - bound, or bound - signal where the bound is a most value. One of two statements is accepted:

"policy": the policy is in bounds. For the reward and for each margin, called m, the certificate has a vector w, and

    J(m)  =  <rho, w> + E sum_t d^t residual(s_t)  >=  <rho, w> + min_s residual(s) / (1 - d),                    (C1)
    residual(s) = sum_a pi(a|s) [ (1 - d) m(s,a) + d sum_s' P(s'|s,a) w(s') ] - w(s),

must be at least the claimed lower bound, which for margins must be >= 0. If it has prices u >= 0 and a vector V,

    reward of any policy in bounds  <=  <rho, V> + max_(s,a) excess(s,a) / (1 - d),                               (C2)
    excess(s,a) = (1 - d) (reward + u . margins)(s,a) + d sum_s' P(s'|s,a) V(s') - V(s),

must be at most the claimed upper bound. "infeasible": no policy is in bounds; (C2) without the reward is below 0 (C3).
"""

import json
import math
import os
import re
import struct
import sys
import zipfile
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

ARRAY = rb"\{'descr': '(<f8|<i8|<i4|\|i1|\|u1)', 'fortran_order': False, 'shape': \(([\d, ]*)\), \} *\n?"
CODES = {b"<f8": "<d", b"<i8": "<q", b"<i4": "<i", b"|i1": "b", b"|u1": "B"}  # of the module struct


class Rejected(Exception):
    """Why the certificate is not accepted."""


def require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Rejected(otherwise)


class Model(NamedTuple):
    discount: Fraction
    initial: list[tuple[int, int]]  # (state, weight)
    pairs: list[range]  # of each state
    rows: list[list[tuple[int, int]]]  # of each pair: (next state, weight)
    reward: list[Fraction]  # at each pair
    margins: list[list[Fraction]]  # of each constraint, at each pair
    constraints: list[tuple[str, float, int]]  # name, bound, sense


def lower_bound(model: Model, policy: list[int], gain: list[Fraction], vector: list[Fraction]) -> Fraction:
    """(C1): what a vector proves about the value of `gain` under a policy."""
    unit, (m, w) = whole(gain, vector)
    d, residuals = model.discount, []
    for state, pairs in enumerate(model.pairs):
        used = [pair for pair in pairs if policy[pair]]
        total = sum(policy[pair] * ((1 - d) * m[pair] + d * mean(model.rows[pair], w)) for pair in used)
        residuals.append(Fraction(total) / sum(policy[pair] for pair in used) - w[state])
    return (mean(model.initial, w) + min(residuals) / (1 - d)) / unit


def upper_bound(model: Model, reward_weight: int, prices: list[Fraction], vector: list[Fraction]) -> Fraction:
    """(C2) or, without the reward, (C3): what prices and a vector prove about every policy."""
    require(all(price >= 0 for price in prices), "a price is negative")
    gain = [reward_weight * x for x in model.reward]
    for price, margin in zip(prices, model.margins, strict=True):
        gain = [x + price * y for x, y in zip(gain, margin, strict=True)]
    unit, (m, v) = whole(gain, vector)
    d, excesses = model.discount, []
    for state, pairs in enumerate(model.pairs):
        excesses += [(1 - d) * m[pair] + d * mean(model.rows[pair], v) - v[state] for pair in pairs]
    return (mean(model.initial, v) + max(excesses) / (1 - d)) / unit


def mean(row: list[tuple[int, int]], values: list[int]) -> Fraction:
    """The mean of `values` over the states of a row, its weights divided by their sum."""
    return Fraction(sum(weight * values[state] for state, weight in row), sum(weight for _, weight in row))


def whole(*vectors: list[Fraction]) -> tuple[int, list[list[int]]]:
    """(unit, the vectors times unit): doubles are whole multiples of a power of two, and integers are fast."""
    unit = max(x.denominator for vector in vectors for x in vector)
    return unit, [[x.numerator * (unit // x.denominator) for x in vector] for vector in vectors]


def weights_of(probabilities: list[Fraction], groups: list[range], what: str) -> list[int]:
    """Probabilities as integers, up to a common factor; each group must sum to 1 but for rounding."""
    unit, (weights,) = whole(probabilities)
    near_one = all(abs(sum(weights[i] for i in group) - unit) * 10**9 <= unit for group in groups)
    require(near_one and min(weights) >= 0, f"{what} has a negative probability, or probabilities that do not sum to 1")
    return weights


def check(model: Model, claim: Any) -> list[str]:
    """What the certificate proves, in lines; raises `Rejected` if it does not."""
    require(claim["kind"] == "inbounds certificate" and claim["version"] == 1, "this is not a certificate, version 1")
    require(claim["arithmetic"] in ("exact", "rounding-bounded"), "it rests on samples: there is no proof to check")
    require(float.fromhex(claim["discount"]) == model.discount, "it is about a model with another discount")
    stated = [(c["name"], float.fromhex(c["bound"]), c["sense"]) for c in claim["constraints"]]
    require(stated == model.constraints, "it is about other constraints than the model's")
    n_states, n_pairs, n_constraints = len(model.pairs), len(model.rows), len(model.constraints)
    if claim["statement"] == "infeasible":
        prices, claimed = doubles(claim["prices"], n_constraints), float.fromhex(claim["margin_upper"])
        proved = upper_bound(model, 0, prices, doubles(claim["value_function"], n_states))
        require(proved <= claimed < 0, f"the weighted margins are only proved to be <= {float(proved)!r}")
        return ["no policy is in bounds", f"the weighted margins of any policy are <= {claimed!r}"]
    require(claim["statement"] == "policy", "the statement is neither 'policy' nor 'infeasible'")
    policy = weights_of(doubles(claim["policy"], n_pairs), model.pairs, "the policy")
    lowers = [float.fromhex(text) for text in claim["margins_lower"]]
    require(all(lower >= 0 for lower in lowers), "a margin is only claimed to be at least a negative number")
    names = [f"the margin of {name!r}" for name, _, _ in model.constraints]
    statements = list(zip(names, model.margins, lowers, claim["margin_vectors"], strict=True))
    if claim["reward_lower"] is not None:
        statements.append(("the reward", model.reward, float.fromhex(claim["reward_lower"]), claim["reward_vector"]))
    lines = ["the policy is in bounds"]
    for what, gain, claimed, vector in statements:
        proved = lower_bound(model, policy, gain, doubles(vector, n_states))
        require(proved >= claimed, f"{what} is only proved to be >= {float(proved)!r}")
        lines.append(f"{what} is >= {claimed!r}")
    if claim["reward_upper"] is not None:
        prices, claimed = doubles(claim["prices"], n_constraints), float.fromhex(claim["reward_upper"])
        proved = upper_bound(model, 1, prices, doubles(claim["value_function"], n_states))
        require(proved <= claimed, f"the reward of policies in bounds is only proved to be <= {float(proved)!r}")
        lines.append(f"the reward of any policy in bounds is <= {claimed!r}")
    return lines


def doubles(texts: Any, length: int) -> list[Fraction]:
    """Doubles, written in hexadecimal, as the rationals that they are; infinity and NaN raise."""
    require(isinstance(texts, list) and len(texts) == length, f"a vector does not have {length} entries")
    return [Fraction(float.fromhex(text)) for text in texts]


def read_model(path: str) -> Model:
    """The model in a zip of .npy members, none of them compressed."""
    require(not str(path).endswith(".toml"), 'a .toml model must be converted: ib.load("m.toml").save("m.npz")')
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        require(all(m.compress_type == 0 and m.compress_size == m.file_size for m in members), "a member is compressed")
        require(sum(m.file_size for m in members) <= os.path.getsize(path), "members are larger than the file")
        require(len({m.filename for m in members}) == len(members), "a member occurs twice")
        a = {m.filename.removesuffix(".npy"): read_array(archive.read(m)) for m in members}
    header, bounds, senses = json.loads(bytes(a["header"])), a["bounds"], a["senses"]
    require(header["kind"] == "cmdp" and header["version"] == 1, "the model is not of the kind cmdp, version 1")
    names = ("probabilities", "initial", "reward", "discount")
    p, initial, reward, (discount,) = ([Fraction(x) for x in a[name]] for name in names)
    pairs, entries = partition(a["offsets"], len(initial), len(reward)), partition(a["indptr"], len(reward), len(p))
    signed = zip(a["signals"], bounds, senses, strict=True)
    margins = [[sense * (Fraction(x) - Fraction(bound)) for x in signal] for signal, bound, sense in signed]
    require({len(reward)}.issuperset(map(len, margins)), "a signal does not have one number for each pair")
    require(set(a["indices"]).issubset(range(len(initial))), "a next state does not exist")
    require(0 <= discount < 1 and set(senses) <= {1, -1}, "the discount or a sense is wrong")
    weights = weights_of(p, entries, "the model")
    rows = [[(a["indices"][entry], weights[entry]) for entry in row] for row in entries]
    starts = list(enumerate(weights_of(initial, [range(len(initial))], "the initial distribution")))
    constraints = list(zip(header["constraints"], bounds, senses, strict=True))
    return Model(discount, starts, pairs, rows, reward, margins, constraints)


def partition(ends: list[int], parts: int, total: int) -> list[range]:
    rising = all(first < last for first, last in pairwise(ends))
    require(rising and (len(ends), ends[0], ends[-1]) == (parts + 1, 0, total), "the sizes of the arrays do not agree")
    return [range(first, last) for first, last in pairwise(ends)]


def read_array(content: bytes) -> list[Any]:
    """The numbers in a .npy member; in rows if it has two dimensions."""
    end = 10 + int.from_bytes(content[8:10], "little")
    found = re.fullmatch(ARRAY, content[10:end])
    if content[:8] != b"\x93NUMPY\x01\x00" or found is None:
        raise Rejected("a member of the model file is not an array as inbounds writes it")
    shape = [int(length) for length in found[2].split(b",") if length.strip()]
    numbers = [number for (number,) in struct.iter_unpack(CODES[found[1]], content[end:])]
    require(len(numbers) == math.prod(shape), "a member of the model file has a wrong size")
    return [numbers[i : i + shape[1]] for i in range(0, len(numbers), shape[1])] if len(shape) == 2 else numbers


def verify(model_path: str, certificate_path: str) -> tuple[bool, list[str]]:
    """Whether the certificate is accepted; and what it proves, or why it is rejected, in lines."""
    try:
        with open(certificate_path, encoding="utf-8") as stream:
            return True, check(read_model(model_path), json.load(stream))
    except Exception as error:  # whatever is wrong with a file: it proves nothing
        unexpected = "" if isinstance(error, Rejected) else f"a file cannot be read, {type(error).__name__}: "
        return False, [f"{unexpected}{error}"[:300]]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    accepted, report = verify(sys.argv[1], sys.argv[2])
    print(f"{'ACCEPTED' if accepted else 'REJECTED'}: " + "\n  ".join(report))
    sys.exit(0 if accepted else 1)
