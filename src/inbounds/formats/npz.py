"""The .npz format: the arrays of a model as NumPy's ``savez`` writes them, for models of any size.

A zip of one uncompressed .npy member for each entry of `LAYOUT` below, and no others. S states, n pairs, K constraints,
m transitions of positive probability; H stages, where the criterion is a horizon:

    header          JSON text: kind, version, name, criterion, names of the constraints, labels of states and actions
                    (or null), and the names of the parts of labels where they have names
    offsets         state s owns pairs offsets[s] : offsets[s + 1]
    actions         the action of each pair
    indptr, indices, probabilities    the transitions of pair p are entries indptr[p] : indptr[p + 1]: the next states,
                    and their probabilities; where they depend on the stage, row h n + p has those of pair p at stage h
    reward, signals, bounds, senses   a sense is 1 where the bound is a least value, -1 where it is a most value
    initial

What does not depend on the stage is there once. So each of `indptr`, `reward` and `signals` has one of two shapes.

The invariant of reading: every size is checked against the bytes that are really there before anything of that size is
allocated. Members must be stored uncompressed, one after the other, and nothing else may be in the file: no member can
be larger than it, and all who read the file find the same arrays. Array headers are matched against one pattern instead
of being evaluated, only plain numbers are accepted, and there is no way to an object array, hence none to pickle.

The invariant of writing: the same model gives the same bytes, with every version of Python and NumPy. So the zip and
the headers of the arrays are put together here, byte for byte; and because that is done front to back, the bytes can
go to a file or straight into a hash: a certificate names its model by the SHA-256 of this file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from inbounds.arrays import Floats, Ints
from inbounds.errors import InvalidInput
from inbounds.formats.criterion import KIND, criterion_in_file, once, require_kind, transitions_once
from inbounds.formats.labels import IN_JSON, IN_PYTHON, parsed, parts_of, plain, text, with_parts
from inbounds.inputs import shown

VERSION = 2

BYTES, WHOLE, DOUBLES = "|u1", "<i8 <i4 |i1", "<f8"

Layout = dict[str, tuple[str, ...]]  # name: accepted types; shape; the other shape, where it depends on the stage

LAYOUT: Layout = {
    "header": (BYTES, "b"),
    "offsets": (WHOLE, "S+1"),
    "actions": (WHOLE, "n"),
    "indptr": (WHOLE, "n+1", "H*n+1"),
    "indices": (WHOLE, "m"),
    "probabilities": (DOUBLES, "m"),
    "reward": (DOUBLES, "n", "H n"),
    "signals": (DOUBLES, "K n", "K H n"),
    "bounds": (DOUBLES, "K"),
    "senses": (WHOLE, "K"),
    "initial": (DOUBLES, "S"),
}

LARGEST = 2**40
"""Longer than any dimension of an array that fits into a file."""


def write(model: Any, stream: BinaryIO) -> None:
    """Write a model, anything with the attributes of one, to a stream."""
    for piece in pieces(model):
        stream.write(piece)


def digest(model: Any) -> str:
    """The SHA-256 of the file that `write` would write, in hexadecimal. Nothing is written."""
    sha256 = hashlib.sha256()
    for piece in pieces(model):
        sha256.update(piece)
    return sha256.hexdigest()


def pieces(model: Any) -> Iterator[bytes | memoryview]:
    """The bytes of the file, front to back."""
    return packed(_arrays(model))


def packed(arrays: dict[str, Any]) -> Iterator[bytes | memoryview]:
    """The bytes of a file of arrays, front to back: headers, and the numbers of each where they are in memory."""
    directory, position = b"", 0
    for name, array in arrays.items():
        array_header, numbers = _npy(array)
        size, checksum = len(array_header) + numbers.nbytes, zlib.crc32(numbers, zlib.crc32(array_header))
        file_name = f"{name}.npy".encode("ascii")
        # What both headers of a member have: version, flags, method (stored), time, date, checksum, sizes.
        common = struct.pack("<5HIII", _ZIP64, 0, 0, 0, _FIRST_DATE, checksum, _IN_EXTRA, _IN_EXTRA)
        extra = struct.pack("<HHQQ", 1, 16, size, size)
        member_header = b"PK\x03\x04" + common + struct.pack("<HH", len(file_name), len(extra)) + file_name + extra
        yield member_header
        yield array_header
        yield numbers
        extra = struct.pack("<HHQQQ", 1, 24, size, size, position)
        rest = struct.pack("<5HII", len(file_name), len(extra), 0, 0, 0, _READABLE, _IN_EXTRA)
        directory += b"PK\x01\x02" + struct.pack("<H", _UNIX | _ZIP64) + common + rest + file_name + extra
        position += len(member_header) + size
    count, length = len(arrays), len(directory)
    yield directory
    yield struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, _ZIP64, _ZIP64, 0, 0, count, count, length, position)
    yield struct.pack("<4sIQI", b"PK\x06\x07", 0, position + length, 1)
    yield struct.pack("<4s4HIIH", b"PK\x05\x06", 0, 0, count, count, length, _IN_EXTRA, 0)


# Fields of a zip, as in PKWARE's APPNOTE. Sizes and positions are always in the 64-bit form: one form for all files.
_ZIP64 = 45  # version 4.5, the first with that form
_IN_EXTRA = 0xFFFFFFFF  # "see there"
_FIRST_DATE = 1 << 5 | 1  # 1 January 1980
_UNIX, _READABLE = 3 << 8, 0o644 << 16


def _arrays(model: Any) -> dict[str, Any]:
    """The arrays of `LAYOUT`, in its order."""
    constraints = model.constraints
    header = {
        "kind": KIND,
        "version": VERSION,
        "name": model.name,
        "criterion": model.criterion,
        "constraints": [constraint.name for constraint in constraints],
    }
    indptr, indices, probabilities = _stacked(transitions_once(model.transition))
    return {
        "header": written_header(_checked(header, "the criterion") | labels_to_header(model)),
        "offsets": model.offsets.astype(np.int64, copy=False),
        "actions": model.actions.astype(np.int64, copy=False),
        "indptr": indptr,
        "indices": indices,
        "probabilities": probabilities,
        "reward": once(model.reward),
        "signals": _signals([once(c.signal) for c in constraints], len(model.actions)),
        "bounds": np.array([c.bound for c in constraints], dtype=np.float64),
        "senses": np.array([1 if c.at_least is not None else -1 for c in constraints], dtype=np.int8),
        "initial": model.initial,
    }


def _stacked(transitions: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """The arrays of one CSR array, or of those of all stages under one another; indices as narrow as they can be."""
    rows = transitions[0] if len(transitions) == 1 else sp.vstack(transitions, format="csr")
    index = np.int32 if max(rows.nnz, *rows.shape) < 2**31 else np.int64
    return rows.indptr.astype(index, copy=False), rows.indices.astype(index, copy=False), rows.data


def _signals(signals: list[Floats], n_pairs: int) -> Floats:
    """[K, n]; or [K, H, n] as soon as one of them depends on the stage."""
    if not signals:
        return np.empty((0, n_pairs))
    longest = max((signal.shape for signal in signals), key=len)
    return np.array([np.broadcast_to(signal, longest) for signal in signals])


def _npy(array: Any) -> tuple[bytes, memoryview]:
    """The header of an array in NumPy's .npy format, and its numbers as bytes."""
    array = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).reshape(array.shape)
    shape = f"({array.shape[0]},)" if array.ndim == 1 else str(array.shape)
    described = f"{{'descr': '{array.dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
    padding = -(10 + len(described) + 1) % 64  # data starts at a multiple of 64, as the format wants it
    header = f"{described}{' ' * padding}\n".encode("ascii")
    numbers = memoryview(array.reshape(-1).view(np.uint8))
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header, numbers


