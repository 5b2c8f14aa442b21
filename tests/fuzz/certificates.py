"""Certificates, genuine and forged: what a checker accepts is true, and both checkers say the same of every file.

The judge is the truth: values in rationals by elimination, and the best of all deterministic policies, for each of the
three criteria, see `naive_proofs`. Certificates are the library's, and for all criteria some that are made from the
formulas alone; the models are so small that the truth can be had by enumeration.

Files are changed in two ways. Damaged, as they may be on their way: then nothing is accepted, the hashes see to it. Or
forged, as a liar does it: changed and sealed again, so that only the arithmetic can tell.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import math
import random
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp

import inbounds as ib
from inbounds.formats import npz, write_model
from inbounds.proofs.files import save_certificate, sealed
from inbounds.proofs.known_model import certify_infeasible, certify_known
from inbounds.proofs.verify import Unreadable, verify
from naive_proofs import CRITERIA, is_true, proof_of_a_mixture, proof_of_a_policy, proof_of_infeasibility
from test_known_model import drawn

COUNT = 20_000


def stand_alone(path):
    """A module from a file that is in no package."""
    name = f"stand_alone_{path.stem}"
    if name not in sys.modules:
        specification = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(sys.modules[name])
    return sys.modules[name]


SECOND = Path(__file__).parents[2] / "checkers" / "integers.py"
second = stand_alone(SECOND)


class Disagreement(AssertionError):
    """Two checkers, two opinions."""


def first_opinion(model, certificate):
    """(exit code, lines) of the checker of the library."""
    try:
        accepted, lines = verify(str(model), str(certificate))
    except Unreadable as reason:
        return 2, [str(reason)]
    return int(not accepted), lines


def second_opinion(model, certificate):
    """(exit code, lines) of the checker that knows whole numbers alone."""
    try:
        return 0, second.check(str(model), str(certificate))
    except second.Rejected as reason:
        return 1, [str(reason)]
    except second.Unreadable as reason:
        return 2, [str(reason)]


def opinion(model, certificate):
    """(exit code, lines), on which both checkers agree."""
    (code, lines), (other, why) = first_opinion(model, certificate), second_opinion(model, certificate)
    if code != other:
        raise Disagreement(f"{code}: {lines[0]} / {other}: {why[0]}")
    return code, lines


class Files:
    """A model and a certificate in files, to be changed and checked."""

    def __init__(self, folder, cmdp, certificate):
        self.model, self.certificate = folder / "model.npz", folder / "certificate.json"
        self.cmdp = cmdp
        write_model(cmdp, self.model)
        save_certificate(certificate, self.certificate)
        self.model_bytes, self.claim_bytes = self.model.read_bytes(), self.certificate.read_bytes()
        self.claim = json.loads(self.claim_bytes)
        self.known = {}  # of the truth about the model

    def verify(self, cmdp=None, claim=None):
        """What the arithmetic says of another model or another certificate: both hashes are made right."""
        model = self.model_bytes
        if cmdp is not None:
            npz.write(cmdp, stream := io.BytesIO())
            model = stream.getvalue()
        accepted, lines = self.verify_bytes(model, self.resealed(model, claim))
        assert "seal" not in lines[0] and "SHA-256" not in lines[0]
        return accepted, lines

    def is_true(self, claim):
        return is_true(self.cmdp, claim, self.known)

    def resealed(self, model, claim=None):
        """The file of a certificate for the model file with the content `model`."""
        return sealed((self.claim if claim is None else claim) | {"model": hashlib.sha256(model).hexdigest()})

    def verify_bytes(self, model, claim):
        code, lines = self.opinion_of(model, claim)
        return code == 0, lines

    def opinion_of(self, model, claim):
        for path, content in ((self.model, model), (self.certificate, claim)):
            path.unlink()  # a new file: some systems flush a file that is truncated and written again
            path.write_bytes(content)
        return opinion(self.model, self.certificate)


def arrays_in(content):
    """The arrays in a model file, as NumPy shows them."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)


