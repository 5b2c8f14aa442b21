"""The command line as a process: interrupted at any moment, short of memory, on a full disk, its workers killed."""

import html
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

import pytest

from inbounds.formats import atomic
from messages import one_message, sentence

resource = pytest.importorskip("resource")

SCRIPT = "import sys; from inbounds.__main__ import run; sys.argv[0] = 'inbounds'; sys.exit(run())"
"""What an installed script does."""

INTERRUPTED_IMPORT = """
import os, signal, sys
from inbounds.interruption import leave_on_interrupt
class Impatient:
    left = {number}
    def find_spec(self, name, path=None, target=None):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Impatient())
leave_on_interrupt()
"""


def inbounds(*arguments: str, before: str = "", **limits: int) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for name, value in limits.items():
            resource.setrlimit(getattr(resource, name), (value, value))

    command = [sys.executable, "-c", before + SCRIPT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, preexec_fn=limit)


@pytest.mark.parametrize("number", [1, 30, 150, 400, 700])
def test_an_interrupted_import_is_one_line(number: int) -> None:
    ended = inbounds("learn", "queue", "--samples", "1000", before=INTERRUPTED_IMPORT.format(number=number))
    assert (ended.returncode, ended.stderr, ended.stdout) == (130, "inbounds: interrupted\n", "")


def test_an_interrupted_command_is_one_line() -> None:
    pressed = (
        "import os, signal, inbounds.exact.bundle as bundle\n"
        "def solve(*rest): os.kill(os.getpid(), signal.SIGINT)\n"
        "bundle.Bundle.solve = solve\n"
    )
    ended = inbounds("solve", "queue", "--method", "bundle", before=pressed)
    assert ended.returncode == 130 and ended.stdout == ""
    assert ended.stderr.startswith("inbounds: interrupted") and one_message(ended.stderr)


def test_too_little_memory_for_the_libraries_is_said() -> None:
    ended = inbounds("solve", "queue", RLIMIT_AS=200 * 2**20)
    assert ended.returncode == 2 and "limited to 200 MB" in ended.stderr and one_message(ended.stderr)


def test_a_problem_too_large_for_the_memory_is_said() -> None:
    ended = inbounds("solve", "garnet", "--set", "states=1000000", RLIMIT_AS=900 * 2**20)
    assert ended.returncode == 2 and "does not fit into memory" in ended.stderr and one_message(ended.stderr)


@pytest.mark.parametrize("option", ["--save-model", "--certificate"])
def test_a_full_disk_leaves_nothing_behind(option: str, tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    ended = inbounds("solve", "queue", option, str(path), RLIMIT_FSIZE=1024)  # no file can grow beyond
    assert (ended.returncode, sentence(ended.stderr)) == (2, f"inbounds: {path}: cannot be written: file too large")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs a device that is full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["--help"], ["solve", "--help"], ["zoo"], ["solve", "queue", "--json"]])
def test_output_that_does_not_fit_is_one_line(
    arguments: list[str], unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", SCRIPT, *arguments]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (
        2,
        "inbounds: the output cannot be written: no space left on device\n",
    )


@pytest.mark.parametrize(
    "arguments", [["--help"], ["solve", "--help"], ["zoo"], ["solve", "queue", "--json"], ["solve", "queue"]]
)
def test_an_output_that_is_closed_is_one_line(arguments: list[str], tmp_path: Path) -> None:
    """(What was printed was lost, and the exit code was 0.) Files are written all the same."""
    saved = tmp_path / "best.json"
    options = ["--save-policy", str(saved)] if "queue" in arguments else []
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "inbounds", *arguments, *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (2, "inbounds: the output cannot be written: it is closed\n")
    assert saved.exists() == bool(options)


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs a device that is full")
@pytest.mark.parametrize("arguments", [["solve", "nosuch"], ["solve", "queue", "--bound", "service=99"], ["--nosuch"]])
def test_a_refusal_that_does_not_fit_has_its_exit_code(arguments: list[str]) -> None:
    codes = []
    for path in ("/dev/null", "/dev/full"):
        with open(path, "w") as errors:
            command = [sys.executable, "-m", "inbounds", *arguments]
            codes.append(subprocess.run(command, stderr=errors, timeout=120).returncode)
    assert codes == [3 if "queue" in arguments else 2] * 2


