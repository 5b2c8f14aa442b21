"""Compilation: the one decorator for kernels, and the same code run by Python.

Kernels are module-level functions over arrays and NamedTuples of arrays, with scalar loops: such code compiles
quickly, caches across processes, and gives the same bits interpreted as compiled. They are compiled without fast-math
and without parallel reductions, so a result never depends on the machine's number of cores.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numba
from numba.core import config
from numba.core.caching import IndexDataCacheFile
from numba.core.dispatcher import Dispatcher

from inbounds.numerics.interrupts import Kernel
from inbounds.waiting import compiling

_KEPT_DAYS = 90
"""How long kernels of other sources are kept; at worst they are compiled again."""

_IMPORTS = re.compile(rb"^\s*(?:from|import) +inbounds\.?([\w.]*)", re.MULTILINE)
"""The modules of this package that a source imports, from there on."""


def compiled(kernel: Callable[..., Any]) -> Any:
    """Compile `kernel` on its first call and keep the result on disk for later processes.

    Numba's own check looks at the file of the kernel only, and would go on using a stale kernel after a change to a
    helper in another file. The directory therefore depends on a hash of the sources that the file is made of.
    """
    if config.DISABLE_JIT:  # NUMBA_DISABLE_JIT, for who debugs
        return kernel
    dispatcher = _dispatcher(kernel)
    dispatcher.__class__ = _OnceForEachType  # which adds nothing but how it is called
    return dispatcher


class _OnceForEachType(Kernel):
    """A kernel that is compiled for types alone, where Numba would do it again for every constant of a caller.

    What a constant makes simpler is made so all the same where the kernel becomes a part of its caller. A learner of
    episodes took 103 seconds to compile, and takes 69.
    """

    def get_call_template(self, args: Any, kws: Any) -> Any:
        named = {name: numba.types.unliteral(of) for name, of in dict(kws).items()}
        return super().get_call_template(tuple(numba.types.unliteral(of) for of in args), named)


def _dispatcher(kernel: Callable[..., Any]) -> Any:
    directory = _cache_directory(kernel.__code__.co_filename)
    if directory is None:
        return numba.njit(nogil=True)(kernel)
    # The setting is read while the decorator runs; the caller's other Numba code keeps its own.
    previous, config.CACHE_DIR = config.CACHE_DIR, str(directory)
    try:
        return _keeping_if_possible(numba.njit(cache=True, nogil=True)(kernel))
    except RuntimeError:  # typed at a prompt: there is no file to tell whether it changed
        return numba.njit(nogil=True)(kernel)
    finally:
        config.CACHE_DIR = previous


def _keeping_if_possible(dispatcher: Any) -> Any:
    """The kernel, which is not lost when it cannot be kept: on a disk that is full, it is compiled each time.

    What is not found on disk, or is damaged there (a power cut leaves files empty), is compiled next, and that takes
    its time; then it takes the place of what was damaged.
    """
    cache = dispatcher._cache
    cache._cache_file.__class__ = _Sealed  # which adds nothing but what is in the files
    load, save = cache.load_overload, cache.save_overload

    def load_or_tell(*overload: Any) -> Any:
        try:
            found = load(*overload)
        except Exception:  # whatever pickle, or LLVM, says of bytes that are not theirs
            found = None
            with suppress(OSError):
                cache.flush()  # the index of this kernel: it would be read again, to add to it
        if found is None:
            compiling()
        return found

    def save_if_possible(*overload: Any) -> None:
        with suppress(Exception):  # a full disk; or the index is damaged, and could not be written anew
            save(*overload)

    cache.load_overload, cache.save_overload = load_or_tell, save_if_possible
    return dispatcher


class _Sealed(IndexDataCacheFile):  # type: ignore[misc]
    """Kernels on disk that end in a digest, and name what they were compiled for.

    Numba runs what it finds: also machine code that the disk lost a page of, and, where two processes added to the
    index of a kernel at the same moment, what was compiled for other types.
    """

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (key, data))

    def load(self, key: Any) -> Any:
        found = super().load(key)
        return found[1] if found is not None and found[0] == key else None

    def _dump(self, value: Any) -> bytes:
        content: bytes = super()._dump(value)
        return content + hashlib.sha256(content).digest()  # pickle reads over what comes after its end

    def _load_data(self, name: str) -> Any:
        sealed = Path(self._data_path(name)).read_bytes()
        content = sealed[: -hashlib.sha256().digest_size]
        if content + hashlib.sha256(content).digest() != sealed:
            raise ValueError(f"the kernel {name} is damaged")
        return pickle.loads(content)


def interpreted(kernel: Any) -> Callable[..., Any]:
    """The same code as `kernel`, and every compiled function that it calls, run by Python."""
    done: dict[int, Callable[..., Any]] = {}

    def twin(dispatcher: Any) -> Callable[..., Any]:
        if id(dispatcher) not in done:
            source = getattr(dispatcher, "py_func", dispatcher)
            names: dict[str, Any] = {}
            done[id(dispatcher)] = copy = FunctionType(source.__code__, names, source.__name__, source.__defaults__)
            for name, value in source.__globals__.items():
                names[name] = twin(value) if isinstance(value, Dispatcher) else value
            return copy
        return done[id(dispatcher)]

    return twin(kernel)


@cache
def sources_digest(path: str = "") -> str:
    """A hash of the sources that a file of this package is made of; for any other file, of every one of them."""
    sources, digest = _sources(), hashlib.sha256()
    package = Path(__file__).parents[1].as_posix() + "/"
    waiting = [path.removeprefix(package)] if path.startswith(package) else list(sources)
    made_of: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in made_of:
            made_of.add(name)
            waiting += sources[name].imported
    for name in sorted(made_of):
        digest.update(name.encode() + b"\0" + sources[name].text)
    return digest.hexdigest()


class _Source(NamedTuple):
    text: bytes
    imported: list[str]  # sources of this package; of a room all of them, as what is taken from it may be a module


@cache
def _sources() -> dict[str, _Source]:
    """Every source of this package, by its path from there."""
    package = Path(__file__).parents[1]
    texts = {path.relative_to(package).as_posix(): path.read_bytes() for path in sorted(package.rglob("*.py"))}
    rooms: dict[str, list[str]] = {}
    for name in texts:
        for room in (name.removesuffix(".py"), *(parent.as_posix() for parent in Path(name).parents)):
            rooms.setdefault(room, []).append(name)

    def imported(text: bytes) -> list[str]:
        modules = {module.decode().replace(".", "/") or "." for module in _IMPORTS.findall(text)}
        return [name for module in modules for name in rooms.get(module, ())]

    return {name: _Source(text, imported(text)) for name, text in texts.items()}


@cache
def _cache_directory(path: str) -> Path | None:
    """Where kernels of a file are kept, compiled from exactly these sources; None when nothing can be written there."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}-numba{numba.__version__}"
    try:
        base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        directory = Path(base) / "inbounds" / "kernels" / f"{version}-{sources_digest(path)[:16]}"
        if not directory.is_dir():
            _remove_unused(directory.parent)
            directory.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # the latter: no home
        return None
    return directory if os.access(directory, os.W_OK) else None


def _remove_unused(kernels: Path) -> None:
    """Remove what other versions of the sources left and added nothing to for `_KEPT_DAYS`."""
    for directory in kernels.iterdir() if kernels.is_dir() else ():
        if time.time() - directory.stat().st_mtime > _KEPT_DAYS * 86_400:
            shutil.rmtree(directory, ignore_errors=True)