def model_of(arrays):
    """As much of a model as `is_true` needs, every number exact."""
    criterion = json.loads(arrays["header"].tobytes())["criterion"]
    n_states, n_pairs = arrays["initial"].size, arrays["actions"].size
    dense = np.full((arrays["indptr"].size - 1, n_states), Fraction(0))
    for row in range(len(dense)):
        for entry in range(arrays["indptr"][row], arrays["indptr"][row + 1]):
            dense[row, arrays["indices"][entry]] += Fraction(float(arrays["probabilities"][entry]))
    stages = [SimpleNamespace(toarray=lambda rows=rows: rows) for rows in dense.reshape(-1, n_pairs, n_states)]
    sides = [{1: "at_least", -1: "at_most"}[int(sense)] for sense in arrays["senses"]]
    return SimpleNamespace(
        criterion=criterion,
        offsets=arrays["offsets"],
        actions=arrays["actions"],
        transition=tuple(stages) if len(stages) > 1 else stages[0],
        initial=arrays["initial"],
        reward=arrays["reward"],
        constraints=[
            ib.Constraint(signal, **{side: float(bound)})
            for signal, side, bound in zip(arrays["signals"], sides, arrays["bounds"], strict=True)
        ],
    )


def small_proof(folder, seed=0, exact=True):
    """A feasible problem small enough that the truth can be had by enumeration, with its certified solution."""
    cmdp = drawn(seed, states=3, discount=0.75)
    cmdp = cmdp.tightened(ib.slater(cmdp).value - 0.1)  # feasible by 0.1, so that something binds
    solution = ib.solve(cmdp)
    certificate = solution.certificate
    if exact:  # claims what is proved, to the last bit
        certificate = certify_known(
            solution.policy, cmdp, exact=True, prices=solution.prices, value_function=solution.value_function
        )
    assert certificate.in_bounds
    return Files(folder, cmdp, certificate)


def small_infeasibility(folder, seed=0):
    cmdp = drawn(seed, states=3, discount=0.75)
    cmdp = cmdp.tightened(ib.slater(cmdp).value + 0.1)
    try:
        ib.solve(cmdp)
    except ib.Infeasible as error:
        return Files(folder, cmdp, certify_infeasible(error, cmdp, exact=True))
    raise AssertionError("it is infeasible by 0.1")


def by_hand(criterion, make=proof_of_a_policy, **options):
    """A maker of files with a certificate that is made from the formulas alone."""
    return lambda folder, seed=0: Files(folder, *make(criterion, seed, **options))


MAKERS = {"solution": small_proof, "no solution": small_infeasibility}
for criterion in CRITERIA:
    for what, make in (
        ("policy", proof_of_a_policy),
        ("mixture", proof_of_a_mixture),
        ("infeasible", proof_of_infeasibility),
    ):
        MAKERS[f"{next(iter(criterion))}, {what}"] = by_hand(criterion, make)
    MAKERS[f"{next(iter(criterion))}, policy that never comes to all states"] = by_hand(criterion, secluded=True)
for staged in ((), ("transition",), ("reward",), ("signals",)):  # the rest is in the file once
    MAKERS[f"horizon, only {staged or None} by stage"] = by_hand({"horizon": 2}, staged=staged)


# --- one number changed ---


def nudges(value):
    """Other values: for a double its neighbours, and some that differ much."""
    if value is None or isinstance(value, bool):
        return [not value, 1, None]
    if isinstance(value, int):
        return [value + 1, value - 1, -value, 0, 2 * value]
    number = float.fromhex(value)
    others = [math.nextafter(number, math.inf), math.nextafter(number, -math.inf), number + 0.01, number - 0.01]
    return [other.hex() for other in (*others, -number, 0.0, 2.0 * number)]


NUMBERS = ["reward_lower", "reward_upper", "margin_upper"]
VECTORS = ["policy", "weights", "margins_lower", "reward_vector", "prices", "value_function"]
NESTED = ["policies", "margin_vectors", "reward_vectors"]  # lists of vectors, or of lists of them
SAID = ["statement", "policy", "policies", "weights", "margins_lower", "prices", *NUMBERS]


def places(claim):
    """Where in a certificate there are numbers, each as the keys that lead to it."""
    found = [(key,) for key in NUMBERS if claim.get(key) is not None]
    found += [("criterion", key) for key in claim["criterion"]]
    found += [(key, i) for key in VECTORS if key in claim for i in range(len(claim[key]))]
    found += [(key, *place) for key in NESTED for place in _within(claim.get(key, []))]
    found += [("constraints", k, key) for k in range(len(claim["constraints"])) for key in ("bound", "sense")]
    return found


