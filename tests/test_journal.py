"""The journal: what is in it stays in it, whatever cut the last line off."""

import errno
import os
from pathlib import Path

import pytest

import inbounds as ib
from inbounds.studies.journal import Journal, key_of

RUN = {"rewards": [0.1, 1 / 3], "margins": [[-0.0, 1e-300]], "seconds": 2.5}


def test_numbers_come_back_exactly(tmp_path: Path) -> None:
    Journal(tmp_path / "runs.jsonl").add("a", RUN)
    assert Journal(tmp_path / "runs.jsonl").get("a") == RUN


def test_a_run_cut_off_anywhere_is_passed_over_and_can_be_added_again(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    book = Journal(whole)
    book.add("a", RUN)
    size = whole.stat().st_size
    book.add("b", {"seconds": 1.0})
    content = whole.read_bytes()
    for end in range(size):  # in the first line
        cut = tmp_path / "first.jsonl"
        cut.write_bytes(content[:end])
        found = Journal(cut)
        assert found.get("a") == (RUN if end == size - 1 else None)
        found.add("a", RUN)
        assert Journal(cut).get("a") == RUN
    for end in range(size, len(content)):
        cut = tmp_path / "cut.jsonl"
        cut.write_bytes(content[:end])
        found = Journal(cut)
        assert found.get("a") == RUN
        complete = end == len(content) - 1  # only the line's end is missing
        assert found.get("b") == ({"seconds": 1.0} if complete else None)
        found.add("c", RUN)
        again = Journal(cut)
        assert again.get("a") == again.get("c") == RUN


def test_a_line_that_another_process_left_unfinished_spoils_no_other(tmp_path: Path) -> None:
    """It was killed in the middle of a line, after this journal was read."""
    path = tmp_path / "runs.jsonl"
    here, there = Journal(path), Journal(path)
    there.add("a", RUN)
    with path.open("ab") as stream:
        stream.write(b'{"key": "lost", "rew')
    here.add("b", RUN)
    there.add("c", RUN)
    again = Journal(path)
    assert again.get("a") == again.get("b") == again.get("c") == RUN and again.get("lost") is None


def test_of_two_runs_with_the_same_key_the_later_counts_and_a_fresh_journal_knows_none(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    Journal(path).add("a", RUN)
    Journal(path).add("b", RUN)
    fresh = Journal(path, fresh=True)
    assert fresh.get("a") is None and fresh.get("b") is None
    fresh.add("a", {"seconds": 3.0})
    assert fresh.get("a") == Journal(path).get("a") == {"seconds": 3.0} and Journal(path).get("b") == RUN


def test_a_line_that_was_edited_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    Journal(path).add("a", RUN)
    content = path.read_bytes()
    for old, new in ((b"0.1,", b""), (b"0.1", b"0.2"), (b'"a"', b'"b"'), (b"2.5", b"NaN"), (b'"seconds"', b'"hours"')):
        path.write_bytes(content.replace(old, new, 1))
        assert path.read_bytes() != content
        assert Journal(path).get("a") is None and Journal(path).get("b") is None


@pytest.mark.parametrize("line", [b"[1, 2]", b"3", b"{}", b"null", b"\xff\xfe", b"[" * 100_000, b'{"key": [1]}'])
def test_lines_of_another_kind_are_passed_over(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "runs.jsonl"
    Journal(path).add("first", RUN)
    path.write_bytes(line + b"\n" + path.read_bytes())
    book = Journal(path)
    book.add("a", RUN)
    assert Journal(path).get("a") == Journal(path).get("first") == RUN


def test_keys_differ_when_anything_does() -> None:
    facts = ("problem", "CSPDA()", 1000, [1, 2], 0)
    keys = {key_of(*facts), key_of(*facts[:-1], 1), key_of(*facts[:3], [12], 0), key_of("problem", "CSPDA()1000")}
    assert len(keys) == 4 and key_of(*facts) in keys


def test_a_journal_in_no_folder_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ib.InvalidInput, match="cannot be written: there is no folder"):
        Journal(tmp_path / "none" / "runs.jsonl")


@pytest.mark.parametrize(
    ("leads_to", "why"),
    [("runs.jsonl", "symbolic links"), ("none/runs.jsonl", "no such file"), (".", "is a directory")],
)
def test_a_journal_that_cannot_be_written_is_refused_before_anything_runs(
    leads_to: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inbounds.comparing.run_stages", lambda *_, **__: pytest.fail("it ran"))
    path = tmp_path / "runs.jsonl"
    path.symlink_to(tmp_path / leads_to)
    with pytest.raises(ib.InvalidInput, match=rf"runs\.jsonl: .*{why}"):
        ib.compare(ib.zoo.queue(), ["crpo"], samples=1_000, seeds=1, workers=1, journal=path)


def test_what_may_not_be_written_is_refused_and_what_may_need_no_folder_that_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal is added to where it is: only a new one takes a place in the folder."""
    path = tmp_path / "runs.jsonl"
    monkeypatch.setattr("os.access", lambda *_, **__: False)  # as on a file system that is read-only
    with pytest.raises(ib.InvalidInput, match=r"runs\.jsonl: cannot be written: permission denied"):
        Journal(path)
    assert not path.exists()
    path.write_bytes(b"")
    assert Journal(path).get("a") is None

    def refused(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("inbounds.studies.journal.open", refused, raising=False)
    with pytest.raises(ib.InvalidInput, match=r"runs\.jsonl: cannot be written: read-only file system"):
        Journal(path)


def test_a_disk_that_fills_names_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    book = Journal(tmp_path / "runs.jsonl")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ib.InvalidInput, match=r"runs\.jsonl: cannot be written: no space left on device"):
        book.add("a", RUN)
    assert book.get("a") is None


def test_a_journal_whose_first_line_was_damaged_at_either_end_is_one(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    Journal(path).add("a", RUN)
    whole = path.read_bytes()
    for damaged in (b"\0" * 20 + whole[20:], whole[:20] + b"\0" * 20):
        path.write_bytes(damaged)
        Journal(path).add("b", RUN)
        assert Journal(path).get("a") is None and Journal(path).get("b") == RUN


def test_first_bytes_of_lines_are_passed_over_however_often_one_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b'{"ke\n\n{\n{"k')
    Journal(path).add("a", RUN)
    assert Journal(path).get("a") == RUN


@pytest.mark.parametrize(
    "content",
    [
        b"[states]\n",
        b"PK\x03\x04",
        b"\0" * 64,
        b'{"kind"',
        b'{\n"states": 3}',
        b'"ke',
        b'{"ke\nx',
        b"\0{",
        b'{"kind": "policy",\n"actions": ["key", "door"],\n"digest": 1}\n',
    ],
)
def test_a_file_that_is_no_journal_is_not_written_to(tmp_path: Path, content: bytes) -> None:
    """(Runs were added to models, which then could not be read.)"""
    path = tmp_path / "model.toml"
    path.write_bytes(content)
    with pytest.raises(ib.InvalidInput, match=r"model\.toml: is no journal: something else is in it"):
        Journal(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("line", ['{"key": "other", "v": 1}', '{"id": 1, "digest": "' + "a" * 32 + '"}'])
def test_whole_lines_of_somebody_else_are_no_journal(line, tmp_path):
    """They begin, or end, as a run does; only a line that was cut off or damaged need not do both."""
    path = tmp_path / "foreign.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(ib.InvalidInput, match="is no journal"):
        Journal(path)
