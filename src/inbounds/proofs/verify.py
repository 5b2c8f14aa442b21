"""Check a certificate against a model, in exact rational arithmetic, with the standard library alone.

    python verify.py model.npz certificate.json          exit code 0: accepted, 1: rejected

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

must be at least the claimed lower bound, which for margins must be >= 0. If it has prices u >= 0 and a vector V,

    J(reward) in bounds  <=  start <rho, V> + sum over stages of max_(s,a) (reward + u . margins - E V)(s, a)     (C2)

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
from itertools import pairwise
from math import lcm, prod
from pathlib import Path
from typing import Any, NamedTuple

WHOLE = "<i8 <i4 |i1"
LAYOUT = {  # of the model file; name: accepted types; shape; the other shape, where it depends on the stage
    "header": ("|u1", "b"), "offsets": (WHOLE, "S+1"), "actions": (WHOLE, "n"), "indptr": (WHOLE, "n+1", "H*n+1"),
    "indices": (WHOLE, "m"), "probabilities": ("<f8", "m"), "reward": ("<f8", "n", "H n"),
    "signals": ("<f8", "K n", "K H n"), "bounds": ("<f8", "K"), "senses": (WHOLE, "K"), "initial": ("<f8", "S"),
}  # fmt: skip
ARRAY = rb"\{'descr': '([<|][fiu][148])', 'fortran_order': False, 'shape': \(([0-9, ]*)\), \} *\n?"
CODES = {"<f8": "d", "<i8": "q", "<i4": "i", "|i1": "b", "|u1": "B"}  # of the module struct
ANOTHER = 'the model file is not the one it is about (SHA-256 differs); make that by ib.load("m.toml").save("m.npz")'


class Rejected(Exception): ...  # says why


def require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Rejected(otherwise)


class Model(NamedTuple):
    criterion: dict[str, Any]
    stages: int  # 1 without a horizon
    weights: tuple[int, Fraction, int]  # own, reach, start
    initial: list[tuple[int, int]]  # (state, weight)
    pairs: list[range]  # of each state
    rows: list[list[tuple[int, int]]]  # of each pair, or of each at each stage: (next state, weight)
    reward: list[Fraction]  # the same
    margins: list[list[Fraction]]  # the same, of each constraint
    constraints: list[tuple[str, Fraction, int]]  # name, bound, sense


def bound(model: Model, gain: list[Fraction], vector: list[Fraction], policy: list[int] | None) -> Fraction:
    """(C1), what a vector proves about the value of `gain` under a policy; or, without a policy, (C2)."""
    unit, (m, y) = whole(gain, vector)
    (own, reach, start), rows, n_states, n_pairs = model.weights, model.rows, len(model.pairs), model.pairs[-1].stop
    total = start * mean(model.initial, y)
    for stage in range(model.stages):
        first, found = stage * n_pairs, list[Fraction]()
        now, later = (y[h * n_states : (h + 1) * n_states] for h in (stage, stage + 1))
        after = (later or [0] * n_states) if "horizon" in model.criterion else now
        for v, pairs in zip(now, model.pairs, strict=True):
            used = [e for e in range(first + pairs.start, first + pairs.stop) if policy is None or policy[e]]
            left = [m[e % len(m)] - own * v - reach * (v - mean(rows[e % len(rows)], after)) for e in used]
            if policy is not None:
                left = [mean([(i, policy[e]) for i, e in enumerate(used)], left)]
            found += left
        total += max(found) if policy is None else min(found)
    return total / unit


def upper_bound(model: Model, reward_weight: int, claim: Any) -> Fraction:
    """(C2) or, without the reward, (C3): what prices and a vector prove about every policy."""
    prices = doubles(claim["prices"], model.margins)
    require(all(price >= 0 for price in prices), "a price is negative")
    signals = [(Fraction(reward_weight), model.reward), *zip(prices, model.margins, strict=True)]
    gain = [sum((u * x[e % len(x)] for u, x in signals), Fraction(0)) for e in range(max(len(x) for _, x in signals))]
    return bound(model, gain, doubles(claim["value_function"], model.pairs, model.stages), None)


def mean(row: list[tuple[int, int]], values: list[Any]) -> Fraction:
    return Fraction(sum(weight * values[state] for state, weight in row), sum(weight for _, weight in row))


def whole(*vectors: list[Fraction]) -> tuple[int, list[list[int]]]:
    """(unit, the vectors times unit): most denominators are powers of two, and integers are fast."""
    unit = lcm(*{x.denominator for vector in vectors for x in vector})
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
    criterion = {key: float.fromhex(x) if key == "discount" else x for key, x in claim["criterion"].items()}
    require(criterion == model.criterion, "it is about another criterion than the model's")
    if claim["statement"] == "infeasible":
        claimed, proved = float.fromhex(claim["margin_upper"]), upper_bound(model, 0, claim)
        require(proved <= claimed < 0, f"the weighted margins are only proved to be <= {float(proved)!r}")
        return ["no policy is in bounds", f"the weighted margins of any policy are <= {claimed!r}"]
    require(claim["statement"] == "policy", "the statement is neither 'policy' nor 'infeasible'")
    chosen, n = doubles(claim["policy"], range(model.pairs[-1].stop), model.stages), model.pairs[-1].stop
    groups = [range(h * n + p.start, h * n + p.stop) for h in range(model.stages) for p in model.pairs]
    policy = weights_of(chosen, groups, "the policy")
    positive = all(float.fromhex(text) >= 0 for text in claim["margins_lower"])
    require(positive, "a margin is only claimed to be at least a negative number")
    names, lines = [f"the margin of {name!r}" for name, _, _ in model.constraints], ["the policy is in bounds"]
    statements = list(zip(names, model.margins, claim["margins_lower"], claim["margin_vectors"], strict=True))
    if claim["reward_lower"] is not None:
        statements.append(("the reward", model.reward, claim["reward_lower"], claim["reward_vector"]))
    for what, gain, text, vector in statements:
        claimed, proved = float.fromhex(text), bound(model, gain, doubles(vector, model.pairs, model.stages), policy)
        require(proved >= claimed, f"{what} is only proved to be >= {float(proved)!r}")
        lines.append(f"{what} is >= {claimed!r}")
    if claim["reward_upper"] is not None:
        claimed, proved = float.fromhex(claim["reward_upper"]), upper_bound(model, 1, claim)
        require(proved <= claimed, f"the reward of policies in bounds is only proved to be <= {float(proved)!r}")
        lines.append(f"the reward of any policy in bounds is <= {claimed!r}")
    return lines


def doubles(texts: Any, places: Any, times: int = 1) -> list[Fraction]:
    """Doubles, one for each place, from hexadecimal to the rationals that they are; infinity and NaN raise."""
    require(isinstance(texts, list) and len(texts) == times * len(places), "a vector does not have the right length")
    return [Fraction(float.fromhex(text)) for text in texts]


def read_model(content: bytes) -> Model:
    """The model in a zip of .npy members: exactly those of `LAYOUT`, each once, and none of them compressed."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members, names = archive.infolist(), sorted(f"{name}.npy" for name in LAYOUT)
        require(sorted(m.filename for m in members) == names, "the members are not those of a model, each once")
        stored = all(m.compress_type == zipfile.ZIP_STORED and m.compress_size == m.file_size for m in members)
        require(stored and sum(m.file_size for m in members) <= len(content), "a member is compressed, or damaged")
        arrays = {name: read_array(archive.read(f"{name}.npy"), LAYOUT[name][0]) for name in LAYOUT}
    a = {name: numbers for name, (_, numbers) in arrays.items()}
    header = json.loads(bytes(a["header"]).decode())
    require((header["kind"], header["version"]) == ("cmdp", 2), "the model is not of the kind cmdp, version 2")
    ((kind, c),) = header["criterion"].items()
    require(type(c) is {"discount": float, "horizon": int, "average": bool}.get(kind), "the criterion is wrong")
    require(0 <= c < 1 if kind == "discount" else c >= 1, "the discount or the horizon is wrong")
    d, H = Fraction(c) if kind == "discount" else Fraction(1, 2), c if kind == "horizon" else 1
    weights = (int(kind == "discount"), d / (1 - d), int(kind != "average"))  # d = 1/2 makes 1
    p, (S, n, K, size) = a["probabilities"], (len(a[name]) for name in ("initial", "actions", "bounds", "header"))
    sizes = {"S": S, "S+1": S + 1, "n": n, "n+1": n + 1, "K": K, "m": len(p), "H": H, "H*n+1": H * n + 1, "b": size}
    for name, (_, *shapes) in LAYOUT.items():
        allowed = [[sizes[x] for x in shape.split()] for shape in shapes[: 2 if kind == "horizon" else 1]]
        require(arrays[name][0] in allowed, f"the sizes of the arrays do not agree: {name}")
    constraints, width = list(zip(header["constraints"], a["bounds"], a["senses"], strict=True)), len(a["signals"])
    entries = partition(a["indptr"], len(p))
    require(set(a["indices"]) <= set(range(S)) and set(a["senses"]) <= {1, -1}, "a next state or a sense is wrong")
    signals = [a["signals"][k * width // K : (k + 1) * width // K] for k in range(K)]
    margins = [[sign * (x - b / H) for x in signal] for signal, (_, b, sign) in zip(signals, constraints, strict=True)]
    successors = list(zip(a["indices"], weights_of(p, entries, "the model"), strict=True))
    rows = [successors[row.start : row.stop] for row in entries]
    rho = list(enumerate(weights_of(a["initial"], [range(S)], "the initial distribution")))
    return Model({kind: c}, H, weights, rho, partition(a["offsets"], n), rows, a["reward"], margins, constraints)


def partition(ends: list[int], total: int) -> list[range]:
    require(ends[0] == 0 and ends[-1] == total and all(x < y for x, y in pairwise(ends)), "offsets or indptr are wrong")
    return [range(x, y) for x, y in pairwise(ends)]


def read_array(content: bytes, types: str) -> tuple[list[int], list[Any]]:
    """The shape of the array in a .npy member, and its numbers; doubles as rationals."""
    end = 10 + int.from_bytes(content[8:10], "little")
    found = re.fullmatch(ARRAY, content[10:end])
    if content[:8] != b"\x93NUMPY\x01\x00" or found is None or found[1].decode() not in types.split():
        raise Rejected("a member of the model file is not an array as inbounds writes it")
    shape = [int(length) for length in found[2].split(b",") if length]
    packed = struct.unpack(f"<{prod(shape)}{CODES[found[1].decode()]}", content[end:])
    return shape, [Fraction(x) if isinstance(x, float) else x for x in packed]


def verify(model_path: str, certificate_path: str) -> tuple[bool, list[str]]:
    """Whether the certificate is accepted; and what it proves, or why it is rejected, in lines."""
    try:
        model, certificate = Path(model_path).read_bytes(), Path(certificate_path).read_bytes()
        claim, seal = json.loads(certificate), sha256(certificate[:-68]).hexdigest()
        require((claim["kind"], claim["version"]) == ("inbounds certificate", 3), "it is not a certificate, version 3")
        require(certificate[-68:] == f'{seal}"\n}}\n'.encode(), "the certificate is damaged or edited: wrong seal")
        require(claim["arithmetic"] in ("exact", "rounding-bounded"), "it rests on samples: there is no proof to check")
        require(claim["model"] == sha256(model).hexdigest(), ANOTHER)
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