def read(path: Path) -> dict[str, Any]:
    """The fields of the model in the file at `path`; messages do not name the file."""
    arrays = unpacked(path, LAYOUT, "a model")
    header = _header(arrays["header"])
    n_states, n_pairs, n_constraints = (arrays[name].size for name in ("initial", "actions", "bounds"))
    n_entries, horizon = arrays["probabilities"].size, header["criterion"].get("horizon")
    sizes = {"b": arrays["header"].size, "S": n_states, "S+1": n_states + 1, "n": n_pairs, "n+1": n_pairs + 1}
    sizes |= {"K": n_constraints, "m": n_entries, "H": horizon, "H*n+1": (horizon or 0) * n_pairs + 1}
    meaning = "S, n, K and m are the sizes of initial, actions, bounds and probabilities, H is the horizon"
    require_shapes(arrays, LAYOUT, sizes, meaning)
    offsets, indptr, indices, senses = (arrays[name] for name in ("offsets", "indptr", "indices", "senses"))
    if n_pairs == 0:
        raise InvalidInput("there are no pairs; a model needs one for each action of each state")
    require_partition(offsets, n_pairs, "offsets")
    require_partition(indptr, n_entries, "indptr")
    if indices.size and not (indices.min() >= 0 and indices.max() < n_states):
        raise InvalidInput(f"member 'indices' must hold states 0..{n_states - 1}, found others")
    if not set(senses.tolist()) <= {1, -1}:
        raise InvalidInput("member 'senses' must hold 1 (at least) or -1 (at most), found others")
    if len(header["constraints"]) != n_constraints:
        raise InvalidInput(f"the header must name {n_constraints} constraints, found {len(header['constraints'])}")
    described = zip(header["constraints"], arrays["signals"], senses.tolist(), arrays["bounds"].tolist(), strict=True)
    n_rows = len(indptr) - 1
    rows = sp.csr_array((arrays["probabilities"], indices, indptr), shape=(n_rows, n_states))
    by_stage = (rows[first : first + n_pairs] for first in range(0, n_rows, n_pairs))
    return {
        "offsets": offsets,
        "transition": rows if n_rows == n_pairs else tuple(by_stage),
        "reward": arrays["reward"],
        "constraints": [
            {"name": name, "signal": signal, "at_least" if sense == 1 else "at_most": bound}
            for name, signal, sense, bound in described
        ],
        "initial": arrays["initial"],
        "actions": arrays["actions"],
        **labels_from_header(header),
        "name": header["name"],
        **header["criterion"],
    }


