"""Certificates from samples in files: both checkers go through the bets again, and agree on every file."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import math
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import inbounds as ib
from fuzz.bets import ENDS, extreme, made_up, spelled, verdicts, written
from fuzz.certificates import second
from inbounds.algorithms import certified, conservative
from inbounds.errors import InvalidInput
from inbounds.proofs import betting
from inbounds.proofs.files import _wagers, load_certificate, save_certificate, sealed, what_bets_are_about
from inbounds.proofs.verify import Unreadable, verify, verify_bets
from test_samples import coin
from test_walks import small_problem


def forged(claim):
    """A file of one who knows all: sealed again, with the hash of what its bets are now about."""
    with contextlib.suppress(KeyError, TypeError, AttributeError, ValueError):
        claim["bets"]["about"] = what_bets_are_about(claim)
    return sealed(claim)


def opinions(path):
    """(accepted, accepted) by the two checkers."""
    try:
        first = verify_bets(str(path))[0]
    except Unreadable:
        first = None
    try:
        second.check(str(path))
        other = True
    except second.Rejected:
        other = False
    except second.Unreadable:
        other = None
    return first, other


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Certificates of one and of several attempts, in a hurry and not, with and without constraints."""
    folder = tmp_path_factory.mktemp("bets")
    cmdp = small_problem().tightened(-0.3)
    biased, policy = coin(0.7)
    hard = cmdp.tightened(0.9 * ib.slater(cmdp).value)
    with pytest.MonkeyPatch.context() as one_by_one:
        one_by_one.setattr(certified, "family", lambda *_: None)
        runs = (ib.learn_certified(hard.simulator(), samples=2500, confidence=0.8, seed=seed) for seed in range(100))
        returned = (run for run in runs if run.policy is not None and not run.attempts[0].in_bounds)
        # One whose first attempt lost something: otherwise the last stands without it, at the same level.
        several = next(run for run in returned if run.certificate.wagers.attempts[0].left < 1.0)
    with pytest.MonkeyPatch.context() as few:
        few.setattr(conservative, "_MEMBERS", 4)
        few.setattr(conservative, "_MIXED", 3)
        options = {"samples": 1000, "confidence": 0.8}
        runs = (ib.learn_certified(hard.simulator(), seed=seed, **options) for seed in range(100))
        family = next(run for run in runs if run.attempts[0].in_bounds and len(run.certificate.wagers.attempts) > 1)
        runs = (ib.learn_certified(hard.simulator(), seed=seed, mixture=True, **options) for seed in range(100))
        mixture = next(run for run in runs if isinstance(run.policy, ib.Mixture))
    found = {
        "fixed": ib.certify(policy, biased.simulator(), samples=400, seed=1),
        "learned": ib.learn_certified(cmdp.simulator(), samples=400, seed=1).certificate,
        "several": several.certificate,
        "family": family.certificate,
        "free": ib.certify(policy, biased.asking(constraints=[]).simulator(), samples=60, seed=1),
        "mixture": mixture.certificate,
        "coin": ib.certify(
            ib.Mixture([0.5, 0.5], [policy, policy]), biased.simulator(), samples=300, confidence=0.9, seed=1
        ),
    }
    for name, certificate in found.items():
        assert certificate.in_bounds, name
        save_certificate(certificate, folder / f"{name}.json")
    return {name: (certificate, folder / f"{name}.json") for name, certificate in found.items()}


NAMES = ("fixed", "learned", "several", "family", "free")


@pytest.mark.parametrize("name", NAMES)
def test_honest_bets_are_accepted_and_come_back_from_the_file(made, name):
    certificate, path = made[name]
    assert opinions(path) == (True, True)
    back = load_certificate(path)
    assert back.in_bounds and back.to_dict() == certificate.to_dict()
    number = len(back.wagers.attempts)
    assert number == len(certificate.wagers.attempts) >= (2 if name in ("several", "family") else 1)
    for ours, theirs in zip(certificate.wagers.attempts, back.wagers.attempts, strict=True):
        for mine, other in zip(
            (*ours.stakes, *ours.book, ours.low), (*theirs.stakes, *theirs.book, theirs.low), strict=True
        ):
            np.testing.assert_array_equal(mine, other)


