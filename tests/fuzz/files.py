"""Malformed files through the command line: models as .npz and .toml, certificates, and journals of finished runs.

Whatever is in a file, a command ends within ten seconds, without a traceback, with an exit code that is documented, and
with one message if the input is wrong. Exit code 1 is for certificates that are rejected, and for nothing else here.
"""

from __future__ import annotations

import json
import random
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from click.testing import CliRunner

import inbounds as ib
from inbounds.cli import main
from inbounds.errors import InvalidInput
from inbounds.studies.journal import Journal, key_of

from . import certificates
from .certificates import damaged, in_place, rezipped, saved_by_numpy, with_wrong_array, with_wrong_header

COUNT = 20_000
SECONDS = 10.0
"""How long a command may take with a file of a few kilobytes."""


def models():
    """Small models with labels, one for each criterion, and one that no policy keeps."""
    rng = np.random.default_rng(0)
    moves, gains = rng.dirichlet(np.ones(3), size=(3, 2)), rng.random((2, 3, 2))
    made = []
    for criterion, bound in (
        ({"discount": 0.9}, 0.7),
        ({"horizon": 3}, 2.1),
        ({"average": True}, 0.7),
        ({"horizon": 1}, -1.0),
    ):
        limit = ib.Constraint(gains[1], at_most=bound, name="limit")
        made.append(
            ib.CMDP.from_dense(moves, reward=gains[0], constraints=[limit], initial=np.ones(3) / 3, **criterion)
        )
    labels = {"state_labels": ("new", "worn", "broken"), "action_labels": ((0, "run"), (1, True))}
    return [ib.CMDP(**fields_of(made[0]) | labels), *made[1:]]


def fields_of(model):
    names = ("offsets", "transition", "reward", "constraints", "initial", "actions", "name")
    return {name: getattr(model, name) for name in names} | model.criterion


ODD = ["nan", "inf", "-inf", "1e400", "1e308", "-1", "0", "true", '"1/3"', '"1/0"', '"x"', "[]", "{}", "[[[]]]", '""']
ODD += ["1979-05-27", "99999999999999999999", "'''a'''", "5e-324", "[1, [2, true]]", "0x10", "1_000", "9" * 5_000]


def rewritten(text, rng):
    """TOML with values, keys or lines exchanged for others."""
    lines = text.split("\n")
    action, where = rng.randrange(7), rng.randrange(len(lines))
    if action == 0:
        values = list(re.finditer(r'-?\d[\d.e+-]*|"[^"]*"|true', text))
        found = rng.choice(values)
        return text[: found.start()] + rng.choice(ODD) + text[found.end() :]
    if action == 1:
        keys = list(re.finditer(r"\w+(?= =)", text))
        found = rng.choice(keys)
        other = rng.choice([rng.choice(keys).group(), "stage", "horizon", "average", '"a b"', "x.y", "é"])
        return text[: found.start()] + other + text[found.end() :]
    if action == 2:
        del lines[where]
    elif action == 3:
        lines.insert(rng.randrange(len(lines)), lines[where])
    elif action == 4:
        lines[where] = lines[where][: rng.randrange(len(lines[where]) + 1)]
    elif action == 5:
        lines.insert(
            where, rng.choice(["horizon = 2", "average = true", "stage = 1", "[[pair]]", "[x]", "states = 3", "\0"])
        )
    else:
        lines.insert(where, rng.choice(["a = " + "[" * 5_000, "a." * 3_000 + "b = 1", "#" * 10_000, "pair = []"]))
    return "\n".join(lines)


def of_npz(content, rng):
    make = rng.choice([damaged, rezipped, with_wrong_header, None, None])
    if make is not None:
        return make(content, rng)
    arrays = with_wrong_array(content, rng)
    return in_place(arrays) if rng.random() < 0.6 else saved_by_numpy(arrays, rng)


def of_toml(content, rng):
    text = content.decode()
    for _ in range(rng.choice([1, 1, 2, 4])):
        text = rewritten(text, rng)
    return damaged(content, rng) if rng.random() < 0.3 else text.encode()


