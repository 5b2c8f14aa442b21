"""Models in and out of files. The suffix of the path decides the format.

    .npz    for models of any size: arrays, read and written fast          formats/npz.py
    .toml   for small models: text that people read, write and compare     formats/toml.py

Both keep a model exactly: every number to the last bit, and the labels. A file is data, never code, and is trusted in
nothing: whatever is wrong with it, loading ends in one `InvalidInput` that names the file and the problem, and needs
memory in proportion to the size of the file. docs/files.md describes both formats for those who write them elsewhere.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from inbounds.errors import InvalidInput
from inbounds.formats import npz, toml
from inbounds.formats.atomic import replaced
from inbounds.problem.cmdp import CMDP

FORMATS: dict[str, Any] = {".npz": npz, ".toml": toml}


def load(path: str | os.PathLike[str]) -> CMDP:
    """The model in a file, ``.npz`` or ``.toml``.

    Bounds in files are normalised by (1 - discount), as everywhere.

    Examples
    --------
    >>> import tempfile, inbounds as ib
    >>> from inbounds.formats import load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ib.zoo.queue().save(f"{folder}/queue.npz")
    ...     load(f"{folder}/queue.npz")
    CMDP(queue: 6 states, 96 pairs, 2 constraints, discount 0.5)
    """
    file, file_format = _recognised(path)
    try:
        _require_regular(file)
        return file_format.read(file)
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read: {_reason(error)}") from error
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}") from error


def save(cmdp: CMDP, path: str | os.PathLike[str]) -> None:
    """Write a model to a file, ``.npz`` or ``.toml``; the same as ``cmdp.save(path)``.

    The same model gives the same bytes. The file is written whole or not at all: when anything goes wrong, whatever
    was there before is still there.
    """
    file, file_format = _recognised(path)
    try:
        with replaced(file) as stream:
            file_format.write(cmdp, stream)
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be written: {_reason(error)}") from error
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}") from error


def _recognised(path: str | os.PathLike[str]) -> tuple[Path, Any]:
    try:
        file = Path(path)
    except TypeError as error:
        raise InvalidInput(f"the path of a model must be text or a Path, found {path!r}") from error
    if "\0" in str(file):
        raise InvalidInput(f"the path of a model must not contain a null character, found {str(file)!r}")
    file_format = FORMATS.get(file.suffix.lower())
    if file_format is None:
        raise InvalidInput(
            f"{file}: the suffix {file.suffix!r} is not a model format; it must be .npz (any size) or .toml (readable)"
        )
    return file, file_format


def _require_regular(file: Path) -> None:
    mode = file.stat().st_mode  # before opening: opening a pipe would wait for its other end
    if stat.S_ISDIR(mode):
        raise InvalidInput("is a directory, not a model file")
    if not stat.S_ISREG(mode):
        raise InvalidInput("is not a regular file")


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