def test_as_scripts(made):
    root = Path(__file__).parents[1]
    for script in (root / "src/inbounds/proofs/verify.py", root / "checkers/integers.py"):
        run = subprocess.run(
            [sys.executable, str(script), str(made["fixed"][1])], capture_output=True, text=True, check=False
        )
        assert run.returncode == 0 and run.stdout.startswith("ACCEPTED: the policy is in bounds, with"), run


def test_what_is_not_settled_is_rejected(tmp_path):
    cmdp, policy = coin()
    certificate = ib.certify(policy, cmdp.simulator(), samples=200, seed=1)
    assert not certificate.in_bounds
    save_certificate(certificate, tmp_path / "open.json")
    assert opinions(tmp_path / "open.json") == (False, False)
    assert not load_certificate(tmp_path / "open.json").in_bounds


def test_bets_and_proofs_on_models_are_not_taken_for_each_other(made, tmp_path):
    cmdp, policy = coin(0.7)
    cmdp.save(tmp_path / "model.npz")
    save_certificate(ib.certify(policy, cmdp), tmp_path / "proof.json")
    assert opinions(tmp_path / "proof.json") == (None, None)
    assert verify(str(tmp_path / "model.npz"), str(tmp_path / "proof.json"))[0]
    files = str(tmp_path / "model.npz"), str(made["fixed"][1])
    for check, unreadable in ((verify, Unreadable), (second.check, second.Unreadable)):
        with pytest.raises(unreadable, match="it rests on samples: check its bets, without a model"):
            check(*files)