@pytest.mark.parametrize("arguments", [["--help"], ["solve", "--help"], ["zoo"], ["solve", "queue", "--json"]])
def test_output_that_nobody_reads_ends_without_a_word(arguments: list[str]) -> None:
    """As `inbounds ... | head -1` does, with the code of what SIGPIPE ends."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as nobody:
        command = [sys.executable, "-c", SCRIPT, *arguments]
        ended = subprocess.run(command, stdout=nobody, stderr=subprocess.PIPE, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (141, "")


def waiting(marks: Path) -> list[int]:
    """The processes of the workers that are in the middle of a job."""
    deadline = time.monotonic() + 60
    while len(found := [int(path.name) for path in marks.iterdir()]) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


JOBS = """
import os, pathlib, sys, time
from inbounds.studies.parallel import WorkerLost, run_jobs
def job(number):
    pathlib.Path(sys_marks, str(os.getpid())).touch()
    time.sleep(60)
sys_marks = {marks!r}
try:
    run_jobs(job, [(k,) for k in range(4)], workers=2)
except WorkerLost as error:
    print(error)
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
@pytest.mark.parametrize("victim", ["parent", "worker"])
def test_workers_end_with_their_parent_and_a_lost_one_is_one_sentence(victim: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", JOBS.format(marks=str(tmp_path))]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    workers = waiting(tmp_path)
    assert len(workers) == 2 and all(alive(worker) for worker in workers)
    os.kill(parent.pid if victim == "parent" else workers[0], signal.SIGKILL)
    said, _ = parent.communicate(timeout=20)  # returns once nobody holds the pipe
    assert said == "" if victim == "parent" else said.startswith("a worker process was killed")
    deadline = time.monotonic() + 10
    while any(alive(worker) for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(worker) for worker in workers)


SLOW_IMPORT = """
import sys, time

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "inbounds.cli":
            print("ready", flush=True)
            time.sleep(30)

sys.meta_path.insert(0, Slow())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_during_the_imports_ends_with_its_own_code(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_IMPORT + SCRIPT, "zoo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (128 + number, "inbounds: interrupted\n")


EXECUTING = """
import os, sys, time
from inbounds.interruption import Interrupted, interruptible, leave_on_interrupt

leave_on_interrupt()
try:
    with interruptible():
        exec(f"os.kill(os.getpid(), {sys.argv[1]}); time.sleep(20)")
except Interrupted as error:
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_a_text_is_executed_ends_with_its_own_code(number: signal.Signals, tmp_path: Path) -> None:
    """As imports do; with -m, Python would end itself by SIGINT once a plain KeyboardInterrupt came through."""
    (tmp_path / "executing.py").write_text(EXECUTING)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    ended = subprocess.run(
        [sys.executable, "-m", "executing", str(int(number))],
        env={**os.environ, "PYTHONPATH": path},
        timeout=20,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert ended.returncode == 128 + number


SAVING = """
import sys
import inbounds as ib
from inbounds.interruption import Interrupted, interruptible, leave_on_interrupt

leave_on_interrupt()
garnet = ib.zoo.make("garnet", states=2000)
garnet.save(sys.argv[1])
try:
    with interruptible():
        print("ready", flush=True)
        while True:
            garnet.save(sys.argv[1])
except Interrupted as error:
    sys.exit(error.exit_code)
"""


def test_a_file_that_is_just_made_when_a_signal_comes_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(path: Path, mode: str, opener: object) -> BinaryIO:
        path.write_bytes(b"")
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic, "open", interrupted, raising=False)
    with pytest.raises(KeyboardInterrupt), atomic.replaced(tmp_path / "file"):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_a_file_is_written_leaves_nothing_half_written(number: signal.Signals, tmp_path: Path) -> None:
    for wait in (0.0, 0.01, 0.02):
        command = [sys.executable, "-c", SAVING, str(tmp_path / "garnet.npz")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            time.sleep(wait)
            process.send_signal(number)
            assert process.wait(timeout=20) == 128 + number
        assert [path.name for path in tmp_path.iterdir()] == ["garnet.npz"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_comparison_that_is_told_to_end_says_in_one_message_what_is_kept(
    number: signal.Signals, tmp_path: Path
) -> None:
    """With workers, whose library would complain about what they leave behind."""
    command = ["compare", "queue", "--algorithm", "cspda", "--seeds", "1000", "--samples", "1000000", "--jobs", "2"]
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *command, "--output", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    journal, deadline = tmp_path / "runs.jsonl", time.monotonic() + 120
    while time.monotonic() < deadline and (not journal.exists() or journal.read_bytes().count(b"\n") < 4):
        time.sleep(0.1)  # until workers have finished some
    process.send_signal(number)
    said, complaint = process.communicate(timeout=30)
    assert (process.returncode, said) == (128 + number, "") and one_message(complaint)
    recorded = journal.read_bytes().count(b"\n")
    kept = [f"inbounds: interrupted; known so far: {runs} of 1,000 runs;" for runs in (recorded - 1, recorded)]
    goes_on = f"the same command goes on from {journal}"  # perhaps between the line and its count
    assert sentence(complaint) in [f"{line} {goes_on}" for line in kept]


def test_an_interrupted_reproduction_says_what_is_lost(tmp_path: Path) -> None:
    broken = (
        "import inbounds.studies.runs as runs, os, signal\n"
        "def ended(*_, **__): os.kill(os.getpid(), signal.SIGINT)\n"
        "runs.run_jobs = ended\n"
    )
    command = ["reproduce", "queue", "--seeds", "2", "--samples", "1000", "--jobs", "1", "--output", str(tmp_path)]
    ended = subprocess.run(
        [sys.executable, "-c", broken + SCRIPT, *command],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    lost = "known so far: 1 of 60 runs; none of them is written; --time-limit writes what is finished by then"
    assert (ended.returncode, sentence(ended.stderr)) == (130, f"inbounds: interrupted; {lost}")
    assert not list(tmp_path.iterdir())


ADDING = """
import sys
from inbounds.studies.parallel import run_jobs
sys.stdout = sys.stderr = None
sys.exit(run_jobs(max, [(1, 2), (3, 4)], workers=2) != [2, 4])
"""


@pytest.mark.parametrize("closed", [(), (1,), (2,), (1, 2), (0, 1, 2)])
def test_workers_need_no_standard_streams(closed: tuple[int, ...]) -> None:
    command = [sys.executable, "-c", ADDING]
    closing = "".join(f"{number}>&- " for number in closed)
    ended = subprocess.run(["sh", "-c", f'exec "$@" {closing}', "sh", *command], timeout=120)
    assert ended.returncode == 0


@pytest.mark.parametrize(
    ("closing", "code", "said"),
    [(">&-", 2, b"inbounds: the output cannot be written: it is closed\n"), ("2>&-", 0, b""), ("<&- >&- 2>&-", 2, b"")],
)
def test_a_comparison_needs_no_standard_streams(closing: str, code: int, said: bytes, tmp_path: Path) -> None:
    """Only its table is lost without an output, which the exit code says."""
    arguments = ["compare", "queue", "--samples", "2000", "--seeds", "3", "--jobs", "2", "--algorithm", "cspda"]
    command = [sys.executable, "-m", "inbounds", *arguments, "--output", str(tmp_path)]
    ended = subprocess.run(["sh", "-c", f'exec "$@" {closing}', "sh", *command], capture_output=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (code, said) and (tmp_path / "comparison.svg").exists()


@pytest.mark.parametrize("files", [10, 16])
def test_too_few_open_files_for_workers_are_one_sentence(files: int, tmp_path: Path) -> None:
    options = ("--samples", "2000", "--seeds", "3", "--jobs", "2", "--algorithm", "cspda", "--output", str(tmp_path))
    ended = inbounds("compare", "queue", *options, RLIMIT_NOFILE=files)
    assert ended.returncode == 2 and "worker processes cannot be started (too many open files); raise" in sentence(
        ended.stderr
    )


def test_ctrl_c_while_workers_start_shows_no_traceback_of_theirs(tmp_path) -> None:
    """A terminal sends it to all of a group: workers ended in the middle of their imports, each with a traceback."""
    script = """
import os, signal, sys, threading, time
import inbounds as ib

def step(state, action, rng):
    return 0, 0.0, []

def children():
    found = []
    for place in filter(str.isdigit, os.listdir("/proc")):
        try:
            found += [place] * (int(open(f"/proc/{place}/stat").read().rpartition(")")[2].split()[1]) == os.getpid())
        except OSError:
            pass
    return found

def ctrl_c():
    while len(children()) < 3:  # two workers, and what keeps track of their resources
        time.sleep(0.002)
    time.sleep(float(sys.argv[1]))
    os.killpg(0, signal.SIGINT)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    simulator = ib.Simulator(step, lambda rng: 0, states=1, actions=[0], discount=0.5, reward_range=(0, 1), jobs=2)
    threading.Thread(target=ctrl_c, daemon=True).start()
    asked = {"samples": 200_000, "seed": 0}
    try:
        ib.learn(simulator, ib.ModelBased(), **asked)
        print("ended first")
    except KeyboardInterrupt as error:
        run = ib.learn(simulator, ib.ModelBased(), **asked, resume=error.partial, time_limit=2.0)
        print("went on", run.samples[-1] > 0)
"""
    path = tmp_path / "script.py"
    path.write_text(script)
    for delay in ("0.05", "0.15"):
        done = subprocess.run(
            [sys.executable, path, delay], capture_output=True, text=True, timeout=120, start_new_session=True
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.stdout.strip() == "went on True", (done.stdout, done.stderr)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_where_ctrl_c_is_ignored_other_signals_clean_up_all_the_same(number: int, tmp_path: Path) -> None:
    """As it is where a script starts a command in the background."""
    broken = (
        "import inbounds.studies.runs as runs, os, signal\n"
        f"def ended(*_, **__): os.kill(os.getpid(), {int(number)})\n"
        "runs.run_jobs = ended\n"
    )
    command = ["reproduce", "queue", "--seeds", "2", "--samples", "1000", "--jobs", "1", "--output", str(tmp_path)]
    ended = subprocess.run(
        [sys.executable, "-c", broken + SCRIPT, *command, "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert ended.returncode == 128 + number and json.loads(ended.stdout)["exit_code"] == 128 + number
    assert "known so far: 1 of 60 runs" in sentence(ended.stderr)


def test_a_signal_while_pictures_are_drawn_leaves_an_earlier_report_whole(tmp_path: Path) -> None:
    """(Files were replaced one by one, in the seconds that it takes to draw them.)"""
    command = ["reproduce", "queue", "--seeds", "2", "--samples", "1000", "--jobs", "1", "--output", str(tmp_path)]
    assert inbounds(*command).returncode == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    broken = (
        "import inbounds.reports.figures as figures, os, signal\n"
        "draw, drawn = figures.draw_into, []\n"
        "def ended(*asked, **more):\n"
        "    drawn.append(draw(*asked, **more))\n"
        "    if len(drawn) == 4: os.kill(os.getpid(), signal.SIGINT)\n"
        "figures.draw_into = ended\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", broken + SCRIPT, *command[:3], "3", *command[4:]],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert ended.returncode == 130 and "90 of 90 runs; none of them is written" in sentence(ended.stderr)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(("command", "file"), [(("reproduce", "queue"), "curves.csv"), (("theorems",), "theorems.csv")])
def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(command, file, tmp_path: Path) -> None:
    (tmp_path / file).mkdir()
    ended = inbounds(*command, "--output", str(tmp_path))  # which would take minutes
    assert ended.returncode == 2 and f"{file}: cannot be written: is not a regular file" in sentence(ended.stderr)


def test_files_that_change_together_are_taken_back_where_one_is_refused(tmp_path: Path, monkeypatch) -> None:
    """As where another file is mounted over one of them: the others were new by then."""
    paths = [tmp_path / name for name in "abc"]
    for path in paths[:2]:
        path.write_bytes(b"old")
    renamed, rename = [], os.replace

    def refused(source, target):
        if target == paths[2] and source.suffix == ".tmp":
            raise OSError(16, "Device or resource busy")
        renamed.append(target)
        rename(source, target)

    monkeypatch.setattr(os, "replace", refused)
    with pytest.raises(OSError, match="busy"), atomic.replaced_together(paths) as streams:
        for stream in streams:
            stream.write(b"new")
    assert len(renamed) == 4 and [path.read_bytes() for path in paths[:2]] == [b"old", b"old"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_in_a_folder_for_all_a_file_of_another_may_not_be_exchanged(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "file"
    path.write_text("theirs")
    path.chmod(0o666)
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 12_345)
    with pytest.raises(PermissionError):
        atomic.require_writable(path)
    tmp_path.chmod(0o700)
    atomic.require_writable(path)


def test_a_link_that_leads_to_itself_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        atomic.require_writable(tmp_path / "loop")


def test_where_a_disk_has_no_links_no_file_is_lost(tmp_path: Path, monkeypatch) -> None:
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_bytes(b"old")
    rename = os.replace

    def refused(source, target):
        if target == paths[2]:
            raise OSError(16, "Device or resource busy")
        rename(source, target)

    def no_links(*given):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "replace", refused)
    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(OSError, match="busy"), atomic.replaced_together(paths) as streams:
        for stream in streams:
            stream.write(b"new")
    assert [path.read_bytes() for path in paths] == [b"new", b"new", b"old"]  # each of them whole


def test_names_beyond_ascii_are_text_in_a_locale_that_has_none(tmp_path: Path, monkeypatch) -> None:
    """On a page, in JSON, in names of files, and where a command names a constraint."""
    model = (Path(__file__).parents[1] / "examples" / "machine.toml").read_text("utf-8")
    model = model.replace('name = "machine"', "").replace('"repairs"', '"größe"').replace("repairs =", '"größe" =')
    (tmp_path / "möd el.toml").write_text(model, "utf-8")
    monkeypatch.chdir(tmp_path)
    for name, value in {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}.items():
        monkeypatch.setenv(name, value)
    told = inbounds("report", "möd el.toml", "--points", "0", "--beside", "--json")
    assert told.returncode == 0, told.stderr
    page = (tmp_path / "möd el.html").read_text("utf-8")
    assert "<h1>möd el</h1>" in page and "udc" not in page
    assert html.escape("inbounds verify 'möd el-model.npz' 'möd el-certificate.json'") in page
    facts = json.loads(told.stdout)
    assert facts["problem"]["name"] == "möd el" and facts["files"][:2] == ["möd el.html", "möd el-model.npz"]
    assert json.loads(inbounds("solve", "möd.toml", "--json").stdout)["error"].startswith("möd.toml: cannot be read")
    assert inbounds("report", "möd el.toml", "--points", "0", "--bound", "größe=0.2").returncode == 0
    assert (tmp_path / "möd el-größe=0.2.html").exists()
    assert inbounds("frontier", "möd el.toml", "--constraint", "größe", "--points", "3").returncode == 0
    picture = (tmp_path / "frontier" / "möd el-größe" / "frontier.svg").read_text("utf-8")
    assert "möd el" in picture and "udc" not in picture


@pytest.mark.parametrize("link", ["folder", "file"])
def test_links_that_lead_nowhere_are_seen_before_anything_runs(link: str, tmp_path: Path) -> None:
    """A folder is made where its link leads; a file in a folder that is not there is refused."""
    output = tmp_path / "out"
    if link == "folder":
        output.symlink_to(tmp_path / "new")
    else:
        output.mkdir()
        (output / "theorems.png").symlink_to("/nowhere/x.png")
    options = ("--seeds", "2", "--samples", "1000", "--jobs", "1", "--output", str(output))
    ended = inbounds("theorems", *options)
    if link == "folder":
        assert ended.returncode == 0 and (tmp_path / "new" / "theorems.csv").is_file()
    else:
        assert ended.returncode == 2 and "theorems.png: cannot be written: no such file or directory" in sentence(
            ended.stderr
        )


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, ArithmeticError])
def test_whatever_a_handler_raises_files_change_together(kind: type, tmp_path: Path, monkeypatch) -> None:
    paths = [tmp_path / name for name in "abc"]
    rename, raised = os.replace, []

    def interrupted(source, target):
        rename(source, target)
        if target == paths[1] and not raised:
            raised.append(kind)
            raise kind

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(kind), atomic.replaced_together(paths) as streams:
        for stream in streams:
            stream.write(b"new")
    assert [path.read_bytes() for path in paths] == [b"new"] * 3 and len(list(tmp_path.iterdir())) == 3


def test_two_names_of_one_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with (
        pytest.raises(OSError, match="is the same file as"),
        atomic.replaced_together([tmp_path / "a", tmp_path / "b"]),
    ):
        pass
