"""Check a certificate against a model, in exact rational arithmetic, with the standard library alone.

    python verify.py model.npz certificate.json          exit code 0: accepted, 1: rejected

This file uses nothing of the library that made the certificate, and trusts nothing that the certificate claims. Two
hashes, its `seal` and that of the `model` file, keep out damaged files, but no liar: anybody can compute them. What
convinces is the arithmetic. In it a double is the binary number that it is; every row of transition probabilities, the
initial distribution rho and the policy's row in each state are divided by their exact sums; values are normalised by
(1 - d), with d the discount; a margin is signal - bound, or bound - signal for a most value. The two statements are:

"policy": the policy is in bounds. For the reward and for each margin, called m, the certificate has a vector w, and

    J(m)  =  <rho, w> + E sum_t d^t residual(s_t)  >=  <rho, w> + min_s residual(s) / (1 - d),                    (C1)
    residual(s) = sum_a pi(a|s) [ (1 - d) m(s,a) + d sum_s' P(s'|s,a) w(s') ] - w(s),

must be at least the claimed lower bound, which for margins must be >= 0. If it has prices u >= 0 and a vector V,

    reward of any policy in bounds  <=  <rho, V> + max_(s,a) excess(s,a) / (1 - d),                               (C2)
    excess(s,a) = (1 - d) (reward + u . margins)(s,a) + d sum_s' P(s'|s,a) V(s') - V(s),

must be at most the claimed upper bound. "infeasible": no policy is in bounds; (C2) without the reward is below 0 (C3).
"""

import io
import json
import re
import struct
import sys
import zipfile
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

ARRAY = rb"\{'descr': '(<f8|<i8|<i4|\|i1|\|u1)', 'fortran_order': False, 'shape': \((?:(\d+),(?: (\d+))?)?\), \} *\n?"
CODES = {b"<f8": "d", b"<i8": "q", b"<i4": "i", b"|i1": "b", b"|u1": "B"}  # of the module struct
ANOTHER_FILE = (
    "the model file is not the one that the certificate is about (its SHA-256 differs); if it holds the same model, as "
    '.toml or written elsewhere, check the file that inbounds makes of it: ib.load("m.toml").save("m.npz")'
)


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
    constraints: list[tuple[str, Fraction, int]]  # name, bound, sense


def lower_bound(model: Model, policy: list[int], gain: list[Fraction], vector: list[Fraction]) -> Fraction:
    """(C1): what a vector proves about the value of `gain` under a policy."""
    unit, (m, w) = whole(gain, vector)
    d, residuals = model.discount, []
    for state, pairs in enumerate(model.pairs):
        used = [pair for pair in pairs if policy[pair]]
        total = sum(policy[pair] * ((1 - d) * m[pair] + d * mean(model.rows[pair], w)) for pair in used)
        residuals.append(Fraction(total) / sum(policy[pair] for pair in used) - w[state])
    return (mean(model.initial, w) + min(residuals) / (1 - d)) / unit


def upper_bound(model: Model, reward_weight: int, claim: Any) -> Fraction:
    """(C2) or, without the reward, (C3): what prices and a vector prove about every policy."""
    prices, vector = doubles(claim["prices"], model.margins), doubles(claim["value_function"], model.pairs)
    require(all(price >= 0 for price in prices), "a price is negative")
    weights, signals = [reward_weight, *prices], zip(model.reward, *model.margins, strict=True)
    gain = [Fraction(sum(u * x for u, x in zip(weights, at_pair, strict=True))) for at_pair in signals]
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
    stated = [(c["name"], Fraction(float.fromhex(c["bound"])), c["sense"]) for c in claim["constraints"]]
    require(stated == model.constraints, "it is about other constraints than the model's")
    require(float.fromhex(claim["discount"]) == model.discount, "it is about a model with another discount")
    if claim["statement"] == "infeasible":
        claimed, proved = float.fromhex(claim["margin_upper"]), upper_bound(model, 0, claim)
        require(proved <= claimed < 0, f"the weighted margins are only proved to be <= {float(proved)!r}")
        return ["no policy is in bounds", f"the weighted margins of any policy are <= {claimed!r}"]
    require(claim["statement"] == "policy", "the statement is neither 'policy' nor 'infeasible'")
    policy = weights_of(doubles(claim["policy"], model.rows), model.pairs, "the policy")
    lowers = [float.fromhex(text) for text in claim["margins_lower"]]
    require(all(lower >= 0 for lower in lowers), "a margin is only claimed to be at least a negative number")
    names = [f"the margin of {name!r}" for name, _, _ in model.constraints]
    statements = list(zip(names, model.margins, lowers, claim["margin_vectors"], strict=True))
    if claim["reward_lower"] is not None:
        statements.append(("the reward", model.reward, float.fromhex(claim["reward_lower"]), claim["reward_vector"]))
    lines = ["the policy is in bounds"]
    for what, gain, claimed, vector in statements:
        proved = lower_bound(model, policy, gain, doubles(vector, model.pairs))
        require(proved >= claimed, f"{what} is only proved to be >= {float(proved)!r}")
        lines.append(f"{what} is >= {claimed!r}")
    if claim["reward_upper"] is not None:
        claimed, proved = float.fromhex(claim["reward_upper"]), upper_bound(model, 1, claim)
        require(proved <= claimed, f"the reward of policies in bounds is only proved to be <= {float(proved)!r}")
        lines.append(f"the reward of any policy in bounds is <= {claimed!r}")
    return lines