def leaves(value, place=()):
    """The places of all numbers and texts in a document."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(part, (*place, key))
    else:
        yield place


def with_other(claim, place, change):
    changed = copy.deepcopy(claim)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = change(inner[place[-1]])
    return changed


def nudged(value, rng):
    """Another number, near or far, or no number at all."""
    if isinstance(value, str) and value[:1] in "-0" and "0x" in value:
        x = float.fromhex(value)
        return rng.choice([float(np.nextafter(x, 9.0)), 2.0 * x + 0.5, -x - 0.25, 0.0, 1e300, 1e-300]).hex()
    if type(value) is int:
        return rng.choice([value + 1, value - 1, 10 * value + 7, -value - 1, 2**60, True])
    if type(value) is float:
        return rng.choice([0.999999, 0.5, 1.0, 0.0, 1, -0.5])
    return rng.choice([None, "x", 0, [], {}])


def is_true(claim):
    """Whether what is claimed follows from the bets in the file, by the library's own kernels.

    What nothing claimed depends on may change: names, methods, the policy, a deadline that no stake was chosen by.
    """
    wagers = _wagers(claim, len(claim["constraints"]))
    for played in wagers.attempts:
        fortune = betting.new_fortune(played.low)
        book = betting.Book(*(np.array(array) for array in played.book))
        for _ in range(len(book.drawn)):
            betting.place_bets(played.stakes, fortune, book)
        if not np.array_equal(fortune.capital[1:], played.capital[1:]):
            return False
        if played is wagers.attempts[-1] and not np.all(fortune.settled == 1):
            return False
    bounds = wagers.bounds
    for k, bound in enumerate(bounds):
        chosen = np.empty(len(book.drawn))
        betting.stakes_of_bounds(played.stakes, book, len(chosen), k, chosen)
        floor = played.low[0] if k == 0 else 0.0
        if not (bound <= floor or betting.rejected(played.stakes, book, k, chosen, bound)):
            return False
    margins = [float.fromhex(x) for x in claim["margins_lower"]]
    low, span = wagers.reward_range
    same = np.array_equal(margins, bounds[1:] * wagers.margin_scales) and min(margins, default=0.0) >= 0.0
    return same and float.fromhex(claim["reward_lower"]) == low + span * bounds[0]


@pytest.mark.parametrize("name", NAMES)
def test_every_mutation_is_rejected_unless_what_is_claimed_still_follows(made, name, tmp_path):
    """One number at a time, and all hashes made again; both checkers agree, and accept nothing that does not follow."""
    path = made[name][1]
    claim, rng, out = json.loads(path.read_text()), random.Random(name), tmp_path / "mutated.json"
    places = list(leaves({key: value for key, value in claim.items() if key != "seal"}))
    few = [place for place in places if not {"drawn", "bets"} & set(place[2:]) and place[-2:-1] != ("policy",)]
    many = [place for place in places if place not in set(few)]
    accepted = 0
    for place in [*few, *rng.sample(many, min(20, len(many)))]:
        mutated = with_other(claim, place, lambda value: nudged(value, rng))
        if mutated == claim:
            continue
        out.write_bytes(forged(mutated))
        first, other = opinions(out)
        assert first == other, (place, mutated)
        if first:
            accepted += 1
            assert is_true(mutated), place
    assert accepted < len(few)


@pytest.mark.parametrize("name", ["fixed", "several"])
def test_what_would_be_claimed_in_vain_is_rejected(made, name, tmp_path):
    """Better bounds, more confidence, worse bets, other levels: each on its own, all hashes made again."""
    claim, out = json.loads(made[name][1].read_text()), tmp_path / "forged.json"
    last = len(claim["bets"]["attempts"]) - 1

    def moved(by):
        return lambda text: (float.fromhex(text) + by).hex()

    forgeries = {
        ("confidence",): lambda x: 1.0 - (1.0 - x) / 1.5,
        ("reward_lower",): moved(1e-3),
        ("margins_lower", 0): moved(1e-9),
        ("bets", "bounds", 0): moved(1e-3),
        ("bets", "bounds", 1): moved(1.0),
        ("bets", "staked"): lambda _: (0.5).hex(),
        ("bets", "attempts", last, "capitals", 0): moved(1e-9),
        ("bets", "attempts", last, "least", 1): moved(0.9),
        ("bets", "attempts", last, "bets", 1, 3): lambda x: x - 2**20,
        ("bets", "attempts", last, "bets", 1): lambda row: row[:-1],
        ("bets", "attempts"): lambda attempts: attempts[1:],
        ("bets", "attempts", last, "low", 1): moved(1e-9),
        ("bets", "apart"): lambda x: x + 1,
        ("samples",): lambda x: x - 1,
        ("methods", 0): lambda text: text + " ",
    }
    if name == "several":  # a proof in a hurry need not look at its deadline
        forgeries[("bets", "attempts", last, "aim")] = lambda x: x // 2
        forgeries[("bets", "attempts", last, "drawn", 0)] = lambda x: x + 5
    for place, change in forgeries.items():
        out.write_bytes(forged(with_other(claim, place, change)))
        assert opinions(out) == (False, False), place


MIXED = ("mixture", "coin")


def others(value):
    """Every way in which a number or a text is changed."""
    if isinstance(value, str) and re.fullmatch(r"-?0x[0-9a-f.]+p[+-][0-9]+", value):
        x = float.fromhex(value)
        found = [np.nextafter(x, 9.0), np.nextafter(x, -9.0), x + 0.25, -x, 0.0, 0.5 * x, 1.0]
        return [text for text in {float(other).hex() for other in found} if text != value] + [None, "x"]
    if type(value) is int:
        return [value + 1, value - 1, 2 * value + 7, -value - 1, value == 1, float(value), str(value)]
    if type(value) is float:
        return [np.nextafter(value, 1.0), np.nextafter(value, 0.0), 0.999, 0.5, "0.9", None]
    if isinstance(value, str):
        return [value + " ", value.upper() + "X", "", None, 1]
    return [0, "x", [], {}, False]  # in the place of null


@pytest.mark.parametrize("name", [*NAMES, *MIXED])
def test_every_change_of_any_one_field_is_rejected(made, name, tmp_path):
    """Every number and text, changed and sealed again: of a kind with few in every way, of one with many 49."""
    claim, rng, out = json.loads(made[name][1].read_text()), random.Random(name), tmp_path / "changed.json"
    del claim["seal"]
    kinds = {}
    for place in leaves(claim):
        kinds.setdefault(tuple(key for key in place if isinstance(key, str)), []).append(place)
    assert {("bets", "attempts", "bets"), ("bets", "attempts", "drawn"), ("bets", "bounds")} <= kinds.keys()
    for places in kinds.values():
        for place in places if len(places) < 50 else rng.sample(places, 49):
            inner = claim
            for key in place:
                inner = inner[key]
            ways = others(inner)
            for way in ways if len(places) <= 12 else [rng.choice(ways)]:
                mutated = with_other(claim, place, lambda _, way=way: way)
                assert repr(mutated) != repr(claim)
                out.write_bytes(sealed(mutated))
                assert True not in opinions(out), (place, way)


@pytest.mark.parametrize("name", [*NAMES, *MIXED])
def test_every_entry_left_out_doubled_or_swapped_is_rejected(made, name, tmp_path):
    claim, out = json.loads(made[name][1].read_text()), tmp_path / "changed.json"
    del claim["seal"]
    for place in branches(claim):
        inner = claim
        for key in place:
            inner = inner[key]
        mutations = [lambda value, key=key: {k: v for k, v in value.items() if k != key} for key in inner]
        if isinstance(inner, list):
            swaps = len(inner) > 1 and inner[0] != inner[1]
            mutations = [lambda value: value + value[-1:], lambda value: value[:-1]] if inner else []
            mutations += [lambda value: [value[1], value[0], *value[2:]]] if swaps else []
        else:
            mutations.append(lambda value: value | {"more": 0})
        for change in mutations:
            out.write_bytes(sealed(with_other({"all": claim}, ("all", *place), change)["all"]))
            assert True not in opinions(out), place


def branches(value, place=()):
    """The places of all lists and objects, of long lists of lists the first two."""
    if isinstance(value, dict | list):
        yield place
        for key, part in list(value.items()) if isinstance(value, dict) else list(enumerate(value))[:2]:
            yield from branches(part, (*place, key))


@pytest.mark.parametrize("name", ["fixed", "mixture"])
def test_what_says_the_same_in_another_form_is_accepted(made, name, tmp_path):
    """Spaces, the order of keys, and how the confidence is written are no part of what is said."""
    claim, out = json.loads(made[name][1].read_text()), tmp_path / "written.json"
    backwards = {key: claim[key] for key in reversed(claim)}
    backwards["bets"] = {key: claim["bets"][key] for key in reversed(claim["bets"])}
    out.write_bytes(sealed(backwards))
    assert opinions(out) == (True, True)
    text, content = f'"confidence": {claim["confidence"]!r},', sealed(claim)
    for other, same in [("%.20f", True), ("%.12e", True), ("1%.3f", False)]:
        head = content.replace(text.encode(), f'"confidence": {other % claim["confidence"]},'.encode())[:-68]
        assert len(head) != len(content) - 68  # it was there
        out.write_bytes(head + f'{hashlib.sha256(head).hexdigest()}"\n}}\n'.encode())
        assert opinions(out) == (same, same), other


@pytest.mark.parametrize("name", MIXED)
def test_wrong_weights_are_not_even_loaded(made, name, tmp_path):
    claim, out = json.loads(made[name][1].read_text()), tmp_path / "weights.json"
    for weights in ([0.5, 0.75], [-0.25, 1.25], [1.0], [float("nan"), 1.0]):
        claim["bets"]["weights"] = [weight.hex() for weight in weights]
        out.write_bytes(forged(claim))
        with pytest.raises(InvalidInput, match=r"weights of a mixture|must be a list of"):
            load_certificate(out)
        assert True not in opinions(out)


def test_bets_that_are_about_something_else_are_not_loaded(made, tmp_path):
    claim, out = json.loads(made["fixed"][1].read_text()), tmp_path / "other.json"
    claim["constraints"][0]["name"] = "another"
    out.write_bytes(sealed(claim))
    with pytest.raises(InvalidInput, match="bets are about something else"):
        load_certificate(out)
    out.write_bytes(forged(claim))
    assert load_certificate(out).constraints[0].name == "another"


def test_a_bound_beyond_its_declared_range_is_rejected_whatever_the_hashes(made, tmp_path):
    """The least margin and its scale follow from the bound and the range: neither can be moved alone."""
    claim, out = json.loads(made["fixed"][1].read_text()), tmp_path / "bound.json"

    def moved(text):
        return (float.fromhex(text) - 0.125).hex()

    for place in [("constraints", 0, "bound"), ("bets", "margin_scales", 0), ("bets", "signal_ranges", 0, 0)]:
        out.write_bytes(forged(with_other(claim, place, moved)))
        assert opinions(out) == (False, False), place
    out.write_bytes(forged(with_other(claim, ("samples",), lambda x: x + 1)))
    assert opinions(out) == (False, False)


def test_damage_is_seen(made, tmp_path):
    content, rng = bytearray(made["fixed"][1].read_bytes()), random.Random(0)
    for _ in range(60):
        damaged = bytearray(content)
        position = rng.randrange(len(damaged))
        damaged[position] ^= 1 << rng.randrange(8)
        (tmp_path / "damaged.json").write_bytes(damaged)
        assert True not in opinions(tmp_path / "damaged.json")


# The ends of the doubles: both checkers round as every machine does, or reject


def as_double(operation, *arguments):
    """What the arithmetic of the second checker comes to; infinite where it refuses."""
    try:
        m, e = operation(*arguments)
    except second.Rejected:
        return math.inf
    return math.ldexp(m, e)


def as_pair(x):
    numerator, denominator = x.as_integer_ratio()
    return second.rounded(numerator, 1 - denominator.bit_length())


def test_whole_numbers_are_rounded_as_doubles_are():
    rng = random.Random(0)
    for _ in range(4_000):
        x, y = extreme(rng), extreme(rng) / rng.choice([1.0, 1.0, 3.0])
        a, b = as_pair(x), as_pair(y)
        found = [
            (x + y, as_double(second.plus, a, b)),
            (x - y, as_double(second.minus, a, b)),
            (x * y, as_double(second.times, a, b)),
            (math.sqrt(abs(x)), as_double(second.root, (abs(a[0]), a[1]))),
        ]
        if y != 0.0:
            found.append((x / y, as_double(second.divided, a, b)))
        for right, ours in found:
            assert ours == (right if math.isfinite(right) else math.inf), (x.hex(), y.hex())


def test_decimals_are_read_as_doubles_are():
    rng = random.Random(0)
    texts = ["0.0", "1e-400", "0e9", f"1e-{'9' * 5_000}", "0.5" + "0" * 900 + "1", "2.4703282292062328e-324"]
    for odd, places in [(2**53 + 1, 54), (3, 1075), (2**53 - 1, 1075)]:
        # Halfway between two doubles there are up to 767 digits, and one more decides.
        digits = str(odd * 5**places).rjust(places, "0")
        texts += [f"0.{digits}", f"0.{digits}1", f"0.{digits[:-1]}4999", f"0.{digits}{'0' * 50}1"]
    texts += [spelled(rng.random(), rng) for _ in range(2_000)]
    texts += [f"{abs(extreme(rng)):.{rng.randrange(40)}e}" for _ in range(2_000)]
    for text in texts:
        assert as_double(second.literal, text) == float(text), text[:80]


@pytest.mark.parametrize("least", [-1.3e-315, -5e-324, 5e-324])
def test_genuine_margins_that_are_subnormal(least, tmp_path):
    """Over its scale of 7 the second rounds to 0, and is none all the same: nothing is in bounds by its range alone."""
    cmdp = ib.CMDP(
        offsets=[0, 1, 2],
        transition=np.full((2, 2), 0.5),
        reward=[0.0, 1.0],
        constraints=[ib.Constraint([least, 7.0], at_least=0.0, name="hair")],
        initial=[1.0, 0.0],
        discount=0.5,
    )
    certificate = ib.certify(ib.Policy.uniform(cmdp), cmdp.simulator(), samples=600, confidence=0.9, seed=0)
    assert certificate.in_bounds and bool(certificate.wagers.attempts[0].low[1] < 0.0) == (least < 0.0)
    save_certificate(certificate, tmp_path / "hair.json")
    assert opinions(tmp_path / "hair.json") == (True, True)


SMALL, LARGE = 2.0**-1060, 2.0**1023
MADE_UP = {
    "plain": (True, {}),
    "without constraints": (True, {"constraints": []}),
    "a subnormal margin": (True, {"constraints": [{"range": (-1.1 * SMALL, 1.0), "scale": 10.0}]}),
    "one that rounds to 0": (True, {"constraints": [{"range": (-5e-324, 1.0), "scale": 10.0}]}),
    "the smallest scale": (True, {"constraints": [{"range": (-(2.0**-500), 0.0), "scale": 2.0**-500}]}),
    "the largest scale": (True, {"constraints": [{"range": (-(2.0**500), 1.0), "scale": 2.0**500}]}),
    "a smaller one": (False, {"constraints": [{"range": (-(2.0**-501), 0.0), "scale": 2.0**-501}]}),
    "a larger one": (False, {"constraints": [{"range": (-(2.0**501), 1.0), "scale": 2.0**501}]}),
    "a subnormal scale": (False, {"constraints": [{"range": (-SMALL, SMALL), "scale": SMALL, "claimed": 0.1}]}),
    "a range that overflows": (
        False,
        {"constraints": [{"bound": -LARGE, "range": (0.0, LARGE), "scale": sys.float_info.max}]},
    ),
    "a quotient that overflows": (False, {"constraints": [{"range": (-LARGE, LARGE), "scale": 2.0**-500}]}),
    "a range from high to low": (False, {"constraints": [{"range": (1.0, -1.0)}]}),
    "one without a margin below 0": (False, {"constraints": [{"range": (1.0, 0.0)}]}),
    "a range of one point": (True, {"constraints": [{"range": (0.5, 0.5)}]}),
    "a span below 0": (False, {"reward_range": [(1.0).hex(), (-1.0).hex()]}),
    "a span of 0": (False, {"reward_range": [(1.0).hex(), (0.0).hex()]}),
    "a span that underflows": (
        False,
        {"reward_range": [(0.0).hex(), SMALL.hex()], "bounds": [(-0.3).hex(), (0.0).hex()]},
    ),
    "a span that overflows": (
        False,
        {
            "reward_range": [LARGE.hex(), LARGE.hex()],
            "bounds": [(-2.0).hex(), (0.0).hex()],
            "reward_lower": (-LARGE).hex(),
        },
    ),
    "a bound that underflows": (False, {"constraints": [{"claimed": SMALL}]}),
    "a mean that overflows": (False, {"hurry": 1, "expected": [[x.hex() for x in (1e308, 0.25, 2.0**90)]] * 2}),
    "a least so small that stakes overflow": (False, {"least": [(-1.0).hex(), (-5e-324).hex()]}),
    "a reference so near": (False, {"least": [(0.0).hex(), (-1.0).hex()], "reference": [(5e-324).hex(), (0.5).hex()]}),
}


@pytest.mark.parametrize("name", MADE_UP)
def test_made_up_numbers_near_the_ends(name, tmp_path):
    accepted, changes = MADE_UP[name]
    (tmp_path / "made_up.json").write_bytes(written(made_up(**changes)))
    assert opinions(tmp_path / "made_up.json") == (accepted, accepted)


@pytest.mark.parametrize("level", ENDS)
def test_a_level_however_small(level, tmp_path):
    """It may round to 0, and then nothing is ever settled; a capital that overflows is none."""
    for bets in (3, 60, 1_500):
        claim = made_up(staked=max(min(level, 1.0), 5e-324).hex(), bankroll=(0.3).hex(), bets=bets)
        (tmp_path / "level.json").write_bytes(written(claim))
        first, other = opinions(tmp_path / "level.json")
        assert first == other


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        *((text, True) for text in ("0.9", "0.90", "9e-1", "9E-01", "0.9e0000", "0.9E+000", "900e-0003", "0.09e+01")),
        *((text, True) for text in (f"0.9{'0' * 400}", f"0.{'0' * 4_000}9e4000", f"9{'0' * 900}e-901")),
        *((text, True) for text in (f"0.9{'0' * 900}1", f"0.9e-{'0' * 5_000}", "0.90000000000000002")),
        *((text, False) for text in ("1.0", "0.0", "-0.9", "0.9e1", "1e400", "1e-400", f"0.9e{'9' * 5_000}", "9")),
        *((text, False) for text in ("0.9000000000000001", f"0.{'9' * 400}", "-0.0", "null", '"0.9"')),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else str(value),
)
def test_the_confidence_however_it_is_written(text, accepted, tmp_path):
    (tmp_path / "written.json").write_bytes(written(made_up(), text))
    assert opinions(tmp_path / "written.json") == (accepted, accepted)


@pytest.mark.parametrize("form", ["0.9{0}", "0.{0}9e3000000", "0.9e{0}"])
def test_a_long_confidence_takes_no_long_time(form, tmp_path):
    """Three million digits: what is quadratic in them would take minutes."""
    (tmp_path / "long.json").write_bytes(written(made_up(bets=60), form.format("0" * 3_000_000)))
    began = time.monotonic()
    assert opinions(tmp_path / "long.json") == (True, True)
    assert time.monotonic() - began < 10.0


def test_other_doubles_than_those_that_belong_together(tmp_path):
    """A few of what tests/fuzz makes up; neither checker may accept what the other does not."""
    rng, out = random.Random(0), tmp_path / "extreme.json"
    places = [("margin_scales", 0), ("bounds", 0), ("bounds", 1), ("reward_range", 0), ("reward_range", 1)]
    for place in [*places, ("signal_ranges", 0, 0), ("signal_ranges", 0, 1), ("staked",), ("bankroll",), ("discount",)]:
        for _ in range(12):
            out.write_bytes(written(with_other(made_up(bets=60), ("bets", *place), lambda _: extreme(rng).hex())))
            first, other = verdicts(out)
            assert first == other, place


@pytest.mark.parametrize("name", NAMES)
def test_checkers_say_which_bounds_hold_at_once(made, name):
    certificate, path = made[name]
    lines = verify_bets(str(path))[1]
    assert lines[-1] == certificate.claims
    stated = certificate.claims.replace(f"confidence {certificate.confidence!r}", "the stated confidence")
    assert second.check(str(path))[-1] == stated
    for constraint, method in zip(certificate.constraints, certificate.methods, strict=True):
        (line,) = [line for line in lines if f"the margin of {constraint.name!r}" in line]
        assert f"({method})" in line