def called(arguments):
    """(exit code, what went wrong or "") of a command."""

    def too_long(*_):
        raise TimeoutError

    started, before = time.monotonic(), signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = CliRunner().invoke(main, arguments)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    if isinstance(result.exception, TimeoutError) or time.monotonic() - started > SECONDS:
        return result.exit_code, "hang"
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        last = traceback.extract_tb(result.exc_info[2])[-1]
        return result.exit_code, f"{type(result.exception).__name__} in {Path(last.filename).name}, line {last.lineno}"
    if result.exit_code not in (0, 1, 2, 3, 4) or (result.exit_code == 1 and arguments[0] != "verify"):
        return result.exit_code, f"exit code {result.exit_code}: {result.stderr[:120]}"
    # Somewhere in it: where TOML nests beyond the stack, Python may complain about a finaliser of its own before.
    if result.exit_code == 2 and not re.search("inbounds: |Usage: ", result.stderr):
        return 2, f"exit code 2 without a message: {result.output[:80]!r}"
    return result.exit_code, ""


def journal_is_read(path, content, genuine):
    """What goes wrong when a damaged journal is read: only runs that were written may come out of it."""
    path.write_bytes(content)
    try:
        book = Journal(path)
    except InvalidInput as refused:  # nothing in it is of a journal any more
        kept = b'"key"' in content or b'"digest"' in content or "is no journal" not in str(refused)
        return "a journal that is refused" if kept or path.read_bytes() != content else ""
    wrong = [key for key, run in book._runs.items() if genuine.get(key) != run]
    book.add("another", {"reward": 1.0})
    return "a run that never was" if wrong or Journal(path).get("another") != {"reward": 1.0} else ""


def run(count, seed, seconds):
    """Damage `count` files, and hand each to a command; what was tried and what went wrong."""
    rng, started = random.Random(seed), time.monotonic()
    tried, failures = Counter(), []
    runs = {key_of(number): {"seed": number, "rewards": [0.1 * number, None], "refusal": ""} for number in range(5)}
    with tempfile.TemporaryDirectory() as name, np.errstate(all="ignore"):
        folder = Path(name)
        for number, model in enumerate(models()):
            for suffix in (".npz", ".toml"):
                model.save(folder / f"{number}{suffix}")
        originals = {path.suffix: [] for path in folder.iterdir()}
        for path in sorted(folder.iterdir()):
            originals[path.suffix].append(path.read_bytes())
        book = Journal(folder / "runs.jsonl")
        for key, judged in runs.items():
            book.add(key, judged)
        journal = (folder / "runs.jsonl").read_bytes()
        (folder / "proof").mkdir()
        proofs = [make(folder / "proof", seed) for make in certificates.MAKERS.values()]
        for path in sorted(folder.glob("[0-9]*")):  # kernels are compiled before the clock runs
            CliRunner().invoke(main, ["solve", str(path)])
        for number in range(count):
            if time.monotonic() - started > seconds:
                break
            kind = (".npz", ".toml", ".npz", ".toml", "certificate", "journal")[number % 6]
            if kind == "journal":
                wrong, code = journal_is_read(folder / "damaged.jsonl", damaged(journal, rng), runs), 0
            elif kind == "certificate":
                files = rng.choice(proofs)
                changed = certificates.changed(files, rng.choice(certificates.WAYS), rng, rng.random() < 0.5)
                for path, content in zip((files.model, files.certificate), changed, strict=True):
                    path.write_bytes(content)
                code, wrong = called(["verify", str(files.model), str(files.certificate)])
            else:
                path = folder / f"damaged{kind}"
                path.write_bytes((of_npz if kind == ".npz" else of_toml)(rng.choice(originals[kind]), rng))
                code, wrong = called(["solve", str(path)])
            tried[f"{kind.removeprefix('.')} exit {code}" if kind != "journal" else kind] += 1
            if wrong:
                failures.append(f"{wrong} ({kind}, seed {seed}, case {number})")
    stopped = "" if tried.total() == count else f"the time was over after {tried.total():,} cases"
    return {"tried": dict(sorted(tried.items())), "failures": failures, "stopped": stopped}


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])), indent=1))