def _within(nested):
    """Where in lists of lists there is something else, each place as the numbers that lead to it."""
    if not isinstance(nested, list):
        return [()]
    return [(number, *place) for number, inner in enumerate(nested) for place in _within(inner)]


def rows_of(nested):
    """The innermost lists of a list of lists."""
    return [nested] if not nested or not isinstance(nested[0], list) else [r for x in nested for r in rows_of(x)]


def with_other(claim, place, value):
    changed = json.loads(json.dumps(claim))
    where = changed
    for key in place[:-1]:
        where = where[key]
    where[place[-1]] = value
    return changed


def number_at(claim, place):
    for key in place:
        claim = claim[key]
    return claim


def mutated_claim(claim, rng):
    """The certificate with one number changed."""
    place = rng.choice(places(claim))
    return with_other(claim, place, rng.choice(nudges(number_at(claim, place))))


def changed_model(model, **changes):
    if isinstance(model, SimpleNamespace):
        return SimpleNamespace(**vars(model) | changes)
    if "criterion" in changes:
        changes = {**changes, **changes["criterion"]}
        del changes["criterion"]
    return replace(model, **changes)


def mutated_model(model, rng):
    """The model with one probability, reward, signal or bound, the start, the criterion or a sense changed."""
    what = rng.choice(["probability", "reward", "signal", "bound", "initial", "criterion", "sense"])
    vary = rng.choice([1e-16, 1e-9, 1e-3, 0.1])
    either = rng.choice([-vary, vary])
    n_pairs, n_states = len(model.actions), len(model.offsets) - 1

    def one_more(values):
        changed = np.array(values)
        changed.reshape(-1)[rng.randrange(changed.size)] += either
        return changed

    if what == "probability":
        stages = list(model.transition) if isinstance(model.transition, tuple) else [model.transition]
        stage, pair, state = rng.randrange(len(stages)), rng.randrange(n_pairs), rng.randrange(n_states)
        rows = stages[stage].toarray()
        rows[pair] *= 1.0 - vary
        rows[pair, state] += vary
        stages[stage] = sp.csr_array(rows)
        return changed_model(model, transition=tuple(stages) if isinstance(model.transition, tuple) else stages[0])
    if what == "initial":
        state = rng.randrange(n_states)
        return changed_model(model, initial=(1.0 - vary) * model.initial + vary * np.eye(n_states)[state])
    if what == "reward":
        return changed_model(model, reward=one_more(model.reward))
    if what == "criterion":
        if "discount" in model.criterion:
            return changed_model(model, criterion={"discount": model.criterion["discount"] + either})
        if np.ndim(model.reward) == 1:
            return changed_model(model, criterion=rng.choice([{"discount": 0.5}, {"horizon": 2}, {"average": True}]))
    k = rng.randrange(len(model.constraints))
    old = model.constraints[k]
    if what == "signal":
        new = replace(old, signal=one_more(old.signal))
    elif what == "bound":
        new = old.tightened(either)
    else:
        new = replace(old, at_least=old.at_most, at_most=old.at_least)
    return changed_model(model, constraints=(*model.constraints[:k], new, *model.constraints[k + 1 :]))


# --- files that are put together anew ---


def zipped(members, compression=zipfile.ZIP_STORED):
    """A zip of (name, content), compressed or not."""
    with warnings.catch_warnings(), zipfile.ZipFile(stream := io.BytesIO(), "w") as archive:
        warnings.simplefilter("ignore")  # that a name is there twice
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=compression)
    return stream.getvalue()


def members_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def array_bytes(array):
    np.lib.format.write_array(stream := io.BytesIO(), np.asarray(array))
    return stream.getvalue()


# --- damage ---

CONFUSED = [
    None,
    True,
    False,
    0,
    1,
    -1,
    1.5,
    "",
    "0x1p+0",
    "nan",
    "inf",
    "-inf",
    "0x1p+99999",
    "1e5",
    [],
    {},
    [[]],
    ["nan"],
]
CONFUSED += [[None], {"a": 1}, "policy", "infeasible", "exact", 10**400, -(10**19)]