def require_shapes(arrays: dict[str, Any], layout: Layout, sizes: dict[str, Any], meaning: str) -> None:
    """That every array has a shape of its layout, whose letters stand for `sizes`; `meaning` says how they are known.

    The second shape of an array is for when there are stages, ``sizes["H"]`` of them.
    """
    for name, (_, *shapes) in layout.items():
        allowed = shapes if sizes["H"] is not None else shapes[:1]
        expected = [tuple(sizes[symbol] for symbol in shape.split()) for shape in allowed]
        if arrays[name].shape not in expected:
            wanted = (f"[{', '.join(s.split())}] = {sized}" for s, sized in zip(allowed, expected, strict=True))
            raise InvalidInput(
                f"member {name!r} must have the shape {' or '.join(wanted)}, found {arrays[name].shape} ({meaning})"
            )


def require_partition(bounds: Ints, total: int, name: str) -> None:
    """That `bounds` rises from 0 to `total`; compared, not subtracted, so that nothing can overflow."""
    if bounds[0] != 0 or bounds[-1] != total or np.any(bounds[:-1] > bounds[1:]):
        raise InvalidInput(f"member {name!r} must rise from 0 to {total} and never fall")


# --- the header ---


def written_header(header: dict[str, Any]) -> Any:
    """The header as the bytes of its array."""
    return np.frombuffer(json.dumps(header).encode("ascii"), dtype=np.uint8)


def read_header(content: Any, kind: str, version: int, *others: str) -> dict[str, Any]:
    """The JSON object in a header, with its kind and its version, all the `others` as keys, and the labels."""
    try:
        header = parsed(content.tobytes())
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the header is not JSON text in UTF-8 ({error})") from error
    wanted = ("kind", "version", *others, *_LABELS)
    if not isinstance(header, dict) or "kind" not in header or "version" not in header:
        raise InvalidInput("the header must be a JSON object with at least kind and version")
    require_kind(header["kind"], header["version"], version, kind)
    if set(header).difference(_PARTS) != set(wanted):
        raise InvalidInput(f"the header must have the keys {', '.join(wanted)}, found {shown(list(header))}")
    return header


def _header(content: Any) -> dict[str, Any]:
    header = read_header(content, KIND, VERSION, "name", "criterion", "constraints")
    if not isinstance(header["constraints"], list):
        raise InvalidInput("the constraints in the header must be a list of names")
    if "" in header["constraints"]:
        raise InvalidInput("the name of a constraint in the header is empty; give it one")
    return _checked(header, "the criterion in the header")


