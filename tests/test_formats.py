"""Files: what is saved comes back bit for bit, and what is wrong with a file is said in one message."""

from __future__ import annotations

import collections
import contextlib
import errno
import hashlib
import io
import itertools
import json
import os
import pickle
import random
import re
import stat
import struct
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import inbounds as ib
from inbounds.formats import npz, read_model, toml, write_model
from inbounds.formats.atomic import replaced_together
from inbounds.formats.criterion import LONGEST
from inbounds.problem.cmdp import load

ROOT = Path(__file__).parents[1]
SUFFIXES = ("npz", "toml")


def small_model(**changes):
    """Two states with labels, a ragged table of actions, a constraint of each sense."""
    fields = {
        "offsets": [0, 2, 3],
        "transition": [[0.3, 0.7], [1.0, 0.0], [1 / 3, 2 / 3]],
        "reward": [1.0, -0.0, 0.1],
        "constraints": (
            ib.Constraint([1.0, 0.0, 2.0], at_most=0.5, name="energy"),
            ib.Constraint([0.1, 0.2, 0.3], at_least=-1e-300, name="service level"),
        ),
        "initial": [1.0, 0.0],
        "discount": 0.9,
        "actions": [1, 0, 2],
        "state_labels": ("up", "down"),
        "action_labels": ("rest", "work", "wait", "never used"),
        "name": "small",
    }
    return ib.CMDP(**(fields | changes))


def assert_same(one, other):
    """Equal to the last bit, labels and their types included."""
    for name in ("offsets", "actions", "reward", "initial"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
    assert one.transition.data.tobytes() == other.transition.data.tobytes()
    for name in ("indices", "indptr"):  # of either width
        np.testing.assert_array_equal(getattr(one.transition, name), getattr(other.transition, name))
    assert one.discount == other.discount
    assert one.name == other.name
    assert repr(one.state_labels) == repr(other.state_labels)  # repr tells 1 from True and 0.0 from -0.0
    assert repr(one.action_labels) == repr(other.action_labels)
    assert len(one.constraints) == len(other.constraints)
    for a, b in zip(one.constraints, other.constraints, strict=True):
        assert (a.name, a.at_least, a.at_most) == (b.name, b.at_least, b.at_most)
        assert struct.pack("d", a.bound) == struct.pack("d", b.bound)
        assert a.signal.tobytes() == b.signal.tobytes()


def refusal(path) -> str:
    with pytest.raises(ib.InvalidInput) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    return message


# --- round trips ---


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "cmdp",
    [
        small_model(),
        small_model(state_labels=None, action_labels=None, constraints=()),
        small_model(constraints=(), initial=[-0.0, 1.0]),
        small_model(state_labels=(1, 1.5), action_labels=((), ("a", (False, -3)), True, -0.0)),
        small_model(state_labels=(float("inf"), -(2**100)), name='quotes " \\ and\r\n\x00\x7f é 漢'),
        small_model(state_labels=("", "a.b"), initial=[0.5, 0.5]),
        ib.zoo.queue(),
        ib.zoo.queue(full_buffer="closed"),
        ib.zoo.garnet(states=40, actions=3, successors=7),
        ib.zoo.garnet(states=1, actions=1, successors=1, constraints=0, discount=0.0),
    ],
    ids=repr,
)
def test_a_model_comes_back_bit_for_bit(cmdp, suffix, tmp_path):
    path = tmp_path / f"model.{suffix}"
    cmdp.save(path)
    loaded = load(str(path))
    assert_same(cmdp, loaded)
    first = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == first
    assert npz.digest(loaded) == npz.digest(cmdp)


plain_labels = st.recursive(
    st.text(max_size=5) | st.integers() | st.floats(allow_nan=False) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)
numbers = st.floats(-1e100, 1e100)


@st.composite
def models(draw, labels):
    counts = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    n_states, n_pairs = len(counts), sum(counts)
    n_actions = draw(st.integers(3, 5))

    def distribution():
        weights = np.array(draw(st.lists(st.floats(0.0, 1.0), min_size=n_states, max_size=n_states)))
        weights[draw(st.integers(0, n_states - 1))] += 0.5
        return weights / weights.sum()

    def vector():
        return draw(st.lists(numbers, min_size=n_pairs, max_size=n_pairs))

    def some_labels(count):
        return draw(st.none() | st.lists(labels, min_size=count, max_size=count, unique=True).map(tuple))

    sides = draw(st.lists(st.tuples(st.sampled_from(["at_least", "at_most"]), numbers), max_size=3))
    return ib.CMDP(
        offsets=np.cumsum([0, *counts]),
        transition=np.array([distribution() for _ in range(n_pairs)]),
        reward=vector(),
        constraints=tuple(
            ib.Constraint(vector(), name=f"{draw(st.text(max_size=4))}{k}", **{side: bound})
            for k, (side, bound) in enumerate(sides)
        ),
        initial=distribution(),
        discount=draw(st.floats(0.0, 1.0, exclude_max=True)),
        actions=[action for count in counts for action in draw(st.permutations(range(n_actions)))[:count]],
        state_labels=some_labels(n_states),
        action_labels=some_labels(n_actions),
        name=draw(st.text(max_size=6)),
    )