def damaged(content, rng):
    """A file with bits flipped, bytes replaced, swapped, cut, repeated or inserted; digits or white space changed."""
    data = bytearray(content)
    kind = rng.randrange(10)
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    if kind == 0:
        for _ in range(rng.choice([1, 1, 1, 2, 10])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[start:]
    elif kind == 2:
        del data[start : min(end, start + rng.choice([1, 2, 8, 100]))]
    elif kind == 3:
        where = rng.randrange(len(data))
        data[where:where] = data[start : min(end, start + rng.choice([1, 50, 500]))]
    elif kind == 4:
        data[start : start + 8] = rng.choice(
            [bytes(8), b"\xff" * 8, b"NaN", b"Infinity", b'"nan"', b"1e999", rng.randbytes(8)]
        )
    elif kind == 5:
        data[start:start] = rng.choice([b"[" * 20_000, b'{"a":' * 20_000, b"9" * 10_000, b"\xef\xbb\xbf", b"\\ud800"])
    elif kind == 6:
        data[start : start + 1] = bytes([rng.randrange(256)])
    elif kind == 7:
        one, other = rng.randrange(len(data)), rng.randrange(len(data))
        data[one], data[other] = data[other], data[one]
    elif kind == 8:
        digits = [i for i, byte in enumerate(data) if byte in b"0123456789abcdef"]
        data[rng.choice(digits)] = rng.choice(b"0123456789abcdef")
    else:
        where = rng.choice([i for i, byte in enumerate(data) if byte in b" \n"] or [0])
        data[where : where + rng.randrange(2)] = rng.choice([b"", b" ", b"\n", b"\t", b"\r\n"])
    return bytes(data)


def rezipped(content, rng):
    """A model file with the same arrays in another zip: other dates, attributes, order or notes, or damaged headers."""
    if rng.random() < 0.5:
        data = bytearray(content)
        heads = [i for i in range(len(data) - 1) if data[i : i + 2] == b"PK"]
        data[min(rng.choice(heads) + rng.randrange(60), len(data) - 1)] = rng.randrange(256)
        return rng.choice([b"", b"", b"PK"]) + bytes(data)
    action, stream = rng.randrange(5), io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as before, zipfile.ZipFile(stream, "w") as after:
        names = before.namelist()
        if action == 0:
            rng.shuffle(names)
        for name in names:
            member = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, rng.randrange(30) if action == 1 else 0))
            member.external_attr = rng.randrange(512) << 16 if action == 2 else 0o644 << 16
            member.comment = rng.randbytes(3) if action == 3 else b""
            after.writestr(member, before.read(name))
        after.comment = b"a note" if action == 4 else b""
    return stream.getvalue()


def reformatted(claim, rng):
    """The certificate with the same content in other text."""
    items = list(claim.items())
    if rng.random() < 0.5:
        rng.shuffle(items)
    layout = rng.choice([{}, {"indent": 0}, {"indent": 2}, {"separators": (",", ":")}])
    return (json.dumps(dict(items), **layout) + rng.choice(["", "\n", "\n\n"])).encode()


def confused(claim, rng):
    """The certificate with one entry replaced by something of another type, removed, or a list of another length."""
    changed = json.loads(json.dumps(claim))
    where, key = changed, rng.choice(list(changed))
    while isinstance(where[key], list | dict) and where[key] and rng.random() < 0.7:
        where = where[key]
        key = rng.choice(list(where)) if isinstance(where, dict) else rng.randrange(len(where))
    action = rng.randrange(4)
    if action == 0:
        del where[key]
    elif action == 1 and isinstance(where[key], list):
        where[key] = where[key] * 2
    else:
        where[key] = rng.choice(CONFUSED)
    return changed


def with_wrong_array(content, rng):
    """The arrays of a model file, one of them wrong: another entry, type or shape; or missing."""
    arrays = arrays_in(content)
    name = rng.choice(list(arrays))
    array, whole = arrays[name].copy(), arrays[name].dtype.kind in "iu"
    action = rng.randrange(7)
    if action == 0 and array.size:
        array = array.astype(np.int64) if whole else array
        array.reshape(-1)[rng.randrange(array.size)] = rng.choice([0, 1, -1, 2**31 - 1, 127] if whole else EXTREMES)
    elif action == 1:
        array = array.reshape(-1)[: rng.randrange(array.size + 1)]
    elif action == 2 and not np.any(array < 0):
        array = array.astype(rng.choice(["<f8", "<i8", "<i4", "|i1", "<f4", ">f8", "|b1", "<c16"]))
    elif action == 3:
        array = np.asfortranarray(np.stack([array, array]))
    elif action == 4:
        array = array.reshape(-1)[::-1]
    elif action == 5 and array.size:
        array = array.astype(np.int64) if whole else array
        array.reshape(-1)[rng.randrange(array.size)] += 1 if whole else rng.choice([1e-300, 1e-16, 2e-9, 0.5])
    elif action == 6:
        del arrays[name]
        return arrays
    return arrays | {name: array}


