"""The independent checkers: they accept what is proved, and nothing else, whatever is in the files, and they agree.

The judge of these tests is the truth, and every file is shown to both checkers: see `fuzz.certificates`, which also
makes the files. An accepted certificate must state only what is true of the model in the file.
"""

from __future__ import annotations

import ast
import io
import json
import math
import os
import random
import resource
import shlex
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import inbounds as ib
import naive_proofs
from fuzz import certificates
from fuzz import files as malformed
from fuzz.certificates import (
    MAKERS,
    SECOND,
    Files,
    array_bytes,
    arrays_in,
    by_hand,
    changed_model,
    first_opinion,
    in_place,
    members_of,
    mutated_claim,
    mutated_model,
    nudges,
    number_at,
    opinion,
    places,
    small_proof,
    with_other,
    zipped,
)
from inbounds.formats import npz
from inbounds.proofs.certificate import Certificate, Proof
from inbounds.proofs.files import sealed
from inbounds.proofs.known_model import certify_known
from inbounds.proofs.verify import LAYOUT, WIDEST, Unreadable, verify
from naive_proofs import CRITERIA, drawn_model, is_true, proof_of_a_policy, proof_of_infeasibility
from test_known_model import drawn, random_policy

CHECKER = Path(sys.modules["inbounds.proofs.verify"].__file__)
EVERY_MAKER = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


# --- it stands alone ---


BOTH = pytest.mark.parametrize("checker", [CHECKER, SECOND], ids=lambda path: path.stem)


@BOTH
def test_standard_library_only(checker):
    for node in ast.walk(ast.parse(checker.read_text())):
        modules = [name.name for name in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module] if isinstance(node, ast.ImportFrom) else []
        assert all(module.partition(".")[0] in sys.stdlib_module_names for module in modules)
        assert not {"zipfile", "fractions", "decimal", "pickle"} & set(modules)


def test_the_second_one_knows_whole_numbers_alone():
    """No division but of whole numbers, no literal with a point, and one conversion: of the discount's decimals."""
    tree = ast.parse(SECOND.read_text())
    nodes = list(ast.walk(tree))
    assert not any(isinstance(node, ast.Div) for node in nodes)
    assert not any(isinstance(node, ast.Constant) and isinstance(node.value, float) for node in nodes)
    assert sum(isinstance(node, ast.Name) and node.id == "float" for node in nodes) == 1


def test_the_layout_is_that_of_the_format():
    """One table of members: the loader, the checker and the second one have the same."""
    assert LAYOUT == npz.LAYOUT and list(LAYOUT) == list(npz.LAYOUT)
    members = certificates.second.MEMBERS
    assert list(members) == list(LAYOUT)
    assert all(set(members[name]) == set(LAYOUT[name][0].split()) for name in LAYOUT)


@BOTH
def test_as_a_script(tmp_path, checker):
    files = small_proof(tmp_path)
    alone = tmp_path / "elsewhere.py"
    alone.write_bytes(checker.read_bytes())

    def run(*arguments):
        return subprocess.run([sys.executable, "-I", "-S", str(alone), *arguments], capture_output=True, text=True)

    good = run(str(files.model), str(files.certificate))
    assert good.returncode == 0 and good.stdout.startswith("ACCEPTED: the policy is in bounds\n") and not good.stderr
    files.claim["policy"].reverse()
    files.certificate.write_bytes(sealed(files.claim))
    bad = run(str(files.model), str(files.certificate))
    assert bad.returncode == 1 and bad.stdout.startswith("REJECTED: ") and not bad.stderr
    assert run("one argument").returncode == 2
    for model, certificate in (
        (tmp_path, tmp_path),
        (files.model, "none.json"),
        (files.certificate, files.certificate),
    ):
        unreadable = run(str(model), str(certificate))
        assert unreadable.returncode == 2 and unreadable.stdout.startswith("UNREADABLE: ") and not unreadable.stderr


@BOTH
@pytest.mark.parametrize("where", [">&-", "2>&-", ">&- 2>&-", ">/dev/full", "2>/dev/full", "| true"])
def test_the_exit_code_is_the_verdict_whatever_becomes_of_the_output(tmp_path, checker, where):
    files = small_proof(tmp_path)
    run = partial(exit_code, tmp_path, where, "-I", "-S", checker)
    assert run(files.model, files.certificate) == 0
    assert run(files.model, "none.json") == run(files.model, "\udcff.json") == 2
    if where == "2>/dev/full":
        assert run() == 2
    files.claim["policy"].reverse()
    files.certificate.write_bytes(sealed(files.claim))
    assert run(files.model, files.certificate) == 1


@pytest.mark.parametrize("where", [">&-", ">/dev/full", "--json >/dev/full", "| true"])
def test_so_it_is_of_the_command(tmp_path, where):
    files = small_proof(tmp_path)
    run = partial(exit_code, tmp_path, where, "-m", "inbounds", "verify")
    assert run(files.model, files.certificate) == 0
    files.claim["policy"].reverse()
    files.certificate.write_bytes(sealed(files.claim))
    assert run(files.model, files.certificate) == 1


def exit_code(folder, where, *arguments):
    """Of a call of Python that says nothing on stderr, with its output led elsewhere."""
    option, separator, elsewhere = where.rpartition(" >")
    words = shlex.join([sys.executable, *map(str, arguments), *option.split()])
    script = f"{{ {words}; echo $? >{shlex.quote(str(folder / 'code'))}; }} {separator + elsewhere}"
    said = subprocess.run(["sh", "-c", script], capture_output=True)
    assert said.stderr == b""
    return int((folder / "code").read_text())