@settings(deadline=None, max_examples=100)
@given(cmdp=models(plain_labels | st.none() | st.tuples(st.none(), plain_labels)))
def test_every_model_survives_npz(cmdp, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "drawn.npz"
    cmdp.save(path)
    assert_same(cmdp, load(path))
    assert npz.digest(cmdp) == npz.digest(load(path)) == hashlib.sha256(path.read_bytes()).hexdigest()


@settings(deadline=None, max_examples=100)
@given(cmdp=models(plain_labels))
def test_every_model_without_confusing_labels_survives_toml(cmdp, tmp_path_factory):
    written = [toml._key_text(label) for label in cmdp.state_labels or ()]
    assume(len(set(written)) == len(written))
    path = tmp_path_factory.getbasetemp() / "drawn.toml"
    cmdp.save(path)
    assert_same(cmdp, load(path))
    assert npz.digest(cmdp) == npz.digest(load(path))


def test_subclasses_come_back_as_the_plain_value(tmp_path):
    Place = collections.namedtuple("Place", "row column")
    cmdp = small_model(state_labels=(Place(np.int64(1), np.float64(0.5)), np.str_("x")))
    for suffix in SUFFIXES:
        cmdp.save(tmp_path / f"model.{suffix}")
        loaded = load(tmp_path / f"model.{suffix}")
        assert repr(loaded.state_labels) == "((1, 0.5), 'x')"
        assert loaded.state_labels == cmdp.state_labels


def test_validating_a_model_again_changes_no_bit():
    """Without this no file could be exact: loading validates. Sums and divisions round, in rows of every length."""
    rng = np.random.default_rng(0)
    for successors in (1, 2, 3, 5, 8, 20, 100):
        rows, n_states = 400, max(successors, 2)
        weights = rng.exponential(size=(rows, successors)) ** rng.integers(1, 12, size=(rows, 1))
        indptr = np.arange(rows + 1) * successors
        indices = np.tile(np.arange(successors), rows)
        once = ib.CMDP(
            offsets=np.arange(n_states + 1) * rows // n_states,
            transition=sp.csr_array(
                ((weights / weights.sum(axis=1, keepdims=True) * (1 + 5e-10)).ravel(), indices, indptr),
                shape=(rows, n_states),
            ),
            reward=np.zeros(rows),
            constraints=(),
            initial=rng.dirichlet(np.full(n_states, 0.1)) * (1 - 5e-10),
            discount=0.5,
        )
        assert_same(once, replace(once))
        eps = np.finfo(float).eps
        assert np.all(np.abs(once.transition.sum(axis=1) - 1.0) <= successors * eps)  # and rows are normalised
        assert abs(once.initial.sum() - 1.0) <= n_states * eps


def test_the_bytes_of_an_npz_are_fixed():
    """Certificates name models by this hash: no version of Python, NumPy or inbounds may change it."""
    assert npz.digest(small_model()) == "7ee86fcfefef72d42d995250ba5161b5cd09b4f693ec88fb1088b614171ff047"
    assert npz.digest(small_model(name="Small")) != npz.digest(small_model())


def test_the_zip_is_one_in_the_64_bit_form(tmp_path):
    """All sizes and positions are where files beyond 4 GiB have them."""
    path = tmp_path / "model.npz"
    small_model().save(path)
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [f"{name}.npy" for name in npz.LAYOUT]
        for member in archive.infolist():
            assert content[member.header_offset :].startswith(b"PK\x03\x04")
            assert content[member.header_offset + 18 : member.header_offset + 26] == b"\xff" * 8
            assert member.extra == struct.pack(
                "<HHQQQ", 1, 24, member.file_size, member.file_size, member.header_offset
            )
    assert content[-98:-94] == b"PK\x06\x06" and content[-42:-38] == b"PK\x06\x07"


# --- horizons and averages ---


def timed_model(horizon=3, staged=("transition", "reward", "signal"), **changes):
    """`small_model` over a horizon, with what is `staged` different at each stage; signs of zeros among it."""
    small = small_model()
    moves = small.transition.toarray()
    later = [np.roll(moves, h, axis=1) if h % 2 else moves for h in range(horizon)]
    energy, service = small.constraints
    step = np.arange(horizon)[:, None]
    fields = {
        "offsets": small.offsets,
        "transition": tuple(map(sp.csr_array, later)) if "transition" in staged else small.transition,
        "reward": small.reward * (-1.0) ** step if "reward" in staged else small.reward,
        "constraints": (
            replace(energy, signal=energy.signal + step / 3 if "signal" in staged else energy.signal),
            service,
        ),
        "initial": small.initial,
        "horizon": horizon,
        "actions": small.actions,
        "state_labels": small.state_labels,
        "action_labels": small.action_labels,
        "name": "timed",
    }
    return ib.CMDP(**(fields | changes))


def made(fields):
    """The model of some fields."""
    constraints = tuple(ib.Constraint(**constraint) for constraint in fields["constraints"])
    return ib.CMDP(**fields | {"constraints": constraints})


def averaged_model(**changes):
    return small_model(**({"discount": None, "average": True} | changes))


STAGED = [names for size in range(4) for names in itertools.combinations(("transition", "reward", "signal"), size)]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("horizon", [1, 2, 5])
@pytest.mark.parametrize("staged", STAGED, ids=" ".join)
def test_a_model_with_a_horizon_comes_back_bit_for_bit(staged, horizon, suffix, tmp_path):
    model, path = timed_model(horizon, staged), tmp_path / f"model.{suffix}"
    write_model(model, path)
    fields, first = read_model(path), path.read_bytes()
    assert fields["horizon"] == horizon and not {"discount", "average"} & set(fields)
    # What does not depend on the stage is there once; of one stage nothing does.
    many = {name: name in staged and horizon > 1 for name in ("transition", "reward", "signal")}
    assert isinstance(fields["transition"], tuple) == many["transition"]
    assert fields["reward"].shape == ((horizon, 3) if many["reward"] else (3,))
    assert fields["constraints"][0]["signal"].shape == ((horizon, 3) if many["signal"] else (3,))
    back = made(fields)
    for name in ("offsets", "actions", "reward", "initial"):
        assert getattr(back, name).tobytes() == getattr(model, name).tobytes(), name
    for one, other in zip(back.transition, model.transition, strict=True):
        assert one.data.tobytes() == other.data.tobytes()
        assert one.indices.tolist() == other.indices.tolist() and one.indptr.tolist() == other.indptr.tolist()
    for one, other in zip(back.constraints, model.constraints, strict=True):
        assert (one.name, one.at_least, one.at_most) == (other.name, other.at_least, other.at_most)
        assert one.signal.tobytes() == other.signal.tobytes()
    assert (back.state_labels, back.action_labels, back.name) == (model.state_labels, model.action_labels, model.name)
    write_model(back, path)
    assert path.read_bytes() == first
    assert npz.digest(back) == npz.digest(model)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_model_of_averages_comes_back_bit_for_bit(suffix, tmp_path):
    model, path = averaged_model(), tmp_path / f"model.{suffix}"
    write_model(model, path)
    fields, first = read_model(path), path.read_bytes()
    assert fields["average"] is True and not {"discount", "horizon"} & set(fields)
    assert_same(small_model(), ib.CMDP(**{**vars_of(fields), "discount": 0.9}))
    write_model(made(fields), path)
    assert path.read_bytes() == first
    assert npz.digest(made(fields)) == npz.digest(model) != npz.digest(small_model())


def vars_of(fields):
    constraints = tuple(ib.Constraint(**constraint) for constraint in fields["constraints"])
    return {name: value for name, value in fields.items() if name != "average"} | {"constraints": constraints}


def test_the_same_model_in_memory_in_another_way_gives_the_same_bytes():
    """Numbers and transitions that are the same at every stage are kept once, however they are held."""
    once = timed_model(4, staged=())
    copies = timed_model(
        4,
        reward=np.tile(once.reward[0], (4, 1)),
        transition=tuple(sp.csr_array(once.transition[0]) for _ in range(4)),
        constraints=tuple(replace(c, signal=np.array(c.signal)) for c in once.constraints),
    )
    assert copies.transition[0] is copies.transition[3] and once.transition[0] is once.transition[3]
    assert npz.digest(copies) == npz.digest(once)
    signed = np.array(once.reward)
    signed[2] = -signed[2]  # of a zero only the sign
    assert npz.digest(timed_model(4, staged=(), reward=signed)) != npz.digest(once)
    sizes = [sum(map(len, members_of(timed_model(horizon, staged=())).values())) for horizon in (2, 9)]
    assert sizes[0] == sizes[1]


def test_the_bytes_of_a_horizon_and_of_an_average_are_fixed():
    assert npz.digest(timed_model()) == "5ebdf69a3fefcb7125de08548bba8a404630449d5e6f8a56ec56aef5dccbc745"
    assert npz.digest(timed_model(staged=())) == "43fcc43218c6db523cae2f73aff6cc59e764dd623fe55c38a5cddd15bedfa647"
    assert npz.digest(averaged_model()) == "116dde3d861ead2cc90897fdfc4e6578a21d0ab250c3ffbd9b616093c24c1078"


@st.composite
def timed_models(draw):
    base, horizon = draw(models(plain_labels)), draw(st.integers(1, 4))
    n_pairs = base.n_pairs

    def numbers_of(otherwise):
        rows = st.lists(st.sampled_from([0.0, -0.0, 1.0]) | numbers, min_size=n_pairs, max_size=n_pairs)
        return draw(st.just(otherwise) | st.lists(rows, min_size=horizon, max_size=horizon).map(np.array))

    shifts = draw(st.none() | st.lists(st.integers(0, base.n_states - 1), min_size=horizon, max_size=horizon))
    moves = base.transition.toarray()
    return ib.CMDP(
        offsets=base.offsets,
        transition=moves if shifts is None else tuple(np.roll(moves, shift, axis=1) for shift in shifts),
        reward=numbers_of(base.reward),
        constraints=tuple(replace(c, signal=numbers_of(c.signal)) for c in base.constraints),
        initial=base.initial,
        horizon=horizon,
        actions=base.actions,
        state_labels=base.state_labels,
        action_labels=base.action_labels,
        name=base.name,
    )


@settings(deadline=None, max_examples=100)
@given(model=timed_models())
def test_every_model_with_a_horizon_survives_both_formats(model, tmp_path_factory):
    written = [toml._key_text(label) for label in model.state_labels or ()]
    assume(len(set(written)) == len(written))
    for suffix in SUFFIXES:
        path = tmp_path_factory.getbasetemp() / f"timed.{suffix}"
        write_model(model, path)
        assert npz.digest(made(read_model(path))) == npz.digest(model)


@pytest.mark.parametrize(
    ("member", "content", "message"),
    [
        ("reward", np.zeros((2, 3)), r"'reward' must have the shape \[n\] = \(3,\) or \[H, n\] = \(4, 3\), found"),
        ("reward", np.zeros((3, 4)), r"'reward' must have the shape"),
        ("reward", np.zeros(12), r"'reward' must have the shape"),
        (
            "signals",
            np.zeros((4, 2, 3)),
            r"'signals' must have the shape \[K, n\] = \(2, 3\) or \[K, H, n\] = \(2, 4, 3\)",
        ),
        ("signals", np.zeros((2, 12)), "'signals' must have the shape"),
        ("indptr", np.arange(4), "'indptr' must rise from 0 to 20"),
        ("indptr", np.arange(8), r"'indptr' must have the shape \[n\+1\] = \(4,\) or \[H\*n\+1\] = \(13,\)"),
        ("indptr", np.arange(12)[[*range(12), -1]], "'indptr' must rise from 0 to 20"),
    ],
)
def test_npz_with_a_wrong_member_of_a_horizon(member, content, message, tmp_path):
    members = members_of(timed_model(4))
    path = zipped(tmp_path / "model.npz", members | {f"{member}.npy": array_bytes(content)})
    with pytest.raises(ib.InvalidInput, match=message):
        read_model(path)


def test_a_model_without_pairs_is_refused(tmp_path):
    empty = {"offsets": [0], "actions": np.zeros(0, int), "indptr": [0], "indices": np.zeros(0, int), "reward": []}
    empty |= {"probabilities": [], "signals": np.zeros((2, 0)), "initial": []}
    for cmdp in (small_model(), timed_model(2, staged=())):
        members = members_of(cmdp) | {f"{name}.npy": array_bytes(array) for name, array in empty.items()}
        with pytest.raises(ib.InvalidInput, match="there are no pairs"):
            read_model(zipped(tmp_path / "model.npz", members))


# --- what other programs write and read ---


def test_numpy_reads_the_npz_without_pickle(tmp_path):
    small_model().save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as arrays:
        assert set(arrays) == set(npz.LAYOUT)
        np.testing.assert_array_equal(arrays["signals"], [[1.0, 0.0, 2.0], [0.1, 0.2, 0.3]])
        np.testing.assert_array_equal(arrays["senses"], [-1, 1])
        assert json.loads(arrays["header"].tobytes())["states"] == ["up", "down"]


def test_numpy_writes_an_npz_that_loads(tmp_path):
    cmdp = small_model()
    cmdp.save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as file:
        arrays = dict(file)
    arrays["signals"] = np.asfortranarray(arrays["signals"])
    arrays["indptr"] = arrays["indptr"].astype(np.int32)
    np.savez(tmp_path / "again.npz", **arrays)
    assert_same(cmdp, load(tmp_path / "again.npz"))
    assert npz.digest(load(tmp_path / "again.npz")) == npz.digest(cmdp)


def test_the_examples_in_the_documentation_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(python|toml)\n(.*?)```", text, re.DOTALL)
    assert [kind for kind, _ in blocks] == ["python", "toml", "toml", "toml", "python"]
    for number, (kind, block) in enumerate(blocks):
        if kind == "python":
            exec(block.replace("ib.load", "load"), {"load": load})
        else:
            Path(f"{number}.toml").write_text(block, encoding="utf-8")
            made(read_model(f"{number}.toml"))
    assert load("1.toml").n_states == 3
    assert load("queue.toml").n_pairs == 96
    assert load("work.npz").pairs.describe(1) == "state 0, action 'rest'"
    assert load("work.npz").margins.tolist() == [[-0.75, 0.25]]
    assert made(read_model("2.toml")).reward.tolist() == [[1.0, 0.0], [0.5, 0.0]]
    assert load("3.toml").state_labels == (0, (1, True))


def test_the_example_is_the_machine_that_its_rules_describe():
    conditions = {"new": {"run": {"new": 0.7, "worn": 0.3}}}
    conditions["worn"] = {"run": {"worn": 2 / 3, "broken": 1 / 3}, "repair": {"new": 1.0}}
    conditions["broken"] = {"wait": {"broken": 1.0}, "repair": {"new": 0.8, "broken": 0.2}}
    rewards = {("new", "run"): 3.0, ("worn", "run"): 2.0, ("broken", "repair"): -1.0}
    built = ib.build(
        "new",
        lambda state: conditions[state],
        lambda state, action: conditions[state][action],
        reward=lambda state, action: rewards.get((state, action), 0.0),
        constraints=[ib.Constraint(lambda state, action: action == "repair", at_most=0.1, name="repairs")],
        discount=0.95,
        name="machine",
    )
    loaded = load(ROOT / "examples" / "machine.toml")
    assert loaded.state_labels == built.state_labels
    for cmdp in (loaded, built):
        assert [cmdp.pairs.action_label(pair) for pair in range(5)] == ["run", "run", "repair", "wait", "repair"]
    np.testing.assert_array_equal(loaded.transition.toarray(), built.transition.toarray())
    np.testing.assert_array_equal(loaded.reward, built.reward)
    np.testing.assert_array_equal(loaded.margins, built.margins)
    best = ib.solve(loaded)
    assert abs(best.margins[0]) < 1e-9  # the bound matters, and can be met
    assert best.prices[0] > 0.0


# --- writing is atomic ---


def test_a_failed_save_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "model.npz"
    small_model().save(path)
    before = path.read_bytes()
    pieces = npz.pieces

    def full_disk(cmdp):
        yield from itertools.islice(pieces(cmdp), 10)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def interrupted(cmdp):
        yield from itertools.islice(pieces(cmdp), 10)
        raise KeyboardInterrupt

    monkeypatch.setattr(npz, "pieces", full_disk)
    with pytest.raises(ib.InvalidInput, match=r"model.npz: cannot be written: no space left"):
        ib.zoo.queue().save(path)
    monkeypatch.setattr(npz, "pieces", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ib.zoo.queue().save(path)
    monkeypatch.setattr(npz, "pieces", pieces)

    def refused(source, target):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patch, pytest.raises(ib.InvalidInput, match="permission denied"):
        patch.setattr(os, "replace", refused)
        ib.zoo.queue().save(path)
    with pytest.raises(ib.InvalidInput, match="frozenset"):
        small_model(state_labels=(frozenset(), "b")).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX systems")
def test_saving_keeps_permissions_and_follows_links(tmp_path):
    path, link = tmp_path / "model.npz", tmp_path / "link.npz"
    small_model().save(path)
    path.chmod(0o640)
    link.symlink_to(path)
    ib.zoo.queue().save(link)
    assert link.is_symlink()
    assert load(path).n_pairs == 96
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX systems")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_what_replaces_a_file_is_its_owners_alone_until_it_has_the_same_permissions(mode, tmp_path):
    """(Of a private file it was readable by all while it was written.)"""
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"old")
    old.chmod(mode)
    before = os.umask(0o022)
    try:
        with replaced_together([old, new]) as streams:
            modes = [stat.S_IMODE(os.fstat(stream.fileno()).st_mode) for stream in streams]
    finally:
        os.umask(before)
    assert modes == [0o600, 0o644]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (old, new)] == [mode, 0o644]


def test_the_bytes_do_not_depend_on_the_clock(tmp_path, monkeypatch):
    small_model().save(tmp_path / "one.npz")
    monkeypatch.setattr("time.time", lambda: 2e9)
    small_model().save(tmp_path / "two.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


# --- paths ---


def test_paths_that_are_no_model_file(tmp_path):
    for path in ("model", "model.pkl", "model.npz.gz", tmp_path):
        for call in (load, small_model().save):
            with pytest.raises(ib.InvalidInput, match=r"must be \.npz or \.toml"):
                call(path)
    for path in (3, None):
        with pytest.raises(ib.InvalidInput, match="must be text or a Path"):
            load(path)
    with pytest.raises(ib.InvalidInput, match="null character"):
        load("a\0.npz")
    for call in (load, small_model().save):
        with pytest.raises(ib.InvalidInput, match="must be valid Unicode"):
            call("\ud800.npz")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_that_cannot_be_read_or_written(suffix, tmp_path):
    assert "no such file" in refusal(tmp_path / f"missing.{suffix}")
    (tmp_path / f"empty.{suffix}").touch()
    assert "empty" in refusal(tmp_path / f"empty.{suffix}")
    folder = tmp_path / f"folder.{suffix}"
    folder.mkdir()
    assert "is a directory" in refusal(folder)
    with pytest.raises(ib.InvalidInput, match="cannot be written"):
        small_model().save(folder)
    with pytest.raises(ib.InvalidInput, match="cannot be written: no such file"):
        small_model().save(tmp_path / "nowhere" / f"model.{suffix}")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / f"pipe.{suffix}")
        assert "not a regular file" in refusal(tmp_path / f"pipe.{suffix}")
        with pytest.raises(ib.InvalidInput, match="cannot be written: is not a regular file"):  # and is still there
            small_model().save(tmp_path / f"pipe.{suffix}")
        assert stat.S_ISFIFO((tmp_path / f"pipe.{suffix}").stat().st_mode)
    assert not list(tmp_path.glob(".inbounds-*"))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_permission(suffix, tmp_path, monkeypatch):
    path = tmp_path / f"model.{suffix}"
    small_model().save(path)

    def denied(*arguments, **options):  # for real, it would not hold for a super-user
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("builtins.open", denied)
    assert "cannot be read: permission denied" in refusal(path)


# --- labels ---


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_labels_that_a_file_cannot_keep(suffix, tmp_path):
    deep = ()
    for _ in range(40):
        deep = (deep,)
    for label, message in (
        (frozenset("a"), r"state 1 has the label frozenset\(.* of type frozenset"),
        (("a", b"b"), r"state 1 has the label \('a', b'b'\), which contains b'b' of type bytes"),
        (deep, "nest deeper than 32"),
        (10**5000, "more than 4096 bits"),
        (("a", "\ud800\udc00"), "the label of state 1 must be valid Unicode"),
    ):
        with pytest.raises(ib.InvalidInput, match=message):
            small_model(state_labels=("a", label)).save(tmp_path / f"model.{suffix}")
    with pytest.raises(ib.InvalidInput, match="action 3 has the label"):
        small_model(action_labels=(1, 2, 3, 1j)).save(tmp_path / f"model.{suffix}")


def test_labels_that_toml_cannot_keep(tmp_path):
    for labels, message in (
        (("3", 3), "the states 3 and '3' would be written alike"),
        (("a", (1, None)), r"state 1 has the label \(1, None\); TOML has no None"),
    ):
        with pytest.raises(ib.InvalidInput, match=f"{message}.*"):
            small_model(state_labels=labels).save(tmp_path / "model.toml")


# --- npz: what a hostile file may try ---


def members_of(cmdp) -> dict[str, bytes]:
    stream = io.BytesIO()
    npz.write(cmdp, stream)
    with zipfile.ZipFile(stream) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items() if isinstance(members, dict) else members:
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=compression)
    return path


def array_bytes(array, allow_pickle=False) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asanyarray(array), allow_pickle=allow_pickle)
    return stream.getvalue()


def claiming(shape, kind="<f8", data=b"") -> bytes:
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def header_with(**changes) -> bytes:
    header = {"kind": "cmdp", "version": 2, "name": "", "criterion": {"discount": 0.9}}
    header |= {"constraints": ["a", "b"], "states": None, "actions": None}
    return array_bytes(np.frombuffer(json.dumps(header | changes).encode(), dtype=np.uint8))


def text_array(text: bytes) -> bytes:
    return array_bytes(np.frombuffer(text, dtype=np.uint8))


@pytest.mark.parametrize(
    ("member", "content", "message"),
    [
        ("reward", None, "has no member 'reward.npy'"),
        ("reward", b"", "member 'reward' is not an array"),
        ("reward", b"\x93NUMPY\x01\x00", "truncated or too long"),
        ("reward", b"\x93NUMPY\x02\x00" + b"\xff" * 8, "truncated or too long"),
        ("reward", b"\x93NUMPY\x09\x00" + b"\xff" * 8, "not an array"),
        ("reward", array_bytes([1.0, np.nan, 0.0]), "state 'up', action 'rest': the reward is nan"),
        ("reward", array_bytes([1.0, np.inf, 0.0]), "the reward is inf"),
        ("reward", array_bytes([1.0, 2.0]), r"must have the shape"),
        ("reward", array_bytes([[1.0, 2.0, 3.0]]), r"must have the shape \[n\] = \(3,\), found \(1, 3\)"),
        ("reward", array_bytes([[[1.0, 2.0, 3.0]]]), "must have 1 or 2 dimensions, found 3"),
        ("initial", array_bytes([[1.0, 0.0]]), "must have 1 dimension, found 2"),
        ("reward", array_bytes(np.ones(3, dtype=np.float32)), "must be an array of the type <f8, found <f4"),
        ("reward", array_bytes(np.ones(3, dtype=">f8")), "must be an array of the type <f8, found >f8"),
        ("reward", array_bytes(np.ones(3, dtype=complex)), "must be an array of the type <f8, found <c16"),
        ("reward", array_bytes(np.array([1, "a", None], dtype=object), allow_pickle=True), "must be an array of"),
        ("reward", claiming((10**12,)), "claims 8,000,000,000,000 bytes in its array header, but holds 0"),
        ("reward", claiming("(" + "9" * 55 + ",)"), "claims"),
        ("reward", claiming((2**61,)), "claims"),
        ("reward", claiming("(3 for x in ())"), "must be an array of the type"),
        ("reward", claiming((3,), data=b"\0" * 25), "claims 24 bytes in its array header, but holds 25"),
        ("reward", claiming((0,)), "must have the shape"),
        ("signals", claiming((0, 10**20)), "claims"),
        ("signals", claiming((0, 2**62)), "claims"),
        ("signals", claiming((0, 3)), r"member 'signals' must have the shape \[K, n\] = \(2, 3\), found \(0, 3\)"),
        ("signals", array_bytes(np.full((2, 3), np.nan)), "the signal of constraint 'energy' is nan"),
        ("bounds", array_bytes([np.nan, 0.0]), "constraint 'energy' has the bound nan"),
        ("senses", array_bytes([1, 0]), "must hold 1 .at least. or -1"),
        ("initial", array_bytes([0.5, 0.4]), "initial must sum to 1, found 0.9"),
        ("initial", array_bytes([1.7e308, 1.7e308]), "initial must sum to 1, found inf"),
        ("initial", array_bytes([2.0, -1.0]), "initial gives state 'down' the probability -1"),
        ("actions", claiming((0,), "<i8"), r"member 'indptr' must have the shape \[n\+1\] = \(1,\)"),
        ("offsets", array_bytes([0, 2, 2**63 - 1]), "member 'offsets' must rise from 0 to 3"),
        ("offsets", array_bytes([-(2**63), 2, 3]), "must rise from 0"),
        ("offsets", array_bytes([0, 4, 3]), "must rise from 0 to 3 and never fall"),
        ("offsets", array_bytes([0, 3, 3]), "state 'down' has no actions"),
        ("offsets", array_bytes([0.0, 2.0, 3.0]), "must be an array of the type <i8 or <i4"),
        ("actions", array_bytes([0, 0, 2]), "lists action .* twice"),
        ("actions", array_bytes([-1, 0, 2]), "must not be negative"),
        ("actions", array_bytes([9, 0, 2]), "action_labels must name every action"),
        ("indptr", array_bytes([0, 3, 2, 5]), "member 'indptr' must rise from 0 to 5"),
        ("indptr", array_bytes([0, 2, 3, 6]), "member 'indptr' must rise from 0 to 5"),
        ("indptr", array_bytes([0, 0, 3, 5]), "probabilities of the next state sum to 0"),
        ("indices", array_bytes([0, 1, 0, 0, 2]), "member 'indices' must hold states 0..1"),
        ("indices", array_bytes([0, 1, 0, 0, -1]), "member 'indices' must hold states 0..1"),
        ("probabilities", array_bytes([0.3, 0.7, 1.0, 0.3, 0.6]), "state 'down', action 'wait': the probabilities"),
        ("probabilities", array_bytes([0.3, 0.7, 1.0, np.nan, 1.0]), "the probability of moving to state 'up' is nan"),
        ("probabilities", array_bytes([1.7e308, 1.7e308, 1.0, 0.0, 1.0]), "sum to inf"),
        ("header", text_array(b"{"), "the header is not JSON"),
        ("header", text_array(b"\xff"), "the header is not JSON"),
        ("header", text_array(b"[" * 100_000), "the header is not JSON"),
        ("header", text_array(b"[" + b"9" * 5000 + b"]"), "the header is not JSON"),
        ("header", text_array(b"[]"), "must be a JSON object"),
        ("header", text_array(b'{"kind": "cmdp", "version": 2}'), "must have the keys kind, version, name, criterion"),
        ("header", header_with(kind="episodic"), "kind 'episodic'"),
        ("header", header_with(version=1), "format version 1; this version of inbounds reads 2"),
        ("header", header_with(version=True), "format version True"),
        ("header", header_with(extra=1), "must have the keys"),
        ("header", header_with(criterion={"discount": 1.0}), r"discount must be in \[0, 1\)"),
        ("header", header_with(criterion={"discount": float("nan")}), r"discount must be in \[0, 1\)"),
        ("header", header_with(criterion={"discount": "0.5"}), "discount must be a number, found '0.5'"),
        ("header", header_with(criterion={"discount": False}), "discount must be a number, found False"),
        ("header", header_with(criterion={"discount": 10**400}), "discount is too large for a double"),
        ("header", header_with(criterion={}), "must be exactly one of discount, horizon and average, found {}"),
        ("header", header_with(criterion={"discount": 0.5, "average": True}), "must be exactly one of discount"),
        ("header", header_with(criterion={"gamma": 0.5}), "must be exactly one of discount, horizon and average"),
        ("header", header_with(criterion=0.5), "the criterion in the header must be exactly one of"),
        ("header", header_with(criterion={"horizon": 0}), r"horizon must be a whole number in 1..100,000, found 0"),
        ("header", header_with(criterion={"horizon": 2.0}), "horizon must be a whole number"),
        ("header", header_with(criterion={"horizon": True}), "horizon must be a whole number"),
        ("header", header_with(criterion={"horizon": 10**30}), "horizon must be a whole number"),
        ("header", header_with(criterion={"average": False}), "average must be true, or left out, found False"),
        ("header", header_with(criterion={"average": 1}), "average must be true, or left out, found 1"),
        ("header", header_with(name=3), "the name of the model must be text, found 3"),
        ("header", header_with(constraints=["a"]), "must name 2 constraints, found 1"),
        ("header", header_with(constraints=["a", "a"]), "two constraints are called 'a'"),
        ("header", header_with(constraints=["a", 1]), "the name of a constraint must be text"),
        ("header", header_with(constraints=None), "must be a list of names"),
        ("header", header_with(states="ab"), "must be a list or null, found 'ab'"),
        ("header", header_with(states=["a"]), "state_labels must have 2 entries"),
        ("header", header_with(states=["a", "a"]), "must be distinct, but 'a' occurs twice"),
        ("header", header_with(states=["a", {}]), "state 1 has the label {} of type dict"),
        ("header", header_with(states=["a", float("nan")]), "state 1 has the label nan"),
        ("header", header_with(states=["a", "\ud800"]), "the label of state 1 must be valid Unicode"),
        ("header", header_with(actions=[0]), "action_labels must name every action"),
    ],
)
def test_npz_with_a_wrong_member(member, content, message, tmp_path):
    members = members_of(small_model())
    if content is None:
        del members[f"{member}.npy"]
    else:
        members[f"{member}.npy"] = content
    assert re.search(message, refusal(zipped(tmp_path / "model.npz", members)))


def test_npz_with_a_wrong_container(tmp_path):
    path = tmp_path / "model.npz"
    members = members_of(small_model())
    assert "'extra.npy'; a model has only" in refusal(zipped(path, members | {"extra.npy": b""}))
    assert "'../evil'" in refusal(zipped(path, members | {"../evil": b""}))
    assert "compressed" in refusal(zipped(path, members, compression=zipfile.ZIP_DEFLATED))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the zipfile module, for what is done to it here
        assert "same member twice" in refusal(zipped(path, [*members.items(), ("reward.npy", b"")]))
    path.write_bytes(b"not a zip file at all")
    assert "not a readable .npz file" in refusal(path)
    path.write_bytes(array_bytes([1.0]))
    assert "not a readable .npz file" in refusal(path)


def test_all_who_read_an_npz_find_the_same(tmp_path):
    """Nothing before, between and after the members, and no member says of itself what the directory does not say."""
    path, packed = tmp_path / "model.npz", tmp_path / "packed.npz"
    small_model().save(path)
    with np.load(path) as arrays:
        np.savez(packed, **arrays)
    for content in (path.read_bytes(), packed.read_bytes()):
        path.write_bytes(content)
        assert_same(small_model(), ib.load(path))
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            second, directory = archive.infolist()[1].header_offset, archive.start_dir
        entry = content.index(b"PK\x01\x02", directory + 1)  # of the second member
        changed = [
            b"PK" + content,
            content[:second] + b"PK" + content[second:],
            content[:directory] + bytes(9) + content[directory:],
            content + b"PK",
            content[:-2] + b"\2\0hi",
        ]
        for position, byte in (
            (second + 6, 8),  # sizes after the member
            (second + 8, 8),  # deflated, it says
            (second + 14, content[second + 14] ^ 1),  # another checksum
            (second + 30, ord("x")),  # another name
            (second + 18 if content[second + 18] != 255 else second + 45, 77),  # another size
            (entry + 8, 8),
        ):
            changed.append(content[:position] + bytes([byte]) + content[position + 1 :])
        for number, other in enumerate(changed):
            path.write_bytes(other)
            with pytest.raises(ib.InvalidInput):
                ib.load(path)
                pytest.fail(f"{number} was read")


def test_a_pickle_is_never_loaded(tmp_path):
    proof = tmp_path / "executed"

    class Evil:
        def __reduce__(self):
            return open, (str(proof), "w")

    path = tmp_path / "model.npz"
    content = pickle.dumps(Evil())
    path.write_bytes(content)
    refusal(path)
    members = members_of(small_model())
    for kind in ("|O", "O", "|V8"):
        refusal(zipped(path, members | {"reward.npy": claiming((1,), kind, content)}))
    assert not proof.exists()


def test_a_zip_bomb_is_not_inflated(tmp_path, monkeypatch):
    """A gigabyte of zeros in a megabyte, and stored members that claim more than the file has."""
    path = tmp_path / "model.npz"
    members = members_of(small_model())
    reads = []
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *arguments: reads.append(arguments))
    zipped(path, members | {"reward.npy": bytes(10**8)}, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 10**6
    assert "compressed" in refusal(path)

    content = bytearray(zipped(path, members).read_bytes())
    entry = content.rindex(b"PK\x01\x02")  # the last of the directory; both of its sizes are at 20
    content[entry + 20 : entry + 28] = struct.pack("<II", 2**31, 2**31)
    path.write_bytes(content)
    assert "claim to be larger than the file" in refusal(path)
    assert not reads


# --- toml: messages name the state and the action ---

MACHINE = """
discount = 0.5
initial = "on"

[[constraint]]
name = "energy"
at_most = 0.5

[[pair]]
state = "on"
action = "run"
reward = 1
signals = { energy = 1 }
next = { on = 0.75, off = "1/4" }

[[pair]]
state = "off"
action = "wait"
next = "on"
"""


def test_a_model_written_by_hand(tmp_path):
    (tmp_path / "model.toml").write_bytes(b"\xef\xbb\xbf" + MACHINE.encode())  # some editors begin with this mark
    cmdp = load(tmp_path / "model.toml")
    assert cmdp.transition.toarray().tolist() == [[0.75, 0.25], [1.0, 0.0]]
    assert cmdp.reward.tolist() == [1.0, 0.0]
    assert cmdp.margins.tolist() == [[-0.5, 0.5]]
    assert cmdp.initial.tolist() == [1.0, 0.0]
    assert cmdp.state_labels == ("on", "off")


def test_pairs_in_any_order_and_states_in_the_listed_one(tmp_path):
    text = MACHINE.replace("discount = 0.5", 'discount = 0.5\nstates = ["off", "on"]\nactions = ["wait", "run", "fly"]')
    extra = '[[pair]]\nstate = "off"\naction = "run"\nnext = "off"\n'
    (tmp_path / "model.toml").write_text(text + extra)
    cmdp = load(tmp_path / "model.toml")
    assert cmdp.state_labels == ("off", "on")
    assert cmdp.offsets.tolist() == [0, 2, 3]
    assert cmdp.actions.tolist() == [0, 1, 1]
    assert cmdp.transition.toarray().tolist() == [[0.0, 1.0], [1.0, 0.0], [0.25, 0.75]]
    assert cmdp.pairs.n_actions == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("discount = 0.5", "discount = ", r"is not valid TOML: .*line 2"),
        ("discount = 0.5", "", "the criterion must be exactly one of discount, horizon and average, found {}"),
        ("discount = 0.5", "discount = 0.5\naverage = true", "must be exactly one of discount, horizon and average"),
        ("discount = 0.5", "horizon = 3\naverage = true", "must be exactly one of discount, horizon and average"),
        ("discount = 0.5", "average = false", "average must be true, or left out, found False"),
        ("discount = 0.5", "average = 1", "average must be true, or left out, found 1"),
        ("discount = 0.5", "horizon = 0", "horizon must be a whole number in 1..100,000, found 0"),
        ("discount = 0.5", "horizon = 3.0", "horizon must be a whole number in 1..100,000, found 3.0"),
        ("discount = 0.5", "horizon = true", "horizon must be a whole number in 1..100,000, found True"),
        ("discount = 0.5", f"horizon = 1{'0' * 30}", "horizon must be a whole number in 1..100,000, found 1"),
        (
            "discount = 0.5",
            "discount = 1",
            r"discount must be in \[0, 1\), found 1; for long-run averages, write average = true instead",
        ),
        ("discount = 0.5", "discount = nan", r"discount must be in \[0, 1\)"),
        ("discount = 0.5", "discount = true", "discount must be a number.* found True"),
        ("discount = 0.5", f"discount = 1{'0' * 400}", "discount is too large for a double"),
        ("discount = 0.5", f"discount = {'9' * 5000}", "is not valid TOML"),
        ("discount = 0.5", f"discount = 0.5\nversion = 0x{'f' * 5000}", "format version a very long int"),
        ("discount = 0.5", "discount = 0.5\nversion = 2", "format version 2; this version of inbounds reads 1"),
        ("discount = 0.5", "discount = 0.5\nversion = 1.0", "format version 1.0; this version of inbounds reads 1"),
        ("discount = 0.5", 'discount = 0.5\nkind = "episodic"', "kind 'episodic'"),
        ("discount = 0.5", "discount = 0.5\ngamma = 0.5", "the file has the unknown entry 'gamma'; there are: kind"),
        ("discount = 0.5", "discount = 0.5\nname = 3", "name must be text, found 3"),
        ("discount = 0.5", f"discount = 0.5\nname = {'[' * 5000}", "is not TOML that can be read|is not valid TOML"),
        ("discount = 0.5", "discount = 0.5\nstates = 2", "states = 2 is for states that are called 0.*called 'on'"),
        ("discount = 0.5", "discount = 0.5\nactions = 2", "actions = 2 is for actions .* called 'run': list their"),
        ("discount = 0.5", 'discount = 0.5\nstates = ["on"]', "'off' is not one of the states"),
        ("discount = 0.5", 'discount = 0.5\nstates = ["on", "off", "x"]', "there are 3 states, but only 2 pairs"),
        ("discount = 0.5", 'discount = 0.5\nstates = ["on", "on"]', "states has 'on' twice"),
        ("discount = 0.5", "discount = 0.5\nstates = [1, true]", "the states 1 and true are read as the same"),
        ("discount = 0.5", 'discount = 0.5\nstates = "on"', "states must be a list of labels or how many"),
        ("discount = 0.5", "discount = 0.5\nstates = [1979-05-27]", "states, entry 1 has the label datetime.date"),
        ("discount = 0.5", 'discount = 0.5\nactions = ["run"]', "state 'off', action 'wait': 'wait' is not one of"),
        ('initial = "on"', 'initial = "of"', "initial: 'of' is not one of the states of the file"),
        ('initial = "on"', "initial = { on = 0.5 }", "initial must sum to 1, found 0.5"),
        ('initial = "on"', "initial = {}", "initial must sum to 1, found 0"),
        ('initial = "on"', "initial = { 0.5 = 1 }", "initial: the probability of '0' must be.*must stand in quotes"),
        ('initial = "on"', 'start = "on"', "the file has the unknown entry 'start'; there are: .*initial"),
        ("at_most = 0.5", "", "constraint 'energy' needs a name, and exactly one of at_least and at_most"),
        ("at_most = 0.5", "at_most = 0.5\nat_least = 0", "exactly one of at_least and at_most"),
        ("at_most = 0.5", "at_most = inf", "constraint 'energy' has the bound inf"),
        ("at_most = 0.5", 'at_most = "half"', "constraint 'energy': at_most must be a number"),
        ("at_most = 0.5", "atmost = 0.5", "constraint 1 has the unknown entry 'atmost'; there are: name, at_least"),
        ('name = "energy"', "", "constraint 1 has no 'name'"),
        ('name = "energy"', "name = 1", "the name of constraint 1 must be text"),
        ('name = "energy"', 'name = ""', "constraint '' needs a name"),
        ('name = "energy"', 'name = "power"', "state 'on', action 'run': signals has the unknown entry 'energy'"),
        ("[[constraint]]", "[constraint]", r"constraint must be given as \[\[constraint\]\]"),
        ('state = "off"', "", "pair 2 has no 'state'"),
        ('state = "off"', 'state = "on"', "next: 'off' is not one of the states of the file"),
        ('state = "off"\naction = "wait"', 'state = "on"\naction = "run"', "state 'on', action 'run' is given twice"),
        ('action = "wait"', "", "pair 2 has no 'action'"),
        ('action = "wait"', "action = nan", "pair 2: the action has the label nan"),
        (
            'action = "wait"',
            "action = { a = 1 }",
            "pair 2: the action has the label {'a': 1} of type dict; .* text, a number, true or false, or a list of",
        ),
        ('next = "on"', "", "state 'off', action 'wait' has no 'next'"),
        ('next = "on"', 'next = "of"', "state 'off', action 'wait': next: 'of' is not one of the states"),
        ('next = "on"', "nxt = 1", "pair 2 has the unknown entry 'nxt'"),
        (
            'next = "on"',
            'next = "on"\nhorizon = 3',
            r"pair 2 has the entry 'horizon'.*above the first \[\[constraint\]\]",
        ),
        ("at_most = 0.5", "at_most = 0.5\ninitial = 1", "constraint 1 has the entry 'initial', which is of the whole"),
        (
            'next = "on"',
            "next = { on = 0.5, off = 0.4 }",
            "state 'off', action 'wait': the probabilities .* sum to 0.9",
        ),
        ('next = "on"', "next = { on = 1.5, off = -0.5 }", "the probability of moving to state 'off' is -0.5"),
        ('next = "on"', "next = { on = nan }", "the probability of moving to state 'on' is nan"),
        ('next = "on"', "next = { on = 0.5, on = 0.5 }", "is not valid TOML: .*line"),
        ('next = "on"', "next = { on.x = 1 }", "the probability of 'on' must be a number.*must stand in quotes"),
        ('next = "on"', 'next = { on = "1/0" }', "the probability of 'on' must be a number"),
        ("reward = 1", 'reward = "much"', "state 'on', action 'run': the reward must be a number"),
        ("reward = 1", "reward = inf", "state 'on', action 'run': the reward is inf; it must be finite"),
        ("energy = 1 }", "energy = false }", "state 'on', action 'run': the signal of 'energy' must be a number"),
        (
            "{ energy = 1 }",
            "{ energy.b = 1 }",
            "the signal of 'energy' must be a number.*name with a dot must stand in q",
        ),
        ("{ energy = 1 }", "{ a.b = 1 }", "the signal of 'a' must be a number.*a name with a dot must stand in quotes"),
        ("signals = { energy = 1 }", "signals = 1", "state 'on', action 'run': signals must be a table"),
        ("[[pair]]", "[[pear]]", "the file has the unknown entry 'pear'"),
        ("[[pair]]", "[pair]", r"is not valid TOML: .* twice .*; each pair begins with \[\[pair\]\], in two"),
    ],
)
def test_toml_with_a_wrong_entry(old, new, message, tmp_path):
    assert old in MACHINE
    path = tmp_path / "model.toml"
    path.write_text(MACHINE.replace(old, new), encoding="utf-8")
    assert re.search(message, refusal(path))


@pytest.mark.parametrize(
    ("initial", "state", "action", "next_state", "message"),
    [
        ("1", "1", "'x'", "true", "the states 1 and true are read as the same: if they are one, write it in one way"),
        ("1.0", "1", "'x'", "1", "the states 1 and 1.0 are read as the same.*if they are two, write them as text, in"),
        ("1", "1", "'x'", "{ '1.0' = 1 }", "the states 1 and 1.0 are read as the same"),
        ("0.0", "-0.0", "'x'", "0.0", "the states -0.0 and 0.0 are read as the same"),
        (
            "[1, 'a']",
            "[true, 'a']",
            "'x'",
            "[1, 'a']",
            r"the states \[true, \"a\"\] and \[1, \"a\"\] are read as the same",
        ),
        ("2", "1", "true", "2", "the actions true and 1 are read as the same"),
    ],
)
def test_labels_that_python_takes_for_one_are_refused(initial, state, action, next_state, message, tmp_path):
    path = tmp_path / "model.toml"
    other = "[[pair]]\nstate = 2\naction = 1\nnext = 2\n"
    path.write_text(
        f"discount = 0.5\ninitial = {initial}\n"
        f"[[pair]]\nstate = {state}\naction = {action}\nnext = {next_state}\n{other}"
    )
    assert re.search(message, refusal(path))


def test_labels_in_quotes_are_as_many_as_they_look(tmp_path):
    path = tmp_path / "model.toml"
    path.write_text(
        'discount = 0.9\ninitial = 1\n[[pair]]\nstate = 1\naction = "x"\nnext = "1.0"\n'
        '[[pair]]\nstate = "1.0"\naction = "x"\nnext = { 1 = 1 }\n'
    )
    assert load(path).state_labels == (1, "1.0")


def test_toml_with_other_mistakes(tmp_path, monkeypatch):
    path = tmp_path / "model.toml"
    for text, message in (
        ("pair = []\ndiscount = 0.5\ninitial = 0", "there are no pairs"),
        ("pair = [1]\ndiscount = 0.5\ninitial = 0", r"pair must be given as \[\[pair\]\]"),
    ):
        path.write_text(text)
        assert re.search(message, refusal(path))
    path.write_bytes(b"name = '\xff'")
    assert "not text in UTF-8" in refusal(path)
    monkeypatch.setattr(toml, "LARGEST", 100)
    path.write_text(MACHINE)
    assert "TOML is for small models" in refusal(path)
    with pytest.raises(ib.InvalidInput, match="TOML is for small models"):
        small_model().save(path)


def test_numbers_claimed_in_toml_reserve_no_memory(tmp_path):
    path = tmp_path / "model.toml"
    most = 2**62
    pair = "[[pair]]\nstate = {state}\naction = {action}\nnext = 0\n"
    path.write_text(f"discount = 0\ninitial = 0\nstates = {most + 1}\n" + pair.format(state=most, action=0))
    assert "states, but only 1 pairs" in refusal(path)
    path.write_text(f"discount = 0\ninitial = 0\nactions = {most + 1}\n" + pair.format(state=0, action=most))
    assert load(path).actions.tolist() == [most]
    most = 10**30
    path.write_text(f"discount = 0\ninitial = 0\nactions = {most + 1}\n" + pair.format(state=0, action=most))
    assert "there may be at most 9,223,372,036,854,775,807 without labels" in refusal(path)


STAGES = """
horizon = 2
initial = "on"

[[constraint]]
name = "energy"
at_most = 1

[[pair]]
state = "on"
action = "run"
stage = 1
reward = 2
signals = { energy = 1 }
next = { off = 1 }

[[pair]]
state = "off"
action = "wait"
next = "on"

[[pair]]
state = "on"
action = "run"
stage = 0
reward = 1
next = { on = 0.75, off = "1/4" }
"""


def test_stages_written_by_hand(tmp_path):
    path = tmp_path / "model.toml"
    path.write_text(STAGES)
    fields = read_model(path)
    assert [stage.toarray().tolist() for stage in fields["transition"]] == [[[0.75, 0.25], [1, 0]], [[0, 1], [1, 0]]]
    assert fields["reward"].tolist() == [[1.0, 0.0], [2.0, 0.0]]
    assert fields["constraints"] == [
        {"name": "energy", "at_most": 1.0, "signal": pytest.approx(np.array([[0, 0], [1, 0]]))}
    ]
    assert fields["state_labels"] == ("on", "off") and fields["horizon"] == 2
    path.write_text(STAGES.replace('{ on = 0.75, off = "1/4" }', "{ off = 1 }"))  # then only the numbers differ
    assert read_model(path)["transition"].toarray().tolist() == [[0, 1], [1, 0]]
    path.write_text(STAGES.replace("stage = 1\n", "").replace(STAGES[STAGES.rindex("[[pair]]") :], ""))
    assert read_model(path)["reward"].tolist() == [2.0, 0.0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("horizon = 2", "discount = 0.5", "state 'on', action 'run': a stage needs a horizon, and the file has none"),
        ("horizon = 2", "average = true", "state 'on', action 'run': a stage needs a horizon"),
        ("stage = 1", "stage = 2", r"state 'on', action 'run': stage must be a whole number in 0\.\.1, found 2"),
        ("stage = 1", "stage = -1", r"stage must be a whole number in 0\.\.1, found -1"),
        ("stage = 1", "stage = 1.0", r"stage must be a whole number in 0\.\.1, found 1\.0"),
        ("stage = 1", "stage = true", r"stage must be a whole number in 0\.\.1, found True"),
        ("stage = 1", 'stage = "1"', r"stage must be a whole number in 0\.\.1, found '1'"),
        ("stage = 1", "stage = 0", "state 'on', action 'run', stage 0 is given twice"),
        ("stage = 1\n", "", "state 'on', action 'run' is given both with and without a stage; give it once without"),
        (
            "horizon = 2",
            "horizon = 3",
            "'run', stage 1 is given, but not stage 2; give it once .* each of the 3 stages",
        ),
        ("reward = 2", 'reward = "much"', "state 'on', action 'run', stage 1: the reward must be a number"),
        ('"1/4" }', '"1/4", x = 0 }', "state 'on', action 'run', stage 0: next: 'x' is not one of the states"),
        ("next = { off = 1 }", "", "state 'on', action 'run', stage 1 has no 'next'"),
    ],
)
def test_toml_with_a_wrong_stage(old, new, message, tmp_path):
    assert old in STAGES
    path = tmp_path / "model.toml"
    path.write_text(STAGES.replace(old, new), encoding="utf-8")
    with pytest.raises(ib.InvalidInput, match=message) as caught:
        read_model(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_stages_in_toml_reserve_no_memory(tmp_path, monkeypatch):
    """A pair that is given once counts for each stage, once another is given for each."""
    path = tmp_path / "model.toml"
    many = "".join(f"[[pair]]\nstate = {state}\naction = 0\nnext = 0\n" for state in range(1, 3000))
    staged = "".join(f"[[pair]]\nstate = 0\naction = 0\nstage = {h}\nreward = {h}\nnext = 0\n" for h in range(3000))
    path.write_text(f"horizon = 3000\ninitial = 0\n{many}{staged}")
    with pytest.raises(ib.InvalidInput, match="TOML is for small models; 3,000 stages of 3,000 pairs"):
        read_model(path)
    path.write_text(f"horizon = {LONGEST}\ninitial = 0\n{many}[[pair]]\nstate = 0\naction = 0\nnext = 0\n")
    assert read_model(path)["reward"].shape == (3000,)
    monkeypatch.setattr(toml, "MOST", 20)
    with pytest.raises(ib.InvalidInput, match="TOML is for small models; 3 stages of 3 pairs"):
        write_model(timed_model(), path)


# --- fuzz: thousands of damaged files give a message or a model, nothing else ---


def damaged(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """`content` truncated, with bits flipped, bytes replaced, a piece removed or repeated, or spliced with `other`."""
    result = bytearray(content)
    kind = rng.randrange(6)
    position = rng.randrange(len(result))
    if kind == 0:
        return bytes(result[:position])
    if kind == 1:
        for _ in range(rng.choice((1, 1, 2, 8))):
            result[rng.randrange(len(result))] ^= 1 << rng.randrange(8)
    elif kind == 2:
        width = rng.choice((1, 2, 4, 8))
        result[position : position + width] = rng.choice((b"\xff", b"\x00", b"\x7f", b"9", b"-")) * width
    elif kind == 3:
        del result[position : position + rng.randrange(1, 40)]
    elif kind == 4:
        piece = result[position : position + rng.randrange(1, 40)]
        result[position:position] = piece
    else:
        result[position:] = other[rng.randrange(len(other)) :]
    return bytes(result)


def loads_or_is_refused(path) -> bool:
    try:
        cmdp = load(path)
    except ib.InvalidInput as error:
        assert str(error).startswith(f"{path}: ")
        return False
    assert_same(cmdp, replace(cmdp))  # which validates it once more
    return True


def test_damaged_npz_files(tmp_path):
    rng = random.Random(1)
    path = tmp_path / "fuzz.npz"
    contents = []
    for cmdp in (small_model(), ib.zoo.garnet(states=4, actions=2, successors=2, seed=3)):
        cmdp.save(path)
        contents.append(path.read_bytes())
    loaded = 0
    for _ in range(1500):
        one, other = rng.sample(contents, 2)
        path.write_bytes(damaged(one, other, rng))
        loaded += loads_or_is_refused(path)
    assert loaded < 500  # most damage is noticed; what is not sits in unused bytes of the zip


def test_hostile_npz_files_with_the_right_checksums(tmp_path):
    rng = random.Random(2)
    path = tmp_path / "fuzz.npz"
    contents = [members_of(small_model()), members_of(ib.zoo.garnet(states=4, actions=2, successors=2, seed=3))]
    loaded = 0
    for _ in range(1500):
        one, other = rng.sample(contents, 2)
        name = rng.choice(list(one))
        changed = rng.choice((damaged(one[name], other[name], rng), other[name], one[rng.choice(list(one))]))
        zipped(path, one | {name: changed})
        loaded += loads_or_is_refused(path)
    assert 0 < loaded < 1200  # a changed reward is still a reward


def test_damaged_files_of_horizons_and_averages(tmp_path):
    rng = random.Random(4)
    contents = [
        members_of(timed_model(3)),
        members_of(timed_model(2, staged=("reward",))),
        members_of(averaged_model()),
    ]
    for _ in range(1000):
        one, other = rng.sample(contents, 2)
        name = rng.choice(list(one))
        changed = rng.choice((damaged(one[name], other[name], rng), other[name], one[rng.choice(list(one))]))
        path = zipped(tmp_path / "fuzz.npz", one | {name: changed})
        with contextlib.suppress(ib.InvalidInput), np.errstate(all="ignore"):
            made(read_model(path))
    write_model(timed_model(3), path := tmp_path / "fuzz.toml")
    texts = [STAGES.encode(), path.read_bytes(), MACHINE.encode()]
    for _ in range(1000):
        path.write_bytes(damaged(*rng.sample(texts, 2), rng))
        with contextlib.suppress(ib.InvalidInput):
            made(read_model(path))


def test_damaged_toml_files(tmp_path):
    rng = random.Random(3)
    path = tmp_path / "fuzz.toml"
    small_model(state_labels=((1, "x"), 2.5)).save(path)
    contents = [MACHINE.encode(), path.read_bytes(), (ROOT / "examples" / "machine.toml").read_bytes()]
    loaded = 0
    for _ in range(3000):
        one, other = rng.sample(contents, 2)
        path.write_bytes(damaged(one, other, rng))
        loaded += loads_or_is_refused(path)
    assert 0 < loaded < 1500