EXTREMES = [math.nan, math.inf, -math.inf, 1e308, -1e308, -1.0, 5e-324, -5e-324, 1e-310, 2.0**-1022, 2.0, -0.0]


def saved_by_numpy(arrays, rng):
    (np.savez_compressed if rng.random() < 0.1 else np.savez)(stream := io.BytesIO(), **arrays)
    return stream.getvalue()


def in_place(arrays):
    """A model file of any arrays, every byte where the format wants it."""
    return b"".join(map(bytes, npz.packed(arrays)))


def with_wrong_header(content, rng):
    arrays = arrays_in(content)
    header = confused(json.loads(arrays["header"].tobytes()), rng)
    text = json.dumps(header).encode()
    if rng.random() < 0.3:
        text = rng.choice(
            [text.replace(b"{", b'{"version": 2, ', 1), text + b" ", text[:-1], text.replace(b"2", b"2.0")]
        )
    return in_place(arrays | {"header": np.frombuffer(text, dtype=np.uint8)})


def with_extremes(claim, rng):
    """The certificate with some numbers at the ends of what doubles can say, or anything at all."""
    changed = json.loads(json.dumps(claim))
    for _ in range(rng.choice([1, 1, 2, 5])):
        place = rng.choice([place for place in places(claim) if isinstance(number_at(claim, place), str)])
        size = rng.choice([2.0 ** rng.randrange(-1074, 1023), rng.random(), 1e-9, *EXTREMES[3:]])
        changed = with_other(changed, place, (size * rng.choice([1.0, 1.0, -1.0])).hex())
    return changed


def with_other_vectors(claim, rng):
    """The certificate with vectors that somebody made up, and a claim that is as modest as can be."""
    changed = json.loads(json.dumps(claim))
    keys = ("reward_vector", "value_function", "margin_vectors", "reward_vectors")
    for row in [row for key in keys if key in changed for row in rows_of(changed[key])]:
        if rng.random() < 0.5:
            row[:] = [(rng.choice([0.0, 1e-3, 1.0]) * rng.gauss(0, 1) + float.fromhex(x)).hex() for x in row]
    for key in ("reward_lower", "reward_upper"):
        if key in changed and rng.random() < 0.5:
            away = -1.0 if key == "reward_lower" else 1.0
            changed[key] = (float.fromhex(changed[key]) + away * 10.0 ** rng.randrange(-3, 4)).hex()
    if "margins_lower" in changed and rng.random() < 0.7:
        changed["margins_lower"] = [(0.0).hex() for _ in changed["margins_lower"]]
    return changed


def spread(claim, rng):
    """The certificate with a policy that is almost, or not quite, one: sums that are off by up to 2e-9, and dust."""
    if "policy" not in claim and "policies" not in claim:
        return with_extremes(claim, rng)
    factor = 1.0 + rng.choice([1e-9, -1e-9, 9e-10, 2e-9, 1e-16, 0.0])
    dust = rng.choice([0.0, 5e-324, 1e-300])
    changed = json.loads(json.dumps(claim))
    for row in rows_of(changed[rng.choice([key for key in ("policy", "policies", "weights") if key in claim])]):
        row[:] = [(float.fromhex(p) * factor + dust).hex() for p in row]
    return changed


def in_layout(claim):
    """A certificate as text in the layout of its file, with whatever seal it has."""
    return json.dumps(claim, indent=0).encode() + b"\n"


def with_seal(content):
    """Damaged text with the seal that belongs to it."""
    return content[:-68] + hashlib.sha256(content[:-68]).hexdigest().encode() + b'"\n}\n'


def renumbered(files, rng):
    npz.write(mutated_model(files.cmdp, rng), stream := io.BytesIO())
    return stream.getvalue()


