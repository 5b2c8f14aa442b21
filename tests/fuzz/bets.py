"""Certificates from samples that nobody drew: numbers over the whole range of doubles, and bets that win all the same.

What follows from other numbers (scaled margins, capitals, what is claimed) is worked out in doubles, as
docs/certificates.md has it, so that many of these files are accepted, and the rest is rejected late: where two checkers
with different arithmetic would part. Whoever makes up bets has walked nowhere; the arithmetic is right all the same.
"""

from __future__ import annotations

import hashlib
import math
import struct

from inbounds.proofs.files import sealed, what_bets_are_about
from inbounds.proofs.verify import Unreadable, attempt_of, capital, verify_bets

from .certificates import second

UNIT = 2**30  # of bets
ENDS = (0.0, 5e-324, 2.0**-1060, 2.0**-1022, 2.0**-501, 2.0**-500, 2.0**-100, 2.0**100, 2.0**500, 2.0**1023)


def verdicts(path):
    """What the two checkers say of a file with bets."""
    try:
        first = "accepted" if verify_bets(str(path))[0] else "rejected"
    except Unreadable:
        first = "unreadable"
    try:
        second.check(str(path))
        return first, "accepted"
    except second.Rejected:
        return first, "rejected"
    except second.Unreadable:
        return first, "unreadable"


