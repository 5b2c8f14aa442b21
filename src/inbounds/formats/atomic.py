"""Files that are written whole or not at all.

The invariant: at every moment, also after a crash or a power cut, the path holds the complete old file or the complete
new one. The new bytes go to a temporary file in the same directory, reach the disk, and take the name in one step.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """A stream to write; when the block ends well its content becomes the file at `path`, otherwise nothing changes.

    A file that is replaced passes its permissions on, and a symbolic link keeps pointing to where it points.

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
        except BaseException:
            stream.close()
            with suppress(OSError):
                temporary.unlink()
            raise
    _sync_directory(target.parent)


def _sync_directory(directory: Path) -> None:
    """Make the new name survive a power cut. The file is in place already, so failing here is no failure to write."""
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