def changed_often(claim, rng):
    for _ in range(rng.randrange(2, 6)):
        claim = mutated_claim(claim, rng)
    return claim


OF_THE_MODEL = {
    "model, bytes": lambda files, rng: damaged(files.model_bytes, rng),
    "model, zip": lambda files, rng: rezipped(files.model_bytes, rng),
    "model, arrays by NumPy": lambda files, rng: saved_by_numpy(with_wrong_array(files.model_bytes, rng), rng),
    "model, arrays in place": lambda files, rng: in_place(with_wrong_array(files.model_bytes, rng)),
    "model, header": lambda files, rng: with_wrong_header(files.model_bytes, rng),
    "model, numbers": renumbered,
}
OF_THE_CERTIFICATE = {
    "certificate, bytes": lambda files, rng: damaged(files.claim_bytes, rng),
    "certificate, entries": lambda files, rng: in_layout(confused(files.claim, rng)),
    "certificate, a number": lambda files, rng: in_layout(mutated_claim(files.claim, rng)),
    "certificate, numbers": lambda files, rng: in_layout(changed_often(files.claim, rng)),
    "certificate, extremes": lambda files, rng: in_layout(with_extremes(files.claim, rng)),
    "certificate, vectors": lambda files, rng: in_layout(with_other_vectors(files.claim, rng)),
    "certificate, policy": lambda files, rng: in_layout(spread(files.claim, rng)),
    "certificate, layout": lambda files, rng: reformatted(files.claim, rng),
}
WAYS = [*OF_THE_MODEL, *OF_THE_CERTIFICATE]


def changed(files, way, rng, reseal):
    """The contents of both files after a change, sealed again or not."""
    model, claim = files.model_bytes, files.claim_bytes
    if way in OF_THE_MODEL:
        model = OF_THE_MODEL[way](files, rng)
        return model, files.resealed(model) if reseal else claim
    claim = OF_THE_CERTIFICATE[way](files, rng)
    return model, with_seal(claim) if reseal else claim


def is_true_of(model, claim):
    """Whether what a certificate states is true of what NumPy finds in the model file; both as bytes."""
    return is_true(model_of(arrays_in(model)), json.loads(claim))


def said(model, claim):
    """All that the truth of a certificate depends on: no need to work out the same truth twice."""
    arrays = arrays_in(model)
    criterion = json.loads(arrays.pop("header").tobytes())["criterion"]
    stated = {key: value for key, value in json.loads(claim).items() if key in SAID}
    return repr((criterion, [(name, array.tolist()) for name, array in arrays.items()], stated))


def run(count, seed, seconds):
    """Change `count` files in every way, every other one of them sealed again; what was tried and what went wrong."""
    rng, started = random.Random(seed), time.monotonic()
    tried, failures, judged = Counter(), [], set()
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        made = []
        for number, make in enumerate([*MAKERS.values()] * 2):
            (place := Path(folder) / str(number)).mkdir()
            made.append(make(place, seed + number))
        while tried.total() < count and time.monotonic() - started < seconds:
            number = tried.total()
            files, way, reseal = made[rng.randrange(len(made))], WAYS[number % len(WAYS)], number // len(WAYS) % 2 == 0
            model, claim = changed(files, way, rng, reseal)
            same = (model, claim) == (files.model_bytes, files.claim_bytes)
            where = f"{way}{', sealed again' * reseal}: seed {seed}, case {number}"
            began = time.monotonic()
            try:
                code, lines = files.opinion_of(model, claim)
            except Exception as error:
                failures.append(f"{type(error).__name__}: {error} ({where})")
                code, lines = 1, [""]
            tried["accepted" if code == 0 else "rejected" if code == 1 else "unreadable"] += 1
            if time.monotonic() - began > 10.0:
                failures.append(f"hang ({where})")
            if code == 0 and not reseal and not same:
                failures.append(f"damage accepted ({where})")
            if code == 0 and (key := said(model, claim)) not in judged:
                judged.add(key)
                if not is_true_of(model, claim):
                    failures.append(f"a false statement accepted: {lines} ({where})")
    stopped = "" if tried.total() == count else f"the time was over after {tried.total():,} cases"
    return {"tried": dict(tried) | {"true statements judged": len(judged)}, "failures": failures, "stopped": stopped}


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])), indent=1))
