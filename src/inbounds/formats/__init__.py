"""Models and policies in and out of files. The suffix of the path decides the format.

A model:
    .npz    for models of any size: arrays, read and written fast          formats/npz.py
    .toml   for small models: text that people read, write and compare     formats/toml.py
A policy:
    .npz    for many states                                                formats/policy_npz.py
    .json   text that people read, and controllers without this library    formats/policy_json.py
    .csv    for spreadsheets                                               formats/policy_csv.py

Those of a model keep it exactly: every number to the last bit, and the labels. A file is data, never code, and is
trusted in nothing: whatever is wrong with it, reading ends in one `InvalidInput` that names the file and the problem,
and needs memory in proportion to the size of the file. docs/files.md describes the formats for those who write them
elsewhere.

A format is one file with two functions and one line in the table `FORMATS`. It knows no record of a model:

    read(path) -> fields        what ``CMDP(**fields)`` takes, in plain data, and with which others make the model
    write(model, stream)        from anything that has the same attributes

The fields, for S states, n pairs and, if there is one, a horizon H:

    offsets [S + 1], actions [n], initial [S]
    transition                  a CSR array [n, S], or a tuple of H where it depends on the stage
    reward                      [n], or [H, n] where it depends on the stage
    constraints                 a list of {"name": text, "signal": as the reward, "at_least" or "at_most": bound}
    discount, horizon, average  exactly one of the three; of a model, `criterion` is the dict of that one
    state_labels, action_labels, name

Those of a policy: offsets, actions, state_labels, action_labels, and its probabilities [n], with a horizon [H, n]. All
three formats keep them to the last bit, and which state and action they belong to.

A mixture of policies:
    .npz    for many states                                                formats/mixture_npz.py
    .json   for controllers; its policies are as in the .json of a policy  formats/mixture_json.py
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from inbounds.errors import InvalidInput
from inbounds.formats import mixture_json, mixture_npz, npz, policy_csv, policy_json, policy_npz, toml
from inbounds.formats.atomic import naming, replaced, require_regular, require_writable
from inbounds.inputs import file_path
from inbounds.tables import printable

FORMATS: dict[str, Any] = {".npz": npz, ".toml": toml}
MIXTURE_FORMATS: dict[str, Any] = {".json": mixture_json, ".npz": mixture_npz}

POLICY_FORMATS: dict[str, Any] = {".json": policy_json, ".npz": policy_npz, ".csv": policy_csv}


def read_model(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of the model in a file, ``.npz`` or ``.toml``, for ``CMDP(**fields)``; ``ib.load`` makes the model.

    Their form has been checked; whether the numbers are a model is for the record to say.
    """
    return _read(path, FORMATS, "model")


def write_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to a file, ``.npz`` or ``.toml``; the same as ``cmdp.save(path)``.

    The same model gives the same bytes. The file is written whole or not at all: when anything goes wrong, whatever
    was there before is still there.
    """
    _write(model, path, FORMATS, "model")


def read_policy(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of the policy in a file; ``ib.Policy.load`` makes the policy, and checks the numbers."""
    return _read(path, POLICY_FORMATS, "policy")


def write_policy(policy: Any, path: str | os.PathLike[str]) -> None:
    """Write a policy to a file, whole or not at all; the same as ``policy.save(path)``."""
    _write(policy, path, POLICY_FORMATS, "policy")


def read_mixture(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file ``.json`` or ``.npz`` has of a mixture of policies; ``ib.Mixture.load`` makes the mixture."""
    return _read(path, MIXTURE_FORMATS, "mixture")


def write_mixture(mixture: Any, path: str | os.PathLike[str]) -> None:
    """Write a mixture to a file, whole or not at all; the same as ``mixture.save(path)``."""
    _write(mixture, path, MIXTURE_FORMATS, "mixture")


def require_written(path: str | os.PathLike[str], what: str) -> None:
    """That a `what` ("model", "policy" or "mixture") can be written to a file: to be asked before long work."""
    tables = {"model": FORMATS, "policy": POLICY_FORMATS, "mixture": MIXTURE_FORMATS}
    file, _ = _recognised(path, tables[what], what)
    with naming(file, "written"):
        require_writable(file)


def _read(path: str | os.PathLike[str], formats: dict[str, Any], what: str) -> Any:
    file, file_format = _recognised(path, formats, what)
    with naming(file, "read"):
        require_regular(file)
        return file_format.read(file)


def _write(record: Any, path: str | os.PathLike[str], formats: dict[str, Any], what: str) -> None:
    file, file_format = _recognised(path, formats, what)
    with naming(file, "written"), replaced(file) as stream:
        file_format.write(record, stream)


def _recognised(path: str | os.PathLike[str], formats: dict[str, Any], what: str) -> tuple[Path, Any]:
    file = file_path(path, f"the path of a {what}")
    file_format = formats.get(file.suffix.lower())
    if file_format is None:
        *others, last = formats
        wanted = f"{', '.join(others)} or {last}" if others else last
        raise InvalidInput(f"{printable(file)}: the suffix {file.suffix!r} is not a {what} format; it must be {wanted}")
    return file, file_format