def made_up(constraints=({},), confidence=0.9, bets=200, **changes):
    """A certificate whose bets of 1/2 settle every margin.

    Of each constraint `sense`, `bound`, `range`, `scale` and `claimed`, in scaled units, may be given;
    `changes` are of the certificate, of its bets, or of their one attempt.
    """
    plain = {"sense": 1, "bound": 0.0, "range": (-1.0, 1.0), "scale": 1.0, "claimed": 0.0}
    told, low = [plain | one for one in constraints], [0.0]
    for one in told:
        ends = [_quotient(one["sense"] * (end - one["bound"]), one["scale"]) for end in one["range"]]
        low.append(min(0.0, *ends))
    rows = len(low)
    attempt = {
        "hurry": 0,
        "together": 1,
        "planned": float(bets).hex(),
        "aim": bets,
        "budget": 2 * bets,
        "least": _hexes([-1.0] * rows),
        "low": _hexes(low),
        "capitals": _hexes([1.0] * (rows - 1)),
        "reference": _hexes([0.5] * rows),
        "goals": _hexes([2.0] * rows),
        "expected": [_hexes([0.5, 0.25, 1.0])] * rows,
        "drawn": [1] * bets,
        "bets": [[UNIT // 2] * bets for _ in range(rows)],
    }
    attempt |= {key: changes.pop(key) for key in tuple(changes) if key in attempt}
    content = {
        "staked": (1.0).hex(),
        "bankroll": (1.0).hex(),
        "discount": (0.5).hex(),
        "policy": [(1.0).hex()],
        "reward_range": _hexes([0.0, 1.0]),
        "signal_ranges": [_hexes(one["range"]) for one in told],
        "margin_scales": _hexes(one["scale"] for one in told),
        "bounds": _hexes([0.0, *(one["claimed"] for one in told)]),
        "apart": 0,
        "attempts": [attempt],
    }
    content |= {key: changes.pop(key) for key in tuple(changes) if key in content}
    (least, span), bounds = map(_doubles, (content["reward_range"], content["bounds"]))
    zeros = [claim == 0.0 > lowest for claim, lowest in zip(bounds[1:], low[1:], strict=True)]
    claim = {
        "kind": "inbounds certificate",
        "version": 3,
        "model": None,
        "constraints": [
            {"name": f"constraint {k}", "bound": one["bound"].hex(), "sense": one["sense"]}
            for k, one in enumerate(told)
        ],
        "statement": "policy",
        "arithmetic": "confidence",
        "confidence": confidence,
        "samples": bets,
        "methods": [f"betting for all {'margins' if zero else 'bounds'}" for zero in zeros],
        "margins_lower": _hexes(x * one["scale"] for x, one in zip(bounds[1:], told, strict=True)),
        "reward_lower": _hexes([least + span * bounds[0]])[0],
        "bets": content,
    }
    of_a_model = "reward_upper criterion policy margin_vectors reward_vector prices value_function"
    claim |= dict.fromkeys(of_a_model.split()) | changes
    settle(claim)
    return claim


def settle(claim):
    """State the capitals that the bets of its one attempt come to, if they can be made at all."""
    bets, (entry,) = claim["bets"], claim["bets"]["attempts"]
    rows = len(entry["low"])
    try:
        attempt = attempt_of(entry, rows)
        level = math.prod(_doubles([bets["staked"], bets["bankroll"]])) * (1.0 - claim["confidence"])
        discount = float.fromhex(bets["discount"])
        held = [capital(attempt, k, level, discount)[0] if attempt.low[k] < 0.0 else 1.0 for k in range(1, rows)]
    except Exception:  # whatever the checkers say of that, they shall agree
        return
    entry["capitals"] = _hexes(held)


def written(claim, confidence=None):
    """The file of one who knows all, both hashes right; `confidence` is a text for the same number."""
    claim["bets"]["about"] = what_bets_are_about(claim)
    content = sealed(claim)
    if confidence is None:
        return content
    old = f'"confidence": {claim["confidence"]!r},'.encode()
    head = content[:-68].replace(old, f'"confidence": {confidence},'.encode(), 1)
    return head + f'{hashlib.sha256(head).hexdigest()}"\n}}\n'.encode()


def spelled(number, rng):
    """Another way to write a number between 0 and 1 in JSON, mostly with the same double."""
    exponent, zeros = rng.choice([0, 0, 1, 3, 40, 500]), "0" * rng.choice([0, 0, 1, 5, 400, 900, 5_000])
    digits = rng.choice([f"{number:.17f}", f"{number:.60f}", f"{number!r}", "0.9", "1.0", "0.0"]).replace("e", "0")
    tail = digits.partition(".")[2] + zeros + rng.choice(["", "", "1", "9"])
    sign, padding = rng.choice(["e", "E"]), "0" * rng.choice([0, 1, 4, 5_000])
    if rng.random() < 0.5:
        return f"0.{'0' * exponent}{tail}{sign}{rng.choice(['', '+'])}{padding}{exponent}"
    return f"{tail.lstrip('0') or '0'}{'0' * exponent}{sign}-{padding}{exponent + len(tail)}"


def extreme(rng):
    """A double from anywhere: its bits at random, an end of a range or what is next to it, or a usual one."""
    way = rng.random()
    if way < 0.4:
        size = abs(struct.unpack("<d", rng.randbytes(8))[0])
        size = size if math.isfinite(size) else 1.0
    elif way < 0.8:
        size = math.nextafter(rng.choice(ENDS), rng.choice([0.0, 1.0, math.inf]))
    else:
        size = rng.choice([0.25, 0.5, 1.0, 7.0, 1e300, 1.7976931348623157e308])
    return size if rng.random() < 0.6 else -size


def usual(rng, often=0.8):
    return rng.choice([-1.0, -0.3, 0.0, 0.5, 1.0, 7.0]) if rng.random() < often else extreme(rng)


def at_random(rng):
    """A made-up certificate with some numbers from anywhere: what belongs together does so, mostly."""
    constraints = []
    for _ in range(rng.choice([0, 1, 1, 2])):
        bound, ends = usual(rng), sorted([usual(rng, 0.5), usual(rng, 0.5)])
        if rng.random() < 0.1:
            ends.reverse()
        size = max(abs(end - bound) for end in ends)
        fits = rng.random() < 0.9 and 0.0 < size < math.inf
        one = {"sense": rng.choice([1, -1]), "bound": bound, "range": ends}
        one["scale"] = size * rng.choice([1.0, 1.0, 1.0, 3.0]) if fits else abs(extreme(rng))
        one["claimed"] = abs(extreme(rng)) if rng.random() < 0.05 else rng.choice([0.0, 0.0, 0.01, 2.0**-40])
        one["scale"] = min(one["scale"], 1.7976931348623157e308)
        constraints.append(one)
    reward = extreme(rng) if rng.random() < 0.1 else rng.choice([0.0, 0.01, -0.3])
    claim = made_up(
        constraints,
        confidence=rng.choice([0.9, 0.5, 0.99, 5e-324, 1e-310, 1.0 - 2.0**-53]),
        bets=rng.choice([1, 60, 200]),
        hurry=rng.choice([0, 1]),
        staked=(min(abs(extreme(rng)), 1.0) if rng.random() < 0.1 else rng.choice([1.0, 0.5])).hex(),
        bounds=_hexes([reward, *(one["claimed"] for one in constraints)]),
        reward_range=_hexes([usual(rng), abs(usual(rng, 0.7)) if rng.random() < 0.9 else usual(rng)]),
    )
    entry = claim["bets"]["attempts"][0]
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        key = rng.choice(["least", "low", "reference", "goals", "expected", "planned", "bets", "capitals"])
        row = rng.randrange(len(entry["low"]))
        if key == "expected":
            entry[key] = [list(row) for row in entry[key]]
            entry[key][row][rng.randrange(3)] = extreme(rng).hex()
        elif key == "planned":
            entry[key] = extreme(rng).hex()
        elif key == "bets":
            entry[key][row] = [rng.choice([-UNIT, 0, UNIT // 3, UNIT, 2**52]) for _ in entry["drawn"]]
        elif len(entry[key]) > row:
            entry[key][row] = extreme(rng).hex()
        if key != "capitals":
            settle(claim)
    return claim


def _quotient(margin, scale):
    """A scaled margin; of one below 0 never 0."""
    scaled = margin / scale if scale else math.inf
    return scaled or (-5e-324 if margin < 0.0 else 0.0)


def _hexes(numbers):
    """As a certificate has them; what is no double stays one that is wrong."""
    return [float(x if math.isfinite(x) else 1.0).hex() for x in numbers]


def _doubles(texts):
    return [float.fromhex(text) for text in texts]
