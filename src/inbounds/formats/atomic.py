"""Files that are written whole or not at all, read only if they end, and named when something is wrong with them.

The invariant: at every moment, also after a crash or a power cut, the path holds the complete old file or the complete
new one. The new bytes go to a temporary file in the same directory, reach the disk, and take the name in one step.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from inbounds.errors import InvalidInput


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """A stream to write; when the block ends well its content becomes the file at `path`, otherwise nothing changes.

    A file that is replaced passes its permissions on, and a symbolic link keeps pointing to where it points. What is
    there and is no regular file is refused.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "note.txt"
    ...     with replaced(path) as stream:
    ...         _ = stream.write(b"all of it")
    ...     path.read_bytes(), len(list(Path(folder).iterdir()))
    (b'all of it', 1)
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():  # a pipe or a device would be taken away, and a file put in its place
        raise OSError(errno.EINVAL, "is not a regular file", os.fspath(path))
    temporary = target.with_name(f".inbounds-{secrets.token_hex(8)}.tmp")
    with open(temporary, "xb") as stream:
        try:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            stream.close()  # before the rename: some systems refuse to rename a file that is open
            with suppress(OSError):  # there may be no old file
                temporary.chmod(target.stat().st_mode & 0o777)
            os.replace(temporary, target)
        except BaseException as error:
            if isinstance(error, OSError):
                error.filename = os.fspath(path)  # the one that the user named
            with suppress(OSError):  # on a full disk, closing fails as writing did
                stream.close()
            with suppress(OSError):
                temporary.unlink()
            raise
    with suppress(OSError):  # the new name survives a power cut; the file is in place, so failing here is no failure
        handle = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def require_regular(path: str | os.PathLike[str]) -> None:
    """That a path leads to a regular file. Opening a pipe would wait for its other end, reading a device for ever."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise InvalidInput("is a directory, not a file")
    if not stat.S_ISREG(mode):
        raise InvalidInput("is not a regular file")


@contextmanager
def naming(path: str | os.PathLike[str], done: str) -> Iterator[None]:
    """Whatever goes wrong in the block ends in one `InvalidInput` that names the file, "read" or "written"."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be {done}: {(error.strerror or str(error)).lower()}") from error
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error
