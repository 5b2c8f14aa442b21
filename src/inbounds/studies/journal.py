"""A journal of finished runs: what was done once is not done again, even after the process was killed.

One line of JSON per run, appended and brought to the disk as soon as the run has finished. Each line carries a digest
of itself: one that was cut off by a crash, damaged or edited is passed over when the journal is read, and its run is
done again. Lines are only ever added, so that several processes may share the file: of two runs with the same key the
later counts.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from inbounds.errors import InvalidInput
from inbounds.formats.atomic import naming, require_regular, require_writable
from inbounds.formats.labels import parsed


class Journal:
    """Finished runs by key, in a file. A `fresh` one knows none of the runs that are there, and takes none away.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "runs.jsonl"
    ...     Journal(path).add("first", {"reward": 0.5})
    ...     _ = path.write_bytes(path.read_bytes() + b'{"key": "second", "rew')  # killed in the middle of a line
    ...     Journal(path).add("third", {"reward": 0.75})
    ...     again = Journal(path)
    ...     again.get("first"), again.get("second"), again.get("third")
    ({'reward': 0.5}, None, {'reward': 0.75})
    """

    def __init__(self, path: Path, fresh: bool = False) -> None:
        self.path, self.fresh = path, fresh
        self._runs: dict[str, dict[str, Any]] = {}
        content = b""
        with naming(path, "written"):
            _require_appendable(path)  # before anything ran that could not be recorded
        if path.exists():
            with naming(path, "read"):
                content = path.read_bytes()
                if not _is_journal(content):
                    raise InvalidInput("is no journal: something else is in it. Give another name")
        for line in [] if fresh else content.splitlines():
            try:
                run = parsed(line)
                key = run.pop("key")
                if run.pop("digest") == key_of(key, run):
                    self._runs[key] = run
            except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
                continue

    def get(self, key: str) -> dict[str, Any] | None:
        """What was recorded under a key."""
        return self._runs.get(key)

    def add(self, key: str, run: dict[str, Any]) -> None:
        """Record a run; when this returns, it is on the disk."""
        line = json.dumps({"key": key, **run, "digest": key_of(key, run)}).encode() + b"\n"
        with naming(self.path, "written"), open(self.path, "ab+") as stream:
            # Looked at each time: another process may write here, and be killed in the middle of its line.
            torn = stream.tell() > 0 and stream.seek(-1, os.SEEK_END) >= 0 and stream.read(1) != b"\n"
            stream.write(b"\n" + line if torn else line)
            stream.flush()
            os.fsync(stream.fileno())
        self._runs[key] = run


_BEGINNING, _END = b'{"key"', re.compile(rb'"digest": "[0-9a-f]{32}"\}$')
"""Of every line."""


def _is_journal(content: bytes) -> bool:
    """Whether some line begins and ends as a run does; or, where it was cut off or damaged, one or the other.

    Or all are nothing but first bytes of one. A line that is whole JSON and no run is somebody else's. Nothing says
    whose a file of zeros is, as a power cut may leave one: it is not taken for a journal.
    """
    lines = [line.strip() for line in content.splitlines()]
    return any(map(_is_run, lines)) or all(_BEGINNING.startswith(line) for line in lines)


def _is_run(line: bytes) -> bool:
    begins, ends = line.startswith(_BEGINNING), _END.search(line) is not None
    return (begins and ends) or ((begins or ends) and not _is_json(line))


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _require_appendable(path: Path) -> None:
    """That runs can be added there, as far as that can be seen without making a file, or changing the one that is."""
    if not path.parent.is_dir():
        raise InvalidInput(f"cannot be written: there is no folder {path.parent}")
    if path.exists():
        require_regular(path)
    try:
        open(path, "rb+").close()
    except FileNotFoundError:
        require_writable(path)


def key_of(*facts: Any) -> str:
    """A key that is the same exactly when all facts (numbers, texts, lists of them) are."""
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]
