"""Files that are written whole or not at all, read only if they end, and named when something is wrong with them.

The invariant: at every moment, also after a crash or a power cut, the path holds the complete old file or the complete
new one. The new bytes go to a temporary file in the same directory, reach the disk, and take the name in one step.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from inbounds.errors import InvalidInput
from inbounds.tables import printable


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """A stream to write; when the block ends well its content becomes the file at `path`, otherwise nothing changes.

    A file that is replaced passes its permissions on, until when nobody else may read what is written; and a symbolic
    link keeps pointing to where it points. What is there and is no regular file, or one that may not be written, is
    refused.

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
    with replaced_together([path]) as (stream,):
        yield stream


@contextmanager
def replaced_together(paths: Sequence[Path]) -> Iterator[list[BinaryIO]]:
    """The same for several files: all of them change, or none does.

    An interruption that falls between two of the last steps waits for the others; where one of these is refused, those
    before it are taken back, if the disk can link files.
    """
    for path in paths:
        require_writable(path)
    targets = [Path(os.path.realpath(path)) for path in paths]
    for place, target in enumerate(targets):
        if target in targets[:place]:
            raise OSError(errno.EINVAL, f"is the same file as {paths[targets.index(target)]}", os.fspath(paths[place]))
    temporaries = [target.with_name(f".inbounds-{secrets.token_hex(8)}.tmp") for target in targets]
    streams: list[BinaryIO] = []
    try:  # from before the files are there: an interruption may fall on the moment in which one is made
        for temporary, target in zip(temporaries, targets, strict=True):
            opener = _for_its_owner if target.exists() else None
            streams.append(open(temporary, "xb", opener=opener))  # noqa: SIM115 - it is closed in either case
        yield streams
        for target, temporary, stream in zip(targets, temporaries, streams, strict=True):
            stream.flush()
            os.fsync(stream.fileno())
            stream.close()  # before the rename: some systems refuse to rename a file that is open
            with suppress(OSError):  # there may be no old file
                temporary.chmod(target.stat().st_mode & 0o777)
        _rename(temporaries, targets)
    except BaseException as error:
        if isinstance(error, OSError):  # told of what the user named
            named = dict(zip(map(os.fspath, temporaries), paths, strict=True))
            error.filename = os.fspath(named.get(error.filename, paths[0] if len(paths) == 1 else paths[0].parent))
        for stream in streams:
            with suppress(OSError):  # on a full disk, closing fails as writing did
                stream.close()
        for temporary in temporaries:
            with suppress(OSError):
                temporary.unlink()
        raise
    for folder in {target.parent for target in targets}:
        with suppress(OSError):  # the new names survive a power cut; the files are in place: failing here is no failure
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def _for_its_owner(path: str, flags: int) -> int:
    """Open a file that takes the place of another, which may be private: who opens this one keeps it open."""
    return os.open(path, flags, 0o600)


def _rename(temporaries: list[Path], targets: list[Path]) -> None:
    """Give all temporary files the names of their targets, or none."""
    earlier, new = [temporary.with_suffix(".old") for temporary in temporaries], [not one.exists() for one in targets]
    try:
        if len(targets) > 1:
            for old, target in zip(earlier, targets, strict=True):
                with suppress(OSError):  # there may be none, or the disk has no links
                    os.link(target, old)
        for temporary, target in zip(temporaries, targets, strict=True):
            os.replace(temporary, target)
    except OSError:
        for temporary, old, target, is_new in zip(temporaries, earlier, targets, new, strict=True):
            with suppress(OSError):
                if not temporary.exists() and old.exists():
                    os.replace(old, target)
                elif not temporary.exists() and is_new:
                    target.unlink()
        raise
    except BaseException:  # a signal: what is left to do takes no time
        for temporary, target in zip(temporaries, targets, strict=True):
            with suppress(FileNotFoundError):  # it is in place
                os.replace(temporary, target)
        raise
    finally:
        for old in earlier:
            with suppress(OSError):
                old.unlink()


def require_writable(path: str | os.PathLike[str]) -> None:
    """That a file can be written there, as far as that can be seen before there is anything to write."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():  # a link that leads to itself
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    there = target.exists()
    if there and not target.is_file():  # a pipe or a device would be taken away, and a file put in its place
        raise OSError(errno.EINVAL, "is not a regular file", os.fspath(path))
    if not target.parent.is_dir():
        number = errno.ENOTDIR if target.parent.exists() else errno.ENOENT
        raise OSError(number, os.strerror(number), os.fspath(path))
    # A file that may not be written could be exchanged for another all the same: its owner does not want that.
    if not os.access(target.parent, os.W_OK | os.X_OK) or (there and not os.access(target, os.W_OK)):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
    if there and not _may_be_exchanged(target):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), os.fspath(path))


def _may_be_exchanged(target: Path) -> bool:
    """Whether another file may take its name: in a folder for all, such as /tmp, only its owner may do that."""
    folder, user = target.parent.stat(), getattr(os, "geteuid", lambda: 0)()
    return not folder.st_mode & stat.S_ISVTX or user in (0, folder.st_uid, target.stat().st_uid)


def require_folder(path: str | os.PathLike[str]) -> None:
    """That files can be written into a folder, which may not be there yet."""
    folder = Path(os.path.realpath(path))
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if not there.is_dir():
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(path))
    if not os.access(there, os.W_OK | os.X_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))


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
    except MemoryError as error:
        raise InvalidInput(f"{printable(path)}: cannot be {done}: there is not enough memory") from error
    except OSError as error:
        raise InvalidInput(f"{printable(path)}: cannot be {done}: {(error.strerror or str(error)).lower()}") from error
    except InvalidInput as error:
        raise InvalidInput(f"{printable(path)}: {error}") from error
