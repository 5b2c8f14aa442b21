"""Files that commands are told to write: refused before any work, and never in the place of something else."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

import inbounds as ib
from inbounds.cli import main, printing
from inbounds.proofs.files import load_certificate, save_certificate
from inbounds.studies.journal import Journal
from messages import one_message, sentence


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """No command may begin to work."""

    def works(*arguments: object, **options: object) -> None:
        raise AssertionError("a file that cannot be written was noticed too late")

    for name in ("solve", "learn", "learn_certified", "frontier", "surface"):
        monkeypatch.setattr(ib, name, works)
    monkeypatch.setattr("inbounds.reporting.solve", works)
    monkeypatch.setattr("inbounds.studies.reproduction.reproduce_queue", works)
    monkeypatch.setattr("inbounds.studies.theorems.study_theorems", works)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("solve", "queue", "--save-policy", "best.txt"), "best.txt: the suffix '.txt' is not a policy format"),
        (("solve", "queue", "--save-policy", "no/best.json"), "no/best.json: cannot be written: no such file"),
        (("solve", "queue", "--certificate", "file/best.json"), "cannot be written: not a directory"),
        (("solve", "queue", "--save-policy", "pipe.json"), "pipe.json: cannot be written: is not a regular file"),
        (("learn", "queue", "--save-policy", "best.toml"), "the suffix '.toml' is not a policy format"),
        (("learn", "queue", "--certified", "--save-policy", "no/best.csv"), "no such file or directory"),
        (("learn", "queue", "--certified", "--mixture", "--save-policy", "a.csv"), "'.csv' is not a mixture format"),
        (("report", "queue", "--output", "no/page.html"), "no/page.html: cannot be written: no such file"),
        (("report", "queue", "--output", "pipe.html", "--beside"), "pipe.html: cannot be written: is not a regular"),
        (("report", "queue", "--output", "x" * 250 + ".html", "--beside"), "cannot be written: file name too long"),
        (
            ("frontier", "queue", "--constraint", "0", "--output", "file/x"),
            "file/x: cannot be written: not a directory",
        ),
        (("reproduce", "queue", "--output", "file/x"), "file/x: cannot be written: not a directory"),
        (("theorems", "--output", "file/x"), "file/x: cannot be written: not a directory"),
        (("compare", "queue", "--output", "file/x"), "file/x: cannot be written: not a directory"),
        (
            ("solve", "queue", "--save-policy", "a.json", "--certificate", "./a.json"),
            "name the same file, a.json; give",
        ),
        (
            ("solve", "model.npz", "--save-policy", "model.npz"),
            "--save-policy would overwrite model.npz, which is read",
        ),
        (("solve", "model.toml", "--certificate", "link.json"), "--certificate would overwrite model.toml, which is"),
        (
            ("learn", "queue", "--safe", "rule.json", "--save-policy", "rule.json"),
            "would overwrite rule.json, which is",
        ),
        (("report", "queue", "--output", "page.html", "--beside", "--policy", "page-policy.json"), "the other policy"),
        (("solve", "line\nfeed.toml"), r"line\nfeed.toml: cannot be read: no such file or directory"),
    ],
)
@pytest.mark.skipif(os.name != "posix", reason="pipes and links of POSIX systems")
@pytest.mark.usefixtures("idle")
def test_what_cannot_be_written_is_refused_before_any_work(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    queue = ib.zoo.queue()
    queue.save("model.npz")
    queue.save("model.toml")
    Path("link.json").symlink_to("model.toml")
    for name in ("rule.json", "page-policy.json", "pipe-policy.json"):
        ib.Policy.uniform(queue).save(name)
    Path("page.html").write_text("Beside this page are")
    Path("file").write_text("in the way")
    os.mkfifo("pipe.json")
    os.mkfifo("pipe.html")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    result = run(*arguments)
    assert result.exit_code == 2, result.exception
    assert message in sentence(result.stderr) and one_message(result.stderr)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("solve", "queue", "--certificate"),
        ("solve", "queue", "--save-policy"),
        ("solve", "queue", "--save-model"),
        ("learn", "queue", "--save-policy"),
        ("learn", "media", "--algorithm", "dope", "--safe"),
        ("compare", "queue", "--output"),
        ("frontier", "queue", "--constraint", "0", "--output"),
        ("reproduce", "queue", "--output"),
        ("report", "queue", "--output"),
        ("report", "queue", "--policy"),
        ("theorems", "--output"),
    ],
)
@pytest.mark.usefixtures("idle")
def test_a_path_of_an_empty_variable_is_refused_by_the_name_of_its_option(arguments: tuple[str, ...]) -> None:
    result = run(*arguments, "")
    assert result.exit_code == 2
    assert f"Invalid value for '{arguments[-1]}': the name is empty; give one, or leave it out." in result.stderr


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="a system without /dev/stdout")
def test_what_is_printed_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    with open(tmp_path / "printed", "wb") as printed:
        command = [sys.executable, "-m", "inbounds", "solve", "queue", "--certificate", "/dev/stdout"]
        done = subprocess.run(command, stdout=printed, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and "into which the command itself prints; give another" in sentence(done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["printed"]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX systems")
def test_a_file_that_may_not_be_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept.json"
    path.write_text("kept")
    path.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda path, mode: bool(os.stat(path).st_mode & 0o200))  # to root all is open
    with pytest.raises(ib.InvalidInput, match=r"kept\.json: cannot be written: permission denied"):
        ib.Policy.uniform(ib.zoo.queue()).save(path)
    assert path.read_text() == "kept"


def test_suffixes_are_known_in_capitals_too(tmp_path: Path) -> None:
    ib.zoo.queue().save(tmp_path / "Q.TOML")
    assert run("solve", str(tmp_path / "Q.TOML")).exit_code == 0


def test_verify_says_that_the_model_comes_first(tmp_path: Path) -> None:
    model, proof = str(tmp_path / "m.npz"), str(tmp_path / "c.json")
    assert run("solve", "queue", "--save-model", model, "--certificate", proof).exit_code == 0
    first, missing = "takes the model first", "needs the certificate as well"
    for files, what in (((proof, model), first), ((model,), missing), ((model, model), first)):
        result = run("verify", *files)
        assert result.exit_code == 2
        assert "m.npz: is an .npz file, where the certificate should be" in sentence(result.stderr)
        assert f"inbounds verify MODEL CERTIFICATE {what}" in sentence(result.stderr)


def test_a_key_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    queue = ib.zoo.queue()
    ib.Policy.uniform(queue).save(tmp_path / "p.json")
    text = (tmp_path / "p.json").read_text()
    (tmp_path / "p.json").write_text(text.replace('"version"', '"version": 1, "version"', 1))
    with pytest.raises(
        ib.InvalidInput, match=r"p\.json: is not JSON text in UTF-8 \(the key 'version' is there twice\)"
    ):
        ib.Policy.load(tmp_path / "p.json")
    queue.save(tmp_path / "q.npz")
    with np.load(tmp_path / "q.npz") as members:
        arrays = dict(members)
    text = arrays["header"].tobytes().replace(b'"name": "queue"', b'"name": "queue", "name": "other"')
    np.savez(tmp_path / "twice.npz", **arrays | {"header": np.frombuffer(text, dtype=np.uint8)})
    with pytest.raises(ib.InvalidInput, match=r"twice\.npz: the header .* \(the key 'name' is there twice\)"):
        ib.load(tmp_path / "twice.npz")
    save_certificate(ib.certify(ib.Policy.uniform(queue), queue), tmp_path / "c.json")
    head = (
        (tmp_path / "c.json")
        .read_bytes()[:-68]
        .replace(b'"seal"', b'"margins_lower": ["0x0.0p+0", "0x0.0p+0"],\n"seal"')
    )
    (tmp_path / "c.json").write_bytes(head + hashlib.sha256(head).hexdigest().encode() + b'"\n}\n')
    with pytest.raises(ib.InvalidInput, match=r"c\.json: .* \(the key 'margins_lower' is there twice\)"):
        load_certificate(tmp_path / "c.json")
    Journal(tmp_path / "runs.jsonl").add("a", {"reward": 0.5})
    line = (tmp_path / "runs.jsonl").read_bytes().replace(b'"reward"', b'"reward": 0.9, "reward"')
    (tmp_path / "runs.jsonl").write_bytes(line)
    assert Journal(tmp_path / "runs.jsonl").get("a") is None  # what is damaged is passed over


@pytest.mark.parametrize(
    ("environment", "arguments"),
    [
        ({"MPLBACKEND": "nosuch"}, ("frontier", "queue", "--constraint", "0", "--bounds", "0")),
        ({"NUMBA_DISABLE_JIT": "1"}, ("solve", "queue")),
        ({"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1"}, ("solve", "queue")),
        ({"COLUMNS": "x", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONOPTIMIZE": "2"}, ("algorithms", "cspda")),
    ],
)
def test_an_odd_environment_changes_nothing(environment, arguments, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "inbounds", *arguments]
    done = subprocess.run(command, env={**os.environ, **environment}, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and "\x1b" not in done.stdout


def test_a_file_too_large_for_the_memory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> bytes:
        raise MemoryError

    ib.Policy.uniform(ib.zoo.queue()).save(tmp_path / "p.json")
    monkeypatch.setattr(Path, "read_bytes", full)
    result = run("report", "queue", "--points", "0", "--policy", str(tmp_path / "p.json"))
    assert result.exit_code == 2
    assert "p.json: cannot be read: there is not enough memory" in sentence(result.stderr)


@pytest.mark.skipif(os.name != "posix", reason="elsewhere the current folder cannot be deleted")
def test_a_current_folder_that_is_gone_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    script = f"cd {tmp_path}/gone && rmdir ../gone && {sys.executable} -m inbounds zoo"
    done = subprocess.run(script, shell=True, capture_output=True, text=True)
    assert done.returncode == 2
    assert sentence(done.stderr) == "inbounds: the current folder is gone: change to one that is there"


@pytest.mark.parametrize("name", ["", "named"])
@pytest.mark.parametrize("suffix", [".npz", ".toml"])
def test_a_certificate_is_about_the_model_in_the_file_whatever_the_file_is_called(name, suffix, tmp_path: Path) -> None:
    """By the file's own name a model without one is called in titles, and nowhere in what is hashed."""
    model, proof, copy, binary = (str(tmp_path / file) for file in (f"u{suffix}", "u.json", "copy.npz", "binary.npz"))
    replace(ib.zoo.queue(), name=name).save(model)
    ib.load(model).save(binary)  # as the checker says to do, of a .toml
    assert run("solve", model, "--certificate", proof, "--save-model", copy).exit_code == 0
    for checked in (copy, binary, *([model] if suffix == ".npz" else [])):
        accepted = run("verify", checked, proof)
        assert (accepted.exit_code, accepted.output[:9]) == (0, "ACCEPTED:")
    moved = ("--bound", "service=0.1", "--certificate", proof, "--save-model", copy)
    assert run("solve", model, *moved).exit_code == 0 and run("verify", copy, proof).exit_code == 0
    page, *beside = (tmp_path / f"page{end}" for end in (".html", "-model.npz", "-certificate.json"))
    assert run("report", model, "--points", "0", "--output", str(page), "--beside").exit_code == 0
    assert run("verify", *map(str, beside)).exit_code == 0
    assert beside[0].read_bytes() == Path(binary).read_bytes()
    assert f"<h1>{name or 'u'}</h1>" in page.read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ("solve",),
        ("solve", "--bound", "service=2"),  # which no policy keeps
        ("frontier", "--constraint", "service", "--bounds", "0", "--output", "out"),
        ("report", "--points", "0", "--output", "page.html"),
        ("learn", "--samples", "1000"),
        ("compare", "--samples", "1000", "--seeds", "1", "--jobs", "1", "--algorithm", "cspda", "--output", "out"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_json_calls_a_model_without_a_name_as_its_file(arguments, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("", "named"):
        replace(ib.zoo.queue(), name=name).save("u.npz")
        told = json.loads(run(arguments[0], "u.npz", *arguments[1:], "--json").stdout)
        assert told["problem"]["name"] == (name or "u")


def test_runs_of_a_model_without_a_name_are_found_again_whatever_its_file_is_called(tmp_path: Path) -> None:
    model, output = tmp_path / "u.npz", tmp_path / "out"
    replace(ib.zoo.queue(), name="").save(model)
    options = ("--samples", "2000", "--seeds", "1", "--jobs", "1", "--algorithm", "cspda", "--output", str(output))
    assert run("compare", str(model), *options).exit_code == 0
    again = run("compare", str(model.rename(tmp_path / "v.npz")), *options)
    assert "not run again: 1" in again.output and "v:" in (output / "comparison.svg").read_text()


def test_a_terminal_is_told_that_a_large_model_is_read(tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.setattr(printing, "_watched", lambda: True)
    monkeypatch.setattr(printing, "_LARGE", 1)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    path = tmp_path / "x[red]y.npz"
    ib.zoo.queue().save(path)
    with printing.reading_status(path):
        pass
    assert "reading x[red]y.npz" in capfd.readouterr().err


def test_a_certificate_without_its_model_is_not_rejected(tmp_path: Path) -> None:
    """Nothing was checked: an argument is missing."""
    certificate, model = tmp_path / "c.json", tmp_path / "m.npz"
    assert run("solve", "queue", "--certificate", str(certificate), "--save-model", str(model)).exit_code == 0
    alone = run("verify", str(certificate))
    assert alone.exit_code == 2 and "it is about a model: give that first" in sentence(alone.stderr)
    assert run("verify", str(model), str(certificate)).exit_code == 0


@pytest.mark.slow
def test_solve_says_how_to_get_the_file_that_verify_takes(tmp_path: Path) -> None:
    """The same numbers in other bytes are no file to check with, nor is a name, a .toml, or one with another bound."""
    ours, theirs, text, copy = (tmp_path / file for file in ("ours.npz", "theirs.npz", "text.toml", "copy.npz"))
    ib.zoo.queue().save(ours)
    ib.zoo.queue().save(text)
    with np.load(ours) as members:
        np.savez(theirs, **members)
    proof, said = str(tmp_path / "c.json"), "To check the certificate, solve with --save-model FILE.npz too"
    for problem in ("queue", str(theirs), str(text), str(ours)):
        for bound in ("service=0", "service=0.1", "service=9"):  # the present one, another, and one that none keeps
            moved = ("--bound", bound) if bound != "service=0" else ()
            solved = run("solve", problem, "--certificate", proof, *moved)
            assert solved.exit_code == (3 if bound == "service=9" else 0)
            assert (said in sentence(solved.stdout)) == (bool(moved) or problem != str(ours))
            again = run("solve", problem, "--certificate", proof, *moved, "--save-model", str(copy))
            assert said not in sentence(again.stdout) and run("verify", str(copy), proof).exit_code == 0
    assert said in sentence(run("solve", str(theirs), "--certificate", proof, "--save-model", str(text)).stdout)
    assert said not in sentence(run("solve", str(theirs)).stdout)
    json.loads(run("solve", str(theirs), "--certificate", proof, "--json").stdout)
    refused = run("verify", str(theirs), proof)
    assert refused.exit_code == 1 and "write it anew, with --save-model" in sentence(refused.stdout)


LONG = "a long name " * 8
"""What has to go on in the next line."""


@pytest.fixture
def verbose(tmp_path: Path) -> str:
    """A model in a file; its own name, and those of its constraints, are long."""
    queue = ib.zoo.queue()
    named = [replace(one, name=f"{LONG}{one.name}") for one in queue.constraints]
    replace(queue, name=f"{LONG}{queue.name}", constraints=named).save(tmp_path / "model.npz")
    return str(tmp_path / "model.npz")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("solve", "--save-model", "copy.npz", "--certificate", "c.json"),
        ("frontier", "--constraint", "0", "--points", "3", "--output", "out"),
        ("frontier", "--constraint", "0", "--constraint", "1", "--points", "2", "--output", "out"),
        ("learn", "--samples", "1000"),
        ("learn", "--certified", "--samples", "3000"),
        ("compare", "--samples", "1000", "--seeds", "1", "--jobs", "1", "--algorithm", "cspda", "--output", "out"),
    ],
    ids=" ".join,
)
def test_lines_fit_however_long_the_names_are(arguments, verbose: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(arguments[0], verbose, *arguments[1:])
    shown = [line for line in done.stdout.splitlines() if str(tmp_path) not in line]
    assert done.exit_code in (0, 4) and max(map(len, shown)) <= 80
    assert sentence(done.stdout).startswith(sentence(f"CMDP({LONG}queue: 6 states"))


def test_what_verify_says_fits_too(verbose: str, tmp_path: Path) -> None:
    proof = str(tmp_path / "c.json")
    assert run("solve", verbose, "--certificate", proof).exit_code == 0
    accepted = run("verify", verbose, proof)
    assert accepted.exit_code == 0 and max(map(len, accepted.output.splitlines())) <= 80
    assert f"the margin of '{LONG}service' is >= " in sentence(accepted.output)


def test_no_table_is_filled_as_if_it_were_prose(tmp_path: Path, monkeypatch) -> None:
    """Not where a name is as long as a line, nor on a terminal that is narrower than the table."""
    queue = ib.zoo.queue()
    for name, width in ((79 * "a", 80), (40 * "名", 80), ("service", 40)):
        named = [replace(one, name=name) if one.name == "service" else one for one in queue.constraints]
        model = replace(queue, constraints=named)
        model.save(tmp_path / "m.npz")
        assert max(map(cell_len, run("solve", str(tmp_path / "m.npz")).stdout.splitlines())) <= 80
        with pytest.raises(ib.Infeasible) as none:
            ib.solve(model.with_bound(0, at_least=9.0))
        monkeypatch.setattr(os, "get_terminal_size", lambda descriptor, width=width: os.terminal_size((width, 24)))
        told = run("solve", str(tmp_path / "m.npz"), "--bound", "0=9")
        table = str(none.value).partition("\n")[2]
        assert told.exit_code == 3 and told.stderr.endswith(f"\n{table}\n")
        assert max(map(cell_len, table.splitlines())) <= 80


def test_no_bound_below_what_can_be_kept(tmp_path: Path) -> None:
    options = ("--constraint", "repairs", "--bounds", "-5", "--output", str(tmp_path))
    nothing = run("frontier", str(Path(__file__).parents[1] / "examples" / "machine.toml"), *options)
    assert nothing.exit_code == 3 and "one does down to 0" in sentence(nothing.stderr)