def _checked(header: dict[str, Any], criterion: str) -> dict[str, Any]:
    """A header in plain types, read or to be written."""
    return header | {
        "name": text(header["name"], "the name of the model"),
        "criterion": criterion_in_file(header["criterion"], criterion),  # json writes a double so that it reads back
        "constraints": [text(name, "the name of a constraint") for name in header["constraints"]],
    }


_LABELS, _PARTS = {"states": "state", "actions": "action"}, {"state_parts": "state", "action_parts": "action"}
"""The entries of a header for labels, and, where they are there, for the names of their parts."""


def labels_to_header(record: Any) -> dict[str, Any]:
    """The entries of a header for the labels of anything that has some."""
    labels = {what: getattr(record, f"{what}_labels") for what in _LABELS.values()}
    parts = {key: parts_of(labels[what]) for key, what in _PARTS.items()}
    return {key: labels_in_file(labels[what], what) for key, what in _LABELS.items()} | {
        key: names for key, names in parts.items() if names is not None
    }


def labels_from_header(header: dict[str, Any]) -> dict[str, Any]:
    """The labels of states and actions that a header has."""
    return {
        f"{what}_labels": with_parts(labels_in_file(header[key], what, IN_JSON), header.get(f"{what}_parts"), what)
        for key, what in _LABELS.items()
    }


def labels_in_file(labels: Any, what: str, kinds: str = IN_PYTHON) -> tuple[Any, ...] | None:
    if labels is None:
        return None
    if not isinstance(labels, tuple | list):
        raise InvalidInput(f"the labels of the {what}s must be a list or null, found {shown(labels)}")
    return tuple(plain(label, f"{what} {position}", kinds) for position, label in enumerate(labels))


# --- the members of the zip ---


def unpacked(path: Path, layout: Layout, what: str) -> dict[str, Any]:
    """The arrays of a file, those of its `layout` and no others; `what` is in it."""
    return {name: _array(name, content, layout[name]) for name, content in _members(path, layout, what).items()}