def doubles(texts: Any, places: list[Any]) -> list[Fraction]:
    """Doubles, one for each place, from hexadecimal to the rationals that they are; infinity and NaN raise."""
    require(isinstance(texts, list) and len(texts) == len(places), f"a vector does not have {len(places)} entries")
    return [Fraction(float.fromhex(text)) for text in texts]


def read_model(content: bytes) -> Model:
    """The model in a zip of .npy members."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        require(sum(m.file_size for m in members) <= len(content), "the model file is compressed, or damaged")
        require(len({m.filename for m in members}) == len(members), "a member occurs twice")
        a = {m.filename.removesuffix(".npy"): read_array(archive.read(m)) for m in members}
    header, p, initial, reward = json.loads(bytes(a["header"])), a["probabilities"], a["initial"], a["reward"]
    require(header["kind"] == "cmdp" and header["version"] == 1, "the model is not of the kind cmdp, version 1")
    (discount,), constraints = a["discount"], list(zip(header["constraints"], a["bounds"], a["senses"], strict=True))
    pairs, entries = partition(a["offsets"], len(initial), len(reward)), partition(a["indptr"], len(reward), len(p))
    margins = [[sign * (x - b) for x in signal] for signal, (_, b, sign) in zip(a["signals"], constraints, strict=True)]
    require({len(reward)}.issuperset(map(len, margins)), "a signal does not have one number for each pair")
    require(set(a["indices"]).issubset(range(len(initial))), "a next state does not exist")
    require(0 <= discount < 1 and set(a["senses"]) <= {1, -1}, "the discount or a sense is wrong")
    successors = list(zip(a["indices"], weights_of(p, entries, "the model"), strict=True))
    rows = [successors[row.start : row.stop] for row in entries]
    starts = list(enumerate(weights_of(initial, [range(len(initial))], "the initial distribution")))
    return Model(discount, starts, pairs, rows, reward, margins, constraints)


def partition(ends: list[int], parts: int, total: int) -> list[range]:
    require((len(ends), ends[0], ends[-1]) == (parts + 1, 0, total), "the sizes of the arrays do not agree")
    require(all(ends[i] < ends[i + 1] for i in range(parts)), "a state without actions, or a pair without next states")
    return [range(ends[i], ends[i + 1]) for i in range(parts)]


def read_array(content: bytes) -> list[Any]:
    """The numbers in a .npy member, doubles as rationals; in rows if it has two dimensions."""
    end = 10 + int.from_bytes(content[8:10], "little")
    found = re.fullmatch(ARRAY, content[10:end])
    if content[:8] != b"\x93NUMPY\x01\x00" or found is None:
        raise Rejected("a member of the model file is not an array as inbounds writes it")
    length, width = int(found[2] or 1), int(found[3] or 1)
    packed = struct.unpack(f"<{length * width}{CODES[found[1]]}", content[end:])
    numbers = [Fraction(x) if isinstance(x, float) else x for x in packed]
    return [numbers[i : i + width] for i in range(0, len(numbers), width)] if found[3] else numbers


def verify(model_path: str, certificate_path: str) -> tuple[bool, list[str]]:
    """Whether the certificate is accepted; and what it proves, or why it is rejected, in lines."""
    try:
        model, certificate = Path(model_path).read_bytes(), Path(certificate_path).read_bytes()
        claim, seal = json.loads(certificate), sha256(certificate[:-68]).hexdigest()
        require((claim["kind"], claim["version"]) == ("inbounds certificate", 2), "it is not a certificate, version 2")
        require(certificate[-68:] == f'{seal}"\n}}\n'.encode(), "the certificate is damaged or edited: wrong seal")
        require(claim["arithmetic"] in ("exact", "rounding-bounded"), "it rests on samples: there is no proof to check")
        require(claim["model"] == sha256(model).hexdigest(), ANOTHER_FILE)
        return True, check(read_model(model), claim)
    except Exception as error:  # whatever is wrong with a file: it proves nothing
        unexpected = "" if isinstance(error, Rejected) else f"a file cannot be read, {type(error).__name__}: "
        return False, [f"{unexpected}{error}"[:300]]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    accepted, report = verify(sys.argv[1], sys.argv[2])
    print(f"{'ACCEPTED' if accepted else 'REJECTED'}: " + "\n  ".join(report))
    sys.exit(0 if accepted else 1)