def test_files_that_cannot_be_read(tmp_path):
    """Wrong input, which is no verdict: it has an exit code of its own. Nothing waits for a pipe."""
    files = small_proof(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    others = [tmp_path, tmp_path / "none", tmp_path / "pipe", Path("/dev/zero"), Path("a\0b")]
    for other in others:
        assert opinion(other, files.certificate)[0] == opinion(files.model, other)[0] == 2
    files.cmdp.save(tmp_path / "model.toml")
    code, lines = opinion(tmp_path / "model.toml", files.certificate)
    assert code == 2 and "is not an .npz file; if it is a model, write it anew" in lines[0]
    for content in (b"", b"[]", b"null", b"{}", b'{"kind": "inbounds certificate"}', b"\xff", b"[" * 10**5, b"NaN"):
        assert files.opinion_of(files.model_bytes, content)[0] == 2
    with pytest.raises(Unreadable, match="No such file"):
        verify(str(files.model), str(tmp_path / "none"))


def test_progress_counts_to_the_end(tmp_path):
    files = Files(tmp_path, *proof_of_a_policy({"discount": 0.75}, 0, states=4))
    counted = []
    assert verify(str(files.model), str(files.certificate), lambda done, end: counted.append((done, end)))[0]
    pairs = len(files.cmdp.actions)
    # The rows, where the policy comes, two margins, the reward, and the bound above it.
    assert counted[-1] == (6 * pairs, 6 * pairs)
    assert counted == sorted(counted)


def test_progress_is_told_by_the_work_however_long_the_rows_are(tmp_path):
    """So that a time limit is looked at: a row of 20,000 transitions is one pair, and takes as long as 20,000."""
    files = Files(tmp_path, *extreme(1, horizon=40, states=2))
    arrays = arrays_in(files.model_bytes)
    arrays["indptr"] = np.array([0, 20_000, 20_001], dtype=arrays["indptr"].dtype)
    arrays["indices"] = np.arange(20_001, dtype=arrays["indices"].dtype) % 2
    arrays["probabilities"] = np.append(np.full(20_000, 1 / 20_000), 1.0)
    content, counted = in_place(arrays), []
    files.model.write_bytes(content)
    files.certificate.write_bytes(files.resealed(content, files.claim | {"margins_lower": [(0.0).hex()]}))
    verify(str(files.model), str(files.certificate), lambda done, end: counted.append(done))
    assert np.max(np.diff(counted, prepend=0)) <= 2 and len(counted) >= 80


# --- what is proved is accepted ---


PROBLEMS = {
    "queue": lambda: ib.zoo.queue(),
    "jump grid": lambda: ib.zoo.jump_grid(),
    "garnet": lambda: ib.zoo.garnet(seed=1),
    "garnet, discount 0.999": lambda: ib.zoo.garnet(states=30, discount=0.999, seed=2),
    "garnet, no constraint": lambda: ib.zoo.garnet(states=20, constraints=0),
    "garnet, many constraints": lambda: ib.zoo.garnet(states=20, constraints=6),
    "discount 0": lambda: ib.zoo.garnet(states=20, discount=0.0),
    "one state": lambda: ib.zoo.garnet(states=1, successors=1).tightened(-0.01),
    "one state, no constraint": lambda: ib.zoo.garnet(states=1, successors=1, constraints=0),
}


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("exact", [False, True])
def test_certified_solutions_are_accepted(tmp_path, problem, exact):
    cmdp = PROBLEMS[problem]()
    solution = ib.solve(cmdp)
    certificate = solution.certificate
    if exact:
        certificate = certify_known(
            solution.policy, cmdp, exact=True, prices=solution.prices, value_function=solution.value_function
        )
    accepted, lines = Files(tmp_path, cmdp, certificate).verify()
    assert accepted, lines
    assert len(lines) == 1 + cmdp.n_constraints + 2


@pytest.mark.parametrize("exact", [False, True])
def test_drawn_problems_are_accepted(tmp_path, exact):
    """Ragged models, states that are never reached, both senses; policies and prices of all kinds."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        shape = {"states": int(rng.integers(1, 9)), "constraints": int(rng.integers(0, 4))}
        cmdp = drawn(
            seed, discount=float(rng.choice([0.0, 0.3, 0.9, 0.9999])), scale=10.0 ** rng.integers(-9, 9), **shape
        )
        policy = random_policy(cmdp, seed)
        slack = ib.evaluate(cmdp, policy).margins - 1e-12 * cmdp.margin_scales
        cmdp = cmdp.tightened(slack)  # just in bounds: a wrong rounding would show
        certificate = certify_known(
            policy,
            cmdp,
            exact=exact,
            prices=rng.exponential(size=cmdp.n_constraints),
            value_function=rng.normal(size=cmdp.n_states),
        )
        assert certificate.in_bounds
        accepted, lines = Files(tmp_path, cmdp, certificate).verify()
        assert accepted, lines


def test_unreachable_states_and_dust(tmp_path):
    """Probabilities and values of every size; the last state is never reached, and never leaves."""
    cmdp = ib.CMDP(
        offsets=[0, 2, 3, 4],
        transition=[[0.5, 0.5, 0.0], [1.0 - 1e-9, 1e-9, 0.0], [1.0, 5e-324, 0.0], [0.0, 0.0, 1.0]],
        reward=[1e-300, 0.0, 1e10, -1e10],
        constraints=[ib.Constraint([1e-320, 1.0, 0.0, -1e12], at_least=-5e-324, name="dust")],
        initial=[1.0, 0.0, 0.0],
        discount=0.9,
    )
    for probabilities in ([0.5, 0.5, 1.0, 1.0], [1e-320, 1.0, 1.0, 1.0]):
        certificate = certify_known(
            ib.Policy(cmdp.pairs, probabilities), cmdp, prices=[1.0], value_function=np.zeros(3)
        )
        assert certificate.in_bounds
        accepted, lines = Files(tmp_path, cmdp, certificate).verify()
        assert accepted, lines


@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
def test_where_a_policy_never_comes_nothing_counts(tmp_path, criterion):
    """However much is paid there; but a state that it may come to counts, however rarely it does."""
    for chance in (0.0, 5e-324, 1e-300, 0.25):
        cmdp = ib.CMDP(
            offsets=[0, 2, 3, 5],
            transition=[
                [0.5, 0.5, 0.0],
                [0.0, 0.0, 1.0],
                [1.0 - chance, 0.0, chance],
                [0.0, 0.0, 1.0],
                [1.0, 0.0, 0.0],
            ],
            reward=[1.0, 0.0, 1.0, -1e9, 0.0],
            constraints=[ib.Constraint([1.0, 0.0, 1.0, -1e9, 0.0], at_least=0.0, name="c")],
            initial=[1.0, 0.0, 0.0],
            **criterion,
        )
        taken = np.broadcast_to([1.0, 0.0, 1.0, 1.0, 0.0], cmdp.shape)
        y = np.zeros(cmdp.n_states * cmdp.layers)
        flat = Proof(cmdp.criterion, taken.ravel(), y[None, :], y, np.zeros(1), y)
        made = Certificate(
            in_bounds=True,
            kind="exact",
            constraints=cmdp.constraints,
            margins_lower=np.zeros(1),
            methods=("by hand",),
            reward_lower=float(cmdp.layers),
            reward_upper=float(cmdp.layers),
            proof=flat,
            model=cmdp,
        )
        accepted, lines = Files(tmp_path, cmdp, made).verify()
        assert accepted == (chance == 0.0), lines
        if chance == 0.0:
            for exact in (True, False):
                own = certify_known(ib.Policy(cmdp.pairs, taken), cmdp, exact=exact)
                assert own.in_bounds and own.margins_lower[0] > 0.999 * cmdp.layers
                assert Files(tmp_path, cmdp, own).verify()[0]


def test_a_thousand_states(tmp_path):
    cmdp = ib.zoo.garnet(states=1000, actions=8, successors=5, discount=0.99, seed=4).tightened(-0.01)
    certificate = certify_known(
        random_policy(cmdp, 4), cmdp, prices=[0.3, 0.2], value_function=np.random.default_rng(4).random(1000)
    )
    accepted, lines = Files(tmp_path, cmdp, replace(certificate, reward_lower=-math.inf)).verify()
    assert accepted == certificate.in_bounds and (not accepted or len(lines) == 4)
    accepted, lines = Files(
        tmp_path, cmdp.tightened(-1.0), certify_known(random_policy(cmdp, 4), cmdp.tightened(-1.0))
    ).verify()
    assert accepted, lines


def test_files_of_numpy_are_not_the_file(tmp_path):
    """The same arrays in a zip that is not laid out as the format wants it: whoever reads it may see something else."""
    files = small_proof(tmp_path)
    np.savez(stream := io.BytesIO(), **arrays_in(files.model_bytes))
    accepted, lines = files.verify_bytes(stream.getvalue(), files.resealed(stream.getvalue()))
    assert not accepted and "members" in lines[0]
    same = in_place(arrays_in(files.model_bytes))
    assert same == files.model_bytes


# --- the hashes: not one byte may change ---


def test_the_same_model_in_another_file_is_refused_with_advice_that_works(tmp_path):
    files = small_proof(tmp_path)
    elsewhere, text, converted = tmp_path / "elsewhere.npz", tmp_path / "model.toml", tmp_path / "converted.npz"
    with np.load(io.BytesIO(files.model_bytes)) as arrays:
        np.savez(elsewhere, **{name: arrays[name] for name in arrays})
    files.cmdp.save(text)
    for other in (elsewhere, text):
        code, lines = first_opinion(other, files.certificate)
        assert code == (1 if other == elsewhere else 2) and len(lines[0]) < 300
        assert "write it anew" in lines[0] and "ib.load(...).save(...)" in lines[0]
        assert "--save-model" in lines[0] and "not the one" not in lines[0]
        code, lines = certificates.second_opinion(other, files.certificate)
        assert code == 2 or "of other bytes; if it is the same model, let inbounds write it anew" in lines[0]
        ib.load(other).save(converted)
        assert verify(str(converted), str(files.certificate))[0]


@EVERY_MAKER
def test_a_harmless_change_breaks_the_seal(tmp_path, make):
    """Each of them leaves the statement as true as it was."""
    files = make(tmp_path)
    text = files.claim_bytes.decode()
    harmless = [
        text.replace('"sense": 1', '"sense":  1'),
        text.replace("\n", "\r\n"),
        text[:-1],
        text + "\n",
        text.replace('"seal": "', '"seal": " '),
        text[:-68] + text[-68:].upper(),
        json.dumps(files.claim),
        json.dumps(dict(reversed(files.claim.items())), indent=0) + "\n",
        json.dumps(files.claim | {"arithmetic": "rounding-bounded"}, indent=0) + "\n",
    ]
    for changed in harmless:
        assert changed != text
        assert files.verify_bytes(files.model_bytes, files.resealed(files.model_bytes, json.loads(changed)))[0]
        accepted, lines = files.verify_bytes(files.model_bytes, changed.encode())
        assert not accepted and "damaged or edited" in lines[0], changed[-80:]
    for forged in (
        text.replace('"0x1.', '"0X1.', 1),
        text.replace('"0x1.', '" 0x1.', 1),
        text.replace("0000p", "p", 1),
        text.replace('"kind"', '"note": "",\n"kind"', 1),
        text.replace('"sense": 1', '"sense": 1.0').replace('"sense": -1', '"sense": -1.0'),
        text.replace('"sense": 1', '"sense": true'),
        text.replace('"statement"', '"statement": "policy",\n"statement"', 1),
        text.replace('"constraints"', '"criterion": null,\n"constraints"', 1),
        text.replace('"name":', '"note": 0,\n"name":', 1),
    ):
        content = certificates.with_seal(forged.encode())  # sealed, and yet not in the one form that there is
        assert forged == text or not files.verify_bytes(files.model_bytes, content)[0]
    npz.write(changed_model(files.cmdp, name="another"), renamed := io.BytesIO())
    npz.write(changed_model(files.cmdp, state_labels=("a", "b", "c")), labelled := io.BytesIO())
    for model in (renamed.getvalue(), labelled.getvalue()):
        assert files.verify_bytes(model, files.resealed(model))[0]
        accepted, lines = files.verify_bytes(model, files.claim_bytes)
        assert not accepted and "SHA-256 differs" in lines[0]


def test_older_versions_and_other_files_are_named(tmp_path):
    files = small_proof(tmp_path)
    old = {key: value for key, value in files.claim.items() if key not in ("model", "seal")} | {"version": 1}
    for other in (old, files.claim | {"version": 2}, files.claim | {"version": 4}, files.claim | {"kind": "cmdp"}):
        code, lines = files.opinion_of(files.model_bytes, json.dumps(other, indent=0).encode() + b"\n")
        assert code == 2 and lines[0].endswith("is not a certificate, version 3")
    accepted, lines = files.verify_bytes(files.model_bytes, sealed(files.claim | {"model": None}))
    assert not accepted and "SHA-256 differs" in lines[0]


# --- what is not proved is rejected ---


def test_out_of_bounds_is_rejected(tmp_path):
    cmdp = ib.zoo.queue()
    accepted, lines = Files(tmp_path, cmdp, certify_known(ib.Policy.uniform(cmdp), cmdp)).verify()
    assert not accepted and "negative" in lines[0]


def test_certificates_from_samples_are_rejected(tmp_path):
    cmdp = ib.zoo.queue()
    certificate = certify_known(ib.slater(cmdp).policy, cmdp)
    sampled = replace(certificate, kind="confidence", confidence=0.99, samples=1000, proof=None, model=None)
    files = Files(tmp_path, cmdp, sampled)
    assert files.claim["model"] is None
    accepted, lines = files.verify_bytes(files.model_bytes, files.claim_bytes)
    assert not accepted and "samples" in lines[0]


@EVERY_MAKER
def test_one_number_of_the_certificate_changed(tmp_path, make):
    outcomes = {True: 0, False: 0}
    for seed in range(2):
        files, rng = make(tmp_path, seed), random.Random(seed)
        assert files.verify()[0] and files.is_true(files.claim)
        for _ in range(60):
            claim = mutated_claim(files.claim, rng)
            accepted, lines = files.verify(claim=claim)
            if accepted:
                assert files.is_true(claim), (lines, claim)
            outcomes[accepted] += 1
    assert outcomes[False] > 30  # a change may weaken a claim, or prove more: those may be accepted


@EVERY_MAKER
def test_one_number_of_the_model_changed(tmp_path, make):
    outcomes = {True: 0, False: 0}
    for seed in range(2):
        files, rng = make(tmp_path, seed), random.Random(seed)
        for _ in range(60):
            cmdp = mutated_model(files.cmdp, rng)
            accepted, lines = files.verify(cmdp=cmdp)
            if accepted:
                assert is_true(cmdp, files.claim), lines
            outcomes[accepted] += 1
    assert outcomes[False] > 30


def test_claims_are_tight_to_the_last_bit(tmp_path):
    """In exact arithmetic the next double is not proved any more."""
    files = small_proof(tmp_path, exact=True)

    def with_claim(change):
        claim = json.loads(files.claim_bytes)
        change(claim)
        return files.verify(claim=claim)[0]

    def next_double(container, key, towards):
        container[key] = math.nextafter(float.fromhex(container[key]), towards).hex()

    assert not with_claim(lambda claim: next_double(claim, "reward_lower", math.inf))
    assert not with_claim(lambda claim: next_double(claim, "reward_upper", -math.inf))
    for k in range(files.cmdp.n_constraints):
        assert not with_claim(lambda claim, k=k: next_double(claim["margins_lower"], k, math.inf))
        assert with_claim(lambda claim, k=k: claim["margins_lower"].__setitem__(k, (0.0).hex()))  # claims less
        assert not with_claim(lambda claim, k=k: claim["prices"].__setitem__(k, (-(2.0**-60)).hex()))
        assert not with_claim(lambda claim, k=k: next_double(claim["constraints"][k], "bound", math.inf))
        assert not with_claim(lambda claim, k=k: claim["constraints"][k].update(name="another"))
        assert not with_claim(
            lambda claim, k=k: claim["constraints"][k].update(sense=-claim["constraints"][k]["sense"])
        )
    assert not with_claim(lambda claim: next_double(claim["criterion"], "discount", 1.0))
    assert not with_claim(lambda claim: claim["margin_vectors"].pop())
    assert not with_claim(lambda claim: claim.update(statement="infeasible"))
    assert not with_claim(lambda claim: claim.update(constraints=[], margins_lower=[], margin_vectors=[]))


BY_HAND = [name for name in MAKERS if name not in ("solution", "no solution")]


@pytest.mark.parametrize("name", BY_HAND)
def test_every_number_of_a_certificate_changed_in_every_way(tmp_path, name):
    """What is accepted is true; and certificates claim what is proved, so that the next double is not accepted."""
    for seed in range(1):
        files = MAKERS[name](tmp_path, seed)
        accepted, lines = files.verify()
        assert accepted and files.is_true(files.claim), lines
        rejected = 0
        for place in places(files.claim):
            for value in nudges(number_at(files.claim, place)):
                claim = with_other(files.claim, place, value)
                if claim == files.claim:
                    continue
                accepted, lines = files.verify(claim=claim)
                assert not accepted or files.is_true(claim), (place, value, lines)
                rejected += not accepted
                claims_more = {"margins_lower": 0, "reward_lower": 0, "reward_upper": 1, "margin_upper": 1}.get(
                    place[0]
                )
                if claims_more is not None and value == nudges(number_at(files.claim, place))[claims_more]:
                    assert not accepted, place
                if place[0] in ("criterion", "constraints") and value is not None and value != 1:
                    assert not accepted, place
        assert rejected > 0.3 * sum(len(nudges(number_at(files.claim, place))) for place in places(files.claim))


@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
def test_any_vectors_prove_something_true(tmp_path, criterion):
    """Not only value functions: the bound holds for all vectors, and for chains of several classes too."""
    accepted = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        size = 10.0 ** rng.integers(-3, 3)
        model, certificate = proof_of_a_policy(
            criterion, seed, slack=3.0 * size, vectors=lambda y, rng=rng, size=size: y + size * rng.normal(size=y.shape)
        )
        files = Files(tmp_path, model, certificate)
        taken, lines = files.verify()
        assert taken == certificate.in_bounds, lines
        assert (
            is_true(model, files.claim) == certificate.in_bounds
        )  # its margins may be proved to be negative ones only
        accepted += taken
    assert accepted > 5


def test_averages_whatever_the_classes(tmp_path):
    """Deterministic moves: policies with several classes, periods, and states that are left for good."""
    several = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        model = drawn_model({"average": True}, seed, states=4, constraints=0)
        moves = sp.csr_array(np.eye(4)[rng.integers(0, 4, size=len(model.actions))])
        policy = np.eye(len(model.actions))[model.offsets[:-1]].sum(axis=0)  # the first action in each state
        vectors = rng.normal(size=(2, 4))
        known = naive_proofs.exact(changed_model(model, transition=moves))
        chosen = naive_proofs.by_state(known, policy)
        lower = naive_proofs.lower_bound(known, chosen, known.gains[0], vectors[0])
        upper = naive_proofs.upper_bound(known, known.gains[0], vectors[1])
        proof = Proof({"average": True}, policy, np.empty((0, 4)), vectors[0], np.empty(0), vectors[1])
        certificate = Certificate(
            in_bounds=True,
            kind="exact",
            constraints=(),
            margins_lower=np.empty(0),
            methods=(),
            reward_lower=naive_proofs.rounded(lower),
            reward_upper=naive_proofs.rounded(upper, up=True),
            proof=proof,
            model=changed_model(model, transition=moves),
        )
        files = Files(tmp_path, certificate.model, certificate)
        assert files.verify()[0]
        for start in np.eye(4):
            assert is_true(changed_model(certificate.model, initial=start), files.claim)
        ends = [
            naive_proofs.long_run([known.moves[0][p] for p in model.offsets[:-1]], row)
            for row in np.eye(4, dtype=int).tolist()
        ]
        several += len({tuple(end) for end in ends}) > 1
    assert several > 3


def test_the_criterion_must_be_that_of_the_model(tmp_path):
    """The same arrays under another criterion are another model, and the certificate of one proves nothing of it."""
    for criterion in CRITERIA:
        files = by_hand(criterion, staged=())(tmp_path)
        for other in ({"discount": 0.5}, {"discount": 0.0}, {"horizon": 1}, {"horizon": 2}, {"average": True}):
            if other != criterion:
                accepted, lines = files.verify(cmdp=changed_model(files.cmdp, criterion=other))
                assert not accepted and "another criterion" in lines[0]
                written = {key: x.hex() if key == "discount" else x for key, x in other.items()}
                accepted, lines = files.verify(claim=files.claim | {"criterion": written})
                assert not accepted and "another criterion" in lines[0]
        for odd in ({}, {"gamma": 0.5}, {"discount": 0.5, "average": True}, None, 0.75, [], {"discount": None}):
            assert not files.verify(claim=files.claim | {"criterion": odd})[0]


def test_a_bound_on_a_sum_is_spread_exactly(tmp_path):
    """A third of the bound is no double, and yet what is claimed is right to the last bit."""
    model = SimpleNamespace(
        criterion={"horizon": 3},
        offsets=np.array([0, 1]),
        actions=np.array([0]),
        transition=sp.csr_array([[1.0]]),
        reward=np.array([0.1]),
        constraints=(ib.Constraint(np.array([0.1]), at_least=0.1, name="sum"),),
        initial=np.array([1.0]),
        state_labels=None,
        action_labels=None,
        name="",
    )
    proof = Proof({"horizon": 3}, np.ones(3), np.zeros((1, 3)), np.zeros(3))
    exactly = 3 * Fraction(0.1) - Fraction(0.1)
    for claimed, wanted in ((naive_proofs.rounded(exactly), True), (naive_proofs.rounded(exactly, up=True), False)):
        certificate = Certificate(
            True, "exact", model.constraints, np.array([claimed]), ("by hand",), proof=proof, model=model
        )
        assert Files(tmp_path, model, certificate).verify()[0] == (wanted or Fraction(claimed) <= exactly)


def test_changing_what_the_policy_does_is_noticed(tmp_path):
    """The whole probability of a state moved to another of its actions."""
    rejected = 0
    for seed in range(6):
        files = small_proof(tmp_path, seed)
        for first, last in zip(files.cmdp.offsets, files.cmdp.offsets[1:], strict=False):
            for pair in range(first, last):
                claim = json.loads(files.claim_bytes)
                claim["policy"][first:last] = [float(p == pair).hex() for p in range(first, last)]
                accepted, _ = files.verify(claim=claim)
                assert not accepted or files.is_true(claim)
                rejected += not accepted
    assert rejected > 20


def test_probabilities_must_be_probabilities(tmp_path):
    files = small_proof(tmp_path)
    claim = json.loads(files.claim_bytes)
    claim["policy"] = [(2.0 * float.fromhex(p)).hex() for p in claim["policy"]]
    assert "do not sum to 1" in files.verify(claim=claim)[1][0]
    ragged = next(s for s in range(3) if files.cmdp.offsets[s + 1] - files.cmdp.offsets[s] > 1)
    first = int(files.cmdp.offsets[ragged])
    claim = json.loads(files.claim_bytes)
    claim["policy"][first : first + 2] = [(-1.0).hex(), (2.0).hex()]
    assert "negative" in files.verify(claim=claim)[1][0]
    for scale in (0.5, -1.0):
        arrays = arrays_in(files.model_bytes)
        content = in_place(arrays | {"probabilities": arrays["probabilities"] * scale})
        accepted, lines = files.verify_bytes(content, files.resealed(content))
        assert not accepted and "probabilit" in lines[0]


# --- files that try to be something else ---


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_nothing_is_ever_unpacked(tmp_path, compression):
    """Ten megabytes of zeros in a small file, whatever is said of their size: the checkers cannot even unpack."""
    files = small_proof(tmp_path)
    members = members_of(files.model_bytes)
    large = zipped((members | {"reward.npy": members["reward.npy"] + bytes(10**7)}).items(), compression)
    assert len(large) < 10**5
    for content in (zipped(members.items(), compression), large):
        accepted, lines = files.verify_bytes(content, files.resealed(content))
        assert not accepted and "packed" in lines[0]
        path = tmp_path / "packed.npz"
        path.write_bytes(content)
        with pytest.raises(ib.InvalidInput, match="compressed"):
            ib.load(path)


def test_every_byte_of_a_model_file_has_its_place(tmp_path):
    """Any byte outside the numbers changed, taken away or doubled: both refuse, whatever a reader of zips would do."""
    files = by_hand({"average": True}, states=1, constraints=1)(tmp_path)
    model = files.model_bytes
    numbers = set()
    with zipfile.ZipFile(io.BytesIO(model)) as archive:
        for member in archive.infolist():
            end = member.header_offset + 30 + len(member.filename) + 20 + member.file_size
            numbers |= set(range(end - member.file_size + 128, end))
    for position in sorted(set(range(len(model))) - numbers):
        other = model[:position] + bytes([model[position] ^ 1 << position % 8]) + model[position + 1 :]
        assert not files.verify_bytes(other, files.resealed(other))[0], position
        if position % 7 == 0:
            for other in (
                model[:position] + model[position + 1 :],
                model[:position] + model[position:][:1] + model[position:],
            ):
                assert other == model or not files.verify_bytes(other, files.resealed(other))[0], position
    for other in (model + b" ", b" " + model, model[:-2] + b"\1\0 ", model + model):
        assert not files.verify_bytes(other, files.resealed(other))[0]


def test_exactly_the_members_of_a_model_each_once(tmp_path):
    """With a second array under the same name, what is proved would depend on who reads the file."""
    files = small_proof(tmp_path)
    members = members_of(files.model_bytes)
    other = array_bytes(np.load(io.BytesIO(members["signals.npy"])) - 1.0)
    path = tmp_path / "loaded.npz"
    for changed in (
        [*members.items(), ("signals", other)],
        [("signals", other), *members.items()],
        [*members.items(), ("signals.npy", other)],
        [("signals.npy", other), *members.items()],
        [*members.items(), ("SIGNALS.npy", other)],
        [*members.items(), ("signals.npy/", b"")],
        [*members.items(), ("discount.npy", array_bytes(0.5))],
        [*members.items(), ("a note", b"")],
        [item for item in members.items() if item[0] != "actions.npy"],
        [(name.removesuffix(".npy"), content) for name, content in members.items()],
        [("signals" if name == "signals.npy" else name, content) for name, content in members.items()],
        [("./" + name, content) for name, content in members.items()],
    ):
        content = zipped(changed)
        accepted, lines = files.verify_bytes(content, files.resealed(content))
        assert not accepted and "members" in lines[0], [name for name, _ in changed]
        path.write_bytes(content)
        with pytest.raises(ib.InvalidInput, match="member"):
            ib.load(path)
    packed = npz.packed(arrays_in(files.model_bytes) | {"note": np.zeros(1)})  # well laid out, one too many
    content = b"".join(map(bytes, packed))
    assert not files.verify_bytes(content, files.resealed(content))[0]


def test_shapes_and_types_are_those_of_the_layout(tmp_path):
    """The same numbers in another shape would be read in another order by somebody else."""
    files = by_hand({"horizon": 3})(tmp_path)
    arrays = arrays_in(files.model_bytes)
    n_pairs = arrays["actions"].size
    for name, array in (
        ("reward", arrays["reward"].reshape(n_pairs, 3)),
        ("reward", arrays["reward"].ravel()),
        ("reward", arrays["reward"][None]),
        ("reward", arrays["reward"][:2]),
        ("reward", arrays["reward"].astype(np.float32)),
        ("signals", arrays["signals"].reshape(3, 2, n_pairs)),
        ("signals", arrays["signals"].reshape(2, -1)),
        ("signals", arrays["signals"][:, 0]),
        ("indptr", arrays["indptr"][: n_pairs + 1]),
        ("indptr", arrays["indptr"][: 2 * n_pairs + 1]),
        ("initial", arrays["initial"][:, None]),
        ("actions", arrays["actions"][:-1]),
        ("offsets", arrays["offsets"].astype(float)),
        ("senses", arrays["senses"].astype(float)),
        ("bounds", arrays["bounds"][:, None]),
    ):
        content = in_place(arrays | {name: array})
        accepted, lines = files.verify_bytes(content, files.resealed(content))
        if (name, array.shape) == ("signals", (2, n_pairs)):
            assert not accepted and "only proved" in lines[0]  # a shape that there is: of other signals
        else:
            assert not accepted and ("sizes" in lines[0] or "array" in lines[0] or "indptr" in lines[0]), (name, lines)


@pytest.mark.parametrize("criterion", [{"discount": 0.75}, {"average": True}], ids=str)
def test_without_a_horizon_nothing_depends_on_the_stage(tmp_path, criterion):
    """Not even on the only one: a file with an axis of one stage is none that the library reads."""
    files = by_hand(criterion)(tmp_path)
    arrays = arrays_in(files.model_bytes)
    for name, array in (("reward", arrays["reward"][None]), ("signals", arrays["signals"][:, None])):
        content = in_place(arrays | {name: array})
        accepted, lines = files.verify_bytes(content, files.resealed(content))
        assert not accepted and "sizes" in lines[0]


def test_headers_of_the_model_that_are_wrong(tmp_path):
    files = by_hand({"average": True})(tmp_path)
    arrays = arrays_in(files.model_bytes)
    header = json.loads(arrays["header"].tobytes())
    for change in (
        {"version": 1},
        {"version": 3},
        {"kind": "policy"},
        {"criterion": {}},
        {"criterion": None},
        {"criterion": {"average": 1}},
        {"criterion": {"average": False}},
        {"criterion": {"average": True, "discount": 0.5}},
        {"criterion": {"gamma": 0.5}},
        {"criterion": {"discount": 1.0}},
        {"criterion": {"discount": -0.5}},
        {"criterion": {"discount": float("nan")}},
        {"criterion": {"discount": "0.5"}},
        {"criterion": {"discount": False}},
        {"criterion": {"horizon": 0}},
        {"criterion": {"horizon": -1}},
        {"criterion": {"horizon": 1.0}},
        {"criterion": {"horizon": True}},
        {"constraints": []},
    ):
        text = np.frombuffer(json.dumps(header | change).encode(), dtype=np.uint8)
        content = in_place(arrays | {"header": text})
        written = {key: x.hex() if isinstance(x, float) else x for key, x in (change.get("criterion") or {}).items()}
        for claimed in (files.claim["criterion"], written):
            claim = files.resealed(content, files.claim | {"criterion": claimed})
            accepted, lines = files.verify_bytes(content, claim)
            assert not accepted, change
            if change.get("criterion") and len(change["criterion"]) == 1:
                assert "the criterion is wrong" in lines[0] or "the discount or the horizon is wrong" in lines[0]


@pytest.mark.parametrize("make", [proof_of_a_policy, proof_of_infeasibility])
def test_a_horizon_that_is_only_claimed_costs_nothing(tmp_path, make):
    """The arrays of one stage, and a header that claims very many of them."""
    files = by_hand({"horizon": 2}, make, staged=())(tmp_path)
    arrays = arrays_in(files.model_bytes)
    header = json.loads(arrays["header"].tobytes())
    for horizon in (3, 10**5, 10**9, 10**60):
        text = json.dumps(header | {"criterion": {"horizon": horizon}}).encode()
        content = in_place(arrays | {"header": np.frombuffer(text, dtype=np.uint8)})
        claim = files.claim | {"criterion": {"horizon": horizon}}
        accepted, lines = files.verify_bytes(content, files.resealed(content, claim))
        assert not accepted and ("length" in lines[0] if horizon <= 10**5 else "horizon is wrong" in lines[0])


@BOTH
def test_lengths_are_looked_at_before_anything_is_made_of_them(tmp_path, checker):
    """Two small files: 100,000 stages of 1,000 states, and a policy without a number."""
    states, criterion = 1_000, {"horizon": 100_000}
    model = SimpleNamespace(
        criterion=criterion,
        offsets=np.arange(states + 1),
        actions=np.zeros(states, dtype=np.int64),
        transition=sp.eye_array(states, format="csr"),
        reward=np.zeros(states),
        constraints=(),
        initial=np.eye(states)[0],
        state_labels=None,
        action_labels=None,
        name="",
    )
    nothing = np.empty(0)
    proof = Proof(criterion, nothing, np.empty((0, 0)), nothing)
    files = Files(tmp_path, model, Certificate(True, "exact", (), nothing, (), -1.0, proof=proof, model=model))
    command = [sys.executable, "-I", "-S", str(checker), str(files.model), str(files.certificate)]
    limit = partial(resource.setrlimit, resource.RLIMIT_AS, (2**29, 2**29))
    said = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit)
    assert said.returncode == 1 and said.stdout.startswith("REJECTED: ") and not said.stderr


def test_without_enough_memory_it_says_so(monkeypatch, capsys):
    def verify_in_no_memory(*arguments):
        raise MemoryError

    checker = sys.modules["inbounds.proofs.verify"]
    monkeypatch.setattr(checker, "verify", verify_in_no_memory)
    assert checker.main(["model.npz", "certificate.json"]) == 2
    assert capsys.readouterr().out == "UNREADABLE: not enough memory\n"


# --- numbers that get long ---


def extreme(actions, horizon=None, states=2):
    """A policy that takes every action, all rows of another sum, with numbers from 2^-1020 to 1; and a proof."""
    rng = np.random.default_rng(0)

    def tiny(*shape):
        return (0.5 + rng.random(shape)) * 2.0 ** rng.integers(-1020, -900, shape)

    n_pairs, stages = states * actions, horizon or 1
    rows, policy = np.zeros((n_pairs, states)), tiny(stages, states, actions)
    rows[:, 0], rows[:, 1], policy[:, :, 0] = 1.0, tiny(n_pairs), 1.0
    criterion = {"horizon": horizon} if horizon else {"average": True}
    model = SimpleNamespace(
        criterion=criterion,
        offsets=np.arange(states + 1) * actions,
        actions=np.tile(np.arange(actions), states),
        transition=sp.csr_array(rows),
        reward=tiny(n_pairs),
        constraints=(ib.Constraint(tiny(n_pairs), name="limit", at_least=-1.0),),
        initial=np.eye(states)[0],
        state_labels=None,
        action_labels=None,
        name="",
    )
    proof = Proof(criterion, policy.ravel(), tiny(1, stages * states), tiny(stages * states))
    return model, Certificate(True, "exact", model.constraints, np.zeros(1), ("",), -1.0, proof=proof, model=model)


def test_numbers_may_get_long_but_not_without_end(tmp_path):
    """One denominator for each state, of at most so many bits; what needs more is refused by name, and soon."""
    accepted, lines = Files(tmp_path, *extreme(31)).verify()
    assert accepted, lines
    started = time.process_time()
    accepted, lines = Files(tmp_path, *extreme(400)).verify()
    assert not accepted and "bits are needed in state 0" in lines[0]
    assert time.process_time() - started < 1.0  # 2.6 s without the limit


@pytest.mark.parametrize("stages", [10, 400])
def test_a_wide_sum_is_rounded_against_the_claim_and_loses_no_double(tmp_path, stages):
    """The largest double below the exact bound is accepted, the next one is not: in both checkers, narrow and wide."""
    rng = np.random.default_rng(stages)
    problem = ib.CMDP(
        offsets=[0, 2, 4],
        transition=rng.dirichlet(np.ones(2), 4),
        reward=rng.normal(size=4),
        constraints=[],
        initial=[0.3, 0.7],
        horizon=stages,
    )
    policy = ib.Policy(problem.pairs, rng.dirichlet(np.ones(2), (stages, 2)).reshape(stages, 4))
    best = ib.solve(problem)
    given = {"prices": np.zeros(0), "value_function": best.value_function}
    files = Files(tmp_path, problem, ib.certify(policy, problem, exact=True, **given))
    for key, outwards in (("reward_lower", np.inf), ("reward_upper", -np.inf)):
        claimed = float.fromhex(files.claim[key])
        for number, wanted in ((claimed, True), (np.nextafter(claimed, outwards), False)):
            accepted, lines = files.verify(claim=files.claim | {key: float(number).hex()})
            assert accepted is wanted, (key, lines)
    entries = files.claim["policy"]
    widths = sum(
        (Fraction(float.fromhex(x)) + Fraction(float.fromhex(y)) != 1)
        for x, y in zip(entries[::2], entries[1::2], strict=True)
    )
    assert widths * 50 > WIDEST or stages == 10  # so many sums are no powers of two that it is the wide one


def a_large_square() -> float:
    """Seconds of CPU for a square of a million bits: by how much this machine is slower than an idle one."""
    number, seconds = 3**600_000, []
    for _ in range(3):
        started = time.process_time()
        number * number
        seconds.append(time.process_time() - started)
    return min(seconds)


def test_a_wide_file_takes_the_time_of_its_size(tmp_path):
    """128 stages of 30,000 bits each, 12 times: multiplied with each other they took a second for each bound."""
    model, certificate = extreme(15, horizon=128, states=2)
    many = tuple(replace(model.constraints[0], name=f"limit {k}") for k in range(12))
    model.constraints, proof = many, certificate.proof
    proof = replace(proof, margin_vectors=np.repeat(proof.margin_vectors, 12, axis=0))
    certificate = replace(certificate, constraints=many, margins_lower=np.zeros(12), methods=("",) * 12, proof=proof)
    files = Files(tmp_path, model, certificate)
    before, started = a_large_square(), time.process_time()
    assert files.verify()[0]
    taken = time.process_time() - started
    assert taken < 105.0 * max(before, a_large_square())  # 12 s on an idle machine, where it takes 10


def test_long_horizons_are_checked_in_time(tmp_path):
    """Every stage has a denominator of its own; they are multiplied two by two, not one after the other."""
    files = Files(tmp_path, *extreme(1, horizon=1_000))
    started = time.process_time()
    assert files.verify()[0]
    assert time.process_time() - started < 5.0  # for both checkers, 1 s on an idle machine


# --- damaged and forged files ---


def test_damaged_and_forged_files():
    """Nothing damaged is accepted, nothing false, and both checkers agree; `make fuzz` tries many more."""
    report = certificates.run(900, seed=0, seconds=60.0)
    assert report["failures"] == [] and report["stopped"] == ""
    tried = report["tried"]
    assert tried["accepted"] > 30 and tried["rejected"] > 400 and tried["unreadable"] > 30


def test_malformed_files_through_the_command_line():
    """No traceback, no hang, no exit code that is not documented; `make fuzz` tries many more."""
    report = malformed.run(240, seed=0, seconds=60.0)
    assert report["failures"] == [] and report["stopped"] == ""
    assert report["tried"]["npz exit 2"] > 30 and report["tried"]["toml exit 2"] > 30


@BOTH
def test_a_large_file_that_is_no_certificate_is_refused_soon(tmp_path, checker):
    """In little more time than it takes to read it as JSON: there is one look at the types of its numbers."""
    text = '{"kind":[' + "0," * 1_000_000 + "0]}"
    (tmp_path / "large.json").write_text(text)
    command = [sys.executable, "-I", "-S", str(checker), str(small_proof(tmp_path).model), str(tmp_path / "large.json")]

    def is_soon():
        started = time.process_time()
        json.loads(text)
        reading = time.process_time() - started
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        assert subprocess.run(command, capture_output=True).returncode == 2
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 3 * reading + 0.1

    assert any(is_soon() for _ in range(3))  # others may be at work here