def _members(path: Path, layout: Layout, what: str) -> dict[str, bytes]:
    """The content of every member of a layout, its checksum verified."""
    with open(path, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        if size == 0:
            raise InvalidInput("the file is empty")
        try:
            with zipfile.ZipFile(stream) as archive:
                members = archive.infolist()
                _require_members([member.filename for member in members], layout, what)
                for member in members:
                    if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
                        raise InvalidInput(
                            f"member {member.filename!r} is compressed; store it uncompressed, as numpy.savez does"
                        )
                if sum(member.file_size for member in members) > size:
                    raise InvalidInput("the members claim to be larger than the file; it is truncated or corrupted")
                _require_nothing_else(archive, stream, size)
                return {member.filename.removesuffix(".npy"): archive.read(member) for member in members}
        except InvalidInput:
            raise
        except _ZIP_ERRORS as error:
            raise InvalidInput(f"is not a readable .npz file, or is truncated or corrupted ({error})") from error


def _require_nothing_else(archive: zipfile.ZipFile, stream: BinaryIO, size: int) -> None:
    """That the members are all there is, one after the other, and say of themselves what the directory says of them.

    Otherwise two readers of the same file could find two models: one goes by the directory, another by the members.
    """
    position = 0
    for member in sorted(archive.infolist(), key=lambda member: member.header_offset):
        stream.seek(position)
        fixed = struct.unpack("<4s5H3I2H", stream.read(30))
        signature, _, flags, method, _, _, checksum, packed, unpacked, name_length, extra_length = fixed
        name, extra = stream.read(name_length), stream.read(extra_length)
        if packed == unpacked == _IN_EXTRA and extra[:4] == struct.pack("<HH", 1, 16):
            unpacked, packed = struct.unpack("<QQ", extra[4:20])
        said = (signature, position, flags & _UNREADABLE, method, checksum, packed, unpacked, name.decode("ascii"))
        listed = (member.header_offset, 0, 0, member.CRC, member.file_size, member.file_size, member.filename)
        if said != (b"PK\x03\x04", *listed) or member.flag_bits & _UNREADABLE:
            raise InvalidInput(
                f"member {member.filename!r} is not where or what the directory of the zip says, or something stands "
                f"before it; write the file anew, as numpy.savez does"
            )
        position += 30 + name_length + extra_length + member.file_size
    stream.seek(size - 22)  # of the record at the end, if there is no comment
    if archive.start_dir != position or archive.comment or stream.read(4) != b"PK\x05\x06":
        raise InvalidInput("the zip has something else after its members than their directory")


_UNREADABLE = 1 | 8  # flags of a member: encrypted; sizes that stand after it


# What Python's zipfile raises on damaged archives. OSError and ValueError: offsets outside the file. RuntimeError and
# its NotImplementedError: encryption, unknown compression. struct.error: fields that end early.
_ZIP_ERRORS = (zipfile.BadZipFile, OSError, ValueError, RuntimeError, EOFError, OverflowError, struct.error, zlib.error)


OTHERS = {  # what else may be in an .npz, by its members, and what reads it
    "a model": ([*LAYOUT], "ib.load"),
    "a policy": (["header", "offsets", "actions", "probabilities"], "ib.Policy.load"),
    "a mixture": (["header", "offsets", "actions", "weights", "probabilities"], "ib.Mixture.load"),
}


def _require_members(found: list[str], layout: Layout, what: str) -> None:
    wanted = [f"{name}.npy" for name in layout]
    for other, (names, loads) in OTHERS.items():
        if other != what and set(found) == {f"{name}.npy" for name in names}:
            raise InvalidInput(f"holds {other}, where {what} is wanted; {loads} reads it")
    for name in wanted:
        if name not in found:
            raise InvalidInput(f"has no member {name!r}; {what} has the members {', '.join(wanted)}")
    for name in found:
        if name not in wanted:
            raise InvalidInput(f"has a member {shown(name)}; {what} has only the members {', '.join(wanted)}")
    if len(found) != len(wanted):
        raise InvalidInput("has the same member twice")


_ARRAY_HEADER = re.compile(
    rb"\{ *'descr': *'(?P<type>[<>|=]?[a-z]\d{1,2})', *'fortran_order': *(?P<columns>True|False), *"
    rb"'shape': *\((?P<shape>[\d, ]{0,60})\),? *\} *\n?",
)


def _array(name: str, content: bytes, described: tuple[str, ...]) -> Any:
    """The array in a .npy member, a view of its bytes; it is as a layout has it `described`."""
    types, *shapes = described
    accepted = types.split()
    length_bytes = {b"\x01": 2, b"\x02": 4, b"\x03": 4}.get(content[6:7])
    if content[:6] != b"\x93NUMPY" or length_bytes is None:
        raise InvalidInput(f"member {name!r} is not an array in NumPy's .npy format")
    start = 8 + length_bytes
    end = start + int.from_bytes(content[8:start], "little")
    if end > min(len(content), 4096):
        raise InvalidInput(f"member {name!r} has an array header that is truncated or too long")
    header = _ARRAY_HEADER.fullmatch(content[start:end])
    if header is None or header["type"].decode() not in accepted:
        found = header["type"].decode() if header else shown(content[start:end])
        raise InvalidInput(f"member {name!r} must be an array of the type {' or '.join(accepted)}, found {found}")
    dtype = np.dtype(header["type"].decode())
    shape = tuple(int(length) for length in header["shape"].split(b",") if length.strip())
    dimensions = sorted({len(symbols.split()) for symbols in shapes})
    if len(shape) not in dimensions:
        known = "1 dimension" if dimensions == [1] else f"{' or '.join(map(str, dimensions))} dimensions"
        raise InvalidInput(f"member {name!r} must have {known}, found {len(shape)}")
    claimed = dtype.itemsize
    for length in shape:  # Python's integers: no overflow
        claimed *= length
    if claimed != len(content) - end or max(shape, default=0) > LARGEST:  # 0 x anything would claim no bytes
        raise InvalidInput(
            f"member {name!r} claims {claimed:,} bytes in its array header, but holds {len(content) - end:,}"
        )
    entries = np.frombuffer(content, dtype=dtype, offset=end)
    return entries.reshape(shape[::-1]).T if header["columns"] == b"True" else entries.reshape(shape)
